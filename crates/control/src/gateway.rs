//! A running gateway: what it is made of, its turn and its end. Each part writes its own fields, in a file of its own; the
//! modules of this one have what takes several parts.

mod cell_programs;
mod cells;
mod floors;
mod key_agreement;
mod lease_thread;
mod link_place;
mod links;
mod ports;
mod sites;
mod snapshots;
mod static_keys;
mod static_sas;
#[cfg(test)]
mod tests;
mod upgrade;

use std::io;
use std::thread;
use std::time::Instant;

use dataplane::job::Progress;
use dataplane::link::Link;
use dataplane::site::Site;
use dataplane::worker::{Polling, WorkerEvent};
use netdev::scheduling::Scheduling;
use pnstore::{LeaseError, LeaseStore};

use crate::WorkerUnresponsive;
use crate::floors::{FloorKeeper, read as read_floors};
use crate::jobs::{HaltLink, LinkJob, of_kind};
use crate::kernel_programs::KernelPrograms;
use crate::lease_thread::{DiskProbe, LeaseThread};
use crate::link::LinkControl;
use crate::notice::Notice;
use crate::sa_changes::{NextPns, SaChanges};
use crate::workers::{WorkerSlot, Workers};
pub use key_agreement::NotGoneOn;
use sites::SiteControl;
pub use static_keys::NotChanged;
pub use upgrade::{HaltedKeys, HaltedLink, Unsettled};

/// A running gateway.
pub struct Gateway {
    /// Workers, which wake the caller of [`Gateway::turn`] when a turn should be soon.
    workers: Workers,
    /// Zero of the protocols' clock.
    start: Instant,
    links: Vec<LinkControl>,
    /// Links that were ever added.
    added: u64,
    sites: Vec<SiteControl>,
    lease_thread: LeaseThread,
    disk_probe: DiskProbe,
    kernel_programs: KernelPrograms,
    /// The state may be an earlier one than was used: no PN is given back.
    distrusted: bool,
    /// Notices that no turn has returned yet.
    notices: Vec<Notice>,
    ended: bool,
    floor_keeper: FloorKeeper,
    /// The heartbeat is kept without links with static keys, too.
    keeps_heartbeat: bool,
}

