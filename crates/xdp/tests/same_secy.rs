//! The programs do what crate `secy` does: every length, every SecTAG, every way to cut and to spoil a frame, and lists of whatever can
//! happen. Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

mod stations;

use proptest::prelude::*;
use secy::{
    ClearVlan, ConfidentialityOffset, InstallError, Protection, ReceiveDiscard, SciInclusion, SecY, Settings,
    TransmitDiscard, ValidateFrames,
};
use stations::{ENCRYPT, Gateway, MTU, Outcome, ROOM, SETTINGS, World, an, load, payload, pn, sci, sdu};
use suite::{CipherSuite, Sak};
use wire::EtherType;
use xdp::link::SaKey;
use xdp::{Link, Unclaimed, Verdict, XdpError};

const SUITE: CipherSuite = CipherSuite::ChaCha20Poly1305;
const XPN: CipherSuite = CipherSuite::ChaCha20Poly1305Xpn;
const IPV4: [u8; 2] = [8, 0];
const ALL_PROTECTIONS: [(CipherSuite, Protection); 6] = [
    (SUITE, ENCRYPT),
    (SUITE, Protection::Integrity),
    (SUITE, Protection::Encrypt(ConfidentialityOffset::Thirty)),
    (SUITE, Protection::Encrypt(ConfidentialityOffset::Fifty)),
    (XPN, ENCRYPT),
    (XPN, Protection::Integrity),
];
const SCI_INCLUSIONS: [SciInclusion; 3] =
    [SciInclusion::Always, SciInclusion::Never, SciInclusion::EndStation];

fn world(window: u32) -> World {
    World::secured(SUITE, ENCRYPT, window, &SETTINGS, 1)
}

#[test]
fn payloads_of_every_length_are_sealed_and_opened_as_in_user_space() {
    for (number, (suite, protection)) in ALL_PROTECTIONS.into_iter().enumerate() {
        let settings = Settings { sci_inclusion: SCI_INCLUSIONS[number % 3], ..SETTINGS };
        let mut world = World::secured(suite, protection, 0, &settings, 1);
        for octets in (0..200).chain((200..=1500).step_by(7)) {
            let frame = sdu(0, IPV4, &payload(octets));
            let protected = world.protect(0, &frame).sent();
            assert_eq!(world.verify(1, &protected).sent(), frame, "{octets}");
        }
    }
}

#[test]
fn the_longest_frame_is_what_the_mtu_allows() {
    for sci_inclusion in SCI_INCLUSIONS {
        let mut world = World::secured(SUITE, ENCRYPT, 0, &Settings { sci_inclusion, ..SETTINGS }, 1);
        let tag = if sci_inclusion == SciInclusion::Always { 16 } else { 8 };
        let longest = MTU - tag - 16;
        world.protect(0, &sdu(0, IPV4, &payload(longest))).sent();
        for octets in [longest + 1, longest + 100, 2000, 2100, 3000] {
            let outcome = world.protect(0, &sdu(0, IPV4, &payload(octets)));
            assert_eq!(outcome, Outcome::Discarded(TransmitDiscard::TooLong), "{octets}");
        }
    }
    let mut world = World::secured(SUITE, ENCRYPT, 0, &Settings { mtu: Link::MOST_MTU, ..SETTINGS }, 1);
    let frame = sdu(0, IPV4, &payload(Link::MOST_MTU - 32));
    let protected = world.protect(0, &frame).sent();
    assert_eq!(world.verify(1, &protected).sent(), frame);
}

/// Every value of the octets that say what follows, with and without room for it.
#[test]
fn every_sectag_is_judged_alike() {
    let mut world = world(4);
    let protected = world.protect(0, &sdu(0, IPV4, &payload(60))).sent();
    let short = world.protect(0, &sdu(0, IPV4, &payload(8))).sent();
    for frame in [&protected, &short] {
        for at in [14, 15] {
            for value in (0..=u8::MAX).filter(|value| *value != frame[at]) {
                let mut hostile = frame.clone();
                hostile[at] = value;
                world.verify(1, &hostile);
                hostile.truncate(30);
                world.verify(1, &hostile);
            }
        }
        for cut in 14..frame.len() {
            world.verify(1, &frame[..cut]);
        }
    }
    world.verify(1, &protected).sent();
    world.verify(1, &short).sent();
}

#[test]
fn no_spoilt_bit_is_delivered() {
    for (suite, protection) in ALL_PROTECTIONS {
        let mut world = World::secured(suite, protection, 8, &SETTINGS, 1);
        let protected = world.protect(0, &sdu(0, IPV4, &payload(70))).sent();
        for bit in 0..8 * protected.len() {
            let mut spoilt = protected.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            let outcome = world.verify(1, &spoilt);
            assert!(matches!(outcome, Outcome::Discarded(_)), "bit {bit}");
        }
        world.verify(1, &protected).sent();
        assert_eq!(world.verify(1, &protected), Outcome::Discarded(ReceiveDiscard::Duplicate));
    }
}

