//! The identifiers that a lane may come with next (the project's wire formats, section 3.1).
//!
//! ```text
//!   newest - W/2        newest              newest + W        anchors: every W/2, 1,024 of them from newest on
//!  ──────┼────────────────┼───────────────────────┼─────────┬─────────┬─────────┬──── · · ·
//!        │ unused ones    │ all of them           │         a         a         a
//! ```
//!
//! One table of the whole site ([`Table`]) leads from an identifier to (lane, seq); a lane keeps its identifiers, with
//! the masks, in a ring by seq, so that they can be taken out again. A packet moves `newest` forward; one on an anchor
//! may jump far. What comes into the window by that is put into the table in small portions ([`Window::fill`]):
//! forward of the newest first, so that what follows a jump is found, then what lies behind it, then anchors.
//!
//! **No seq is accepted twice**, since none is put into the table twice: `high` and `anchors_high` only grow, and the
//! gap that a jump leaves behind is filled from its end down, once. What is given up on the way (a second jump while a
//! gap is open) is given up for good.
//!
//! Expired identifiers leave the table when their place in the ring is needed, at most W/2 seqs later; until then
//! they are known, and refused.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

use suite::tunnel::{IdentifierBlock, LaneKey, Rid};

use crate::table::Table;

/// Anchors that are held beyond the newest seq.
pub(crate) const ANCHORS: u64 = 1024;
/// Bits of a seq in the values of the table; the lane's number stands above them.
const SEQ_BITS: u32 = 48;
/// The last seq that is used or taken: so far below the last that the table could hold that windows need no edge, also
/// of a peer that jumps from anchor to anchor on purpose.
pub(crate) const LAST_SEQ: u64 = (1 << SEQ_BITS) - (1 << 32);

/// A lane of the site, as the table knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaneNumber(pub(crate) u16);

impl LaneNumber {
    const fn value(self, seq: u64) -> u64 {
        (self.0 as u64) << SEQ_BITS | seq
    }
}

/// Lane and seq of an identifier that was found.
pub(crate) const fn parse_value(value: u64) -> (LaneNumber, u64) {
    (LaneNumber((value >> SEQ_BITS) as u16), value & ((1 << SEQ_BITS) - 1))
}

/// An unused identifier, with the pad of its check and its mask.
#[derive(Clone, Copy, Debug)]
struct HeldIdentifier {
    /// The identifier's number, and the pad in the low 16 bits.
    front: u64,
    mask: [u8; 8],
}

impl HeldIdentifier {
    /// No identifier has all bits set: the one that QUIC has is clear.
    const NONE: Self = Self { front: u64::MAX, mask: [0; 8] };

    const fn new(block: &IdentifierBlock) -> Self {
        Self { front: block.rid.number() << 16 | block.pad as u64, mask: block.mask }
    }

    const fn is_some(&self) -> bool {
        self.front != u64::MAX
    }

    const fn rid(&self) -> u64 {
        self.front >> 16
    }

    const fn block(&self) -> IdentifierBlock {
        IdentifierBlock { rid: Rid::from_number(self.rid()), pad: self.front as u16, mask: self.mask }
    }
}

/// The identifier was known and has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Late;

/// The window of one lane in one epoch.
#[derive(Debug)]
pub(crate) struct Window {
    number: LaneNumber,
    /// Without a key the window is closed: nothing is accepted, and what it has in the table is on its way out.
    key: Option<LaneKey>,
    /// W.
    width: u64,
    /// The highest seq that was accepted, or told by the peer; 0 before that.
    newest: u64,
    /// The next seq to be put into the table, going up.
    high: u64,
    /// What a jump left behind: put into the table from its end down.
    gap: Range<u64>,
    /// The next anchor to be put into the table, going up, as a multiple of W/2.
    anchors_high: u64,
    /// By seq modulo 2 W.
    ring: Box<[HeldIdentifier]>,
    /// Anchors beyond `high`, by their number modulo [`ANCHORS`].
    anchors: Box<[HeldIdentifier]>,
    /// How many places of both were cleared since the window was closed.
    cleared: usize,
}

