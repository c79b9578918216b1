//! PNs of a transmit SA: each is taken once (IEEE 802.1AE-2018 clause 10.5.2).
//!
//! A PN is taken through `&mut`, once. It is refused when the SA's PNs, or those of the reserved block, are
//! used up. Static keys survive a crash because every used PN is already on disk as reserved (see the
//! engine's lease store). Either end is a *next action* for the caller, not an error.

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
    /// PNs above are another's, whatever is reserved.
    limit: Pn,
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
        // A PN above the last one would repeat, in its low 32 bits, a used nonce: no PN is left.
        let next = Some(first).filter(|&first| first <= last);
        let mut pns = Self {
            next,
            last,
            reserved: reserved.min(last),
            limit: last,
            reserve_at: 0,
            rekey_at: rekey_at(last),
        };
        pns.reserve_through(reserved);
        pns
    }

    /// PNs that are taken elsewhere, in the kernel, as they stand at one moment: what control needs to know of them.
    pub const fn taken_elsewhere(next: Option<Pn>, reserved: Pn, reserve_at: u64, last: Pn) -> Self {
        Self { next, last, reserved, limit: last, reserve_at, rekey_at: rekey_at(last) }
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
        let reserved = reserved.min(self.last).max(self.reserved).min(self.limit);
        let left = reserved.number().saturating_sub(next.number());
        self.reserve_at =
            if reserved == self.limit { u64::MAX } else { next.number().saturating_add(left / 2) };
        self.reserved = reserved;
    }

    /// Permits no PN above `through` from here on, whatever is reserved: those are another's.
    pub(crate) fn limit(&mut self, through: Pn) {
        self.limit = self.limit.min(through);
        self.reserved = self.reserved.min(self.limit);
        self.reserve_at = u64::MAX;
    }

    /// Takes the next PN, if `more` others follow it. Returns each PN once.
    pub(crate) fn take_first_of(&mut self, more: u64) -> Result<Pn, NoPn> {
        let pn = self.first_of(more)?;
        self.next = if pn == self.last { None } else { pn.number().checked_add(1).and_then(Pn::new) };
        Ok(pn)
    }

    /// The next PN, if `more` others follow it.
    pub(crate) fn first_of(&self, more: u64) -> Result<Pn, NoPn> {
        let pn = self.next.ok_or(NoPn::Exhausted)?;
        let chain_end = pn.number().saturating_add(more);
        if chain_end > self.last.number() {
            return Err(NoPn::Exhausted);
        }
        if chain_end > self.reserved.number() {
            return Err(NoPn::Unreserved);
        }
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

/// 0xC000_0000, or 0xC000_0000_0000_0000 with XPN: clause 9.8 of IEEE 802.1X-2020.
const fn rekey_at(last: Pn) -> u64 {
    last.number() - last.number() / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pn(number: u64) -> Pn {
        Pn::new(number).expect("not 0")
    }

    #[test]
    fn pns_above_a_limit_are_never_taken() {
        let mut pns = TransmitPns::new(pn(10), pn(100), Pn::LAST_32);
        pns.limit(pn(11));
        pns.reserve_through(pn(200));
        pns.limit(pn(50));
        assert_eq!((pns.reserved(), pns.next_action()), (pn(11), NextAction::Continue));
        assert_eq!([pns.take_first_of(0), pns.take_first_of(0)], [Ok(pn(10)), Ok(pn(11))]);
        assert_eq!(pns.take_first_of(0), Err(NoPn::Unreserved));
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

    /// Blocks that double from 2^16 to 2^20, each asked for and granted at once when the SA says so: what a crash burns is the first
    /// block, or five times the frames, and never more than two of the largest blocks.
    #[test]
    fn a_crash_burns_pns_in_proportion_to_the_frames_before() {
        let (mut block, most) = (1_u64 << 16, 2 << 20);
        let mut pns = TransmitPns::new(pn(1), pn(block), Pn::LAST_32);
        let mut worst = 0;
        for frames in 1..=4_000_000_u64 {
            assert_eq!(pns.take_first_of(0), Ok(pn(frames)));
            if pns.next_action() == NextAction::Reserve {
                block = (2 * block).min(1 << 20);
                pns.reserve_through(pn(pns.reserved().number() + block));
            }
            let burnt = pns.reserved().number() - frames;
            assert!(burnt <= (1 << 16).max(5 * (frames + 2)).min(most), "{burnt} after {frames}");
            worst = worst.max(burnt);
        }
        assert!(worst > most * 9 / 10, "the bound is not loose: {worst}");
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
}
