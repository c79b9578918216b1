//! One figure of one bench, as one line of JSON.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

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
            machine: MACHINE.clone(),
            commit: COMMIT.clone(),
        }
    }

    /// The row as one line, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("invariant: text and finite numbers become JSON")
    }
}

/// Asked once: a run has many rows, and neither changes in it.
static MACHINE: LazyLock<String> = LazyLock::new(machine);
static COMMIT: LazyLock<String> = LazyLock::new(commit);

fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, name)| name);
    format!("{}, {model}, {cpus} CPUs", std::env::consts::ARCH)
}

/// Outside of a checkout of this project there is no commit to name: then it is the release, as its tag is called.
fn commit() -> String {
    in_checkout(Path::new(".")).unwrap_or_else(|| concat!("v", env!("CARGO_PKG_VERSION")).into())
}

/// The commit that `folder` is a checkout of, with a plus sign if something is changed there; none in another project's.
fn in_checkout(folder: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(folder).args(arguments).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["ls-files", "--error-unmatch", ":/crates/frameward/Cargo.toml"])?;
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&["status", "--porcelain"]).is_none_or(|changes| !changes.is_empty());
    Some(if changed { commit + "+" } else { commit })
}

/// The middle value, or the mean of the two in the middle; 0 if there is none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.get(upper) {
        None => 0.0,
        Some(value) if sorted.len() % 2 == 1 => *value,
        Some(value) => f64::midpoint(sorted[upper - 1], *value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_and_reads_back() {
        let ratio = Ratio { to: "committed".into(), value: 1.5 };
        let row = Row { ratio: Some(ratio), ..Row::new("instructions", "a \"case\"\n", 2.5, "us", 3) };
        let line = row.line();
        assert!(!line.contains('\n') && !line.contains("spread"));
        assert_eq!(serde_json::from_str::<Row>(&line).expect("a row"), row);
    }
    #[test]
    fn a_commit_is_that_of_a_checkout_of_ours_or_else_the_release() {
        assert_eq!(in_checkout(Path::new("/")), None);
        assert_eq!(in_checkout(&std::env::temp_dir()), None);
        let known = in_checkout(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_or_else(commit);
        assert!(known.chars().all(|c| c.is_ascii_alphanumeric() || ".+".contains(c)), "{known}");
        assert_ne!(known, "unknown");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, expected) in [(&[][..], 0.0), (&[3.0], 3.0), (&[9.0, 1.0], 5.0), (&[7.0, 1.0, 2.0], 2.0)]
        {
            assert!((median(values) - expected).abs() < 1e-9, "{values:?}");
        }
    }
}
