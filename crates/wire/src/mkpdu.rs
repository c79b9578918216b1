//! MKPDUs: what KaYs say to each other, in EAPOL frames (IEEE 802.1X-2020 clauses 11.3 and 11.11).
//!
//! ```text
//!  DA 6 | SA 6 | 88-8E | version 1 | type 5 | body length 2 | body
//!  body:  basic parameter set | parameter set ... | [ICV Indicator] | ICV 16
//!
//!  parameter set:        type 1 | 4 bits and more, by type | body length 12 bits | body | padding to 4 octets
//!  basic parameter set:  version 1 | priority 1 | KS 1, desired 1, capability 2, body length 12 bits |
//!                        SCI 8 | MI 12 | MN 4 | algorithm agility 4 | CKN 1 to 32 | padding to 4 octets
//! ```
//!
//! An MKPDU is parsed whole, before anything is decided: every length is checked once, by [`Mkpdu::parse`], and what
//! the parameter sets hold is read without another error. Whether the ICV is right is not known here: a parsed MKPDU is
//! a claim, and [`Mkpdu::authenticated`] and [`Mkpdu::icv`] are what its proof is made of. Unknown parameter sets stay
//! in the sequence as they came, and are for nobody. An MKPDU of a later version is read as far as this one goes
//! (clause 11.11.4): sets may be longer than they were.
//!
//! Left out on purpose: whether the destination address is a group's (the port knows its addresses), and reserved bits
//! and padding, which are ignored when read and zero when written. What is parsed and written again is the same octets
//! but for those, and for what a set of a later version has behind the end that is known here.

mod announcement;
mod sets;
#[cfg(test)]
mod tests;
mod writer;

pub use announcement::{CapableSuite, Extensions, SuiteList, TimingEntry, TimingList, Tlv, TlvWriter, Tlvs};
pub use sets::{ParameterSet, PeerList};
pub use writer::{TooLong, Writer};

use crate::ethernet::EtherType;
use crate::id::{An, Ckn, Ki, MacAddr, Mi, Sci};
use sets::RawSet;

/// The EAPOL version that goes with MKA (clause 11.3.1): what is written. Others are read.
pub const EAPOL_VERSION: u8 = 3;
/// The MKA version that is written (clause 11.11.3). Others are read.
pub const MKA_VERSION: u8 = 3;
/// The one algorithm agility there is: ICV, key wrap and key derivation of clauses 9.3, 9.4 and 9.8 (table 11-8).
pub const ALGORITHM_AGILITY: [u8; 4] = [0x00, 0x80, 0xc2, 0x01];
/// The EAPOL packet type of an MKPDU (table 11-3).
const EAPOL_MKA: u8 = 5;
/// Octets before the body: addresses, EtherType, EAPOL version, packet type, body length.
const EAPOL_HEADER_OCTETS: usize = 18;
/// Octets before a parameter set's body.
const SET_HEADER_OCTETS: usize = 4;
/// Octets of the basic parameter set's body before the CKN.
const BASIC_OCTETS: usize = 28;
/// The least octets of a body (clause 11.11.2).
const LEAST_BODY_OCTETS: usize = 32;
/// The type of the ICV Indicator.
const ICV_INDICATOR: u8 = 255;

/// Whether this is an untagged EAPOL frame of the type that carries MKPDUs, whatever is in it.
pub fn is_eapol_mka(frame: &[u8]) -> bool {
    matches!(frame.get(12..16), Some([high, low, _, EAPOL_MKA])
        if u16::from_be_bytes([*high, *low]) == EtherType::EAPOL.0)
}

/// Octets of the ICV.
pub const ICV_OCTETS: usize = 16;

/// A participant that another one has heard: its MI and the last MN heard of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerEntry {
    /// Who.
    pub mi: Mi,
    /// Its last Message Number.
    pub mn: u32,
}

/// What a station can do with MACsec (clause 11.11.3, MACsec Capability).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Capability {
    /// No MACsec.
    None,
    /// Integrity without confidentiality.
    Integrity,
    /// And confidentiality with offset 0.
    Confidentiality,
    /// And with offsets 30 and 50.
    Offsets,
}

/// How the frames of a SAK are protected (clause 11.11.3, Confidentiality Offset).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confidentiality {
    /// Not at all confidential: 0.
    Integrity,
    /// From the first octet on: 1.
    Zero,
    /// From the 31st octet on: 2.
    Thirty,
    /// From the 51st octet on: 3.
    Fifty,
}

