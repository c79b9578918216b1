//! The HTTP surface of a running gateway, and how a reload moves it.

use std::path::Path;

use tracing::{error, info};

use super::RunError;
use super::control_handle::ControlHandle;
use crate::http::{HttpServer, Listening};
use config::{Finding, Http};

/// Change by a reload.
pub(super) enum Move {
    /// Nothing.
    Stay,
    /// To this address; without one it ends.
    To(Option<Listening>),
}

/// Server of status and metrics, if they are served.
pub(super) struct Surface {
    control_handle: ControlHandle,
    server: Option<HttpServer>,
}

impl Surface {
    /// Serves where the gateway listens.
    pub(super) fn start(
        control_handle: &ControlHandle,
        listening: Option<Listening>,
    ) -> Result<Self, RunError> {
        let mut surface = Self { control_handle: control_handle.clone(), server: None };
        surface.serve(listening).map_err(RunError::Thread)?;
        Ok(surface)
    }

    fn serve(&mut self, listening: Option<Listening>) -> std::io::Result<()> {
        // The one before has ended when the next begins.
        self.server = None;
        let control_handle = self.control_handle.clone();
        let server = listening.map(|listening| HttpServer::start(listening, move || control_handle.report()));
        self.server = server.transpose()?;
        Ok(())
    }

    /// Listens where the new configuration says. The surface before goes on, but where both would have one port: it ends
    /// first, and comes back if the new one cannot be.
    pub(super) fn prepare(
        &mut self,
        file: &Path,
        old: Option<Http>,
        new: Option<Http>,
    ) -> Result<Move, Finding> {
        let Some(new) = new else { return Ok(Move::To(None)) };
        let Some(old) = old else { return Listening::start(file, new).map(Some).map(Move::To) };
        if old.address == new.address && self.server.is_some() {
            return Ok(Move::Stay);
        }
        match Listening::start(file, new) {
            Err(_) if old.address.port() == new.address.port() => {}
            other => return other.map(Some).map(Move::To),
        }
        self.server = None;
        let listening = Listening::start(file, new);
        if listening.is_err() {
            let before = Listening::start(file, old);
            // Another program may have taken the address in this moment.
            let _ = before.map(|before| self.serve(Some(before)));
        }
        listening.map(Some).map(Move::To)
    }

    /// As [`Self::prepare`], and leaves everything as it is. Whether two addresses of one port can follow each other is not
    /// tried.
    pub(super) fn try_out(&self, file: &Path, old: Option<Http>, new: Option<Http>) -> Result<(), Finding> {
        let Some(new) = new else { return Ok(()) };
        if old.is_some_and(|old| old.address.port() == new.address.port()) {
            return Ok(());
        }
        Listening::start(file, new).map(drop)
    }

    /// Takes over what was prepared.
    pub(super) fn change(&mut self, to: Move, http: Option<Http>) {
        let Move::To(listening) = to else { return };
        let was = self.server.is_some();
        match (self.serve(listening), http) {
            (Err(error), _) => {
                error!(event = "http", "http: cannot start a thread: {error}; raise the limit of tasks");
            }
            (Ok(()), Some(http)) => info!(event = "http", "status and metrics: http://{}/", http.address),
            (Ok(()), None) if was => info!(event = "http", "status and metrics: no more over HTTP"),
            (Ok(()), None) => {}
        }
    }
}
