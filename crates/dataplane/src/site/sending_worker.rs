//! A further worker of a site, which sends: a thread with a lane of its own.
//!
//! ```text
//!  LAN ─▶ site's worker ─ route ─┬─────────────────────▶ lane 0 ─▶ UDP      groups, unknown stations, its share of the flows
//!                                └─ frames ─▶ this one ─▶ lane 2 ─▶ UDP      the other flows to stations behind a peer
//!                 ▲   │ commands ──▶ │
//!                 └───┴── events, figures ◀┘
//! ```
//!
//! The site's worker alone hears stations, so it finds the route; what costs most, packets and system calls, is spread. A flow stays
//! with one worker, so its frames keep their order as long as their destination is known behind that peer. Once it is forgotten, the
//! next ones go to all peers from lane 0, past those that wait in the ring. Nothing is shared but rings: each lane has its own keys, seqs and flow numbers
//! ([`LaneShare`]).
//!
//! Left out on purpose: everything that has packets of all flows wait for each other or go several ways (rates, paths, relays), a second
//! box of the LAN, and other modes. The configuration refuses these beside several workers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, JoinHandle};
use std::time::{self, Duration};

use arrayvec::ArrayVec;
use netdev::scheduling::{RealTimeBudget, Scheduling, pin};
use netdev::udp::{Outgoing, SEND_PACKETS, UdpCounters, UdpSender};
use netdev::wake::{self, Waiter, Waker};
use tunnel::{
    Command, Event, Forwarding, LaneShare, Mode, NumberedFlow, PeerCounters, PeerId, Route, Settings,
};
use wire::Instant;

use super::endpoints::Endpoints;
use super::handed_frames::{HandedConsumer, HandedProducer, handed_frames};
use super::snapshot::SHOWN;
use crate::mailbox::{self, Mailbox};
use crate::worker::{IdleAction, IdlePolicy, Polling};

/// Workers that a site sends from, if not from one.
pub const SENDING_WORKERS: u8 = 2;
/// Commands and events that can wait.
const MESSAGES: usize = 1024;
/// Interval between figures.
const FIGURES: Duration = Duration::from_millis(100);
/// The longest sleep.
const SLEEP: Duration = Duration::from_millis(100);

/// Message to the further worker.
#[derive(Debug)]
pub(super) enum ToSending {
    Tunnel(Command),
    Endpoint(PeerId, Option<std::net::SocketAddr>),
    /// Memory for the next figures.
    Figures(Box<SendingFigures>),
}

/// Message of the further worker.
#[derive(Debug)]
enum FromSending {
    Event(Event),
    Figures(Box<SendingFigures>),
}

/// Counters of the further worker.
#[derive(Clone, Debug, Default)]
pub(super) struct SendingFigures {
    pub(super) udp: UdpCounters,
    /// By peer.
    pub(super) peers: Vec<PeerCounters>,
    pub(super) flows: Vec<(PeerId, NumberedFlow)>,
    pub(super) no_endpoint: u64,
}

impl SendingFigures {
    fn with_room(peers: usize) -> Box<Self> {
        Box::new(Self {
            peers: Vec::with_capacity(peers),
            flows: Vec::with_capacity(SHOWN),
            ..Self::default()
        })
    }
}

/// The site's hold on its further worker. Dropped, it ends the thread.
#[derive(Debug)]
pub(super) struct SendingWorker {
    mailbox: Option<Mailbox<ToSending, FromSending>>,
    frames: Option<HandedProducer>,
    /// Frames or messages were given since it was woken last.
    given: bool,
    sleeps: Arc<AtomicBool>,
    waker: Waker,
    figures: Box<SendingFigures>,
    /// Those before, to be given back.
    older: Option<Box<SendingFigures>>,
    thread: Thread,
}

#[derive(Debug)]
enum Thread {
    Waits(Box<Work>),
    Runs(JoinHandle<()>),
    Ended,
}

