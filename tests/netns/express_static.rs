//! Express SCs with static keys: configured at both ends alike, with PNs and floors of their own on disk. No PN comes twice, whatever ends a
//! gateway or changes it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lab::topology::{LEFT, RIGHT};
use lab::{Capture, Captured, PacketSocket, Topology};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, Pair, Station};
use suite::CipherSuite;
use wire::EtherType;

use super::express::{
    EXPRESS, bulk, cyclic_both_ways, edit, express_frames, link, received_express, sent_express, topology,
};
use super::kernel_link::{all_protected, in_user_space, until_path};
use super::mka::discards;
use super::reload::reloaded;
use super::{DEADLINE, EXPERIMENT, counter, exchange, marked, program};

const LINES: &str = "express = true\nfragment = \"on\"\nconcatenate = \"on\"";

fn choice(suite: CipherSuite) -> Choice {
    Choice { suite, link: LINES, ..Choice::default() }
}

fn start(topology: &Topology, suite: CipherSuite) -> Pair {
    let pair = Pair::start(program(), topology, &choice(suite)).unwrap();
    [&pair.a, &pair.b].into_iter().for_each(|station| until_path(station, EXPRESS));
    pair
}

/// No SC has sent two frames with one PN: keys are the same all the time, whatever AN they have.
fn no_pn_twice(wire: &Captured) -> usize {
    let mut seen = HashSet::new();
    for frame in wire.of_ethertype(EtherType::MACSEC.0) {
        assert!(seen.insert(frame.octets[16..28].to_vec()), "a PN twice under one key");
    }
    seen.len()
}

/// Express frames and others, both ways.
fn both_kinds(topology: &Topology) {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    for (from, to) in [(a, b), (b, a)] {
        for ethertype in [EtherType::PROFINET, EXPERIMENT] {
            let frames: Vec<_> = (0..20).map(|seed| marked(to.mac, from.mac, ethertype, 100, seed)).collect();
            exchange(from, to, &frames);
        }
    }
}

#[test]
fn express_frames_have_an_sc_of_their_own_under_static_keys() {
    for suite in [CipherSuite::ChaCha20Poly1305, CipherSuite::ChaCha20Poly1305Xpn] {
        let topology = topology();
        let pair = start(&topology, suite);
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let known = [&pair.a, &pair.b].map(in_user_space);
        cyclic_both_ways(&topology, 500, || ());
        assert_eq!([&pair.a, &pair.b].map(in_user_space), known, "express frames came to user space");
        cyclic_both_ways(&topology, 1000, || bulk(&topology, Duration::from_millis(700)));
        for station in [&pair.a, &pair.b] {
            assert_eq!((sent_express(station), received_express(station)), (1500, 1500), "{suite}");
            let secy = link(station).secy;
            assert!(counter(&secy.counters, "OutSdusFragmented") > 100, "{suite}");
            assert_eq!(discards(&station.report().unwrap()), [], "{suite}");
            // Each SC has a key of its own, and a person can compare it with that of the other end.
            let express = secy.express.unwrap();
            assert_ne!(express.sas[0].key, secy.transmit.sas[0].key);
            let other = if std::ptr::eq(station, &pair.a) { &pair.b } else { &pair.a };
            let theirs = link(other).secy.receive;
            let sc = theirs.iter().find(|sc| sc.sci == express.sci).unwrap();
            assert_eq!(sc.sas[0].key, express.sas[0].key);
        }
        let wire = all_protected(wire);
        assert_eq!(express_frames(&wire), 3000, "{suite}");
        no_pn_twice(&wire);
        pair.stop().unwrap();
    }
}

