//! Ancillary data of a message (cmsg(3)): a list of `length 8 | level 4 | type 4 | data`, each filled up to a multiple
//! of a machine word; all in host byte order, the length without the filling.
//!
//! | what | level, type | data | where |
//! |---|---|---|---|
//! | octets of each segment | SOL_UDP, UDP_SEGMENT | 2 | sent |
//! | octets of each segment | SOL_UDP, UDP_GRO | 4 | received |
//! | type of service | IPPROTO_IP, IP_TOS; IPPROTO_IPV6, IPV6_TCLASS | 4 | sent |
//! | interface and source address | IPPROTO_IP, IP_PKTINFO | interface 4, source 4, 4 without meaning | sent |
//! | source address and interface | IPPROTO_IPV6, IPV6_PKTINFO | source 16, interface 4 | sent |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::send::Source;

const WORD: usize = size_of::<usize>();
/// Octets in front of the data: a length and two numbers.
const HEADER: usize = WORD + 8;
/// Room for all that is sent.
pub(super) const SENT: usize = 88;
/// Room for what is received, and for what others may have switched on at the same socket.
pub(super) const RECEIVED: usize = 192;

// linux/udp.h; the crate libc has them for other systems.
pub(super) const UDP_SEGMENT: libc::c_int = 103;
pub(super) const UDP_GRO: libc::c_int = 104;

/// The ancillary data of one message.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Ancillary<const ROOM: usize> {
    octets: [u8; ROOM],
    len: usize,
}

impl<const ROOM: usize> Ancillary<ROOM> {
    /// Room.
    pub(super) const EMPTY: Self = Self { octets: [0; ROOM], len: 0 };

    /// Appends data.
    fn push(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        let length = HEADER + data.len();
        let place = &mut self.octets[self.len..];
        place[..WORD].copy_from_slice(&length.to_ne_bytes());
        place[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        place[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        place[HEADER..length].copy_from_slice(data);
        self.len += length.next_multiple_of(WORD);
    }

    /// The payload is several packets of so many octets.
    pub(super) fn push_segment(&mut self, octets: u16) {
        self.push(libc::SOL_UDP, UDP_SEGMENT, &octets.to_ne_bytes());
    }

    /// The packet has this differentiated services code point (RFC 2474), 6 bits; `six`: it is of IPv6.
    pub(super) fn push_dscp(&mut self, dscp: u8, six: bool) {
        let (level, kind) = match six {
            false => (libc::IPPROTO_IP, libc::IP_TOS),
            true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        self.push(level, kind, &libc::c_int::from(dscp << 2).to_ne_bytes());
    }

    /// The packet leaves from this source; `six`: it is of IPv6. An address of the other version counts as none.
    pub(super) fn push_source(&mut self, source: Source, six: bool) {
        let interface = source.interface.to_ne_bytes();
        if six {
            let address = match source.address {
                Some(IpAddr::V6(address)) => address,
                _ => Ipv6Addr::UNSPECIFIED,
            };
            let mut data = [0; 20];
            data[..16].copy_from_slice(&address.octets());
            data[16..].copy_from_slice(&interface);
            self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data);
        } else {
            let address = match source.address {
                Some(IpAddr::V4(address)) => address,
                _ => Ipv4Addr::UNSPECIFIED,
            };
            let mut data = [0; 12];
            data[..4].copy_from_slice(&interface);
            data[4..8].copy_from_slice(&address.octets());
            self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &data);
        }
    }

    /// Octets that are used.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn as_mut_ptr(&mut self) -> *mut u8 {
        self.octets.as_mut_ptr()
    }

    /// Octets of each segment, from the `len` octets that the kernel wrote, if the message is several packets.
    pub(super) fn segment(&self, len: usize) -> Option<usize> {
        let mut rest = self.octets.get(..len)?;
        // Once for each header at the most: each entry is at least as long as that.
        while let Some((header, _)) = rest.split_at_checked(HEADER) {
            let length = usize::from_ne_bytes(*header.first_chunk()?);
            let number = |at: usize| header.get(at..at + 4)?.try_into().ok().map(libc::c_int::from_ne_bytes);
            let data = rest.get(HEADER..length)?;
            if (number(WORD)?, number(WORD + 4)?) == (libc::SOL_UDP, UDP_GRO) {
                return usize::try_from(libc::c_int::from_ne_bytes(*data.first_chunk()?)).ok();
            }
            rest = rest.get(length.next_multiple_of(WORD)..).unwrap_or(&[]);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_found_behind_other_data_and_nowhere_else() {
        let mut data = Ancillary::<RECEIVED>::EMPTY;
        data.push_dscp(46, false);
        assert_eq!((data.len(), data.segment(data.len())), (24, None));
        data.push(libc::SOL_UDP, UDP_GRO, &1470_i32.to_ne_bytes());
        assert_eq!(data.segment(data.len()), Some(1470));
        for cut in 0..24 + HEADER + 4 {
            assert_eq!(data.segment(cut), None, "{cut}");
        }
        assert_eq!(data.segment(RECEIVED + 1), None);
    }

    #[test]
    fn impossible_lengths_end_the_list() {
        for length in [0_usize, 1, HEADER - 1, HEADER, HEADER + 3, RECEIVED, usize::MAX - 1, usize::MAX] {
            let mut data = Ancillary::<RECEIVED>::EMPTY;
            data.push(libc::SOL_UDP, UDP_GRO, &1470_i32.to_ne_bytes());
            data.octets[..WORD].copy_from_slice(&length.to_ne_bytes());
            assert!(matches!(data.segment(RECEIVED), None | Some(0..=1470)), "{length}");
        }
    }

    #[test]
    fn what_is_sent_stands_as_cmsg_says() {
        let mut data = Ancillary::<SENT>::EMPTY;
        data.push_segment(1486);
        let mut expected = vec![];
        expected.extend((HEADER + 2).to_ne_bytes());
        expected.extend(17_i32.to_ne_bytes());
        expected.extend(103_i32.to_ne_bytes());
        expected.extend(1486_u16.to_ne_bytes());
        assert_eq!(data.octets[..HEADER + 2], expected);
        data.push_dscp(46, true);
        assert_eq!(data.octets[24..24 + WORD], (HEADER + 4).to_ne_bytes());
        assert_eq!(data.octets[24 + HEADER..24 + HEADER + 4], 0xb8_i32.to_ne_bytes());
        let source = Source { address: Some("2001:db8::7".parse().unwrap()), interface: 5 };
        data.push_source(source, true);
        assert_eq!(data.len(), SENT, "the longest list fills the room");
        assert_eq!(data.octets[48 + HEADER + 15], 7);
        assert_eq!(data.octets[48 + HEADER + 16..48 + HEADER + 20], 5_i32.to_ne_bytes());
        let mut data = Ancillary::<SENT>::EMPTY;
        data.push_source(Source { address: Some("192.0.2.7".parse().unwrap()), interface: 5 }, false);
        let expected = [&5_i32.to_ne_bytes()[..], &[192, 0, 2, 7], &[0; 4]].concat();
        assert_eq!(data.octets[HEADER..HEADER + 12], expected);
    }
}
