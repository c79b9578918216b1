//! MORUS-640-128, from its specification: Wu and Huang, "The Authenticated Cipher MORUS (v2)", CAESAR round 3,
//! section 2. Experimental: its keystream is biased (Ashur et al., 2018).
//!
//! The state is five rows of four 32-bit words, little-endian. One update with a block `m` is five rounds; `<<<` b
//! turns every word of a row by itself, `<<` w moves the words of a row (w bits to the left, as one 128-bit number):
//!
//! ```text
//! round 0:  S0 = (S0 ^ S1&S2 ^ S3    ) <<<  5    S3 = S3 << 32
//! round 1:  S1 = (S1 ^ S2&S3 ^ S4 ^ m) <<< 31    S4 = S4 << 64
//! round 2:  S2 = (S2 ^ S3&S4 ^ S0 ^ m) <<<  7    S0 = S0 << 96
//! round 3:  S3 = (S3 ^ S4&S0 ^ S1 ^ m) <<< 22    S1 = S1 << 64
//! round 4:  S4 = (S4 ^ S0&S1 ^ S2 ^ m) <<< 13    S2 = S2 << 32
//!
//! start     S = nonce, key, all ones, const0, const1; 16 updates with 0; S1 ^= key
//! AAD       an update with each 16-octet block, the last filled up with zeros
//! text      C = P ^ keystream, then an update with P, the last filled up with zeros
//! end       S4 ^= S0; 10 updates with (AAD bits 64 | text bits 64); ICV = keystream
//! keystream S0 ^ (S1 << 96) ^ S2&S3
//! ```
//!
//! Left out on purpose: shorter tags, and vector instructions by hand (the compiler makes them from rows).

use aws_lc_rs::constant_time;
use zeroize::Zeroizing;

use crate::aead::Aead;
use crate::{ICV_OCTETS, Nonce};

const BLOCK_OCTETS: usize = 16;

/// The Fibonacci sequence modulo 256, first half and second half.
const CONST_0: u128 = u128::from_be_bytes([0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 121, 98]);
const CONST_1: u128 =
    u128::from_be_bytes([219, 61, 24, 85, 109, 194, 47, 241, 32, 17, 49, 66, 115, 181, 40, 221]);

/// A row of the state, or a block: four little-endian words.
#[derive(Clone, Copy)]
struct Row([u32; 4]);

impl Row {
    const ZERO: Self = Self([0; 4]);

    #[inline(always)]
    fn from_octets(octets: &[u8; BLOCK_OCTETS]) -> Self {
        let (words, _) = octets.as_chunks::<4>();
        Self([0, 1, 2, 3].map(|i| u32::from_le_bytes(words[i])))
    }

    /// A block from fewer octets, filled up with zeros.
    fn from_part(part: &[u8]) -> Self {
        let mut octets = [0; BLOCK_OCTETS];
        octets[..part.len()].copy_from_slice(part);
        Self::from_octets(&octets)
    }

    #[inline(always)]
    fn octets(self) -> [u8; BLOCK_OCTETS] {
        let mut octets = [0; BLOCK_OCTETS];
        let (words, _) = octets.as_chunks_mut::<4>();
        for (to, from) in words.iter_mut().zip(self.0) {
            *to = from.to_le_bytes();
        }
        octets
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self([0, 1, 2, 3].map(|i| self.0[i] ^ other.0[i]))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self([0, 1, 2, 3].map(|i| self.0[i] & other.0[i]))
    }

    /// Turns each word by `bits` to the left.
    #[inline(always)]
    fn turn_words(self, bits: u32) -> Self {
        Self(self.0.map(|word| word.rotate_left(bits)))
    }

    /// Moves the words by `WORDS` places to the left of the 128-bit number: by 32 bits each.
    #[inline(always)]
    fn move_words<const WORDS: usize>(self) -> Self {
        Self([0, 1, 2, 3].map(|i| self.0[(i + 4 - WORDS) % 4]))
    }
}

struct State([Row; 5]);

impl State {
    fn new(key: &[u8; 16], nonce: &[u8; 16]) -> Self {
        let key = Row::from_octets(key);
        let [const_0, const_1] = [CONST_0, CONST_1].map(|c| Row::from_octets(&c.to_be_bytes()));
        let mut state = Self([Row::from_octets(nonce), key, Row([u32::MAX; 4]), const_0, const_1]);
        for _ in 0..16 {
            state.update(Row::ZERO);
        }
        state.0[1] = state.0[1].xor(key);
        state
    }

