//! Histograms of times, with fixed bounds: the classic buckets of a Prometheus histogram.
//!
//! Adding a time takes two look-ups. Times of up to 5 ms, sum and worst share one cache line, so a normal
//! frame touches one.
//!
//! ```text
//!  line 1: sum 8 | worst 8 | 12 counts of 4, of times up to 5 ms     lines 2, 3: 8 counts of 4, of longer ones | wraps, 20 of 4
//! ```

use core::time::Duration;

use crate::moment::Moment;

/// Number of times per bucket. Never allocates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(64))]
pub struct Histogram {
    sum: u64,
    worst: u64,
    counts: [u32; Self::BUCKETS],
    /// Overflows of each count: one after 49 days of frames each millisecond.
    wraps: [u32; Self::BUCKETS],
}

/// Number of bounds below each power of two. At most one bound lies between two powers, since each bound is
/// at least twice the previous one.
const BELOW: [u8; 64] = {
    let mut below = [0; 64];
    let mut power = 0;
    while power < 64 {
        let mut bound = 0;
        while bound < Histogram::BOUNDS.len() {
            below[power] += (Histogram::BOUNDS[bound].as_nanos() < 1 << power) as u8;
            bound += 1;
        }
        power += 1;
    }
    below
};

/// [`Histogram::BOUNDS`] in nanoseconds; the last bucket's is never exceeded.
const NANOSECONDS: [u64; Histogram::BUCKETS] = {
    let mut nanoseconds = [u64::MAX; Histogram::BUCKETS];
    let mut bound = 0;
    while bound < Histogram::BOUNDS.len() {
        nanoseconds[bound] = Histogram::BOUNDS[bound].as_nanos() as u64;
        bound += 1;
    }
    nanoseconds
};

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
    /// Upper bounds of all buckets but the last, which has none. A time equal to a bound belongs to its
    /// bucket.
    pub const BOUNDS: [Duration; Self::BUCKETS - 1] = microseconds([
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
        500_000, 1_000_000,
    ]);

    /// Buckets.
    pub const BUCKETS: usize = 20;

    /// Times that were counted elsewhere, in the same buckets.
    pub fn of(counts: [u64; Self::BUCKETS], sum: Duration, worst: Duration) -> Self {
        Self {
            sum: Moment::after_start(sum).since_start(),
            worst: Moment::after_start(worst).since_start(),
            counts: counts.map(|count| count as u32),
            wraps: counts.map(|count| (count >> 32) as u32),
        }
    }

    /// Adds a time.
    pub fn add(&mut self, time: Duration) {
        let nanoseconds = Moment::after_start(time).since_start();
        let below = usize::from(BELOW[(nanoseconds | 1).ilog2() as usize]);
        let bucket = below + usize::from(nanoseconds > NANOSECONDS[below]);
        let (count, wrapped) = self.counts[bucket].overflowing_add(1);
        self.counts[bucket] = count;
        if wrapped {
            self.wraps[bucket] = self.wraps[bucket].saturating_add(1);
        }
        self.sum = self.sum.saturating_add(nanoseconds);
        self.worst = self.worst.max(nanoseconds);
    }

    /// Reads the cache line that most times need.
    #[inline]
    pub(crate) const fn prefetch(&self) -> u32 {
        self.sum as u32
    }

    /// Number of times in each bucket, in the order of [`Histogram::BOUNDS`]; those above the last one at the
    /// end.
    pub fn counts(&self) -> [u64; Self::BUCKETS] {
        core::array::from_fn(|bucket| u64::from(self.wraps[bucket]) << 32 | u64::from(self.counts[bucket]))
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// Sum of all times.
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Longest time.
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
        let around = |time: u64| [time.saturating_sub(1), time, time.saturating_add(1)];
        let powers = (0..64).map(|power| 1 << power);
        for time in
            Histogram::BOUNDS.map(|bound| bound.as_nanos() as u64).into_iter().chain(powers).flat_map(around)
        {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_nanos(time));
            let below = Histogram::BOUNDS.iter().filter(|bound| **bound < Duration::from_nanos(time)).count();
            assert_eq!(histogram.counts()[below], 1, "{time}");
        }
        assert!(Histogram::BOUNDS.is_sorted());
    }

    #[test]
    fn counts_go_on_behind_32_bits() {
        let mut histogram = Histogram::default();
        histogram.counts[2] = u32::MAX - 1;
        (0..3).for_each(|_| histogram.add(Duration::from_micros(5)));
        histogram.add(Duration::from_micros(6));
        assert_eq!(histogram.counts()[1..4], [0, (1 << 32) + 1, 1]);
        assert_eq!(histogram.count(), (1 << 32) + 2);
        assert_eq!(Histogram::of(histogram.counts(), histogram.sum(), histogram.worst()), histogram);
    }

    #[test]
    fn a_frame_that_goes_as_it_should_touches_one_line() {
        let behind = Histogram::BOUNDS.iter().filter(|bound| **bound <= Duration::from_millis(5)).count();
        assert_eq!(core::mem::offset_of!(Histogram, counts) + 4 * behind, 64);
    }

    #[test]
    fn sums_do_not_wrap() {
        let mut histogram = Histogram::default();
        (0..3).for_each(|_| histogram.add(Duration::MAX));
        assert_eq!((histogram.count(), histogram.sum()), (3, Duration::from_nanos(u64::MAX)));
    }
}
