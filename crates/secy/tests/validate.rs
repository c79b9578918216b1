//! Outcome and counter of each kind of frame under each `validate_frames` (IEEE 802.1AE-2018 clause 10.6).

mod ends;

use ends::{A, B, HERE, Outcome, SETTINGS, books, moved, protect, receiver, sdu, sender, verify};
use secy::{ConfidentialityOffset, Protection, ReceiveDiscard, SecY, Settings, ValidateFrames};
use suite::CipherSuite;
use wire::SecTagError;

const SUITE: CipherSuite = CipherSuite::GcmAes128;
/// Octets behind the addresses of the SDUs: secure data.
const DATA: usize = 100;
const ENCRYPT: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const MODES: [ValidateFrames; 3] = [ValidateFrames::Strict, ValidateFrames::Check, ValidateFrames::Disabled];

/// Frames that reach the plain side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The SDU.
    Sdu,
    /// The received frame, without SecTAG and ICV but not otherwise changed.
    Unverified,
    /// The received frame, to the octet.
    Whole,
    Nothing(ReceiveDiscard),
}
use Expected::{Nothing, Sdu, Unverified, Whole};

fn wire(protection: Protection) -> Vec<u8> {
    let mut tx = sender(A, (SETTINGS, protection), SUITE, 1);
    protect(&mut tx, &sdu(DATA, 0)).passed()
}

fn with(mut frame: Vec<u8>, at: usize, change: impl Fn(u8) -> u8) -> Vec<u8> {
    frame[at] = change(frame[at]);
    frame
}

/// E=0 C=1 is integrity alone, by a suite that changes the data; here a frame that is authentic with that bit.
fn changed_with_right_icv() -> Vec<u8> {
    use suite::{Nonce, SealJob};
    let mut frame = with(wire(Protection::Integrity), 14, |tci| tci | 0x04);
    let end = frame.len() - 16;
    let (aad, icv) = frame.split_at_mut(end);
    let job = SealJob {
        nonce: Nonce::new(A, ends::pn(1)),
        aad,
        text: &mut [],
        icv: icv.try_into().expect("16 octets"),
    };
    ends::key(SUITE, 0).seal_each(std::iter::once(job));
    frame
}

