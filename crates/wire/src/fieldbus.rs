//! Protected cyclic frames between two gateways (the project's wire formats, section 4; after Skuballa et
//! al., "Cryptographic Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses", section
//! IV).
//!
//! ```text
//! machine:    DA 6 | SA 6 | [VLAN 4] | 0x8892 2 | FrameID 2 | payload n
//! protected:  DA 6 | SA 6 | [VLAN 4] | EtherType 2 | FrameID 2 | KeyID 1 | Seq 4 | payload n | ICV 16
//! HELLO:      DA 6 | SA 6 | [VLAN 4] | EtherType 2 | FrameID 2 | KeyID 1 | 0 4   | State 1 | nonce 16 | peer's nonce 16 | [other key 8] | MAC 32
//! ```
//!
//! This is PROFINET. A frame of another [`Protocol`] has its own EtherType, and its identification in the place of the FrameID. Where that
//! is derived, the payload is all that stands behind the EtherType.
//!
//! The addresses and the FrameID are those of the machines. A HELLO goes to the other station, also where frames go to a group. A frame with Seq 0 is a HELLO, so IO data begins at Seq 1. All numbers are
//! big-endian. A HELLO has the field "other key" if its sender has two master keys. Octets behind a HELLO are padding.
//!
//! Left out on purpose: finding the EtherType (`ethernet`), and the meaning of the fields (crate `fieldbus`).

mod protocol;

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::EtherType;

pub use protocol::{BINDING_OCTETS, Binding, Protocol, Target};

/// Default EtherType of protected frames: IEEE 802's first for local experiments.
pub const ETHERTYPE: EtherType = EtherType(0x88b5);
/// Octets of a [`Header`]: FrameID, KeyID, Seq.
pub const HEADER_OCTETS: usize = 7;
/// Octets of an ICV (NIST SP 800-38D, the longest tag).
pub const ICV_OCTETS: usize = 16;
/// Octets of a FrameID.
pub const FRAME_ID_OCTETS: usize = 2;
/// Octets of a nonce of a HELLO.
pub const NONCE_OCTETS: usize = 16;
/// Octets of the MAC of a HELLO: HMAC-SHA-256.
pub const MAC_OCTETS: usize = 32;
/// Octets of a master key's identifier.
pub const MASTER_KEY_ID_OCTETS: usize = 8;
/// Octets of a HELLO from its FrameID on, without the other key.
pub const HELLO_OCTETS: usize = HEADER_OCTETS + 1 + 2 * NONCE_OCTETS + MAC_OCTETS;
/// The same with the other key.
pub const LONGEST_HELLO_OCTETS: usize = HELLO_OCTETS + MASTER_KEY_ID_OCTETS;
/// Most octets of a HELLO that its MAC covers, besides the addresses in front of them.
pub const HELLO_AUTHENTICATED_OCTETS: usize = LONGEST_HELLO_OCTETS - MAC_OCTETS;
/// Bit of State: the sender has another master key too.
const OTHER_KEY: u8 = 0x10;
/// Bit of State: the sender prefers that one.
const OTHER_KEY_PREFERRED: u8 = 0x20;

/// A FrameID: names one stream of cyclic data between two stations (IEC 61158-6-10).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrameId(pub u16);

impl FrameId {
    /// Whether PROFINET has it for cyclic frames to one station (IEC 61158-6-10: RT_CLASS_3, RT_CLASS_1, and RT_CLASS_1 as it was
    /// numbered first).
    pub const fn is_cyclic(self) -> bool {
        matches!(self.0, 0x0100..=0x0fff | 0x8000..=0xbbff | 0xc000..=0xf7ff)
    }
}

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Debug for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Number of a direction's key, modulo 256. It grows by 1 with each key change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct KeyId(pub u8);

impl KeyId {
    /// The next KeyID.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// Sequence number under one key, from 1. 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seq(core::num::NonZeroU32);

impl Seq {
    /// The first.
    pub const FIRST: Self = Self(core::num::NonZeroU32::MIN);
    /// The last.
    pub const LAST: Self = Self(core::num::NonZeroU32::MAX);

