//! A kernel that does not say how interfaces are for longer than a member's life time: somebody holds the lock of all interfaces. The
//! machine of a test is not to stop for that, so strace holds the gateway's own questions up.

use std::fs;
use std::time::Duration;

use lab::topology::PROTECTED;
use lab::{Program, Shape};

use super::DEADLINE;
use super::checksums::{offload, talk, within};
use super::kernel_default::start;
use super::kernel_link::{path, redirecting, until_path};
use super::mka::{ki, mka};
use super::reload::while_they_talk;

/// Longer than the six seconds after which a member is given up.
const HELD_UP: &str = "inject=socket:delay_enter=9s";

/// Has each netlink socket of a process come late: all threads make one for each question, but workers, who ask nothing.
fn held_up(process: u32) -> Program {
    let mut command =
        ["strace", "-q", "-o", "/dev/null", "-e", "trace=socket", "-e", HELD_UP].map(str::to_owned).to_vec();
    for thread in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let thread = thread.unwrap();
        // A thread may have ended meanwhile.
        let Ok(name) = fs::read_to_string(thread.path().join("comm")) else { continue };
        if !name.starts_with("fw-worker") {
            command.extend(["-p".to_owned(), thread.file_name().into_string().unwrap()]);
        }
    }
    Program::spawn(&command.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
}

#[test]
fn keys_and_frames_go_on_while_the_kernel_does_not_say_how_interfaces_are() {
    let shape = Shape { static_neighbours: true, protected_mtu: 1600, ..Shape::default() };
    for (io, way) in [("", "kernel"), ("io = \"af_xdp\"", "user space")] {
        let topology = redirecting(&shape);
        let mut pair = start(&topology, [io, io]);
        let before = ki(&pair.a);
        if way == "user space" {
            // Whoever tells the cure looks for the machine's end.
            let [machine, other] = [&topology.machine_a, &topology.machine_b];
            offload(machine, "on");
            within(DEADLINE, "the verdict", || {
                talk(machine, other);
                pair.a.report().unwrap().links[0].verdict.state == "unfilled checksums"
            });
        }
        let held_up = held_up(pair.a.program().id());
        while_they_talk(&topology, || {
            std::thread::sleep(Duration::from_secs(8));
            let report = pair.a.report().unwrap();
            assert!(path(&pair.a).starts_with(way), "{way}: {}", path(&pair.a));
            assert!(mka(&report).members[0].heard_ms_ago < 4000, "{way}");
            std::thread::sleep(Duration::from_secs(6));
        });
        assert_eq!([ki(&pair.a), ki(&pair.b)], [before.clone(), before], "{way}");
        topology.gateway_a.namespace.ip(&["link", "set", PROTECTED, "mtu", "1500"]).unwrap();
        drop(held_up);
        if way == "kernel" {
            // Changes that were made meanwhile are seen.
            until_path(&pair.a, "user space");
        }
        let log = pair.a.stop().unwrap();
        assert!(log.contains("has not said for 5 s how the interfaces are"), "{way}: {log}");
        assert!(way != "kernel" || log.contains("says again how the interfaces are"), "{log}");
        pair.b.stop().unwrap();
    }
}
