//! Two gateways, each of them twice: once as the Rust relations of crate `fieldbus`, and once as the programs. Whatever is done
//! with one is done with the other, and what comes of it is compared: frames octet by octet, outcomes, counters, keys, news.
#![allow(dead_code, clippy::unwrap_used)] // not every test uses all of it

use std::time::Duration;

use fieldbus::relation::Relation;
use fieldbus::session::{EpochKey, Session, SessionNumber};
use fieldbus::{
    Event, Incoming, InwardFrame, KeyChange, LiveSession, Mode, Moment, Outgoing, ReceiveDiscard,
    RelationSettings, Relations, Settings, TransmitDiscard,
};
use suite::fieldbus::{KeyContext, MasterKey};
use wire::fieldbus::{CellSuite, FrameId, HandshakeNonce, KeyId, Protect, Protection};
use wire::{Frame, MacAddr};
use xdp::Unclaimed;
use xdp::{Cell, Verdict};

pub(crate) const ENCRYPT: Protection =
    Protection { protect: Protect::Encrypt, suite: CellSuite::ChaCha20Poly1305 };
pub(crate) const AUTHENTICATE: Protection =
    Protection { protect: Protect::Authenticate, suite: CellSuite::ChaCha20Poly1305 };
pub(crate) const MTU: usize = 1532;
/// No alarm: the programs read a clock of their own.
pub(crate) const ALARM: Duration = Duration::from_secs(1 << 20);
pub(crate) const TAG: [u8; 4] = [0x81, 0, 0xc0, 0];
const HEADROOM: usize = 64;
const CHUNK: usize = 4096;
/// Relations that the maps have room for.
const ROOM: usize = 4;
/// The loopback interface, as both ports of a gateway: a program that is only tried sends nothing.
const LOOPBACK: u32 = 1;

/// The stations of relation `number`, on either side of each other's address.
pub(crate) fn stations(number: usize) -> [(MacAddr, FrameId); 2] {
    let side = if number.is_multiple_of(2) { 0 } else { 0xff };
    let device = MacAddr([2, 0, 0, side, 0, number as u8]);
    [
        (MacAddr([2, 0, 0, 0, 0x80, 0]), FrameId(0x8000 + number as u16)),
        (device, FrameId(0xa000 + number as u16)),
    ]
}

pub(crate) fn relation(end: usize, number: usize) -> RelationSettings {
    let stations = stations(number);
    let relation = Relation::new(stations[end], stations[1 - end], Duration::from_millis(1)).unwrap();
    RelationSettings { relation, mode: Mode::Protect, alarm: ALARM }
}

/// The programs: those of the crate, or those that `FRAMEWARD_CELL_OBJECT` names (`scripts/bpf_mutants.sh`).
pub(crate) fn load(settings: &Settings, of: &[RelationSettings]) -> Cell {
    let loaded = match std::env::var_os("FRAMEWARD_CELL_OBJECT") {
        Some(file) => Cell::load_object(&std::fs::read(file).unwrap(), ROOM),
        None => Cell::load(ROOM),
    };
    let mut cell = loaded.unwrap_or_else(|error| panic!("{error}"));
    cell.configure(settings, of, Unclaimed::Pass, &[]).unwrap_or_else(|error| panic!("{error}"));
    cell
}

/// A frame as the machine behind `from` sends it.
pub(crate) fn machine(from: usize, number: usize, tags: &[u8], payload: &[u8]) -> Vec<u8> {
    let [own, peer] = [stations(number)[from], stations(number)[1 - from]];
    [&peer.0.0[..], &own.0.0, tags, &[0x88, 0x92], &own.1.0.to_be_bytes(), payload].concat()
}

/// One gateway, twice.
pub(crate) struct Gateway {
    pub(crate) rust: Relations,
    pub(crate) kernel: Cell,
}

/// Fate of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome<D> {
    /// It goes on, and like this.
    Sent(Vec<u8>),
    /// It is dropped, for a reason that is counted.
    Discarded(D),
    /// It is none of the kernel's.
    ForUserSpace,
}

pub(crate) struct World {
    pub(crate) gateways: [Gateway; 2],
    settings: Settings,
    pub(crate) protection: Protection,
    /// Number of sessions that each end has entered, by relation: a session's number is never another's.
    entered: [Vec<u32>; 2],
}

