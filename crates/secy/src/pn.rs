//! Packet numbers: allocation, recovery of the high half of an XPN, and the replay window (IEEE 802.1AE-2018
//! clauses 10.5.2, 10.6.2 and 10.6.5).
//!
//! A PN is taken through `&mut`, once. It is refused when the SA's PNs, or those of the reserved block, are
//! used up. Static keys survive a crash because every used PN is already on disk as reserved (see the
//! engine's lease store). Either end is a *next action* for the caller, not an error.

use alloc::boxed::Box;
use alloc::vec;
use wire::Pn;

/// Action that the caller has to take so that the next frames find a PN. Ordered by urgency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NextAction {
    /// None: PNs are available.
    Continue,
    /// Request a new SAK: three quarters of the SA's PNs are used (`PENDING_PN_EXHAUSTION`, IEEE 802.1X-2020
    /// clause 9.8).
    Rekey,
    /// Reserve the next block: half of the reserved one is used.
    Reserve,
    /// Wait for a reservation: the reserved block is used up, and frames are discarded until there is a new
    /// one.
    AwaitReservation,
    /// Enable another SA: all PNs are used, and frames are discarded until then. This SA never sends again.
    Exhausted,
}

/// The PNs of a transmit SA.
#[derive(Debug)]
pub struct TransmitPns {
    /// PN of the next frame; `None` when the last one is used.
    next: Option<Pn>,
    /// Last PN of the suite.
    last: Pn,
    /// Last PN of the reserved blocks.
    reserved: Pn,
    /// PN from which half of the reserved block is used.
    reserve_at: u64,
    /// PN from which a rekey is due.
    rekey_at: u64,
}

/// Reason why a frame gets no PN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoPn {
    Unreserved,
    Exhausted,
}

impl TransmitPns {
    /// PNs from `first` to `last`, the suite's last one. Those up to `reserved` may be used at once. Without
    /// leases, `reserved` is `last`.
    pub(crate) fn new(first: Pn, reserved: Pn, last: Pn) -> Self {
        // 0xC000_0000, or 0xC000_0000_0000_0000 with XPN: clause 9.8 of IEEE 802.1X-2020.
        let rekey_at = last.number() - last.number() / 4;
        // A PN above the last one would repeat, in its low 32 bits, a used nonce: no PN is left.
        let next = Some(first).filter(|&first| first <= last);
        let mut pns = Self { next, last, reserved: reserved.min(last), reserve_at: 0, rekey_at };
        pns.reserve_through(reserved);
        pns
    }

    /// PN of the next frame; `None` if no PN is left.
    pub const fn next(&self) -> Option<Pn> {
        self.next
    }

    /// Last reserved PN.
    pub const fn reserved(&self) -> Pn {
        self.reserved
    }

    /// Permits the PNs up to and including `reserved`. Never revokes an earlier reservation.
    pub(crate) fn reserve_through(&mut self, reserved: Pn) {
        let Some(next) = self.next else { return };
        let reserved = reserved.min(self.last).max(self.reserved);
        let left = reserved.number().saturating_sub(next.number());
        self.reserve_at =
            if reserved == self.last { u64::MAX } else { next.number().saturating_add(left / 2) };
        self.reserved = reserved;
    }

    /// Takes the next PN, if `more` others follow it. Returns each PN once.
    pub(crate) fn take_first_of(&mut self, more: u64) -> Result<Pn, NoPn> {
        let pn = self.next.ok_or(NoPn::Exhausted)?;
        let chain_end = pn.number().saturating_add(more);
        if chain_end > self.last.number() {
            return Err(NoPn::Exhausted);
        }
        if chain_end > self.reserved.number() {
            return Err(NoPn::Unreserved);
        }
        self.next = if pn == self.last { None } else { pn.number().checked_add(1).and_then(Pn::new) };
        Ok(pn)
    }