/// Octets behind a short frame's ICV are Ethernet's, and not delivered.
#[test]
fn padding_is_cut_off() {
    let mut world = world(0);
    for octets in 0..=46 {
        let frame = sdu(0, IPV4, &payload(octets));
        let mut protected = world.protect(0, &frame).sent();
        protected.resize(protected.len() + 13, 0);
        let outcome = world.verify(1, &protected);
        if octets < 46 {
            assert_eq!(outcome.sent(), frame, "{octets}");
        } else {
            assert_eq!(outcome, Outcome::Discarded(ReceiveDiscard::NotValid));
        }
    }
}

#[test]
fn vlan_tags_in_clear_are_refused_or_stripped() {
    let (customer, service) = ([0x81, 0, 0, 7], [0x88, 0xa8, 0, 5]);
    for clear_vlan in [ClearVlan::Refuse, ClearVlan::Strip] {
        let mut world = World::secured(SUITE, ENCRYPT, 0, &Settings { clear_vlan, ..SETTINGS }, 1);
        for tags in [&customer[..], &service, &[service, customer].concat(), &[customer; 3].concat()] {
            let frame = sdu(0, IPV4, &payload(60));
            let mut protected = world.protect(0, &frame).sent();
            protected.splice(12..12, tags.iter().copied());
            for cut in 14..40 {
                world.verify(1, &protected[..cut]);
            }
            let outcome = world.verify(1, &protected);
            match (clear_vlan, tags.len()) {
                (_, 12) => assert_eq!(outcome, Outcome::Discarded(ReceiveDiscard::NoTag)),
                (ClearVlan::Refuse, _) => assert_eq!(outcome, Outcome::Discarded(ReceiveDiscard::ClearVlan)),
                (ClearVlan::Strip, _) => assert_eq!(outcome.sent(), frame),
            }
        }
    }
}

/// Windows of every kind of width, with PNs before, in and behind them, near and far.
#[test]
fn windows_move_alike() {
    for window in [0, 1, 64, 65, 200, ROOM] {
        let mut world = world(window);
        let frames: Vec<_> =
            (0..2200).map(|octets| world.protect(0, &sdu(0, IPV4, &payload(octets % 20))).sent()).collect();
        let mut late = 0;
        for base in [0, 60, 64, 70, 1000, 1063, 1064, 1999] {
            for back in [0, 1, 2, 62, 63, 64, 65, 127, 128, 199, 200, 201, 999, 1000, 1001] {
                if back <= base {
                    let outcome = world.verify(1, &frames[base - back]);
                    late += usize::from(outcome == Outcome::Discarded(ReceiveDiscard::Late));
                }
                world.verify(1, &frames[base]);
            }
        }
        assert!(late > 0, "{window}");
        // Once around the ring: the second one's place in it still has the marks of PNs 65 to 128, of which 71 was seen.
        world.verify(1, &frames[2199]).sent();
        world.verify(1, &frames[2118]);
    }
}

#[test]
fn without_replay_protection_frames_are_late_or_delivered_twice() {
    let settings = Settings { replay_protect: false, ..SETTINGS };
    for window in [0, 1, 5] {
        let mut world = World::secured(SUITE, ENCRYPT, window, &settings, 1);
        let frames: Vec<_> =
            (0..20).map(|octets| world.protect(0, &sdu(0, IPV4, &payload(octets))).sent()).collect();
        for at in [0, 0, 7, 3, 2, 19, 14, 15, 16, 19] {
            world.verify(1, &frames[at]).sent();
        }
        let counters = world.gateways[1].kernel.receive_counters(sci(0)).unwrap();
        assert!(counters.in_pkts_delayed > 0 && counters.in_pkts_ok > 0);
    }
}

/// The low half of a PN passes 0, and frames from before it are still told apart.
#[test]
fn extended_pns_are_recovered_across_the_low_half() {
    for first in [(1 << 32) - 3, (1 << 40) - 3, (1 << 63) - 3] {
        let mut world = World::secured(XPN, ENCRYPT, 100, &SETTINGS, first);
        let frames: Vec<_> =
            (0..8).map(|octets| world.protect(0, &sdu(0, IPV4, &payload(octets))).sent()).collect();
        for at in [4, 0, 3, 2, 7, 1, 5, 6] {
            world.verify(1, &frames[at]).sent();
            assert_eq!(world.verify(1, &frames[at]), Outcome::Discarded(ReceiveDiscard::Duplicate));
        }
        // Far from the newest, and on either side of half the range.
        for low in [0_u32, 1, 5, 0x7fff_fffe, 0x8000_0000, 0x8000_0005, 0x8000_0006, u32::MAX] {
            let mut elsewhere = frames[0].clone();
            elsewhere[16..20].copy_from_slice(&low.to_be_bytes());
            world.verify(1, &elsewhere);
        }
    }
}

