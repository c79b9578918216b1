//! Keys of the tunnel between sites: identifiers and masks, and header encryption (the project's wire
//! formats, sections 3.1, 3.2 and 3.5).
//!
//! A sender draws an [`EpochSecret`] of 32 octets for each epoch. HKDF-SHA-256 (RFC 5869) derives from it:
//!
//! ```text
//!  secret ── extract, salt "fw-tunnel-1" ──┬─ expand "identifier" | lane 1 ─▶ SipHash-2-4-128 ┐
//!                                          ├─ expand "check" | lane 1 ──────▶ three numbers   ├ LaneKey
//!                                          ├─ expand "long form" | lane 1 ──▶ SipHash-2-4-64  ┘
//!                                          └─ expand "header" ────────────▶ HeaderKey, AES-128
//! ```
//!
//! [`TokenKey`] is of one process alone, and nothing under it is for the network.
//!
//! None of these keys protects a payload: MACsec did, and the station rejects altered bodies. The headers in
//! front of them are authenticated:
//!
//! - **The tag of the long form** is SipHash-2-4 with 64 bits of output. It was designed as a MAC of short
//!   messages, costs the same on every processor, and makes the identifiers anyway. It is off the common
//!   path.
//! - **The check of every header** has 16 bits, all the room there is. It is a one-time pad, fresh with each
//!   seq, over a multilinear hash under a secret key (Wegman and Carter 1981; Lemire and Kaser, "Strongly
//!   universal string hashing is fast", theorem 3.1: of 64 bits the upper 33 are strongly universal). One
//!   altered packet in 2^16 passes, whatever the alteration; the check costs two multiplications. An attacker
//!   who tries 2^16 packets of one epoch may learn enough of the hash to continue until its end; SECURITY.md
//!   describes the gain.

use core::fmt;

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use siphasher::sip::SipHasher24 as Tagger;
use siphasher::sip128::SipHasher24;
use zeroize::Zeroizing;

use crate::{SecretArray, scrubbed};

/// Octets of the longest flow in the long form of a packet: two blocks.
pub const LONGEST_FLOW_OCTETS: usize = 32;

/// Octets of a secret, from which all keys of an epoch are derived.
pub const EPOCH_SECRET_OCTETS: usize = 32;

/// The secret of one direction and epoch. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct EpochSecret(SecretArray<EPOCH_SECRET_OCTETS>);

/// The 48-bit identifier in front of a packet. Bit 0x40 of octet 0 is clear: QUIC on the same port has it
/// set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rid(u64);

/// Values of one seq under a lane's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdentifierBlock {
    /// The identifier.
    pub rid: Rid,
    /// Mask of the check.
    pub pad: u16,
    /// Mask of the header.
    pub mask: [u8; 8],
}

/// The keys of one lane. Wiped when dropped.
#[derive(Clone)]
pub struct LaneKey(Zeroizing<[u8; CHECK_END]>);

/// Ends of the keys in [`LaneKey`]: identifiers and masks, tags of the long form, checks.
const IDENTIFIER_END: usize = 16;
const TAG_END: usize = IDENTIFIER_END + 16;
const CHECK_END: usize = TAG_END + 24;

/// Key of header encryption, for one direction and epoch.
#[derive(Clone)]
pub struct HeaderKey(Aes128);

/// Octets of [`TokenKey`].
pub const TOKEN_KEY_OCTETS: usize = 16;

/// Key of the tokens in front of packets that programs in the kernel have opened for user space. Wiped when dropped, never shown.
#[derive(Clone, Debug)]
pub struct TokenKey(SecretArray<TOKEN_KEY_OCTETS>);

impl TokenKey {
    /// A key from the operating system. The caller wipes the source of `octets`.
    pub fn new(octets: &[u8; TOKEN_KEY_OCTETS]) -> Self {
        Self(SecretArray::new(octets))
    }

    /// The octets: for the programs, never for printing.
    pub fn octets(&self) -> &[u8; TOKEN_KEY_OCTETS] {
        self.0.octets()
    }

