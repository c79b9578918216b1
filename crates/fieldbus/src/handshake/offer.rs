//! An offer for the next session, and the nonces that answers to it name.

use wire::fieldbus::{HandshakeNonce, KeyId};

/// Nonces of this end that a HELLO can usefully name. They change with a session only: at an event of the
/// handshake, or a request for another epoch's key.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedNonces {
    pub(super) offer: Offer,
    pub(super) newest: Option<HandshakeNonce>,
}

impl ExpectedNonces {
    /// True if the nonce is one of them.
    pub fn contains(&self, nonce: HandshakeNonce) -> bool {
        nonce == self.offer.nonce || self.newest == Some(nonce)
    }
}

/// An end's contribution to its next session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) nonce: HandshakeNonce,
    /// KeyID of its first frames there.
    pub(super) key_id: KeyId,
}
