//! Texts sealed to the owner of an identity: HPKE (RFC 9180) in base mode.
//!
//! | part | algorithm |
//! |---|---|
//! | KEM | X-Wing, 0x647a (draft-ietf-hpke-pq): ML-KEM-768 and X25519. It holds as long as one of the two does |
//! | KDF | HKDF-SHA-256, 0x0001 |
//! | AEAD | AES-256-GCM, 0x0002. Each text has a key of its own, so its one nonce never repeats |
//!
//! ```text
//!  sealed:  encapsulated key, 1120 octets   ciphertext, as long as the text   tag, 16 octets
//! ```
//!
//! Left out on purpose: who sealed a text. Anybody can; the signature around it says who did.

use alloc::vec::Vec;
use core::fmt;

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::XWing;
use hpke::rand_core::CryptoRng;
use hpke::{Deserializable as _, Kem as _, OpModeR, OpModeS, Serializable as _};
use zeroize::Zeroizing;

use crate::{SecretArray, scrubbed};

type Encapsulated = <XWing as hpke::Kem>::EncappedKey;

/// Octets of a public sealing key.
pub const SEALING_KEY_OCTETS: usize = 1216;
/// Octets of an encapsulated key.
const ENCAPSULATED_OCTETS: usize = 1120;
/// Octets that sealing adds to a text.
pub const SEALING_OVERHEAD: usize = ENCAPSULATED_OCTETS + 16;

/// Private key that opens what was sealed to its public part. Wiped when dropped, and never shown.
#[derive(Clone)]
pub struct SealingKey(SecretArray<32>);

/// Public part of a [`SealingKey`]: valid, as parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicSealingKey(<XWing as hpke::Kem>::PublicKey);

/// Error of a sealed text that was sealed to another key, for another purpose, or was changed. Which one cannot be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotSealedToThis;

impl SealingKey {
    /// Key of a seed. The caller wipes the source of `seed`.
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(SecretArray::new(seed))
    }

    /// The public part.
    pub fn public(&self) -> PublicSealingKey {
        scrubbed(|| PublicSealingKey(XWing::sk_to_pk(&self.private())))
    }

    /// Opens what [`PublicSealingKey::seal`] made with the same `info` and `aad`.
    ///
    /// # Errors
    /// [`NotSealedToThis`].
    pub fn open(
        &self,
        info: &[u8],
        aad: &[u8],
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, NotSealedToThis> {
        let (encapsulated, text) = sealed.split_at_checked(ENCAPSULATED_OCTETS).ok_or(NotSealedToThis)?;
        scrubbed(|| {
            let encapsulated = Encapsulated::from_bytes(encapsulated)?;
            let mode = OpModeR::Base;
            hpke::single_shot_open::<AesGcm256, HkdfSha256, XWing>(
                &mode,
                &self.private(),
                &encapsulated,
                info,
                text,
                aad,
            )
        })
        .map(Zeroizing::new)
        .map_err(|_| NotSealedToThis)
    }

    /// To be called in [`scrubbed`] work.
    fn private(&self) -> <XWing as hpke::Kem>::PrivateKey {
        <XWing as hpke::Kem>::PrivateKey::from_bytes(self.0.octets())
            .expect("invariant: any 32 octets are a seed")
    }
}

impl PublicSealingKey {
    /// Parses a public key; `None` if these octets are none.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        <XWing as hpke::Kem>::PublicKey::from_bytes(octets).ok().map(Self)
    }

    /// Its octets.
    pub fn octets(&self) -> [u8; SEALING_KEY_OCTETS] {
        let mut octets = [0; SEALING_KEY_OCTETS];
        self.0.write_exact(&mut octets);
        octets
    }

    /// Seals `text`. `info` and `aad` are not part of the result; whoever opens it has to know both. Takes randomness of a
    /// generator that is fit for keys.
    pub fn seal(&self, info: &[u8], aad: &[u8], text: &[u8], random: &mut impl CryptoRng) -> Vec<u8> {
        scrubbed(|| {
            let (encapsulated, ciphertext) = hpke::single_shot_seal_with_rng::<AesGcm256, HkdfSha256, XWing>(
                &OpModeS::Base,
                &self.0,
                info,
                text,
                aad,
                random,
            )
            .expect("invariant: a valid key, and a text that fits memory");
            let mut sealed = Vec::with_capacity(text.len() + SEALING_OVERHEAD);
            sealed.extend_from_slice(&encapsulated.to_bytes());
            sealed.extend_from_slice(&ciphertext);
            sealed
        })
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

impl fmt::Debug for PublicSealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicSealingKey")
    }
}