    /// The token of a packet with this header of a peer, in a period: the first six octets of SipHash-2-4 with 64 bits of output over
    /// `header 8 | peer 2 | period 6`, little endian, without QUIC's bit, so that it looks like an identifier.
    pub fn token(&self, header: [u8; 8], peer: u16, period: u64) -> Rid {
        let mut message = [0; 16];
        message[..8].copy_from_slice(&header);
        message[8..].copy_from_slice(&(period << 16 | u64::from(peer)).to_le_bytes());
        let [t0, t1, t2, t3, t4, t5, ..] = Tagger::new_with_key(self.octets()).hash(&message).to_le_bytes();
        Rid(u64::from_be_bytes([0, 0, t0 & !Rid::QUIC_BIT, t1, t2, t3, t4, t5]))
    }
}

impl EpochSecret {
    /// A secret from the operating system or from the management channel. The caller wipes the source of
    /// `octets`.
    pub fn new(octets: &[u8; EPOCH_SECRET_OCTETS]) -> Self {
        Self(SecretArray::new(octets))
    }

    /// The secret octets: for the management channel, never for printing.
    pub fn octets(&self) -> &[u8; EPOCH_SECRET_OCTETS] {
        self.0.octets()
    }

    /// The key of a lane.
    pub fn lane_key(&self, lane: u8) -> LaneKey {
        scrubbed(|| {
            let mut keys = Zeroizing::new([0; CHECK_END]);
            let (identifier, rest) = keys.split_at_mut(IDENTIFIER_END);
            let (tag, check) = rest.split_at_mut(TAG_END - IDENTIFIER_END);
            for (label, key) in [(&b"identifier"[..], identifier), (b"long form", tag), (b"check", check)] {
                self.derive(&[label, &[lane]], key);
            }
            LaneKey(keys)
        })
    }

    /// The key of header encryption.
    pub fn header_key(&self) -> HeaderKey {
        scrubbed(|| {
            let mut key = Zeroizing::new([0; 16]);
            self.derive(&[b"header"], &mut *key);
            HeaderKey(Aes128::new((&*key).into()))
        })
    }

    fn derive(&self, info: &[&[u8]], key: &mut [u8]) {
        struct Octets(usize);
        impl KeyType for Octets {
            fn len(&self) -> usize {
                self.0
            }
        }
        let pseudo_random = Salt::new(HKDF_SHA256, b"fw-tunnel-1").extract(self.0.octets());
        pseudo_random
            .expand(info, Octets(key.len()))
            .and_then(|output| output.fill(key))
            .expect("invariant: HKDF-SHA-256 gives up to 8160 octets");
    }
}

impl fmt::Debug for EpochSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EpochSecret")
    }
}

impl Rid {
    /// The bit of a packet's first octet that QUIC sets and an identifier does not (RFC 9000, 17.2 and 17.3).
    pub const QUIC_BIT: u8 = 0x40;

    /// An identifier from the wire; `None` if the octets begin a QUIC packet.
    pub const fn from_octets(octets: [u8; 6]) -> Option<Self> {
        let [r0, r1, r2, r3, r4, r5] = octets;
        let number = u64::from_be_bytes([0, 0, r0, r1, r2, r3, r4, r5]);
        if r0 & Self::QUIC_BIT == 0 { Some(Self(number)) } else { None }
    }

    /// The six octets on the wire.
    pub const fn octets(self) -> [u8; 6] {
        let [_, _, octets @ ..] = self.0.to_be_bytes();
        octets
    }

