//! Wait of a cyclic frame for others: counted in frames, turn by turn, not in time.
#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

use std::time::Duration;

use fieldbus::handshake::{Handshake, HandshakeEvent};
use fieldbus::relation::Relation;
use fieldbus::{KeyChange, LiveSession, Mode, RelationSettings, Relations, Settings};
use secy::{ClearVlan, SciInclusion, SecY, ValidateFrames};
use suite::fieldbus::MasterKey;
use wire::fieldbus::{CellSuite, FrameId, Protect, Protection};
use wire::{Instant, MacAddr, Sci};

use super::Pipeline;
use crate::cell::mailbox::{ControlMailbox, HelloFrame, pair};
use crate::cell::{Cell, HELLO_GAP, HELLOS, HelloFilter, OtherFrames};
use crate::link::Link;
use netdev::burst::BURST_FRAMES;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};

const PROTECTION: Protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
const RELATIONS: usize = 8;

fn stations(number: usize) -> [(MacAddr, FrameId); 2] {
    let device = MacAddr([2, 0, 0, 0, 1, number as u8]);
    [(MacAddr([2, 0, 0, 0, 0, 1]), FrameId(0x8000)), (device, FrameId(0x8001))]
}

fn relation(side: usize, number: usize) -> Relation {
    let stations = stations(number);
    Relation::new(stations[side], stations[1 - side], Duration::from_millis(1)).unwrap()
}

/// A link with a cell, and the test at both of its ends.
struct Side {
    link: Link,
    machine: MemoryPort,
    wire: MemoryPort,
    control: ControlMailbox,
}

fn cells() -> [Cell; 2] {
    [0, 1].map(|side| {
        let of = |number| RelationSettings {
            relation: relation(side, number),
            mode: Mode::Protect,
            alarm: Duration::from_secs(1),
        };
        let relations: Vec<_> = (0..RELATIONS).map(of).collect();
        let relations = Relations::new(Settings::new(PROTECTION, 1532), &relations).unwrap();
        Cell::new(
            relations,
            OtherFrames::Link,
            pair(RELATIONS).0,
            (0..RELATIONS).map(|of| filter(side, of)).collect(),
        )
    })
}

fn handshake(side: usize, number: usize) -> Handshake {
    let (master, settings) = (MasterKey::new(&[1; 32]), Settings::new(PROTECTION, 1532));
    Handshake::new(&relation(side, number), &master.into(), PROTECTION, settings.ethertype, &[side as u8; 32])
}

fn filter(side: usize, number: usize) -> HelloFilter {
    let handshake = handshake(side, number);
    HelloFilter::new(handshake.hello_codec(), handshake.expected_nonces())
}

/// Two sides with a session in each relation.
fn sides() -> [Side; 2] {
    let mut cells = cells();
    for number in 0..RELATIONS {
        let mut ends = [0, 1].map(|side| handshake(side, number));
        ends[0].handle_timeout(Instant::START);
        for from in [0, 1, 0, 1, 0, 1] {
            while let Some(hello) = ends[from].poll_transmit() {
                ends[1 - from].handle_frame(Instant::START, &hello).unwrap();
            }
            for (cell, end) in cells.iter_mut().zip(&mut ends) {
                while let Some(event) = end.poll_event() {
                    if let HandshakeEvent::Enter(session) = event {
                        let number_of_session = session.number;
                        let change = KeyChange::Enter(LiveSession::new(*session));
                        cell.relations.change(number, change);
                        cell.relations.change(number, KeyChange::Enable(number_of_session));
                    }
                }
            }
        }
    }
    cells.map(side)
}

