//! Another program in the place of a running gateway's while machines talk: no frame is lost or comes twice, no packet number
//! comes twice, and whoever cannot go on is left as it was.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::program::Output;
use lab::topology::{LEFT, RIGHT};
use lab::{Capture, Direction, Machine, PacketSocket, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, LinkKeys, Pair, Scratch, Station, configure};
use wire::mkpdu::Mkpdu;
use wire::{EtherType, Mi};

use super::mka::{NARROW, all, ki, mka, secured_with, until as until_mka};
use super::reload::{hear, while_they_talk};
use super::{DEADLINE, EXPERIMENT, counter, lab, marked, program};

/// Upgrades of a usual run; `FRAMEWARD_UPGRADES` is another number.
const USUAL_UPGRADES: u64 = 20;

const STATIC_KEYS: Choice = Choice {
    io: "af_packet",
    suite: suite::CipherSuite::GcmAes128,
    gateway: "",
    link: "replay_window = 64",
    keys: LinkKeys::Static,
    environment: &[],
};

const AGREED_KEYS: Choice = Choice { link: "", keys: LinkKeys::Agreed, ..STATIC_KEYS };

pub(crate) fn upgrades() -> u64 {
    std::env::var("FRAMEWARD_UPGRADES").ok().and_then(|number| number.parse().ok()).unwrap_or(USUAL_UPGRADES)
}

/// `frameward upgrade NAME`.
pub(crate) fn asks_for_upgrade(scratch: &Scratch, name: &str) -> [String; 5] {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    ["env".into(), variable, program().display().to_string(), "upgrade".into(), name.into()]
}

pub(crate) fn upgrade(scratch: &Scratch, name: &str) -> Output {
    let command = asks_for_upgrade(scratch, name);
    lab::Program::spawn(&command.each_ref().map(String::as_str)).unwrap().wait(DEADLINE).unwrap()
}

/// The same, which succeeds. Returns the milliseconds for which frames waited.
pub(crate) fn upgraded(scratch: &Scratch, name: &str) -> u64 {
    let output = upgrade(scratch, name);
    assert!(output.status.success(), "{}", output.stderr);
    let waited = output.stdout.split("frames waited ").nth(1).and_then(|rest| rest.split(' ').next());
    waited.unwrap_or_else(|| panic!("{output:?}")).parse().unwrap()
}

/// The same, which is refused. Returns why.
pub(crate) fn refused(scratch: &Scratch, name: &str) -> String {
    let output = upgrade(scratch, name);
    assert_eq!(output.status.code(), Some(1), "{}", output.stdout);
    output.stderr
}

/// The nonces of protected frames on a wire: PN and SCI, for there is one key for each SCI. None comes twice.
fn nonces(wire: &Capture) -> usize {
    let mut seen = HashSet::new();
    let frames = wire.since(0).into_iter().filter(|frame| frame.ethertype() == Some(EtherType::MACSEC.0));
    for frame in frames.filter(|frame| frame.direction == Direction::In) {
        // PN 4, SCI 8.
        let nonce: [u8; 12] = frame.octets[16..28].try_into().unwrap();
        assert!(seen.insert(nonce), "PN and SCI {nonce:02x?} twice");
    }
    seen.len()
}

#[test]
fn an_upgrade_loses_no_frame_and_counts_on() {
    for io in ["af_packet", "af_xdp"] {
        without_loss(&Choice { io, ..STATIC_KEYS });
    }
}

