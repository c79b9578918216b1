//! The other box of a site's LAN: beats, the gate, and what is told when this box takes over.
//!
//! ```text
//!  each turn: take_in ── beat ── gate? ── outward ── gate? ── inward ── gate? ── flush
//! ```
//!
//! [`tunnel::standby`] decides. Here its frames go out and come in, on the LAN itself: this is the path whose loops matter. The gate is asked
//! with a new reading of the clock before each burst, either way. So a worker that stood still lets at most the burst pass with which it
//! was busy.
//!
//! A box that takes over shows two kinds of others the way:
//! - the LAN's switches: a frame with the address of each station at other sites. The active box tells the standby these addresses in its
//!   beats.
//! - the other sites: frames of its own SecY, like any other: some at once ([`ANNOUNCEMENTS`]), and one each second as long as it
//!   forwards ([`ANNOUNCE`]). So whatever happened to them, or what came late from the box before, the sites send here a second later.

use std::hash::{BuildHasher, RandomState};
use std::time::{self, Duration};

use arrayvec::ArrayVec;
use suite::beat::BeatKey;
use tunnel::PeerId;
use tunnel::standby::{
    BEAT_ADDRESSES, BeatFrameKind, Cause, DRAIN, Election, Gate, Judged, Role, Timing, address_of,
    learn_frame,
};
use wire::{Instant, MacAddr, Sci};

use super::Site;
use super::counters::SitePathCounters;
use super::marking::{Mark, Marking};
use crate::link::Link;
use crate::pipeline::give_refused;
use netdev::burst::Burst;
use netdev::pool::Pool;

/// Addresses of stations that are remembered, and their places: twice as many, so that nearly each finds one of [`PROBES`].
const STATIONS: usize = 4096;
const PLACES: usize = 2 * STATIONS;
const PROBES: usize = 8;
/// Least age at which such an address is not shown any more.
const STATION_AGE: Duration = Duration::from_secs(10);
/// Beats in which the active box tells all of them ([`tunnel::Forwarding::stations_behind`]), and some more.
const ROUND: u32 = (STATIONS / BEAT_ADDRESSES + 128 + 16) as u32;
/// Frames for switches in one turn, and the pause between two such turns.
const SHOWN_A_TURN: usize = 32;
const SHOW_PAUSE: Duration = Duration::from_millis(1);
/// Times after a take-over at which the other sites are told. Packets of the box before may still be under way to them.
const ANNOUNCEMENTS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(200)];
/// Pause between two announcements later on.
const ANNOUNCE: Duration = Duration::from_secs(1);

/// Settings of a box that shares its LAN with another.
#[derive(Debug)]
pub struct StandbySettings {
    /// Key of the beats.
    pub key: BeatKey,
    /// The other box.
    pub partner: PeerId,
    /// Its times.
    pub timing: Timing,
    /// Whether it comes first.
    pub preferred: bool,
    /// Random, another one at each start.
    pub session: u64,
}

/// A box as one of two, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StandbySnapshot {
    /// Its role.
    pub role: Role,
    /// The cause of its role.
    pub cause: Cause,
    /// Since when it has that role.
    pub since: Instant,
    /// Number of times that it began to forward.
    pub takeovers: u64,
    /// Role of the partner in its last beat, and when that was heard.
    pub partner: Option<(Role, Instant)>,
    /// The partner's `takeover`, if it is another one.
    pub other_takeover: Option<Duration>,
}

/// The part of a site that knows of the other box.
pub(super) struct Standby {
    election: Election,
    key: BeatKey,
    /// The LAN's interface has a link, as far as the system says.
    has_link: bool,
    /// Of this turn: its time, and the OS instant that was read for it.
    now: Instant,
    read: time::Instant,
    /// Addresses that the active box told, by their hash, and when.
    told: Box<[Option<(MacAddr, Instant)>]>,
    /// Stations must not choose which of them share a place.
    hash: RandomState,
    /// T of the configuration.
    own_takeover: Duration,
    /// The slot of the stations' table from which the beat after the next one tells, and what the next one tells.
    tell_from: usize,
    next: ArrayVec<MacAddr, BEAT_ADDRESSES>,
    /// The take-over for which switches and sites were told, up to where, and when it goes on.
    takeover: u64,
    shown: usize,
    show_due: Instant,
    announce_due: Instant,
    leaving: Burst,
}

