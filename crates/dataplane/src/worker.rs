//! A worker: one thread that owns its links and sites, with their ports and SAs, and shares nothing with other threads but two wait-free
//! rings: commands come in, events go out, both between turns.
//!
//! ```text
//!  control ── Command ring ──▶ worker ── turn, turn, turn … ──▶ Event ring ── control
//! ```
//!
//! Because a worker owns its SAs, a PN is taken without an atomic and a nonce cannot be used by two threads; and
//! because tables change only between turns, no frame in flight meets a half-changed one.

pub mod held;
mod polling;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle, Thread};
use std::time::{self, Duration};

use rtrb::{Consumer, Producer, RingBuffer};
use secy::{GoesOn, NextAction};
use suite::{CipherSuite, Key, Sak};
use wire::{An, Instant, Pn};

use crate::cell::{Cell, CellSnapshot, KeyChanges};
use crate::floors::{Floor, ReceiveFloor, read as read_floors};
use crate::link::{Link, Ports};
use crate::path::Path;
use crate::sa_changes::{NextPns, SaChange, SaChanges};
use crate::site::{Lan, PeerChange, Site, SiteSnapshot};
use crate::snapshot::LinkSnapshot;
use netdev::scheduling::{Precedence, Scheduling, pin};
use netdev::wake::{self, Waiter, Waker};
pub use polling::{Looks, Polling, Rest, SPIN};

/// The longest sleep. Nothing depends on it: frames and control wake the worker.
const SLEEP: Duration = Duration::from_millis(100);

/// Commands or events that can wait. Control has a few commands a link under way at the most.
const RING: usize = 1024;

/// Links and sites of a worker for which there is room from the start.
const USUAL_SEATS: usize = 64;

/// What a worker turns.
pub enum Occupant {
    Link(Box<Link>),
    Site(Box<Site>),
}

/// What control asks of a worker. A link or a site sits on a *seat*, a number that names it as long as it is there.
pub enum Command {
    /// Take this link or site.
    Add { seat: usize, occupant: Occupant },
    /// Give the link or site back.
    Remove { seat: usize },
    /// Give the link these ports.
    Open { seat: usize, ports: Box<Ports> },
    /// Take the link's ports away and give them back.
    Close { seat: usize },
    /// Give the site this LAN port.
    OpenLan { seat: usize, lan: Box<Lan> },
    /// Take the site's LAN port away and give it back.
    CloseLan { seat: usize },
    /// Let peers of the site leave and others come, and give back what is left over.
    ChangePeers { seat: usize, change: Box<PeerChange> },
    /// Put this path in the place of the link's own, and give that back.
    Change { seat: usize, path: Box<Path>, goes_on: GoesOn },
    /// Change the SAs of a link whose keys are agreed on, and send back what is left.
    ChangeSas { seat: usize, changes: Box<SaChanges> },
    /// Read the next PNs of the transmit SAs, and send them back.
    NextPns { seat: usize, pns: Box<NextPns> },
    /// Put this cell in the place of the link's own, or take that out, and give that back.
    ChangeCell { seat: usize, cell: Option<Box<Cell>>, goes_on: Vec<(usize, usize)> },
    /// Change keys of the link's cell, and send back what is left.
    ChangeKeys { seat: usize, changes: Box<KeyChanges> },
    /// Fill the cell's snapshot, in some turns, and send it back.
    ReportCell { seat: usize, snapshot: Box<CellSnapshot> },
    /// Allow the transmit SA the PNs up to and with this one.
    Reserve { seat: usize, an: An, through: Pn },
    /// Fill the snapshot and send it back.
    Report { seat: usize, snapshot: Box<LinkSnapshot> },
    /// The same for a site.
    ReportSite { seat: usize, snapshot: Box<SiteSnapshot> },
    /// Read the floors of these receive SAs, and send them back.
    Floors { seat: usize, of: Arc<[ReceiveFloor]>, into: Vec<Floor> },
    /// Let go of everything.
    Stop,
}

