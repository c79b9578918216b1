//! Keys change while frames are under way: epochs, sessions, and what never comes back.

#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

mod cell;

use std::collections::BTreeSet;
use std::time::Duration;

use cell::{ALARM, CYCLE, MODES, MTU, Pair, machine, seq, settings};
use fieldbus::session::SessionNumber;
use fieldbus::{
    Event, KeyChange, LiveSession, Moment, ReceiveDiscard, RelationState, Relations, Settings,
    TransmitDiscard,
};
use proptest::prelude::*;

/// Does what control does: brings the keys of the epochs after those that have begun.
fn attend(pair: &mut Pair, end: usize, key_id: u8) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some((number, event)) = pair.ends[end].poll_event() {
        let change = match event {
            Event::TransmitEpoch(session, epoch) => {
                KeyChange::NextTransmit(session, pair.key(number, session.0, end, key_id, epoch + 1))
            }
            Event::ReceiveEpoch(session, epoch) => {
                KeyChange::NextReceive(session, pair.key(number, session.0, 1 - end, key_id, epoch + 1))
            }
            Event::SessionVerified(_) | Event::Alarm(_) | Event::Lost => KeyChange::Collect,
        };
        pair.ends[end].change(number, change);
        events.push(event);
    }
    events
}

#[test]
fn only_newer_frames_pass() {
    let mut pair = Pair::secured(MODES[0], 1);
    let sent: Vec<_> = (0..10).map(|_| pair.protect(0, &machine(0, 0, 40)).unwrap()).collect();
    for (at, expected) in [
        (0, Ok(())),
        (0, Err(ReceiveDiscard::Late)),
        (3, Ok(())),
        (1, Err(ReceiveDiscard::Late)),
        (2, Err(ReceiveDiscard::Late)),
        (3, Err(ReceiveDiscard::Late)),
        (9, Ok(())),
        (8, Err(ReceiveDiscard::Late)),
    ] {
        assert_eq!(pair.verify(1, &sent[at]).map(drop), expected, "frame {at}");
    }
    let receive = pair.status(1, 0).receive;
    assert_eq!((receive.in_pkts_ok, receive.in_pkts_late, receive.in_pkts_missing), (3, 5, 7));
    // The same within one burst, where the early check sees none of them committed.
    let mut pair = Pair::secured(MODES[0], 1);
    let verdicts = pair.verify_all(1, &[0, 1, 1, 0, 4, 3].map(|at| sent[at].clone()));
    let passed: Vec<_> = verdicts.iter().map(Result::is_ok).collect();
    assert_eq!(passed, [true, true, false, false, true, false]);
}

#[test]
fn an_epoch_follows_the_other_without_a_lost_frame() {
    for protection in MODES {
        let mut pair = Pair::with(protection, 1, |settings| settings.epoch_end = seq(10));
        pair.secure(0);
        let mut events = [0; 2];
        for count in 0..300 {
            for from in 0..2 {
                assert_eq!(pair.pass(from, 0), Ok(machine(from, 0, 40)), "frame {count}");
            }
            for (end, events) in events.iter_mut().enumerate() {
                *events += attend(&mut pair, end, 0).len();
            }
        }
        assert_eq!(events, [1 + 29 + 29; 2], "the first frame, and epochs both ways");
        let status = pair.status(0, 0);
        let key = status.transmit_key.unwrap();
        assert_eq!((key.epoch, key.key_id.0, key.seq), (29, 29, Some(seq(10))));
        assert_eq!((status.transmit.out_epochs, status.receive.in_epochs), (29, 29));
    }
}

#[test]
fn key_ids_go_round() {
    let mut pair = Pair::with(MODES[0], 1, |settings| settings.epoch_end = seq(1));
    pair.secure(0);
    for _ in 0..600 {
        assert!(pair.pass(0, 0).is_ok());
        (0..2).for_each(|end| drop(attend(&mut pair, end, 0)));
    }
    assert_eq!(pair.status(1, 0).receive_key.unwrap().key_id.0, (599 % 256) as u8);
}

