//! Prepared keys: the only place where a cipher suite becomes code.
//!
//! ```text
//! AAD:  authenticated, in clear     text: authenticated, encrypted in place     ICV: 16 octets, anywhere
//! ```
//!
//! An integrity-only frame has an empty text and all its data in the AAD; a confidentiality offset moves the
//! beginning of the text. Left out on purpose: a call for a single frame. A burst of one is a burst.

use alloc::boxed::Box;
use core::fmt;
use core::iter;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305};

use crate::aead::{Aead, Aegis128L, Aegis256, AwsLc, Morus1280};
use crate::antedated::Antedater;
use crate::morus640::Morus640;
use crate::{CipherSuite, ICV_OCTETS, Nonce, Sak, SecretArray, WrongKeyLength, scrubbed};

/// A frame to be sealed.
pub struct SealJob<'f> {
    /// The nonce, never used before under this key.
    pub nonce: Nonce,
    /// Octets that are authenticated and stay in clear.
    pub aad: &'f [u8],
    /// Plaintext, to become ciphertext of the same length.
    pub text: &'f mut [u8],
    /// Destination of the ICV.
    pub icv: &'f mut [u8; ICV_OCTETS],
}

/// A frame to be opened.
///
/// After a failed open nothing of the plaintext is left: `text` is all zeros, whatever the cipher wrote.
pub struct OpenJob<'f> {
    /// The nonce it was sealed with.
    pub nonce: Nonce,
    /// Octets that are authenticated and stand in clear.
    pub aad: &'f [u8],
    /// Ciphertext, to become plaintext of the same length, or zeros if it is not authentic.
    pub text: &'f mut [u8],
    /// The ICV that came with the frame.
    pub icv: &'f [u8; ICV_OCTETS],
    /// Result: true if AAD, text and ICV are as the sender sealed them. Its previous value does not matter.
    pub authentic: &'f mut bool,
}

/// A SAK prepared for its cipher suite: no frame pays for key schedules. About 50 octets. The key schedules
/// of aws-lc and the octets of other suites are on the heap, so a move copies no secret. Drop wipes all of
/// it. AEGIS and MORUS leave the key on the stack of the caller that seals and opens, who has to
/// [`scrub_stack`](crate::scrub_stack) when the key is gone.
pub struct Key {
    suite: CipherSuite,
    cipher: Cipher,
}

enum Cipher {
    AwsLc(AwsLc),
    Antedated(Box<Antedater>),
    Aegis128L(Aegis128L),
    Aegis256(Aegis256),
    Morus640(Morus640),
    Morus1280(Morus1280),
    #[cfg(fuzzing)]
    Null(crate::null::Null),
}

impl Key {
    /// Prepares `sak` for `suite`. Refused if the suite has keys of another length.
    pub fn prepare(suite: CipherSuite, sak: &Sak) -> Result<Self, WrongKeyLength> {
        scrubbed(|| Self::prepare_here(suite, sak))
    }

