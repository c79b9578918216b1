//! The header of identifier mode, without its mask.
//!
//! Part 4 is an addition to the four that the format had first: a frame that does not fit the path and whose flow is
//! not acknowledged needs long form and two parts at once, or a new flow would lose its full-size frames.

use super::frame::PacketFields;

/// Octets of the rotating identifier in front of the header.
pub const RID_OCTETS: usize = 6;
/// Octets of the check behind the identifier: whether the header is the sender's.
pub const CHECK_OCTETS: usize = 2;
/// Octets of the header.
pub const HEADER_OCTETS: usize = 8;
/// Octets of the long form's tag, behind the flow.
pub const TAG_OCTETS: usize = 8;
/// Octets that the long form adds: the flow itself, and the tag.
pub const LONG_FORM_OCTETS: usize = super::Flow::OCTETS + TAG_OCTETS;
/// Octets in front of the body, if the peer knows the flow.
pub const SHORT_HEADER_OCTETS: usize = RID_OCTETS + CHECK_OCTETS + HEADER_OCTETS;
/// Octets in front of the body in long form.
pub const LONG_HEADER_OCTETS: usize = SHORT_HEADER_OCTETS + LONG_FORM_OCTETS;

/// The number that a site has given to a flow towards one peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowIndex(pub u16);

/// How much of a frame a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketForm {
    /// All of it.
    Whole,
    /// The first of two parts.
    First,
    /// The second of two parts.
    Second,
    /// All of it, and its flow in front.
    LongForm,
    /// The first of two parts, and the flow in front.
    LongFirst,
}

impl PacketForm {
    /// Whether the flow itself stands in front of the body.
    pub const fn is_long(self) -> bool {
        matches!(self, Self::LongForm | Self::LongFirst)
    }
}

/// Why eight octets are no header: the part is none of the five.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderError;

/// What stands in front of each body: `flow 2 | PN 4 | form 4 bits, E, C, AN 2 bits | octet 3 of the SecTAG 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Whose frame it is. Not looked at in the long form.
    pub flow: FlowIndex,
    /// How much of the frame follows.
    pub form: PacketForm,
    /// What the packet carries of the SecTAG.
    pub fields: PacketFields,
}

impl Header {
    /// The octets, to be masked.
    pub const fn encode(&self) -> [u8; HEADER_OCTETS] {
        let [f0, f1] = self.flow.0.to_be_bytes();
        let [p0, p1, p2, p3] = self.fields.pn.to_be_bytes();
        let form = match self.form {
            PacketForm::Whole => 0,
            PacketForm::First => 1,
            PacketForm::Second => 2,
            PacketForm::LongForm => 3,
            PacketForm::LongFirst => 4,
        };
        [f0, f1, p0, p1, p2, p3, form << 4 | self.fields.tci_low & 0x0f, self.fields.octet_3]
    }

    /// Reads octets whose mask was taken off.
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
                Err(HeaderError) => prop_assert!(octets[6] >> 4 > 4),
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