/// The basic parameter set: who speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BasicParameters {
    /// The MKA version.
    pub version: u8,
    /// The key server priority: the lowest wins; 255 never does.
    pub priority: u8,
    /// Whether the sender is, or believes it should be, key server.
    pub key_server: bool,
    /// Whether the sender wants MACsec.
    pub macsec_desired: bool,
    /// What it can do.
    pub capability: Capability,
    /// Its SCI.
    pub sci: Sci,
    /// Its MI.
    pub mi: Mi,
    /// Its Message Number, from 1 with each MI.
    pub mn: u32,
    /// The algorithm agility: 00-80-C2-01.
    pub agility: [u8; 4],
    /// Under which CAK it speaks.
    pub ckn: Ckn,
}

/// One key in the SAK Use parameter set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// Which.
    pub ki: Ki,
    /// Its AN.
    pub an: An,
    /// Whether the sender protects frames with it.
    pub tx: bool,
    /// Whether the sender accepts frames under it.
    pub rx: bool,
    /// The low 32 bits of the lowest PN that may still come of what the sender transmits under it.
    pub lowest_pn: u32,
}

/// The SAK Use parameter set: the latest and the old key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SakUse {
    /// The latest key.
    pub latest: Option<KeyUse>,
    /// The one before.
    pub old: Option<KeyUse>,
    /// The sender is not capable of MACsec, or sends in clear.
    pub plain_tx: bool,
    /// The sender accepts frames in clear.
    pub plain_rx: bool,
    /// Receivers may hold the sender to its lowest PNs.
    pub delay_protect: bool,
}

/// The Distributed SAK parameter set: a wrapped key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DistributedSak<'f> {
    /// The AN.
    pub an: An,
    /// How its frames are protected.
    pub confidentiality: Confidentiality,
    /// The Key Number.
    pub kn: u32,
    /// The cipher suite's identifier; left out for GCM-AES-128.
    pub suite: Option<[u8; 8]>,
    /// The SAK, wrapped under the KEK: 24 or 40 octets.
    pub wrapped: &'f [u8],
}

/// An MKPDU that was parsed whole, and not verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mkpdu<'f> {
    /// To whom the frame went.
    pub destination: MacAddr,
    /// Who sent the frame.
    pub source: MacAddr,
    /// The EAPOL version.
    pub eapol_version: u8,
    /// Who speaks.
    pub basic: BasicParameters,
    /// The parameter sets behind the basic one, checked.
    sets: &'f [u8],
    /// The ICV Indicator parameter set stands before the ICV.
    pub icv_indicated: bool,
    authenticated: &'f [u8],
    icv: &'f [u8; ICV_OCTETS],
}

/// Which rule a frame broke: the first one, in the order of its octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MkpduError {
    /// The frame ends inside its EAPOL header, or before its body does (clause 11.3.3).
    Truncated,
    /// Another EtherType than EAPOL's (clause 11.1).
    NotEapol,
    /// An EAPOL packet of another type than EAPOL-MKA: this one (table 11-3).
    NotMka(u8),
    /// The body has fewer than 32 octets (clause 11.11.2).
    TooShort,
    /// The body is no multiple of 4 octets (clause 11.11.2).
    Alignment,
    /// MKA version 0, which there is none (clause 11.11.3).
    Version,
    /// The basic parameter set ends before its CKN does, or the CKN has more than 32 octets (clause 11.11.3).
    Ckn,
    /// The basic parameter set leaves no room for the ICV (clause 11.11.2).
    BasicTooLong,
    /// The parameter set of this type leaves no room for the ICV (clause 11.11.4).
    SetTooLong(u8),
    /// A second parameter set of this type, which stands once (clause 11.11.1).
    Repeated(u8),
    /// A list of peers is no multiple of 16 octets (figure 11-9).
    PeerList,
    /// A SAK Use of 1 to 39 octets (figure 11-10).
    SakUse,
    /// A Distributed SAK of fewer than 36 octets, but for 0 and 28 (figures 11-11 and 11-12).
    DistributedSak,
    /// A Distributed CAK without a CKN, or with one of more than 32 octets behind a wrapped CAK of 24 or 40 (figure 11-13).
    DistributedCak,
    /// A Key Management Domain of more than 253 octets (clause 12.6).
    Kmd,
    /// An XPN of fewer than 8 octets (clause 11.11.3).
    Xpn,
    /// An ICV Indicator that is not the last set, or tells of another ICV than 16 octets (clause 11.11.1).
    IcvIndicator,
}

