//! Cells of two gateways: handshakes, cyclic frames, the rest, restarts, changes.

#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

mod cells;

use std::time::Duration;

use cells::{NAMES, Pair, cyclic, is_cell, is_hello, rest, settings, short_epochs, stations, tagged};
use control::{CellError, Notice};
use dataplane::cell::OtherFrames;
use fieldbus::{Mode, RelationState};

#[test]
fn frames_pass_once_the_ends_agree_and_nothing_of_them_in_clear() {
    let mut pair = Pair::new("pass", [0, 1].map(|side| settings(side, 0..3)));
    pair.secure();
    assert!(!pair.is_running());
    for count in 0..50 {
        pair.exchange(3, count);
    }
    assert!(pair.is_running());
    let sessions = |notice: &&Notice| matches!(notice, Notice::CyclicSession { .. });
    pair.until("control has heard of it", |pair| pair.notices.iter().filter(sessions).count() == 6);
    assert!(pair.seen.iter().all(|(_, frame)| is_cell(frame)), "nothing else was on the wire");
    for side in [0, 1] {
        let status = pair.status(side);
        assert_eq!((status.name.as_str(), status.relations.len()), (["cell-0", "cell-1"][side], 3));
        assert_eq!(status.hello.sessions_confirmed, 3, "{:?}", status.hello);
        for relation in status.relations {
            assert_eq!((relation.transmit.out_pkts_protected, relation.receive.in_pkts_ok), (50, 50));
            assert_eq!((relation.receive.in_pkts_missing, relation.receive.in_alarms), (0, 0));
            assert_eq!((relation.residence_outward.count(), relation.residence_inward.count()), (50, 50));
            assert_eq!(relation.jitter.count(), 49);
            assert!(relation.residence_outward.worst() > Duration::ZERO && relation.silent.is_some());
        }
        assert_eq!(pair.snapshot(side).secy.out_pkts_untagged, 0, "nothing reached the SecY");
    }
}

#[test]
fn before_there_is_a_session_nothing_passes() {
    let mut pair = Pair::new("before", [0, 1].map(|side| settings(side, 0..1)));
    pair.loses = |_, frame| is_hello(frame);
    for count in 0..10 {
        assert!(pair.sides[0].machine.inject(&cyclic(0, 0, count)));
    }
    pair.until("they are discarded", |pair| pair.relation(0, 0).transmit.out_pkts_no_session == 10);
    assert!(pair.seen.iter().all(|(_, frame)| is_hello(frame)));
    pair.loses = |_, _| false;
    pair.secure();
    pair.exchange(1, 11);
}

#[test]
fn the_rest_goes_through_the_link_or_is_dropped() {
    for policy in [OtherFrames::Link, OtherFrames::Drop] {
        let mut pair = Pair::new(
            "rest",
            [0, 1].map(|side| {
                let mut settings = settings(side, 0..1);
                settings.rest = policy;
                settings
            }),
        );
        pair.secure();
        let dcp =
            [&stations(0)[1].0.0[..], &stations(0)[0].0.0, &[0x88, 0x92, 0xfe, 0xfe], &[0; 44]].concat();
        for from in 0..2 {
            for count in 0..10 {
                assert!(pair.sides[from].machine.inject(&rest(from, count)));
                assert!(pair.sides[from].wire.inject(&rest(1 - from, count)));
            }
        }
        assert!(pair.sides[0].machine.inject(&dcp), "another FrameID");
        pair.exchange(1, 0x0100_0000);
        if policy == OtherFrames::Link {
            pair.until("it comes", |pair| pair.sides[0].came.len() == 20 && pair.sides[1].came.len() == 21);
        } else {
            pair.until("it is dropped", |pair| {
                let counters = [0, 1].map(|side| pair.status(side).counters);
                counters.map(|counters| (counters.out_pkts_rest_dropped, counters.in_pkts_rest_dropped))
                    == [(11, 10), (10, 10)]
            });
            assert!(pair.sides.iter().all(|side| side.came.is_empty()));
            assert!(pair.seen.iter().all(|(_, frame)| is_cell(frame)));
        }
        let secy = pair.snapshot(0).secy;
        assert_eq!(
            (secy.out_pkts_untagged, secy.in_pkts_untagged),
            if policy == OtherFrames::Link { (11, 20) } else { (0, 0) }
        );
    }
}

