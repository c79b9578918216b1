//! Identity of a site, a fleet's gateway or a fleet's operator: an Ed25519 key pair (RFC 8032). A site's authenticates its management
//! channel (the project's wire formats, section 3.5), an operator's signs records. A gateway's gives its [`SealingKey`], too.
//!
//! Private and public keys have the same length, and any 32 octets are a private key. A public key mistaken
//! for a private one would make an identity whose private part everybody knows. So both are kept together,
//! and compared.

use alloc::vec::Vec;
use core::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use zeroize::Zeroizing;

use crate::sealing::SealingKey;
use crate::{SecretArray, scrubbed};

/// Octets of a private key, and of a public one.
pub const IDENTITY_KEY_OCTETS: usize = 32;
/// Octets of a signature.
pub const SIGNATURE_OCTETS: usize = 64;

/// PKCS#8 version 1 prefix of the private key (RFC 8410, section 7).
const PKCS8: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// SubjectPublicKeyInfo prefix of the public key (RFC 8410, section 4).
const SPKI: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// A key pair of a site, a gateway or an operator. The private part is wiped when dropped, and never shown.
#[derive(Clone)]
pub struct Identity {
    private: SecretArray<IDENTITY_KEY_OCTETS>,
    public: PublicKey,
}

/// Public part of a key pair, by which others know its owner. Ordered by its octets, first ones first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; IDENTITY_KEY_OCTETS]);

/// Key for recognising the site's own tokens after a restart without stored state: HMAC-SHA-256 under a key
/// derived from the private one. Its tags can be shown to anybody.
#[derive(Clone)]
pub struct RecognitionKey(hmac::Key);

/// Error of octets that are no key pair: the private key has another public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPairMismatch;

impl Identity {
    /// Identity with a private key from the operating system. The caller wipes the source of `private`.
    pub fn new(private: &[u8; IDENTITY_KEY_OCTETS]) -> Self {
        let mut public = [0; IDENTITY_KEY_OCTETS];
        scrubbed(|| {
            let pair = Ed25519KeyPair::from_seed_unchecked(private)
                .expect("invariant: any 32 octets are a private key");
            public.copy_from_slice(pair.public_key().as_ref());
        });
        Self { private: SecretArray::new(private), public: PublicKey(public) }
    }

    /// Identity of a stored pair.
    ///
    /// # Errors
    /// [`KeyPairMismatch`].
    pub fn from_pair(
        private: &[u8; IDENTITY_KEY_OCTETS],
        public: PublicKey,
    ) -> Result<Self, KeyPairMismatch> {
        let identity = Self::new(private);
        if identity.public == public { Ok(identity) } else { Err(KeyPairMismatch) }
    }

    /// The private key's octets: for storage, never for printing.
    pub fn private(&self) -> &[u8; IDENTITY_KEY_OCTETS] {
        self.private.octets()
    }

    /// The public part.
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// Key by which the site recognises its own tokens after a restart.
    pub fn recognition_key(&self) -> RecognitionKey {
        scrubbed(|| {
            RecognitionKey(hmac::Key::new(hmac::HMAC_SHA256, &*self.derived(b"fw-site-1", b"recognition")))
        })
    }

    /// Key by which what is sealed to this identity is opened. Derived, so that one file has the whole identity.
    pub fn sealing_key(&self) -> SealingKey {
        scrubbed(|| SealingKey::new(&self.derived(b"fw-fleet-1", b"sealing")))
    }

    /// Signature of `message`. `context` keeps apart what one key signs: it is a constant, and none begins with another.
    pub fn sign(&self, context: &[u8], message: &[u8]) -> [u8; SIGNATURE_OCTETS] {
        let mut signature = [0; SIGNATURE_OCTETS];
        scrubbed(|| {
            let pair = Ed25519KeyPair::from_seed_unchecked(self.private.octets())
                .expect("invariant: any 32 octets are a private key");
            signature.copy_from_slice(pair.sign(&[context, message].concat()).as_ref());
        });
        signature
    }

    /// 32 octets derived from the private key (HKDF-SHA-256). To be called in [`scrubbed`] work.
    fn derived(&self, salt: &[u8], purpose: &[u8]) -> Zeroizing<[u8; 32]> {
        struct Octets32;
        impl KeyType for Octets32 {
            fn len(&self) -> usize {
                32
            }
        }
        let mut key = Zeroizing::new([0; 32]);
        let pseudo_random = Salt::new(HKDF_SHA256, salt).extract(self.private.octets());
        pseudo_random
            .expand(&[purpose], Octets32)
            .and_then(|output| output.fill(&mut *key))
            .expect("invariant: HKDF-SHA-256 gives up to 8160 octets");
        key
    }

    /// The private key as PKCS#8, which TLS libraries read.
    pub fn pkcs8(&self) -> Zeroizing<Vec<u8>> {
        // Full capacity at once, so that growing leaves no copy behind.
        let mut document = Zeroizing::new(Vec::with_capacity(PKCS8.len() + IDENTITY_KEY_OCTETS));
        document.extend_from_slice(&PKCS8);
        document.extend_from_slice(self.private.octets());
        document
    }
}

