//! Pieces of SDUs and their neighbours: every way in which they can meet, and in which they cannot. Each case moves
//! its counter, and no other.

mod ends;

use std::time::Duration;

use ends::fragments::{Forged, REASSEMBLING, buffer, chain, data, header, sdu_of, verify_fragments};
use ends::{A, an, books, moved, receive_sa, receiver, start_receiving};
use secy::reassemble::MAX_FRAGMENTS;
use secy::{MAX_FRAGMENT_OCTETS, SDU_OCTETS};
use secy::{ReceiveSaCounters, SecY, Settings};
use suite::CipherSuite;
use wire::Instant;

const SUITE: CipherSuite = CipherSuite::GcmAes128;
/// A window in which nothing here is late.
const WIDE: u32 = 1000;
const UNPROTECTED: Settings = Settings { replay_protect: false, ..REASSEMBLING };

fn frame(pn: u64, data: &[u8]) -> Forged {
    Forged::new(SUITE, pn, data)
}

/// A receiver, with the counters as they were when somebody looked last.
struct Receiver {
    secy: SecY,
    before: ends::Books,
}

impl Receiver {
    fn new(settings: Settings, window: u32) -> Self {
        let secy = receiver(settings, SUITE, 1, window);
        Self { before: books(&secy), secy }
    }

    /// SDUs that one frame delivers so many milliseconds after the start.
    fn at(&mut self, milliseconds: u64, frame: &Forged) -> Vec<Vec<u8>> {
        let now = Instant::after_start(Duration::from_millis(milliseconds));
        let outcome = verify_fragments(&mut self.secy, now, &[frame.seal()], &mut buffer(1)).remove(0);
        outcome.unwrap_or_default()
    }

    fn take(&mut self, frame: &Forged) -> Vec<Vec<u8>> {
        self.at(0, frame)
    }

    fn take_all<'f>(&mut self, frames: impl IntoIterator<Item = &'f Forged>) -> Vec<Vec<u8>> {
        frames.into_iter().flat_map(|frame| self.take(frame)).collect()
    }

    /// Changes since the last look, except for verified frames and octets.
    fn moved(&mut self) -> String {
        let after = books(&self.secy);
        let moved = moved(&self.before, &after);
        self.before = after;
        let verified = |text: &&str| !text.starts_with("InPktsOK") && !text.starts_with("InOctets");
        moved.split(", ").filter(verified).collect::<Vec<_>>().join(", ")
    }

    fn held(&self) -> usize {
        self.secy.receive_scs().map(|sc| sc.reassembler().len()).sum()
    }

    fn sc(&self) -> ReceiveSaCounters {
        self.secy.receive_scs().next().expect("one SC").counters()
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let put = |rest: Vec<usize>| (0..count).map(move |at| [&rest[..at], &[count - 1], &rest[at..]].concat());
    permutations(count - 1).into_iter().flat_map(put).collect()
}

#[test]
fn any_order_inside_the_window() {
    let (whole, pieces) = chain(1, 5, 60);
    for order in permutations(5) {
        let mut rx = Receiver::new(REASSEMBLING, WIDE);
        for &index in &order[..4] {
            assert!(rx.take(&pieces[index]).is_empty());
        }
        assert_eq!((rx.held(), rx.moved()), (4, String::new()));
        assert_eq!(rx.take(&pieces[order[4]]), std::slice::from_ref(&whole), "{order:?}");
        assert_eq!((rx.held(), rx.moved().as_str()), (0, "InSdusReassembled 1"));
    }
}

/// The same in one burst, where all frames are opened before the first is settled.
#[test]
fn any_order_inside_one_burst() {
    let (whole, pieces) = chain(1, 4, 60);
    for order in permutations(4) {
        let mut rx = receiver(REASSEMBLING, SUITE, 1, 4);
        let frames: Vec<_> = order.iter().map(|&index| pieces[index].seal()).collect();
        assert_eq!(ends::fragments::delivered(&mut rx, &frames), std::slice::from_ref(&whole), "{order:?}");
    }
}

