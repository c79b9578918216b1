//! Two cells that talk to each other, with a burst of cyclic frames of many relations: what a gateway does with them, without
//! any input or output.
//!
//! ```text
//!  chunk 2048, of 64:   headroom 256 | DA 6 | SA 6 | VLAN 4 | 0x8892 2 | FrameID 2 | payload | ICV 16
//! ```
//!
//! Outward all frames are those of one PLC, inward those of it for many devices; the frame at i is that of the i-th relation
//! named.

use std::time::Duration;

use arrayvec::ArrayVec;
use fieldbus::relation::Relation;
use fieldbus::session::{EpochKey, Session, SessionNumber};
use fieldbus::{
    Incoming, InwardFrame, KeyChange, LiveSession, Mode, Moment, Outgoing, RelationSettings, Relations,
    Settings,
};
use suite::fieldbus::{KeyContext, MasterKey};
use wire::fieldbus::{FrameId, HandshakeNonce, KeyId, Protection};
use wire::{Frame, MacAddr};

use crate::burst::{BURST, CHUNK, HEADROOM};

/// Addresses, VLAN tag, EtherType and FrameID.
const FRONT: usize = 20;
const CYCLE: Duration = Duration::from_millis(1);
/// Nothing of what is measured is an alarm.
const NEVER: Duration = Duration::from_secs(86_400);

/// A cell that sends, a cell that receives, and a burst of frames with one length of payload.
pub struct Cells {
    sender: Relations,
    receiver: Relations,
    fronts: Vec<[u8; FRONT]>,
    chunks: Vec<u8>,
    /// Offset and length of each frame in its chunk.
    places: ArrayVec<(usize, usize), BURST>,
    payload: usize,
    now: Moment,
}

impl Cells {
    /// Cells with so many relations, each in a session.
    ///
    /// # Panics
    /// If these are more than a cell can have, or a frame does not fit into a chunk of 2048 octets.
    pub fn new(relations: usize, protection: Protection, payload: usize) -> Self {
        assert!(HEADROOM + FRONT + payload + 16 <= CHUNK, "a payload of {payload} octets fits no chunk");
        let cell = |plc_is_local: bool| {
            let settings: Vec<_> = (0..relations)
                .map(|number| {
                    let (plc, device) = stations(number);
                    let (local, remote) = if plc_is_local { (plc, device) } else { (device, plc) };
                    let relation = Relation::new(local, remote, CYCLE).expect("two stations");
                    RelationSettings { relation, mode: Mode::Protect, alarm: NEVER }
                })
                .collect();
            let mut cell = Relations::new(Settings::new(protection, CHUNK), &settings)
                .expect("as many as a cell can have");
            for (number, RelationSettings { relation, .. }) in settings.iter().enumerate() {
                let session = LiveSession::new(session(relation, plc_is_local, protection));
                let entered = session_number();
                cell.change(number, KeyChange::Enter(session));
                cell.change(number, KeyChange::Enable(entered));
            }
            cell
        };
        let mut cells = Self {
            sender: cell(false),
            receiver: cell(true),
            fronts: (0..relations).map(|number| front(number, false)).collect(),
            chunks: vec![0xa5; BURST * CHUNK],
            places: ArrayVec::new(),
            payload,
            now: Moment::START,
        };
        // Frames go both ways in a relation, and a session runs from the first that was verified. So each device says something,
        // once.
        for number in 0..relations {
            cells.prepare(&[number]);
            cells.protect();
            cells.verify();
        }
        std::mem::swap(&mut cells.sender, &mut cells.receiver);
        cells.fronts = (0..relations).map(|number| front(number, true)).collect();
        cells
    }

    /// Puts a frame of the machine into a chunk for each of these relations, up to 64: not to be measured. The clock goes on by as
    /// much as lets every relation have a frame a cycle.
    pub fn prepare(&mut self, relations: &[usize]) {
        self.places.clear();
        for (relation, chunk) in relations.iter().zip(self.chunks.chunks_exact_mut(CHUNK)) {
            chunk[HEADROOM..HEADROOM + FRONT].copy_from_slice(&self.fronts[*relation]);
            self.places.push((HEADROOM, FRONT + self.payload));
        }
        self.now = self.now.later(CYCLE * relations.len() as u32 / self.fronts.len() as u32);
    }

