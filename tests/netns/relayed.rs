//! Both ends behind NAT, and a third site with a public address that relays: machines without MACsec, one box in each plant.
//!
//! ```text
//!  machine 1 ── switch ── site-1 ── NAT ──┐                          ┌── NAT ── site-3 ── switch ── machine 3
//!                         192.168.1.2     ├── internet ── site-2 ────┤          192.168.3.2
//!                                         │               relays     │
//! ```
//!
//! Each NAT lets nothing in that was not asked for. Those of one port for all destinations let the sites find a direct way; those that give each
//! connection a port by chance do not.

mod crossed;
mod narrow;
mod only_443;
mod twice;

use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::plants::{BARE, WAN};
use lab::topology::{LEFT, RIGHT, WIRE};
use lab::traffic::{Ip, Until, ping, tcp};
use lab::{Capture, Direction, Machine, Namespace, PacketSocket, Plant, Plants, PlantsShape, Program};
use nix::sys::signal::Signal;
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{PORT, SitesChoice, configure, site_name};
use report::GatewayReport;
use report::site::SitePeerReport;

use super::sites::is_up;
use super::{DEADLINE, EXPERIMENT, counter, exchange, marked, next, program};

const MKA: &str = "protect = true\n[site.mka]\ncak_file = \"line.cak\"";

/// A NAT that keeps the site's port whomever the site sends to, as long as nobody else has it.
pub(super) const ONE_PORT: &str = "masquerade";
/// A NAT with another port for each destination.
const SYMMETRIC: &str = "masquerade fully-random";

/// Makes a NAT of a plant's line, with the address that its site had.
pub(super) fn put_behind_nat(plant: &Plant, nat: &str) {
    let (line, site, number) = (plant.line.as_ref().unwrap(), &plant.site, plant.number);
    let (inside, router) = (format!("192.168.{number}.1"), format!("198.51.100.{}", number * 4 + 1));
    line.ip(&["link", "del", WIRE]).unwrap();
    line.ip(&["addr", "add", &format!("{}/30", plant.ipv4), "dev", RIGHT]).unwrap();
    line.ip(&["route", "add", "default", "via", &router]).unwrap();
    site.ip(&["addr", "flush", "dev", WAN, "scope", "global"]).unwrap();
    translate(line, &inside, nat);
    join(site, &inside);
}

/// Makes a NAT of a box between [`LEFT`], where it gets this address, and [`RIGHT`].
fn translate(nat_box: &Namespace, inside: &str, nat: &str) {
    nat_box.ip(&["addr", "add", &format!("{inside}/24"), "dev", LEFT]).unwrap();
    nat_box.sysctl("net/ipv4/ip_forward", "1").unwrap();
    for command in [
        "add table ip nat",
        "add chain ip nat in { type filter hook input priority 0 ; policy drop ; }",
        "add chain ip nat through { type filter hook forward priority 0 ; policy drop ; }",
        &format!("add rule ip nat through iifname \"{LEFT}\" accept"),
        "add rule ip nat through ct state established,related accept",
        "add chain ip nat out { type nat hook postrouting priority 100 ; }",
        &format!("add rule ip nat out oifname \"{RIGHT}\" {nat}"),
    ] {
        nat_box.run(&["nft", command]).unwrap();
    }
}

/// Gives a site an address behind a NAT.
fn join(site: &Namespace, inside: &str) {
    let own = format!("{}2/24", &inside[..inside.len() - 1]);
    site.ip(&["addr", "add", &own, "dev", WAN]).unwrap();
    site.ip(&["route", "replace", "default", "via", inside]).unwrap();
}

/// Three plants, of which the first and the last are behind NAT, and their boxes.
struct Hub {
    plants: Plants,
    sites: Vec<Station>,
    scratch: Scratch,
}

impl Hub {
    fn new(nat: &str) -> Self {
        Self::behind([nat; 2])
    }

    fn behind(nats: [&str; 2]) -> Self {
        Self::by(|plant, number| put_behind_nat(plant, nats[number]))
    }

