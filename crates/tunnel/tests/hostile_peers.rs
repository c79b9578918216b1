//! Misbehaviour of a peer towards a session: each is a typed fault, or ignored and counted.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use suite::tunnel::EpochSecret;
use tunnel::{
    COMMANDS, ChannelState, Command, EPOCH_LIFE, Event, FrameKinds, Generation, HelloMode, Instance, Message,
    MessageError, Mode, PacketOctets, PeerFault, PeerId, RequestId, Session, SessionCounters,
    SessionSettings,
};
use wire::Instant;
use wire::tunnel::{Flow, FlowIndex};

const PEER: PeerId = PeerId(0);
const FIRST: Generation = Generation(1);

fn draw() -> EpochSecret {
    static DRAWN: AtomicU8 = AtomicU8::new(0);
    EpochSecret::new(&[DRAWN.fetch_add(1, Ordering::Relaxed); 32])
}

fn hello() -> Message {
    Message::Hello {
        instance: Instance([2; 16]),
        lanes: 1,
        window: 4096,
        mode: HelloMode::IDENTIFIER,
        frames: FrameKinds::default(),
    }
}

fn flow(number: u8) -> Flow {
    let mut octets = [0; 24];
    octets[4] = number;
    Flow::parse(&octets).expect("a flow")
}

fn epoch(epoch: u32, secret: u8) -> Message {
    Message::Epoch { epoch, secret: EpochSecret::new(&[secret; 32]), lanes: 1 }
}

fn announce(index: FlowIndex, number: u8) -> Event {
    let (flow, request) = (flow(number), RequestId(index.0.into()));
    Event::Announce { peer: PEER, generation: FIRST, index, flow, request }
}

fn at(milliseconds: u64) -> Instant {
    Instant::START + Duration::from_millis(milliseconds)
}

fn connected() -> Session {
    let settings = SessionSettings {
        peer: PEER,
        instance: Instance([1; 16]),
        mode: Mode::Identifier,
        lanes: 2,
        window: 4096,
        frames: FrameKinds::ALL,
        epoch_life: EPOCH_LIFE,
        draw,
    };
    let mut session = Session::new(settings, at(0));
    session.handle_connected(at(0));
    session
}

/// Up, with epoch 1 of ours acknowledged, epoch 1 of the peer's ready, and our flow 7 known.
fn up() -> Session {
    let mut session = connected();
    let mut told = Vec::new();
    for message in [hello(), Message::Welcome, epoch(1, 0x81)] {
        session.handle_message(at(0), message).expect("an honest peer");
        told.extend(sent(&mut session));
    }
    assert!(told.iter().any(|message| matches!(message, Message::Epoch { epoch: 1, .. })), "{told:?}");
    session.handle_message(at(0), Message::EpochReady { epoch: 1 }).expect("an honest peer");
    session.handle_event(at(0), Event::ReceiveReady { peer: PEER, generation: FIRST, epoch: 1 });
    let index = FlowIndex(7);
    session.handle_event(at(0), announce(index, 7));
    sent(&mut session);
    session.handle_message(at(0), Message::Announced { index }).expect("an honest peer");
    commands(&mut session);
    session
}

fn sent(session: &mut Session) -> Vec<Message> {
    std::iter::from_fn(|| session.poll_message()).map(|(_, message)| message).collect()
}

fn commands(session: &mut Session) -> Vec<Command> {
    std::iter::from_fn(|| session.poll_command()).collect()
}

