//! One sample a round, and the rows that are made of them.

use ::bench::{Ratio, Row, Spread};
use speed::frame_times::median;

use super::{Bench, BenchError};

/// Measurements of a case: one sample a round.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Samples {
    pub(crate) case: String,
    pub(crate) values: Vec<f64>,
}

impl Samples {
    pub(crate) fn new(case: &str) -> Self {
        Self { case: case.into(), values: Vec::new() }
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// The row of these samples; with `reference`, also the median of the rounds' ratios to it.
    pub(crate) fn row(&self, bench: &str, unit: &str, reference: Option<&Self>) -> Row {
        let mut row = Row::new(bench, &self.case, median(&self.values), unit, self.values.len() as u64);
        let (lowest, highest) =
            self.values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(*value), high.max(*value))
            });
        row.spread = Some(Spread { lowest, highest });
        row.values.clone_from(&self.values);
        row.ratio = reference.map(|reference| {
            let ratios: Vec<_> =
                self.values.iter().zip(&reference.values).map(|(own, other)| own / other).collect();
            Ratio { to: reference.case.clone(), value: median(&ratios) }
        });
        row
    }
}

/// Measures all cases in turn, round after round; `None`: a case that is left out.
///
/// # Errors
/// If a measurement fails, or is 0.
pub(super) fn in_turn<C>(
    bench: &mut Bench<'_>,
    cases: &mut [C],
    samples: &mut [Samples],
    unit: &str,
    mut measure: impl FnMut(&mut C) -> Result<Option<f64>, BenchError>,
) -> Result<(), BenchError> {
    for round in 1..=bench.effort.rounds {
        for (case, samples) in cases.iter_mut().zip(&mut *samples) {
            let Some(value) = measure(case)? else { continue };
            (bench.progress)(&format_args!("round {round}: {}: {value:.0} {unit}", samples.case));
            if value == 0.0 {
                return Err(BenchError::Silent(samples.case.clone()));
            }
            samples.push(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_rounds() {
        let samples = |case: &str, values: &[f64]| Samples { case: case.into(), values: values.to_vec() };
        // The machine was twice as fast in the second round: that is no difference between the cases.
        let (own, other) = (samples("own", &[9.0, 18.0, 9.9]), samples("other", &[10.0, 20.0, 10.0]));
        let row = own.row("b", "u", Some(&other));
        let (ratio, spread) = (row.ratio.expect("asked for"), row.spread.expect("always"));
        assert!((ratio.value - 0.9).abs() < 1e-9 && ratio.to == "other");
        assert_eq!(row.values, own.values, "the single rounds are kept");
        assert!((row.value - 9.9).abs() < 1e-9);
        assert!((spread.lowest - 9.0).abs() < 1e-9 && (spread.highest - 18.0).abs() < 1e-9);
    }
}
