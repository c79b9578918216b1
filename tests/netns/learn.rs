//! `frameward cell learn`: boxes that only bridge hear machines at work, and the cell that is proposed protects them.

use lab::cyclic::{Exchange, Relation};
use lab::program::Output;
use lab::topology::{LEFT, PLAIN, PROTECTED};
use lab::{Capture, Namespace, Shape, Topology};
use perf::demo::cells::{self, secured};
use perf::demo::pair::{Pair, Scratch, Station};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;
use wire::EtherType;
use wire::fieldbus::ETHERTYPE;

use super::fieldbus::cell;
use super::reload::reloaded;
use super::{DEADLINE, program};

/// Long enough for a machine that is busy with other tests.
const CYCLE: Duration = Duration::from_millis(4);
const BRIDGE: &str = "br0";

/// A box before there is a gateway: a bridge between both sides.
fn bridge(namespace: &Namespace) {
    namespace.ip(&["link", "add", BRIDGE, "type", "bridge"]).unwrap();
    for port in [PLAIN, PROTECTED] {
        namespace.ip(&["link", "set", port, "master", BRIDGE]).unwrap();
    }
    namespace.ip(&["link", "set", BRIDGE, "up"]).unwrap();
}

fn frameward(namespace: &Namespace, arguments: &[&str]) -> Output {
    let command = [&[program().to_str().unwrap()], arguments].concat();
    namespace.spawn(&command).unwrap().wait(DEADLINE).unwrap()
}

/// A PLC and two devices.
fn relations(topology: &Topology) -> Vec<Relation> {
    (1..=2).map(|device| cells::relation(topology, device, CYCLE)).collect()
}

#[test]
fn what_was_learned_at_a_bridge_protects_the_machines() {
    let topology = Topology::build(&Shape { protected_mtu: 1600, ..Shape::default() }).unwrap();
    let [here, there] = [&topology.gateway_a.namespace, &topology.gateway_b.namespace];
    bridge(here);
    bridge(there);
    let scratch = Scratch::new().unwrap();
    let directory = scratch.path().to_str().unwrap();
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &relations(&topology)).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    let ports = ["--plain", PLAIN, "--protected", PROTECTED];
    let learn =
        [&["cell", "learn", BRIDGE, "--seconds", "3", "--name", "cell-4", "--dir", directory], &ports[..]]
            .concat();
    let learned = frameward(here, &learn);
    assert!(learned.status.success(), "{}", learned.stderr);
    assert!(learned.stdout.contains("# Cell cell-4: 2 relations, learned in "), "{}", learned.stdout);
    assert_eq!(learned.stdout.matches("cycle     = \"4ms\"").count(), 4, "{}", learned.stdout);
    // A part of a bridge is not listened at: only one direction would come.
    let refused = frameward(here, &["cell", "learn", PLAIN, "--seconds", "1"]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("bridge br0"), "{}", refused.stderr);
    // Nothing is written over.
    let again = frameward(here, &learn);
    assert!(again.stderr.contains("cell-4-a.toml already exists"), "{}", again.stderr);
    // Nor is one box's file made beside an old one of the other.
    scratch.write("half-b.toml", "").unwrap();
    let half: Vec<&str> = learn.iter().map(|word| if *word == "cell-4" { "half" } else { *word }).collect();
    let refused = frameward(here, &half);
    assert!(refused.stderr.contains("half-b.toml already exists"), "{}", refused.stderr);
    assert!(!scratch.path().join("half-a.toml").exists());
    // The gateway's user can read what root has written.
    let mut owned: Vec<&str> =
        learn.iter().map(|word| if *word == "cell-4" { "owned" } else { *word }).collect();
    owned.extend(["--user", "64917"]);
    let learned_for_user = frameward(here, &owned);
    assert!(learned_for_user.status.success(), "{}", learned_for_user.stderr);
    for name in ["owned-a.toml", "owned-b.toml"] {
        assert_eq!(std::fs::metadata(scratch.path().join(name)).unwrap().uid(), 64917, "{name}");
    }
    exchange.stop().unwrap();

    for namespace in [here, there] {
        namespace.ip(&["link", "del", BRIDGE]).unwrap();
    }
    for key in ["fieldbus", "cak"] {
        let file = scratch.path().join(if key == "cak" { "cell-4.cak" } else { "cell-4.key" });
        let made = frameward(here, &["keygen", key, "--user", "root", "--out", file.to_str().unwrap()]);
        assert!(made.status.success(), "{}", made.stderr);
    }
    let mut stations = [here, there].into_iter().zip(["cell-4-a", "cell-4-b"]).map(|(namespace, name)| {
        let file = scratch.path().join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(learned.stdout.contains(&text), "what is written is what is printed");
        let checked = frameward(namespace, &["check", file.to_str().unwrap()]);
        assert!(checked.status.success(), "{}", checked.stderr);
        assert!(checked.stdout.contains("SHADOW     2 of 2 relations"), "{}", checked.stdout);
        let state = scratch.path().join(format!("state-{name}"));
        let text = text.replace("[gateway]\n", &format!("[gateway]\nstate = \"{}\"\n", state.display()));
        std::fs::write(&file, text).unwrap();
        Station::start(program(), namespace, &scratch, name).unwrap()
    });
    let (a, b) = (stations.next().unwrap(), stations.next().unwrap());
    drop(stations);
    let pair = Pair { a, b, scratch };
    secured(&pair).unwrap();
    protects(&topology, &pair);
}

/// The cell leaves shadow mode as the book has it, and then no cyclic frame is on the network in clear.
fn protects(topology: &Topology, pair: &Pair) {
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &relations(topology)).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    for name in ["cell-4-a", "cell-4-b"] {
        let file = pair.scratch.path().join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("mode  = \"shadow\"", "mode  = \"protect\"")).unwrap();
        let said = reloaded(&pair.scratch, name);
        assert!(said.contains("relations: 2 protected from now on"), "{said}");
        exchange.wait_for(20, DEADLINE).unwrap();
    }
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    exchange.wait_for(50, DEADLINE).unwrap();
    let wire = wire.stop().unwrap().complete().unwrap();
    assert_eq!(wire.of_ethertype(EtherType::PROFINET.0).count(), 0, "a cyclic frame is in clear");
    assert!(wire.of_ethertype(ETHERTYPE.0).count() >= 100);
    for heard in exchange.stop().unwrap().iter().flatten() {
        assert!(
            heard.is_complete() && heard.sent >= 90,
            "{} {} {}",
            heard.sent,
            heard.received,
            heard.changed
        );
    }
    for station in [&pair.a, &pair.b] {
        let cell = cell(station);
        assert_eq!(cell.relations.len(), 2);
        for relation in &cell.relations {
            let counted = [relation.transmit.value("OutPktsProtected"), relation.receive.value("InPktsOK")];
            assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
        }
    }
}
