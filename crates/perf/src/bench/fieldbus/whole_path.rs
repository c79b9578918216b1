//! The whole way of a cyclic frame through two gateways, but for the kernel: from the receive descriptor to the transmit
//! descriptor of the first, then of the second.
//!
//! ```text
//!  frames ──▶ [ link with a cell: one turn, outward ] ──▶ [ link with a cell: one turn, inward ] ──▶ frames
//! ```
//!
//! Ports are memory, which copies a frame when it is received and when it is transmitted; a turn looks at both ports of its
//! link, reads the clock for the residence of its frames, and counts them. The sessions are those of real handshakes: control
//! makes them, and then hands the links over, so that nothing else turns them.

use std::time::{Duration, Instant};

use control::{CellSettings, Gateway, PlaceWanted};
use dataplane::cell::OtherFrames;
use dataplane::link::{Link, Ports};
use dataplane::pipeline::Pipeline;
use dataplane::worker::Polling;
use fieldbus::relation::Relation;
use fieldbus::{Mode, RelationSettings, RelationStatus, Settings};
use netdev::burst::BURST_FRAMES;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::scheduling::Scheduling;
use pnstore::LeaseStore;
use secy::{ClearVlan, SciInclusion, SecY, ValidateFrames};
use suite::fieldbus::MasterKey;
use wire::fieldbus::{FrameId, Protection};
use wire::{MacAddr, Sci};

use super::super::BenchError;
use crate::demo::pair::Scratch;
use speed::frame_times::Work;

const NAMES: [&str; 2] = ["plc", "devices"];
const CYCLE: Duration = Duration::from_millis(1);
/// Time all handshakes may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nothing of what is measured is an alarm.
const NEVER: Duration = Duration::from_secs(86_400);
/// Frames that a wire holds while handshakes are made: two HELLOs of each relation.
const HANDSHAKES: usize = 4096;
/// Frames that it holds while times are taken: no more, since its buffers go round, and each that has not been used for long would
/// cost a miss that no ring of an interface has.
const WIRE: usize = BURST_FRAMES;
const CHUNKS: usize = 512;
pub(super) const MTU: usize = 1532;

/// Two links, each with a cell whose relations are in session.
pub(crate) struct WholePath {
    /// That of the PLC, and that of the devices.
    links: [Box<Link>; 2],
    plc: MemoryPort,
    devices: MemoryPort,
    /// Frames of the PLC to each device.
    frames: Vec<Vec<u8>>,
    under_way: usize,
    start: Instant,
}

impl WholePath {
    /// A cell with `relations` relations, all of them in session.
    pub(crate) fn new(relations: usize, protection: Protection, payload: usize) -> Result<Self, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::Cells(error.to_string());
        let scratch = Scratch::new()?;
        let leases = LeaseStore::open(scratch.path(), None).map_err(|error| failed(&error))?;
        let mut gateway =
            Gateway::new(leases, Polling::Adaptive, Scheduling::Ordinary).map_err(|error| failed(&error))?;
        let mut wires = Vec::new();
        for (side, name) in NAMES.into_iter().enumerate() {
            let link = Link::closed(pipeline(side));
            gateway.add_without_keys(name.into(), link).map_err(|error| failed(&error))?;
            gateway.add_cell(name, settings(side, relations, protection)).map_err(|error| failed(&error))?;
            let ((plain, _), (protected, wire)) = (MemoryPort::pair(1), MemoryPort::pair(HANDSHAKES));
            gateway.open(name, ports(plain, protected)?).map_err(|error| failed(&error))?;
            wires.push(wire);
        }
        agree(&mut gateway, &mut wires)?;
        let [first, second] = NAMES.map(|name| gateway.remove(name));
        let links = [first.map_err(|error| failed(&error))?, second.map_err(|error| failed(&error))?];
        gateway.stop().map_err(|error| failed(&error))?;
        let frames = |from: usize| (0..relations).map(|number| frame(from, number, payload)).collect();
        let mut pipeline = Self::between(links, frames(0))?;
        pipeline.answer(frames(1));
        Ok(pipeline)
    }

    /// Frames go both ways in a relation, and a session runs from the first that was verified: each device says something, once.
    fn answer(&mut self, frames: Vec<Vec<u8>>) {
        for frame in frames {
            assert!(self.devices.inject(&frame), "the wire is empty");
            self.turn(1);
            self.turn(0);
            assert!(self.plc.collect().is_some(), "every frame arrives");
        }
    }

    /// Gives the links other ports, with a wire between them.
    fn between(mut links: [Box<Link>; 2], frames: Vec<Vec<u8>>) -> Result<Self, BenchError> {
        let ((plc, plain), (left, right)) = (MemoryPort::pair(WIRE), MemoryPort::pair(WIRE));
        let (devices, other_plain) = MemoryPort::pair(WIRE);
        let [first, second] = &mut links;
        first.open(ports(plain, left)?);
        second.open(ports(other_plain, right)?);
        Ok(Self { links, plc, devices, frames, under_way: 0, start: Instant::now() })
    }

    fn turn(&mut self, link: usize) {
        let read = Instant::now();
        self.links[link].turn(wire::Instant::after_start(read - self.start), read);
    }
}

