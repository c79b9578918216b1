//! Express frames of a link that splits frames: they go through the kernel on SCs of their own while bulk frames are split in user space.
//! None is lost or out of order, whatever changes meanwhile, and nothing is in clear.

use std::collections::HashSet;
use std::time::Duration;

use lab::topology::LEFT;
use lab::traffic::{self, Ip, Until};
use lab::{Capture, Captured, Machine, PacketSocket, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, LinkKeys, Pair, PairError, Station};
use report::LinkReport;
use suite::CipherSuite;
use testkit::frames::tagged;
use wire::EtherType;

use super::kernel_link::{
    all_protected, ends_under_load, in_user_space, path, redirecting, rekey, until_path,
};
use super::mka::{all, discards};
use super::reload::reloaded;
use super::{EXPERIMENT, counter, exchange, marked, program};

pub(crate) const EXPRESS: &str = "kernel for express frames, user space for all others";
const CYCLE: Duration = Duration::from_millis(1);

/// Machines of 1500 octets, and a network of 1500 octets: full frames are split.
pub(crate) fn topology() -> Topology {
    redirecting(&Shape { protected_mtu: 1500, static_neighbours: true, ..Shape::default() })
}

fn choice(suite: CipherSuite) -> Choice {
    Choice { suite, keys: LinkKeys::Agreed, link: "express = true", ..Choice::default() }
}

fn start(topology: &Topology, suite: CipherSuite) -> Pair {
    let pair = Pair::start(program(), topology, &choice(suite)).unwrap();
    [&pair.a, &pair.b].into_iter().for_each(|station| until_path(station, EXPRESS));
    pair
}

pub(crate) fn link(station: &Station) -> LinkReport {
    station.report().unwrap().links.swap_remove(0)
}

/// Frames that left on the own express SC.
pub(crate) fn sent_express(station: &Station) -> u64 {
    let express = link(station).secy.express.expect("an express SC");
    assert!(express.sci.ends_with("/32769"), "{}", express.sci);
    counter(&express.counters, "OutPktsEncrypted")
}

/// Frames that came on the peer's express SC.
pub(crate) fn received_express(station: &Station) -> u64 {
    let secy = link(station).secy;
    let sc = secy.receive.iter().find(|sc| sc.sci.ends_with("/32769")).expect("the peer's express SC");
    counter(&sc.counters, "InPktsOK")
}

