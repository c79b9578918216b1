//! A queue of frames in one pool, as a port: what is sent there waits until its owner receives it. No frame is copied.
//!
//! It stands for the protected side of a link inside of a site: the frames go on into the tunnel, in the same turn of
//! the same worker.
//!
//! Left out on purpose: the other direction. Frames out of the tunnel are handed to the link as a burst.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use crate::burst::{BURST_FRAMES, Burst};
use crate::pool::{Pool, Slot};
use crate::port::{Port, PortCounters};

/// The most frames that one of a burst may become, if all of them are to find room.
pub const FRAMES_EACH: usize = 8;
const WAITING: usize = FRAMES_EACH * BURST_FRAMES;

/// The port. Its frames go with the pool if they are still there when it is dropped.
#[derive(Debug)]
pub struct QueuePort {
    waiting: VecDeque<Slot>,
    counters: PortCounters,
}

impl Default for QueuePort {
    /// Allocates for all frames that can wait.
    fn default() -> Self {
        Self { waiting: VecDeque::with_capacity(WAITING), counters: PortCounters::default() }
    }
}

impl Port for QueuePort {
    fn receive(&mut self, _pool: &mut Pool, burst: &mut Burst) {
        while !burst.is_full()
            && let Some(slot) = self.waiting.pop_front()
        {
            burst.push(slot).expect("invariant: there was room");
        }
    }

    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = self.counters.tx_frames;
        for slot in burst.drain() {
            if self.waiting.len() == WAITING {
                self.counters.tx_dropped += 1;
                pool.give(slot);
                continue;
            }
            self.counters.tx_frames += 1;
            self.counters.tx_octets += slot.len() as u64;
            self.waiting.push_back(slot);
        }
        (self.counters.tx_frames - before) as usize
    }

    fn housekeep(&mut self, _pool: &mut Pool) {}

    fn poll_descriptors(&self) -> &[RawFd] {
        &[]
    }

    fn counters(&mut self) -> PortCounters {
        self.counters
    }

    fn description(&self) -> &str {
        "in memory"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::ChunkOctets;

    #[test]
    fn frames_come_out_in_order_and_in_their_chunks_and_no_chunk_is_lost() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, WAITING + 8).unwrap();
        let mut port = QueuePort::default();
        let mut burst = Burst::new();
        for number in 0..WAITING as u64 + 8 {
            let mut slot = pool.take().unwrap();
            assert!(pool.append(&mut slot, &number.to_be_bytes()));
            burst.push(slot).unwrap();
            if burst.is_full() {
                port.transmit(&mut pool, &mut burst);
            }
        }
        port.transmit(&mut pool, &mut burst);
        assert!(burst.is_empty());
        assert_eq!(pool.free(), 8, "what had no room went back");
        let counters = port.counters();
        assert_eq!((counters.tx_frames, counters.tx_dropped), (WAITING as u64, 8));
        assert_eq!(counters.tx_octets, 8 * WAITING as u64);
        let mut number = 0_u64;
        loop {
            port.receive(&mut pool, &mut burst);
            if burst.is_empty() {
                break;
            }
            for slot in burst.drain() {
                assert_eq!(pool.frame(&slot), number.to_be_bytes());
                number += 1;
                pool.give(slot);
            }
        }
        assert_eq!((number, pool.free()), (WAITING as u64, pool.total()));
    }
}
