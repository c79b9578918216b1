//! Received PNs: recovery of the high half of an XPN, and the replay window (IEEE 802.1AE-2018 clauses 10.6.2
//! and 10.6.5).

use alloc::boxed::Box;
use alloc::vec;
use wire::Pn;

/// 64-bit PN of an XPN frame whose SecTAG carries `low`, for a receiver that has seen PNs up to `highest`. It
/// is the number with these low 32 bits that is nearest to the expected one. Clause 10.6.2 states a rule on
/// the topmost bits, which is the same for windows below 2^30. A late frame from before a 2^32 crossing is
/// still recovered after it. 0 is no PN: `None`.
pub fn recover(low: u32, highest: u64) -> Option<Pn> {
    let expected = highest.saturating_add(1);
    let near = (expected & !u64::from(u32::MAX)) | u64::from(low);
    let number = if near > expected && near - expected > 1 << 31 {
        near.checked_sub(1 << 32).unwrap_or(near)
    } else if near < expected && expected - near > 1 << 31 {
        near.checked_add(1 << 32).unwrap_or(near)
    } else {
        near
    };
    Pn::new(number)
}

/// Position of a received PN in the replay window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freshness {
    /// Not below `lowest_pn`, and not seen.
    Fresh,
    /// Below `lowest_pn` (clause 10.6.5), or another's.
    Late,
    /// Inside the window and already seen. The standard has no word for it: its lower bound alone would
    /// deliver the frame again.
    Duplicate,
}

/// The replay window of a receive SA: a ring of bits, one for each PN of the window.
///
/// `lowest_pn` is `highest + 1 - window`, never falls, and begins at the floor given at installation. With a
/// window of 0, only PNs above all seen ones are fresh, and there are no bits.
#[derive(Debug)]
pub struct ReplayWindow {
    highest: u64,
    floor: u64,
    /// PNs above are another's.
    limit: u64,
    window: u64,
    /// Bit `pn % bits.len()` of the ring: this PN was seen. The ring has one block more than the window
    /// needs, so the block of the newest PN never holds bits of a PN inside the window.
    blocks: Box<[u64]>,
}

impl ReplayWindow {
    /// Widest window that tracks duplicates: 128 KiB of bits for an SA.
    pub const WIDEST: u32 = 1 << 20;

    /// A window over PNs from `lowest`. `window` counts PNs; more than [`ReplayWindow::WIDEST`] is cut.
    pub(crate) fn new(lowest: Pn, window: u32) -> Self {
        let window = window.min(Self::WIDEST);
        let blocks = if window == 0 { 0 } else { (window.div_ceil(64) + 1).next_power_of_two() };
        Self {
            highest: lowest.number() - 1,
            floor: lowest.number(),
            limit: u64::MAX,
            window: window.into(),
            blocks: vec![0; blocks as usize].into_boxed_slice(),
        }
    }

    /// Its width: PNs that a frame may be late.
    pub const fn width(&self) -> u32 {
        self.window as u32
    }

    /// Highest PN received, or the one below the first expected.
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Lowest PN that is not late: the standard's `lowest_pn`. 2^64 - 1 at most.
    pub fn lowest(&self) -> u64 {
        match self.window.checked_sub(1) {
            None => self.highest.saturating_add(1),
            Some(behind) => self.highest.saturating_sub(behind).max(self.floor),
        }
    }

    /// Position of `pn`. Changes nothing.
    pub(crate) fn classify(&self, pn: Pn) -> Freshness {
        let pn = pn.number();
        if pn > self.limit {
            Freshness::Late
        } else if pn > self.highest {
            Freshness::Fresh
        } else if self.window == 0 || pn < self.floor || self.highest - pn >= self.window {
            Freshness::Late
        } else if self.blocks[self.block(pn)] & bit(pn) != 0 {
            Freshness::Duplicate
        } else {
            Freshness::Fresh
        }
    }

    /// Classifies `pn` again and marks it as seen if it is fresh. At most one write for each block of the
    /// ring.
    pub(crate) fn commit(&mut self, pn: Pn) -> Freshness {
        let freshness = self.classify(pn);
        let pn = pn.number();
        if freshness != Freshness::Fresh {
            return freshness;
        }
        if pn > self.highest {
            self.clear_between(self.highest, pn);
            self.highest = pn;
        }
        if self.window > 0 {
            let block = self.block(pn);
            self.blocks[block] |= bit(pn);
        }
        freshness
    }

    /// Raises the highest PN to `pn` without marking it: for frames that are delivered without replay
    /// protection.
    pub(crate) fn advance(&mut self, pn: Pn) {
        if pn.number() > self.highest {
            // Marks from before protection was switched off would look like those of PNs to come.
            self.clear_between(self.highest, pn.number());
            self.highest = pn.number();
        }
    }

