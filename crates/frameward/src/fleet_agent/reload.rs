//! Reloads that the agent asks the gateway for.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use report::control_socket::Outcome;
use tracing::{error, warn};

use super::turn::Work;
use super::{Agent, NotReloaded, RunningGateway, Told};

/// Answer of a gateway that is to read its configuration again.
pub(super) enum Reloaded {
    /// It has it.
    Taken,
    /// It goes on with the one before: why.
    Refused(String),
    /// None runs.
    NoGateway,
    /// It did not tell: how.
    Unknown(String),
}

/// Has the gateway read its configuration again.
pub(super) fn reload(gateway: &dyn RunningGateway, told: &mut Told) -> Reloaded {
    let was_away = std::mem::take(&mut told.is_gateway_away);
    match gateway.reload() {
        Ok(Outcome { done: true, .. }) => Reloaded::Taken,
        Ok(Outcome { done: false, lines }) => {
            // As a terminal gets them; a log says how grave they are by itself.
            let mut lines = lines.iter().map(|line| line.strip_prefix("error: ").unwrap_or(line)).peekable();
            let why = lines.peek().map_or_else(String::new, |first| format!(": {first}"));
            lines.for_each(|line| error!(event = "fleet-version-refused", "{line}"));
            Reloaded::Refused(format!("the gateway refuses it{why}"))
        }
        Err(NotReloaded::NoGateway(why)) => {
            told.is_gateway_away = true;
            if !was_away {
                warn!(event = "fleet-gateway-away", "{why}");
            }
            Reloaded::NoGateway
        }
        Err(NotReloaded::Unknown(why)) => {
            warn!(event = "fleet-gateway-away", "{why}");
            Reloaded::Unknown(why)
        }
    }
}

impl Agent {
    /// Has the gateway take a version that is on no trial. It is asked again until it has it: the operator relies on what is confirmed.
    pub(super) fn reload_untried(&self, gateway: &dyn RunningGateway, told: &mut Told) {
        let version = self.folder.version();
        let reloaded = reload(gateway, told);
        told.is_unloaded = !matches!(reloaded, Reloaded::Taken);
        match &reloaded {
            Reloaded::Taken => self.seen.confirmed(version),
            Reloaded::NoGateway => self.seen.waits(),
            Reloaded::Refused(why) | Reloaded::Unknown(why) => {
                self.seen.refused(version, format!("not taken from its folder yet: {why}"));
            }
        }
        told.reloaded(&reloaded);
    }

    /// Asks the gateway again, if it is time to.
    pub(super) fn reload_again(&self, gateway: &dyn RunningGateway, told: &mut Told, stop: &AtomicBool) {
        match told.reload {
            Some((at, _)) if at <= Instant::now() => {}
            _ => return,
        }
        let Some(_turn) = self.turns.work(Work::Version, stop) else { return };
        match told.is_unloaded {
            true => self.reload_untried(gateway, told),
            false => {
                let reloaded = reload(gateway, told);
                told.reloaded(&reloaded);
            }
        }
    }
}
