//! Time until a whole cell has its sessions after one gateway has started again: control and a link's data path on a
//! clock held in the hand, with the pace at which HELLOs leave, and the time that waking threads takes.
#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

use std::collections::VecDeque;
use std::time::Duration;

use fieldbus::Mode;
use fieldbus::relation::Relation;
use secy::{ClearVlan, SciInclusion, SecY, ValidateFrames};
use suite::fieldbus::MasterKey;
use wire::fieldbus::{CellSuite, FrameId, Protect, Protection, Protocol, Target};
use wire::{MacAddr, Sci};

use super::*;
use dataplane::cell::OtherFrames;
use dataplane::job::{Datapath, Datapaths, Progress};
use dataplane::link::Link;
use dataplane::pipeline::Pipeline;
use dataplane::worker::ManualWorker;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};

const RELATIONS: usize = 1024;
/// IO flows within this time of a start.
const LIMIT: Duration = Duration::from_millis(150);
/// Frames that a machine sends are with the other one so soon.
const PASSAGE: Duration = Duration::from_millis(2);
/// From one gateway to the other.
const WAY: Duration = Duration::from_micros(100);
/// Between two turns of a worker: what sleeping and waking takes.
const TURN: Duration = Duration::from_micros(50);
/// Turns that a worker makes in that time, if it does not sleep: a few microseconds each.
const TURNS: usize = 5;
/// Until control turns that was woken, and between two turns of its own.
const WAKE: Duration = Duration::from_micros(500);
const TICK: Duration = Duration::from_millis(20);
const MTU: usize = 1532;
/// Frames that a wire holds.
const WIRE: usize = 4096;

fn stations(number: usize) -> [(MacAddr, FrameId); 2] {
    let [high, low] = (number as u16).to_be_bytes();
    [(MacAddr([2, 0, 0, 0, 0, 1]), FrameId(0x8000)), (MacAddr([2, 0, 0, 1, high, low]), FrameId(0x8001))]
}

fn settings(side: usize, relations: usize) -> CellSettings {
    let of = |number| {
        let stations = stations(number);
        let cycle = Duration::from_millis(1);
        let relation = Relation::new(stations[side], stations[1 - side], cycle).unwrap();
        RelationSettings { relation, mode: Mode::Protect, alarm: Duration::from_secs(3600) }
    };
    let protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
    CellSettings {
        name: "cell".into(),
        master_keys: MasterKey::new(&[5; 32]).into(),
        settings: fieldbus::Settings::new(protection, MTU),
        relations: (0..relations).map(of).collect(),
        rest: OtherFrames::Drop,
        place: PlaceWanted::UserSpace,
    }
}

fn cyclic(from: usize, number: usize) -> Vec<u8> {
    let [(own, id), (peer, _)] = [stations(number)[from], stations(number)[1 - from]];
    [&peer.0[..], &own.0, &[0x81, 0, 0xc0, 0, 0x88, 0x92], &id.0.to_be_bytes(), &[7; 40]].concat()
}

/// The pipeline of a link without keys.
fn pipeline(side: usize) -> Pipeline {
    let secy = secy::Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        mtu: MTU,
        reassemble: false,
    };
    let sci = Sci::new(MacAddr([2, 0, 0, 0, 7, side as u8]), 1);
    Pipeline::new(SecY::new(sci, secy), &[], None)
}

/// One start of a gateway.
struct Side {
    control: Box<CellControl>,
    handle: WorkerHandle,
    held: ManualWorker,
    datapaths: Datapaths,
    machine: MemoryPort,
    wire: MemoryPort,
    control_at: Duration,
}

impl Side {
    fn start(side: usize, relations: usize, now: Duration) -> Self {
        Self::start_as(side, settings(side, relations), now)
    }

    fn start_as(side: usize, settings: CellSettings, now: Duration) -> Self {
        let (cell, control) = CellControl::make(settings).unwrap();
        let (handle, held) = WorkerHandle::manual().unwrap();
        let mut pipeline = pipeline(side);
        assert!(pipeline.change_cell(Some(cell), &[]).is_none());
        let ((machine, plain), (wire, protected)) = (MemoryPort::pair(WIRE), MemoryPort::pair(WIRE));
        let pool = Pool::new(ChunkOctets::Octets2048, 512).unwrap();
        let link = Link::new(pool, Box::new(plain), Box::new(protected), pipeline);
        let mut datapaths = Datapaths::default();
        datapaths.insert(0, Datapath::Link(Box::new(link)));
        Self { control, handle, held, datapaths, machine, wire, control_at: now }
    }

    fn turn_worker(&mut self, start: Instant, now: Duration) {
        // As a worker does: of lists of keys one, then a turn.
        if let Some(mut job) = self.held.job() {
            assert_eq!(job.run(&mut self.datapaths), Progress::DoneForThisTurn);
        }
        let link = self.datapaths.link(0).unwrap();
        let moment = wire::Instant::after_start(now);
        // It does not sleep while there is something to do.
        for _ in 0..TURNS {
            link.turn(moment, start + now);
            link.pipeline_mut().handle_cell_timeout(moment);
            if link.due() != Some(wire::Instant::START) {
                break;
            }
        }
        if link.pipeline_mut().take_wake_flag() {
            self.control_at = self.control_at.min(now + WAKE);
        }
    }

