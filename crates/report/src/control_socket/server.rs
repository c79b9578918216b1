//! The gateway's side of its control socket.
//!
//! The socket is made under another name, closed to others, and renamed, so that it is never open to all and a
//! dead gateway's socket is replaced in one step. A lock beside it, which no other account can hold, says that its
//! gateway lives: nothing here waits for anybody.
//!
//! Each connection has a thread of its own, which ends when the client is silent, or does not read, for a second. A user
//! has [`CONNECTIONS_OF_ONE`] connections at a time, and all users but root and the gateway's own together
//! [`CONNECTIONS`]; others are closed at once. So who may only read cannot keep anybody from changing something. Such a user has ten answers a
//! second on each of his connections, and all of these users have ten reports.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use super::{LONGEST_REQUEST, Reply, Request, STATUS_GROUP};
use crate::GatewayReport;
use crate::runtime_dir::lock_path;
use crate::socket_path;
use pnstore::own_lock;

/// Time a client may take to send a request, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two answers to a user who may only read, and for which a report serves all of these.
const FRESH: Duration = Duration::from_millis(100);
/// Connections of one user at a time.
const CONNECTIONS_OF_ONE: usize = 8;
/// Connections at a time of all users that may only read.
const CONNECTIONS: usize = 24;
/// Octets of stack for each connection: all memory is locked, and so is this.
const STACK: usize = 256 << 10;
const ROOT: u32 = 0;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A living gateway has the name.
    #[error("gateway {0} is already running; stop it, or give this one another name")]
    AlreadyRunning(String),
    /// The socket cannot be made.
    #[error("cannot make the socket {}: {source}; let the gateway write to its directory", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A control socket and the thread behind it. Both go when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Why [`STATUS_GROUP`] cannot read, although it exists.
    closed_to_group: Option<String>,
    /// Its holder owns the socket.
    lock: File,
}

impl ControlSocket {
    /// Makes the control socket of the gateway `name` in `directory` (made if missing), and answers each request that its
    /// sender may make with what `answer` returns, which is called on a thread of the connection.
    ///
    /// # Errors
    ///
    /// [`ServeError`]; a socket that a dead gateway left is none.
    pub fn serve(
        directory: &Path,
        name: &str,
        answer: impl Fn(Request) -> Reply<GatewayReport> + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        Self::serve_locked(directory, name, None, answer)
    }

    /// The same with a `lock` that this process has had all the while, since the program before it ([`ControlSocket::lock`]).
    ///
    /// # Errors
    ///
    /// As [`ControlSocket::serve`].
    pub fn serve_locked(
        directory: &Path,
        name: &str,
        lock: Option<File>,
        answer: impl Fn(Request) -> Reply<GatewayReport> + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let path = socket_path(directory, name);
        let failed = |source| ServeError::Socket { path: path.clone(), source };
        let Some((listener, lock, given)) = listen(directory, &path, lock).map_err(failed)? else {
            return Err(ServeError::AlreadyRunning(name.to_owned()));
        };
        let stopping = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn({
                let stopping = Arc::clone(&stopping);
                move || accept(&listener, &stopping, &Arc::new(answer))
            })
            .map_err(failed)?;
        let closed_to_group = given.err().map(|error| {
            format!("group {STATUS_GROUP} cannot read the status: {error}; add the gateway's user to it, and restart the gateway")
        });
        Ok(Self { path, stopping, thread: Some(thread), closed_to_group, lock })
    }

    /// The lock that says that its gateway lives. It goes when its last descriptor is closed.
    pub const fn lock(&self) -> &File {
        &self.lock
    }

