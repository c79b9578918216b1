//! Key agreement end to end: gateways that find each other, roll keys under load, change their CAK, lose each other and
//! come back, alone and in a group of three.

mod group;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::Capture;
use lab::flood::Load;
use lab::topology::{LEFT, PROTECTED};
use lab::traffic::{self, Ip, MARKER};
use nix::sys::signal::Signal;
use perf::demo::pair::Station;
use report::mka::MkaReport;
use wire::EtherType;

use super::reload::{reloaded, while_they_talk};
use super::{DEADLINE, counter, program};
pub(crate) use group::{Group, NARROW, all, discards, ki, mka, path, secured_with, stop, third, until};

pub(crate) const LINE: &str = "cak_file = \"line.cak\"";

#[test]
fn two_gateways_agree_fragment_and_show_nothing_but_macsec_and_eapol() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
    let [a, b] = group.pair(LINE);
    group.ping();
    let (from, to) = (&group.topology.machine_a, &group.topology.machine_b);
    traffic::tcp(from, to, Ip::V4, traffic::Until::Octets(2_000_000)).unwrap();
    let reports = [&a, &b].map(|station| station.report().unwrap());
    for report in &reports {
        let unsent = counter(&report.links[0].secy.counters, "OutPktsKayNoChunk");
        assert_eq!(unsent, 0, "the KaY of {} has spoken before it had ports", report.name);
    }
    let [ours, theirs] = reports.each_ref().map(mka);
    assert_eq!(ours.sak().unwrap().ki, theirs.sak().unwrap().ki);
    assert_eq!(
        (ours.key_server.clone(), ours.is_key_server),
        (theirs.key_server.clone(), !theirs.is_key_server)
    );
    assert!(ours.is_key_server, "of equal priorities the lowest SCI: {ours:#?}");
    assert_eq!(ours.members[0].sci, "02:00:00:00:00:b3/1");
    assert!(ours.members[0].announced);
    until(&a, "hellos go on", |mka| mka.members[0].heard_ms_ago < 3000);
    assert!(
        ours.fragmentation.fragment && ours.fragmentation.concatenate && ours.fragmentation.why_not.is_none()
    );
    assert_eq!(reports[0].links[0].concerns, []);
    assert_eq!(reports[0].links[0].secy.suite, ours.sak().unwrap().suite);
    assert!(counter(&reports[0].links[0].secy.counters, "OutSdusFragmented") > 500, "{:#?}", reports[0]);
    let wire = wire.stop().unwrap().complete().unwrap();
    assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
    let macsec = wire.of_ethertype(EtherType::MACSEC.0).count();
    let eapol = wire.of_ethertype(EtherType::EAPOL.0).count();
    assert!(eapol > 2 && macsec > 1000 && macsec + eapol == wire.frames.len(), "{macsec} {eapol}");
    let status = group.command(&["status", "a"]).stdout;
    for words in ["key agreement: secured, this box is key server", "member 02:00:00:00:00:b3/1"] {
        assert!(status.contains(words), "{status}");
    }
    for station in [a, b] {
        let said = station.stop().unwrap();
        assert!(said.contains("key server") && said.contains("is live"), "{said}");
    }
}

/// Frames that a load brought into gateway A, and out of gateway B, in so much time; and what their ports lost.
struct Passed {
    entered: u64,
    left: u64,
    lost_by_ports: u64,
}

