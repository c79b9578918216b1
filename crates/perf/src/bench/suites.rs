//! Cost of a frame in `suite`, beside the bare call of the cipher's crate: nanoseconds to seal and to open it.
//!
//! Bursts of 64 frames, each in a chunk of its own, with an AAD of 28 octets and nonces composed beforehand: as the
//! frame path does it ([`Burst`]). Ours and the bare calls take turns over the same chunks, burst by burst, so that
//! what else the machine does hits both alike. A round's sample is the median of its bursts; a figure is the median
//! of the rounds.

mod table;

use std::fmt::Display;
use std::time::{Duration, Instant};

use ::bench::bare::Bare;
use ::bench::{Row, Target};
use speed::burst::BURST;
use speed::burst::{Burst, prepared};
use suite::{CipherSuite, Key};

use super::samples::Samples;
use speed::frame_times::median;

pub use table::SuitesTable;

const BENCH: &str = "suites";
/// Octets of a frame's text.
pub const TEXTS: [usize; 6] = [64, 128, 256, 512, 1024, 1468];
/// The text at which the target holds: where the cipher itself takes least.
const TARGET_TEXT: usize = 64;
/// Limit on ours, compared with the bare call.
const TARGET_RATIO: f64 = 1.15;
/// Below this many nanoseconds of the bare call, [`TARGET_NANOSECONDS`] counts instead.
const SHORT_NANOSECONDS: f64 = 40.0;
/// Extra time that ours may take beside a short bare call.
const TARGET_NANOSECONDS: f64 = 6.0;

/// Duration and number of the rounds of each suite at each length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Rounds.
    pub rounds: usize,
    /// Duration of a round.
    pub time: Duration,
}

impl Effort {
    /// About 8 seconds for all.
    pub const QUICK: Self = Self { rounds: 15, time: Duration::from_millis(10) };
    /// About 35 seconds.
    pub const FULL: Self = Self { rounds: 41, time: Duration::from_millis(15) };
}

/// Operation on a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Encrypt it, and compute its ICV.
    Seal,
    /// Decrypt it, and check its ICV.
    Open,
}

impl Operation {
    /// Both, in their order.
    pub const ALL: [Self; 2] = [Self::Seal, Self::Open];

    const fn name(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Open => "open",
        }
    }
}

/// Measurements of one operation with one suite at one length, in nanoseconds a frame.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    suite: CipherSuite,
    operation: Operation,
    text_octets: usize,
    ours: Samples,
    /// None for the suite whose code is our own.
    bare: Option<Samples>,
}

/// Cost of ours beside the bare call.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Overhead {
    ratio: f64,
    nanoseconds: f64,
    bare: f64,
}

impl Overhead {
    fn meets_target(self) -> bool {
        self.ratio <= TARGET_RATIO || self.bare < SHORT_NANOSECONDS && self.nanoseconds <= TARGET_NANOSECONDS
    }

    fn target(self) -> Target {
        let wanted = if self.bare < SHORT_NANOSECONDS {
            format!("ratio at most {TARGET_RATIO}, or at most {TARGET_NANOSECONDS} ns more")
        } else {
            format!("ratio at most {TARGET_RATIO}")
        };
        Target { wanted, met: self.meets_target() }
    }
}

impl Figure {
    /// Medians of what differs from round to round: the rounds' own quotients and differences.
    fn overhead(&self) -> Option<Overhead> {
        let bare = self.bare.as_ref()?;
        let paired = |of: &dyn Fn(f64, f64) -> f64| {
            median(&self.ours.values.iter().zip(&bare.values).map(|(o, b)| of(*o, *b)).collect::<Vec<_>>())
        };
        Some(Overhead {
            ratio: paired(&|ours, bare| ours / bare),
            nanoseconds: paired(&|ours, bare| ours - bare),
            bare: median(&bare.values),
        })
    }

    /// The rows of this figure: of the bare call, if there is one, and ours.
    pub fn rows(&self) -> Vec<Row> {
        let mut ours = self.ours.row(BENCH, "ns/frame", self.bare.as_ref());
        ours.target = self.overhead().filter(|_| self.text_octets == TARGET_TEXT).map(Overhead::target);
        let bare = self.bare.as_ref().map(|bare| bare.row(BENCH, "ns/frame", None));
        bare.into_iter().chain([ours]).collect()
    }
}

/// Measures every suite at every length; tells each figure as it is there.
pub fn measure(effort: Effort, progress: &mut dyn FnMut(&dyn Display), figure: &mut dyn FnMut(Figure)) {
    for suite in CipherSuite::ALL {
        progress(&format_args!("{suite}"));
        for text_octets in TEXTS {
            measure_at(suite, text_octets, effort).into_iter().for_each(&mut *figure);
        }
    }
}

