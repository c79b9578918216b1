//! MACsec frames behind VLAN tags, from LAN to LAN: two sites with their sessions, on a virtual clock.

mod plants;

use std::collections::BTreeSet;

use plants::{LAN_FRAME, PEER, Plants, Wire, frame, tagged};
use proptest::prelude::*;
use tunnel::{Discard, FrameKinds, InDiscard, Limits, Mode};

const MODES: [Mode; 2] = [Mode::Identifier, Mode::HeaderEncryption];
const ONE: &[[u8; 4]] = &[[0x81, 0x00, 0xc0, 0x0a]];
const TWO: &[[u8; 4]] = &[[0x88, 0xa8, 0x20, 0x05], [0x81, 0x00, 0x00, 0x0b]];

/// Sends these, and lets each arrive octet for octet.
fn cross(plants: &mut Plants, frames: &BTreeSet<Vec<u8>>) {
    for frame in frames {
        plants.send(0, frame);
        plants.pass(1);
    }
    plants.pass(150);
    let came = plants.take(1);
    let mode = plants.mode();
    assert_eq!(came.len(), frames.len(), "{mode:?}");
    assert!(BTreeSet::from_iter(came) == *frames, "{mode:?}");
}

#[test]
fn frames_behind_tags_cross_octet_for_octet() {
    for mode in MODES {
        let mut plants = Plants::with(mode, Limits::default(), 1000);
        // Whole and in two packets; flows that are new, and known ones.
        for pns in [1..3, 3..60] {
            let mut frames = BTreeSet::new();
            for pn in pns {
                for (number, tags) in [&[], ONE, TWO].into_iter().enumerate() {
                    let octets = if pn % 2 == 0 { 60 + pn as usize } else { 1100 + pn as usize };
                    frames.insert(tagged(&frame(1, 1, 0, 3 * pn + number as u32, octets), tags));
                }
            }
            cross(&mut plants, &frames);
        }
        assert!(plants.recorded.iter().all(|(_, packet)| packet.len() <= 1000), "{mode:?}");
        assert_eq!(plants.discards, [], "{mode:?}");
        assert_eq!(plants.forwarding(0).flows(PEER).count(), 3, "{mode:?}: tags belong to the flow");
        let counters = plants.counters(0);
        assert!(counters.out_pkts_split > 50, "{mode:?}: {}", counters.out_pkts_split);
    }
}

/// Each tag comes on top of what the LAN's MTU allows, and nothing else does.
#[test]
fn the_longest_frames_of_the_lan_cross_behind_tags() {
    for mode in MODES {
        // In two packets, and whole.
        for path_payload in [1472, 3000] {
            let mut plants = Plants::with(mode, Limits::default(), path_payload);
            // Flows that are new, and known ones.
            for pn in [1, 2, 3] {
                let frames = [&[], ONE, TWO].map(|tags| tagged(&frame(1, 1, 0, pn, LAN_FRAME), tags));
                cross(&mut plants, &frames.into());
            }
            assert_eq!(plants.discards, [], "{mode:?}");
            for tags in [&[], ONE, TWO] {
                plants.send(0, &tagged(&frame(1, 1, 0, 4, LAN_FRAME + 1), tags));
            }
            plants.pass(150);
            assert_eq!(plants.take(1).len(), 0, "{mode:?}");
            assert_eq!(plants.discards, [Discard::Of(PEER, InDiscard::TooLong); 3], "{mode:?}");
        }
    }
}

/// The tags are the flow's: with identifiers they cost nothing, and with header encryption they even go.
#[test]
fn tags_of_a_known_flow_add_no_octet_and_are_not_seen() {
    for mode in MODES {
        let mut plants = Plants::new(mode);
        let sizes: Vec<_> = [&[], ONE, TWO]
            .into_iter()
            .map(|tags| {
                for pn in 1..20 {
                    plants.send(0, &tagged(&frame(1, 1, 0, 100 * tags.len() as u32 + pn, 200), tags));
                    plants.pass(20);
                }
                let (_, last) = plants.recorded.last().expect("sent");
                assert!(
                    !last
                        .windows(4)
                        .any(|octets| ONE.contains(&[octets[0], octets[1], octets[2], octets[3]]))
                );
                last.len()
            })
            .collect();
        assert!(sizes.iter().all(|octets| *octets == sizes[0]), "{mode:?}: {sizes:?}");
    }
}

