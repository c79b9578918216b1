//! Protected frames come out as they went in, and nothing else comes out.

#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

mod cell;

use cell::{MODES, MTU, Pair, machine, plain, protected, stations};
use fieldbus::{Foreign, InwardFrame, ReceiveDiscard, Settings, TransmitDiscard, VlanTag};
use proptest::prelude::*;
use wire::EtherType;
use wire::fieldbus::FrameId;

const TAG: &[u8] = &[0x81, 0, 0xc0, 0];
/// Prefixes of machines' frames: nothing, a priority, a service tag, two tags.
const TAGS: &[&[u8]] = &[&[], TAG, &[0x88, 0xa8, 1, 2], &[0x81, 0, 0xc0, 0, 0x81, 0, 0, 1]];

#[test]
fn on_the_wire_it_is_as_the_format_says() {
    for protection in MODES {
        let mut pair = Pair::secured(protection, 2);
        let frame = machine(0, 1, 44);
        let on_wire = pair.protect(0, &frame).unwrap();
        assert_eq!(on_wire.len(), frame.len() + 5 + 16);
        assert_eq!(on_wire[..16], frame[..16], "addresses and VLAN tag stay");
        // KeyID as the session has it, the first Seq.
        assert_eq!(on_wire[16..25], [0x88, 0xb5, 0x80, 1, 1, 0, 0, 0, 1]);
        let clear = on_wire[25..69] == frame[20..];
        assert_eq!(clear, protection.protect == wire::fieldbus::Protect::Authenticate);
        assert_eq!(pair.verify(1, &on_wire), Ok(frame));
    }
}

#[test]
fn short_payloads_are_padded_under_the_icv() {
    for protection in MODES {
        let mut pair = Pair::secured(protection, 1);
        for payload in 0..60 {
            let on_wire = pair.protect(0, &machine(0, 0, payload)).unwrap();
            assert!(on_wire.len() - 4 >= 60, "no switch pads what has lost its tag");
            let mut came = pair.verify(1, &on_wire).unwrap();
            assert!(came.len() == 20 + payload.max(23));
            assert!(came.drain(20 + payload..).all(|octet| octet == 0));
            assert_eq!(came, machine(0, 0, payload));
        }
    }
}

#[test]
fn the_mtu_is_the_longest() {
    for protection in MODES {
        let mut pair = Pair::secured(protection, 1);
        let longest = MTU - 7 - 16;
        for tags in [&[][..], TAG, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]] {
            let [(plc, id), (device, _)] = stations(0);
            let frame = |payload: usize| plain(device, plc, tags, id, &vec![3; payload]);
            assert_eq!(pair.protect(0, &frame(longest)).unwrap().len(), 14 + tags.len() + MTU);
            assert_eq!(pair.protect(0, &frame(longest + 1)), Err(TransmitDiscard::TooLong));
        }
        assert_eq!(pair.status(0, 0).transmit.out_pkts_too_long, 3);
        assert_eq!(pair.status(0, 0).transmit_key.unwrap().seq.unwrap().number(), 3, "no Seq was spent");
    }
}

#[test]
fn the_tag_towards_the_machine_is_the_configured_one() {
    for (vlan, delivered) in
        [(None, &[][..]), (Some(VlanTag::PROFINET), TAG), (VlanTag::new(7, 9), &[0x81, 0, 0xe0, 9])]
    {
        for tags in [&[][..], TAG, &[0x81, 0, 0xff, 0xff], &[0x88, 0xa8, 0, 5]] {
            let mut pair = Pair::with(MODES[0], 1, |settings| settings.vlan = vlan);
            pair.secure(0);
            let [(plc, id), (device, _)] = stations(0);
            let on_wire = pair.protect(0, &plain(device, plc, tags, id, &[5; 40])).unwrap();
            assert_eq!(pair.verify(1, &on_wire), Ok(plain(device, plc, delivered, id, &[5; 40])));
            // A switch on the way takes the tag off, or puts one on.
            let untagged = [&on_wire[..12], &on_wire[12 + tags.len()..]].concat();
            assert_eq!(pair.verify(1, &untagged), Err(ReceiveDiscard::Late));
            let on_wire = pair.protect(0, &plain(device, plc, tags, id, &[6; 40])).unwrap();
            let retagged = [&on_wire[..12], &[0x81, 0, 0x20, 7], &on_wire[12 + tags.len()..]].concat();
            assert_eq!(pair.verify(1, &retagged), Ok(plain(device, plc, delivered, id, &[6; 40])));
        }
    }
}