fn without_loss(choice: &Choice) {
    let (topology, Pair { a, b, scratch }) = lab(&Shape::default(), choice);
    let process = a.id();
    let wires = [LEFT, RIGHT].map(|port| Capture::start(&topology.middle, port).unwrap());
    let sent = while_they_talk(&topology, || {
        let waited: Vec<_> =
            (0..upgrades()).map(|round| upgraded(&scratch, ["a", "b"][(round % 2) as usize])).collect();
        println!("{}: frames waited {waited:?} ms", choice.io);
    });
    assert_eq!(a.id(), process);
    for (station, sent, came) in [(&a, sent[0], sent[1]), (&b, sent[1], sent[0])] {
        let report = station.report().unwrap();
        let upgrade = report.upgrade.clone().unwrap();
        assert_eq!((upgrade.count, upgrade.done), (upgrades() / 2, true));
        let link = &report.links[0];
        assert_eq!(counter(&link.plain.counters, "RxFrames"), sent, "taken from the machine");
        assert_eq!(counter(&link.plain.counters, "TxFrames"), came, "given to the machine");
        assert_eq!(counter(&link.secy.receive[0].counters, "InPktsOK"), came);
        // One SA all the while, and no PN was left out.
        assert_eq!(link.secy.transmit.sas[0].next_pn, Some(sent + 1));
    }
    for (wire, sent) in wires.iter().zip(sent) {
        assert_eq!(nonces(wire) as u64, sent, "protected once each");
    }
    // The new program gives back what it held, as the one that took it would.
    a.stop().unwrap();
    b.stop().unwrap();
}

/// A gateway whose program is a file of the test's own, so that another one can be installed.
pub(crate) fn with_own_program(topology: &Topology, choice: &Choice) -> (Scratch, PathBuf, Station, Station) {
    let scratch = Scratch::new().unwrap();
    configure(&scratch, choice).unwrap();
    let own = scratch.path().join("frameward");
    install(program(), &own);
    let a = Station::start(&own, &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    (scratch, own, a, b)
}

/// Puts a program in the place of another one, as a package does.
pub(crate) fn install(from: &Path, to: &Path) {
    let new = to.with_extension("new");
    // By a process of its own: a child of another test's would inherit the file open for writing, and it would be busy.
    lab::program::run(&["cp", from.to_str().unwrap(), new.to_str().unwrap()], DEADLINE).unwrap();
    fs::rename(&new, to).unwrap();
}

pub(crate) fn install_script(scratch: &Scratch, script: &str, to: &Path) {
    let text = scratch.write("script", &format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    install(&text, to);
}

#[test]
fn what_cannot_go_on_is_left_as_it_was() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let (scratch, own, a, b) = with_own_program(&topology, &STATIC_KEYS);
    let config = scratch.path().join("a.toml");
    let good = fs::read_to_string(&config).unwrap();
    while_they_talk(&topology, || {
        fs::write(&config, format!("{good}\n# a word\n").replace("replay_window = 64", "replay_window = 32"))
            .unwrap();
        assert!(refused(&scratch, "a").contains("frameward reload first"));
        fs::write(&config, &good).unwrap();
        install_script(&scratch, "echo 'frameward: unknown format' >&2; exit 2", &own);
        assert!(refused(&scratch, "a").contains("refuses: unknown format"));
        fs::remove_file(&own).unwrap();
        let why = refused(&scratch, "a");
        assert!(why.contains("cannot start") && why.contains("is missing: install the package"), "{why}");
        let broken = scratch.write("broken", "\u{7f}ELF of another CPU").unwrap();
        for (mode, cure) in [
            (0o644, "make it executable (chmod 755)"),
            (0o755, "it is no program for this CPU: install the package of this architecture"),
        ] {
            fs::set_permissions(&broken, fs::Permissions::from_mode(mode)).unwrap();
            lab::program::run(&["cp", "-p", broken.to_str().unwrap(), own.to_str().unwrap()], DEADLINE)
                .unwrap();
            let why = refused(&scratch, "a");
            assert!(why.contains("cannot start") && why.contains(cure), "{why}");
        }
        // It judges, and cannot be begun: nothing is lost at the last step either.
        install_script(&scratch, "chmod a-x \"$0\"", &own);
        let why = refused(&scratch, "a");
        assert!(why.contains("cannot become") && why.contains("make it executable"), "{why}");
        install(program(), &own);
        upgraded(&scratch, "a");
    });
    let upgrade = a.report().unwrap().upgrade.unwrap();
    assert_eq!((upgrade.count, upgrade.done), (2, true), "with the one that failed at its last step");
    a.stop().unwrap();
    b.stop().unwrap();
}

/// The kernel cannot name a program that lies too deep. That costs the upgrade, and not the start.
#[test]
fn a_program_that_nobody_can_name_runs_and_is_not_upgraded() {
    const DEEP: &str = "cd -P \"$1\"; for _ in $(seq 22); do mkdir \"$2\" && cd -P \"$2\"; done; \
                        cp \"$3\" ./frameward; shift 3; exec ./frameward \"$@\"";
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &STATIC_KEYS).unwrap();
    let (long, place) = ("d".repeat(200), scratch.path().to_str().unwrap());
    let by = ["sh", "-ec", DEEP, "sh", place, &long];
    let a = Station::start_by(&by, program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let why = refused(&scratch, "a");
    assert!(why.contains("cannot find this program"), "{why}");
    a.stop().unwrap();
}

/// A program that judges and never ends, or leaves others behind, and one that is replaced after it has judged.
#[test]
fn a_program_that_judges_holds_up_nobody() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let (scratch, own, a, b) = with_own_program(&topology, &STATIC_KEYS);
    install_script(&scratch, "sleep 40 & echo 'frameward: no' >&2; exit 2", &own);
    let began = Instant::now();
    assert!(refused(&scratch, "a").contains("refuses: no"));
    assert!(began.elapsed() < Duration::from_secs(30), "it waits for whoever has the errors open");
    install_script(&scratch, "touch \"$0.judges\"; exec sleep 60", &own);
    let asked = {
        let command = asks_for_upgrade(&scratch, "a");
        lab::Program::spawn(&command.each_ref().map(String::as_str)).unwrap()
    };
    until("it judges", || own.with_extension("judges").exists());
    let mut command = asks_for_upgrade(&scratch, "a");
    command[3] = "reload".into();
    let reload =
        lab::Program::spawn(&command.each_ref().map(String::as_str)).unwrap().wait(DEADLINE).unwrap();
    assert_eq!(reload.status.code(), Some(1), "it is not the configuration that is refused");
    assert!(reload.stderr.contains("an upgrade is under way"), "{}", reload.stderr);
    assert!(asked.wait(DEADLINE).unwrap().stderr.contains("does not answer"));
    install_script(&scratch, "cp -p \"$0\" \"$0.new\" && mv \"$0.new\" \"$0\"", &own);
    let why = refused(&scratch, "a");
    assert!(why.contains("another file"), "{why}");
    install(program(), &own);
    upgraded(&scratch, "a");
    a.stop().unwrap();
    b.stop().unwrap();
}

