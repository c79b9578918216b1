//! Rights of this process beside its interfaces, and their consequences.
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
//! [`worker_scheduling`](config::worker_scheduling) has the rules.

mod user;

use caps::{CapSet, Capability, CapsHashSet};
use netdev::scheduling::{self, Scheduling};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use config::worker_scheduling::{Machine, PRIORITY, WorkerScheduling};
use config::{Gateway, Realtime};
use report::{Grant, PrivilegeReport};
pub use user::{Became, GATEWAY_USER, GiveError, Place, RunAs, become_user, files_owner, give};

/// Keeps keys out of core dumps, and debuggers of the same user away. To be called before the first key is read.
///
/// # Errors
/// The kernel's error; no kernel is known that refuses it.
pub fn keep_from_being_dumped() -> Result<(), String> {
    prctl::set_dumpable(false).map_err(|error| format!("cannot switch core dumps off: {error}; report this"))
}

/// Capabilities that a gateway needs, wherever they come from; the systemd unit gives less.
const NEEDED: [Capability; 6] = [
    // A reload may bind a site to a port below 1024, or HTTP.
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_BPF,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_SYS_NICE,
];

/// Capability that loading the programs of the kernel path needs besides: the verifier allows no sums of pointers into frames without it.
const FOR_KERNEL_PATH: Capability = Capability::CAP_PERFMON;

/// Once the programs of the kernel path are loaded: gives up what nothing else needs, for good. To be called while the process has one
/// thread.
///
/// # Errors
/// The kernel's error.
pub fn give_up_kernel_path() -> Result<(), String> {
    // With what is permitted and inherited, it leaves the ambient set too.
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::drop(None, set, FOR_KERNEL_PATH)
            .map_err(|error| format!("cannot give up CAP_PERFMON: {error}; report this"))?;
    }
    Ok(())
}

/// After [`become_user`]: gives up every capability that a gateway does not need, for good, and the right to get others by starting a
/// program. Also root is then stopped by file permissions. What the kernel path needs is kept until its programs are loaded. To be
/// called while the process has one thread: the kernel keeps capabilities by thread.
///
/// # Errors
/// The kernel's error.
pub fn give_up_others() -> Result<(), String> {
    let failed =
        |error: caps::errors::CapsError| format!("cannot give up capabilities: {error}; report this");
    let had = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let needed = NEEDED.into_iter().filter(|one| had.contains(one)).collect();
    // The bounding set takes nothing that this process has: it is for programs that it starts.
    if had.contains(&Capability::CAP_SETPCAP) {
        for other in caps::read(None, CapSet::Bounding).map_err(failed)?.difference(&needed) {
            caps::drop(None, CapSet::Bounding, *other).map_err(failed)?;
        }
    }
    let keep: CapsHashSet =
        NEEDED.into_iter().chain([FOR_KERNEL_PATH]).filter(|one| had.contains(one)).collect();
    let inherited = caps::read(None, CapSet::Inheritable).map_err(failed)?;
    caps::set(None, CapSet::Inheritable, &inherited.intersection(&keep).copied().collect())
        .map_err(failed)?;
    // Effective first: it may not exceed what is permitted.
    caps::set(None, CapSet::Effective, &keep).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &keep).map_err(failed)?;
    prctl::set_no_new_privs().map_err(|error| format!("cannot give up new privileges: {error}; report this"))
}

/// Gives up every capability in this thread and those that it starts, but for one: without CAP_IPC_LOCK, memory that such a thread asks
/// for would be refused where all memory is locked, which ends the process.
///
/// # Errors
/// The kernel's error.
pub fn give_up_in_thread() -> Result<(), String> {
    let failed =
        |error: caps::errors::CapsError| format!("cannot give up capabilities: {error}; report this");
    let had = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let keep: CapsHashSet = [Capability::CAP_IPC_LOCK].into_iter().filter(|one| had.contains(one)).collect();
    let inherited = caps::read(None, CapSet::Inheritable).map_err(failed)?;
    caps::set(None, CapSet::Inheritable, &inherited.intersection(&keep).copied().collect())
        .map_err(failed)?;
    caps::set(None, CapSet::Effective, &keep).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &keep).map_err(failed)
}

