//! Keystream made ahead: a frame with it is octet by octet that without it, whatever stands in its slot, and none stays behind. Root.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fieldbus::{Direction, KeyChange, ReceiveDiscard};
use wire::fieldbus::Seq;
use world::{AUTHENTICATE, ENCRYPT, Outcome, TAG, World, machine};
use xdp::{Cell, Verdict};

const SLOTS: u32 = 8;
const ID: usize = 0;
const OCTETS: usize = 8;
const SECRETS: usize = 16;
const KEYSTREAM: usize = 48;
/// Text that a slot has keystream for.
const MOST: usize = 1472;

fn payload(octets: usize) -> Vec<u8> {
    (0..octets).map(|octet| (octet * 7 + octets) as u8).collect()
}

fn sent<D: std::fmt::Debug>(outcome: Outcome<D>) -> Vec<u8> {
    match outcome {
        Outcome::Sent(octets) => octets,
        other => panic!("{other:?}"),
    }
}

fn word(slot: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(slot[at..at + 8].try_into().unwrap())
}

fn is_ready(cell: &Cell, way: Direction, seq: u32) -> bool {
    word(&cell.slot(0, way, seq).unwrap(), ID) as u32 == seq
}

/// Nothing that could be of use to somebody who reads the map.
fn is_empty(cell: &Cell, way: Direction, seq: u32) -> bool {
    let slot = cell.slot(0, way, seq).unwrap();
    word(&slot, ID) == 0 && slot[SECRETS..].iter().all(|octet| *octet == 0)
}

fn all_empty(cell: &Cell) -> bool {
    (0..SLOTS).all(|seq| is_empty(cell, Direction::Outward, seq) && is_empty(cell, Direction::Inward, seq))
}

fn fill(world: &World) {
    for gateway in &world.gateways {
        gateway.kernel.fill().unwrap();
    }
}

/// Two gateways in a session, which have seen a frame of so many octets of payload, with slots for the next ones.
fn filled(protection: wire::fieldbus::Protection, octets: usize) -> World {
    let mut world = World::new(protection, 1);
    world.secure(0, 1);
    pass(&mut world, octets);
    fill(&world);
    world
}

fn pass(world: &mut World, octets: usize) {
    let protected = sent(world.protect(0, &machine(0, 0, &TAG, &payload(octets))));
    sent(world.verify(1, &protected));
}

#[test]
fn frames_of_every_length_are_the_same_with_keystream_ahead() {
    for protection in [ENCRYPT, AUTHENTICATE] {
        let mut world = filled(protection, 0);
        for octets in (0..=200).chain((201..=1477).step_by(7)) {
            pass(&mut world, octets);
            // Slots are as long as the frame before, so some are too short.
            if octets % 3 == 0 {
                fill(&world);
            }
        }
    }
}

#[test]
fn a_slot_is_used_once_and_erased() {
    for octets in [40, 100, 1444] {
        let mut world = filled(ENCRYPT, octets);
        for seq in 2..2 + SLOTS {
            let [sender, receiver] = world.gateways.each_ref().map(|gateway| &gateway.kernel);
            assert!(is_ready(sender, Direction::Outward, seq) && is_ready(receiver, Direction::Inward, seq));
            assert!(word(&sender.slot(0, Direction::Outward, seq).unwrap(), OCTETS) >= octets as u64);
            pass(&mut world, octets);
            let [sender, receiver] = world.gateways.each_ref().map(|gateway| &gateway.kernel);
            for (cell, way) in [(sender, Direction::Outward), (receiver, Direction::Inward)] {
                let slot = cell.slot(0, way, seq).unwrap();
                assert_eq!(word(&slot, ID), 0);
                assert!(
                    slot[SECRETS..KEYSTREAM + octets].iter().all(|octet| *octet == 0),
                    "{way:?} {octets}"
                );
            }
        }
        pass(&mut world, octets);
    }
}

