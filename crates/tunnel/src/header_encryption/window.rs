//! Which PNs of one (epoch, SCI, AN) have been used: the replay window of a receiver, and a sender's memory of what it
//! has sent.
//!
//! ```text
//!  offset  0        2048                        highest                                  2^32 - 1
//!          |----------|---------------------------|-----------------------------------------|
//!        base       first PN          ‹ 2048: bits ›         anything here is new
//! ```
//!
//! PNs are 32 bits and wrap (XPN sends the low half), so they are counted from a base below the first one that was
//! seen. In a plain serial comparison a packet that was recorded 2^31 PNs ago would look new again; counted from a
//! base each PN has one place in an epoch, and is accepted there once. A sender begins another epoch before its PNs
//! come round to the base (test `a_pn_never_comes_round_in_one_epoch`).

/// PNs of the window: how far a frame may fall behind the newest of its SA.
pub(crate) const WINDOW: u32 = 2048;

/// PNs that share a block, two bits each.
const PNS_PER_BLOCK: u32 = 32;
/// One block more than the window needs, so that the block of the newest PN never holds bits of one in the window.
const BLOCKS: usize = (WINDOW / PNS_PER_BLOCK + 1) as usize;
/// So far before its PNs come round to the base a sender takes them for wrapped: the receiver's base may differ by
/// what was lost or reordered in the beginning, which is less than two windows.
const WRAP_GUARD: u32 = 1 << 16;

/// How much of a frame a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Portion {
    /// All of it.
    Whole,
    /// The first of two parts.
    First,
    /// The second of two parts.
    Second,
}

impl Portion {
    /// The bits of a PN that it uses up: with one of its parts a frame cannot come whole any more.
    const fn bits(self) -> u64 {
        match self {
            Self::Whole => 0b11,
            Self::First => 0b01,
            Self::Second => 0b10,
        }
    }
}

/// Where a PN stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freshness {
    /// Not used before.
    New,
    /// In the window, and used before.
    Seen,
    /// Below the window.
    Late,
}

/// The PNs of one SA in one epoch.
#[derive(Clone, Debug)]
pub(crate) struct PnWindow {
    /// Offset 0.
    base: u32,
    /// The offset of the newest PN.
    highest: u32,
    /// PNs that came again since there was a new highest one.
    repeats: u8,
    blocks: [u64; BLOCKS],
}

impl PnWindow {
    /// A window whose first PN is `first`; nothing is used yet.
    pub(crate) const fn new(first: u32) -> Self {
        Self { base: first.wrapping_sub(WINDOW), highest: WINDOW, repeats: 0, blocks: [0; BLOCKS] }
    }

    /// The newest PN, or the first one.
    pub(crate) const fn newest(&self) -> u32 {
        self.base.wrapping_add(self.highest)
    }

    /// Whether a sender cannot send this PN in this epoch: it has fallen out of the window (by serial arithmetic, since
    /// a station that begins again begins below), or comes round to the base.
    pub(crate) fn restarts(&self, pn: u32) -> bool {
        let fall = self.newest().wrapping_sub(pn);
        let fallen = (WINDOW..=1 << 31).contains(&fall);
        fallen || self.offset(pn) > u32::MAX - WRAP_GUARD || self.place(pn) == Freshness::Late
    }

    /// Where a portion of the frame with this PN stands. Changes nothing.
    pub(crate) fn judge(&self, pn: u32, portion: Portion) -> Freshness {
        match self.place(pn) {
            Freshness::Seen if self.blocks[self.block(pn)] & (portion.bits() << self.shift(pn)) == 0 => {
                Freshness::New
            }
            place => place,
        }
    }

    /// Judges again and, if it is new, counts it as used. At most one write for each block.
    pub(crate) fn commit(&mut self, pn: u32, portion: Portion) -> Freshness {
        let freshness = self.judge(pn, portion);
        if freshness == Freshness::New {
            self.advance(self.offset(pn));
            let (block, shift) = (self.block(pn), self.shift(pn));
            self.blocks[block] |= portion.bits() << shift;
        }
        freshness
    }

