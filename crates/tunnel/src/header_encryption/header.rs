//! The 32 octets in front of each packet, in clear.
//!
//! ```text
//!  P1  DA 6 | SA 6 | EtherType 2 | TCI/AN 1 | octet 3 of the SecTAG 1
//!  P2  PN 4 | SCI 8 | the next 4 octets of the frame
//! ```
//!
//! They are the beginning of the frame itself. Where the frame goes on with extension headers, which anybody could predict, their
//! first 4 octets have encrypted ones of the same frame added ([`add_fold`]). A fragment has another EtherType: 0x0001 for the first, 0x0002
//! for the second. A frame with VLAN tags in front of its SecTAG goes without them: its EtherType is the number of its flow, V is
//! set, and E and SC, which are set in each frame of this mode, say which fragment it is. The second's header repeats addresses and SecTAG, and continues with the first 4 octets of
//! the fragment.

use wire::EtherType;
use wire::ethernet::ADDRESSES_OCTETS;
use wire::extension::{EXTENSION_OCTETS, EXTENSIONS};
use wire::sectag::SECTAG_SCI_OCTETS;
use wire::tunnel::{FlowIndex, ParsedFrame};

use super::window::FragmentKind;

/// Octets of the header.
pub(crate) const HEADER_OCTETS: usize = 32;
/// Octets of the header that are addresses and SecTAG.
pub(crate) const PREFIX_OCTETS: usize = ADDRESSES_OCTETS + SECTAG_SCI_OCTETS;
/// Octets of the frame's body in the header: they make the second block unpredictable.
pub(crate) const SAMPLE_OCTETS: usize = HEADER_OCTETS - PREFIX_OCTETS;

const TYPE: core::ops::Range<usize> = 12..14;

const TCI: usize = 14;
const V: u8 = 0x80;
/// SC and E.
const ALWAYS: u8 = 0x28;

/// The bits of SC and E that say the kind of a frame with VLAN tags.
const fn kind_bits(kind: FragmentKind) -> u8 {
    match kind {
        FragmentKind::Whole => 0,
        FragmentKind::First => 0x08,
        FragmentKind::Second => 0x20,
    }
}

const fn ether_type(kind: FragmentKind) -> [u8; 2] {
    match kind {
        FragmentKind::Whole => EtherType::MACSEC.0,
        FragmentKind::First => 1,
        FragmentKind::Second => 2,
    }
    .to_be_bytes()
}

/// Octets behind the header that [`add_fold`] looks at: extension headers end before the last 12 of them, if the frame does not.
pub(crate) const FOLDED_OCTETS: usize = EXTENSIONS * EXTENSION_OCTETS + 8;

/// True if this mode can carry the frame: with SCI and encrypted.
pub(crate) const fn carries(taken: &ParsedFrame) -> bool {
    taken.flow.sci().is_some() && taken.fields.encrypted()
}

/// True if the header's last octets are extension headers.
pub(crate) fn is_folded(taken: &ParsedFrame, kind: FragmentKind) -> bool {
    taken.fields.extended() && kind != FragmentKind::Second
}

/// Adds (exclusive or) the words of four octets that follow a header to its last octets; again takes them out. Secure data or ICV is
/// among them, and both ends see them.
#[cold]
#[inline(never)]
pub(crate) fn add_fold(header: &mut [u8; HEADER_OCTETS], behind: &[u8]) {
    let folded = &behind[..behind.len().min(FOLDED_OCTETS)];
    for word in folded.chunks_exact(SAMPLE_OCTETS) {
        for (octet, added) in header[PREFIX_OCTETS..].iter_mut().zip(word) {
            *octet ^= added;
        }
    }
}

/// Header of a fragment: the frame's prefix, and the fragment's first octets behind it.
pub(crate) fn compose(
    prefix: &[u8; PREFIX_OCTETS],
    sample: &[u8; SAMPLE_OCTETS],
    kind: FragmentKind,
    number: Option<FlowIndex>,
) -> [u8; HEADER_OCTETS] {
    let mut header = [0; HEADER_OCTETS];
    header[..PREFIX_OCTETS].copy_from_slice(prefix);
    header[PREFIX_OCTETS..].copy_from_slice(sample);
    match number {
        None => header[TYPE].copy_from_slice(&ether_type(kind)),
        Some(FlowIndex(number)) => {
            header[TYPE].copy_from_slice(&number.to_be_bytes());
            header[TCI] = header[TCI] & !ALWAYS | V | kind_bits(kind);
        }
    }
    header
}

