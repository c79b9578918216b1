//! Two stations.

use crate::station::{cak, ms, seconds};
use crate::world::World;

#[test]
fn two_stations_are_secured_in_milliseconds() {
    let mut world = World::group(1, 2);
    let took = world.secure(&[0, 1], seconds(6));
    assert!(took < ms(50), "{took:?}");
    let status = world.status(0);
    assert!(status.is_key_server, "the lower SCI wins");
    assert_eq!(world.status(1).key_server, Some(world.stations[0].settings.sci));
    world.run(seconds(60));
    assert!(world.is_secured(&[0, 1]));
    assert_eq!(world.status(0).fault, None);
    assert_eq!(world.status(0).saks.len(), 1);
}

/// Its own MI before is all that the other one lists, and nobody comes under that any more.
#[test]
fn a_station_that_restarts_waits_for_nobody_but_the_other_one() {
    for who in [0, 1] {
        for moment in (0..4000).step_by(100) {
            let mut world = World::group(moment + who as u64, 2);
            world.secure(&[0, 1], seconds(6));
            world.run(seconds(8) + ms(moment));
            world.switch_off(who);
            world.switch_on(who, vec![cak(1)]);
            let took = world.secure(&[0, 1], seconds(9));
            assert!(took <= seconds(3), "station {who}, {moment} ms: {took:?}");
        }
    }
}

#[test]
fn a_requested_rekey_loses_nothing() {
    let mut world = World::group(2, 2);
    world.data_each = Some(ms(1));
    world.secure(&[0, 1], seconds(6));
    for round in 0..40 {
        world.run(ms(100 + 97 * round));
        let before = world.ki(0);
        // The key server, and the member, which asks it by the standard's means.
        world.with(usize::from(round % 2 == 1), |kay, now| kay.rekey(now));
        let end = world.now + seconds(3);
        assert!(world.run_until(end, |world| world.ki(0) != before && world.is_secured(&[0, 1])), "{round}");
    }
    world.run(seconds(10));
    assert_eq!(world.lost, 0);
    assert!(world.delivered > 100_000);
}
