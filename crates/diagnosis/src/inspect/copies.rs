//! Frames that a capture holds twice: taken at two points, or by a switch that mirrors both directions.
//!
//! The same octets on the same interface within a few milliseconds are a copy, not a replay: a copy is listed, and
//! the receiver does not see it. On another interface they are what that interface's own receiver has seen. What
//! comes later than that goes to the receiver, who calls it late or a duplicate.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Frames that are remembered.
const REMEMBERED: usize = 4096;

/// The frames of the last milliseconds.
#[derive(Debug)]
pub struct Copies {
    within: Duration,
    /// Drawn anew for each capture: nobody can make frames that collide.
    hasher: RandomState,
    recent: VecDeque<(u64, Option<Duration>)>,
    numbers: HashMap<u64, u64>,
}

impl Copies {
    /// Copies come at most so much later; none for no time at all.
    pub fn new(within: Duration) -> Self {
        Self { within, hasher: RandomState::new(), recent: VecDeque::new(), numbers: HashMap::new() }
    }

    /// The number of the frame of which this one is a copy.
    pub fn of(
        &mut self,
        number: u64,
        interface: usize,
        time: Option<Duration>,
        octets: &[u8],
    ) -> Option<u64> {
        if self.within.is_zero() {
            return None;
        }
        let old = |then: Option<Duration>| match (then, time) {
            (Some(then), Some(now)) => now.abs_diff(then) > self.within,
            _ => false,
        };
        while let Some((hash, _)) =
            self.recent.front().filter(|(_, then)| old(*then) || self.recent.len() == REMEMBERED)
        {
            self.numbers.remove(hash);
            self.recent.pop_front();
        }
        let hash = self.hasher.hash_one((interface, octets));
        if let Some(first) = self.numbers.get(&hash) {
            return Some(*first);
        }
        self.recent.push_back((hash, time));
        self.numbers.insert(hash, number);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same_octets_on_the_same_interface_soon() {
        let mut copies = Copies::new(Duration::from_millis(5));
        let at = |milliseconds| Some(Duration::from_millis(milliseconds));
        assert_eq!(copies.of(1, 0, at(0), b"one"), None);
        assert_eq!(copies.of(2, 0, at(1), b"two"), None);
        assert_eq!(copies.of(3, 0, at(2), b"one"), Some(1));
        assert_eq!(copies.of(4, 1, at(2), b"one"), None, "another interface");
        assert_eq!(copies.of(5, 0, at(6), b"one"), None, "later: a replay");
        assert_eq!(copies.of(6, 0, at(6), b"two"), Some(2));
        assert_eq!(Copies::new(Duration::ZERO).of(1, 0, None, b"one"), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut copies = Copies::new(Duration::from_secs(1));
        for number in 0..3 * REMEMBERED as u64 {
            assert_eq!(copies.of(number, 0, None, &number.to_be_bytes()), None);
            assert!(copies.recent.len() <= REMEMBERED && copies.numbers.len() == copies.recent.len());
        }
    }
}
