//! How many HELLOs of a relation come to control that name a nonce of the past: a few at once, and then one every ten
//! milliseconds.
//!
//! They are true and late: control counts them, and needs none. One in a session may be of a nonce that the worker has not been told
//! yet, and for that one there is room.

use std::time::Duration;

use fieldbus::Moment;

/// HELLOs that may come at once.
pub(super) const AT_ONCE: u8 = 4;
/// Afterwards one in this time.
const ONE_IN: Duration = Duration::from_millis(10);

/// What is left to one relation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    left: u8,
    since: Moment,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: AT_ONCE, since: Moment::START }
    }
}

impl Allowance {
    /// Whether another one may come now.
    pub(super) fn take(&mut self, now: Moment) -> bool {
        let earned = now.since(self.since).as_nanos() / ONE_IN.as_nanos();
        if earned >= u128::from(AT_ONCE - self.left) {
            (self.left, self.since) = (AT_ONCE, now);
        } else {
            self.left += earned as u8;
            self.since = self.since.later(ONE_IN * earned as u32);
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_what_it_would_get_anyway() {
        let at = |milliseconds| Moment::after_start(Duration::from_millis(milliseconds));
        let mut allowance = Allowance::default();
        let mut allowed = |from: u64, to| -> usize {
            (from..to).map(|now| (0..100).filter(|_| allowance.take(at(now))).count()).sum()
        };
        let rows: [(u64, u64, usize); 5] =
            [(1000, 1001, 4), (1001, 1010, 0), (1010, 1011, 1), (1011, 2010, 99), (9000, 9001, 4)];
        for (from, to, expected) in rows {
            assert_eq!(allowed(from, to), expected, "{from} to {to}");
        }
        assert_eq!(allowed(5, 6), 0, "a clock that goes back earns nothing");
    }
}
