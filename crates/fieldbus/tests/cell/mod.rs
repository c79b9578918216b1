//! Two cells that share relations, and what stands between their handshakes: sessions made of two nonces.

#![allow(dead_code, clippy::unwrap_used)] // not every test uses all of it; its own set-up fails loudly

use std::time::Duration;

use fieldbus::relation::Relation;
use fieldbus::session::{EpochKey, Session, SessionNumber};
use fieldbus::{
    Incoming, InwardFrame, KeyChange, LiveSession, Mode, Moment, Outgoing, ReceiveDiscard, RelationMatch,
    RelationSettings, Relations, Settings, TransmitDiscard,
};
use suite::fieldbus::{KeyContext, MasterKey};
use wire::fieldbus::{CellSuite, FrameId, HandshakeNonce, KeyId, Protect, Protection, Seq};
use wire::{Frame, MacAddr};

pub(crate) const CYCLE: Duration = Duration::from_millis(1);
pub(crate) const ALARM: Duration = Duration::from_millis(150);
pub(crate) const MTU: usize = 1532;
/// Offset of frames in their chunks, and the chunks' length.
const HEADROOM: usize = 64;
const CHUNK: usize = 2048;

pub(crate) const MODES: [Protection; 6] = {
    use CellSuite::{ChaCha20Poly1305, GcmAes128, GcmAes256};
    use Protect::{Authenticate, Encrypt};
    [
        Protection { protect: Encrypt, suite: GcmAes128 },
        Protection { protect: Authenticate, suite: GcmAes128 },
        Protection { protect: Encrypt, suite: GcmAes256 },
        Protection { protect: Authenticate, suite: GcmAes256 },
        Protection { protect: Encrypt, suite: ChaCha20Poly1305 },
        Protection { protect: Authenticate, suite: ChaCha20Poly1305 },
    ]
};

/// The stations of relation `number`: the PLC's, and the device's, whose addresses lie on either side of the PLC's.
pub(crate) fn stations(number: usize) -> [(MacAddr, FrameId); 2] {
    let plc = MacAddr([2, 0, 0, 0, 0x80, 0]);
    let [high, low] = (number as u16).to_be_bytes();
    let side = if number.is_multiple_of(2) { 0 } else { 0xff };
    let device = MacAddr([2, 0, 0, side, high, low]);
    [(plc, FrameId(0x8000 + number as u16)), (device, FrameId(0xa000 + number as u16))]
}

pub(crate) fn settings(end: usize, number: usize) -> RelationSettings {
    let stations = stations(number);
    let relation = Relation::new(stations[end], stations[1 - end], CYCLE).unwrap();
    RelationSettings { relation, mode: Mode::Protect, alarm: ALARM }
}

/// The PLC's cell, and the devices'.
pub(crate) struct Pair {
    pub(crate) ends: [Relations; 2],
    pub(crate) protection: Protection,
    pub(crate) now: Moment,
    sessions: Vec<[u32; 2]>,
}

pub(crate) type Received = Result<Vec<u8>, ReceiveDiscard>;

impl Pair {
    pub(crate) fn new(protection: Protection, relations: usize) -> Self {
        Self::with(protection, relations, |_| {})
    }

    pub(crate) fn with(protection: Protection, relations: usize, set: impl Fn(&mut Settings)) -> Self {
        let ends = [0, 1].map(|end| {
            let mut cell = Settings::new(protection, MTU);
            set(&mut cell);
            let relations: Vec<_> = (0..relations).map(|number| settings(end, number)).collect();
            Relations::new(cell, &relations).unwrap()
        });
        let now = Moment::after_start(Duration::from_secs(1));
        Self { ends, protection, now, sessions: vec![[0; 2]; relations] }
    }

    /// With a session in each relation, which both ends have entered and enabled.
    pub(crate) fn secured(protection: Protection, relations: usize) -> Self {
        let mut pair = Self::new(protection, relations);
        (0..relations).for_each(|number| pair.secure(number));
        pair
    }

    pub(crate) fn secure(&mut self, number: usize) {
        let sessions = self.session(number, number as u8);
        for (end, session) in sessions.into_iter().enumerate() {
            let name = session.number;
            self.ends[end].change(number, KeyChange::Enter(LiveSession::new(session)));
            self.ends[end].change(number, KeyChange::Enable(name));
        }
    }

    /// A session of a relation for both ends, whose first KeyID is `key_id` in both directions.
    pub(crate) fn session(&mut self, number: usize, key_id: u8) -> [Session; 2] {
        let counts = &mut self.sessions[number];
        counts.iter_mut().for_each(|count| *count += 1);
        let counts = *counts;
        [0, 1].map(|end| Session {
            number: SessionNumber(counts[end]),
            transmit: [0, 1].map(|epoch| self.key(number, counts[end], end, key_id, epoch)),
            receive: [0, 1].map(|epoch| self.key(number, counts[end], 1 - end, key_id, epoch)),
        })
    }

