//! Monitor of the gaps between a relation's verified frames.
//!
//! The station's own watchdog gives up after some cycles. Long before, a gap is an *alarm*: when the frame
//! that ends it arrives, or without a frame at the next check. A gap is reported once.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// Half the size of a [`Duration`], and faster to compare.
type Nanoseconds = u64;

/// Gap monitor of one relation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GapMonitor {
    last: Option<Moment>,
    alarm: Nanoseconds,
    worst_gap: Nanoseconds,
    /// True if the present gap was reported.
    told: bool,
}

/// A gap monitor for the next program, on the same clock: nanoseconds. The alarm limit is the configuration's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PassedGaps {
    last: Option<Nanoseconds>,
    worst_gap: Nanoseconds,
    told: bool,
}

impl PassedGaps {
    /// True if a frame was verified.
    pub(crate) const fn is_watched(&self) -> bool {
        self.last.is_some()
    }
}

/// Report of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GapReport {
    /// Length of the gap that it ends.
    pub(crate) gap: Duration,
    /// True if that is an alarm that was not reported yet.
    pub(crate) alarm: bool,
}

impl GapMonitor {
    pub(crate) const fn new(alarm: Duration) -> Self {
        Self { last: None, alarm: nanoseconds(alarm), worst_gap: 0, told: false }
    }

    /// Records a verified frame. Returns the gap that it ends, unless it is the first.
    pub(crate) fn arrived(&mut self, now: Moment) -> Option<GapReport> {
        let gap = now.since(self.last.replace(now)?);
        self.worst_gap = self.worst_gap.max(nanoseconds(gap));
        let alarm = nanoseconds(gap) >= self.alarm && !self.told;
        self.told = false;
        Some(GapReport { gap, alarm })
    }

    /// The present gap, once, if it is an alarm.
    pub(crate) fn check(&mut self, now: Moment) -> Option<Duration> {
        let gap = now.since(self.last?);
        if nanoseconds(gap) < self.alarm || self.told {
            return None;
        }
        self.told = true;
        Some(gap)
    }

    /// The present gap; `None` before the first frame.
    pub(crate) fn silent(&self, now: Moment) -> Option<Duration> {
        self.last.map(|last| now.since(last))
    }

    /// The longest ended gap.
    pub(crate) const fn worst_gap(&self) -> Duration {
        Duration::from_nanos(self.worst_gap)
    }

    pub(crate) fn pass_on(&self) -> PassedGaps {
        let Self { last, worst_gap, told, .. } = *self;
        PassedGaps { last: last.map(Moment::since_start), worst_gap, told }
    }

    pub(crate) fn go_on(&mut self, passed: &PassedGaps) {
        self.last = passed.last.map(|last| Moment::after_start(Duration::from_nanos(last)));
        (self.worst_gap, self.told) = (passed.worst_gap, passed.told);
    }

    /// Changes the alarm limit.
    pub(crate) const fn set_alarm(&mut self, alarm: Duration) {
        self.alarm = nanoseconds(alarm);
    }

    /// Reads the time of the last frame.
    #[inline]
    pub(crate) fn prefetch(&self) -> u32 {
        self.last.map_or(0, |last| last.since_start() as u32)
    }
}

const fn nanoseconds(time: Duration) -> Nanoseconds {
    Moment::after_start(time).since_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Moment {
        Moment::after_start(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_gap_is_told_once_by_whoever_notices_it() {
        let mut watch = GapMonitor::new(Duration::from_millis(10));
        assert_eq!((watch.check(at(1000)), watch.silent(at(1000))), (None, None), "nothing was ever heard");
        assert_eq!(watch.arrived(at(1000)), None, "the first");
        let arrival = |gap, alarm| Some(GapReport { gap: Duration::from_millis(gap), alarm });
        assert_eq!(watch.arrived(at(1009)), arrival(9, false));
        assert_eq!(watch.arrived(at(1019)), arrival(10, true));
        assert_eq!((watch.check(at(1028)), watch.check(at(1029))), (None, Some(Duration::from_millis(10))));
        assert_eq!(watch.check(at(5000)), None, "told");
        assert_eq!(watch.arrived(at(5001)), arrival(3982, false), "told");
        assert_eq!(watch.arrived(at(5011)), arrival(10, true));
        assert_eq!(watch.worst_gap(), Duration::from_millis(3982));
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_alarms_nobody() {
        let mut watch = GapMonitor::new(Duration::from_millis(10));
        watch.arrived(at(50));
        for now in [50, 50, 3, 0, 1] {
            let arrival = watch.arrived(at(now)).unwrap();
            assert!(!arrival.alarm, "{now}");
            assert_eq!(watch.check(at(now)), None);
        }
    }
}
