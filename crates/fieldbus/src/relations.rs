//! The data path of a cell: all of its relations, their keys, counters and watches.
//!
//! ```text
//!  plain side     ── find_outward ──▶ protect ──▶ protected side          change ◀── control
//!  protected side ── find_inward  ──▶ verify  ──▶ plain side              poll_event ──▶
//! ```
//!
//! One owner, no clock, no allocation after it was made. A frame's work does not depend on the number of relations.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use wire::EtherType;
use wire::ethernet::{self, HEADER_OCTETS, VLAN_TAG_OCTETS};
use wire::fieldbus::{FRAME_ID_OCTETS, FrameId, Header};

use crate::keys::{KeyChange, TakenOut};
use crate::member::{Clear, Member, Payload, RelationStatus, Twins};
use crate::moment::Moment;
use crate::news::{Event, NewsList};
use crate::settings::{Mode, RelationSettings, Settings};
use crate::table::{Address, Table};

/// How long frames of unknown keys are counted beside verified ones before another session is asked for; then again.
const LOST: Duration = Duration::from_secs(1);
/// Relations that are looked at in one call of [`Relations::look_for_silence`].
const LOOKS: usize = 32;
/// Frames of a burst that go through all passes together. What they need, a dozen cache lines each, is still in the nearest cache
/// when the last pass begins; that of a whole burst is not.
pub(crate) const GROUP: usize = 8;
/// Frames in clear whose twins are waited for in shadow mode: as many as a burst holds.
const CLEAR_AHEAD: u8 = Twins::MOST as u8;

/// A frame's direction through this gateway.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// From the machine to the network.
    Outward,
    /// From the network to the machine.
    Inward,
}

/// The relation that a frame belongs to. Made by [`Relations::find_outward`] and [`Relations::find_inward`] alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    relation: u16,
    vlan_tags: u8,
    mode: Mode,
}

impl Found {
    /// The relation's number.
    pub const fn relation(&self) -> usize {
        self.relation as usize
    }

    /// Whether it has to be protected.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) const fn vlan_tags(&self) -> usize {
        self.vlan_tags as usize
    }
}

/// What a frame from the protected side is to a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inward {
    /// Nothing.
    Rest,
    /// A relation's, to be verified.
    Protected(Found),
    /// A HELLO of a relation, for the handshake.
    Hello(Found),
    /// It looks like a relation's, in clear. Only [`Relations::pass_clear`] lets it pass.
    Clear(Found),
    /// It has the cell's EtherType and is not the cell's.
    Foreign(Foreign),
}

/// Why a frame of the cell's EtherType is none of its frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Foreign {
    /// It ends before FrameID, KeyID and Seq are whole.
    TooShort,
    /// No relation has these addresses and this FrameID in this direction.
    UnknownRelation,
    /// Two VLAN tags stand in front of it.
    TooManyTags,
}

/// Proof that a frame may pass in clear: its relation is in shadow mode. Only [`Relations::pass_clear`] makes one.
#[derive(PartialEq, Eq, Debug)]
pub struct InClear(());

/// Why there is no such cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelationsError {
    /// More than [`Relations::MOST`].
    TooMany,
    /// Two relations, by their numbers, have the same addresses and FrameID in one direction.
    Same(usize, usize),
    /// No table of these addresses can be made: they were chosen for that.
    NoTable,
}

/// All relations of a cell.
pub struct Relations {
    settings: Settings,
    outward: Table,
    inward: Table,
    members: Box<[Box<Member>]>,
    /// Those of the members, apart: who looks a frame up needs nothing else of them.
    modes: Box<[Mode]>,
    news: NewsList,
    /// The relation that is looked at next for silence.
    look_at: usize,
    watched: bool,
}

impl Relations {
    /// The most relations of a cell.
    pub const MOST: usize = 4096;

