//! MORUS-640-128, from its specification: Wu and Huang, "The Authenticated Cipher MORUS (v2)", CAESAR round 3,
//! section 2. Experimental: its keystream is biased (Ashur et al., 2018).
//!
//! The state is five rows of 128 bits, each of four 32-bit words, little-endian. One update with a block `m` is five
//! rounds; `<<<` turns every word of a row by itself, `<<` turns the row as one number:
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
//! Rows are `u128`: five of them fit into the registers of a 64-bit processor, where twenty `u32` do not (a quarter
//! slower). Left out on purpose: shorter tags, and vector instructions, which would need `unsafe`.

use aws_lc_rs::constant_time;

use crate::aead::Aead;
use crate::{ICV_OCTETS, Nonce, SecretArray};

const BLOCK_OCTETS: usize = 16;

/// The Fibonacci sequence modulo 256, first half and second half.
const CONST_0: u128 = u128::from_le_bytes([0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 121, 98]);
const CONST_1: u128 =
    u128::from_le_bytes([219, 61, 24, 85, 109, 194, 47, 241, 32, 17, 49, 66, 115, 181, 40, 221]);

/// Rotates each of the four words of a row left by `BITS`.
#[inline(always)]
fn turn_words<const BITS: u32>(row: u128) -> u128 {
    let each_word = 0x0000_0001_0000_0001_0000_0001_0000_0001;
    let high = u128::from(u32::MAX << BITS) * each_word;
    (row << BITS & high) | (row >> (32 - BITS) & !high)
}

/// A block of fewer octets, padded with zeros.
fn fill_up(part: &[u8]) -> u128 {
    let mut octets = [0; BLOCK_OCTETS];
    octets[..part.len()].copy_from_slice(part);
    u128::from_le_bytes(octets)
}

struct State([u128; 5]);

impl State {
    fn new(key: &[u8; 16], nonce: &[u8; 16]) -> Self {
        let key = u128::from_le_bytes(*key);
        let mut state = Self([u128::from_le_bytes(*nonce), key, u128::MAX, CONST_0, CONST_1]);
        for _ in 0..16 {
            state.update(0);
        }
        state.0[1] ^= key;
        state
    }

    #[inline(always)]
    fn update(&mut self, m: u128) {
        let [mut s0, mut s1, mut s2, mut s3, mut s4] = self.0;
        s0 = turn_words::<5>(s0 ^ (s1 & s2) ^ s3);
        s3 = s3.rotate_left(32);
        s1 = turn_words::<31>(s1 ^ (s2 & s3) ^ s4 ^ m);
        s4 = s4.rotate_left(64);
        s2 = turn_words::<7>(s2 ^ (s3 & s4) ^ s0 ^ m);
        s0 = s0.rotate_left(96);
        s3 = turn_words::<22>(s3 ^ (s4 & s0) ^ s1 ^ m);
        s1 = s1.rotate_left(64);
        s4 = turn_words::<13>(s4 ^ (s0 & s1) ^ s2 ^ m);
        s2 = s2.rotate_left(32);
        self.0 = [s0, s1, s2, s3, s4];
    }

    #[inline(always)]
    fn keystream(&self) -> u128 {
        let [s0, s1, s2, s3, _] = self.0;
        s0 ^ s1.rotate_left(96) ^ (s2 & s3)
    }

    fn absorb(&mut self, aad: &[u8]) {
        let (blocks, rest) = aad.as_chunks();
        for &block in blocks {
            self.update(u128::from_le_bytes(block));
        }
        if !rest.is_empty() {
            self.update(fill_up(rest));
        }
    }

    fn encrypt(&mut self, text: &mut [u8]) {
        let (blocks, rest) = text.as_chunks_mut();
        for block in blocks {
            let plain = u128::from_le_bytes(*block);
            *block = (plain ^ self.keystream()).to_le_bytes();
            self.update(plain);
        }
        if !rest.is_empty() {
            let plain = fill_up(rest);
            rest.copy_from_slice(&(plain ^ self.keystream()).to_le_bytes()[..rest.len()]);
            self.update(plain);
        }
    }

    fn decrypt(&mut self, text: &mut [u8]) {
        let (blocks, rest) = text.as_chunks_mut();
        for block in blocks {
            let plain = u128::from_le_bytes(*block) ^ self.keystream();
            *block = plain.to_le_bytes();
            self.update(plain);
        }
        if !rest.is_empty() {
            let plain = fill_up(rest) ^ self.keystream();
            rest.copy_from_slice(&plain.to_le_bytes()[..rest.len()]);
            // The keystream beyond the text's end must not enter the state: the sender had zeros there.
            self.update(fill_up(rest));
        }
    }

    fn icv(mut self, aad_octets: usize, text_octets: usize) -> [u8; ICV_OCTETS] {
        let bits = |octets: usize| (octets as u128) << 3;
        let lengths = bits(aad_octets) | bits(text_octets) << 64;
        self.0[4] ^= self.0[0];
        for _ in 0..10 {
            self.update(lengths);
        }
        self.keystream().to_le_bytes()
    }
}

/// MORUS-640-128 under one key.
pub(crate) struct Morus640(pub(crate) SecretArray<16>);

impl Morus640 {
    /// Seals with all 16 octets of a nonce.
    pub(crate) fn seal_extended(&self, nonce: &[u8; 16], aad: &[u8], text: &mut [u8]) -> [u8; ICV_OCTETS] {
        let mut state = State::new(self.0.octets(), nonce);
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
        let mut state = State::new(self.0.octets(), nonce);
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
