//! Keys of key agreement and their operations (IEEE 802.1X-2020 clauses 6.2, 9.3, 9.4 and 9.8).
//!
//! ```text
//!  CAK ─┬─ KDF "IEEE8021 ICK" | CKN ──▶ ICK ── AES-CMAC ──▶ ICV of an MKPDU
//!       ├─ KDF "IEEE8021 KEK" | CKN ──▶ KEK ── AES key wrap (RFC 3394) ──▶ SAK, CAK on the wire
//!       └─ KDF "IEEE8021 SAK" | nonce, MIs, KN ──▶ SAK ── KDF "Frameward express" | suite ──▶ SAK of the express SCs
//!
//!  KDF (clause 6.2.1, NIST SP 800-108 in counter mode): for i = 1, 2, ... as many blocks as are needed of
//!      AES-CMAC(key, i 1 | label | 00 | context | bits 2)
//! ```
//!
//! The CKN enters with its first 16 octets, padded with zeros to 16. AES-CMAC, ICK and KEK have the CAK's
//! length, 128 or 256 bits, whatever the SAK's is. A SAK depends on its CAK and on a nonce: the random values
//! without the CAK reveal no SAK.
//!
//! Left out on purpose: CAKs from EAP (clause 6.2.2), and distributing CAKs.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::fmt;

use aws_lc_rs::cmac;
use aws_lc_rs::key_wrap::{self, AesKek, KeyWrap};
use wire::{Ckn, Ki, Mi};
use zeroize::Zeroizing;

use crate::{CipherSuite, Sak, Salt, Secret, scrubbed};

/// Octets of the longest CAK, ICK, KEK and SAK.
const LONGEST: usize = 32;
/// Octets that key wrap adds (RFC 3394).
const WRAP_OCTETS: usize = 8;
/// Octets of a block of AES, and of an AES-CMAC.
const BLOCK_OCTETS: usize = 16;

/// A Connectivity Association Key: 16 or 32 secret octets. Wiped when dropped, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Cak(Secret);

/// Error of a CAK with other than 16 or 32 octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongCakLength(pub usize);

/// Key of the ICVs. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct Ick(cmac::Key);

/// Key that wraps keys. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct Kek(Secret);

/// Error of a wrapped key: another KEK, or altered octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnwrapError;

/// Deterministic random bit generator: 32 octets from the operating system, expanded by the KDF of clause
/// 6.2.1 under a counter. The same seed gives the same values, so a KaY's run can be repeated. The seed is
/// worthless without the CAK.
pub struct Drbg {
    seed: cmac::Key,
    drawn: u64,
}

/// Pseudo-random function for a key of this length.
fn prf(key: &Secret) -> cmac::Key {
    let algorithm = if key.length() == 16 { cmac::AES_128 } else { cmac::AES_256 };
    cmac::Key::new(algorithm, key.octets()).expect("invariant: 16 octets are AES-128's, 32 are AES-256's")
}

/// The KDF of clause 6.2.1. `out` has at most 255 blocks.
fn kdf(key: &cmac::Key, label: &str, context: &[&[u8]], out: &mut [u8]) {
    let bits = u16::try_from(out.len() * 8).expect("invariant: 255 blocks are 32640 bits").to_be_bytes();
    let mut input = [&[0][..], label.as_bytes(), &[0], &context.concat(), &bits].concat();
    let mut block = Zeroizing::new([0; BLOCK_OCTETS]);
    for (counter, room) in (1..=u8::MAX).zip(out.chunks_mut(BLOCK_OCTETS)) {
        input[0] = counter;
        let mac = cmac::sign_to_buffer(key, &input, &mut *block);
        room.copy_from_slice(&mac.expect("invariant: an AES-CMAC takes any octets")[..room.len()]);
    }
}

impl Cak {
    /// A CAK of 16 or 32 octets. The caller wipes what `octets` was borrowed from.
    ///
    /// # Errors
    /// [`WrongCakLength`].
    pub fn new(octets: &[u8]) -> Result<Self, WrongCakLength> {
        if !matches!(octets.len(), 16 | 32) {
            return Err(WrongCakLength(octets.len()));
        }
        Ok(Self(Secret::new(octets)))
    }

    /// Octets of the key: 16 or 32. No secret.
    pub fn length(&self) -> usize {
        self.0.length()
    }

    /// The ICK of this CAK under its name (clause 9.3.3).
    pub fn ick(&self, ckn: &Ckn) -> Ick {
        scrubbed(|| Ick(prf(&self.derived("IEEE8021 ICK", ckn))))
    }

    /// The KEK of this CAK under its name (clause 9.3.3).
    pub fn kek(&self, ckn: &Ckn) -> Kek {
        scrubbed(|| Kek(self.derived("IEEE8021 KEK", ckn)))
    }

    /// A key of the CAK's length.
    fn derived(&self, label: &str, ckn: &Ckn) -> Secret {
        let mut key_id = [0; BLOCK_OCTETS];
        for (room, octet) in key_id.iter_mut().zip(ckn.octets()) {
            *room = *octet;
        }
        let mut secret = Secret::zeros(self.0.length());
        kdf(&prf(&self.0), label, &[&key_id], secret.octets_mut());
        secret
    }

