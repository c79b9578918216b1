//! The gateway as its systemd unit runs it: another user, the unit's capabilities and no more, the unit's system
//! calls and no more. Without systemd: the test reads the unit and does to the process what systemd would.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use lab::{Machine, Namespace, Plants, PlantsShape, Shape, Topology};
use perf::demo::cells;
use perf::demo::pair::{Choice, Pair, PairError, Scratch, Station, configure};
use perf::demo::sites::{self, SitesChoice, site_name, station_name};
use report::GatewayReport;

use super::operators::{READERS, with_group};
use super::{DEADLINE, EXPERIMENT, exchange, marked, program};

const UNIT: &str = include_str!("../../packaging/frameward@.service");
const OWN_USER: &str = include_str!("../../packaging/own-user.conf");
/// Any user but root; Debian's nobody.
const USER: u32 = 65534;
/// System call with which the C library changes a file's group.
const CHOWN: &str = if cfg!(target_arch = "x86_64") { "chown" } else { "fchownat" };

/// The words of a setting of the unit, all its lines together.
fn setting(name: &str) -> Vec<&'static str> {
    let lines = UNIT.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).collect()
}

/// The command that makes of the test's process what the unit makes of the service's, with these capabilities.
fn as_service(capabilities: &[&str]) -> Vec<String> {
    let list: String = capabilities
        .iter()
        .map(|one| format!(",+{}", one.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let user = [format!("--reuid={USER}"), format!("--regid={USER}")];
    let sets = ["inh-caps", "ambient-caps", "bounding-set"].map(|set| format!("--{set}=-all{list}"));
    // The limits are those that a system without systemd has.
    let words = ["prlimit", "--memlock=65536", "--rtprio=0", "setpriv", "--clear-groups", "--no-new-privs"];
    words.map(str::to_owned).into_iter().chain(user).chain(sets).collect()
}

/// Two configurations, with the program, for the user; nothing of it is root's.
fn files() -> Scratch {
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice { gateway: super::http::HTTP, ..Choice::default() }).unwrap();
    for name in ["a.toml", "b.toml"] {
        let file = scratch.path().join(name);
        let text = fs::read_to_string(&file).unwrap().replacen("[gateway]", "[gateway]\ncpus = \"0\"", 1);
        fs::write(file, text).unwrap();
    }
    give(&scratch);
    scratch
}

/// Puts the program beside the configurations, and gives all of it to the user.
fn give(scratch: &Scratch) {
    // By a process of its own: a child of another test's would inherit the file open for writing, and it would be busy.
    let to = scratch.path().join("frameward");
    lab::program::run(&["cp", program().to_str().unwrap(), to.to_str().unwrap()], DEADLINE).unwrap();
    for entry in fs::read_dir(scratch.path()).unwrap() {
        chown(entry.unwrap().path(), Some(USER), Some(USER)).unwrap();
    }
    chown(scratch.path(), Some(USER), Some(USER)).unwrap();
}

fn start(
    by: &[String],
    machine: &lab::topology::Gateway,
    scratch: &Scratch,
    name: &str,
) -> Result<Station, PairError> {
    start_in(by, &machine.namespace, scratch, name)
}

fn start_in(
    by: &[String],
    namespace: &Namespace,
    scratch: &Scratch,
    name: &str,
) -> Result<Station, PairError> {
    let by: Vec<&str> = by.iter().map(String::as_str).collect();
    Station::start_by(&by, &scratch.path().join("frameward"), namespace, scratch, name)
}

/// The command that makes a service of the test's process, and writes its system calls into a file.
fn traced_service(trace: &Path) -> Vec<String> {
    let tracer = ["strace", "--follow-forks", "--quiet=all", "--signal=none", "--string-limit=200", "-o"];
    let words = tracer.into_iter().chain([trace.to_str().unwrap()]).map(str::to_owned);
    words.chain(as_service(&setting("AmbientCapabilities"))).collect()
}

/// Sends a signal to what strace traces: strace is the child.
fn signal_traced(station: &mut Station, signal: nix::sys::signal::Signal) {
    let children = format!("/proc/{0}/task/{0}/children", station.program().id());
    let gateway: i32 = fs::read_to_string(children).unwrap().trim().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(gateway), signal).unwrap();
}

