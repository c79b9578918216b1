//! An attacker between the two ends, who sees everything and has no key.

use std::time::Duration;

use fieldbus::handshake::{HandshakeState, HelloDiscard};
use fieldbus::relation::Relation;
use proptest::prelude::*;
use suite::fieldbus::MasterKey;
use wire::fieldbus::{CellSuite, ETHERTYPE, FrameId, Protect, Protection};
use wire::{Instant, MacAddr};

use crate::world::{DEVICE, ENCRYPT, FAIR, PLC, World, master, relation, started};

const NOW: Instant = Instant::after_start(Duration::from_secs(9));

#[test]
fn a_storm_of_hellos_is_answered_one_by_one_and_changes_nothing() {
    let mut world = World::settled(20);
    // The best that can be sent: HELLOs of earlier starts, whose MAC is right and which want an answer.
    for _ in 0..20 {
        world.restart(1);
        world.pass(Duration::from_millis(1));
    }
    world.assert_settled();
    let storm: Vec<_> =
        world.recorded.iter().filter(|(to, _)| *to == 0).map(|(_, frame)| frame.clone()).collect();
    let (sessions, said, due) =
        (world.ends[0].sessions.len(), world.counters(0).out_hello, world.ends[0].handshake.poll_timeout());
    let storms = 20_000;
    for (_, frame) in (0..storms).zip(storm.iter().cycle()) {
        world.arrive(0, frame);
        world.wire.clear();
    }
    assert!(world.counters(0).out_hello <= said + storms);
    assert_eq!((world.ends[0].sessions.len(), world.ends[0].handshake.poll_timeout()), (sessions, due));
    world.assert_settled();
    // And with every answer delivered to a peer that lives.
    let peers = world.ends[1].sessions.len();
    for (_, frame) in (0..2000).zip(storm.iter().cycle()) {
        world.arrive(0, frame);
        world.pass(Duration::from_micros(150));
    }
    assert_eq!((world.ends[0].sessions.len(), world.ends[1].sessions.len()), (sessions, peers));
    world.assert_settled();
}

#[test]
fn a_start_in_the_middle_of_a_storm_takes_as_long_as_without() {
    let mut world = World::settled(21);
    for _ in 0..5 {
        world.restart(1);
        world.pass(Duration::from_millis(1));
    }
    let storm = world.recorded.clone();
    world.restart(1);
    let mut steps = 0;
    while !world.is_settled() {
        for (to, frame) in &storm {
            world.arrive(*to, frame);
        }
        world.pass(Duration::from_micros(50));
        steps += 1;
        // Eight steps of 50 us are the two round trips that it takes.
        assert!(steps <= 8, "{:?}", world.states());
    }
}

#[test]
fn other_master_keys_modes_and_relations_never_meet() {
    let authenticate = Protection { protect: Protect::Authenticate, ..ENCRYPT };
    let longer = Protection { suite: CellSuite::GcmAes256, ..ENCRYPT };
    let another = MacAddr([2, 0, 0, 0, 0, 10]);
    let with = |own, peer| Relation::new(own, peer, Duration::from_millis(1)).expect("two stations");
    let rows = [
        (relation(1), MasterKey::new(&[1; 32]), ENCRYPT, HelloDiscard::NotValid),
        (relation(1), master(), authenticate, HelloDiscard::OtherMode),
        (relation(1), master(), longer, HelloDiscard::OtherMode),
        (with(DEVICE, (another, PLC.1)), master(), ENCRYPT, HelloDiscard::OtherRelation),
        (with((another, DEVICE.1), PLC), master(), ENCRYPT, HelloDiscard::OtherRelation),
        (with((DEVICE.0, FrameId(0x8003)), PLC), master(), ENCRYPT, HelloDiscard::OtherRelation),
        // The other end is configured with another FrameID of this end: the relation differs, and so do its
        // keys.
        (with(DEVICE, (PLC.0, FrameId(0x8004))), master(), ENCRYPT, HelloDiscard::NotValid),
    ];
    for (number, (relation, master, protection, reason)) in rows.into_iter().enumerate() {
        let mut world = World::new(30, FAIR);
        world.ends[1] = started(relation, &master, protection, ETHERTYPE, &[6; 32]);
        world.wire.clear();
        world.ends[1].handshake.handle_timeout(NOW);
        let said = world.ends[1].handshake.poll_transmit().expect("it asks");
        assert_eq!(world.ends[0].handshake.handle_frame(NOW, &said), Err(reason), "row {number}");
        world.pass(Duration::from_secs(3));
        assert_eq!(world.states(), [HandshakeState::Asking; 2], "row {number}");
    }
}

#[test]
fn a_hello_that_was_altered_in_any_bit_is_discarded() {
    let mut world = World::settled(22);
    world.restart(0);
    let frames: Vec<_> = world.recorded.iter().rev().take(4).cloned().collect();
    let states = world.states();
    for (to, frame) in frames {
        for bit in 0..frame.len() * 8 {
            let mut altered = frame.clone();
            altered[bit / 8] ^= 0x80 >> (bit % 8);
            for end in [to, 1 - to] {
                assert!(world.ends[end].handshake.handle_frame(world.now, &altered).is_err(), "bit {bit}");
                assert!(world.ends[end].handshake.poll_transmit().is_none());
            }
        }
    }
    assert_eq!(world.states(), states);
    world.pass(Duration::from_millis(1));
    world.assert_settled();
}

#[test]
fn who_drops_what_he_likes_keeps_ends_apart_and_brings_them_into_no_session_alone() {
    for deaf in [0, 1] {
        let mut world = World::new(23, FAIR);
        world.wire.retain(|&(_, to, _)| to != deaf);
        world.deaf = Some(deaf);
        world.pass(Duration::from_secs(60));
        // The other one hears HELLOs and answers them; but none has a nonce of its own.
        assert_eq!(world.states(), [HandshakeState::Asking; 2]);
        world.deaf = None;
        world.pass(Duration::from_millis(101));
        world.assert_settled();
    }
}

proptest! {
    #[test]
    fn any_octets(seed: u64, octets in proptest::collection::vec(any::<u8>(), 0..120), keep in 0usize..90) {
        let mut world = World::settled(seed % 8);
        let (to, real) = world.recorded[seed as usize % world.recorded.len()].clone();
        let mixed = [&real[..keep.min(real.len())], &octets[..]].concat();
        for frame in [octets, mixed] {
            if frame.get(..real.len()) != Some(&real[..]) {
                prop_assert!(world.ends[to].handshake.handle_frame(world.now, &frame).is_err());
                prop_assert!(world.ends[to].handshake.poll_transmit().is_none());
            }
        }
        world.assert_settled();
    }
}
