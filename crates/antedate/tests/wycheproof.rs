//! The vectors of Project Wycheproof, `tests/vectors/wycheproof`: sealed and opened in the ordinary way, and with all,
//! half and none of it prepared.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use antedate::{CacheHit, Ccm, Expected, Gcm, Nonce, TagLength};
use serde_json::Value;

/// Calls `run` with each vector of a file: tag size in octets, and the vector. Returns how many it took.
fn each_of(file: &str, run: impl Fn(usize, &Value) -> bool) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/wycheproof").join(file);
    let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let groups = file["testGroups"].as_array().unwrap();
    let vectors = groups.iter().flat_map(|group| {
        let tag = group["tagSize"].as_u64().unwrap() as usize / 8;
        group["tests"].as_array().unwrap().iter().map(move |vector| (tag, vector))
    });
    vectors.filter(|(tag, vector)| run(*tag, vector)).count()
}

fn field(vector: &Value, name: &str) -> Vec<u8> {
    hex::decode(vector[name].as_str().unwrap()).unwrap()
}

/// Sealed if the vector is valid, opened in any case.
fn check_ccm<C: BlockCipherEncrypt<BlockSize = U16>>(cipher: C, tag: TagLength, vector: &Value) -> bool {
    let [nonce, aad, data, sealed, expected_tag] =
        ["iv", "aad", "msg", "ct", "tag"].map(|name| field(vector, name));
    let Some(nonce) = Nonce::new(&nonce) else {
        assert_eq!(vector["result"], "invalid", "{vector}");
        return false;
    };
    let ccm = Ccm::new(cipher, tag);
    let valid = vector["result"] == "valid";
    for known in [data.len(), data.len() / 2, 0] {
        let expected = Expected { length: data.len(), at_most: known };
        let prepare = || ccm.prepare::<512, 128>(&nonce, &aad, expected, &data[..known]);
        if valid {
            let mut own = data.clone();
            let outcome = prepare().seal(&aad, &mut own);
            assert_eq!((&own, outcome.tag.octets()), (&sealed, &expected_tag[..]), "{vector}");
        }
        let mut own = sealed.clone();
        assert_eq!(prepare().open(&aad, &mut own, &expected_tag).is_ok(), valid, "{vector}");
        assert!(!valid || own == data, "{vector}");
    }
    let mut own = sealed.clone();
    assert_eq!(ccm.open(&nonce, &aad, &mut own, &expected_tag).is_ok(), valid, "{vector}");
    if valid {
        assert_eq!(ccm.seal(&nonce, &aad, &mut own).octets(), &expected_tag[..], "{vector}");
        assert_eq!(own, sealed, "{vector}");
    }
    true
}

#[test]
fn ccm() {
    let run = |tag: usize, vector: &Value| {
        let key = field(vector, "key");
        // Tags of 2 and 3 octets stand there, as invalid.
        let Some(tag) = TagLength::new(tag) else {
            assert_eq!(vector["result"], "invalid", "{vector}");
            return false;
        };
        match key.len() {
            16 => check_ccm(Aes128::new_from_slice(&key).unwrap(), tag, vector),
            24 => check_ccm(Aes192::new_from_slice(&key).unwrap(), tag, vector),
            _ => check_ccm(Aes256::new_from_slice(&key).unwrap(), tag, vector),
        }
    };
    assert!(each_of("aes_ccm_test.json", run) > 400);
}

fn check_gcm<C: BlockCipherEncrypt<BlockSize = U16>>(cipher: C, vector: &Value) -> bool {
    let [nonce, aad, data, sealed, expected_tag] =
        ["iv", "aad", "msg", "ct", "tag"].map(|name| field(vector, name));
    let (Ok(nonce), Ok(expected_tag)) = (nonce.try_into(), expected_tag.try_into()) else { return false };
    let gcm = Gcm::new(cipher);
    let valid = vector["result"] == "valid";
    for octets in [data.len(), data.len() / 2, 0] {
        let prepare = || gcm.prepare::<512>(&nonce, &aad, octets);
        if valid {
            let mut own = data.clone();
            let (tag, met) = prepare().seal(&aad, &mut own);
            assert_eq!((&own, tag, met), (&sealed, expected_tag, CacheHit::Full), "{vector}");
        }
        let mut own = sealed.clone();
        assert_eq!(prepare().open(&aad, &mut own, &expected_tag).is_ok(), valid, "{vector}");
        assert!(!valid || own == data, "{vector}");
    }
    let mut own = sealed.clone();
    assert_eq!(gcm.open(&nonce, &aad, &mut own, &expected_tag).is_ok(), valid, "{vector}");
    true
}

#[test]
fn gcm() {
    let run = |_, vector: &Value| {
        let key = field(vector, "key");
        match key.len() {
            16 => check_gcm(Aes128::new_from_slice(&key).unwrap(), vector),
            24 => check_gcm(Aes192::new_from_slice(&key).unwrap(), vector),
            _ => check_gcm(Aes256::new_from_slice(&key).unwrap(), vector),
        }
    };
    assert!(each_of("aes_gcm_test.json", run) > 150);
}
