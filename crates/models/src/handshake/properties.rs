//! Properties of each state, and of the fair run from it.

use std::sync::Arc;
use std::time::Duration;

use stateright::{Model, Property};

use super::end::Did;
use super::{MOST_STEPS, SETTLED, Shared, State, Step, WATCHED, World};

/// A broken property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A session is entered twice.
    Twice(usize),
    /// An end is confirmed in a session that the other has not entered.
    Unentered(usize),
    /// Both ends are confirmed, in different sessions.
    Apart,
    /// A session was entered though nobody asked for one.
    Moved(usize),
    /// The handshake wants what the data path cannot do.
    Impossible(String),
}

impl World {
    /// The property that an end's last input broke; `state` has not heard of it yet.
    pub(super) fn judge(&self, shared: &Shared, state: &State, end: usize, did: &Did) -> Option<Wrong> {
        let peer = Self::did(shared, state, 1 - end);
        if let Some(wrong) = &did.wrong {
            return Some(Wrong::Impossible(format!("end {end}: {wrong}")));
        }
        let again = |at: usize| {
            let keys = did.entered[at];
            did.entered[..at].contains(&keys) || state.entered.contains(&(end, keys))
        };
        if (0..did.entered.len()).any(again) {
            return Some(Wrong::Twice(end));
        }
        if self.setup.steady && shared.searches && !did.entered.is_empty() {
            return Some(Wrong::Moved(end));
        }
        if did.transmits.is_some_and(|keys| !state.entered.contains(&(1 - end, keys.at_peer()))) {
            return Some(Wrong::Unentered(end));
        }
        if did.is_confirmed() && peer.is_confirmed() && did.newest.map(|keys| keys.at_peer()) != peer.newest {
            return Some(Wrong::Apart);
        }
        None
    }

    /// The next step of a network that loses and delays nothing, and carries no data.
    pub(super) fn fair_step(&self, shared: &Shared, state: &State) -> Option<Step> {
        let arriving = Self::arriving(state).next().map(Step::Deliver);
        arriving.or_else(|| Self::next_moment(shared, state).map(|_| Step::Pass))
    }

    fn is_settled(shared: &Shared, state: &State) -> bool {
        let [one, other] = [0, 1].map(|end| Self::did(shared, state, end));
        one.is_confirmed() && other.is_confirmed() && one.newest.map(|keys| keys.at_peer()) == other.newest
    }

    /// Lets a fair network run from here; cuts and delays that have begun run out. Returns the time until both ends are settled for
    /// good, counted from the end of the last cut and delay; or the property that broke.
    pub fn fair_run(&self, from: &State) -> Result<Option<Duration>, Arc<Wrong>> {
        let shared = &mut self.shared();
        // No fault is to come.
        let mut state = State { faults: 0, ..from.clone() };
        self.print(shared, &mut state);
        let held = from.flights.iter().map(|flight| flight.until);
        let calm = held.chain(from.cuts).fold(from.now, |calm, until| calm.max(until));
        let mut passed = Vec::new();
        let end = loop {
            if let Some(wrong) = &state.wrong {
                break Err(Arc::clone(wrong));
            }
            if let Some(known) = shared.fair.get(&state.print) {
                break known.clone();
            }
            passed.push((state.print, state.now));
            match self.fair_step(shared, &state) {
                None => break Ok(Self::is_settled(shared, &state).then_some(Duration::ZERO)),
                Some(_) if state.now.since(from.now) > WATCHED || passed.len() > MOST_STEPS => {
                    break Ok(None);
                }
                Some(step) => state = self.step(shared, &state, step).unwrap_or(state),
            }
        };
        for (print, now) in passed {
            let from_here = end.clone().map(|time| time.map(|time| time + state.now.since(now)));
            shared.fair.insert(print, from_here);
        }
        let time = end?.map(|time| (state.now + time).since(calm));
        shared.slowest = shared.slowest.max(time.unwrap_or(Duration::MAX));
        Ok(time)
    }

    fn holds(&self, state: &State, is_so: impl Fn(&Wrong) -> bool) -> bool {
        self.fair_run(state).err().is_none_or(|wrong| !is_so(&wrong))
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        self.possible(state, steps);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.step(&mut self.shared(), state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no session is entered twice", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Twice(_)))
            }),
            Property::always(
                "an end transmits in a session that the other has entered",
                |model: &Self, state: &State| {
                    model.holds(state, |wrong| matches!(wrong, Wrong::Unentered(_)))
                },
            ),
            Property::always("confirmed ends are in one session", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Apart))
            }),
            Property::always("nobody moves a running session", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Moved(_)))
            }),
            Property::always("a data path can do what it is told", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Impossible(_)))
            }),
            Property::always("a fair network leads to one session in time", |model: &Self, state: &State| {
                let time = model.fair_run(state);
                time.is_err() || time.is_ok_and(|time| time.is_some_and(|time| time <= SETTLED))
            }),
        ]
    }
}
