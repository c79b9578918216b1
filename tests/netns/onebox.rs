//! Sites that protect their LANs: machines without MACsec in several plants, one box in each, nothing between them.
//!
//! ```text
//!  machine 1 ── (a bridge) ── switch ── site-1 ~~ line ~~ internet ~~ line ~~ site-2 ── switch ── (a bridge) ── machine 2
//!                                       SecY, KaY, tunnel
//! ```

use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::plants::{BARE, LAN, PROBE};
use lab::topology::{LEFT, PLAIN, RIGHT};
use lab::traffic::{Ip, MARKER, Until, ping, tcp};
use lab::{Capture, Machine, PacketSocket, Plants, PlantsShape, Program};
use nix::sys::signal::Signal;
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{SitesChoice, configure, site_name, station_name};
use report::{GatewayReport, LinkReport};
use wire::EtherType;

use super::reload::reloaded;
use super::{DEADLINE, EXPERIMENT, counter, exchange, marked, program};

/// Lines of `[[site]]`.
pub(super) const MKA: &str = "protect = true\n[site.mka]\ncak_file = \"line.cak\"";

/// Plants, a box in each, and machines without MACsec.
pub(super) struct OneBox {
    pub(super) plants: Plants,
    pub(super) sites: Vec<Station>,
    stations: Vec<Station>,
    pub(super) scratch: Scratch,
}

impl OneBox {
    fn new(plants: u8) -> Self {
        Self::started(plants, 1, &SitesChoice { site: MKA, ..SitesChoice::default() })
    }

    pub(super) fn started(plants: u8, stations: u8, choice: &SitesChoice) -> Self {
        let mut boxes = Self::configured(plants, stations, choice);
        boxes.start();
        boxes
    }

    /// The first machine of each plant has no MACsec, and the second one a station.
    pub(super) fn configured(plants: u8, stations: u8, choice: &SitesChoice) -> Self {
        let shape =
            PlantsShape { plants, stations, machine_mtu: 1500, lan_mtu: 1500, ..PlantsShape::default() };
        let plants = Plants::build(&shape).unwrap();
        for plant in &plants.plants {
            plant.stations[0].gateway.bridge().unwrap();
            // Octets that a station adds have to fit the LAN.
            for station in &plant.stations[1..] {
                let machine = &station.machine;
                for (of, ifname) in
                    [(&station.gateway.namespace, PLAIN), (&machine.namespace, machine.ifname)]
                {
                    of.ip(&["link", "set", ifname, "mtu", "1468"]).unwrap();
                }
            }
        }
        let scratch = Scratch::new().unwrap();
        keygen::cak(KeyLength::Bits128, None, &scratch.path().join("line.cak")).unwrap();
        configure(&scratch, &plants, choice).unwrap();
        Self { plants, sites: Vec::new(), stations: Vec::new(), scratch }
    }

    pub(super) fn start(&mut self) {
        for plant in &self.plants.plants {
            let start =
                |namespace, name: &str| Station::start(program(), namespace, &self.scratch, name).unwrap();
            self.sites.push(start(&plant.site, &site_name(plant.number)));
            if let Some(station) = plant.stations.get(1) {
                self.stations.push(start(&station.gateway.namespace, &station_name(plant.number, 2)));
            }
        }
    }

    pub(super) fn machine(&self, plant: usize) -> &Machine {
        &self.plants.plants[plant].stations[0].machine
    }

