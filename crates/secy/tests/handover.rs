//! Another SecY in the place of one: no frame is lost by it, no PN comes twice, nothing is counted away.

mod ends;

use std::collections::BTreeSet;

use ends::fragments::{REASSEMBLING, buffer, planned, send, verify_fragments};
use ends::{
    A, B, HERE, Outcome, SETTINGS, an, books, protected, receive_sa, receiver, sdu, sdus, sender,
    start_receiving, start_sending, transmit_sa, verify, verify_all,
};
use proptest::prelude::*;
use secy::fragment::Rules;
use secy::{CarryOver, Protection, ReceiveDiscard, SecY, Settings};
use suite::CipherSuite;
use wire::{Instant, Pn, Sci};

const SUITE: CipherSuite = CipherSuite::GcmAes128;

fn receiving(numbers: &[u8]) -> Vec<(Sci, wire::An)> {
    numbers.iter().map(|&number| (A, an(number))).collect()
}

/// The PN of a protected frame.
fn pn_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[16..20].try_into().expect("a SecTAG"))
}

#[test]
fn a_transmit_sa_goes_on_with_its_pns_under_other_settings() {
    let mut before = sender(A, SETTINGS, SUITE, 1);
    protected(&mut before, &sdus(5, 60));
    let mut after = SecY::new(A, Settings { mtu: 1400, ..SETTINGS });
    after.take_over(
        &mut before,
        &CarryOver { transmit: Some((an(0), ends::ENCRYPT)), ..CarryOver::default() },
    );
    let frames = protected(&mut after, &sdus(2, 60));
    assert_eq!(frames.iter().map(|frame| pn_of(frame)).collect::<Vec<_>>(), [6, 7]);
    assert_eq!(after.transmit_counters().out_pkts_encrypted, 7);
    assert_eq!(after.settings().mtu, 1400);
    assert_eq!(before.encoding_sa().and(before.transmit_sas().next().map(|_| ())), None, "it is here now");
}

#[test]
fn another_transmit_sa_begins_at_its_own_pns_and_the_sum_keeps_the_one_before() {
    let mut before = sender(A, SETTINGS, SUITE, 1);
    protected(&mut before, &sdus(5, 60));
    let mut after = SecY::new(A, SETTINGS);
    start_sending(&mut after, transmit_sa(SUITE, 1, 100, Pn::LAST_64));
    after.take_over(&mut before, &CarryOver::default());
    let frames = protected(&mut after, &sdus(2, 60));
    assert_eq!(
        frames.iter().map(|frame| (frame[14] & 3, pn_of(frame))).collect::<Vec<_>>(),
        [(1, 100), (1, 101)]
    );
    assert_eq!(after.transmit_counters().out_pkts_encrypted, 7);
    assert_eq!(after.transmit_sas().count(), 1);
}

/// With the same key, but in another way from the next frame on.
#[test]
fn a_transmit_sa_goes_on_with_another_protection() {
    let mut before = sender(A, (SETTINGS, Protection::Integrity), SUITE, 1);
    let mut frames = protected(&mut before, &sdus(1, 60));
    let mut after = SecY::new(A, SETTINGS);
    after.take_over(
        &mut before,
        &CarryOver { transmit: Some((an(0), ends::ENCRYPT)), ..CarryOver::default() },
    );
    frames.extend(protected(&mut after, &sdus(1, 60)));
    let seen: Vec<_> = frames.iter().map(|frame| (frame[14] & 0x0c, pn_of(frame))).collect();
    assert_eq!(seen, [(0, 1), (0x0c, 2)]);
}

