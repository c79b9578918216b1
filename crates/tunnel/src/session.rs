//! What two sites agree on over the management channel: instances, epochs, flows, positions (section 3.5). One session
//! a peer; the channel under it may break at any moment and come again.
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
//! **A generation** is a pair of instances. A Hello with another instance than before begins one: `Command::Begin` voids
//! everything on both halves, epochs begin at 1 with secrets of their own, and events of the generation before are
//! dropped. A Hello with the same instance changes nothing: epochs and flows go on.
//!
//! **What is told again** after a connection was lost: everything that was not answered, and nothing else. There is no
//! queue of messages that could be lost or grow: a message is made of the state in the moment in which it can be sent
//! ([`Session::poll_message`]). Positions alone are not told again; the forwarding half asks again.
//!
//! **Bounds.** All tables are bounded by the 65,536 numbers of flows or the 256 of lanes; announcements that are not
//! answered by [`OUTSTANDING`], beyond which the forwarding half is told after a second to tell them again; requests
//! under way by [`IN_FLIGHT`]. A peer that has four times as many under way, or whose messages make more than
//! [`COMMANDS`] commands than the forwarding half takes, floods: a fault. What a peer may ask as often as it likes
//! (positions, unknown numbers) is not heeded beyond twice a second.
//!
//! **Loss of the channel.** Known flows go on, the epoch lasts longer, and the session keeps all it knows. That MKA's
//! own sessions end after 6 s without their frames is their business: nothing here ends a flow with a static key.
//!
//! Left out on purpose: who may speak at all (the channel's, by its keys); time-outs of a connection (the channel's).

mod announcements;
mod fault;
mod handle_message;
mod peer_flows;
mod receive_epochs;
mod state;
mod token_bucket;
mod transmit_epochs;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

use suite::tunnel::EpochSecret;
use wire::Instant;
use wire::tunnel::FlowIndex;

pub use self::announcements::{IN_FLIGHT, OUTSTANDING};
pub use self::fault::PeerFault;
pub use self::state::{ChannelState, EpochAge, SessionCounters, SessionState};

use self::announcements::Announcements;
use self::peer_flows::PeerFlows;
use self::receive_epochs::ReceiveEpochs;
use self::token_bucket::TokenBucket;
use self::transmit_epochs::TransmitEpochs;
use crate::exchange::{Command, Event, Generation, Instance};
use crate::message::{HelloMode, Message, MessageError, Stream};
use crate::settings::{Mode, PeerId};

/// Commands that may wait for the forwarding half: twice what a peer with full tables has to say at once.
pub const COMMANDS: usize = 8192;

/// An epoch of identifier mode lasts so long where nothing else is configured.
pub const EPOCH_LIFE: Duration = Duration::from_secs(3600);

/// What a session is told before it starts.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Whose session.
    pub peer: PeerId,
    /// This start of this session: drawn anew for each, so that the peer believes nothing of before.
    pub instance: Instance,
    /// How headers are protected; not plain, which has no management channel.
    pub mode: Mode,
    /// Lanes that this site sends on: 1 to [`crate::Settings::LANES`].
    pub lanes: u8,
    /// W, as in [`crate::Settings::window`]; the same at both ends.
    pub window: u64,
    /// Identifier mode begins another epoch after this.
    pub epoch_life: Duration,
    /// Draws 32 octets from the operating system.
    pub draw: fn() -> EpochSecret,
}

/// The session with one peer.
///
/// The caller carries: messages of [`Session::poll_message`] to the peer and the peer's to [`Session::handle_message`];
/// commands of [`Session::poll_command`] to the forwarding half and its events to [`Session::handle_event`]; and calls
/// [`Session::handle_timeout`] when [`Session::poll_timeout`] has come. After each call of a `handle_` method the polls
/// may have something new.
#[derive(Debug)]
pub struct Session {
    settings: SessionSettings,
    mode: HelloMode,
    channel: ChannelState,
    /// Since when the channel is in this state.
    since: Instant,
    /// The peer's instance, and when it was met first.
    instance: Option<(Instance, Instant)>,
    generation: Generation,
    transmit: TransmitEpochs,
    receive: ReceiveEpochs,
    flows: Announcements,
    peer_flows: PeerFlows,
    due: Due,
    /// Where the peer was asked for a position, and has not answered yet: lane to epoch.
    asked: BTreeMap<u8, u32>,
    /// Where the peer asked for ours, and was not answered yet.
    asks: BTreeSet<u8>,
    where_is: TokenBucket,
    unknowns: TokenBucket,
    commands: VecDeque<Command>,
    counters: SessionCounters,
    fault: Option<(PeerFault, Instant)>,
}