#[test]
fn a_link_that_holds_frames_back_is_refused_before_anything_is_touched() {
    let choice = Choice { link: "concatenate = \"on\"\nhold = \"1ms\"", ..STATIC_KEYS };
    let (_topology, pair) = lab(&Shape::default(), &choice);
    let said = refused(&pair.scratch, "a");
    assert!(said.contains("it holds frames back") && said.contains("restart"), "{said}");
    pair.stop().unwrap();
}

/// A member of a group bears its port's address in its SCI; the next program would find another one there.
#[test]
fn another_address_of_its_port_is_refused_before_anything_is_touched() {
    let (topology, Pair { a, b, scratch }) = lab(&Shape::default(), &AGREED_KEYS);
    all([&a, &b], "it is secured", secured_with(1));
    let before = member(&a);
    let other = ["link", "set", lab::topology::PROTECTED, "address", "02:00:00:00:0a:0a"];
    topology.gateway_a.namespace.ip(&other).unwrap();
    while_they_talk(&topology, || {
        let why = refused(&scratch, "a");
        assert!(why.contains("another address, and so it would be another member"), "{why}");
        assert_eq!(member(&a), before);
    });
    a.stop().unwrap();
    b.stop().unwrap();
}

/// SDUs that wait for their tick go on waiting in the next program, and so do the parts at the other end. Where boxes get no CPU for
/// so long that the queue is full, the SDUs that are lost are counted, each of them, through all the upgrades.
#[test]
fn cover_loses_no_frame_in_an_upgrade() {
    for io in ["af_packet", "af_xdp"] {
        let choice = Choice { io, link: "cover = { rate = 4000, size = 1514 }", ..STATIC_KEYS };
        let (topology, Pair { a, b, scratch }) = lab(&Shape::default(), &choice);
        let heard = hear(&topology, || {
            for round in 0..upgrades() {
                upgraded(&scratch, ["a", "b"][(round % 2) as usize]);
            }
        });
        for (station, heard) in [&a, &b].into_iter().zip(heard) {
            assert!(heard.numbers.is_sorted(), "out of order");
            let secy = &station.report().unwrap().links[0].secy;
            assert!(counter(&secy.counters, "OutPktsCover") > 20);
            let lost =
                ["OutSdusCoverOverrun", "OutSdusCoverExpired"].map(|name| counter(&secy.counters, name));
            assert_eq!(heard.missing.len() as u64, lost.iter().sum::<u64>(), "{lost:?}: {:?}", heard.missing);
        }
        a.stop().unwrap();
        b.stop().unwrap();
    }
}

