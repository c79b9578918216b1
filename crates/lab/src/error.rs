//! Errors of the laboratory. Each message is one line: what, where, and what to do where we know it.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// A failure of the laboratory itself, or of what it observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller is not root.
    #[error("the laboratory needs root for network namespaces and raw sockets: run it with sudo")]
    NeedsRoot,
    /// A program could not be started.
    #[error("cannot start `{command}`: {source} (is it installed?)")]
    Start {
        /// The command line.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A program ended with a failure.
    #[error("`{command}` ended with {status}: {message}")]
    Failed {
        /// The command line.
        command: String,
        /// Its exit.
        status: ExitStatus,
        /// The last line it wrote to standard error.
        message: String,
    },
    /// Something took longer than it was given.
    #[error("{what}: not done within {limit:?}")]
    Deadline {
        /// The event that was waited for.
        what: String,
        /// The time it had.
        limit: Duration,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The step that failed.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Other octets arrived than were sent, or a program answered something unreadable.
    #[error("{0}")]
    Unexpected(String),
}

impl Error {
    /// Names what was being done when the system refused: `.map_err(Error::system("bind a0"))`.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        let what = what.into();
        move |source| Error::System { what, source: source.into() }
    }
}

/// Refuses with [`Error::NeedsRoot`] unless the effective user is root.
pub fn require_root() -> Result<(), Error> {
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(Error::NeedsRoot) }
}
