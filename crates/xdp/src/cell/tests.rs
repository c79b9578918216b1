//! Keys and settings of a relation are put in and taken out under its lock. Root, as all that loads programs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fieldbus::relation::Relation;
use fieldbus::session::{EpochKey, Session, SessionNumber};
use fieldbus::{KeyChange, LiveSession};
use suite::fieldbus::{KeyContext, MasterKey};
use wire::MacAddr;
use wire::fieldbus::{FrameId, HandshakeNonce, KeyId, Protect};

use super::*;
use crate::run::Verdict;

const PROTECTION: Protection = Protection { protect: Protect::Encrypt, suite: CellSuite::ChaCha20Poly1305 };
const STATIONS: [(MacAddr, FrameId); 2] =
    [(MacAddr([2, 0, 0, 0, 0, 1]), FrameId(0x8001)), (MacAddr([2, 0, 0, 0, 0, 2]), FrameId(0x8002))];
/// Of a frame without a tag.
const SEQ: usize = 14 + 2 + 1;
/// Times that the relation gets its keys and loses them.
const ROUNDS: usize = 60_000;
/// Seqs that one round does not reach.
const SEQS: usize = 200;

fn relation() -> RelationSettings {
    let relation = Relation::new(STATIONS[0], STATIONS[1], Duration::from_millis(1)).unwrap();
    RelationSettings { relation, mode: Mode::Protect, alarm: Duration::from_secs(3600) }
}

/// Always the same keys.
fn session() -> LiveSession {
    let key = |from_higher, epoch| {
        let direction = KeyContext {
            stations: *relation().relation.stations(),
            from_higher,
            nonces: [1, 2].map(|octet| HandshakeNonce([octet; 16])),
            protection: PROTECTION,
            epoch,
        };
        let key = MasterKey::new(&[7; 32]).direction_key(&direction);
        EpochKey { key_id: KeyId(epoch as u8), epoch, key }
    };
    LiveSession::new(Session {
        number: SessionNumber(1),
        transmit: [0, 1].map(|epoch| key(false, epoch)),
        receive: [0, 1].map(|epoch| key(true, epoch)),
    })
}

/// Another station, in nobody's session.
fn other_relation() -> RelationSettings {
    let other = (MacAddr([2, 0, 0, 0, 0, 3]), FrameId(0x8003));
    let relation = Relation::new(STATIONS[0], other, Duration::from_millis(1)).unwrap();
    RelationSettings { relation, ..self::relation() }
}

fn frame() -> Vec<u8> {
    let [(own, sends), (peer, _)] = STATIONS;
    [&peer.0[..], &own.0, &[0x88, 0x92], &sends.0.to_be_bytes(), &[5; 44]].concat()
}

/// The relation gets its keys, and its Seqs begin at 1.
fn enter(cell: &Cell) {
    for change in [KeyChange::Enter(session()), KeyChange::Enable(SessionNumber(1))] {
        let command = layout::command(0, &change).unwrap();
        assert_eq!(cell.programs.change(command.octets()).unwrap(), Changed::Done);
    }
}

/// A frame that is under way while its relation goes: it is protected by the whole key, or dropped. A key of which half is zeros would
/// tell everybody what is in the frame.
#[test]
fn no_frame_is_protected_by_half_a_key() {
    let mut cell = match std::env::var_os("FRAMEWARD_CELL_OBJECT") {
        Some(file) => Cell::load_object(&std::fs::read(file).unwrap(), 1).unwrap(),
        None => Cell::load(1).unwrap(),
    };
    cell.configure(&Settings::new(PROTECTION, 1500), &[relation()], Unclaimed::Drop, &[]).unwrap();
    cell.set_ports(1, 1).unwrap();
    enter(&cell);
    let expected: Vec<_> = (0..SEQS).map(|_| cell.run_outward(&frame(), 1).unwrap().frame).collect();
    let mut relations = cell.programs.take_map("relations").unwrap();
    let (cell, done) = (&cell, AtomicBool::new(false));
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0_u64;
            while !done.load(Ordering::Relaxed) {
                let ran = cell.run_outward(&frame(), 1).unwrap();
                if ran.verdict == Verdict::Redirect {
                    let seq = u32::from_be_bytes(ran.frame[SEQ..SEQ + 4].try_into().unwrap());
                    let Some(expected) = (seq as usize).checked_sub(1).and_then(|at| expected.get(at)) else {
                        continue;
                    };
                    assert_eq!(&ran.frame, expected, "Seq {seq}");
                    sent += 1;
                }
            }
            sent
        });
        for _ in 0..ROUNDS {
            if sender.is_finished() {
                break;
            }
            enter(cell);
            set_relation(&mut relations, 0, [0; layout::RELATION]).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(sender.join().unwrap() > 100);
    });
}

