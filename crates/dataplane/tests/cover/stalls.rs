//! What waits while no frame can leave, and while SAs and receivers change.

use dataplane::fragmenter::Fragmenter;
use secy::{FrameSizes, NextAction};
use suite::{Key, Sak};
use wire::{An, Pn};

use super::ends::{A, B, End, SETTINGS, SUITE, at, cover, fragmentation, key, pipeline, sdu};

const RATE: u16 = 1000;
/// Microseconds between two ticks.
const TICK: u64 = 1000;
/// Ticks in which nothing leaves, and after which what waits is too old.
const TOO_OLD: u64 = 200;

/// An end without a transmit SA, and one that receives under two ANs.
fn ends(size: u16) -> (End, End) {
    let a = End::of(pipeline(A, B, cover(size, RATE), &[], Pn::FIRST));
    (a, End::of(pipeline(B, A, FrameSizes::NONE, &An::ALL[..2], Pn::FIRST)))
}

/// Payloads that B's machine gets over these ticks of A.
fn delivered(a: &mut End, b: &mut End, ticks: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    let of_tick = |tick| {
        let frames = a.turn(at(TICK * tick));
        b.deliver(&frames, at(TICK * tick))
    };
    ticks.flat_map(of_tick).collect()
}

fn pn(number: u64) -> Pn {
    Pn::new(number).unwrap()
}

/// A disk that stands still, an SA whose PNs are used up, and no SA: four frames leave, and then none for seconds. What came long ago is
/// not delivered before what comes now, and nothing but lost payloads counts as lost.
#[test]
fn what_waits_while_nothing_can_leave_does_not_grow_old() {
    const STALL: u64 = 5000;
    let last = Pn::LAST_32.number();
    for (sa, need) in [
        (Some((Pn::FIRST, pn(4))), NextAction::AwaitReservation),
        (Some((pn(last - 3), Pn::LAST_64)), NextAction::Exhausted),
        (None, NextAction::Continue),
    ] {
        let (mut a, mut b) = ends(256);
        let leave = if sa.is_some() { 4 } else { 0 };
        let an = An::ALL[0];
        if let Some((next, reserved)) = sa {
            a.send_under(key(A, an), an, next, reserved);
        }
        assert_eq!(delivered(&mut a, &mut b, 0..1), Vec::<Vec<u8>>::new());
        for tick in 1..STALL {
            if tick % 100 == 50 {
                assert!(a.machine.inject(&sdu(40, tick)));
            }
            let (_, needs) = a.link.turn(at(TICK * tick), std::time::Instant::now());
            assert!(tick < leave || needs == need, "it is told at each tick, for control may not have heard");
            assert_eq!(a.wire.collect().is_some(), tick < leave);
            let aged = tick >= leave.saturating_sub(1) + TOO_OLD;
            // What came in a turn is judged in the next one.
            let came = (tick + 49) / 100;
            assert_eq!(a.counters().out_sdus_cover_expired, if aged { came } else { 0 }, "{need:?}, {tick}");
        }
        assert_eq!(a.counters().out_ticks_missed, STALL - leave);
        let secy = a.link.pipeline().secy.counters();
        let discarded = [secy.out_pkts_pn_unreserved, secy.out_pkts_pn_exhausted, secy.out_pkts_no_sa];
        assert_eq!(discarded, [0; 3], "no payload was lost with these frames");
        // Over.
        match sa {
            Some((next, _)) if next == Pn::FIRST => {
                a.link.reserve_through(an, Pn::LAST_64);
            }
            _ => a.send_under(key(A, An::ALL[1]), An::ALL[1], Pn::FIRST, Pn::LAST_64),
        }
        let new = [sdu(700, 1), sdu(40, 2)];
        new.iter().for_each(|sdu| assert!(a.machine.inject(sdu)));
        assert!(delivered(&mut a, &mut b, STALL..STALL + 10) == new, "{need:?}");
        let counters = a.counters();
        assert_eq!((counters.out_sdus_cover_expired, counters.out_sdus_cover_overrun), (STALL / 100, 0));
        a.assert_no_chunk_is_lost();
    }
}

