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

/// Each moment of a cycle, of a handshake and of an epoch is one at which a gateway may become another program.
#[test]
fn an_upgrade_at_any_moment_loses_no_frame_and_needs_no_session() {
    let mut plant = Plant::with_epochs(2, 7);
    plant.until_all_flow(START).unwrap();
    let sessions = |plant: &Plant, end: usize| plant.ends[end].handshakes[0].counters().sessions_entered;
    let before = [0, 1].map(|end| sessions(&plant, end));
    let (sent, delivered) = (plant.sent() - plant.under_way(), plant.delivered());
    for round in 0..100 {
        plant.pass(Duration::from_micros(1_000 + 371 * round));
        plant.upgrade((round % 2) as usize);
    }
    assert_eq!(plant.sent() - plant.under_way() - sent, plant.delivered() - delivered);
    assert!(plant.delivered() - delivered > 5_000);
    assert_eq!([0, 1].map(|end| sessions(&plant, end)), before, "no other session");
    let status = plant.ends[0].cell.status(0, plant.moment());
    assert_eq!(status.receive.in_pkts_missing, 0);
    let sent = plant.ends[1].cell.status(0, plant.moment()).transmit.out_pkts_protected;
    assert!(sent - status.receive.in_pkts_ok <= 1, "it counts on: {sent}, {:?}", status.receive);
    assert_eq!(status.jitter.count(), status.receive.in_pkts_ok - 1, "so do its figures");
    // In the middle of a handshake, which goes on.
    for step in 0..16 {
        plant.renew_sessions(0);
        plant.pass(WAY / 4 * step);
        let (sent, delivered) = (plant.sent() - plant.under_way(), plant.delivered());
        plant.upgrade((step % 2) as usize);
        plant.pass(Duration::from_millis(300));
        assert_eq!(plant.sent() - plant.under_way() - sent, plant.delivered() - delivered, "{step}");
        assert!(sessions(&plant, 0) > before[0] + u64::from(step), "{step}");
    }
}

/// A state that is none, or rests on a key that the next program does not have, is refused.
#[test]
fn a_state_that_cannot_be_is_refused() {
    use fieldbus::PassedOnError::{Garbled, MasterKey, Session};
    use fieldbus::handshake::Handshake;
    use suite::fieldbus::{MasterKey as Key, MasterKeys};
    use wire::fieldbus::ETHERTYPE;

    let mut plant = Plant::new(1);
    plant.until_all_flow(START).unwrap();
    let of = cell::settings(0, 0).relation;
    let passed = plant.ends[0].handshakes[0].pass_on().unwrap();
    let go_on = |key: u8, passed: serde_json::Value| {
        let keys: MasterKeys = Key::new(&[key; 32]).into();
        let passed = serde_json::from_value(passed).unwrap();
        Handshake::go_on(&of, &keys, cell::MODES[0], ETHERTYPE, &[1; 32], &passed)
    };
    let state = serde_json::to_value(&passed).unwrap();
    assert!(go_on(7, state.clone()).is_ok());
    assert_eq!(go_on(8, state.clone()).err(), Some(MasterKey));
    for (field, value) in [
        ("counters", serde_json::json!([1])),
        ("sessions", serde_json::json!(0)),
        ("newest", serde_json::Value::Null),
        ("offer", serde_json::json!(vec![0; 16])),
        ("before", state["newest"].clone()),
    ] {
        let mut other = state.clone();
        other[field] = value;
        assert_eq!(go_on(7, other).err(), Some(Garbled), "{field}");
    }
    // A session of the data path that the handshake does not know.
    let mut unknown = serde_json::to_value(plant.ends[0].cell.pass_on(0)).unwrap();
    unknown["keys"]["running"]["number"] = 9.into();
    let unknown = serde_json::from_value(unknown).unwrap();
    let mut handshake = go_on(7, state.clone()).unwrap();
    assert_eq!(plant.ends[0].cell.go_on(0, &unknown, &mut handshake), Err(Session));
    // One session twice: what was sent in it would be sent under the same Seqs again.
    let mut twice = serde_json::to_value(plant.ends[0].cell.pass_on(0)).unwrap();
    twice["keys"]["entered"] = twice["keys"]["running"].clone();
    twice["keys"]["entered"]["next_seq"] = 1.into();
    twice["keys"]["enabled"] = true.into();
    let twice = serde_json::from_value(twice).unwrap();
    let mut handshake = go_on(7, state).unwrap();
    assert_eq!(plant.ends[0].cell.go_on(0, &twice, &mut handshake), Err(Garbled));
}

