//! Requests of the gateway to the operating system, granted and refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::worker_scheduling::PRIORITY;
use lab::flood::Load;
use lab::{PacketSocket, Program, Shape, Topology};
use perf::demo::pair::{Choice, PairError, Scratch, Station, configure};

use super::{DEADLINE, EXPERIMENT, exchange, lab, marked, program};

/// Neither capability nor limit for real time, nor for locked memory.
const NEITHER: &[&str] =
    &["prlimit", "--rtprio=0", "--memlock=65536", "setpriv", "--bounding-set=-sys_nice,-ipc_lock"];
/// Real time, but no locked memory.
const UNLOCKED: &[&str] = &["prlimit", "--memlock=65536", "setpriv", "--bounding-set=-ipc_lock"];
/// A real-time worker could take the whole box.
const ONE_CPU: &[&str] = &["taskset", "--cpu-list", "0"];

/// Scheduling policy and real-time priority of a process's threads, by their names (proc(5), stat).
fn schedules(process: u32) -> Vec<(String, u32, u32)> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // One that ends meanwhile has no schedule.
    let of = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let (begin, end) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = end.split_whitespace().collect();
        // The first of these is field 3.
        let number = |field: usize| fields[field - 3].parse().unwrap();
        Some((begin.split_once('(').unwrap().1.to_owned(), number(41), number(40)))
    };
    threads.filter_map(|thread| of(thread.ok()?)).collect()
}

/// A worker that sleeps goes first when it is woken; one that looks for frames does not.
fn until_one_goes_first(process: u32) {
    let end = Instant::now() + DEADLINE;
    while !schedules(process).iter().any(|(name, policy, _)| name.starts_with("fw-worker") && *policy == 1) {
        assert!(Instant::now() < end, "nobody goes first: {:?}", schedules(process));
    }
}

/// A number of a process's or thread's directory in /proc (proc(5), status).
fn status(directory: &Path, key: &str) -> u64 {
    let status = fs::read_to_string(directory.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn locked_kib(process: u32) -> u64 {
    status(&PathBuf::from(format!("/proc/{process}")), "VmLck")
}

/// The threads of a process that carry frames, as directories in /proc.
fn workers(process: u32) -> Vec<PathBuf> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|thread| thread.unwrap().path());
    let is_worker = |thread: &PathBuf| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("fw-worker"))
    };
    threads.filter(is_worker).collect()
}

/// Has a thread, a directory in /proc, run on one CPU alone.
fn pin(thread: &Path, cpu: &str) {
    let number = thread.file_name().unwrap().to_str().unwrap();
    Program::spawn(&["taskset", "--cpu-list", "--pid", cpu, number]).unwrap().wait(DEADLINE).unwrap();
}

fn choice(gateway: &'static str) -> Choice {
    Choice { gateway, ..Choice::default() }
}

#[test]
fn workers_alone_go_first_and_all_memory_stays() {
    let (topology, mut pair) = lab(&Shape::default(), &choice("realtime = \"on\""));
    let process = pair.a.program().id();
    // The word that it runs comes before its worker sleeps for the first time.
    until_one_goes_first(process);
    for (name, policy, priority) in schedules(process) {
        let expected = if name.starts_with("fw-worker") { (1, u32::from(PRIORITY)) } else { (0, 0) };
        assert_eq!((policy, priority), expected, "{name}");
    }
    assert!(locked_kib(process) > 1000, "{} KiB are locked", locked_kib(process));
    let privileges = pair.a.report().unwrap().privileges.unwrap();
    assert!(privileges.realtime.granted && privileges.locked_memory.granted, "{privileges:?}");
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 90, 1)]);
    pair.stop().unwrap();
}

