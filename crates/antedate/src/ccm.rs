//! AES-CCM (RFC 3610), ordinary and antedated (paper sections IV-A and IV-B together).
//!
//! ```text
//!  B_0 = flags | nonce | length of the data          A_i = flags | nonce | i
//!  MAC  = CBC-MAC(B_0 | length of AAD, AAD, zeros | data, zeros)
//!  tag  = MAC xor AES(A_0), cut                      data xor AES(A_1), AES(A_2), ...
//!
//!  before:  AES(A_0), AES(A_1) ...;  CBC-MAC over B_0, AAD and the whole blocks of the template
//!  online:  exclusive-or;            CBC-MAC over what is behind the template
//! ```
//!
//! B_0 holds the length, so the CBC-MAC can begin only for a predicted length. If length, AAD or template
//! differ in the end, the CBC-MAC is computed again, and the keystream is still of use.

use core::fmt;

use cipher::BlockCipherEncrypt;
use cipher::consts::U16;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::cbc_mac::CbcMac;
use crate::keystream::{BLOCK_OCTETS, Keystream, apply, wipe, xor};

/// Longest AAD for which a CBC-MAC is begun ahead: a record of DTLS has 13 octets, a SecTAG with its
/// addresses 28.
pub const AAD_OCTETS: usize = 32;

/// Longest AAD: a longer one has another encoding of its length.
pub const LONGEST_AAD: usize = 0xfeff;

/// A nonce of 7 to 13 octets. A shorter nonce permits longer messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce {
    octets: [u8; Self::LONGEST],
    length: u8,
}

impl Nonce {
    /// Octets of the longest nonce.
    pub const LONGEST: usize = 13;
    /// Octets of the shortest nonce.
    pub const SHORTEST: usize = 7;

    /// A nonce, if it has 7 to 13 octets.
    pub fn new(octets: &[u8]) -> Option<Self> {
        let length = octets.len();
        if !(Self::SHORTEST..=Self::LONGEST).contains(&length) {
            return None;
        }
        let mut nonce = Self { octets: [0; Self::LONGEST], length: length as u8 };
        nonce.octets[..length].copy_from_slice(octets);
        Some(nonce)
    }

    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }

    /// Octets of the length field, L of RFC 3610: 2 to 8.
    const fn length_octets(self) -> u8 {
        (BLOCK_OCTETS - 1) as u8 - self.length
    }

    /// Longest message under this nonce, in octets.
    pub const fn longest_message(self) -> u64 {
        match self.length_octets() {
            8 => u64::MAX,
            octets => (1 << (8 * octets)) - 1,
        }
    }

    /// `flags | nonce | number`, the number in the last octets.
    fn block(&self, flags: u8, number: u64) -> [u8; BLOCK_OCTETS] {
        let mut block = [0; BLOCK_OCTETS];
        // Covers only zeros of the number: it is below 256^L.
        block[8..].copy_from_slice(&number.to_be_bytes());
        block[0] = flags;
        block[1..1 + usize::from(self.length)].copy_from_slice(self.octets());
        block
    }
}

/// Length of a tag: 4, 6, 8, 10, 12, 14 or 16 octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagLength(u8);

impl TagLength {
    /// Tag of the suites of DTLS with CCM-8 (RFC 6655).
    pub const EIGHT: Self = Self(8);
    /// The whole MAC.
    pub const SIXTEEN: Self = Self(16);

    /// A length of 4, 6, 8, 10, 12, 14 or 16 octets.
    pub const fn new(octets: usize) -> Option<Self> {
        match octets {
            4 | 6 | 8 | 10 | 12 | 14 | 16 => Some(Self(octets as u8)),
            _ => None,
        }
    }

    /// The number of octets.
    pub const fn octets(self) -> usize {
        self.0 as usize
    }
}

/// Authentication tag of a message: 4 to 16 octets.
#[derive(Clone, Copy)]
pub struct Tag {
    octets: [u8; BLOCK_OCTETS],
    length: TagLength,
}

impl Tag {
    /// The octets, sent behind the data.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..self.length.octets()]
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tag").field(&self.octets()).finish()
    }
}

/// Error of a message that is not authentic. Its octets are wiped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAuthentic;

