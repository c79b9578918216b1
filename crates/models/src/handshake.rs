//! Two ends of a cell's relation, and a network between them: the state space of their handshake.
//!
//! | step | fault | |
//! |---|---|---|
//! | [`Step::Deliver`] | no | a HELLO that is on its way arrives: any of them, so each order is searched |
//! | [`Step::Data`] | no | a frame arrives that an end protects in its session |
//! | [`Step::Pass`] | no | no HELLO is on its way: time goes on to the next timer |
//! | [`Step::Lose`], [`Step::Copy`], [`Step::Hold`] | yes | a HELLO is lost, comes twice, comes [`HOLD`] later |
//! | [`Step::Cut`] | yes | nothing passes from one end to the other for [`CUT`] |
//! | [`Step::Restart`], [`Step::Ask`] | yes | an end begins anew; its data path wants another session |
//! | [`Step::Replay`], [`Step::Late`] | yes | a HELLO, or a frame of a session, from any time before arrives again |
//!
//! HELLOs take no time, so times are those of timers. Left out: epochs, and the KeyIDs that they count; and what becomes of data while
//! an end that has missed its peer's answers enters another session: it does not verify the one before until its HELLO has arrived.

mod end;
mod properties;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wire::Instant;

use crate::names::{Part, print};
use crate::past::{Pasts, Place};
use end::{Begin, Did, End, Keys, Told, hello_parts};
pub use properties::Wrong;

/// Time within which a fair network leads to one session that both ends use: an end asks anew every 300 ms, and its clock may have been
/// anywhere in the interval of 100 ms.
pub const SETTLED: Duration = Duration::from_millis(400);
/// A held HELLO's delay: longer than an end waits before it asks again.
pub const HOLD: Duration = Duration::from_millis(150);
/// A cut's length: longer than an end waits before it asks anew.
pub const CUT: Duration = Duration::from_millis(350);
/// Time for which a fair network is watched.
const WATCHED: Duration = Duration::from_secs(5);
/// Most steps of a fair run: those that go on without time passing never end.
const MOST_STEPS: usize = 2000;

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Lose,
    Copy,
    Hold,
    Cut,
    Restart,
    Ask,
    Replay,
    Late,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Lose, Self::Copy, Self::Hold, Self::Cut, Self::Restart, Self::Ask, Self::Replay, Self::Late];
}

/// A step; HELLOs on their way, and those of before, are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Step {
    Deliver(usize),
    Data { from: usize },
    Pass,
    Lose(usize),
    Copy(usize),
    Hold(usize),
    Cut { from: usize },
    Restart(usize),
    Ask(usize),
    Replay(usize),
    Late(usize),
}

/// Two ends and what may happen to them.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Most faults in a run.
    pub faults: u8,
    /// Their kinds.
    pub kinds: Vec<Kind>,
    /// Restarts before the search, each followed by a fair run; `None` is a cold start.
    pub after: Option<Vec<usize>>,
    /// True if no end may enter a session in the search: nobody asks for one.
    pub steady: bool,
}

/// A HELLO on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Flight {
    to: usize,
    octets: Arc<[u8]>,
    /// Held until then.
    until: Instant,
}

/// A state of two ends.
#[derive(Clone, Debug)]
pub struct State {
    now: Instant,
    ends: [Place; 2],
    flights: Vec<Flight>,
    /// Until when nothing passes from an end.
    cuts: [Instant; 2],
    /// Every HELLO that was sent, with its destination.
    records: Arc<Vec<(usize, Arc<[u8]>)>>,
    /// Sessions in which an end transmitted, with that end.
    transmitted: Arc<Vec<(usize, Keys)>>,
    /// Sessions that an end entered, at any start.
    entered: Arc<Vec<(usize, Keys)>>,
    starts: u8,
    faults: u8,
    wrong: Option<Arc<Wrong>>,
    print: u64,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        (self.print, self.faults) == (other.print, other.faults)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.print, self.faults).hash(state);
    }
}

/// The model.
pub struct World {
    setup: Setup,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    pasts: Pasts<End>,
    hellos: HashMap<Arc<[u8]>, Arc<[Part]>>,
    /// Time until both ends are settled in a fair network, from these prints on.
    fair: HashMap<u64, Result<Option<Duration>, Arc<Wrong>>>,
    slowest: Duration,
    /// True once the search begins.
    searches: bool,
}

