//! Cyclic frames, each under its relation's key: the paper's table II row by row, beside its figures (Skuballa et al., section
//! VII: a Zynq-7000, AES-GCM in its FPGA at 200 MHz, or in software on a Cortex-A9 at 667 MHz).
//!
//! | what | how much of the way of a frame |
//! |---|---|
//! | the paper's lengths | the cipher alone: AAD 7 and text 1444 or 44, or AAD 1451 or 51 |
//! | our lengths | the cipher alone: the two addresses, 12 octets, are authenticated too |
//! | protect and verify | what a cell does: relation found, header, cipher, counters ([`Cells`]) |
//! | receive to transmit descriptor | a turn of a link, with ports in memory ([`whole_path`]) |
//! | a program in the kernel | the same, of the kernel path: the time that the kernel says of single frames ([`in_kernel`]) |
//! | added delay | pairs of gateways in namespaces, in user space and in the kernel, beside a Linux bridge and XDP redirect in the same place; with 50 relations at 1 ms, and with 1024 at 32 ms ([`end_to_end`]) |
//! | an empty loop, slow frames, stolen time | nothing: what this machine makes of a p99.9 ([`machine`]) |
//!
//! Each is measured with 1 to 1024 relations, whose frames come in shuffled order, all of them in each round, so that what
//! else the machine does hits all alike. How frames are timed: [`speed::frame_times`]. Times are compared with t_max, which
//! follows from the paper's equations for half of 100 Mbit/s and a cycle of 1 ms: 125 us for the large frames, 8.77 us
//! for the small ones.

pub mod end_to_end;
pub mod in_kernel;
mod machine;
mod table;
mod whole_path;

use std::fmt::Display;
use std::time::Duration;

use ::bench::ciphers::{Ciphers, Lengths};
use ::bench::{Row, Target};
use fieldbus::budget::{Budget, Cycle, LinkRate, Load, Payload};
use speed::cells::Cells;
use speed::order::shuffled;
use wire::fieldbus::{CellSuite, HEADER_OCTETS, Protect, Protection};

use super::BenchError;
use super::samples::Samples;
use speed::frame_times::{Clock, FrameTimes, Percentiles, SlowFrames, Work, round};
use whole_path::WholePath;

pub use machine::{LOOPS, Meanwhile};
pub use table::FieldbusTable;

const BENCH: &str = "fieldbus";
/// Numbers of relations: 57 is what the paper's equation 2 allows for the smallest frames.
pub const RELATIONS: [usize; 5] = [1, 16, 57, 256, 1024];
/// Frames of a turn.
const TURN: usize = 1024;
/// Octets of the two addresses.
const ADDRESSES: usize = 12;
/// Limit on the extra time of frames with more relations than one.
const FLAT: f64 = 1.1;

/// Duration and number of rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Rounds.
    pub rounds: usize,
    /// Duration of each case in each round.
    pub time: Duration,
}

impl Effort {
    /// About 10 seconds for all.
    pub const QUICK: Self = Self { rounds: 11, time: Duration::from_millis(8) };
    /// About 70 seconds.
    pub const FULL: Self = Self { rounds: 41, time: Duration::from_millis(20) };
}

/// A mode and a payload of the paper's table II, with its times in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PaperRow {
    protect: Protect,
    payload: Payload,
    /// Its AES-GCM engine, transfers to it and back included.
    hardware_total: f64,
    /// Its AES-GCM engine alone, simulated.
    hardware_bare: f64,
    /// Its software.
    software: f64,
    /// Target of t_max divided by p99.9 here.
    wanted: f64,
}

/// The paper's table II.
const PAPER: [PaperRow; 4] = [
    row(Protect::Encrypt, Payload::MAX, [13.0, 5.23, 243.5]),
    row(Protect::Encrypt, Payload::MIN, [2.7, 0.39, 12.6]),
    row(Protect::Authenticate, Payload::MAX, [9.3, 4.27, 165.3]),
    row(Protect::Authenticate, Payload::MIN, [2.6, 0.36, 10.0]),
];

const fn row(
    protect: Protect,
    payload: Payload,
    [hardware_total, hardware_bare, software]: [f64; 3],
) -> PaperRow {
    let wanted = if payload.octets() == Payload::MAX.octets() { 50.0 } else { 20.0 };
    PaperRow { protect, payload, hardware_total, hardware_bare, software, wanted }
}

impl PaperRow {
    /// In nanoseconds.
    fn t_max(&self) -> f64 {
        let budget = Budget {
            cycle: Cycle::new(Duration::from_millis(1)).expect("invariant: a cycle"),
            link: LinkRate::new(100_000_000).expect("invariant: a rate"),
            load: Load::from_millionths(500_000).expect("invariant: a half"),
        };
        budget.longest(self.payload).expect("invariant: the paper has relations").nanoseconds()
    }

