//! Padded frames: their sizes on the wire, what a receiver delivers of them, and hostile ones.

mod ends;

use ends::fragments::{
    Forged, REASSEMBLING, buffer, carry_out, delivered, planned, protect_assembled, sdu_of, send,
    verify_fragments,
};
use ends::{A, Outcome, books, moved, receiver, sdu, sender};
use proptest::prelude::*;
use secy::fragment::Rules;
use secy::{FrameSizes, ReceiveDiscard, SciInclusion, Settings};
use suite::CipherSuite;
use wire::extension::padded::{COVER_MARK, MARK};
use wire::{ExtensionError, Instant};

const SUITE: CipherSuite = CipherSuite::GcmAes128;
const SETTINGS: Settings = Settings { mtu: 1500, ..REASSEMBLING };

fn sizes(octets: &[u16]) -> FrameSizes {
    FrameSizes::new(octets).expect("sizes")
}

fn rules(settings: &Settings, concatenate: bool, octets: &[u16]) -> Rules {
    Rules::new(settings, false, concatenate).padded(settings, &sizes(octets))
}

/// Octets of the frames that these SDUs become.
fn lengths(rules: &Rules, octets: &[usize]) -> Vec<usize> {
    let sdus: Vec<_> = (0..).zip(octets).map(|(number, &octets)| sdu(octets, number)).collect();
    let mut tx = sender(A, SETTINGS, SUITE, 1);
    send(&mut tx, rules, &sdus).iter().map(Vec::len).collect()
}

/// Around an SDU stand DA, SA, SecTAG and ICV (44), and two headers (4).
#[test]
fn every_frame_has_the_smallest_size_that_holds_it() {
    let alone = rules(&SETTINGS, false, &[128, 512, 1514]);
    for (octets, expected) in [
        (2, vec![128]),
        (80, vec![128]),
        (81, vec![512]),
        (464, vec![512]),
        (465, vec![1514]),
        (1466, vec![1514]),
        (1467, vec![1514, 128]),
        (1502, vec![1514, 128]),
        (1466 + 80, vec![1514, 128]),
        (1466 + 81, vec![1514, 512]),
        (3 * 1466, vec![1514, 1514, 1514]),
    ] {
        assert_eq!(lengths(&alone, &[octets]), expected, "an SDU of {octets}");
    }
    // 48 octets each and a header: 1514 - 44 - 2 octets hold 29 of 50, and most of another.
    let together = rules(&SETTINGS, true, &[128, 512, 1514]);
    assert_eq!(lengths(&together, &[48; 29]), [1514]);
    assert_eq!(lengths(&together, &[48; 3]), [512]);
}

#[test]
fn sizes_beyond_the_mtu_are_not_used_and_without_any_nothing_is_sent() {
    assert_eq!(lengths(&rules(&SETTINGS, false, &[300, 1600]), &[400]), [300, 300]);
    let none = rules(&SETTINGS, true, &[1515]);
    let plan = planned(&none, &[sdu(60, 1), sdu(1502, 2)]);
    assert_eq!((plan.frames().len(), plan.too_long()), (0, 2));
    // An SDU that no receiver takes apart is too long, though a frame of its size could be.
    let jumbo = Settings { mtu: 9216, ..SETTINGS };
    let plan = planned(&rules(&jumbo, true, &[9230]), &[sdu(9011, 1), sdu(9010, 2)]);
    assert_eq!((plan.frames().len(), plan.too_long()), (2, 1));
}

