//! Key of the beats that two boxes on one LAN send each other, derived from their identities.
//!
//! ```text
//!  a, A   Ed25519 key pair of a box (RFC 8032): private key and public key
//!  secret = X25519(first half of SHA-512(a), u(B))       u(B): the Montgomery coordinate of B (RFC 7748, 4.1)
//!  key    = HKDF-SHA-256(salt = "fw-site-1", secret, info = "beat" | lower public key | higher public key)
//!  tag    = first 16 octets of HMAC-SHA-256(key, sender's public key | octets)
//! ```
//!
//! So the boxes need no further secret, and no connection to agree on one. Only they have the key: other sites, which know both public
//! keys, do not. The sender's public key under the tag tells a beat from its reflection. What is computed here by hand, u(B), is made
//! of a public key alone; aws-lc does the rest.

use alloc::vec::Vec;
use core::fmt;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA512, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use crate::identity::{Identity, PublicKey};
use crate::scrubbed;

/// Octets of a tag.
pub const BEAT_TAG_OCTETS: usize = 16;

/// Key of the beats of two boxes, as one of them has it.
#[derive(Clone)]
pub struct BeatKey {
    key: hmac::Key,
    own: PublicKey,
    partner: PublicKey,
}

impl BeatKey {
    /// The key that `own` shares with the box that has this public key. `None` if that is no public key with which a secret can be
    /// agreed on.
    pub fn of(own: &Identity, partner: PublicKey) -> Option<Self> {
        let coordinate = montgomery(&partner.0)?;
        let public = own.public();
        let (low, high) = if public < partner { (public, partner) } else { (partner, public) };
        scrubbed(|| {
            let seed = digest(&SHA512, own.private());
            let scalar = Zeroizing::new(seed.as_ref().first_chunk::<32>().copied()?);
            let private = PrivateKey::from_private_key(&X25519, &*scalar).ok()?;
            agree(&private, UnparsedPublicKey::new(&X25519, coordinate), (), |secret| {
                let pseudo_random = Salt::new(HKDF_SHA256, b"fw-site-1").extract(secret);
                let info = [&b"beat"[..], &low.0, &high.0];
                pseudo_random.expand(&info, hmac::HMAC_SHA256).map(hmac::Key::from).map_err(drop)
            })
            .ok()
        })
        .map(|key| Self { key, own: public, partner })
    }

    /// True if this box's public key comes first in order.
    pub fn is_first(&self) -> bool {
        self.own < self.partner
    }

    /// The tag of octets that this box sends.
    pub fn tag(&self, octets: &[u8]) -> [u8; BEAT_TAG_OCTETS] {
        self.tag_of(self.own, octets)
    }

    /// True if the partner made this tag of these octets. In constant time.
    pub fn verify(&self, octets: &[u8], tag: &[u8]) -> bool {
        verify_slices_are_equal(&self.tag_of(self.partner, octets), tag).is_ok()
    }

    fn tag_of(&self, sender: PublicKey, octets: &[u8]) -> [u8; BEAT_TAG_OCTETS] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&sender.0);
        context.update(octets);
        let mut tag = [0; BEAT_TAG_OCTETS];
        tag.copy_from_slice(&context.sign().as_ref()[..BEAT_TAG_OCTETS]);
        tag
    }
}

impl fmt::Debug for BeatKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeatKey")
    }
}

/// The Montgomery coordinate (1 + y) / (1 - y) of an Edwards point, little-endian both; `None` if there is none. The sign of x does not
/// matter. For public keys alone: its time depends on its input.
fn montgomery(point: &[u8; 32]) -> Option<[u8; 32]> {
    let mut y = *point;
    y[31] &= 0x7f;
    let (y, one) = (Field::of(&y), Field([1, 0, 0, 0]));
    let denominator = one.minus(y);
    if denominator == Field([0; 4]) {
        return None;
    }
    Some(one.plus(y).times(denominator.inverse()).octets())
}

/// An element of the field of 2^255 - 19 elements, below that number; limbs of 64 bits, the lowest first.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Field([u64; 4]);

const PRIME: [u64; 4] = [u64::MAX - 18, u64::MAX, u64::MAX, u64::MAX >> 1];

impl Field {
    fn of(octets: &[u8; 32]) -> Self {
        let mut limbs = [0; 4];
        for (limb, octets) in limbs.iter_mut().zip(octets.as_chunks::<8>().0) {
            *limb = u64::from_le_bytes(*octets);
        }
        Self(limbs).reduced()
    }

    fn octets(self) -> [u8; 32] {
        let octets: Vec<u8> = self.0.iter().flat_map(|limb| limb.to_le_bytes()).collect();
        octets.try_into().expect("invariant: four limbs of eight octets")
    }

