//! The MACsec Security TAG (IEEE 802.1AE-2018 clause 9).
//!
//! ```text
//!  octet 0-1   EtherType 0x88E5
//!  octet 2     V 0x80 | ES 0x40 | SC 0x20 | SCB 0x10 | E 0x08 | C 0x04 | AN 0x03
//!  octet 3     EXT 0x80 | MF 0x40 | SL 0x3F
//!  octet 4-7   PN, or the low 32 bits of it (XPN)
//!  octet 8-15  SCI, present if SC is set
//! ```
//!
//! MF and EXT are reserved and zero in the standard. Stations that have agreed on them use them: MF says that
//! the last SDU of the frame continues in the next one, EXT that an extension header follows (see
//! [`crate::extension`]). All other stations must treat them as the standard does:
//! [`SecTagError::ReservedBits`].
//!
//! [`SecTag::parse`] checks every other rule of clause 9 that does not depend on the SA. A PN field of 0 is
//! legal with XPN, at every 2^32; the check of the PN rejects it for other suites. Octets 0-3 of a parsed tag
//! encode to the same octets again.

use crate::ethernet::EtherType;
use crate::id::{An, MacAddr, Sci};

/// Octets of a SecTAG without SCI.
pub const SECTAG_OCTETS: usize = 8;
/// Octets of a SecTAG with SCI.
pub const SECTAG_SCI_OCTETS: usize = 16;
/// Octets of the Integrity Check Value behind the secure data: 16 with every suite.
pub const ICV_OCTETS: usize = 16;
/// From this many octets of secure data, the Short Length field is 0 (clause 9.7).
pub const SHORT_LENGTH_LIMIT: usize = 48;

const V: u8 = 0x80;
const ES: u8 = 0x40;
const SC: u8 = 0x20;
const SCB: u8 = 0x10;
const E: u8 = 0x08;
const C: u8 = 0x04;
const MF: u8 = 0x40;
const EXT: u8 = 0x80;
const SL: u8 = 0x3f;

/// Broken rule of clause 9. Each makes the frame an `InPktsBadTag`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SecTagError {
    /// The frame ends inside the SecTAG.
    Truncated,
    /// V is 1: an undefined version (clause 9.5).
    Version,
    /// ES or SCB together with SC: two ways to name one SC (clause 9.5).
    ScBits,
    /// E without C is reserved for frames that are not for the Controlled Port (clause 9.5).
    EncryptedUnchanged,
    /// A reserved bit of octet 3 is set, and there is no agreement on its meaning (clause 9.7).
    ReservedBits,
    /// More extension headers than [`crate::extension::EXTENSIONS`], or the frame ends inside them.
    Extensions,
    /// SL is above 47 (clause 9.7), or 1 without EXT: an SDU begins with an EtherType of two octets.
    ShortLength,
    /// The frame is shorter than SL and the ICV require; with SL 0, shorter than 48 octets and the ICV
    /// (clause 9.7).
    TooShort,
}

/// Encoding of the Secure Channel in a SecTAG (clauses 9.5 and 9.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScEncoding {
    /// SC set: the tag holds the SCI.
    Explicit(Sci),
    /// ES set: the SCI is the source address with port identifier 1.
    EndStation,
    /// SCB set, with or without ES: EPON's broadcast channel, the source address with port identifier 0.
    SingleCopyBroadcast {
        /// The ES bit.
        end_station: bool,
    },
    /// None set: a point-to-point LAN, where the receiver has only one SC.
    PointToPoint,
}

impl ScEncoding {
    /// SCI of the tag in a frame from `source`; `None` if only the receiver can know it.
    pub const fn sci(self, source: MacAddr) -> Option<Sci> {
        match self {
            Self::Explicit(sci) => Some(sci),
            Self::EndStation => Some(Sci::new(source, Sci::PORT_END_STATION)),
            Self::SingleCopyBroadcast { .. } => Some(Sci::new(source, Sci::PORT_SINGLE_COPY_BROADCAST)),
            Self::PointToPoint => None,
        }
    }

    /// Octets of a SecTAG with this encoding, 8 or 16.
    pub const fn tag_octets(self) -> usize {
        match self {
            Self::Explicit(_) => SECTAG_SCI_OCTETS,
            _ => SECTAG_OCTETS,
        }
    }
}

/// A parsed SecTAG. Can hold nothing that clause 9 forbids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecTag {
    /// Encoding of the SC.
    pub sc: ScEncoding,
    /// E and C: form of the secure data.
    pub data: SecureData,
    /// The SA within the SC.
    pub an: An,
    /// EXT: an extension header follows the tag.
    pub extended: bool,
    /// MF: the last SDU of the frame continues in the frame with the next PN.
    pub more_fragments: bool,
    /// SL, if it is not 0. Does not count extension headers.
    pub short_length: Option<ShortLength>,
    /// The PN field: the PN, or its low 32 bits with XPN.
    pub pn: u32,
}

