//! MNs that a participant has sent, and when: they show what a peer has heard, and how long ago.

use alloc::collections::VecDeque;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use wire::Instant;

use crate::timers::{LIFE, LOSS_DELAY};

/// Minimum spacing between recorded MNs.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// MNs of an MI: the last sent one, and recent ones with their times.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MessageNumbers {
    last: u32,
    /// Recorded MNs with their times, one per half second of a life time.
    samples: VecDeque<(Instant, u32)>,
}

impl MessageNumbers {
    /// The next MN; `None` if all are used.
    pub(crate) fn next(&mut self, now: Instant) -> Option<u32> {
        self.last = self.last.checked_add(1)?;
        if self.samples.back().is_none_or(|(at, _)| now >= *at + SAMPLE_INTERVAL) {
            self.samples.push_back((now, self.last));
        }
        self.forget(now);
        Some(self.last)
    }

    fn forget(&mut self, now: Instant) {
        // MNs after a sample were sent less than half a second later.
        while self.samples.front().is_some_and(|(at, _)| now > *at + SAMPLE_INTERVAL + LIFE) {
            self.samples.pop_front();
        }
    }

    /// True if this MN was sent, within a life time.
    pub(crate) fn is_recent(&self, now: Instant, mn: u32) -> bool {
        let first = self.samples.iter().find(|(at, _)| now <= *at + SAMPLE_INTERVAL + LIFE);
        mn <= self.last && first.is_some_and(|(_, first)| mn >= *first)
    }

    /// True if a later one was sent long enough ago to have been heard, unless lost.
    pub(crate) fn is_behind(&self, now: Instant, mn: u32) -> bool {
        let arrived = self.samples.iter().rev().find(|(at, _)| now >= *at + LOSS_DELAY);
        arrived.is_some_and(|(_, arrived)| mn < *arrived)
    }

    /// True if this MN was never sent.
    pub(crate) const fn is_beyond(&self, mn: u32) -> bool {
        mn > self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    #[test]
    fn an_mn_is_recent_for_a_life_time() {
        let mut message_numbers = MessageNumbers::default();
        assert!(!message_numbers.is_recent(at(0), 0));
        let sent: Vec<u64> = (0..200).map(|i| i * 130).collect();
        for (i, &when) in sent.iter().enumerate() {
            assert_eq!(message_numbers.next(at(when)), Some(i as u32 + 1));
            for (j, &earlier) in sent[..=i].iter().enumerate() {
                let (age, recent) = (when - earlier, message_numbers.is_recent(at(when), j as u32 + 1));
                assert!(recent || age > 6000, "{age} ms");
                assert!(!recent || age <= 7000, "{age} ms");
            }
            assert!(!message_numbers.is_recent(at(when), i as u32 + 2));
            assert!(message_numbers.samples.len() <= 16);
        }
        let last = sent.len() as u32;
        assert!(message_numbers.is_recent(at(26_000), last) && !message_numbers.is_recent(at(40_000), last));
    }

    use alloc::vec::Vec;
}
