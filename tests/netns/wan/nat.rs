//! A site behind a router that rewrites its address: its peer has no endpoint for it, and finds it by its connection.
//!
//! ```text
//!  [site 1] ── line 1 ── router ── line 2 ── [site 2: no endpoint for plant-1]
//!  198.51.100.6          masquerade: 198.51.100.9, ports of its own
//! ```
//!
//! Or behind two: line 1 is a NAT as well, and the router one of a provider that forgets what is silent.

use std::time::{Duration, Instant};

use lab::plants::PROBE;
use lab::topology::{LEFT, RIGHT};
use lab::{PacketSocket, Plants, PlantsShape};
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{PORT, Sites, SitesChoice, configure, site_name};

use super::{DEADLINE, PROTECTED, Wan, program};
use crate::relayed::{ONE_PORT, put_behind_nat};

/// The router's address towards plant 2, which is all that plant 2 sees.
const OUTSIDE: &str = "198.51.100.9";
/// The router's interface towards plant 2.
const TOWARDS: &str = "to2";
/// Octets of the IPv4 header, its checksum and the source's address in a frame.
const IPV4: std::ops::Range<usize> = 14..34;
const IPV4_CHECKSUM: std::ops::Range<usize> = 24..26;
const IPV4_SOURCE: std::ops::Range<usize> = 26..30;
const UDP_CHECKSUM: std::ops::Range<usize> = 40..42;

/// Gives packets towards plant 2 source ports of this range. The router forgets what it knew before: the kernel drops
/// what it masqueraded by way of an interface that goes down.
fn masquerade(plants: &Plants, ports: &str) {
    let rule = format!("oifname \"{TOWARDS}\" ip protocol udp masquerade to :{ports}");
    let internet = &plants.internet;
    for command in [
        "add table ip nat",
        "flush table ip nat",
        "add chain ip nat out { type nat hook postrouting priority 100 ; }",
        &format!("add rule ip nat out {rule}"),
    ] {
        internet.run(&["nft", command]).unwrap();
    }
    internet.ip(&["link", "set", TOWARDS, "down"]).unwrap();
    internet.ip(&["link", "set", TOWARDS, "up"]).unwrap();
}

fn plants_behind_nat() -> Plants {
    let plants =
        Plants::build(&PlantsShape { stations: 0, lan_mtu: 1500, ..PlantsShape::default() }).unwrap();
    masquerade(&plants, "20000-20999");
    plants
}

fn behind_nat(plants: Plants) -> Wan {
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &plants, &SitesChoice::default()).unwrap();
    let file = scratch.path().join("site-2.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let endpoint = format!("endpoint = \"{}:{PORT}\"\n", plants.plants[0].ipv4);
    assert!(text.contains(&endpoint), "{text}");
    std::fs::write(&file, text.replace(&endpoint, "")).unwrap();
    let start = |plant: &lab::Plant| {
        Station::start(program(), &plant.site, &scratch, &site_name(plant.number)).unwrap()
    };
    let sites = plants.plants.iter().map(start).collect();
    Wan::of(plants, Sites { sites, stations: Vec::new(), scratch }, PROTECTED[0].1)
}

/// The same packet from somebody else, with a right IPv4 header, and without a checksum of UDP.
fn from_elsewhere(packet: &[u8], source: [u8; 4]) -> Vec<u8> {
    let mut forged = packet.to_vec();
    forged[IPV4_SOURCE].copy_from_slice(&source);
    forged[UDP_CHECKSUM].fill(0);
    forged[IPV4_CHECKSUM].fill(0);
    let mut sum: u32 =
        forged[IPV4].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    forged[IPV4_CHECKSUM].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    forged
}

/// Returns the address to which a site sends its peer's packets.
fn address(wan: &Wan, index: usize) -> String {
    wan.peer(index).address.unwrap()
}

fn connections(wan: &Wan) -> u64 {
    let site = wan.report(1).sites.remove(0);
    super::super::counter(&site.channel.unwrap(), "Connections")
}

