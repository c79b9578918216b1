//! Plan of a run: every bench, in steps that are stored one by one.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use crate::bench::fieldbus::{end_to_end, in_kernel};
use crate::bench::precompute::{Device, Measured};
use crate::bench::rivals::Rival;
use crate::bench::{Bench, BenchError, Effort, fieldbus, fleet, overload, suites};
use crate::programs::Programs;
use bench::Row;
use bench::fragments::FragmentEnds;

use suite::CipherSuite;

use crate::evidence::contest::{self, Contestant, Daemon};
use crate::evidence::outcome::Outcome;
use crate::evidence::scaling;

/// Extent of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Figures: about 110 minutes.
    Full,
    /// Whether everything runs: about 4 minutes.
    Quick,
}

impl Extent {
    /// As documents call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
        }
    }
}

/// Inputs of a step.
pub struct Tools<'t> {
    /// The programs to be run.
    pub programs: &'t Programs,
    /// Directory in which scripts/precompute.sh has left its rows.
    pub precompute: &'t Path,
    /// Told what is being measured.
    pub say: &'t mut dyn FnMut(&dyn Display),
}

type Work = Box<dyn Fn(&mut Tools<'_>) -> Result<Outcome, String>>;

/// A step.
pub struct Step {
    /// The bench it belongs to.
    pub bench: &'static str,
    /// Its name within the run.
    pub name: String,
    /// About how long it takes.
    pub expected: Duration,
    work: Work,
}

impl Step {
    pub(crate) fn new(
        bench: &'static str,
        name: &str,
        expected: u64,
        work: impl Fn(&mut Tools<'_>) -> Result<Outcome, String> + 'static,
    ) -> Self {
        Self { bench, name: name.into(), expected: Duration::from_secs(expected), work: Box::new(work) }
    }

    #[cfg(test)]
    pub(crate) fn for_test(
        bench: &'static str,
        name: &str,
        work: impl Fn(&mut Tools<'_>) -> Result<Outcome, String> + 'static,
    ) -> Self {
        Self::new(bench, name, 10, work)
    }

    /// Does it.
    ///
    /// # Errors
    /// Why it cannot be done, in words.
    pub fn run(&self, tools: &mut Tools<'_>) -> Result<Outcome, String> {
        (self.work)(tools)
    }
}

/// A bench of the program itself.
type Own = fn(&mut Tools<'_>, Effort) -> Result<Outcome, String>;

/// All steps of a run, in their order.
pub fn steps(extent: Extent) -> Vec<Step> {
    let quick = extent == Extent::Quick;
    let mut steps = vec![
        Step::new(SUITES, SUITES, if quick { 3 } else { 40 }, move |tools| Ok(measure_suites(extent, tools))),
        Step::new(PRECOMPUTE, PRECOMPUTE, if quick { 2 } else { 20 }, move |tools| {
            measure_precompute(extent, tools)
        }),
    ];
    steps.push(Step::new(OVERHEAD, OVERHEAD, 1, |_| Ok(measure_overhead())));
    steps.extend(scaling::steps(extent));
    steps.extend(rivals(extent));
    let effort = if quick { SHORT } else { Effort::QUICK };
    let network: [(&str, [u64; 2], Own); 5] = [
        (OVERLOAD, [50, 480], overload_bench),
        ("fragment", [35, 320], |tools, effort| own_bench(tools, effort, |bench| bench.fragment())),
        ("antedate", [25, 100], |tools, effort| own_bench(tools, effort, |bench| bench.antedate())),
        ("tunnel", [46, 550], tunnel_bench),
        ("link", [60, 500], |tools, effort| own_bench(tools, effort, |bench| bench.link())),
    ];
    for (name, expected, measure) in network {
        let expected = expected[usize::from(!quick)];
        steps.push(Step::new(name, name, expected, move |tools| measure(tools, effort)));
    }
    steps.push(Step::new(FIELDBUS, FIELDBUS, if quick { 22 } else { 400 }, move |tools| {
        measure_fieldbus(extent, tools)
    }));
    steps.push(Step::new(FLEET, FLEET, if quick { 14 } else { 420 }, move |tools| {
        measure_fleet(extent, tools)
    }));
    steps
}

/// The step of cipher suites.
pub const SUITES: &str = "suites";
/// The step of antedated ciphers.
pub const PRECOMPUTE: &str = "precompute";
/// The step of headers around full SDUs.
pub const OVERHEAD: &str = "overhead";
/// The step of more frames than there is room for.
pub const OVERLOAD: &str = overload::BENCH;
/// The step of fieldbus frames.
pub const FIELDBUS: &str = "fieldbus";
/// The step of agents on one etcd.
pub const FLEET: &str = fleet::BENCH;
/// One short round of what takes a network.
const SHORT: Effort = Effort { rounds: 1, time: Duration::from_millis(200), round_trips: 20 };

/// Each round has every contestant once, and two side by side at its end; who begins moves on, so that nobody always comes
/// behind the same one.
fn rivals(extent: Extent) -> Vec<Step> {
    let effort = match extent {
        Extent::Full => contest::Effort::FULL,
        Extent::Quick => contest::Effort::QUICK,
    };
    let mut steps = Vec::new();
    for round in 0..effort.rounds {
        let mut order = Contestant::ALL;
        order.rotate_left(round * 5 % Contestant::ALL.len());
        for contestant in order {
            let name = format!("rivals: round {}, {}", round + 1, contestant.name());
            let expected = if extent == Extent::Full { 55 } else { 10 };
            steps.push(Step::new(contest::BENCH, &name, expected, move |tools| {
                contest::round(tools.programs, contestant, &effort, tools.say)
            }));
        }
        let name = format!("rivals: round {}, side by side", round + 1);
        let expected = if extent == Extent::Full { 10 } else { 5 };
        steps.push(Step::new(contest::BENCH, &name, expected, move |tools| {
            contest::side_by_side(tools.programs, &effort, tools.say)
        }));
    }
    steps
}

fn own_bench(
    tools: &mut Tools<'_>,
    effort: Effort,
    measure: impl FnOnce(&mut Bench<'_>) -> Result<(), BenchError>,
) -> Result<Outcome, String> {
    let mut rows: Vec<Row> = Vec::new();
    let mut bench = Bench {
        programs: tools.programs,
        effort,
        only: &[],
        progress: tools.say,
        figure: &mut |row| rows.push(row),
    };
    measure(&mut bench).map_err(|error| error.to_string())?;
    Ok(Outcome { rows, ..Outcome::default() })
}

/// Sites beside those tunnels that are installed.
fn tunnel_bench(tools: &mut Tools<'_>, effort: Effort) -> Result<Outcome, String> {
    let outcome = own_bench(tools, effort, |bench| bench.tunnel())?;
    let missing = Rival::ALL.into_iter().filter_map(|rival| Some((rival, rival.missing()?)));
    let gap = |(rival, program): (Rival, &str)| {
        format!("{}: {program} is not installed: scripts/setup.sh bench", rival.name())
    };
    Ok(Outcome { gaps: missing.map(gap).collect(), ..outcome })
}

/// Links and sites under overload, then the others' curves of good frames, those that are installed.
fn overload_bench(tools: &mut Tools<'_>, effort: Effort) -> Result<Outcome, String> {
    let mut outcome = own_bench(tools, effort, |bench| bench.overload())?;
    for contestant in [Contestant::Daemon(Daemon::OpenVpn), Contestant::Daemon(Daemon::Fastd)] {
        match contest::overload(tools.programs, contestant, &effort, tools.say) {
            Ok(rows) => outcome.rows.extend(rows),
            Err(why) => outcome.gaps.push(format!("{}: {why}", contestant.name())),
        }
    }
    Ok(outcome)
}

/// Octets of headers around full SDUs that follow each other, and around a short one alone, counted.
fn measure_overhead() -> Outcome {
    // An Ethernet header and the largest payload; over this MTU it is fragmented, over that one it is not.
    let (sdu, narrow, jumbo) = (1514, 1500, 1532);
    let shortest = 60;
    let suite = CipherSuite::GcmAes128;
    let ways =
        [("whole", jumbo, false), ("divided", narrow, false), ("divided, sharing frames", narrow, true)];
    let row = |case: &str, mut ends: FragmentEnds, sdus: usize| {
        ends.protect();
        Row::new(OVERHEAD, case, ends.header_octets(), "octets/SDU", sdus as u64)
    };
    let mut rows = Vec::new();
    for (case, mtu, concatenate) in ways {
        let full = FragmentEnds::new(suite, sdu, mtu, concatenate);
        rows.push(row(case, full, FragmentEnds::SDUS));
        let alone = FragmentEnds::alone(suite, shortest, mtu, concatenate);
        rows.push(row(&format!("{case}, a short one alone"), alone, 1));
    }
    Outcome { rows, ..Outcome::default() }
}

fn measure_suites(extent: Extent, tools: &mut Tools<'_>) -> Outcome {
    let effort = match extent {
        Extent::Full => suites::Effort::FULL,
        Extent::Quick => suites::Effort { rounds: 5, time: Duration::from_millis(3) },
    };
    let mut rows = Vec::new();
    suites::measure(effort, tools.say, &mut |figure| rows.extend(figure.rows()));
    Outcome { rows, ..Outcome::default() }
}

fn measure_fieldbus(extent: Extent, tools: &mut Tools<'_>) -> Result<Outcome, String> {
    let effort = match extent {
        Extent::Full => fieldbus::Effort::FULL,
        Extent::Quick => fieldbus::Effort { rounds: 3, time: Duration::from_millis(2) },
    };
    let mut rows = Vec::new();
    let meanwhile = fieldbus::measure(effort, tools.say, &mut |figure| rows.extend(figure.rows()))
        .map_err(|error| error.to_string())?;
    rows.extend(meanwhile.rows());
    let mut gaps = Vec::new();
    match in_kernel::measure(effort, tools.say) {
        Ok(more) => rows.extend(more),
        Err(error) => gaps.push(format!("in the kernel: {error}")),
    }
    let effort = match extent {
        Extent::Full => end_to_end::FULL,
        Extent::Quick => fieldbus::Effort { rounds: 1, time: Duration::from_millis(500) },
    };
    match end_to_end::measure(tools.programs, effort, tools.say) {
        Ok(more) => rows.extend(more),
        // Benches that need no network are measured all the same.
        Err(error) => gaps.push(format!("end to end: {error}")),
    }
    Ok(Outcome { rows, gaps, ..Outcome::default() })
}

fn measure_fleet(extent: Extent, tools: &mut Tools<'_>) -> Result<Outcome, String> {
    let effort = match extent {
        Extent::Full => fleet::Effort::full(),
        Extent::Quick => fleet::Effort::quick(),
    };
    let mut rows = Vec::new();
    fleet::measure(tools.programs, &effort, tools.say, &mut |row| rows.push(row))
        .map_err(|error| error.to_string())?;
    Ok(Outcome { rows, ..Outcome::default() })
}

fn measure_precompute(extent: Extent, tools: &mut Tools<'_>) -> Result<Outcome, String> {
    let rounds = if extent == Extent::Quick { 11 } else { 501 };
    let (mut measured, mut gaps) = (Vec::new(), Vec::new());
    for (device, name) in [(Device::CortexM4, "mcu"), (Device::Software, "soft")] {
        let file = tools.precompute.join(name).with_extension("csv");
        if file.exists() {
            measured.push(Measured::read(device, &file)?);
        } else {
            gaps.push(format!("no {}: scripts/precompute.sh {name} makes it", file.display()));
        }
    }
    measured.push(Measured::here(rounds));
    Ok(Outcome { rows: measured.iter().flat_map(Measured::figures).collect(), gaps, ..Outcome::default() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_contestant_has_its_turn_in_every_round_and_nobody_always_the_same_place() {
        let steps = steps(Extent::Full);
        let names: BTreeSet<_> = steps.iter().map(|step| &step.name).collect();
        assert_eq!(names.len(), steps.len(), "a name is a place in the store");
        let rounds: Vec<&str> =
            steps.iter().filter(|step| step.bench == contest::BENCH).map(|step| step.name.as_str()).collect();
        let a_round = Contestant::ALL.len() + 1;
        assert_eq!(rounds.len(), 5 * a_round);
        let firsts: BTreeSet<_> =
            rounds.chunks(a_round).map(|round| round[0].split_once(", ").map(|(_, name)| name)).collect();
        assert_eq!(firsts.len(), 5);
        // The promise: about 110 minutes after building and installing, and about five.
        let minutes =
            |extent| super::steps(extent).iter().map(|step| step.expected).sum::<Duration>().as_secs() / 60;
        assert!((100..=118).contains(&minutes(Extent::Full)), "{}", minutes(Extent::Full));
        assert!((4..=6).contains(&minutes(Extent::Quick)), "{}", minutes(Extent::Quick));
    }
}
