//! `frameward doctor`, the real program on both boxes, over networks that do what networks do: each thing is named,
//! with figures, and machines and interfaces notice nothing.

use frameward::keygen::{self, KeyLength};
use lab::program::Output;
use lab::topology::{LEFT, PLAIN, PROTECTED, RIGHT};
use lab::{Capture, Impairments, Namespace, Program, Relay, Shape, Topology};
use perf::demo::pair::{Choice, Scratch, configure};
use serde_json::Value;
use testkit::frames;
use wire::{EtherType, MacAddr};

use super::{DEADLINE, EXPERIMENT, PacketSocket, exchange, lab, marked, program};

/// Two boxes that are configured alike, and neither runs.
struct Clinic {
    topology: Topology,
    scratch: Scratch,
}

impl Clinic {
    fn open(shape: &Shape, link: &'static str) -> Self {
        let topology = Topology::build(shape).unwrap();
        let scratch = Scratch::new().unwrap();
        configure(&scratch, &Choice { link, ..Choice::default() }).unwrap();
        Self { topology, scratch }
    }

    fn start(&self, name: &str, more: &[&str]) -> Program {
        let namespace = match name {
            "a" => &self.topology.gateway_a.namespace,
            _ => &self.topology.gateway_b.namespace,
        };
        start(namespace, &self.scratch, name, more)
    }

    /// Both at once; the second starts when the first waits.
    fn both(&self, more: &[&str]) -> [Seen; 2] {
        let mut a = self.start("a", more);
        a.wait_for_line("waiting for the other box", DEADLINE).unwrap();
        let b = self.start("b", more);
        [a, b].map(|doctor| Seen::of(doctor.wait(3 * DEADLINE).unwrap()))
    }
}

pub(super) fn start(namespace: &Namespace, scratch: &Scratch, name: &str, more: &[&str]) -> Program {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let config = scratch.path().join(format!("{name}.toml")).display().to_string();
    let mut command = vec!["env", &variable, program().to_str().unwrap(), "doctor", "--json"];
    command.extend(more);
    command.push(&config);
    namespace.spawn(&command).unwrap()
}

/// A report.
struct Seen {
    status: Option<i32>,
    document: Value,
}

