//! Identifiers that a lane may receive next (the project's wire formats, section 3.1).
//!
//! ```text
//!   newest - W/2        newest              newest + W        anchors: every W/2, 1,024 of them from newest on
//!  ──────┼────────────────┼───────────────────────┼─────────┬─────────┬─────────┬──── · · ·
//!        │ unused ones    │ all of them           │         a         a         a
//! ```
//!
//! One table of the whole site ([`Table`]) maps an identifier to (lane, seq). A lane keeps its identifiers,
//! with the masks, in a ring by seq, so that they can be removed. A packet moves `newest` forward; one on an
//! anchor may jump far. The identifiers that enter the window enter the table in small steps
//! ([`Window::fill`]): first those ahead of the newest, so that packets after a jump are found, then those
//! behind it, then anchors.
//!
//! **No seq is accepted twice**, since none enters the table twice. `high` and `anchors_high` only grow, and
//! the gap behind a jump is filled once, from its end down. A second jump while a gap is open gives the rest
//! of the gap up for good.
//!
//! Expired identifiers leave the table when their slot in the ring is needed, at most W/2 seqs later. Until
//! then they are known, and rejected.
//!
//! A window may keep used identifiers as well, marked: those of a peer whose packets come over several paths.
//! The second copy of a packet is then known as one, until W later seqs have come.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

use suite::tunnel::{IdentifierBlock, LaneKey, Rid};

use crate::table::Table;

/// Anchors beyond the newest seq.
pub(crate) const ANCHORS: u64 = 1024;
/// Bits of a seq in the table's values; the lane's number stands above them.
const SEQ_BITS: u32 = 48;
/// Mark of a value whose identifier was used.
const USED: u64 = 1 << 63;
/// Lanes whose numbers leave room for the mark.
pub(crate) const LANES: usize = 1 << 15;
/// Last seq in use. It is so far below the table's maximum that windows need no boundary, even if a peer
/// jumps from anchor to anchor on purpose.
pub(crate) const LAST_SEQ: u64 = (1 << SEQ_BITS) - (1 << 32);

/// Number of a site's lane in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaneNumber(pub(crate) u16);

impl LaneNumber {
    const fn value(self, seq: u64) -> u64 {
        (self.0 as u64) << SEQ_BITS | seq
    }
}

/// Lane and seq of a found identifier.
pub(crate) const fn parse_value(value: u64) -> (LaneNumber, u64) {
    (LaneNumber(((value & !USED) >> SEQ_BITS) as u16), value & ((1 << SEQ_BITS) - 1))
}

/// True if the identifier of this value was used, and is kept to tell copies of its packet.
pub(crate) const fn is_used(value: u64) -> bool {
    value & USED != 0
}

/// An unused identifier, with the pad of its check and its mask.
#[derive(Clone, Copy, Debug)]
struct HeldIdentifier {
    /// The identifier's number, and the pad in the low 16 bits.
    front: u64,
    mask: [u8; 8],
}

impl HeldIdentifier {
    /// No identifier has all bits set: QUIC's bit is clear.
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

/// Error of a known identifier that has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Late;

/// The window of one lane in one epoch.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Window {
    number: LaneNumber,
    /// Without a key the window is closed: it accepts nothing, and its identifiers leave the table.
    key: Option<LaneKey>,
    /// Whether used identifiers stay in the table.
    keeps_used: bool,
    /// W.
    width: u64,
    /// Highest seq accepted, or announced by the peer; 0 before that.
    newest: u64,
    /// Next seq that enters the table, ascending.
    high: u64,
    /// Gap behind a jump: enters the table from its end down.
    gap: Range<u64>,
    /// Next anchor that enters the table, ascending, as a multiple of W/2.
    anchors_high: u64,
    /// Ring of identifiers; seq n is at n % 2W.
    ring: Box<[HeldIdentifier]>,
    /// Anchors beyond `high`; anchor n is at n % [`ANCHORS`].
    anchors: Box<[HeldIdentifier]>,
    /// Slots of both that were cleared since the window was closed.
    cleared: usize,
}

