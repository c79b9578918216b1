//! Both ends together.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use suite::tunnel::{EpochSecret, HeaderKey};
use wire::Instant;
use wire::tunnel::{Flow, FlowIndex, ParsedFrame};

use super::HEADER_OCTETS;
use super::associations::{ASSOCIATIONS, NEWCOMERS, Standing};
use super::opener::Opener;
use super::sealer::Sealer;
use super::window::FragmentKind;
use crate::counters::{InDiscard, OutDiscard};
use crate::settings::FrameKinds;

const PAYLOAD: usize = 1400;
const NUMBER: FlowIndex = FlowIndex(7);

fn key(epoch: u32) -> HeaderKey {
    EpochSecret::new(&[epoch as u8; 32]).header_key()
}

fn at(milliseconds: u64) -> Instant {
    Instant::START + Duration::from_millis(milliseconds)
}

/// A frame of a station, with a body that is another one for each PN.
fn frame(station: u8, an: u8, pn: u32, octets: usize) -> Vec<u8> {
    let mut frame = Vec::from([2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, station, 0x88, 0xe5, 0x2c | an, 0]);
    frame.extend(pn.to_be_bytes());
    frame.extend([2, 0, 0, 0, 9, station, 0, 1]);
    let seed = pn.wrapping_mul(0x9e37_79b9) ^ u32::from(an);
    frame.extend((0..octets).map(|place| (seed.rotate_left(place as u32 % 32) >> 3) as u8));
    frame
}

fn taken(frame: &[u8]) -> ParsedFrame {
    ParsedFrame::parse(frame).expect("a MACsec frame")
}

fn of_stations(flow: &Flow) -> bool {
    flow.source.0[..5] == [2, 0, 0, 0, 0] && flow.destination.0 == [2, 0, 0, 0, 1, 1]
}

const fn untagged(_: &Flow, _: FlowIndex) -> Option<Flow> {
    None
}

fn sealer(epochs: u32) -> Sealer {
    let mut sealer = Sealer::new();
    (1..=epochs).for_each(|epoch| sealer.install(at(0), epoch, key(epoch)));
    sealer
}

fn opener(epochs: u32) -> Opener {
    let mut opener = Opener::new();
    assert!((1..=epochs).all(|epoch| opener.install(epoch, key(epoch))));
    opener
}

fn send(sealer: &mut Sealer, now: Instant, frame: &[u8]) -> Result<Vec<Vec<u8>>, OutDiscard> {
    let taken = taken(frame);
    Sealer::admit(&taken, FrameKinds::default(), frame)?;
    let epoch = sealer.take_pn(now, &taken, Standing::Known)?;
    let sealed = sealer.seal(&taken, NUMBER, epoch, frame, PAYLOAD)?;
    Ok(sealed.into_iter().map(|packet| [&packet.header[..], &frame[packet.body]].concat()).collect())
}

/// The octets of the fragment, without the prefix if it is the second.
fn open(opener: &mut Opener, now: Instant, packet: &[u8]) -> Result<Vec<u8>, InDiscard> {
    let opened = opener.open(now, packet, of_stations, untagged)?;
    let from = if opened.kind == FragmentKind::Second { 28 } else { 0 };
    Ok([&opened.header[from..], &packet[HEADER_OCTETS..]].concat())
}

