//! Scaling with more of everything: links of a process, peers and flows of a site, relations.
//!
//! Links are measured with frames through a network. The others are measured in memory, since there the tables that grow
//! are all there is; on one CPU, with frames of 64 octets.

mod links;

use std::time::{Duration, Instant};

use bench::Row;
use bench::relations::Relations;
use bench::sites::Sites;
use speed::burst::BURST;
use speed::frame_times::median;
use suite::CipherSuite;
use tunnel::Mode;

use crate::evidence::outcome::Outcome;
use crate::evidence::plan::{Extent, Step};

/// The name of this bench.
pub const BENCH: &str = "scaling";
/// Octets of the frames, without FCS: what a tunnel takes at least, addresses and SecTAG included, and an SDU.
const TUNNELLED: usize = 60;
const SDU: usize = 60;

/// One thing of which there is more and more.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Of what there is more.
    pub name: &'static str,
    /// The figure's title.
    pub title: &'static str,
    /// The finding.
    pub caption: &'static str,
    /// Of how many the figure is measured.
    pub numbers: &'static [u32],
    /// The quantity that is measured.
    pub series: &'static [&'static str],
    /// Its unit.
    pub unit: &'static str,
    /// Whether twice as many could do twice as much, or only as much as before.
    grows: bool,
}

impl Axis {
    /// Name of the figure of a number.
    pub fn case(&self, number: u32, series: &str) -> String {
        format!("{series}, {number} {}", self.name)
    }

    /// The ideal: the result if nothing were lost.
    pub fn ideal(&self, first: (f64, f64), at: f64) -> f64 {
        if self.grows { first.1 * at / first.0 } else { first.1 }
    }
}

/// All of them.
pub const AXES: [Axis; 4] = [
    Axis {
        name: "links of a process",
        title: "More links in a process",
        caption: "64-octet frames that arrive each second over all links together, all of them offered as many as their senders can send. A worker is a thread, so twice the links do twice as much as long as there are CPUs; senders and the gateways on the other side need CPUs too.",
        numbers: &[1, 2, 4],
        series: &["frames through a network"],
        unit: "frames/s",
        grows: true,
    },
    Axis {
        name: "peers of a site",
        title: "More peers of a site",
        caption: "Frames that a site makes into packets and takes in each second, in memory and on one CPU, frames going to each peer in turn: identifiers. No network carries them: what grows with peers are tables, and those of a receiver hold a window of identifiers for each peer.",
        numbers: &[1, 4, 16, 64],
        series: &["send", "receive"],
        unit: "frames/s",
        grows: false,
    },
    Axis {
        name: "flows of a site",
        title: "More flows of a site",
        caption: "The same with a frame of each flow in turn, in memory too, quotas raised, with one peer, and with two from 32,768 flows on: no peer can have more. A table that no longer fits the CPU's caches is what costs.",
        numbers: &[1, 100, 1000, 10_000, 60_000],
        series: &["send", "receive"],
        unit: "frames/s",
        grows: false,
    },
    Axis {
        name: "relations",
        title: "More relations with keys of their own",
        caption: "Frames that are protected and verified each second, in memory and on one CPU, a frame of each relation in turn, GCM-AES-128: what changing keys costs. Relations through a network are measured by frameward-lab bench fieldbus.",
        numbers: &[1, 4, 16, 64, 256, 1024],
        series: &["protect", "verify"],
        unit: "frames/s",
        grows: false,
    },
];

/// Number and duration of the measurements of each number.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    time: Duration,
}

/// A step for each axis.
pub fn steps(extent: Extent) -> Vec<Step> {
    let effort = match extent {
        Extent::Full => Effort { rounds: 7, time: Duration::from_millis(500) },
        Extent::Quick => Effort { rounds: 1, time: Duration::from_millis(20) },
    };
    let mut steps = Vec::new();
    for axis in AXES {
        let expected = match (axis.grows, extent) {
            (true, Extent::Full) => 90,
            (true, Extent::Quick) => 8,
            (false, Extent::Full) => 25,
            (false, Extent::Quick) => 2,
        };
        let name = format!("scaling: {}", axis.name);
        steps.push(Step::new(BENCH, &name, expected, move |tools| {
            if axis.grows {
                return links::measure(&axis, effort.rounds, effort.time, tools);
            }
            let mut outcome = Outcome::default();
            for number in axis.numbers {
                (tools.say)(&format_args!("{number} {}", axis.name));
                outcome.rows.extend(in_memory(&axis, *number, effort));
            }
            Ok(outcome)
        }));
    }
    steps
}

fn in_memory(axis: &Axis, number: u32, effort: Effort) -> Vec<Row> {
    let sites = |peers, flows| Sites::many(Mode::Identifier, TUNNELLED, peers, flows);
    let rates = match axis.name {
        "peers of a site" => of_sites(sites(number as usize, number), effort),
        "flows of a site" => {
            of_sites(sites(number.div_ceil(Sites::FLOWS_OF_A_PEER) as usize, number), effort)
        }
        _ => {
            let mut relations = Relations::new(CipherSuite::GcmAes128, SDU, number as usize);
            rates(effort, || {
                let start = Instant::now();
                relations.protect();
                let middle = Instant::now();
                relations.verify();
                [middle - start, middle.elapsed()]
            })
        }
    };
    let row = |(series, values): (&&str, Vec<f64>)| row(axis, number, series, values);
    axis.series.iter().zip(rates).map(row).collect()
}

/// A figure of so many, out of its rounds.
fn row(axis: &Axis, number: u32, series: &str, values: Vec<f64>) -> Row {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let row = Row::new(BENCH, &axis.case(number, series), median(&values), axis.unit, values.len() as u64);
    Row { spread: Some(bench::Spread { lowest, highest }), values, ..row }
}

fn of_sites(mut sites: Sites, effort: Effort) -> [Vec<f64>; 2] {
    rates(effort, || {
        sites.number();
        let start = Instant::now();
        sites.send();
        let middle = Instant::now();
        sites.receive();
        [middle - start, middle.elapsed()]
    })
}

/// Frames a second of two operations on a burst, round by round: that of the round's middle burst, since others may hold
/// the machine up during some.
fn rates(effort: Effort, mut burst: impl FnMut() -> [Duration; 2]) -> [Vec<f64>; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..effort.rounds {
        let (start, mut took) = (Instant::now(), [Vec::new(), Vec::new()]);
        while start.elapsed() < effort.time || took[0].is_empty() {
            for (times, time) in took.iter_mut().zip(burst()) {
                times.push(time.as_secs_f64());
            }
        }
        for (values, times) in all.iter_mut().zip(took) {
            values.push(BURST as f64 / median(&times));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_every_axis_has_its_figures() {
        let effort = Effort { rounds: 2, time: Duration::from_millis(1) };
        for axis in AXES.iter().filter(|axis| !axis.grows) {
            // The largest ones take seconds in a debug build.
            for number in axis.numbers.iter().filter(|number| **number <= 1024) {
                let rows = in_memory(axis, *number, effort);
                assert_eq!(rows.len(), axis.series.len());
                for (row, series) in rows.iter().zip(axis.series) {
                    assert_eq!(row.case, axis.case(*number, series));
                    assert!(row.value > 0.0 && row.values.len() == 2, "{row:?}");
                }
            }
        }
    }

    #[test]
    fn the_ideal_grows_only_where_there_are_more_workers() {
        assert_eq!(AXES[0].ideal((1.0, 50.0), 4.0), 200.0);
        assert_eq!(AXES[1].ideal((1.0, 50.0), 64.0), 50.0);
    }
}
