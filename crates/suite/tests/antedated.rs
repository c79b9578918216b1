//! Antedated GCM is ordinary GCM, bit by bit, whatever was prepared; a keystream is used up by the frame that was
//! authentic, and by no other.

use std::iter;

use proptest::prelude::*;
use suite::antedated::{AAD_OCTETS, CacheHit, Keystream, KeystreamBuffer, Scratch};
use suite::{CipherSuite, ICV_OCTETS, Key, Nonce, OpenJob, Sak, SealJob};

const GCM: [CipherSuite; 4] =
    [CipherSuite::GcmAes128, CipherSuite::GcmAes256, CipherSuite::GcmAesXpn128, CipherSuite::GcmAesXpn256];
const NONCE: Nonce = Nonce::from_octets(*b"nonce of 12.");

fn sak(suite: CipherSuite, seed: u8) -> Sak {
    let octets: Vec<u8> = (0..suite.key_octets() as u8).map(|octet| octet ^ seed).collect();
    Sak::new(suite, &octets).expect("its length")
}

/// Text and ICV as every receiver knows them.
fn ordinary(
    suite: CipherSuite,
    seed: u8,
    nonce: Nonce,
    aad: &[u8],
    text: &[u8],
) -> (Vec<u8>, [u8; ICV_OCTETS]) {
    let key = Key::prepare(suite, &sak(suite, seed)).expect("its suite");
    let (mut text, mut icv) = (text.to_vec(), [0; ICV_OCTETS]);
    key.seal_each(iter::once(SealJob { nonce, aad, text: &mut text, icv: &mut icv }));
    (text, icv)
}

/// Share of a frame that a preparation of so many octets covers.
fn expected(prepared: usize, aad: usize, text: usize) -> CacheHit {
    let ready = prepared.min(Keystream::LONGEST).next_multiple_of(16);
    match () {
        () if aad > AAD_OCTETS || text > Keystream::LONGEST => CacheHit::Miss,
        () if text <= ready => CacheHit::Full,
        () if ready == 0 => CacheHit::Miss,
        () => CacheHit::Partial,
    }
}

#[test]
fn the_suites_of_gcm_alone_are_antedated() {
    for suite in CipherSuite::ALL {
        let key = Key::prepare_antedated(suite, &sak(suite, 0)).unwrap();
        assert_eq!(key.antedater().is_some(), GCM.contains(&suite), "{suite}");
        assert!(Key::prepare(suite, &sak(suite, 0)).unwrap().antedater().is_none());
        // Without anything prepared such a key is one like another.
        let (mut text, mut icv) = ([7; 100], [0; ICV_OCTETS]);
        key.seal_each(iter::once(SealJob { nonce: NONCE, aad: b"aad", text: &mut text, icv: &mut icv }));
        assert_eq!((text.to_vec(), icv), ordinary(suite, 0, NONCE, b"aad", &[7; 100]), "{suite}");
    }
}

#[test]
fn a_forged_frame_leaves_the_keystream_to_the_true_one() {
    for suite in GCM {
        let key = Key::prepare_antedated(suite, &sak(suite, 1)).unwrap();
        let (antedater, mut scratch) = (key.antedater().unwrap(), Scratch::new());
        let (sealed, icv) = ordinary(suite, 1, NONCE, b"aad", &[7; 100]);
        let mut keystream = antedater.prepare(KeystreamBuffer::new(), NONCE, 100);
        for flip in 0..3 {
            let (mut text, mut icv, mut aad) = (sealed.clone(), icv, *b"aad");
            *[&mut text[99], &mut icv[15], &mut aad[0]][flip] ^= 0x10;
            let mut authentic = true;
            let job =
                OpenJob { nonce: NONCE, aad: &aad, text: &mut text, icv: &icv, authentic: &mut authentic };
            keystream = antedater.open(keystream, job, &mut scratch).expect_err("forged");
            assert!(!authentic && text == [0; 100]);
        }
        let (mut text, mut authentic) = (sealed, false);
        let job =
            OpenJob { nonce: NONCE, aad: b"aad", text: &mut text, icv: &icv, authentic: &mut authentic };
        let (_, hit) = antedater.open(keystream, job, &mut scratch).expect("true");
        assert!(authentic && text == [7; 100] && hit == CacheHit::Full);
    }
}

