//! One round of a contestant has every figure that the page shows, and leaves nothing behind. About 10 seconds; root, and
//! iperf3. What the figures are is not judged here.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use evidence::contest::{BENCH, Contestant, Effort, FIGURES, round};
use lab::trial::Search;

#[test]
fn a_round_has_every_figure() {
    let effort = Effort {
        search: Search { time: Duration::from_millis(50), loss: 1e-4, precision: 0.5 },
        round_trips: 20,
        ..Effort::QUICK
    };
    let mut said = 0;
    // A bridge: it needs no program of ours, and none of anybody else's.
    let outcome = round(Path::new("none"), Contestant::Bridge, &effort, &mut |_| said += 1).unwrap();
    let names: BTreeSet<&str> = outcome.rows.iter().map(|row| row.case.as_str()).collect();
    for figure in FIGURES {
        let name = format!("{figure}, {}", Contestant::Bridge.name());
        assert!(names.contains(name.as_str()), "no {name}: {names:?}");
    }
    assert_eq!((outcome.rows.len(), said), (FIGURES.len(), FIGURES.len()));
    for row in &outcome.rows {
        assert_eq!((row.bench.as_str(), row.values.len()), (BENCH, 1));
        // Of a transfer so short no tick may have been counted; no process has no memory; a busy machine loses frames.
        let may_be_nothing =
            ["s/Gbit", "MiB", "frames/s"].contains(&row.unit.as_str()) || row.case.starts_with("IMIX");
        assert!(row.value > 0.0 || may_be_nothing, "{row:?}");
    }
    assert_eq!(outcome.curves.len(), 2);
    for curve in &outcome.curves {
        assert!(curve.points.is_sorted_by(|one, two| one.0 < two.0 && one.1 <= two.1), "{curve:?}");
    }
}
