//! Asking a running gateway to read its configuration again, and hearing how it went.
//!
//! The gateway listens to nobody but the kernel: SIGHUP asks, and its report over the status socket tells how it went.
//! Who may reload is who may send the gateway a signal. Whose process it is, the kernel says of the socket itself
//! (SO_PEERCRED), so no other process can get the signal in its place.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;

use report::{AskError, ReloadReport, socket_path};

/// How long a reload may take: many links with new interfaces.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Why a gateway could not be asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is no report of it.
    #[error(transparent)]
    Report(#[from] AskError),
    /// It cannot be sent a signal.
    #[error("gateway {name} cannot be asked to reload: {source}; run this as root, or as the gateway's user")]
    Signal {
        /// The gateway.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It did not say how it went.
    #[error("gateway {0} was asked to reload and has not said how it went; look at its log")]
    Unanswered(String),
}

/// Asks the gateway `name` to reload, and waits until it has.
///
/// # Errors
/// [`ReloadError`]; a configuration that is refused is none, but a report that says so.
pub fn ask(directory: &Path, name: &str) -> Result<ReloadReport, ReloadError> {
    let reported = || -> Result<Option<ReloadReport>, ReloadError> {
        let document = report::ask(directory, name)?;
        Ok(report::parse(name, &document)?.reload)
    };
    let count = |report: &Option<ReloadReport>| report.as_ref().map_or(0, |report| report.count);
    let before = count(&reported()?);
    send(directory, name).map_err(|source| ReloadError::Signal { name: name.to_owned(), source })?;
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        match reported()? {
            Some(report) if report.count > before => return Ok(report),
            _ => std::thread::sleep(LOOK),
        }
    }
    Err(ReloadError::Unanswered(name.to_owned()))
}

fn send(directory: &Path, name: &str) -> io::Result<()> {
    let socket = UnixStream::connect(socket_path(directory, name))?;
    let process = getsockopt(&socket, PeerCredentials)?.pid();
    Ok(kill(Pid::from_raw(process), Signal::SIGHUP)?)
}