/// Messages that are to be sent on this connection, beside those of epochs and flows: the newest of each.
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
            receive: ReceiveEpochs::new(now),
            flows: Announcements::default(),
            peer_flows: PeerFlows::default(),
            due: Due::default(),
            asked: BTreeMap::new(),
            asks: BTreeSet::new(),
            where_is: TokenBucket::new(now, 4, Duration::from_millis(500)),
            unknowns: TokenBucket::new(now, 4, Duration::from_millis(500)),
            commands: VecDeque::new(),
            counters: SessionCounters::default(),
            fault: None,
        }
    }

    /// The forwarding half has heard of generations up to this one, by a session of before: those of this session come
    /// behind it, and what the forwarding half said of earlier ones is not heeded.
    pub fn continue_after(&mut self, before: Generation) {
        if before != Generation::default() {
            self.generation = Generation(before.0.wrapping_add(1).max(1));
        }
    }

    /// A connection with the peer stands. One that stood before is given up.
    pub fn handle_connected(&mut self, now: Instant) {
        self.forget_connection();
        self.counters.connections += 1;
        self.enter(now, ChannelState::HelloSent);
        self.due.hello = true;
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self, now: Instant) {
        self.forget_connection();
        self.enter(now, ChannelState::Down);
    }

    /// A message of the peer.
    ///
    /// # Errors
    /// [`PeerFault`]: the caller closes the connection. Until then nothing more is heeded or sent.
    pub fn handle_message(&mut self, now: Instant, message: Message) -> Result<(), PeerFault> {
        let handled = match self.channel {
            // What was under way while the connection ended.
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

    /// Octets of the peer that are no message: as [`Session::handle_message`] with a fault.
    pub fn handle_malformed(&mut self, now: Instant, error: MessageError) -> PeerFault {
        let fault = PeerFault::Message(error);
        self.enter_fault(now, fault);
        fault
    }

    /// A message of a kind that is unknown was skipped.
    pub fn handle_skipped(&mut self) {
        self.counters.in_messages_skipped += 1;
    }

    /// The forwarding half tells something.
    pub fn handle_event(&mut self, now: Instant, event: Event) {
        if event.subject() != (self.settings.peer, self.generation)
            || self.generation == Generation::default()
        {
            self.counters.events_old += 1;
            return;
        }
        match event {
            Event::Announce { index, flow, .. } => {
                if !self.flows.announce(now, index, flow) {
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
            Event::FlowAccepted { index, .. } => {
                self.counters.in_flows_accepted += 1;
                self.peer_flows.answer(index, true);
            }
            Event::FlowRefused { index, .. } => {
                self.counters.in_flows_refused += 1;
                self.peer_flows.answer(index, false);
            }
            Event::UnknownIndex { index, .. } => self.due.unknown = Some(index),
            Event::Lost { epoch, lane, .. } => drop(self.due.where_is.insert(lane, epoch)),
            // Perhaps of a newer epoch than the one that was asked for: then it is that one which counts.
            Event::Position { epoch, lane, seq, .. } => {
                if self.asks.remove(&lane) {
                    self.due.positions.insert(lane, (epoch, seq));
                }
            }
            Event::EpochWanted { newest, .. } => self.transmit.want(newest),
        }
        self.begin_epoch(now);
    }

    /// The time of [`Session::poll_timeout`] has come, or any other.
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

    /// When [`Session::handle_timeout`] is to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let epoch = if self.hello_received() { self.transmit.poll_timeout() } else { None };
        [epoch, self.flows.poll_timeout(), self.peer_flows.poll_timeout()].into_iter().flatten().min()
    }

    /// The next command for the forwarding half.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The next message for the peer, and its stream. It counts as sent: should the connection be lost, it is told
    /// again on the next one.
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

    /// What status shows.
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

    /// Whatever was sent and not answered, or was to be sent, is open again.
    fn forget_connection(&mut self) {
        self.due = Due::default();
        self.asked.clear();
        self.asks.clear();
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
            let SessionSettings { instance, lanes, window, .. } = self.settings;
            return Some(Message::Hello { instance, lanes, window, mode: self.mode });
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
        let (lane, (epoch, seq)) = self.due.positions.pop_first()?;
        Some(Message::Position { epoch, lane, seq })
    }
}
