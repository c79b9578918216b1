//! Worlds from seeds: [`testkit::seeds`].

use std::time::Duration;

use models::simulation::{self, Told, Wrong};
use testkit::Speed;

/// Runs the world of a seed.
type Run = fn(u64) -> Result<Told, Wrong>;

/// Runs the worlds of all seeds.
fn all(kind: &str, run: Run) {
    let speed = Speed::begin();
    let seeds = testkit::seeds(200);
    let (mut time, mut healed, mut counts, mut wrong) = (Duration::ZERO, Duration::ZERO, [0; 4], 0);
    for seed in seeds.clone() {
        match run(seed) {
            Ok(told) => {
                time += told.time;
                healed = healed.max(told.healed);
                counts.iter_mut().zip(told.counts).for_each(|(sum, count)| *sum += count);
            }
            Err(why) => {
                println!("{kind}, seed {seed}: {why}\n  again: FRAMEWARD_SEED={seed}");
                wrong += 1;
            }
        }
    }
    let [protected, delivered, faults, upgrades] = counts;
    println!(
        "{kind}, {} seeds: {protected} frames protected, {delivered} delivered, {faults} faults, {upgrades} upgrades; the slowest healed {:.1} s after the last fault; {}",
        seeds.count(),
        healed.as_secs_f64(),
        speed.of(time),
    );
    assert_eq!(wrong, 0, "see above");
    assert!(delivered > 0 && faults > 0);
    assert_eq!(upgrades > 0, kind != "sites");
}

#[test]
fn whatever_happens_to_links_nothing_comes_twice_and_all_heals() {
    all("links", simulation::links);
}

#[test]
fn whatever_happens_to_cells_nothing_comes_twice_and_all_heals() {
    all("cells", simulation::cells);
}

#[test]
fn whatever_happens_to_sites_nothing_comes_twice_and_all_heals() {
    all("sites", simulation::sites);
}

#[test]
fn a_seed_is_the_same_world_again() {
    for run in [simulation::links as Run, simulation::cells, simulation::sites] {
        let runs: Vec<Told> = [7, 7, 8].into_iter().filter_map(|seed| run(seed).ok()).collect();
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0].print, runs[2].print);
    }
}
