//! Sites whose known flows go through the kernel, at both ends or at one: every frame arrives, once, whatever changes meanwhile. The
//! counters of the network device show which way they went: an AF_XDP port has received only what user space forwarded.

mod channel_flood;
mod vlans;

use std::time::{Duration, Instant};

use lab::plants::{BARE, LAN, PROBE, WAN};
use lab::topology::{LEFT, RIGHT};
use lab::{Capture, Direction, PacketSocket, Plants, PlantsShape};
use nix::sys::signal::Signal;
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{PORT, Sites, SitesChoice, configure, site_name};

use super::fieldbus::takes_redirected_frames;
use super::sites::{all_up, site_when};
use super::upgrade::refused;
use super::{DEADLINE, EXPERIMENT, counter, program};

const MACSEC: [u8; 2] = [0x88, 0xe5];
/// The VNI that [`configure`] writes.
const VNI: &str = "77";
/// Octets of a frame of these tests that have its number: its PN.
const NUMBER: std::ops::Range<usize> = 16..20;

struct World {
    plants: Plants,
    sites: Vec<Station>,
    scratch: Scratch,
    probes: [PacketSocket; 2],
    /// The number of the next frame.
    next: u32,
}

fn mac(plant: usize, station: u8) -> [u8; 6] {
    [2, 0, 0, 7, plant as u8, station]
}

/// A frame of a station of a plant to one of the other plant.
fn frame(from: usize, station: u8, number: u32, octets: usize) -> Vec<u8> {
    let head = [&mac(1 - from, station)[..], &mac(from, station), &MACSEC, &[0x0c, 0]].concat();
    let mut frame = [&head[..], &number.to_be_bytes()].concat();
    frame.resize(octets.max(60), station);
    frame
}

impl World {
    /// Two plants without stations, whose sites have this `io`.
    fn new(shape: PlantsShape, choice: &SitesChoice, ios: [&str; 2]) -> Self {
        Self::behind(shape, choice, ios, None)
    }

    /// The same, with a NAT before plant 1 that gives its packets such ports.
    fn behind(shape: PlantsShape, choice: &SitesChoice, ios: [&str; 2], ports: Option<&str>) -> Self {
        let plants = Plants::build(&PlantsShape { stations: 0, ..shape }).unwrap();
        for plant in &plants.plants {
            takes_redirected_frames(&plant.lan, &[BARE]);
            takes_redirected_frames(plant.line.as_ref().unwrap(), &[LEFT, RIGHT]);
        }
        let scratch = Scratch::new().unwrap();
        configure(&scratch, &plants, choice).unwrap();
        for (number, io) in (1..).zip(ios) {
            let file = scratch.path().join(format!("{}.toml", site_name(number)));
            let text = std::fs::read_to_string(&file).unwrap();
            let line = format!("io = \"{}\"", choice.io);
            assert!(text.contains(&line), "{text}");
            let mut text = text.replace(&line, &format!("io = \"{io}\""));
            if ports.is_some() && number == 2 {
                text = text.replace(&format!("endpoint = \"{}:{PORT}\"\n", plants.plants[0].ipv4), "");
            }
            std::fs::write(&file, text).unwrap();
        }
        if let Some(ports) = ports {
            masquerade(&plants, ports);
        }
        let start =
            |plant: &lab::Plant| Station::start(program(), &plant.site, &scratch, &site_name(plant.number));
        let sites: Vec<_> = plants.plants.iter().map(|plant| start(plant).unwrap()).collect();
        let probes = [0, 1].map(|at: usize| PacketSocket::open(&plants.plants[at].lan, PROBE).unwrap());
        let mut world = Self { plants, sites, scratch, probes, next: 1 };
        world.wait_until_up();
        world
    }

    fn wait_until_up(&mut self) {
        // A plain peer has no channel, and so no state.
        if self.sites[0].report().unwrap().sites[0].channel.is_none() {
            return;
        }
        let sites = std::mem::take(&mut self.sites);
        let sites = Sites { sites, stations: Vec::new(), scratch: Scratch::new().unwrap() };
        all_up(&sites);
        self.sites = sites.sites;
    }

