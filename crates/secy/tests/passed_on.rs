//! A SecY that goes on in the next program: the same verdict for whatever comes, the same figures; other words are refused.

mod ends;

use ends::fragments::{REASSEMBLING, buffer, chain, verify_fragments};
use ends::{
    A, B, HERE, SETTINGS, books, protected, receive_sa, receiver, sdus, sender, start_receiving, transmit_sa,
    verify,
};
use proptest::prelude::*;
use secy::passed_on::{PassedOnError, Words};
use secy::{SecY, Settings};
use suite::CipherSuite;
use wire::{Instant, Pn};

const SUITES: [CipherSuite; 2] = [CipherSuite::GcmAes128, CipherSuite::GcmAesXpn256];

/// A SecY with two receive SCs and an SA to send under, as its configuration makes it.
fn made(suite: CipherSuite, window: u32, next: u64) -> SecY {
    let mut secy = receiver(SETTINGS, suite, 1, window);
    secy.install_receive_sc(B).expect("a free SCI");
    start_receiving(&mut secy, B, receive_sa(suite, 1, 1, window));
    ends::start_sending(&mut secy, transmit_sa(suite, 2, next, Pn::LAST_64));
    secy
}

fn words(secy: &SecY) -> Vec<u64> {
    let mut words = Vec::new();
    secy.pass_on(&mut words);
    words
}

fn go_on(secy: &mut SecY, words: &[u64]) -> Result<(), PassedOnError> {
    let mut words = Words::new(words);
    secy.go_on(&mut words)?;
    words.end()
}

proptest! {
    #[test]
    fn it_judges_what_comes_as_the_one_before(
        suite in prop::sample::select(SUITES.to_vec()),
        window in prop::sample::select(vec![0, 1, 63, 64, 65, 130]),
        before in prop::collection::vec(0_usize..260, 0..80),
        behind in prop::collection::vec(0_usize..260, 0..80),
        sent in 0_u64..5,
    ) {
        let frames = protected(&mut sender(A, SETTINGS, suite, 1), &sdus(260, 60));
        let mut one = made(suite, window, 1);
        before.iter().for_each(|&index| drop(verify(&mut one, &frames[index])));
        protected(&mut one, &sdus(sent, 60));
        let mut next = made(suite, window, sent + 1);
        prop_assert_eq!(go_on(&mut next, &words(&one)), Ok(()));
        prop_assert_eq!(books(&next), books(&one));
        for index in behind {
            prop_assert_eq!(verify(&mut next, &frames[index]), verify(&mut one, &frames[index]), "{}", index);
        }
        prop_assert_eq!(protected(&mut next, &sdus(2, 60)), protected(&mut one, &sdus(2, 60)));
        prop_assert_eq!(books(&next), books(&one));
    }

    /// Words of whatever kind neither panic nor make something fresh that is late by the SA's own floor.
    #[test]
    fn other_words_are_refused_or_open_nothing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..4),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let frames = protected(&mut sender(A, SETTINGS, SUITES[0], 1), &sdus(20, 60));
        let mut all = words(&made(SUITES[0], 64, 1));
        let whole = all.len();
        changes.iter().for_each(|(at, word)| all[at.index(whole)] = *word);
        if cuts {
            all.truncate(cut.index(whole));
        }
        let mut next = SecY::new(HERE, SETTINGS);
        next.install_receive_sc(A).expect("a free SCI");
        start_receiving(&mut next, A, receive_sa(SUITES[0], 0, 11, 64));
        next.install_receive_sc(B).expect("a free SCI");
        start_receiving(&mut next, B, receive_sa(SUITES[0], 1, 1, 64));
        ends::start_sending(&mut next, transmit_sa(SUITES[0], 2, 1, Pn::LAST_64));
        let went_on = go_on(&mut next, &all);
        prop_assert!(!cuts || went_on.is_err());
        for frame in &frames[..10] {
            prop_assert!(matches!(verify(&mut next, frame), ends::Outcome::Discarded(_)));
        }
    }
}

/// Parts of SDUs that wait for others wait in the next program too, whatever their order.
#[test]
fn fragments_that_wait_go_on() {
    for suite in SUITES {
        let (whole, mut pieces) = chain(1, 5, 60);
        pieces.iter_mut().for_each(|piece| piece.suite = suite);
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
            for before in 0..5 {
                let mut one = receiver(REASSEMBLING, suite, 1, 64);
                let take = |secy: &mut SecY, at: usize| {
                    let frame = pieces[at].seal();
                    let taken = verify_fragments(secy, Instant::START, &[frame], &mut buffer(1)).remove(0);
                    taken.expect("a part of an SDU")
                };
                for at in &order[..before] {
                    assert_eq!(take(&mut one, *at), Vec::<Vec<u8>>::new());
                }
                let mut next = receiver(REASSEMBLING, suite, 1, 64);
                assert_eq!(go_on(&mut next, &words(&one)), Ok(()));
                assert_eq!(words(&next), words(&one));
                let came: Vec<_> = order[before..].iter().flat_map(|at| take(&mut next, *at)).collect();
                assert_eq!(came, std::slice::from_ref(&whole), "{suite}, {order:?}, {before} before");
                let mut bare = receiver(SETTINGS, suite, 1, 64);
                assert_eq!(go_on(&mut bare, &words(&one)).is_ok(), before == 0, "no room for parts");
            }
        }
    }
}

#[test]
fn words_of_another_secy_are_refused_with_the_reason() {
    let all = words(&made(SUITES[0], 64, 1));
    let refused = |secy: &mut SecY, words: &[u64]| go_on(secy, words).expect_err("other words");
    for cut in 0..all.len() {
        assert_eq!(refused(&mut made(SUITES[0], 64, 1), &all[..cut]), PassedOnError::Short, "{cut}");
    }
    let longer = [&all[..], &[0]].concat();
    assert_eq!(refused(&mut made(SUITES[0], 64, 1), &longer), PassedOnError::Long);
    assert_eq!(refused(&mut made(SUITES[0], 128, 1), &all), PassedOnError::Window);
    assert_eq!(refused(&mut receiver(SETTINGS, SUITES[0], 1, 64), &all), PassedOnError::Sa);
    let mut other = receiver(Settings { mtu: 1400, ..SETTINGS }, SUITES[0], 1, 64);
    ends::start_sending(&mut other, transmit_sa(SUITES[0], 2, 1, Pn::LAST_64));
    assert_eq!(refused(&mut other, &all), PassedOnError::Sc);
}
