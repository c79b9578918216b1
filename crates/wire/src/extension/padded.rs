//! Padded frames: the boundaries of SDUs stand inside the secure data, and octets that nobody delivers behind them. So
//! whoever cannot decrypt a frame learns neither the lengths of its SDUs, nor their number, nor whether one goes on in the
//! next frame (the aims of IEEE Std 802.1AEdk-2023).
//!
//! ```text
//!  SecTAG (EXT) | 0004 | header 1 | header 2 | … | segment 1 | segment 2 | … | padding | ICV
//!              in clear └──────────────────── secure data, encrypted ────────────────┘
//!
//!  header:  SEGL 13 | MF 1 | CF 1 | EXT 1         16 bits, big-endian
//! ```
//!
//! The extension header in clear is the same in all padded frames: bit 0x0004 is set, the others are 0. MF of the SecTAG is
//! never set with it. In the headers inside, the n-th has the length of segment n. CF stands in the first header only, and
//! says that segment 1 continues the last SDU of the frame with the preceding PN. MF stands in the last header only, and says
//! that its SDU goes on in the frame with the next PN. EXT says that another header follows. Padding has any length, 0
//! included; it is sent as zeros, and nobody looks at it. Secure data that begins with a header of 0 is padding alone.
//!
//! *Cover*: with bit 0x0008 beside, the header in clear is 000c, and each SDU is a whole frame, which begins with its own DA
//! and SA. Those in front of the SecTAG are then the same in all frames of a station, and tell nothing of who speaks with
//! whom. A segment that begins such an SDU holds an Ethernet header at least.
//!
//! Left out on purpose: without cover DA and SA stay in front of the SecTAG, as switches need them; 802.1AEdk hides them as
//! well.

use super::{CF, EXT, EXTENSION_OCTETS, ExtensionError, SEGMENTS, Segments};
use crate::MacAddr;
use crate::ethernet::{ETHERTYPE_OCTETS, HEADER_OCTETS};

/// The extension header of a padded frame, as it stands in clear.
pub const MARK: [u8; EXTENSION_OCTETS] = [0x00, 0x04];
/// The extension header of a padded frame whose SDUs have their addresses inside, as it stands in clear.
pub const COVER_MARK: [u8; EXTENSION_OCTETS] = [0x00, 0x0c];
/// Destination of frames whose SDUs have their addresses inside: a group address, locally administered, so that each switch
/// passes them on. No receiver looks at it.
pub const COVER_DESTINATION: MacAddr = MacAddr([0xf3, 0x46, 0x57, 0, 0, 1]);
/// Longest segment that a header can describe.
pub const SEGMENT_OCTETS: usize = 0x1fff;

const SEGL_SHIFT: u32 = 3;
const MF: u16 = 0x0004;

/// Contents of the headers inside a padded frame's secure data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contents {
    /// The segments. They stand behind [`header_octets`] of secure data.
    pub segments: Segments,
    /// MF: the last SDU goes on in the frame with the next PN.
    pub more_fragments: bool,
}

impl Contents {
    /// Parses the headers at the start of `secure_data`. `None` if it is padding alone.
    ///
    /// # Errors
    /// The broken rule.
    pub fn parse(secure_data: &[u8]) -> Result<Option<Self>, ExtensionError> {
        let headers = secure_data.as_chunks::<EXTENSION_OCTETS>().0;
        if headers.first() == Some(&[0, 0]) {
            return Ok(None);
        }
        let mut segments = Segments::one(0, false);
        let mut octets = 0;
        for (index, header) in headers.iter().take(SEGMENTS).enumerate() {
            let header = u16::from_be_bytes(*header);
            let [more_fragments, continues, another] = [MF, CF, EXT].map(|bit| header & bit != 0);
            if continues && index > 0 {
                return Err(ExtensionError::Continuation);
            }
            if more_fragments && another {
                return Err(ExtensionError::MoreFragments);
            }
            let length = header >> SEGL_SHIFT;
            if length == 0 {
                return Err(ExtensionError::EmptySegment);
            }
            if !continues && usize::from(length) < ETHERTYPE_OCTETS {
                return Err(ExtensionError::ShortSegment);
            }
            if index == 0 {
                segments = Segments::one(length, continues);
            } else {
                segments.lengths[index] = length;
                segments.count = index as u8 + 1;
            }
            octets += usize::from(length);
            if !another {
                let fits = header_octets(&segments) + octets <= secure_data.len();
                return if fits {
                    Ok(Some(Self { segments, more_fragments }))
                } else {
                    Err(ExtensionError::Sum)
                };
            }
        }
        Err(ExtensionError::Count)
    }