    /// Makes PNs above `through` late: they are another's.
    pub(crate) fn limit(&mut self, through: Pn) {
        self.limit = self.limit.min(through.number());
    }

    /// Makes PNs below `lowest` late. Never makes one fresh.
    pub(crate) fn raise(&mut self, lowest: Pn) {
        let below = lowest.number() - 1;
        if below > self.highest {
            self.clear_between(self.highest, below);
            self.highest = below;
        }
        self.floor = self.floor.max(lowest.number());
    }

    /// Continues from `before`: late PNs stay late, seen PNs stay seen. Without `marked`, PNs up to the
    /// highest may have been delivered without a mark, so all of them become late. At most one step for each
    /// block of the ring.
    pub(crate) fn take_over(&mut self, before: &Self, marked: bool) {
        let late_below = if marked { before.lowest() } else { before.highest.saturating_add(1) };
        self.floor = self.floor.max(late_below);
        self.limit = self.limit.min(before.limit);
        self.highest = before.highest.max(self.highest);
        if self.window == 0 || before.window == 0 {
            return;
        }
        // Only PNs from the floor on are classified by their bits, and those lie inside the earlier window
        // too.
        let (first, last) = (self.lowest() / 64, before.highest / 64);
        for number in first..=last {
            let block = self.block(number * 64);
            self.blocks[block] = before.blocks[before.block(number * 64)];
        }
    }

    /// Highest PN, floor, and width in PNs.
    pub(crate) const fn edges(&self) -> [u64; 3] {
        [self.highest, self.floor, self.window]
    }

    /// The ring of bits.
    pub(crate) fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// Puts it where another one of this width was. Nothing that is late by now becomes fresh.
    pub(crate) fn set(&mut self, [highest, floor, _]: [u64; 3], blocks: &[u64]) {
        self.highest = highest.max(self.highest);
        self.floor = floor.max(self.floor);
        self.blocks.copy_from_slice(blocks);
    }

    /// Clears the blocks that the ring enters when the highest PN moves from `old` to `new`.
    fn clear_between(&mut self, old: u64, new: u64) {
        let entered = (new / 64 - old / 64).min(self.blocks.len() as u64);
        for step in 0..entered {
            let block = self.block(new - step * 64);
            self.blocks[block] = 0;
        }
    }

    fn block(&self, pn: u64) -> usize {
        (pn / 64) as usize & (self.blocks.len() - 1)
    }
}

