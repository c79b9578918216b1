//! Groups of more than two.

use std::time::Duration;

use crate::station::{cak, ms, seconds, settings};
use crate::world::World;

#[test]
fn eight_stations_are_secured_soon_and_with_few_saks() {
    let mut world = World::group(3, 8);
    let all = world.all();
    let took = world.secure(&all, seconds(6));
    assert!(took < ms(200), "{took:?}");
    world.run(seconds(10));
    let made: u64 = all.iter().map(|i| world.kay(*i).counters().saks_made).sum();
    assert!(made <= 2, "{made} SAKs");
}

#[test]
fn members_that_join_and_leave_do_not_disturb_the_others() {
    let mut world = World::group(4, 3);
    world.data_each = Some(ms(5));
    world.secure(&[0, 1, 2], seconds(6));
    for i in 3..8 {
        world.add(settings(i));
        world.switch_on(i, vec![cak(1)]);
        let group: Vec<usize> = (0..=i).collect();
        world.secure(&group, seconds(6));
        world.run(ms(500));
    }
    for i in (3..8).rev() {
        world.switch_off(i);
        let group: Vec<usize> = (0..i).collect();
        world.secure(&group, seconds(9));
    }
    assert_eq!(world.lost, 0);
}

/// The schedule of a group repeats within a life time: its hellos, its lists, what it waits for.
#[test]
fn each_of_three_may_restart_at_any_moment() {
    let mut worst = Duration::ZERO;
    for station in 0..3 {
        for moment in (0..8000).step_by(100) {
            let mut world = World::group(moment + station as u64, 3);
            world.secure(&[0, 1, 2], seconds(6));
            world.run(ms(moment));
            world.switch_off(station);
            world.switch_on(station, vec![cak(1)]);
            worst = worst.max(world.secure(&[0, 1, 2], seconds(9)));
            // Its MI before is dropped by the others meanwhile.
            world.run(seconds(8));
            assert!(world.is_secured(&[0, 1, 2]), "station {station}, {moment} ms");
            let made: u64 = world.all().iter().map(|i| world.kay(*i).counters().saks_made).sum();
            assert!(made <= 6, "station {station}, {moment} ms: {made} SAKs");
        }
    }
    println!("secured {worst:?} after a restart, at worst");
}
