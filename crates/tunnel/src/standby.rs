//! Two boxes on one LAN: which of them forwards. Sans I/O, on the caller's clock.
//!
//! ```text
//!  Listening ──▶ Standby ◀──▶ Active ──▶ Leaving ──▶ Standby
//! ```
//!
//! Both send *beats* ([`Beat`]) on the LAN, whatever they do. Three times follow from one setting, T ([`Timing`]): beats go every T/8; a
//! box that hears none for T takes over; and a box forwards for no longer than 5T/8 after a beat of its own left (its *lease*). So a box
//! that stands still or has no link has stopped forwarding before the other one begins.
//!
//! | role | hears | becomes |
//! |---|---|---|
//! | `Listening`, for 4T; for T after a stall; in all for half of the longest T after the first beat that leaves | an active partner | `Standby` |
//! | | nothing until the end | `Active` |
//! | | a partner that does not forward, until the end | `Standby` |
//! | `Standby` | nothing for T; that the partner leaves; or that it listens, after it forwarded | `Active` |
//! | | a partner that comes second, and knows that this box stands by | `Active` |
//! | `Active` | an active partner that does not hear this box, or comes first | `Standby` |
//! | | (the lease has ended: this box stood still, or its beats did not leave) | `Listening` |
//! | `Leaving` | an active partner | `Standby`, and lets what is under way pass for a second |
//! | | none for T | `Listening`, for T: the partner may follow still |
//!
//! Of two boxes the one that is `preferred` comes first; if both or neither are, the one with the lower public key. T is the larger one of
//! both boxes' settings, as soon as they have heard each other.
//!
//! **No link.** What the interface does not take was not sent ([`Election::sent`]), and as long as the box may forward, it tries again after T/64: a queue
//! may be full. A box of which no beat left for the length of a lease
//! decides nothing, and listens once they leave again: meanwhile the partner may have taken over. Silence of the partner alone is no
//! reason: it may be dead. This needs nobody who looks at the interface and tells.
//!
//! **Silence** counts up to the moment at which all that had come was heard ([`Election::listened`]): a beat that waits is no silence.
//!
//! **Freshness.** A beat has the session of its sender, random bits of a start, and a seq. It says which beat of the receiver its sender
//! heard last. A beat of a known session needs a higher seq. One of another session also has to name a beat that this box sent within
//! T. Nor does a box begin to forward for what a beat says that names none of the last T/2: it may have waited while the box stood still.
//! Of sessions that have not shown yet that they are there, a box names in each beat the one that has the lowest hash with the beat's
//! number. So whoever sends recorded beats of n starts, however many, leaves the living one named once in n + 1 beats. A box listens for
//! T longer, once, if one of them was heard just before the end.
//!
//! **What is guaranteed.** As long as one of three beats in a row arrives within T/8, never more than one box forwards, also if one of the
//! two stands still or has no link meanwhile: two lost beats and a lease are less than T. If the LAN loses all beats but carries frames,
//! both do. The first beat that arrives ends that: whoever is not heard yields, and among two that hear each other the second.

mod beat;
mod election;
#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod starts;
#[cfg(test)]
mod tests;

use core::time::Duration;

pub use beat::{BEAT_ADDRESSES, BEAT_OCTETS, BeatFrame, BeatFrameKind, Heard, address_of, learn_frame};
pub use election::Election;

/// Time for which a box that has handed over lets pass what is under way to it.
pub const DRAIN: Duration = Duration::from_secs(1);

/// T, if the configuration does not say otherwise: frames flow again within 50 ms of the death of a box.
pub const DEFAULT_TAKEOVER: Duration = Duration::from_millis(40);

/// Longest T of a configuration.
pub const LONGEST_TAKEOVER: Duration = Duration::from_secs(2);

/// Times of an [`Election`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// T: silence of the partner after which a box takes over.
    pub takeover: Duration,
    /// Longest T that the partner may have: [`LONGEST_TAKEOVER`].
    pub longest: Duration,
}

impl Timing {
    /// Interval between beats.
    pub fn interval(self) -> Duration {
        self.takeover / 8
    }

    /// Time after its last beat for which a box may forward.
    pub fn lease(self) -> Duration {
        self.takeover * 5 / 8
    }

    /// Age up to which an own beat that is named shows that what names it is no older.
    fn fresh(self) -> Duration {
        self.takeover / 2
    }
}

/// Role of a box.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Finds out whether the partner forwards.
    Listening,
    /// Does not forward.
    Standby,
    /// Forwards.
    Active,
    /// Hands over.
    Leaving,
}

/// Cause of the present role.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The box has started.
    Started,
    /// No beat of the partner was heard for T.
    PartnerSilent,
    /// The partner hands over or stops.
    PartnerLeft,
    /// The partner forwarded, and listens now: it has started anew, or stood still.
    PartnerListens,
    /// The partner does not forward, and comes second.
    ComesFirst,
    /// The partner forwards.
    PartnerActive,
    /// Both forwarded, and this box yields.
    Yielded,
    /// This box stood still for longer than its lease.
    Stalled,
    /// The operator asked for it.
    HandOver,
    /// The partner did not take over.
    NotTakenOver,
    /// The LAN's interface had no link.
    NoLink,
    /// Both boxes have one SCI, and might repeat each other's packet numbers.
    SameSci,
}

/// Frames that may pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// None.
    Closed,
    /// Those to one station each that are still sent this way: the partner forwards all others.
    Draining,
    /// All.
    Open,
}

/// What a beat says, without addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Beat {
    /// Role of the sender.
    pub role: Role,
    /// Whether the sender is configured to come first.
    pub preferred: bool,
    /// T of the sender's configuration.
    pub takeover: Duration,
    /// Session of the sender.
    pub session: u64,
    /// Number of the beat in its session.
    pub seq: u64,
    /// The receiver's beat that was heard last, if one was within T.
    pub heard: Option<Heard>,
}

/// Result of a beat whose tag was right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judged {
    /// It counts.
    Taken,
    /// Recorded, or of a session that has not shown yet that it is there.
    Unproved,
}
