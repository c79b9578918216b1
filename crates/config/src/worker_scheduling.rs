//! CPUs and priority of workers on this machine: the rules, before anything is asked of the kernel.
//!
//! A worker goes first only from its wake-up until it has nothing to do, for a millisecond at most
//! ([`netdev::scheduling`]); but that again and again. So by itself (`realtime = "auto"`) it is had only where a worker has a CPU
//! to itself: one of `cpus`, or one that the kernel keeps free, which the interfaces' interrupts leave alone. [`refusal`] has the rules.

use std::fs;

use netdev::scheduling::Scheduling;

use crate::cpus::{Bringer, Cpus, bringers};
use crate::{Gateway, Polling, Realtime};

/// Above all ordinary threads, below the kernel's interrupt threads (50), which bring the frames.
pub const PRIORITY: u8 = 10;

/// Facts about the kernel and this machine that the rules below use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// All CPUs that are on.
    pub online: Cpus,
    /// Those that this process may use.
    pub allowed: Cpus,
    /// Those that the kernel keeps free of whoever does not ask for them.
    pub isolated: Cpus,
    /// Interrupts and softirqs that bring frames of the gateway's interfaces to CPUs.
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
            "polling = \"busy\" never sleeps, so it starves the kernel's threads on that CPU; use polling = \"adaptive\"".into(),
        ),
        _ if all_taken => {
            Some("every CPU has a worker, so a flood could stop the box; use fewer links or more CPUs".into())
        }
        (Realtime::On, _) => None,
        (Realtime::Auto, _) if own.0.is_empty() => {
            // The last ones, for interrupts mostly go to the first. One is left at least.
            let last = Cpus(machine.allowed.0.iter().rev().take(links).copied().collect());
            Some(format!(
                "no CPU is kept for workers, and going first on a shared one takes it from the softirqs that bring the frames; \
                 if they are to have CPUs of their own, name them, such as cpus = \"{last}\" in [gateway]"
            ))
        }
        (Realtime::Auto, _) => interrupted(own, machine).or_else(|| {
            (!machine.throttles).then(|| {
                "the kernel sets real-time threads no limit; set sysctl kernel.sched_rt_runtime_us=950000".into()
            })
        }),
    }
}

/// The first interrupt or softirq on a CPU that a worker is to have for itself, in words, with the cure.
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

/// Scheduling and CPUs of the workers that move frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerScheduling {
    /// Whether they go first.
    pub scheduling: Scheduling,
    /// The CPUs that each has one of for itself; empty: they run anywhere.
    pub cpus: Vec<usize>,
}

impl WorkerScheduling {
    /// Outcome of the rules on this machine, and the reason in words. Asks nothing of the kernel yet.
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
    fn only_cpus_that_are_there_are_named_and_naming_them_is_a_cure() {
        for (links, online, named) in
            [(1, "0-1", "1"), (2, "0-3", "2-3"), (3, "0-3", "1-3"), (1, "0,2,5", "5")]
        {
            let judged = |own: Cpus| {
                refusal(Realtime::Auto, Polling::Adaptive, links, &own, &machine(online, "", true))
            };
            let given = judged(Cpus::default()).unwrap();
            assert!(given.ends_with(&format!("such as cpus = \"{named}\" in [gateway]")), "{given}");
            assert_eq!(judged(cpus(named)), None);
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