const fn bit(pn: u64) -> u64 {
    1 << (pn % 64)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use Freshness::{Duplicate, Fresh, Late};
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec::Vec;

    fn pn(number: u64) -> Pn {
        Pn::new(number).expect("not 0")
    }

    #[test]
    fn pns_above_a_limit_are_late_forever() {
        let mut window = ReplayWindow::new(pn(1), 8);
        window.limit(pn(5));
        window.limit(pn(9));
        assert_eq!([5, 6, 4, 5].map(|number| window.commit(pn(number))), [Fresh, Late, Fresh, Duplicate]);
        let mut after = ReplayWindow::new(pn(1), 8);
        after.take_over(&window, true);
        assert_eq!([3, 6].map(|number| after.commit(pn(number))), [Fresh, Late]);
        assert_eq!(after.highest(), 5);
    }

    #[test]
    fn the_pn_nearest_to_the_expected_one_is_recovered() {
        const H: u64 = 1 << 32;
        let rows = [
            // (low 32 bits, highest seen, recovered)
            (1, 0, Some(1)),
            (0, 0, None),
            (0xffff_ffff, 0, Some(0xffff_ffff)),
            (0, H - 1, Some(H)),
            (5, H - 10, Some(H + 5)),
            (0xffff_fff0, H + 5, Some(H - 16)),
            (0xffff_fff0, 7 * H + 5, Some(7 * H - 16)),
            (0x8000_0000, H, Some(H + 0x8000_0000)),
            (0x8000_0002, H, Some(0x8000_0002)),
            (0, u64::MAX, Some(u64::MAX - 0xffff_ffff)),
            (0xffff_ffff, u64::MAX - 3, Some(u64::MAX)),
        ];
        for (low, highest, expected) in rows {
            assert_eq!(recover(low, highest).map(Pn::number), expected, "{low:#x} after {highest:#x}");
        }
    }

    #[test]
    fn windows_by_rows() {
        const TOP: u64 = u32::MAX as u64;
        // (window, lowest, [(pn, verdict)])
        type Rows = &'static [(u64, Freshness)];
        let tables: [(u32, u64, Rows); 7] = [
            (0, 1, &[(1, Fresh), (1, Late), (3, Fresh), (2, Late), (4, Fresh), (TOP, Fresh), (TOP, Late)]),
            (1, 1, &[(1, Fresh), (1, Duplicate), (2, Fresh), (1, Late), (2, Duplicate)]),
            (
                64,
                1,
                &[
                    (64, Fresh),
                    (1, Fresh),
                    (1, Duplicate),
                    (65, Fresh),
                    (1, Late),
                    (2, Fresh),
                    (64, Duplicate),
                ],
            ),
            (64, 100, &[(99, Late), (100, Fresh), (99, Late), (100, Duplicate), (163, Fresh), (101, Fresh)]),
            (
                2,
                1,
                &[
                    (TOP, Fresh),
                    (TOP - 1, Fresh),
                    (TOP, Duplicate),
                    (TOP - 2, Late),
                    (TOP + 1, Fresh),
                    (TOP, Duplicate),
                ],
            ),
            (
                128,
                1,
                &[
                    (1000, Fresh),
                    (1129, Fresh),
                    (1001, Late),
                    (1002, Fresh),
                    (1128, Fresh),
                    (1129, Duplicate),
                ],
            ),
            (
                64,
                u64::MAX - 1,
                &[(u64::MAX, Fresh), (u64::MAX - 1, Fresh), (u64::MAX, Duplicate), (u64::MAX - 2, Late)],
            ),
        ];
        for (window, lowest, rows) in tables {
            let mut state = ReplayWindow::new(pn(lowest), window);
            for (row, &(number, expected)) in rows.iter().enumerate() {
                assert_eq!(
                    state.classify(pn(number)),
                    expected,
                    "window {window}, row {row}, PN {number}, judged"
                );
                assert_eq!(
                    state.commit(pn(number)),
                    expected,
                    "window {window}, row {row}, PN {number}, committed"
                );
            }
        }
    }

    /// Protection was off while the ring's blocks came round again: what was marked before must not look like a duplicate.
    #[test]
    fn a_window_that_advanced_without_marks_has_none_of_earlier_pns() {
        let mut before = ReplayWindow::new(pn(1), 64);
        for number in 1..=63 {
            assert_eq!(before.commit(pn(number)), Fresh);
        }
        before.advance(pn(128));
        let mut after = ReplayWindow::new(pn(1), 64);
        after.take_over(&before, false);
        // The newest first: those behind it are told by their bits.
        for number in (129..=191).rev() {
            assert_eq!(after.commit(pn(number)), Fresh, "{number}");
        }
    }

    /// Numbers without a random source: the files of vectors do not change by themselves.
    fn numbers() -> impl FnMut() -> u64 {
        let mut state = 1u64;
        move || {
            // Vigna, SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }
    }

    /// Compares with a file of `proofs/bounds`, or writes it: the solver checks its model against these lines.
    fn compare(name: &str, lines: &[String]) {
        let path = std::format!("{}/../../proofs/bounds/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = lines.join("\n") + "\n";
        if std::env::var_os("FRAMEWARD_RENEW_VECTORS").is_some() {
            std::fs::write(&path, text).expect("written");
        } else {
            let file = std::fs::read_to_string(&path).expect("the file of vectors");
            assert!(
                file == text,
                "{name}: the code does something else than its model; change both, then set FRAMEWARD_RENEW_VECTORS"
            );
        }
    }

    #[test]
    fn the_model_of_recovery_says_what_the_code_does() {
        let mut draw = numbers();
        let edges = [0, 1, 1 << 31, 1 << 32, (1 << 32) - 1, 3 << 31, u64::MAX - (1 << 31), u64::MAX];
        let near = |edge: u64| [edge.wrapping_sub(1), edge, edge.wrapping_add(1)];
        let mut pairs: Vec<(u32, u64)> = edges
            .iter()
            .flat_map(|&highest| near(highest))
            .flat_map(|highest| edges.map(|low| (highest.wrapping_add(low) as u32, highest)))
            .collect();
        pairs.extend((0..100).map(|_| (draw() as u32, draw() >> (draw() % 64))));
        let lines: Vec<String> = pairs
            .iter()
            .map(|&(low, highest)| {
                let pn = recover(low, highest).map_or(0, Pn::number);
                std::format!("(= (recover #x{low:08x} #x{highest:016x}) #x{pn:016x})")
            })
            .collect();
        compare("recover.vectors", &lines);
    }

    #[test]
    fn the_model_of_the_window_says_what_the_code_does() {
        let mut draw = numbers();
        let mut lines = Vec::new();
        let marked = |window: &ReplayWindow, pn: u64| {
            !window.blocks.is_empty() && window.blocks[window.block(pn)] & bit(pn) != 0
        };
        let widths = [0, 1, 63, 64, 65, 100, 1000, 4096, 5000, ReplayWindow::WIDEST];
        for round in 0..60 {
            let width = widths[round % widths.len()];
            let mut window = ReplayWindow::new(pn(1 + (draw() >> (1 + draw() % 63))), width);
            for _ in 0..6 {
                let (highest, floor, w) = (window.highest, window.floor, window.window);
                let reach = u64::from(width) + 130;
                let edges = [
                    highest,
                    highest + 1,
                    highest.saturating_sub(w),
                    (highest + 1).saturating_sub(w),
                    floor,
                    floor - 1,
                ];
                let around = |drawn: u64| match edges.get(drawn as usize >> 3 & 7) {
                    Some(&edge) => edge.max(1),
                    None => (highest + drawn % (2 * reach)).saturating_sub(reach).max(1),
                };
                let (number, p) = (around(draw()), around(draw()));
                let (before, own) = (marked(&window, p), marked(&window, number));
                let kind = draw() % 8;
                let model = match kind {
                    0 => {
                        window.raise(pn(number));
                        std::format!(
                            "(= (raise_highest {highest} {number}) {}) (= (raise_floor {floor} {number}) {}) (= (raise_bit {highest} {w} {number} {before} {p}) {})",
                            window.highest,
                            window.floor,
                            marked(&window, p)
                        )
                    }
                    1 => {
                        window.advance(pn(number));
                        std::format!(
                            "(= (advance_highest {highest} {number}) {}) (= (advance_bit {highest} {w} {number} {before} {p}) {})",
                            window.highest,
                            marked(&window, p)
                        )
                    }
                    2 => {
                        let (start, marks) = (around(draw()), draw().is_multiple_of(2));
                        let mut after = ReplayWindow::new(pn(start), width);
                        after.take_over(&window, marks);
                        // A ring has other PNs at p's place too; the model follows p alone.
                        let (first, last) = (after.lowest() / 64, highest / 64);
                        let bit = (first..=last).contains(&(p / 64)) && marked(&after, p);
                        let line = std::format!(
                            "(= (take_over_highest {} {highest}) {}) (= (take_over_floor {start} {marks} {highest} {floor} {w}) {}) (= (take_over_bit {} {start} {w} {marks} {highest} {floor} {w} {before} {p}) {bit})",
                            start - 1,
                            after.highest,
                            after.floor,
                            start - 1
                        );
                        window = after;
                        line
                    }
                    _ => {
                        let class = window.classify(pn(number)) as u8;
                        window.commit(pn(number));
                        std::format!(
                            "(= (classify {highest} {floor} {w} {own} {number}) {class}) (= (commit_highest {highest} {floor} {w} {own} {number}) {}) (= (commit_bit {highest} {floor} {w} {own} {number} {before} {p}) {})",
                            window.highest,
                            marked(&window, p)
                        )
                    }
                };
                let ring = if width == 0 { 2 } else { window.blocks.len() };
                lines.push(std::format!(
                    "(=> (= ring {ring}) (and {model} (= (lowest {} {} {w}) {})))",
                    window.highest,
                    window.floor,
                    window.lowest()
                ));
            }
        }
        compare("replay_window.vectors", &lines);
    }

    proptest! {
        /// Against a model that remembers every PN: fresh if not below `lowest_pn` and never seen.
        #[test]
        fn the_ring_agrees_with_a_set(
            window in prop_oneof![Just(0u32), 1..300u32],
            start in prop_oneof![Just(1u64), Just(u64::from(u32::MAX) - 200), Just(u64::MAX - 5000)],
            steps in proptest::collection::vec((0..4u8, 0..700u64), 1..400),
        ) {
            let mut ring = ReplayWindow::new(pn(start), window);
            let (mut seen, mut highest) = (BTreeSet::new(), start - 1);
            for (kind, distance) in steps {
                let number = match kind {
                    0 => highest.saturating_add(1 + distance % 3),
                    1 => highest.saturating_add(distance),
                    _ => highest.saturating_sub(distance % (u64::from(window) + 10)),
                };
                let Some(received) = Pn::new(number) else { continue };
                let lowest = (u128::from(highest) + 1).saturating_sub(window.into()).max(start.into());
                let expected = if number > highest { Fresh }
                    else if u128::from(number) < lowest { Late }
                    else if seen.contains(&number) { Duplicate }
                    else { Fresh };
                prop_assert_eq!(ring.commit(received), expected);
                if expected == Fresh {
                    seen.insert(number);
                    highest = highest.max(number);
                }
                prop_assert_eq!(ring.highest(), highest);
            }
        }

        #[test]
        fn recovery_undoes_the_cut_within_2_31(highest in any::<u64>(), ahead in 0..1u64 << 31, behind in 0..1u64 << 31) {
            for number in [highest.saturating_add(1).saturating_add(ahead), highest.saturating_sub(behind)] {
                prop_assume!(number != 0);
                prop_assert_eq!(recover(number as u32, highest).map(Pn::number), Some(number));
            }
        }
    }
}
