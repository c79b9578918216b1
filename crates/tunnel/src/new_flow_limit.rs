//! Limit of the site's new flows per second: a token bucket.

use wire::time::Instant;
use wire::tunnel::Flow;

/// Millionths of a flow, since time is in microseconds.
const ONE: u64 = 1_000_000;

/// The bucket.
#[derive(Debug)]
pub(crate) struct NewFlowLimit {
    per_second: u64,
    left: u64,
    filled: Instant,
    /// A flooded frame is one new flow, not one for each peer.
    last: Option<Flow>,
}

impl NewFlowLimit {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = u64::from(per_second);
        Self { per_second, left: per_second * ONE, filled: Instant::START, last: None }
    }

    /// True if this flow may get a number now.
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

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use wire::tunnel::ParsedFrame;

    fn flow(number: u16) -> Flow {
        let mut frame = [0; 28];
        frame[..2].copy_from_slice(&number.to_be_bytes());
        frame[12..15].copy_from_slice(&[0x88, 0xe5, 0x20]);
        ParsedFrame::parse(&frame).expect("a frame").flow
    }

    #[test]
    fn so_many_in_a_second() {
        let mut new_flows = NewFlowLimit::new(10);
        let at = |ms| Instant::after_start(Duration::from_millis(ms));
        let mut number = 0;
        let mut admitted = |ms| {
            let flows = (0..100).filter(|_| {
                number += 1;
                new_flows.admit(at(ms), &flow(number))
            });
            flows.count()
        };
        // (milliseconds, how many of a hundred)
        for (ms, expected) in [(0, 10), (0, 0), (99, 0), (100, 1), (400, 3), (1_000_000, 10), (1_000_050, 0)]
        {
            assert_eq!(admitted(ms), expected, "{ms} ms");
        }
    }

    #[test]
    fn a_flow_to_all_peers_is_one() {
        let mut new_flows = NewFlowLimit::new(1);
        assert!((0..64).all(|_| new_flows.admit(Instant::START, &flow(1))));
        assert!(!new_flows.admit(Instant::START, &flow(2)));
    }
}
