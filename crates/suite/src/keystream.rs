//! Keystream of ChaCha20-Poly1305 before there is a frame for it (RFC 8439, section 2.8): for whoever seals and opens with it elsewhere.
//!
//! ```text
//!  block of counter 0    Poly1305 key 32 | 32 octets of no use
//!  blocks from 1 on      keystream of the text
//! ```

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};

use crate::{CipherSuite, Nonce, Sak, Secret};

/// Octets of a key.
const KEY_OCTETS: usize = 32;

/// A key of ChaCha20-Poly1305, which gives its keystream. It is wiped when it is dropped.
#[derive(Debug)]
pub struct ChaCha20Keystream(Secret);

impl ChaCha20Keystream {
    /// Octets of the block that begins with the Poly1305 key: the text's keystream stands behind.
    pub const FIRST_BLOCK: usize = 64;
    /// Octets of the Poly1305 key.
    pub const POLY1305_KEY: usize = 32;

    /// The keystream of a SAK; `None` if the suite is not ChaCha20-Poly1305.
    pub fn of(suite: CipherSuite, sak: &Sak) -> Option<Self> {
        let fits = matches!(suite, CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn)
            && sak.octets().len() == KEY_OCTETS;
        fits.then(|| Self(Secret::new(sak.octets())))
    }

    /// Fills `octets` with the keystream of a frame's nonce, from counter 0 on. The caller wipes them.
    pub fn write(&self, nonce: &Nonce, octets: &mut [u8]) {
        let key = self.0.octets().first_chunk::<KEY_OCTETS>().expect("invariant: as long as it was made");
        octets.fill(0);
        ChaCha20::new(key.into(), &nonce.octets().into()).apply_keystream(octets);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Key, SealJob};
    use std::vec;

    /// Section 2.6.2: the Poly1305 key of that nonce.
    #[test]
    fn the_poly1305_key_is_that_of_the_rfc() {
        let key: [u8; 32] = std::array::from_fn(|octet| 0x80 + octet as u8);
        let sak = Sak::new(CipherSuite::ChaCha20Poly1305, &key).unwrap();
        let keystream = ChaCha20Keystream::of(CipherSuite::ChaCha20Poly1305, &sak).unwrap();
        let mut octets = [0xee; 32];
        keystream.write(&Nonce::from_octets([0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]), &mut octets);
        let expected = "8ad5a08b905f81cc815040274ab29471a833b637e3fd0da508dbb8e2fdd1a646";
        assert_eq!(hex::encode(octets), expected);
    }

    /// Sealed zeros are the keystream.
    #[test]
    fn the_keystream_is_that_of_the_suite() {
        let suite = CipherSuite::ChaCha20Poly1305Xpn;
        let sak = Sak::new(suite, &[7; 32]).unwrap();
        let (key, keystream) =
            (Key::prepare(suite, &sak).unwrap(), ChaCha20Keystream::of(suite, &sak).unwrap());
        let nonce = Nonce::from_octets([9; 12]);
        for text in [0, 1, 63, 64, 200, 1500] {
            let mut octets = vec![0xee; ChaCha20Keystream::FIRST_BLOCK + text];
            keystream.write(&nonce, &mut octets);
            let mut zeros = vec![0; text];
            key.seal_each([SealJob { nonce, aad: &[], text: &mut zeros, icv: &mut [0; 16] }].into_iter());
            assert_eq!(octets[ChaCha20Keystream::FIRST_BLOCK..], zeros, "{text}");
        }
    }

    #[test]
    fn other_suites_have_none() {
        for suite in CipherSuite::ALL {
            let sak = Sak::new(suite, &[1; 32][..suite.key_octets()]).unwrap();
            let is_chacha = suite.name().starts_with("chacha20-poly1305");
            assert_eq!(ChaCha20Keystream::of(suite, &sak).is_some(), is_chacha, "{suite}");
        }
    }
}
