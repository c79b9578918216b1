//! Two gateways with a cell each, and the test between them on the wire.
//!
//! ```text
//!  machine 0 ── link "left", cell ── wire 0 ··· the test ··· wire 1 ── cell, link "right" ── machine 1
//! ```
//!
//! The links' SecYs are wide open: they neither protect nor ask for protection. So whatever a cell lets through shows.

#![allow(dead_code, clippy::unwrap_used)] // not every test uses all of it; its own set-up fails loudly

use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::{CellSettings, CellStatus, Gateway, Notice, PlaceWanted};
use dataplane::cell::{CellCounters, OtherFrames};
use dataplane::link::{Link, Ports};
use dataplane::pipeline::Pipeline;
use dataplane::snapshot::LinkSnapshot;
use dataplane::worker::Polling;
use fieldbus::relation::Relation;
use fieldbus::{Mode, RelationSettings, RelationState, RelationStatus, Settings};
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::scheduling::Scheduling;
use pnstore::LeaseStore;
use secy::{ClearVlan, SciInclusion, SecY, ValidateFrames};
use suite::fieldbus::MasterKey;
use testkit::frames::payload;
use wire::fieldbus::{CellSuite, FrameId, Protect, Protection, Seq};
use wire::{MacAddr, Sci};

pub(crate) const NAMES: [&str; 2] = ["left", "right"];
pub(crate) const CYCLE: Duration = Duration::from_millis(1);
pub(crate) const ENCRYPT: Protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
/// No condition takes as long as that.
const DEADLINE: Duration = Duration::from_secs(20);
/// Frames that a wire holds.
const WIRE: usize = 4096;
const CHUNKS: usize = 1024;
const MTU: usize = 1532;

/// The stations of relation `number`: the PLC's behind the left gateway, and the device's.
pub(crate) fn stations(number: usize) -> [(MacAddr, FrameId); 2] {
    let [high, low] = (number as u16).to_be_bytes();
    let device = MacAddr([2, 0, 0, 9, high, low]);
    [
        (MacAddr([2, 0, 0, 0, 0, 1]), FrameId(0x8000 + number as u16)),
        (device, FrameId(0xb000 + number as u16)),
    ]
}

/// Frame that the station behind `from` sends in its relation `number`; the payload holds `count`.
pub(crate) fn cyclic(from: usize, number: usize, count: u32) -> Vec<u8> {
    let [own, peer] = [stations(number)[from], stations(number)[1 - from]];
    let mut octets = payload(40, u64::from(count) * 2 + from as u64);
    octets[..4].copy_from_slice(&count.to_be_bytes());
    tagged(peer.0, own.0, &[&[0x88, 0x92][..], &own.1.0.to_be_bytes(), &octets].concat())
}

/// Anything with PROFINET's priority tag.
pub(crate) fn tagged(to: MacAddr, from: MacAddr, behind_tag: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &[0x81, 0, 0xc0, 0], behind_tag].concat()
}

/// A frame of no relation.
pub(crate) fn rest(from: usize, count: u32) -> Vec<u8> {
    let [own, peer] = [stations(0)[from].0, stations(0)[1 - from].0];
    [&peer.0[..], &own.0, &[0x08, 0], &count.to_be_bytes(), &[0; 60]].concat()
}

pub(crate) fn is_cell(frame: &[u8]) -> bool {
    frame[12..14] == [0x88, 0xb5] || (frame[12..14] == [0x81, 0] && frame[16..18] == [0x88, 0xb5])
}

pub(crate) fn is_hello(frame: &[u8]) -> bool {
    frame[12..14] == [0x88, 0xb5] && frame[17..21] == [0; 4]
}