impl Seen {
    fn of(output: Output) -> Self {
        assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
        let document = serde_json::from_str(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", output.stdout, output.stderr));
        Self { status: output.status.code(), document }
    }

    fn findings(&self) -> Vec<(&str, &str)> {
        let all = [&self.document["findings"], &self.document["links"][0]["findings"]];
        let all = all.into_iter().flat_map(|list| list.as_array().unwrap());
        all.map(|finding| (finding["level"].as_str().unwrap(), finding["text"].as_str().unwrap())).collect()
    }

    fn problems(&self) -> Vec<&str> {
        self.findings().into_iter().filter(|(level, _)| *level == "problem").map(|(_, text)| text).collect()
    }

    /// Asserts that there is one such finding, and that the exit status tells whether there are problems.
    fn says(&self, level: &str, words: &str) {
        let found = self.findings().iter().filter(|(l, text)| *l == level && text.contains(words)).count();
        assert_eq!(found, 1, "{level} {words:?} in {:#?}", self.findings());
        let problems = self.problems().len();
        assert_eq!(self.status, Some(i32::from(problems > 0)), "{:#?}", self.problems());
        assert_eq!(self.document["problems"], problems);
    }

    fn figure(&self, way: &str, name: &str) -> u64 {
        self.document["links"][0]["path"][way][name].as_u64().unwrap()
    }
}

/// Many a second, so that a test is short.
const QUICK: [&str; 4] = ["--probes", "1000", "--rate", "1000"];

fn look_at(topology: &Topology) -> Vec<String> {
    let mut seen = Vec::new();
    for gateway in [&topology.gateway_a, &topology.gateway_b] {
        for port in [PLAIN, PROTECTED] {
            seen.push(gateway.namespace.run(&["ip", "-d", "addr", "show", port]).unwrap().stdout);
            seen.push(gateway.namespace.run(&["ethtool", "-k", port]).unwrap().stdout);
        }
    }
    seen
}

#[test]
fn a_good_path_is_told_so_and_nobody_notices() {
    let clinic = Clinic::open(&Shape::default(), "");
    let before = look_at(&clinic.topology);
    let machines = [&clinic.topology.machine_a, &clinic.topology.machine_b];
    let captures = machines.map(|machine| Capture::start(&machine.namespace, machine.ifname).unwrap());
    let wire = Capture::start(&clinic.topology.middle, LEFT).unwrap();
    for seen in clinic.both(&QUICK) {
        assert_eq!(seen.problems(), Vec::<&str>::new());
        for words in [
            "both keys fit",
            "there: frames of 1532 octets cross",
            "back: frames of 1532 octets cross",
            "there: 1000 frames, none lost",
            "back: 1000 frames, none lost",
            "crosses, to its own address",
            "priority tags are kept",
        ] {
            seen.says("ok", words);
        }
        assert_eq!((seen.figure("there", "sent"), seen.figure("back", "lost")), (1000, 0));
    }
    for capture in captures {
        assert_eq!(capture.stop().unwrap().complete().unwrap().frames, []);
    }
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(wire.frames.len() > 2000);
    assert_eq!(look_at(&clinic.topology), before);
    // No PN was taken: there is not even a state directory.
    assert!(!clinic.scratch.path().join("state-a").exists());
}

#[test]
fn a_path_with_a_small_mtu() {
    let clinic = Clinic::open(&Shape::default(), "");
    for port in [LEFT, RIGHT] {
        clinic.topology.middle.ip(&["link", "set", port, "mtu", "1500"]).unwrap();
    }
    let relay = Relay::start(&clinic.topology, Impairments::default()).unwrap();
    for seen in clinic.both(&QUICK) {
        seen.says("problem", "there: the path drops frames above 1514 octets, and full frames of the machine need 1546: raise the MTU of the switches on the path to 1532 or more, or set mtu = 1500 and fragment = \"on\" at both ends");
        assert_eq!((seen.figure("there", "mtu"), seen.figure("back", "mtu")), (1500, 1500));
    }
    relay.stop().unwrap();
}

#[test]
fn a_path_that_loses_doubles_spoils_and_reorders() {
    let clinic = Clinic::open(&Shape::default(), "replay_window = 2");
    let bad =
        Impairments { seed: 5, loss: 0.05, duplicate: 0.03, corrupt: 0.02, reorder: 0.03, reorder_by: 8 };
    let relay = Relay::start(&clinic.topology, bad).unwrap();
    for seen in clinic.both(&QUICK) {
        for way in ["there", "back"] {
            let in_range = |name, range: std::ops::Range<u64>| {
                let figure = seen.figure(way, name);
                assert!(range.contains(&figure), "{way} {name} {figure}");
            };
            assert_eq!((seen.figure(way, "sent"), seen.figure(way, "mtu")), (1000, 1532));
            // 7 %, 3 %, 2 % of all that is sent, 3 % of which few fall behind by chance.
            in_range("lost", 35..120);
            in_range("duplicated", 10..60);
            in_range("spoilt", 5..60);
            in_range("reordered", 10..80);
            in_range("displacement", 1..16);
            seen.says("problem", &format!("{way}: {} frames arrived damaged", seen.figure(way, "spoilt")));
            let missing = seen.figure(way, "lost") - seen.figure(way, "spoilt").min(seen.figure(way, "lost"));
            seen.says("problem", &format!("{way}: {missing} of 1000 frames were lost"));
            seen.says(
                "note",
                &format!("{way}: {} of 1000 frames arrived twice", seen.figure(way, "duplicated")),
            );
            seen.says(
                "problem",
                &format!("{way}: {} of 1000 frames were overtaken", seen.figure(way, "reordered")),
            );
        }
    }
    relay.stop().unwrap();
}

#[test]
fn a_bridge_that_keeps_reserved_addresses() {
    let clinic = Clinic::open(&Shape::default(), "");
    for port in [LEFT, RIGHT] {
        clinic
            .topology
            .middle
            .ip(&["link", "set", port, "type", "bridge_slave", "group_fwd_mask", "0"])
            .unwrap();
    }
    for seen in clinic.both(&QUICK) {
        assert_eq!(seen.problems(), Vec::<&str>::new());
        seen.says("note", "crosses to 01:80:c2:00:00:00, 01:80:c2:00:00:1f, the other box's own address, ff:ff:ff:ff:ff:ff, and not to 01:80:c2:00:00:03, 01:80:c2:00:00:0e, 01:80:c2:00:00:0b");
        seen.says("note", "do not cross: LACP, LLDP and PTP peer delay");
    }
}

/// Doctors that know each other by their CAK; first over a network that keeps EAPOL to itself.
#[test]
fn with_mka_eapol_has_to_cross() {
    let clinic = Clinic::open(&Shape::default(), "");
    keygen::cak(KeyLength::Bits256, None, &clinic.scratch.path().join("line.cak")).unwrap();
    for name in ["a", "b"] {
        let text = format!(
            "[gateway]\nname = \"{name}\"\nstate = \"{}\"\n[[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\n\
             protected = \"{PROTECTED}\"\n[link.mka]\ncak_file = \"line.cak\"\n",
            clinic.scratch.path().join(format!("state-{name}")).display()
        );
        clinic.scratch.write(&format!("{name}.toml"), &text).unwrap();
    }
    let forward = |mask: &str| {
        for port in [LEFT, RIGHT] {
            let slave = ["link", "set", port, "type", "bridge_slave", "group_fwd_mask", mask];
            clinic.topology.middle.ip(&slave).unwrap();
        }
    };
    forward("0");
    for seen in clinic.both(&QUICK) {
        seen.says("problem", "does not cross to 01:80:c2:00:00:03, so no keys can be agreed on");
        seen.says("ok", "answers, and has the CAK");
    }
    forward("8");
    for seen in clinic.both(&QUICK) {
        assert_eq!(seen.problems(), Vec::<&str>::new());
        seen.says("ok", "MKPDUs cross to 01:80:c2:00:00:03");
    }
}

#[test]
fn another_key_and_no_answer() {
    let clinic = Clinic::open(&Shape::default(), "");
    // Box B makes itself a new key, and box A does not hear of it.
    let other = clinic.scratch.path().join("new.key");
    frameward::keygen::static_key(frameward::keygen::KeyLength::Bits128, &other).unwrap();
    let config = clinic.scratch.path().join("b.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("key_file = \"b.key\"", "key_file = \"new.key\"")).unwrap();
    let [a, b] = clinic.both(&QUICK);
    a.says("problem", "a box answers as 02:00:00:00:00:02/1, but with another key");
    b.says("problem", "02:00:00:00:00:01/1 answers, and its key fits, but it has another key for this box");

