//! Three plants as one LAN: two stations in each, whose link gateways know nothing of the sites between them.

use std::time::{Duration, Instant};

use lab::topology::{PLAIN, PROTECTED};
use lab::traffic::{Ip, ping};
use lab::{Machine, Plants, PlantsShape};
use nix::sys::signal::Signal;
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{Sites, SitesChoice, configure, site_name};

use super::sites::{all_up, both_ways, is_up, site_when};
use super::{DEADLINE, program};

fn machines(plants: &Plants) -> Vec<&Machine> {
    plants.plants.iter().flat_map(|plant| &plant.stations).map(|station| &station.machine).collect()
}

/// Pings until an answer comes back.
fn reaches(from: &Machine, to: &Machine, octets: u16) {
    let end = Instant::now() + DEADLINE;
    while let Err(error) = ping(from, to, Ip::V4, 1, octets) {
        assert!(Instant::now() < end, "{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn six_stations_in_three_plants_reach_each_other_also_after_sites_were_killed() {
    for mode in ["identifier", "header-encryption"] {
        let shape = PlantsShape { plants: 3, stations: 2, lines: false, ..PlantsShape::default() };
        let plants = Plants::build(&shape).unwrap();
        let mut sites =
            Sites::start(program(), &plants, &SitesChoice { mode, ..SitesChoice::default() }).unwrap();
        all_up(&sites);
        let machines = machines(&plants);
        for (number, from) in machines.iter().enumerate() {
            for to in &machines[number + 1..] {
                reaches(from, to, 56);
            }
        }
        // Beyond what goes whole: in two packets.
        reaches(machines[0], machines[5], 1400);
        for killed in [&[1][..], &[0, 1, 2]] {
            kill(&plants, &mut sites, killed);
            all_up(&sites);
            for to in &machines[2..] {
                reaches(machines[0], to, 1400);
            }
        }
        sites.stop().unwrap();
    }
}

/// Kills site gateways, and starts them anew.
fn kill(plants: &Plants, sites: &mut Sites, numbers: &[usize]) {
    for &number in numbers {
        sites.sites[number].program().signal(Signal::SIGKILL).unwrap();
    }
    for &number in numbers {
        let plant = &plants.plants[number];
        let name = site_name(plant.number);
        let end = Instant::now() + DEADLINE;
        while sites.sites[number].program().is_running() {
            assert!(Instant::now() < end, "{name} lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        sites.sites[number] = Station::start(program(), &plant.site, &sites.scratch, &name).unwrap();
    }
}

#[test]
fn a_path_that_becomes_narrower_is_noticed_and_frames_are_fragmented() {
    let shape = PlantsShape { lines: false, ..PlantsShape::default() };
    let plants = Plants::build(&shape).unwrap();
    let sites = Sites::start(program(), &plants, &SitesChoice::default()).unwrap();
    all_up(&sites);
    let machines = machines(&plants);
    reaches(machines[0], machines[1], 1400);
    plants.narrow(&plants.plants[1], 1300).unwrap();
    // No router's word is needed, nor believed: the management channel finds out.
    reaches(machines[0], machines[1], 1400);
    let split = |gateway: &Station| {
        let counters = gateway.report().unwrap().sites.remove(0).peers.remove(0).counters;
        super::counter(&counters, "OutPktsSplit")
    };
    assert!(split(&sites.sites[0]) > 0);
    sites.stop().unwrap();
}

/// The first plant's station stands in the same process as its site, and its frames reach the other plant by way of the
/// LAN's switch, as everybody's do.
#[test]
fn a_link_and_a_site_in_one_process() {
    let shape = PlantsShape { lines: false, ..PlantsShape::default() };
    let plants = Plants::build(&shape).unwrap();
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let box_of_both = &one.site;
    for interface in [PLAIN, PROTECTED] {
        let station = &one.stations[0].gateway.namespace;
        station.ip(&["link", "set", interface, "netns", box_of_both.name()]).unwrap();
        box_of_both.ip(&["link", "set", interface, "up"]).unwrap();
    }
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &plants, &SitesChoice::default()).unwrap();
    let file = |name: &str| scratch.path().join(format!("{name}.toml"));
    let text = |name: &str| std::fs::read_to_string(file(name)).unwrap();
    let (site, station) = (text("site-1"), text("press-1-1"));
    std::fs::write(file("site-1"), site + &station[station.find("[[link]]").unwrap()..]).unwrap();
    let start = |namespace, name| Station::start(program(), namespace, &scratch, name).unwrap();
    let both = start(box_of_both, "site-1");
    let others = [start(&two.site, "site-2"), start(&two.stations[0].gateway.namespace, "press-2-1")];
    let report = site_when(&both, "the peer is up", |site| site.peers.iter().all(is_up));
    assert_eq!(report.concerns, []);
    let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
    reaches(a, b, 1400);
    both_ways(a, b, 1);
    let report = both.report().unwrap();
    assert_eq!((report.links.len(), report.sites.len()), (1, 1));
    both.stop().unwrap();
    others.into_iter().for_each(|gateway| drop(gateway.stop().unwrap()));
}
