//! Sending: packets that go to one address one after the other, all of one length but a shorter last, are one message
//! which the kernel cuts (UDP_SEGMENT), and all messages are one `sendmmsg`.
//!
//! ```text
//!  packets   A 1500 | A 1500 | A 80 | A 80 | B 80 | A 80
//!  messages  [ A 1500 . 1500 . 80 ] [ A 80 ] [ B 80 ] [ A 80 ]
//! ```

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use arrayvec::ArrayVec;

use super::address::SockAddr;
use super::ancillary::{Ancillary, SENT};
use super::counters::UdpCounters;
use crate::messages;

/// The most packets of one call.
pub const SEND_PACKETS: usize = 64;
/// Octets of the longest head of a packet.
pub const HEAD_OCTETS: usize = 56;
/// The most packets of one message: what Linux has always taken.
const MOST_SEGMENTS: usize = 64;
/// The most octets of one message: an IPv4 packet is no longer than 65,535 with its headers.
const MOST_OCTETS: usize = 65_507;

/// Source of a packet: the address and interface by which it leaves. The system's routes decide what is not set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Source {
    /// Source address. Routes that depend on the source are found with it.
    pub address: Option<IpAddr>,
    /// Index of the interface, whose routes alone count; 0: any.
    pub interface: u32,
}

impl Source {
    /// True if the system decides everything.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

/// A packet to be sent: its payload is the head and then the body, wherever that lies.
#[derive(Clone, Debug)]
pub struct Outgoing<'b> {
    /// Destination.
    pub to: SocketAddr,
    /// Source address and interface.
    pub source: Source,
    /// Its differentiated services code point, 6 bits; 0 as without.
    pub dscp: u8,
    /// The first octets.
    pub head: ArrayVec<u8, HEAD_OCTETS>,
    /// The others.
    pub body: &'b [u8],
}

impl Outgoing<'_> {
    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

/// Outcome of the first message that the kernel did not take.
enum Refused {
    /// It is counted; the next may fare better.
    Dropped,
    /// It was several packets, and the kernel does not cut them: each is to go by itself.
    Segments,
    /// The socket is full: so it is for all that follow.
    Full,
}

/// The sending side of a socket.
#[derive(Debug)]
pub(super) struct Sender {
    /// The socket is one of IPv6.
    pub(super) six: bool,
    /// Whether packets are sent together.
    pub(super) segmentation: bool,
}

