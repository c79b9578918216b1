//! The external implementations behind one interface: in place, ICV apart, no allocation.
//!
//! `open` may leave anything in `text` when it returns false; [`crate::Key`] wipes it.
//!
//! AEGIS and MORUS have a function for the whole 16- or 32-octet nonce: published vectors use all of it,
//! frames only the first 12 octets.

use aegis::aegis128l::Aegis128L as Libaegis128L;
use aegis::aegis256::Aegis256 as Libaegis256;
use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, NONCE_LEN, Nonce as AwsLcNonce, UnboundKey};
use morus::Morus;

use crate::{ICV_OCTETS, Nonce, SecretArray};

/// Authenticated encryption with a prepared key.
pub(crate) trait Aead {
    /// Encrypts `text` in place; the ICV covers `aad` and `text`.
    fn seal(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &mut [u8; ICV_OCTETS]);

    /// Decrypts `text` in place. True if the ICV is right.
    fn open(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &[u8; ICV_OCTETS]) -> bool;
}

/// GCM-AES and ChaCha20-Poly1305 of aws-lc-rs.
pub(crate) struct AwsLc(pub(crate) LessSafeKey);

impl AwsLc {
    /// `None` if the key has another length than the algorithm's.
    pub(crate) fn new(algorithm: &'static Algorithm, key: &[u8]) -> Option<Self> {
        UnboundKey::new(algorithm, key).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    pub(crate) fn nonce(nonce: &Nonce) -> AwsLcNonce {
        const { assert!(NONCE_LEN == Nonce::OCTETS) };
        AwsLcNonce::assume_unique_for_key(nonce.octets())
    }
}

impl Aead for AwsLc {
    fn seal(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &mut [u8; ICV_OCTETS]) {
        if self.0.seal_in_place_scatter(Self::nonce(nonce), Aad::from(aad), text, &[], icv).is_err() {
            // Only a text of 64 GiB fails. None of it may leave in clear.
            text.fill(0);
            icv.fill(0);
        }
    }

    fn open(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &[u8; ICV_OCTETS]) -> bool {
        self.0.open_in_place_separate_tag(Self::nonce(nonce), Aad::from(aad), icv, text).is_ok()
    }
}

/// AEGIS-128L of libaegis.
pub(crate) struct Aegis128L(pub(crate) SecretArray<16>);

impl Aegis128L {
    pub(crate) fn cipher(&self, nonce: &[u8; 16]) -> Libaegis128L<ICV_OCTETS> {
        Libaegis128L::new(self.0.octets(), nonce)
    }
}

impl Aead for Aegis128L {
    fn seal(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &mut [u8; ICV_OCTETS]) {
        *icv = self.cipher(nonce.extended_16()).encrypt_in_place(text, aad);
    }

    fn open(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &[u8; ICV_OCTETS]) -> bool {
        self.cipher(nonce.extended_16()).decrypt_in_place(text, icv, aad).is_ok()
    }
}

/// AEGIS-256 of libaegis.
pub(crate) struct Aegis256(pub(crate) SecretArray<32>);

impl Aegis256 {
    pub(crate) fn cipher(&self, nonce: &[u8; 32]) -> Libaegis256<ICV_OCTETS> {
        Libaegis256::new(self.0.octets(), nonce)
    }
}

impl Aead for Aegis256 {
    fn seal(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &mut [u8; ICV_OCTETS]) {
        *icv = self.cipher(&nonce.extended_32()).encrypt_in_place(text, aad);
    }

    fn open(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &[u8; ICV_OCTETS]) -> bool {
        self.cipher(&nonce.extended_32()).decrypt_in_place(text, icv, aad).is_ok()
    }
}

/// MORUS-1280-128 of the crate morus.
pub(crate) struct Morus1280(pub(crate) SecretArray<16>);

impl Morus1280 {
    pub(crate) fn cipher(&self, nonce: &[u8; 16]) -> Morus {
        Morus::new(nonce, self.0.octets())
    }
}

impl Aead for Morus1280 {
    fn seal(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &mut [u8; ICV_OCTETS]) {
        *icv = self.cipher(nonce.extended_16()).encrypt_in_place(text, aad);
    }

    fn open(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &[u8; ICV_OCTETS]) -> bool {
        self.cipher(nonce.extended_16()).decrypt_in_place(text, icv, aad).is_ok()
    }
}