pub(crate) fn settings(side: usize, relations: std::ops::Range<usize>) -> CellSettings {
    let relation = |number| {
        let stations = stations(number);
        let relation = Relation::new(stations[side], stations[1 - side], CYCLE).unwrap();
        RelationSettings { relation, mode: Mode::Protect, alarm: Duration::from_secs(3600) }
    };
    CellSettings {
        name: format!("cell-{side}"),
        master_keys: MasterKey::new(&[5; 32]).into(),
        settings: Settings::new(ENCRYPT, MTU),
        relations: relations.map(relation).collect(),
        rest: OtherFrames::Link,
        place: PlaceWanted::UserSpace,
    }
}

/// With epochs of so many frames.
pub(crate) fn short_epochs(mut settings: CellSettings, frames: u32) -> CellSettings {
    settings.settings.epoch_end = Seq::new(frames).unwrap();
    settings
}

pub(crate) fn pipeline(side: usize) -> Pipeline {
    let settings = secy::Settings {
        protect_frames: false,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Disabled,
        replay_protect: false,
        clear_vlan: ClearVlan::Refuse,
        mtu: MTU,
        reassemble: false,
    };
    Pipeline::new(SecY::new(Sci::new(MacAddr([2, 0, 0, 0, 7, side as u8]), 1), settings), &[], None)
}

pub(crate) struct Side {
    pub(crate) machine: MemoryPort,
    pub(crate) wire: MemoryPort,
    pub(crate) came: Vec<Vec<u8>>,
}

