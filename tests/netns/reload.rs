//! Keys and configurations that change while machines talk: nothing is lost, nothing else is touched.

use std::collections::HashSet;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::program::Output;
use lab::topology::{PLAIN, PROTECTED};
use lab::{Direction, Machine, Namespace, PacketSocket, Shape, Topology};
use perf::demo::pair::{Choice, Pair, Scratch};
use report::{GatewayReport, LinkReport};

use super::{DEADLINE, EXPERIMENT, counter, lab, marked, program, wait_for};

/// `frameward reload NAME`.
pub(crate) fn reload(scratch: &Scratch, name: &str) -> Output {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let command = ["env", &variable, program().to_str().unwrap(), "reload", name];
    lab::Program::spawn(&command).unwrap().wait(DEADLINE).unwrap()
}

/// The same, which succeeds. A disk that is busy with something else refuses it, and it is typed again.
pub(crate) fn reloaded(scratch: &Scratch, name: &str) -> String {
    let end = Instant::now() + DEADLINE;
    loop {
        let output = reload(scratch, name);
        if output.status.success() {
            return output.stdout;
        }
        let is_disk = output.stderr.contains("has not answered for 2 s");
        assert!(is_disk && Instant::now() < end, "{}", output.stderr);
    }
}

/// The configuration of one end, with further lines of [gateway] and [[link]]: what it sends under, and the keys under which it receives.
fn configure(
    scratch: &Scratch,
    gateway: &str,
    end: usize,
    own: (u8, &str),
    peers: &[(u8, &str)],
    more: &str,
) {
    let (name, sci, peer_sci) = [("a", 1, 2), ("b", 2, 1)][end];
    let mut text = format!(
        "[gateway]\nname = \"{name}\"\nstate = \"{}\"\n{gateway}\n[[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\n\
         protected = \"{PROTECTED}\"\nsuite = \"gcm-aes-128\"\n{more}\n[link.static]\nan = {}\n\
         sci = \"02:00:00:00:00:0{sci}/1\"\nkey_file = \"{}\"\n",
        scratch.path().join(format!("state-{name}")).display(),
        own.0,
        own.1,
    );
    for (an, key) in peers {
        text += &format!(
            "[[link.static.peer]]\nan = {an}\nsci = \"02:00:00:00:00:0{peer_sci}/1\"\nkey_file = \"{key}\"\n\
             replay_floor = \"off\"\n"
        );
    }
    scratch.write(&format!("{name}.toml"), &text).unwrap();
}

fn new_key(scratch: &Scratch, name: &str) {
    keygen::static_key(KeyLength::Bits128, &scratch.path().join(name)).unwrap();
}

/// Sends numbered frames from one machine to the other until `stop`; returns how many were sent.
fn talk(from: &Machine, to: &Machine, stop: &AtomicBool) -> u64 {
    let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    let mut sent = 0;
    // One at least: on a busy machine the work may be done before the first.
    while sent == 0 || !stop.load(Ordering::Relaxed) {
        // Short ones and long ones, some of which are split.
        let mut frame = marked(to.mac, from.mac, EXPERIMENT, [100, 1500][usize::from(sent % 3 == 0)], sent);
        frame[40..48].copy_from_slice(&sent.to_be_bytes());
        sender.send(&frame).unwrap();
        sent += 1;
        std::thread::sleep(Duration::from_micros(400));
    }
    sent
}

/// While it is not known yet how many frames were sent.
const UNKNOWN: u64 = u64::MAX;

/// Takes what arrives until so many have come as were sent, and a moment longer; the numbers, in order.
fn listen(mut receiver: PacketSocket, sent: &AtomicU64) -> Vec<u64> {
    let (mut numbers, mut last, mut quiet) = (Vec::new(), Instant::now(), 0);
    loop {
        match receiver.receive().unwrap() {
            Some(frame) if frame.direction == Direction::In && frame.ethertype() == Some(EXPERIMENT.0) => {
                numbers.push(u64::from_be_bytes(frame.octets[40..48].try_into().unwrap()));
                (last, quiet) = (Instant::now(), 0);
            }
            _ => quiet += 1,
        }
        let sent = sent.load(Ordering::Relaxed);
        // One that comes twice may come later than the last one.
        let complete = numbers.len() as u64 >= sent && quiet >= 30;
        if complete || (sent != UNKNOWN && last.elapsed() > DEADLINE / 2) {
            break;
        }
    }
    assert_eq!(receiver.dropped().unwrap(), 0, "the test itself was too slow");
    numbers
}

