//! New flows of the site in a second: a bucket of that many, which fills up as time goes by.

use wire::time::Instant;
use wire::tunnel::Flow;

/// Millionths of a flow, since time comes in microseconds.
const ONE: u64 = 1_000_000;

/// The bucket.
#[derive(Debug)]
pub(crate) struct Admission {
    per_second: u64,
    left: u64,
    filled: Instant,
    /// A frame that goes to all peers is one new flow, not one for each of them.
    last: Option<Flow>,
}

impl Admission {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = u64::from(per_second);
        Self { per_second, left: per_second * ONE, filled: Instant::START, last: None }
    }

    /// Whether this flow may have a number now.
    pub(crate) fn admit(&mut self, now: Instant, flow: &Flow) -> bool {
        if self.last == Some(*flow) {
            return true;
        }
        let passed = now.since(self.filled).as_micros().min(u128::from(ONE)) as u64;
        self.filled = now;
        self.left = (self.left + passed * self.per_second).min(self.per_second * ONE);
        let admitted = self.left >= ONE;
        if admitted {
            self.left -= ONE;
            self.last = Some(*flow);
        }
        admitted
    }
}