/// Frames of 1500 octets are split, and parts of them wait at the other end while it becomes another program.
#[test]
fn split_frames_are_not_lost_in_an_upgrade() {
    for io in ["af_packet", "af_xdp"] {
        let choice = Choice { io, link: "replay_window = 64\nfragment = \"on\"", ..STATIC_KEYS };
        let (topology, Pair { a, b, scratch }) = lab(&NARROW, &choice);
        while_they_talk(&topology, || {
            for round in 0..upgrades() {
                upgraded(&scratch, ["a", "b"][(round % 2) as usize]);
            }
        });
        for station in [&a, &b] {
            let secy = &station.report().unwrap().links[0].secy;
            assert!(counter(&secy.counters, "OutSdusFragmented") > 20);
            assert!(counter(&secy.receive[0].counters, "InSdusReassembled") > 20);
        }
        a.stop().unwrap();
        b.stop().unwrap();
    }
}

/// The member of a group that a gateway is, as the others see it: key server, MI, the SAK, and the SAKs that were made.
fn member(station: &Station) -> (bool, String, String, u64) {
    let report = station.report().unwrap();
    let mka = mka(&report);
    let made = counter(&mka.counters, "SaksMade") + counter(&mka.counters, "SaksInstalled");
    (mka.is_key_server, mka.mi.clone(), mka.sak().unwrap().ki.clone(), made)
}

/// MNs on a wire, by MI: each one is one more than the one before, whoever was upgraded.
fn message_numbers(wire: &Capture) -> Vec<(Mi, u32)> {
    let mut last: Vec<(Mi, u32)> = Vec::new();
    for frame in wire.since(0).into_iter().filter(|frame| frame.direction == Direction::In) {
        let Ok(Mkpdu { basic, .. }) = Mkpdu::parse(&frame.octets) else { continue };
        match last.iter_mut().find(|(mi, _)| *mi == basic.mi) {
            None => last.push((basic.mi, basic.mn)),
            Some((_, mn)) => {
                assert_eq!(basic.mn, *mn + 1, "an MKPDU is missing, or an MN came again");
                *mn = basic.mn;
            }
        }
    }
    last
}

#[test]
fn a_member_of_a_group_goes_on_as_itself() {
    use suite::CipherSuite::{GcmAes128, GcmAesXpn256};
    let plain = "fragment = \"off\"\nconcatenate = \"off\"";
    for (io, suite, link) in [
        ("af_packet", GcmAes128, plain),
        ("af_xdp", GcmAesXpn256, plain),
        // As `init link` has it: frames are split and put together.
        ("af_packet", GcmAesXpn256, ""),
        ("af_xdp", GcmAes128, ""),
    ] {
        goes_on_as_itself(&Choice { io, suite, link, ..AGREED_KEYS });
    }
}

