//! The gateway that an agent configures: one beside it, or one that has not started yet. The one that the agent is a part of stands in
//! [`run`](crate::run).

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fleet::install::ConfigurationFolder;
use report::control_socket::Outcome;
use report::control_socket::client::{self, RequestError};
use report::{AskError, GatewayReport};

/// No gateway runs.
#[derive(Clone, Copy, Debug)]
pub struct NoGateway;

/// Why it is not known whether a gateway has another configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotReloaded {
    /// None runs: it reads the configuration when it starts.
    NoGateway(String),
    /// It does not tell.
    Unknown(String),
}

/// A gateway that can be asked.
pub trait RunningGateway: fmt::Debug + Send {
    /// Its report; none if it does not tell, or starts.
    ///
    /// # Errors
    /// No gateway runs.
    fn report(&self) -> Result<Option<GatewayReport>, NoGateway>;

    /// Has it read its configuration again.
    ///
    /// # Errors
    /// [`NotReloaded`].
    fn reload(&self) -> Result<Outcome, NotReloaded>;

    /// Whether its next start is that of an agent, too.
    fn begins_with_agent(&self) -> bool {
        false
    }

    /// Has it end, to be started again; why. Asked of a gateway that begins with its agent alone.
    fn end(&self, _why: &str) {}
}

/// A gateway of another process, asked over its control socket.
#[derive(Debug)]
pub struct BesideGateway {
    /// Its name.
    pub name: String,
    /// Directory of its socket.
    pub runtime: PathBuf,
}

impl RunningGateway for BesideGateway {
    fn report(&self) -> Result<Option<GatewayReport>, NoGateway> {
        let document = match report::ask(&self.runtime, &self.name) {
            Err(AskError::Silent { source, .. }) if is_no_gateway(&source) => return Err(NoGateway),
            asked => asked,
        };
        let report = document.and_then(|document| report::parse(&self.name, &document));
        Ok(report.ok())
    }

    fn reload(&self) -> Result<Outcome, NotReloaded> {
        client::reload(&self.runtime, &self.name, false).map_err(|error| match &error {
            RequestError::Silent { source, .. } if is_no_gateway(source) => {
                NotReloaded::NoGateway(error.to_string())
            }
            _ => NotReloaded::Unknown(error.to_string()),
        })
    }
}

/// True if nobody listens there; a gateway that is slow, or does not let this user ask, runs.
fn is_no_gateway(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// A gateway that waits for a configuration to start with. When it is there, the agent is told to end.
#[derive(Debug)]
pub struct GatewayToStart {
    /// Folder of the configuration to come.
    pub folder: ConfigurationFolder,
    /// The version that it does not start with; none: there was none yet.
    pub unusable: Option<u64>,
    /// Signal for the agent to end.
    pub stop: Arc<AtomicBool>,
}

impl RunningGateway for GatewayToStart {
    fn report(&self) -> Result<Option<GatewayReport>, NoGateway> {
        Err(NoGateway)
    }

    fn reload(&self) -> Result<Outcome, NotReloaded> {
        if self.folder.version() != self.unusable {
            self.stop.store(true, Ordering::Relaxed);
        }
        Err(NotReloaded::NoGateway("the gateway waits for a version to start with".to_owned()))
    }
}
