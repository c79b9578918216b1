//! One step of a window from every state, through its own code and at its full size: an induction over all sequences of PNs.
//!
//! A state is the place where the ring begins, and blocks with ascending numbers. The code compares numbers with each other alone. So the
//! blocks may have the numbers 1, 3, 5 and so on, and a PN may come in each of them and between each two: every order that numbers can
//! have is met. What else a sender looks at ([`PnWindow::admit`]) lets it reject a PN, and never accept one.

extern crate std;
use std::vec::Vec;

use super::FragmentKind::{First, Second, Whole};
use super::Freshness::{Crowded, Late, New, Seen};
use super::*;

const KINDS: [FragmentKind; 3] = [Whole, First, Second];
/// Place in its block of the PN that comes.
const PLACE: u32 = 13;

/// The two bits of a PN that a fragment uses up.
const fn halves(kind: FragmentKind) -> u64 {
    match kind {
        Whole => 3,
        First => 1,
        Second => 2,
    }
}

/// Number of the block with an index.
const fn numbered(index: usize) -> u32 {
    index as u32 * 2 + 1
}

/// What is used of a block: of [`PLACE`] these two bits, elsewhere what tells the block from others.
const fn word(index: usize, used: u64) -> u64 {
    let elsewhere = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    elsewhere & !(0b11 << shift(PLACE)) | used << shift(PLACE)
}

/// A window whose ring begins at `head`.
fn window(head: usize, len: usize, used: u64) -> PnWindow {
    let mut window = PnWindow { head: head as u8, len: len as u8, ..PnWindow::new() };
    for index in 0..len {
        let slot = window.slot(index);
        (window.numbers[slot], window.bits[slot]) = (numbered(index), word(index, used));
    }
    window
}

/// All states, with two bits of [`PLACE`] that are used in each block. Before it is full a ring begins at 0.
fn states() -> impl Iterator<Item = PnWindow> {
    let filling = (0..BLOCKS).map(|len| (0, len));
    let full = (0..BLOCKS).map(|head| (head, BLOCKS));
    filling.chain(full).flat_map(|(head, len)| (0..4).map(move |used| window(head, len, used)))
}

fn blocks(window: &PnWindow) -> Vec<(u32, u64)> {
    (0..window.len())
        .map(|index| window.slot(index))
        .map(|slot| (window.numbers[slot], window.bits[slot]))
        .collect()
}

/// What has to become of blocks: those with the 64 highest numbers are remembered, and what is below is late.
fn expected(mut blocks: Vec<(u32, u64)>, number: u32, bits: u64) -> (Freshness, Vec<(u32, u64)>) {
    let above = blocks.iter().filter(|(other, _)| *other > number).count();
    match blocks.iter_mut().find(|(other, _)| *other == number) {
        Some((_, used)) if *used & bits != 0 => return (Seen, blocks),
        Some((_, used)) => *used |= bits,
        None if above >= BLOCKS => return (Late, blocks),
        None => blocks.insert(blocks.len() - above, (number, bits)),
    }
    let lost = blocks.len().saturating_sub(BLOCKS);
    (New, blocks.split_off(lost))
}

/// Compares with what has to be, and says what is wrong.
fn check(before: &PnWindow, number: u32, kind: FragmentKind, is: Freshness, after: &PnWindow) {
    let (verdict, left) = expected(blocks(before), number, halves(kind) << shift(PLACE));
    let what = || std::format!("block {number}, {kind:?}: {is:?}; before {before:?}; after {after:?}");
    assert!(is != New || verdict == New, "NOT SO: no PN is accepted twice: {}", what());
    if is == Crowded {
        assert!(
            verdict == New && blocks(after) == blocks(before),
            "NOT SO: a rejected PN changes nothing: {}",
            what()
        );
        return;
    }
    assert_eq!(is, verdict, "NOT SO: a new PN is accepted unless 64 used blocks are above it: {}", what());
    assert_eq!(blocks(after), left, "NOT SO: what is used stays so: {}", what());
    assert!(after.head == 0 || after.len() == BLOCKS, "the states are not all: {}", what());
}

#[test]
fn from_no_state_is_a_pn_accepted_twice_or_a_new_one_rejected() {
    let mut steps = 0;
    for before in states() {
        for number in 0..=numbered(before.len()) {
            for kind in KINDS {
                let (mut after, pn) = (before.clone(), number * PNS_PER_BLOCK + PLACE);
                let is = after.commit(pn, kind);
                check(&before, number, kind, is, &after);
                assert_ne!(after.commit(pn, kind), New, "NOT SO: no PN is accepted twice: {number}");
                steps += 1;
            }
        }
    }
    std::println!("{steps} steps");
    assert!(steps > 90_000, "the states are not all");
}

#[test]
fn a_sender_accepts_nothing_that_a_receiver_rejects() {
    let far = REGION / PNS_PER_BLOCK;
    let mut rejected = 0;
    for (head, credit) in
        [0, 1, BLOCKS - 1].into_iter().flat_map(|head| [0, 1, MOST_CREDIT].map(|credit| (head, credit)))
    {
        for (at, step) in
            [0, numbered(LOW), far].into_iter().flat_map(|at| [0, 1, far].map(|step| (at, step)))
        {
            for (used, last) in
                [0, 0b11].into_iter().flat_map(|used| [0, numbered(LOW), far].map(|last| (used, last)))
            {
                let before = PnWindow { credit, at, step, last, ..window(head, BLOCKS, used) };
                for number in 0..=numbered(BLOCKS) {
                    let mut after = before.clone();
                    let is = after.admit(number * PNS_PER_BLOCK + PLACE);
                    check(&before, number, Whole, is, &after);
                    rejected += u32::from(is == Crowded);
                    assert!(after.credit <= MOST_CREDIT && after.step <= far + far / 8 + 1);
                }
            }
        }
    }
    assert!(rejected > 1_000, "no sender rejected anything: {rejected}");
}

#[test]
fn of_a_block_each_pn_has_two_bits_of_its_own() {
    for (place, used) in (0..PNS_PER_BLOCK).flat_map(|place| (0..4).map(move |used| (place, used))) {
        for (kind, others) in KINDS.into_iter().flat_map(|kind| [(kind, 0), (kind, u64::MAX)]) {
            let others = others & !(0b11 << (place * 2));
            let mut window = window(0, 1, 0);
            window.bits[0] = others | used << (place * 2);
            let is = window.commit(numbered(0) * PNS_PER_BLOCK + place, kind);
            let (verdict, bits) =
                if used & halves(kind) == 0 { (New, used | halves(kind)) } else { (Seen, used) };
            assert_eq!(is, verdict, "NOT SO: no PN is accepted twice: {place}, {kind:?}");
            assert_eq!(
                window.bits[0],
                others | bits << (place * 2),
                "NOT SO: what is used stays so: {place}, {kind:?}"
            );
        }
    }
    // Region, number and place select bits: with two bits set each is seen to keep its own, and no other's.
    for pn in (0..u32::BITS).flat_map(|one| (0..u32::BITS).map(move |other| 1 << one | 1 << other)) {
        let parts = [u32::from(region(pn)) * REGION, number(pn) * PNS_PER_BLOCK, shift(pn) / 2];
        assert_eq!(parts, [pn & 0xe000_0000, pn & 0x1fff_ffe0, pn & 0x1f], "{pn:#x}");
    }
}
