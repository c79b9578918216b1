//! Two gateways, handshake and data path together as control and worker have them, with cyclic traffic through both on a
//! clock that is held in the hand: restarts in the middle of a cycle, attacks on the wire, epochs that end.

#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

#[path = "../cell/mod.rs"]
mod cell;
mod gateway;
mod master_keys;

use std::time::Duration;

use fieldbus::{ReceiveDiscard, RelationState};
use proptest::prelude::*;

use gateway::{CYCLE, Plant, WAY};

/// A machine may have its IO data 150 ms after the start of its gateway.
const START: Duration = Duration::from_millis(150);

#[test]
fn io_data_flows_within_150_ms_of_a_start_and_of_a_restart_at_any_moment_of_a_cycle() {
    let mut plant = Plant::new(3);
    let first = plant.until_all_flow(START).expect("in time");
    // A cycle until both stations have sent, and four ways for the handshake, are all that it takes.
    assert!(first <= CYCLE * 2 + WAY * 5, "{first:?}");
    for end in [0, 1] {
        for microseconds in (0..1000).step_by(125) {
            plant.pass(Duration::from_micros(7_000 + microseconds));
            plant.restart(end);
            let took = plant.until_all_flow(START).expect("in time");
            assert!(took <= CYCLE * 2 + WAY * 5, "{took:?}");
        }
    }
    // Both at once.
    for _ in 0..5 {
        plant.restart(0);
        plant.restart(1);
        assert!(plant.until_all_flow(START).is_some());
    }
}

#[test]
fn every_frame_is_accounted_for() {
    let mut plant = Plant::new(5);
    plant.until_all_flow(START).unwrap();
    plant.pass(Duration::from_secs(2));
    plant.restart(1);
    plant.pass(Duration::from_secs(2));
    plant.assert_accounted_for();
}

#[test]
fn what_is_played_again_is_late_or_of_an_unknown_key_and_never_delivered() {
    let mut plant = Plant::new(2);
    plant.until_all_flow(START).unwrap();
    plant.pass(Duration::from_millis(20));
    for end in [0, 1] {
        plant.restart(end);
        plant.until_all_flow(START).unwrap();
        plant.pass(Duration::from_millis(5));
    }
    let recorded = plant.recorded.len();
    assert!(recorded > 100);
    for which in 0..recorded {
        let delivered = plant.delivered();
        plant.replay(which, 0);
        plant.replay(which, 1);
        assert_eq!(plant.delivered(), delivered);
    }
    plant.restart(0);
    plant.until_all_flow(START).unwrap();
    plant.assert_accounted_for();
    assert!(
        plant.discards.keys().all(|discard| {
            use ReceiveDiscard::{Late, NoSession, NotValid, UnknownKey};
            matches!(discard, Late | UnknownKey | NotValid | NoSession)
        }),
        "{:?}",
        plant.discards
    );
}

#[test]
fn epochs_end_every_seven_frames_and_no_frame_is_lost() {
    let mut plant = Plant::with_epochs(2, 7);
    plant.until_all_flow(START).unwrap();
    let (sent, delivered) = (plant.sent(), plant.delivered());
    plant.pass(Duration::from_secs(3));
    let under_way = plant.under_way();
    assert_eq!(plant.sent() - sent, plant.delivered() - delivered + under_way);
    assert!(plant.sent() - sent > 10_000);
    // 3000 frames of a direction are more than 400 epochs, and each KeyID has come round.
    plant.restart(1);
    plant.until_all_flow(START).unwrap();
    plant.assert_accounted_for();
}

