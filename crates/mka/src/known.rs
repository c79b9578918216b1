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
use crate::timers::{Earliest, STRANGER, STRANGER_GAP};

/// So many are remembered at most: as many as can be live, and as many who have gone.
const MOST: usize = 2 * LIVE;
/// The place of the preferred CAK.
const PREFERRED: usize = 0;

/// Who was live under the preferred CAK, and who is live and does not belong to the link.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Who was live longest ago stands first.
    met: Vec<Sci>,
    strangers: Vec<Strange>,
    /// When a stranger was told last.
    told: Option<Instant>,
    /// Somebody was missed under the preferred CAK when that was looked at last.
    missed: bool,
}

/// Somebody who is live under a CAK, and not known.
#[derive(Clone, Copy, Debug)]
struct Strange {
    sci: Sci,
    ckn: Ckn,
    since: Instant,
    told: bool,
}

impl Known {
    fn meet(&mut self, sci: Sci) {
        if self.met.last() == Some(&sci) {
            return;
        }
        self.met.retain(|met| *met != sci);
        if self.met.len() == MOST {
            self.met.remove(0);
        }
        self.met.push(sci);
    }
}

impl Kay {
    /// Whether this station belongs to the link.
    fn is_known(&self, sci: Sci) -> bool {
        if self.settings.peers.is_empty() {
            self.known.met.contains(&sci)
        } else {
            self.settings.peers.contains(&sci)
        }
    }

    fn knows_anybody(&self) -> bool {
        !self.settings.peers.is_empty() || !self.known.met.is_empty()
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
    pub(crate) fn best_place(&self) -> usize {
        let counting = || (0..self.participants.len()).filter(|i| self.counts(*i));
        counting().find(|i| self.covers(*i)).or_else(|| counting().next()).unwrap_or(PREFERRED)
    }

    /// Whether the principal participant has nobody with whom keys may be agreed on.
    pub(crate) fn is_lonely(&self) -> bool {
        let place = self.participants.iter().position(|participant| participant.id == self.principal);
        place.is_none_or(|i| !self.counts(i))
    }

    /// Another CAK becomes the preferred one: known is who was, and is there.
    pub(crate) fn prefer_another(&mut self) {
        let participants = &self.participants;
        self.known.met.retain(|sci| participants.iter().any(|participant| participant.peers.has_live(*sci)));
    }

    /// Notes who is live, and tells who does not belong to the link.
    pub(crate) fn report_strangers(&mut self) {
        if let Some(preferred) = self.participants.first() {
            preferred.peers.live().for_each(|peer| self.known.meet(peer.sci));
            let misses = self.misses(PREFERRED);
            if core::mem::replace(&mut self.known.missed, misses) != misses {
                self.participants[PREFERRED].pace.news();
            }
        }
        let before = core::mem::take(&mut self.known.strangers);
        let mut strangers: Vec<Strange> = Vec::new();
        for participant in &self.participants {
            for peer in participant.peers.live().filter(|peer| !self.is_known(peer.sci)) {
                if strangers.iter().any(|other| other.sci == peer.sci) {
                    continue;
                }
                let new = Strange { sci: peer.sci, ckn: participant.ckn, since: self.now, told: false };
                let known = before.iter().find(|other| other.sci == peer.sci);
                strangers.push(known.map_or(new, |known| Strange { ckn: new.ckn, ..*known }));
            }
        }
        self.known.strangers = strangers;
        if self.known.told.is_some_and(|told| self.now < told + STRANGER_GAP) {
            return;
        }
        let now = self.now;
        let due = |strange: &&mut Strange| !strange.told && now >= strange.since + STRANGER;
        if let Some(Strange { sci, ckn, told, .. }) = self.known.strangers.iter_mut().find(due) {
            *told = true;
            self.out.tell(now, Reason::Stranger { sci: *sci, ckn: *ckn });
            self.known.told = Some(now);
            self.counters.strangers += 1;
        }
    }

    /// Whether keys are agreed on under another CAK than the preferred one.
    pub(crate) fn is_under_fallback(&self) -> bool {
        self.participants.first().is_some_and(|preferred| preferred.id != self.principal)
    }

    /// When [`Self::report_strangers`] has something to tell.
    pub(crate) fn strangers_deadline(&self) -> Option<Instant> {
        let next = self.known.told.map(|told| told + STRANGER_GAP);
        let mut earliest = Earliest::default();
        for strange in self.known.strangers.iter().filter(|strange| !strange.told) {
            let due = strange.since + STRANGER;
            earliest.add(next.map_or(due, |next| next.max(due)));
        }
        earliest.moment()
    }

    /// Who has been live for a while and does not belong to the link, and under which CAK.
    pub(crate) fn strangers(&self, now: Instant) -> Vec<(Sci, Ckn)> {
        let there = self.known.strangers.iter().filter(|strange| now >= strange.since + STRANGER);
        there.map(|strange| (strange.sci, strange.ckn)).collect()
    }
}