fn assert_fault(mut session: Session, message: Message, fault: PeerFault) {
    let before = session.state();
    let shown = format!("{message:?}");
    assert_eq!(session.handle_message(at(5), message), Err(fault), "{shown}");
    let state = session.state();
    assert_eq!((state.channel, state.fault), (ChannelState::Faulted, Some((fault, at(5)))));
    assert_eq!(state.counters.peer_faults, before.counters.peer_faults + 1);
    // Until the connection is closed nothing is sent or heeded; what was agreed on stays.
    assert!(sent(&mut session).is_empty() && commands(&mut session).is_empty());
    assert_eq!(session.handle_message(at(6), hello()), Ok(()));
    assert!(sent(&mut session).is_empty() && commands(&mut session).is_empty());
    assert_eq!(
        (state.transmit, state.receive, state.generation),
        (before.transmit, before.receive, before.generation)
    );
    assert_eq!(state.flows_acknowledged, before.flows_acknowledged);
}

#[test]
fn a_hello_that_does_not_fit_is_a_fault_that_says_why() {
    let with = |change: fn(&mut Instance, &mut u8, &mut u64, &mut HelloMode)| {
        let (mut instance, mut lanes, mut window, mut mode) =
            (Instance([2; 16]), 1, 4096, HelloMode::IDENTIFIER);
        change(&mut instance, &mut lanes, &mut window, &mut mode);
        Message::Hello { instance, lanes, window, mode, frames: FrameKinds::default() }
    };
    for (message, fault, text) in [
        (
            with(|_, _, _, mode| *mode = HelloMode::HEADER_ENCRYPTION),
            PeerFault::Mode { ours: HelloMode::IDENTIFIER, theirs: HelloMode::HEADER_ENCRYPTION },
            "the peer has mode header-encryption, this site identifier: both must have the same",
        ),
        (
            with(|_, _, _, mode| *mode = HelloMode(9)),
            PeerFault::Mode { ours: HelloMode::IDENTIFIER, theirs: HelloMode(9) },
            "the peer has mode unknown mode 9, this site identifier: both must have the same",
        ),
        (
            with(|_, _, window, _| *window = 64),
            PeerFault::Window { ours: 4096, theirs: 64 },
            "the peer has a window of 64, this site of 4096: both must have the same",
        ),
        (
            with(|_, lanes, _, _| *lanes = 0),
            PeerFault::Lanes { lanes: 0 },
            "0 lanes, where 1 to 16 are possible",
        ),
        (
            with(|_, lanes, _, _| *lanes = 17),
            PeerFault::Lanes { lanes: 17 },
            "17 lanes, where 1 to 16 are possible",
        ),
        (
            with(|instance, _, _, _| *instance = Instance([1; 16])),
            PeerFault::OwnInstance,
            "the peer is this very process, or a copy of it",
        ),
        (Message::Welcome, PeerFault::BeforeHello, "a message before the peer's hello"),
        (epoch(1, 1), PeerFault::BeforeHello, "a message before the peer's hello"),
    ] {
        assert_eq!(fault.to_string(), text);
        assert_fault(connected(), message, fault);
    }
}

#[test]
fn another_version_is_a_fault_that_names_both() {
    let mut session = connected();
    let fault = session.handle_malformed(at(1), MessageError::Version { theirs: 1 });
    assert_eq!(fault.to_string(), "the peer speaks version 1 of the channel, this site version 2");
    assert_eq!(session.state().channel, ChannelState::Faulted);
}

#[test]
fn what_an_honest_peer_never_says_is_a_fault() {
    for (message, fault) in [
        (hello(), PeerFault::SecondHello),
        // Epochs out of order, the same with another secret, another with the same secret, lanes beyond reason.
        (epoch(0, 1), PeerFault::EpochOrder { newest: 1, told: 0 }),
        (epoch(3, 1), PeerFault::EpochOrder { newest: 1, told: 3 }),
        (epoch(u32::MAX, 1), PeerFault::EpochOrder { newest: 1, told: u32::MAX }),
        (epoch(1, 1), PeerFault::EpochChanged { epoch: 1 }),
        (epoch(2, 0x81), PeerFault::SecretRepeated { epoch: 2 }),
        (Message::Epoch { epoch: 2, secret: draw(), lanes: 17 }, PeerFault::Lanes { lanes: 17 }),
        // Ready for what was never told.
        (Message::EpochReady { epoch: 0 }, PeerFault::NeverOffered { epoch: 0 }),
        (Message::EpochReady { epoch: 2 }, PeerFault::NeverOffered { epoch: 2 }),
        (Message::WhereIs { epoch: 2, lane: 0 }, PeerFault::NeverOffered { epoch: 2 }),
        (Message::WhereIs { epoch: 1, lane: 2 }, PeerFault::Lane { lane: 2 }),
        (Message::Position { epoch: 1, lane: 0, seq: 4097 }, PeerFault::NoAnchor { seq: 4097 }),
    ] {
        assert_fault(up(), message, fault);
    }
}