/// However a gateway ends, the next one uses no PN of either SC again, and takes no frame again that came before.
#[test]
fn a_killed_gateway_repeats_no_pn_of_either_sc_and_takes_no_replay() {
    let topology = topology();
    let Pair { mut a, mut b, scratch } = start(&topology, CipherSuite::ChaCha20Poly1305);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    for round in 0..4 {
        both_kinds(&topology);
        let recorded: Vec<_> = wire.since(0).into_iter().map(|frame| frame.octets).collect();
        // The last second before a crash is open to replay.
        std::thread::sleep(Duration::from_millis(1800));
        let (station, namespace, name, side) = match round % 2 {
            0 => (&mut a, &topology.gateway_a.namespace, "a", LEFT),
            _ => (&mut b, &topology.gateway_b.namespace, "b", RIGHT),
        };
        station.program().signal([Signal::SIGKILL, Signal::SIGTERM][round / 2]).unwrap();
        let end = Instant::now() + DEADLINE;
        while station.program().is_running() {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(2));
        }
        *station = Station::start(program(), namespace, &scratch, name).unwrap();
        until_path(station, EXPRESS);
        if side == RIGHT {
            // Frames that an attacker sends are not captured on this side.
            let attacker = PacketSocket::open(&topology.middle, side).unwrap();
            recorded.iter().for_each(|frame| attacker.send(frame).unwrap());
            let all = |station: &Station| -> u64 {
                link(station).secy.receive.iter().map(|sc| counter(&sc.counters, "InPktsOK")).sum()
            };
            let late = |station: &Station| -> u64 {
                link(station).secy.receive.iter().map(|sc| counter(&sc.counters, "InPktsLate")).sum()
            };
            let end = Instant::now() + DEADLINE;
            while late(station) == 0 {
                assert!(Instant::now() < end, "the recorded frames do not come");
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(all(station), 0, "a frame was taken again");
        }
    }
    both_kinds(&topology);
    assert!(received_express(&a) > 0 && received_express(&b) > 0);
    assert!(no_pn_twice(&all_protected(wire)) >= 5 * 42);
    Pair { a, b, scratch }.stop().unwrap();
}

/// Settings change by reload, express SCs go and come back, a port takes no redirected frames for a while: PNs and windows go on.
#[test]
fn reloads_and_ports_that_change_repeat_no_pn() {
    let topology = topology();
    let pair = start(&topology, CipherSuite::ChaCha20Poly1305);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let mut line = LINES.to_owned();
    for (other, way) in [
        (format!("{LINES}\nreplay_window = 8"), EXPRESS),
        (format!("{LINES}\nbypass = [\"lldp\"]"), EXPRESS),
        (LINES.replace("express = true", "express = false"), "user space"),
        (LINES.to_owned(), EXPRESS),
    ] {
        for name in ["a", "b"] {
            edit(&pair.scratch.path().join(format!("{name}.toml")), &line, &other);
            reloaded(&pair.scratch, name);
        }
        line = other;
        [&pair.a, &pair.b].into_iter().for_each(|station| until_path(station, way));
        both_kinds(&topology);
    }
    for (gro, way) in [("off", "user space"), ("on", EXPRESS), ("off", "user space"), ("on", EXPRESS)] {
        topology.middle.run(&["ethtool", "-K", LEFT, "gro", gro]).unwrap();
        until_path(&pair.a, way);
        both_kinds(&topology);
    }
    assert!(no_pn_twice(&all_protected(wire)) >= 8 * 42);
    pair.stop().unwrap();
}

/// Only one end has `express = true`: the other one discards its express frames, counts them and says what to set. All else arrives.
#[test]
fn an_end_without_express_says_what_comes_and_what_to_set() {
    let topology = topology();
    let pair = start(&topology, CipherSuite::ChaCha20Poly1305);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    edit(&pair.scratch.path().join("b.toml"), "express = true", "express = false");
    reloaded(&pair.scratch, "b");
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let frames = |to: [u8; 6], from: [u8; 6], ethertype| -> Vec<_> {
        (0..10).map(|seed| marked(to, from, ethertype, 100, seed)).collect()
    };
    exchange(a, b, &frames(b.mac, a.mac, EXPERIMENT));
    exchange(b, a, &frames(a.mac, b.mac, EtherType::PROFINET));
    let sender = PacketSocket::open(&a.namespace, a.ifname).unwrap();
    frames(b.mac, a.mac, EtherType::PROFINET).iter().for_each(|frame| sender.send(frame).unwrap());
    let end = Instant::now() + DEADLINE;
    loop {
        let report = pair.b.report().unwrap();
        let link = &report.links[0];
        let concern = link.concerns.iter().find(|one| one.text.contains("set express = true"));
        if let (10.., Some(concern)) = (counter(&link.secy.counters, "InPktsNoSAError"), concern) {
            assert!(concern.text.contains("/32769"), "{}", concern.text);
            break;
        }
        assert!(Instant::now() < end, "{:?}", link.concerns);
        std::thread::sleep(Duration::from_millis(20));
    }
    // The other one sees that its express frames leave, and that none comes.
    let end = Instant::now() + DEADLINE;
    while !link(&pair.a).verdict.text.contains("express = true at the other end") {
        assert!(Instant::now() < end, "{}", link(&pair.a).verdict.text);
        exchange(b, a, &frames(a.mac, b.mac, EtherType::PROFINET));
        std::thread::sleep(Duration::from_millis(100));
    }
    edit(&pair.scratch.path().join("b.toml"), "express = false", "express = true");
    reloaded(&pair.scratch, "b");
    until_path(&pair.b, EXPRESS);
    both_kinds(&topology);
    all_protected(wire);
    pair.stop().unwrap();
}
