//! Shadow mode: frames pass in clear, twins are verified beside them, and a relation is switched over without a lost frame.
#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

mod cell;

use cell::{MODES, MTU, Pair, machine, settings};
use fieldbus::{Direction, InwardFrame, Mode, ReceiveDiscard, Relations, Settings};

/// Gives an end's only relation another mode, as a reload does.
fn switch(pair: &mut Pair, end: usize, mode: Mode) {
    let mut relation = settings(end, 0);
    relation.mode = mode;
    let mut next = Relations::new(Settings::new(pair.protection, MTU), &[relation]).unwrap();
    next.take_over(&mut pair.ends[end], &[(0, 0)]);
    pair.ends[end] = next;
}

/// Frames of one cycle that reach the machine, in clear and as the twin, if the path loses only those that
/// `loses` names.
fn cycle(pair: &mut Pair, from: usize, loses: [bool; 2]) -> usize {
    let frame = machine(from, 0, 44);
    let found = pair.ends[from].find_outward(&frame).unwrap();
    let in_clear = pair.ends[from].pass_clear(found, Direction::Outward, &frame).is_some();
    let twin = pair.protect(from, &frame).unwrap();
    let mut delivered = 0;
    if in_clear && !loses[0] {
        let InwardFrame::Clear(found) = pair.ends[1 - from].find_inward(&frame) else {
            panic!("a relation's, in clear")
        };
        delivered += usize::from(pair.ends[1 - from].pass_clear(found, Direction::Inward, &frame).is_some());
    }
    pair.now = pair.now.later(cell::CYCLE);
    if !loses[1] {
        match pair.verify(1 - from, &twin) {
            Ok(_) => delivered += 1,
            Err(ReceiveDiscard::Shadow) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    delivered
}

fn each_once(pair: &mut Pair) {
    for _ in 0..5 {
        for from in [0, 1] {
            assert_eq!(cycle(pair, from, [false; 2]), 1);
        }
    }
}

#[test]
fn one_gateway_after_the_other_is_switched_over_and_back() {
    for first in [0, 1] {
        let mut pair = Pair::secured(MODES[0], 1);
        for mode in [Mode::Shadow, Mode::Protect, Mode::Shadow] {
            for end in [first, 1 - first] {
                switch(&mut pair, end, mode);
                each_once(&mut pair);
            }
        }
        let received = pair.status(0, 0).receive;
        // Two of six phases by its own mode, two by the other's.
        assert_eq!(received.in_pkts_ok, 20, "{received:?}");
        assert_eq!((received.in_pkts_missing, received.in_pkts_not_valid), (0, 0));
    }
}

#[test]
fn what_is_lost_in_clear_is_delivered_by_its_twin() {
    let mut pair = Pair::secured(MODES[0], 1);
    [0, 1].into_iter().for_each(|end| switch(&mut pair, end, Mode::Shadow));
    each_once(&mut pair);
    assert_eq!(cycle(&mut pair, 0, [true, false]), 1);
    // A twin that is lost makes no difference, then or later.
    assert_eq!(cycle(&mut pair, 0, [false, true]), 1);
    each_once(&mut pair);
    switch(&mut pair, 0, Mode::Protect);
    each_once(&mut pair);
}

#[test]
fn what_passed_before_the_session_counts_for_nothing() {
    let mut pair = Pair::new(MODES[0], 1);
    [0, 1].into_iter().for_each(|end| switch(&mut pair, end, Mode::Shadow));
    let frame = machine(0, 0, 44);
    for _ in 0..300 {
        let InwardFrame::Clear(found) = pair.ends[1].find_inward(&frame) else {
            panic!("a relation's, in clear")
        };
        assert!(pair.ends[1].pass_clear(found, Direction::Inward, &frame).is_some());
    }
    pair.secure(0);
    each_once(&mut pair);
    switch(&mut pair, 0, Mode::Protect);
    each_once(&mut pair);
}

#[test]
fn a_twin_behind_the_change_is_no_second_frame() {
    let mut pair = Pair::secured(MODES[0], 1);
    [0, 1].into_iter().for_each(|end| switch(&mut pair, end, Mode::Shadow));
    each_once(&mut pair);
    let frame = machine(0, 0, 44);
    let InwardFrame::Clear(found) = pair.ends[1].find_inward(&frame) else {
        panic!("a relation's, in clear")
    };
    assert!(pair.ends[1].pass_clear(found, Direction::Inward, &frame).is_some());
    switch(&mut pair, 1, Mode::Protect);
    let twin = pair.protect(0, &frame).unwrap();
    assert_eq!(pair.verify(1, &twin), Err(ReceiveDiscard::Shadow));
    each_once(&mut pair);
}

/// A gateway sends the frames of a burst in clear, then their twins. The other one changes its mode between the two.
#[test]
fn twins_of_a_burst_behind_the_change_are_no_second_frames() {
    for lost in [None, Some(0), Some(1), Some(2)] {
        let mut pair = Pair::secured(MODES[0], 1);
        [0, 1].into_iter().for_each(|end| switch(&mut pair, end, Mode::Shadow));
        each_once(&mut pair);
        let frames = [1, 2, 3].map(|number| {
            let mut frame = machine(0, 0, 44);
            frame[20] ^= number;
            frame
        });
        for frame in &frames {
            let InwardFrame::Clear(found) = pair.ends[1].find_inward(frame) else {
                panic!("a relation's, in clear")
            };
            assert!(pair.ends[1].pass_clear(found, Direction::Inward, frame).is_some());
        }
        switch(&mut pair, 1, Mode::Protect);
        for (number, frame) in frames.iter().enumerate() {
            let twin = pair.protect(0, frame).unwrap();
            if lost != Some(number) {
                assert_eq!(pair.verify(1, &twin), Err(ReceiveDiscard::Shadow), "{number}, lost {lost:?}");
            }
        }
        each_once(&mut pair);
        // A payload that comes again later is another frame.
        let later = pair.protect(0, &frames[0]).unwrap();
        assert!(pair.verify(1, &later).is_ok());
    }
}

/// Frames of a burst come in clear, then their twins, of which some are lost: nothing comes to the machine twice, now or
/// when the other gateway protects, whether payloads change or not.
#[test]
fn a_lost_twin_of_a_burst_brings_none_of_the_others_a_second_time() {
    for (lost, changes) in
        [None, Some(0), Some(1), Some(2)].into_iter().flat_map(|lost| [(lost, 0), (lost, 1)])
    {
        let mut pair = Pair::secured(MODES[0], 1);
        [0, 1].into_iter().for_each(|end| switch(&mut pair, end, Mode::Shadow));
        each_once(&mut pair);
        let frames = [1, 2, 3].map(|number| {
            let mut frame = machine(0, 0, 44);
            frame[20] ^= number * changes;
            frame
        });
        for frame in &frames {
            let InwardFrame::Clear(found) = pair.ends[1].find_inward(frame) else {
                panic!("a relation's, in clear")
            };
            assert!(pair.ends[1].pass_clear(found, Direction::Inward, frame).is_some());
        }
        for (number, frame) in frames.iter().enumerate() {
            let twin = pair.protect(0, frame).unwrap();
            if lost != Some(number) {
                assert_eq!(pair.verify(1, &twin), Err(ReceiveDiscard::Shadow), "{number}, lost {lost:?}");
            }
        }
        each_once(&mut pair);
        switch(&mut pair, 0, Mode::Protect);
        each_once(&mut pair);
    }
}

/// The first burst of a session: its frames in clear come before the twin that begins it.
#[test]
fn a_burst_that_begins_a_session_comes_once() {
    let mut pair = Pair::new(MODES[0], 1);
    [0, 1].into_iter().for_each(|end| switch(&mut pair, end, Mode::Shadow));
    pair.secure(0);
    let frames = [1, 2, 3].map(|number| {
        let mut frame = machine(0, 0, 44);
        frame[20] ^= number;
        frame
    });
    for frame in &frames {
        let InwardFrame::Clear(found) = pair.ends[1].find_inward(frame) else {
            panic!("a relation's, in clear")
        };
        assert!(pair.ends[1].pass_clear(found, Direction::Inward, frame).is_some());
    }
    for (number, frame) in frames.iter().enumerate() {
        let twin = pair.protect(0, frame).unwrap();
        assert_eq!(pair.verify(1, &twin), Err(ReceiveDiscard::Shadow), "{number}");
    }
    each_once(&mut pair);
}

/// The other gateway is in shadow mode still: what it sends in clear is refused, and nobody has forged it.
#[test]
fn what_is_refused_in_clear_is_told_from_a_forgery_by_its_twin() {
    let mut pair = Pair::secured(MODES[0], 1);
    switch(&mut pair, 0, Mode::Shadow);
    each_once(&mut pair);
    let received = pair.status(1, 0).receive;
    assert_eq!((received.in_pkts_clear_refused, received.in_pkts_clear_twin, received.in_pkts_ok), (5, 5, 5));
    let mut forged = machine(0, 0, 44);
    forged[20] ^= 1;
    let InwardFrame::Clear(found) = pair.ends[1].find_inward(&forged) else {
        panic!("a relation's, in clear")
    };
    assert!(pair.ends[1].pass_clear(found, Direction::Inward, &forged).is_none());
    each_once(&mut pair);
    let received = pair.status(1, 0).receive;
    assert_eq!(
        (received.in_pkts_clear_refused, received.in_pkts_clear_twin, received.in_pkts_ok),
        (11, 10, 10)
    );
}

#[test]
fn replays_in_clear_hold_up_nothing_behind_the_change() {
    for twin_under_way in [false, true] {
        let mut pair = Pair::secured(MODES[0], 1);
        [0, 1].into_iter().for_each(|end| switch(&mut pair, end, Mode::Shadow));
        each_once(&mut pair);
        let frame = machine(0, 0, 44);
        let mut replayed = frame.clone();
        replayed[20] ^= 1;
        let clear = |pair: &mut Pair, frame: &[u8]| {
            let InwardFrame::Clear(found) = pair.ends[1].find_inward(frame) else {
                panic!("a relation's, in clear")
            };
            assert!(pair.ends[1].pass_clear(found, Direction::Inward, frame).is_some());
        };
        (0..100).for_each(|_| clear(&mut pair, &replayed));
        if twin_under_way {
            clear(&mut pair, &frame);
        }
        switch(&mut pair, 1, Mode::Protect);
        let twin = pair.protect(0, &frame).unwrap();
        assert_eq!(pair.verify(1, &twin).is_ok(), !twin_under_way);
        each_once(&mut pair);
    }
}
