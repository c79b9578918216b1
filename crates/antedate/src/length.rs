//! How long the next message will be, from those before it (paper section IV-A.2).
//!
//! Industrial traffic repeats itself: one length always, or a few in turn. The shortest period that explains all of the
//! last messages says the next one; without one, the most frequent length does, the latest of equally frequent ones.

use crate::ccm::Expected;

/// Messages that are remembered.
const REMEMBERED: usize = 8;

/// The lengths of the last messages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LengthPredictor {
    /// The latest first.
    last: [usize; REMEMBERED],
    known: usize,
}

impl LengthPredictor {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self { last: [0; REMEMBERED], known: 0 }
    }

    /// A message was so long.
    pub fn observe(&mut self, octets: usize) {
        self.last.rotate_right(1);
        self.last[0] = octets;
        self.known = REMEMBERED.min(self.known + 1);
    }

    /// What the next message is expected to be; `None` before the first.
    pub fn predict(&self) -> Option<Expected> {
        self.predict_after(0)
    }

    /// What the message is expected to be that comes after `others` more, for those who prepare several ahead.
    pub fn predict_after(&self, others: usize) -> Option<Expected> {
        let last = self.last.get(..self.known)?;
        let at_most = *last.iter().max()?;
        // A period has to be seen twice.
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
        assert_eq!(LengthPredictor::new().expected(), None);
    }
}
