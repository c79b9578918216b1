//! HELLO frames: their relation, and their MAC.
//!
//! The MAC covers the addresses too. So a HELLO cannot be sent back with exchanged addresses, even if both
//! stations send the same FrameID. The VLAN tag is not under the MAC, and is ignored.
//!
//! A [`HelloCodec`] needs no state of a handshake. So a data path can have one and discard forged HELLOs
//! before the handshake. Both share one key behind a pointer, wiped with the last of them.

use alloc::sync::Arc;

use suite::fieldbus::{HelloKey, MasterKey};
use wire::ethernet::{self, HEADER_OCTETS};
use wire::fieldbus::{
    self, HELLO_AUTHENTICATED_OCTETS, HELLO_OCTETS, HandshakeNonce, Hello, HelloState, KeyId, MAC_OCTETS,
    Protection,
};
use wire::{EtherType, MacAddr};

use super::discard::HelloDiscard;
use super::offer::{ExpectedNonces, Offer};
use crate::relation::Relation;

/// Octets of a HELLO's frame, without a VLAN tag.
pub const HELLO_FRAME_OCTETS: usize = HEADER_OCTETS + HELLO_OCTETS;

/// Parses, verifies and writes the HELLOs of one relation.
#[derive(Clone, Debug)]
pub struct HelloCodec {
    pub(super) relation: Relation,
    pub(super) protection: Protection,
    ethertype: EtherType,
    key: Arc<HelloKey>,
}

/// A parsed HELLO that may be the peer's, not yet verified.
#[derive(Clone, Copy, Debug)]
pub struct UnverifiedHello<'f> {
    hello: Hello,
    addresses: (MacAddr, MacAddr),
    authenticated: &'f [u8],
    mac: &'f [u8; MAC_OCTETS],
}

/// A HELLO to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutgoingHello {
    pub(super) state: HelloState,
    pub(super) own: HandshakeNonce,
    pub(super) key_id: KeyId,
    pub(super) peers: Option<HandshakeNonce>,
}

impl UnverifiedHello<'_> {
    /// True if it names one of these nonces.
    pub fn answers(&self, nonces: &ExpectedNonces) -> bool {
        self.hello.peers.is_some_and(|nonce| nonces.contains(nonce))
    }

    /// Its MAC.
    pub const fn mac(&self) -> &[u8; MAC_OCTETS] {
        self.mac
    }
}

impl HelloCodec {
    pub(super) fn new(
        relation: &Relation,
        master: &MasterKey,
        protection: Protection,
        ethertype: EtherType,
    ) -> Self {
        let key = Arc::new(master.hello_key(relation.stations()));
        Self { relation: *relation, protection, ethertype, key }
    }

    /// Parses a frame from its destination address. Computes no MAC.
    ///
    /// # Errors
    /// The reason why it cannot be the peer's.
    pub fn parse<'f>(&self, frame: &'f [u8]) -> Result<UnverifiedHello<'f>, HelloDiscard> {
        let ethernet = ethernet::Header::parse(frame).map_err(|_| HelloDiscard::Malformed)?;
        if ethernet.ethertype != self.ethertype {
            return Err(HelloDiscard::Malformed);
        }
        let octets = &frame[ethernet.octets()..];
        let header = fieldbus::Header::parse(octets).map_err(|_| HelloDiscard::Malformed)?;
        let (own, peer) = (self.relation.own(), self.relation.peer());
        let direction = (ethernet.source, ethernet.destination, header.frame_id);
        if direction == (own.0, peer.0, own.1) {
            return Err(HelloDiscard::Reflected);
        }
        if direction != (peer.0, own.0, peer.1) {
            return Err(HelloDiscard::OtherRelation);
        }
        let (hello, mac) = Hello::parse(octets).map_err(|_| HelloDiscard::Malformed)?;
        if header.seq.is_some() {
            return Err(HelloDiscard::Malformed);
        }
        let addresses = (ethernet.destination, ethernet.source);
        Ok(UnverifiedHello { hello, addresses, authenticated: &octets[..HELLO_AUTHENTICATED_OCTETS], mac })
    }

    /// Verifies that the HELLO is the peer's. Computes a MAC.
    ///
    /// # Errors
    /// [`HelloDiscard::NotValid`], [`HelloDiscard::OtherMode`].
    pub fn verify(&self, claim: &UnverifiedHello<'_>) -> Result<Hello, HelloDiscard> {
        let (destination, source) = claim.addresses;
        if !self.key.verify(destination, source, claim.authenticated, claim.mac) {
            return Err(HelloDiscard::NotValid);
        }
        if claim.hello.protection != self.protection {
            return Err(HelloDiscard::OtherMode);
        }
        Ok(claim.hello)
    }

    /// Answer to a HELLO with this nonce that names none of ours. The handshake would answer the same, and
    /// change nothing.
    pub fn answer(&self, nonces: &ExpectedNonces, peers: HandshakeNonce) -> [u8; HELLO_FRAME_OCTETS] {
        let Offer { nonce: own, key_id } = nonces.offer;
        self.write(&OutgoingHello { state: HelloState::Request, own, key_id, peers: Some(peers) })
    }

    pub(super) fn write(&self, hello: &OutgoingHello) -> [u8; HELLO_FRAME_OCTETS] {
        let ((source, frame_id), (destination, _)) = (self.relation.own(), self.relation.peer());
        let hello = Hello {
            frame_id,
            key_id: hello.key_id,
            state: hello.state,
            protection: self.protection,
            own: hello.own,
            peers: hello.peers,
        };
        let authenticated = hello.authenticated_octets();
        let mut frame = [0; HELLO_FRAME_OCTETS];
        let (header, rest) = frame.split_at_mut(HEADER_OCTETS);
        header[..6].copy_from_slice(&destination.0);
        header[6..12].copy_from_slice(&source.0);
        header[12..].copy_from_slice(&self.ethertype.0.to_be_bytes());
        rest[..HELLO_AUTHENTICATED_OCTETS].copy_from_slice(&authenticated);
        rest[HELLO_AUTHENTICATED_OCTETS..].copy_from_slice(&self.key.mac(
            destination,
            source,
            &authenticated,
        ));
        frame
    }
}