    /// These contents, if each SDU that begins in them can have its addresses inside.
    ///
    /// # Errors
    /// [`ExtensionError::ShortSegment`].
    pub fn with_addresses(self) -> Result<Self, ExtensionError> {
        let continued = usize::from(self.segments.continues());
        let mut begun = self.segments.lengths().iter().skip(continued);
        if begun.all(|&octets| usize::from(octets) >= HEADER_OCTETS) {
            Ok(self)
        } else {
            Err(ExtensionError::ShortSegment)
        }
    }

    /// Writes the headers to the first [`header_octets`] octets of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than that.
    pub fn encode(&self, out: &mut [u8]) {
        let lengths = self.segments.lengths();
        for (index, length) in lengths.iter().enumerate() {
            let is_last = index + 1 == lengths.len();
            let continues = if index == 0 && self.segments.continues { CF } else { 0 };
            let more_fragments = if is_last && self.more_fragments { MF } else { 0 };
            let another = if is_last { 0 } else { EXT };
            let header = length << SEGL_SHIFT | more_fragments | continues | another;
            out[index * EXTENSION_OCTETS..][..EXTENSION_OCTETS].copy_from_slice(&header.to_be_bytes());
        }
    }
}

/// Octets of the headers inside a padded frame with these segments.
pub const fn header_octets(segments: &Segments) -> usize {
    segments.count as usize * EXTENSION_OCTETS
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// SEGL, MF, CF, EXT.
    type Header = (u16, bool, bool, bool);

    fn octets(headers: &[Header], behind: usize) -> Vec<u8> {
        let header = |&(length, mf, cf, ext): &Header| {
            (length << 3 | u16::from(mf) << 2 | u16::from(cf) << 1 | u16::from(ext)).to_be_bytes()
        };
        headers.iter().flat_map(header).chain(std::iter::repeat_n(0xee, behind)).collect()
    }

    #[test]
    fn the_grammar_by_rows() {
        use ExtensionError::{Continuation, Count, EmptySegment, MoreFragments, ShortSegment, Sum};
        let (y, n) = (true, false);
        // headers, octets behind them, what they say: continues, more, lengths
        type Row<'r> = (&'r [Header], usize, Result<Option<(bool, bool, Vec<u16>)>, ExtensionError>);
        let rows: [Row<'_>; 22] = [
            (&[(60, n, n, n)], 60, Ok(Some((n, n, vec![60])))),
            (&[(60, n, n, n)], 900, Ok(Some((n, n, vec![60])))),
            (&[(60, n, n, n)], 59, Err(Sum)),
            (&[(60, y, n, n)], 60, Ok(Some((n, y, vec![60])))),
            (&[(60, n, y, n)], 60, Ok(Some((y, n, vec![60])))),
            (&[(60, y, y, n)], 60, Ok(Some((y, y, vec![60])))),
            (&[(1, n, n, n)], 60, Err(ShortSegment)),
            (&[(1, y, n, n)], 60, Err(ShortSegment)),
            (&[(1, n, y, n)], 60, Ok(Some((y, n, vec![1])))),
            (&[(10, n, n, y), (20, n, n, n)], 30, Ok(Some((n, n, vec![10, 20])))),
            (&[(10, n, n, y), (20, n, n, n)], 29, Err(Sum)),
            (&[(1, n, y, y), (20, y, n, n)], 30, Ok(Some((y, y, vec![1, 20])))),
            (&[(10, n, n, y), (1, n, n, n)], 30, Err(ShortSegment)),
            (&[(10, n, n, y), (20, n, y, n)], 30, Err(Continuation)),
            (&[(10, y, n, y), (20, n, n, n)], 30, Err(MoreFragments)),
            (&[(10, n, n, y), (0, n, n, n)], 30, Err(EmptySegment)),
            (&[(0, n, y, n)], 30, Err(EmptySegment)),
            (&[(0, y, n, n)], 30, Err(EmptySegment)),
            (&[(0, n, n, n)], 30, Ok(None)),
            (&[(0, n, n, n)], 0, Ok(None)),
            (&[(10, n, n, y)], 0, Err(Count)),
            (&[(8191, n, n, n)], 8191, Ok(Some((n, n, vec![8191])))),
        ];
        for (headers, behind, expected) in rows {
            let said = Contents::parse(&octets(headers, behind));
            let said = said.map(|said| {
                said.map(|Contents { segments, more_fragments }| {
                    (segments.continues(), more_fragments, segments.lengths().to_vec())
                })
            });
            assert_eq!(said, expected, "{headers:?} before {behind}");
        }
        assert_eq!(Contents::parse(&[]), Err(Count));
        assert_eq!(Contents::parse(&[0]), Err(Count));
    }

    #[test]
    fn no_more_than_33_headers_are_read() {
        for headers in 1..40 {
            let list: Vec<Header> = (1..=headers).map(|number| (2, false, false, number < headers)).collect();
            let said = Contents::parse(&octets(&list, 200));
            assert_eq!(said.is_ok(), headers <= SEGMENTS, "{headers} headers");
            assert!(said.is_ok() || said == Err(ExtensionError::Count));
        }
    }

    /// So a receiver that does not know padded frames discards them, whatever they hold.
    #[test]
    fn the_mark_is_malformed_for_a_receiver_that_does_not_know_it() {
        for mark in [MARK, COVER_MARK] {
            assert_eq!(super::super::count(&mark), Ok(1));
            for secure_data in [2, 60, 1500] {
                assert_eq!(Segments::parse(&mark, secure_data), Err(ExtensionError::ReservedBits));
            }
        }
    }

    #[test]
    fn what_begins_with_addresses_has_room_for_a_header() {
        let (y, n) = (true, false);
        let rows: [(&[Header], bool); 6] = [
            (&[(14, n, n, n)], y),
            (&[(13, n, n, n)], n),
            (&[(13, y, n, n)], n),
            (&[(1, n, y, n)], y),
            (&[(1, n, y, y), (14, y, n, n)], y),
            (&[(1, n, y, y), (13, n, n, n)], n),
        ];
        for (headers, fits) in rows {
            let contents = Contents::parse(&octets(headers, 40)).expect("legal").expect("not padding alone");
            let expected = if fits { Ok(contents) } else { Err(ExtensionError::ShortSegment) };
            assert_eq!(contents.with_addresses(), expected, "{headers:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_parses_to_itself(
            first in 2..=8191u16, continues: bool, more_fragments: bool, padding in 0..300usize,
            others in proptest::collection::vec(2..=2047u16, 0..SEGMENTS),
        ) {
            let mut segments = Segments::one(first, continues);
            for other in others {
                segments.push(other).expect("room");
            }
            let contents = Contents { segments, more_fragments };
            let behind: usize = segments.lengths().iter().map(|&length| usize::from(length)).sum();
            let mut out = vec![0xee; header_octets(&segments) + behind + padding];
            contents.encode(&mut out);
            prop_assert_eq!(Contents::parse(&out), Ok(Some(contents)));
            let cut = out.len() - padding - 1;
            prop_assert_eq!(Contents::parse(&out[..cut]), Err(ExtensionError::Sum));
        }

        #[test]
        fn what_parses_lies_inside_and_encodes_to_the_same_octets(octets in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(Some(contents)) = Contents::parse(&octets) {
                let headers = header_octets(&contents.segments);
                let sum: usize = contents.segments.lengths().iter().map(|&length| usize::from(length)).sum();
                prop_assert!(headers + sum <= octets.len());
                let mut out = vec![0; headers];
                contents.encode(&mut out);
                prop_assert_eq!(&out[..], &octets[..headers]);
            }
        }
    }
}
