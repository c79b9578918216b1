//! A list of VLANs at one of two or three sites: what leaves its LAN, what the others, which have no list, get in, and what that teaches.

#![allow(clippy::unwrap_used)]

mod plants;
#[path = "plants/secured.rs"]
mod secured_plants;

use std::time;

use dataplane::site::{ToWorker, UNTAGGED, VlanList};
use netdev::udp::Offloads;
use plants::{PATIENCE, Plants, eapol, macsec, peer, station};
use tunnel::{Command, FrameKinds, Generation, Location, Mode};
use wire::MacAddr;

/// Stacks of tags, from the outside, and whether a list of VLAN 10 and of frames without a VLAN has them.
const STACKS: [(&[[u8; 4]], bool); 9] = [
    (&[], true),
    (&[[0x81, 0, 0, 10]], true),
    (&[[0x81, 0, 0xe0, 10]], true),
    (&[[0x81, 0, 0, 20]], false),
    // Priority tags, alone and in front of a VLAN that is not listed.
    (&[[0x81, 0, 0xc0, 0]], true),
    (&[[0x81, 0, 0xc0, 0], [0x81, 0, 0, 20]], false),
    // The outer tag counts.
    (&[[0x88, 0xa8, 0, 10], [0x81, 0, 0, 20]], true),
    (&[[0x88, 0xa8, 0, 20], [0x81, 0, 0, 10]], false),
    (&[[0x81, 0, 0x0f, 0xff]], false),
];
const ROUNDS: usize = 40;

fn list() -> Box<VlanList> {
    let mut list = Box::new(VlanList::EMPTY);
    assert!(list.add(10) && list.add(UNTAGGED));
    list
}

fn tagged(frame: &[u8], tags: &[[u8; 4]]) -> Vec<u8> {
    [&frame[..12], tags.as_flattened(), &frame[12..]].concat()
}

/// The sites have told each other that they take frames behind tags.
fn take_tags(plants: &mut Plants) {
    let sites = plants.plants.len();
    for own in 0..sites {
        for other in (0..sites).filter(|other| *other != own) {
            let (peer, generation, frames) = (peer(own, other), Generation(1), FrameKinds::ALL);
            plants.tell(own, ToWorker::Tunnel(Command::TakesFrames { peer, generation, frames }));
        }
    }
    plants.settle();
}

fn counts(plants: &mut Plants, own: usize) -> [u64; 2] {
    let path = plants.snapshot(own).path;
    [path.out_pkts_other_vlan, path.in_pkts_other_vlan]
}

/// Site 1 has the list. Frames of all stacks go both ways; those that it lists arrive, each once, and the others are counted at it.
fn only_what_is_listed_crosses(plants: &mut Plants, frame: impl Fn(usize, u32) -> Vec<u8>) {
    take_tags(plants);
    assert!(plants.plants[1].site.as_mut().unwrap().set_vlans(Some(list())).is_none());
    let before = [0, 1].map(|own| counts(plants, own));
    let not_listed = STACKS.iter().filter(|(_, listed)| !listed).count() * ROUNDS;
    for from in [0, 1] {
        let stacks = STACKS.iter().cycle().take(STACKS.len() * ROUNDS).zip(0..);
        let sent: Vec<(Vec<u8>, bool)> =
            stacks.map(|((tags, listed), number)| (tagged(&frame(from, number), tags), *listed)).collect();
        plants.send(from, &sent.iter().map(|(frame, _)| frame.clone()).collect::<Vec<_>>());
        let mut came = plants.collect(1 - from);
        let mut expected: Vec<_> =
            sent.into_iter().filter_map(|(frame, listed)| listed.then_some(frame)).collect();
        came.sort_unstable();
        expected.sort_unstable();
        assert_eq!(came.len(), expected.len(), "from {from}");
        assert!(came == expected, "from {from}");
    }
    let [none, own] = [0, 1].map(|own| counts(plants, own));
    assert_eq!(none, before[0], "without a list nothing is dropped");
    assert_eq!(own.map(|count| count as usize), [not_listed; 2]);
    for own in [0, 1] {
        let snapshot = plants.snapshot(own);
        assert_eq!(snapshot.chunks_free, snapshot.chunks, "site {own} lost a chunk");
    }
}