    /// Waits until the box of a plant is as it should be.
    pub(super) fn until(
        &self,
        plant: usize,
        what: &str,
        is: impl Fn(&GatewayReport) -> bool,
    ) -> GatewayReport {
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
    pub(super) fn secured(&self) {
        let others = self.sites.len() - 1;
        for plant in 0..self.sites.len() {
            self.until(plant, "it is secured", |report| {
                let mka = report.links.first().and_then(|link| link.mka.as_ref());
                mka.is_some_and(|mka| mka.secured && mka.live_peers() == others)
            });
        }
    }

    /// Pings until an answer comes back.
    pub(super) fn reaches(&self, from: usize, to: usize, octets: u16) {
        let end = Instant::now() + DEADLINE;
        while let Err(error) = ping(self.machine(from), self.machine(to), Ip::V4, 1, octets) {
            assert!(Instant::now() < end, "{error}: {:#?}", self.sites[from].report());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Numbered frames of all sizes both ways, each delivered once, in order, octet for octet.
    pub(super) fn counted(&self, seed: u64) {
        let (a, b) = (self.machine(0), self.machine(1));
        for (from, to) in [(a, b), (b, a)] {
            let sizes = [46, 64, 600, 1438, 1470, 1499, 1500].into_iter().cycle().take(200);
            let frame = |(number, octets): (u64, usize)| {
                let mut frame = marked(to.mac, from.mac, EXPERIMENT, octets, seed + number);
                // A VLAN tag comes on top, as it does in any LAN.
                if number % 3 == 0 {
                    frame.splice(12..12, [0x81, 0, 0xe0, 7]);
                }
                frame
            };
            exchange(from, to, &(0..).zip(sizes).map(frame).collect::<Vec<_>>());
        }
    }

    pub(super) fn command(&self, arguments: &[&str]) -> String {
        let variable = format!("FRAMEWARD_RUNTIME_DIR={}", self.scratch.path().join("run").display());
        let command = [&["env", &variable, program().to_str().unwrap()], arguments].concat();
        let output = Program::spawn(&command).unwrap().wait(DEADLINE).unwrap();
        assert!(output.status.success(), "{arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    pub(super) fn change(&self, plant: u8, from: &str, to: &str) {
        let name = format!("{}.toml", site_name(plant));
        let text = std::fs::read_to_string(self.scratch.path().join(&name)).unwrap();
        assert!(text.contains(from), "{text}");
        self.scratch.write(&name, &text.replacen(from, to, 1)).unwrap();
    }

    pub(super) fn restart(&mut self, plant: usize, signal: Signal) {
        self.sites[plant].program().signal(signal).unwrap();
        let end = Instant::now() + DEADLINE;
        while self.sites[plant].program().is_running() {
            assert!(Instant::now() < end, "it lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        let of = &self.plants.plants[plant];
        self.sites[plant] =
            Station::start(program(), &of.site, &self.scratch, &site_name(of.number)).unwrap();
    }

    pub(super) fn stop(self) {
        for station in self.stations.into_iter().chain(self.sites) {
            station.stop().unwrap();
        }
    }
}

fn link(report: &GatewayReport) -> &LinkReport {
    &report.links[0]
}

fn ki(report: &GatewayReport) -> String {
    link(report).mka.as_ref().unwrap().sak().unwrap().ki.clone()
}

#[test]
fn machines_of_two_plants_are_one_lan_and_the_internet_sees_nothing_of_them() {
    for mode in ["identifier", "header-encryption"] {
        machines_are_one_lan(mode);
    }
}

fn machines_are_one_lan(mode: &'static str) {
    let boxes = OneBox::started(2, 1, &SitesChoice { site: MKA, mode, ..SitesChoice::default() });
    boxes.secured();
    boxes.reaches(0, 1, 56);
    let [one, two] = &boxes.plants.plants[..] else { panic!("two plants") };
    let line = Capture::start(one.line.as_ref().unwrap(), LEFT).unwrap();
    let lan = Capture::start(&two.lan, PROBE).unwrap();
    let (a, b) = (boxes.machine(0), boxes.machine(1));
    boxes.counted(1);
    assert!(ping(a, b, Ip::V4, 5, 1472).unwrap().summary.contains(" 0% packet loss"));
    for (from, to) in [(a, b), (b, a)] {
        assert_eq!(tcp(from, to, Ip::V4, Until::Octets(2_000_000)).unwrap().octets, 2_000_000);
    }
    // To all: the switch floods it, so the search below can find something.
    exchange(a, b, &[marked([0xff; 6], a.mac, EXPERIMENT, 200, 7)]);
    let heard = |report: &GatewayReport| counter(&link(report).secy.counters, "InPktsKay");
    let before = heard(&boxes.sites[1].report().unwrap());
    boxes.until(1, "its KaY hears the other", |report| heard(report) >= before + 2);
    let (line, lan) = (line.stop().unwrap().complete().unwrap(), lan.stop().unwrap().complete().unwrap());
    assert!(line.frames.len() > 1000);
    for secret in [&MARKER[..], super::MARKER, &a.mac, &b.mac, &one.lan_mac, &two.lan_mac] {
        assert_eq!(line.find(secret).map(|frame| &frame.octets), None, "{secret:x?} is on the internet");
    }
    let mkpdus = lan.of_ethertype(EtherType::EAPOL.0).count();
    assert_eq!(mkpdus, 0, "MKPDUs between KaYs that know each other stay in the tunnel");
    assert!(
        lan.find(super::MARKER).is_some() && lan.find(&a.mac).is_some(),
        "the search finds what is there"
    );

    let report = boxes.sites[0].report().unwrap();
    assert_eq!(link(&report).concerns, []);
    let secy = &link(&report).secy;
    assert!(counter(&secy.transmit.counters, "OutPktsEncrypted") > 1000, "{secy:#?}");
    assert_eq!(secy.path.as_deref(), Some("user space: it is inside of a site"));
    assert_eq!(report.sites[0].lan.mtu, 1500, "that of the interface");
    let peer = &report.sites[0].peers[0];
    assert!(counter(&peer.counters, "OutPktsSplit") > 100, "full frames go in two packets: {peer:#?}");
    // One SC of theirs, whose frames were all verified.
    let [sc] = &secy.receive[..] else { panic!("{secy:#?}") };
    for name in ["InPktsNotValid", "InPktsLate"] {
        assert_eq!(counter(&sc.counters, name), 0, "{name}");
    }
    assert!(counter(&sc.counters, "InPktsOK") > 1000);
    let status = boxes.command(&["status", "site-1"]);
    for words in ["link plant-1", "site plant-1", "key agreement: secured", "OutPktsEncrypted"] {
        assert!(status.contains(words), "{words}: {status}");
    }
    boxes.stop();
}

#[test]
fn keys_roll_and_settings_change_without_a_lost_frame() {
    let choice = SitesChoice { io: "af_packet", site: MKA, ..SitesChoice::default() };
    let boxes = OneBox::started(2, 1, &choice);
    boxes.secured();
    boxes.counted(1);
    let before = ki(&boxes.sites[0].report().unwrap());
    boxes.command(&["rekey", "site-1", "plant-1"]);
    let (mut seed, end) = (10_000, Instant::now() + DEADLINE);
    while boxes.sites.iter().any(|site| ki(&site.report().unwrap()) == before) {
        boxes.counted(seed);
        seed += 1000;
        assert!(Instant::now() < end, "the key stays");
    }
    boxes.counted(seed);
    // The KaY alone.
    boxes.change(1, "cak_file = \"line.cak\"", "cak_file = \"line.cak\"\npriority = 8\nrekey = \"1h\"");
    let said = reloaded(&boxes.scratch, "site-1");
    assert!(!said.contains("restarted"), "{said}");
    boxes.counted(seed + 1000);
    // The site itself: all is agreed on anew.
    boxes.change(1, "protect = true", "protect = true\ndscp = 46");
    let said = reloaded(&boxes.scratch, "site-1");
    assert!(said.contains("restarted; its peers agree on keys anew"), "{said}");
    boxes.secured();
    boxes.reaches(0, 1, 1472);
    boxes.counted(seed + 2000);
    assert!(reloaded(&boxes.scratch, "site-1").contains("unchanged"));
    boxes.counted(seed + 3000);
    boxes.stop();
}

#[test]
fn three_plants_are_a_group_also_after_one_was_killed() {
    let mut boxes = OneBox::new(3);
    boxes.secured();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        boxes.reaches(from, to, 1472);
    }
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        boxes.restart(1, signal);
        boxes.secured();
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            boxes.reaches(from, to, 1472);
        }
    }
    boxes.counted(1);
    boxes.stop();
}

#[test]
fn static_keys_survive_a_kill_and_what_was_recorded_or_forged_reaches_no_machine() {
    let mut boxes = OneBox::configured(2, 1, &SitesChoice::default());
    for plant in [1_u8, 2] {
        keygen::static_key(KeyLength::Bits128, &boxes.scratch.path().join(format!("from-{plant}.key")))
            .unwrap();
    }
    let sa = |plant: u8| {
        format!("an = 0\nsci = \"02:00:00:00:dd:{plant:02x}/1\"\nkey_file = \"from-{plant}.key\"\n")
    };
    for plant in [1, 2] {
        let keys = format!("[site.static]\n{}[[site.static.peer]]\n{}", sa(plant), sa(3 - plant));
        let lines = format!("protect = true\nsuite = \"gcm-aes-128\"\n{keys}[[site.peer]]");
        boxes.change(plant, "[[site.peer]]", &lines);
    }
    boxes.start();
    boxes.reaches(0, 1, 1472);
    let line = boxes.plants.plants[1].line.as_ref().unwrap();
    let recorded = Capture::start(line, RIGHT).unwrap();
    boxes.counted(1);
    let recorded = recorded.stop().unwrap().complete().unwrap();
    let towards: Vec<_> = recorded
        .going(lab::Direction::In)
        .filter(|frame| super::wan::is_data(perf::demo::sites::PORT, &frame.octets))
        .map(|frame| frame.octets.clone())
        .collect();
    assert!(towards.len() > 200, "{} packets", towards.len());
    boxes.restart(1, Signal::SIGKILL);
    boxes.reaches(0, 1, 1472);
    boxes.counted(5000);
    // Recorded packets from the line, and on both LANs what looks like the SecY's own frames.
    let mut hears = PacketSocket::open(&boxes.machine(1).namespace, boxes.machine(1).ifname).unwrap();
    let attacker = PacketSocket::open(boxes.plants.plants[1].line.as_ref().unwrap(), LEFT).unwrap();
    towards.iter().for_each(|packet| attacker.send(packet).unwrap());
    let (a, b) = (boxes.machine(0), boxes.machine(1));
    let insider = PacketSocket::open(&boxes.plants.plants[0].lan, PROBE).unwrap();
    // Ahead of all that were sent: a box that starts anew refuses earlier ones as late, without a look at their ICV.
    for pn in 1_000_000..1_000_050_u32 {
        for plant in [1, 2] {
            let sci = [2, 0, 0, 0, 0xdd, plant, 0, 1];
            let tag = [&[0x88, 0xe5, 0x2c, 0][..], &pn.to_be_bytes(), &sci].concat();
            insider.send(&[&b.mac[..], &a.mac, &tag, &[0x5a; 100]].concat()).unwrap();
        }
    }
    boxes.until(0, "those under its own SCI are dropped", |report| {
        counter(&report.sites[0].path, "OutPktsOwnSci") == 50
    });
    boxes.until(1, "those under the other one's are discarded", |report| {
        counter(&link(report).secy.counters, "InPktsNoSAError") == 50
    });
    // Nothing came to the machine but what is sent now.
    let last = marked(b.mac, a.mac, EXPERIMENT, 300, 99);
    PacketSocket::open(&a.namespace, a.ifname).unwrap().send(&last).unwrap();
    assert_eq!(super::next(&mut hears), Some(last));
    boxes.counted(9000);
    boxes.stop();
}

#[test]
fn stations_with_macsec_go_on_beside_machines_without() {
    let boxes = OneBox::started(2, 2, &SitesChoice { site: MKA, ..SitesChoice::default() });
    boxes.secured();
    boxes.reaches(0, 1, 1472);
    let [one, two] = [0, 1].map(|plant: usize| &boxes.plants.plants[plant].stations[1].machine);
    let end = Instant::now() + DEADLINE;
    while let Err(error) = ping(one, two, Ip::V4, 3, 1400) {
        assert!(Instant::now() < end, "{error}");
    }
    exchange(one, two, &[marked(two.mac, one.mac, EXPERIMENT, 1400, 3)]);
    boxes.counted(1);
    let report = boxes.sites[1].report().unwrap();
    assert!(counter(&report.sites[0].path, "InPktsStations") >= 4, "{:#?}", report.sites[0].path);
    // The stations' frames are none of the site's SecY.
    for station in &boxes.stations {
        let report = station.report().unwrap();
        assert!(report.links[0].secy.receive.iter().any(|sc| counter(&sc.counters, "InPktsOK") >= 4));
    }
    boxes.stop();
}

/// A reload puts a link into the site of its name, and takes it out again.
#[test]
fn a_link_becomes_a_site_by_reload_and_a_link_again() {
    let mut boxes = OneBox::configured(2, 1, &SitesChoice { site: MKA, ..SitesChoice::default() });
    boxes.plants.plants[0]
        .site
        .ip(&["link", "add", "name", "spare", "type", "veth", "peer", "name", "far"])
        .unwrap();
    for ifname in ["spare", "far"] {
        boxes.plants.plants[0].site.ip(&["link", "set", ifname, "up"]).unwrap();
    }
    let site = std::fs::read_to_string(boxes.scratch.path().join("site-1.toml")).unwrap();
    let gateway = site.split_once("[[site]]").unwrap().0;
    let link_section = format!(
        "{gateway}[[link]]\nname = \"plant-1\"\nplain = \"{LAN}\"\nprotected = \"spare\"\nfragment = \"on\"\n\
         [link.mka]\ncak_file = \"line.cak\"\n"
    );
    boxes.scratch.write("site-1.toml", &link_section).unwrap();
    boxes.start();
    for _ in 0..2 {
        boxes.until(0, "it is a link", |report| report.sites.is_empty() && link(report).waiting.is_none());
        boxes.scratch.write("site-1.toml", &site).unwrap();
        reloaded(&boxes.scratch, "site-1");
        boxes.until(0, "it is a site", |report| report.sites.len() == 1);
        boxes.secured();
        boxes.reaches(0, 1, 1472);
        boxes.scratch.write("site-1.toml", &link_section).unwrap();
        reloaded(&boxes.scratch, "site-1");
    }
    boxes.stop();
}

#[test]
fn a_lan_that_vanishes_or_gets_another_mtu_comes_back() {
    let boxes = OneBox::new(2);
    boxes.secured();
    boxes.counted(1);
    let site = &boxes.plants.plants[0].site;
    site.ip(&["link", "set", LAN, "name", "away"])
        .or_else(|_| {
            site.ip(&["link", "set", LAN, "down"])?;
            site.ip(&["link", "set", LAN, "name", "away"])
        })
        .unwrap();
    boxes.until(0, "it waits", |report| link(report).waiting.is_some());
    site.ip(&["link", "set", "away", "down"]).unwrap();
    site.ip(&["link", "set", "away", "name", LAN]).unwrap();
    site.ip(&["link", "set", LAN, "up"]).unwrap();
    boxes.until(0, "it goes on", |report| link(report).waiting.is_none());
    boxes.secured();
    boxes.reaches(0, 1, 1472);
    let lan = &boxes.plants.plants[0].lan;
    lan.ip(&["link", "set", BARE, "down"]).unwrap();
    let report = boxes.until(0, "it says so", |report| {
        link(report).concerns.iter().any(|concern| concern.text.contains("no carrier"))
    });
    assert!(!link(&report).concerns.iter().any(|concern| concern.text.contains("tunnel")), "{report:#?}");
    lan.ip(&["link", "set", BARE, "up"]).unwrap();
    boxes.reaches(0, 1, 1472);
    for (ns, ifname) in [(lan, BARE), (site, LAN)] {
        ns.ip(&["link", "set", ifname, "mtu", "1400"]).unwrap();
    }
    boxes.until(0, "it has the other MTU", |report| {
        link(report).waiting.is_none() && link(report).plain.mtu == 1400
    });
    boxes.secured();
    boxes.reaches(0, 1, 1300);
    boxes.stop();
}