#[test]
fn pns_end_where_the_suite_ends() {
    for (suite, last) in [(SUITE, u64::from(u32::MAX)), (XPN, u64::MAX)] {
        let mut world = World::secured(suite, ENCRYPT, 4, &SETTINGS, last - 1);
        let frame = sdu(0, IPV4, &payload(40));
        for _ in 0..2 {
            let protected = world.protect(0, &frame).sent();
            world.verify(1, &protected).sent();
        }
        assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::PnExhausted));
        world.reserve(0, 0, u64::MAX).unwrap();
        assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::PnExhausted));
    }
    let mut world = World::new(SUITE, ENCRYPT, 0, &SETTINGS);
    world.install_transmit(0, 0, 7, 1 << 32, u64::MAX).unwrap();
    world.enable_transmit(0, 0).unwrap();
    let outcome = world.protect(0, &sdu(0, IPV4, &payload(40)));
    assert_eq!(outcome, Outcome::Discarded(TransmitDiscard::PnExhausted));
}

#[test]
fn no_pn_leaves_that_is_not_reserved() {
    let mut world = World::new(XPN, ENCRYPT, 0, &SETTINGS);
    let frame = sdu(0, IPV4, &payload(40));
    assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::NoSa));
    world.install_transmit(0, 2, 7, 5, 8).unwrap();
    assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::NoSa));
    world.enable_transmit(0, 2).unwrap();
    for _ in 0..4 {
        world.protect(0, &frame).sent();
    }
    assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::PnUnreserved));
    // A reservation that is stale opens nothing.
    world.reserve(0, 2, 6).unwrap();
    assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::PnUnreserved));
    world.reserve(0, 2, 10).unwrap();
    world.protect(0, &frame).sent();
    world.retire_transmit(0, 2);
    assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::NoSa));
    assert_eq!(world.reserve(0, 2, 10), Err(InstallError::UnknownAn));
}

/// An SA whose frames go on elsewhere: its PNs stand still, and are told.
#[test]
fn a_disabled_sa_protects_nothing_and_keeps_its_pns() {
    let mut world = World::new(XPN, ENCRYPT, 0, &SETTINGS);
    let frame = sdu(0, IPV4, &payload(40));
    world.install_transmit(0, 2, 8, 1, 100).unwrap();
    world.install_transmit(0, 1, 7, 5, 100).unwrap();
    world.enable_transmit(0, 1).unwrap();
    world.protect(0, &frame).sent();
    let kernel = &mut world.gateways[0].kernel;
    assert!(kernel.disable_transmit(an(0)).is_err());
    kernel.disable_transmit(an(1)).unwrap();
    assert_eq!(kernel.run_outward(&frame, 1).unwrap().verdict, Verdict::Drop);
    let (pns, protects) = kernel.transmit_pns(an(1)).unwrap().unwrap();
    assert_eq!((pns.next(), pns.reserved(), protects), (Some(pn(6)), pn(100), false));
    // Only the one that protects is concerned.
    kernel.enable_transmit(an(1)).unwrap();
    kernel.disable_transmit(an(2)).unwrap();
    assert_eq!(kernel.run_outward(&frame, 1).unwrap().verdict, Verdict::Redirect);
}

/// The window of an SA whose frames go on elsewhere stands still, and is told.
#[test]
fn a_disabled_receive_sa_takes_nothing_and_keeps_its_window() {
    let mut world = world(64);
    let frames: Vec<_> = (0..3).map(|_| world.protect(0, &sdu(0, IPV4, &payload(40))).sent()).collect();
    world.verify(1, &frames[1]).sent();
    let kernel = &mut world.gateways[1].kernel;
    assert!(kernel.disable_receive(sci(0), an(3)).is_err());
    kernel.disable_receive(sci(0), an(0)).unwrap();
    for frame in &frames {
        assert_eq!(kernel.run_inward(frame, 1).unwrap().verdict, Verdict::Drop);
    }
    let window = kernel.window(sci(0), an(0)).unwrap().unwrap();
    assert_eq!((window.in_use, window.highest), (false, 2));
}

