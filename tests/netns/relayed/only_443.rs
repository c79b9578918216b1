//! Plants whose firewalls let out UDP to port 443 alone, in and behind NATs of both kinds.
//!
//! ```text
//!  site-1 ── NAT: one port, firewall ────────┐
//!                                            ├── internet ── site-2, at port 443
//!  site-3 ── NAT: symmetric, firewall ───────┘
//! ```

use lab::traffic::{Ip, Until, ping, tcp};
use lab::{Plant, Plants, PlantsShape};

use super::*;

/// Port to which a firewall lets packets out.
const PORT_443: u16 = 443;

/// Lets nothing out of a plant but UDP to port 443, and nothing in but answers. All else is dropped without a word, ICMP included.
fn only_udp_443(plant: &Plant) {
    let line = plant.line.as_ref().unwrap();
    for command in [
        "add table inet firewall",
        "add chain inet firewall pass { type filter hook forward priority -10 ; policy drop ; }",
        &format!("add rule inet firewall pass iifname \"{LEFT}\" udp dport {PORT_443} counter accept"),
        &format!("add rule inet firewall pass iifname \"{RIGHT}\" ct state established accept"),
        "add rule inet firewall pass counter drop",
    ] {
        line.run(&["nft", command]).unwrap();
    }
    let internet = "198.51.100.10";
    assert!(
        plant.site.run(&["ping", "-c", "1", "-W", "1", internet]).is_err(),
        "the firewall lets pings out"
    );
}

/// The count of packets that the firewall of a plant refused.
fn refused(plant: &Plant) -> u64 {
    let rules = plant.line.as_ref().unwrap().run(&["nft", "list chain inet firewall pass"]).unwrap().stdout;
    let rule = rules.lines().find(|line| line.trim().ends_with("drop") && line.contains("counter")).unwrap();
    let words: Vec<_> = rule.split_whitespace().collect();
    let packets = words.iter().position(|word| *word == "packets").unwrap();
    words[packets + 1].parse().unwrap()
}

/// The hub at port 443, the spokes behind firewalls.
fn spokes(nats: [&str; 2], spoke_port: u16) -> Hub {
    let hub = Hub::behind(nats);
    hub.change(1, &format!("0.0.0.0:{PORT}"), &format!("0.0.0.0:{PORT_443}"));
    let endpoint = hub.endpoint(1);
    for spoke in [0, 2] {
        only_udp_443(&hub.plants.plants[spoke]);
        hub.change(spoke, &endpoint, &endpoint.replace(&PORT.to_string(), &PORT_443.to_string()));
        hub.change(spoke, &format!("0.0.0.0:{PORT}"), &format!("0.0.0.0:{spoke_port}"));
    }
    hub.start()
}

/// Counted frames both ways, some of them in two packets, and TCP.
pub(super) fn frames_cross(hub: &Hub, one: usize, other: usize, seed: u64) {
    hub.reaches(one, other, 1472);
    hub.reaches(other, one, 1472);
    for (from, to, seed) in [(one, other, seed), (other, one, seed + 10_000)] {
        let (from, to) = (hub.machine(from), hub.machine(to));
        let frames: Vec<_> = (0..200)
            .map(|number| marked(to.mac, from.mac, EXPERIMENT, 46 + 7 * number, seed + number as u64))
            .collect();
        exchange(from, to, &frames);
    }
    counted_until(hub, (one, other), seed + 20_000, || true);
    let octets = tcp(hub.machine(one), hub.machine(other), Ip::V4, Until::Octets(1_000_000)).unwrap().octets;
    assert_eq!(octets, 1_000_000);
}

#[test]
fn spokes_that_may_only_send_to_udp_443_reach_each_other_through_a_hub_there() {
    let hub = spokes([ONE_PORT, SYMMETRIC], PORT);
    hub.secured();
    for (seed, (one, other)) in [(0, 2), (0, 1), (2, 1)].into_iter().enumerate() {
        frames_cross(&hub, one, other, 100_000 * seed as u64);
    }
    for own in [0, 2] {
        hub.until(own, "it says why there is no direct way", |report| {
            let why = |peer: &SitePeerReport| peer.relayed && peer.not_direct.contains("no answer");
            report.sites[0].peers.iter().any(why)
        });
        // The calls that were tried end at the firewall, and are few: a relay that works is no emergency.
        let calls = refused(&hub.plants.plants[own]);
        assert!((1..100).contains(&calls), "{calls} packets to other ports");
        let said = hub.doctor(own);
        let cure = "set bind to port 443 at both sites";
        assert_eq!(said.matches(cure).count(), 1, "{said}");
        assert!(said.contains("is relayed by plant-2 (no direct way: no answer"), "{said}");
    }
    for site in hub.sites {
        site.stop().unwrap();
    }
}

