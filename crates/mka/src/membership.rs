//! Membership of a link, and the CAK under which its keys are agreed on.
//!
//! The order of CAKs decides first. The KaY leaves the preferred CAK for the next one only if a *known*
//! station is live under the next one and not under the preferred one. It returns as soon as the preferred
//! CAK covers all again. [`crate::Settings::peers`] lists the known stations. If the list is empty, a station
//! is known that has been live under the preferred CAK since that became preferred, or that was known and
//! live when it did. So a group keeps running while a new CAK is brought to one box after the other. With no
//! known station, and nobody under the preferred CAK, a fallback serves whoever is there.
//!
//! A station that falls silent is lost under one CAK up to a hello time before the other: its MKPDUs under both do
//! not leave together. So it is a reason to leave a CAK only when it is heard under the other one again
//! (`Participants::principal_due`). Otherwise a station that stands still drives the others to a fallback CAK, and
//! to the SAK of whoever is key server there (`tests/groups/rogue.rs`).
//!
//! Attack: somebody has only the fallback CAK, from a lost box, and wants to be key server. However many
//! stations he imitates, he is no reason to leave the preferred CAK, and he is reported
//! (`tests/groups/rogue.rs`). A fallback cannot prevent that he imitates a known station in its absence.
//!
//! Members know different stations: a restarted one knows only those that it has met since. So a member that
//! misses somebody says so under the preferred CAK, and members for which it is live there follow. That word
//! counts under no other CAK.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use wire::{Ckn, Instant, Sci};

use crate::participant::Participant;
use crate::peer::{LIVE, Peer};
use crate::reason::Reason;
use crate::settings::Settings;
use crate::station::Station;
use crate::timers::{Earliest, STRANGER_DELAY, STRANGER_GAP};

/// Most remembered stations: as many as can be live, and as many that are gone.
const MAX_SEEN: usize = 2 * LIVE;
/// Index of the preferred CAK.
pub(crate) const PREFERRED: usize = 0;

/// Stations seen live under the preferred CAK, and live stations that do not belong to the link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Membership {
    /// In the order of their last live time, oldest first.
    seen: Vec<Sci>,
    strangers: Vec<UnknownStation>,
    /// Time of the last report of a stranger.
    reported: Option<Instant>,
    /// True if the last check found a station missing under the preferred CAK.
    missed: bool,
}

/// A station that is live under a CAK, and not known.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct UnknownStation {
    sci: Sci,
    ckn: Ckn,
    since: Instant,
    reported: bool,
}

impl Membership {
    fn note_live(&mut self, sci: Sci) {
        if self.seen.last() == Some(&sci) {
            return;
        }
        self.seen.retain(|seen| *seen != sci);
        if self.seen.len() == MAX_SEEN {
            self.seen.remove(0);
        }
        self.seen.push(sci);
    }

    /// The station that was live last under the preferred CAK.
    pub(crate) fn last_live(&self) -> Option<Sci> {
        self.seen.last().copied()
    }

    /// True if this station belongs to the link.
    pub(crate) fn is_known(&self, settings: &Settings, sci: Sci) -> bool {
        if settings.peers.is_empty() { self.seen.contains(&sci) } else { settings.peers.contains(&sci) }
    }

    fn knows_anybody(&self, settings: &Settings) -> bool {
        !settings.peers.is_empty() || !self.seen.is_empty()
    }

    /// True if a known station is live under another CAK, and not under this one.
    pub(crate) fn misses(&self, settings: &Settings, participants: &[Participant], i: usize) -> bool {
        let here = participants[i].peers();
        let others = participants.iter().enumerate().filter(|(j, _)| *j != i);
        let mut elsewhere = others.flat_map(|(_, other)| other.peers().live()).map(|peer| peer.sci);
        elsewhere.any(|sci| !here.has_live(sci) && self.is_known(settings, sci))
    }

    fn covers(&self, settings: &Settings, participants: &[Participant], i: usize) -> bool {
        let is_told = || participants[i].peers().live().any(|peer| peer.announcement.misses);
        let somebody_is_missing = self.misses(settings, participants, i) || i == PREFERRED && is_told();
        !somebody_is_missing
    }

