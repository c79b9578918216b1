//! One window, against a set of what it should hold.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use proptest::collection::vec as list;
use proptest::prelude::*;
use suite::tunnel::EpochSecret;

use super::*;

const W: u64 = 64;
const HALF: u64 = W / 2;

fn key(fill: u8) -> LaneKey {
    EpochSecret::new(&[fill; 32]).lane_key(0)
}

/// A window with its own table, and what was accepted.
struct One {
    table: Table,
    window: Window,
    key: LaneKey,
    used: BTreeSet<u64>,
}

impl One {
    fn new() -> Self {
        Self::keeping(false)
    }

    /// One whose used identifiers stay known, if so.
    fn keeping(used: bool) -> Self {
        let mut one = Self {
            table: Table::new(Window::capacity(W)),
            window: Window::new(LaneNumber(3), W),
            key: key(1),
            used: BTreeSet::new(),
        };
        one.window.open(one.key.clone(), used);
        one
    }

    fn filled() -> Self {
        let mut one = Self::new();
        one.fill(usize::MAX);
        one
    }

    fn fill(&mut self, budget: usize) -> usize {
        self.window.fill(&mut self.table, budget)
    }

    /// A packet with this seq; true if it is accepted.
    fn arrive(&mut self, seq: u64) -> bool {
        let block = self.key.block(seq);
        let rid = block.rid.number();
        let Some(value) = self.table.find(rid) else { return false };
        assert_eq!(parse_value(value), (LaneNumber(3), seq));
        if is_used(value) {
            return false;
        }
        let taken = self.window.take(&mut self.table, rid, seq);
        assert!(taken.is_err() || taken == Ok(block));
        if taken.is_ok() {
            assert!(self.used.insert(seq), "{seq} was accepted twice");
        }
        taken.is_ok()
    }

    /// Contents of the window according to the format.
    fn should_hold(&self, seq: u64) -> bool {
        let newest = self.window.newest();
        let dense = (newest.saturating_sub(HALF).max(1)..=newest + W).contains(&seq);
        let anchor =
            seq.is_multiple_of(HALF) && (newest / HALF + 1..=newest / HALF + ANCHORS).contains(&(seq / HALF));
        (dense || anchor) && !self.used.contains(&seq)
    }

    /// The table and the rings know the same identifiers.
    fn check(&self) {
        let rings = self.window.ring.iter().chain(&*self.window.anchors);
        let held: Vec<u64> = rings.filter(|held| held.is_some()).map(HeldIdentifier::rid).collect();
        assert_eq!(held.len(), self.table.len());
        assert!(held.iter().all(|&rid| self.table.find(rid).is_some()));
    }
}

/// Each row: what comes, and whether it is accepted. W is 64, anchors stand at multiples of 32.
#[test]
fn rows() {
    let rows: &[&[(u64, bool)]] = &[
        // In order, a duplicate, one out of order.
        &[(1, true), (2, true), (2, false), (4, true), (3, true), (3, false), (0, false)],
        // The upper edge, and beyond it.
        &[(65, false), (1, true), (65, true), (1, false), (130, false), (129, true)],
        // The lower edge: newest - W/2 and one below.
        &[(60, true), (28, true), (27, false), (59, true), (61, true)],
        // An anchor far away; what follows it, what lies W/2 before it, and nothing else.
        &[(32_000, true), (32_001, true), (31_999, true), (31_969, true), (31_968, false), (32_064, true)],
        &[(32_000, true), (32_064, true), (32_032, true), (32_031, false), (32_001, false)],
        &[(32_000, true), (31_968, true), (31_967, false), (31_968, false), (32_000, false)],
        // The last anchor that is held, and the next.
        &[(32 * 1025, false), (32 * 1024, true), (32 * 1025, true), (32 * 2049, true), (32 * 3074, false)],
        // Anchors inside the window are packets like all others.
        &[(32, true), (64, true), (96, true), (32, false), (128, true), (97, true)],
        // An anchor that is late itself.
        &[(640, true), (608, true), (608, false), (640, false), (641, true)],
    ];
    for (number, row) in rows.iter().enumerate() {
        let mut one = One::filled();
        for &(seq, accepted) in *row {
            assert_eq!(one.arrive(seq), accepted, "row {number}, seq {seq}");
            one.fill(usize::MAX);
            one.check();
        }
    }
}