impl fmt::Display for NotSealedToThis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sealed to another key, for another purpose, or changed")
    }
}

impl core::error::Error for NotSealedToThis {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use getrandom::SysRng;
    use hpke::rand_core::UnwrapErr;
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};
    use std::format;

    fn seal(key: &SealingKey, info: &[u8], aad: &[u8], text: &[u8]) -> Vec<u8> {
        key.public().seal(info, aad, text, &mut UnwrapErr(SysRng))
    }

    /// draft-connolly-cfrg-xwing-kem-06, appendix C, first vector. Its public key is here as its hash.
    #[test]
    fn the_public_key_is_that_of_the_draft() {
        let seed = hex::decode("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26").unwrap();
        let public = SealingKey::new(&seed.try_into().unwrap()).public();
        assert_eq!(
            hex::encode(Sha256::digest(public.octets())),
            "2e816deebcd76c5c80d0cd2d174478871658e8e2ff42bc9d4a6e486372e856bb"
        );
        assert_eq!(PublicSealingKey::parse(&public.octets()), Some(public));
    }

    #[test]
    fn octets_that_are_no_public_key_are_refused() {
        let public = SealingKey::new(&[1; 32]).public().octets();
        assert_eq!(PublicSealingKey::parse(&public[1..]), None);
        // A coefficient of ML-KEM above its modulus (FIPS 203, 7.2).
        let mut above = public;
        above[..3].fill(0xff);
        assert_eq!(PublicSealingKey::parse(&above), None);
    }

    #[test]
    fn the_keys_are_not_shown() {
        let key = SealingKey::new(&[9; 32]);
        assert_eq!(format!("{key:?} {:?}", key.public()), "SealingKey PublicSealingKey");
    }

    #[test]
    fn the_same_text_is_sealed_differently_each_time() {
        let key = SealingKey::new(&[9; 32]);
        assert_ne!(seal(&key, b"i", b"a", b"text"), seal(&key, b"i", b"a", b"text"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn only_the_owner_opens_what_was_sealed_and_nothing_else(
            text in proptest::collection::vec(any::<u8>(), 0..300),
            flipped in any::<proptest::sample::Index>(),
            bit in 0..8_u8,
            cut in any::<proptest::sample::Index>(),
        ) {
            let key = SealingKey::new(&[9; 32]);
            let sealed = seal(&key, b"info", b"aad", &text);
            prop_assert_eq!(sealed.len(), text.len() + SEALING_OVERHEAD);
            let opened = key.open(b"info", b"aad", &sealed).unwrap();
            prop_assert_eq!(&*opened, &text);
            prop_assert_eq!(key.open(b"inf0", b"aad", &sealed), Err(NotSealedToThis));
            prop_assert_eq!(key.open(b"info", b"aaa", &sealed), Err(NotSealedToThis));
            prop_assert_eq!(SealingKey::new(&[8; 32]).open(b"info", b"aad", &sealed), Err(NotSealedToThis));
            prop_assert_eq!(key.open(b"info", b"aad", &sealed[..cut.index(sealed.len())]), Err(NotSealedToThis));
            let mut changed = sealed;
            let at = flipped.index(changed.len());
            changed[at] ^= 1 << bit;
            prop_assert_eq!(key.open(b"info", b"aad", &changed), Err(NotSealedToThis));
        }
    }
}
