//! Time in protocol crates: a parameter, never read from a clock.

mod token_bucket;

use core::ops::Add;
use core::time::Duration;

use serde::{Deserialize, Serialize};

pub use token_bucket::TokenBucket;

/// A moment: microseconds since some start that all moments of a process share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Instant(u64);

impl Instant {
    /// The start.
    pub const START: Self = Self(0);

    /// The moment `time` after the start.
    pub const fn after_start(time: Duration) -> Self {
        let microseconds = time.as_micros();
        Self(if microseconds > u64::MAX as u128 { u64::MAX } else { microseconds as u64 })
    }

    /// Time since `earlier`; zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(Self::after_start(time).0))
    }
}