impl World {
    pub(crate) fn new(protection: Protection, relations: usize) -> Self {
        Self::with(protection, relations, |_| {})
    }

    pub(crate) fn with(protection: Protection, relations: usize, set: impl Fn(&mut Settings)) -> Self {
        let mut settings = Settings::new(protection, MTU);
        set(&mut settings);
        let gateways = [0, 1].map(|end| {
            let of: Vec<_> = (0..relations).map(|number| relation(end, number)).collect();
            let mut kernel = load(&settings, &of);
            kernel.set_ports(LOOPBACK, LOOPBACK).unwrap();
            Gateway { rust: Relations::new(settings, &of).unwrap(), kernel }
        });
        Self { gateways, settings, protection, entered: [0, 1].map(|_| vec![0; relations]) }
    }

    /// The cell of both ends is another one; `stays` are the relations that go on, by their numbers here and before.
    pub(crate) fn exchange(&mut self, relations: [&[RelationSettings]; 2], stays: &[(usize, usize)]) {
        for (Gateway { rust, kernel }, of) in self.gateways.iter_mut().zip(relations) {
            let mut before = std::mem::replace(rust, Relations::new(self.settings, of).unwrap());
            rust.take_over(&mut before, stays);
            kernel.configure(&self.settings, of, Unclaimed::Pass, stays).unwrap();
        }
        self.compare();
    }

    /// The key of an epoch of a session for what the station behind `from` sends.
    pub(crate) fn key(&self, number: usize, session: u32, from: usize, epoch: u64) -> EpochKey {
        let relation = relation(from, number).relation;
        let direction = KeyContext {
            stations: *relation.stations(),
            from_higher: relation.own().0 > relation.peer().0,
            nonces: [HandshakeNonce([session as u8; 16]), HandshakeNonce([99; 16])],
            protection: self.protection,
            epoch,
        };
        // The KeyID counts keys, over sessions too.
        let key_id = KeyId((session as u8).wrapping_mul(3).wrapping_add(epoch as u8));
        EpochKey { key_id, epoch, key: MasterKey::new(&[7; 32]).direction_key(&direction) }
    }

    /// The session that an end has entered `back` sessions ago.
    pub(crate) fn number(&self, end: usize, number: usize, back: u32) -> SessionNumber {
        SessionNumber(self.entered[end][number].saturating_sub(back))
    }

    /// A session for one end. `session` says which nonces it is made of, and both ends alike.
    pub(crate) fn session(&self, end: usize, number: usize, session: u32) -> Session {
        Session {
            number: self.number(end, number, 0),
            transmit: [0, 1].map(|epoch| self.key(number, session, end, epoch)),
            receive: [0, 1].map(|epoch| self.key(number, session, 1 - end, epoch)),
        }
    }

    /// Changes keys at one end. `make` is called twice, since a key has no copy.
    pub(crate) fn change(&mut self, end: usize, number: usize, make: impl Fn(&Self) -> KeyChange) {
        let (for_rust, for_kernel) = (make(self), make(self));
        drop(self.gateways[end].rust.change(number, for_rust));
        self.gateways[end].kernel.change(number, &for_kernel).unwrap();
        self.compare();
    }

    pub(crate) fn enter(&mut self, end: usize, number: usize, session: u32) {
        self.entered[end][number] += 1;
        self.change(end, number, |world| {
            KeyChange::Enter(LiveSession::new(world.session(end, number, session)))
        });
    }

    /// Enables the session that was entered `back` sessions ago; only the last one can be.
    pub(crate) fn enable(&mut self, end: usize, number: usize, back: u32) {
        self.change(end, number, |world| KeyChange::Enable(world.number(end, number, back)));
    }

    /// Both ends enter a session and use it.
    pub(crate) fn secure(&mut self, number: usize, session: u32) {
        (0..2).for_each(|end| self.enter(end, number, session));
        (0..2).for_each(|end| self.enable(end, number, 0));
    }