    /// The identifier with this [`Rid::number`].
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The identifier as a number. Without the key, it looks random.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl LaneKey {
    /// Identifier, pad and mask of the packet with this seq.
    pub fn block(&self, seq: u64) -> IdentifierBlock {
        let block = self.hash(&seq.to_le_bytes());
        let [r0, r1, r2, r3, r4, r5, p0, p1, mask @ ..] = block;
        let rid = u64::from_be_bytes([0, 0, r0 & !Rid::QUIC_BIT, r1, r2, r3, r4, r5]);
        IdentifierBlock { rid: Rid(rid), pad: u16::from_be_bytes([p0, p1]), mask }
    }

    /// Check of a header, before masking, under the pad of its packet. One header for each pad.
    pub fn check(&self, pad: u16, header: [u8; 8]) -> [u8; 2] {
        let [h0, h1, h2, h3, low @ ..] = header;
        let (high, low) = (u32::from_be_bytes([h0, h1, h2, h3]), u32::from_be_bytes(low));
        let hash = self
            .number(0)
            .wrapping_add(self.number(1).wrapping_mul(high.into()))
            .wrapping_add(self.number(2).wrapping_mul(low.into()));
        ((hash >> 48) as u16 ^ pad).to_be_bytes()
    }

    /// A number of the check's hash.
    fn number(&self, number: usize) -> u64 {
        let octets = self.0[TAG_END..].as_chunks().0;
        u64::from_le_bytes(octets[number])
    }

    /// Tag of a packet in long form, over its seq, and its unmasked header and flow.
    pub fn long_tag<const FLOW: usize>(&self, seq: u64, header: [u8; 8], flow: &[u8; FLOW]) -> [u8; 8] {
        const { assert!(FLOW <= LONGEST_FLOW_OCTETS) };
        let mut message = [0; 16 + LONGEST_FLOW_OCTETS];
        message[..8].copy_from_slice(&seq.to_le_bytes());
        message[8..16].copy_from_slice(&header);
        let message = &mut message[..16 + FLOW];
        message[16..].copy_from_slice(flow);
        let key = self.0[IDENTIFIER_END..].first_chunk();
        let key: &[u8; 16] = key.expect("invariant: the key of tags stands behind that of identifiers");
        Tagger::new_with_key(key).hash(message).to_le_bytes()
    }

    /// Mask of the flow of a packet in long form: the first octets of two blocks.
    pub fn long_mask<const FLOW: usize>(&self, seq: u64) -> [u8; FLOW] {
        const { assert!(FLOW <= LONGEST_FLOW_OCTETS) };
        let mut mask = [0; FLOW];
        for (counter, part) in (1..).zip(mask.chunks_mut(16)) {
            let mut message = [0; 9];
            message[..8].copy_from_slice(&seq.to_le_bytes());
            message[8] = counter;
            part.copy_from_slice(&self.hash(&message)[..part.len()]);
        }
        mask
    }

    /// The key of identifiers and masks, and the numbers of the check, little endian: for the kernel, whose lanes carry no long form.
    pub fn for_kernel(&self) -> (&[u8; IDENTIFIER_END], &[u8; CHECK_END - TAG_END]) {
        let identifier = self.0.first_chunk().expect("invariant: the key of identifiers comes first");
        (identifier, self.0.last_chunk().expect("invariant: the numbers of the check come last"))
    }

    /// A new hasher each time: four operations, and its state does not outlive the key.
    fn hash(&self, message: &[u8]) -> [u8; 16] {
        let key = self.0.first_chunk().expect("invariant: the key of identifiers comes first");
        SipHasher24::new_with_key(key).hash(message).as_bytes()
    }
}

impl fmt::Debug for LaneKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneKey")
    }
}

impl HeaderKey {
    /// `C2 = AES(P2)`, `C1 = AES(P1 xor P2 xor C2)`: 32 octets, in place.
    pub fn encrypt(&self, header: &mut [u8; 32]) {
        let (first, second) = halves(header);
        let encrypted_second = self.encrypt_block(second);
        let encrypted_first = self.encrypt_block(xor(xor(first, second), encrypted_second));
        *header = joined(encrypted_first, encrypted_second);
    }

