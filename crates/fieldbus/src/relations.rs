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

use arrayvec::ArrayVec;
use wire::EtherType;
use wire::ethernet::{self, HEADER_OCTETS, VLAN_TAG_OCTETS};
use wire::fieldbus::{FrameId, Header, Protocol};

use crate::direction::Direction;
use crate::events::{Event, EventQueue};
use crate::keys::{KeyChange, RetiredKeys};
use crate::member::{ClearOutcome, Member, PayloadHash, PendingTwins, RelationStatus};
use crate::moment::Moment;
use crate::relation::FrameAddress;
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
    /// Octets between the machine's EtherType and the payload.
    identification: u8,
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

    /// Octets in front of the payload of a machine's frame.
    pub(crate) const fn front_octets(&self) -> usize {
        HEADER_OCTETS + self.vlan_tags() * VLAN_TAG_OCTETS + self.identification as usize
    }
}

/// Parts of a relation that a look-up needs.
#[derive(Clone, Copy, Debug)]
struct Known {
    mode: Mode,
    protocol: Protocol,
    /// Octets in front of the payload, behind the machine's EtherType.
    identification: u8,
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
    /// Two relations, by their numbers, have the same addresses and FrameID in one direction. Protected frames have the same EtherType,
    /// whatever the protocol.
    Same(usize, usize),
    /// No table for these addresses: somebody chose them for that.
    NoTable,
}

/// All relations of a cell.
pub struct Relations {
    settings: Settings,
    outward: Table,
    inward: Table,
    /// Relations by the addresses of their HELLOs, where these are not those of their frames.
    hellos: Table,
    members: Box<[Box<Member>]>,
    /// Parts of the members: a look-up needs nothing else of them.
    known: Box<[Known]>,
    /// Protocols of the relations, each once.
    protocols: ArrayVec<(EtherType, Protocol), { Protocol::ALL.len() }>,
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
        let numbered = |(address, number): (Option<FrameAddress>, usize)| {
            let (destination, source, id) = address?;
            Some((Address::new(destination, source, id), number))
        };
        let frames = |direction: Direction| {
            let of_all = relations.iter().map(move |of| of.relation.addresses(direction).frames);
            of_all.zip(0..).filter_map(numbered)
        };
        // Between the stations themselves, each way. Where frames go so too, they are found as frames.
        let hellos = |direction: Direction| {
            let of_all = relations.iter().map(move |of| of.relation.addresses(direction).hellos_alone());
            of_all.zip(0..).filter_map(numbered)
        };
        for direction in [Direction::Outward, Direction::Inward] {
            let mut sorted: Vec<(Address, usize)> = frames(direction).chain(hellos(direction)).collect();
            sorted.sort_unstable();
            if let Some(same) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(RelationsError::Same(same[0].1, same[1].1));
            }
        }
        let mut protocols: ArrayVec<(EtherType, Protocol), { Protocol::ALL.len() }> = ArrayVec::new();
        for protocol in relations.iter().map(|of| of.relation.protocol()) {
            if !protocols.iter().any(|(_, known)| *known == protocol) {
                protocols.push((protocol.ethertype(), protocol));
            }
        }
        let known = |of: &RelationSettings| {
            let protocol = of.relation.protocol();
            Known { mode: of.mode, protocol, identification: protocol.identification_octets() as u8 }
        };
        Ok(Self {
            settings,
            outward: Table::new(frames(Direction::Outward)).ok_or(RelationsError::NoTable)?,
            inward: Table::new(frames(Direction::Inward)).ok_or(RelationsError::NoTable)?,
            hellos: Table::new(hellos(Direction::Inward)).ok_or(RelationsError::NoTable)?,
            known: relations.iter().map(known).collect(),
            protocols,
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

    /// Relation whose local station sent this frame. Reads a header and, for each protocol of that EtherType, a bucket of a table.
    pub fn find_outward(&self, frame: &[u8]) -> Option<RelationMatch> {
        let header = ethernet::Header::parse(frame).ok()?;
        self.find_clear(&self.outward, frame, &header)
    }

    /// Class of a frame from the protected side. Reads a header and a bucket or two of tables, or as much as
    /// [`Self::find_outward`].
    pub fn find_inward(&self, frame: &[u8]) -> InwardFrame {
        let Ok(header) = ethernet::Header::parse(frame) else { return InwardFrame::Other };
        if header.ethertype != self.settings.ethertype {
            return self
                .find_clear(&self.inward, frame, &header)
                .map_or(InwardFrame::Other, InwardFrame::Clear);
        }
        let Ok(says) = Header::parse(&frame[header.octets()..]) else {
            return InwardFrame::Foreign(Foreign::TooShort);
        };
        let found = self.find(&self.inward, frame, &header, says.frame_id, |_| true);
        // HELLOs of a group's relation go between its stations.
        let found = found.or_else(|| {
            if says.seq.is_some() {
                None
            } else {
                self.find(&self.hellos, frame, &header, says.frame_id, |_| true)
            }
        });
        match found {
            None => InwardFrame::Foreign(Foreign::UnknownRelation),
            Some(found) if found.vlan_tags > 1 => InwardFrame::Foreign(Foreign::TooManyTags),
            Some(found) if says.seq.is_none() => InwardFrame::Hello(found),
            Some(found) => InwardFrame::Protected(found),
        }
    }

    /// True if a frame that reached the machine's side by another way is cyclic data of a protected relation:
    /// such frames must come through their relation. Reads as much as [`Self::find_outward`].
    pub fn is_kept_for_relation(&self, frame: &[u8]) -> bool {
        let Ok(header) = ethernet::Header::parse(frame) else { return false };
        self.find_clear(&self.inward, frame, &header).is_some_and(|found| found.mode == Mode::Protect)
    }

    /// True after a verified frame of any relation: before that, silence means nothing.
    pub const fn is_watched(&self) -> bool {
        self.watched
    }

    /// Relation of a machine's frame.
    #[inline]
    fn find_clear(&self, table: &Table, frame: &[u8], header: &ethernet::Header) -> Option<RelationMatch> {
        let body = frame.get(header.octets()..)?;
        for (ethertype, protocol) in &self.protocols {
            if header.ethertype != *ethertype {
                continue;
            }
            let id = match protocol.identification_octets() {
                0 => derived(*protocol, body),
                _ => body.first_chunk().map(|octets| FrameId(u16::from_be_bytes(*octets))),
            };
            let is_meant = |known: &Known| known.protocol == *protocol;
            let found = id.and_then(|id| self.find(table, frame, header, id, is_meant));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    #[inline]
    fn find(
        &self,
        table: &Table,
        frame: &[u8],
        header: &ethernet::Header,
        frame_id: FrameId,
        is_meant: impl FnOnce(&Known) -> bool,
    ) -> Option<RelationMatch> {
        let relation = table.find(Address::of(frame.first_chunk()?, frame_id))?;
        let known = &self.known[relation];
        is_meant(known).then_some(RelationMatch {
            relation: relation as u16,
            vlan_tags: header.vlan_tags as u8,
            identification: known.identification,
            mode: known.mode,
        })
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
        if let Some(payload) = frame.get(found.front_octets()..) {
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

    /// Takes over relations with the same identity ([`crate::relation::Relation::identity`]) and protection: (own number, number there). They
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

/// Identification that is not what stands first: rare, and apart, so that the others stay short.
#[cold]
#[inline(never)]
fn derived(protocol: Protocol, body: &[u8]) -> Option<FrameId> {
    protocol.identify(body)
}

impl core::fmt::Debug for Relations {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Relations")
            .field("settings", &self.settings)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
