//! The C example, built against header and static library as a firmware author does it; what it prints is opened with the
//! ordinary crates. Takes some seconds, most of them for the library.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use aes::cipher::{BlockModeDecrypt as _, KeyIvInit as _};
use aes_gcm::aead::AeadInOut as _;
use aes_gcm::{Aes128Gcm, KeyInit as _};
use ccm::consts::{U12, U13, U16, U8};
use ccm::Ccm;

const KEY: [u8; 16] = *b"@ABCDEFGHIJKLMNO";

/// Runs it, and answers what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A place of this test's own, with the static library built into it.
fn library() -> (PathBuf, PathBuf) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("library");
    run(Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--locked",
            "--offline",
            "--package",
            env!("CARGO_PKG_NAME"),
            "--target-dir",
        ])
        .arg(&place)
        // Other flags than these would be those of the test's own build: coverage, sanitizers.
        .env_remove("RUSTFLAGS"));
    let library = place.join("debug/libantedate_c.a");
    (place, library)
}

fn compile(place: &Path, library: &Path, name: &str, compiler: &[&str]) -> PathBuf {
    let program = place.join(name);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    run(Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("example/station.c"))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    program
}

#[test]
fn what_the_example_sends_is_ordinary_ccm_dtls_gcm_and_cbc() {
    let goose = |number: u8, time: u8, state_number: u8, state: u8| {
        let head = [0, 1, 0, 96, 0, 0, 0, 0, 0x61, 86];
        let set = b"\x80\x14IED1LD0/LLN0$GO$gcb1\x81\x02\x07\xd0\x82\x13IED1LD0/LLN0$status\x83\x04gcb1";
        let time = [0x84, 8, 0x5b, 0, 0x11, time, 0x33, 0x44, 0x55, 0x0a];
        let rest = [0x87, 1, 0, 0x88, 1, 1, 0x89, 1, 0, 0x8a, 1, 1, 0xab, 3, 0x83, 1, state];
        [&head[..], set, &time, &[0x85, 1, state_number, 0x86, 1, number], &rest].concat()
    };
    let heads = [1, 4, 2, 3, 3, 1, 4, 1, 5, 1, 6, 1, 7, 1, 8, 2];
    let (place, library) = library();
    let printed = run(&mut Command::new(compile(&place, &library, "station", &["cc", "-std=c99"])));
    let messages: Vec<(&str, u64, u8, Vec<u8>)> = printed
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [protocol, number, met, octets] = words[..] else { panic!("{line}") };
            (protocol, number.parse().unwrap(), met.parse().unwrap(), hex::decode(octets).unwrap())
        })
        .collect();
    let told: Vec<_> = messages.iter().map(|(protocol, number, met, _)| (*protocol, *number, *met)).collect();
    assert_eq!(
        told,
        [
            ("ccm", 41, 2), // All of it was foreseen.
            ("ccm", 42, 2),
            ("ccm", 43, 1),  // Longer than expected: the keystream alone.
            ("goose", 0, 2), // A change.
            ("goose", 1, 2), // Its repetitions.
            ("goose", 2, 2),
            ("fields", 0, 0), // Nothing was learned.
            ("fields", 1, 2),
            ("fields", 2, 2),
            ("dtls", 1, 0), // No length was known.
            ("dtls", 2, 2),
            ("dtls", 3, 2),
            ("gcm", 7, 2),
            ("gcm", 8, 2),
            ("cbc", 0, 2),
        ]
    );
    let plain: Vec<Vec<u8>> = messages
        .into_iter()
        .map(|(protocol, number, _, mut octets)| {
            let counter = number.to_be_bytes();
            let data = match protocol {
                "ccm" | "goose" | "fields" => {
                    let station = match protocol {
                        "ccm" => b"station-1",
                        "goose" => b"station-2",
                        _ => b"station-3",
                    };
                    let nonce = [station, &counter[4..]].concat();
                    let tag = octets.split_off(octets.len() - 8);
                    let cipher = Ccm::<aes::Aes128, U8, U13>::new(&KEY.into());
                    let nonce = nonce.as_slice().try_into().unwrap();
                    cipher
                        .decrypt_inout_detached(
                            nonce,
                            b"",
                            octets.as_mut_slice().into(),
                            tag.as_slice().try_into().unwrap(),
                        )
                        .unwrap();
                    octets
                }
                "dtls" => {
                    // Type, version, epoch, sequence number, length; then the explicit nonce.
                    let explicit = [&[0, 1], &counter[2..]].concat();
                    assert_eq!(octets[..13], [&[23, 0xfe, 0xfd], &explicit[..], &[0, 8 + 32 + 16]].concat());
                    assert_eq!(octets[13..21], explicit);
                    let nonce = [&[1, 2, 3, 4], &explicit[..]].concat();
                    let aad = [&explicit[..], &[23, 0xfe, 0xfd, 0, 32]].concat();
                    let mut data = octets.split_off(21);
                    let tag = data.split_off(32);
                    let cipher = Ccm::<aes::Aes128, U16, U12>::new(&KEY.into());
                    let nonce = nonce.as_slice().try_into().unwrap();
                    cipher
                        .decrypt_inout_detached(
                            nonce,
                            &aad,
                            data.as_mut_slice().into(),
                            tag.as_slice().try_into().unwrap(),
                        )
                        .unwrap();
                    data
                }
                "cbc" => {
                    let mut mode =
                        cbc::Decryptor::<aes::Aes128>::new(&KEY.into(), b"an IV, for once\0".into());
                    let (blocks, rest) = octets.as_chunks_mut::<16>();
                    assert!(rest.is_empty());
                    blocks.iter_mut().for_each(|block| mode.decrypt_block(block.into()));
                    octets
                }
                _ => {
                    let nonce = [&[1, 2, 3, 4], &counter[..]].concat();
                    let aad = format!("valve 3, message {number:06}");
                    let tag = octets.split_off(100);
                    let cipher = Aes128Gcm::new(&KEY.into());
                    let nonce = nonce.as_slice().try_into().unwrap();
                    cipher
                        .decrypt_inout_detached(
                            nonce,
                            aad.as_bytes(),
                            octets.as_mut_slice().into(),
                            tag.as_slice().try_into().unwrap(),
                        )
                        .unwrap();
                    octets
                }
            };
            data
        })
        .collect();
    assert_eq!(
        plain,
        [
            b"temperature cell 4: 21.5".to_vec(),
            b"temperature cell 4: 21.7".to_vec(),
            b"temperature cell 4: -273.15".to_vec(),
            goose(0, 0x23, 4, 1),
            goose(1, 0x23, 4, 1),
            goose(2, 0x23, 4, 1),
            [&heads[..], b"21.599010110ok"].concat(),
            [&heads[..], b"21.799110110ok"].concat(),
            [&heads[..], b"22.098710110ok"].concat(),
            vec![b'a'; 32],
            vec![b'b'; 32],
            vec![b'c'; 32],
            vec![b'A'; 100],
            vec![b'B'; 100],
            [&b"temperature cell 4, in degrees: 21.50"[..], &[11; 11]].concat(),
        ]
    );
}
