//! Whatever was prepared and however wrong the guess was: what is sealed is what the ordinary modes seal, by the crates
//! of the same family and by Project Wycheproof's vectors.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use aes::cipher::common::{BlockSizeUser, ParBlocksSizeUser};
use aes::cipher::consts::U1;
use aes::cipher::inout::InOut;
use aes::cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockModeEncrypt as _, KeyInit,
    KeyIvInit as _,
};
use aes::{Aes128, Aes256};
use aes_gcm::aead::AeadInOut as _;
use antedate::cbc::{self, Cbc};
use antedate::dtls::{self, ReadError, Reader, RecordNumbering};
use antedate::{
    CacheHit, Ccm, Expected, Gcm, Nonce, NotAuthentic, PrefixNumbering, SendError, Sender, Step, TagLength,
};
use ccm::consts::{U4, U8, U12, U13, U16};
use proptest::prelude::*;

/// AES that counts its blocks.
struct Counted<'c> {
    aes: Aes128,
    blocks: &'c Cell<usize>,
}

impl BlockSizeUser for Counted<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncrypt for Counted<'_> {
    fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = U16>) {
        self.aes.encrypt_with_backend(Counting { f, blocks: self.blocks });
    }
}

/// A closure's backend, each block of which is counted.
struct Counting<'c, F> {
    f: F,
    blocks: &'c Cell<usize>,
}

impl<F> BlockSizeUser for Counting<'_, F> {
    type BlockSize = U16;
}

impl<F: BlockCipherEncClosure<BlockSize = U16>> BlockCipherEncClosure for Counting<'_, F> {
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        self.f.call(&Counting { f: backend, blocks: self.blocks });
    }
}

impl<B> ParBlocksSizeUser for Counting<'_, &B> {
    type ParBlocksSize = U1;
}

impl<B: BlockCipherEncBackend<BlockSize = U16>> BlockCipherEncBackend for Counting<'_, &B> {
    fn encrypt_block(&self, block: InOut<'_, '_, Block<Self>>) {
        self.blocks.set(self.blocks.get() + 1);
        self.f.encrypt_block(block);
    }
}

type Ordinary<M, N> = ccm::Ccm<Aes128, M, N>;

/// The tag and the ciphertext of crate ccm.
fn ordinary(key: &[u8; 16], tag: usize, nonce: &[u8], aad: &[u8], data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    macro_rules! with {
        ($m:ty, $n:ty) => {{
            let mut sealed = data.to_vec();
            let ccm = Ordinary::<$m, $n>::new(key.into());
            let tag =
                ccm.encrypt_inout_detached(nonce.try_into().unwrap(), aad, sealed.as_mut_slice().into());
            (tag.unwrap().to_vec(), sealed)
        }};
    }
    match (tag, nonce.len()) {
        (4, 13) => with!(U4, U13),
        (8, 13) => with!(U8, U13),
        (16, 13) => with!(U16, U13),
        (4, 12) => with!(U4, U12),
        (8, 12) => with!(U8, U12),
        (16, 12) => with!(U16, U12),
        (4, 8) => with!(U4, U8),
        (8, 8) => with!(U8, U8),
        (16, 8) => with!(U16, U8),
        other => panic!("{other:?}"),
    }
}

/// CBC of whole blocks, by the ordinary crate.
fn ordinary_cbc<C>(key: &[u8], iv: &cbc::Iv, plain: &[u8]) -> Vec<u8>
where
    C: BlockCipherEncrypt<BlockSize = U16> + KeyInit,
{
    let mut mode = ::cbc::Encryptor::<C>::new_from_slices(key, iv).unwrap();
    let mut sealed = plain.to_vec();
    let (blocks, rest) = sealed.as_chunks_mut::<16>();
    assert!(rest.is_empty());
    blocks.iter_mut().for_each(|block| mode.encrypt_block(block.into()));
    sealed
}

