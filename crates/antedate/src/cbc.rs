//! AES-CBC encryption (NIST SP 800-38A), ordinary and antedated (paper section IV-B).
//!
//! ```text
//!  c_i = AES(k, c_{i-1} xor p_i)         c_0 = IV
//!
//!  before:  the blocks of a template, from an IV that is drawn beforehand
//!  online:  a copy of them;  AES over what is behind the template
//! ```
//!
//! A block depends on all before it. So a template that was wrong is of use up to its first wrong block. Decryption has
//! no antedated form: its AES is over ciphertext, which nobody knows before it comes.
//!
//! The IV must be unpredictable, and used once under a key: draw it from a random generator, and let nobody see it before
//! the message is sent. Who knows it and chooses the data can test guesses of other messages.
//!
//! Left out on purpose: padding, which the protocol defines, and authentication. CBC alone lets anybody turn bits of the
//! data: put a MAC over IV and ciphertext, and check it before decryption. New protocols take [`Ccm`](crate::Ccm) or
//! [`Gcm`](crate::Gcm).

use core::fmt;

use cipher::consts::U16;
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt};

use crate::keystream::{BLOCK_OCTETS, wipe, xor};

/// An IV.
pub type Iv = [u8; BLOCK_OCTETS];

/// Error of data that is no multiple of 16 octets. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotWholeBlocks;

impl fmt::Display for NotWholeBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CBC takes whole blocks of 16 octets")
    }
}

impl core::error::Error for NotWholeBlocks {}

/// AES-CBC under one key. `C`: `aes::Aes128` or `aes::Aes256`.
pub struct Cbc<C> {
    cipher: C,
}

impl<C> fmt::Debug for Cbc<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cbc").finish_non_exhaustive()
    }
}

impl<C> Cbc<C>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    /// CBC with this cipher.
    pub const fn new(cipher: C) -> Self {
        Self { cipher }
    }

    /// Encrypts `data` in place, in the ordinary way.
    ///
    /// # Errors
    /// [`NotWholeBlocks`].
    pub fn encrypt(&self, iv: &Iv, data: &mut [u8]) -> Result<(), NotWholeBlocks> {
        self.encrypt_behind(iv, whole_blocks(data)?);
        Ok(())
    }

    fn encrypt_behind(&self, previous: &Iv, blocks: &mut [[u8; BLOCK_OCTETS]]) {
        let mut previous = *previous;
        for block in blocks {
            xor(block, &previous);
            self.cipher.encrypt_block((&mut *block).into());
            previous = *block;
        }
    }
}

impl<C> Cbc<C>
where
    C: BlockCipherDecrypt<BlockSize = U16>,
{
    /// Decrypts `data` in place. The caller has checked that it is authentic.
    ///
    /// # Errors
    /// [`NotWholeBlocks`].
    pub fn decrypt(&self, iv: &Iv, data: &mut [u8]) -> Result<(), NotWholeBlocks> {
        let mut previous = *iv;
        for block in whole_blocks(data)? {
            let encrypted = *block;
            self.cipher.decrypt_block((&mut *block).into());
            xor(block, &previous);
            previous = encrypted;
        }
        Ok(())
    }
}

fn whole_blocks(data: &mut [u8]) -> Result<&mut [[u8; BLOCK_OCTETS]], NotWholeBlocks> {
    match data.as_chunks_mut() {
        (blocks, []) => Ok(blocks),
        _ => Err(NotWholeBlocks),
    }
}

/// The beginning of one message, encrypted before the message exists: up to `BLOCKS` blocks of its template.
pub struct Prepared<const BLOCKS: usize> {
    iv: Iv,
    template: [[u8; BLOCK_OCTETS]; BLOCKS],
    encrypted: [[u8; BLOCK_OCTETS]; BLOCKS],
    ready: usize,
}

impl<const BLOCKS: usize> Prepared<BLOCKS> {
    /// Encrypts the whole blocks of `template`, the predicted beginning of the message under `iv`; octets beyond `BLOCKS`
    /// blocks are of no use.
    pub fn new<C>(cbc: &Cbc<C>, iv: &Iv, template: &[u8]) -> Self
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        let (known, _) = template.as_chunks();
        let ready = known.len().min(BLOCKS);
        let mut prepared = Self {
            iv: *iv,
            template: [[0; BLOCK_OCTETS]; BLOCKS],
            encrypted: [[0; BLOCK_OCTETS]; BLOCKS],
            ready,
        };
        prepared.template[..ready].copy_from_slice(&known[..ready]);
        prepared.encrypted[..ready].copy_from_slice(&known[..ready]);
        cbc.encrypt_behind(iv, &mut prepared.encrypted[..ready]);
        prepared
    }

    /// Its IV, which goes with the message.
    pub const fn iv(&self) -> &Iv {
        &self.iv
    }

    /// Encrypts the message in place, and says how many of its octets were ready. `cbc` must be that of the preparation. Its
    /// time tells how many blocks are as in the template, as that of any antedated message does.
    ///
    /// # Errors
    /// [`NotWholeBlocks`]; the IV was not used then, but its preparation is gone.
    pub fn encrypt<C>(self, cbc: &Cbc<C>, data: &mut [u8]) -> Result<usize, NotWholeBlocks>
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        let blocks = whole_blocks(data)?;
        let known = self.template[..self.ready].iter();
        let same = known.zip(&*blocks).take_while(|(known, block)| known == block).count();
        let (covered, rest) = blocks.split_at_mut(same);
        covered.copy_from_slice(&self.encrypted[..same]);
        cbc.encrypt_behind(covered.last().unwrap_or(&self.iv), rest);
        Ok(same * BLOCK_OCTETS)
    }
}

