//! Receiving frames of several of the kernel's chunks (XDP_USE_SG), each gathered into one chunk of the pool.
//!
//! ```text
//!   kernel:   | headroom 256, first 3840 |   | headroom 256, next 3840 |   | headroom 256, rest |
//!               CONTD                          CONTD                         (last)
//!                         \                      |                      /
//!   pool:     | headroom 256 | first | next | rest | tailroom |
//! ```
//! The chunks to receive into are parts of chunks of the pool that this side keeps lent for good (see
//! [`crate::pool`]). A part is in the rings, or it is spare.
//!
//! The kernel's descriptors are not trusted: one that names no part in the rings, or reaches beyond its part, is
//! counted, and the frame that it belongs to is dropped whole, to the end of its chain. So is a frame that grows
//! longer than a chunk's room, and one for which there is no chunk.

use crate::burst::{BURST_FRAMES, Burst};
use crate::pool::{PART_OCTETS, PARTS, Pool, Slot};
use crate::port::{self, PortCounters};

use super::ring::{Consumer, Descriptor, Producer};

/// Descriptors of the longest frame that a chunk has room for, 3,840 octets each.
const FRAME_DESCRIPTORS: usize = 5;
/// The most descriptors of one call.
const MOST_DESCRIPTORS: usize = FRAME_DESCRIPTORS * BURST_FRAMES;

/// Progress in a chain of descriptors.
#[derive(Debug)]
enum Gather {
    /// The next descriptor begins a frame.
    Between,
    /// A frame of which a part is gathered.
    Holding(Slot),
    /// The rest of the chain belongs to a frame that was dropped.
    Skipping,
}

/// Receiving: parts wait in the fill ring, pieces of frames come out of the receive ring.
#[derive(Debug)]
pub(super) struct GatherQueue {
    pub(super) fill: Producer<u64>,
    frames: Consumer<Descriptor>,
    gather: Gather,
    /// Whether a part is in the rings, by its number in the region.
    in_flight: Box<[bool]>,
    /// Parts of ours that are in no ring, the most recently used on top.
    spare: Vec<u64>,
    /// Chunks of the pool that are ours.
    chunks: usize,
    /// The most of them.
    depth: usize,
}

impl GatherQueue {
    pub(super) fn new(fill: Producer<u64>, frames: Consumer<Descriptor>, depth: usize, pool: &Pool) -> Self {
        Self {
            fill,
            frames,
            gather: Gather::Between,
            in_flight: vec![false; pool.total() * PARTS].into(),
            spare: Vec::with_capacity(depth * PARTS),
            chunks: 0,
            depth,
        }
    }

