//! The programs' own clock, and several CPUs: what has no counterpart in user space to be compared with. Root.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fieldbus::session::SessionNumber;
use fieldbus::{Event, Histogram, KeyChange, LiveSession, RelationSettings, RelationState, Settings};
use world::{AUTHENTICATE, ENCRYPT, MTU, TAG, World, load, machine, relation};
use xdp::Unclaimed;
use xdp::{Cell, Verdict, XdpError};

const ALARM: Duration = Duration::from_millis(20);

/// Two cells of one relation, both in a session.
fn pair(alarm: Duration) -> [Cell; 2] {
    let mut world = World::new(ENCRYPT, 1);
    world.secure(0, 1);
    [0, 1].map(|end| {
        let of = RelationSettings { alarm, ..relation(end, 0) };
        let mut cell = load(&Settings::new(ENCRYPT, MTU), &[of]);
        cell.set_ports(1, 1).unwrap();
        cell.change(0, &KeyChange::Enter(LiveSession::new(world.session(end, 0, 1)))).unwrap();
        cell.change(0, &KeyChange::Enable(SessionNumber(1))).unwrap();
        cell
    })
}

fn protected(cell: &Cell, octets: usize) -> Vec<u8> {
    let ran = cell.run_outward(&machine(0, 0, &TAG, &vec![5; octets]), 1).unwrap();
    assert_eq!(ran.verdict, Verdict::Redirect);
    ran.frame
}

fn pass(ends: &[Cell; 2]) {
    assert_eq!(ends[1].run_inward(&protected(&ends[0], 40), 1).unwrap().verdict, Verdict::Redirect);
}

fn alarms(cell: &mut Cell) -> (usize, u64) {
    let told = cell.look(0).unwrap().events.iter().filter(|event| matches!(event, Event::Alarm(_))).count();
    (told, cell.counters(0).unwrap().1.in_alarms)
}

#[test]
fn a_gap_is_told_once_by_whoever_notices_it() {
    let mut ends = pair(ALARM);
    assert_eq!(
        (alarms(&mut ends[1]), ends[1].look(0).unwrap().silent),
        ((0, 0), None),
        "nothing was ever heard"
    );
    pass(&ends);
    thread::sleep(2 * ALARM);
    assert_eq!(alarms(&mut ends[1]), (1, 1), "by who looks");
    assert_eq!(alarms(&mut ends[1]), (0, 1), "once");
    assert!(ends[1].look(0).unwrap().silent.unwrap() >= 2 * ALARM);
    pass(&ends);
    assert_eq!(ends[1].counters(0).unwrap().1.in_alarms, 1, "not again by the frame that ends it");
    thread::sleep(2 * ALARM);
    pass(&ends);
    assert_eq!(ends[1].counters(0).unwrap().1.in_alarms, 2, "by the frame");
    assert!(ends[1].look(0).unwrap().worst_gap >= 2 * ALARM);
    // Of two gaps of 40 ms or more and a cycle of 1 ms.
    let jitter = ends[1].jitter(0).unwrap();
    let below: u64 = Histogram::BOUNDS
        .iter()
        .zip(jitter.counts())
        .filter(|(bound, _)| **bound <= Duration::from_millis(20))
        .map(|(_, count)| count)
        .sum();
    assert_eq!((jitter.count(), below), (2, 0));
    assert!(
        jitter.worst() >= 2 * ALARM - Duration::from_millis(1)
            && jitter.sum() >= 4 * ALARM - Duration::from_millis(2)
    );
    assert!(jitter.sum() <= 2 * jitter.worst());
}

/// Keys that leave end no watch. What was not told yet is told, and so is the silence that follows.
#[test]
fn a_relation_whose_keys_have_left_is_watched_as_before() {
    let alarm = 5 * ALARM;
    let mut ends = pair(alarm);
    pass(&ends);
    thread::sleep(alarm + ALARM);
    pass(&ends);
    let worst = ends[1].peek(0).unwrap().worst_gap;
    assert!(worst >= alarm);
    ends[1].change(0, &KeyChange::Leave).unwrap();
    let report = ends[1].peek(0).unwrap();
    assert_eq!(
        (report.state, report.transmit_key, report.receive_key),
        (RelationState::NoSession, None, None)
    );
    assert_eq!(report.worst_gap, worst);
    assert!(report.silent.is_some());
    assert_eq!(alarms(&mut ends[1]).0, 1, "that of before");
    let late = protected(&ends[0], 40);
    assert_eq!(ends[1].run_inward(&late, 1).unwrap().verdict, Verdict::Drop);
    thread::sleep(alarm + ALARM);
    assert_eq!(alarms(&mut ends[1]).0, 1, "that of the silence since");
}