impl Standby {
    fn new(settings: StandbySettings) -> Self {
        let StandbySettings { key, timing, preferred, session, .. } = settings;
        let mut election = Election::new(timing, preferred, key.is_first(), session, Instant::START);
        // It has no port yet.
        election.set_link(Instant::START, false);
        Self {
            election,
            key,
            has_link: true,
            now: Instant::START,
            read: time::Instant::now(),
            told: vec![None; PLACES].into_boxed_slice(),
            hash: RandomState::new(),
            own_takeover: timing.takeover,
            tell_from: 0,
            next: ArrayVec::new(),
            takeover: 0,
            shown: PLACES,
            show_due: Instant::START,
            announce_due: Instant::START,
            leaving: Burst::new(),
        }
    }

    /// Frames that may pass at this very moment.
    pub(super) fn gate(&self) -> Gate {
        self.election.gate(self.now + self.read.elapsed())
    }

    pub(super) fn snapshot(&self) -> StandbySnapshot {
        let (role, cause, since) = self.election.role();
        let (takeovers, partner) = (self.election.takeovers(), self.election.partner());
        let other_takeover = self.election.other_takeover();
        StandbySnapshot { role, cause, since, takeovers, partner, other_takeover }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let due = self.election.poll_timeout()?;
        if self.election.role().0 != Role::Active {
            return Some(due);
        }
        let due = due.min(self.announce_due);
        Some(if self.shown < PLACES { due.min(self.show_due) } else { due })
    }

    /// There is a peer that may not have heard that this box forwards.
    pub(super) fn announce_again(&mut self, now: Instant) {
        self.announce_due = now;
    }

    /// Takes beats out of frames that came from the LAN; all others too if `was_closed` when they came, since no SecY has protected them,
    /// or if the gate is closed now.
    pub(super) fn take_in(
        &mut self,
        was_closed: bool,
        pool: &mut Pool,
        frames: &mut Burst,
        sci: Sci,
        counters: &mut SitePathCounters,
    ) {
        let mut others = Burst::new();
        for slot in frames.drain() {
            match BeatFrameKind::of(pool.frame(&slot), &self.key) {
                BeatFrameKind::Other => {
                    give_refused(others.push(slot), pool);
                    continue;
                }
                BeatFrameKind::Learn => {}
                BeatFrameKind::Bad => counters.in_beats_bad += 1,
                BeatFrameKind::Beat(beat, partner, addresses) => {
                    // This thread may have stood still since the turn began: the beat is no older than it seems.
                    let now = self.now + self.read.elapsed();
                    match self.election.hear(now, beat) {
                        Judged::Taken => {
                            counters.in_beats += 1;
                            if partner == sci {
                                self.election.refuse(now);
                            }
                            addresses.iter().for_each(|address| self.remember(now, *address));
                        }
                        Judged::Unproved => counters.in_beats_unproved += 1,
                    }
                }
            }
            pool.give(slot);
        }
        if was_closed || self.gate() == Gate::Closed {
            counters.out_pkts_standby += others.len() as u64;
            others.give_all(pool);
        }
        std::mem::swap(frames, &mut others);
    }

    /// T of both: the larger one.
    fn both_takeover(&self) -> Duration {
        self.own_takeover.max(self.election.other_takeover().unwrap_or_default())
    }

    /// Age at which an address is not shown any more.
    fn age(&self) -> Duration {
        STATION_AGE.max(self.both_takeover() / 8 * ROUND)
    }