    /// The sequence number, unless it is 0.
    pub const fn new(number: u32) -> Option<Self> {
        match core::num::NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number itself.
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    /// The next sequence number, if there is one.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// Header of a protected frame, behind the EtherType.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The machines' FrameID.
    pub frame_id: FrameId,
    /// Key that protects the frame.
    pub key_id: KeyId,
    /// Number of the frame under that key; none in a HELLO.
    pub seq: Option<Seq>,
}

/// Error of a frame whose octets behind the EtherType are incomplete or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldbusError {
    /// Fewer octets than [`HEADER_OCTETS`].
    TruncatedHeader,
    /// Seq is 0, and fewer octets follow than a HELLO has.
    TruncatedHello,
    /// A HELLO whose State has bits that have no meaning.
    UnknownState,
}

impl Header {
    /// Parses the octets behind the EtherType.
    ///
    /// # Errors
    /// [`FieldbusError::TruncatedHeader`].
    pub fn parse(octets: &[u8]) -> Result<Self, FieldbusError> {
        let [frame_id @ .., key_id, a, b, c, d] =
            octets.first_chunk::<HEADER_OCTETS>().ok_or(FieldbusError::TruncatedHeader)?;
        Ok(Self {
            frame_id: FrameId(u16::from_be_bytes(*frame_id)),
            key_id: KeyId(*key_id),
            seq: Seq::new(u32::from_be_bytes([*a, *b, *c, *d])),
        })
    }

    /// The encoded octets.
    pub const fn encode(&self) -> [u8; HEADER_OCTETS] {
        let [f, g] = self.frame_id.0.to_be_bytes();
        let seq = match self.seq {
            Some(seq) => seq.number(),
            None => 0,
        };
        let [a, b, c, d] = seq.to_be_bytes();
        [f, g, self.key_id.0, a, b, c, d]
    }
}

/// 16 random octets that one end drew for one handshake. Not secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HandshakeNonce(pub [u8; NONCE_OCTETS]);

/// Identifier of a master key: its fingerprint. Tells keys apart, and nothing about them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MasterKeyId(pub [u8; MASTER_KEY_ID_OCTETS]);

impl fmt::Display for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// The master key that a HELLO's sender has besides the one that the HELLO is under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherKey {
    /// Its identifier.
    pub id: MasterKeyId,
    /// True if the sender prefers it.
    pub preferred: bool,
}

/// Kind of a HELLO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloState {
    /// Asks for an answer. Does not tell whether the sender has entered a session.
    Request,
    /// The sender has entered the session of the two nonces and receives under its keys. It wants no answer.
    Entered,
}

/// Protection of the payload. The ICV always covers addresses, header and payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protect {
    /// Payload stays in clear.
    Authenticate,
    /// Payload is encrypted.
    Encrypt,
}

/// The cipher suites of cyclic frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CellSuite {
    /// AES-GCM with keys of 16 octets.
    GcmAes128,
    /// AES-GCM with keys of 32 octets.
    GcmAes256,
    /// ChaCha20-Poly1305 (RFC 8439): the one that can be computed in the kernel in constant time.
    ChaCha20Poly1305,
}

impl CellSuite {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::GcmAes128, Self::GcmAes256, Self::ChaCha20Poly1305];

    /// Its name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GcmAes128 => "gcm-aes-128",
            Self::GcmAes256 => "gcm-aes-256",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// Its bits in [`Protection::octet`]. Both at once mean nothing.
    const fn bits(self) -> u8 {
        match self {
            Self::GcmAes128 => 0,
            Self::GcmAes256 => 4,
            Self::ChaCha20Poly1305 => 8,
        }
    }
}

/// Protection of a relation's frames, the same in both directions and at both ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Protection {
    /// Protection of the payload.
    pub protect: Protect,
    /// The cipher suite.
    pub suite: CellSuite,
}

