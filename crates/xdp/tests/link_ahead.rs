//! Keystream made ahead for a link: a frame with it is octet by octet that without it, whatever stands in its slot, and none stays behind.
//! Root.
#![allow(clippy::unwrap_used)]

mod stations;

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use secy::{ConfidentialityOffset, Protection, ReceiveDiscard, Settings, TransmitDiscard};
use stations::{ENCRYPT, Outcome, SETTINGS, World, an, payload, sci, sdu};
use suite::CipherSuite;
use xdp::{Link, Verdict};

const SUITE: CipherSuite = CipherSuite::ChaCha20Poly1305;
const XPN: CipherSuite = CipherSuite::ChaCha20Poly1305Xpn;
const IPV4: [u8; 2] = [8, 0];
const SLOTS: u64 = 512;
/// Slots of a full ring: the others are left to frames that come late.
const FULL: u32 = 480;
const ID: usize = 0;
const PN: usize = 8;
const OCTETS: usize = 16;
const SECRETS: usize = 32;
const KEYSTREAM: usize = 64;

/// Each test has threads of this name, and counts them.
static THREADS: Mutex<()> = Mutex::new(());

fn filled(suite: CipherSuite, protection: Protection, first: u64) -> World {
    let world = World::secured(suite, protection, 64, &SETTINGS, first);
    fill(&world);
    world
}

/// Both SAs of both links have a ring.
fn fill(world: &World) -> u32 {
    world.gateways.iter().map(|gateway| gateway.kernel.fill()).sum()
}

fn word(slot: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(slot[at..at + 8].try_into().unwrap())
}

fn sent(link: &Link, pn: u64) -> Vec<u8> {
    link.slot(None, an(0), pn).unwrap().unwrap()
}

fn received(link: &Link, pn: u64) -> Vec<u8> {
    link.slot(Some(sci(0)), an(0), pn).unwrap().unwrap()
}

fn is_ready(slot: &[u8], pn: u64) -> bool {
    word(slot, ID) > 1 && word(slot, PN) == pn
}

fn is_erased(slot: &[u8]) -> bool {
    word(slot, ID) == 0 && slot[SECRETS..KEYSTREAM].iter().all(|octet| *octet == 0)
}

fn is_empty(slot: &[u8]) -> bool {
    slot.iter().all(|octet| *octet == 0)
}

fn pass(world: &mut World, octets: usize) {
    let frame = sdu(0, IPV4, &payload(octets));
    let protected = world.protect(0, &frame).sent();
    assert_eq!(world.verify(1, &protected).sent(), frame, "{octets}");
}

#[test]
fn frames_of_every_length_are_the_same_with_keystream_ahead() {
    let all = [
        (SUITE, ENCRYPT, 1),
        (SUITE, Protection::Integrity, 1),
        (SUITE, Protection::Encrypt(ConfidentialityOffset::Thirty), 1),
        (XPN, ENCRYPT, (1 << 32) - 100),
        (XPN, Protection::Integrity, 1),
    ];
    for (suite, protection, first) in all {
        let mut world = filled(suite, protection, first);
        assert!(is_ready(&sent(&world.gateways[0].kernel, first), first));
        for octets in (0..200).chain((200..=1500).step_by(7)) {
            pass(&mut world, octets);
            if octets % 50 == 0 {
                fill(&world);
            }
        }
    }
}

#[test]
fn a_slot_is_used_once_and_erased() {
    for octets in [0, 40, 100, 1444, 1498] {
        let mut world = filled(SUITE, ENCRYPT, 1);
        for pn in 1..=u64::from(FULL) {
            let [sender, receiver] = world.gateways.each_ref().map(|gateway| &gateway.kernel);
            assert!(is_ready(&sent(sender, pn), pn) && is_ready(&received(receiver, pn), pn), "{pn}");
            pass(&mut world, octets);
            let [sender, receiver] = world.gateways.each_ref().map(|gateway| &gateway.kernel);
            for slot in [sent(sender, pn), received(receiver, pn)] {
                assert!(is_erased(&slot), "{pn}");
                assert!(slot[KEYSTREAM..][..octets + 2].iter().all(|octet| *octet == 0), "{octets}");
            }
        }
        pass(&mut world, octets);
    }
}