/// Keys that are agreed on: all SAs go on as they are, in the SCs that the successor has.
#[test]
fn all_sas_go_on() {
    let mut tx = sender(A, (SETTINGS, Protection::Integrity), SUITE, 1);
    tx.install_transmit(transmit_sa(SUITE, 1, 1, Pn::LAST_64)).expect("a free AN");
    let frames = protected(&mut tx, &sdus(4, 60));
    let mut next = SecY::new(A, SETTINGS);
    next.take_over(&mut tx, &CarryOver { all: true, ..CarryOver::default() });
    let fifth = protected(&mut next, &sdus(1, 60)).remove(0);
    assert_eq!((fifth[14] & 0x0c, pn_of(&fifth)), (0, 5), "without encryption, as before");
    next.enable_transmit(an(1)).expect("the other one came along");
    assert_eq!(tx.transmit_sas().count(), 0);

    for (replay_protect, verdicts) in [(true, ["Duplicate", "+"]), (false, ["Late", "Late"])] {
        let mut rx = receiver(Settings { replay_protect, ..SETTINGS }, SUITE, 1, 64);
        start_receiving(&mut rx, A, receive_sa(SUITE, 1, 1, 64));
        assert!(matches!(ends::verify(&mut rx, &frames[3]), Outcome::Passed(_)));
        let mut after = SecY::new(ends::HERE, SETTINGS);
        after.install_receive_sc(A).expect("a free SCI");
        after.take_over(&mut rx, &CarryOver { all: true, ..CarryOver::default() });
        let verdict = |frame: &Vec<u8>| match ends::verify(&mut after, frame) {
            Outcome::Passed(_) => "+".to_owned(),
            Outcome::Discarded(reason) => format!("{reason:?}"),
        };
        // Without replay protection nothing was marked, so what came before is late.
        assert_eq!([&frames[3], &frames[2]].map(verdict), verdicts);
        assert!(matches!(ends::verify(&mut after, &fifth), Outcome::Passed(_)));
        let sas: Vec<_> =
            after.receive_scs().flat_map(|sc| sc.sas()).map(|sa| (sa.an(), sa.in_use())).collect();
        assert_eq!(sas, [(an(0), true), (an(1), true)]);
    }
}

/// An SA that should continue but does not exist opens no way around the SAs.
#[test]
fn a_transmit_sa_that_is_not_there_does_not_go_on() {
    let mut before = sender(A, SETTINGS, SUITE, 1);
    let mut after = SecY::new(A, SETTINGS);
    after.take_over(
        &mut before,
        &CarryOver { transmit: Some((an(3), ends::ENCRYPT)), ..CarryOver::default() },
    );
    assert_eq!(after.encoding_sa(), None);
    assert!(matches!(ends::protect(&mut after, &sdu(60, 1)), Outcome::Discarded(_)));
}

/// The two steps of a change of keys at a receiver: the new SA beside the old one, then without it.
#[test]
fn receive_sas_come_beside_others_and_go() {
    let mut tx = sender(A, SETTINGS, SUITE, 1);
    let old = protected(&mut tx, &sdus(4, 60));
    start_sending(&mut tx, transmit_sa(SUITE, 1, 1, Pn::LAST_64));
    let new = protected(&mut tx, &sdus(4, 60));

    let mut first = receiver(SETTINGS, SUITE, 1, 0);
    verify(&mut first, &old[0]).passed();
    let mut second = receiver(SETTINGS, SUITE, 1, 0);
    start_receiving(&mut second, A, receive_sa(SUITE, 1, 1, 0));
    second.take_over(&mut first, &CarryOver { receive: receiving(&[0]), ..CarryOver::default() });
    verify(&mut second, &old[1]).passed();
    verify(&mut second, &new[0]).passed();
    assert_eq!(verify(&mut second, &old[1]), Outcome::Discarded(ReceiveDiscard::Late), "its window goes on");
    let mut third = SecY::new(HERE, SETTINGS);
    third.install_receive_sc(A).expect("a free SCI");
    start_receiving(&mut third, A, receive_sa(SUITE, 1, 1, 0));
    third.install_receive_sc(B).expect("a free SCI");
    third.take_over(&mut second, &CarryOver { receive: receiving(&[1]), ..CarryOver::default() });
    verify(&mut third, &new[1]).passed();
    assert_eq!(verify(&mut third, &old[2]), Outcome::Discarded(ReceiveDiscard::NoSaError));
    let books = books(&third);
    assert_eq!((books.scs[0].1.in_pkts_ok, books.scs[0].1.in_pkts_late), (4, 1), "over all three");
    assert_eq!(books.secy.in_pkts_no_sa_error, 1);
    assert_eq!(books.receive_sas[0].2.in_pkts_ok, 2, "of the SA alone");
}

