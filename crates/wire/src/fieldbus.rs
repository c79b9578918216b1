//! What protected cyclic frames carry between two gateways (the project's wire formats, section 4; after Skuballa et al.,
//! "Cryptographic Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses", section IV).
//!
//! ```text
//! machine:    DA 6 | SA 6 | [VLAN 4] | 0x8892 2 | FrameID 2 | payload n
//! protected:  DA 6 | SA 6 | [VLAN 4] | EtherType 2 | FrameID 2 | KeyID 1 | Seq 4 | payload n | ICV 16
//! HELLO:      DA 6 | SA 6 | [VLAN 4] | EtherType 2 | FrameID 2 | KeyID 1 | 0 4   | State 1 | nonce 16 | peer's nonce 16 | MAC 32
//! ```
//!
//! The addresses and the FrameID are those of the machines. A frame of Seq 0 is a HELLO: IO data begins at 1. All numbers
//! are big-endian. Octets behind a HELLO are padding.
//!
//! Left out on purpose: finding the EtherType (`ethernet`), and what any of it means (crate `fieldbus`).

use core::fmt;

use crate::EtherType;

/// The EtherType of protected frames where no other is configured: IEEE 802's first for local experiments.
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
/// Octets of a HELLO from its FrameID on.
pub const HELLO_OCTETS: usize = HEADER_OCTETS + 1 + 2 * NONCE_OCTETS + MAC_OCTETS;
/// Of these, the octets that the MAC is made of; the addresses stand in front of them.
pub const HELLO_AUTHENTICATED_OCTETS: usize = HELLO_OCTETS - MAC_OCTETS;

/// A FrameID: which cyclic data this is, between two stations (IEC 61158-6-10).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u16);

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

/// Which of a direction's keys protects a frame: counts its changes, modulo 256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct KeyId(pub u8);

impl KeyId {
    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// A sequence number under one key: 1 for the first frame. 0 is none.
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

    /// As a number.
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    /// The one after it, if there is one.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// What a protected frame says of itself, behind the EtherType.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The machines' FrameID.
    pub frame_id: FrameId,
    /// Under which key.
    pub key_id: KeyId,
    /// Which frame under that key; none in a HELLO.
    pub seq: Option<Seq>,
}

/// What stands behind the EtherType ends before it is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldbusError {
    /// Fewer than [`HEADER_OCTETS`].
    TruncatedHeader,
    /// Seq is 0, and fewer than [`HELLO_OCTETS`] are there.
    TruncatedHello,
    /// A HELLO whose State has a bit that has no meaning.
    UnknownState,
}

impl Header {
    /// Reads what stands behind the EtherType.
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

    /// The octets.
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

/// 16 octets that an end drew for one handshake. Not secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HandshakeNonce(pub [u8; NONCE_OCTETS]);

/// What a HELLO is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloState {
    /// Its sender asks for an answer. It does not say whether it has entered a session.
    Request,
    /// Its sender has entered the session of the two nonces, and receives under its keys; it wants nothing more.
    Entered,
}

/// What is done with the payload. The ICV is always over addresses, header and payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protect {
    /// It stays in clear.
    Authenticate,
    /// It is encrypted.
    Encrypt,
}

/// AES-GCM-128 or AES-GCM-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyBits {
    /// Keys of 16 octets.
    Bits128,
    /// Keys of 32 octets.
    Bits256,
}

/// How the frames of a relation are protected, in both directions: both ends are configured alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Protection {
    /// What is done with the payload.
    pub protect: Protect,
    /// How long the keys are.
    pub key_bits: KeyBits,
}

impl Protection {
    /// As it stands in a HELLO and in the derivation of keys: `0 0 0 0 0 | 256 | E | 0`.
    pub const fn octet(self) -> u8 {
        let encrypts = match self.protect {
            Protect::Authenticate => 0,
            Protect::Encrypt => 2,
        };
        match self.key_bits {
            KeyBits::Bits128 => encrypts,
            KeyBits::Bits256 => encrypts | 4,
        }
    }
}

