//! AES with a key of either length, behind one type: what is built upon it is in the firmware once.

use aes::{Aes128, Aes256};
use antedate::SendError;
use cipher::common::BlockSizeUser;
use cipher::consts::U16;
use cipher::{
    BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncClosure, BlockCipherEncrypt, KeyInit as _,
};

use crate::results::antedate_result::{self, *};

/// AES under one key.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Cipher {
    Aes128(Aes128),
    Aes256(Aes256),
}

impl Cipher {
    /// With this key.
    ///
    /// # Errors
    /// If it has neither 16 nor 32 octets.
    pub(crate) fn new(key: &[u8]) -> Result<Self, antedate_result> {
        let aes128 = |_| Aes128::new_from_slice(key).map(Self::Aes128);
        Aes256::new_from_slice(key).map(Self::Aes256).or_else(aes128).map_err(|_| ANTEDATE_ERROR_LENGTH)
    }
}

impl BlockSizeUser for Cipher {
    type BlockSize = U16;
}

impl BlockCipherEncrypt for Cipher {
    fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = U16>) {
        match self {
            Self::Aes128(aes) => aes.encrypt_with_backend(f),
            Self::Aes256(aes) => aes.encrypt_with_backend(f),
        }
    }
}

impl BlockCipherDecrypt for Cipher {
    fn decrypt_with_backend(&self, f: impl BlockCipherDecClosure<BlockSize = U16>) {
        match self {
            Self::Aes128(aes) => aes.decrypt_with_backend(f),
            Self::Aes256(aes) => aes.decrypt_with_backend(f),
        }
    }
}

impl From<SendError> for antedate_result {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Exhausted => ANTEDATE_ERROR_EXHAUSTED,
            SendError::TooLong => ANTEDATE_ERROR_LENGTH,
        }
    }
}