    /// Sends one frame, and waits for it.
    fn cross(&mut self, from: usize, station: u8, octets: usize) {
        assert!(self.crosses(from, station, octets, DEADLINE), "from {from}, {octets} octets");
    }

    fn crosses(&mut self, from: usize, station: u8, octets: usize, within: Duration) -> bool {
        let number = self.next;
        self.next += 1;
        self.probes[from].send(&frame(from, station, number, octets)).unwrap();
        let end = Instant::now() + within;
        while Instant::now() < end {
            if let Some(packet) = self.probes[1 - from].receive().unwrap()
                && packet.octets[12..14] == MACSEC
                && packet.octets[NUMBER] == number.to_be_bytes()
                && packet.octets[..6] == mac(1 - from, station)
            {
                return true;
            }
        }
        false
    }

    /// Frames both ways, at a pace, while something happens. Returns for each direction how many did not arrive. None comes twice.
    fn stream(
        &mut self,
        count: u32,
        pause: Duration,
        octets: usize,
        mut at: impl FnMut(&mut Self, u32),
    ) -> [u32; 2] {
        let first = self.next;
        self.next += count;
        let mut seen = [vec![0_u8; count as usize], vec![0_u8; count as usize]];
        let mut last = [0_u32; 2];
        for number in 0..count {
            at(self, number);
            for from in [0, 1] {
                self.probes[from].send(&frame(from, 1, first + number, octets)).unwrap();
            }
            std::thread::sleep(pause);
            self.drain(first, &mut seen, &mut last);
        }
        // On a busy machine a worker may be late with those that it has.
        let (soon, end) =
            (Instant::now() + Duration::from_millis(300), Instant::now() + Duration::from_secs(3));
        while Instant::now() < soon
            || (Instant::now() < end && seen.iter().flatten().any(|times| *times == 0))
        {
            self.drain(first, &mut seen, &mut last);
        }
        seen.map(|seen| {
            assert!(seen.iter().all(|times| *times < 2), "a frame came twice");
            seen.iter().filter(|times| **times == 0).count() as u32
        })
    }

    fn drain(&mut self, first: u32, seen: &mut [Vec<u8>; 2], last: &mut [u32; 2]) {
        for from in [0, 1] {
            while let Some(packet) =
                self.probes[1 - from].receive_waiting().unwrap().map(|frame| frame.octets)
            {
                if packet.len() < NUMBER.end || packet[12..14] != MACSEC || packet[..6] != mac(1 - from, 1) {
                    continue;
                }
                let number = u32::from_be_bytes(packet[NUMBER].try_into().unwrap());
                if let Some(times) = number.checked_sub(first).and_then(|at| seen[from].get_mut(at as usize))
                {
                    *times += 1;
                    assert!(number > last[from], "frame {number} came behind {}", last[from]);
                    last[from] = number;
                }
            }
        }
    }

    /// Lets both directions of a flow become known, and waits until user space sees no frame of it any more.
    fn warm(&mut self, station: u8) {
        let end = Instant::now() + DEADLINE;
        loop {
            let before = [0, 1].map(|at| self.received_by_user_space(at));
            for _ in 0..8 {
                self.cross(0, station, 100);
                self.cross(1, station, 100);
                std::thread::sleep(Duration::from_millis(20));
            }
            if [0, 1].map(|at| self.received_by_user_space(at)) == before {
                return;
            }
            assert!(Instant::now() < end, "{:?}", [0, 1].map(|at| self.path(at)));
        }
    }

    /// Frames of its LAN that a site's AF_XDP port has received.
    fn received_by_user_space(&self, at: usize) -> u64 {
        counter(&self.sites[at].report().unwrap().sites[0].lan.counters, "RxFrames")
    }

    fn sent(&self, at: usize) -> u64 {
        counter(&self.sites[at].report().unwrap().sites[0].peers[0].counters, "OutPktsTunnelled")
    }

    /// Packets of data that a site's UDP port has received.
    fn packets(&self, at: usize) -> u64 {
        counter(&self.sites[at].report().unwrap().sites[0].peers[0].counters, "InPktsTunnelled")
    }

    fn path(&self, at: usize) -> String {
        self.sites[at].report().unwrap().sites[0].peers[0].path.clone().unwrap()
    }

