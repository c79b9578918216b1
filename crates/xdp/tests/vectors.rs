//! The cipher of the programs against other people's vectors: RFC 8439, Project Wycheproof. Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

use aya::programs::Xdp;
use aya::{Ebpf, TestRun, TestRunOptions};
use serde::Deserialize;

static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/vectors.bpf.o");
const WYCHEPROOF: &str = include_str!("../../../tests/vectors/wycheproof/chacha20_poly1305_test.json");

const PASS: u32 = 2;
const DROP: u32 = 1;
const FRONT: usize = 48;

struct Programs(Ebpf);

/// A vector, and what the programs make of it.
struct Vector<'v> {
    key: &'v [u8],
    nonce: &'v [u8],
    aad: &'v [u8],
}

impl Programs {
    fn load() -> Self {
        let mut ebpf = match std::env::var_os("FRAMEWARD_VECTORS_OBJECT") {
            Some(file) => Ebpf::load_file(file).unwrap(),
            None => Ebpf::load(OBJECT).unwrap(),
        };
        for name in ["seal", "open", "mac"] {
            let program: &mut Xdp = ebpf.program_mut(name).unwrap().try_into().unwrap();
            program.load().unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        Self(ebpf)
    }

    fn run(&self, name: &str, of: &Vector<'_>, text: &[u8], icv: &[u8]) -> (u32, Vec<u8>) {
        let lengths = [of.aad.len() as u16, text.len() as u16].map(u16::to_le_bytes).concat();
        let frame = [of.key, of.nonce, &lengths, of.aad, text, icv].concat();
        let mut out = vec![0; 4096];
        let program: &Xdp = self.0.program(name).unwrap().try_into().unwrap();
        let options =
            TestRunOptions { data_in: Some(&frame), data_out: Some(&mut out), ..TestRunOptions::new() };
        let ran = program.test_run(options).unwrap();
        out.truncate(ran.data_size_out as usize);
        assert_eq!(&out[..FRONT + of.aad.len()], &frame[..FRONT + of.aad.len()], "what is in front is left");
        (ran.return_value, out.split_off(FRONT + of.aad.len()))
    }

    /// Ciphertext and ICV.
    fn seal(&self, of: &Vector<'_>, text: &[u8]) -> Vec<u8> {
        let (verdict, sealed) = self.run("seal", of, text, &[0xee; 16]);
        assert_eq!(verdict, PASS);
        sealed
    }

    /// The plaintext, if it is authentic. Else the frame is spoilt, and dropped.
    fn open(&self, of: &Vector<'_>, text: &[u8], icv: &[u8]) -> Option<Vec<u8>> {
        let (verdict, mut opened) = self.run("open", of, text, icv);
        opened.truncate(text.len());
        assert!(matches!(verdict, PASS | DROP), "{verdict}");
        (verdict == PASS).then_some(opened)
    }
}

/// Section 2.8.2.
#[test]
fn rfc_8439() {
    let programs = Programs::load();
    let key: Vec<u8> = (0x80..0xa0).collect();
    let nonce = hex::decode("070000004041424344454647").unwrap();
    let aad = hex::decode("50515253c0c1c2c3c4c5c6c7").unwrap();
    let text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    let ciphertext = "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
        3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
        92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
        3ff4def08e4b7a9de576d26586cec64b6116";
    let icv = "1ae10b594f09e26a7e902ecbd0600691";
    let of = Vector { key: &key, nonce: &nonce, aad: &aad };
    assert_eq!(hex::encode(programs.seal(&of, text)), format!("{ciphertext}{icv}"));
    let (ciphertext, icv) = (hex::decode(ciphertext).unwrap(), hex::decode(icv).unwrap());
    assert_eq!(programs.open(&of, &ciphertext, &icv).as_deref(), Some(&text[..]));
    for bit in 0..128 {
        let mut icv = icv.clone();
        icv[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(programs.open(&of, &ciphertext, &icv), None, "bit {bit}");
    }
}

/// Sums from 2^130 - 5 to 2^130 - 1, which are 0 to 4. With r = 1 a sum is that of the blocks, of which each counts 2^128 besides: two of
/// the text, and that of the lengths.
#[test]
fn sums_at_the_modulus_are_reduced() {
    let programs = Programs::load();
    for s in [0_u128, 1 << 100, u128::MAX] {
        let key = [1_u128.to_le_bytes(), s.to_le_bytes()].concat();
        for sum in 0..5 {
            let aad = [(u128::MAX - 36 + sum).to_le_bytes(), [0; 16]].concat();
            let of = Vector { key: &key, nonce: &[0; 12], aad: &aad };
            let (verdict, icv) = programs.run("mac", &of, &[], &[0xee; 16]);
            assert_eq!((verdict, icv), (PASS, sum.wrapping_add(s).to_le_bytes().to_vec()), "{sum} {s}");
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    test_groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    tests: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    tc_id: u32,
    #[serde(with = "hex::serde")]
    key: Vec<u8>,
    #[serde(with = "hex::serde")]
    iv: Vec<u8>,
    #[serde(with = "hex::serde")]
    aad: Vec<u8>,
    #[serde(with = "hex::serde")]
    msg: Vec<u8>,
    #[serde(with = "hex::serde")]
    ct: Vec<u8>,
    #[serde(with = "hex::serde")]
    tag: Vec<u8>,
    result: String,
}

#[test]
fn wycheproof() {
    let programs = Programs::load();
    let file: File = serde_json::from_str(WYCHEPROOF).unwrap();
    let (mut valid, mut invalid, mut other_nonce) = (0, 0, 0);
    for test in file.test_groups.iter().flat_map(|group| &group.tests) {
        let Test { tc_id, key, iv, aad, msg, ct, tag, result } = test;
        if iv.len() != 12 {
            other_nonce += 1;
            continue;
        }
        let of = Vector { key, nonce: iv, aad };
        let matches = programs.seal(&of, msg) == [&ct[..], tag].concat();
        let opened = programs.open(&of, ct, tag);
        if result == "valid" {
            assert!(matches, "{tc_id}: sealed to something else");
            assert_eq!(opened.as_ref(), Some(msg), "{tc_id}: not opened");
            valid += 1;
        } else {
            assert!(!matches && opened.is_none(), "{tc_id}: taken");
            invalid += 1;
        }
    }
    assert_eq!((valid, invalid, other_nonce), WYCHEPROOF_COUNTS);
}

/// Valid ones, invalid ones, those with nonces of another length.
const WYCHEPROOF_COUNTS: (usize, usize, usize) = (256, 60, 9);
