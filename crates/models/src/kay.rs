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
//! | [`Step::Replay`] | yes | an MKPDU with a SAK from the past arrives again |
//! | [`Step::Lie`] | yes | a member that has the CAK says what is not true |
//!
//! MKPDUs and SecYs take no time, so times are those of timers. What the model leaves out: PNs (no data is sent), other makes of
//! KaYs, changes of settings.

mod lies;
pub mod pasts;
mod print;
mod secy;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mka::{Announced, OnPeerLoss, Settings, SuiteRule, SuiteTiming};
use stateright::{Model, Property};
use suite::CipherSuite;
use wire::mkpdu::{Capability, Confidentiality, Mkpdu, ParameterSet};
use wire::{Instant, Ki, MacAddr, Mi, Sci};

pub use lies::Lie;
use pasts::{Begin, Past, Pasts, Place, Told};
use print::{Token, frame_tokens};
use secy::Begun;

/// Time within which a fair network leads to one SAK that all use.
pub const SECURED: Duration = Duration::from_secs(8);
/// A cut's length: longer than the life time of a peer.
pub const CUT: Duration = Duration::from_millis(7000);
/// A sleep's length.
pub const LEAP: Duration = Duration::from_millis(4000);
/// A held MKPDU's delay.
pub const HOLD: Duration = Duration::from_millis(700);
/// How long a fair network is watched.
const WATCHED: u64 = 40_000_000;
/// A SAK takes effect after this time, whoever lacks it.
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
    Replay { record: usize, to: usize },
    Lie(Lie),
}

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A KaY protects with two SAKs.
    TwoSaks(String),
    /// A station sends under a SAK that a member does not accept.
    Unready(String),
    /// A SAK, a nonce or an SSCI comes again.
    Twice(String),
    /// A KaY told its SecY what cannot be done.
    Impossible(String),
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
    pasts: Pasts,
    frames: HashMap<Arc<[u8]>, Arc<[Token]>>,
    /// For prints that a fair run has passed: microseconds until all are secured, if ever.
    fair: HashMap<u64, Option<u64>>,
    slowest: u64,
    /// What went wrong in fair runs from these prints.
    wrong: HashMap<u64, Arc<Wrong>>,
}

