//! Links whose way is left to the gateway: in the kernel wherever network and members carry frames whole, else in user space, split.
//! Whichever it is, and while it changes, machines exchange full-size frames.

use std::time::{Duration, Instant};

use lab::topology::{Gateway, Machine, PROTECTED};
use lab::{Shape, Topology};
use perf::demo::pair::{self, Choice, LinkKeys, Pair, Scratch, Station};
use report::mka::FragmentReport;
use suite::CipherSuite;

use super::kernel_link::{path, redirecting, until_path};
use super::mka::discards;
use super::reload::{heard_once, reloaded, while_they_talk};
use super::{DEADLINE, EXPERIMENT, exchange, marked, program};

const NEEDS: &str = "user space: a member needs fragments, or has no programs; set the MTU of its protected side to its machine's plus 36, then frameward rekey";
const TOO_SMALL: &str = "user space: the protected side's MTU of 1500 splits payloads of 1500 octets with a VLAN tag; set it to 1536, or the machine's MTU to 1464";

/// Two gateways with these lines behind their suites, none of which is written but `suite` and the CAK.
pub(crate) fn start(topology: &Topology, lines: [&str; 2]) -> Pair {
    let scratch = configured(lines);
    let [a, b] = [(&topology.gateway_a, "a"), (&topology.gateway_b, "b")]
        .map(|(gateway, name)| Station::start(program(), &gateway.namespace, &scratch, name).unwrap());
    let pair = Pair { a, b, scratch };
    pair.wait_until_secured().unwrap();
    pair
}

fn configured(lines: [&str; 2]) -> Scratch {
    let scratch = Scratch::new().unwrap();
    let choice = Choice { suite: CipherSuite::ChaCha20Poly1305, keys: LinkKeys::Agreed, ..Choice::default() };
    pair::configure(&scratch, &choice).unwrap();
    ["a", "b"].into_iter().zip(lines).for_each(|(name, lines)| edit(&scratch, name, lines));
    scratch
}

/// Lines, each in the place of one that begins like it, or behind `suite`.
fn edit(scratch: &Scratch, name: &str, lines: &str) {
    let file = scratch.path().join(format!("{name}.toml"));
    let mut text = std::fs::read_to_string(&file).unwrap();
    for line in lines.lines() {
        let key = &line[..=line.find('=').unwrap()];
        let old = text.lines().find(|old| old.starts_with(key)).map(str::to_owned);
        text = match old {
            Some(old) => text.replace(&old, line),
            None => text.replace("suite =", &format!("{line}\nsuite =")),
        };
    }
    std::fs::write(&file, text).unwrap();
}

fn topology(protected_mtu: u32) -> Topology {
    redirecting(&Shape { static_neighbours: true, protected_mtu, ..Shape::default() })
}

fn set_mtu(gateway: &Gateway, octets: &str) {
    gateway.namespace.ip(&["link", "set", PROTECTED, "mtu", octets]).unwrap();
}

/// Short and full-size frames, both ways: each arrives once, in order.
fn full_size(topology: &Topology) {
    up_to(&topology.machine_a, &topology.machine_b, 1500);
    up_to(&topology.machine_b, &topology.machine_a, 1500);
}

/// Frames with payloads of up to so many octets.
fn up_to(from: &Machine, to: &Machine, most: usize) {
    let octets = [1500, 60, 1469, 1468].map(|octets| most.min(octets));
    let frames: Vec<_> = (0..40)
        .map(|seed| marked(to.mac, from.mac, EXPERIMENT, octets[seed as usize % octets.len()], seed))
        .collect();
    exchange(from, to, &frames);
}

/// Both tell this way, and full-size frames pass.
fn until_both(topology: &Topology, pair: &Pair, ways: [&str; 2]) {
    [&pair.a, &pair.b].into_iter().zip(ways).for_each(|(station, way)| until_way(station, way));
    full_size(topology);
}

