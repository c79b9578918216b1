//! Counters of handshakes over the last seconds: a stranger's frames of an hour ago do not explain today's fault.

use std::time::{Duration, Instant};

use fieldbus::handshake::HelloCounters;

/// Between two marks. An end that has no session asks ten times a second.
const PERIOD: Duration = Duration::from_secs(5);

/// The counters as they were five to ten seconds ago.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentCounters {
    /// The older mark first.
    marks: [HelloCounters; 2],
    next: Option<Instant>,
}

impl RecentCounters {
    /// Takes another mark, if it is time for one.
    pub(super) fn mark(&mut self, now: Instant, counters: impl FnOnce() -> HelloCounters) {
        if self.next.is_none_or(|next| now >= next) {
            // The first is of the start: all that was counted since then is of late.
            let newer = if self.next.is_none() { HelloCounters::default() } else { counters() };
            self.marks = [self.marks[1], newer];
            self.next = Some(now + PERIOD);
        }
    }

    /// The counts since then.
    pub(super) const fn of(&self, counters: &HelloCounters) -> HelloCounters {
        counters.since(&self.marks[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_long_ago_is_not_of_late() {
        let (mut lately, start) = (RecentCounters::default(), Instant::now());
        let counted = |second: u64| HelloCounters {
            in_hello: second,
            // Forged, in the fourth second and the sixty-second.
            in_hello_not_valid: u64::from(second >= 3) + u64::from(second >= 61),
            ..HelloCounters::default()
        };
        let mut seen = Vec::new();
        for second in 0..80 {
            lately.mark(start + Duration::from_secs(second), || counted(second));
            let of = lately.of(&counted(second));
            assert!(of.in_hello <= 10 && (second < 10 || of.in_hello >= 5), "{of:?} after {second} s");
            if of.in_hello_not_valid > 0 {
                assert_eq!(of.in_hello_not_valid, 1);
                seen.push(second);
            }
        }
        let expected: Vec<u64> = (3..10).chain(61..70).collect();
        assert_eq!(seen, expected);
    }
}
