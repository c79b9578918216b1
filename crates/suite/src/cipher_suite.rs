//! The cipher suites (IEEE 802.1AE-2018 clause 14.4, table 14-1) and ours beside them.
//!
//! ```text
//! name                identifier                key  PN    offsets   source
//! gcm-aes-128         00-80-C2-00-01-00-00-01    16  32    0 30 50   clause 14.5
//! gcm-aes-256         00-80-C2-00-01-00-00-02    32  32    0 30 50   clause 14.6
//! gcm-aes-xpn-128     00-80-C2-00-01-00-00-03    16  64    0         clause 14.7
//! gcm-aes-xpn-256     00-80-C2-00-01-00-00-04    32  64    0         clause 14.8
//! chacha20-poly1305   F2-46-57-00-00-00-00-01    32  32    0 30 50   RFC 8439
//! chacha20-poly1305-xpn
//!                     F2-46-57-00-00-00-00-06    32  64    0         RFC 8439, with the nonces of clause 14.7
//! aegis-128l          F2-46-57-00-00-00-00-02    16  32    0 30 50   draft-irtf-cfrg-aegis-aead, 128-bit tag
//! aegis-256           F2-46-57-00-00-00-00-03    32  32    0 30 50   draft-irtf-cfrg-aegis-aead, 128-bit tag
//! morus-640-128       F2-46-57-00-00-00-00-04    16  32    0 30 50   MORUS v2 (CAESAR), experimental
//! morus-1280-128      F2-46-57-00-00-00-00-05    16  32    0 30 50   MORUS v2 (CAESAR), experimental
//! ```
//!
//! Left out on purpose: 00-80-02-00-01-00-00-01, which the first edition printed for GCM-AES-128 and later ones
//! corrected.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use wire::Pn;

/// A cipher suite: the AEAD of an SA's frames, and the width of its PN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum CipherSuite {
    /// GCM-AES-128, the standard's mandatory suite (clause 14.5).
    GcmAes128,
    /// GCM-AES-256 (clause 14.6).
    GcmAes256,
    /// GCM-AES-XPN-128: a 64-bit PN (clause 14.7).
    GcmAesXpn128,
    /// GCM-AES-XPN-256: a 64-bit PN (clause 14.8).
    GcmAesXpn256,
    /// ChaCha20-Poly1305 (RFC 8439), for processors without AES instructions.
    ChaCha20Poly1305,
    /// ChaCha20-Poly1305 with a 64-bit PN, for rates that use up 2^32 PNs within the hour.
    ChaCha20Poly1305Xpn,
    /// AEGIS-128L with a 128-bit tag.
    Aegis128L,
    /// AEGIS-256 with a 128-bit tag.
    Aegis256,
    /// MORUS-640-128. Experimental.
    Morus640,
    /// MORUS-1280-128. Experimental.
    Morus1280,
}

/// No cipher suite has this name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownCipherSuite;

impl CipherSuite {
    /// All suites, in the order of the table above.
    pub const ALL: [Self; 10] = [
        Self::GcmAes128,
        Self::GcmAes256,
        Self::GcmAesXpn128,
        Self::GcmAesXpn256,
        Self::ChaCha20Poly1305,
        Self::ChaCha20Poly1305Xpn,
        Self::Aegis128L,
        Self::Aegis256,
        Self::Morus640,
        Self::Morus1280,
    ];