/// Stations of two VLANs may have one address and so one SCI: each has PNs of its own.
#[test]
fn equal_pns_behind_different_tags_are_no_copies() {
    let mut plants = Plants::new(Mode::HeaderEncryption);
    for tags in [ONE, TWO, &[]] {
        cross(&mut plants, &(1..80).map(|pn| tagged(&frame(1, 1, 0, pn, 100), tags)).collect());
    }
    assert_eq!((plants.counters(0).out_pkts_repeated, plants.discards.len()), (0, 0));
}

/// Neither do stations with neighbouring addresses in neighbouring VLANs share PNs.
#[test]
fn equal_pns_of_stations_in_different_vlans_are_no_copies() {
    let mut plants = Plants::new(Mode::HeaderEncryption);
    for vlan in [5, 6] {
        let frame = |pn| {
            let mut frame = frame(1, 1, 0, pn, 100);
            // Address and SCI of 02:00:00:VLAN:00:01.
            for address in [6, 20] {
                frame[address..address + 6].copy_from_slice(&[2, 0, 0, vlan, 0, 1]);
            }
            tagged(&frame, &[[0x81, 0x00, 0, vlan]])
        };
        cross(&mut plants, &(1..80).map(frame).collect());
    }
    assert_eq!((plants.counters(0).out_pkts_repeated, plants.discards.len()), (0, 0));
}

#[test]
fn frames_behind_tags_go_to_no_peer_that_does_not_know_them() {
    for mode in MODES {
        let mut plants = Plants::older(mode, 1);
        plants.send(0, &tagged(&frame(1, 1, 0, 1, 200), ONE));
        plants.send(0, &frame(1, 1, 0, 2, 200));
        plants.pass(50);
        assert_eq!(plants.take(1).len(), 1, "{mode:?}");
        assert_eq!(plants.counters(0).out_pkts_tagged, 1, "{mode:?}");
        assert_eq!(plants.forwarding(0).flows(PEER).count(), 1, "{mode:?}");
    }
    assert!(!FrameKinds::default().has(FrameKinds::TAGGED) && FrameKinds::ALL.has(FrameKinds::TAGGED));
}

/// Whoever changes a packet moves its frame to no other VLAN.
#[test]
fn no_flipped_bit_of_a_header_changes_the_tags() {
    for (mode, octets) in [(Mode::Identifier, 16), (Mode::HeaderEncryption, 32)] {
        let mut plants = Plants::new(mode);
        for tags in [&[], ONE, TWO] {
            plants.send(0, &tagged(&frame(1, 1, 0, 1, 100), tags));
            plants.pass(50);
        }
        plants.take(1);
        plants.wire = Wire { delay: 1, jitter: 0, lost: 1000 };
        let mut delivered = 0;
        for pn in 2..34 {
            plants.send(0, &tagged(&frame(1, 1, 0, pn, 100), ONE));
            let (_, packet) = plants.recorded.last().expect("sent").clone();
            for bit in 0..8 * octets {
                let mut flipped = packet.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                delivered += usize::from(plants.arrive(1, &flipped).is_some());
            }
        }
        assert_eq!(delivered, 0, "{mode:?}");
        assert!(!plants.discards.contains(&Discard::Of(PEER, InDiscard::TooLong)));
    }
}

proptest! {
    #[test]
    fn any_tags_and_sizes_cross(
        mode in 0..2_usize,
        frames in prop::collection::vec((prop::collection::vec((any::<bool>(), any::<u16>()), 0..3), 40..1400_usize), 1..12),
    ) {
        let mut plants = Plants::with(MODES[mode], Limits::default(), 900);
        let frames = (1..).zip(frames).map(|(pn, (tags, octets))| {
            let tags: Vec<_> = tags.into_iter().map(|(service, tci)| {
                let [high, low] = tci.to_be_bytes();
                if service { [0x88, 0xa8, high, low] } else { [0x81, 0x00, high, low] }
            }).collect();
            tagged(&frame(1, 1, 0, pn, octets), &tags)
        });
        cross(&mut plants, &frames.collect());
    }
}
