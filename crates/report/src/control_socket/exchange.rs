//! One request over the control socket, and its answer.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::value::RawValue;

use super::{Reply, Request};
use crate::runtime_dir::socket_path;

/// The longest answer that is read, in octets: a report of many cells.
const LONGEST_ANSWER: u64 = 16 << 20;
/// Time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time a reload may take: many links with new interfaces. The gateway itself gives up a little earlier.
const RELOAD_PATIENCE: Duration = Duration::from_secs(35);

/// Sends one request, and returns what is answered.
pub(crate) fn ask(directory: &Path, name: &str, request: &Request) -> io::Result<Reply<Box<RawValue>>> {
    let mut socket = UnixStream::connect(socket_path(directory, name))?;
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