    /// The places that an address may have.
    fn places(&self, address: MacAddr) -> impl Iterator<Item = usize> + use<> {
        let first = self.hash.hash_one(address.0) as usize;
        (0..PROBES).map(move |step| first.wrapping_add(step) % PLACES)
    }

    /// If all places of the address are taken, it has the oldest one.
    fn remember(&mut self, now: Instant, address: MacAddr) {
        let place = self.places(address).min_by_key(|place| match self.told[*place] {
            Some((other, _)) if other == address => (0, Instant::START),
            None => (1, Instant::START),
            Some((_, at)) => (2, at),
        });
        self.told[place.unwrap_or_default()] = Some((address, now));
    }

    /// Whether the partner delivers what this frame's sender has sent: it still does so for [`DRAIN`] after this box has begun to forward, and all on the LAN
    /// hear it. A frame of a station at another site that comes from the LAN is such a one.
    pub(super) fn is_delivered_by_partner(&self, frame: &[u8]) -> bool {
        // A partner that was silent delivers nothing any more.
        let (Role::Active, Cause::PartnerLeft, since) = self.election.role() else { return false };
        // It drains from when it hears that this box forwards.
        if self.now.since(since) >= DRAIN + self.both_takeover() {
            return false;
        }
        let Some(source) = frame.get(6..12).and_then(<[u8]>::first_chunk) else { return false };
        let told = |place: usize| self.told[place].filter(|(address, _)| address.0 == *source);
        self.places(MacAddr(*source)).filter_map(told).any(|(_, at)| self.now.since(at) < self.age())
    }

    /// Sends a beat if one is due.
    fn beat(&mut self, link: &mut Link, counters: &mut SitePathCounters) {
        let sci = link.pipeline().secy.sci();
        let Some((pool, port, _)) = link.plain_side() else { return };
        let Some(beat) = self.election.poll_beat(self.now) else { return };
        if let Some(mut slot) = pool.take() {
            if pool.append(&mut slot, &beat.frame(&self.key, sci, &self.next)) {
                give_refused(self.leaving.push(slot), pool);
            } else {
                pool.give(slot);
            }
        } else {
            counters.in_pkts_no_chunk += 1;
        }
        // Without a link the port takes none, and without a chunk there is none.
        let has_left = port.transmit(pool, &mut self.leaving) > 0;
        self.election.sent(self.now, has_left);
        counters.out_beats += u64::from(has_left);
        if has_left {
            // If the partner hands back, it has not told all of them yet.
            let next = std::mem::take(&mut self.next);
            next.iter().for_each(|address| self.remember(self.now, *address));
        }
    }

    /// Shows switches where stations of other sites are: the next of them.
    fn show(&mut self, link: &mut Link, counters: &mut SitePathCounters) {
        let Some((pool, port, _)) = link.plain_side() else { return };
        while self.shown < PLACES && self.leaving.len() < SHOWN_A_TURN {
            let told = self.told[self.shown].filter(|(_, at)| self.now.since(*at) < self.age());
            let Some((address, _)) = told else {
                self.shown += 1;
                continue;
            };
            // Without a chunk it is shown later.
            let Some(mut slot) = pool.take() else { break };
            self.shown += 1;
            if pool.append(&mut slot, &learn_frame(address)) {
                give_refused(self.leaving.push(slot), pool);
                counters.out_stations_shown += 1;
            } else {
                pool.give(slot);
            }
        }
        if !self.leaving.is_empty() {
            port.transmit(pool, &mut self.leaving);
        }
    }
}

impl Site {
    /// Shares the LAN with another box: this one forwards only while the other one does not.
    pub fn stand_by(&mut self, settings: StandbySettings) {
        self.forwarding.set_partner(settings.partner);
        self.standby = Some(Box::new(Standby::new(settings)));
    }

