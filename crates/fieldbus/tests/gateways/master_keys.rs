//! Exchange of a master key at two gateways, one after the other, while frames flow; and what somebody can do who has the
//! old key.

use std::time::Duration;

use fieldbus::handshake::{Handshake, PREFERRED_INTERVAL, REMOVED_KEY_TIME};
use fieldbus::session::{EpochKey, Session, SessionNumber};
use fieldbus::{KeyChange, LiveSession, Outgoing, Relations, Settings};
use proptest::prelude::*;
use suite::fieldbus::{KeyContext, MasterKey, MasterKeys};
use wire::fieldbus::{ETHERTYPE, Hello, HelloState, KeyId};
use wire::{Frame, Instant};

use crate::cell::{MODES, MTU, machine, settings};
use crate::gateway::{CYCLE, Plant};

/// Time for an exchange: both ask at once, and one of them again after a while.
const EXCHANGE: Duration = Duration::from_secs(25);
const ETHERNET: usize = 14;

fn key(octet: u8) -> MasterKey {
    MasterKey::new(&[octet; 32])
}

fn old() -> MasterKey {
    key(7)
}

fn new() -> MasterKey {
    key(8)
}

/// Keys in the order of preference.
fn keys(octets: &[u8]) -> MasterKeys {
    MasterKeys { preferred: key(octets[0]), fallback: octets.get(1).map(|octet| key(*octet)) }
}

/// Frames that were sent since a moment, and those that were not delivered.
struct Count(u64, u64);

impl Count {
    fn of(plant: &Plant) -> Self {
        Self(plant.sent() - plant.under_way(), plant.delivered())
    }

    fn lost(&self, plant: &Plant) -> u64 {
        let Self(sent, delivered) = Self::of(plant);
        (sent - self.0) - (delivered - self.1)
    }
}

fn until_all_rest_on(plant: &mut Plant, master: &MasterKey) {
    let mut waited = Duration::ZERO;
    while !plant.all_rest_on(master) {
        assert!(waited < EXCHANGE, "{:?} {:?}", plant.ends[0].handshakes[0], plant.ends[1].handshakes[0]);
        plant.pass(CYCLE * 10);
        waited += CYCLE * 10;
    }
}

fn sessions_entered(plant: &Plant) -> [u64; 2] {
    plant.ends.each_ref().map(|end| end.handshakes[0].counters().sessions_entered)
}

#[test]
fn both_ends_know_the_agreed_key() {
    // The station behind gateway 1 has the lower address.
    assert_eq!(settings(1, 0).relation.local(), fieldbus::relation::Local::Lower);
    let rows: [([&[u8]; 2], Option<u8>); 10] = [
        ([&[1], &[1]], Some(1)),
        ([&[1], &[2]], None),
        ([&[2, 1], &[1]], Some(1)),
        ([&[2, 1], &[2]], Some(2)),
        ([&[1, 2], &[2]], Some(2)),
        ([&[2, 1], &[2, 1]], Some(2)),
        ([&[2, 1], &[1, 2]], Some(1)),
        ([&[1, 2], &[2, 1]], Some(2)),
        ([&[2, 1], &[1, 3]], Some(1)),
        ([&[2, 1], &[4, 3]], None),
    ];
    for (of_ends, expected) in rows {
        for first in [0, 1] {
            let mut plant = Plant::with_keys(1, 1000, of_ends.map(keys));
            plant.pass(CYCLE * 150);
            // It is the same whoever asks, also with lost HELLOs.
            plant.lost_hellos = 3;
            plant.restart(first);
            plant.pass(CYCLE * 700);
            let agreed = plant.ends.each_ref().map(|end| end.handshakes[0].session_key());
            assert_eq!(agreed, [expected.map(|octet| key(octet).id()); 2], "{of_ends:?}");
            let count = Count::of(&plant);
            let entered = sessions_entered(&plant);
            plant.pass(PREFERRED_INTERVAL * 2);
            assert_eq!(sessions_entered(&plant), entered, "{of_ends:?}: once and no more");
            let expected_lost = if expected.is_none() { plant.sent() - count.0 } else { 0 };
            assert_eq!(count.lost(&plant), expected_lost, "{of_ends:?}");
        }
    }
}