    #[inline(always)]
    fn update(&mut self, m: Row) {
        let [mut s0, mut s1, mut s2, mut s3, mut s4] = self.0;
        s0 = s0.xor(s1.and(s2)).xor(s3).turn_words(5);
        s3 = s3.move_words::<1>();
        s1 = s1.xor(s2.and(s3)).xor(s4).xor(m).turn_words(31);
        s4 = s4.move_words::<2>();
        s2 = s2.xor(s3.and(s4)).xor(s0).xor(m).turn_words(7);
        s0 = s0.move_words::<3>();
        s3 = s3.xor(s4.and(s0)).xor(s1).xor(m).turn_words(22);
        s1 = s1.move_words::<2>();
        s4 = s4.xor(s0.and(s1)).xor(s2).xor(m).turn_words(13);
        s2 = s2.move_words::<1>();
        self.0 = [s0, s1, s2, s3, s4];
    }

    #[inline(always)]
    fn keystream(&self) -> Row {
        let [s0, s1, s2, s3, _] = self.0;
        s0.xor(s1.move_words::<3>()).xor(s2.and(s3))
    }

    fn absorb(&mut self, aad: &[u8]) {
        let (blocks, rest) = aad.as_chunks::<BLOCK_OCTETS>();
        for block in blocks {
            self.update(Row::from_octets(block));
        }
        if !rest.is_empty() {
            self.update(Row::from_part(rest));
        }
    }

    fn encrypt(&mut self, text: &mut [u8]) {
        let (blocks, rest) = text.as_chunks_mut::<BLOCK_OCTETS>();
        for block in blocks {
            let plain = Row::from_octets(block);
            *block = plain.xor(self.keystream()).octets();
            self.update(plain);
        }
        if !rest.is_empty() {
            let plain = Row::from_part(rest);
            rest.copy_from_slice(&plain.xor(self.keystream()).octets()[..rest.len()]);
            self.update(plain);
        }
    }

    fn decrypt(&mut self, text: &mut [u8]) {
        let (blocks, rest) = text.as_chunks_mut::<BLOCK_OCTETS>();
        for block in blocks {
            let plain = Row::from_octets(block).xor(self.keystream());
            *block = plain.octets();
            self.update(plain);
        }
        if !rest.is_empty() {
            // Keystream beyond the text's end must not enter the state: it is updated with zeros there.
            let plain = Row::from_part(rest).xor(self.keystream());
            rest.copy_from_slice(&plain.octets()[..rest.len()]);
            self.update(Row::from_part(rest));
        }
    }

    fn icv(mut self, aad_octets: usize, text_octets: usize) -> [u8; ICV_OCTETS] {
        let bits = |octets: usize| (octets as u128) << 3;
        let lengths = Row::from_octets(&(bits(aad_octets) | bits(text_octets) << 64).to_le_bytes());
        self.0[4] = self.0[4].xor(self.0[0]);
        for _ in 0..10 {
            self.update(lengths);
        }
        self.keystream().octets()
    }
}

/// MORUS-640-128 under one key.
pub(crate) struct Morus640(pub(crate) Zeroizing<[u8; 16]>);

impl Morus640 {
    /// Seals with all 16 octets of a nonce.
    pub(crate) fn seal_extended(&self, nonce: &[u8; 16], aad: &[u8], text: &mut [u8]) -> [u8; ICV_OCTETS] {
        let mut state = State::new(&self.0, nonce);
        state.absorb(aad);
        state.encrypt(text);
        state.icv(aad.len(), text.len())
    }

    /// Opens with all 16 octets of a nonce.
    pub(crate) fn open_extended(
        &self,
        nonce: &[u8; 16],
        aad: &[u8],
        text: &mut [u8],
        icv: &[u8; ICV_OCTETS],
    ) -> bool {
        let mut state = State::new(&self.0, nonce);
        state.absorb(aad);
        state.decrypt(text);
        constant_time::verify_slices_are_equal(&state.icv(aad.len(), text.len()), icv).is_ok()
    }
}

impl Aead for Morus640 {
    fn seal(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &mut [u8; ICV_OCTETS]) {
        *icv = self.seal_extended(nonce.extended_16(), aad, text);
    }

    fn open(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &[u8; ICV_OCTETS]) -> bool {
        self.open_extended(nonce.extended_16(), aad, text, icv)
    }
}
