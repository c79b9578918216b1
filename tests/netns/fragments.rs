//! Full-size frames over a network of 1500 octets, as real ones have: SDUs are split, put together, and arrive whole
//! or not at all, whatever the network does.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::cpu::resident;
use lab::relay::{Impairments, Relay};
use lab::topology::LEFT;
use lab::traffic::{self, Ip, MARKER, Until};
use lab::{Capture, Direction, Machine, PacketSocket, Shape, Topology};
use perf::demo::pair::Choice;
use report::GatewayReport;
use testkit::frames::tagged;
use wire::EtherType;

use super::{EXPERIMENT, counter, exchange, lab, marked};

const ON: &str = "fragment = \"on\"\nconcatenate = \"on\"\nreplay_window = 64";

/// A network of so many octets between machines of so many.
fn shape(plain_mtu: u32, protected_mtu: u32) -> Shape {
    Shape { plain_mtu, protected_mtu, ..Shape::default() }
}

fn value(report: &GatewayReport, name: &str) -> u64 {
    let secy = &report.links[0].secy;
    let all = secy.counters.iter().chain(secy.receive[0].counters.iter());
    all.filter(|(known, _)| *known == name).map(|(_, value)| value).sum()
}

fn every_size_passes(io: &'static str, link: &'static str) {
    let (topology, pair) = lab(&shape(1500, 1500), &Choice { io, link, ..Choice::default() });
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    for (from, to) in [(a, b), (b, a)] {
        let mut frames: Vec<_> =
            (0..=1500).map(|octets| marked(to.mac, from.mac, EXPERIMENT, octets, octets as u64)).collect();
        for octets in [46, 1000, 1464, 1496, 1500] {
            let plain = marked(to.mac, from.mac, EXPERIMENT, octets, 7);
            frames.push(tagged(&plain, EtherType::VLAN, 0x0005));
        }
        exchange(from, to, &frames);
    }
    traffic::ping(a, b, Ip::V4, 5, 1472).unwrap();
    for (from, to) in [(a, b), (b, a)] {
        traffic::tcp(from, to, Ip::V4, Until::Octets(8_000_000)).unwrap();
    }
    let cyclic = traffic::cyclic(a, b, Duration::from_millis(1), 300, 40).unwrap();
    assert_eq!((cyclic.received, cyclic.out_of_order), (300, 0));

    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(wire.all_ethertype(EtherType::MACSEC.0));
    assert!(wire.frames.iter().all(|frame| frame.octets.len() <= 1514), "a frame exceeds the network's MTU");
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    let report = pair.b.report().unwrap();
    assert!(value(&report, "InSdusReassembled") > 5000, "{report:#?}");
    assert!(value(&report, "OutSdusFragmented") > 5000, "{report:#?}");
    for name in ["InPktsMalformed", "InPiecesLost", "InPiecesOverrun", "InPiecesMismatched", "InSdusNoChunk"]
    {
        assert_eq!(value(&report, name), 0, "{name}");
    }
    pair.stop().unwrap();
}

#[test]
fn every_size_over_af_xdp() {
    every_size_passes("af_xdp", ON);
}

#[test]
fn every_size_over_af_packet() {
    every_size_passes("af_packet", ON);
}

#[test]
fn every_size_without_concatenation() {
    every_size_passes("auto", "fragment = \"on\"\nsci = \"never\"");
}

#[test]
fn jumbo_machines_over_small_networks() {
    for protected_mtu in [576, 1500] {
        let (topology, pair) = lab(&shape(9000, protected_mtu), &Choice { link: ON, ..Choice::default() });
        let (a, b) = (&topology.machine_a, &topology.machine_b);
        let sizes = [0, 46, 500, 1499, 1500, 1501, 2936, 4000, 8999, 9000];
        for (from, to) in [(a, b), (b, a)] {
            let frames = sizes.map(|octets| marked(to.mac, from.mac, EXPERIMENT, octets, octets as u64));
            exchange(from, to, &frames);
        }
        traffic::ping(a, b, Ip::V4, 3, 8972).unwrap();
        traffic::tcp(a, b, Ip::V4, Until::Octets(4_000_000)).unwrap();
        pair.stop().unwrap();
    }
}

#[test]
fn with_auto_and_static_keys_never_a_bit_that_the_standard_has_not() {
    let (topology, pair) = lab(&shape(1468, 1500), &Choice::default());
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    traffic::tcp(a, b, Ip::V4, Until::Octets(4_000_000)).unwrap();
    let small: Vec<_> = (0..200).map(|seed| marked(b.mac, a.mac, EXPERIMENT, 46, seed)).collect();
    exchange(a, b, &small);
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(wire.frames.len() > 2700);
    // SecTAG octet 3: EXT 0x80, MF 0x40.
    assert!(wire.frames.iter().all(|frame| frame.octets[15] & 0xc0 == 0), "EXT or MF is set");
    pair.stop().unwrap();
}