/// A HELLO, from the FrameID to the MAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The FrameID of the direction that it is sent in.
    pub frame_id: FrameId,
    /// The KeyID of the first frames that its sender protects in the session of these nonces.
    pub key_id: KeyId,
    /// Whether the sender has entered that session.
    pub state: HelloState,
    /// How the sender protects.
    pub protection: Protection,
    /// The sender's nonce.
    pub own: HandshakeNonce,
    /// The receiver's, as far as the sender knows it.
    pub peers: Option<HandshakeNonce>,
}

impl Hello {
    /// Reads what stands behind the EtherType, whose Seq is 0, and the MAC behind it, which is still to be verified.
    ///
    /// # Errors
    /// What the octets lack.
    pub fn parse(octets: &[u8]) -> Result<(Self, &[u8; MAC_OCTETS]), FieldbusError> {
        let octets = octets.first_chunk::<HELLO_OCTETS>().ok_or(FieldbusError::TruncatedHello)?;
        let Header { frame_id, key_id, .. } = Header::parse(octets)?;
        let rest = &octets[HEADER_OCTETS + 1..];
        let (own, rest) = rest.split_first_chunk().ok_or(FieldbusError::TruncatedHello)?;
        let (peers, rest) = rest.split_first_chunk().ok_or(FieldbusError::TruncatedHello)?;
        let mac = rest.first_chunk().ok_or(FieldbusError::TruncatedHello)?;
        let state_octet = octets[HEADER_OCTETS];
        if state_octet & !7 != 0 {
            return Err(FieldbusError::UnknownState);
        }
        let state = if state_octet & 1 == 0 { HelloState::Request } else { HelloState::Entered };
        let protection = Protection {
            protect: if state_octet & 2 == 0 { Protect::Authenticate } else { Protect::Encrypt },
            key_bits: if state_octet & 4 == 0 { KeyBits::Bits128 } else { KeyBits::Bits256 },
        };
        // A nonce of zeros is drawn by nobody: that is what "none" looks like.
        let peers = (*peers != [0; NONCE_OCTETS]).then_some(HandshakeNonce(*peers));
        Ok((Self { frame_id, key_id, state, protection, own: HandshakeNonce(*own), peers }, mac))
    }

    /// The octets that the MAC is made of, behind the addresses.
    pub fn authenticated_octets(&self) -> [u8; HELLO_AUTHENTICATED_OCTETS] {
        let mut octets = [0; HELLO_AUTHENTICATED_OCTETS];
        let header = Header { frame_id: self.frame_id, key_id: self.key_id, seq: None };
        octets[..HEADER_OCTETS].copy_from_slice(&header.encode());
        octets[HEADER_OCTETS] = self.protection.octet() | u8::from(self.state == HelloState::Entered);
        let (own, peers) = octets[HEADER_OCTETS + 1..].split_at_mut(NONCE_OCTETS);
        own.copy_from_slice(&self.own.0);
        peers.copy_from_slice(&self.peers.map_or([0; NONCE_OCTETS], |nonce| nonce.0));
        octets
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
            frame_id: u16, key_id: u8, state in 0u8..8, own: [u8; 16], peers: Option<[u8; 16]>, mac: [u8; 32],
            behind in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let hello = Hello {
                frame_id: FrameId(frame_id),
                key_id: KeyId(key_id),
                state: if state & 1 == 1 { HelloState::Entered } else { HelloState::Request },
                protection: Protection {
                    protect: if state & 2 == 2 { Protect::Encrypt } else { Protect::Authenticate },
                    key_bits: if state & 4 == 4 { KeyBits::Bits256 } else { KeyBits::Bits128 },
                },
                own: HandshakeNonce(own),
                peers: peers.filter(|nonce| *nonce != [0; 16]).map(HandshakeNonce),
            };
            let octets = [&hello.authenticated_octets()[..], &mac, &behind].concat();
            prop_assert_eq!(Header::parse(&octets).unwrap().seq, None);
            prop_assert_eq!(Hello::parse(&octets), Ok((hello, &mac)));
            for short in 0..HELLO_OCTETS {
                prop_assert_eq!(Hello::parse(&octets[..short]), Err(FieldbusError::TruncatedHello));
            }
            let mut other = octets;
            other[HEADER_OCTETS] |= 8;
            prop_assert_eq!(Hello::parse(&other), Err(FieldbusError::UnknownState));
        }
    }
}
