//! Answers of the programs about flows and lanes, and their time.

use std::time::Duration;

use wire::tunnel::FlowIndex;

/// A moment on the kernel's clock, as the programs read it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KernelTime(pub(super) u64);

impl KernelTime {
    /// Time since `then`.
    pub(super) const fn since(self, then: u64) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(then))
    }
}

/// Use of a flow since it was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowUse {
    /// Time since its last frame; none before the first.
    pub idle: Option<Duration>,
    /// Whether its frames are user space's until it is added anew, since one of them was. Not of a flow that waits for a pause.
    pub in_user_space: bool,
}

/// A lane that a peer sends on, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneReport {
    /// Highest seq accepted, or announced by the peer.
    pub newest: u64,
    /// Identifiers that are missing in the table.
    pub missing: u64,
    /// Time since its first packet; none before that.
    pub used: Option<Duration>,
    /// Whether this command has moved the window.
    pub advanced: bool,
    /// The last flow number that was not known, since the last look.
    pub unknown: Option<FlowIndex>,
}