impl Window {
    /// A closed window. Allocates.
    pub(crate) fn new(number: LaneNumber, width: u64) -> Self {
        Self {
            number,
            key: None,
            keeps_used: false,
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

    /// Most identifiers of a lane in the table.
    pub(crate) const fn capacity(width: u64) -> usize {
        (2 * width + ANCHORS) as usize
    }

    /// Opens a clear window. It accepts nothing yet; all is to be filled. `keeps_used`: packets may come twice.
    pub(crate) fn open(&mut self, key: LaneKey, keeps_used: bool) {
        debug_assert!(self.is_clear(), "identifiers of another key are in the table");
        (self.key, self.keeps_used) = (Some(key), keeps_used);
        (self.newest, self.high, self.gap, self.anchors_high) = (0, 1, 0..0, 1);
    }

    /// Closes the window: it accepts nothing from now on.
    pub(crate) fn close(&mut self) {
        self.key = None;
        self.cleared = 0;
    }

    /// True if it is closed and has no identifier left in the table.
    pub(crate) fn is_clear(&self) -> bool {
        self.key.is_none() && self.cleared == Self::capacity(self.width)
    }

    /// Highest seq accepted, or announced by the peer.
    #[cfg(test)]
    pub(crate) const fn newest(&self) -> u64 {
        self.newest
    }

    const fn half(&self) -> u64 {
        self.width / 2
    }

    /// Uses up an unused identifier found in the table, and returns its block.
    pub(crate) fn take(&mut self, table: &mut Table, rid: u64, seq: u64) -> Result<IdentifierBlock, Late> {
        let expired = seq + self.half() < self.newest || seq > LAST_SEQ;
        let counts = self.key.is_some() && !expired;
        // The place of one that does not count may be a later one's by now.
        let marked = counts && self.keeps_used;
        let held = if marked { self.mark(table, rid, seq) } else { self.withdraw(table, rid, seq) };
        debug_assert_eq!(held.rid(), rid, "the table and the lane know the same identifiers");
        if !counts || held.rid() != rid {
            return Err(Late);
        }
        if seq >= self.high {
            // From an anchor: the gap is filled from here down, the window continues behind it.
            self.gap = self.high..seq;
            self.high = seq + 1;
        }
        self.newest = self.newest.max(seq);
        Ok(held.block())
    }

    /// Removes an identifier.
    fn withdraw(&mut self, table: &mut Table, rid: u64, seq: u64) -> HeldIdentifier {
        table.remove(rid);
        let place = self.place(seq);
        if self.ring[place].rid() == rid {
            core::mem::replace(&mut self.ring[place], HeldIdentifier::NONE)
        } else {
            let anchor = self.anchor_place(seq / self.half());
            core::mem::replace(&mut self.anchors[anchor], HeldIdentifier::NONE)
        }
    }

    /// Marks an identifier as used. It leaves the table as expired ones do, an anchor among them.
    fn mark(&mut self, table: &mut Table, rid: u64, seq: u64) -> HeldIdentifier {
        if let Some(value) = table.find_mut(rid) {
            *value |= USED;
        }
        let place = self.place(seq);
        if self.ring[place].rid() != rid {
            let anchor = self.anchor_place(seq / self.half());
            let held = core::mem::replace(&mut self.anchors[anchor], HeldIdentifier::NONE);
            let expired = core::mem::replace(&mut self.ring[place], held);
            if expired.is_some() {
                table.remove(expired.rid());
            }
        }
        self.ring[place]
    }

    /// True if an unused packet with this seq would be accepted without an anchor.
    pub(crate) const fn reaches(&self, seq: u64) -> bool {
        seq <= self.newest + self.width
    }

    /// Moves to an anchor that the peer's lane has reached within W/2. False unless that is forward.
    pub(crate) fn advance(&mut self, seq: u64) -> bool {
        let forward = seq > self.newest && seq.is_multiple_of(self.half()) && seq <= LAST_SEQ;
        if forward && self.key.is_some() {
            self.newest = seq;
            // The next packets are those before the anchor: filled upwards, they come first.
            self.high = self.high.max(seq - self.half()).max(1);
        }
        forward
    }

    /// The lane's keys, if the window is open.
    pub(crate) const fn key(&self) -> Option<&LaneKey> {
        self.key.as_ref()
    }

    /// Number of identifiers that are missing in the table.
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

    /// Puts at most `budget` missing identifiers into the table, or removes that many if the window is
    /// closed. Returns their number.
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

    /// Puts a seq into table and ring. Moves an unused anchor from one ring to the other, and leaves a used
    /// one out.
    fn put(&mut self, table: &mut Table, seq: u64) {
        let place = self.place(seq);
        // An anchor in a gap that was used before the gap was filled.
        if self.keeps_used && table.find(self.ring[place].rid()) == Some(self.number.value(seq) | USED) {
            return;
        }
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

    /// Of two seqs with one identifier, the later is left out. That happens once in 2^33 packets from one
    /// peer, and once in 2^27 with 64 peers.
    fn fresh(&self, table: &mut Table, seq: u64) -> HeldIdentifier {
        let Some(key) = &self.key else { return HeldIdentifier::NONE };
        let block = key.block(seq);
        let inserted = table.insert(block.rid.number(), self.number.value(seq));
        if inserted { HeldIdentifier::new(&block) } else { HeldIdentifier::NONE }
    }
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests;
