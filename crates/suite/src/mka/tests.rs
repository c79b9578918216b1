//! Vectors of NIST and of RFCs, and keys of wpa_supplicant.

extern crate std;
use super::*;
use std::format;
use std::string::String;
use wire::Mi;

fn octets(hexadecimal: &str) -> Vec<u8> {
    hex::decode(hexadecimal.replace(' ', "")).expect("hexadecimal")
}

fn secret(hexadecimal: &str) -> Secret {
    Cak::new(&octets(hexadecimal)).expect("16 or 32 octets").0
}

const MESSAGE: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                       30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

/// RFC 4493 section 4 (AES-128), NIST SP 800-38B appendix D.3 (AES-256): key, octets of the message, CMAC.
const CMACS: [(&str, usize, &str); 8] = [
    ("2b7e151628aed2a6abf7158809cf4f3c", 0, "bb1d6929e95937287fa37d129b756746"),
    ("2b7e151628aed2a6abf7158809cf4f3c", 16, "070a16b46b4d4144f79bdd9dd04a287c"),
    ("2b7e151628aed2a6abf7158809cf4f3c", 40, "dfa66747de9ae63030ca32611497c827"),
    ("2b7e151628aed2a6abf7158809cf4f3c", 64, "51f0bebf7e3b9d92fc49741779363cfe"),
    (KEY_256, 0, "028962f61b7bf89efc6b551f4667d983"),
    (KEY_256, 16, "28a7023f452e8f82bd4bf28d8c37c35c"),
    (KEY_256, 40, "aaf3d8f1de5640c232f5b169b9c911e6"),
    (KEY_256, 64, "e1992190549f6ed5696a2c056c315410"),
];
const KEY_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";

