//! A MACsec frame, split for the tunnel and rebuilt behind it.

use super::flow::{CYCLIC, FLOW_BITS, Flow, OuterTags, RelayLeg, SC, SiteName};
use crate::ethernet::{ADDRESSES_OCTETS, EtherType, HEADER_OCTETS, Header};
use crate::fieldbus;
use crate::id::{An, MacAddr, Sci};
use crate::sectag::{SECTAG_OCTETS, SECTAG_SCI_OCTETS};

const V: u8 = 0x80;
/// E, C and AN: the bits of the TCI that each packet carries.
const PACKET_BITS: u8 = 0x0f;

/// Fields of the SecTAG that each packet of a flow carries. Of a cyclic frame: Seq in the place of the PN, KeyID in that of octet 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketFields {
    /// E, C and AN: the low four bits of the TCI octet; E is 0x08, C 0x04, AN 0x03.
    pub tci_low: u8,
    /// Octet 3 of the SecTAG: EXT, MF and SL.
    pub octet_3: u8,
    /// The PN field.
    pub pn: u32,
}

impl PacketFields {
    /// The AN.
    pub const fn an(self) -> An {
        An::from_tci(self.tci_low)
    }

    /// E: the secure data is encrypted.
    pub const fn encrypted(self) -> bool {
        self.tci_low & 0x08 != 0
    }

    /// EXT: extension headers follow the SecTAG.
    pub const fn extended(self) -> bool {
        self.octet_3 & 0x80 != 0
    }
}

/// Reason why a frame cannot be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseFrameError {
    /// The frame ends inside addresses or SecTAG.
    Truncated,
    /// No MACsec, or more than two VLAN tags in front of the SecTAG.
    NotMacsec,
    /// V is 1: an undefined version (IEEE 802.1AE clause 9.5).
    Version,
}

/// A MACsec frame, split. The body begins behind [`Flow::prefix_octets`] octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParsedFrame {
    /// Common part of the flow.
    pub flow: Flow,
    /// Fields that the packet carries.
    pub fields: PacketFields,
}