/// Has the machines talk both ways while `work` is done, and sees every frame arrive once and in order.
pub(crate) fn while_they_talk(topology: &Topology, work: impl FnOnce()) -> [u64; 2] {
    let heard = heard_once(topology, work);
    assert!(heard.iter().all(|numbers| numbers.is_sorted()), "out of order");
    heard.map(|numbers| numbers.len() as u64)
}

/// The same in any order. Returns the order each way.
pub(crate) fn heard_once(topology: &Topology, work: impl FnOnce()) -> [Vec<u64>; 2] {
    hear(topology, work).map(|Heard { sent, numbers, missing }| {
        assert!(missing.is_empty(), "{} of {sent} were lost: {missing:?}", missing.len());
        numbers
    })
}

/// Frames that one machine has heard of the other one.
pub(crate) struct Heard {
    sent: u64,
    /// In their order.
    pub(crate) numbers: Vec<u64>,
    pub(crate) missing: Vec<u64>,
}

/// Has the machines talk both ways while `work` is done. No frame comes twice.
pub(crate) fn hear(topology: &Topology, work: impl FnOnce()) -> [Heard; 2] {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let (stop, sent) = (AtomicBool::new(false), [AtomicU64::new(UNKNOWN), AtomicU64::new(UNKNOWN)]);
    // The ears are open before the first frame, however late their threads begin.
    let [at_b, at_a] = [b, a].map(|machine| PacketSocket::open(&machine.namespace, machine.ifname).unwrap());
    let [to_b, to_a] = &sent;
    std::thread::scope(|scope| {
        let ears = [scope.spawn(move || listen(at_b, to_b)), scope.spawn(move || listen(at_a, to_a))];
        let mouths = [scope.spawn(|| talk(a, b, &stop)), scope.spawn(|| talk(b, a, &stop))];
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        let all = mouths.map(|mouth| mouth.join().unwrap());
        sent.iter().zip(all).for_each(|(sent, all)| sent.store(all, Ordering::Relaxed));
        let heard = ears.map(|ear| ear.join().unwrap());
        if let Err(panic) = worked {
            std::panic::resume_unwind(panic);
        }
        let mut sent = all.into_iter();
        heard.map(|numbers| {
            let sent = sent.next().unwrap();
            let there: HashSet<u64> = numbers.iter().copied().collect();
            assert_eq!(there.len(), numbers.len(), "a frame came twice");
            Heard { sent, missing: (0..sent).filter(|number| !there.contains(number)).collect(), numbers }
        })
    })
}

fn link(report: &GatewayReport) -> &LinkReport {
    &report.links[0]
}

/// Every counter that means a loss.
pub(crate) fn losses(report: &GatewayReport) -> Vec<String> {
    let link = link(report);
    let receive = link.secy.receive.iter().flat_map(|sc| sc.counters.iter());
    let ports = [&link.plain, &link.protected].into_iter().flat_map(|port| port.counters.iter());
    let all = receive.chain(link.secy.counters.iter()).chain(ports);
    let harmless = |name: &str| {
        [
            "OK",
            "Octets",
            "Encrypted",
            "Decrypted",
            "RxFrames",
            "TxFrames",
            "Sdus",
            "Completed",
            "Antedated",
            "FillRingEmpty",
        ]
        .iter()
        .any(|part| name.contains(part))
    };
    all.filter(|(name, value)| *value > 0 && !harmless(name))
        .map(|(name, value)| format!("{name} {value}"))
        .collect()
}

const FRAGMENT: &str = "fragment = \"on\"\nconcatenate = \"on\"";

#[test]
fn both_ends_change_their_keys_under_traffic_and_no_frame_is_lost() {
    change_keys("", 5);
}

