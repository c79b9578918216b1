//! Somebody who knows where a site is: without its public key nothing says that there is one.
//!
//! ```text
//!  [site 1: another public key for plant-2] ── line 1 ── internet ── line 2 ── [site 2: no endpoint for plant-1]
//!                                              scanner                captured
//! ```

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use lab::topology::LEFT;
use lab::{Capture, PacketSocket, Plants, PlantsShape};
use perf::demo::pair::{Scratch, Station};
use perf::demo::sites::{PORT, Sites, SitesChoice, configure, site_name};
use testkit::frames::payload;

use super::{DEADLINE, PROTECTED, UDP_PAYLOAD, Wan, counter, program};

/// Of a counter of a site's channel.
fn channel(site: &Station, name: &str) -> u64 {
    counter(&site.report().unwrap().sites.remove(0).channel.unwrap(), name)
}

/// Whether this comes from there, over IPv4: UDP, or ICMP that says something about it.
fn is_from(frame: &[u8], address: Ipv4Addr) -> bool {
    frame.get(12..14) == Some(&[8, 0])
        && matches!(frame.get(23), Some(1 | 17))
        && frame.get(26..30) == Some(&address.octets())
}

/// Packets like this one of a client that knows another key: itself, and with other versions, kinds, connection IDs, and noise.
fn like(packet: &[u8], seed: u64) -> Vec<Vec<u8>> {
    let change = |at: usize, octets: &[u8]| {
        let mut other = packet.to_vec();
        other[UDP_PAYLOAD + at..][..octets.len()].copy_from_slice(octets);
        // No checksum, which IPv4 allows.
        other[40..42].fill(0);
        other
    };
    let mut noise = payload(packet.len() - UDP_PAYLOAD, seed);
    noise[0] |= super::QUIC_BIT;
    let mut short = noise.clone();
    short[0] &= 0x7f;
    vec![
        packet.to_vec(),
        change(6, &noise[6..26]),
        change(1, &[0x6b, 0x33, 0x43, 0xcf]),
        change(1, &[0x0a, 0x1a, 0x2a, 0x3a]),
        change(0, &[0xe0]),
        change(0, &[0xf0]),
        change(0, &noise),
        change(0, &short),
    ]
}

#[test]
fn a_site_is_silent_to_who_does_not_know_its_key() {
    let plants =
        Plants::build(&PlantsShape { stations: 0, lan_mtu: 1500, ..PlantsShape::default() }).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &plants, &SitesChoice::default()).unwrap();
    let [near, far] = &plants.plants[..] else { panic!("two plants") };
    let read = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap();
    let (right, second) = (read("site-1.toml"), read("site-2.toml"));
    let endpoint = format!("endpoint = \"{}:{PORT}\"\n", near.ipv4);
    assert!(second.contains(&endpoint), "{second}");
    scratch.write("site-2.toml", &second.replace(&endpoint, "")).unwrap();
    let key = |text: &str| text.split("public_key = \"").nth(1).unwrap()[..64].to_owned();
    let other = frameward::keygen::site(&scratch.path().join("other.key")).unwrap();
    scratch.write("site-1.toml", &right.replace(&key(&right), &other.to_string())).unwrap();

    let start =
        |plant: &lab::Plant| Station::start(program(), &plant.site, &scratch, &site_name(plant.number));
    let line = far.line.as_ref().unwrap();
    let capture = Capture::start(line, LEFT).unwrap();
    // The kernel answers for a port that nobody has.
    let two = start(far).unwrap();
    let one = start(near).unwrap();
    let end = Instant::now() + DEADLINE;
    let wait = |what: &str, least: u64| {
        while channel(&two, what) < least {
            assert!(Instant::now() < end, "{what}: {:#?}", two.report());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // A client of ours that knows another key: two tries.
    wait("InWithoutProof", 8);
    let is_initial = |frame: &[u8]| {
        is_from(frame, near.ipv4) && frame.get(UDP_PAYLOAD).is_some_and(|first| first & 0xf0 == 0xc0)
    };
    let heard = capture.since(0);
    let initials: Vec<_> = heard.iter().filter(|frame| is_initial(&frame.octets)).take(16).collect();
    assert!(initials.len() >= 8, "{} Initials", initials.len());
    let scanner = PacketSocket::open(line, LEFT).unwrap();
    for (seed, initial) in (1..).zip(&initials) {
        like(&initial.octets, seed).iter().for_each(|packet| scanner.send(packet).unwrap());
    }
    wait("InOtherVersion", 16);
    wait("InUnknownConnection", 16);
    std::thread::sleep(Duration::from_secs(1));
    let heard = capture.stop().unwrap().complete().unwrap();
    let said = heard.frames.iter().filter(|frame| is_from(&frame.octets, far.ipv4)).count();
    assert_eq!(said, 0, "something came out of the site");

    // With the right key they meet.
    drop(one.stop().unwrap());
    scratch.write("site-1.toml", &right).unwrap();
    let sites = vec![start(near).unwrap(), two];
    let mut wan = Wan::of(plants, Sites { sites, stations: Vec::new(), scratch }, PROTECTED[0].1);
    wan.cross(200, 16);
    wan.stop();
}