fn goes_on_as_itself(choice: &Choice) {
    let shape = if choice.link.is_empty() { NARROW } else { Shape::default() };
    let (topology, Pair { a, b, scratch }) = lab(&shape, choice);
    all([&a, &b], "it is secured", secured_with(1));
    let wires = [LEFT, RIGHT].map(|port| Capture::start(&topology.middle, port).unwrap());
    let before = [member(&a), member(&b)];
    assert_ne!(before[0].0, before[1].0, "one of them is key server");
    let rounds = || {
        let waited: Vec<_> =
            (0..upgrades()).map(|round| upgraded(&scratch, ["a", "b"][(round % 2) as usize])).collect();
        println!("{}, {}: frames waited {waited:?} ms", choice.io, choice.suite);
    };
    while_they_talk(&topology, || {
        rounds();
        assert_eq!([member(&a), member(&b)], before, "the same members, and no other SAK");
        // More than a life time: the others hear it.
        std::thread::sleep(Duration::from_millis(6500));
        assert_eq!([member(&a), member(&b)], before);
        // Either of them can still have another SAK made, and go on under that.
        for station in ["a", "b"] {
            let (was, made) = (ki(&a), before[0].3);
            rekey(&scratch, station);
            for station in [&a, &b] {
                until_mka(station, "another SAK", |mka| {
                    mka.saks.iter().any(|sak| sak.transmits && sak.ki != was) && mka.secured
                });
            }
            assert!(member(&a).3 > made);
            upgraded(&scratch, "a");
            upgraded(&scratch, "b");
        }
    });
    for station in [&a, &b] {
        let report = station.report().unwrap();
        let lost =
            |text: &str| text.contains("is gone") || text.contains("began anew") || text.contains("new MI");
        let mka = mka(&report);
        assert!(!mka.changes.iter().any(|change| lost(&change.text)), "{:#?}", mka.changes);
        assert!(
            mka.changes.iter().any(|change| change.text.contains("key agreement under")),
            "its history goes on"
        );
    }
    for wire in &wires {
        assert_eq!(message_numbers(wire).len(), 1, "one MI");
    }
    a.stop().unwrap();
    b.stop().unwrap();
}

fn rekey(scratch: &Scratch, name: &str) {
    let mut command = asks_for_upgrade(scratch, name).to_vec();
    command[3] = "rekey".into();
    command.push("press".into());
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let output = lab::Program::spawn(&command).unwrap().wait(DEADLINE).unwrap();
    assert!(output.status.success(), "{}", output.stderr);
}

