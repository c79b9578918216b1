//! A session between a hostile peer, a channel that comes and goes, and a forwarding half, by a list of operations.
//!
//! Promises: no panic; generations and epochs count up, and none comes twice; the forwarding half is told to send with
//! an epoch only after its secret was told to the peer and the peer said that it is ready, and with no secret twice; a
//! flow counts as acknowledged only if it was announced; after a fault nothing is said; times come once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use suite::tunnel::EpochSecret;
use tunnel::{
    ChannelState, Command, Event, FrameKinds, Generation, HelloMode, Instance, Message, Mode, PeerId,
    RequestId, Session, SessionSettings,
};
use wire::Instant;
use wire::tunnel::{Flow, FlowIndex};

const PEER: PeerId = PeerId(1);
const WINDOW: u64 = 64;
/// The most operations of a run.
const OPERATIONS: usize = 400;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// A connection, and on it an honest beginning of one of two instances: what lies behind is reached more often.
    Greet(bool),
    Connect,
    Disconnect,
    Say(Said),
    /// Octets as they come.
    Octets(Vec<u8>),
    /// An event, of this generation or of the one before.
    Tell(Input, bool),
    Wait(u16),
    TakeCommands(u8),
    TakeMessages(u8),
}

/// An epoch relative to the newest: mostly the next one.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Ahead(u8);

impl Ahead {
    fn of(self, newest: u32) -> u32 {
        match self.0 {
            0..32 => newest,
            32..40 => newest.wrapping_sub(1),
            40..48 => newest.wrapping_add(2),
            48..52 => newest.wrapping_add(1 << 31),
            _ => newest.wrapping_add(1),
        }
    }
}

/// The number of a flow: of a few, for most things are about numbers that are known.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Number(u8);

impl Number {
    fn index(self) -> FlowIndex {
        FlowIndex(u16::from(self.0 % 8))
    }
}

/// Message of the peer.
#[derive(Arbitrary, Debug)]
enum Said {
    Hello { instance: u8, lanes: u8, window: bool, mode: bool, frames: u8 },
    Welcome,
    Epoch { ahead: Ahead, secret: u8, lanes: u8 },
    EpochReady { ahead: Ahead },
    Announce { index: Number, flow: u8 },
    Announced(Number),
    Refused(Number),
    Withdraw(Number),
    Withdrawn(Number),
    Unknown(Number),
    WhereIs { ahead: Ahead, lane: u8 },
    Position { ahead: Ahead, lane: u8, anchor: u64 },
    Ping(u64),
    Pong(u64),
}

/// Message of the forwarding half.
#[derive(Arbitrary, Debug)]
enum Input {
    Announce { index: Number, flow: u8 },
    Withdraw(Number),
    ReceiveReady { ahead: Ahead },
    FlowAccepted(Number),
    FlowRefused(Number),
    UnknownIndex(Number),
    Lost { ahead: Ahead, lane: u8 },
    Position { ahead: Ahead, lane: u8, anchor: u8 },
    EpochWanted { ahead: Ahead },
}

/// Runs the operations that `octets` stand for.
///
/// # Panics
/// If a property is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok(header_encryption) = bool::arbitrary(&mut input) else { return };
    let mode = if header_encryption { Mode::HeaderEncryption } else { Mode::Identifier };
    let mut bench = Bench::new(mode);
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        bench.carry_out(operation);
    }
    bench.take_commands(usize::MAX);
    bench.take_messages(usize::MAX);
}

struct Bench {
    session: Session,
    mode: HelloMode,
    now: Instant,
    /// As the forwarding half has it.
    generation: Generation,
    received: u32,
    sending: u32,
    /// Secrets that the peer was told, by epoch, in the generation that the session is in.
    told: BTreeMap<u32, [u8; 32]>,
    /// Epochs of it that the peer said it was ready for.
    ready: BTreeSet<u32>,
    /// All that were ever used.
    used: BTreeSet<[u8; 32]>,
    /// Numbers that were announced to the peer at some time.
    announced: BTreeSet<FlowIndex>,
    /// What the forwarding half was asked last, by the peer's numbers.
    asked: BTreeMap<FlowIndex, RequestId>,
}

