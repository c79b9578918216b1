//! AF_PACKET: a memory-mapped receive ring (TPACKET_V2) and `sendmmsg`. Works on every interface and kernel.
//!
//! ```text
//!  a place of the ring:  tpacket2_hdr 32 | ... | virtio_net_hdr 10 | frame, its outermost VLAN tag taken out
//!                                                tp_mac - 10         tp_mac
//! ```
//!
//! Frames are copied out of the ring, so that it never waits for the worker. Two sockets: the ring's says with
//! each frame what offloads left undone (PACKET_VNET_HDR), which on a sending socket would want the same in front
//! of each frame.
//!
//! What the kernel does to frames before they get here, and what becomes of it:
//! - it takes the outermost VLAN tag out: put back from the ring's header;
//! - it leaves the checksum to hardware when the sender is local (veth with `tx on`): completed and counted, as the
//!   wire that is not there would have had it done. SCTP's CRC-32c is not: `tx-checksum-sctp off` there;
//! - it merges frames (GRO) or leaves a local sender's unsegmented (TSO): dropped and counted as super-frames;
//! - it cuts what does not fit a place of the ring: dropped and counted.
//!
//! Sending bypasses the queueing disciplines (PACKET_QDISC_BYPASS): the drop at the tc egress hook that keeps the
//! host's own frames off the interface would stop ours as well, and a shaper belongs in front of the gateway.
//! The price: no queue but the driver's. What that has no room for is tried again a bounded number of times.
//!
//! Left out on purpose: TPACKET_V3 (its block timer costs a millisecond of latency), the transmit ring (slower than
//! `sendmmsg`), fanout over threads (a worker owns the port).

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use arrayvec::ArrayVec;

use crate::burst::{BURST_FRAMES, Burst};
use crate::interface::Interface;
use crate::mapping::Mapping;
use crate::packet_socket as packet;
use crate::pool::{HEADROOM, Pool, Slot};
use crate::port::{self, ETHERNET_HEADER, Port, PortCounters, PortError, VLAN_TAG};

/// Octets in front of a frame in its place of the ring, at most: header 52, Ethernet 16, rounded up, and the
/// offload header.
const PLACE_OVERHEAD: usize = 96;
/// Octets of the receive ring.
const RING_OCTETS: usize = 8 << 20;
/// Octets of one of its blocks, which the kernel allocates each in one piece.
const BLOCK_OCTETS: usize = 128 << 10;
const VIRTIO_HEADER: usize = 10;
const VIRTIO_NEEDS_CHECKSUM: u8 = 1;
/// How often the driver is asked again within one burst.
const RETRIES: usize = 16;
/// Turns without a frame between two looks at the socket's error.
const IDLE_TURNS: u32 = 64;

/// A port on a packet socket.
#[derive(Debug)]
pub struct AfPacket {
    receiver: OwnedFd,
    sender: OwnedFd,
    descriptors: [RawFd; 1],
    ring: Mapping,
    place_octets: usize,
    places: usize,
    next: usize,
    idle: u32,
    mtu: u32,
    counters: PortCounters,
}