impl Window {
    /// A closed window. Allocates.
    pub(crate) fn new(number: LaneNumber, width: u64) -> Self {
        Self {
            number,
            key: None,
            width,
            newest: 0,
            high: 1,
            gap: 0..0,
            anchors_high: 1,
            ring: vec![HeldIdentifier::NONE; 2 * width as usize].into(),
            anchors: vec![HeldIdentifier::NONE; ANCHORS as usize].into(),
            cleared: Self::capacity(width),
        }
    }

    /// How many identifiers a lane can have in the table.
    pub(crate) const fn capacity(width: u64) -> usize {
        (2 * width + ANCHORS) as usize
    }

    /// Opens a window that is clear: nothing is accepted yet, all is to be filled.
    pub(crate) fn open(&mut self, key: LaneKey) {
        debug_assert!(self.is_clear(), "identifiers of another key are in the table");
        self.key = Some(key);
        (self.newest, self.high, self.gap, self.anchors_high) = (0, 1, 0..0, 1);
    }

    /// From here on nothing is accepted.
    pub(crate) fn close(&mut self) {
        self.key = None;
        self.cleared = 0;
    }

    /// Closed, and nothing of it is left in the table.
    pub(crate) fn is_clear(&self) -> bool {
        self.key.is_none() && self.cleared == Self::capacity(self.width)
    }

    /// The highest seq that was accepted, or told by the peer.
    #[cfg(test)]
    pub(crate) const fn newest(&self) -> u64 {
        self.newest
    }

    const fn half(&self) -> u64 {
        self.width / 2
    }

    /// Uses up an identifier that the table led here with, and gives what belongs to it.
    pub(crate) fn take(&mut self, table: &mut Table, rid: u64, seq: u64) -> Result<IdentifierBlock, Late> {
        table.remove(rid);
        let place = self.place(seq);
        let held = if self.ring[place].rid() == rid {
            core::mem::replace(&mut self.ring[place], HeldIdentifier::NONE)
        } else {
            let anchor = self.anchor_place(seq / self.half());
            core::mem::replace(&mut self.anchors[anchor], HeldIdentifier::NONE)
        };
        debug_assert_eq!(held.rid(), rid, "the table and the lane know the same identifiers");
        let expired = seq + self.half() < self.newest || seq > LAST_SEQ;
        if self.key.is_none() || held.rid() != rid || expired {
            return Err(Late);
        }
        if seq >= self.high {
            // From an anchor: what lies between is filled from here down, the window goes on behind it.
            self.gap = self.high..seq;
            self.high = seq + 1;
        }
        self.newest = self.newest.max(seq);
        Ok(held.block())
    }

    /// Whether a packet with this seq would be accepted, were it not used, without an anchor.
    pub(crate) const fn reaches(&self, seq: u64) -> bool {
        seq <= self.newest + self.width
    }

    /// The peer says that its lane stands at this anchor or up to W/2 before it. Only forward; false if it is not.
    pub(crate) fn advance(&mut self, seq: u64) -> bool {
        let forward = seq > self.newest && seq.is_multiple_of(self.half()) && seq <= LAST_SEQ;
        if forward && self.key.is_some() {
            self.newest = seq;
            // The packets that come next are those before the anchor: filled upwards, they come first.
            self.high = self.high.max(seq - self.half()).max(1);
        }
        forward
    }

    /// The lane's keys, if the window is open.
    pub(crate) const fn key(&self) -> Option<&LaneKey> {
        self.key.as_ref()
    }

    /// How many identifiers are missing in the table.
    pub(crate) fn missing(&self) -> u64 {
        if self.key.is_none() {
            return (Self::capacity(self.width) - self.cleared) as u64;
        }
        let gap = self.gap.end.saturating_sub(self.gap_start());
        (self.newest + self.width + 1 - self.high) + gap + (self.last_anchor() + 1 - self.first_anchor())
    }

