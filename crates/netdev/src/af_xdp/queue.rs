//! The two directions of an AF_XDP socket, as far as they are rings and books and no system calls.
//!
//! ```text
//!            refill                     receive                  transmit                    reclaim
//!   pool ---------------> fill ring -> receive ring ----> burst ------------> transmit ring -> completion ring ---> pool
//! ```
//! A chunk is in exactly one of these places; those in rings are in flight. Each direction of each
//! socket has its own bound on how many chunks it may hold, and the bounds together do not exceed the pool: an
//! interface that takes nothing cannot starve the others.
//!
//! The kernel's descriptors are not trusted: an address that was not in flight, and a frame that reaches beyond its
//! chunk, are dropped and counted.

use crate::burst::{BURST_FRAMES, Burst};
use crate::pool::{Pool, Slot};
use crate::port::{self, PortCounters};

use super::ring::{Consumer, Descriptor, Producer};

/// A frame that stands closer to the start of its chunk than this is not what the port promises.
const LEAST_HEADROOM: usize = 64;

/// Receiving: chunks wait in the fill ring, frames come out of the receive ring.
#[derive(Debug)]
pub(super) struct ReceiveQueue {
    pub(super) fill: Producer<u64>,
    pub(super) frames: Consumer<Descriptor>,
    /// Chunks in the two rings.
    in_flight: usize,
    /// The most of them.
    depth: usize,
}

impl ReceiveQueue {
    pub(super) fn new(fill: Producer<u64>, frames: Consumer<Descriptor>, depth: usize) -> Self {
        Self { fill, frames, in_flight: 0, depth }
    }

    /// The same with chunks in the rings already: those of the program before.
    pub(super) fn holding(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    /// Chunks in the two rings.
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Fills the ring with free chunks to receive into, until the bound, the ring or the pool is exhausted. At most `depth`.
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        let before = self.in_flight;
        while self.in_flight < self.depth && self.fill.room(1) > 0 {
            let Some(mut slot) = pool.take() else { break };
            // The kernel chooses where in the chunk the frame goes and masks the rest of the address away.
            slot.place(0, 0);
            let pushed = self.fill.push(pool.submit(slot));
            debug_assert!(pushed, "room was just seen");
            self.in_flight += 1;
        }
        if self.in_flight != before {
            self.fill.publish();
        }
    }

    /// Whether enough chunks are missing that a refill is worth the other side's cache line.
    pub(super) fn is_low(&self) -> bool {
        self.depth - self.in_flight >= (self.depth / 4).min(BURST_FRAMES)
    }

    /// Takes received frames until the burst is full or none waits.
    pub(super) fn receive(&mut self, pool: &mut Pool, burst: &mut Burst, counters: &mut PortCounters) {
        let mut room = burst.room();
        let mut any = false;
        while room > 0 {
            let Some(descriptor) = self.frames.pop() else { break };
            room -= 1;
            any = true;
            let Some(slot) = pool.reclaim(descriptor.address) else {
                counters.bad_descriptors += 1;
                continue;
            };
            self.in_flight = self.in_flight.saturating_sub(1);
            match accept(slot, descriptor.len as usize, pool, counters) {
                Ok(slot) => burst.push(slot).expect("invariant: no more frames than there was room"),
                Err(slot) => pool.give(slot),
            }
        }
        if any {
            self.frames.release();
        }
    }
}

/// Sets the length of the frame in a chunk, if it stands where a frame of ours may stand.
fn accept(mut slot: Slot, len: usize, pool: &Pool, counters: &mut PortCounters) -> Result<Slot, Slot> {
    let (start, chunk) = (slot.start(), pool.chunk_octets().octets());
    if start < LEAST_HEADROOM || len < port::ETHERNET_HEADER || start.saturating_add(len) > chunk {
        counters.bad_descriptors += 1;
        return Err(slot);
    }
    if start + len > chunk - crate::pool::TAILROOM {
        counters.rx_too_long += 1;
        return Err(slot);
    }
    counters.rx_frames += 1;
    counters.rx_octets += len as u64;
    slot.place(start, len);
    Ok(slot)
}

/// Sending: frames go into the transmit ring, their chunks come back through the completion ring.
#[derive(Debug)]
pub(super) struct TransmitQueue {
    pub(super) frames: Producer<Descriptor>,
    pub(super) completion: Consumer<u64>,
    /// Chunks in the two rings and in the driver.
    in_flight: usize,
    /// The most of them.
    depth: usize,
}