impl Protection {
    /// As it stands in the derivation of keys: `0 0 0 0 | ChaCha20-Poly1305 | 256 | E | 0`. State of a HELLO has it too.
    pub const fn octet(self) -> u8 {
        let encrypts = match self.protect {
            Protect::Authenticate => 0,
            Protect::Encrypt => 2,
        };
        encrypts | self.suite.bits()
    }
}

/// A HELLO, from the FrameID to the MAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// FrameID of the direction in which the HELLO travels.
    pub frame_id: FrameId,
    /// KeyID of the first frames that the sender protects in the session of these nonces.
    pub key_id: KeyId,
    /// State of the sender in that session.
    pub state: HelloState,
    /// Protection that the sender is configured for.
    pub protection: Protection,
    /// The sender's nonce.
    pub own: HandshakeNonce,
    /// The receiver's nonce, if the sender knows it.
    pub peers: Option<HandshakeNonce>,
    /// The sender's other master key, if it has two.
    pub other_key: Option<OtherKey>,
}

impl Hello {
    /// Parses the octets behind the EtherType, with Seq 0, and returns the HELLO, the octets that its MAC covers
    /// and the MAC. The MAC is not verified yet.
    ///
    /// # Errors
    /// The first defect of the octets.
    pub fn parse(octets: &[u8]) -> Result<(Self, &[u8], &[u8; MAC_OCTETS]), FieldbusError> {
        let first = octets.first_chunk::<HELLO_OCTETS>().ok_or(FieldbusError::TruncatedHello)?;
        let Header { frame_id, key_id, .. } = Header::parse(first)?;
        let rest = &octets[HEADER_OCTETS + 1..];
        let (own, rest) = rest.split_first_chunk().ok_or(FieldbusError::TruncatedHello)?;
        let (peers, rest) = rest.split_first_chunk().ok_or(FieldbusError::TruncatedHello)?;
        let state_octet = first[HEADER_OCTETS];
        let preferred = state_octet & OTHER_KEY_PREFERRED != 0;
        let (other_key, rest) = match (state_octet & OTHER_KEY != 0, preferred) {
            (true, _) => {
                let (id, rest) = rest.split_first_chunk().ok_or(FieldbusError::TruncatedHello)?;
                (Some(OtherKey { id: MasterKeyId(*id), preferred }), rest)
            }
            (false, false) => (None, rest),
            (false, true) => return Err(FieldbusError::UnknownState),
        };
        let mac = rest.first_chunk().ok_or(FieldbusError::TruncatedHello)?;
        let authenticated = &octets[..octets.len() - rest.len()];
        let suite_bits = state_octet & !(3 | OTHER_KEY | OTHER_KEY_PREFERRED);
        let suite = CellSuite::ALL.into_iter().find(|suite| suite.bits() == suite_bits);
        let suite = suite.ok_or(FieldbusError::UnknownState)?;
        let state = if state_octet & 1 == 0 { HelloState::Request } else { HelloState::Entered };
        let protection = Protection {
            protect: if state_octet & 2 == 0 { Protect::Authenticate } else { Protect::Encrypt },
            suite,
        };
        // Nobody draws a nonce of zeros: it stands for "none".
        let peers = (*peers != [0; NONCE_OCTETS]).then_some(HandshakeNonce(*peers));
        let own = HandshakeNonce(*own);
        Ok((Self { frame_id, key_id, state, protection, own, peers, other_key }, authenticated, mac))
    }

