//! Reasons in the words of an engineer: what it is, and what it usually comes from.

use secy::ReceiveDiscard;
use wire::mkpdu::MkpduError;
use wire::{ExtensionError, SecTagError};

use super::overheard::Refusal;

/// Meaning of a broken rule of clause 9.
pub const fn bad_tag(error: SecTagError) -> &'static str {
    match error {
        SecTagError::Truncated => "the frame ends inside the SecTAG",
        SecTagError::Version => "the SecTAG's version bit is set; only version 0 is defined",
        SecTagError::ScBits => "ES or SCB is set together with SC, which name one SC in two ways",
        SecTagError::EncryptedUnchanged => "E is set without C: reserved, and never delivered",
        SecTagError::ReservedBits => {
            "MF or EXT is set, but this receiver does not reassemble: set fragment or concatenate = \"on\" on both ends"
        }
        SecTagError::Extensions => "the frame ends inside its extension headers, or has more than 32",
        SecTagError::ShortLength => "the Short Length is above 47, or 1 without extension headers",
        SecTagError::TooShort => {
            "the frame is shorter than its Short Length and ICV: it was cut on the way, or padding was removed"
        }
    }
}

/// Meaning of a broken rule of the extension headers.
pub const fn malformed(error: ExtensionError) -> &'static str {
    match error {
        ExtensionError::Count => "more than 32 extension headers, or the frame ends inside them",
        ExtensionError::ReservedBits => "a reserved bit of an extension header is set",
        ExtensionError::Continuation => "CF is set in an extension header that is not the first",
        ExtensionError::EmptySegment => "SEGL is 0, which only a sole extension header with CF may have",
        ExtensionError::Sum => "the segments are longer than the secure data",
        ExtensionError::ShortSegment => "a segment that begins a payload is shorter than an EtherType",
        ExtensionError::MoreFragments => {
            "MF is set in a header of a padded frame that is not the last, or in its SecTAG"
        }
    }
}

/// Meaning of a broken rule of IEEE 802.1X clause 11.
pub fn bad_mkpdu(error: MkpduError) -> String {
    let text = match error {
        MkpduError::Truncated => "the frame is shorter than the MKPDU's body length says",
        MkpduError::NotEapol => "no EAPOL frame",
        MkpduError::NotMka(kind) => return format!("an EAPOL packet of type {kind}, not an MKPDU"),
        MkpduError::TooShort => "its body has fewer than 32 octets",
        MkpduError::Alignment => "its body is not a multiple of 4 octets",
        MkpduError::Version => "it has MKA version 0, which does not exist",
        MkpduError::Ckn => "its basic parameter set ends before its CKN, or the CKN has more than 32 octets",
        MkpduError::BasicTooLong => "its basic parameter set leaves no room for the ICV",
        MkpduError::SetTooLong(kind) => {
            return format!("its parameter set of type {kind} leaves no room for the ICV");
        }
        MkpduError::Repeated(kind) => {
            return format!("it has two parameter sets of type {kind}; only one is allowed");
        }
        MkpduError::PeerList => "its list of peers is not a multiple of 16 octets",
        MkpduError::SakUse => "its SAK Use has 1 to 39 octets; only 0 or 40 are allowed",
        MkpduError::DistributedSak => "its Distributed SAK has fewer than 36 octets, but neither 0 nor 28",
        MkpduError::DistributedCak => "its Distributed CAK has no CKN, or one of more than 32 octets",
        MkpduError::Kmd => "its Key Management Domain has more than 253 octets",
        MkpduError::Xpn => "its XPN parameter set has fewer than 8 octets",
        MkpduError::IcvIndicator => {
            "its ICV Indicator is not the last set, or its ICV does not have 16 octets"
        }
    };
    text.into()
}

/// Why a KaY discards an MKPDU, or does not take its SAK.
pub fn refusal(refusal: Refusal) -> String {
    match refusal {
        Refusal::OtherAgility(agility) => format!(
            "its algorithms are {}, not the standard's, 0080c201",
            hex::encode(agility)
        ),
        Refusal::UnknownCkn(ckn) => format!("there is no CAK with CKN {ckn}: name its file with --cak"),
        Refusal::WrongIcv(0) => {
            "the ICV does not match, and no MKPDU of its sender was verified before: another CAK under this CKN, or altered on the way".into()
        }
        Refusal::WrongIcv(verified) => format!(
            "the ICV does not match, but {verified} MKPDUs of its sender were verified: altered on the way, or forged"
        ),
        Refusal::OldMn(last) => format!("its MN is not above {last}, which came before: replayed, or duplicated on the way"),
        Refusal::Unwrap => "its SAK cannot be unwrapped with this CAK's KEK: its sender used another one".into(),
        Refusal::UnknownSuite(identifier) => format!(
            "its SAK is for cipher suite {}, which Frameward does not have",
            hex::encode(identifier)
        ),
        Refusal::Offset(suite) => format!("its SAK has a confidentiality offset, which does not go with {suite}"),
    }
}

/// Facts about a frame and its SA at the time of the verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Its PN.
    pub pn: u64,
    /// The lowest acceptable PN.
    pub lowest: u64,
    /// Frames of its SA that were verified before.
    pub verified: u64,
    /// The frame's ICV was found right though it is not accepted.
    pub authentic: bool,
}

/// Why the SecY discards a frame.
pub fn discard(discard: ReceiveDiscard, at: Standing) -> String {
    let Standing { pn, lowest, verified, authentic } = at;
    let replayed =
        if authentic { "; its ICV is right" } else { "; and its ICV is wrong: forged, or altered" };
    match discard {
        ReceiveDiscard::TooShort => "shorter than an Ethernet header".into(),
        ReceiveDiscard::NoTag => "no SecTAG".into(),
        ReceiveDiscard::ClearVlan => {
            "a VLAN tag in clear is in front of the SecTAG: a switch added it; remove it there, or set clear_vlan = \"strip\"".into()
        }
        ReceiveDiscard::BadTag(error) => bad_tag(error).into(),
        ReceiveDiscard::PnZero => "its PN is 0, which no sender uses".into(),
        ReceiveDiscard::NoSaError => "there is no key for this SC and AN".into(),
        ReceiveDiscard::Late => format!(
            "PN {pn} is below the lowest acceptable PN {lowest}: replayed, or reordered by more than the window{replayed}"
        ),
        ReceiveDiscard::Duplicate => format!("PN {pn} was received before: replayed, or duplicated on the way{replayed}"),
        ReceiveDiscard::NotValid if verified == 0 => {
            "the ICV does not match, and no frame of this SA was verified before: wrong key, or altered on the way".into()
        }
        ReceiveDiscard::NotValid => format!(
            "the ICV does not match, but {verified} frames of this SA were verified: altered on the way, or forged"
        ),
        ReceiveDiscard::Malformed(error) => malformed(error).into(),
    }
}
