//! Traffic of machines works over plain bridges, the middle sees it, and a rate limit limits. Needs root.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use lab::traffic::{self, Ip, MARKER, Until};
use lab::{Capture, Shape, Topology};

fn bridged(shape: &Shape) -> Topology {
    let topology = Topology::build(shape).unwrap();
    topology.bridge_gateways().unwrap();
    topology
}

#[test]
fn machines_talk_and_the_middle_sees_the_marker() {
    let topology = bridged(&Shape { ipv6: true, ..Shape::default() });
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let middle = Capture::start(&topology.middle, "left").unwrap();
    for ip in [Ip::V4, Ip::V6] {
        let ping = traffic::ping(a, b, ip, 3, 1400).unwrap();
        assert!(ping.summary.contains("3 received"), "{}", ping.summary);
        let transfer = traffic::tcp(a, b, ip, Until::Octets(1_000_000)).unwrap();
        assert_eq!(transfer.octets, 1_000_000);
        let trips = traffic::round_trips(b, a, ip, 1000, 100).unwrap();
        assert_eq!((trips.sent, trips.lost()), (100, 0));
        assert!(trips.percentile(50.0) <= trips.percentile(99.0));
    }
    let cyclic = traffic::cyclic(a, b, Duration::from_millis(1), 200, 40).unwrap();
    assert_eq!((cyclic.received, cyclic.out_of_order), (200, 0));
    let seen = middle.stop().unwrap().complete().unwrap();
    // A megabyte is 690 segments or more, and 100 datagrams go both ways; how many are acknowledged, TCP decides.
    for (ethertype, at_least) in [(0x0806, 2), (0x0800, 890), (0x86DD, 890), (0x8892, 200)] {
        let count = seen.of_ethertype(ethertype).count();
        assert!(count >= at_least, "{ethertype:#06x}: {count} seen");
    }
    for ethertype in [0x0800, 0x86DD, 0x8892] {
        assert!(seen.of_ethertype(ethertype).any(|frame| frame.contains(MARKER)), "{ethertype:#06x}");
    }
}

#[test]
fn a_cable_carries_without_a_middle() {
    let topology = bridged(&Shape { cable: true, ..Shape::default() });
    let ping = traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 3, 1400).unwrap();
    assert!(ping.summary.contains("3 received"), "{}", ping.summary);
    let interfaces = topology.middle.ip(&["-o", "link"]).unwrap().stdout;
    assert_eq!(interfaces.lines().count(), 1, "the loopback interface alone: {interfaces}");
}

#[test]
fn without_ipv6_the_machines_are_silent() {
    let topology = bridged(&Shape { static_neighbours: true, ..Shape::default() });
    let middle = Capture::start(&topology.middle, "left").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 1, 56).unwrap();
    let seen = middle.stop().unwrap().complete().unwrap();
    let ethertypes: Vec<_> = seen.frames.iter().map(|frame| frame.ethertype()).collect();
    assert_eq!(ethertypes, [Some(0x0800); 2], "no ARP with static neighbours, and nothing unasked");
}

#[test]
fn a_rate_limit_limits_and_can_be_lifted() {
    let topology = bridged(&Shape::default());
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let limit = 50.0;
    topology.limit_rate(50_000_000, Duration::from_millis(50)).unwrap();
    for (from, to) in [(a, b), (b, a)] {
        let transfer = traffic::tcp(from, to, Ip::V4, Until::Elapsed(Duration::from_secs(2))).unwrap();
        let rate = transfer.megabits_per_second();
        assert!((limit * 0.5..limit * 1.05).contains(&rate), "{rate:.1} Mbit/s of {limit}");
    }
    topology.unlimit_rate().unwrap();
    let free = traffic::tcp(a, b, Ip::V4, Until::Elapsed(Duration::from_secs(1))).unwrap();
    assert!(free.megabits_per_second() > limit * 1.2, "{:.1} Mbit/s", free.megabits_per_second());
}

#[test]
fn an_unreachable_machine_is_an_error_and_no_hang() {
    // Gateways without a bridge: nothing passes.
    let topology = Topology::build(&Shape::default()).unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let begin = std::time::Instant::now();
    assert!(traffic::ping(a, b, Ip::V4, 1, 56).is_err());
    let cyclic = traffic::cyclic(a, b, Duration::from_millis(1), 10, 40).unwrap();
    assert_eq!((cyclic.sent, cyclic.received), (10, 0));
    assert!(begin.elapsed() < Duration::from_secs(60));
}
