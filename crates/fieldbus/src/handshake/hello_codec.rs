//! HELLO frames: their relation, and their MAC.
//!
//! The MAC covers the addresses too. So a HELLO cannot be sent back with exchanged addresses, even if both
//! stations send the same FrameID. The VLAN tag is not under the MAC, and is ignored.
//!
//! A [`HelloCodec`] needs no state of a handshake. So a data path can have one and discard forged HELLOs
//! before the handshake.
//!
//! An end with two master keys says in each HELLO which other key it has, and which of the two it prefers. So both ends
//! know the *agreed* key:
//!
//! | the ends have in common | the agreed key |
//! |---|---|
//! | one key | that one |
//! | both keys, in the same order | the preferred one |
//! | both keys, in different orders | the one that the end of the lower address prefers |
//!
//! Nobody without the keys for MACs can change the words of a HELLO about keys. So nobody can push two ends back to an old key by
//! holding HELLOs under the new one back.

use alloc::sync::Arc;

use arrayvec::ArrayVec;
use suite::fieldbus::{MasterKey, MasterKeys};
use wire::ethernet::{self, HEADER_OCTETS};
use wire::fieldbus::{
    self, HELLO_AUTHENTICATED_OCTETS, HELLO_OCTETS, HandshakeNonce, Hello, HelloState, KeyId,
    LONGEST_HELLO_OCTETS, MAC_OCTETS, MasterKeyId, OtherKey, Protection,
};
use wire::{EtherType, MacAddr};

use super::discard::HelloDiscard;
use super::offer::{ExpectedNonces, Offer};
use super::relation_key::{RelationKey, RelationKeys, relation_keys};
use crate::relation::{Local, Relation};

/// Octets of a HELLO's frame without a VLAN tag, of an end with one master key.
pub const HELLO_FRAME_OCTETS: usize = HEADER_OCTETS + HELLO_OCTETS;
/// The same of an end with two.
pub const LONGEST_HELLO_FRAME_OCTETS: usize = HEADER_OCTETS + LONGEST_HELLO_OCTETS;

/// A HELLO's frame from its destination address, without a VLAN tag.
pub type HelloOctets = ArrayVec<u8, LONGEST_HELLO_FRAME_OCTETS>;

/// Parses, verifies and writes the HELLOs of one relation.
#[derive(Clone, Debug)]
pub struct HelloCodec {
    pub(super) relation: Relation,
    pub(super) protection: Protection,
    ethertype: EtherType,
    keys: RelationKeys,
}

/// A parsed HELLO that may be the peer's, not yet verified.
#[derive(Clone, Copy, Debug)]
pub struct UnverifiedHello<'f> {
    hello: Hello,
    addresses: (MacAddr, MacAddr),
    authenticated: &'f [u8],
    mac: &'f [u8; MAC_OCTETS],
}

/// The peer's HELLO.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedHello {
    /// The HELLO.
    pub hello: Hello,
    /// This end's key that the HELLO is under, by its place.
    pub(super) under: usize,
    /// The agreed key.
    pub(super) agreed: usize,
}

/// A place to answer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    nonce: HandshakeNonce,
    key: usize,
}

impl VerifiedHello {
    /// The peer, if it asks anew.
    pub fn asker(&self) -> Option<Asker> {
        let asks = self.hello.peers.is_none() && self.hello.state == HelloState::Request;
        asks.then_some(Asker { nonce: self.hello.own, key: self.agreed })
    }
}