/// Both ends change their keys so often while machines talk, and lose nothing. `gateway` are further lines of their
/// [gateway]. Returns their reports at the end.
pub(crate) fn change_keys(gateway: &'static str, rounds: u8) -> [GatewayReport; 2] {
    let choice = Choice { gateway, link: FRAGMENT, ..Choice::default() };
    let shape = Shape { protected_mtu: 1500, ..Shape::default() };
    let (topology, Pair { a, b, scratch }) = lab(&shape, &choice);
    let ends = [(&a, "a"), (&b, "b")];
    let sent = while_they_talk(&topology, || {
        let mut current = [(0, "a.key".to_owned()), (0, "b.key".to_owned())];
        for round in 1..=rounds {
            let next: [_; 2] = std::array::from_fn(|end| (round % 4, format!("{}-{round}.key", ends[end].1)));
            next.iter().for_each(|(_, key)| new_key(&scratch, key));
            let [old, new] =
                [&current, &next].map(|keys| keys.each_ref().map(|(an, key)| (*an, key.as_str())));
            // Both receive under the new key, too; both send under it; the old one goes.
            for end in [0, 1] {
                configure(&scratch, gateway, end, old[end], &[old[1 - end], new[1 - end]], FRAGMENT);
                assert!(reloaded(&scratch, ends[end].1).contains("\"press\": changed"));
            }
            for end in [0, 1] {
                configure(&scratch, gateway, end, new[end], &[old[1 - end], new[1 - end]], FRAGMENT);
                reloaded(&scratch, ends[end].1);
            }
            for end in [0, 1] {
                configure(&scratch, gateway, end, new[end], &[new[1 - end]], FRAGMENT);
                reloaded(&scratch, ends[end].1);
            }
            current = next;
        }
    });
    let reports = [&a, &b].map(|station| station.report().unwrap());
    for (report, sent, came) in [(&reports[0], sent[0], sent[1]), (&reports[1], sent[1], sent[0])] {
        assert_eq!(counter(&link(report).plain.counters, "RxFrames"), sent, "taken from the machine");
        assert_eq!(counter(&link(report).plain.counters, "TxFrames"), came, "given to the machine");
        assert_eq!(losses(report), Vec::<String>::new());
        assert_eq!(link(report).secy.transmit.sas[0].an, rounds % 4, "the last key's");
        let reload = report.reload.as_ref().map(|reload| (reload.count, reload.done));
        assert_eq!(reload, Some((u64::from(3 * rounds), true)));
    }
    a.stop().unwrap();
    b.stop().unwrap();
    reports
}

#[test]
fn settings_change_under_traffic_and_no_frame_is_lost() {
    let (topology, Pair { a, b, scratch }) = lab(&Shape::default(), &Choice::default());
    while_they_talk(&topology, || {
        for more in
            ["replay_window = 64", "replay_window = 0", "bypass = [\"lldp\"]", "fragment = \"on\"", ""]
        {
            // A receiver has to understand what the other is going to send.
            for end in [0, 1] {
                configure(
                    &scratch,
                    "",
                    end,
                    (0, ["a.key", "b.key"][end]),
                    &[(0, ["b.key", "a.key"][end])],
                    more,
                );
                reloaded(&scratch, ["a", "b"][end]);
            }
        }
    });
    assert_eq!(link(&a.report().unwrap()).secy.replay_window, 0);
    a.stop().unwrap();
    b.stop().unwrap();
}

/// Adds a link to a gateway: between a pair of interfaces that the test makes.
fn more_interfaces(namespace: &Namespace) {
    for (one, other) in [("p2", "p2-far"), ("q2", "q2-far")] {
        namespace.ip(&["link", "add", one, "type", "veth", "peer", "name", other]).unwrap();
        for end in [one, other] {
            namespace
                .ip(&["link", "set", end, "mtu", if one == "p2" { "1500" } else { "1532" }, "up"])
                .unwrap();
        }
    }
}

#[test]
fn links_come_and_go_and_one_that_stays_is_not_touched() {
    let (topology, Pair { a, b, scratch }) = lab(&Shape::default(), &Choice::default());
    let namespace = &topology.gateway_a.namespace;
    more_interfaces(namespace);
    let config = scratch.path().join("a.toml");
    let one = std::fs::read_to_string(&config).unwrap();
    let added = "[[link]]\nname = \"second\"\nplain = \"p2\"\nprotected = \"q2\"\nsuite = \"gcm-aes-128\"\n\
                 [link.static]\nan = 0\nsci = \"02:00:00:00:01:01/1\"\nkey_file = \"second.key\"\n";
    new_key(&scratch, "second.key");
    let before = namespace.ip(&["-d", "link", "show", "p2"]).unwrap().stdout;
    while_they_talk(&topology, || {
        for _ in 0..2 {
            std::fs::write(&config, format!("# another line\n{one}{added}")).unwrap();
            let said = reloaded(&scratch, "a");
            assert!(said.contains("\"second\": p2") && !said.contains("\"press\": c"), "{said}");
            let names: Vec<_> = a.report().unwrap().links.into_iter().map(|link| link.name).collect();
            assert_eq!(names, ["press", "second"]);
            std::fs::write(&config, &one).unwrap();
            assert!(reloaded(&scratch, "a").contains("\"second\": stopped"));
        }
        // Another plain interface for it: restarted alone.
        std::fs::write(&config, format!("{one}{added}")).unwrap();
        reloaded(&scratch, "a");
        std::fs::write(&config, format!("{one}{}", added.replace("\"p2\"", "\"p2-far\""))).unwrap();
        assert!(reloaded(&scratch, "a").contains("\"second\": restarted"));
        std::fs::write(&config, &one).unwrap();
        reloaded(&scratch, "a");
    });
    let report = a.report().unwrap();
    assert_eq!(losses(&report), Vec::<String>::new());
    let sa = &link(&report).secy.transmit.sas[0];
    assert_eq!(
        sa.next_pn,
        Some(counter(&link(&report).plain.counters, "RxFrames") + 1),
        "the SA it began with"
    );
    assert_eq!(namespace.ip(&["-d", "link", "show", "p2"]).unwrap().stdout, before, "put back");
    a.stop().unwrap();
    b.stop().unwrap();
}

