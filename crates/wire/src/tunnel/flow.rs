//! A flow: what all frames of a MACsec SC or of a cell's relation have in common in front of the body.

use crate::ethernet::{ADDRESSES_OCTETS, ETHERTYPE_OCTETS, EtherType, VLAN_TAG_OCTETS, VLAN_TAGS};
use crate::fieldbus;
use crate::id::{MacAddr, Sci};
use crate::sectag::{SECTAG_OCTETS, SECTAG_SCI_OCTETS};

pub(super) const SC: u8 = 0x20;
/// In the place of ES, SC and SCB: a cyclic frame of a cell.
pub(super) const CYCLIC: u8 = 0x80;
/// The same: a packet that a peer is to relay to another site, and one that it has relayed from another site.
const TO_SITE: u8 = 0x81;
const FROM_SITE: u8 = 0x82;
/// ES, SC and SCB: the bits of the TCI that belong to the flow.
pub(super) const FLOW_BITS: u8 = 0x70;
/// EtherType, FrameID, KeyID and Seq of a cyclic frame.
const CYCLIC_HEADER_OCTETS: usize = ETHERTYPE_OCTETS + fieldbus::HEADER_OCTETS;

/// VLAN tags in front of a SecTAG as they stand, priority included: none, one or two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct OuterTags(u64);

impl OuterTags {
    /// Octets of the longest.
    pub const OCTETS: usize = VLAN_TAGS * VLAN_TAG_OCTETS;

    /// True if there is no tag.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of octets: 0, 4 or 8.
    pub const fn octets(self) -> usize {
        // A tag is never zero, since its TPID is not.
        VLAN_TAG_OCTETS * ((self.0 >> 32 != 0) as usize + (self.0 as u32 != 0) as usize)
    }

    /// The octets, of which the first [`OuterTags::octets`] stand in the frame; the others are zeros.
    pub const fn encode(self) -> [u8; Self::OCTETS] {
        self.0.to_be_bytes()
    }

    /// Parses encoded tags. `None` if a TPID is none of a VLAN tag, or something follows where no tag is.
    pub const fn parse(octets: [u8; Self::OCTETS]) -> Option<Self> {
        let number = u64::from_be_bytes(octets);
        let (first, second) = ((number >> 32) as u32, number as u32);
        let (first_is_tag, second_is_tag) =
            (EtherType((first >> 16) as u16).is_vlan(), EtherType((second >> 16) as u16).is_vlan());
        let valid = number == 0 || first_is_tag && (second == 0 || second_is_tag);
        if valid { Some(Self(number)) } else { None }
    }

    /// Tags at the beginning of `octets`, which follow the addresses.
    pub(super) fn in_front_of(octets: &[u8]) -> Self {
        let tag = |place: usize| {
            let octets = octets.get(place..)?.first_chunk::<VLAN_TAG_OCTETS>()?;
            let tag = u32::from_be_bytes(*octets);
            EtherType((tag >> 16) as u16).is_vlan().then_some(u64::from(tag))
        };
        let Some(first) = tag(0) else { return Self::default() };
        Self(first << 32 | tag(VLAN_TAG_OCTETS).unwrap_or(0))
    }
}

/// Octets of a site's public key with which relayed packets name it.
pub const SITE_NAME_OCTETS: usize = 20;

/// A site that a relayed packet goes to or comes from: the beginning of its public key.
pub type SiteName = [u8; SITE_NAME_OCTETS];

/// One of the two legs of a relayed packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum RelayLeg {
    /// To the relay. The flow names the site that the packet is for.
    To,
    /// From the relay, which sends nothing further that comes on this leg. The flow names the site that the packet is of.
    From,
}

/// Common part of all frames of a flow: (ES/SC/SCB, SCI, DA, SA), and the VLAN tags in front of the SecTAG. Without SC, the SCI is
/// eight zero octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Flow {
    pub(super) sc_bits: u8,
    pub(super) sci: Sci,
    /// The destination address.
    pub destination: MacAddr,
    /// The source address.
    pub source: MacAddr,
    /// VLAN tags in front of the SecTAG.
    pub tags: OuterTags,
}

