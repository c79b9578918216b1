//! Groups of KaYs, searched. `FRAMEWARD_MODELS=deep` searches further.

use std::time::{Duration, Instant};

use models::kay::{Kind, Setup, World};
use stateright::{Checker as _, Model as _};
use suite::CipherSuite;

const NETWORK: [Kind; 5] = [Kind::Lose, Kind::Copy, Kind::Behind, Kind::Hold, Kind::Cut];
const BOXES: [Kind; 5] = [Kind::Restart, Kind::Leap, Kind::Rekey, Kind::Upgrade, Kind::Replay];

fn all() -> Vec<Kind> {
    NETWORK.into_iter().chain(BOXES).collect()
}

fn is_deep() -> bool {
    std::env::var("FRAMEWARD_MODELS").is_ok_and(|depth| depth == "deep")
}

/// Most faults in a run.
fn faults(quick: u8, deep: u8) -> u8 {
    if is_deep() { deep } else { quick }
}

fn pair() -> Setup {
    Setup { faults: faults(1, 2), kinds: all(), ..Setup::group(2) }
}

/// Searches, says how much was searched, and fails with the trace.
fn search(name: &str, setup: Setup) {
    let (began, faults) = (Instant::now(), setup.faults);
    let checker = World::new(setup).checker().spawn_bfs().join();
    let model = checker.model();
    println!(
        "{name}: {} unique states, depth {}, up to {faults} faults; {} states in fair runs, {} of a station; secured after {:?} at most; {:.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        model.passed().1,
        model.passed().0,
        model.slowest(),
        began.elapsed().as_secs_f32(),
    );
    let found = checker.discoveries();
    for (property, path) in &found {
        let last = path.last_state();
        let why = model.fair_run(last);
        println!("{name}: NOT SO: {property}: {why:?}\n  {:?}", path.clone().into_actions());
    }
    assert!(found.is_empty() && checker.is_done(), "{name}: see above");
}

#[test]
fn two_from_a_cold_start() {
    let horizon = if is_deep() { 3000 } else { 12_000 };
    search("two, cold", Setup { horizon, ..pair() });
}

#[test]
fn two_secured() {
    search("two, secured", Setup { after: 7000, horizon: 8000, ..pair() });
}

#[test]
fn two_with_a_clock_that_is_fast() {
    search("two, skew of 1 %", Setup { skew: vec![0, 10_000], faults: 1, ..pair() });
}

#[test]
fn two_with_two_caks() {
    search("two, two CAKs each", Setup { caks: vec![vec![1, 9], vec![1, 9]], faults: 1, ..pair() });
}

#[test]
fn two_with_one_cak_in_common() {
    search("two, one CAK in common", Setup { caks: vec![vec![1, 9], vec![9]], faults: 1, ..pair() });
}

#[test]
fn two_with_extended_packet_numbers() {
    let suite = CipherSuite::GcmAesXpn128;
    search("two, XPN", Setup { suite, after: 7000, horizon: 8000, ..pair() });
}

fn three() -> Setup {
    Setup { kinds: all(), ..Setup::group(3) }
}

#[test]
fn three_secured() {
    let horizon = if is_deep() { 12_000 } else { 4000 };
    search("three, secured", Setup { after: 7000, horizon, ..three() });
}

#[test]
fn three_from_a_cold_start() {
    let kinds = vec![Kind::Lose, Kind::Restart];
    search("three, cold", Setup { kinds, horizon: if is_deep() { 10 } else { 0 }, ..three() });
}

#[test]
fn two_and_a_member_that_lies() {
    let kinds = vec![Kind::Lie, Kind::Lose, Kind::Restart];
    // The life time of a key server that has gone, and the time before another takes its SAK's place: 8.5 s.
    let secured = Duration::from_secs(9);
    search("two and one that lies", Setup { kinds, secured, after: 7000, horizon: 8000, ..pair() });
}