    /// These peers are boxes of one LAN: [`tunnel::Forwarding::join_twins`].
    pub fn join_twins(&mut self, first: PeerId, second: PeerId) {
        self.forwarding.join_twins(first, second);
    }

    /// The LAN's interface has a link, or has none, as the system says. Without one this box does not forward. Beats that do not leave
    /// say the same, and sooner.
    pub const fn set_lan_link(&mut self, has_link: bool) {
        if let Some(standby) = &mut self.standby {
            standby.has_link = has_link;
        }
    }

    /// Hands over to the other box of the LAN. False if this one does not forward, or the other one cannot take over.
    pub fn hand_over(&mut self) -> bool {
        let now = self.now;
        self.standby.as_mut().is_some_and(|standby| standby.election.hand_over(now))
    }

    /// Begins a turn of a box that is one of two.
    pub(super) fn begin_turn(&mut self, now: Instant, read: time::Instant) {
        let Self { standby: Some(standby), lan, .. } = self else { return };
        (standby.now, standby.read) = (now, read);
        let has_port = lan.link().is_some_and(|link| link.pool().is_some());
        standby.election.set_link(now, standby.has_link && has_port);
        standby.election.begin(now);
    }

    /// Decides, after beats were heard: all that had come if `all`. Sends a beat if one is due, and tells who has to know that this box
    /// forwards, with marks by these rules.
    pub(super) fn beat(&mut self, all: bool, marks: Option<Marking>) {
        let Self { standby: Some(standby), lan, forwarding, counters, .. } = self else { return };
        let now = standby.now;
        standby.election.listened(now, all);
        let (role, _, since) = standby.election.role();
        let is_active = role == Role::Active;
        if is_active && standby.takeover != standby.election.takeovers() {
            (standby.takeover, standby.shown) = (standby.election.takeovers(), 0);
            (standby.show_due, standby.announce_due) = (now, now);
            if standby.election.was_away() {
                // Stations have moved while it heard nothing of them. Before it tells any.
                forwarding.forget_stations(now);
            }
        }
        let Some(link) = lan.link_mut().filter(|link| link.pool().is_some()) else { return };
        if standby.election.is_beat_due(now) {
            // A beat that did not leave is tried again with what it told.
            if !(is_active && standby.election.is_unsent()) {
                standby.next.clear();
                if is_active {
                    let Standby { tell_from, next, .. } = &mut **standby;
                    forwarding.stations_behind(tell_from, next, BEAT_ADDRESSES);
                }
            }
            standby.beat(link, counters);
        }
        // A beat that left after a time without a link has ended that.
        if standby.election.role().0 != Role::Active {
            return;
        }
        if standby.shown < PLACES && now >= standby.show_due {
            standby.show_due = now + SHOW_PAUSE;
            standby.show(link, counters);
        }
        if now >= standby.announce_due {
            let next = ANNOUNCEMENTS.iter().map(|after| since + *after).find(|due| *due > now);
            standby.announce_due = next.unwrap_or(now + ANNOUNCE);
            announce(link, &mut standby.leaving, marks);
            link.protect(now, &mut standby.leaving);
        }
    }

    /// Lets frames of the tunnel reach the LAN, or not.
    pub(super) fn close_gate(&mut self) {
        if let Some(standby) = &self.standby {
            self.lan.close_gate(standby.gate() == Gate::Closed);
        }
    }
}

/// A frame of this box for the SecY, by which the other sites hear that it forwards.
fn announce(link: &mut Link, into: &mut Burst, marks: Option<Marking>) {
    let frame = learn_frame(address_of(link.pipeline().secy.sci()));
    let Some((pool, ..)) = link.plain_side() else { return };
    let Some(mut slot) = pool.take() else { return };
    if pool.append(&mut slot, &frame) {
        // The chunk has the mark of the frame before.
        pool.set_mark(&slot, marks.map_or(0, |marking| Mark::of(&frame, &marking).0));
        give_refused(into.push(slot), pool);
    } else {
        pool.give(slot);
    }
}
