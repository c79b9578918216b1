//! `frameward-lab bench fragment`, `bench link`, `bench overload`, `bench antedate` and `bench fleet` measure every case they promise, `bench tunnel` its flood, its full uplink,
//! and leave nothing behind. One round, and a short one: but for what a flood costs, the figures are not judged here.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use bench::Row;
use lab::topology::{PLAIN, PROTECTED};
use lab::{Direction, Machine, Namespace, PacketSocket, Shape, Topology};
use perf::bench::cable;
use perf::bench::fieldbus::{self, end_to_end};
use perf::bench::forwarder::COMMAND;
use perf::bench::rivals::Rival;
use perf::bench::tunnel::{cable as sites, uplink};
use perf::bench::{Bench, BenchError, Effort, fleet, overload};
use perf::demo::pair::Scratch;
use perf::programs::Programs;
use suite::CipherSuite;
use testkit::frames;
use wire::{EtherType, MacAddr};

/// Time anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// Benches at a time: each floods the CPUs, and starves the senders of the others.
const AT_ONCE: usize = 2;
/// Benches that measure, and word that one has ended.
static MEASURING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// The right to measure.
struct Turn;

impl Turn {
    fn wait() -> Self {
        let (measuring, ended) = &MEASURING;
        *ended.wait_while(measuring.lock().unwrap(), |measuring| *measuring == AT_ONCE).unwrap() += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (measuring, ended) = &MEASURING;
        *measuring.lock().unwrap() -= 1;
        ended.notify_one();
    }
}

/// Both programs; the tests of a workspace stand beside them.
fn programs() -> Programs {
    let lab = Path::new(env!("CARGO_BIN_EXE_frameward-lab"));
    Programs::in_directory(lab.parent().unwrap()).unwrap()
}

