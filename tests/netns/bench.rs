//! `frameward bench fragment` and `bench link` measure every case they promise, and leave nothing behind. One round, and
//! a short one: what the figures are is not judged here.

use std::time::Duration;

use bench::Row;
use frameward::bench::{Bench, BenchError, Effort};
use suite::CipherSuite;

use super::program;

/// One short round.
fn short(measure: fn(&mut Bench<'_>) -> Result<(), BenchError>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut bench = Bench {
        frameward: program(),
        effort: Effort { rounds: 1, time: Duration::from_millis(200), round_trips: 5 },
        only: &[],
        progress: &mut |line| println!("{line}"),
        figure: &mut |row| rows.push(row),
    };
    measure(&mut bench).unwrap();
    for row in rows.iter().filter_map(|row| row.ratio.as_ref()) {
        assert!(rows.iter().any(|other| other.case == row.to), "{} was not measured", row.to);
    }
    rows
}

#[test]
fn every_case_has_a_figure_and_every_figure_a_comparison() {
    let rows = short(|bench| bench.fragment());
    assert!(rows.iter().all(|row| row.value > 0.0 && row.bench == "fragment"), "{rows:?}");
    // Six in memory; four ways for three payloads, each with goodput and twice two round trips; small frames.
    assert_eq!(rows.len(), 6 + 3 * 4 * 5 + 6 + 5 + 4);
    let references = rows.iter().filter(|row| row.ratio.is_none()).count();
    assert_eq!(references, 2 + 3 * 5 + 3, "each comparison has one reference");
}

#[test]
fn a_link_is_compared_with_what_stands_around_it() {
    let rows = short(|bench| bench.link());
    // Of a transfer so short the CPU may not have counted a tick.
    let positive = |row: &Row| row.value > 0.0 || row.unit == "s/Gbit";
    assert!(rows.iter().all(|row| positive(row) && row.bench == "link"), "{rows:?}");
    // A bridge; bare, unprotected and nine suites on AF_XDP; bare, unprotected and one suite on AF_PACKET. Two sizes,
    // goodput, CPU, three percentiles. Then three ways of polling, idle and under load.
    let cases = 1 + 2 + CipherSuite::ALL.len() + 3;
    assert_eq!(rows.len(), cases * (2 + 2 + 3) + 3 * 3 * 2);
    let gcm = rows.iter().find(|row| row.case == "TCP, gcm-aes-128, af_packet").unwrap();
    assert_eq!(gcm.ratio.as_ref().unwrap().to, "TCP, unprotected, af_packet");
}