/// Usable share of the preparation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CacheHit {
    /// Nothing was prepared.
    Miss,
    /// Only the keystream: length, AAD or template were not as predicted, and the MAC was computed again.
    KeystreamOnly,
    /// All of it.
    Full,
}

/// Tag of a sealed message, with the usable preparation.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    /// The tag.
    pub tag: Tag,
    /// Usable share of the preparation.
    pub hit: CacheHit,
}

/// Predicted length of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Most likely length: the CBC-MAC is begun for it.
    pub length: usize,
    /// Length that is hardly ever exceeded: this much keystream is made.
    pub at_most: usize,
}

impl Expected {
    /// Exactly this many octets.
    pub const fn exactly(length: usize) -> Self {
        Self { length, at_most: length }
    }
}

/// AES-CCM under one key. `C`: `aes::Aes128` or `aes::Aes256`.
pub struct Ccm<C> {
    cipher: C,
    tag: TagLength,
}

impl<C> fmt::Debug for Ccm<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ccm").field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl<C> Ccm<C>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    /// CCM with this cipher, and tags of this length.
    pub const fn new(cipher: C, tag: TagLength) -> Self {
        Self { cipher, tag }
    }

    /// The length of its tags.
    pub const fn tag_length(&self) -> TagLength {
        self.tag
    }

    /// Encrypts `data` in place, in the ordinary way. `nonce` must be used only once under this key.
    ///
    /// # Panics
    /// If the AAD is longer than [`LONGEST_AAD`], or the data longer than [`Nonce::longest_message`].
    pub fn seal(&self, nonce: &Nonce, aad: &[u8], data: &mut [u8]) -> Tag {
        let mac = self.mac_of(nonce, aad, data);
        apply(&self.cipher, nonce.counter(0), BLOCK_OCTETS, data);
        self.tag_of(mac, &self.tag_mask(nonce))
    }

    /// Decrypts `data` in place, in the ordinary way.
    ///
    /// # Errors
    /// [`NotAuthentic`]; `data` is wiped.
    pub fn open(&self, nonce: &Nonce, aad: &[u8], data: &mut [u8], tag: &[u8]) -> Result<(), NotAuthentic> {
        if aad.len() > LONGEST_AAD || data.len() as u64 > nonce.longest_message() {
            data.zeroize();
            return Err(NotAuthentic);
        }
        apply(&self.cipher, nonce.counter(0), BLOCK_OCTETS, data);
        let mac = self.mac_of(nonce, aad, data);
        compare_tags(&self.tag_of(mac, &self.tag_mask(nonce)), tag, data)
    }

    /// Prepares for one message under `nonce`, which that message uses up. `template`: the predicted
    /// beginning of the message; octets beyond `T` are of no use.
    pub fn prepare<const N: usize, const T: usize>(
        &self,
        nonce: &Nonce,
        aad: &[u8],
        expected: Expected,
        template: &[u8],
    ) -> Prepared<'_, C, N, T> {
        let mut prepared = Prepared::empty(self);
        prepared.prepare_anew(nonce, aad, expected, template);
        prepared
    }

    /// AES(A_0).
    pub(crate) fn tag_mask(&self, nonce: &Nonce) -> Zeroizing<[u8; BLOCK_OCTETS]> {
        let mut mask = Zeroizing::new(nonce.counter(0));
        self.cipher.encrypt_block((&mut *mask).into());
        mask
    }

    /// The CBC-MAC over B_0 and the AAD.
    fn begin_mac(&self, nonce: &Nonce, aad: &[u8], length: usize) -> CbcMac {
        let tag = 8 * ((self.tag.0 - 2) / 2);
        let flags = (u8::from(!aad.is_empty()) << 6) | tag | (nonce.length_octets() - 1);
        let mut mac = CbcMac::new();
        mac.update(&self.cipher, &nonce.block(flags, length as u64));
        if !aad.is_empty() {
            mac.update(&self.cipher, &(aad.len() as u16).to_be_bytes());
            mac.update(&self.cipher, aad);
            mac.pad(&self.cipher);
        }
        mac
    }

    fn mac_of(&self, nonce: &Nonce, aad: &[u8], data: &[u8]) -> Zeroizing<[u8; BLOCK_OCTETS]> {
        assert!(aad.len() <= LONGEST_AAD, "an AAD of {} octets", aad.len());
        assert!(data.len() as u64 <= nonce.longest_message(), "a message of {} octets", data.len());
        let mut mac = self.begin_mac(nonce, aad, data.len());
        mac.update(&self.cipher, data);
        mac.finish(&self.cipher)
    }

    fn tag_of(&self, mut mac: Zeroizing<[u8; BLOCK_OCTETS]>, mask: &[u8; BLOCK_OCTETS]) -> Tag {
        xor(&mut mac[..], mask);
        Tag { octets: *mac, length: self.tag }
    }
}

