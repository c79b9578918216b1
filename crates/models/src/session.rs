//! Two sites, the channel between them, and the forwarding half of each: the state space of their sessions.
//!
//! | step | fault | |
//! |---|---|---|
//! | [`Step::Deliver`] | no | the oldest message of a stream arrives; the two streams of a connection overtake each other |
//! | [`Step::Command`], [`Step::Event`] | no | the oldest command reaches a forwarding half, the oldest event a session |
//! | [`Step::Connect`] | no | the sites have a connection again |
//! | [`Step::Notice`] | no | a site learns that its connection is gone; the next one may come first |
//! | [`Step::Packet`] | no | a packet arrives whose number its sender takes for known, and the other site does not know |
//! | [`Step::Pass`] | no | nothing is on its way: time goes on to the next timer |
//! | [`Step::Break`] | yes | the connection is gone, with all that is on its way |
//! | [`Step::Restart`] | yes | a site begins anew: another instance, an empty forwarding half |
//! | [`Step::Begin`], [`Step::End`] | yes | a flow begins, or one ends |
//! | [`Step::Epoch`] | yes | numbers run short, or the epoch in reserve comes into use |
//! | [`Step::Forget`], [`Step::Lose`] | yes | a forwarding half has lost a flow of the peer, or its lane |
//!
//! The channel is QUIC's: what arrives is what was sent, in the order of its stream. Left out: rings that are full, refusals for lack of
//! room, epochs that end by their age, flow numbers that are assigned again.

mod half;
mod properties;
mod site;

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tunnel::{Command, Mode};
use wire::Instant;
use wire::tunnel::{Flow, FlowIndex};

use crate::names::{Part, print};
use crate::past::{Pasts, Place};
use half::{Half, Ledger};
pub use properties::Wrong;
use site::{Begin, Did, Site, Told, command_parts, message_parts};

/// Time within which a channel that stays leads to epochs in both directions and to known flows: the minimum time between two epochs, and
/// that between two events of unknown numbers for each flow that was forgotten.
pub const SETTLED: Duration = Duration::from_secs(3);
/// Minimum time between two events of unknown numbers.
const UNKNOWN: Duration = Duration::from_secs(1);
/// Time for which a fair world is watched.
const WATCHED: Duration = Duration::from_secs(10);
/// Most steps of a fair run: those that go on without time passing never end.
const MOST_STEPS: usize = 2000;

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Break,
    Restart,
    Begin,
    End,
    Epoch,
    Forget,
    Lose,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Break, Self::Restart, Self::Begin, Self::End, Self::Epoch, Self::Forget, Self::Lose];
}

/// A step; sites and streams are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Step {
    Deliver { from: usize, stream: usize },
    Command(usize),
    Event(usize),
    Connect,
    Notice(usize),
    Packet { from: usize, index: FlowIndex },
    Pass,
    Break,
    Restart(usize),
    Begin(usize),
    End(usize),
    Epoch(usize),
    Forget(usize),
    Lose(usize),
}

/// Two sites and what may happen to them.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Header protection.
    pub mode: Mode,
    /// Most faults in a run.
    pub faults: u8,
    /// Their kinds.
    pub kinds: Vec<Kind>,
    /// Number of flows of each site.
    pub flows: [u8; 2],
    /// True if the search begins with two sites that are settled.
    pub settled: bool,
    /// For each site, true if commands and events take no time.
    pub at_once: [bool; 2],
}

/// A site in a state.
#[derive(Clone, Debug)]
struct SiteState {
    place: Place,
    start: u8,
    half: Half,
    /// Commands on their way to the forwarding half.
    commands: VecDeque<Command>,
    /// Messages on their way to the peer, by stream.
    streams: [VecDeque<Vec<u8>>; 2],
    /// True if it has not heard that its connection is gone.
    unaware: bool,
}

/// A state of two sites.
#[derive(Clone, Debug)]
pub struct State {
    now: Instant,
    sites: [SiteState; 2],
    connected: bool,
    ledger: Ledger,
    flows: u8,
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
    pasts: Pasts<Site>,
    /// Time until both sites are settled in a fair world, from these prints on.
    fair: std::collections::HashMap<u64, Result<Option<Duration>, Arc<Wrong>>>,
    slowest: Duration,
}

/// A flow of its own number.
fn flow(number: u8) -> Flow {
    let mut octets = [0; 24];
    (octets[0], octets[11]) = (0x20, number + 1);
    Flow::parse(&octets).expect("invariant: a flow")
}

