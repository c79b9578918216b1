//! What every port can do: take in a burst, send a burst, keep its rings in order, count.
//!
//! Implementors: [`AfXdp`](crate::af_xdp::AfXdp), [`AfPacket`](crate::af_packet::AfPacket), and the in-memory
//! twin [`MemoryPort`](crate::memory::MemoryPort). One dynamic dispatch per burst.
//!
//! The rhythm of a worker: `receive`, work, `transmit` on the other port, `housekeep` on both; when nothing
//! came, wait on the poll descriptors of both. All calls with the one pool that the port was opened with.
//!
//! Left out on purpose: blocking calls, time, addresses; frames of more than one chunk.

use std::os::fd::RawFd;

use crate::burst::Burst;
use crate::pool::Pool;

/// One side of a link: an interface, or a queue in memory.
pub trait Port: Send {
    /// Appends received frames to the burst until it is full or none waits. Never blocks; at most
    /// [`BURST_FRAMES`](crate::burst::BURST_FRAMES) frames a call, plus as many that are dropped and counted.
    /// A frame stands with at least 64 octets of headroom (in fact [`HEADROOM`](crate::pool::HEADROOM)) and
    /// [`TAILROOM`](crate::pool::TAILROOM) behind it.
    fn receive(&mut self, pool: &mut Pool, burst: &mut Burst);

    /// Sends every frame of the burst, in order; what the interface does not take goes back to the pool and is
    /// counted. Never blocks, leaves the burst empty.
    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst);

    /// Takes back what has been sent, puts up chunks to receive into, wakes the kernel if it asked for that.
    /// To be called once per turn of the worker, also when nothing was received. Never blocks; bounded.
    fn housekeep(&mut self, pool: &mut Pool);

    /// What to poll for readability when there is nothing to do; empty for a port in memory.
    fn poll_descriptors(&self) -> &[RawFd];

    /// All counters since the port was opened. One or two system calls per queue: not for the frame path.
    fn counters(&mut self) -> PortCounters;

    /// What this port is, for status and report: `af_xdp native, 4 queues`.
    fn description(&self) -> &str;
}

/// Cumulative counters of a port. "Frame octets" are those between destination address and FCS, without FCS.
/// What does not apply to a kind of port stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames handed to the worker.
    pub rx_frames: u64,
    /// Their frame octets.
    pub rx_octets: u64,
    /// Frames that the interface took.
    pub tx_frames: u64,
    /// Their frame octets.
    pub tx_octets: u64,
    /// Received, but no chunk was free.
    pub rx_no_chunk: u64,
    /// Received, but longer than the interface's MTU allows, than a chunk's room, or cut by the kernel.
    pub rx_too_long: u64,
    /// Received as a merged or unsegmented super-frame (GRO here, TSO at a local sender). The cure is
    /// `ethtool -K IF gro off` here, `tso off gso off` on the sender's virtual interface.
    pub rx_super_frames: u64,
    /// Received from a local sender that left the checksum to hardware that is not there, and completed here.
    /// Not a drop. AF_XDP cannot see it: there the sender's virtual interface needs `ethtool -K IF tx off`.
    pub rx_checksums_completed: u64,
    /// Dropped by the kernel before it reached us (PACKET_STATISTICS drops; XDP_STATISTICS rx_dropped).
    pub rx_kernel_dropped: u64,
    /// Dropped by the kernel because the receive ring was full: the worker is too slow.
    pub rx_ring_full: u64,
    /// Times that the kernel found no chunk to receive into (rx_fill_ring_empty_descs).
    pub rx_fill_ring_empty: u64,
    /// Addresses in the fill ring that the kernel refused: a bug if not 0.
    pub rx_invalid_descriptors: u64,
    /// Transmit descriptors that the kernel refused: a bug if not 0.
    pub tx_invalid_descriptors: u64,
    /// Descriptors from the kernel that name no chunk it was lent, or reach beyond it: a bug if not 0.
    pub bad_descriptors: u64,
    /// To be sent, but the interface or its ring had no room, or was down.
    pub tx_dropped: u64,
    /// To be sent, but longer than the interface's MTU allows.
    pub tx_too_long: u64,
    /// To be sent, but shorter than an Ethernet header or placed beyond its chunk: a bug if not 0.
    pub tx_malformed: u64,
}

/// Octets of an Ethernet header without tags: the shortest frame that a port sends.
pub(crate) const ETHERNET_HEADER: usize = 14;