impl<const BLOCKS: usize> Drop for Prepared<BLOCKS> {
    fn drop(&mut self) {
        wipe(self.template[..self.ready].as_flattened_mut());
        wipe(self.encrypted[..self.ready].as_flattened_mut());
    }
}

impl<const BLOCKS: usize> fmt::Debug for Prepared<BLOCKS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({} blocks)", self.ready)
    }
}

#[cfg(test)]
mod tests {
    use aes::cipher::KeyInit;
    use aes::{Aes128, Aes256};

    use super::*;

    fn octets<const N: usize>(blocks: [u128; 4]) -> [u8; N] {
        let mut octets = [0; N];
        for (out, octet) in octets.iter_mut().zip(blocks.iter().flat_map(|block| block.to_be_bytes())) {
            *out = octet;
        }
        octets
    }

    /// NIST SP 800-38A, F.2.1 and F.2.5.
    const PLAIN: [u128; 4] = [
        0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a,
        0xae2d_8a57_1e03_ac9c_9eb7_6fac_45af_8e51,
        0x30c8_1c46_a35c_e411_e5fb_c119_1a0a_52ef,
        0xf69f_2445_df4f_9b17_ad2b_417b_e66c_3710,
    ];
    const IV: Iv = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f_u128.to_be_bytes();

    fn check<C>(cipher: C, secret: [u128; 4])
    where
        C: BlockCipherEncrypt<BlockSize = U16> + BlockCipherDecrypt<BlockSize = U16>,
    {
        let cbc = Cbc::new(cipher);
        let (plain, secret) = (octets::<64>(PLAIN), octets::<64>(secret));
        for blocks in 0..=4 {
            for known in 0..=64 {
                let mut data = plain;
                let prepared = Prepared::<3>::new(&cbc, &IV, &plain[..known]);
                assert_eq!(prepared.iv(), &IV);
                let ready = prepared.encrypt(&cbc, &mut data[..16 * blocks]);
                assert_eq!(ready, Ok(16 * (known / 16).min(3).min(blocks)), "{known} of {blocks}");
                assert_eq!(data[..16 * blocks], secret[..16 * blocks], "{known} of {blocks}");
                cbc.decrypt(&IV, &mut data[..16 * blocks]).expect("whole blocks");
                assert_eq!(data, plain);
            }
        }
    }

    #[test]
    fn whatever_is_ready_the_message_is_that_of_the_standard() {
        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
        let secret = [
            0x7649_abac_8119_b246_cee9_8e9b_12e9_197d,
            0x5086_cb9b_5072_19ee_95db_113a_9176_78b2,
            0x73be_d6b8_e3c1_743b_7116_e69e_2222_9516,
            0x3ff1_caa1_681f_ac09_120e_ca30_7586_e1a7,
        ];
        check(Aes128::new(&key.into()), secret);
        let mut key = [0; 32];
        key[..16].copy_from_slice(&0x603d_eb10_15ca_71be_2b73_aef0_857d_7781_u128.to_be_bytes());
        key[16..].copy_from_slice(&0x1f35_2c07_3b61_08d7_2d98_10a3_0914_dff4_u128.to_be_bytes());
        let secret = [
            0xf58c_4c04_d6e5_f1ba_779e_abfb_5f7b_fbd6,
            0x9cfc_4e96_7edb_808d_679f_777b_c670_2c7d,
            0x39f2_3369_a9d9_bacf_a530_e263_0423_1461,
            0xb2eb_05e2_c39b_e9fc_da6c_1907_8c6a_9d1b,
        ];
        check(Aes256::new(&key.into()), secret);
    }

    #[test]
    fn a_wrong_template_is_of_use_up_to_its_first_wrong_block() {
        let cbc = Cbc::new(Aes128::new(&[7; 16].into()));
        let plain = octets::<64>(PLAIN);
        let mut ordinary = plain;
        cbc.encrypt(&IV, &mut ordinary).expect("whole blocks");
        for wrong in 0..64 {
            let mut template = plain;
            template[wrong] ^= 1;
            let mut data = plain;
            let ready = Prepared::<4>::new(&cbc, &IV, &template).encrypt(&cbc, &mut data);
            assert_eq!((ready, data), (Ok(wrong / 16 * 16), ordinary), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_whole_block_is_refused_and_left_alone() {
        let cbc = Cbc::new(Aes128::new(&[7; 16].into()));
        for octets in [1, 15, 17, 31] {
            let mut data = [5; 31];
            let data = &mut data[..octets];
            assert_eq!(cbc.encrypt(&IV, data), Err(NotWholeBlocks));
            assert_eq!(cbc.decrypt(&IV, data), Err(NotWholeBlocks));
            assert_eq!(Prepared::<2>::new(&cbc, &IV, &[5; 31]).encrypt(&cbc, data), Err(NotWholeBlocks));
            assert!(data.iter().all(|&octet| octet == 5), "{octets}");
        }
    }
}
