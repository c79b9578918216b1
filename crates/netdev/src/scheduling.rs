//! Scheduling of a worker's thread: priority (sched(7)) and CPU.
//!
//! A worker under SCHED_FIFO runs as soon as it is woken, before every ordinary thread of the box. Meanwhile these wait, among
//! them the kernel's thread that may have frames for it (ksoftirqd). So the worker goes first only for a short time
//! ([`RealTimeBudget`]): from its wake-up until it has nothing to do, for a millisecond at most, and for half of all time. While
//! it looks for more, and in a flood, it is an ordinary thread, until it next sleeps.
//!
//! A worker is pinned only to a CPU that is kept for it. Elsewhere the kernel can move it away from a CPU whose
//! interrupts keep it busy.

#![allow(unsafe_code)]

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Scheduling policy of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduling {
    /// Fairly, among all ordinary threads.
    #[default]
    Ordinary,
    /// SCHED_FIFO: before all ordinary threads and those of lower priority, until it sleeps. 1 to 99.
    Fifo(u8),
}

impl Scheduling {
    /// Whether the kernel would grant it: tries it on the calling thread, which is ordinary again afterwards.
    ///
    /// # Errors
    /// The kernel's error; EPERM without CAP_SYS_NICE and with too low an RLIMIT_RTPRIO.
    pub fn probe(self) -> io::Result<()> {
        self.apply()?;
        Self::Ordinary.apply()
    }

    /// Schedules the calling thread so from now on.
    ///
    /// # Errors
    /// As [`Self::probe`].
    pub fn apply(self) -> io::Result<()> {
        let (policy, priority) = match self {
            Self::Ordinary => (libc::SCHED_OTHER, 0),
            Self::Fifo(priority) => (libc::SCHED_FIFO, libc::c_int::from(priority)),
        };
        set_policy(policy, priority)
    }
}

/// Has the calling thread run only while no other wants its CPU (SCHED_IDLE),.
///
/// # Errors
/// The kernel's error.
pub fn run_when_idle() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE, 0)
}

fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // SAFETY: all zero are valid parameters; musl's have more members than the kernel's.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // nix has no call for it.
    // SAFETY: the calling thread is alive; the parameters live through the call.
    match unsafe { libc::pthread_setschedparam(libc::pthread_self(), policy, &raw const parameters) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether a thread may run on this CPU alone: a thread of its own tries it.
///
/// # Errors
/// The kernel's error; EINVAL if there is no such CPU, or the process's cpuset has it not.
pub fn probe_cpu(cpu: usize) -> io::Result<()> {
    thread::scope(|scope| {
        let tried = scope.spawn(|| pin(cpu)).join();
        tried.unwrap_or_else(|_| Err(io::Error::other("the thread that tried has ended")))
    })
}

/// Has the calling thread run on one CPU alone.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu)?;
    // 0 is the calling thread.
    Ok(sched_setaffinity(Pid::from_raw(0), &cpus)?)
}

/// Longest time that a worker goes first without having slept. Frames that are there when it wakes take a small part of it.
pub const MAX_REAL_TIME: Duration = Duration::from_millis(1);
/// More than this is not owed: a machine that stood still for minutes did not stand in anybody's way.
const MAX_DEBT: Duration = Duration::from_millis(100);

/// Whether a thread goes first just now; it is the calling one always. It may for as long as it did not before: half of the time at
/// most, and [`MAX_REAL_TIME`] at a stretch.
#[derive(Debug)]
pub struct RealTimeBudget {
    scheduling: Scheduling,
    first: bool,
    /// Time that it may go first, in nanoseconds; below zero where a turn took longer than that.
    credit: i64,
    /// Moment up to which `credit` is counted.
    counted: Instant,
}

impl RealTimeBudget {
    /// A thread that has taken this scheduling.
    pub fn new(scheduling: Scheduling, now: Instant) -> Self {
        let first = matches!(scheduling, Scheduling::Fifo(_));
        Self { scheduling, first, credit: nanoseconds(MAX_REAL_TIME), counted: now }
    }

    /// A turn begins. A thread that has gone first for long enough does not any more.
    pub fn begin(&mut self, now: Instant) {
        if self.first && nanoseconds(now.saturating_duration_since(self.counted)) >= self.credit {
            self.demote(now);
        }
    }

    /// It is an ordinary thread from here on.
    pub fn demote(&mut self, now: Instant) {
        // The kernel lets every thread become ordinary.
        if self.first && Scheduling::Ordinary.apply().is_ok() {
            self.count(now, false);
            self.first = false;
        }
    }

    /// It is about to sleep, and goes first when it is woken, if it is one that does and may again.
    pub fn sleep(&mut self, now: Instant) {
        self.count(now, !self.first);
        let may = self.scheduling != Scheduling::Ordinary && self.credit > 0;
        if may && !self.first {
            self.first = self.scheduling.apply().is_ok();
        } else if self.first && !may {
            self.demote(now);
        }
    }

    /// It was woken.
    pub fn woke(&mut self, now: Instant) {
        self.count(now, true);
    }

    /// Counts the time up to now, in which it did not stand in anybody's way, or did.
    fn count(&mut self, now: Instant, gains: bool) {
        let passed = nanoseconds(now.saturating_duration_since(self.counted));
        let credit =
            if gains { self.credit.saturating_add(passed) } else { self.credit.saturating_sub(passed) };
        self.credit = credit.clamp(-nanoseconds(MAX_DEBT), nanoseconds(MAX_REAL_TIME));
        self.counted = now;
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_priority_is_refused() {
        let error = Scheduling::Fifo(100).probe().expect_err("99 is the highest");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        Scheduling::Ordinary.probe().expect("every thread may be ordinary");
    }

    #[test]
    fn nobody_goes_first_for_more_than_half_of_the_time() {
        if Scheduling::Fifo(1).probe().is_err() {
            // Without the right nobody goes first at all; tests/netns has it.
            return;
        }
        let mut now = Instant::now();
        let mut real_time = RealTimeBudget::new(Scheduling::Fifo(1), now);
        let mut first = Duration::ZERO;
        // Awake for 9 us out of 10.
        for _ in 0..100_000 {
            real_time.woke(now);
            now += Duration::from_micros(9);
            first += if real_time.first { Duration::from_micros(9) } else { Duration::ZERO };
            real_time.begin(now);
            real_time.sleep(now);
            now += Duration::from_micros(1);
        }
        assert!(
            first > Duration::from_millis(300) && first < Duration::from_millis(510),
            "{first:?} of a second"
        );
        Scheduling::Ordinary.apply().expect("every thread may be ordinary");
    }

    #[test]
    fn what_is_no_cpu_is_refused() {
        for cpu in [1023, 1024, usize::MAX] {
            let error = probe_cpu(cpu).expect_err("no box has so many");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{cpu}");
        }
    }
}
