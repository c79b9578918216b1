//! Cells under attack, and with fifty relations: what becomes of every frame.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::cyclic::{Arrivals, Exchange};
use lab::topology::{LEFT, PLAIN, PROTECTED, RIGHT};
use lab::{Capture, Frame, Impairments, InterfaceCounters, PacketSocket, Relay, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::cells::{self, CellChoice, only_cell, secured};
use perf::demo::pair::{Pair, Station};
use report::GatewayReport;
use wire::fieldbus::{ETHERTYPE, HELLO_OCTETS, Header};

use super::{DEADLINE, MARKER, program};

/// Offsets of FrameID, KeyID and Seq behind the machine's tag, and of the payload behind them.
const HEADER: usize = 18;
const PAYLOAD: usize = HEADER + 7;
/// Behind marker and number the machines' payload is zeros: what is seen there on the wire is the keystream.
const KEYSTREAM: usize = PAYLOAD + 24;

/// Protected frames of machines, without HELLOs.
pub(crate) fn data(frame: &Frame) -> bool {
    frame.ethertype() == Some(ETHERTYPE.0)
        && frame.octets[12..14] == [0x81, 0]
        && Header::parse(&frame.octets[HEADER..]).is_ok_and(|header| header.seq.is_some())
}

/// No key has protected two frames with one Seq: then their keystreams would be the same. KeyID and Seq alone do not tell: the
/// KeyID after a start is random.
pub(crate) fn no_seq_twice<'f>(frames: impl Iterator<Item = &'f Frame>) -> usize {
    let mut seen = HashSet::new();
    for Frame { octets, .. } in frames.filter(|frame| data(frame)) {
        let keystream = octets[KEYSTREAM..KEYSTREAM + 16].to_vec();
        assert!(seen.insert(keystream), "a Seq twice under one key");
    }
    seen.len()
}

fn counted(report: &GatewayReport, name: &str) -> u64 {
    let cell = only_cell(report).unwrap();
    let relations = cell.relations.iter().map(|relation| relation.receive.value(name)).sum::<u64>();
    relations + cell.counters.value(name) + cell.hello.value(name)
}

fn received(exchange: &Exchange) -> u64 {
    exchange.heard().iter().flatten().map(|heard| heard.received).sum()
}