impl<'f> Mkpdu<'f> {
    /// Parses a frame from its destination address on; Ethernet's padding behind the body is ignored.
    ///
    /// # Errors
    /// The rule that the frame breaks.
    pub fn parse(frame: &'f [u8]) -> Result<Self, MkpduError> {
        let (destination, rest) = frame.split_first_chunk().ok_or(MkpduError::Truncated)?;
        let (source, rest) = rest.split_first_chunk().ok_or(MkpduError::Truncated)?;
        let (ethertype, rest) = rest.split_first_chunk().ok_or(MkpduError::Truncated)?;
        if u16::from_be_bytes(*ethertype) != EtherType::EAPOL.0 {
            return Err(MkpduError::NotEapol);
        }
        let ([eapol_version, packet_type, length @ ..], rest) =
            rest.split_first_chunk::<4>().ok_or(MkpduError::Truncated)?;
        if *packet_type != EAPOL_MKA {
            return Err(MkpduError::NotMka(*packet_type));
        }
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let body = rest.get(..length).ok_or(MkpduError::Truncated)?;
        if length < LEAST_BODY_OCTETS {
            return Err(MkpduError::TooShort);
        }
        if !length.is_multiple_of(4) {
            return Err(MkpduError::Alignment);
        }
        let (body, icv) = body.split_last_chunk().ok_or(MkpduError::TooShort)?;
        let (basic, rest) = BasicParameters::parse(body)?;
        let (sets, icv_indicated) = sets::check(rest)?;
        Ok(Self {
            destination: MacAddr(*destination),
            source: MacAddr(*source),
            eapol_version: *eapol_version,
            basic,
            sets,
            icv_indicated,
            authenticated: &frame[..EAPOL_HEADER_OCTETS + body.len()],
            icv,
        })
    }

    /// The parameter sets behind the basic one, in their order; without the ICV Indicator.
    pub fn sets(&self) -> impl Iterator<Item = ParameterSet<'f>> + use<'f> {
        let mut rest = self.sets;
        core::iter::from_fn(move || {
            let (set, behind) = RawSet::split(rest)?;
            rest = behind;
            // Each was decoded once by `parse`.
            set.decode().ok()
        })
    }

    /// What the ICV is computed over: the frame from its destination address up to the ICV (clause 9.4.1).
    pub const fn authenticated(&self) -> &'f [u8] {
        self.authenticated
    }

    /// The ICV that the frame carries.
    pub const fn icv(&self) -> &'f [u8; ICV_OCTETS] {
        self.icv
    }
}

impl BasicParameters {
    /// Reads the basic parameter set at the start of a body without its ICV, and returns what is behind it.
    fn parse(body: &[u8]) -> Result<(Self, &[u8]), MkpduError> {
        let (header, _) = body.split_first_chunk::<SET_HEADER_OCTETS>().ok_or(MkpduError::BasicTooLong)?;
        let [version, priority, bits, _] = *header;
        if version == 0 {
            return Err(MkpduError::Version);
        }
        let (set, rest) = RawSet::split(body).ok_or(MkpduError::BasicTooLong)?;
        let mut fields = Fields(set.body);
        let ckn_and_before = (fields.take(), fields.take(), fields.take(), fields.take());
        let (Some(sci), Some(mi), Some(mn), Some(agility)) = ckn_and_before else {
            return Err(MkpduError::Ckn);
        };
        let basic = Self {
            version,
            priority,
            key_server: bits & 0x80 != 0,
            macsec_desired: bits & 0x40 != 0,
            capability: Capability::from_bits(bits >> 4),
            sci: Sci::from_octets(sci),
            mi: Mi(mi),
            mn: u32::from_be_bytes(mn),
            agility,
            ckn: Ckn::new(fields.0).ok_or(MkpduError::Ckn)?,
        };
        Ok((basic, rest))
    }
}

impl Capability {
    /// What the two low bits say.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0x03 {
            0 => Self::None,
            1 => Self::Integrity,
            2 => Self::Confidentiality,
            _ => Self::Offsets,
        }
    }

    /// The two bits, as a number from 0 to 3.
    pub const fn bits(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Integrity => 1,
            Self::Confidentiality => 2,
            Self::Offsets => 3,
        }
    }
}

impl Confidentiality {
    /// What the two low bits say.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0x03 {
            0 => Self::Integrity,
            1 => Self::Zero,
            2 => Self::Thirty,
            _ => Self::Fifty,
        }
    }

    /// The two bits, as a number from 0 to 3.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Integrity => 0,
            Self::Zero => 1,
            Self::Thirty => 2,
            Self::Fifty => 3,
        }
    }
}

/// Octets that are read from the front.
struct Fields<'f>(&'f [u8]);

impl<'f> Fields<'f> {
    /// The next `N` octets, if there are as many.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }
}

/// A length with its padding to 4 octets.
const fn padded(octets: usize) -> usize {
    octets.next_multiple_of(4)
}
