//! Fair runs: a network that loses and delays nothing.

use std::sync::Arc;
use std::time::Duration;

use wire::Sci;

use super::properties::Wrong;
use super::station::Present;
use super::{Shared, State, Step, WATCHED, World};

/// Security of a group in a fair network, from a state on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Secured {
    /// In this state and for good.
    Now,
    /// For good after these microseconds. The state itself, or one behind it, is not secured.
    After(u64),
    /// Not for good.
    Never,
}

impl Secured {
    /// The same for the state before, which is so many microseconds earlier.
    fn before(self, microseconds: u64, is_secured: bool) -> Self {
        match self {
            Self::Now if is_secured => Self::Now,
            Self::Now => Self::After(microseconds),
            Self::After(time) => Self::After(time + microseconds),
            Self::Never => Self::Never,
        }
    }
}

impl State {
    /// End of the last cut and delay.
    fn calm(&self) -> u64 {
        let cuts = self.cuts.iter().map(|(.., until)| *until);
        cuts.chain(self.flights.iter().map(|flight| flight.until)).fold(self.now, u64::max)
    }
}

impl World {
    /// The next step of a network that loses and delays nothing.
    pub(super) fn fair_step(&self, shared: &Shared, state: &State) -> Step {
        let report = (0..state.stations.len()).find(|i| Self::has_reports(shared, state, *i));
        let flight = state.flights.iter().find(|flight| flight.until <= state.now);
        match (report, flight) {
            (Some(i), _) => Step::Report(i),
            (None, Some(flight)) => Step::Deliver { from: flight.from, to: flight.to },
            (None, None) => Step::Pass,
        }
    }

    /// True if all protect with one SAK that all accept, and one of them is key server.
    pub(super) fn is_secured(shared: &Shared, state: &State) -> bool {
        let pasts = &shared.pasts;
        let all: Vec<(Sci, &Present)> = state
            .stations
            .iter()
            .map(|station| (pasts.begin_of(station.place).settings.sci, pasts.at(station.place)))
            .collect();
        let Some(ki) = all[0].1.secy.transmits else { return false };
        let accepts = |present: &Present, from: Sci| {
            present.secy.find(ki).is_some_and(|sas| sas.installed && sas.receive.contains(&from))
        };
        all.iter().filter(|(_, present)| present.is_key_server).count() == 1
            && all.iter().all(|(sci, present)| {
                present.secy.transmits == Some(ki)
                    && all.iter().all(|(other, from)| {
                        other == sci || accepts(present, *other) && present.live.contains(&(*other, from.mi))
                    })
            })
    }

    /// Lets a fair network run from here; cuts and delays that have begun run out. Returns the time until all are secured for good,
    /// counted from the moment behind the last cut and delay, or the property that broke.
    ///
    /// A run ends where an earlier one passed; so each state is passed once.
    pub fn fair_run(&self, from: &State) -> Result<Option<Duration>, Arc<Wrong>> {
        if let Some(wrong) = &from.wrong {
            return Err(Arc::clone(wrong));
        }
        let shared = &mut self.shared();
        // No fault is to come.
        let mut state = State { faults: 0, ..from.clone() };
        self.print(shared, &mut state);
        let calm = from.calm();
        let mut passed: Vec<(u64, u64, bool)> = Vec::new();
        let mut certain = u64::MAX;
        let mut end = loop {
            if let Some(wrong) = &state.wrong {
                break Err(Arc::clone(wrong));
            }
            if let Some(known) = shared.fair.get(&state.print) {
                break known.clone();
            }
            let cycle = passed.iter().position(|(print, ..)| *print == state.print);
            let is_over = state.now > calm + WATCHED;
            // Clocks of different speed repeat nothing. Then the second half of the time is only watched.
            if is_over {
                certain = state.now - WATCHED / 2;
            }
            if let Some(begin) = cycle.or_else(|| is_over.then(|| passed.len().saturating_sub(1))) {
                let stays = passed[begin..].iter().all(|(.., is_secured)| *is_secured);
                break Ok(if stays { Secured::Now } else { Secured::Never });
            }
            passed.push((state.print, state.now, Self::is_secured(shared, &state)));
            let step = self.fair_step(shared, &state);
            state = self.step(shared, &state, step).unwrap_or(state);
        };
        let mut later = state.now;
        for (print, now, is_secured) in passed.iter().rev() {
            end = end.map(|secured| secured.before(later - now, *is_secured));
            later = *now;
            if *now <= certain {
                shared.fair.insert(*print, end.clone());
            }
        }
        let time = match end? {
            Secured::Now => Some(0),
            Secured::After(time) => Some((from.now + time).saturating_sub(calm)),
            Secured::Never => None,
        };
        shared.slowest = shared.slowest.max(time.unwrap_or(u64::MAX));
        Ok(time.map(Duration::from_micros))
    }

    /// The longest time that a fair network took so far.
    pub fn slowest(&self) -> Duration {
        Duration::from_micros(self.shared().slowest)
    }
}
