//! Histograms of times, with fixed bounds: the classic buckets of a Prometheus histogram.
//!
//! Work to add a time: a search among 19 bounds.

use core::time::Duration;

/// How often which times were seen. Never allocates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    counts: [u64; Self::BUCKETS],
    sum: u64,
    worst: u64,
}

const fn microseconds<const N: usize>(of: [u64; N]) -> [Duration; N] {
    let mut bounds = [Duration::ZERO; N];
    let mut at = 0;
    while at < N {
        bounds[at] = Duration::from_micros(of[at]);
        at += 1;
    }
    bounds
}

impl Histogram {
    /// The upper bounds of all buckets but the last, which has none. A time that is equal to a bound lies below it.
    pub const BOUNDS: [Duration; Self::BUCKETS - 1] = microseconds([
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
        500_000, 1_000_000,
    ]);

    /// Buckets.
    pub const BUCKETS: usize = 20;

    /// Adds a time.
    pub fn add(&mut self, time: Duration) {
        let bucket = Self::BOUNDS.partition_point(|bound| *bound < time);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(nanoseconds);
        self.worst = self.worst.max(nanoseconds);
    }

    /// How many times lie in each bucket, in the order of [`Histogram::BOUNDS`], those above the last one at the end.
    pub const fn counts(&self) -> &[u64; Self::BUCKETS] {
        &self.counts
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together.
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// The longest.
    pub const fn worst(&self) -> Duration {
        Duration::from_nanos(self.worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_the_bucket_below_its_bound() {
        let rows: [(u64, usize); 9] = [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (4_999, 2),
            (1_000_000, 9),
            (1_000_000_000, 18),
            (1_000_000_001, 19),
            (u64::MAX, 19),
        ];
        for (nanoseconds, bucket) in rows {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_nanos(nanoseconds));
            assert_eq!(
                histogram.counts().iter().position(|count| *count == 1),
                Some(bucket),
                "{nanoseconds}"
            );
            assert_eq!(histogram.worst(), Duration::from_nanos(nanoseconds));
        }
        assert!(Histogram::BOUNDS.is_sorted());
    }

    #[test]
    fn sums_do_not_wrap() {
        let mut histogram = Histogram::default();
        (0..3).for_each(|_| histogram.add(Duration::MAX));
        assert_eq!((histogram.count(), histogram.sum()), (3, Duration::from_nanos(u64::MAX)));
    }
}
