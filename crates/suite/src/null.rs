//! The null suite, for fuzzing builds only: the text is unchanged, and the ICV is a checksum without a key.
//!
//! A fuzzer cannot find a real ICV, so it would never reach a SecY's handling of authentic frames. With this
//! suite a list of operations makes authentic frames ([`null_icv`]) and others at will, at little cost.

use crate::aead::Aead;
use crate::{ICV_OCTETS, Nonce};

pub(crate) struct Null;

impl Aead for Null {
    fn seal(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &mut [u8; ICV_OCTETS]) {
        *icv = null_icv(nonce, aad, text);
    }

    fn open(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8], icv: &[u8; ICV_OCTETS]) -> bool {
        *icv == null_icv(nonce, aad, text)
    }
}

/// ICV of the null suite: FNV-1a, 128 bits, over nonce, AAD, text and the lengths of the latter two. A frame
/// under a wrong nonce, or with a wrong AAD boundary, is refused as with a real suite.
pub fn null_icv(nonce: &Nonce, aad: &[u8], text: &[u8]) -> [u8; ICV_OCTETS] {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let lengths = [aad.len(), text.len()].map(|length| (length as u64).to_be_bytes());
    let all = nonce.octets().into_iter().chain(lengths.into_iter().flatten());
    let all = all.chain(aad.iter().copied()).chain(text.iter().copied());
    all.fold(BASIS, |hash, octet| (hash ^ u128::from(octet)).wrapping_mul(PRIME)).to_be_bytes()
}