#[test]
fn a_keystream_for_another_nonce_is_let_go() {
    let suite = CipherSuite::GcmAes128;
    let key = Key::prepare_antedated(suite, &sak(suite, 2)).unwrap();
    let (antedater, mut scratch) = (key.antedater().unwrap(), Scratch::new());
    let other = Nonce::from_octets(*b"another one.");
    let (mut text, mut icv) = ([7; 100], [0; ICV_OCTETS]);
    let job = SealJob { nonce: NONCE, aad: b"aad", text: &mut text, icv: &mut icv };
    let (_, hit) = antedater.seal(antedater.prepare(KeystreamBuffer::new(), other, 100), job, &mut scratch);
    assert_eq!((text.to_vec(), icv, hit), {
        let (text, icv) = ordinary(suite, 2, NONCE, b"aad", &[7; 100]);
        (text, icv, CacheHit::Miss)
    });
    let (mut authentic, keystream) = (false, antedater.prepare(KeystreamBuffer::new(), other, 100));
    let job = OpenJob { nonce: NONCE, aad: b"aad", text: &mut text, icv: &icv, authentic: &mut authentic };
    let (_, hit) = antedater.open(keystream, job, &mut scratch).expect("authentic");
    assert!(authentic && text == [7; 100] && hit == CacheHit::Miss);
}

#[test]
fn nothing_secret_is_shown() {
    let suite = CipherSuite::GcmAes128;
    let key = Key::prepare_antedated(suite, &sak(suite, 3)).unwrap();
    let antedater = key.antedater().unwrap();
    let keystream = antedater.prepare(KeystreamBuffer::new(), NONCE, 100);
    assert_eq!(
        format!("{antedater:?} {keystream:?} {key:?}"),
        "Antedater Keystream(112 octets) Key(gcm-aes-128)"
    );
    assert_eq!((keystream.ready(), *keystream.nonce()), (112, NONCE));
    assert_eq!(antedater.prepare(keystream.discard(), NONCE, 0).ready(), 0);
}

fn octets(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), length)
}

proptest! {
    #[test]
    fn whatever_was_prepared_the_frame_is_the_same(
        suite in proptest::sample::select(&GCM[..]),
        seed: u8,
        nonces: [[u8; 12]; 3],
        aad in octets(0..AAD_OCTETS + 20),
        text in prop_oneof![octets(0..200), octets(1400..1600)],
        prepared in prop_oneof![0..200_usize, 1400..2000_usize],
    ) {
        let key = Key::prepare_antedated(suite, &sak(suite, seed)).unwrap();
        let (antedater, mut scratch, mut blank) = (key.antedater().unwrap(), Scratch::new(), KeystreamBuffer::new());
        let hit = expected(prepared, aad.len(), text.len());
        // One memory for all: what one frame leaves does not reach the next.
        for nonce in nonces.map(Nonce::from_octets) {
            let keystream = antedater.prepare(blank, nonce, prepared);
            let (mut sealed, mut icv) = (text.clone(), [0; ICV_OCTETS]);
            let job = SealJob { nonce, aad: &aad, text: &mut sealed, icv: &mut icv };
            let (left, met_sealing) = antedater.seal(keystream, job, &mut scratch);
            prop_assert_eq!((sealed.clone(), icv), ordinary(suite, seed, nonce, &aad, &text));
            let keystream = antedater.prepare(left, nonce, prepared);
            let mut authentic = false;
            let job =
                OpenJob { nonce, aad: &aad, text: &mut sealed, icv: &icv, authentic: &mut authentic };
            let (left, met_opening) = antedater.open(keystream, job, &mut scratch).expect("authentic");
            prop_assert!(authentic && sealed == text);
            prop_assert_eq!([met_sealing, met_opening], [hit, hit]);
            blank = left;
        }
    }
}
