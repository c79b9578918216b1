//! The interface of all ports: receive a burst, send a burst, keep rings in order, count.
//!
//! Implementors: [`AfXdp`](crate::af_xdp::AfXdp), [`AfPacket`](crate::af_packet::AfPacket), and the in-memory
//! twin [`MemoryPort`](crate::memory::MemoryPort). One dynamic dispatch per burst.
//!
//! The rhythm of a worker: `receive`, work, `transmit` on the other port, `housekeep` on both; when nothing
//! came, wait on the poll descriptors of both. All calls with the one pool that the port was opened with.
//!
//! A virtual machine's wire (`veth`) needs `ethtool -K IF tx off txvlan off` with AF_XDP. Its kernel leaves work to hardware
//! that is not there: checksums stay unfilled, and VLAN tags stay beside the frame, unseen. A port cannot put that right;
//! AF_PACKET puts both right.
//!
//! Left out on purpose: blocking calls, time, addresses; frames of more than one chunk.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};

use crate::bpf::Link;
use crate::burst::Burst;
use crate::interface::cure;
use crate::passed_on::PassedPort;
use crate::pool::Pool;

/// One side of a link: an interface, or a queue in memory.
pub trait Port: Send {
    /// Appends received frames to the burst until it is full or none waits. Never blocks; at most
    /// [`BURST_FRAMES`](crate::burst::BURST_FRAMES) frames a call, plus as many that are dropped and counted.
    /// A frame stands with at least 64 octets of headroom (in fact [`HEADROOM`](crate::pool::HEADROOM)) and
    /// [`TAILROOM`](crate::pool::TAILROOM) behind it.
    fn receive(&mut self, pool: &mut Pool, burst: &mut Burst);

    /// Sends every frame of the burst, in order; what the interface does not take goes back to the pool and is
    /// counted. Never blocks, leaves the burst empty. Returns how many the interface took, as far as it says so at once: without a
    /// link none, unless the driver takes frames all the same.
    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize;

    /// Takes back what has been sent, puts up chunks to receive into, wakes the kernel if it asked for that.
    /// To be called once per turn of the worker, also when nothing was received. Never blocks; bounded.
    fn housekeep(&mut self, pool: &mut Pool);

    /// Descriptors to poll for readability when there is nothing to do; empty for a port in memory.
    fn poll_descriptors(&self) -> &[RawFd];

    /// All counters since the port was opened. One or two system calls per queue: not for the frame path.
    fn counters(&mut self) -> PortCounters;

    /// Description for status and report: `af_xdp native, 4 queues`.
    fn description(&self) -> &str;

    /// This port as the next program of this process goes on with it, between two turns; none: it cannot.
    fn pass_on(&mut self) -> Option<PassedPort> {
        None
    }

    /// Interface and sockets of this port, for a program that takes frames before the port does.
    ///
    /// # Errors
    /// Frames do not come here by a program, or a file descriptor cannot be had.
    fn kernel_side(&self) -> io::Result<KernelSide> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Source of a port's frames in the kernel.
#[derive(Debug)]
pub struct KernelSide {
    /// The interface, by its index.
    pub interface: u32,
    /// Programs run in the driver, not behind it.
    pub native: bool,
    /// The AF_XDP socket of each receive queue.
    pub sockets: Vec<OwnedFd>,
    pub(crate) link: Link,
    /// The port's own program.
    pub(crate) program: OwnedFd,
}

impl KernelSide {
    /// Puts an XDP program in the place of the port's own, between two frames; none: the port's own again. A program goes with the port, once
    /// this is dropped as well. Waits for the kernel's lock of all interfaces, which others may hold for long: not for workers.
    ///
    /// # Errors
    /// If the kernel refuses it here.
    pub fn set_program(&self, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.link.update(program.unwrap_or(self.program.as_fd()))
    }
}

wire::counters! {
    /// Cumulative counters of a port. "Frame octets" are those between destination address and FCS, without FCS.
    /// Counters that do not apply to a kind of port stay 0.
    PortCounters {
        /// Frames handed to the worker.
        rx_frames = "RxFrames",
        /// Their frame octets.
        rx_octets = "RxOctets",
        /// Frames that the interface took.
        tx_frames = "TxFrames",
        /// Their frame octets.
        tx_octets = "TxOctets",
        /// Received, but no chunk was free.
        rx_no_chunk = "RxNoChunk" [discard],
        /// Received, but longer than the interface's MTU allows, than a chunk's room, or cut by the kernel.
        rx_too_long = "RxTooLong" [discard],
        /// Received as a merged or unsegmented super-frame (GRO here, TSO at a local sender). The cure is
        /// `ethtool -K IF gro off` here, `tso off gso off` on the sender's virtual interface.
        rx_super_frames = "RxSuperFrames" [discard],
        /// Received from a local sender that left the checksum to hardware that is not there, and completed here.
        /// Not a drop. AF_XDP cannot see it: there the sender's virtual interface needs `ethtool -K IF tx off`.
        rx_checksums_completed = "RxChecksumsCompleted",
        /// TCP segments and UDP datagrams of the machine whose checksum was looked at: a sample.
        rx_checksums_sampled = "RxChecksumsSampled",
        /// Of these, those whose checksum was left to hardware that is not there. Not a drop here: the receiver drops it, so ping
        /// works and TCP does not. The cure is `ethtool -K IF tx off` at the machine's end.
        rx_checksums_unfilled = "RxChecksumsUnfilled",
        /// Dropped by the kernel before it reached us (PACKET_STATISTICS drops; XDP_STATISTICS rx_dropped).
        rx_kernel_dropped = "RxKernelDropped" [discard],
        /// Dropped by the kernel because the receive ring was full: the worker is too slow.
        rx_ring_full = "RxRingFull" [discard],
        /// Times that the kernel found no chunk to receive into (rx_fill_ring_empty_descs).
        rx_fill_ring_empty = "RxFillRingEmpty",
        /// Addresses in the fill ring that the kernel refused: a bug if not 0.
        rx_invalid_descriptors = "RxInvalidDescriptors" [discard],
        /// Transmit descriptors that the kernel refused: a bug if not 0.
        tx_invalid_descriptors = "TxInvalidDescriptors" [discard],
        /// Descriptors from the kernel that name no chunk it was lent, or reach beyond it: a bug if not 0.
        bad_descriptors = "BadDescriptors" [discard],
        /// To be sent, but the interface or its ring had no room, or was down.
        tx_dropped = "TxDropped" [discard],
        /// Among `tx_frames`: those that the kernel said it dropped after all (no carrier, no room in the driver).
        tx_kernel_dropped = "TxKernelDropped" [discard],
        /// To be sent, but longer than the interface's MTU allows.
        tx_too_long = "TxTooLong" [discard],
        /// To be sent, but shorter than an Ethernet header or placed beyond its chunk: a bug if not 0.
        tx_malformed = "TxMalformed" [discard],
    }
}

/// Error of opening a port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Frames of this MTU do not fit into a chunk of the pool.
    #[error(
        "interface {interface}: its MTU {mtu} is more than {engine} takes, {most}; lower it with \
         'ip link set {interface} mtu {most}'"
    )]
    MtuTooLarge {
        /// The interface.
        interface: String,
        /// The engine that would receive from it.
        engine: &'static str,
        /// Its MTU.
        mtu: u32,
        /// The largest MTU that the pool's chunks hold.
        most: u32,
    },
    /// The pool has not enough chunks for the rings.
    #[error("a pool of {total} chunks is too small for these ports: they need {wanted}")]
    PoolTooSmall {
        /// Chunks that the pool has.
        total: usize,
        /// Chunks that it needs at least.
        wanted: usize,
    },
    /// A system call failed.
    #[error("interface {interface}: cannot {action}: {source}{}", cure(source))]
    System {
        /// The interface.
        interface: String,
        /// The step that failed.
        action: String,
        /// The system's error.
        source: io::Error,
    },
}