/// The proof that slots are used at all, and of which key and Seq: what stands in a ready one shows in the frame.
#[test]
fn only_the_slot_of_this_key_and_seq_is_used() {
    let frame = machine(0, 0, &TAG, &payload(40));
    let trial = |spoil: &dyn Fn(&mut Vec<u8>)| {
        let mut world = filled(ENCRYPT, 40);
        let cell = &mut world.gateways[0].kernel;
        let mut slot = cell.slot(0, Direction::Outward, 2).unwrap();
        slot[KEYSTREAM] ^= 1;
        spoil(&mut slot);
        cell.set_slot(0, Direction::Outward, 2, &slot).unwrap();
        let sealed = cell.run_outward(&frame, 1).unwrap();
        assert_eq!(sealed.verdict, Verdict::Redirect);
        let outcome = world.gateways[1].kernel.run_inward(&sealed.frame, 1).unwrap().verdict;
        (outcome, world.gateways[0].kernel.slot(0, Direction::Outward, 2).unwrap())
    };
    let set_id = |slot: &mut Vec<u8>, id: u64| slot[ID..ID + 8].copy_from_slice(&id.to_ne_bytes());
    let (outcome, _) = trial(&|_| {});
    assert_eq!(outcome, Verdict::Redirect, "the receiver's ICV is that of the ciphertext");
    let (outcome, _) = trial(&|slot| slot[SECRETS] ^= 1);
    assert_eq!(outcome, Verdict::Drop, "and that of a wrong Poly1305 key is wrong");
    for (what, id) in [("empty", 0), ("held by another program", 1)] {
        let (outcome, left) = trial(&|slot| {
            slot[SECRETS] ^= 1;
            set_id(slot, id);
        });
        assert_eq!((outcome, word(&left, ID)), (Verdict::Redirect, id), "{what}");
    }
    for (what, other) in [("another key", 1 << 32), ("another Seq", u64::from(SLOTS))] {
        let (outcome, left) = trial(&|slot| {
            slot[SECRETS] ^= 1;
            let id = word(slot, ID) + other;
            set_id(slot, id);
        });
        assert_eq!(outcome, Verdict::Redirect, "{what}");
        assert_ne!(word(&left, ID), 0, "{what}");
    }
    let (outcome, left) = trial(&|slot| {
        slot[SECRETS] ^= 1;
        slot[OCTETS..OCTETS + 8].copy_from_slice(&32_u64.to_ne_bytes());
    });
    assert_eq!((outcome, word(&left, ID)), (Verdict::Redirect, 0), "too short");
    assert!(left[SECRETS..KEYSTREAM + 32].iter().all(|octet| *octet == 0), "its Seq is spent");
}

#[test]
fn a_text_longer_than_a_slot_can_be_is_computed() {
    let mut world = World::with(ENCRYPT, 1, |settings| settings.mtu = Cell::MOST_MTU);
    world.secure(0, 1);
    for _ in 0..3 {
        pass(&mut world, MOST + 100);
        fill(&world);
        assert_eq!(
            word(&world.gateways[0].kernel.slot(0, Direction::Outward, 4).unwrap(), OCTETS),
            MOST as u64
        );
    }
}

#[test]
fn a_forgery_costs_the_slot_and_nothing_else() {
    let mut world = filled(ENCRYPT, 40);
    let protected = sent(world.protect(0, &machine(0, 0, &TAG, &payload(40))));
    let mut forged = protected.clone();
    forged[18 + 7] ^= 1;
    assert_eq!(world.verify(1, &forged), Outcome::Discarded(ReceiveDiscard::NotValid));
    sent(world.verify(1, &protected));
}

