//! All that a LAN carries reaches the other plant, counted frame by frame.

use lab::topology::Mac;
use lab::{Machine, Plants, PlantsShape};
use perf::demo::pair::Station;
use perf::demo::sites::SitesChoice;
use report::site::SiteReport;

use super::mesh;
use super::mka::{all, secured_with};
use super::sites::all_up;
use super::{EXPERIMENT, counter, exchange, marked};

fn site(gateway: &Station) -> SiteReport {
    gateway.report().unwrap().sites.remove(0)
}

/// Payloads of many sizes: such that need two frames, and small ones that share one.
fn sizes(to: Mac, from: Mac) -> Vec<Vec<u8>> {
    let octets =
        (0..2000).map(|number: usize| if number % 3 == 0 { 1500 - number % 200 } else { 46 + number % 90 });
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
