//! Every contestant is really started in its boxes and carries full frames; one round has every figure that the page shows,
//! and leaves nothing behind. About half a minute; root, and what `scripts/setup.sh test` installs. What the figures are is
//! not judged here.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lab::trial::Search;
use perf::bench::rivals::Rival;
use perf::evidence::contest::{BENCH, Contestant, Effort, FIGURES, Running, round};
use perf::programs::Programs;

/// The tests of a workspace stand beside its programs.
fn programs() -> Programs {
    let lab = Path::new(env!("CARGO_BIN_EXE_frameward-lab"));
    Programs::in_directory(lab.parent().unwrap()).unwrap()
}

/// Guests and daemons of the one test would take the machine from the round trips of the other.
static MACHINE: Mutex<()> = Mutex::new(());

#[test]
fn a_round_has_every_figure() {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let effort = Effort {
        search: Search { time: Duration::from_millis(50), loss: 1e-4, precision: 0.5 },
        round_trips: 20,
        ..Effort::QUICK
    };
    // A bridge: it needs no program of ours, and none of anybody else's. On a busy machine all of the few round trips may be lost
    // beside the load, which is an error, as it should be.
    let mut last = String::new();
    let (outcome, said) = (0..5)
        .find_map(|_| {
            let mut said = 0;
            let outcome = round(&programs(), Contestant::Bridge, &effort, &mut |_| said += 1);
            outcome.map_err(|error| last = error).ok().map(|outcome| (outcome, said))
        })
        .unwrap_or_else(|| panic!("five times: {last}"));
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

/// Started, full frames carried without being fragmented, ended; the next one finds the machine as this one did.
#[test]
#[ignore = "a minute: make test-benches"]
fn every_contestant_carries_full_frames_and_ends() {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    // Programs that are no packages are looked for in target/rivals of the repository.
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    let mut left_out = Vec::new();
    for contestant in Contestant::ALL {
        if let Some(missing) = contestant.missing() {
            assert!(may_be_missing(contestant), "{}: no {missing}: scripts/setup.sh test", contestant.name());
            left_out.push(format!("{} ({missing})", contestant.name()));
            continue;
        }
        // It is measured only after full frames have crossed: see `Running::start`.
        let running = Running::start(&programs(), contestant)
            .unwrap_or_else(|error| panic!("{}: {error}", contestant.name()));
        let processes = running.processes();
        let silent = [Contestant::Bridge, Contestant::Tunnel(Rival::Vxlan)].contains(&contestant);
        assert_eq!(processes.is_empty(), silent, "{}: {processes:?}", contestant.name());
        running.stop().unwrap_or_else(|error| panic!("{}: {error}", contestant.name()));
        let alive = |pid: &&u32| Path::new(&format!("/proc/{pid}")).exists();
        assert_eq!(processes.iter().find(alive), None, "{} has left a process", contestant.name());
    }
    if !left_out.is_empty() {
        eprintln!("NOT TESTED, for it is not installed (scripts/setup.sh bench): {}", left_out.join(", "));
    }
}

/// Rivals without a package of the distribution: they are built only for measuring. User-Mode Linux exists for x86 alone.
fn may_be_missing(contestant: Contestant) -> bool {
    use perf::evidence::contest::Daemon;
    match contestant {
        Contestant::Tunnel(rival) => rival != Rival::Vxlan,
        Contestant::Daemon(daemon) => daemon == Daemon::Vpncloud,
        Contestant::KernelMacsec => cfg!(not(target_arch = "x86_64")),
        _ => false,
    }
}
