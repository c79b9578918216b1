//! Cells end to end: a PLC and its devices exchange IO data every few milliseconds, every frame accounted for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use frameward::keygen;
use lab::cyclic::{Arrivals, Exchange};
use lab::topology::{LEFT, RIGHT};
use lab::traffic::{self, Ip};
use lab::{Capture, Captured, Frame, PacketSocket, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::cells::{self, CellChoice, only_cell, secured};
use perf::demo::pair::{Pair, Scratch, Station};
use report::cell::CellReport;
use report::{Level, Verdict};
use wire::EtherType;
use wire::fieldbus::ETHERTYPE;

use super::http::{HTTP, get, parse_metrics};
use super::reload::reloaded;
use super::service::has_what_it_needs_alone;
use super::{DEADLINE, EXPERIMENT, MARKER, marked, program};

/// Long enough for a machine that is busy with other tests.
const CYCLE: Duration = Duration::from_millis(4);
const DEVICES: u8 = 3;

fn lab(choose: impl FnOnce(&mut CellChoice)) -> (Topology, CellChoice, Pair) {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let mut choice = CellChoice::new(&topology, DEVICES, CYCLE);
    choose(&mut choice);
    let pair = cells::start(program(), &topology, &choice).unwrap();
    (topology, choice, pair)
}

fn exchange(topology: &Topology, choice: &CellChoice) -> Exchange {
    Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap()
}

fn complete(heard: &[[Arrivals; 2]], least: u64) {
    for heard in heard.iter().flatten() {
        let Arrivals { sent, received, out_of_order, changed, .. } = heard;
        assert!(heard.is_complete() && *sent >= least, "{sent} {received} {out_of_order} {changed}");
    }
}

pub(crate) fn cell(station: &Station) -> CellReport {
    only_cell(&station.report().unwrap()).unwrap().clone()
}

/// Waits until a gateway says a thing about its links.
fn wait_for_concern(station: &Station, words: &str) {
    let end = Instant::now() + DEADLINE;
    loop {
        let report = station.report().unwrap();
        let concerns = &report.links[0].concerns;
        if concerns.iter().any(|concern| concern.text.contains(words)) {
            return;
        }
        assert!(
            Instant::now() < end,
            "{words:?} is not in {concerns:?}\n{:?}",
            only_cell(&report).unwrap().counters
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a gateway's cell is in this state, and returns the verdict.
fn wait_for_verdict(station: &Station, state: &str) -> Verdict {
    let end = Instant::now() + DEADLINE;
    loop {
        let verdict = cell(station).verdict;
        if verdict.state == state {
            return verdict;
        }
        assert!(Instant::now() < end, "{state:?} is not {verdict:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A cyclic frame of a station behind this gateway.
fn cyclic_frame(station: &Station) -> Vec<u8> {
    let relation = cell(station).relations.remove(0);
    let mac = |text: &str| text.parse::<wire::MacAddr>().unwrap().0;
    let frame_id = u16::from_str_radix(relation.sends.trim_start_matches("0x"), 16).unwrap();
    let tag_and_type = [&lab::cyclic::TAG[..], &EtherType::PROFINET.0.to_be_bytes(), &frame_id.to_be_bytes()];
    [&mac(&relation.peer)[..], &mac(&relation.own), &tag_and_type.concat(), &[0; 44]].concat()
}

/// Cyclic frames of PROFINET in clear on the network.
fn in_clear(wire: &Captured) -> usize {
    wire.of_ethertype(EtherType::PROFINET.0).count()
}

fn io_data_flows(io: &'static str, protect: &'static str) {
    let (topology, choice, pair) = lab(|choice| (choice.io, choice.protect) = (io, protect));
    secured(&pair).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(100, DEADLINE).unwrap();
    // Meanwhile what is of no relation goes through the link: ARP, ICMP, and then DCP.
    traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 5, 1000).unwrap();
    let heard = exchange.stop().unwrap();
    complete(&heard, 100);
    let dcp = [0x01, 0x0e, 0xcf, 0, 0, 0];
    super::exchange(
        &topology.machine_b,
        &topology.machine_a,
        &[marked(dcp, topology.machine_b.mac, EtherType::PROFINET, 60, 1)],
    );
    let wire = wire.stop().unwrap().complete().unwrap();
    let sent: u64 = heard.iter().flatten().map(|heard| heard.sent).sum();
    assert!(wire.of_ethertype(ETHERTYPE.0).count() as u64 >= sent);
    let known = |frame: &&Frame| [ETHERTYPE.0, EtherType::MACSEC.0].map(Some).contains(&frame.ethertype());
    assert!(wire.frames.iter().all(|frame| known(&frame)), "something else is on the network");
    assert!(wire.of_ethertype(EtherType::MACSEC.0).next().is_some(), "the ping");
    match protect {
        "encrypt" => assert_eq!(wire.find(MARKER), None, "plaintext is on the network"),
        _ => assert!(wire.of_ethertype(ETHERTYPE.0).any(|frame| frame.contains(MARKER)), "it stays readable"),
    }
    // The machines' tag stays in front, for the switches between.
    assert!(wire.of_ethertype(ETHERTYPE.0).any(|frame| frame.octets[12..16] == lab::cyclic::TAG));
    for (end, station) in [&pair.a, &pair.b].into_iter().enumerate() {
        let report = station.report().unwrap();
        let engine = if io == "af_xdp" { "af_xdp native" } else { "af_packet" };
        assert!(report.links[0].plain.engine.starts_with(engine), "{}", report.links[0].plain.engine);
        assert!(
            !report.links[0].concerns.iter().any(|concern| concern.grave),
            "{:?}",
            report.links[0].concerns
        );
        let cell = only_cell(&report).unwrap();
        assert_eq!((cell.protect.as_str(), cell.relations.len()), (protect, usize::from(DEVICES)));
        for (relation, heard) in cell.relations.iter().zip(&heard) {
            assert_eq!(relation.state, "running", "{relation:?}");
            assert_eq!(relation.transmit.value("OutPktsProtected"), heard[1 - end].sent);
            assert_eq!(relation.receive.value("InPktsOK"), heard[end].received);
            assert_eq!(relation.residence_outward.count, heard[1 - end].sent);
            assert_eq!(relation.residence_inward.count, heard[end].received);
            assert_eq!(relation.jitter.count, heard[end].received - 1);
        }
    }
    let Pair { a, b, scratch: _kept } = pair;
    let (said, _) = (a.stop().unwrap(), b.stop().unwrap());
    assert!(said.contains("fieldbus \"cell-4\": in link \"press\", gcm-aes-128, "), "{said}");
}

/// A program that redirects a frame to a virtual wire needs an other end with NAPI: `gro` switches it on.
pub(crate) fn takes_redirected_frames(namespace: &lab::Namespace, interfaces: &[&str]) {
    for interface in interfaces {
        namespace.run(&["ethtool", "-K", interface, "gro", "on"]).unwrap();
    }
}

/// A topology whose interfaces all take redirected frames.
pub(crate) fn for_the_kernel() -> Topology {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    takes_redirected_frames(&topology.machine_a.namespace, &[topology.machine_a.ifname]);
    takes_redirected_frames(&topology.machine_b.namespace, &[topology.machine_b.ifname]);
    takes_redirected_frames(&topology.middle, &[LEFT, RIGHT]);
    topology
}

pub(crate) const CHACHA20: &str = "suite = \"chacha20-poly1305\"";

/// A cell whose suite has programs.
pub(crate) fn kernel_choice(topology: &Topology, io: &'static str) -> CellChoice {
    CellChoice { io, cell: CHACHA20, ..CellChoice::new(topology, DEVICES, CYCLE) }
}

pub(crate) fn in_the_kernel(io: &'static str, protect: &'static str) -> (Topology, CellChoice, Pair) {
    let topology = for_the_kernel();
    let choice = CellChoice { protect, ..kernel_choice(&topology, io) };
    let pair = cells::start(program(), &topology, &choice).unwrap();
    secured(&pair).unwrap();
    (topology, choice, pair)
}

/// The frames of a cell are protected and verified by XDP programs, and what is not the cell's goes through the link beside them.
#[test]
fn io_data_flows_in_the_kernel() {
    for (io, protect) in [("kernel", "encrypt"), ("auto", "encrypt"), ("kernel", "authenticate")] {
        let (topology, choice, mut pair) = in_the_kernel(io, protect);
        pair.a
            .program()
            .wait_for_line("fieldbus \"cell-4\": frames go through the kernel, both ways", DEADLINE)
            .unwrap();
        // Loading the programs needs one more, which is gone.
        has_what_it_needs_alone(pair.a.program().id());
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let exchange = exchange(&topology, &choice);
        exchange.wait_for(100, DEADLINE).unwrap();
        traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 5, 1000).unwrap();
        let heard = exchange.stop().unwrap();
        complete(&heard, 100);
        let wire = wire.stop().unwrap().complete().unwrap();
        let sent: u64 = heard.iter().flatten().map(|heard| heard.sent).sum();
        assert!(wire.of_ethertype(ETHERTYPE.0).count() as u64 >= sent);
        let known =
            |frame: &&Frame| [ETHERTYPE.0, EtherType::MACSEC.0].map(Some).contains(&frame.ethertype());
        assert!(wire.frames.iter().all(|frame| known(&frame)), "something else is on the network");
        assert!(wire.of_ethertype(EtherType::MACSEC.0).next().is_some(), "the ping");
        assert_eq!(wire.find(MARKER).is_none(), protect == "encrypt");
        for (end, station) in [&pair.a, &pair.b].into_iter().enumerate() {
            let report = station.report().unwrap();
            let cell = only_cell(&report).unwrap();
            assert_eq!((cell.path.as_str(), cell.suite.as_str()), ("kernel", "chacha20-poly1305"));
            let mut all = 0;
            for (relation, heard) in cell.relations.iter().zip(&heard) {
                assert_eq!(relation.state, "running", "{relation:?}");
                assert_eq!(relation.transmit.value("OutPktsProtected"), heard[1 - end].sent);
                assert_eq!(relation.receive.value("InPktsOK"), heard[end].received);
                assert_eq!(relation.jitter.count, heard[end].received - 1);
                assert_eq!(relation.residence_outward.count, heard[1 - end].sent);
                assert_eq!(relation.residence_inward.count, heard[end].received);
                all += heard[1 - end].sent;
            }
            let rx = report.links[0].plain.counters.value("RxFrames");
            assert!(rx < all / 2, "{rx} frames came to user space, of {all}");
            // The thread that makes keystream ahead takes nobody's CPU.
            assert_eq!(policies(station.id(), "cell-ahead"), ["5"], "SCHED_IDLE");
        }
    }
}

/// Scheduling policies of a process's threads of this name (proc(5): the 41st word of `stat`).
fn policies(process: u32, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    let named = stats.filter(|stat| stat.contains(&format!("({name})")));
    named.map(|stat| stat.rsplit(") ").next().unwrap().split(' ').nth(38).unwrap().to_owned()).collect()
}

/// Programs and maps end with the process, however it ends: nothing passes afterwards.
#[test]
fn nothing_passes_in_the_kernel_when_the_process_is_gone() {
    let (topology, choice, mut pair) = in_the_kernel("kernel", "encrypt");
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(100, DEADLINE).unwrap();
    pair.a.program().signal(Signal::SIGKILL).unwrap();
    let end = Instant::now() + DEADLINE;
    while pair.a.program().is_running() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    let before: u64 = exchange.heard().iter().map(|heard| heard[1].received).sum();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    std::thread::sleep(50 * CYCLE);
    let wire = wire.stop().unwrap().complete().unwrap();
    let from_a = |frame: &&Frame| frame.octets[6..12] == topology.machine_a.mac;
    assert_eq!(wire.frames.iter().filter(from_a).count(), 0, "a frame of the machine has passed");
    let after: u64 = exchange.heard().iter().map(|heard| heard[1].received).sum();
    assert!(after <= before + u64::from(DEVICES), "what was under way at the most: {before} {after}");
    drop(exchange.stop());
}

/// Where the kernel cannot have a cell, user space has it, and says why.
#[test]
fn auto_takes_user_space_where_the_kernel_cannot_be_had() {
    let perfmon = &["setpriv", "--bounding-set=-perfmon,-sys_admin"][..];
    let rows = [
        (
            "auto",
            "",
            for_the_kernel(),
            &[][..],
            "protects cyclic frames by chacha20-poly1305 only; the suite is gcm-aes-128",
        ),
        ("af_xdp", CHACHA20, for_the_kernel(), &[], "io says so"),
        ("af_packet", CHACHA20, for_the_kernel(), &[], "io says so"),
        ("auto", CHACHA20, for_the_kernel(), perfmon, "with CAP_PERFMON alone, which is not granted"),
        (
            "auto",
            CHACHA20,
            Topology::build(&Shape::default()).unwrap(),
            &[],
            "port takes no redirected frames",
        ),
    ];
    for (io, suite, topology, by, why) in rows {
        let choice = CellChoice { io, cell: suite, ..CellChoice::new(&topology, DEVICES, CYCLE) };
        let scratch = Scratch::new().unwrap();
        cells::keys(&scratch).unwrap();
        (0..2).for_each(|end| cells::configure(&scratch, end, &choice).unwrap());
        let mut a = Station::start_by(by, program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
        let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
        a.program().wait_for_line("frames go through user space, both ways: ", DEADLINE).unwrap();
        let pair = Pair { a, b, scratch };
        secured(&pair).unwrap();
        let exchange = exchange(&topology, &choice);
        exchange.wait_for(50, DEADLINE).unwrap();
        complete(&exchange.stop().unwrap(), 50);
        let path = cell(&pair.a).path;
        assert!(path.starts_with("user space: ") && path.contains(why), "{path}");
        pair.stop().unwrap();
    }
}

/// A demand is no wish: without the capability there is no start.
#[test]
fn a_demanded_kernel_that_cannot_be_had_ends_the_start() {
    let topology = for_the_kernel();
    let choice = kernel_choice(&topology, "kernel");
    let scratch = Scratch::new().unwrap();
    cells::keys(&scratch).unwrap();
    cells::configure(&scratch, 0, &choice).unwrap();
    let by = ["setpriv", "--bounding-set=-perfmon,-sys_admin"];
    let refused = Station::start_by(&by, program(), &topology.gateway_a.namespace, &scratch, "a");
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("io = \"kernel\" is not possible: ") && error.contains("CAP_PERFMON"), "{error}");
}

/// The way of a cell's frames, as `check` tells it before a start: it loads the programs too.
#[test]
fn check_says_which_way_a_cells_frames_will_go() {
    let topology = for_the_kernel();
    let scratch = Scratch::new().unwrap();
    cells::keys(&scratch).unwrap();
    let no_perfmon = &["setpriv", "--bounding-set=-perfmon,-sys_admin"][..];
    for (io, suite, by, expected) in [
        (
            "auto",
            CHACHA20,
            &[][..],
            "kernel, both ways; if the drivers do not take its programs, user space (AF_XDP",
        ),
        (
            "kernel",
            CHACHA20,
            &[],
            "kernel, both ways; if the drivers do not take its programs, no frame passes",
        ),
        (
            "auto",
            "",
            &[],
            "user space (AF_XDP, or else AF_PACKET), both ways: the kernel protects cyclic frames by",
        ),
        ("kernel", "", &[], "NONE, and run does not start: the kernel protects cyclic frames by"),
        ("af_packet", CHACHA20, &[], "user space (AF_PACKET), both ways: io says so"),
        (
            "kernel",
            CHACHA20,
            no_perfmon,
            "not looked at: the kernel takes such programs with CAP_PERFMON alone",
        ),
    ] {
        let choice = CellChoice { cell: suite, ..kernel_choice(&topology, io) };
        cells::configure(&scratch, 0, &choice).unwrap();
        let file = scratch.path().join("a.toml");
        let command = [by, &[program().to_str().unwrap(), "check", file.to_str().unwrap()]].concat();
        let output = topology.gateway_a.namespace.spawn(&command).unwrap().wait(DEADLINE).unwrap();
        assert!(output.status.success(), "{}", output.stderr);
        assert!(output.stdout.contains(&format!("  frames     {expected}")), "{expected}: {}", output.stdout);
    }
}

/// A reload with another `io` moves the cell, with new sessions. Back in the kernel it has the programs of the start.
#[test]
fn a_reload_moves_a_cell_out_of_the_kernel_and_back() {
    let (topology, mut choice, pair) = in_the_kernel("auto", "encrypt");
    for (io, path) in [("auto", "kernel"), ("af_packet", "user space: io says so"), ("auto", "kernel")] {
        choice.io = io;
        for (end, name) in ["a", "b"].into_iter().enumerate() {
            cells::configure(&pair.scratch, end, &choice).unwrap();
            reloaded(&pair.scratch, name);
        }
        secured(&pair).unwrap();
        assert_eq!([&pair.a, &pair.b].map(|station| cell(station).path), [path; 2]);
        let exchange = exchange(&topology, &choice);
        exchange.wait_for(50, DEADLINE).unwrap();
        complete(&exchange.stop().unwrap(), 50);
    }
    pair.stop().unwrap();
}

/// Relations in shadow mode pass through user space, in clear, beside others in the kernel. One that leaves it loses no frame.
#[test]
fn shadow_mode_is_user_spaces_beside_the_kernel() {
    let (topology, mut choice, pair) = in_the_kernel("auto", "encrypt");
    choice.relations[0].1 = "shadow";
    for (end, name) in ["a", "b"].into_iter().enumerate() {
        cells::configure(&pair.scratch, end, &choice).unwrap();
        let said = reloaded(&pair.scratch, name);
        assert!(said.contains("relations: 1 IN CLEAR from now on (shadow)"), "{said}");
    }
    secured(&pair).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(50, DEADLINE).unwrap();
    complete(&exchange.stop().unwrap(), 50);
    let counted = |name: &str| {
        cell(&pair.b).relations.iter().map(|of| of.receive.value(name) >= 50).collect::<Vec<_>>()
    };
    assert_eq!(counted("InPktsClear"), [true, false, false]);
    assert_eq!(counted("InPktsShadow"), [true, false, false], "twins that were verified");
    assert_eq!(counted("InPktsOK"), [false, true, true]);
    let exchange = self::exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    choice.relations[0].1 = "protect";
    for (end, name) in ["a", "b"].into_iter().enumerate() {
        cells::configure(&pair.scratch, end, &choice).unwrap();
        assert!(reloaded(&pair.scratch, name).contains("relations: 1 protected from now on"));
        exchange.wait_for(20, DEADLINE).unwrap();
    }
    exchange.wait_for(50, DEADLINE).unwrap();
    complete(&exchange.stop().unwrap(), 100);
    assert_eq!(counted("InPktsOK"), [true; 3]);
    assert!(cell(&pair.b).path.starts_with("kernel; 1 relations in user space"), "{}", cell(&pair.b).path);
    pair.stop().unwrap();
}

#[test]
fn io_data_flows_encrypted_over_af_xdp() {
    io_data_flows("af_xdp", "encrypt");
}

#[test]
fn io_data_flows_authenticated_over_af_xdp() {
    io_data_flows("af_xdp", "authenticate");
}

#[test]
fn io_data_flows_encrypted_over_af_packet() {
    io_data_flows("af_packet", "encrypt");
}

#[test]
fn io_data_flows_authenticated_over_af_packet() {
    io_data_flows("af_packet", "authenticate");
}

#[test]
fn without_a_link_the_rest_is_dropped() {
    let (topology, choice, pair) = lab(|choice| choice.drops = true);
    secured(&pair).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let stray = PacketSocket::open(&a.namespace, a.ifname).unwrap();
    for octets in [46, 500] {
        stray.send(&marked(b.mac, a.mac, EXPERIMENT, octets, 1)).unwrap();
        stray.send(&marked(b.mac, a.mac, EtherType::PROFINET, octets, 1)).unwrap();
    }
    // Nothing is green before a frame was verified: first nobody says anything, then one end does.
    assert_eq!(wait_for_verdict(&pair.a, "idle").level, Level::Idle);
    stray.send(&cyclic_frame(&pair.a)).unwrap();
    let verdict = wait_for_verdict(&pair.a, "peer absent");
    assert!(
        !verdict.protecting && verdict.text.contains("no verified frame of the other station"),
        "{verdict:?}"
    );
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(100, DEADLINE).unwrap();
    assert_eq!(wait_for_verdict(&pair.a, "protecting").level, Level::Good);
    complete(&exchange.stop().unwrap(), 100);
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(wire.all_ethertype(ETHERTYPE.0), "something else is on the network");
    assert_eq!(wire.find(MARKER), None);
    assert_eq!(cell(&pair.a).counters.value("OutPktsRestDropped"), 4);
    // It is a link without a SecY, for all who ask.
    let report = pair.a.report().unwrap();
    assert_eq!((report.links[0].name.as_str(), report.links[0].has_secy()), ("cell-4", false));
    assert!(!report.links[0].concerns.iter().any(|concern| concern.grave), "{:?}", report.links[0].concerns);
    let Pair { a, b, scratch: _kept } = pair;
    let (said, _) = (a.stop().unwrap(), b.stop().unwrap());
    let line = said.lines().find(|line| line.contains("bursts of")).unwrap();
    assert!(
        line.contains("fieldbus \"cell-4\": ") && line.contains("gcm-aes-128, encrypted, 3 relations"),
        "{line}"
    );
}

/// All in clear, with the figures beside; then one relation is switched over, at one gateway after the other.
#[test]
fn a_relation_leaves_shadow_mode_without_a_lost_frame() {
    let (topology, mut choice, pair) = lab(|choice| {
        choice.relations.iter_mut().for_each(|(_, mode)| *mode = "shadow");
    });
    secured(&pair).unwrap();
    wait_for_concern(&pair.a, "in shadow mode: the cyclic frames of 3 of 3 relations pass in clear");
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(50, DEADLINE).unwrap();
    let shadowed = cell(&pair.b);
    for relation in &shadowed.relations {
        assert!(relation.receive.value("InPktsClear") > 0 && relation.jitter.count > 0, "{relation:?}");
        assert_eq!(relation.receive.value("InPktsOK"), 0, "no twin is delivered beside its frame");
    }
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    exchange.wait_for(10, DEADLINE).unwrap();
    assert!(in_clear(&wire.stop().unwrap().complete().unwrap()) >= 30);

    choice.relations[0].1 = "protect";
    for (end, name) in ["a", "b"].into_iter().enumerate() {
        cells::configure(&pair.scratch, end, &choice).unwrap();
        let said = reloaded(&pair.scratch, name);
        assert!(said.contains("relations: 1 protected from now on"), "{said}");
        exchange.wait_for(20, DEADLINE).unwrap();
    }
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    let wire = wire.stop().unwrap().complete().unwrap();
    let first = choice.relations[0].0.stations[1];
    let clear: Vec<_> = wire.of_ethertype(EtherType::PROFINET.0).collect();
    assert!(!clear.is_empty(), "the others are in shadow mode still");
    assert!(
        clear.iter().all(|frame| !frame.octets[..12].windows(6).any(|mac| mac == first)),
        "it is protected now"
    );
    complete(&exchange.stop().unwrap(), 100);
    // While one end was switched over already, it refused what the other one sent in clear: nobody has forged that.
    let refused = [&pair.a, &pair.b].map(|station| {
        let receive = cell(station).relations[0].receive.clone();
        let [refused, twins] = ["InPktsClearRefused", "InPktsClearTwin"].map(|name| receive.value(name));
        assert_eq!(refused, twins, "{receive:?}");
        refused
    });
    assert!(refused[0] > 0, "{refused:?}");
    wait_for_concern(&pair.a, "the cyclic frames of 2 of 3 relations pass in clear");
    pair.stop().unwrap();
}

#[test]
fn a_reload_adds_and_removes_relations_while_others_go_on() {
    add_and_remove_relations(lab(|_| {}), |_| {});
}

/// The programs go on meanwhile, and their maps change under them.
#[test]
fn a_reload_adds_and_removes_relations_in_the_kernel_while_others_go_on() {
    let (topology, choice, pair) = in_the_kernel("auto", "encrypt");
    let key = |pair: &Pair| cell(&pair.a).relations[0].transmit_key.unwrap();
    let before = key(&pair);
    add_and_remove_relations((topology, choice, pair), |pair| {
        let now = key(pair);
        assert_eq!((now.key_id, now.epoch), (before.key_id, before.epoch));
        assert!(now.seq > before.seq, "{before:?} {now:?}");
        assert_eq!(cell(&pair.a).path, "kernel");
    });
}

/// `looks`: when relations have come and gone.
fn add_and_remove_relations(
    (topology, choice, pair): (Topology, CellChoice, Pair),
    looks: impl FnOnce(&Pair),
) {
    secured(&pair).unwrap();
    let stays = CellChoice { relations: choice.relations[..1].to_vec(), ..choice.clone() };
    let exchange = exchange(&topology, &stays);
    exchange.wait_for(20, DEADLINE).unwrap();
    let mut other = choice.clone();
    other.relations.truncate(2);
    other.relations.push((cells::relation(&topology, 9, CYCLE), "protect"));
    for (end, name) in ["a", "b"].into_iter().enumerate() {
        cells::configure(&pair.scratch, end, &other).unwrap();
        let said = reloaded(&pair.scratch, name);
        assert!(said.contains("relations: 1 added, 1 removed"), "{said}");
        exchange.wait_for(20, DEADLINE).unwrap();
    }
    secured(&pair).unwrap();
    // The added one works too.
    let added = CellChoice { relations: other.relations[2..].to_vec(), ..other.clone() };
    let second = Exchange::start(&topology.machine_a, &topology.machine_b, &added.exchanged()).unwrap();
    second.wait_for(20, DEADLINE).unwrap();
    complete(&second.stop().unwrap(), 20);
    complete(&exchange.stop().unwrap(), 60);
    looks(&pair);
    // Another key at both ends: sessions are made anew, and frames pass again.
    std::fs::remove_file(pair.scratch.path().join("cell.key")).unwrap();
    keygen::fieldbus(&pair.scratch.path().join("cell.key")).unwrap();
    for name in ["a", "b"] {
        assert!(reloaded(&pair.scratch, name).contains("all sessions are made anew"));
    }
    secured(&pair).unwrap();
    let third = Exchange::start(&topology.machine_a, &topology.machine_b, &other.exchanged()).unwrap();
    third.wait_for(20, DEADLINE).unwrap();
    third.stop().unwrap();
    pair.stop().unwrap();
}

/// Starts a pair whose gateways do not fit, and returns it when gateway A has said why.
fn misfit(words: &str, spoil: impl FnOnce(&Scratch, &CellChoice)) {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    let choice = CellChoice::new(&topology, DEVICES, CYCLE);
    let scratch = Scratch::new().unwrap();
    cells::keys(&scratch).unwrap();
    (0..2).for_each(|end| cells::configure(&scratch, end, &choice).unwrap());
    let mut a = Station::start(program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    spoil(&scratch, &choice);
    let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = exchange(&topology, &choice);
    wait_for_concern(&a, words);
    a.program().wait_for_line("no session with the other gateway", DEADLINE).unwrap();
    let heard = exchange.stop().unwrap();
    assert!(heard.iter().flatten().all(|heard| heard.received == 0), "fail closed");
    let wire = wire.stop().unwrap().complete().unwrap();
    assert_eq!((in_clear(&wire), wire.find(MARKER)), (0, None), "fail closed");
    Pair { a, b, scratch }.stop().unwrap();
}

#[test]
fn a_wrong_master_key_is_told() {
    misfit("HELLOs do not fit the master key", |scratch, _| {
        std::fs::remove_file(scratch.path().join("cell.key")).unwrap();
        keygen::fieldbus(&scratch.path().join("cell.key")).unwrap();
    });
}

#[test]
fn another_mode_is_told() {
    misfit("the other gateway has another protect or suite", |scratch, choice| {
        let other = CellChoice { protect: "authenticate", ..choice.clone() };
        cells::configure(scratch, 1, &other).unwrap();
    });
}

/// Nothing is persisted: after a restart, and after a crash, sessions are made anew, and no frame passes twice.
#[test]
fn a_gateway_that_is_started_again_is_taken_up_at_once() {
    let (topology, choice, Pair { a, mut b, scratch }) = lab(|_| {});
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        b.program().signal(signal).unwrap();
        let end = Instant::now() + DEADLINE;
        while b.program().is_running() {
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
        exchange.wait_for(20, DEADLINE).unwrap();
    }
    for heard in exchange.stop().unwrap().iter().flatten() {
        assert_eq!((heard.out_of_order, heard.changed), (0, 0));
        assert!(heard.missing > 0, "frames pass though a gateway is not there");
    }
    let sessions: Vec<_> =
        cell(&a).relations.iter().map(|relation| relation.receive.value("InSessions")).collect();
    assert!(sessions.iter().all(|count| *count >= 3), "{sessions:?}");
    Pair { a, b, scratch }.stop().unwrap();
}

#[test]
fn metrics_hold_what_status_holds() {
    let (topology, choice, pair) = lab(|choice| choice.gateway = HTTP);
    secured(&pair).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    exchange.stop().unwrap();
    // Reports are kept for a moment.
    std::thread::sleep(Duration::from_millis(150));
    let cell = cell(&pair.a);
    let text = get(&topology.gateway_a.namespace, "/metrics");
    let samples = parse_metrics(&pair.scratch, &text);
    let relation = &cell.relations[1];
    let labels: BTreeMap<String, String> = [
        ("fieldbus", "cell-4"),
        ("own", &relation.own),
        ("peer", &relation.peer),
        ("sends", &relation.sends),
        ("receives", &relation.receives),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let of = |name: &str, more: &[(&str, &str)]| {
        let mut labels = labels.clone();
        labels.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let found = samples[name].iter().find(|(known, _)| *known == labels);
        found.unwrap_or_else(|| panic!("{name} {labels:?}")).1
    };
    assert_eq!(
        of("frameward_fieldbus_transmit_out_pkts_protected_total", &[]),
        relation.transmit.value("OutPktsProtected")
    );
    assert_eq!(of("frameward_fieldbus_receive_in_pkts_ok_total", &[]), relation.receive.value("InPktsOK"));
    assert_eq!(of("frameward_fieldbus_relation_jitter_seconds_count", &[]), relation.jitter.count);
    let mut below = 0;
    let bounds =
        ["1e-06", "2e-06", "5e-06", "1e-05", "2e-05", "5e-05", "0.0001", "0.0002", "0.0005", "0.001"];
    assert_eq!(cell.bounds_ns[..10], [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map(|us| us * 1000));
    for (at, bound) in bounds.into_iter().enumerate() {
        below += relation.residence_outward.buckets[at];
        let name = "frameward_fieldbus_relation_residence_seconds_bucket";
        let found = samples[name].iter().find(|(known, _)| {
            let is = |name: &str, value: &str| known.get(name).is_some_and(|known| known == value);
            is("sends", &relation.sends)
                && is("way", "outward")
                && known.get("le").and_then(|le| le.parse::<f64>().ok()) == bound.parse().ok()
        });
        assert_eq!(found.unwrap_or_else(|| panic!("{bound}")).1, below);
    }
    assert_eq!(samples["frameward_fieldbus_relation_jitter_seconds_count"].len(), usize::from(DEVICES));
    pair.stop().unwrap();
}
