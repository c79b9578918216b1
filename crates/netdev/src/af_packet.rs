//! AF_PACKET: a memory-mapped receive ring (TPACKET_V2) and `sendmmsg`. Works on every interface and kernel.
//!
//! Frames are copied out of the ring, so that it never waits for the worker. Two sockets: the ring's says with
//! each frame what offloads left undone (PACKET_VNET_HDR), which on a sending socket would want the same in front
//! of each frame.
//!
//! Changes that the kernel makes to frames before they get here, and the remedies:
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

mod received;

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arrayvec::ArrayVec;
use nix::sys::socket::{getsockopt, setsockopt};

use crate::burst::{BURST_FRAMES, Burst};
use crate::interface::Interface;
use crate::mapping::Mapping;
use crate::messages;
use crate::packet_socket as packet;
use crate::passed_on::{self, PassedAfPacket, PassedPort};
use crate::pool::{HEADROOM, Pool, Slot};
use crate::port::{self, ETHERNET_HEADER, Port, PortCounters, PortError};
use received::Received;

mod option {
    //! Options that nix has no name for; its macro makes them.
    #![allow(unreachable_pub)]
    use libc::{c_int, tpacket_req, tpacket_stats};
    use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

    sockopt_impl!(Version, SetOnly, libc::SOL_PACKET, libc::PACKET_VERSION, c_int);
    sockopt_impl!(IgnoreOutgoing, SetOnly, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, bool);
    sockopt_impl!(VnetHeader, SetOnly, libc::SOL_PACKET, libc::PACKET_VNET_HDR, bool);
    sockopt_impl!(QdiscBypass, SetOnly, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, bool);
    sockopt_impl!(ReceiveRing, SetOnly, libc::SOL_PACKET, libc::PACKET_RX_RING, tpacket_req);
    sockopt_impl!(Statistics, GetOnly, libc::SOL_PACKET, libc::PACKET_STATISTICS, tpacket_stats);
}