#[test]
fn a_window_of_0_never_waits() {
    let (whole, pieces) = chain(1, 4, 60);
    let mut rx = Receiver::new(REASSEMBLING, 0);
    assert_eq!(rx.take_all(&pieces), [whole]);
    assert_eq!(rx.moved(), "InSdusReassembled 1");
    let mut rx = Receiver::new(REASSEMBLING, 0);
    assert!(rx.take_all([&pieces[1], &pieces[0]]).is_empty());
    assert_eq!((rx.held(), rx.moved().as_str()), (0, "InPktsLate 1, InPiecesLost 1"));
}

#[test]
fn duplicates_are_dropped_before_they_are_pieces() {
    let (whole, pieces) = chain(1, 3, 60);
    let mut rx = Receiver::new(REASSEMBLING, WIDE);
    assert!(rx.take_all([&pieces[0], &pieces[0], &pieces[2], &pieces[2]]).is_empty());
    assert_eq!((rx.held(), rx.moved().as_str()), (2, "InPktsDuplicate 2"));
    assert_eq!(rx.take_all([&pieces[1], &pieces[1], &pieces[0]]), [whole]);
    assert_eq!((rx.held(), rx.moved().as_str()), (0, "InPktsDuplicate 2, InSdusReassembled 1"));
}

/// A piece goes with the frame that moves `lowest_pn` above what it misses, and not before.
#[test]
fn pieces_of_a_lost_frame_go_when_it_is_late() {
    for window in [1, 2, 8, 64] {
        for lost in 0..4 {
            let (_, pieces) = chain(1, 4, 60);
            let mut rx = Receiver::new(REASSEMBLING, window);
            let others = pieces.iter().enumerate().filter(|&(index, _)| index != lost);
            assert!(rx.take_all(others.map(|(_, piece)| piece)).is_empty());
            let missing = lost as u64 + 1;
            // The highest PN at which what is missing is not late yet.
            let last = missing + u64::from(window) - 1;
            for pn in 5..=last {
                rx.take(&frame(pn, &data(60, pn)));
                assert_eq!(rx.held(), 3, "window {window}, piece {lost} lost, PN {pn}");
            }
            // Now its neighbours have no hope; and theirs go when all of the SDU is late.
            rx.take(&frame(last.max(4) + 1, &data(60, 0)));
            assert!(rx.held() < 3, "window {window}, {lost}");
            rx.take(&frame(5 + u64::from(window), &data(60, 0)));
            assert_eq!((rx.held(), rx.moved().as_str()), (0, "InPiecesLost 3"), "window {window}, {lost}");
        }
    }
}

/// Complete SDUs never wait for incomplete ones.
#[test]
fn what_is_complete_overtakes_what_waits() {
    let mut rx = Receiver::new(REASSEMBLING, WIDE);
    let (first, of_first) = chain(1, 2, 60);
    let (second, of_second) = chain(3, 2, 60);
    assert!(rx.take(&of_first[0]).is_empty());
    assert_eq!(rx.take_all(&of_second), [second]);
    assert_eq!(rx.take(&frame(5, &data(60, 5))), [sdu_of(&data(60, 5))]);
    assert_eq!(rx.take(&of_first[1]), [first]);
}