fn measure_at(suite: CipherSuite, text_octets: usize, effort: Effort) -> [Figure; 2] {
    let key = prepared(suite);
    let bare = Bare::new(suite);
    let mut burst = Burst::new(text_octets);
    let mut figures = Operation::ALL.map(|operation| {
        let case = format!("{} {text_octets} octets, {suite}", operation.name());
        let named = |bare: &Bare| Samples::new(&format!("{case}, bare call of {}", bare.crate_name()));
        Figure { suite, operation, text_octets, ours: Samples::new(&case), bare: bare.as_ref().map(named) }
    });
    for _ in 0..effort.rounds {
        let (ours, theirs) = round(&mut burst, &key, bare.as_ref(), effort.time);
        for ((figure, ours), theirs) in figures.iter_mut().zip(ours).zip(theirs) {
            figure.ours.push(ours);
            if let Some(bare) = &mut figure.bare {
                bare.push(theirs);
            }
        }
    }
    figures
}

/// Medians of one round, ours and theirs, each to seal and to open: nanoseconds a frame.
fn round(burst: &mut Burst, key: &Key, bare: Option<&Bare>, time: Duration) -> ([f64; 2], [f64; 2]) {
    let (mut ours, mut theirs) = ([vec![], vec![]], [vec![], vec![]]);
    let start = Instant::now();
    let mut ours_first = true;
    while start.elapsed() < time || ours[0].is_empty() {
        // The second one finds the chunks as the first left them, so they take turns at that too.
        for is_ours in [ours_first, !ours_first] {
            match bare {
                _ if is_ours => timed(burst, &mut ours, |burst| burst.seal(key), |burst| burst.open(key)),
                Some(bare) => {
                    timed(burst, &mut theirs, |burst| bare.seal(burst), |burst| bare.open(burst));
                }
                None => {}
            }
        }
        ours_first = !ours_first;
    }
    (ours.map(|values| median(&values)), theirs.map(|values| median(&values)))
}

fn timed(burst: &mut Burst, to: &mut [Vec<f64>; 2], seal: impl Fn(&mut Burst), open: impl Fn(&mut Burst)) {
    let begin = Instant::now();
    seal(burst);
    let middle = Instant::now();
    open(burst);
    let end = Instant::now();
    assert!(burst.is_authentic(), "what was sealed does not open");
    for (values, time) in to.iter_mut().zip([middle - begin, end - middle]) {
        values.push(time.as_nanos() as f64 / BURST as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ours: &[f64], bare: &[f64]) -> Figure {
        let samples = |case: &str, values: &[f64]| Samples { case: case.into(), values: values.to_vec() };
        Figure {
            suite: CipherSuite::Aegis128L,
            operation: Operation::Seal,
            text_octets: TARGET_TEXT,
            ours: samples("ours", ours),
            bare: Some(samples("bare", bare)),
        }
    }

    #[test]
    fn the_target_is_a_ratio_or_a_few_nanoseconds_of_a_short_call() {
        for (ours, bare, met) in [
            (115.0, 100.0, true),
            (116.0, 100.0, false),
            (36.0, 30.0, true),
            (36.1, 30.0, false),
            (46.5, 40.5, true),
            (47.0, 40.5, false),
            (20.0, 30.0, true),
        ] {
            let rows = figure(&[ours; 3], &[bare; 3]).rows();
            assert_eq!(rows.len(), 2);
            assert_eq!(rows[0].target, None, "a bare call has none");
            assert_eq!(rows[1].target.as_ref().unwrap().met, met, "{ours} beside {bare}");
        }
        // The machine was busy in the last round, for both alike.
        let overhead = figure(&[31.0, 32.0, 64.0], &[30.0, 30.0, 60.0]).overhead().unwrap();
        assert!((overhead.nanoseconds - 2.0).abs() < 1e-9 && (overhead.bare - 30.0).abs() < 1e-9);
        let other = Figure { text_octets: 128, ..figure(&[50.0], &[10.0]) };
        assert_eq!(other.rows()[1].target, None);
    }

    /// Every suite in one very short round: what the figures are is not judged here.
    #[test]
    fn every_suite_is_measured_at_every_length() {
        let mut figures = Vec::new();
        let effort = Effort { rounds: 1, time: Duration::ZERO };
        measure(effort, &mut |_| {}, &mut |figure| figures.push(figure));
        assert_eq!(figures.len(), 10 * 6 * 2);
        let rows: Vec<_> = figures.iter().flat_map(Figure::rows).collect();
        // All but MORUS-640, which is our own code, stand beside a bare call.
        assert_eq!(rows.len(), 10 * 6 * 2 + 9 * 6 * 2);
        assert!(rows.iter().all(|row| row.value > 0.0 && row.value.is_finite()));
        assert_eq!(rows.iter().filter(|row| row.target.is_some()).count(), 9 * 2);
        for ratio in rows.iter().filter_map(|row| row.ratio.as_ref()) {
            assert!(rows.iter().any(|row| row.case == ratio.to && row.ratio.is_none()), "{}", ratio.to);
        }
        let table = SuitesTable(&figures).to_string();
        for suite in CipherSuite::ALL {
            assert_eq!(table.matches(&format!("\n{suite} ")).count(), 2, "{table}");
        }
    }
}