    /// A hub, and two spokes, which `put_behind` moves behind what is in front of them: the plant, and 0 or 1.
    fn by(mut put_behind: impl FnMut(&Plant, usize)) -> Self {
        let shape = PlantsShape { plants: 3, machine_mtu: 1500, lan_mtu: 1500, ..PlantsShape::default() };
        let plants = Plants::build(&shape).unwrap();
        for plant in &plants.plants {
            plant.stations[0].gateway.bridge().unwrap();
        }
        for (number, spoke) in [0, 2].into_iter().enumerate() {
            put_behind(&plants.plants[spoke], number);
        }
        let scratch = Scratch::new().unwrap();
        keygen::cak(KeyLength::Bits128, None, &scratch.path().join("line.cak")).unwrap();
        configure(&scratch, &plants, &SitesChoice { site: MKA, ..SitesChoice::default() }).unwrap();
        let hub = Self { plants, sites: Vec::new(), scratch };
        for (own, other) in [(0, 2), (2, 0)] {
            hub.change(own, &hub.endpoint(other), "via = \"plant-2\"\n");
        }
        hub.change(1, &hub.endpoint(0), "");
        hub.change(1, &hub.endpoint(2), "");
        hub.change(1, "protect = true\n", "protect = true\nrelay = true\n");
        hub
    }

    /// The line that says where a plant is.
    fn endpoint(&self, plant: usize) -> String {
        format!("endpoint = \"{}:{PORT}\"\n", self.plants.plants[plant].ipv4)
    }

    /// Changes a box's configuration.
    fn change(&self, plant: usize, what: &str, by: &str) {
        let name = format!("{}.toml", site_name(plant as u8 + 1));
        let text = std::fs::read_to_string(self.scratch.path().join(&name)).unwrap();
        assert!(text.contains(what), "{what}: {text}");
        self.scratch.write(&name, &text.replace(what, by)).unwrap();
    }

    fn start(mut self) -> Self {
        for plant in &self.plants.plants {
            let name = site_name(plant.number);
            self.sites.push(Station::start(program(), &plant.site, &self.scratch, &name).unwrap());
        }
        self
    }

    fn machine(&self, plant: usize) -> &Machine {
        &self.plants.plants[plant].stations[0].machine
    }