proptest! {
    #[test]
    fn what_is_sealed_opens_to_the_same(
        stations in vec((1..9_u8, 0..4_u8, 4..2900_usize), 1..20), swap: bool,
    ) {
        let (mut sealer, mut opener) = (sealer(1), opener(1));
        for (pn, (station, an, octets)) in (1..).zip(stations) {
            let frame = frame(station, an, pn, octets);
            let packets = send(&mut sealer, at(0), &frame);
            if frame.len() > 2 * PAYLOAD - 28 {
                prop_assert_eq!(packets, Err(OutDiscard::TooLong));
                continue;
            }
            let mut packets = packets.expect("it fits");
            prop_assert_eq!(packets.len(), if frame.len() > PAYLOAD { 2 } else { 1 });
            prop_assert_eq!(
                packets.iter().map(Vec::len).sum::<usize>(), frame.len() + 28 * (packets.len() - 1), "nothing is added"
            );
            prop_assert!(packets.iter().all(|packet| packet.len() <= PAYLOAD && packet.len() >= HEADER_OCTETS));
            if swap {
                packets.reverse();
            }
            let mut portions: Vec<_> =
                packets.iter().map(|packet| open(&mut opener, at(0), packet).expect("genuine")).collect();
            if swap {
                portions.reverse();
            }
            prop_assert_eq!(portions.concat(), frame);
            for packet in &packets {
                prop_assert_eq!(open(&mut opener, at(0), packet), Err(InDiscard::Replayed));
            }
        }
    }

    #[test]
    fn random_packets_are_never_delivered(packets in vec(vec(any::<u8>(), 0..100), 1..200)) {
        let mut opener = opener(3);
        for packet in packets {
            let discard = opener.open(at(0), &packet, of_stations, untagged).expect_err("forged");
            let expected = match discard {
                InDiscard::TooShort => packet.len() < HEADER_OCTETS,
                InDiscard::NotValid | InDiscard::UnknownFlow => packet.len() >= HEADER_OCTETS,
                _ => false,
            };
            prop_assert!(expected, "unexpected: {:?}", discard);
        }
    }

    /// An end that meets forgeries between the packets delivers the same as one that does not.
    #[test]
    fn forgeries_change_no_state(
        packets in vec((1..4_u8, 0..2_u8, 1..3000_u32, 0..256_usize, any::<[u8; 40]>(), 0..3_u8), 1..60),
    ) {
        let (mut sealer, mut pure, mut beset) = (sealer(2), opener(2), opener(2));
        let mut before = Vec::from([0; 64]);
        for (number, (station, an, pn, bit, noise, kind)) in packets.into_iter().enumerate() {
            let now = at(400 * number as u64);
            let Ok(sealed) = send(&mut sealer, now, &frame(station, an, pn, 60)) else { continue };
            let genuine = sealed[0].clone();
            let mut forged = match kind {
                0 => noise.to_vec(),
                1 => [&before[..16], &genuine[16..]].concat(),
                _ => genuine.clone(),
            };
            forged[bit / 8] ^= 1 << (bit % 8);
            let discard = open(&mut beset, now, &forged).expect_err("forged");
            prop_assert!(matches!(discard, InDiscard::NotValid | InDiscard::UnknownFlow));
            prop_assert_eq!(open(&mut beset, now, &genuine), open(&mut pure, now, &genuine));
            prop_assert_eq!((beset.epoch(), beset.poll_timeout()), (pure.epoch(), pure.poll_timeout()));
            before = genuine;
        }
    }

    /// Restarts, jumps, copies, epochs that come or do not, any order on the way: a packet is delivered once, and what a
    /// sender sent in order is delivered.
    #[test]
    fn nothing_is_delivered_twice_and_nothing_sent_in_order_is_lost(
        steps in vec((0..8_u8, 1..4_u8, 0..3_u8, any::<u32>(), 0..700_u64), 1..300),
    ) {
        let (mut sealer, mut opener) = (sealer(1), opener(1));
        let (mut now, mut installed) = (0, 1);
        let mut next = [[1_u32; 4]; 4];
        let (mut recorded, mut delivered) = (Vec::new(), BTreeSet::new());
        for (kind, station, an, wild, time) in steps {
            let pn = &mut next[usize::from(station)][usize::from(an)];
            match kind {
                0 => now += time,
                1 => *pn = 1,
                2 => *pn = pn.wrapping_add(wild % 10_000_000),
                3 if sealer.wants_epoch_after().is_some() => {
                    prop_assert_eq!(sealer.wants_epoch_after(), Some(installed));
                    installed += 1;
                    prop_assert!(opener.install(installed, key(installed)));
                    sealer.install(at(now), installed, key(installed));
                }
                4 if !recorded.is_empty() => {
                    let (epoch, packet): &(u32, Vec<u8>) = &recorded[wild as usize % recorded.len()];
                    opener.handle_timeout(at(now));
                    let known = opener.epochs().any(|known| known == *epoch);
                    let discard = open(&mut opener, at(now), packet).expect_err("a copy");
                    // Once its key is gone it is as good as random, which looks like a frame once in a while.
                    prop_assert!(discard != InDiscard::TooManySas && (discard != InDiscard::UnknownFlow || !known));
                }
                _ => {
                    let frame = frame(station, an, *pn, 40);
                    *pn = pn.wrapping_add(1);
                    let Ok(packets) = send(&mut sealer, at(now), &frame) else { continue };
                    let epoch = sealer.epoch().expect("installed");
                    prop_assert_eq!(open(&mut opener, at(now), &packets[0]), Ok(frame));
                    prop_assert!(delivered.insert(packets[0][..32].to_vec()), "no header twice");
                    recorded.push((epoch, packets[0].clone()));
                }
            }
        }
    }
}