    const fn mode(&self) -> &'static str {
        match self.protect {
            Protect::Encrypt => "encrypt",
            Protect::Authenticate => "authenticate",
        }
    }

    const fn protection(&self) -> Protection {
        Protection { protect: self.protect, suite: CellSuite::GcmAes128 }
    }

    /// The cipher's input, with the octets in front of the payload.
    fn lengths(&self, in_front: usize) -> Lengths {
        let payload = usize::from(self.payload.octets());
        match self.protect {
            Protect::Encrypt => Lengths { aad: in_front, text: payload },
            Protect::Authenticate => Lengths { aad: in_front + payload, text: 0 },
        }
    }
}

/// Measured part of a frame's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    PaperLengths,
    OurLengths,
    Cell,
    WholePath,
}

impl Extent {
    const ALL: [Self; 4] = [Self::PaperLengths, Self::OurLengths, Self::Cell, Self::WholePath];

    const fn name(self) -> &'static str {
        match self {
            Self::PaperLengths => "cipher, the paper's lengths",
            Self::OurLengths => "cipher, our lengths",
            Self::Cell => "a cell",
            Self::WholePath => "receive to transmit descriptor",
        }
    }

    /// Operation on a frame, in two words.
    const fn operations(self) -> [&'static str; 2] {
        match self {
            Self::PaperLengths | Self::OurLengths => ["seal", "open"],
            Self::Cell | Self::WholePath => ["protect", "verify"],
        }
    }
}

/// Measurements of one operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    row: PaperRow,
    pub(crate) extent: Extent,
    pub(crate) operation: &'static str,
    pub(crate) relations: usize,
    /// The median of each round.
    middles: Samples,
    /// The same with one relation.
    alone: Option<Samples>,
    pub(crate) times: Percentiles,
    slow: SlowFrames,
    pub(crate) clock_ns: u64,
}

impl Figure {
    /// t_max divided by p99.9.
    pub(crate) fn headroom(&self) -> f64 {
        self.row.t_max() / self.times.p99_9
    }

    /// Extra time of a frame compared with one relation: the median of the rounds' quotients.
    pub(crate) fn growth(&self) -> Option<f64> {
        self.middles.row(BENCH, "", self.alone.as_ref()).ratio.map(|ratio| ratio.value)
    }

    fn is_flat(&self) -> bool {
        self.growth().is_none_or(|growth| growth <= FLAT)
    }

    fn is_inside(&self) -> bool {
        self.headroom() >= self.row.wanted
    }

    /// The rows of this figure: p50, and of single frames p50, p99.9 and worst.
    pub fn rows(&self) -> [Row; 4] {
        let mut middle = self.middles.row(BENCH, "ns/frame", self.alone.as_ref());
        middle.target = self.growth().map(|_| Target {
            wanted: format!("at most {FLAT} times that with one relation"),
            met: self.is_flat(),
        });
        let tail = |what: &str, value| {
            let case = self.middles.case.replace("p50", what);
            Row::new(BENCH, &case, value, "ns/frame", self.times.samples)
        };
        let mut high = tail("p99.9", self.times.p99_9);
        let (wanted, t_max) = (self.row.wanted, self.row.t_max() / 1e3);
        high.target =
            Some(Target { wanted: format!("{wanted} times inside {t_max:.2} us"), met: self.is_inside() });
        [middle, tail("p50 of single frames", self.times.single_p50), high, tail("worst", self.times.worst)]
    }
}

/// Measures every row of the paper to every extent; tells each figure as it is there, and in the end what the machine did
/// meanwhile.
///
/// # Errors
/// If gateways in memory do not agree on sessions.
pub fn measure(
    effort: Effort,
    progress: &mut dyn FnMut(&dyn Display),
    figure: &mut dyn FnMut(Figure),
) -> Result<Meanwhile, BenchError> {
    let clock = Clock::measure();
    let mut meanwhile = Meanwhile::begin(clock, effort.time);
    for extent in Extent::ALL {
        for row in PAPER {
            progress(&format_args!("{}: {} {} octets", extent.name(), row.mode(), row.payload.octets()));
            let figures = match extent {
                Extent::PaperLengths => compare(row, extent, clock, effort, |relations| {
                    Ok(ciphers(row, relations, HEADER_OCTETS))
                }),
                Extent::OurLengths => compare(row, extent, clock, effort, |relations| {
                    Ok(ciphers(row, relations, HEADER_OCTETS + ADDRESSES))
                }),
                Extent::Cell => compare(row, extent, clock, effort, |relations| {
                    Ok(Cells::new(relations, row.protection(), usize::from(row.payload.octets())))
                }),
                Extent::WholePath => compare(row, extent, clock, effort, |relations| {
                    WholePath::new(relations, row.protection(), usize::from(row.payload.octets()))
                }),
            };
            for measured in figures? {
                meanwhile.saw(&measured);
                figure(measured);
            }
            meanwhile.look(clock, effort.time);
        }
    }
    Ok(meanwhile)
}

fn ciphers(row: PaperRow, relations: usize, in_front: usize) -> Ciphers {
    Ciphers::new(relations, row.protection(), row.lengths(in_front))
}

