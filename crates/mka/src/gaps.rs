//! Gaps between members: one does not hear another, as the lists of live members in their MKPDUs show.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use wire::{Instant, Mi, Sci};

use crate::names::{Named, Names};
use crate::peer::LIVE;
use crate::peers::Peers;
use crate::timers::LIFE;

/// Name of a station in a message: its SCI, or its MI if it was never heard here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StationName {
    /// Its SCI.
    Sci(Sci),
    /// Its MI: the lists hold no more.
    Mi(Mi),
}

impl fmt::Display for Named<'_, StationName> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.told {
            StationName::Sci(sci) => self.names.beside(*sci).fmt(f),
            StationName::Mi(mi) => write!(f, "a station with MI {mi}"),
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
        Names::default().within(self).fmt(f)
    }
}

impl fmt::Display for Named<'_, Gap> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.told {
            Gap::Here { whom, heard_by } => {
                let (whom, heard_by) = (self.names.within(whom), self.names.beside(*heard_by));
                write!(
                    f,
                    "{whom} is heard by {heard_by}, but not by this station: the path between them is cut"
                )
            }
            Gap::Between { by, whom } => {
                let [by, whom] = [by, whom].map(|sci| self.names.beside(*sci));
                write!(
                    f,
                    "{whom} is not heard by {by}, although this station hears both: the path between them is cut"
                )
            }
        }
    }
}

/// An observed gap, and its first time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ObservedGap {
    /// Member whose list shows it.
    witness: Mi,
    whom: Mi,
    /// True if the witness does not hear `whom`; false if this station does not.
    between: bool,
    since: Instant,
}

impl ObservedGap {
    /// True if it has lasted.
    fn is_lasting(&self, now: Instant) -> bool {
        now >= self.since + LASTING
    }
}

/// Minimum age of a gap. Lists that differ for longer do so for another reason than a join or leave.
const LASTING: Duration = LIFE;
/// Most recorded gaps: one for each pair.
const GAPS: usize = LIVE * LIVE;

/// The gaps that a participant observes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Gaps {
    observed: Vec<ObservedGap>,
}

impl Gaps {
    /// Records the gaps in a live peer's list: members that it does not hear, and members that only it hears.
    pub(crate) fn note(&mut self, now: Instant, peers: &Peers, of: Mi, own: Mi) {
        let before = core::mem::take(&mut self.observed);
        let (of_it, others): (Vec<ObservedGap>, Vec<ObservedGap>) =
            before.into_iter().partition(|gap| gap.witness == of);
        self.observed = others;
        let Some(peer) = peers.find(of).filter(|peer| peer.live) else { return };
        let is_live = |mi: &Mi| peers.find(*mi).is_some_and(|peer| peer.live);
        let between = peers.live().map(|other| other.mi).filter(|mi| *mi != of && !peer.hears.contains(mi));
        let here = peer.hears.iter().copied().filter(|mi| *mi != own && !is_live(mi) && !peers.has_left(*mi));
        let seen = between.map(|whom| (whom, true)).chain(here.map(|whom| (whom, false)));
        let seen: Vec<ObservedGap> = seen
            .map(|(whom, between)| {
                let same = |gap: &&ObservedGap| gap.whom == whom && gap.between == between;
                let since = of_it.iter().find(same).map_or(now, |gap| gap.since);
                ObservedGap { witness: of, whom, between, since }
            })
            .collect();
        self.observed.extend(seen);
        self.observed.truncate(GAPS);
    }

    /// Gaps between members that have lasted for a life time.
    pub(crate) fn lasting(&self, now: Instant, peers: &Peers) -> Vec<Gap> {
        let live = |mi: Mi| peers.find(mi).filter(|peer| peer.live).map(|peer| peer.sci);
        let lasting = self.observed.iter().filter(|gap| gap.is_lasting(now));
        let mut gaps: Vec<Gap> = lasting
            .filter_map(|gap| {
                let (witness, whom) = (live(gap.witness)?, live(gap.whom));
                if gap.between {
                    return Some(Gap::Between { by: witness, whom: whom? });
                }
                (whom.is_none() && !peers.has_left(gap.whom))
                    .then(|| Gap::Here { whom: named(peers, gap.whom), heard_by: witness })
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
    pub(crate) fn is_out_of_reach(&self, now: Instant, peers: &Peers, mi: Mi) -> bool {
        let here = |gap: &ObservedGap| !gap.between && gap.whom == mi && gap.is_lasting(now);
        peers.find(mi).is_none() && self.observed.iter().any(here)
    }
}

fn named(peers: &Peers, mi: Mi) -> StationName {
    let sci = peers.find(mi).map(|peer| peer.sci).or_else(|| peers.departed_sci(mi));
    sci.map_or(StationName::Mi(mi), StationName::Sci)
}