#[test]
fn an_epoch_before_the_one_in_front_of_it_is_ready_is_a_fault() {
    let mut session = up();
    session.handle_message(at(0), epoch(2, 0x82)).expect("the next one");
    commands(&mut session);
    assert_fault(session, epoch(3, 0x83), PeerFault::EpochOrder { newest: 2, told: 3 });
}

#[test]
fn epochs_faster_than_one_a_second_are_a_fault() {
    let mut session = up();
    let mut epochs = 1;
    let fault = loop {
        epochs += 1;
        match session.handle_message(at(0), epoch(epochs, epochs as u8)) {
            Ok(()) => {
                session.handle_event(
                    at(0),
                    Event::ReceiveReady { peer: PEER, generation: FIRST, epoch: epochs },
                );
            }
            Err(fault) => break fault,
        }
        sent(&mut session);
    };
    assert_eq!((fault, epochs), (PeerFault::TooManyEpochs, 9));
}

#[test]
fn a_secret_of_any_epoch_that_could_still_be_in_use_is_known_again() {
    let mut session = up();
    for number in 2..=5 {
        session.handle_message(at(0), epoch(number, number as u8)).expect("the next one");
        session.handle_event(at(0), Event::ReceiveReady { peer: PEER, generation: FIRST, epoch: number });
        commands(&mut session);
        sent(&mut session);
    }
    assert_fault(session, epoch(6, 2), PeerFault::SecretRepeated { epoch: 6 });
}

type Counter = fn(&SessionCounters) -> u64;
const STALE: Counter = |counters| counters.in_messages_stale;

#[test]
fn answers_to_what_was_not_asked_are_not_heeded_and_counted() {
    for message in [
        Message::EpochReady { epoch: 1 },
        Message::Announced { index: FlowIndex(1) },
        Message::Announced { index: FlowIndex(7) },
        Message::Refused { index: FlowIndex(7) },
        Message::Withdrawn { index: FlowIndex(7) },
        Message::Unknown { index: FlowIndex(8) },
        Message::Position { epoch: 1, lane: 0, seq: 4096 },
    ] {
        let mut session = up();
        let before = session.state();
        let shown = format!("{message:?}");
        session.handle_message(at(0), message).expect("harmless");
        assert!(commands(&mut session).is_empty(), "{shown}");
        let after = session.state();
        assert_eq!(STALE(&after.counters), STALE(&before.counters) + 1, "{shown}");
        assert_eq!(after.flows_acknowledged, before.flows_acknowledged);
    }
}

/// A position is heeded once for each question, so that a peer can tell no two; whether one goes back the forwarding
/// half sees.
#[test]
fn a_position_is_heeded_once_and_for_the_lane_that_was_asked() {
    let mut session = up();
    session.handle_event(at(0), Event::Lost { peer: PEER, generation: FIRST, epoch: 1, lane: 0 });
    assert!(matches!(sent(&mut session)[..], [Message::WhereIs { epoch: 1, lane: 0 }]));
    for (epoch, lane, seq, heeded) in [(1, 1, 2048, 0), (2, 0, 2048, 0), (1, 0, 4096, 1), (1, 0, 2048, 0)] {
        session.handle_message(at(0), Message::Position { epoch, lane, seq }).expect("harmless");
        assert_eq!(commands(&mut session).len(), heeded, "{epoch} {lane} {seq}");
    }
    // A question of one connection is not answered on the next.
    session.handle_event(at(0), Event::Lost { peer: PEER, generation: FIRST, epoch: 1, lane: 0 });
    sent(&mut session);
    session.handle_connected(at(1));
    session.handle_message(at(1), hello()).expect("the same instance");
    session.handle_message(at(1), Message::Position { epoch: 1, lane: 0, seq: 8192 }).expect("harmless");
    assert!(commands(&mut session).is_empty());
}

