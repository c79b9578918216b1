//! Negotiation of two sites over the management channel: instances, epochs, flows, positions (section 3.5).
//! There is one session for each peer; the channel under it may break at any moment and return.
//!
//! ```text
//!                    handle_connected                Hello, fine                    Welcome
//!   ┌──────┐ ────────────────────▶ ┌──────────┐ ────────────────▶ ┌─────────┐ ────────────────▶ ┌────┐
//!   │ Down │       sends Hello     │ Greeting │    sends Welcome  │ Greeted │                   │ Up │
//!   └──────┘ ◀──────────────────── └──────────┘    epochs begin   └─────────┘   flows are told  └────┘
//!        ▲   handle_disconnected, from everywhere
//!        └── Faulted: after a PeerFault, until the caller has closed the connection
//! ```
//!
//! **A generation** is a pair of instances. A Hello with a new instance begins one: `Command::Begin` voids
//! everything on both halves, epochs begin at 1 with new secrets, and events of the previous generation are
//! dropped. A Hello with the same instance changes nothing: epochs and flows continue.
//!
//! **After a lost connection** every unanswered request is sent again, and nothing else. No queue of messages
//! can grow or be lost: a message is made from the present state when it can be sent
//! ([`Session::poll_message`]). Positions alone are not sent again; the forwarding half asks again.
//!
//! **Bounds.** The 65,536 flow numbers or the 256 lanes bound all tables. [`OUTSTANDING`] bounds unanswered
//! announcements; beyond it, the forwarding half is asked after a second to repeat them. [`IN_FLIGHT`] bounds
//! requests in flight. A peer with four times as many, or whose messages cause more than [`COMMANDS`]
//! commands than the forwarding half takes, floods: a fault. Requests that a peer may repeat freely
//! (positions, unknown numbers) are ignored beyond two a second. New instances and epochs, which cost the
//! forwarding half the work of thousands of frames, are each one a second at most: more are a fault.
//!
//! **Loss of the channel.** Known flows continue, the epoch lasts longer, and the session keeps its state.
//! MKA's own sessions end after 6 s without their frames; nothing here ends a flow with a static key.
//!
//! Left out on purpose: authorisation of a peer (the channel's, by its keys); time-outs of a connection (the
//! channel's).

mod announcements;
mod fault;
mod handle_message;
mod octets;
mod peer_flows;
mod receive_epochs;
mod state;
mod transmit_epochs;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

use suite::tunnel::EpochSecret;
use wire::time::{Instant, TokenBucket};
use wire::tunnel::FlowIndex;

pub use self::announcements::{IN_FLIGHT, OUTSTANDING};
pub use self::fault::PeerFault;
pub use self::octets::HeardOctets;
pub use self::state::{ChannelState, EpochAge, SessionCounters, SessionState};

use self::announcements::Announcements;
use self::octets::Octets;
use self::peer_flows::PeerFlows;
use self::receive_epochs::ReceiveEpochs;
use self::transmit_epochs::TransmitEpochs;
use crate::exchange::{Command, Event, Generation, Instance, PacketOctets};
use crate::message::{HelloMode, Message, MessageError, Stream};
use crate::settings::{FrameKinds, Mode, PeerId};

/// Most commands that wait for the forwarding half: twice what a peer with full tables causes at once.
pub const COMMANDS: usize = 8192;

/// Default lifetime of an epoch of identifier mode.
pub const EPOCH_LIFE: Duration = Duration::from_secs(3600);

/// Most new instances of the peer at once: each voids all that the forwarding half has of it.
const INSTANCES_AT_ONCE: u32 = 8;

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The peer.
    pub peer: PeerId,
    /// This start of the session: drawn anew for each, so that the peer trusts no earlier state.
    pub instance: Instance,
    /// Header protection; not plain, which has no management channel.
    pub mode: Mode,
    /// Number of lanes that this site sends on: 1 to [`crate::Settings::LANES`].
    pub lanes: u8,
    /// W, as in [`crate::Settings::window`]; equal at both ends.
    pub window: u64,
    /// Kinds of frames that this site takes.
    pub frames: FrameKinds,
    /// Lifetime of an epoch in identifier mode.
    pub epoch_life: Duration,
    /// Draws 32 octets from the operating system.
    pub draw: fn() -> EpochSecret,
}

