//! How long single frames take: what `plan` and `bench fieldbus` measure.
//!
//! | figure | how |
//! |---|---|
//! | p50 | bursts of 64 frames, timed as a whole: the median of the bursts, for each frame |
//! | p50 of single frames, p99.9, worst | single frames, each timed by itself |
//! | what a p99.9 is made of | a loop that is as long and does nothing ([`empty_loop`]) |
//!
//! Reading the clock takes about as long as the cipher does for a short frame. What two readings without anything between
//! them take, the median of many, is taken off each single frame; of a burst it is a hundredth, and stays.
//! Each frame is protected and then verified, so both have the same relation and the same moment of the machine.

use std::time::{Duration, Instant};

use ::bench::cells::Cells;
use ::bench::ciphers::Ciphers;
use ::bench::secys::BURST;
use hdrhistogram::Histogram;

use super::samples::median;

/// The longest time that is told apart from longer ones.
const LONGEST: Duration = Duration::from_secs(10);
/// Digits that a percentile has.
const DIGITS: u8 = 3;
/// How often the clock is read to see how long that takes.
const READINGS: usize = 10_001;

/// What reading the clock takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    pub(crate) nanoseconds: u64,
}

impl Clock {
    /// Measures it: less than a millisecond.
    pub(crate) fn measure() -> Self {
        let reading = |_| {
            let begin = Instant::now();
            begin.elapsed().as_nanos() as f64
        };
        Self { nanoseconds: median(&(0..READINGS).map(reading).collect::<Vec<_>>()) as u64 }
    }

    /// What lies between the readings of which each of two takes its time.
    fn between(self, time: Duration) -> u64 {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_sub(self.nanoseconds);
        nanoseconds.clamp(1, LONGEST.as_nanos() as u64)
    }
}

/// Times of one operation, in nanoseconds a frame.
#[derive(Clone, Debug)]
pub(crate) struct FrameTimes {
    /// Of each burst, for each of its frames.
    bursts: Vec<f64>,
    singles: Histogram<u64>,
}

/// What is said of them, in nanoseconds a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    /// Of single frames, as the next two.
    pub(crate) single_p50: f64,
    pub(crate) p99_9: f64,
    pub(crate) worst: f64,
    /// Single frames behind the last three.
    pub(crate) samples: u64,
}

impl FrameTimes {
    pub(crate) fn new() -> Self {
        let singles = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, DIGITS);
        Self { bursts: Vec::new(), singles: singles.expect("invariant: bounds and digits are possible") }
    }

    /// The median of all bursts.
    pub(crate) fn middle(&self) -> f64 {
        median(&self.bursts)
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles {
            p50: self.middle(),
            single_p50: self.singles.value_at_quantile(0.5) as f64,
            p99_9: self.singles.value_at_quantile(0.999) as f64,
            worst: self.singles.max() as f64,
            samples: self.singles.len(),
        }
    }

    /// Adds what was measured in another round.
    pub(crate) fn add(&mut self, other: &Self) {
        self.bursts.extend_from_slice(&other.bursts);
        self.singles.add(&other.singles).expect("invariant: all histograms have the same bounds");
    }
}

/// What can be done to frames of some relations: to prepare them, which is not timed, then to protect and to verify them. It panics
/// if that fails.
pub(crate) trait Work {
    fn prepare(&mut self, relations: &[usize]);
    fn protect(&mut self, relations: &[usize]);
    fn verify(&mut self, relations: &[usize]);
}

/// What a gateway does.
impl Work for Cells {
    fn prepare(&mut self, relations: &[usize]) {
        Self::prepare(self, relations);
    }

    fn protect(&mut self, _relations: &[usize]) {
        Self::protect(self);
    }

    fn verify(&mut self, _relations: &[usize]) {
        Self::verify(self);
    }
}

/// The cipher alone.
impl Work for Ciphers {
    fn prepare(&mut self, _relations: &[usize]) {}

    fn protect(&mut self, relations: &[usize]) {
        self.seal(relations);
    }

