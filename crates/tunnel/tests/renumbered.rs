//! Flow numbers that come again, through sessions and forwarding halves of two sites, over a channel that may stand still or break at any
//! moment: a number means one flow at both sites.
//!
//! There are a thousand numbers and not 65,536, so that they come again after a few hundred flows. Numbers wait in a queue, and nothing
//! else depends on how many there are; with more of them only more has to happen before one comes again.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Delivery, Event, Forwarding, FrameKinds, Instance, Limits, Message, Mode, PacketSource, PeerId,
    PeerSettings, Session, SessionSettings, Settings,
};
use wire::Instant;

const PEER: PeerId = PeerId(0);
const WINDOW: u64 = 64;
const FLOWS: usize = 300;
const FLOW_AGE: Duration = Duration::from_secs(2);
/// Longest time that a packet is under way: while it is, its flow does not age.
const LATE: Duration = Duration::from_millis(1_500);
const STEP: Duration = Duration::from_millis(100);

/// Step of the two sites. After each of them all hands that are free carry what they have.
#[derive(Clone, Debug)]
enum Operation {
    /// So many flows begin, each with a frame.
    Begin(u16),
    /// All flows age, and so many others begin.
    Renew(u16),
    /// So many of the newest flows have another frame.
    Again(u16),
    /// So many tenths of a second pass.
    Wait(u8),
    /// A connection is made, whether one stands or not.
    Connect,
    /// The connection is lost with all that is under way.
    Break,
    /// A hand stands still from here on.
    Stall(usize),
    /// It goes on.
    Free(usize),
    /// It carries so much, whether it stands still or not.
    Carry { hand: usize, messages: u16 },
    /// Packets are late from here on, are lost, or are neither.
    Wire(Wire),
}

/// What carries messages: from the session to the forwarding half and back, of each site; two streams of each site to the other one.
const HANDS: usize = 8;
/// Commands of the first site's session.
const COMMANDS: usize = 0;
/// Events of its forwarding half.
const EVENTS: usize = 1;
/// Announcements of the first site's flows.
const ANNOUNCEMENTS: usize = 3;
/// Commands of the second site's session.
const PEER_COMMANDS: usize = 4;
/// Events of the second site's forwarding half.
const PEER_EVENTS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wire {
    Fair,
    Late,
    Lost,
}

fn operation() -> impl Strategy<Value = Operation> {
    let wire = prop_oneof![Just(Wire::Fair), Just(Wire::Late), Just(Wire::Lost)];
    // Numbers come again before their withdrawal is told where announcements stand still: that hand is taken more often.
    let hand = || prop_oneof![0..HANDS, Just(ANNOUNCEMENTS)];
    prop_oneof![
        6 => (200..FLOWS as u16).prop_map(Operation::Renew),
        2 => (1..FLOWS as u16).prop_map(Operation::Begin),
        3 => (1..FLOWS as u16).prop_map(Operation::Again),
        2 => (0..30_u8).prop_map(Operation::Wait),
        1 => Just(Operation::Connect),
        1 => Just(Operation::Break),
        2 => hand().prop_map(Operation::Stall),
        2 => hand().prop_map(Operation::Free),
        1 => (hand(), 1..400_u16).prop_map(|(hand, messages)| Operation::Carry { hand, messages }),
        1 => wire.prop_map(Operation::Wire),
    ]
}

/// A secret that was never drawn before.
fn draw() -> EpochSecret {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let mut octets = [0; 32];
    octets[..8].copy_from_slice(&DRAWN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    EpochSecret::new(&octets)
}

struct Site {
    forwarding: Forwarding,
    session: Session,
    /// Between the halves.
    commands: VecDeque<Command>,
    events: VecDeque<Event>,
    /// On their way to the other site, by stream.
    sent: [VecDeque<Vec<u8>>; 2],
}

struct World {
    now: Instant,
    /// Machines of the first one send to the second one.
    sites: [Site; 2],
    connected: bool,
    stalled: [bool; HANDS],
    wire: Wire,
    /// Packets that are late, and copies: until when.
    late: VecDeque<(Instant, Vec<u8>)>,
    flows: u64,
    frames: HashSet<Vec<u8>>,
    delivered: HashSet<Vec<u8>>,
}

impl Site {
    fn new(number: u8, now: Instant, epoch_life: Duration) -> Self {
        let limits = Limits {
            flows: FLOWS,
            flow_numbers: 1_024,
            flows_per_sci: FLOWS,
            flows_per_source: FLOWS,
            new_flows_per_second: 1_000_000,
            flow_age: FLOW_AGE,
            ..Limits::default()
        };
        let forwarding = Forwarding::new(Settings {
            peers: vec![PeerSettings { mode: Mode::Identifier, path_payload: 1472 }],
            lan_frame: 1530,
            limits,
            window: WINDOW,
            table_seed: [7; 16],
        });
        let settings = SessionSettings {
            peer: PEER,
            instance: Instance([number; 16]),
            mode: Mode::Identifier,
            lanes: 1,
            window: WINDOW,
            frames: FrameKinds::ALWAYS,
            epoch_life,
            draw,
        };
        let session = Session::new(settings, now);
        Self {
            forwarding,
            session,
            commands: VecDeque::new(),
            events: VecDeque::new(),
            sent: Default::default(),
        }
    }
}

/// Frame `number` of a flow.
fn frame(flow: u64, number: u64) -> Vec<u8> {
    let front = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xe5, 0x2c, 0];
    [&front[..], &(number as u32).to_be_bytes(), &flow.to_be_bytes(), &number.to_be_bytes(), &[0; 16]]
        .concat()
}

