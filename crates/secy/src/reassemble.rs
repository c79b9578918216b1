//! Reassembly of SDUs (thesis chapter 4; TII paper section IV, with our CF).
//!
//! A *fragment* is a segment that is not a whole SDU. Two fragments join if their PNs are consecutive in one
//! SA, DA and SA are equal, both or neither have addresses inside, the first has MF and the second CF:
//!
//! ```text
//!  PN n:      … | head ─ MF      PN n+1:  CF ─ middle ─ MF      PN n+2:  CF ─ tail | …
//! ```
//!
//! Fragments may arrive in any order inside the replay window. A fragment that can never be completed is
//! dropped: one whose missing neighbour is below `lowest_pn`, so a window of 0 never waits; or, without
//! replay protection, one older than [`FRAGMENT_TIMEOUT`]. An SC holds at most [`MAX_FRAGMENTS`] fragments
//! and [`MAX_FRAGMENT_OCTETS`] octets, and evicts the oldest first.
//!
//! Complete SDUs are copied to an [`SduBuffer`], which has room for all SDUs of a burst. Nothing allocates after
//! creation. Work for a fragment: at most [`MAX_FRAGMENTS`] comparisons for each step of its chain, and one
//! move of the held octets. `exhaustive` has every order of frames, drops and evictions at a small size.

use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::ops::Range;
use core::time::Duration;
use wire::{An, Instant};

use crate::sdu_buffer::{Addresses, MAX_FRAGMENT_OCTETS, SduBuffer, TooLong};

/// Most fragments that an SC holds.
pub const MAX_FRAGMENTS: usize = 32;
/// Lifetime of a fragment without its neighbour, where no `lowest_pn` decides.
pub const FRAGMENT_TIMEOUT: Duration = Duration::from_millis(100);
/// Key of a fragment: its SA, PN and addresses, and the neighbours that it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    pub(crate) an: An,
    pub(crate) pn: u64,
    pub(crate) addresses: Addresses,
    /// Its SDU has DA and SA of its own inside, and those of the frame are nobody's.
    pub(crate) with_addresses: bool,
    /// CF: needs the fragment with the preceding PN.
    pub(crate) continues: bool,
    /// MF: needs the fragment with the following PN.
    pub(crate) continued: bool,
    pub(crate) at: Instant,
}

impl Fragment {
    /// Octets in front of the SDU's own when it is delivered.
    pub(crate) fn front(&self) -> &[u8] {
        if self.with_addresses { &[] } else { &self.addresses }
    }
}

/// Effects of one fragment on the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// SDUs completed: 0 or 1.
    pub(crate) reassembled: u64,
    /// SDUs completed, but too long.
    pub(crate) too_long: u64,
    /// Fragments evicted for lack of room.
    pub(crate) overrun: u64,
    /// Fragments whose neighbour belongs to another SDU.
    pub(crate) mismatched: u64,
}

#[derive(Debug)]
struct HeldFragment {
    fragment: Fragment,
    octets: Range<usize>,
}

/// The fragments of one receive SC, oldest first.
#[derive(Debug)]
pub struct Reassembler {
    held: ArrayVec<HeldFragment, MAX_FRAGMENTS>,
    /// Their octets, in the same order, without gaps.
    octets: Vec<u8>,
}