/// An anchor that a jump has passed over, and that comes late, does not take the place of a packet that is yet to come; nor one that
/// comes after the window was closed a place that is cleared already.
#[test]
fn a_late_anchor_takes_no_place() {
    let mut one = One::keeping(true);
    one.fill(usize::MAX);
    assert!(one.arrive(3 * W));
    // All but the anchors, which come last.
    one.fill((W + HALF) as usize);
    assert!(!one.arrive(3 * HALF), "it is late");
    one.check();
    assert!(one.arrive(3 * HALF + 2 * W), "in the same place of the ring");

    let mut one = One::keeping(true);
    one.fill(usize::MAX);
    one.window.close();
    one.fill(2 * W as usize);
    assert!(!one.arrive(3 * HALF), "the window is closed");
    one.fill(ANCHORS as usize);
    assert!(one.window.is_clear());
    assert_eq!(one.table.len(), 0, "nothing of the old key is left");
}

/// The copy of a packet is known as one, also of an anchor that was used, and of one inside a gap. Without copies nothing is kept.
#[test]
fn a_copy_is_known_until_w_later_seqs_have_come() {
    for keeps in [false, true] {
        let mut one = One::keeping(keeps);
        one.fill(usize::MAX);
        let known =
            |one: &One, seq: u64| one.table.find(one.key.block(seq).rid.number()).is_some_and(is_used);
        assert!(one.arrive(1) && one.arrive(3200) && one.arrive(3168), "two anchors, the second in the gap");
        assert!(!one.arrive(3200) && !one.arrive(3168));
        one.fill(usize::MAX);
        one.check();
        for seq in [3168, 3200] {
            assert_eq!(known(&one, seq), keeps, "{seq}");
        }
        for seq in 3201..3200 + W {
            assert!(one.arrive(seq) && !one.arrive(seq), "{seq}");
            one.fill(8);
            assert_eq!(known(&one, seq), keeps);
        }
        assert_eq!(known(&one, 3200), keeps, "W - 1 later");
        one.fill(usize::MAX);
        one.check();
        one.window.close();
        while one.fill(100) > 0 {}
        assert_eq!(one.table.len(), 0, "a closed window leaves nothing in the table");
    }
}

#[test]
fn a_position_moves_the_window_forward_alone() {
    let mut one = One::filled();
    assert!(!one.window.advance(HALF + 1), "no anchor");
    assert!(one.window.advance(64_000));
    assert!(!one.window.advance(64_000 - HALF), "back");
    assert!(!one.window.advance(64_000), "no news");
    assert!(!one.window.advance(LAST_SEQ + HALF - LAST_SEQ % HALF), "beyond the last");
    one.fill(8);
    assert!(one.arrive(64_000 - HALF + 2), "what comes after a position lies before it, and is filled first");
    one.fill(usize::MAX);
    for seq in 64_000 - HALF..=64_000 + W {
        assert_eq!(one.arrive(seq), seq != 64_000 - HALF + 2, "{seq}");
    }
}

#[test]
fn what_follows_a_jump_is_filled_first() {
    let mut one = One::filled();
    assert!(one.arrive(3200));
    assert_eq!(one.fill(10), 10);
    assert!((3201..=3210).all(|seq| one.arrive(seq)));
    one.fill(10 + W as usize);
    assert!(one.arrive(3199), "then what lies behind it, from there down");
    assert!(!one.arrive(3168 + 1));
    one.fill(usize::MAX);
    assert!(one.arrive(3210 - HALF));
}

/// A second jump while the gap of the first is open: what the gap lacks is lost, and nothing comes twice.
#[test]
fn a_jump_inside_a_jump() {
    let mut one = One::filled();
    assert!(one.arrive(3200));
    assert!(one.arrive(3232));
    one.fill(usize::MAX);
    assert!(!one.arrive(3200) && !one.arrive(3232));
    assert!((3201..3232).all(|seq| one.arrive(seq)), "between the two");
    assert!((3233..=3232 + W).all(|seq| one.arrive(seq)));
    one.check();
}

#[test]
fn a_closed_window_leaves_nothing_in_the_table() {
    let mut one = One::filled();
    assert!(one.arrive(5) && one.arrive(320));
    one.fill(20);
    one.window.close();
    assert!(!one.arrive(321), "known, and refused");
    assert!(!one.window.is_clear());
    while one.fill(100) > 0 {}
    assert!(one.window.is_clear());
    assert_eq!(one.table.len(), 0);
    one.window.open(key(2), false);
    one.key = key(2);
    one.used.clear();
    one.fill(usize::MAX);
    assert!(one.arrive(1) && one.arrive(5));
}