    /// Reverses [`HeaderKey::encrypt`], in place. The caller recognises a header under another key by its
    /// content.
    pub fn decrypt(&self, header: &mut [u8; 32]) {
        let (encrypted_first, encrypted_second) = halves(header);
        let second = self.decrypt_block(encrypted_second);
        let first = xor(xor(self.decrypt_block(encrypted_first), second), encrypted_second);
        *header = joined(first, second);
    }

    fn encrypt_block(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        self.0.encrypt_block(&mut block);
        block.into()
    }

    fn decrypt_block(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        self.0.decrypt_block(&mut block);
        block.into()
    }
}

impl fmt::Debug for HeaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderKey")
    }
}

fn halves(header: &[u8; 32]) -> ([u8; 16], [u8; 16]) {
    let (mut first, mut second) = ([0; 16], [0; 16]);
    first.copy_from_slice(&header[..16]);
    second.copy_from_slice(&header[16..]);
    (first, second)
}

fn joined(first: [u8; 16], second: [u8; 16]) -> [u8; 32] {
    let mut header = [0; 32];
    header[..16].copy_from_slice(&first);
    header[16..].copy_from_slice(&second);
    header
}

/// Octet by octet: the compiler makes one vector of it. Composed wide integers would stall store forwarding.
fn xor(mut left: [u8; 16], right: [u8; 16]) -> [u8; 16] {
    for (octet, other) in left.iter_mut().zip(right) {
        *octet ^= other;
    }
    left
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn secret(fill: u8) -> EpochSecret {
        EpochSecret::new(&[fill; 32])
    }

    /// The reference vectors of SipHash-2-4 with 128 bits of output (vectors.h of its authors), for key 00..0f.
    #[test]
    fn siphash_is_the_reference_one() {
        let key: [u8; 16] = core::array::from_fn(|i| i as u8);
        let message: [u8; 9] = core::array::from_fn(|i| i as u8);
        for (length, expected) in [
            (0, "a3817f04ba25a8e66df67214c7550293"),
            (8, "3b62a9ba6258f5610f83e264f31497b4"),
            (9, "264499060ad9baabc47f8b02bb6d71ed"),
        ] {
            let hash = SipHasher24::new_with_key(&key).hash(&message[..length]).as_bytes();
            assert_eq!(hex::encode(hash), expected);
        }
        let mut lane = LaneKey(Zeroizing::new([0; CHECK_END]));
        lane.0[..16].copy_from_slice(&key);
        lane.0[16..32].copy_from_slice(&key);
        let block = lane.block(u64::from_le_bytes(*message.first_chunk().expect("eight")));
        // The vector's first octet 3b has the QUIC bit clear already.
        assert_eq!(hex::encode(block.rid.octets()), "3b62a9ba6258");
        assert_eq!(block.pad, 0xf561);
        assert_eq!(hex::encode(block.mask), "0f83e264f31497b4");
    }

    /// The reference vector of SipHash-2-4 with 64 bits of output for 16 octets 00..0f (vectors.h of its authors): `db9bc2577fcc2a3f`.
    #[test]
    fn a_token_is_siphash_of_header_peer_and_period() {
        let key = TokenKey::new(&core::array::from_fn(|i| i as u8));
        let (header, peer) = (core::array::from_fn(|i| i as u8), u16::from_le_bytes([8, 9]));
        let period = u64::from_le_bytes([10, 11, 12, 13, 14, 15, 0, 0]);
        // QUIC's bit of db is out.
        assert_eq!(hex::encode(key.token(header, peer, period).octets()), "9b9bc2577fcc");
        assert_eq!(std::format!("{key:?}"), "TokenKey(SecretArray(16 octets))");
    }

    /// The reference vector of SipHash-2-4 with 64 bits of output for 40 octets 00..27 (vectors.h of its authors).
    #[test]
    fn the_tag_of_the_long_form_is_siphash() {
        let mut lane = LaneKey(Zeroizing::new([0; CHECK_END]));
        lane.0[16..32].copy_from_slice(&core::array::from_fn::<u8, 16, _>(|i| i as u8));
        let flow: [u8; 24] = core::array::from_fn(|i| 16 + i as u8);
        let header = core::array::from_fn(|i| 8 + i as u8);
        let tag = lane.long_tag(u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]), header, &flow);
        assert_eq!(hex::encode(tag), "d0a704536ba93e0e");
    }

    /// The multilinear hash of the check, computed with whole numbers.
    #[test]
    fn the_check_follows_its_formula() {
        let key = secret(6).lane_key(2);
        let [zeroth, first, second] = [0, 1, 2].map(|number| u128::from(key.number(number)));
        for header in [[0; 8], [0xff; 8], [1, 2, 3, 4, 5, 6, 7, 8]] {
            let number = u64::from_be_bytes(header);
            let sum = zeroth + first * u128::from(number >> 32) + second * u128::from(number & 0xffff_ffff);
            let hash = (sum >> 48) as u16;
            assert_eq!(key.check(0x1234, header), (hash ^ 0x1234).to_be_bytes());
        }
    }

    /// Whatever is changed in a header, and in its check: of the keys one in 2^16 lets it pass.
    #[test]
    fn few_keys_let_a_changed_header_pass() {
        let mut dice = 1_u64;
        let mut roll = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            dice ^ dice >> 29
        };
        let mut passed = 0;
        let tries = 1 << 20;
        for change in 0..tries {
            let mut key = LaneKey(Zeroizing::new([0; CHECK_END]));
            for octets in key.0[TAG_END..].as_chunks_mut::<8>().0 {
                *octets = roll().to_le_bytes();
            }
            let header = roll().to_be_bytes();
            // Each bit alone, with any change of the check.
            let other = (u64::from_be_bytes(header) ^ 1 << (change % 64)).to_be_bytes();
            let [left, right] = [header, other].map(|header| u16::from_be_bytes(key.check(0, header)));
            passed += u32::from(left ^ right == (roll() >> 40) as u16);
        }
        // 16 are expected.
        assert!(passed < 48, "{passed} of {tries}");
    }

    #[test]
    fn every_lane_and_epoch_has_a_key_of_its_own() {
        let blocks =
            [secret(1), secret(2)].map(|secret| [0, 1].map(|lane| secret.lane_key(lane).block(1).rid));
        assert_eq!(blocks.concat().into_iter().collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(secret(1).lane_key(0).block(7), secret(1).lane_key(0).block(7));
    }

    #[test]
    fn an_identifier_is_never_taken_for_quic() {
        let key = secret(3).lane_key(0);
        for seq in 0..10_000 {
            let rid = key.block(seq).rid;
            assert_eq!(Rid::from_octets(rid.octets()), Some(rid));
        }
        assert_eq!(Rid::from_octets([0x40, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn masks_of_the_long_form_are_no_identifiers() {
        let key = secret(4).lane_key(0);
        let mask = key.long_mask::<24>(9);
        assert_ne!(mask[..8], key.block(9).rid.octets());
        assert_ne!(mask[..8], mask[16..]);
        assert_ne!(mask, key.long_mask(10));
        assert_eq!(key.long_mask::<32>(9)[..24], mask);
    }

    proptest! {
        #[test]
        fn header_encryption_is_undone_and_follows_its_formula(fill: u8, header: [u8; 32]) {
            let key = secret(fill).header_key();
            let mut encrypted = header;
            key.encrypt(&mut encrypted);
            let (p1, p2) = halves(&header);
            let c2 = key.encrypt_block(p2);
            let c1 = key.encrypt_block(core::array::from_fn(|i| p1[i] ^ p2[i] ^ c2[i]));
            prop_assert_eq!(encrypted, joined(c1, c2));
            key.decrypt(&mut encrypted);
            prop_assert_eq!(encrypted, header);
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let text = std::format!("{:?} {:?} {:?}", secret(5), secret(5).lane_key(0), secret(5).header_key());
        assert_eq!(text, "EpochSecret LaneKey HeaderKey");
    }
}