    fn prepare_here(suite: CipherSuite, sak: &Sak) -> Result<Self, WrongKeyLength> {
        let octets = sak.octets();
        let aws_lc = |algorithm| AwsLc::new(algorithm, octets).map(Cipher::AwsLc);
        let cipher = match suite {
            CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => aws_lc(&AES_128_GCM),
            CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => aws_lc(&AES_256_GCM),
            CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn => aws_lc(&CHACHA20_POLY1305),
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

    /// As [`Key::prepare`], for an SA with keystreams made ahead: the key has an [`Antedater`] if the suite
    /// is one of GCM-AES, and is an ordinary one otherwise. Takes about 1.3 KiB more.
    ///
    /// # Errors
    /// As [`Key::prepare`].
    pub fn prepare_antedated(suite: CipherSuite, sak: &Sak) -> Result<Self, WrongKeyLength> {
        scrubbed(|| {
            let Self { suite, cipher } = Self::prepare_here(suite, sak)?;
            let cipher = match cipher {
                Cipher::AwsLc(gcm) if suite.is_gcm() => {
                    let antedater = Antedater::new(gcm, sak.octets());
                    Cipher::Antedated(Box::new(
                        antedater.expect("invariant: a key that GCM took, counter mode takes"),
                    ))
                }
                other => other,
            };
            Ok(Self { suite, cipher })
        })
    }

    /// Maker of keystreams, if the key was prepared for antedating.
    pub fn antedater(&self) -> Option<&Antedater> {
        match &self.cipher {
            Cipher::Antedated(antedater) => Some(antedater),
            _ => None,
        }
    }

    /// A key of the null suite under the name of `suite`: no encryption, and an ICV that anybody can compute,
    /// so a fuzzer gets past it. Fuzzing builds only.
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
            Cipher::Antedated(antedater) => seal_all(&antedater.gcm, jobs),
            Cipher::Aegis128L(cipher) => seal_all(cipher, jobs),
            Cipher::Aegis256(cipher) => seal_all(cipher, jobs),
            Cipher::Morus640(cipher) => seal_all(cipher, jobs),
            Cipher::Morus1280(cipher) => seal_all(cipher, jobs),
            #[cfg(fuzzing)]
            Cipher::Null(cipher) => seal_all(cipher, jobs),
        }
    }

    /// Opens every job, in order, each independently: a job that is not authentic has its text wiped. Neither
    /// allocates nor locks, with one exception: the first frame that a thread rejects with aws-lc sets up
    /// that thread's error queue (a few hundred octets, once). Its time is linear in the octets of the jobs.
    pub fn open_each<'f>(&self, jobs: impl Iterator<Item = OpenJob<'f>>) {
        match &self.cipher {
            Cipher::AwsLc(cipher) => open_all(cipher, jobs),
            Cipher::Antedated(antedater) => open_all(&antedater.gcm, jobs),
            Cipher::Aegis128L(cipher) => open_all(cipher, jobs),
            Cipher::Aegis256(cipher) => open_all(cipher, jobs),
            Cipher::Morus640(cipher) => open_all(cipher, jobs),
            Cipher::Morus1280(cipher) => open_all(cipher, jobs),
            #[cfg(fuzzing)]
            Cipher::Null(cipher) => open_all(cipher, jobs),
        }
    }

    /// Opens an empty frame, so that the libraries' first-use setup (processor features) happens here and not
    /// on the frame path. It opens rather than seals, since a nonce is for one sealing only.
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

