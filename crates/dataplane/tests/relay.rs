//! Sites that do not reach each other, through a hub: over LANs in memory and real UDP sockets.

#![allow(clippy::unwrap_used)]

mod plants;

use std::collections::BTreeMap;

use dataplane::site::{RelayedDatagram, ToWorker, relay_address};
use netdev::udp::Offloads;
use plants::{Plants, macsec, peer, settings, station};
use proptest::prelude::*;
use tunnel::{Command, FrameKinds, Generation, Limits, Mode, PeerId, Settings, SiteName};

const BROADCAST: [u8; 6] = [0xff; 6];

fn name(site: usize) -> SiteName {
    [site as u8 + 1; 20]
}

/// Ways of pairs of sites to each other: the hub, or none if they do not reach each other at all. Other pairs are direct.
type Ways = BTreeMap<(usize, usize), Option<usize>>;

/// Sites of which some pairs have other ways than the direct one. All of them relay whatever they are asked to.
fn plants(sites: usize, ways: &Ways, settings: &Settings) -> Plants {
    let mut plants = silent_plants(sites, ways, settings);
    // A first packet finds nobody who wants it.
    (0..2).for_each(|_| keep_alive(&mut plants, ways));
    plants
}

/// The same, of which none has sent anything.
fn silent_plants(sites: usize, ways: &Ways, settings: &Settings) -> Plants {
    let mut plants = Plants::of(sites, Mode::Identifier, Offloads::default(), settings);
    for own in 0..sites {
        plants.plants[own].site.as_mut().unwrap().relay_for_peers();
        for other in (0..sites).filter(|other| *other != own) {
            let number = peer(own, other);
            let (generation, frames) = (Generation(1), FrameKinds::ALL);
            plants.tell(own, ToWorker::Tunnel(Command::TakesFrames { peer: number, generation, frames }));
            let way = ways.get(&(own.min(other), own.max(other)));
            if way.is_some() {
                plants.tell(own, ToWorker::Endpoint { peer: number, address: None });
                // As a search finds it: a relayed packet is the body of another one, in long form at first.
                let command = Command::PathPayload { peer: number, octets: 1472 - 48 };
                plants.tell(own, ToWorker::Tunnel(command));
            }
            let hub = way.copied().flatten().map(|hub| peer(own, hub));
            plants.tell(own, ToWorker::Relay { peer: number, name: name(other), hub });
        }
    }
    plants.settle();
    plants
}

/// The management channels of those that have a relay, as far as the hub knows of them: a packet each way.
fn keep_alive(plants: &mut Plants, ways: &Ways) {
    for (low, high) in ways.iter().filter(|(_, hub)| hub.is_some()).map(|(pair, _)| *pair) {
        for (own, other) in [(low, high), (high, low)] {
            let datagram =
                RelayedDatagram { peer: peer(own, other), octets: [0x40; 20].into_iter().collect() };
            assert!(plants.plants[own].manager.relayed.send(datagram));
        }
    }
    plants.settle();
    let mut into = [0; 2048];
    for plant in &mut plants.plants {
        while plant.datagrams.pop(&mut into).is_some() {}
    }
}

/// Two spokes of a hub, 1, which is the only way between them.
fn hub_and_spokes(settings: &Settings) -> Plants {
    plants(3, &Ways::from([((0, 2), Some(1))]), settings)
}

fn usual() -> Settings {
    settings(Mode::Identifier, 2)
}

