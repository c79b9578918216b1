//! Control: owns the clock, the workers and the KaYs of a gateway. Nothing here waits for a disk: leases and floors have
//! a thread of their own (`disk.rs`).
//!
//! | a worker tells | control does, with static keys (`static_keys.rs`) | with key agreement (`key_agreement.rs`) |
//! |---|---|---|
//! | half of the reserved PNs are used, or all of them | has a block reserved on disk, then allows it | |
//! | three quarters of all PNs are used | a [`Notice`]: the key has to be changed | tells the KaY the next PN |
//! | all PNs are used | a [`Notice`]: the link is closed until the key is changed | the same |
//! | SAs are changed | | tells the KaY |
//!
//! Links come and go, and so do their ports, while the others forward. A worker answers control's requests
//! within a turn; control waits for it, for a second at most.
//!
//! By itself it brings replay floors to disk (`floors.rs`).

mod cells;
mod disk;
mod floors;
mod jobs;
mod kernel_link;
mod kernel_ports;
mod kernel_programs;
mod key_agreement;
mod notice;
mod reports;
mod sa_changes;
mod sa_table;
mod sites;
mod static_keys;

use std::io;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Instant;

use secy::CarryOver;

use cells::{CellControl, KernelCell};
pub use cells::{CellError, CellPath, CellSettings, CellStatus};
use disk::Disk;
use floors::FloorKeeper;
use floors::read as read_floors;
pub use floors::{PERIOD as FLOOR_PERIOD, ReceiveFloor};
use kernel_link::KernelLink;
pub use kernel_link::{LinkPath, LinkPathSettings};
pub use kernel_ports::PathWanted;
pub use kernel_programs::KernelPrograms;
use key_agreement::Agreement;
pub use key_agreement::{KeyAgreement, KeyAgreementStatus, Recorded, Recorder};
pub use notice::Notice;
use static_keys::StaticControl;
pub use static_keys::{StaticKeys, StaticSak, StaticSaks, TransmitLease};

pub use dataplane::job::{Datapath, Progress};
use dataplane::link::{Link, Ports};
use dataplane::path::Path;
use dataplane::worker::{Polling, WorkerHandle};
use jobs::SwapDatapath;
use netdev::scheduling::Scheduling;
use pnstore::{LeaseError, LeaseStore, UnusedPns};
use sites::SiteControl;

/// CPUs that this process may use.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Workers of a gateway with so many links: one for each, but no more than CPUs.
pub fn workers(links: usize) -> usize {
    links.min(cpus())
}

/// A worker does not answer: it has ended, or is stuck. What it holds cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a worker does not answer; this is a defect of frameward: please report it")]
pub struct WorkerUnresponsive;

/// A running gateway.
pub struct Gateway {
    workers: Vec<WorkerHandle>,
    /// Zero of the protocols' clock.
    start: Instant,
    /// Caller of [`Gateway::turn`]; woken when that should be soon.
    control_thread: Thread,
    polling: Polling,
    scheduling: Scheduling,
    /// CPUs that are kept for workers, one for each; empty: they run anywhere.
    cpus: Vec<usize>,
    links: Vec<LinkControl>,
    sites: Vec<SiteControl>,
    disk: Disk,
    kernel_programs: KernelPrograms,
    /// The state may be an earlier one than was used: no PN is given back.
    distrusted: bool,
    /// Notices that no turn has returned yet.
    notices: Vec<Notice>,
    ended: bool,
    floor_keeper: FloorKeeper,
}

struct LinkControl {
    name: String,
    worker: usize,
    /// In the worker.
    slot: usize,
    keys: Keys,
    cell: Option<Box<CellControl>>,
    /// Programs for its SAs, which it keeps for as long as it is there.
    kernel: Option<Box<KernelLink>>,
    /// Why it has none.
    why_user_space: String,
    /// It has ports, or had some. Before the first there is nobody to speak to: KaY and handshakes wait, and none of their frames
    /// is lost. Later they go on without ports, for their state grows old.
    begun: bool,
}