/// Outcome of a station's frames by the sender's rules.
#[test]
fn epochs_begin_when_an_sa_begins_again() {
    let mut sealer = sealer(1);
    assert_eq!(sealer.wants_epoch_after(), Some(1));
    // (at, AN, PN, the epoch it is sent in)
    type Row = (u64, u8, u32, Result<u32, OutDiscard>);
    let run = |sealer: &mut Sealer, rows: &[Row]| {
        for &(now, an, pn, expected) in rows {
            let sent =
                send(sealer, at(now), &frame(1, an, pn, 64)).map(|_| sealer.epoch().expect("installed"));
            assert_eq!(sent, expected, "at {now}: AN {an}, PN {pn}");
        }
    };
    run(
        &mut sealer,
        &[
            (0, 0, 5000, Ok(1)),
            (1, 0, 5002, Ok(1)),
            (2, 0, 5001, Ok(1)),
            (3, 0, 5001, Err(OutDiscard::Repeated)),
            // Another AN has a window of its own.
            (4, 1, 1, Ok(1)),
            // Far below, and never sent.
            (5, 0, 1, Ok(1)),
            // The SA begins again: no epoch is ready.
            (6, 0, 1, Err(OutDiscard::EpochAwaited)),
            (2000, 0, 1, Err(OutDiscard::EpochAwaited)),
            // The others go on.
            (2000, 1, 2, Ok(1)),
        ],
    );
    sealer.install(at(2000), 2, key(2));
    assert_eq!(sealer.wants_epoch_after(), None);
    run(
        &mut sealer,
        &[(2001, 0, 1, Ok(2)), (2001, 0, 4, Ok(2)), (2001, 1, 3, Ok(2)), (2001, 0, 5003, Ok(2))],
    );
    assert_eq!(sealer.wants_epoch_after(), Some(2));
    sealer.install(at(2010), 3, key(3));
    run(
        &mut sealer,
        &[
            // One epoch a second, though the next is ready.
            (2020, 0, 1, Err(OutDiscard::EpochAwaited)),
            (3000, 0, 1, Err(OutDiscard::EpochAwaited)),
            (3001, 0, 1, Ok(3)),
            (3001, 0, 4, Ok(3)),
            // A restart within a block: three of its frames are taken for copies.
            (5000, 0, 1, Err(OutDiscard::Repeated)),
            (5000, 0, 4, Err(OutDiscard::Repeated)),
            (5000, 0, 5, Ok(3)),
        ],
    );
    sealer.install(at(5000), 4, key(4));
    run(
        &mut sealer,
        &[
            (5000, 0, 1, Err(OutDiscard::Repeated)),
            (5000, 0, 4, Err(OutDiscard::Repeated)),
            (5000, 0, 5, Err(OutDiscard::Repeated)),
            (5000, 0, 1, Ok(4)),
            (5000, 0, 4, Ok(4)),
        ],
    );
    // The life of an epoch is an hour, if the next one is ready.
    let hour = 3_600_000;
    run(&mut sealer, &[(5000 + hour, 0, 6, Ok(4))]);
    sealer.install(at(5000 + hour), 5, key(5));
    run(&mut sealer, &[(4999 + hour, 0, 7, Ok(4)), (5000 + hour, 0, 8, Ok(5)), (5000 + hour, 0, 6, Ok(5))]);
    sealer.begin();
    run(&mut sealer, &[(5001 + hour, 0, 1, Err(OutDiscard::NoEpoch))]);
}

