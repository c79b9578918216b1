//! Several links in one process: each has its own machines, keys and memory, and forwards as if it were alone.
//!
//! ```text
//!  machine A1 ── plain  prot  ── middle 1 ── gateway B1 ── machine B1
//!               [one process]
//!  machine A2 ── plain2 prot2 ── middle 2 ── gateway B2 ── machine B2
//! ```

use lab::topology::{PLAIN, PROTECTED};
use lab::{Shape, Topology};
use perf::demo::pair::{Choice, Scratch, Station, configure};

use super::{EXPERIMENT, counter, exchange, marked, program};

#[test]
fn two_links_in_one_process() {
    let [one, two] = [(); 2].map(|()| Topology::build(&Shape::default()).unwrap());
    let [first, second] = [(); 2].map(|()| Scratch::new().unwrap());
    let shared = &one.gateway_a.namespace;
    for (interface, name) in [(PLAIN, "plain2"), (PROTECTED, "prot2")] {
        let namespace = &two.gateway_a.namespace;
        namespace.ip(&["link", "set", interface, "down"]).unwrap();
        namespace.ip(&["link", "set", interface, "name", name]).unwrap();
        namespace.ip(&["link", "set", name, "netns", shared.name()]).unwrap();
        shared.ip(&["link", "set", name, "up"]).unwrap();
    }
    for scratch in [&first, &second] {
        configure(scratch, &Choice::default()).unwrap();
    }
    // The second pair's link joins the first gateway's configuration.
    let path = first.path().join("a.toml");
    let own = std::fs::read_to_string(&path).unwrap();
    let other = std::fs::read_to_string(second.path().join("a.toml")).unwrap();
    let link = other[other.find("[[link]]").unwrap()..]
        .replace("\"press\"", "\"lathe\"")
        .replace("\"plain\"", "\"plain2\"")
        .replace("\"prot\"", "\"prot2\"")
        .replace("key_file = \"", &format!("key_file = \"{}/", second.path().display()));
    std::fs::write(&path, own + &link).unwrap();

    let both = Station::start(program(), shared, &first, "a").unwrap();
    let b1 = Station::start(program(), &one.gateway_b.namespace, &first, "b").unwrap();
    let b2 = Station::start(program(), &two.gateway_b.namespace, &second, "b").unwrap();
    for (number, topology) in [&one, &two].into_iter().enumerate() {
        let (a, b) = (&topology.machine_a, &topology.machine_b);
        let frames: Vec<_> =
            (0..200 + number).map(|seed| marked(b.mac, a.mac, EXPERIMENT, 7 * seed, seed as u64)).collect();
        exchange(a, b, &frames);
        exchange(b, a, &[marked(a.mac, b.mac, EXPERIMENT, 1500, 1)]);
    }
    let report = both.report().unwrap();
    let sent: Vec<_> = report
        .links
        .iter()
        .map(|link| (link.name.as_str(), counter(&link.secy.transmit.counters, "OutPktsEncrypted")))
        .collect();
    assert_eq!(sent, [("press", 200), ("lathe", 201)]);
    for station in [both, b1, b2] {
        station.stop().unwrap();
    }
}
