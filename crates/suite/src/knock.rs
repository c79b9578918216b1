//! Knocks: a proof of knowing a site's public key. A site answers nobody without one, so nobody finds sites
//! by probing all addresses (the project's wire formats, section 3.5).
//!
//! A knock is `random 8 | the first 12 octets of HMAC-SHA-256(key, random)`, where `key = HKDF-SHA-256(salt =
//! "fw-site-1", the site's SubjectPublicKeyInfo, info = "knock", 32 octets)`. It hides nothing and does not
//! identify the sender: TLS does that. An eavesdropper can replay one.

use core::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac;

use crate::identity::PublicKey;

/// Octets of a knock: the maximum length of a QUIC connection ID.
pub const KNOCK_OCTETS: usize = 20;
/// Random octets of a knock.
pub const KNOCK_RANDOM_OCTETS: usize = 8;

/// Key that makes and recognises knocks at a site. Derived from the public key, so not secret.
#[derive(Clone)]
pub struct KnockKey(hmac::Key);

impl KnockKey {
    /// Key of the site with this public key.
    pub fn of(site: PublicKey) -> Self {
        let pseudo_random = Salt::new(HKDF_SHA256, b"fw-site-1").extract(&site.spki());
        let key = pseudo_random
            .expand(&[b"knock"], hmac::HMAC_SHA256)
            .map(hmac::Key::from)
            .expect("invariant: HKDF-SHA-256 gives up to 8160 octets");
        Self(key)
    }

    /// The knock with these octets. They are drawn for each knock, and nobody can predict them.
    pub fn knock(&self, random: [u8; KNOCK_RANDOM_OCTETS]) -> [u8; KNOCK_OCTETS] {
        let mut knock = [0; KNOCK_OCTETS];
        let (drawn, proof) = knock.split_at_mut(KNOCK_RANDOM_OCTETS);
        drawn.copy_from_slice(&random);
        proof.copy_from_slice(&hmac::sign(&self.0, &random).as_ref()[..KNOCK_OCTETS - KNOCK_RANDOM_OCTETS]);
        knock
    }

    /// True if these octets are a knock at this site.
    pub fn recognises(&self, octets: &[u8]) -> bool {
        octets.len() == KNOCK_OCTETS
            && octets
                .first_chunk()
                .is_some_and(|random| verify_slices_are_equal(&self.knock(*random), octets).is_ok())
    }
}

impl fmt::Debug for KnockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnockKey")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    fn key(digits: &str) -> PublicKey {
        PublicKey(hex::decode(digits).expect("digits").try_into().expect("32 octets"))
    }

    /// The public key of RFC 8410, section 10.1; the digits were calculated apart, with Python's hmac module.
    #[test]
    fn a_knock_is_that_of_the_format() {
        let site = key("19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1");
        let knock = KnockKey::of(site).knock([1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(hex::encode(knock), "010203040506070816b9c92896e56655bec987e8");
        assert_eq!(format!("{:?}", KnockKey::of(site)), "KnockKey");
    }

    #[test]
    fn a_knock_opens_this_site_alone_and_to_the_bit() {
        let [here, there] = [1, 2].map(|number| KnockKey::of(PublicKey([number; 32])));
        let knock = here.knock([9; 8]);
        assert!(here.recognises(&knock) && !there.recognises(&knock));
        for bit in 0..8 * KNOCK_OCTETS {
            let mut other = knock;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!here.recognises(&other), "bit {bit}");
        }
        assert!((0..KNOCK_OCTETS).all(|octets| !here.recognises(&knock[..octets])), "cut off");
        assert!(!here.recognises(&[&knock[..], &[0]].concat()), "too long");
        assert!(!here.recognises(&[0; KNOCK_OCTETS]) && !here.recognises(&[]));
    }
}
