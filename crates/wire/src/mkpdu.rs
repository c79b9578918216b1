//! MKPDUs: the messages between KaYs, in EAPOL frames (IEEE 802.1X-2020 clauses 11.3 and 11.11).
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
//! [`Mkpdu::parse`] parses a whole MKPDU before anything is decided. It checks every length once, so reading
//! the parameter sets cannot fail. It does not verify the ICV: a parsed MKPDU is a claim.
//! [`Mkpdu::authenticated`] and [`Mkpdu::icv`] hold what the verification needs. Unknown parameter sets stay
//! in the sequence, unread. An MKPDU of a later version is read as far as this one goes (clause 11.11.4): its
//! sets may be longer.
//!
//! Left out on purpose: the check that the destination is a group address (the port knows its addresses);
//! reserved bits and padding, which are ignored on reading and zero on writing. Parsing and writing give the
//! same octets again, except for those and for the unknown end of a later version's set.

mod announcement;
mod sets;
mod system_name;
#[cfg(test)]
mod tests;
mod writer;

pub use announcement::{CapableSuite, Extensions, SuiteList, TimingEntry, TimingList, Tlv, TlvWriter, Tlvs};
pub use sets::{ParameterSet, PeerList};
pub use system_name::{BadName, SystemName};
pub use writer::{TooLong, Writer};

use serde::{Deserialize, Serialize};

use crate::ethernet::{EtherType, Header};
use crate::id::{An, Ckn, Ki, MacAddr, Mi, Sci};
use sets::RawSet;

/// EAPOL version of written frames (clause 11.3.1). Others are read.
pub const EAPOL_VERSION: u8 = 3;
/// MKA version of written frames (clause 11.11.3). Others are read.
pub const MKA_VERSION: u8 = 3;
/// The only algorithm agility: ICV, key wrap and key derivation of clauses 9.3, 9.4 and 9.8 (table 11-8).
pub const ALGORITHM_AGILITY: [u8; 4] = [0x00, 0x80, 0xc2, 0x01];
/// The EAPOL packet type of an MKPDU (table 11-3).
const EAPOL_MKA: u8 = 5;
/// Octets before the body: addresses, EtherType, EAPOL version, packet type, body length.
const EAPOL_HEADER_OCTETS: usize = 18;
/// Octets before a parameter set's body.
const SET_HEADER_OCTETS: usize = 4;
/// Octets of the basic parameter set's body before the CKN.
const BASIC_OCTETS: usize = 28;
/// Minimum length of a body (clause 11.11.2).
const LEAST_BODY_OCTETS: usize = 32;
/// The type of the ICV Indicator.
const ICV_INDICATOR: u8 = 255;

/// True for an untagged EAPOL frame of the packet type of MKPDUs. Checks nothing behind the type.
pub fn is_eapol_mka(frame: &[u8]) -> bool {
    matches!(frame.get(12..16), Some([high, low, _, EAPOL_MKA])
        if u16::from_be_bytes([*high, *low]) == EtherType::EAPOL.0)
}

/// The same, also behind one or two VLAN tags: a KaY of a VLAN's interface sends such.
pub fn is_outer_tagged_eapol_mka(frame: &[u8]) -> bool {
    let Ok(header) = Header::parse(frame) else { return false };
    header.ethertype == EtherType::EAPOL && frame.get(header.octets() + 1) == Some(&EAPOL_MKA)
}

/// Octets of the ICV.
pub const ICV_OCTETS: usize = 16;

/// Entry of a peer list: a participant's MI and the last MN heard from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerEntry {
    /// The participant.
    pub mi: Mi,
    /// Its last Message Number.
    pub mn: u32,
}

/// MACsec Capability of a station (clause 11.11.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Capability {
    /// No MACsec.
    None,
    /// Integrity without confidentiality.
    Integrity,
    /// Integrity and confidentiality with offset 0.
    Confidentiality,
    /// Integrity and confidentiality with offsets 0, 30 and 50.
    Offsets,
}

/// Confidentiality Offset of a SAK (clause 11.11.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Confidentiality {
    /// No confidentiality: 0.
    Integrity,
    /// Confidential from the first octet: 1.
    Zero,
    /// Confidential from the 31st octet: 2.
    Thirty,
    /// Confidential from the 51st octet: 3.
    Fifty,
}