/// Frames that overtake, get lost and come again, and the slots that they leave.
#[test]
fn a_gap_in_the_seqs_leaves_no_spent_slot() {
    let mut world = filled(ENCRYPT, 40);
    let frames: Vec<_> =
        (0..20).map(|_| sent(world.protect(0, &machine(0, 0, &TAG, &payload(40))))).collect();
    for at in [3, 9, 19] {
        sent(world.verify(1, &frames[at]));
        assert_eq!(world.verify(1, &frames[at - 1]), Outcome::Discarded(ReceiveDiscard::Late));
        assert!(world.gateways[1].kernel.fill().unwrap() > 0);
        let newest = at as u32 + 2;
        assert!((newest + 1..=newest + SLOTS).all(|seq| is_ready(
            &world.gateways[1].kernel,
            Direction::Inward,
            seq
        )));
    }
}

#[test]
fn keystream_goes_with_its_key() {
    let mut world = filled(ENCRYPT, 1444);
    assert!(!all_empty(&world.gateways[0].kernel));
    world.enter(0, 0, 2);
    assert!(all_empty(&world.gateways[0].kernel), "a session was entered");
    world.gateways[1].kernel.clear().unwrap();
    let of = [world::relation(1, 0)];
    let settings = fieldbus::Settings::new(ENCRYPT, world::MTU);
    world.gateways[1].kernel.configure(&settings, &of, xdp::Unclaimed::Pass, &[]).unwrap();
    assert!(all_empty(&world.gateways[1].kernel), "the cell was cleared");
    assert_eq!(world.gateways[1].kernel.fill().unwrap(), 0, "no keys, no keystream");
}

#[test]
fn an_epoch_that_ends_leaves_its_slots_unused() {
    let mut world = World::with(ENCRYPT, 1, |settings| settings.epoch_end = Seq::new(3).unwrap());
    world.secure(0, 1);
    for epoch in 0..4_u64 {
        for _ in 0..3 {
            fill(&world);
            pass(&mut world, 40);
        }
        if epoch > 0 {
            let number = fieldbus::session::SessionNumber(1);
            world.change(0, 0, |world| KeyChange::NextTransmit(number, world.key(0, 1, 0, epoch + 1)));
            world.change(1, 0, |world| KeyChange::NextReceive(number, world.key(0, 1, 0, epoch + 1)));
        }
    }
}

/// The epoch before had a frame of the same Seq, which was lost.
#[test]
fn a_slot_of_the_key_before_is_not_used() {
    let mut world = World::with(ENCRYPT, 1, |settings| settings.epoch_end = Seq::new(3).unwrap());
    world.secure(0, 1);
    pass(&mut world, 40);
    fill(&world);
    for _ in 2..=3 {
        sent(world.protect(0, &machine(0, 0, &TAG, &payload(40))));
    }
    assert!(is_ready(&world.gateways[1].kernel, Direction::Inward, 2));
    for _ in 1..=3 {
        pass(&mut world, 40);
    }
}

#[test]
fn a_short_slot_keeps_nothing_of_a_long_one() {
    let mut world = filled(ENCRYPT, 1000);
    for _ in 0..SLOTS {
        pass(&mut world, 40);
    }
    fill(&world);
    let slot = world.gateways[0].kernel.slot(0, Direction::Outward, 2 + SLOTS).unwrap();
    assert_eq!(word(&slot, OCTETS), 64);
    assert!(slot[KEYSTREAM + 64..].iter().all(|octet| *octet == 0));
}

/// `fill` may publish a slot after its relation has gone and another one stands in its place: it would be a nonce of another key.
#[test]
fn a_slot_that_was_being_made_when_its_relation_was_taken_out_is_not_used() {
    let mut world = filled(ENCRYPT, 40);
    let late = world.gateways[0].kernel.slot(0, Direction::Outward, 2).unwrap();
    world.exchange([&[world::relation(0, 0)], &[world::relation(1, 0)]], &[]);
    world.secure(0, 2);
    pass(&mut world, 40);
    world.gateways[0].kernel.set_slot(0, Direction::Outward, 2, &late).unwrap();
    pass(&mut world, 40);
}

