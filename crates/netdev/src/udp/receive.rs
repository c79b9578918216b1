//! Receiving: one `recvmmsg` takes what waits, up to [`MESSAGES`] messages, and each of them may be many packets of one
//! sender that the kernel has merged (UDP_GRO). Packets are then looked at where they lie.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::{ptr, slice};

use super::address::{NAME_OCTETS, SockAddr};
use super::ancillary::{Ancillary, RECEIVED};
use super::counters::UdpCounters;
use crate::mapping::Mapping;

/// Messages of one system call.
const MESSAGES: usize = 32;
/// Octets of the longest message, merged or not.
const MESSAGE_OCTETS: usize = 1 << 16;
/// From one message's place to the next: not a power of two, so that their beginnings share no cache set.
const STRIDE: usize = MESSAGE_OCTETS + 5 * 64;

/// A packet that was received.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'u> {
    /// Its source address, which may be forged. Never a mapped IPv4 address.
    pub from: SocketAddr,
    /// The UDP payload.
    pub octets: &'u [u8],
}

/// Memory for received messages.
#[derive(Debug)]
pub(super) struct Inbox {
    memory: Mapping,
    places: Box<MessageBuffers>,
    /// Messages that the kernel has filled, and the one whose packets are taken next.
    filled: usize,
    current: usize,
    /// The rest of the message that is being taken.
    rest: Option<Rest>,
}

/// Buffers that the kernel fills beside the octets. `headers` point to the others.
#[derive(Debug)]
struct MessageBuffers {
    headers: [libc::mmsghdr; MESSAGES],
    vectors: [libc::iovec; MESSAGES],
    names: [SockAddr; MESSAGES],
    data: [Ancillary<RECEIVED>; MESSAGES],
}

// SAFETY: all pointers lead into the box itself and into the mapping, which go wherever their owner goes.
unsafe impl Send for Inbox {}

#[derive(Clone, Copy, Debug)]
struct Rest {
    from: SocketAddr,
    /// Octets of each packet but the last.
    segment: usize,
    start: usize,
    end: usize,
}

impl Inbox {
    /// Memory for all messages.
    pub(super) fn new() -> io::Result<Self> {
        let memory = Mapping::anonymous(MESSAGES * STRIDE)?;
        let vectors = std::array::from_fn(|message| libc::iovec {
            // SAFETY: the mapping has a place for each message.
            iov_base: unsafe { memory.base().add(message * STRIDE) }.cast(),
            iov_len: MESSAGE_OCTETS,
        });
        let mut places = Box::new(MessageBuffers {
            // SAFETY: all zero is a valid message without an address, octets or ancillary data.
            headers: unsafe { mem::zeroed() },
            vectors,
            names: [SockAddr::EMPTY; MESSAGES],
            data: [Ancillary::EMPTY; MESSAGES],
        });
        let MessageBuffers { headers, vectors, names, data } = &mut *places;
        for (((header, vector), name), data) in headers.iter_mut().zip(vectors).zip(names).zip(data) {
            header.msg_hdr.msg_iov = ptr::from_mut(vector);
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = name.as_mut_ptr().cast();
            header.msg_hdr.msg_control = data.as_mut_ptr().cast();
        }
        // All of them are to be made ready once.
        Ok(Self { memory, places, filled: MESSAGES, current: MESSAGES, rest: None })
    }

    /// Whether every packet was taken.
    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_none() && self.current == self.filled
    }

    /// Asks the kernel for messages, once, if every packet was taken. Never blocks. Returns whether there may be more than
    /// it gave.
    pub(super) fn fill(&mut self, socket: RawFd) -> bool {
        if !self.is_empty() {
            return true;
        }
        // The kernel has overwritten these lengths with those it found.
        for header in &mut self.places.headers[..self.filled] {
            header.msg_hdr.msg_namelen = NAME_OCTETS as libc::socklen_t;
            header.msg_hdr.msg_controllen = RECEIVED as _;
        }
        // SAFETY: each header leads to a name, a vector, ancillary data and octets of the lengths given with them, which
        // live as long as this value; nobody looks at them meanwhile.
        let received = unsafe {
            libc::recvmmsg(
                socket,
                self.places.headers.as_mut_ptr(),
                MESSAGES as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        // Nothing waits, or a signal came: nothing was received.
        self.filled = usize::try_from(received).unwrap_or(0).min(MESSAGES);
        self.current = 0;
        self.filled == MESSAGES
    }

    /// The next packet, if one is left.
    pub(super) fn next(&mut self, counters: &mut UdpCounters) -> Option<Packet<'_>> {
        while self.rest.is_none() {
            if self.current == self.filled {
                return None;
            }
            self.rest = self.message(self.current, counters);
            self.current += 1;
        }
        let Rest { from, segment, start, end } = self.rest?;
        let len = segment.min(end - start);
        // A packet without octets is one packet, too.
        self.rest = (start + len < end).then_some(Rest { from, segment, start: start + len, end });
        counters.rx_packets += 1;
        counters.rx_octets += len as u64;
        // SAFETY: `end` is within the place of one message, and so in the mapping; the kernel writes there in fill() only,
        // which wants the borrow that the packet holds.
        let octets = unsafe { slice::from_raw_parts(self.memory.base().add(start), len) };
        Some(Packet { from, octets })
    }

    /// The packets of a message; `None`, and counted, if it is not whole.
    fn message(&self, message: usize, counters: &mut UdpCounters) -> Option<Rest> {
        let header = &self.places.headers[message];
        let cut = header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
        let (len, start) = (header.msg_len as usize, message * STRIDE);
        let Some(from) = self.places.names[message].address().filter(|_| !cut && len <= MESSAGE_OCTETS)
        else {
            counters.rx_truncated += 1;
            return None;
        };
        let controls: usize = header.msg_hdr.msg_controllen as _;
        let segment = self.places.data[message].segment(controls);
        Some(Rest { from, segment: segment.unwrap_or(len).max(1), start, end: start + len })
    }
}
