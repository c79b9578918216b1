//! A virtual machine that goes back to a live snapshot, as its kernel says it (the driver `vmgenid`): the gateway ends.
//!
//! Here the test says it, through the kernel: uevents that the owner of a network namespace sends are broadcast in it as
//! if they were the kernel's own.

use std::time::Instant;

use lab::{Namespace, Shape};
use perf::demo::pair::{Choice, Station};

use super::mka::{Group, LINE, ki};
use super::start::{refused, run_in};
use super::{DEADLINE, lab, program};

const UEVENT: &str = "\
import socket, struct, sys
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
text = b'\\0'.join(sys.argv[1].encode().split(b' ')) + b'\\0'
s.send(struct.pack('=IHHII', 16 + len(text), 16, 1, 0, 0) + text)
";

fn uevent(namespace: &Namespace, text: &str) {
    let said = namespace.spawn(&["python3", "-c", UEVENT, text]).unwrap().wait(DEADLINE).unwrap();
    assert!(said.status.success(), "{}", said.stderr);
}

const DEVICE: &str = "change@/devices/platform/VMGENCTR:00 ACTION=change SUBSYSTEM=platform";

fn restore(namespace: &Namespace) {
    uevent(namespace, &format!("{DEVICE} NEW_VMGENID=1"));
}

/// Waits until a gateway has ended by itself; what it said last.
fn last_words(mut station: Station) -> String {
    let end = Instant::now() + DEADLINE;
    while station.program().is_running() {
        assert!(Instant::now() < end, "a gateway goes on in a machine that was restored");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let stderr = station.program().stderr();
    stderr.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn static_keys_are_not_used_again_in_a_machine_that_was_restored() {
    let (topology, pair) = lab(&Shape::default(), &Choice::default());
    let home = &topology.gateway_a.namespace;
    // Other news, of this device and of others, are none.
    uevent(home, DEVICE);
    uevent(home, "add@/devices/virtual/net/veth0 ACTION=add INTERFACE=veth0");
    std::thread::sleep(std::time::Duration::from_millis(300));
    pair.a.report().unwrap();
    restore(home);
    let perf::demo::pair::Pair { a, b, scratch } = pair;
    let said = last_words(a);
    assert!(said.contains("earlier state") && said.contains("Change all static keys"), "{said}");
    refused(&run_in(home, &scratch, "a"), 2, &["leases.restored", "change all static keys"]);
    // The cure that it names.
    for file in std::fs::read_dir(scratch.path().join("state-a")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    std::fs::remove_file(scratch.path().join("a.key")).unwrap();
    frameward::keygen::static_key(frameward::keygen::KeyLength::Bits128, &scratch.path().join("a.key"))
        .unwrap();
    // The other one runs meanwhile: both have one folder of keys, whose marks would else be of this box.
    Station::start(program(), home, &scratch, "a").unwrap().stop().unwrap();
    // It is in another machine. Whether that would tell is said at the start.
    b.report().unwrap();
    let said = b.stop().unwrap();
    match netdev::vm_generation::not_told() {
        Some(why) => assert!(said.contains(&format!("returns to a snapshot ({why})")), "{said}"),
        None => assert!(!said.contains("returns to a snapshot"), "{said}"),
    }
}

#[test]
fn with_mka_a_machine_that_was_restored_agrees_on_new_keys() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let [a, b] = group.pair_with("", LINE);
    let (before, home) = (ki(&a), &group.topology.gateway_a.namespace);
    restore(home);
    let said = last_words(a);
    assert!(said.contains("earlier state") && !said.contains("static"), "{said}");
    // As its unit does.
    let a = Station::start(program(), home, &group.scratch, "a").unwrap();
    group.secured(&[&a, &b]);
    assert!(ki(&a) != before && ki(&a) == ki(&b));
    group.ping();
    a.stop().unwrap();
    b.stop().unwrap();
}
