//! Data path of a cell: all of its relations, with their keys, counters and gap monitors.
//!
//! ```text
//!  plain side     ── find_outward ──▶ protect ──▶ protected side          change ◀── control
//!  protected side ── find_inward  ──▶ verify  ──▶ plain side              poll_event ──▶
//! ```
//!
//! One owner, no clock, no allocation after creation. A frame's work does not depend on the number of
//! relations.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use wire::EtherType;
use wire::ethernet::{self, HEADER_OCTETS, VLAN_TAG_OCTETS};
use wire::fieldbus::{FRAME_ID_OCTETS, FrameId, Header};

use crate::direction::Direction;
use crate::events::{Event, EventQueue};
use crate::keys::{KeyChange, RetiredKeys};
use crate::member::{ClearOutcome, Member, PayloadHash, PendingTwins, RelationStatus};
use crate::moment::Moment;
use crate::settings::{Mode, RelationSettings, Settings};
use crate::table::{Address, Table};

/// Interval of the comparison between frames of unknown keys and verified ones.
const LOST: Duration = Duration::from_secs(1);
/// Relations checked in one call of [`Relations::handle_timeout`].
const CHECKS_PER_CALL: usize = 32;
/// Frames of a burst that go through all passes together. Their dozen cache lines each are still in the
/// nearest cache at the last pass; those of a whole burst are not.
pub(crate) const GROUP: usize = 8;
/// Most frames in clear whose twins are awaited in shadow mode: as many as a burst holds.
const CLEAR_AHEAD: u8 = PendingTwins::MAX as u8;

/// The relation of a frame. Only [`Relations::find_outward`] and [`Relations::find_inward`] make one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelationMatch {
    relation: u16,
    vlan_tags: u8,
    mode: Mode,
}

impl RelationMatch {
    /// The relation's number.
    pub const fn relation(&self) -> usize {
        self.relation as usize
    }

    /// Whether it must be protected.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) const fn vlan_tags(&self) -> usize {
        self.vlan_tags as usize
    }
}

/// Class of a frame from the protected side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InwardFrame {
    /// None of the cell's.
    Other,
    /// A relation's frame, to be verified.
    Protected(RelationMatch),
    /// A HELLO of a relation, for the handshake.
    Hello(RelationMatch),
    /// Looks like a relation's frame in clear. Only [`Relations::pass_clear`] lets it pass.
    Clear(RelationMatch),
    /// Has the cell's EtherType, but is not the cell's.
    Foreign(Foreign),
}

/// Reason why a frame with the cell's EtherType is not the cell's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Foreign {
    /// Ends inside FrameID, KeyID and Seq.
    TooShort,
    /// No relation has these addresses and this FrameID in this direction.
    UnknownRelation,
    /// Two VLAN tags precede it.
    TooManyTags,
}

/// Proof that a frame may pass in clear: its relation is in shadow mode. Only [`Relations::pass_clear`] makes
/// one.
#[derive(PartialEq, Eq, Debug)]
pub struct ClearPermit(());

/// Reason why a cell cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelationsError {
    /// More than [`Relations::MAX`].
    TooMany,
    /// Two relations, by their numbers, have the same addresses and FrameID in one direction.
    Same(usize, usize),
    /// No table for these addresses: somebody chose them for that.
    NoTable,
}

/// All relations of a cell.
pub struct Relations {
    settings: Settings,
    outward: Table,
    inward: Table,
    members: Box<[Box<Member>]>,
    /// Copy of the members' modes: a look-up needs nothing else of them.
    modes: Box<[Mode]>,
    events: EventQueue,
    /// Next relation to be checked for silence.
    check_at: usize,
    watched: bool,
}

impl Relations {
    /// Most relations of a cell.
    pub const MAX: usize = 4096;

