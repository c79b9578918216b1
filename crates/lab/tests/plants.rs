//! Plants are what their drawing says.
#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

use lab::plants::{PROBE, WAN};
use lab::topology::LEFT;
use lab::traffic::{Ip, ping};
use lab::{Capture, PacketSocket, Plants, PlantsShape};

#[test]
fn sites_reach_each_other_over_the_internet_and_lans_do_not() {
    let shape = PlantsShape { plants: 3, stations: 2, ipv6: true, ..PlantsShape::default() };
    let plants = Plants::build(&shape).unwrap();
    let [one, _, three] = &plants.plants[..] else { panic!("three plants") };
    let line = Capture::start(one.line.as_ref().unwrap(), LEFT).unwrap();
    for address in [three.ipv4.to_string(), three.ipv6.to_string()] {
        one.site.run(&["ping", "-c", "1", "-W", "5", &address]).unwrap();
    }
    assert!(line.stop().unwrap().complete().unwrap().frames.len() >= 4, "two requests and two replies");
    // 1472 octets behind 28 of IP and ICMP are the path's MTU; one more must not be fragmented on the way.
    let ping_of =
        |octets| one.site.run(&["ping", "-c1", "-W2", "-Mdo", "-s", octets, &three.ipv4.to_string()]);
    ping_of("1472").unwrap();
    ping_of("1473").unwrap_err();
    plants.narrow(three, 1400).unwrap();
    one.site.ip(&["route", "flush", "cache"]).unwrap();
    ping_of("1472").unwrap_err();

    for station in plants.plants.iter().flat_map(|plant| &plant.stations) {
        station.gateway.bridge().unwrap();
    }
    let [a, b] = &one.stations[..] else { panic!("two stations") };
    ping(&a.machine, &b.machine, Ip::V4, 2, 56).expect("one LAN");
    ping(&a.machine, &three.stations[0].machine, Ip::V4, 1, 56).expect_err("another LAN");

    let probe = PacketSocket::open(&one.lan, PROBE).unwrap();
    let mut site = PacketSocket::open(&one.site, lab::plants::LAN).unwrap();
    let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 9, 9], &[0x88, 0xb5], &[7; 50]].concat();
    probe.send(&frame).unwrap();
    let heard = std::iter::from_fn(|| site.receive().unwrap()).take(50).any(|heard| heard.octets == frame);
    assert!(heard, "what the probe sends enters the LAN");
    assert!(one.site.ip(&["-o", "link", "show", WAN]).unwrap().stdout.contains("mtu 1500"));
}