    /// The key of an epoch of a session for what the station behind `from` sends.
    pub(crate) fn key(&self, number: usize, session: u32, from: usize, key_id: u8, epoch: u64) -> EpochKey {
        let relation = settings(from, number).relation;
        let master = MasterKey::new(&[7; 32]);
        let nonce = |octet: u8| HandshakeNonce([octet; 16]);
        let direction = KeyContext {
            stations: *relation.stations(),
            from_higher: relation.own().0 > relation.peer().0,
            nonces: [nonce(1 + session as u8), nonce(101 + session as u8)],
            protection: self.protection,
            epoch,
        };
        let key_id = KeyId(key_id.wrapping_add(epoch as u8));
        EpochKey { key_id, epoch, key: master.direction_key(&direction) }
    }

    /// Protects a frame of a station behind `from`.
    pub(crate) fn protect(&mut self, from: usize, frame: &[u8]) -> Result<Vec<u8>, TransmitDiscard> {
        self.protect_all(from, &[frame.to_vec()]).pop().unwrap()
    }

    /// Protects a burst.
    pub(crate) fn protect_all(
        &mut self,
        from: usize,
        frames: &[Vec<u8>],
    ) -> Vec<Result<Vec<u8>, TransmitDiscard>> {
        let mut chunks: Vec<_> = frames.iter().map(|frame| chunk(frame)).collect();
        let cell = &mut self.ends[from];
        let mut burst: Vec<_> = chunks
            .iter_mut()
            .zip(frames)
            .map(|(chunk, frame)| {
                let found = cell.find_outward(frame).expect("a relation's");
                Outgoing::new(Frame::new(chunk, HEADROOM, frame.len()).unwrap(), found)
            })
            .collect();
        cell.protect(&mut burst);
        let outcome = |outgoing: Outgoing<'_>| {
            let octets = outgoing.frame().octets().to_vec();
            outgoing.into_outcome().map(|_| octets)
        };
        burst.into_iter().map(outcome).collect()
    }

    /// Verifies a frame that came to `to`.
    pub(crate) fn verify(&mut self, to: usize, frame: &[u8]) -> Received {
        self.verify_all(to, &[frame.to_vec()]).pop().unwrap()
    }

    /// Verifies a burst.
    pub(crate) fn verify_all(&mut self, to: usize, frames: &[Vec<u8>]) -> Vec<Received> {
        let mut chunks: Vec<_> = frames.iter().map(|frame| chunk(frame)).collect();
        let cell = &mut self.ends[to];
        let mut burst: Vec<_> = chunks
            .iter_mut()
            .zip(frames)
            .map(|(chunk, frame)| {
                let found = protected(cell.find_inward(frame)).expect("a relation's");
                Incoming::new(Frame::new(chunk, HEADROOM, frame.len()).unwrap(), found)
            })
            .collect();
        cell.verify(self.now, &mut burst);
        let outcome = |incoming: Incoming<'_>| {
            let octets = incoming.frame().octets().to_vec();
            incoming.into_outcome().map(|_| octets)
        };
        burst.into_iter().map(outcome).collect()
    }

    /// Sends one frame of a relation from `from` to the other end.
    pub(crate) fn pass(&mut self, from: usize, number: usize) -> Received {
        let protected = self.protect(from, &machine(from, number, 40)).unwrap();
        self.now = self.now.later(CYCLE);
        self.verify(1 - from, &protected)
    }

    pub(crate) fn status(&self, end: usize, number: usize) -> fieldbus::RelationStatus {
        self.ends[end].status(number, self.now)
    }
}

pub(crate) fn protected(inward: InwardFrame) -> Option<RelationMatch> {
    match inward {
        InwardFrame::Protected(found) => Some(found),
        _ => None,
    }
}

fn chunk(frame: &[u8]) -> Vec<u8> {
    let mut chunk = vec![0xee; CHUNK];
    chunk[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
    chunk
}

/// A frame as the machine behind `from` sends it, with priority tag.
pub(crate) fn machine(from: usize, number: usize, payload: usize) -> Vec<u8> {
    let stations = stations(number);
    let payload: Vec<u8> = (0..payload).map(|octet| (octet * 7 + number) as u8).collect();
    plain(stations[1 - from].0, stations[from].0, &[0x81, 0, 0xc0, 0], stations[from].1, &payload)
}

pub(crate) fn plain(to: MacAddr, from: MacAddr, tags: &[u8], frame_id: FrameId, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, tags, &[0x88, 0x92], &frame_id.0.to_be_bytes(), payload].concat()
}

pub(crate) const fn seq(number: u32) -> Seq {
    match Seq::new(number) {
        Some(seq) => seq,
        None => panic!("a Seq is not 0"),
    }
}