/// Garbled parts of the state show before the old program stops: the new one takes them as it will then.
#[test]
fn a_state_that_cannot_be_taken_is_refused_before_anything_is_touched() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &AGREED_KEYS).unwrap();
    let own = scratch.path().join("frameward");
    install(program(), &own);
    let a = Station::start(&own, &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    all([&a, &b], "it is secured", secured_with(1));
    let before = member(&a);
    while_they_talk(&topology, || {
        for (garble, why) in [
            (r#"s/"wrapped":\[[0-9]*,[0-9]*/"wrapped":[0,0/g"#, "its SAK was wrapped under another CAK"),
            (r#"s/"next_pn":1}/"next_pn":0}/g"#, "a PN is 0"),
        ] {
            let judge = format!("sed '{garble}' | {} \"$@\"", program().display());
            install_script(&scratch, &format!("[ \"$1\" = go-on ] || exit 1\n{judge}"), &own);
            let said = refused(&scratch, "a");
            assert!(said.contains("refuses: link \"press\": ") && said.contains(why), "{said}");
            assert_eq!((member(&a), a.report().unwrap().upgrade), (before.clone(), None));
        }
        install(program(), &own);
        upgraded(&scratch, "a");
        assert_eq!(member(&a), before);
    });
    a.stop().unwrap();
    b.stop().unwrap();
}

/// Has the machines of all these talk while `work` is done.
fn while_all_talk(labs: &[(Topology, Pair)], work: &mut dyn FnMut()) {
    match labs.split_first() {
        None => work(),
        Some(((topology, _), others)) => {
            let sent = while_they_talk(topology, || while_all_talk(others, work));
            assert!(sent.iter().all(|sent| *sent > 0));
        }
    }
}

/// Static keys and key agreement, whole frames and split ones, both kinds of sockets: they take turns on one machine.
#[test]
fn upgrades_of_all_kinds_take_turns_and_lose_no_frame() {
    use suite::CipherSuite::GcmAesXpn256;
    let kinds = [
        STATIC_KEYS,
        Choice { io: "af_xdp", suite: GcmAesXpn256, ..AGREED_KEYS },
        Choice { io: "af_xdp", link: "replay_window = 64\nfragment = \"on\"", ..STATIC_KEYS },
        Choice { link: "fragment = \"off\"\nconcatenate = \"off\"", ..AGREED_KEYS },
    ];
    let is_split = |choice: &Choice| choice.link.is_empty() || choice.link.contains("\"on\"");
    let labs =
        kinds.each_ref().map(|kind| lab(&if is_split(kind) { NARROW } else { Shape::default() }, kind));
    let agreed = || labs.iter().zip(&kinds).filter(|(_, kind)| kind.keys == LinkKeys::Agreed);
    agreed().for_each(|((_, pair), _)| all([&pair.a, &pair.b], "it is secured", secured_with(1)));
    let members = || agreed().map(|((_, pair), _)| [member(&pair.a), member(&pair.b)]).collect::<Vec<_>>();
    let before = members();
    let rounds = usize::try_from(upgrades()).unwrap();
    while_all_talk(&labs, &mut || {
        for round in 0..rounds {
            let (_, pair) = &labs[round % labs.len()];
            upgraded(&pair.scratch, ["a", "b"][round / labs.len() % 2]);
        }
    });
    assert_eq!(members(), before, "the same members, and no other SAK");
    let count = |station: &Station| station.report().unwrap().upgrade.map_or(0, |upgrade| upgrade.count);
    let counts = labs.iter().map(|(_, pair)| count(&pair.a) + count(&pair.b));
    assert_eq!(counts.sum::<u64>(), upgrades());
    labs.into_iter().for_each(|(_, pair)| pair.stop().unwrap());
}

/// Another CAK in the file, a recorded key agreement, and a program that fails: refused, or begun again as another member under
/// another SAK.
#[test]
fn a_member_that_cannot_go_on_stays_or_begins_as_another_one() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &AGREED_KEYS).unwrap();
    let own = scratch.path().join("frameward");
    install(program(), &own);
    let start = || Station::start(&own, &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let mut a = start();
    let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    all([&a, &b], "it is secured", secured_with(1));
    let before = member(&a);
    while_they_talk(&topology, || {
        let cak = scratch.path().join("press.cak");
        let kept = fs::read_to_string(&cak).unwrap();
        fs::remove_file(&cak).unwrap();
        keygen::cak(KeyLength::Bits128, None, &cak).unwrap();
        let why = refused(&scratch, "a");
        assert!(why.contains("frameward reload first"), "{why}");
        fs::write(&cak, kept).unwrap();
        // It judges, and cannot be begun.
        install_script(&scratch, "chmod a-x \"$0\"", &own);
        let why = refused(&scratch, "a");
        assert!(why.contains("cannot become"), "{why}");
        assert_eq!(member(&a), before);
        install(program(), &own);
        upgraded(&scratch, "a");
        assert_eq!(member(&a), before);
    });
    install_script(&scratch, "[ \"$1\" = go-on ] || exit 1", &own);
    assert!(!upgrade(&scratch, "a").status.success());
    install(program(), &own);
    until("it ends", || !a.program().is_running());
    a = start();
    until_mka(&a, "it is secured", secured_with(1));
    until_mka(&b, "it is secured", secured_with(1));
    let (_, mi, ki, _) = member(&a);
    assert!(mi != before.1 && ki != before.2, "another member, another SAK");
    while_they_talk(&topology, || ());
    a.stop().unwrap();
    let config = scratch.path().join("a.toml");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{good}record = \"{}\"\n", scratch.path().join("kay.log").display())).unwrap();
    let a = start();
    let why = refused(&scratch, "a");
    assert!(why.contains("is recorded"), "{why}");
    a.stop().unwrap();
    b.stop().unwrap();
}

