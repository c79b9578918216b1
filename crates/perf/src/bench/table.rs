//! Rows as a table for people.

use std::fmt;

use ::bench::{Row, Target};

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
            let Row { case, value, unit, spread, ratio, target, .. } = row;
            // Four digits are more than a noisy machine gives.
            let digits = if *value < 1000.0 { 2 } else { 0 };
            write!(f, "{case:width$}  {value:10.digits$} {unit:9}")?;
            if let Some(spread) = spread {
                write!(f, " ({:.digits$} to {:.digits$})", spread.lowest, spread.highest)?;
            }
            if let Some(ratio) = ratio {
                write!(f, "  {:.4} of {}", ratio.value, ratio.to)?;
            }
            if let Some(Target { wanted, met: false }) = target {
                write!(f, "  MISSED: {wanted}")?;
            }
            writeln!(f)?;
        }
        let targets: Vec<_> = self.0.iter().filter_map(|row| row.target.as_ref()).collect();
        if !targets.is_empty() {
            let met = targets.iter().filter(|target| target.met).count();
            writeln!(f, "\n{met} of {} targets are met", targets.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::bench::{Ratio, Spread};

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
        let target = |met| Some(Target { wanted: "ratio at least 0.95".into(), met });
        let [met, missed] =
            [true, false].map(|met| Row { target: target(met), ..Row::new("fragment", "TCP", 1.0, "s", 5) });
        let text = Table(&[met, missed]).to_string();
        assert_eq!(text.matches("MISSED: ratio at least 0.95\n").count(), 1, "{text}");
        assert!(text.ends_with("\n1 of 2 targets are met\n"), "{text}");
    }
}