/// Frames come faster than a worker that looks for more would ever give up. While one that goes first does not sleep, nobody else
/// runs on its CPU, not even the thread of the kernel that hands frames over.
#[test]
fn a_worker_that_goes_first_sleeps_each_millisecond() {
    const FRAMES: u64 = 10_000;
    const GAP: Duration = Duration::from_micros(50);
    let (topology, mut pair) = lab(&Shape::default(), &choice("realtime = \"on\"\npolling = \"adaptive\""));
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let workers = [pair.a.program().id(), pair.b.program().id()].map(workers).concat();
    assert_eq!(workers.len(), 2);
    workers.iter().for_each(|worker| pin(worker, "0"));
    // As another box would, the machine sends whatever the workers do.
    pin(&fs::read_link("/proc/thread-self").unwrap(), "1");
    let sleeps = || workers.iter().map(|worker| status(worker, "voluntary_ctxt_switches")).sum::<u64>();
    let sender = PacketSocket::open(&a.namespace, a.ifname).unwrap();
    let frame = marked(b.mac, a.mac, EXPERIMENT, 60, 1);
    let before = sleeps();
    for _ in 0..FRAMES {
        // Never sooner, whatever held the one before up: each comes alone.
        let due = Instant::now() + GAP;
        sender.send(&frame).unwrap();
        while Instant::now() < due {
            std::hint::spin_loop();
        }
    }
    let slept = sleeps() - before;
    // Of each worker once in 20 frames, or more often; hardly ever if they looked for the next one.
    assert!(slept > FRAMES / 25, "{slept} times in {FRAMES} frames");
    pair.stop().unwrap();
}

#[test]
fn what_is_not_granted_is_said_and_ends_only_a_start_that_needs_it() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let start = |scratch: &Scratch, by: &[&str]| {
        Station::start_by(by, program(), &topology.gateway_a.namespace, scratch, "a")
    };
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &choice("cpus = \"0\"")).unwrap();
    let mut a = start(&scratch, NEITHER).unwrap();
    let process = a.program().id();
    assert!(schedules(process).iter().all(|(_, policy, _)| *policy == 0));
    assert_eq!(locked_kib(process), 0);
    let granted = a.report().unwrap().privileges.unwrap();
    for (grant, cure) in
        [(granted.realtime, "LimitRTPRIO=10"), (granted.locked_memory, "LimitMEMLOCK=infinity")]
    {
        assert!(!grant.granted && grant.detail.contains(cure), "{grant:?}");
    }
    let said = a.stop().unwrap();
    assert!(said.contains("real time: no, ") && said.contains("locked memory: no, "), "{said}");

    let scratch = Scratch::new().unwrap();
    configure(&scratch, &choice("")).unwrap();
    let a = start(&scratch, ONE_CPU).unwrap();
    let realtime = a.report().unwrap().privileges.unwrap().realtime;
    assert!(!realtime.granted && realtime.detail.contains("every CPU has a worker"), "{realtime:?}");
    a.stop().unwrap();

    let scratch = Scratch::new().unwrap();
    configure(&scratch, &choice("cpus = \"1000\"")).unwrap();
    let Err(PairError::Lab(error)) = start(&scratch, &[]) else { panic!("it started on CPU 1000") };
    assert!(error.to_string().contains("no worker can run on CPU 1000"), "{error}");

    let scratch = Scratch::new().unwrap();
    configure(&scratch, &choice("realtime = \"on\"")).unwrap();
    for (by, words) in [
        (NEITHER, ["real-time scheduling", "CAP_SYS_NICE"]),
        (UNLOCKED, ["memory cannot be locked", "CAP_IPC_LOCK"]),
        (ONE_CPU, ["every CPU has a worker", "fewer links"]),
    ] {
        let Err(PairError::Lab(error)) = start(&scratch, by) else { panic!("it started by {by:?}") };
        let error = error.to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

/// As it ships, by root: no worker goes first where others may want its CPU, and it does where a CPU is kept for it.
#[test]
fn real_time_is_for_those_who_have_a_cpu_to_themselves() {
    let (topology, mut pair) = lab(&Shape::default(), &choice(""));
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 90, 1)]);
    let process = pair.a.program().id();
    assert!(schedules(process).iter().all(|(_, policy, _)| *policy == 0), "{:?}", schedules(process));
    let realtime = pair.a.report().unwrap().privileges.unwrap().realtime;
    assert!(!realtime.granted && realtime.detail.contains("cpus = "), "{realtime:?}");
    pair.stop().unwrap();

    let (topology, mut pair) = lab(&Shape::default(), &choice("cpus = \"0\""));
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 90, 1)]);
    let process = pair.a.program().id();
    let realtime = pair.a.report().unwrap().privileges.unwrap().realtime;
    assert!(realtime.granted && realtime.detail.contains("CPU 0, kept for workers"), "{realtime:?}");
    until_one_goes_first(process);
    let [worker] = &workers(process)[..] else { panic!("one worker") };
    let status = fs::read_to_string(worker.join("status")).unwrap();
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    pair.stop().unwrap();
}

