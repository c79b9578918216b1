//! KaYs on a bus: the state space of a group.
//!
//! | step | fault | |
//! |---|---|---|
//! | [`Step::Deliver`] | no | the oldest MKPDU of one station arrives at another |
//! | [`Step::Report`] | no | a SecY has done what it was told |
//! | [`Step::Pass`] | no | nothing is on its way: time goes on to the next timer |
//! | [`Step::Lose`], [`Step::Copy`], [`Step::Behind`], [`Step::Hold`] | yes | that MKPDU is lost, comes twice, is overtaken by all behind it, comes later |
//! | [`Step::Cut`] | yes | nothing passes between two stations, one way or both, for [`CUT`] |
//! | [`Step::Restart`], [`Step::Leap`], [`Step::Rekey`] | yes | a station begins anew, sleeps for [`LEAP`], or wants another SAK |
//! | [`Step::Upgrade`] | yes | another KaY goes on in the place of a station's, with what that one passes on |
//! | [`Step::Replay`] | yes | an MKPDU with a SAK from the past arrives again |
//! | [`Step::Lie`] | yes | a member that has the CAK says what is not true |
//!
//! MKPDUs and SecYs take no time, so times are those of timers. The model leaves out: PNs (no data is sent), other makes of
//! KaYs, changes of settings.

mod fair;
mod lies;
mod print;
mod properties;
mod secy;
pub mod station;
mod steps;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use suite::CipherSuite;
use wire::{Instant, Ki, MacAddr};

use crate::past::{Past, Pasts, Place};

use fair::Secured;
pub use lies::Lie;
use print::{Token, frame_tokens};
pub use properties::Wrong;
use secy::Begun;
use station::{Begin, Told};

/// Time within which a fair network leads to one SAK that all use, and keep in use.
pub const SECURED: Duration = Duration::from_secs(8);
/// A cut's length: longer than the life time of a peer.
pub const CUT: Duration = Duration::from_millis(7000);
/// A sleep's length.
pub const LEAP: Duration = Duration::from_millis(4000);
/// A held MKPDU's delay.
pub const HOLD: Duration = Duration::from_millis(700);
/// Time for which a fair network is watched.
const WATCHED: u64 = 40_000_000;
/// Time after which a SAK takes effect though members lack it.
const TRANSMIT_DELAY: Duration = Duration::from_secs(6);

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Lose,
    Copy,
    Behind,
    Hold,
    Cut,
    Restart,
    Leap,
    Rekey,
    Upgrade,
    Replay,
    Lie,
}

/// A step; stations are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Step {
    Deliver { from: usize, to: usize },
    Report(usize),
    Pass,
    Lose { from: usize, to: usize },
    Copy { from: usize, to: usize },
    Behind { from: usize, to: usize },
    Hold { from: usize, to: usize },
    Cut { from: usize, to: usize, both: bool },
    Restart(usize),
    Leap(usize),
    Rekey(usize),
    Upgrade(usize),
    Replay { record: usize, to: usize },
    Lie(Lie),
}

/// A group and what may happen to it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// For each station the octets of its CAKs.
    pub caks: Vec<Vec<u8>>,
    /// The suite.
    pub suite: CipherSuite,
    /// For each station, how much faster its clock is, in millionths.
    pub skew: Vec<i64>,
    /// Most faults in a run.
    pub faults: u8,
    /// Their kinds.
    pub kinds: Vec<Kind>,
    /// Time of fair running before the search begins, in milliseconds: 0 is a cold start.
    pub after: u64,
    /// Time within which faults come, in milliseconds.
    pub horizon: u64,
    /// Time within which a fair network has to lead to one SAK.
    pub secured: Duration,
}

/// An MKPDU on its way.
#[derive(Clone, Debug)]
struct Flight {
    from: usize,
    to: usize,
    octets: Arc<[u8]>,
    /// Held until then, in microseconds.
    until: u64,
}

/// A station in a state.
#[derive(Clone, Copy, Debug)]
struct Station {
    place: Place,
    /// Its clock's lead by sleeps, in microseconds.
    lead: u64,
}

