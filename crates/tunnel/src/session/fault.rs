//! What a peer did wrong.

use core::fmt;

use crate::message::{HelloMode, MessageError};
use crate::settings::Settings;

/// Why the connection with a peer is closed. It comes again, and the reason stands in the status until then and after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerFault {
    /// No message.
    Message(MessageError),
    /// The first message was no Hello.
    BeforeHello,
    /// A connection has one Hello.
    SecondHello,
    /// The peer calls itself by our own instance: both ends are one process, or one was copied while it ran.
    OwnInstance,
    /// Both ends have to say the same mode.
    Mode {
        /// What this site has in its configuration.
        ours: HelloMode,
        /// What the peer said.
        theirs: HelloMode,
    },
    /// Both ends have to say the same window.
    Window {
        /// W of this site.
        ours: u64,
        /// W of the peer.
        theirs: u64,
    },
    /// No lanes, or too many.
    Lanes {
        /// How many.
        lanes: u8,
    },
    /// An epoch that is not the next one, or comes before the one in front of it was ready.
    EpochOrder {
        /// The newest one that is known.
        newest: u32,
        /// The one that was told.
        told: u32,
    },
    /// An epoch again, with another secret.
    EpochChanged {
        /// Which.
        epoch: u32,
    },
    /// A new epoch with the secret of one of those before: its identifiers would come twice.
    SecretRepeated {
        /// Which.
        epoch: u32,
    },
    /// More epochs than one a second.
    TooManyEpochs,
    /// The peer speaks of an epoch that this site never told it.
    NeverOffered {
        /// Which.
        epoch: u32,
    },
    /// The peer asks for a lane that this site does not have.
    Lane {
        /// Which.
        lane: u8,
    },
    /// A position that is no anchor.
    NoAnchor {
        /// The position.
        seq: u64,
    },
    /// More requests than answers are waited for, or than the forwarding half can take.
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
