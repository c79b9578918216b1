//! Reachability among members, as MKPDUs show it: each lists the live members of its sender.
//!
//! Members hear different others in a mesh with a cut path (sites, one of which cannot reach another), or in
//! a hub-and-spoke network. The member that hears fewest must not be key server: those that it does not hear
//! would get no SAK, and would make one that displaces the first. So a member of our implementation *yields*,
//! whatever its priority, if it has heard fewer than another candidate for a while. All members conclude this
//! from the same lists. Where all hear each other nobody yields, and the standard's order decides. Other
//! implementations never yield.

use serde::{Deserialize, Serialize};
use wire::Instant;

use crate::timers::REACHABILITY_HOLD;

/// Debounced flag: the candidate hears fewer members than another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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

#[cfg(test)]
mod tests {
    use core::time::Duration;

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
