//! Known answers, computed here with other crates: HKDF and HMAC over crate sha2, and GCM of crate aes-gcm.

extern crate std;
use std::collections::BTreeSet;
use std::format;
use std::vec::Vec;

use ::hkdf::Hkdf;
use ::hmac::{Hmac, KeyInit as _, Mac as _};
use aes_gcm::aead::AeadInOut as _;
use sha2::Sha256;
use wire::fieldbus::{Protect, Protocol, Target};

use super::*;
use crate::{OpenJob, SealJob};

const MASTER: [u8; 32] = *b"a master key of thirty-two octet";
const LOWER: (MacAddr, FrameId) = (MacAddr([2, 0, 0, 0, 0, 9]), FrameId(0x8002));
const HIGHER: (MacAddr, FrameId) = (MacAddr([2, 0, 0, 0, 1, 1]), FrameId(0x8001));
const PROTECTION: Protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
const DIRECTION: KeyContext = KeyContext {
    stations: [LOWER, HIGHER],
    from_higher: false,
    nonces: [HandshakeNonce([0xa1; 16]), HandshakeNonce([0xb2; 16])],
    protection: PROTECTION,
    epoch: 0,
};

/// The formats, written down once more: key and salt.
fn expected(direction: &KeyContext) -> Vec<u8> {
    let KeyContext { stations: [lower, higher], from_higher, nonces, protection, epoch } = direction;
    let salt = [nonces[0].0, nonces[1].0].concat();
    let (to, from) = if *from_higher { (lower.0, higher.0) } else { (higher.0, lower.0) };
    let mut info = b"fw-fieldbus-1".to_vec();
    info.extend(to.0);
    info.extend(from.0);
    info.extend(lower.1.0.to_be_bytes());
    info.extend(higher.1.0.to_be_bytes());
    info.push(protection.octet());
    info.extend(epoch.to_be_bytes());
    let octets = if protection.suite == CellSuite::GcmAes128 { 16 } else { 32 };
    let mut output = std::vec![0; octets + 8];
    Hkdf::<Sha256>::new(Some(&salt), &MASTER).expand(&info, &mut output).expect("HKDF gives so much");
    output
}

fn sealed(key: &DirectionKey, seq: Seq) -> (Vec<u8>, [u8; 16]) {
    let (mut text, mut icv) = (b"forty-two inputs and outputs".to_vec(), [0; 16]);
    key.key().seal_each(core::iter::once(SealJob {
        nonce: key.nonce(seq),
        aad: b"in clear",
        text: &mut text,
        icv: &mut icv,
    }));
    (text, icv)
}

#[test]
fn a_direction_key_is_hkdf_and_its_nonce_is_salt_and_seq() {
    for suite in [CellSuite::GcmAes128, CellSuite::GcmAes256] {
        for (from_higher, epoch, seq) in
            [(false, 0, Seq::FIRST), (true, 0, Seq::LAST), (false, 0x0102_0304_0506_0708, Seq::FIRST)]
        {
            let protection = Protection { suite, ..PROTECTION };
            let direction = KeyContext { from_higher, epoch, protection, ..DIRECTION };
            let octets = expected(&direction);
            let (key, salt) = octets.split_at(octets.len() - 8);
            let nonce: [u8; 12] = [salt, &seq.number().to_be_bytes()].concat().try_into().expect("12 octets");
            let mut text = b"forty-two inputs and outputs".to_vec();
            let tag = if suite == CellSuite::GcmAes128 {
                let key: [u8; 16] = key.try_into().expect("16 octets");
                aes_gcm::Aes128Gcm::new(&key.into()).encrypt_inout_detached(
                    &nonce.into(),
                    b"in clear",
                    text.as_mut_slice().into(),
                )
            } else {
                let key: [u8; 32] = key.try_into().expect("32 octets");
                aes_gcm::Aes256Gcm::new(&key.into()).encrypt_inout_detached(
                    &nonce.into(),
                    b"in clear",
                    text.as_mut_slice().into(),
                )
            };
            let ours = MasterKey::new(&MASTER).direction_key(&direction);
            assert_eq!(ours.nonce(seq).octets(), nonce);
            assert_eq!(sealed(&ours, seq), (text, tag.expect("it is short").into()));
        }
    }
}