/// A receiver puts 33 fragments together: what would need more is too long, and is not sent.
#[test]
fn an_sdu_of_more_fragments_than_a_receiver_holds_is_too_long() {
    let jumbo = Settings { mtu: 9032, ..SETTINGS };
    // A frame holds 208 octets of an SDU.
    for (concatenate, most) in [(false, 33), (true, 32)] {
        let rules = rules(&jumbo, concatenate, &[256]);
        let (mut tx, mut rx) = (sender(A, jumbo, SUITE, 1), receiver(jumbo, SUITE, 1, 0));
        let whole = sdu(most * 208, 1);
        let frames = send(&mut tx, &rules, std::slice::from_ref(&whole));
        assert_eq!((frames.len(), delivered(&mut rx, &frames)), (most, vec![whole.clone()]));
        let plan = planned(&rules, &[sdu(most * 208 + 1, 1)]);
        assert_eq!((plan.frames().len(), plan.too_long()), (0, 1));
        // It fills up the frame of another one, and is delivered all the same.
        let both = [sdu(100, 2), whole];
        let frames = send(&mut tx, &rules, &both);
        assert_eq!((frames.len(), delivered(&mut rx, &frames)), (most + 1, both.to_vec()));
    }
}

/// Its length is hidden too, and it is delivered as it is.
#[test]
fn a_frame_that_ends_in_its_vlan_tag_is_padded() {
    for concatenate in [false, true] {
        let rules = rules(&SETTINGS, concatenate, &[256]);
        let (mut tx, mut rx) = (sender(A, SETTINGS, SUITE, 1), receiver(SETTINGS, SUITE, 1, 0));
        for (number, octets) in (2..12).enumerate() {
            for ether_type in [[0x81, 0x00], [0x88, 0xa8]] {
                let mut tagged = sdu(octets, number as u64);
                tagged[12..14].copy_from_slice(&ether_type);
                if let Some(second) = tagged.get_mut(16..18) {
                    second.copy_from_slice(&[0x81, 0x00]);
                }
                let sdus = [tagged, sdu(100, 1)];
                let frames = send(&mut tx, &rules, &sdus);
                assert!(frames.iter().all(|frame| frame.len() == 256), "{octets} octets");
                assert_eq!(delivered(&mut rx, &frames), sdus);
            }
        }
    }
}

/// Octets in clear are the same in all frames but for the PN, and padding is all zeros.
#[test]
fn a_frame_tells_nothing_but_its_size() {
    let rules = rules(&SETTINGS, true, &[1514]);
    let mut tx = sender(A, SETTINGS, SUITE, 1);
    let bursts = [vec![sdu(48, 1)], vec![sdu(48, 2), sdu(300, 3)], vec![sdu(3000, 4)], vec![sdu(1466, 5)]];
    let mut fronts: Vec<Vec<u8>> = Vec::new();
    for burst in bursts {
        for frame in send(&mut tx, &rules, &burst) {
            let mut front = frame[..12 + 16 + 2].to_vec();
            assert_eq!(front[28..], MARK);
            front[16..20].fill(0);
            fronts.push(front);
            assert_eq!(frame.len(), 1514);
        }
    }
    assert_eq!(fronts.len(), 6);
    assert!(fronts.windows(2).all(|pair| pair[0] == pair[1]), "{fronts:02x?}");
    // SL counts to 47, MF stands inside.
    assert_eq!(fronts[0][15], 0x80);
    let clear = (SETTINGS, secy::Protection::Integrity);
    let mut tx = sender(A, clear, SUITE, 1);
    let frames = carry_out(&planned(&rules, &[sdu(48, 1)]), &[sdu(48, 1)]);
    let frame = protect_assembled(&mut tx, &frames).remove(0).passed();
    assert!(
        frame[12 + 16 + 4 + 48..1514 - 16].iter().all(|&octet| octet == 0),
        "no octets of earlier frames"
    );
}

/// A chunk without room for the padding costs no PN.
#[test]
fn a_chunk_without_room_is_too_long() {
    let rules = rules(&SETTINGS, true, &[1514]);
    let mut tx = sender(A, SETTINGS, SUITE, 1);
    let sdu = sdu(48, 1);
    let mut short = [&[0; 128][..], &sdu, &[0; 200]].concat();
    let frame = secy::Frame::new(&mut short, 128, sdu.len()).expect("inside");
    let layout = carry_out(&planned(&rules, &[&sdu]), std::slice::from_ref(&sdu))[0].1.expect("padded");
    let mut burst = [secy::Outgoing::with_layout(frame, layout)];
    tx.protect(&mut burst);
    let [outgoing] = burst;
    assert_eq!(outgoing.into_outcome().unwrap_err(), secy::TransmitDiscard::TooLong);
    assert_eq!(tx.counters().out_pkts_too_long, 1);
    let frame = send(&mut tx, &rules, &[sdu]).remove(0);
    assert_eq!(frame[16..20], [0, 0, 0, 1]);
}

