//! Networks that lose, copy and delay.

use std::time::Duration;

use fieldbus::handshake::HELLO_TRIES;
use proptest::prelude::*;

use crate::world::{Network, World};

#[test]
fn with_a_third_of_them_lost_two_ends_agree_in_bounded_time() {
    let mut worst = Duration::ZERO;
    for seed in 0..300 {
        let mut world = World::new(seed, Network { loss: 30, copies: 0, delay: (50, 300) });
        let took = world.pass_until(Duration::from_secs(20), World::is_settled);
        worst = worst.max(took.expect("they agree"));
        // HELLOs in flight change nothing any more.
        world.pass(Duration::from_secs(5));
        world.assert_settled();
    }
    // 300 times no 3 seconds, which are ten rounds of asking.
    assert!(worst < Duration::from_secs(3), "{worst:?}");
}

#[test]
fn a_frame_that_is_heard_confirms_a_session_when_every_hello_is_lost() {
    let mut world = World::new(4, Network { loss: 0, copies: 0, delay: (100, 100) });
    // The first end enters by what the second says, and confirms by its Entered: the second's confirmation gets lost.
    while world.ends[0].enabled.is_none() {
        let Some((arrives, to, frame)) = (!world.wire.is_empty()).then(|| world.wire.remove(0)) else {
            panic!("stuck")
        };
        world.now = arrives;
        if to == 0 || world.ends[1].sessions.is_empty() {
            world.arrive(to, &frame);
        }
    }
    world.wire.clear();
    world.network.loss = 100;
    assert_eq!((world.ends[1].sessions.len(), world.ends[1].enabled), (1, None));
    let number = world.ends[1].sessions[0].number;
    world.ends[1].handshake.handle_verified_frame(fieldbus::session::SessionNumber(number.0 + 1));
    world.follow(1);
    assert_eq!(world.ends[1].enabled, None, "a frame of another session confirms nothing");
    world.ends[1].handshake.handle_verified_frame(number);
    world.follow(1);
    world.assert_settled();
    let said = world.recorded.len();
    world.pass(Duration::from_secs(10));
    assert_eq!(world.recorded.len(), said, "nothing is left to be asked");
}

#[test]
fn ends_in_sessions_of_different_pairs_find_each_other() {
    // Each enters by an answer of the other that is late: made by hand out of two worlds that share their HELLOs.
    for seed in 0..200 {
        let mut world = World::new(seed, Network { loss: 20, copies: 60, delay: (10, 350_000) });
        world.pass(Duration::from_secs(5));
        world.network = Network { loss: 0, copies: 0, delay: (100, 100) };
        let rounds = Duration::from_millis(100) * (2 * HELLO_TRIES) + Duration::from_millis(400);
        world.pass(rounds);
        world.assert_settled();
    }
}

proptest! {
    #[test]
    fn whatever_a_network_does_two_ends_agree_when_it_is_fair_again(
        seed: u64, loss in 0u64..95, copies in 0u64..80, shortest in 1u64..1000, spread in 0u64..400_000, time in 1u64..2000,
    ) {
        let mut world = World::new(seed, Network { loss, copies, delay: (shortest, shortest + spread) });
        world.pass(Duration::from_millis(time));
        world.network = Network { loss: 0, copies: 0, delay: (100, 100) };
        world.pass(Duration::from_millis(1500));
        world.assert_settled();
    }
}