/// While user space has SAs too, what has no SA here is its own, with and without VLAN tags; what has one is not.
#[test]
fn frames_without_an_sa_are_user_spaces_while_that_has_some() {
    let settings = Settings { clear_vlan: ClearVlan::Strip, ..SETTINGS };
    let mut peer = World::secured(SUITE, ENCRYPT, 0, &settings, 1);
    let frame = sdu(0, IPV4, &payload(40));
    let protected = peer.protect(0, &frame).sent();
    let mut tagged = protected.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    let mut world = World::new(SUITE, ENCRYPT, 0, &settings);
    let verdicts = |world: &World| {
        let [sender, receiver] = &world.gateways;
        let ran = [
            sender.kernel.run_outward(&frame, 1).unwrap(),
            receiver.kernel.run_inward(&protected, 1).unwrap(),
            receiver.kernel.run_inward(&tagged, 1).unwrap(),
        ];
        ran.each_ref().map(|ran| (ran.verdict, ran.frame.len()))
    };
    let dropped = verdicts(&world);
    assert!(dropped.iter().all(|(verdict, _)| *verdict == Verdict::Drop), "{dropped:?}");
    world.gateways.iter_mut().for_each(|gateway| gateway.kernel.share(true).unwrap());
    let as_they_came =
        [(Verdict::Pass, frame.len()), (Verdict::Pass, protected.len()), (Verdict::Pass, protected.len())];
    assert_eq!(verdicts(&world), as_they_came);
    // An SC without this SA is no reason to keep them.
    world.gateways[1].kernel.install_receive_sc(sci(0)).unwrap();
    assert_eq!(verdicts(&world), as_they_came);
    let [_, receiver] = &world.gateways;
    let (counters, _) = receiver.kernel.counters().unwrap();
    assert_eq!(
        (counters.in_pkts_no_sa_error, receiver.kernel.last_unmatched().unwrap().is_some()),
        (2, true)
    );
    world.gateways[1].kernel.share(false).unwrap();
    assert_eq!(verdicts(&world)[1].0, Verdict::Drop);
    assert_eq!(peer.gateways[1].kernel.run_inward(&protected, 1).unwrap().verdict, Verdict::Redirect);
    peer.gateways.iter_mut().for_each(|gateway| gateway.kernel.share(true).unwrap());
    assert_eq!(peer.gateways[0].kernel.run_outward(&frame, 1).unwrap().verdict, Verdict::Redirect);
    // A replay has an SA.
    assert_eq!(peer.gateways[1].kernel.run_inward(&protected, 1).unwrap().verdict, Verdict::Drop);
}

/// An SA of user space has the PNs below the lowest one: its frames go there, and no PN is accepted in both places.
#[test]
fn pns_below_those_of_an_sa_are_user_spaces_if_it_says_so() {
    let mut world = world(0);
    let frame = sdu(0, IPV4, &payload(40));
    let protected: Vec<_> = (0..4).map(|_| world.protect(0, &frame).sent()).collect();
    let receiver = &mut world.gateways[1].kernel;
    receiver.raise_lowest(sci(0), an(0), pn(3)).unwrap();
    let verdicts = |link: &Link| {
        let ran = protected[..2].iter().map(|frame| link.run_inward(frame, 1).unwrap());
        ran.map(|ran| (ran.verdict, ran.frame.len())).collect::<Vec<_>>()
    };
    let octets = protected[0].len();
    assert_eq!(verdicts(receiver), [(Verdict::Drop, octets); 2]);
    receiver.share_below(sci(0), an(0), true).unwrap();
    assert_eq!(verdicts(receiver), [(Verdict::Drop, octets); 2], "user space has no SAs");
    receiver.share(true).unwrap();
    assert_eq!(verdicts(receiver), [(Verdict::Pass, octets); 2]);
    for frame in &protected[2..] {
        assert_eq!(receiver.run_inward(frame, 1).unwrap().verdict, Verdict::Redirect);
        assert_eq!(receiver.run_inward(frame, 1).unwrap().verdict, Verdict::Drop, "it has come");
    }
    receiver.share_below(sci(0), an(0), false).unwrap();
    assert_eq!(verdicts(receiver), [(Verdict::Drop, octets); 2]);
    // The next SA under this AN begins without.
    receiver.share_below(sci(0), an(0), true).unwrap();
    receiver.retire_receive(sci(0), an(0)).unwrap();
    let unknown = receiver.share_below(sci(0), an(0), true).unwrap_err();
    assert!(matches!(unknown, XdpError::Install(InstallError::UnknownAn)), "{unknown}");
}

/// An SA that ends begins no frame, and can be used again.
#[test]
fn an_sa_that_ends_begins_no_frame() {
    let mut world = world(0);
    let frame = sdu(0, IPV4, &payload(40));
    let protected: Vec<_> = (0..2).map(|_| world.protect(0, &frame).sent()).collect();
    let receiver = &mut world.gateways[1].kernel;
    receiver.share(true).unwrap();
    assert_eq!(receiver.run_inward(&protected[0], 1).unwrap().verdict, Verdict::Redirect);
    receiver.end_receive(sci(0), an(0)).unwrap();
    assert_eq!(receiver.run_inward(&protected[1], 1).unwrap().verdict, Verdict::Pass);
    assert!(!receiver.window(sci(0), an(0)).unwrap().unwrap().in_use);
    receiver.disable_receive(sci(0), an(0)).unwrap();
    receiver.end_receive(sci(0), an(0)).unwrap();
    assert_eq!(receiver.run_inward(&protected[1], 1).unwrap().verdict, Verdict::Pass);
    receiver.enable_receive(sci(0), an(0)).unwrap();
    assert_eq!(receiver.run_inward(&protected[1], 1).unwrap().verdict, Verdict::Redirect);
}