#[test]
fn without_losses_a_new_master_key_takes_one_session_and_no_time() {
    for first in [0, 1] {
        let mut plant = Plant::new(3);
        plant.until_all_flow(CYCLE * 100).unwrap();
        let count = Count::of(&plant);
        plant.reload(first, &keys(&[8, 7]));
        plant.pass(Duration::from_secs(30));
        assert!(plant.all_rest_on(&old()));
        plant.reload(1 - first, &keys(&[8, 7]));
        plant.pass(CYCLE * 3);
        assert!(plant.all_rest_on(&new()));
        plant.reload(first, &keys(&[8]));
        plant.pass(CYCLE * 100);
        plant.reload(1 - first, &keys(&[8]));
        plant.pass(Duration::from_secs(30));
        assert_eq!(count.lost(&plant), 0);
        for handshake in plant.ends.iter().flat_map(|end| &end.handshakes) {
            assert_eq!(handshake.counters().sessions_entered, 2, "{handshake:?}");
        }
    }
}

#[test]
fn an_exchange_can_be_taken_back() {
    let mut plant = Plant::new(2);
    plant.until_all_flow(CYCLE * 100).unwrap();
    let count = Count::of(&plant);
    plant.reload(0, &keys(&[8, 7]));
    plant.reload(1, &keys(&[8, 7]));
    until_all_rest_on(&mut plant, &new());
    plant.reload(1, &keys(&[7]));
    plant.pass(CYCLE * 50);
    assert!(plant.all_rest_on(&old()));
    plant.pass(Duration::from_secs(20));
    plant.reload(0, &keys(&[7]));
    plant.pass(Duration::from_secs(20));
    assert_eq!(count.lost(&plant), 0);
}

#[test]
fn a_master_key_that_is_exchanged_at_once_costs_no_frame_within_a_second() {
    let mut plant = Plant::new(2);
    plant.until_all_flow(CYCLE * 100).unwrap();
    let count = Count::of(&plant);
    plant.reload(0, &keys(&[8]));
    plant.pass(REMOVED_KEY_TIME - CYCLE * 150);
    plant.reload(1, &keys(&[8]));
    plant.pass(Duration::from_secs(3));
    assert_eq!(count.lost(&plant), 0);
}

#[test]
fn hellos_that_wait_go_with_their_keys() {
    let relation = settings(0, 0).relation;
    let mut handshake = Handshake::new(&relation, &keys(&[8, 7]), MODES[0], ETHERTYPE, &[9; 32]);
    handshake.handle_timeout(Instant::START);
    handshake.change_keys(Instant::START, &keys(&[8]));
    assert!(handshake.poll_transmit().is_none());
    handshake.handle_timeout(Instant::START);
    assert!(is_under(&handshake.poll_transmit().unwrap(), &new()));
    assert!(handshake.poll_transmit().is_none());
}

#[test]
fn new_sessions_at_once_cost_no_frame() {
    for lost in 0..6 {
        let mut plant = Plant::with_epochs(3, 50);
        plant.until_all_flow(CYCLE * 100).unwrap();
        let (count, entered) = (Count::of(&plant), 1);
        for end in [0, 1, 0] {
            plant.lost_hellos = lost;
            plant.renew_sessions(end);
            plant.pass(Duration::from_secs(1));
        }
        // Both at once.
        plant.renew_sessions(0);
        plant.renew_sessions(1);
        plant.pass(Duration::from_secs(1));
        assert_eq!(count.lost(&plant), 0);
        for handshake in plant.ends.iter().flat_map(|end| &end.handshakes) {
            assert!(handshake.counters().sessions_entered >= entered + 4, "{lost}: {handshake:?}");
        }
        let before = plant.ends[0].handshakes[0].counters().sessions_entered;
        plant.pass(Duration::from_secs(20));
        assert_eq!(plant.ends[0].handshakes[0].counters().sessions_entered, before, "once and no more");
    }
}

