//! Attacks with true packets and messages alone: headers put together out of the pieces of two packets, and
//! the packets or the hello of another mode.

mod plants;

use std::time::Duration;

use plants::{PEER, Plants};
use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Discard, EPOCH_LIFE, Forwarding, FrameKinds, Generation, HelloMode, Instance, Limits, Message,
    Mode, PacketSource, PeerFault, PeerSettings, RequestId, Session, SessionSettings, Settings, Station,
};
use wire::Instant;
use wire::tunnel::{FlowIndex, ParsedFrame};

/// A packet out of two.
type Splice = fn(&[u8], &[u8]) -> Vec<u8>;

/// A frame of a machine behind one gateway, whose SCI all of them share: their headers differ in the addresses alone.
fn frame(station: u8, pn: u32) -> Vec<u8> {
    let mut frame = plants::frame(station, 1, 0, pn, 120);
    frame[20..28].copy_from_slice(&[2, 0, 0, 0, 9, 9, 0, 1]);
    frame
}

/// Packets of four machines in turn, as they were on a wire that lost all of them.
fn recorded(plants: &mut Plants, count: usize) -> Vec<Vec<u8>> {
    plants.wire.lost = 1000;
    let before = plants.recorded.len();
    for number in 0..count {
        plants.send(0, &frame(1 + (number % 4) as u8, 100 + number as u32));
    }
    plants.recorded[before..].iter().map(|(_, packet)| packet.clone()).collect()
}

fn acquainted(mode: Mode) -> Plants {
    let mut plants = Plants::new(mode);
    for station in 1..=4 {
        plants.send(0, &frame(station, station.into()));
    }
    plants.pass(50);
    assert_eq!(plants.take(1).len(), 4);
    plants
}

fn stations(plants: &mut Plants) -> Vec<Station> {
    let mut stations: Vec<_> = plants.forwarding(1).stations().copied().collect();
    stations.sort_by_key(|station| station.address);
    stations
}

/// Each pair of neighbours in each of these ways is refused and teaches nothing.
fn assert_refused(plants: &mut Plants, packets: &[Vec<u8>], splices: &[Splice]) {
    plants.pass(5);
    let (known, flows) = (stations(plants), plants.forwarding(1).announced_flows(PEER));
    let mut pairs = packets.chunks_exact(2);
    for (number, splice) in splices.iter().enumerate() {
        for pair in pairs.by_ref().take(8) {
            let discards = plants.discards.len();
            assert_eq!(plants.arrive(1, &splice(&pair[0], &pair[1])), None, "splice {number}");
            assert_eq!(plants.discards.len(), discards + 1, "splice {number}");
        }
    }
    assert_eq!(pairs.len(), 0, "all were used");
    assert_eq!((stations(plants), plants.forwarding(1).announced_flows(PEER)), (known, flows));
}

#[test]
fn encrypted_headers_cannot_be_spliced() {
    let mut plants = acquainted(Mode::HeaderEncryption);
    let splices: [Splice; 5] = [
        |one, other| [&one[..16], &other[16..]].concat(),
        |one, other| [&other[..16], &one[16..]].concat(),
        |one, _| [&one[16..32], &one[..16], &one[32..]].concat(),
        |one, other| [&one[..8], &other[8..16], &one[16..]].concat(),
        |one, other| [&one[..24], &other[24..32], &one[32..]].concat(),
    ];
    let packets = recorded(&mut plants, 16 * splices.len());
    assert_refused(&mut plants, &packets, &splices);
    // The dissected packets still pass.
    assert!(plants.arrive(1, &packets[0]).is_some());
}

#[test]
fn masked_headers_cannot_be_spliced() {
    let mut plants = acquainted(Mode::Identifier);
    let splices: [Splice; 4] = [
        |one, other| [&one[..6], &other[6..]].concat(),
        |one, other| [&one[..8], &other[8..16], &one[16..]].concat(),
        |one, other| [&one[..6], &other[6..8], &one[8..]].concat(),
        |one, other| [&one[..12], &other[12..16], &one[16..]].concat(),
    ];
    let packets = recorded(&mut plants, 16 * splices.len());
    assert_eq!(packets[0].len(), 120 - 28 + 16, "in short form");
    assert_refused(&mut plants, &packets, &splices);
}

#[test]
fn long_forms_cannot_be_spliced() {
    let mut plants = Plants::new(Mode::Identifier);
    plants.channel = None;
    let splices: [Splice; 5] = [
        |one, other| [&one[..16], &other[16..]].concat(),
        |one, other| [&one[..40], &other[40..48], &one[48..]].concat(),
        |one, other| [&one[..16], &other[16..40], &one[40..]].concat(),
        |one, other| [&one[..26], &other[26..32], &one[32..]].concat(),
        // The body of one that is as long as flow and tag, in their place.
        |one, _| [&one[..16], &one[48..]].concat(),
    ];
    let packets = recorded(&mut plants, 16 * splices.len());
    assert_eq!(packets[0].len(), 120 - 28 + 48, "in long form");
    assert_refused(&mut plants, &packets, &splices);
}

