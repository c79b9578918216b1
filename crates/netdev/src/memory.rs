//! The in-memory twin of a port: two ends, a bounded queue of frames each way.
//!
//! Carries octets, not chunks, so the two ends need not share a pool and a test can stand at one of them with
//! nothing but [`MemoryPort::inject`] and [`MemoryPort::collect`]. Its buffers go round between two
//! single-producer rings: no lock and no allocation after creation, like the ports it stands for.
//!
//! Left out on purpose: delay and loss (a link between ports, not a port), poll descriptors.

use std::os::fd::RawFd;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::burst::Burst;
use crate::pool::{HEADROOM, Pool};
use crate::port::{ETHERNET_HEADER, Port, PortCounters};

/// The longest frame that a memory port carries.
pub const MEMORY_FRAME_OCTETS: usize = 16 * 1024;

/// One end of an in-memory wire.
#[derive(Debug)]
pub struct MemoryPort {
    outgoing: Producer<Vec<u8>>,
    /// Buffers that the other end has emptied.
    spare: Consumer<Vec<u8>>,
    incoming: Consumer<Vec<u8>>,
    emptied: Producer<Vec<u8>>,
    counters: PortCounters,
}

impl MemoryPort {
    /// Two ends of a wire that holds `capacity` frames each way, each up to [`MEMORY_FRAME_OCTETS`] long.
    /// The sender drops and counts longer frames.
    pub fn pair(capacity: usize) -> (Self, Self) {
        let (outgoing, there, emptied_there, spare) = direction(capacity);
        let (outgoing_there, incoming, emptied, spare_there) = direction(capacity);
        (
            Self { outgoing, spare, incoming, emptied, counters: PortCounters::default() },
            Self {
                outgoing: outgoing_there,
                spare: spare_there,
                incoming: there,
                emptied: emptied_there,
                counters: PortCounters::default(),
            },
        )
    }

    /// Sends one frame from plain octets. False if it was dropped (and counted).
    pub fn inject(&mut self, frame: &[u8]) -> bool {
        if frame.len() < ETHERNET_HEADER {
            self.counters.tx_malformed += 1;
            return false;
        }
        if frame.len() > MEMORY_FRAME_OCTETS {
            self.counters.tx_too_long += 1;
            return false;
        }
        let Ok(mut buffer) = self.spare.pop() else {
            self.counters.tx_dropped += 1;
            return false;
        };
        buffer.clear();
        buffer.extend_from_slice(frame);
        if self.outgoing.push(buffer).is_err() {
            // The other end is gone or broke the round of buffers.
            self.counters.tx_dropped += 1;
            return false;
        }
        self.counters.tx_frames += 1;
        self.counters.tx_octets += frame.len() as u64;
        true
    }

    /// Receives one frame as plain octets, if one waits.
    pub fn collect(&mut self) -> Option<Vec<u8>> {
        let buffer = self.incoming.pop().ok()?;
        let frame = buffer.clone();
        self.recycle(buffer);
        self.counters.rx_frames += 1;
        self.counters.rx_octets += frame.len() as u64;
        Some(frame)
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.emptied.push(buffer).expect("invariant: as many places as buffers go round");
    }

    /// The next frame into a chunk; it is dropped and counted if there is none or it is too small.
    fn receive_one(&mut self, pool: &mut Pool, burst: &mut Burst) -> bool {
        let Ok(buffer) = self.incoming.pop() else { return false };
        let len = buffer.len();
        if len > pool.room() {
            self.counters.rx_too_long += 1;
        } else if let Some(mut slot) = pool.take() {
            let view = pool.view(&mut slot);
            view.chunk[HEADROOM..HEADROOM + len].copy_from_slice(&buffer);
            (*view.start, *view.len) = (HEADROOM, len);
            self.counters.rx_frames += 1;
            self.counters.rx_octets += len as u64;
            burst.push(slot).expect("invariant: receive() looked for room");
        } else {
            self.counters.rx_no_chunk += 1;
        }
        self.recycle(buffer);
        true
    }
}

type Direction = (Producer<Vec<u8>>, Consumer<Vec<u8>>, Producer<Vec<u8>>, Consumer<Vec<u8>>);