#[test]
fn no_vlan_that_is_not_listed_leaves_or_enters_a_lan_of_stations() {
    for mode in [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 7 }] {
        let mut plants = Plants::new(2, mode, Offloads::default());
        let frame = |from: usize, number: u32| {
            macsec(station(1 - from as u8), station(from as u8), 1 + number, 100 + number as usize)
        };
        only_what_is_listed_crosses(&mut plants, frame);
    }
}

#[test]
fn no_vlan_that_is_not_listed_leaves_or_enters_a_lan_that_is_protected() {
    let mut plants = Plants::secured(2);
    // Every third frame is a station's, with a SecY of its own.
    let frame = |from: usize, number: u32| {
        let (to, source) = (station(1 - from as u8), station(from as u8));
        let mut frame = macsec(to, source, 1 + number, 100 + number as usize);
        if !number.is_multiple_of(3) {
            frame[12..14].copy_from_slice(&[0x88, 0x92]);
        }
        frame
    };
    only_what_is_listed_crosses(&mut plants, frame);
    // What does not leave costs no PN.
    let link = plants.plants[1].site.as_mut().unwrap().link().unwrap();
    let of_machines = (0..STACKS.len() * ROUNDS).filter(|number| !number.is_multiple_of(3));
    let expected = of_machines.filter(|number| STACKS[number % STACKS.len()].1).count() as u64;
    assert_eq!(link.pipeline().secy.transmit_counters().out_pkts_encrypted, expected);
}

/// Whether site 1 knows where a station is.
fn knows(plants: &mut Plants, of: u8) -> bool {
    plants.snapshot(1).stations.iter().any(|known| known.address == MacAddr(station(of)))
}

/// Site 1 has the list. Station 9 sends there from site 0, in VLANs that the list has not; then from site 2, in one that it has.
fn what_reaches_no_lan_teaches_no_place(
    plants: &mut Plants,
    frame: impl Fn([u8; 6], [u8; 6], u32) -> Vec<u8>,
) {
    take_tags(plants);
    assert!(plants.plants[1].site.as_mut().unwrap().set_vlans(Some(list())).is_none());
    let listed: &[[u8; 4]] = &[[0x81, 0, 0, 10]];
    // Both others hear where station 1 is: what is for it goes nowhere else.
    plants.send(1, &[tagged(&frame(station(8), station(1), 1), listed)]);
    let others = |first: u32| -> Vec<Vec<u8>> {
        let stacks = STACKS.iter().filter(|(_, listed)| !listed).zip(first..);
        stacks.map(|((tags, _), number)| tagged(&frame(station(1), station(9), number), tags)).collect()
    };
    plants.send(0, &others(2));
    assert_eq!(counts(plants, 1), [0, others(2).len() as u64]);
    assert!(!knows(plants, 9), "a frame that did not reach the LAN taught where its sender is");
    plants.send(2, &[tagged(&frame(station(1), station(9), 20), listed)]);
    assert!(knows(plants, 9), "one that did reach it taught nothing");
    plants.send(0, &others(40));
    for own in 0..3 {
        plants.collect(own);
    }
    // What is for the station goes where its VLAN is, and nowhere else.
    let answer = tagged(&frame(station(9), station(1), 30), listed);
    plants.send(1, std::slice::from_ref(&answer));
    assert_eq!((plants.collect(0), plants.collect(2)), (vec![], vec![answer]));
    assert_eq!(plants.snapshot(1).tunnel.stations_moved, 0);
}

#[test]
fn a_frame_that_does_not_reach_a_lan_of_stations_teaches_no_place() {
    // Plain peers are told apart by their IP addresses, and here all sites have the same one.
    for mode in [Mode::Identifier, Mode::HeaderEncryption] {
        let mut plants = Plants::new(3, mode, Offloads::default());
        what_reaches_no_lan_teaches_no_place(&mut plants, |to, from, number| macsec(to, from, number, 100));
    }
}

#[test]
fn a_frame_that_does_not_reach_a_lan_that_is_protected_teaches_no_place() {
    // Of machines, and of stations with a SecY of their own.
    for ethertype in [[0x88, 0x92], [0x88, 0xe5]] {
        let mut plants = Plants::secured(3);
        what_reaches_no_lan_teaches_no_place(&mut plants, |to, from, number| {
            let mut frame = macsec(to, from, number, 100);
            frame[12..14].copy_from_slice(&ethertype);
            frame
        });
    }
}