/// A chain that would need more PNs than are left waits for them, and is no discard at each tick.
#[test]
fn a_payload_waits_for_as_many_pns_as_its_frames_need() {
    let (mut a, mut b) = ends(256);
    let an = An::ALL[0];
    a.send_under(key(A, an), an, Pn::FIRST, pn(4));
    assert!(a.machine.inject(&sdu(1400, 1)));
    assert_eq!(delivered(&mut a, &mut b, 0..100), Vec::<Vec<u8>>::new());
    assert_eq!(a.link.pipeline().secy.counters().out_pkts_pn_unreserved, 0);
    a.link.reserve_through(an, Pn::LAST_64);
    assert!(delivered(&mut a, &mut b, 100..110) == [sdu(1400, 1)]);
}

/// The frame under an SA's last PN has left: what it held is not sent again under the next SA.
#[test]
fn what_left_under_the_last_pn_is_not_sent_again() {
    let (mut a, mut b) = ends(256);
    let [old, new] = [An::ALL[0], An::ALL[1]];
    a.send_under(key(A, old), old, pn(Pn::LAST_32.number() - 1), Pn::LAST_64);
    let sdus = [sdu(40, 1), sdu(60, 2)];
    assert!(a.machine.inject(&sdus[0]));
    let mut all = delivered(&mut a, &mut b, 0..2);
    assert_eq!((all.len(), a.counters().out_pkts_cover), (1, 2));
    a.send_under(key(A, new), new, Pn::FIRST, Pn::LAST_64);
    assert!(a.machine.inject(&sdus[1]));
    all.extend(delivered(&mut a, &mut b, 2..5));
    assert_eq!(all, sdus);
}

/// A receiver that takes shorter payloads joins while some wait: each is judged when it is its turn.
#[test]
fn what_receivers_do_not_take_any_more_is_discarded_when_it_is_its_turn() {
    let (mut a, mut b) = ends(256);
    let an = An::ALL[0];
    a.send_under(key(A, an), an, Pn::FIRST, Pn::LAST_64);
    let sdus = [sdu(1400, 1), sdu(60, 2), sdu(1400, 3), sdu(500, 4)];
    sdus.iter().for_each(|sdu| assert!(a.machine.inject(sdu)));
    // The first is under way.
    assert_eq!(delivered(&mut a, &mut b, 0..4), Vec::<Vec<u8>>::new());
    let shorter = Fragmenter::new(&SETTINGS, fragmentation(cover(256, RATE)), 1000);
    a.link.pipeline_mut().replace_fragmenter(Some(Box::new(shorter)));
    assert!(delivered(&mut a, &mut b, 4..20) == [sdus[1].clone(), sdus[3].clone()]);
    assert_eq!(a.counters().out_sdus_too_long, 2);
    a.assert_no_chunk_is_lost();
}

/// The moment at which a tick's frame leaves does not depend on how much there is to take from the ports.
#[test]
fn the_frame_of_a_tick_leaves_before_what_came_is_taken() {
    let (mut a, mut b) = ends(256);
    let an = An::ALL[0];
    a.send_under(key(A, an), an, Pn::FIRST, Pn::LAST_64);
    assert!(a.machine.inject(&sdu(40, 1)));
    assert_eq!(delivered(&mut a, &mut b, 0..1), Vec::<Vec<u8>>::new());
    assert_eq!(a.counters().out_pkts_cover_empty, 1);
    assert_eq!(delivered(&mut a, &mut b, 1..2), [sdu(40, 1)]);
}

/// Time in which nothing came would make frames cheaper, and so earlier.
#[test]
fn a_link_with_cover_makes_no_keystreams_ahead() {
    for (padding, makes) in [(FrameSizes::NONE, true), (cover(256, RATE), false)] {
        let mut a = End::of(pipeline(A, B, padding, &[], Pn::FIRST));
        let antedating = Key::prepare_antedated(SUITE, &Sak::new(SUITE, &[7; 16]).unwrap()).unwrap();
        a.send_under(antedating, An::ALL[0], Pn::FIRST, Pn::LAST_64);
        assert_eq!(a.link.antedate(), makes);
    }
}
