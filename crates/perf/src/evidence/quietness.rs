//! Quietness of the machine during a step: what others took of it.

use std::time::Duration;

use lab::MachineTimes;
use serde::{Deserialize, Serialize};
use speed::frame_times::{Clock, empty_loop};

/// More stolen time than this makes a step noisy, in percent.
pub const STOLEN: f64 = 1.0;
/// An empty loop whose p99.9 is so many times its length makes a step noisy.
pub const INTERRUPTED: f64 = 2.0;
/// Length of the empty loop: that of a frame of middle length.
const LOOP: Duration = Duration::from_nanos(800);
/// Duration of the loops behind a step.
const LOOPING: Duration = Duration::from_millis(100);
/// By then the kernel has removed the namespaces of a step, which takes a CPU.
const SETTLED: Duration = Duration::from_millis(500);

/// Share of the machine that others took.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Quietness {
    /// Percent of all CPU time of the step that the hypervisor gave to others.
    pub stolen: f64,
    /// p99.9 of an empty loop behind the step, divided by the loop's length.
    pub empty_loop: f64,
    /// Number of measurements of the step; more than one if it was noisy.
    pub tries: u32,
}

impl Quietness {
    /// Whether others took so much that figures may be of them.
    pub fn is_noisy(&self) -> bool {
        self.stolen > STOLEN || self.empty_loop > INTERRUPTED
    }
}

/// Begin of a step.
pub(super) struct Watch {
    begin: Option<MachineTimes>,
}

impl Watch {
    pub(super) fn begin() -> Self {
        Self { begin: MachineTimes::now().ok() }
    }

    pub(super) fn end(self, tries: u32) -> Quietness {
        let passed = self.begin.zip(MachineTimes::now().ok());
        let stolen = passed.map_or(0.0, |(begin, now)| now.stolen_since(begin));
        std::thread::sleep(SETTLED);
        Quietness { stolen, empty_loop: looped(), tries }
    }
}

fn looped() -> f64 {
    empty_loop(Clock::measure(), LOOP, LOOPING).value_at_quantile(0.999) as f64 / LOOP.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_noisy_by_stolen_time_or_by_interruptions() {
        for (stolen, empty_loop, noisy) in
            [(0.9, 1.9, false), (1.1, 1.0, true), (0.0, 2.1, true), (STOLEN, INTERRUPTED, false)]
        {
            assert_eq!(Quietness { stolen, empty_loop, tries: 1 }.is_noisy(), noisy, "{stolen} {empty_loop}");
        }
    }

    #[test]
    fn what_is_measured_is_a_share_and_a_multiple() {
        let quietness = Watch::begin().end(1);
        assert!((0.0..=100.0).contains(&quietness.stolen) && quietness.empty_loop >= 1.0, "{quietness:?}");
    }
}
