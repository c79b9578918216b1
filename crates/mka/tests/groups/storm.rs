//! Everything at once, at random: loss, reordering, duplication, partitions, restarts, rekeys, clock jumps. The world's
//! invariants hold at every step, and when the storm is over a group is secured within the standard's bounds.

use std::collections::HashSet;

use mka::{OnPeerLoss, SuiteRule};
use suite::CipherSuite;

use crate::station::{Random, cak, ms, seconds, settings};
use crate::world::World;

/// After a storm: a life time until who has gone is found out, one more until a SAK that is on its way has taken effect or is
/// given up, and two hellos.
const BOUND: std::time::Duration = seconds(6 + 6 + 4);

fn calm(world: &mut World) {
    world.loss = 0;
    world.duplication = 0;
    world.delay = (100, 300);
    world.cut.clear();
    world.forgive();
}

pub(crate) fn storm(seed: u64, begin: impl FnOnce(&mut World)) -> World {
    let mut random = Random(seed);
    let stations = 2 + random.below(7) as usize;
    let mut world = World::new(seed);
    begin(&mut world);
    world.data_each = Some(ms(50));
    let suite = [SuiteRule::Any, SuiteRule::Any, SuiteRule::Only(CipherSuite::GcmAesXpn128)];
    let suite = suite[random.below(3) as usize];
    let on_peer_loss = if random.chance(25) { OnPeerLoss::Hold } else { OnPeerLoss::Block };
    let caks = || if seed % 4 == 3 { vec![cak(1), cak(9)] } else { vec![cak(1)] };
    for i in 0..stations {
        let mut settings = settings(i);
        settings.priority = [16, 16, 0, 200][random.below(4) as usize];
        settings.delay_protect = random.chance(20);
        settings.sak_lifetime = random.chance(30).then(|| seconds(1 + random.below(20)));
        settings.suite = suite;
        settings.on_peer_loss = on_peer_loss;
        world.add(settings);
        world.switch_on(i, caks());
    }
    let all = world.all();
    for _ in 0..3 {
        for _ in 0..1 + random.below(12) {
            let i = random.below(stations as u64) as usize;
            match random.below(10) {
                0 => world.loss = random.below(31),
                1 => world.duplication = random.below(31),
                2 => world.delay = (100, 300 + random.below(50_000)),
                3 => {
                    let (one, other): (Vec<_>, Vec<_>) = all.iter().partition(|_| random.chance(50));
                    world.part(&one, &other);
                }
                4 => {
                    world.cut.clear();
                    world.forgive();
                }
                5 => world.switch_on(i, caks()),
                6 => {
                    world.switch_off(i);
                    world.run(ms(random.below(8000)));
                    world.switch_on(i, caks());
                }
                7 => world.with(i, |kay, now| kay.rekey(now)),
                8 => {
                    // A path between two, and no other.
                    let other = (i + 1 + random.below(stations as u64 - 1) as usize) % stations;
                    world.part(&[i], &[other]);
                }
                _ => {
                    // The machine was asleep.
                    world.now = world.now + ms(random.below(20_000));
                    world.forgive();
                }
            }
            world.run(ms([1, 20, 200, 3000, 9000][random.below(5) as usize]));
        }
        calm(&mut world);
        // A station that was unheard in the last moments of the storm is lost only now.
        world.run(seconds(7));
        world.secure(&all, BOUND - seconds(7));
        // And it stays so.
        let mut kis = HashSet::new();
        world.run_until(world.now + seconds(10), |world| {
            assert!(world.all().iter().all(|i| world.stations[*i].secy.transmits.is_some()));
            kis.insert(world.ki(0));
            false
        });
        assert!(kis.len() <= 12, "{} SAKs in ten quiet seconds", kis.len());
        world.secure(&all, seconds(1));
    }
    world
}

/// `FRAMEWARD_MKA_STORMS`: how many; `FRAMEWARD_MKA_STORM`: the first seed.
#[test]
fn storms_end() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let first = number("FRAMEWARD_MKA_STORM").unwrap_or(0);
    for seed in first..first + number("FRAMEWARD_MKA_STORMS").unwrap_or(25) {
        eprintln!("storm {seed}");
        storm(seed, |_| {});
    }
}

/// Cost of a bad network in an hour: lost MKPDUs are repeated, so few members lose their lives.
#[test]
fn a_bad_network_for_an_hour() {
    for (loss, most) in [(0, 0), (10, 0), (20, 0), (30, 100)] {
        let mut world = World::group(60, 4);
        world.data_each = Some(ms(200));
        let all = world.all();
        world.secure(&all, seconds(6));
        world.loss = loss;
        world.run(seconds(3600));
        let saks = world.kay(0).counters().saks_made;
        eprintln!(
            "{loss} %: {} lost of {}, {} MKPDUs, {saks} SAKs",
            world.lost, world.delivered, world.mkpdus
        );
        assert!(world.lost <= most, "{loss} %: {} lost of {}", world.lost, world.delivered);
    }
}
