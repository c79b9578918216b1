//! The gateway's side of its sockets: who connects to the status socket is sent one report.
//!
//! The socket is made under another name, closed to others, and renamed, so that it is never open to all and a
//! dead gateway's socket is replaced in one step. A lock beside it, which no other account can hold, says that its
//! gateway lives: nothing here waits for anybody. A thread answers one client after the other; a client that does
//! not read is dropped after a second. Nothing is read from clients of the status socket; the other one is for requests
//! (`request.rs`).

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{GatewayReport, socket_path};
use pnstore::own_lock;

/// How long a client may take to read what it is sent.
const PATIENCE: Duration = Duration::from_secs(1);

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
        /// What the system said.
        source: io::Error,
    },
}

/// A socket and the thread behind it. Both go when it is dropped.
#[derive(Debug)]
pub struct SocketServer {
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Whoever has it has the socket.
    _lock: File,
}

impl SocketServer {
    /// Makes the status socket of the gateway `name` in `directory` (made if missing) and answers each connection with
    /// what `report` returns then. `report` is called on the server's thread.
    ///
    /// # Errors
    ///
    /// [`ServeError`]; a socket that a dead gateway left is none.
    pub fn reports(
        directory: &Path,
        name: &str,
        mut report: impl FnMut() -> GatewayReport + Send + 'static,
    ) -> Result<Self, ServeError> {
        // A client that went away or does not read is its own loss.
        let serve = move |client| drop(send(client, &report()));
        Self::start(directory, name, &socket_path(directory, name), 0o660, serve)
    }

    /// Makes the socket `path` in `directory`, which those may use whom `mode` allows it, and has `serve` deal with each
    /// connection on a thread of its own, one after the other.
    ///
    /// # Errors
    ///
    /// As [`SocketServer::reports`].
    pub fn start(
        directory: &Path,
        name: &str,
        path: &Path,
        mode: u32,
        serve: impl FnMut(UnixStream) + Send + 'static,
    ) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Socket { path: path.to_owned(), source };
        let (listener, lock) = match listen(directory, path, mode) {
            Ok(Some(listening)) => listening,
            Ok(None) => return Err(ServeError::AlreadyRunning(name.to_owned())),
            Err(source) => return Err(failed(source)),
        };
        let stopping = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new()
            .name("status".to_owned())
            .spawn({
                let stopping = Arc::clone(&stopping);
                move || answer(&listener, &stopping, serve)
            })
            .map_err(failed)?;
        Ok(Self { path: path.to_owned(), stopping, thread: Some(thread), _lock: lock })
    }
}

impl Drop for SocketServer {
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

/// Listens on `path`, or not if somebody does already.
fn listen(directory: &Path, path: &Path, mode: u32) -> io::Result<Option<(UnixListener, File)>> {
    DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let Some(lock) = own_lock::take(Path::new(&lock))? else { return Ok(None) };
    let unnamed = path.with_extension("new");
    match fs::remove_file(&unnamed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&unnamed)?;
    fs::set_permissions(&unnamed, Permissions::from_mode(mode))?;
    fs::rename(&unnamed, path)?;
    Ok(Some((listener, lock)))
}

fn answer(listener: &UnixListener, stopping: &AtomicBool, mut serve: impl FnMut(UnixStream)) {
    for client in listener.incoming() {
        if stopping.load(Ordering::Acquire) {
            return;
        }
        match client {
            Ok(client) => serve(client),
            // Out of file descriptors, say: that passes, and must not become a busy loop.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn send(mut client: UnixStream, report: &GatewayReport) -> io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    client.write_all(report.document().as_bytes())
}