/// Hello of another instance.
fn hello_of(instance: u8) -> Message {
    Message::Hello {
        instance: Instance([instance; 16]),
        lanes: 1,
        window: 4096,
        mode: HelloMode::IDENTIFIER,
        frames: FrameKinds::default(),
    }
}

/// It needs a connection for each; what they leave behind does not grow.
#[test]
fn instances_without_end_leave_one_generation() {
    let mut session = up();
    for instance in 10..=255 {
        let now = at(1000 * u64::from(instance));
        session.handle_connected(now);
        session.handle_message(now, hello_of(instance)).expect("a hello");
        let index = FlowIndex(1);
        session.handle_message(now, Message::Announce { index, flow: flow(1) }).expect("a flow");
    }
    let left = commands(&mut session);
    assert!(
        matches!(
            left[..],
            [
                Command::Begin { generation: Generation(247), .. },
                Command::AddFlow { generation: Generation(247), .. }
            ]
        ),
        "{left:?}"
    );
}

/// Each voids all of the peer in the forwarding half, which is the work of thousands of frames.
#[test]
fn instances_faster_than_one_a_second_are_a_fault() {
    let mut session = up();
    for instance in 10..17 {
        session.handle_connected(at(1));
        session.handle_message(at(1), hello_of(instance)).expect("seven more at once");
    }
    commands(&mut session);
    session.handle_connected(at(1));
    let before = session.state();
    assert_eq!(session.handle_message(at(1), hello_of(17)), Err(PeerFault::TooManyInstances));
    let after = session.state();
    assert_eq!((after.generation, after.instance), (before.generation, before.instance));
    assert!(commands(&mut session).is_empty(), "nothing is begun");
    // The present one may come back at any time, and the next one after a second.
    session.handle_connected(at(2));
    assert_eq!(session.handle_message(at(2), hello_of(16)), Ok(()));
    session.handle_connected(at(1001));
    assert_eq!(session.handle_message(at(1001), hello_of(17)), Ok(()));
    assert!(matches!(commands(&mut session)[..], [Command::Begin { .. }]));
}

/// A new instance is no way to more epochs.
#[test]
fn epochs_of_all_instances_count_together() {
    let mut session = up();
    for number in 2..=8 {
        session.handle_message(at(0), epoch(number, number as u8)).expect("seven more at once");
        session.handle_event(at(0), Event::ReceiveReady { peer: PEER, generation: FIRST, epoch: number });
    }
    for (milliseconds, outcome) in [(1, Err(PeerFault::TooManyEpochs)), (1001, Ok(()))] {
        session.handle_connected(at(milliseconds));
        session.handle_message(at(milliseconds), hello_of(3)).expect("another instance");
        commands(&mut session);
        assert_eq!(session.handle_message(at(milliseconds), epoch(1, 0x91)), outcome);
        let installed = matches!(commands(&mut session)[..], [Command::InstallReceive { epoch: 1, .. }]);
        assert_eq!(installed, outcome.is_ok());
    }
}

