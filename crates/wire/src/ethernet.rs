//! The Ethernet header (IEEE 802.3 clause 3.2) with up to two VLAN tags (IEEE 802.1Q clause 9).
//!
//! ```text
//! DA 6 | SA 6 | [TPID 2 | TCI 2]{0,2} | EtherType 2 | payload
//! ```
//!
//! Frames have no preamble and no FCS here. The parser looks behind two VLAN tags and no further: with a
//! third tag, the frame's EtherType is that tag's TPID. Length fields (802.3 frames, values below 1536) count
//! as EtherTypes: nothing here depends on their value.

use crate::id::MacAddr;
use core::fmt;

/// Octets of DA and SA.
pub const ADDRESSES_OCTETS: usize = 12;
/// Octets of an EtherType.
pub const ETHERTYPE_OCTETS: usize = 2;
/// Octets of an untagged header: DA, SA, EtherType.
pub const HEADER_OCTETS: usize = ADDRESSES_OCTETS + ETHERTYPE_OCTETS;
/// Octets that one VLAN tag adds.
pub const VLAN_TAG_OCTETS: usize = 4;
/// Most VLAN tags behind which the parser looks: a customer tag inside a service tag.
pub const VLAN_TAGS: usize = 2;

/// A 16-bit EtherType: names the protocol that follows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet Protocol version 4.
    pub const IPV4: Self = Self(0x0800);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
    /// Customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// Service VLAN tag (IEEE 802.1ad, "QinQ").
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// MAC control (IEEE 802.3 clause 31): PAUSE, priority-based flow control. Never goes further than one hop.
    pub const MAC_CONTROL: Self = Self(0x8808);
    /// Slow protocols (IEEE 802.3 annex 57A): LACP, OAM, ESMC.
    pub const SLOW_PROTOCOLS: Self = Self(0x8809);
    /// MRP, the ring redundancy of IEC 62439-2.
    pub const MRP: Self = Self(0x88e3);
    /// PTP and gPTP (IEEE 1588, IEEE 802.1AS).
    pub const PTP: Self = Self(0x88f7);
    /// PROFINET RT; PTCP and DCP too.
    pub const PROFINET: Self = Self(0x8892);
    /// EtherCAT.
    pub const ETHERCAT: Self = Self(0x88a4);
    /// IEC 61850 GOOSE.
    pub const GOOSE: Self = Self(0x88b8);
    /// LLDP (IEEE 802.1AB).
    pub const LLDP: Self = Self(0x88cc);
    /// EAPOL, which carries MKA (IEEE 802.1X).
    pub const EAPOL: Self = Self(0x888e);
    /// MACsec: a SecTAG follows (IEEE 802.1AE).
    pub const MACSEC: Self = Self(0x88e5);

    /// True if a VLAN tag follows, with another EtherType behind it (IEEE 802.1Q).
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The frame ends inside its header: fewer than 14 octets, or cut inside a VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TruncatedHeader;

/// The parsed Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// Number of VLAN tags in front of `ethertype`, 0 to [`VLAN_TAGS`].
    pub vlan_tags: usize,
    /// The EtherType behind the tags.
    pub ethertype: EtherType,
}

impl Header {
    /// Reads the header at the start of `frame`.
    ///
    /// # Errors
    /// [`TruncatedHeader`] if the frame ends before its EtherType.
    pub fn parse(frame: &[u8]) -> Result<Self, TruncatedHeader> {
        let (destination, rest) = frame.split_first_chunk().ok_or(TruncatedHeader)?;
        let (source, mut rest) = rest.split_first_chunk().ok_or(TruncatedHeader)?;
        let mut vlan_tags = 0;
        loop {
            let (ethertype, behind) = rest.split_first_chunk().ok_or(TruncatedHeader)?;
            let ethertype = EtherType(u16::from_be_bytes(*ethertype));
            if !ethertype.is_vlan() || vlan_tags == VLAN_TAGS {
                let (destination, source) = (MacAddr(*destination), MacAddr(*source));
                return Ok(Self { destination, source, vlan_tags, ethertype });
            }
            vlan_tags += 1;
            rest = behind.get(VLAN_TAG_OCTETS - ETHERTYPE_OCTETS..).ok_or(TruncatedHeader)?;
        }
    }

    /// Octets of the header, tags and EtherType included.
    pub const fn octets(&self) -> usize {
        HEADER_OCTETS + self.vlan_tags * VLAN_TAG_OCTETS
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const ADDRESSES: [u8; 12] = [1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1];

    fn frame(behind_addresses: &[u8]) -> Vec<u8> {
        [&ADDRESSES[..], behind_addresses].concat()
    }

    #[test]
    fn tags_are_counted_and_looked_behind() {
        let rows: [(&[u8], usize, u16); 7] = [
            (&[0x88, 0x92], 0, 0x8892),
            (&[0x00, 0x26], 0, 0x0026),
            (&[0x81, 0, 0xc0, 0, 0x88, 0x92], 1, 0x8892),
            (&[0x88, 0xa8, 0, 1, 0x88, 0xe5], 1, 0x88e5),
            (&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x08, 0], 2, 0x0800),
            (&[0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 0x88, 0xe5], 2, 0x8100),
            (&[0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0], 2, 0x8100),
        ];
        for (octets, vlan_tags, ethertype) in rows {
            let header = Header::parse(&frame(octets)).expect("a whole header");
            assert_eq!((header.vlan_tags, header.ethertype.0), (vlan_tags, ethertype), "{octets:02x?}");
            assert_eq!(header.destination, MacAddr([1, 0x80, 0xc2, 0, 0, 0x0e]));
            assert_eq!(header.source, MacAddr([2, 0, 0, 0, 0, 1]));
            assert!(header.destination.is_group() && !header.source.is_group());
            assert!(header.octets() <= frame(octets).len());
        }
    }

    #[test]
    fn every_cut_inside_the_header_is_truncated() {
        let whole = frame(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x08, 0]);
        for octets in 0..whole.len() {
            assert_eq!(Header::parse(&whole[..octets]), Err(TruncatedHeader), "{octets} octets");
        }
        assert!(Header::parse(&whole).is_ok());
    }
}
