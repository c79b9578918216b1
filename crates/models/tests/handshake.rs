//! Two ends of a cell's relation, searched. `FRAMEWARD_MODELS=deep` searches further.

mod search;

use models::handshake::{Kind, Setup, World};
use search::{is_deep, search};

fn searched(name: &str, setup: Setup) {
    let faults = setup.faults;
    search(
        &format!("{name}, up to {faults} faults"),
        World::new(setup),
        |model| {
            let (ends, fair, slowest) = model.passed();
            format!("{fair} states in fair runs, {ends} of an end; settled after {slowest:?} at most")
        },
        |model, state| format!("{:?}", model.fair_run(state)),
    );
}

fn all(quick: u8, deep: u8) -> Setup {
    let faults = if is_deep() { deep } else { quick };
    Setup { faults, kinds: Kind::ALL.to_vec(), after: None, steady: false }
}

#[test]
fn two_ends_from_a_cold_start() {
    searched("cold", all(2, 3));
}

#[test]
fn two_ends_in_a_session() {
    searched("in a session", Setup { after: Some(vec![]), ..all(3, 4) });
}

#[test]
fn two_ends_that_have_restarted() {
    searched("restarted", Setup { after: Some(vec![0, 1]), ..all(2, 3) });
}

#[test]
fn an_attacker_who_replays_moves_no_session() {
    let kinds = vec![Kind::Replay, Kind::Late, Kind::Copy, Kind::Lose];
    searched("replays", Setup { kinds, steady: true, after: Some(vec![0, 1]), ..all(3, 5) });
}
