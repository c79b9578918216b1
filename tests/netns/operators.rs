//! Tools for operators of a running gateway: status without root, counters from here on, a log for programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use lab::program::Output;
use lab::{Program, Shape, Topology};
use perf::demo::pair::{Choice, Scratch, Station, configure};

use super::reload::{reload, reloaded};
use super::{DEADLINE, EXPERIMENT, exchange, http, lab, marked, program};

/// The group that may read, in a namespace's own group(5).
pub(crate) const READERS: &str = "64991";
const NOBODY: &str = "64992";

/// Files that all may reach, so that the socket alone decides.
fn open_files(choice: &Choice) -> Scratch {
    let scratch = Scratch::new().unwrap();
    configure(&scratch, choice).unwrap();
    let copy = scratch.path().join("frameward");
    lab::program::run(&["cp", program().to_str().unwrap(), copy.to_str().unwrap()], DEADLINE).unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o711)).unwrap();
    scratch
}

/// The command of a process that finds a group for readers in its group(5).
pub(crate) fn with_group(scratch: &Scratch) -> Vec<String> {
    let file = scratch.write("group", &format!("root:x:0:\nframeward-status:x:{READERS}:\n")).unwrap();
    let own = format!("mount --bind {} /etc/group && exec \"$@\"", file.display());
    ["unshare", "--mount", "sh", "-c", &own, "sh"].map(str::to_owned).to_vec()
}

/// Starts a gateway where there is a group for readers; `groups` are those of its process.
fn start_with_group(topology: &Topology, scratch: &Scratch, groups: &str) -> Station {
    let command = with_group(scratch);
    let mut by: Vec<&str> = command.iter().map(String::as_str).collect();
    by.extend(["setpriv", "--groups", groups]);
    Station::start_by(&by, program(), &topology.gateway_a.namespace, scratch, "a").unwrap()
}

/// `frameward` with these arguments, as a user that is nobody, in this group.
fn as_user(scratch: &Scratch, group: &str, arguments: &[&str]) -> Output {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let (user, groups) = (format!("--reuid={NOBODY}"), format!("--groups={group}"));
    let copy = scratch.path().join("frameward");
    let by = ["setpriv", &user, "--regid=64992", &groups, "env", &variable, copy.to_str().unwrap()];
    Program::spawn(&[&by, arguments].concat()).unwrap().wait(DEADLINE).unwrap()
}

#[test]
fn the_status_group_reads_and_changes_nothing() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = open_files(&Choice::default());
    let a = start_with_group(&topology, &scratch, READERS);
    let read = as_user(&scratch, READERS, &["status", "a"]);
    assert!(read.status.success() && read.stdout.contains("link press"), "{}{}", read.stdout, read.stderr);
    for change in [
        &["reload", "a"][..],
        &["reload", "--dry-run", "a"],
        &["status", "--clear", "a"],
        &["rekey", "a", "press"],
    ] {
        let refused = as_user(&scratch, READERS, change);
        assert_eq!(refused.status.code(), Some(1), "{change:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("only root and the gateway's own user"), "{}", refused.stderr);
    }
    let report = a.report().unwrap();
    assert_eq!((report.reload, report.cleared_seconds), (None, None), "nothing was done");
    let stranger = as_user(&scratch, NOBODY, &["status", "a"]);
    assert_eq!(stranger.status.code(), Some(1));
    assert!(stranger.stderr.contains("a member of group frameward-status"), "{}", stranger.stderr);
    // Root may do both, by the same socket.
    assert!(reloaded(&scratch, "a").contains("the configuration is unchanged"));
    let said = a.stop().unwrap();
    assert!(!said.contains("cannot read the status"), "{said}");
}

#[test]
fn a_gateway_that_is_no_member_of_the_group_says_so_and_runs() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = open_files(&Choice::default());
    let a = start_with_group(&topology, &scratch, NOBODY);
    assert_eq!(as_user(&scratch, READERS, &["status", "a"]).status.code(), Some(1));
    a.report().unwrap();
    let said = a.stop().unwrap();
    assert!(said.contains("frameward: warning: group frameward-status cannot read the status: "), "{said}");
}