#[test]
fn frames_cross_through_a_hub_octet_for_octet_and_in_order() {
    let mut plants = hub_and_spokes(&usual());
    for (from, to) in [(0, 2), (2, 0)] {
        let one = |pn: u32| macsec(station(to), station(from), pn, 60 + pn as usize * 7 % 1455);
        let frames: Vec<_> = (1..=200).map(one).collect();
        // The first one is for an unknown station: all sites get it.
        plants.send(from.into(), &frames);
        assert!(plants.collect(to.into()) == frames, "something was lost, changed or overtaken");
        let expected = if from == 0 { &frames[..] } else { &[] };
        assert!(plants.collect(1) == expected, "the hub gets what is for all, and no more");
    }
    let frames: Vec<_> = (201..=300).map(|pn| macsec(station(2), station(0), pn, 1400)).collect();
    plants.send(0, &frames);
    assert!(plants.collect(2) == frames);
    assert_eq!(plants.collect(1), Vec::<Vec<u8>>::new(), "a relayed frame came out at the hub");
    let hub = plants.snapshot(1);
    // Packets of 1514 octets go in two.
    assert!(hub.peers[0].counters.in_pkts_relayed >= 300 && hub.peers[1].counters.out_pkts_relayed >= 300);
    assert_eq!(hub.peers[0].counters.in_pkts_relayed, hub.peers[1].counters.out_pkts_relayed + 1);
    assert!(
        hub.stations.iter().all(|station| station.address.0[5] != 1),
        "it learns from its own peers alone"
    );
    assert_eq!((hub.path.in_relayed_unknown, hub.path.in_relayed_quota), (1, 0), "the first packet of all");
    for spoke in [0, 2] {
        let spoke = plants.snapshot(spoke);
        assert_eq!(spoke.chunks_free, spoke.chunks);
        assert_eq!(spoke.path.out_pkts_no_endpoint, 0);
    }
}

#[test]
fn packets_of_the_channel_cross_and_name_the_relay_as_their_origin() {
    let mut plants = hub_and_spokes(&usual());
    let mut octets = arrayvec::ArrayVec::new();
    octets.extend((0..200).map(|octet| octet as u8 | 0x40));
    let datagram = RelayedDatagram { peer: peer(0, 2), octets: octets.clone() };
    assert!(plants.plants[0].manager.relayed.send(datagram));
    plants.settle();
    let mut into = [0; 2048];
    let (from, length) = plants.plants[2].datagrams.pop(&mut into).expect("it came");
    assert_eq!((from, &into[..length]), (relay_address(peer(2, 0)), octets.as_slice()));
    assert_eq!(plants.plants[2].datagrams.pop(&mut into), None);
    assert_eq!(plants.plants[1].datagrams.pop(&mut into), None, "it is none of the hub's");
}

#[test]
fn a_site_relays_only_if_it_says_so_and_only_for_those_it_knows() {
    // Nobody says that site 1 relays.
    let mut plants = silent_plants(3, &Ways::from([((0, 2), Some(1))]), &usual());
    let nothing =
        Command::TakesFrames { peer: peer(0, 1), generation: Generation(1), frames: FrameKinds::ALWAYS };
    plants.tell(0, ToWorker::Tunnel(nothing));
    plants.send(0, &[macsec(station(2), station(0), 1, 100)]);
    assert!(plants.collect(2).is_empty());
    assert_eq!(plants.snapshot(0).peers[0].counters.out_pkts_not_relayed, 1);

    // The hub does not know the other one, or not the one that sends.
    for forgotten in [0, 2] {
        let mut plants = hub_and_spokes(&usual());
        plants.tell(1, ToWorker::Relay { peer: peer(1, forgotten), name: name(9), hub: None });
        let mut unknown = || [1, 2].map(|site| plants.snapshot(site).path.in_relayed_unknown);
        let [at_hub, at_other] = unknown();
        plants.send(0, &[macsec(station(2), station(0), 1, 100)]);
        let mut unknown = || [1, 2].map(|site| plants.snapshot(site).path.in_relayed_unknown);
        // Under a name that the other one does not know, it is discarded there.
        let expected = if forgotten == 2 { [at_hub + 1, at_other] } else { [at_hub, at_other + 1] };
        assert_eq!(unknown(), expected, "{forgotten}");
        assert!(plants.collect(2).is_empty(), "{forgotten}");
    }

    // The other one has chosen no relay, or another one.
    for hub in [None, Some(PeerId(0))] {
        let mut plants = hub_and_spokes(&usual());
        plants.tell(2, ToWorker::Relay { peer: peer(2, 0), name: name(0), hub });
        plants.send(0, &[macsec(station(2), station(0), 1, 100)]);
        assert!(plants.collect(2).is_empty());
        assert_eq!(plants.snapshot(2).path.in_relayed_unknown, 1);
    }
}