impl Reassembler {
    /// Allocates memory, if fragments are expected.
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            held: ArrayVec::new(),
            octets: Vec::with_capacity(if wanted { MAX_FRAGMENT_OCTETS } else { 0 }),
        }
    }

    /// Number of waiting fragments.
    pub const fn len(&self) -> usize {
        self.held.len()
    }

    /// The fragments that wait, oldest first, each with its octets.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = (&Fragment, &[u8])> {
        self.held.iter().map(|held| (&held.fragment, &self.octets[held.octets.clone()]))
    }

    /// True if no fragment waits.
    pub const fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes a fragment: completes an SDU with it, or holds it.
    pub(crate) fn offer(&mut self, fragment: &Fragment, octets: &[u8], buffer: &mut SduBuffer) -> Outcome {
        let mut outcome = Outcome::default();
        match (self.chain(fragment, Towards::Head), self.chain(fragment, Towards::Tail)) {
            // The wrong neighbour is dropped when its missing one is late.
            (Err(Mismatch), _) | (_, Err(Mismatch)) => outcome.mismatched += 1,
            (Ok(Some(before)), Ok(Some(behind))) => {
                let parts = before.iter().rev().map(|&index| self.part(index));
                let parts = parts.chain([octets]).chain(behind.iter().map(|&index| self.part(index)));
                match buffer.push(fragment.front(), parts) {
                    Ok(()) => outcome.reassembled += 1,
                    Err(TooLong) => outcome.too_long += 1,
                }
                let mut index = 0;
                self.retain(|_| {
                    let used = before.contains(&index) || behind.contains(&index);
                    index += 1;
                    !used
                });
            }
            _ => outcome.overrun += self.hold(fragment, octets),
        }
        outcome
    }

    /// Drops the fragments of an SA whose missing neighbour is below `lowest`. Returns their number.
    pub(crate) fn drop_below(&mut self, an: An, lowest: u64) -> u64 {
        let mut dropped = 0;
        // Dropping one can make its neighbour hopeless: at most one round for each fragment.
        loop {
            let hopeless: ArrayVec<bool, MAX_FRAGMENTS> = self
                .held
                .iter()
                .map(|HeldFragment { fragment, .. }| {
                    let missing = |needed: bool, pn: Option<u64>| {
                        needed && pn.is_none_or(|pn| pn < lowest && self.find(an, pn).next().is_none())
                    };
                    fragment.an == an
                        && (missing(fragment.continues, fragment.pn.checked_sub(1))
                            || missing(fragment.continued, fragment.pn.checked_add(1)))
                })
                .collect();
            let count = hopeless.iter().filter(|&&gone| gone).count();
            if count == 0 {
                return dropped;
            }
            let mut index = 0;
            self.retain(|_| {
                index += 1;
                !hopeless[index - 1]
            });
            dropped += count as u64;
        }
    }

    /// Drops the fragments past their lifetime, and reports their SAs.
    pub(crate) fn expire(&mut self, now: Instant, mut dropped: impl FnMut(An)) {
        self.retain(|fragment| {
            let old = now.since(fragment.at) > FRAGMENT_TIMEOUT;
            if old {
                dropped(fragment.an);
            }
            !old
        });
    }

    /// Drops the fragments of an SA. Returns their number.
    pub(crate) fn retire(&mut self, an: An) -> u64 {
        let before = self.held.len();
        self.retain(|fragment| fragment.an != an);
        (before - self.held.len()) as u64
    }

    /// The fragments from `fragment` towards one end of its SDU, nearest first. `None` if one is missing.
    ///
    /// # Errors
    /// If a neighbour is present, but belongs to another SDU.
    fn chain(
        &self,
        fragment: &Fragment,
        towards: Towards,
    ) -> Result<Option<ArrayVec<usize, MAX_FRAGMENTS>>, Mismatch> {
        let mut found = ArrayVec::new();
        let mut at = *fragment;
        while towards.needs(&at) {
            let Some(pn) = towards.neighbour(at.pn) else { return Ok(None) };
            let mut candidates = self.find(at.an, pn).peekable();
            if candidates.peek().is_none() {
                return Ok(None);
            }
            let joins = |&index: &usize| {
                let other = &self.held[index].fragment;
                let is_alike = other.with_addresses == fragment.with_addresses;
                is_alike && other.addresses == fragment.addresses && towards.answers(other)
            };
            let index = candidates.find(joins).ok_or(Mismatch)?;
            at = self.held[index].fragment;
            found.push(index);
        }
        Ok(Some(found))
    }

    /// Fragments of one frame: at most two, the end of one SDU and the beginning of another.
    fn find(&self, an: An, pn: u64) -> impl Iterator<Item = usize> {
        let of_frame =
            move |(_, held): &(usize, &HeldFragment)| held.fragment.an == an && held.fragment.pn == pn;
        self.held.iter().enumerate().filter(of_frame).map(|(index, _)| index)
    }

    fn part(&self, index: usize) -> &[u8] {
        &self.octets[self.held[index].octets.clone()]
    }

    /// Holds a fragment. Returns the number of evicted ones; itself counts if there is no room at all.
    pub(crate) fn hold(&mut self, fragment: &Fragment, octets: &[u8]) -> u64 {
        if octets.len() > self.octets.capacity() {
            return 1;
        }
        let mut thrown_out = 0;
        while self.held.is_full() || self.octets.len() + octets.len() > self.octets.capacity() {
            let mut first = true;
            self.retain(|_| !core::mem::take(&mut first));
            thrown_out += 1;
        }
        let start = self.octets.len();
        self.octets.extend_from_slice(octets);
        self.held.push(HeldFragment { fragment: *fragment, octets: start..self.octets.len() });
        thrown_out
    }

    /// Keeps the fragments that `keep` accepts, and closes the gaps between their octets.
    fn retain(&mut self, mut keep: impl FnMut(&Fragment) -> bool) {
        let Self { held, octets } = self;
        let mut end = 0;
        held.retain(|held| {
            if !keep(&held.fragment) {
                return false;
            }
            let len = held.octets.len();
            octets.copy_within(held.octets.clone(), end);
            held.octets = end..end + len;
            end += len;
            true
        });
        octets.truncate(end);
    }
}