#[test]
fn cleared_counters_begin_again_in_status_and_go_on_elsewhere() {
    let choice = Choice { gateway: http::HTTP, ..Choice::default() };
    let (topology, pair) = lab(&Shape::default(), &choice);
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let pass = |seeds: std::ops::Range<u64>| {
        let frames: Vec<_> = seeds.map(|seed| marked(b.mac, a.mac, EXPERIMENT, 90, seed)).collect();
        exchange(a, b, &frames);
    };
    let sent = |station: &Station| {
        let report = station.report().unwrap();
        let transmit = report.links[0].secy.transmit.clone();
        (
            transmit.counters.value("OutPktsEncrypted"),
            transmit.sas[0].next_pn.unwrap(),
            report.cleared_seconds,
        )
    };
    let metric = || -> u64 {
        let text = http::get(&topology.gateway_a.namespace, "/metrics");
        let line =
            text.lines().find(|line| line.starts_with("frameward_transmit_sc_out_pkts_encrypted_total{"));
        line.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    pass(0..7);
    let (before, pn, cleared) = sent(&pair.a);
    assert!(before >= 7 && cleared.is_none(), "{before}");
    let run = pair.scratch.path().join("run");
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", run.display());
    let clear = ["env", &variable, program().to_str().unwrap(), "status", "--clear", "a"];
    assert!(Program::spawn(&clear).unwrap().wait(DEADLINE).unwrap().status.success());
    let (after, pn_after, cleared) = sent(&pair.a);
    assert!(after < 7 && cleared.is_some(), "{after}");
    assert!(pn_after >= pn, "{pn_after}");
    assert!(metric() >= before);
    pass(7..10);
    assert!((after + 3..after + 7).contains(&sent(&pair.a).0), "{}", sent(&pair.a).0);
    // A report is good for all who ask within a tenth of a second: the first answer may be the one before.
    let deadline = Instant::now() + DEADLINE;
    while metric() < before + 3 {
        assert!(Instant::now() < deadline, "{} instead of {} and more", metric(), before + 3);
    }
    assert!(http::get(&topology.gateway_a.namespace, "/status").contains("\"cleared_seconds\""));
    pair.stop().unwrap();
}

/// The lines as JSON, each with its event.
fn events(lines: &[&str]) -> Vec<(String, serde_json::Value)> {
    let event = |line: &&str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        for key in ["time", "level", "message"] {
            assert!(value[key].is_string(), "{line}");
        }
        (value["event"].as_str().unwrap().to_owned(), value)
    };
    lines.iter().map(event).collect()
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

#[test]
fn the_log_is_json_where_that_is_configured_and_a_reload_changes_it() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(
        &scratch,
        &Choice { gateway: "log = \"json\"", link: "replay_protect = false", ..Choice::default() },
    )
    .unwrap();
    let a = Station::start(program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let file = scratch.path().join("a.toml");
    // A refused reload changes nothing, and is told in the old format.
    replace(&file, "\"json\"", "\"xml\"");
    let refused = reload(&scratch, "a");
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("use \"text\" or \"json\""), "{}", refused.stderr);
    replace(&file, "\"xml\"", "\"text\"");
    assert!(reloaded(&scratch, "a").contains("log"));
    let said = a.stop().unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let first_text = lines.iter().position(|line| !line.starts_with('{')).unwrap();
    assert!(lines[first_text..].iter().all(|line| line.starts_with("frameward: ")), "{said}");
    assert!(lines.last().unwrap().contains("gateway a stops: SIGTERM"), "{said}");
    let events = events(&lines[..first_text]);
    let of = |name: &str| {
        let found = events.iter().find(|(event, _)| event == name);
        &found.unwrap_or_else(|| panic!("no {name}: {said}")).1
    };
    assert_eq!(of("gateway-running")["level"], "info");
    assert_eq!(of("link-started")["link"], "press");
    assert!(of("link-started")["message"].as_str().unwrap().starts_with("pl"), "{said}");
    let warning = of("configuration");
    assert_eq!(warning["level"], "warning");
    assert!(warning["message"].as_str().unwrap().contains("replay_protect = false"), "{said}");
    assert_eq!(of("reload-refused")["level"], "error");
    assert_eq!(of("reload")["done"], false);
    assert!(of("configuration-changed")["message"].as_str().unwrap().contains("log"), "{said}");
}

#[test]
fn a_failed_start_says_why_in_the_configured_format() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice { gateway: "log = \"json\"", ..Choice::default() }).unwrap();
    // The protected interface is too small for what the plain one takes.
    topology.gateway_a.namespace.ip(&["link", "set", lab::topology::PROTECTED, "mtu", "1400"]).unwrap();
    let config = scratch.path().join("a.toml");
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let command =
        ["env", &variable, program().to_str().unwrap(), "run", "--keep-user", config.to_str().unwrap()];
    let ended = topology.gateway_a.namespace.spawn(&command).unwrap().wait(DEADLINE).unwrap();
    assert!(!ended.status.success());
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let (event, last) = events(&lines).pop().unwrap();
    assert_eq!((event.as_str(), &last["level"]), ("gateway-failed", &"error".into()));
    assert!(last["message"].as_str().unwrap().contains("a.toml:"), "{last}");
}

#[test]
fn the_journal_gets_levels_and_nobody_else_does() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let with_stream = "export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); exec \"$@\"";
    for (script, prefix) in [(with_stream, "<6>frameward: "), ("exec \"$@\"", "frameward: ")] {
        let by = ["sh", "-c", script, "sh"];
        let a = Station::start_by(&by, program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
        let said = a.stop().unwrap();
        assert!(said.contains(&format!("{prefix}gateway a is running")), "{said}");
        assert_eq!(said.contains("<4>frameward: warning: stays root"), prefix.starts_with('<'), "{said}");
    }
}