#[test]
fn without_another_key_an_epoch_goes_on_and_two_epochs_are_all() {
    let mut pair = Pair::with(MODES[0], 1, |settings| settings.epoch_end = seq(3));
    pair.secure(0);
    // Nobody attends: epoch 1 begins after three frames, and there is no epoch 2.
    for number in 1..20 {
        assert!(pair.pass(0, 0).is_ok());
        let key = pair.status(0, 0).transmit_key.unwrap();
        let expected = if number <= 3 { (0, number) } else { (1, number - 3) };
        assert_eq!((key.epoch, key.seq.unwrap().number()), expected);
    }
    // Both ends hear of it late; then it goes on.
    (0..2).for_each(|end| drop(attend(&mut pair, end, 0)));
    assert!(pair.pass(0, 0).is_ok());
    assert_eq!(pair.status(0, 0).transmit_key.unwrap().epoch, 2);
}

#[test]
fn frames_of_the_epoch_before_are_late() {
    let mut pair = Pair::with(MODES[0], 1, |settings| settings.epoch_end = seq(5));
    pair.secure(0);
    let sent: Vec<_> = (0..8).map(|_| pair.protect(0, &machine(0, 0, 40)).unwrap()).collect();
    let verdicts = pair.verify_all(1, &[0, 5, 4, 6].map(|at| sent[at].clone()));
    assert!(verdicts[0].is_ok() && verdicts[1].is_ok() && verdicts[3].is_ok());
    assert_eq!(verdicts[2], Err(ReceiveDiscard::Late), "in one burst");
    assert_eq!(pair.verify(1, &sent[4]), Err(ReceiveDiscard::Late));
    attend(&mut pair, 1, 0);
    assert_eq!(pair.verify(1, &sent[3]), Err(ReceiveDiscard::Late));
    assert!(pair.verify(1, &sent[7]).is_ok());
}

#[test]
fn a_session_follows_the_other_while_frames_are_under_way() {
    for protection in MODES {
        let mut pair = Pair::secured(protection, 1);
        for from in 0..2 {
            assert!(pair.pass(from, 0).is_ok());
        }
        let under_way = pair.protect(0, &machine(0, 0, 40)).unwrap();
        let late = pair.protect(0, &machine(0, 0, 40)).unwrap();
        let [own, other] = pair.session(0, 77);
        let (number, other_number) = (own.number, other.number);
        // The other end enters first: both keys are good for receiving, the old one is for transmitting.
        pair.ends[1].change(0, KeyChange::Enter(LiveSession::new(other)));
        assert!(pair.verify(1, &under_way).is_ok() && pair.pass(0, 0).is_ok() && pair.pass(1, 0).is_ok());
        pair.ends[0].change(0, KeyChange::Enter(LiveSession::new(own)));
        assert!(pair.pass(0, 0).is_ok() && pair.pass(1, 0).is_ok());
        assert_eq!(pair.status(0, 0).transmit_key.unwrap().key_id.0, 0, "not enabled");
        pair.ends[0].change(0, KeyChange::Enable(SessionNumber(number.0 - 1)));
        assert_eq!(pair.status(0, 0).transmit_key.unwrap().key_id.0, 0, "another was");
        pair.ends[0].change(0, KeyChange::Enable(number));
        assert_eq!(pair.status(0, 0).transmit_key.unwrap().key_id.0, 77);
        assert!(pair.pass(1, 0).is_ok(), "the other end is not enabled, and its old key is good");
        assert!(attend(&mut pair, 1, 0).contains(&Event::SessionVerified(SessionNumber(1))));
        assert!(pair.pass(0, 0).is_ok());
        // Its first frame ended the session before, both ways.
        assert_eq!(attend(&mut pair, 1, 77), [Event::SessionVerified(other_number)]);
        assert_eq!(pair.status(1, 0).transmit_key.unwrap().key_id.0, 77);
        assert_eq!(pair.verify(1, &late), Err(ReceiveDiscard::UnknownKey));
        assert!(pair.pass(1, 0).is_ok() && pair.pass(0, 0).is_ok());
        assert_eq!(pair.status(0, 0).receive.in_sessions, 2);
    }
}