/// One frame with the end of an SDU, a whole one, and the beginning of a third.
#[test]
fn frames_that_both_end_and_begin() {
    let (a, b, c) = (data(100, 1), data(30, 2), data(90, 3));
    let middle = [&a[60..], &b, &c[..50]].concat();
    let mut second = frame(2, &middle).with_headers(&[header(30, true), header(50, false)]);
    second.bits |= ends::fragments::MF;
    let frames = [frame(1, &a[..60]).piece(false, true), second, frame(3, &c[50..]).piece(true, false)];
    for order in permutations(3) {
        let mut rx = Receiver::new(REASSEMBLING, WIDE);
        let mut got = rx.take_all(order.iter().map(|&index| &frames[index]));
        got.sort();
        let mut expected = [sdu_of(&a), sdu_of(&b), sdu_of(&c)];
        expected.sort();
        assert_eq!(got, expected, "{order:?}");
        assert_eq!((rx.held(), rx.moved().as_str()), (0, "InSdusReassembled 2, InSdusSeparated 1"));
    }
    // Without the first, or the last: the rest comes all the same.
    let mut rx = Receiver::new(REASSEMBLING, 0);
    assert_eq!(rx.take_all(&frames[1..]), [sdu_of(&b), sdu_of(&c)]);
    assert_eq!(rx.moved(), "InSdusReassembled 1, InSdusSeparated 1, InPiecesLost 1");
    let mut rx = Receiver::new(REASSEMBLING, 0);
    assert_eq!(rx.take_all(&frames[..2]), [sdu_of(&a), sdu_of(&b)]);
    rx.take(&frame(4, &data(60, 4)));
    assert_eq!(rx.moved(), "InSdusReassembled 1, InSdusSeparated 1, InPiecesLost 1");
}

#[test]
fn other_addresses_are_another_sdu() {
    for at in [0, 5, 6, 11] {
        let (_, mut pieces) = chain(1, 3, 60);
        pieces[1].addresses[at] ^= 0x40;
        let mut rx = Receiver::new(REASSEMBLING, 2);
        assert!(rx.take_all(&pieces[..2]).is_empty());
        assert_eq!((rx.held(), rx.moved().as_str()), (1, "InPiecesMismatched 1"));
        rx.take(&pieces[2]);
        // PN 3 misses PN 2, which is not late yet; then both go.
        rx.take_all(&[frame(4, &data(60, 4)), frame(5, &data(60, 5))]);
        assert_eq!((rx.held(), rx.moved().as_str()), (0, "InPiecesLost 2"));
    }
}

/// Neighbours of which one does not go on, or the other does not continue.
#[test]
fn false_neighbours_are_never_joined() {
    // A head, and then a whole SDU.
    let mut rx = Receiver::new(REASSEMBLING, 1);
    rx.take(&frame(1, &data(60, 1)).piece(false, true));
    assert_eq!(rx.take(&frame(2, &data(60, 2))), [sdu_of(&data(60, 2))]);
    assert_eq!(rx.held(), 1);
    rx.take(&frame(3, &data(60, 3)));
    assert_eq!((rx.held(), rx.moved().as_str()), (0, "InPiecesLost 1"));
    // A head, and then a whole chain.
    let (whole, pieces) = chain(2, 2, 60);
    let mut rx = Receiver::new(REASSEMBLING, 1);
    rx.take(&frame(1, &data(60, 1)).piece(false, true));
    assert_eq!(rx.take_all(&pieces), [whole]);
    assert_eq!((rx.held(), rx.moved().as_str()), (0, "InSdusReassembled 1, InPiecesLost 1"));
    // A whole SDU, and then a tail.
    let mut rx = Receiver::new(REASSEMBLING, 1);
    rx.take(&frame(1, &data(60, 1)));
    assert!(rx.take(&frame(2, &data(60, 2)).piece(true, false)).is_empty());
    assert_eq!((rx.held(), rx.moved().as_str()), (0, "InPiecesLost 1"));
    // A tail whose head is missing, and then another tail.
    let mut rx = Receiver::new(REASSEMBLING, 8);
    rx.take(&frame(5, &data(60, 1)).piece(true, false));
    assert!(rx.take(&frame(6, &data(60, 2)).piece(true, false)).is_empty());
    assert_eq!((rx.held(), rx.moved().as_str()), (1, "InPiecesMismatched 1"));
    // PNs that are not consecutive.
    let mut rx = Receiver::new(REASSEMBLING, 8);
    rx.take(&frame(1, &data(60, 1)).piece(false, true));
    assert!(rx.take(&frame(3, &data(60, 2)).piece(true, false)).is_empty());
    assert_eq!(rx.held(), 2);
}