#[test]
fn cyclic_data_comes_by_its_relation_alone() {
    let mut pair = Pair::new("alone", [0, 1].map(|side| settings(side, 0..1)));
    pair.secure();
    pair.exchange(1, 0);
    let unsent = [0, 1].map(|side| pair.status(side).counters.out_hello_no_chunk);
    assert_eq!(unsent, [0, 0], "handshakes begin with the first ports");
    let mut untagged = cyclic(0, 0, 7);
    untagged.drain(12..16);
    let mut twice = cyclic(0, 0, 7);
    twice.splice(12..12, [0x88, 0xa8, 0, 5]);
    for in_clear in [cyclic(0, 0, 7), untagged, twice] {
        assert!(pair.sides[1].wire.inject(&in_clear), "in clear");
    }
    let strange =
        tagged(stations(0)[1].0, stations(0)[0].0, &[&[0x88, 0xb5, 0x99, 0x99][..], &[1; 60]].concat());
    assert!(pair.sides[1].wire.inject(&strange) && pair.sides[1].wire.inject(&strange[..20]));
    // A machine that speaks for the other side's station, or as if it were a gateway, is none of the cell's.
    assert!(pair.sides[0].machine.inject(&cyclic(1, 0, 8)) && pair.sides[0].machine.inject(&strange));
    pair.until("they are counted", |pair| {
        let status = pair.status(1);
        let counters = status.counters;
        status.relations[0].receive.in_pkts_clear_refused == 3
            && (counters.in_pkts_unknown_relation, counters.in_pkts_too_short) == (2, 1)
            && pair.snapshot(0).secy.out_pkts_untagged == 2
    });
    assert!(pair.sides[1].came.iter().all(|frame| *frame == cyclic(1, 0, 8)), "what is for nobody here");
    pair.exchange(1, 1);
}

#[test]
fn either_end_can_start_anew() {
    let mut pair = Pair::new("restart", [0, 1].map(|side| settings(side, 0..2)));
    pair.secure();
    pair.exchange(2, 0);
    for (round, side) in [0, 1, 1, 0].into_iter().enumerate() {
        pair.start(side, settings(side, 0..2));
        pair.secure();
        let recorded = pair.seen.clone();
        // The end that went on may protect in the session before until it hears of the new one.
        pair.until("both have left the session before", |pair| {
            (0..2).all(|side| pair.status(side).hello.sessions_confirmed > 0) && {
                let [one, other] = [0, 1].map(|side| pair.relation(side, 0));
                one.transmit_key.map(|key| key.key_id).is_some() && other.transmit_key.is_some()
            }
        });
        pair.until("frames pass", |pair| {
            let count = 1000 + round as u32;
            (0..2).for_each(|from| {
                (0..2).for_each(|number| {
                    pair.sides[from].machine.inject(&cyclic(from, number, count));
                });
            });
            pair.turn();
            pair.is_running()
        });
        // All that was ever sent is worth nothing.
        pair.sides.iter_mut().for_each(|side| side.came.clear());
        for (from, frame) in recorded.into_iter().filter(|(_, frame)| !is_hello(frame)) {
            assert!(pair.sides[1 - from].wire.inject(&frame));
        }
        pair.exchange(2, 10 + round as u32);
        pair.until("old frames are gone", |pair| pair.snapshot(0).protected.rx_frames > 0);
        assert!(
            pair.sides
                .iter()
                .all(|side| side.came.iter().all(|frame| frame[20..24] >= 1000u32.to_be_bytes()[..]))
        );
        pair.sides.iter_mut().for_each(|side| side.came.clear());
    }
}

