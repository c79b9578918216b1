//! `plan`: whether cyclic frames can be protected in time, before anything is bought or wired.
//!
//! ```text
//!  cycle, link, load, payloads ──▶ equations 1 to 3 ──▶ N relations, t_max for a frame ─┐
//!  this CPU ──▶ frames of N relations in shuffled order ──▶ p50, p99.9, worst ──────────┴─▶ headroom, verdict, largest N
//! ```
//!
//! The equations are those of the paper (`fieldbus::budget`); what a frame takes is measured here and now. Headroom is
//! t_max by p99.9 of the slower of the two, protecting and verifying. A relation costs both in each cycle, since one frame
//! goes out and one comes in: the share of a core that N of them take, and the largest N that a core has time for, are of
//! their p99.9 together.
//!
//! It is the engine's own work: finding the relation, header, cipher, counters. What the system takes to receive and to
//! send a frame depends on ports and drivers; [`Question::port_time`] adds it.

mod plot;
mod table;

use std::fmt::Display;
use std::time::Duration;

use ::bench::Row;
use ::bench::cells::Cells;
use ::bench::order::shuffled;
use fieldbus::budget::{Budget, Cycle, NoRelation, Payload, Picoseconds};
use serde::Serialize;
use wire::fieldbus::{KeyBits, Protect, Protection};

use crate::bench::frame_times::{Clock, Percentiles, round};
use crate::config::fieldbus as config;

pub use plot::draw;

/// Frames of a turn through the relations.
const TURN: usize = 1024;
/// Relations of a cell, as the configuration has it.
pub const MOST_RELATIONS: u64 = config::MOST_RELATIONS as u64;

/// What is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    /// The link and the cycle.
    pub budget: Budget,
    /// In ascending order; never empty.
    pub payloads: Vec<Payload>,
    /// Never empty.
    pub modes: Vec<Protect>,
    /// How long the keys are.
    pub key_bits: KeyBits,
    /// How many relations there are to be; none: as many as the link carries.
    pub relations: Option<u64>,
    /// What receiving and sending a frame takes, besides our own work.
    pub port_time: Duration,
    /// How long each payload is measured in each mode.
    pub time: Duration,
}

impl Question {
    /// About ten seconds for eight payloads in both modes.
    pub const FULL: Duration = Duration::from_millis(600);
    /// About two.
    pub const QUICK: Duration = Duration::from_millis(120);
}

/// The answer; also the document of `--json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Answer {
    /// The CPU that was measured.
    pub machine: String,
    /// The commit that was built.
    pub commit: String,
    /// The cycle that was asked about.
    pub cycle_us: f64,
    /// The link.
    pub link_bits_per_second: u64,
    /// Which share of it cyclic frames may take.
    pub load: f64,
    /// AES-GCM-128 or AES-GCM-256.
    pub key_bits: u32,
    /// How many relations there are to be, if that was asked.
    pub relations: Option<u64>,
    /// What receiving and sending a frame was said to take.
    pub port_time_us: f64,
    /// What reading the clock takes; it is not in the figures.
    pub clock_ns: u64,
    /// Whether every payload in every mode that was asked for fits: then the command exits with 0, else with 1.
    pub fits: bool,
    /// For each payload.
    pub payloads: Vec<PayloadAnswer>,
    /// For each cycle from 31.25 us to 512 ms, for the least and the greatest payload and each mode.
    pub cycles: Vec<CycleAnswer>,
}

/// What was found for a payload.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PayloadAnswer {
    /// Octets behind the FrameID.
    pub payload: u16,
    /// Octets of the frame on the line (equation 1).
    pub line_octets: u32,
    /// Relations that the link carries (equation 2).
    pub relations: u64,
    /// How long a frame may take (equation 3); none if there is not one relation.
    pub t_max_us: Option<f64>,
    /// Then the shortest cycle that carries one.
    pub shortest_cycle_us: Option<f64>,
    /// For each mode.
    pub modes: Vec<ModeAnswer>,
}

