//! Keys of protected cyclic frames (the project's wire formats, section 4).
//!
//! ```text
//!  master key ─┬─ HKDF, no salt,       "fw-fieldbus-hello-1" | CR ─────────────────────▶ HelloKey, HMAC-SHA-256
//!              └─ HKDF, salt = nonces, "fw-fieldbus-1" | DA | SA | FrameIDs | mode | epoch ▶ DirectionKey: its suite, salt 8
//!
//!  CR: lower address 6 | its FrameID 2 | higher address 6 | its FrameID 2     FrameIDs: those two, in this order
//!  nonces: that of the end at the lower address first                         nonce of a frame: salt 8 | Seq 4
//! ```
//!
//! HKDF with SHA-256 (RFC 5869). A key serves one relation, direction, session and epoch only.

#[cfg(test)]
mod tests;

use core::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::hmac;
use wire::MacAddr;
use wire::fieldbus::{
    Binding, CellSuite, FrameId, HandshakeNonce, MAC_OCTETS, MASTER_KEY_ID_OCTETS, MasterKeyId, Protection,
    Seq,
};
use zeroize::Zeroizing;

use crate::{CipherSuite, Key, Nonce, Sak, Secret, SecretArray, scrubbed};

/// Octets of a master key.
pub const MASTER_KEY_OCTETS: usize = 32;
/// Octets of the constant part of a nonce under a key.
const SALT_OCTETS: usize = 8;
/// Octets of a key of ChaCha20-Poly1305.
const CHACHA20_POLY1305_KEY_OCTETS: usize = 32;

/// 32 secret octets that both gateways of a cell share. Wiped when dropped, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey(SecretArray<MASTER_KEY_OCTETS>);

/// The master keys of a gateway for a cell. Two of them while one takes the place of the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MasterKeys {
    /// Key of sessions with all peers that have it.
    pub preferred: MasterKey,
    /// Key of sessions with other peers.
    pub fallback: Option<MasterKey>,
}

impl MasterKeys {
    /// Most of them.
    pub const MOST: usize = 2;

    /// All of them, in the order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &MasterKey> {
        core::iter::once(&self.preferred).chain(&self.fallback)
    }
}

impl From<MasterKey> for MasterKeys {
    fn from(preferred: MasterKey) -> Self {
        Self { preferred, fallback: None }
    }
}

/// Key of a relation's HELLOs. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct HelloKey(hmac::Key);

/// Key of one direction of a relation in one epoch of one session. Wiped when dropped, never shown.
pub struct DirectionKey {
    key: Key,
    salt: [u8; SALT_OCTETS],
    /// Of ChaCha20-Poly1305 alone.
    octets: Option<SecretArray<CHACHA20_POLY1305_KEY_OCTETS>>,
}

/// The two stations of a relation with the FrameIDs that they send, the lower address first.
pub type Stations = [(MacAddr, FrameId); 2];

/// Derivation context of a key: relation, direction, session and epoch.
#[derive(Clone, Copy, Debug)]
pub struct KeyContext {
    /// The relation.
    pub stations: Stations,
    /// True if the station at the higher address sends.
    pub from_higher: bool,
    /// The nonces of the session, that of the lower address first.
    pub nonces: [HandshakeNonce; 2],
    /// Protection of its frames.
    pub protection: Protection,
    /// Number of the key in its session, from 0.
    pub epoch: u64,
}

/// Requested output length.
struct Octets(usize);

impl KeyType for Octets {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(pseudo_random: &Prk, info: &[&[u8]], output: &mut [u8]) {
    pseudo_random
        .expand(info, Octets(output.len()))
        .and_then(|filled| filled.fill(output))
        .expect("invariant: HKDF-SHA-256 gives up to 8160 octets");
}

fn relation_context([(lower, lower_sends), (higher, higher_sends)]: &Stations) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[..6].copy_from_slice(&lower.0);
    octets[6..8].copy_from_slice(&lower_sends.0.to_be_bytes());
    octets[8..14].copy_from_slice(&higher.0);
    octets[14..].copy_from_slice(&higher_sends.0.to_be_bytes());
    octets
}

impl MasterKey {
    /// A master key. The caller wipes what `octets` was copied from.
    pub fn new(octets: &[u8; MASTER_KEY_OCTETS]) -> Self {
        Self(SecretArray::new(octets))
    }

    /// Its identifier: the first 8 octets of SHA-256 over "frameward key" and the key, the fingerprint that
    /// `keygen` shows.
    pub fn id(&self) -> MasterKeyId {
        scrubbed(|| {
            let mut context = digest::Context::new(&digest::SHA256);
            context.update(b"frameward key");
            context.update(self.0.octets());
            let mut id = [0; MASTER_KEY_ID_OCTETS];
            id.copy_from_slice(&context.finish().as_ref()[..MASTER_KEY_ID_OCTETS]);
            MasterKeyId(id)
        })
    }

