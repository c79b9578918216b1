//! `plan`: whether cyclic frames can be protected in time, before anything is bought or wired.
//!
//! ```text
//!  cycle, link, load, payloads ──▶ equations 1 to 3 ──▶ N relations, t_max for a frame ─┐
//!  this CPU ──▶ frames of N relations in shuffled order ──▶ p50, p99.9, worst ──────────┴─▶ headroom, verdict, largest N
//! ```
//!
//! The equations are those of the paper (`fieldbus::budget`); what a frame takes is measured here and now, in slices of all
//! payloads in turn, each beside a loop as long as a frame that does nothing: what holds that up held the frames up too
//! (answers.rs). Headroom is t_max by p99.9 of the slower of the two, protecting and verifying. A relation costs both in each
//! cycle, since one frame goes out and one comes in: the share of a core that N of them take, and the largest N that a core
//! has time for, are of their p99.9 together.
//!
//! It is the engine's own work: finding the relation, header, cipher, counters. What the system takes to receive and to
//! send a frame depends on ports and drivers; [`Question::port_time`] adds it.

mod answers;
mod table;

pub use table::{Microseconds, Rate};

use std::fmt::Display;
use std::time::Duration;

use fieldbus::budget::{Budget, Cycle, Path, Payload, Picoseconds};
use serde::{Deserialize, Serialize};
use speed::cells::Cells;
use speed::machine;
use speed::order::shuffled;
use wire::fieldbus::{CellSuite, Protect, Protection};

use config::Named as _;
use speed::frame_times::{Clock, FrameTimes, Percentiles, round};

/// Frames of a turn through the relations.
const TURN: usize = 1024;
/// Turns of a payload in a mode.
const SLICES: u32 = 8;
/// Relations of a cell, as the configuration has it.
pub const MOST_RELATIONS: u64 = config::fieldbus::MOST_RELATIONS as u64;

/// The question.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    /// The link and the cycle.
    pub budget: Budget,
    /// In ascending order; never empty.
    pub payloads: Vec<Payload>,
    /// Never empty.
    pub modes: Vec<Protect>,
    /// The cipher suite.
    pub suite: CellSuite,
    /// Number of relations; none: as many as the link carries.
    pub relations: Option<u64>,
    /// Time of receiving and sending a frame, besides our own work.
    pub port_time: Duration,
    /// The path between the gateways, if they stand in two plants.
    pub path: Option<Path>,
    /// Duration of measuring each payload in each mode.
    pub time: Duration,
}

impl Question {
    /// About ten seconds for eight payloads in both modes.
    pub const FULL: Duration = Duration::from_millis(600);
    /// About two.
    pub const QUICK: Duration = Duration::from_millis(120);

    /// Relations that the uplink carries, if there is one.
    fn uplink_relations(&self, payload: Payload) -> Option<u64> {
        self.path.map(|path| self.budget.uplink_relations(path.uplink, payload))
    }
}

/// The answer; also the document of `--json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The CPU that was measured.
    pub machine: String,
    /// The program's version.
    pub version: String,
    /// The cycle that was asked about.
    pub cycle_us: f64,
    /// The link.
    pub link_bits_per_second: u64,
    /// Share of it that cyclic frames may take.
    pub load: f64,
    /// AES-GCM-128 or AES-GCM-256.
    pub key_bits: u32,
    /// Number of relations, if that was asked.
    pub relations: Option<u64>,
    /// The given time of receiving and sending a frame.
    pub port_time_us: f64,
    /// Time of reading the clock; it is not in the figures.
    pub clock_ns: u64,
    /// The path between two plants, if that was asked.
    pub path: Option<PathAnswer>,
    /// Of all that was asked for: what the command exits with.
    pub verdict: Whole,
    /// Whether every payload fits.
    pub fits: bool,
    /// For each payload.
    pub payloads: Vec<PayloadAnswer>,
    /// For each cycle from 31.25 us to 512 ms, for the least and the greatest payload and each mode.
    pub cycles: Vec<CycleAnswer>,
}

/// Consequences of a path between two plants.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PathAnswer {
    /// Rate of the slower uplink.
    pub uplink_bits_per_second: u64,
    /// Cycles without a frame after which a device takes its peer for gone.
    pub data_hold: u16,
    /// Age of the oldest data that is in time.
    pub oldest_us: f64,
    /// Number of frames in a row that may be lost; none if jitter alone is too much.
    pub losses_in_a_row: Option<u64>,
    /// True if the loss of a frame does not stop the devices.
    pub fits: bool,
}

