//! Queries of the page's figures to a run, and the cases that they miss there.

use crate::evidence::document::{Document, Figure as Measured};

use super::bars::{Bar, Group};
use super::figure::Kind;

/// Limit on the missing cases that are named; of the others their number is told.
const NAMED: usize = 3;

/// Takes figures of one bench out of a document, and remembers what was not there.
pub(super) struct Query<'d> {
    document: &'d Document,
    bench: &'d str,
    missing: Vec<String>,
}

impl<'d> Query<'d> {
    pub(super) fn new(document: &'d Document, bench: &'d str) -> Self {
        Self { document, bench, missing: Vec::new() }
    }

    pub(super) fn measured(&mut self, case: &str) -> Option<&'d Measured> {
        let found = self.document.figure(self.bench, case);
        if found.is_none() {
            self.missing.push(case.to_owned());
        }
        found
    }

    pub(super) fn value(&mut self, case: &str) -> Option<f64> {
        self.measured(case).map(|figure| figure.value)
    }

    pub(super) fn bar(&mut self, kind: Kind, case: &str) -> Option<Bar> {
        self.scaled_bar(kind, case, 1.0)
    }

    /// The same in another unit.
    pub(super) fn scaled_bar(&mut self, kind: Kind, case: &str, factor: f64) -> Option<Bar> {
        let figure = self.measured(case)?;
        let spread = figure.spread.filter(|_| figure.values.len() > 1);
        let spread = spread.map(|spread| (spread.lowest * factor, spread.highest * factor));
        Some(Bar { kind, value: figure.value * factor, spread })
    }

    /// Points of cases that differ in a number.
    pub(super) fn points(&mut self, at: impl IntoIterator<Item = (f64, String)>) -> Vec<(f64, f64)> {
        at.into_iter().filter_map(|(x, case)| Some((x, self.value(&case)?))).collect()
    }

    /// Missing cases, with the reasons that the run gives.
    pub(super) fn gaps(self) -> Vec<String> {
        if self.missing.is_empty() {
            return Vec::new();
        }
        let reasons = self.document.gaps(self.bench);
        let reason = match &reasons[..] {
            [] => "not part of this run".to_owned(),
            reasons => reasons.join("; "),
        };
        let named = self.missing.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
        let more = match self.missing.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        vec![format!("{named}{more}: {reason}.")]
    }
}

/// A group of those bars that there are; none without any.
pub(super) fn group(name: &str, bars: impl IntoIterator<Item = Option<Bar>>) -> Option<Group> {
    let bars: Vec<Bar> = bars.into_iter().flatten().collect();
    (!bars.is_empty()).then(|| Group { name: name.into(), bars })
}

/// The command that makes a bench's figures again.
pub(super) fn command(document: &Document, bench: &str) -> String {
    let quick = if document.effort == "quick" { " --quick --out target/evidence-quick" } else { "" };
    format!("target/release/frameward-lab evidence run --fresh --only {bench}{quick}")
}