/// The E and C bits (clause 9.5). E without C does not parse.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SecureData {
    /// Neither: the octets of the SDU, integrity protected.
    Clear,
    /// C alone: changed by the cipher suite, not confidential. No suite here produces it.
    Changed,
    /// Both: encrypted.
    Encrypted,
}

/// A Short Length other than 0: 1 to 47 octets of secure data (clause 9.7). 1 only for a continued SDU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ShortLength(u8);

impl ShortLength {
    /// The Short Length for `octets` of secure data. None for 0, and from 48 octets on.
    pub const fn of(octets: usize) -> Option<Self> {
        if octets > 0 && octets < SHORT_LENGTH_LIMIT { Some(Self(octets as u8)) } else { None }
    }

    /// Octets of secure data.
    pub const fn octets(self) -> usize {
        self.0 as usize
    }
}

impl SecTag {
    /// Parses the SecTAG at the start of `octets`. They begin with its EtherType, which is not checked again.
    ///
    /// # Errors
    /// The first broken rule, in the order of the tag's octets.
    pub fn parse(octets: &[u8]) -> Result<Self, SecTagError> {
        let (tag, rest) = octets.split_first_chunk::<SECTAG_OCTETS>().ok_or(SecTagError::Truncated)?;
        let [_, _, tci, length, pn @ ..] = *tag;
        if tci & V != 0 {
            return Err(SecTagError::Version);
        }
        let sc = match (tci & SC != 0, tci & ES != 0, tci & SCB != 0) {
            (true, false, false) => {
                let sci = rest.first_chunk().ok_or(SecTagError::Truncated)?;
                ScEncoding::Explicit(Sci::from_octets(*sci))
            }
            (true, _, _) => return Err(SecTagError::ScBits),
            (false, end_station, true) => ScEncoding::SingleCopyBroadcast { end_station },
            (false, true, false) => ScEncoding::EndStation,
            (false, false, false) => ScEncoding::PointToPoint,
        };
        let data = match (tci & E != 0, tci & C != 0) {
            (true, true) => SecureData::Encrypted,
            (false, true) => SecureData::Changed,
            (false, false) => SecureData::Clear,
            (true, false) => return Err(SecTagError::EncryptedUnchanged),
        };
        let short_length = match length & SL {
            0 => None,
            1 if length & EXT == 0 => return Err(SecTagError::ShortLength),
            octets => Some(ShortLength::of(octets.into()).ok_or(SecTagError::ShortLength)?),
        };
        Ok(Self {
            sc,
            data,
            an: An::from_tci(tci),
            extended: length & EXT != 0,
            more_fragments: length & MF != 0,
            short_length,
            pn: u32::from_be_bytes(pn),
        })
    }

    /// Octets of this tag, 8 or 16.
    pub const fn octets(&self) -> usize {
        self.sc.tag_octets()
    }

    /// Octets of secure data in a frame that has `behind_tag` octets behind this SecTAG and its extension
    /// headers. Octets behind secure data and ICV are Ethernet padding. Only a frame with a Short Length can
    /// have padding: without one, padding could not be told from data.
    ///
    /// # Errors
    /// [`SecTagError::TooShort`].
    pub const fn secure_data_octets(&self, behind_tag: usize) -> Result<usize, SecTagError> {
        let Some(most) = behind_tag.checked_sub(ICV_OCTETS) else {
            return Err(SecTagError::TooShort);
        };
        match self.short_length {
            Some(length) if length.octets() <= most => Ok(length.octets()),
            None if most >= SHORT_LENGTH_LIMIT => Ok(most),
            _ => Err(SecTagError::TooShort),
        }
    }