/// What a worker tells control.
pub enum Event {
    /// What the transmit SA of a link needs has changed.
    Next { seat: usize, action: NextAction },
    /// The link or site that was to be removed, if it was there.
    Removed { occupant: Option<Occupant> },
    /// The ports that a link had; it has those now that it was to be given, or none.
    Replaced { ports: Option<Box<Ports>> },
    /// The LAN port that a site had; it has the one now that it was to be given, or none.
    LanReplaced { lan: Option<Box<Lan>> },
    /// Peers of a site have left and come; what is left over.
    PeersChanged { change: Box<PeerChange> },
    /// The path that a link had, or was to be given if there is no such link.
    Changed { path: Box<Path>, goes_on: GoesOn, done: bool },
    /// The changes were carried out; what they took out is in them.
    SasChanged { seat: usize, changes: Box<SaChanges> },
    /// The cell that a link had, or was to be given if there is no such link.
    CellChanged { cell: Option<Box<Cell>>, goes_on: Vec<(usize, usize)> },
    /// The keys were changed; what was taken out is in it.
    KeysChanged { changes: Box<KeyChanges> },
    /// The cell's snapshot that was asked for; incomplete, if there is no such cell or another was asked for meanwhile.
    ReportCell { seat: usize, snapshot: Box<CellSnapshot> },
    /// The next PNs that were asked for.
    NextPns { seat: usize, pns: Box<NextPns> },
    /// The snapshot that was asked for.
    Report { seat: usize, snapshot: Box<LinkSnapshot> },
    /// The same for a site.
    ReportSite { seat: usize, snapshot: Box<SiteSnapshot> },
    /// The floors that were asked for.
    Floors { floors: Vec<Floor> },
}

/// Control's hold on a worker.
pub struct WorkerHandle {
    commands: Producer<Command>,
    events: Consumer<Event>,
    waker: Waker,
    /// Returns links and sites, so that they are closed where time does not matter.
    thread: JoinHandle<Vec<Option<Seat>>>,
}

impl WorkerHandle {
    /// Starts a worker without links and sites. `attendant` is the thread that hears its events: it is woken for those
    /// of them, and for those EAPOL frames, that should not wait for its next turn.
    ///
    /// # Errors
    /// If the thread cannot be started, or not be scheduled so, or not run on `cpu` alone.
    pub fn start(
        name: String,
        polling: Polling,
        scheduling: Scheduling,
        cpu: Option<usize>,
        attendant: Thread,
    ) -> io::Result<Self> {
        let (commands, command_ring) = RingBuffer::new(RING);
        let (event_ring, events) = RingBuffer::new(RING);
        let (waker, waiter) = wake::pair()?;
        let seats = Vec::with_capacity(USUAL_SEATS);
        let worker = Worker {
            seats,
            commands: command_ring,
            events: event_ring,
            waiter,
            looks: Looks::new(polling, scheduling),
            precedence: Precedence::new(scheduling, time::Instant::now()),
            attendant,
            antedated: 0,
        };
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let placed = cpu.map_or(Ok(()), pin).and_then(|()| scheduling.take());
            let goes_on = placed.is_ok();
            // Whoever starts it waits for the word.
            let _ = tell.send(placed);
            if goes_on { worker.run() } else { Vec::new() }
        })?;
        let ended = |_| Err(io::Error::other("the thread has ended"));
        told.recv().unwrap_or_else(ended)?;
        Ok(Self { commands, events, waker, thread })
    }

    /// Sends a command. One that finds the ring full is handed back: the worker is stuck or gone.
    pub fn command(&mut self, command: Command) -> Result<(), Command> {
        self.commands.push(command).map_err(|rtrb::PushError::Full(command)| command)?;
        self.waker.wake();
        Ok(())
    }

    /// Wakes the worker: there is something in a ring of one of its links.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// The next event, if there is one.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop().ok()
    }

    /// False once the thread has ended.
    pub fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Stops the worker and returns its links, by seat; none if it ended badly. Sites are closed.
    pub fn stop(mut self) -> Vec<Option<Box<Link>>> {
        // A worker that takes no command any more has ended: join returns at once.
        let _ = self.command(Command::Stop);
        let seats = self.thread.join().unwrap_or_default();
        let link = |seat: Seat| match seat.occupant {
            Occupant::Link(link) => Some(link),
            Occupant::Site(_) => None,
        };
        seats.into_iter().map(|seat| seat.and_then(link)).collect()
    }
}

/// A place in a worker.
struct Seat {
    occupant: Occupant,
    /// What control was told last of a link's transmit SA.
    told: NextAction,
}

struct Worker {
    /// By number; one that was left is taken by the next that comes.
    seats: Vec<Option<Seat>>,
    commands: Consumer<Command>,
    events: Producer<Event>,
    waiter: Waiter,
    looks: Looks,
    precedence: Precedence,
    attendant: Thread,
    /// The seat for which a keystream was made last.
    antedated: usize,
}

