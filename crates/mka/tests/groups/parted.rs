//! Partitions, and what follows them.

use crate::station::{ms, seconds};
use crate::world::World;

#[test]
fn parts_of_a_group_go_on_alone_and_come_together_again() {
    let mut world = World::group(8, 5);
    world.data_each = Some(ms(5));
    let all = world.all();
    world.secure(&all, seconds(6));
    for _ in 0..3 {
        world.part(&[0, 1], &[2, 3, 4]);
        world.run(seconds(7));
        world.secure(&[0, 1], seconds(6));
        world.secure(&[2, 3, 4], seconds(6));
        world.cut.clear();
        world.forgive();
        world.secure(&all, seconds(12));
        world.run(seconds(10));
        assert_eq!(world.lost, 0);
    }
}