/// Every frame of 50 relations is delivered, or some counter between the machines says where it ended. In `make test-long` at
/// 1 ms for a minute, which 100 Mbit/s still carry; otherwise in a debug build beside other tests: 20 ms, five seconds.
#[test]
fn fifty_relations_and_every_frame_accounted_for() {
    let seconds: Option<u64> =
        std::env::var("FRAMEWARD_FIELDBUS_SECONDS").ok().map(|text| text.parse().expect("seconds"));
    let (cycle, time) = match seconds {
        Some(seconds) => (Duration::from_millis(1), Duration::from_secs(seconds)),
        None => (Duration::from_millis(20), Duration::from_secs(5)),
    };
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let choice = CellChoice::new(&topology, 50, cycle);
    let pair = cells::start(program(), &topology, &choice).unwrap();
    secured(&pair).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
    let frames = (time.as_nanos() / cycle.as_nanos()) as u64;
    let end = Instant::now() + time * 4 + DEADLINE;
    while exchange.heard().iter().flatten().any(|heard| heard.sent < frames) {
        assert!(Instant::now() < end, "the machines are too slow for {cycle:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let heard = exchange.stop().unwrap();
    let reports = [&pair.a, &pair.b].map(|station| station.report().unwrap());
    let (mut sent, mut arrived) = (0, 0);
    for (number, heard) in heard.iter().enumerate() {
        for (end, Arrivals { sent: of, received, out_of_order, changed, .. }) in heard.iter().enumerate() {
            assert_eq!((*out_of_order, *changed), (0, 0), "relation {number}");
            let relation = &only_cell(&reports[end]).unwrap().relations[number];
            assert_eq!(relation.receive.value("InPktsOK"), *received, "relation {number}");
            assert_eq!(relation.state, "running");
            (sent, arrived) = (sent + of, arrived + received);
        }
    }
    assert!(arrived > 0 && arrived <= sent);
    let mut lost = 0;
    for report in &reports {
        let cell = only_cell(report).unwrap();
        let relations = cell.relations.iter().flat_map(|relation| {
            let out = ["OutPktsNoSession", "OutPktsSeqExhausted", "OutPktsTooLong"];
            let come =
                ["InPktsLate", "InPktsUnknownKey", "InPktsNotValid", "InPktsNoSession", "InPktsTooShort"];
            out.map(|name| relation.transmit.value(name))
                .into_iter()
                .chain(come.map(|name| relation.receive.value(name)))
        });
        lost += relations.sum::<u64>();
        for port in [&report.links[0].plain, &report.links[0].protected] {
            let names =
                ["RxNoChunk", "RxTooLong", "RxKernelDropped", "RxRingFull", "TxDropped", "TxKernelDropped"];
            lost += names.map(|name| port.counters.value(name)).iter().sum::<u64>();
        }
    }
    let interfaces = [
        (&topology.machine_a.namespace, topology.machine_a.ifname),
        (&topology.gateway_a.namespace, PLAIN),
        (&topology.gateway_a.namespace, PROTECTED),
        (&topology.middle, LEFT),
        (&topology.middle, RIGHT),
        (&topology.gateway_b.namespace, PROTECTED),
        (&topology.gateway_b.namespace, PLAIN),
        (&topology.machine_b.namespace, topology.machine_b.ifname),
    ];
    for (namespace, ifname) in interfaces {
        let counters = InterfaceCounters::read(namespace, ifname).unwrap();
        lost += counters.tx_dropped;
    }
    assert!(sent - arrived <= lost, "{sent} sent, {arrived} arrived, {lost} counted as lost");
    let wire = wire.stop().unwrap();
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    assert!(no_seq_twice(wire.frames.iter()) > 0);
    println!("{sent} sent, {arrived} arrived, {} captured", wire.frames.len());
    pair.stop().unwrap();
}

/// A station on the network that has seen everything, and sends what it likes to gateway B.
struct Attacker<'t> {
    socket: PacketSocket,
    b: &'t Station,
}

impl Attacker<'_> {
    /// Sends frames, which end under this name, all of them.
    fn sends(&self, what: &str, frames: &[Vec<u8>], name: &str) {
        assert!(!frames.is_empty(), "{what}");
        let before = counted(&self.b.report().unwrap(), name);
        for frame in frames {
            self.socket.send(frame).unwrap();
        }
        let end = Instant::now() + DEADLINE;
        loop {
            let now = counted(&self.b.report().unwrap(), name);
            if now - before >= frames.len() as u64 {
                return;
            }
            assert!(Instant::now() < end, "{what}: {name} is {now}, before {before}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn altered(frames: &[Vec<u8>], alter: impl Fn(&mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut frames = frames.to_vec();
    frames.iter_mut().for_each(alter);
    frames
}

#[test]
fn what_an_attacker_sends_is_counted_and_never_delivered() {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let choice = CellChoice::new(&topology, 3, Duration::from_millis(4));
    // From the first HELLO on.
    let wire = Capture::start(&topology.middle, RIGHT).unwrap();
    let pair = cells::start(program(), &topology, &choice).unwrap();
    secured(&pair).unwrap();
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    exchange.stop().unwrap();
    let seen = wire.stop().unwrap().complete().unwrap();
    let to_b = |frame: &&Frame| data(frame) && frame.octets[6..12] == topology.machine_a.mac;
    let frames: Vec<_> = seen.frames.iter().filter(to_b).map(|frame| frame.octets.clone()).take(30).collect();
    let last: Vec<_> = seen.frames.iter().filter(to_b).map(|frame| frame.octets.clone()).collect();
    // A Seq that is to come, so that the ICV has to decide.
    let fresh =
        |frame: &mut Vec<u8>| frame[HEADER + 3..PAYLOAD].copy_from_slice(&0x00ff_ffffu32.to_be_bytes());
    let fresh = altered(&frames, fresh);
    let device = |frame: &[u8]| frame[5];
    let machine = Capture::start(&topology.machine_b.namespace, topology.machine_b.ifname).unwrap();
    let attacker = Attacker { socket: PacketSocket::open(&topology.middle, RIGHT).unwrap(), b: &pair.b };

    attacker.sends("replay", &last, "InPktsLate");
    attacker.sends("a Seq that nobody took", &fresh, "InPktsNotValid");
    for at in [HEADER + 6, PAYLOAD, KEYSTREAM, frames[0].len() - 1] {
        attacker.sends("a bit flipped", &altered(&fresh, |frame| frame[at] ^= 1), "InPktsNotValid");
    }
    let other_key = altered(&fresh, |frame| frame[HEADER + 2] = frame[HEADER + 2].wrapping_add(100));
    attacker.sends("another KeyID", &other_key, "InPktsUnknownKey");
    let next_epoch = altered(&fresh, |frame| frame[HEADER + 2] = frame[HEADER + 2].wrapping_add(1));
    attacker.sends("the next epoch", &next_epoch, "InPktsNotValid");
    // Octets that were protected for one device, in the frames of another one: KeyIDs are each relation's own.
    let [of_1, of_2] = [1, 2].map(|n| fresh.iter().find(|frame| device(frame) == n).unwrap());
    let mut swapped = of_2.clone();
    swapped[..HEADER + 2].copy_from_slice(&of_1[..HEADER + 2]);
    swapped[HEADER + 2] = of_1[HEADER + 2];
    attacker.sends("another relation's", &[swapped], "InPktsNotValid");
    let unknown = altered(&fresh, |frame| frame[HEADER + 1] ^= 0x40);
    attacker.sends("no relation's", &unknown, "InPktsUnknownRelation");
    attacker.sends("cut", &altered(&fresh, |frame| frame.truncate(HEADER + 6)), "InPktsTooShort");
    let clear = altered(&fresh, |frame| frame[16..18].copy_from_slice(&[0x88, 0x92]));
    attacker.sends("in clear", &clear, "InPktsClearRefused");

    // HELLOs of the start make nobody change a session.
    let sessions = |station: &Station| counted(&station.report().unwrap(), "SessionsEntered");
    let before = [sessions(&pair.a), sessions(&pair.b)];
    let hello = |frame: &&Frame| frame.ethertype() == Some(ETHERTYPE.0) && !data(frame);
    let hellos: Vec<_> = seen.frames.iter().filter(hello).map(|frame| frame.octets.clone()).collect();
    assert!(hellos.len() >= 6, "{} HELLOs", hellos.len());
    for hello in &hellos {
        attacker.socket.send(hello).unwrap();
    }
    let delivered = machine.stop().unwrap().complete().unwrap();
    assert_eq!(delivered.find(MARKER), None, "an attacker's frame was delivered");
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    for heard in exchange.stop().unwrap().iter().flatten() {
        assert_eq!((heard.out_of_order, heard.changed), (0, 0), "{heard:?}");
    }
    assert_eq!([sessions(&pair.a), sessions(&pair.b)], before, "a replayed HELLO began a session");
    pair.stop().unwrap();
}

/// One direction is lost until its sender has begun epochs whose keys nobody at the other end knows; the other direction goes on.
#[test]
fn a_direction_that_was_lost_for_epochs_heals() {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let mut choice = CellChoice::new(&topology, 2, Duration::from_millis(4));
    choice.cell = "epoch_frames = 256";
    let pair = cells::start(program(), &topology, &choice).unwrap();
    secured(&pair).unwrap();
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    let lost = Impairments { loss: 1.0, ..Impairments::default() };
    let none = Impairments::default();
    for (sender, deaf, to_right, to_left) in [(&pair.a, &pair.b, lost, none), (&pair.b, &pair.a, none, lost)]
    {
        let unknown = counted(&deaf.report().unwrap(), "InPktsUnknownKey");
        let relay = Relay::start_each_way(&topology, to_right, to_left).unwrap();
        let epochs = || {
            let report = sender.report().unwrap();
            let relations = only_cell(&report).unwrap().relations.iter();
            relations.map(|relation| relation.transmit.value("OutEpochs")).collect::<Vec<_>>()
        };
        let (before, end) = (epochs(), Instant::now() + 2 * DEADLINE);
        while before.iter().zip(epochs()).any(|(before, now)| now < before + 3) {
            assert!(Instant::now() < end, "{before:?} {:?}", epochs());
            std::thread::sleep(Duration::from_millis(50));
        }
        relay.stop().unwrap();
        exchange.wait_for(20, DEADLINE).unwrap();
        assert!(
            counted(&deaf.report().unwrap(), "InPktsUnknownKey") > unknown,
            "it has followed all the time"
        );
    }
    for heard in exchange.stop().unwrap().iter().flatten() {
        assert_eq!((heard.out_of_order, heard.changed), (0, 0), "{heard:?}");
    }
    pair.stop().unwrap();
}

#[test]
fn either_gateway_starts_again_in_the_middle_of_traffic_and_no_seq_comes_twice() {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let choice = CellChoice::new(&topology, 5, Duration::from_millis(4));
    let Pair { mut a, mut b, scratch } = cells::start(program(), &topology, &choice).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    for round in 0..4 {
        let (station, namespace, name) = match round % 2 {
            0 => (&mut a, &topology.gateway_a.namespace, "a"),
            _ => (&mut b, &topology.gateway_b.namespace, "b"),
        };
        station.program().signal(Signal::SIGKILL).unwrap();
        let end = Instant::now() + DEADLINE;
        while station.program().is_running() {
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        *station = Station::start(program(), namespace, &scratch, name).unwrap();
        // Both ways, in every relation; how soon that may be is a matter of a clock held in the hand.
        let before = received(&exchange);
        exchange.wait_for(10, DEADLINE).unwrap();
        assert!(received(&exchange) > before);
    }
    // Frames that were on the network are played to both: each is late, or of a key that is gone.
    let recorded: Vec<_> = wire.since(0).into_iter().filter(data).collect();
    let attackers = [LEFT, RIGHT].map(|side| PacketSocket::open(&topology.middle, side).unwrap());
    for (number, frame) in recorded.iter().enumerate().filter(|(number, _)| number % 7 == 0) {
        attackers[number % 2].send(&frame.octets).unwrap();
    }
    exchange.wait_for(10, DEADLINE).unwrap();
    let heard = exchange.stop().unwrap();
    assert!(heard.iter().flatten().all(|heard| (heard.out_of_order, heard.changed) == (0, 0)), "{heard:?}");
    assert!(no_seq_twice(recorded.iter()) > 200);
    Pair { a, b, scratch }.stop().unwrap();
}

/// HELLOs that are sent to each gateway in a millisecond.
const FORGED: u64 = 20;
const FORGED_MAC: [u8; 32] = [4; 32];

/// Sends both gateways HELLOs of all relations until it is told to stop: of those that name nobody, anybody, and the nonce that the
/// receiver has just drawn. Returns how many.
fn flood(topology: &Topology, wire: &Capture, relations: &[lab::cyclic::Relation], stop: &AtomicBool) -> u64 {
    let sockets = [LEFT, RIGHT].map(|side| PacketSocket::open(&topology.middle, side).unwrap());
    let (mut sent, mut seen, mut nonces) = (0u64, 0, HashMap::new());
    while !stop.load(Ordering::Relaxed) {
        let news = wire.since(seen);
        seen += news.len();
        for Frame { octets, .. } in news.into_iter().filter(|frame| frame.ethertype() == Some(ETHERTYPE.0)) {
            // Untagged, as HELLOs are; Seq 0.
            let forged = octets.ends_with(&FORGED_MAC);
            if octets.len() == 14 + HELLO_OCTETS && octets[17..21] == [0; 4] && !forged {
                nonces.insert(octets[..12].to_vec(), octets[22..38].to_vec());
            }
        }
        for _ in 0..FORGED {
            let relation = &relations[sent as usize % relations.len()];
            for (to, socket) in sockets.iter().enumerate() {
                let [own, peer] = [relation.stations[to], relation.stations[1 - to]];
                let mut frame = [&own[..], &peer, &ETHERTYPE.0.to_be_bytes()].concat();
                frame.extend(relation.frame_ids[1 - to].to_be_bytes());
                // KeyID, Seq; encrypted, 128 bits, asks; a nonce; the receiver's, or none; a MAC.
                frame.extend([1, 0, 0, 0, 0, 2]);
                frame.extend([&sent.to_be_bytes()[..], &[1; 8]].concat());
                let named = match sent / relations.len() as u64 % 3 {
                    0 => vec![0; 16],
                    1 => [&sent.to_be_bytes()[..], &[2; 8]].concat(),
                    _ => nonces.get(&[peer, own].concat()).cloned().unwrap_or(vec![3; 16]),
                };
                frame.extend(named);
                frame.extend(FORGED_MAC);
                socket.send(&frame).unwrap();
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Somebody on the network who sees all of it, and who has no key, does not keep a gateway that starts from its relations.
#[test]
fn a_start_among_forged_hellos_takes_no_longer() {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let choice = CellChoice::new(&topology, 2, Duration::from_millis(4));
    let Pair { a, mut b, scratch } = cells::start(program(), &topology, &choice).unwrap();
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
    exchange.wait_for(10, DEADLINE).unwrap();
    b.program().signal(Signal::SIGKILL).unwrap();
    let end = Instant::now() + DEADLINE;
    while b.program().is_running() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    let (stop, relations) = (AtomicBool::new(false), choice.exchanged());
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let (b, took, sent) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood(&topology, &wire, &relations, &stop));
        let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b");
        let begun = Instant::now();
        let flows = exchange.wait_for(10, DEADLINE);
        let took = begun.elapsed();
        stop.store(true, Ordering::Relaxed);
        let sent = flood.join().unwrap();
        flows.unwrap_or_else(|error| panic!("{error} among {sent} forged HELLOs, after {took:?}"));
        (b.unwrap(), took, sent)
    });
    println!("{sent} forged HELLOs to each gateway; frames flowed after {took:?}");
    exchange.stop().unwrap();
    for station in [&a, &b] {
        let report = station.report().unwrap();
        let [forged, flood] = ["InHelloNotValid", "InHelloFlood"].map(|name| counted(&report, name));
        assert!(forged > 0, "{forged} found to be forged, {flood} not looked at");
    }
    Pair { a, b, scratch }.stop().unwrap();
}