    let alone = Seen::of(clinic.start("a", &["--wait", "1"]).wait(DEADLINE).unwrap());
    alone.says("problem", "02:00:00:00:00:02/1 did not answer: start 'frameward doctor' on that box too");
    alone.says("ok", "machine 1500, overhead 32, protected side 1532");
}

#[test]
fn a_path_into_a_site_of_the_same_configuration_is_not_waited_for() {
    let clinic = Clinic::open(&Shape::default(), "");
    let (namespace, scratch) = (&clinic.topology.gateway_a.namespace, clinic.scratch.path());
    namespace
        .ip(&["link", "add", "near", "mtu", "1600", "type", "veth", "peer", "name", "far", "mtu", "1600"])
        .unwrap();
    for end in ["near", "far"] {
        namespace.ip(&["link", "set", end, "up"]).unwrap();
    }
    keygen::site(&scratch.join("own.key")).unwrap();
    let peer = keygen::site(&scratch.join("peer.key")).unwrap();
    let text = std::fs::read_to_string(scratch.join("a.toml")).unwrap();
    let text = text.replace(&format!("protected = \"{PROTECTED}\""), "protected = \"near\"");
    let site = format!(
        "\n[[site]]\nname = \"dresden\"\nlan = \"far\"\nbind = \"127.0.0.1:7788\"\nidentity = \"own.key\"\n\
         [[site.peer]]\nname = \"berlin\"\npublic_key = \"{peer}\"\n"
    );
    clinic.scratch.write("a.toml", &(text + &site)).unwrap();
    // It would wait for an hour.
    let seen = Seen::of(clinic.start("a", &["--wait", "3600"]).wait(3 * DEADLINE).unwrap());
    let findings = seen.findings();
    let into = findings.iter().filter(|(_, text)| text.contains("leads into site \"dresden\" of this box"));
    assert_eq!(into.count(), 1, "{findings:#?}");
}

