//! Prediction of the next message's length from earlier ones (paper section IV-A.2).
//!
//! Industrial traffic repeats itself: always one length, or a few in turn. The shortest period that explains
//! all of the last messages gives the next one. Without a period, the most frequent length does, the latest
//! of equally frequent ones.

use crate::ccm::Expected;

/// Number of remembered messages.
const REMEMBERED: usize = 8;

/// Predictor of message lengths.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LengthPredictor {
    /// Lengths, the latest first.
    last: [usize; REMEMBERED],
    known: usize,
}

impl LengthPredictor {
    /// Without observations.
    pub const fn new() -> Self {
        Self { last: [0; REMEMBERED], known: 0 }
    }

    /// Records the length of a message.
    pub fn observe(&mut self, octets: usize) {
        self.last.rotate_right(1);
        self.last[0] = octets;
        self.known = REMEMBERED.min(self.known + 1);
    }

    /// Predicted length of the next message; `None` before the first.
    pub fn predict(&self) -> Option<Expected> {
        self.predict_after(0)
    }

    /// Predicted length of the message after `others` more, for preparing several ahead.
    pub fn predict_after(&self, others: usize) -> Option<Expected> {
        let last = self.last.get(..self.known)?;
        let at_most = *last.iter().max()?;
        // A period must occur twice.
        let period =
            (1..=last.len() / 2).find(|&period| last.iter().zip(&last[period..]).all(|(a, b)| a == b));
        let length = match period {
            Some(period) => last[period - 1 - others % period],
            None => {
                let times = |octets: usize| last.iter().filter(|&&other| other == octets).count();
                // Of equal ones `max_by_key` takes the last: the latest message.
                *last.iter().rev().max_by_key(|&&octets| times(octets))?
            }
        };
        Some(Expected { length, at_most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_itself_is_foreseen() {
        // Messages so far, then those that are expected.
        let table: [(&[usize], &[usize]); 7] = [
            (&[40], &[40, 40]),
            (&[40, 40, 40], &[40, 40, 40]),
            (&[24, 100, 24, 100], &[24, 100, 24, 100]),
            (&[9, 24, 24, 100, 24, 24, 100, 24, 24, 100], &[24, 24, 100, 24]),
            // No period: the most frequent, or the latest.
            (&[24, 24, 24, 100], &[24, 24]),
            (&[24, 100], &[100, 100]),
            (&[500, 1, 2, 3, 4, 5, 6, 7, 8], &[8, 8]),
        ];
        for (seen, predictable_prefix) in table {
            let mut lengths = LengthPredictor::new();
            seen.iter().for_each(|&octets| lengths.observe(octets));
            for (others, &length) in predictable_prefix.iter().enumerate() {
                let at_most = *seen.iter().rev().take(REMEMBERED).max().expect("messages");
                assert_eq!(lengths.predict_after(others), Some(Expected { length, at_most }), "{seen:?}");
            }
        }
        assert_eq!(LengthPredictor::new().predict(), None);
    }
}
