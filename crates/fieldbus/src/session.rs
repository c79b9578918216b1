//! The keys that two gateways use for a relation.
//!
//! A *session* begins with two fresh nonces, one of each end, and has *epochs*, each with a key for each direction. A
//! direction's KeyID counts its keys, over sessions too. An end has the keys of the current epoch and of the next, so a
//! change of epochs needs no message: the sender changes when its Seq runs out, the receiver with the first frame that
//! it verifies under the next key. Nothing goes back.

use suite::fieldbus::DirectionKey;
use wire::fieldbus::KeyId;

/// The key of one direction in one epoch, and its name on the wire.
#[derive(Debug)]
pub struct EpochKey {
    /// Its name.
    pub key_id: KeyId,
    /// Of which epoch of its session.
    pub epoch: u64,
    /// The key.
    pub key: DirectionKey,
}

/// Counts the sessions of a relation that one end has entered since it started; for this end alone. What the data path
/// says of a session can come when the handshake has entered another: without the number, a frame heard in one session
/// would confirm the next, and the key of an epoch would be made for the wrong one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionNumber(pub u32);

/// What an end needs to take part in a session of a relation: for each direction the keys of epochs 0 and 1.
#[derive(Debug)]
pub struct Session {
    /// Which of this end's sessions it is.
    pub number: SessionNumber,
    /// For frames of the local station.
    pub transmit: [EpochKey; 2],
    /// For frames of its peer.
    pub receive: [EpochKey; 2],
}
