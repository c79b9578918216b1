//! Cells in the kernel while everything around them changes: ports, MTUs, `io`, either gateway. Nothing passes in clear, no Seq comes
//! twice, and the frames flow again the way they should.

use std::time::{Duration, Instant};

use lab::cyclic::{Arrivals, Exchange};
use lab::topology::{LEFT, PLAIN, PROTECTED, RIGHT};
use lab::{Capture, PacketSocket, Topology};
use nix::sys::signal::Signal;
use perf::demo::cells::{self, CellChoice, secured};
use perf::demo::pair::{Pair, Station};
use wire::EtherType;

use super::cells::no_seq_twice;
use super::fieldbus::{CHACHA20, cell, for_the_kernel, in_the_kernel, kernel_choice};
use super::reload::reloaded;
use super::vanish::until_reopened;
use super::{DEADLINE, MARKER, program};

fn exchange(topology: &Topology, choice: &CellChoice) -> Exchange {
    Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap()
}

/// Neither a frame of PROFINET nor what a machine has written was on the network, and no key has protected two frames with one Seq.
fn all_protected(wire: Capture) {
    let wire = wire.stop().unwrap();
    assert_eq!(wire.of_ethertype(EtherType::PROFINET.0).count(), 0, "cyclic data in clear");
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    assert!(no_seq_twice(wire.frames.iter()) > 0);
}

/// No frame was delivered twice, out of order or changed; how many are missing is not the point here.
fn in_order(heard: &[[Arrivals; 2]]) {
    for heard in heard.iter().flatten() {
        assert_eq!((heard.out_of_order, heard.changed), (0, 0), "{heard:?}");
    }
}

/// An MTU that changes closes the ports, and with them goes the kernel's part of the frame path.
#[test]
fn a_cell_in_the_kernel_goes_on_behind_ports_that_were_opened_again() {
    let (topology, choice, pair) = in_the_kernel("auto", "encrypt");
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    for (interface, mtu) in [(PROTECTED, "1400"), (PLAIN, "1300"), (PROTECTED, "1500"), (PLAIN, "1500")] {
        topology.gateway_a.namespace.ip(&["link", "set", interface, "mtu", mtu]).unwrap();
        until_reopened(&pair.a, interface, mtu);
        exchange.wait_for(20, DEADLINE).unwrap();
        assert_eq!(cell(&pair.a).path, "kernel", "{interface} {mtu}");
    }
    in_order(&exchange.stop().unwrap());
    all_protected(wire);
    pair.stop().unwrap();
}

/// A protected side whose MTU no program takes, for a while.
#[test]
fn a_cell_comes_back_to_the_kernel_when_its_mtu_does() {
    let (topology, choice, pair) = in_the_kernel("auto", "encrypt");
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    for (mtu, path) in
        [("3000", "user space: the kernel path takes an MTU of up to 2036"), ("1500", "kernel")]
    {
        topology.gateway_a.namespace.ip(&["link", "set", PROTECTED, "mtu", mtu]).unwrap();
        until_reopened(&pair.a, PROTECTED, mtu);
        exchange.wait_for(20, DEADLINE).unwrap();
        assert!(cell(&pair.a).path.starts_with(path), "{mtu}: {}", cell(&pair.a).path);
    }
    in_order(&exchange.stop().unwrap());
    all_protected(wire);
    pair.stop().unwrap();
}

