//! Groups of more than two.

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