/// A slot may be ready for a PN that is not: it waits for it.
#[test]
fn a_ready_slot_gives_no_pn_that_is_not_reserved() {
    let mut world = World::new(SUITE, ENCRYPT, 64, &SETTINGS);
    world.gateways.iter_mut().for_each(|gateway| gateway.kernel.share_slots().unwrap());
    (0..2).for_each(|station| world.install_sc(station, 1 - station).unwrap());
    world.install_receive(1, 0, 0, 7, 1).unwrap();
    world.enable_receive(1, 0, 0).unwrap();
    world.install_transmit(0, 0, 7, 1, 3).unwrap();
    world.enable_transmit(0, 0).unwrap();
    fill(&world);
    let frame = sdu(0, IPV4, &payload(40));
    for reserved in [3, 5] {
        world.reserve(0, 0, reserved).unwrap();
        (0..if reserved == 3 { 3 } else { 2 }).for_each(|_| pass(&mut world, 40));
        for _ in 0..2 {
            let outcome = world.protect(0, &frame);
            assert_eq!(outcome, Outcome::Discarded(TransmitDiscard::PnUnreserved));
            assert!(is_ready(&sent(&world.gateways[0].kernel, reserved + 1), reserved + 1));
        }
    }
}

/// The proof that slots are used at all, and of which SA and PN: what stands in a ready one shows in the frame.
#[test]
fn only_the_slot_of_this_sa_and_pn_is_used() {
    let frame = sdu(0, IPV4, &payload(40));
    let trial = |spoil: &dyn Fn(&mut Vec<u8>)| {
        let mut world = filled(SUITE, ENCRYPT, 1);
        let link = &mut world.gateways[0].kernel;
        let mut slot = sent(link, 1);
        slot[SECRETS] ^= 1;
        spoil(&mut slot);
        link.set_slot(None, an(0), 1, &slot).unwrap();
        let sealed = link.run_outward(&frame, 1).unwrap();
        assert_eq!(sealed.verdict, Verdict::Redirect);
        let outcome = world.gateways[1].kernel.run_inward(&sealed.frame, 1).unwrap().verdict;
        let left = sent(&world.gateways[0].kernel, 1);
        // The end of a link waits for frames that have a slot.
        world.gateways[0].kernel.set_slot(None, an(0), 1, &vec![0; left.len()]).unwrap();
        (outcome, left)
    };
    let set =
        |slot: &mut Vec<u8>, at: usize, value: u64| slot[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    assert_eq!(trial(&|_| {}).0, Verdict::Drop, "the ICV is that of a wrong Poly1305 key");
    let ours = word(&sent(&filled(SUITE, ENCRYPT, 1).gateways[0].kernel, 1), ID);
    for (what, id) in [("empty", 0), ("held", 1), ("another SA", ours + 1)] {
        let (outcome, left) = trial(&|slot| set(slot, ID, id));
        assert_eq!((outcome, word(&left, ID)), (Verdict::Redirect, id), "{what}");
    }
    let other = 1 + SLOTS;
    let (outcome, left) = trial(&|slot| set(slot, PN, other));
    assert_eq!((outcome, word(&left, ID), word(&left, PN)), (Verdict::Redirect, ours, other), "another PN");
    let (outcome, left) = trial(&|slot| set(slot, OCTETS, 41));
    assert_eq!((outcome, is_erased(&left)), (Verdict::Redirect, true), "too short: its PN is spent");
}

#[test]
fn a_received_slot_is_used_if_it_is_that_of_this_sa_and_pn() {
    let frame = sdu(0, IPV4, &payload(40));
    for (spoilt, expected) in [(1, Verdict::Drop), (0, Verdict::Redirect)] {
        let mut world = filled(SUITE, ENCRYPT, 1);
        let sealed = world.gateways[0].kernel.run_outward(&frame, 1).unwrap();
        let link = &mut world.gateways[1].kernel;
        let mut slot = received(link, 1);
        slot[SECRETS] ^= spoilt;
        link.set_slot(Some(sci(0)), an(0), 1, &slot).unwrap();
        assert_eq!(link.run_inward(&sealed.frame, 1).unwrap().verdict, expected);
        assert_eq!(is_erased(&received(link, 1)), expected == Verdict::Redirect);
    }
}

/// Whoever sends forgeries costs no slot: the true frame behind them finds its own.
#[test]
fn a_forgery_costs_no_slot() {
    let mut world = filled(SUITE, ENCRYPT, 1);
    let protected = world.protect(0, &sdu(0, IPV4, &payload(300))).sent();
    let before = received(&world.gateways[1].kernel, 1);
    for at in [40, 200, protected.len() - 1] {
        let mut forged = protected.clone();
        forged[at] ^= 1;
        assert_eq!(world.verify(1, &forged), Outcome::Discarded(ReceiveDiscard::NotValid));
        assert_eq!(received(&world.gateways[1].kernel, 1), before);
    }
    world.verify(1, &protected).sent();
    assert!(is_erased(&received(&world.gateways[1].kernel, 1)));
    // A forgery far ahead moves nothing either.
    assert_eq!(world.gateways[1].kernel.fill(), 1);
    let mut ahead = protected.clone();
    ahead[16..20].copy_from_slice(&400_u32.to_be_bytes());
    assert_eq!(world.verify(1, &ahead), Outcome::Discarded(ReceiveDiscard::NotValid));
    assert_eq!(world.gateways[1].kernel.fill(), 0);
}

/// Frames that overtake and get lost, and jumps past all that is made.
#[test]
fn rings_follow_gaps_and_leave_late_frames_their_slots() {
    let mut world = filled(SUITE, ENCRYPT, 1);
    let frames: Vec<_> = (0..1200).map(|_| world.protect(0, &sdu(0, IPV4, &payload(40))).sent()).collect();
    for at in [3, 40, 1100] {
        world.verify(1, &frames[at]).sent();
        world.gateways[1].kernel.fill();
        if at < 100 {
            let late = at as u64;
            assert!(is_ready(&received(&world.gateways[1].kernel, late), late));
        }
        world.verify(1, &frames[at - 1]).sent();
        assert!(is_erased(&received(&world.gateways[1].kernel, at as u64)) || at > 100);
    }
    // The thread leaps ahead of frames that have passed it.
    world.verify(1, &frames[1160]).sent();
    assert!(world.gateways[1].kernel.fill() > 0);
    assert!(is_ready(&received(&world.gateways[1].kernel, 1200), 1200));
}

/// A frame far behind the newest one is authentic, and moves no ring: else who replays it has erased keystream made again. Nor do
/// slots become as long as it was.
#[test]
fn an_old_frame_moves_no_ring() {
    for (replay_protect, window, frames) in [(false, 64, 1300), (true, 1000, 600)] {
        let settings = Settings { replay_protect, ..SETTINGS };
        let mut world = World::secured(SUITE, ENCRYPT, window, &settings, 1);
        let frame = sdu(0, IPV4, &payload(1400));
        let old = world.protect(0, &frame).sent();
        for number in 1..=frames {
            pass(&mut world, 40);
            if number == frames || !replay_protect && number > 600 && number % 100 == 0 {
                assert_eq!(world.verify(1, &old).sent(), frame);
                assert_eq!(world.gateways[1].kernel.fill(), 1);
            }
            fill(&world);
        }
        let next = received(&world.gateways[1].kernel, 2 + frames);
        assert!(is_ready(&next, 2 + frames));
        assert!(replay_protect || word(&next, OCTETS) < 200);
    }
}

/// A frame may be under way when its SA's ring goes to another one.
#[test]
fn a_frame_moves_no_ring_of_another_sa() {
    let mut world = filled(SUITE, ENCRYPT, 1);
    let ours = world.gateways[0].kernel.set_ring(None, an(0), 0).unwrap();
    for other in [ours + 1, ours] {
        pass(&mut world, 40);
        assert_eq!(world.gateways[0].kernel.fill(), 0);
        world.gateways[0].kernel.set_ring(None, an(0), other).unwrap();
    }
    pass(&mut world, 40);
    assert_eq!(world.gateways[0].kernel.fill(), 3);
}

/// Has a frame find its slot held, so that it is computed whole.
fn pass_without_slot(world: &mut World, pn: u64) {
    let ready = sent(&world.gateways[0].kernel, pn);
    let mut held = ready.clone();
    held[ID..PN].copy_from_slice(&1_u64.to_ne_bytes());
    world.gateways[0].kernel.set_slot(None, an(0), pn, &held).unwrap();
    pass(world, 40);
    world.gateways[0].kernel.set_slot(None, an(0), pn, &ready).unwrap();
}

#[test]
fn a_slot_whose_frame_was_computed_whole_is_erased() {
    let mut world = filled(SUITE, ENCRYPT, 1);
    pass_without_slot(&mut world, 1);
    assert!(is_ready(&sent(&world.gateways[0].kernel, 1), 1));
    fill(&world);
    assert!(is_empty(&sent(&world.gateways[0].kernel, 1)));
}

/// Those whose PNs were lost, but for 32 that are left to frames which come late.
#[test]
fn a_slot_whose_frame_never_came_is_erased() {
    let mut world = filled(SUITE, ENCRYPT, 1);
    let frames: Vec<_> = (0..600).map(|_| world.protect(0, &sdu(0, IPV4, &payload(40))).sent()).collect();
    world.verify(1, &frames[599]).sent();
    world.gateways[1].kernel.fill();
    let slots = (0..SLOTS).map(|at| received(&world.gateways[1].kernel, at));
    let left: Vec<_> = slots.filter(|slot| !is_empty(slot)).map(|slot| word(&slot, PN)).collect();
    // Slots are made anew from 16 behind the newest PN on.
    assert_eq!((left.len(), left.iter().min()), (464, Some(&617)));
}

#[test]
fn a_short_slot_keeps_nothing_of_a_long_one() {
    let mut world = filled(SUITE, ENCRYPT, 1);
    for _ in 0..1200 {
        pass(&mut world, 40);
        fill(&world);
    }
    let slot = sent(&world.gateways[0].kernel, 1201);
    let octets = word(&slot, OCTETS) as usize;
    assert!((42..200).contains(&octets), "{octets}");
    assert!(slot[KEYSTREAM + octets..].iter().all(|octet| *octet == 0));
    // A longer frame than slots are made for is computed, and then they are long enough.
    for _ in 0..600 {
        pass(&mut world, 1400);
        fill(&world);
    }
    assert!(word(&sent(&world.gateways[0].kernel, 1801), OCTETS) >= 1402);
}

/// A slot that was made for the SA before, under the same AN and PN: it would be a nonce of another key.
#[test]
fn a_slot_of_the_sa_before_is_not_used() {
    for suite in [SUITE, XPN] {
        let mut world = filled(suite, ENCRYPT, 1);
        let old = [sent(&world.gateways[0].kernel, 1), received(&world.gateways[1].kernel, 1)];
        world.retire_transmit(0, 0);
        world.retire_receive(1, 0, 0);
        world.secure(0, 0, 8, 1);
        world.gateways[0].kernel.set_slot(None, an(0), 1, &old[0]).unwrap();
        world.gateways[1].kernel.set_slot(Some(sci(0)), an(0), 1, &old[1]).unwrap();
        pass(&mut world, 40);
        fill(&world);
        pass(&mut world, 40);
    }
}

/// Frames sent and received, with keystream and without.
fn counted(world: &World) -> [u64; 4] {
    let [sender, receiver] = world.gateways.each_ref().map(|gateway| &gateway.kernel);
    let sent = sender.transmit_counters().unwrap();
    let received = receiver.receive_counters(sci(0)).unwrap();
    [
        sent.out_pkts_antedated,
        sent.out_pkts_not_antedated,
        received.in_pkts_antedated,
        received.in_pkts_not_antedated,
    ]
}

#[test]
fn frames_are_counted_with_and_without_keystream_ahead() {
    let mut world = filled(SUITE, ENCRYPT, 1);
    (0..FULL).for_each(|_| pass(&mut world, 40));
    assert_eq!(counted(&world), [480, 0, 480, 0]);
    pass(&mut world, 40);
    // A forgery counts as neither.
    let mut forged = world.protect(0, &sdu(0, IPV4, &payload(40))).sent();
    forged[40] ^= 1;
    assert_eq!(world.verify(1, &forged), Outcome::Discarded(ReceiveDiscard::NotValid));
    assert_eq!(counted(&world), [480, 2, 480, 1]);
    world.gateways[0].kernel.fill();
    pass(&mut world, 40);
    assert_eq!(counted(&world), [480, 3, 480, 2]);
    fill(&world);
    (0..100).for_each(|_| pass(&mut world, 40));
    let [ahead, _, received_ahead, _] = counted(&world);
    assert!(ahead > 550 && received_ahead > 550);
}

/// Without a ring, or without encryption, there is nothing to count.
#[test]
fn an_sa_without_a_ring_is_computed() {
    let mut world = filled(SUITE, ENCRYPT, 1);
    // One SA each way is there. Six others take the last rings.
    world.install_sc(0, 2).unwrap();
    for number in 0..4 {
        world.install_receive(0, 2, number, 9, 1).unwrap();
    }
    for number in 1..4 {
        world.install_transmit(0, number, 9, 1, u64::MAX).unwrap();
    }
    assert_eq!(world.gateways[0].kernel.slot(None, an(3), 1).unwrap(), None);
    world.enable_transmit(0, 3).unwrap();
    world.install_receive(1, 0, 3, 9, 1).unwrap();
    world.enable_receive(1, 0, 3).unwrap();
    fill(&world);
    pass(&mut world, 200);
    // The receiver has a ring for it.
    assert_eq!(counted(&world), [0, 0, 1, 0]);
    let mut world = filled(SUITE, Protection::Integrity, 1);
    pass(&mut world, 200);
    assert_eq!(counted(&world), [0; 4]);
}

/// Each of them has two SAs then, and so has the station itself.
#[test]
fn every_sa_has_a_ring_while_two_peers_and_this_station_change_keys() {
    let mut world = World::secured(SUITE, ENCRYPT, 64, &SETTINGS, 1);
    world.install_sc(0, 2).unwrap();
    world.install_receive(0, 2, 0, 7, 1).unwrap();
    world.install_transmit(0, 1, 8, 1, u64::MAX).unwrap();
    (1..3).for_each(|peer| world.install_receive(0, peer, 1, 8, 1).unwrap());
    let link = &world.gateways[0].kernel;
    for number in 0..2 {
        for owner in [None, Some(sci(1)), Some(sci(2))] {
            assert!(link.slot(owner, an(number), 1).unwrap().is_some(), "{owner:?} {number}");
        }
    }
}

/// The map that is shared, as the kernel describes it: "dd" is "do not dump".
#[test]
fn no_core_dump_has_keystream() {
    let _world = filled(SUITE, ENCRYPT, 1);
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let areas: Vec<_> = smaps.split("VmFlags:").collect();
    let of_maps: Vec<_> = (1..areas.len()).filter(|at| areas[at - 1].contains("bpf-map")).collect();
    assert!(of_maps.len() >= 4, "two maps of two links");
    for at in of_maps {
        assert!(areas[at].lines().next().unwrap().split_whitespace().any(|flag| flag == "dd"));
    }
}

/// Slots are filled while frames of two CPUs take them.
#[test]
fn frames_of_two_cpus_and_the_thread_do_not_disturb_each_other() {
    // A CPU that pauses lags behind by less than the window.
    const FRAMES: usize = 900;
    let _alone = THREADS.lock();
    for octets in [40, 1400, 41, 1399, 42, 1398] {
        let mut world = World::new(XPN, ENCRYPT, 1000, &SETTINGS);
        world.gateways.iter_mut().for_each(|gateway| gateway.kernel.keep_filling(|| ()).unwrap());
        (0..2).for_each(|station| world.install_sc(station, 1 - station).unwrap());
        world.secure(0, 0, 7, 1);
        let frame = sdu(0, IPV4, &payload(octets));
        let [sender, receiver] = world.gateways.each_ref().map(|gateway| &gateway.kernel);
        let frames = Mutex::new(HashSet::new());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..FRAMES {
                        let sealed = sender.run_outward(&frame, 1).unwrap().frame;
                        let opened = receiver.run_inward(&sealed, 1).unwrap();
                        assert_eq!(opened.verdict, Verdict::Redirect);
                        assert_eq!(opened.frame, frame);
                        assert!(frames.lock().unwrap().insert(sealed[16..20].to_vec()), "a PN comes again");
                    }
                });
            }
        });
    }
}

