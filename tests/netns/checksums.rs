//! A machine, as a VM or a container, whose kernel leaves checksums to hardware that is not there: ping works, TCP does not,
//! and the cure is told.

use std::time::{Duration, Instant};

use lab::topology::PLAIN;
use lab::traffic::{self, Ip, Until};
use lab::{Machine, Shape, Topology};
use perf::demo::pair::{Choice, Scratch, Station, configure};

use super::doctor::start as start_doctor;
use super::{DEADLINE, counter, program};

/// The machine's end of the cable leaves checksums to hardware, or not.
pub(crate) fn offload(machine: &Machine, state: &str) {
    machine.namespace.run(&["ethtool", "-K", machine.ifname, "tx", state, "txvlan", state]).unwrap();
}

/// Datagrams that nobody answers, for somebody to look at.
pub(crate) fn talk(machine: &Machine, to: &Machine) {
    let (address, own) = (to.ipv4, machine.ipv4);
    let talk = move || {
        let socket = std::net::UdpSocket::bind((own, 0)).unwrap();
        for number in 0..20_u8 {
            socket.send_to(&[number; 300], (address, 9)).unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    machine.namespace.enter(talk).unwrap();
}

pub(crate) fn within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Octets in a TCP stream that a moment is enough for.
const SOME: Until = Until::Octets(100_000);

#[test]
fn a_machine_that_leaves_its_checksums_unfilled_is_told_with_the_cure() {
    let shape = Shape { static_neighbours: true, ..Shape::default() };
    let topology = Topology::build(&shape).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let start = |name, gateway: &lab::topology::Gateway| {
        Station::start(program(), &gateway.namespace, &scratch, name).unwrap()
    };
    let (here, there) = (start("a", &topology.gateway_a), start("b", &topology.gateway_b));
    let link = || here.report().unwrap().links.remove(0);
    assert!(
        link().plain.engine.starts_with("af_xdp"),
        "AF_PACKET fills checksums in: {}",
        link().plain.engine
    );

    // As a wire has it: TCP works, its checksums are looked at, and nothing is told.
    traffic::tcp(a, b, Ip::V4, SOME).unwrap();
    for _ in 0..5 {
        talk(a, b);
    }
    within(DEADLINE, "some checksums are looked at", || {
        counter(&link().plain.counters, "RxChecksumsSampled") > 20
    });
    let report = link();
    assert_eq!(counter(&report.plain.counters, "RxChecksumsUnfilled"), 0);
    assert!(!report.concerns.iter().any(|concern| concern.text.contains("ethtool")), "{:?}", report.concerns);

    // As a container has it that nobody has told.
    offload(a, "on");
    traffic::ping(a, b, Ip::V4, 3, 100).unwrap();
    within(DEADLINE, "the verdict", || {
        talk(a, b);
        link().verdict.state == "unfilled checksums"
    });
    let text = link().verdict.text;
    for words in
        ["ping works, and TCP does not", "at the other end of plain", "ethtool -K IF tx off txvlan off"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let doctor = start_doctor(&topology.gateway_a.namespace, &scratch, "a", &[]);
    let told = doctor.wait(DEADLINE).unwrap();
    assert!(told.stdout.contains("ethtool -K IF tx off txvlan off"), "{}", told.stdout);

    // The line that was told, typed there.
    offload(a, "off");
    traffic::tcp(a, b, Ip::V4, SOME).unwrap();
    within(2 * DEADLINE, "the verdict is gone", || link().verdict.state == "protecting");
    let log = here.stop().unwrap();
    assert!(log.contains("unfilled checksums: TCP and UDP checksums of the machine on plain"), "{log}");
    there.stop().unwrap();
}

/// TCP fails over AF_XDP, and does not over AF_PACKET, which fills checksums in: nothing is told there.
#[test]
fn af_packet_fills_checksums_in() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice { io: "af_packet", ..Choice::default() }).unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let here = Station::start(program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let there = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    offload(a, "on");
    traffic::tcp(a, b, Ip::V4, SOME).unwrap();
    for _ in 0..5 {
        talk(a, b);
    }
    let link = || here.report().unwrap().links.remove(0);
    within(DEADLINE, "some checksums are looked at", || {
        counter(&link().plain.counters, "RxChecksumsSampled") > 20
    });
    assert!(counter(&link().plain.counters, "RxChecksumsCompleted") > 20);
    assert_eq!(counter(&link().plain.counters, "RxChecksumsUnfilled"), 0);
    for station in [here, there] {
        station.stop().unwrap();
    }
}

/// Without a gateway, doctor sees what the machine's frames say of themselves; with filled checksums it tells nothing.
#[test]
fn doctor_sees_unfilled_checksums_before_there_is_a_gateway() {
    for (state, expected) in [("on", true), ("off", false)] {
        let shape = Shape { static_neighbours: true, ..Shape::default() };
        let topology = Topology::build(&shape).unwrap();
        let scratch = Scratch::new().unwrap();
        configure(&scratch, &Choice::default()).unwrap();
        let (a, b) = (&topology.machine_a, &topology.machine_b);
        offload(a, state);
        let mut doctor = start_doctor(&topology.gateway_a.namespace, &scratch, "a", &["--wait", "3"]);
        doctor.wait_for_line("waiting for the other box", DEADLINE).unwrap();
        talk(a, b);
        let told = doctor.wait(DEADLINE).unwrap();
        let document: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        let findings = document["links"][0]["findings"].as_array().unwrap();
        let problem =
            findings.iter().find(|finding| finding["about"] == "checksums" && finding["level"] == "problem");
        assert_eq!(problem.is_some(), expected, "{state}: {findings:?}");
        if let Some(problem) = problem {
            let text = problem["text"].as_str().unwrap();
            assert!(
                text.contains(&format!("frames came from {PLAIN} with TCP and UDP checksums left")),
                "{text}"
            );
        }
    }
}

/// Both ends of the pair on one box: the line names the other one.
#[test]
fn doctor_names_the_other_end_of_a_veth_pair_on_this_box() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let box_a = &topology.gateway_a.namespace;
    box_a.ip(&["link", "del", PLAIN]).unwrap();
    box_a.ip(&["link", "add", PLAIN, "type", "veth", "peer", "name", "guest0"]).unwrap();
    for end in [PLAIN, "guest0"] {
        box_a.ip(&["link", "set", end, "up"]).unwrap();
    }
    let told = || start_doctor(box_a, &scratch, "a", &["--wait", "1"]).wait(DEADLINE).unwrap().stdout;
    let before = told();
    assert!(before.contains("type on this box: ethtool -K guest0 tx off txvlan off"), "{before}");
    box_a.run(&["ethtool", "-K", "guest0", "tx", "off"]).unwrap();
    let after = told();
    assert!(
        after.contains("guest0, the other end of plain, fills them in")
            && !after.contains("ethtool -K guest0"),
        "{after}"
    );
}