    fn gap_start(&self) -> u64 {
        self.gap.start.max(self.newest.saturating_sub(self.half()))
    }

    const fn last_anchor(&self) -> u64 {
        self.newest / self.half() + ANCHORS
    }

    fn first_anchor(&self) -> u64 {
        self.anchors_high.max(self.newest / self.half() + 1)
    }

    /// Puts at most `budget` missing identifiers into the table, or takes so many out if the window is closed. How
    /// many it was.
    pub(crate) fn fill(&mut self, table: &mut Table, budget: usize) -> usize {
        if self.key.is_none() {
            return self.clear(table, budget);
        }
        let mut filled = 0;
        while filled < budget {
            if self.high <= self.newest + self.width {
                self.put(table, self.high);
                self.high += 1;
            } else if self.gap.end > self.gap_start() {
                self.gap.end -= 1;
                self.put(table, self.gap.end);
            } else if self.first_anchor() <= self.last_anchor() {
                self.put_anchor(table);
            } else {
                break;
            }
            filled += 1;
        }
        filled
    }

    fn clear(&mut self, table: &mut Table, budget: usize) -> usize {
        let end = Self::capacity(self.width).min(self.cleared + budget);
        let cleared = end - self.cleared;
        for place in self.cleared..end {
            let held = match place.checked_sub(self.ring.len()) {
                None => core::mem::replace(&mut self.ring[place], HeldIdentifier::NONE),
                Some(anchor) => core::mem::replace(&mut self.anchors[anchor], HeldIdentifier::NONE),
            };
            if held.is_some() {
                table.remove(held.rid());
            }
        }
        self.cleared = end;
        cleared
    }

    fn place(&self, seq: u64) -> usize {
        seq as usize & (self.ring.len() - 1)
    }

    const fn anchor_place(&self, anchor: u64) -> usize {
        (anchor % ANCHORS) as usize
    }

    /// Puts a seq into table and ring. An anchor that was there before moves from one ring to the other if it is
    /// unused, and stays away if it is used.
    fn put(&mut self, table: &mut Table, seq: u64) {
        let place = self.place(seq);
        let expired = core::mem::replace(&mut self.ring[place], HeldIdentifier::NONE);
        if expired.is_some() {
            table.remove(expired.rid());
        }
        if seq.is_multiple_of(self.half()) {
            let anchor = seq / self.half();
            let at = self.anchor_place(anchor);
            if anchor < self.anchors_high {
                let held = self.anchors[at];
                if held.is_some() && table.find(held.rid()) == Some(self.number.value(seq)) {
                    self.ring[place] = held;
                    self.anchors[at] = HeldIdentifier::NONE;
                }
                return;
            }
            self.anchors_high = anchor + 1;
        }
        self.ring[place] = self.fresh(table, seq);
    }

    fn put_anchor(&mut self, table: &mut Table) {
        let anchor = self.first_anchor();
        let at = self.anchor_place(anchor);
        let expired = core::mem::replace(&mut self.anchors[at], HeldIdentifier::NONE);
        if expired.is_some() {
            table.remove(expired.rid());
        }
        self.anchors_high = anchor + 1;
        self.anchors[at] = self.fresh(table, anchor * self.half());
    }

    /// Two seqs with one identifier: the later one is left out. It happens once in 2^33 packets from one peer, and once
    /// in 2^27 where there are 64.
    fn fresh(&self, table: &mut Table, seq: u64) -> HeldIdentifier {
        let Some(key) = &self.key else { return HeldIdentifier::NONE };
        let block = key.block(seq);
        let inserted = table.insert(block.rid.number(), self.number.value(seq));
        if inserted { HeldIdentifier::new(&block) } else { HeldIdentifier::NONE }
    }
}

#[cfg(test)]
mod tests;
