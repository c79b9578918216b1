//! A cell as text.

use std::fmt;

use super::{Detail, StatusText, judged};
use report::cell::{CellKeyReport, CellReport, HistogramReport, RelationReport};

/// Relations that are shown; all of them with [`Detail::All`].
const SHOWN: usize = 16;

impl StatusText<'_> {
    pub(super) fn cell(&self, f: &mut fmt::Formatter<'_>, cell: &CellReport) -> fmt::Result {
        writeln!(f, "  {}", Cell(cell))?;
        if !cell.path.is_empty() {
            writeln!(f, "    path, both ways: {}", cell.path)?;
        }
        if !cell.relations.is_empty() {
            judged(f, 4, &cell.verdict, &[])?;
        }
        self.counters(f, 4, &cell.counters)?;
        self.counters(f, 4, &cell.hello)?;
        let shown = if self.detail == Detail::All { usize::MAX } else { SHOWN };
        for relation in cell.relations.iter().take(shown) {
            writeln!(f, "    relation {}", Relation(relation))?;
            writeln!(f, "      {}", Outward(relation, &cell.bounds_ns))?;
            self.counters(f, 8, &relation.transmit)?;
            writeln!(f, "      {}", Inward(relation, &cell.bounds_ns))?;
            self.counters(f, 8, &relation.receive)?;
        }
        match cell.relations.len().saturating_sub(shown) {
            0 => Ok(()),
            more => writeln!(f, "    and {more} more relations: --all shows them"),
        }
    }
}

/// A cell, in a line.
pub(in super::super) struct Cell<'r>(pub(in super::super) &'r CellReport);

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CellReport { name, protect, suite, rest, master_key, fallback_master_key, relations, .. } =
            self.0;
        let rest = if rest == "drop" { "dropped" } else { "through this link's SecY" };
        write!(f, "fieldbus {name}, {suite}, {protect}; rest {rest}; master key {master_key}")?;
        if let Some(fallback) = fallback_master_key {
            let resting = relations.iter().filter(|of| of.master_key.as_ref() == Some(fallback)).count();
            write!(f, ", fallback {fallback} (sessions on it: {resting})")?;
        }
        write!(f, "; relations: {}", relations.len())?;
        let count =
            |of: fn(&RelationReport) -> bool| relations.iter().filter(|relation| of(relation)).count();
        match count(RelationReport::is_shadowed) {
            0 => {}
            shadowed => write!(f, ", {shadowed} IN SHADOW MODE: IN CLEAR")?,
        }
        match count(|relation| !relation.has_session()) {
            0 => Ok(()),
            lacking => write!(f, ", {lacking} WITHOUT A SESSION"),
        }
    }
}

/// A relation's stations and its state.
pub(in super::super) struct Relation<'r>(pub(in super::super) &'r RelationReport);

impl fmt::Display for Relation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RelationReport {
            own,
            sends,
            peer,
            receives,
            cycle_ns,
            mode,
            state,
            transmit_key,
            receive_key,
            ..
        } = self.0;
        write!(f, "{own} (here) {sends}, {peer} {receives}, each {}: {state}", Time(*cycle_ns))?;
        if mode == "shadow" {
            write!(f, ", SHADOW: IN CLEAR")?;
        }
        for (word, key) in [("out", transmit_key), ("in", receive_key)] {
            if let Some(CellKeyReport { key_id, epoch, seq, .. }) = key {
                write!(f, ", {word} KeyID {key_id} epoch {epoch} Seq {}", seq.unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

/// Times of the own station's frames inside the gateway, in a line.
pub(in super::super) struct Outward<'r>(
    pub(in super::super) &'r RelationReport,
    pub(in super::super) &'r [u64],
);

impl fmt::Display for Outward<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out: inside {}", Times(&self.0.residence_outward, self.1))
    }
}

/// The same of its peer's, and how regularly they come.
pub(in super::super) struct Inward<'r>(
    pub(in super::super) &'r RelationReport,
    pub(in super::super) &'r [u64],
);

impl fmt::Display for Inward<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(relation, bounds) = self;
        write!(
            f,
            "in: inside {}; jitter {}; longest gap {}",
            Times(&relation.residence_inward, bounds),
            Times(&relation.jitter, bounds),
            Time(relation.worst_gap_ns)
        )?;
        write!(f, ", alarm at {}, watchdog {}", Time(relation.alarm_ns), Time(relation.watchdog_ns))?;
        match relation.silent_ns {
            Some(silent) if relation.is_silent() => write!(f, "; SILENT for {}", Time(silent)),
            Some(_) => Ok(()),
            None => write!(f, "; nothing came yet"),
        }
    }
}

/// `p50 <= 20 us, p99.9 <= 50 us, worst 42 us`.
struct Times<'r>(&'r HistogramReport, &'r [u64]);

impl fmt::Display for Times<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(times, bounds) = self;
        if times.count == 0 {
            return f.write_str("not measured yet");
        }
        let at = |permille| Time(times.at_permille(permille, bounds));
        write!(f, "p50 <= {}, p99.9 <= {}, worst {}", at(500), at(999), Time(times.worst_ns))
    }
}

/// Nanoseconds in the unit that suits them.
struct Time(u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units =
            [("s", 1_000_000_000, 10_000_000_000), ("ms", 1_000_000, 1_000_000), ("us", 1_000, 1_000)];
        match units.iter().find(|(_, _, from)| self.0 >= *from) {
            None => write!(f, "{} ns", self.0),
            // Three digits behind the point, and no zeros at the end.
            Some((unit, size, _)) => {
                let thousandths = self.0 / (size / 1000);
                let (whole, rest) = (thousandths / 1000, thousandths % 1000);
                let digits = format!("{rest:03}");
                match digits.trim_end_matches('0') {
                    "" => write!(f, "{whole} {unit}"),
                    digits => write!(f, "{whole}.{digits} {unit}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_a_readable_unit() {
        for (nanoseconds, told) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (31_250, "31.25 us"),
            (1_500_000, "1.5 ms"),
            (9_999_000_000, "9999 ms"),
            (12_340_000_000, "12.34 s"),
        ] {
            assert_eq!(Time(nanoseconds).to_string(), told);
        }
    }
}