/// Octets in front of a frame in its place of the ring, at most: header 52, Ethernet 16, rounded up, and the
/// offload header.
const PLACE_OVERHEAD: usize = 96;
/// Octets of the receive ring.
pub(crate) const RING_OCTETS: usize = 8 << 20;
/// Octets of one of its blocks, which the kernel allocates each in one piece.
pub(crate) const BLOCK_OCTETS: usize = 128 << 10;
/// Retries at the driver within one burst.
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
            });
        }
        let failed = |action: &'static str| {
            move |source| PortError::System {
                interface: interface.name().into(),
                action: action.into(),
                source,
            }
        };
        let place_octets = place_octets_for(mtu);
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

    /// Goes on with a port of the program before this one: what it has received since waits in the ring.
    ///
    /// # Errors
    /// If it is on another interface, or the kernel refuses.
    pub fn go_on(passed: &PassedAfPacket, interface: &Interface, pool: &Pool) -> io::Result<Self> {
        let PassedAfPacket { descriptors: [receiver, sender], place_octets, next, mtu, ref counters } =
            *passed;
        let places = RING_OCTETS.checked_div(place_octets).unwrap_or(0);
        let fits = place_octets == place_octets_for(mtu) && next < places;
        let counters = counters.as_slice().try_into().map(PortCounters::from_values);
        let (true, true, true, Ok(counters)) =
            (fits, mtu == interface.mtu(), port::longest_received(mtu) <= pool.room(), counters)
        else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its port is another one"));
        };
        let (receiver, sender) = (passed_on::take(receiver)?, passed_on::take(sender)?);
        Ok(Self {
            descriptors: [receiver.as_raw_fd()],
            ring: Mapping::shared(receiver.as_raw_fd(), 0, RING_OCTETS)?,
            receiver,
            sender,
            place_octets,
            places,
            next,
            idle: 0,
            mtu,
            counters,
        })
    }

    /// Takes the frame at the next place of the ring, if the kernel has put one there. False if it has not.
    fn receive_one(&mut self, pool: &mut Pool, burst: &mut Burst) -> bool {
        self.visit(|port, received| port.take(received, pool, burst))
    }

    /// Hands over what waits in the ring, at most a burst, each frame with the moment at which the kernel got it, since 1970. Returns the number
    /// of places looked at. For programs that listen alone: frames need no pool, and the kernel's time is exact however late they are read.
    pub fn listen(&mut self, take: &mut dyn FnMut(Duration, &[u8])) -> usize {
        let mut frame = Vec::new();
        let mut listened = |port: &mut Self, received: &Received<'_>| {
            if received.super_frame {
                port.counters.rx_super_frames += 1;
            } else if received.cut || received.len() < ETHERNET_HEADER {
                port.counters.rx_too_long += 1;
            } else {
                frame.resize(received.len(), 0);
                port.counters.rx_checksums_completed += u64::from(received.write(&mut frame));
                port.counters.rx_frames += 1;
                port.counters.rx_octets += frame.len() as u64;
                take(received.time(), &frame);
            }
        };
        let looked_at = (0..BURST_FRAMES).take_while(|_| self.visit(&mut listened)).count();
        if looked_at == 0 {
            packet::clear_error(&self.receiver);
        }
        looked_at
    }

    /// Shows the frame at the next place of the ring, if the kernel has put one there, and gives the place back. False if it has not.
    fn visit(&mut self, take: impl FnOnce(&mut Self, &Received<'_>)) -> bool {
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
            Some(received) => take(self, &received),
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
        let len = received.len();
        if received.cut || len > pool.room() || len < ETHERNET_HEADER {
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
    fn send_all(&mut self, all: &mut [libc::mmsghdr]) {
        let (mut sent, mut retries) = (0, 0);
        while sent < all.len() {
            let rest = &mut all[sent..];
            // SAFETY: the messages point to iovecs and those to frames that live until transmit() returns.
            let error = match unsafe { messages::send(self.sender.as_raw_fd(), rest) } {
                Ok(taken) => {
                    for message in &rest[..taken] {
                        self.counters.tx_frames += 1;
                        self.counters.tx_octets += u64::from(message.msg_len);
                    }
                    sent += taken;
                    continue;
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
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

/// Octets of a place of the ring that holds what an interface of this MTU receives.
const fn place_octets_for(mtu: u32) -> usize {
    (port::longest_received(mtu) + PLACE_OVERHEAD).next_power_of_two()
}

/// Maps the receive ring of a socket that is not yet bound.
fn ring(socket: &OwnedFd, place_octets: usize, places: usize) -> io::Result<Mapping> {
    setsockopt(socket, option::Version, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
    // Needs Linux 4.20. What we send must not come back to us.
    setsockopt(socket, option::IgnoreOutgoing, &true)?;
    setsockopt(socket, option::VnetHeader, &true)?;
    let request = libc::tpacket_req {
        tp_block_size: BLOCK_OCTETS as libc::c_uint,
        tp_block_nr: (RING_OCTETS / BLOCK_OCTETS) as libc::c_uint,
        tp_frame_size: place_octets as libc::c_uint,
        tp_frame_nr: places as libc::c_uint,
    };
    setsockopt(socket, option::ReceiveRing, &request)?;
    Mapping::shared(socket.as_raw_fd(), 0, RING_OCTETS)
}

/// The socket that sends, and never receives.
fn sender(interface_index: u32) -> io::Result<OwnedFd> {
    let socket = packet::open()?;
    setsockopt(&socket, option::QdiscBypass, &true)?;
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
            packet::clear_error(&self.receiver);
        }
    }

    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = self.counters.tx_frames;
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
        (self.counters.tx_frames - before) as usize
    }

    fn housekeep(&mut self, _pool: &mut Pool) {}

    fn poll_descriptors(&self) -> &[RawFd] {
        &self.descriptors
    }

    fn counters(&mut self) -> PortCounters {
        if let Ok(statistics) = getsockopt(&self.receiver, option::Statistics) {
            // The kernel counts from zero again after each question.
            self.counters.rx_kernel_dropped += u64::from(statistics.tp_drops);
        }
        self.counters
    }

    fn description(&self) -> &str {
        "af_packet tpacket_v2"
    }

    fn pass_on(&mut self) -> Option<PassedPort> {
        Some(PassedPort::AfPacket(PassedAfPacket {
            descriptors: [self.receiver.as_raw_fd(), self.sender.as_raw_fd()],
            place_octets: self.place_octets,
            next: self.next,
            mtu: self.mtu,
            counters: self.counters().values().to_vec(),
        }))
    }
}