/// A disabled SA has a next PN that no frame is sent with afterwards, whatever frames do at that moment. Moments
/// between two accesses to memory are hardly ever met here; frameward-models' transmit_pns.rs searches them.
#[test]
fn no_frame_takes_a_pn_of_a_disabled_sa() {
    const ROUNDS: u64 = 60;
    let _alone = THREADS.lock();
    let mut world = World::new(XPN, ENCRYPT, 64, &SETTINGS);
    world.gateways[0].kernel.keep_filling(|| ()).unwrap();
    (0..2).for_each(|station| world.install_sc(station, 1 - station).unwrap());
    world.secure(0, 0, 7, 1);
    let frame = sdu(0, IPV4, &payload(40));
    let sender = &world.gateways[0].kernel;
    let (stop, sent) = (AtomicBool::new(false), Mutex::new(HashSet::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let ran = sender.run_outward(&frame, 1).unwrap();
                    if ran.verdict == Verdict::Redirect {
                        let pn = u32::from_be_bytes(ran.frame[16..20].try_into().unwrap());
                        assert!(sent.lock().unwrap().insert(pn), "a PN comes again");
                    } else {
                        // The thread that fills slots gets no CPU that others want.
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        for round in 1..=ROUNDS {
            wait_for("no frame is sent", || sent.lock().unwrap().len() as u64 > 20 * round);
            sender.disable_transmit(an(0)).unwrap();
            let next = |link: &Link| link.transmit_pns(an(0)).unwrap().unwrap().0.next().unwrap().number();
            let first = next(sender);
            thread::sleep(Duration::from_millis(2));
            // One that lost against the change may have spent a PN, and none was sent with it.
            let most = sent.lock().unwrap().iter().max().copied().map(u64::from);
            assert!(most < Some(first), "{most:?} was sent behind the SA's last PN, {first} was the next");
            // The round's frames find keystream: some before the SA is disabled, some at that moment.
            wait_for("no slot is ready", || is_ready(&self::sent(sender, first + 40), first + 40));
            sender.enable_transmit(an(0)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(sender.transmit_sa_counters(an(0)).unwrap().out_pkts_antedated > 0, "no slot was ready");
}

/// States of the threads of this process that fill slots: `S` sleeps.
fn states() -> Vec<char> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    let of_link = |stat: String| stat.split_once("(link-ahead) ").and_then(|(_, state)| state.chars().next());
    stats.filter_map(of_link).collect()
}

fn fillers() -> usize {
    states().len()
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_links_own_thread_fills_wakes_and_ends() {
    let _alone = THREADS.lock();
    static AT_START: AtomicBool = AtomicBool::new(false);
    let mut world = World::new(SUITE, ENCRYPT, 64, &SETTINGS);
    world.gateways[0].kernel.keep_filling(|| AT_START.store(true, Ordering::Relaxed)).unwrap();
    world.gateways[0].kernel.keep_filling(|| ()).unwrap();
    (0..2).for_each(|station| world.install_sc(station, 1 - station).unwrap());
    world.secure(0, 0, 7, 1);
    let last = u64::from(FULL);
    wait_for("no slot is filled", || is_ready(&sent(&world.gateways[0].kernel, last), last));
    assert!(AT_START.load(Ordering::Relaxed));
    // Above half it sleeps on; below, the frames wake it.
    pass_without_slot(&mut world, 1);
    wait_for("a slot stays", || is_empty(&sent(&world.gateways[0].kernel, 1)));
    (0..300).for_each(|_| pass(&mut world, 40));
    // Whoever wakes at once, at the first frame below half, fills as far as this.
    let last = last + 225;
    wait_for("frames wake nobody", || is_ready(&sent(&world.gateways[0].kernel, last), last));
    assert_eq!(fillers(), 1);
    drop(world);
    assert_eq!(fillers(), 0);
}

/// Behind the last PN there is nothing to make.
#[test]
fn the_thread_sleeps_at_the_last_pn() {
    let _alone = THREADS.lock();
    for (suite, last) in [(XPN, u64::MAX), (SUITE, u64::from(u32::MAX))] {
        let mut world = World::new(suite, ENCRYPT, 64, &SETTINGS);
        world.gateways[0].kernel.keep_filling(|| ()).unwrap();
        (0..2).for_each(|station| world.install_sc(station, 1 - station).unwrap());
        world.secure(0, 0, 7, last - 5);
        wait_for("no slot is filled", || is_ready(&sent(&world.gateways[0].kernel, last - 5), last - 5));
        let sleeps = || {
            thread::sleep(Duration::from_millis(5));
            states() == ['S']
        };
        wait_for("the thread does not sleep", || (0..20).all(|_| sleeps()));
        // Its nonce would be that of PN 0.
        let behind = last.wrapping_add(1);
        assert_eq!(word(&sent(&world.gateways[0].kernel, behind), ID), 0);
        (0..6).for_each(|_| pass(&mut world, 40));
    }
}

#[test]
fn a_thread_that_has_panicked_is_replaced() {
    let _alone = THREADS.lock();
    let mut world = World::secured(SUITE, ENCRYPT, 64, &SETTINGS, 1);
    static STARTED: AtomicBool = AtomicBool::new(false);
    let fail = || {
        STARTED.store(true, Ordering::SeqCst);
        panic!("the thread's start fails")
    };
    world.gateways[0].kernel.keep_filling(fail).unwrap();
    wait_for("the thread goes on", || STARTED.load(Ordering::SeqCst) && fillers() == 0);
    world.gateways[0].kernel.keep_filling(|| ()).unwrap();
    wait_for("no slot is filled", || is_ready(&sent(&world.gateways[0].kernel, 1), 1));
}
