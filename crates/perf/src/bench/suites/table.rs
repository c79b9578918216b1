//! The figures as two tables for people, one for each operation: a line for each suite, a column for each length.

use std::fmt;

use speed::burst::AAD_OCTETS;
use speed::burst::BURST;

use super::{Figure, Operation, SHORT_NANOSECONDS, TARGET_NANOSECONDS, TARGET_RATIO, TARGET_TEXT, TEXTS};
use speed::frame_times::median;

/// Figures that print as tables.
#[derive(Clone, Copy, Debug)]
pub struct SuitesTable<'f>(pub &'f [Figure]);

impl fmt::Display for SuitesTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(row) = self.0.first().and_then(|figure| figure.rows().pop()) else { return Ok(()) };
        writeln!(f, "bench suites, commit {}, {}", row.commit, row.machine)?;
        writeln!(
            f,
            "ns a frame, AAD of {AAD_OCTETS} octets, bursts of {BURST}; medians of {} rounds; in parentheses, beside the bare call of the",
            row.samples
        )?;
        writeln!(
            f,
            "cipher's crate in the same rounds (morus-640-128 is our own code: there is no crate to compare with)"
        )?;
        Operation::ALL.into_iter().try_for_each(|operation| self.operation(f, operation))?;
        self.target(f)
    }
}

impl SuitesTable<'_> {
    fn operation(&self, f: &mut fmt::Formatter<'_>, operation: Operation) -> fmt::Result {
        let octets = format!("{}, octets", operation.name());
        write!(f, "\n{octets:18}")?;
        TEXTS.iter().try_for_each(|text| write!(f, "{text:>15}"))?;
        let mut suite = None;
        for figure in self.0.iter().filter(|figure| figure.operation == operation) {
            if suite != Some(figure.suite) {
                suite = Some(figure.suite);
                write!(f, "\n{:18}", figure.suite.name())?;
            }
            let ratio = figure.overhead().map(|overhead| format!("({:.2})", overhead.ratio));
            write!(f, "{:8.1} {:6}", median(&figure.ours.values), ratio.unwrap_or_default())?;
        }
        writeln!(f)
    }

    fn target(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let judged = |figure: &&Figure| figure.text_octets == TARGET_TEXT;
        let overheads = self.0.iter().filter(judged).filter_map(|figure| Some((figure, figure.overhead()?)));
        let missed: Vec<_> = overheads.filter(|(_, overhead)| !overhead.meets_target()).collect();
        write!(
            f,
            "\ntarget at {TARGET_TEXT} octets (at most {TARGET_RATIO} times the bare call, or {TARGET_NANOSECONDS} ns more where that takes less than {SHORT_NANOSECONDS}): "
        )?;
        if missed.is_empty() {
            return writeln!(f, "met by all");
        }
        for (number, (figure, overhead)) in missed.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "missed by " };
            let (ratio, more) = (overhead.ratio, overhead.nanoseconds);
            write!(f, "{comma}{} {} ({ratio:.2}, {more:+.1} ns)", figure.operation.name(), figure.suite)?;
        }
        writeln!(f)
    }
}