/// Sends SDUs of random sizes, each of which tells its number, a little slower than a gateway can take them.
fn send(from: &Machine, to: &Machine, numbers: Range<u64>) {
    let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    for number in numbers {
        sender.send(&numbered(to, from, number)).unwrap();
        if number % 32 == 31 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

fn numbered(to: &Machine, from: &Machine, number: u64) -> Vec<u8> {
    // From the shortest that holds number and marker to full size, as the number's hash has it.
    let octets = 24 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % (1500 - 24 + 1);
    let mut frame = marked(to.mac, from.mac, EXPERIMENT, octets, number);
    frame[30..38].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Numbers of the SDUs that a machine received, until there are no more: each whole, and none twice.
fn receive(receiver: &mut PacketSocket, to: &Machine, from: &Machine, stop: &AtomicBool) -> HashSet<u64> {
    let mut numbers = HashSet::new();
    let mut last = Instant::now();
    // Half a second of quiet: with the gateways done, nothing is under way but what this socket holds.
    while !stop.load(Ordering::Relaxed) || last.elapsed() < Duration::from_millis(500) {
        let Some(frame) = receiver.receive().unwrap() else { continue };
        if frame.direction != Direction::In
            || frame.octets.get(12..14) != Some(&EXPERIMENT.0.to_be_bytes()[..])
        {
            continue;
        }
        last = Instant::now();
        let number = u64::from_be_bytes(frame.octets[30..38].try_into().unwrap());
        assert!(frame.octets == numbered(to, from, number), "SDU {number} is not what was sent");
        assert!(numbers.insert(number), "SDU {number} is delivered twice");
    }
    numbers
}

/// Frames of the bad wire's test. `make test-long` asks for more.
fn frames() -> u64 {
    std::env::var("FRAMEWARD_RELAY_FRAMES").map_or(200_000, |text| text.parse().unwrap())
}

/// Waits until nothing is under way any more: neither gateway nor relay has had anything to do for a second.
fn wait_until_still(pair: &super::Pair, relay: &Relay<'_>) {
    let done = || {
        let [a, b] = [pair.a.report().unwrap(), pair.b.report().unwrap()];
        let frames = |report: &GatewayReport| {
            let ports = [&report.links[0].plain, &report.links[0].protected];
            ports.map(|port| counter(&port.counters, "RxFrames") + counter(&port.counters, "TxFrames"))
        };
        (frames(&a), frames(&b), relay.counters().to_right.forwarded)
    };
    let (end, mut last, mut looks) = (Instant::now() + super::DEADLINE, done(), 0);
    while looks < 10 {
        assert!(Instant::now() < end, "frames go on coming");
        std::thread::sleep(Duration::from_millis(100));
        let now = done();
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
}

#[test]
fn over_a_bad_wire_sdus_arrive_whole_once_or_not_at_all() {
    let topology = Topology::build(&shape(1500, 1500)).unwrap();
    let mut pair =
        super::Pair::start(super::program(), &topology, &Choice { link: ON, ..Choice::default() }).unwrap();
    let bad =
        Impairments { seed: 7, loss: 0.01, duplicate: 0.01, corrupt: 0.01, reorder: 0.02, reorder_by: 8 };
    let relay = Relay::start(&topology, bad).unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let mut receiver = PacketSocket::open(&b.namespace, b.ifname).unwrap();
    let stop = AtomicBool::new(false);
    let count = frames();
    let pid = pair.b.program().id();
    let numbers = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&mut receiver, b, a, &stop));
        send(a, b, 0..count / 2);
        let half = resident(pid).unwrap();
        send(a, b, count / 2..count);
        let grown = resident(pid).unwrap().saturating_sub(half);
        assert!(grown < 2 << 20, "gateway B grew by {grown} octets");
        wait_until_still(&pair, &relay);
        stop.store(true, Ordering::Relaxed);
        receiving.join().unwrap()
    });
    let relayed = relay.stop().unwrap().to_right;
    let [sent, received] = [pair.a.report().unwrap(), pair.b.report().unwrap()];
    let (plain, out) = (&sent.links[0].plain.counters, &sent.links[0].protected.counters);
    let (into, delivered) = (&received.links[0].protected.counters, &received.links[0].plain.counters);
    let lost_in = |counters| {
        ["RxKernelDropped", "RxRingFull", "RxNoChunk", "RxTooLong"]
            .map(|name| counter(counters, name))
            .iter()
            .sum::<u64>()
    };
    // Each stage accounts for every frame of the one before it.
    let veth = |report: &str, counted: u64, expected: u64| {
        assert!(counted <= expected, "{report}: {counted} of {expected}");
        expected - counted
    };
    let unseen = veth("machine A to gateway A", counter(plain, "RxFrames") + lost_in(plain), count)
        + veth("gateway A to relay", relayed.received + relayed.kernel_dropped, counter(out, "TxFrames"))
        + veth("relay to gateway B", counter(into, "RxFrames") + lost_in(into), relayed.forwarded);
    // Frames that a veth pair drops for want of room are counted by the pair itself; at this pace there are none.
    assert_eq!(unseen, 0, "frames vanished: {sent:#?} {relayed:?} {received:#?}");
    assert_eq!(relayed.received + relayed.duplicated, relayed.forwarded + relayed.lost + relayed.send_failed);
    let verdicts =
        ["InPktsOK", "InPktsLate", "InPktsDuplicate", "InPktsNotValid", "InPktsMalformed", "InPktsBadTag"];
    let others = ["InPktsNoTag", "InPktsNoSAError", "InPktsTooShort", "InPktsClearVlan", "InPktsEapol"];
    let judged: u64 = verdicts.iter().chain(&others).map(|name| value(&received, name)).sum();
    assert_eq!(judged, counter(into, "RxFrames"), "each frame has one verdict");
    assert_eq!(numbers.len() as u64 + receiver.dropped().unwrap(), counter(delivered, "TxFrames"));
    assert!(relayed.lost > 0 && relayed.corrupted > 0 && relayed.duplicated > 0 && relayed.reordered > 0);
    let share = numbers.len() as f64 / count as f64;
    assert!(share > 0.8, "only {share} of the SDUs arrived");
    pair.stop().unwrap();
}
