//! Sending frames that are longer than the kernel's chunks, each as several descriptors (XDP_USE_SG).
//!
//! A frame stays where it is: its descriptors name those parts of its chunk that it lies in (see [`crate::pool`]),
//! and all but the last say that the frame goes on. The chunk comes back when the kernel is done with all of them.

use crate::burst::Burst;
use crate::pool::{PARTS, Pool, Reclaimed};
use crate::port::{self, PortCounters};

use super::ring::{Consumer, Descriptor, Producer};

/// Sending: frames go into the transmit ring part by part, the parts come back through the completion ring.
#[derive(Debug)]
pub(super) struct ScatterQueue {
    pub(super) frames: Producer<Descriptor>,
    completion: Consumer<u64>,
    /// Chunks in the two rings and in the driver.
    in_flight: usize,
    /// The most of them.
    depth: usize,
}

impl ScatterQueue {
    pub(super) fn new(frames: Producer<Descriptor>, completion: Consumer<u64>, depth: usize) -> Self {
        Self { frames, completion, in_flight: 0, depth }
    }

    /// Puts every frame of the burst into the ring, in order; the rest goes back to the pool and is counted.
    pub(super) fn transmit(
        &mut self,
        pool: &mut Pool,
        burst: &mut Burst,
        mtu: u32,
        counters: &mut PortCounters,
    ) {
        for slot in burst.drain() {
            let frame = pool.frame(&slot);
            let len = frame.len();
            if !port::may_leave(frame, mtu, counters) {
                pool.give(slot);
                continue;
            }
            // Room for all parts: the kernel must never see half a frame.
            if self.in_flight >= self.depth || self.frames.room(PARTS as u32) < PARTS as u32 {
                counters.tx_dropped += 1;
                pool.give(slot);
                continue;
            }
            let parts = pool.submit_parts(slot);
            let last = parts.len() - 1;
            for (number, part) in parts.into_iter().enumerate() {
                let pushed = self.frames.push(Descriptor::new(part.address, part.len, number < last));
                debug_assert!(pushed, "room was just seen");
            }
            self.in_flight += 1;
            counters.tx_frames += 1;
            counters.tx_octets += len as u64;
        }
        self.frames.publish();
    }

    /// Takes back what has been sent. At most as many parts as `depth` chunks have.
    pub(super) fn reclaim(&mut self, pool: &mut Pool, counters: &mut PortCounters) {
        let mut any = false;
        for _ in 0..self.depth * PARTS {
            let Some(address) = self.completion.pop() else { break };
            any = true;
            match pool.reclaim_part(address) {
                Reclaimed::Whole(slot) => {
                    self.in_flight = self.in_flight.saturating_sub(1);
                    pool.give(slot);
                }
                Reclaimed::Part => {}
                Reclaimed::Unknown => counters.bad_descriptors += 1,
            }
        }
        if any {
            self.completion.release();
        }
    }

    /// Whether so many frames can be taken.
    pub(super) fn has_room(&self, frames: usize) -> bool {
        self.in_flight + frames <= self.depth
    }

    /// Whether all chunks have come back.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::af_xdp::ring::twin;
    use crate::pool::{ChunkOctets, HEADROOM};

    #[test]
    fn a_frame_goes_whole_or_not_at_all_and_comes_back_with_its_last_part() {
        for start in [0, u32::MAX - 5] {
            let mut pool = Pool::new(ChunkOctets::Octets16384, 16).unwrap();
            let (frames, mut sent) = twin::ring(8, start);
            let (mut completed, completion) = twin::ring(16, start);
            let mut side = ScatterQueue::new(frames, completion, 10);
            let (mut burst, mut counters) = (Burst::new(), PortCounters::default());
            // Parts 3, 1, 2; then there are two places, too few for what a frame may need.
            for len in [9014, 60, 3841, 60, 9015] {
                let mut slot = pool.take().unwrap();
                slot.place(HEADROOM, len);
                burst.push(slot).unwrap();
            }
            side.transmit(&mut pool, &mut burst, 9000, &mut counters);
            assert_eq!((counters.tx_frames, counters.tx_octets), (3, 9014 + 60 + 3841));
            assert_eq!((counters.tx_dropped, counters.tx_too_long), (1, 1));
            assert_eq!((pool.free(), pool.in_flight(), side.is_idle()), (13, 3, false));
            let descriptors: Vec<_> = std::iter::from_fn(|| sent.pop()).collect();
            let shapes: Vec<_> = descriptors.iter().map(|one| (one.len, one.is_continued())).collect();
            assert_eq!(
                shapes,
                [(3840, true), (4096, true), (1078, false), (60, false), (3840, true), (1, false)]
            );
            for descriptor in &descriptors {
                let end = descriptor.address + u64::from(descriptor.len) - 1;
                assert_eq!(descriptor.address / 4096, end / 4096, "within a chunk of the kernel's");
            }
            let mut complete = |range: std::ops::Range<usize>, side: &mut ScatterQueue, pool: &mut Pool| {
                descriptors[range].iter().for_each(|one| assert!(completed.push(one.address)));
                completed.publish();
                side.reclaim(pool, &mut counters);
                (pool.free(), pool.in_flight(), counters.bad_descriptors)
            };
            assert_eq!(complete(0..2, &mut side, &mut pool), (13, 3, 0));
            assert_eq!(complete(1..4, &mut side, &mut pool), (15, 1, 1), "one twice");
            assert_eq!(complete(4..6, &mut side, &mut pool), (16, 0, 1));
            assert!(side.is_idle() && side.has_room(10) && !side.has_room(11));
        }
    }
}