#[test]
fn pieces_of_two_sas_are_never_joined() {
    let (whole, pieces) = chain(1, 2, 60);
    let mut rx = Receiver::new(REASSEMBLING, WIDE);
    start_receiving(&mut rx.secy, A, receive_sa(SUITE, 1, 1, WIDE));
    let tail = Forged { an: 1, ..pieces[1].clone() };
    assert!(rx.take_all([&pieces[0], &tail]).is_empty());
    assert_eq!(rx.held(), 2);
    // The right tail still comes.
    assert_eq!(rx.take(&pieces[1]), [whole]);
    assert_eq!(rx.held(), 1);
}

#[test]
fn retiring_an_sa_drops_its_pieces() {
    let (_, pieces) = chain(1, 3, 60);
    let mut rx = Receiver::new(REASSEMBLING, WIDE);
    start_receiving(&mut rx.secy, A, receive_sa(SUITE, 1, 1, WIDE));
    let (other, of_other) = chain(1, 2, 60);
    let of_other = of_other.into_iter().map(|piece| Forged { an: 1, ..piece }).collect::<Vec<_>>();
    assert!(rx.take_all([&pieces[0], &pieces[1], &of_other[0]]).is_empty());
    assert_eq!(rx.held(), 3);
    let sa = rx.secy.retire_receive(A, an(0)).expect("installed");
    assert_eq!((rx.held(), sa.counters().in_pieces_retired, rx.sc().in_pieces_retired), (1, 2, 2));
    // The same key in a new instance of the SA: nothing of the old one is left to join.
    start_receiving(&mut rx.secy, A, receive_sa(SUITE, 0, 1, WIDE));
    assert!(rx.take(&pieces[2]).is_empty());
    assert_eq!(rx.take(&of_other[1]), [other]);
    assert_eq!(rx.sc().in_sdus_reassembled, 1);
}

#[test]
fn an_sc_holds_32_pieces_and_the_oldest_goes_first() {
    let mut rx = Receiver::new(REASSEMBLING, WIDE);
    let pairs: Vec<_> = (0..MAX_FRAGMENTS as u64 + 3).map(|pair| chain(2 * pair + 1, 2, 60)).collect();
    for (index, (_, pieces)) in pairs.iter().enumerate() {
        rx.take(&pieces[0]);
        assert_eq!(rx.held(), (index + 1).min(MAX_FRAGMENTS));
    }
    assert_eq!(rx.moved(), "InPiecesOverrun 3");
    // All but the first three can still be completed.
    for (whole, pieces) in &pairs[3..] {
        assert_eq!(rx.take(&pieces[1]), std::slice::from_ref(whole));
    }
    assert_eq!((rx.held(), rx.moved()), (0, format!("InSdusReassembled {MAX_FRAGMENTS}")));
    assert!(rx.take_all(pairs[..3].iter().map(|(_, pieces)| &pieces[1])).is_empty());
    assert_eq!(rx.held(), 3);
}

#[test]
fn an_sc_holds_64_kib_and_the_oldest_goes_first() {
    // Heads of 8 KiB fill it to the octet; one octet more throws one out, and 8 KiB two.
    let head = |pn: u64, octets: usize| frame(pn, &data(octets, pn)).piece(false, true);
    let mut rx = Receiver::new(REASSEMBLING, WIDE);
    for index in 0..8 {
        rx.take(&head(2 * index + 1, MAX_FRAGMENT_OCTETS / 8));
    }
    assert_eq!((rx.held(), rx.moved()), (8, String::new()));
    rx.take(&head(17, 2));
    assert_eq!((rx.held(), rx.moved().as_str()), (8, "InPiecesOverrun 1"));
    rx.take(&head(19, MAX_FRAGMENT_OCTETS / 8));
    assert_eq!((rx.held(), rx.moved().as_str()), (8, "InPiecesOverrun 1"));
    // The remaining fragments are not mixed up: PN 5 and 17 get their tails.
    for (pn, octets) in [(5, MAX_FRAGMENT_OCTETS / 8), (17, 2)] {
        let whole = [data(octets, pn), data(50, 99)].concat();
        assert_eq!(rx.take(&frame(pn + 1, &data(50, 99)).piece(true, false)), [sdu_of(&whole)]);
    }
    assert_eq!((rx.held(), rx.moved().as_str()), (6, "InSdusReassembled 2"));
}