/// Frames that spend slots as fast as they are made: others do not wait for the relation's last one.
#[test]
fn a_pass_makes_no_more_slots_than_there_are() {
    let world = filled(ENCRYPT, 1444);
    let stop = AtomicBool::new(false);
    let frame = machine(0, 0, &TAG, &payload(1444));
    let sender = &world.gateways[0].kernel;
    let most = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                sender.run_outward(&frame, 1).unwrap();
            }
        });
        let most = (0..100_000).map(|_| sender.fill().unwrap()).max().unwrap();
        stop.store(true, Ordering::Relaxed);
        most
    });
    assert!((1..=2 * SLOTS).contains(&most), "{most} slots in one pass");
}

/// Slots are filled while frames of other CPUs take them, and keys change.
#[test]
fn frames_and_the_thread_that_fills_do_not_disturb_each_other() {
    let mut world = filled(ENCRYPT, 40);
    let stop = AtomicBool::new(false);
    let [sender, receiver] = world.gateways.each_ref().map(|gateway| &gateway.kernel);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                sender.fill().unwrap();
                receiver.fill().unwrap();
            }
        });
        for number in 0..20_000 {
            let frame = machine(0, 0, &TAG, &payload(number % 200));
            let sealed = sender.run_outward(&frame, 1).unwrap();
            let opened = receiver.run_inward(&sealed.frame, 1).unwrap();
            assert_eq!(opened.verdict, Verdict::Redirect, "{number}");
            assert_eq!(opened.frame[..frame.len()], frame, "{number}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    world.gateways.iter_mut().for_each(|gateway| gateway.kernel.clear().unwrap());
}

/// Threads of this process that fill slots.
fn fillers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "cell-ahead").count()
}

#[test]
fn the_cells_own_thread_fills_and_ends() {
    let mut world = World::new(ENCRYPT, 1);
    world.secure(0, 1);
    let cell = &mut world.gateways[0].kernel;
    static AT_START: AtomicBool = AtomicBool::new(false);
    cell.keep_filling(|| AT_START.store(true, Ordering::Relaxed)).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while !is_ready(cell, Direction::Outward, SLOTS) {
        assert!(Instant::now() < end, "no slot is filled");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(AT_START.load(Ordering::Relaxed));
    cell.clear().unwrap();
    assert_eq!(fillers(), 1);
    drop(world);
    assert_eq!(fillers(), 0);
}

/// As in the next program of a process: the descriptors are there, and nobody has them. Frames have passed meanwhile; keys, Seqs, keystream
/// and counters are those of before.
#[test]
fn programs_of_a_cell_go_on_with_their_keys_and_count_on() {
    let mut world = World::new(ENCRYPT, 2);
    (0..2).for_each(|number| world.secure(number, 1));
    pass(&mut world, 40);
    let relations = [0, 1].map(|number| world::relation(0, number));
    let document = serde_json::to_string(&world.gateways[0].kernel.pass_on().unwrap()).unwrap();
    fill(&world);
    pass(&mut world, 40);
    let passed: xdp::cell::PassedCell = serde_json::from_str(&document).unwrap();
    let numbers: Vec<_> = passed.descriptors().collect();
    netdev::passed_on::pass_on(&numbers, true).unwrap();
    assert!(Cell::go_on(&passed, &relations[..1]).is_err(), "another cell");
    let next = Cell::go_on(&passed, &relations).unwrap();
    assert!(Cell::go_on(&passed, &relations).is_err(), "they are somebody's");
    assert_eq!(next.room(), world.gateways[0].kernel.room());
    // The program before has no time to drop anything.
    std::mem::forget(std::mem::replace(&mut world.gateways[0].kernel, next));
    world.compare();
    pass(&mut world, 40);
    fill(&world);
    for seq in 4..SLOTS {
        assert!(is_ready(&world.gateways[0].kernel, Direction::Outward, seq), "{seq}");
    }
    // Keys change as before, and what has ended goes.
    world.secure(0, 2);
    pass(&mut world, 40);
    let protected = sent(world.protect(1, &machine(1, 1, &TAG, &payload(40))));
    sent(world.verify(0, &protected));
}