impl Flow {
    /// Octets of an encoded flow without VLAN tags, in the long form of a packet and in an announcement.
    pub const OCTETS: usize = 24;
    /// The same with VLAN tags.
    pub const TAGGED_OCTETS: usize = Self::OCTETS + OuterTags::OCTETS;

    /// The SCI, if the SecTAG holds it.
    pub const fn sci(&self) -> Option<Sci> {
        if self.sc_bits & SC != 0 { Some(self.sci) } else { None }
    }

    /// Octets in front of the body: addresses and SecTAG, 20 or 28, and VLAN tags; of a cyclic frame 21, and VLAN tags; of a relayed
    /// packet none.
    pub const fn prefix_octets(&self) -> usize {
        if !self.is_untagged_macsec() {
            return self.other_prefix_octets();
        }
        let tag = if self.sc_bits & SC != 0 { SECTAG_SCI_OCTETS } else { SECTAG_OCTETS };
        ADDRESSES_OCTETS + tag
    }

    #[cold]
    #[inline(never)]
    const fn other_prefix_octets(&self) -> usize {
        let tag = match self.sc_bits {
            // A packet as it is: nothing of it is known beforehand.
            TO_SITE | FROM_SITE => return 0,
            CYCLIC => CYCLIC_HEADER_OCTETS,
            bits if bits & SC != 0 => SECTAG_SCI_OCTETS,
            _ => SECTAG_OCTETS,
        };
        ADDRESSES_OCTETS + self.tags.octets() + tag
    }

    /// The EtherType of a cell's cyclic frames, if this is a flow of such: one FrameID between two stations.
    pub const fn cyclic(&self) -> Option<EtherType> {
        let [high, low, ..] = self.sci.octets();
        if self.sc_bits == CYCLIC { Some(EtherType(u16::from_be_bytes([high, low]))) } else { None }
    }

    /// The flow of packets that are relayed to or from this site.
    pub const fn relayed(leg: RelayLeg, site: SiteName) -> Self {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, sci @ ..] = site;
        Self {
            sc_bits: match leg {
                RelayLeg::To => TO_SITE,
                RelayLeg::From => FROM_SITE,
            },
            sci: Sci::from_octets(sci),
            destination: MacAddr([d0, d1, d2, d3, d4, d5]),
            source: MacAddr([s0, s1, s2, s3, s4, s5]),
            tags: OuterTags(0),
        }
    }

    /// The leg and the site, if this is a flow of relayed packets.
    pub fn relay(&self) -> Option<(RelayLeg, SiteName)> {
        let leg = match self.sc_bits {
            TO_SITE => RelayLeg::To,
            FROM_SITE => RelayLeg::From,
            _ => return None,
        };
        let mut site = [0; SITE_NAME_OCTETS];
        site[..6].copy_from_slice(&self.destination.0);
        site[6..12].copy_from_slice(&self.source.0);
        site[12..].copy_from_slice(&self.sci.octets());
        Some((leg, site))
    }

    /// True for a flow of MACsec frames without VLAN tags.
    pub const fn is_untagged_macsec(&self) -> bool {
        self.tags.is_empty() && self.sc_bits & !FLOW_BITS == 0
    }

    /// The flow with other VLAN tags.
    #[must_use]
    pub const fn with_tags(self, tags: OuterTags) -> Self {
        Self { tags, ..self }
    }

    /// `ES/SC/SCB 1 | reserved 3 | DA 6 | SA 6 | SCI 8`: what a flow without VLAN tags is encoded as. Of cyclic frames:
    /// `0x80 | reserved 3 | DA 6 | SA 6 | EtherType 2 | FrameID 2 | reserved 4`. Of relayed packets:
    /// `0x81 to a site, or 0x82 from one | reserved 3 | beginning of its public key 20`.
    pub fn encode(&self) -> [u8; Self::OCTETS] {
        let mut octets = [0; Self::OCTETS];
        octets[0] = self.sc_bits;
        octets[4..10].copy_from_slice(&self.destination.0);
        octets[10..16].copy_from_slice(&self.source.0);
        octets[16..24].copy_from_slice(&self.sci.octets());
        octets
    }

    /// The same, and the VLAN tags behind it.
    pub fn encode_tagged(&self) -> [u8; Self::TAGGED_OCTETS] {
        let mut octets = [0; Self::TAGGED_OCTETS];
        let (flow, tags) = octets.split_at_mut(Self::OCTETS);
        flow.copy_from_slice(&self.encode());
        tags.copy_from_slice(&self.tags.encode());
        octets
    }

    /// Parses a flow that is encoded with its VLAN tags. `None` if it has none, or one of [`Flow::parse`]'s rules is broken.
    pub fn parse_tagged(octets: &[u8; Self::TAGGED_OCTETS]) -> Option<Self> {
        let (flow, tags) = octets.split_first_chunk()?;
        let tags = OuterTags::parse(*tags.first_chunk()?).filter(|tags| !tags.is_empty())?;
        Self::parse(flow).filter(|flow| flow.relay().is_none()).map(|flow| flow.with_tags(tags))
    }

    /// Parses an encoded flow. `None` if reserved bits are set, or there is an SCI without SC.
    pub fn parse(octets: &[u8; Self::OCTETS]) -> Option<Self> {
        let [sc_bits, r0, r1, r2, d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, sci @ ..] = *octets;
        let valid = match sc_bits {
            CYCLIC => is_free([sci[0], sci[1]]) && sci[4..] == [0; 4],
            TO_SITE | FROM_SITE => true,
            bits => bits & !FLOW_BITS == 0 && (bits & SC != 0 || sci == [0; 8]),
        };
        if !valid || [r0, r1, r2] != [0; 3] {
            return None;
        }
        Some(Self {
            sc_bits,
            sci: Sci::from_octets(sci),
            destination: MacAddr([d0, d1, d2, d3, d4, d5]),
            source: MacAddr([s0, s1, s2, s3, s4, s5]),
            tags: OuterTags(0),
        })
    }
}

