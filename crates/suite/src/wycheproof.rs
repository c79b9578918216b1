//! The vectors of Project Wycheproof, `tests/vectors/wycheproof`, sealed and opened.
//!
//! GCM and ChaCha20-Poly1305 go through [`Key`]. AEGIS and MORUS vectors use all of their 16- or 32-octet nonces, of
//! which a frame fills only 12, so they go through what stands right behind [`Key`].

extern crate std;
use std::string::String;
use std::vec::Vec;

use core::iter;

use serde::Deserialize;

use crate::aead::{Aegis128L, Aegis256, Morus1280};
use crate::antedated::{Keystream, KeystreamBuffer, Scratch};
use crate::morus640::Morus640;
use crate::{CipherSuite, ICV_OCTETS, Key, Nonce, OpenJob, Sak, SealJob, SecretArray};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    number_of_tests: usize,
    test_groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    tests: Vec<Vector>,
}

/// A vector of an AEAD, or of a MAC (GMAC), which has neither AAD nor ciphertext: its message is our AAD.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    tc_id: u32,
    #[serde(with = "hex::serde")]
    key: Vec<u8>,
    #[serde(with = "hex::serde")]
    iv: Vec<u8>,
    aad: Option<String>,
    #[serde(with = "hex::serde")]
    msg: Vec<u8>,
    ct: Option<String>,
    #[serde(with = "hex::serde")]
    tag: Vec<u8>,
    result: String,
}