#[test]
fn a_key_of_chacha20_poly1305_is_hkdf_too_and_goes_to_the_kernel_alone() {
    let protection = Protection { suite: CellSuite::ChaCha20Poly1305, ..PROTECTION };
    let direction = KeyContext { from_higher: true, epoch: 7, protection, ..DIRECTION };
    let octets = expected(&direction);
    let (key, salt) = octets.split_at(32);
    let ours = MasterKey::new(&MASTER).direction_key(&direction);
    assert_eq!(ours.for_kernel().map(|(key, salt)| (&key[..], &salt[..])), Some((key, salt)));
    let suite = CipherSuite::ChaCha20Poly1305;
    let theirs = Key::prepare(suite, &Sak::new(suite, key).expect("32 octets")).expect("32 octets");
    let nonce = [salt, &[0, 0, 0, 1]].concat().try_into().expect("12 octets");
    let (mut text, mut icv) = (b"forty-two inputs and outputs".to_vec(), [0; 16]);
    theirs.seal_each(core::iter::once(SealJob {
        nonce: Nonce::from_octets(nonce),
        aad: b"in clear",
        text: &mut text,
        icv: &mut icv,
    }));
    assert_eq!(sealed(&ours, Seq::FIRST), (text, icv));
    for suite in [CellSuite::GcmAes128, CellSuite::GcmAes256] {
        let protection = Protection { suite, ..PROTECTION };
        let gcm = MasterKey::new(&MASTER).direction_key(&KeyContext { protection, ..DIRECTION });
        assert_eq!(gcm.for_kernel(), None, "{suite:?}");
    }
}

#[test]
fn the_mac_of_a_hello_is_hmac_under_a_key_of_the_relation() {
    let master = MasterKey::new(&MASTER);
    let mut info = b"fw-fieldbus-hello-1".to_vec();
    for (station, sends) in [LOWER, HIGHER] {
        info.extend(station.0);
        info.extend(sends.0.to_be_bytes());
    }
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(None, &MASTER).expand(&info, &mut key).expect("32 octets");
    let authenticated = [0x5a; 40];
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    mac.update(&HIGHER.0.0);
    mac.update(&LOWER.0.0);
    mac.update(&authenticated);
    let expected: [u8; 32] = mac.finalize().into_bytes().into();
    let ours = master.hello_key(&[LOWER, HIGHER]);
    assert_eq!(ours.mac(HIGHER.0, LOWER.0, &authenticated), expected);
    assert!(ours.verify(HIGHER.0, LOWER.0, &authenticated, &expected));
    for bit in 0..256 {
        let mut other = expected;
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!ours.verify(HIGHER.0, LOWER.0, &authenticated, &other));
    }
    assert!(!ours.verify(LOWER.0, HIGHER.0, &authenticated, &expected), "the way back");
}

