//! The better one of several paths. Without a clock.
//!
//! A path is better than the one in use if it loses clearly less, or not more and its round trip is clearly shorter. It has to be so
//! for a while. A path that does not carry packets is left at once.

use std::time::Duration;

use wire::Instant;

use super::meter::Figures;

/// Time for which another path has to be better.
pub(super) const HOLD: Duration = Duration::from_secs(5);
/// Difference of loss that counts: 2 %, one probe of fifty.
const LOSS_PER_MILLE: u16 = 21;
/// Difference of round trips that counts: a fifth, and this at least.
const ROUND_TRIP: Duration = Duration::from_millis(2);

/// Figures of all paths by number; none of one that does not carry packets.
pub(super) type AllFigures = Vec<Option<Figures>>;

/// The choice.
#[derive(Debug, Default)]
pub(super) struct Choice {
    current: Option<usize>,
    /// A path that has been better than the current one since then.
    better: Option<(usize, Instant)>,
}

impl Choice {
    /// The path to be used, if one carries packets.
    pub(super) fn choose(&mut self, now: Instant, all: &AllFigures) -> Option<usize> {
        let of = |number: usize| all.get(number).copied().flatten();
        let there = || (0..all.len()).filter_map(|number| Some((number, of(number)?)));
        let Some((current, figures)) = self.current.and_then(|number| Some((number, of(number)?))) else {
            let best = there().min_by_key(|(_, figures)| (figures.loss_per_mille, figures.round_trip));
            (self.current, self.better) = (best.map(|(number, _)| number), None);
            return self.current;
        };
        let best = there()
            .filter(|(_, other)| is_better(*other, figures))
            .min_by_key(|(_, figures)| (figures.loss_per_mille, figures.round_trip));
        match (best, self.better) {
            (None, _) => self.better = None,
            (Some((number, _)), Some((before, since))) if number == before => {
                if now.since(since) >= HOLD {
                    (self.current, self.better) = (Some(number), None);
                    return Some(number);
                }
            }
            (Some((number, _)), _) => self.better = Some((number, now)),
        }
        Some(current)
    }
}

fn is_better(other: Figures, than: Figures) -> bool {
    if other.loss_per_mille + LOSS_PER_MILLE <= than.loss_per_mille {
        return true;
    }
    let no_lossier = other.loss_per_mille < than.loss_per_mille + LOSS_PER_MILLE;
    no_lossier && other.round_trip + ROUND_TRIP.max(than.round_trip / 5) < than.round_trip
}