/// No key is in it, neither the master key nor one of a session, and the next program derives the same keys.
#[test]
fn no_key_is_in_what_a_relation_passes_on() {
    use fieldbus::handshake::{Handshake, HandshakeEvent};
    use suite::fieldbus::{MasterKey, MasterKeys};
    use wire::fieldbus::ETHERTYPE;

    let masters: MasterKeys = MasterKey::new(&[7; 32]).into();
    let (of, protection) = ([0, 1].map(|end| cell::settings(end, 0).relation), cell::MODES[4]);
    let mut ends =
        [0, 1].map(|end| Handshake::new(&of[end], &masters, protection, ETHERTYPE, &[1 + end as u8; 32]));
    let (now, mut entered) = (wire::Instant::after_start(Duration::from_secs(1)), None);
    for end in [0, 1, 0, 1, 0, 1] {
        ends[end].handle_timeout(now);
        while let Some(hello) = ends[end].poll_transmit() {
            let _ = ends[1 - end].handle_frame(now, &hello);
        }
        while let Some(event) = ends[0].poll_event() {
            if let HandshakeEvent::Enter(session) = event {
                entered = Some(session);
            }
        }
        while ends[1].poll_event().is_some() {}
    }
    let session = entered.unwrap();
    let passed = ends[0].pass_on().unwrap();
    let text = serde_json::to_string(&passed).unwrap();
    let mut next = Handshake::go_on(&of[0], &masters, protection, ETHERTYPE, &[9; 32], &passed).unwrap();
    let mut secrets = vec![vec![7; 32]];
    for (keys, receives) in [(&session.transmit, false), (&session.receive, true)] {
        for key in keys {
            let derived = if receives { Handshake::next_receive } else { Handshake::next_transmit };
            let derived = derived(&mut next, session.number, key.epoch).unwrap();
            assert_eq!(derived.key.for_kernel(), key.key.for_kernel());
            assert_eq!(derived.key_id, key.key_id);
            secrets.push(key.key.for_kernel().unwrap().0.to_vec());
        }
    }
    for secret in secrets {
        let octets: Vec<String> = secret[..8].iter().map(u8::to_string).collect();
        let digits: Vec<String> = secret[..8].iter().map(|octet| format!("{octet:02x}")).collect();
        assert!(!text.contains(&octets.join(",")), "a secret is passed on");
        assert!(!text.to_lowercase().contains(&digits.concat()), "a secret is passed on");
    }
}

/// Another form of a relation's state needs another number, and then other words here.
#[test]
fn another_form_of_a_relation_is_another_number() {
    let mut plant = Plant::new(1);
    plant.until_all_flow(START).unwrap();
    let names = |value: serde_json::Value| -> Vec<String> {
        let mut names = Vec::new();
        fn walk(value: &serde_json::Value, names: &mut Vec<String>) {
            if let Some(object) = value.as_object() {
                for (name, value) in object {
                    names.push(name.clone());
                    walk(value, names);
                }
            }
        }
        walk(&value, &mut names);
        names
    };
    let handshake = names(serde_json::to_value(plant.ends[0].handshakes[0].pass_on().unwrap()).unwrap());
    let relation = names(serde_json::to_value(plant.ends[0].cell.pass_on(0)).unwrap());
    let expected = [
        "asked before confirmed counters due key_id newest master_key number own peers receive transmit \
         transmit_epochs offer sessions settled wanted",
        "clear_ahead gaps last told worst_gap jitter counts sum worst keys enabled entered running newest \
         next_seq number receive_epoch transmit_epoch received residence sent twins unknown",
    ];
    assert_eq!(
        (fieldbus::passed_on::PASSED_RELATION_FORM, [handshake.join(" "), relation.join(" ")]),
        (1, expected.map(str::to_owned))
    );
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
    Upgrade(bool),
    Replay(u16, bool),
    Flip(u16, u16),
    Lose,
    Swap,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u32..4000).prop_map(Step::Pass),
        2 => any::<bool>().prop_map(Step::Restart),
        3 => any::<bool>().prop_map(Step::Upgrade),
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
                Step::Upgrade(end) => plant.upgrade(usize::from(end)),
                Step::Replay(which, to) => plant.replay(which.into(), usize::from(to)),
                Step::Flip(which, bit) => plant.flip(which.into(), bit.into()),
                Step::Lose => plant.lose(),
                Step::Swap => plant.swap(),
            }
        }
        prop_assert!(plant.until_all_flow(Duration::from_secs(2)).is_some());
    }
}
