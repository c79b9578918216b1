//! Keys of key agreement, and what is done with them (IEEE 802.1X-2020 clauses 6.2, 9.3, 9.4 and 9.8).
//!
//! ```text
//!  CAK ─┬─ KDF "IEEE8021 ICK" | CKN ──▶ ICK ── AES-CMAC ──▶ ICV of an MKPDU
//!       ├─ KDF "IEEE8021 KEK" | CKN ──▶ KEK ── AES key wrap (RFC 3394) ──▶ SAK, CAK on the wire
//!       └─ KDF "IEEE8021 SAK" | nonce, MIs, KN ──▶ SAK
//! ```
//!
//! A SAK depends on its CAK and on a nonce, so who learns what was drawn and not the CAK learns no SAK.

use wire::{Ckn, Ki, Mi};

use crate::{CipherSuite, Sak, Salt};

/// A Connectivity Association Key: 16 or 32 secret octets. Wiped when dropped, never shown.
pub struct Cak(());

/// A CAK has 16 or 32 octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongCakLength(pub usize);

/// The key of the ICVs.
pub struct Ick(());

/// The key that wraps keys.
pub struct Kek(());

/// A wrapped key is not what it should be: another KEK, or touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnwrapError;

/// What random values are made of: 32 octets that the operating system drew, expanded by the KDF of clause 6.2.1 under a
/// counter. The same seed makes the same values, so that what a KaY did can be done again (and is worth nothing without
/// the CAK).
pub struct Draw(());

impl Cak {
    /// A CAK of 16 or 32 octets. The caller wipes what `octets` was borrowed from.
    ///
    /// # Errors
    /// [`WrongCakLength`].
    pub fn new(_octets: &[u8]) -> Result<Self, WrongCakLength> {
        todo!()
    }

    /// The ICK of this CAK under its name (clause 9.3.3).
    pub fn ick(&self, _ckn: &Ckn) -> Ick {
        todo!()
    }

    /// The KEK of this CAK under its name (clause 9.3.3).
    pub fn kek(&self, _ckn: &Ckn) -> Kek {
        todo!()
    }

    /// The SAK of a key server: from a nonce as long as the SAK, the MIs of all live members and the Key Number
    /// (clause 9.8.1).
    pub fn sak(&self, _suite: CipherSuite, _nonce: &[u8], _members: &[Mi], _kn: u32) -> Sak {
        todo!()
    }
}

impl Ick {
    /// The ICV over these octets (clause 9.4.1).
    pub fn icv(&self, _octets: &[u8]) -> [u8; 16] {
        todo!()
    }

    /// Whether this is the ICV over these octets; in constant time.
    pub fn verifies(&self, _octets: &[u8], _icv: &[u8; 16]) -> bool {
        todo!()
    }
}

impl Kek {
    /// The wrapped SAK: 24 or 40 octets, in the beginning of what is returned.
    pub fn wrap(&self, _sak: &Sak) -> ([u8; 40], usize) {
        todo!()
    }

    /// The SAK that was wrapped.
    ///
    /// # Errors
    /// [`UnwrapError`].
    pub fn unwrap(&self, _suite: CipherSuite, _wrapped: &[u8]) -> Result<Sak, UnwrapError> {
        todo!()
    }
}

impl Draw {
    /// From 32 octets that the operating system drew.
    pub fn new(_seed: &[u8; 32]) -> Self {
        todo!()
    }

    /// The next octets.
    pub fn fill(&mut self, _octets: &mut [u8]) {
        todo!()
    }
}

/// The salt of an XPN SAK, made of its KI (IEEE 802.1X-2020 clause 9.10).
pub fn salt(_ki: &Ki) -> Salt {
    todo!()
}