#[test]
fn cbc_of_every_length_is_that_of_the_ordinary_crate() {
    let (key, iv) = ([9; 32], [5; 16]);
    let (of_128, of_256) =
        (Cbc::new(Aes128::new_from_slice(&key[..16]).unwrap()), Cbc::new(Aes256::new(&key.into())));
    let data: Vec<u8> = (0..300_u32).map(|octet| (octet * 7) as u8).collect();
    for length in 0..data.len() {
        let padding = 16 - length % 16;
        let plain = [&data[..length], &vec![padding as u8; padding]].concat();
        for known in [0, length / 2, length] {
            let (mut short, mut long) = (plain.clone(), plain.clone());
            let ready = cbc::Prepared::<6>::new(&of_128, &iv, &data[..known]).encrypt(&of_128, &mut short);
            assert_eq!(ready, Ok((known / 16).min(6) * 16), "{length}");
            assert_eq!(short, ordinary_cbc::<Aes128>(&key[..16], &iv, &plain), "{length}, {known} known");
            cbc::Prepared::<6>::new(&of_256, &iv, &data[..known]).encrypt(&of_256, &mut long).unwrap();
            assert_eq!(long, ordinary_cbc::<Aes256>(&key, &iv, &plain), "{length}, {known} known");
            of_128.decrypt(&iv, &mut short).unwrap();
            of_256.decrypt(&iv, &mut long).unwrap();
            assert_eq!((&short, &long), (&plain, &plain), "{length}");
        }
    }
}

#[test]
fn a_cbc_message_takes_the_blocks_behind_its_template_alone() {
    let blocks = Cell::new(0);
    let cbc = Cbc::new(Counted { aes: Aes128::new(&[9; 16].into()), blocks: &blocks });
    let prepared = cbc::Prepared::<6>::new(&cbc, &[5; 16], &[1; 100]);
    assert_eq!(blocks.take(), 6);
    assert_eq!(prepared.encrypt(&cbc, &mut [1; 128]), Ok(96));
    assert_eq!(blocks.take(), 2);
}

