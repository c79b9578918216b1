//! Keys of two gateways for a relation.
//!
//! A *session* begins with two fresh nonces, one of each end. It has *epochs*, each with a key for each
//! direction. A direction's KeyID counts its keys, across sessions too. An end has the keys of the current
//! epoch and of the next, so a change of epochs needs no message: the sender changes when its Seq runs out,
//! the receiver with the first frame verified under the next key. Nothing goes back.

use suite::fieldbus::DirectionKey;
use wire::fieldbus::KeyId;

/// Key of one direction in one epoch, with its identifier on the wire.
#[derive(Debug)]
pub struct EpochKey {
    /// Its identifier.
    pub key_id: KeyId,
    /// Epoch of its session.
    pub epoch: u64,
    /// The key.
    pub key: DirectionKey,
}

/// Number of a session that one end has entered since its start; meaningful for this end only. The data path
/// may report on a session after the handshake has entered another. Without the number, a frame of one
/// session would confirm the next, and an epoch's key would be made for the wrong session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionNumber(pub u32);

/// Keys of a session of a relation: epochs 0 and 1 of each direction.
#[derive(Debug)]
pub struct Session {
    /// This end's number of the session.
    pub number: SessionNumber,
    /// Keys for frames of the local station.
    pub transmit: [EpochKey; 2],
    /// Keys for frames of its peer.
    pub receive: [EpochKey; 2],
}