impl Sender {
    /// Sends packets in order; what the kernel does not take is counted. Never blocks. At most two system calls a packet.
    pub(super) fn send(&mut self, socket: RawFd, packets: &[Outgoing<'_>], counters: &mut UdpCounters) {
        for packets in packets.chunks(SEND_PACKETS) {
            let dealt_with = self.send_some(socket, packets, self.segmentation, counters);
            let Some(refused) = packets.get(dealt_with..).filter(|rest| !rest.is_empty()) else { continue };
            // Was it the cutting, or the packets? One by one they tell.
            let sent = counters.tx_packets;
            self.send_some(socket, &refused[..1], false, counters);
            self.segmentation = counters.tx_packets == sent;
            self.send_some(socket, &refused[1..], false, counters);
        }
    }

    /// Sends at most [`SEND_PACKETS`] packets, and says how many were dealt with: all, or those in front of the message
    /// that the kernel did not cut.
    fn send_some(
        &self,
        socket: RawFd,
        packets: &[Outgoing<'_>],
        segmentation: bool,
        counters: &mut UdpCounters,
    ) -> usize {
        let mut vectors = ArrayVec::<libc::iovec, { 2 * SEND_PACKETS }>::new();
        for packet in packets {
            for octets in [&packet.head[..], packet.body] {
                let (base, len) = (octets.as_ptr().cast_mut().cast(), octets.len());
                vectors.push(libc::iovec { iov_base: base, iov_len: len });
            }
        }
        let mut groups = ArrayVec::<Group, SEND_PACKETS>::new();
        let mut grouped = 0;
        while grouped < packets.len() {
            let most = if segmentation { MOST_SEGMENTS } else { 1 };
            let group = Group::first_of(&packets[grouped..], grouped, most, self.six);
            grouped += group.packets;
            groups.push(group);
        }
        let mut headers = ArrayVec::<libc::mmsghdr, SEND_PACKETS>::new();
        for group in &mut groups {
            // SAFETY: all zero is a valid message.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            let header = &mut message.msg_hdr;
            header.msg_name = group.name.as_ptr().cast_mut().cast();
            header.msg_namelen = group.name_octets as libc::socklen_t;
            header.msg_iov = vectors[2 * group.first..].as_mut_ptr();
            header.msg_iovlen = (2 * group.packets) as _;
            if group.data.len() > 0 {
                header.msg_controllen = group.data.len() as _;
                header.msg_control = group.data.as_mut_ptr().cast();
            }
            headers.push(message);
        }
        let mut sent = 0;
        while sent < headers.len() {
            let rest = &mut headers[sent..];
            // SAFETY: the messages lead to names, ancillary data and vectors that live until the end of this function, and
            // those to octets that are borrowed for as long.
            let error = match unsafe { messages::send(socket, rest) } {
                Ok(taken) => {
                    for (message, group) in rest.iter().zip(&groups[sent..]).take(taken) {
                        counters.tx_packets += group.packets as u64;
                        counters.tx_octets += u64::from(message.msg_len);
                    }
                    sent += taken;
                    continue;
                }
                Err(error) => error,
            };
            match classify(&error, groups[sent].packets as u64, counters) {
                Refused::Dropped => sent += 1,
                Refused::Segments => return groups[sent].first,
                Refused::Full => {
                    counters.tx_dropped +=
                        groups[sent..].iter().map(|group| group.packets as u64).sum::<u64>();
                    break;
                }
            }
        }
        packets.len()
    }
}

/// Packets that are one message.
struct Group {
    first: usize,
    packets: usize,
    name: SockAddr,
    name_octets: usize,
    data: Ancillary<SENT>,
}

impl Group {
    /// The longest group at the beginning of `packets`, which are not none, of at most `most`.
    fn first_of(packets: &[Outgoing<'_>], first: usize, most: usize, six: bool) -> Self {
        let Outgoing { to, source, dscp, .. } = packets[0];
        let segment = packets[0].len();
        let (mut count, mut octets, mut last) = (1, segment, segment);
        for packet in packets.iter().take(most).skip(1) {
            let len = packet.len();
            let fits = last == segment && len <= segment && len > 0 && octets + len <= MOST_OCTETS;
            if !fits || (packet.to, packet.source, packet.dscp) != (to, source, dscp) {
                break;
            }
            (count, octets, last) = (count + 1, octets + len, len);
        }
        let mut data = Ancillary::EMPTY;
        if count > 1 {
            data.push_segment(segment as u16);
        }
        if dscp != 0 {
            data.push_dscp(dscp, to.is_ipv6());
        }
        if !source.is_any() {
            data.push_source(source, to.is_ipv6());
        }
        let (name, name_octets) = SockAddr::new(to, six);
        Self { first, packets: count, name, name_octets, data }
    }
}

/// Counts a message of so many packets that the kernel refused.
fn classify(error: &io::Error, packets: u64, counters: &mut UdpCounters) -> Refused {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => return Refused::Full,
        // EIO: the interface computes no checksums, or IPsec wants whole packets. EINVAL: a kernel before 4.18. EMSGSIZE, to
        // some kernels EINVAL: longer than the MTU, but the last may be shorter.
        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if packets > 1 => return Refused::Segments,
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => counters.tx_dropped += packets,
        Some(libc::EMSGSIZE) => counters.tx_too_long += packets,
        _ => counters.tx_unreachable += packets,
    }
    Refused::Dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(packets: &[(&str, usize, u8)]) -> Vec<usize> {
        let octets = vec![0; 65_535];
        let packets: Vec<_> = packets
            .iter()
            .map(|(to, len, dscp)| Outgoing {
                to: to.parse().unwrap(),
                source: Source::default(),
                dscp: *dscp,
                head: ArrayVec::new(),
                body: &octets[..*len],
            })
            .collect();
        let mut found = vec![];
        let mut at = 0;
        while at < packets.len() {
            let group = Group::first_of(&packets[at..], at, MOST_SEGMENTS, false);
            assert_eq!(group.first, at);
            found.push(group.packets);
            at += group.packets;
        }
        found
    }

    #[test]
    fn packets_go_together_as_the_kernel_takes_them() {
        const A: &str = "192.0.2.1:1";
        const B: &str = "192.0.2.1:2";
        for (packets, expected) in [
            (
                &[(A, 1500, 0), (A, 1500, 0), (A, 80, 0), (A, 80, 0), (B, 80, 0), (A, 80, 0)][..],
                &[3, 1, 1, 1][..],
            ),
            (&[(A, 80, 0), (A, 81, 0)], &[1, 1]),
            (&[(A, 80, 0), (A, 80, 46)], &[1, 1]),
            (&[(A, 0, 0), (A, 0, 0), (A, 5, 0), (A, 0, 0)], &[1, 1, 1, 1]),
            (&[(A, 1486, 0); 50], &[44, 6]),
            (&[(A, 1023, 0); 65], &[64, 1]),
            (&[(A, 65_507, 0), (A, 1, 0)], &[1, 1]),
        ] {
            assert_eq!(groups(packets), expected, "{packets:?}");
        }
    }
}