/// A neighbour is present, but belongs to another SDU.
struct Mismatch;

#[derive(Clone, Copy)]
enum Towards {
    Head,
    Tail,
}

impl Towards {
    const fn needs(self, fragment: &Fragment) -> bool {
        match self {
            Self::Head => fragment.continues,
            Self::Tail => fragment.continued,
        }
    }

    const fn answers(self, neighbour: &Fragment) -> bool {
        match self {
            Self::Head => neighbour.continued,
            Self::Tail => neighbour.continues,
        }
    }

    const fn neighbour(self, pn: u64) -> Option<u64> {
        match self {
            Self::Head => pn.checked_sub(1),
            Self::Tail => pn.checked_add(1),
        }
    }
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn fragment(an: u8, pn: u64, continues: bool, continued: bool, milliseconds: u64) -> Fragment {
        let at = Instant::after_start(Duration::from_millis(milliseconds));
        Fragment {
            an: An::from_tci(an),
            pn,
            addresses: [0; 12],
            with_addresses: false,
            continues,
            continued,
            at,
        }
    }

    /// The octets of a piece tell which one it is.
    fn octets(an: u8, pn: u64, len: usize) -> Vec<u8> {
        vec![(pn as u8) << 2 | an; len]
    }

    #[test]
    fn no_neighbour_beyond_either_end_of_the_pns() {
        let (mut reassembler, mut buffer) = (Reassembler::new(true), SduBuffer::new(1, 1514));
        assert_eq!(
            reassembler.offer(&fragment(0, u64::MAX, false, true, 0), &[1; 9], &mut buffer),
            Outcome::default()
        );
        assert_eq!(
            reassembler.offer(&fragment(0, 0, true, false, 0), &[1; 9], &mut buffer),
            Outcome::default()
        );
        assert_eq!(reassembler.drop_below(An::from_tci(0), 1), 2, "nobody can answer them");
        assert!(reassembler.is_empty());
    }

    #[test]
    fn dropping_below_spares_other_sas_and_those_with_a_neighbour() {
        let (mut reassembler, mut buffer) = (Reassembler::new(true), SduBuffer::new(1, 1514));
        for (an, pn, continues, continued) in [
            (0, 1, false, true),
            (0, 5, true, true),
            (0, 6, true, true),
            (1, 1, false, true),
            (0, 9, true, false),
        ] {
            reassembler.offer(&fragment(an, pn, continues, continued, 0), &octets(an, pn, 7), &mut buffer);
        }
        // (lowest PN, dropped, left): 1 misses 2; 5 misses 4; 6 misses 7 and, afterwards, 5; 9 misses 8.
        for (lowest, dropped, left) in
            [(2, 0, 5), (3, 1, 4), (4, 0, 4), (5, 1, 3), (6, 1, 2), (8, 0, 2), (9, 1, 1)]
        {
            assert_eq!(reassembler.drop_below(An::from_tci(0), lowest), dropped, "below {lowest}");
            assert_eq!(reassembler.len(), left);
        }
        assert_eq!(reassembler.held[0].fragment.an, An::from_tci(1));
        assert_eq!(reassembler.part(0), octets(1, 1, 7));
    }

    #[test]
    fn expiry_tells_whose_pieces_went() {
        let (mut reassembler, mut buffer) = (Reassembler::new(true), SduBuffer::new(1, 1514));
        for (an, milliseconds) in [(0, 0), (1, 10), (0, 20)] {
            let pn = 10 * milliseconds + 1;
            reassembler.offer(&fragment(an, pn, false, true, milliseconds), &octets(an, pn, 5), &mut buffer);
        }
        for (milliseconds, expected) in [(100, vec![]), (110, vec![0]), (111, vec![1]), (500, vec![0])] {
            let mut ans = vec![];
            let now = Instant::after_start(Duration::from_millis(milliseconds));
            reassembler.expire(now, |an| ans.push(an.number()));
            assert_eq!(ans, expected, "after {milliseconds} ms");
        }
    }