/// The session with one peer.
///
/// The caller carries messages of [`Session::poll_message`] to the peer and the peer's to
/// [`Session::handle_message`], and commands of [`Session::poll_command`] to the forwarding half and its
/// events to [`Session::handle_event`]. It calls [`Session::handle_timeout`] at [`Session::poll_timeout`].
/// After each `handle_` call, the polls may have something new.
#[derive(Debug)]
pub struct Session {
    settings: SessionSettings,
    mode: HelloMode,
    channel: ChannelState,
    /// Time of the last change of the channel's state.
    since: Instant,
    /// The peer's instance, and the time of its first Hello.
    instance: Option<(Instance, Instant)>,
    generation: Generation,
    transmit: TransmitEpochs,
    receive: ReceiveEpochs,
    flows: Announcements,
    peer_flows: PeerFlows,
    /// Kinds of frames that the peer takes.
    peer_takes: FrameKinds,
    octets: Octets,
    due: Due,
    /// Pending position requests to the peer: lane to epoch.
    asked: BTreeMap<u8, u32>,
    /// Lanes whose position the peer has requested and not received.
    asks: BTreeSet<u8>,
    /// New instances of the peer.
    instances: TokenBucket,
    where_is: TokenBucket,
    unknowns: TokenBucket,
    commands: VecDeque<Command>,
    counters: SessionCounters,
    fault: Option<(PeerFault, Instant)>,
}

/// Pending messages of this connection, besides epochs and flows: the newest of each kind.
#[derive(Default, Debug)]
struct Due {
    hello: bool,
    welcome: bool,
    pong: Option<u64>,
    epoch_ready: Option<u32>,
    where_is: BTreeMap<u8, u32>,
    positions: BTreeMap<u8, (u32, u64)>,
    unknown: Option<FlowIndex>,
}

impl Session {
    /// A session whose channel is down.
    ///
    /// # Panics
    /// If the mode is plain.
    pub fn new(settings: SessionSettings, now: Instant) -> Self {
        let mode = HelloMode::of(settings.mode).expect("invariant: plain mode has no management channel");
        Self {
            transmit: TransmitEpochs::new(mode, settings.epoch_life),
            settings,
            mode,
            channel: ChannelState::Down,
            since: now,
            instance: None,
            generation: Generation::default(),
            receive: ReceiveEpochs::new(),
            flows: Announcements::default(),
            peer_flows: PeerFlows::default(),
            peer_takes: FrameKinds::default(),
            octets: Octets::default(),
            due: Due::default(),
            asked: BTreeMap::new(),
            asks: BTreeSet::new(),
            instances: TokenBucket::new(INSTANCES_AT_ONCE, Duration::from_secs(1)),
            where_is: TokenBucket::new(4, Duration::from_millis(500)),
            unknowns: TokenBucket::new(4, Duration::from_millis(500)),
            commands: VecDeque::new(),
            counters: SessionCounters::default(),
            fault: None,
        }
    }

    /// Continues after an earlier session, whose generations up to this one the forwarding half knows. This
    /// session's generations follow it, and events of earlier ones are ignored.
    pub fn continue_after(&mut self, before: Generation) {
        if before != Generation::default() {
            self.generation = Generation(before.0.wrapping_add(1).max(1));
        }
    }

    /// Handles a new connection with the peer. Abandons an earlier one.
    pub fn handle_connected(&mut self, now: Instant) {
        self.forget_connection();
        self.counters.connections += 1;
        self.enter(now, ChannelState::HelloSent);
        self.due.hello = true;
    }