    fn turn_control(&mut self, start: Instant, now: Duration) {
        if now >= self.control_at {
            self.control_at = now + TICK;
            self.control.turn(&mut Context {
                now: start + now,
                moment: wire::Instant::after_start(now),
                worker: &mut self.handle,
                slot: 0,
                notices: &mut Vec::new(),
            });
        }
    }
}

struct Plant {
    sides: [Side; 2],
    start: Instant,
    now: Duration,
    under_way: VecDeque<(Duration, usize, Vec<u8>)>,
    /// Somebody between the gateways, who sees all and adds what he likes.
    attacker: Option<Attacker>,
}

impl Plant {
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TURN;
            // His come first.
            if let Some(attacker) = &mut self.attacker {
                for (to, side) in self.sides.iter_mut().enumerate() {
                    attacker.flood(to, |frame| assert!(side.wire.inject(frame), "the wire holds it"));
                }
            }
            while self.under_way.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, to, frame) = self.under_way.pop_front().unwrap();
                assert!(self.sides[to].wire.inject(&frame), "the wire holds it");
            }
            for (number, side) in self.sides.iter_mut().enumerate() {
                side.turn_worker(self.start, self.now);
                side.turn_control(self.start, self.now);
                while let Some(frame) = side.wire.collect() {
                    self.attacker.iter_mut().for_each(|attacker| attacker.see(number, &frame));
                    self.under_way.push_back((self.now + WAY, 1 - number, frame));
                }
            }
        }
    }

    /// A frame of each relation from each machine; how many reach the other one.
    fn exchange(&mut self) -> [usize; 2] {
        let relations = self.sides[0].control.relations.len();
        for (from, side) in self.sides.iter_mut().enumerate() {
            for number in 0..relations {
                assert!(side.machine.inject(&cyclic(from, number)));
            }
        }
        self.pass(PASSAGE);
        let came = |side: &mut Side| std::iter::from_fn(|| side.machine.collect()).count();
        self.sides.each_mut().map(came)
    }
}

mod hostile;
mod kernel_faults;
mod kernel_moves;
use hostile::Attacker;

/// A relation of another protocol, or to a group, has other keys: its session is none of the relation before.
#[test]
fn a_session_goes_on_only_where_the_relation_means_the_same_frames() {
    let of = |protocol: Protocol, to: Target| {
        let mut settings = settings(0, 2);
        let relation = &mut settings.relations[1].relation;
        *relation = relation.of(protocol, to, Target::Peer).unwrap();
        CellControl::make(settings).unwrap().1
    };
    let before = of(Protocol::Goose, Target::Peer);
    assert_eq!(of(Protocol::Goose, Target::Peer).carry_over(&before), [(0, 0), (1, 1)]);
    let group = Target::Group(MacAddr([1, 0x0c, 0xcd, 1, 0, 1]));
    for (protocol, to) in [
        (Protocol::SampledValues, Target::Peer),
        (Protocol::Profinet, Target::Peer),
        (Protocol::Goose, group),
    ] {
        assert_eq!(of(protocol, to).carry_over(&before), [(0, 0)], "{protocol:?} {to:?}");
    }
}

/// What a cell passes on is the state of its own relations, in their order: keys of one would protect frames of another.
#[test]
fn a_cell_goes_on_with_its_own_relations_alone() {
    let passed = || {
        let (_, control) = CellControl::make(settings(0, 2)).unwrap();
        let passed = control.pass_on(Instant::now(), None, false).unwrap();
        serde_json::from_str::<PassedCell>(&serde_json::to_string(&passed).unwrap()).unwrap()
    };
    let go_on = |relations: Vec<RelationSettings>| {
        let settings = CellSettings { relations, ..settings(0, 2) };
        passed().try_to_go_on(settings, Instant::now())
    };
    let own = settings(0, 2).relations;
    assert_eq!(go_on(own.clone()), Ok(()));
    let (mut exchanged, mut of_goose) = (own.clone(), own.clone());
    exchanged.swap(0, 1);
    let relation = &mut of_goose[1].relation;
    *relation = relation.of(Protocol::Goose, Target::Peer, Target::Peer).unwrap();
    for others in [exchanged, of_goose, own[..1].to_vec(), settings(1, 2).relations] {
        assert_eq!(go_on(others), Err("its cell has other relations, or the same in another order".into()));
    }
}

#[test]
fn io_of_a_thousand_relations_flows_within_150_ms_of_the_start_of_either_gateway() {
    let now = Duration::from_secs(1);
    let sides = [0, 1].map(|side| Side::start(side, RELATIONS, now));
    let mut plant = Plant { sides, start: Instant::now(), now, under_way: VecDeque::new(), attacker: None };
    plant.pass(LIMIT - PASSAGE);
    assert_eq!(plant.exchange(), [RELATIONS; 2], "both started at once");
    for side in [0, 1] {
        plant.pass(Duration::from_millis(333));
        assert_eq!(plant.exchange(), [RELATIONS; 2]);
        plant.sides[side] = Side::start(side, RELATIONS, plant.now);
        plant.pass(LIMIT - PASSAGE);
        assert_eq!(plant.exchange(), [RELATIONS; 2], "gateway {side} started again");
    }
}
