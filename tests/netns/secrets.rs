//! Keys that a running gateway does not use any more: its memory holds none of them.

use std::fs;
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::Shape;
use perf::demo::pair::{Choice, LinkKeys, Pair};
use suite::CipherSuite;
use testkit::memory::Needle;

use super::kernel_link::{redirecting, until_path};
use super::reload::reloaded;
use super::{DEADLINE, EXPERIMENT, exchange, marked, program};

/// Both gateways get other keys in the same files; root reads the memory of each, as a debugger would. `place`: where frames go.
fn retired_keys_are_nowhere(choice: &Choice, place: &str) {
    let Choice { suite, keys, .. } = *choice;
    let topology = redirecting(&Shape { static_neighbours: true, protected_mtu: 1536, ..Shape::default() });
    let mut pair = Pair::start(program(), &topology, choice).unwrap();
    let processes = [pair.a.program().id(), pair.b.program().id()].map(|id| id.to_string());
    let until_it_goes = || {
        if keys == LinkKeys::Agreed {
            pair.wait_until_secured().unwrap();
        }
        [&pair.a, &pair.b].into_iter().for_each(|station| until_path(station, place));
    };
    until_it_goes();
    let (machine_a, machine_b) = (&topology.machine_a, &topology.machine_b);
    let talk = |seed| {
        exchange(machine_a, machine_b, &[marked(machine_b.mac, machine_a.mac, EXPERIMENT, 90, seed)]);
        exchange(machine_b, machine_a, &[marked(machine_a.mac, machine_b.mac, EXPERIMENT, 90, seed + 1)]);
    };
    let names = match keys {
        LinkKeys::Static => &["a.key", "b.key"][..],
        LinkKeys::Agreed => &["press.cak"],
    };
    let files: Vec<_> = names.iter().map(|name| pair.scratch.path().join(name)).collect();
    let needles = || -> Vec<Needle> {
        files.iter().map(|file| Needle::of_key_file(file, suite.key_octets()).unwrap()).collect()
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
        match keys {
            LinkKeys::Static => drop(keygen::static_key(length, file).unwrap()),
            LinkKeys::Agreed => drop(keygen::cak(length, None, file).unwrap()),
        }
    }
    for name in ["a", "b"] {
        reloaded(&pair.scratch, name);
    }
    until_it_goes();
    talk(3);
    let new = needles();
    for (number, process) in processes.iter().enumerate() {
        assert!(!new[number % new.len()].places(process).unwrap().is_empty());
        let digits: Vec<_> = old.iter().chain(&new).map(Needle::digits).collect();
        for needle in old.iter().chain(&digits) {
            // Keys that a worker handed back are dropped by control soon after.
            let end = Instant::now() + DEADLINE;
            loop {
                let places = needle.places(process).unwrap();
                if places.is_empty() {
                    break;
                }
                assert!(Instant::now() < end, "{keys:?} {suite}, gateway {number}: {places:?}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
    pair.stop().unwrap();
}

#[test]
fn a_key_that_was_replaced_is_nowhere_in_memory() {
    // Ciphers of another library each, with what is made ahead.
    let user_space = |suite| Choice { suite, ..Choice::default() };
    let antedated = Choice { gateway: "antedate = \"on\"", ..user_space(CipherSuite::GcmAes128) };
    retired_keys_are_nowhere(&antedated, "user space");
    retired_keys_are_nowhere(&user_space(CipherSuite::Aegis256), "user space");
}

#[test]
fn a_key_that_was_replaced_in_the_kernel_is_nowhere_in_memory() {
    let choice = Choice { suite: CipherSuite::ChaCha20Poly1305, io: "kernel", ..Choice::default() };
    retired_keys_are_nowhere(&choice, "kernel");
}

#[test]
fn a_cak_that_was_replaced_is_nowhere_in_memory() {
    for (suite, place) in [(CipherSuite::GcmAes128, "user space"), (CipherSuite::ChaCha20Poly1305, "kernel")]
    {
        retired_keys_are_nowhere(&Choice { suite, keys: LinkKeys::Agreed, ..Choice::default() }, place);
    }
}