    /// Handles the loss of the connection.
    pub fn handle_disconnected(&mut self, now: Instant) {
        self.forget_connection();
        self.enter(now, ChannelState::Down);
    }

    /// Handles a message of the peer.
    ///
    /// # Errors
    /// [`PeerFault`]: the caller closes the connection. Until then everything is ignored and nothing is sent.
    pub fn handle_message(&mut self, now: Instant, message: Message) -> Result<(), PeerFault> {
        let handled = match self.channel {
            // In flight while the connection ended.
            ChannelState::Down | ChannelState::Faulted => return Ok(()),
            ChannelState::HelloSent => self.handle_hello(now, message),
            ChannelState::HelloReceived | ChannelState::Up => self.handle_when_up(now, message),
        };
        let too_many = self.commands.len() > COMMANDS;
        let result = handled.and(if too_many { Err(PeerFault::Flood) } else { Ok(()) });
        if let Err(fault) = result {
            self.enter_fault(now, fault);
        }
        self.begin_epoch(now);
        result
    }

    /// Handles octets of the peer that are no message, like a fault in [`Session::handle_message`].
    pub fn handle_malformed(&mut self, now: Instant, error: MessageError) -> PeerFault {
        let fault = PeerFault::Message(error);
        self.enter_fault(now, fault);
        fault
    }

    /// Counts a skipped message of an unknown kind.
    pub fn handle_skipped(&mut self) {
        self.counters.in_messages_skipped += 1;
    }

    /// Handles an event of the forwarding half.
    pub fn handle_event(&mut self, now: Instant, event: Event) {
        if event.subject() != (self.settings.peer, self.generation)
            || self.generation == Generation::default()
        {
            self.counters.events_old += 1;
            return;
        }
        match event {
            Event::Announce { index, flow, request, .. } => {
                if !self.flows.announce(now, index, flow, request) {
                    self.counters.out_flows_put_off += 1;
                }
            }
            Event::Withdraw { index, .. } => self.flows.withdraw(index),
            Event::ReceiveReady { epoch, .. } => {
                if self.receive.ready(now, epoch) {
                    self.counters.in_epochs += 1;
                    self.due.epoch_ready = Some(epoch);
                }
            }
            Event::FlowAccepted { index, request, .. } => {
                self.counters.in_flows_accepted += 1;
                self.peer_flows.handle_answer(index, request, true);
            }
            Event::FlowRefused { index, request, .. } => {
                self.counters.in_flows_refused += 1;
                self.peer_flows.handle_answer(index, request, false);
            }
            Event::UnknownIndex { index, .. } => self.due.unknown = Some(index),
            Event::Lost { epoch, lane, .. } => drop(self.due.where_is.insert(lane, epoch)),
            // The position may be of a newer epoch than the requested one, which then counts.
            Event::Position { epoch, lane, seq, .. } => {
                if self.asks.remove(&lane) {
                    self.due.positions.insert(lane, (epoch, seq));
                }
            }
            Event::EpochWanted { newest, .. } => self.transmit.want(newest),
            // Whoever forwards flows beside the half has handled them.
            Event::FlowInUse { .. }
            | Event::StationMoves { .. }
            | Event::StationInUse { .. }
            | Event::EpochInUse { .. } => {}
        }
        self.begin_epoch(now);
    }

    /// Handles this end's figures, to be called once a second: the peer hears them if it takes them, and they or its own are news.
    pub fn handle_octets(&mut self, octets: PacketOctets) {
        if self.channel == ChannelState::Up && self.peer_takes.has(FrameKinds::OCTETS) {
            self.octets.count(octets);
        }
    }

    /// Handles the time of [`Session::poll_timeout`], or any other.
    pub fn handle_timeout(&mut self, now: Instant) {
        for index in self.flows.take_retries(now) {
            self.commands.push_back(Command::Unknown {
                peer: self.settings.peer,
                generation: self.generation,
                index,
            });
        }
        self.peer_flows.handle_timeout(now);
        self.begin_epoch(now);
    }