impl TransmitQueue {
    pub(super) fn new(frames: Producer<Descriptor>, completion: Consumer<u64>, depth: usize) -> Self {
        Self { frames, completion, in_flight: 0, depth }
    }

    /// The same with chunks in the rings already: those of the program before.
    pub(super) fn holding(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    /// Chunks in the two rings and in the driver.
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
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
            if self.in_flight >= self.depth || self.frames.room(1) == 0 {
                counters.tx_dropped += 1;
                pool.give(slot);
                continue;
            }
            let address = pool.submit(slot);
            let pushed = self.frames.push(Descriptor { address, len: len as u32, options: 0 });
            debug_assert!(pushed, "room was just seen");
            self.in_flight += 1;
            counters.tx_frames += 1;
            counters.tx_octets += len as u64;
        }
        self.frames.publish();
    }

    /// Takes back what has been sent. At most as many as the completion ring holds.
    pub(super) fn reclaim(&mut self, pool: &mut Pool, counters: &mut PortCounters) {
        let mut any = false;
        for _ in 0..self.depth {
            let Some(address) = self.completion.pop() else { break };
            any = true;
            match pool.reclaim(address) {
                Some(slot) => {
                    self.in_flight = self.in_flight.saturating_sub(1);
                    pool.give(slot);
                }
                None => counters.bad_descriptors += 1,
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
    use crate::pool::{ChunkOctets, HEADROOM, TAILROOM};
    use proptest::prelude::*;

    const CHUNK: u64 = 2048;

    fn pool(chunks: usize) -> Pool {
        Pool::new(ChunkOctets::Octets2048, chunks).unwrap()
    }

    /// A receive side and the kernel's ends of its rings.
    fn receive_queue(depth: usize, start: u32) -> (ReceiveQueue, Consumer<u64>, Producer<Descriptor>) {
        let (fill, filled) = twin::ring(32, start);
        let (frames, received) = twin::ring(32, start);
        (ReceiveQueue::new(fill, received, depth), filled, frames)
    }

    /// A transmit side and the kernel's ends of its rings.
    fn transmit_queue(depth: usize, start: u32) -> (TransmitQueue, Consumer<Descriptor>, Producer<u64>) {
        let (frames, sent) = twin::ring(32, start);
        let (completed, completion) = twin::ring(32, start);
        (TransmitQueue::new(frames, completion, depth), sent, completed)
    }

    #[test]
    fn descriptors_from_the_kernel_are_checked() {
        let mut pool = pool(4);
        let (mut side, mut filled, mut frames) = receive_queue(2, 0);
        side.refill(&mut pool);
        assert_eq!((pool.free(), pool.in_flight()), (2, 2));
        let mut chunks: Vec<u64> = std::iter::from_fn(|| filled.pop()).collect();
        chunks.sort_unstable();
        assert_eq!(chunks, [0, CHUNK]);
        let headroom = HEADROOM as u64;
        let room = (CHUNK as usize - HEADROOM) as u32;
        // Not in flight, beyond the region, far beyond it.
        for address in [2 * CHUNK + headroom, 4 * CHUNK, u64::MAX] {
            frames.push(Descriptor { address, len: 60, options: 0 });
        }
        // Beyond the chunk; then the same chunk again, no longer in flight; too close to its start.
        frames.push(Descriptor { address: headroom, len: room + 1, options: 0 });
        frames.push(Descriptor { address: headroom, len: 60, options: 0 });
        frames.push(Descriptor { address: CHUNK + LEAST_HEADROOM as u64 - 1, len: 60, options: 0 });
        frames.publish();
        let (mut burst, mut counters) = (Burst::new(), PortCounters::default());
        side.receive(&mut pool, &mut burst, &mut counters);
        assert!(burst.is_empty());
        assert_eq!((counters.bad_descriptors, counters.rx_frames), (6, 0));
        assert_eq!((pool.free(), pool.in_flight()), (4, 0));
        // Within the chunk, but into the tailroom; just before it; cut to nothing.
        side.refill(&mut pool);
        let chunks: Vec<u64> = std::iter::from_fn(|| filled.pop()).collect();
        let fits = room - TAILROOM as u32;
        frames.push(Descriptor { address: chunks[0] + headroom, len: fits + 1, options: 0 });
        frames.push(Descriptor { address: chunks[1] + headroom, len: fits, options: 0 });
        frames.publish();
        side.receive(&mut pool, &mut burst, &mut counters);
        assert_eq!((counters.rx_too_long, counters.rx_frames, counters.rx_octets), (1, 1, u64::from(fits)));
        let slot = &burst.slots()[0];
        assert_eq!((slot.start(), slot.len()), (HEADROOM, fits as usize));
        burst.give_all(&mut pool);
        assert_eq!(pool.free(), pool.total());
    }

    #[test]
    fn what_the_ring_does_not_take_is_given_back_and_counted() {
        let mut pool = pool(BURST_FRAMES);
        for (depth, taken) in [(5, 5), (100, 32)] {
            let (mut side, mut sent, mut completed) = transmit_queue(depth, u32::MAX - 3);
            let mut burst = Burst::new();
            while let Some(mut slot) = pool.take() {
                slot.place(HEADROOM, 60);
                burst.push(slot).unwrap();
            }
            let mut counters = PortCounters::default();
            side.transmit(&mut pool, &mut burst, 1500, &mut counters);
            assert!(burst.is_empty());
            assert_eq!((counters.tx_frames, counters.tx_dropped), (taken, BURST_FRAMES as u64 - taken));
            assert_eq!(pool.in_flight(), taken as usize);
            while let Some(descriptor) = sent.pop() {
                assert_eq!(descriptor.len, 60);
                completed.push(descriptor.address);
            }
            sent.release();
            // One that was never in flight, one twice.
            completed.publish();
            side.reclaim(&mut pool, &mut counters);
            completed.push(7 * CHUNK);
            completed.push(u64::MAX);
            completed.publish();
            side.reclaim(&mut pool, &mut counters);
            assert_eq!((pool.free(), counters.bad_descriptors), (pool.total(), 2));
            assert!(side.is_idle());
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Refill,
        /// The kernel takes a chunk from the fill ring and passes a frame of that length, or nonsense.
        KernelReceives(u32),
        KernelInvents(u64, u32),
        Receive,
        Transmit,
        KernelSends,
        Reclaim,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            Just(Operation::Refill),
            prop_oneof![14u32..1760, any::<u32>()].prop_map(Operation::KernelReceives),
            (prop_oneof![0..40 * CHUNK, any::<u64>()], any::<u32>())
                .prop_map(|(address, len)| Operation::KernelInvents(address, len)),
            Just(Operation::Receive),
            Just(Operation::Transmit),
            Just(Operation::KernelSends),
            Just(Operation::Reclaim),
        ]
    }

    proptest! {
        #[test]
        fn every_chunk_is_in_exactly_one_place(
            start in prop_oneof![Just(0), u32::MAX - 20..=u32::MAX],
            operations in prop::collection::vec(operation(), 0..300),
        ) {
            let mut pool = pool(24);
            let (mut rx, mut filled, mut frames) = receive_queue(8, start);
            let (mut tx, mut sent, mut completed) = transmit_queue(8, start);
            let (mut burst, mut counters) = (Burst::new(), PortCounters::default());
            for operation in operations {
                match operation {
                    Operation::Refill => rx.refill(&mut pool),
                    Operation::KernelReceives(len) => {
                        if let Some(chunk) = filled.pop() {
                            filled.release();
                            frames.push(Descriptor { address: chunk + HEADROOM as u64, len, options: 0 });
                            frames.publish();
                        }
                    }
                    Operation::KernelInvents(address, len) => {
                        frames.push(Descriptor { address, len, options: 0 });
                        frames.publish();
                    }
                    Operation::Receive => rx.receive(&mut pool, &mut burst, &mut counters),
                    Operation::Transmit => tx.transmit(&mut pool, &mut burst, 1500, &mut counters),
                    Operation::KernelSends => {
                        if let Some(descriptor) = sent.pop() {
                            sent.release();
                            completed.push(descriptor.address);
                            completed.publish();
                        }
                    }
                    Operation::Reclaim => tx.reclaim(&mut pool, &mut counters),
                }
                prop_assert_eq!(pool.free() + burst.len() + pool.in_flight(), pool.total());
            }
        }
    }
}