/// A HELLO to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutgoingHello {
    pub(super) state: HelloState,
    pub(super) own: HandshakeNonce,
    pub(super) key_id: KeyId,
    pub(super) peers: Option<HandshakeNonce>,
    /// Place of the key that it is under.
    pub(super) under: usize,
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
        masters: &MasterKeys,
        protection: Protection,
        ethertype: EtherType,
    ) -> Self {
        Self { relation: *relation, protection, ethertype, keys: relation_keys(relation, masters) }
    }

    /// Takes other master keys. False if they are the same in the same order.
    pub(super) fn change_keys(&mut self, masters: &MasterKeys) -> bool {
        let changes = !masters.iter().map(MasterKey::id).eq(self.keys.iter().map(|key| key.id));
        if changes {
            self.keys = relation_keys(&self.relation, masters);
        }
        changes
    }

    /// Number of MACs that a forged HELLO costs: one for each master key.
    pub fn macs(&self) -> usize {
        self.keys.len()
    }

    /// A key by its place.
    pub(super) fn key(&self, place: usize) -> &Arc<RelationKey> {
        &self.keys[place]
    }

    /// The place of a key, if this end still has it.
    pub(super) fn place(&self, id: MasterKeyId) -> Option<usize> {
        self.keys.iter().position(|key| key.id == id)
    }

    /// Place of the agreed key: the table of the module's documentation.
    fn agreed(&self, under: usize, hello: &Hello) -> usize {
        let both = |other: &OtherKey| self.place(other.id).filter(|place| *place != under);
        match hello.other_key.and_then(|other| Some((both(&other)?, other.preferred))) {
            None => under,
            Some(_) if self.relation.local() == Local::Lower => 0,
            Some((other, true)) => other,
            Some((_, false)) => under,
        }
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
        let (hello, authenticated, mac) = Hello::parse(octets).map_err(|_| HelloDiscard::Malformed)?;
        if header.seq.is_some() {
            return Err(HelloDiscard::Malformed);
        }
        let addresses = (ethernet.destination, ethernet.source);
        Ok(UnverifiedHello { hello, addresses, authenticated, mac })
    }

    /// Verifies that the HELLO is the peer's. Computes a MAC for each master key at most.
    ///
    /// # Errors
    /// [`HelloDiscard::NotValid`], [`HelloDiscard::OtherMode`].
    pub fn verify(&self, claim: &UnverifiedHello<'_>) -> Result<VerifiedHello, HelloDiscard> {
        let UnverifiedHello { hello, addresses: (destination, source), authenticated, mac } = *claim;
        let is_under = |key: &Arc<RelationKey>| key.hello.verify(destination, source, authenticated, mac);
        let under = self.keys.iter().position(is_under).ok_or(HelloDiscard::NotValid)?;
        if hello.protection != self.protection {
            return Err(HelloDiscard::OtherMode);
        }
        Ok(VerifiedHello { hello, under, agreed: self.agreed(under, &hello) })
    }

    /// Answer to a peer that asks anew, with the codec that verified its HELLO. The handshake would answer the same, and
    /// change nothing.
    pub fn answer(&self, nonces: &ExpectedNonces, asker: Asker) -> HelloOctets {
        let Offer { nonce: own, key_id } = nonces.offer;
        let (peers, under) = (Some(asker.nonce), asker.key);
        self.write(&OutgoingHello { state: HelloState::Request, own, key_id, peers, under })
    }

    pub(super) fn write(&self, hello: &OutgoingHello) -> HelloOctets {
        let ((source, frame_id), (destination, _)) = (self.relation.own(), self.relation.peer());
        let key = self.key(hello.under);
        let other = self.keys.iter().enumerate().find(|(place, _)| *place != hello.under);
        let hello = Hello {
            frame_id,
            key_id: hello.key_id,
            state: hello.state,
            protection: self.protection,
            own: hello.own,
            peers: hello.peers,
            other_key: other.map(|(place, key)| OtherKey { id: key.id, preferred: place < hello.under }),
        };
        let mut buffer = [0; HELLO_AUTHENTICATED_OCTETS];
        let authenticated = hello.encode(&mut buffer);
        let mac = key.hello.mac(destination, source, authenticated);
        let parts = [&destination.0[..], &source.0, &self.ethertype.0.to_be_bytes(), authenticated, &mac];
        parts.into_iter().flatten().copied().collect()
    }
}