/// The cure that doctor names.
#[test]
fn spokes_at_port_443_find_a_direct_way_through_their_firewalls() {
    let hub = spokes([ONE_PORT, ONE_PORT], PORT_443);
    hub.secured();
    let direct = || [(0, 2), (2, 0)].iter().all(|(own, other)| !hub.peer(*own, *other).relayed);
    counted_until(&hub, (0, 2), 1000, direct);
    for (own, other) in [(0, 2), (2, 0)] {
        let expected = format!("{}:{PORT_443}", hub.plants.plants[other].ipv4);
        assert_eq!(hub.peer(own, other).address, Some(expected));
    }
    frames_cross(&hub, 0, 2, 500_000);
    for site in hub.sites {
        site.stop().unwrap();
    }
}

/// Two plants without a hub: the first behind NAT and firewall, the second at port 443. With `forwarder` the first one knows the address of
/// a box in between alone, which passes on what comes to UDP 443, from an address of its own.
fn pair(nat: &str, forwarder: bool) -> Hub {
    let shape = PlantsShape { machine_mtu: 1500, lan_mtu: 1500, ..PlantsShape::default() };
    let plants = Plants::build(&shape).unwrap();
    for plant in &plants.plants {
        plant.stations[0].gateway.bridge().unwrap();
    }
    put_behind_nat(&plants.plants[0], nat);
    only_udp_443(&plants.plants[0]);
    let scratch = Scratch::new().unwrap();
    keygen::cak(KeyLength::Bits128, None, &scratch.path().join("line.cak")).unwrap();
    configure(&scratch, &plants, &SitesChoice { site: MKA, ..SitesChoice::default() }).unwrap();
    let hub = Hub { plants, sites: Vec::new(), scratch };
    let (called, endpoint) = (hub.plants.plants[1].ipv4, hub.endpoint(1));
    let known = if forwarder { "198.51.100.5".to_owned() } else { called.to_string() };
    hub.change(0, &endpoint, &format!("endpoint = \"{known}:{PORT_443}\"\n"));
    hub.change(1, &hub.endpoint(0), "");
    hub.change(1, &format!("0.0.0.0:{PORT}"), &format!("0.0.0.0:{PORT_443}"));
    if forwarder {
        for command in [
            "add table ip forwarder",
            "add chain ip forwarder before { type nat hook prerouting priority -100 ; }",
            &format!(
                "add rule ip forwarder before ip daddr {known} udp dport {PORT_443} dnat to {called}:{PORT_443}"
            ),
            "add chain ip forwarder after { type nat hook postrouting priority 100 ; }",
            &format!("add rule ip forwarder after ip daddr {called} udp dport {PORT_443} masquerade"),
        ] {
            hub.plants.internet.run(&["nft", command]).unwrap();
        }
    }
    hub.start()
}

#[test]
fn two_plants_need_no_hub_where_one_listens_at_443_or_a_box_forwards_it() {
    for (seed, (nat, forwarder)) in
        [(ONE_PORT, false), (SYMMETRIC, false), (SYMMETRIC, true)].into_iter().enumerate()
    {
        let hub = pair(nat, forwarder);
        hub.secured();
        frames_cross(&hub, 0, 1, 1_000_000 + 100_000 * seed as u64);
        let seen = hub.peer(1, 0).address.unwrap();
        // The forwarder's address towards plant 2, or the NAT's.
        let from = if forwarder { "198.51.100.9:" } else { "198.51.100.6:" };
        assert!(seen.starts_with(from), "{seen}");
        for site in hub.sites {
            site.stop().unwrap();
        }
    }
}

/// A plant that lets no UDP out reaches nobody, and doctor says so.
#[test]
fn without_udp_doctor_names_the_port_that_has_to_be_let_out() {
    let hub = pair(ONE_PORT, false);
    hub.secured();
    let line = hub.plants.plants[0].line.as_ref().unwrap();
    line.run(&["nft", "insert rule inet firewall pass meta l4proto udp drop"]).unwrap();
    hub.until(0, "the peer is lost", |report| report.sites[0].peers[0].state == "connecting");
    let said = hub.doctor(0);
    assert!(said.contains("plant-2 does not answer"), "{said}");
    let cure =
        "UDP 443 is lost behind 192.168.1.1, before the internet; let it out at the firewall of this plant";
    assert_eq!(said.matches(cure).count(), 1, "{said}");
    assert!(ping(hub.machine(0), hub.machine(1), Ip::V4, 1, 64).is_err());
    for site in hub.sites {
        site.stop().unwrap();
    }
}
