//! A token bucket: how often something may happen.
//!
//! ```text
//!                 now        full
//!  ────────────────┼──────────┼──────▶ time      an event moves `full` by `interval`,
//!                  └─ debt ───┘                  and is refused if the debt would exceed `at_once` of these
//! ```
//!
//! It is kept as the one moment at which it is full again (the generic cell rate algorithm). So within any time `t` no more
//! than `at_once + t / interval` events pass. A count that begins anew each second would let twice its rate pass across the
//! edge between two seconds.

use core::time::Duration;

use super::Instant;

/// Limit for events: so many at once, and one more after each interval.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// Nanoseconds.
    interval: u64,
    /// Nanoseconds from empty to full.
    capacity: u64,
    /// The moment at which it is full, in nanoseconds since the start.
    full: u64,
}

impl TokenBucket {
    /// A full bucket.
    pub const fn new(at_once: u32, interval: Duration) -> Self {
        let nanoseconds = interval.as_nanos();
        let interval = if nanoseconds > u64::MAX as u128 { u64::MAX } else { nanoseconds as u64 };
        Self { interval, capacity: interval.saturating_mul(at_once as u64), full: 0 }
    }

    /// A full bucket of as many as come in a second.
    pub const fn per_second(rate: u32) -> Self {
        match rate {
            0 => Self::new(0, Duration::from_secs(1)),
            rate => Self::new(rate, Duration::from_nanos(1_000_000_000 / rate as u64)),
        }
    }

    /// Whether it may happen now; then it counts as happened. A clock that goes back earns nothing.
    pub const fn take(&mut self, now: Instant) -> bool {
        let debt = self.debt(now).saturating_add(self.interval);
        let may = debt <= self.capacity;
        if may {
            self.full = now.0.saturating_mul(1000).saturating_add(debt);
        }
        may
    }

    /// Whether nothing is missing: then a new one would be the same.
    pub const fn is_full(&self, now: Instant) -> bool {
        self.debt(now) == 0
    }

    const fn debt(&self, now: Instant) -> u64 {
        self.full.saturating_sub(now.0.saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    #[test]
    fn so_many_at_once_and_one_more_after_each_interval() {
        let mut bucket = TokenBucket::new(2, Duration::from_millis(500));
        for (now, may) in [
            (7, true),
            (7, true),
            (7, false),
            (506, false),
            (507, true),
            (1006, false),
            (1007, true),
            (1400, false),
            // Never more than two are saved up.
            (9000, true),
            (9000, true),
            (9000, false),
            // A clock that goes back earns nothing.
            (0, false),
        ] {
            assert_eq!(bucket.take(at(now)), may, "{now}");
        }
        assert!(!bucket.is_full(at(9999)) && bucket.is_full(at(10_000)));
    }

    #[test]
    fn no_second_has_more_than_its_own_and_what_was_saved_up() {
        for rate in [1, 3, 50, 999, 1000, 5000] {
            let mut bucket = TokenBucket::per_second(rate);
            let mut taken = |milliseconds: core::ops::Range<u64>| -> u32 {
                milliseconds
                    .map(|now| (0..2 * rate).map(|_| u32::from(bucket.take(at(now)))).sum::<u32>())
                    .sum()
            };
            assert_eq!(taken(999..1000), rate, "all at the end of a second");
            let after = taken(1000..1001);
            assert!(after <= 1 + rate / 1000, "{after} of {rate} at the beginning of the next");
            let later = taken(1001..2000);
            assert!(after + later <= rate + 1, "{later} of {rate}");
        }
        assert!(!TokenBucket::per_second(0).take(at(5000)));
    }
}