    /// Of a number below 2^256.
    fn reduced(mut self) -> Self {
        while let (limbs, false) = subtract(self.0, PRIME) {
            self.0 = limbs;
        }
        self
    }

    fn plus(self, other: Self) -> Self {
        // Both are below 2^255, so nothing is carried out.
        let mut carry = 0;
        let mut sum = [0; 4];
        for (place, limb) in sum.iter_mut().enumerate() {
            let wide = u128::from(self.0[place]) + u128::from(other.0[place]) + carry;
            (*limb, carry) = (wide as u64, wide >> 64);
        }
        Self(sum).reduced()
    }

    fn minus(self, other: Self) -> Self {
        let (negated, _) = subtract(PRIME, other.0);
        self.plus(Self(negated).reduced())
    }

    fn times(self, other: Self) -> Self {
        let mut product = [0_u64; 8];
        for (low, a) in self.0.iter().enumerate() {
            let mut carry = 0;
            for (high, b) in other.0.iter().enumerate() {
                let wide = u128::from(*a) * u128::from(*b) + u128::from(product[low + high]) + carry;
                (product[low + high], carry) = (wide as u64, wide >> 64);
            }
            product[low + 4] = carry as u64;
        }
        // 2^256 is 38 here.
        let (low, high) = product.split_at(4);
        let mut limbs = [0; 4];
        let mut carry = 0;
        for (place, limb) in limbs.iter_mut().enumerate() {
            let wide = u128::from(low[place]) + 38 * u128::from(high[place]) + carry;
            (*limb, carry) = (wide as u64, wide >> 64);
        }
        let folded = Self([38 * carry as u64, 0, 0, 0]);
        Self(limbs).reduced().plus(folded)
    }

    /// Its power to 2^255 - 21 (Fermat).
    fn inverse(self) -> Self {
        let (exponent, _) = subtract(PRIME, [2, 0, 0, 0]);
        let mut power = Self([1, 0, 0, 0]);
        for bit in (0..255).rev() {
            power = power.times(power);
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
                power = power.times(self);
            }
        }
        power
    }
}

/// The difference, and whether it is below zero.
fn subtract(from: [u64; 4], what: [u64; 4]) -> ([u64; 4], bool) {
    let mut difference = [0; 4];
    let mut borrow = false;
    for (place, limb) in difference.iter_mut().enumerate() {
        let (first, under) = from[place].overflowing_sub(what[place]);
        let (second, under_again) = first.overflowing_sub(u64::from(borrow));
        (*limb, borrow) = (second, under | under_again);
    }
    (difference, borrow)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn identity(number: u8) -> Identity {
        Identity::new(&[number; 32])
    }

    /// The library's own X25519 makes the same coordinate out of the private key.
    #[test]
    fn a_coordinate_is_the_public_key_of_the_private_keys_scalar() {
        for number in 1..=64 {
            let identity = identity(number);
            let seed = digest(&SHA512, identity.private());
            let private = PrivateKey::from_private_key(&X25519, &seed.as_ref()[..32]).unwrap();
            let expected = private.compute_public_key().unwrap();
            let coordinate = montgomery(&identity.public().0).unwrap();
            assert_eq!(coordinate.as_slice(), expected.as_ref(), "{number}");
        }
    }

    #[test]
    fn both_boxes_have_one_key_and_nobody_else_does() {
        let [a, b, c] = [1, 2, 3].map(identity);
        let key = |own: &Identity, other: &Identity| BeatKey::of(own, other.public()).unwrap();
        let (at_a, at_b) = (key(&a, &b), key(&b, &a));
        let tag = at_a.tag(b"beat");
        assert!(at_b.verify(b"beat", &tag));
        assert!(!at_b.verify(b"beet", &tag) && !at_b.verify(b"beat", &tag[1..]));
        assert!(!at_a.verify(b"beat", &tag), "its own beat, reflected");
        assert!(!key(&c, &a).verify(b"beat", &tag) && !key(&b, &c).verify(b"beat", &tag));
        assert_ne!(at_a.is_first(), at_b.is_first());
    }

    /// Points of small order give no secret.
    #[test]
    fn points_that_give_no_secret_are_refused() {
        let mut minus_one = [0xff; 32];
        (minus_one[0], minus_one[31]) = (0xec, 0x7f);
        let mut one = [0; 32];
        one[0] = 1;
        for point in [one, [0; 32], minus_one] {
            assert!(BeatKey::of(&identity(1), PublicKey(point)).is_none(), "{point:?}");
        }
    }
}
