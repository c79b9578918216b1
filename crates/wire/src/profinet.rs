//! PROFINET as a bystander reads it: how an IO controller connects to a device, and what a device is called (IEC 61158-6-10).
//!
//! ```text
//! Connect    IPv4 20.. | UDP 8 | DCE/RPC 80 | NDR 20 | blocks         the cycle and the FrameIDs of a connection: [connect]
//! DCP        0x8892 2 | FrameID 2 | ServiceID 1 | ...                 the name of a device: [dcp]
//! ```
//!
//! Nothing here is trusted: anybody on the network can send it. What is cut short is read as far as it goes.
//!
//! Left out on purpose: fragments of IP and of DCE/RPC behind the first, IPv6 (PROFINET has none), records, alarms.

pub mod connect;
pub mod dcp;

use core::fmt;

/// IP's number for UDP.
const UDP: u8 = 17;
/// Octets of an IPv4 header without options, and of a UDP header.
const IPV4_OCTETS: usize = 20;
const UDP_OCTETS: usize = 8;

/// Payload of a UDP datagram, from the octets behind EtherType 0x0800: none of another protocol, and none of a further fragment. As much of
/// it as is there.
pub fn udp_payload(packet: &[u8]) -> Option<&[u8]> {
    let header = packet.first_chunk::<IPV4_OCTETS>()?;
    let header_octets = usize::from(header[0] & 0x0f) * 4;
    let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    if header[0] >> 4 != 4 || header_octets < IPV4_OCTETS || header[9] != UDP || offset != 0 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // Behind the packet there is padding of the frame.
    let packet = packet.get(..total).unwrap_or(packet);
    packet.get(header_octets + UDP_OCTETS..)
}

/// The name of a station (NameOfStation): 1 to 240 letters, digits, hyphens and dots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StationName<'f>(&'f str);

impl<'f> StationName<'f> {
    /// Most octets of a name.
    pub const LONGEST: usize = 240;

    /// The name, if these octets are one. Nothing else goes to a terminal or into a configuration.
    pub fn new(octets: &'f [u8]) -> Option<Self> {
        let is_allowed = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.');
        let is_name = (1..=Self::LONGEST).contains(&octets.len()) && octets.iter().all(is_allowed);
        if is_name { core::str::from_utf8(octets).ok().map(Self) } else { None }
    }

    /// The name itself.
    pub const fn as_str(&self) -> &'f str {
        self.0
    }
}

impl fmt::Display for StationName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The first octets as a value, and the rest.
fn take<const N: usize>(octets: &[u8]) -> Option<([u8; N], &[u8])> {
    octets.split_first_chunk().map(|(first, rest)| (*first, rest))
}

/// Two octets at a place, the most significant first.
fn half(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|octets| u16::from_be_bytes(*octets))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn packet(version: u8, protocol: u8, offset: u16, total: u16) -> Vec<u8> {
        let [a, b] = total.to_be_bytes();
        let [c, d] = offset.to_be_bytes();
        let mut packet = std::vec![version, 0, a, b, 0, 0, c, d, 64, protocol];
        packet.resize(20, 0);
        packet.extend([0x88, 0x94, 0x88, 0x94, 0, 12, 0, 0, 1, 2, 3, 4, 0, 0]);
        packet
    }

    #[test]
    fn a_datagram_is_found_behind_its_headers_and_before_the_padding() {
        assert_eq!(udp_payload(&packet(0x45, 17, 0, 32)), Some(&[1, 2, 3, 4][..]));
        // Don't fragment; the first of several fragments.
        assert_eq!(udp_payload(&packet(0x45, 17, 0x4000, 32)), Some(&[1, 2, 3, 4][..]));
        assert_eq!(udp_payload(&packet(0x45, 17, 0x2000, 32)), Some(&[1, 2, 3, 4][..]));
        // Cut by the capture.
        assert_eq!(udp_payload(&packet(0x45, 17, 0, 1500)), Some(&[1, 2, 3, 4, 0, 0][..]));
        for (version, protocol, offset, total) in
            [(0x65, 17, 0, 32), (0x45, 6, 0, 32), (0x45, 17, 1, 32), (0x44, 17, 0, 32), (0x45, 17, 0, 27)]
        {
            assert_eq!(udp_payload(&packet(version, protocol, offset, total)), None);
        }
        for octets in 0..28 {
            assert_eq!(udp_payload(&packet(0x45, 17, 0, 32)[..octets]), None, "{octets}");
        }
    }

    #[test]
    fn names_have_no_octet_that_a_terminal_or_toml_obeys() {
        for name in ["plc-1", "Press.Line-7", "a"] {
            assert_eq!(StationName::new(name.as_bytes()).map(|name| name.as_str()), Some(name));
        }
        for name in ["", "a b", "a\n", "a\"", "a#", "\x1b[2J", "ä"] {
            assert_eq!(StationName::new(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(StationName::new(&[b'a'; 241]), None);
    }
}
