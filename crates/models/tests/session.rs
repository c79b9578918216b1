//! Two sites, searched. `FRAMEWARD_MODELS=deep` searches further.

mod search;

use models::session::{Kind, Setup, World};
use search::{is_deep, search};
use tunnel::Mode;

fn searched(name: &str, mode: Mode, quick: u8, deep: u8, more: fn(Setup) -> Setup) {
    let faults = if is_deep() { deep } else { quick };
    let setup =
        Setup { mode, faults, kinds: Kind::ALL.to_vec(), flows: [1, 1], settled: true, at_once: [true; 2] };
    search(
        &format!("{name}, {mode:?}, up to {faults} faults"),
        World::new(more(setup)),
        |model| {
            let (sessions, fair, slowest) = model.passed();
            format!("{fair} states in fair runs, {sessions} of a session; settled after {slowest:?} at most")
        },
        |model, state| format!("{:?}", model.fair_run(state)),
    );
}

#[test]
fn two_sites_from_a_cold_start() {
    for mode in [Mode::Identifier, Mode::HeaderEncryption] {
        searched("cold", mode, 1, 2, |setup| Setup { settled: false, ..setup });
    }
}

#[test]
fn two_sites_that_are_up() {
    for mode in [Mode::Identifier, Mode::HeaderEncryption] {
        searched("up", mode, 2, 3, |setup| setup);
    }
}

#[test]
fn two_sites_whose_workers_take_their_time() {
    for (mode, quick) in [(Mode::Identifier, 2), (Mode::HeaderEncryption, 1)] {
        searched("slow workers", mode, quick, 2, |setup| Setup { at_once: [false; 2], ..setup });
    }
}

#[test]
fn two_sites_that_start_with_slow_workers() {
    searched("cold, slow workers", Mode::Identifier, 2, 3, |setup| {
        let kinds = vec![Kind::End, Kind::Restart];
        Setup { kinds, flows: [2, 0], settled: false, at_once: [true, false], ..setup }
    });
    searched("cold, slow workers, a bad channel", Mode::Identifier, 2, 3, |setup| {
        let kinds = vec![Kind::Break, Kind::Restart];
        Setup { kinds, flows: [1, 0], settled: false, at_once: [true, false], ..setup }
    });
}
