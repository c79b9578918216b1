//! Replay protection over whole frames: windows, duplicates, the ends of the PN space, forgeries
//! (IEEE 802.1AE-2018 clause 10.6.5). The window alone is tested beside it, in `pn`.

mod ends;

use ends::{A, Outcome, SETTINGS, books, moved, protected, receiver, sdus, sender, verify, verify_all};
use secy::{InstallError, ReceiveDiscard, SecY, Settings};
use suite::CipherSuite;

const SUITE: CipherSuite = CipherSuite::GcmAes128;
const XPN: CipherSuite = CipherSuite::GcmAesXpn128;
const P32: u64 = 1 << 32;

/// `count` frames with the PNs from `first` on.
fn frames(suite: CipherSuite, first: u64, count: u64) -> Vec<Vec<u8>> {
    protected(&mut sender(A, SETTINGS, suite, first), &sdus(count, 60))
}

/// One letter for each verdict: `+` delivered, `L` late, `D` duplicate, `!` ICV wrong.
fn letters(outcomes: &[Outcome<ReceiveDiscard>]) -> String {
    let letter = |outcome: &Outcome<ReceiveDiscard>| match outcome {
        Outcome::Passed(_) => '+',
        Outcome::Discarded(ReceiveDiscard::Late) => 'L',
        Outcome::Discarded(ReceiveDiscard::Duplicate) => 'D',
        Outcome::Discarded(ReceiveDiscard::NotValid) => '!',
        Outcome::Discarded(other) => panic!("{other:?}"),
    };
    outcomes.iter().map(letter).collect()
}

/// Sends frames in the given order in one burst, and to a second receiver one by one; both must say the same.
fn verdicts(rx: impl Fn() -> SecY, frames: &[Vec<u8>], order: &[u64]) -> String {
    let burst: Vec<_> = order.iter().map(|&index| frames[index as usize].clone()).collect();
    let at_once = verify_all(&mut rx(), &burst);
    let mut alone = rx();
    let one_by_one: Vec<_> = burst.iter().map(|frame| verify(&mut alone, frame)).collect();
    assert_eq!(at_once, one_by_one);
    letters(&at_once)
}

#[test]
fn windows_over_bursts() {
    // Orders count frames from 0; PNs begin at the row's first one.
    let rows: [(CipherSuite, u64, u32, &[u64], &str); 13] = [
        (SUITE, 1, 0, &[0, 1, 2, 3], "++++"),
        (SUITE, 1, 0, &[0, 0, 2, 1, 3, 3], "+L+L+L"),
        (SUITE, 1, 1, &[0, 0, 2, 1, 2, 3], "+D+LD+"),
        (SUITE, 1, 4, &[7, 4, 3, 4, 5, 6, 7, 8, 4], "++LD++D+L"),
        (SUITE, 1, 1 << 20, &[9, 0, 9, 5, 0, 5, 1], "++D+DD+"),
        (SUITE, 1, u32::MAX, &[9, 0, 9, 0], "++DD"),
        // PN 2^32-1 is the fourth.
        (SUITE, P32 - 4, 0, &[3, 3, 2], "+LL"),
        (SUITE, P32 - 4, 2, &[3, 2, 3, 2, 1], "++DDL"),
        (SUITE, P32 - 4, 64, &[3, 0, 3, 0, 1, 2], "++DD++"),
        // PN 2^32, whose SecTAG says 0, is the fifth.
        (XPN, P32 - 4, 0, &[3, 4, 3, 5, 4], "++L+L"),
        (XPN, P32 - 4, 8, &[4, 3, 4, 5, 2, 3, 9, 0, 2], "++D++D+LD"),
        (XPN, P32 - 4, 64, &[9, 3, 0, 4, 3, 4, 0], "++++DDD"),
        (XPN, 7 * P32 - 4, 64, &[9, 3, 0, 4, 3, 4, 0], "++++DDD"),
    ];
    for (row, (suite, first, window, order, expected)) in rows.into_iter().enumerate() {
        let count = if suite == SUITE && first > 1 { 4 } else { 10 };
        let frames = frames(suite, first, count);
        let got = verdicts(|| receiver(SETTINGS, suite, first, window), &frames, order);
        assert_eq!(got, expected, "row {row}");
    }
}

