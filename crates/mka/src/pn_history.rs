//! Recent PNs with their times, to which receivers may hold this station (IEEE 802.1X-2020 clause 9.10.1).

use alloc::collections::VecDeque;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use wire::Instant;

use crate::timers::DATA_DELAY;

/// Minimum spacing between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// Next PNs of a transmit SA over the last seconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PnHistory {
    /// At most `DATA_DELAY / SAMPLE_INTERVAL` and two more, oldest first.
    samples: VecDeque<(Instant, u64)>,
    next_pn: u64,
}

impl PnHistory {
    pub(crate) fn note(&mut self, now: Instant, next_pn: u64) {
        self.next_pn = self.next_pn.max(next_pn);
        if self.samples.back().is_none_or(|(last, _)| now >= *last + SAMPLE_INTERVAL) {
            self.samples.push_back((now, self.next_pn));
        }
        // One sample that is old enough stays.
        while self.samples.get(1).is_some_and(|(at, _)| now >= *at + DATA_DELAY) {
            self.samples.pop_front();
        }
    }

    /// PN of the next frame, as far as known.
    pub(crate) const fn next_pn(&self) -> u64 {
        self.next_pn
    }

    /// Lowest PN of frames sent within the last 2 s.
    pub(crate) fn lowest(&self, now: Instant) -> u64 {
        let old_enough = self.samples.iter().rev().find(|(at, _)| now >= *at + DATA_DELAY);
        old_enough.map_or(1, |(_, next_pn)| (*next_pn).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_pn_is_two_seconds_old() {
        let mut history = PnHistory::default();
        let at = |milliseconds| Instant::after_start(Duration::from_millis(milliseconds));
        assert_eq!(history.lowest(at(0)), 1);
        for i in 0..100 {
            // A frame each millisecond.
            history.note(at(i * 100), 1 + i * 100);
            let lowest = history.lowest(at(i * 100));
            let oldest_of_two_seconds = (1 + i * 100).saturating_sub(2000).max(1);
            assert!(lowest <= oldest_of_two_seconds, "{i}: {lowest}");
            assert!(lowest + 300 >= oldest_of_two_seconds, "{i}: {lowest}");
            assert!(history.samples.len() <= 12);
        }
        assert_eq!(history.next_pn(), 9901);
    }
}