/// Implementation that runs a file's vectors.
#[derive(Clone, Copy)]
enum Subject {
    /// [`Key`], with whichever of the suites takes keys of the vector's length.
    Suites(&'static [CipherSuite]),
    /// An antedater, half of whose keystream was ready.
    Antedated(&'static [CipherSuite]),
    Aegis128L,
    Aegis256,
    Morus640,
    Morus1280,
}

impl Subject {
    fn key_octets(self) -> Vec<usize> {
        match self {
            Self::Suites(suites) | Self::Antedated(suites) => {
                suites.iter().map(|suite| suite.key_octets()).collect()
            }
            Self::Aegis128L | Self::Morus640 | Self::Morus1280 => [16].into(),
            Self::Aegis256 => [32].into(),
        }
    }

    fn nonce_octets(self) -> usize {
        match self {
            Self::Suites(_) | Self::Antedated(_) => Nonce::OCTETS,
            Self::Aegis128L | Self::Morus640 | Self::Morus1280 => 16,
            Self::Aegis256 => 32,
        }
    }

    fn seal(self, v: &Vector, aad: &[u8], text: &mut [u8]) -> [u8; ICV_OCTETS] {
        match self {
            Self::Suites(suites) => {
                let mut icv = [0; ICV_OCTETS];
                let job = SealJob { nonce: Nonce::from_octets(array(&v.iv)), aad, text, icv: &mut icv };
                prepare(suites, &v.key).seal_each(iter::once(job));
                icv
            }
            Self::Antedated(suites) => {
                let (nonce, mut icv) = (Nonce::from_octets(array(&v.iv)), [0; ICV_OCTETS]);
                let (antedater, keystream) = antedated(suites, v);
                let job = SealJob { nonce, aad, text, icv: &mut icv };
                antedater.antedater().unwrap().seal(keystream, job, &mut Scratch::new());
                icv
            }
            Self::Aegis128L => Aegis128L(secret(&v.key)).cipher(&array(&v.iv)).encrypt_in_place(text, aad),
            Self::Aegis256 => Aegis256(secret(&v.key)).cipher(&array(&v.iv)).encrypt_in_place(text, aad),
            Self::Morus640 => Morus640(secret(&v.key)).seal_extended(&array(&v.iv), aad, text),
            Self::Morus1280 => Morus1280(secret(&v.key)).cipher(&array(&v.iv)).encrypt_in_place(text, aad),
        }
    }

    fn open(self, v: &Vector, aad: &[u8], text: &mut [u8]) -> bool {
        let icv = &array(&v.tag);
        match self {
            Self::Suites(suites) => {
                let (nonce, mut authentic) = (Nonce::from_octets(array(&v.iv)), false);
                let job = OpenJob { nonce, aad, text: &mut *text, icv, authentic: &mut authentic };
                prepare(suites, &v.key).open_each(iter::once(job));
                assert!(authentic || text.iter().all(|&octet| octet == 0), "{}: not wiped", v.tc_id);
                authentic
            }
            Self::Antedated(suites) => {
                let (nonce, mut authentic) = (Nonce::from_octets(array(&v.iv)), false);
                let (antedater, keystream) = antedated(suites, v);
                let job = OpenJob { nonce, aad, text: &mut *text, icv, authentic: &mut authentic };
                let opened = antedater.antedater().unwrap().open(keystream, job, &mut Scratch::new());
                assert_eq!(opened.is_ok(), authentic);
                assert!(authentic || text.iter().all(|&octet| octet == 0), "{}: not wiped", v.tc_id);
                authentic
            }
            Self::Aegis128L => {
                Aegis128L(secret(&v.key)).cipher(&array(&v.iv)).decrypt_in_place(text, icv, aad).is_ok()
            }
            Self::Aegis256 => {
                Aegis256(secret(&v.key)).cipher(&array(&v.iv)).decrypt_in_place(text, icv, aad).is_ok()
            }
            Self::Morus640 => Morus640(secret(&v.key)).open_extended(&array(&v.iv), aad, text, icv),
            Self::Morus1280 => {
                Morus1280(secret(&v.key)).cipher(&array(&v.iv)).decrypt_in_place(text, icv, aad).is_ok()
            }
        }
    }
}

fn array<const OCTETS: usize>(octets: &[u8]) -> [u8; OCTETS] {
    octets.try_into().expect("vectors of other lengths are skipped")
}

fn secret<const OCTETS: usize>(octets: &[u8]) -> SecretArray<OCTETS> {
    SecretArray::new(&array(octets))
}

fn sak(suites: &[CipherSuite], key: &[u8]) -> (CipherSuite, Sak) {
    let suite = *suites.iter().find(|suite| suite.key_octets() == key.len()).unwrap();
    (suite, Sak::new(suite, key).unwrap())
}

fn prepare(suites: &[CipherSuite], key: &[u8]) -> Key {
    let (suite, sak) = sak(suites, key);
    Key::prepare(suite, &sak).unwrap()
}

fn antedated(suites: &[CipherSuite], v: &Vector) -> (Key, Keystream) {
    let (suite, sak) = sak(suites, &v.key);
    let key = Key::prepare_antedated(suite, &sak).unwrap();
    let nonce = Nonce::from_octets(array(&v.iv));
    let keystream = key.antedater().unwrap().prepare(KeystreamBuffer::new(), nonce, v.msg.len() / 2);
    (key, keystream)
}

/// Number of vectors of a file by outcome.
#[derive(PartialEq, Eq, Debug, Default)]
struct Tally {
    /// Sealed to the vector's ciphertext and tag, and opened to its message.
    sealed: usize,
    /// Invalid: refused by open, and not what seal makes.
    refused: usize,
    /// No suite has keys of this length.
    skipped_key: usize,
    /// No suite has nonces of this length.
    skipped_nonce: usize,
}

fn run(subject: Subject, json: &str, expected: Tally) {
    let file: File = serde_json::from_str(json).unwrap();
    let mut tally = Tally::default();
    for v in file.test_groups.iter().flat_map(|group| &group.tests) {
        if !subject.key_octets().contains(&v.key.len()) {
            tally.skipped_key += 1;
            continue;
        }
        if v.iv.len() != subject.nonce_octets() {
            tally.skipped_nonce += 1;
            continue;
        }
        let (aad, plain, sealed) = match (&v.aad, &v.ct) {
            (Some(aad), Some(ct)) => (hex::decode(aad).unwrap(), v.msg.clone(), hex::decode(ct).unwrap()),
            (None, None) => (v.msg.clone(), Vec::new(), Vec::new()),
            _ => panic!("{}: neither an AEAD's vector nor a MAC's", v.tc_id),
        };
        let mut ours = plain.clone();
        let matches = subject.seal(v, &aad, &mut ours)[..] == v.tag && ours == sealed;
        let mut opened = sealed.clone();
        let authentic = subject.open(v, &aad, &mut opened);
        match v.result.as_str() {
            "valid" => {
                assert!(matches, "{}: sealed to something else", v.tc_id);
                assert!(authentic && opened == plain, "{}: not opened", v.tc_id);
                tally.sealed += 1;
            }
            "invalid" => {
                assert!(!matches, "{}: sealed to what is invalid", v.tc_id);
                assert!(!authentic, "{}: opened, but is invalid", v.tc_id);
                tally.refused += 1;
            }
            other => panic!("{}: result {other}", v.tc_id),
        }
    }
    let Tally { sealed, refused, skipped_key, skipped_nonce } = tally;
    assert_eq!(sealed + refused + skipped_key + skipped_nonce, file.number_of_tests);
    assert_eq!(tally, expected);
}

macro_rules! vectors {
    ($name:literal) => {
        include_str!(concat!("../../../tests/vectors/wycheproof/", $name, "_test.json"))
    };
}

const GCM: Subject = Subject::Suites(&[CipherSuite::GcmAes128, CipherSuite::GcmAes256]);
const ANTEDATED: Subject = Subject::Antedated(&[CipherSuite::GcmAes128, CipherSuite::GcmAes256]);
const GCM_XPN: Subject = Subject::Suites(&[CipherSuite::GcmAesXpn128, CipherSuite::GcmAesXpn256]);

/// Skipped: 192-bit keys, and IVs other than 96 bits, which MACsec has not.
#[test]
fn aes_gcm() {
    for subject in [GCM, GCM_XPN, ANTEDATED] {
        let expected = Tally { sealed: 79, refused: 54, skipped_key: 103, skipped_nonce: 80 };
        run(subject, vectors!("aes_gcm"), expected);
    }
}

/// Integrity only. Skipped: 192-bit keys, and 128-bit IVs.
#[test]
fn aes_gmac() {
    for subject in [GCM, GCM_XPN, ANTEDATED] {
        let expected = Tally { sealed: 30, refused: 108, skipped_key: 138, skipped_nonce: 138 };
        run(subject, vectors!("aes_gmac"), expected);
    }
}

/// Skipped: nonces other than 96 bits, which RFC 8439 has not.
#[test]
fn chacha20_poly1305() {
    let subject = Subject::Suites(&[CipherSuite::ChaCha20Poly1305]);
    let expected = Tally { sealed: 256, refused: 60, skipped_nonce: 9, ..Tally::default() };
    run(subject, vectors!("chacha20_poly1305"), expected);
}

#[test]
fn aegis_128l() {
    let expected = Tally { sealed: 367, refused: 112, ..Tally::default() };
    run(Subject::Aegis128L, vectors!("aegis128L"), expected);
}

#[test]
fn aegis_256() {
    let expected = Tally { sealed: 360, refused: 112, ..Tally::default() };
    run(Subject::Aegis256, vectors!("aegis256"), expected);
}

#[test]
fn morus_640() {
    let expected = Tally { sealed: 350, refused: 108, ..Tally::default() };
    run(Subject::Morus640, vectors!("morus640"), expected);
}

/// Skipped: MORUS-1280-256, the variant with 256-bit keys.
#[test]
fn morus_1280() {
    let expected = Tally { sealed: 350, refused: 108, skipped_key: 458, ..Tally::default() };
    run(Subject::Morus1280, vectors!("morus1280"), expected);
}