proptest! {
    #[test]
    fn ccm_is_crate_ccm(
        key: [u8; 16],
        (tag, nonce_octets) in (prop::sample::select(vec![4_usize, 8, 16]), prop::sample::select(vec![8_usize, 12, 13])),
        nonce: [u8; 13],
        aad in prop::collection::vec(any::<u8>(), 0..40),
        data in prop::collection::vec(any::<u8>(), 0..200),
        // The guess: right, or wrong in length, keystream, AAD or template.
        length in prop::option::of(0_usize..200),
        at_most in prop::option::of(0_usize..250),
        other_aad in any::<bool>(),
        known in 0_usize..120,
        spoiled in prop::option::of(0_usize..120),
    ) {
        let ccm = Ccm::new(Aes128::new(&key.into()), TagLength::new(tag).unwrap());
        let nonce = Nonce::new(&nonce[..nonce_octets]).unwrap();
        let (expected_tag, expected) = ordinary(&key, tag, nonce.octets(), &aad, &data);
        let mut template = data[..known.min(data.len())].to_vec();
        let spoiled = spoiled.filter(|at| *at < template.len());
        if let Some(at) = spoiled { template[at] ^= 1; }
        let mut guessed_aad = aad.clone();
        if other_aad && !aad.is_empty() { guessed_aad[0] ^= 1; }
        let guess = Expected { length: length.unwrap_or(data.len()), at_most: at_most.unwrap_or(data.len()) };

        let mut sealed = data.clone();
        let prepared = ccm.prepare::<160, 96>(&nonce, &guessed_aad, guess, &template);
        let outcome = prepared.seal(&aad, &mut sealed);
        prop_assert_eq!(&sealed, &expected);
        prop_assert_eq!(outcome.tag.octets(), &expected_tag[..]);
        if length.is_none() && guessed_aad == aad && aad.len() <= 32 && spoiled.is_none() {
            prop_assert_eq!(outcome.hit, CacheHit::Full);
        }
        if length.is_some_and(|length| length != data.len()) || guessed_aad != aad {
            prop_assert_eq!(outcome.hit, CacheHit::KeystreamOnly);
        }

        let mut plain = data.clone();
        let plain_tag = ccm.seal(&nonce, &aad, &mut plain);
        prop_assert_eq!(plain_tag.octets(), &expected_tag[..]);
        prop_assert_eq!(&plain, &expected);

        // And back: ordinary, prepared, and forged.
        let mut opened = expected.clone();
        prop_assert_eq!(ccm.open(&nonce, &aad, &mut opened, &expected_tag), Ok(()));
        prop_assert_eq!(&opened, &data);
        let prepare = || ccm.prepare::<160, 96>(&nonce, &guessed_aad, guess, &template);
        let mut opened = expected.clone();
        prop_assert!(prepare().open(&aad, &mut opened, &expected_tag).is_ok());
        prop_assert_eq!(&opened, &data);
        let mut forged = expected_tag;
        forged[tag - 1] ^= 1;
        let mut opened = expected.clone();
        prop_assert_eq!(prepare().open(&aad, &mut opened, &forged), Err(NotAuthentic));
        prop_assert!(opened.iter().all(|&octet| octet == 0));
        prop_assert_eq!(prepare().open(&aad, &mut expected.clone(), &forged[..tag - 1]), Err(NotAuthentic));
    }

    /// Messages that are sent whenever it is time, and prepared in steps whenever there is time.
    #[test]
    fn steps_take_no_longer_than_they_may_and_change_nothing(
        lengths in prop::collection::vec(0_usize..120, 1..12),
        steps in prop::collection::vec((0_usize..12, 0_usize..6), 12),
        guess in prop::option::of(0_usize..120),
        known in 0_usize..120,
    ) {
        let counter = Cell::new(0);
        let ccm = Ccm::new(Counted { aes: Aes128::new(&[7; 16].into()), blocks: &counter }, TagLength::EIGHT);
        let mut sender = Sender::<_, _, 96, 32, 2>::new(&ccm, PrefixNumbering::new(*b"station-1"), 5);
        let octets: Vec<u8> = (0..120).collect();
        for (number, (length, (times, blocks))) in (5_u32..).zip(lengths.into_iter().zip(steps)) {
            let mut last = Step::Prepared;
            let expected = Expected::exactly(guess.unwrap_or(length));
            for _ in 0..times {
                let before = counter.get();
                let begins = last == Step::Prepared;
                last = sender.step(expected, &octets[..known], blocks);
                // The mask and B_0 come at the first step, and there is no AAD.
                let most = blocks + if begins { 2 } else { 0 };
                prop_assert!(counter.get() - before <= most, "{:?}", last);
                prop_assert!(blocks == 0 || last != Step::More || counter.get() > before);
            }
            let prepared = sender.fill_level();
            let mut sealed = octets[..length].to_vec();
            let sent = sender.send(&mut sealed).unwrap();
            let nonce = [&b"station-1"[..], &number.to_be_bytes()].concat();
            prop_assert_eq!(sent.number, u64::from(number));
            prop_assert_eq!((sent.tag.octets().to_vec(), sealed), ordinary(&[7; 16], 8, &nonce, &[], &octets[..length]));
            if guess.is_none() && prepared == 1 && times > 0 && last == Step::Prepared && number == 5 {
                prop_assert_eq!(sent.hit, CacheHit::Full);
            }
        }
    }

    #[test]
    fn gcm_is_crate_aes_gcm(
        key: [u8; 32],
        nonce: [u8; 12],
        aad in prop::collection::vec(any::<u8>(), 0..40),
        data in prop::collection::vec(any::<u8>(), 0..200),
        octets in 0_usize..250,
        known in 0_usize..40,
        spoiled in prop::option::of(0_usize..40),
    ) {
        let gcm = Gcm::new(Aes256::new(&key.into()));
        let mut expected = data.clone();
        let expected_tag = aes_gcm::Aes256Gcm::new(&key.into())
            .encrypt_inout_detached(&nonce.into(), &aad, expected.as_mut_slice().into())
            .unwrap();
        let mut constant = aad[..known.min(aad.len())].to_vec();
        if let Some(at) = spoiled.filter(|at| *at < constant.len()) { constant[at] ^= 1; }

        let mut sealed = data.clone();
        prop_assert_eq!(&gcm.seal(&nonce, &aad, &mut sealed)[..], &expected_tag[..]);
        prop_assert_eq!(&sealed, &expected);
        let mut sealed = data.clone();
        let (tag, met) = gcm.prepare::<160>(&nonce, &constant, octets).seal(&aad, &mut sealed);
        prop_assert_eq!(&tag[..], &expected_tag[..]);
        prop_assert_eq!(&sealed, &expected);
        let hashed = constant.len().min(32) / 16 * 16;
        prop_assert_eq!(met == CacheHit::Full, constant[..hashed] == aad[..hashed]);

        let mut opened = expected.clone();
        prop_assert!(gcm.prepare::<160>(&nonce, &constant, octets).open(&aad, &mut opened, &tag).is_ok());
        prop_assert_eq!(&opened, &data);
        let mut opened = expected.clone();
        prop_assert_eq!(gcm.open(&nonce, &aad, &mut opened, &tag), Ok(()));
        prop_assert_eq!(&opened, &data);
        let mut forged = tag;
        forged[0] ^= 0x80;
        prop_assert_eq!(gcm.open(&nonce, &aad, &mut expected.clone(), &forged), Err(NotAuthentic));
        prop_assert!(gcm.prepare::<160>(&nonce, &constant, octets).open(&aad, &mut expected, &forged).is_err());
    }
}