/// Settings of station `i`.
fn settings(i: usize, suite: CipherSuite) -> Settings {
    let source = MacAddr([2, 0, 0, 0, 0, i as u8 + 1]);
    Settings {
        sci: Sci::new(source, 1),
        source,
        destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
        priority: 16,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Only(suite),
        announced: Announced {
            reassembles: false,
            splits: false,
            largest_sdu: 0,
            suites: vec![SuiteTiming { suite, nanoseconds: 100 }],
        },
        fragment: false,
        concatenate: false,
        delay_protect: false,
        sak_lifetime: None,
        on_peer_loss: OnPeerLoss::Block,
        peers: vec![],
        accept_integrity: false,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Setup {
    /// So many stations with one CAK, from a cold start, with no kind of fault: but a fault is left, so all orders are searched.
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

    fn begin(&self, shared: &mut Shared, state: &State, i: usize, lead: u64) -> Place {
        let mut seed = [0; 32];
        (seed[0], seed[1]) = (i as u8, state.starts);
        let begin = Begin { settings: settings(i, self.setup.suite), caks: self.setup.caks[i].clone(), seed };
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

    /// Takes what a station did at its new place to the others, and judges it.
    fn follow(&self, shared: &mut Shared, state: &mut State, i: usize) {
        let pasts = &shared.pasts;
        let present = pasts.at(state.stations[i].place);
        if let Some(wrong) = &present.wrong {
            state.wrong.get_or_insert_with(|| Arc::new(Wrong::Impossible(format!("station {i}: {wrong}"))));
        }
        if present.transmitted > 1 {
            state.wrong.get_or_insert_with(|| Arc::new(Wrong::TwoSaks(format!("station {i}"))));
        }
        for begun in &present.done.begun {
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

    fn send(&self, state: &mut State, from: usize, octets: &Arc<[u8]>) {
        for to in (0..self.setup.caks.len()).filter(|to| *to != from) {
            let is_cut = |(a, b, until): &(usize, usize, u64)| (*a, *b) == (from, to) && state.now < *until;
            if !state.cuts.iter().any(is_cut) {
                state.flights.push(Flight { from, to, octets: Arc::clone(octets), until: 0 });
            }
        }
    }

    /// Whom a station would send to without being understood.
    fn unready(&self, pasts: &Pasts, state: &State, i: usize, ki: Ki) -> Option<String> {
        let present = pasts.at(state.stations[i].place);
        let sas = present.secy.find(ki)?;
        if self.now_of(state, i).since(sas.since) >= TRANSMIT_DELAY {
            return None;
        }
        let all =
            || state.stations.iter().map(|station| (pasts.begin_of(station.place), pasts.at(station.place)));
        let server = all().find(|(begin, _)| Some(begin.settings.sci) == present.key_server);
        if server.is_some_and(|(_, server)| server.secy.transmits == Some(ki)) {
            return None;
        }
        let own = pasts.begin_of(state.stations[i].place).settings.sci;
        let is_deaf = |(begin, peer): &(&Begin, &pasts::Present)| {
            let sci = begin.settings.sci;
            // It is there under the MI that is live here, and was so when the SAK came.
            let is_member = present.live.contains(&(sci, peer.mi)) && sas.live_then.contains(&(sci, peer.mi));
            let accepts = peer.secy.find(ki).is_some_and(|sas| {
                sas.installed && (sas.receive.contains(&own) || sas.expelled.contains(&own))
            });
            is_member && !accepts
        };
        let (deaf, _) = all().find(is_deaf)?;
        Some(format!("station {i} sends under {ki}, which {} does not accept", deaf.settings.sci))
    }

    fn print(&self, shared: &mut Shared, state: &mut State) {
        let Shared { pasts, frames, .. } = shared;
        let mut hasher = DefaultHasher::new();
        let flights: Vec<(Instant, Arc<[Token]>)> = state
            .flights
            .iter()
            .map(|flight| {
                (flight.from, flight.to, flight.until.saturating_sub(state.now)).hash(&mut hasher);
                let tokens = frames
                    .entry(Arc::clone(&flight.octets))
                    .or_insert_with(|| frame_tokens(&flight.octets).into());
                (Instant::START, Arc::clone(tokens))
            })
            .collect();
        for (from, to, until) in state.cuts.iter().filter(|(.., until)| *until > state.now) {
            (from, to, until - state.now).hash(&mut hasher);
        }
        (state.records.len(), state.wrong.is_some()).hash(&mut hasher);
        let stations = state.stations.iter().enumerate().map(|(i, station)| {
            (self.clock(state.now, i, station.lead), &pasts.at(station.place).tokens[..])
        });
        let flights = flights.iter().map(|(at, tokens)| (*at, &tokens[..]));
        print::hash(stations.chain(flights), &mut hasher);
        state.print = hasher.finish();
    }

    fn tell(&self, shared: &mut Shared, state: &mut State, i: usize, told: Told) {
        let now = self.now_of(state, i);
        state.stations[i].place = shared.pasts.tell(state.stations[i].place, now, told);
        self.follow(shared, state, i);
    }

    /// Index of the oldest MKPDU that is on its way from one to the other and not held.
    fn head(state: &State, from: usize, to: usize) -> Option<usize> {
        state
            .flights
            .iter()
            .position(|flight| (flight.from, flight.to) == (from, to) && flight.until <= state.now)
    }

    fn has_reports(shared: &Shared, state: &State, i: usize) -> bool {
        !shared.pasts.at(state.stations[i].place).secy.reports.is_empty()
    }

    /// The next moment at which something is due.
    fn next_moment(&self, shared: &Shared, state: &State) -> Option<u64> {
        let timers = state.stations.iter().enumerate().filter_map(|(i, station)| {
            Some(self.moment(shared.pasts.at(station.place).timeout?, i, station.lead))
        });
        let held = state.flights.iter().map(|flight| flight.until);
        timers.chain(held).min().map(|moment| moment.max(state.now))
    }

    fn pass(&self, shared: &mut Shared, state: &mut State) {
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
    fn step(&self, shared: &mut Shared, before: &State, step: Step) -> Option<State> {
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

    fn fault(&self, shared: &mut Shared, state: &mut State, step: Step) -> Option<()> {
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

    /// What a network does that loses and delays nothing.
    fn fair_step(&self, shared: &Shared, state: &State) -> Step {
        let report = (0..state.stations.len()).find(|i| Self::has_reports(shared, state, *i));
        let flight = state.flights.iter().find(|flight| flight.until <= state.now);
        match (report, flight) {
            (Some(i), _) => Step::Report(i),
            (None, Some(flight)) => Step::Deliver { from: flight.from, to: flight.to },
            (None, None) => Step::Pass,
        }
    }

    /// True if all protect with one SAK that all accept, and one of them is key server.
    fn is_secured(shared: &Shared, state: &State) -> bool {
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

    /// Number of station states that were met, and of group states that fair runs passed.
    pub fn passed(&self) -> (usize, usize) {
        let shared = self.shared();
        (shared.pasts.len(), shared.fair.len())
    }

    /// Where the search begins.
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

    /// What each station was told since its last start, as a log of a KaY has it.
    pub fn told(&self, state: &State) -> Vec<Past> {
        let shared = self.shared();
        state.stations.iter().map(|station| shared.pasts.past(station.place)).collect()
    }

    fn holds(&self, state: &State, is_so: impl Fn(&Wrong) -> bool) -> bool {
        self.fair_run(state).err().is_none_or(|wrong| !is_so(&wrong))
    }
}

/// What comes again with this SAK.
fn again(earlier: &[Begun], begun: &Begun) -> Option<String> {
    let Begun { sci, ki, key, sscis } = begun;
    for other in earlier {
        if (other.sci, other.key) == (*sci, *key) {
            return Some(format!("{ki} begins twice: its PNs come again"));
        }
        if (other.ki == *ki) != (other.key == *key) {
            return Some(format!("{ki} and {} for two SAKs, or one SAK with two names", other.ki));
        }
        if other.ki == *ki
            && let Some((sci, ssci)) =
                other.sscis.iter().find(|(sci, ssci)| sscis.get(sci).is_some_and(|known| known != *ssci))
        {
            return Some(format!("{sci} has SSCI {} under {ki}, and another one", ssci.0));
        }
    }
    let mut numbers: Vec<u32> = sscis.values().map(|ssci| ssci.0).collect();
    numbers.sort_unstable();
    numbers
        .windows(2)
        .any(|pair| pair[0] == pair[1])
        .then(|| format!("two stations have one SSCI under {ki}"))
}

/// The SAK that an MKPDU hands out.
fn handed_out(octets: &[u8]) -> Option<Ki> {
    let mkpdu = Mkpdu::parse(octets).ok()?;
    mkpdu.sets().find_map(|set| match set {
        ParameterSet::DistributedSak(Some(sak)) => Some(Ki { server: mkpdu.basic.mi, kn: sak.kn }),
        _ => None,
    })
}

/// MI of whoever sent an MKPDU.
fn sender(octets: &[u8]) -> Option<(Mi, u32)> {
    let mkpdu = Mkpdu::parse(octets).ok()?;
    Some((mkpdu.basic.mi, mkpdu.basic.mn))
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
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
                Kind::Replay => steps.extend(
                    (0..state.records.len())
                        .flat_map(|record| (0..count).map(move |to| Step::Replay { record, to })),
                ),
                Kind::Lie => steps.extend(Lie::ALL.map(Step::Lie)),
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.step(&mut self.shared(), state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no KaY protects with two SAKs", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::TwoSaks(_)))
            }),
            Property::always(
                "nobody sends under a SAK that a member does not accept",
                |model: &Self, state: &State| model.holds(state, |wrong| matches!(wrong, Wrong::Unready(_))),
            ),
            Property::always("no SAK, nonce or SSCI comes twice", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Twice(_)))
            }),
            Property::always("a SecY can do what it is told", |model: &Self, state: &State| {
                model.holds(state, |wrong| matches!(wrong, Wrong::Impossible(_)))
            }),
            Property::always("a fair network leads to one SAK in time", |model: &Self, state: &State| {
                let time = model.fair_run(state);
                time.is_err() || time.is_ok_and(|time| time.is_some_and(|time| time <= model.setup.secured))
            }),
        ]
    }
}
