//! CBC-MAC that can be suspended and resumed (paper section IV-B).
//!
//! ```text
//!  c_i = AES(k, c_{i-1} xor p_i)         c_0 = 0; the last c_i is the MAC
//! ```
//!
//! The authenticated octets must begin with their length (as B_0 of CCM does) or have one fixed length:
//! otherwise a CBC-MAC can be forged.

use cipher::BlockCipherEncrypt;
use cipher::consts::U16;
use zeroize::Zeroizing;

use crate::keystream::{BLOCK_OCTETS, xor};

/// A CBC-MAC in progress. A copy of it resumes at the same place.
#[derive(Clone)]
pub struct CbcMac {
    state: Zeroizing<[u8; BLOCK_OCTETS]>,
    /// Octets in the incomplete block.
    filled: usize,
}

impl Default for CbcMac {
    fn default() -> Self {
        Self::new()
    }
}

impl CbcMac {
    /// Before the first octet.
    pub fn new() -> Self {
        Self { state: Zeroizing::new([0; BLOCK_OCTETS]), filled: 0 }
    }

    /// Adds octets: one AES block for each completed block.
    pub fn update<C>(&mut self, cipher: &C, mut octets: &[u8])
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        while !octets.is_empty() {
            let (taken, rest) = octets.split_at(octets.len().min(BLOCK_OCTETS - self.filled));
            xor(&mut self.state[self.filled..self.filled + taken.len()], taken);
            self.filled += taken.len();
            octets = rest;
            if self.filled == BLOCK_OCTETS {
                self.encrypt(cipher);
            }
        }
    }

    /// Completes a begun block with zeros.
    pub fn pad<C>(&mut self, cipher: &C)
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        if self.filled > 0 {
            self.encrypt(cipher);
        }
    }

    /// MAC of all octets, the last block completed with zeros.
    pub fn finish<C>(mut self, cipher: &C) -> Zeroizing<[u8; BLOCK_OCTETS]>
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        self.pad(cipher);
        self.state
    }

    fn encrypt<C>(&mut self, cipher: &C)
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        cipher.encrypt_block((&mut *self.state).into());
        self.filled = 0;
    }
}
