//! The cipher crates without anything of ours around them, over the same frames: what `suite` is compared with.
//!
//! | suite | the bare call |
//! |---|---|
//! | GCM-AES, with XPN or without, ChaCha20-Poly1305 | aws-lc-rs, `LessSafeKey` |
//! | AEGIS-128L, AEGIS-256 | aegis, `encrypt_in_place`, `decrypt_in_place` |
//! | MORUS-1280-128 | morus, the same |
//! | MORUS-640-128 | none: the code is our own |
//!
//! This is the one room beside `suite` that names those crates, and it is for comparison alone: no frame of a gateway
//! comes here. Keys and nonces are not secret and not unique.

use aegis::aegis128l::Aegis128L;
use aegis::aegis256::Aegis256;
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce as AwsLcNonce, UnboundKey,
};
use morus::Morus;
use suite::CipherSuite;

use speed::burst::{BURST, Burst, KEY, Parts, nonce};

/// A cipher of a crate with its key and the nonces of a burst, in the crate's own types.
#[derive(Debug)]
pub struct Bare(Library);

#[derive(Debug)]
enum Library {
    AwsLc(LessSafeKey, Vec<[u8; 12]>),
    Aegis128L(Vec<[u8; 16]>),
    Aegis256(Vec<[u8; 32]>),
    Morus1280(Vec<[u8; 16]>),
}

const KEY_16: &[u8; 16] = KEY.first_chunk().expect("32 octets");

impl Bare {
    /// The bare cipher of `suite`; none for the one whose code is our own.
    pub fn new(suite: CipherSuite) -> Option<Self> {
        let aws_lc = |algorithm| {
            let key = UnboundKey::new(algorithm, &KEY[..suite.key_octets()]);
            Library::AwsLc(LessSafeKey::new(key.expect("invariant: the suite's length")), nonces())
        };
        let library = match suite {
            CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => aws_lc(&AES_128_GCM),
            CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => aws_lc(&AES_256_GCM),
            CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn => aws_lc(&CHACHA20_POLY1305),
            CipherSuite::Aegis128L => Library::Aegis128L(nonces()),
            CipherSuite::Aegis256 => Library::Aegis256(nonces()),
            CipherSuite::Morus1280 => Library::Morus1280(nonces()),
            CipherSuite::Morus640 => return None,
        };
        Some(Self(library))
    }

    /// The crate.
    pub const fn crate_name(&self) -> &'static str {
        match self.0 {
            Library::AwsLc(..) => "aws-lc-rs",
            Library::Aegis128L(_) | Library::Aegis256(_) => "aegis",
            Library::Morus1280(_) => "morus",
        }
    }

    /// Seals every frame.
    pub fn seal(&self, burst: &mut Burst) {
        match &self.0 {
            Library::AwsLc(key, nonces) => each(burst, nonces, |nonce, Parts { aad, text, icv, .. }| {
                let nonce = AwsLcNonce::assume_unique_for_key(*nonce);
                let sealed = key.seal_in_place_scatter(nonce, Aad::from(aad), text, &[], icv);
                sealed.expect("invariant: a text of a few octets");
            }),
            Library::Aegis128L(nonces) => each(burst, nonces, |nonce, Parts { aad, text, icv, .. }| {
                *icv = Aegis128L::new(KEY_16, nonce).encrypt_in_place(text, aad);
            }),
            Library::Aegis256(nonces) => each(burst, nonces, |nonce, Parts { aad, text, icv, .. }| {
                *icv = Aegis256::new(&KEY, nonce).encrypt_in_place(text, aad);
            }),
            Library::Morus1280(nonces) => each(burst, nonces, |nonce, Parts { aad, text, icv, .. }| {
                *icv = Morus::new(nonce, KEY_16).encrypt_in_place(text, aad);
            }),
        }
    }

    /// Opens every frame.
    pub fn open(&self, burst: &mut Burst) {
        match &self.0 {
            Library::AwsLc(key, nonces) => {
                each(burst, nonces, |nonce, Parts { aad, text, icv, authentic }| {
                    let nonce = AwsLcNonce::assume_unique_for_key(*nonce);
                    *authentic = key.open_in_place_separate_tag(nonce, Aad::from(aad), icv, text).is_ok();
                })
            }
            Library::Aegis128L(nonces) => {
                each(burst, nonces, |nonce, Parts { aad, text, icv, authentic }| {
                    *authentic = Aegis128L::new(KEY_16, nonce).decrypt_in_place(text, icv, aad).is_ok();
                })
            }
            Library::Aegis256(nonces) => each(burst, nonces, |nonce, Parts { aad, text, icv, authentic }| {
                *authentic = Aegis256::new(&KEY, nonce).decrypt_in_place(text, icv, aad).is_ok();
            }),
            Library::Morus1280(nonces) => {
                each(burst, nonces, |nonce, Parts { aad, text, icv, authentic }| {
                    *authentic = Morus::new(nonce, KEY_16).decrypt_in_place(text, icv, aad).is_ok();
                })
            }
        }
    }
}

/// The burst's nonces, followed by zeros where the cipher wants more octets.
fn nonces<const OCTETS: usize>() -> Vec<[u8; OCTETS]> {
    let extended = |at| {
        let mut octets = [0; OCTETS];
        octets[..12].copy_from_slice(&nonce(at));
        octets
    };
    (0..BURST).map(extended).collect()
}

fn each<const OCTETS: usize>(
    burst: &mut Burst,
    nonces: &[[u8; OCTETS]],
    mut call: impl FnMut(&[u8; OCTETS], Parts<'_>),
) {
    for (parts, nonce) in burst.parts().zip(nonces) {
        call(nonce, parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speed::burst::prepared;

    #[test]
    fn ours_and_the_crates_are_the_same_cipher() {
        for suite in CipherSuite::ALL {
            let Some(bare) = Bare::new(suite) else {
                assert_eq!(suite, CipherSuite::Morus640);
                continue;
            };
            let (mut burst, key) = (Burst::new(100), prepared(suite));
            burst.seal(&key);
            bare.open(&mut burst);
            assert!(burst.is_authentic(), "{suite}, {}", bare.crate_name());
            bare.seal(&mut burst);
            burst.open(&key);
            assert!(burst.is_authentic(), "{suite}, {}", bare.crate_name());
        }
    }
}
