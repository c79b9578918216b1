//! Starting, stopping and being killed: nothing leaks meanwhile, nothing is left behind, no PN comes twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lab::topology::{LEFT, PLAIN, PROTECTED};
use lab::{Capture, Namespace, PacketSocket, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, Pair, Station};
use wire::EtherType;

use super::{EXPERIMENT, MARKER, exchange, lab, marked, program};

/// All that can be told of a gateway's two interfaces, without what counts traffic.
pub(crate) fn settings(namespace: &Namespace) -> String {
    let mut text = String::new();
    for interface in [PLAIN, PROTECTED] {
        text += &namespace.ip(&["-d", "link", "show", interface]).unwrap().stdout;
        text += &namespace.run(&["ethtool", "-k", interface]).unwrap().stdout;
        let read = |key: &str| {
            let path = format!("/proc/sys/net/ipv6/conf/{interface}/{key}");
            namespace.enter(|| std::fs::read_to_string(&path)).unwrap().unwrap()
        };
        text += &read("disable_ipv6");
    }
    text
}

/// Waits until the settings are `before`: the kernel takes some things back a moment after a process has ended.
pub(crate) fn wait_until_restored(namespace: &Namespace, before: &str) {
    let end = Instant::now() + super::DEADLINE;
    while settings(namespace) != before {
        assert!(Instant::now() < end, "left behind:\n{}\ninstead of\n{before}", settings(namespace));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_stopped_gateway_leaves_nothing_behind() {
    for io in ["af_xdp", "af_packet"] {
        let topology = Topology::build(&Shape::default()).unwrap();
        let namespace = &topology.gateway_a.namespace;
        // Something to put back: the interface is down and has IPv6 on.
        namespace.ip(&["link", "set", PROTECTED, "down"]).unwrap();
        for interface in [PLAIN, PROTECTED] {
            namespace.sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0").unwrap();
        }
        let before = settings(namespace);
        let pair = Pair::start(program(), &topology, &Choice { io, ..Choice::default() }).unwrap();
        assert_ne!(settings(namespace), before, "the interfaces are prepared");
        let Pair { a, b, scratch } = pair;
        let run = scratch.path().join("run");
        assert!(run.join("a.sock").exists());
        a.stop().unwrap();
        b.stop().unwrap();
        wait_until_restored(namespace, &before);
        assert!(!run.join("a.sock").exists(), "the status socket");
        let left: Vec<_> = std::fs::read_dir(scratch.path().join("state-a"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with("leases") && name != "floors")
            .collect();
        assert!(left.is_empty(), "in the state directory: {left:?}");
    }
}

#[test]
fn what_a_killed_gateway_left_is_put_right_at_the_next_start() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let namespace = &topology.gateway_a.namespace;
    for interface in [PLAIN, PROTECTED] {
        namespace.sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0").unwrap();
    }
    let before = settings(namespace);
    let mut pair = Pair::start(program(), &topology, &Choice::default()).unwrap();
    pair.a.program().signal(Signal::SIGKILL).unwrap();
    while pair.a.program().is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_ne!(settings(namespace), before, "a kill leaves something, or this test shows nothing");
    let again = Station::start(program(), namespace, &pair.scratch, "a").unwrap();
    exchange(
        &topology.machine_a,
        &topology.machine_b,
        &[marked([0xff; 6], topology.machine_a.mac, EXPERIMENT, 90, 1)],
    );
    again.stop().unwrap();
    wait_until_restored(namespace, &before);
    pair.b.stop().unwrap();
}

#[test]
fn plaintext_never_leaves_while_gateways_come_and_go() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let (from, to) = (a.mac, b.mac);
    let sender = PacketSocket::open(&a.namespace, a.ifname).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut seed = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                sender.send(&marked(to, from, EXPERIMENT, 200, seed)).unwrap();
                seed += 1;
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let mut pair = Pair::start(program(), &topology, &Choice::default()).unwrap();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(200));
            pair.a.program().signal(Signal::SIGKILL).unwrap();
            while pair.a.program().is_running() {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(50));
            pair.a = Station::start(program(), &topology.gateway_a.namespace, &pair.scratch, "a").unwrap();
        }
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        pair.stop().unwrap();
    });
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(wire.frames.len() > 100, "only {} frames were sent", wire.frames.len());
    assert!(wire.all_ethertype(EtherType::MACSEC.0));
    assert_eq!(wire.find(MARKER), None);
    let mut pns = BTreeSet::new();
    for frame in &wire.frames {
        let pn = u32::from_be_bytes(frame.octets[16..20].try_into().unwrap());
        assert!(pns.insert(pn), "PN {pn} twice under one key");
    }
}

#[test]
fn a_gateway_whose_peer_is_gone_sends_what_it_should_and_delivers_nothing() {
    let (topology, pair) = lab(&Shape::default(), &Choice::default());
    let Pair { a, b, scratch: _scratch } = pair;
    b.stop().unwrap();
    let (from, to) = (&topology.machine_a, &topology.machine_b);
    let machine = Capture::start(&to.namespace, to.ifname).unwrap();
    let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    for seed in 0..50 {
        sender.send(&marked(to.mac, from.mac, EXPERIMENT, 200, seed)).unwrap();
    }
    wire.wait_for(50, super::DEADLINE, |frame| frame.ethertype() == Some(EtherType::MACSEC.0)).unwrap();
    assert_eq!(
        machine.stop().unwrap().complete().unwrap().frames.len(),
        0,
        "a box without gateway is no wire"
    );
    a.stop().unwrap();
}
