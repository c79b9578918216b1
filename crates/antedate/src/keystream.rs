//! Counter mode, antedated (paper section IV-A): the keystream is made before the data exists, and the data
//! uses it up.
//!
//! ```text
//!  before:  cs_i = AES(k, ctr_i)             for as many octets as the message is expected to have
//!  online:  c_i  = cs_i xor p_i              and cs_i for what is longer than expected
//! ```
//!
//! The last 32 bits of the counter block count, which is enough for messages below 64 GiB.

use cipher::array::Array;
use cipher::consts::U16;
use cipher::{BlockCipherEncrypt, InnerIvInit as _, StreamCipherCore as _};
use ctr::CtrCore;
use ctr::flavors::Ctr32BE;
use zeroize::{Zeroizing, optimization_barrier};

/// Octets of a block.
pub const BLOCK_OCTETS: usize = 16;

/// Beginning of the keystream from one counter block, `N` octets at most. Used up by its message, and wiped.
pub struct Keystream<const N: usize> {
    /// The counter block of the first octet.
    first: [u8; BLOCK_OCTETS],
    octets: [u8; N],
    ready: usize,
}

impl<const N: usize> Keystream<N> {
    /// Makes `octets` of the keystream from the counter block `first`, or `N` if that is less. Makes whole
    /// blocks, so a few more may be ready.
    pub fn prepare<C>(cipher: &C, first: [u8; BLOCK_OCTETS], octets: usize) -> Self
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        let mut keystream = Self::EMPTY;
        keystream.begin(first);
        keystream.extend(cipher, octets, usize::MAX);
        keystream
    }

    /// Without prepared octets.
    pub(crate) const EMPTY: Self = Self { first: [0; BLOCK_OCTETS], octets: [0; N], ready: 0 };

    /// Begins another keystream in place, without an octet of it.
    pub(crate) fn begin(&mut self, first: [u8; BLOCK_OCTETS]) {
        self.octets[..self.ready].fill(0);
        (self.first, self.ready) = (first, 0);
    }

    /// Makes at most so many blocks more, until `octets` are ready, or `N` if that is less. How many it made.
    pub(crate) fn extend<C>(&mut self, cipher: &C, octets: usize, blocks: usize) -> usize
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        let until = wanted::<N>(octets).min(self.ready.saturating_add(blocks.saturating_mul(BLOCK_OCTETS)));
        let Some(missing) = self.octets.get_mut(self.ready..until) else { return 0 };
        let (whole, rest) = missing.as_chunks_mut::<BLOCK_OCTETS>();
        let made = whole.len() + usize::from(!rest.is_empty());
        let mut stream = stream(cipher, self.first, self.ready / BLOCK_OCTETS);
        if !whole.is_empty() {
            stream.write_keystream_blocks(Array::cast_slice_from_core_mut(whole));
        }
        if !rest.is_empty() {
            let mut last = Zeroizing::new([0; BLOCK_OCTETS]);
            stream.write_keystream_block((&mut *last).into());
            rest.copy_from_slice(&last[..rest.len()]);
        }
        self.ready = until;
        made
    }

    /// True if so many octets are ready, or `N` if that is less.
    pub(crate) fn has(&self, octets: usize) -> bool {
        self.ready >= wanted::<N>(octets)
    }

    /// Number of prepared octets.
    pub const fn ready(&self) -> usize {
        self.ready
    }

    /// Encrypts or decrypts `data` in place, and makes the missing keystream. `cipher` must be that of the
    /// preparation.
    pub fn apply<C>(mut self, cipher: &C, data: &mut [u8])
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        self.consume(cipher, data);
    }

    /// [`Keystream::apply`] in place. The caller never uses it again; it is wiped later.
    pub(crate) fn consume<C>(&mut self, cipher: &C, data: &mut [u8])
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        let (covered, rest) = data.split_at_mut(self.ready.min(data.len()));
        xor(covered, &self.octets);
        if !rest.is_empty() {
            apply(cipher, self.first, self.ready, rest);
        }
    }
}

impl<const N: usize> Drop for Keystream<N> {
    fn drop(&mut self) {
        wipe(&mut self.octets[..self.ready]);
    }
}

/// Octets of whole blocks, as far as there is room.
fn wanted<const N: usize>(octets: usize) -> usize {
    octets.div_ceil(BLOCK_OCTETS).saturating_mul(BLOCK_OCTETS).min(N)
}