fn wait_for_end(mut station: Station) {
    let end = std::time::Instant::now() + DEADLINE;
    while station.program().is_running() {
        assert!(std::time::Instant::now() < end, "it does not end");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Sees that the traced calls are among those of the unit, and returns them.
fn within_the_list(trace: &Path, scratch: &Scratch) -> BTreeSet<String> {
    let (used, allowed) = (traced_calls(trace, &scratch.path().join("frameward")), allowed_calls());
    let beyond: Vec<_> = used.difference(&allowed).collect();
    assert!(beyond.is_empty(), "beyond the unit's list: {beyond:?}");
    used
}

fn pass(a: &Machine, b: &Machine) {
    exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 90, 1), marked(b.mac, a.mac, EXPERIMENT, 1500, 2)]);
    exchange(b, a, &[marked(a.mac, b.mac, EXPERIMENT, 90, 3)]);
}

/// A line of `/proc/PID/status`.
fn process_status(process: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    line.unwrap().to_owned()
}

#[test]
fn the_units_user_and_capabilities_are_enough() {
    let capabilities = setting("AmbientCapabilities");
    assert_eq!(capabilities, setting("CapabilityBoundingSet"));
    let topology = Topology::build(&Shape::default()).unwrap();
    let before = super::lifecycle::settings(&topology.gateway_a.namespace);
    let scratch = files();
    let by = as_service(&capabilities);
    let mut a = start(&by, &topology.gateway_a, &scratch, "a").unwrap();
    let b = start(&by, &topology.gateway_b, &scratch, "b").unwrap();
    let process = a.program().id();
    assert_eq!(process_status(process, "Uid"), format!("{USER}\t{USER}\t{USER}\t{USER}"));
    assert_eq!(process_status(process, "NoNewPrivs"), "1");
    // CAP_NET_BIND_SERVICE 10, CAP_NET_ADMIN 12, CAP_NET_RAW 13, CAP_IPC_LOCK 14, CAP_BPF 39. CAP_PERFMON 38 is gone since the programs
    // are loaded; the bounding set has it, for only CAP_SETPCAP could change that, and no program is started.
    let (mask, perfmon) = (1_u64 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39, 1 << 38);
    for (set, expected) in
        [("CapPrm", mask), ("CapEff", mask), ("CapInh", mask), ("CapAmb", mask), ("CapBnd", mask | perfmon)]
    {
        assert!(self::capabilities(process, set).iter().all(|has| *has == expected), "{set}");
    }
    // Its memory is nobody's to read, not even its own user's: /proc says so by giving it to root.
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(format!("/proc/{process}/mem")).unwrap());
    assert_eq!(owner, 0, "the process could be dumped");
    pass(&topology.machine_a, &topology.machine_b);
    assert!(a.report().unwrap().privileges.unwrap().locked_memory.granted);
    super::upgrade::upgraded(&scratch, "a");
    pass(&topology.machine_a, &topology.machine_b);
    for (set, expected) in
        [("CapPrm", mask), ("CapEff", mask), ("CapInh", mask), ("CapAmb", mask), ("CapBnd", mask | perfmon)]
    {
        assert!(
            self::capabilities(process, set).iter().all(|has| *has == expected),
            "{set} after an upgrade"
        );
    }
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(format!("/proc/{process}/mem")).unwrap());
    assert_eq!(owner, 0, "the process could be dumped after an upgrade");
    a.stop().unwrap();
    b.stop().unwrap();
    super::lifecycle::wait_until_restored(&topology.gateway_a.namespace, &before);
    assert!(scratch.path().join("state-a").exists());
}

