//! What an examination is made with.

use std::time::Duration;

use wire::{MacAddr, Sci};

use super::super::frame::Status;
use super::super::keys::MacKey;

/// An end of the link.
#[derive(Clone, Debug)]
pub struct Party {
    /// Its SCI.
    pub sci: Sci,
    /// The MAC keys of what it may send with: one, or one for each AN.
    pub keys: Vec<MacKey>,
}

/// What an examination is made with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// This end; its first key makes MACs.
    pub own: Party,
    /// The other ends.
    pub peers: Vec<Party>,
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
    /// How long the other one may take to answer at all.
    pub patience: Duration,
    /// What the other one is told of this end.
    pub facts: Status,
}

impl Setup {
    /// The most probes of a stream: their numbers are kept.
    pub const MOST_PROBES: u32 = 1 << 20;
}