    fn stop(self) {
        for gateway in self.sites {
            gateway.stop().unwrap();
        }
        for plant in &self.plants.plants {
            let shown = plant.site.ip(&["-d", "link", "show", LAN]).unwrap().stdout;
            assert!(!shown.contains("xdp"), "{shown}");
        }
        drop(self.scratch);
    }
}

fn known_flows_cross(choice: &SitesChoice, ios: [&str; 2], kernel: [bool; 2]) {
    let wan_mtu = if choice.ipv6 { 1520 } else { 1500 };
    let mut world =
        World::new(PlantsShape { ipv6: choice.ipv6, wan_mtu, ..PlantsShape::default() }, choice, ios);
    if kernel == [true; 2] {
        world.warm(1);
        assert_eq!([0, 1].map(|at| world.path(at)), ["kernel", "kernel"]);
    } else {
        for _ in 0..8 {
            world.cross(0, 1, 100);
            world.cross(1, 1, 100);
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let [user_space, sent, received] = [0, 1, 2].map(|what| {
        [0, 1].map(|at| match what {
            0 => world.received_by_user_space(at),
            1 => world.sent(at),
            _ => world.packets(at),
        })
    });
    assert_eq!(world.stream(1000, Duration::from_millis(1), 400, |_, _| {}), [0, 0]);
    for at in [0, 1] {
        let by_hand = world.received_by_user_space(at) - user_space[at];
        assert_eq!(by_hand < 50, kernel[at], "site {at}: {by_hand} frames in user space; {}", world.path(at));
        assert!(world.sent(at) - sent[at] >= 1000 && world.packets(at) - received[at] >= 1000);
    }
    // VXLAN's header takes 8 of 1472 octets, or of 1452 over IPv6: the path MTU of a plain peer is what is configured.
    let most = match (choice.mode, choice.ipv6) {
        ("plain", false) => 1464,
        ("plain", true) => 1444,
        _ => 1470,
    };
    for octets in [60, 61, 599, 1300, most] {
        world.cross(0, 1, octets);
        world.cross(1, 1, octets);
    }
    world.stop();
}

#[test]
fn flows_of_plain_peers_cross_in_the_kernel() {
    let choice = SitesChoice { io: "kernel", mode: "plain", ..SitesChoice::default() };
    known_flows_cross(&choice, ["kernel", "auto"], [true; 2]);
}

#[test]
fn flows_of_plain_peers_cross_in_the_kernel_over_ipv6() {
    let choice = SitesChoice { ipv6: true, mode: "plain", ..SitesChoice::default() };
    known_flows_cross(&choice, ["auto", "auto"], [true; 2]);
}

#[test]
fn a_plain_site_in_the_kernel_meets_one_in_user_space() {
    let choice = SitesChoice { mode: "plain", ..SitesChoice::default() };
    known_flows_cross(&choice, ["auto", "af_xdp"], [true, false]);
}

/// The next program could load none.
#[test]
fn a_site_in_the_kernel_is_not_upgraded_and_goes_on() {
    let mut world = World::new(PlantsShape::default(), &SitesChoice::default(), ["auto"; 2]);
    world.cross(0, 1, 100);
    let why = refused(&world.scratch, &site_name(1));
    assert!(why.contains("site \"plant-1\"") && why.contains("programs in the kernel"), "{why}");
    world.cross(0, 1, 100);
    world.cross(1, 1, 100);
    world.stop();
}

/// The other end of a plain peer's VXLAN is Linux's own interface, bridged to the LAN.
#[test]
fn the_kernels_own_vxlan_is_a_plain_peer() {
    let choice = SitesChoice { mode: "plain", ..SitesChoice::default() };
    let mut world = World::new(PlantsShape::default(), &choice, ["kernel", "auto"]);
    world.sites.pop().unwrap().stop().unwrap();
    let (site, remote) = (&world.plants.plants[1].site, world.plants.plants[0].ipv4.to_string());
    let vxlan = [
        "link", "add", "vxlan", "type", "vxlan", "id", VNI, "remote", &remote, "dstport", "4789", "dev", WAN,
    ];
    site.ip(&vxlan).unwrap();
    site.ip(&["link", "add", "name", "joint", "type", "bridge", "mcast_snooping", "0"]).unwrap();
    for port in ["vxlan", LAN] {
        site.ip(&["link", "set", port, "master", "joint", "up"]).unwrap();
    }
    site.ip(&["link", "set", "joint", "up"]).unwrap();
    let (end, mut before) = (Instant::now() + DEADLINE, None);
    while before != Some(world.received_by_user_space(0)) {
        before = Some(world.received_by_user_space(0));
        for _ in 0..8 {
            world.cross(0, 1, 100);
            world.cross(1, 1, 100);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(Instant::now() < end, "{}", world.path(0));
    }
    assert_eq!(world.path(0), "kernel");
    let (user_space, packets) = (world.received_by_user_space(0), world.packets(0));
    assert_eq!(world.stream(1000, Duration::from_millis(1), 400, |_, _| {}), [0, 0]);
    assert!(world.received_by_user_space(0) - user_space < 50, "{}", world.path(0));
    assert!(world.packets(0) - packets >= 1000);
    world.stop();
}

/// A station that is never answered: no flow goes back that would tell the programs of it.
#[test]
fn frames_of_a_plain_peer_that_nobody_answers_go_to_the_kernel() {
    let choice = SitesChoice { mode: "plain", ..SitesChoice::default() };
    let mut world = World::new(PlantsShape::default(), &choice, ["auto", "auto"]);
    world.cross(0, 1, 100);
    let by_hand =
        |world: &World| counter(&world.sites[1].report().unwrap().sites[0].lan.counters, "TxFrames");
    let (end, mut before) = (Instant::now() + DEADLINE, by_hand(&world));
    loop {
        for _ in 0..50 {
            world.cross(0, 1, 100);
        }
        let now = by_hand(&world);
        if now == before {
            break;
        }
        before = now;
        assert!(Instant::now() < end, "{}", world.path(1));
    }
    world.stop();
}

/// The LAN port of the receiver stops taking redirected frames: nothing is lost for longer than a look takes.
#[test]
fn a_lan_that_takes_no_redirected_frames_gets_those_of_plain_peers_from_user_space() {
    let choice = SitesChoice { mode: "plain", ..SitesChoice::default() };
    let mut world = World::new(PlantsShape::default(), &choice, ["auto", "auto"]);
    world.warm(1);
    world.plants.plants[1].lan.run(&["ethtool", "-K", BARE, "gro", "off"]).unwrap();
    site_when(&world.sites[1], "it is received in user space", |site| {
        site.peers[0]
            .path
            .as_ref()
            .is_some_and(|path| path.contains("received: user space: its LAN port takes no redirected"))
    });
    assert_eq!(world.stream(300, Duration::from_millis(1), 300, |_, _| {}), [0, 0]);
    world.plants.plants[1].lan.run(&["ethtool", "-K", BARE, "gro", "on"]).unwrap();
    site_when(&world.sites[1], "it is the kernel's again", |site| {
        site.peers[0].path.as_deref() == Some("kernel")
    });
    assert_eq!(world.stream(300, Duration::from_millis(1), 300, |_, _| {}), [0, 0]);
    world.stop();
}

#[test]
fn known_flows_cross_in_the_kernel() {
    known_flows_cross(&SitesChoice { io: "kernel", ..SitesChoice::default() }, ["kernel", "auto"], [true; 2]);
}

#[test]
fn known_flows_cross_in_the_kernel_over_ipv6() {
    known_flows_cross(&SitesChoice { ipv6: true, ..SitesChoice::default() }, ["auto", "kernel"], [true; 2]);
}

/// A gateway with programs and one without.
#[test]
fn a_site_in_the_kernel_meets_one_in_user_space() {
    known_flows_cross(&SitesChoice::default(), ["auto", "af_xdp"], [true, false]);
}

/// A gateway that is killed under load takes its programs with it, and comes back.
#[test]
fn nothing_passes_a_killed_site() {
    killed_and_back(&SitesChoice::default());
}

#[test]
fn nothing_passes_a_killed_site_of_plain_peers() {
    killed_and_back(&SitesChoice { mode: "plain", ..SitesChoice::default() });
}

fn killed_and_back(choice: &SitesChoice) {
    let mut world = World::new(PlantsShape::default(), choice, ["auto", "auto"]);
    world.warm(1);
    let under_load = world.sent(0);
    let number = world.next;
    world.next += 1;
    let send = |world: &World| {
        [0, 1].into_iter().for_each(|from| world.probes[from].send(&frame(from, 1, number, 200)).unwrap());
    };
    (0..50).for_each(|_| send(&world));
    assert!(world.sent(0) > under_load);
    world.sites[0].program().signal(Signal::SIGKILL).unwrap();
    while world.sites[0].program().is_running() {
        send(&world);
        std::thread::sleep(Duration::from_millis(1));
    }
    // Other CPUs may have frames under way.
    std::thread::sleep(Duration::from_millis(100));
    let plant = &world.plants.plants[0];
    let wire = Capture::start(plant.line.as_ref().unwrap(), LEFT).unwrap();
    let lan = Capture::start(&plant.lan, BARE).unwrap();
    (0..100).for_each(|_| send(&world));
    std::thread::sleep(Duration::from_millis(100));
    // Behind them on the same wires: when they are seen, frames would have been.
    for (interface, capture) in [(WAN, &wire), (LAN, &lan)] {
        let marker = [&[2; 12][..], &EXPERIMENT.0.to_be_bytes(), &[7; 46]].concat();
        PacketSocket::open(&plant.site, interface).unwrap().send(&marker).unwrap();
        let end = Instant::now() + DEADLINE;
        while capture.since(0).iter().all(|frame| frame.octets != marker) {
            assert!(Instant::now() < end, "the marker does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let lan = lan.stop().unwrap();
    let into_the_lan = lan.going(Direction::In).filter(|frame| frame.octets[12..14] == MACSEC).count();
    assert_eq!(into_the_lan, 0, "a frame of the other site is in the LAN");
    let wire = wire.stop().unwrap();
    // The other site's plain packets are in sight.
    let found = wire.find(&mac(0, 1)).filter(|_| choice.mode != "plain");
    assert_eq!(found, None, "a frame of the LAN is on the network");
    let udp = |frame: &&lab::Frame| {
        frame.octets[6..14] == [&world.plants.plants[0].wan_mac[..], &[8, 0]].concat()
            && frame.octets[23] == 17
    };
    assert_eq!(wire.frames.iter().filter(udp).count(), 0, "it sends packets still");
    let (plant, scratch) = (&world.plants.plants[0].site, &world.scratch);
    world.sites[0] = Station::start(program(), plant, scratch, &site_name(1)).unwrap();
    world.wait_until_up();
    world.warm(1);
    assert_eq!(world.stream(300, Duration::from_millis(1), 300, |_, _| {}), [0, 0]);
    world.stop();
}

/// The LAN's interface vanishes and comes back, loses its carrier and gets another MTU, and the WAN's loses its carrier: frames are lost while that
/// lasts, and then go through the kernel again.
#[test]
fn a_site_comes_back_to_the_kernel_whatever_its_interfaces_do() {
    let shape = PlantsShape::default();
    let mut world = World::new(shape.clone(), &SitesChoice::default(), ["auto", "auto"]);
    world.warm(1);
    for event in ["the LAN vanishes", "the LAN's carrier", "the WAN's carrier", "another MTU"] {
        let plant = &world.plants.plants[0];
        let waits = |waits: bool| {
            site_when(&world.sites[0], event, |site| site.waiting.is_some() == waits);
        };
        match event {
            "the LAN vanishes" => {
                plant.site.ip(&["link", "del", LAN]).unwrap();
                waits(true);
                plant.remake_lan(&shape).unwrap();
                takes_redirected_frames(&plant.lan, &[BARE]);
            }
            "another MTU" => {
                let mtu = (shape.lan_mtu - 2).to_string();
                plant.site.ip(&["link", "set", LAN, "mtu", &mtu]).unwrap();
                site_when(&world.sites[0], event, |site| {
                    u64::from(site.lan.mtu) == u64::from(shape.lan_mtu) - 2
                });
            }
            _ => {
                let (namespace, interface) = match event {
                    "the LAN's carrier" => (&plant.lan, BARE),
                    _ => (plant.line.as_ref().unwrap(), LEFT),
                };
                namespace.ip(&["link", "set", interface, "down"]).unwrap();
                std::thread::sleep(Duration::from_secs(1));
                namespace.ip(&["link", "set", interface, "up"]).unwrap();
            }
        }
        waits(false);
        world.wait_until_up();
        let end = Instant::now() + DEADLINE;
        while !world.crosses(0, 1, 100, Duration::from_millis(100)) {
            assert!(Instant::now() < end, "{event}: nothing passes");
        }
        world.warm(1);
        assert_eq!([0, 1].map(|at| world.path(at)), ["kernel", "kernel"], "{event}");
        assert_eq!(world.stream(300, Duration::from_millis(1), 300, |_, _| {}), [0, 0], "{event}");
    }
    world.stop();
}

/// Frames that do not fit one packet go through user space, and frames behind them wait for them.
#[test]
fn frames_keep_their_order_across_both_ways() {
    let shape = PlantsShape { lan_mtu: 1500, ..PlantsShape::default() };
    let mut world = World::new(shape, &SitesChoice::default(), ["auto", "auto"]);
    world.warm(1);
    let first = world.next;
    for round in 0..200_u32 {
        let octets = if round % 20 == 0 { 1514 } else { 100 };
        world.probes[0].send(&frame(0, 1, first + round, octets)).unwrap();
    }
    world.next += 200;
    let (mut last, mut count) = (0, 0);
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        while let Some(packet) = world.probes[1].receive_waiting().unwrap().map(|frame| frame.octets) {
            if packet[12..14] == MACSEC && packet[..6] == mac(1, 1) {
                let number = u32::from_be_bytes(packet[NUMBER].try_into().unwrap());
                if number >= first {
                    assert!(number > last, "frame {number} came behind {last}");
                    (last, count) = (number, count + 1);
                }
            }
        }
    }
    assert_eq!(count, 200);
    world.stop();
}

/// A WAN whose other end takes no redirected frames stays in user space, and says so.
#[test]
fn a_wan_that_xdp_cannot_take_stays_in_user_space() {
    let plants = PlantsShape::default();
    let mut world = World::new(plants, &SitesChoice::default(), ["auto", "auto"]);
    world.warm(1);
    let line = world.plants.plants[0].line.as_ref().unwrap();
    line.run(&["ethtool", "-K", LEFT, "gro", "off"]).unwrap();
    site_when(&world.sites[0], "it leaves the kernel", |site| {
        site.peers[0].path.as_ref().is_some_and(|path| path.contains("WAN port takes no redirected frames"))
    });
    assert_eq!(world.stream(300, Duration::from_millis(1), 300, |_, _| {}), [0, 0]);
    world.stop();
}

/// Gives packets of plant 1 towards plant 2 source ports of this range, as `wan::nat` does.
fn masquerade(plants: &Plants, ports: &str) {
    let rule = format!("oifname \"to2\" ip protocol udp masquerade to :{ports}");
    for command in [
        "add table ip nat",
        "flush table ip nat",
        "add chain ip nat out { type nat hook postrouting priority 100 ; }",
        &format!("add rule ip nat out {rule}"),
    ] {
        plants.internet.run(&["nft", command]).unwrap();
    }
    plants.internet.ip(&["link", "set", "to2", "down"]).unwrap();
    plants.internet.ip(&["link", "set", "to2", "up"]).unwrap();
}

/// A NAT on the way changes its mind: the programs follow the peer to its new address.
#[test]
fn a_peer_that_moves_stays_in_the_kernel() {
    let (shape, choice) = (PlantsShape::default(), SitesChoice::default());
    let mut world = World::behind(shape, &choice, ["auto", "auto"], Some("20000-20999"));
    world.warm(1);
    masquerade(&world.plants, "30000-30999");
    site_when(&world.sites[1], "plant 1 is elsewhere", |site| {
        site.peers[0].address.as_ref().is_some_and(|address| address.starts_with("198.51.100.9:30"))
    });
    world.warm(1);
    assert_eq!([0, 1].map(|at| world.path(at)), ["kernel", "kernel"]);
    let before = [0, 1].map(|at| world.received_by_user_space(at));
    assert_eq!(world.stream(500, Duration::from_millis(1), 300, |_, _| {}), [0, 0]);
    assert!((0..2).all(|at| world.received_by_user_space(at) - before[at] < 50));
    world.stop();
}

/// A line that is cut for longer than windows are wide: the lane is found again by its position.
#[test]
fn a_lane_that_was_lost_is_found_again() {
    let mut world = World::new(PlantsShape::default(), &SitesChoice::default(), ["auto", "auto"]);
    world.warm(1);
    let line = |world: &World, state: &str| {
        world.plants.plants[1].line.as_ref().unwrap().ip(&["link", "set", "wire", state]).unwrap();
    };
    line(&world, "down");
    let first = world.next;
    for number in 0..1_200_000 / 60 {
        world.probes[0].send(&frame(0, 1, first + number, 60)).unwrap();
    }
    world.next += 20_000;
    line(&world, "up");
    let end = Instant::now() + DEADLINE;
    while !world.crosses(0, 1, 100, Duration::from_millis(100)) {
        assert!(Instant::now() < end, "it stays lost");
    }
    assert_eq!(world.stream(300, Duration::from_millis(1), 300, |_, _| {}), [0, 0]);
    world.stop();
}

/// One end starts again under load: the frames of its absence are lost, and no other.
#[test]
fn a_site_that_starts_again_comes_back_to_the_kernel() {
    let mut world = World::new(PlantsShape::default(), &SitesChoice::default(), ["auto", "auto"]);
    world.warm(1);
    world.stream(1500, Duration::from_millis(1), 300, |world, number| {
        if number == 500 {
            world.sites.remove(1).stop().unwrap();
            let plant = &world.plants.plants[1].site;
            let again = Station::start(program(), plant, &world.scratch, &site_name(2)).unwrap();
            world.sites.push(again);
        }
    });
    world.wait_until_up();
    world.warm(1);
    assert_eq!([0, 1].map(|at| world.path(at)), ["kernel", "kernel"]);
    assert_eq!(world.stream(300, Duration::from_millis(1), 300, |_, _| {}), [0, 0]);
    world.stop();
}

/// Packets may come in at an interface that takes no program: they are received in user space, wherever they come in.
#[test]
fn a_site_with_another_way_in_receives_in_user_space() {
    let plants = |world: &World| {
        let site = &world.plants.plants[0].site;
        site.ip(&["link", "add", "other", "type", "bridge"]).unwrap();
        site.ip(&["addr", "add", "192.0.2.7/24", "dev", "other"]).unwrap();
    };
    let mut world = World::new(PlantsShape::default(), &SitesChoice::default(), ["auto", "auto"]);
    world.warm(1);
    plants(&world);
    world.sites.remove(0).stop().unwrap();
    let plant = &world.plants.plants[0].site;
    world.sites.insert(0, Station::start(program(), plant, &world.scratch, &site_name(1)).unwrap());
    world.wait_until_up();
    world.warm(1);
    let path = world.path(0);
    assert!(path.contains("sent: kernel; received: user space: its packets may come in at other"), "{path}");
    assert_eq!(world.stream(300, Duration::from_millis(1), 300, |_, _| {}), [0, 0]);
    world.stop();
}

/// A flow that never pauses does not stay in user space.
#[test]
fn a_flow_without_a_pause_goes_to_the_kernel() {
    let mut world = World::new(PlantsShape::default(), &SitesChoice::default(), ["auto", "auto"]);
    world.cross(1, 1, 100);
    let (end, number) = (Instant::now() + 2 * DEADLINE, world.next);
    let mut sent = 0;
    let mut burst = |world: &World| {
        for _ in 0..500 {
            world.probes[0].send(&frame(0, 1, number + sent, 100)).unwrap();
            sent += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let mut before = world.received_by_user_space(0);
    loop {
        burst(&world);
        let now = world.received_by_user_space(0);
        if now - before < 10 {
            break;
        }
        assert!(Instant::now() < end, "{}", world.path(0));
        before = now;
    }
    world.stop();
}

/// A packet of data from the first site to the second, as a stranger sees it in the internet.
fn overheard(world: &mut World, device: &str) -> Vec<u8> {
    let here = world.plants.plants[0].ipv4.octets();
    let is_data = |seen: &[u8]| {
        seen.len() > 60
            && seen[12..14] == [8, 0]
            && seen[23] == 17
            && seen[26..30] == here
            && seen[36..38] == PORT.to_be_bytes()
            && seen[42] & 0x40 == 0
    };
    let mut wire = PacketSocket::open(&world.plants.internet, device).unwrap();
    loop {
        world.cross(0, 1, 100);
        while let Some(seen) = wire.receive_waiting().unwrap() {
            if is_data(&seen.octets) {
                return seen.octets;
            }
        }
    }
}

/// Made-up packets in a peer's name, more of them than the worker has time for. Known flows go on in the kernel. So do frames that are user
/// space's, for the programs know its identifiers, and the channel, whose packets have a part of their own.
#[test]
fn a_flood_of_made_up_packets_costs_neither_way_its_frames() {
    const RATE: u32 = 60_000;
    const COUNT: u32 = 1000;
    const GROUP: [u8; 6] = [3, 0, 0, 7, 0, 0];
    let mut world = World::new(PlantsShape::default(), &SitesChoice::default(), ["auto", "auto"]);
    world.warm(1);
    let device = lab::plants::to(world.plants.plants[1].number);
    let good = overheard(&mut world, &device);
    let mut number = 0_u32;
    let made_up = move |packet: &mut Vec<u8>| {
        packet.clone_from(&good);
        number += 1;
        packet[43..47].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
        packet[40..42].fill(0);
    };
    // Packets that the programs dropped, and packets that came to user space.
    let strangers = |world: &World| {
        let site = world.sites[1].report().unwrap().sites.remove(0);
        [counter(&site.path, "InPktsFlood"), counter(&site.tunnel, "InPktsUnknownIdentifier")]
    };
    assert_eq!(strangers(&world)[0], 0, "nobody sends too much yet");
    let from = (&world.plants.internet, &*device);
    let load = lab::macsec::Load::start_with(from, made_up, Some(RATE), 4 * DEADLINE).unwrap();
    let end = Instant::now() + DEADLINE;
    while strangers(&world)[0] == 0 {
        assert!(Instant::now() < end, "all of them come to user space: {:?}", strangers(&world));
        std::thread::sleep(Duration::from_millis(50));
    }

    let (before, sent_before) = (strangers(&world), load.sent());
    let (taken, by_hand) = (world.packets(1), world.received_by_user_space(0));
    let first = world.next;
    world.next += COUNT;
    let mut arrived = [0, 0];
    for number in first..first + COUNT {
        world.probes[0].send(&frame(0, 1, number, 100)).unwrap();
        let mut to_group = frame(0, 1, number, 100);
        to_group[..6].copy_from_slice(&GROUP);
        world.probes[0].send(&to_group).unwrap();
        let end = Instant::now() + Duration::from_millis(if number + 1 == first + COUNT { 500 } else { 2 });
        while Instant::now() < end {
            let Some(seen) = world.probes[1].receive_waiting().unwrap() else { continue };
            if seen.octets[12..14] == MACSEC && seen.octets[6..12] == mac(0, 1) {
                arrived[usize::from(seen.octets[..6] == GROUP)] += 1;
            }
        }
    }
    let (after, sent) = (strangers(&world), load.sent() - sent_before);
    let [dropped, came] = [0, 1].map(|at| after[at] - before[at]);
    println!(
        "of {sent} made-up packets {dropped} were dropped and {came} came to user space; arrived: {arrived:?}"
    );
    assert!(arrived.iter().all(|frames| *frames >= COUNT * 19 / 20), "{arrived:?}");
    assert!(dropped > sent / 4 && dropped + came <= sent + u64::from(RATE), "{dropped} and {came} of {sent}");
    assert!(world.packets(1) - taken >= u64::from(2 * COUNT * 19 / 20));
    let by_hand = world.received_by_user_space(0) - by_hand;
    assert!(by_hand < u64::from(COUNT * 5 / 4), "the known flow is in the kernel: {by_hand} frames are not");
    // A flow that nobody has announced needs the channel.
    world.cross(0, 9, 100);
    world.cross(1, 9, 100);
    assert!(load.stop().unwrap() > sent);
    world.warm(9);
    world.stop();
}