#[test]
fn a_number_announced_again_with_another_flow_is_the_other_flow_from_then_on() {
    let mut session = up();
    let index = FlowIndex(3);
    for number in [1, 2] {
        session.handle_message(at(0), Message::Announce { index, flow: flow(number) }).expect("a flow");
        let told = commands(&mut session);
        let [Command::AddFlow { flow: told, request, .. }] = told[..] else { panic!("{told:?}") };
        assert_eq!(told, flow(number), "the forwarding half puts it in place of the one before");
        let (peer, generation) = (PEER, FIRST);
        session.handle_event(at(0), Event::FlowAccepted { peer, generation, index, request, source: None });
        assert!(matches!(sent(&mut session)[..], [Message::Announced { index: FlowIndex(3) }]));
    }
    assert_eq!(session.state().peer_flows, 1);
}

fn octets(sent: u64, accepted: u64) -> PacketOctets {
    PacketOctets { sent, accepted }
}

/// What was counted is said if it is news, at this end's own pace, and to nobody who does not know the message.
#[test]
fn figures_without_end_are_answered_once_in_a_while() {
    let told = |session: &mut Session| -> Vec<PacketOctets> {
        let octets = sent(session).into_iter();
        octets
            .filter_map(|message| if let Message::Octets(octets) = message { Some(octets) } else { None })
            .collect()
    };
    let mut session = up();
    session.handle_octets(octets(7, 7));
    assert_eq!(told(&mut session), [], "the peer is of an earlier version");

    let Message::Hello { instance: _, lanes, window, mode, .. } = hello() else { panic!("a hello") };
    let greet = |session: &mut Session, instance: u8| {
        session.handle_connected(at(1));
        let instance = Instance([instance; 16]);
        let hello = Message::Hello { instance, lanes, window, mode, frames: FrameKinds::ALWAYS };
        session.handle_message(at(1), hello).expect("a hello");
        session.handle_octets(octets(1, 1));
        session.handle_message(at(1), Message::Welcome).expect("a welcome");
        assert_eq!(told(session), [], "not before the channel is up");
    };
    greet(&mut session, 3);
    for (own, said) in [((7, 7), true), ((7, 7), false), ((8, 7), true), ((8, 7), false)] {
        session.handle_octets(octets(own.0, own.1));
        let expected = [octets(own.0, own.1)];
        assert_eq!(told(&mut session), expected[..usize::from(said)]);
    }
    // The peer's figures are answered, also if nothing is new here: it hears that nothing came. All of a second are one.
    for number in 0..1000 {
        session.handle_message(at(2), Message::Octets(octets(number, 0))).expect("an honest peer");
    }
    assert_eq!(told(&mut session), []);
    session.handle_octets(octets(8, 7));
    session.handle_octets(octets(8, 7));
    assert_eq!(told(&mut session), [octets(8, 7)]);
    // Who says the same again is owed no answer: two ends that are idle are still.
    session.handle_message(at(3), Message::Octets(octets(999, 0))).expect("an honest peer");
    session.handle_octets(octets(8, 7));
    assert_eq!(told(&mut session), []);
    let heard = session.state().octets.expect("it was said");
    assert_eq!((heard.octets, heard.messages), (octets(999, 0), 1001));

    // Another connection says all again, and another instance has said nothing.
    greet(&mut session, 3);
    session.handle_octets(octets(8, 7));
    assert_eq!(told(&mut session), [octets(8, 7)]);
    assert_eq!(session.state().octets, Some(heard));
    greet(&mut session, 4);
    assert_eq!(session.state().octets, None);
}

/// Without anybody who takes commands or messages: the memory that a peer can fill ends.
#[test]
fn floods_end_in_a_fault() {
    let announce =
        |number: u32| Message::Announce { index: FlowIndex(number as u16), flow: flow(number as u8) };
    let withdraw = |number: u32| Message::Withdraw { index: FlowIndex(number as u16) };
    let again = |_| Message::Announce { index: FlowIndex(1), flow: flow(1) };
    let floods: [(&dyn Fn(u32) -> Message, usize); 3] =
        [(&announce, 1024), (&withdraw, 1024), (&again, COMMANDS)];
    for (message, most) in floods {
        let mut session = up();
        let messages =
            (0..).take_while(|&number| session.handle_message(at(0), message(number)).is_ok()).count();
        assert_eq!(messages, most);
        assert_eq!(session.state().fault, Some((PeerFault::Flood, at(0))));
    }
}

