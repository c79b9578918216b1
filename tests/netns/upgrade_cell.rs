//! Another program in the place of a running gateway's whose cells exchange IO data: no cyclic frame is lost or comes twice, sessions go on, and
//! those in the kernel do not even wait.

use std::fs;
use std::time::Duration;

use frameward::keygen;
use lab::cyclic::{Arrivals, Exchange};
use lab::topology::LEFT;
use lab::{Capture, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::cells::{self, CellChoice, secured};
use perf::demo::pair::{Pair, Station};
use wire::EtherType;
use wire::fieldbus::ETHERTYPE;

use super::fieldbus::{cell, for_the_kernel, kernel_choice};
use super::lost_frames::{Lost, without_loss};
use super::upgrade::{
    asks_for_upgrade, install, install_script, refused, until, upgrade, upgraded, upgrades,
};
use super::{DEADLINE, MARKER, program};

const CYCLE: Duration = Duration::from_millis(1);
const DEVICES: u8 = 3;

fn user_space_choice(topology: &Topology) -> CellChoice {
    CellChoice { io: "af_packet", ..CellChoice::new(topology, DEVICES, CYCLE) }
}

fn user_space() -> Topology {
    Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap()
}

/// Sessions that each relation has had, at both gateways.
fn sessions(pair: &Pair) -> Vec<u64> {
    let stations = [&pair.a, &pair.b].into_iter();
    let of = |station: &Station| -> Vec<u64> {
        cell(station).relations.iter().map(|relation| relation.receive.value("InSessions")).collect()
    };
    stations.flat_map(of).collect()
}

/// Both gateways become another program again and again, while machines exchange IO data.
fn goes_on(make: impl Fn() -> (Topology, CellChoice), path: &str) {
    without_loss(|| {
        let (topology, choice) = make();
        let pair = cells::start(program(), &topology, &choice).unwrap();
        secured(&pair).unwrap();
        let exchange =
            Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
        exchange.wait_for(50, DEADLINE).unwrap();
        let (process, before) = (pair.a.id(), sessions(&pair));
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        upgraded(&pair.scratch, "a");
        upgraded(&pair.scratch, "b");
        let wire = wire.stop().unwrap().complete().unwrap();
        let waited: Vec<_> = (0..upgrades())
            .map(|round| {
                let waited = upgraded(&pair.scratch, ["a", "b"][(round % 2) as usize]);
                exchange.wait_for(5, DEADLINE).unwrap();
                waited
            })
            .collect();
        println!("{path}, {}: frames waited {waited:?} ms", choice.io);
        exchange.wait_for(50, DEADLINE).unwrap();
        assert_eq!(sessions(&pair), before, "no session was made because of it");
        let heard = exchange.stop().unwrap();
        let shadow = choice.relations.iter().any(|(_, mode)| *mode == "shadow");
        assert_eq!(wire.find(MARKER).is_some(), shadow, "plaintext is on the network");
        for Arrivals { out_of_order, changed, .. } in heard.iter().flatten() {
            assert_eq!((*out_of_order, *changed), (0, 0));
        }
        assert_eq!(pair.a.id(), process);
        let lost = Lost::of_cells(&heard, &topology, [&pair.a, &pair.b]);
        if lost.is_none() {
            counts_on(&pair, &choice, &heard, path);
        }
        pair.stop().unwrap();
        (lost, ())
    });
}

/// Both gateways have counted all frames, over all programs.
fn counts_on(pair: &Pair, choice: &CellChoice, heard: &[[Arrivals; 2]], path: &str) {
    for (end, station) in [&pair.a, &pair.b].into_iter().enumerate() {
        let report = station.report().unwrap();
        let cell = cell(station);
        assert!(cell.path.starts_with(path), "{}", cell.path);
        assert_eq!(report.upgrade.unwrap().count, 1 + upgrades() / 2);
        for ((relation, heard), (_, mode)) in cell.relations.iter().zip(heard).zip(&choice.relations) {
            let ok = if *mode == "shadow" { "InPktsShadow" } else { "InPktsOK" };
            assert_eq!(relation.state, "running", "{relation:?}");
            assert_eq!(relation.transmit.value("OutPktsProtected"), heard[1 - end].sent);
            assert_eq!(relation.receive.value(ok), heard[end].received);
            assert_eq!(relation.receive.value("InPktsMissing"), 0);
            assert_eq!(relation.receive.value("InPktsLate"), 0, "no frame comes twice");
            assert_eq!(relation.jitter.count, heard[end].received - 1);
        }
        let all: u64 = heard.iter().map(|heard| heard[1 - end].sent).sum();
        let came = report.links[0].plain.counters.value("RxFrames");
        assert_eq!(came < all / 10, path == "kernel", "{came} of {all} frames came to user space");
    }
}

#[test]
fn a_cell_in_user_space_is_upgraded_without_a_lost_frame() {
    // Many epochs begin meanwhile, also while a gateway becomes another program.
    let rows = [("af_packet", false, "epoch_frames = 1000"), ("af_xdp", true, "suite = \"gcm-aes-256\"")];
    for (io, drops, cell) in rows {
        let make = || {
            let topology = user_space();
            let choice = CellChoice { io, drops, cell, ..user_space_choice(&topology) };
            (topology, choice)
        };
        goes_on(make, "user space");
    }
}

#[test]
fn a_cell_in_shadow_mode_is_upgraded_without_a_lost_frame() {
    let make = || {
        let topology = user_space();
        let mut choice = user_space_choice(&topology);
        choice.relations.iter_mut().skip(1).for_each(|(_, mode)| *mode = "shadow");
        (topology, choice)
    };
    goes_on(make, "user space");
}

#[test]
fn a_cell_in_the_kernel_is_upgraded_without_a_lost_frame() {
    for io in ["auto", "kernel"] {
        let make = || {
            let topology = for_the_kernel();
            let mut choice = kernel_choice(&topology, io);
            choice.relations.iter_mut().for_each(|(relation, _)| relation.cycle = CYCLE);
            (topology, choice)
        };
        goes_on(make, "kernel");
    }
}

/// A gateway whose program is a file of the test's own, with its peer.
fn with_own_program(topology: &Topology, choice: &CellChoice) -> (std::path::PathBuf, Pair) {
    let scratch = cells::configured(choice).unwrap();
    let own = scratch.path().join("frameward");
    install(program(), &own);
    let a = Station::start(&own, &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    let pair = Pair { a, b, scratch };
    secured(&pair).unwrap();
    (own, pair)
}

/// Cells in user space and in the kernel, with their topologies.
fn both_places() -> [(Topology, CellChoice); 2] {
    let (user, kernel) = (user_space(), for_the_kernel());
    let choices = (user_space_choice(&user), kernel_choice(&kernel, "auto"));
    [(user, choices.0), (kernel, choices.1)]
}

/// A state that does not fit, another key, and a program that cannot be begun: everything stays as it was.
#[test]
fn a_cell_that_cannot_go_on_is_left_as_it_was() {
    for (topology, choice) in both_places() {
        let (own, pair) = with_own_program(&topology, &choice);
        let exchange =
            Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
        exchange.wait_for(20, DEADLINE).unwrap();
        let before = sessions(&pair);
        let key = pair.scratch.path().join("cell.key");
        let kept = fs::read_to_string(&key).unwrap();
        fs::remove_file(&key).unwrap();
        keygen::fieldbus(&key).unwrap();
        let why = refused(&pair.scratch, "a");
        assert!(why.contains("frameward reload first"), "{why}");
        fs::write(&key, kept).unwrap();
        for (garble, why) in [
            (
                r#"s/"master_key":\[[0-9]*,[0-9]*/"master_key":[0,0/g"#,
                "a session rests on another master key",
            ),
            (r#"s/"hello":\[[0-9]*,/"hello":[/g"#, "the state of its cell is garbled"),
            (r#"s/"cell":{/"cel":{/g"#, "with a [[fieldbus]], or without one"),
        ] {
            let judge = format!("sed '{garble}' | {} \"$@\"", program().display());
            install_script(&pair.scratch, &format!("[ \"$1\" = go-on ] || exit 1\n{judge}"), &own);
            let said = refused(&pair.scratch, "a");
            assert!(said.contains("refuses: link \"press\": ") && said.contains(why), "{said}");
        }
        install_script(&pair.scratch, "chmod a-x \"$0\"", &own);
        let why = refused(&pair.scratch, "a");
        assert!(why.contains("cannot become"), "{why}");
        exchange.wait_for(20, DEADLINE).unwrap();
        install(program(), &own);
        upgraded(&pair.scratch, "a");
        exchange.wait_for(20, DEADLINE).unwrap();
        assert_eq!(sessions(&pair), before, "no session was made because of it");
        assert!(exchange.stop().unwrap().iter().flatten().all(Arrivals::is_complete));
        pair.stop().unwrap();
    }
}

/// Killed while it becomes another program, or by that: sessions are made anew, and no frame is delivered twice over all lives.
#[test]
fn a_gateway_with_a_cell_that_dies_in_an_upgrade_begins_anew() {
    for (topology, choice) in both_places() {
        let (own, Pair { mut a, b, scratch }) = with_own_program(&topology, &choice);
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let exchange =
            Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
        for round in 0..6 {
            exchange.wait_for(20, DEADLINE).unwrap();
            if round % 3 == 2 {
                // The new program ends as soon as it has begun.
                install_script(&scratch, "[ \"$1\" = go-on ] || exit 1", &own);
                assert!(!upgrade(&scratch, "a").status.success());
                install(program(), &own);
            } else {
                let command = asks_for_upgrade(&scratch, "a");
                let asking = lab::Program::spawn(&command.each_ref().map(String::as_str)).unwrap();
                std::thread::sleep(Duration::from_millis(70 + 25 * round));
                a.program().signal(Signal::SIGKILL).unwrap();
                asking.wait(DEADLINE).unwrap();
            }
            until("it ends", || !a.program().is_running());
            a = Station::start(&own, &topology.gateway_a.namespace, &scratch, "a").unwrap();
        }
        exchange.wait_for(20, DEADLINE).unwrap();
        for heard in exchange.stop().unwrap().iter().flatten() {
            assert_eq!((heard.out_of_order, heard.changed), (0, 0));
        }
        let begun = cell(&b).relations[0].receive.value("InSessions");
        assert!(begun >= 7, "{begun} sessions");
        let wire = wire.stop().unwrap().complete().unwrap();
        let known = [ETHERTYPE.0, EtherType::MACSEC.0].map(Some);
        assert!(
            wire.frames.iter().all(|frame| known.contains(&frame.ethertype())),
            "something else is there"
        );
        Pair { a, b, scratch }.stop().unwrap();
    }
}
