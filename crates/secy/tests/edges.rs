//! The edges of frames: padding behind them, the MTU, runts, chunks without room, and sending in clear.

mod ends;

use ends::{A, Outcome, SETTINGS, books, moved, protect, receiver, sdu, sender, verify};
use secy::{
    ClearVlan, ConfidentialityOffset, Frame, Incoming, Outgoing, Protection, ReceiveDiscard, SciInclusion,
    SduBuffer, SecY, Settings, TransmitDiscard, ValidateFrames,
};
use suite::CipherSuite;
use testkit::frames::tagged;
use wire::{EtherType, Instant, Pn};

const SUITE: CipherSuite = CipherSuite::GcmAes128;
const NOT_VALID: Outcome<ReceiveDiscard> = Outcome::Discarded(ReceiveDiscard::NotValid);

/// Ethernet pads to 60 octets without FCS, a careless switch or driver to more: what is behind the ICV of a short
/// frame is cut off; behind a longer one it cannot be told from data, so the ICV is wrong.
#[test]
fn padding_is_cut_from_short_frames() {
    for sci_inclusion in [SciInclusion::Always, SciInclusion::EndStation] {
        for protection in [Protection::Integrity, Protection::Encrypt(ConfidentialityOffset::Zero)] {
            let settings = (Settings { sci_inclusion, ..SETTINGS }, protection);
            for octets in 2..=100 {
                let at = format!("{octets} octets, {settings:?}");
                let sdu = sdu(octets, 0);
                let frame = protect(&mut sender(A, settings, SUITE, 1), &sdu).passed();
                let padded_to = |len: usize| -> Vec<u8> {
                    frame.iter().copied().chain((0..).map(|i| i as u8)).take(len.max(frame.len())).collect()
                };
                for len in [60, 64, frame.len() + 1, frame.len() + 200] {
                    let padded = padded_to(len);
                    let expected =
                        if octets < 48 || padded == frame { Outcome::Passed(sdu.clone()) } else { NOT_VALID };
                    assert_eq!(
                        verify(&mut receiver(settings, SUITE, 1, 0), &padded),
                        expected,
                        "{at}, {len}"
                    );
                }
            }
        }
    }
}

/// The other way about: each octet that is missing is noticed.
#[test]
fn cut_frames_are_discarded() {
    for octets in [2, 47, 48, 100] {
        let frame = protect(&mut sender(A, SETTINGS, SUITE, 1), &sdu(octets, 0)).passed();
        for len in 0..frame.len() {
            let mut rx = receiver(SETTINGS, SUITE, 1, 0);
            let before = books(&rx);
            let outcome = verify(&mut rx, &frame[..len]);
            assert!(matches!(outcome, Outcome::Discarded(_)), "{octets} octets cut to {len}");
            let counter = match len {
                0..14 => "InPktsTooShort 1",
                _ if len < 28 + 16 + octets.min(48) => "InPktsBadTag 1",
                _ => "InPktsNotValid 1",
            };
            assert_eq!(moved(&before, &books(&rx)), counter, "{octets} octets cut to {len}");
        }
    }
}

#[test]
fn runts() {
    for validate_frames in [ValidateFrames::Strict, ValidateFrames::Check, ValidateFrames::Disabled] {
        for protect_frames in [true, false] {
            let settings = Settings { validate_frames, protect_frames, ..SETTINGS };
            for len in 0..14 {
                for fill in [0, 0x88, 0xff] {
                    let runt = vec![fill; len];
                    let mut tx = sender(A, settings, SUITE, 1);
                    assert_eq!(protect(&mut tx, &runt), Outcome::Discarded(TransmitDiscard::TooShort));
                    assert_eq!(tx.counters().out_pkts_too_short, 1);
                    let mut rx = receiver(settings, SUITE, 1, 0);
                    assert_eq!(verify(&mut rx, &runt), Outcome::Discarded(ReceiveDiscard::TooShort));
                    assert_eq!(rx.counters().in_pkts_too_short, 1);
                }
            }
        }
    }
    // 14 octets are a frame: an EtherType and nothing behind it.
    let sdu = sdu(2, 0);
    let frame = protect(&mut sender(A, SETTINGS, SUITE, 1), &sdu).passed();
    assert_eq!(frame[15], 2, "SL");
    assert_eq!(verify(&mut receiver(SETTINGS, SUITE, 1, 0), &frame), Outcome::Passed(sdu));
}

#[test]
fn the_mtu_of_the_protected_side() {
    let too_long = Outcome::Discarded(TransmitDiscard::TooLong);
    for mtu in [100, 1500, 1532, 9000] {
        // Octets that are added: SecTAG and ICV.
        for (sci_inclusion, added) in
            [(SciInclusion::Always, 32), (SciInclusion::Never, 24), (SciInclusion::EndStation, 24)]
        {
            let settings = Settings { mtu, sci_inclusion, ..SETTINGS };
            let mut tx = sender(A, settings, SUITE, 1);
            let exact = sdu(mtu + 2 - added, 0);
            let frame = protect(&mut tx, &exact).passed();
            assert_eq!(frame.len(), mtu + 14, "{sci_inclusion:?}");
            assert_eq!(verify(&mut receiver(settings, SUITE, 1, 0), &frame), Outcome::Passed(exact));
            assert_eq!(protect(&mut tx, &sdu(mtu + 3 - added, 0)), too_long, "{sci_inclusion:?}");
            assert_eq!(tx.counters().out_pkts_too_long, 1);
        }
        let settings = Settings { mtu, protect_frames: false, ..SETTINGS };
        let mut tx = SecY::new(A, settings);
        let exact = sdu(mtu + 2, 0);
        assert_eq!(protect(&mut tx, &exact), Outcome::Passed(exact));
        assert_eq!(protect(&mut tx, &sdu(mtu + 3, 0)), too_long);
    }
    let mut tx = sender(A, Settings { mtu: usize::MAX, ..SETTINGS }, SUITE, 1);
    protect(&mut tx, &sdu(5000, 0)).passed();
}

