//! A log of one of two KaYs that agree on a SAK, told to a third: it does the same.

use std::collections::VecDeque;
use std::fs;
use std::io::BufReader;
use std::time::Duration;

use mka::{Announced, CakEntry, Event, Input, Kay, OnPeerLoss, Report, Settings, SuiteRule, SuiteTiming};
use suite::CipherSuite;
use suite::mka::Cak;
use wire::mkpdu::{Capability, Confidentiality, SystemName};
use wire::{Ckn, Instant, MacAddr, Sci};

use super::{KayLog, LoggedSettings};
use crate::inspect::replay::{Replay, ReplayError};
use config::key_file::NamedCak;
use testkit::TestDirectory;

const CAK: [u8; 16] = *b"not so secret !!";

fn ckn() -> Ckn {
    Ckn::new(b"line").expect("a name")
}

fn caks() -> Vec<CakEntry> {
    vec![CakEntry { ckn: ckn(), cak: Cak::new(&CAK).expect("16 octets") }]
}

fn settings(station: u8, priority: u8) -> Settings {
    let source = MacAddr([2, 0, 0, 0, 0, station]);
    Settings {
        sci: Sci::new(source, 1),
        source,
        destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
        priority,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Any,
        announced: Announced {
            reassembles: true,
            splits: true,
            carries_whole: false,
            in_kernel: false,
            express: true,
            takes_padded: true,
            largest_sdu: 1500,
            name: SystemName::new(b"Nord-1").ok(),
            suites: vec![SuiteTiming { suite: CipherSuite::GcmAes256, nanoseconds: 120 }],
        },
        fragment: true,
        concatenate: false,
        pad: true,
        delay_protect: false,
        sak_lifetime: Some(Duration::from_secs(3600)),
        on_peer_loss: OnPeerLoss::Hold,
        peers: vec![],
        accept_integrity: false,
    }
}

/// A KaY with a SecY that does at once what it is asked for, and with or without a log.
struct Station {
    kay: Kay,
    log: Option<KayLog>,
    sent: Vec<Vec<u8>>,
}

impl Station {
    fn handle_input(&mut self, now: Instant, told: Input<'_>, wire: &mut VecDeque<Vec<u8>>) {
        if let Some(log) = &mut self.log {
            log.told(now, told);
        }
        self.kay.handle_input(now, told);
        self.follow(now, wire);
    }

    fn follow(&mut self, now: Instant, wire: &mut VecDeque<Vec<u8>>) {
        let mut reports = Vec::new();
        while let Some(event) = self.kay.poll_event() {
            match event {
                Event::Install(sak) => reports.push(Report::Installed(sak.ki)),
                Event::EnableTransmit(ki) => reports.push(Report::Transmitting(ki)),
                _ => {}
            }
        }
        while let Some(frame) = self.kay.poll_transmit(now) {
            self.sent.push(frame.to_vec());
            wire.push_back(frame.to_vec());
        }
        for report in reports {
            self.handle_input(now, Input::Report(report), wire);
        }
    }
}

/// Two KaYs for some seconds; the first one keeps a log.
fn agree(log: KayLog, start: Instant) -> [Station; 2] {
    let mut stations = [(1, 16), (2, 32)].map(|(station, priority)| {
        let kay = Kay::new(start, settings(station, priority), caks(), &[station; 32]);
        Station { kay, log: None, sent: Vec::new() }
    });
    stations[0].log = Some(log);
    let mut now = start;
    let mut wires: [VecDeque<Vec<u8>>; 2] = [VecDeque::new(), VecDeque::new()];
    for step in 0..500 {
        for (me, other) in [(0, 1), (1, 0)] {
            while let Some(frame) = wires[other].pop_front() {
                stations[me].handle_input(now, Input::Frame(&frame), &mut wires[me]);
            }
            stations[me].handle_input(now, Input::Timeout, &mut wires[me]);
        }
        if step == 250 {
            stations[0].handle_input(now, Input::Rekey, &mut wires[0]);
        }
        now = now + Duration::from_millis(20);
    }
    stations
}