#[test]
fn a_cell_moves_and_its_gateways_start_again_under_traffic() {
    let (topology, mut choice, Pair { mut a, mut b, scratch }) = in_the_kernel("auto", "encrypt");
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    for round in 0..4 {
        choice.io = ["af_xdp", "auto"][round % 2];
        for (end, name) in ["a", "b"].into_iter().enumerate() {
            cells::configure(&scratch, end, &choice).unwrap();
            reloaded(&scratch, name);
            exchange.wait_for(20, DEADLINE).unwrap();
        }
        let (station, namespace, name) = match round {
            0 | 1 => (&mut a, &topology.gateway_a.namespace, "a"),
            _ => (&mut b, &topology.gateway_b.namespace, "b"),
        };
        station.program().signal(Signal::SIGKILL).unwrap();
        while station.program().is_running() {
            std::thread::sleep(Duration::from_millis(2));
        }
        *station = Station::start(program(), namespace, &scratch, name).unwrap();
        exchange.wait_for(20, DEADLINE).unwrap();
    }
    // Frames that were on the network are played to both.
    let recorded: Vec<_> = wire.since(0).into_iter().filter(super::cells::data).collect();
    let attackers = [LEFT, RIGHT].map(|side| PacketSocket::open(&topology.middle, side).unwrap());
    for (number, frame) in recorded.iter().enumerate().filter(|(number, _)| number % 7 == 0) {
        attackers[number % 2].send(&frame.octets).unwrap();
    }
    exchange.wait_for(10, DEADLINE).unwrap();
    in_order(&exchange.stop().unwrap());
    assert!(no_seq_twice(recorded.iter()) > 200);
    drop(wire);
    Pair { a, b, scratch }.stop().unwrap();
}

#[test]
fn epochs_change_in_the_kernel_without_a_lost_frame() {
    let topology = for_the_kernel();
    let cell_text: &'static str = "suite = \"chacha20-poly1305\"\nepoch_frames = 256";
    assert!(cell_text.starts_with(CHACHA20));
    let choice = CellChoice { cell: cell_text, ..kernel_choice(&topology, "kernel") };
    let pair = cells::start(program(), &topology, &choice).unwrap();
    secured(&pair).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(900, 4 * DEADLINE).unwrap();
    let heard = exchange.stop().unwrap();
    for heard in heard.iter().flatten() {
        assert!(heard.is_complete(), "{heard:?}");
    }
    for station in [&pair.a, &pair.b] {
        for relation in &cell(station).relations {
            assert!(relation.transmit.value("OutEpochs") >= 3, "{relation:?}");
            assert!(relation.receive.value("InEpochs") >= 3, "{relation:?}");
        }
    }
    all_protected(wire);
    pair.stop().unwrap();
}

/// The other end of a virtual wire loses what redirected frames need, and gets it again. No program hears of it: what it sends is lost,
/// and counted as sent.
#[test]
fn a_cell_leaves_the_kernel_when_a_port_takes_no_redirected_frames() {
    for (io, without) in [
        ("auto", "user space: its protected port takes no redirected frames"),
        ("kernel", "nowhere: its protected port takes no redirected frames"),
    ] {
        let (topology, choice, pair) = in_the_kernel(io, "encrypt");
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let exchange = exchange(&topology, &choice);
        exchange.wait_for(20, DEADLINE).unwrap();
        for (gro, path) in [("off", without), ("on", "kernel")] {
            topology.middle.run(&["ethtool", "-K", LEFT, "gro", gro]).unwrap();
            let end = Instant::now() + DEADLINE;
            while !cell(&pair.a).path.starts_with(path) {
                assert!(Instant::now() < end, "{path:?} is not {:?}", cell(&pair.a).path);
                std::thread::sleep(Duration::from_millis(20));
            }
            if io == "auto" || gro == "on" {
                exchange.wait_for(20, DEADLINE).unwrap();
            }
        }
        in_order(&exchange.stop().unwrap());
        all_protected(wire);
        pair.stop().unwrap();
    }
}

/// A reload sees that before the look of each second does.
#[test]
fn a_reload_that_finds_ports_unfit_leaves_no_frame_to_the_programs() {
    let (topology, mut choice, pair) = in_the_kernel("auto", "encrypt");
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    choice.relations.truncate(2);
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    cells::configure(&pair.scratch, 0, &choice).unwrap();
    topology.middle.run(&["ethtool", "-K", LEFT, "gro", "off"]).unwrap();
    reloaded(&pair.scratch, "a");
    exchange.wait_for(50, DEADLINE).unwrap();
    let path = cell(&pair.a).path;
    assert!(path.starts_with("user space: its protected port takes no redirected frames"), "{path}");
    in_order(&exchange.stop().unwrap());
    all_protected(wire);
    pair.stop().unwrap();
}

