//! Spokes behind two NATs each: the plant's own, and that of its provider (carrier-grade NAT, RFC 6598 addresses between the two).
//!
//! ```text
//!  site-1 ── NAT ── provider's NAT ──┐                          ┌── provider's NAT ── NAT ── site-3
//!  192.168.1.2      100.64.1.1       ├── internet ── site-2 ────┤   100.64.3.1             192.168.3.2
//! ```

use super::only_443::frames_cross;
use super::*;

/// A NAT that lets in from everywhere what comes to the site's port (endpoint-independent filtering, RFC 4787, 5).
const INDEPENDENT: &str = "masquerade comment \"lets in from everywhere\"";

/// Both NATs of a plant, beginning with its own.
type Nats = [&'static str; 2];

/// Puts a plant behind two NATs. The first is the one that is returned, the second its line.
fn put_behind_two(plant: &Plant, [own, providers]: Nats) -> Namespace {
    put_behind_nat(plant, providers);
    let (line, site, number) = (plant.line.as_ref().unwrap(), &plant.site, plant.number);
    let (inside, outer, middle) =
        (format!("192.168.{number}.1"), format!("100.64.{number}.1"), format!("100.64.{number}.2"));
    let nat_box = Namespace::new(&format!("nat-{number}")).unwrap();
    // The line's inner end goes with it.
    site.ip(&["link", "del", WAN]).unwrap();
    for (end, other, of) in [(RIGHT, LEFT, line), (LEFT, WAN, site)] {
        let peer = ["peer", "name", other, "netns", of.name()];
        nat_box.ip(&[&["link", "add", "name", end, "type", "veth"], &peer[..]].concat()).unwrap();
        for (namespace, device) in [(&nat_box, end), (of, other)] {
            namespace.ip(&["link", "set", device, "up"]).unwrap();
            let off = ["ethtool", "-K", device, "tso", "off", "gso", "off", "tx-udp-segmentation", "off"];
            namespace.run(&off).unwrap();
        }
    }
    line.ip(&["addr", "add", &format!("{outer}/24"), "dev", LEFT]).unwrap();
    nat_box.ip(&["addr", "add", &format!("{middle}/24"), "dev", RIGHT]).unwrap();
    nat_box.ip(&["route", "add", "default", "via", &outer]).unwrap();
    translate(&nat_box, &inside, own);
    join(site, &inside);
    let site_address = format!("192.168.{number}.2");
    for (of, nat, to) in [(&nat_box, own, &site_address), (line, providers, &middle)] {
        if nat == INDEPENDENT {
            for command in [
                "add chain ip nat inward { type nat hook prerouting priority -100 ; }",
                &format!("add rule ip nat inward iifname \"{RIGHT}\" udp dport {PORT} dnat to {to}"),
                "add rule ip nat through ct status dnat accept",
            ] {
                of.run(&["nft", command]).unwrap();
            }
        }
    }
    nat_box
}

/// Frames between two spokes are counted, both ways, through the relay or on the direct way that is found.
fn reach_each_other(nats: [Nats; 2], is_direct: bool) {
    let mut boxes = Vec::new();
    let hub = Hub::by(|plant, number| boxes.push(put_behind_two(plant, nats[number]))).start();
    hub.secured();
    hub.reaches(0, 2, 1472);
    let why = |report: &GatewayReport| {
        let peer = report.sites[0].peers.iter().find(|peer| peer.via.is_some()).unwrap().clone();
        (peer.relayed, peer.not_direct)
    };
    for own in [0, 2] {
        hub.until(own, "the direct way is found, or it says why not", |report| match why(report) {
            (relayed, _) if is_direct => !relayed,
            (relayed, reason) => relayed && reason.starts_with("no direct way: no "),
        });
    }
    frames_cross(&hub, 0, 2, 1_000_000);
    for own in [0, 2] {
        assert_eq!(hub.peer(own, 2 - own).relayed, !is_direct, "{:#?}", hub.peer(own, 2 - own));
        // The hub sees the provider's address, the site has none of its own there.
        let seen_at = hub.peer(own, 1).seen_at.unwrap();
        assert!(seen_at.starts_with(&format!("{}:", hub.plants.plants[own].ipv4)), "{seen_at}");
    }
    for site in hub.sites {
        site.stop().unwrap();
    }
}

#[test]
fn a_direct_way_is_found_through_two_nats_on_each_side() {
    reach_each_other([[ONE_PORT, ONE_PORT]; 2], true);
}

/// Each side has one with another port for each destination: either the plant's own or the provider's.
#[test]
fn one_symmetric_nat_of_two_on_each_side_leaves_the_relay() {
    reach_each_other([[SYMMETRIC, ONE_PORT], [ONE_PORT, SYMMETRIC]], false);
}

#[test]
fn two_nats_that_let_in_from_everywhere_suffice_for_two_symmetric_ones() {
    reach_each_other([[INDEPENDENT, INDEPENDENT], [SYMMETRIC, SYMMETRIC]], true);
}
