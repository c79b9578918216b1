//! Halves of frames that wait for the other half: 64 of a lane, for 50 ms, whichever comes first.
//!
//! Two parts are one frame if their seqs are consecutive, the first one is a first and the second one a second, and
//! flow, PN and the other fields are equal. The frame of an unacknowledged flow has the flow in its first part alone.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use wire::time::Instant;
use wire::tunnel::{Flow, FlowIndex, PacketFields};

/// Parts of one lane that can wait.
const PARTS: usize = 64;
/// How long.
pub(crate) const WAIT: Duration = Duration::from_millis(50);

/// Which half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Half {
    /// The first, which knows its flow.
    First(Flow),
    /// The second.
    Second,
}

/// A part as it comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) seq: u64,
    pub(crate) half: Half,
    pub(crate) index: FlowIndex,
    pub(crate) fields: PacketFields,
}

/// What came of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Met {
    /// It waits.
    Kept,
    /// It waits, and the one that had waited for longest is gone for it.
    KeptForAnother,
    /// The other half was there: a frame of this flow. Its octets are [`Parts::octets`] of this place.
    Joined { flow: Flow, place: usize },
    /// Its neighbour is of another frame; both are gone.
    Mismatched,
    /// Longer than any part of a frame of this LAN.
    TooLong,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    part: Part,
    since: Instant,
    octets: usize,
}

/// The parts of one lane.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The seqs of `pending` in one piece, since each part looks for its neighbour here; 0: nothing waits.
    seqs: [u64; PARTS],
    pending: Box<[Option<Pending>]>,
    octets: Box<[u8]>,
    /// Octets of the longest part.
    room: usize,
    waiting: usize,
}

impl Parts {
    /// Memory for parts of up to `room` octets. Allocates.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            seqs: [0; PARTS],
            pending: vec![None; PARTS].into(),
            octets: vec![0; PARTS * room].into(),
            room,
            waiting: 0,
        }
    }

    /// A part has come: `head`, then `body`.
    pub(crate) fn meet(&mut self, now: Instant, part: Part, head: &[u8], body: &[u8]) -> Met {
        if head.len() + body.len() > self.room {
            return Met::TooLong;
        }
        let other_seq = match part.half {
            Half::First(_) => part.seq + 1,
            Half::Second => part.seq - 1,
        };
        let other = self.seqs.iter().position(|&seq| seq == other_seq && seq != 0);
        let Some((place, other)) = other.and_then(|place| Some((place, self.pending[place]?))) else {
            return self.keep(now, part, head, body);
        };
        let flow = match (part.half, other.part.half) {
            (Half::First(flow), Half::Second) | (Half::Second, Half::First(flow)) => flow,
            _ => return self.keep(now, part, head, body),
        };
        self.remove(place);
        if (part.index, part.fields) != (other.part.index, other.part.fields) {
            return Met::Mismatched;
        }
        Met::Joined { flow, place }
    }

    /// The octets of the part that has just been taken out of this place.
    pub(crate) fn octets(&self, place: usize) -> &[u8] {
        let octets = self.pending[place].map_or(0, |pending| pending.octets);
        &self.octets[place * self.room..][..octets]
    }

    /// Adds octets behind those of the part that has just been taken out of this place; false if there is no room.
    pub(crate) fn append(&mut self, place: usize, more: &[u8]) -> bool {
        let Some(pending) = &mut self.pending[place] else { return false };
        let end = pending.octets + more.len();
        if end > self.room {
            return false;
        }
        self.octets[place * self.room..][pending.octets..end].copy_from_slice(more);
        pending.octets = end;
        true
    }

    fn keep(&mut self, now: Instant, part: Part, head: &[u8], body: &[u8]) -> Met {
        let (place, met) = match self.seqs.iter().position(|&seq| seq == 0) {
            Some(place) => (place, Met::Kept),
            None => (self.oldest(), Met::KeptForAnother),
        };
        if met == Met::Kept {
            self.waiting += 1;
        }
        self.seqs[place] = part.seq;
        let octets = head.len() + body.len();
        self.pending[place] = Some(Pending { part, since: now, octets });
        let (head_room, body_room) = self.octets[place * self.room..][..octets].split_at_mut(head.len());
        head_room.copy_from_slice(head);
        body_room.copy_from_slice(body);
        met
    }

    fn oldest(&self) -> usize {
        let age = |place: &usize| self.pending[*place].map(|pending| (pending.since, pending.part.seq));
        (0..PARTS).min_by_key(age).unwrap_or(0)
    }

    /// Its length stays for [`Parts::octets`].
    fn remove(&mut self, place: usize) {
        self.seqs[place] = 0;
        self.waiting -= 1;
    }

    /// Drops what has waited for too long; how many parts that were.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        self.drop_if(|pending| now.since(pending.since) >= WAIT)
    }

    /// Drops all; how many parts that were.
    pub(crate) fn clear(&mut self) -> u64 {
        self.drop_if(|_| true)
    }

    fn drop_if(&mut self, mut goes: impl FnMut(&Pending) -> bool) -> u64 {
        let mut dropped = 0;
        for place in 0..PARTS {
            if self.waiting > 0 && self.seqs[place] != 0 && self.pending[place].as_ref().is_none_or(&mut goes)
            {
                self.remove(place);
                dropped += 1;
            }
        }
        dropped
    }

    /// Whether any part waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}
