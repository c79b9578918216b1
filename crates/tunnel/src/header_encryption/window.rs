//! Used PNs of one (epoch, SCI, AN, region), for a receiver and for a sender.
//!
//! ```text
//!   0                                                                                    2^29 - 1
//!   |--- late -------[block]-[block][block]--------[block]----------[block]------------------|
//!                     32 PNs each, 64 of them at most: what is not in one of them is new
//! ```
//!
//! PNs have 32 bits and wrap (XPN sends the low half). So eight regions, by the three highest bits, have a
//! window each: within a region PNs are plain numbers. A window remembers the PNs of the 64 highest used
//! blocks. Once there are 64, all PNs below the lowest of them are late. A jump ahead costs one block, and
//! makes no earlier PN late. `exhaustive` shows both for all sequences.
//!
//! A sender cannot verify the frames of its LAN. An attacker who knows a station's addresses can have a frame
//! sent with any PN. With 64 of them, all ahead, the station's own would be late. So if frames below
//! the highest keep coming, a sender rejects blocks far ahead of them, and lets the station's PNs continue. A
//! receiver accepts everything that its sender sends: it holds more blocks than the sender's 64 only where
//! the sender has given blocks up before ([`PnWindow::commit`], test
//! `a_receiver_in_order_takes_whatever_its_sender_sends`).

/// PNs that share a block, two bits each.
pub(crate) const PNS_PER_BLOCK: u32 = 32;
/// Remembered blocks.
pub(crate) const BLOCKS: usize = 64;
/// PNs by which a frame may fall behind the newest of its SA if there are no jumps.
pub(crate) const MOST_LATE_PNS: u64 = (BLOCKS as u64 - 1) * PNS_PER_BLOCK as u64;
/// Boundary of the lower blocks: a frame there is being overtaken.
const LOW: usize = BLOCKS / 2;
/// Below this index, a PN indicates its station's position.
const MIDDLE: usize = BLOCKS / 4 * 3;
/// A frame in the lower blocks earns its station one rejection of a block far ahead; maximum of such credits.
const MOST_CREDIT: u8 = 16;
/// PNs of a region: those with the same three highest bits.
const REGION: u32 = 1 << 29;

/// Region of a PN.
pub(crate) const fn region(pn: u32) -> u8 {
    (pn / REGION) as u8
}

/// Share of a frame in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FragmentKind {
    /// Whole frame.
    Whole,
    /// First of two fragments.
    First,
    /// Second of two fragments.
    Second,
}

impl FragmentKind {
    /// The bits of a PN that it uses up: after one of its fragments a frame cannot come whole any more.
    const fn bits(self) -> u64 {
        match self {
            Self::Whole => 0b11,
            Self::First => 0b01,
            Self::Second => 0b10,
        }
    }
}

/// Position of a PN in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freshness {
    /// Not used before.
    New,
    /// Remembered, and used before.
    Seen,
    /// Below what is remembered.
    Late,
    /// Far ahead of the current PNs, and a sender has no room for it.
    Crowded,
}

/// The PNs of one SA in one region of one epoch. Accepts only PNs of that region.
#[derive(Clone, Debug)]
pub(crate) struct PnWindow {
    /// Block numbers, ascending from `head`.
    numbers: [u32; BLOCKS],
    bits: [u64; BLOCKS],
    head: u8,
    len: u8,
    /// Repeated PNs since the last new one in the highest block.
    repeats: u8,
    /// Rejections that overtaken frames have earned.
    credit: u8,
    /// Block of the overtaken frames.
    at: u32,
    /// Block of the last new PN ...
    last: u32,
    /// ... and the usual distance between such blocks: about the median.
    step: u32,
}

/// Index of a block, counted from the lowest one, or its insertion index.
type BlockPosition = Result<usize, usize>;

impl PnWindow {
    /// Nothing is used yet.
    pub(crate) const fn new() -> Self {
        Self {
            numbers: [0; BLOCKS],
            bits: [0; BLOCKS],
            head: 0,
            len: 0,
            repeats: 0,
            credit: 0,
            at: 0,
            last: 0,
            step: 0,
        }
    }