fn side(mut cell: Cell) -> Side {
    let (mailbox, control) = pair(RELATIONS);
    cell.mailbox = mailbox;
    let settings = secy::Settings {
        protect_frames: false,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Disabled,
        replay_protect: false,
        clear_vlan: ClearVlan::Refuse,
        mtu: 1532,
        reassemble: false,
    };
    let mut pipeline =
        Pipeline::new(SecY::new(Sci::new(MacAddr([2, 0, 0, 0, 7, 7]), 1), settings), &[], None);
    assert!(pipeline.change_cell(Some(Box::new(cell)), &[]).is_none());
    let (machine, plain) = MemoryPort::pair(1024);
    let (wire, protected) = MemoryPort::pair(1024);
    let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
    Side { link: Link::new(pool, Box::new(plain), Box::new(protected), pipeline), machine, wire, control }
}

impl Side {
    fn turn(&mut self) {
        self.turn_at(Instant::START);
    }

    fn turn_at(&mut self, now: Instant) {
        self.link.turn(now, std::time::Instant::now());
        self.link.pipeline_mut().handle_cell_timeout(now);
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.wire.collect()).collect()
    }

    fn came(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.machine.collect()).collect()
    }
}

fn cyclic(from: usize, number: usize) -> Vec<u8> {
    let [(own, id), (peer, _)] = [stations(number)[from], stations(number)[1 - from]];
    let tag = [0x81, 0, 0xc0, 0];
    [&peer.0[..], &own.0, &tag, &[0x88, 0x92], &id.0.to_be_bytes(), &[number as u8; 40]].concat()
}

fn rest() -> Vec<u8> {
    [&[2; 12][..], &[0x08, 0], &[7; 1400]].concat()
}

fn is_rest(frame: &[u8]) -> bool {
    frame[12..14] == [0x08, 0]
}

#[test]
fn no_frame_of_the_rest_goes_before_a_cyclic_one_of_its_burst() {
    let [mut left, mut right] = sides();
    for _ in 0..BURST_FRAMES - RELATIONS {
        assert!(left.machine.inject(&rest()));
    }
    for number in 0..RELATIONS {
        assert!(left.machine.inject(&cyclic(0, number)), "the last of the burst");
    }
    left.turn();
    let sent = left.sent();
    assert_eq!(sent.len(), BURST_FRAMES);
    assert!(
        sent[..RELATIONS].iter().all(|frame| !is_rest(frame))
            && sent[RELATIONS..].iter().all(|frame| is_rest(frame))
    );
    // The same the other way: here too they are the last of their burst.
    for frame in sent.iter().rev() {
        assert!(right.wire.inject(frame));
    }
    right.turn();
    let came = right.came();
    assert_eq!(came.len(), BURST_FRAMES);
    let numbers: Vec<_> = (0..RELATIONS).rev().map(|number| cyclic(0, number)).collect();
    assert_eq!(came[..RELATIONS], numbers);
}

#[test]
fn whatever_comes_from_the_network_a_frame_leaves_in_the_turn_that_it_came_in() {
    let [mut left, mut right] = sides();
    assert!(right.machine.inject(&cyclic(1, 0)));
    right.turn();
    let genuine = right.sent().remove(0);
    // Garbage with a valid front, copies, HELLOs of all relations, strangers, frames of the rest: more than some bursts.
    let mut garbage = genuine.clone();
    garbage[40] ^= 1;
    garbage[21..25].copy_from_slice(&[0, 0, 0, 9]);
    let mut hello = genuine.clone();
    hello[21..25].fill(0);
    hello[25] = PROTECTION.octet();
    hello.resize(200, 1);
    let mut stranger = genuine.clone();
    stranger[18] ^= 0x40;
    for turn in 0..20 {
        for _ in 0..BURST_FRAMES / 4 {
            for frame in [&garbage, &hello, &stranger, &rest()] {
                assert!(left.wire.inject(frame));
            }
        }
        assert!(left.wire.inject(&genuine), "behind a whole burst");
        assert!(left.machine.inject(&cyclic(0, turn % RELATIONS)));
        left.turn();
        let sent = left.sent();
        assert_eq!(sent.len(), 1, "its frame leaves in its turn");
        let came = left.came();
        let cyclic = came.iter().filter(|frame| !is_rest(frame)).count();
        // The first burst is full of the attacker's; the genuine frame follows in the next turn, as its first and only.
        assert_eq!((cyclic, came.len()), (0, BURST_FRAMES / 4));
        left.turn();
        assert_eq!(left.came().len(), usize::from(turn == 0), "one burst later, and a copy of it never");
    }
    let cell = left.link.pipeline_mut().cell_mut().unwrap();
    for _ in 0..BURST_FRAMES {
        cell.handle_timeout(Instant::START);
    }
    let counters = cell.counters;
    assert_eq!(counters.in_pkts_unknown_relation, 20 * 16);
    let forged = left.control.shared_counters.counters().in_hello_not_valid;
    assert_eq!(forged + counters.in_hello_flood, 20 * 16);
    // Control hears of none.
    assert!(forged > 0 && counters.in_hello_given == 0 && left.control.hellos.is_empty(), "{counters:?}");
}