    /// Puts up spare parts to receive into, until the ring is full or none is left. At most `depth` chunks of them.
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        self.stock(pool);
        let before = self.spare.len();
        while self.fill.room(1) > 0 {
            let Some(part) = self.spare.pop() else { break };
            self.in_flight[part as usize / PART_OCTETS] = true;
            let pushed = self.fill.push(part);
            debug_assert!(pushed, "room was just seen");
        }
        if self.spare.len() != before {
            self.fill.publish();
        }
    }

    /// Takes the chunks that are to be ours.
    fn stock(&mut self, pool: &mut Pool) {
        while self.chunks < self.depth {
            let Some(mut slot) = pool.take() else { break };
            slot.place(0, 0);
            let address = pool.submit(slot);
            // No more than it was made for.
            self.spare.extend((0..PARTS).map(|part| address + (part * PART_OCTETS) as u64));
            self.chunks += 1;
        }
    }

    /// Whether enough parts are missing that putting them up is worth the other side's cache line.
    pub(super) fn is_low(&self) -> bool {
        let spare = self.spare.len() + (self.depth - self.chunks) * PARTS;
        spare >= (self.depth * PARTS / 4).min(BURST_FRAMES)
    }

    /// Gathers received frames until the burst is full, none waits, or 320 descriptors are read.
    pub(super) fn receive(&mut self, pool: &mut Pool, burst: &mut Burst, counters: &mut PortCounters) {
        let mut any = false;
        for _ in 0..MOST_DESCRIPTORS {
            if burst.is_full() {
                break;
            }
            let Some(descriptor) = self.frames.pop() else { break };
            any = true;
            if let Some(slot) = self.step(descriptor, pool, counters) {
                burst.push(slot).expect("invariant: room was just seen");
            }
        }
        if any {
            self.frames.release();
        }
    }

    /// Takes one descriptor; the frame, if that was its last.
    fn step(&mut self, descriptor: Descriptor, pool: &mut Pool, counters: &mut PortCounters) -> Option<Slot> {
        if let Gather::Between = self.gather {
            self.gather = match pool.take() {
                Some(slot) => Gather::Holding(slot),
                None => {
                    counters.rx_no_chunk += 1;
                    Gather::Skipping
                }
            };
        }
        let given_back = self.take_part(descriptor.address);
        let within =
            descriptor.address % PART_OCTETS as u64 + u64::from(descriptor.len) <= PART_OCTETS as u64;
        let dropped = match &mut self.gather {
            _ if !(given_back && within) => Some(&mut counters.bad_descriptors),
            Gather::Holding(slot) if slot.len() + descriptor.len as usize > pool.room() => {
                Some(&mut counters.rx_too_long)
            }
            Gather::Holding(slot) => {
                let appended = pool.append_in_flight(slot, descriptor.address, descriptor.len as usize);
                (!appended).then_some(&mut counters.bad_descriptors)
            }
            Gather::Between | Gather::Skipping => None,
        };
        if given_back {
            let part = descriptor.address - descriptor.address % PART_OCTETS as u64;
            self.spare.push(part);
        }
        if let Some(counter) = dropped {
            *counter += 1;
            if let Gather::Holding(slot) = std::mem::replace(&mut self.gather, Gather::Skipping) {
                pool.give(slot);
            }
        }
        if descriptor.is_continued() {
            return None;
        }
        let Gather::Holding(slot) = std::mem::replace(&mut self.gather, Gather::Between) else { return None };
        if slot.len() < port::ETHERNET_HEADER {
            counters.bad_descriptors += 1;
            pool.give(slot);
            return None;
        }
        counters.rx_frames += 1;
        counters.rx_octets += slot.len() as u64;
        Some(slot)
    }

    /// Believes the kernel that it is done with a part, if that part was in the rings.
    fn take_part(&mut self, address: u64) -> bool {
        let part = usize::try_from(address / PART_OCTETS as u64).ok();
        let in_flight = part.and_then(|part| self.in_flight.get_mut(part));
        in_flight.is_some_and(std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::af_xdp::ring::twin;
    use crate::pool::{ChunkOctets, HEADROOM};
    use proptest::prelude::*;

    const OFFSET: u64 = 256;

    struct Kernel {
        filled: Consumer<u64>,
        frames: Producer<Descriptor>,
    }

    impl Kernel {
        /// A piece of a frame into the next chunk of the fill ring.
        fn receives(&mut self, len: u32, more: bool) {
            let part = self.filled.pop().expect("a part in the fill ring");
            self.filled.release();
            self.says(part + OFFSET, len, more);
        }

        fn says(&mut self, address: u64, len: u32, more: bool) {
            assert!(self.frames.push(Descriptor { address, len, options: u32::from(more) }));
            self.frames.publish();
        }
    }

    fn side(depth: usize, pool: &Pool, start: u32) -> (GatherQueue, Kernel) {
        let (fill, filled) = twin::ring(512, start);
        let (frames, received) = twin::ring(512, start);
        (GatherQueue::new(fill, received, depth, pool), Kernel { filled, frames })
    }

    fn pool(chunks: usize) -> Pool {
        Pool::new(ChunkOctets::Octets16384, chunks).unwrap()
    }

    #[test]
    fn a_chain_is_one_frame_or_dropped_whole() {
        // (descriptors: length and whether it is ours; what comes of them: frame octets, no_chunk, too_long, bad)
        type Row<'a> = (&'a [(u32, bool)], Option<usize>, [u64; 2]);
        let rows: [Row<'_>; 12] = [
            (&[(60, true)], Some(60), [0, 0]),
            (&[(14, true)], Some(14), [0, 0]),
            (&[(13, true)], None, [0, 1]),
            (&[(7, true), (7, true)], Some(14), [0, 0]),
            (&[(3840, true), (1, true)], Some(3841), [0, 0]),
            (&[(3840, true), (3840, true), (1334, true)], Some(9014), [0, 0]),
            (&[(3840, true), (3840, true), (3840, true), (3840, true), (736, true)], Some(16096), [0, 0]),
            (&[(3840, true), (3840, true), (3840, true), (3840, true), (737, true)], None, [1, 0]),
            (&[(3840, true), (3841, true), (100, true)], None, [0, 1]),
            (&[(u32::MAX, true), (100, true)], None, [0, 1]),
            (&[(3840, true), (100, false), (100, true)], None, [0, 1]),
            (&[(3840, false)], None, [0, 1]),
        ];
        for (descriptors, octets, [too_long, bad]) in rows {
            let mut pool = pool(8);
            let (mut side, mut kernel) = side(4, &pool, u32::MAX - 3);
            side.refill(&mut pool);
            assert_eq!((pool.free(), pool.in_flight()), (4, 4));
            let (mut burst, mut counters) = (Burst::new(), PortCounters::default());
            for (number, &(len, ours)) in descriptors.iter().enumerate() {
                let more = number + 1 < descriptors.len();
                if ours {
                    kernel.receives(len, more)
                } else {
                    kernel.says(7 * 16384 + OFFSET, len, more)
                }
                // Also when the chain is seen piece by piece.
                side.receive(&mut pool, &mut burst, &mut counters);
            }
            // The next descriptor begins a frame of its own.
            kernel.receives(77, false);
            side.receive(&mut pool, &mut burst, &mut counters);
            let seen: Vec<_> = burst.slots().iter().map(|slot| (slot.start(), slot.len())).collect();
            let expected: Vec<_> = octets.into_iter().chain([77]).map(|octets| (HEADROOM, octets)).collect();
            assert_eq!(seen, expected, "{descriptors:?}");
            let frames = expected.len() as u64;
            assert_eq!(
                (counters.rx_frames, counters.rx_too_long, counters.bad_descriptors, counters.rx_no_chunk),
                (frames, too_long, bad, 0),
                "{descriptors:?}"
            );
            burst.give_all(&mut pool);
            assert_eq!((pool.free(), pool.in_flight()), (4, 4));
        }
    }

    #[test]
    fn without_a_chunk_the_chain_is_skipped_and_its_parts_come_back() {
        let mut pool = pool(3);
        let (mut side, mut kernel) = side(2, &pool, 0);
        side.refill(&mut pool);
        let held = pool.take().unwrap();
        let (mut burst, mut counters) = (Burst::new(), PortCounters::default());
        for _ in 0..2 {
            for (len, more) in [(3840, true), (3840, true), (9, false)] {
                kernel.receives(len, more)
            }
        }
        side.receive(&mut pool, &mut burst, &mut counters);
        assert_eq!((burst.len(), counters.rx_no_chunk, side.spare.len()), (0, 2, 6));
        pool.give(held);
        side.refill(&mut pool);
        for (len, more) in [(3840, true), (9, false)] {
            kernel.receives(len, more)
        }
        side.receive(&mut pool, &mut burst, &mut counters);
        assert_eq!((burst.len(), burst.slots()[0].len(), counters.rx_no_chunk), (1, 3849, 2));
        burst.give_all(&mut pool);
    }

    #[test]
    fn a_call_is_bounded_and_leaves_the_rest_for_the_next() {
        let mut pool = pool(200);
        let (mut side, mut kernel) = side(128, &pool, 0);
        side.refill(&mut pool);
        let (mut burst, mut counters) = (Burst::new(), PortCounters::default());
        (0..FRAME_DESCRIPTORS * BURST_FRAMES + 9).for_each(|_| kernel.receives(0, true));
        kernel.receives(60, false);
        (0..BURST_FRAMES).for_each(|_| kernel.receives(61, false));
        side.receive(&mut pool, &mut burst, &mut counters);
        assert!(burst.is_empty(), "an endless chain does not hold the worker");
        side.receive(&mut pool, &mut burst, &mut counters);
        assert_eq!((burst.len(), burst.slots()[0].len(), burst.slots()[1].len()), (64, 60, 61));
        burst.give_all(&mut pool);
        side.receive(&mut pool, &mut burst, &mut counters);
        assert_eq!((burst.len(), counters.rx_frames), (1, 65));
        burst.give_all(&mut pool);
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Refill,
        Receives(u32, bool),
        Invents(u64, u32, bool),
        Receive,
        Give,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let len = || prop_oneof![0u32..=3840, any::<u32>()];
        prop_oneof![
            Just(Operation::Refill),
            (len(), any::<bool>()).prop_map(|(len, more)| Operation::Receives(len, more)),
            (0u32..=3840, any::<bool>()).prop_map(|(len, more)| Operation::Receives(len, more)),
            (prop_oneof![0..9 * 16384u64, any::<u64>()], len(), any::<bool>())
                .prop_map(|(address, len, more)| Operation::Invents(address, len, more)),
            Just(Operation::Receive),
            Just(Operation::Give),
        ]
    }

    proptest! {
        #[test]
        fn every_part_is_in_exactly_one_place(
            start in prop_oneof![Just(0), u32::MAX - 20..=u32::MAX],
            operations in prop::collection::vec(operation(), 0..300),
        ) {
            let mut pool = pool(8);
            let (mut side, mut kernel) = side(3, &pool, start);
            side.refill(&mut pool);
            let (mut burst, mut counters) = (Burst::new(), PortCounters::default());
            for operation in operations {
                match operation {
                    Operation::Refill => side.refill(&mut pool),
                    Operation::Receives(len, more) => {
                        if let Some(part) = kernel.filled.pop() {
                            kernel.filled.release();
                            kernel.says(part + OFFSET, len, more);
                        }
                    }
                    Operation::Invents(address, len, more) => kernel.says(address, len, more),
                    Operation::Receive => side.receive(&mut pool, &mut burst, &mut counters),
                    Operation::Give => burst.give_all(&mut pool),
                }
                let holding = usize::from(matches!(side.gather, Gather::Holding(_)));
                prop_assert_eq!(pool.free() + burst.len() + holding + 3, 8);
                prop_assert_eq!(pool.in_flight(), 3);
                let in_flight = side.in_flight.iter().filter(|in_flight| **in_flight).count();
                prop_assert_eq!(in_flight + side.spare.len(), 3 * PARTS);
                let mut spare = side.spare.clone();
                spare.sort_unstable();
                spare.dedup();
                prop_assert_eq!(spare.len(), side.spare.len());
            }
        }
    }
}
