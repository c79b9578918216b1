//! What the CPUs have been used for, by some processes and by the kernel's network softirqs; and what memory the
//! processes have.
//!
//! The kernel counts in ticks (mostly of 10 ms): a difference over a second or more is good to about a percent.
//! Softirqs are those of the whole machine; nobody can tell on whose behalf one ran. A comparison of two cases with
//! the same traffic has the same error in both.

use std::time::Duration;

use procfs::process::{Process, Stat};
use procfs::{CurrentSI as _, KernelStats};

use crate::Error;

/// CPU times since they began to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuTimes {
    /// Of the processes with all their threads, in their own code and in system calls, softirqs left out.
    pub processes: Duration,
    /// Of all softirqs of the machine.
    pub softirq: Duration,
}

impl CpuTimes {
    /// The times at this moment.
    ///
    /// # Errors
    /// If a process is gone or `/proc` cannot be read.
    pub fn now(processes: &[u32]) -> Result<Self, Error> {
        let failed = |error: procfs::ProcError| Error::Unexpected(format!("CPU times from /proc: {error}"));
        let mut ticks = 0;
        for pid in processes {
            let Stat { utime, stime, .. } = stat(*pid).map_err(failed)?;
            ticks += utime + stime;
        }
        let softirq = KernelStats::current().map_err(failed)?.total.softirq_duration();
        let processes = Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64);
        Ok(Self { processes, softirq: softirq.unwrap_or_default() })
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            processes: self.processes.saturating_sub(earlier.processes),
            softirq: self.softirq.saturating_sub(earlier.softirq),
        }
    }

    /// Both together.
    pub fn sum(self) -> Duration {
        self.processes + self.softirq
    }
}

/// Octets of memory that a process has in RAM now (VmRSS).
///
/// # Errors
/// If the process is gone or `/proc` cannot be read.
pub fn resident(process: u32) -> Result<u64, Error> {
    let failed = |error: procfs::ProcError| Error::Unexpected(format!("memory from /proc: {error}"));
    let status =
        Process::new(i32::try_from(process).unwrap_or(i32::MAX)).and_then(|process| process.status());
    Ok(status.map_err(failed)?.vmrss.unwrap_or_default() * 1024)
}

fn stat(pid: u32) -> procfs::ProcResult<Stat> {
    Process::new(i32::try_from(pid).unwrap_or(i32::MAX))?.stat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_uses_time_and_a_missing_one_is_told() {
        let own = [std::process::id()];
        let before = CpuTimes::now(&own).unwrap();
        let mut used = Duration::ZERO;
        // As long as it takes: on a loaded machine a thread gets few ticks a second.
        while used.is_zero() {
            std::hint::black_box((0..1_000_000u64).fold(0, |sum, number| sum ^ number));
            used = CpuTimes::now(&own).unwrap().since(before).processes;
        }
        assert!(CpuTimes::now(&own).unwrap().processes >= used);
        assert!(CpuTimes::now(&[u32::MAX]).is_err());
        assert!(resident(std::process::id()).unwrap() > 100_000);
        assert!(resident(u32::MAX).is_err());
    }
}
