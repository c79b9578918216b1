//! A list of VLANs at one of two sites: what leaves its LAN, and what the other site, which has no list, gets in.

#![allow(clippy::unwrap_used)]

mod plants;
#[path = "plants/secured.rs"]
mod secured_plants;

use dataplane::site::{ToWorker, UNTAGGED, VlanList};
use netdev::udp::Offloads;
use plants::{Plants, eapol, macsec, peer, station};
use tunnel::{Command, FrameKinds, Generation, Mode};

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
    for own in [0, 1] {
        let (peer, generation, frames) = (peer(own, 1 - own), Generation(1), FrameKinds::ALL);
        plants.tell(own, ToWorker::Tunnel(Command::TakesFrames { peer, generation, frames }));
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
        if number % 3 != 0 {
            frame[12..14].copy_from_slice(&[0x88, 0x92]);
        }
        frame
    };
    only_what_is_listed_crosses(&mut plants, frame);
    // What does not leave costs no PN.
    let link = plants.plants[1].site.as_mut().unwrap().link().unwrap();
    let of_machines = (0..STACKS.len() * ROUNDS).filter(|number| number % 3 != 0);
    let expected = of_machines.filter(|number| STACKS[number % STACKS.len()].1).count() as u64;
    assert_eq!(link.pipeline().secy.transmit_counters().out_pkts_encrypted, expected);
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