impl Work for WholePath {
    fn prepare(&mut self, relations: &[usize]) {
        // All frames under way have arrived, whole and in clear.
        for _ in 0..std::mem::replace(&mut self.under_way, relations.len()) {
            let arrived = self.devices.collect().expect("every frame arrives");
            assert_eq!(arrived[16..18], [0x88, 0x92]);
        }
        for relation in relations {
            assert!(self.plc.inject(&self.frames[*relation]), "the wire holds a burst");
        }
    }

    fn protect(&mut self, _relations: &[usize]) {
        self.turn(0);
    }

    fn verify(&mut self, _relations: &[usize]) {
        self.turn(1);
    }
}

/// Carries what the gateways say until in all relations each end sends under the key by which the other one listens. An end
/// that can send may still be asked for another session, if the machine was slow; then only the next HELLOs would bring both
/// together.
fn agree(gateway: &mut Gateway, wires: &mut [MemoryPort]) -> Result<(), BenchError> {
    let begin = Instant::now();
    let mut look = Instant::now();
    loop {
        gateway.turn(Instant::now());
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(frame) = wires[from].collect() {
                wires[to].inject(&frame);
            }
        }
        if look.elapsed() > Duration::from_millis(2) {
            if let [(_, one), (_, other)] = &gateway.cell_statuses()[..] {
                let mut pairs = one.relations.iter().zip(&other.relations);
                // An end that sends in a newer session than its peer heard last listens in both, and the peer has confirmed the newer one.
                let meet = |from: &RelationStatus, to: &RelationStatus| {
                    let (Some(sends), Some(listens)) = (from.transmit_key, to.receive_key) else {
                        return false;
                    };
                    sends.key_id == listens.key_id
                        || to.transmit_key.is_some_and(|key| key.session != listens.session)
                };
                if pairs.all(|(one, other)| meet(one, other) && meet(other, one)) {
                    return Ok(());
                }
            }
            look = Instant::now();
        }
        if begin.elapsed() > PATIENCE {
            return Err(BenchError::Cells("the handshakes came to no end".into()));
        }
        std::thread::yield_now();
    }
}

/// The PLC, and device `number`, each with the FrameID that it sends.
fn stations(number: usize) -> [(MacAddr, FrameId); 2] {
    let frame_id = FrameId(0x8000 | number as u16);
    let [high, low] = (number as u16).to_be_bytes();
    [(MacAddr([2, 0, 0, 0, 0, 1]), frame_id), (MacAddr([2, 0, 0, 1, high, low]), frame_id)]
}

/// Frame of the PLC (0) or of device `number` (1).
pub(super) fn frame(from: usize, number: usize, payload: usize) -> Vec<u8> {
    let stations = stations(number);
    let ((source, frame_id), (destination, _)) = (stations[from], stations[1 - from]);
    let front = [&destination.0[..], &source.0, &[0x81, 0, 0xc0, 0, 0x88, 0x92], &frame_id.0.to_be_bytes()];
    let mut frame = front.concat();
    frame.resize(frame.len() + payload, 0xa5);
    frame
}

/// Relation `number`, as the gateway of the PLC (0) or that of the devices (1) has it.
pub(super) fn relation(side: usize, number: usize) -> RelationSettings {
    let stations = stations(number);
    let relation = Relation::new(stations[side], stations[1 - side], CYCLE);
    let relation = relation.expect("invariant: two stations, none of them a group");
    RelationSettings { relation, mode: Mode::Protect, alarm: NEVER }
}

fn settings(side: usize, relations: usize, protection: Protection) -> CellSettings {
    CellSettings {
        name: NAMES[side].into(),
        master_keys: MasterKey::new(&[0x5a; 32]).into(),
        settings: Settings::new(protection, MTU),
        relations: (0..relations).map(|number| relation(side, number)).collect(),
        rest: OtherFrames::Drop,
        place: PlaceWanted::UserSpace,
    }
}

/// With a SecY that is never reached.
fn pipeline(side: usize) -> Pipeline {
    let settings = secy::Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        mtu: MTU,
        reassemble: false,
    };
    Pipeline::new(SecY::new(Sci::new(MacAddr([2, 0, 0, 0, 7, side as u8]), 1), settings), &[], None)
}

fn ports(plain: MemoryPort, protected: MemoryPort) -> Result<Box<Ports>, BenchError> {
    let pool =
        Pool::new(ChunkOctets::Octets2048, CHUNKS).map_err(|error| BenchError::Cells(error.to_string()))?;
    Ok(Box::new(Ports { pool, plain: Box::new(plain), protected: Box::new(protected) }))
}

#[cfg(test)]
mod tests {
    use wire::fieldbus::{CellSuite, Protect};

    use super::*;

    #[test]
    fn every_frame_comes_out_of_the_second_link() {
        let protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
        let mut pipeline = WholePath::new(3, protection, 44).unwrap();
        for relations in [&[0, 1, 2, 0, 2][..], &[1], &[]] {
            pipeline.prepare(relations);
            pipeline.protect(relations);
            pipeline.verify(relations);
        }
        assert!(pipeline.devices.collect().is_none() && pipeline.plc.collect().is_none());
    }
}
