//! Three sites in full mesh, with a station each, and one CAK over the three: between two of them UDP is lost.
//!
//! ```text
//!  machine 1 ── press-1-1 ── [site-1: run] ~~~~ X ~~~~ [site-3: run] ── press-3-1 ── machine 3
//!                                     ~~           ~~
//!                                      [site-2: run] ── press-2-1 ── machine 2
//! ```
//!
//! Sites do not relay unless they are told to: who is at the two ends of the broken path hears nothing of the other any more.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::topology::{PLAIN, PROTECTED};
use lab::{Plants, PlantsShape};
use nix::sys::signal::Signal;
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{self, Sites, SitesChoice, site_name, station_name};
use wire::Ckn;

use super::mka::{all, ki, mka, secured_with, until};
use super::sites::{all_up, is_up, site_when};
use super::{DEADLINE, program};

/// Time for which nothing may change: SAK after SAK came every 20 s.
const CALM: Duration = Duration::from_secs(22);

/// The gateways of plants, whose stations agree on keys.
pub(crate) fn start(plants: &Plants, choice: &SitesChoice) -> Sites {
    let scratch = Scratch::new().unwrap();
    sites::configure(&scratch, plants, choice).unwrap();
    keygen::cak(KeyLength::Bits256, Ckn::new(b"line"), &scratch.path().join("line.cak")).unwrap();
    let gateways = plants
        .plants
        .iter()
        .map(|plant| Station::start(program(), &plant.site, &scratch, &site_name(plant.number)).unwrap());
    let gateways = gateways.collect();
    let stations = plants.plants.iter().map(|plant| {
        let name = station_name(plant.number, 1);
        let state = scratch.path().join(format!("state-{name}"));
        let text = format!(
            "[gateway]\nname = \"{name}\"\nstate = \"{}\"\n[[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\n\
             protected = \"{PROTECTED}\"\nreplay_window = 64\n[link.mka]\ncak_file = \"line.cak\"\n",
            state.display()
        );
        scratch.write(&format!("{name}.toml"), &text).unwrap();
        vec![Station::start(program(), &plant.stations[0].gateway.namespace, &scratch, &name).unwrap()]
    });
    let stations = stations.collect();
    Sites { sites: gateways, stations, scratch }
}

#[test]
fn udp_that_is_lost_between_two_of_three_sites_stops_no_other() {
    let plants = Plants::build(&PlantsShape { plants: 3, lines: false, ..PlantsShape::default() }).unwrap();
    let sites = start(&plants, &SitesChoice::default());
    all_up(&sites);
    let [a, b, c] = [0, 1, 2].map(|plant: usize| &sites.stations[plant][0]);
    all([a, b, c], "three agree", secured_with(2));
    let [a_sci, b_sci, c_sci] =
        [a, b, c].map(|station| station.report().unwrap().links[0].secy.transmit.sci.clone());
    let machine = |plant: usize| &plants.plants[plant].stations[0].machine;
    let from = &machine(1).namespace;
    for to in [0, 2] {
        let to = machine(to).ipv4.to_string();
        assert!(from.run(&["ping", "-n", "-q", "-c", "3", "-i", "0.2", &to]).is_ok(), "{to}");
    }
    let pings = [0, 2].map(|to| {
        let to = machine(to).ipv4.to_string();
        from.spawn(&["ping", "-n", "-i", "0.05", "-W", "9", "-s", "1400", &to]).unwrap()
    });

    let udp = |action: &str| {
        for (from, to) in [(0, 2), (2, 0)] {
            let [from, to] = [from, to].map(|plant: usize| plants.plants[plant].ipv4.to_string());
            let rule =
                ["rule", action, "from", &from, "to", &to, "ipproto", "udp", "prio", "10", "blackhole"];
            plants.internet.ip(&rule).unwrap();
        }
    };
    udp("add");
    // The sites at both ends say whom they have no channel to, and of the others that all is well.
    for (site, lost) in [(0, Some("plant-3")), (1, None), (2, Some("plant-1"))] {
        let is_so = |peer: &report::site::SitePeerReport| is_up(peer) == (Some(&*peer.name) != lost);
        let site = site_when(&sites.sites[site], "it says which peer is away", |site| {
            site.peers.iter().all(is_so)
                && (site.verdict.state == if lost.is_some() { "no channel" } else { "protecting" })
        });
        let told =
            site.concerns.iter().filter(|concern| concern.text.contains("has had no management channel"));
        let told: Vec<_> = told.map(|concern| concern.text.as_str()).collect();
        assert!(
            told.len() == usize::from(lost.is_some()) && told.iter().all(|text| text.contains(lost.unwrap())),
            "{told:?}"
        );
    }
    // And each station whom it does not hear, or who of the others.
    let says = |station: &Station, words: [&str; 2], others: &[&str]| {
        until(station, "it says who is not heard", |mka| {
            mka.not_heard.len() == 1
                && words.iter().all(|word| mka.not_heard[0].contains(word))
                && !others.iter().any(|other| mka.not_heard[0].contains(other))
                && mka.trouble.as_ref() == mka.not_heard.first()
        });
    };
    says(a, [&c_sci, "not by this station"], &[]);
    says(c, [&a_sci, "not by this station"], &[]);
    says(b, [&a_sci, &c_sci], &[&b_sci]);

    // The station that hears all becomes key server; after that nothing changes any more.
    let mut kis = BTreeSet::from([ki(b)]);
    let (latest, mut settled) = (Instant::now() + 6 * DEADLINE, None::<Instant>);
    while settled.is_none_or(|since| since.elapsed() < CALM) {
        let report = b.report().unwrap();
        let mka = mka(&report);
        assert!(mka.secured && Instant::now() < latest, "{kis:?} {mka:#?}");
        if kis.insert(ki(b)) || settled.is_none() {
            settled = mka.is_key_server.then(Instant::now);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    for ping in pings {
        ping.signal(Signal::SIGINT).unwrap();
        let pinged = ping.wait(DEADLINE).unwrap().stdout;
        let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok();
        let answered: BTreeSet<u32> = pinged.lines().filter_map(number).collect();
        // Those behind the last answer are under way.
        let last = answered.last().copied().unwrap_or_default();
        let lost: Vec<_> = (1..=last).filter(|number| !answered.contains(number)).collect();
        assert!(last > 200 && lost.is_empty(), "{lost:?} of {last} are lost: {pinged}");
    }
    assert!(kis.len() <= 2, "SAK after SAK: {kis:?}");
    let used = ki(b);
    all([a, c], "one key", |mka| mka.sak().is_some_and(|sak| sak.ki == used));
    udp("del");
    all_up(&sites);
    all([a, b, c], "three agree again", |mka| secured_with(2)(mka) && mka.trouble.is_none());
    sites.stop().unwrap();
}