    /// Finds the relations of these frames, and protects them.
    ///
    /// # Panics
    /// If a frame is discarded.
    pub fn protect(&mut self) {
        let mut burst: ArrayVec<Outgoing<'_>, BURST> = ArrayVec::new();
        for (chunk, (start, len)) in self.chunks.chunks_exact_mut(CHUNK).zip(&self.places) {
            let frame = Frame::new(chunk, *start, *len).expect("inside");
            let found = self.sender.find_outward(frame.octets()).expect("a relation's");
            burst.push(Outgoing::new(frame, found));
        }
        self.sender.protect(&mut burst);
        // Drained, as a gateway does it: consumed, it would be moved with all its empty room.
        for (outgoing, place) in burst.drain(..).zip(&mut self.places) {
            *place = (outgoing.frame().start(), outgoing.frame().len());
            outgoing.into_outcome().expect("protected");
        }
    }

    /// Finds the relations of what was protected last, and verifies it.
    ///
    /// # Panics
    /// If a frame is discarded, as all are the second time.
    pub fn verify(&mut self) {
        let mut burst: ArrayVec<Incoming<'_>, BURST> = ArrayVec::new();
        for (chunk, (start, len)) in self.chunks.chunks_exact_mut(CHUNK).zip(&self.places) {
            let frame = Frame::new(chunk, *start, *len).expect("inside");
            let InwardFrame::Protected(found) = self.receiver.find_inward(frame.octets()) else {
                panic!("a relation's")
            };
            burst.push(Incoming::new(frame, found));
        }
        self.receiver.verify(self.now, &mut burst);
        for (incoming, place) in burst.drain(..).zip(&mut self.places) {
            *place = (incoming.frame().start(), incoming.frame().len());
            incoming.into_outcome().expect("verified");
        }
    }
}

const fn session_number() -> SessionNumber {
    SessionNumber(0)
}

/// The PLC and device `number`, each with the FrameID that it sends.
fn stations(number: usize) -> ((MacAddr, FrameId), (MacAddr, FrameId)) {
    let frame_id = FrameId(0x8000 | number as u16);
    let [high, low] = (number as u16).to_be_bytes();
    ((MacAddr([2, 0, 0, 0, 0, 1]), frame_id), (MacAddr([2, 0, 0, 1, high, low]), frame_id))
}

/// Front of the payload, from the PLC for device `number` or for the PLC: with PROFINET's VLAN tag.
fn front(number: usize, from_plc: bool) -> [u8; FRONT] {
    let ((plc, frame_id), (device, _)) = stations(number);
    let (destination, source) = if from_plc { (device, plc) } else { (plc, device) };
    let mut front = [0; FRONT];
    front[..6].copy_from_slice(&destination.0);
    front[6..12].copy_from_slice(&source.0);
    front[12..18].copy_from_slice(&[0x81, 0x00, 0xc0, 0x00, 0x88, 0x92]);
    front[18..].copy_from_slice(&frame_id.0.to_be_bytes());
    front
}

/// Keys that a handshake would agree on.
fn session(relation: &Relation, plc_is_local: bool, protection: Protection) -> Session {
    let master = MasterKey::new(&[0x5a; 32]);
    let keys = |from_higher| {
        [0, 1].map(|epoch| EpochKey {
            key_id: KeyId(epoch as u8),
            epoch,
            key: master.direction_key(&KeyContext {
                stations: *relation.stations(),
                from_higher,
                nonces: [HandshakeNonce([1; 16]), HandshakeNonce([2; 16])],
                protection,
                epoch,
            }),
        })
    };
    // The PLC has the lower address.
    Session { number: session_number(), transmit: keys(!plc_is_local), receive: keys(plc_is_local) }
}

#[cfg(test)]
mod tests {
    use wire::fieldbus::{CellSuite, Protect};

    use super::*;
    use crate::order::shuffled;

    #[test]
    fn what_one_cell_protects_the_other_verifies() {
        for protect in [Protect::Encrypt, Protect::Authenticate] {
            for payload in [44, 1444] {
                let protection = Protection { protect, suite: CellSuite::GcmAes128 };
                let mut cells = Cells::new(57, protection, payload);
                let order = shuffled(57, 300);
                for relations in order.chunks(BURST).chain(order.chunks(1)) {
                    cells.prepare(relations);
                    cells.protect();
                    let in_clear = protect == Protect::Authenticate;
                    let last = HEADROOM + FRONT + payload - 1;
                    assert_eq!(cells.chunks[last - 16..last] == [0xa5; 16], in_clear);
                    cells.verify();
                    assert!(cells.places.iter().all(|place| *place == (HEADROOM, FRONT + payload)));
                    let (front, payloads) = cells.chunks[HEADROOM..][..FRONT + payload].split_at(FRONT);
                    assert_eq!(front, cells.fronts[relations[0]]);
                    assert!(payloads.iter().all(|octet| *octet == 0xa5), "what comes out is what went in");
                }
            }
        }
    }
}