    /// Distance of a PN below the highest used one.
    pub(crate) fn below_newest(&self, pn: u32) -> u32 {
        let Some(highest) = self.len().checked_sub(1).map(|place| self.slot(place)) else { return 0 };
        let in_block = (u64::BITS - 1).saturating_sub(self.bits[highest].leading_zeros()) / 2;
        let newest = self.numbers[highest] * PNS_PER_BLOCK + in_block;
        newest.saturating_sub(pn % REGION)
    }

    /// Position of a fragment's PN, for a receiver. Changes nothing.
    #[cfg(test)]
    pub(crate) fn classify(&self, pn: u32, kind: FragmentKind) -> Freshness {
        self.classify_at(pn, kind, self.find(number(pn)))
    }

    /// Classifies a fragment's PN and marks it as used if it is new. A receiver has no crowded PNs.
    pub(crate) fn commit(&mut self, pn: u32, kind: FragmentKind) -> Freshness {
        let place = self.find(number(pn));
        let freshness = self.classify_at(pn, kind, place);
        if freshness == Freshness::New {
            self.mark(pn, kind, place);
        }
        freshness
    }

    /// The same for a sender, whose frames are whole and may be forged.
    pub(crate) fn admit(&mut self, pn: u32) -> Freshness {
        let (number, found) = (number(pn), self.find(number(pn)));
        let freshness = self.classify_at(pn, FragmentKind::Whole, found);
        if freshness != Freshness::New {
            return freshness;
        }
        // Frames come in order: the highest block needs no check.
        if self.len() == BLOCKS
            && (found != Ok(BLOCKS - 1) || self.credit > 0)
            && !self.favours(number, found)
        {
            return Freshness::Crowded;
        }
        self.walk(number);
        self.mark(pn, FragmentKind::Whole, found);
        Freshness::New
    }

    /// True if a new PN has room in a full window, where a new block evicts the lowest one.
    fn favours(&mut self, number: u32, found: BlockPosition) -> bool {
        let reach = self.step.saturating_mul(4).saturating_add(1);
        if found.is_err() && self.credit > 0 && number > self.at.saturating_add(reach) {
            self.credit -= 1;
            return false;
        }
        let place = found.unwrap_or_else(|place| place - 1);
        if place < LOW {
            self.credit = (self.credit + 1).min(MOST_CREDIT);
        } else {
            self.credit = self.credit.saturating_sub(1);
        }
        if place < MIDDLE {
            self.at = number;
        }
        true
    }

    /// Counts a repeated PN. Returns their number since the last new one in the highest block.
    pub(crate) const fn repeat(&mut self) -> u8 {
        self.repeats = self.repeats.saturating_add(1);
        self.repeats
    }

    fn classify_at(&self, pn: u32, kind: FragmentKind, place: BlockPosition) -> Freshness {
        match place {
            Ok(place) if self.bits[self.slot(place)] & kind.bits() << shift(pn) != 0 => Freshness::Seen,
            Ok(_) => Freshness::New,
            Err(0) if self.len() == BLOCKS => Freshness::Late,
            Err(_) => Freshness::New,
        }
    }

    /// Marks a new PN as used.
    fn mark(&mut self, pn: u32, kind: FragmentKind, found: BlockPosition) {
        let place = match found {
            Ok(place) => place,
            Err(place) => self.insert(number(pn), place),
        };
        self.bits[self.slot(place)] |= kind.bits() << shift(pn);
        if place + 1 == self.len() {
            self.repeats = 0;
        }
    }

    /// Inserts a block, and evicts the lowest one if there is no room. Returns its index.
    fn insert(&mut self, number: u32, mut place: usize) -> usize {
        if self.len() == BLOCKS {
            self.head = (self.head + 1) % BLOCKS as u8;
            self.len -= 1;
            place -= 1;
        }
        for above in (place..self.len()).rev() {
            let (from, to) = (self.slot(above), self.slot(above + 1));
            (self.numbers[to], self.bits[to]) = (self.numbers[from], self.bits[from]);
        }
        let slot = self.slot(place);
        (self.numbers[slot], self.bits[slot]) = (number, 0);
        self.len += 1;
        place
    }

