//! Another program in the place of a running gateway's that has a site. The site begins anew, and its peers need no change. The link that protects
//! its LAN goes on with its SAs and as the same member of its group; links beside it lose no frame.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lab::topology::LEFT;
use lab::traffic::{Ip, ping};
use lab::{Capture, Direction, Machine, Plants, PlantsShape, Shape};
use perf::demo::pair::{Choice, LinkKeys, Pair, Station};
use perf::demo::sites::{PORT, Sites, SitesChoice, site_name};
use report::LinkReport;
use wire::EtherType;

use super::onebox::{MKA, OneBox};
use super::reload::while_they_talk;
use super::sites::{all_up, both_ways};
use super::upgrade::{upgrade, upgraded};
use super::{DEADLINE, counter, program};

/// Upgrades of each box.
const ROUNDS: usize = 3;

fn link(station: &Station) -> LinkReport {
    station.report().unwrap().links.remove(0)
}

/// The member of a group that a box is: MI, KI, whether it is key server, SAKs that were made and installed.
fn member(station: &Station) -> (String, String, bool, u64) {
    let mka = link(station).mka.unwrap();
    let saks = counter(&mka.counters, "SaksMade") + counter(&mka.counters, "SaksInstalled");
    (mka.mi.clone(), mka.sak().unwrap().ki.clone(), mka.is_key_server, saks)
}

fn next_pn(station: &Station) -> u64 {
    link(station).secy.transmit.sas[0].next_pn.unwrap()
}

/// Upgrades the box of a plant, which is told beforehand what its site does, and waits until frames cross again. Returns for how long they did not.
fn upgraded_until_it_passes(boxes: &OneBox, plant: usize) -> Duration {
    let output = upgrade(&boxes.scratch, &site_name(plant as u8 + 1));
    assert!(output.status.success(), "{}", output.stderr);
    let (told, done) = (output.stdout.find("begins anew"), output.stdout.find("frames waited"));
    assert!(told.is_some() && told < done, "{}", output.stdout);
    let since = Instant::now();
    boxes.reaches(plant, 1 - plant, 56);
    since.elapsed()
}

#[test]
fn a_box_that_protects_its_lan_goes_on_as_the_same_member() {
    for io in ["af_packet", "af_xdp"] {
        let boxes = OneBox::started(2, 1, &SitesChoice { io, site: MKA, ..SitesChoice::default() });
        boxes.secured();
        boxes.reaches(0, 1, 1472);
        boxes.counted(1);
        let stations = [&boxes.sites[0], &boxes.sites[1]];
        let (processes, members) = (stations.map(Station::id), stations.map(member));
        let mut stood = Vec::new();
        for round in 0..2 * ROUNDS {
            let plant = round % 2;
            let (sent, heard) = (next_pn(stations[plant]), counters(&boxes, 1 - plant, "InPktsOK"));
            stood.push(upgraded_until_it_passes(&boxes, plant));
            assert!(next_pn(stations[plant]) > sent, "PNs go on");
            boxes.counted(1000 * (round as u64 + 2));
            assert!(counters(&boxes, 1 - plant, "InPktsOK") > heard + 200);
            assert_eq!(stations.map(member), members, "the same members, and no other SAK");
        }
        println!("{io}: sites stood still for {stood:?} after the command");
        assert_eq!(stations.map(Station::id), processes);
        for plant in 0..2 {
            for name in ["InPktsLate", "InPktsNotValid", "InPktsDelayed"] {
                assert_eq!(counters(&boxes, plant, name), 0, "{name}: no PN came twice");
            }
            let report = boxes.sites[plant].report().unwrap();
            assert_eq!(report.upgrade.clone().map(|of| (of.count, of.done)), Some((ROUNDS as u64, true)));
            assert_eq!(boxes.sites[plant].report().unwrap().links[0].concerns, []);
        }
        boxes.stop();
    }
}

fn counters(boxes: &OneBox, plant: usize, name: &str) -> u64 {
    let sc = link(&boxes.sites[plant]).secy.receive;
    sc.iter().map(|sc| counter(&sc.counters, name)).sum()
}

