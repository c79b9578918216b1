//! Fragments that wait for the other half of their frame: 64 of a lane, for 50 ms, in any order.
//!
//! Two fragments form a frame if their seqs are consecutive, they are first and second, and flow, PN and the
//! other fields are equal. The first fragment alone carries the flow of an unacknowledged one.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use wire::time::Instant;
use wire::tunnel::{Flow, FlowIndex, PacketFields};

/// Most waiting fragments of a lane.
const FRAGMENTS: usize = 64;
/// Maximum wait of a fragment.
pub(crate) const WAIT: Duration = Duration::from_millis(50);

/// Position of a fragment in its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FragmentPosition {
    /// First, with its flow.
    First(Flow),
    /// Second.
    Second,
}

/// A received fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fragment {
    pub(crate) seq: u64,
    pub(crate) position: FragmentPosition,
    pub(crate) index: FlowIndex,
    pub(crate) fields: PacketFields,
}

/// Result of inserting a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JoinOutcome {
    /// It waits.
    Stored,
    /// It waits, and has evicted the oldest one.
    StoredEvicting,
    /// The other half was there: a frame of this flow. Its octets are [`FragmentBuffer::octets`] of this
    /// slot.
    Joined { flow: Flow, slot: usize },
    /// Its neighbour belongs to another frame; both are dropped.
    Mismatched,
    /// Longer than any fragment of a frame of this LAN.
    TooLong,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    fragment: Fragment,
    since: Instant,
    octets: usize,
}

/// Waiting fragments of one lane.
#[derive(Debug)]
pub(crate) struct FragmentBuffer {
    /// Seqs of `pending`, contiguous, since each fragment searches its neighbour here; 0: empty slot.
    seqs: [u64; FRAGMENTS],
    pending: Box<[Option<Pending>]>,
    octets: Box<[u8]>,
    /// Octets of the longest fragment.
    room: usize,
    waiting: usize,
}