/// A chunk without headroom or tailroom: too long for where it lies, no PN spent, no octet moved.
#[test]
fn chunks_without_room() {
    let sdu = sdu(60, 0);
    for (head, tail, passes) in
        [(0, 64, false), (15, 64, false), (64, 15, false), (64, 0, false), (16, 16, true)]
    {
        let mut chunk = [&vec![1; head][..], &sdu, &vec![2; tail]].concat();
        let untouched = chunk.clone();
        let mut tx = sender(A, SETTINGS, SUITE, 1);
        let mut burst = [Outgoing::new(Frame::new(&mut chunk, head, sdu.len()).expect("inside"))];
        tx.protect(&mut burst);
        let [outgoing] = burst;
        let (start, len) = (outgoing.frame().start(), outgoing.frame().len());
        let outcome = outgoing.into_outcome().map(drop);
        let next = tx.transmit_sas().next().and_then(|sa| sa.pns().next());
        if passes {
            assert_eq!((outcome, start, len, next), (Ok(()), 0, 104, Pn::new(2)));
        } else {
            assert_eq!((outcome, start, len), (Err(TransmitDiscard::TooLong), head, sdu.len()));
            assert_eq!((chunk, next), (untouched, Pn::new(1)), "{head} and {tail}");
        }
    }
}

/// Verifying needs no room: a frame that fills its chunk.
#[test]
fn a_frame_that_fills_its_chunk_is_verified() {
    let mut frame = protect(&mut sender(A, SETTINGS, SUITE, 1), &sdu(60, 0)).passed();
    let len = frame.len();
    let mut burst = [Incoming::new(Frame::new(&mut frame, 0, len).expect("inside"))];
    receiver(SETTINGS, SUITE, 1, 0).verify(Instant::START, &mut burst, &mut SduBuffer::none());
    let [incoming] = burst;
    assert_eq!(incoming.frame().octets(), sdu(60, 0));
    assert!(incoming.into_outcome().is_ok());
}

#[test]
fn sending_in_clear() {
    let settings = Settings { protect_frames: false, ..SETTINGS };
    for mut tx in [SecY::new(A, settings), sender(A, settings, SUITE, 1)] {
        let before = books(&tx);
        assert_eq!(protect(&mut tx, &sdu(60, 0)), Outcome::Passed(sdu(60, 0)));
        assert_eq!(moved(&before, &books(&tx)), "OutPktsUntagged 1");
        assert!(tx.transmit_sas().all(|sa| sa.pns().next() == Pn::new(1)), "no PN is spent");
    }
}

#[test]
fn what_is_sent_is_counted() {
    for (protection, counters) in [
        (Protection::Integrity, "OutPktsProtected 3, OutOctetsProtected 180"),
        (Protection::Encrypt(ConfidentialityOffset::Zero), "OutPktsEncrypted 3, OutOctetsEncrypted 180"),
        (Protection::Encrypt(ConfidentialityOffset::Fifty), "OutPktsEncrypted 3, OutOctetsEncrypted 180"),
    ] {
        let mut tx = sender(A, (SETTINGS, protection), SUITE, 1);
        let before = books(&tx);
        ends::protected(&mut tx, &ends::sdus(3, 60));
        assert_eq!(moved(&before, &books(&tx)), counters);
    }
    let mut tx = SecY::new(A, SETTINGS);
    let before = books(&tx);
    protect(&mut tx, &sdu(60, 0));
    assert_eq!(moved(&before, &books(&tx)), "OutPktsNoSA 1");
}

/// Attack: a tag put in front of the SecTAG by somebody on the way. Never delivered, whatever is configured.
#[test]
fn vlan_tags_in_clear() {
    let frame = protect(&mut sender(A, SETTINGS, SUITE, 1), &sdu(60, 0)).passed();
    let once = tagged(&frame, EtherType::VLAN, 0xe007);
    let twice = tagged(&once, EtherType::SERVICE_VLAN, 5);
    let thrice = tagged(&twice, EtherType::VLAN, 6);
    let inside = tagged(&sdu(60, 0), EtherType::VLAN, 7);
    let refused = Outcome::Discarded(ReceiveDiscard::ClearVlan);
    let sdu = Outcome::Passed(sdu(60, 0));
    let no_tag = Outcome::Discarded(ReceiveDiscard::NoTag);
    for (clear_vlan, expected) in [(ClearVlan::Refuse, refused), (ClearVlan::Strip, sdu)] {
        let settings = Settings { clear_vlan, ..SETTINGS };
        for frame in [&once, &twice] {
            assert_eq!(verify(&mut receiver(settings, SUITE, 1, 0), frame), expected, "{clear_vlan:?}");
        }
        assert_eq!(verify(&mut receiver(settings, SUITE, 1, 0), &thrice), no_tag, "{clear_vlan:?}");
        let frame = protect(&mut sender(A, settings, SUITE, 1), &inside).passed();
        let delivered = verify(&mut receiver(settings, SUITE, 1, 0), &frame);
        assert_eq!(delivered, Outcome::Passed(inside.clone()), "the SDU's own tag comes through");
    }
}