#[test]
fn frames_that_would_show_are_not_carried() {
    let good = frame(1, 0, 1, 4);
    // (octet, its value, octets of the frame)
    let rows = [
        (0, 2, 32, Ok(())),
        (0, 2, 31, Err(OutDiscard::TooShort)),
        (14, 0x0c, 32, Err(OutDiscard::NoSci)),
        (14, 0x4c, 32, Err(OutDiscard::NoSci)),
        (14, 0x24, 32, Err(OutDiscard::NotEncrypted)),
        (14, 0x20, 32, Err(OutDiscard::NotEncrypted)),
        (15, 0x80, 32, Err(OutDiscard::Extended)),
        (15, 0x40, 32, Ok(())),
    ];
    for (octet, value, octets, expected) in rows {
        let mut frame = good.clone();
        frame[octet] = value;
        frame.truncate(octets);
        assert_eq!(
            Sealer::admit(&taken(&frame), FrameKinds::default(), &frame),
            expected,
            "octet {octet}: {value:#x}, {octets} octets"
        );
    }
}

#[test]
fn a_full_table_of_sas_takes_the_next_epoch() {
    let (mut sealer, mut opener) = (sealer(1), opener(1));
    let sent = |sealer: &mut Sealer, opener: &mut Opener, now, number: u16| {
        let mut frame = frame(1, 0, 1, 64);
        frame[25..27].copy_from_slice(&number.to_be_bytes());
        let packets = send(sealer, at(now), &frame)?;
        assert_eq!(open(opener, at(now), &packets[0]), Ok(frame));
        Ok(sealer.epoch().expect("installed"))
    };
    for number in 0..ASSOCIATIONS as u16 {
        assert_eq!(sent(&mut sealer, &mut opener, 0, number), Ok(1));
    }
    let one_more = ASSOCIATIONS as u16;
    assert_eq!(sent(&mut sealer, &mut opener, 5000, one_more), Err(OutDiscard::EpochAwaited));
    assert!(opener.install(2, key(2)));
    sealer.install(at(5000), 2, key(2));
    assert_eq!(sent(&mut sealer, &mut opener, 5000, one_more), Ok(2));
    assert_eq!(sent(&mut sealer, &mut opener, 5000, 0), Ok(2));
}

#[test]
fn new_flows_without_end_leave_room_for_known_ones_in_every_epoch() {
    let mut sealer = sealer(1);
    let of = |number: u16| {
        let mut frame = frame(1, 0, 1, 64);
        frame[25..27].copy_from_slice(&number.to_be_bytes());
        taken(&frame)
    };
    let mut numbers = 1000_u16..;
    for round in 1..5_u64 {
        for place in 0..NEWCOMERS + 100 {
            let newcomer = of(numbers.next().expect("more"));
            let expected = if place < NEWCOMERS { Ok(round as u32) } else { Err(OutDiscard::EpochAwaited) };
            let now = at(round * 1000 + 500);
            assert_eq!(sealer.take_pn(now, &newcomer, Standing::Newcomer), expected, "{place} in {round}");
        }
        for known in 0..(ASSOCIATIONS - NEWCOMERS) as u16 {
            let now = at(round * 1000 + 600);
            assert_eq!(sealer.take_pn(now, &of(known), Standing::Known), Ok(round as u32));
        }
        // The next newcomer begins the next epoch, and has a place there.
        let epoch = round as u32 + 1;
        sealer.install(at(round * 1000 + 700), epoch, key(epoch));
        assert_eq!(sealer.start_next(at(round * 1000 + 1500)), Ok(epoch));
    }
}

#[test]
fn a_frame_that_waited_is_a_newcomer_in_the_next_epoch_too() {
    let mut sealer = sealer(2);
    let of = |station: u8, number: u8| {
        let mut frame = frame(station, 0, 1, 64);
        frame[25] = number;
        frame
    };
    let waited = of(1, 0);
    assert_eq!(sealer.take_pn(at(0), &taken(&waited), Standing::Newcomer), Ok(1));
    assert_eq!(sealer.start_next(at(1000)), Ok(2));
    for number in 0..=u8::MAX {
        let frame = of(2, number);
        assert_eq!(sealer.take_pn(at(1000), &taken(&frame), Standing::Newcomer), Ok(2));
    }
    let sealed = sealer.seal(&taken(&waited), NUMBER, 1, &waited, PAYLOAD);
    assert_eq!(sealed.map(|packets| packets.len()), Err(OutDiscard::Overtaken));
}

