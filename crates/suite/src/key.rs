//! Prepared keys, and the one place where a cipher suite becomes code.
//!
//! ```text
//! AAD:  authenticated, in clear     text: authenticated, encrypted in place     ICV: 16 octets, anywhere
//! ```
//!
//! An integrity-only frame has an empty text and all its data in the AAD; a confidentiality offset moves the
//! beginning of the text. Left out on purpose: a call for a single frame. A burst of one is a burst.

use core::fmt;
use core::iter;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305};
use zeroize::Zeroizing;

use crate::aead::{Aead, Aegis128L, Aegis256, AwsLc, Morus1280};
use crate::morus640::Morus640;
use crate::{CipherSuite, ICV_OCTETS, Nonce, Sak, WrongKeyLength};

/// A frame to be sealed.
pub struct SealJob<'f> {
    /// The nonce, never used before under this key.
    pub nonce: Nonce,
    /// What is authenticated and stays in clear.
    pub aad: &'f [u8],
    /// Plaintext, to become ciphertext of the same length.
    pub text: &'f mut [u8],
    /// Where the ICV goes.
    pub icv: &'f mut [u8; ICV_OCTETS],
}

/// A frame to be opened.
///
/// After a failed open nothing of the plaintext is left: `text` is all zeros, whatever the cipher had written there.
pub struct OpenJob<'f> {
    /// The nonce it was sealed with.
    pub nonce: Nonce,
    /// What is authenticated and stands in clear.
    pub aad: &'f [u8],
    /// Ciphertext, to become plaintext of the same length, or zeros if it is not authentic.
    pub text: &'f mut [u8],
    /// The ICV that came with the frame.
    pub icv: &'f [u8; ICV_OCTETS],
    /// Set to true or false, whatever it was before: whether AAD, text and ICV are what the sender sealed.
    pub authentic: &'f mut bool,
}

/// A SAK prepared for its cipher suite: key schedules are computed, and no frame pays for them. About 700 octets.
///
/// The octets of AEGIS and MORUS keys are wiped on drop. The key schedules of aws-lc-rs are freed by aws-lc's own
/// clean-up.
pub struct Key {
    suite: CipherSuite,
    cipher: Cipher,
}

#[expect(
    clippy::large_enum_variant,
    reason = "an SA's key is read for each frame: one cache miss less than a box"
)]
enum Cipher {
    AwsLc(AwsLc),
    Aegis128L(Aegis128L),
    Aegis256(Aegis256),
    Morus640(Morus640),
    Morus1280(Morus1280),
    #[cfg(fuzzing)]
    Null(crate::null::Null),
}

impl Key {
    /// Prepares `sak` for `suite`. Refused if it was made for a suite with keys of another length.
    pub fn prepare(suite: CipherSuite, sak: &Sak) -> Result<Self, WrongKeyLength> {
        let octets = sak.octets();
        let aws_lc = |algorithm| AwsLc::new(algorithm, octets).map(Cipher::AwsLc);
        let cipher = match suite {
            CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => aws_lc(&AES_128_GCM),
            CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => aws_lc(&AES_256_GCM),
            CipherSuite::ChaCha20Poly1305 => aws_lc(&CHACHA20_POLY1305),
            CipherSuite::Aegis128L => whole(octets).map(Aegis128L).map(Cipher::Aegis128L),
            CipherSuite::Aegis256 => whole(octets).map(Aegis256).map(Cipher::Aegis256),
            CipherSuite::Morus640 => whole(octets).map(Morus640).map(Cipher::Morus640),
            CipherSuite::Morus1280 => whole(octets).map(Morus1280).map(Cipher::Morus1280),
        };
        let cipher = cipher.ok_or(WrongKeyLength { expected: suite.key_octets(), given: octets.len() })?;
        let key = Self { suite, cipher };
        key.rehearse();
        Ok(key)
    }

    /// A key of the null suite under the name of `suite`: no encryption, and an ICV that anybody can compute, so
    /// that a fuzzer gets past it. Exists in fuzzing builds only.
    #[cfg(fuzzing)]
    pub fn null(suite: CipherSuite) -> Self {
        Self { suite, cipher: Cipher::Null(crate::null::Null) }
    }

    /// The suite that this key is prepared for.
    pub fn suite(&self) -> CipherSuite {
        self.suite
    }

    /// Seals every job, in order. Neither allocates nor locks; its time is linear in the octets of the jobs.
    pub fn seal_each<'f>(&self, jobs: impl Iterator<Item = SealJob<'f>>) {
        match &self.cipher {
            Cipher::AwsLc(cipher) => seal_all(cipher, jobs),
            Cipher::Aegis128L(cipher) => seal_all(cipher, jobs),
            Cipher::Aegis256(cipher) => seal_all(cipher, jobs),
            Cipher::Morus640(cipher) => seal_all(cipher, jobs),
            Cipher::Morus1280(cipher) => seal_all(cipher, jobs),
            #[cfg(fuzzing)]
            Cipher::Null(cipher) => seal_all(cipher, jobs),
        }
    }

    /// Opens every job, in order, each by itself: one that is not authentic has its text wiped, and the others go
    /// on. Neither allocates nor locks; its time is linear in the octets of the jobs.
    pub fn open_each<'f>(&self, jobs: impl Iterator<Item = OpenJob<'f>>) {
        match &self.cipher {
            Cipher::AwsLc(cipher) => open_all(cipher, jobs),
            Cipher::Aegis128L(cipher) => open_all(cipher, jobs),
            Cipher::Aegis256(cipher) => open_all(cipher, jobs),
            Cipher::Morus640(cipher) => open_all(cipher, jobs),
            Cipher::Morus1280(cipher) => open_all(cipher, jobs),
            #[cfg(fuzzing)]
            Cipher::Null(cipher) => open_all(cipher, jobs),
        }
    }

    /// Opens an empty frame, so that what the libraries set up at their first use (processor features) is set up
    /// here and not on the frame path. Opening, since a nonce is for one sealing only.
    fn rehearse(&self) {
        let (nonce, mut authentic) = (Nonce::from_octets([0; 12]), false);
        let icv = &[0; ICV_OCTETS];
        self.open_each(iter::once(OpenJob {
            nonce,
            aad: &[],
            text: &mut [],
            icv,
            authentic: &mut authentic,
        }));
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.suite)
    }
}

fn whole<const OCTETS: usize>(octets: &[u8]) -> Option<Zeroizing<[u8; OCTETS]>> {
    octets.try_into().ok().map(Zeroizing::new)
}

fn seal_all<'f>(cipher: &impl Aead, jobs: impl Iterator<Item = SealJob<'f>>) {
    for SealJob { nonce, aad, text, icv } in jobs {
        cipher.seal(&nonce, aad, text, icv);
    }
}

fn open_all<'f>(cipher: &impl Aead, jobs: impl Iterator<Item = OpenJob<'f>>) {
    for OpenJob { nonce, aad, text, icv, authentic } in jobs {
        *authentic = cipher.open(&nonce, aad, text, icv);
        if !*authentic {
            text.fill(0);
        }
    }
}
