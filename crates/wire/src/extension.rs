//! Extension headers of the SecTAG: the boundaries of SDUs inside the secure data (thesis chapters 3 and 4;
//! TII paper section IV).
//!
//! ```text
//!  SecTAG (EXT) | header 1 | header 2 | … | segment 1 | segment 2 | segment 3 | … | ICV
//!
//!  header:  SEGL 11 | reserved 3 | CF 1 | EXT 1           16 bits, big-endian
//! ```
//!
//! The n-th header gives the length of segment n + 1; the first segment has the rest. CF (continuation)
//! stands in the first header only. It says that the first segment continues the last SDU of the frame with
//! the preceding PN. A frame that only continues an SDU has one header with SEGL 0. EXT says that another
//! header follows. A frame without extension headers has one segment, which begins an SDU.
//!
//! *Departure.* The thesis has no CF: after a lost frame, its receiver cannot tell a tail from a fresh SDU.
//!
//! [`padded`] has the frames whose boundaries are encrypted.

pub mod padded;

use crate::ethernet::ETHERTYPE_OCTETS;

/// Octets of an extension header.
pub const EXTENSION_OCTETS: usize = 2;
/// Most extension headers in a frame.
pub const EXTENSIONS: usize = 32;
/// Most segments in a frame.
pub const SEGMENTS: usize = EXTENSIONS + 1;
/// Longest segment that a header can describe. Only the first segment may be longer.
pub const SEGMENT_OCTETS: usize = 2047;

const RESERVED: u16 = 0x001c;
const CF: u16 = 0x0002;
const EXT: u16 = 0x0001;
const SEGL_SHIFT: u32 = 5;

/// Broken rule of the extension headers. The whole frame is malformed then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExtensionError {
    /// More than [`EXTENSIONS`] headers, or the frame ends inside them.
    Count,
    /// A reserved bit is set.
    ReservedBits,
    /// CF outside the first header.
    Continuation,
    /// SEGL 0 anywhere but in a sole header with CF.
    EmptySegment,
    /// The lengths leave nothing for the first segment.
    Sum,
    /// A segment that begins a payload is shorter than an EtherType.
    ShortSegment,
    /// MF outside the last header of a padded frame, or in its SecTAG.
    MoreFragments,
}

/// Number of extension headers at the start of `octets`, when the SecTAG has EXT set. Reads nothing but the
/// EXT bits, which is enough to find the secure data.
///
/// # Errors
/// [`ExtensionError::Count`].
pub fn count(octets: &[u8]) -> Result<usize, ExtensionError> {
    for (before, header) in octets.chunks_exact(EXTENSION_OCTETS).take(EXTENSIONS).enumerate() {
        if u16::from_be_bytes([header[0], header[1]]) & EXT == 0 {
            return Ok(before + 1);
        }
    }
    Err(ExtensionError::Count)
}

/// The segments of a frame's secure data, at least one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    lengths: [u16; SEGMENTS],
    count: u8,
    continues: bool,
}

impl Segments {
    /// One segment of `octets` that begins an SDU, or continues one.
    pub const fn one(octets: u16, continues: bool) -> Self {
        let mut lengths = [0; SEGMENTS];
        lengths[0] = octets;
        Self { lengths, count: 1, continues }
    }

    /// Appends a segment, if there is room for its header.
    ///
    /// # Errors
    /// [`ExtensionError::Count`], [`ExtensionError::ShortSegment`], or [`ExtensionError::Sum`] for a length
    /// that no header can hold.
    pub const fn push(&mut self, octets: u16) -> Result<(), ExtensionError> {
        self.push_up_to(octets, SEGMENT_OCTETS)
    }