impl Worker {
    fn run(mut self) -> Vec<Option<Seat>> {
        // The cipher library makes room for its error queue when a thread first refuses a frame, and preparing a key
        // rehearses that: done here, no frame has to wait for an allocation.
        if let Ok(sak) = Sak::new(CipherSuite::GcmAes128, &[0; 16]) {
            drop(Key::prepare(CipherSuite::GcmAes128, &sak));
        }
        let start = time::Instant::now();
        while self.obey() {
            let read = time::Instant::now();
            let now = Instant::after_start(read.saturating_duration_since(start));
            self.looks.begin(read);
            self.precedence.begin(read);
            let frames = self.turn(now, read) > 0;
            if frames || !self.commands.is_empty() {
                self.looks.busy(frames);
                continue;
            }
            // However it polls: until all is made, one keystream a turn, so that a frame waits for no more than one.
            if self.antedate() {
                continue;
            }
            match self.looks.idle(read) {
                Rest::Look => std::hint::spin_loop(),
                Rest::Offer => {
                    // While it goes first, an offer is one to nobody.
                    self.precedence.step_back(read);
                    self.looks.offers(time::Instant::now());
                    thread::yield_now();
                }
                Rest::Sleep => {
                    self.precedence.sleep(read);
                    self.waiter.wait(self.sleep(now));
                    self.precedence.woke(time::Instant::now());
                    self.silence();
                    self.looks.slept();
                }
            }
        }
        self.seats
    }

    /// How long nothing is due.
    fn sleep(&self, now: Instant) -> Duration {
        let due = self.seats.iter().flatten().filter_map(|seat| match &seat.occupant {
            Occupant::Link(link) => link.due(),
            Occupant::Site(site) => site.due(),
        });
        due.map(|due| due.since(now)).fold(SLEEP, Duration::min)
    }

    /// Silences the sites' bells that rang.
    fn silence(&self) {
        for seat in self.seats.iter().flatten() {
            if let Occupant::Site(site) = &seat.occupant
                && self.waiter.was_readable(site.bell())
            {
                site.woken();
            }
        }
    }

    /// Makes one keystream for the next link that wants one. False if none does.
    fn antedate(&mut self) -> bool {
        let seats = self.seats.len();
        for _ in 0..seats {
            self.antedated = (self.antedated + 1) % seats;
            if let Some(Seat { occupant: Occupant::Link(link), .. }) = &mut self.seats[self.antedated]
                && link.antedate()
            {
                return true;
            }
        }
        false
    }

    /// One turn of each link and site. Returns how many frames came in.
    fn turn(&mut self, now: Instant, read: time::Instant) -> usize {
        let mut received = 0;
        for (number, seat) in self.seats.iter_mut().enumerate() {
            let Some(Seat { occupant, told }) = seat else { continue };
            let (frames, action) = match occupant {
                Occupant::Link(link) => {
                    let turned = link.turn(now, read);
                    if let Some(snapshot) = link.path_mut().tend_cell(now) {
                        let _ = self.events.push(Event::ReportCell { seat: number, snapshot });
                    }
                    if link.path_mut().knocked() {
                        self.attendant.unpark();
                    }
                    turned
                }
                Occupant::Site(site) => (site.turn(now), NextAction::GoOn),
            };
            received += frames;
            // Without frames from the plain side the SA's need is what it was.
            if action != *told && action != NextAction::GoOn {
                let event = Event::Next { seat: number, action };
                // A full ring is not an error: the same need is told again at the next burst.
                if self.events.push(event).is_ok() {
                    *told = action;
                }
            }
        }
        received
    }