/// One short round of everything.
fn short(measure: fn(&mut Bench<'_>) -> Result<(), BenchError>) -> Vec<Row> {
    let rows = short_of(&[], measure).unwrap();
    for row in rows.iter().filter_map(|row| row.ratio.as_ref()) {
        assert!(rows.iter().any(|other| other.case == row.to), "{} was not measured", row.to);
    }
    rows
}

/// One short round of figures with such names.
fn short_of(
    only: &[String],
    measure: fn(&mut Bench<'_>) -> Result<(), BenchError>,
) -> Result<Vec<Row>, BenchError> {
    let (_turn, mut rows) = (Turn::wait(), Vec::new());
    let mut bench = Bench {
        programs: &programs(),
        effort: Effort { rounds: 1, time: Duration::from_millis(200), round_trips: 5 },
        only,
        progress: &mut |line| println!("{line}"),
        figure: &mut |row| rows.push(row),
    };
    measure(&mut bench)?;
    Ok(rows)
}

#[test]
fn every_case_has_a_figure_and_every_figure_a_comparison() {
    let rows = short(|bench| bench.fragment());
    // Of a transfer so short the CPU may not have counted a tick.
    let positive = |row: &Row| row.value > 0.0 || row.unit == "%";
    assert!(rows.iter().all(|row| positive(row) && row.bench == "fragment"), "{rows:?}");
    // Six in memory; five ways for three payloads, each with goodput, CPU and twice two round trips; small frames.
    assert_eq!(rows.len(), 6 + 3 * 5 * 6 + 6 + 5 + 4);
    let references = rows.iter().filter(|row| row.ratio.is_none() && row.unit != "%").count();
    assert_eq!(references, 2 + 3 * 5 + 3, "each comparison has one reference");
}

/// Two CPUs, two suites, ordinary and antedated; six lengths, two percentiles.
#[test]
fn round_trips_are_measured_antedated_beside_ordinary() {
    let rows = short(|bench| bench.antedate());
    let shares = |row: &&Row| row.unit == "%";
    assert_eq!(rows.len() - rows.iter().filter(shares).count(), 2 * 2 * 2 * 6 * 2);
    assert_eq!(rows.iter().filter(|row| row.ratio.is_some()).count(), 2 * 2 * 6 * 2);
    // One at a time, with pauses between them: what is made ahead is used.
    assert!(rows.iter().all(|row| row.value > 0.0 && row.bench == "antedate"), "{rows:?}");
    assert_eq!(rows.iter().filter(shares).count(), 2 * 2);
}

#[test]
#[ignore = "a minute: make test-benches"]
fn a_link_is_compared_with_what_stands_around_it() {
    let rows = short(|bench| bench.link());
    // Of a transfer so short the CPU may not have counted a tick.
    let positive = |row: &Row| row.value > 0.0 || row.unit == "s/Gbit" || row.unit == "%";
    assert!(rows.iter().all(|row| positive(row) && row.bench == "link"), "{rows:?}");
    // Over a cable: redirect, bridge, user space, kernel, the kernel beside the other two, and of how many frames the keystream was ready; six kinds of frames.
    // Programs in the kernel: three lengths both ways, with and without keystream ahead, and one that ends at once. A
    // bridge, programs of a link in the kernel, with and without keystream ahead, and gateways whose link is there; bare, unprotected and ten suites on AF_XDP; bare, unprotected and one suite on AF_PACKET. Two sizes,
    // goodput, CPU, three percentiles. Then three ways of polling, idle and under load. Express frames beside a gigabit: four ways, three percentiles. And what a gigabit costs in the kernel, beside user space.
    let cases = 4 + 2 + CipherSuite::ALL.len() + 3;
    assert_eq!(rows.len(), 7 * 6 + 2 * 3 * 2 + 1 + cases * (2 + 2 + 3) + 3 * 3 * 2 + 4 * 3 + 1);
    let gcm = rows.iter().find(|row| row.case == "TCP, gcm-aes-128, af_packet").unwrap();
    assert_eq!(gcm.ratio.as_ref().unwrap().to, "TCP, unprotected, af_packet");
    let cabled: Vec<_> = rows.iter().filter(|row| row.case.contains(cable::CABLE)).collect();
    assert_eq!(cabled.len(), 7 * 6, "{cabled:?}");
    // Beside bridges, for each length of its own and for both ways at once.
    let judged = cabled.iter().filter(|row| row.target.is_some());
    let beside_bridges =
        |row: &&Row| row.ratio.as_ref().is_some_and(|ratio| ratio.to.ends_with(cable::BRIDGE));
    assert_eq!(
        (judged.clone().count(), judged.filter(|row| beside_bridges(row)).count()),
        (4, 4),
        "{cabled:?}"
    );
}

#[test]
fn only_what_is_asked_for_is_measured_and_what_it_is_compared_with() {
    let only = |texts: &[&str]| {
        let texts: Vec<_> = texts.iter().copied().map(String::from).collect();
        short_of(&texts, |bench| bench.link())
    };
    let names = |rows: Vec<Row>| rows.into_iter().map(|row| row.case).collect::<Vec<_>>();
    let rows = only(&["64-octet frames, unprotected, af_packet", "p50, interrupt"]).unwrap();
    let loaded = "one hop, round trip beside 50000 frames/s";
    let percentiles = |what: &str| {
        ["p50", "p99", "p99.9"]
            .map(|p| ["busy", "interrupt"].map(|case| format!("{what} {p}, {case}")))
            .concat()
    };
    let mut expected =
        ["bare forwarder", "unprotected"].map(|case| format!("64-octet frames, {case}, af_packet")).to_vec();
    expected.extend(percentiles("one hop, round trip"));
    expected.extend(percentiles(loaded));
    assert_eq!(names(rows), expected);
    assert!(matches!(only(&["no such figure"]), Err(BenchError::Unknown)));
}

/// All protected modes, one of them in the kernel as well, alone and beside three kinds of packets.
#[test]
fn what_a_flood_costs_others_is_measured_without_rivals() {
    // Somebody else may have the machine for a while. Whoever spends four times as much on a made-up packet as on a real one never
    // gets there: a quarter and twice the whole is more than two times what there is.
    const TRIES: usize = 4;
    const LEFT: f64 = 0.5;
    let ratio = |row: &Row| row.ratio.as_ref().map_or(1.0, |ratio| ratio.value);
    for tried in 1..=TRIES {
        let rows = short_of(&["a quarter load".to_owned()], |bench| bench.tunnel()).unwrap();
        assert_eq!(rows.len(), 3 * (1 + 3), "{rows:?}");
        for row in &rows {
            assert!(row.case.starts_with("a quarter load") && row.value > 0.0, "{row:?}");
            assert_eq!(row.target.is_some(), row.case.contains("beside"), "{row:?}");
        }
        let worst = rows.iter().map(ratio).fold(f64::INFINITY, f64::min);
        println!("{worst} is left of a quarter load");
        if worst >= LEFT {
            break;
        }
        assert!(
            tried < TRIES,
            "of a quarter load {worst} is left beside half a load of made-up packets: {rows:?}"
        );
    }
    let refused = short_of(&["no such figure".to_owned()], |bench| bench.tunnel());
    assert!(matches!(refused, Err(BenchError::Unknown)));
}

/// A frame that needs two packets goes through all that stands there but plain mode, which splits none.
#[test]
#[ignore = "a minute: make test-benches"]
fn frames_that_need_two_packets_have_round_trips() {
    let rows = short_of(&["round trip of 1560 octets".to_owned()], |bench| bench.tunnel()).unwrap();
    let rivals: Vec<_> = Rival::ALL.into_iter().filter(|rival| rival.missing().is_none()).collect();
    // Ours also stand beside WireGuard, if that is here.
    let ours = if rivals.contains(&Rival::WireguardGo) { 2 * 3 } else { 3 };
    assert_eq!(rows.len(), 2 * (rivals.len() + ours), "{rows:?}");
    assert!(rows.iter().all(|row| row.value > 0.0 && !row.case.contains("plain mode")), "{rows:?}");
    assert!(rows.iter().all(|row| row.target.is_none()), "{rows:?}");
}

/// Three cases, each with p50 and p99.
#[test]
fn cyclic_frames_at_a_full_uplink_are_measured_with_and_without_its_rate() {
    // A queue of 100 ms is full. Somebody else may have the machine for half of that.
    const TRIES: usize = 4;
    for tried in 1..=TRIES {
        let rows = short_of(&[uplink::UPLINK.to_owned()], |bench| bench.tunnel()).unwrap();
        assert_eq!(rows.len(), 2 * 3, "{rows:?}");
        assert!(rows.iter().all(|row| row.value > 0.0 && row.case.starts_with(uplink::UPLINK)), "{rows:?}");
        assert_eq!(rows.iter().filter(|row| row.target.is_some()).count(), 2, "{rows:?}");
        let with = rows.iter().find(|row| row.case.contains("rate = ") && row.case.ends_with("p99")).unwrap();
        if with.ratio.as_ref().unwrap().value < 0.5 {
            break;
        }
        assert!(tried < TRIES, "{rows:?}");
    }
}

/// Sites in the kernel over a cable, beside all that they are compared with.
#[test]
fn sites_in_the_kernel_are_measured_beside_what_xdp_can_do() {
    let rows = short_of(&[cable::CABLE.to_owned()], |bench| bench.tunnel()).unwrap();
    let rivals = Rival::ALL.into_iter().filter(|rival| rival.missing().is_none()).count();
    // Redirect, bridge, user space, kernel; the kernel beside each of the others. Two sizes, two round trips with p50 and p99.
    let cases = 4 + rivals;
    assert_eq!(rows.len(), 6 * (cases + cases - 2), "{rows:?}");
    assert!(rows.iter().all(|row| row.value > 0.0 && row.case.contains(cable::CABLE)), "{rows:?}");
    for row in &rows {
        let to = row.ratio.as_ref().map(|ratio| &ratio.to);
        assert!(to.is_none_or(|to| rows.iter().any(|other| other.case == *to)), "{row:?}");
        assert!(row.target.is_none() || row.case.ends_with(sites::KERNEL), "{row:?}");
    }
    // At least: of redirect for both sizes, of each rival at 64 octets; at most: of the bridge's two round trips.
    assert_eq!(rows.iter().filter(|row| row.target.is_some()).count(), 2 + rivals + 2, "{rows:?}");
    // Frames that go through user space cost many times as much: one that does not stay in the kernel is found out.
    let rate = |case: &str| {
        let name = cable::figure("64-octet frames", case);
        rows.iter().find(|row| row.case == name).unwrap().value
    };
    assert!(rate(sites::KERNEL) > 2.0 * rate(sites::USER_SPACE), "{rows:?}");
}

/// Few relations through all places, as many as a cell takes through a bridge and the kernel.
#[test]
fn cyclic_frames_are_accounted_for_in_every_place() {
    let effort = fieldbus::Effort { rounds: 1, time: Duration::from_millis(400) };
    let rows = end_to_end::measure(&programs(), effort, &mut |line| println!("{line}")).unwrap();
    // Four delays and what they add, two of jitter, stolen time, seven kinds of frames.
    let places = |places: usize| 4 * (2 * places - 1) + 2 * places + places + 7 * places;
    assert_eq!(rows.len(), places(4) + places(2), "{rows:?}");
    for place in ["Linux bridge", "gateways, in the kernel"] {
        let frames = |what: &str| {
            let name = format!("frames {what}, {place}, 1024 relations at 32 ms");
            rows.iter().find(|row| row.case == name).unwrap().value
        };
        assert!(frames("sent") >= 2.0 * 1024.0, "{place}");
        assert!(frames("received") > 0.0 && frames("changed") == 0.0, "{place}: {rows:?}");
    }
    // Three delays, two of jitter, lost and late frames, for few relations and many.
    assert_eq!(rows.iter().filter(|row| row.target.is_some()).count(), 2 * (3 + 2 + 2), "{rows:?}");
}

#[test]
#[ignore = "a minute: make test-benches"]
fn overload_is_offered_to_links_and_to_their_limits() {
    // A quarter, alone, and beside three kinds of strangers' frames with what they sent; status, a session's keystrokes, MKPDUs.
    let gateway = 1 + 2 * 9 + 2;
    let cases = [
        ("Linux bridge", 0),
        ("bare forwarder", 0),
        ("static keys", gateway),
        ("key agreement", gateway + 1),
    ];
    overloaded(&cases);
}

#[test]
#[ignore = "a minute: make test-benches"]
fn overload_is_offered_to_sites_and_to_kernel_vxlan() {
    let site = 1 + 2 * 9 + 2;
    overloaded(&[
        (overload::VXLAN, 0),
        ("site, header encryption", site),
        ("site, identifiers", site),
        (overload::KERNEL_SITE, site),
    ]);
}

#[test]
fn overload_is_offered_to_cells_and_to_their_limit() {
    // And handshakes, alone and beside three kinds of strangers' frames.
    let cell = 1 + 2 * 9 + 2 + 4;
    overloaded(&[(overload::UNPROTECTED_CELL, 0), ("cell", cell), (overload::KERNEL_CELL, cell)]);
}

/// These cases alone, each with so many figures beside its curves, have them.
fn overloaded(cases: &[(&str, usize)]) {
    let only: Vec<_> = cases.iter().map(|(case, _)| (*case).to_owned()).collect();
    let rows = short_of(&only, |bench| bench.overload()).unwrap();
    let figures = |case: &str| rows.iter().filter(|row| row.case.ends_with(case)).count();
    // Lossless, and for each multiple what was sent and what arrived, both ways also by the slower one.
    let curves = 1 + 2 * overload::TIMES.len() + 3 * overload::TIMES_BOTH.len();
    for (case, others) in cases {
        assert_eq!(figures(case), curves + others, "{case}: {rows:?}");
    }
    assert_eq!(rows.len(), cases.iter().map(|(_, others)| curves + others).sum::<usize>(), "{rows:?}");
    // Good frames get through, and the gateways still answer. In a window of some milliseconds beside other tests that is so
    // below the lossless rate; beyond it a process may not have had a CPU in it.
    let is_judged =
        |case: &str| ["lossless", "offered", "a quarter alone"].iter().any(|of| case.starts_with(of));
    assert!(rows.iter().filter(|row| is_judged(&row.case)).all(|row| row.value > 0.0), "{rows:?}");
    for row in &rows {
        let to = row.ratio.as_ref().map(|ratio| &ratio.to);
        assert!(to.is_none_or(|to| rows.iter().any(|other| other.case == *to)), "{row:?}");
        // The sent frames stand beside the arrived ones, as a multiple of the lossless rate.
        let sent = ["offered", "sent by a stranger"].iter().any(|sent| row.case.starts_with(sent));
        assert!(!sent || to.is_some_and(|to| to.starts_with("lossless")), "{row:?}");
        let gets_through =
            ["status", "keystroke", "MKPDUs", "handshakes"].iter().any(|what| row.case.starts_with(what));
        assert!(!gets_through || row.value < 5000.0, "{row:?}");
    }
}

/// Agents of two and a half groups, their own code, with an etcd.
#[test]
#[ignore = "a minute: make test-benches"]
fn a_change_in_a_fleet_is_told_to_those_alone_whom_it_concerns() {
    let (_turn, mut rows) = (Turn::wait(), Vec::new());
    let effort = fleet::Effort { agents: vec![25], rounds: 2, rest: Duration::from_secs(11) };
    fleet::measure(&programs(), &effort, &mut |line| println!("{line}"), &mut |row| rows.push(row)).unwrap();
    let figure = |name: &str| {
        let case = fleet::case(name, 25);
        rows.iter().find(|row| row.case == case).unwrap_or_else(|| panic!("{case}: {rows:?}"))
    };
    assert_eq!(rows.len(), 13);
    // The groups have ten members and fifteen: each member had one message, and nobody else any.
    assert_eq!(figure(fleet::EVENTS).values, [0.0, 0.0]);
    assert_eq!(figure(fleet::REVOKED).values.len(), 2);
    // Agents do not ask while etcd notifies their watches. Without that each would within half a minute.
    let requests = figure(fleet::REQUESTS).value;
    assert!(requests < 0.5, "{requests}");
    let positive = [
        fleet::PUBLISHED,
        fleet::COLD_START,
        fleet::WAYS[0],
        fleet::CONTROLLER,
        fleet::ETCD,
        fleet::AGENT,
        fleet::CPU,
    ];
    assert!(positive.iter().all(|name| figure(name).value > 0.0), "{rows:?}");
    let ways = fleet::WAYS.map(|name| figure(name).value);
    assert!(ways.is_sorted(), "{ways:?}");
}

/// Changes to the interfaces of a box.
fn settings(namespace: &Namespace) -> String {
    let of = |interface: &str| {
        let link = namespace.ip(&["-d", "link", "show", interface]).unwrap().stdout;
        link + &namespace.run(&["ethtool", "-k", interface]).unwrap().stdout
    };
    of(PLAIN) + &of(PROTECTED)
}

/// Waits until the settings are `before`: the kernel takes some things back a moment after a process has ended.
fn wait_until_restored(namespace: &Namespace, before: &str) {
    let end = Instant::now() + DEADLINE;
    while settings(namespace) != before {
        assert!(Instant::now() < end, "left behind:\n{}\ninstead of\n{before}", settings(namespace));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A full frame from one machine to the other arrives octet for octet.
fn carries(from: &Machine, to: &Machine) {
    // An EtherType for experiments (IEEE 802): the kernel's stack ignores it.
    let payload = frames::payload(1500, 1);
    let sent = frames::ethernet(MacAddr(to.mac), MacAddr(from.mac), EtherType(0x88b5), &payload);
    let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    let mut receiver = PacketSocket::open(&to.namespace, to.ifname).unwrap();
    sender.send(&sent).unwrap();
    let end = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < end, "it did not arrive");
        let received = receiver.receive().unwrap();
        if received.is_some_and(|frame| frame.direction == Direction::In && frame.octets == sent) {
            return;
        }
    }
}

/// It sends in clear: it must not run by accident.
#[test]
fn a_bare_forwarder_runs_only_where_its_parent_made_a_laboratory() {
    let topology = Topology::build(&Shape::default()).unwrap();
    topology.gateway_b.bridge().unwrap();
    let namespace = &topology.gateway_a.namespace;
    let scratch = Scratch::new().unwrap();
    let (programs, records) = (programs(), scratch.path().join("records"));
    let program = programs.lab.to_str().unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    for io in ["af_xdp", "af_packet"] {
        let command = [program, COMMAND, io, records.to_str().unwrap()];
        // Here the shell is its parent, and has made nothing.
        let by_hand = format!("{}; exit $?", command.join(" "));
        let refused = namespace.run(&["sh", "-c", &by_hand]).unwrap_err().to_string();
        assert!(refused.contains("sends everything in clear and is no gateway"), "{refused}");
        let before = settings(namespace);
        let mut forwarder = namespace.spawn_held(&command).unwrap();
        forwarder.wait_for_line("forwards in clear", DEADLINE).unwrap();
        assert_ne!(settings(namespace), before, "the interfaces are prepared");
        for (from, to) in [(a, b), (b, a)] {
            carries(from, to);
        }
        let output = forwarder.release(DEADLINE).unwrap();
        assert!(output.status.success(), "{}", output.stderr);
        wait_until_restored(namespace, &before);
    }
}

#[test]
fn what_sends_in_clear_is_hidden_and_refuses_to_run_outside_of_a_laboratory() {
    let scratch = Scratch::new().unwrap();
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(programs().lab)
            .args(arguments)
            .current_dir(scratch.path())
            .output()
            .unwrap();
        let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (_, help, _) = run(&["--help"]);
    assert!(help.contains("evidence") && !help.contains(COMMAND), "{help}");
    let (status, stdout, stderr) = run(&[COMMAND, "af_packet", "records"]);
    assert_eq!((status, stdout.as_str(), stderr.lines().count()), (Some(1), "", 1), "{stderr}");
    assert!(stderr.contains("sends everything in clear and is no gateway"), "{stderr}");
    assert!(!scratch.path().join("records").exists());
    for of_others in [["--only", "gcm"], ["--agents", "100"]] {
        let (status, _, stderr) = run(&[&["bench", "suites"], &of_others[..]].concat());
        assert_eq!((status, stderr.lines().count()), (Some(2), 1), "{stderr}");
    }
}