/// True for an EtherType that cyclic frames may have: no length, no VLAN tag's, MACsec's or EAPOL's.
fn is_free(octets: [u8; 2]) -> bool {
    let ether_type = EtherType(u16::from_be_bytes(octets));
    let taken = ether_type.is_vlan() || matches!(ether_type, EtherType::MACSEC | EtherType::EAPOL);
    ether_type.0 >= 0x0600 && !taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cyclic_flow_has_no_ether_type_of_others() {
        for (ether_type, valid) in [
            (0x88b5_u16, true),
            (0x88b6, true),
            (0x0800, true),
            (0x05ff, false),
            (0x8100, false),
            (0x88e5, false),
            (0x888e, false),
        ] {
            let mut octets = [2; 24];
            octets[..4].copy_from_slice(&[CYCLIC, 0, 0, 0]);
            octets[16..18].copy_from_slice(&ether_type.to_be_bytes());
            octets[20..].fill(0);
            assert_eq!(Flow::parse(&octets).is_some(), valid, "{ether_type:#06x}");
            octets[23] = 1;
            assert_eq!(Flow::parse(&octets), None);
        }
    }

    #[test]
    fn a_relayed_flow_names_leg_and_site_and_has_no_tags() {
        let site = core::array::from_fn(|octet| octet as u8 + 1);
        for leg in [RelayLeg::To, RelayLeg::From] {
            let flow = Flow::relayed(leg, site);
            let encoded = flow.encode();
            assert_eq!(encoded[4..], site);
            assert_eq!(Flow::parse(&encoded), Some(flow));
            assert_eq!(flow.relay(), Some((leg, site)));
            assert_eq!((flow.prefix_octets(), flow.cyclic(), flow.sci()), (0, None, None));
            assert!(!flow.is_untagged_macsec());
            let mut tagged = [0; Flow::TAGGED_OCTETS];
            tagged[..24].copy_from_slice(&encoded);
            tagged[24..28].copy_from_slice(&[0x81, 0, 0, 7]);
            assert_eq!(Flow::parse_tagged(&tagged), None);
        }
        let mut other = Flow::relayed(RelayLeg::To, site).encode();
        for bits in [0x83, 0x84, 0xc1, 0xa1] {
            other[0] = bits;
            assert_eq!(Flow::parse(&other), None, "{bits:#04x}");
        }
    }
}
