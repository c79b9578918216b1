//! Control: owns the clock, the workers and the PN leases of a gateway. Everything here may take its time.
//!
//! | a worker tells | control does |
//! |---|---|
//! | half of the reserved PNs are used, or all of them | reserves a block on disk, then allows it |
//! | three quarters of all PNs are used | a [`Notice`]: the key has to be changed |
//! | all PNs are used | a [`Notice`]: the link is closed until the key is changed |

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use secy::NextAction;
use wire::{An, Pn};

use crate::lease::{BLOCK_PNS, LeaseError, LeaseName, LeaseStore, Reservation};
use crate::link::Link;
use crate::scheduling::Scheduling;
use crate::snapshot::LinkSnapshot;
use crate::worker::{Command, Event, Polling, WorkerHandle};

/// How long after a failed write a lease is tried again.
const LEASE_RETRY: Duration = Duration::from_secs(1);
/// How long a worker may take for a snapshot: some hundred turns.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(1);

/// Whose PNs a link's transmit SA uses.
#[derive(Clone, Copy)]
pub struct TransmitLease {
    /// The record on disk.
    pub name: LeaseName,
    /// The SA.
    pub an: An,
    /// The last PN of its suite.
    pub last: Pn,
}

/// Something that a person has to know.
#[derive(Debug)]
pub enum Notice {
    /// Three quarters of the PNs of this link's transmit SA are used.
    ChangeKeySoon {
        /// The link's name.
        link: String,
    },
    /// This link's transmit SA has no PN left: it discards what it should send.
    PnExhausted {
        /// The link's name.
        link: String,
    },
    /// PNs could not be reserved for this link; it is tried again every second.
    LeaseFailed {
        /// The link's name.
        link: String,
        /// Why.
        error: LeaseError,
    },
    /// A worker has ended without being told to: its links forward nothing.
    WorkerEnded {
        /// The names of its links.
        links: Vec<String>,
    },
}

/// CPUs that this process may use.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Workers of a gateway with so many links: one for each, but no more than CPUs.
pub fn workers(links: usize) -> usize {
    links.min(cpus())
}

/// A running gateway.
pub struct Gateway {
    workers: Vec<WorkerHandle>,
    links: Vec<LinkControl>,
    leases: LeaseStore,
    /// Notices that no turn has returned yet.
    notices: Vec<Notice>,
    ended: bool,
}

struct LinkControl {
    name: String,
    worker: usize,
    /// Index in the worker.
    index: usize,
    lease: TransmitLease,
    /// A reservation that failed is due again then.
    retry_at: Option<Instant>,
}

