//! Numbers of lanes, paths, stations and flows. One that is given up rests for [`GRACE`]: a program may be at work with it still.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Time for which a program may be at work with a number that it was given before.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// Free numbers, and resting ones.
#[derive(Debug)]
pub(super) struct Numbers {
    free: Vec<u32>,
    resting: VecDeque<(Instant, u32)>,
}

impl Numbers {
    pub(super) fn new(room: u32) -> Self {
        Self::from(0..room)
    }

    /// These.
    pub(super) fn from(numbers: Range<u32>) -> Self {
        Self { free: numbers.rev().collect(), resting: VecDeque::new() }
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Numbers that there are to be had.
    pub(super) const fn free(&self) -> usize {
        self.free.len()
    }

    /// Numbers that have rested may be used again.
    pub(super) fn reuse(&mut self) {
        for number in self.rested() {
            self.put_back(number);
        }
    }

    /// A number that nobody uses any more.
    pub(super) fn put_back(&mut self, number: u32) {
        self.free.push(number);
    }

    /// A number is given up.
    pub(super) fn rest(&mut self, number: u32) {
        self.resting.push_back((Instant::now(), number));
    }

    /// Numbers that have rested: they are the caller's.
    pub(super) fn rested(&mut self) -> Vec<u32> {
        let mut rested = Vec::new();
        while let Some((since, number)) = self.resting.front().copied()
            && since.elapsed() >= GRACE
        {
            self.resting.pop_front();
            rested.push(number);
        }
        rested
    }

    /// Free and resting ones.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.free.len(), self.resting.len()]
    }
}
