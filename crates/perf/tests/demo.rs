//! The demo ends well, says what it must, leaves nothing behind, also when it is interrupted.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use lab::Program;
use nix::sys::signal::Signal;

/// The program under test; it runs the gateway that stands beside it.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_frameward-lab"))
}

/// Time a demo may take on a busy machine; a quarter of a minute is usual.
const LIMIT: Duration = Duration::from_secs(300);

/// Namespaces and scratch directories of the process `pid`.
fn left_by(pid: u32) -> Vec<String> {
    let names = |directory: &str, prefix: String| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(move |name| name.starts_with(&prefix)).collect::<Vec<_>>()
    };
    let scratch = std::env::temp_dir();
    let mut left = names("/run/netns", format!("fw-{pid}-"));
    left.extend(names(scratch.to_str().unwrap(), format!("frameward-{pid}-")));
    left
}

#[test]
fn it_shows_the_main_job() {
    let demo = Program::spawn(&[program().to_str().unwrap(), "demo"]).unwrap();
    let pid = demo.id();
    let output = demo.wait(LIMIT).unwrap();
    assert!(output.status.success(), "{}{}", output.stdout, output.stderr);
    for words in ["0% packet loss", "cyclic frames", "all MACsec", "Mbit/s", "p99.9", "OutPktsEncrypted"] {
        assert!(output.stdout.contains(words), "{words:?} is not in\n{}", output.stdout);
    }
    assert_eq!(left_by(pid), Vec::<String>::new());
}

#[test]
fn it_shows_a_tunnel() {
    let demo = Program::spawn(&[program().to_str().unwrap(), "demo", "tunnel"]).unwrap();
    let pid = demo.id();
    let output = demo.wait(LIMIT).unwrap();
    assert!(output.status.success(), "{}{}", output.stdout, output.stderr);
    for words in [
        "frame path  of known flows: sent: user space",
        "frame path  of known flows: kernel",
        "0% packet loss",
        "no MAC address and no SCI",
        "Mbit/s",
        "p99.9",
        "OutPktsTunnelled",
    ] {
        assert!(output.stdout.contains(words), "{words:?} is not in\n{}", output.stdout);
    }
    assert_eq!(left_by(pid), Vec::<String>::new());
}

#[test]
fn it_shows_a_fieldbus() {
    let demo = Program::spawn(&[program().to_str().unwrap(), "demo", "fieldbus"]).unwrap();
    let pid = demo.id();
    let output = demo.wait(Duration::from_secs(120)).unwrap();
    assert!(output.status.success(), "{}{}", output.stdout, output.stderr);
    for words in [
        "8 relations",
        "frame path  user space",
        "frame path  kernel",
        "none lost",
        "0% packet loss",
        "p99.9",
        "OutPktsProtected",
        "none with the plaintext",
    ] {
        assert!(output.stdout.contains(words), "{words:?} is not in\n{}", output.stdout);
    }
    assert_eq!(left_by(pid), Vec::<String>::new());
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let mut demo = Program::spawn(&[program().to_str().unwrap(), "demo"]).unwrap();
    let pid = demo.id();
    demo.wait_for_line("gateways ", LIMIT).unwrap();
    assert!(!left_by(pid).is_empty(), "there is something to leave");
    demo.signal(Signal::SIGINT).unwrap();
    let output = demo.wait(LIMIT).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(left_by(pid), Vec::<String>::new());
}
