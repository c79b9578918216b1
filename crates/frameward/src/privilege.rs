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
//! A worker goes first only from its wake-up until it has nothing to do, for a millisecond at most
//! ([`netdev::scheduling`]); but that again and again. So by itself (`realtime = "auto"`) it is had only where a worker has a CPU
//! to itself: one of `cpus`, or one that the kernel keeps free, which the interfaces' interrupts leave alone. [`refusal`] has the rules.

mod user;

use std::fs;

use caps::{CapSet, Capability};
use netdev::scheduling::{self, Scheduling};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::config::{Gateway, Polling, Realtime};
use crate::cpus::{Bringer, Cpus, bringers};
use crate::report::{Grant, PrivilegeReport};
pub use user::{GATEWAY_USER, Place, RunAs, become_user, files_owner};

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

/// What the programs of `io = "kernel"` need besides: the verifier takes no arithmetic on pointers into frames without it.
const FOR_KERNEL_PATH: Capability = Capability::CAP_PERFMON;

/// Once the configuration is known: gives up what only `io = "kernel"` needs, for good. To be called while the process has one thread.
///
/// # Errors
/// What the kernel says.
pub fn give_up_kernel_path() -> Result<(), String> {
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::drop(None, set, FOR_KERNEL_PATH)
            .map_err(|error| format!("cannot give up CAP_PERFMON: {error}; report this"))?;
    }
    Ok(())
}

/// After [`become_user`]: gives up every capability that a gateway does not need, for good, and the right to get others by starting a
/// program. Also root is then stopped by file permissions. What `io = "kernel"` needs is kept until the configuration is known. To be called while the process has one thread: the kernel
/// keeps capabilities by thread.
///
/// # Errors
/// What the kernel says.
pub fn give_up_others() -> Result<(), String> {
    let failed =
        |error: caps::errors::CapsError| format!("cannot give up capabilities: {error}; report this");
    let had = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let keep = NEEDED.into_iter().chain([FOR_KERNEL_PATH]).filter(|one| had.contains(one)).collect();
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// All CPUs that are on.
    pub online: Cpus,
    /// Those that this process may use.
    pub allowed: Cpus,
    /// Those that the kernel keeps free of whoever does not ask for them.
    pub isolated: Cpus,
    /// What brings frames of the gateway's interfaces to CPUs.
    pub bringers: Vec<Bringer>,
    /// Whether the kernel leaves ordinary threads a share beside real-time ones (sched_rt_runtime_us).
    pub throttles: bool,
}

impl Machine {
    /// This one, with these interfaces.
    pub fn this<'i>(interfaces: impl Iterator<Item = &'i str>) -> Self {
        let runtime = fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
        // A kernel that does not say has no real-time throttling.
        Self {
            online: Cpus::online(),
            allowed: Cpus::allowed(),
            isolated: Cpus::isolated(),
            bringers: bringers(interfaces),
            throttles: runtime.is_ok_and(|microseconds| !microseconds.trim().starts_with('-')),
        }
    }

    /// CPUs that so many links' and sites' workers have for themselves: those that the configuration names, or else those that the
    /// kernel keeps free and this process may use, if there are enough. Empty: there are none.
    pub fn own_cpus(&self, named: Option<&Cpus>, links: usize) -> Cpus {
        match named {
            Some(named) => named.clone(),
            None => {
                let free = self.isolated.and(&self.allowed);
                if free.0.len() < links { Cpus::default() } else { free }
            }
        }
    }
}

