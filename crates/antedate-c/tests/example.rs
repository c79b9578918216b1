//! The C example, built against header and static library as a firmware author does it; what it prints is opened with the
//! ordinary crates. Takes some seconds, most of them for the library.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

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
fn what_the_example_sends_is_ordinary_ccm_dtls_and_gcm() {
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
            ("ccm", 43, 1), // Longer than expected: the keystream alone.
            ("dtls", 1, 0), // No length was known.
            ("dtls", 2, 2),
            ("dtls", 3, 2),
            ("gcm", 7, 2),
            ("gcm", 8, 2),
        ]
    );
    let plain: Vec<String> = messages
        .into_iter()
        .map(|(protocol, number, _, mut octets)| {
            let counter = number.to_be_bytes();
            let data = match protocol {
                "ccm" => {
                    let nonce = [b"station-1", &counter[4..]].concat();
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
            String::from_utf8(data).unwrap()
        })
        .collect();
    let repeated = |letter: &str, times| letter.repeat(times);
    assert_eq!(
        plain,
        [
            "temperature cell 4: 21.5".to_owned(),
            "temperature cell 4: 21.7".to_owned(),
            "temperature cell 4: -273.15".to_owned(),
            repeated("a", 32),
            repeated("b", 32),
            repeated("c", 32),
            repeated("A", 100),
            repeated("B", 100),
        ]
    );
}