    fn verify(&mut self, relations: &[usize]) {
        assert!(self.open(relations), "what was sealed does not open");
    }
}

/// Protects and verifies frames in `order` for as long as `time`, and each of `order` once at least: half of it in bursts, then
/// one by one.
pub(crate) fn round(clock: Clock, order: &[usize], time: Duration, work: &mut impl Work) -> [FrameTimes; 2] {
    let mut times = [FrameTimes::new(), FrameTimes::new()];
    for frames in [BURST, 1] {
        let start = Instant::now();
        loop {
            for relations in order.chunks(frames) {
                work.prepare(relations);
                let begin = Instant::now();
                work.protect(relations);
                let middle = Instant::now();
                work.verify(relations);
                let end = Instant::now();
                for (times, time) in times.iter_mut().zip([middle - begin, end - middle]) {
                    if frames == 1 {
                        times.singles.saturating_record(clock.between(time));
                    } else {
                        times.bursts.push(time.as_nanos() as f64 / relations.len() as f64);
                    }
                }
            }
            if start.elapsed() >= time / 2 {
                break;
            }
        }
    }
    times
}

/// What a loop takes, in nanoseconds, that reads the clock until `length` has passed and does nothing else, over and over for as
/// long as `time`. A timer, a hypervisor and whoever else interrupts this CPU hit it as they hit work of the same length, which so
/// can have no better p99.9 on this machine at this moment.
pub(crate) fn empty_loop(clock: Clock, length: Duration, time: Duration) -> Histogram<u64> {
    let mut taken = FrameTimes::new().singles;
    let start = Instant::now();
    while start.elapsed() < time || taken.is_empty() {
        let begin = Instant::now();
        let passed = loop {
            let passed = clock.between(begin.elapsed());
            if u128::from(passed) >= length.as_nanos() {
                break passed;
            }
        };
        taken.saturating_record(passed);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_loop_is_as_long_as_told_or_longer() {
        let clock = Clock { nanoseconds: 20 };
        for nanoseconds in [1, 400, 20_000] {
            let taken = empty_loop(clock, Duration::from_nanos(nanoseconds), Duration::from_millis(1));
            assert!(taken.min() >= nanoseconds && !taken.is_empty(), "{nanoseconds}: {}", taken.min());
        }
    }

    #[derive(Default)]
    struct Told {
        prepared: Vec<Vec<usize>>,
        verified: usize,
    }

    impl Work for Told {
        fn prepare(&mut self, relations: &[usize]) {
            self.prepared.push(relations.to_vec());
        }

        fn protect(&mut self, relations: &[usize]) {
            assert_eq!(self.prepared.last().map(Vec::as_slice), Some(relations));
        }

        fn verify(&mut self, relations: &[usize]) {
            self.protect(relations);
            self.verified += 1;
        }
    }

    #[test]
    fn bursts_and_single_frames_go_through_the_whole_order() {
        let order: Vec<_> = (0..130).collect();
        let mut told = Told::default();
        let [mut protect, verify] = round(Clock { nanoseconds: 0 }, &order, Duration::ZERO, &mut told);
        let lengths: Vec<_> = told.prepared.iter().map(Vec::len).collect();
        assert_eq!(lengths, [&[64, 64, 2][..], &[1; 130]].concat());
        assert_eq!(told.verified, 133);
        assert_eq!((protect.bursts.len(), verify.percentiles().samples), (3, 130));
        protect.add(&verify);
        let Percentiles { p99_9, worst, samples, .. } = protect.percentiles();
        assert!(samples == 260 && p99_9 <= worst && worst > 0.0);
    }

    #[test]
    fn what_the_clock_takes_is_taken_off_and_nothing_becomes_negative() {
        let clock = Clock { nanoseconds: 25 };
        for (time, between) in [(0, 1), (25, 1), (100, 75), (20_000_000_000, 10_000_000_000)] {
            assert_eq!(clock.between(Duration::from_nanos(time)), between);
        }
        assert!(Clock::measure().nanoseconds < 1_000_000);
    }
}
