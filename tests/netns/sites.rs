//! Sites end to end: link gateways in two plants, which know nothing of the tunnel between them.
//!
//! ```text
//!  machine 1 ── press-1-1 ── switch ── site-1 ~~ line ~~ internet ~~ line ~~ site-2 ── switch ── press-2-1 ── machine 2
//!               frameward run          frameward run    captures             frameward run       frameward run
//! ```

use std::time::{Duration, Instant};

use lab::plants::{BARE, LAN};
use lab::topology::LEFT;
use lab::traffic::{Ip, Until, ping, tcp};
use lab::{Capture, Machine, Plants, PlantsShape};
use perf::demo::pair::Station;
use perf::demo::sites::{Sites, SitesChoice, site_name};
use report::site::{SitePeerReport, SiteReport};
use report::table::Group;

use super::reload::{reload, reloaded};
use super::{DEADLINE, EXPERIMENT, counter, exchange, marked, program};

/// The only site of a gateway.
fn site(gateway: &Station) -> SiteReport {
    gateway.report().unwrap().sites.remove(0)
}

/// Waits until a site is as it should be, and returns its report.
pub(crate) fn site_when(gateway: &Station, what: &str, is: impl Fn(&SiteReport) -> bool) -> SiteReport {
    let end = Instant::now() + DEADLINE;
    loop {
        let report = site(gateway);
        if is(&report) {
            return report;
        }
        assert!(Instant::now() < end, "{what}: {report:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether frames can be sent to and received from a peer.
pub(crate) fn is_up(peer: &SitePeerReport) -> bool {
    peer.state == "connected" && peer.transmit_epoch.is_some() && peer.receive_epoch.is_some()
}

/// Waits until all peers of all sites are there.
pub(crate) fn all_up(sites: &Sites) {
    for gateway in &sites.sites {
        site_when(gateway, "all peers are up", |site| site.peers.iter().all(is_up));
    }
}

/// Frames of one station each, both ways, octet for octet and in order.
pub(crate) fn both_ways(a: &Machine, b: &Machine, seed: u64) {
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 200, seed)]);
    exchange(b, a, &[marked(a.mac, b.mac, EXPERIMENT, 300, seed)]);
}

/// Addresses of machines and SCIs of their stations, which an eavesdropper must not find.
fn secrets(plants: &Plants) -> Vec<Vec<u8>> {
    let mut secrets = Vec::new();
    for plant in &plants.plants {
        for (number, station) in (1..).zip(&plant.stations) {
            secrets.push(station.machine.mac.to_vec());
            secrets.push(vec![2, 0, 0, 0, plant.number, number, 0, 1]);
        }
    }
    secrets
}

fn frames_cross(choice: &SitesChoice) {
    frames_cross_beside(choice, |_| ());
}

/// The same, and something else while the sites run.
fn frames_cross_beside(choice: &SitesChoice, beside: impl FnOnce(&Sites)) {
    let shape = PlantsShape {
        ipv6: choice.ipv6,
        wan_mtu: if choice.ipv6 { 1520 } else { 1500 },
        ..PlantsShape::default()
    };
    let plants = Plants::build(&shape).unwrap();
    let sites = Sites::start(program(), &plants, choice).unwrap();
    all_up(&sites);
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
    let line = Capture::start(one.line.as_ref().unwrap(), LEFT).unwrap();
    let lan = Capture::start(&two.lan, BARE).unwrap();

    let sizes: Vec<_> = [46, 64, 600, 1000, 1438]
        .map(|octets| marked(b.mac, a.mac, EXPERIMENT, octets, octets as u64))
        .into();
    exchange(a, b, &sizes);
    both_ways(a, b, 1);
    assert!(ping(a, b, Ip::V4, 5, 1410).unwrap().summary.contains(" 0% packet loss"));
    assert_eq!(tcp(a, b, Ip::V4, Until::Octets(2_000_000)).unwrap().octets, 2_000_000);

    let line = line.stop().unwrap().complete().unwrap();
    let lan = lan.stop().unwrap().complete().unwrap();
    for secret in secrets(&plants) {
        assert_eq!(line.find(&secret), None, "{secret:x?} is on the internet");
        assert!(lan.find(&secret).is_some(), "the search finds what it looks for: {secret:x?}");
    }

    let report = site(&sites.sites[0]);
    assert_eq!(report.peers[0].name, "plant-2");
    assert_eq!(report.concerns.first(), None);
    let sent = counter(&report.peers[0].counters, "OutPktsTunnelled");
    let received = counter(&report.peers[0].counters, "InPktsTunnelled");
    assert!(sent > 1000 && received > 100, "{sent} {received}");
    let discarded: Vec<_> = report
        .groups()
        .into_iter()
        // The same.
        .filter(|(group, ..)| !matches!(group, Group::Channel | Group::Session))
        .flat_map(|(group, place, counters)| {
            let found = counters.iter().filter(move |(name, value)| {
                *value > 0 && group.counter(name).is_some_and(|row| row.discard)
            });
            found.map(move |(name, value)| format!("{place}: {name} {value}")).collect::<Vec<_>>()
        })
        .collect();
    // A kernel may send IPv6 or IGMP of its own into the LAN; nothing else is there to be discarded.
    assert!(discarded.iter().all(|line| line.contains("OutPktsNotMacsec")), "{discarded:?}");
    let place = |mac: [u8; 6]| {
        let text = mac.map(|octet| format!("{octet:02x}")).join(":");
        report.stations.iter().find(|station| station.address == text).map(|station| station.peer.clone())
    };
    assert_eq!(place(a.mac), Some(None), "here: {:?}", report.stations);
    assert_eq!(place(b.mac), Some(Some("plant-2".to_owned())));
    assert!(
        report.flows.iter().any(|flow| flow.peer == "plant-2" && flow.acknowledged),
        "{:?}",
        report.flows
    );
    beside(&sites);
    sites.stop().unwrap();
    for plant in &plants.plants {
        let shown = plant.site.ip(&["-d", "link", "show", LAN]).unwrap().stdout;
        assert!(!shown.contains("xdp") && !shown.contains("promiscuity 1"), "{shown}");
    }
}

