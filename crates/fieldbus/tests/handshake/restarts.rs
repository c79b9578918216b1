//! Either end, or both, start again at any moment; and all that was ever recorded is played to whom it was for.

use std::time::Duration;

use fieldbus::handshake::HandshakeState;
use proptest::prelude::*;

use crate::world::{FAIR, Network, World, agree, hello, mark, relation, started};

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass { microseconds: u32 },
    Restart { end: bool },
    Replay { which: u16, to_either: bool },
    ReplayAll,
    Network { loss: u8, copies: u8, spread: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u32..150_000).prop_map(|microseconds| Step::Pass { microseconds }),
        6 => (0u32..500).prop_map(|microseconds| Step::Pass { microseconds }),
        3 => any::<bool>().prop_map(|end| Step::Restart { end }),
        6 => any::<(u16, bool)>().prop_map(|(which, to_either)| Step::Replay { which, to_either }),
        1 => Just(Step::ReplayAll),
        2 => (0u8..90, 0u8..90, 0u32..300_000).prop_map(|(loss, copies, spread)| Step::Network { loss, copies, spread }),
    ]
}

fn take(world: &mut World, step: Step) {
    match step {
        Step::Pass { microseconds } => world.pass(Duration::from_micros(microseconds.into())),
        Step::Restart { end } => world.restart(usize::from(end)),
        Step::Replay { which, to_either } => {
            let (to, frame) = world.recorded[usize::from(which) % world.recorded.len()].clone();
            world.arrive(if to_either { 1 - to } else { to }, &frame);
        }
        Step::ReplayAll => replay_all(world),
        Step::Network { loss, copies, spread } => {
            world.network =
                Network { loss: loss.into(), copies: copies.into(), delay: (10, 10 + u64::from(spread)) };
        }
    }
}

fn replay_all(world: &mut World) {
    for (to, frame) in world.recorded.clone() {
        world.arrive(to, &frame);
        world.arrive(1 - to, &frame);
    }
}

proptest! {
    #[test]
    fn restarts_losses_and_replays_at_any_moment(seed: u64, steps in proptest::collection::vec(step(), 1..40)) {
        let mut world = World::new(seed, FAIR);
        for step in steps {
            take(&mut world, step);
        }
        // However it went: a fair network for a second and a half, and both have one session.
        world.network = FAIR;
        world.pass(Duration::from_millis(1500));
        world.assert_settled();
    }
}

#[test]
fn an_end_starts_again_at_every_moment_of_a_handshake() {
    for end in [0, 1] {
        for at in (0..=500).step_by(25) {
            let mut world = World::new(at, FAIR);
            world.pass(Duration::from_micros(at));
            world.restart(end);
            let took = world.pass_until(Duration::from_millis(150), World::is_settled);
            assert!(took.is_some(), "started again after {at} us: {:?}", world.states());
            // And in the middle of the second.
            world.restart(end);
            world.pass(Duration::from_micros(at));
            world.restart(end);
            world.restart(1 - end);
            assert!(world.pass_until(Duration::from_millis(150), World::is_settled).is_some());
        }
    }
}

#[test]
fn what_was_recorded_makes_nobody_enter_a_session_however_often_an_end_starts_again() {
    let mut world = World::settled(5);
    for _ in 0..10 {
        for end in [0, 1] {
            world.restart(end);
            world.pass(Duration::from_millis(1));
            world.assert_settled();
        }
    }
    let recorded = world.recorded.clone();
    let sessions = |world: &World| world.ends.each_ref().map(|end| end.sessions.len());
    // To ends that are settled, with the network carrying what they answer.
    let before = sessions(&world);
    for (to, frame) in &recorded {
        world.arrive(*to, frame);
        world.pass(Duration::from_millis(1));
    }
    assert_eq!(sessions(&world), before, "two live ends were made to change their session");
    world.assert_settled();
    // To an end that has just started, and whose peer is gone.
    world.network.loss = 100;
    for end in [0, 1] {
        world.restart(end);
        for (to, frame) in recorded.iter().chain(&world.recorded.clone()) {
            world.arrive(*to, frame);
            world.arrive(1 - *to, frame);
        }
        world.pass(Duration::from_secs(1));
        assert_eq!(world.ends[end].handshake.state(), HandshakeState::Asking);
        assert!(world.ends[end].sessions.is_empty(), "a session without a live peer");
    }
}