/// Fragments and frames that several SDUs share are user space's while that has SAs: only there any may be allowed. Whatever breaks
/// another rule is discarded here.
#[test]
fn frames_with_extension_headers_are_user_spaces_while_that_has_some() {
    let mut world = world(0);
    let protected = world.protect(0, &sdu(0, IPV4, &payload(100))).sent();
    let receiver = &mut world.gateways[1].kernel;
    let marked = |bits: u8| {
        let mut frame = protected.clone();
        frame[15] |= bits;
        frame
    };
    for (shared, verdict, counted) in [(false, Verdict::Drop, 3), (true, Verdict::Pass, 3)] {
        receiver.share(shared).unwrap();
        for bits in [0x40, 0x80, 0xc0] {
            let ran = receiver.run_inward(&marked(bits), 1).unwrap();
            assert_eq!((ran.verdict, ran.frame.len()), (verdict, protected.len()), "{bits:#x} {shared}");
        }
        assert_eq!(receiver.counters().unwrap().0.in_pkts_bad_tag, counted, "{shared}");
    }
    // A length of one octet, which is never.
    assert_eq!(receiver.run_inward(&marked(1), 1).unwrap().verdict, Verdict::Drop);
    assert_eq!(receiver.counters().unwrap().0.in_pkts_bad_tag, 4);
    assert_eq!(receiver.run_inward(&protected, 1).unwrap().verdict, Verdict::Redirect);
}

/// A rekey: frames in flight under the old SA still arrive, and none after it is retired.
#[test]
fn another_an_takes_over_without_a_lost_frame() {
    let mut world = world(200);
    let frame = sdu(0, IPV4, &payload(40));
    let mut flight = vec![world.protect(0, &frame).sent()];
    world.secure(0, 1, 8, 1);
    flight.push(world.protect(0, &frame).sent());
    for protected in flight.iter().rev() {
        world.verify(1, protected).sent();
    }
    let late = {
        world.enable_transmit(0, 0).unwrap();
        world.protect(0, &frame).sent()
    };
    world.retire_receive(1, 0, 0);
    assert_eq!(world.verify(1, &late), Outcome::Discarded(ReceiveDiscard::NoSaError));
    // Another key under the AN of before: its window has nothing of the old one.
    world.retire_transmit(0, 0);
    world.secure(0, 0, 9, 1);
    let flight: Vec<_> = (0..70).map(|_| world.protect(0, &frame).sent()).collect();
    // The last one first: the block of the others is still that of the SA before.
    world.verify(1, &flight[69]).sent();
    for protected in &flight[..69] {
        world.verify(1, protected).sent();
    }
    assert_eq!(world.verify(1, &late), Outcome::Discarded(ReceiveDiscard::Duplicate));
}

#[test]
fn frames_without_an_sci_have_the_only_sc_or_none() {
    let settings = Settings { sci_inclusion: SciInclusion::Never, ..SETTINGS };
    let mut world = World::secured(SUITE, ENCRYPT, 8, &settings, 1);
    let frame = sdu(0, IPV4, &payload(40));
    let protected = world.protect(0, &frame).sent();
    world.install_sc(1, 5).unwrap();
    assert_eq!(world.verify(1, &protected), Outcome::Discarded(ReceiveDiscard::NoSaError));
    world.retire_sc(1, 5);
    world.verify(1, &protected).sent();
    world.retire_sc(1, 0);
    assert_eq!(world.verify(1, &protected), Outcome::Discarded(ReceiveDiscard::NoSaError));
}

#[test]
fn there_are_as_many_scs_as_in_user_space_and_each_finds_its_frames() {
    let mut world = World::new(SUITE, ENCRYPT, 8, &SETTINGS);
    let frame = sdu(0, IPV4, &payload(40));
    world.install_transmit(0, 3, 7, 1, u64::MAX).unwrap();
    world.enable_transmit(0, 3).unwrap();
    for station in 2..=SecY::RECEIVE_SCS {
        world.install_sc(1, station).unwrap();
    }
    world.install_sc(1, 0).unwrap();
    assert_eq!(world.install_sc(1, 99), Err(InstallError::TooManyScs));
    assert_eq!(world.install_sc(1, 7), Err(InstallError::TooManyScs).or(Err(InstallError::SciInUse)));
    world.install_receive(1, 0, 3, 7, 1).unwrap();
    let protected = world.protect(0, &frame).sent();
    assert_eq!(world.verify(1, &protected), Outcome::Discarded(ReceiveDiscard::NoSaError), "not enabled");
    world.enable_receive(1, 0, 3).unwrap();
    world.verify(1, &protected).sent();
    world.retire_sc(1, 9);
    world.install_sc(1, 99).unwrap();
    let protected = world.protect(0, &frame).sent();
    world.verify(1, &protected).sent();
}