#[test]
fn a_session_that_is_not_enabled_gives_way_to_the_next() {
    let mut pair = Pair::secured(MODES[0], 1);
    assert!(pair.pass(0, 0).is_ok());
    let [own, _] = pair.session(0, 50);
    let first = own.number;
    assert!(pair.ends[0].change(0, KeyChange::Enter(LiveSession::new(own))).is_empty());
    let [own, _] = pair.session(0, 60);
    let out = pair.ends[0].change(0, KeyChange::Enter(LiveSession::new(own)));
    assert!(!out.is_empty(), "the first of them is given back");
    pair.ends[0].change(0, KeyChange::Enable(first));
    assert_eq!(pair.status(0, 0).transmit_key.unwrap().key_id.0, 0);
    // One that is enabled goes on until the next is.
    let [own, other] = pair.session(0, 70);
    let number = own.number;
    pair.ends[1].change(0, KeyChange::Enter(LiveSession::new(other)));
    pair.ends[0].change(0, KeyChange::Enter(LiveSession::new(own)));
    pair.ends[0].change(0, KeyChange::Enable(number));
    let [own, _] = pair.session(0, 80);
    pair.ends[0].change(0, KeyChange::Enter(LiveSession::new(own)));
    assert_eq!(pair.pass(0, 0), Ok(machine(0, 0, 40)), "under 70");
    assert_eq!(pair.status(0, 0).transmit_key.unwrap().key_id.0, 70);
}

#[test]
fn of_two_keys_with_one_name_the_newer_sessions_is_tried() {
    // A peer that starts draws its first KeyID, which may be one that this end still knows.
    let mut pair = Pair::secured(MODES[0], 1);
    assert!(pair.pass(1, 0).is_ok());
    for key_id in [0, 1] {
        let [own, other] = pair.session(0, key_id);
        let number = other.number;
        pair.ends[0].change(0, KeyChange::Enter(LiveSession::new(own)));
        pair.ends[1].change(0, KeyChange::Enter(LiveSession::new(other)));
        pair.ends[1].change(0, KeyChange::Enable(number));
        assert_eq!(pair.pass(1, 0), Ok(machine(1, 0, 40)));
    }
}

#[test]
fn keys_for_what_has_ended_are_given_back() {
    let mut pair = Pair::secured(MODES[0], 1);
    let session = SessionNumber(1);
    for (number, epoch) in [(session, 1), (session, 2), (session, 3), (SessionNumber(9), 2)] {
        let key = || pair.key(0, 1, 0, 0, epoch);
        let (transmit, receive) = (key(), key());
        assert!(!pair.ends[0].change(0, KeyChange::NextTransmit(number, transmit)).is_empty());
        assert!(!pair.ends[0].change(0, KeyChange::NextReceive(number, receive)).is_empty());
    }
}

#[test]
fn a_clock_that_stands_still_or_jumps_stops_nothing() {
    let mut pair = Pair::secured(MODES[0], 1);
    let moments = [5, 5, 5, 3_600_000, 1, 0, 86_400_000_000, u64::MAX, 7];
    for milliseconds in moments {
        let now = Moment::after_start(Duration::from_millis(milliseconds));
        let protected = pair.protect(0, &machine(0, 0, 40)).unwrap();
        pair.now = now;
        assert!(pair.verify(1, &protected).is_ok());
        while !pair.ends[1].handle_timeout(now) {}
        pair.ends[1].record_residence(0, fieldbus::Direction::Inward, Duration::MAX);
    }
    let status = pair.status(1, 0);
    assert_eq!((status.receive.in_pkts_ok, status.jitter.count()), (9, 8));
}