impl FragmentBuffer {
    /// Memory for fragments of up to `room` octets. Allocates.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            seqs: [0; FRAGMENTS],
            pending: vec![None; FRAGMENTS].into(),
            octets: vec![0; FRAGMENTS * room].into(),
            room,
            waiting: 0,
        }
    }

    /// Inserts a fragment: `head`, then `body`.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        fragment: Fragment,
        head: &[u8],
        body: &[u8],
    ) -> JoinOutcome {
        if head.len() + body.len() > self.room {
            return JoinOutcome::TooLong;
        }
        let other_seq = match fragment.position {
            FragmentPosition::First(_) => fragment.seq + 1,
            FragmentPosition::Second => fragment.seq - 1,
        };
        let other = self.seqs.iter().position(|&seq| seq == other_seq && seq != 0);
        let Some((slot, other)) = other.and_then(|slot| Some((slot, self.pending[slot]?))) else {
            return self.store(now, fragment, head, body);
        };
        let flow = match (fragment.position, other.fragment.position) {
            (FragmentPosition::First(flow), FragmentPosition::Second)
            | (FragmentPosition::Second, FragmentPosition::First(flow)) => flow,
            _ => return self.store(now, fragment, head, body),
        };
        self.remove(slot);
        if (fragment.index, fragment.fields) != (other.fragment.index, other.fragment.fields) {
            return JoinOutcome::Mismatched;
        }
        JoinOutcome::Joined { flow, slot }
    }

    /// Octets of the fragment that was just taken out of this slot.
    pub(crate) fn octets(&self, slot: usize) -> &[u8] {
        let octets = self.pending[slot].map_or(0, |pending| pending.octets);
        &self.octets[slot * self.room..][..octets]
    }

    /// Appends octets to the fragment that was just taken out of this slot. False if there is no room.
    pub(crate) fn append(&mut self, slot: usize, more: &[u8]) -> bool {
        let Some(pending) = &mut self.pending[slot] else { return false };
        let end = pending.octets + more.len();
        if end > self.room {
            return false;
        }
        self.octets[slot * self.room..][pending.octets..end].copy_from_slice(more);
        pending.octets = end;
        true
    }

    fn store(&mut self, now: Instant, fragment: Fragment, head: &[u8], body: &[u8]) -> JoinOutcome {
        let (slot, outcome) = match self.seqs.iter().position(|&seq| seq == 0) {
            Some(slot) => (slot, JoinOutcome::Stored),
            None => (self.oldest(), JoinOutcome::StoredEvicting),
        };
        if outcome == JoinOutcome::Stored {
            self.waiting += 1;
        }
        self.seqs[slot] = fragment.seq;
        let octets = head.len() + body.len();
        self.pending[slot] = Some(Pending { fragment, since: now, octets });
        let (head_room, body_room) = self.octets[slot * self.room..][..octets].split_at_mut(head.len());
        head_room.copy_from_slice(head);
        body_room.copy_from_slice(body);
        outcome
    }

    fn oldest(&self) -> usize {
        let age = |slot: &usize| self.pending[*slot].map(|pending| (pending.since, pending.fragment.seq));
        (0..FRAGMENTS).min_by_key(age).unwrap_or(0)
    }

    /// Keeps its length for [`FragmentBuffer::octets`].
    fn remove(&mut self, slot: usize) {
        self.seqs[slot] = 0;
        self.waiting -= 1;
    }

    /// Drops fragments past their maximum wait. Returns their number.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        self.drop_if(|pending| now.since(pending.since) >= WAIT)
    }

    /// Drops all. Returns their number.
    pub(crate) fn clear(&mut self) -> u64 {
        self.drop_if(|_| true)
    }

    fn drop_if(&mut self, mut goes: impl FnMut(&Pending) -> bool) -> u64 {
        let mut dropped = 0;
        for slot in 0..FRAGMENTS {
            if self.waiting > 0 && self.seqs[slot] != 0 && self.pending[slot].as_ref().is_none_or(&mut goes) {
                self.remove(slot);
                dropped += 1;
            }
        }
        dropped
    }

    /// True if no fragment waits.
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

    fn fragment(seq: u64, position: FragmentPosition) -> Fragment {
        let fields = PacketFields { tci_low: 0x0c, octet_3: 0, pn: 9 };
        Fragment { seq, position, index: FlowIndex(5), fields }
    }

    fn first(seq: u64) -> Fragment {
        fragment(seq, FragmentPosition::First(flow(1)))
    }

    fn second(seq: u64) -> Fragment {
        fragment(seq, FragmentPosition::Second)
    }

    #[test]
    fn halves_join_whichever_comes_first() {
        let mut fragments = FragmentBuffer::new(8);
        for (waits, comes) in [(first(4), second(5)), (second(5), first(4))] {
            assert_eq!(fragments.insert(Instant::START, waits, b"", b"waits"), JoinOutcome::Stored);
            let JoinOutcome::Joined { flow: of, slot } =
                fragments.insert(Instant::START, comes, b"", b"comes")
            else {
                panic!("not joined")
            };
            assert_eq!((of, fragments.octets(slot)), (flow(1), &b"waits"[..]));
            assert!(fragments.is_empty());
        }
    }

    #[test]
    fn only_halves_of_one_frame_join() {
        let other = |change: fn(&mut Fragment)| {
            let mut fragment = second(5);
            change(&mut fragment);
            fragment
        };
        let rows = [
            (second(5), true),
            // Not neighbours in this order: both wait.
            (second(3), false),
            (second(6), false),
            (first(5), false),
            // Neighbours of two frames: both are gone.
            (other(|fragment| fragment.index = FlowIndex(6)), false),
            (other(|fragment| fragment.fields.pn = 10), false),
            (other(|fragment| fragment.fields.tci_low = 0x0d), false),
            (other(|fragment| fragment.fields.octet_3 = 7), false),
        ];
        for (number, (fragment, joins)) in rows.into_iter().enumerate() {
            let mut fragments = FragmentBuffer::new(8);
            fragments.insert(Instant::START, first(4), b"", b"one");
            let outcome = fragments.insert(Instant::START, fragment, b"", b"two");
            assert_eq!(matches!(outcome, JoinOutcome::Joined { .. }), joins, "row {number}");
            assert_eq!(outcome == JoinOutcome::Stored, (1..4).contains(&number), "row {number}");
            assert_eq!(outcome == JoinOutcome::Mismatched, number >= 4, "row {number}");
            assert_eq!(fragments.waiting, if (1..4).contains(&number) { 2 } else { 0 });
        }
    }

    #[test]
    fn they_wait_for_50_ms() {
        let mut fragments = FragmentBuffer::new(8);
        fragments.insert(Instant::START, first(4), b"", b"one");
        fragments.insert(Instant::START + 20 * MS, first(8), b"", b"two");
        assert_eq!(fragments.expire(Instant::START + 49 * MS), 0);
        assert_eq!(fragments.expire(Instant::START + 50 * MS), 1);
        let late = fragments.insert(Instant::START + 50 * MS, second(5), b"", b"three");
        assert_eq!(late, JoinOutcome::Stored);
        assert!(matches!(
            fragments.insert(Instant::START + 60 * MS, second(9), b"", b"four"),
            JoinOutcome::Joined { .. }
        ));
        assert_eq!(fragments.clear(), 1);
        assert!(fragments.is_empty());
    }

    #[test]
    fn sixty_four_wait_and_the_oldest_goes_first() {
        let mut fragments = FragmentBuffer::new(8);
        for number in 0..64 {
            let outcome = fragments.insert(
                Instant::START + number as u32 * MS,
                first(1000 - 2 * number),
                b"",
                b"octets",
            );
            assert_eq!(outcome, JoinOutcome::Stored);
        }
        let now = Instant::START + 64 * MS;
        assert_eq!(fragments.insert(now, first(4), b"", b"octets"), JoinOutcome::StoredEvicting);
        assert_eq!(fragments.waiting, 64);
        assert_eq!(
            fragments.insert(now, second(1001), b"", b"octets"),
            JoinOutcome::StoredEvicting,
            "its first is gone"
        );
        assert!(matches!(fragments.insert(now, second(5), b"", b"octets"), JoinOutcome::Joined { .. }));
        assert_eq!(fragments.insert(now, first(6), b"", b"more than 8"), JoinOutcome::TooLong);
    }
}
