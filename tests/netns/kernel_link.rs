//! Links whose SecY is in the kernel: with keys that are agreed on and with static ones, at both ends or at one. Every frame arrives
//! once and in order, nothing is in clear, and no PN comes twice under one key, whatever changes meanwhile.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::topology::{LEFT, PLAIN, PROTECTED, RIGHT};
use lab::{Capture, Captured, Direction, Machine, PacketSocket, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, LinkKeys, Pair, PairError, Station};
use suite::CipherSuite;
use wire::EtherType;

use super::fieldbus::takes_redirected_frames;
use super::mka::{all, discards};
use super::reload::{reloaded, while_they_talk};
use super::{DEADLINE, EXPERIMENT, MARKER, counter, exchange, marked, program};

fn topology() -> Topology {
    redirecting(&Shape { static_neighbours: true, protected_mtu: 1536, ..Shape::default() })
}

/// Machines and gateways whose interfaces take redirected frames.
pub(crate) fn redirecting(shape: &Shape) -> Topology {
    let topology = Topology::build(shape).unwrap();
    for machine in [&topology.machine_a, &topology.machine_b] {
        takes_redirected_frames(&machine.namespace, &[machine.ifname]);
    }
    takes_redirected_frames(&topology.middle, &[LEFT, RIGHT]);
    topology
}

fn choice(keys: LinkKeys, suite: CipherSuite) -> Choice {
    Choice { suite, keys, ..Choice::default() }
}

fn agreed() -> Choice {
    choice(LinkKeys::Agreed, CipherSuite::ChaCha20Poly1305)
}

fn fixed() -> Choice {
    choice(LinkKeys::Static, CipherSuite::ChaCha20Poly1305)
}

pub(crate) fn path(station: &Station) -> String {
    station.report().unwrap().links[0].secy.path.clone().unwrap_or_default()
}