fn keys(cell: &Cell, place: u32) -> Vec<u8> {
    let relations = Array::<_, [u8; layout::RELATION]>::try_from(cell.programs.map_ref("relations").unwrap());
    relations.unwrap().get(&place, 0).unwrap().to_vec()
}

/// A map cannot be written while the cell goes. The keys of all its relations go all the same.
#[test]
fn a_cell_that_cannot_be_cleared_whole_keeps_no_key() {
    let mut cell = Cell::load(2).unwrap();
    let both = [relation(), other_relation()];
    cell.configure(&Settings::new(PROTECTION, 1500), &both, Unclaimed::Drop, &[]).unwrap();
    for number in 0..2 {
        cell.change(number, &KeyChange::Enter(session())).unwrap();
    }
    assert!((0..2).all(|place| keys(&cell, place) != [0; layout::RELATION]));
    drop(cell.programs.take_map("inward_table").unwrap());
    assert!(cell.clear().is_err());
    assert!((0..2).all(|place| keys(&cell, place) == [0; layout::RELATION]));
}

/// A map cannot be written in the middle of a change. The kernel protects by no key that control does not know of any more.
#[test]
fn after_a_change_that_failed_no_relation_is_the_kernels() {
    for stays in [&[(0, 0)][..], &[]] {
        let mut cell = Cell::load(2).unwrap();
        let settings = Settings::new(PROTECTION, 1500);
        cell.configure(&settings, &[relation()], Unclaimed::Pass, &[]).unwrap();
        cell.set_ports(1, 1).unwrap();
        enter(&cell);
        assert_eq!(cell.run_outward(&frame(), 1).unwrap().verdict, Verdict::Redirect);
        let sent = cell.programs.take_map("sent").unwrap();
        let both = [relation(), other_relation()];
        assert!(cell.configure(&settings, &both, Unclaimed::Pass, stays).is_err());
        assert_eq!([0, 1].map(|number| cell.has(number)), [false; 2]);
        assert_eq!(cell.count(), 2);
        assert!((0..2).all(|place| keys(&cell, place) == [0; layout::RELATION]));
        assert_eq!(cell.run_outward(&frame(), 1).unwrap().verdict, Verdict::Pass, "user space's");
        drop(sent);
    }
}

/// A relation that leaves the kernel before all others is user space's, both ways, and its keys are gone. The others stay, and the next
/// change goes on from there.
#[test]
fn a_relation_that_is_released_is_user_spaces() {
    let mut cell = Cell::load(2).unwrap();
    let (settings, both) = (Settings::new(PROTECTION, 1500), [relation(), other_relation()]);
    cell.configure(&settings, &both, Unclaimed::Pass, &[]).unwrap();
    cell.set_ports(1, 1).unwrap();
    enter(&cell);
    cell.change(1, &KeyChange::Enter(session())).unwrap();
    let protected = cell.run_outward(&frame(), 1).unwrap();
    assert_eq!(protected.verdict, Verdict::Redirect);
    for _ in 0..2 {
        cell.release(0).unwrap();
        assert_eq!([0, 1].map(|number| cell.has(number)), [false, true]);
        assert_eq!(keys(&cell, 0), [0; layout::RELATION]);
        assert!(keys(&cell, 1) != [0; layout::RELATION]);
        assert_eq!(cell.run_outward(&frame(), 1).unwrap().verdict, Verdict::Pass);
        assert_eq!(cell.run_inward(&protected.frame, 1).unwrap().verdict, Verdict::Pass);
    }
    cell.configure(&settings, &both, Unclaimed::Pass, &[(0, 0), (1, 1)]).unwrap();
    assert_eq!([0, 1].map(|number| cell.has(number)), [false, true]);
    cell.configure(&settings, &both, Unclaimed::Pass, &[(1, 1)]).unwrap();
    enter(&cell);
    assert_eq!(cell.run_outward(&frame(), 1).unwrap().verdict, Verdict::Redirect);
}

/// Keys of both sessions leave at once, and their octets with them.
#[test]
fn keys_that_leave_are_wiped() {
    let mut cell = Cell::load(1).unwrap();
    cell.configure(&Settings::new(PROTECTION, 1500), &[relation()], Unclaimed::Drop, &[]).unwrap();
    cell.set_ports(1, 1).unwrap();
    for _ in 0..2 {
        enter(&cell);
        enter(&cell);
        assert_eq!(cell.run_outward(&frame(), 1).unwrap().verdict, Verdict::Redirect);
        assert_eq!(cell.change(0, &KeyChange::Leave).unwrap(), Changed::Done);
        let sessions = &keys(&cell, 0)[112..layout::RELATION - 24];
        assert!(sessions.iter().all(|octet| *octet == 0), "{sessions:?}");
        assert_eq!(cell.run_outward(&frame(), 1).unwrap().verdict, Verdict::Drop);
    }
}