#[test]
fn what_is_wrong_with_the_box_itself() {
    let clinic = Clinic::open(&Shape { protected_mtu: 1500, ..Shape::default() }, "");
    let namespace = &clinic.topology.gateway_a.namespace;
    namespace.ip(&["link", "add", "br7", "type", "bridge"]).unwrap();
    namespace.ip(&["link", "set", PROTECTED, "master", "br7"]).unwrap();
    namespace.ip(&["addr", "add", "192.0.2.1/24", "dev", PLAIN]).unwrap();
    namespace.ip(&["link", "set", PLAIN, "down"]).unwrap();
    let seen = Seen::of(clinic.start("a", &[]).wait(DEADLINE).unwrap());
    seen.says("problem", "belongs to bridge br7");
    seen.says("problem", "plain is down");
    seen.says("problem", "MTU too small");
    seen.says(
        "problem",
        "plain carries the address 192.0.2.1 of this box, which would be cut off: run refuses it",
    );
    seen.says("note", "first remove the problems above");
    // Without the rights, that is what it says.
    let config = clinic.scratch.path().join("a.toml").display().to_string();
    let command = [
        "setpriv",
        "--bounding-set",
        "-all",
        "--inh-caps",
        "-all",
        program().to_str().unwrap(),
        "doctor",
        "--json",
        "--local",
        &config,
    ];
    let seen = Seen::of(namespace.spawn(&command).unwrap().wait(DEADLINE).unwrap());
    seen.says("problem", "CAP_NET_ADMIN and CAP_NET_RAW and CAP_BPF missing");
}

#[test]
fn a_running_gateway_is_not_disturbed_and_its_counters_are_read() {
    let (topology, pair) = lab(&Shape::default(), &Choice::default());
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 200, 1)]);
    let stranger = PacketSocket::open(&topology.middle, RIGHT).unwrap();
    let clear = frames::ethernet(MacAddr(b.mac), MacAddr(a.mac), EtherType::IPV4, &[0; 50]);
    stranger.send(&clear).unwrap();
    super::wait_for(
        || pair.b.report().unwrap(),
        1,
        |report| super::counter(&report.links[0].secy.counters, "InPktsNoTag"),
    );
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let doctor = start(&topology.gateway_b.namespace, &pair.scratch, "b", &[]);
    let seen = Seen::of(doctor.wait(DEADLINE).unwrap());
    seen.says("note", "not tested: the gateway runs");
    seen.says("note", "InPktsNoTag 1 since the start");
    seen.says("ok", "1 received and verified");
    assert_eq!(seen.problems(), Vec::<&str>::new());
    assert_eq!(wire.stop().unwrap().complete().unwrap().frames, [], "doctor sent something");
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 200, 2)]);
    pair.stop().unwrap();
}

/// One box has its two cables exchanged: its doctor hears the other one on the plain port, and asks.
#[test]
fn exchanged_ports_are_asked_for() {
    let clinic = Clinic::open(&Shape::default(), "");
    let file = clinic.scratch.path().join("a.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let port = |key: &str, port: &str| format!("{key} = \"{port}\"");
    assert!(text.contains(&port("plain", PLAIN)) && text.contains(&port("protected", PROTECTED)), "{text}");
    let text = text.replace(&port("plain", PLAIN), &port("plain", "net7"));
    let text = text.replace(&port("protected", PROTECTED), &port("protected", PLAIN));
    std::fs::write(&file, text.replace("\"net7\"", &format!("\"{PROTECTED}\""))).unwrap();
    let doctors = ["a", "b"].map(|name| clinic.start(name, &["--wait", "8"]));
    let [a, b] = doctors.map(|doctor| Seen::of(doctor.wait(3 * DEADLINE).unwrap()));
    a.says("problem", "are the ports exchanged?");
    b.says("problem", "did not answer");
}