/// Stations speak MACsec themselves; the sites carry it. Both are upgraded at once, too. No UDP payload comes twice.
#[test]
fn sites_begin_anew_and_stations_notice_nothing_but_a_pause() {
    for mode in ["identifier", "header-encryption", "plain"] {
        let plants = Plants::build(&PlantsShape::default()).unwrap();
        let choice = SitesChoice { io: "af_packet", mode, ..SitesChoice::default() };
        let sites = Sites::start(program(), &plants, &choice).unwrap();
        all_up_or_plain(&sites, mode);
        let [one, two] = &plants.plants[..] else { panic!("two plants") };
        let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
        passes(a, b);
        let line = Capture::start(one.line.as_ref().unwrap(), LEFT).unwrap();
        for round in 0..ROUNDS as u64 {
            upgraded(&sites.scratch, &site_name(1 + (round % 2) as u8));
            all_up_or_plain(&sites, mode);
            passes(a, b);
            (0..10).for_each(|number| both_ways(a, b, 10 * round + number));
        }
        std::thread::scope(|scope| {
            let both = [1, 2].map(|number| {
                let (scratch, name) = (&sites.scratch, site_name(number));
                scope.spawn(move || upgraded(scratch, &name))
            });
            println!("{mode}: both at once, frames waited {:?} ms", both.map(|one| one.join().unwrap()));
        });
        all_up_or_plain(&sites, mode);
        passes(a, b);
        both_ways(a, b, 99);
        if mode != "plain" {
            let frames = line.stop().unwrap().complete().unwrap().frames;
            let sent = frames.iter().filter(|frame| frame.direction == Direction::In);
            let payloads: Vec<_> = sent.filter_map(|frame| data(mode, &frame.octets)).collect();
            let distinct: HashSet<_> = payloads.iter().collect();
            assert!(payloads.len() > 10 * ROUNDS, "{}", payloads.len());
            assert_eq!(payloads.len(), distinct.len(), "a packet came twice");
        }
        sites.stop().unwrap();
    }
}

/// The payload of a packet with a frame, over IPv4: on the data port what has not QUIC's bit, or all on the next one.
fn data<'f>(mode: &str, frame: &'f [u8]) -> Option<&'f [u8]> {
    // Ethernet 14, IPv4 20, UDP 8 with its destination port in octets 2 and 3.
    let (headers, payload) = frame.split_at_checked(42).filter(|(_, payload)| !payload.is_empty())?;
    let port = u16::from_be_bytes([headers[36], headers[37]]);
    let is_data = match mode {
        "identifier" => port == PORT && payload[0] & 0x40 == 0,
        _ => port == PORT + 1,
    };
    (headers[12..14] == EtherType::IPV4.0.to_be_bytes() && is_data).then_some(payload)
}

fn all_up_or_plain(sites: &Sites, mode: &str) {
    if mode != "plain" {
        all_up(sites);
    }
}

fn passes(a: &Machine, b: &Machine) {
    let end = Instant::now() + DEADLINE;
    while let Err(error) = ping(a, b, Ip::V4, 1, 56) {
        assert!(Instant::now() < end, "{error}");
    }
}

/// A link in the same process loses no frame, as without the site.
#[test]
fn a_link_beside_a_site_loses_no_frame() {
    let choice = Choice {
        io: "af_packet",
        suite: suite::CipherSuite::GcmAes128,
        gateway: "",
        link: "replay_window = 64",
        keys: LinkKeys::Static,
        environment: &[],
    };
    let (topology, Pair { a, b, scratch }) = super::lab(&Shape::default(), &choice);
    a.stop().unwrap();
    // A LAN without machines: what counts here is that there is a site, whose peer nobody is.
    let box_a = &topology.gateway_a.namespace;
    box_a.ip(&["link", "add", "lan", "type", "veth", "peer", "name", "switch"]).unwrap();
    for end in ["lan", "switch"] {
        box_a.ip(&["link", "set", end, "up"]).unwrap();
    }
    let site = "\n[[site]]\nname = \"line\"\nlan = \"lan\"\nbind = \"0.0.0.0:7787\"\n\
                [[site.peer]]\nname = \"far\"\nendpoint = \"127.0.0.1:4790\"\nmode = \"plain\"\nvni = 7\n";
    let config = scratch.path().join("a.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}{site}")).unwrap();
    let a = Station::start(program(), box_a, &scratch, "a").unwrap();
    let sent = while_they_talk(&topology, || {
        let waited: Vec<_> = (0..2 * ROUNDS).map(|_| upgraded(&scratch, "a")).collect();
        println!("beside a site: frames waited {waited:?} ms");
    });
    assert!(sent.iter().all(|sent| *sent > 0));
    assert_eq!(a.report().unwrap().sites[0].name, "line");
    a.stop().unwrap();
    b.stop().unwrap();
}