/// Asks the kernel for real-time scheduling, if the rules allow it. Returns how workers are to run, and what was
/// granted; `locked` is what [`lock_memory`] said.
///
/// # Errors
/// With `realtime = "on"` whatever is not granted, and a CPU of `cpus` that cannot be had, in one line with its cure.
pub fn ask(
    gateway: &Gateway,
    links: usize,
    machine: &Machine,
    locked: Result<(), String>,
) -> Result<(WorkerScheduling, PrivilegeReport), String> {
    let (mut workers, judged) = WorkerScheduling::evaluate(gateway, links, machine);
    for &cpu in &workers.cpus {
        scheduling::probe_cpu(cpu).map_err(|error| {
            let (online, allowed) = (&machine.online, &machine.allowed);
            format!("cpus: no worker can run on CPU {cpu}: {error}; this box has {online}, of which this process may use {allowed}")
        })?;
    }
    let granted = judged.and_then(|words| match workers.scheduling.probe() {
        Ok(()) => Ok(words),
        Err(error) => Err(format!(
            "{error}; give CAP_SYS_NICE or a limit rtprio of {PRIORITY} (systemd: LimitRTPRIO={PRIORITY})"
        )),
    });
    if gateway.realtime == Realtime::On {
        let missing = |what: &str, why: &String| {
            format!("realtime = \"on\", but {what}: {why}; or set realtime = \"auto\"")
        };
        granted.as_ref().map_err(|why| missing("workers cannot have real-time scheduling", why))?;
        locked.as_ref().map_err(|why| missing("memory cannot be locked", why))?;
    }
    if granted.is_err() {
        workers.scheduling = Scheduling::Ordinary;
    }
    let grant = |result: Result<String, String>| Grant {
        granted: result.is_ok(),
        detail: result.unwrap_or_else(|reason| reason),
    };
    let realtime = grant(granted);
    let locked_memory = grant(locked.map(|()| "all, also what comes".to_owned()));
    Ok((workers, PrivilegeReport { realtime, locked_memory }))
}

/// The capabilities that a program inherits which this thread becomes or starts: inheritable and ambient ones, a bit each.
///
/// # Errors
/// If they cannot be read.
pub fn inherited() -> Result<[u64; 2], String> {
    let read = |set| {
        let read = caps::read(None, set).map_err(|error| format!("cannot read capabilities: {error}"))?;
        Ok::<u64, String>(read.iter().fold(0, |bits, one| bits | one.bitmask()))
    };
    Ok([read(CapSet::Inheritable)?, read(CapSet::Ambient)?])
}

/// Has the program inherit them that this thread becomes: those that it is permitted. Another user than root has none otherwise.
///
/// # Errors
/// If the system refuses.
pub fn let_inherit() -> Result<(), String> {
    let permitted = caps::read(None, CapSet::Permitted);
    let set = permitted.and_then(|permitted| {
        caps::set(None, CapSet::Inheritable, &permitted)?;
        caps::set(None, CapSet::Ambient, &permitted)
    });
    set.map_err(|error| format!("cannot pass capabilities on: {error}"))
}

/// Puts [`inherited`] back.
///
/// # Errors
/// If the system refuses.
pub fn set_inherited([inheritable, ambient]: [u64; 2]) -> Result<(), String> {
    let of = |bits: u64| -> CapsHashSet {
        caps::all().into_iter().filter(|one| bits & one.bitmask() != 0).collect()
    };
    // Ambient ones are among the inheritable ones.
    let set = caps::set(None, CapSet::Ambient, &of(ambient))
        .and_then(|()| caps::set(None, CapSet::Inheritable, &of(inheritable)));
    set.map_err(|error| format!("cannot give up capabilities: {error}"))
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