#[test]
fn a_relay_does_not_relay_to_a_relay() {
    // Site 1 reaches site 2 through site 3 alone: it does not relay there, though it could.
    let ways = Ways::from([((0, 2), Some(1)), ((1, 2), Some(3))]);
    let mut plants = plants(4, &ways, &settings(Mode::Identifier, 3));
    let before = plants.snapshot(1).path.in_relayed_unknown;
    plants.send(0, &[macsec(station(2), station(0), 1, 100)]);
    assert!(plants.collect(2).is_empty());
    assert_eq!(plants.snapshot(1).path.in_relayed_unknown, before + 1);
    assert_eq!((plants.collect(1).len(), plants.collect(3).len()), (1, 1), "those that are reached");
}

#[test]
fn a_peer_has_no_more_relayed_than_its_quota() {
    let settings = usual();
    let limits = Limits { relayed_per_second: 20, ..settings.limits };
    let mut plants = hub_and_spokes(&Settings { limits, ..settings });
    let frames: Vec<_> = (1..=200).map(|pn| macsec(station(2), station(0), pn, 100)).collect();
    plants.send(0, &frames);
    let (came, hub) = (plants.collect(2).len() as u64, plants.snapshot(1));
    assert!((20..150).contains(&came), "{came}");
    assert_eq!(hub.path.in_relayed_quota, 200 - came);
    // The other one's share is its own.
    plants.send(2, &[macsec(station(0), station(2), 1, 100)]);
    assert_eq!(plants.collect(0).len(), 1);
}

#[test]
fn several_have_no_more_relayed_to_a_peer_than_its_quota_and_channels_pass_beside_data() {
    let settings = settings(Mode::Identifier, 3);
    let limits = Limits { relayed_per_second: 20, ..settings.limits };
    let ways = Ways::from([((0, 2), Some(1)), ((2, 3), Some(1))]);
    let mut plants = plants(4, &ways, &Settings { limits, ..settings });
    let start = std::time::Instant::now();
    for from in [0, 3] {
        let frames: Vec<_> = (1..=200).map(|pn| macsec(station(2), station(from), pn, 100)).collect();
        plants.send(from.into(), &frames);
    }
    // All sites get what is for an unknown station, but those without a way to each other.
    let came = plants.collect(2).len();
    let most = 21 + (20.0 * start.elapsed().as_secs_f64()) as usize;
    assert!((20..=most).contains(&came), "{came} of at most {most}");
    for number in 0..30 {
        let octets = [0x40 | number; 20].into_iter().collect();
        assert!(plants.plants[0].manager.relayed.send(RelayedDatagram { peer: peer(0, 2), octets }));
    }
    plants.settle();
    let mut into = [0; 2048];
    let came = std::iter::from_fn(|| plants.plants[2].datagrams.pop(&mut into)).count();
    assert_eq!(came, 30, "packets of the channel wait for no data");
}

#[test]
fn nobody_gets_what_a_peer_sends_to_it_unless_it_sends_to_that_peer_too() {
    let mut plants = silent_plants(3, &Ways::from([((0, 2), Some(1))]), &usual());
    let frame = |pn| macsec(station(2), station(0), pn, 100);
    plants.send(0, &(1..=100).map(frame).collect::<Vec<_>>());
    let (hub, spoke) = (plants.snapshot(1), plants.snapshot(2));
    assert_eq!((hub.path.in_relayed_unknown, hub.peers[1].counters.out_pkts_relayed), (100, 0));
    assert_eq!(spoke.peers[1].counters.in_pkts_relayed, 0, "its line is its own");
    // Now it names the other one, too.
    plants.send(2, &[macsec(station(0), station(2), 1, 100)]);
    assert_eq!(plants.collect(0).len(), 1);
    plants.send(0, &[frame(101)]);
    assert_eq!(plants.collect(2), [frame(101)]);
}

