//! Cover at a constant rate, on a virtual clock: what a network sees does not depend on what machines send, and whatever they send is
//! delivered in order or counted.
#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

mod ends;
mod stalls;

use dataplane::cover::{LATEST, queue_octets};
use proptest::prelude::*;
use secy::{CarryOver, FrameSizes};
use wire::extension::padded::{COVER_DESTINATION, COVER_MARK};
use wire::{An, Instant, Pn};

use ends::{A, B, End, at, cover, key, pipeline, sdu};

/// View of the network: when, how long, and all that is in clear but for the PN.
fn seen(now: Instant, frame: &[u8]) -> (Instant, usize, Vec<u8>) {
    let mut clear = frame[..30].to_vec();
    clear[16..20].fill(0);
    (now, frame.len(), clear)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// One station sends nothing, one what a machine may send, and one all that it can, at the same moments: the three cannot be told
    /// apart on the network. All SDUs are delivered in order, or counted.
    #[test]
    fn a_network_sees_the_same_whatever_is_sent(
        size in prop::sample::select(vec![128_u16, 200, 700, 1514]),
        rate in prop::sample::select(vec![10_u16, 333, 1000, 10_000]),
        turns in prop::collection::vec(
            (prop_oneof![8 => 1..3000_u64, 1 => 0..400_000_u64], prop::collection::vec(0..1478_usize, 0..20)),
            1..120,
        ),
    ) {
        let new = |_| (End::new(A, B, cover(size, rate)), End::new(B, A, FrameSizes::NONE));
        let mut pairs = [0, 1, 2].map(new);
        let mut views = [vec![], vec![], vec![]];
        let mut delivered = vec![vec![]; 3];
        let mut sent: [Vec<Vec<u8>>; 3] = Default::default();
        let (mut now, mut number) = (0, 0);
        let mut counts = 0;
        for (gap, sdus) in turns {
            now += gap;
            for (kind, (a, b)) in pairs.iter_mut().enumerate() {
                let burst: Vec<usize> = match kind {
                    0 => vec![],
                    1 => sdus.clone(),
                    _ => vec![1478; 64],
                };
                for octets in burst {
                    number += 1;
                    let sdu = sdu(octets, number);
                    prop_assert!(a.machine.inject(&sdu));
                    sent[kind].push(sdu);
                }
                let frames = a.turn(at(now));
                views[kind].extend(frames.iter().map(|frame| seen(at(now), frame)));
                delivered[kind].extend(b.deliver(&frames, at(now)));
            }
            counts += 1;
        }
        prop_assert!(views[0] == views[1] && views[0] == views[2], "the three differ");
        prop_assert!(views[0].iter().all(|(_, octets, _)| *octets == usize::from(size)));
        prop_assert!(views[0].len() <= counts * 100, "no turn sends more than a burst of ticks");
        prop_assert!(delivered[0].is_empty());
        // The rest leaves with the ticks that follow.
        for (kind, (a, b)) in pairs.iter_mut().enumerate() {
            let mut later = now;
            while !is_all_settled(a, &sent[kind], &delivered[kind]) {
                later += 1_000_000 / u64::from(rate);
                let frames = a.turn(at(later));
                delivered[kind].extend(b.deliver(&frames, at(later)));
                prop_assert!(later < now + 4_000_000_000, "SDUs stay in the queue");
            }
            let c = a.counters();
            let lost = c.out_sdus_cover_overrun;
            prop_assert_eq!(c.out_sdus_too_long, 0);
            prop_assert_eq!(delivered[kind].len() as u64 + lost, sent[kind].len() as u64);
            // Ticks that are left out stay so; the others are in their order and unchanged.
            let mut all = sent[kind].iter();
            prop_assert!(delivered[kind].iter().all(|sdu| all.any(|sent| sent == sdu)), "another order, or changed");
            let received = b.link.pipeline().secy.receive_scs().next().unwrap().counters();
            prop_assert_eq!((received.in_pkts_malformed, received.in_pieces_lost, received.in_pieces_mismatched), (0, 0, 0));
            prop_assert_eq!(b.link.pipeline().counters().in_pkts_padding, c.out_pkts_cover_empty);
            prop_assert_eq!(received.in_pkts_ok, c.out_pkts_cover);
            a.assert_no_chunk_is_lost();
            b.assert_no_chunk_is_lost();
        }
    }
}

