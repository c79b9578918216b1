//! Fragmented frames one by one: what the grammar of extension headers allows and what it does not, and to whom. Each
//! case moves its counter, and no other.

mod ends;

use ends::fragments::{
    EXT, Forged, IN_CLEAR, MF, REASSEMBLING, buffer, data, header, sdu_of, verify_fragments,
};
use ends::{End, SETTINGS, books, moved, receiver};
use secy::{ConfidentialityOffset, Protection, ReceiveDiscard, SecY, Settings, ValidateFrames};
use suite::CipherSuite;
use wire::{ExtensionError, Instant, SecTagError};

const SUITE: CipherSuite = CipherSuite::GcmAes128;
const XPN: CipherSuite = CipherSuite::GcmAesXpn128;
/// A window in which nothing here is late.
const WIDE: u32 = 100;

type Delivery = Result<Vec<Vec<u8>>, ReceiveDiscard>;

fn forged(pn: u64, data: &[u8]) -> Forged {
    Forged::new(SUITE, pn, data)
}

fn verify_octets(rx: &mut SecY, frame: &[u8]) -> Delivery {
    verify_fragments(rx, Instant::START, &[frame], &mut buffer(1)).remove(0)
}

fn verify(rx: &mut SecY, frame: &Forged) -> Delivery {
    verify_octets(rx, &frame.seal())
}

/// SDUs that a frame delivers to a receiver that has seen none, and the counters that it moves.
fn alone(settings: impl Into<End>, frame: &Forged) -> (Delivery, String) {
    let mut rx = receiver(settings, frame.suite, frame.pn, WIDE);
    let before = books(&rx);
    let delivery = verify(&mut rx, frame);
    (delivery, moved(&before, &books(&rx)))
}

#[test]
fn malformed_frames_are_dropped_whole() {
    use ExtensionError::{Continuation, EmptySegment, ReservedBits, ShortSegment, Sum};
    let rows: [(&str, &[u16], ExtensionError); 16] = [
        ("reserved bit 0x10", &[header(10, false) | 0x10], ReservedBits),
        ("reserved bit 0x08", &[header(10, false) | 0x08], ReservedBits),
        ("reserved bit 0x04", &[header(10, false) | 0x04], ReservedBits),
        ("reserved bit in the second", &[header(10, true), header(10, false) | 0x04], ReservedBits),
        ("reserved bit in a lone tail", &[header(0, true) | 0x10], ReservedBits),
        ("CF in the second", &[header(10, true), header(10, true)], Continuation),
        ("CF in the second alone", &[header(10, false), header(10, true)], Continuation),
        ("SEGL 0 without CF", &[header(0, false)], EmptySegment),
        ("SEGL 0 with CF, and more", &[header(0, true), header(10, false)], EmptySegment),
        ("SEGL 0 in the second", &[header(10, true), header(0, false)], EmptySegment),
        ("SEGL 0 between others", &[header(9, false), header(0, false), header(9, false)], EmptySegment),
        ("sum is the secure data", &[header(60, true)], Sum),
        ("sum is beyond it", &[header(59, false), header(2, false)], Sum),
        ("a length beyond it", &[header(2047, false)], Sum),
        ("fresh first segment of 1", &[header(59, false)], ShortSegment),
        ("fresh second segment of 1", &[header(1, false)], ShortSegment),
    ];
    for (what, headers, error) in rows {
        for bits in [0, MF] {
            let mut frame = forged(1, &data(60, 1)).with_headers(headers);
            frame.bits |= bits;
            let (delivery, counters) = alone(REASSEMBLING, &frame);
            assert_eq!(delivery, Err(ReceiveDiscard::Malformed(error)), "{what}");
            assert_eq!(counters, "InPktsMalformed 1, InOctetsDecrypted 60", "{what}");
        }
    }
}

#[test]
fn more_than_32_headers_are_a_bad_tag() {
    for (count, expected) in [(32, Ok(33)), (33, Err(())), (40, Err(()))] {
        let frame = forged(1, &data(2 * count + 2, 1)).with_headers(&vec![header(2, false); count]);
        let (delivery, counters) = alone(REASSEMBLING, &frame);
        match expected {
            Ok(segments) => assert_eq!(delivery.expect("delivered").len(), segments),
            Err(()) => {
                assert_eq!(delivery, Err(ReceiveDiscard::BadTag(SecTagError::Extensions)));
                assert_eq!(counters, "InPktsBadTag 1");
            }
        }
    }
    // EXT in every header, until the frame ends.
    let mut octets = forged(1, &[]).with_headers(&[header(2, false); 12]).seal();
    octets.truncate(12 + 16 + 22);
    let mut rx = receiver(REASSEMBLING, SUITE, 1, WIDE);
    let delivery = verify_octets(&mut rx, &octets);
    assert_eq!(delivery, Err(ReceiveDiscard::BadTag(SecTagError::Extensions)));
}

