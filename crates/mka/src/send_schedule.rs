//! Schedule of a participant's MKPDUs: at least one each hello time, at once after a change, and never too
//! many.

use alloc::collections::VecDeque;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use wire::Instant;

use crate::timers::Earliest;

/// Most MKPDUs in [`WINDOW`], whatever happens: nobody makes us flood the network.
const MAX_MKPDUS: usize = 16;
const WINDOW: Duration = Duration::from_millis(1000);
/// Delay of a requested MKPDU, so that several changes share it.
const SPACING: Duration = Duration::from_millis(5);

/// Schedule of a participant's MKPDUs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SendSchedule {
    requested: bool,
    sent: VecDeque<Instant>,
}

impl SendSchedule {
    /// Requests an MKPDU for a change that the others do not know.
    pub(crate) const fn request(&mut self) {
        self.requested = true;
    }

    /// Time of the next MKPDU.
    pub(crate) fn poll_timeout(&self, hello: Duration) -> Instant {
        let Some(&last) = self.sent.back() else { return Instant::START };
        let mut due = Earliest::default();
        due.add(last + hello);
        if self.requested {
            let window = if self.sent.len() < MAX_MKPDUS { Instant::START } else { self.sent[0] + WINDOW };
            due.add(window.max(last + SPACING));
        }
        due.moment().expect("invariant: a moment was added")
    }

    /// Records a sent MKPDU.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.requested = false;
        if self.sent.len() == MAX_MKPDUS {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Duration = Duration::from_secs(2);

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    #[test]
    fn the_first_at_once_then_each_hello_and_news_soon() {
        let mut schedule = SendSchedule::default();
        assert_eq!(schedule.poll_timeout(HELLO), at(0));
        schedule.sent(at(10_000));
        assert_eq!(schedule.poll_timeout(HELLO), at(12_000));
        schedule.request();
        assert_eq!(schedule.poll_timeout(HELLO), at(10_005));
        schedule.sent(at(10_005));
        assert_eq!(schedule.poll_timeout(HELLO), at(12_005));
    }

    #[test]
    fn news_without_end_make_no_flood() {
        let mut schedule = SendSchedule::default();
        let (mut now, mut count) = (at(10_000), 0);
        while now < at(20_000) {
            schedule.request();
            if schedule.poll_timeout(HELLO) <= now {
                schedule.sent(now);
                count += 1;
            }
            now = now + Duration::from_millis(1);
        }
        assert_eq!(count, 160);
    }
}
