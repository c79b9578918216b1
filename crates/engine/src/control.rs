//! Control: owns the clock, the workers and the PN leases of a gateway. Everything here may take its time.
//!
//! | a worker tells | control does |
//! |---|---|
//! | half of the reserved PNs are used, or all of them | reserves a block on disk, then allows it |
//! | three quarters of all PNs are used | a [`Notice`]: the key has to be changed |
//! | all PNs are used | a [`Notice`]: the link is closed until the key is changed |
//!
//! Links come and go, and so do their ports, while the others forward. What control asks of a worker is answered
//! within a turn; control waits for it, for a second at most.
//!
//! By itself it brings replay floors to disk (`floors.rs`).

mod floors;
mod key_agreement;
mod reports;
mod sites;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use secy::{GoesOn, NextAction};
use wire::{An, Pn};

use floors::FloorKeeper;
pub(crate) use floors::{Floor, read as read_floors};
pub use floors::{PERIOD as FLOOR_PERIOD, ReceiveFloor};
pub use key_agreement::{KeyAgreement, KeyAgreementStatus};

use crate::lease::{BLOCK_PNS, LeaseError, LeaseName, LeaseStore, Reservation};
use crate::link::{Link, Ports};
use crate::path::Path;
use crate::scheduling::Scheduling;
use crate::worker::{Command, Event, Occupant, Polling, WorkerHandle};
use sites::SiteControl;