/// Sends so many frames a second while `work` is done, and waits until the last one is through.
fn loaded(group: &Group, [a, b]: [&Station; 2], rate: u32, work: impl FnOnce()) -> Passed {
    let figures = || {
        let [a, b] = [a, b].map(|station| station.report().unwrap());
        let port_losses = [&a, &b].map(|report| {
            let ports = [&report.links[0].plain, &report.links[0].protected];
            let lost = |name: &&str| ports.iter().map(|port| counter(&port.counters, name)).sum::<u64>();
            ["RxKernelDropped", "RxRingFull", "RxNoChunk", "TxDropped"].iter().map(lost).sum::<u64>()
        });
        let entered = counter(&a.links[0].plain.counters, "RxFrames");
        let left = counter(&b.links[0].plain.counters, "TxFrames");
        (entered, left, port_losses.iter().sum::<u64>())
    };
    let before = figures();
    let machines = (&group.topology.machine_a, &group.topology.machine_b);
    let load = Load::start(machines.0, machines.1, 100, Some(rate), DEADLINE).unwrap();
    work();
    load.stop().unwrap();
    let (mut last, mut looks) = (figures(), 0);
    // All is through, or nothing comes any more.
    while (last.0 - before.0 != last.1 - before.1 || looks < 1) && looks < 20 {
        std::thread::sleep(Duration::from_millis(100));
        let now = figures();
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
    Passed { entered: last.0 - before.0, left: last.1 - before.1, lost_by_ports: last.2 - before.2 }
}

#[test]
fn ten_keys_in_a_row_under_load_lose_no_frame() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let [a, b] = group.pair(LINE);
    group.ping();
    // Highest of these rates that passes without loss on this machine, now.
    let pause = || std::thread::sleep(Duration::from_millis(300));
    let passes = |rate: &u32| {
        let passed = loaded(&group, [&a, &b], *rate, pause);
        passed.entered == passed.left && passed.lost_by_ports == 0
    };
    let rates = [160_000, 120_000, 80_000, 60_000, 40_000, 20_000, 10_000, 5_000, 2_000];
    let mut rate = rates.into_iter().find(passes).expect("2000 frames a second pass") / 10 * 8;
    let known = discards(&b.report().unwrap());
    let mut tries = 0;
    loop {
        let rekeys = || {
            for _ in 0..10 {
                let before = ki(&a);
                let output = group.command(&["rekey", "a", "press"]);
                assert!(output.status.success(), "{}", output.stderr);
                assert_ne!(ki(&a), before);
            }
        };
        let passed = loaded(&group, [&a, &b], rate, rekeys);
        let secys = [&a, &b].map(|station| {
            let all = discards(&station.report().unwrap());
            all.into_iter().filter(|(name, _)| name.starts_with("InPkts") || name.starts_with("OutPkts"))
        });
        let secys: Vec<_> = secys.into_iter().flatten().filter(|one| !known.contains(one)).collect();
        if passed.lost_by_ports == 0 {
            assert_eq!(secys, [], "at {rate} frames a second");
            assert_eq!(passed.entered, passed.left, "at {rate} frames a second");
            println!("{} frames at {rate} a second, ten keys, none lost", passed.entered);
            assert!(passed.entered > u64::from(rate) / 2, "{} frames at {rate}", passed.entered);
            break;
        }
        // The machine was busy with something else, and queues in front of the gateways overflowed.
        tries += 1;
        assert!(tries < 6, "{} frames lost by ports at {rate} frames a second", passed.lost_by_ports);
        rate = rate / 10 * 6;
    }
    let made = counter(&mka(&a.report().unwrap()).counters, "SaksMade");
    assert!(made >= 11, "{made}");
    // The one that is not key server asks it for another key.
    let before = ki(&b);
    assert!(group.command(&["rekey", "b", "press"]).status.success());
    assert_ne!(ki(&b), before);
    let refused = group.command(&["rekey", "a", "oven"]);
    assert!(!refused.status.success() && refused.stderr.contains("there is no link or fieldbus \"oven\""));
    stop([a, b]);
}

#[test]
fn the_cak_changes_while_machines_talk() {
    let group = Group::new();
    group.cak("line.cak", "line");
    group.cak("next.cak", "next");
    let [a, b] = group.pair(LINE);
    let under = |ckn: &'static str| {
        move |mka: &MkaReport| mka.ckn.as_deref() == Some(&hex(ckn)) && secured_with(1)(mka)
    };
    while_they_talk(&group.topology, || {
        let both = "cak_file = \"next.cak\"\nfallback_cak_file = \"line.cak\"";
        group.configure("a", both);
        assert!(reloaded(&group.scratch, "a").contains("\"press\": changed"));
        // B does not know the new one yet.
        until(&a, "the old one goes on", under("line"));
        let concerns = a.report().unwrap().links.remove(0).concerns;
        assert!(concerns.iter().any(|concern| concern.text.contains("fallback CAK")), "{concerns:?}");
        group.configure("b", both);
        reloaded(&group.scratch, "b");
        all([&a, &b], "the new one takes over", under("next"));
        for name in ["a", "b"] {
            group.configure(name, "cak_file = \"next.cak\"");
            reloaded(&group.scratch, name);
        }
        all([&a, &b], "the old one is gone", |mka| mka.caks.len() == 1 && mka.secured);
    });
    // A fallback takes over, too, if the first choices have nothing in common.
    group.cak("other.cak", "other");
    for (name, own) in [("a", "line.cak"), ("b", "other.cak")] {
        group.configure(name, &format!("cak_file = \"{own}\"\nfallback_cak_file = \"next.cak\""));
        reloaded(&group.scratch, name);
    }
    all([&a, &b], "the fallback holds", under("next"));
    group.ping();
    // To static keys and back, which starts the link anew.
    let agreed = std::fs::read_to_string(group.scratch.path().join("b.toml")).unwrap();
    keygen::static_key(KeyLength::Bits128, &group.scratch.path().join("b.key")).unwrap();
    let fixed = agreed[..agreed.find("[link.mka]").unwrap()]
        .replace("replay_window", "suite = \"gcm-aes-128\"\nfragment = \"on\"\nreplay_window")
        + "[link.static]\nan = 0\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"b.key\"\n";
    group.scratch.write("b.toml", &fixed).unwrap();
    assert!(reloaded(&group.scratch, "b").contains("stopped, to start with keys of another origin"));
    assert!(b.report().unwrap().links[0].mka.is_none());
    let before = ki(&a);
    group.scratch.write("b.toml", &agreed).unwrap();
    reloaded(&group.scratch, "b");
    let again = |mka: &MkaReport| secured_with(1)(mka) && mka.sak().unwrap().ki != before;
    all([&a, &b], "it is secured again", again);
    group.ping();
    stop([a, b]);
}