#[test]
fn each_of_the_units_capabilities_is_needed() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = files();
    let all = setting("AmbientCapabilities");
    for missing in &all {
        let others: Vec<&str> = all.iter().copied().filter(|one| one != missing).collect();
        let started = start(&as_service(&others), &topology.gateway_a, &scratch, "a");
        match (*missing, started) {
            ("CAP_IPC_LOCK", Ok(station)) => {
                let locked = station.report().unwrap().privileges.unwrap().locked_memory;
                assert!(!locked.granted && locked.detail.contains(missing), "{locked:?}");
                station.stop().unwrap();
            }
            // Only cells need it: `auto_takes_user_space_where_the_kernel_cannot_be_had`.
            ("CAP_PERFMON", Ok(station)) => drop(station.stop().unwrap()),
            // Only ports below 1024 need it: `a_site_as_a_service_listens_at_port_443`.
            ("CAP_NET_BIND_SERVICE", Ok(station)) => drop(station.stop().unwrap()),
            ("CAP_NET_ADMIN" | "CAP_NET_RAW" | "CAP_BPF", Err(error)) => {
                let error = error.to_string();
                assert!(error.contains("not permitted") && error.contains(missing), "{error}");
            }
            (_, started) => panic!("without {missing}: {started:?}"),
        }
    }
}

/// A set of capabilities of each thread of a process.
fn capabilities(process: u32, set: &str) -> Vec<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // A thread may have ended since it was listed.
    let status = |thread: &Path| fs::read_to_string(thread.join("status")).ok();
    let of = |text: String| {
        text.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(":\t").map(str::to_owned))
    };
    let sets: Vec<u64> = threads
        .filter_map(|thread| status(&thread.unwrap().path()))
        .map(|text| u64::from_str_radix(&of(text).unwrap(), 16).unwrap())
        .collect();
    assert!(!sets.is_empty(), "process {process} has no threads");
    sets
}

/// Sees that of all that root may, a gateway has left what it needs, no less and no more: in each of its threads.
pub(crate) fn has_what_it_needs_alone(process: u32) {
    // Beside those of the unit CAP_SYS_NICE, 23: without a unit no limit allows real time.
    let mask = 1_u64 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 23 | 1 << 39;
    // CAP_DAC_OVERRIDE 1, CAP_SETGID 6, CAP_SETUID 7.
    let test = capabilities(std::process::id(), "CapEff")[0];
    assert_eq!(test & 0xc2, 0xc2, "this test has nothing that could be given up: {test:016x}");
    for (set, expected) in
        [("CapPrm", mask & test), ("CapEff", mask & test), ("CapBnd", mask), ("CapInh", 0), ("CapAmb", 0)]
    {
        for has in capabilities(process, set) {
            let is_right = if set == "CapBnd" { has & !mask == 0 } else { has == expected };
            assert!(is_right, "{set}: {has:016x} instead of {expected:016x}");
        }
    }
    assert_eq!(process_status(process, "NoNewPrivs"), "1");
}

