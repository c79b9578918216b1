//! What a user sees of running gateways: which of them is meant, and its report as text.

mod find;
mod text;
mod watch;

use std::io;
use std::path::{Path, PathBuf};

use crate::control_socket::{Reply, Request, STATUS_GROUP, client};
use crate::report::GatewayReport;
pub use find::{Found, find};
pub use text::{Detail, StatusText};
pub use watch::watch;

/// The environment variable that names another directory for control sockets.
pub const RUNTIME_DIR_VARIABLE: &str = "FRAMEWARD_RUNTIME_DIR";

const DEFAULT_RUNTIME_DIR: &str = "/run/frameward";
const SOCKET_SUFFIX: &str = ".sock";

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The name is none that anything here can have.
    #[error(
        "{0:?} names no gateway, link, site or configuration; use 1 to 32 of a-z, 0-9, _ and -, or FILE.toml"
    )]
    BadName(String),
    /// No gateway is running.
    #[error("no gateway is running (no socket in {}); start one with: frameward run CONFIG", .0.display())]
    None(PathBuf),
    /// Several are running.
    #[error("several gateways are running; name one of {}", .0.join(", "))]
    Several(Vec<String>),
    /// Several have something of this name.
    #[error("{0:?} is found in several gateways; name one of {list}", list = .1.join(", "))]
    Ambiguous(String, Vec<String>),
    /// None is or has what was named; what runs.
    #[error("nothing that runs is named {0:?}; what runs: {1}")]
    Unknown(String, String),
    /// The gateway does not answer.
    #[error("gateway {name} does not answer on {}: {source}; is it running, and is this run as root, as the gateway's user or by a member of group {STATUS_GROUP}?", path.display())]
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

/// The directory of the control sockets.
pub fn runtime_dir() -> PathBuf {
    std::env::var_os(RUNTIME_DIR_VARIABLE)
        .filter(|directory| !directory.is_empty())
        .map_or_else(|| DEFAULT_RUNTIME_DIR.into(), PathBuf::from)
}

/// The socket of a gateway.
pub(crate) fn socket_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{SOCKET_SUFFIX}"))
}

/// Asks a gateway for its report, as the JSON text that it sends: one line.
///
/// # Errors
///
/// `Silent`.
pub fn ask(directory: &Path, name: &str) -> Result<String, StatusError> {
    let answer = client::ask(directory, name, &Request::Status {}).and_then(|reply| match reply {
        Reply::Report(report) => Ok(report.get().to_owned()),
        Reply::Error(why) => Err(io::Error::other(why)),
        Reply::Done(_) | Reply::Refused(_) => Err(io::ErrorKind::InvalidData.into()),
    });
    let path = socket_path(directory, name);
    answer.map_err(|source| StatusError::Silent { name: name.to_owned(), path, source })
}

/// Reads what [`ask`] returned.
///
/// # Errors
///
/// `Unreadable`.
pub fn parse(name: &str, document: &str) -> Result<GatewayReport, StatusError> {
    serde_json::from_str(document).map_err(|source| StatusError::Unreadable { name: name.to_owned(), source })
}

#[cfg(test)]
mod tests;