    /// A cell whose relations have the numbers of their places in `relations`. No frame passes before there are keys.
    ///
    /// # Errors
    /// If frames could not be told apart.
    pub fn new(settings: Settings, relations: &[RelationSettings]) -> Result<Self, RelationsError> {
        if relations.len() > Self::MOST {
            return Err(RelationsError::TooMany);
        }
        let addresses = |way: Way| {
            relations.iter().map(move |of| {
                let ((own, sends), (peer, receives)) = (of.relation.own(), of.relation.peer());
                match way {
                    Way::Outward => Address::new(peer, own, sends),
                    Way::Inward => Address::new(own, peer, receives),
                }
            })
        };
        for way in [Way::Outward, Way::Inward] {
            let mut sorted: Vec<(Address, usize)> = addresses(way).zip(0..).collect();
            sorted.sort_unstable();
            if let Some(same) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(RelationsError::Same(same[0].1, same[1].1));
            }
        }
        Ok(Self {
            settings,
            outward: Table::new(addresses(Way::Outward)).ok_or(RelationsError::NoTable)?,
            inward: Table::new(addresses(Way::Inward)).ok_or(RelationsError::NoTable)?,
            modes: relations.iter().map(|of| of.mode).collect(),
            members: relations.iter().map(|of| Box::new(Member::new(&settings, of))).collect(),
            news: NewsList::with_room(relations.len()),
            look_at: 0,
            watched: false,
        })
    }

    /// What they have in common.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.members.len()
    }

    /// The relation whose local station sent this frame, which is PROFINET RT. Reads a header and a bucket of a table.
    pub fn find_outward(&self, frame: &[u8]) -> Option<Found> {
        let header = ethernet::Header::parse(frame).ok()?;
        if header.ethertype != EtherType::PROFINET {
            return None;
        }
        self.find(&self.outward, frame, &header, frame_id(frame, &header)?)
    }

    /// What a frame from the protected side is. Reads a header and a bucket of a table.
    pub fn find_inward(&self, frame: &[u8]) -> Inward {
        let Ok(header) = ethernet::Header::parse(frame) else { return Inward::Rest };
        if header.ethertype == EtherType::PROFINET && header.ethertype != self.settings.ethertype {
            let found = frame_id(frame, &header).and_then(|id| self.find(&self.inward, frame, &header, id));
            return found.map_or(Inward::Rest, Inward::Clear);
        }
        if header.ethertype != self.settings.ethertype {
            return Inward::Rest;
        }
        let Ok(says) = Header::parse(&frame[header.octets()..]) else {
            return Inward::Foreign(Foreign::TooShort);
        };
        match self.find(&self.inward, frame, &header, says.frame_id) {
            None => Inward::Foreign(Foreign::UnknownRelation),
            Some(found) if found.vlan_tags > 1 => Inward::Foreign(Foreign::TooManyTags),
            Some(found) if says.seq.is_none() => Inward::Hello(found),
            Some(found) => Inward::Protected(found),
        }
    }

    /// Whether a frame that came to the machine by another way is cyclic data of a relation that has to be protected: such
    /// frames come by their relation alone. Reads a header and a bucket of a table.
    pub fn is_kept_for_relation(&self, frame: &[u8]) -> bool {
        let Ok(header) = ethernet::Header::parse(frame) else { return false };
        header.ethertype == EtherType::PROFINET
            && frame_id(frame, &header)
                .and_then(|id| self.find(&self.inward, frame, &header, id))
                .is_some_and(|found| found.mode == Mode::Protect)
    }

    /// Whether a verified frame has come in any relation, so that its silence would mean something.
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
    ) -> Option<Found> {
        let relation = table.find(Address::of(frame.first_chunk()?, frame_id))?;
        let mode = self.modes[relation];
        Some(Found { relation: relation as u16, vlan_tags: header.vlan_tags as u8, mode })
    }

    /// Counts `frame`, which is in clear, and lets it pass if its relation is in shadow mode. On the way in there its payload is
    /// hashed.
    pub fn pass_clear(&mut self, found: Found, way: Way, frame: &[u8]) -> Option<InClear> {
        // It is protected instead, and counted there.
        if let (Mode::Protect, Way::Outward) = (found.mode, way) {
            return None;
        }
        let Member { settings, sent, received, clear_ahead, twins, .. } =
            &mut *self.members[found.relation()];
        if way == Way::Outward {
            sent.out_pkts_clear += u64::from(settings.mode == Mode::Shadow);
            return (settings.mode == Mode::Shadow).then_some(InClear(()));
        }
        let clear = match settings.mode {
            Mode::Shadow => Clear::Delivered,
            Mode::Protect => Clear::Refused,
        };
        *clear_ahead = (*clear_ahead + 1).min(CLEAR_AHEAD);
        let front = HEADER_OCTETS + found.vlan_tags() * VLAN_TAG_OCTETS + FRAME_ID_OCTETS;
        if let Some(payload) = frame.get(front..) {
            twins.await_twin(Payload::of(payload), clear);
        }
        if clear == Clear::Refused {
            received.in_pkts_clear_refused += 1;
            return None;
        }
        received.in_pkts_clear += 1;
        Some(InClear(()))
    }

    /// How long a frame was here, once that is known.
    pub fn left_after(&mut self, relation: usize, way: Way, residence: Duration) {
        self.members[relation].residence[way as usize].add(residence);
    }

    /// Changes keys of a relation. Moves some hundred octets.
    pub fn change(&mut self, relation: usize, change: KeyChange) -> TakenOut {
        self.members[relation].keys.change(change)
    }

    /// The next thing that control has to know, and of which relation.
    pub fn poll_event(&mut self) -> Option<(usize, Event)> {
        while let Some(number) = self.news.front() {
            let member = &mut self.members[number];
            if let Some(event) = member.news.take() {
                return Some((number, event));
            }
            self.news.done(member);
        }
        None
    }

    /// Whether there may be something that control has to know.
    pub fn has_events(&self) -> bool {
        self.news.front().is_some()
    }

    /// Looks whether frames of some relations have stopped; true when all have been looked at since it was true last. At
    /// most 32 relations a call.
    pub fn look_for_silence(&mut self, now: Moment) -> bool {
        let end = self.count().min(self.look_at + LOOKS);
        for number in self.look_at..end {
            let member = &mut self.members[number];
            if let Some(gap) = member.watch.look(now) {
                member.received.in_alarms += 1;
                self.news.alarm(member, number, gap);
            }
            let judged = member.unknown.take_if(|unknown| now.since(unknown.since) >= LOST);
            if judged.is_some_and(|unknown| unknown.frames > unknown.verified) {
                self.news.lost(member, number);
            }
        }
        self.look_at = if end == self.count() { 0 } else { end };
        self.look_at == 0
    }

    /// The state of a relation.
    pub fn status(&self, relation: usize, now: Moment) -> RelationStatus {
        self.members[relation].status(now)
    }

    /// Takes relations over, whose stations, FrameIDs and protection are the same: (own number, number there). They go on with their keys,
    /// counters and watches, under the settings that they have here. Moves a pointer and some hundred octets for each.
    pub fn take_over(&mut self, predecessor: &mut Self, goes_on: &[(usize, usize)]) {
        for &(number, before) in goes_on {
            let (own, there) = (&mut self.members[number], &mut predecessor.members[before]);
            core::mem::swap(own, there);
            core::mem::swap(&mut own.settings, &mut there.settings);
            core::mem::swap(&mut own.outward, &mut there.outward);
            core::mem::swap(&mut own.delivered, &mut there.delivered);
            own.watch.set_alarm(own.settings.alarm);
            self.news.adopt(own, number);
        }
        self.watched |= predecessor.watched;
    }

    /// Reads what the frames of a group need, before anything is done with the first of them.
    pub(crate) fn touch(&self, way: Way, burst: impl Iterator<Item = Found>) {
        core::hint::black_box(burst.fold(0, |sum, found| sum ^ self.members[found.relation()].touch(way)));
    }

    pub(crate) const fn watch(&mut self) {
        self.watched = true;
    }

    pub(crate) fn member_mut(&mut self, number: usize) -> (&Settings, &mut Member, &mut NewsList) {
        (&self.settings, &mut self.members[number], &mut self.news)
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