/// A state of a group.
#[derive(Clone, Debug)]
pub struct State {
    now: u64,
    stations: Vec<Station>,
    flights: Vec<Flight>,
    /// From whom to whom nothing passes, and until when.
    cuts: Vec<(usize, usize, u64)>,
    /// MKPDUs that hand a SAK out, one for each.
    records: Arc<Vec<(Ki, Arc<[u8]>)>>,
    /// SAKs that stations began with.
    begun: Arc<Vec<Begun>>,
    /// The last MKPDU of each station.
    last: Vec<Option<Arc<[u8]>>>,
    starts: u8,
    /// A KaY goes on in the place of another one. Its print is the same, and what follows is to be seen all the same.
    upgraded: bool,
    lies: u32,
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
    pasts: Pasts<station::Station>,
    frames: HashMap<Arc<[u8]>, Arc<[Token]>>,
    /// Ends of fair runs from these prints.
    fair: HashMap<u64, Result<Secured, Arc<Wrong>>>,
    slowest: u64,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Setup {
    /// Stations with one CAK, from a cold start, without faults. The one fault that is left has all orders searched.
    pub fn group(stations: usize) -> Self {
        Self {
            caks: vec![vec![1]; stations],
            suite: CipherSuite::GcmAes128,
            skew: vec![0; stations],
            faults: 1,
            kinds: vec![],
            after: 0,
            horizon: 12_000,
            secured: SECURED,
        }
    }
}

impl World {
    /// A model of this group.
    pub fn new(setup: Setup) -> Self {
        Self { setup, shared: Mutex::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A station's clock.
    fn clock(&self, now: u64, i: usize, lead: u64) -> Instant {
        let skewed = i128::from(now) + i128::from(now) * i128::from(self.setup.skew[i]) / 1_000_000;
        Instant::after_start(Duration::from_micros(1_000_000_000 + skewed as u64 + lead))
    }

    /// The moment at which a station's clock shows `at`.
    fn moment(&self, at: Instant, i: usize, lead: u64) -> u64 {
        let local = print::microseconds(at).saturating_sub(1_000_000_000 + lead);
        let mut now = (i128::from(local) * 1_000_000 / i128::from(1_000_000 + self.setup.skew[i])) as u64;
        while self.clock(now, i, lead) < at {
            now += 1;
        }
        now
    }

    fn now_of(&self, state: &State, i: usize) -> Instant {
        self.clock(state.now, i, state.stations[i].lead)
    }

    /// Seed of a program that a station starts now.
    fn seed(&self, state: &State, i: usize) -> [u8; 32] {
        let mut seed = [0; 32];
        (seed[0], seed[1]) = (i as u8, state.starts);
        seed
    }

    fn begin(&self, shared: &mut Shared, state: &State, i: usize, lead: u64) -> Place {
        let seed = self.seed(state, i);
        let source = MacAddr([2, 0, 0, 0, 0, i as u8 + 1]);
        let settings = station::settings(source, self.setup.suite, false);
        let begin = Begin { settings, caks: self.setup.caks[i].clone(), seed };
        shared.pasts.begin(self.clock(state.now, i, lead), begin)
    }

    /// The group, cold, its first MKPDUs on their way.
    fn cold(&self) -> State {
        let count = self.setup.caks.len();
        let mut state = State {
            now: 0,
            stations: vec![],
            flights: vec![],
            cuts: vec![],
            records: Arc::default(),
            begun: Arc::default(),
            last: vec![None; count],
            starts: 0,
            upgraded: false,
            lies: 0,
            faults: self.setup.faults,
            wrong: None,
            print: 0,
        };
        let shared = &mut self.shared();
        for i in 0..count {
            let place = self.begin(shared, &state, i, 0);
            state.stations.push(Station { place, lead: 0 });
        }
        (0..count).for_each(|i| self.follow(shared, &mut state, i));
        self.print(shared, &mut state);
        state
    }

    fn print(&self, shared: &mut Shared, state: &mut State) {
        let Shared { pasts, frames, .. } = shared;
        let mut hasher = DefaultHasher::new();
        let mut tokens_of = |octets: &Arc<[u8]>| {
            let tokens = frames.entry(Arc::clone(octets)).or_insert_with(|| frame_tokens(octets).into());
            Arc::clone(tokens)
        };
        let mut lists: Vec<Arc<[Token]>> = Vec::new();
        for flight in &state.flights {
            (flight.from, flight.to, flight.until.saturating_sub(state.now)).hash(&mut hasher);
            lists.push(tokens_of(&flight.octets));
        }
        for (from, to, until) in state.cuts.iter().filter(|(.., until)| *until > state.now) {
            (from, to, until - state.now).hash(&mut hasher);
        }
        (state.wrong.is_some(), state.upgraded).hash(&mut hasher);
        lists.push(print::begun_tokens(&state.begun).into());
        // With no fault to come nobody looks at these.
        if state.faults > 0 {
            (state.starts, state.lies, state.records.len()).hash(&mut hasher);
            lists.extend(state.records.iter().map(|(_, octets)| tokens_of(octets)));
            if self.setup.kinds.contains(&Kind::Lie) {
                lists.extend(state.last.iter().flatten().map(tokens_of));
            }
        }
        let stations = state.stations.iter().enumerate().map(|(i, station)| {
            (self.clock(state.now, i, station.lead), &pasts.at(station.place).tokens[..])
        });
        let others = lists.iter().map(|tokens| (Instant::START, &tokens[..]));
        print::hash(stations.chain(others), &mut hasher);
        state.print = hasher.finish();
    }

    /// Number of station states that were met, and of group states that fair runs passed.
    pub fn passed(&self) -> (usize, usize) {
        let shared = self.shared();
        (shared.pasts.len(), shared.fair.len())
    }

    /// First state of the search.
    fn first(&self) -> State {
        let mut state = self.cold();
        let shared = &mut self.shared();
        while state.now < self.setup.after * 1000
            || (self.setup.after > 0 && self.fair_step(shared, &state) != Step::Pass)
        {
            let step = self.fair_step(shared, &state);
            state = self.step(shared, &state, step).unwrap_or(state);
        }
        state
    }

    /// Runs a trace.
    ///
    /// # Errors
    /// The first step that was not possible.
    pub fn run(&self, trace: &[Step]) -> Result<State, Step> {
        trace
            .iter()
            .try_fold(self.first(), |state, step| self.step(&mut self.shared(), &state, *step).ok_or(*step))
    }

    /// Inputs of each station since its last start, as a log of a KaY has them: of one without upgrades.
    pub fn told(&self, state: &State) -> Vec<Past<Begin, Told>> {
        let shared = self.shared();
        state.stations.iter().map(|station| shared.pasts.past(station.place)).collect()
    }
}
