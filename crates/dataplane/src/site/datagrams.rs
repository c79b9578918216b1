//! QUIC packets on their way from the worker to the manager: a ring of octets.
//!
//! ```text
//!  payload's octets 2 LE | family 1 | address 16 | scope 4 LE | port 2 LE | payload
//! ```
//!
//! Of octets and not of packets: the longest is a probe of the path MTU, and a flood of short ones must not cost the
//! worker a copy of the longest each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rtrb::{Consumer, Producer, RingBuffer};

/// Octets of the longest UDP payload that the ring takes: a probe on a path of jumbo frames.
pub const DATAGRAM_OCTETS: usize = 9216;
/// Octets that can wait.
const RING_OCTETS: usize = 512 * 1024;
const HEADER_OCTETS: usize = 25;

/// The worker's end.
#[derive(Debug)]
pub struct DatagramProducer(Producer<u8>);

/// The manager's end.
#[derive(Debug)]
pub struct DatagramConsumer(Consumer<u8>);

/// There is no room for this packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Both ends.
pub fn datagrams() -> (DatagramProducer, DatagramConsumer) {
    let (producer, consumer) = RingBuffer::new(RING_OCTETS);
    (DatagramProducer(producer), DatagramConsumer(consumer))
}

impl DatagramProducer {
    /// Takes a packet: where it came from, and its UDP payload. One copy, no allocation.
    ///
    /// # Errors
    /// If there is no room, or it is longer than [`DATAGRAM_OCTETS`].
    pub fn push(&mut self, from: SocketAddr, payload: &[u8]) -> Result<(), Full> {
        let octets = u16::try_from(payload.len()).map_err(|_| Full)?;
        if payload.len() > DATAGRAM_OCTETS {
            return Err(Full);
        }
        let header = encode(octets, from);
        let mut chunk = self.0.write_chunk(HEADER_OCTETS + payload.len()).map_err(|_| Full)?;
        let (first, second) = chunk.as_mut_slices();
        let (head, body) = header.split_at(first.len().min(HEADER_OCTETS));
        // The chunk wraps inside of the header, or behind it.
        if body.is_empty() {
            let (front, rest) = first.split_at_mut(HEADER_OCTETS);
            front.copy_from_slice(head);
            let (here, there) = payload.split_at(rest.len());
            rest.copy_from_slice(here);
            second.copy_from_slice(there);
        } else {
            first.copy_from_slice(head);
            let (front, rest) = second.split_at_mut(body.len());
            front.copy_from_slice(body);
            rest.copy_from_slice(payload);
        }
        chunk.commit_all();
        Ok(())
    }
}

impl DatagramConsumer {
    /// The next packet: where it came from, and how many octets of `into` it has. What does not fit there is dropped
    /// with the end cut off, as a socket would.
    pub fn pop(&mut self, into: &mut [u8]) -> Option<(SocketAddr, usize)> {
        let mut header = [0; HEADER_OCTETS];
        self.0.pop_entire_slice(&mut header).ok()?;
        let (octets, from) = decode(&header);
        // Committed together with the header.
        let chunk = self.0.read_chunk(octets).ok()?;
        let (first, second) = chunk.as_slices();
        let taken = octets.min(into.len());
        let here = taken.min(first.len());
        into[..here].copy_from_slice(&first[..here]);
        into[here..taken].copy_from_slice(&second[..taken - here]);
        chunk.commit_all();
        Some((from, taken))
    }
}

fn encode(octets: u16, from: SocketAddr) -> [u8; HEADER_OCTETS] {
    let mut header = [0; HEADER_OCTETS];
    header[..2].copy_from_slice(&octets.to_le_bytes());
    match from {
        SocketAddr::V4(from) => {
            header[2] = 4;
            header[3..7].copy_from_slice(&from.ip().octets());
        }
        SocketAddr::V6(from) => {
            header[2] = 6;
            header[3..19].copy_from_slice(&from.ip().octets());
            header[19..23].copy_from_slice(&from.scope_id().to_le_bytes());
        }
    }
    header[23..].copy_from_slice(&from.port().to_le_bytes());
    header
}

fn decode(header: &[u8; HEADER_OCTETS]) -> (usize, SocketAddr) {
    let [l0, l1, family, rest @ ..] = *header;
    let [a, b, c, d, ..] = rest;
    let [.., s0, s1, s2, s3, p0, p1] = rest;
    let octets = usize::from(u16::from_le_bytes([l0, l1]));
    let port = u16::from_le_bytes([p0, p1]);
    if family == 4 {
        return (octets, SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port));
    }
    let mut address = [0; 16];
    address.copy_from_slice(&rest[..16]);
    let scope = u32::from_le_bytes([s0, s1, s2, s3]);
    (octets, SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(address), port, 0, scope)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_as_they_went_in_at_every_wrap() {
        let (producer, consumer) = RingBuffer::new(97);
        let (mut producer, mut consumer) = (DatagramProducer(producer), DatagramConsumer(consumer));
        let four: SocketAddr = "192.0.2.7:7787".parse().expect("an address");
        let six = SocketAddr::V6(SocketAddrV6::new("fe80::1:2".parse().expect("an address"), 65535, 0, 7));
        let mut into = [0; 64];
        for turn in 0..500_usize {
            let from = if turn % 3 == 0 { four } else { six };
            let payload: Vec<u8> = (0..turn % 40).map(|octet| (octet + turn) as u8).collect();
            assert_eq!(producer.push(from, &payload), Ok(()), "{turn}");
            assert_eq!(consumer.pop(&mut into), Some((from, payload.len())), "{turn}");
            assert_eq!(into[..payload.len()], payload);
            assert_eq!(consumer.pop(&mut into), None);
        }
    }

    #[test]
    fn what_has_no_room_leaves_no_trace() {
        let (mut producer, mut consumer) = datagrams();
        let from: SocketAddr = "192.0.2.7:7787".parse().expect("an address");
        assert_eq!(producer.push(from, &[0; DATAGRAM_OCTETS + 1]), Err(Full));
        let mut pushed = 0_usize;
        while producer.push(from, &[7; 1200]) == Ok(()) {
            pushed += 1;
        }
        assert_eq!(pushed, RING_OCTETS / (HEADER_OCTETS + 1200));
        let mut into = [0; 100];
        // Cut off where there is no room for the rest; the next one is whole again.
        assert_eq!(consumer.pop(&mut into), Some((from, 100)));
        let mut into = [0; DATAGRAM_OCTETS];
        for _ in 1..pushed {
            assert_eq!(consumer.pop(&mut into), Some((from, 1200)));
            assert!(into[..1200].iter().all(|octet| *octet == 7));
        }
        assert_eq!(consumer.pop(&mut into), None);
        assert_eq!(producer.push(from, &[1; DATAGRAM_OCTETS]), Ok(()));
        assert_eq!(consumer.pop(&mut into), Some((from, DATAGRAM_OCTETS)));
    }
}