/// A header inside, without EXT.
const fn inside(length: u16, more: bool, continues: bool) -> u16 {
    length << 3 | (more as u16) << 2 | (continues as u16) << 1
}

/// A padded frame with these headers inside, as they stand, and `behind` octets behind them.
fn forged(pn: u64, headers: &[u16], behind: usize) -> Forged {
    let mut data: Vec<u8> = headers.iter().flat_map(|header| header.to_be_bytes()).collect();
    data.extend(sdu(behind.max(2), pn).iter().skip(12).take(behind));
    Forged::new(SUITE, pn, &data).with_headers(&[u16::from_be_bytes(MARK)])
}

#[test]
fn hostile_lengths_are_a_typed_discard() {
    use ExtensionError::{Continuation, Count, EmptySegment, MoreFragments, ShortSegment, Sum};
    let rows: [(&str, &[u16], usize, ExtensionError); 11] = [
        ("longer than what is there", &[inside(61, false, false)], 60, Sum),
        ("as long as can be written", &[inside(8191, false, false)], 60, Sum),
        ("the sum is longer", &[inside(30, false, false) | 1, inside(31, false, false)], 60, Sum),
        ("no octet behind", &[inside(2, false, false)], 0, Sum),
        ("another header is said, and there is none", &[inside(20, false, false) | 1], 0, Count),
        ("34 headers", &[inside(2, false, false) | 1; 34], 90, Count),
        ("an empty segment", &[inside(20, false, false) | 1, inside(0, false, false)], 60, EmptySegment),
        ("an empty tail", &[inside(0, false, true)], 60, EmptySegment),
        ("CF in the second", &[inside(20, false, false) | 1, inside(20, false, true)], 60, Continuation),
        ("MF in the first", &[inside(20, true, false) | 1, inside(20, false, false)], 60, MoreFragments),
        ("a head without an EtherType", &[inside(1, true, false)], 60, ShortSegment),
    ];
    for (what, headers, behind, error) in rows {
        let mut rx = receiver(SETTINGS, SUITE, 1, 64);
        let before = books(&rx);
        let frame = forged(1, headers, behind);
        let outcome = verify_fragments(&mut rx, Instant::START, &[frame.seal()], &mut buffer(1)).remove(0);
        assert_eq!(outcome, Err(ReceiveDiscard::Malformed(error)), "{what}");
        let octets = frame.data.len();
        assert_eq!(
            moved(&before, &books(&rx)),
            format!("InPktsMalformed 1, InOctetsDecrypted {octets}"),
            "{what}"
        );
    }
    // MF in the SecTAG, which is authenticated too.
    let mut frame = forged(1, &[inside(40, false, false)], 60);
    frame.bits |= ends::fragments::MF;
    let mut rx = receiver(SETTINGS, SUITE, 1, 64);
    let outcome = verify_fragments(&mut rx, Instant::START, &[frame.seal()], &mut buffer(1)).remove(0);
    assert_eq!(outcome, Err(ReceiveDiscard::Malformed(MoreFragments)));
}

#[test]
fn padding_alone_is_counted_and_nothing_is_delivered() {
    let mut rx = receiver(SETTINGS, SUITE, 1, 64);
    let before = books(&rx);
    let mut buffer = buffer(2);
    for (pn, behind) in [(1, 0), (2, 60), (3, 1400)] {
        let frames = [forged(pn, &[0], behind).seal()];
        let outcomes = verify_fragments(&mut rx, Instant::START, &frames, &mut buffer);
        assert_eq!((outcomes, buffer.padding()), (vec![Ok(vec![])], 1));
    }
    assert_eq!(moved(&before, &books(&rx)), "InPktsOK 3, InOctetsDecrypted 1466");
    let frame = forged(4, &[inside(40, false, false)], 60);
    assert_eq!(delivered(&mut rx, &[frame.seal()]), [sdu_of(&frame.data[2..42])]);
}