/// Answer for a payload.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PayloadAnswer {
    /// Octets behind the FrameID.
    pub payload: u16,
    /// Octets of the frame on the line (equation 1).
    pub line_octets: u32,
    /// Relations that the link carries (equation 2).
    pub relations: u64,
    /// Relations that the uplink carries, if there is one.
    pub uplink_relations: Option<u64>,
    /// Time a frame may take (equation 3); none if there is not one relation.
    pub t_max_us: Option<f64>,
    /// Then the shortest cycle that carries one.
    pub shortest_cycle_us: Option<f64>,
    /// For each mode.
    pub modes: Vec<ModeAnswer>,
}

/// Measurements in a mode, and their meaning.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModeAnswer {
    /// `encrypt` or `authenticate`.
    pub mode: String,
    /// Relations whose frames were measured.
    pub relations_measured: usize,
    /// Time of protecting a frame.
    pub protect: Cost,
    /// Time of verifying it.
    pub verify: Cost,
    /// A loop that is as long as the median frame and does nothing.
    pub idle_loop: IdleLoop,
    /// t_max divided by p99.9 of the slower of the two.
    pub headroom: Option<f64>,
    /// Share of one core that the frames of all relations take at p99.9.
    pub core_share: Option<f64>,
    /// Rest of a cycle when the frames of all relations are done: a frame that is held up for longer is late.
    pub slack_us: Option<f64>,
    /// In a word.
    pub verdict: Verdict,
}

/// Time of a frame, in nanoseconds, without the ports.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// The median, frames in bursts.
    pub p50_ns: f64,
    /// Exceeded by one in a thousand, frames one by one; no more than what a longer payload was measured with, nor more
    /// for each octet on the line than a shorter one.
    pub p99_9_ns: f64,
    /// The worst seen.
    pub worst_ns: f64,
    /// Frames that were timed one by one.
    pub samples: u64,
}

/// Time of an idle loop, in nanoseconds: this machine caused all above its length.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct IdleLoop {
    /// Its intended length.
    pub length_ns: f64,
    /// Exceeded by one in a thousand.
    pub p99_9_ns: f64,
    /// The worst seen.
    pub worst_ns: f64,
}

/// Whether it can be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The link carries not one relation in that cycle.
    NoRelation,
    /// The link carries fewer relations than there are to be.
    TooManyRelations,
    /// The uplink carries fewer.
    UplinkTooSlow,
    /// One frame in a thousand takes longer than it may, and a loop that does nothing never does; or the frames of all
    /// relations take a core longer than the cycle.
    TooSlow,
    /// Something else held this CPU up for longer than a frame may take: it would have to be measured again.
    TooBusy,
    /// All frames but one in a thousand take no longer than they may, and none was late for its cycle.
    Fits,
}

/// The verdict on all that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whole {
    /// Every payload fits in every mode.
    Fits,
    /// One does not.
    DoesNotFit,
    /// None is known not to fit, and one could not be judged.
    TooBusy,
}

/// The largest number of relations at a cycle.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CycleAnswer {
    /// The cycle.
    pub cycle_us: f64,
    /// Octets behind the FrameID.
    pub payload: u16,
    /// `encrypt` or `authenticate`.
    pub mode: String,
    /// Limit by the link (equation 2), or by the uplink.
    pub link_relations: u64,
    /// Limit by one core, at p99.9.
    pub cpu_relations: u64,
    /// The least of both, and of those that a cell can have.
    pub relations: u64,
    /// Limit that decides.
    pub limit: Limit,
}

/// Limit of a number of relations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The share of the link or of the uplink that cyclic frames may take.
    Link,
    /// One core.
    Cpu,
    /// A cell has [`MOST_RELATIONS`]; another gateway has as many again.
    Cell,
}

