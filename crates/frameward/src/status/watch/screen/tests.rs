use std::time::Instant;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::*;
use report::samples::{agreed, sample};
use report::{Counters, GatewayReport};

fn report(uptime_ms: u64, frames: u64) -> GatewayReport {
    let mut report = sample("line");
    report.uptime_seconds = uptime_ms / 1000;
    report.uptime_ms = uptime_ms;
    let link = &mut report.links[0];
    for (port, names) in [
        (&mut link.plain, ["RxFrames", "RxOctets", "TxFrames", "TxOctets"]),
        (&mut link.protected, ["TxFrames", "TxOctets", "RxFrames", "RxOctets"]),
    ] {
        let counters = names.into_iter().zip([frames, 1000 * frames, 0, 0]);
        port.counters = counters.map(|(name, value)| (name.into(), value)).collect();
    }
    link.secy.counters = Counters::new(&["InPktsNoTag", "OutPktsUntagged"], [frames / 100, 0]);
    report
}

fn seen() -> View {
    let mut view = View { name: "line".into(), ..View::default() };
    view.take(Ok(report(60_000, 1000)));
    view.take(Ok(report(61_000, 3000)));
    view
}

fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view, true)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect()
}

#[test]
fn a_gateway_on_the_screen() {
    assert_eq!(
        drawn(&mut seen(), 100, 19),
        [
            "gateway line  version 0.1.0, up 00:01:01  live",
            "",
            "link press  ATTENTION  gcm-aes-128, validate strict, replay window 32",
            "  ! no keys: No receive SA is in use, so no peer's frame can be verified.",
            "                                  machine                     network",
            "                   frames/s        Mbit/s      frames/s        Mbit/s",
            "  to network           2000         16.00          2000         16.00",
            "  from network            0          0.00             0          0.00",
            "  plain        eth0, af_xdp native, MTU 1532, received 3000, sent 0 frames, guard tcx",
            "  protected    eth1, af_xdp native, MTU 1532, received 0, sent 3000 frames, guard tcx",
            "  discards",
            "  ^ InPktsNoTag                     30  rising 20.0/s   Discarded: without SecTAG. (SecY)",
            "  transmit     SC 02:00:00:00:00:01/1, SA 1, in use, next PN 9, key 0011223344556677, 49 days left",
            "  receive      SC 02:00:00:00:00:02/1, SA 1, NOT IN USE, lowest PN 1099511627776, key 00112233445566",
            "",
            "",
            "",
            "",
            "q quits",
        ]
    );
}

#[test]
fn key_agreement_on_the_screen() {
    let mut view = View { name: "line".into(), ..View::default() };
    view.take(Ok(agreed("line")));
    let screen = drawn(&mut view, 140, 24);
    let at = screen.iter().position(|line| line.contains("key agreement")).unwrap();
    assert_eq!(
        screen[at..at + 4],
        [
            "  key agreement secured, this box is key server",
            "               member 02:00:00:00:00:02/1, named \"press-b\" by itself, live, heard 0.4 s ago, priority 32, MI 101112131415161718191a1b",
            "               SAK 000102030405060708090a0b/7, AN 1, gcm-aes-128, encrypted, protects, 1d 02:03:04 old",
            "               1.5 s ago: SAK 000102030405060708090a0b/7 protects",
        ]
    );
    assert!(screen[2].starts_with("link press  PROTECTING"), "{screen:?}");
}

#[test]
fn a_gateway_that_goes_away_and_comes_back_is_told() {
    let mut view = View { name: "line".into(), ..View::default() };
    assert_eq!(drawn(&mut view, 60, 3), ["gateway line  asking", "", "q quits"]);
    view.take(Err("no gateway".into()));
    assert_eq!(drawn(&mut view, 60, 3)[..2], ["gateway line  NO ANSWER", "no gateway"]);
    view.take(Ok(report(60_000, 1000)));
    view.take(Err("no gateway".into()));
    let away = drawn(&mut view, 70, 8);
    assert!(away[0].ends_with("NO ANSWER, figures 0 s old"), "{away:?}");
    assert_eq!(away[1], "no gateway");
    assert!(away[2].starts_with("link press"), "the last figures stay: {away:?}");
    view.take(Ok(report(1_000, 5)));
    let back = drawn(&mut view, 70, 8);
    assert!(back[0].ends_with("live") && back[1].is_empty(), "{back:?}");
    let Some((at, ..)) = view.seen else { panic!("a report was taken") };
    assert!(at <= Instant::now());
}