#[test]
fn epochs_overlap_and_go() {
    let (mut sealer, mut opener) = (sealer(1), opener(2));
    let old: Vec<_> =
        (1..=4).map(|pn| send(&mut sealer, at(0), &frame(1, 0, pn, 64)).expect("sent").remove(0)).collect();
    assert!(open(&mut opener, at(0), &old[0]).is_ok());
    sealer.install(at(0), 2, key(2));
    sealer.take_pn(at(1000), &taken(&frame(1, 0, 60_000, 64)), Standing::Known).expect("ahead");
    let new = send(&mut sealer, at(1000), &frame(1, 0, 1, 64)).expect("the next epoch").remove(0);
    assert!(open(&mut opener, at(9000), &old[1]).is_ok(), "as long as nothing of the next came");
    assert_eq!((opener.epoch(), opener.poll_timeout()), (Some(1), None));
    assert!(open(&mut opener, at(10_000), &new).is_ok());
    assert_eq!((opener.epoch(), opener.poll_timeout()), (Some(2), Some(at(12_000))));
    assert!(open(&mut opener, at(11_999), &old[2]).is_ok());
    assert_eq!(open(&mut opener, at(12_000), &old[3]), Err(InDiscard::NotValid), "before it is tended to");
    opener.handle_timeout(at(12_000));
    assert_eq!((opener.epoch(), opener.poll_timeout()), (Some(2), None));
    assert_eq!(open(&mut opener, at(12_000), &new), Err(InDiscard::Replayed));
    assert!(!opener.install(1, key(1)), "an epoch does not come back with an empty window");
    assert!(opener.install(2, key(2)));
    assert_eq!(open(&mut opener, at(12_000), &new), Err(InDiscard::Replayed), "nor is it made anew");
    opener.begin();
    assert_eq!(open(&mut opener, at(12_000), &new), Err(InDiscard::NoEpoch));
    assert!(opener.install(1, key(7)));
    assert_eq!(open(&mut opener, at(12_000), &new), Err(InDiscard::NotValid));
}

#[test]
fn an_epoch_in_use_is_not_pushed_out_by_those_to_come() {
    let (mut first, mut opener) = (sealer(1), opener(5));
    let packets = send(&mut first, at(0), &frame(1, 0, 1, 64)).expect("sent");
    assert!(open(&mut opener, at(0), &packets[0]).is_ok());
    // Of the later ones the two newest are known.
    for (epoch, expected) in [(2, false), (3, false), (4, true), (5, true)] {
        let mut sealer = Sealer::new();
        sealer.install(at(0), epoch, key(epoch));
        let packets = send(&mut sealer, at(0), &frame(1, 0, 1, 64)).expect("sent");
        assert_eq!(open(&mut opener, at(0), &packets[0]).is_ok(), expected, "epoch {epoch}");
    }
    assert_eq!(opener.epoch(), Some(5));
    assert!(opener.install(6, key(6)) && opener.install(7, key(7)));
    assert_eq!(opener.epoch(), Some(5));
}

#[test]
fn a_frame_that_waited_over_a_change_of_epochs_repeats_no_pn() {
    let mut sealer = sealer(2);
    let waited: Vec<_> = [10, 11, 9000].map(|pn| frame(1, 0, pn, 64)).into();
    let epochs: Vec<_> = waited
        .iter()
        .map(|frame| sealer.take_pn(at(0), &taken(frame), Standing::Known).expect("new"))
        .collect();
    // The station begins again and comes to PN 10 before the frames may go.
    for pn in 1..=10 {
        send(&mut sealer, at(1500), &frame(1, 0, pn, 64)).expect("in the next epoch");
    }
    assert_eq!(sealer.epoch(), Some(2));
    let seal = |sealer: &mut Sealer, place: usize| {
        sealer
            .seal(&taken(&waited[place]), NUMBER, epochs[place], &waited[place], PAYLOAD)
            .map(|packets| packets.len())
    };
    assert_eq!(seal(&mut sealer, 0), Err(OutDiscard::Overtaken));
    assert_eq!(seal(&mut sealer, 1), Ok(1));
    assert_eq!(send(&mut sealer, at(1600), &frame(1, 0, 11, 64)), Err(OutDiscard::Repeated));
}