#[test]
fn silence_is_an_alarm_once() {
    let mut pair = Pair::secured(MODES[0], 100);
    let look = |pair: &mut Pair| {
        let mut looks = 1;
        while !pair.ends[1].handle_timeout(pair.now) {
            looks += 1;
        }
        assert_eq!(looks, 4, "32 a call");
    };
    assert!(!pair.ends[1].is_watched());
    for number in 0..100 {
        assert!(pair.pass(0, number).is_ok());
    }
    attend(&mut pair, 1, 0);
    assert!(pair.ends[1].is_watched());
    pair.now = pair.now.later(CYCLE * 200);
    for _ in 0..3 {
        look(&mut pair);
    }
    let events = attend(&mut pair, 1, 0);
    assert_eq!(events.len(), 100);
    assert!(events.iter().all(|event| matches!(event, Event::Alarm(gap) if *gap >= CYCLE * 200)));
    assert!(pair.pass(0, 3).is_ok());
    assert_eq!(attend(&mut pair, 1, 0), [], "that gap was told");
    pair.now = pair.now.later(ALARM);
    assert!(pair.pass(0, 3).is_ok());
    assert_eq!(attend(&mut pair, 1, 0), [Event::Alarm(ALARM + CYCLE)]);
    let status = pair.status(1, 3);
    assert_eq!((status.receive.in_alarms, status.state), (2, RelationState::Running));
    assert_eq!((status.jitter.count(), status.silent), (2, Some(Duration::ZERO)));
}

#[test]
fn a_cell_takes_over_what_stays() {
    let mut pair = Pair::secured(MODES[0], 4);
    for number in 0..4 {
        assert!(pair.pass(0, number).is_ok() && pair.pass(1, number).is_ok());
    }
    let before = [pair.status(1, 1), pair.status(1, 3)];
    let mut wanted: Vec<_> = [3, 1, 5].map(|number| settings(1, number)).to_vec();
    wanted[0].alarm = CYCLE * 9;
    let mut cell = Settings::new(MODES[0], MTU);
    cell.vlan = None;
    let mut next = Relations::new(cell, &wanted).unwrap();
    next.take_over(&mut pair.ends[1], &[(0, 3), (1, 1)]);
    pair.ends[1] = next;
    assert_eq!(pair.status(1, 1).receive_key, before[0].receive_key);
    assert_eq!(
        (pair.status(1, 0).receive_key, pair.status(1, 0).settings.alarm),
        (before[1].receive_key, CYCLE * 9)
    );
    assert_eq!(pair.status(1, 2).state, RelationState::NoSession);
    for number in [1, 3] {
        let came = pair.pass(0, number).unwrap();
        let untagged = machine(0, number, 40);
        assert_eq!(came, [&untagged[..12], &untagged[16..]].concat(), "the new settings");
    }
    let events: Vec<_> = std::iter::from_fn(|| pair.ends[1].poll_event()).collect();
    let heard = Event::SessionVerified(SessionNumber(1));
    assert_eq!(events, [(0, heard), (1, heard)], "what was not told yet goes on too");
}

#[test]
fn relations_that_could_not_be_told_apart_are_refused() {
    use fieldbus::RelationsError;
    let cell = Settings::new(MODES[0], MTU);
    let twice: Vec<_> = [1, 2, 3, 2].map(|number| settings(0, number)).to_vec();
    assert_eq!(Relations::new(cell, &twice).unwrap_err(), RelationsError::Same(1, 3));
    let many: Vec<_> = (0..=Relations::MAX).map(|number| settings(0, number)).collect();
    assert_eq!(Relations::new(cell, &many).unwrap_err(), RelationsError::TooMany);
    assert_eq!(Relations::new(cell, &many[1..]).unwrap().count(), Relations::MAX);
}

#[derive(Clone, Debug)]
enum Step {
    /// The machine behind an end sends.
    Send { from: usize },
    /// One of the last frames arrives, again or for the first time, with this octet changed by this.
    Arrive { ago: usize, place: usize, flip: u8 },
    /// Control does its work.
    Attend { end: usize },
    /// A session is made; each end enters it, and enables it or not.
    Session { enable: [bool; 2] },
}