#[test]
fn a_log_does_it_again() {
    let directory = TestDirectory::new("kay-log");
    let path = directory.path().join("press.kay");
    let start = Instant::after_start(Duration::from_secs(3));
    // The KaYs' ten seconds go by in a moment.
    let mut log = KayLog::of_at_most(u64::MAX, 1 << 16, &path).expect("a new file");
    log.began(start, "press", &settings(1, 16), &[ckn()], &[1; 32]);
    let [mut one, other] = agree(log, start);
    // Written, before it is read.
    drop(one.log.take());
    let status = one.kay.status(start + Duration::from_secs(10));
    assert_eq!(
        (status.fault, status.is_key_server, status.saks.first().map(|sak| sak.ki.kn)),
        (None, true, Some(2))
    );
    assert_eq!(other.kay.status(start).fault, None);

    let text = fs::read_to_string(&path).expect("a log");
    assert!(!text.contains(&hex::encode(CAK)), "no CAK");
    let replay = |caks| {
        let mut told = Vec::new();
        let status = Replay::new(caks).run(BufReader::new(text.as_bytes()), |line| {
            told.push(line.to_owned());
            true
        });
        (status, told)
    };
    let (again, told) = replay(vec![NamedCak::new(ckn(), &CAK).expect("16 octets")]);
    let again = again.expect("a log").expect("a KaY");
    assert_eq!(
        (again.mi, &again.saks, &again.members, &again.changes),
        (status.mi, &status.saks, &status.members, &status.changes)
    );
    let sent =
        told.iter().flat_map(|entry| entry.lines()).filter(|line| line.contains("  sent MKPDU of")).count();
    assert_eq!(sent, one.sent.len());
    for expected in [
        "received MKPDU of 02:00:00:00:00:02/1",
        "SecY: install SAK",
        "SecY: protect with SAK",
        "; distributes SAK 2",
    ] {
        assert!(told.iter().any(|entry| entry.contains(expected)), "{expected}");
    }

    let (without, _) = replay(Vec::new());
    assert!(matches!(without, Err(ReplayError::NoCak { line: 1, .. })), "{without:?}");
}

#[test]
fn a_log_that_is_full_says_so_once() {
    let directory = TestDirectory::new("kay-log-full");
    let path = directory.path().join("press.kay");
    for _ in 0..2 {
        let mut log = KayLog::of_at_most(1500, 256, &path).expect("a file");
        log.began(Instant::START, "press", &settings(1, 16), &[ckn()], &[1; 32]);
        (0..100).for_each(|_| log.told(Instant::START, Input::Timeout));
    }
    let text = fs::read_to_string(&path).expect("a log");
    assert!((1500..1600).contains(&text.len()), "{}", text.len());
    assert_eq!(text.matches("full").count(), 1, "{text}");
    let mut last = String::new();
    let caks = vec![NamedCak::new(ckn(), &CAK).expect("16 octets")];
    let replayed = Replay::new(caks).run(text.as_bytes(), |line| {
        last = line.to_owned();
        true
    });
    assert!(replayed.is_ok() && last.contains("the log is full"), "{last}");
}