    /// Writes the tag, EtherType included, to the first [`SecTag::octets`] octets of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than that.
    pub fn encode(&self, out: &mut [u8]) {
        let sc_bits = match self.sc {
            ScEncoding::Explicit(_) => SC,
            ScEncoding::EndStation => ES,
            ScEncoding::SingleCopyBroadcast { end_station: true } => ES | SCB,
            ScEncoding::SingleCopyBroadcast { end_station: false } => SCB,
            ScEncoding::PointToPoint => 0,
        };
        let data_bits = match self.data {
            SecureData::Clear => 0,
            SecureData::Changed => C,
            SecureData::Encrypted => E | C,
        };
        out[..2].copy_from_slice(&EtherType::MACSEC.0.to_be_bytes());
        out[2] = sc_bits | data_bits | self.an.number();
        let bits = if self.extended { EXT } else { 0 } | if self.more_fragments { MF } else { 0 };
        out[3] = bits | self.short_length.map_or(0, |length| length.0);
        out[4..8].copy_from_slice(&self.pn.to_be_bytes());
        if let ScEncoding::Explicit(sci) = self.sc {
            out[SECTAG_OCTETS..SECTAG_SCI_OCTETS].copy_from_slice(&sci.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    /// IEEE 802.1AE-2006 Annex C.1: integrity protection, 54 octets, with SCI.
    const ANNEX_C: [u8; 16] =
        [0x88, 0xe5, 0x22, 0x2a, 0xb2, 0xc2, 0x84, 0x65, 0x12, 0x15, 0x35, 0x24, 0xc0, 0x89, 0x5e, 0x81];

    #[test]
    fn the_standards_example_parses_and_encodes() {
        let tag = SecTag::parse(&ANNEX_C).expect("valid");
        assert_eq!(tag.sc, ScEncoding::Explicit("12:15:35:24:c0:89/24193".parse().expect("an SCI")));
        assert_eq!((tag.data, tag.an.number(), tag.pn), (SecureData::Clear, 2, 0xb2c2_8465));
        assert_eq!(tag.short_length.map(ShortLength::octets), Some(42));
        let mut out = [0; 16];
        tag.encode(&mut out);
        assert_eq!(out, ANNEX_C);
    }

    #[test]
    fn every_tci_octet_follows_clause_9_5() {
        for tci in 0..=u8::MAX {
            let mut octets = ANNEX_C;
            octets[2] = tci;
            let (v, es, sc, scb) = (tci & 0x80 != 0, tci & 0x40 != 0, tci & 0x20 != 0, tci & 0x10 != 0);
            let (e, c) = (tci & 0x08 != 0, tci & 0x04 != 0);
            let expected = if v {
                Err(SecTagError::Version)
            } else if sc && (es || scb) {
                Err(SecTagError::ScBits)
            } else if e && !c {
                Err(SecTagError::EncryptedUnchanged)
            } else {
                Ok(if sc { 16 } else { 8 })
            };
            assert_eq!(SecTag::parse(&octets).map(|tag| tag.octets()), expected, "TCI {tci:#04x}");
        }
    }

    #[test]
    fn every_length_octet_follows_clause_9_7() {
        for length in 0..=u8::MAX {
            let mut octets = ANNEX_C;
            octets[3] = length;
            let short_length = match length & 0x3f {
                0 => Ok(None),
                short @ 2..=47 => Ok(Some(short.into())),
                1 if length & 0x80 != 0 => Ok(Some(1)),
                _ => Err(SecTagError::ShortLength),
            };
            let expected = short_length.map(|short| (length & 0x80 != 0, length & 0x40 != 0, short));
            let parsed = SecTag::parse(&octets)
                .map(|tag| (tag.extended, tag.more_fragments, tag.short_length.map(ShortLength::octets)));
            assert_eq!(parsed, expected, "octet 3 {length:#04x}");
        }
    }

    #[test]
    fn secure_data_ends_where_the_short_length_says() {
        use SecTagError::TooShort;
        let rows = [
            // (SL, octets behind the tag, octets of secure data)
            (0, 0, Err(TooShort)),
            (0, 15, Err(TooShort)),
            (0, 63, Err(TooShort)),
            (0, 64, Ok(48)),
            (0, 1516, Ok(1500)),
            (2, 17, Err(TooShort)),
            (2, 18, Ok(2)),
            (2, 64, Ok(2)),
            (47, 62, Err(TooShort)),
            (47, 63, Ok(47)),
            (47, 1516, Ok(47)),
        ];
        for (length, behind_tag, expected) in rows {
            let tag =
                SecTag { short_length: ShortLength::of(length), ..SecTag::parse(&ANNEX_C).expect("valid") };
            assert_eq!(tag.secure_data_octets(behind_tag), expected, "SL {length}, {behind_tag} behind");
        }
    }

    #[test]
    fn every_cut_is_truncated() {
        for octets in 0..ANNEX_C.len() {
            assert_eq!(SecTag::parse(&ANNEX_C[..octets]), Err(SecTagError::Truncated), "{octets} octets");
        }
    }

    #[test]
    fn the_sci_of_a_tag_without_sci() {
        let source = MacAddr([2, 0, 0, 0, 0, 7]);
        let rows = [
            (ScEncoding::EndStation, Some(Sci::new(source, 1))),
            (ScEncoding::SingleCopyBroadcast { end_station: true }, Some(Sci::new(source, 0))),
            (ScEncoding::SingleCopyBroadcast { end_station: false }, Some(Sci::new(source, 0))),
            (ScEncoding::PointToPoint, None),
        ];
        for (sc, sci) in rows {
            assert_eq!(sc.sci(source), sci);
        }
    }

    proptest! {
        #[test]
        fn what_parses_encodes_to_the_same_octets(octets in proptest::array::uniform16(any::<u8>())) {
            let octets = { let mut octets = octets; octets[..2].copy_from_slice(&[0x88, 0xe5]); octets };
            if let Ok(tag) = SecTag::parse(&octets) {
                let mut out = [0; 16];
                tag.encode(&mut out);
                prop_assert_eq!(&out[..tag.octets()], &octets[..tag.octets()]);
            }
        }
    }
}