/// One way of the wire: the ring of full buffers, and the ring of empty ones with all buffers in it.
fn direction(capacity: usize) -> Direction {
    let (outgoing, incoming) = RingBuffer::new(capacity);
    let (mut emptied, spare) = RingBuffer::new(capacity);
    for _ in 0..capacity {
        emptied
            .push(Vec::with_capacity(MEMORY_FRAME_OCTETS))
            .expect("invariant: the ring has a place for each buffer");
    }
    (outgoing, incoming, emptied, spare)
}

impl Port for MemoryPort {
    fn receive(&mut self, pool: &mut Pool, burst: &mut Burst) {
        for _ in 0..crate::burst::BURST_FRAMES {
            if burst.is_full() || !self.receive_one(pool, burst) {
                return;
            }
        }
    }

    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut taken = 0;
        for slot in burst.drain() {
            taken += usize::from(self.inject(pool.frame(&slot)));
            pool.give(slot);
        }
        taken
    }

    fn housekeep(&mut self, _pool: &mut Pool) {}

    fn poll_descriptors(&self) -> &[RawFd] {
        &[]
    }

    fn counters(&mut self) -> PortCounters {
        self.counters
    }

    fn description(&self) -> &str {
        "memory"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burst::BURST_FRAMES;
    use crate::pool::ChunkOctets;

    fn frame(octets: usize, fill: u8) -> Vec<u8> {
        vec![fill; octets]
    }

    #[test]
    fn frames_pass_both_ways_octet_exact() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, 8).unwrap();
        let (mut here, mut there) = MemoryPort::pair(4);
        for len in ETHERNET_HEADER..=pool.room() {
            assert!(here.inject(&frame(len, len as u8)));
            let mut burst = Burst::new();
            there.receive(&mut pool, &mut burst);
            assert_eq!(burst.len(), 1);
            assert_eq!(burst.slots()[0].start(), HEADROOM);
            assert_eq!(pool.frame(&burst.slots()[0]), frame(len, len as u8));
            there.transmit(&mut pool, &mut burst);
            assert_eq!(here.collect(), Some(frame(len, len as u8)));
        }
        assert_eq!(pool.free(), pool.total());
        let (sent, seen) = (here.counters(), there.counters());
        assert_eq!((sent.tx_frames, sent.tx_octets), (seen.rx_frames, seen.rx_octets));
        assert_eq!((sent.rx_frames, sent.rx_octets), (seen.tx_frames, seen.tx_octets));
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, 2).unwrap();
        let (mut here, mut there) = MemoryPort::pair(3);
        assert!(!here.inject(&frame(13, 0)));
        assert!(!here.inject(&frame(MEMORY_FRAME_OCTETS + 1, 0)));
        assert!(here.inject(&frame(pool.room() + 1, 1)));
        assert!(here.inject(&frame(60, 2)) && here.inject(&frame(60, 3)));
        assert!(!here.inject(&frame(60, 4)), "the wire is full");
        let held = pool.take().unwrap();
        let mut burst = Burst::new();
        there.receive(&mut pool, &mut burst);
        assert_eq!((burst.len(), pool.frame(&burst.slots()[0])[0]), (1, 2));
        let (sent, seen) = (here.counters(), there.counters());
        assert_eq!((sent.tx_malformed, sent.tx_too_long, sent.tx_dropped, sent.tx_frames), (1, 1, 1, 3));
        assert_eq!((seen.rx_too_long, seen.rx_no_chunk, seen.rx_frames), (1, 1, 1));
        pool.give(held);
        burst.give_all(&mut pool);
        assert_eq!(pool.free(), pool.total());
    }

    #[test]
    fn a_call_takes_at_most_one_burst_and_keeps_order() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, 200).unwrap();
        let (mut here, mut there) = MemoryPort::pair(100);
        for number in 0..100 {
            assert!(here.inject(&frame(60, number)));
        }
        let mut burst = Burst::new();
        there.receive(&mut pool, &mut burst);
        assert_eq!(burst.len(), BURST_FRAMES);
        let mut rest = Burst::new();
        there.receive(&mut pool, &mut rest);
        assert_eq!(rest.len(), 100 - BURST_FRAMES);
        for (number, slot) in burst.slots().iter().chain(rest.slots()).enumerate() {
            assert_eq!(usize::from(pool.frame(slot)[0]), number);
        }
        burst.give_all(&mut pool);
        rest.give_all(&mut pool);
    }
}