#[test]
fn the_shortest_segments() {
    // A fresh segment may be an EtherType alone, and what continues an SDU one octet.
    let frame = forged(1, &[8, 0, 8, 0]).with_headers(&[header(2, false)]);
    assert_eq!(alone(REASSEMBLING, &frame).0, Ok(vec![sdu_of(&[8, 0]), sdu_of(&[8, 0])]));
    let mut rx = receiver(REASSEMBLING, SUITE, 1, WIDE);
    assert_eq!(verify(&mut rx, &forged(1, &[8, 0]).piece(false, true)), Ok(vec![]));
    assert_eq!(verify(&mut rx, &forged(2, &[7]).piece(true, false)), Ok(vec![sdu_of(&[8, 0, 7])]));
    // A head of one octet has no EtherType: SL 1 is for continuations.
    let (delivery, counters) = alone(REASSEMBLING, &forged(1, &[8]).piece(false, true));
    assert_eq!(delivery, Err(ReceiveDiscard::BadTag(SecTagError::ShortLength)));
    assert_eq!(counters, "InPktsBadTag 1");
    let (delivery, counters) = alone(REASSEMBLING, &forged(1, &[8]).with_headers(&[header(1, false)]));
    assert_eq!(delivery, Err(ReceiveDiscard::Malformed(ExtensionError::Sum)));
    assert_eq!(counters, "InPktsMalformed 1, InOctetsDecrypted 1");
}

/// SL counts no extension header; what follows the ICV of a short frame is padding.
#[test]
fn short_length_with_extension_headers() {
    for octets in [4, 46, 47, 48, 49, 60] {
        let whole = data(octets, 1);
        let frame = forged(1, &whole).with_headers(&[header(2, false)]);
        let expected = vec![sdu_of(&whole[..octets - 2]), sdu_of(&whole[octets - 2..])];
        assert_eq!(alone(REASSEMBLING, &frame).0, Ok(expected.clone()), "{octets} octets");
        let padded = [&frame.seal()[..], &[0; 20]].concat();
        let mut rx = receiver(REASSEMBLING, SUITE, 1, WIDE);
        let delivery = verify_octets(&mut rx, &padded);
        if octets < 48 {
            assert_eq!(delivery, Ok(expected), "{octets} octets and padding");
        } else {
            assert_eq!(delivery, Err(ReceiveDiscard::NotValid));
        }
        // SL as if it counted the header, or with the data so short and SL 0.
        for wrong in [Some(octets as u8 + 2), Some(0)].into_iter().filter(|_| octets < 46) {
            let frame = Forged { short_length: wrong, ..frame.clone() };
            let (delivery, counters) = alone(REASSEMBLING, &frame);
            assert_eq!(delivery, Err(ReceiveDiscard::BadTag(SecTagError::TooShort)), "SL {wrong:?}");
            assert_eq!(counters, "InPktsBadTag 1");
        }
    }
    for short_length in 48..=63 {
        let frame = Forged {
            short_length: Some(short_length),
            ..forged(1, &data(80, 1)).with_headers(&[header(9, false)])
        };
        let (delivery, _) = alone(REASSEMBLING, &frame);
        assert_eq!(delivery, Err(ReceiveDiscard::BadTag(SecTagError::ShortLength)));
    }
}

/// Without an agreement, MF and EXT are the standard's reserved bits. An offset, or a mode that is not
/// strict, is no agreement, whatever was asked for.
#[test]
fn without_agreement_the_bits_are_reserved() {
    use ConfidentialityOffset::{Fifty, Thirty};
    let offset = |offset| End::from((REASSEMBLING, Protection::Encrypt(offset)));
    let validate = |validate_frames| End::from(Settings { validate_frames, ..REASSEMBLING });
    let receivers = [
        SETTINGS.into(),
        offset(Thirty),
        offset(Fifty),
        validate(ValidateFrames::Check),
        validate(ValidateFrames::Disabled),
        Settings { validate_frames: ValidateFrames::Check, ..SETTINGS }.into(),
    ];
    let first = forged(1, &data(60, 1));
    let frames = [
        first.clone().piece(false, true),
        first.clone().piece(true, false),
        first.clone().piece(true, true),
        first.clone().with_headers(&[header(20, false)]),
        Forged { bits: EXT, ..first },
    ];
    for settings in receivers {
        for frame in &frames {
            for data_bits in [0x0c, 0x00] {
                let (delivery, counters) = alone(settings, &Forged { data_bits, ..frame.clone() });
                assert_eq!(delivery, Err(ReceiveDiscard::BadTag(SecTagError::ReservedBits)), "{settings:?}");
                assert_eq!(counters, "InPktsBadTag 1");
            }
        }
    }
}

