//! A MACsec frame, split for the tunnel and rebuilt behind it.

use crate::ethernet::{ADDRESSES_OCTETS, EtherType, HEADER_OCTETS};
use crate::id::{An, MacAddr, Sci};
use crate::sectag::{SECTAG_OCTETS, SECTAG_SCI_OCTETS};

const V: u8 = 0x80;
const SC: u8 = 0x20;
/// ES, SC and SCB: the bits of the TCI that belong to the flow.
const FLOW_BITS: u8 = 0x70;
/// E, C and AN: the bits of the TCI that each packet carries.
const PACKET_BITS: u8 = 0x0f;

/// Common part of all frames of a flow: (ES/SC/SCB, SCI, DA, SA). Without SC, the SCI is eight zero octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Flow {
    sc_bits: u8,
    sci: Sci,
    /// The destination address.
    pub destination: MacAddr,
    /// The source address.
    pub source: MacAddr,
}

impl Flow {
    /// Octets of an encoded flow, in the long form of a packet and in an announcement.
    pub const OCTETS: usize = 24;

    /// The SCI, if the SecTAG holds it.
    pub const fn sci(&self) -> Option<Sci> {
        if self.sc_bits & SC != 0 { Some(self.sci) } else { None }
    }

    /// Octets in front of the body: addresses and SecTAG, 20 or 28.
    pub const fn prefix_octets(&self) -> usize {
        let tag = if self.sc_bits & SC != 0 { SECTAG_SCI_OCTETS } else { SECTAG_OCTETS };
        ADDRESSES_OCTETS + tag
    }

    /// `ES/SC/SCB 1 | reserved 3 | DA 6 | SA 6 | SCI 8`.
    pub fn encode(&self) -> [u8; Self::OCTETS] {
        let mut octets = [0; Self::OCTETS];
        octets[0] = self.sc_bits;
        octets[4..10].copy_from_slice(&self.destination.0);
        octets[10..16].copy_from_slice(&self.source.0);
        octets[16..24].copy_from_slice(&self.sci.octets());
        octets
    }

    /// Parses an encoded flow. `None` if reserved bits are set, or there is an SCI without SC.
    pub fn parse(octets: &[u8; Self::OCTETS]) -> Option<Self> {
        let [sc_bits, r0, r1, r2, d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, sci @ ..] = *octets;
        if sc_bits & !FLOW_BITS != 0 || [r0, r1, r2] != [0; 3] || (sc_bits & SC == 0 && sci != [0; 8]) {
            return None;
        }
        Some(Self {
            sc_bits,
            sci: Sci::from_octets(sci),
            destination: MacAddr([d0, d1, d2, d3, d4, d5]),
            source: MacAddr([s0, s1, s2, s3, s4, s5]),
        })
    }
}

/// Fields of the SecTAG that each packet of a flow carries.
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
    /// No MACsec, or a VLAN tag in front of the SecTAG.
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
            return Err(ParseFrameError::NotMacsec);
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
            },
            fields: PacketFields { tci_low: tci & PACKET_BITS, octet_3, pn: u32::from_be_bytes(pn) },
        })
    }

    /// Writes addresses and SecTAG, [`Flow::prefix_octets`] octets, to the beginning of `out`.
    ///
    /// # Panics
    /// If `out` is shorter.
    pub fn encode_prefix(&self, out: &mut [u8]) {
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
            addresses in any::<[u8; 12]>(), tci in 0..0x80_u8, rest in vec(any::<u8>(), 5..64),
        ) {
            let mut frame: Vec<u8> = addresses.to_vec();
            frame.extend([0x88, 0xe5, tci]);
            frame.extend(&rest);
            match ParsedFrame::parse(&frame) {
                Ok(taken) => {
                    let mut prefix = std::vec![0; taken.flow.prefix_octets()];
                    taken.encode_prefix(&mut prefix);
                    prop_assert_eq!(&prefix[..], &frame[..prefix.len()]);
                    prop_assert_eq!(Flow::parse(&taken.flow.encode()), Some(taken.flow));
                }
                Err(error) => {
                    prop_assert_eq!(error, ParseFrameError::Truncated);
                    prop_assert!(tci & SC != 0 && frame.len() < 28);
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
                prop_assert!(bits & 0x8f != 0 || (bits & 0x20 == 0 && octets[16..] != [0; 8]));
            }
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
        let mut flow = [0; 24];
        flow[2] = 1;
        assert_eq!(Flow::parse(&flow), None);
    }
}