    fn find(&self, number: u32) -> BlockPosition {
        let len = self.len();
        // Frames come in order: it is the highest block.
        let highest = self.numbers[self.slot(len.wrapping_sub(1))];
        if len == 0 || number > highest {
            return Err(len);
        }
        if number == highest {
            return Ok(len - 1);
        }
        let (mut low, mut high) = (0, len - 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.numbers[self.slot(middle)] < number { low = middle + 1 } else { high = middle }
        }
        if self.numbers[self.slot(low)] == number { Ok(low) } else { Err(low) }
    }

    /// Learns the distance between blocks. A block behind was overtaken by another station's, which tells
    /// nothing.
    const fn walk(&mut self, number: u32) {
        if number == self.last && self.step == 0 {
            return;
        }
        if number >= self.last {
            let change = 1 + self.step / 8;
            let is_far = number - self.last > self.step;
            self.step = if is_far { self.step + change } else { self.step.saturating_sub(change) };
        }
        self.last = number;
    }

    const fn len(&self) -> usize {
        self.len as usize
    }

    const fn slot(&self, place: usize) -> usize {
        (self.head as usize).wrapping_add(place) % BLOCKS
    }
}

/// Number of a PN's block in its region.
const fn number(pn: u32) -> u32 {
    pn % REGION / PNS_PER_BLOCK
}

