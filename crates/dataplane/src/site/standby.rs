//! The other box of a site's LAN: beats, the gate, and what is told when this box takes over.
//!
//! ```text
//!  each turn: beat ── take_in ── gate? ── outward ── gate? ── inward ── gate? ── flush
//! ```
//!
//! [`tunnel::standby`] decides. Here its frames go out and come in, on the LAN itself: this is the path whose loops matter. The gate is asked
//! with a new reading of the clock before each burst, either way. So a worker that stood still lets at most the burst pass with which it
//! was busy.
//!
//! A box that takes over shows two kinds of others the way:
//! - the LAN's switches: a frame with the address of each station at other sites. The active box tells the standby these addresses in its
//!   beats.
//! - the other sites: a few frames of its own SecY ([`ANNOUNCEMENTS`]), which they verify like any other.

use std::time::{self, Duration};

use arrayvec::ArrayVec;
use suite::beat::BeatKey;
use tunnel::PeerId;
use tunnel::standby::{
    BEAT_ADDRESSES, BeatFrameKind, Cause, Election, Gate, Judged, Role, Timing, address_of, learn_frame,
};
use wire::{Instant, MacAddr, Sci};

use super::Site;
use super::counters::SitePathCounters;
use crate::link::Link;
use crate::pipeline::give_refused;
use netdev::burst::Burst;
use netdev::pool::Pool;

/// Addresses of stations that a standby remembers.
const STATIONS: usize = 4096;
/// Age at which such an address is not shown any more.
const STATION_AGE: Duration = Duration::from_secs(10);
/// Frames for switches in one turn, and the pause between two such turns.
const SHOWN_A_TURN: usize = 32;
const SHOW_PAUSE: Duration = Duration::from_millis(1);
/// Times after a take-over at which the other sites are told. Packets of the box before may still be under way to them.
const ANNOUNCEMENTS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

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
    /// Addresses that the partner told, by their hash, and when.
    told: Box<[Option<(MacAddr, Instant)>]>,
    /// The slot of the stations' table from which the next beat tells.
    tell_from: usize,
    /// The take-over for which switches and sites were told, up to where, and when it goes on.
    takeover: u64,
    shown: usize,
    announced: usize,
    due: Option<Instant>,
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
            told: vec![None; STATIONS].into_boxed_slice(),
            tell_from: 0,
            takeover: 0,
            shown: STATIONS,
            announced: ANNOUNCEMENTS.len(),
            due: None,
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
        StandbySnapshot { role, cause, since, takeovers, partner }
    }

    pub(super) fn due(&self) -> Instant {
        let due = self.election.poll_timeout();
        self.due.map_or(due, |other| other.min(due))
    }

    /// Takes beats out of frames that came from the LAN; with a closed gate, all others too.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
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
                BeatFrameKind::Beat(beat, partner, addresses) => match self.election.hear(now, beat) {
                    Judged::Taken => {
                        counters.in_beats += 1;
                        if partner == sci {
                            self.election.refuse(now);
                        }
                        addresses.iter().for_each(|address| self.remember(now, *address));
                    }
                    Judged::Unproved => counters.in_beats_unproved += 1,
                },
            }
            pool.give(slot);
        }
        if self.gate() == Gate::Closed {
            counters.out_pkts_standby += others.len() as u64;
            others.give_all(pool);
        }
        std::mem::swap(frames, &mut others);
    }

    /// Of two addresses with one hash the later one is remembered.
    fn remember(&mut self, now: Instant, address: MacAddr) {
        let hash = address.0.iter().fold(0_usize, |hash, octet| hash.wrapping_mul(31) ^ usize::from(*octet));
        self.told[hash % STATIONS] = Some((address, now));
    }

    /// Sends a beat if one is due.
    fn beat(&mut self, link: &mut Link, stations: &[MacAddr], counters: &mut SitePathCounters) {
        let sci = link.pipeline().secy.sci();
        let Some((pool, port, _)) = link.plain_side() else { return };
        let Some(mut slot) = pool.take() else {
            // Nothing was said, so the lease goes on running.
            counters.in_pkts_no_chunk += 1;
            return;
        };
        let Some(beat) = self.election.poll_beat(self.now) else { return pool.give(slot) };
        if !pool.append(&mut slot, &beat.frame(&self.key, sci, stations)) {
            return pool.give(slot);
        }
        give_refused(self.leaving.push(slot), pool);
        port.transmit(pool, &mut self.leaving);
        counters.out_beats += 1;
    }

    /// Shows switches where stations of other sites are: the next of them.
    fn show(&mut self, link: &mut Link, counters: &mut SitePathCounters) {
        let Some((pool, port, _)) = link.plain_side() else { return };
        while self.shown < STATIONS && self.leaving.len() < SHOWN_A_TURN {
            let told = self.told[self.shown];
            self.shown += 1;
            let Some((address, _)) = told.filter(|(_, at)| self.now.since(*at) < STATION_AGE) else {
                continue;
            };
            let Some(mut slot) = pool.take() else { break };
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

    /// The LAN's interface has a link, or has none. Without one this box does not forward.
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
    pub(super) fn beat(&mut self, now: Instant, read: time::Instant) {
        let Self { standby: Some(standby), lan, forwarding, counters, .. } = self else { return };
        (standby.now, standby.read) = (now, read);
        let link = lan.link_mut().filter(|link| link.pool().is_some());
        standby.election.set_link(now, standby.has_link && link.is_some());
        standby.election.handle_timeout(now);
        let Some(link) = link else { return };
        let mut stations = ArrayVec::<MacAddr, BEAT_ADDRESSES>::new();
        if standby.election.role().0 == Role::Active && standby.election.is_beat_due(now) {
            forwarding.stations_behind(&mut standby.tell_from, &mut stations, BEAT_ADDRESSES);
        }
        standby.beat(link, &stations, counters);
    }

    /// Goes on telling that this box has taken over, if it has.
    pub(super) fn announce(&mut self, now: Instant) {
        let Self { standby: Some(standby), lan, forwarding, counters, .. } = self else { return };
        let (Role::Active, _, since) = standby.election.role() else {
            standby.due = None;
            return;
        };
        if standby.takeover != standby.election.takeovers() {
            (standby.takeover, standby.shown, standby.announced) = (standby.election.takeovers(), 0, 0);
            for station in forwarding.stations() {
                if station.location != tunnel::Location::Here {
                    standby.remember(now, station.address);
                }
            }
        }
        let Some(link) = lan.link_mut() else { return };
        if standby.shown < STATIONS {
            standby.show(link, counters);
        }
        let next = |announced: usize| ANNOUNCEMENTS.get(announced).map(|after| since + *after);
        if next(standby.announced).is_some_and(|due| now >= due) {
            standby.announced += 1;
            let source = address_of(link.pipeline().secy.sci());
            if let Some((pool, ..)) = link.plain_side()
                && let Some(mut slot) = pool.take()
            {
                if pool.append(&mut slot, &learn_frame(source)) {
                    give_refused(standby.leaving.push(slot), pool);
                } else {
                    pool.give(slot);
                }
            }
            link.protect(now, &mut standby.leaving);
        }
        let show = (standby.shown < STATIONS).then_some(now + SHOW_PAUSE);
        standby.due = [show, next(standby.announced)].into_iter().flatten().min();
    }

    /// Lets frames of the tunnel reach the LAN, or not.
    pub(super) fn close_gate(&mut self) {
        if let Some(standby) = &self.standby {
            self.lan.close_gate(standby.gate() == Gate::Closed);
        }
    }
}
