//! Steps of a group: what each of them does, and which are possible.

use std::sync::Arc;

use wire::mkpdu::{Mkpdu, ParameterSet};
use wire::{Ki, Mi};

use super::lies::{self, Lie};
use super::properties::{Wrong, again};
use super::station::Told;
use super::{CUT, Flight, HOLD, Kind, LEAP, Shared, State, Station, Step, World, micros};

impl World {
    /// Takes what a station did at its new place to the others, and judges it.
    pub(super) fn follow(&self, shared: &mut Shared, state: &mut State, i: usize) {
        let pasts = &shared.pasts;
        let present = pasts.at(state.stations[i].place);
        if let Some(wrong) = &present.wrong {
            state.wrong.get_or_insert_with(|| Arc::new(Wrong::Impossible(format!("station {i}: {wrong}"))));
        }
        if let Some(why) = &present.differs {
            state.wrong.get_or_insert_with(|| Arc::new(Wrong::Differs(format!("station {i}: {why}"))));
        }
        if present.transmitted > 1 {
            state.wrong.get_or_insert_with(|| Arc::new(Wrong::TwoSaks(format!("station {i}"))));
        }
        // A key server that lies may choose an AN that is in use.
        let is_lied_to = present.done.begun.iter().any(|begun| begun.ki.server == lies::MI);
        for ki in present.done.dropped.iter().filter(|_| !is_lied_to) {
            state.wrong.get_or_insert_with(|| Arc::new(Wrong::Dropped(format!("station {i}: {ki}"))));
        }
        for begun in &present.done.begun {
            if !present.is_led_by(begun.ki.server) {
                let wrong = || Arc::new(Wrong::NotElected(format!("station {i}: {}", begun.ki)));
                state.wrong.get_or_insert_with(wrong);
            }
            if let Some(wrong) = again(&state.begun, begun) {
                state.wrong.get_or_insert_with(|| Arc::new(Wrong::Twice(format!("station {i}: {wrong}"))));
            }
            Arc::make_mut(&mut state.begun).push(begun.clone());
        }
        for ki in &present.done.enabled {
            if let Some(wrong) = self.unready(pasts, state, i, *ki) {
                state.wrong.get_or_insert_with(|| Arc::new(Wrong::Unready(wrong)));
            }
        }
        for octets in &present.sent {
            state.last[i] = Some(Arc::clone(octets));
            if let Some(ki) = handed_out(octets)
                && state.records.iter().all(|(known, _)| *known != ki)
            {
                Arc::make_mut(&mut state.records).push((ki, Arc::clone(octets)));
            }
            self.send(state, i, octets);
        }
    }

    pub(super) fn send(&self, state: &mut State, from: usize, octets: &Arc<[u8]>) {
        for to in (0..self.setup.caks.len()).filter(|to| *to != from) {
            let is_cut = |(a, b, until): &(usize, usize, u64)| (*a, *b) == (from, to) && state.now < *until;
            if !state.cuts.iter().any(is_cut) {
                state.flights.push(Flight { from, to, octets: Arc::clone(octets), until: 0 });
            }
        }
    }

    pub(super) fn tell(&self, shared: &mut Shared, state: &mut State, i: usize, told: Told) {
        let now = self.now_of(state, i);
        state.stations[i].place = shared.pasts.tell(state.stations[i].place, now, told);
        self.follow(shared, state, i);
    }

    /// Index of the oldest MKPDU that is on its way from one to the other and not held.
    pub(super) fn head(state: &State, from: usize, to: usize) -> Option<usize> {
        state
            .flights
            .iter()
            .position(|flight| (flight.from, flight.to) == (from, to) && flight.until <= state.now)
    }

    pub(super) fn has_reports(shared: &Shared, state: &State, i: usize) -> bool {
        !shared.pasts.at(state.stations[i].place).secy.reports.is_empty()
    }

    /// The next moment at which something is due.
    pub(super) fn next_moment(&self, shared: &Shared, state: &State) -> Option<u64> {
        let timers = state.stations.iter().enumerate().filter_map(|(i, station)| {
            Some(self.moment(shared.pasts.at(station.place).timeout?, i, station.lead))
        });
        let held = state.flights.iter().map(|flight| flight.until);
        timers.chain(held).min().map(|moment| moment.max(state.now))
    }

    pub(super) fn pass(&self, shared: &mut Shared, state: &mut State) {
        let Some(next) = self.next_moment(shared, state) else { return };
        state.now = next;
        for i in 0..state.stations.len() {
            let timeout = shared.pasts.at(state.stations[i].place).timeout;
            if timeout.is_some_and(|timeout| timeout <= self.now_of(state, i)) {
                self.tell(shared, state, i, Told::Timeout);
            }
        }
    }