#[test]
fn every_part_of_a_direction_makes_another_key() {
    let other_station = (MacAddr([2, 0, 0, 0, 0, 10]), LOWER.1);
    let nonce = HandshakeNonce([0xc3; 16]);
    let [first, second] = DIRECTION.nonces;
    let authenticate = Protection { protect: Protect::Authenticate, ..PROTECTION };
    let mut rows = std::vec![
        DIRECTION,
        KeyContext { from_higher: true, ..DIRECTION },
        KeyContext { epoch: 1, ..DIRECTION },
        KeyContext { epoch: 256, ..DIRECTION },
        KeyContext { epoch: 1 << 32, ..DIRECTION },
        KeyContext { nonces: [first, nonce], ..DIRECTION },
        KeyContext { nonces: [nonce, second], ..DIRECTION },
        KeyContext { nonces: [second, first], ..DIRECTION },
        KeyContext { stations: [other_station, HIGHER], ..DIRECTION },
        KeyContext { stations: [(LOWER.0, FrameId(0x8003)), HIGHER], ..DIRECTION },
        KeyContext { stations: [LOWER, (HIGHER.0, FrameId(0x8003))], ..DIRECTION },
        // The same two FrameIDs, exchanged.
        KeyContext { stations: [(LOWER.0, HIGHER.1), (HIGHER.0, LOWER.1)], ..DIRECTION },
        KeyContext { protection: authenticate, ..DIRECTION },
        KeyContext { protection: Protection { suite: CellSuite::GcmAes256, ..PROTECTION }, ..DIRECTION },
        KeyContext { protection: Protection { suite: CellSuite::GcmAes256, ..authenticate }, ..DIRECTION },
        KeyContext {
            protection: Protection { suite: CellSuite::ChaCha20Poly1305, ..PROTECTION },
            ..DIRECTION
        },
        KeyContext {
            protection: Protection { suite: CellSuite::ChaCha20Poly1305, ..authenticate },
            ..DIRECTION
        },
    ];
    // And all of them with the other master key.
    let masters = [MasterKey::new(&MASTER), MasterKey::new(&[1; 32])];
    let count = rows.len();
    let marks: BTreeSet<_> = masters
        .iter()
        .flat_map(|master| rows.iter().map(|row| sealed(&master.direction_key(row), Seq::FIRST)))
        .collect();
    assert_eq!(marks.len(), 2 * count, "two of them have one key");
    // The key of a row opens that row's frames alone.
    let keys: Vec<_> = rows.drain(..).map(|row| masters[0].direction_key(&row)).collect();
    for (number, key) in keys.iter().enumerate() {
        let (text, icv) = sealed(key, Seq::FIRST);
        for (other, opener) in keys.iter().enumerate() {
            let (mut text, mut authentic) = (text.clone(), false);
            opener.key().open_each(core::iter::once(OpenJob {
                nonce: opener.nonce(Seq::FIRST),
                aad: b"in clear",
                text: &mut text,
                icv: &icv,
                authentic: &mut authentic,
            }));
            assert_eq!(authentic, other == number, "{number} opened by {other}");
        }
    }
}

#[test]
fn every_relation_has_another_key_for_its_hellos() {
    let rows: [(Stations, [u8; 32]); 6] = [
        ([LOWER, HIGHER], MASTER),
        ([LOWER, HIGHER], [1; 32]),
        ([(LOWER.0, HIGHER.1), HIGHER], MASTER),
        ([LOWER, (HIGHER.0, LOWER.1)], MASTER),
        ([(LOWER.0, HIGHER.1), (HIGHER.0, LOWER.1)], MASTER),
        ([(MacAddr([2, 0, 0, 0, 0, 8]), LOWER.1), HIGHER], MASTER),
    ];
    let macs: BTreeSet<_> = rows
        .iter()
        .map(|(stations, master)| MasterKey::new(master).hello_key(stations).mac(HIGHER.0, LOWER.0, b"hello"))
        .collect();
    assert_eq!(macs.len(), rows.len());
}

#[test]
fn a_bound_master_key_is_hkdf_of_its_binding() {
    let group = Target::Group(MacAddr([1, 0x0c, 0xcd, 1, 0, 1]));
    let bindings = [
        (Protocol::Goose, [group, Target::Nobody]),
        (Protocol::SampledValues, [group, Target::Nobody]),
        (Protocol::Goose, [Target::Nobody, group]),
        (Protocol::Goose, [Target::Peer; 2]),
    ]
    .map(|(protocol, targets)| Binding::new(protocol, targets).unwrap());
    let master = MasterKey::new(&MASTER);
    let mut known = BTreeSet::from([master.id().0]);
    for binding in bindings {
        let info = [&b"fw-fieldbus-relation-1"[..], binding.octets()].concat();
        let mut expected = [0; 32];
        Hkdf::<Sha256>::new(None, &MASTER).expand(&info, &mut expected).unwrap();
        let bound = master.bound_to(&binding);
        assert!(bound == MasterKey::new(&expected), "{binding:?}");
        assert!(known.insert(bound.id().0), "{binding:?}");
    }
}

#[test]
fn no_key_shows_itself() {
    let master = MasterKey::new(&MASTER);
    let (hello, direction) = (master.hello_key(&DIRECTION.stations), master.direction_key(&DIRECTION));
    assert_eq!(format!("{master:?} {hello:?} {direction:?}"), "MasterKey HelloKey DirectionKey");
}