    /// A cell whose relations are numbered by their index in `relations`. No frame passes before there are
    /// keys.
    ///
    /// # Errors
    /// If frames could not be told apart.
    pub fn new(settings: Settings, relations: &[RelationSettings]) -> Result<Self, RelationsError> {
        if relations.len() > Self::MAX {
            return Err(RelationsError::TooMany);
        }
        let addresses = |direction: Direction| {
            relations.iter().map(move |of| {
                let ((own, sends), (peer, receives)) = (of.relation.own(), of.relation.peer());
                match direction {
                    Direction::Outward => Address::new(peer, own, sends),
                    Direction::Inward => Address::new(own, peer, receives),
                }
            })
        };
        for direction in [Direction::Outward, Direction::Inward] {
            let mut sorted: Vec<(Address, usize)> = addresses(direction).zip(0..).collect();
            sorted.sort_unstable();
            if let Some(same) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(RelationsError::Same(same[0].1, same[1].1));
            }
        }
        Ok(Self {
            settings,
            outward: Table::new(addresses(Direction::Outward)).ok_or(RelationsError::NoTable)?,
            inward: Table::new(addresses(Direction::Inward)).ok_or(RelationsError::NoTable)?,
            modes: relations.iter().map(|of| of.mode).collect(),
            members: relations.iter().map(|of| Box::new(Member::new(&settings, of))).collect(),
            events: EventQueue::with_room(relations.len()),
            check_at: 0,
            watched: false,
        })
    }

    /// Common settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Number of relations.
    pub const fn count(&self) -> usize {
        self.members.len()
    }

    /// Relation whose local station sent this PROFINET RT frame. Reads a header and a bucket of a table.
    pub fn find_outward(&self, frame: &[u8]) -> Option<RelationMatch> {
        let header = ethernet::Header::parse(frame).ok()?;
        if header.ethertype != EtherType::PROFINET {
            return None;
        }
        self.find(&self.outward, frame, &header, frame_id(frame, &header)?)
    }

    /// Class of a frame from the protected side. Reads a header and a bucket of a table.
    pub fn find_inward(&self, frame: &[u8]) -> InwardFrame {
        let Ok(header) = ethernet::Header::parse(frame) else { return InwardFrame::Other };
        if header.ethertype == EtherType::PROFINET && header.ethertype != self.settings.ethertype {
            let found = frame_id(frame, &header).and_then(|id| self.find(&self.inward, frame, &header, id));
            return found.map_or(InwardFrame::Other, InwardFrame::Clear);
        }
        if header.ethertype != self.settings.ethertype {
            return InwardFrame::Other;
        }
        let Ok(says) = Header::parse(&frame[header.octets()..]) else {
            return InwardFrame::Foreign(Foreign::TooShort);
        };
        match self.find(&self.inward, frame, &header, says.frame_id) {
            None => InwardFrame::Foreign(Foreign::UnknownRelation),
            Some(found) if found.vlan_tags > 1 => InwardFrame::Foreign(Foreign::TooManyTags),
            Some(found) if says.seq.is_none() => InwardFrame::Hello(found),
            Some(found) => InwardFrame::Protected(found),
        }
    }

    /// True if a frame that reached the machine's side by another way is cyclic data of a protected relation:
    /// such frames must come through their relation. Reads a header and a bucket of a table.
    pub fn is_kept_for_relation(&self, frame: &[u8]) -> bool {
        let Ok(header) = ethernet::Header::parse(frame) else { return false };
        header.ethertype == EtherType::PROFINET
            && frame_id(frame, &header)
                .and_then(|id| self.find(&self.inward, frame, &header, id))
                .is_some_and(|found| found.mode == Mode::Protect)
    }

    /// True after a verified frame of any relation: before that, silence means nothing.
    pub const fn is_watched(&self) -> bool {
        self.watched
    }

    #[inline]
    fn find(
        &self,
        table: &Table,
        frame: &[u8],
        header: &ethernet::Header,
        frame_id: FrameId,
    ) -> Option<RelationMatch> {
        let relation = table.find(Address::of(frame.first_chunk()?, frame_id))?;
        let mode = self.modes[relation];
        Some(RelationMatch { relation: relation as u16, vlan_tags: header.vlan_tags as u8, mode })
    }

    /// Counts a frame in clear, and lets it pass if its relation is in shadow mode. Hashes the payload of
    /// received frames.
    pub fn pass_clear(
        &mut self,
        found: RelationMatch,
        direction: Direction,
        frame: &[u8],
    ) -> Option<ClearPermit> {
        // It is protected instead, and counted there.
        if let (Mode::Protect, Direction::Outward) = (found.mode, direction) {
            return None;
        }
        let Member { settings, sent, received, clear_ahead, twins, .. } =
            &mut *self.members[found.relation()];
        if direction == Direction::Outward {
            sent.out_pkts_clear += u64::from(settings.mode == Mode::Shadow);
            return (settings.mode == Mode::Shadow).then_some(ClearPermit(()));
        }
        let clear = match settings.mode {
            Mode::Shadow => ClearOutcome::Delivered,
            Mode::Protect => ClearOutcome::Refused,
        };
        *clear_ahead = (*clear_ahead + 1).min(CLEAR_AHEAD);
        let front = HEADER_OCTETS + found.vlan_tags() * VLAN_TAG_OCTETS + FRAME_ID_OCTETS;
        if let Some(payload) = frame.get(front..) {
            twins.await_twin(PayloadHash::of(payload), clear);
        }
        if clear == ClearOutcome::Refused {
            received.in_pkts_clear_refused += 1;
            return None;
        }
        received.in_pkts_clear += 1;
        Some(ClearPermit(()))
    }

    /// Records the residence time of a frame.
    pub fn record_residence(&mut self, relation: usize, direction: Direction, residence: Duration) {
        self.members[relation].residence[direction as usize].add(residence);
    }

    /// Changes keys of a relation. Moves some hundred octets.
    pub fn change(&mut self, relation: usize, change: KeyChange) -> RetiredKeys {
        self.members[relation].keys.change(change)
    }

    /// Next event for control, with its relation.
    pub fn poll_event(&mut self) -> Option<(usize, Event)> {
        while let Some(number) = self.events.front() {
            let member = &mut self.members[number];
            if let Some(event) = member.events.take() {
                return Some((number, event));
            }
            self.events.done(&mut member.events);
        }
        None
    }

    /// True if there may be an event.
    pub fn has_events(&self) -> bool {
        self.events.front().is_some()
    }

    /// Checks relations for silence, at most 32 a call. True when all have been checked since the last true.
    pub fn handle_timeout(&mut self, now: Moment) -> bool {
        let end = self.count().min(self.check_at + CHECKS_PER_CALL);
        for number in self.check_at..end {
            let member = &mut self.members[number];
            if let Some(gap) = member.gap_monitor.check(now) {
                member.received.in_alarms += 1;
                self.events.alarm(&mut member.events, number, gap);
            }
            let expired = member.unknown.take_if(|unknown| now.since(unknown.since) >= LOST);
            if expired.is_some_and(|unknown| unknown.frames > unknown.verified) {
                self.events.lost(&mut member.events, number);
            }
        }
        self.check_at = if end == self.count() { 0 } else { end };
        self.check_at == 0
    }

    /// The state of a relation.
    pub fn status(&self, relation: usize, now: Moment) -> RelationStatus {
        self.members[relation].status(now)
    }

    /// Takes over relations with the same stations, FrameIDs and protection: (own number, number there). They
    /// keep their keys, counters and gap monitors, under this cell's settings. Moves a pointer and some
    /// hundred octets for each.
    pub fn take_over(&mut self, predecessor: &mut Self, carried_over: &[(usize, usize)]) {
        for &(number, before) in carried_over {
            let (own, there) = (&mut self.members[number], &mut predecessor.members[before]);
            core::mem::swap(own, there);
            core::mem::swap(&mut own.settings, &mut there.settings);
            core::mem::swap(&mut own.outward, &mut there.outward);
            core::mem::swap(&mut own.delivered, &mut there.delivered);
            own.gap_monitor.set_alarm(own.settings.alarm);
            self.events.adopt(&mut own.events, number);
        }
        self.watched |= predecessor.watched;
    }

    /// Reads the cache lines that the frames of a group need, before the work on the first of them.
    pub(crate) fn prefetch(&self, direction: Direction, burst: impl Iterator<Item = RelationMatch>) {
        core::hint::black_box(
            burst.fold(0, |sum, found| sum ^ self.members[found.relation()].prefetch(direction)),
        );
    }

    pub(crate) const fn note_watched(&mut self) {
        self.watched = true;
    }

    pub(crate) const fn member(&self, number: usize) -> &Member {
        &self.members[number]
    }

    pub(crate) fn member_mut(&mut self, number: usize) -> (&Settings, &mut Member, &mut EventQueue) {
        (&self.settings, &mut self.members[number], &mut self.events)
    }
}

impl core::fmt::Debug for Relations {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Relations")
            .field("settings", &self.settings)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// The FrameID, which stands behind the EtherType.
fn frame_id(frame: &[u8], header: &ethernet::Header) -> Option<FrameId> {
    let octets = frame.get(header.octets()..)?.first_chunk()?;
    Some(FrameId(u16::from_be_bytes(*octets)))
}
