//! Results of a step: figures, and curves where a figure is not enough.

use bench::{Row, Spread};
use serde::{Deserialize, Serialize};
use speed::frame_times::median;

/// Measurements of one step.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Its figures. Figures of one name out of several steps are rounds of one figure: see [`merge`].
    pub rows: Vec<Row>,
    /// Its curves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// Cases that it could not measure, and the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// A distribution as points: the percentile, and the value that so many percent did not exceed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// The bench.
    pub bench: String,
    /// Name of the case, within the bench.
    pub case: String,
    /// Percentile and value, in ascending order.
    pub points: Vec<(f64, f64)>,
}

/// Makes one row of those that have the same bench, case and comparison: the median of all their rounds, in the order in
/// which the first of each came.
pub fn merge(rows: Vec<Row>) -> Vec<Row> {
    let mut merged: Vec<Row> = Vec::new();
    for row in rows {
        let key = |row: &Row| {
            (row.bench.clone(), row.case.clone(), row.ratio.as_ref().map(|ratio| ratio.to.clone()))
        };
        let same = |other: &&mut Row| key(other) == key(&row);
        match merged.iter_mut().find(same) {
            None => merged.push(row),
            Some(one) => add(one, &row),
        }
    }
    merged
}

fn add(to: &mut Row, row: &Row) {
    let rounds = |row: &Row| if row.values.is_empty() { vec![row.value] } else { row.values.clone() };
    to.values = [rounds(to), rounds(row)].concat();
    to.value = median(&to.values);
    to.samples += row.samples;
    let lowest = to.values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = to.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    to.spread = Some(Spread { lowest, highest });
}

/// Makes one curve of those that have the same bench and case: at each percentile the median of the rounds.
pub fn merge_curves(curves: &[Curve]) -> Vec<Curve> {
    let mut merged: Vec<Curve> = Vec::new();
    for curve in curves {
        let same = |other: &&Curve| other.bench == curve.bench && other.case == curve.case;
        if merged.iter().any(|one| same(&one)) {
            continue;
        }
        let rounds: Vec<_> = curves.iter().filter(same).collect();
        let points = curve.points.iter().enumerate().map(|(index, point)| {
            let at: Vec<f64> = rounds.iter().filter_map(|round| Some(round.points.get(index)?.1)).collect();
            (point.0, median(&at))
        });
        merged.push(Curve { points: points.collect(), ..curve.clone() });
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_one_figure_become_one() {
        let round =
            |case: &str, value: f64| Row { values: vec![value], ..Row::new("b", case, value, "u", 1) };
        let rows = merge(vec![round("x", 3.0), round("y", 7.0), round("x", 9.0), round("x", 4.0)]);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].value, rows[0].samples, &rows[0].values[..]), (4.0, 3, &[3.0, 9.0, 4.0][..]));
        assert_eq!(rows[0].spread, Some(Spread { lowest: 3.0, highest: 9.0 }));
        assert_eq!((rows[1].value, rows[1].spread), (7.0, None));
    }

    #[test]
    fn curves_are_merged_point_by_point() {
        let curve = |values: [f64; 2]| Curve {
            bench: "b".into(),
            case: "c".into(),
            points: vec![(50.0, values[0]), (99.0, values[1])],
        };
        let merged = merge_curves(&[curve([1.0, 9.0]), curve([3.0, 7.0]), curve([2.0, 8.0])]);
        assert_eq!(merged, [curve([2.0, 8.0])]);
    }
}
