//! Limit of the site's new flows per second: a token bucket.

use wire::time::{Instant, TokenBucket};
use wire::tunnel::Flow;

/// The bucket, and the flow that was admitted last.
#[derive(Debug)]
pub(crate) struct NewFlowLimit {
    bucket: TokenBucket,
    /// A frame that goes to all peers is one new flow, not one for each of them.
    last: Option<Flow>,
}

impl NewFlowLimit {
    pub(crate) const fn new(per_second: u32) -> Self {
        Self { bucket: TokenBucket::per_second(per_second), last: None }
    }

    /// True if this flow may get a number now.
    pub(crate) fn admit(&mut self, now: Instant, flow: &Flow) -> bool {
        if self.last == Some(*flow) {
            return true;
        }
        let admitted = self.bucket.take(now);
        if admitted {
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
