//! Stations that have a CAK and should have no say: one out of a box that was lost, with the fallback alone, and one whose keys
//! hide less than this box is to hide.

use std::process::Command;
use std::time::{Duration, Instant};

use lab::topology::PROTECTED;
use lab::{Namespace, PacketSocket};
use perf::demo::pair::Station;
use report::mka::MkaReport;

use super::lost_frames::{Lost, without_loss};
use super::mka::{Group, LINE, all, ki, mka, path, secured_with, stop, third, until};
use super::reload::{hear, reloaded};
use super::{DEADLINE, counter, program};

/// A moment in so many seconds, as a configuration writes it.
fn moment_in(seconds: u32) -> String {
    let date =
        Command::new("date").args(["-u", "-d", &format!("{seconds} seconds"), "+%FT%TZ"]).output().unwrap();
    String::from_utf8(date.stdout).unwrap().trim().to_owned()
}

fn has_verdict(station: &Station, words: &str) -> bool {
    station.report().unwrap().links[0].concerns.iter().any(|concern| concern.text.contains(words))
}

#[test]
fn who_has_the_fallback_alone_takes_no_link_over_and_is_told() {
    without_loss(|| {
        let group = Group::new();
        group.cak("line.cak", "line");
        group.cak("old.cak", "old");
        let c = third(&group.topology);
        let [a, b] = group.pair(&format!("{LINE}\nfallback_cak_file = \"old.cak\""));
        group.configure("c", "cak_file = \"old.cak\"\npriority = 0");
        let heard = hear(&group.topology, || a_rogue_comes_and_its_cak_ends(&group, &c, [&a, &b]));
        assert!(heard.iter().all(|heard| heard.numbers.is_sorted()), "out of order");
        let lost = Lost::of(&heard, &group.topology, [&a, &b]);
        for station in [a, b] {
            let log = station.stop().unwrap();
            assert!(log.contains("stranger-under-cak: 02:00:00:00:00:d3/1"), "{log}");
            assert!(log.contains("fallback-ended"), "{log}");
        }
        (lost, ())
    });
}

fn a_rogue_comes_and_its_cak_ends(group: &Group, c: &Namespace, [a, b]: [&Station; 2]) {
    let before = ki(a);
    let rogue = Station::start(program(), c, &group.scratch, "c").unwrap();
    let sees_it =
        |mka: &MkaReport| mka.strangers.iter().any(|stranger| stranger.sci == "02:00:00:00:00:d3/1");
    all([a, b], "the stranger is told", sees_it);
    assert_eq!([ki(a), ki(b)], [before.clone(), before]);
    assert!(has_verdict(a, "is not known to belong to this link"));
    assert!(mka(&rogue.report().unwrap()).sak().is_none_or(|sak| sak.ki != ki(a)));
    // Its time is over: the fallback is not even spoken under any more, and the stranger hears nobody.
    for name in ["a", "b"] {
        let until = moment_in(3);
        group.configure(name, &format!("{LINE}\nfallback_cak_file = \"old.cak\"\nfallback_until = {until}"));
        reloaded(&group.scratch, name);
    }
    all([a, b], "the fallback ends", |mka| mka.caks.len() == 1 && mka.strangers.is_empty());
    until(&rogue, "it hears nobody", |mka| mka.live_peers() == 0);
    rogue.stop().unwrap();
}

#[test]
fn keys_that_hide_less_than_configured_are_refused_unless_allowed() {
    let group = Group::new();
    group.cak("line.cak", "line");
    group.configure("a", LINE);
    group.configure("b", &format!("{LINE}\npriority = 0"));
    let open = |name: &str| {
        let file = path(&group, &format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("replay_window", "encrypt = false\nreplay_window")).unwrap();
    };
    open("b");
    let [a, b] = ["a", "b"].map(|name| group.start(name));
    until(&a, "it is refused", |mka| {
        mka.trouble.as_ref().is_some_and(|trouble| trouble.contains("accept_integrity"))
    });
    let report = a.report().unwrap();
    assert!(!mka(&report).secured && mka(&report).saks.is_empty());
    assert!(counter(&mka(&report).counters, "SaksWeaker") > 0);
    group.configure("a", &format!("{LINE}\naccept_integrity = true"));
    reloaded(&group.scratch, "a");
    all([&a, &b], "it is taken", secured_with(1));
    assert_eq!(mka(&a.report().unwrap()).sak().unwrap().confidentiality, "integrity");
    group.ping();
    let log = {
        let log = a.stop().unwrap();
        stop([b]);
        log
    };
    assert!(log.contains("integrity-refused"), "{log}");
}

/// Messages of a stranger are recorded, up to a mebibyte; entries that count go on being recorded.
#[test]
fn who_has_no_cak_cannot_fill_the_record_of_a_key_agreement() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let c = third(&group.topology);
    let record = path(&group, "a.kay");
    group.configure("a", &format!("{LINE}\nrecord = \"{record}\""));
    group.configure("b", LINE);
    let [a, b] = ["a", "b"].map(|name| group.start(name));
    group.secured(&[&a, &b]);
    let stranger = PacketSocket::open(&c, PROTECTED).unwrap();
    // EAPOL-MKA, as long as it says; no parameter set of anybody's.
    let head = [1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 9, 0x88, 0x8e, 3, 5, 0x05, 0x78];
    let garbage = [&head[..], &[0x5a; 1400]].concat();
    let read = || std::fs::read_to_string(&record).unwrap();
    let flood = || {
        (0..64).for_each(|_| stranger.send(&garbage).unwrap());
        std::thread::sleep(Duration::from_millis(50));
    };
    let end = Instant::now() + DEADLINE;
    while !read().contains("strangers_full") {
        assert!(Instant::now() < end, "{} octets are recorded", read().len());
        flood();
    }
    let full = read().len();
    (0..20).for_each(|_| flood());
    let before = ki(&a);
    let rekeyed = group.command(&["rekey", "a", "press"]);
    assert!(rekeyed.status.success(), "{}", rekeyed.stderr);
    assert_ne!(ki(&a), before);
    group.ping();
    stop([a, b]);
    let text = read();
    assert!((1 << 19..2 << 20).contains(&full), "{full} octets");
    assert!(text.len() < full + (1 << 20), "{} octets", text.len());
    assert_eq!(text.matches("strangers_full").count(), 1);
    assert!(text.contains("rekey"), "what counts is there");
}
