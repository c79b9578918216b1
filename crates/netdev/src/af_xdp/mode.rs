//! The two modes of either direction: in place, or by several of the kernel's chunks. Chosen once per burst.

use crate::burst::Burst;
use crate::pool::Pool;
use crate::port::PortCounters;

use super::gather::GatherQueue;
use super::queue::{ReceiveQueue, TransmitQueue};
use super::ring::{Consumer, Descriptor, Producer};
use super::scatter::ScatterQueue;

/// Receiving from one queue.
#[derive(Debug)]
pub(super) enum ReceiveMode {
    InPlace(ReceiveQueue),
    Gathering(GatherQueue),
}

impl ReceiveMode {
    pub(super) fn new(fill: Producer<u64>, frames: Consumer<Descriptor>, depth: usize, pool: &Pool) -> Self {
        if pool.chunk_octets().parts() == 1 {
            Self::InPlace(ReceiveQueue::new(fill, frames, depth))
        } else {
            Self::Gathering(GatherQueue::new(fill, frames, depth, pool))
        }
    }

    /// Goes on with rings that hold so many chunks, in place.
    pub(super) fn go_on(
        fill: Producer<u64>,
        frames: Consumer<Descriptor>,
        depth: usize,
        in_flight: usize,
    ) -> Self {
        Self::InPlace(ReceiveQueue::new(fill, frames, depth).holding(in_flight))
    }

    /// Chunks in its rings; none where it gathers.
    pub(super) const fn in_flight(&self) -> Option<usize> {
        match self {
            Self::InPlace(side) => Some(side.in_flight()),
            Self::Gathering(_) => None,
        }
    }

    /// Puts up chunks to receive into.
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        match self {
            Self::InPlace(side) => side.refill(pool),
            Self::Gathering(side) => side.refill(pool),
        }
    }

    /// Whether it is time for that.
    pub(super) fn is_low(&self) -> bool {
        match self {
            Self::InPlace(side) => side.is_low(),
            Self::Gathering(side) => side.is_low(),
        }
    }

    /// Takes received frames.
    pub(super) fn receive(&mut self, pool: &mut Pool, burst: &mut Burst, counters: &mut PortCounters) {
        match self {
            Self::InPlace(side) => side.receive(pool, burst, counters),
            Self::Gathering(side) => side.receive(pool, burst, counters),
        }
    }

    pub(super) fn fill_ring(&self) -> &Producer<u64> {
        match self {
            Self::InPlace(side) => &side.fill,
            Self::Gathering(side) => &side.fill,
        }
    }
}

/// Sending through one queue.
#[derive(Debug)]
pub(super) enum TransmitMode {
    InPlace(TransmitQueue),
    Scattering(ScatterQueue),
}

impl TransmitMode {
    pub(super) fn new(
        frames: Producer<Descriptor>,
        completion: Consumer<u64>,
        depth: usize,
        pool: &Pool,
    ) -> Self {
        if pool.chunk_octets().parts() == 1 {
            Self::InPlace(TransmitQueue::new(frames, completion, depth))
        } else {
            Self::Scattering(ScatterQueue::new(frames, completion, depth))
        }
    }

    /// Goes on with rings that hold so many chunks, in place.
    pub(super) fn go_on(
        frames: Producer<Descriptor>,
        completion: Consumer<u64>,
        depth: usize,
        in_flight: usize,
    ) -> Self {
        Self::InPlace(TransmitQueue::new(frames, completion, depth).holding(in_flight))
    }

    /// Chunks in its rings; none where it scatters.
    pub(super) const fn in_flight(&self) -> Option<usize> {
        match self {
            Self::InPlace(side) => Some(side.in_flight()),
            Self::Scattering(_) => None,
        }
    }

    /// Puts every frame of the burst into the ring.
    pub(super) fn transmit(
        &mut self,
        pool: &mut Pool,
        burst: &mut Burst,
        mtu: u32,
        counters: &mut PortCounters,
    ) {
        match self {
            Self::InPlace(side) => side.transmit(pool, burst, mtu, counters),
            Self::Scattering(side) => side.transmit(pool, burst, mtu, counters),
        }
    }

    /// Takes back what has been sent.
    pub(super) fn reclaim(&mut self, pool: &mut Pool, counters: &mut PortCounters) {
        match self {
            Self::InPlace(side) => side.reclaim(pool, counters),
            Self::Scattering(side) => side.reclaim(pool, counters),
        }
    }

    /// Whether so many frames can be taken.
    pub(super) fn has_room(&self, frames: usize) -> bool {
        match self {
            Self::InPlace(side) => side.has_room(frames),
            Self::Scattering(side) => side.has_room(frames),
        }
    }

    /// Whether all chunks have come back.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::InPlace(side) => side.is_idle(),
            Self::Scattering(side) => side.is_idle(),
        }
    }

    pub(super) fn ring(&mut self) -> &mut Producer<Descriptor> {
        match self {
            Self::InPlace(side) => &mut side.frames,
            Self::Scattering(side) => &mut side.frames,
        }
    }
}