    /// Live stations with which keys may be agreed on under this CAK.
    fn counting<'p>(
        &'p self,
        settings: &'p Settings,
        participants: &'p [Participant],
        i: usize,
    ) -> impl Iterator<Item = &'p Peer> {
        let may = move |peer: &&Peer| {
            i == PREFERRED || self.is_known(settings, peer.sci) || !self.knows_anybody(settings)
        };
        participants[i].peers().live().filter(may)
    }

    /// True if keys may be agreed on with the live stations under this CAK.
    pub(crate) fn counts(&self, settings: &Settings, participants: &[Participant], i: usize) -> bool {
        self.counting(settings, participants, i).next().is_some()
    }

    /// Times at which those stations were last heard with which keys may be agreed on under CAK `i`, and that are not
    /// live under CAK `before`.
    pub(crate) fn gained<'p>(
        &'p self,
        settings: &'p Settings,
        participants: &'p [Participant],
        i: usize,
        before: usize,
    ) -> impl Iterator<Item = Instant> {
        let known = participants[before].peers();
        // A station that was never live here, as at a start, was not lost here either.
        let gained = self
            .counting(settings, participants, i)
            .filter(move |peer| !known.has_live(peer.sci) && self.is_known(settings, peer.sci));
        gained.map(|peer| peer.heard)
    }

    /// Index of the CAK under which keys should be agreed on.
    pub(crate) fn best_index(&self, settings: &Settings, participants: &[Participant]) -> usize {
        let counting = || (0..participants.len()).filter(|i| self.counts(settings, participants, *i));
        let covering = counting().find(|i| self.covers(settings, participants, *i));
        covering.or_else(|| counting().next()).unwrap_or(PREFERRED)
    }

    /// Handles a change of the preferred CAK: stations stay known that were known and are live.
    pub(crate) fn prefer_another(&mut self, participants: &[Participant]) {
        self.seen.retain(|sci| participants.iter().any(|participant| participant.peers().has_live(*sci)));
    }

    /// Records live stations. True if the others need to know: a station is missing under the preferred CAK,
    /// or is so no longer.
    pub(crate) fn note(&mut self, settings: &Settings, participants: &[Participant]) -> bool {
        let Some(preferred) = participants.first() else { return false };
        preferred.peers().live().for_each(|peer| self.note_live(peer.sci));
        let misses = self.misses(settings, participants, PREFERRED);
        core::mem::replace(&mut self.missed, misses) != misses
    }

    /// Reports live stations that do not belong to the link.
    pub(crate) fn report_strangers(&mut self, station: &mut Station, participants: &[Participant]) {
        let now = station.now();
        let before = core::mem::take(&mut self.strangers);
        let mut strangers: Vec<UnknownStation> = Vec::new();
        for participant in participants {
            let unknown = |peer: &&Peer| !self.is_known(station.settings(), peer.sci);
            for peer in participant.peers().live().filter(unknown) {
                if strangers.iter().any(|other| other.sci == peer.sci) {
                    continue;
                }
                let new =
                    UnknownStation { sci: peer.sci, ckn: participant.ckn(), since: now, reported: false };
                let known = before.iter().find(|other| other.sci == peer.sci);
                strangers.push(known.map_or(new, |known| UnknownStation { ckn: new.ckn, ..*known }));
            }
        }
        self.strangers = strangers;
        if self.reported.is_some_and(|reported| now < reported + STRANGER_GAP) {
            return;
        }
        let due = |station: &&mut UnknownStation| !station.reported && now >= station.since + STRANGER_DELAY;
        if let Some(UnknownStation { sci, ckn, reported, .. }) = self.strangers.iter_mut().find(due) {
            *reported = true;
            self.reported = Some(now);
            station.notify(Reason::Stranger { sci: *sci, ckn: *ckn });
            station.count(|counters| counters.strangers += 1);
        }
    }

    /// Next time at which [`Self::report_strangers`] has a report.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let next = self.reported.map(|reported| reported + STRANGER_GAP);
        let mut earliest = Earliest::default();
        for station in self.strangers.iter().filter(|station| !station.reported) {
            let due = station.since + STRANGER_DELAY;
            earliest.add(next.map_or(due, |next| next.max(due)));
        }
        earliest.moment()
    }

    /// Stations that have been live for a while and do not belong to the link, with their CKNs.
    pub(crate) fn strangers(&self, now: Instant) -> Vec<(Sci, Ckn)> {
        let there = self.strangers.iter().filter(|station| now >= station.since + STRANGER_DELAY);
        there.map(|station| (station.sci, station.ckn)).collect()
    }
}
