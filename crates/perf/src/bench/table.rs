//! Rows as a table for people.

use std::fmt;

use bench::Row;

/// Rows that print as a table.
#[derive(Clone, Copy, Debug)]
pub struct Table<'r>(pub &'r [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else { return Ok(()) };
        writeln!(f, "bench {}, commit {}, {}", first.bench, first.commit, first.machine)?;
        writeln!(f, "medians of rounds, lowest to highest in parentheses; ratios are of this run\n")?;
        let width = self.0.iter().map(|row| row.case.len()).max().unwrap_or(0);
        for row in self.0 {
            let Row { case, value, unit, spread, ratio, .. } = row;
            // Four digits are more than a noisy machine gives.
            let digits = if *value < 1000.0 { 2 } else { 0 };
            write!(f, "{case:width$}  {value:10.digits$} {unit:9}")?;
            if let Some(spread) = spread {
                write!(f, " ({:.digits$} to {:.digits$})", spread.lowest, spread.highest)?;
            }
            if let Some(ratio) = ratio {
                write!(f, "  {:.4} of {}", ratio.value, ratio.to)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::{Ratio, Spread};

    #[test]
    fn every_row_stands_in_a_line_of_its_own() {
        let spread = Some(Spread { lowest: 90.0, highest: 97.5 });
        let ratio = Some(Ratio { to: "jumbo".into(), value: 0.95 });
        let row = Row { spread, ratio, ..Row::new("fragment", "TCP", 95.25, "Mbit/s", 5) };
        let text = Table(&[row.clone(), row]).to_string();
        assert_eq!(
            text.matches("TCP       95.25 Mbit/s    (90.00 to 97.50)  0.9500 of jumbo\n").count(),
            2,
            "{text}"
        );
        assert_eq!(Table(&[]).to_string(), "");
    }
}
