//! What the CPUs have been used for: by some processes or threads, and by the kernel's network softirqs.
//!
//! The kernel counts in ticks (mostly of 10 ms): a difference over a second or more is good to about a percent.
//! Softirqs are those of the whole machine; nobody can tell on whose behalf one ran. A comparison of two cases with
//! the same traffic has the same error in both.

use std::time::Duration;

use procfs::process::{Process, Stat};
use procfs::{CurrentSI as _, KernelStats};

use crate::Error;

/// Who is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runner {
    /// A process with all its threads.
    Process(u32),
    /// A thread of this process, as [`own_thread`] names it.
    Thread(i32),
}

/// The thread that asks.
pub fn own_thread() -> Runner {
    Runner::Thread(nix::unistd::gettid().as_raw())
}

/// CPU times since they began to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuTimes {
    /// Of the runners, in their own code and in system calls, softirqs left out.
    pub runners: Duration,
    /// Of all softirqs of the machine.
    pub softirq: Duration,
}

impl CpuTimes {
    /// The times at this moment.
    ///
    /// # Errors
    /// If a runner is gone or `/proc` cannot be read.
    pub fn now(runners: &[Runner]) -> Result<Self, Error> {
        let failed = |error: procfs::ProcError| Error::Unexpected(format!("CPU times from /proc: {error}"));
        let mut ticks = 0;
        for runner in runners {
            let Stat { utime, stime, .. } = stat(*runner).map_err(failed)?;
            ticks += utime + stime;
        }
        let softirq = KernelStats::current().map_err(failed)?.total.softirq_duration();
        let runners = Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64);
        Ok(Self { runners, softirq: softirq.unwrap_or_default() })
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            runners: self.runners.saturating_sub(earlier.runners),
            softirq: self.softirq.saturating_sub(earlier.softirq),
        }
    }

    /// Both together.
    pub fn sum(self) -> Duration {
        self.runners + self.softirq
    }
}

fn stat(runner: Runner) -> procfs::ProcResult<Stat> {
    match runner {
        Runner::Process(pid) => Process::new(i32::try_from(pid).unwrap_or(i32::MAX))?.stat(),
        Runner::Thread(tid) => Process::myself()?.task_from_tid(tid)?.stat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_time_and_a_missing_process_is_told() {
        let own = [own_thread()];
        let before = CpuTimes::now(&own).unwrap();
        let mut used = Duration::ZERO;
        // As long as it takes: on a loaded machine a thread gets few ticks a second.
        while used.is_zero() {
            std::hint::black_box((0..1_000_000u64).fold(0, |sum, number| sum ^ number));
            used = CpuTimes::now(&own).unwrap().since(before).runners;
        }
        let process = [Runner::Process(std::process::id())];
        assert!(CpuTimes::now(&process).unwrap().runners >= used);
        assert!(CpuTimes::now(&[Runner::Process(u32::MAX)]).is_err());
    }
}
