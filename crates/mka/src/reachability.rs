//! Reachability among members, as MKPDUs show it: each lists the live members of its sender.
//!
//! Members hear different others in a mesh with a cut path (sites, one of which cannot reach another), or in
//! a hub-and-spoke network. The member that hears fewest must not be key server: those that it does not hear
//! would get no SAK, and would make one that displaces the first. So a member of our implementation *yields*,
//! whatever its priority, if it has heard fewer than another candidate for a while. All members conclude this
//! from the same lists. Where all hear each other nobody yields, and the standard's order decides. Other
//! implementations never yield.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use wire::{Instant, Mi, Sci};

use crate::peers::{LIVE, Peer, Peers};
use crate::timers::{LIFE, REACHABILITY_HOLD};

/// Debounced flag: the candidate hears fewer members than another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reachability {
    lesser: bool,
    /// Since when the observation contradicts the flag.
    otherwise: Option<Instant>,
}

impl Reachability {
    /// Records an observation. Both changes take the same time, so an unstable path changes nothing.
    pub(crate) fn note(&mut self, now: Instant, lesser: bool) {
        if lesser == self.lesser {
            self.otherwise = None;
        } else if now >= *self.otherwise.get_or_insert(now) + REACHABILITY_HOLD {
            *self = Self { lesser, otherwise: None };
        }
    }

    pub(crate) const fn is_lesser(&self) -> bool {
        self.lesser
    }

    /// Time at which [`Self::note`] would change the flag.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.otherwise.map(|since| since + REACHABILITY_HOLD)
    }
}

/// Name of a station in a message: its SCI, or its MI if it was never heard here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StationName {
    /// Its SCI.
    Sci(Sci),
    /// Its MI: the lists hold no more.
    Mi(Mi),
}

impl fmt::Display for StationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sci(sci) => sci.fmt(f),
            Self::Mi(mi) => write!(f, "a station with MI {mi}"),
        }
    }
}

/// A member that another member does not hear, though a third one hears both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gap {
    /// This station does not hear a member that another member hears.
    Here {
        /// The unheard member.
        whom: StationName,
        /// The member that hears it, and is heard.
        heard_by: Sci,
    },
    /// One of two members does not hear the other; this station hears both.
    Between {
        /// The deaf member.
        by: Sci,
        /// The unheard member.
        whom: Sci,
    },
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here { whom, heard_by } => {
                write!(
                    f,
                    "{whom} is heard by {heard_by}, but not by this station: the path between them is cut"
                )
            }
            Self::Between { by, whom } => {
                write!(
                    f,
                    "{whom} is not heard by {by}, although this station hears both: the path between them is cut"
                )
            }
        }
    }
}

/// An observed gap, and its first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedGap {
    /// Member whose list shows it.
    pub(crate) witness: Mi,
    pub(crate) whom: Mi,
    /// True if the witness does not hear `whom`; false if this station does not.
    pub(crate) between: bool,
    pub(crate) since: Instant,
}

impl ObservedGap {
    /// True if it has lasted.
    pub(crate) fn is_lasting(&self, now: Instant) -> bool {
        now >= self.since + LASTING
    }
}

/// Minimum age of a gap. Lists that differ for longer do so for another reason than a join or leave.
const LASTING: Duration = LIFE;
/// Most recorded gaps: one for each pair.
const GAPS: usize = LIVE * LIVE;

impl Peers {
    /// The key server that this peer follows, if it is live for the peer but not here.
    pub(crate) fn led_by(&self, peer: &Peer, own: Mi) -> Option<Mi> {
        let server = peer.protects_with()?.server;
        let is_here = server == own || self.find(server).is_some_and(|server| server.live);
        (!is_here && peer.hears.contains(&server) && !self.has_left(server)).then_some(server)
    }

    /// Records for this station and its live peers whether they hear fewer members than another candidate.
    pub(crate) fn note_reach(&mut self, now: Instant, stands: bool) {
        let own = if stands { self.live().count() } else { 0 };
        let standing = self.live().filter(|peer| peer.stands()).map(|peer| peer.hears.len());
        let most = standing.chain([own]).max().unwrap_or(0);
        self.own_reachability.note(now, own < most);
        for peer in self.known.iter_mut().filter(|peer| peer.live) {
            peer.reachability.note(now, peer.hears.len() < most);
        }
    }