    /// Appends a segment of at most `longest` octets, as [`Segments::push`] does.
    ///
    /// # Errors
    /// Those of [`Segments::push`].
    pub const fn push_up_to(&mut self, octets: u16, longest: usize) -> Result<(), ExtensionError> {
        if self.count as usize == SEGMENTS {
            return Err(ExtensionError::Count);
        }
        if (octets as usize) < ETHERTYPE_OCTETS {
            return Err(ExtensionError::ShortSegment);
        }
        if octets as usize > longest {
            return Err(ExtensionError::Sum);
        }
        self.lengths[self.count as usize] = octets;
        self.count += 1;
        Ok(())
    }

    /// True if the first segment continues an SDU.
    pub const fn continues(&self) -> bool {
        self.continues
    }

    /// The lengths, in octets.
    pub fn lengths(&self) -> &[u16] {
        &self.lengths[..self.count as usize]
    }

    /// Number of extension headers that describe these segments.
    pub const fn headers(&self) -> usize {
        match (self.count, self.continues) {
            (1, false) => 0,
            (1, true) => 1,
            (count, _) => count as usize - 1,
        }
    }

    /// Octets of the extension headers.
    pub const fn header_octets(&self) -> usize {
        self.headers() * EXTENSION_OCTETS
    }

    /// Parses exactly the extension headers in `octets`, of a frame with `secure_data` octets.
    ///
    /// # Errors
    /// The broken rule.
    pub fn parse(octets: &[u8], secure_data: usize) -> Result<Self, ExtensionError> {
        let headers = octets.len() / EXTENSION_OCTETS;
        let mut segments = Self::one(0, false);
        let mut rest = secure_data;
        for (index, header) in octets.chunks_exact(EXTENSION_OCTETS).enumerate() {
            let header = u16::from_be_bytes([header[0], header[1]]);
            if header & RESERVED != 0 {
                return Err(ExtensionError::ReservedBits);
            }
            match (index, header & CF != 0) {
                (0, continues) => segments.continues = continues,
                (_, true) => return Err(ExtensionError::Continuation),
                (_, false) => {}
            }
            let length = header >> SEGL_SHIFT;
            if length == 0 {
                if headers == 1 && segments.continues {
                    break;
                }
                return Err(ExtensionError::EmptySegment);
            }
            rest = rest.checked_sub(length.into()).filter(|&rest| rest > 0).ok_or(ExtensionError::Sum)?;
            segments.push(length)?;
        }
        if !segments.continues && rest < ETHERTYPE_OCTETS {
            return Err(ExtensionError::ShortSegment);
        }
        segments.lengths[0] = u16::try_from(rest).map_err(|_| ExtensionError::Sum)?;
        Ok(segments)
    }