    /// Next time for [`Session::handle_timeout`] without other input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let epoch = if self.hello_received() { self.transmit.poll_timeout() } else { None };
        [epoch, self.flows.poll_timeout(), self.peer_flows.poll_timeout()].into_iter().flatten().min()
    }

    /// Next command for the forwarding half.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Next message for the peer, with its stream. It counts as sent; after a loss of the connection it is
    /// sent again on the next one.
    pub fn poll_message(&mut self) -> Option<(Stream, Message)> {
        if matches!(self.channel, ChannelState::Down | ChannelState::Faulted) {
            return None;
        }
        if let Some(message) = self.control_message() {
            return Some((Stream::Control, message));
        }
        if self.channel != ChannelState::Up {
            return None;
        }
        let unknown = self.due.unknown.take().map(|index| Message::Unknown { index });
        let message =
            unknown.or_else(|| self.peer_flows.poll_reply()).or_else(|| self.flows.poll_request())?;
        Some((Stream::Announcements, message))
    }

    /// State for the status.
    pub fn state(&self) -> SessionState {
        SessionState {
            channel: self.channel,
            since: self.since,
            instance: self.instance,
            generation: self.generation,
            transmit: self.transmit.age(),
            transmit_offered: self.transmit.offered(),
            receive: self.receive.age(),
            flows_announced: self.flows.announced(),
            flows_acknowledged: self.flows.acknowledged(),
            peer_flows: self.peer_flows.accepted(),
            octets: self.octets.heard(),
            fault: self.fault,
            counters: self.counters,
        }
    }

    fn hello_received(&self) -> bool {
        matches!(self.channel, ChannelState::HelloReceived | ChannelState::Up)
    }

    fn enter(&mut self, now: Instant, channel: ChannelState) {
        self.channel = channel;
        self.since = now;
    }

    fn enter_fault(&mut self, now: Instant, fault: PeerFault) {
        self.counters.peer_faults += 1;
        self.fault = Some((fault, now));
        self.forget_connection();
        self.enter(now, ChannelState::Faulted);
    }

    /// Reopens all unanswered requests, and drops pending messages.
    fn forget_connection(&mut self) {
        self.due = Due::default();
        self.asked.clear();
        self.asks.clear();
        self.octets.disconnected();
        self.transmit.disconnected();
        self.flows.disconnected();
        self.peer_flows.disconnected();
    }

    /// Draws the secret of another epoch if one is due. Without a channel it waits: the epoch lasts longer.
    fn begin_epoch(&mut self, now: Instant) {
        if self.hello_received() {
            self.transmit.begin(now, self.settings.draw);
        }
    }

    fn control_message(&mut self) -> Option<Message> {
        if core::mem::take(&mut self.due.hello) {
            let SessionSettings { instance, lanes, window, frames, .. } = self.settings;
            return Some(Message::Hello { instance, lanes, window, mode: self.mode, frames });
        }
        if !self.hello_received() {
            return None;
        }
        if core::mem::take(&mut self.due.welcome) {
            return Some(Message::Welcome);
        }
        if let Some(token) = self.due.pong.take() {
            return Some(Message::Pong { token });
        }
        if let Some(epoch) = self.due.epoch_ready.take() {
            return Some(Message::EpochReady { epoch });
        }
        if let Some((epoch, secret)) = self.transmit.poll() {
            return Some(Message::Epoch { epoch, secret, lanes: self.settings.lanes });
        }
        if let Some((lane, epoch)) = self.due.where_is.pop_first() {
            self.asked.insert(lane, epoch);
            return Some(Message::WhereIs { epoch, lane });
        }
        if let Some((lane, (epoch, seq))) = self.due.positions.pop_first() {
            return Some(Message::Position { epoch, lane, seq });
        }
        self.octets.poll().map(Message::Octets)
    }
}