/// An SDU of as many pieces as there is room for, and of one more.
#[test]
fn the_longest_chain() {
    for (count, complete) in [(MAX_FRAGMENTS + 1, true), (MAX_FRAGMENTS + 2, false)] {
        let (whole, pieces) = chain(1, count, 60);
        let mut rx = Receiver::new(REASSEMBLING, 0);
        let got = rx.take_all(&pieces);
        if complete {
            // The last piece is never held.
            assert_eq!(got, [whole]);
            assert_eq!(rx.moved(), "InSdusReassembled 1");
        } else {
            assert!(got.is_empty());
            assert!(rx.moved().contains("InPiecesOverrun"));
            rx.take(&frame(100, &data(60, 1)));
            assert_eq!(rx.held(), 0);
        }
        assert_eq!(rx.held(), 0);
    }
}

#[test]
fn without_replay_protection_100_ms_decide() {
    let (whole, pieces) = chain(1, 2, 60);
    let other = |pn| frame(pn, &data(60, pn));
    let mut rx = Receiver::new(UNPROTECTED, 0);
    rx.at(1000, &pieces[0]);
    rx.at(1100, &other(50));
    assert_eq!((rx.held(), rx.moved()), (1, String::new()), "however late what is missing is");
    assert_eq!(rx.at(1100, &pieces[1]), std::slice::from_ref(&whole));
    assert_eq!((rx.held(), rx.moved().as_str()), (0, "InPktsDelayed 1, InSdusReassembled 1"));
    let mut rx = Receiver::new(UNPROTECTED, 0);
    rx.at(1000, &pieces[1]);
    rx.at(1101, &other(50));
    assert_eq!((rx.held(), rx.moved().as_str()), (0, "InPiecesExpired 1"));
    // In any order, as long as it is in time.
    let mut rx = Receiver::new(UNPROTECTED, 0);
    rx.at(0, &pieces[1]);
    assert_eq!(rx.at(99, &pieces[0]), [whole]);
    // With replay protection time decides nothing.
    let mut rx = Receiver::new(REASSEMBLING, WIDE);
    rx.at(0, &pieces[0]);
    rx.at(1_000_000, &other(50));
    assert_eq!((rx.held(), rx.moved()), (1, String::new()));
}

#[test]
fn sdus_that_are_longer_than_any_are_dropped() {
    let longest = SDU_OCTETS - 12;
    for (octets, fits) in [(longest, true), (longest + 1, false)] {
        let whole = data(octets, 1);
        let pieces =
            [frame(1, &whole[..5000]).piece(false, true), frame(2, &whole[5000..]).piece(true, false)];
        let mut rx = Receiver::new(REASSEMBLING, WIDE);
        let got = rx.take_all(&pieces);
        assert_eq!(got, if fits { vec![sdu_of(&whole)] } else { vec![] });
        let counter = if fits { "InSdusReassembled 1" } else { "InSdusTooLong 1" };
        assert_eq!((rx.held(), rx.moved().as_str()), (0, counter));
        // One that shares a frame.
        let mut rx = Receiver::new(REASSEMBLING, WIDE);
        let shared = frame(1, &[&whole[..], &data(40, 2)].concat()).with_headers(&[header(40, false)]);
        let got = rx.take(&shared);
        let expected = [sdu_of(&whole), sdu_of(&data(40, 2))];
        assert_eq!(got, expected[usize::from(!fits)..]);
        let counters = if fits { "InSdusSeparated 2" } else { "InSdusSeparated 1, InSdusTooLong 1" };
        assert_eq!(rx.moved(), counters);
    }
}
