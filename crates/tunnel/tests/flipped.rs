//! Somebody on the way flips bits of packets in identifier mode, and what a site knows stays as it was: stations,
//! flows, and all counters but those of discards.

mod ends;

use std::time::Duration;

use ends::{Sites, frame, settings};
use tunnel::{NumberedFlow, PeerId, Station};
use wire::tunnel::{LONG_HEADER_OCTETS, SHORT_HEADER_OCTETS};

const P0: PeerId = PeerId(0);
/// Flows that the peer has announced, so that a changed number meets another one.
const FLOWS: u8 = 32;

/// State of a site, and its counters besides discards.
#[derive(PartialEq, Debug)]
struct State {
    stations: Vec<Station>,
    flows: Vec<NumberedFlow>,
    announced: usize,
    epochs: Vec<u32>,
    counters: Vec<(&'static str, u64)>,
    events: usize,
}

fn state(sites: &mut Sites) -> State {
    sites.carry();
    let forwarding = &sites.sites[1].forwarding;
    let mut stations: Vec<_> = forwarding.stations().copied().collect();
    stations.sort_by_key(|station| station.address);
    State {
        stations,
        flows: forwarding.flows(P0).copied().collect(),
        announced: forwarding.announced_flows(P0),
        epochs: forwarding.receive_epochs(P0).collect(),
        counters: counters(sites, false),
        events: sites.events.values().sum(),
    }
}

/// All counters of site 1: those of discards, or the others.
fn counters(sites: &Sites, discards: bool) -> Vec<(&'static str, u64)> {
    let forwarding = &sites.sites[1].forwarding;
    let peer = tunnel::PeerCounters::TABLE.iter().zip(forwarding.peer_counters(P0).values());
    let site = tunnel::SiteCounters::TABLE.iter().zip(forwarding.counters().values());
    peer.chain(site)
        .filter(|(row, _)| row.discard == discards)
        .map(|(row, value)| (row.name, value))
        .collect()
}

fn discarded(sites: &Sites) -> u64 {
    counters(sites, true).into_iter().map(|(_, count)| count).sum()
}

/// Two sites with a station at site 1, and flows of site 0: known to the peer, or, if whoever is on the way lets no
/// packet of the management channel through, none.
fn acquainted(known: bool) -> Sites {
    let mut sites = Sites::new(2, &settings(1));
    sites.send(1, &frame(200, 201, 1, 100));
    sites.deliver_all(1);
    sites.settle();
    sites.channel = known;
    for station in 1..=FLOWS {
        sites.send(0, &frame(station, 200, 1, 100));
    }
    sites.deliver_all(0);
    sites.settle();
    sites.take_delivered(1);
    sites
}

/// Packets of all kinds, with the octets of their headers: a frame in one, and one in two parts.
fn packets(sites: &mut Sites, pn: u32, octets: usize) -> Vec<Vec<u8>> {
    assert!(sites.send(0, &frame(1, 200, pn, octets)));
    sites.take_sent(0).into_iter().map(|(_, packet)| packet).collect()
}

#[test]
fn no_bit_of_a_header_can_be_flipped() {
    for (known, header) in [(true, SHORT_HEADER_OCTETS), (false, LONG_HEADER_OCTETS)] {
        let mut sites = acquainted(known);
        let mut pn = 1;
        for octets in [100, 1520] {
            for bit in 0..8 * header {
                sites.now = sites.now + Duration::from_millis(1);
                pn += 1;
                let mut first = packets(&mut sites, pn, octets).remove(0);
                let (before, discards) = (state(&mut sites), discarded(&sites));
                first[bit / 8] ^= 1 << (bit % 8);
                let what = format!("known {known}, frame of {octets}, bit {bit}");
                assert_eq!(sites.arrive(0, 1, &first), None, "{what}: delivered");
                assert_eq!(state(&mut sites), before, "{what}");
                assert_eq!(discarded(&sites), discards + 1, "{what}: one discard");
                sites.pass(Duration::from_millis(60));
                assert_eq!(discarded(&sites), discards + 1, "{what}: no part of it waited");
            }
        }
        // The lane is as good as before.
        let packets = packets(&mut sites, pn + 1, 100);
        assert!(sites.arrive(0, 1, &packets[0]).is_some());
    }
}

/// Bodies are the stations' to judge: whatever is flipped there, a site learns from it what it learns from the true one.
#[test]
fn a_flipped_body_teaches_nothing_else() {
    for (known, header) in [(true, SHORT_HEADER_OCTETS), (false, LONG_HEADER_OCTETS)] {
        let (mut flipped, mut honest) = (acquainted(known), acquainted(known));
        for (pn, bit) in (2..).zip(8 * header..8 * (header + 72)) {
            for (sites, flip) in [(&mut flipped, 1 << (bit % 8)), (&mut honest, 0)] {
                sites.now = sites.now + Duration::from_millis(1);
                let mut packet = packets(sites, pn, 100).remove(0);
                packet[bit / 8] ^= flip;
                assert!(sites.arrive(0, 1, &packet).is_some());
            }
            assert_eq!(state(&mut flipped), state(&mut honest), "known {known}, bit {bit}");
        }
    }
}

/// An attacker keeps all flows in long form by dropping the management channel, knows an address of the LAN, and puts
/// it in the place of the source, again and again.
#[test]
fn a_source_address_cannot_be_put_into_a_long_form() {
    let mut sites = acquainted(false);
    let mut lost = 0;
    for pn in 0..20 {
        // The local station speaks every two seconds: where it is, is not certain for one of them.
        sites.pass(Duration::from_millis(1500));
        let mut packet = packets(&mut sites, 100 + pn, 100).remove(0);
        // From station 1 to station 200 of the LAN: a difference of addresses that everybody can tell.
        packet[31] ^= 1 ^ 200;
        sites.arrive(0, 1, &packet);
        sites.pass(Duration::from_millis(500));
        lost += u32::from(!sites.send(1, &frame(200, 1, 10 + pn, 100)));
    }
    assert_eq!(lost, 0, "frames of the local station were refused as a loop");
    assert_eq!(sites.sites[1].forwarding.counters().out_pkts_loop, 0);

    // Nor is the table filled with stations that are none.
    let known = sites.sites[1].forwarding.stations().count();
    for pn in 0..200_u8 {
        let mut packet = packets(&mut sites, 200 + u32::from(pn), 100).remove(0);
        packet[28] ^= pn + 1;
        sites.arrive(0, 1, &packet);
    }
    assert_eq!(
        sites.sites[1].forwarding.stations().count(),
        known,
        "stations were learned of forged packets"
    );
}
