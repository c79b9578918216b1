//! All that a LAN carries reaches the other plant, counted frame by frame.

use std::time::{Duration, Instant};

use lab::cyclic::{Exchange, Relation};
use lab::topology::Mac;
use lab::{Machine, Plants, PlantsShape};
use perf::demo::cells::{self, CellChoice, only_cell, secured};
use perf::demo::pair::{Pair, Scratch, Station};
use perf::demo::sites::{self, SitesChoice, site_name};
use report::site::SiteReport;

use super::mesh;
use super::mka::{all, secured_with};
use super::sites::all_up;
use super::sites::{is_up, site_when};
use super::{DEADLINE, EXPERIMENT, counter, exchange, marked, program};

fn site(gateway: &Station) -> SiteReport {
    gateway.report().unwrap().sites.remove(0)
}

/// Payloads of many sizes: such that need two frames, and small ones that share one.
fn sizes(to: Mac, from: Mac) -> Vec<Vec<u8>> {
    let octets = (0..2000)
        .map(|number: usize| if number.is_multiple_of(3) { 1500 - number % 200 } else { 46 + number % 90 });
    octets.enumerate().map(|(seed, octets)| marked(to, from, EXPERIMENT, octets, seed as u64)).collect()
}

fn both_ways(a: &Machine, b: &Machine) {
    exchange(a, b, &sizes(b.mac, a.mac));
    exchange(b, a, &sizes(a.mac, b.mac));
}

/// Link gateways as `[link.mka]` makes them unless told otherwise: they split what is too long for the LAN, and fill frames up.
fn of_links_that_split_and_concatenate(mode: &'static str) {
    let shape = PlantsShape { machine_mtu: 1500, lines: false, ..PlantsShape::default() };
    let plants = Plants::build(&shape).unwrap();
    let gateways = mesh::start(&plants, &SitesChoice { mode, ..SitesChoice::default() });
    all_up(&gateways);
    let stations = [0, 1].map(|plant: usize| &gateways.stations[plant][0]);
    all(stations, "two agree", secured_with(1));
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    both_ways(&one.stations[0].machine, &two.stations[0].machine);
    for (station, gateway) in stations.into_iter().zip(&gateways.sites) {
        let secy = &station.report().unwrap().links[0].secy;
        for name in ["OutSdusFragmented", "OutSdusConcatenated"] {
            assert!(counter(&secy.counters, name) > 100, "{name}: {:#?}", secy.counters);
        }
        let peer = site(gateway).peers.remove(0);
        assert_eq!(counter(&peer.counters, "OutPktsExtended"), 0);
        assert!(counter(&peer.counters, "OutPktsTunnelled") > 500);
    }
    gateways.stop().unwrap();
}

#[test]
fn split_and_concatenated_frames_cross_with_header_encryption() {
    of_links_that_split_and_concatenate("header-encryption");
}

#[test]
fn split_and_concatenated_frames_cross_with_identifiers() {
    of_links_that_split_and_concatenate("identifier");
}

/// A PLC in one plant and its devices in the other, with all else between the same two gateways in MACsec.
#[test]
fn a_cell_works_between_plants() {
    let plants = Plants::build(&PlantsShape { lines: false, ..PlantsShape::default() }).unwrap();
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
    let scratch = Scratch::new().unwrap();
    sites::configure(&scratch, &plants, &SitesChoice { site: "cells = 0x88b5", ..SitesChoice::default() })
        .unwrap();
    let relation = |device: u8| Relation {
        stations: [a.mac, [2, 0, 0, 0, 1, device]],
        frame_ids: [0x8000 + u16::from(device), 0xbb00 + u16::from(device)],
        cycle: Duration::from_millis(20),
        payload_octets: 44,
    };
    let relations = (1..=3).map(|device| (relation(device), "protect")).collect();
    let choice =
        CellChoice { io: "auto", protect: "encrypt", drops: false, gateway: "", cell: "", relations };
    cells::keys(&scratch).unwrap();
    (0..2).for_each(|end| cells::configure(&scratch, end, &choice).unwrap());
    let start = |namespace, name: &str| Station::start(program(), namespace, &scratch, name).unwrap();
    let gateways = [one, two].map(|plant| start(&plant.site, &site_name(plant.number)));
    for gateway in &gateways {
        site_when(gateway, "all peers are up", |site| site.peers.iter().all(is_up));
    }
    let [cell_a, cell_b] =
        [(one, "a"), (two, "b")].map(|(plant, name)| start(&plant.stations[0].gateway.namespace, name));
    let pair = Pair { a: cell_a, b: cell_b, scratch };
    secured(&pair).unwrap();

    const FRAMES: u64 = 250;
    let cyclic = Exchange::start(a, b, &choice.exchanged()).unwrap();
    let end = Instant::now() + DEADLINE + 4 * FRAMES as u32 * Duration::from_millis(20);
    while cyclic.heard().iter().flatten().any(|heard| heard.sent < FRAMES) {
        assert!(Instant::now() < end, "the machines are too slow");
        std::thread::sleep(Duration::from_millis(50));
    }
    let heard = cyclic.stop().unwrap();
    let reports = [&pair.a, &pair.b].map(|station| station.report().unwrap());
    for (number, heard) in heard.iter().enumerate() {
        for (end, arrivals) in heard.iter().enumerate() {
            assert_eq!((arrivals.changed, arrivals.out_of_order), (0, 0), "relation {number}");
            assert!(arrivals.received == arrivals.sent && arrivals.sent >= FRAMES, "{arrivals:?}");
            let relation = &only_cell(&reports[end]).unwrap().relations[number];
            assert_eq!(relation.state, "running");
            assert_eq!(relation.receive.value("InPktsOK"), arrivals.received);
        }
    }
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 300, 1)]);
    for gateway in &gateways {
        let site = site(gateway);
        let counters = &site.peers[0].counters;
        assert_eq!(counter(counters, "OutPktsCyclic") + counter(&site.tunnel, "OutPktsNotMacsec"), 0);
        assert!(counter(counters, "OutPktsTunnelled") >= 3 * FRAMES);
    }
    pair.stop().unwrap();
    gateways.into_iter().for_each(|gateway| drop(gateway.stop().unwrap()));
}