    /// Action needed before PNs run out.
    pub fn next_action(&self) -> NextAction {
        let Some(next) = self.next else { return NextAction::Exhausted };
        if next > self.reserved {
            NextAction::AwaitReservation
        } else if next.number() >= self.reserve_at {
            NextAction::Reserve
        } else if next.number() >= self.rekey_at {
            NextAction::Rekey
        } else {
            NextAction::Continue
        }
    }
}

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
    /// Below `lowest_pn` (clause 10.6.5).
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
            window: window.into(),
            blocks: vec![0; blocks as usize].into_boxed_slice(),
        }
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
        if pn > self.highest {
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
        self.highest = self.highest.max(pn.number());
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
    use super::*;
    use Freshness::{Duplicate, Fresh, Late};
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    fn pn(number: u64) -> Pn {
        Pn::new(number).expect("not 0")
    }

    #[test]
    fn a_32_bit_sa_ends_after_2_32_minus_1() {
        let mut pns = TransmitPns::new(pn(0xffff_fffe), Pn::LAST_32, Pn::LAST_32);
        assert_eq!(pns.next_action(), NextAction::Rekey);
        assert_eq!(pns.take_first_of(0), Ok(pn(0xffff_fffe)));
        assert_eq!(pns.take_first_of(0), Ok(pn(0xffff_ffff)));
        assert_eq!(pns.take_first_of(0), Err(NoPn::Exhausted));
        assert_eq!((pns.next(), pns.next_action()), (None, NextAction::Exhausted));
        pns.reserve_through(Pn::LAST_64);
        assert_eq!(pns.take_first_of(0), Err(NoPn::Exhausted), "no reservation brings used PNs back");
    }

    #[test]
    fn an_xpn_sa_goes_on_over_2_32_and_ends_after_2_64_minus_1() {
        let mut pns = TransmitPns::new(pn(0xffff_ffff), Pn::LAST_64, Pn::LAST_64);
        assert_eq!(pns.take_first_of(0), Ok(pn(0xffff_ffff)));
        assert_eq!(pns.take_first_of(0).map(Pn::low), Ok(0));
        assert_eq!(pns.next_action(), NextAction::Continue);
        let mut pns = TransmitPns::new(Pn::LAST_64, Pn::LAST_64, Pn::LAST_64);
        assert_eq!(pns.take_first_of(0), Ok(Pn::LAST_64));
        assert_eq!(pns.take_first_of(0), Err(NoPn::Exhausted));
    }

    #[test]
    fn a_chain_that_would_cross_an_end_takes_nothing() {
        let mut pns = TransmitPns::new(pn(1), pn(4), Pn::LAST_32);
        assert_eq!(pns.take_first_of(4), Err(NoPn::Unreserved));
        assert_eq!(pns.take_first_of(3), Ok(pn(1)));
        let mut pns = TransmitPns::new(pn(0xffff_fffe), Pn::LAST_32, Pn::LAST_32);
        assert_eq!(pns.take_first_of(2), Err(NoPn::Exhausted));
        assert_eq!(pns.take_first_of(1), Ok(pn(0xffff_fffe)));
    }

    #[test]
    fn rekey_is_due_at_three_quarters() {
        for (last, at) in [(Pn::LAST_32, 0xc000_0000), (Pn::LAST_64, 0xc000_0000_0000_0000)] {
            let action = |first| TransmitPns::new(pn(first), last, last).next_action();
            assert_eq!(action(at - 1), NextAction::Continue);
            assert_eq!(action(at), NextAction::Rekey);
        }
    }

    #[test]
    fn no_pn_leaves_that_is_not_reserved() {
        let mut pns = TransmitPns::new(pn(1), pn(4), Pn::LAST_32);
        let seen: [_; 5] =
            core::array::from_fn(|_| (pns.next_action(), pns.take_first_of(0).ok().map(Pn::number)));
        assert_eq!(
            seen,
            [
                (NextAction::Continue, Some(1)),
                (NextAction::Reserve, Some(2)),
                (NextAction::Reserve, Some(3)),
                (NextAction::Reserve, Some(4)),
                (NextAction::AwaitReservation, None),
            ]
        );
        pns.reserve_through(pn(2));
        assert_eq!(
            pns.take_first_of(0),
            Err(NoPn::Unreserved),
            "a reservation never shrinks, and a stale one opens nothing"
        );
        pns.reserve_through(pn(8));
        assert_eq!(pns.take_first_of(0), Ok(pn(5)));
    }

    #[test]
    fn nothing_is_sent_from_outside_the_block_or_the_suite() {
        let mut below = TransmitPns::new(pn(5), pn(4), Pn::LAST_32);
        assert_eq!(
            (below.take_first_of(0), below.next_action()),
            (Err(NoPn::Unreserved), NextAction::AwaitReservation)
        );
        below.reserve_through(pn(5));
        assert_eq!(below.take_first_of(0), Ok(pn(5)));
        for first in [1 << 32, (1 << 32) + 5, u64::MAX] {
            let mut beyond = TransmitPns::new(pn(first), Pn::LAST_64, Pn::LAST_32);
            assert_eq!(
                (beyond.take_first_of(0), beyond.next_action()),
                (Err(NoPn::Exhausted), NextAction::Exhausted)
            );
        }
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