impl Gateway {
    /// A gateway without links. The thread that makes it is the one that calls [`Gateway::turn`]: workers unpark it when
    /// they have something for a KaY, so a caller that waits by [`std::thread::park_timeout`] has secured links sooner.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn new(leases: LeaseStore, polling: Polling, scheduling: Scheduling) -> io::Result<Self> {
        Ok(Self {
            workers: Workers::new(polling, scheduling),
            start: Instant::now(),
            links: Vec::new(),
            added: 0,
            sites: Vec::new(),
            lease_thread: LeaseThread::start(leases, thread::current())?,
            disk_probe: DiskProbe::default(),
            kernel_programs: KernelPrograms::default(),
            distrusted: false,
            notices: Vec::new(),
            ended: false,
            floor_keeper: FloorKeeper::new(Instant::now()),
            keeps_heartbeat: false,
        })
    }

    /// Has workers run on these CPUs, each on one of its own: there are no more workers then. Empty: anywhere.
    #[must_use]
    pub fn on_cpus(mut self, cpus: Vec<usize>) -> Self {
        self.workers.keep_to_cpus(cpus);
        self
    }

    /// Has its protocols' clock begin at this moment: the clock of a program before goes on.
    #[must_use]
    pub fn on_clock_since(self, start: Instant) -> Self {
        Self { start, ..self }
    }

    /// Zero of its protocols' clock.
    pub const fn clock_start(&self) -> Instant {
        self.start
    }

    /// Gives it the programs that were loaded for its cells.
    #[must_use]
    pub fn with_kernel_programs(self, kernel_programs: KernelPrograms) -> Self {
        Self { kernel_programs, ..self }
    }

    /// Starts the workers that so many links and sites will go to, so that none of them fails for want of a thread.
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should.
    pub fn start_workers(&mut self, datapaths: usize) -> io::Result<()> {
        self.workers.start(datapaths)
    }

    /// A slot for one more link or site, in a worker that is started if need be.
    fn free_slot(&mut self) -> io::Result<WorkerSlot> {
        let links = self.links.iter().map(LinkControl::at);
        let taken: Vec<_> = links.chain(self.sites.iter().map(SiteControl::at)).collect();
        self.workers.free_slot(&taken)
    }

    /// Meets the workers' needs, and returns notices for a person. To be called some times a second.
    pub fn turn(&mut self, now: Instant) -> Vec<Notice> {
        self.handle_disk_replies(now);
        self.handle_held_events();
        for worker in 0..self.workers.count() {
            while let Some(event) = self.workers.event(worker) {
                self.handle_event(worker, event, now);
            }
        }
        for link in 0..self.links.len() {
            self.reserve_again(link, now);
            self.look_at_pns(link, now);
            self.speak(link, now);
        }
        self.keep_floors(now);
        self.look_for_ended_workers();
        std::mem::take(&mut self.notices)
    }

    /// Declares this process's memory out of date. A stop then gives no PN back that it takes for unused.
    pub const fn distrust_memory(&mut self) {
        self.distrusted = true;
    }

    /// Stops all workers, brings the last floors to disk, gives back the PNs that were not used and closes the links.
    ///
    /// # Errors
    /// If floors or leases cannot be written.
    pub fn stop(mut self) -> Result<(), LeaseError> {
        // A block that is under way is not used any more, and is given back with the others.
        self.drain_disk();
        let (mut last, mut unused) = (Vec::new(), Vec::new());
        for link in &mut self.links {
            // Without an answer PNs stay used, and the floors are those of the last second.
            if let Some((keys, kernel)) = link.static_parts()
                && let Ok((floors, left)) = keys.end_in_kernel(kernel)
            {
                last.extend(floors);
                unused.extend(left.filter(|_| !self.distrusted));
            }
        }
        for (worker, mut datapaths) in self.workers.stop().enumerate() {
            for control in self.links.iter().filter(|link| link.at().worker == worker) {
                let floors = control.floors();
                last.reserve(floors.len());
                if let Some(link) = datapaths.link(control.at().slot) {
                    read_floors(&link.pipeline().secy, &floors, &mut last);
                    unused.extend(control.unused(link).filter(|_| !self.distrusted));
                }
            }
        }
        self.close_disk(last, unused)
    }

    fn look_for_ended_workers(&mut self) {
        if self.ended || (0..self.workers.count()).all(|worker| self.workers.is_alive(worker)) {
            return;
        }
        self.ended = true;
        let links = self.links.iter().map(|link| (link.name(), link.at()));
        let all = links.chain(self.sites.iter().map(|site| (site.name(), site.at())));
        let names = all.filter(|(_, at)| !self.workers.is_alive(at.worker)).map(|(name, _)| name.to_owned());
        self.notices.push(Notice::WorkerEnded { links: names.collect() });
    }

    /// Runs a function on a link, in its worker. Returns its data.
    fn run_on_link<D: Send + 'static>(
        &mut self,
        number: usize,
        data: D,
        run: fn(&mut Link, &mut D) -> Progress,
    ) -> Result<D, WorkerUnresponsive> {
        let done = self.workers.run_on_link(self.links[number].at(), data, run);
        self.handle_held_events();
        done
    }

    /// The same with a function that is never run once the worker did not answer in time. None: it has begun, and its data is lost.
    fn run_on_link_in_time<D: Send + 'static>(
        &mut self,
        number: usize,
        data: D,
        run: fn(&mut Link, &mut D) -> Progress,
    ) -> Result<Option<D>, WorkerUnresponsive> {
        let done = self.workers.run_on_link_in_time(self.links[number].at(), data, run);
        self.handle_held_events();
        done
    }

    /// The same on a site.
    fn run_on_site<D: Send + 'static>(
        &mut self,
        number: usize,
        data: D,
        run: fn(&mut Site, &mut D) -> Progress,
    ) -> Result<D, WorkerUnresponsive> {
        let done = self.workers.run_on_site(self.sites[number].at(), data, run);
        self.handle_held_events();
        done
    }

    /// Handles what came while a job was waited for.
    fn handle_held_events(&mut self) {
        while let Some((worker, event)) = self.workers.held_event() {
            self.handle_event(worker, event, Instant::now());
        }
    }

    /// Handles an event that nobody waits for. A job that comes back after its time is freed here, as all are.
    fn handle_event(&mut self, worker: usize, event: WorkerEvent, now: Instant) {
        let job = match event {
            WorkerEvent::Needs { slot, action } => {
                return self.next_action(WorkerSlot { worker, slot }, action, now);
            }
            WorkerEvent::JobDone(job) => job,
        };
        let job = match of_kind::<LinkJob<SaChanges>>(job) {
            Ok(job) => return self.sas_changed(WorkerSlot { worker, slot: job.slot }, job.data, now),
            Err(other) => other,
        };
        let job = match of_kind::<LinkJob<NextPns>>(job) {
            Ok(job) => return self.next_pns(WorkerSlot { worker, slot: job.slot }, &job.data, now),
            Err(other) => other,
        };
        if let Ok(job) = of_kind::<HaltLink>(job) {
            self.return_late(worker, *job);
        }
    }
}