impl World {
    /// A model of two ends.
    pub fn new(setup: Setup) -> Self {
        Self { setup, shared: Mutex::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of states of an end that were met, of states that fair runs passed, and their longest time.
    pub fn passed(&self) -> (usize, usize, Duration) {
        let shared = self.shared();
        (shared.pasts.len(), shared.fair.len(), shared.slowest)
    }

    /// First state of the search.
    fn first(&self) -> State {
        let shared = &mut self.shared();
        // A path that is told is walked again from here.
        shared.searches = false;
        let now = Instant::after_start(Duration::from_secs(1));
        let begin = |shared: &mut Shared, end| shared.pasts.begin(now, Begin { end, start: 0 });
        let mut state = State {
            now,
            ends: [begin(shared, 0), begin(shared, 1)],
            flights: vec![],
            cuts: [Instant::START; 2],
            records: Arc::default(),
            transmitted: Arc::default(),
            entered: Arc::default(),
            starts: 0,
            faults: self.setup.faults,
            wrong: None,
            print: 0,
        };
        for end in self.setup.after.iter().flatten() {
            self.settle(shared, &mut state);
            self.restart(shared, &mut state, *end);
        }
        if self.setup.after.is_some() {
            self.settle(shared, &mut state);
        }
        shared.searches = true;
        self.print(shared, &mut state);
        state
    }

    fn settle(&self, shared: &mut Shared, state: &mut State) {
        for _ in 0..MOST_STEPS {
            let Some(step) = self.fair_step(shared, state).filter(|_| state.wrong.is_none()) else { return };
            *state = self.step(shared, state, step).unwrap_or_else(|| state.clone());
        }
    }

    fn did<'s>(shared: &'s Shared, state: &State, end: usize) -> &'s Did {
        shared.pasts.at(state.ends[end])
    }

    fn print(&self, shared: &mut Shared, state: &mut State) {
        let Shared { pasts, hellos, .. } = shared;
        let mut of = |octets: &Arc<[u8]>| {
            let parts = hellos.entry(Arc::clone(octets)).or_insert_with(|| hello_parts(octets).into());
            Arc::clone(parts)
        };
        let mut more: Vec<Part> = Vec::new();
        for end in 0..2 {
            let due = pasts.at(state.ends[end]).timeout.map(|due| due.since(state.now));
            more.push(Part::plain((due, state.cuts[end].since(state.now))));
            for flight in state.flights.iter().filter(|flight| flight.to == end) {
                more.push(Part::plain(flight.until.since(state.now)));
                more.extend(of(&flight.octets).iter());
            }
            more.push(Part::plain("entered"));
            more.extend(state.entered.iter().filter(|(by, _)| *by == end).flat_map(|(_, keys)| keys.parts()));
            // With no fault to come nobody looks at these.
            if state.faults > 0 {
                let records = state.records.iter().filter(|(to, _)| *to == end);
                more.push(Part::plain((state.starts, "sent")));
                more.extend(records.flat_map(|(_, octets)| of(octets).to_vec()));
                let transmitted = state.transmitted.iter().filter(|(by, _)| *by == end);
                more.extend(transmitted.flat_map(|(_, keys)| keys.parts()));
            }
        }
        more.push(Part::plain(state.wrong.is_some()));
        let ends = state.ends.iter().flat_map(|place| &pasts.at(*place).parts);
        state.print = print(state.now, ends.chain(&more));
    }

    /// Takes what an end did at its new place to the other, and judges it.
    fn follow(&self, shared: &Shared, state: &mut State, end: usize) {
        let did = Self::did(shared, state, end);
        if let Some(wrong) = self.judge(shared, state, end, did) {
            state.wrong.get_or_insert(Arc::new(wrong));
        }
        Arc::make_mut(&mut state.entered).extend(did.entered.iter().map(|keys| (end, *keys)));
        if let Some(keys) = did.transmits.filter(|keys| !state.transmitted.contains(&(end, *keys))) {
            Arc::make_mut(&mut state.transmitted).push((end, keys));
        }
        for octets in &did.sent {
            let record = (1 - end, Arc::clone(octets));
            if !state.records.contains(&record) {
                Arc::make_mut(&mut state.records).push(record);
            }
            if state.cuts[end] <= state.now {
                let octets = Arc::clone(octets);
                state.flights.push(Flight { to: 1 - end, octets, until: Instant::START });
            }
        }
    }

    fn tell(&self, shared: &mut Shared, state: &mut State, end: usize, told: Told) {
        state.ends[end] = shared.pasts.tell(state.ends[end], state.now, told);
        self.follow(shared, state, end);
    }

    fn restart(&self, shared: &mut Shared, state: &mut State, end: usize) {
        state.starts += 1;
        let begin = Begin { end, start: state.starts };
        state.ends[end] = shared.pasts.begin(state.now, begin);
        self.follow(shared, state, end);
    }