fn is_all_settled(a: &End, sent: &[Vec<u8>], delivered: &[Vec<u8>]) -> bool {
    delivered.len() as u64 + a.counters().out_sdus_cover_overrun == sent.len() as u64
}

/// All frames of a second, if the link has a turn each 250 us.
fn of_a_second(end: &mut End, from: u64) -> usize {
    (0..4000).map(|turn| end.turn(at(from + 250 * turn)).len()).sum()
}

#[test]
fn the_rate_is_exact_and_what_is_in_clear_says_nothing() {
    for rate in [10, 333, 1000, 3000, 10_000] {
        let mut a = End::new(A, B, cover(256, rate));
        let counts = [0, 1, 2].map(|second| of_a_second(&mut a, second * 1_000_000));
        assert_eq!(counts[1..], [usize::from(rate); 2], "{rate}");
        assert_eq!(a.counters().out_ticks_missed, 0);
    }
    let mut a = End::new(A, B, cover(256, 100));
    let frame = a.turn(at(0)).remove(0);
    assert_eq!((&frame[..6], &frame[6..12]), (&COVER_DESTINATION.0[..], &A.0[..]));
    assert_eq!((frame[15], &frame[28..30]), (0x80, &COVER_MARK[..]), "neither MF nor SL");
    assert_eq!(a.link.due(), Some(at(10_000)), "the worker sleeps until the next tick");
}

/// A worker that stood still sends no burst that tells for how long.
#[test]
fn a_late_worker_sends_a_bounded_number() {
    let bound = |rate: usize| (LATEST.as_micros() as usize * rate / 1_000_000).clamp(1, 64);
    for (rate, late) in [(10, 1_000_000), (1000, 20_000), (1000, 60_000_000), (10_000, 60_000_000)] {
        let mut a = End::new(A, B, cover(256, rate as u16));
        assert_eq!(a.turn(at(0)).len(), 1);
        (0..20).for_each(|number| assert!(a.machine.inject(&sdu(1400, number))));
        assert_eq!(a.turn(at(late)).len(), bound(rate), "{rate}, {late}");
        assert_eq!(a.turn(at(late)).len(), 0, "what was left out is not sent later");
        let ticks = late as usize * rate / 1_000_000;
        assert_eq!(a.counters().out_ticks_missed as usize, ticks - bound(rate));
        // The grid is what it was.
        assert_eq!(a.turn(at(late + 1_000_000 / rate as u64)).len(), 1);
    }
}

#[test]
fn more_than_leaves_waits_in_a_bounded_queue_and_then_is_counted() {
    let (size, rate) = (1514, 10);
    let mut a = End::new(A, B, cover(size, rate));
    for burst in 0..20 {
        (0..64).for_each(|number| assert!(a.machine.inject(&sdu(1000, 64 * burst + number))));
        a.turn(at(burst));
    }
    let waits = 20 * 64 - a.counters().out_sdus_cover_overrun as usize;
    // The frame of the only tick left before they came.
    assert_eq!(waits, queue_octets(size, rate) / (1022 + 2));
    a.assert_no_chunk_is_lost();
    // Without ports its SDUs are gone, and counted as not sent. No tick wakes a worker then.
    let before = a.link.port_counters()[1].tx_dropped;
    let ports = a.link.close();
    let gone = a.link.port_counters()[1].tx_dropped - before;
    assert_eq!(gone, waits as u64);
    assert_eq!(a.link.due(), None);
    a.link.open(ports.unwrap());
    assert_eq!(a.link.due(), Some(at(100_000)));
}