#[test]
fn a_flow_moves_from_the_relay_to_the_direct_way_and_back_without_loss_or_copy() {
    let mut plants = hub_and_spokes(&usual());
    let before = plants.snapshot(1).peers[0].counters.in_pkts_relayed;
    let frames: Vec<_> = (1..=400).map(|pn| macsec(station(2), station(0), pn, 700)).collect();
    for (number, part) in frames.chunks(50).enumerate() {
        let address = (number % 2 == 1).then_some(plants.plants[2].address);
        plants.tell(0, ToWorker::Endpoint { peer: peer(0, 2), address });
        plants.send(0, part);
    }
    assert!(plants.collect(2) == frames);
    let relayed = plants.snapshot(1).peers[0].counters.in_pkts_relayed;
    assert_eq!(relayed, before + 200);
}

/// Ways of all pairs of five sites.
fn any_ways() -> impl Strategy<Value = Ways> {
    let pairs = (0..5).flat_map(|low| (low + 1..5).map(move |high| (low, high)));
    let way = prop_oneof![3 => Just(None), 1 => Just(Some(None)), 4 => (0..5_usize).prop_map(|hub| Some(Some(hub)))];
    let pairs: Vec<_> = pairs.collect();
    proptest::collection::vec(way, pairs.len()).prop_map(move |ways| {
        pairs.iter().copied().zip(ways).filter_map(|(pair, way)| Some((pair, way?))).collect()
    })
}

/// Whether a frame from one site comes to the other: directly, or through a hub that both reach directly.
fn reaches(ways: &Ways, from: usize, to: usize) -> bool {
    let way = |one: usize, other: usize| ways.get(&(one.min(other), one.max(other)));
    match way(from, to) {
        None => true,
        Some(None) => false,
        Some(Some(hub)) => *hub != from && *hub != to && way(from, *hub).is_none() && way(*hub, to).is_none(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the ways: a frame to all comes to each LAN that it can reach, once; a frame to a known station to that
    /// LAN alone, once.
    #[test]
    fn no_frame_comes_twice_or_to_the_wrong_lan(
        ways in any_ways(),
        sends in proptest::collection::vec((0..5_usize, 0..6_usize, 60..1514_usize), 1..20),
    ) {
        // A hub that is one of the two is none.
        let ways: Ways = ways.into_iter()
            .map(|((low, high), way)| ((low, high), way.filter(|hub| *hub != low && *hub != high)))
            .collect();
        let mut plants = plants(5, &ways, &settings(Mode::Identifier, 4));
        // All stations are heard by all who can.
        for from in 0..5 {
            plants.send(from, &[macsec(BROADCAST, station(from as u8), 1, 60)]);
            for to in 0..5 {
                let came = plants.collect(to).len();
                prop_assert_eq!(came, usize::from(to != from && reaches(&ways, from, to)), "{} to {}", from, to);
            }
        }
        for (number, (from, to, length)) in sends.into_iter().enumerate() {
            keep_alive(&mut plants, &ways);
            let destination = if to == 5 { BROADCAST } else { station(to as u8) };
            let frame = macsec(destination, station(from as u8), number as u32 + 2, length);
            plants.send(from, std::slice::from_ref(&frame));
            // Who has never heard a station looks for it everywhere.
            let known = to < 5 && to != from && reaches(&ways, to, from);
            for lan in 0..5 {
                let came = plants.collect(lan);
                let due = lan != from && to != from && reaches(&ways, from, lan) && (!known || lan == to);
                prop_assert_eq!(came.len(), usize::from(due), "{} to {} at {}", from, to, lan);
                prop_assert!(came.iter().all(|came| *came == frame));
            }
        }
        for own in 0..5 {
            let snapshot = plants.snapshot(own);
            prop_assert_eq!(snapshot.chunks_free, snapshot.chunks);
        }
    }
}