#[test]
fn identifier_mode_on_af_xdp() {
    frames_cross(&SitesChoice { io: "af_xdp", ..SitesChoice::default() });
}

#[test]
fn header_encryption_on_af_packet() {
    frames_cross(&SitesChoice { io: "af_packet", mode: "header-encryption", ..SitesChoice::default() });
}

/// Frames cross as from one worker, and both sites have the thread that shares the sending.
#[test]
fn two_workers_send_for_a_site() {
    frames_cross_beside(&SitesChoice { site: "workers = 2", ..SitesChoice::default() }, |sites| {
        for gateway in &sites.sites {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.id())).unwrap();
            let names: Vec<_> = tasks
                .map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default())
                .collect();
            assert_eq!(names.iter().filter(|name| name.starts_with("fw-send-")).count(), 1, "{names:?}");
            let report = site(gateway);
            let place = report.peers[0].path.as_deref();
            assert_eq!(place, Some("user space: several workers send its frames"));
        }
    });
}

#[test]
fn identifier_mode_over_ipv6() {
    frames_cross(&SitesChoice { ipv6: true, site: "dscp = 46", ..SitesChoice::default() });
}

/// Plain mode: frames cross, everybody can see whose they are, and everybody who looks is told.
#[test]
fn plain_mode_is_in_sight_and_says_so() {
    let plants = Plants::build(&PlantsShape::default()).unwrap();
    let choice = SitesChoice { mode: "plain", ..SitesChoice::default() };
    let Sites { mut sites, stations, scratch } = Sites::start(program(), &plants, &choice).unwrap();
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
    let line = Capture::start(one.line.as_ref().unwrap(), LEFT).unwrap();
    // 1418 octets are what plain mode carries: it never splits.
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 1418, 1)]);
    both_ways(a, b, 2);
    let line = line.stop().unwrap().complete().unwrap();
    for secret in secrets(&plants) {
        assert!(line.find(&secret).is_some(), "the search finds what it looks for: {secret:x?}");
    }
    let report = site(&sites[0]);
    assert_eq!((report.peers[0].state.as_str(), report.channel.is_none()), ("plain", true));
    assert!(report.concerns.iter().any(|concern| concern.grave && concern.text.contains("is plain")));
    let said = sites.remove(0).stop().unwrap();
    assert!(
        said.contains("warning: site \"plant-1\": peer \"plant-2\" is plain (VNI 77), NOT PROTECTED"),
        "{said}"
    );
    Sites { sites, stations, scratch }.stop().unwrap();
}