impl PartialEq for Identity {
    /// A private key has one public key.
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl Eq for Identity {}

impl RecognitionKey {
    /// Octets of a tag.
    pub const TAG_OCTETS: usize = 32;

    /// The tag of these octets.
    pub fn tag(&self, octets: &[u8]) -> [u8; Self::TAG_OCTETS] {
        let mut tag = [0; Self::TAG_OCTETS];
        tag.copy_from_slice(hmac::sign(&self.0, octets).as_ref());
        tag
    }

    /// True if this is the tag of these octets. In constant time.
    pub fn verify(&self, octets: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.0, octets, tag).is_ok()
    }
}

impl fmt::Debug for RecognitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecognitionKey")
    }
}

impl PublicKey {
    /// True if the owner of this key made `signature` for `message` in this context.
    pub fn verifies(&self, context: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        key.verify(&[context, message].concat(), signature).is_ok()
    }

    /// Parses a SubjectPublicKeyInfo; `None` unless it is exactly that of an Ed25519 key.
    pub fn from_spki(document: &[u8]) -> Option<Self> {
        let key = document.strip_prefix(&SPKI)?;
        Some(Self(key.try_into().ok()?))
    }

    /// SubjectPublicKeyInfo encoding: a raw public key in TLS (RFC 7250).
    pub fn spki(&self) -> [u8; SPKI.len() + IDENTITY_KEY_OCTETS] {
        let mut document = [0; SPKI.len() + IDENTITY_KEY_OCTETS];
        document[..SPKI.len()].copy_from_slice(&SPKI);
        document[SPKI.len()..].copy_from_slice(&self.0);
        document
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Display for PublicKey {
    /// 64 hexadecimal digits, as in configurations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    fn octets(digits: &str) -> [u8; 32] {
        hex::decode(digits).expect("digits").try_into().expect("32 octets")
    }

    /// RFC 8032, section 7.1, tests 1 and 2.
    #[test]
    fn the_public_key_is_that_of_the_standard() {
        for (private, public) in [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            ),
        ] {
            let (private, expected) = (octets(private), PublicKey(octets(public)));
            let identity = Identity::new(&private);
            assert_eq!(identity.public(), expected);
            assert_eq!(format!("{expected}"), public);
            assert_eq!(Identity::from_pair(&private, expected), Ok(identity));
            // Taken for each other, or one of another pair.
            assert_eq!(Identity::from_pair(&expected.0, PublicKey(private)), Err(KeyPairMismatch));
            assert_eq!(Identity::from_pair(&[7; 32], expected), Err(KeyPairMismatch));
        }
    }

    /// RFC 8032, section 7.1, test 3: message af82, here once as the context and once as the message.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let identity =
            Identity::new(&octets("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"));
        let signature = identity.sign(b"\xaf", b"\x82");
        assert_eq!(
            hex::encode(signature),
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
        );
        let key = identity.public();
        assert!(key.verifies(b"", b"\xaf\x82", &signature));
        assert!(!key.verifies(b"\xaf", b"\x83", &signature) && !key.verifies(b"\xae", b"\x82", &signature));
        assert!(!key.verifies(b"\xaf", b"\x82", &signature[..63]));
        assert!(!Identity::new(&[9; 32]).public().verifies(b"\xaf", b"\x82", &signature));
    }

    #[test]
    fn documents_are_those_of_the_library() {
        let identity = Identity::new(&[9; 32]);
        let pair = Ed25519KeyPair::from_pkcs8(&identity.pkcs8()).expect("PKCS#8");
        assert_eq!(pair.public_key().as_ref(), identity.public().0);
        assert_eq!(pair.to_pkcs8v1().expect("PKCS#8").as_ref(), &identity.pkcs8()[..]);
        // RFC 8410, section 10.1: the public key of its example.
        let example = PublicKey(octets("19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1"));
        assert_eq!(
            hex::encode(example.spki()),
            "302a300506032b657003210019bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1"
        );
    }

    #[test]
    fn documents_are_read_to_the_octet() {
        let key = Identity::new(&[9; 32]).public();
        let document = key.spki();
        assert_eq!(PublicKey::from_spki(&document), Some(key));
        assert_eq!(PublicKey::from_spki(&document[..43]), None);
        assert_eq!(PublicKey::from_spki(&[&document[..], &[0]].concat()), None);
        // Of Ed448 (1.3.101.113).
        let mut other = document;
        other[8] = 0x71;
        assert_eq!(PublicKey::from_spki(&other), None);
    }

    #[test]
    fn tags_are_recognised_by_the_same_site_alone() {
        let key = Identity::new(&[9; 32]).recognition_key();
        let tag = key.tag(b"once");
        assert!(Identity::new(&[9; 32]).recognition_key().verify(b"once", &tag), "after a restart");
        assert!(!key.verify(b"twice", &tag) && !key.verify(b"once", &tag[..31]));
        assert!(!Identity::new(&[8; 32]).recognition_key().verify(b"once", &tag));
        assert_eq!(format!("{key:?}"), "RecognitionKey");
    }

    #[test]
    fn the_private_key_is_not_shown() {
        let text = format!("{:?}", Identity::new(&[9; 32]));
        assert!(!text.contains("0909") && text.starts_with("Identity("), "{text}");
    }
}