/// The basic parameter set: the sender of the MKPDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BasicParameters {
    /// The MKA version.
    pub version: u8,
    /// Key server priority. The lowest wins; 255 never becomes key server.
    pub priority: u8,
    /// True if the sender is key server, or believes that it should be.
    pub key_server: bool,
    /// True if the sender wants MACsec.
    pub macsec_desired: bool,
    /// MACsec capability of the sender.
    pub capability: Capability,
    /// Its SCI.
    pub sci: Sci,
    /// Its MI.
    pub mi: Mi,
    /// Its Message Number, from 1 with each MI.
    pub mn: u32,
    /// The algorithm agility: 00-80-C2-01.
    pub agility: [u8; 4],
    /// Name of the CAK that protects this MKPDU.
    pub ckn: Ckn,
}

/// One key in the SAK Use parameter set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// The key's identifier.
    pub ki: Ki,
    /// Its AN.
    pub an: An,
    /// True if the sender protects frames with it.
    pub tx: bool,
    /// True if the sender accepts frames under it.
    pub rx: bool,
    /// Low 32 bits of the lowest PN that the sender may still transmit under it.
    pub lowest_pn: u32,
}

/// The SAK Use parameter set: the latest and the old key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SakUse {
    /// The previous key.
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
    /// Confidentiality of its frames.
    pub confidentiality: Confidentiality,
    /// The Key Number.
    pub kn: u32,
    /// Cipher suite identifier; absent for GCM-AES-128.
    pub suite: Option<[u8; 8]>,
    /// The SAK, wrapped under the KEK: 24 or 40 octets.
    pub wrapped: &'f [u8],
}

/// A parsed MKPDU, not yet verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mkpdu<'f> {
    /// Destination address of the frame.
    pub destination: MacAddr,
    /// Source address of the frame.
    pub source: MacAddr,
    /// The EAPOL version.
    pub eapol_version: u8,
    /// The basic parameter set.
    pub basic: BasicParameters,
    /// The checked parameter sets behind the basic one.
    sets: &'f [u8],
    /// True if the ICV Indicator parameter set stands before the ICV.
    pub icv_indicated: bool,
    authenticated: &'f [u8],
    icv: &'f [u8; ICV_OCTETS],
}

/// First broken rule of a frame, in the order of its octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MkpduError {
    /// The frame ends inside its EAPOL header, or before its body does (clause 11.3.3).
    Truncated,
    /// An EtherType other than EAPOL's (clause 11.1).
    NotEapol,
    /// An EAPOL packet that is no EAPOL-MKA, with its packet type (table 11-3).
    NotMka(u8),
    /// The body has fewer than 32 octets (clause 11.11.2).
    TooShort,
    /// The body is no multiple of 4 octets (clause 11.11.2).
    Alignment,
    /// MKA version 0, which does not exist (clause 11.11.3).
    Version,
    /// The basic parameter set ends before its CKN does, or the CKN has more than 32 octets (clause 11.11.3).
    Ckn,
    /// The basic parameter set leaves no room for the ICV (clause 11.11.2).
    BasicTooLong,
    /// The parameter set of this type leaves no room for the ICV (clause 11.11.4).
    SetTooLong(u8),
    /// A second parameter set of this type, which may stand once only (clause 11.11.1).
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
    /// Parses a frame from its destination address. Ignores Ethernet padding behind the body.
    ///
    /// # Errors
    /// The broken rule.
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
            // `parse` has decoded each set once.
            set.decode().ok()
        })
    }

    /// The octets that the ICV covers: the frame from its destination address up to the ICV (clause 9.4.1).
    pub const fn authenticated(&self) -> &'f [u8] {
        self.authenticated
    }

    /// The ICV that the frame carries.
    pub const fn icv(&self) -> &'f [u8; ICV_OCTETS] {
        self.icv
    }
}

impl BasicParameters {
    /// Parses the basic parameter set at the start of a body without its ICV. Returns it and the rest.
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
    /// Decodes the two low bits.
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
    /// Decodes the two low bits.
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

/// Octets to be consumed from the front.
struct Fields<'f>(&'f [u8]);

impl<'f> Fields<'f> {
    /// The next `N` octets, if there are as many.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }
}

/// Length including the padding to 4 octets.
const fn padded(octets: usize) -> usize {
    octets.next_multiple_of(4)
}
