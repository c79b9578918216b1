//! A lane of this site towards a peer in identifier mode: an epoch's key and the next seq. Each sending worker of a
//! site has its own ([`LaneShare`](crate::LaneShare)).
//!
//! **No seq is used twice under a key**: a lane is made with its key and seq 1, seqs only increase, and
//! neither moves to another lane.

use suite::tunnel::{EpochSecret, IdentifierBlock, LaneKey};
use wire::tunnel::{CHECK_OCTETS, HEADER_OCTETS, TAG_OCTETS};

use crate::window::LAST_SEQ;

/// Remaining seqs of an epoch at which the next one is requested.
const RESERVE: u64 = 1 << 40;

/// A lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) number: u8,
    pub(crate) epoch: u32,
    key: LaneKey,
    next_seq: u64,
}

/// A taken seq with its identifier block.
#[derive(Debug)]
pub(crate) struct TakenSeq<'a> {
    pub(crate) seq: u64,
    pub(crate) block: IdentifierBlock,
    key: &'a LaneKey,
}

impl Lane {
    pub(crate) fn new(number: u8, epoch: u32, secret: &EpochSecret) -> Self {
        Self { number, epoch, key: secret.lane_key(number), next_seq: 1 }
    }

    /// Takes the next seq; `None` if all of the epoch's are used.
    pub(crate) fn take(&mut self) -> Option<TakenSeq<'_>> {
        let seq = self.next_seq;
        if seq > LAST_SEQ {
            return None;
        }
        self.next_seq += 1;
        Some(TakenSeq { seq, block: self.key.block(seq), key: &self.key })
    }

    /// True if few seqs are left, so that the next epoch should come.
    pub(crate) const fn runs_short(&self) -> bool {
        self.next_seq > LAST_SEQ - RESERVE
    }

    /// True if `packets` can be sent.
    pub(crate) const fn has(&self, packets: u64) -> bool {
        self.next_seq <= LAST_SEQ + 1 - packets
    }

    /// Position of the lane, rounded up to an anchor of windows of this width.
    pub(crate) const fn position(&self, window: u64) -> u64 {
        self.next_seq.next_multiple_of(window / 2)
    }
}

impl TakenSeq<'_> {
    /// The check of a header.
    pub(crate) fn check(&self, header: [u8; HEADER_OCTETS]) -> [u8; CHECK_OCTETS] {
        self.key.check(self.block.pad, header)
    }

    /// Mask of the flow of a packet in long form.
    pub(crate) fn long_mask<const FLOW: usize>(&self) -> [u8; FLOW] {
        self.key.long_mask(self.seq)
    }

    /// Tag of a packet in long form.
    pub(crate) fn long_tag<const FLOW: usize>(
        &self,
        header: [u8; HEADER_OCTETS],
        flow: &[u8; FLOW],
    ) -> [u8; TAG_OCTETS] {
        self.key.long_tag(self.seq, header, flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(next_seq: u64) -> Lane {
        let mut lane = Lane::new(0, 1, &EpochSecret::new(&[1; 32]));
        lane.next_seq = next_seq;
        lane
    }

    #[test]
    fn seqs_begin_at_1_and_end_for_good() {
        let mut first = Lane::new(0, 1, &EpochSecret::new(&[1; 32]));
        assert_eq!([(); 3].map(|()| first.take().map(|seq| seq.seq)), [Some(1), Some(2), Some(3)]);
        let mut last = lane(LAST_SEQ - 1);
        assert!(last.has(2));
        assert_eq!(last.take().map(|seq| seq.seq), Some(LAST_SEQ - 1));
        assert!(last.has(1) && !last.has(2));
        assert_eq!(last.take().map(|seq| seq.seq), Some(LAST_SEQ));
        assert!(last.take().is_none() && !last.has(1));
    }

    #[test]
    fn the_next_epoch_is_wanted_in_time() {
        assert!(!lane(1).runs_short());
        assert!(lane(LAST_SEQ - RESERVE + 1).runs_short());
    }

    #[test]
    fn a_position_is_an_anchor_that_was_not_sent_yet() {
        for (next_seq, position) in [(1, 32), (31, 32), (32, 32), (33, 64)] {
            assert_eq!(lane(next_seq).position(64), position);
        }
    }
}
