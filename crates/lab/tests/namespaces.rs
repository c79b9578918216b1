//! Namespaces come, hold programs and threads, and go without a trace. Needs root.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use lab::{Error, Namespace, program};

/// Time anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn programs_and_threads_are_inside() {
    let namespace = Namespace::new("inside").unwrap();
    let links = namespace.run(&["ip", "-o", "link"]).unwrap().stdout;
    assert_eq!(links.lines().count(), 1, "only lo: {links}");
    assert!(links.contains("LOOPBACK,UP"), "{links}");
    let seen = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let inside = namespace.enter(seen).unwrap();
    assert_eq!(inside.lines().count(), 3, "two lines of head, one of lo: {inside}");
    let threaded = namespace.spawn_thread(seen).unwrap().join(LIMIT).unwrap();
    assert_eq!(threaded.lines().count(), 3);
    namespace.sysctl("net/ipv4/ip_forward", "1").unwrap();
    assert_eq!(namespace.run(&["cat", "/proc/sys/net/ipv4/ip_forward"]).unwrap().stdout, "1\n");
    assert!(matches!(namespace.run(&["false"]), Err(Error::Failed { .. })));
    assert!(matches!(
        namespace.run_within(&["sleep", "9"], Duration::from_millis(50)),
        Err(Error::Deadline { .. })
    ));
}

#[test]
fn a_panic_inside_reaches_the_caller() {
    let namespace = Namespace::new("panic").unwrap();
    let caught = std::panic::catch_unwind(|| namespace.enter::<()>(|| panic!("inside")));
    assert!(caught.is_err());
    let task = namespace.spawn_thread::<()>(|| panic!("inside")).unwrap();
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.join(LIMIT)));
    assert!(joined.is_err());
    let slow = namespace.spawn_thread(|| std::thread::sleep(Duration::from_secs(1))).unwrap();
    assert!(matches!(slow.join(Duration::from_millis(20)), Err(Error::Deadline { .. })));
}

#[test]
fn dropping_leaves_no_namespace_and_no_process() {
    let namespace = Namespace::new("drop").unwrap();
    let name = namespace.name().to_owned();
    // One that we hold, and a grandchild that nobody holds and that ignores SIGTERM.
    let held = namespace.spawn(&["sleep", "60"]).unwrap();
    let script = "trap '' TERM; sleep 60 & echo $!";
    let orphan = namespace.run(&["sh", "-c", script]).unwrap().stdout.trim().to_owned();
    let held_pid = held.id();
    assert!(Path::new(&format!("/proc/{orphan}")).exists());
    drop(namespace);
    assert!(!Path::new("/run/netns").join(&name).exists());
    drop(held);
    for pid in [held_pid.to_string(), orphan] {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "process {pid} lives: {state}");
    }
}

#[test]
fn a_sweep_takes_the_dead_owners_and_no_others() {
    let live = Namespace::new("live").unwrap();
    // The identifier of a process that has just ended is not given again soon.
    let ended = program::Program::spawn(&["true"]).unwrap();
    let dead = format!("fw-{}-0-dead", ended.id());
    ended.wait(LIMIT).unwrap();
    program::run(&["ip", "netns", "add", &dead], LIMIT).unwrap();
    let sleeper = program::Program::spawn(&["ip", "netns", "exec", &dead, "sleep", "60"]).unwrap();
    // Another test's sweep may be quicker; otherwise the sleeper has to be inside before ours.
    let empty =
        || program::run(&["ip", "netns", "pids", &dead], LIMIT).is_ok_and(|ids| ids.stdout.is_empty());
    while empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    Namespace::sweep().unwrap();
    assert!(!Path::new("/run/netns").join(&dead).exists());
    assert!(Path::new("/run/netns").join(live.name()).exists());
    let status = sleeper.wait(LIMIT).unwrap().status;
    assert!(!status.success(), "the sweep kills what runs inside");
    live.remove().unwrap();
}