#[test]
fn hellos_go_after_cyclic_frames_and_few_at_once() {
    let [mut left, _] = sides();
    let hello = |relation| HelloFrame { relation, octets: [9; 94].into_iter().collect() };
    for _ in 0..2 {
        for relation in 0..RELATIONS as u16 {
            assert!(left.control.hellos.send(hello(relation)));
        }
    }
    assert!(left.control.hellos.send(hello(0)) && !left.control.hellos.send(hello(0)));
    assert!(left.machine.inject(&cyclic(0, 3)));
    left.turn();
    let sent = left.sent();
    assert_eq!(sent.len(), 1 + HELLOS);
    assert_eq!(sent[0].len(), cyclic(0, 3).len() + 21, "the cyclic frame is the first");
    let mut now = Instant::START;
    for expected in [HELLOS, HELLOS, HELLOS, 1, 0] {
        left.turn_at(now);
        assert_eq!((left.sent().len(), left.link.due()), (0, Some(now + HELLO_GAP).filter(|_| expected > 0)));
        now = now + HELLO_GAP;
        left.turn_at(now);
        assert_eq!(left.sent().len(), expected);
    }
}

#[test]
fn a_frame_that_finds_no_chunk_for_its_twin_passes_in_clear_all_the_same() {
    let mut settings =
        RelationSettings { relation: relation(0, 0), mode: Mode::Shadow, alarm: Duration::from_secs(1) };
    let relations = Relations::new(Settings::new(PROTECTION, 1532), &[settings]).unwrap();
    let mut side = side(Cell::new(relations, OtherFrames::Drop, pair(1).0, [filter(0, 0)].into()));
    let (machine, plain) = MemoryPort::pair(16);
    let (wire, protected) = MemoryPort::pair(16);
    let pool = Pool::new(ChunkOctets::Octets2048, 1).unwrap();
    side.link.open(Box::new(crate::link::Ports {
        pool,
        plain: Box::new(plain),
        protected: Box::new(protected),
    }));
    (side.machine, side.wire) = (machine, wire);
    assert!(side.machine.inject(&cyclic(0, 0)));
    side.turn();
    assert_eq!(side.sent(), [cyclic(0, 0)]);
    assert_eq!(side.link.pipeline_mut().cell_mut().unwrap().counters.out_pkts_no_chunk, 1);
    settings.mode = Mode::Protect;
    let relations = Relations::new(Settings::new(PROTECTION, 1532), &[settings]).unwrap();
    side.link.pipeline_mut().change_cell(
        Some(Box::new(Cell::new(relations, OtherFrames::Drop, pair(1).0, [filter(0, 0)].into()))),
        &[(0, 0)],
    );
    assert!(side.machine.inject(&cyclic(0, 0)));
    side.turn();
    assert!(side.sent().is_empty(), "protected now, and without a session");
}