#[test]
fn frames_from_before_the_floor_are_late() {
    let frames = frames(SUITE, 1, 10);
    let rx = || receiver(SETTINGS, SUITE, 6, 64);
    assert_eq!(verdicts(rx, &frames, &[0, 4, 5, 3, 9, 6, 5]), "LL+L++D");
}

/// An XPN receiver that was just started knows the high half from its floor alone.
#[test]
fn xpn_far_from_the_first_crossing() {
    for first in [3 * P32 + 5, u64::MAX - 9] {
        let frames = frames(XPN, first, 10);
        let rx = || receiver(SETTINGS, XPN, first, 16);
        assert_eq!(verdicts(rx, &frames, &[9, 0, 5, 9, 5]), "+++DD", "{first}");
    }
    let frames = frames(XPN, 3 * P32 + 5, 1);
    assert_eq!(verdicts(|| receiver(SETTINGS, XPN, 1, 16), &frames, &[0]), "!", "another high half");
}

/// Attack: an old frame with a PN written in that is far ahead would, if believed, make everything else late.
#[test]
fn forged_frames_never_move_the_window() {
    let good = frames(SUITE, 1, 3);
    // The flipped copy of PN 2 afterwards: late, or seen already, before anybody looks at its ICV.
    for (window, expected) in [(0, "L!"), (1, "L!"), (64, "D!")] {
        let mut rx = receiver(SETTINGS, SUITE, 1, window);
        let mut forged = good[2].clone();
        forged[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        let mut flipped = good[1].clone();
        *flipped.last_mut().expect("an ICV") ^= 1;
        let burst = [&good[0], &forged, &flipped, &good[1], &forged, &flipped, &good[2]];
        let got = letters(&verify_all(&mut rx, &burst));
        // Within a burst a forgery is judged before the frame that it copies has been committed.
        assert_eq!(got, "+!!+!!+", "window {window}");
        let after = letters(&verify_all(&mut rx, &[&flipped, &forged]));
        assert_eq!(after, expected, "window {window}");
        let sa = rx.receive_scs().flat_map(|sc| sc.sas()).next().expect("one SA");
        assert_eq!((sa.window().highest(), sa.counters().in_pkts_ok), (3, 3));
    }
}

#[test]
fn without_replay_protection_the_late_are_delayed() {
    let settings = Settings { replay_protect: false, ..SETTINGS };
    let frames = frames(SUITE, 1, 10);
    // (window, order, frames not late, frames late)
    let rows: [(u32, &[u64], u64, u64); 4] = [
        (0, &[0, 1, 2, 2, 0], 3, 2),
        (0, &[9, 8, 9], 1, 2),
        (4, &[9, 6, 5, 9], 3, 1),
        (64, &[9, 0, 0, 9], 4, 0),
    ];
    for (window, order, ok, delayed) in rows {
        assert_eq!(
            verdicts(|| receiver(settings, SUITE, 1, window), &frames, order),
            "+".repeat(order.len())
        );
        let mut rx = receiver(settings, SUITE, 1, window);
        let before = books(&rx);
        let burst: Vec<_> = order.iter().map(|&index| &frames[index as usize]).collect();
        verify_all(&mut rx, &burst);
        let octets = 60 * (ok + delayed);
        let expected = match delayed {
            0 => format!("InPktsOK {ok}, InOctetsDecrypted {octets}"),
            _ => format!("InPktsOK {ok}, InPktsDelayed {delayed}, InOctetsDecrypted {octets}"),
        };
        assert_eq!(moved(&before, &books(&rx)), expected, "window {window}, {order:?}");
    }
}

/// The ring of bits comes round many times; a PN never meets the bit of one that is long gone.
#[test]
fn a_long_stream_meets_no_stale_bit() {
    for (suite, window) in [(SUITE, 1), (SUITE, 64), (XPN, 100), (SUITE, 200)] {
        let frames = frames(suite, 1, 2000);
        let mut rx = receiver(SETTINGS, suite, 1, window);
        // Pairs change places, every fifth frame is lost, and each burst comes a second time.
        let order = |burst: u64| (burst..burst + 40).map(|index| if window > 1 { index ^ 1 } else { index });
        for burst in (0..2000).step_by(40) {
            let on_the_way: Vec<_> =
                order(burst).filter(|index| index % 5 != 3).map(|index| &frames[index as usize]).collect();
            assert_eq!(
                letters(&verify_all(&mut rx, &on_the_way)),
                "+".repeat(32),
                "window {window}, {burst}"
            );
            let again = letters(&verify_all(&mut rx, &on_the_way));
            assert!(!again.contains('+'), "window {window}, {burst}: {again}");
        }
    }
}

/// Each discarded replay moves its counter, and no other.
#[test]
fn replays_are_counted() {
    let frames = frames(SUITE, 1, 10);
    let mut rx = receiver(SETTINGS, SUITE, 1, 4);
    verify(&mut rx, &frames[9]);
    for (index, counters) in
        [(9, "InPktsDuplicate 1"), (5, "InPktsLate 1"), (6, "InPktsOK 1, InOctetsDecrypted 60")]
    {
        let before = books(&rx);
        verify(&mut rx, &frames[index]);
        assert_eq!(moved(&before, &books(&rx)), counters);
    }
    // Twice in one burst: the second is opened too, and discarded by the second judgement.
    let before = books(&rx);
    verify_all(&mut rx, &[&frames[7], &frames[7], &frames[7]]);
    assert_eq!(moved(&before, &books(&rx)), "InPktsOK 1, InPktsDuplicate 2, InOctetsDecrypted 60");
}

/// Delay protection: what is below the raised PN is late from then on, seen or not; what is above is judged as before; and
/// nothing that was refused before is let in by it.
#[test]
fn a_raised_lowest_pn_never_falls() {
    let frames = frames(SUITE, 1, 200);
    for (window, lowest, judged) in
        [(0, 11, "LLLL++LL+"), (4, 7, "LLLL+++D+"), (64, 5, "LLLL+++D+"), (1000, 5, "LLLL+++D+")]
    {
        let mut rx = receiver(SETTINGS, SUITE, 1, window);
        let verdicts = |rx: &mut SecY, pns: &[usize]| {
            letters(&pns.iter().map(|pn| verify(rx, &frames[pn - 1])).collect::<Vec<_>>())
        };
        assert_eq!(verdicts(&mut rx, &[10]), "+");
        for raised in [5, 2] {
            rx.raise_lowest(A, ends::an(0), ends::pn(raised)).expect("installed");
            let sa = rx.receive_scs().flat_map(|sc| sc.sas()).next().expect("installed");
            assert_eq!(sa.window().lowest(), lowest, "window {window}");
        }
        assert_eq!(verdicts(&mut rx, &[4, 10]), if window == 0 { "LL" } else { "LD" }, "window {window}");
        // Far above what came: nothing below is fresh, and what stood in the ring of bits is gone.
        rx.raise_lowest(A, ends::an(0), ends::pn(150)).expect("installed");
        assert_eq!(verdicts(&mut rx, &[1, 9, 11, 149, 150, 152, 151, 152, 199]), judged, "window {window}");
    }
    let mut rx = receiver(SETTINGS, SUITE, 1, 0);
    assert_eq!(rx.raise_lowest(ends::HERE, ends::an(0), ends::pn(5)), Err(InstallError::UnknownSc));
    assert_eq!(rx.raise_lowest(A, ends::an(1), ends::pn(5)), Err(InstallError::UnknownAn));
}