    /// The state after a step; `None` if the step is not possible.
    pub(super) fn step(&self, shared: &mut Shared, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Deliver { from, to } => {
                let flight = state.flights.remove(Self::head(before, from, to)?);
                self.tell(shared, &mut state, to, Told::Frame(flight.octets));
            }
            Step::Report(i) => {
                let report = *shared.pasts.at(state.stations[i].place).secy.reports.front()?;
                self.tell(shared, &mut state, i, Told::Report(report));
            }
            Step::Pass => self.pass(shared, &mut state),
            _ => {
                state.faults = before.faults.checked_sub(1)?;
                self.fault(shared, &mut state, step)?;
            }
        }
        self.print(shared, &mut state);
        Some(state)
    }

    pub(super) fn fault(&self, shared: &mut Shared, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Lose { from, to } => drop(state.flights.remove(Self::head(state, from, to)?)),
            Step::Copy { from, to } => {
                let flight = state.flights[Self::head(state, from, to)?].clone();
                let octets = Arc::clone(&flight.octets);
                state.flights.push(Flight { until: state.now + micros(HOLD), ..flight });
                let _ = state.flights.remove(Self::head(state, from, to)?);
                self.tell(shared, state, to, Told::Frame(octets));
            }
            Step::Behind { from, to } => {
                let flight = state.flights.remove(Self::head(state, from, to)?);
                state.flights.push(flight);
            }
            Step::Hold { from, to } => {
                let head = Self::head(state, from, to)?;
                state.flights[head].until = state.now + micros(HOLD);
            }
            Step::Cut { from, to, both } => {
                let until = state.now + micros(CUT);
                let ways = if both { vec![(from, to), (to, from)] } else { vec![(from, to)] };
                state.flights.retain(|flight| !ways.contains(&(flight.from, flight.to)));
                state.cuts.extend(ways.iter().map(|(a, b)| (*a, *b, until)));
            }
            Step::Restart(i) => {
                state.starts += 1;
                let Station { lead, .. } = state.stations[i];
                state.stations[i].place = self.begin(shared, state, i, lead);
                self.follow(shared, state, i);
            }
            Step::Leap(i) => {
                state.stations[i].lead += micros(LEAP);
                self.tell(shared, state, i, Told::Timeout);
            }
            Step::Rekey(i) => self.tell(shared, state, i, Told::Rekey),
            Step::Upgrade(i) => {
                shared.pasts.at(state.stations[i].place).passes_on.then_some(())?;
                state.starts += 1;
                state.upgraded = true;
                let seed = self.seed(state, i);
                self.tell(shared, state, i, Told::Upgrade(seed));
            }
            Step::Replay { record, to } => {
                let (_, octets) = state.records.get(record)?.clone();
                self.tell(shared, state, to, Told::Frame(octets));
            }
            Step::Lie(lie) => {
                state.lies += 1;
                let octets = lies::mkpdu(lie, state.lies, &state.last, &state.records)?;
                (0..state.stations.len())
                    .for_each(|to| self.tell(shared, state, to, Told::Frame(Arc::clone(&octets))));
            }
            Step::Deliver { .. } | Step::Report(_) | Step::Pass => return None,
        }
        Some(())
    }

    /// The steps that are possible.
    pub(super) fn possible(&self, state: &State, steps: &mut Vec<Step>) {
        // Fair runs look at what comes after the last fault.
        if state.faults == 0
            || state.wrong.is_some()
            || state.now > (self.setup.after + self.setup.horizon) * 1000
        {
            return;
        }
        let shared = &self.shared();
        let count = state.stations.len();
        let pairs = || (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let ways: Vec<(usize, usize)> =
            pairs().filter(|(a, b)| Self::head(state, *a, *b).is_some()).collect();
        let reports: Vec<usize> = (0..count).filter(|i| Self::has_reports(shared, state, *i)).collect();
        steps.extend(ways.iter().map(|(from, to)| Step::Deliver { from: *from, to: *to }));
        steps.extend(reports.iter().map(|i| Step::Report(*i)));
        if steps.is_empty() {
            steps.push(Step::Pass);
        }
        let is_cut =
            |a, b| state.cuts.iter().any(|(from, to, until)| (*from, *to) == (a, b) && *until > state.now);
        for kind in &self.setup.kinds {
            match kind {
                Kind::Lose => steps.extend(ways.iter().map(|(from, to)| Step::Lose { from: *from, to: *to })),
                Kind::Copy => steps.extend(ways.iter().map(|(from, to)| Step::Copy { from: *from, to: *to })),
                Kind::Behind => {
                    steps.extend(ways.iter().map(|(from, to)| Step::Behind { from: *from, to: *to }))
                }
                Kind::Hold => steps.extend(ways.iter().map(|(from, to)| Step::Hold { from: *from, to: *to })),
                Kind::Cut => {
                    for (from, to) in pairs().filter(|(a, b)| !is_cut(*a, *b)) {
                        steps.push(Step::Cut { from, to, both: false });
                        if from < to {
                            steps.push(Step::Cut { from, to, both: true });
                        }
                    }
                }
                Kind::Restart => steps.extend((0..count).map(Step::Restart)),
                Kind::Leap => steps.extend((0..count).map(Step::Leap)),
                Kind::Rekey => steps.extend((0..count).map(Step::Rekey)),
                Kind::Upgrade => steps.extend((0..count).map(Step::Upgrade)),
                Kind::Replay => steps.extend(
                    (0..state.records.len())
                        .flat_map(|record| (0..count).map(move |to| Step::Replay { record, to })),
                ),
                Kind::Lie => steps.extend(Lie::ALL.map(Step::Lie)),
            }
        }
    }
}

/// The SAK that an MKPDU hands out.
fn handed_out(octets: &[u8]) -> Option<Ki> {
    let mkpdu = Mkpdu::parse(octets).ok()?;
    mkpdu.sets().find_map(|set| match set {
        ParameterSet::DistributedSak(Some(sak)) => Some(Ki { server: mkpdu.basic.mi, kn: sak.kn }),
        _ => None,
    })
}

/// MI and MN of an MKPDU's sender.
pub(super) fn sender(octets: &[u8]) -> Option<(Mi, u32)> {
    let mkpdu = Mkpdu::parse(octets).ok()?;
    Some((mkpdu.basic.mi, mkpdu.basic.mn))
}
