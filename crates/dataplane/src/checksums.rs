//! Checksums that the machine's kernel left to hardware: seen in a sample of its frames.
//!
//! The kernel of a machine behind a virtual interface puts the sum of the pseudo-header where the checksum of a TCP segment
//! or UDP datagram belongs, for hardware to go on from. On AF_XDP nobody does. ICMP is not concerned: ping works, and TCP
//! does not.
//!
//! ```text
//!  IPv4: addresses 8 | 0 | protocol 1 | length 2        IPv6: addresses 32 | length 4 | 0 0 0 | next header 1
//!  filled:    pseudo-header + segment = ffff            unfilled: not filled, and its field = pseudo-header
//! ```
//!
//! One frame in 65,536 with a wrong checksum looks unfilled by chance. Fragments and IPv6 with extension headers are left
//! out. Looking costs about a sum over the frame; so [`FRAMES`] are looked at between two reports of the counters, and no more.

use wire::EtherType;
use wire::ethernet::{HEADER_OCTETS, Header, VLAN_TAG_OCTETS};

/// Frames that are looked at between two reports.
const FRAMES: usize = 64;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where the checksum stands in a TCP segment, and in a UDP datagram.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// Looks at some frames, and counts.
#[derive(Debug, Default)]
pub(crate) struct ChecksumSample {
    /// Frames that are still to be looked at.
    left: usize,
    /// Segments and datagrams that were looked at.
    pub(crate) sampled: u64,
    /// Those whose checksum was unfilled.
    pub(crate) unfilled: u64,
}

impl ChecksumSample {
    /// Whether there is anything to be looked at.
    pub(crate) const fn is_open(&self) -> bool {
        self.left > 0
    }

    /// Looks at frames again.
    pub(crate) const fn reopen(&mut self) {
        self.left = FRAMES;
    }

    /// Looks at a frame, if it is still to be looked at.
    pub(crate) fn look(&mut self, frame: &[u8]) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        if let Some(unfilled) = is_unfilled(frame) {
            self.sampled += 1;
            self.unfilled += u64::from(unfilled);
        }
    }
}

/// Whether the checksum of the frame's segment or datagram is unfilled; none if there is no checksum that can be judged.
fn is_unfilled(frame: &[u8]) -> Option<bool> {
    let header = Header::parse(frame).ok()?;
    let packet = frame.get(HEADER_OCTETS + header.vlan_tags * VLAN_TAG_OCTETS..)?;
    let (addresses, protocol, segment) = match header.ethertype {
        EtherType::IPV4 => ipv4(packet)?,
        EtherType::IPV6 => ipv6(packet)?,
        _ => return None,
    };
    let place = match protocol {
        TCP => TCP_CHECKSUM,
        UDP => UDP_CHECKSUM,
        _ => return None,
    };
    let [high, low] = *segment.get(place..)?.first_chunk()?;
    let field = u16::from_be_bytes([high, low]);
    // A datagram without a checksum.
    if protocol == UDP && field == 0 {
        return None;
    }
    let pseudo = sum(addresses) + u64::from(protocol) + segment.len() as u64;
    Some(fold(pseudo + sum(segment)) != 0xffff && field == fold(pseudo))
}

/// Addresses, protocol and payload of a packet that is no fragment.
fn ipv4(packet: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let header_octets = usize::from(header[0] & 0x0f) * 4;
    let octets = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // MF, and the offset.
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if header[0] >> 4 != 4 || header_octets < header.len() || is_fragment {
        return None;
    }
    Some((&packet[12..20], header[9], packet.get(header_octets..octets)?))
}

fn ipv6(packet: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let header: &[u8; 40] = packet.first_chunk()?;
    let octets = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload = packet[header.len()..].get(..octets)?;
    (header[0] >> 4 == 6).then_some((&packet[8..40], header[6], payload))
}

/// The sum of RFC 1071, not yet folded.
fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    words + rest.first().map_or(0, |last| u64::from(*last) << 8)
}

const fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet in a frame with `tags` VLAN tags; its checksum unfilled, or filled.
    fn frame(tags: usize, version: u8, protocol: u8, payload: &[u8], filled: bool) -> Vec<u8> {
        frame_and_luck(tags, version, protocol, payload, filled).0
    }

    /// And whether its checksum is right, be it by chance.
    fn frame_and_luck(
        tags: usize,
        version: u8,
        protocol: u8,
        payload: &[u8],
        filled: bool,
    ) -> (Vec<u8>, bool) {
        let (place, header) = if protocol == TCP { (TCP_CHECKSUM, 20) } else { (UDP_CHECKSUM, 8) };
        let mut segment = vec![0x11; header];
        segment.extend_from_slice(payload);
        segment[place..place + 2].fill(0);
        let (addresses, ip) = match version {
            4 => {
                let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
                ip[2..4].copy_from_slice(&((20 + segment.len()) as u16).to_be_bytes());
                (ip[12..20].to_vec(), ip)
            }
            _ => {
                let mut ip = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
                ip[4..6].copy_from_slice(&(segment.len() as u16).to_be_bytes());
                ip.extend((0..32).map(|octet| octet * 7));
                (ip[8..40].to_vec(), ip)
            }
        };
        let pseudo = sum(&addresses) + u64::from(protocol) + segment.len() as u64;
        let field = if filled { !fold(pseudo + sum(&segment)) } else { fold(pseudo) };
        // 0 is no checksum in UDP, and is sent as this.
        let field = if field == 0 { 0xffff } else { field };
        segment[place..place + 2].copy_from_slice(&field.to_be_bytes());
        let ethertype = if version == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        let tags = [0x81, 0, 0, 5].repeat(tags);
        let is_right = fold(pseudo + sum(&segment)) == 0xffff;
        ([&[2; 12][..], &tags, &ethertype, &ip, &segment, &[0; 9]].concat(), is_right)
    }

    proptest! {
        /// Odd lengths and Ethernet's padding included. A filled checksum is never taken for an unfilled one.
        #[test]
        fn filled_and_unfilled_are_told_apart(
            tags in 0..3_usize, v6: bool, udp: bool, payload in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let (version, protocol) = (if v6 { 6 } else { 4 }, if udp { UDP } else { TCP });
            prop_assert_eq!(is_unfilled(&frame(tags, version, protocol, &payload, true)), Some(false));
            let (unfilled, is_right) = frame_and_luck(tags, version, protocol, &payload, false);
            prop_assert_eq!(is_unfilled(&unfilled), Some(!is_right));
        }

        #[test]
        fn any_octets_are_looked_at(octets in proptest::collection::vec(any::<u8>(), 0..120)) {
            is_unfilled(&octets);
            let mut ip = frame(0, 4, TCP, &[], true);
            let end = ip.len().min(14 + octets.len());
            ip[14..end].copy_from_slice(&octets[..end - 14]);
            is_unfilled(&ip);
        }
    }

    #[test]
    fn what_cannot_be_judged_is_not_counted() {
        let whole = frame(0, 4, UDP, b"abc", false);
        assert_eq!(is_unfilled(&whole), Some(true));
        let changed = |at: usize, octet: u8| {
            let mut frame = whole.clone();
            frame[at] = octet;
            frame
        };
        let mut none = whole.clone();
        none[14 + 20 + 6..14 + 20 + 8].fill(0);
        for (what, frame) in [
            ("a fragment", changed(14 + 6, 0x20)),
            ("its end", changed(14 + 7, 1)),
            ("ICMP", changed(14 + 9, 1)),
            ("ARP", changed(13, 6)),
            ("a short header", changed(14, 0x44)),
            ("longer than the frame", changed(14 + 2, 1)),
            ("without a checksum", none),
            ("cut", whole[..30].to_vec()),
        ] {
            assert_eq!(is_unfilled(&frame), None, "{what}");
        }
        // Spoilt on the way is not unfilled.
        assert_eq!(is_unfilled(&changed(14 + 20 + 6, whole[14 + 20 + 6] ^ 1)), Some(false));
    }

    #[test]
    fn a_sample_is_bounded() {
        let mut sample = ChecksumSample::default();
        let unfilled = frame(0, 4, TCP, b"abc", false);
        sample.look(&unfilled);
        assert_eq!((sample.is_open(), sample.sampled), (false, 0));
        for round in 1..=2 {
            sample.reopen();
            (0..10 * FRAMES).for_each(|_| sample.look(&unfilled));
            let expected = (round * FRAMES) as u64;
            assert_eq!((sample.sampled, sample.unfilled, sample.is_open()), (expected, expected, false));
        }
    }
}
