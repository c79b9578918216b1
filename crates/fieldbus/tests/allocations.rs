//! The data path allocates nothing and frees nothing, whatever comes and whatever changes.

#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

mod cell;

use cell::{MODES, Pair, machine, protected, seq};
use fieldbus::{Direction, Incoming, KeyChange, LiveSession, Outgoing, RetiredKeys};
use wire::Frame;

const RELATIONS: usize = 1024;
const BURST: usize = 64;

/// Protects a burst in chunks and verifies it at the other end, all of it counted.
fn pass(pair: &mut Pair, chunks: &mut [Vec<u8>], first: usize) {
    let frames: Vec<Vec<u8>> = (first..first + BURST).map(|number| machine(0, number, 40)).collect();
    for (chunk, frame) in chunks.iter_mut().zip(&frames) {
        chunk[64..64 + frame.len()].copy_from_slice(frame);
    }
    let now = pair.now;
    let [left, right] = &mut pair.ends;
    let mut outgoing: Vec<Outgoing<'_>> = Vec::with_capacity(BURST);
    let mut wire: Vec<(usize, usize)> = Vec::with_capacity(BURST);
    let counted = allocation_counter::measure(|| {
        for (chunk, frame) in chunks.iter_mut().zip(&frames) {
            let found = left.find_outward(frame).unwrap();
            assert!(left.pass_clear(found, Direction::Outward, frame).is_none());
            outgoing.push(Outgoing::new(Frame::new(chunk, 64, frame.len()).unwrap(), found));
        }
        left.protect(&mut outgoing);
        for outgoing in outgoing.drain(..) {
            wire.push((outgoing.frame().start(), outgoing.frame().len()));
            assert!(outgoing.into_outcome().is_ok());
        }
    });
    assert_eq!((counted.count_total, counted.count_current), (0, 0));
    let mut incoming: Vec<Incoming<'_>> = Vec::with_capacity(BURST);
    let counted = allocation_counter::measure(|| {
        for (index, (chunk, (start, len))) in chunks.iter_mut().zip(wire.drain(..)).enumerate() {
            // Some are not genuine.
            chunk[start + len - 1] ^= u8::from(index % 5 == 4);
            let found = protected(right.find_inward(&chunk[start..start + len])).unwrap();
            incoming.push(Incoming::new(Frame::new(chunk, start, len).unwrap(), found));
        }
        right.verify(now, &mut incoming);
        for incoming in incoming.drain(..) {
            let _ = incoming.into_outcome();
        }
        for number in first..first + BURST {
            right.record_residence(number, Direction::Inward, std::time::Duration::from_micros(3));
        }
        while !right.handle_timeout(now) {}
        assert!(right.is_watched());
    });
    assert_eq!((counted.count_total, counted.count_current), (0, 0));
}

#[test]
fn a_thousand_relations_pass_and_change_without_an_allocation() {
    let mut pair = Pair::with(MODES[0], RELATIONS, |settings| settings.epoch_end = seq(2));
    (0..RELATIONS).for_each(|number| pair.secure(number));
    let mut chunks = vec![vec![0u8; 256]; BURST];
    // The cipher library makes room for its error queue when a thread first refuses a frame.
    let refused = { pair.protect(0, &machine(0, 0, 40)).unwrap() };
    let mut flipped = refused;
    *flipped.last_mut().unwrap() ^= 1;
    assert!(pair.verify(1, &flipped).is_err());
    let mut out: Vec<RetiredKeys> = Vec::with_capacity(4 * RELATIONS);
    for round in 0..4 {
        for first in (0..RELATIONS).step_by(BURST) {
            pair.now = pair.now.later(cell::CYCLE);
            pass(&mut pair, &mut chunks, first);
        }
        // Keys come in and go out, made and freed elsewhere.
        let sessions: Vec<_> = (0..RELATIONS).map(|number| pair.session(number, 40 * (round + 1))).collect();
        for (number, sessions) in sessions.into_iter().enumerate() {
            let enable = sessions[0].number;
            for (end, session) in sessions.into_iter().enumerate() {
                let session = LiveSession::new(session);
                let counted = allocation_counter::measure(|| {
                    out.push(pair.ends[end].change(number, KeyChange::Enter(session)));
                    drop(pair.ends[end].change(number, KeyChange::Enable(enable)));
                    while pair.ends[end].poll_event().is_some() {}
                });
                assert_eq!((counted.count_total, counted.count_current), (0, 0));
            }
        }
        out.clear();
    }
}