/// The parts of an SDU are under one SA, with PNs without a gap: else it begins anew, and is not lost.
#[test]
fn a_new_sa_between_the_parts_of_an_sdu_loses_nothing() {
    let (mut a, mut b) = (
        End::new(A, B, cover(256, 1000)),
        End::of(pipeline(B, A, FrameSizes::NONE, &An::ALL[..2], Pn::FIRST)),
    );
    let sdus = [sdu(1400, 1), sdu(60, 2)];
    sdus.iter().for_each(|sdu| assert!(a.machine.inject(sdu)));
    let mut delivered = Vec::new();
    for tick in 0..3 {
        let frames = a.turn(at(1000 * tick));
        delivered.extend(b.deliver(&frames, at(1000 * tick)));
    }
    assert_eq!(delivered, Vec::<Vec<u8>>::new(), "it is under way");
    let an = An::ALL[1];
    a.send_under(key(A, an), an, Pn::FIRST, Pn::LAST_64);
    for tick in 3..13 {
        let frames = a.turn(at(1000 * tick));
        assert_eq!((frames.len(), frames[0].len()), (1, 256));
        delivered.extend(b.deliver(&frames, at(1000 * tick)));
    }
    assert_eq!(delivered, sdus);
    // Without an SA nothing leaves, no SDU is lost, and the ticks are counted.
    assert!(a.machine.inject(&sdus[0]));
    let retired = a.link.pipeline_mut().secy.retire_transmit(an).unwrap();
    assert_eq!(a.turn(at(13_000)).len(), 0);
    assert_eq!(a.counters().out_ticks_missed, 1);
    let secy = &mut a.link.pipeline_mut().secy;
    secy.install_transmit(retired).unwrap();
    secy.enable_transmit(an).unwrap();
    let delivered: Vec<_> = (14..24)
        .flat_map(|tick| {
            let frames = a.turn(at(1000 * tick));
            b.deliver(&frames, at(1000 * tick))
        })
        .collect();
    assert_eq!(delivered, sdus[..1]);
}

/// A link that gets cover, other cover, and none while SDUs wait.
#[test]
fn cover_comes_changes_and_goes_without_a_lost_sdu() {
    let (mut a, mut b) = (End::new(A, B, FrameSizes::NONE), End::new(B, A, FrameSizes::NONE));
    let kinds = [
        cover(256, 1000),
        cover(1514, 500),
        FrameSizes::NONE,
        FrameSizes::new(&[512]).unwrap(),
        cover(128, 2000),
        FrameSizes::NONE,
    ];
    let (mut number, mut now, mut delivered) = (0, 0, vec![]);
    for padding in kinds {
        let mut next = pipeline(A, B, padding, &[], Pn::FIRST);
        a.link.change(&mut next, &CarryOver { all: true, ..CarryOver::default() });
        for _ in 0..20 {
            for _ in 0..3 {
                number += 1;
                assert!(a.machine.inject(&sdu((number * 37 % 1400) as usize, number)));
            }
            now += 500;
            let frames = a.turn(at(now));
            delivered.extend(b.deliver(&frames, at(now)));
        }
    }
    for _ in 0..20 {
        now += 500;
        let frames = a.turn(at(now));
        delivered.extend(b.deliver(&frames, at(now)));
    }
    assert_eq!(
        delivered,
        (1..=number).map(|number| sdu((number * 37 % 1400) as usize, number)).collect::<Vec<_>>()
    );
    assert_eq!(a.counters().out_sdus_cover_overrun, 0);
    a.assert_no_chunk_is_lost();
}

/// SDUs that wait go on in the next program of the process, from the middle of one.
#[test]
fn what_waits_is_passed_on() {
    let (mut a, mut b) = (End::new(A, B, cover(256, 1000)), End::new(B, A, FrameSizes::NONE));
    let sdus: Vec<_> = (0..20).map(|number| sdu(60 * number as usize, number)).collect();
    sdus.iter().for_each(|sdu| assert!(a.machine.inject(sdu)));
    let mut delivered = Vec::new();
    for tick in 0..9 {
        let frames = a.turn(at(1000 * tick));
        delivered.extend(b.deliver(&frames, at(1000 * tick)));
    }
    let (words, next) = (a.link.words(), a.link.pipeline().secy.next_pn().unwrap().1);
    let made = |padding| End::of(pipeline(A, B, padding, &An::ALL[..1], next));
    // The next one has other settings, or was told nonsense.
    assert!(made(FrameSizes::NONE).link.go_on(&words).is_err());
    for len in (0..words.len()).step_by(61).chain([words.len() - 1]) {
        assert!(made(cover(256, 1000)).link.go_on(&words[..len]).is_err(), "{len} words");
    }
    let mut next = made(cover(256, 1000));
    next.link.go_on(&words).unwrap();
    for tick in 0..80 {
        let frames = next.turn(at(1000 * tick));
        delivered.extend(b.deliver(&frames, at(1000 * tick)));
    }
    assert_eq!(delivered, sdus);
    let received = b.link.pipeline().secy.receive_scs().next().unwrap().counters();
    assert_eq!((received.in_pieces_lost, received.in_pieces_mismatched), (0, 0));
}