pub(crate) struct Pair {
    pub(crate) gateway: Gateway,
    pub(crate) sides: [Side; 2],
    /// All that was on the wire, by the side that it came from.
    pub(crate) seen: Vec<(usize, Vec<u8>)>,
    /// Whether the wire loses this frame from this side.
    pub(crate) loses: fn(usize, &[u8]) -> bool,
    pub(crate) notices: Vec<Notice>,
    state: PathBuf,
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

fn ports() -> (Box<Ports>, Side) {
    let (machine, plain) = MemoryPort::pair(WIRE);
    let (wire, protected) = MemoryPort::pair(WIRE);
    let pool = Pool::new(ChunkOctets::Octets2048, CHUNKS).unwrap();
    let ports = Box::new(Ports { pool, plain: Box::new(plain), protected: Box::new(protected) });
    (ports, Side { machine, wire, came: Vec::new() })
}

impl Pair {
    pub(crate) fn new(name: &str, settings: [CellSettings; 2]) -> Self {
        let state = std::env::temp_dir().join(format!("fw-cells-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&state);
        let leases = LeaseStore::open(&state, None).unwrap();
        let gateway = Gateway::new(leases, Polling::Adaptive, Scheduling::Ordinary).unwrap();
        let sides = [ports().1, ports().1];
        let mut pair = Self { gateway, sides, seen: vec![], loses: |_, _| false, notices: vec![], state };
        for (side, settings) in settings.into_iter().enumerate() {
            pair.start(side, settings);
        }
        pair
    }

    /// Starts a gateway, as after a power failure: all that it knew is gone.
    pub(crate) fn start(&mut self, side: usize, settings: CellSettings) {
        let _ = self.gateway.remove(NAMES[side]);
        self.gateway.add_without_keys(NAMES[side].into(), Link::closed(pipeline(side))).unwrap();
        self.gateway.add_cell(NAMES[side], settings).unwrap();
        // The worker turns it without ports meanwhile, as at a start where opening them takes its time.
        std::thread::sleep(Duration::from_millis(20));
        self.reopen(side);
    }

    /// Gives a link other ports.
    pub(crate) fn reopen(&mut self, side: usize) {
        let (ports, ends) = ports();
        self.gateway.open(NAMES[side], ports).unwrap();
        let came = std::mem::take(&mut self.sides[side].came);
        self.sides[side] = Side { came, ..ends };
    }

    /// Control turns, the wire carries, machines get their frames.
    pub(crate) fn turn(&mut self) {
        self.notices.extend(self.gateway.turn(Instant::now()));
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(frame) = self.sides[from].wire.collect() {
                if !(self.loses)(from, &frame) {
                    self.sides[to].wire.inject(&frame);
                }
                self.seen.push((from, frame));
            }
        }
        for side in &mut self.sides {
            side.came.extend(std::iter::from_fn(|| side.machine.collect()));
        }
        std::thread::yield_now();
    }

    /// Turns until it is so.
    pub(crate) fn until(&mut self, what: &str, mut so: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !so(self) {
            self.turn();
            assert!(start.elapsed() < DEADLINE, "{what}: {}", self.story());
        }
    }

    fn story(&mut self) -> String {
        use std::fmt::Write;
        let mut story = String::new();
        for side in [0, 1] {
            let status = self.status(side);
            let mut look = |table: &[wire::Counter], values: &[u64]| {
                for (counter, value) in table.iter().zip(values).filter(|(_, value)| **value > 0) {
                    write!(story, "{} {value}, ", counter.name).unwrap();
                }
            };
            look(CellCounters::TABLE, &status.counters.values());
            look(fieldbus::handshake::HelloCounters::TABLE, &status.hello.values());
            for relation in status.relations.iter().take(4) {
                look(fieldbus::TransmitCounters::TABLE, &relation.transmit.values());
                look(fieldbus::ReceiveCounters::TABLE, &relation.receive.values());
            }
            writeln!(story).unwrap();
            for RelationStatus { state, transmit_key, receive_key, .. } in status.relations.iter().take(4) {
                writeln!(story, "{} {state:?} {transmit_key:?} {receive_key:?}", NAMES[side]).unwrap();
            }
        }
        story
    }

    pub(crate) fn status(&mut self, side: usize) -> CellStatus {
        self.gateway.cell_statuses().into_iter().find(|(link, _)| link == NAMES[side]).unwrap().1
    }

    pub(crate) fn relation(&mut self, side: usize, number: usize) -> RelationStatus {
        self.status(side).relations.swap_remove(number)
    }

    pub(crate) fn snapshot(&mut self, side: usize) -> LinkSnapshot {
        // A worker that gets no CPU for a second is left out of a report: it is asked again.
        let mut answers = std::iter::repeat_with(|| self.gateway.snapshots()).take(60);
        answers.find_map(|all| all.into_iter().find(|(of, _)| of == NAMES[side])).unwrap().1
    }

    /// Waits until both ends could protect in all relations.
    pub(crate) fn secure(&mut self) {
        self.until("sessions", |pair| {
            (0..2).all(|side| {
                pair.status(side).relations.iter().all(|relation| relation.transmit_key.is_some())
            })
        });
    }

    /// Waits until a frame was verified in all relations, both ways.
    pub(crate) fn is_running(&mut self) -> bool {
        (0..2).all(|side| {
            self.status(side).relations.iter().all(|relation| relation.state == RelationState::Running)
        })
    }

    /// Sends a frame of each relation both ways, and waits until they have come.
    pub(crate) fn exchange(&mut self, relations: usize, count: u32) {
        for number in 0..relations {
            for from in 0..2 {
                assert!(self.sides[from].machine.inject(&cyclic(from, number, count)));
            }
        }
        let mut wanted: [Vec<Vec<u8>>; 2] =
            [1, 0].map(|from| (0..relations).map(|number| cyclic(from, number, count)).collect());
        wanted.iter_mut().for_each(|frames| frames.sort());
        self.until("all came", |pair| {
            (0..2).all(|to| {
                let mut came: Vec<_> =
                    pair.sides[to].came.iter().filter(|frame| is_count(frame, count)).cloned().collect();
                came.sort();
                came == wanted[to]
            })
        });
        self.sides.iter_mut().for_each(|side| side.came.retain(|frame| !is_count(frame, count)));
    }
}

fn is_count(frame: &[u8], count: u32) -> bool {
    frame.get(20..24) == Some(&count.to_be_bytes())
}
