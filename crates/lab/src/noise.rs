//! Packets that nobody has asked for: random octets for a UDP port, as an attacker on the way sends them.

use std::net::Ipv4Addr;

use crate::topology::Mac;

/// Octets in front of the UDP payload: Ethernet 14, IPv4 20, UDP 8.
const HEADERS: usize = 42;
/// Set in the first octet of every packet of QUIC (RFC 9000, 17).
const QUIC_BIT: u8 = 0x40;
/// The long form of QUIC's header.
const LONG_BIT: u8 = 0x80;

/// Source that a packet claims, and its destination.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// MAC addresses: of the sender, and of the receiving interface.
    pub macs: [Mac; 2],
    /// IPv4 addresses.
    pub addresses: [Ipv4Addr; 2],
    /// UDP ports.
    pub ports: [u16; 2],
}

/// Shape of the octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketShape {
    /// Data packets: QUIC's bit is clear.
    Data,
    /// QUIC packets: every other one with a short header, the others Initials of version 1 with made-up contents.
    Quic,
}

/// A sequence of packets, all with other contents.
#[derive(Clone, Debug)]
pub struct Noise {
    headers: Vec<u8>,
    payload: usize,
    shape: PacketShape,
    state: u64,
}

impl Noise {
    /// Packets with `payload` octets of UDP payload, at least 24.
    pub fn new(route: Route, shape: PacketShape, payload: usize, seed: u64) -> Noise {
        let payload = payload.max(24);
        let mut headers = [&route.macs[1][..], &route.macs[0], &[8, 0, 0x45, 0]].concat();
        let length = |octets: usize| (octets as u16).to_be_bytes();
        headers.extend(length(20 + 8 + payload));
        // DF, 64 hops, UDP.
        headers.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        headers.extend(route.addresses[0].octets());
        headers.extend(route.addresses[1].octets());
        let sum = checksum(&headers[14..34]);
        headers[24..26].copy_from_slice(&sum);
        headers.extend(route.ports[0].to_be_bytes());
        headers.extend(route.ports[1].to_be_bytes());
        headers.extend(length(8 + payload));
        // No checksum, which IPv4 allows.
        headers.extend([0, 0]);
        Noise { headers, payload, shape, state: seed ^ 0x9e37_79b9_7f4a_7c15 }
    }

    /// Writes the next packet over `frame`, which it makes as long as it has to be.
    pub fn next_into(&mut self, frame: &mut Vec<u8>) {
        frame.clone_from(&self.headers);
        frame.resize(HEADERS + self.payload, 0);
        let payload = &mut frame[HEADERS..];
        for octets in payload.chunks_mut(8) {
            // xorshift64: quick, and of no other use.
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            octets.copy_from_slice(&self.state.to_le_bytes()[..octets.len()]);
        }
        match self.shape {
            PacketShape::Data => payload[0] &= !QUIC_BIT,
            PacketShape::Quic if payload[1] & 1 == 0 => payload[0] = (payload[0] | QUIC_BIT) & !LONG_BIT,
            PacketShape::Quic => {
                // Initial, packet number of 4 octets; version 1; 8 octets of destination ID, no source ID, no token.
                payload[0] = 0xc3;
                payload[1..6].copy_from_slice(&[0, 0, 0, 1, 8]);
                payload[14..16].copy_from_slice(&[0, 0]);
                let rest = (self.payload - 18) as u16 | 0x4000;
                payload[16..18].copy_from_slice(&rest.to_be_bytes());
            }
        }
    }
}

/// The Internet checksum (RFC 1071) of octets with an empty checksum among them.
fn checksum(octets: &[u8]) -> [u8; 2] {
    let mut sum: u32 = octets.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_right_headers_and_differ() {
        let route = Route {
            macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            addresses: [Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 199)],
            ports: [7787, 7788],
        };
        for (shape, firsts) in [(PacketShape::Data, 0x00..=0xbf), (PacketShape::Quic, 0x40..=0xc3)] {
            let mut noise = Noise::new(route, shape, 48, 1);
            let (mut before, mut frame) = (Vec::new(), Vec::new());
            for _ in 0..1000 {
                noise.next_into(&mut frame);
                assert_eq!(frame.len(), 42 + 48);
                assert_eq!(frame[12..14], [8, 0]);
                assert_eq!((&frame[16..18], &frame[38..40]), (&[0, 76][..], &[0, 56][..]));
                assert_eq!(frame[34..38], [0x1e, 0x6b, 0x1e, 0x6c]);
                // With the checksum in its place the sum is nothing.
                assert_eq!(checksum(&frame[14..34]), [0, 0]);
                let first = frame[42];
                assert!(firsts.contains(&first) && (first & QUIC_BIT != 0) == (shape == PacketShape::Quic));
                assert_ne!(frame[60..], before[..]);
                before = frame[60..].to_vec();
            }
        }
    }
}
