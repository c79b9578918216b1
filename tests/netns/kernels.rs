//! The program end to end on another kernel than this machine's: for guests whose emulated CPU is slow, so with few frames.
//! `make test-kernels` runs these tests there, and they need nothing but a kernel that has all of it.

use std::time::Duration;

use lab::cyclic::Exchange;
use lab::topology::{LEFT, PROTECTED};
use lab::traffic::{self, Ip};
use lab::{Capture, Shape, Topology};
use perf::demo::cells::{self, CellChoice, only_cell, redirecting, secured};
use perf::demo::pair::{self, Choice, Pair, Scratch, Station};
use suite::CipherSuite;
use wire::EtherType;
use wire::fieldbus::ETHERTYPE;

use super::fieldbus::for_the_kernel;
use super::guard::{hears, hears_in_the_end, live_on, speaks};
use super::{DEADLINE, MARKER, counter, program};

/// Cycle with which two gateways and two machines on one emulated CPU keep up.
const CYCLE: Duration = Duration::from_millis(100);

/// The guard that this kernel has: tcx came with Linux 6.6.
fn own_guard() -> &'static str {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or_default());
    if (numbers.next(), numbers.next()) < (Some(6), Some(6)) { "clsact" } else { "tcx" }
}

/// The box's own stack neither hears nor speaks on a port, and does again behind the gateway.
#[test]
#[ignore = "for other kernels: make test-kernels"]
fn this_kernels_guard() {
    for io in ["af_packet", "af_xdp"] {
        let topology = Topology::build(&Shape::default()).unwrap();
        let (home, machine) = (&topology.gateway_a, &topology.machine_a);
        let scratch = Scratch::new().unwrap();
        let choice = Choice { io, link: "allow_addresses = true", ..Choice::default() };
        pair::configure(&scratch, &choice).unwrap();
        let service = live_on(home, machine);
        assert!(hears_in_the_end(&service, machine) && speaks(&service, home, machine));
        let station = Station::start(program(), &home.namespace, &scratch, "a").unwrap();
        let link = station.report().unwrap().links.remove(0);
        assert_eq!([link.plain.guard, link.protected.guard], [own_guard(); 2], "{io}");
        assert!(!hears(&service, machine), "{io}: a stranger reaches the box's stack");
        assert!(!speaks(&service, home, machine), "{io}: the box's stack speaks on a port");
        station.stop().unwrap();
        assert!(hears_in_the_end(&service, machine), "{io}: a stop leaves the port shut");
    }
}

/// XDP programs protect and verify all frames of a cell between two gateways, in clear or not.
#[test]
#[ignore = "for other kernels: make test-kernels"]
fn a_cell_in_the_kernel() {
    for protect in ["encrypt", "authenticate"] {
        let topology = for_the_kernel();
        let choice = CellChoice {
            io: "kernel",
            protect,
            cell: "suite = \"chacha20-poly1305\"",
            ..CellChoice::new(&topology, 2, CYCLE)
        };
        let pair = cells::start(program(), &topology, &choice).unwrap();
        secured(&pair).unwrap();
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let exchange =
            Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
        exchange.wait_for(20, DEADLINE).unwrap();
        let heard = exchange.stop().unwrap();
        let wire = wire.stop().unwrap().complete().unwrap();
        let sent: u64 = heard.iter().flatten().map(|heard| heard.sent).sum();
        assert!(heard.iter().flatten().all(|heard| heard.is_complete() && heard.sent >= 20), "{heard:?}");
        assert!(wire.of_ethertype(ETHERTYPE.0).count() as u64 >= sent && wire.all_ethertype(ETHERTYPE.0));
        assert_eq!(wire.find(MARKER).is_none(), protect == "encrypt");
        for (end, station) in [&pair.a, &pair.b].into_iter().enumerate() {
            let report = station.report().unwrap();
            let cell = only_cell(&report).unwrap();
            assert_eq!(cell.path, "kernel");
            for (relation, heard) in cell.relations.iter().zip(&heard) {
                assert_eq!(relation.transmit.value("OutPktsProtected"), heard[1 - end].sent);
                assert_eq!(relation.receive.value("InPktsOK"), heard[end].received);
                assert_eq!(relation.residence_outward.count, heard[1 - end].sent, "of the programs");
            }
        }
        pair.stop().unwrap();
    }
}

