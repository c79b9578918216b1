//! A key file is read to the key that a slow and simple reader finds in it, or refused; one with a CAK likewise.
//!
//! The parser stands behind the checks of the file, so the octets go through a real file.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use config::key_file;
use suite::CipherSuite;

use crate::scratch::Scratch;

thread_local! {
    static DIRECTORY: Scratch = Scratch::new("key");
}

/// Reads `octets` as a key file for a suite of 128 and for one of 256 bits.
///
/// # Panics
/// If the reader is wrong, or its refusal shows digits of the key.
pub fn run(octets: &[u8]) {
    let path = DIRECTORY.with(|directory| directory.path().join("fuzz.key"));
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(octets)).expect("invariant: scratch files can be written");
    match key_file::read_cak(&path) {
        Ok(cak) => {
            assert_eq!(Some((cak.ckn().octets().to_vec(), cak.octets().to_vec())), expected_cak(octets))
        }
        Err(error) => {
            assert_eq!(expected_cak(octets), None, "{error}");
            assert!(!error.to_string().contains('\n'), "{error:?} is one line");
        }
    }
    let expected = expected(octets);
    for suite in [CipherSuite::GcmAes128, CipherSuite::GcmAes256] {
        let wanted = expected.as_ref().filter(|key| key.len() == suite.key_octets());
        match key_file::read(&path, suite) {
            Ok(sak) => assert_eq!(Some(sak.octets()), wanted.map(|key| &key[..])),
            Err(error) => {
                assert_eq!(wanted, None, "{error}");
                assert!(!error.to_string().contains('\n'), "{error:?} is one line");
            }
        }
    }
}

fn expected(octets: &[u8]) -> Option<Vec<u8>> {
    let mut digits = Vec::new();
    let mut comment = false;
    for &octet in octets {
        comment = octet != b'\n' && (comment || octet == b'#');
        if !comment && !octet.is_ascii_whitespace() {
            digits.push((octet as char).to_digit(16)? as u8);
        }
    }
    let whole = octets.len() <= 4096 && matches!(digits.len(), 32 | 64);
    whole.then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Name and key.
fn expected_cak(octets: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut found = [None, None];
    for line in octets.split(|octet| *octet == b'\n') {
        let line = line.split(|octet| *octet == b'#').next()?.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let mut parts = line.splitn(2, |octet| *octet == b'=').map(<[u8]>::trim_ascii);
        let (name, value) = (parts.next()?, parts.next()?);
        let which = [&b"ckn"[..], b"cak"].iter().position(|known| *known == name)?;
        let digits: Option<Vec<u32>> = value.iter().map(|digit| (*digit as char).to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
        let value = digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect::<Vec<_>>();
        if found[which].replace(value).is_some() {
            return None;
        }
    }
    let [Some(ckn), Some(cak)] = found else { return None };
    let whole = octets.len() <= 4096 && (1..=32).contains(&ckn.len()) && matches!(cak.len(), 16 | 32);
    whole.then_some((ckn, cak))
}
