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
pub(crate) enum JoinOutcome {
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
    pub(crate) fn meet(&mut self, now: Instant, part: Part, head: &[u8], body: &[u8]) -> JoinOutcome {
        if head.len() + body.len() > self.room {
            return JoinOutcome::TooLong;
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
            return JoinOutcome::Mismatched;
        }
        JoinOutcome::Joined { flow, place }
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

    fn keep(&mut self, now: Instant, part: Part, head: &[u8], body: &[u8]) -> JoinOutcome {
        let (place, met) = match self.seqs.iter().position(|&seq| seq == 0) {
            Some(place) => (place, JoinOutcome::Kept),
            None => (self.oldest(), JoinOutcome::KeptForAnother),
        };
        if met == JoinOutcome::Kept {
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

#[cfg(test)]
mod tests {
    use super::*;
    use wire::tunnel::ParsedFrame;

    const MS: Duration = Duration::from_millis(1);

    fn flow(last: u8) -> Flow {
        let mut frame = [last; 28];
        frame[12..15].copy_from_slice(&[0x88, 0xe5, 0x20]);
        ParsedFrame::parse(&frame).expect("a frame").flow
    }

    fn part(seq: u64, half: Half) -> Part {
        let fields = PacketFields { tci_low: 0x0c, octet_3: 0, pn: 9 };
        Part { seq, half, index: FlowIndex(5), fields }
    }

    fn first(seq: u64) -> Part {
        part(seq, Half::First(flow(1)))
    }

    fn second(seq: u64) -> Part {
        part(seq, Half::Second)
    }

    #[test]
    fn halves_join_whichever_comes_first() {
        let mut parts = Parts::new(8);
        for (waits, comes) in [(first(4), second(5)), (second(5), first(4))] {
            assert_eq!(parts.meet(Instant::START, waits, b"", b"waits"), JoinOutcome::Kept);
            let JoinOutcome::Joined { flow: of, place } = parts.meet(Instant::START, comes, b"", b"comes")
            else {
                panic!("not joined")
            };
            assert_eq!((of, parts.octets(place)), (flow(1), &b"waits"[..]));
            assert!(parts.is_empty());
        }
    }

    #[test]
    fn only_halves_of_one_frame_join() {
        let other = |change: fn(&mut Part)| {
            let mut part = second(5);
            change(&mut part);
            part
        };
        let rows = [
            (second(5), true),
            // Not neighbours in this order: both wait.
            (second(3), false),
            (second(6), false),
            (first(5), false),
            // Neighbours of two frames: both are gone.
            (other(|part| part.index = FlowIndex(6)), false),
            (other(|part| part.fields.pn = 10), false),
            (other(|part| part.fields.tci_low = 0x0d), false),
            (other(|part| part.fields.octet_3 = 7), false),
        ];
        for (number, (part, joins)) in rows.into_iter().enumerate() {
            let mut parts = Parts::new(8);
            parts.meet(Instant::START, first(4), b"", b"one");
            let met = parts.meet(Instant::START, part, b"", b"two");
            assert_eq!(matches!(met, JoinOutcome::Joined { .. }), joins, "row {number}");
            assert_eq!(met == JoinOutcome::Kept, (1..4).contains(&number), "row {number}");
            assert_eq!(met == JoinOutcome::Mismatched, number >= 4, "row {number}");
            assert_eq!(parts.waiting, if (1..4).contains(&number) { 2 } else { 0 });
        }
    }

    #[test]
    fn they_wait_for_50_ms() {
        let mut parts = Parts::new(8);
        parts.meet(Instant::START, first(4), b"", b"one");
        parts.meet(Instant::START + 20 * MS, first(8), b"", b"two");
        assert_eq!(parts.expire(Instant::START + 49 * MS), 0);
        assert_eq!(parts.expire(Instant::START + 50 * MS), 1);
        let late = parts.meet(Instant::START + 50 * MS, second(5), b"", b"three");
        assert_eq!(late, JoinOutcome::Kept);
        assert!(matches!(
            parts.meet(Instant::START + 60 * MS, second(9), b"", b"four"),
            JoinOutcome::Joined { .. }
        ));
        assert_eq!(parts.clear(), 1);
        assert!(parts.is_empty());
    }

    #[test]
    fn sixty_four_wait_and_the_oldest_goes_first() {
        let mut parts = Parts::new(8);
        for number in 0..64 {
            let met =
                parts.meet(Instant::START + number as u32 * MS, first(1000 - 2 * number), b"", b"octets");
            assert_eq!(met, JoinOutcome::Kept);
        }
        let now = Instant::START + 64 * MS;
        assert_eq!(parts.meet(now, first(4), b"", b"octets"), JoinOutcome::KeptForAnother);
        assert_eq!(parts.waiting, 64);
        assert_eq!(
            parts.meet(now, second(1001), b"", b"octets"),
            JoinOutcome::KeptForAnother,
            "its first is gone"
        );
        assert!(matches!(parts.meet(now, second(5), b"", b"octets"), JoinOutcome::Joined { .. }));
        assert_eq!(parts.meet(now, first(6), b"", b"more than 8"), JoinOutcome::TooLong);
    }
}