impl World {
    /// A model of two sites.
    pub fn new(setup: Setup) -> Self {
        Self { setup, shared: Mutex::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of states of a session that were met, of states that fair runs passed, and their longest time.
    pub fn passed(&self) -> (usize, usize, Duration) {
        let shared = self.shared();
        (shared.pasts.len(), shared.fair.len(), shared.slowest)
    }

    fn begin(&self, shared: &mut Shared, now: Instant, site: usize, start: u8, half: Half) -> SiteState {
        let place = shared.pasts.begin(now, Begin { site, start, mode: self.setup.mode });
        SiteState {
            place,
            start,
            half,
            commands: VecDeque::new(),
            streams: Default::default(),
            unaware: false,
        }
    }

    /// First state of the search.
    fn first(&self) -> State {
        let shared = &mut self.shared();
        let now = Instant::after_start(Duration::from_secs(1));
        let [first, second] = self.setup.flows;
        let half = |flows: Range<u8>| Half::new(self.setup.mode, flows.map(flow));
        let mut sites = [0..first, first..first + second].map(half).into_iter();
        let mut state = State {
            now,
            sites: [0, 1].map(|site| {
                let half = sites.next().expect("invariant: two halves");
                self.begin(shared, now, site, 0, half)
            }),
            connected: false,
            ledger: Ledger::default(),
            flows: first + second,
            faults: self.setup.faults,
            wrong: None,
            print: 0,
        };
        self.settle_rings(shared, &mut state);
        self.print(shared, &mut state);
        for _ in 0..MOST_STEPS {
            let step = self.fair_step(shared, &state).filter(|_| self.setup.settled && state.wrong.is_none());
            let Some(step) = step else { break };
            state = self.step(shared, &state, step).unwrap_or(state);
        }
        state
    }

    fn did<'s>(shared: &'s Shared, state: &State, site: usize) -> &'s Did {
        shared.pasts.at(state.sites[site].place)
    }

    fn print(&self, shared: &Shared, state: &mut State) {
        let mut more: Vec<Part> = Vec::new();
        for (number, site) in state.sites.iter().enumerate() {
            let due = Self::did(shared, state, number).timeout.map(|due| due.since(state.now));
            more.push(Part::plain((due, site.start, site.unaware)));
            for stream in &site.streams {
                more.push(Part::plain(stream.len()));
                more.extend(stream.iter().flat_map(|message| message_parts(message)));
            }
            more.push(Part::plain(site.commands.len()));
            more.extend(site.commands.iter().flat_map(command_parts));
            more.extend(site.half.parts());
        }
        more.push(Part::plain((state.connected, state.flows, state.wrong.is_some())));
        let sites = state.sites.iter().flat_map(|site| &shared.pasts.at(site.place).parts);
        state.print = print(state.now, sites.chain(&more));
    }

    fn tell(&self, shared: &mut Shared, state: &mut State, site: usize, told: Told) {
        state.sites[site].place = shared.pasts.tell(state.sites[site].place, state.now, told);
        let did = Self::did(shared, state, site);
        if let Some(wrong) = &did.wrong {
            let wrong = || Arc::new(Wrong::Fault(format!("site {site}: {wrong}")));
            state.wrong.get_or_insert_with(wrong);
        }
        let here = &mut state.sites[site];
        here.commands.extend(did.commands.iter().cloned());
        if state.connected {
            here.streams[0].extend(did.control.iter().cloned());
            here.streams[1].extend(did.announcements.iter().cloned());
        }
    }

    fn command(&self, state: &mut State, site: usize) -> Option<()> {
        let here = &mut state.sites[site];
        let (command, start) = (here.commands.pop_front()?, here.start);
        if let Err(wrong) = here.half.handle(&mut state.ledger, command, start) {
            state.wrong.get_or_insert(Arc::new(wrong));
        }
        Some(())
    }

    fn event(&self, shared: &mut Shared, state: &mut State, site: usize) -> Option<()> {
        let event = state.sites[site].half.events.pop_front()?;
        self.tell(shared, state, site, Told::Event(event));
        Some(())
    }

    /// Carries commands and events if they take no time.
    fn settle_rings(&self, shared: &mut Shared, state: &mut State) {
        while (0..2).any(|site| {
            self.setup.at_once[site]
                && (self.command(state, site).is_some() || self.event(shared, state, site).is_some())
        }) {}
    }

    fn lose(state: &mut State) {
        state.sites.iter_mut().for_each(|site| site.streams = Default::default());
    }