    #[test]
    fn a_piece_that_is_longer_than_all_room_goes_itself() {
        let (mut reassembler, mut buffer) = (Reassembler::new(true), SduBuffer::new(1, 1514));
        reassembler.offer(&fragment(0, 1, false, true, 0), &[1; 9], &mut buffer);
        let outcome =
            reassembler.offer(&fragment(0, 5, false, true, 0), &[1; MAX_FRAGMENT_OCTETS + 1], &mut buffer);
        assert_eq!((outcome, reassembler.len()), (Outcome { overrun: 1, ..Outcome::default() }, 1));
        let mut unwanted = Reassembler::new(false);
        assert_eq!(unwanted.offer(&fragment(0, 1, false, true, 0), &[1; 9], &mut buffer).overrun, 1);
        assert_eq!(unwanted.octets.capacity(), 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Offer { an: u8, pn: u64, continues: bool, continued: bool, len: usize },
        DropBelow { an: u8, lowest: u64 },
        Expire { milliseconds: u64 },
        Retire { an: u8 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let offer = (0..4u8, 1..60u64, any::<bool>(), any::<bool>(), prop_oneof![1..200usize, 1..9000usize]);
        prop_oneof![
            12 => offer.prop_map(|(an, pn, continues, continued, len)| Step::Offer { an, pn, continues, continued, len }),
            1 => (0..4u8, 1..60u64).prop_map(|(an, lowest)| Step::DropBelow { an, lowest }),
            1 => (0..400u64).prop_map(|milliseconds| Step::Expire { milliseconds }),
            1 => (0..4u8).prop_map(|an| Step::Retire { an }),
        ]
    }

    proptest! {
        /// Whatever comes: pieces in are pieces joined, dropped and held; what is held is what came; no memory grows.
        #[test]
        fn pieces_add_up_and_memory_does_not_grow(steps in proptest::collection::vec(step(), 1..300)) {
            let (mut reassembler, mut buffer) = (Reassembler::new(true), SduBuffer::new(1, 9216));
            let capacities = (reassembler.octets.capacity(), buffer.capacities());
            let (mut offered, mut gone, mut clock) = (0, 0, 0);
            for step in steps {
                clock += 1;
                match step {
                    Step::Offer { continues: false, continued: false, .. } => {}
                    Step::Offer { an, pn, continues, continued, len } => {
                        buffer.clear();
                        let before = reassembler.len() as u64;
                        let one = fragment(an, pn, continues, continued, clock);
                        let outcome = reassembler.offer(&one, &octets(an, pn, len), &mut buffer);
                        offered += 1;
                        let whole = outcome.reassembled + outcome.too_long;
                        prop_assert!(whole <= 1 && outcome.reassembled == buffer.len() as u64);
                        gone += if whole == 1 { before + 1 - reassembler.len() as u64 } else { 0 };
                        gone += outcome.overrun + outcome.mismatched;
                        for sdu in buffer.sdus(0..buffer.len()) {
                            // Runs of octets that count up the PNs of one SA.
                            let (mut tags, mut sdu) = (vec![], sdu[12..].to_vec());
                            sdu.dedup();
                            tags.append(&mut sdu);
                            prop_assert!(tags.windows(2).all(|pair| pair[1] == pair[0] + 4), "{:?}", tags);
                        }
                    }
                    Step::DropBelow { an, lowest } => gone += reassembler.drop_below(An::from_tci(an), lowest),
                    Step::Retire { an } => gone += reassembler.retire(An::from_tci(an)),
                    Step::Expire { milliseconds } => {
                        let now = Instant::after_start(Duration::from_millis(milliseconds));
                        reassembler.expire(now, |_| gone += 1);
                    }
                }
                prop_assert_eq!(offered, gone + reassembler.len() as u64);
                prop_assert_eq!(reassembler.octets.len(), reassembler.held.iter().map(|held| held.octets.len()).sum::<usize>());
                for (index, HeldFragment { fragment, octets: range }) in reassembler.held.iter().enumerate() {
                    prop_assert_eq!(reassembler.part(index), octets(fragment.an.number(), fragment.pn, range.len()));
                }
            }
            let now = (reassembler.octets.capacity(), buffer.capacities());
            prop_assert_eq!(now, capacities);
        }
    }
}