#[test]
fn a_peer_without_an_endpoint_is_reached_behind_a_nat_that_changes_its_mind() {
    let mut wan = behind_nat(plants_behind_nat());
    let outside = |port: u32| format!("{OUTSIDE}:{port}");
    let of_range = |address: &str, range: std::ops::Range<u32>| range.map(outside).any(|one| one == address);
    let first = address(&wan, 1);
    assert!(of_range(&first, 20_000..21_000), "{first}");
    wan.cross(200, 64);
    wan.cross_back(200, 64);
    assert_eq!(wan.peer(0).seen_at.as_ref(), Some(&first), "the site behind the router is told");

    // Another port: what the site behind the router sends arrives as before, and its peer follows when it has validated
    // the new address.
    let before = connections(&wan);
    masquerade(&wan.plants, "30000-30999");
    let end = Instant::now() + DEADLINE;
    while !of_range(&address(&wan, 1), 30_000..31_000) {
        assert!(Instant::now() < end, "{} remains: {:#?}", address(&wan, 1), wan.peer(1));
        wan.frames_into(0, 200, 8);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    wan.meet();
    wan.cross(200, 64);
    wan.cross_back(200, 64);
    assert_eq!(connections(&wan), before, "the management channel moved, and was not made anew");

    // A packet that never arrived, so that its identifier is good, is taken from wherever it comes; nothing moves.
    let now = address(&wan, 1);
    let mut held = PacketSocket::open(wan.line(1), RIGHT).unwrap();
    let attacker = PacketSocket::open(wan.line(1), LEFT).unwrap();
    let mut lan = PacketSocket::open(wan.probe(1).namespace, PROBE).unwrap();
    wan.line(1).ip(&["link", "set", "wire", "down"]).unwrap();
    let frames = wan.frames_into(0, 200, 16);
    let mut packets = Vec::new();
    while packets.len() < frames.len() {
        assert!(Instant::now() < end + DEADLINE, "{} packets", packets.len());
        let packet = held.receive().unwrap();
        packets.extend(packet.filter(|packet| wan.is_data(&packet.octets)).map(|packet| packet.octets));
    }
    for (packet, frame) in packets.iter().zip(&frames) {
        attacker.send(&from_elsewhere(packet, [203, 0, 113, 7])).unwrap();
        assert_eq!(super::next(&mut lan).as_ref(), Some(frame), "genuine, wherever it comes from");
    }
    wan.line(1).ip(&["link", "set", "wire", "up"]).unwrap();
    drop((held, attacker, lan));
    assert_eq!(address(&wan, 1), now, "no data packet moves a peer");
    wan.meet();
    wan.cross_back(200, 64);
    assert_eq!(address(&wan, 1), now);
    // Both logs say that it moved.
    let words = ["it sees this site at 198.51.100.9:30", "it is now at 198.51.100.9:30"];
    for (site, words) in wan.sites.sites.into_iter().zip(words) {
        let said = site.stop().unwrap();
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
}

/// Silence of the plants, and the time after which both NATs forget a mapping, in seconds. A provider's NAT may forget one after two minutes at the
/// earliest (RFC 4787, 4.3), and many do after 30 s. `FRAMEWARD_SILENCE_SECONDS`: so long a silence, with these 30 s.
fn silence() -> (Duration, u32) {
    let asked = std::env::var("FRAMEWARD_SILENCE_SECONDS").ok();
    let seconds = asked.as_ref().map_or(16, |seconds| seconds.parse().unwrap());
    (Duration::from_secs(seconds), if asked.is_some() { 30 } else { 6 })
}

/// No frame passes for several times as long, nor does key agreement. Then the first frame comes from outside.
#[test]
fn two_nats_that_forget_soon_let_frames_in_after_a_long_silence() {
    let plants = plants_behind_nat();
    put_behind_nat(&plants.plants[0], ONE_PORT);
    let (silence, forgets) = silence();
    for nat in [plants.plants[0].line.as_ref().unwrap(), &plants.internet] {
        for of in ["udp_timeout", "udp_timeout_stream"] {
            nat.sysctl(&format!("net/netfilter/nf_conntrack_{of}"), &forgets.to_string()).unwrap();
        }
    }
    let mut wan = behind_nat(plants);
    let before = (address(&wan, 1), connections(&wan));
    std::thread::sleep(silence);
    wan.cross_back(200, 64);
    wan.cross(200, 64);
    assert_eq!((address(&wan, 1), connections(&wan)), before, "{:#?}", wan.peer(1));
    wan.stop();
}