impl ParsedFrame {
    /// Parses a frame from its destination address.
    ///
    /// # Errors
    /// [`ParseFrameError`].
    pub fn parse(frame: &[u8]) -> Result<Self, ParseFrameError> {
        let (head, rest) = frame
            .split_first_chunk::<{ ADDRESSES_OCTETS + SECTAG_OCTETS }>()
            .ok_or(ParseFrameError::Truncated)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1, tci, octet_3, pn @ ..] = *head;
        if u16::from_be_bytes([t0, t1]) != EtherType::MACSEC.0 {
            return Self::parse_tagged(frame);
        }
        if tci & V != 0 {
            return Err(ParseFrameError::Version);
        }
        let sci = match tci & SC {
            0 => [0; 8],
            _ => *rest.first_chunk().ok_or(ParseFrameError::Truncated)?,
        };
        Ok(Self {
            flow: Flow {
                sc_bits: tci & FLOW_BITS,
                sci: Sci::from_octets(sci),
                destination: MacAddr([d0, d1, d2, d3, d4, d5]),
                source: MacAddr([s0, s1, s2, s3, s4, s5]),
                tags: OuterTags::default(),
            },
            fields: PacketFields { tci_low: tci & PACKET_BITS, octet_3, pn: u32::from_be_bytes(pn) },
        })
    }

    /// The same behind one or two VLAN tags: takes them out, and parses what is left.
    #[cold]
    #[inline(never)]
    fn parse_tagged(frame: &[u8]) -> Result<Self, ParseFrameError> {
        let (addresses, rest) =
            frame.split_first_chunk::<ADDRESSES_OCTETS>().ok_or(ParseFrameError::Truncated)?;
        let tags = OuterTags::in_front_of(rest);
        if tags.is_empty() {
            return Err(ParseFrameError::NotMacsec);
        }
        let mut untagged = [0; ADDRESSES_OCTETS + SECTAG_SCI_OCTETS];
        untagged[..ADDRESSES_OCTETS].copy_from_slice(addresses);
        let behind = &rest[tags.octets()..];
        if behind.first_chunk() != Some(&EtherType::MACSEC.0.to_be_bytes()) {
            return Err(ParseFrameError::NotMacsec);
        }
        let there = behind.len().min(SECTAG_SCI_OCTETS);
        untagged[ADDRESSES_OCTETS..ADDRESSES_OCTETS + there].copy_from_slice(&behind[..there]);
        let parsed = Self::parse(&untagged[..ADDRESSES_OCTETS + there])?;
        Ok(Self { flow: parsed.flow.with_tags(tags), ..parsed })
    }

    /// Parses a cyclic frame of a cell with this EtherType, HELLOs included, also behind VLAN tags.
    ///
    /// # Errors
    /// [`ParseFrameError::NotMacsec`] if it has another EtherType, [`ParseFrameError::Truncated`].
    #[cold]
    #[inline(never)]
    pub fn parse_cyclic(frame: &[u8], ether_type: EtherType) -> Result<Self, ParseFrameError> {
        let header = Header::parse(frame).map_err(|_| ParseFrameError::Truncated)?;
        if header.ethertype != ether_type {
            return Err(ParseFrameError::NotMacsec);
        }
        let behind = frame[header.octets()..].first_chunk().ok_or(ParseFrameError::Truncated)?;
        let [f0, f1, key_id, seq @ ..]: [u8; fieldbus::HEADER_OCTETS] = *behind;
        let [e0, e1] = ether_type.0.to_be_bytes();
        let flow = Flow {
            sc_bits: CYCLIC,
            sci: Sci::from_octets([e0, e1, f0, f1, 0, 0, 0, 0]),
            destination: header.destination,
            source: header.source,
            tags: OuterTags::in_front_of(&frame[ADDRESSES_OCTETS..]),
        };
        Ok(Self { flow, fields: PacketFields { tci_low: 0, octet_3: key_id, pn: u32::from_be_bytes(seq) } })
    }

    /// A packet that is relayed to or from a site: all of it is body.
    pub const fn relayed(leg: RelayLeg, site: SiteName) -> Self {
        Self { flow: Flow::relayed(leg, site), fields: PacketFields { tci_low: 0, octet_3: 0, pn: 0 } }
    }

    /// Writes addresses, VLAN tags and SecTAG, [`Flow::prefix_octets`] octets, to the beginning of `out`.
    ///
    /// # Panics
    /// If `out` is shorter.
    pub fn encode_prefix(&self, out: &mut [u8]) {
        if !self.flow.is_untagged_macsec() {
            return self.encode_other_prefix(out);
        }
        out[..6].copy_from_slice(&self.flow.destination.0);
        out[6..12].copy_from_slice(&self.flow.source.0);
        out[ADDRESSES_OCTETS..HEADER_OCTETS].copy_from_slice(&EtherType::MACSEC.0.to_be_bytes());
        out[14] = self.flow.sc_bits | (self.fields.tci_low & PACKET_BITS);
        out[15] = self.fields.octet_3;
        out[16..20].copy_from_slice(&self.fields.pn.to_be_bytes());
        if self.flow.sc_bits & SC != 0 {
            out[20..28].copy_from_slice(&self.flow.sci.octets());
        }
    }

    /// The same with VLAN tags between, or of a cyclic frame.
    #[cold]
    #[inline(never)]
    fn encode_other_prefix(&self, out: &mut [u8]) {
        if self.flow.relay().is_some() {
            return;
        }
        let flow = self.flow.with_tags(OuterTags::default());
        let mut untagged = [0; ADDRESSES_OCTETS + SECTAG_SCI_OCTETS];
        if flow.sc_bits == CYCLIC {
            untagged[..6].copy_from_slice(&flow.destination.0);
            untagged[6..12].copy_from_slice(&flow.source.0);
            // EtherType and FrameID.
            untagged[12..16].copy_from_slice(&flow.sci.octets()[..4]);
            untagged[16] = self.fields.octet_3;
            untagged[17..21].copy_from_slice(&self.fields.pn.to_be_bytes());
        } else {
            Self { flow, ..*self }.encode_prefix(&mut untagged);
        }
        let (addresses, tag) = untagged[..flow.prefix_octets()].split_at(ADDRESSES_OCTETS);
        let (tags, octets) = (self.flow.tags.encode(), self.flow.tags.octets());
        out[..ADDRESSES_OCTETS].copy_from_slice(addresses);
        out[ADDRESSES_OCTETS..ADDRESSES_OCTETS + octets].copy_from_slice(&tags[..octets]);
        out[ADDRESSES_OCTETS + octets..self.flow.prefix_octets()].copy_from_slice(tag);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn what_is_taken_apart_goes_together_again(
            addresses in any::<[u8; 12]>(), tags in vec((any::<bool>(), any::<u16>()), 0..3),
            tci in 0..0x80_u8, rest in vec(any::<u8>(), 5..64),
        ) {
            let mut frame: Vec<u8> = addresses.to_vec();
            for (service, tci) in &tags {
                frame.extend(if *service { [0x88, 0xa8] } else { [0x81, 0x00] });
                frame.extend(tci.to_be_bytes());
            }
            frame.extend([0x88, 0xe5, tci]);
            frame.extend(&rest);
            match ParsedFrame::parse(&frame) {
                Ok(taken) => {
                    let mut prefix = std::vec![0; taken.flow.prefix_octets()];
                    taken.encode_prefix(&mut prefix);
                    prop_assert_eq!(&prefix[..], &frame[..prefix.len()]);
                    prop_assert_eq!(taken.flow.tags.octets(), 4 * tags.len());
                    let untagged = taken.flow.with_tags(OuterTags::default());
                    prop_assert_eq!(Flow::parse(&taken.flow.encode()), Some(untagged));
                    let tagged = Flow::parse_tagged(&taken.flow.encode_tagged());
                    prop_assert_eq!(tagged, Some(taken.flow).filter(|_| !tags.is_empty()));
                }
                Err(error) => {
                    prop_assert_eq!(error, ParseFrameError::Truncated);
                    prop_assert!(tci & SC != 0 && frame.len() < 28 + 4 * tags.len());
                }
            }
        }

        #[test]
        fn an_encoded_flow_is_read_only_if_it_encodes_to_the_same(octets in any::<[u8; 24]>(), bits in any::<u8>()) {
            let mut octets = octets;
            (octets[0], octets[1], octets[2], octets[3]) = (bits, 0, 0, 0);
            if let Some(flow) = Flow::parse(&octets) {
                prop_assert_eq!(flow.encode(), octets);
            } else {
                prop_assert!(bits == CYCLIC || bits & 0x8f != 0 || (bits & 0x20 == 0 && octets[16..] != [0; 8]));
            }
        }
    }

    proptest! {
        #[test]
        fn encoded_tags_are_read_only_if_they_encode_to_the_same(octets: [u8; 8], first in 0..4_usize, second in 0..4_usize) {
            let mut octets = octets;
            for (place, which) in [(0, first), (4, second)] {
                if let Some(tpid) = [[0x81, 0x00], [0x88, 0xa8]].get(which) {
                    octets[place..place + 2].copy_from_slice(tpid);
                } else if which == 2 {
                    octets[place..place + 4].fill(0);
                }
            }
            match OuterTags::parse(octets) {
                Some(tags) => prop_assert_eq!(tags.encode(), octets),
                None => prop_assert!(first > 1 || second > 2),
            }
        }
    }

    proptest! {
        #[test]
        fn a_cyclic_frame_goes_together_again(
            addresses: [u8; 12], tags in vec(any::<u16>(), 0..3), header: [u8; 7], rest in vec(any::<u8>(), 0..8), cut in 0..30_usize,
        ) {
            let mut frame: Vec<u8> = addresses.to_vec();
            for tci in &tags {
                frame.extend([0x81, 0x00]);
                frame.extend(tci.to_be_bytes());
            }
            frame.extend([0x88, 0xb5]);
            frame.extend(header);
            let prefix = frame.len();
            frame.extend(&rest);
            let taken = ParsedFrame::parse_cyclic(&frame, EtherType(0x88b5)).expect("a cyclic frame");
            let mut again = std::vec![0; prefix];
            taken.encode_prefix(&mut again);
            prop_assert_eq!(&again[..], &frame[..prefix]);
            prop_assert_eq!((taken.flow.prefix_octets(), taken.flow.cyclic()), (prefix, Some(EtherType(0x88b5))));
            let untagged = taken.flow.with_tags(OuterTags::default());
            prop_assert_eq!(Flow::parse(&taken.flow.encode()), Some(untagged));
            prop_assert_eq!((taken.flow.sci(), untagged.is_untagged_macsec()), (None, false));
            prop_assert_eq!(ParsedFrame::parse_cyclic(&frame, EtherType(0x88b6)), Err(ParseFrameError::NotMacsec));
            prop_assert_eq!(ParsedFrame::parse(&frame), Err(ParseFrameError::NotMacsec));
            prop_assert!(ParsedFrame::parse_cyclic(&frame[..cut.min(prefix - 1)], EtherType(0x88b5)).is_err());
        }
    }

    #[test]
    fn what_cannot_be_carried_is_refused() {
        let mut frame = [0; 28];
        (frame[12], frame[13]) = (0x88, 0xe5);
        assert!(ParsedFrame::parse(&frame[..20]).is_ok());
        assert_eq!(ParsedFrame::parse(&frame[..19]), Err(ParseFrameError::Truncated));
        frame[14] = 0x20;
        assert_eq!(ParsedFrame::parse(&frame[..27]), Err(ParseFrameError::Truncated));
        frame[14] = 0x80;
        assert_eq!(ParsedFrame::parse(&frame), Err(ParseFrameError::Version));
        (frame[12], frame[13]) = (0x81, 0x00);
        assert_eq!(ParsedFrame::parse(&frame), Err(ParseFrameError::NotMacsec));
        for (tags, expected) in [(2, Ok(8)), (3, Err(ParseFrameError::NotMacsec))] {
            let tags = [0x88, 0xa8, 0, 7].repeat(tags);
            let tagged = [&[2; 12][..], &tags, &[0x88, 0xe5, 0x20, 0, 0, 0, 0, 1], &[3; 8]].concat();
            assert_eq!(ParsedFrame::parse(&tagged).map(|taken| taken.flow.tags.octets()), expected);
        }
        let mut flow = [0; 24];
        flow[2] = 1;
        assert_eq!(Flow::parse(&flow), None);
    }
}
