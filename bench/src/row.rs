//! One figure of a bench, as one line of JSON.
//!
//! ```json
//! {"bench":"suites","case":"seal/gcm-aes-128/1468","value":153.0,"unit":"ns/frame","samples":9,
//!  "spread":{"lowest":151.0,"highest":171.0},"ratio":{"to":"seal/ring/1468","times":0.75},
//!  "conditions":{"burst":"64"},"machine":{"arch":"x86_64","cpu":"…","cores":2,"kernel":"…"},"commit":"0123456789ab"}
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `bench` | which bench, one word |
//! | `case` | what was measured, from the general to the particular, parted by `/`; unique within a bench |
//! | `value` | the median of the samples |
//! | `unit` | of `value` and `spread`: `ns/frame`, `Mbit/s`, `instructions/frame`, … |
//! | `samples` | how many measurements stand behind it |
//! | `spread` | the lowest and the highest of them; left out if there was one |
//! | `ratio` | `value` divided by that of another case of the same run: shared machines make absolutes doubtful, ratios less so; left out if there is none |
//! | `conditions` | what else has to be equal for two rows to be comparable |
//! | `machine` | where |
//! | `commit` | of what; `-dirty` if the sources were changed since |
//!
//! A row that is read back has all of these fields and no others, so that a misspelt one is noticed.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// One figure. See the module's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Which bench.
    pub bench: String,
    /// What was measured; unique within the bench.
    pub case: String,
    /// The median.
    pub value: f64,
    /// Unit of the value and the spread.
    pub unit: String,
    /// How many measurements.
    pub samples: usize,
    /// The lowest and the highest, if there was more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Against another case of the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// What else has to be equal for two rows to be comparable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
    /// Where it was measured.
    pub machine: Machine,
    /// What was measured.
    pub commit: String,
}

/// The lowest and the highest of several samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

/// How a value stands to that of another case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The other case.
    pub to: String,
    /// This value divided by the other's.
    pub times: f64,
}

/// A machine, as far as it matters to a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The instruction set, as Rust names it: `x86_64`.
    pub arch: String,
    /// The processor, as it names itself.
    pub cpu: String,
    /// Processors that this program may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
}

impl Row {
    /// A row of the median of `samples`, here and now, at `commit` (see [`commit`]). `None` without samples, or if
    /// one is not a finite number.
    pub fn of_samples(bench: &str, case: &str, unit: &str, samples: &[f64], commit: &str) -> Option<Row> {
        if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (lowest, highest) = (sorted[0], sorted[sorted.len() - 1]);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Row {
            bench: bench.into(),
            case: case.into(),
            value: median,
            unit: unit.into(),
            samples: samples.len(),
            spread: (samples.len() > 1).then_some(Spread { lowest, highest }),
            ratio: None,
            conditions: BTreeMap::new(),
            machine: Machine::here(),
            commit: commit.into(),
        })
    }

    /// Adds a condition.
    #[must_use]
    pub fn under(mut self, name: &str, value: impl Into<String>) -> Row {
        self.conditions.insert(name.into(), value.into());
        self
    }

    /// Relates it to another row. Unchanged if that row's value is 0.
    #[must_use]
    pub fn against(mut self, other: &Row) -> Row {
        let times = self.value / other.value;
        if times.is_finite() {
            self.ratio = Some(Ratio { to: other.case.clone(), times });
        }
        self
    }

    /// The row as one line, without its end.
    ///
    /// # Errors
    /// If the value, or what was put in beside it, is not a finite number: JSON has no spelling for it.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        let numbers = [Some(self.value), self.ratio.as_ref().map(|ratio| ratio.times)];
        let spread = self.spread.map(|spread| [spread.lowest, spread.highest]);
        if numbers.iter().flatten().chain(spread.iter().flatten()).any(|number| !number.is_finite()) {
            return Err(serde::ser::Error::custom(format!("{}: not a finite number", self.case)));
        }
        serde_json::to_string(self)
    }

    /// Reads rows, one a line; empty lines are skipped.
    ///
    /// # Errors
    /// At the first line that is not a row.
    pub fn read_lines(text: &str) -> Result<Vec<Row>, serde_json::Error> {
        text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
    }
}

impl Machine {
    /// This machine. What it does not tell is `unknown`.
    pub fn here() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let told = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        Machine {
            arch: std::env::consts::ARCH.into(),
            cpu: told(model.map_or("", |(_, model)| model.trim())),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: told(kernel.trim()),
        }
    }
}

/// The commit that is checked out here, 12 digits, with `-dirty` if tracked files differ from it; `unknown` outside
/// of a repository.
pub fn commit() -> String {
    let described = Command::new("git")
        .args(["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty"])
        .output()
        .ok()
        .filter(|output| output.status.success());
    described
        .map_or_else(|| "unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples: &[f64]) -> Option<Row> {
        Row::of_samples("suites", "seal/64", "ns/frame", samples, "0123456789ab")
    }

    #[test]
    fn the_median_stands_for_the_samples() {
        for (samples, median, spread) in [
            (&[7.0][..], 7.0, None),
            (&[3.0, 1.0], 2.0, Some((1.0, 3.0))),
            (&[9.0, 1.0, 2.0], 2.0, Some((1.0, 9.0))),
            (&[4.0, 1.0, 9.0, 2.0], 3.0, Some((1.0, 9.0))),
        ] {
            let row = row(samples).unwrap();
            assert_eq!((row.value, row.samples), (median, samples.len()));
            assert_eq!(row.spread.map(|spread| (spread.lowest, spread.highest)), spread);
        }
        assert_eq!(row(&[]), None);
        assert_eq!(row(&[1.0, f64::NAN]), None);
        assert_eq!(row(&[f64::INFINITY]), None);
    }

    #[test]
    fn a_row_is_one_line_and_reads_back() {
        let base = row(&[50.0]).unwrap();
        let full = row(&[100.0, 200.0]).unwrap().against(&base).under("burst", "64");
        assert_eq!(full.ratio, Some(Ratio { to: "seal/64".into(), times: 3.0 }));
        let lines = format!("{}\n\n{}\n", base.line().unwrap(), full.line().unwrap());
        assert_eq!(lines.lines().count(), 3);
        assert_eq!(Row::read_lines(&lines).unwrap(), [base.clone(), full]);
        let text = base.line().unwrap();
        assert!(
            !text.contains("ratio") && !text.contains("spread") && !text.contains("conditions"),
            "{text}"
        );
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let line = row(&[1.0]).unwrap().line().unwrap();
        for (from, to) in [
            (r#""value":1.0"#, r#""value":null"#),
            (r#""unit":"ns/frame","#, ""),
            (r#""samples":1"#, r#""samples":-1"#),
            (r#""bench""#, r#""bensh":1,"bench""#),
        ] {
            let broken = line.replace(from, to);
            assert_ne!(broken, line);
            assert!(Row::read_lines(&broken).is_err(), "{broken}");
        }
        let mut endless = row(&[1.0]).unwrap();
        endless.value = f64::INFINITY;
        assert!(endless.line().is_err());
        let zero = row(&[0.0]).unwrap();
        assert_eq!(row(&[1.0]).unwrap().against(&zero).ratio, None);
    }
}