impl Nonce {
    /// A_i.
    fn counter(&self, number: u64) -> [u8; BLOCK_OCTETS] {
        self.block(self.length_octets() - 1, number)
    }
}

/// Rest of a preparation that is done in steps.
pub(crate) struct Unfinished {
    /// Octets of keystream that are wanted.
    at_most: usize,
    /// CBC-MAC over B_0, the AAD, and so many octets of the template. `None`: it is of no use.
    mac: Option<CbcMac>,
    authenticated: usize,
}

/// Cipher work of a message, done before the message exists. One seal or open uses it up.
pub struct Prepared<'k, C, const N: usize, const T: usize> {
    ccm: &'k Ccm<C>,
    nonce: Nonce,
    keystream: Keystream<N>,
    tag_mask: Zeroizing<[u8; BLOCK_OCTETS]>,
    /// CBC-MAC over B_0, the AAD and the covered part of the template, if it could be begun.
    mac: Option<CbcMac>,
    aad: [u8; AAD_OCTETS],
    aad_octets: usize,
    length: usize,
    template: [u8; T],
    /// Octets of the template that the MAC covers: whole blocks, or the whole message.
    covered: usize,
}

impl<'k, C, const N: usize, const T: usize> Prepared<'k, C, N, T>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    /// Without preparation.
    pub(crate) fn empty(ccm: &'k Ccm<C>) -> Self {
        Self {
            ccm,
            nonce: Nonce { octets: [0; Nonce::LONGEST], length: Nonce::LONGEST as u8 },
            keystream: Keystream::EMPTY,
            tag_mask: Zeroizing::new([0; BLOCK_OCTETS]),
            mac: None,
            aad: [0; AAD_OCTETS],
            aad_octets: 0,
            length: 0,
            template: [0; T],
            covered: 0,
        }
    }

    /// Prepares for another message, in place.
    pub(crate) fn prepare_anew(&mut self, nonce: &Nonce, aad: &[u8], expected: Expected, template: &[u8]) {
        let mut unfinished = self.begin(nonce, aad, expected, template);
        self.step(&mut unfinished, usize::MAX);
    }

    /// Begins to prepare for another message, in place: what does not depend on its length, its mask and its AAD. Until the rest is
    /// done it is of use as far as it is.
    pub(crate) fn begin(
        &mut self,
        nonce: &Nonce,
        aad: &[u8],
        expected: Expected,
        template: &[u8],
    ) -> Unfinished {
        let Self { ccm, .. } = *self;
        self.nonce = *nonce;
        self.keystream.begin(nonce.counter(1));
        self.tag_mask = ccm.tag_mask(nonce);
        self.mac = None;
        let length = expected.length;
        let mut unfinished = Unfinished { at_most: expected.at_most, mac: None, authenticated: 0 };
        let Some(kept) = self.aad.get_mut(..aad.len()).filter(|_| length as u64 <= nonce.longest_message())
        else {
            return unfinished;
        };
        kept.copy_from_slice(aad);
        let known = template.len().min(T).min(length);
        let covered = if known == length { known } else { known - known % BLOCK_OCTETS };
        wipe(self.template.get_mut(covered..self.covered).unwrap_or_default());
        self.template[..covered].copy_from_slice(&template[..covered]);
        (self.aad_octets, self.length, self.covered) = (aad.len(), length, covered);
        unfinished.mac = Some(ccm.begin_mac(nonce, aad, length));
        unfinished
    }

    /// Goes on by at most so many blocks of AES: keystream first, then the template. True when all is done.
    pub(crate) fn step(&mut self, unfinished: &mut Unfinished, blocks: usize) -> bool {
        let Self { ccm, .. } = *self;
        let left = blocks - self.keystream.extend(&ccm.cipher, unfinished.at_most, blocks);
        if !self.keystream.has(unfinished.at_most) {
            return false;
        }
        let Some(mac) = &mut unfinished.mac else { return true };
        let rest = &self.template[unfinished.authenticated..self.covered];
        let taken = rest.len().min(left.saturating_mul(BLOCK_OCTETS));
        mac.update(&ccm.cipher, &rest[..taken]);
        unfinished.authenticated += taken;
        if unfinished.authenticated < self.covered {
            return false;
        }
        if self.covered == self.length {
            mac.pad(&ccm.cipher);
        }
        self.mac = unfinished.mac.take();
        true
    }

    /// Its nonce.
    pub const fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    /// True if the message is as predicted. In constant time for messages of one length.
    fn is_as_expected(&self, aad: &[u8], data: &[u8]) -> bool {
        let lengths = data.len() == self.length && aad.len() == self.aad_octets;
        lengths && equal(aad, &self.aad) & equal(&data[..self.covered], &self.template)
    }

    /// Encrypts `data` in place.
    ///
    /// # Panics
    /// As [`Ccm::seal`].
    pub fn seal(mut self, aad: &[u8], data: &mut [u8]) -> Sealed {
        self.consume(aad, data)
    }

    /// [`Prepared::seal`] in place. The caller never uses it again.
    pub(crate) fn consume(&mut self, aad: &[u8], data: &mut [u8]) -> Sealed {
        let (mac, hit) = self.mac_of(aad, data);
        self.keystream.consume(&self.ccm.cipher, data);
        Sealed { tag: self.ccm.tag_of(mac, &self.tag_mask), hit }
    }

    /// Decrypts `data` in place.
    ///
    /// # Errors
    /// [`NotAuthentic`]; `data` is wiped. A forged message uses the preparation up too: the true one is then
    /// opened in the ordinary way.
    pub fn open(mut self, aad: &[u8], data: &mut [u8], tag: &[u8]) -> Result<CacheHit, NotAuthentic> {
        if aad.len() > LONGEST_AAD || data.len() as u64 > self.nonce.longest_message() {
            data.zeroize();
            return Err(NotAuthentic);
        }
        self.keystream.consume(&self.ccm.cipher, data);
        let (mac, hit) = self.mac_of(aad, data);
        compare_tags(&self.ccm.tag_of(mac, &self.tag_mask), tag, data).map(|()| hit)
    }

    /// MAC of a message, resumed if the message is as predicted.
    fn mac_of(&mut self, aad: &[u8], data: &[u8]) -> (Zeroizing<[u8; BLOCK_OCTETS]>, CacheHit) {
        let Self { ccm, .. } = *self;
        match self.mac.take().filter(|_| self.is_as_expected(aad, data)) {
            Some(mut mac) => {
                mac.update(&ccm.cipher, &data[self.covered..]);
                (mac.finish(&ccm.cipher), CacheHit::Full)
            }
            None => (ccm.mac_of(&self.nonce, aad, data), CacheHit::KeystreamOnly),
        }
    }
}

impl<C, const N: usize, const T: usize> Drop for Prepared<'_, C, N, T> {
    fn drop(&mut self) {
        wipe(&mut self.template[..self.covered]);
    }
}

/// True if `other` begins with `octets`. Its time depends on lengths alone. By words: see [`xor`].
fn equal(octets: &[u8], other: &[u8]) -> bool {
    let (words, rest) = octets.as_chunks::<4>();
    let (other_words, _) = other.as_chunks::<4>();
    let differs = words
        .iter()
        .zip(other_words)
        .fold(0, |differs, (word, other)| differs | (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(*other)));
    let rest_differs = rest
        .iter()
        .zip(&other[4 * words.len()..])
        .fold(0, |differs, (octet, other)| differs | (octet ^ other));
    bool::from((differs | u32::from(rest_differs)).ct_eq(&0))
}

/// Compares tags in constant time.
fn compare_tags(own: &Tag, tag: &[u8], data: &mut [u8]) -> Result<(), NotAuthentic> {
    if bool::from(own.octets().ct_eq(tag)) {
        Ok(())
    } else {
        data.zeroize();
        Err(NotAuthentic)
    }
}