impl SendingWorker {
    /// A worker for a site with these settings, which sends with `sender`; its thread does not run yet.
    pub(super) fn new(settings: Settings, sender: UdpSender) -> io::Result<Self> {
        let modes: Vec<Mode> = settings.peers.iter().map(|peer| peer.mode).collect();
        let share = LaneShare::new(1, SENDING_WORKERS).expect("invariant: there are two workers");
        let (mailbox, sending) = mailbox::pair(MESSAGES, MESSAGES);
        let (frames, handed) = handed_frames();
        let (waker, waiter) = wake::pair()?;
        let sleeps = Arc::new(AtomicBool::new(false));
        let work = Work {
            forwarding: Forwarding::on_lane(settings, share),
            endpoints: Endpoints::new(modes.iter().copied()),
            mailbox: sending,
            frames: handed,
            sender,
            sleeps: sleeps.clone(),
            waiter,
            spare: Some(SendingFigures::with_room(modes.len())),
            next_figures: Instant::START,
            no_endpoint: 0,
        };
        Ok(Self {
            mailbox: Some(mailbox),
            frames: Some(frames),
            given: false,
            sleeps,
            waker,
            figures: SendingFigures::with_room(modes.len()),
            older: None,
            thread: Thread::Waits(Box::new(work)),
        })
    }

    /// Starts the thread.
    pub(super) fn start(
        &mut self,
        name: String,
        polling: Polling,
        scheduling: Scheduling,
        cpu: Option<usize>,
    ) -> io::Result<()> {
        let Thread::Waits(work) = std::mem::replace(&mut self.thread, Thread::Ended) else { return Ok(()) };
        let (started, result) = std::sync::mpsc::sync_channel(1);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let placed = cpu.map_or(Ok(()), pin).and_then(|()| scheduling.apply());
            let runs = placed.is_ok();
            // Whoever starts it waits for the word.
            let _ = started.send(placed);
            if runs {
                work.run(polling, scheduling);
            }
        })?;
        self.thread = Thread::Runs(thread);
        result.recv().unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))
    }

    /// Gives it a frame for one peer. False if there is no room.
    pub(super) fn give(&mut self, peer: PeerId, route: Route, dscp: u8, frame: &[u8]) -> bool {
        self.given = true;
        self.frames.as_mut().is_some_and(|frames| frames.push(peer, route, dscp, frame))
    }

    /// Whether it can be told something.
    pub(super) fn has_room(&self) -> bool {
        self.mailbox.as_ref().is_some_and(Mailbox::has_room)
    }

    pub(super) fn tell(&mut self, message: ToSending) {
        self.given = true;
        // Asked before whether there is room.
        if let Some(mailbox) = &mut self.mailbox {
            mailbox.send_without_waking(message);
        }
    }

    /// Wakes it, if it sleeps and something was given.
    pub(super) fn wake(&mut self) {
        if self.has_room()
            && let Some(older) = self.older.take()
        {
            self.tell(ToSending::Figures(older));
        }
        if !std::mem::take(&mut self.given) {
            return;
        }
        // Behind what was given, as the other side asks for it behind its own note.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// The next event for the manager. Figures among them are taken.
    pub(super) fn event(&mut self) -> Option<Event> {
        loop {
            match self.mailbox.as_mut()?.receive()? {
                FromSending::Event(event) => return Some(event),
                FromSending::Figures(newer) => {
                    self.older = Some(std::mem::replace(&mut self.figures, newer));
                }
            }
        }
    }

    /// The newest figures: a tenth of a second old.
    pub(super) const fn figures(&self) -> &SendingFigures {
        &self.figures
    }
}

impl Drop for SendingWorker {
    fn drop(&mut self) {
        // A worker that nobody can tell anything ends.
        self.mailbox = None;
        self.frames = None;
        self.waker.wake();
        if let Thread::Runs(thread) = std::mem::replace(&mut self.thread, Thread::Ended) {
            let _ = thread.join();
        }
    }
}

/// State of the thread.
#[derive(Debug)]
struct Work {
    forwarding: Forwarding,
    endpoints: Endpoints,
    mailbox: Mailbox<FromSending, ToSending>,
    frames: HandedConsumer,
    sender: UdpSender,
    sleeps: Arc<AtomicBool>,
    waiter: Waiter,
    spare: Option<Box<SendingFigures>>,
    next_figures: Instant,
    no_endpoint: u64,
}

