//! Times of single frames, as `plan` and `bench fieldbus` measure them.
//!
//! | figure | how |
//! |---|---|
//! | p50 | bursts of 64 frames, timed as a whole: the median of the bursts, for each frame |
//! | p50 of single frames, p99.9, worst | single frames, each timed by itself |
//! | what a p99.9 is made of | a loop that is as long and does nothing ([`empty_loop`]); slow frames that stand together ([`SlowFrames`]) |
//!
//! Reading the clock takes about as long as the cipher does for a short frame. What two readings without anything between
//! them take, the median of many, is taken off each single frame; of a burst it is a hundredth, and stays.
//! Each frame is protected and then verified, so both have the same relation and the same moment of the machine.

use std::time::{Duration, Instant};

use crate::burst::BURST;
use crate::cells::Cells;
use hdrhistogram::Histogram;

/// The longest time that is told apart from longer ones.
const LONGEST: Duration = Duration::from_secs(10);
/// Digits that a percentile has.
const DIGITS: u8 = 3;
/// Number of clock readings that measure the time of one.
const READINGS: usize = 10_001;

/// Time of a clock reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Of two readings with nothing between them.
    pub nanoseconds: u64,
}

impl Clock {
    /// Measures it: less than a millisecond.
    pub fn measure() -> Self {
        let reading = |_| {
            let begin = Instant::now();
            begin.elapsed().as_nanos() as f64
        };
        Self { nanoseconds: median(&(0..READINGS).map(reading).collect::<Vec<_>>()) as u64 }
    }

    /// `time` between two readings, without the time that a reading itself takes.
    fn between(self, time: Duration) -> u64 {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_sub(self.nanoseconds);
        nanoseconds.clamp(1, LONGEST.as_nanos() as u64)
    }
}

/// Times of one operation, in nanoseconds a frame.
#[derive(Clone, Debug)]
pub struct FrameTimes {
    /// Of each burst, for each of its frames.
    bursts: Vec<f64>,
    singles: Histogram<u64>,
    /// Of the rounds before.
    slow: SlowFrames,
    /// Single frames of the round, in the order they came.
    in_order: Vec<u32>,
}

/// Number of slow single frames, and of those beside another slow one. A frame that is slow of itself, or was
/// interrupted, stands alone; those of a CPU that is slower for a while stand together.
///
/// Slow is a frame that takes a third longer than the median of its round. Where the CPU is slower for more than half of a
/// round, the frames of that time are no slow ones: there are more spells than these figures tell.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SlowFrames {
    /// All frames.
    pub frames: u64,
    /// The slow ones of them.
    pub slow: u64,
    together: u64,
}

impl SlowFrames {
    /// Of one round, in the order they came.
    fn of(times: &[u32]) -> Self {
        let mut sorted = times.to_vec();
        let middle = match sorted.len() {
            0 => 0,
            len => *sorted.select_nth_unstable(len / 2).1,
        };
        let is_slow = |time: &u32| u64::from(*time) * 3 > u64::from(middle) * 4;
        let mut count = Self { frames: times.len() as u64, ..Self::default() };
        for run in times.chunk_by(|one, next| is_slow(one) == is_slow(next)).filter(|run| is_slow(&run[0])) {
            count.slow += run.len() as u64;
            count.together += if run.len() > 1 { run.len() as u64 } else { 0 };
        }
        count
    }

