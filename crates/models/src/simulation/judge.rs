//! Promises by which a world is judged.

use std::fmt;
use std::time::Duration;

use suite::Nonce;

/// Digest of a key, and a nonce.
pub(super) type Used = (u64, [u8; Nonce::OCTETS]);

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A key protects two frames with one nonce.
    NonceTwice(String),
    /// Plaintext on the network.
    Plaintext(String),
    /// A frame is delivered that nobody sent there.
    Forged(String),
    /// A frame is delivered twice.
    Twice(String),
    /// A part cannot do what another one says.
    Impossible(String),
    /// A crash leaves state that a start refuses.
    Refused(String),
    /// Frames are lost though the network has been fair for long.
    NotHealed(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, why) = match self {
            Self::NonceTwice(why) => ("no nonce comes twice", why),
            Self::Plaintext(why) => ("no plaintext on the network", why),
            Self::Forged(why) => ("only what was sent is delivered", why),
            Self::Twice(why) => ("no frame is delivered twice", why),
            Self::Impossible(why) => ("each part can do what it is told", why),
            Self::Refused(why) => ("state outlives a crash", why),
            Self::NotHealed(why) => ("outages heal", why),
        };
        write!(f, "NOT SO: {what}: {why}")
    }
}

/// A run that broke nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Virtual time of the run.
    pub time: Duration,
    /// Frames that were protected, delivered; faults that were drawn; upgrades.
    pub counts: [u64; 4],
    /// Time from the last fault until no frame was lost any more.
    pub healed: Duration,
    /// Digest of all that was on the network: equal for the same seed.
    pub print: u64,
}

/// Frames that a machine has sent, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    pub(super) count: u64,
    /// Moments of those since the last fault.
    calm: Vec<u64>,
}

impl Sent {
    /// The number of another frame, sent at `now`; `is_calm`: no fault comes any more.
    pub(super) fn another(&mut self, now: u64, is_calm: bool) -> u64 {
        self.count += 1;
        if is_calm {
            self.calm.push(now);
        }
        self.count
    }

    /// Moment of the last frame since the last fault and before `until` that is not among those that arrived.
    pub(super) fn last_lost(&self, until: u64, arrived: impl Fn(u64) -> bool) -> Option<u64> {
        let first = self.count + 1 - self.calm.len() as u64;
        let numbers = self.calm.iter().enumerate().rev().filter(|(_, at)| **at < until);
        let lost = |(place, _): &(usize, &u64)| !arrived(first + *place as u64);
        numbers.filter(lost).map(|(_, at)| *at).next()
    }
}
