//! Histograms of times, in nanoseconds.

use std::time::Duration;

use hdrhistogram::Histogram;

/// One nanosecond to a minute, to three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("invariant: these bounds are allowed")
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
