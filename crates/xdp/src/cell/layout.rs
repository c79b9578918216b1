//! The structures of `bpf/relation.h`, `bpf/change.h` and `bpf/cell.bpf.c`, octet by octet, in the machine's byte order.
//!
//! ```text
//!  settings   encrypts 4 | MTU 4 | end of an epoch 4 | EtherType 4 | rest 4 | aside 4
//!  machine    tag 4 | EtherType 4
//!  key        octets 32 | salt 8 | epoch 8 | KeyID 4 | is there 4 (in the relation: its serial)
//!  direction  key | next key | Seq 4 | ended 4
//!  session    number 4 | 0 4 | sent | received
//!  slot       id 8 | octets 8 | Poly1305 key 32 | keystream
//!  filling    place 4 | end 4 | made 4 | most 4
//!  command    what 4 | place 4 | session's number 4 | 0 4 | cycle 8 | alarm 8 | session
//! ```

use fieldbus::relation::FrameAddress;
use fieldbus::session::{EpochKey, SessionNumber};
use fieldbus::{
    Direction, Event, Histogram, KeyChange, KeyStatus, LiveSession, ReceiveCounters, RelationSettings,
    RelationState, Settings, TransmitCounters,
};
use std::time::Duration;
use suite::Secret;
use wire::EtherType;
use wire::fieldbus::{KeyId, Protect, Seq};

use crate::error::XdpError;
use crate::octets::{long, nanoseconds, put, word};

pub(super) const SETTINGS: usize = 24;
pub(super) const MACHINE: usize = 8;
pub(super) const ADDRESS: usize = 16;
const KEY: usize = 56;
const DIRECTION: usize = 2 * KEY + 8;
const SESSION: usize = 8 + 2 * DIRECTION;
const SESSION_IN_COMMAND: usize = 32;
const COLLECT: u32 = 4;
const LEAVE: u32 = 5;
const WATCH: u32 = 6;
const CYCLE_IN_COMMAND: usize = 16;
const ALARM_IN_COMMAND: usize = 24;
/// Numbers in the counters of a relation, and in a histogram.
pub(super) const SENT: usize = TransmitCounters::NAMES.len();
pub(super) const RECEIVED: usize = ReceiveCounters::NAMES.len();
pub(super) const HISTOGRAM: usize = 2 + Histogram::BUCKETS;
/// Octets of a command; a report stands at its beginning.
pub(super) const COMMAND: usize = SESSION_IN_COMMAND + SESSION;
/// Octets of a relation's state.
pub(super) const RELATION: usize = 112 + 2 * SESSION + 24;
/// Slots of one way of a relation, octets of each, and octets of a run of `fill`.
pub(super) const SLOTS: u32 = 8;
#[cfg(feature = "slots")]
pub(super) const SLOT: usize = 16 + 32 + 1472;
pub(super) const FILLING: usize = 16;
const CYCLE_IN_RELATION: usize = 24;
const ALARM_IN_RELATION: usize = 32;

/// Settings that all relations share. `rest`: the verdict on frames for user space that no socket takes. `aside`: all frames are.
pub(super) fn settings(settings: &Settings, rest: u32, aside: bool) -> [u8; SETTINGS] {
    let mut octets = [0; SETTINGS];
    let encrypts = u32::from(settings.protection.protect == Protect::Encrypt);
    put(&mut octets, 0, &encrypts.to_ne_bytes());
    put(&mut octets, 4, &(settings.mtu as u32).to_ne_bytes());
    put(&mut octets, 8, &settings.epoch_end.number().to_ne_bytes());
    put(&mut octets, 12, &as_read(settings.ethertype).to_ne_bytes());
    put(&mut octets, 16, &rest.to_ne_bytes());
    set_aside(&mut octets, aside);
    octets
}

/// Whether all frames are user space's.
pub(super) fn set_aside(settings: &mut [u8; SETTINGS], aside: bool) {
    put(settings, 20, &u32::from(aside).to_ne_bytes());
}

