//! Cover end to end: a capture of the network shows frames of one size at one rate, whether machines send or not.

use std::thread;
use std::time::Duration;

use lab::topology::LEFT;
use lab::traffic::{self, Ip, MARKER, Until};
use lab::{Capture, Captured, Shape};
use perf::demo::pair::Choice;
use report::GatewayReport;
use wire::EtherType;
use wire::extension::padded::{COVER_DESTINATION, COVER_MARK};

use super::mka::{Group, LINE, discards, mka, stop, until};
use super::reload::reloaded;
use super::{EXPERIMENT, counter, exchange, lab, marked};

/// Frames a second.
const RATE: usize = 200;
const SIZE: usize = 1000;
const COVER: &str = "cover = { rate = 200, size = 1000 }";
const SECONDS: usize = 3;

fn sent(report: &GatewayReport, name: &str) -> u64 {
    counter(&report.links[0].secy.counters, name)
}

/// All protected frames are alike in what is in clear, and each end sent about as many as there were ticks: never more, and fewer only
/// by ticks that it says it missed.
fn assert_tells_nothing(wire: &Captured, missed: u64) {
    let mut of_each = std::collections::BTreeMap::<_, usize>::new();
    for frame in wire.of_ethertype(EtherType::MACSEC.0) {
        assert_eq!(frame.octets.len(), SIZE);
        assert_eq!((&frame.octets[..6], frame.octets[15]), (&COVER_DESTINATION.0[..], 0x80));
        assert_eq!(frame.octets[28..30], COVER_MARK);
        *of_each.entry(frame.octets[6..12].to_vec()).or_default() += 1;
    }
    assert_eq!(of_each.len(), 2, "{of_each:?}");
    for (of, frames) in of_each {
        // A capture begins and ends when it does, on a busy machine some time later.
        let most = RATE * (SECONDS + 2);
        let least = (RATE * SECONDS * 9 / 10).saturating_sub(missed as usize);
        assert!((least..=most).contains(&frames), "{frames} of {of:02x?}, {missed} ticks missed");
    }
}

fn missed(reports: &[GatewayReport]) -> u64 {
    reports.iter().map(|report| sent(report, "OutTicksMissed")).sum()
}

#[test]
fn an_idle_link_and_a_busy_one_look_alike() {
    let group = Group { link: COVER, ..Group::new() };
    group.cak("line.cak", "line");
    let [a, b] = group.pair(LINE);
    let reports = || [&a, &b].map(|station| station.report().unwrap());
    for station in [&a, &b] {
        until(station, "it has cover", |mka| mka.fragmentation.covered);
    }
    let (one, other) = (&group.topology.machine_a, &group.topology.machine_b);
    for busy in [false, true] {
        let wire = Capture::start(&group.topology.middle, LEFT).unwrap();
        if busy {
            traffic::ping(one, other, Ip::V4, 3, 1472).unwrap();
            let frames: Vec<_> = (0..=1500)
                .step_by(50)
                .map(|octets| marked(other.mac, one.mac, EXPERIMENT, octets, 1))
                .collect();
            exchange(one, other, &frames);
            traffic::tcp(one, other, Ip::V4, Until::Octets(100_000)).unwrap();
        } else {
            thread::sleep(Duration::from_secs(SECONDS as u64));
        }
        let wire = wire.stop().unwrap().complete().unwrap();
        if busy {
            // However long that took: no frame but those of the ticks.
            for frame in wire.of_ethertype(EtherType::MACSEC.0) {
                assert_eq!((frame.octets.len(), &frame.octets[28..30]), (SIZE, &COVER_MARK[..]));
            }
            assert_eq!(wire.find(MARKER), None, "plaintext is on the network");
        } else {
            assert_tells_nothing(&wire, missed(&reports()));
        }
    }
    for report in reports() {
        assert!(sent(&report, "OutPktsCoverEmpty") > 0 && sent(&report, "InPktsPadding") > 0, "{report:#?}");
        assert!(sent(&report, "OutPktsCover") > sent(&report, "OutPktsCoverEmpty"), "{report:#?}");
        assert_eq!(report.links[0].concerns, []);
        assert_eq!(discards(&report), []);
        let path = report.links[0].secy.path.as_deref();
        assert_eq!(path, Some("user space: programs send no cover; remove [link.cover]"));
        assert!(mka(&report).fragmentation.padded);
    }
    let status = group.command(&["status", "a"]).stdout;
    assert!(status.contains("; padded, at a constant rate"), "{status}");
    stop([a, b]);
}

/// Frames cross at all times while a reload gives both ends cover, and takes it away.
#[test]
fn a_reload_switches_cover_on_and_off_without_a_lost_frame() {
    let mut group = Group::new();
    group.cak("line.cak", "line");
    let [a, b] = group.pair(LINE);
    let machines = [&group.topology.machine_a, &group.topology.machine_b];
    for link in [COVER, "", "cover = { rate = 500, size = 300 }", ""] {
        group.link = link;
        for name in ["a", "b"] {
            group.configure(name, LINE);
            reloaded(&group.scratch, name);
            let frames: Vec<_> = (0..20)
                .map(|number| {
                    marked(machines[1].mac, machines[0].mac, EXPERIMENT, 60 * number, number as u64)
                })
                .collect();
            exchange(machines[0], machines[1], &frames);
        }
        let covers = !link.is_empty();
        for station in [&a, &b] {
            until(station, "it has cover, or none", |mka| mka.fragmentation.covered == covers);
        }
    }
    for report in [&a, &b].map(|station| station.report().unwrap()) {
        assert_eq!(discards(&report), []);
        assert!(sent(&report, "OutPktsCover") > 0);
    }
    stop([a, b]);
}

#[test]
fn static_keys_have_cover_on_both_engines() {
    let shape = Shape { plain_mtu: 1500, protected_mtu: 1500, ..Shape::default() };
    for io in ["af_xdp", "af_packet"] {
        let (topology, pair) = lab(&shape, &Choice { io, link: COVER, ..Choice::default() });
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        thread::sleep(Duration::from_secs(SECONDS as u64));
        let wire = wire.stop().unwrap().complete().unwrap();
        let reports = [pair.a.report().unwrap(), pair.b.report().unwrap()];
        assert_tells_nothing(&wire, missed(&reports));
        traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 3, 1472).unwrap();
        pair.stop().unwrap();
    }
}