/// The keystream from the counter block `first`, behind so many blocks.
fn stream<C>(cipher: &C, first: [u8; BLOCK_OCTETS], blocks: usize) -> CtrCore<&C, Ctr32BE>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let [prefix @ .., a, b, c, d] = first;
    let counter = u32::from_be_bytes([a, b, c, d]).wrapping_add(blocks as u32);
    let mut block = [0; BLOCK_OCTETS];
    block[..12].copy_from_slice(&prefix);
    block[12..].copy_from_slice(&counter.to_be_bytes());
    CtrCore::<&C, Ctr32BE>::inner_iv_init(cipher, &block.into())
}

/// Wipes as zeroize does, but by words: on a microcontroller, octet by octet costs as much as the cipher.
pub(crate) fn wipe(octets: &mut [u8]) {
    octets.fill(0);
    optimization_barrier(octets);
}

/// Applies the keystream from the counter block `first`, beginning with its octet number `from`.
pub(crate) fn apply<C>(cipher: &C, first: [u8; BLOCK_OCTETS], from: usize, data: &mut [u8])
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let within = from % BLOCK_OCTETS;
    let mut stream = stream(cipher, first, from / BLOCK_OCTETS);
    // The crate's core without its wrapper, whose buffer between calls is not needed here: on a
    // microcontroller it costs as much as two blocks.
    let (head, data) =
        data.split_at_mut(if within == 0 { 0 } else { (BLOCK_OCTETS - within).min(data.len()) });
    if !head.is_empty() {
        let mut keystream = Zeroizing::new([0; BLOCK_OCTETS]);
        stream.write_keystream_block((&mut *keystream).into());
        xor(head, &keystream[within..]);
    }
    if !data.is_empty() {
        stream.apply_keystream_partial(data.into());
    }
}

/// Exclusive-or over the shorter length.
#[inline]
pub(crate) fn xor(data: &mut [u8], with: &[u8]) {
    // By words: a microcontroller has no vectors, and octet by octet this loop would be most of the remaining
    // work.
    let (words, rest) = data.as_chunks_mut::<4>();
    let (with_words, _) = with.as_chunks::<4>();
    let done = 4 * words.len();
    for (word, with) in words.iter_mut().zip(with_words) {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(*with)).to_ne_bytes();
    }
    for (octet, with) in rest.iter_mut().zip(with.get(done..).unwrap_or_default()) {
        *octet ^= with;
    }
}

#[cfg(test)]
mod tests {
    use aes::Aes128;
    use aes::cipher::KeyInit;

    use super::*;

    #[test]
    fn whatever_is_ready_the_message_is_the_same() {
        // NIST SP 800-38A, F.5.1, whose counter block counts within its last 32 bits.
        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
        let first = 0xf0f1_f2f3_f4f5_f6f7_f8f9_fafb_fcfd_feff_u128.to_be_bytes();
        let plain =
            [0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a_u128, 0xae2d_8a57_1e03_ac9c_9eb7_6fac_45af_8e51];
        let secret =
            [0x874d_6191_b620_e326_1bef_6864_990d_b6ce_u128, 0x9806_f66b_7970_fdff_8617_187b_b9ff_fdff];
        let octets = |blocks: [u128; 2]| -> [u8; 32] {
            let mut octets = [0; 32];
            octets[..16].copy_from_slice(&blocks[0].to_be_bytes());
            octets[16..].copy_from_slice(&blocks[1].to_be_bytes());
            octets
        };
        let cipher = Aes128::new(&key.into());
        for expected in [0, 1, 15, 16, 17, 31, 32, 100] {
            let mut data = octets(plain);
            let keystream = Keystream::<32>::prepare(&cipher, first, expected);
            assert_eq!(keystream.ready(), expected.div_ceil(16).min(2) * 16);
            keystream.apply(&cipher, &mut data);
            assert_eq!(data, octets(secret), "{expected}");
            // A keystream that is shorter than a block, and data that is shorter than the keystream.
            let mut data = octets(plain);
            Keystream::<21>::prepare(&cipher, first, expected).apply(&cipher, &mut data[..27]);
            assert_eq!(data[..27], octets(secret)[..27], "{expected}");
        }
    }
}
