//! The same rows on a host: time, in nanoseconds.

extern crate std;

use std::format;
use std::string::String;
use std::time::Instant;
use std::vec::Vec;

use crate::{BATCH, Meter, Row, What, each_row};

struct Clock;

impl Meter for Clock {
    fn measure(&mut self, run: &mut dyn FnMut()) -> u64 {
        let begin = Instant::now();
        run();
        // In thousandths, so that eight messages of some nanoseconds are not rounded away.
        begin.elapsed().as_nanos() as u64 * 1000 / BATCH as u64
    }
}

/// The rows of so many rounds: the median of each figure, in nanoseconds.
pub fn rows(rounds: usize) -> Vec<Row> {
    let mut found: Vec<Vec<Row>> = Vec::new();
    for _ in 0..rounds.max(1) {
        let mut round = Vec::new();
        each_row(&mut Clock, &mut |row| round.push(row));
        found.push(round);
    }
    let median = |at: usize, of: fn(&Row) -> u64| {
        let mut values: Vec<u64> = found.iter().map(|round| of(&round[at])).collect();
        values.sort_unstable();
        (values[values.len() / 2] + 500) / 1000
    };
    let rows = found[0].iter().enumerate();
    rows.map(|(at, row)| Row {
        ordinary: median(at, |row| row.ordinary),
        prepare: median(at, |row| row.prepare),
        online: median(at, |row| row.online),
        ..*row
    })
    .collect()
}

/// A row as a line: what, payload, template, ordinary, prepare, online.
pub fn line(row: &Row) -> String {
    let Row { what, payload, template, ordinary, prepare, online } = row;
    format!("{},{payload},{template},{ordinary},{prepare},{online}", what.name())
}

/// A row out of a line; `None` if it is none.
pub fn parse(line: &str) -> Option<Row> {
    let mut fields = line.split(',');
    let name = fields.next()?;
    let what = What::ALL.into_iter().find(|what| what.name() == name)?;
    let numbers: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let &[payload, template, ordinary, prepare, online] = numbers.as_slice() else { return None };
    Some(Row { what, payload: payload as usize, template: template as usize, ordinary, prepare, online })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured_and_reads_back() {
        let rows = rows(1);
        let mut lines = Vec::new();
        for row in &rows {
            assert!(row.ordinary > 0, "{row:?}");
            assert_eq!(parse(&line(row)), Some(*row));
            lines.push(line(row));
        }
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), rows.len(), "each row once");
        for wrong in ["", "end", "both,1,2", "neither,1,2,3,4,5", "both,1,2,3,4,x", "both,1,2,3,4,5,6"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
