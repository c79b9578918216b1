//! Every suite with integrity alone, and with encryption at each offset: what is readable on the wire, what is
//! not, and that no octet of a protected frame can be changed.

mod ends;

use ends::{A, Outcome, SETTINGS, protect, receiver, sdu, sender, verify_all};
use secy::{ConfidentialityOffset, Protection, SciInclusion, Settings};
use suite::CipherSuite;

/// Octets behind the addresses: around both offsets, around the Short Length limit, odd and even.
const LENGTHS: [usize; 17] = [2, 3, 29, 30, 31, 32, 46, 47, 48, 49, 50, 51, 52, 66, 99, 100, 1500];

/// Protections that a frame can have with `suite`, and the octet of the secure data from which nothing is
/// readable.
fn protections(suite: CipherSuite) -> Vec<(Protection, Option<usize>)> {
    use ConfidentialityOffset::{Fifty, Thirty, Zero};
    let mut all = vec![(Protection::Integrity, None), (Protection::Encrypt(Zero), Some(0))];
    if !suite.is_xpn() {
        all.extend([(Protection::Encrypt(Thirty), Some(30)), (Protection::Encrypt(Fifty), Some(50))]);
    }
    all
}

#[test]
fn clear_before_the_offset_and_not_behind() {
    for suite in CipherSuite::ALL {
        for (protection, offset) in protections(suite) {
            let mut rx = receiver((SETTINGS, protection), suite, 1, 0);
            let mut tx = sender(A, (SETTINGS, protection), suite, 1);
            for octets in LENGTHS {
                let at = format!("{suite} {protection:?} {octets}");
                let sdu = sdu(octets, octets as u64);
                let frame = protect(&mut tx, &sdu).passed();
                let (data, sdu_data) = (&frame[28..28 + octets], &sdu[12..]);
                let clear = offset.unwrap_or(octets).min(octets);
                assert_eq!(data[..clear], sdu_data[..clear], "{at}: clear");
                // Eight octets that happen to be encrypted to themselves are not seen in a lifetime.
                for (window, of_sdu) in data[clear..].windows(8).zip(sdu_data[clear..].windows(8)) {
                    assert_ne!(window, of_sdu, "{at}: encrypted");
                }
                assert!(octets == clear || data[clear..] != sdu_data[clear..] || octets - clear < 3, "{at}");
                assert_eq!(frame[14] & 0x0c, if offset.is_some() { 0x0c } else { 0 }, "{at}: E and C");
                assert_eq!(verify_all(&mut rx, &[frame]), [Outcome::Passed(sdu)], "{at}");
            }
        }
    }
}

/// Attack: an octet changed on the way, anywhere. Nothing is delivered, and the window stays where it is.
#[test]
fn no_octet_can_be_changed() {
    for suite in CipherSuite::ALL {
        for (protection, _) in protections(suite) {
            for (sci_inclusion, octets) in [(SciInclusion::Always, 70), (SciInclusion::EndStation, 33)] {
                let settings = (Settings { sci_inclusion, ..SETTINGS }, protection);
                let sdu = sdu(octets, 1);
                let frame = protect(&mut sender(A, settings, suite, 5), &sdu).passed();
                let flipped: Vec<_> = (0..frame.len())
                    .map(|at| {
                        let mut flipped = frame.clone();
                        flipped[at] ^= 1 << (at * 5 % 8);
                        flipped
                    })
                    .collect();
                let mut rx = receiver(settings, suite, 1, 0);
                for (at, outcome) in verify_all(&mut rx, &flipped).into_iter().enumerate() {
                    assert!(matches!(outcome, Outcome::Discarded(_)), "{suite} {protection:?} octet {at}");
                }
                assert_eq!(ends::received(&rx), frame.len() as u64);
                assert_eq!(verify_all(&mut rx, &[frame]), [Outcome::Passed(sdu)], "{suite} {protection:?}");
            }
        }
    }
}

/// Sender and receiver that disagree about the offset open nothing: it is not in the frame.
#[test]
fn the_offset_is_agreed_upon_beforehand() {
    let suite = CipherSuite::GcmAes128;
    let encrypting: Vec<_> = protections(suite).into_iter().filter(|(_, offset)| offset.is_some()).collect();
    for &(sent, of_sender) in &encrypting {
        for &(expected, of_receiver) in &encrypting {
            let sdu = sdu(100, 0);
            let frame = protect(&mut sender(A, (SETTINGS, sent), suite, 1), &sdu).passed();
            let outcome = verify_all(&mut receiver((SETTINGS, expected), suite, 1, 0), &[frame]).remove(0);
            assert_eq!(outcome == Outcome::Passed(sdu), of_sender == of_receiver, "{sent:?} {expected:?}");
        }
    }
}