/// Somebody who can hold back, replay and reorder, and has no key.
#[test]
fn nobody_without_a_key_pushes_two_ends_back_to_the_old_key() {
    let mut plant = Plant::new(1);
    plant.until_all_flow(CYCLE * 100).unwrap();
    for end in [0, 1] {
        plant.reload(end, &keys(&[8, 7]));
    }
    until_all_rest_on(&mut plant, &new());
    // HELLOs under the new key are held back, and all that were ever sent come again.
    for end in [0, 1, 0] {
        plant.restart(end);
        for _ in 0..60 {
            plant.pass(CYCLE * 10);
            plant.drop_hellos_under(&new());
            for which in 0..plant.recorded.len() {
                let (to, frame) = plant.recorded[which].clone();
                let is_hello =
                    Hello::parse(&frame[ETHERNET..]).is_ok() && frame[12..14] == ETHERTYPE.0.to_be_bytes();
                if is_hello && !is_under(&frame, &new()) {
                    plant.arrive(to, &frame);
                }
            }
        }
        let keys = plant.ends.each_ref().map(|end| end.handshakes[0].session_key());
        assert!(!keys.contains(&Some(old().id())), "{keys:?}");
        plant.pass(Duration::from_secs(1));
        assert!(plant.all_rest_on(&new()), "it heals by itself");
    }
}

fn is_under(frame: &[u8], master: &MasterKey) -> bool {
    let Ok((_, authenticated, mac)) = Hello::parse(&frame[ETHERNET..]) else { return false };
    let [destination, source] = [0, 6].map(|at| wire::MacAddr(frame[at..at + 6].try_into().unwrap()));
    master.hello_key(settings(0, 0).relation.stations()).verify(destination, source, authenticated, mac)
}

impl Plant {
    fn drop_hellos_under(&mut self, master: &MasterKey) {
        self.drop_under_way(|frame| frame[12..14] == ETHERTYPE.0.to_be_bytes() && is_under(frame, master));
    }
}

/// Somebody who has the old key and all that was ever sent. He makes the keys of each session, and protects a frame in the
/// epoch to come.
fn forge_all(plant: &mut Plant, to: usize, master: &MasterKey) -> u64 {
    let delivered = plant.delivered();
    let entered: Vec<_> = plant
        .recorded
        .iter()
        .filter(|(at, _)| *at == to)
        .filter_map(|(_, frame)| {
            let (hello, ..) = Hello::parse(&frame[ETHERNET..]).ok()?;
            let is_entered = frame[12..14] == ETHERTYPE.0.to_be_bytes() && hello.state == HelloState::Entered;
            (is_entered && is_under(frame, master)).then_some(hello)
        })
        .collect();
    assert!(!entered.is_empty(), "the session was recorded");
    let impostor = settings(1 - to, 0);
    for hello in entered {
        let [own, peers] = [hello.own, hello.peers.unwrap()];
        let direction = |epoch: u64| {
            let nonces = if to == 0 { [own, peers] } else { [peers, own] };
            let stations = *impostor.relation.stations();
            let context = KeyContext { stations, from_higher: to == 1, nonces, protection: MODES[0], epoch };
            let key_id = KeyId(hello.key_id.0.wrapping_add(epoch as u8));
            EpochKey { key_id, epoch, key: master.direction_key(&context) }
        };
        let number = SessionNumber(1);
        let session = Session { number, transmit: [1, 2].map(direction), receive: [1, 2].map(direction) };
        let mut cell = Relations::new(Settings::new(MODES[0], MTU), &[impostor]).unwrap();
        cell.change(0, KeyChange::Enter(LiveSession::new(session)));
        cell.change(0, KeyChange::Enable(number));
        let mut frame = machine(1 - to, 0, 40);
        frame[20..24].copy_from_slice(&plant.last_sent(1 - to).to_be_bytes());
        let mut chunk = [&[0; 64][..], &frame, &[0; 64]].concat();
        let found = cell.find_outward(&frame).unwrap();
        let mut burst = [Outgoing::new(Frame::new(&mut chunk, 64, frame.len()).unwrap(), found)];
        cell.protect(&mut burst);
        let octets = burst[0].frame().octets().to_vec();
        plant.arrive(to, &octets);
    }
    plant.delivered() - delivered
}