#[test]
fn an_answer_that_was_held_back_is_worth_nothing_once_a_session_is_confirmed() {
    let mut world = World::new(6, FAIR);
    // Asked again and again while every answer is held back: each of these answers names an offer of the first end.
    let mut held = Vec::new();
    for _ in 0..5 {
        world.pass(Duration::from_micros(150));
        while let Some(place) = world.wire.iter().position(|&(_, to, _)| to == 0) {
            held.push(world.wire.remove(place).2);
        }
        world.pass(Duration::from_millis(99));
        world.wire.retain(|&(_, to, _)| to != 0);
    }
    assert!(held.iter().any(|frame| hello(frame).peers.is_some()));
    world.pass(Duration::from_secs(1));
    world.assert_settled();
    let before = world.ends[0].sessions.len();
    for frame in &held {
        world.arrive(0, frame);
        world.pass(Duration::from_millis(300));
    }
    assert_eq!(world.ends[0].sessions.len(), before);
    world.assert_settled();
}

#[test]
fn an_end_that_draws_the_same_again_meets_a_peer_that_does_not() {
    // A machine that is restored with its memory: what it draws was drawn before. Its peer's nonces are new.
    let seed = [7; 32];
    let master = crate::world::master();
    let begin = || started(relation(0), &master, crate::world::ENCRYPT, wire::fieldbus::ETHERTYPE, &seed);
    let mut world = World::new(7, FAIR);
    let mut marks = Vec::new();
    for _ in 0..5 {
        world.ends[0] = begin();
        world.pass(Duration::from_millis(200));
        world.assert_settled();
        marks.push(mark(&world.ends[0].sessions[0].transmit[0]));
    }
    let mut different = marks.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), marks.len());
}

#[test]
fn epochs_go_on_and_another_start_finds_keyids_that_are_free() {
    let mut world = World::settled(8);
    let mut used = Vec::new();
    for epoch in 2..700 {
        let number = world.ends[0].sessions[0].number;
        let peers = world.ends[1].sessions[0].number;
        let key = world.ends[0].handshake.next_transmit(number, epoch).expect("the newest session");
        let receive = world.ends[1].handshake.next_receive(peers, epoch).expect("the newest session");
        assert!(agree(&key, &receive), "epoch {epoch}");
        assert_eq!(key.epoch, epoch);
        used.push(key.key_id);
        if epoch % 100 == 0 {
            // The peer starts again, and for a while both sessions have keys.
            world.restart(1);
            world.pass(Duration::from_millis(1));
            world.assert_settled();
            let newest = world.ends[0].newest().expect("a session");
            let last = used[used.len() - 2..].iter().chain(std::iter::once(&used[used.len() - 1]));
            for old in last {
                assert!(newest.transmit.iter().all(|new| new.key_id != *old), "{old:?} stands for two keys");
            }
            // The one before the newest still has keys, for frames that are under way; nothing older has.
            assert!(world.ends[0].handshake.next_receive(number, epoch + 1).is_some());
            world.ends[0].sessions.remove(0);
            world.ends[0].enabled = Some(0);
            used.clear();
            used.extend([0, 1].map(|of| world.ends[0].sessions[0].transmit[of].key_id));
            // Epochs of this session begin anew.
            epochs_of_another_session(&mut world, epoch);
        }
    }
}

/// Both ends can make every key of the session, however high the epoch.
fn epochs_of_another_session(world: &mut World, seed: u64) {
    let numbers = [0, 1].map(|end| world.ends[end].newest().expect("a session").number);
    for epoch in [0, 1, 2, 255, 256, 257, u64::from(u32::MAX), u64::MAX, seed] {
        let transmit = world.ends[1].handshake.next_transmit(numbers[1], epoch).expect("it");
        let receive = world.ends[0].handshake.next_receive(numbers[0], epoch).expect("it");
        assert!(agree(&transmit, &receive));
    }
}
