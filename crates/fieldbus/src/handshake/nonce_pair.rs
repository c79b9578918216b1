//! The two nonces of a session, and the derived keys.

use alloc::sync::Arc;

use suite::fieldbus::KeyContext;
use wire::fieldbus::{HandshakeNonce, KeyId, Protection};

use super::relation_key::RelationKey;
use crate::relation::{Local, Relation};
use crate::session::{EpochKey, Session, SessionNumber};

/// A session that this end has entered.
#[derive(Clone, Debug)]
pub(super) struct NoncePair {
    pub(super) number: SessionNumber,
    /// The master key that the session rests on.
    pub(super) key: Arc<RelationKey>,
    pub(super) own: HandshakeNonce,
    pub(super) peers: HandshakeNonce,
    /// The KeyIDs of epoch 0.
    pub(super) transmit: KeyId,
    pub(super) receive: KeyId,
    /// Highest epoch with a transmit key.
    pub(super) transmit_epochs: u64,
}

impl NoncePair {
    pub(super) const fn new(
        number: SessionNumber,
        key: Arc<RelationKey>,
        own: HandshakeNonce,
        transmit: KeyId,
        peers: HandshakeNonce,
        receive: KeyId,
    ) -> Self {
        // A session begins with the keys of epochs 0 and 1.
        Self { number, key, own, peers, transmit, receive, transmit_epochs: 1 }
    }

    pub(super) fn session(&self, relation: &Relation, protection: Protection) -> Session {
        Session {
            number: self.number,
            transmit: [0, 1].map(|epoch| self.transmit_key(relation, protection, epoch)),
            receive: [0, 1].map(|epoch| self.receive_key(relation, protection, epoch)),
        }
    }

    /// Last KeyID with a transmit key.
    pub(super) const fn last_transmit(&self) -> KeyId {
        nth(self.transmit, self.transmit_epochs)
    }

    /// Distance of this KeyID from it.
    pub(super) const fn transmit_room(&self, key_id: KeyId) -> u8 {
        key_id.0.wrapping_sub(self.last_transmit().0)
    }

    pub(super) fn transmit_key(&self, relation: &Relation, protection: Protection, epoch: u64) -> EpochKey {
        let context = self.direction(relation, protection, relation.local() == Local::Higher, epoch);
        EpochKey { key_id: nth(self.transmit, epoch), epoch, key: self.key.master.direction_key(&context) }
    }

    pub(super) fn receive_key(&self, relation: &Relation, protection: Protection, epoch: u64) -> EpochKey {
        let context = self.direction(relation, protection, relation.local() == Local::Lower, epoch);
        EpochKey { key_id: nth(self.receive, epoch), epoch, key: self.key.master.direction_key(&context) }
    }

    fn direction(
        &self,
        relation: &Relation,
        protection: Protection,
        from_higher: bool,
        epoch: u64,
    ) -> KeyContext {
        let nonces = match relation.local() {
            Local::Lower => [self.own, self.peers],
            Local::Higher => [self.peers, self.own],
        };
        KeyContext { stations: *relation.stations(), from_higher, nonces, protection, epoch }
    }
}

/// KeyID of an epoch: counted modulo 256.
const fn nth(first: KeyId, epoch: u64) -> KeyId {
    KeyId(first.0.wrapping_add((epoch % 256) as u8))
}