#[test]
fn each_message_has_a_number_of_its_own_whatever_was_prepared() {
    let ccm = Ccm::new(Aes128::new(&[7; 16].into()), TagLength::EIGHT);
    let mut sender = Sender::<_, _, 64, 32, 3>::new(&ccm, PrefixNumbering::new(*b"station-1"), 5);
    let expected = |number: u32, data: &[u8]| {
        let mut nonce = b"station-1".to_vec();
        nonce.extend(number.to_be_bytes());
        ordinary(&[7; 16], 8, &nonce, &[], data)
    };
    assert!(!sender.prepare_as_before(b""), "nothing is known yet");
    let mut met = Vec::new();
    for number in 5..25_u32 {
        let data = vec![number as u8; 10 + (number as usize % 3) * 20];
        let mut sealed = data.clone();
        let sent = sender.send(&mut sealed).unwrap();
        assert_eq!(
            (sent.number, (sent.tag.octets().to_vec(), sealed)),
            (number.into(), expected(number, &data))
        );
        met.push(sent.hit);
        // Sometimes there is time to prepare for all, sometimes for none.
        let before = sender.fill_level();
        while number % 5 != 0 && sender.prepare_as_before(b"") {}
        assert_eq!(sender.fill_level(), if number % 5 == 0 { before } else { 3 });
    }
    // Once the lengths are known to repeat, every guess is right; and what had no time is sealed all the same.
    assert_eq!(met[0], CacheHit::Miss);
    assert!(met[12..].iter().all(|met| *met == CacheHit::Full), "{met:?}");
}

#[test]
fn numbers_end() {
    let ccm = Ccm::new(Aes128::new(&[7; 16].into()), TagLength::EIGHT);
    let mut sender =
        Sender::<_, _, 16, 0, 4>::new(&ccm, PrefixNumbering::new([0; 9]), u64::from(u32::MAX) - 1);
    assert!(sender.prepare(Expected::exactly(3), b"") && sender.prepare(Expected::exactly(3), b""));
    assert!(!sender.prepare(Expected::exactly(3), b""), "there is no third number");
    assert_eq!(sender.send(&mut vec![0; 1 << 16]).unwrap_err(), SendError::TooLong);
    assert_eq!(sender.send(&mut [1, 2, 3]).unwrap().hit, CacheHit::Full);
    assert_eq!(sender.send(&mut [1, 2, 3]).unwrap().number, u64::from(u32::MAX));
    assert_eq!(sender.send(&mut [1, 2, 3]).unwrap_err(), SendError::Exhausted);
    assert_eq!(
        Sender::<_, _, 16, 0, 4>::new(&ccm, PrefixNumbering::new([0; 9]), 1 << 32).next_number(),
        None
    );
}