#[test]
fn as_root_it_keeps_what_it_needs_alone() {
    let (_topology, mut pair) = super::lab(&Shape::default(), &Choice::default());
    has_what_it_needs_alone(pair.a.program().id());
    super::upgrade::upgraded(&pair.scratch, "a");
    has_what_it_needs_alone(pair.a.program().id());
    assert_eq!(process_status(pair.a.program().id(), "Uid"), "0\t0\t0\t0", "as it was told to");
    pair.stop().unwrap();
    // Also of what its starter has left to programs that are started.
    let by = ["setpriv", "--inh-caps=+sys_admin,+perfmon", "--ambient-caps=+sys_admin,+perfmon"];
    let (topology, scratch) = (Topology::build(&Shape::default()).unwrap(), Scratch::new().unwrap());
    configure(&scratch, &Choice::default()).unwrap();
    let mut a = Station::start_by(&by, program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    has_what_it_needs_alone(a.program().id());
    a.stop().unwrap();
}

/// Root once let another user run a gateway. Then it stays root, which without its capabilities is stopped by file permissions.
#[test]
fn root_that_stays_root_uses_the_directories_of_another_user() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let run = scratch.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    chown(&run, Some(USER), Some(USER)).unwrap();
    let a = Station::start(program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    assert!(a.report().is_ok());
    a.stop().unwrap();
    // It is that user's still, and nobody else's to write.
    let run = fs::metadata(&run).unwrap();
    let numbers = (std::os::unix::fs::MetadataExt::uid(&run), std::os::unix::fs::MetadataExt::gid(&run));
    assert_eq!((numbers, std::os::unix::fs::MetadataExt::mode(&run) & 0o7777), ((USER, 0), 0o775));
}

/// Root starts it; what is read, and all that it does, is another user's.
#[test]
fn root_becomes_the_gateways_user_before_the_configuration_is_read() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let before = super::lifecycle::settings(&topology.gateway_a.namespace);
    let scratch = files();
    let user = USER.to_string();
    let options = ["--user", user.as_str()];
    let frameward = scratch.path().join("frameward");
    let start = |home: &lab::topology::Gateway, name| {
        Station::start_with(&options, &[], &frameward, &home.namespace, &scratch, name).unwrap()
    };
    let (mut a, b) = (start(&topology.gateway_a, "a"), start(&topology.gateway_b, "b"));
    let process = a.program().id();
    for set in ["Uid", "Gid"] {
        assert_eq!(process_status(process, set), [user.as_str(); 4].join("\t"), "{set}");
    }
    // Its user's own groups, none of root's.
    assert_eq!(process_status(process, "Groups").trim(), user);
    has_what_it_needs_alone(process);
    pass(&topology.machine_a, &topology.machine_b);
    let owner =
        |place: &str| std::os::unix::fs::MetadataExt::uid(&fs::metadata(scratch.path().join(place)).unwrap());
    assert_eq!((owner("run"), owner("state-a")), (USER, USER));
    let said = a.stop().unwrap();
    assert!(said.contains(&format!("runs as user {user:?}")), "{said}");
    b.stop().unwrap();
    super::lifecycle::wait_until_restored(&topology.gateway_a.namespace, &before);

    // A file of root's is not this user's, also where a configuration names it; nor is a configuration.
    let config = scratch.path().join("a.toml");
    let text = fs::read_to_string(&config).unwrap().replace("\"a.key\"", "\"/etc/shadow\"");
    fs::write(&config, text).unwrap();
    let refused = |options: &[&str], file: &str, status: i32, words: &[&str]| {
        let run = [&[frameward.to_str().unwrap(), "run"], options, &[file]].concat();
        let output = topology.gateway_a.namespace.spawn(&run).unwrap().wait(DEADLINE).unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", output.stderr);
        for word in words {
            assert!(output.stderr.contains(word), "{word:?} is not in {}", output.stderr);
        }
    };
    let file = config.to_str().unwrap();
    refused(&options, file, 2, &["/etc/shadow cannot be read: Permission denied"]);
    refused(&options, "/etc/shadow", 2, &["/etc/shadow: cannot be read: Permission denied"]);
    // Root reads it, and finds that it is no TOML.
    refused(&["--keep-user"], "/etc/shadow", 2, &["warning: stays root", "/etc/shadow:1: "]);
    refused(&["--user", "no-such-user"], file, 1, &["there is no user \"no-such-user\"", "useradd"]);
}

/// System calls that the unit's filter lets through. To every such list systemd itself adds those that a process needs
/// to begin and end; they are part of @default.
fn allowed_calls() -> BTreeSet<String> {
    let filters = UNIT.lines().filter_map(|line| line.strip_prefix("SystemCallFilter="));
    let (denied, allowed): (Vec<&str>, Vec<&str>) = filters.partition(|filter| filter.starts_with('~'));
    let calls = |filters: Vec<&'static str>| -> BTreeSet<String> {
        filters
            .into_iter()
            .flat_map(|filter| filter.trim_start_matches('~').split_whitespace())
            .flat_map(expand)
            .collect()
    };
    let mut all = calls(allowed);
    all.extend(expand("@default"));
    &all - &calls(denied)
}

fn expand(word: &str) -> Vec<String> {
    if !word.starts_with('@') {
        return vec![word.to_owned()];
    }
    let output = lab::program::run(&["systemd-analyze", "syscall-filter", word], DEADLINE).unwrap().stdout;
    let words =
        output.lines().skip(1).map(str::trim).filter(|line| !line.starts_with('#') && !line.is_empty());
    words.flat_map(expand).collect()
}

/// The calls in a file that `strace -f` wrote, of the program and all its threads: from its own execve on.
fn traced_calls(file: &Path, program: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    let begin = format!("execve(\"{}\"", program.display());
    let lines = text.lines().skip_while(|line| !line.contains(&begin));
    let call = |line: &str| {
        let (_, rest) = line.split_once(' ')?;
        let (name, _) = rest.trim_start().split_once('(')?;
        name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_').then(|| name.to_owned())
    };
    lines.filter_map(call).collect()
}