fn whole<const OCTETS: usize>(octets: &[u8]) -> Option<SecretArray<OCTETS>> {
    <&[u8; OCTETS]>::try_from(octets).ok().map(SecretArray::new)
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

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const NONCE: [u8; 12] = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0, 0, 0, 1];

    fn key(suite: CipherSuite) -> Key {
        let octets: Vec<u8> = (0..suite.key_octets() as u8).collect();
        Key::prepare(suite, &Sak::new(suite, &octets).unwrap()).unwrap()
    }

    fn seal(key: &Key, nonce: [u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; ICV_OCTETS] {
        let (nonce, mut icv) = (Nonce::from_octets(nonce), [0; ICV_OCTETS]);
        key.seal_each(iter::once(SealJob { nonce, aad, text, icv: &mut icv }));
        icv
    }

    fn open(key: &Key, nonce: [u8; 12], aad: &[u8], text: &mut [u8], icv: &[u8; ICV_OCTETS]) -> bool {
        // Begins as the opposite of what a forgotten assignment would let pass, once each way.
        let [mut first, mut second] = [true, false];
        let mut copy = text.to_vec();
        for (text, authentic) in [(&mut copy[..], &mut first), (text, &mut second)] {
            key.open_each(iter::once(OpenJob {
                nonce: Nonce::from_octets(nonce),
                aad,
                text,
                icv,
                authentic,
            }));
        }
        assert_eq!(first, second);
        first
    }

    #[test]
    fn a_key_is_prepared_only_from_a_sak_of_its_length() {
        for from in CipherSuite::ALL {
            for to in CipherSuite::ALL {
                let sak = Sak::new(from, &[1; 32][..from.key_octets()]).unwrap();
                let (expected, given) = (to.key_octets(), from.key_octets());
                match Key::prepare(to, &sak) {
                    Ok(key) => {
                        assert_eq!(expected, given, "{from} {to}");
                        assert_eq!(key.suite(), to);
                    }
                    Err(error) => {
                        assert_eq!(error, WrongKeyLength { expected, given });
                        assert_ne!(expected, given, "{from} {to}");
                    }
                }
            }
        }
    }

    #[test]
    fn suites_differ_except_by_their_nonces() {
        let mut seen: Vec<(CipherSuite, [u8; ICV_OCTETS], [u8; 64])> = vec![];
        for suite in CipherSuite::ALL {
            let mut text = [0; 64];
            let icv = seal(&key(suite), NONCE, b"aad", &mut text);
            for (other, other_icv, other_text) in &seen {
                let same = (*other == CipherSuite::GcmAes128 && suite == CipherSuite::GcmAesXpn128)
                    || (*other == CipherSuite::GcmAes256 && suite == CipherSuite::GcmAesXpn256)
                    || (*other == CipherSuite::ChaCha20Poly1305 && suite == CipherSuite::ChaCha20Poly1305Xpn);
                assert_eq!(icv == *other_icv, same, "{suite} {other}");
                assert_eq!(text == *other_text, same, "{suite} {other}");
            }
            seen.push((suite, icv, text));
        }
    }

    #[test]
    fn a_longer_nonce_is_ours_followed_by_zeros() {
        let octets: Vec<u8> = (0..32).collect();
        let (key_16, key_32) = (whole(&octets[..16]).unwrap(), whole(&octets).unwrap());
        let mut nonce = [0; 32];
        nonce[..12].copy_from_slice(&NONCE);
        let nonce_16 = nonce.first_chunk().unwrap();
        let by_suite = |suite| {
            let mut text = [0x5a; 100];
            (seal(&key(suite), NONCE, b"aad", &mut text), text)
        };
        let mut text = [0x5a; 100];
        let icv = Aegis128L(key_16.clone()).cipher(nonce_16).encrypt_in_place(&mut text, b"aad");
        assert_eq!((icv, text), by_suite(CipherSuite::Aegis128L));
        let mut text = [0x5a; 100];
        let icv = Aegis256(key_32).cipher(&nonce).encrypt_in_place(&mut text, b"aad");
        assert_eq!((icv, text), by_suite(CipherSuite::Aegis256));
        let mut text = [0x5a; 100];
        let icv = Morus1280(key_16.clone()).cipher(nonce_16).encrypt_in_place(&mut text, b"aad");
        assert_eq!((icv, text), by_suite(CipherSuite::Morus1280));
        let mut text = [0x5a; 100];
        let icv = Morus640(key_16).seal_extended(nonce_16, b"aad", &mut text);
        assert_eq!((icv, text), by_suite(CipherSuite::Morus640));
    }

    /// One burst of five frames, of which the second and the fourth were tampered with.
    #[test]
    fn every_job_of_a_burst_is_judged_by_itself() {
        for suite in CipherSuite::ALL {
            let key = key(suite);
            let nonce = |i: usize| Nonce::from_octets([i as u8; 12]);
            let plain: Vec<Vec<u8>> = [0, 1, 64, 1468, 60].iter().map(|&length| vec![0x5a; length]).collect();
            let mut texts = plain.clone();
            let mut icvs = [[0; ICV_OCTETS]; 5];
            key.seal_each(texts.iter_mut().zip(&mut icvs).enumerate().map(|(i, (text, icv))| SealJob {
                nonce: nonce(i),
                aad: b"aad",
                text,
                icv,
            }));
            texts[1][0] ^= 1;
            icvs[3][15] ^= 0x80;
            let mut authentic = [false, true, false, true, false];
            let jobs = texts.iter_mut().zip(&icvs).zip(&mut authentic).enumerate();
            key.open_each(jobs.map(|(i, ((text, icv), authentic))| OpenJob {
                nonce: nonce(i),
                aad: b"aad",
                text,
                icv,
                authentic,
            }));
            assert_eq!(authentic, [true, false, true, false, true], "{suite}");
            for i in 0..5 {
                let expected = if authentic[i] { plain[i].clone() } else { vec![0; plain[i].len()] };
                assert_eq!(texts[i], expected, "{suite} {i}");
            }
        }
    }

    #[test]
    fn every_single_bit_counts() {
        for suite in CipherSuite::ALL {
            let key = key(suite);
            let (aad, mut text) = ([0x11; 28], [0x22; 46]);
            let icv = seal(&key, NONCE, &aad, &mut text);
            for bit in 0..8 * (NONCE.len() + aad.len() + text.len() + icv.len()) {
                let (mut nonce, mut aad, mut text, mut icv) = (NONCE, aad, text, icv);
                let mut all = nonce.iter_mut().chain(&mut aad).chain(&mut text).chain(&mut icv);
                *all.nth(bit / 8).unwrap() ^= 1 << (bit % 8);
                assert!(!open(&key, nonce, &aad, &mut text, &icv), "{suite} {bit}");
            }
            assert!(open(&key, NONCE, &aad, &mut text, &icv), "{suite}");
            assert_eq!(text, [0x22; 46], "{suite}");
        }
    }

    #[test]
    fn debug_keeps_the_secret() {
        for suite in CipherSuite::ALL {
            assert_eq!(std::format!("{:?}", key(suite)), std::format!("Key({suite})"));
        }
    }

    #[test]
    fn keys_travel_between_threads() {
        fn travels<T: Send + Sync>() {}
        travels::<Key>();
    }

    proptest! {
        #[test]
        fn what_was_sealed_opens_and_nothing_else_does(
            suite in proptest::sample::select(&CipherSuite::ALL[..]),
            nonce: [u8; 12],
            aad in proptest::collection::vec(any::<u8>(), 0..2000),
            text in proptest::collection::vec(any::<u8>(), 0..2000),
            flip: proptest::sample::Index,
        ) {
            let key = key(suite);
            let mut sealed = text.clone();
            let icv = seal(&key, nonce, &aad, &mut sealed);
            prop_assert!(text.len() < 8 || sealed != text);

            let mut opened = sealed.clone();
            prop_assert!(open(&key, nonce, &aad, &mut opened, &icv));
            prop_assert_eq!(opened, text);

            let (mut nonce, mut aad, mut icv) = (nonce, aad, icv);
            let bits = 8 * (nonce.len() + aad.len() + sealed.len() + icv.len());
            let bit = flip.index(bits);
            let mut all = nonce.iter_mut().chain(&mut aad).chain(&mut sealed).chain(&mut icv);
            *all.nth(bit / 8).expect("the bit is within") ^= 1 << (bit % 8);
            prop_assert!(!open(&key, nonce, &aad, &mut sealed, &icv));
            prop_assert!(sealed.iter().all(|&octet| octet == 0));
        }

        /// An octet moved from the text to the AAD or back is another frame.
        #[test]
        fn where_the_text_begins_is_authenticated(
            suite in proptest::sample::select(&CipherSuite::ALL[..]),
            mut frame in proptest::collection::vec(any::<u8>(), 2..300),
            cut: proptest::sample::Index,
            other_cut: proptest::sample::Index,
        ) {
            let (cut, other_cut) = (cut.index(frame.len()), other_cut.index(frame.len()));
            prop_assume!(cut != other_cut);
            let key = key(suite);
            let (aad, text) = frame.split_at_mut(cut);
            let icv = seal(&key, NONCE, aad, text);
            let (aad, text) = frame.split_at_mut(other_cut);
            prop_assert!(!open(&key, NONCE, aad, text, &icv));
        }
    }
}
