//! Membership of a link, and the CAK under which its keys are agreed on.
//!
//! The order of CAKs decides first. The KaY leaves the preferred CAK for the next one only if a *known*
//! station is live under the next one and not under the preferred one. It returns as soon as the preferred
//! CAK covers all again. [`crate::Settings::peers`] lists the known stations. If the list is empty, a station
//! is known that has been live under the preferred CAK since that became preferred, or that was known and
//! live when it did. So a group keeps running while a new CAK is brought to one box after the other. With no
//! known station, and nobody under the preferred CAK, a fallback serves whoever is there.
//!
//! Attack: somebody has only the fallback CAK, from a lost box, and wants to be key server. However many
//! stations he imitates, he is no reason to leave the preferred CAK, and he is reported
//! (`tests/groups/rogue.rs`). A fallback cannot prevent that he imitates a known station in its absence.
//!
//! Members know different stations: a restarted one knows only those that it has met since. So a member that
//! misses somebody says so under the preferred CAK, and members for which it is live there follow. That word
//! counts under no other CAK.

use alloc::vec::Vec;

use wire::{Ckn, Instant, Sci};

use crate::kay::Kay;
use crate::participant::Participant;
use crate::peers::LIVE;
use crate::reason::Reason;
use crate::timers::{Earliest, STRANGER_DELAY, STRANGER_GAP};

/// Most remembered stations: as many as can be live, and as many that are gone.
const MAX_SEEN: usize = 2 * LIVE;
/// Index of the preferred CAK.
const PREFERRED: usize = 0;

/// Stations seen live under the preferred CAK, and live stations that do not belong to the link.
#[derive(Debug, Default)]
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
#[derive(Clone, Copy, Debug)]
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
}

impl Kay {
    /// True if this station belongs to the link.
    fn is_known(&self, sci: Sci) -> bool {
        if self.settings.peers.is_empty() {
            self.membership.seen.contains(&sci)
        } else {
            self.settings.peers.contains(&sci)
        }
    }

    fn knows_anybody(&self) -> bool {
        !self.settings.peers.is_empty() || !self.membership.seen.is_empty()
    }

    /// True if a known station is live under another CAK, and not under this one.
    pub(crate) fn misses(&self, i: usize) -> bool {
        let here = &self.participants[i].peers;
        let others = self.participants.iter().enumerate().filter(|(j, _)| *j != i);
        let mut elsewhere = others.flat_map(|(_, other)| other.peers.live()).map(|peer| peer.sci);
        elsewhere.any(|sci| !here.has_live(sci) && self.is_known(sci))
    }

    /// True if this participant misses a station and announces that to members that may not know it.
    pub(crate) fn says_that_it_misses(&self, participant: &Participant) -> bool {
        self.participants.first().is_some_and(|first| first.id == participant.id) && self.misses(PREFERRED)
    }

    fn covers(&self, i: usize) -> bool {
        let is_told = || self.participants[i].peers.live().any(|peer| peer.announcement.misses);
        let somebody_is_missing = self.misses(i) || i == PREFERRED && is_told();
        !somebody_is_missing
    }

    /// True if keys may be agreed on with the live stations under this CAK.
    fn counts(&self, i: usize) -> bool {
        let mut live = self.participants[i].peers.live();
        i == PREFERRED && live.next().is_some()
            || live.any(|peer| self.is_known(peer.sci) || !self.knows_anybody())
    }

    /// True if anybody is live with whom keys may be agreed on.
    pub(crate) fn has_company(&self) -> bool {
        (0..self.participants.len()).any(|i| self.counts(i))
    }

    /// Index of the CAK under which keys should be agreed on.
    pub(crate) fn best_index(&self) -> usize {
        let counting = || (0..self.participants.len()).filter(|i| self.counts(*i));
        counting().find(|i| self.covers(*i)).or_else(|| counting().next()).unwrap_or(PREFERRED)
    }

    /// True if the principal participant has nobody with whom keys may be agreed on.
    pub(crate) fn is_lonely(&self) -> bool {
        let index = self.participants.iter().position(|participant| participant.id == self.principal);
        index.is_none_or(|i| !self.counts(i))
    }

    /// Handles a change of the preferred CAK: stations stay known that were known and are live.
    pub(crate) fn prefer_another(&mut self) {
        let participants = &self.participants;
        self.membership
            .seen
            .retain(|sci| participants.iter().any(|participant| participant.peers.has_live(*sci)));
    }

    /// Records live stations, and reports those that do not belong to the link.
    pub(crate) fn report_strangers(&mut self) {
        if let Some(preferred) = self.participants.first() {
            preferred.peers.live().for_each(|peer| self.membership.note_live(peer.sci));
            let misses = self.misses(PREFERRED);
            if core::mem::replace(&mut self.membership.missed, misses) != misses {
                self.participants[PREFERRED].schedule.request();
            }
        }
        let before = core::mem::take(&mut self.membership.strangers);
        let mut strangers: Vec<UnknownStation> = Vec::new();
        for participant in &self.participants {
            for peer in participant.peers.live().filter(|peer| !self.is_known(peer.sci)) {
                if strangers.iter().any(|other| other.sci == peer.sci) {
                    continue;
                }
                let new =
                    UnknownStation { sci: peer.sci, ckn: participant.ckn, since: self.now, reported: false };
                let known = before.iter().find(|other| other.sci == peer.sci);
                strangers.push(known.map_or(new, |known| UnknownStation { ckn: new.ckn, ..*known }));
            }
        }
        self.membership.strangers = strangers;
        if self.membership.reported.is_some_and(|reported| self.now < reported + STRANGER_GAP) {
            return;
        }
        let now = self.now;
        let due = |station: &&mut UnknownStation| !station.reported && now >= station.since + STRANGER_DELAY;
        if let Some(UnknownStation { sci, ckn, reported, .. }) =
            self.membership.strangers.iter_mut().find(due)
        {
            *reported = true;
            self.out.notify(now, Reason::Stranger { sci: *sci, ckn: *ckn });
            self.membership.reported = Some(now);
            self.counters.strangers += 1;
        }
    }

    /// True if keys are agreed on under another CAK than the preferred one.
    pub(crate) fn is_under_fallback(&self) -> bool {
        self.participants.first().is_some_and(|preferred| preferred.id != self.principal)
    }

    /// Next time at which [`Self::report_strangers`] has a report.
    pub(crate) fn strangers_deadline(&self) -> Option<Instant> {
        let next = self.membership.reported.map(|reported| reported + STRANGER_GAP);
        let mut earliest = Earliest::default();
        for station in self.membership.strangers.iter().filter(|station| !station.reported) {
            let due = station.since + STRANGER_DELAY;
            earliest.add(next.map_or(due, |next| next.max(due)));
        }
        earliest.moment()
    }

    /// Stations that have been live for a while and do not belong to the link, with their CKNs.
    pub(crate) fn strangers(&self, now: Instant) -> Vec<(Sci, Ckn)> {
        let there = self.membership.strangers.iter().filter(|station| now >= station.since + STRANGER_DELAY);
        there.map(|station| (station.sci, station.ckn)).collect()
    }
}