#[test]
fn a_removed_key_opens_nothing() {
    for end in [0, 1] {
        let mut plant = Plant::new(1);
        plant.until_all_flow(CYCLE * 100).unwrap();
        // The peer keeps the old key alone: nothing is to be agreed on.
        plant.reload(end, &keys(&[8]));
        plant.pass(REMOVED_KEY_TIME + CYCLE);
        assert_eq!(plant.ends[end].handshakes[0].session_key(), None);
        assert_eq!(forge_all(&mut plant, end, &old()), 0);
        // He can still be the peer's peer: that one has the old key.
        assert_eq!(forge_all(&mut plant, 1 - end, &old()), 1, "the forger knows his trade");

        // Both have both. The new key is agreed on, and no frame comes from the peer's machine since.
        let mut plant = Plant::new(1);
        plant.until_all_flow(CYCLE * 100).unwrap();
        plant.silent_machine = Some(1 - end);
        plant.reload(end, &keys(&[8, 7]));
        plant.reload(1 - end, &keys(&[8, 7]));
        plant.pass(CYCLE * 20);
        assert!(plant.all_rest_on(&new()));
        plant.reload(end, &keys(&[8]));
        plant.pass(REMOVED_KEY_TIME + CYCLE * 20);
        assert_eq!(forge_all(&mut plant, end, &old()), 0);
        plant.silent_machine = None;
        assert!(plant.until_all_flow(CYCLE * 150).is_some());
        // Nor does a HELLO under the old key do anything.
        let mut impostor =
            Handshake::new(&settings(1 - end, 0).relation, &old().into(), MODES[0], ETHERTYPE, &[9; 32]);
        impostor.handle_timeout(Instant::START);
        let asked = impostor.poll_transmit().unwrap();
        let before = plant.ends[end].handshakes[0].counters().in_hello_not_valid;
        plant.arrive(end, &asked);
        assert_eq!(plant.ends[end].handshakes[0].counters().in_hello_not_valid, before + 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Whichever gateway is first at each step, however long a pause is, whether the new key comes before the old one or behind
    /// it, and whichever HELLOs are lost.
    #[test]
    fn a_new_master_key_costs_no_frame(
        first: [bool; 3], pauses in proptest::array::uniform6(0u32..1_500_000), lost in proptest::array::uniform6(0u32..5),
        behind: bool, epoch in 3u32..200,
    ) {
        let mut plant = Plant::with_epochs(2, epoch);
        plant.until_all_flow(CYCLE * 100).unwrap();
        let count = Count::of(&plant);
        let steps: &[&[u8]] = if behind { &[&[7, 8], &[8, 7], &[8]] } else { &[&[8, 7], &[8]] };
        for (step, octets) in steps.iter().enumerate() {
            for end in 0..2 {
                plant.lost_hellos += lost[2 * step + end];
                plant.reload(end ^ usize::from(first[step]), &keys(octets));
                plant.pass(Duration::from_micros(pauses[2 * step + end].into()));
            }
            // A person looks at the status before the old key goes.
            if **octets == [8, 7] {
                until_all_rest_on(&mut plant, &new());
            }
        }
        prop_assert!(plant.all_rest_on(&new()));
        prop_assert_eq!(count.lost(&plant), 0);
        let delivered = plant.delivered();
        let forged = (0..2).map(|end| forge_all(&mut plant, end, &old())).sum::<u64>();
        prop_assert_eq!((forged, plant.delivered()), (0, delivered));
    }
}
