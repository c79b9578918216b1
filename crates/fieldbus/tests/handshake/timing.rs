//! Duration of a handshake.

use std::time::Duration;

use fieldbus::handshake::{HELLO_INTERVAL, HandshakeState};

use crate::world::{FAIR, Network, World};

const WAY: Duration = Duration::from_micros(100);

#[test]
fn two_ends_that_start_together_take_one_and_a_half_round_trips() {
    for seed in 0..50 {
        let mut world = World::new(seed, FAIR);
        let took = world.pass_until(3 * WAY, World::is_settled);
        assert_eq!(took, Some(3 * WAY), "{:?}", world.states());
        // And nothing more is said.
        world.pass(Duration::from_secs(60));
        assert_eq!(world.recorded.len(), 6);
        assert_eq!(world.ends[0].sessions.len() + world.ends[1].sessions.len(), 2);
    }
}

#[test]
fn a_peer_that_is_there_can_transmit_after_one_and_a_half_round_trips_and_the_one_that_starts_after_two() {
    for end in [0, 1] {
        let mut world = World::settled(1);
        world.pass(Duration::from_secs(3));
        world.restart(end);
        let transmits =
            |end: usize| move |world: &World| world.ends[end].transmits().map(|s| s.number.0) >= Some(1);
        let before = world.ends[1 - end].sessions.len();
        let peer = world.pass_until(HELLO_INTERVAL, |world| world.ends[1 - end].enabled == Some(before));
        assert_eq!(peer, Some(3 * WAY));
        assert_eq!(world.pass_until(HELLO_INTERVAL, transmits(end)), Some(WAY));
        world.assert_settled();
    }
}

#[test]
fn an_end_that_is_alone_asks_every_100_ms_and_has_its_session_as_soon_as_the_other_starts() {
    let mut world = World::new(2, Network { loss: 100, ..FAIR });
    world.pass(Duration::from_secs(60));
    assert_eq!(world.states(), [HandshakeState::Asking; 2]);
    assert_eq!(world.recorded.len(), 2 * 601);
    // 30 ms into the pause between two of its HELLOs.
    world.pass(Duration::from_millis(30));
    world.network = FAIR;
    world.restart(1);
    assert_eq!(world.pass_until(HELLO_INTERVAL, World::is_settled), Some(4 * WAY));
}

#[test]
fn a_clock_that_leaps_asks_once() {
    let mut world = World::new(3, Network { loss: 100, ..FAIR });
    let (said, later) = (world.recorded.len(), world.now + Duration::from_secs(1_000_000));
    world.now = later;
    world.ends[0].handshake.handle_timeout(later);
    world.follow(0);
    assert_eq!(world.recorded.len(), said + 1);
    assert_eq!(world.ends[0].handshake.poll_timeout(), Some(later + HELLO_INTERVAL));
    // A moment that is not the later one changes nothing.
    world.ends[0].handshake.handle_timeout(world.now);
    world.follow(0);
    assert_eq!(world.recorded.len(), said + 1);
}

#[test]
fn a_way_that_is_longer_than_the_pause_between_two_asks_takes_longer_and_is_enough() {
    for milliseconds in [60, 110, 170, 260, 400, 900] {
        let way = Duration::from_millis(milliseconds);
        let mut world =
            World::new(milliseconds, Network { delay: (milliseconds * 1000, milliseconds * 1000), ..FAIR });
        assert!(
            world.pass_until(way * 12, World::is_settled).is_some(),
            "{milliseconds} ms: {:?}",
            world.states()
        );
        world.pass(way * 6);
        world.assert_settled();
    }
}