const fn shift(pn: u32) -> u32 {
    pn % PNS_PER_BLOCK * 2
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests {
    extern crate std;
    use super::FragmentKind::{First, Second, Whole};
    use super::Freshness::{Crowded, Late, New, Seen};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};
    use std::vec::Vec;

    #[test]
    fn a_pn_may_be_late_by_so_many_and_not_by_a_block_more() {
        let late = u32::try_from(MOST_LATE_PNS).unwrap();
        let mut window = PnWindow::new();
        for pn in (1..=10_001).step_by(5) {
            window.commit(pn, Whole);
        }
        for newest in 10_002..10_100 {
            assert_eq!(window.commit(newest, Whole), New);
            assert_ne!(window.classify(newest - late, Whole), Late);
            assert_eq!(window.classify(newest - late - PNS_PER_BLOCK, Whole), Late);
        }
    }

    #[test]
    fn windows_by_rows() {
        // (PN, kind, verdict)
        type Rows = &'static [(u32, FragmentKind, Freshness)];
        let tables: [Rows; 4] = [
            // Two parts, and what is whole.
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
            // A jump far ahead, and all that was not sent before it.
            &[
                (1, Whole, New),
                (0x1000_0000, Whole, New),
                (1, Whole, Seen),
                (2, Whole, New),
                (0x0fff_ffff, Whole, New),
            ],
            // From the ends of a region.
            &[(0, Whole, New), (0x1fff_ffff, Whole, New), (0, Whole, Seen), (0x1fff_ffff, Whole, Seen)],
            // Of another region alike: who has the right one gives it.
            &[(0xe000_0000, Whole, New), (0xffff_ffff, Whole, New), (0xe000_0000, First, Seen)],
        ];
        for (table, rows) in tables.iter().enumerate() {
            let mut window = PnWindow::new();
            for (row, &(pn, kind, expected)) in rows.iter().enumerate() {
                assert_eq!(window.classify(pn, kind), expected, "{table}, row {row}, judged");
                assert_eq!(window.commit(pn, kind), expected, "{table}, row {row}, committed");
            }
        }
    }

    #[test]
    fn a_frame_may_fall_2016_pns_behind() {
        for mut take in [PnWindow::admit, |window: &mut PnWindow, pn| window.commit(pn, Whole)]
            as [fn(&mut PnWindow, u32) -> Freshness; 2]
        {
            let mut window = PnWindow::new();
            let held = [1, 5000 - 2016 - PNS_PER_BLOCK, 5000 - 2016];
            for pn in (1..=5000).filter(|pn| !held.contains(pn)) {
                assert_eq!(take(&mut window, pn), New);
            }
            assert_eq!(held.map(|pn| take(&mut window, pn)), [Late, Late, New]);
            assert_eq!(held.map(|pn| take(&mut window, pn)), [Late, Late, Seen]);
            let _ = &mut take;
        }
    }

    #[test]
    fn who_keeps_coming_is_not_overtaken() {
        let mut window = PnWindow::new();
        (1..=3000).for_each(|pn| assert_eq!(window.admit(pn), New));
        let mut refused = 0;
        for pn in 3001..10_000 {
            refused += u32::from(window.admit(pn + 1_000_000 + pn % 97 * 1000) == Crowded);
            assert_eq!(window.admit(pn), New, "{pn}");
        }
        assert!(refused > 6000, "{refused}");
        // It has gone on ahead itself.
        let far = (0..40).filter(|step| window.admit(40_000_000 + step) == New).count();
        assert!(far >= 40 - usize::from(MOST_CREDIT), "{far}");
    }

    #[test]
    fn a_station_that_speaks_to_others_too_leaves_gaps() {
        let mut window = PnWindow::new();
        for (sent, pn) in (1..0x1000_0000).step_by(50_021).enumerate() {
            assert_eq!(window.admit(pn), New, "{sent}");
        }
        let mut window = PnWindow::new();
        for (sent, pn) in (1..1_000_000).step_by(17).enumerate() {
            assert_eq!(window.admit(pn), New, "{sent}");
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Kind {
        Next(u32),
        Ahead(u32),
        Anywhere(u32),
        Behind(u32),
    }

    fn pns() -> impl Strategy<Value = Vec<Kind>> {
        let kind = prop_oneof![
            6 => (1..3_u32).prop_map(Kind::Next),
            2 => (0..5000_u32).prop_map(Kind::Ahead),
            1 => any::<u32>().prop_map(Kind::Anywhere),
            1 => (0..5000_u32).prop_map(Kind::Behind),
        ];
        vec(kind, 1..600)
    }

    /// PNs of one region, around a station that goes on.
    fn line(kinds: Vec<Kind>) -> impl Iterator<Item = u32> {
        let mut station = 10_000;
        kinds.into_iter().map(move |kind| match kind {
            Kind::Next(step) => {
                station += step;
                station
            }
            Kind::Ahead(distance) => station + distance,
            Kind::Anywhere(pn) => pn % REGION,
            Kind::Behind(distance) => station - distance,
        })
    }

    proptest! {
        /// Whatever comes, and in whatever order: nothing is accepted twice, and what is not accepted was used, or is below
        /// 64 blocks that were.
        #[test]
        fn no_pn_is_accepted_twice(kinds in pns(), portions in vec(0..3_u8, 600)) {
            let mut window = PnWindow::new();
            let (mut used, mut blocks) = (HashMap::<u32, u64>::new(), HashSet::new());
            for (pn, kind) in line(kinds).zip(portions) {
                let kind = [Whole, First, Second][usize::from(kind)];
                let bits = used.entry(pn).or_default();
                let above = blocks.iter().filter(|block| **block > number(pn)).count();
                let expected = match () {
                    () if above >= BLOCKS => Late,
                    () if *bits & kind.bits() != 0 => Seen,
                    () => New,
                };
                let is = window.commit(pn, kind);
                prop_assert_eq!(is, expected);
                if is == New {
                    *bits |= kind.bits();
                    blocks.insert(number(pn));
                }
            }
        }

        /// Some packets are lost, some are held back and let go later; those in order are all taken.
        #[test]
        fn a_receiver_in_order_takes_whatever_its_sender_sends(
            kinds in pns(),
            fates in vec(0..10_u8, 600),
            release in vec(any::<prop::sample::Index>(), 600),
        ) {
            let (mut sender, mut receiver) = (PnWindow::new(), PnWindow::new());
            let (mut held, mut taken) = (Vec::new(), HashSet::new());
            for ((pn, fate), index) in line(kinds).zip(fates).zip(release) {
                if sender.admit(pn) != New {
                    continue;
                }
                match fate {
                    0 => {}
                    1 => held.push(pn),
                    _ => {
                        prop_assert_eq!(receiver.commit(pn, Whole), New);
                        prop_assert!(taken.insert(pn));
                    }
                }
                if fate == 9 && !held.is_empty() {
                    let old = held.swap_remove(index.index(held.len()));
                    if receiver.commit(old, Whole) == New {
                        prop_assert!(taken.insert(old));
                    }
                }
            }
            for pn in taken {
                prop_assert_ne!(receiver.commit(pn, Whole), New);
            }
        }
    }
}