    /// Adds those of others.
    pub const fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.slow += other.slow;
        self.together += other.together;
    }

    /// Slow ones of 100 frames.
    pub fn percent(self) -> f64 {
        percent(self.slow, self.frames)
    }

    /// Of 100 slow ones, those beside another.
    pub fn percent_together(self) -> f64 {
        percent(self.together, self.slow)
    }

    /// The same, if as many were spread by chance.
    pub fn percent_by_chance(self) -> f64 {
        let quick = 1.0 - self.percent() / 100.0;
        100.0 * (1.0 - quick * quick)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Percentiles, in nanoseconds a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Percentiles {
    /// Of bursts.
    pub p50: f64,
    /// Of single frames, as the next two.
    pub single_p50: f64,
    /// One in a thousand takes longer.
    pub p99_9: f64,
    /// The longest.
    pub worst: f64,
    /// Single frames behind the last three.
    pub samples: u64,
}

impl Default for FrameTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameTimes {
    /// None yet.
    pub fn new() -> Self {
        let singles = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, DIGITS);
        Self {
            bursts: Vec::new(),
            singles: singles.expect("invariant: bounds and digits are possible"),
            slow: SlowFrames::default(),
            in_order: Vec::new(),
        }
    }

    /// The median of all bursts.
    pub fn middle(&self) -> f64 {
        median(&self.bursts)
    }

    /// Their percentiles.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            p50: self.middle(),
            single_p50: self.singles.value_at_quantile(0.5) as f64,
            p99_9: self.singles.value_at_quantile(0.999) as f64,
            worst: self.singles.max() as f64,
            samples: self.singles.len(),
        }
    }

    /// Adds what was measured in another round.
    pub fn add(&mut self, other: &Self) {
        self.bursts.extend_from_slice(&other.bursts);
        self.singles.add(&other.singles).expect("invariant: all histograms have the same bounds");
        self.slow.add(other.slow());
    }

    /// Adds a loop that does nothing ([`empty_loop`]), so often at least.
    pub fn add_idle(&mut self, clock: Clock, length: Duration, least: usize, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time || self.singles.len() < least as u64 {
            let left = time.saturating_sub(begin.elapsed());
            let taken = empty_loop(clock, length, left);
            self.singles.add(&taken).expect("invariant: all histograms have the same bounds");
        }
    }

    /// The slow ones of all rounds.
    pub fn slow(&self) -> SlowFrames {
        let mut slow = self.slow;
        slow.add(SlowFrames::of(&self.in_order));
        slow
    }

    /// Takes in a single frame.
    fn single(&mut self, nanoseconds: u64) {
        self.singles.saturating_record(nanoseconds);
        self.in_order.push(u32::try_from(nanoseconds).unwrap_or(u32::MAX));
    }
}

/// Operations on frames of some relations: to prepare them, which is not timed, then to protect and to verify them. It panics
/// if that fails.
pub trait Work {
    /// Gets frames ready; this is not timed.
    fn prepare(&mut self, relations: &[usize]);
    /// Protects one frame of each relation.
    fn protect(&mut self, relations: &[usize]);
    /// Verifies what was protected.
    fn verify(&mut self, relations: &[usize]);
}

/// A gateway's work.
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

/// Protects and verifies frames in `order` for as long as `time`, and each of `order` once at least: half of it in bursts, then
/// one by one.
pub fn round(clock: Clock, order: &[usize], time: Duration, work: &mut impl Work) -> [FrameTimes; 2] {
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
                        times.single(clock.between(time));
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

/// Time, in nanoseconds, of a loop that reads the clock until `length` has passed and does nothing else, over and over for as
/// long as `time`. A timer, a hypervisor and whoever else interrupts this CPU hit it as they hit work of the same length, which so
/// can have no better p99.9 on this machine at this moment.
pub fn empty_loop(clock: Clock, length: Duration, time: Duration) -> Histogram<u64> {
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

/// The middle value, or the mean of the two in the middle; 0 if there is none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.get(upper) {
        None => 0.0,
        Some(value) if sorted.len() % 2 == 1 => *value,
        Some(value) => f64::midpoint(sorted[upper - 1], *value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, expected) in [(&[][..], 0.0), (&[3.0], 3.0), (&[9.0, 1.0], 5.0), (&[7.0, 1.0, 2.0], 2.0)]
        {
            assert!((median(values) - expected).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn an_empty_loop_is_as_long_as_told_or_longer() {
        let clock = Clock { nanoseconds: 20 };
        for nanoseconds in [1, 400, 20_000] {
            let taken = empty_loop(clock, Duration::from_nanos(nanoseconds), Duration::from_millis(1));
            assert!(taken.min() >= nanoseconds && !taken.is_empty(), "{nanoseconds}: {}", taken.min());
        }
    }

    #[derive(Default)]
    struct Input {
        prepared: Vec<Vec<usize>>,
        verified: usize,
    }

    impl Work for Input {
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
        let mut told = Input::default();
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
    fn slow_frames_are_told_from_spells() {
        for (times, slow, together) in [
            (&[][..], 0, 0),
            (&[300], 0, 0),
            (&[300, 400, 300, 300], 0, 0),
            (&[300, 401, 300, 300, 9000], 2, 0),
            (&[300, 401, 500, 300, 300, 9000, 300], 3, 2),
            (&[600, 600, 300, 300, 300, 300, 600], 3, 2),
        ] {
            let expected = SlowFrames { frames: times.len() as u64, slow, together };
            assert_eq!(SlowFrames::of(times), expected, "{times:?}");
        }
        let mut all = SlowFrames { frames: 60, slow: 0, together: 0 };
        all.add(SlowFrames { frames: 40, slow: 10, together: 9 });
        let told = [all.percent(), all.percent_together(), all.percent_by_chance()];
        assert!(
            told.iter().zip([10.0, 90.0, 19.0]).all(|(told, right)| (told - right).abs() < 1e-9),
            "{told:?}"
        );
        assert_eq!(SlowFrames::default().percent_together().to_bits(), 0.0_f64.to_bits());
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
