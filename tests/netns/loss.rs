//! Link-loss forwarding: what a machine sees when the network behind its gateway is cut.

use std::time::{Duration, Instant};

use lab::topology::{LEFT, PLAIN, PROTECTED};
use lab::{Namespace, Shape};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, Pair, Station};
use report::LinkReport;

use super::vanish::{both_ways, wait_until, waits_without_spinning};
use super::{DEADLINE, lab, program};

fn shows(namespace: &Namespace, interface: &str, word: &str) -> bool {
    namespace.ip(&["-o", "link", "show", interface]).unwrap().stdout.contains(word)
}

/// Waits until an interface has a carrier, or has none.
pub(crate) fn wait_for_carrier(namespace: &Namespace, interface: &str, carrier: bool) {
    let end = Instant::now() + DEADLINE;
    while shows(namespace, interface, "LOWER_UP") != carrier {
        assert!(Instant::now() < end, "{interface}: carrier is not {carrier}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a gateway says that it holds the machine's side down. Before, it may have to ask the disk.
fn held(gateway: &Station) -> (LinkReport, String) {
    let end = Instant::now() + DEADLINE;
    loop {
        let link = wait_until(gateway, true);
        let why = link.waiting.as_ref().unwrap().why.clone();
        if why.contains(&format!("{PROTECTED} has no carrier, so {PLAIN} is held down")) {
            return (link, why);
        }
        assert!(Instant::now() < end, "{why}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn set(namespace: &Namespace, interface: &str, state: &str) {
    namespace.ip(&["link", "set", interface, state]).unwrap();
}

fn forwards(io: &'static str) {
    let (topology, Pair { mut a, b, scratch }) = lab(&Shape::default(), &Choice { io, ..Choice::default() });
    let (machine, gateway) = (&topology.machine_a, &topology.gateway_a.namespace);
    both_ways(&topology, 1);
    for round in 0..2 {
        set(&topology.middle, LEFT, "down");
        wait_for_carrier(&machine.namespace, machine.ifname, false);
        let (link, why) = held(&a);
        assert!(link.concerns.iter().any(|concern| concern.grave && concern.text.contains(&why)));
        waits_without_spinning(a.program().id());
        if round == 0 {
            set(&topology.middle, LEFT, "up");
            wait_for_carrier(&machine.namespace, machine.ifname, true);
            wait_until(&a, false);
            both_ways(&topology, 2);
        }
    }
    // Killed while the plain side is held down: the next start brings it up, and a stop leaves it up.
    a.program().signal(Signal::SIGKILL).unwrap();
    while a.program().is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!shows(gateway, PLAIN, ",UP"), "or this shows nothing");
    let begin = Instant::now();
    let again = Station::start(program(), gateway, &scratch, "a").unwrap();
    assert!(shows(gateway, PLAIN, ",UP"));
    // A side without a carrier from the start has six seconds to find its neighbour.
    held(&again);
    assert!(begin.elapsed() > Duration::from_secs(5), "it was given no time");
    assert!(!shows(gateway, PLAIN, ",UP"));
    let said = again.stop().unwrap();
    assert_eq!(said.matches("no frame passes").count(), 1, "{said}");
    assert!(shows(gateway, PLAIN, ",UP"));
    b.stop().unwrap();
}

#[test]
fn a_cut_network_takes_the_machine_down_and_back_on_af_xdp() {
    forwards("af_xdp");
}

#[test]
fn a_cut_network_takes_the_machine_down_and_back_on_af_packet() {
    forwards("af_packet");
}

#[test]
fn an_interface_that_vanishes_is_a_lost_carrier() {
    let shape = Shape::default();
    let (topology, Pair { a, b, scratch: _scratch }) = lab(&shape, &Choice::default());
    let machine = &topology.machine_a;
    topology.gateway_a.namespace.ip(&["link", "del", PROTECTED]).unwrap();
    wait_for_carrier(&machine.namespace, machine.ifname, false);
    topology.remake_protected(&shape).unwrap();
    wait_for_carrier(&machine.namespace, machine.ifname, true);
    wait_until(&a, false);
    both_ways(&topology, 1);
    let said = a.stop().unwrap();
    assert_eq!(said.matches("frames pass again").count(), 1, "{said}");
    assert!(said.matches("no frame passes").count() <= 3, "{said}");
    b.stop().unwrap();
}

#[test]
fn both_sides_are_forwarded_if_configured_and_none_if_not() {
    let choice = Choice { link: "link_loss = \"both\"", ..Choice::default() };
    let (topology, Pair { a, b, scratch }) = lab(&Shape::default(), &choice);
    let machine = &topology.machine_a;
    both_ways(&topology, 1);
    set(&machine.namespace, machine.ifname, "down");
    wait_for_carrier(&topology.middle, LEFT, false);
    set(&machine.namespace, machine.ifname, "up");
    wait_for_carrier(&topology.middle, LEFT, true);
    wait_until(&a, false);
    // Switched off while it runs.
    let config = scratch.path().join("a.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("link_loss = \"both\"", "link_loss = \"off\"")).unwrap();
    super::reload::reloaded(&scratch, "a");
    set(&topology.middle, LEFT, "down");
    wait_for_carrier(&topology.gateway_a.namespace, PROTECTED, false);
    std::thread::sleep(Duration::from_millis(500));
    assert!(shows(&machine.namespace, machine.ifname, "LOWER_UP"));
    assert!(a.report().unwrap().links[0].waiting.is_none());
    a.stop().unwrap();
    b.stop().unwrap();
}