#[test]
fn what_goes_around_the_secy_is_counted() {
    let mut world = world(0);
    let link = &mut world.gateways[0].kernel;
    link.configure(sci(0), &SETTINGS, &[EtherType::LLDP, EtherType::PTP], Unclaimed::Pass).unwrap();
    let lldp = sdu(0, [0x88, 0xcc], &payload(40));
    let (sent, came) = (link.run_outward(&lldp, 1).unwrap(), link.run_inward(&lldp, 1).unwrap());
    assert_eq!((sent.verdict, came.verdict), (Verdict::Redirect, Verdict::Redirect));
    assert_eq!((&sent.frame, &came.frame), (&lldp, &lldp));
    let pause = sdu(0, [0x88, 0x08], &payload(46));
    assert_eq!(link.run_outward(&pause, 1).unwrap().verdict, Verdict::Drop);
    assert_eq!(link.run_inward(&pause, 1).unwrap().verdict, Verdict::Drop);
    let eapol = sdu(0, [0x88, 0x8e], &payload(46));
    let came = link.run_inward(&eapol, 1).unwrap();
    assert_eq!((came.verdict, &came.frame), (Verdict::Pass, &eapol), "the KaY's, as it came");
    assert_eq!(link.run_outward(&eapol, 1).unwrap().frame[12..14], [0x88, 0xe5], "an SDU like others");
    let around = link.counters().unwrap().1;
    assert_eq!(
        (around.out_bypass, around.in_bypass, around.out_mac_control, around.in_mac_control),
        (1, 1, 1, 1)
    );
    link.configure(sci(0), &SETTINGS, &[], Unclaimed::Drop).unwrap();
    assert_eq!(link.run_outward(&lldp, 1).unwrap().frame[12..14], [0x88, 0xe5]);
    assert_eq!(link.run_inward(&eapol, 1).unwrap().verdict, Verdict::Drop);
}

/// While the programs stand aside every frame is the sockets', as the program of a port has it, whatever it is: with an SA, bypassed, cut.
/// Nothing is counted, no PN is taken; then all goes on where it stood.
#[test]
fn programs_that_stand_aside_leave_every_frame_as_it_came() {
    let mut world = world(4);
    let sent = sdu(0, IPV4, &payload(40));
    let protected: Vec<_> = (0..2).map(|_| world.protect(0, &sent).sent()).collect();
    world.verify(1, &protected[0]).sent();
    let bypass = [EtherType::LLDP];
    for (station, Gateway { kernel, .. }) in world.gateways.iter_mut().enumerate() {
        kernel.stand_aside(true).unwrap();
        // Other settings change nothing about it.
        kernel.configure(sci(station), &SETTINGS, &bypass, Unclaimed::Pass).unwrap();
        kernel.share(true).unwrap();
        kernel.share(false).unwrap();
    }
    let tagged = [&protected[1][..12], &[0x81, 0, 0, 7], &protected[1][12..]].concat();
    let others = [[0x88, 0x08], [0x88, 0xcc], [0x88, 0x8e], IPV4].map(|of| sdu(0, of, &payload(46)));
    let cut = [protected[1][..14].to_vec(), protected[1][..30].to_vec()];
    let all = [&[sent.clone(), tagged], &protected[..], &others, &cut].concat();
    let state = |link: &Link| {
        let window = link.window(sci(0), an(0));
        let next = link.transmit_pns(an(0)).unwrap().map(|(pns, _)| pns.next());
        (link.counters().unwrap(), next, window.ok().flatten())
    };
    for Gateway { kernel, .. } in &world.gateways {
        let before = state(kernel);
        for frame in &all {
            for ran in [kernel.run_outward(frame, 1).unwrap(), kernel.run_inward(frame, 1).unwrap()] {
                assert_eq!((ran.verdict, &ran.frame), (Verdict::Pass, frame));
            }
        }
        assert_eq!(state(kernel), before);
    }
    // A queue without a socket drops where nothing may reach the host.
    let [sender, receiver] = &mut world.gateways;
    receiver.kernel.configure(sci(1), &SETTINGS, &[], Unclaimed::Drop).unwrap();
    for frame in &all {
        for ran in [receiver.kernel.run_outward(frame, 1), receiver.kernel.run_inward(frame, 1)] {
            assert_eq!(ran.unwrap().verdict, Verdict::Drop);
        }
    }
    for Gateway { kernel, .. } in [sender, receiver] {
        kernel.stand_aside(false).unwrap();
    }
    world.verify(1, &protected[1]).sent();
    let next = world.protect(0, &sent).sent();
    assert_eq!(next[16..20], [0, 0, 0, 3], "no PN was taken");
    world.verify(1, &next).sent();
    // Programs that are nobody's any more discard.
    let link = &mut world.gateways[0].kernel;
    link.stand_aside(true).unwrap();
    link.clear().unwrap();
    assert_eq!(link.run_outward(&sent, 1).unwrap().verdict, Verdict::Drop);
}

