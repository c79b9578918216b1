//! Two gateways beside everything else that can stand in their boxes: one round of one contestant at a time.
//!
//! ```text
//!  machine A ── plain [box] prot ── the insecure network, a cable ── prot [box] plain ── machine B
//! ```
//!
//! The network is the same for all of them, and takes nobody's time: a bridge in the middle would be paid for by each, and so
//! bring the fast and the slow nearer to each other. Its MTU leaves room for everybody's headers around a LAN payload of 1500
//! octets, so nobody fragments; frames on it are what a wire would carry, since segmentation is not left to it.
//!
//! | figure | how |
//! |---|---|
//! | TCP, one and four streams | `iperf3 -C cubic`, goodput that arrives |
//! | CPU of TCP | seconds of the boxes' processes and of all softirqs, for each gigabit of the single stream |
//! | 64-octet frames, IMIX | the highest rate at which at most 0.01 % is lost: [`lab::trial`] |
//! | round trip | UDP echoes of 64-octet frames, idle and beside half of the contestant's own 64-octet rate |
//! | round trip, side by side | the same through our gateways and the bare forwarder, which stand at the same time and take turns |
//! | memory | what the processes of both boxes have in RAM behind the transfers |

mod contestant;
mod daemon;
mod iperf;
mod kernel;
mod one_box;
mod tinc;

use std::fmt::Display;
use std::time::Duration;

use crate::bench::BenchError;
use crate::bench::overload::Curve as Overload;
use crate::programs::Programs;
use bench::Row;
use lab::flood::Load;
use lab::traffic::{self, Ip, RoundTrips};
use lab::trial::{IMIX, SHORTEST, Search, Stream};
use lab::{CpuTimes, Machine};

pub use contestant::{Contestant, Running};
pub use daemon::Daemon;

use crate::evidence::outcome::{Curve, Outcome};

/// The name of this bench in rows and steps.
pub const BENCH: &str = "rivals";
/// Name of a figure in front of the contestant's name.
pub const FIGURES: [&str; 12] = [
    TCP,
    TCP_FOUR,
    COST,
    SMALL,
    MIX,
    ROUND_TRIP,
    "round trip p99",
    "round trip p99.9",
    "round trip at half load p50",
    "round trip at half load p99",
    "round trip at half load p99.9",
    MEMORY,
];
pub(crate) const TCP: &str = "TCP, one stream";
const TCP_FOUR: &str = "TCP, four streams";
pub(crate) const COST: &str = "CPU of TCP, one stream";
pub(crate) const SMALL: &str = "64-octet frames";
pub(crate) const MIX: &str = "IMIX";
/// The median of idle round trips.
pub(crate) const ROUND_TRIP: &str = "round trip p50";
const MEMORY: &str = "memory";
/// The median round trip through two that stand at the same time: a difference of some microseconds is told only by those who share
/// the machine's moods, which change within the minute between one contestant's turn and the next one's.
pub const SIDE_BY_SIDE: &str = "round trip p50, side by side";
/// Contestants that stand side by side.
const PAIR: [Contestant; 2] = [Contestant::BareForwarder, Contestant::Frameward];
/// Round trips before the other one's turn.
const SLICE: u64 = 25;
/// Octets of the datagrams whose round trip is taken: with its headers a frame of 64 octets and FCS.
const DATAGRAM: usize = 24;
/// Between two round trips, so that whoever sleeps between frames is asleep when one comes.
const PAUSE: Duration = Duration::from_millis(1);
/// By then programs have done their work behind the first frame (probing the path, learning addresses); none of them says so.
const SETTLED: Duration = Duration::from_millis(1500);
/// Longest duration of the load beside round trips.
const LOAD_LIMIT: Duration = Duration::from_secs(60);
/// Percentiles that are kept of round trips.
const PERCENTILES: [f64; 17] =
    [0.0, 1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9];