/// How long after a failed write a lease is tried again.
const LEASE_RETRY: Duration = Duration::from_secs(1);
/// How long a worker may take for an answer: some hundred turns.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Whose PNs a link's transmit SA uses.
#[derive(Clone, Copy)]
pub struct TransmitLease {
    /// The record on disk.
    pub name: LeaseName,
    /// The SA.
    pub an: An,
    /// The last PN of its suite.
    pub last: Pn,
    /// The last PN that is reserved for it.
    pub through: Pn,
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
    /// Replay floors could not be written. Links go on; it is tried again every [`FLOOR_PERIOD`], and told every minute.
    FloorsFailed {
        /// Why.
        error: LeaseError,
    },
    /// Replay floors came to disk too late: a crash meanwhile would have left more than a second open to replay.
    FloorsLate {
        /// How much.
        open: Duration,
    },
    /// Something has changed in the key agreement of this link.
    KeyAgreement {
        /// The link's name.
        link: String,
        /// What, and why.
        reason: mka::Reason,
    },
    /// A SAK of this link is installed, but not for this peer: the SecY has no room for another receive SC. Its frames are
    /// discarded (`InPktsNoSAError`); the others are served.
    TooManyPeers {
        /// The link's name.
        link: String,
        /// Whom there is no room for.
        sci: wire::Sci,
    },
    /// A SAK of this link cannot be installed, and is not used.
    SakRefused {
        /// The link's name.
        link: String,
        /// Which.
        ki: wire::Ki,
        /// Why.
        why: &'static str,
    },
    /// A worker has ended without being told to: its links forward nothing.
    WorkerEnded {
        /// The names of its links and sites.
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

/// What is kept on disk of a link's SAs with static keys.
pub struct StaticKeys {
    /// Whose PNs its transmit SA uses.
    pub transmit: TransmitLease,
    /// Its receive SAs whose floors are kept.
    pub receive: Vec<ReceiveFloor>,
}

/// A worker does not answer: it has ended, or is stuck. What it holds cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a worker does not answer; this is a defect of frameward: please report it")]
pub struct Unanswered;

/// A running gateway.
pub struct Gateway {
    workers: Vec<WorkerHandle>,
    polling: Polling,
    scheduling: Scheduling,
    links: Vec<LinkControl>,
    sites: Vec<SiteControl>,
    leases: LeaseStore,
    /// Notices that no turn has returned yet.
    notices: Vec<Notice>,
    ended: bool,
    floor_keeper: FloorKeeper,
}

struct LinkControl {
    name: String,
    worker: usize,
    /// In the worker.
    seat: usize,
    lease: TransmitLease,
    /// Shared with the worker, so that nothing is freed there.
    floors: Arc<[ReceiveFloor]>,
    /// A reservation that failed is due again then.
    retry_at: Option<Instant>,
    /// Another path is under way: what the worker says is about the SA before, and its PNs are no longer of interest.
    changing: bool,
}

impl Gateway {
    /// A gateway without links.
    pub fn new(leases: LeaseStore, polling: Polling, scheduling: Scheduling) -> Self {
        Self {
            workers: Vec::new(),
            polling,
            scheduling,
            links: Vec::new(),
            sites: Vec::new(),
            leases,
            notices: Vec::new(),
            ended: false,
            floor_keeper: FloorKeeper::new(Instant::now()),
        }
    }

    /// Leases and floors.
    pub const fn leases(&mut self) -> &mut LeaseStore {
        &mut self.leases
    }

    /// Adds a link, whose name no other has: frames flow from here on, if it has ports. It goes to a worker of its own,
    /// or where there are as many workers as CPUs, to the one with the fewest links and sites. Workers under real-time
    /// scheduling leave a CPU free.
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should.
    pub fn add(&mut self, name: String, link: Link, keys: StaticKeys) -> io::Result<()> {
        let (worker, seat) = self.free_seat()?;
        // If the ring is full the worker is stuck, which is told by what follows.
        let occupant = Occupant::Link(Box::new(link));
        let _ = self.workers[worker].command(Command::Add { seat, occupant });
        let StaticKeys { transmit: lease, receive } = keys;
        let floors = receive.into();
        self.links.push(LinkControl { name, worker, seat, lease, floors, retry_at: None, changing: false });
        Ok(())
    }

    /// A worker, which is started if need be, and a seat in it that is free.
    fn free_seat(&mut self) -> io::Result<(usize, usize)> {
        let seats: Vec<(usize, usize)> = self.seats().collect();
        let taken_of = |worker| seats.iter().filter(|seat| seat.0 == worker).count();
        let fewest = (0..self.workers.len()).map(|worker| (taken_of(worker), worker)).min();
        let most = match self.scheduling {
            Scheduling::Ordinary => cpus(),
            Scheduling::Fifo(_) => cpus().saturating_sub(1),
        };
        let worker = match fewest {
            Some((taken, worker)) if taken == 0 || self.workers.len() >= most => worker,
            _ => {
                let number = self.workers.len();
                let worker = WorkerHandle::start(format!("fw-worker-{number}"), self.polling)?;
                worker.schedule(self.scheduling)?;
                self.workers.push(worker);
                number
            }
        };
        let seat = (0..).find(|seat| !seats.contains(&(worker, *seat))).unwrap_or(0);
        Ok((worker, seat))
    }

    /// The seats that are taken: worker, and seat in it.
    fn seats(&self) -> impl Iterator<Item = (usize, usize)> {
        let links = self.links.iter().map(|link| (link.worker, link.seat));
        links.chain(self.sites.iter().map(|site| (site.worker, site.seat)))
    }

    /// Takes a link out, with its ports and its SecY.
    ///
    /// # Errors
    /// [`Unanswered`]; the link is then forgotten all the same.
    pub fn remove(&mut self, name: &str) -> Result<Box<Link>, Unanswered> {
        let number = self.number(name).ok_or(Unanswered)?;
        let LinkControl { worker, seat, .. } = self.links[number];
        let removed = self.ask(worker, Command::Remove { seat }, |event| match event {
            Event::Removed { occupant } => Ok(occupant),
            other => Err(other),
        });
        let LinkControl { floors, .. } = self.links.remove(number);
        let Some(Occupant::Link(link)) = removed? else { return Err(Unanswered) };
        self.keep_last_floors(&link.path().secy, &floors);
        Ok(link)
    }

    /// Gives a link ports, in the place of those that it has.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn open(&mut self, name: &str, ports: Box<Ports>) -> Result<(), Unanswered> {
        self.replace(name, |seat| Command::Open { seat, ports })
    }

    /// Closes a link's ports, if it has any. The link and its SecY stay.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn close(&mut self, name: &str) -> Result<(), Unanswered> {
        self.replace(name, |seat| Command::Close { seat })
    }

    /// Puts another path in the place of a link's own between two turns, so that no frame meets a half-changed one. The
    /// transmit SA uses the PNs of `transmit` from here on, or goes on with those that it has; the floors of `receive`
    /// are kept; what `goes_on` names is as in [`secy::SecY::take_over`].
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn change(
        &mut self,
        name: &str,
        path: Box<Path>,
        goes_on: GoesOn,
        transmit: Option<TransmitLease>,
        receive: Vec<ReceiveFloor>,
    ) -> Result<(), Unanswered> {
        let number = self.number(name).ok_or(Unanswered)?;
        let link = &mut self.links[number];
        let (worker, seat) = (link.worker, link.seat);
        let transmit = transmit.unwrap_or(link.lease);
        let floors = std::mem::replace(&mut link.floors, receive.into());
        // From here on nothing is reserved for the SA before: what it asked for would be taken for the new one's.
        (link.lease, link.retry_at, link.changing) = (transmit, None, true);
        let before = self.ask(worker, Command::Change { seat, path, goes_on }, |event| match event {
            Event::Changed { path, goes_on } => Ok((path, goes_on)),
            other => Err(other),
        })?;
        self.links[number].changing = false;
        self.keep_last_floors(&before.0.secy, &floors);
        // Its keys are wiped and its memory freed here, where time does not matter.
        drop(before);
        Ok(())
    }