/// CPU time of a thread or process, a directory in /proc, in nanoseconds.
fn cpu_time(directory: &Path) -> u64 {
    let text = fs::read_to_string(directory.join("schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Somebody on CPU 0 who computes without end.
fn hog() -> Program {
    let hog = Program::spawn(&["sh", "-c", "while :; do :; done"]).unwrap();
    pin(&PathBuf::from(format!("/proc/{}", hog.id())), "0");
    hog
}

/// More frames than workers can forward, who go first: others on their CPU run all the same, as the kernel's own threads have to.
#[test]
fn a_flood_does_not_give_the_cpu_to_those_who_go_first() {
    let (topology, mut pair) = lab(&Shape::default(), &choice("realtime = \"on\""));
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let workers = [pair.a.program().id(), pair.b.program().id()].map(workers).concat();
    workers.iter().for_each(|worker| pin(worker, "0"));
    // Frames are brought by the sender's CPU, so the flood goes on whatever happens on the workers'.
    pin(&fs::read_link("/proc/thread-self").unwrap(), "1");
    // It always wants that CPU. So what the workers do not have, others have: it, and whoever else is on this machine.
    let hog = hog();
    let load = Load::start(a, b, 46, None, DEADLINE).unwrap();
    let used = || workers.iter().map(|worker| cpu_time(worker)).sum::<u64>();
    std::thread::sleep(Duration::from_millis(300));
    let (begin, before) = (Instant::now(), used());
    std::thread::sleep(Duration::from_secs(2));
    let (elapsed, ours) = (begin.elapsed().as_nanos() as u64, used() - before);
    load.stop().unwrap();
    // Among equals the hog has a third.
    let others = elapsed.saturating_sub(ours);
    assert!(others * 6 > ours, "others had {others} ns, workers {ours} ns");
    drop(hog);
    pair.stop().unwrap();
}

/// Frames come so steadily that a worker would look for the next one for ever. Not while another one wants its CPU.
#[test]
fn nobody_looks_for_frames_while_others_want_the_cpu() {
    const FRAMES: u64 = 15_000;
    const GAP: Duration = Duration::from_micros(70);
    let (topology, mut pair) = lab(&Shape::default(), &choice(""));
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let workers = [pair.a.program().id(), pair.b.program().id()].map(workers).concat();
    workers.iter().for_each(|worker| pin(worker, "0"));
    pin(&fs::read_link("/proc/thread-self").unwrap(), "1");
    let hog = hog();
    let sum = |key: &str| workers.iter().map(|worker| status(worker, key)).sum::<u64>();
    let switches = || (sum("voluntary_ctxt_switches"), sum("nonvoluntary_ctxt_switches"));
    let sender = PacketSocket::open(&a.namespace, a.ifname).unwrap();
    let frame = marked(b.mac, a.mac, EXPERIMENT, 60, 1);
    let before = switches();
    for _ in 0..FRAMES {
        let due = Instant::now() + GAP;
        sender.send(&frame).unwrap();
        while Instant::now() < due {
            std::hint::spin_loop();
        }
    }
    let after = switches();
    let (slept, kept_away) = (after.0 - before.0, after.1 - before.1);
    // A worker that offered the CPU behind each look would be kept away by each offer.
    assert!(kept_away < 5 * slept, "slept {slept} times, were kept away {kept_away} times");
    drop(hog);
    pair.stop().unwrap();
}