#[test]
fn other_secys_and_suites_are_refused() {
    let mut link = load();
    let refused = [
        Settings { protect_frames: false, ..SETTINGS },
        Settings { validate_frames: ValidateFrames::Check, ..SETTINGS },
        Settings { reassemble: true, ..SETTINGS },
        Settings { mtu: Link::MOST_MTU + 1, ..SETTINGS },
    ];
    for settings in refused {
        assert!(link.configure(sci(0), &settings, &[], Unclaimed::Drop).is_err(), "{settings:?}");
    }
    assert!(Link::suits(&SETTINGS, XPN).is_ok() && Link::suits(&SETTINGS, SUITE).is_ok());
    link.configure(sci(0), &SETTINGS, &[], Unclaimed::Drop).unwrap();
    let sak = Sak::new(CipherSuite::GcmAes256, &[7; 32]).unwrap();
    let key = |suite| SaKey { suite, sak: &sak, xpn: None, protection: ENCRYPT };
    let gcm = link.install_transmit(an(0), &key(CipherSuite::GcmAes256), pn(1), pn(9));
    assert!(matches!(gcm, Err(XdpError::LinkSuite(_))), "{gcm:?}");
    let unbound = link.install_transmit(an(0), &key(XPN), pn(1), pn(9));
    assert!(matches!(unbound, Err(XdpError::Install(InstallError::XpnBinding))), "{unbound:?}");
    link.install_receive_sc(sci(1)).unwrap();
    let wide = link.install_receive(sci(1), an(0), &key(SUITE), pn(1), ROOM + 1);
    assert!(matches!(wide, Err(XdpError::Window { .. })), "{wide:?}");
}

/// Programs serve another SecY after they are cleared: nothing of the one before is left.
#[test]
fn a_cleared_link_has_no_sa_and_has_counted_nothing() {
    let mut world = world(8);
    let frame = sdu(0, IPV4, &payload(40));
    let protected = world.protect(1, &frame).sent();
    world.verify(0, &protected).sent();
    world.protect(0, &frame).sent();
    let gateway = &mut world.gateways[0];
    gateway.kernel.clear().unwrap();
    gateway.rust = SecY::new(sci(0), SETTINGS);
    assert_eq!(world.protect(0, &frame), Outcome::Discarded(TransmitDiscard::NoSa));
    assert_eq!(world.verify(0, &protected), Outcome::Discarded(ReceiveDiscard::NoSaError));
    world.install_sc(0, 1).unwrap();
}

/// Something that happens in a world of two stations.
#[derive(Clone, Debug)]
enum Step {
    Protect {
        from: usize,
        octets: usize,
        tagged: bool,
    },
    /// The frame that was protected so many frames ago comes, unharmed.
    Deliver {
        ago: usize,
    },
    /// The same, and something was done to it.
    Harm {
        ago: usize,
        harm: Harm,
    },
    InstallTransmit {
        station: usize,
        number: usize,
        key: u8,
        next: u64,
        block: u64,
    },
    EnableTransmit {
        station: usize,
        number: usize,
    },
    Reserve {
        station: usize,
        number: usize,
        through: u64,
    },
    RetireTransmit {
        station: usize,
        number: usize,
    },
    InstallReceive {
        station: usize,
        number: usize,
        key: u8,
        lowest: u64,
    },
    EnableReceive {
        station: usize,
        number: usize,
    },
    Raise {
        station: usize,
        number: usize,
        lowest: u64,
    },
    RetireReceive {
        station: usize,
        number: usize,
    },
    ExchangeSc {
        station: usize,
    },
    /// Keystream is made ahead.
    Fill {
        station: usize,
    },
}

#[derive(Clone, Debug)]
enum Harm {
    Flip {
        bit: usize,
    },
    Cut {
        octets: usize,
    },
    Lengthen {
        octets: usize,
    },
    Tci {
        tci: u8,
    },
    Pn {
        pn: u32,
    },
    Tag,
    /// It comes to the gateway that sent it.
    Reflect,
}

/// Numbers at which something ends.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 1_u64..40,
        1 => (1_u64 << 32) - 8..(1 << 32) + 8,
        1 => u64::MAX - 8..=u64::MAX,
    ]
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        3 => (0usize..1 << 14).prop_map(|bit| Harm::Flip { bit }),
        2 => (1usize..80).prop_map(|octets| Harm::Cut { octets }),
        1 => (1usize..2200).prop_map(|octets| Harm::Lengthen { octets }),
        2 => any::<u8>().prop_map(|tci| Harm::Tci { tci }),
        2 => prop_oneof![0u32..40, any::<u32>()].prop_map(|pn| Harm::Pn { pn }),
        1 => Just(Harm::Tag),
        1 => Just(Harm::Reflect),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let place = (0usize..2, prop_oneof![3 => Just(0usize), 1 => Just(1usize)]);
    let length = prop_oneof![4 => 0usize..80, 1 => 80usize..1600];
    prop_oneof![
        12 => (0usize..2, length, any::<bool>()).prop_map(|(from, octets, tagged)| Step::Protect { from, octets, tagged }),
        12 => prop_oneof![4 => Just(0usize), 3 => 0usize..12, 1 => 0usize..200].prop_map(|ago| Step::Deliver { ago }),
        4 => (0usize..3, harm()).prop_map(|(ago, harm)| Step::Harm { ago, harm }),
        2 => (place.clone(), 1u8..4, number(), 1u64..60).prop_map(|((station, number), key, next, block)| {
            Step::InstallTransmit { station, number, key, next, block }
        }),
        2 => place.clone().prop_map(|(station, number)| Step::EnableTransmit { station, number }),
        1 => (place.clone(), number()).prop_map(|((station, number), through)| Step::Reserve { station, number, through }),
        1 => place.clone().prop_map(|(station, number)| Step::RetireTransmit { station, number }),
        2 => (place.clone(), 1u8..4, number()).prop_map(|((station, number), key, lowest)| {
            Step::InstallReceive { station, number, key, lowest }
        }),
        2 => place.clone().prop_map(|(station, number)| Step::EnableReceive { station, number }),
        1 => (place.clone(), number()).prop_map(|((station, number), lowest)| Step::Raise { station, number, lowest }),
        1 => place.prop_map(|(station, number)| Step::RetireReceive { station, number }),
        1 => (0usize..2).prop_map(|station| Step::ExchangeSc { station }),
        3 => (0usize..2).prop_map(|station| Step::Fill { station }),
    ]
}