fn draw() -> EpochSecret {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let mut octets = [0xd5; 32];
    octets[..8].copy_from_slice(&DRAWN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    EpochSecret::new(&octets)
}

fn flow(number: u8) -> Flow {
    let mut octets = [0; Flow::OCTETS];
    octets[4] = number;
    Flow::parse(&octets).expect("invariant: a flow")
}

impl Bench {
    fn new(mode: Mode) -> Self {
        let now = Instant::START;
        let settings = SessionSettings {
            peer: PEER,
            instance: Instance([0xee; 16]),
            mode,
            lanes: 2,
            window: WINDOW,
            frames: FrameKinds::ALL,
            epoch_life: Duration::from_secs(60),
            draw,
        };
        Self {
            session: Session::new(settings, now),
            mode: HelloMode::of(mode).expect("invariant: a mode with a channel"),
            now,
            generation: Generation::default(),
            received: 0,
            sending: 0,
            told: BTreeMap::new(),
            ready: BTreeSet::new(),
            used: BTreeSet::new(),
            announced: BTreeSet::new(),
            asked: BTreeMap::new(),
        }
    }

    fn carry_out(&mut self, operation: Operation) {
        match operation {
            Operation::Greet(instance) => self.greet(instance),
            Operation::Connect => self.session.handle_connected(self.now),
            Operation::Disconnect => self.session.handle_disconnected(self.now),
            Operation::Say(said) => {
                let message = self.message(&said);
                self.say(message);
            }
            Operation::Octets(octets) => match Message::parse(&octets) {
                Ok(Some(message)) => self.say(message),
                Ok(None) => self.session.handle_skipped(),
                Err(error) => drop(self.session.handle_malformed(self.now, error)),
            },
            Operation::Tell(told, old) => {
                let event = self.event(&told, old);
                self.session.handle_event(self.now, event);
            }
            Operation::Wait(time) => self.wait(Duration::from_millis(u64::from(time) * 8)),
            Operation::TakeCommands(most) => self.take_commands(most.into()),
            Operation::TakeMessages(most) => self.take_messages(most.into()),
        }
        let state = self.session.state();
        if state.channel == ChannelState::Faulted {
            assert!(self.session.poll_message().is_none(), "nothing is said after a fault");
            assert!(state.fault.is_some());
        }
        assert!(state.generation >= self.generation);
    }

    fn greet(&mut self, instance: bool) {
        self.session.handle_connected(self.now);
        let instance = Instance([u8::from(instance); 16]);
        self.say(Message::Hello {
            instance,
            lanes: 1,
            window: WINDOW,
            mode: self.mode,
            frames: FrameKinds::ALL,
        });
        self.say(Message::Welcome);
        self.take_messages(8);
        self.take_commands(8);
    }

    fn say(&mut self, message: Message) {
        let before = self.session.state();
        if let Message::EpochReady { epoch } = message
            && matches!(before.channel, ChannelState::HelloReceived | ChannelState::Up)
        {
            self.ready.insert(epoch);
        }
        let result = self.session.handle_message(self.now, message);
        let after = self.session.state();
        assert_eq!(result.is_err(), after.counters.peer_faults != before.counters.peer_faults);
        if after.generation != before.generation {
            self.told.clear();
            self.ready.clear();
            self.announced.clear();
        }
    }

    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.session.poll_timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.session.handle_timeout(self.now);
            assert!(self.session.poll_timeout().is_none_or(|next| next > self.now), "a time comes once");
        }
        self.now = until;
    }

    fn take_commands(&mut self, most: usize) {
        for _ in 0..most {
            let Some(command) = self.session.poll_command() else { return };
            self.obey(command);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Begin { generation, .. } => {
                assert!(generation > self.generation, "generations count up");
                (self.generation, self.received, self.sending) = (generation, 0, 0);
            }
            Command::InstallReceive { generation, epoch, lanes, .. } => {
                assert_eq!((generation, epoch), (self.generation, self.received + 1));
                assert!((1..=tunnel::Settings::LANES).contains(&lanes));
                self.received = epoch;
            }
            Command::InstallTransmit { generation, epoch, secret, .. } => {
                assert_eq!((generation, epoch), (self.generation, self.sending + 1));
                assert_eq!(self.told.get(&epoch), Some(secret.octets()), "the peer has it");
                assert!(self.ready.contains(&epoch), "the peer said so");
                assert!(self.used.insert(*secret.octets()), "a secret twice");
                self.sending = epoch;
            }
            Command::Announced { generation, index, .. } => {
                assert_eq!(generation, self.generation);
                assert!(self.announced.contains(&index), "it was announced");
            }
            Command::Position { generation, seq, .. } => {
                assert_eq!(generation, self.generation);
                assert!(seq.is_multiple_of(WINDOW / 2));
            }
            Command::RequestPosition { generation, epoch, lane, .. } => {
                assert_eq!(generation, self.generation);
                assert!(epoch > 0 && epoch <= self.sending && lane < 2);
            }
            Command::AddFlow { generation, index, request, .. } => {
                assert_eq!(generation, self.generation);
                self.asked.insert(index, request);
            }
            Command::TakesFrames { generation, .. }
            | Command::Unknown { generation, .. }
            | Command::WithdrawFlow { generation, .. } => assert_eq!(generation, self.generation),
            Command::PathPayload { .. } | Command::ExpectCopies { .. } => panic!("that is the channel's"),
            Command::OfferFlows
            | Command::FlowUsed { .. }
            | Command::StationHeard { .. }
            | Command::EpochInUse { .. } => {
                panic!("that is said by those who forward flows too")
            }
            Command::StationLive { .. } => panic!("that is said by those who read MKPDUs"),
        }
    }

    fn take_messages(&mut self, most: usize) {
        for _ in 0..most {
            let Some((_, message)) = self.session.poll_message() else { return };
            let octets = message.encode();
            assert!(matches!(Message::parse(&octets), Ok(Some(_))));
            match message {
                Message::Epoch { epoch, secret, .. } => {
                    let before = self.told.insert(epoch, *secret.octets());
                    assert!(
                        before.is_none_or(|before| before == *secret.octets()),
                        "an epoch with two secrets"
                    );
                }
                Message::Announce { index, .. } => drop(self.announced.insert(index)),
                _ => {}
            }
        }
    }

    fn message(&self, said: &Said) -> Message {
        let state = self.session.state();
        let from_peer = state.receive.map_or(0, |age| age.epoch);
        let to_peer = state.transmit.map_or(0, |age| age.epoch);
        match *said {
            Said::Hello { instance, lanes, window, mode, frames } => Message::Hello {
                instance: Instance([instance; 16]),
                lanes,
                window: if window { WINDOW } else { 2 * WINDOW },
                mode: if mode { self.mode } else { HelloMode(0) },
                frames: FrameKinds(frames.into()),
            },
            Said::Welcome => Message::Welcome,
            Said::Epoch { ahead, secret, lanes } => {
                let (epoch, mut octets) = (ahead.of(from_peer), [secret; 32]);
                // One of its own for each epoch, or one that comes again.
                if secret > 32 {
                    octets[..4].copy_from_slice(&epoch.to_le_bytes());
                }
                Message::Epoch { epoch, secret: EpochSecret::new(&octets), lanes: lanes % 20 }
            }
            Said::EpochReady { ahead } => Message::EpochReady { epoch: ahead.of(to_peer) },
            Said::Announce { index, flow: number } => {
                Message::Announce { index: index.index(), flow: flow(number) }
            }
            Said::Announced(index) => Message::Announced { index: index.index() },
            Said::Refused(index) => Message::Refused { index: index.index() },
            Said::Withdraw(index) => Message::Withdraw { index: index.index() },
            Said::Withdrawn(index) => Message::Withdrawn { index: index.index() },
            Said::Unknown(index) => Message::Unknown { index: index.index() },
            Said::WhereIs { ahead, lane } => Message::WhereIs { epoch: ahead.of(to_peer), lane: lane % 3 },
            Said::Position { ahead, lane, anchor } => {
                Message::Position { epoch: ahead.of(from_peer), lane, seq: anchor.wrapping_mul(WINDOW / 2) }
            }
            Said::Ping(token) => Message::Ping { token },
            Said::Pong(token) => Message::Pong { token },
        }
    }

    /// What the forwarding half was asked last about a number.
    fn request(&self, number: Number) -> RequestId {
        self.asked.get(&number.index()).copied().unwrap_or_default()
    }

    fn event(&self, told: &Input, old: bool) -> Event {
        let (peer, generation) = (PEER, Generation(self.generation.0.wrapping_sub(u32::from(old))));
        match *told {
            Input::Announce { index: number, flow: which } => {
                let request = RequestId(which.into());
                Event::Announce { peer, generation, index: number.index(), flow: flow(which), request }
            }
            Input::Withdraw(number) => Event::Withdraw { peer, generation, index: number.index() },
            Input::ReceiveReady { ahead } => {
                Event::ReceiveReady { peer, generation, epoch: ahead.of(self.received) }
            }
            Input::FlowAccepted(number) => {
                let (index, request) = (number.index(), self.request(number));
                Event::FlowAccepted { peer, generation, index, request, source: None }
            }
            Input::FlowRefused(number) => {
                let (index, request) = (number.index(), self.request(number));
                Event::FlowRefused { peer, generation, index, request }
            }
            Input::UnknownIndex(number) => Event::UnknownIndex { peer, generation, index: number.index() },
            Input::Lost { ahead, lane } => {
                Event::Lost { peer, generation, epoch: ahead.of(self.received), lane: lane % 3 }
            }
            Input::Position { ahead, lane, anchor } => {
                let seq = u64::from(anchor) * WINDOW / 2;
                Event::Position { peer, generation, epoch: ahead.of(self.sending), lane, seq }
            }
            Input::EpochWanted { ahead } => {
                Event::EpochWanted { peer, generation, newest: ahead.of(self.sending) }
            }
        }
    }
}
