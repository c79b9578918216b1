//! A handshake for the next program of its process.
//!
//! No secret is in it. Nonces were sent in clear, or will be; the keys of sessions are derived from them again, under the master keys of the
//! next program's configuration. Its random values begin anew.

use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use suite::fieldbus::MasterKeys;
use wire::fieldbus::{HandshakeNonce, KeyId, MASTER_KEY_ID_OCTETS, MasterKeyId, NONCE_OCTETS, Protection};
use wire::{EtherType, Instant};

use super::nonce_pair::NoncePair;
use super::offer::Offer;
use super::{Handshake, HelloCounters};
use crate::passed_on::PassedOnError;
use crate::relation::Relation;
use crate::session::SessionNumber;

/// State of a handshake.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PassedHandshake {
    offer: [u8; NONCE_OCTETS],
    /// KeyID of the offer.
    key_id: u8,
    newest: Option<PassedPair>,
    before: Option<PassedPair>,
    confirmed: bool,
    wanted: bool,
    settled: bool,
    sessions: u32,
    asked: u32,
    due: Option<Instant>,
    counters: Vec<u64>,
}

/// A session that was entered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PassedPair {
    number: u32,
    /// Identifier of the master key that it rests on.
    master_key: [u8; MASTER_KEY_ID_OCTETS],
    own: [u8; NONCE_OCTETS],
    peers: [u8; NONCE_OCTETS],
    /// The KeyIDs of epoch 0.
    transmit: u8,
    receive: u8,
    transmit_epochs: u64,
}

impl PassedPair {
    fn of(pair: &NoncePair) -> Self {
        Self {
            number: pair.number.0,
            master_key: pair.key.id.0,
            own: pair.own.0,
            peers: pair.peers.0,
            transmit: pair.transmit.0,
            receive: pair.receive.0,
            transmit_epochs: pair.transmit_epochs,
        }
    }
}

impl Handshake {
    /// State for the next program. None while a session rests on a removed master key, which the next program does not have; that ends within
    /// [`super::REMOVED_KEY_TIME`].
    pub fn pass_on(&self) -> Option<PassedHandshake> {
        if self.rests_on_removed_key() {
            return None;
        }
        Some(PassedHandshake {
            offer: self.offer.nonce.0,
            key_id: self.offer.key_id.0,
            newest: self.newest.as_ref().map(PassedPair::of),
            before: self.before.as_ref().map(PassedPair::of),
            confirmed: self.confirmed,
            wanted: self.wanted,
            settled: self.settled,
            sessions: self.sessions,
            asked: self.asked,
            due: self.due,
            counters: self.counters.values().to_vec(),
        })
    }

    /// Goes on with the handshake of the program before, on the same clock. `seed`: as for [`Handshake::new`], of new random values.
    ///
    /// # Errors
    /// If a session rests on none of these master keys, or it is no state of a handshake.
    pub fn go_on(
        relation: &Relation,
        masters: &MasterKeys,
        protection: Protection,
        ethertype: EtherType,
        seed: &[u8; 32],
        passed: &PassedHandshake,
    ) -> Result<Self, PassedOnError> {
        let new = Self::new(relation, masters, protection, ethertype, seed);
        let pair = |passed: &PassedPair| {
            let key = new.hello_codec.place(MasterKeyId(passed.master_key));
            let key = Arc::clone(new.hello_codec.key(key.ok_or(PassedOnError::MasterKey)?));
            let PassedPair { number, own, peers, transmit, receive, transmit_epochs, .. } = passed;
            let number = SessionNumber(*number);
            let [own, peers] = [own, peers].map(|nonce| HandshakeNonce(*nonce));
            let pair = NoncePair::new(number, key, own, KeyId(*transmit), peers, KeyId(*receive));
            Ok(NoncePair { transmit_epochs: *transmit_epochs, ..pair })
        };
        let newest = passed.newest.as_ref().map(pair).transpose()?;
        let before = passed.before.as_ref().map(pair).transpose()?;
        let is_one_twice = newest.as_ref().zip(before.as_ref()).is_some_and(|(a, b)| a.number == b.number);
        let is_whole = !is_one_twice
            && passed.offer != [0; NONCE_OCTETS]
            && (newest.is_some() || before.is_none() && !passed.confirmed)
            && [&newest, &before].into_iter().flatten().all(|pair| pair.number.0 <= passed.sessions);
        let counters = passed.counters.as_slice().try_into().ok().filter(|_| is_whole);
        let counters = HelloCounters::from_values(counters.ok_or(PassedOnError::Garbled)?);
        Ok(Self {
            offer: Offer { nonce: HandshakeNonce(passed.offer), key_id: KeyId(passed.key_id) },
            newest,
            confirmed: passed.confirmed,
            wanted: passed.wanted,
            settled: passed.settled,
            sessions: passed.sessions,
            before,
            asked: passed.asked,
            due: passed.due,
            counters,
            ..new
        })
    }
}
