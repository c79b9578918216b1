//! `evidence.json`: what a run has measured, on what, and what is missing.
//!
//! ```json
//! {"format":1, "effort":"full", "commit":"0c6be4a", "machine":{...}, "programs":{"fastd":"fastd v22"},
//!  "steps":[{"bench":"rivals","name":"rivals: round 1, fastd","seconds":61.2,"gap":null}],
//!  "verdicts":{"TCP throughput":{"beside":"fastd","ratio":3.1,"met":true,...}},
//!  "figures":{"rivals":{"TCP, one stream, fastd":{"value":838.1,"unit":"Mbit/s","values":[...]}}},
//!  "curves":{"rivals":{"round trip, fastd":[[50.0,113.0],...]}}}
//! ```
//!
//! A figure has an address that stays: `/figures/rivals/TCP, one stream, fastd/value`. Documents quote by it.

use std::collections::BTreeMap;

use bench::{Ratio, Row, Spread, Target};
use serde::{Deserialize, Serialize};

use crate::evidence::comparison::{self, Comparison};
use crate::evidence::outcome::{Outcome, merge, merge_curves};
use crate::evidence::quietness::Quietness;

/// The format's number: it changes when an address would lead elsewhere.
const FORMAT: u32 = 1;

/// A run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Document {
    /// The number of this format.
    pub format: u32,
    /// `full` or `quick`.
    pub effort: String,
    /// The commit that was built, with `+` if the tree had changes.
    pub commit: String,
    /// End of the last step, in UTC, as RFC 3339 spells it.
    pub ended: String,
    /// The machine it ran on.
    pub machine: Machine,
    /// The programs that took part, and the versions that they name.
    pub programs: BTreeMap<String, String>,
    /// Every step, in its order.
    pub steps: Vec<Step>,
    /// Target, and what this run comes to. Made of the figures, never read: see [`Document::judge`].
    #[serde(skip_deserializing)]
    pub verdicts: BTreeMap<String, Comparison>,
    /// Bench, case, figure.
    pub figures: BTreeMap<String, BTreeMap<String, Figure>>,
    /// Bench, case, points of percentile and value.
    #[serde(default)]
    pub curves: BTreeMap<String, BTreeMap<String, Vec<(f64, f64)>>>,
}

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// `x86_64`.
    pub architecture: String,
    /// The model's name.
    pub cpu: String,
    /// Number of CPUs that may be used.
    pub cpus: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
}

/// A step, and why it has measured nothing, if so.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The bench it belongs to.
    pub bench: String,
    /// Its name within the run.
    pub name: String,
    /// Its duration.
    pub seconds: f64,
    /// Why there is nothing of it.
    pub gap: Option<String>,
    /// Share of the machine that others took meanwhile; nothing in runs that were made before it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quietness: Option<Quietness>,
}

/// A figure: a row without what all rows of a run share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// The figure: a median, if there are values.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The lowest and the highest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Divided by another figure of the same bench.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// Its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Number of samples, frames or rounds behind it.
    pub samples: u64,
    /// Values of the rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
}

impl From<Row> for Figure {
    fn from(row: Row) -> Self {
        let Row { value, unit, spread, ratio, target, samples, values, .. } = row;
        Self { value, unit, spread, ratio, target, samples, values }
    }
}

impl Document {
    /// A document of these steps, and of what they have measured.
    pub fn new(
        (effort, commit, ended): (&str, &str, &str),
        machine: Machine,
        programs: BTreeMap<String, String>,
        steps: Vec<Step>,
        outcome: Outcome,
    ) -> Self {
        let mut figures: BTreeMap<String, BTreeMap<String, Figure>> = BTreeMap::new();
        for row in merge(outcome.rows) {
            let (bench, case) = (row.bench.clone(), address(&row.case));
            let same = figures.entry(bench).or_default();
            // A case that is compared with two others is told twice: the second comparison stands beside the first.
            let case = match (same.contains_key(&case), &row.ratio) {
                (true, Some(ratio)) => format!("{case}, beside {}", address(&ratio.to)),
                _ => case,
            };
            same.insert(case, row.into());
        }
        let mut curves: BTreeMap<String, BTreeMap<String, Vec<(f64, f64)>>> = BTreeMap::new();
        for curve in merge_curves(&outcome.curves) {
            curves.entry(curve.bench).or_default().insert(address(&curve.case), curve.points);
        }
        let verdicts = comparison::compare(&figures);
        Self {
            format: FORMAT,
            effort: effort.into(),
            commit: commit.into(),
            ended: ended.into(),
            machine,
            programs,
            steps,
            verdicts,
            figures,
            curves,
        }
    }

    /// Compares the figures with the targets of today, which may be others than those of the run's time.
    pub fn judge(&mut self) {
        self.verdicts = comparison::compare(&self.figures);
    }

    /// A figure.
    pub fn figure(&self, bench: &str, case: &str) -> Option<&Figure> {
        self.figures.get(bench)?.get(&address(case))
    }

    /// The points of a curve.
    pub fn curve(&self, bench: &str, case: &str) -> Option<&[(f64, f64)]> {
        self.curves.get(bench)?.get(&address(case)).map(Vec::as_slice)
    }

    /// Why figures of a bench are missing: each reason once.
    pub fn gaps(&self, bench: &str) -> Vec<&str> {
        let mut gaps: Vec<&str> = Vec::new();
        for gap in self.steps.iter().filter(|step| step.bench == bench).filter_map(|step| step.gap.as_deref())
        {
            if !gaps.contains(&gap) {
                gaps.push(gap);
            }
        }
        gaps
    }
}

/// A name as a part of an address: `/` and `~` would be spelled otherwise in a JSON pointer.
fn address(case: &str) -> String {
    case.replace('/', " per ").replace('~', "about ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            architecture: "x86_64".into(),
            cpu: "a CPU".into(),
            cpus: 2,
            memory_mib: 4096,
            kernel: "6.1".into(),
            system: "Debian".into(),
        }
    }

    #[test]
    fn what_was_measured_is_found_by_its_address() {
        let ratio = |to: &str| Some(Ratio { to: to.into(), value: 2.0 });
        let rows = vec![
            Row::new("link", "TCP, a", 3.0, "Mbit/s", 1),
            Row { ratio: ratio("b"), ..Row::new("link", "load of 5 frames/s, c", 9.0, "us", 1) },
        ];
        let step = |name: &str, gap: Option<&str>| Step {
            bench: "link".into(),
            name: name.into(),
            seconds: 1.0,
            gap: gap.map(String::from),
            quietness: None,
        };
        let steps = vec![step("link", None), step("x", Some("no root")), step("y", Some("no root"))];
        let outcome = Outcome { rows, ..Outcome::default() };
        let document = Document::new(("quick", "c", "t"), machine(), BTreeMap::new(), steps, outcome);
        assert_eq!(document.gaps("link"), ["no root"]);
        assert_eq!(document.figure("link", "TCP, a").unwrap().value, 3.0);
        assert_eq!(document.figure("link", "load of 5 frames/s, c").unwrap().unit, "us");
        assert!(document.figure("link", "TCP, b").is_none() && document.figure("tunnel", "TCP, a").is_none());
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(json.pointer("/figures/link/load of 5 frames per s, c/value"), Some(&9.0.into()));
        assert_eq!(serde_json::from_value::<Document>(json).unwrap(), document);
    }
}