    /// The master key of a relation with this binding: all its keys follow from it. Frames of one protocol, or to one group, are thus never
    /// those of another under the same key.
    #[must_use]
    pub fn bound_to(&self, binding: &Binding) -> Self {
        scrubbed(|| {
            let mut octets = Zeroizing::new([0; MASTER_KEY_OCTETS]);
            let pseudo_random = Salt::new(HKDF_SHA256, &[]).extract(self.0.octets());
            expand(&pseudo_random, &[b"fw-fieldbus-relation-1", binding.octets()], &mut *octets);
            Self(SecretArray::new(&octets))
        })
    }

    /// Key of the HELLOs of the relation between `stations`.
    pub fn hello_key(&self, stations: &Stations) -> HelloKey {
        scrubbed(|| {
            let mut octets = Zeroizing::new([0; MAC_OCTETS]);
            let pseudo_random = Salt::new(HKDF_SHA256, &[]).extract(self.0.octets());
            expand(&pseudo_random, &[b"fw-fieldbus-hello-1", &relation_context(stations)], &mut *octets);
            HelloKey(hmac::Key::new(hmac::HMAC_SHA256, &*octets))
        })
    }

    /// Key of one direction. Prepares the cipher: some hundred nanoseconds and an allocation, not for the
    /// frame path.
    pub fn direction_key(&self, direction: &KeyContext) -> DirectionKey {
        let KeyContext { stations, from_higher, nonces: [first, second], protection, epoch } = direction;
        let mut nonces = [0; 32];
        nonces[..16].copy_from_slice(&first.0);
        nonces[16..].copy_from_slice(&second.0);
        let [(lower, lower_sends), (higher, higher_sends)] = stations;
        let (destination, source) = if *from_higher { (lower, higher) } else { (higher, lower) };
        let suite = match protection.suite {
            CellSuite::GcmAes128 => CipherSuite::GcmAes128,
            CellSuite::GcmAes256 => CipherSuite::GcmAes256,
            CellSuite::ChaCha20Poly1305 => CipherSuite::ChaCha20Poly1305,
        };
        let length = suite.key_octets();
        let mut octets = Secret::zeros(length + SALT_OCTETS);
        let info: [&[u8]; 7] = [
            b"fw-fieldbus-1",
            &destination.0,
            &source.0,
            &lower_sends.0.to_be_bytes(),
            &higher_sends.0.to_be_bytes(),
            &[protection.octet()],
            &epoch.to_be_bytes(),
        ];
        scrubbed(|| {
            expand(&Salt::new(HKDF_SHA256, &nonces).extract(self.0.octets()), &info, octets.octets_mut());
        });
        let (key, salt) = octets.octets().split_at(length);
        let salt = salt.try_into().expect("invariant: 8 octets are left");
        let octets = (suite == CipherSuite::ChaCha20Poly1305)
            .then(|| SecretArray::new(key.try_into().expect("invariant: the length is the suite's")));
        let sak = Sak::new(suite, key).expect("invariant: the length is the suite's");
        let key = Key::prepare(suite, &sak).expect("invariant: the length is the suite's");
        DirectionKey { key, salt, octets }
    }
}

impl HelloKey {
    /// MAC of a HELLO: over its two addresses, destination first, and the octets between EtherType and MAC.
    pub fn mac(&self, destination: MacAddr, source: MacAddr, authenticated: &[u8]) -> [u8; MAC_OCTETS] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in [&destination.0[..], &source.0, authenticated] {
            context.update(part);
        }
        let mut mac = [0; MAC_OCTETS];
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }

    /// True if the MAC is right. In constant time.
    pub fn verify(
        &self,
        destination: MacAddr,
        source: MacAddr,
        authenticated: &[u8],
        mac: &[u8; MAC_OCTETS],
    ) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(&self.mac(destination, source, authenticated), mac)
            .is_ok()
    }
}

impl DirectionKey {
    /// The prepared cipher.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The octets of a key of ChaCha20-Poly1305, and the salt in front of its nonces' Seqs: for the kernel, where frames can be
    /// protected in constant time under no other suite. Keys of other suites stay here.
    pub fn for_kernel(&self) -> Option<(&[u8; CHACHA20_POLY1305_KEY_OCTETS], &[u8; SALT_OCTETS])> {
        self.octets.as_ref().map(|octets| (octets.octets(), &self.salt))
    }

    /// The nonce of the frame with this sequence number.
    pub fn nonce(&self, seq: Seq) -> Nonce {
        let high = u64::from_be_bytes(self.salt) as u128;
        Nonce::from_number(high << 64 | (seq.number() as u128) << 32)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

impl fmt::Debug for HelloKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HelloKey")
    }
}

impl fmt::Debug for DirectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectionKey")
    }
}
