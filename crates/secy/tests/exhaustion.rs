//! The end of PNs: soft (ask for a new SAK), by reservation (wait for the disk), and hard (never again), also in
//! the middle of a burst (IEEE 802.1AE-2018 clause 10.5.2; 802.1X-2020 clause 9.8).

mod ends;

use std::collections::HashSet;

use ends::{
    A, Outcome, SETTINGS, an, pn, protect, protect_all, protect_burst, receiver, sdu, sdus, sender,
    start_sending, transmit_sa, verify_all,
};
use proptest::prelude::*;
use secy::{NextAction, SecY, TransmitDiscard};
use suite::CipherSuite;
use wire::Pn;

const SUITE: CipherSuite = CipherSuite::GcmAes128;
const XPN: CipherSuite = CipherSuite::GcmAesXpn128;
const LAST_32: u64 = u32::MAX as u64;

const UNRESERVED: Outcome<TransmitDiscard> = Outcome::Discarded(TransmitDiscard::PnUnreserved);
const EXHAUSTED: Outcome<TransmitDiscard> = Outcome::Discarded(TransmitDiscard::PnExhausted);

/// The PN field of a frame that passed.
fn low_pn(outcome: &Outcome<TransmitDiscard>) -> Option<u32> {
    match outcome {
        Outcome::Passed(frame) => Some(u32::from_be_bytes(frame[16..20].try_into().expect("4 octets"))),
        Outcome::Discarded(_) => None,
    }
}

#[test]
fn the_last_pns_of_each_suite() {
    for suite in CipherSuite::ALL {
        let last = suite.last_pn().number();
        let mut tx = sender(A, SETTINGS, suite, last - 2);
        let (next, outcomes) = protect_burst(&mut tx, &sdus(5, 60));
        assert_eq!(next, NextAction::Exhausted, "{suite}");
        let low = LAST_32 as u32;
        assert_eq!(
            outcomes.iter().map(low_pn).collect::<Vec<_>>(),
            [Some(low - 2), Some(low - 1), Some(low), None, None]
        );
        assert_eq!(outcomes[3..], [EXHAUSTED, EXHAUSTED]);
        assert_eq!((tx.counters().out_pkts_pn_exhausted, tx.transmit_counters().out_pkts_encrypted), (2, 3));
        tx.reserve_through(an(0), Pn::LAST_64).expect("installed");
        tx.enable_transmit(an(0)).expect("installed");
        assert_eq!(
            protect_burst(&mut tx, &sdus(1, 60)),
            (NextAction::Exhausted, vec![EXHAUSTED]),
            "for good"
        );

        let mut rx = receiver(SETTINGS, suite, last - 2, 4);
        let frames: Vec<_> = outcomes.into_iter().take(3).map(Outcome::passed).collect();
        let delivered = verify_all(&mut rx, &frames);
        assert_eq!(delivered, sdus(3, 60).into_iter().map(Outcome::Passed).collect::<Vec<_>>(), "{suite}");

        start_sending(&mut tx, transmit_sa(suite, 1, 1, Pn::LAST_64));
        assert_eq!(protect_burst(&mut tx, &sdus(1, 60)).0, NextAction::Continue, "another SA sends again");
    }
}

/// Three quarters of the PNs used: frames still pass, and the caller is told.
#[test]
fn the_soft_end() {
    for (suite, rekey_at) in [(SUITE, 0xc000_0000_u64), (XPN, 0xc000_0000_0000_0000)] {
        let mut tx = sender(A, SETTINGS, suite, rekey_at - 3);
        let (next, outcomes) = protect_burst(&mut tx, &sdus(2, 60));
        assert_eq!((next, outcomes.iter().filter_map(low_pn).count()), (NextAction::Continue, 2), "{suite}");
        for _ in 0..3 {
            let (next, outcomes) = protect_burst(&mut tx, &sdus(2, 60));
            assert_eq!((next, outcomes.iter().filter_map(low_pn).count()), (NextAction::Rekey, 2), "{suite}");
        }
    }
}

/// A block of PNs that ends inside a burst, and one that is extended in time.
#[test]
fn reservations() {
    use NextAction::{AwaitReservation, Continue, Reserve};
    let mut tx = SecY::new(A, SETTINGS);
    start_sending(&mut tx, transmit_sa(SUITE, 0, 1, pn(10)));
    // (reserved before the burst, SDUs, what passes, what is next)
    let rows = [
        (None, 3, 3, Continue),
        (None, 2, 2, Reserve),
        (None, 7, 5, AwaitReservation),
        (None, 1, 0, AwaitReservation),
        (Some(10), 1, 0, AwaitReservation),
        (Some(4), 1, 0, AwaitReservation),
        (Some(20), 0, 0, Continue),
        (Some(20), 6, 6, Reserve),
        (Some(30), 1, 1, Continue),
        (None, 20, 13, AwaitReservation),
        (Some(LAST_32), 4, 4, Continue),
    ];
    let mut expected_pn = 1;
    for (row, (reserved, count, passes, action)) in rows.into_iter().enumerate() {
        if let Some(reserved) = reserved {
            tx.reserve_through(an(0), pn(reserved)).expect("installed");
        }
        let (next, outcomes) = protect_burst(&mut tx, &sdus(count, 60));
        assert_eq!(next, action, "row {row}");
        for (index, outcome) in outcomes.iter().enumerate() {
            if index < passes {
                assert_eq!(low_pn(outcome), Some(expected_pn), "row {row}");
                expected_pn += 1;
            } else {
                assert_eq!(*outcome, UNRESERVED, "row {row}");
            }
        }
    }
    assert_eq!(tx.counters().out_pkts_pn_unreserved, 2 + 1 + 1 + 1 + 7);
}

