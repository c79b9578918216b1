//! `frameward bench fragment` measures every case it promises, and leaves nothing behind. One round, and a short one:
//! what the figures are is not judged here.

use std::time::Duration;

use frameward::bench::{Bench, Effort};

use super::program;

#[test]
fn every_case_has_a_figure_and_every_figure_a_comparison() {
    let mut rows = Vec::new();
    let effort = Effort { rounds: 1, time: Duration::from_millis(200), round_trips: 5 };
    let mut bench = Bench {
        frameward: program(),
        effort,
        progress: &mut |line| println!("{line}"),
        figure: &mut |row| rows.push(row),
    };
    bench.fragment().unwrap();
    assert!(rows.iter().all(|row| row.value > 0.0 && row.bench == "fragment"), "{rows:?}");
    // Six in memory; four ways for three payloads, each with goodput and twice two round trips; small frames.
    assert_eq!(rows.len(), 6 + 3 * 4 * 5 + 6 + 5 + 4);
    let references = rows.iter().filter(|row| row.ratio.is_none()).count();
    assert_eq!(references, 2 + 3 * 5 + 3, "each comparison has one reference");
    for row in rows.iter().filter_map(|row| row.ratio.as_ref()) {
        assert!(rows.iter().any(|other| other.case == row.to), "{} was not measured", row.to);
    }
}