/// Nothing of a frame whose ICV is wrong is looked at, wherever it was changed; and no piece of it is held.
#[test]
fn forged_pieces_are_not_valid() {
    let pieces = [
        forged(1, &data(60, 1)).piece(false, true),
        forged(1, &data(60, 1)).piece(true, false),
        forged(1, &data(60, 1)).with_headers(&[header(20, true), header(9, false)]),
    ];
    for data_bits in [0x0c, 0x00] {
        for piece in &pieces {
            let sealed = Forged { data_bits, ..piece.clone() }.seal();
            for at in (0..12).chain([sealed.len() - 1, sealed.len() - 20]).chain(28..30) {
                let mut octets = sealed.clone();
                // Bits that leave the number of headers as it is.
                octets[at] ^= 0x20;
                let mut rx = receiver(REASSEMBLING, SUITE, 1, WIDE);
                let before = books(&rx);
                let delivery = verify_octets(&mut rx, &octets);
                assert_eq!(delivery, Err(ReceiveDiscard::NotValid), "octet {at}");
                assert_eq!(moved(&before, &books(&rx)), "InPktsNotValid 1");
                assert!(rx.receive_scs().all(|sc| sc.reassembler().is_empty()));
            }
            // MF flipped alone: it is authenticated.
            let mut octets = sealed;
            octets[15] ^= MF;
            let mut rx = receiver(REASSEMBLING, SUITE, 1, WIDE);
            assert_eq!(verify_octets(&mut rx, &octets), Err(ReceiveDiscard::NotValid));
        }
    }
}

#[test]
fn encryption_and_integrity_join_alike() {
    let whole = data(90, 1);
    for (head, tail) in [(0x0c, 0x0c), (0x00, 0x00), (0x04, 0x04), (0x0c, 0x00), (0x00, 0x0c)] {
        for settings in [REASSEMBLING.into(), End::from(IN_CLEAR)] {
            let mut rx = receiver(settings, SUITE, 1, WIDE);
            let head = Forged { data_bits: head, ..forged(1, &whole[..50]).piece(false, true) };
            let tail = Forged { data_bits: tail, ..forged(2, &whole[50..]).piece(true, false) };
            assert_eq!(verify(&mut rx, &head), Ok(vec![]));
            assert_eq!(verify(&mut rx, &tail), Ok(vec![sdu_of(&whole)]));
        }
    }
    // E without C stays reserved.
    let frame = Forged { data_bits: 0x08, ..forged(1, &whole).piece(false, true) };
    let (delivery, counters) = alone(REASSEMBLING, &frame);
    assert_eq!(delivery, Err(ReceiveDiscard::BadTag(SecTagError::EncryptedUnchanged)));
    assert_eq!(counters, "InPktsBadTag 1");
}

/// The neighbour is found by 64 bits: over 2^32, and not 2^32 too early.
#[test]
fn xpn_across_2_32_within_one_sdu() {
    let whole = data(400, 1);
    for first in [(1 << 32) - 2, (5 << 32) - 1, (1 << 32) - 4] {
        let piece = |index: u64| {
            let octets = &whole[index as usize * 80..][..80];
            Forged::new(XPN, first + index, octets).piece(index > 0, index < 4)
        };
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
            let mut rx = receiver(REASSEMBLING, XPN, first, WIDE);
            let before = books(&rx);
            let got: Vec<_> =
                order.iter().flat_map(|&index| verify(&mut rx, &piece(index)).expect("valid")).collect();
            assert_eq!(got, [sdu_of(&whole)], "from {first} in {order:?}");
            let counters = moved(&before, &books(&rx));
            assert_eq!(counters, "InPktsOK 5, InSdusReassembled 1, InOctetsDecrypted 400");
        }
    }
}