    /// Why the members of [`STATUS_GROUP`] cannot read the status, although there is such a group.
    pub fn closed_to_group(&self) -> Option<&str> {
        self.closed_to_group.as_deref()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // The connection ends the thread's wait. If it fails the thread must not be waited for.
        let woken = UnixStream::connect(&self.path).is_ok();
        let _ = fs::remove_file(&self.path);
        if let (true, Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// The listener, its lock, and whether the group that may read could be given the socket.
type Listening = (UnixListener, File, io::Result<()>);

/// Listens on `path`, or not if somebody does already.
fn listen(directory: &Path, path: &Path, lock: Option<File>) -> io::Result<Option<Listening>> {
    DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    let lock = match lock {
        Some(lock) => Some(lock),
        None => own_lock::take(&lock_path(path))?,
    };
    let Some(lock) = lock else { return Ok(None) };
    let unnamed = path.with_extension("new");
    match fs::remove_file(&unnamed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&unnamed)?;
    let given = match group_number(&fs::read_to_string("/etc/group").unwrap_or_default(), STATUS_GROUP) {
        Some(group) => chown(&unnamed, None, Some(group)),
        None => Ok(()),
    };
    fs::set_permissions(&unnamed, Permissions::from_mode(0o660))?;
    fs::rename(&unnamed, path)?;
    Ok(Some((listener, lock, given)))
}

/// The number of a group in group(5). Read from the file itself: a system group is there, and what else the system would
/// load and ask for it is more than a gateway may do.
fn group_number(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// The users that are served at this moment, once for each of their connections.
type Served = Arc<Mutex<Vec<u32>>>;

/// A user's place among those that are served; free again when it is dropped.
struct Place(Served, u32);

impl Place {
    fn take(served: &Served, uid: u32, own: u32) -> Option<Self> {
        let mut users = served.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = users.iter().filter(|other| **other == uid).count();
        let of_readers = users.iter().filter(|other| !may_change(**other, own)).count();
        let is_room = of_one < CONNECTIONS_OF_ONE && (may_change(uid, own) || of_readers < CONNECTIONS);
        is_room.then(|| {
            users.push(uid);
            Self(Arc::clone(served), uid)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = users.iter().position(|uid| *uid == self.1) {
            users.swap_remove(at);
        }
    }
}

/// Whether this user may have the gateway of user `own` change something.
const fn may_change(uid: u32, own: u32) -> bool {
    uid == ROOT || uid == own
}

fn accept<A>(listener: &UnixListener, stopping: &AtomicBool, answer: &Arc<A>)
where
    A: Fn(Request) -> Reply<GatewayReport> + Send + Sync + 'static,
{
    let (served, own, readers) = (Served::default(), geteuid().as_raw(), Arc::<Readers>::default());
    for client in listener.incoming() {
        if stopping.load(Ordering::Acquire) {
            return;
        }
        // Out of file descriptors, say: that passes, and must not become a busy loop.
        let Ok(client) = client else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let Ok(user) = getsockopt(&client, PeerCredentials) else { continue };
        let Some(place) = Place::take(&served, user.uid(), own) else { continue };
        let (answer, readers) = (Arc::clone(answer), Arc::clone(&readers));
        let serve = move || {
            let (place, begin) = (place, Instant::now());
            let readers = (!may_change(place.1, own)).then_some(&*readers);
            // A client that went away, is silent or does not read is its own loss.
            let _ = converse(&client, readers, &*answer);
            drop(client);
            // A client that comes again at once gets no more than one that stays.
            if readers.is_some() {
                std::thread::sleep(FRESH.saturating_sub(begin.elapsed()));
            }
        };
        // Without a thread the client sees its connection closed, and may come again.
        drop(std::thread::Builder::new().name("control".to_owned()).stack_size(STACK).spawn(serve));
    }
}

/// Reports for users who may only read. Making one costs workers some microseconds between two turns, and writing it out costs a CPU. So
/// one is made every [`FRESH`] at most, however many ask, and each asks as often at most.
#[derive(Default)]
struct Readers(Mutex<Option<(Instant, Arc<[u8]>)>>);

impl Readers {
    /// The answer to a request for a report, not older than [`FRESH`].
    fn latest(&self, make: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Arc<[u8]>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(text));
        }
        let text: Arc<[u8]> = make()?.into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        Ok(text)
    }
}

/// Answers requests until the client ends. `readers`: for a user who may only read.
fn converse(
    mut client: &UnixStream,
    readers: Option<&Readers>,
    answer: &impl Fn(Request) -> Reply<GatewayReport>,
) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut requests = BufReader::new(client);
    let mut answered: Option<Instant> = None;
    loop {
        let mut line = Vec::new();
        (&mut requests).take(LONGEST_REQUEST).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Ok(());
        }
        if let (Some(_), Some(at)) = (readers, answered) {
            std::thread::sleep(FRESH.saturating_sub(at.elapsed()));
        }
        let request = serde_json::from_slice::<Request>(&line);
        let refused = |why| encoded(&Reply::Error(why));
        let text = match (request, readers) {
            (Err(error), _) => refused(format!("this release does not know the request: {error}"))?.into(),
            (Ok(request), None) => encoded(&answer(request))?.into(),
            (Ok(request), Some(_)) if !request.is_reading() => {
                refused("only root and the gateway's own user may do that".into())?.into()
            }
            (Ok(request), Some(readers)) => readers.latest(|| encoded(&answer(request)))?,
        };
        answered = Some(Instant::now());
        client.write_all(&text)?;
    }
}

fn encoded(reply: &Reply<GatewayReport>) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(reply).map_err(io::Error::other)?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests;
