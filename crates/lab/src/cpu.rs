//! CPU time of some processes and of the kernel's network softirqs, the time that the hypervisor took, and the memory of the
//! processes.
//!
//! The kernel counts in ticks (mostly of 10 ms): a difference over a second or more is good to about a percent.
//! Softirqs are those of the whole machine; nobody can tell on whose behalf one ran. A comparison of two cases with
//! the same traffic has the same error in both.
//!
//! A gateway's softirqs run mostly within its own system calls: what it sends, the kernel takes to the other end of the veth pair
//! there and then. Most kernels count such a tick twice, as softirq of the machine and as system time of the process; those
//! built with `IRQ_TIME_ACCOUNTING` count it once. [`CpuTimes::sum`] counts it once on both. On the former it takes for granted
//! that softirqs ran within the processes as long as there was system time for them: what ran elsewhere meanwhile, in a machine's
//! own program, is missing. With gateways that carried TCP a profile found 2 to 5 percent there; bridges, which have no
//! process, miss nothing.

use std::time::Duration;

use procfs::process::{Process, Stat};
use procfs::{CpuTime, CurrentSI as _, KernelStats};

use crate::Error;

/// CPU times since they began to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuTimes {
    /// Of the processes with all their threads, in their own code.
    pub user: Duration,
    /// Of the processes with all their threads, in system calls; with the softirqs that ran there, or without: see above.
    pub system: Duration,
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
        let (mut user, mut system) = (0, 0);
        for pid in processes {
            let Stat { utime, stime, .. } = stat(*pid).map_err(failed)?;
            user += utime;
            system += stime;
        }
        let softirq = KernelStats::current().map_err(failed)?.total.softirq_duration();
        let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64);
        Ok(Self { user: time(user), system: time(system), softirq: softirq.unwrap_or_default() })
    }

    /// Time used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            softirq: self.softirq.saturating_sub(earlier.softirq),
        }
    }

    /// Processes and softirqs together, each time counted once.
    pub fn sum(self) -> Duration {
        self.sum_if(softirqs_are_apart())
    }

    fn sum_if(self, softirqs_are_apart: bool) -> Duration {
        let beside = if softirqs_are_apart { self.softirq } else { self.softirq.saturating_sub(self.system) };
        self.user + self.system + beside
    }
}

/// Whether the system time of processes has no softirqs in it. A kernel that does not tell how it was built is taken for one of
/// those where it has: with the other guess everything in softirqs would count twice.
fn softirqs_are_apart() -> bool {
    procfs::kernel_config().is_ok_and(|config| {
        matches!(config.get("CONFIG_IRQ_TIME_ACCOUNTING"), Some(procfs::ConfigSetting::Yes))
    })
}

/// CPU time of the whole machine since it began to count, all CPUs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineTimes {
    all: u64,
    stolen: u64,
}

impl MachineTimes {
    /// The times at this moment.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn now() -> Result<Self, Error> {
        let stats = KernelStats::current()
            .map_err(|error| Error::Unexpected(format!("CPU times from /proc: {error}")))?;
        let CpuTime { user, nice, system, idle, iowait, irq, softirq, steal, .. } = stats.total;
        let stolen = steal.unwrap_or_default();
        let others = [iowait, irq, softirq].into_iter().flatten().sum::<u64>();
        Ok(Self { all: user + nice + system + idle + others + stolen, stolen })
    }

    /// The percentage of the time since `earlier` in which this machine wanted to run and the hypervisor let others run (steal
    /// time); 0 on hardware, and under a hypervisor that does not tell.
    pub fn stolen_since(self, earlier: Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        100.0 * self.stolen.saturating_sub(earlier.stolen) as f64 / all as f64
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
        // Loops until then: on a loaded machine a thread gets few ticks a second.
        while used.is_zero() {
            std::hint::black_box((0..1_000_000u64).fold(0, |sum, number| sum ^ number));
            used = CpuTimes::now(&own).unwrap().since(before).user;
        }
        assert!(CpuTimes::now(&own).unwrap().user >= used);
        assert!(CpuTimes::now(&[u32::MAX]).is_err());
        assert!(resident(std::process::id()).unwrap() > 100_000);
        assert!(resident(u32::MAX).is_err());
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let times = |all, stolen| MachineTimes { all, stolen };
        for (later, earlier, percent) in [((300, 40), (100, 20), 10.0), ((100, 20), (100, 20), 0.0)] {
            let stolen = times(later.0, later.1).stolen_since(times(earlier.0, earlier.1));
            assert!((stolen - percent).abs() < 1e-9, "{stolen}");
        }
        let now = MachineTimes::now().unwrap();
        assert!(
            now.all > now.stolen && (0.0..=100.0).contains(&MachineTimes::now().unwrap().stolen_since(now))
        );
    }

    #[test]
    fn softirqs_within_system_calls_count_once() {
        let [user, system, softirq] = [2, 5, 4].map(Duration::from_secs);
        let used = CpuTimes { user, system, softirq };
        assert_eq!(used.sum_if(false), Duration::from_secs(7), "all of them were within");
        assert_eq!(used.sum_if(true), Duration::from_secs(11), "none of them counts as system time");
        let no_process = CpuTimes { user: Duration::ZERO, system: Duration::ZERO, softirq };
        assert_eq!([false, true].map(|apart| no_process.sum_if(apart)), [softirq; 2]);
    }
}