    /// Carries out what control asks for; of lists of keys, one. False when the worker is to stop. Where keys may go,
    /// what ciphers left of them on this thread's stack goes too: a few microseconds.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.commands.pop() {
            // If the ring of events is full the answer is lost, and what it holds is let go of; control gives up.
            match command {
                Command::Stop => {
                    suite::scrub_stack();
                    return false;
                }
                Command::Add { seat, occupant } => {
                    while self.seats.len() <= seat {
                        self.seats.push(None);
                    }
                    self.seats[seat] = Some(Seat { occupant, told: NextAction::GoOn });
                    self.watch();
                }
                Command::Remove { seat } => {
                    let occupant = self.seats.get_mut(seat).and_then(Option::take).map(|seat| seat.occupant);
                    self.watch();
                    suite::scrub_stack();
                    let _ = self.events.push(Event::Removed { occupant });
                }
                Command::Open { seat, ports } => {
                    let ports = match self.link(seat) {
                        Some((link, _)) => link.open(ports),
                        None => Some(ports),
                    };
                    self.watch();
                    let _ = self.events.push(Event::Replaced { ports });
                }
                Command::Close { seat } => {
                    let ports = self.link(seat).and_then(|(link, _)| link.close());
                    self.watch();
                    let _ = self.events.push(Event::Replaced { ports });
                }
                Command::OpenLan { seat, lan } => {
                    let lan = match self.site(seat) {
                        Some(site) => site.open(lan),
                        None => Some(lan),
                    };
                    self.watch();
                    let _ = self.events.push(Event::LanReplaced { lan });
                }
                Command::CloseLan { seat } => {
                    let lan = self.site(seat).and_then(Site::close);
                    self.watch();
                    let _ = self.events.push(Event::LanReplaced { lan });
                }
                Command::ChangePeers { seat, mut change } => {
                    if let Some(site) = self.site(seat) {
                        site.change_peers(&mut change);
                    }
                    self.watch();
                    let _ = self.events.push(Event::PeersChanged { change });
                }
                Command::Change { seat, mut path, goes_on } => {
                    let found = self.link(seat).map(|(link, told)| {
                        link.change(&mut path, &goes_on);
                        *told = NextAction::GoOn;
                    });
                    suite::scrub_stack();
                    let _ = self.events.push(Event::Changed { path, goes_on, done: found.is_some() });
                }
                Command::ChangeSas { seat, mut changes } => {
                    if let Some((link, told)) = self.link(seat) {
                        changes.carry_out(link.path_mut());
                        // What was told was of the SA before.
                        if changes.list.iter().any(|change| matches!(change, SaChange::EnableTransmit { .. }))
                        {
                            *told = NextAction::GoOn;
                        }
                    }
                    suite::scrub_stack();
                    let _ = self.events.push(Event::SasChanged { seat, changes });
                    self.attendant.unpark();
                }
                Command::ChangeCell { seat, mut cell, goes_on } => {
                    if let Some((link, _)) = self.link(seat) {
                        cell = link.path_mut().change_cell(cell, &goes_on);
                    }
                    let _ = self.events.push(Event::CellChanged { cell, goes_on });
                }
                Command::ChangeKeys { seat, mut changes } => {
                    if let Some(cell) = self.link(seat).and_then(|(link, _)| link.path_mut().cell_mut()) {
                        changes.carry_out(cell);
                    }
                    let _ = self.events.push(Event::KeysChanged { changes });
                    // Other lists may follow, for a thousand relations. Frames wait for one of them at the most.
                    break;
                }
                Command::ReportCell { seat, snapshot } => {
                    let given_up = match self.link(seat).and_then(|(link, _)| link.path_mut().cell_mut()) {
                        Some(cell) => cell.report(snapshot),
                        None => Some(snapshot),
                    };
                    if let Some(snapshot) = given_up {
                        let _ = self.events.push(Event::ReportCell { seat, snapshot });
                    }
                }
                Command::NextPns { seat, mut pns } => {
                    if let Some((link, _)) = self.link(seat) {
                        pns.read(&link.path().secy);
                    }
                    let _ = self.events.push(Event::NextPns { seat, pns });
                }
                Command::Reserve { seat, an, through } => {
                    if let Some((link, told)) = self.link(seat) {
                        // An SA that is gone needs no PNs.
                        let _ = link.path_mut().secy.reserve_through(an, through);
                        *told = NextAction::GoOn;
                    }
                }
                Command::Floors { seat, of, into: mut floors } => {
                    if let Some((link, _)) = self.link(seat) {
                        read_floors(&link.path().secy, &of, &mut floors);
                    }
                    let _ = self.events.push(Event::Floors { floors });
                }
                Command::Report { seat, mut snapshot } => {
                    if let Some((link, _)) = self.link(seat) {
                        snapshot.fill(link);
                        let _ = self.events.push(Event::Report { seat, snapshot });
                    }
                }
                Command::ReportSite { seat, mut snapshot } => {
                    if let Some(site) = self.site(seat) {
                        snapshot.fill(site);
                        let _ = self.events.push(Event::ReportSite { seat, snapshot });
                    }
                }
            }
        }
        // Control is gone without a word: nobody could stop the worker any more.
        !self.commands.is_abandoned()
    }

    /// The link on a seat, and what control was told last of its transmit SA.
    fn link(&mut self, number: usize) -> Option<(&mut Link, &mut NextAction)> {
        match self.seats.get_mut(number)?.as_mut()? {
            Seat { occupant: Occupant::Link(link), told } => Some((link, told)),
            Seat { occupant: Occupant::Site(_), .. } => None,
        }
    }

    /// The site on a seat.
    fn site(&mut self, number: usize) -> Option<&mut Site> {
        match &mut self.seats.get_mut(number)?.as_mut()?.occupant {
            Occupant::Site(site) => Some(site),
            Occupant::Link(_) => None,
        }
    }

    /// Waits for the ports that there are now.
    fn watch(&mut self) {
        self.waiter.forget();
        for seat in self.seats.iter().flatten() {
            match &seat.occupant {
                Occupant::Link(link) => self.waiter.watch(link.poll_descriptors()),
                Occupant::Site(site) => self.waiter.watch(site.poll_descriptors()),
            }
        }
    }
}