    /// The state after a step; `None` if the step is not possible.
    fn step(&self, shared: &mut Shared, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Deliver { from, stream } => {
                let message = state.sites[from].streams[stream].pop_front()?;
                self.tell(shared, &mut state, 1 - from, Told::Message(message));
            }
            Step::Command(site) => self.command(&mut state, site)?,
            Step::Event(site) => self.event(shared, &mut state, site)?,
            Step::Connect => {
                state.connected = true;
                for site in 0..2 {
                    state.sites[site].unaware = false;
                    self.tell(shared, &mut state, site, Told::Connected);
                }
            }
            Step::Notice(site) => {
                state.sites[site].unaware = false;
                self.tell(shared, &mut state, site, Told::Disconnected);
            }
            Step::Packet { from, index } => {
                state.now = before.now + UNKNOWN;
                state.sites[1 - from].half.meet(index);
            }
            Step::Pass => {
                state.now = Self::next_moment(shared, before)?;
                for site in 0..2 {
                    if Self::did(shared, &state, site).timeout.is_some_and(|due| due <= state.now) {
                        self.tell(shared, &mut state, site, Told::Timeout);
                    }
                }
            }
            _ => {
                state.faults = before.faults.checked_sub(1)?;
                self.fault(shared, &mut state, step)?;
            }
        }
        self.settle_rings(shared, &mut state);
        self.judge(&mut state);
        self.print(shared, &mut state);
        Some(state)
    }

    fn fault(&self, shared: &mut Shared, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Break => {
                state.connected = false;
                Self::lose(state);
                state.sites.iter_mut().for_each(|site| site.unaware = true);
            }
            Step::Restart(site) => {
                state.sites[1 - site].unaware |= state.connected;
                state.connected = false;
                Self::lose(state);
                let flows: Vec<Flow> = state.sites[site].half.own.values().map(|own| own.flow).collect();
                let half = Half::new(self.setup.mode, flows.into_iter());
                let start = state.sites[site].start + 1;
                state.sites[site] = self.begin(shared, state.now, site, start, half);
            }
            Step::Begin(site) => {
                state.sites[site].half.begin_flow(flow(state.flows));
                state.flows += 1;
            }
            Step::End(site) => state.sites[site].half.end_flow(),
            Step::Epoch(site) => state.sites[site].half.use_epoch(),
            Step::Forget(site) => state.sites[site].half.forget_flow()?,
            Step::Lose(site) => state.sites[site].half.lose_lane()?,
            _ => return None,
        }
        Some(())
    }

    fn next_moment(shared: &Shared, state: &State) -> Option<Instant> {
        let timers = (0..2).filter_map(|site| Self::did(shared, state, site).timeout);
        timers.min().map(|at| at.max(state.now))
    }

    /// Steps that need no fault and no time.
    fn immediate(state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for (site, here) in state.sites.iter().enumerate() {
            if !here.commands.is_empty() {
                steps.push(Step::Command(site));
            }
            if !here.half.events.is_empty() {
                steps.push(Step::Event(site));
            }
            let streams = (0..2).filter(|stream| !here.streams[*stream].is_empty());
            steps.extend(streams.map(|stream| Step::Deliver { from: site, stream }));
            if here.unaware {
                steps.push(Step::Notice(site));
            }
        }
        if !state.connected {
            steps.push(Step::Connect);
        }
        steps
    }

    /// A packet in short form whose number is unknown, where nothing else is on its way.
    fn unmet(state: &State) -> Option<Step> {
        (0..2).find_map(|from| {
            let known = &state.sites[1 - from].half.peer_flows;
            let mut own = state.sites[from].half.own.iter();
            let (index, _) = own.find(|(index, own)| own.acknowledged && !known.contains_key(index))?;
            Some(Step::Packet { from, index: *index })
        })
    }

    /// The steps that are possible.
    fn possible(&self, state: &State, steps: &mut Vec<Step>) {
        // Fair runs look at what comes after the last fault.
        if state.faults == 0 || state.wrong.is_some() {
            return;
        }
        let shared = &self.shared();
        steps.extend(Self::immediate(state));
        if steps.is_empty() {
            steps.extend(Self::unmet(state));
        }
        if steps.is_empty() && !self.is_over(shared, state) {
            steps.push(Step::Pass);
        }
        for kind in &self.setup.kinds {
            let of_each: fn(usize) -> Step = match kind {
                Kind::Break if state.connected => {
                    steps.push(Step::Break);
                    continue;
                }
                Kind::Break => continue,
                Kind::Restart => Step::Restart,
                Kind::Begin => Step::Begin,
                Kind::End => Step::End,
                Kind::Epoch => Step::Epoch,
                Kind::Forget => Step::Forget,
                Kind::Lose => Step::Lose,
            };
            steps.extend((0..2).map(of_each));
        }
    }
}