    fn replace(&mut self, name: &str, command: impl FnOnce(usize) -> Command) -> Result<(), Unanswered> {
        let number = self.number(name).ok_or(Unanswered)?;
        let LinkControl { worker, seat, .. } = self.links[number];
        let before = self.ask(worker, command(seat), |event| match event {
            Event::Replaced { ports } => Ok(ports),
            other => Err(other),
        })?;
        // Unmapping takes its time, and takes it here.
        drop(before);
        Ok(())
    }

    /// Sends a command and waits for the event that answers it; what comes before is dealt with.
    fn ask<T>(
        &mut self,
        worker: usize,
        command: Command,
        answer: impl Fn(Event) -> Result<T, Event>,
    ) -> Result<T, Unanswered> {
        self.workers[worker].command(command).map_err(|_| Unanswered)?;
        let give_up = Instant::now() + ANSWER_WAIT;
        loop {
            // Asked before the ring is looked at: what a worker says before it ends is heard.
            let alive = self.workers[worker].is_alive();
            while let Some(event) = self.workers[worker].event() {
                match answer(event) {
                    Ok(answer) => return Ok(answer),
                    Err(other) => self.heed(worker, other, Instant::now()),
                }
            }
            if !alive || Instant::now() >= give_up {
                return Err(Unanswered);
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Deals with what a worker says without being asked. An answer that comes after its time is of no use to anybody.
    fn heed(&mut self, worker: usize, event: Event, now: Instant) {
        if let Event::Next { seat, action } = event {
            self.next_action(worker, seat, action, now);
        }
    }

    /// Does what the workers ask for, and returns what a person has to know. To be called some times a second.
    pub fn turn(&mut self, now: Instant) -> Vec<Notice> {
        for worker in 0..self.workers.len() {
            while let Some(event) = self.workers[worker].event() {
                self.heed(worker, event, now);
            }
        }
        for link in 0..self.links.len() {
            if self.links[link].retry_at.is_some_and(|at| at <= now) {
                self.reserve(link, now);
            }
        }
        self.keep_floors(now);
        self.look_for_ended_workers();
        std::mem::take(&mut self.notices)
    }

    /// Stops all workers, brings the last floors to disk and closes the links.
    ///
    /// # Errors
    /// If the floors cannot be written.
    pub fn stop(mut self) -> Result<(), LeaseError> {
        let mut last = Vec::new();
        for (number, worker) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            let links = worker.stop();
            for control in self.links.iter().filter(|link| link.worker == number) {
                last.reserve(control.floors.len());
                if let Some(Some(link)) = links.get(control.seat) {
                    read_floors(&link.path().secy, &control.floors, &mut last);
                }
            }
        }
        self.leases.keep_floors(&last).map(drop)
    }

    fn next_action(&mut self, worker: usize, seat: usize, action: NextAction, now: Instant) {
        let Some(number) = self.seated(worker, seat).filter(|&number| !self.links[number].changing) else {
            return;
        };
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
        let TransmitLease { name, an, last, through: before } = link.lease;
        match self.leases.reserve(name, last, BLOCK_PNS) {
            Ok(Reservation::Block(block)) => {
                link.retry_at = None;
                // What lies between was reserved for another SA under this key, which must not be: whatever happens, no
                // PN is used twice.
                if before.number().checked_add(1) != Some(block.first.number()) {
                    self.notices.push(Notice::PnExhausted { link: link.name.clone() });
                    return;
                }
                let through = block.last;
                link.lease.through = through;
                // If the ring is full the worker is stuck, and needs no PNs.
                let _ = self.workers[link.worker].command(Command::Reserve { seat: link.seat, an, through });
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
        let links = self.links.iter().map(|link| (&link.name, link.worker));
        let all = links.chain(self.sites.iter().map(|site| (&site.name, site.worker)));
        let names = all.filter(|(_, worker)| ended(&self.workers[*worker])).map(|(name, _)| name.clone());
        self.notices.push(Notice::WorkerEnded { links: names.collect() });
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.name == name)
    }

    fn seated(&self, worker: usize, seat: usize) -> Option<usize> {
        self.links.iter().position(|link| (link.worker, link.seat) == (worker, seat))
    }
}