fn hex(text: &str) -> String {
    text.bytes().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn settings_and_mtus_change_and_the_key_goes_on() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let [a, b] = group.pair(LINE);
    group.ping();
    let before = ki(&a);
    while_they_talk(&group.topology, || {
        for window in ["replay_window = 128", "replay_window = 64"] {
            for name in ["a", "b"] {
                let config = group.scratch.path().join(format!("{name}.toml"));
                let text = std::fs::read_to_string(&config).unwrap();
                let line = text.lines().find(|line| line.starts_with("replay_window")).unwrap();
                std::fs::write(&config, text.replace(line, window)).unwrap();
                assert!(reloaded(&group.scratch, name).contains("\"press\": changed"));
            }
        }
    });
    // A network that takes less: ports are opened again, and all but them goes on.
    for name in ["a", "b"] {
        group.namespace(name).ip(&["link", "set", PROTECTED, "mtu", "1400"]).unwrap();
    }
    let mtu = |station: &Station| station.report().unwrap().links[0].protected.mtu;
    let end = Instant::now() + DEADLINE;
    while [&a, &b].into_iter().any(|station| mtu(station) != 1400) {
        assert!(Instant::now() < end, "{:#?}", a.report().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    all([&a, &b], "it is secured", secured_with(1));
    group.ping();
    let reports = [&a, &b].map(|station| station.report().unwrap());
    for report in &reports {
        assert_eq!(mka(report).sak().unwrap().ki, before, "{:#?}", mka(report).changes);
        assert_eq!(mka(report).counters.iter().find(|(name, _)| *name == "SaksInstalled").unwrap().1, 1);
    }
    stop([a, b]);
}

#[test]
fn the_suite_changes_while_machines_talk() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let [a, b] = group.pair(LINE);
    let suites =
        ["gcm-aes-128", "gcm-aes-xpn-256", "chacha20-poly1305", "gcm-aes-256", "aegis-256", "any", "auto"];
    while_they_talk(&group.topology, || {
        for suite in suites {
            for name in ["a", "b"] {
                group.configure(name, LINE);
                let config = group.scratch.path().join(format!("{name}.toml"));
                let text = std::fs::read_to_string(&config).unwrap();
                std::fs::write(
                    &config,
                    text.replace("[link.mka]", &format!("suite = \"{suite}\"\n[link.mka]")),
                )
                .unwrap();
                reloaded(&group.scratch, name);
            }
            // Unless any is allowed, it is the standard's.
            let wanted = if suite == "auto" { "gcm-aes-128" } else { suite };
            let is_so = |mka: &MkaReport| {
                mka.trouble.is_none() && mka.sak().is_some_and(|sak| suite == "any" || sak.suite == wanted)
            };
            all([&a, &b], suite, is_so);
        }
    });
    stop([a, b]);
}

/// Lets the middle pass EAPOL, or not.
fn eapol_passes(group: &Group, passes: bool) {
    let mask = if passes { "0xfffd" } else { "0xfff5" };
    group.topology.middle.ip(&["link", "set", LEFT, "type", "bridge_slave", "group_fwd_mask", mask]).unwrap();
}

#[test]
fn who_loses_its_peer_blocks_or_holds_and_comes_back() {
    let group = Group::new();
    group.cak("line.cak", "line");
    group.configure("a", LINE);
    group.configure("b", &format!("{LINE}\non_peer_loss = \"hold\""));
    let [a, b] = ["a", "b"].map(|name| group.start(name));
    all([&a, &b], "it is secured", secured_with(1));
    // A filter on the way eats EAPOL in both directions.
    eapol_passes(&group, false);
    let right = ["link", "set", lab::topology::RIGHT, "type", "bridge_slave", "group_fwd_mask"];
    group.topology.middle.ip(&[&right[..], &["0xfff5"]].concat()).unwrap();
    until(&a, "it blocks", |mka| !mka.secured && mka.live_peers() == 0);
    until(&b, "it holds", |mka| mka.secured && mka.live_peers() == 0);
    let concerns = |station: &Station| station.report().unwrap().links.remove(0).concerns;
    let (blocked, held) = (concerns(&a), concerns(&b));
    assert!(blocked[0].grave && blocked[0].text.contains("No other station is heard"), "{blocked:?}");
    assert!(held.iter().any(|one| !one.grave && one.text.contains("on_peer_loss = \"hold\"")), "{held:?}");
    assert!(held.iter().all(|one| !one.grave), "{held:?}");
    // Nothing in clear, and nothing at all from A.
    let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
    let (from, to) = (&group.topology.machine_a, &group.topology.machine_b);
    assert!(traffic::ping(from, to, Ip::V4, 1, 64).is_err(), "nothing passes");
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(wire.find(MARKER).is_none() && wire.of_ethertype(0x0800).count() == 0);
    eapol_passes(&group, true);
    group.topology.middle.ip(&[&right[..], &["0xfffd"]].concat()).unwrap();
    all([&a, &b], "it is secured again", secured_with(1));
    group.ping();

    // Either one starts again, without a word or with one.
    let before = ki(&b);
    let mut a = a;
    a.program().signal(Signal::SIGKILL).unwrap();
    drop(a);
    let a = group.start("a");
    all([&a, &b], "A is back", |mka| secured_with(1)(mka) && mka.sak().unwrap().ki != before);
    group.ping();
    let before = ki(&a);
    b.stop().unwrap();
    let b = group.start("b");
    all([&a, &b], "B is back", |mka| secured_with(1)(mka) && mka.sak().unwrap().ki != before);
    group.ping();
    stop([a, b]);
}

#[test]
fn a_wrong_cak_is_told_and_no_secret_ever_is() {
    let group = Group::new();
    for (file, ckn) in [("line.cak", "line"), ("wrong.cak", "line"), ("lane.cak", "lane")] {
        group.cak(file, ckn);
    }
    let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
    group.configure("a", LINE);
    group.configure("b", "cak_file = \"wrong.cak\"");
    let [a, b] = ["a", "b"].map(|name| group.start(name));
    let trouble = |words: &'static str| {
        move |mka: &MkaReport| mka.trouble.as_ref().is_some_and(|trouble| trouble.contains(words))
    };
    until(&a, "another CAK is told", trouble("has another CAK"));
    let report = a.report().unwrap();
    assert!(counter(&mka(&report).counters, "MkpdusWrongIcv") > 0);
    assert!(report.links[0].concerns[0].grave && !mka(&report).secured);
    group.configure("b", "cak_file = \"lane.cak\"");
    reloaded(&group.scratch, "b");
    until(&b, "another CKN is told", trouble("under another CKN"));
    group.configure("b", LINE);
    reloaded(&group.scratch, "b");
    all([&a, &b], "the right one is taken", secured_with(1));
    group.ping();

    let mut said = vec![
        group.command(&["status", "--all", "a"]).stdout,
        group.command(&["status", "--json", "a"]).stdout,
    ];
    said.push(group.command(&["check", "--offline", &path(&group, "a.toml")]).stdout);
    assert!(said.iter().all(|text| text.contains(&hex("line"))), "{said:?}");
    said.extend([a, b].map(|station| station.stop().unwrap()));
    let wire = wire.stop().unwrap().complete().unwrap();
    for file in ["line.cak", "wrong.cak", "lane.cak"] {
        let kept = std::fs::read_to_string(path(&group, file)).unwrap();
        let digits = kept.lines().find_map(|line| line.strip_prefix("cak = ")).unwrap();
        assert_eq!(digits.len(), 32);
        for half in [&digits[..16], &digits[16..]] {
            assert!(said.iter().all(|text| !text.to_lowercase().contains(half)), "half of {file}");
        }
        let octets: Vec<_> =
            (0..16).map(|at| u8::from_str_radix(&digits[2 * at..][..2], 16).unwrap()).collect();
        assert!(wire.find(&octets[..8]).is_none() && wire.find(&octets[8..]).is_none());
    }
}