impl AfPacket {
    /// Opens a port on an interface that is up. From now on it is promiscuous and frames wait in the ring.
    ///
    /// # Errors
    /// If frames of its MTU do not fit the pool's chunks, or the kernel refuses.
    pub fn open(interface: &Interface, pool: &Pool) -> Result<Self, PortError> {
        let (mtu, index) = (interface.mtu(), interface.index());
        let longest = port::longest_received(mtu);
        if longest > pool.room() {
            return Err(PortError::MtuTooLarge {
                interface: interface.name().into(),
                engine: "AF_PACKET with this pool",
                mtu,
                most: (pool.room() - (longest - mtu as usize)) as u32,
                larger_by_af_packet: false,
            });
        }
        let failed = |action: &'static str| {
            move |source| PortError::System {
                interface: interface.name().into(),
                action: action.into(),
                source,
            }
        };
        let place_octets = (longest + PLACE_OVERHEAD).next_power_of_two();
        let places = RING_OCTETS / place_octets;
        let receiver = packet::open().map_err(failed("open a packet socket"))?;
        let ring = ring(&receiver, place_octets, places).map_err(failed("map a receive ring"))?;
        packet::bind(&receiver, index, libc::ETH_P_ALL as u16).map_err(failed("receive from it"))?;
        packet::promiscuous(&receiver, index).map_err(failed("make it promiscuous"))?;
        let sender = sender(index).map_err(failed("open a packet socket to send"))?;
        Ok(Self {
            descriptors: [receiver.as_raw_fd()],
            receiver,
            sender,
            ring,
            place_octets,
            places,
            next: 0,
            idle: 0,
            mtu,
            counters: PortCounters::default(),
        })
    }

    /// Takes the frame at the next place of the ring, if the kernel has put one there. False if it has not.
    fn receive_one(&mut self, pool: &mut Pool, burst: &mut Burst) -> bool {
        // SAFETY: next < places, and the ring has that many places.
        let place = unsafe { self.ring.base().add(self.next * self.place_octets) };
        // SAFETY: a place begins with its header, and that with the status, which the kernel writes concurrently:
        // only ever touched as an atomic.
        let status = unsafe { AtomicU32::from_ptr(place.cast()) };
        let flags = status.load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: TP_STATUS_USER says that the kernel is done with the place and leaves it alone, status included,
        // until the status is reset, below; the slice is not used after that.
        let octets = unsafe { std::slice::from_raw_parts(place, self.place_octets) };
        match Received::parse(octets, flags) {
            None => self.counters.bad_descriptors += 1,
            Some(received) => self.take(&received, pool, burst),
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.places { 0 } else { self.next + 1 };
        true
    }

    /// Copies a frame into a chunk, with what the kernel took out or left undone put right.
    fn take(&mut self, received: &Received<'_>, pool: &mut Pool, burst: &mut Burst) {
        if received.super_frame {
            self.counters.rx_super_frames += 1;
            return;
        }
        let len = received.octets.len() + if received.tag.is_some() { VLAN_TAG } else { 0 };
        if received.cut || len > pool.room() || received.octets.len() < ETHERNET_HEADER {
            self.counters.rx_too_long += 1;
            return;
        }
        let Some(mut slot) = pool.take() else {
            self.counters.rx_no_chunk += 1;
            return;
        };
        let view = pool.view(&mut slot);
        let frame = &mut view.chunk[HEADROOM..HEADROOM + len];
        if received.write(frame) {
            self.counters.rx_checksums_completed += 1;
        }
        (*view.start, *view.len) = (HEADROOM, len);
        self.counters.rx_frames += 1;
        self.counters.rx_octets += len as u64;
        burst.push(slot).expect("invariant: receive() looked for room");
    }

    /// Offers messages to the driver until it has taken all or the retries are spent.
    fn send_all(&mut self, messages: &mut [libc::mmsghdr]) {
        let (mut sent, mut retries) = (0, 0);
        while sent < messages.len() {
            let rest = &mut messages[sent..];
            // SAFETY: the messages point to iovecs and those to frames that live until transmit() returns.
            let result = unsafe {
                libc::sendmmsg(
                    self.sender.as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            if result > 0 {
                for message in &rest[..result as usize] {
                    self.counters.tx_frames += 1;
                    self.counters.tx_octets += u64::from(message.msg_len);
                }
                sent += result as usize;
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EMSGSIZE) => {
                    self.counters.tx_too_long += 1;
                    sent += 1;
                }
                Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) if retries < RETRIES => retries += 1,
                // Down, gone, or no room in spite of all: so it is for the rest of the burst.
                _ => {
                    self.counters.tx_dropped += rest.len() as u64;
                    return;
                }
            }
        }
    }
}