/// A frame of cover with these headers inside, and `data` behind them.
fn covered(pn: u64, headers: &[u16], data: &[u8]) -> Forged {
    let inside: Vec<u8> = headers.iter().flat_map(|header| header.to_be_bytes()).collect();
    Forged::new(SUITE, pn, &[&inside[..], data].concat()).with_headers(&[u16::from_be_bytes(COVER_MARK)])
}

/// With cover each SDU has its addresses inside, and those of the frame are nobody's.
#[test]
fn addresses_inside_are_those_of_the_sdu() {
    let mut rx = receiver(SETTINGS, SUITE, 1, 64);
    let whole: Vec<u8> = (0..60).collect();
    let frame = covered(1, &[inside(60, false, false)], &[&whole[..], &[0; 90]].concat()).seal();
    assert_eq!(delivered(&mut rx, std::slice::from_ref(&frame)), std::slice::from_ref(&whole));
    // Once more: it is a duplicate, as all others are.
    let outcome = verify_fragments(&mut rx, Instant::START, &[frame], &mut buffer(1)).remove(0);
    assert_eq!(outcome, Err(ReceiveDiscard::Duplicate));
    let [head, tail] = [&whole[..20], &whole[20..]];
    let frames = [
        covered(2, &[inside(20, true, false)], head),
        covered(3, &[inside(40, false, true) | 1, inside(60, false, false)], &[tail, &whole].concat()),
    ];
    assert_eq!(delivered(&mut rx, &frames.map(|frame| frame.seal())), [whole.clone(), whole.clone()]);
    // Nothing at all is delivered of a frame that holds nothing.
    let mut buffer = buffer(1);
    let frames = [covered(4, &[0], &[0; 100]).seal()];
    assert_eq!(verify_fragments(&mut rx, Instant::START, &frames, &mut buffer), [Ok(vec![])]);
    assert_eq!(buffer.padding(), 1);
}

/// Octets of one kind of frame never come under the addresses of the other kind.
#[test]
fn parts_of_both_kinds_of_padded_frames_do_not_join() {
    for cover_first in [true, false] {
        let mut rx = receiver(SETTINGS, SUITE, 1, 64);
        let data = [7; 40];
        let part = |pn, cover: bool, header| match cover {
            true => covered(pn, &[header], &data).seal(),
            false => forged(pn, &[header], 40).seal(),
        };
        let frames =
            [part(1, cover_first, inside(40, true, false)), part(2, !cover_first, inside(40, false, true))];
        assert_eq!(delivered(&mut rx, &frames), Vec::<Vec<u8>>::new());
        let c = rx.receive_scs().next().expect("one SC").counters();
        assert_eq!((c.in_pieces_mismatched, c.in_sdus_reassembled), (1, 0));
    }
}

#[test]
fn sdus_without_room_for_their_addresses_are_a_typed_discard() {
    use ExtensionError::{MoreFragments, ShortSegment, Sum};
    let rows: [(&[u16], ExtensionError); 5] = [
        (&[inside(13, false, false)], ShortSegment),
        (&[inside(13, true, false)], ShortSegment),
        (&[inside(14, false, false) | 1, inside(13, false, false)], ShortSegment),
        (&[inside(41, false, false)], Sum),
        (&[inside(14, true, false) | 1, inside(14, false, false)], MoreFragments),
    ];
    for (headers, error) in rows {
        let mut rx = receiver(SETTINGS, SUITE, 1, 64);
        let frame = covered(1, headers, &[1; 40]).seal();
        let outcome = verify_fragments(&mut rx, Instant::START, &[frame], &mut buffer(1)).remove(0);
        assert_eq!(outcome, Err(ReceiveDiscard::Malformed(error)), "{headers:04x?}");
    }
    let mut rx = receiver(Settings { reassemble: false, ..SETTINGS }, SUITE, 1, 64);
    let frame = covered(1, &[inside(40, false, false)], &[1; 40]).seal();
    assert_eq!(delivered(&mut rx, &[frame]), Vec::<Vec<u8>>::new());
    assert_eq!(rx.counters().in_pkts_bad_tag, 1);
}