    fn until(&self, plant: usize, what: &str, is: impl Fn(&GatewayReport) -> bool) -> GatewayReport {
        let end = Instant::now() + DEADLINE;
        loop {
            let report = self.sites[plant].report().unwrap();
            if is(&report) {
                return report;
            }
            assert!(Instant::now() < end, "{what}: {report:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until all boxes have keys with all others.
    fn secured(&self) {
        let others = self.sites.len() - 1;
        for plant in 0..self.sites.len() {
            self.until(plant, "it is secured", |report| {
                let mka = report.links.first().and_then(|link| link.mka.as_ref());
                mka.is_some_and(|mka| mka.secured && mka.live_peers() == others)
            });
        }
    }

    /// Pings until an answer comes back.
    fn reaches(&self, from: usize, to: usize, octets: u16) {
        let end = Instant::now() + DEADLINE;
        while let Err(error) = ping(self.machine(from), self.machine(to), Ip::V4, 1, octets) {
            assert!(Instant::now() < end, "{error}: {:#?}", self.sites[from].report());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A box's report on another plant.
    fn peer(&self, own: usize, other: usize) -> SitePeerReport {
        let name = format!("plant-{}", other + 1);
        let site = self.sites[own].report().unwrap().sites.remove(0);
        site.peers.into_iter().find(|peer| peer.name == name).unwrap()
    }

    /// All that the spokes have said.
    fn said(&self) -> String {
        [0, 2].map(|spoke: usize| self.sites[spoke].log()).join("\n\n")
    }

    fn command(&self, arguments: &[&str]) -> String {
        let variable = format!("FRAMEWARD_RUNTIME_DIR={}", self.scratch.path().join("run").display());
        let command = [&["env", &variable, program().to_str().unwrap()], arguments].concat();
        let output = Program::spawn(&command).unwrap().wait(DEADLINE).unwrap();
        assert!(output.status.success(), "{arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// Words of doctor at a plant.
    fn doctor(&self, plant: usize) -> String {
        doctor_at(&self.plants.plants[plant].site, &self.scratch, plant as u8 + 1, &[])
    }

    fn kill_and_start(&mut self, plant: usize) {
        self.sites[plant].program().signal(Signal::SIGKILL).unwrap();
        let end = Instant::now() + DEADLINE;
        while self.sites[plant].program().is_running() {
            assert!(Instant::now() < end, "it lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        let of = &self.plants.plants[plant];
        self.sites[plant] =
            Station::start(program(), &of.site, &self.scratch, &site_name(of.number)).unwrap();
    }
}

/// Words of doctor about a plant's site, beside its gateway if that runs.
pub(super) fn doctor_at(site: &Namespace, scratch: &Scratch, plant: u8, more: &[&str]) -> String {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let file = scratch.path().join(format!("{}.toml", site_name(plant)));
    let words = ["env", &variable, program().to_str().unwrap(), "doctor"];
    let command = [&words[..], more, &[file.to_str().unwrap()]].concat();
    let output = site.spawn(&command).unwrap().wait(3 * DEADLINE).unwrap();
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    output.stdout
}

#[test]
fn doctor_names_a_relay_that_is_not_reached() {
    let hub = Hub::new(SYMMETRIC);
    let said = hub.doctor(0);
    let words = "plant-3 does not answer: plant-2, its relay, is not reached; make that one answer first";
    assert_eq!(said.matches(words).count(), 1, "{said}");
    assert_eq!(
        said.matches("nobody listens at UDP 7787 of 198.51.100.10; start its gateway").count(),
        1,
        "{said}"
    );
}

#[test]
fn machines_behind_two_nats_reach_each_other_through_the_hub() {
    let mut hub = Hub::new(SYMMETRIC).start();
    hub.secured();
    for (from, to) in [(0, 2), (2, 0), (0, 1), (1, 2)] {
        hub.reaches(from, to, 1472);
    }
    let (one, three) = (hub.machine(0), hub.machine(2));
    // Frames from spoke to spoke do not come out at the hub, nor are they readable on their way.
    let lan = Capture::start(&hub.plants.plants[1].lan, BARE).unwrap();
    let line = Capture::start(hub.plants.plants[1].line.as_ref().unwrap(), LEFT).unwrap();
    for (from, to, seed) in [(one, three, 0), (three, one, 500)] {
        let frames: Vec<_> = (0..200)
            .map(|number| marked(to.mac, from.mac, EXPERIMENT, 46 + 7 * number, seed + number as u64))
            .collect();
        exchange(from, to, &frames);
    }
    assert_eq!(tcp(one, three, Ip::V4, Until::Octets(2_000_000)).unwrap().octets, 2_000_000);
    let (lan, line) = (lan.stop().unwrap().complete().unwrap(), line.stop().unwrap().complete().unwrap());
    assert_eq!(lan.find(super::MARKER).map(|frame| &frame.octets), None, "it came out at the hub");
    assert!(line.frames.len() > 1000, "it went through the hub: {}", line.frames.len());
    for secret in [&super::MARKER[..], &one.mac, &three.mac] {
        assert_eq!(line.find(secret).map(|frame| &frame.octets), None, "{secret:x?} is on the internet");
    }

    for (own, other) in [(0, 2), (2, 0)] {
        let peer = hub.peer(own, other);
        assert_eq!((peer.state.as_str(), peer.via.as_deref()), ("connected", Some("plant-2")));
        assert_eq!((&peer.address, &peer.seen_at), (&None, &None), "{peer:#?}");
        assert_eq!(peer.round_trips, None, "a hub answers no probes in the name of others");
        assert!(counter(&hub.peer(own, 1).counters, "OutPktsRelayed") > 400);
        assert!(counter(&hub.peer(1, own).counters, "InPktsRelayed") > 400);
    }
    let site = hub.sites[1].report().unwrap().sites.remove(0);
    assert_eq!(counter(&site.path, "InRelayedQuota"), 0);
    // Unknown packets are those that came before the other end had asked for them.
    assert!(counter(&site.path, "InRelayedUnknown") <= 20, "{:?}", site.path);
    // The direct way was looked for: at one end by calls, at the other end by what lets them in.
    for own in [0, 2] {
        hub.until(own, "it says why there is no direct way", |report| {
            report.sites[0]
                .peers
                .iter()
                .any(|peer| peer.relayed && peer.not_direct.starts_with("no direct way: no "))
        });
    }
    let status = hub.command(&["status", "site-1"]);
    assert!(status.contains("relayed by plant-2, in user space"), "{status}");
    for own in [0, 2] {
        let said = hub.doctor(own);
        let cure =
            "for a direct way let the NAT of this plant keep UDP 7787 for all destinations: plant-2 sees";
        assert_eq!(said.matches(cure).count(), 1, "{said}");
    }

    for plant in [1, 2] {
        hub.kill_and_start(plant);
        hub.secured();
        hub.reaches(0, 2, 1472);
        hub.reaches(2, 0, 1472);
    }
    for site in hub.sites {
        site.stop().unwrap();
    }
}

/// Lets packets between the two NATs pass, or not.
fn between_nats(hub: &Hub, passes: bool) {
    let [one, three] = [0, 2].map(|plant: usize| hub.plants.plants[plant].ipv4.to_string());
    for (from, to) in [(&one, &three), (&three, &one)] {
        let action = if passes { "del" } else { "add" };
        let rule = ["rule", action, "from", from, "to", to, "ipproto", "udp", "prio", "10", "blackhole"];
        hub.plants.internet.ip(&rule).unwrap();
    }
}

/// Sends a frame every few milliseconds until it is so, and for a while after it; all arrive, once.
fn counted_until(hub: &Hub, (from, to): (usize, usize), seed: u64, is: impl Fn() -> bool) {
    let (from, to) = (hub.machine(from), hub.machine(to));
    let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    let mut receiver = PacketSocket::open(&to.namespace, to.ifname).unwrap();
    let (mut sent, mut came) = (Vec::new(), Vec::<Vec<u8>>::new());
    // A ping of before may come late over a long line.
    let is_counted = |frame: &[u8]| frame[12..14] == EXPERIMENT.0.to_be_bytes();
    let (end, mut so_since) = (Instant::now() + 2 * DEADLINE, None::<Instant>);
    while so_since.is_none_or(|since| since.elapsed() < Duration::from_secs(1)) {
        assert!(Instant::now() < end, "{:#?} {}", hub.sites[0].report(), hub.said());
        let number = sent.len();
        let frame = marked(to.mac, from.mac, EXPERIMENT, 46 + number * 97 % 1400, seed + number as u64);
        sender.send(&frame).unwrap();
        sent.push(frame);
        if number % 50 == 0 && so_since.is_none() && is() {
            so_since = Some(Instant::now());
        }
        std::thread::sleep(Duration::from_millis(3));
        while let Some(frame) = receiver.receive_waiting().unwrap() {
            came.extend(
                (frame.direction == Direction::In && is_counted(&frame.octets)).then_some(frame.octets),
            );
        }
    }
    while came.len() < sent.len() {
        let frame = next(&mut receiver);
        assert!(frame.is_some(), "{} of {} came", came.len(), sent.len());
        came.extend(frame.filter(|frame| is_counted(frame)));
    }
    came.sort_unstable();
    sent.sort_unstable();
    let told = |frames: &[Vec<u8>], others: &[Vec<u8>]| -> Vec<_> {
        frames.iter().filter(|frame| !others.contains(frame)).map(|frame| frame[..48].to_vec()).collect()
    };
    assert!(came == sent, "lost: {:02x?}; of others: {:02x?}", told(&sent, &came), told(&came, &sent));
}

#[test]
fn a_direct_way_between_two_nats_is_found_while_frames_flow_and_lost_again() {
    let hub = Hub::new(ONE_PORT);
    between_nats(&hub, false);
    let hub = hub.start();
    hub.secured();
    hub.reaches(0, 2, 1472);
    for own in [0, 2] {
        hub.until(own, "the relay carries", |report| report.sites[0].peers.iter().any(|peer| peer.relayed));
    }
    between_nats(&hub, true);
    let direct = || [(0, 2), (2, 0)].iter().all(|(own, other)| !hub.peer(*own, *other).relayed);
    counted_until(&hub, (0, 2), 1000, direct);
    for (own, other) in [(0, 2), (2, 0)] {
        let peer = hub.peer(own, other);
        assert_eq!(peer.address, Some(format!("{}:{PORT}", hub.plants.plants[other].ipv4)), "{peer:#?}");
        assert!(is_up(&peer) && peer.not_direct.is_empty(), "{peer:#?}");
        hub.until(own, "probes are answered", |report| {
            report.sites[0].peers.iter().any(|peer| peer.via.is_some() && peer.round_trips.is_some())
        });
    }
    // The hub has nothing to do with frames any more.
    let relayed = || counter(&hub.peer(1, 0).counters, "InPktsRelayed");
    std::thread::sleep(Duration::from_millis(500));
    let before = relayed();
    counted_until(&hub, (0, 2), 100_000, || true);
    assert_eq!(relayed(), before);
    assert!(hub.command(&["status", "site-1"]).contains("data goes directly to 198.51.100.14:7787"));

    between_nats(&hub, false);
    hub.until(0, "the relay carries again", |report| report.sites[0].peers.iter().any(|peer| peer.relayed));
    hub.reaches(0, 2, 1472);
    hub.reaches(2, 0, 1472);
    hub.secured();
    for site in hub.sites {
        site.stop().unwrap();
    }
}
