//! A site with 64 peers, which are 64 sites of one process.
//!
//! ```text
//!              site of plant 1          internet         box of plant 2
//!  to-site ── lan [plant-1: run] wan ────────────── wan [crowd: run] lan1 ── to1 ┐
//!                                                       64 × [[site]] lan2 ── to2 ├ LANs of their own
//!                                                                     …           ┘
//! ```

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use frameward::keygen;
use lab::cpu::resident;
use lab::macsec::Prepared;
use lab::plants::{BARE, LAN};
use lab::{Direction, Namespace, PacketSocket, Plants, PlantsShape};
use perf::demo::pair::{Scratch, Station};
use report::site::SiteReport;

use super::sites::{is_up, site_when};
use super::{DEADLINE, program};

/// Peers that a site has at least room for.
const PEERS: u8 = 64;
/// The data port of the site, and that of the first of the others; each takes two.
const PORT: u16 = 7787;
const CROWD_PORT: u16 = 8000;
/// Octets that a peer may cost a site. In a debug build, mostly untouched: what is measured is printed.
const MOST_PER_PEER: u64 = 8 << 20;

fn lan(peer: u8) -> String {
    format!("lan{peer}")
}

fn outside(peer: u8) -> String {
    format!("to{peer}")
}

/// A LAN for each of the others: an interface pair whose outer end is the whole LAN.
fn build_lans(inside: &Namespace, lans: &Namespace) {
    for peer in 1..=PEERS {
        let (lan, outside) = (lan(peer), outside(peer));
        let ends = ["link", "add", &lan, "mtu", "1470", "type", "veth", "peer", "name", &outside];
        inside.ip(&[&ends[..], &["mtu", "1470", "netns", lans.name()]].concat()).unwrap();
        inside.ip(&["link", "set", &lan, "up"]).unwrap();
        lans.ip(&["link", "set", &outside, "up"]).unwrap();
    }
}

fn configure(scratch: &Scratch, plants: &Plants) {
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let key = |name: &str| keygen::site(&scratch.path().join(format!("{name}.key"))).unwrap();
    let gateway = |name: &str| {
        let state = scratch.path().join(format!("state-{name}"));
        format!("[gateway]\nname = \"{name}\"\nstate = \"{}\"\n", state.display())
    };
    let own = key("one");
    let mut site = gateway("one")
        + &format!(
            "[[site]]\nname = \"plant-1\"\nlan = \"{LAN}\"\nbind = \"0.0.0.0:{PORT}\"\nidentity = \"one.key\"\n"
        );
    let mut crowd = gateway("crowd");
    for peer in 1..=PEERS {
        let (name, port) = (format!("peer-{peer}"), CROWD_PORT + 2 * u16::from(peer));
        let public = key(&name);
        write!(
            site,
            "[[site.peer]]\nname = \"{name}\"\nendpoint = \"{}:{port}\"\npublic_key = \"{public}\"\n",
            two.ipv4
        )
        .unwrap();
        write!(
            crowd,
            "[[site]]\nname = \"{name}\"\nlan = \"{}\"\nbind = \"0.0.0.0:{port}\"\nidentity = \"{name}.key\"\n\
             [[site.peer]]\nname = \"plant-1\"\nendpoint = \"{}:{PORT}\"\npublic_key = \"{own}\"\n",
            lan(peer),
            one.ipv4
        )
        .unwrap();
    }
    scratch.write("one.toml", &site).unwrap();
    scratch.write("crowd.toml", &crowd).unwrap();
}

/// The next frame of a station that comes in, octet for octet.
fn expect(receiver: &mut PacketSocket, frame: &[u8]) {
    let end = Instant::now() + DEADLINE;
    loop {
        let received = receiver.receive().unwrap().filter(|received| received.direction == Direction::In);
        match received.filter(|received| received.octets[12..14] == [0x88, 0xe5]) {
            Some(received) => break assert_eq!(received.octets, frame),
            None => assert!(Instant::now() < end, "a frame is missing"),
        }
    }
}

#[test]
fn a_site_with_64_peers_which_are_64_sites_of_one_process() {
    let shape = PlantsShape { stations: 0, switches: false, lines: false, ..PlantsShape::default() };
    let plants = Plants::build(&shape).unwrap();
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    build_lans(&two.site, &two.lan);
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &plants);
    let crowd = Station::start(program(), &two.site, &scratch, "crowd").unwrap();
    let before = resident(crowd.id()).unwrap();
    let site = Station::start(program(), &one.site, &scratch, "one").unwrap();
    let up = |site: &SiteReport| site.peers.len() == usize::from(PEERS) && site.peers.iter().all(is_up);
    // This many handshakes at once take a busy machine's time.
    let end = Instant::now() + 3 * DEADLINE;
    while !up(&site.report().unwrap().sites[0]) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
    let report = site_when(&site, "all peers are up", up);
    assert_eq!(report.peers.len(), usize::from(PEERS));

    // A frame for a station that nobody knows goes to all of them, and each LAN's answer comes from its site alone.
    let station = |number: u8| [2, 0, 0, 1, 0, number];
    let mut home = PacketSocket::open(&one.lan, BARE).unwrap();
    let mut lans: Vec<_> =
        (1..=PEERS).map(|peer| PacketSocket::open(&two.lan, &outside(peer)).unwrap()).collect();
    let group = Prepared::new(station(0), [1, 0x80, 0xc2, 0, 0, 0x40], 200, 1).next_frame();
    home.send(&group).unwrap();
    lans.iter_mut().for_each(|lan| expect(lan, &group));
    for (peer, lan) in (1..).zip(&lans) {
        let frame = Prepared::new(station(peer), station(0), 200, 1).next_frame();
        lan.send(&frame).unwrap();
        expect(&mut home, &frame);
    }
    // And back to that one.
    for (peer, lan) in (1..).zip(&mut lans) {
        let frame = Prepared::new(station(0), station(peer), 200, 1 + u32::from(peer)).next_frame();
        home.send(&frame).unwrap();
        expect(lan, &frame);
    }
    let learned = |site: &SiteReport| site.stations.len() == usize::from(PEERS) + 1;
    let report = site_when(&site, "all stations have their place", learned);
    for peer in 1..=PEERS {
        let name = Some(format!("peer-{peer}"));
        let behind = report.stations.iter().filter(|station| station.peer == name).count();
        assert_eq!(behind, 1, "behind {name:?}: {:?}", report.stations);
    }
    for (what, octets) in [
        ("a site with 64 peers", resident(site.id()).unwrap()),
        ("64 sites with a peer each, before", before),
        ("64 sites with a peer each, behind", resident(crowd.id()).unwrap()),
    ] {
        println!("{what}: {} MiB", octets >> 20);
    }
    let most = u64::from(PEERS) * MOST_PER_PEER;
    assert!(resident(site.id()).unwrap() < most, "{} octets", resident(site.id()).unwrap());
    site.stop().unwrap();
    crowd.stop().unwrap();
}
