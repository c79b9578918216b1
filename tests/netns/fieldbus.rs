//! Cells end to end: a PLC and its devices exchange IO data every few milliseconds, every frame accounted for.

mod kernel;
mod master_keys;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use frameward::keygen;
use lab::cyclic::{Arrivals, Exchange};
use lab::topology::LEFT;
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
use super::{DEADLINE, EXPERIMENT, MARKER, marked, program};
pub(crate) use kernel::{CHACHA20, for_the_kernel, in_the_kernel, kernel_choice, takes_redirected_frames};

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

/// All IO data of `cycles` cycles arrives, both ways.
pub(crate) fn streams_are_whole(topology: &Topology, choice: &CellChoice, cycles: u64) {
    let exchange = exchange(topology, choice);
    exchange.wait_for(cycles, DEADLINE).unwrap();
    complete(&exchange.stop().unwrap(), cycles);
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
        assert!(reloaded(&pair.scratch, name).contains("sessions change to the preferred master key"));
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

/// One end gets another master key by a reload, while the other one keeps its session.
#[test]
fn a_wrong_master_key_that_comes_by_a_reload_is_told_at_both_ends() {
    let (topology, choice, pair) = lab(|_| {});
    secured(&pair).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    std::fs::remove_file(pair.scratch.path().join("cell.key")).unwrap();
    keygen::fieldbus(&pair.scratch.path().join("cell.key")).unwrap();
    reloaded(&pair.scratch, "b");
    let told = wait_for_verdict(&pair.a, "keys differ");
    let words = format!("compare its fingerprint, {}", cell(&pair.a).master_key);
    assert!(told.text.contains(&words) && !told.protecting, "{told:?}");
    wait_for_concern(&pair.b, &format!("compare the master key's fingerprint, {}", cell(&pair.b).master_key));
    exchange.stop().unwrap();
    pair.stop().unwrap();
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