/// A frame in its place of the ring.
#[derive(Debug, PartialEq, Eq)]
struct Received<'r> {
    /// From the destination address on, without the outermost VLAN tag.
    octets: &'r [u8],
    /// That tag, as it stood on the wire.
    tag: Option<[u8; VLAN_TAG]>,
    /// The place was too small for it.
    cut: bool,
    super_frame: bool,
    /// Where the checksum begins to count and where, from there, it belongs.
    checksum: Option<(usize, usize)>,
}

impl<'r> Received<'r> {
    /// Reads a place of the ring (`struct tpacket2_hdr`, host byte order). None if its lengths lead out of it.
    ///
    /// ```text
    ///  0 status 4 | 4 len 4 | 8 snaplen 4 | 12 mac 2 | 14 net 2 | 16 sec 4 | 20 nsec 4 | 24 TCI 2 | 26 TPID 2
    /// ```
    fn parse(place: &'r [u8], flags: u32) -> Option<Self> {
        let half = |at: usize| place.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes);
        let word = |at: usize| place.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let (len, captured, start) = (word(4)?, word(8)?, usize::from(half(12)?));
        let octets = place.get(start..start.checked_add(captured as usize)?)?;
        let header = place.get(start.checked_sub(VIRTIO_HEADER)?..start)?;
        let tag = (flags & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            // Without TPID_VALID (before Linux 3.13) it was always an 802.1Q tag.
            let tpid = if flags & libc::TP_STATUS_VLAN_TPID_VALID != 0 { half(26) } else { None };
            let [a, b] = tpid.unwrap_or(libc::ETH_P_8021Q as u16).to_be_bytes();
            let [c, d] = half(24).unwrap_or(0).to_be_bytes();
            [a, b, c, d]
        });
        let from_header = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        Some(Self {
            octets,
            tag,
            cut: captured < len,
            super_frame: header[1] != 0,
            checksum: (header[0] & VIRTIO_NEEDS_CHECKSUM != 0).then(|| (from_header(6), from_header(8))),
        })
    }

    /// Writes the frame as it would have stood on a wire. `frame` is as long as octets and tag together. Says
    /// whether a checksum had to be completed.
    fn write(&self, frame: &mut [u8]) -> bool {
        let Some(tag) = self.tag else {
            frame.copy_from_slice(self.octets);
            return self.complete_checksum(frame, 0);
        };
        let (addresses, rest) = self.octets.split_at(ETHERNET_HEADER - 2);
        frame[..12].copy_from_slice(addresses);
        frame[12..16].copy_from_slice(&tag);
        frame[16..].copy_from_slice(rest);
        self.complete_checksum(frame, VLAN_TAG)
    }

    fn complete_checksum(&self, frame: &mut [u8], shift: usize) -> bool {
        let Some((start, offset)) = self.checksum else { return false };
        let Some(counted) = frame.get_mut(start + shift..) else { return false };
        if offset + 2 > counted.len() {
            return false;
        }
        let sum = internet_checksum(counted);
        counted[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }
}

/// The Internet checksum (RFC 1071) over octets in which the pseudo-header's sum already stands in the checksum's
/// place. Never 0, which in UDP means none.
fn internet_checksum(octets: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    for pair in octets.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        other => other,
    }
}

/// Maps the receive ring of a socket that is not yet bound.
fn ring(socket: &OwnedFd, place_octets: usize, places: usize) -> io::Result<Mapping> {
    let set = |name, value: libc::c_int| packet::set_option(socket, libc::SOL_PACKET, name, &value);
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
    // Needs Linux 4.20. What we send must not come back to us.
    set(libc::PACKET_IGNORE_OUTGOING, 1)?;
    set(libc::PACKET_VNET_HDR, 1)?;
    let request = libc::tpacket_req {
        tp_block_size: BLOCK_OCTETS as libc::c_uint,
        tp_block_nr: (RING_OCTETS / BLOCK_OCTETS) as libc::c_uint,
        tp_frame_size: place_octets as libc::c_uint,
        tp_frame_nr: places as libc::c_uint,
    };
    packet::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    Mapping::shared(socket.as_raw_fd(), 0, RING_OCTETS)
}

