//! Keys leave nothing behind in memory: this process looks through its own for each key that it has let go of.
//!
//! Keys are made by the program, in processes of their own, and read here as a gateway reads them. They are moved and
//! cloned as configurations and SAs are, and used.
#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;

use config::key_file;
use suite::mka::Cak;
use suite::{CipherSuite, Key, Nonce, OpenJob, Sak, SealJob};
use testkit::memory::Needle;
use wire::fieldbus::{CellSuite, FrameId, HandshakeNonce, Protect, Protection};
use wire::{Ckn, MacAddr, Mi};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("frameward-secrets-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A key file made by the program, and its first octets to look for.
    fn keygen(&self, words: &[&str], name: &str, octets: usize) -> (PathBuf, Needle) {
        let path = self.0.join(name);
        let keygen = Command::new(env!("CARGO_BIN_EXE_frameward"))
            .arg("keygen")
            .args(words)
            .arg("--out")
            .arg(&path)
            .output()
            .unwrap();
        assert!(keygen.status.success(), "{keygen:?}");
        let needle = Needle::of_key_file(&path, octets).unwrap();
        (path, needle)
    }
}

/// Sees that a secret is in memory while `made` is there, and nowhere once it is gone; neither are its digits.
#[track_caller]
fn leaves_nothing<T>(needle: &Needle, make: impl FnOnce() -> T) {
    let nowhere = Vec::<String>::new();
    assert_eq!(needle.places("self").unwrap(), nowhere, "before it was read");
    // As deep as a gateway does it, and in other places than what follows.
    let made = Box::new(make());
    let there = needle.places("self").unwrap();
    assert!(!there.is_empty(), "it is not found where it is, so the test would see nothing");
    drop(black_box(made));
    assert_eq!(needle.places("self").unwrap(), nowhere, "of {} places", there.len());
    assert_eq!(needle.digits().places("self").unwrap(), Vec::<String>::new(), "its digits");
}

/// Moves as collections that grow do.
fn moved<T>(value: T) -> Vec<Option<T>> {
    let mut kept = vec![Some(value)];
    for more in 0..20 {
        kept.reserve_exact(more * 64);
        let own = kept[0].take();
        kept.insert(0, black_box(own));
    }
    kept
}

fn exchange(key: &Key) {
    let (mut text, mut icv, mut authentic) = ([7; 64], [0; 16], false);
    let nonce = || Nonce::from_octets([9; 12]);
    key.seal_each(std::iter::once(SealJob { nonce: nonce(), aad: b"aad", text: &mut text, icv: &mut icv }));
    let job = OpenJob { nonce: nonce(), aad: b"aad", text: &mut text, icv: &icv, authentic: &mut authentic };
    key.open_each(std::iter::once(job));
    assert!(authentic);
}

#[test]
fn a_sak_and_the_ciphers_that_were_prepared_with_it_leave_nothing() {
    let directory = Directory::new("sak");
    for suite in CipherSuite::ALL {
        let octets = suite.key_octets();
        let bits = (8 * octets).to_string();
        let (path, needle) = directory.keygen(&["static", "--bits", &bits], &format!("{suite}.key"), octets);
        let read = |path: &Path| key_file::read(path, suite).unwrap();
        leaves_nothing(&needle, || moved(read(&path)));
        leaves_nothing(&needle, || {
            let sak: Sak = read(&path);
            assert_eq!(key_file::fingerprint(sak.octets()).len(), 16);
            let (plain, antedated) =
                (Key::prepare(suite, &sak).unwrap(), Key::prepare_antedated(suite, &sak).unwrap());
            exchange(&plain);
            exchange(&antedated);
            // As workers do when a key goes.
            suite::scrub_stack();
            (sak.clone(), moved(sak), moved(plain), moved(antedated))
        });
    }
}

#[test]
fn a_cak_and_what_is_derived_from_it_leave_nothing() {
    let directory = Directory::new("cak");
    for bits in [128, 256] {
        let (path, needle) =
            directory.keygen(&["cak", "--bits", &bits.to_string()], &format!("{bits}.cak"), bits / 8);
        leaves_nothing(&needle, || {
            let named = key_file::read_cak(&path).unwrap();
            assert!(named.has_same_key(&named.clone()));
            let cak = Cak::new(named.octets()).unwrap();
            let ckn = Ckn::new(b"line").unwrap();
            let (ick, kek) = (cak.ick(&ckn), cak.kek(&ckn));
            assert!(ick.verifies(b"said", &ick.icv(b"said")));
            let sak = cak.sak(CipherSuite::GcmAes128, &[3; 16], &[Mi([1; 12])], 1);
            let (wrapped, length) = kek.wrap(&sak);
            assert_eq!(kek.unwrap(CipherSuite::GcmAes128, &wrapped[..length]).unwrap(), sak);
            (moved(named), moved(cak.clone()), cak, ick, kek)
        });
    }
}

#[test]
fn a_master_key_and_what_is_derived_from_it_leave_nothing() {
    let directory = Directory::new("cell");
    let (path, needle) = directory.keygen(&["fieldbus"], "cell.key", 32);
    leaves_nothing(&needle, || {
        let cell = key_file::read_master_key(&path).unwrap();
        let master = cell.master_key();
        let stations =
            [(MacAddr([2, 0, 0, 0, 0, 1]), FrameId(0x8000)), (MacAddr([2, 0, 0, 0, 0, 2]), FrameId(0x8001))];
        let hello = master.hello_key(&stations);
        let direction = master.direction_key(&suite::fieldbus::KeyContext {
            stations,
            from_higher: false,
            nonces: [HandshakeNonce([1; 16]), HandshakeNonce([2; 16])],
            protection: Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 },
            epoch: 0,
        });
        (cell.as_cak(), cell.clone(), moved(cell), moved(master), hello, direction)
    });
}

#[test]
fn a_sites_identity_leaves_nothing() {
    let directory = Directory::new("site");
    let (path, needle) = directory.keygen(&["site"], "site.key", 32);
    leaves_nothing(&needle, || {
        let identity = key_file::read_identity(&path).unwrap();
        let recognition = identity.recognition_key();
        drop(identity.pkcs8());
        (identity.clone(), moved(identity), recognition)
    });
}