/// An MTU that is too small is told at once. Frames are split with the SAK behind.
fn until_way(station: &Station, way: &str) {
    until_path(station, way);
    let end = Instant::now() + DEADLINE;
    while way == TOO_SMALL && !fragmentation(station).fragment {
        assert!(Instant::now() < end, "no SAK under which it splits frames");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn fragmentation(station: &Station) -> FragmentReport {
    station.report().unwrap().links[0].mka.clone().unwrap().fragmentation
}

fn check(topology: &Topology, scratch: &Scratch) -> String {
    let config = scratch.path().join("a.toml").display().to_string();
    topology.gateway_a.namespace.run(&[program().to_str().unwrap(), "check", &config]).unwrap().stdout
}

#[test]
fn a_suite_and_an_mtu_are_all_that_the_kernel_needs() {
    for io in ["io = \"auto\"", "io = \"kernel\""] {
        let topology = topology(1536);
        let plan = check(&topology, &configured([io, io]));
        for words in [
            "\n  frames     kernel, both ways; ",
            "\n  fragment   off, concatenate off",
            "\n  largest    payload 1500",
        ] {
            assert!(plan.contains(words), "{words:?} is not in\n{plan}");
        }
        let pair = start(&topology, [io, io]);
        until_both(&topology, &pair, ["kernel"; 2]);
        for station in [&pair.a, &pair.b] {
            let report = station.report().unwrap();
            assert_eq!(discards(&report), []);
            let mka = report.links[0].mka.as_ref().unwrap();
            assert_eq!(mka.saks.len(), 1, "the first SAK went there");
            assert!(!mka.fragmentation.fragment && !mka.fragmentation.concatenate);
        }
        pair.stop().unwrap();
    }
}

#[test]
fn a_network_that_carries_no_whole_frames_has_them_split_in_user_space() {
    let topology = topology(1500);
    let plan = check(&topology, &configured(["io = \"auto\""; 2]));
    let why = "\n  frames     user space (AF_XDP, or else AF_PACKET), both ways: the protected side's MTU of 1500 splits payloads of 1500 octets with a VLAN tag; set it to 1536, or the machine's MTU to 1464\n";
    assert!(plan.contains(why), "{plan}");
    assert!(plan.contains("\n  fragment   if all peers announce it"), "{plan}");
    let pair = start(&topology, ["io = \"auto\""; 2]);
    until_both(&topology, &pair, [TOO_SMALL; 2]);
    assert_eq!(discards(&pair.a.report().unwrap()), []);
    pair.stop().unwrap();
    // The kernel is demanded: one line says why it cannot be.
    let demanded = configured(["io = \"kernel\""; 2]);
    let refused = Station::start(program(), &topology.gateway_a.namespace, &demanded, "a").unwrap_err();
    let said = refused.to_string();
    let cure = "set the protected side's MTU to 1532, the machine's to 1468, or io = \"auto\" instead of \"kernel\", which splits nothing";
    assert!(said.contains(cure), "{said}");
}

/// A peer that fragments on purpose, in user space, where it need not: nobody sends the kernel what it does not take.
#[test]
fn a_peer_that_may_fragment_does_not_where_the_other_end_is_in_the_kernel() {
    let topology = topology(1536);
    let pair =
        start(&topology, ["io = \"auto\"", "io = \"af_xdp\"\nfragment = \"on\"\nconcatenate = \"on\""]);
    until_both(&topology, &pair, ["kernel", "user space: io says so"]);
    while_they_talk(&topology, || std::thread::sleep(Duration::from_secs(1)));
    for station in [&pair.a, &pair.b] {
        assert_eq!(discards(&station.report().unwrap()), []);
    }
    pair.stop().unwrap();
}

/// One member whose network splits frames makes all fragment. The kernel has them when every network carries them whole, and no longer.
#[test]
fn members_follow_each_others_mtus() {
    let topology = topology(1536);
    let pair = start(&topology, ["replay_window = 64", "mtu = 1500\nreplay_window = 64"]);
    let insists = "user space: the kernel path does not have fragments";
    until_both(&topology, &pair, [NEEDS, TOO_SMALL]);
    assert!([&pair.a, &pair.b].map(fragmentation).iter().all(|how| how.fragment && how.concatenate));
    for (lines, ways) in [
        ("fragment = \"on\"", [NEEDS, insists]),
        ("mtu = 1536", ["kernel", insists]),
        // Left to the gateway there too.
        ("fragment = \"auto\"", ["kernel"; 2]),
        ("mtu = 1500", [NEEDS, TOO_SMALL]),
        ("mtu = \"interface\"", ["kernel"; 2]),
    ] {
        edit(&pair.scratch, "b", lines);
        reloaded(&pair.scratch, "b");
        until_both(&topology, &pair, ways);
    }
    // The interface's own, while the gateway runs. It takes no longer frames then.
    set_mtu(&topology.gateway_a, "1500");
    [(&pair.a, TOO_SMALL), (&pair.b, NEEDS)].into_iter().for_each(|(station, way)| until_way(station, way));
    up_to(&topology.machine_a, &topology.machine_b, 1500);
    set_mtu(&topology.gateway_a, "1536");
    until_both(&topology, &pair, ["kernel"; 2]);
    // To user space by a reload, and back without a lost frame. Those that are in user space at that moment may be overtaken.
    edit(&pair.scratch, "a", "fragment = \"on\"");
    reloaded(&pair.scratch, "a");
    until_both(&topology, &pair, [insists, "kernel"]);
    heard_once(&topology, || {
        edit(&pair.scratch, "a", "fragment = \"auto\"");
        reloaded(&pair.scratch, "a");
        until_path(&pair.a, "kernel");
    });
    pair.stop().unwrap();
}

/// A key server that may take any suite takes that of the programs while all members have them.
#[test]
fn any_suite_is_that_of_the_kernel_where_all_have_programs() {
    let topology = topology(1536);
    let pair = start(&topology, ["suite = \"any\""; 2]);
    until_both(&topology, &pair, ["kernel"; 2]);
    let suite = |station: &Station| {
        let mka = station.report().unwrap().links[0].mka.clone().unwrap();
        mka.saks.iter().find(|sak| sak.transmits).map(|sak| sak.suite.clone())
    };
    for station in [&pair.a, &pair.b] {
        assert_eq!(suite(station).as_deref(), Some("chacha20-poly1305"));
    }
    let plan = check(&topology, &pair.scratch);
    assert!(
        plan.contains(
            "\n  suite      any (the key server chooses chacha20-poly1305 if the frames of all live peers"
        ),
        "{plan}"
    );
    // One has none any more. Which one is fastest is this CPU's affair; frames pass.
    edit(&pair.scratch, "b", "io = \"af_xdp\"");
    reloaded(&pair.scratch, "b");
    until_path(&pair.b, "user space: io says so");
    until_path(&pair.a, "user space: ");
    full_size(&topology);
    edit(&pair.scratch, "b", "io = \"kernel\"");
    reloaded(&pair.scratch, "b");
    let end = std::time::Instant::now() + DEADLINE;
    while suite(&pair.b).as_deref() != Some("chacha20-poly1305") {
        assert!(std::time::Instant::now() < end, "{:?}", suite(&pair.b));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    until_both(&topology, &pair, ["kernel"; 2]);
    assert_eq!(path(&pair.b), "kernel");
    pair.stop().unwrap();
}
