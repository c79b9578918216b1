//! One request over the control socket, and its answer.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};
use serde_json::value::RawValue;

use super::{Reply, Request};
use crate::runtime_dir::{lock_path, socket_path};
use pnstore::own_lock;

/// The longest answer that is read, in octets: a report of many cells.
const LONGEST_ANSWER: u64 = 16 << 20;
/// Time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time to see whether somebody listens.
const LOOK: Duration = Duration::from_millis(100);
/// Time a reload may take: many links with new interfaces. The gateway itself gives up a little earlier.
const RELOAD_PATIENCE: Duration = Duration::from_secs(35);

/// A connection; a gateway that stands still, with others waiting already, holds up nobody for longer than `patience`. Neither do
/// writes.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(
        &socket,
        sockopt::SendTimeout,
        &TimeVal::milliseconds(i64::try_from(patience.as_millis()).unwrap_or(i64::MAX)),
    )?;
    nix::sys::socket::connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket.into())
}

/// Whether the process of the gateway `name` lives: it has its lock all the while, also where it becomes another program and nobody listens.
/// A user who may not open the lock tries to connect. One who may not do that either cannot tell, and hears so where he asks.
pub(crate) fn is_running(directory: &Path, name: &str) -> bool {
    let path = socket_path(directory, name);
    let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let listens = || connect(&path, LOOK).map_or_else(|error| !is_refused(error), |_| true);
    own_lock::is_taken(&lock_path(&path)).unwrap_or_else(|_| listens())
}

/// Sends one request, and returns what is answered.
pub(crate) fn ask(directory: &Path, name: &str, request: &Request) -> io::Result<Reply<Box<RawValue>>> {
    let mut socket = connect(&socket_path(directory, name), PATIENCE)?;
    let patience = if matches!(request, Request::Reload { .. } | Request::Upgrade {}) {
        RELOAD_PATIENCE
    } else {
        PATIENCE
    };
    socket.set_read_timeout(Some(patience))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    socket.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(socket).take(LONGEST_ANSWER).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was closed"));
    }
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::runtime_dir::SOCKET_SUFFIX;
    use testkit::TestDirectory;

    /// A gateway that stands still takes no connection; when as many wait as the kernel lets, the next one would wait for ever.
    #[test]
    fn a_gateway_that_stands_still_holds_up_nobody() {
        let directory = TestDirectory::new("still");
        let path = directory.path().join(format!("line{SOCKET_SUFFIX}"));
        let still = UnixListener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match connect(&path, Duration::from_millis(20)) {
                Ok(one) => waiting.push(one),
                Err(error) => break error,
            }
            assert!(waiting.len() <= 10_000, "the kernel takes any number");
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // No lock is there: it was of no gateway.
        assert!(!is_running(directory.path(), "line"));
        let lock = own_lock::take(&lock_path(&path)).unwrap();
        drop(still);
        assert!(is_running(directory.path(), "line"));
        drop(lock);
        assert!(!is_running(directory.path(), "line"));
    }
}
