//! `init`: boxes set up by it alone talk.

use std::path::Path;

use lab::program::Output;
use lab::topology::{PLAIN, PROTECTED};
use lab::traffic::{self, Ip};
use lab::{Namespace, Topology};
use perf::demo::pair::{Scratch, Station};

use super::mka::{NARROW, all, mka, secured_with, stop};
use super::{DEADLINE, program};

/// `frameward init link` in a gateway's namespace, with its files in `scratch`.
fn init(namespace: &Namespace, scratch: &Scratch, further: &[&str]) -> Output {
    let (directory, state) = (scratch.path().display().to_string(), scratch.path().join("state"));
    let place = ["--dir", &directory, "--state", state.to_str().unwrap(), "--user", "root"];
    let command = [&[program().to_str().unwrap(), "init", "link"], further, &place].concat();
    namespace.spawn(&command).unwrap().wait(DEADLINE).unwrap()
}

fn carry(from: &Path, to: &Path) {
    // With its mode.
    std::fs::copy(from, to).unwrap();
}

#[test]
fn two_boxes_that_init_alone_has_set_up_ping() {
    let topology = Topology::build(&NARROW).unwrap();
    let [here, there] = [&topology.gateway_a.namespace, &topology.gateway_b.namespace];
    let [a, b] = [0, 1].map(|_| Scratch::new().unwrap());
    // Nobody is there to be asked: one line names what is missing.
    let output = init(here, &a, &["--plain", PLAIN]);
    assert_eq!(output.status.code(), Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("--protected IF missing; this box has"), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);

    let ports = ["--plain", PLAIN, "--protected", PROTECTED];
    // A port of the box's own life, which run would refuse: in the words of check, and nothing is kept.
    here.ip(&["addr", "add", "192.0.2.9/24", "dev", PLAIN]).unwrap();
    let output = init(here, &a, &[&ports[..], &["--name", "press"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("no file was kept"), "{}", output.stderr);
    assert!(output.stderr.contains("carries the address 192.0.2.9 of this box"), "{}", output.stderr);
    assert!(!a.path().join("press.cak").exists() && !a.path().join("press.toml").exists());
    here.ip(&["addr", "flush", "dev", PLAIN]).unwrap();
    let output = init(here, &a, &[&ports[..], &["--name", "press"]].concat());
    assert!(output.status.success(), "{}", output.stderr);
    let bundle = b.path().join("carried.bundle");
    carry(&a.path().join("press.bundle"), &bundle);
    let output = init(there, &b, &[&ports[..], &["--join", bundle.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", output.stderr);
    // A second time nothing is overwritten.
    let output = init(here, &a, &[&ports[..], &["--name", "press"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("press.toml already exists"), "{}", output.stderr);

    let stations = [(here, &a), (there, &b)]
        .map(|(namespace, scratch)| Station::start(program(), namespace, scratch, "press").unwrap());
    all([&stations[0], &stations[1]], "it is secured", secured_with(1));
    // The CAK has 256 bits, and nobody asked for a suite that is none of the standard's.
    let report = stations[0].report().unwrap();
    assert_eq!(mka(&report).sak().unwrap().suite, "gcm-aes-256");
    traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 3, 1472).unwrap();
    stop(stations);
}