/// Delivered without a mark, because replay protection was off: late for ever after.
#[test]
fn replay_protection_that_is_switched_on_knows_what_was_delivered_without() {
    let frames = protected(&mut sender(A, SETTINGS, SUITE, 1), &sdus(10, 60));
    let mut before = receiver(Settings { replay_protect: false, ..SETTINGS }, SUITE, 1, 64);
    for index in [0, 5, 5] {
        verify(&mut before, &frames[index]).passed();
    }
    let mut after = receiver(SETTINGS, SUITE, 1, 64);
    after.take_over(&mut before, &CarryOver { receive: receiving(&[0]), ..CarryOver::default() });
    let late = Outcome::Discarded(ReceiveDiscard::Late);
    assert_eq!(verify_all(&mut after, &frames[..6]), vec![late; 6]);
    verify(&mut after, &frames[6]).passed();
}

#[test]
fn pieces_go_on_waiting_or_are_counted() {
    let rules = Rules::new(&REASSEMBLING, true, false);
    let long = vec![sdu(2000, 7)];
    assert_eq!(planned(&rules, &long).frames().len(), 2, "a head and a tail");
    for (carry_over, reassemble, delivered) in
        [(true, true, true), (false, true, false), (true, false, false)]
    {
        let mut tx = sender(A, REASSEMBLING, SUITE, 1);
        let frames = send(&mut tx, &rules, &long);
        let mut before = receiver(REASSEMBLING, SUITE, 1, 64);
        let mut buffer = buffer(8);
        verify_fragments(&mut before, Instant::START, &frames[..1], &mut buffer);
        let mut after = receiver(Settings { reassemble, ..REASSEMBLING }, SUITE, 1, 64);
        let receive = if carry_over { receiving(&[0]) } else { Vec::new() };
        after.take_over(&mut before, &CarryOver { receive, ..CarryOver::default() });
        let outcome = verify_fragments(&mut after, Instant::START, &frames[1..], &mut buffer).remove(0);
        assert_eq!(outcome == Ok(long.clone()), delivered, "{carry_over} {reassemble}: {outcome:?}");
        let sc = after.receive_scs().next().expect("one SC").counters();
        assert_eq!(sc.in_pieces_retired, u64::from(!delivered), "{carry_over} {reassemble}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrives(usize),
    Changes { window: u32, replay_protect: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..300_usize).prop_map(Step::Arrives),
        1 => (prop_oneof![Just(0), 1..200_u32], prop::bool::weighted(0.8))
            .prop_map(|(window, replay_protect)| Step::Changes { window, replay_protect }),
    ]
}

proptest! {
    /// Whatever the windows are and however often they change: under replay protection no frame is delivered that
    /// was delivered before, and none is refused that is above all that was seen.
    #[test]
    fn nothing_becomes_fresh_again(steps in prop::collection::vec(step(), 1..120)) {
        let frames = protected(&mut sender(A, SETTINGS, SUITE, 1), &sdus(300, 60));
        let mut rx = receiver(SETTINGS, SUITE, 1, 0);
        let mut seen = BTreeSet::new();
        let mut protects = true;
        for step in steps {
            match step {
                Step::Arrives(index) => {
                    let passed = matches!(verify(&mut rx, &frames[index]), Outcome::Passed(_));
                    let newest = seen.last().is_none_or(|&last| index > last);
                    prop_assert!(passed || !newest, "{index} is new");
                    let fresh = if passed { seen.insert(index) } else { true };
                    prop_assert!(fresh || !protects, "{index} was delivered before");
                }
                Step::Changes { window, replay_protect } => {
                    let settings = Settings { replay_protect, ..SETTINGS };
                    let mut next = receiver(settings, SUITE, 1, window);
                    next.take_over(&mut rx, &CarryOver { receive: receiving(&[0]), ..CarryOver::default() });
                    (rx, protects) = (next, replay_protect);
                }
            }
        }
    }
}