#[test]
fn every_size_is_drawn_and_what_does_not_fit_is_scrolled_to() {
    let mut view = seen();
    for (width, height) in [(1, 1), (2, 3), (20, 5), (300, 2), (80, 24)] {
        drawn(&mut view, width, height);
    }
    let low = drawn(&mut view, 100, 8);
    assert_eq!(low[7], "q quits   more below: arrows, page down");
    view.top = u16::MAX;
    let end = drawn(&mut view, 100, 8);
    assert!(end[5].starts_with("  receive"), "{end:?}");
    assert_eq!(end[7], "q quits");
}

/// With NO_COLOR set no cell has a colour.
#[test]
fn without_colours_there_are_none() {
    let coloured = |colour| {
        let mut terminal = Terminal::new(TestBackend::new(100, 19)).unwrap();
        terminal.draw(|frame| draw(frame, &mut seen(), colour)).unwrap();
        terminal.backend().buffer().content().iter().any(|cell| cell.fg != Color::Reset)
    };
    assert!(coloured(true) && !coloured(false));
}

#[test]
fn a_site_on_the_screen() {
    let sited = |uptime_ms: u64, frames: u64| {
        let mut report = report(uptime_ms, 0);
        report.links.clear();
        let mut site = report::samples::sample_site();
        site.lan.counters = Counters::new(&["RxFrames", "RxOctets"], [frames, 1000 * frames]);
        site.udp[0].counters = Counters::new(&["TxPackets", "TxOctets"], [frames, 900 * frames]);
        site.tunnel = Counters::new(&["InPktsUnknownIdentifier"], [frames / 100]);
        report.sites = vec![site];
        report
    };
    let mut view = View { name: "line".into(), ..View::default() };
    view.take(Ok(sited(60_000, 1000)));
    view.take(Ok(sited(61_000, 3000)));
    let lines = drawn(&mut view, 110, 16);
    assert_eq!(
        lines[2..9],
        [
            "site dresden  PROTECTING  stations: 1 here, 1 elsewhere",
            "    protecting: All peers are connected: 1.",
            "                                      LAN                 other sites",
            "                   frames/s        Mbit/s      frames/s        Mbit/s",
            "  to network           2000         16.00          2000         14.40",
            "  from network            0          0.00             0          0.00",
            "  LAN          eth2, af_xdp native, MTU 1470, received 3000, sent 0 frames, guard tcx",
        ]
    );
    for words in [
        "^ InPktsUnknownIdentifier          30  rising 20.0/s",
        &format!("  {:<22}{:>12}", "InPktsLate", 2),
        "peer         berlin, identifier, connected for 00:01:01, at 198.51.100.7:7787, 812 us, paths 1/2, payload",
    ] {
        assert!(lines.iter().any(|line| line.contains(words)), "{words:?} is not in {lines:#?}");
    }
}

#[test]
fn a_cell_on_the_screen() {
    let mut view = View { name: "line".into(), ..View::default() };
    let mut report = sample("line");
    let mut cell = report::samples::sample_cell();
    cell.rest = "drop".into();
    report.links[0].fieldbus = Some(cell);
    view.take(Ok(report));
    let screen = drawn(&mut view, 160, 30);
    let at = screen.iter().position(|line| line.contains("fieldbus cell-4")).unwrap();
    assert_eq!(
        screen[at..at + 4],
        [
            "  fieldbus cell-4, gcm-aes-128, encrypt; rest dropped; master key 0011223344556677; relations: 1",
            "    02:00:00:00:01:01 (here) 0x8001, 02:00:00:00:01:02 0x8002, each 1 ms: running, out KeyID 17 epoch 1 Seq 1000, in KeyID 200 epoch 1 Seq 1000",
            "      out: inside p50 <= 20 us, p99.9 <= 20 us, worst 70 us",
            "      in: inside p50 <= 20 us, p99.9 <= 20 us, worst 70 us; jitter p50 <= 20 us, p99.9 <= 20 us, worst 70 us; longest gap 1.6 ms, alarm at 1.5 ms, watchdog 3 ms",
        ]
    );
    assert!(screen[at + 4].contains("alarms: 1"));
    assert!(
        screen
            .iter()
            .any(|line| line.contains("InPktsLate") && line.contains("0x8002 from 02:00:00:00:01:02"))
    );
    assert!(!screen.iter().any(|line| line.contains("SC 02:")), "{screen:?}");
}