/// A forwarding half with one peer, which has these keys and knows flow 0.
fn half(mode: Mode, now: Instant) -> Forwarding {
    let settings = Settings {
        peers: vec![PeerSettings { mode, path_payload: 1472 }],
        lan_frame: 1600,
        limits: Limits::default(),
        window: 256,
        table_seed: [7; 16],
    };
    let (mut half, generation) = (Forwarding::new(settings), Generation::default());
    let secret = EpochSecret::new(&[9; 32]);
    let flow = ParsedFrame::parse(&frame(1, 1)).expect("a frame").flow;
    half.handle_command(
        now,
        Command::InstallReceive { peer: PEER, generation, epoch: 1, secret: secret.clone(), lanes: 1 },
    );
    half.handle_command(now, Command::InstallTransmit { peer: PEER, generation, epoch: 1, secret });
    let (index, request) = (FlowIndex(0), RequestId::default());
    half.handle_command(now, Command::AddFlow { peer: PEER, generation, index, flow, request });
    while half.poll_timeout() == Some(Instant::START) {
        half.handle_timeout(now);
    }
    half
}

/// A packet of each mode, under one and the same secret, comes to a site whose peer is in another mode: as if it came to the
/// data port, and from the peer's address.
#[test]
fn no_packet_of_another_mode_is_taken() {
    let now = Instant::after_start(Duration::from_secs(5));
    let modes = [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 7 }];
    for sent in modes {
        let mut sender = half(sent, now);
        let mut packet = Vec::new();
        for pn in 1..=2 {
            let frame = frame(1, pn);
            let route = sender.route(now, &frame).expect("somewhere");
            for packets in sender.dispatch(now, &route, PEER, &frame) {
                packet = [&packets.header[..], &frame[packets.body]].concat();
            }
            let first = sender.flows(PEER).next().map(|first| (first.index, first.request));
            // In plain mode flows have no numbers.
            assert_eq!(first.is_none(), matches!(sent, Mode::Plain { .. }), "{sent:?}");
            if let Some((index, request)) = first {
                let generation = Generation::default();
                sender.handle_command(now, Command::Announced { peer: PEER, generation, index, request });
            }
            while let Some(released) = sender.poll_released(now) {
                let one = &released.packets[0];
                packet = [&one.header[..], &released.frame[one.body.clone()]].concat();
            }
        }
        assert!(!packet.is_empty(), "{sent:?}");
        for configured in modes {
            let mut receiver = half(configured, now);
            let right = if configured == Mode::Identifier {
                PacketSource::Identifier
            } else {
                PacketSource::From(PEER)
            };
            let wrong = if configured == Mode::Identifier {
                PacketSource::From(PEER)
            } else {
                PacketSource::Identifier
            };
            let refused = |arrived: Result<tunnel::Delivery<'_>, Discard>| arrived.is_err();
            assert!(
                refused(receiver.handle_packet(now, wrong, &packet)),
                "{sent:?} to {configured:?}, wrong port"
            );
            let taken = !refused(receiver.handle_packet(now, right, &packet));
            assert_eq!(taken, sent == configured, "{sent:?} to {configured:?}");
            assert_eq!(receiver.stations().count(), usize::from(taken), "{sent:?} to {configured:?}");
        }
    }
}

/// The hello of a peer in another mode, which also an older release or a changed configuration could send: no key is offered.
#[test]
fn a_hello_of_another_mode_is_refused_whichever_is_configured() {
    let draw = || EpochSecret::new(&[3; 32]);
    for (mode, ours) in
        [(Mode::Identifier, HelloMode::IDENTIFIER), (Mode::HeaderEncryption, HelloMode::HEADER_ENCRYPTION)]
    {
        for theirs in (0..=u8::MAX).map(HelloMode).filter(|theirs| *theirs != ours) {
            let settings = SessionSettings {
                peer: PEER,
                instance: Instance([1; 16]),
                mode,
                lanes: 1,
                window: 4096,
                frames: FrameKinds::ALL,
                epoch_life: EPOCH_LIFE,
                draw,
            };
            let mut session = Session::new(settings, Instant::START);
            session.handle_connected(Instant::START);
            while session.poll_message().is_some() {}
            let hello = Message::Hello {
                instance: Instance([2; 16]),
                lanes: 1,
                window: 4096,
                mode: theirs,
                frames: FrameKinds::ALL,
            };
            let heard = session.handle_message(Instant::START, hello);
            assert_eq!(heard, Err(PeerFault::Mode { ours, theirs }));
            assert!(session.poll_message().is_none(), "{theirs:?}: nothing is said, least of all a key");
            assert!(session.poll_command().is_none(), "{theirs:?}: nothing is installed");
        }
    }
}