    /// Records the gaps in a live peer's list: members that it does not hear, and members that only it hears.
    pub(crate) fn note_gaps(&mut self, now: Instant, of: Mi, own: Mi) {
        let before = core::mem::take(&mut self.gaps);
        let (of_it, others): (Vec<ObservedGap>, Vec<ObservedGap>) =
            before.into_iter().partition(|gap| gap.witness == of);
        self.gaps = others;
        let Some(peer) = self.find(of).filter(|peer| peer.live) else { return };
        let is_live = |mi: &Mi| self.find(*mi).is_some_and(|peer| peer.live);
        let between = self.live().map(|other| other.mi).filter(|mi| *mi != of && !peer.hears.contains(mi));
        let here = peer.hears.iter().copied().filter(|mi| *mi != own && !is_live(mi) && !self.has_left(*mi));
        let seen = between.map(|whom| (whom, true)).chain(here.map(|whom| (whom, false)));
        let seen: Vec<ObservedGap> = seen
            .map(|(whom, between)| {
                let same = |gap: &&ObservedGap| gap.whom == whom && gap.between == between;
                let since = of_it.iter().find(same).map_or(now, |gap| gap.since);
                ObservedGap { witness: of, whom, between, since }
            })
            .collect();
        self.gaps.extend(seen);
        self.gaps.truncate(GAPS);
    }

    /// Gaps between members that have lasted for a life time.
    pub(crate) fn gaps(&self, now: Instant) -> Vec<Gap> {
        let live = |mi: Mi| self.find(mi).filter(|peer| peer.live).map(|peer| peer.sci);
        let lasting = self.gaps.iter().filter(|gap| gap.is_lasting(now));
        let mut gaps: Vec<Gap> = lasting
            .filter_map(|gap| {
                let (witness, whom) = (live(gap.witness)?, live(gap.whom));
                if gap.between {
                    return Some(Gap::Between { by: witness, whom: whom? });
                }
                (whom.is_none() && !self.has_left(gap.whom))
                    .then(|| Gap::Here { whom: self.named(gap.whom), heard_by: witness })
            })
            .collect();
        // A pair is one gap, whoever reports it.
        let mut pairs: Vec<(Sci, Sci)> = Vec::new();
        gaps.retain(|gap| match gap {
            Gap::Here { .. } => true,
            Gap::Between { by, whom } => {
                let pair = (*by.min(whom), *by.max(whom));
                let is_new = !pairs.contains(&pair);
                pairs.push(pair);
                is_new
            }
        });
        gaps
    }

    /// True if others have heard this member for a life time and this station has not: no frame reaches it,
    /// and nobody waits for it.
    pub(crate) fn is_out_of_reach(&self, now: Instant, mi: Mi) -> bool {
        let here = |gap: &ObservedGap| !gap.between && gap.whom == mi && gap.is_lasting(now);
        self.find(mi).is_none() && self.gaps.iter().any(here)
    }

    fn named(&self, mi: Mi) -> StationName {
        let departed =
            || self.departed.iter().find(|departed| departed.mi == mi).map(|departed| departed.sci);
        self.find(mi).map(|peer| peer.sci).or_else(departed).map_or(StationName::Mi(mi), StationName::Sci)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hears_fewer_yields_after_a_while_and_not_for_a_path_that_comes_and_goes() {
        let at = |seconds| Instant::after_start(Duration::from_secs(seconds));
        let mut reachability = Reachability::default();
        reachability.note(at(0), true);
        reachability.note(at(8), false);
        reachability.note(at(9), true);
        reachability.note(at(20), true);
        assert!(!reachability.is_lesser());
        assert_eq!(reachability.deadline(), Some(at(21)));
        reachability.note(at(21), true);
        assert!(reachability.is_lesser());
        reachability.note(at(22), false);
        reachability.note(at(30), true);
        reachability.note(at(31), false);
        reachability.note(at(42), false);
        assert!(reachability.is_lesser());
        reachability.note(at(43), false);
        assert_eq!(reachability, Reachability::default());
    }
}
