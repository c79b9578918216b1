//! Compares instruction counts with the committed ones.
//!
//! Counts do not depend on how busy the machine is, so a slower frame path shows at once and on any machine:
//! more than [`TOLERANCE`] above the committed figure fails. Fewer instructions never fail, but are told, so that
//! the gain can be made the new measure.
//!
//! Rows are comparable only under equal [`Row::conditions`] and on the same instruction set. Left out on purpose:
//! time, cache misses, what system calls cost.

use std::fmt;

use crate::Row;

/// How much more than committed is still taken: 3 %. A new compiler's or C library's noise stays below.
pub const TOLERANCE: f64 = 0.03;

/// How a measured case stands to the committed one.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Within the tolerance.
    Kept {
        /// Measured divided by committed, less 1.
        change: f64,
    },
    /// Fewer by more than the tolerance.
    Fewer {
        /// Measured divided by committed, less 1.
        change: f64,
    },
    /// More by more than the tolerance: fails.
    More {
        /// Measured divided by committed, less 1.
        change: f64,
    },
    /// The committed figure was measured under other conditions: fails.
    Incomparable {
        /// Which, and how they differ.
        difference: String,
    },
    /// There is no committed figure: fails.
    New,
    /// There is a committed figure, and the case is not measured any more: fails.
    Gone,
}

impl Verdict {
    /// Whether the guard has to fail.
    pub const fn fails(&self) -> bool {
        !matches!(self, Self::Kept { .. } | Self::Fewer { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept { change } => write!(f, "fine ({:+.2} %)", change * 100.0),
            Self::Fewer { change } => write!(f, "fewer ({:+.2} %): renew to keep the gain", change * 100.0),
            Self::More { change } => {
                write!(f, "TOO MANY ({:+.2} %, at most {:+.0} %)", change * 100.0, TOLERANCE * 100.0)
            }
            Self::Incomparable { difference } => write!(f, "NOT COMPARABLE: {difference}"),
            Self::New => write!(f, "NO COMMITTED FIGURE"),
            Self::Gone => write!(f, "NOT MEASURED ANY MORE"),
        }
    }
}

/// Judges each measured case, then each committed case that was not measured.
pub fn judge(committed: &[Row], measured: &[Row]) -> Vec<(String, Verdict)> {
    let counterpart = |rows: &'_ [Row], case: &str| rows.iter().position(|row| row.case == case);
    let of_measured = measured.iter().map(|now| {
        let verdict =
            counterpart(committed, &now.case).map_or(Verdict::New, |at| compare(&committed[at], now));
        (now.case.clone(), verdict)
    });
    let gone = committed.iter().filter(|row| counterpart(measured, &row.case).is_none());
    of_measured.chain(gone.map(|row| (row.case.clone(), Verdict::Gone))).collect()
}

fn compare(then: &Row, now: &Row) -> Verdict {
    if let Some(difference) = difference(then, now) {
        return Verdict::Incomparable { difference };
    }
    let change = now.value / then.value - 1.0;
    if change.is_nan() || change > TOLERANCE {
        Verdict::More { change }
    } else if change < -TOLERANCE {
        Verdict::Fewer { change }
    } else {
        Verdict::Kept { change }
    }
}

fn difference(then: &Row, now: &Row) -> Option<String> {
    if then.machine.arch != now.machine.arch {
        return Some(format!("committed on {}, measured on {}", then.machine.arch, now.machine.arch));
    }
    if then.unit != now.unit {
        return Some(format!("committed in {}, measured in {}", then.unit, now.unit));
    }
    let name = then
        .conditions
        .keys()
        .chain(now.conditions.keys())
        .find(|&name| then.conditions.get(name) != now.conditions.get(name))?;
    let told = |row: &Row| row.conditions.get(name).cloned().unwrap_or_else(|| "not told".into());
    Some(format!("{name}: committed {}, measured {}", told(then), told(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, value: f64) -> Row {
        let row = Row::of_samples("instructions", case, "instructions/frame", &[value], "c").unwrap();
        row.under("burst", "64")
    }

    fn verdict(then: f64, now: f64) -> Verdict {
        judge(&[row("a", then)], &[row("a", now)]).remove(0).1
    }

    #[test]
    fn three_percent_more_are_too_many() {
        for (then, now, fails) in [
            (1000.0, 1000.0, false),
            (1000.0, 1029.9, false),
            (1000.0, 1030.1, true),
            (1000.0, 2000.0, true),
            (1000.0, 10.0, false),
            (0.0, 1.0, true),
            (0.0, 0.0, true),
        ] {
            assert_eq!(verdict(then, now).fails(), fails, "{then} to {now}");
        }
        assert!(matches!(verdict(1000.0, 960.0), Verdict::Fewer { .. }));
        assert!(matches!(verdict(1000.0, 980.0), Verdict::Kept { .. }));
        assert_eq!(verdict(1000.0, 1100.0).to_string(), "TOO MANY (+10.00 %, at most +3 %)");
    }

    #[test]
    fn cases_come_and_go_only_on_purpose() {
        let verdicts = judge(&[row("a", 1.0), row("b", 1.0)], &[row("a", 1.0), row("c", 1.0)]);
        let kept = Verdict::Kept { change: 0.0 };
        let expected = [("a", kept), ("c", Verdict::New), ("b", Verdict::Gone)];
        assert_eq!(verdicts, expected.map(|(case, verdict)| (case.to_owned(), verdict)));
        assert!(Verdict::New.fails() && Verdict::Gone.fails());
    }

    #[test]
    fn other_conditions_are_not_compared() {
        let then = row("a", 1.0);
        let mut elsewhere = row("a", 1.0);
        elsewhere.machine.arch = "m68k".into();
        let mut seconds = row("a", 1.0);
        seconds.unit = "s".into();
        for (now, told) in [
            (row("a", 1.0).under("burst", "1"), "burst: committed 64, measured 1"),
            (row("a", 1.0).under("more", "1"), "more: committed not told, measured 1"),
            (seconds, "committed in instructions/frame, measured in s"),
        ] {
            let verdict = judge(std::slice::from_ref(&then), &[now]).remove(0).1;
            assert_eq!(verdict, Verdict::Incomparable { difference: told.into() });
            assert!(verdict.fails());
        }
        assert!(judge(&[then], &[elsewhere])[0].1.fails());
    }
}
