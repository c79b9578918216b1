//! Links that go on in the next program of this process.
//!
//! A link that has left its worker is control's: nobody protects a frame under its keys meanwhile, and what comes waits in its ports.

use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Instant;

use dataplane::job::Datapath;
use dataplane::link::Link;
use pnstore::{LeaseError, LeaseStore};

use super::Gateway;
use crate::WorkerUnresponsive;
use crate::jobs::SwapDatapath;
use crate::link::Keys;
use crate::static_keys::TransmitLease;
use crate::workers::WorkerSlot;

/// A link that has left its worker for a moment.
pub struct HaltedLink {
    /// Its name.
    pub name: String,
    /// The PNs of its transmit SA.
    pub lease: TransmitLease,
    /// Itself.
    pub link: Box<Link>,
    at: WorkerSlot,
}

impl Gateway {
    /// The descriptor of the state directory's lock. Floors and leases are on disk when this returns.
    ///
    /// # Errors
    /// [`LeaseError::Silent`]: the disk does not answer.
    pub fn settle_disk(&mut self) -> Result<RawFd, LeaseError> {
        // What was received until now is below the floors that the next program begins with, should it fail.
        self.floor_keeper.hasten();
        self.keep_floors(Instant::now());
        let lock = self.on_disk(|leases: &mut LeaseStore| leases.lock().as_raw_fd())?;
        self.handle_disk_replies(Instant::now());
        Ok(lock)
    }

    /// Why a link cannot leave its worker for the next program of this process, if it cannot.
    pub fn why_not_halted(&self, name: &str) -> Option<&'static str> {
        let link = &self.links[self.number(name)?];
        match link.keys() {
            Keys::Agreed(_) => Some("its keys are agreed on ([link.mka])"),
            Keys::None => Some("it has no keys"),
            Keys::Static(_) if link.cell().is_some() => Some("it has a [[fieldbus]]"),
            Keys::Static(_) if link.kernel().is_some() => Some("programs in the kernel may have its SAs"),
            Keys::Static(keys) if keys.is_changing() || keys.is_reserving() => {
                Some("packet numbers are being reserved for it at this moment")
            }
            Keys::Static(_) => None,
        }
    }

    /// Takes all links out of their workers. Those of a worker that does not answer stay; the others go back.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; also if a link is not one that [`Gateway::why_not_halted`] lets go.
    pub fn halt_links(&mut self) -> Result<Vec<HaltedLink>, WorkerUnresponsive> {
        let mut halted = Vec::new();
        for number in 0..self.links.len() {
            match self.halt(number) {
                Ok(link) => halted.push(link),
                Err(error) => {
                    self.resume_links(halted);
                    return Err(error);
                }
            }
        }
        Ok(halted)
    }

    fn halt(&mut self, number: usize) -> Result<HaltedLink, WorkerUnresponsive> {
        let (name, at) = (self.links[number].name().to_owned(), self.links[number].at());
        let Keys::Static(keys) = self.links[number].keys() else { return Err(WorkerUnresponsive) };
        let lease = keys.transmit_lease();
        let job = self.workers.run(at.worker, Box::new(SwapDatapath { slot: at.slot, datapath: None }))?;
        match job.datapath {
            Some(Datapath::Link(link)) => Ok(HaltedLink { name, lease, link, at }),
            _ => Err(WorkerUnresponsive),
        }
    }

    /// Gives links back to their workers: they go on as if nothing had been.
    pub fn resume_links(&mut self, halted: Vec<HaltedLink>) {
        for HaltedLink { link, at, .. } in halted {
            let datapath = Some(Datapath::Link(link));
            // Without room the worker is stuck; the next job reports it.
            let _ = self.workers.submit(at.worker, Box::new(SwapDatapath { slot: at.slot, datapath }));
        }
        self.handle_held_events();
    }

    /// A link that left its worker later than anybody waited for it goes back.
    pub(super) fn return_late(&mut self, worker: usize, job: Box<SwapDatapath>) {
        let at = WorkerSlot { worker, slot: job.slot };
        if job.datapath.is_some() && self.links.iter().any(|link| link.at() == at) {
            let _ = self.workers.submit(worker, job);
        }
    }
}