/// Duration and number of measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// Rounds of each contestant.
    pub rounds: usize,
    /// Duration of a TCP transfer, in whole seconds.
    pub transfer: Duration,
    /// Settings of the search for rates.
    pub search: Search,
    /// Round trips in a round, idle and as many beside the load.
    pub round_trips: u64,
}

impl Effort {
    /// The effort of figures: about 40 seconds for a contestant's round.
    pub const FULL: Self = Self {
        rounds: 5,
        transfer: Duration::from_secs(4),
        search: Search { time: Duration::from_secs(2), loss: 1e-4, precision: 0.03 },
        round_trips: 1000,
    };
    /// Whether it runs at all: one round, a few seconds for a contestant.
    pub const QUICK: Self = Self {
        rounds: 1,
        transfer: Duration::from_secs(1),
        search: Search { time: Duration::from_millis(150), loss: 1e-4, precision: 0.15 },
        round_trips: 100,
    };
}

/// Measures one contestant once.
///
/// # Errors
/// In words: what is not installed, does not start or does not carry.
pub fn round(
    programs: &Programs,
    contestant: Contestant,
    effort: &Effort,
    say: &mut dyn FnMut(&dyn Display),
) -> Result<Outcome, String> {
    if let Some(missing) = contestant.missing() {
        return Err(format!("{missing} is not installed: scripts/setup.sh bench"));
    }
    let running = Running::start(programs, contestant).map_err(|error| error.to_string())?;
    std::thread::sleep(SETTLED);
    let measured = measure(&running, contestant, effort, say).map_err(|error| error.to_string());
    let stopped = running.stop().map_err(|error| error.to_string());
    let outcome = measured?;
    stopped?;
    Ok(outcome)
}

/// Takes round trips through bare forwarder and gateways in turns, idle.
///
/// # Errors
/// In words: what does not start or does not carry.
pub fn side_by_side(
    programs: &Programs,
    effort: &Effort,
    say: &mut dyn FnMut(&dyn Display),
) -> Result<Outcome, String> {
    let start = |one| Running::start(programs, one).map_err(|error: BenchError| error.to_string());
    let pair = [start(PAIR[0])?, start(PAIR[1])?];
    std::thread::sleep(SETTLED);
    let mut all: [Option<RoundTrips>; 2] = [None, None];
    for _ in 0..effort.round_trips.div_ceil(SLICE) {
        for (running, all) in pair.iter().zip(&mut all) {
            let (a, b) = running.machines();
            let trips = round_trips(a, b, SLICE, None).map_err(|error| error.to_string())?;
            match all {
                Some(all) => all.times.add(&trips.times).map_err(|error| error.to_string())?,
                None => *all = Some(trips),
            }
        }
    }
    let mut outcome = Outcome::default();
    for (contestant, trips) in PAIR.iter().zip(all.into_iter().flatten()) {
        let (value, name) = (trips.percentile(50.0).as_secs_f64() * 1e6, contestant.name());
        let row = Row::new(BENCH, &format!("{SIDE_BY_SIDE}, {name}"), value, "us", 1);
        outcome.rows.push(Row { values: vec![value], ..row });
        say(&format_args!("{name}: {SIDE_BY_SIDE}: {value:.1} us"));
    }
    for running in pair {
        running.stop().map_err(|error| error.to_string())?;
    }
    Ok(outcome)
}