#[test]
fn the_icv_is_an_aes_cmac() {
    for (key, length, expected) in CMACS {
        let (ick, message) = (Ick(prf(&secret(key))), octets(MESSAGE));
        let mut icv = ick.icv(&message[..length]);
        assert_eq!(hex::encode(icv), expected);
        assert!(ick.verifies(&message[..length], &icv));
        for bit in 0..128 {
            icv[bit / 8] ^= 1 << (bit % 8);
            assert!(!ick.verifies(&message[..length], &icv));
            icv[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// RFC 3394 sections 4.1, 4.3 and 4.6: KEK, key, wrapped key.
const WRAPS: [(&str, &str, &str); 3] = [
    (
        "000102030405060708090a0b0c0d0e0f",
        "00112233445566778899aabbccddeeff",
        "1fa68b0a8112b447 aef34bd8fb5a7b82 9d3e862371d2cfe5",
    ),
    (
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "00112233445566778899aabbccddeeff",
        "64e8c3f9ce0f5ba2 63e9777905818a2a 93c8191e7d6e8ae7",
    ),
    (
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f",
        "28c9f404c4b810f4 cbccb35cfb87f826 3f5786e2d80ed326 cbc7f0e71a99f43b fb988b9b7a02dd21",
    ),
];

#[test]
fn keys_are_wrapped_as_rfc_3394_does() {
    for (kek, key, expected) in WRAPS {
        let (kek, key, expected) = (Kek(secret(kek)), octets(key), octets(expected));
        let suite = if key.len() == 16 { CipherSuite::GcmAes128 } else { CipherSuite::GcmAes256 };
        let sak = Sak::new(suite, &key).expect("as long as the suite wants it");
        let (wrapped, length) = kek.wrap(&sak);
        assert_eq!(wrapped[..length], expected);
        assert_eq!(kek.unwrap(suite, &expected), Ok(sak));
        for bit in 0..expected.len() * 8 {
            let mut touched = expected.clone();
            touched[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(kek.unwrap(suite, &touched), Err(UnwrapError), "bit {bit}");
        }
    }
}

#[test]
fn what_is_wrapped_is_as_long_as_the_suite_wants_it() {
    let kek = Kek(secret("000102030405060708090a0b0c0d0e0f"));
    for made in CipherSuite::ALL {
        let sak = Sak::new(made, &[3; LONGEST][..made.key_octets()]).expect("as long as it wants");
        let (wrapped, length) = kek.wrap(&sak);
        for suite in CipherSuite::ALL {
            let same = suite.key_octets() == made.key_octets();
            assert_eq!(kek.unwrap(suite, &wrapped[..length]).is_ok(), same, "{made} as {suite}");
        }
        for short in 0..length {
            assert_eq!(kek.unwrap(made, &wrapped[..short]), Err(UnwrapError));
        }
    }
}

#[test]
fn ick_and_kek_are_those_of_wpa_supplicant() {
    let mut lengths = std::collections::BTreeSet::new();
    for case in testkit::mka::mka_cases() {
        for (name, participant) in &case.participants {
            let cak = Cak::new(&participant.cak).expect("a CAK");
            let ckn = Ckn::new(&participant.ckn).expect("a CKN");
            assert_eq!(cak.derived("IEEE8021 ICK", &ckn).octets(), participant.ick, "{} {name}", case.name);
            assert_eq!(cak.derived("IEEE8021 KEK", &ckn).octets(), participant.kek, "{} {name}", case.name);
            lengths.insert((cak.length(), participant.ckn.len()));
        }
    }
    assert_eq!(lengths, [(16, 1), (16, 4), (16, 32), (32, 32)].into());
}

/// Computed by another program (Python's `cryptography`, CMAC) from the formula of clause 6.2.1, written a second
/// time: CAK, suite, SAK of the nonce 0x40, 0x41, ... as long as the SAK, MIs of twelve 0x01 and twelve 0x02, and KN 7.
const SAKS: [(&str, CipherSuite, &str); 4] = [
    ("000102030405060708090a0b0c0d0e0f", CipherSuite::GcmAes128, "2aa3665714efccbd9ed6fa605326dc71"),
    (
        "000102030405060708090a0b0c0d0e0f",
        CipherSuite::GcmAesXpn256,
        "569c3f8f01458e40a76602980cb7cbd3c9768e0efdedeba7cca980be283ce3b8",
    ),
    (KEY_256, CipherSuite::GcmAes128, "7a778f57563ef351e866a1c37c4e872e"),
    (
        KEY_256,
        CipherSuite::ChaCha20Poly1305,
        "b29bae7ace7729cb822a5fa1bcb7ee6fd8c1196164f4e08d0952f128076df6ee",
    ),
];

#[test]
fn saks_are_derived_by_the_kdf_of_clause_6_2_1() {
    for (cak, suite, expected) in SAKS {
        let nonce: Vec<u8> = (0x40..).take(suite.key_octets()).collect();
        let sak = |members: &[Mi], kn| Cak(secret(cak)).sak(suite, &nonce, members, kn);
        let members = [Mi([1; 12]), Mi([2; 12])];
        let derived = sak(&members, 7);
        assert_eq!(hex::encode(derived.octets()), expected);
        assert_ne!(sak(&members, 8), derived);
        assert_ne!(sak(&members[..1], 7), derived);
    }
}

#[test]
fn a_seed_draws_the_same_again_and_never_twice_the_same() {
    let drawn = |seed: u8, lengths: &[usize]| {
        let mut draw = Drbg::new(&[seed; 32]);
        let fill = |length: &usize| {
            let mut octets = std::vec![0; *length];
            draw.fill(&mut octets);
            octets
        };
        lengths.iter().map(fill).collect::<Vec<_>>()
    };
    assert_eq!(drawn(1, &[12, 32, 100]), drawn(1, &[12, 32, 100]));
    assert_ne!(drawn(1, &[32]), drawn(2, &[32]));
    let all = drawn(3, &[12; 1000]);
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 1000);
    let long = &drawn(4, &[160])[0];
    assert_eq!(long.chunks(16).collect::<std::collections::BTreeSet<_>>().len(), 10);
}

/// Table of (MI, KN, salt), made by hand from the sentence in IEEE 802.1AE-2018 clause 10.7.8.
#[test]
fn the_salt_is_the_key_servers_mi_and_the_kn() {
    for (mi, kn, expected) in [
        ("000000000000000000000000", 0x0102_0304, "030401020000000000000000"),
        ("a1a2a3a4a5a6a7a8a9aaabac", 0, "a1a2a3a4a5a6a7a8a9aaabac"),
        ("ffff0000a5a6a7a8a9aaabac", 1, "fffe0000a5a6a7a8a9aaabac"),
        ("00000f0fa5a6a7a8a9aaabac", 0xffff_0000, "0000f0f0a5a6a7a8a9aaabac"),
    ] {
        let server = Mi(octets(mi).try_into().expect("twelve octets"));
        assert_eq!(salt(&Ki { server, kn }), Salt(octets(expected).try_into().expect("twelve octets")));
    }
}

#[test]
fn a_cak_has_16_or_32_octets_and_is_equal_only_if_every_octet_is() {
    for length in 0..=64 {
        let cak = Cak::new(&[5; 64][..length]);
        assert_eq!(cak.err(), (!matches!(length, 16 | 32)).then_some(WrongCakLength(length)));
    }
    let cak = |octets: &[u8]| Cak::new(octets).expect("16 or 32");
    assert_eq!(cak(&[5; 16]), cak(&[5; 16]));
    assert_ne!(cak(&[5; 16]), cak(&[5; 32]));
    for i in 0..32 {
        let mut other = [5; 32];
        other[i] = 4;
        assert_ne!(cak(&[5; 32]), cak(&other));
    }
}

#[test]
fn secrets_are_not_shown() {
    let (cak, ckn) = (Cak::new(&[0xab; 16]).expect("16 octets"), Ckn::new(b"name").expect("4 octets"));
    let text: String =
        format!("{cak:?} {:?} {:?} {:?}", cak.ick(&ckn), cak.kek(&ckn), Drbg::new(&[0xab; 32]));
    assert_eq!(text, "Cak(16 octets) Ick Kek Drbg");
}

/// Keys that Python's cryptography made: two blocks of AES-CMAC, by the sentence in the module.
#[test]
fn express_scs_have_a_key_of_their_own_under_a_sak_of_chacha20_alone() {
    let sak: Vec<u8> = (0..32).collect();
    for suite in CipherSuite::ALL {
        let expected = match suite {
            CipherSuite::ChaCha20Poly1305 => {
                Some("b250e348b09eb36ccd1087fed165f2f8758c6912cb365c44d091841f15fe5d0c")
            }
            CipherSuite::ChaCha20Poly1305Xpn => {
                Some("15bafe5c9327167722559b2c6d554fb8e185dccdcbad33d9de48cfbc752b9015")
            }
            _ => None,
        };
        let sak = Sak::new(suite, &sak[..suite.key_octets()]).expect("its length");
        let derived = sak.express(suite);
        assert_eq!(derived.map(|derived| hex::encode(derived.octets())).as_deref(), expected, "{suite}");
    }
}