    /// Counts a PN that came again: how many did since there was a new highest one.
    pub(crate) const fn repeat(&mut self) -> u8 {
        self.repeats = self.repeats.saturating_add(1);
        self.repeats
    }

    /// Where a PN stands without a look at its bits: `Seen` means that they decide.
    const fn place(&self, pn: u32) -> Freshness {
        let offset = self.offset(pn);
        if offset > self.highest {
            Freshness::New
        } else if self.highest - offset < WINDOW {
            Freshness::Seen
        } else {
            Freshness::Late
        }
    }

    fn advance(&mut self, offset: u32) {
        if offset <= self.highest {
            return;
        }
        let (newest, entered) =
            (offset / PNS_PER_BLOCK, offset / PNS_PER_BLOCK - self.highest / PNS_PER_BLOCK);
        for step in 0..entered.min(BLOCKS as u32) {
            self.blocks[(newest - step) as usize % BLOCKS] = 0;
        }
        (self.highest, self.repeats) = (offset, 0);
    }

    const fn offset(&self, pn: u32) -> u32 {
        pn.wrapping_sub(self.base)
    }

    const fn block(&self, pn: u32) -> usize {
        (self.offset(pn) / PNS_PER_BLOCK) as usize % BLOCKS
    }

    const fn shift(&self, pn: u32) -> u32 {
        self.offset(pn) % PNS_PER_BLOCK * 2
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::Freshness::{Late, New, Seen};
    use super::Portion::{First, Second, Whole};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn windows_by_rows() {
        const TOP: u32 = u32::MAX;
        // (first PN, [(PN, portion, verdict)])
        type Rows = &'static [(u32, Portion, Freshness)];
        let tables: [(u32, Rows); 7] = [
            // The newest PN's block holds no bits of the oldest one's.
            (1, &[(1, Whole, New), (2, Whole, New), (2049, Whole, New), (2, Whole, Seen), (1, Whole, Late)]),
            (1, &[(1, Whole, New), (1, Whole, Seen), (2, Whole, New), (1, First, Seen), (0, Whole, New)]),
            // The window's edge, to the PN.
            (
                5000,
                &[
                    (5000, Whole, New),
                    (2953, Whole, New),
                    (2952, Whole, Late),
                    (5001, Whole, New),
                    (2953, Whole, Late),
                    (2954, Whole, New),
                    (2954, Whole, Seen),
                ],
            ),
            // Two parts, and what is whole.
            (
                7,
                &[
                    (7, Second, New),
                    (7, Whole, Seen),
                    (7, First, New),
                    (7, First, Seen),
                    (7, Second, Seen),
                    (8, Whole, New),
                    (8, First, Seen),
                    (8, Second, Seen),
                ],
            ),
            // XPN's low half goes on over zero.
            (
                TOP - 1,
                &[
                    (TOP - 1, Whole, New),
                    (0, Whole, New),
                    (TOP, Whole, New),
                    (1, Whole, New),
                    (TOP, Whole, Seen),
                    (TOP - 2045, Whole, New),
                    (TOP - 2046, Whole, Late),
                ],
            ),
            // A jump far ahead, and nothing of before it.
            (1, &[(1, Whole, New), (0x9000_0000, Whole, New), (1, Whole, Late), (0x8fff_ffff, Whole, New)]),
            // 2^31 later by serial arithmetic PN 10 would look new again.
            (
                10,
                &[
                    (10, Whole, New),
                    (0x8000_0010, Whole, New),
                    (10, Whole, Late),
                    (0xffff_f000, Whole, New),
                    (10, Whole, Late),
                ],
            ),
        ];
        for (first, rows) in tables {
            let mut window = PnWindow::new(first);
            for (row, &(pn, portion, expected)) in rows.iter().enumerate() {
                assert_eq!(window.judge(pn, portion), expected, "first {first}, row {row}, judged");
                assert_eq!(window.commit(pn, portion), expected, "first {first}, row {row}, committed");
            }
        }
    }

    #[test]
    fn a_sender_sees_falls_and_wraps() {
        // (first PN, newest PN, PN, does it restart)
        let rows = [
            (1, 5000, 2953, false),
            (1, 5000, 2952, true),
            (1, 5000, 1, true),
            (1, 5000, 5001, false),
            (1, 0x4000_0000, 1, true),
            // Half of all PNs ahead is a fall.
            (1, 5000, 5000 + (1 << 31), true),
            (1, 5000, 4999 + (1 << 31), false),
            // Below the epoch's first PN, though no number of this epoch yet.
            (1_000_000, 1_000_100, 1, true),
            // Over zero, as XPN does, and on.
            (0xffff_fff0, 0xffff_ffff, 0, false),
            (0xffff_fff0, 0, 0xffff_ffff, false),
            (0xffff_fff0, 0x7000_0000, 0x7000_0001, false),
            // Round to the base.
            (100_000, 30_000, 33_000, true),
            (100_000, 30_000, 30_001, false),
        ];
        for (first, newest, pn, expected) in rows {
            let mut window = PnWindow::new(first);
            assert_eq!(window.commit(first, Whole), New);
            window.advance(window.offset(newest));
            assert_eq!(window.restarts(pn), expected, "{pn} after {newest}");
        }
    }

    #[test]
    fn a_pn_never_comes_round_in_one_epoch() {
        let (mut sender, mut receiver) = (PnWindow::new(3), PnWindow::new(3 + 7));
        let (mut pn, mut sent) = (3_u32, 0_u64);
        while !sender.restarts(pn) {
            assert_eq!(sender.commit(pn, Whole), New);
            assert_eq!(receiver.commit(pn, Whole), New, "the receiver takes whatever the sender sends");
            sent += 65_521;
            pn = pn.wrapping_add(65_521);
        }
        assert!(sent < 1 << 32 && sent > (1 << 32) - (1 << 18), "{sent}");
        for recorded in [3, 4, 65_524, 0x8000_0000_u32] {
            assert_ne!(receiver.judge(recorded, Whole), New);
        }
    }

    proptest! {
        /// Against a model that remembers each PN with its place in an unbounded line.
        #[test]
        fn the_ring_agrees_with_a_map(
            first in prop_oneof![Just(1_u32), Just(u32::MAX - 200), any::<u32>()],
            steps in vec((0..5_u8, 0..5000_u64, 0..3_u8), 1..400),
        ) {
            let mut window = PnWindow::new(first);
            let start = u64::from(first) + (1 << 40);
            let (mut highest, mut used) = (start, HashMap::<u64, u64>::new());
            for (kind, distance, portion) in steps {
                let at = match kind {
                    0 => highest + 1 + distance % 3,
                    1 => highest + distance,
                    2 => highest + distance * 4001,
                    _ => highest - distance % (u64::from(WINDOW) + 10),
                };
                // What is below the base, or comes round to it, is not of this model.
                if !(start..start + (1 << 32)).contains(&(at + u64::from(WINDOW))) {
                    continue;
                }
                let portion = [Whole, First, Second][usize::from(portion)];
                let bits = used.entry(at).or_default();
                let expected = if at > highest { New }
                    else if highest - at >= u64::from(WINDOW) { Late }
                    else if *bits & portion.bits() != 0 { Seen }
                    else { New };
                prop_assert_eq!(window.judge(at as u32, portion), expected);
                prop_assert_eq!(window.commit(at as u32, portion), expected);
                if expected == New {
                    *bits |= portion.bits();
                    highest = highest.max(at);
                }
                prop_assert_eq!(window.newest(), highest as u32);
            }
        }

        /// Whatever comes, and in whatever order: nothing is accepted twice.
        #[test]
        fn no_pn_is_accepted_twice(first: u32, pns in vec((any::<u32>(), 0..40_u32, 0..3_u8), 1..300)) {
            let mut window = PnWindow::new(first);
            let mut used = HashMap::<u32, u64>::new();
            for (wild, near, portion) in pns {
                let portion = [Whole, First, Second][usize::from(portion)];
                for pn in [wild, window.newest().wrapping_add(near).wrapping_sub(20), wild & 0xf000_000f] {
                    if window.commit(pn, portion) == New {
                        let bits = used.entry(pn).or_default();
                        prop_assert_eq!(*bits & portion.bits(), 0);
                        *bits |= portion.bits();
                    }
                }
            }
        }
    }
}