impl World {
    fn new() -> Self {
        Self::with_epochs_of(Duration::from_secs(3))
    }

    fn with_epochs_of(life: Duration) -> Self {
        let now = Instant::after_start(Duration::from_secs(1));
        Self {
            now,
            sites: [1, 2].map(|number| Site::new(number, now, life)),
            connected: false,
            stalled: [false; HANDS],
            wire: Wire::Fair,
            late: VecDeque::new(),
            flows: 0,
            frames: HashSet::new(),
            delivered: HashSet::new(),
        }
    }

    fn carry_out(&mut self, operation: &Operation) {
        match *operation {
            Operation::Begin(flows) => {
                for _ in 0..flows {
                    self.flows += 1;
                    self.send(self.flows);
                }
            }
            Operation::Renew(flows) => {
                self.carry_out(&Operation::Wait(25));
                self.carry_out(&Operation::Begin(flows));
            }
            Operation::Again(flows) => self.again(flows.into()),
            Operation::Wait(steps) => (0..steps).for_each(|_| self.step()),
            Operation::Connect => self.connect(),
            Operation::Break => self.disconnect(),
            Operation::Stall(hand) => self.stalled[hand] = true,
            Operation::Free(hand) => self.stalled[hand] = false,
            Operation::Carry { hand, messages } => self.carry(hand, messages.into()),
            Operation::Wire(wire) => self.wire = wire,
        }
        self.exchange();
    }

    fn again(&mut self, flows: u64) {
        for flow in self.flows.saturating_sub(flows)..self.flows {
            self.send(flow + 1);
        }
    }

    /// A frame of a flow goes on its way. Returns it.
    fn send(&mut self, flow: u64) -> Vec<u8> {
        let frame = frame(flow, self.frames.len() as u64);
        self.frames.insert(frame.clone());
        let forwarding = &mut self.sites[0].forwarding;
        let route = forwarding.route(self.now, &frame).expect("a way");
        for packet in forwarding.dispatch(self.now, &route, PEER, &frame) {
            let packet = [&packet.header[..], &frame[packet.body]].concat();
            // Whatever arrives comes once more, when its number may stand for another flow.
            let late = self.now + LATE;
            match self.wire {
                Wire::Fair => {
                    self.arrive(&packet);
                    self.late.push_back((late, packet));
                }
                Wire::Late => self.late.extend([(late, packet.clone()), (late, packet)]),
                Wire::Lost => {}
            }
        }
        frame
    }

    fn arrive(&mut self, packet: &[u8]) {
        let arrived = self.sites[1].forwarding.handle_packet(self.now, PacketSource::Identifier, packet);
        if let Ok(Delivery::Frame { prefix, body, .. }) = arrived {
            let frame = [&prefix[..], &packet[body]].concat();
            assert!(
                self.frames.contains(&frame),
                "NOT SO: a number means one flow: {frame:02x?} came, which nobody sent"
            );
            assert!(self.delivered.insert(frame), "NOT SO: no frame is delivered twice: one was");
        }
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        while let Some((_, packet)) = self.late.pop_front_if(|(due, _)| *due <= self.now) {
            self.arrive(&packet);
        }
        for site in &mut self.sites {
            site.forwarding.handle_timeout(self.now);
            if site.session.poll_timeout().is_some_and(|due| due <= self.now) {
                site.session.handle_timeout(self.now);
            }
        }
    }

    fn connect(&mut self) {
        self.disconnect();
        self.connected = true;
        for site in &mut self.sites {
            site.session.handle_connected(self.now);
        }
    }