/// A peer that goes on under unknown keys is given up, unless as many frames were verified meanwhile.
#[test]
fn a_peer_under_other_keys_is_lost_after_a_second() {
    let lost = |cell: &mut Cell| cell.look(0).unwrap().events.contains(&Event::Lost);
    for (unknown, verified, expected) in [(3, 0, true), (2, 3, false)] {
        let mut ends = pair(Duration::from_secs(3600));
        for _ in 0..unknown {
            let mut frame = protected(&ends[0], 40);
            frame[18 + 2] ^= 0x80;
            assert_eq!(ends[1].run_inward(&frame, 1).unwrap().verdict, Verdict::Drop);
        }
        (0..verified).for_each(|_| pass(&ends));
        thread::sleep(Duration::from_millis(1050));
        assert_eq!(lost(&mut ends[1]), expected);
        assert!(!lost(&mut ends[1]), "counted anew");
    }
}

/// A frame that comes to two CPUs at once is delivered by one: the second look at its Seq, behind the ICV.
#[test]
fn copies_on_two_cpus_are_delivered_once() {
    const ROUNDS: u64 = 1000;
    let ends = pair(Duration::from_secs(3600));
    let frames: Vec<_> = (0..ROUNDS).map(|_| protected(&ends[0], 1400)).collect();
    // The first to come spins: asleep, it would miss the moment at which the other one is on its CPU.
    let come = AtomicUsize::new(0);
    let delivered = |cell: &Cell| {
        (1..)
            .zip(&frames)
            .filter(|(round, frame)| {
                come.fetch_add(1, Ordering::SeqCst);
                while come.load(Ordering::SeqCst) < 2 * round {
                    std::hint::spin_loop();
                }
                cell.run_inward(frame, 1).unwrap().verdict == Verdict::Redirect
            })
            .count() as u64
    };
    let [mine, others] = thread::scope(|scope| {
        let other = scope.spawn(|| delivered(&ends[1]));
        [delivered(&ends[1]), other.join().unwrap()]
    });
    assert_eq!(mine + others, ROUNDS);
    assert_eq!(ends[1].counters(0).unwrap().1.in_pkts_late, ROUNDS);
}

#[test]
fn two_cpus_never_take_one_seq() {
    const EACH: usize = 5000;
    let ends = pair(Duration::from_secs(3600));
    let seqs =
        || -> Vec<Vec<u8>> { (0..EACH).map(|_| protected(&ends[0], 40)[18 + 3..18 + 7].to_vec()).collect() };
    let all: Vec<Vec<u8>> = thread::scope(|scope| {
        let other = scope.spawn(seqs);
        [seqs(), other.join().unwrap()].concat()
    });
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 2 * EACH);
}

/// Time in the program, of the frames that leave it alone.
#[test]
fn residence_is_measured_of_what_leaves() {
    let ends = pair(Duration::from_secs(3600));
    (0..5).for_each(|_| pass(&ends));
    let late = protected(&ends[0], 40);
    assert_eq!(ends[1].run_inward(&late, 1).unwrap().verdict, Verdict::Redirect);
    assert_eq!(ends[1].run_inward(&late, 1).unwrap().verdict, Verdict::Drop);
    let counts = ends.each_ref().map(|end| end.residence(0).unwrap().map(|times| times.count()));
    assert_eq!(counts, [[6, 0], [0, 6]]);
    for times in [&ends[0].residence(0).unwrap()[0], &ends[1].residence(0).unwrap()[1]] {
        assert!(!times.worst().is_zero() && times.sum() <= 6 * times.worst(), "{times:?}");
    }
}

#[test]
fn what_the_kernel_does_not_take_says_why() {
    let of = relation(0, 0);
    let mut cell = Cell::load(1).unwrap();
    let mut refused = |settings: &Settings, of: &[RelationSettings]| {
        cell.configure(settings, of, Unclaimed::Drop, &[]).err()
    };
    let gcm = wire::fieldbus::Protection { suite: wire::fieldbus::CellSuite::GcmAes128, ..AUTHENTICATE };
    assert!(matches!(refused(&Settings::new(gcm, MTU), &[of]), Some(XdpError::Suite("gcm-aes-128"))));
    assert!(refused(&Settings::new(ENCRYPT, Cell::MOST_MTU), &[of]).is_none());
    assert!(matches!(
        refused(&Settings::new(ENCRYPT, Cell::MOST_MTU + 1), &[of]),
        Some(XdpError::Mtu { .. })
    ));
    let other = relation(0, 1);
    assert!(matches!(
        refused(&Settings::new(ENCRYPT, MTU), &[of, other]),
        Some(XdpError::Room { wanted: 2, room: 1 })
    ));
    assert!(matches!(refused(&Settings::new(ENCRYPT, MTU), &[of, of]), Some(XdpError::Relations)));
}
