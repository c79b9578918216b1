//! A site gets another address, as from a provider that gives a new one each night. Its peer knows it by a name, which gets that address.
//!
//! ```text
//!  [site 1: endpoint = "plant-2.example:PORT"] ── line 1 ── internet ── line 2 ── [site 2]
//!  a file of hosts of its own                                                     198.51.100.10, later 203.0.113.2
//! ```

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lab::plants::{PROBE, WAN};
use lab::{PacketSocket, Plants, PlantsShape};
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{Sites, SitesChoice, configure, site_name};

use super::providers::replace_endpoint;
use super::{DEADLINE, PORT, PROTECTED, Wan, program};

/// The router's and the site's address at the end of line 2, when it has moved.
const ROUTER: &str = "203.0.113.1";
const MOVED: &str = "203.0.113.2";
/// Time for a peer with a management channel: that is lost after 3 s, and made anew at the new address. Generous, for a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// Time between two look-ups of a peer without one, and as much more.
const LATER: Duration = Duration::from_secs(50);

/// The names of hosts that site 1 knows.
struct Hosts(PathBuf);

impl Hosts {
    fn new(scratch: &Scratch) -> Self {
        let hosts = Self(scratch.path().join("hosts"));
        hosts.name("198.51.100.10");
        hosts
    }

    /// Gives plant 2's name this address. The file stays the same one: a mount leads to it.
    fn name(&self, address: &str) {
        std::fs::write(&self.0, format!("{address} plant-2.example\n")).unwrap();
    }

    /// Starts site 1, which sees this file as `/etc/hosts`.
    fn start(&self, plants: &Plants, scratch: &Scratch) -> Station {
        let mount = format!("mount --bind {} /etc/hosts && exec \"$@\"", self.0.display());
        let by = ["unshare", "--mount", "sh", "-c", &mount, "sh"];
        Station::start_by(&by, program(), &plants.plants[0].site, scratch, &site_name(1)).unwrap()
    }
}

/// Gives site 2 another address. Nothing reaches it at the one before.
fn move_site(plants: &Plants) {
    plants.internet.ip(&["addr", "add", &format!("{ROUTER}/30"), "dev", "to2"]).unwrap();
    let site = &plants.plants[1].site;
    site.ip(&["addr", "flush", "dev", WAN, "scope", "global"]).unwrap();
    site.ip(&["addr", "add", &format!("{MOVED}/30"), "dev", WAN]).unwrap();
    site.ip(&["route", "replace", "default", "via", ROUTER]).unwrap();
}

/// Site 1 has `here` in place of site 2's endpoint, and site 2 has `there` in place of site 1's. Frames pass again so soon after the move.
fn follows((mode, port): (&'static str, u16), here: &str, there: Option<&str>, soon: Duration) {
    let plants =
        Plants::build(&PlantsShape { stations: 0, lan_mtu: 1500, ..PlantsShape::default() }).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &plants, &SitesChoice { mode, ..SitesChoice::default() }).unwrap();
    replace_endpoint(&scratch, &plants, 0, here);
    if let Some(there) = there {
        replace_endpoint(&scratch, &plants, 1, there);
    }
    let hosts = Hosts::new(&scratch);
    let sites = vec![
        hosts.start(&plants, &scratch),
        Station::start(program(), &plants.plants[1].site, &scratch, &site_name(2)).unwrap(),
    ];
    let mut wan = Wan::of(plants, Sites { sites, stations: Vec::new(), scratch }, port);
    wan.cross(200, 64);
    wan.cross_back(200, 64);

    move_site(&wan.plants);
    hosts.name(MOVED);
    let moved = Instant::now();
    let mut arrives = PacketSocket::open(wan.probe(1).namespace, PROBE).unwrap();
    while !has_come(&mut wan, &mut arrives) {
        assert!(moved.elapsed() < DEADLINE, "no frame comes to the new address: {:#?}", wan.peer(0));
    }
    let took = moved.elapsed();
    println!("{mode}: {took:?}");
    assert!(took < soon, "{took:?}: {:#?}", wan.peer(0));
    wan.meet();
    wan.cross(200, 64);
    wan.cross_back(200, 64);
    let address = wan.peer(0).address.unwrap();
    assert!(address.starts_with(&format!("{MOVED}:")), "{address}");
    wan.stop();
}

/// Sends a few frames from site 1, and says whether one of them came to plant 2.
fn has_come(wan: &mut Wan, arrives: &mut PacketSocket) -> bool {
    let frames = wan.frames_into(0, 200, 4);
    std::thread::sleep(Duration::from_millis(200));
    let mut come = false;
    while let Some(frame) = arrives.receive_waiting().unwrap() {
        come |= frames.contains(&frame.octets);
    }
    come
}

fn named(port: u16) -> String {
    format!("endpoint = \"plant-2.example:{port}\"\n")
}

#[test]
fn a_peer_in_identifier_mode_is_followed_by_its_name() {
    follows(PROTECTED[0], &named(PORT), Some(""), SOON);
}

/// Both have an endpoint, so either may call: the site that has moved, too, which says nothing of the port of data.
#[test]
fn a_peer_with_header_encryption_is_followed_by_its_name() {
    follows(PROTECTED[1], &named(PORT), None, SOON);
}

#[test]
fn a_peer_with_paths_is_followed_by_its_name() {
    let here = format!("paths = [{{ endpoint = \"plant-2.example:{PORT}\", interface = \"{WAN}\" }}]\n");
    let there = format!("paths = [{{ interface = \"{WAN}\" }}]\n");
    follows(PROTECTED[0], &here, Some(&there), SOON);
}

#[test]
fn a_plain_peer_is_followed_by_its_name() {
    follows(("plain", dataplane::site::VXLAN_PORT), &named(dataplane::site::VXLAN_PORT), None, LATER);
}
