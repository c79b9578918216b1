//! Which threads the kernel runs first (sched(7)).
//!
//! A worker under SCHED_FIFO runs as soon as it is woken, before every ordinary thread of the box. So it also keeps
//! them waiting for as long as it has work: whoever asks for it leaves the others a CPU.
//!
//! Left out on purpose: affinity. A pinned worker cannot be moved away from a CPU whose interrupts keep it busy, and
//! who knows the box better can pin from outside (`CPUAffinity=` of a systemd unit, `taskset`).

#![allow(unsafe_code)]

use std::io;
use std::os::unix::thread::{JoinHandleExt as _, RawPthread};
use std::thread::JoinHandle;

/// How the kernel chooses a thread.
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
    /// What the kernel says; EPERM without CAP_SYS_NICE and with too low an RLIMIT_RTPRIO.
    pub fn probe(self) -> io::Result<()> {
        // SAFETY: always succeeds; the calling thread is alive.
        let own = unsafe { libc::pthread_self() };
        self.apply(own)?;
        Self::Ordinary.apply(own)
    }

    /// Schedules a thread so from now on.
    ///
    /// # Errors
    /// As [`Self::probe`].
    pub(crate) fn apply_to<T>(self, thread: &JoinHandle<T>) -> io::Result<()> {
        // A thread that has not been joined keeps its pthread, though it may have ended.
        self.apply(thread.as_pthread_t())
    }

    fn apply(self, thread: RawPthread) -> io::Result<()> {
        let (policy, priority) = match self {
            Self::Ordinary => (libc::SCHED_OTHER, 0),
            Self::Fifo(priority) => (libc::SCHED_FIFO, libc::c_int::from(priority)),
        };
        let parameters = libc::sched_param { sched_priority: priority };
        // SAFETY: both callers have a thread that is not joined; the parameters live through the call.
        match unsafe { libc::pthread_setschedparam(thread, policy, &raw const parameters) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
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
}