#[test]
fn what_is_no_log_is_refused() {
    for (text, expected) in [
        ("", Ok(())),
        ("no log", Err(1)),
        (r#"{"t":1,"timeout":null}"#, Err(1)),
        (r#"{"t":1}"#, Err(1)),
        (r#"{"t":1,"frame":"xyz"}"#, Err(1)),
    ] {
        let outcome = Replay::new(Vec::new()).run(text.as_bytes(), |_| true);
        let line = outcome.map(drop).map_err(|error| match error {
            ReplayError::Malformed { line, .. } => line,
            other => panic!("{other}"),
        });
        assert_eq!(line, expected, "{text}");
    }
}

#[test]
fn settings_are_read_as_they_were_written() {
    let mut other = settings(7, 255);
    other.suite = SuiteRule::Only(CipherSuite::GcmAesXpn256);
    (other.confidentiality, other.on_peer_loss) = (Confidentiality::Integrity, OnPeerLoss::Block);
    (other.sak_lifetime, other.delay_protect, other.announced.splits) = (None, true, false);
    (other.announced.carries_whole, other.announced.in_kernel) = (true, true);
    for settings in [settings(1, 16), other] {
        let text = serde_json::to_string(&LoggedSettings::from(&settings)).expect("settings");
        let read: LoggedSettings = serde_json::from_str(&text).expect("settings");
        assert_eq!(read.settings(), Some(settings));
    }
}

#[test]
fn who_has_no_cak_cannot_fill_a_log() {
    let directory = TestDirectory::new("kay-log-strangers");
    let path = directory.path().join("press.kay");
    let mut log = KayLog::create(&path).expect("a file");
    log.began(Instant::START, "press", &settings(1, 16), &[ckn()], &[1; 32]);
    let garbage = [&[1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 9, 0x88, 0x8e][..], &[0x5a; 1400]].concat();
    // A KaY says which frames those are.
    let mut kay = Kay::new(Instant::START, settings(1, 16), caks(), &[1; 32]);
    assert!(!kay.handle_input(Instant::START, Input::Frame(&garbage)));
    let read = || fs::read_to_string(&path).expect("a log");
    for round in 1..=10 {
        (0..200).for_each(|_| log.stranger(Instant::START, &garbage));
        log.told(Instant::START, Input::Timeout);
        while read().matches("timeout").count() < round {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    log.told(Instant::START, Input::Rekey);
    drop(log);
    let text = read();
    assert!(text.len() < 2 << 20, "{} octets", text.len());
    assert_eq!(text.matches("strangers_full").count(), 1, "once");
    assert_eq!(text.matches("timeout").count(), 10, "what counts is there");
    assert!(text.lines().last().is_some_and(|line| line.contains("rekey")));
}

/// A pipe that nobody reads stands still as a disk may.
#[test]
fn a_disk_that_stands_still_holds_nobody_up() {
    let directory = TestDirectory::new("kay-log-stalled");
    let path = directory.path().join("press.kay");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let reader = fs::OpenOptions::new().read(true).write(true).open(&path).expect("its other end");
    let mut log = KayLog::create(&path).expect("it is open");
    let begun = std::time::Instant::now();
    let told = 20_000_u64;
    (0..told).for_each(|_| log.told(Instant::START, Input::Timeout));
    drop(log);
    assert!(begun.elapsed() < Duration::from_secs(60), "it waited for the pipe");
    // Entries that wait are written once somebody reads; then the log tells how many are missing.
    let (mut lines, mut lost) = (0, 0);
    for line in std::io::BufRead::lines(BufReader::new(reader)) {
        let line: super::Line = serde_json::from_str(&line.expect("text")).expect("a line");
        match line.entry {
            super::Entry::Timeout(()) => lines += 1,
            super::Entry::Lost(entries) => lost += entries,
            other => panic!("{other:?}"),
        }
        if lines + lost == told {
            break;
        }
    }
    assert!(lost > 0 && lines + lost == told, "{lines} written, {lost} lost");
}

/// A trace of the model of a group: a loss, a restart, and the SAKs that follow.
#[test]
fn a_trace_of_the_models_is_a_log() {
    use models::kay::{Setup, Step, World};

    let world = World::new(Setup { faults: 2, ..Setup::group(2) });
    let fair = [
        Step::Deliver { from: 0, to: 1 },
        Step::Deliver { from: 1, to: 0 },
        Step::Report(0),
        Step::Report(1),
    ];
    let mut trace = vec![Step::Lose { from: 0, to: 1 }];
    let mut state = world.run(&trace).expect("it is on its way");
    for round in 0..60 {
        if round == 30 {
            trace.push(Step::Restart(1));
        }
        let possible = |step: &Step| world.run(&[&trace[..], &[*step]].concat()).is_ok();
        trace.push(fair.into_iter().find(possible).unwrap_or(Step::Pass));
        state = world.run(&trace).expect("a step that is possible");
    }
    let directory = TestDirectory::new("kay-trace");
    for (i, (begin, start, told)) in world.told(&state).into_iter().enumerate() {
        let path = directory.path().join(format!("{i}.kay"));
        let mut log = KayLog::of_at_most(u64::MAX, 1 << 16, &path).expect("a new file");
        let ckns: Vec<_> = begin.caks.iter().map(|octet| Ckn::new(&[*octet]).expect("a name")).collect();
        log.began(start, "model", &begin.settings, &ckns, &begin.seed);
        let mut kay = begin.kay(start);
        let poll =
            |kay: &mut Kay, now| while kay.poll_event().is_some() || kay.poll_transmit(now).is_some() {};
        poll(&mut kay, start);
        let mut end = start;
        for (now, told) in &told {
            let input = told.input().expect("no upgrade");
            log.told(*now, input);
            kay.handle_input(*now, input);
            poll(&mut kay, *now);
            end = *now;
        }
        drop(log);
        let caks = vec![NamedCak::new(ckns[0], &[1; 16]).expect("16 octets")];
        let text = fs::read(&path).expect("a log");
        let again =
            Replay::new(caks).run(BufReader::new(&text[..]), |_| true).expect("a log").expect("a KaY");
        let status = kay.status(end);
        assert_eq!(
            (again.mi, &again.saks, &again.changes),
            (status.mi, &status.saks, &status.changes),
            "station {i}"
        );
        assert!(!again.saks.is_empty(), "station {i} has a SAK");
    }
}