#[test]
fn a_record_of_dtls_is_one() {
    let (key, records) =
        ([9; 16], RecordNumbering { salt: [1, 2, 3, 4], epoch: 1, kind: dtls::APPLICATION_DATA });
    let ccm = Ccm::new(Aes128::new(&key.into()), TagLength::EIGHT);
    let mut sender = Sender::<_, _, 64, 32, 2>::new(&ccm, records, 0x0102_0304_0506);
    assert!(sender.prepare(Expected::exactly(20), b"temperature: "));
    let data = b"temperature: 21.5 C.";
    for met in [CacheHit::Full, CacheHit::Miss] {
        let number = sender.next_number().unwrap();
        let mut buffer = [0; 64];
        buffer[dtls::HEADER_OCTETS..][..20].copy_from_slice(data);
        let written = dtls::write(&mut sender, &mut buffer, 20).unwrap();
        assert_eq!((written.number, written.hit, written.octets), (number, met, 21 + 20 + 8));
        let explicit = ((1_u64 << 48) | number).to_be_bytes();
        let mut aad = explicit.to_vec();
        aad.extend([23, 0xfe, 0xfd, 0, 20]);
        let nonce = [&[1, 2, 3, 4][..], &explicit].concat();
        let (tag, sealed) = ordinary(&key, 8, &nonce, &aad, data);
        let header = [&[23, 0xfe, 0xfd][..], &explicit, &[0, 36], &explicit].concat();
        assert_eq!(buffer[..written.octets], [header, sealed, tag].concat());
    }
    assert_eq!(dtls::write(&mut sender, &mut [0; 48], 20), Err(dtls::RecordError::Room));
    assert_eq!(dtls::write(&mut sender, &mut vec![0; 20_000], 16_385), Err(dtls::RecordError::Room));
}

#[test]
fn a_record_is_read_once_and_nothing_else_is() {
    let numbering = RecordNumbering { salt: [1, 2, 3, 4], epoch: 7, kind: dtls::APPLICATION_DATA };
    let ccm = Ccm::new(Aes128::new(&[9; 16].into()), TagLength::EIGHT);
    let mut sender = Sender::<_, _, 64, 32, 2>::new(&ccm, numbering, 0);
    let mut reader = Reader::new([1, 2, 3, 4], 7, 0);
    let mut records = Vec::new();
    for length in [0_usize, 20, 1].into_iter().chain([5; 100]) {
        let mut buffer = vec![length as u8; dtls::HEADER_OCTETS + length + 8];
        dtls::write(&mut sender, &mut buffer, length).unwrap();
        records.push(buffer);
    }
    let mut read = |record: &[u8]| {
        let mut record = record.to_vec();
        reader.read(&ccm, &mut record).map(|read| (read.kind, read.number, read.data.to_vec()))
    };
    assert_eq!(read(&records[1]), Ok((23, 1, vec![20; 20])));
    assert_eq!(read(&records[0]), Ok((23, 0, vec![])));
    for record in &records[..2] {
        assert_eq!(read(record), Err(ReadError::Replayed));
    }
    // Each octet: the version and the length make it malformed, the epoch is another one, the rest is forged.
    for at in 0..records[2].len() {
        let mut changed = records[2].clone();
        changed[at] ^= 1;
        let wanted = match at {
            1 | 2 | 11 | 12 => ReadError::Malformed,
            3 | 4 => ReadError::Epoch,
            // Number 3 instead of 2 is a new one; the nonce is the sender's choice, but not this key's.
            _ => ReadError::NotAuthentic,
        };
        assert_eq!(read(&changed), Err(wanted), "octet {at}");
    }
    for octets in 0..records[2].len() {
        assert_eq!(read(&records[2][..octets]), Err(ReadError::Malformed));
        assert_eq!(dtls::record_octets(&records[2][..octets]), None);
    }
    assert_eq!(dtls::record_octets(&[&records[2][..], &records[3]].concat()), Some(records[2].len()));
    // A forged message moves no window.
    assert_eq!(read(&records[102]), Ok((23, 102, vec![5; 5])));
    assert_eq!(read(&records[39]), Ok((23, 39, vec![5; 5])), "64 numbers back");
    assert_eq!(read(&records[38]), Err(ReadError::Replayed), "older than the window");
}