    /// SAK of a key server: from a nonce of the SAK's length, the MIs of all live members and the Key Number
    /// (clause 9.8.1).
    pub fn sak(&self, suite: CipherSuite, nonce: &[u8], members: &[Mi], kn: u32) -> Sak {
        let members: Vec<u8> = members.iter().flat_map(|member| member.0).collect();
        let mut secret = Secret::zeros(suite.key_octets());
        let context = [nonce, &members, &kn.to_be_bytes()];
        scrubbed(|| kdf(&prf(&self.0), "IEEE8021 SAK", &context, secret.octets_mut()));
        Sak::of(suite, secret).expect("invariant: as long as the suite wants it")
    }
}

impl Sak {
    /// Key of the express SCs whose stations use this SAK on their other SCs. `None` for a suite without express SCs.
    ///
    /// Nonces under it never meet those under this SAK, whatever SCIs, SSCIs and PNs are. Only suites of ChaCha20 have one: a
    /// key of AES would be both the cipher's and the KDF's, which is AES-CMAC.
    pub fn express(&self, suite: CipherSuite) -> Option<Self> {
        if !matches!(suite, CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn) {
            return None;
        }
        let mut secret = Secret::zeros(suite.key_octets());
        scrubbed(|| {
            let own = Secret::new(self.octets());
            kdf(&prf(&own), "Frameward express", &[&suite.identifier()], secret.octets_mut());
        });
        Self::of(suite, secret).ok()
    }
}

impl Ick {
    /// The ICV over these octets (clause 9.4.1).
    pub fn icv(&self, octets: &[u8]) -> [u8; BLOCK_OCTETS] {
        let mut icv = [0; BLOCK_OCTETS];
        cmac::sign_to_buffer(&self.0, octets, &mut icv).expect("invariant: an AES-CMAC takes any octets");
        icv
    }

    /// True if this is the ICV over these octets. In constant time.
    pub fn verifies(&self, octets: &[u8], icv: &[u8; BLOCK_OCTETS]) -> bool {
        cmac::verify(&self.0, octets, icv).is_ok()
    }
}

impl Kek {
    /// The wrapped SAK: 24 or 40 octets at the beginning of the result, and their number (clause 9.8.2).
    pub fn wrap(&self, sak: &Sak) -> ([u8; LONGEST + WRAP_OCTETS], usize) {
        let mut wrapped = [0; LONGEST + WRAP_OCTETS];
        let length = scrubbed(|| {
            let octets = self.key().wrap(sak.octets(), &mut wrapped);
            octets.expect("invariant: 16 and 32 octets can be wrapped").len()
        });
        (wrapped, length)
    }

    /// The unwrapped SAK.
    ///
    /// # Errors
    /// [`UnwrapError`].
    pub fn unwrap(&self, suite: CipherSuite, wrapped: &[u8]) -> Result<Sak, UnwrapError> {
        let mut secret = Secret::zeros(suite.key_octets());
        if wrapped.len() != secret.length() + WRAP_OCTETS {
            return Err(UnwrapError);
        }
        scrubbed(|| self.key().unwrap(wrapped, secret.octets_mut()).map(drop)).map_err(|_| UnwrapError)?;
        Sak::of(suite, secret).map_err(|_| UnwrapError)
    }

    fn key(&self) -> AesKek {
        let cipher = if self.0.length() == 16 { &key_wrap::AES_128 } else { &key_wrap::AES_256 };
        AesKek::new(cipher, self.0.octets()).expect("invariant: 16 octets are AES-128's, 32 are AES-256's")
    }
}

impl Drbg {
    /// Seeded with 32 octets from the operating system.
    pub fn new(seed: &[u8; LONGEST]) -> Self {
        let seed = scrubbed(|| cmac::Key::new(cmac::AES_256, seed));
        let seed = seed.expect("invariant: 32 octets are AES-256's");
        Self { seed, drawn: 0 }
    }

    /// The same behind as many values as were drawn already: should the seed be an earlier one, none of them comes twice.
    #[must_use]
    pub fn behind(self, drawn: u64) -> Self {
        Self { drawn, ..self }
    }

    /// Number of values drawn.
    pub const fn drawn(&self) -> u64 {
        self.drawn
    }

    /// Fills `octets` with the next random octets.
    pub fn fill(&mut self, octets: &mut [u8]) {
        for room in octets.chunks_mut(LONGEST) {
            kdf(&self.seed, "Frameward draw", &[&self.drawn.to_be_bytes()], room);
            self.drawn += 1;
        }
    }
}

/// Salt of an XPN SAK, from its KI (IEEE 802.1AE-2018 clause 10.7.8): the key server's MI, with its first two
/// octets xor the low half of the KN, the next two xor the high half.
pub fn salt(ki: &Ki) -> Salt {
    let Mi(mut salt) = ki.server;
    for (octet, kn) in salt.iter_mut().zip(ki.kn.rotate_left(16).to_be_bytes()) {
        *octet ^= kn;
    }
    Salt(salt)
}

impl fmt::Debug for Cak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cak({} octets)", self.0.length())
    }
}

impl fmt::Debug for Ick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ick")
    }
}

impl fmt::Debug for Kek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kek")
    }
}

impl fmt::Debug for Drbg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drbg")
    }
}

impl fmt::Display for WrongCakLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a CAK of {} octets where 16 or 32 are wanted", self.0)
    }
}

impl core::error::Error for WrongCakLength {}

impl fmt::Display for UnwrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a wrapped key that is not under this KEK")
    }
}

impl core::error::Error for UnwrapError {}