    /// Encodes the octets that the MAC covers, behind the addresses, and returns those written.
    pub fn encode<'o>(&self, octets: &'o mut [u8; HELLO_AUTHENTICATED_OCTETS]) -> &'o [u8] {
        let header = Header { frame_id: self.frame_id, key_id: self.key_id, seq: None };
        octets[..HEADER_OCTETS].copy_from_slice(&header.encode());
        let other = match self.other_key {
            None => 0,
            Some(OtherKey { preferred: false, .. }) => OTHER_KEY,
            Some(OtherKey { preferred: true, .. }) => OTHER_KEY | OTHER_KEY_PREFERRED,
        };
        octets[HEADER_OCTETS] = self.protection.octet() | u8::from(self.state == HelloState::Entered) | other;
        let (own, rest) = octets[HEADER_OCTETS + 1..].split_at_mut(NONCE_OCTETS);
        let (peers, other_key) = rest.split_at_mut(NONCE_OCTETS);
        own.copy_from_slice(&self.own.0);
        peers.copy_from_slice(&self.peers.map_or([0; NONCE_OCTETS], |nonce| nonce.0));
        match self.other_key {
            None => &octets[..HELLO_OCTETS - MAC_OCTETS],
            Some(OtherKey { id, .. }) => {
                other_key.copy_from_slice(&id.0);
                octets
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_is_what_it_was() {
        let rows: [(Header, [u8; HEADER_OCTETS]); 3] = [
            (
                Header { frame_id: FrameId(0x8001), key_id: KeyId(3), seq: Seq::new(0x0102_0304) },
                [0x80, 1, 3, 1, 2, 3, 4],
            ),
            (
                Header { frame_id: FrameId(0xbbff), key_id: KeyId(255), seq: None },
                [0xbb, 0xff, 255, 0, 0, 0, 0],
            ),
            (
                Header { frame_id: FrameId(0), key_id: KeyId(0), seq: Some(Seq::LAST) },
                [0, 0, 0, 255, 255, 255, 255],
            ),
        ];
        for (header, octets) in rows {
            assert_eq!(header.encode(), octets);
            assert_eq!(Header::parse(&octets), Ok(header));
            for short in 0..HEADER_OCTETS {
                assert_eq!(Header::parse(&octets[..short]), Err(FieldbusError::TruncatedHeader));
            }
        }
        assert_eq!((Seq::LAST.next(), Seq::FIRST.next()), (None, Seq::new(2)));
        assert_eq!(KeyId(255).next(), KeyId(0));
    }

    proptest! {
        #[test]
        fn a_hello_is_what_it_was(
            frame_id: u16, key_id: u8, state in 0u8..4, suite in 0usize..3, own: [u8; 16], peers: Option<[u8; 16]>, mac: [u8; 32],
            other: Option<([u8; 8], bool)>,
            behind in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let hello = Hello {
                frame_id: FrameId(frame_id),
                key_id: KeyId(key_id),
                state: if state & 1 == 1 { HelloState::Entered } else { HelloState::Request },
                protection: Protection {
                    protect: if state & 2 == 2 { Protect::Encrypt } else { Protect::Authenticate },
                    suite: CellSuite::ALL[suite],
                },
                own: HandshakeNonce(own),
                peers: peers.filter(|nonce| *nonce != [0; 16]).map(HandshakeNonce),
                other_key: other.map(|(id, preferred)| OtherKey { id: MasterKeyId(id), preferred }),
            };
            let mut buffer = [0xaa; HELLO_AUTHENTICATED_OCTETS];
            let authenticated = hello.encode(&mut buffer);
            let octets = [authenticated, &mac, &behind].concat();
            prop_assert_eq!(Header::parse(&octets).unwrap().seq, None);
            prop_assert_eq!(Hello::parse(&octets), Ok((hello, authenticated, &mac)));
            let length = if other.is_some() { LONGEST_HELLO_OCTETS } else { HELLO_OCTETS };
            prop_assert_eq!(authenticated.len() + MAC_OCTETS, length);
            for short in 0..length {
                prop_assert_eq!(Hello::parse(&octets[..short]), Err(FieldbusError::TruncatedHello));
            }
            let preferred_none = if other.is_some() { 0x0c } else { 0x20 };
            for bits in [0x0c, preferred_none, 0x40, 0x80] {
                let mut other = octets.clone();
                other[HEADER_OCTETS] |= bits;
                prop_assert_eq!(Hello::parse(&other), Err(FieldbusError::UnknownState));
            }
        }
    }
}
