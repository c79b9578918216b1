//! Rate limit.

use core::time::Duration;

use wire::Instant;

/// A burst of `most` tokens, refilled by one after each interval.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    left: u32,
    most: u32,
    every: Duration,
    since: Instant,
}

impl TokenBucket {
    pub(super) fn new(now: Instant, most: u32, every: Duration) -> Self {
        Self { left: most, most, every, since: now }
    }

    /// Takes a token. False if there is none.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let earned = now.since(self.since).as_micros() / self.every.as_micros().max(1);
        if earned >= u128::from(self.most - self.left) {
            (self.left, self.since) = (self.most, now);
        } else {
            let earned = u32::try_from(earned).expect("invariant: below most");
            self.left += earned;
            self.since = self.since + self.every * earned;
        }
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_one_more_after_each_interval() {
        let at = |milliseconds| Instant::START + Duration::from_millis(milliseconds);
        let mut bucket = TokenBucket::new(at(0), 2, Duration::from_millis(500));
        for (now, may) in [
            (0, true),
            (0, true),
            (0, false),
            (499, false),
            (500, true),
            (999, false),
            (1000, true),
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
    }
}