pub(crate) fn until_path(station: &Station, begin: &str) {
    let end = Instant::now() + DEADLINE;
    while !path(station).starts_with(begin) {
        assert!(Instant::now() < end, "{begin:?} is not {:?}", path(station));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Frames that its machine sent, and that came to user space.
pub(crate) fn in_user_space(station: &Station) -> u64 {
    counter(&station.report().unwrap().links[0].plain.counters, "RxFrames")
}

/// Nothing but MACsec and EAPOL was on the network, and nothing of what machines have written.
pub(crate) fn all_protected(wire: Capture) -> Captured {
    let wire = wire.stop().unwrap();
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    let macsec = wire.of_ethertype(EtherType::MACSEC.0).count();
    assert_eq!(macsec + wire.of_ethertype(EtherType::EAPOL.0).count(), wire.frames.len());
    wire
}

/// A gateway, 0 or 1, ends while both machines send: what they send behind that passes it neither way.
pub(crate) fn ends_under_load(
    topology: &Topology,
    which: usize,
    gateway: &mut Station,
    signal: Signal,
    frame: impl Fn(&Machine, &Machine) -> Vec<u8>,
) {
    let machines = [&topology.machine_a, &topology.machine_b];
    let [own, other] = [machines[which], machines[1 - which]];
    let box_of = [&topology.gateway_a.namespace, &topology.gateway_b.namespace][which];
    let sides = [(&topology.middle, [LEFT, RIGHT][which], PROTECTED), (&own.namespace, own.ifname, PLAIN)];
    let captures = sides.map(|(namespace, interface, _)| Capture::start(namespace, interface).unwrap());
    let senders = [(own, other), (other, own)]
        .map(|(from, to)| (PacketSocket::open(&from.namespace, from.ifname).unwrap(), frame(from, to)));
    let send = || senders.iter().for_each(|(socket, frame)| socket.send(frame).unwrap());
    // Behind all that left the box by this side: when it is seen, all of that was. How many frames were before it.
    let until_seen = |number: u8| {
        [0, 1].map(|side| {
            let marker =
                [&own.mac[..], &other.mac, &EtherType::EAPOL.0.to_be_bytes(), &[number; 46]].concat();
            PacketSocket::open(box_of, sides[side].2).unwrap().send(&marker).unwrap();
            let end = Instant::now() + DEADLINE;
            loop {
                let seen = captures[side].since(0);
                if let Some(at) = seen.iter().position(|frame| frame.octets == marker) {
                    return at;
                }
                assert!(Instant::now() < end, "the marker does not come");
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    (0..50).for_each(|_| send());
    gateway.program().signal(signal).unwrap();
    let end = Instant::now() + DEADLINE;
    while gateway.program().is_running() {
        assert!(Instant::now() < end);
        send();
        std::thread::sleep(Duration::from_millis(1));
    }
    // Other CPUs may have frames under way.
    std::thread::sleep(Duration::from_millis(100));
    let before = until_seen(1);
    (0..100).for_each(|_| send());
    std::thread::sleep(Duration::from_millis(100));
    let behind = until_seen(2);
    for (side, capture) in captures.into_iter().enumerate() {
        let frames = capture.stop().unwrap().complete().unwrap().frames;
        let passed = frames[..before[side]].iter().filter(|frame| frame.direction == Direction::In);
        assert!(side == 1 || passed.count() >= 50, "it was not under load");
        let passed = frames[before[side]..behind[side]]
            .iter()
            .find(|frame| frame.direction == Direction::In && frame.ethertype() != Some(EtherType::EAPOL.0));
        assert!(passed.is_none(), "a gateway that has ended forwards: {passed:02x?}");
    }
}

/// No SCI has sent two frames with one PN; how many frames it were. Keys are the same all the time.
pub(crate) fn no_pn_twice(wire: &Captured) -> usize {
    let mut seen = HashSet::new();
    for frame in wire.of_ethertype(EtherType::MACSEC.0) {
        // Every frame names its SCI: PN and SCI behind the SecTAG's first four octets.
        let nonce = frame.octets[16..28].to_vec();
        assert!(seen.insert(nonce), "a PN twice under one key");
    }
    seen.len()
}

#[test]
fn links_go_through_the_kernel_with_keys_of_any_origin() {
    for keys in [LinkKeys::Agreed, LinkKeys::Static] {
        for (suite, io) in
            [(CipherSuite::ChaCha20Poly1305, "auto"), (CipherSuite::ChaCha20Poly1305Xpn, "kernel")]
        {
            let topology = topology();
            let wire = Capture::start(&topology.middle, LEFT).unwrap();
            let pair = Pair::start(program(), &topology, &Choice { io, ..choice(keys, suite) }).unwrap();
            for station in [&pair.a, &pair.b] {
                assert_eq!(path(station), "kernel", "{keys:?} {suite}");
            }
            let before = [&pair.a, &pair.b].map(in_user_space);
            let sent = while_they_talk(&topology, || std::thread::sleep(std::time::Duration::from_secs(1)));
            assert_eq!([&pair.a, &pair.b].map(in_user_space), before, "{keys:?} {suite}");
            for (station, [own, peer]) in [(&pair.a, sent), (&pair.b, [sent[1], sent[0]])] {
                let report = station.report().unwrap();
                let secy = &report.links[0].secy;
                assert_eq!(discards(&report), [], "{keys:?} {suite}");
                assert!(counter(&secy.transmit.counters, "OutPktsEncrypted") >= own);
                assert!(counter(&secy.receive[0].counters, "InPktsOK") >= peer);
                assert!(secy.transmit.sas[0].in_use && secy.transmit.sas[0].next_pn > Some(own));
                assert!(secy.receive[0].sas[0].lowest_pn > Some(1));
            }
            all_protected(wire);
            pair.stop().unwrap();
        }
    }
}

#[test]
fn keys_roll_in_the_kernel_without_a_lost_frame() {
    let topology = topology();
    let pair = Pair::start(program(), &topology, &agreed()).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    while_they_talk(&topology, || {
        for round in 2..7 {
            rekey(&pair, "a");
            all([&pair.a, &pair.b], "the next SAK", |mka| {
                mka.sak().is_some_and(|sak| sak.ki.ends_with(&format!("/{round}")))
            });
        }
    });
    for station in [&pair.a, &pair.b] {
        assert_eq!(path(station), "kernel");
        assert_eq!(discards(&station.report().unwrap()), []);
    }
    all_protected(wire);
    pair.stop().unwrap();
}

pub(crate) fn rekey(pair: &Pair, name: &str) {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", pair.scratch.path().join("run").display());
    let command = ["env", &variable, program().to_str().unwrap(), "rekey", name, "press"];
    let output = lab::Program::spawn(&command).unwrap().wait(DEADLINE).unwrap();
    assert!(output.status.success(), "{}", output.stderr);
}

/// A peer in user space, before and behind a restart with another `io`.
#[test]
fn one_end_in_the_kernel_and_one_in_user_space_understand_each_other() {
    for of in [agreed(), fixed()] {
        let topology = topology();
        let Pair { a, b, scratch } = Pair::start(program(), &topology, &of).unwrap();
        b.stop().unwrap();
        let file = scratch.path().join("b.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("io = \"auto\"", "io = \"af_xdp\"")).unwrap();
        let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
        let pair = Pair { a, b, scratch };
        if of.keys == LinkKeys::Agreed {
            pair.wait_until_secured().unwrap();
        }
        assert_eq!((path(&pair.a).as_str(), path(&pair.b).as_str()), ("kernel", "user space: io says so"));
        while_they_talk(&topology, || std::thread::sleep(std::time::Duration::from_secs(1)));
        pair.stop().unwrap();
    }
}

/// The other end of a virtual wire loses what redirected frames need, and gets it again: SAs leave the kernel with their PNs and windows.
/// Those that are agreed on come back with the next SAK, which is made for that.
#[test]
fn a_link_leaves_the_kernel_when_a_port_takes_no_redirected_frames() {
    for of in [agreed(), fixed()] {
        let topology = topology();
        let pair = Pair::start(program(), &topology, &of).unwrap();
        let wire = Capture::start(&topology.middle, RIGHT).unwrap();
        let frames: Vec<_> = (0..50)
            .map(|seed| marked(topology.machine_b.mac, topology.machine_a.mac, EXPERIMENT, 100, seed))
            .collect();
        let both_ways = || {
            exchange(&topology.machine_a, &topology.machine_b, &frames);
            exchange(&topology.machine_b, &topology.machine_a, &frames);
        };
        both_ways();
        for (gro, to) in [
            ("off", "user space: its protected port takes no redirected"),
            ("on", "kernel"),
            ("off", "user"),
            ("on", "kernel"),
        ] {
            topology.middle.run(&["ethtool", "-K", LEFT, "gro", gro]).unwrap();
            until_path(&pair.a, to);
            both_ways();
        }
        let recorded = all_protected(wire);
        if of.keys == LinkKeys::Static {
            assert!(no_pn_twice(&recorded) >= 500);
        }
        // Frames of the network are played to both again: nothing comes twice.
        let known = [&pair.a, &pair.b]
            .map(|station| station.report().unwrap().links[0].secy.receive[0].counters.clone());
        for (side, station) in [(LEFT, &pair.a), (RIGHT, &pair.b)] {
            let attacker = PacketSocket::open(&topology.middle, side).unwrap();
            for frame in recorded.of_ethertype(EtherType::MACSEC.0) {
                attacker.send(&frame.octets).unwrap();
            }
            let known = &known[usize::from(side == RIGHT)];
            let now = station.report().unwrap().links[0].secy.receive[0].counters.clone();
            assert_eq!(counter(&now, "InPktsOK"), counter(known, "InPktsOK"), "a frame came twice");
        }
        pair.stop().unwrap();
    }
}

/// However a gateway ends, nothing passes behind it, and the next one uses no PN again.
#[test]
fn a_killed_gateway_leaves_nothing_that_forwards_and_no_pn_comes_twice() {
    let topology = topology();
    let Pair { mut a, mut b, scratch } = Pair::start(program(), &topology, &fixed()).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let frames: Vec<_> = (0..40)
        .map(|seed| marked(topology.machine_b.mac, topology.machine_a.mac, EXPERIMENT, 100, seed))
        .collect();
    for round in 0..4 {
        exchange(&topology.machine_a, &topology.machine_b, &frames);
        exchange(&topology.machine_b, &topology.machine_a, &frames);
        let (station, namespace, name) = match round % 2 {
            0 => (&mut a, &topology.gateway_a.namespace, "a"),
            _ => (&mut b, &topology.gateway_b.namespace, "b"),
        };
        // The last second before a crash is open to replay, and so its frames are repeated by nobody here.
        std::thread::sleep(std::time::Duration::from_millis(1200));
        let signal = [Signal::SIGKILL, Signal::SIGTERM][round / 2];
        let frames = |from: &Machine, to: &Machine| marked(to.mac, from.mac, EXPERIMENT, 100, 1);
        ends_under_load(&topology, round % 2, station, signal, frames);
        *station = Station::start(program(), namespace, &scratch, name).unwrap();
        assert_eq!(path(station), "kernel");
    }
    exchange(&topology.machine_a, &topology.machine_b, &frames);
    assert!(no_pn_twice(&all_protected(wire)) >= 4 * 80);
    Pair { a, b, scratch }.stop().unwrap();
}

#[test]
fn a_link_that_the_kernel_has_no_programs_for_says_so() {
    let topology = topology();
    let gcm = choice(LinkKeys::Static, CipherSuite::GcmAes128);
    let pair = Pair::start(program(), &topology, &gcm).unwrap();
    let why = "user space: the kernel protects a link's frames by chacha20-poly1305 and chacha20-poly1305-xpn only; the suite is gcm-aes-128";
    assert_eq!(path(&pair.a), why);
    pair.stop().unwrap();
    let refused = Pair::start(program(), &topology, &Choice { io: "kernel", ..gcm });
    let PairError::Lab(error) = refused.unwrap_err() else { panic!("it runs") };
    let said = error.to_string();
    assert!(said.contains("the suite is gcm-aes-128; io = \"auto\" takes user space instead"), "{said}");
}

/// Settings and keys change by reload: the SAs go to user space and come back, with their PNs and windows.
#[test]
fn a_reload_keeps_a_link_in_the_kernel() {
    for of in [agreed(), fixed()] {
        let topology = topology();
        let pair = Pair::start(program(), &topology, &of).unwrap();
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let frames: Vec<_> = (0..40)
            .map(|seed| marked(topology.machine_b.mac, topology.machine_a.mac, EXPERIMENT, 100, seed))
            .collect();
        for (lines, to) in [
            ("replay_window = 8", "kernel"),
            ("bypass = [\"lldp\"]", "kernel"),
            ("validate_frames = \"check\"", "user space: the kernel path does not have validate_frames"),
            ("", "kernel"),
        ] {
            for name in ["a", "b"] {
                with_lines(&pair, name, lines);
                reloaded(&pair.scratch, name);
            }
            if of.keys == LinkKeys::Agreed && lines.is_empty() {
                rekey(&pair, "a");
            }
            until_path(&pair.a, to);
            exchange(&topology.machine_a, &topology.machine_b, &frames);
            exchange(&topology.machine_b, &topology.machine_a, &frames);
        }
        let wire = all_protected(wire);
        if of.keys == LinkKeys::Static {
            assert!(no_pn_twice(&wire) >= 320);
        }
        pair.stop().unwrap();
    }
}

fn edit(pair: &Pair, name: &str, change: impl FnOnce(String) -> String) {
    let file = pair.scratch.path().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, change(text)).unwrap();
}

/// Puts other lines in the place of those of [[link]] behind its suite.
fn with_lines(pair: &Pair, name: &str, lines: &str) {
    edit(pair, name, |text| {
        let suite = text.find("suite = ").unwrap();
        let begin = suite + text[suite..].find('\n').unwrap() + 1;
        let end = text.find("[link.").unwrap();
        format!("{}{lines}\n{}", &text[..begin], &text[end..])
    });
}

fn some_frames(topology: &Topology) -> Vec<Vec<u8>> {
    let [from, to] = [topology.machine_a.mac, topology.machine_b.mac];
    (0..40).map(|seed| marked(to, from, EXPERIMENT, 100, seed)).collect()
}

fn both_ways(topology: &Topology) {
    let frames = some_frames(topology);
    exchange(&topology.machine_a, &topology.machine_b, &frames);
    exchange(&topology.machine_b, &topology.machine_a, &frames);
}

/// Other static keys under the same and under another AN, and back to the first ones: each begins behind its own last PN.
#[test]
fn static_keys_change_in_the_kernel() {
    let topology = topology();
    let pair = Pair::start(program(), &topology, &fixed()).unwrap();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    both_ways(&topology);
    keygen::static_key(KeyLength::Bits256, &pair.scratch.path().join("next.key")).unwrap();
    let mut changed = Vec::new();
    for (key, an) in [("next", 0), ("next", 1), ("a", 0)] {
        changed.push(wire.since(0).len());
        for name in ["a", "b"] {
            edit(&pair, name, |text| {
                let of_a = text.find("sci = \"02:00:00:00:00:01/1\"").unwrap();
                let begin = text[..of_a].rfind("an = ").unwrap();
                let end = of_a + text[of_a..].find(".key\"").unwrap() + ".key\"".len();
                let sa = format!("an = {an}\nsci = \"02:00:00:00:00:01/1\"\nkey_file = \"{key}.key\"");
                format!("{}{sa}{}", &text[..begin], &text[end..])
            });
        }
        // The receiver knows a key before the sender does.
        ["b", "a"].into_iter().for_each(|name| drop(reloaded(&pair.scratch, name)));
        assert_eq!([&pair.a, &pair.b].map(path), ["kernel"; 2], "{key} {an}");
        both_ways(&topology);
    }
    let recorded = all_protected(wire);
    // Frames that A sent under each of the two keys: SCI and PN are never the same.
    let of_a = |range: &[lab::Frame]| -> Vec<Vec<u8>> {
        let from_a = |frame: &&lab::Frame| frame.octets.get(20..26) == Some(&[2, 0, 0, 0, 0, 1]);
        range.iter().filter(from_a).map(|frame| frame.octets[16..20].to_vec()).collect()
    };
    let first: Vec<_> = [&recorded.frames[..changed[0]], &recorded.frames[changed[2]..]].map(of_a).concat();
    let next = of_a(&recorded.frames[changed[0]..changed[2]]);
    for pns in [first, next] {
        assert!(pns.len() >= 80, "{}", pns.len());
        assert_eq!(pns.iter().collect::<HashSet<_>>().len(), pns.len(), "a PN twice under one key");
    }
    pair.stop().unwrap();
}

/// The kernel is demanded, and a port does not take its programs: nothing passes, and all passes as soon as it does.
#[test]
fn where_the_kernel_is_demanded_nothing_goes_another_way() {
    for of in [agreed(), fixed()] {
        let topology = topology();
        topology.middle.run(&["ethtool", "-K", LEFT, "gro", "off"]).unwrap();
        let pair = Pair::start(program(), &topology, &Choice { io: "kernel", ..of }).unwrap();
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        for _ in 0..2 {
            until_path(&pair.a, "nowhere: its protected port takes no redirected frames");
            let before = wire.since(0).len();
            let sender =
                PacketSocket::open(&topology.machine_a.namespace, topology.machine_a.ifname).unwrap();
            some_frames(&topology).iter().for_each(|frame| sender.send(frame).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(300));
            let sent = wire.since(before);
            assert!(
                sent.iter().all(|frame| frame.ethertype() == Some(EtherType::EAPOL.0)),
                "a frame has left"
            );
            topology.middle.run(&["ethtool", "-K", LEFT, "gro", "on"]).unwrap();
            until_path(&pair.a, "kernel");
            both_ways(&topology);
            topology.middle.run(&["ethtool", "-K", LEFT, "gro", "off"]).unwrap();
        }
        // A configuration that the programs cannot follow is refused before anything is changed.
        topology.middle.run(&["ethtool", "-K", LEFT, "gro", "on"]).unwrap();
        until_path(&pair.a, "kernel");
        with_lines(&pair, "a", "validate_frames = \"check\"");
        let refused = super::reload::reload(&pair.scratch, "a");
        assert!(!refused.status.success(), "{}", refused.stdout);
        assert!(
            refused.stderr.contains("the kernel path does not have validate_frames"),
            "{}",
            refused.stderr
        );
        assert_eq!(path(&pair.a), "kernel");
        both_ways(&topology);
        pair.stop().unwrap();
    }
}

/// From the kernel to user space by `io`, and on to another SAK there.
#[test]
fn a_link_that_has_left_the_kernel_takes_the_next_key() {
    for (before, after) in [("kernel", "af_xdp"), ("auto", "af_packet")] {
        let topology = topology();
        let pair = Pair::start(program(), &topology, &Choice { io: before, ..agreed() }).unwrap();
        both_ways(&topology);
        edit(&pair, "a", |text| text.replace(&format!("io = \"{before}\""), &format!("io = \"{after}\"")));
        reloaded(&pair.scratch, "a");
        until_path(&pair.a, "user space: io says so");
        both_ways(&topology);
        rekey(&pair, "a");
        // One more may have been made, since A may fragment now.
        all([&pair.a, &pair.b], "the next SAK", |mka| mka.sak().is_some_and(|sak| !sak.ki.ends_with("/1")));
        both_ways(&topology);
        pair.stop().unwrap();
    }
}

/// Frames that were delivered while nothing marked them are not delivered again when replay protection begins.
#[test]
fn replay_protection_that_begins_takes_nothing_twice() {
    let topology = topology();
    // As wide as it is behind that: with a window of 0 nothing below the newest PN would be taken anyway.
    let unprotected = Choice { link: "replay_protect = false\nreplay_window = 64", ..agreed() };
    let pair = Pair::start(program(), &topology, &unprotected).unwrap();
    let wire = Capture::start(&topology.middle, RIGHT).unwrap();
    both_ways(&topology);
    for name in ["a", "b"] {
        with_lines(&pair, name, "replay_window = 64");
        reloaded(&pair.scratch, name);
    }
    assert_eq!([&pair.a, &pair.b].map(path), ["kernel"; 2]);
    let ok =
        |station: &Station| counter(&station.report().unwrap().links[0].secy.receive[0].counters, "InPktsOK");
    let before = [&pair.a, &pair.b].map(ok);
    let recorded = wire.stop().unwrap();
    for side in [LEFT, RIGHT] {
        let attacker = PacketSocket::open(&topology.middle, side).unwrap();
        recorded.of_ethertype(EtherType::MACSEC.0).for_each(|frame| attacker.send(&frame.octets).unwrap());
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!([&pair.a, &pair.b].map(ok), before, "a frame came twice");
    both_ways(&topology);
    pair.stop().unwrap();
}