/// What was measured in a mode, and what it means.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ModeAnswer {
    /// `encrypt` or `authenticate`.
    pub mode: &'static str,
    /// Relations whose frames were measured.
    pub relations_measured: usize,
    /// What protecting a frame takes.
    pub protect: Cost,
    /// What verifying it takes.
    pub verify: Cost,
    /// How often p99.9 of the slower of the two fits into t_max.
    pub headroom: Option<f64>,
    /// Which share of one core the frames of all relations take at p99.9.
    pub core_share: Option<f64>,
    /// In a word.
    pub verdict: Verdict,
}

/// What a frame takes, in nanoseconds, without the ports.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cost {
    /// The median, frames in bursts.
    pub p50_ns: f64,
    /// What one in a thousand exceeds, frames one by one.
    pub p99_9_ns: f64,
    /// The worst seen.
    pub worst_ns: f64,
    /// Frames that were timed one by one.
    pub samples: u64,
}

/// Whether it can be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The link carries not one relation in that cycle.
    NoRelation,
    /// The link carries fewer relations than there are to be.
    TooManyRelations,
    /// One frame in a thousand takes longer than it may.
    TooSlow,
    /// It fits, but the worst frame seen took longer than it may.
    FitsButWorst,
    /// It fits.
    Fits,
}

/// The largest number of relations at a cycle.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CycleAnswer {
    /// The cycle.
    pub cycle_us: f64,
    /// Octets behind the FrameID.
    pub payload: u16,
    /// `encrypt` or `authenticate`.
    pub mode: &'static str,
    /// What the link carries (equation 2).
    pub link_relations: u64,
    /// What one core has time for, at p99.9.
    pub cpu_relations: u64,
    /// The least of both, and of those that a cell can have.
    pub relations: u64,
    /// Which of them it is.
    pub limit: Limit,
}

/// What limits a number of relations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The share of the link that cyclic frames may take.
    Link,
    /// One core.
    Cpu,
    /// A cell has [`MOST_RELATIONS`]; another gateway has as many again.
    Cell,
}

/// Measures, and answers. Takes [`Question::time`] for each payload in each mode; `progress` is told before each.
pub fn answer(question: &Question, progress: &mut dyn FnMut(&dyn Display)) -> Answer {
    let clock = Clock::measure();
    let payloads: Vec<_> =
        question.payloads.iter().map(|payload| judge_payload(question, *payload, clock, progress)).collect();
    let Budget { cycle, link, load } = question.budget;
    let Row { machine, commit, .. } = Row::new("plan", "", 0.0, "", 0);
    let fits = payloads.iter().flat_map(|payload| &payload.modes).all(|mode| mode.verdict.fits());
    Answer {
        machine,
        commit,
        cycle_us: microseconds(cycle.time()),
        link_bits_per_second: link.bits_per_second(),
        load: f64::from(load.millionths()) / 1e6,
        key_bits: if question.key_bits == KeyBits::Bits128 { 128 } else { 256 },
        relations: question.relations,
        port_time_us: microseconds(question.port_time),
        clock_ns: clock.nanoseconds,
        fits,
        cycles: cycles(question, &payloads),
        payloads,
    }
}

impl Verdict {
    /// Whether it can be done. What the worst frame seen took is a word of warning, and no verdict: anything else that this
    /// machine does may be in it.
    pub const fn fits(self) -> bool {
        matches!(self, Self::Fits | Self::FitsButWorst)
    }
}

impl Answer {
    /// The cycles, by payload and mode.
    fn columns(&self) -> Vec<Vec<&CycleAnswer>> {
        let same =
            |one: &CycleAnswer, other: &CycleAnswer| (one.payload, one.mode) == (other.payload, other.mode);
        self.cycles.chunk_by(same).map(|column| column.iter().collect()).collect()
    }
}