/// Cyclic frames go both ways while `work` is done: all arrive, in order. As many as that each way.
pub(crate) fn cyclic_both_ways(topology: &Topology, frames: u64, work: impl FnOnce()) {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    std::thread::scope(|scope| {
        let flows = [(a, b), (b, a)]
            .map(|(from, to)| scope.spawn(move || traffic::cyclic(from, to, CYCLE, frames, 40).unwrap()));
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        for flow in flows {
            let seen = flow.join().unwrap();
            assert_eq!((seen.received, seen.out_of_order), (frames, 0), "lost, doubled or out of order");
        }
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Transfers octets both ways at full speed; most frames are split.
pub(crate) fn bulk(topology: &Topology, time: Duration) {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    std::thread::scope(|scope| {
        for (from, to) in [(a, b), (b, a)] {
            scope.spawn(move || traffic::tcp(from, to, Ip::V4, Until::Elapsed(time)).unwrap());
        }
    });
}

/// MACsec frames of express SCs. None has a part of an SDU or several, and no PN comes twice under one SC and AN.
pub(crate) fn express_frames(wire: &Captured) -> usize {
    let mut seen = HashSet::new();
    for frame in wire.of_ethertype(EtherType::MACSEC.0).filter(|frame| frame.octets[26] & 0x80 != 0) {
        assert_eq!(frame.octets[15] & 0xc0, 0, "EXT or MF on an express SC");
        let nonce = (frame.octets[14] & 3, frame.octets[16..28].to_vec());
        assert!(seen.insert(nonce), "a PN twice under one key");
    }
    seen.len()
}

#[test]
fn express_frames_go_through_the_kernel_while_bulk_is_split_in_user_space() {
    for suite in [CipherSuite::ChaCha20Poly1305, CipherSuite::ChaCha20Poly1305Xpn] {
        let topology = topology();
        let pair = start(&topology, suite);
        let known = [&pair.a, &pair.b].map(in_user_space);
        cyclic_both_ways(&topology, 500, || ());
        assert_eq!([&pair.a, &pair.b].map(in_user_space), known, "express frames came to user space");
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        cyclic_both_ways(&topology, 1000, || bulk(&topology, Duration::from_millis(700)));
        for station in [&pair.a, &pair.b] {
            assert_eq!((path(station).as_str(), sent_express(station)), (EXPRESS, 1500), "{suite}");
            assert_eq!(received_express(station), 1500, "{suite}");
            let secy = link(station).secy;
            assert!(counter(&secy.counters, "OutSdusFragmented") > 100, "{suite}");
            assert_eq!(discards(&station.report().unwrap()), [], "{suite}");
        }
        assert_eq!(express_frames(&all_protected(wire)), 2000, "{suite}");
        pair.stop().unwrap();
    }
}

/// Express SDUs are told as in user space: by EtherType and PCP, behind tags too. One that fits no frame is split, and arrives.
#[test]
fn what_is_express_and_fits_a_frame_has_its_own_sc() {
    let topology = topology();
    let pair = start(&topology, CipherSuite::ChaCha20Poly1305);
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let of = |ethertype, octets| marked(b.mac, a.mac, ethertype, octets, 1);
    let plain = of(EXPERIMENT, 100);
    let with_pcp = |pcp: u16| tagged(&plain, EtherType::VLAN, pcp << 13 | 5);
    let rows = [
        (of(EtherType::PROFINET, 40), true),
        (of(EtherType::ETHERCAT, 100), true),
        (of(EtherType::GOOSE, 1400), true),
        (with_pcp(6), true),
        (with_pcp(7), true),
        (tagged(&of(EtherType::PROFINET, 40), EtherType::VLAN, 5), true),
        (plain.clone(), false),
        (with_pcp(5), false),
        (of(EtherType::PROFINET, 1500), false),
    ];
    for (frame, is_express) in rows {
        let (before, came) = (sent_express(&pair.a), received_express(&pair.b));
        exchange(a, b, std::slice::from_ref(&frame));
        let after = (sent_express(&pair.a) - before, received_express(&pair.b) - came);
        assert_eq!(after, (is_express.into(), is_express.into()), "{:02x?}", &frame[12..20]);
    }
    pair.stop().unwrap();
}

/// Classes of the configuration, and others after a reload. The other end need not have the same.
#[test]
fn express_frames_are_those_that_the_configuration_names() {
    let topology = topology();
    let pair = start(&topology, CipherSuite::ChaCha20Poly1305);
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let of = |ethertype| marked(b.mac, a.mac, ethertype, 100, 1);
    let ip = |tos: u8, port: u16| {
        let mut frame = of(EtherType::IPV4);
        frame[14..24].copy_from_slice(&[0x45, tos, 0, 100, 0, 1, 0x40, 0, 64, 17]);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame
    };
    let frames =
        [of(EtherType::PROFINET), of(EtherType::SAMPLED_VALUES), of(EXPERIMENT), ip(0xb8, 1), ip(0, 4840)];
    let file = pair.scratch.path().join("a.toml");
    let mut line = "express = true\n".to_owned();
    for (classes, express) in [
        (None, [true, true, false, false, false]),
        (Some("\"default\", \"dscp:46\", \"udp:4840\""), [true, true, false, true, true]),
        (Some("\"sv\", \"tcp:4840\", \"0x88b5\""), [false, true, true, false, false]),
        (Some(""), [false; 5]),
    ] {
        if let Some(classes) = classes {
            let other = format!("express = true\nexpress_classes = [{classes}]\n");
            edit(&file, &line, &other);
            line = other;
            reloaded(&pair.scratch, "a");
            until_path(&pair.a, EXPRESS);
        }
        for (frame, express) in frames.iter().zip(express) {
            let before = (sent_express(&pair.a), sent_express(&pair.b));
            exchange(a, b, std::slice::from_ref(frame));
            let after = (sent_express(&pair.a), sent_express(&pair.b));
            assert_eq!(
                after,
                (before.0 + u64::from(express), before.1),
                "{classes:?} {:02x?}",
                &frame[12..16]
            );
        }
    }
    // The other end's are its own.
    let before = sent_express(&pair.b);
    exchange(b, a, &[marked(a.mac, b.mac, EtherType::PROFINET, 100, 1)]);
    assert_eq!(sent_express(&pair.b), before + 1);
    pair.stop().unwrap();
}

#[test]
fn keys_of_both_scs_roll_under_load_without_a_lost_express_frame() {
    let topology = topology();
    let pair = start(&topology, CipherSuite::ChaCha20Poly1305);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    cyclic_both_ways(&topology, 3000, || {
        std::thread::scope(|scope| {
            scope.spawn(|| bulk(&topology, Duration::from_secs(2)));
            for round in 2..4 {
                rekey(&pair, "a");
                all([&pair.a, &pair.b], "the next SAK", |mka| {
                    mka.sak().is_some_and(|sak| sak.ki.ends_with(&format!("/{round}")))
                });
            }
        });
    });
    for station in [&pair.a, &pair.b] {
        assert_eq!((path(station).as_str(), sent_express(station)), (EXPRESS, 3000));
        assert_eq!(received_express(station), 3000);
    }
    assert_eq!(express_frames(&all_protected(wire)), 6000);
    pair.stop().unwrap();
}

/// A peer without programs receives express SCs in user space, and sends its own express frames on its one SC.
#[test]
fn a_peer_in_user_space_receives_express_scs_too() {
    let topology = topology();
    let Pair { a, b, scratch } = start(&topology, CipherSuite::ChaCha20Poly1305Xpn);
    b.stop().unwrap();
    edit(&scratch.path().join("b.toml"), "io = \"auto\"", "io = \"af_packet\"");
    let b = Station::start(program(), &topology.gateway_b.namespace, &scratch, "b").unwrap();
    let pair = Pair { a, b, scratch };
    pair.wait_until_secured().unwrap();
    until_path(&pair.a, EXPRESS);
    assert_eq!(path(&pair.b), "user space: io says so");
    let before = sent_express(&pair.a);
    cyclic_both_ways(&topology, 500, || ());
    assert_eq!(sent_express(&pair.a) - before, 500);
    assert_eq!((received_express(&pair.b), link(&pair.b).secy.express), (500, None));
    assert_eq!(discards(&pair.b.report().unwrap()), []);
    pair.stop().unwrap();
}

/// A member that does not announce express SCs: there are none while it is there, and all frames arrive.
#[test]
fn with_a_member_that_announces_no_express_scs_there_are_none() {
    let topology = topology();
    let pair = start(&topology, CipherSuite::ChaCha20Poly1305);
    let none = "user space: not all of the group announce express SCs";
    // One of the two is the key server, and makes a SAK as soon as it is told.
    for (reloads, [own, other]) in [("a", [&pair.a, &pair.b]), ("b", [&pair.b, &pair.a])] {
        let file = pair.scratch.path().join(format!("{reloads}.toml"));
        for (from, to, way) in [("true", "false", none), ("false", "true", EXPRESS)] {
            let line = |word: &str| format!("express = {word}");
            edit(&file, &line(from), &line(to));
            reloaded(&pair.scratch, reloads);
            until_path(other, way);
            if way == EXPRESS {
                until_path(own, way);
            }
            let before = sent_express(&pair.a);
            cyclic_both_ways(&topology, 300, || ());
            assert_eq!(sent_express(&pair.a) - before, if way == EXPRESS { 300 } else { 0 }, "{reloads}");
        }
    }
    pair.stop().unwrap();
}

pub(crate) fn edit(file: &std::path::Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(file, text.replace(from, to)).unwrap();
}

/// With `io = "kernel"` all frames of a link are to be there, and programs do not split.
#[test]
fn a_demanded_kernel_is_for_all_frames() {
    let choice = Choice { io: "kernel", ..choice(CipherSuite::ChaCha20Poly1305) };
    let refused = Pair::start(program(), &topology(), &choice).unwrap_err();
    let PairError::Lab(error) = refused else { panic!("{refused}") };
    assert!(error.to_string().contains("fragments; set fragment = \"off\""), "{error}");
}

/// A port that takes no redirected frames: all frames go through user space, and nothing is taken twice. When it does again, the gateway asks
/// for the next SAK, which brings the programs back.
#[test]
fn express_frames_leave_the_kernel_when_a_port_takes_no_redirected_frames() {
    let topology = topology();
    let pair = start(&topology, CipherSuite::ChaCha20Poly1305);
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let frames: Vec<_> = (0..50).map(|seed| marked(b.mac, a.mac, EtherType::PROFINET, 40, seed)).collect();
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    exchange(a, b, &frames);
    topology.middle.run(&["ethtool", "-K", LEFT, "gro", "off"]).unwrap();
    until_path(&pair.a, "user space: its protected port takes no redirected");
    let before = received_express(&pair.b);
    exchange(a, b, &frames);
    exchange(b, a, &frames);
    assert_eq!(received_express(&pair.b), before, "a frame went through the kernel");
    let recorded = all_protected(wire);
    let known = received_express(&pair.b);
    let attacker = PacketSocket::open(&topology.middle, lab::topology::RIGHT).unwrap();
    for frame in recorded.of_ethertype(EtherType::MACSEC.0) {
        attacker.send(&frame.octets).unwrap();
    }
    topology.middle.run(&["ethtool", "-K", LEFT, "gro", "on"]).unwrap();
    until_path(&pair.a, EXPRESS);
    assert_eq!(received_express(&pair.b), known, "a frame came twice");
    exchange(a, b, &frames);
    assert_eq!(received_express(&pair.b), known + 50);
    pair.stop().unwrap();
}

#[test]
fn nothing_passes_behind_a_killed_gateway() {
    let topology = topology();
    let Pair { mut a, b, scratch } = start(&topology, CipherSuite::ChaCha20Poly1305);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let frames = |from: &Machine, to: &Machine| marked(to.mac, from.mac, EtherType::PROFINET, 40, 1);
    ends_under_load(&topology, 0, &mut a, Signal::SIGKILL, frames);
    all_protected(wire);
    a = Station::start(program(), &topology.gateway_a.namespace, &scratch, "a").unwrap();
    let pair = Pair { a, b, scratch };
    pair.wait_until_secured().unwrap();
    until_path(&pair.a, EXPRESS);
    cyclic_both_ways(&topology, 100, || ());
    pair.stop().unwrap();
}