/// Near the end of all PNs a reservation is still the more urgent, and the end itself the most.
#[test]
fn reservation_and_the_end_together() {
    let mut tx = SecY::new(A, SETTINGS);
    start_sending(&mut tx, transmit_sa(SUITE, 0, LAST_32 - 9, pn(LAST_32 - 4)));
    let mut actions = Vec::new();
    for _ in 0..6 {
        actions.push(protect_burst(&mut tx, &sdus(1, 60)).0);
    }
    use NextAction::{AwaitReservation, Exhausted, Rekey, Reserve};
    assert_eq!(actions, [Rekey, Reserve, Reserve, Reserve, Reserve, AwaitReservation]);
    tx.reserve_through(an(0), Pn::LAST_64).expect("installed");
    let (next, outcomes) = protect_burst(&mut tx, &sdus(7, 60));
    assert_eq!((next, outcomes.iter().filter_map(low_pn).count()), (Exhausted, 4));
}

/// An SA whose first PN lies above its block, or above its suite's last PN, sends nothing: under the 32-bit suites
/// PN 2^32 + n would have the nonce of PN n.
#[test]
fn nothing_is_sent_from_outside() {
    for (suite, first, reserved, discard) in [
        (SUITE, 5, 4, UNRESERVED),
        (XPN, 5, 4, UNRESERVED),
        (SUITE, LAST_32 + 1, u64::MAX, EXHAUSTED),
        (SUITE, LAST_32 + 6, u64::MAX, EXHAUSTED),
        (SUITE, u64::MAX, u64::MAX, EXHAUSTED),
    ] {
        let mut tx = SecY::new(A, SETTINGS);
        start_sending(&mut tx, transmit_sa(suite, 0, first, pn(reserved)));
        assert_eq!(protect(&mut tx, &sdu(60, 0)), discard, "{suite} from {first}");
    }
}

/// A discarded frame costs no PN, wherever it stands in a burst.
#[test]
fn no_pn_is_spent_on_a_discarded_frame() {
    let (short, long) = (vec![0; 13], sdu(1600, 0));
    let mut tx = sender(A, SETTINGS, SUITE, 1);
    let good = sdu(60, 0);
    let burst = [&short, &good, &long, &short, &good, &long, &good];
    let outcomes = protect_all(&mut tx, &burst);
    assert_eq!(outcomes.iter().filter_map(low_pn).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(tx.transmit_sas().all(|sa| sa.pns().next() == Pn::new(4)));
    assert_eq!((tx.counters().out_pkts_too_short, tx.counters().out_pkts_too_long), (2, 2));
}

proptest! {
    /// Whatever is installed, reserved, enabled and retired in whatever order: no PN is on the wire twice under
    /// one key, and none from outside the reserved block.
    #[test]
    fn no_pn_twice_under_one_key(
        first in prop_oneof![Just(1), Just(LAST_32 - 40), Just(LAST_32 + 1)],
        xpn in any::<bool>(),
        steps in proptest::collection::vec((0..5u8, 0..12u64), 1..60),
    ) {
        let suite = if xpn { XPN } else { SUITE };
        let mut tx = SecY::new(A, SETTINGS);
        start_sending(&mut tx, transmit_sa(suite, 0, first, pn(first + 5)));
        let (mut reserved, mut out) = (first + 5, Vec::new());
        let mut seen = HashSet::new();
        for (kind, amount) in steps {
            match kind {
                0 => {
                    reserved = reserved.max(first + amount * 8);
                    let _ = tx.reserve_through(an(0), pn(first + amount * 8));
                }
                1 => out.extend(tx.retire_transmit(an(0))),
                2 => {
                    if let Some(sa) = out.pop() {
                        tx.install_transmit(sa).expect("the AN that it left");
                        tx.enable_transmit(an(0)).expect("installed");
                    }
                }
                _ => {
                    let outcomes = protect_all(&mut tx, &sdus(amount, 60));
                    for pn in outcomes.iter().filter_map(low_pn) {
                        // Fewer than 2^32 PNs are used here, so the low half tells them apart.
                        prop_assert!(seen.insert(pn), "PN {} twice", pn);
                        prop_assert!(u64::from(pn.wrapping_sub(first as u32)) <= reserved - first);
                    }
                }
            }
        }
        prop_assert!(xpn || first <= LAST_32 || seen.is_empty());
    }
}