/// Frames that arrive through one contestant when more are sent than there is room for.
///
/// # Errors
/// In words: what is not installed, does not start or does not carry.
pub fn overload(
    programs: &Programs,
    contestant: Contestant,
    effort: &crate::bench::Effort,
    say: &mut dyn FnMut(&dyn Display),
) -> Result<Vec<Row>, String> {
    if let Some(missing) = contestant.missing() {
        return Err(format!("{missing} is not installed: scripts/setup.sh bench"));
    }
    let running = Running::start(programs, contestant).map_err(|error| error.to_string())?;
    std::thread::sleep(SETTLED);
    let (a, b) = running.machines();
    let mut way = [a, b];
    let measured = Overload::search(contestant.name(), &mut way, effort).and_then(|mut curve| {
        (0..effort.rounds).try_for_each(|_| curve.round(&mut way, effort.time / 3))?;
        Ok(curve)
    });
    say(&format_args!("{}: under overload", contestant.name()));
    let stopped = running.stop().map_err(|error| error.to_string());
    let mut rows = Vec::new();
    measured.map_err(|error| error.to_string())?.tell(false, &mut |row| rows.push(row));
    stopped?;
    Ok(rows)
}

fn measure(
    running: &Running,
    contestant: Contestant,
    effort: &Effort,
    say: &mut dyn FnMut(&dyn Display),
) -> Result<Outcome, lab::Error> {
    let (a, b) = running.machines();
    let name = contestant.name();
    let mut outcome = Outcome::default();
    let mut tell = |what: &str, value: f64, unit: &str| {
        let row = Row::new(BENCH, &format!("{what}, {name}"), value, unit, 1);
        outcome.rows.push(Row { values: vec![value], ..row });
        say(&format_args!("{name}: {what}: {value:.4} {unit}"));
    };

    let processes = running.processes();
    let before = CpuTimes::now(&processes)?;
    let single = iperf::tcp(a, b, 1, effort.transfer)?;
    let used = CpuTimes::now(&processes)?.since(before).sum();
    tell(TCP, single.megabits_per_second, "Mbit/s");
    tell(TCP_FOUR, iperf::tcp(a, b, 4, effort.transfer)?.megabits_per_second, "Mbit/s");
    tell(COST, used.as_secs_f64() / (single.octets * 8e-9), "s/Gbit");
    if contestant.has(MEMORY) {
        let mut octets = 0;
        for process in &processes {
            octets += lab::cpu::resident(*process)?;
        }
        tell(MEMORY, octets as f64 / f64::from(1 << 20), "MiB");
    }

    let small = effort.search.run(a, b, &Stream::new(a, b, &SHORTEST))?;
    tell(SMALL, small.rate, "frames/s");
    let mix = effort.search.run(a, b, &Stream::new(a, b, &IMIX))?;
    tell(MIX, mix.rate * mix.mean_octets * 8e-6, "Mbit/s");

    let mut curves = Vec::new();
    // A rate at which nothing passed is no load either: then half of what arrives of as many as go.
    let load = if small.rate > 0.0 {
        small.rate
    } else {
        small.trials[0].received as f64 / small.trials[0].elapsed.as_secs_f64()
    };
    for (what, load) in [("round trip", None), ("round trip at half load", Some(load / 2.0))] {
        let trips = round_trips(a, b, effort.round_trips, load)?;
        for (percentile, figure) in [(50.0, "p50"), (99.0, "p99"), (99.9, "p99.9")] {
            tell(&format!("{what} {figure}"), trips.percentile(percentile).as_secs_f64() * 1e6, "us");
        }
        let points = PERCENTILES.map(|at| (at, trips.percentile(at).as_secs_f64() * 1e6));
        curves.push(Curve { bench: BENCH.into(), case: format!("{what}, {name}"), points: points.into() });
    }
    outcome.curves = curves;
    Ok(outcome)
}

fn round_trips(a: &Machine, b: &Machine, count: u64, load: Option<f64>) -> Result<RoundTrips, lab::Error> {
    let load =
        load.map(|rate| Load::start(a, b, SHORTEST[0] - 14, Some(rate as u32), LOAD_LIMIT)).transpose()?;
    let trips = traffic::lone_round_trips(a, b, Ip::V4, DATAGRAM, count, PAUSE)?;
    if let Some(load) = load {
        load.stop()?;
    }
    if trips.times.is_empty() {
        return Err(lab::Error::Unexpected("no round trip came back".into()));
    }
    Ok(trips)
}
