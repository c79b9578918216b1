//! Cells in the kernel, end to end, and their way there and back.

use std::time::{Duration, Instant};

use lab::topology::{LEFT, PROTECTED, RIGHT};
use lab::traffic::{self, Ip};
use lab::{Capture, Frame, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::cells::{self, CellChoice, only_cell, secured};
use perf::demo::pair::{Pair, Scratch, Station};
use wire::EtherType;
use wire::fieldbus::ETHERTYPE;

use super::{CYCLE, DEVICES, add_and_remove_relations, cell, complete, exchange};
use crate::held_links;
use crate::reload::reloaded;
use crate::service::has_what_it_needs_alone;
use crate::vanish::until_reopened;
use crate::{DEADLINE, MARKER, program};

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

/// A cell that the kernel cannot have is in user space, which says why.
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

/// Frames stop for a handshake, and not for somebody who holds the kernel's lock of all interfaces: the programs stand aside.
#[test]
fn a_cell_leaves_and_enters_the_kernel_while_others_hold_the_lock_of_interfaces() {
    let topology = for_the_kernel();
    let mut choice = kernel_choice(&topology, "auto");
    let scratch = cells::configured(&choice).unwrap();
    let a = held_links::start(&topology.gateway_a.namespace, &scratch, "a");
    let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    let pair = Pair { a, b, scratch };
    secured(&pair).unwrap();
    let mut moves = |ways: &[(&'static str, &str)]| {
        let exchange = exchange(&topology, &choice);
        exchange.wait_for(50, DEADLINE).unwrap();
        for (io, path) in ways {
            choice.io = io;
            cells::configure(&pair.scratch, 0, &choice).unwrap();
            held_links::hold_questions_too(&pair.scratch, || {
                reloaded(&pair.scratch, "a");
                secured(&pair).unwrap();
            });
            assert_eq!(cell(&pair.a).path, *path);
        }
        exchange.wait_for(50, DEADLINE).unwrap();
        for heard in exchange.stop().unwrap().iter().flatten() {
            assert!(heard.longest_gap < held_links::HELD / 2, "{:?}", heard.longest_gap);
        }
    };
    let (out, back) = (("af_xdp", "user space: io says so"), ("auto", "kernel"));
    moves(&[out, back, out]);
    // Behind ports that were opened in user space there are no programs: these are put there first.
    topology.gateway_a.namespace.ip(&["link", "set", PROTECTED, "mtu", "1499"]).unwrap();
    until_reopened(&pair.a, PROTECTED, "1499");
    moves(&[back]);
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
