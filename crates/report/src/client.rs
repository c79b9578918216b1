//! The user's side of the status socket.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::GatewayReport;

/// The environment variable that names another directory for status sockets.
pub const RUNTIME_DIR_VARIABLE: &str = "FRAMEWARD_RUNTIME_DIR";

const DEFAULT_RUNTIME_DIR: &str = "/run/frameward";
/// Behind the name of a gateway.
pub const SOCKET_SUFFIX: &str = ".sock";
/// The largest report that is read, in octets.
const LARGEST_REPORT: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a gateway tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The gateway does not answer.
    #[error("gateway {name} does not answer on {}: {source}; is it running, and may this user ask it?", path.display())]
    Silent {
        /// The gateway.
        name: String,
        /// Its socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The answer is no report.
    #[error(
        "gateway {name} answered with no report this release reads: {source}; use its own release, or --json"
    )]
    Unreadable {
        /// The gateway.
        name: String,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
}

/// The directory of the status sockets.
pub fn runtime_dir() -> PathBuf {
    std::env::var_os(RUNTIME_DIR_VARIABLE)
        .filter(|directory| !directory.is_empty())
        .map_or_else(|| DEFAULT_RUNTIME_DIR.into(), PathBuf::from)
}

/// The socket of a gateway.
pub fn socket_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{SOCKET_SUFFIX}"))
}

/// Asks a gateway for its report, as the JSON text that it sends.
///
/// # Errors
///
/// `Silent`.
pub fn ask(directory: &Path, name: &str) -> Result<String, AskError> {
    let path = socket_path(directory, name);
    let receive = || {
        let socket = UnixStream::connect(&path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut document = String::new();
        socket.take(LARGEST_REPORT).read_to_string(&mut document)?;
        Ok(document)
    };
    receive().map_err(|source| AskError::Silent { name: name.to_owned(), path: path.clone(), source })
}

/// Reads what [`ask`] returned.
///
/// # Errors
///
/// `Unreadable`.
pub fn parse(name: &str, document: &str) -> Result<GatewayReport, AskError> {
    serde_json::from_str(document).map_err(|source| AskError::Unreadable { name: name.to_owned(), source })
}