#[test]
fn epochs_change_under_load_without_a_lost_frame() {
    let mut pair = Pair::new("epochs", [0, 1].map(|side| short_epochs(settings(side, 0..8), 20)));
    pair.secure();
    for count in 0..400 {
        pair.exchange(8, count);
    }
    for side in [0, 1] {
        for relation in pair.status(side).relations {
            assert_eq!((relation.receive.in_pkts_ok, relation.receive.in_pkts_not_valid), (400, 0));
            assert_eq!(relation.receive.in_pkts_unknown_key + relation.receive.in_pkts_late, 0);
            let (epochs, entered) = (relation.transmit.out_epochs, relation.receive.in_epochs);
            assert!((10..=20).contains(&epochs) && (10..=20).contains(&entered), "{epochs} {entered}");
        }
    }
}

#[test]
fn a_cell_changes_while_its_other_relations_go_on() {
    let mut pair = Pair::new("change", [0, 1].map(|side| settings(side, 0..3)));
    pair.secure();
    pair.exchange(3, 0);
    let before = pair.relation(0, 2);
    for side in [0, 1] {
        // Relation 0 goes, one more comes, and the others have other numbers.
        let mut changed = settings(side, 1..4);
        changed.relations[0].mode = Mode::Shadow;
        changed.rest = OtherFrames::Drop;
        pair.gateway.change_cell(NAMES[side], changed).unwrap();
    }
    let after = pair.relation(0, 1);
    assert_eq!(
        (after.transmit_key, after.receive_key, after.state),
        (before.transmit_key, before.receive_key, RelationState::Running)
    );
    assert_eq!((after.transmit, after.settings.relation), (before.transmit, before.settings.relation));
    for from in 0..2 {
        assert!(pair.sides[from].machine.inject(&cyclic(from, 2, 1)));
        assert!(pair.sides[from].machine.inject(&cyclic(from, 0, 1)), "of no relation any more");
    }
    pair.until("they come", |pair| pair.sides.iter().all(|side| side.came.len() == 1));
    pair.until("others do not", |pair| {
        (0..2).all(|side| pair.status(side).counters.out_pkts_rest_dropped == 1)
    });
    pair.secure();
    pair.until("the new relation's come", |pair| {
        pair.sides[0].machine.inject(&cyclic(0, 3, 2));
        pair.turn();
        pair.sides[1].came.contains(&cyclic(0, 3, 2))
    });
    // Another master key: sessions go on until the other side has it too, and then rest on it.
    let other = suite::fieldbus::MasterKey::new(&[6; 32]);
    for side in [0, 1] {
        let mut changed = settings(side, 1..4);
        changed.master_keys = other.clone().into();
        pair.gateway.change_cell(NAMES[side], changed).unwrap();
        assert_eq!(pair.relation(side, 1).state, RelationState::Running);
        pair.turn();
    }
    pair.until("they rest on the other key", |pair| {
        (0..2).all(|side| pair.status(side).session_keys == [Some(other.id()); 3])
    });
    // All agree on new sessions by command.
    let number = |pair: &mut Pair| pair.relation(1, 1).transmit_key.map(|key| key.session);
    let earlier = number(&mut pair);
    assert!(pair.gateway.renew_cell_sessions(NAMES[0]));
    pair.until("there is another session", |pair| number(pair) > earlier);
    assert!(!pair.gateway.renew_cell_sessions("nobody"));
    pair.secure();
    pair.gateway.remove_cell(NAMES[0]).unwrap();
    assert!(matches!(pair.gateway.remove_cell(NAMES[0]), Err(CellError::NotSo)));
    assert!(pair.gateway.add_cell(NAMES[0], settings(0, 0..1)).is_ok());
    assert!(matches!(pair.gateway.add_cell(NAMES[0], settings(0, 0..1)), Err(CellError::NotSo)));
    assert!(matches!(pair.gateway.add_cell("nobody", settings(0, 0..1)), Err(CellError::NoLink)));
    let mut twice = settings(0, 0..1);
    twice.relations.push(twice.relations[0]);
    assert!(matches!(pair.gateway.change_cell(NAMES[0], twice), Err(CellError::Relations(_))));
}