impl Work {
    fn run(mut self, polling: Polling, scheduling: Scheduling) {
        let start = time::Instant::now();
        let mut idle = IdlePolicy::new(polling, scheduling);
        let mut real_time = RealTimeBudget::new(scheduling, start);
        while !self.mailbox.is_abandoned() {
            let read = time::Instant::now();
            let now = Instant::after_start(read.saturating_duration_since(start));
            idle.begin(read);
            real_time.begin(read);
            let told = self.handle_messages(now);
            // Commands that were given before a frame count for it.
            let frames = self.mailbox.is_empty() && self.send(now);
            self.forwarding.handle_timeout(now);
            self.tell(now);
            if frames || told {
                idle.busy(frames);
                continue;
            }
            match idle.idle(read) {
                IdleAction::Look => std::hint::spin_loop(),
                IdleAction::Yield => {
                    real_time.demote(read);
                    idle.yields(time::Instant::now());
                    thread::yield_now();
                }
                IdleAction::Sleep => {
                    real_time.sleep(read);
                    self.sleep(now);
                    real_time.woke(time::Instant::now());
                    idle.slept();
                }
            }
        }
        drop(self);
        suite::scrub_stack();
    }

    fn sleep(&mut self, now: Instant) {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.frames.is_empty() && self.mailbox.is_empty() && !self.mailbox.is_abandoned() {
            let due = self.forwarding.poll_timeout().map_or(SLEEP, |due| due.since(now).min(SLEEP));
            self.waiter.wait(due);
        }
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// Does what it was told; what voids or fills tables, once a turn.
    fn handle_messages(&mut self, now: Instant) -> bool {
        let mut told = false;
        while let Some(message) = self.mailbox.receive() {
            told = true;
            match message {
                ToSending::Tunnel(command) => {
                    let whole = command.rebuilds_tables();
                    self.forwarding.handle_command(now, command);
                    if whole {
                        break;
                    }
                }
                ToSending::Endpoint(peer, address) => self.endpoints.set(peer, address),
                ToSending::Figures(spare) => self.spare = Some(spare),
            }
        }
        told
    }

    /// Sends a burst, peer by peer. Work: one dispatch for each frame, and one system call for 64 packets.
    fn send(&mut self, now: Instant) -> bool {
        let Self { forwarding, endpoints, frames, sender, no_endpoint, .. } = self;
        let Some(burst) = frames.burst() else { return false };
        let mut packets = ArrayVec::<Outgoing<'_>, SEND_PACKETS>::new();
        // A bit for each frame of the burst.
        let mut done = 0_u64;
        while let Some((_, (first, _))) = (0..).zip(burst.frames()).find(|(bit, _)| done >> bit & 1 == 0) {
            let place = endpoints.of(first.peer);
            let of_peer = (0..).zip(burst.frames()).filter(|(_, (handed, _))| handed.peer == first.peer);
            for (bit, (handed, frame)) in of_peer {
                done |= 1 << bit;
                let Some((_, place)) = place else {
                    *no_endpoint += 1;
                    continue;
                };
                for packet in forwarding.dispatch(now, &handed.route, handed.peer, frame) {
                    if packets.is_full() {
                        sender.send(&packets);
                        packets.clear();
                    }
                    let (head, body) = (packet.header.iter().copied().collect(), &frame[packet.body]);
                    packets.push(Outgoing {
                        to: place.to,
                        source: place.source,
                        dscp: handed.dscp,
                        head,
                        body,
                    });
                }
            }
        }
        sender.send(&packets);
        true
    }

    /// Tells what there is, as far as there is room.
    fn tell(&mut self, now: Instant) {
        while self.mailbox.has_room()
            && let Some(event) = self.forwarding.poll_event()
        {
            self.mailbox.send_without_waking(FromSending::Event(event));
        }
        if now < self.next_figures || !self.mailbox.has_room() {
            return;
        }
        let Some(mut figures) = self.spare.take() else { return };
        self.next_figures = now + FIGURES;
        let forwarding = &self.forwarding;
        let peers = || (0..forwarding.peers()).map(|number| PeerId(number as u16));
        (figures.udp, figures.no_endpoint) = (self.sender.counters(), self.no_endpoint);
        figures.peers.clear();
        let room = figures.peers.capacity();
        figures.peers.extend(peers().map(|peer| forwarding.peer_counters(peer)).take(room));
        figures.flows.clear();
        let room = figures.flows.capacity();
        let flows = peers().flat_map(|peer| forwarding.flows(peer).map(move |flow| (peer, *flow)));
        figures.flows.extend(flows.take(room));
        self.mailbox.send_without_waking(FromSending::Figures(figures));
    }
}
