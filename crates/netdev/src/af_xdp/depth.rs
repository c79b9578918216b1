//! Depth of rings: the number of chunks of a pool that each ring may hold.

use crate::burst::BURST_FRAMES;
use crate::interface::Interface;
use crate::pool::{ChunkOctets, Pool};
use crate::port::PortError;

/// The most of the kernel's chunks of one direction of one socket.
const MOST_DEPTH: usize = 2048;
/// The least chunks of the pool: one burst.
const LEAST_DEPTH: usize = BURST_FRAMES;
/// Chunks that are in no ring, for bursts under work.
const IN_HAND: usize = 4 * BURST_FRAMES;
/// Chunks of the kernel's that a pool of the recommended size has for all rings together, unless the queues are very
/// many.
const RING_CHUNKS: usize = 16 * 1024;

/// Recommended number of chunks of that size in a pool for ports on these interfaces.
pub(super) fn recommended(interfaces: &[&Interface], chunk_octets: ChunkOctets) -> usize {
    // A receiving side a queue, and a sending one.
    let sides = |interface: &&Interface| interface.receive_queues().unwrap_or(1) as usize + 1;
    let sides: usize = interfaces.iter().map(sides).sum();
    let parts = chunk_octets.parts();
    sides * (RING_CHUNKS / parts / sides).clamp(4 * LEAST_DEPTH, MOST_DEPTH / parts) + IN_HAND
}

/// Chunks for each direction of each socket: a receiving one per queue, a sending one per port.
pub(super) fn depth(pool: &Pool, queues: usize, ports: usize) -> Result<usize, PortError> {
    let sides = queues + ports;
    let depth = pool.free().saturating_sub(IN_HAND) / sides;
    if depth < LEAST_DEPTH {
        let wanted = sides * LEAST_DEPTH + IN_HAND;
        return Err(PortError::PoolTooSmall { total: pool.free(), wanted });
    }
    Ok(depth.min(MOST_DEPTH / pool.chunk_octets().parts()))
}
