//! What the operating system allows this process beside its interfaces, and what follows from it.
//!
//! | | is had with | without it |
//! |---|---|---|
//! | workers go first (SCHED_FIFO) | CAP_SYS_NICE, or a limit `rtprio` of [`PRIORITY`] | other programs delay frames |
//! | locked memory | CAP_IPC_LOCK, or an unlimited `memlock` | keys can reach the swap; a page that comes back delays frames |
//! | no core dumps, no debugger of the same user | nothing | - |
//!
//! The last two are asked for before the first key is read, the first before the first port is opened. What is not granted is told with its cure; with
//! `realtime = "on"` it ends the start.
//!
//! A real-time worker that has work keeps every ordinary thread from its CPU, and a flood from the network is work
//! without end. So it is had only where a CPU stays free of workers: [`refusal`] has the rules.

use std::fs;

use caps::{CapSet, Capability};
use engine::scheduling::Scheduling;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::config::{Polling, Realtime};
use crate::report::{Grant, PrivilegeReport};

/// Above all ordinary threads, below the kernel's interrupt threads (50), which bring the frames.
pub const PRIORITY: u8 = 10;

/// Keeps keys out of core dumps, and debuggers of the same user away. To be called before the first key is read.
///
/// # Errors
/// What the kernel says; no kernel is known that refuses it.
pub fn keep_from_being_dumped() -> Result<(), String> {
    prctl::set_dumpable(false).map_err(|error| format!("cannot switch core dumps off: {error}; report this"))
}

/// What a gateway needs, wherever it comes from; the systemd unit gives less.
const NEEDED: [Capability; 5] = [
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_BPF,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_SYS_NICE,
];

/// Gives up every capability that a gateway does not need, for good, and the right to get others by starting a
/// program. Also root is then stopped by file permissions. To be called while the process has one thread: the kernel
/// keeps capabilities by thread.
///
/// # Errors
/// What the kernel says.
pub fn give_up_others() -> Result<(), String> {
    let failed =
        |error: caps::errors::CapsError| format!("cannot give up capabilities: {error}; report this");
    let had = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let keep = NEEDED.into_iter().filter(|one| had.contains(one)).collect();
    if had.contains(&Capability::CAP_SETPCAP) {
        for other in caps::read(None, CapSet::Bounding).map_err(failed)?.difference(&keep) {
            caps::drop(None, CapSet::Bounding, *other).map_err(failed)?;
        }
    }
    // Effective first: it may not exceed what is permitted.
    caps::set(None, CapSet::Effective, &keep).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &keep).map_err(failed)?;
    prctl::set_no_new_privs().map_err(|error| format!("cannot give up new privileges: {error}; report this"))
}

/// What of the kernel's rules and this machine the rules below look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Whether the kernel leaves ordinary threads a share beside real-time ones (sched_rt_runtime_us).
    pub throttles: bool,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let runtime = fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
        // A kernel that does not say has no real-time throttling.
        Self {
            cpus: engine::control::cpus(),
            throttles: runtime.is_ok_and(|microseconds| !microseconds.trim().starts_with('-')),
        }
    }
}

/// Why workers are to stay ordinary threads although real time is wanted; with the cure.
pub fn refusal(wish: Realtime, polling: Polling, workers: usize, machine: Machine) -> Option<&'static str> {
    match (wish, polling) {
        (Realtime::Off, _) => Some("realtime = \"off\""),
        _ if workers >= machine.cpus => {
            Some("every CPU has a worker, so a flood would stop the box; use fewer links or more CPUs")
        }
        (Realtime::On, _) => None,
        // The thread that hands frames over (ksoftirqd) is an ordinary one, bound to its CPU.
        (Realtime::Auto, Polling::Busy) => Some(
            "polling = \"busy\" never sleeps, so the kernel's threads on that CPU would starve; use polling = \"adaptive\"",
        ),
        (Realtime::Auto, _) if !machine.throttles => Some(
            "the kernel would not hold real-time threads back; set sysctl kernel.sched_rt_runtime_us=950000",
        ),
        (Realtime::Auto, _) => None,
    }
}

