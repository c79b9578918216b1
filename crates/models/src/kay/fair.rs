//! Fair runs: a network that loses and delays nothing.

use std::sync::Arc;
use std::time::Duration;

use wire::Sci;

use super::properties::Wrong;
use super::{Shared, State, Step, WATCHED, World, pasts};

impl World {
    /// What a network does that loses and delays nothing.
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
        let all: Vec<(Sci, &pasts::Present)> = state
            .stations
            .iter()
            .map(|station| (pasts.begin_of(station.place).settings.sci, pasts.at(station.place)))
            .collect();
        let Some(ki) = all[0].1.secy.transmits else { return false };
        let accepts = |present: &pasts::Present, from: Sci| {
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

    /// Lets a fair network run from here. Returns the time until all are secured, or what went wrong.
    ///
    /// A run ends where an earlier one passed; so each state is passed once.
    pub fn fair_run(&self, from: &State) -> Result<Option<Duration>, Arc<Wrong>> {
        if let Some(wrong) = &from.wrong {
            return Err(Arc::clone(wrong));
        }
        let shared = &mut self.shared();
        let mut state = from.clone();
        state.cuts.clear();
        state.flights.iter_mut().for_each(|flight| flight.until = 0);
        self.print(shared, &mut state);
        let mut passed: Vec<(u64, u64, bool)> = Vec::new();
        let (known, wrong) = loop {
            if let Some(wrong) = &state.wrong {
                break (None, Some(Arc::clone(wrong)));
            }
            if let Some(wrong) = shared.wrong.get(&state.print) {
                break (None, Some(Arc::clone(wrong)));
            }
            if let Some(known) = shared.fair.get(&state.print) {
                break (known.map(|time| state.now + time), None);
            }
            if state.now > from.now + WATCHED || passed.iter().any(|(print, ..)| *print == state.print) {
                break (None, None);
            }
            passed.push((state.print, state.now, Self::is_secured(shared, &state)));
            let step = self.fair_step(shared, &state);
            state = self.step(shared, &state, step).unwrap_or(state);
        };
        let mut secured = known;
        for (print, now, is_secured) in passed.iter().rev() {
            if *is_secured {
                secured = Some(*now);
            }
            match &wrong {
                Some(wrong) => drop(shared.wrong.insert(*print, Arc::clone(wrong))),
                None => drop(shared.fair.insert(*print, secured.map(|secured| secured - now))),
            }
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let time = secured.map(|secured| secured - from.now);
        shared.slowest = shared.slowest.max(time.unwrap_or(u64::MAX));
        Ok(time.map(Duration::from_micros))
    }

    /// The longest time that a fair network took so far.
    pub fn slowest(&self) -> Duration {
        Duration::from_micros(self.shared().slowest)
    }
}