    /// Name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GcmAes128 => "gcm-aes-128",
            Self::GcmAes256 => "gcm-aes-256",
            Self::GcmAesXpn128 => "gcm-aes-xpn-128",
            Self::GcmAesXpn256 => "gcm-aes-xpn-256",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::ChaCha20Poly1305Xpn => "chacha20-poly1305-xpn",
            Self::Aegis128L => "aegis-128l",
            Self::Aegis256 => "aegis-256",
            Self::Morus640 => "morus-640-128",
            Self::Morus1280 => "morus-1280-128",
        }
    }

    /// Cipher suite identifier, an EUI-64 (clause 14.4, table 14-1). Ours are locally administered.
    pub const fn identifier(self) -> [u8; 8] {
        const fn standard(number: u8) -> [u8; 8] {
            [0x00, 0x80, 0xc2, 0x00, 0x01, 0x00, 0x00, number]
        }
        const fn ours(number: u8) -> [u8; 8] {
            [0xf2, 0x46, 0x57, 0x00, 0x00, 0x00, 0x00, number]
        }
        match self {
            Self::GcmAes128 => standard(1),
            Self::GcmAes256 => standard(2),
            Self::GcmAesXpn128 => standard(3),
            Self::GcmAesXpn256 => standard(4),
            Self::ChaCha20Poly1305 => ours(1),
            Self::Aegis128L => ours(2),
            Self::Aegis256 => ours(3),
            Self::Morus640 => ours(4),
            Self::Morus1280 => ours(5),
            Self::ChaCha20Poly1305Xpn => ours(6),
        }
    }

    /// Suite with this identifier, if this crate has it.
    pub fn from_identifier(identifier: [u8; 8]) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.identifier() == identifier)
    }

    /// Octets of a SAK: 16 or 32.
    pub const fn key_octets(self) -> usize {
        match self {
            Self::GcmAes128 | Self::GcmAesXpn128 | Self::Aegis128L | Self::Morus640 | Self::Morus1280 => 16,
            Self::GcmAes256
            | Self::GcmAesXpn256
            | Self::ChaCha20Poly1305
            | Self::ChaCha20Poly1305Xpn
            | Self::Aegis256 => 32,
        }
    }

    /// True for the standard's own suites, which any MACsec station may have. The others exist in Frameward
    /// only.
    pub const fn is_standard(self) -> bool {
        matches!(self, Self::GcmAes128 | Self::GcmAes256 | Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }

    /// True for AES-GCM, whose keystream depends on key and nonce alone: its frames can be antedated.
    pub const fn is_gcm(self) -> bool {
        matches!(self, Self::GcmAes128 | Self::GcmAes256 | Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }

    /// True for extended packet numbering: the PN has 64 bits, and SSCI and salt form the nonce.
    pub const fn is_xpn(self) -> bool {
        matches!(self, Self::GcmAesXpn128 | Self::GcmAesXpn256 | Self::ChaCha20Poly1305Xpn)
    }

    /// True for suites that are for research only and need the user's explicit consent: MORUS, whose
    /// keystream is biased (Ashur et al., 2018).
    pub const fn is_experimental(self) -> bool {
        matches!(self, Self::Morus640 | Self::Morus1280)
    }

    /// The last PN that an SA may use.
    pub const fn last_pn(self) -> Pn {
        if self.is_xpn() { Pn::LAST_64 } else { Pn::LAST_32 }
    }

    /// True if confidentiality offsets 30 and 50 are legal; the XPN suites have only 0 (clauses 14.7, 14.8).
    pub const fn allows_confidentiality_offset(self) -> bool {
        !self.is_xpn()
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CipherSuite {
    type Err = UnknownCipherSuite;

    fn from_str(name: &str) -> Result<Self, UnknownCipherSuite> {
        Self::ALL.into_iter().find(|suite| suite.name() == name).ok_or(UnknownCipherSuite)
    }
}

impl fmt::Display for UnknownCipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no cipher suite; one of")?;
        for (i, suite) in CipherSuite::ALL.into_iter().enumerate() {
            write!(f, "{} {suite}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownCipherSuite {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashSet;
    use std::string::ToString;

    /// (name, identifier, key octets, XPN, experimental), written out a second time from table 14-1, wire-formats
    /// section 1 and the configuration reference.
    const TABLE: [(&str, u64, usize, bool, bool); 10] = [
        ("gcm-aes-128", 0x0080_c200_0100_0001, 16, false, false),
        ("gcm-aes-256", 0x0080_c200_0100_0002, 32, false, false),
        ("gcm-aes-xpn-128", 0x0080_c200_0100_0003, 16, true, false),
        ("gcm-aes-xpn-256", 0x0080_c200_0100_0004, 32, true, false),
        ("chacha20-poly1305", 0xf246_5700_0000_0001, 32, false, false),
        ("chacha20-poly1305-xpn", 0xf246_5700_0000_0006, 32, true, false),
        ("aegis-128l", 0xf246_5700_0000_0002, 16, false, false),
        ("aegis-256", 0xf246_5700_0000_0003, 32, false, false),
        ("morus-640-128", 0xf246_5700_0000_0004, 16, false, true),
        ("morus-1280-128", 0xf246_5700_0000_0005, 16, false, true),
    ];

    #[test]
    fn every_suite_is_as_the_table_says() {
        assert_eq!(CipherSuite::ALL.iter().collect::<HashSet<_>>().len(), TABLE.len());
        for (suite, (name, identifier, key_octets, is_xpn, is_experimental)) in
            CipherSuite::ALL.into_iter().zip(TABLE)
        {
            assert_eq!(suite.to_string(), name);
            assert_eq!(name.parse(), Ok(suite));
            assert_eq!(suite.identifier(), identifier.to_be_bytes(), "{suite}");
            assert_eq!(CipherSuite::from_identifier(identifier.to_be_bytes()), Some(suite));
            assert_eq!(suite.key_octets(), key_octets, "{suite}");
            assert_eq!(suite.is_xpn(), is_xpn, "{suite}");
            assert_eq!(suite.is_standard(), identifier >> 40 == 0x80c2, "{suite}");
            assert_eq!(suite.is_experimental(), is_experimental, "{suite}");
            assert_eq!(suite.allows_confidentiality_offset(), !is_xpn, "{suite}");
            assert_eq!(
                suite.last_pn().number(),
                if is_xpn { u64::MAX } else { u64::from(u32::MAX) },
                "{suite}"
            );
        }
    }

    #[test]
    fn strangers_are_refused() {
        for name in ["", "GCM-AES-128", "gcm-aes-192", "gcm-aes-128 ", "auto", "morus-640"] {
            assert_eq!(name.parse::<CipherSuite>(), Err(UnknownCipherSuite), "{name:?}");
        }
        assert!(UnknownCipherSuite.to_string().ends_with("one of gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256, chacha20-poly1305, chacha20-poly1305-xpn, aegis-128l, aegis-256, morus-640-128, morus-1280-128"));
        for identifier in [
            0x0080_0200_0100_0001_u64,
            0x0080_c200_0100_0000,
            0x0080_c200_0100_0005,
            0xf246_5700_0000_0000,
            0xf246_5700_0000_0007,
        ] {
            assert_eq!(CipherSuite::from_identifier(identifier.to_be_bytes()), None, "{identifier:x}");
        }
    }
}