/// Delivered frames, and the counters that move.
type Row = (Expected, &'static str);

/// Kinds of frames: name, octets, and a row for each mode.
fn kinds() -> Vec<(&'static str, Vec<u8>, [Row; 3])> {
    use ReceiveDiscard as D;
    let integrity = wire(Protection::Integrity);
    let encrypted = wire(ENCRYPT);
    let last = integrity.len() - 1;
    let ok_clear = (Sdu, "InPktsOK 1, InOctetsValidated 100");
    let ok_encrypted = (Sdu, "InPktsOK 1, InOctetsDecrypted 100");
    let unchecked = (Sdu, "InPktsUnchecked 1");
    let not_valid = (Nothing(D::NotValid), "InPktsNotValid 1");
    let no_sa_error = (Nothing(D::NoSaError), "InPktsNoSAError 1");
    let no_sa = (Unverified, "InPktsNoSA 1");
    let untagged = (Whole, "InPktsUntagged 1");
    let bad = |error| [(Nothing(D::BadTag(error)), "InPktsBadTag 1"); 3];
    vec![
        ("untagged", sdu(DATA, 0), [(Nothing(D::NoTag), "InPktsNoTag 1"), untagged, untagged]),
        ("version 1", with(integrity.clone(), 14, |tci| tci | 0x80), bad(SecTagError::Version)),
        ("SC and ES", with(integrity.clone(), 14, |tci| tci | 0x40), bad(SecTagError::ScBits)),
        ("SC and SCB", with(integrity.clone(), 14, |tci| tci | 0x10), bad(SecTagError::ScBits)),
        ("E without C", with(integrity.clone(), 14, |tci| tci | 0x08), bad(SecTagError::EncryptedUnchanged)),
        ("reserved bit", with(integrity.clone(), 15, |_| 0x40), bad(SecTagError::ReservedBits)),
        ("SL 48", with(integrity.clone(), 15, |_| 48), bad(SecTagError::ShortLength)),
        ("no ICV", integrity[..28 + 63].to_vec(), bad(SecTagError::TooShort)),
        ("PN 0", with(integrity.clone(), 19, |_| 0), [(Nothing(D::PnZero), "InPktsBadTag 1"); 3]),
        ("unknown SCI", with(integrity.clone(), 27, |port| port + 1), [no_sa_error, no_sa, no_sa]),
        (
            "unknown SCI, encrypted",
            with(encrypted.clone(), 27, |port| port + 1),
            [no_sa_error, no_sa_error, no_sa_error],
        ),
        ("unused AN", with(integrity.clone(), 14, |tci| tci | 3), [no_sa_error, no_sa, no_sa]),
        (
            "unused AN, encrypted",
            with(encrypted.clone(), 14, |tci| tci | 3),
            [no_sa_error, no_sa_error, no_sa_error],
        ),
        ("an AN not enabled", with(integrity.clone(), 14, |tci| tci | 1), [no_sa_error, no_sa, no_sa]),
        ("integrity, right ICV", integrity.clone(), [ok_clear, ok_clear, unchecked]),
        (
            "integrity, wrong ICV",
            with(integrity.clone(), last, |octet| octet ^ 1),
            [not_valid, (Sdu, "InPktsInvalid 1"), unchecked],
        ),
        (
            "integrity, data changed",
            with(integrity.clone(), 60, |octet| octet ^ 1),
            [not_valid, (Unverified, "InPktsInvalid 1"), (Unverified, "InPktsUnchecked 1")],
        ),
        ("encrypted, right ICV", encrypted.clone(), [ok_encrypted, ok_encrypted, not_valid]),
        ("encrypted, wrong ICV", with(encrypted, last, |octet| octet ^ 1), [not_valid, not_valid, not_valid]),
        ("E=0 C=1, right ICV", changed_with_right_icv(), [ok_clear, ok_clear, not_valid]),
        ("E=0 C=1, wrong ICV", with(integrity, 14, |tci| tci | 0x04), [not_valid, not_valid, not_valid]),
        ("runt", vec![0xff; 13], [(Nothing(D::TooShort), "InPktsTooShort 1"); 3]),
    ]
}

#[test]
fn verdicts_and_counters() {
    for (name, frame, rows) in kinds() {
        for (validate_frames, (expected, counters)) in MODES.into_iter().zip(rows) {
            let at = format!("{name}, {validate_frames:?}");
            let mut rx = receiver(Settings { validate_frames, ..SETTINGS }, SUITE, 1, 64);
            rx.install_receive_sc(B).expect("a free SCI");
            rx.install_receive(A, ends::receive_sa(SUITE, 1, 1, 0)).expect("a free AN");
            let before = books(&rx);
            let outcome = verify(&mut rx, &frame);
            assert_eq!(moved(&before, &books(&rx)), counters, "{at}");
            let unverified = || [&frame[..12], &frame[28..frame.len() - 16]].concat();
            let expected = match expected {
                Sdu => Outcome::Passed(sdu(DATA, 0)),
                Unverified => Outcome::Passed(unverified()),
                Whole => Outcome::Passed(frame.clone()),
                Nothing(reason) => Outcome::Discarded(reason),
            };
            assert_eq!(outcome, expected, "{at}");
        }
    }
}

/// A frame that is delivered unverified never makes a verified one late, nor a duplicate.
#[test]
fn only_verified_frames_move_the_window() {
    let fresh = wire(Protection::Integrity);
    let forged = with(with(fresh.clone(), 19, |_| 50), 60, |octet| octet ^ 1);
    for validate_frames in MODES {
        let mut rx = receiver(Settings { validate_frames, ..SETTINGS }, SUITE, 1, 1);
        for frame in [&forged, &with(fresh.clone(), 60, |octet| octet ^ 1)] {
            verify(&mut rx, frame);
            let highest = rx.receive_scs().flat_map(|sc| sc.sas()).map(|sa| sa.window().highest()).max();
            assert_eq!(highest, Some(0), "{validate_frames:?}");
        }
        assert_eq!(verify(&mut rx, &fresh), Outcome::Passed(sdu(DATA, 0)), "{validate_frames:?}");
    }
}

/// The late and the duplicate are discarded before anybody looks at their ICV, also where a wrong ICV would pass.
#[test]
fn check_mode_discards_replays_all_the_same() {
    let mut tx = sender(A, (SETTINGS, Protection::Integrity), SUITE, 1);
    let frames = ends::protected(&mut tx, &ends::sdus(4, DATA));
    let mut rx = receiver(Settings { validate_frames: ValidateFrames::Check, ..SETTINGS }, SUITE, 1, 2);
    let forged = with(frames[0].clone(), 60, |octet| octet ^ 1);
    let rows = [
        (&frames[3], "InPktsOK 1, InOctetsValidated 100"),
        (&frames[3], "InPktsDuplicate 1"),
        (&frames[0], "InPktsLate 1"),
        (&forged, "InPktsLate 1"),
        (&frames[2], "InPktsOK 1, InOctetsValidated 100"),
    ];
    for (row, (frame, counters)) in rows.into_iter().enumerate() {
        let before = books(&rx);
        verify(&mut rx, frame);
        assert_eq!(moved(&before, &books(&rx)), counters, "row {row}");
    }
}

#[test]
fn without_any_sc_nothing_is_delivered() {
    for protection in [ENCRYPT, Protection::Integrity] {
        let mut rx = SecY::new(HERE, SETTINGS);
        let outcome = verify(&mut rx, &wire(protection));
        assert_eq!(outcome, Outcome::Discarded(ReceiveDiscard::NoSaError));
    }
}