/// All of several ports, or the first error.
pub fn all<T, const N: usize>(opened: [Result<T, PortError>; N]) -> Result<[T; N], PortError> {
    let mut error = None;
    let opened = opened.map(|port| port.map_err(|failed| error = error.take().or(Some(failed))).ok());
    match error {
        Some(error) => Err(error),
        None => Ok(opened.map(|port| port.expect("invariant: none failed"))),
    }
}

/// Octets of an Ethernet header without tags: the shortest frame that a port sends.
pub(crate) const ETHERNET_HEADER: usize = 14;

/// Octets of a VLAN tag.
pub(crate) const VLAN_TAG: usize = 4;

/// Octets of the longest frame that an interface of this MTU delivers: two VLAN tags come on top of the MTU.
pub const fn longest_received(mtu: u32) -> usize {
    mtu as usize + ETHERNET_HEADER + 2 * VLAN_TAG
}

/// Octets of the longest frame that may leave through an interface of this MTU: each VLAN tag, at most two, comes on
/// top of the MTU.
pub(crate) fn longest_sent(mtu: u32, frame: &[u8]) -> usize {
    let tags = [12, 16].into_iter().take_while(|&at| frame.get(at..at + 2).is_some_and(is_vlan_type)).count();
    mtu as usize + ETHERNET_HEADER + tags * VLAN_TAG
}

fn is_vlan_type(ether_type: &[u8]) -> bool {
    matches!(ether_type, [0x81, 0x00] | [0x88, 0xa8])
}

/// Whether a frame may leave; counts it if not.
pub(crate) fn may_leave(frame: &[u8], mtu: u32, counters: &mut PortCounters) -> bool {
    if frame.len() < ETHERNET_HEADER {
        counters.tx_malformed += 1;
        return false;
    }
    // Most frames need no look at their tags, which would be their first touch.
    if frame.len() > mtu as usize + ETHERNET_HEADER && frame.len() > longest_sent(mtu, frame) {
        counters.tx_too_long += 1;
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_tags_come_on_top_of_the_mtu() {
        let mut frame = [0; 22];
        assert_eq!(longest_sent(1500, &frame), 1514);
        for (outer, inner, most) in [
            ([0x81, 0x00], [0x08, 0x00], 1518),
            ([0x88, 0xa8], [0x81, 0x00], 1522),
            ([0x81, 0x00], [0x81, 0x00], 1522),
            ([0x08, 0x00], [0x81, 0x00], 1514),
            ([0x88, 0xe5], [0x00, 0x00], 1514),
        ] {
            (frame[12], frame[13], frame[16], frame[17]) = (outer[0], outer[1], inner[0], inner[1]);
            assert_eq!(longest_sent(1500, &frame), most, "{outer:x?} {inner:x?}");
        }
        assert_eq!(longest_sent(1500, &frame[..13]), 1514);
        assert_eq!(longest_received(1500), 1522);
    }

    #[test]
    fn what_may_not_leave_is_counted() {
        let mut counters = PortCounters::default();
        for (len, leaves) in [(0, false), (13, false), (14, true), (114, true), (115, false)] {
            assert_eq!(may_leave(&vec![0; len], 100, &mut counters), leaves, "{len}");
        }
        assert_eq!((counters.tx_malformed, counters.tx_too_long), (2, 1));
    }
}