/// Measures with each number of relations; they take turns.
fn compare<W: Work>(
    row: PaperRow,
    extent: Extent,
    clock: Clock,
    effort: Effort,
    work: impl Fn(usize) -> Result<W, BenchError>,
) -> Result<Vec<Figure>, BenchError> {
    struct Case<W> {
        relations: usize,
        work: W,
        order: Vec<usize>,
        middles: [Samples; 2],
        times: [FrameTimes; 2],
    }
    let mut cases = Vec::new();
    for relations in RELATIONS {
        let octets = row.payload.octets();
        let name = |operation| {
            format!(
                "{operation} {octets} octets, {}, {}, {relations} relations p50",
                row.mode(),
                extent.name()
            )
        };
        cases.push(Case {
            relations,
            work: work(relations)?,
            order: shuffled(relations, TURN),
            middles: extent.operations().map(|operation| Samples::new(&name(operation))),
            times: [FrameTimes::new(), FrameTimes::new()],
        });
    }
    for _ in 0..effort.rounds {
        for case in &mut cases {
            let measured = round(clock, &case.order, effort.time, &mut case.work);
            for ((middles, times), measured) in case.middles.iter_mut().zip(&mut case.times).zip(&measured) {
                middles.push(measured.middle());
                times.add(measured);
            }
        }
    }
    let alone = cases[0].middles.clone();
    let mut figures = Vec::new();
    for (number, operation) in extent.operations().into_iter().enumerate() {
        for case in &cases {
            figures.push(Figure {
                row,
                extent,
                operation,
                relations: case.relations,
                middles: case.middles[number].clone(),
                alone: (case.relations > 1).then(|| alone[number].clone()),
                times: case.times[number].percentiles(),
                slow: case.times[number].slow(),
                clock_ns: clock.nanoseconds,
            });
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_max_is_the_paper_s() {
        for row in PAPER {
            let expected = if row.payload == Payload::MAX { "125.00" } else { "8.77" };
            assert_eq!(format!("{:.2}", row.t_max() / 1e3), expected);
            // The paper's own verdict: its engine is inside, more than 20 times without transfers, its software is not.
            assert!(row.hardware_total * 1e3 < row.t_max() && row.software * 1e3 > row.t_max());
            assert!(row.hardware_bare * 20.0 * 1e3 < row.t_max());
            let lengths = row.lengths(HEADER_OCTETS);
            let (octets, expected) = (usize::from(row.payload.octets()), row.protect == Protect::Encrypt);
            assert_eq!((lengths.aad, lengths.text), if expected { (7, octets) } else { (7 + octets, 0) });
        }
    }

    fn figure(middles: &[f64], alone: &[f64], p99_9: f64) -> Figure {
        let samples = |values: &[f64]| Samples { case: "protect, p50".into(), values: values.to_vec() };
        Figure {
            row: PAPER[1],
            extent: Extent::Cell,
            operation: "protect",
            relations: 57,
            middles: samples(middles),
            alone: Some(samples(alone)),
            times: Percentiles { p50: 100.0, single_p50: 150.0, p99_9, worst: 9999.0, samples: 10 },
            slow: SlowFrames::default(),
            clock_ns: 20,
        }
    }

    #[test]
    fn targets_are_headroom_and_flatness() {
        for (middles, p99_9, met) in [
            (&[110.0, 220.0, 110.0], 438.0, [Some(true), None, Some(true), None]),
            (&[111.0, 222.0, 90.0], 439.0, [Some(false), None, Some(false), None]),
        ] {
            let rows = figure(middles, &[100.0, 200.0, 100.0], p99_9).rows();
            assert_eq!(rows.each_ref().map(|row| row.target.as_ref().map(|target| target.met)), met);
            assert_eq!((&*rows[1].case, rows[1].value), ("protect, p50 of single frames", 150.0));
            assert_eq!(rows[2].case, "protect, p99.9");
        }
    }

    /// Every case in one very short round: what the figures are is not judged here.
    #[test]
    fn every_row_is_measured_to_every_extent_with_every_number_of_relations() {
        let mut figures = Vec::new();
        let effort = Effort { rounds: 1, time: Duration::ZERO };
        let meanwhile = measure(effort, &mut |_| {}, &mut |figure| figures.push(figure)).unwrap();
        assert_eq!(figures.len(), 4 * 4 * 2 * 5);
        for row in figures.iter().flat_map(Figure::rows).chain(meanwhile.rows()) {
            // There may have been no slow frame, and no time stolen.
            assert!((row.value > 0.0 || row.unit == "percent") && row.value.is_finite(), "{row:?}");
        }
        for (extent, slow) in meanwhile.slow {
            let frames =
                figures.iter().filter(|figure| figure.extent == extent).map(|figure| figure.times.samples);
            assert_eq!(slow.frames, frames.sum::<u64>(), "{extent:?}");
        }
        let table = FieldbusTable(&figures, &meanwhile).to_string();
        for line in ["encrypt           1444      13.00       5.23     243.50     125.00", "a cell, "] {
            assert!(table.contains(line), "{table}");
        }
        assert_eq!(table.matches("\nauthenticate ").count(), 2 + 4 * 4, "{table}");
    }
}