/// A header that was read, without the VLAN tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadHeader {
    /// The frame.
    pub(crate) taken: ParsedFrame,
    /// Share of the frame.
    pub(crate) kind: FragmentKind,
    /// Number of the flow, if that has VLAN tags.
    pub(crate) number: Option<FlowIndex>,
}

const KINDS: [FragmentKind; 3] = [FragmentKind::Whole, FragmentKind::First, FragmentKind::Second];

/// Parses a header. `None` if no peer sends it, which nearly all results of a wrong key show. Restores
/// MACsec's EtherType, and the TCI of a frame that had VLAN tags.
pub(crate) fn read(header: &mut [u8; HEADER_OCTETS]) -> Option<ReadHeader> {
    let (kind, number) = if header[TCI] & V == 0 {
        (KINDS.into_iter().find(|&kind| header[TYPE] == ether_type(kind))?, None)
    } else {
        let kind = KINDS.into_iter().find(|&kind| header[TCI] & ALWAYS == kind_bits(kind))?;
        header[TCI] = header[TCI] & !V | ALWAYS;
        (kind, Some(FlowIndex(u16::from_be_bytes([header[TYPE.start], header[TYPE.start + 1]]))))
    };
    header[TYPE].copy_from_slice(&ether_type(FragmentKind::Whole));
    let taken = ParsedFrame::parse(header).ok()?;
    carries(&taken).then_some(ReadHeader { taken, kind, number })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_composed(
            addresses: [u8; 12], an in 0..4_u8, c: bool, sl in 0..0x80_u8, rest: [u8; 12], sample: [u8; 4], which in 0..3_usize,
            number in proptest::option::of(any::<u16>()),
        ) {
            let kind = [FragmentKind::Whole, FragmentKind::First, FragmentKind::Second][which];
            let mut prefix = [0; PREFIX_OCTETS];
            prefix[..12].copy_from_slice(&addresses);
            prefix[TYPE].copy_from_slice(&[0x88, 0xe5]);
            (prefix[14], prefix[15]) = (0x28 | an | u8::from(c) << 2, sl);
            prefix[16..].copy_from_slice(&rest);
            let number = number.map(FlowIndex);
            let mut header = compose(&prefix, &sample, kind, number);
            let taken = ParsedFrame::parse(&prefix).expect("MACsec");
            prop_assert_eq!(read(&mut header), Some(ReadHeader { taken, kind, number }));
            prop_assert_eq!(&header[..PREFIX_OCTETS], &prefix);
            prop_assert_eq!(&header[PREFIX_OCTETS..], &sample);
        }
    }

    #[test]
    fn what_no_peer_sends_is_not_read() {
        // (EtherType, TCI, octet 3)
        let rows = [
            ([0x88, 0xe5], 0x2c, 0x00, true),
            ([0x00, 0x01], 0x2c, 0x00, true),
            ([0x00, 0x02], 0x2f, 0x30, true),
            ([0x00, 0x00], 0x2c, 0x00, false),
            ([0x00, 0x03], 0x2c, 0x00, false),
            ([0x08, 0x00], 0x2c, 0x00, false),
            // V: a number, and no kind that there is; no SC, no E.
            ([0x88, 0xe5], 0xac, 0x00, false),
            ([0x12, 0x34], 0x84, 0x00, true),
            ([0x12, 0x34], 0xac, 0x00, false),
            ([0x88, 0xe5], 0x0c, 0x00, false),
            ([0x88, 0xe5], 0x24, 0x00, false),
            ([0x88, 0xe5], 0x2c, 0x80, true),
        ];
        for (ether_type, tci, octet_3, expected) in rows {
            let mut header = [7; HEADER_OCTETS];
            header[TYPE].copy_from_slice(&ether_type);
            (header[14], header[15]) = (tci, octet_3);
            assert_eq!(read(&mut header).is_some(), expected, "{ether_type:02x?} {tci:#x} {octet_3:#x}");
        }
    }
}