/// A frame under a key of nobody's reaches no LAN, and teaches as little.
#[test]
fn a_frame_that_is_not_verified_teaches_no_place_either() {
    let mut plants = Plants::secured(3);
    assert!(plants.plants[1].site.as_mut().unwrap().set_vlans(Some(list())).is_none());
    // Under the SCI of site 2, from the LAN of site 0.
    let mut forged = macsec(station(1), station(9), 1, 100);
    forged[20..28].copy_from_slice(&secured_plants::sci_of(2).octets());
    plants.send(0, &[forged]);
    assert_eq!((plants.collect(1), knows(&mut plants, 9)), (vec![], false));
}

/// It keeps its place against frames of a peer that the list lets pass.
#[test]
fn a_station_of_the_lan_is_not_a_peers_though_its_vlan_is_listed() {
    for is_secured in [false, true] {
        let mut plants = match is_secured {
            true => Plants::secured(2),
            false => Plants::new(2, Mode::Identifier, Offloads::default()),
        };
        assert!(plants.plants[1].site.as_mut().unwrap().set_vlans(Some(list())).is_none());
        let frame = |number| {
            let mut frame = macsec(station(1), station(9), number, 100);
            if is_secured {
                frame[12..14].copy_from_slice(&[0x88, 0x92]);
            }
            frame
        };
        let now = plants.now();
        let turn = |plants: &mut Plants, own: usize| {
            plants.plants[own].site.as_mut().unwrap().turn(now, time::Instant::now());
        };
        // Site 0 sends first: it has not heard the other one.
        assert!(plants.plants[0].lan.inject(&frame(2)));
        turn(&mut plants, 0);
        assert!(plants.plants[1].lan.inject(&frame(1)));
        let give_up = time::Instant::now() + PATIENCE;
        while plants.snapshot(1).peers[0].counters.in_pkts_source_here == 0 {
            assert!(time::Instant::now() < give_up, "the frame of the other site was not refused");
            turn(&mut plants, 1);
        }
        assert!(plants.collect(1).is_empty());
        let stations = plants.snapshot(1).stations;
        let known = stations.iter().find(|known| known.address == MacAddr(station(9)));
        assert_eq!(known.map(|known| known.location), Some(Location::Here));
    }
}

#[test]
fn mkpdus_of_stations_obey_the_list_and_another_list_counts_from_the_next_frame_on() {
    let mut plants = Plants::new(2, Mode::Identifier, Offloads::default());
    take_tags(&mut plants);
    let site = |plants: &mut Plants, list| plants.plants[1].site.as_mut().unwrap().set_vlans(list);
    site(&mut plants, Some(list()));
    let mkpdu = |vid: u8| tagged(&eapol(station(1), 90), &[[0x81, 0, 0, vid]]);
    plants.send(1, &[mkpdu(10), mkpdu(20), eapol(station(1), 90)]);
    let heard = std::iter::from_fn(|| plants.plants[1].manager.eapol.receive()).count();
    assert_eq!((heard, counts(&mut plants, 1)), (2, [1, 0]));
    // Out of the management channel.
    for vid in [10, 20] {
        let frame = dataplane::site::LanFrame::try_from(&mkpdu(vid)[..]).unwrap();
        assert!(plants.plants[1].manager.eapol.send(frame));
    }
    plants.settle();
    assert_eq!((plants.collect(1), counts(&mut plants, 1)), (vec![mkpdu(10)], [1, 1]));

    let mut other = Box::new(VlanList::EMPTY);
    assert!(other.add(20));
    assert_eq!(site(&mut plants, Some(other)), Some(list()));
    let frame = |vid: u8| tagged(&macsec(station(1), station(0), u32::from(vid), 100), &[[0x81, 0, 0, vid]]);
    plants.send(0, &[frame(10), frame(20)]);
    assert_eq!(plants.collect(1), [frame(20)]);
    assert!(site(&mut plants, None).is_some());
    plants.send(0, &[frame(10), frame(20)]);
    assert_eq!(plants.collect(1).len(), 2);
}