/// An EtherType as it is read from a frame.
fn as_read(ethertype: EtherType) -> u32 {
    u32::from(u16::from_ne_bytes(ethertype.0.to_be_bytes()))
}

/// EtherType of a relation's machines, and the tag of delivered frames.
pub(super) fn machine(settings: &Settings, of: &RelationSettings) -> [u8; MACHINE] {
    let mut octets = [0; MACHINE];
    let tag = of.relation.delivered_tag(settings.vlan).map_or([0; 4], |tag| tag.octets());
    put(&mut octets, 0, &tag);
    put(&mut octets, 4, &as_read(of.relation.protocol().ethertype()).to_ne_bytes());
    octets
}

/// The tables in which a relation's frames are found, and by what. HELLOs between its stations are not, unless frames go so too: they
/// are user space's.
pub(super) fn addresses(of: &RelationSettings) -> impl Iterator<Item = (&'static str, [u8; ADDRESS])> {
    let tables = [("outward_table", Direction::Outward), ("inward_table", Direction::Inward)];
    tables
        .into_iter()
        .filter_map(|(table, direction)| Some((table, address(of.relation.addresses(direction).frames?))))
}

fn address((destination, source, frame_id): FrameAddress) -> [u8; ADDRESS] {
    let mut octets = [0; ADDRESS];
    put(&mut octets, 0, &destination.0);
    put(&mut octets, 6, &source.0);
    put(&mut octets, 12, &frame_id.0.to_be_bytes());
    octets
}

/// A relation without keys.
pub(super) fn relation(of: &RelationSettings) -> [u8; RELATION] {
    let mut octets = [0; RELATION];
    put(&mut octets, CYCLE_IN_RELATION, &nanoseconds(of.relation.cycle).to_ne_bytes());
    put(&mut octets, ALARM_IN_RELATION, &nanoseconds(of.alarm).to_ne_bytes());
    octets
}

/// The question for a report, with or without news.
pub(super) fn question(place: u32, news: bool) -> [u8; COMMAND] {
    let mut octets = [0; COMMAND];
    put(&mut octets, 0, &u32::from(!news).to_ne_bytes());
    put(&mut octets, 4, &place.to_ne_bytes());
    octets
}

/// Other times for a relation's watch.
pub(super) fn watch(place: u32, of: &RelationSettings) -> [u8; COMMAND] {
    let mut octets = [0; COMMAND];
    put(&mut octets, 0, &WATCH.to_ne_bytes());
    put(&mut octets, 4, &place.to_ne_bytes());
    put(&mut octets, CYCLE_IN_COMMAND, &nanoseconds(of.relation.cycle).to_ne_bytes());
    put(&mut octets, ALARM_IN_COMMAND, &nanoseconds(of.alarm).to_ne_bytes());
    octets
}

/// A change that takes out what has ended.
pub(super) fn collect(place: u32) -> [u8; COMMAND] {
    let mut octets = [0; COMMAND];
    put(&mut octets, 0, &COLLECT.to_ne_bytes());
    put(&mut octets, 4, &place.to_ne_bytes());
    octets
}

/// A change of a relation's keys. On the heap, and wiped when it is dropped.
pub(super) fn command(place: u32, change: &KeyChange) -> Result<Secret, XdpError> {
    let mut command = Secret::zeros(COMMAND);
    let octets = command.octets_mut();
    let (what, number) = match change {
        KeyChange::Enter(session) => {
            put_session(&mut octets[SESSION_IN_COMMAND..], session)?;
            (0, session.number())
        }
        KeyChange::Enable(number) => (1, *number),
        KeyChange::NextTransmit(number, key) => {
            put_key(&mut octets[SESSION_IN_COMMAND + 8..], key)?;
            (2, *number)
        }
        KeyChange::NextReceive(number, key) => {
            put_key(&mut octets[SESSION_IN_COMMAND + 8..], key)?;
            (3, *number)
        }
        KeyChange::Collect => (COLLECT, SessionNumber(0)),
        KeyChange::Leave => (LEAVE, SessionNumber(0)),
    };
    put(octets, 0, &what.to_ne_bytes());
    put(octets, 4, &place.to_ne_bytes());
    put(octets, 8, &number.0.to_ne_bytes());
    Ok(command)
}

