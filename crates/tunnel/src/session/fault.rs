//! Faults of a peer.

use core::fmt;

use crate::message::{HelloMode, MessageError};
use crate::settings::Settings;

/// Reason for closing the connection with a peer. It returns, and the status keeps the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerFault {
    /// Octets that are no message.
    Message(MessageError),
    /// The first message was no Hello.
    BeforeHello,
    /// A connection has one Hello.
    SecondHello,
    /// The peer uses our own instance: both ends are one process, or one was copied while it ran.
    OwnInstance,
    /// The ends have different modes.
    Mode {
        /// This site's mode.
        ours: HelloMode,
        /// The peer's mode.
        theirs: HelloMode,
    },
    /// The ends have different windows.
    Window {
        /// W of this site.
        ours: u64,
        /// W of the peer.
        theirs: u64,
    },
    /// No lanes, or too many.
    Lanes {
        /// Number of lanes.
        lanes: u8,
    },
    /// An epoch out of order, or before the previous one was ready.
    EpochOrder {
        /// Newest known epoch.
        newest: u32,
        /// The received epoch.
        told: u32,
    },
    /// A repeated epoch with another secret.
    EpochChanged {
        /// The epoch.
        epoch: u32,
    },
    /// A new epoch with an earlier secret: its identifiers would come twice.
    SecretRepeated {
        /// The epoch.
        epoch: u32,
    },
    /// More instances than one a second.
    TooManyInstances,
    /// More epochs than one a second, in all instances.
    TooManyEpochs,
    /// The peer names an epoch that this site never offered.
    NeverOffered {
        /// The epoch.
        epoch: u32,
    },
    /// The peer requests a lane that this site does not have.
    Lane {
        /// The lane.
        lane: u8,
    },
    /// A position that is no anchor.
    NoAnchor {
        /// The position.
        seq: u64,
    },
    /// More requests than may wait for answers, or than the forwarding half can take.
    Flood,
}

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(error) => error.fmt(f),
            Self::BeforeHello => f.write_str("a message before the peer's hello"),
            Self::SecondHello => f.write_str("a second hello on one connection"),
            Self::OwnInstance => f.write_str("the peer is this very process, or a copy of it"),
            Self::Mode { ours, theirs } => {
                write!(f, "the peer has mode {theirs}, this site {ours}: both must have the same")
            }
            Self::Window { ours, theirs } => {
                write!(f, "the peer has a window of {theirs}, this site of {ours}: both must have the same")
            }
            Self::Lanes { lanes } => write!(f, "{lanes} lanes, where 1 to {} are possible", Settings::LANES),
            Self::EpochOrder { newest, told } => write!(f, "epoch {told} out of order after epoch {newest}"),
            Self::EpochChanged { epoch } => write!(f, "epoch {epoch} came again with another secret"),
            Self::SecretRepeated { epoch } => write!(f, "epoch {epoch} has the secret of one before it"),
            Self::TooManyInstances => f.write_str("more new instances than one a second"),
            Self::TooManyEpochs => f.write_str("more new epochs than one a second"),
            Self::NeverOffered { epoch } => write!(f, "epoch {epoch}, which this site never began"),
            Self::Lane { lane } => write!(f, "lane {lane}, which this site does not have"),
            Self::NoAnchor { seq } => write!(f, "position {seq}, which is no anchor"),
            Self::Flood => write!(f, "more messages than can be answered"),
        }
    }
}

impl core::error::Error for PeerFault {}

impl From<MessageError> for PeerFault {
    fn from(error: MessageError) -> Self {
        Self::Message(error)
    }
}
