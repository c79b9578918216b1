//! Clock of a steady stream: tells when its next frames are due.

use std::time::{Duration, Instant};

/// Time until it is looked again whether a frame is due.
const WAIT: Duration = Duration::from_micros(20);

/// A rate, and how many frames were sent of it.
#[derive(Debug)]
pub(crate) struct Pace {
    start: Instant,
    per_second: Option<u32>,
    /// Frames that may be made up for at once.
    most_behind: u64,
    sent: u64,
}

impl Pace {
    /// `per_second` frames from now on, or as many as go. What could not be sent in time is made up for as far as
    /// `most_behind` frames: beyond that a sender that was held up would send a burst, and the rate would be another.
    pub(crate) fn new(per_second: Option<u32>, most_behind: u64) -> Self {
        Self { start: Instant::now(), per_second, most_behind, sent: 0 }
    }

    /// Has what is due sent; waits a moment if that is nothing. `send` gets the number of frames, and returns how many it has sent.
    pub(crate) fn keep<E>(&mut self, send: impl FnOnce(usize) -> Result<usize, E>) -> Result<usize, E> {
        let due = self.due();
        if due == 0 {
            std::thread::sleep(WAIT);
            return Ok(0);
        }
        let taken = send(due)?;
        self.sent(taken);
        Ok(taken)
    }

    /// Frames that are due now.
    fn due(&mut self) -> usize {
        let Some(rate) = self.per_second else { return usize::MAX };
        let due = (self.start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        self.sent = self.sent.max(due.saturating_sub(self.most_behind));
        usize::try_from(due.saturating_sub(self.sent)).unwrap_or(usize::MAX)
    }

    /// Counts frames that were sent.
    fn sent(&mut self, frames: usize) {
        self.sent += frames as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_made_up_for_within_bounds() {
        let mut pace = Pace::new(Some(1000), 64);
        pace.start = Instant::now().checked_sub(Duration::from_millis(20)).unwrap();
        let due = pace.due();
        assert!((20..64).contains(&due) || due == 64, "{due}");
        pace.sent(due);
        assert!(pace.due() < due);
        pace.start = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        assert!((64..=65).contains(&pace.due()), "ten seconds are not made up for");
        assert_eq!(Pace::new(None, 0).due(), usize::MAX);
    }
}