/// Number of one station's frames that arrive, sent at a thousand a second. Before each of them, somebody in the LAN sends
/// frames with the PNs that `forge` gives.
fn honest_beside(first: u32, frames: u32, forge: impl Fn(u32, u32) -> Vec<u32>) -> u32 {
    let (mut sealer, mut opener) = (sealer(1), opener(1));
    let (mut arrived, mut epoch) = (0, 1);
    for sent in 0..frames {
        let (now, pn) = (at(u64::from(sent)), first.wrapping_add(sent));
        if sealer.wants_epoch_after().is_some() {
            epoch += 1;
            assert!(opener.install(epoch, key(epoch)));
            sealer.install(now, epoch, key(epoch));
        }
        opener.handle_timeout(now);
        for forged in forge(sent, pn) {
            for packet in send(&mut sealer, now, &frame(1, 0, forged, 70)).unwrap_or_default() {
                let _ = open(&mut opener, now, &packet);
            }
        }
        let honest = frame(1, 0, pn, 64);
        let packets = send(&mut sealer, now, &honest).unwrap_or_default();
        arrived += packets
            .iter()
            .map(|packet| u32::from(open(&mut opener, now, packet).as_ref() == Ok(&honest)))
            .sum::<u32>();
    }
    arrived
}

/// Attack: somebody in the LAN knows a station's addresses and PNs, and sends frames in its name. The sending site cannot
/// verify them.
#[test]
fn forged_frames_of_the_lan_cost_no_more_than_themselves() {
    type Forge = fn(u32, u32) -> u32;
    let random = |sent: u32| sent.wrapping_mul(0x9e37_79b9) ^ sent.rotate_left(7);
    let ways: [(&str, Forge); 8] = [
        ("anywhere", |sent, _| sent.wrapping_mul(0x9e37_79b9) ^ sent.rotate_left(7)),
        ("far ahead", |sent, pn| pn.wrapping_add(0x1000_0000 + sent * 1000)),
        ("ahead, in steps of the window", |sent, pn| pn.wrapping_add(sent / 10 * 2047 % 1_000_000)),
        ("just ahead", |_, pn| pn.wrapping_add(3)),
        ("half of all ahead", |_, pn| pn.wrapping_add(1 << 31)),
        ("far behind", |sent, pn| pn.wrapping_sub(5000 + sent)),
        ("what was sent", |_, pn| pn.wrapping_sub(1)),
        ("from the first one on", |sent, _| sent / 10),
    ];
    for (way, forge) in ways {
        for every in [1000, 10] {
            for first in [1, 1_000_000, 0x1fff_f000, u32::MAX - 5000] {
                const FRAMES: u32 = 20_000;
                let forged = FRAMES / every;
                let arrived = honest_beside(first, FRAMES, |sent, pn| {
                    if sent % every == every / 2 { Vec::from([forge(sent, pn)]) } else { Vec::new() }
                });
                assert!(
                    arrived + forged >= FRAMES,
                    "{way}, one in {every}, from {first}: {arrived} of {FRAMES}"
                );
            }
        }
    }
    // A flood as strong as the station itself.
    let arrived = honest_beside(1, 20_000, |sent, _| Vec::from([random(sent)]));
    assert!(arrived > 19_900, "{arrived}");
}

/// Attack: somebody on the path holds the first packets of an SA, and lets one of them go later.
#[test]
fn a_packet_that_was_held_back_silences_no_sa() {
    for first in [1, 0x7fff_f000, u32::MAX - 10_000] {
        for held in [1, 3000, 10_000] {
            let (mut sealer, mut opener) = (sealer(1), opener(1));
            let mut packet = |pn: u32| {
                send(&mut sealer, at(0), &frame(1, 0, first.wrapping_add(pn), 64)).expect("sent").remove(0)
            };
            let kept: Vec<_> = (0..held).map(&mut packet).collect();
            let mut arrived = 0;
            for pn in held..held + 40_000 {
                if pn == held + 1 {
                    let _ = open(&mut opener, at(0), &kept[0]);
                }
                arrived += u32::from(open(&mut opener, at(0), &packet(pn)).is_ok());
            }
            assert_eq!(arrived, 40_000, "{held} held back, from {first}");
        }
    }
}