/// Measures, and answers. Takes [`Question::time`] for each payload in each mode; `progress` is told before each.
pub fn answer(question: &Question, progress: &mut dyn FnMut(&dyn Display)) -> Answer {
    let clock = Clock::measure();
    let payloads = answers::payloads(question, measure(question, clock, progress));
    let Budget { cycle, link, load } = question.budget;
    let path = question.path.map(|path| answers::path(cycle, &path));
    let verdict = Whole::of(payloads.iter().flat_map(|payload| &payload.modes).map(|mode| mode.verdict));
    let verdict = if path.is_some_and(|path| !path.fits) { Whole::DoesNotFit } else { verdict };
    Answer {
        machine: machine::name().into(),
        version: env!("CARGO_PKG_VERSION").into(),
        cycle_us: microseconds(cycle.time()),
        link_bits_per_second: link.bits_per_second(),
        load: f64::from(load.millionths()) / 1e6,
        key_bits: if question.suite == CellSuite::GcmAes128 { 128 } else { 256 },
        relations: question.relations,
        port_time_us: microseconds(question.port_time),
        clock_ns: clock.nanoseconds,
        path,
        verdict,
        fits: verdict == Whole::Fits,
        cycles: cycles(question, &payloads),
        payloads,
    }
}

impl Answer {
    /// The cycles, by payload and mode.
    pub fn columns(&self) -> Vec<Vec<&CycleAnswer>> {
        let same =
            |one: &CycleAnswer, other: &CycleAnswer| (one.payload, &one.mode) == (other.payload, &other.mode);
        self.cycles.chunk_by(same).map(|column| column.iter().collect()).collect()
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// A payload in a mode, as it is measured.
struct Measured {
    payload: Payload,
    mode: Protect,
    relations: usize,
    protect: Percentiles,
    verify: Percentiles,
    idle_loop: IdleLoop,
}

/// Payload by payload, mode by mode. Each has its turn in each of some slices: what else goes on in this machine for a
/// while hits all of them.
fn measure(question: &Question, clock: Clock, progress: &mut dyn FnMut(&dyn Display)) -> Vec<Measured> {
    struct Row {
        payload: Payload,
        mode: Protect,
        relations: usize,
        cells: Cells,
        order: Vec<usize>,
        times: [FrameTimes; 2],
        idle: FrameTimes,
    }
    let rows =
        question.payloads.iter().flat_map(|payload| question.modes.iter().map(|mode| (*payload, *mode)));
    let row = |(payload, mode): (Payload, Protect)| {
        // As many as the table will hold, for that is what look-ups and keys take.
        let relations = question.relations.unwrap_or_else(|| question.budget.relations(payload));
        let relations = relations.clamp(1, MOST_RELATIONS) as usize;
        progress(&format_args!("{} octets, {}, {relations} relations", payload.octets(), mode.name()));
        let protection = Protection { protect: mode, suite: question.suite };
        Row {
            payload,
            mode,
            relations,
            cells: Cells::new(relations, protection, usize::from(payload.octets())),
            order: shuffled(relations, TURN),
            times: [FrameTimes::new(), FrameTimes::new()],
            idle: FrameTimes::new(),
        }
    };
    let mut rows: Vec<Row> = rows.map(row).collect();
    let slice = question.time / SLICES;
    for _ in 0..SLICES {
        for row in &mut rows {
            let [protect, verify] = round(clock, &row.order, slice / 2, &mut row.cells);
            row.times[0].add(&protect);
            row.times[1].add(&verify);
            row.idle.add_idle(clock, row.length(), row.order.len(), slice / 2);
        }
    }
    let measured = |row: Row| {
        let length_ns = row.length().as_nanos() as f64;
        let Row { payload, mode, relations, times: [protect, verify], idle, .. } = row;
        let Percentiles { p99_9: p99_9_ns, worst: worst_ns, .. } = idle.percentiles();
        Measured {
            payload,
            mode,
            relations,
            protect: protect.percentiles(),
            verify: verify.percentiles(),
            idle_loop: IdleLoop { length_ns, p99_9_ns, worst_ns },
        }
    };
    impl Row {
        /// Of the slower of the two, in the middle.
        fn length(&self) -> Duration {
            let [protect, verify] = [0, 1].map(|which| self.times[which].percentiles().single_p50);
            Duration::from_nanos(protect.max(verify) as u64)
        }
    }
    rows.into_iter().map(measured).collect()
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
                let uplink = question.path.map(|path| budget.uplink_relations(path.uplink, octets));
                let link_relations = budget.relations(octets).min(uplink.unwrap_or(u64::MAX));
                let cpu_relations = budget.relations_in_time(Picoseconds((each * 1e3).ceil() as u64));
                let relations = link_relations.min(cpu_relations).min(MOST_RELATIONS);
                answers.push(CycleAnswer {
                    cycle_us: microseconds(cycle.time()),
                    payload: *payload,
                    mode: mode.clone(),
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
