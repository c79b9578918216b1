//! Interfaces that vanish, come back or change under a running gateway: the link goes on by itself, with its SAs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::topology::{LEFT, Mac, PLAIN, PROTECTED, RIGHT};
use lab::{Capture, Machine, PacketSocket, Shape, Topology};
use perf::demo::pair::{Choice, Pair, Station};
use report::{GatewayReport, LinkReport};

use super::reload::reloaded;
use super::upgrade::until;
use super::{DEADLINE, EXPERIMENT, counter, exchange, lab, marked, wait_for};

/// Waits until the link of a gateway does or does not wait, and returns its report.
pub(crate) fn wait_until(gateway: &Station, waits: bool) -> LinkReport {
    let end = Instant::now() + DEADLINE;
    loop {
        let link = gateway.report().unwrap().links.remove(0);
        if link.waiting.is_some() == waits {
            return link;
        }
        assert!(Instant::now() < end, "{:?}", link.waiting);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a gateway has seen that one of its interfaces has this MTU now, and has opened its ports again.
pub(crate) fn until_reopened(gateway: &Station, interface: &str, mtu: &str) {
    let end = Instant::now() + DEADLINE;
    loop {
        let link = gateway.report().unwrap().links.remove(0);
        let port = if interface == PLAIN { &link.plain } else { &link.protected };
        if link.waiting.is_none() && port.mtu.to_string() == mtu {
            return;
        }
        assert!(Instant::now() < end, "{interface} {mtu}: {link:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sees that a process that waits for something uses less than half of a CPU meanwhile.
pub(crate) fn waits_without_spinning(process: u32) {
    let (begin, before) = (Instant::now(), cpu_ticks(process));
    std::thread::sleep(Duration::from_millis(500));
    let used = cpu_ticks(process) - before;
    let passed = begin.elapsed().as_millis() / 10;
    assert!(u128::from(used) * 2 < passed, "{used} ticks of {passed} while it waits");
}

/// Ticks of 10 ms of CPU that a process has used.
fn cpu_ticks(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<_> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Protected frames from one machine, as captured.
fn protected_from(frames: &[lab::Frame], from: Mac) -> impl Iterator<Item = &lab::Frame> {
    frames.iter().filter(move |frame| frame.octets[6..12] == from && frame.octets[12..14] == [0x88, 0xe5])
}

/// Sends from one machine to the other while `work` is done.
fn while_one_sends(from: &Machine, to: &Machine, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
            for seed in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                sender.send(&marked(to.mac, from.mac, EXPERIMENT, 100, seed)).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Waits until nothing has come to a machine for half a second.
fn until_quiet(machine: &Machine) {
    let mut receiver = PacketSocket::open(&machine.namespace, machine.ifname).unwrap();
    let (begin, mut last) = (Instant::now(), Instant::now());
    while last.elapsed() < Duration::from_millis(500) {
        assert!(begin.elapsed() < DEADLINE, "frames go on coming");
        if receiver.receive().unwrap().is_some() {
            last = Instant::now();
        }
    }
}

pub(crate) fn both_ways(topology: &Topology, seed: u64) {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 200, seed)]);
    exchange(b, a, &[marked(a.mac, b.mac, EXPERIMENT, 300, seed)]);
}

fn refused_as_old(report: &GatewayReport) -> u64 {
    let counters = &report.links[0].secy.receive[0].counters;
    counter(counters, "InPktsDuplicate") + counter(counters, "InPktsLate")
}

/// Deletes an interface of gateway A while the other side's machine sends, and makes it again.
fn vanishes(io: &'static str, interface: &str) {
    let shape = Shape::default();
    // The other side stays up, so that its machine can send.
    let choice = Choice { io, link: "link_loss = \"off\"", ..Choice::default() };
    let (topology, pair) = lab(&shape, &choice);
    let Pair { mut a, b, scratch } = pair;
    let process = a.program().id();
    let (machine_a, machine_b) = (&topology.machine_a, &topology.machine_b);
    // The port of the wire that stays.
    let wire = Capture::start(&topology.middle, RIGHT).unwrap();
    both_ways(&topology, 1);
    // The capture may be behind the wire.
    let first = || protected_from(&wire.since(0), machine_b.mac).next().map(|frame| frame.octets.clone());
    until("a frame of machine B is captured", || first().is_some());
    let recorded = first().unwrap();
    let (from, to) = if interface == PROTECTED { (machine_a, machine_b) } else { (machine_b, machine_a) };
    while_one_sends(from, to, || {
        topology.gateway_a.namespace.ip(&["link", "del", interface]).unwrap();
        let link = wait_until(&a, true);
        let why = link.waiting.unwrap().why;
        assert!(why.contains(&format!("interface {interface} is missing")), "{why}");
        assert!(link.concerns.iter().any(|concern| concern.grave && concern.text.contains(&why)));
        waits_without_spinning(process);
        // Another link's keys could be changed meanwhile.
        assert!(reloaded(&scratch, "a").contains(": reloaded"));
        match interface {
            PROTECTED => topology.remake_protected(&shape).unwrap(),
            _ => topology.remake_plain(&shape).unwrap(),
        }
        wait_until(&a, false);
    });
    // Frames still under way would be taken for those that come now.
    until_quiet(to);
    both_ways(&topology, 2);
    assert_eq!(refused_as_old(&a.report().unwrap()), 0);
    PacketSocket::open(&topology.middle, LEFT).unwrap().send(&recorded).unwrap();
    wait_for(|| a.report().unwrap(), 1, refused_as_old);
    let frames = wire.stop().unwrap().complete().unwrap().frames;
    for machine in [machine_a, machine_b] {
        let pn = |frame: &lab::Frame| u32::from_be_bytes(frame.octets[16..20].try_into().unwrap());
        let pns: Vec<_> = protected_from(&frames, machine.mac).map(pn).collect();
        assert!(pns.len() >= 2 && pns.is_sorted_by(|one, next| one < next), "a PN twice: {pns:?}");
    }
    let said = a.stop().unwrap();
    for words in [format!("no frame passes: interface {interface} is missing"), "frames pass again".into()] {
        assert_eq!(said.matches(&words).count(), 1, "{words}: {said}");
    }
    b.stop().unwrap();
}

#[test]
fn a_protected_interface_comes_back_on_af_xdp() {
    vanishes("af_xdp", PROTECTED);
}

#[test]
fn a_protected_interface_comes_back_on_af_packet() {
    vanishes("af_packet", PROTECTED);
}

#[test]
fn a_plain_interface_comes_back_on_af_xdp() {
    vanishes("af_xdp", PLAIN);
}

#[test]
fn another_mtu_is_taken_over_and_one_too_small_is_waited_out() {
    let (topology, Pair { a, b, scratch: _scratch }) = lab(&Shape::default(), &Choice::default());
    let mtu = |octets: &str| {
        topology.gateway_a.namespace.ip(&["link", "set", PROTECTED, "mtu", octets]).unwrap();
    };
    mtu("1600");
    let report = || a.report().unwrap();
    wait_for(report, 1600, |report| u64::from(report.links[0].protected.mtu));
    both_ways(&topology, 1);
    mtu("1500");
    let why = wait_until(&a, true).waiting.unwrap().why;
    assert!(why.contains("MTU"), "{why}");
    mtu("1532");
    assert_eq!(wait_until(&a, false).protected.mtu, 1532);
    both_ways(&topology, 2);
    a.stop().unwrap();
    b.stop().unwrap();
}