    /// A frame of the machine behind `from`, through both.
    pub(crate) fn protect(&mut self, from: usize, frame: &[u8]) -> Outcome<TransmitDiscard> {
        let gateway = &mut self.gateways[from];
        let ran = gateway.kernel.run_outward(frame, 1).unwrap();
        let outcome = match gateway.rust.find_outward(frame) {
            None => Outcome::ForUserSpace,
            Some(found) => {
                let mut chunk = chunk(frame);
                let mut burst =
                    [Outgoing::new(Frame::new(&mut chunk, HEADROOM, frame.len()).unwrap(), found)];
                gateway.rust.protect(&mut burst);
                let [outgoing] = burst;
                let octets = outgoing.frame().octets().to_vec();
                match outgoing.into_outcome() {
                    Ok(_) => Outcome::Sent(octets),
                    Err(discard) => Outcome::Discarded(discard),
                }
            }
        };
        agree(&outcome, &ran, frame);
        self.compare();
        outcome
    }

    /// A frame of the network, at `to`, through both.
    pub(crate) fn verify(&mut self, to: usize, frame: &[u8]) -> Outcome<ReceiveDiscard> {
        let gateway = &mut self.gateways[to];
        let ran = gateway.kernel.run_inward(frame, 1).unwrap();
        let outcome = match gateway.rust.find_inward(frame) {
            InwardFrame::Protected(found) => {
                let mut chunk = chunk(frame);
                let mut burst =
                    [Incoming::new(Frame::new(&mut chunk, HEADROOM, frame.len()).unwrap(), found)];
                gateway.rust.verify(Moment::after_start(Duration::from_secs(1)), &mut burst);
                let [incoming] = burst;
                let octets = incoming.frame().octets().to_vec();
                match incoming.into_outcome() {
                    Ok(_) => Outcome::Sent(octets),
                    Err(discard) => Outcome::Discarded(discard),
                }
            }
            _ => Outcome::ForUserSpace,
        };
        agree(&outcome, &ran, frame);
        self.compare();
        outcome
    }

    /// Whether both count, hold and tell the same.
    pub(crate) fn compare(&mut self) {
        for (end, Gateway { rust, kernel }) in self.gateways.iter_mut().enumerate() {
            let mut told = vec![Vec::new(); rust.count()];
            while let Some((number, event)) = rust.poll_event() {
                told[number].push(event);
            }
            for (number, told) in told.into_iter().enumerate() {
                let status = rust.status(number, Moment::after_start(Duration::from_secs(1)));
                let (sent, received) = kernel.counters(number).unwrap();
                assert_eq!(sent, status.transmit, "gateway {end}, relation {number}");
                assert_eq!(received, status.receive, "gateway {end}, relation {number}");
                assert_eq!(kernel.jitter(number).unwrap().count(), status.jitter.count());
                assert!(kernel.peek(number).unwrap().events.is_empty(), "told to who looks alone");
                let report = kernel.look(number).unwrap();
                assert_eq!(report.state, status.state, "gateway {end}, relation {number}");
                assert_eq!(report.transmit_key, status.transmit_key, "gateway {end}, relation {number}");
                assert_eq!(report.receive_key, status.receive_key, "gateway {end}, relation {number}");
                assert_eq!(report.silent.is_some(), status.silent.is_some());
                // `Event::Lost` comes after a second, which the programs tell by the clock; the test has no clock.
                let events: Vec<Event> =
                    report.events.into_iter().filter(|event| *event != Event::Lost).collect();
                assert_eq!(events, told, "gateway {end}, relation {number}");
            }
        }
    }
}

fn agree<D: std::fmt::Debug>(outcome: &Outcome<D>, ran: &xdp::Ran, given: &[u8]) {
    match outcome {
        Outcome::Sent(octets) => {
            assert_eq!(ran.verdict, Verdict::Redirect, "{outcome:?}");
            assert_eq!(&ran.frame, octets);
        }
        Outcome::Discarded(reason) => assert_eq!(ran.verdict, Verdict::Drop, "{reason:?}"),
        Outcome::ForUserSpace => {
            assert_eq!(ran.verdict, Verdict::Pass);
            assert_eq!(ran.frame, given, "what is user space's is left as it came");
        }
    }
}

fn chunk(frame: &[u8]) -> Vec<u8> {
    let mut chunk = vec![0xee; CHUNK];
    chunk[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
    chunk
}