#[test]
fn questions_without_end_are_heeded_twice_a_second() {
    let mut session = up();
    let mut heeded = 0;
    for time in 0..10_000 {
        session.handle_message(at(time), Message::WhereIs { epoch: 1, lane: 0 }).expect("a question");
        session.handle_message(at(time), Message::Ping { token: time }).expect("a question");
        heeded += commands(&mut session).len();
    }
    assert_eq!(heeded, 4 + 19);
    assert_eq!(session.state().counters.in_messages_excess, 10_000 - 23);
    assert!(matches!(sent(&mut session)[..], [Message::Pong { token: 9999 }]), "the newest alone");
}

#[test]
fn unknown_numbers_without_end_are_heeded_twice_a_second() {
    let mut session = up();
    let index = FlowIndex(7);
    let mut heeded = 0;
    for time in 0..10_000 {
        session.handle_message(at(time), Message::Unknown { index }).expect("a report");
        for command in commands(&mut session) {
            assert!(matches!(command, Command::Unknown { index: FlowIndex(7), .. }));
            heeded += 1;
            session.handle_event(at(time), announce(index, 7));
            sent(&mut session);
            session.handle_message(at(time), Message::Announced { index }).expect("an answer");
            commands(&mut session);
        }
    }
    assert_eq!(heeded, 4 + 19);
}

#[test]
fn a_flow_that_is_refused_is_told_again_after_a_second() {
    let mut session = up();
    let index = FlowIndex(9);
    session.handle_event(at(0), announce(index, 9));
    sent(&mut session);
    session.handle_message(at(100), Message::Refused { index }).expect("an answer");
    assert!(commands(&mut session).is_empty());
    assert_eq!(session.poll_timeout(), Some(at(1100)));
    session.handle_timeout(at(1099));
    assert!(commands(&mut session).is_empty());
    session.handle_timeout(at(1100));
    assert!(matches!(commands(&mut session)[..], [Command::Unknown { index: FlowIndex(9), .. }]));
    assert_eq!(session.state().counters.out_flows_refused, 1);
}

#[test]
fn events_of_a_generation_before_are_dropped_and_counted() {
    let mut session = up();
    session.handle_disconnected(at(1));
    session.handle_connected(at(2));
    let restarted = Message::Hello {
        instance: Instance([3; 16]),
        lanes: 1,
        window: 4096,
        mode: HelloMode::IDENTIFIER,
        frames: FrameKinds::default(),
    };
    session.handle_message(at(3), restarted).expect("a hello");
    let told = commands(&mut session);
    assert!(matches!(told[..], [Command::Begin { generation: Generation(2), .. }]), "{told:?}");
    session.handle_message(at(3), Message::Welcome).expect("a welcome");
    sent(&mut session);
    let (peer, generation, index) = (PEER, FIRST, FlowIndex(5));
    for event in [
        announce(index, 5),
        Event::Withdraw { peer, generation, index },
        Event::ReceiveReady { peer, generation, epoch: 1 },
        Event::EpochWanted { peer, generation, newest: 0 },
        Event::Lost { peer, generation, epoch: 1, lane: 0 },
    ] {
        session.handle_event(at(3), event);
        assert!(sent(&mut session).is_empty() && commands(&mut session).is_empty());
    }
    assert_eq!(session.state().counters.events_old, 5);
}

#[test]
fn what_passes_through_a_session_shows_no_secret() {
    let mut session = up();
    session.handle_message(at(0), epoch(2, 0xab)).expect("the next one");
    let text = format!("{session:?}").to_lowercase();
    assert!(!text.contains("171, 171") && !text.contains("abab"), "{text}");
}
