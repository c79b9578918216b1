//! The report of a running gateway as text: which gateway is meant, and what of it people read.

mod find;
mod text;
mod watch;

use std::path::PathBuf;

pub use find::{Found, find};
use report::AskError;
pub use text::{Detail, StatusText};
pub use watch::watch;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The name is none that anything here can have.
    #[error(
        "{0:?} names no gateway, link, site or configuration; use 1 to 32 of a-z, 0-9, _ and -, or FILE.toml"
    )]
    BadName(String),
    /// No gateway is running.
    #[error("no gateway runs (no socket in {}); start one with: frameward run CONFIG", .0.display())]
    None(PathBuf),
    /// Those that ran have left their sockets.
    #[error(
        "no gateway runs: {list} ended without taking the socket away; start one with: frameward run CONFIG",
        list = .0.join(", ")
    )]
    Ended(Vec<String>),
    /// Several are running.
    #[error("several gateways run; name one of {}", .0.join(", "))]
    Several(Vec<String>),
    /// Several have something of this name.
    #[error("{0:?} is found in several gateways; name one of {list}", list = .1.join(", "))]
    Ambiguous(String, Vec<String>),
    /// None is or has what was named; what runs.
    #[error("nothing that runs has the name {0:?}; running: {1}")]
    Unknown(String, String),
    /// The gateway that was meant tells nothing.
    #[error(transparent)]
    Ask(#[from] AskError),
}

#[cfg(test)]
mod tests;