#[test]
fn frames_that_are_no_relations_are_left_alone() {
    let mut pair = Pair::secured(MODES[0], 3);
    let [(plc, sends), (device, receives)] = stations(0);
    let other = stations(1)[1].0;
    let cell = &pair.ends[0];
    for (why, frame) in [
        ("another FrameID", plain(device, plc, TAG, FrameId(sends.0 + 1), &[0; 40])),
        ("another device's", plain(other, plc, TAG, sends, &[0; 40])),
        ("the remote station as its source", plain(plc, device, TAG, receives, &[0; 40])),
        ("the remote station's FrameID", plain(device, plc, TAG, receives, &[0; 40])),
        ("three tags", plain(device, plc, &[0x81, 0, 0, 1].repeat(3), sends, &[0; 40])),
    ] {
        assert_eq!(cell.find_outward(&frame), None, "{why}");
    }
    for cut in 0..20 {
        assert_eq!(cell.find_outward(&machine(0, 0, 40)[..cut]), None, "{cut}");
    }
    let on_wire = pair.protect(0, &machine(0, 0, 40)).unwrap();
    assert_eq!(pair.ends[0].find_outward(&on_wire), None, "protected frames of a machine");
    assert_eq!(
        pair.ends[0].find_inward(&on_wire),
        InwardFrame::Foreign(Foreign::UnknownRelation),
        "reflected"
    );
    assert!(matches!(pair.ends[1].find_inward(&machine(0, 0, 40)), InwardFrame::Clear(_)), "in clear");
    assert_eq!(pair.ends[1].find_inward(&machine(1, 0, 40)), InwardFrame::Other);
    for cut in 0..on_wire.len() {
        let expected = match cut {
            0..18 => InwardFrame::Other,
            18..25 => InwardFrame::Foreign(Foreign::TooShort),
            _ => pair.ends[1].find_inward(&on_wire),
        };
        assert_eq!(pair.ends[1].find_inward(&on_wire[..cut]), expected, "{cut}");
    }
    let twice = [&on_wire[..12], TAG, &on_wire[12..]].concat();
    assert_eq!(pair.ends[1].find_inward(&twice), InwardFrame::Foreign(Foreign::TooManyTags));
    let mut hello = on_wire;
    hello[21..25].fill(0);
    assert!(matches!(pair.ends[1].find_inward(&hello), InwardFrame::Hello(_)));
}

#[test]
fn the_ethertype_can_be_another() {
    let ethertype = EtherType(0x88b6);
    let mut pair = Pair::with(MODES[1], 1, |settings: &mut Settings| settings.ethertype = ethertype);
    pair.secure(0);
    let on_wire = pair.protect(0, &machine(0, 0, 40)).unwrap();
    assert_eq!(on_wire[16..18], [0x88, 0xb6]);
    assert_eq!(pair.verify(1, &on_wire), Ok(machine(0, 0, 40)));
    let usual = [&on_wire[..16], &[0x88, 0xb5], &on_wire[18..]].concat();
    assert_eq!(pair.ends[1].find_inward(&usual), InwardFrame::Other);
}

#[test]
fn every_octet_counts() {
    for protection in MODES {
        let mut pair = Pair::secured(protection, 2);
        let frame = machine(0, 0, 40);
        let on_wire = pair.protect(0, &frame).unwrap();
        for at in 0..on_wire.len() {
            for bit in 0..8 {
                let mut flipped = on_wire.clone();
                flipped[at] ^= 1 << bit;
                // VLAN tag and EtherType are not authenticated: see `transmit`.
                if let Some(found) = protected(pair.ends[1].find_inward(&flipped)) {
                    assert_eq!(found.relation(), 0);
                    if !(12..18).contains(&at) {
                        assert!(pair.verify(1, &flipped).is_err(), "octet {at}, bit {bit}");
                    }
                }
            }
        }
        for cut in 25..on_wire.len() {
            assert!(pair.verify(1, &on_wire[..cut]).is_err(), "{cut} octets");
        }
        assert!(pair.verify(1, &[&on_wire[..], &[0]].concat()).is_err(), "one octet more");
        let receive = pair.status(1, 0).receive;
        assert_eq!((receive.in_pkts_ok, receive.in_pkts_too_short), (0, 16));
        assert!(receive.in_pkts_not_valid > 8 * 60 && receive.in_pkts_unknown_key > 0);
        assert_eq!(pair.verify(1, &on_wire), Ok(frame), "nothing of it changed anything");
    }
}