fn step() -> impl Strategy<Value = Step> {
    let end = 0usize..2;
    prop_oneof![
        8 => end.clone().prop_map(|from| Step::Send { from }),
        8 => (0usize..6, any::<usize>(), prop_oneof![6 => Just(0u8), 1 => any::<u8>()])
            .prop_map(|(ago, place, flip)| Step::Arrive { ago, place, flip }),
        4 => end.prop_map(|end| Step::Attend { end }),
        1 => any::<[bool; 2]>().prop_map(|enable| Step::Session { enable }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn no_seq_is_used_twice_and_nothing_is_delivered_twice_or_late(
        mode in 0usize..4, epoch_end in 1u32..8, steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut pair = Pair::with(MODES[mode], 1, |settings| settings.epoch_end = seq(epoch_end));
        pair.secure(0);
        let mut sent: Vec<(usize, u32, Vec<u8>)> = Vec::new();
        let mut used = BTreeSet::new();
        let (mut count, mut newest) = (0u32, [0u32; 2]);
        for step in steps {
            match step {
                Step::Send { from } => {
                    count += 1;
                    let mut frame = machine(from, 0, 40);
                    frame[20..24].copy_from_slice(&count.to_be_bytes());
                    match pair.protect(from, &frame) {
                        Ok(frame) => {
                            let key = pair.status(from, 0).transmit_key.unwrap();
                            let seq = key.seq.unwrap();
                            prop_assert!(used.insert((from, key.session.0, key.epoch, seq)), "{:?}", key);
                            sent.push((from, count, frame));
                        }
                        Err(discard) => prop_assert_eq!(discard, TransmitDiscard::SeqExhausted),
                    }
                }
                Step::Arrive { ago, place, flip } => {
                    let Some((from, count, frame)) = sent.iter().rev().nth(ago) else { continue };
                    let (to, mut frame) = (1 - from, frame.clone());
                    let place = 20 + place % (frame.len() - 20);
                    frame[place] ^= flip;
                    if frame[21..25] == [0; 4] {
                        continue; // a HELLO
                    }
                    if let Ok(came) = pair.verify(to, &frame) {
                        prop_assert!(flip == 0);
                        prop_assert_eq!(&came[20..24], &count.to_be_bytes()[..]);
                        prop_assert!(*count > newest[to], "delivered after a newer one");
                        newest[to] = *count;
                    }
                }
                Step::Attend { end } => {
                    // KeyIDs of session n begin at 64 n.
                    while let Some((_, event)) = pair.ends[end].poll_event() {
                        let key = |session: SessionNumber, from, epoch| {
                            pair.key(0, session.0, from, first_key_id(session.0), epoch + 1)
                        };
                        let change = match event {
                            Event::TransmitEpoch(session, epoch) => {
                                KeyChange::NextTransmit(session, key(session, end, epoch))
                            }
                            Event::ReceiveEpoch(session, epoch) => {
                                KeyChange::NextReceive(session, key(session, 1 - end, epoch))
                            }
                            _ => KeyChange::Collect,
                        };
                        pair.ends[end].change(0, change);
                    }
                }
                Step::Session { enable } => {
                    let number = pair.status(0, 0).transmit_key.map_or(0, |key| key.session.0);
                    let sessions = pair.session(0, 0);
                    let made = sessions[0].number.0;
                    prop_assert!(made > number);
                    for (end, mut session) in sessions.into_iter().enumerate() {
                        for keys in [&mut session.transmit, &mut session.receive] {
                            for key in keys {
                                key.key_id.0 = key.key_id.0.wrapping_add(first_key_id(made));
                            }
                        }
                        pair.ends[end].change(0, KeyChange::Enter(LiveSession::new(session)));
                        if enable[end] {
                            pair.ends[end].change(0, KeyChange::Enable(SessionNumber(made)));
                        }
                    }
                }
            }
        }
    }
}

fn first_key_id(session: u32) -> u8 {
    ((session - 1) * 64) as u8
}