const fn name(mode: Protect) -> &'static str {
    match mode {
        Protect::Encrypt => "encrypt",
        Protect::Authenticate => "authenticate",
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn judge_payload(
    question: &Question,
    payload: Payload,
    clock: Clock,
    progress: &mut dyn FnMut(&dyn Display),
) -> PayloadAnswer {
    let relations = question.budget.relations(payload);
    let longest = question.budget.longest(payload);
    // As many as the table will hold, for that is what look-ups and keys take.
    let measured = question.relations.unwrap_or(relations).clamp(1, MOST_RELATIONS) as usize;
    let modes = question.modes.iter().map(|mode| {
        progress(&format_args!("{} octets, {}, {measured} relations", payload.octets(), name(*mode)));
        let protection = Protection { protect: *mode, key_bits: question.key_bits };
        let [protect, verify] = measure(protection, payload, measured, clock, question.time);
        let costs = Costs { protect: protect.into(), verify: verify.into() };
        judge_mode(question, longest, relations, measured, name(*mode), costs)
    });
    PayloadAnswer {
        payload: payload.octets(),
        line_octets: payload.line_octets().0,
        relations,
        t_max_us: longest.ok().map(|longest| longest.nanoseconds() / 1e3),
        shortest_cycle_us: longest.err().map(|none| microseconds(none.shortest)),
        modes: modes.collect(),
    }
}

fn measure(
    protection: Protection,
    payload: Payload,
    relations: usize,
    clock: Clock,
    time: Duration,
) -> [Percentiles; 2] {
    let mut cells = Cells::new(relations, protection, usize::from(payload.octets()));
    round(clock, &shuffled(relations, TURN), time, &mut cells).map(|times| times.percentiles())
}

/// What a relation costs in a cycle, without the ports.
#[derive(Clone, Copy)]
struct Costs {
    protect: Cost,
    verify: Cost,
}

impl From<Percentiles> for Cost {
    fn from(Percentiles { p50, p99_9, worst, samples, .. }: Percentiles) -> Self {
        Self { p50_ns: p50, p99_9_ns: p99_9, worst_ns: worst, samples }
    }
}

fn judge_mode(
    question: &Question,
    longest: Result<Picoseconds, NoRelation>,
    relations: u64,
    relations_measured: usize,
    mode: &'static str,
    Costs { protect, verify }: Costs,
) -> ModeAnswer {
    let ports = question.port_time.as_nanos() as f64;
    let slower = |of: fn(&Cost) -> f64| of(&protect).max(of(&verify)) + ports;
    let t_max = longest.ok().map(Picoseconds::nanoseconds);
    let headroom = t_max.map(|t_max| t_max / slower(|cost| cost.p99_9_ns));
    let wanted = question.relations.unwrap_or(relations);
    let each = protect.p99_9_ns + verify.p99_9_ns + 2.0 * ports;
    let core_share = wanted as f64 * each / question.budget.cycle.time().as_nanos() as f64;
    let verdict = match t_max {
        None => Verdict::NoRelation,
        Some(_) if wanted > relations => Verdict::TooManyRelations,
        Some(t_max) if slower(|cost| cost.p99_9_ns) > t_max => Verdict::TooSlow,
        Some(t_max) if slower(|cost| cost.worst_ns) > t_max => Verdict::FitsButWorst,
        Some(_) => Verdict::Fits,
    };
    let core_share = Some(core_share).filter(|_| relations > 0);
    ModeAnswer { mode, relations_measured, protect, verify, headroom, core_share, verdict }
}

/// For the least and the greatest payload, each mode and each cycle.
fn cycles(question: &Question, payloads: &[PayloadAnswer]) -> Vec<CycleAnswer> {
    let ends = match payloads {
        [] => vec![],
        [only] => vec![only],
        [first, .., last] => vec![first, last],
    };
    let mut answers = Vec::new();
    for PayloadAnswer { payload, modes, .. } in ends {
        let octets = Payload::new(*payload).expect("invariant: out of a payload");
        for ModeAnswer { mode, protect, verify, .. } in modes {
            let each = protect.p99_9_ns + verify.p99_9_ns + 2.0 * question.port_time.as_nanos() as f64;
            for cycle in Cycle::doubled() {
                let budget = Budget { cycle, ..question.budget };
                let link_relations = budget.relations(octets);
                let cpu_relations = budget.relations_in_time(Picoseconds((each * 1e3).ceil() as u64));
                let relations = link_relations.min(cpu_relations).min(MOST_RELATIONS);
                answers.push(CycleAnswer {
                    cycle_us: microseconds(cycle.time()),
                    payload: *payload,
                    mode,
                    link_relations,
                    cpu_relations,
                    relations,
                    limit: match relations {
                        _ if relations == link_relations => Limit::Link,
                        _ if relations == cpu_relations => Limit::Cpu,
                        _ => Limit::Cell,
                    },
                });
            }
        }
    }
    answers
}

#[cfg(test)]
mod tests;
