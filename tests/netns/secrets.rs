//! Keys that a running gateway does not use any more: its memory holds none of them.

use std::fs;
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::Shape;
use perf::demo::pair::{Choice, Pair};
use suite::CipherSuite;
use testkit::memory::Needle;

use super::reload::reloaded;
use super::{DEADLINE, EXPERIMENT, exchange, lab, marked};

/// Both gateways get other keys in the same files; root reads the memory of each, as a debugger would.
fn retired_keys_are_nowhere(suite: CipherSuite, gateway: &'static str) {
    let (topology, Pair { mut a, mut b, scratch }) =
        lab(&Shape::default(), &Choice { suite, gateway, ..Choice::default() });
    let (machine_a, machine_b) = (&topology.machine_a, &topology.machine_b);
    let talk = |seed| {
        exchange(machine_a, machine_b, &[marked(machine_b.mac, machine_a.mac, EXPERIMENT, 90, seed)]);
        exchange(machine_b, machine_a, &[marked(machine_a.mac, machine_b.mac, EXPERIMENT, 90, seed + 1)]);
    };
    let processes = [a.program().id(), b.program().id()].map(|id| id.to_string());
    let files = ["a.key", "b.key"].map(|name| scratch.path().join(name));
    let needles = || {
        let of = |file| Needle::of_key_file(file, suite.key_octets()).unwrap();
        files.each_ref().map(|file| of(file))
    };
    talk(1);
    let old = needles();
    for (needle, process) in old.iter().flat_map(|needle| processes.each_ref().map(|one| (needle, one))) {
        assert!(
            !needle.places(process).unwrap().is_empty(),
            "a key in use is not found, so nothing would be"
        );
    }
    for file in &files {
        fs::remove_file(file).unwrap();
        let length = if suite.key_octets() == 16 { KeyLength::Bits128 } else { KeyLength::Bits256 };
        keygen::static_key(length, file).unwrap();
    }
    for name in ["a", "b"] {
        reloaded(&scratch, name);
    }
    talk(3);
    let new = needles();
    for (number, process) in processes.iter().enumerate() {
        assert!(!new[number].places(process).unwrap().is_empty());
        for needle in
            [&old[0], &old[1], &old[0].digits(), &old[1].digits(), &new[0].digits(), &new[1].digits()]
        {
            // Keys that a worker handed back are dropped by control soon after.
            let end = Instant::now() + DEADLINE;
            loop {
                let places = needle.places(process).unwrap();
                if places.is_empty() {
                    break;
                }
                assert!(Instant::now() < end, "{suite}, gateway {number}: {places:?}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
    a.stop().unwrap();
    b.stop().unwrap();
}

#[test]
fn a_key_that_was_replaced_is_nowhere_in_memory() {
    // Ciphers of another library each, with what is made ahead.
    retired_keys_are_nowhere(CipherSuite::GcmAes128, "antedate = \"on\"");
    retired_keys_are_nowhere(CipherSuite::Aegis256, "");
}