fn harmed(frame: &[u8], harm: &Harm) -> Vec<u8> {
    let mut frame = frame.to_vec();
    match harm {
        Harm::Flip { bit } => {
            let bit = bit % (8 * frame.len());
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        Harm::Cut { octets } => frame.truncate(frame.len().saturating_sub(*octets).max(14)),
        // The kernel runs programs with up to 3,520 octets.
        Harm::Lengthen { octets } => frame.resize((frame.len() + octets).min(3500), 0x5a),
        Harm::Tci { tci } => frame[14] = *tci,
        Harm::Pn { pn } => frame[16..20].copy_from_slice(&pn.to_be_bytes()),
        Harm::Tag => drop(frame.splice(12..12, [0x81, 0, 0x20, 7])),
        Harm::Reflect => {}
    }
    frame
}

fn carry_out(world: &mut World, wire: &mut Vec<(usize, Vec<u8>)>, step: &Step) {
    // A step that one refuses is refused by both.
    let _ = match *step {
        Step::Protect { from, octets, tagged } => {
            let ethertype = if tagged { [0x81, 0] } else { IPV4 };
            if let Outcome::Sent(frame) = world.protect(from, &sdu(from, ethertype, &payload(octets))) {
                wire.push((from, frame));
            }
            Ok(())
        }
        Step::Deliver { ago } => {
            if let Some((from, frame)) = wire.len().checked_sub(ago + 1).map(|at| wire[at].clone()) {
                world.verify(1 - from, &frame);
            }
            Ok(())
        }
        Step::Harm { ago, ref harm } => {
            if let Some((from, frame)) = wire.len().checked_sub(ago + 1).map(|at| wire[at].clone()) {
                let to = if matches!(harm, Harm::Reflect) { from } else { 1 - from };
                world.verify(to, &harmed(&frame, harm));
            }
            Ok(())
        }
        Step::InstallTransmit { station, number, key, next, block } => {
            world.install_transmit(station, number, key, next, next.saturating_add(block))
        }
        Step::EnableTransmit { station, number } => world.enable_transmit(station, number),
        Step::Reserve { station, number, through } => world.reserve(station, number, through),
        Step::RetireTransmit { station, number } => {
            world.retire_transmit(station, number);
            Ok(())
        }
        Step::InstallReceive { station, number, key, lowest } => {
            world.install_receive(station, 1 - station, number, key, lowest)
        }
        Step::EnableReceive { station, number } => world.enable_receive(station, 1 - station, number),
        Step::Raise { station, number, lowest } => world.raise(station, 1 - station, number, lowest),
        Step::RetireReceive { station, number } => {
            world.retire_receive(station, 1 - station, number);
            Ok(())
        }
        Step::ExchangeSc { station } => {
            world.retire_sc(station, 1 - station);
            world.install_sc(station, 1 - station)
        }
        Step::Fill { station } => {
            world.gateways[station].kernel.fill();
            Ok(())
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_both_do_the_same(
        kind in 0..ALL_PROTECTIONS.len(), inclusion in 0usize..3, replay_protect in prop::bool::weighted(0.8), strip: bool,
        window in prop_oneof![Just(0u32), Just(1), 2u32..20, Just(64), Just(ROOM)], first in number(), ahead: bool,
        steps in prop::collection::vec(step(), 100..500),
    ) {
        let (suite, protection) = ALL_PROTECTIONS[kind];
        let clear_vlan = if strip { ClearVlan::Strip } else { ClearVlan::Refuse };
        let settings = Settings { sci_inclusion: SCI_INCLUSIONS[inclusion], replay_protect, clear_vlan, ..SETTINGS };
        let mut world = World::secured(suite, protection, window, &settings, first);
        let mut wire = Vec::new();
        for step in steps.iter().filter(|step| ahead || !matches!(step, Step::Fill { .. })) {
            carry_out(&mut world, &mut wire, step);
        }
    }
}
