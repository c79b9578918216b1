//! CoDel (RFC 8289): packets are dropped from a queue in which all have waited longer than a target for an interval, ever more often until
//! its sender slows down.

/// The time over which a queue has to come below its target once, in nanoseconds (section 4.2): some round trips.
const INTERVAL: u64 = 100_000_000;

/// State of one queue (section 5). Moments are nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct CoDel {
    /// When the queue will have been above the target for an interval; 0: it is not above.
    above_until: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CoDel {
    /// The queue is empty.
    pub(super) const fn empty(&mut self) {
        self.above_until = 0;
        self.dropping = false;
    }

    /// Whether the packet that was taken is to be dropped. `waited`: its time in the queue, of which `target` is acceptable; `short`:
    /// no more than a packet is left behind it.
    pub(super) fn drops(&mut self, now: u64, waited: u64, target: u64, short: bool) -> bool {
        let above = self.is_above(now, waited, target, short);
        if self.dropping {
            self.dropping = above;
            let drops = above && now >= self.drop_next;
            if drops {
                self.count = self.count.saturating_add(1);
                self.drop_next = after(self.drop_next, self.count);
            }
            return drops;
        }
        if above {
            self.dropping = true;
            // It was dropping lately: it goes on about where it was.
            let delta = self.count.saturating_sub(self.last_count);
            let lately = now.saturating_sub(self.drop_next) < 16 * INTERVAL;
            self.count = if delta > 1 && lately { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = after(now, self.count);
        }
        above
    }

    /// Whether the queue has been above its target for an interval.
    const fn is_above(&mut self, now: u64, waited: u64, target: u64, short: bool) -> bool {
        if waited < target || short {
            self.above_until = 0;
            return false;
        }
        if self.above_until == 0 {
            self.above_until = now + INTERVAL;
            return false;
        }
        now >= self.above_until
    }
}

/// The control law: intervals become shorter with the square root of the number of drops.
const fn after(moment: u64, count: u32) -> u64 {
    // The root of count * 2^20 is 2^10 times that of count.
    let root = ((count as u64) << 20).isqrt();
    moment + (INTERVAL << 10) / if root == 0 { 1 } else { root }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: u64 = 5_000_000;

    #[test]
    fn a_queue_that_stays_above_its_target_is_dropped_from_ever_more_often() {
        let mut codel = CoDel::default();
        let drops: alloc::vec::Vec<u64> = (1..1000)
            .map(|millisecond| millisecond * 1_000_000)
            .filter(|now| codel.drops(*now, 2 * TARGET, TARGET, false))
            .map(|now| now / 1_000_000)
            .collect();
        // The first after an interval, then each 100 ms / sqrt(n).
        assert_eq!(drops[..5], [101, 201, 272, 330, 380]);
        assert!(drops.windows(3).all(|three| three[2] - three[1] <= three[1] - three[0]));
    }

    #[test]
    fn a_queue_that_comes_below_its_target_once_in_an_interval_loses_nothing() {
        let mut codel = CoDel::default();
        for millisecond in 1..10_000_u64 {
            let waited = if millisecond % 90 == 0 { TARGET - 1 } else { 10 * TARGET };
            assert!(!codel.drops(millisecond * 1_000_000, waited, TARGET, false));
        }
        for millisecond in 10_000..20_000_u64 {
            assert!(!codel.drops(millisecond * 1_000_000, 10 * TARGET, TARGET, true), "the last packet");
        }
    }
}
