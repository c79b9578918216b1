//! Replay window of a receiver (RFC 6347 section 4.1.2.6): each number is taken once.

/// Numbers from the highest one down that a window holds.
pub const WINDOW: u64 = 64;

/// Numbers that were taken: the highest one, and which of the [`WINDOW`] up to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    highest: u64,
    /// Bit n: `highest - n` was taken. 0 before the first number.
    taken: u64,
}

impl Window {
    /// Takes numbers from `first` on: after a restart, those behind the highest one that was taken.
    pub const fn from(first: u64) -> Self {
        match first.checked_sub(1) {
            Some(highest) => Self { highest, taken: u64::MAX },
            None => Self { highest: 0, taken: 0 },
        }
    }

    /// True if this number was not taken and is not older than the window.
    pub const fn is_new(&self, number: u64) -> bool {
        if number > self.highest || self.taken == 0 {
            return true;
        }
        let age = self.highest - number;
        age < WINDOW && self.taken >> age & 1 == 0
    }

    /// Takes a number. Only that of an authentic message: others would move the window.
    pub const fn take(&mut self, number: u64) {
        if self.taken == 0 {
            (self.highest, self.taken) = (number, 1);
        } else if number > self.highest {
            let moved = number - self.highest;
            self.taken = if moved < WINDOW { self.taken << moved | 1 } else { 1 };
            self.highest = number;
        } else if self.highest - number < WINDOW {
            self.taken |= 1 << (self.highest - number);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Numbers near each other and far away, also at the ends, beside a set of all that were taken.
        #[test]
        fn each_number_is_new_once(floored: bool, first in prop_oneof![Just(0), Just(u64::MAX - 200), any::<u64>()],
                                   moves in proptest::collection::vec(prop_oneof![0_u64..3, 60..70_u64, 0..200_u64], 1..100)) {
            let floor = if floored { first } else { 0 };
            let (mut window, mut taken) = (Window::from(floor), BTreeSet::new());
            let mut highest = None::<u64>;
            for (at, moved) in moves.into_iter().enumerate() {
                let number = if at % 2 == 0 { first.wrapping_add(moved) } else { first.wrapping_sub(moved) };
                let in_window = number >= floor && highest.is_none_or(|highest| number > highest || highest - number < WINDOW);
                prop_assert_eq!(window.is_new(number), in_window && !taken.contains(&number), "{} {:?}", number, window);
                if window.is_new(number) {
                    window.take(number);
                    taken.insert(number);
                    highest = highest.max(Some(number));
                    prop_assert!(!window.is_new(number));
                }
            }
        }
    }
}