/// Why workers are to stay ordinary threads although real time is wanted; with the cure. `own` are the CPUs that they have for
/// themselves, `links` is the number of links and sites.
pub fn refusal(
    wish: Realtime,
    polling: Polling,
    links: usize,
    own: &Cpus,
    machine: &Machine,
) -> Option<String> {
    let all_taken = if own.0.is_empty() {
        links >= machine.allowed.0.len()
    } else {
        machine.online.without(own).0.is_empty()
    };
    match (wish, polling) {
        (Realtime::Off, _) => Some("realtime = \"off\"".into()),
        // The thread that hands frames over (ksoftirqd) is an ordinary one, bound to its CPU.
        (_, Polling::Busy) => Some(
            "polling = \"busy\" never sleeps, so the kernel's threads on that CPU would starve; use polling = \"adaptive\"".into(),
        ),
        _ if all_taken => {
            Some("every CPU has a worker, so a flood would stop the box; use fewer links or more CPUs".into())
        }
        (Realtime::On, _) => None,
        (Realtime::Auto, _) if own.0.is_empty() => Some(
            "no CPU is kept for workers, and going first on a shared one takes it from the softirqs that bring the frames; \
             if they are to have CPUs of their own, name these: cpus = \"2-3\" in [gateway]"
                .into(),
        ),
        (Realtime::Auto, _) => interrupted(own, machine).or_else(|| {
            (!machine.throttles).then(|| {
                "the kernel would not hold real-time threads back; set sysctl kernel.sched_rt_runtime_us=950000".into()
            })
        }),
    }
}

/// What brings frames to a CPU that a worker is to have for itself.
fn interrupted(own: &Cpus, machine: &Machine) -> Option<String> {
    let there = machine.bringers.iter().find(|bringer| !bringer.cpus.and(own).0.is_empty())?;
    let Bringer { file, interface, cpus } = there;
    let elsewhere = machine.online.without(own);
    let (shared, value) =
        (cpus.and(own), if file.ends_with("rps_cpus") { "0".into() } else { elsewhere.to_string() });
    Some(format!(
        "frames of {interface} interrupt CPU {shared}, which is a worker's own; echo {value} > {file}"
    ))
}

/// How workers are to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Whether they go first.
    pub scheduling: Scheduling,
    /// The CPUs that each has one of for itself; empty: they run anywhere.
    pub cpus: Vec<usize>,
}