/// XDP programs protect and verify all frames of a link between two gateways.
#[test]
#[ignore = "for other kernels: make test-kernels"]
fn a_link_in_the_kernel() {
    for suite in [CipherSuite::ChaCha20Poly1305, CipherSuite::ChaCha20Poly1305Xpn] {
        let topology = redirecting(&Shape { static_neighbours: true, ..Shape::default() }).unwrap();
        let choice = Choice { suite, io: "kernel", ..Choice::default() };
        let pair = Pair::start(program(), &topology, &choice).unwrap();
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        for octets in [16, 1000, 1472] {
            traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 5, octets).unwrap();
        }
        let wire = wire.stop().unwrap().complete().unwrap();
        assert!(wire.frames.len() >= 30 && wire.all_ethertype(EtherType::MACSEC.0));
        for station in [&pair.a, &pair.b] {
            let report = station.report().unwrap();
            let link = &report.links[0];
            assert_eq!(link.secy.path.as_deref(), Some("kernel"));
            assert!(counter(&link.secy.transmit.counters, "OutPktsEncrypted") >= 15);
            assert!(counter(&link.secy.receive[0].counters, "InPktsOK") >= 15);
            assert_eq!(counter(&link.plain.counters, "RxFrames"), 0, "a frame came to user space");
        }
        pair.stop().unwrap();
    }
}

/// A gateway on one side, this kernel's own macsec on the other, with static keys.
#[test]
#[ignore = "needs a kernel with macsec: make test-kernels"]
fn a_link_to_this_kernels_macsec() {
    for (suite, io) in [(CipherSuite::GcmAes128, "af_xdp"), (CipherSuite::GcmAes256, "af_packet")] {
        let topology = Topology::build(&Shape::default()).unwrap();
        let scratch = Scratch::new().unwrap();
        pair::configure(&scratch, &Choice { suite, io, ..Choice::default() }).unwrap();
        let key = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap().trim().to_owned();
        let (ours, its) = (key("a.key"), key("b.key"));
        let peer = &topology.gateway_b.namespace;
        let address = topology.machine_b.ipv4;
        // The addresses of the SCIs in the gateway's configuration.
        for command in [
            format!("link set {PROTECTED} address 02:00:00:00:00:02"),
            format!(
                "link add link {PROTECTED} macsec0 type macsec port 1 cipher {suite} encrypt on replay on window 0"
            ),
            format!("macsec add macsec0 tx sa 0 pn 1 on key 0b {its}"),
            "macsec add macsec0 rx port 1 address 02:00:00:00:00:01 on".to_owned(),
            format!("macsec add macsec0 rx port 1 address 02:00:00:00:00:01 sa 0 pn 1 on key 0a {ours}"),
            format!("addr add {address}/24 dev macsec0"),
            "link set macsec0 up".to_owned(),
        ] {
            peer.ip(&command.split(' ').collect::<Vec<_>>()).unwrap();
        }
        let station = Station::start(program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        for octets in [16, 1000, 1472] {
            traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 5, octets).unwrap();
        }
        let wire = wire.stop().unwrap().complete().unwrap();
        assert!(wire.frames.len() >= 30 && wire.all_ethertype(EtherType::MACSEC.0));
        let report = station.report().unwrap();
        let secy = &report.links[0].secy;
        assert!(counter(&secy.receive[0].counters, "InPktsOK") >= 15, "{secy:?}");
        for (name, value) in secy.receive[0].counters.iter().chain(secy.counters.iter()) {
            assert!(!name.starts_with("InPkts") || name == "InPktsOK" || value == 0, "{name} {value}");
        }
        let seen = peer.ip(&["-s", "macsec", "show", "macsec0"]).unwrap().stdout;
        assert!(seen.contains("InPktsOK"), "{seen}");
        station.stop().unwrap();
    }
}