    /// Writes the extension headers to the first [`Segments::header_octets`] octets of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than that.
    pub fn encode(&self, out: &mut [u8]) {
        let headers = self.headers();
        for index in 0..headers {
            // A lone continuation has no second segment: its header holds 0.
            let length = self.lengths().get(index + 1).copied().unwrap_or(0);
            let continues = if index == 0 && self.continues { CF } else { 0 };
            let more = if index + 1 < headers { EXT } else { 0 };
            let header = length << SEGL_SHIFT | continues | more;
            out[index * EXTENSION_OCTETS..][..EXTENSION_OCTETS].copy_from_slice(&header.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn header(length: u16, reserved: u16, continues: bool, more: bool) -> [u8; 2] {
        (length << 5 | reserved << 2 | u16::from(continues) << 1 | u16::from(more)).to_be_bytes()
    }

    #[test]
    fn the_grammar_by_rows() {
        use ExtensionError::{Continuation, EmptySegment, ReservedBits, ShortSegment, Sum};
        type Row = (&'static [(u16, u16, bool)], usize, Result<(bool, Vec<u16>), ExtensionError>);
        // headers (SEGL, reserved, CF), secure data, segments
        let rows: [Row; 18] = [
            (&[], 60, Ok((false, vec![60]))),
            (&[], 2, Ok((false, vec![2]))),
            (&[], 1, Err(ShortSegment)),
            (&[(0, 0, true)], 60, Ok((true, vec![60]))),
            (&[(0, 0, true)], 1, Ok((true, vec![1]))),
            (&[(0, 0, false)], 60, Err(EmptySegment)),
            (&[(0, 0, true), (5, 0, false)], 60, Err(EmptySegment)),
            (&[(5, 0, true), (0, 0, false)], 60, Err(EmptySegment)),
            (&[(58, 0, false)], 60, Ok((false, vec![2, 58]))),
            (&[(59, 0, false)], 60, Err(ShortSegment)),
            (&[(59, 0, true)], 60, Ok((true, vec![1, 59]))),
            (&[(60, 0, true)], 60, Err(Sum)),
            (&[(61, 0, false)], 60, Err(Sum)),
            (&[(1, 0, false)], 60, Err(ShortSegment)),
            (&[(10, 0, false), (20, 0, false)], 60, Ok((false, vec![30, 10, 20]))),
            (&[(10, 0, false), (20, 0, true)], 60, Err(Continuation)),
            (&[(10, 4, false)], 60, Err(ReservedBits)),
            (&[(2047, 0, false)], 9000, Ok((false, vec![6953, 2047]))),
        ];
        for (headers, secure_data, expected) in rows {
            let octets: Vec<u8> = headers
                .iter()
                .enumerate()
                .flat_map(|(index, &(length, reserved, cf))| {
                    header(length, reserved, cf, index + 1 < headers.len())
                })
                .collect();
            let parsed = Segments::parse(&octets, secure_data);
            let seen = parsed.map(|segments| (segments.continues(), segments.lengths().to_vec()));
            assert_eq!(seen, expected, "{headers:?} over {secure_data}");
        }
    }

    #[test]
    fn no_more_than_32_headers_are_counted() {
        let more = header(2, 0, false, true);
        let last = header(2, 0, false, false);
        for headers in 1..=40 {
            let octets: Vec<u8> = (1..headers).flat_map(|_| more).chain(last).collect();
            let expected = if headers <= EXTENSIONS { Ok(headers) } else { Err(ExtensionError::Count) };
            assert_eq!(count(&octets), expected, "{headers} headers");
        }
        assert_eq!(count(&[]), Err(ExtensionError::Count));
        assert_eq!(count(&more), Err(ExtensionError::Count), "the frame ends inside the headers");
        assert_eq!(count(&last[..1]), Err(ExtensionError::Count));
    }

    proptest! {
        #[test]
        fn what_is_encoded_parses_to_itself(
            first in 2..9000u16, continues: bool, others in proptest::collection::vec(2..=2047u16, 0..=EXTENSIONS),
        ) {
            let mut segments = Segments::one(first, continues);
            for other in others {
                segments.push(other).expect("room");
            }
            let secure_data: usize = segments.lengths().iter().map(|&length| usize::from(length)).sum();
            prop_assume!(secure_data <= u16::MAX.into());
            let mut out = [0; EXTENSIONS * EXTENSION_OCTETS];
            segments.encode(&mut out);
            let headers = &out[..segments.header_octets()];
            if !headers.is_empty() {
                prop_assert_eq!(count(headers), Ok(segments.headers()));
            }
            prop_assert_eq!(Segments::parse(headers, secure_data), Ok(segments));
        }

        #[test]
        fn what_parses_encodes_to_the_same_octets(octets in proptest::collection::vec(any::<u8>(), 0..80), secure_data in 0..3000usize) {
            if let Ok(headers) = count(&octets) {
                let headers = &octets[..headers * EXTENSION_OCTETS];
                if let Ok(segments) = Segments::parse(headers, secure_data) {
                    let mut out = [0; EXTENSIONS * EXTENSION_OCTETS];
                    segments.encode(&mut out);
                    prop_assert_eq!(&out[..segments.header_octets()], headers);
                }
            }
        }
    }
}