    fn disconnect(&mut self) {
        self.connected = false;
        for site in &mut self.sites {
            site.sent = Default::default();
            site.session.handle_disconnected(self.now);
        }
    }

    /// A hand carries so much.
    fn carry(&mut self, hand: usize, messages: usize) {
        let (at, hand) = (hand / 4, hand % 4);
        let now = self.now;
        let Site { forwarding, session, commands, events, sent } = &mut self.sites[at];
        match hand {
            0 => {
                commands.extend(std::iter::from_fn(|| session.poll_command()));
                for command in commands.drain(..messages.min(commands.len())) {
                    forwarding.handle_command(now, command);
                }
                forwarding.handle_timeout(now);
            }
            1 => {
                events.extend(std::iter::from_fn(|| forwarding.poll_event()));
                for event in events.drain(..messages.min(events.len())) {
                    session.handle_event(now, event);
                }
            }
            _ => {
                while let Some((stream, message)) = session.poll_message() {
                    if self.connected {
                        sent[usize::from(stream.octet())].push_back(message.encode().to_vec());
                    }
                }
                for _ in 0..messages {
                    let Some(octets) = self.sites[at].sent[hand - 2].pop_front() else { return };
                    let message = Message::parse(&octets).expect("a message").expect("a known kind");
                    let heard = self.sites[1 - at].session.handle_message(now, message);
                    assert_eq!(heard, Ok(()), "NOT SO: no honest peer is at fault: one is");
                }
            }
        }
    }

    /// Connected, with an epoch that is in use: a window takes some turns to fill.
    fn connect_and_wait(&mut self) {
        self.carry_out(&Operation::Connect);
        (0..20).for_each(|_| self.carry_out(&Operation::Wait(1)));
    }

    /// A world in which an epoch waits for the first site's forwarding half. It is the only one for long, and all numbers may be given in it.
    fn with_an_epoch_that_waits() -> Self {
        let mut world = Self::with_epochs_of(Duration::from_secs(60));
        world.connect_and_wait();
        world.carry_out(&Operation::Stall(COMMANDS));
        (0..3).for_each(|_| world.carry_out(&Operation::Wait(202)));
        (0..20).for_each(|_| world.carry_out(&Operation::Wait(1)));
        world
    }

    /// The epoch reaches the first site's forwarding half, and no acknowledgement does.
    fn carry_epoch(&mut self) {
        let Site { session, commands, .. } = &mut self.sites[0];
        commands.extend(std::iter::from_fn(|| session.poll_command()));
        let is_epoch = |command: &Command| matches!(command, Command::InstallTransmit { .. });
        let before = commands.iter().position(is_epoch).expect("an epoch waits");
        let mut passed = commands.iter().take(before);
        assert!(passed.all(|command| !matches!(command, Command::Announced { .. })), "{commands:?}");
        self.carry(COMMANDS, before + 1);
    }

    /// The flows of before end. Others begin and end behind them, so that the numbers of before are not the last ones to come again.
    fn end_and_begin_and_end(&mut self) {
        use Operation::{Begin, Wait};
        for operation in [Wait(10), Begin(270), Wait(12), Wait(12)] {
            self.carry_out(&operation);
        }
    }

    /// All numbers that may be given in an epoch are given.
    fn use_numbers_up(&mut self) {
        (0..3).for_each(|_| self.carry_out(&Operation::Renew(FLOWS as u16 - 1)));
    }

    /// Free hands carry all that is there.
    fn exchange(&mut self) {
        for _ in 0..4 {
            for hand in (0..HANDS).filter(|hand| !self.stalled[*hand]).collect::<Vec<_>>() {
                self.carry(hand, usize::MAX);
            }
        }
    }