impl Placement {
    /// What the rules give on this machine, and why, in words; nothing is asked of the kernel yet.
    ///
    /// # Errors
    /// Why workers are ordinary threads.
    pub fn evaluate(gateway: &Gateway, links: usize, machine: &Machine) -> (Self, Result<String, String>) {
        let own = machine.own_cpus(gateway.cpus.as_ref(), links);
        let judged = match refusal(gateway.realtime, gateway.polling, links, &own, machine) {
            Some(reason) => Err(reason),
            None => {
                let place = if own.0.is_empty() {
                    "on shared CPUs".into()
                } else {
                    format!("on CPU {own}, kept for workers")
                };
                Ok(format!("SCHED_FIFO, priority {PRIORITY}, from wake-up for 1 ms at most, {place}"))
            }
        };
        let scheduling = if judged.is_ok() { Scheduling::Fifo(PRIORITY) } else { Scheduling::Ordinary };
        // Kept free but not taken, they are for somebody else.
        let cpus =
            if judged.is_ok() || gateway.cpus.is_some() { own.0.into_iter().collect() } else { Vec::new() };
        (Self { scheduling, cpus }, judged)
    }
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
) -> Result<(Placement, PrivilegeReport), String> {
    let (mut placement, judged) = Placement::evaluate(gateway, links, machine);
    for &cpu in &placement.cpus {
        scheduling::probe_cpu(cpu).map_err(|error| {
            let (online, allowed) = (&machine.online, &machine.allowed);
            format!("cpus: no worker can run on CPU {cpu}: {error}; this box has {online}, of which this process may use {allowed}")
        })?;
    }
    let granted = judged.and_then(|words| match placement.scheduling.probe() {
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
        placement.scheduling = Scheduling::Ordinary;
    }
    let grant = |result: Result<String, String>| Grant {
        granted: result.is_ok(),
        detail: result.unwrap_or_else(|reason| reason),
    };
    let realtime = grant(granted);
    let locked_memory = grant(locked.map(|()| "all, also what comes".to_owned()));
    Ok((placement, PrivilegeReport { realtime, locked_memory }))
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

    fn cpus(text: &str) -> Cpus {
        Cpus::parse(text).unwrap()
    }

    fn machine(online: &str, isolated: &str, throttles: bool) -> Machine {
        let (online, isolated) = (cpus(online), cpus(isolated));
        Machine { allowed: online.clone(), online, isolated, bringers: Vec::new(), throttles }
    }

    #[test]
    fn a_box_is_never_left_without_a_cpu() {
        use {Polling::*, Realtime::*};
        let machine = |online, throttles| machine(online, "", throttles);
        for (wish, polling, links, own, machine, expected) in [
            (Auto, Adaptive, 1, "1", machine("0-1", true), None),
            (Auto, Interrupt, 1, "1", machine("0-1", true), None),
            (Auto, Adaptive, 3, "1-3", machine("0-3", true), None),
            // More links than CPUs of their own share these.
            (Auto, Adaptive, 9, "1", machine("0-3", true), None),
            (Auto, Adaptive, 1, "", machine("0-1", true), Some("cpus = ")),
            (Auto, Adaptive, 1, "0", machine("0", true), Some("every CPU")),
            (Auto, Adaptive, 1, "", machine("0", true), Some("every CPU")),
            (Auto, Adaptive, 4, "0-3", machine("0-3", true), Some("every CPU")),
            (Auto, Busy, 1, "7", machine("0-7", true), Some("adaptive")),
            (Auto, Adaptive, 1, "1", machine("0-1", false), Some("sched_rt_runtime_us")),
            (On, Adaptive, 1, "", machine("0-1", false), None),
            (On, Adaptive, 1, "1", machine("0-1", false), None),
            (On, Busy, 1, "", machine("0-1", true), Some("adaptive")),
            (On, Adaptive, 2, "", machine("0-1", true), Some("every CPU")),
            (Off, Adaptive, 1, "7", machine("0-7", true), Some("off")),
        ] {
            let given = refusal(wish, polling, links, &cpus(own), &machine);
            let case = format!("{wish:?} {polling:?} {links} {own:?} {machine:?}: {given:?}");
            match expected {
                None => assert!(given.is_none(), "{case}"),
                Some(word) => assert!(given.is_some_and(|text| text.contains(word)), "{case}"),
            }
        }
    }

    #[test]
    fn a_cpu_is_a_workers_own_if_it_is_named_or_kept_free() {
        let (plain, isolated) = (machine("0-3", "", true), machine("0-3", "2-3", true));
        assert_eq!(plain.own_cpus(None, 1), Cpus::default());
        assert_eq!(plain.own_cpus(Some(&cpus("1")), 4), cpus("1"));
        assert_eq!(isolated.own_cpus(None, 2), cpus("2-3"));
        assert_eq!(isolated.own_cpus(None, 3), Cpus::default(), "one of them would share");
        let elsewhere = Machine { allowed: cpus("0-2"), ..isolated };
        assert_eq!(elsewhere.own_cpus(None, 1), cpus("2"), "a cpuset leaves the other one out");
    }

    #[test]
    fn a_cpu_with_the_interfaces_interrupts_is_nobodys_own() {
        let bringer =
            |file: &str, on: &str| Bringer { file: file.into(), interface: "eth1".into(), cpus: cpus(on) };
        let given = |file, on| {
            let machine = Machine { bringers: vec![bringer(file, on)], ..machine("0-3", "", true) };
            refusal(Realtime::Auto, Polling::Adaptive, 1, &cpus("2"), &machine)
        };
        assert_eq!(given("/proc/irq/35/smp_affinity_list", "0-1,3"), None);
        assert_eq!(
            given("/proc/irq/35/smp_affinity_list", "2-3").unwrap(),
            "frames of eth1 interrupt CPU 2, which is a worker's own; echo 0-1,3 > /proc/irq/35/smp_affinity_list"
        );
        assert!(given("/sys/class/net/eth1/queues/rx-0/rps_cpus", "2").unwrap().contains("echo 0 > "));
    }
}
