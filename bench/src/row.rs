//! One figure of one bench, as one line of JSON.

use serde::{Deserialize, Serialize};
use speed::machine;

/// The commit that was built, with a plus sign if code was changed in its tree; without a checkout the release, as its tag is called.
const COMMIT: &str = env!("FRAMEWARD_COMMIT");

/// A figure, what it compares to, and where it comes from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The bench: `instructions`, `suites`, `link`, ….
    pub bench: String,
    /// Name of the measurement within the bench.
    pub case: String,
    /// The figure: a median, if there is a spread.
    pub value: f64,
    /// Its unit, spelled out: `instructions/frame`, `Mbit/s`, `us`.
    pub unit: String,
    /// Distance of single samples from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// The figure divided by another one of the same run, or by a committed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// Target of the figure, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Number of samples, frames or rounds behind the figure.
    pub samples: u64,
    /// Figure of each round, in the order of the rounds, if the figure is a median of rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// Architecture and CPUs.
    pub machine: String,
    /// The commit that was built, with `+` if the tree had changes.
    pub commit: String,
}

/// The lowest and the highest sample.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

/// A figure divided by another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// The other: a case of the same run, or `committed`.
    pub to: String,
    /// The quotient.
    pub value: f64,
}

/// Target of a figure, and whether it is met.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// In words: `ratio at most 1.15`.
    pub wanted: String,
    /// Whether this run met it.
    pub met: bool,
}

impl Row {
    /// A row of this machine and this commit, without spread, ratio or target.
    pub fn new(bench: &str, case: &str, value: f64, unit: &str, samples: u64) -> Self {
        Self {
            bench: bench.into(),
            case: case.into(),
            value,
            unit: unit.into(),
            spread: None,
            ratio: None,
            target: None,
            samples,
            values: Vec::new(),
            machine: machine::name().into(),
            commit: COMMIT.into(),
        }
    }

    /// The row as one line, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("invariant: text and finite numbers become JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_the_commit_that_was_built() {
        let name = COMMIT.trim_end_matches('+');
        let is_commit = name.len() >= 7 && name.chars().all(|c| c.is_ascii_hexdigit());
        assert!(is_commit || name == concat!("v", env!("CARGO_PKG_VERSION")), "{COMMIT}");
    }

    #[test]
    fn a_row_is_one_line_and_reads_back() {
        let ratio = Ratio { to: "committed".into(), value: 1.5 };
        let row = Row { ratio: Some(ratio), ..Row::new("instructions", "a \"case\"\n", 2.5, "us", 3) };
        let line = row.line();
        assert!(!line.contains('\n') && !line.contains("spread"));
        assert_eq!(serde_json::from_str::<Row>(&line).expect("a row"), row);
    }
}