/// Asks the kernel for real-time scheduling, if the rules allow it. Returns how workers are to be scheduled, and what was
/// granted; `locked` is what [`lock_memory`] said.
///
/// # Errors
/// With `realtime = "on"` whatever is not granted, in one line with its cure.
pub fn ask(
    wish: Realtime,
    polling: Polling,
    links: usize,
    locked: Result<(), String>,
) -> Result<(Scheduling, PrivilegeReport), String> {
    let workers = engine::control::workers(links);
    let fifo = Scheduling::Fifo(PRIORITY);
    let granted = match refusal(wish, polling, workers, Machine::this()) {
        Some(reason) => Err(reason.to_owned()),
        None => fifo.probe().map_err(|error| {
            format!(
                "{error}; give CAP_SYS_NICE or a limit rtprio of {PRIORITY} (systemd: LimitRTPRIO={PRIORITY})"
            )
        }),
    };
    if wish == Realtime::On {
        let missing = |what: &str, why: &String| {
            format!("realtime = \"on\", but {what}: {why}; or set realtime = \"auto\"")
        };
        granted.as_ref().map_err(|why| missing("workers cannot have real-time scheduling", why))?;
        locked.as_ref().map_err(|why| missing("memory cannot be locked", why))?;
    }
    let scheduling = if granted.is_ok() { fifo } else { Scheduling::Ordinary };
    let grant = |result: Result<String, String>| Grant {
        granted: result.is_ok(),
        detail: result.unwrap_or_else(|reason| reason),
    };
    let realtime = grant(granted.map(|()| format!("SCHED_FIFO, priority {PRIORITY}")));
    let locked_memory = grant(locked.map(|()| "all, also what comes".to_owned()));
    Ok((scheduling, PrivilegeReport { realtime, locked_memory }))
}

/// Locks all memory, present and future; to be called before the first key is read. Not under a limit: memory asked for
/// later would then be refused, which ends the process.
///
/// # Errors
/// Why not, with the cure.
pub fn lock_memory() -> Result<(), String> {
    const CURE: &str = "give CAP_IPC_LOCK or an unlimited memlock (systemd: LimitMEMLOCK=infinity)";
    let privileged = caps::has_cap(None, CapSet::Effective, Capability::CAP_IPC_LOCK).unwrap_or(false);
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
    if !privileged && limit != RLIM_INFINITY {
        return Err(format!("only {limit} octets may be locked; {CURE}"));
    }
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)
        .map_err(|error| format!("{error}; free memory, or {CURE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_never_left_without_a_cpu() {
        use {Polling::*, Realtime::*};
        let machine = |cpus, throttles| Machine { cpus, throttles };
        for (wish, polling, workers, machine, expected) in [
            (Auto, Adaptive, 1, machine(2, true), None),
            (Auto, Interrupt, 1, machine(2, true), None),
            (Auto, Adaptive, 3, machine(4, true), None),
            (Auto, Adaptive, 1, machine(1, true), Some("every CPU")),
            (Auto, Adaptive, 4, machine(4, true), Some("every CPU")),
            (Auto, Busy, 1, machine(8, true), Some("adaptive")),
            (Auto, Adaptive, 1, machine(2, false), Some("sched_rt_runtime_us")),
            (On, Adaptive, 1, machine(2, false), None),
            (On, Busy, 1, machine(2, true), None),
            (On, Adaptive, 2, machine(2, true), Some("every CPU")),
            (On, Busy, 1, machine(1, true), Some("every CPU")),
            (Off, Adaptive, 1, machine(8, true), Some("off")),
        ] {
            let given = refusal(wish, polling, workers, machine);
            let case = format!("{wish:?} {polling:?} {workers} {machine:?}: {given:?}");
            match expected {
                None => assert!(given.is_none(), "{case}"),
                Some(word) => assert!(given.is_some_and(|text| text.contains(word)), "{case}"),
            }
        }
    }
}
