//! Who belongs to a link, and under which CAK its keys are agreed on.
//!
//! The order of CAKs comes first. The preferred one is left for the next one only if somebody who is *known* is live under that
//! one and not under it, and it is returned to as soon as it covers all again. Known is who stands in [`crate::Settings::peers`].
//! If nobody stands there, known is who has been live under the preferred CAK since it is preferred, and who was known and
//! live when it became that: so a group goes on while a new CAK is brought to one box after the other. Without anybody who is
//! known, and with nobody under the preferred CAK, a fallback serves whoever is there.
//!
//! Attack: somebody has the fallback CAK alone, out of a box that was lost, and wants to be key server. He is no reason to
//! leave the preferred CAK, however many stations he plays, and he is told (`tests/groups/rogue.rs`). What a fallback cannot
//! prevent is that he plays a station that is known, while that one is not there itself.
//!
//! Not all know the same: who has started anew knows those alone whom it has met since. So who misses somebody says so under
//! the preferred CAK, and those for whom it is live there follow it. That word counts under no other CAK.

use alloc::vec::Vec;

use wire::{Ckn, Instant, Sci};

use crate::kay::Kay;
use crate::participant::Participant;
use crate::peers::LIVE;
use crate::reason::Reason;
use crate::timers::{Earliest, STRANGER_DELAY, STRANGER_GAP};

/// So many are remembered at most: as many as can be live, and as many who have gone.
const MAX_SEEN: usize = 2 * LIVE;
/// The place of the preferred CAK.
const PREFERRED: usize = 0;

/// Who was live under the preferred CAK, and who is live and does not belong to the link.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// Who was live longest ago stands first.
    seen: Vec<Sci>,
    strangers: Vec<UnknownStation>,
    /// When a stranger was told last.
    reported: Option<Instant>,
    /// Somebody was missed under the preferred CAK when that was looked at last.
    missed: bool,
}

/// Somebody who is live under a CAK, and not known.
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
    /// Whether this station belongs to the link.
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

    /// Somebody who is known is live under another CAK, and not under this one.
    pub(crate) fn misses(&self, i: usize) -> bool {
        let here = &self.participants[i].peers;
        let others = self.participants.iter().enumerate().filter(|(j, _)| *j != i);
        let mut elsewhere = others.flat_map(|(_, other)| other.peers.live()).map(|peer| peer.sci);
        elsewhere.any(|sci| !here.has_live(sci) && self.is_known(sci))
    }

    /// Whether this participant misses somebody, and says so to those who may not know him.
    pub(crate) fn says_that_it_misses(&self, participant: &Participant) -> bool {
        self.participants.first().is_some_and(|first| first.id == participant.id) && self.misses(PREFERRED)
    }

    fn covers(&self, i: usize) -> bool {
        let is_told = || self.participants[i].peers.live().any(|peer| peer.announcement.misses);
        let somebody_is_missing = self.misses(i) || i == PREFERRED && is_told();
        !somebody_is_missing
    }

    /// Whether the keys of this link may be agreed on with those who are live under this CAK.
    fn counts(&self, i: usize) -> bool {
        let mut live = self.participants[i].peers.live();
        i == PREFERRED && live.next().is_some()
            || live.any(|peer| self.is_known(peer.sci) || !self.knows_anybody())
    }

    /// Whether anybody is live with whom keys may be agreed on.
    pub(crate) fn has_company(&self) -> bool {
        (0..self.participants.len()).any(|i| self.counts(i))
    }

    /// The place of the CAK under which keys should be agreed on.
    pub(crate) fn best_index(&self) -> usize {
        let counting = || (0..self.participants.len()).filter(|i| self.counts(*i));
        counting().find(|i| self.covers(*i)).or_else(|| counting().next()).unwrap_or(PREFERRED)
    }

    /// Whether the principal participant has nobody with whom keys may be agreed on.
    pub(crate) fn is_lonely(&self) -> bool {
        let index = self.participants.iter().position(|participant| participant.id == self.principal);
        index.is_none_or(|i| !self.counts(i))
    }

    /// Another CAK becomes the preferred one: known is who was, and is there.
    pub(crate) fn prefer_another(&mut self) {
        let participants = &self.participants;
        self.membership
            .seen
            .retain(|sci| participants.iter().any(|participant| participant.peers.has_live(*sci)));
    }

    /// Notes who is live, and tells who does not belong to the link.
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

    /// Whether keys are agreed on under another CAK than the preferred one.
    pub(crate) fn is_under_fallback(&self) -> bool {
        self.participants.first().is_some_and(|preferred| preferred.id != self.principal)
    }

    /// When [`Self::report_strangers`] has something to tell.
    pub(crate) fn strangers_deadline(&self) -> Option<Instant> {
        let next = self.membership.reported.map(|reported| reported + STRANGER_GAP);
        let mut earliest = Earliest::default();
        for station in self.membership.strangers.iter().filter(|station| !station.reported) {
            let due = station.since + STRANGER_DELAY;
            earliest.add(next.map_or(due, |next| next.max(due)));
        }
        earliest.moment()
    }

    /// Who has been live for a while and does not belong to the link, and under which CAK.
    pub(crate) fn strangers(&self, now: Instant) -> Vec<(Sci, Ckn)> {
        let there = self.membership.strangers.iter().filter(|station| now >= station.since + STRANGER_DELAY);
        there.map(|station| (station.sci, station.ckn)).collect()
    }
}