/// The socket that sends, and never receives.
fn sender(interface_index: u32) -> io::Result<OwnedFd> {
    let socket = packet::open()?;
    packet::set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1 as &libc::c_int)?;
    packet::bind(&socket, interface_index, 0)?;
    Ok(socket)
}

impl Port for AfPacket {
    fn receive(&mut self, pool: &mut Pool, burst: &mut Burst) {
        for turn in 0..BURST_FRAMES {
            if burst.is_full() {
                break;
            }
            if !self.receive_one(pool, burst) {
                self.idle = if turn == 0 { self.idle + 1 } else { 0 };
                break;
            }
        }
        if self.idle >= IDLE_TURNS {
            self.idle = 0;
            packet::clear_error(self.receiver.as_raw_fd());
        }
    }

    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst) {
        let slots: ArrayVec<Slot, BURST_FRAMES> = burst.drain().collect();
        let mut vectors = ArrayVec::<libc::iovec, BURST_FRAMES>::new();
        for slot in &slots {
            let frame = pool.frame(slot);
            if port::may_leave(frame, self.mtu, &mut self.counters) {
                vectors
                    .push(libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() });
            }
        }
        let mut messages = ArrayVec::<libc::mmsghdr, BURST_FRAMES>::new();
        for vector in &mut vectors {
            // SAFETY: all zero is a valid message: no address, no control data.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_iov = ptr::from_mut(vector);
            message.msg_hdr.msg_iovlen = 1;
            messages.push(message);
        }
        self.send_all(&mut messages);
        for slot in slots {
            pool.give(slot);
        }
    }

    fn housekeep(&mut self, _pool: &mut Pool) {}

    fn poll_descriptors(&self) -> &[RawFd] {
        &self.descriptors
    }

    fn counters(&mut self) -> PortCounters {
        // SAFETY: two counters, any value of which is valid.
        let statistics: io::Result<libc::tpacket_stats> =
            unsafe { packet::option(&self.receiver, libc::SOL_PACKET, libc::PACKET_STATISTICS) };
        if let Ok(statistics) = statistics {
            // The kernel counts from zero again after each question.
            self.counters.rx_kernel_dropped += u64::from(statistics.tp_drops);
        }
        self.counters
    }

    fn description(&self) -> &str {
        "af_packet tpacket_v2"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: usize = 76;

    /// A place of the ring with a frame in it.
    fn place(frame: &[u8], len: u32, tag: (u16, u16), header: [u8; VIRTIO_HEADER]) -> Vec<u8> {
        let mut octets = vec![0; 2048];
        octets[4..8].copy_from_slice(&len.to_ne_bytes());
        octets[8..12].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        octets[12..14].copy_from_slice(&(START as u16).to_ne_bytes());
        octets[24..26].copy_from_slice(&tag.0.to_ne_bytes());
        octets[26..28].copy_from_slice(&tag.1.to_ne_bytes());
        octets[START - VIRTIO_HEADER..START].copy_from_slice(&header);
        octets[START..START + frame.len()].copy_from_slice(frame);
        octets
    }

    fn written(received: &Received<'_>) -> (Vec<u8>, bool) {
        let mut frame = vec![0; received.octets.len() + if received.tag.is_some() { VLAN_TAG } else { 0 }];
        let completed = received.write(&mut frame);
        (frame, completed)
    }

    #[test]
    fn a_vlan_tag_is_put_back() {
        let frame: Vec<u8> = (0..60).collect();
        let valid = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID;
        let with_type = valid | libc::TP_STATUS_VLAN_TPID_VALID;
        for (flags, tag) in [
            (libc::TP_STATUS_USER, None),
            (valid, Some([0x81, 0x00, 0xc0, 0x05])),
            (with_type, Some([0x88, 0xa8, 0xc0, 0x05])),
        ] {
            let place = place(&frame, 60, (0xc005, 0x88a8), [0; VIRTIO_HEADER]);
            let received = Received::parse(&place, flags).unwrap();
            let mut expected = frame.clone();
            expected.splice(12..12, tag.into_iter().flatten());
            assert_eq!(written(&received), (expected, false));
        }
    }

    #[test]
    fn an_unfilled_checksum_is_completed_also_behind_a_tag() {
        // A UDP datagram of 4 octets over IPv4, 10.0.0.1:1 to 10.0.0.2:2; the checksum's place holds the sum of the
        // pseudo-header (addresses, protocol 17, length 12), as the kernel leaves it.
        let mut frame = vec![0; 14 + 20];
        let pseudo: u16 = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + 12;
        frame.extend([0, 1, 0, 2, 0, 12]);
        frame.extend(pseudo.to_be_bytes());
        frame.extend([0xde, 0xad, 0xbe, 0xef]);
        let sum = !(u32::from(pseudo) + 1 + 2 + 12 + 0xdead + 0xbeef);
        let expected = (sum as u16).wrapping_sub(1); // one carry, complemented
        let mut header = [0; VIRTIO_HEADER];
        header[0] = VIRTIO_NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&34u16.to_ne_bytes());
        header[8..10].copy_from_slice(&6u16.to_ne_bytes());
        let place = place(&frame, frame.len() as u32, (5, 0x8100), header);
        for (flags, shift) in
            [(libc::TP_STATUS_USER, 0), (libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID, VLAN_TAG)]
        {
            let (frame, completed) = written(&Received::parse(&place, flags).unwrap());
            assert!(completed);
            assert_eq!(frame[40 + shift..42 + shift], expected.to_be_bytes());
        }
    }

    #[test]
    fn a_checksum_beyond_the_frame_is_left_alone() {
        let frame = [0; 60];
        for (start, offset) in [(60u16, 0u16), (61, 0), (59, 0), (34, 25), (0xffff, 0xffff)] {
            let mut header = [0; VIRTIO_HEADER];
            header[0] = VIRTIO_NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&start.to_ne_bytes());
            header[8..10].copy_from_slice(&offset.to_ne_bytes());
            let place = place(&frame, 60, (0, 0), header);
            let received = Received::parse(&place, libc::TP_STATUS_USER).unwrap();
            assert_eq!(written(&received), (frame.to_vec(), false), "{start} {offset}");
        }
    }

    #[test]
    fn checksums_of_odd_length_and_of_nothing() {
        for (octets, sum) in [
            (&[][..], 0xffff),
            (&[0, 0], 0xffff),
            (&[0xff, 0xff], 0xffff),
            (&[0x12], !0x1200),
            (&[0x12, 0x34, 0x56], !(0x1234 + 0x5600)),
            (&[0xff, 0xff, 0x00, 0x01], !1),
        ] {
            assert_eq!(internet_checksum(octets), sum, "{octets:x?}");
        }
    }

    #[test]
    fn cut_super_and_impossible_frames_are_told() {
        let frame = [0; 60];
        assert!(Received::parse(&place(&frame, 61, (0, 0), [0; 10]), 1).unwrap().cut);
        let mut header = [0; VIRTIO_HEADER];
        header[1] = 1;
        assert!(Received::parse(&place(&frame, 60, (0, 0), header), 1).unwrap().super_frame);
        let mut beyond = place(&frame, 60, (0, 0), [0; 10]);
        beyond[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(Received::parse(&beyond, 1), None);
        beyond[8..12].copy_from_slice(&60u32.to_ne_bytes());
        for start in [0u16, 9, 2000, u16::MAX] {
            beyond[12..14].copy_from_slice(&start.to_ne_bytes());
            assert_eq!(Received::parse(&beyond, 1), None, "{start}");
        }
        for cut in 0..START {
            assert_eq!(Received::parse(&place(&frame, 60, (0, 0), [0; 10])[..cut], 1), None, "{cut}");
        }
    }
}
