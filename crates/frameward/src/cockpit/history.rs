//! The last day: counts of gateways a minute, and changes of each. In memory alone, and bounded.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::overview::{Overview, State, Verdict};

/// Minutes of a day.
const MINUTES: usize = 1440;
/// Changes that are kept.
const EVENTS: usize = 4096;

/// The last day.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct History {
    states: [State; 6],
    verdicts: [Verdict; 5],
    minutes: VecDeque<Minute>,
    events: VecDeque<Event>,
    /// Last state of each gateway.
    #[serde(skip)]
    last: BTreeMap<String, Standing>,
}

/// Counts at the end of a minute.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Minute {
    /// Seconds since 1970.
    time: u64,
    states: [u64; 6],
    verdicts: [u64; 5],
}

/// A change of a gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Event {
    time: u64,
    gateway: String,
    before: Standing,
    after: Standing,
    cause: String,
}

/// State of a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
struct Standing {
    state: State,
    verdict: Verdict,
}

impl Default for History {
    fn default() -> Self {
        Self {
            states: State::ALL,
            verdicts: Verdict::ALL,
            minutes: VecDeque::new(),
            events: VecDeque::new(),
            last: BTreeMap::new(),
        }
    }
}

impl History {
    /// Takes what is now. A gateway that is new in the inventory is no change.
    pub(super) fn add(&mut self, overview: &Overview) {
        let mut minute = Minute { time: overview.time / 60 * 60, states: [0; 6], verdicts: [0; 5] };
        for gateway in &overview.gateways {
            let after = Standing { state: gateway.state, verdict: gateway.verdict };
            minute.states[after.state as usize] += 1;
            minute.verdicts[after.verdict as usize] += 1;
            match self.last.insert(gateway.name.clone(), after) {
                Some(before) if before != after => {
                    let (time, gateway, cause) = (overview.time, gateway.name.clone(), gateway.cause.clone());
                    push(&mut self.events, EVENTS, Event { time, gateway, before, after, cause });
                }
                _ => {}
            }
        }
        self.last.retain(|name, _| overview.gateways.binary_search_by(|one| one.name.cmp(name)).is_ok());
        // The same minute once more, or a clock that was put back: what is last counts.
        while self.minutes.back().is_some_and(|last| last.time >= minute.time) {
            self.minutes.pop_back();
        }
        push(&mut self.minutes, MINUTES, minute);
    }
}

fn push<T>(queue: &mut VecDeque<T>, most: usize, value: T) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
mod tests;
