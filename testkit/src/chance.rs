//! Chance from a seed, for worlds under virtual time.

use std::ops::Range;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Chance that is the same for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// True in so many of a thousand cases.
    pub fn happens(&mut self, in_thousand: u64) -> bool {
        self.below(1000) < in_thousand
    }

    /// One of these, of which there are some.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// 32 random octets.
    pub fn octets(&mut self) -> [u8; 32] {
        let mut octets = [0; 32];
        octets.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.draw().to_le_bytes()));
        octets
    }
}

/// Seeds of worlds. `FRAMEWARD_SEED` names one; `FRAMEWARD_SEEDS` says how many from 0 on, or which (`2000..3000`). Without them the first
/// `otherwise`.
///
/// # Panics
/// If that is something else.
pub fn seeds(otherwise: u64) -> Range<u64> {
    let told = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} is no number of seeds"));
    match (told("FRAMEWARD_SEED"), told("FRAMEWARD_SEEDS")) {
        (Some(seed), _) => number(&seed)..number(&seed) + 1,
        (None, Some(seeds)) => match seeds.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&seeds),
        },
        (None, None) => 0..otherwise,
    }
}

/// Time that worlds take on one thread.
#[derive(Debug)]
pub struct Speed {
    began: Instant,
    cpu: Duration,
}

impl Speed {
    /// Worlds begin on this thread.
    pub fn begin() -> Self {
        Self { began: Instant::now(), cpu: of_a_cpu() }
    }

    /// Virtual time beside that of a CPU, which others on the machine do not lengthen, and beside that of a clock on the wall.
    pub fn of(&self, time: Duration) -> String {
        let [time, cpu, took] =
            [time, of_a_cpu() - self.cpu, self.began.elapsed()].map(|of| of.as_secs_f64());
        format!(
            "{time:.0} s of virtual time in {cpu:.1} s of a CPU, {:.0} times as fast; {took:.1} s by the clock",
            time / cpu
        )
    }
}

/// Time that a CPU had for this thread.
fn of_a_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread has such a clock").into()
}