/// Killed while it becomes another program, or by that: no PN comes twice, over all lives.
#[test]
fn a_gateway_that_dies_in_an_upgrade_repeats_no_packet_number() {
    let topology = Topology::build(&Shape::default()).unwrap();
    dies_in_upgrades(&topology, &STATIC_KEYS, Duration::from_millis(15), |_| ());
}

/// Has a gateway die in upgrades: by its next program, or killed at moments that are `apart`. `stands` looks at it before each.
pub(crate) fn dies_in_upgrades(
    topology: &Topology,
    choice: &Choice,
    apart: Duration,
    stands: impl Fn(&Station),
) {
    let (scratch, own, mut a, b) = with_own_program(topology, choice);
    let (wire, stop) = (Capture::start(&topology.middle, LEFT).unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| talk(&topology.machine_a, &topology.machine_b, &stop));
        for round in 0..8 {
            stands(&a);
            let before = nonces(&wire);
            until("frames pass", || nonces(&wire) > before + 20);
            if round % 4 == 3 {
                // The new program ends as soon as it has begun.
                install_script(&scratch, "[ \"$1\" = go-on ] || exit 1", &own);
                assert!(!upgrade(&scratch, "a").status.success());
                install(program(), &own);
            } else {
                let asking = {
                    let command = asks_for_upgrade(&scratch, "a");
                    lab::Program::spawn(&command.each_ref().map(String::as_str)).unwrap()
                };
                std::thread::sleep(Duration::from_millis(70) + apart * round);
                a.program().signal(Signal::SIGKILL).unwrap();
                asking.wait(DEADLINE).unwrap();
            }
            until("it ends", || !a.program().is_running());
            a = Station::start(&own, &topology.gateway_a.namespace, &scratch, "a").unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(nonces(&wire) > 200);
    a.stop().unwrap();
    b.stop().unwrap();
}

/// A signal that comes while a gateway becomes another program is heard by the one or by the other.
#[test]
fn no_signal_is_lost_in_an_upgrade() {
    let (_topology, Pair { mut a, b, scratch }) = lab(&Shape::default(), &STATIC_KEYS);
    let asking = || {
        let command = asks_for_upgrade(&scratch, "a");
        lab::Program::spawn(&command.each_ref().map(String::as_str)).unwrap()
    };
    let reloads = |a: &Station| a.report().map_or(0, |report| report.reload.map_or(0, |reload| reload.count));
    for round in 0..24 {
        let asked = asking();
        std::thread::sleep(Duration::from_millis(60 + 5 * round));
        a.program().signal(Signal::SIGHUP).unwrap();
        asked.wait(DEADLINE).unwrap();
        until("it reloads", || reloads(&a) == round + 1);
    }
    assert!(a.report().unwrap().upgrade.unwrap().count > 4);
    let asked = asking();
    std::thread::sleep(Duration::from_millis(100));
    a.program().signal(Signal::SIGTERM).unwrap();
    until("it ends", || !a.program().is_running());
    asked.wait(DEADLINE).unwrap();
    b.stop().unwrap();
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a frame every half millisecond until `stop`.
fn talk(from: &Machine, to: &Machine, stop: &AtomicBool) {
    let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        sender.send(&marked(to.mac, from.mac, EXPERIMENT, 100, number)).unwrap();
        std::thread::sleep(Duration::from_micros(500));
    }
}