#[test]
fn a_third_gateway_joins_and_leaves_and_the_others_lose_nothing() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let c = third(&group.topology);
    let [a, b] = group.pair(LINE);
    group.configure("c", &format!("{LINE}\npriority = 1"));
    while_they_talk(&group.topology, || {
        let before = ki(&a);
        let third = Station::start(program(), &c, &group.scratch, "c").unwrap();
        all([&a, &b, &third], "three agree", secured_with(2));
        all([&a, &b], "a new member, a new key", |mka| mka.sak().is_some_and(|sak| sak.ki != before));
        let server = mka(&a.report().unwrap()).key_server.clone();
        assert_eq!(server.as_deref(), Some("02:00:00:00:00:d3/1"), "the lowest priority");
        third.stop().unwrap();
        all([&a, &b], "two go on", secured_with(1));
        assert!(mka(&a.report().unwrap()).is_key_server);
    });
    stop([a, b]);
}

/// The path between the key server and one member is cut, and the third one hears both: nothing is lost between those who
/// hear each other, the group settles with one SAK, and each says who is not heard by whom.
#[test]
fn a_cut_path_between_two_of_three_stops_no_other() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let c = third(&group.topology);
    c.ip(&["addr", "add", "10.77.0.5/24", "dev", "machine"]).unwrap();
    let [a, b] = group.pair(LINE);
    group.configure("c", &format!("{LINE}\npriority = 1"));
    let third = Station::start(program(), &c, &group.scratch, "c").unwrap();
    all([&a, &b, &third], "three agree", secured_with(2));
    let [a_sci, c_sci] =
        [&a, &third].map(|station| station.report().unwrap().links[0].secy.transmit.sci.clone());
    let machine_b = &group.topology.machine_b.namespace;
    machine_b.run(&["ping", "-n", "-q", "-c", "3", "-i", "0.2", "10.77.0.5"]).unwrap();

    // Ports that are isolated hear each other no more, and all others.
    let isolate = |on: &str| {
        for port in [LEFT, "third"] {
            let set = ["link", "set", port, "type", "bridge_slave", "isolated", on];
            group.topology.middle.ip(&set).unwrap();
        }
    };
    // B talks to both, in frames that pass only while they are fragmented.
    let machine_a = group.topology.machine_a.ipv4.to_string();
    let pings = [&machine_a, "10.77.0.5"]
        .map(|to| machine_b.spawn(&["ping", "-n", "-q", "-i", "0.05", "-W", "9", "-s", "1472", to]).unwrap());
    isolate("on");
    let says = |station: &Station, words: [&str; 2]| {
        until(station, "it says who is not heard", |mka| {
            mka.not_heard.iter().any(|gap| words.iter().all(|word| gap.contains(word)))
                && mka.trouble.as_deref() == mka.not_heard.first().map(String::as_str)
        });
    };
    says(&a, [&c_sci, "not by this station"]);
    says(&third, [&a_sci, "not by this station"]);
    says(&b, [&a_sci, &c_sci]);
    let mut kis = BTreeSet::from([ki(&b)]);
    // The station that hears all becomes key server; after that nothing changes any more.
    let (latest, mut settled) = (Instant::now() + 4 * DEADLINE, None::<Instant>);
    while settled.is_none_or(|since| since.elapsed() < Duration::from_secs(12)) {
        let report = b.report().unwrap();
        let mka = mka(&report);
        assert!(mka.secured && Instant::now() < latest, "{mka:#?}");
        if kis.insert(ki(&b)) || settled.is_none() {
            settled = (mka.is_key_server && kis.len() > 1).then(Instant::now);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    for ping in pings {
        ping.signal(Signal::SIGINT).unwrap();
        let pinged = ping.wait(DEADLINE).unwrap().stdout;
        let before = |words: &str| -> u64 {
            let number = pinged.split(words).next().unwrap().rsplit([' ', '\n']).next().unwrap();
            number.parse().unwrap()
        };
        let (sent, answered) = (before(" packets transmitted"), before(" received"));
        // The last one may be under way.
        assert!(sent > 200 && sent - answered <= 1, "{pinged}");
    }
    assert_eq!(kis.len(), 2, "SAK after SAK: {kis:?}");
    let used = ki(&b);
    all([&a, &third], "one key", |mka| mka.sak().is_some_and(|sak| sak.ki == used));
    isolate("off");
    all([&a, &b, &third], "three agree again", |mka| secured_with(2)(mka) && mka.trouble.is_none());
    stop([a, b, third]);
}
