//! A virtual machine that was brought back to an earlier state while its gateway ran, if the hypervisor says so.
//!
//! Everything in memory was used since: packet numbers of every key, agreed on or not, sessions of sites and cells. None of it
//! may go on, so the gateway ends, ports first. Started again, as its unit does, it agrees on new keys with everybody. With
//! static keys it does not start any more, since the disk may be an earlier one, too, and nobody knows which numbers were
//! used: a file in the state directory says so.
//!
//! Frames that leave between the return and the hypervisor's word, some milliseconds, cannot be helped.

use std::io;
use std::os::fd::RawFd;

use netdev::passed_on;
use netdev::vm_generation::{GenerationEvent, GenerationMonitor, not_told};
use tracing::{info, warn};

use super::{RunError, Running};

/// Hears whether the machine was brought back.
pub(super) struct Machine {
    watch: Option<GenerationMonitor>,
    told_lost: bool,
    was_restored: bool,
}

impl Machine {
    pub(super) fn watch() -> Self {
        let watch = GenerationMonitor::open();
        match (&watch, not_told()) {
            (Err(error), _) => warn!(
                event = "snapshots-not-heard",
                "cannot notice whether this machine returns to a snapshot ({error}); if it does, restart the gateway"
            ),
            // No warning: it is so on most machines, and most never go back.
            (Ok(_), Some(why)) => info!(
                event = "snapshots-not-heard",
                "may not notice whether this machine returns to a snapshot ({why}); if it does, restart the gateway"
            ),
            (Ok(_), None) => {}
        }
        Self { watch: watch.ok(), told_lost: false, was_restored: false }
    }

    /// Goes on with what the program before has heard.
    pub(super) fn go_on(descriptor: Option<RawFd>) -> io::Result<Self> {
        let watch = descriptor.map(passed_on::take).transpose()?.map(GenerationMonitor::go_on);
        Ok(Self { watch, told_lost: false, was_restored: false })
    }

    /// The descriptor that hears it.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        self.watch.as_ref().map(GenerationMonitor::descriptor)
    }

    /// Whether it was, also if somebody has asked before.
    pub(super) fn was_restored(&mut self) -> bool {
        match self.watch.as_ref().map(GenerationMonitor::poll) {
            _ if self.was_restored => true,
            Some(GenerationEvent::Restored) => {
                self.was_restored = true;
                true
            }
            Some(GenerationEvent::Lost) if !self.told_lost => {
                self.told_lost = true;
                warn!(
                    event = "snapshots-not-heard",
                    "more device events came than could be read; if this machine has returned to a snapshot, restart the gateway"
                );
                false
            }
            _ => false,
        }
    }
}

impl Running {
    /// Has nothing of what is in memory used any more, and says why the gateway ends.
    pub(super) fn give_up(&mut self) -> RunError {
        self.control.distrust_memory();
        for link in &self.links {
            // A worker that does not answer ends with the process.
            let _ = self.control.close(&link.config.name);
        }
        let has_static_keys = self.links.iter().any(|link| link.config.static_sas().is_some());
        match has_static_keys.then(|| pnstore::condemn(&self.gateway.state)) {
            None => RunError::Restored,
            Some(Ok(())) => RunError::RestoredStatic(None),
            Some(Err(error)) => RunError::RestoredStatic(Some(error)),
        }
    }
}