impl Gateway {
    /// Starts the links (name, link, lease of its transmit SA), on as many workers as there are links, but no more
    /// than CPUs.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        links: Vec<(String, Link, TransmitLease)>,
        leases: LeaseStore,
        polling: Polling,
    ) -> io::Result<Self> {
        let count = workers(links.len());
        let mut shares: Vec<Vec<Link>> = (0..count).map(|_| Vec::new()).collect();
        let mut controls = Vec::new();
        for (number, (name, link, lease)) in links.into_iter().enumerate() {
            let worker = number % count;
            controls.push(LinkControl { name, worker, index: shares[worker].len(), lease, retry_at: None });
            shares[worker].push(link);
        }
        let start = |(number, share)| WorkerHandle::start(format!("fw-worker-{number}"), share, polling);
        let workers = shares.into_iter().enumerate().map(start).collect::<io::Result<_>>()?;
        Ok(Self { workers, links: controls, leases, notices: Vec::new(), ended: false })
    }

    /// Has the kernel schedule all workers so from now on.
    ///
    /// # Errors
    /// As [`Scheduling::probe`].
    pub fn schedule(&self, scheduling: Scheduling) -> io::Result<()> {
        self.workers.iter().try_for_each(|worker| worker.schedule(scheduling))
    }

    /// Does what the workers ask for, and returns what a person has to know. To be called some times a second.
    pub fn turn(&mut self, now: Instant) -> Vec<Notice> {
        for worker in 0..self.workers.len() {
            while let Some(event) = self.workers[worker].event() {
                // A snapshot that comes after its time is of no use to anybody.
                if let Event::Next { link, action } = event {
                    self.next_action(worker, link, action, now);
                }
            }
        }
        for link in 0..self.links.len() {
            if self.links[link].retry_at.is_some_and(|at| at <= now) {
                self.reserve(link, now);
            }
        }
        self.look_for_ended_workers();
        std::mem::take(&mut self.notices)
    }

    /// The figures of all links at this moment, with their names; links of a worker that has ended are left out.
    pub fn snapshots(&mut self) -> Vec<(String, LinkSnapshot)> {
        let mut snapshots = BTreeMap::new();
        for number in 0..self.links.len() {
            let LinkControl { worker, index: link, .. } = self.links[number];
            let snapshot = Box::default();
            // A full ring means that the worker is stuck: its links are left out.
            let _ = self.workers[worker].command(Command::Report { link, snapshot });
        }
        let give_up = Instant::now() + SNAPSHOT_WAIT;
        while snapshots.len() < self.links.len() && Instant::now() < give_up {
            for worker in 0..self.workers.len() {
                while let Some(event) = self.workers[worker].event() {
                    match event {
                        Event::Report { link, snapshot } => {
                            snapshots.insert(self.number(worker, link), *snapshot);
                        }
                        Event::Next { link, action } => {
                            self.next_action(worker, link, action, Instant::now())
                        }
                    }
                }
            }
            if !self.workers.iter().any(WorkerHandle::is_alive) {
                break;
            }
            thread::sleep(Duration::from_micros(200));
        }
        snapshots.into_iter().map(|(number, snapshot)| (self.links[number].name.clone(), snapshot)).collect()
    }

    /// Stops all workers and closes their links.
    pub fn stop(self) {
        self.workers.into_iter().for_each(WorkerHandle::stop);
    }

    fn next_action(&mut self, worker: usize, link: usize, action: NextAction, now: Instant) {
        let number = self.number(worker, link);
        let link = self.links[number].name.clone();
        match action {
            NextAction::GoOn => {}
            NextAction::Rekey => self.notices.push(Notice::ChangeKeySoon { link }),
            NextAction::Exhausted => self.notices.push(Notice::PnExhausted { link }),
            NextAction::Reserve | NextAction::AwaitReservation => self.reserve(number, now),
        }
    }

    /// Reserves the next block of a link's PNs and allows it.
    fn reserve(&mut self, number: usize, now: Instant) {
        let link = &mut self.links[number];
        let TransmitLease { name, an, last } = link.lease;
        match self.leases.reserve(name, last, BLOCK_PNS) {
            Ok(Reservation::Block(block)) => {
                link.retry_at = None;
                let through = block.last;
                // If the ring is full the worker is stuck, and needs no PNs.
                let _ = self.workers[link.worker].command(Command::Reserve { link: link.index, an, through });
            }
            // The SA knows its last PN too, and says when it is used.
            Ok(Reservation::Exhausted) => link.retry_at = None,
            Err(error) => {
                link.retry_at = Some(now + LEASE_RETRY);
                self.notices.push(Notice::LeaseFailed { link: link.name.clone(), error });
            }
        }
    }

    fn look_for_ended_workers(&mut self) {
        let ended = |worker: &WorkerHandle| !worker.is_alive();
        if self.ended || !self.workers.iter().any(ended) {
            return;
        }
        self.ended = true;
        let links = self.links.iter().filter(|link| ended(&self.workers[link.worker]));
        self.notices.push(Notice::WorkerEnded { links: links.map(|link| link.name.clone()).collect() });
    }

    fn number(&self, worker: usize, index: usize) -> usize {
        let found = self.links.iter().position(|link| link.worker == worker && link.index == index);
        found.expect("invariant: workers name the links they were given")
    }
}
