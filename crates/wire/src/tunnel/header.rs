//! The header of identifier mode, without its mask.
//!
//! Form 4 extends the four original ones. A frame that exceeds the path and whose flow is not acknowledged
//! needs the long form and two packets at once. Without form 4, a new flow would lose its full-size frames. Forms 5 and 6 are 3
//! and 4 for flows with VLAN tags.

use super::flow::OuterTags;
use super::frame::PacketFields;

/// Octets of the rotating identifier in front of the header.
pub const RID_OCTETS: usize = 6;
/// Octets of the check behind the identifier, which proves the header's origin.
pub const CHECK_OCTETS: usize = 2;
/// Octets of the header.
pub const HEADER_OCTETS: usize = 8;
/// Octets of the long form's tag, behind the flow.
pub const TAG_OCTETS: usize = 8;
/// Octets that the long form adds: the flow itself, and the tag.
pub const LONG_FORM_OCTETS: usize = super::Flow::OCTETS + TAG_OCTETS;
/// Octets in front of the body in short form: the peer knows the flow.
pub const SHORT_HEADER_OCTETS: usize = RID_OCTETS + CHECK_OCTETS + HEADER_OCTETS;
/// Octets in front of the body in long form.
pub const LONG_HEADER_OCTETS: usize = SHORT_HEADER_OCTETS + LONG_FORM_OCTETS;
/// Octets in front of the body in long form with VLAN tags.
pub const LONGEST_HEADER_OCTETS: usize = LONG_HEADER_OCTETS + OuterTags::OCTETS;

/// Number that a site has given a flow towards one peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowIndex(pub u16);

/// Form of a packet: its share of the frame, and whether the flow precedes the body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketForm {
    /// Whole frame.
    Whole,
    /// First of two fragments.
    First,
    /// Second of two fragments.
    Second,
    /// Whole frame, with its flow in front.
    LongForm,
    /// First of two fragments, with the flow in front.
    LongFirst,
    /// Whole frame, with its flow and VLAN tags in front.
    TaggedLongForm,
    /// First of two fragments, with the flow and VLAN tags in front.
    TaggedLongFirst,
}

impl PacketForm {
    /// True if the flow stands in front of the body.
    pub const fn is_long(self) -> bool {
        matches!(self, Self::LongForm | Self::LongFirst | Self::TaggedLongForm | Self::TaggedLongFirst)
    }

    /// True if VLAN tags stand behind that flow.
    pub const fn is_tagged(self) -> bool {
        matches!(self, Self::TaggedLongForm | Self::TaggedLongFirst)
    }
}

/// Error of eight octets that are no header: unknown form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderError;

/// Header in front of each body: `flow 2 | PN 4 | form 4 bits, E, C, AN 2 bits | octet 3 of the SecTAG 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Number of the flow. Ignored in the long form.
    pub flow: FlowIndex,
    /// Form of the packet.
    pub form: PacketForm,
    /// Fields of the SecTAG that the packet carries.
    pub fields: PacketFields,
}

impl Header {
    /// Encodes the octets, before masking.
    pub const fn encode(&self) -> [u8; HEADER_OCTETS] {
        let [f0, f1] = self.flow.0.to_be_bytes();
        let [p0, p1, p2, p3] = self.fields.pn.to_be_bytes();
        let form = match self.form {
            PacketForm::Whole => 0,
            PacketForm::First => 1,
            PacketForm::Second => 2,
            PacketForm::LongForm => 3,
            PacketForm::LongFirst => 4,
            PacketForm::TaggedLongForm => 5,
            PacketForm::TaggedLongFirst => 6,
        };
        [f0, f1, p0, p1, p2, p3, form << 4 | self.fields.tci_low & 0x0f, self.fields.octet_3]
    }

    /// Parses octets after unmasking.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub const fn parse(octets: [u8; HEADER_OCTETS]) -> Result<Self, HeaderError> {
        let [f0, f1, p0, p1, p2, p3, bits, octet_3] = octets;
        let form = match bits >> 4 {
            0 => PacketForm::Whole,
            1 => PacketForm::First,
            2 => PacketForm::Second,
            3 => PacketForm::LongForm,
            4 => PacketForm::LongFirst,
            5 => PacketForm::TaggedLongForm,
            6 => PacketForm::TaggedLongFirst,
            _ => return Err(HeaderError),
        };
        let fields = PacketFields { tci_low: bits & 0x0f, octet_3, pn: u32::from_be_bytes([p0, p1, p2, p3]) };
        Ok(Self { flow: FlowIndex(u16::from_be_bytes([f0, f1])), form, fields })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_header_that_parses_encodes_to_the_same_octets(octets in any::<[u8; 8]>()) {
            match Header::parse(octets) {
                Ok(header) => prop_assert_eq!(header.encode(), octets),
                Err(HeaderError) => prop_assert!(octets[6] >> 4 > 6),
            }
        }
    }

    #[test]
    fn fields_stand_where_the_format_says() {
        let fields = PacketFields { tci_low: 0x0e, octet_3: 0x2a, pn: 0xb2c2_8465 };
        let header = Header { flow: FlowIndex(0x1234), form: PacketForm::Second, fields };
        assert_eq!(header.encode(), [0x12, 0x34, 0xb2, 0xc2, 0x84, 0x65, 0x2e, 0x2a]);
        assert!(fields.encrypted() && !fields.extended());
        assert_eq!(fields.an().number(), 2);
    }
}