#[test]
fn start_traffic_status_reload_and_stop_keep_to_the_units_system_calls() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = files();
    let trace = scratch.path().join("trace");
    // As a member of the group that may read the status: the socket is given to it.
    let groups = format!("--groups={READERS}");
    let traced = traced_service(&trace).into_iter().map(|word| match word.as_str() {
        "--clear-groups" => groups.clone(),
        _ => word,
    });
    let traced: Vec<String> = with_group(&scratch).into_iter().chain(traced).collect();
    let mut a = start(&traced, &topology.gateway_a, &scratch, "a").unwrap();
    let service = as_service(&setting("AmbientCapabilities"));
    let b = start(&service, &topology.gateway_b, &scratch, "b").unwrap();
    pass(&topology.machine_a, &topology.machine_b);
    report::ask(&scratch.path().join("run"), "a").unwrap();
    super::http::get(&topology.gateway_a.namespace, "/metrics");
    signal_traced(&mut a, nix::sys::signal::Signal::SIGHUP);
    let reloads = |report: &GatewayReport| report.reload.as_ref().map_or(0, |reload| reload.count);
    super::wait_for(|| a.report().unwrap(), 1, reloads);
    assert!(a.report().unwrap().reload.unwrap().done);
    pass(&topology.machine_a, &topology.machine_b);
    super::upgrade::upgraded(&scratch, "a");
    pass(&topology.machine_a, &topology.machine_b);
    signal_traced(&mut a, nix::sys::signal::Signal::SIGTERM);
    wait_for_end(a);
    b.stop().unwrap();
    let (used, allowed) = (within_the_list(&trace, &scratch), allowed_calls());
    for call in ["bpf", "ppoll", "mlockall", "clone3", "fsync", "sched_setaffinity", CHOWN] {
        assert!(used.contains(call), "{call} is not in the trace, which has {used:?}");
    }
    // The list is worth something.
    for call in [
        "execveat",
        "memfd_create",
        "ptrace",
        "mount",
        "setuid",
        "kexec_load",
        "init_module",
        "process_vm_readv",
        "unshare",
    ] {
        assert!(!allowed.contains(call), "{call} is allowed");
    }
    // The program is where it may be executed, and shells are not.
    assert_eq!(
        (setting("NoExecPaths"), setting("ExecPaths")),
        (vec!["/", "-/usr/lib/klibc"], vec!["/usr/lib"])
    );
    assert!(setting("ExecStart")[0].starts_with("/usr/lib/"));
}

