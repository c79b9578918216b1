//! Time on the data path: a parameter, never read from a clock. It is finer than the microseconds of
//! [`wire::Instant`]: a frame spends a few of them in a gateway.

use core::time::Duration;

/// A moment: nanoseconds since a start that all moments of a cell share. Needs a clock that never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Moment(u64);

impl Moment {
    /// The start.
    pub const START: Self = Self(0);

    /// The moment `time` after the start.
    pub const fn after_start(time: Duration) -> Self {
        let nanoseconds = time.as_nanos();
        Self(if nanoseconds > u64::MAX as u128 { u64::MAX } else { nanoseconds as u64 })
    }

    /// Nanoseconds since the start.
    pub(crate) const fn since_start(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `time` later.
    #[must_use]
    pub const fn later(self, time: Duration) -> Self {
        Self(self.0.saturating_add(Self::after_start(time).0))
    }
}