/// A receiver that does not know padded frames would deliver their headers with them: it takes them for malformed. One that
/// reassembles nothing takes them for a bad tag.
#[test]
fn a_receiver_without_reassembly_delivers_none() {
    let mut rx = receiver(Settings { reassemble: false, ..SETTINGS }, SUITE, 1, 64);
    let before = books(&rx);
    assert_eq!(
        delivered(&mut rx, &[forged(1, &[inside(40, false, false)], 60).seal()]),
        Vec::<Vec<u8>>::new()
    );
    assert_eq!(moved(&before, &books(&rx)), "InPktsBadTag 1");
}

/// A set of sizes that fit an MTU.
fn some_sizes() -> impl Strategy<Value = (Settings, Vec<u16>)> {
    let mtu = prop::sample::select(vec![576_usize, 1000, 1500, 1532, 9000]);
    let inclusion = prop::sample::select(vec![SciInclusion::Always, SciInclusion::Never]);
    (mtu, inclusion).prop_flat_map(|(mtu, sci_inclusion)| {
        let settings = Settings { mtu, sci_inclusion, ..REASSEMBLING };
        (Just(settings), proptest::collection::btree_set(128..=mtu as u16 + 14, 1..=8))
            .prop_map(|(settings, sizes)| (settings, sizes.into_iter().collect()))
    })
}

/// Octets of SDUs from their EtherType on: mostly of Ethernet, and jumbo ones.
fn some_octets() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 4..2000_usize, 1 => 2000..=9010_usize]
}

proptest! {
    /// Whatever is sent: frames have sizes of the set only, and all of it but what the plan says is too long is delivered, once and
    /// in order: all SDUs have the same addresses.
    #[test]
    fn frames_have_sizes_of_the_set_and_all_is_delivered(
        (settings, set) in some_sizes(),
        concatenate: bool,
        bursts in proptest::collection::vec(proptest::collection::vec(some_octets(), 1..30), 1..6),
    ) {
        let rules = rules(&settings, concatenate, &set);
        let (mut tx, mut rx) = (sender(A, settings, SUITE, 1), receiver(settings, SUITE, 1, 0));
        let (mut number, mut got): (u64, Vec<Vec<u8>>) = (0, vec![]);
        let mut expected: Vec<Vec<u8>> = vec![];
        for octets in bursts {
            let sdus: Vec<_> = octets.iter().map(|&octets| { number += 1; sdu(octets, number) }).collect();
            let plan = planned(&rules, &sdus);
            let fits = |sdu: &&Vec<u8>| sdu.len() <= rules.longest;
            let sent: Vec<_> = sdus.iter().filter(fits).cloned().collect();
            prop_assert_eq!(plan.too_long(), sdus.len() - sent.len());
            // Whatever the sizes, an SDU of 33 of the smallest frames is sent.
            let short = sdus.iter().filter(|sdu| sdu.len() <= 12 + 32 * 80);
            prop_assert!(short.count() <= sent.len());
            expected.extend(sent);
            let assembled = carry_out(&plan, &sdus);
            let frames: Vec<_> = protect_assembled(&mut tx, &assembled).into_iter().map(Outcome::passed).collect();
            for frame in &frames {
                prop_assert!(set.contains(&(frame.len() as u16)), "{} octets, {:?}", frame.len(), set);
            }
            for frames in frames.chunks(16) {
                // In bursts as the network has them: fragments wait for the next one.
                got.extend(delivered(&mut rx, frames));
            }
        }
        prop_assert_eq!(got.len(), expected.len());
        prop_assert!(got == expected);
        let c = rx.receive_scs().next().expect("one SC").counters();
        prop_assert_eq!(c.in_sdus_separated + c.in_sdus_reassembled, expected.len() as u64);
        prop_assert_eq!(c.in_pkts_malformed, 0);
    }
}
