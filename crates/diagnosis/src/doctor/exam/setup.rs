//! Settings of an examination.

use std::borrow::Cow;
use std::time::Duration;

use wire::{MacAddr, Sci};

use super::super::frame::Status;
use super::super::keys::MacKey;
use config::key_file::NamedCak;

/// An end of the link.
#[derive(Clone, Debug)]
pub struct Party {
    /// Its SCI.
    pub sci: Sci,
    /// The MAC keys of what it may send with: one, or one for each AN.
    pub keys: Vec<MacKey>,
}

/// Whom a doctor believes to be of the link.
#[derive(Clone, Debug)]
pub enum Peers {
    /// These ends, with static keys.
    Known(Vec<Party>),
    /// Any station with one of these CAKs.
    Group(Vec<NamedCak>),
}

impl Peers {
    /// The MAC keys that a sender may have; none if it is no peer.
    pub(in super::super) fn keys_of(&self, sender: Sci) -> Option<Cow<'_, [MacKey]>> {
        match self {
            Self::Known(parties) => {
                parties.iter().find(|peer| peer.sci == sender).map(|peer| Cow::Borrowed(&*peer.keys))
            }
            Self::Group(caks) => Some(caks.iter().map(|cak| MacKey::derive(cak.octets(), sender)).collect()),
        }
    }
}

/// Settings of an examination.
#[derive(Clone, Debug)]
pub struct Setup {
    /// This end; its first key makes MACs.
    pub own: Party,
    /// The other ends.
    pub peers: Peers,
    /// The protected port's address.
    pub mac: MacAddr,
    /// The session, drawn anew; not 0.
    pub session: u64,
    /// The MTU that frames shall cross with.
    pub mtu: u16,
    /// Probes of the stream, at most [`Setup::MOST_PROBES`].
    pub probes: u32,
    /// The shortest time between two probes.
    pub pause: Duration,
    /// Time the peer may take to answer at all.
    pub patience: Duration,
    /// Facts about this end for the peer.
    pub facts: Status,
}

impl Setup {
    /// The most probes of a stream: their numbers are kept.
    pub const MOST_PROBES: u32 = 1 << 20;
}