/// A box that knows its fleet alone: it writes what it gets below its state directory, as a service may.
#[test]
fn a_box_of_a_fleet_keeps_to_the_units_capabilities_and_system_calls() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let done = |arguments: &[&str]| {
        let output = std::process::Command::new(program()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let operator = done(&["fleet", "operator", "--out", &path("operator.key")]);
    let operator = operator.trim().strip_prefix("operator = ").unwrap().trim_matches('"').to_owned();
    let identity = done(&["fleet", "identity", &path("a.key")]);
    for folder in ["identities", "rendering", "rendering/a", "state-a"] {
        fs::create_dir(path(folder)).unwrap();
    }
    fs::write(path("identities/a.identity"), identity).unwrap();
    done(&["keygen", "cak", "--out", &path("rendering/a/line.cak")]);
    let state = path("state-a");
    let text = format!(
        "[gateway]\nname = \"a\"\nstate = \"{state}\"\n[[link]]\nname = \"press\"\nplain = \"{}\"\nprotected = \"{}\"\n[link.mka]\ncak_file = \"line.cak\"\n",
        lab::topology::PLAIN,
        lab::topology::PROTECTED
    );
    fs::write(path("rendering/a/frameward.toml"), text).unwrap();
    done(&[
        "fleet",
        "apply",
        &path("rendering"),
        "--signing-key",
        &path("operator.key"),
        "--identities",
        &path("identities"),
        "--directory",
        &path("fleet.redb"),
    ]);
    let text = format!(
        "[gateway]\nname = \"a\"\nstate = \"{state}\"\n[fleet]\ndirectory = \"{}\"\noperator = \"{operator}\"\nidentity = \"a.key\"\n",
        path("fleet.redb")
    );
    fs::write(path("a.toml"), text).unwrap();
    give(&scratch);
    let trace = scratch.path().join("trace");
    let mut a = start(&traced_service(&trace), &topology.gateway_a, &scratch, "a").unwrap();
    assert_eq!(a.report().unwrap().links.len(), 1);
    signal_traced(&mut a, nix::sys::signal::Signal::SIGTERM);
    wait_for_end(a);
    let used = within_the_list(&trace, &scratch);
    assert!(used.contains("symlink") || used.contains("symlinkat"), "it did not install: {used:?}");
}

/// A site as a service: its sockets, its channel, a name that is looked up, a restart by reload.
#[test]
fn a_site_keeps_to_the_units_capabilities_and_system_calls() {
    let plants = Plants::build(&PlantsShape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    sites::configure(&scratch, &plants, &SitesChoice::default()).unwrap();
    let file = scratch.path().join(format!("{}.toml", site_name(1)));
    let stranger = format!(
        "[[site.peer]]\nname = \"nobody\"\nendpoint = \"localhost:9\"\npublic_key = \"{:064x}\"\n",
        7
    );
    let text = fs::read_to_string(&file).unwrap() + &stranger;
    fs::write(&file, &text).unwrap();
    give(&scratch);
    let trace = scratch.path().join("trace");
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let service = as_service(&setting("AmbientCapabilities"));
    let mut traced = start_in(&traced_service(&trace), &one.site, &scratch, &site_name(1)).unwrap();
    let mut others = vec![start_in(&service, &two.site, &scratch, &site_name(2)).unwrap()];
    for plant in [one, two] {
        let station = &plant.stations[0].gateway;
        others.push(start(&service, station, &scratch, &station_name(plant.number, 1)).unwrap());
    }
    let peer_is_up = |station: &Station| {
        super::sites::site_when(station, "the peer is up", |site| super::sites::is_up(&site.peers[0]));
    };
    peer_is_up(&traced);
    let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
    super::sites::both_ways(a, b, 1);
    fs::write(&file, text.replace("bind =", "dscp = 10\nbind =")).unwrap();
    signal_traced(&mut traced, nix::sys::signal::Signal::SIGHUP);
    let reloads = |report: &GatewayReport| report.reload.as_ref().map_or(0, |reload| reload.count);
    super::wait_for(|| traced.report().unwrap(), 1, reloads);
    assert!(traced.report().unwrap().reload.unwrap().done);
    peer_is_up(&traced);
    super::sites::both_ways(a, b, 2);
    signal_traced(&mut traced, nix::sys::signal::Signal::SIGTERM);
    wait_for_end(traced);
    for other in others {
        other.stop().unwrap();
    }
    let used = within_the_list(&trace, &scratch);
    for call in ["sendmmsg", "recvmmsg", "epoll_wait"] {
        assert!(used.contains(call), "{call} is not in the trace, which has {used:?}");
    }
}

/// Port 443 is the one that many firewalls let out. A site may listen there, at its start and when a reload binds it anew.
#[test]
fn a_site_as_a_service_listens_at_port_443() {
    let plants = Plants::build(&PlantsShape { stations: 0, ..PlantsShape::default() }).unwrap();
    let scratch = Scratch::new().unwrap();
    sites::configure(&scratch, &plants, &SitesChoice::default()).unwrap();
    let (name, namespace) = (site_name(1), &plants.plants[0].site);
    let file = scratch.path().join(format!("{name}.toml"));
    let text = fs::read_to_string(&file).unwrap().replace("0.0.0.0:7787", "0.0.0.0:443");
    fs::write(&file, &text).unwrap();
    give(&scratch);
    let all = setting("AmbientCapabilities");
    let others: Vec<&str> = all.iter().copied().filter(|one| *one != "CAP_NET_BIND_SERVICE").collect();
    let error = start_in(&as_service(&others), namespace, &scratch, &name).unwrap_err().to_string();
    assert!(error.contains("UDP 0.0.0.0:443") && error.contains("CAP_NET_BIND_SERVICE"), "{error}");
    let mut site = start_in(&as_service(&all), namespace, &scratch, &name).unwrap();
    fs::write(&file, text.replace("bind =", "dscp = 10\nbind =")).unwrap();
    site.program().signal(nix::sys::signal::Signal::SIGHUP).unwrap();
    let reloads = |report: &GatewayReport| report.reload.as_ref().map_or(0, |reload| reload.count);
    super::wait_for(|| site.report().unwrap(), 1, reloads);
    let reload = site.report().unwrap().reload.unwrap();
    assert!(reload.done, "{reload:?}");
    site.stop().unwrap();
}

/// A cell in the kernel as a service: its programs are loaded, changed by a reload, and end.
#[test]
fn a_cell_in_the_kernel_keeps_to_the_units_capabilities_and_system_calls() {
    let topology = super::fieldbus::for_the_kernel();
    let mut choice = super::fieldbus::kernel_choice(&topology, "kernel");
    let scratch = Scratch::new().unwrap();
    cells::keys(&scratch).unwrap();
    (0..2).for_each(|end| cells::configure(&scratch, end, &choice).unwrap());
    give(&scratch);
    let trace = scratch.path().join("trace");
    let a = start(&traced_service(&trace), &topology.gateway_a, &scratch, "a").unwrap();
    let b = start(&as_service(&setting("AmbientCapabilities")), &topology.gateway_b, &scratch, "b").unwrap();
    let mut pair = Pair { a, b, scratch };
    cells::secured(&pair).unwrap();
    choice.relations.truncate(1);
    cells::configure(&pair.scratch, 0, &choice).unwrap();
    signal_traced(&mut pair.a, nix::sys::signal::Signal::SIGHUP);
    let reloads = |report: &GatewayReport| report.reload.as_ref().map_or(0, |reload| reload.count);
    super::wait_for(|| pair.a.report().unwrap(), 1, reloads);
    let report = pair.a.report().unwrap();
    assert!(report.reload.as_ref().unwrap().done, "{:?}", report.reload);
    let cell = cells::only_cell(&report).unwrap();
    assert_eq!(
        (cell.path.as_str(), cell.relations.len(), cell.relations[0].has_session()),
        ("kernel", 1, true)
    );
    signal_traced(&mut pair.a, nix::sys::signal::Signal::SIGTERM);
    let Pair { a, b, scratch } = pair;
    wait_for_end(a);
    b.stop().unwrap();
    within_the_list(&trace, &scratch);
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let scratch = Scratch::new().unwrap();
    // It looks for the program and its manual where the package puts them.
    let here = UNIT.replace("/usr/lib/frameward/frameward", program().to_str().unwrap());
    let here = here.replace("Documentation=man:frameward(1)\n", "");
    let path = scratch.write("frameward@.service", &here).unwrap();
    let unit = path.to_str().unwrap();
    let output = lab::program::run(&["systemd-analyze", "verify", unit], DEADLINE).unwrap();
    assert_eq!(output.stderr, "", "systemd-analyze verify");
    // Exposure in tenths, of 100: what is left is what a gateway is for.
    let security = ["systemd-analyze", "security", "--offline=true", "--threshold=26", unit];
    lab::program::run(&security, DEADLINE).unwrap();

    // With the drop-in, too, and then nothing of it is of the user that all others share.
    let drop_in = OWN_USER.replace("/usr/lib/frameward/frameward", program().to_str().unwrap());
    fs::create_dir(scratch.path().join("frameward@.service.d")).unwrap();
    scratch.write("frameward@.service.d/own-user.conf", &drop_in).unwrap();
    let output = lab::program::run(&["systemd-analyze", "verify", unit], DEADLINE).unwrap();
    assert_eq!(output.stderr, "", "systemd-analyze verify, with own-user.conf");
    lab::program::run(&security, DEADLINE).unwrap();
    let all = format!("{UNIT}{OWN_USER}");
    for name in ["User", "Group", "StateDirectory", "RuntimeDirectory", "ExecStart"] {
        let lines: Vec<_> =
            all.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect();
        let last = lines.last().unwrap();
        assert!(last.contains("frameward-%i"), "{name}={last}");
        // A list begins anew before it.
        let is_list = !matches!(name, "User" | "Group");
        assert!(!is_list || lines[lines.len() - 2].is_empty(), "{name}: {lines:?}");
    }
}