#[test]
fn in_shadow_mode_frames_pass_in_clear_and_twins_are_judged() {
    let mut pair = Pair::new(
        "shadow",
        [0, 1].map(|side| {
            let mut settings = settings(side, 0..2);
            settings.relations[0].mode = Mode::Shadow;
            settings
        }),
    );
    for count in 0..5 {
        assert!(pair.sides[0].machine.inject(&cyclic(0, 0, count)));
    }
    pair.until("they pass without a session", |pair| pair.sides[1].came.len() == 5);
    pair.sides[1].came.clear();
    pair.secure();
    for count in 10..30 {
        pair.exchange(2, count);
    }
    pair.until("twins are judged", |pair| pair.relation(1, 0).receive.in_pkts_shadow == 20);
    let [shadow, protected] = [0, 1].map(|number| pair.relation(1, number));
    assert_eq!((shadow.receive.in_pkts_clear, shadow.receive.in_pkts_ok), (25, 0));
    assert_eq!((protected.receive.in_pkts_clear, protected.receive.in_pkts_ok), (0, 20));
    assert_eq!((shadow.residence_inward.count(), shadow.jitter.count()), (20, 19));
    assert_eq!(pair.snapshot(0).chunks_free, pair.snapshot(0).chunks, "twins' chunks come back");
}

#[test]
fn silence_is_told() {
    let mut pair = Pair::new(
        "silence",
        [0, 1].map(|side| {
            let mut settings = settings(side, 0..2);
            settings.relations[1].alarm = Duration::from_millis(50);
            settings
        }),
    );
    pair.secure();
    pair.exchange(2, 0);
    pair.until("somebody is told", |pair| {
        let told = |notice: &Notice| match notice {
            Notice::CyclicSilence { relations, gap, .. } => {
                assert!(*gap >= Duration::from_millis(50));
                let [relation] = &relations[..] else { panic!("{relations:?}") };
                assert!([0, 1].into_iter().any(|side| relation.peer() == stations(1)[side]));
                true
            }
            _ => false,
        };
        pair.notices.iter().filter(|notice| told(notice)).count() == 2
    });
    assert_eq!(pair.relation(0, 1).receive.in_alarms, 1, "once for one silence");
    assert_eq!(pair.relation(0, 0).receive.in_alarms, 0);
}

#[test]
fn a_pulled_cable_is_one_notice() {
    let relations = 100;
    let mut pair = Pair::new(
        "cable",
        [0, 1].map(|side| {
            let mut settings = settings(side, 0..relations);
            settings.relations.iter_mut().for_each(|relation| relation.alarm = Duration::from_secs(1));
            settings
        }),
    );
    pair.secure();
    pair.exchange(relations, 0);
    let silences = |pair: &Pair, of: &str| -> Vec<usize> {
        let of_cell = |notice: &Notice| match notice {
            Notice::CyclicSilence { cell, relations, .. } if cell == of => Some(relations.len()),
            _ => None,
        };
        pair.notices.iter().filter_map(of_cell).collect()
    };
    pair.until("both are told of all", |pair| {
        ["cell-0", "cell-1"].iter().all(|cell| silences(pair, cell).iter().sum::<usize>() == relations)
    });
    // A machine that stood still for a while between frames of one exchange may have made two of it.
    assert!(["cell-0", "cell-1"].iter().all(|cell| silences(&pair, cell).len() <= 2));
}

#[test]
fn ports_go_and_come_and_sessions_stay() {
    let mut pair = Pair::new("ports", [0, 1].map(|side| settings(side, 0..1)));
    pair.secure();
    pair.exchange(1, 0);
    let before = pair.relation(0, 0).transmit_key;
    pair.gateway.close(NAMES[0]).unwrap();
    pair.turn();
    assert_eq!(pair.relation(0, 0).transmit_key, before);
    pair.reopen(0);
    pair.exchange(1, 1);
    assert_eq!(pair.relation(0, 0).receive.in_sessions, 1);
}

#[test]
fn a_thousand_relations() {
    let relations = 1024;
    let mut pair = Pair::new("thousand", [0, 1].map(|side| settings(side, 0..relations)));
    pair.secure();
    for count in 0..5 {
        pair.exchange(relations, count);
    }
    assert!(pair.is_running());
    for side in [0, 1] {
        assert!(pair.status(side).relations.iter().all(|relation| relation.receive.in_pkts_ok == 5));
    }
}