/// The LAN's interface is deleted and made again; the peer's channel does not notice.
#[test]
fn a_lan_that_vanishes_comes_back() {
    let plants = Plants::build(&PlantsShape::default()).unwrap();
    let Sites { sites, stations, scratch } =
        Sites::start(program(), &plants, &SitesChoice::default()).unwrap();
    let sites = Sites { sites, stations, scratch };
    all_up(&sites);
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
    both_ways(a, b, 1);
    one.site.ip(&["link", "set", LAN, "down"]).unwrap();
    one.site.ip(&["link", "set", LAN, "name", "gone"]).unwrap();
    let waiting = site_when(&sites.sites[0], "the LAN is missed", |site| site.waiting.is_some());
    assert!(waiting.waiting.unwrap().why.contains("interface lan is missing"));
    assert!(waiting.peers.iter().all(is_up), "the channel goes on: {:?}", waiting.peers);
    assert!(waiting.concerns.iter().any(|concern| concern.grave));
    let connections = |site: &SiteReport| counter(site.channel.as_ref().unwrap(), "Connections");
    let before = connections(&site(&sites.sites[0]));
    one.site.ip(&["link", "set", "gone", "name", LAN]).unwrap();
    one.site.ip(&["link", "set", LAN, "up"]).unwrap();
    let back = site_when(&sites.sites[0], "the LAN is back", |site| site.waiting.is_none());
    assert_eq!(connections(&back), before);
    both_ways(a, b, 2);

    // Another MTU is another site, for the peer too.
    one.site.ip(&["link", "set", LAN, "mtu", "1600"]).unwrap();
    site_when(&sites.sites[0], "the MTU is taken over", |site| {
        site.lan.mtu == 1600 && site.peers.iter().all(is_up)
    });
    all_up(&sites);
    both_ways(a, b, 3);
    sites.stop().unwrap();
}

/// A reload leaves a site alone that is as it was, restarts one that is changed, and takes one away.
#[test]
fn a_reload_restarts_what_is_changed() {
    let plants = Plants::build(&PlantsShape::default()).unwrap();
    let sites = Sites::start(program(), &plants, &SitesChoice::default()).unwrap();
    all_up(&sites);
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
    both_ways(a, b, 1);
    let name = site_name(1);
    let file = sites.scratch.path().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let sent = |site: &SiteReport| counter(&site.peers[0].counters, "OutPktsTunnelled");

    // A comment is no change.
    std::fs::write(&file, format!("# nothing new\n{text}")).unwrap();
    assert!(reloaded(&sites.scratch, &name).contains(": reloaded"));
    assert!(sent(&site(&sites.sites[0])) > 0, "its counters go on");

    std::fs::write(&file, text.replace("bind =", "dscp = 46\nbind =")).unwrap();
    let told = reloaded(&sites.scratch, &name);
    assert!(told.contains("site \"plant-1\": restarted"), "{told}");
    all_up(&sites);
    assert_eq!(sent(&site(&sites.sites[0])), 0, "another site");
    both_ways(a, b, 2);
    let other = site(&sites.sites[1]);
    assert_eq!(counter(other.peers[0].session.as_ref().unwrap(), "PeerInstances"), 2);

    // A wrong configuration changes nothing.
    std::fs::write(&file, text.replace("mode = \"identifier\"", "mode = \"plain\"")).unwrap();
    let refused = reload(&sites.scratch, &name);
    assert!(!refused.status.success());
    for words in ["not reloaded", "vni is missing"] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    both_ways(a, b, 3);
    sites.stop().unwrap();
}

/// A doctor beside a running gateway, in the place of a site, and with nobody at the other end.
#[test]
fn doctor_calls_a_sites_peers() {
    let plants = Plants::build(&PlantsShape { stations: 0, ..PlantsShape::default() }).unwrap();
    let Sites { mut sites, scratch, .. } = Sites::start(program(), &plants, &SitesChoice::default()).unwrap();
    for gateway in &sites {
        site_when(gateway, "the peer is up", |site| site.peers.iter().all(is_up));
    }
    let (runtime, config) = (scratch.path().join("run"), scratch.path().join("site-1.toml"));
    let doctor = |arguments: &[&str]| {
        let variable = format!("FRAMEWARD_RUNTIME_DIR={}", runtime.display());
        let words = ["env", &variable, program().to_str().unwrap(), "doctor"];
        let command = [&words[..], arguments, &[config.to_str().unwrap()]].concat();
        let doctor = plants.plants[0].site.spawn(&command).unwrap();
        let output = doctor.wait(3 * DEADLINE).unwrap();
        (output.status.code(), output.stdout)
    };
    let (status, said) = doctor(&[]);
    assert!(said.contains("plant-2 answers at 198.51.100.10:7787, round trip"), "{said}");
    assert_eq!(status, Some(0), "{said}");

    sites.remove(0).stop().unwrap();
    let before = plants.plants[0].site.ip(&["-d", "link", "show", LAN]).unwrap().stdout;
    let (status, said) = doctor(&[]);
    for words in [
        "LAN        lan is up",
        "plant-2 answers at 198.51.100.10:7787",
        "plant-2 sees this site at 198.51.100.6:7787: no NAT in front of this site",
        "up to 1470 go unsplit",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(plants.plants[0].site.ip(&["-d", "link", "show", LAN]).unwrap().stdout, before);

    sites.remove(0).stop().unwrap();
    let (status, said) = doctor(&["--wait", "2"]);
    assert!(said.contains("PROBLEM  peer       plant-2 does not answer"), "{said}");
    assert!(said.contains("nobody listens at UDP 7787 of 198.51.100.10; start its gateway"), "{said}");
    assert_eq!(status, Some(1), "{said}");
}