    /// The channel comes up and stays, and packets arrive: flows that go on get all their frames through.
    fn assert_heals(&mut self) {
        (self.wire, self.stalled) = (Wire::Fair, [false; HANDS]);
        self.connect();
        for _ in 0..100 {
            self.exchange();
            self.step();
            self.again(20);
        }
        for flow in self.flows.saturating_sub(20)..self.flows {
            let frame = self.send(flow + 1);
            assert!(self.delivered.contains(&frame), "NOT SO: outages heal: a frame of flow {flow} is lost");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(2000), ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_while_numbers_come_again_each_means_one_flow(
        before in 2..6_usize, operations in vec(operation(), 0..60),
    ) {
        let mut world = World::new();
        world.connect();
        // Numbers run out, and come again from here on.
        (0..before).for_each(|_| world.carry_out(&Operation::Renew(FLOWS as u16 - 1)));
        for operation in &operations {
            world.carry_out(operation);
        }
        world.assert_heals();
    }
}

/// Requests of a stream that stands still come all at once when it goes on: they are no more than an honest site has in flight.
#[test]
fn a_stream_that_stood_still_while_numbers_came_again_is_no_flood() {
    let mut world = World::new();
    world.connect();
    let renew = Operation::Renew(FLOWS as u16 - 1);
    (0..12).for_each(|_| world.carry_out(&renew));
    world.carry_out(&Operation::Stall(ANNOUNCEMENTS));
    (0..12).for_each(|_| world.carry_out(&renew));
    world.carry_out(&Operation::Free(ANNOUNCEMENTS));
    world.assert_heals();
}

/// Withdrawals that stand still while their numbers come again are made up for by what takes their place.
#[test]
fn a_number_whose_withdrawal_is_late_means_its_new_flow() {
    for renewals in 1..8 {
        let mut world = World::new();
        world.connect();
        let renew = Operation::Renew(FLOWS as u16 - 1);
        (0..4).for_each(|_| world.carry_out(&renew));
        world.carry_out(&Operation::Stall(ANNOUNCEMENTS));
        (0..renewals).for_each(|_| world.carry_out(&renew));
        world.carry_out(&Operation::Free(ANNOUNCEMENTS));
        world.carry_out(&Operation::Again(FLOWS as u16));
        world.assert_heals();
    }
}

/// The answer to an announcement that was late is about the flow of then, though its number has come again since.
#[test]
fn a_number_whose_announcement_is_late_means_its_new_flow() {
    for renewals in 1..8 {
        let mut world = World::new();
        world.connect();
        let renew = Operation::Renew(FLOWS as u16 - 1);
        (0..4).for_each(|_| world.carry_out(&renew));
        world.carry_out(&Operation::Wait(40));
        world.carry_out(&Operation::Stall(ANNOUNCEMENTS));
        (0..renewals).for_each(|_| world.carry_out(&renew));
        world.carry_out(&Operation::Carry { hand: ANNOUNCEMENTS, messages: 400 });
        world.carry_out(&Operation::Again(FLOWS as u16));
        world.assert_heals();
    }
}

/// The peer has answered. The first site's forwarding half hears it when the number stands for another flow, which the peer does not know.
#[test]
fn an_acknowledgement_that_was_held_back_is_about_the_flow_of_then() {
    let mut world = World::with_an_epoch_that_waits();
    world.carry_out(&Operation::Begin(20));
    world.carry_out(&Operation::Stall(ANNOUNCEMENTS));
    world.end_and_begin_and_end();
    world.carry_epoch();
    world.use_numbers_up();
    world.carry_out(&Operation::Free(COMMANDS));
    world.carry_out(&Operation::Again(FLOWS as u16));
    world.assert_heals();
}

/// The peer's forwarding half has answered. Its session hears it when it has asked about another flow of that number, which the half does
/// not know yet.
#[test]
fn an_answer_that_was_held_back_is_about_the_flow_of_then() {
    let mut world = World::with_an_epoch_that_waits();
    world.carry_out(&Operation::Stall(PEER_EVENTS));
    world.carry_out(&Operation::Begin(20));
    world.carry_out(&Operation::Stall(PEER_COMMANDS));
    world.end_and_begin_and_end();
    world.carry_out(&Operation::Free(COMMANDS));
    world.use_numbers_up();
    world.carry_out(&Operation::Free(PEER_EVENTS));
    world.carry_out(&Operation::Again(FLOWS as u16));
    world.assert_heals();
}

/// A wish for another epoch that finds no room among the events is told again, though no flow has a number by then, and none gets one.
#[test]
fn a_site_without_numbers_asks_for_an_epoch_until_it_gets_one() {
    let mut world = World::with_epochs_of(Duration::from_secs(3600));
    world.connect_and_wait();
    world.carry_out(&Operation::Begin(299));
    world.carry_out(&Operation::Renew(175));
    world.carry_out(&Operation::Stall(ANNOUNCEMENTS));
    world.carry_out(&Operation::Renew(40));
    world.carry_out(&Operation::Stall(EVENTS));
    // Announcements that are repeated take all room.
    for _ in 0..26 {
        world.carry_out(&Operation::Wait(10));
        world.carry_out(&Operation::Again(40));
    }
    world.carry_out(&Operation::Begin(260));
    world.carry_out(&Operation::Free(EVENTS));
    world.carry_out(&Operation::Free(ANNOUNCEMENTS));
    world.carry_out(&Operation::Wait(25));
    assert_eq!(world.sites[0].forwarding.flows(PEER).count(), 0, "no flow has a number");
    world.carry_out(&Operation::Begin(20));
    world.assert_heals();
}
