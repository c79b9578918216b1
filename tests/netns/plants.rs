//! Three plants as one LAN: two stations in each, whose link gateways know nothing of the sites between them.

use std::time::{Duration, Instant};

use frameward::demo::pair::Station;
use frameward::demo::sites::{Sites, SitesChoice, site_name};
use lab::traffic::{Ip, ping};
use lab::{Machine, Plants, PlantsShape};
use nix::sys::signal::Signal;

use super::sites::all_up;
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
fn a_path_that_becomes_narrower_is_noticed_and_frames_are_divided() {
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