fn put_session(octets: &mut [u8], session: &LiveSession) -> Result<(), XdpError> {
    put(octets, 0, &session.number().0.to_ne_bytes());
    // The first Seq to be sent; none was verified.
    for (direction, ((key, next), seq)) in session.keys().into_iter().zip([1_u32, 0]).enumerate() {
        let octets = &mut octets[8 + direction * DIRECTION..];
        put_key(octets, key)?;
        if let Some(next) = next {
            put_key(&mut octets[KEY..], next)?;
        }
        put(octets, 2 * KEY, &seq.to_ne_bytes());
    }
    Ok(())
}

fn put_key(octets: &mut [u8], key: &EpochKey) -> Result<(), XdpError> {
    let (secret, salt) = key.key.for_kernel().ok_or(XdpError::Malformed)?;
    put(octets, 0, secret);
    put(octets, 32, salt);
    put(octets, 40, &key.epoch.to_ne_bytes());
    put(octets, 48, &u32::from(key.key_id.0).to_ne_bytes());
    put(octets, 52, &1_u32.to_ne_bytes());
    Ok(())
}

/// A relation at one moment.
#[derive(Debug)]
pub struct Report {
    /// Events for control since the last report.
    pub events: Vec<Event>,
    /// Whether its frames can pass.
    pub state: RelationState,
    /// The key that protects.
    pub transmit_key: Option<KeyStatus>,
    /// The key of the newest verified frame.
    pub receive_key: Option<KeyStatus>,
    /// Time since the last verified frame, on the kernel's clock; none before the first.
    pub silent: Option<Duration>,
    /// The longest time between two verified frames.
    pub worst_gap: Duration,
}

pub(super) fn report(octets: &[u8; COMMAND]) -> Report {
    let flags = word(octets, 0);
    let session = |at| SessionNumber(word(octets, at));
    let events = [
        (1, Event::SessionVerified(session(4))),
        (2, Event::TransmitEpoch(session(8), long(octets, 16))),
        (4, Event::ReceiveEpoch(session(12), long(octets, 24))),
        (8, Event::Alarm(Duration::from_nanos(long(octets, 32)))),
        (16, Event::Lost),
    ];
    let (now, last) = (long(octets, 88), long(octets, 96));
    Report {
        events: events.into_iter().filter(|(flag, _)| flags & flag != 0).map(|(_, event)| event).collect(),
        transmit_key: key_status(octets, 40),
        receive_key: key_status(octets, 64),
        silent: (last != 0).then(|| Duration::from_nanos(now.saturating_sub(last))),
        worst_gap: Duration::from_nanos(long(octets, 104)),
        state: match word(octets, 112) {
            0 => RelationState::NoSession,
            1 => RelationState::Entered,
            _ => RelationState::Running,
        },
    }
}

fn key_status(octets: &[u8], at: usize) -> Option<KeyStatus> {
    (word(octets, at + 20) != 0).then(|| KeyStatus {
        epoch: long(octets, at),
        session: SessionNumber(word(octets, at + 8)),
        key_id: KeyId(word(octets, at + 12) as u8),
        seq: Seq::new(word(octets, at + 16)),
    })
}

/// A run of `fill`, for places from `place` to `end`.
pub(super) fn filling(place: u32, end: u32) -> [u8; FILLING] {
    let mut octets = [0; FILLING];
    put(&mut octets, 0, &place.to_ne_bytes());
    put(&mut octets, 4, &end.to_ne_bytes());
    octets
}

/// The place that it has come to, the slots that it has made, and the most that one way of a place lacked.
pub(super) fn filled(octets: &[u8; FILLING]) -> [u32; 3] {
    [word(octets, 0), word(octets, 8), word(octets, 12)]
}