#[test]
fn frames_of_other_relations_directions_and_keys_are_refused() {
    for protection in MODES {
        let mut pair = Pair::secured(protection, 2);
        let mut later = Pair::secured(protection, 2);
        (0..2).for_each(|number| later.secure(number));
        for number in 0..2 {
            let on_wire = pair.protect(0, &machine(0, number, 40)).unwrap();
            let swapped = pair.protect(0, &machine(0, 1 - number, 40)).unwrap();
            let reflected = pair.protect(1, &machine(1, number, 40)).unwrap();
            let of_another_session = later.protect(0, &machine(0, number, 40)).unwrap();
            for foreign in [swapped, reflected, of_another_session] {
                // Under this relation's front and its current and next KeyID, with the Seq that it was sealed with.
                for key_id in [number as u8, number as u8 + 1] {
                    let forged = [&on_wire[..20], &[key_id], &foreign[21..]].concat();
                    assert_eq!(pair.verify(1, &forged), Err(ReceiveDiscard::NotValid));
                }
            }
            assert!(pair.verify(1, &on_wire).is_ok());
        }
    }
}

#[test]
fn without_a_session_nothing_passes() {
    let mut pair = Pair::new(MODES[0], 1);
    let on_wire = Pair::secured(MODES[0], 1).protect(0, &machine(0, 0, 40)).unwrap();
    assert_eq!(pair.protect(0, &machine(0, 0, 40)), Err(TransmitDiscard::NoSession));
    assert_eq!(pair.verify(1, &on_wire), Err(ReceiveDiscard::NoSession));
    assert_eq!(pair.status(0, 0).transmit.out_pkts_no_session, 1);
    assert_eq!(pair.status(1, 0).receive.in_pkts_no_session, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_protected_comes_out_as_it_went_in(
        mode in 0usize..4,
        number in 0usize..7,
        tags in prop::sample::select(TAGS),
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1500), 1..8),
        (place, flip) in (any::<prop::sample::Index>(), 1u8..),
    ) {
        let mut pair = Pair::secured(MODES[mode], 7);
        for from in 0..2 {
            let [(own, id), (peer, _)] = [stations(number)[from], stations(number)[1 - from]];
            let frames: Vec<_> = payloads.iter().map(|payload| plain(peer, own, tags, id, payload)).collect();
            let on_wire: Vec<_> = pair.protect_all(from, &frames).into_iter().map(Result::unwrap).collect();
            // A switch takes what it put in front off again.
            let on_wire: Vec<_> = on_wire
                .into_iter()
                .map(|frame| if tags.len() > 4 { [&frame[..12], &frame[16..]].concat() } else { frame })
                .collect();
            let mut flipped = on_wire.clone();
            for frame in &mut flipped {
                let at = 12 + tags.len().min(4) + 2 + 2;
                let at = at + place.index(frame.len() - at);
                frame[at] ^= flip;
            }
            for frame in &flipped {
                if protected(pair.ends[1 - from].find_inward(frame)).is_some() {
                    prop_assert!(pair.verify(1 - from, frame).is_err());
                }
            }
            let came = pair.verify_all(1 - from, &on_wire);
            for (came, payload) in came.into_iter().zip(&payloads) {
                let mut payload = payload.clone();
                payload.resize(payload.len().max(23), 0);
                prop_assert_eq!(came, Ok(plain(peer, own, TAG, id, &payload)));
            }
            for old in &on_wire {
                prop_assert_eq!(pair.verify(1 - from, old), Err(ReceiveDiscard::Late));
            }
        }
    }
}