/// Origin of a link's keys.
enum Keys {
    Static(Box<StaticControl>),
    Agreed(Box<Agreement>),
    /// Nowhere: nothing but a cell's frames passes.
    None,
}

impl LinkControl {
    /// Receive SAs whose floors are kept.
    fn floors(&self) -> Arc<[ReceiveFloor]> {
        match &self.keys {
            Keys::Static(keys) => Arc::clone(&keys.floors),
            Keys::Agreed(_) | Keys::None => Arc::default(),
        }
    }

    /// The PNs that its transmit SA has not used; the link has come back from its worker.
    fn unused(&self, link: &Link) -> Option<UnusedPns> {
        match &self.keys {
            Keys::Static(keys) => keys.lease.unused(&link.path().secy),
            Keys::Agreed(_) | Keys::None => None,
        }
    }
}

impl Gateway {
    /// A gateway without links. The thread that makes it is the one that calls [`Gateway::turn`]: workers unpark it when
    /// they have something for a KaY, so a caller that waits by [`std::thread::park_timeout`] has secured links sooner.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn new(leases: LeaseStore, polling: Polling, scheduling: Scheduling) -> io::Result<Self> {
        Ok(Self {
            workers: Vec::new(),
            start: Instant::now(),
            control_thread: thread::current(),
            polling,
            scheduling,
            cpus: Vec::new(),
            links: Vec::new(),
            sites: Vec::new(),
            disk: Disk::start(leases, thread::current())?,
            kernel_programs: KernelPrograms::default(),
            distrusted: false,
            notices: Vec::new(),
            ended: false,
            floor_keeper: FloorKeeper::new(Instant::now()),
        })
    }

    /// Has workers run on these CPUs, each on one of its own: there are no more workers then. Empty: anywhere.
    #[must_use]
    pub fn on_cpus(self, cpus: Vec<usize>) -> Self {
        Self { cpus, ..self }
    }

    /// Gives it the programs that were loaded for its cells.
    #[must_use]
    pub fn with_kernel_programs(self, kernel_programs: KernelPrograms) -> Self {
        Self { kernel_programs, ..self }
    }

    /// Adds a link, whose name no other has: frames flow from here on, if it has ports. It goes to a worker of its own,
    /// or where there are as many workers as CPUs, to the one with the fewest links and sites. Workers under real-time
    /// scheduling leave a CPU free, if none are kept for them.
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should.
    pub fn add(&mut self, name: String, link: Link, keys: StaticKeys) -> io::Result<()> {
        self.place(name, link, Keys::Static(Box::new(StaticControl::new(keys))))
    }

    /// Adds a link without keys, whose name no other has: its SecY has no SA and never gets one, so nothing passes but
    /// the frames of a cell that it is given. Otherwise as [`Gateway::add`].
    ///
    /// # Errors
    /// As [`Gateway::add`].
    pub fn add_without_keys(&mut self, name: String, link: Link) -> io::Result<()> {
        self.place(name, link, Keys::None)
    }

    /// Puts another path in the place of such a link's own between two turns, for other settings of its SecY.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; also if there is no such link without keys.
    pub fn change_without_keys(&mut self, name: &str, path: Box<Path>) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let Keys::None = &self.links[number].keys else { return Err(WorkerUnresponsive) };
        self.exchange(number, path, CarryOver::default()).map(drop)
    }

    /// Starts the workers that so many links and sites will go to, so that none of them fails for want of a thread.
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should.
    pub fn start_workers(&mut self, datapaths: usize) -> io::Result<()> {
        while self.workers.len() < datapaths.min(self.most_workers()) {
            self.start_worker()?;
        }
        Ok(())
    }

    /// Workers under real-time scheduling leave a CPU free, if none are kept for them.
    fn most_workers(&self) -> usize {
        match self.scheduling {
            _ if !self.cpus.is_empty() => self.cpus.len(),
            Scheduling::Ordinary => cpus(),
            Scheduling::Fifo(_) => cpus().saturating_sub(1).max(1),
        }
    }

    fn start_worker(&mut self) -> io::Result<()> {
        let (name, control_thread) =
            (format!("fw-worker-{}", self.workers.len()), self.control_thread.clone());
        let cpu = self.cpus.get(self.workers.len()).copied();
        self.workers.push(WorkerHandle::start(name, self.polling, self.scheduling, cpu, control_thread)?);
        Ok(())
    }

    /// Gives a link to a worker, or to the site of its name.
    fn place(&mut self, name: String, link: Link, keys: Keys) -> io::Result<()> {
        let begun = link.pool().is_some();
        let (worker, slot) = match self.site_number(&name) {
            Some(site) => self.secure_site(site, link),
            None => {
                let (worker, slot) = self.free_slot()?;
                // Without room the worker is stuck; the next job reports it.
                let datapath = Some(Datapath::Link(Box::new(link)));
                let _ = self.workers[worker].submit(Box::new(SwapDatapath { slot, datapath }));
                (worker, slot)
            }
        };
        self.links.push(LinkControl {
            name,
            worker,
            slot,
            keys,
            cell: None,
            kernel: None,
            why_user_space: String::new(),
            begun,
        });
        Ok(())
    }

    /// A worker, which is started if need be, and a slot in it that is free.
    fn free_slot(&mut self) -> io::Result<(usize, usize)> {
        let slots: Vec<(usize, usize)> = self.slots().collect();
        let taken_of = |worker| slots.iter().filter(|slot| slot.0 == worker).count();
        let fewest = (0..self.workers.len()).map(|worker| (taken_of(worker), worker)).min();
        let worker = match fewest {
            Some((taken, worker)) if taken == 0 || self.workers.len() >= self.most_workers() => worker,
            _ => {
                self.start_worker()?;
                self.workers.len() - 1
            }
        };
        let slot = (0..).find(|slot| !slots.contains(&(worker, *slot))).unwrap_or(0);
        Ok((worker, slot))
    }

    /// The slots that are taken: worker, and slot in it.
    fn slots(&self) -> impl Iterator<Item = (usize, usize)> {
        let links = self.links.iter().map(|link| (link.worker, link.slot));
        links.chain(self.sites.iter().map(|site| (site.worker, site.slot)))
    }

    /// Takes a link out, with its ports and its SecY.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]; the link is then forgotten all the same.
    pub fn remove(&mut self, name: &str) -> Result<Box<Link>, WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let LinkControl { worker, slot, .. } = self.links[number];
        let removed = match self.site_number(name) {
            Some(site) => self.take_from_site(site),
            None => {
                self.run(worker, Box::new(SwapDatapath { slot, datapath: None })).and_then(|job| {
                    match job.datapath {
                        Some(Datapath::Link(link)) => Ok(link),
                        _ => Err(WorkerUnresponsive),
                    }
                })
            }
        };
        let mut control = self.links.remove(number);
        let programs =
            control.cell.as_mut().and_then(|cell| cell.take_kernel()).map(KernelCell::into_programs);
        self.kernel_programs.give_back(programs);
        if let Keys::Static(keys) = &mut control.keys {
            match keys.end_in_kernel(control.kernel.as_deref_mut()) {
                Ok((floors, unused)) => {
                    if !floors.is_empty() {
                        self.disk.keep_floors(floors, None);
                    }
                    unused.into_iter().for_each(|unused| self.disk.give_back(unused));
                }
                Err(error) => {
                    self.notices.push(Notice::LinkKernelFault { link: name.into(), why: error.to_string() });
                }
            }
        }
        // Those of a worker that does not answer may stand in front of its ports still: they end here.
        let programs = control.kernel.take().filter(|_| removed.is_ok());
        self.kernel_programs.give_back_link(programs.map(|kernel| kernel.into_programs()));
        let link = removed?;
        self.keep_last_floors(&link.path().secy, &control.floors());
        control.unused(&link).into_iter().for_each(|unused| self.disk.give_back(unused));
        Ok(link)
    }

    /// Gives a link ports, in the place of those that it has. With its first ones KaY and handshakes begin to speak.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn open(&mut self, name: &str, ports: Box<Ports>) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let before = self.run_on_link(number, Some(ports), |link, ports| {
            *ports = ports.take().and_then(|ports| link.open(ports));
            Progress::Done
        })?;
        // Unmapping takes its time, and takes it here.
        drop(before);
        self.attach_kernel(number);
        self.attach_link(number);
        if !std::mem::replace(&mut self.links[number].begun, true) {
            self.speak(number, Instant::now());
        }
        Ok(())
    }

    /// Has a link's KaY and handshakes do what is due, as soon as anybody could hear them.
    fn speak(&mut self, link: usize, now: Instant) {
        if self.links[link].begun {
            self.turn_agreement(link, now);
            self.turn_cell(link, now);
        }
    }

    /// Closes a link's ports, if it has any. The link and its SecY stay.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`].
    pub fn close(&mut self, name: &str) -> Result<(), WorkerUnresponsive> {
        let number = self.number(name).ok_or(WorkerUnresponsive)?;
        let before = self.run_on_link(number, None, |link, ports| {
            *ports = link.close();
            Progress::Done
        })?;
        drop(before);
        self.kernel_closed(number);
        self.link_ports_closed(number);
        Ok(())
    }

    /// Looks whether a link's ports take redirected frames still, or do so now. Asks the kernel; to be called about once a second.
    pub fn check_kernel_ports(&mut self, name: &str) {
        if let Some(number) = self.number(name) {
            self.check_cell_ports(number);
            self.check_link_ports(number);
        }
    }

    /// Puts another path in the place of a link's own, and returns that one, so that it is freed where time does not
    /// matter.
    fn exchange(
        &mut self,
        number: usize,
        path: Box<Path>,
        carry_over: CarryOver,
    ) -> Result<Box<Path>, WorkerUnresponsive> {
        let (before, _freed) = self.run_on_link(number, (path, carry_over), |link, (path, carry_over)| {
            link.change(path, carry_over);
            Progress::Done
        })?;
        Ok(before)
    }

    /// Meets the workers' needs, and returns notices for a person. To be called some times a second.
    pub fn turn(&mut self, now: Instant) -> Vec<Notice> {
        self.handle_disk_replies(now);
        for worker in 0..self.workers.len() {
            while let Some(event) = self.workers[worker].event() {
                self.handle_event(worker, event, now);
            }
        }
        for link in 0..self.links.len() {
            match &self.links[link].keys {
                Keys::Static(keys) if keys.is_due(now) => self.reserve(link),
                Keys::Static(_) | Keys::Agreed(_) | Keys::None => {}
            }
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
        for LinkControl { keys, kernel, .. } in &mut self.links {
            // Without an answer PNs stay used, and the floors are those of the last second.
            if let Keys::Static(keys) = keys
                && let Ok((floors, left)) = keys.end_in_kernel(kernel.as_deref_mut())
            {
                last.extend(floors);
                unused.extend(left.filter(|_| !self.distrusted));
            }
        }
        for (number, worker) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            let mut datapaths = worker.stop();
            for control in self.links.iter().filter(|link| link.worker == number) {
                let floors = control.floors();
                last.reserve(floors.len());
                if let Some(link) = datapaths.link(control.slot) {
                    read_floors(&link.path().secy, &floors, &mut last);
                    unused.extend(control.unused(link).filter(|_| !self.distrusted));
                }
            }
        }
        self.close_disk(last, unused)
    }

    fn look_for_ended_workers(&mut self) {
        let ended = |worker: &WorkerHandle| !worker.is_alive();
        if self.ended || !self.workers.iter().any(ended) {
            return;
        }
        self.ended = true;
        let links = self.links.iter().map(|link| (&link.name, link.worker));
        let all = links.chain(self.sites.iter().map(|site| (&site.name, site.worker)));
        let names = all.filter(|(_, worker)| ended(&self.workers[*worker])).map(|(name, _)| name.clone());
        self.notices.push(Notice::WorkerEnded { links: names.collect() });
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.name == name)
    }

    fn placed(&self, worker: usize, slot: usize) -> Option<usize> {
        self.links.iter().position(|link| (link.worker, link.slot) == (worker, slot))
    }
}
