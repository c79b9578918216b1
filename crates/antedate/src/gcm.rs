//! AES-GCM (NIST SP 800-38D) with nonces of 12 octets and tags of 16, ordinary and antedated.
//!
//! ```text
//!  H = AES(0)     J_0 = nonce | 1     tag = GHASH(AAD, zeros | data, zeros | lengths) xor AES(J_0)
//!
//!  before:  AES(J_0), the keystream from J_0 + 1 on, GHASH over the whole blocks of the AAD's constant part
//!  online:  exclusive-or, GHASH over the rest
//! ```
//!
//! GHASH runs over the encrypted data, so none of it can be done ahead: a template is of no use here.

pub mod sender;

use core::fmt;

use cipher::BlockCipherEncrypt;
use cipher::consts::U16;
use ghash::GHash;
use ghash::universal_hash::UniversalHash as _;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::ccm::{AAD_OCTETS, CacheHit, NotAuthentic};
use crate::keystream::{BLOCK_OCTETS, Keystream, apply};

/// Octets of a nonce.
pub const NONCE_OCTETS: usize = 12;

/// AES-GCM under one key. `C`: `aes::Aes128` or `aes::Aes256`.
pub struct Gcm<C> {
    cipher: C,
    ghash: GHash,
}

impl<C> fmt::Debug for Gcm<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gcm")
    }
}

impl<C> Gcm<C>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    /// GCM with this cipher.
    pub fn new(cipher: C) -> Self {
        let mut h = Zeroizing::new([0; BLOCK_OCTETS]);
        cipher.encrypt_block((&mut *h).into());
        let ghash = GHash::new((&*h).into());
        Self { cipher, ghash }
    }

    /// Encrypts `data` in place, in the ordinary way. `nonce` must be used only once under this key.
    pub fn seal(&self, nonce: &[u8; NONCE_OCTETS], aad: &[u8], data: &mut [u8]) -> [u8; BLOCK_OCTETS] {
        apply(&self.cipher, counter(nonce, 1), BLOCK_OCTETS, data);
        self.tag(self.ghash.clone(), (aad, 0), data, &self.tag_mask(nonce))
    }

    /// Decrypts `data` in place, in the ordinary way, after checking its authenticity.
    ///
    /// # Errors
    /// [`NotAuthentic`]; `data` is wiped.
    pub fn open(
        &self,
        nonce: &[u8; NONCE_OCTETS],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; BLOCK_OCTETS],
    ) -> Result<(), NotAuthentic> {
        let own = self.tag(self.ghash.clone(), (aad, 0), data, &self.tag_mask(nonce));
        compare_tags(&own, tag, data)?;
        apply(&self.cipher, counter(nonce, 1), BLOCK_OCTETS, data);
        Ok(())
    }

    /// Prepares for one message of about `octets` octets under `nonce`, which that message uses up. `aad`:
    /// the predicted beginning of its AAD.
    pub fn prepare<const N: usize>(
        &self,
        nonce: &[u8; NONCE_OCTETS],
        aad: &[u8],
        octets: usize,
    ) -> Prepared<'_, C, N> {
        let keystream = Keystream::prepare(&self.cipher, counter(nonce, 2), octets);
        let hashed = aad.len().min(AAD_OCTETS) / BLOCK_OCTETS * BLOCK_OCTETS;
        let mut constant = [0; AAD_OCTETS];
        constant[..hashed].copy_from_slice(&aad[..hashed]);
        let mut ghash = self.ghash.clone();
        ghash.update_padded(&aad[..hashed]);
        Prepared {
            gcm: self,
            nonce: *nonce,
            keystream,
            tag_mask: self.tag_mask(nonce),
            ghash,
            constant,
            hashed,
        }
    }

    /// AES(J_0).
    fn tag_mask(&self, nonce: &[u8; NONCE_OCTETS]) -> Zeroizing<[u8; BLOCK_OCTETS]> {
        let mut mask = Zeroizing::new(counter(nonce, 1));
        self.cipher.encrypt_block((&mut *mask).into());
        mask
    }

    /// Tag of an encrypted message. `ghash` already covers `hashed` octets of the AAD.
    fn tag(
        &self,
        mut ghash: GHash,
        (aad, hashed): (&[u8], usize),
        data: &[u8],
        mask: &[u8; BLOCK_OCTETS],
    ) -> [u8; BLOCK_OCTETS] {
        ghash.update_padded(&aad[hashed..]);
        ghash.update_padded(data);
        let mut lengths = [0; BLOCK_OCTETS];
        lengths[..8].copy_from_slice(&(8 * aad.len() as u64).to_be_bytes());
        lengths[8..].copy_from_slice(&(8 * data.len() as u64).to_be_bytes());
        ghash.update(&[lengths.into()]);
        let mut tag: [u8; BLOCK_OCTETS] = ghash.finalize().into();
        crate::keystream::xor(&mut tag, mask);
        tag
    }
}