/// One direction is lost for longer than an epoch lasts: who hears nothing meanwhile knows none of the keys that come then, and the other
/// one has no reason to ask.
#[test]
fn a_direction_that_was_lost_for_epochs_heals() {
    for deaf in [0, 1] {
        let mut plant = Plant::with_epochs(2, 7);
        plant.until_all_flow(START).unwrap();
        plant.deaf = Some(deaf);
        plant.pass(Duration::from_millis(100));
        plant.deaf = None;
        assert!(plant.until_all_flow(Duration::from_secs(2)).is_some(), "{deaf} hears nothing for ever");
        // It asked because of that alone.
        let sessions = plant.ends[deaf].handshakes[0].counters().sessions_entered;
        plant.pass(Duration::from_secs(5));
        assert_eq!(plant.ends[deaf].handshakes[0].counters().sessions_entered, sessions);
    }
}

/// Somebody has held back what came at the end of the last key that this end knows, and lets a frame of it go now and then.
#[test]
fn a_lost_direction_heals_though_held_frames_drip_in() {
    const DEAF: usize = 0;
    let mut plant = Plant::with_epochs(1, 100);
    plant.until_all_flow(START).unwrap();
    plant.deaf = Some(DEAF);
    let first = plant.recorded.len();
    plant.pass(Duration::from_millis(400));
    plant.deaf = None;
    let mine = |place: &usize| plant.recorded[*place].0 == DEAF;
    let held: Vec<_> = (first..plant.recorded.len()).filter(mine).take(40).collect();
    let sessions = plant.ends[DEAF].handshakes[0].counters().sessions_entered;
    for (drip, place) in held.into_iter().enumerate() {
        plant.pass(Duration::from_millis(100));
        if plant.ends[DEAF].handshakes[0].counters().sessions_entered > sessions {
            assert!(plant.until_all_flow(START).is_some());
            assert!((1..=20).contains(&drip), "it asked after {drip} drips");
            return;
        }
        let delivered = plant.delivered();
        plant.replay(place, DEAF);
        assert_eq!(plant.delivered(), delivered + 1, "a held frame is new to it");
    }
    panic!("it never asked for keys");
}

#[test]
fn without_its_peer_a_gateway_delivers_nothing_and_says_so() {
    let mut plant = Plant::new(1);
    plant.until_all_flow(START).unwrap();
    plant.restart(0);
    plant.cut = true;
    plant.pass(Duration::from_millis(500));
    let status = plant.ends[0].cell.status(0, plant.moment());
    assert_eq!((status.state, status.transmit.out_pkts_protected), (RelationState::NoSession, 0));
    assert!(status.transmit.out_pkts_no_session >= 499);
    plant.cut = false;
    assert!(plant.until_all_flow(START).is_some());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u32),
    Restart(bool),
    Replay(u16, bool),
    Flip(u16, u16),
    Lose,
    Swap,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u32..4000).prop_map(Step::Pass),
        2 => any::<bool>().prop_map(Step::Restart),
        4 => any::<(u16, bool)>().prop_map(|(which, to)| Step::Replay(which, to)),
        4 => any::<(u16, u16)>().prop_map(|(which, bit)| Step::Flip(which, bit)),
        2 => Just(Step::Lose),
        2 => Just(Step::Swap),
    ]
}

proptest! {
    /// [`Plant`] panics if a frame is delivered that was not sent, or twice, or behind a newer one; and if a key and Seq
    /// protect two frames.
    #[test]
    fn whatever_happens_on_the_wire(epoch in 3u32..40, steps in proptest::collection::vec(step(), 1..60)) {
        let mut plant = Plant::with_epochs(2, epoch);
        for step in steps {
            match step {
                Step::Pass(microseconds) => plant.pass(Duration::from_micros(microseconds.into())),
                Step::Restart(end) => plant.restart(usize::from(end)),
                Step::Replay(which, to) => plant.replay(which.into(), usize::from(to)),
                Step::Flip(which, bit) => plant.flip(which.into(), bit.into()),
                Step::Lose => plant.lose(),
                Step::Swap => plant.swap(),
            }
        }
        prop_assert!(plant.until_all_flow(Duration::from_secs(2)).is_some());
    }
}