/// A peer that jumps as far as it can, as often as it likes, reaches the last seq and no further.
#[test]
fn the_last_seq_is_an_edge() {
    let mut one = One::filled();
    let last = LAST_SEQ - LAST_SEQ % HALF;
    assert!(one.window.advance(last));
    one.fill(usize::MAX);
    assert!(one.arrive(last) && one.arrive(LAST_SEQ) == (LAST_SEQ != last));
    one.fill(usize::MAX);
    assert!(!one.arrive(LAST_SEQ + 1) && !one.arrive(last + HALF));
    one.check();
}

#[derive(Clone, Debug)]
enum Step {
    /// A packet so far from the newest one.
    Near(i64),
    /// An anchor so many anchors ahead.
    Anchor(u64),
    /// A packet again.
    Again(usize),
    Position(u64),
    Fill(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (-40..90_i64).prop_map(Step::Near),
        4 => (1..3_i64).prop_map(Step::Near),
        2 => (0..4_u64).prop_map(Step::Anchor),
        1 => (0..1100_u64).prop_map(Step::Anchor),
        3 => (0..100_usize).prop_map(Step::Again),
        1 => (0..1100_u64).prop_map(Step::Position),
        3 => (0..70_usize).prop_map(Step::Fill),
    ]
}

impl One {
    fn seq(&self, step: &Step, past: &[u64]) -> u64 {
        let newest = self.window.newest();
        match *step {
            Step::Near(by) => newest.saturating_add_signed(by),
            Step::Anchor(ahead) => (newest / HALF + ahead) * HALF,
            Step::Again(back) => past.iter().rev().nth(back).copied().unwrap_or(0),
            Step::Position(_) | Step::Fill(_) => 0,
        }
    }
}

proptest! {
    // Each case fills a thousand anchors again and again.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A window that is always filled accepts exactly what the format says.
    #[test]
    fn a_filled_window_is_the_set_of_the_format(steps in list(step(), 0..120), keeps in any::<bool>()) {
        let (mut one, mut past) = (One::keeping(keeps), Vec::new());
        one.fill(usize::MAX);
        for step in steps {
            match step {
                Step::Fill(_) => {}
                Step::Position(ahead) => {
                    let to = (one.window.newest() / HALF + ahead) * HALF;
                    prop_assert_eq!(one.window.advance(to), to > one.window.newest() || ahead > 0);
                }
                packet => {
                    let seq = one.seq(&packet, &past);
                    prop_assert_eq!(one.should_hold(seq), one.arrive(seq), "{}", seq);
                    past.push(seq);
                }
            }
            one.fill(usize::MAX);
            prop_assert_eq!(one.window.missing(), 0);
            one.check();
        }
        let newest = one.window.newest();
        for seq in newest.saturating_sub(W)..newest + 3 * W {
            let holds = one.should_hold(seq);
            let found = one.table.find(one.key.block(seq).rid.number()).is_some_and(|value| !is_used(value));
            prop_assert_eq!(found && seq + HALF >= newest, holds);
        }
    }

    /// However little of it is filled, and whatever comes when: no seq is accepted twice, none from outside, and the
    /// debt can be paid.
    #[test]
    fn no_seq_is_accepted_twice(steps in list(step(), 0..200), budget in 0..40_usize, keeps in any::<bool>()) {
        let (mut one, mut past) = (One::keeping(keeps), Vec::new());
        for step in steps {
            match step {
                Step::Fill(budget) => { one.fill(budget); }
                Step::Position(ahead) => { one.window.advance((one.window.newest() / HALF + ahead) * HALF); }
                packet => {
                    let seq = one.seq(&packet, &past);
                    let holds = one.should_hold(seq);
                    prop_assert!(!one.arrive(seq) || holds);
                    past.push(seq);
                    prop_assert!(one.fill(budget) <= budget);
                }
            }
            one.check();
        }
        one.fill(usize::MAX);
        prop_assert_eq!(one.window.missing(), 0);
        let newest = one.window.newest();
        for seq in newest.saturating_sub(2 * W)..newest + 2 * W {
            one.arrive(seq);
        }
        one.check();
    }
}