/// Cipher work of a message, done before the message exists. One seal or open uses it up.
pub struct Prepared<'k, C, const N: usize> {
    gcm: &'k Gcm<C>,
    nonce: [u8; NONCE_OCTETS],
    keystream: Keystream<N>,
    tag_mask: Zeroizing<[u8; BLOCK_OCTETS]>,
    ghash: GHash,
    /// The octets that `ghash` covers.
    constant: [u8; AAD_OCTETS],
    hashed: usize,
}

impl<C, const N: usize> Prepared<'_, C, N>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    /// Its nonce.
    pub const fn nonce(&self) -> &[u8; NONCE_OCTETS] {
        &self.nonce
    }

    /// Encrypts `data` in place.
    pub fn seal(mut self, aad: &[u8], data: &mut [u8]) -> ([u8; BLOCK_OCTETS], CacheHit) {
        self.consume(aad, data)
    }

    /// [`Prepared::seal`] in place. The caller never uses it again.
    pub(crate) fn consume(&mut self, aad: &[u8], data: &mut [u8]) -> ([u8; BLOCK_OCTETS], CacheHit) {
        self.keystream.consume(&self.gcm.cipher, data);
        self.tag(aad, data)
    }

    /// Decrypts `data` in place, after checking its authenticity.
    ///
    /// # Errors
    /// [`NotAuthentic`]; `data` is wiped. A forged message uses the preparation up too: the true one is then
    /// opened in the ordinary way.
    pub fn open(
        mut self,
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; BLOCK_OCTETS],
    ) -> Result<CacheHit, NotAuthentic> {
        let (own, hit) = self.tag(aad, data);
        compare_tags(&own, tag, data)?;
        self.keystream.consume(&self.gcm.cipher, data);
        Ok(hit)
    }

    /// Tag of an encrypted message, its hash resumed if the AAD is as predicted.
    fn tag(&self, aad: &[u8], data: &[u8]) -> ([u8; BLOCK_OCTETS], CacheHit) {
        let (ghash, begun, hit) = if aad.starts_with(&self.constant[..self.hashed]) {
            (&self.ghash, self.hashed, CacheHit::Full)
        } else {
            (&self.gcm.ghash, 0, CacheHit::KeystreamOnly)
        };
        (self.gcm.tag(ghash.clone(), (aad, begun), data, &self.tag_mask), hit)
    }
}

/// The counter block with this number; the first one, J_0, has 1.
const fn counter(nonce: &[u8; NONCE_OCTETS], number: u8) -> [u8; BLOCK_OCTETS] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *nonce;
    [a, b, c, d, e, f, g, h, i, j, k, l, 0, 0, 0, number]
}

/// Compares tags in constant time.
fn compare_tags(
    own: &[u8; BLOCK_OCTETS],
    tag: &[u8; BLOCK_OCTETS],
    data: &mut [u8],
) -> Result<(), NotAuthentic> {
    if bool::from(own.ct_eq(tag)) {
        Ok(())
    } else {
        data.zeroize();
        Err(NotAuthentic)
    }
}