#[test]
fn a_bad_configuration_changes_nothing_and_is_told() {
    let (topology, Pair { a, b, scratch }) = lab(&Shape::default(), &Choice::default());
    let config = scratch.path().join("a.toml");
    let good = std::fs::read_to_string(&config).unwrap();
    let state = scratch.path().join("state-a").display().to_string();
    open_key(&scratch.path().join("open.key"));
    let in_fleet = format!(
        "[gateway]\nname = \"a\"\nstate = \"{state}\"\n[fleet]\ndirectory = \"fleet.redb\"\noperator = \"{:064x}\"\nidentity = \"fleet.key\"\n",
        9
    );
    while_they_talk(&topology, || {
        for (from, to, words) in [
            ("[[link]]", "[[link]]\nnonsense = 1", ["a.toml:", "nonsense"]),
            ("\"a.key\"", "\"gone.key\"", ["a.toml:", "gone.key"]),
            ("\"a.key\"", "\"open.key\"", ["a.toml:", "chmod 600"]),
            ("\"prot\"", "\"enp9s9\"", ["a.toml:", "enp9s9"]),
            ("suite =", "mtu = 1400\nsuite =", ["a.toml:", "MTU too small"]),
            (&state, "/somewhere/else", ["a.toml:", "state in [gateway]"]),
            (&good, &in_fleet, ["a.toml:", "[fleet] is read at the start alone"]),
        ] {
            std::fs::write(&config, good.replace(from, to)).unwrap();
            let output = reload(&scratch, "a");
            assert_eq!(output.status.code(), Some(2), "{}", output.stderr);
            for word in words {
                assert!(output.stderr.contains(word), "{word:?} is not in {}", output.stderr);
            }
            let report = a.report().unwrap();
            let told = report.reload.unwrap();
            assert!(!told.done && told.lines.iter().any(|line| line.contains(words[1])), "{told:?}");
        }
    });
    assert_eq!(losses(&a.report().unwrap()), Vec::<String>::new());
    // The signal alone does it, too.
    std::fs::write(&config, &good).unwrap();
    let count = a.report().unwrap().reload.unwrap().count;
    let mut a = a;
    a.program().signal(nix::sys::signal::Signal::SIGHUP).unwrap();
    wait_for(|| a.report().unwrap(), count + 1, |report| report.reload.as_ref().unwrap().count);
    assert!(a.report().unwrap().reload.unwrap().done);
    let said = a.stop().unwrap();
    assert!(said.contains("nonsense") && said.contains("not reloaded"), "{said}");
    b.stop().unwrap();
}

/// A key that others can read.
fn open_key(path: &Path) {
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path).unwrap();
}

#[test]
fn another_key_under_a_live_an_is_taken_and_warned_of() {
    let (topology, Pair { a, b, scratch }) = lab(&Shape::default(), &Choice::default());
    new_key(&scratch, "other.key");
    configure(&scratch, "", 1, (0, "b.key"), &[(0, "other.key")], "");
    let said = reloaded(&scratch, "b");
    assert!(said.contains("warning") && said.contains("another an"), "{said}");
    configure(&scratch, "", 0, (0, "other.key"), &[(0, "b.key")], "");
    reloaded(&scratch, "a");
    let (from, to) = (&topology.machine_a, &topology.machine_b);
    super::exchange(from, to, &[marked(to.mac, from.mac, EXPERIMENT, 90, 1)]);
    a.stop().unwrap();
    b.stop().unwrap();
}
