//! The report of a running gateway, as its users read it over the control socket.

use std::io;
use std::path::{Path, PathBuf};

use super::GatewayReport;
use super::control_socket::exchange;
use super::control_socket::{Reply, Request, STATUS_GROUP};
use super::runtime_dir::socket_path;

/// Why a gateway tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The gateway does not answer.
    #[error("gateway {name} does not answer on {}: {source}; check that it runs, and ask as root, as the gateway's user or as a member of group {STATUS_GROUP}", path.display())]
    Silent {
        /// The gateway.
        name: String,
        /// Its socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The answer is no report.
    #[error(
        "gateway {name} sent a report that this release cannot read: {source}; use its own release, or --json"
    )]
    Unreadable {
        /// The gateway.
        name: String,
        /// The fault of the answer.
        source: serde_json::Error,
    },
}

/// Asks a gateway for its report, as the JSON text that it sends: one line.
///
/// # Errors
///
/// `Silent`.
pub fn ask(directory: &Path, name: &str) -> Result<String, AskError> {
    let answer = exchange::ask(directory, name, &Request::Status {}).and_then(|reply| match reply {
        Reply::Report(report) => Ok(report.get().to_owned()),
        Reply::Error(why) => Err(io::Error::other(why)),
        Reply::Done(_) | Reply::Refused(_) | Reply::Busy(_) => Err(io::ErrorKind::InvalidData.into()),
    });
    let path = socket_path(directory, name);
    answer.map_err(|source| AskError::Silent { name: name.to_owned(), path, source })
}

/// Whether the process of the gateway `name` lives, as far as its lock or its socket tells.
pub fn is_running(directory: &Path, name: &str) -> bool {
    exchange::is_running(directory, name)
}

/// Reads what [`ask`] returned.
///
/// # Errors
///
/// `Unreadable`.
pub fn parse(name: &str, document: &str) -> Result<GatewayReport, AskError> {
    serde_json::from_str(document).map_err(|source| AskError::Unreadable { name: name.to_owned(), source })
}