/// Into shadow mode, at one gateway after the other. Keys in user space stay; those in the kernel do not move.
#[test]
fn a_relation_goes_into_shadow_mode() {
    for io in ["af_xdp", "auto"] {
        let (topology, mut choice, pair) = in_the_kernel(io, "encrypt");
        let exchange = exchange(&topology, &choice);
        exchange.wait_for(20, DEADLINE).unwrap();
        choice.relations[0].1 = "shadow";
        for (end, name) in ["a", "b"].into_iter().enumerate() {
            cells::configure(&pair.scratch, end, &choice).unwrap();
            assert!(reloaded(&pair.scratch, name).contains("1 IN CLEAR from now on (shadow)"));
            exchange.wait_for(20, DEADLINE).unwrap();
        }
        let heard = exchange.stop().unwrap();
        in_order(&heard);
        let missing: Vec<_> = heard.iter().flatten().map(|heard| heard.sent - heard.received).collect();
        println!("{io}: {missing:?}");
        let stay = if io == "auto" { 2 } else { 0 };
        assert!(missing[stay..].iter().all(|missing| *missing == 0), "{io}: {missing:?}");
        pair.stop().unwrap();
    }
}

/// Every frame that a machine sends is delivered, or a counter of a gateway or an interface has it: so many that some are lost.
#[test]
fn every_frame_of_a_cell_in_the_kernel_is_accounted_for() {
    let (topology, choice, pair) = in_the_kernel("kernel", "encrypt");
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(20, DEADLINE).unwrap();
    // Forged, late and too short ones beside.
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    let to_a = |frame: &&lab::Frame| super::cells::data(frame) && frame.octets[..6] == topology.machine_a.mac;
    let recorded: Vec<_> = wire.stop().unwrap().frames.into_iter().filter(|frame| to_a(&frame)).collect();
    let attacker = PacketSocket::open(&topology.middle, LEFT).unwrap();
    let sums = |station: &Station| {
        let (mut out, mut come) = (0, 0);
        for relation in &cell(station).relations {
            out += ["OutPktsProtected", "OutPktsNoSession", "OutPktsSeqExhausted", "OutPktsTooLong"]
                .map(|name| relation.transmit.value(name))
                .iter()
                .sum::<u64>();
            come += [
                "InPktsOK",
                "InPktsLate",
                "InPktsUnknownKey",
                "InPktsNotValid",
                "InPktsNoSession",
                "InPktsTooShort",
            ]
            .map(|name| relation.receive.value(name))
            .iter()
            .sum::<u64>();
        }
        (out, come)
    };
    let mut added = 0;
    for frame in recorded.iter().take(60) {
        let mut forged = frame.octets.clone();
        let at = forged.len() - 1;
        forged[at] ^= 1;
        // A Seq of the far future: not late.
        forged[21] = 0x7f;
        let mut unknown = frame.octets.clone();
        unknown[20] ^= 0x55;
        for octets in [&frame.octets, &forged, &unknown, &frame.octets[..30].to_vec()] {
            attacker.send(octets).unwrap();
            added += 1;
        }
    }
    // Longer than the protected side takes.
    let machine = PacketSocket::open(&topology.machine_a.namespace, topology.machine_a.ifname).unwrap();
    let relation = &choice.relations[0].0;
    let long = [
        &relation.stations[1][..],
        &relation.stations[0],
        &lab::cyclic::TAG,
        &EtherType::PROFINET.0.to_be_bytes(),
        &relation.frame_ids[0].to_be_bytes(),
        &[0; 1480],
    ]
    .concat();
    machine.send(&long).unwrap();
    exchange.wait_for(20, DEADLINE).unwrap();
    let heard = exchange.stop().unwrap();
    in_order(&heard);
    let sent = |end: usize| heard.iter().map(|heard| heard[1 - end].sent).sum::<u64>();
    let (a, b) = (sums(&pair.a), sums(&pair.b));
    assert_eq!((a.0, b.0), (sent(0) + 1, sent(1)), "all that machines have sent");
    assert_eq!((a.1, b.1), (sent(1) + added, sent(0)), "all that came, {added} of them an attacker's");
    pair.stop().unwrap();
}