    /// HELLOs that may arrive now.
    fn arriving(state: &State) -> impl Iterator<Item = usize> {
        let flights = state.flights.iter().enumerate();
        let first = |(at, flight): &(usize, &Flight)| !state.flights[..*at].contains(flight);
        flights.filter(|(_, flight)| flight.until <= state.now).filter(first).map(|(at, _)| at)
    }

    fn next_moment(shared: &Shared, state: &State) -> Option<Instant> {
        let timers = (0..2).filter_map(|end| Self::did(shared, state, end).timeout);
        timers.chain(state.flights.iter().map(|flight| flight.until)).min().map(|at| at.max(state.now))
    }

    /// True if a frame of this end changes something at the other.
    fn tells_data(shared: &Shared, state: &State, from: usize) -> bool {
        let peer = Self::did(shared, state, 1 - from);
        let keys = Self::did(shared, state, from).transmits;
        keys.is_some_and(|keys| peer.verifies(keys) && peer.transmits != Some(keys.at_peer()))
    }

    /// The state after a step; `None` if the step is not possible.
    fn step(&self, shared: &mut Shared, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Deliver(at) => {
                let Flight { to, octets, .. } = state.flights.remove(at);
                self.tell(shared, &mut state, to, Told::Hello(octets));
            }
            Step::Data { from } => {
                let keys = Self::did(shared, before, from).transmits?;
                self.tell(shared, &mut state, 1 - from, Told::Data(keys));
            }
            Step::Pass => {
                state.now = Self::next_moment(shared, before)?;
                for end in 0..2 {
                    if Self::did(shared, &state, end).timeout.is_some_and(|due| due <= state.now) {
                        self.tell(shared, &mut state, end, Told::Timeout);
                    }
                }
            }
            _ => {
                state.faults = before.faults.checked_sub(1)?;
                self.fault(shared, &mut state, step)?;
            }
        }
        self.print(shared, &mut state);
        Some(state)
    }

    fn fault(&self, shared: &mut Shared, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Lose(at) => drop(state.flights.remove(at)),
            Step::Copy(at) => {
                let Flight { to, octets, .. } = state.flights[at].clone();
                self.tell(shared, state, to, Told::Hello(octets));
            }
            Step::Hold(at) => state.flights[at].until = state.now + HOLD,
            Step::Cut { from } => {
                state.flights.retain(|flight| flight.to == from);
                state.cuts[from] = state.now + CUT;
            }
            Step::Restart(end) => self.restart(shared, state, end),
            Step::Ask(end) => self.tell(shared, state, end, Told::Ask),
            Step::Replay(record) => {
                let (to, octets) = state.records.get(record)?.clone();
                self.tell(shared, state, to, Told::Hello(octets));
            }
            Step::Late(at) => {
                let (from, keys) = *state.transmitted.get(at)?;
                self.tell(shared, state, 1 - from, Told::Data(keys));
            }
            Step::Deliver(_) | Step::Data { .. } | Step::Pass => return None,
        }
        Some(())
    }

    /// The steps that are possible.
    fn possible(&self, state: &State, steps: &mut Vec<Step>) {
        // Fair runs look at what comes after the last fault.
        if state.faults == 0 || state.wrong.is_some() {
            return;
        }
        let shared = &self.shared();
        let arriving: Vec<usize> = Self::arriving(state).collect();
        steps.extend(arriving.iter().map(|at| Step::Deliver(*at)));
        if steps.is_empty() && Self::next_moment(shared, state).is_some() {
            steps.push(Step::Pass);
        }
        let data = (0..2).filter(|from| Self::tells_data(shared, state, *from));
        steps.extend(data.map(|from| Step::Data { from }));
        for kind in &self.setup.kinds {
            match kind {
                Kind::Lose => steps.extend(arriving.iter().map(|at| Step::Lose(*at))),
                Kind::Copy => steps.extend(arriving.iter().map(|at| Step::Copy(*at))),
                Kind::Hold => steps.extend(arriving.iter().map(|at| Step::Hold(*at))),
                Kind::Cut => {
                    let whole = (0..2).filter(|from| state.cuts[*from] <= state.now);
                    steps.extend(whole.map(|from| Step::Cut { from }));
                }
                Kind::Restart => steps.extend((0..2).map(Step::Restart)),
                Kind::Ask => steps.extend((0..2).map(Step::Ask)),
                Kind::Replay => steps.extend((0..state.records.len()).map(Step::Replay)),
                Kind::Late => steps.extend((0..state.transmitted.len()).map(Step::Late)),
            }
        }
    }
}
