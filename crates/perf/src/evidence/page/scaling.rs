//! Section: what happens when there is more of everything.

use super::figure::{Body, Figure, Kind};
use super::lines::{Across, Lines, Series};
use super::query::{Query, command};
use crate::evidence::document::Document;
use crate::evidence::scaling::{AXES, Axis, BENCH};

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    AXES.iter().map(|axis| figure(document, axis)).collect()
}

fn figure(document: &Document, axis: &Axis) -> Figure {
    let mut query = Query::new(document, BENCH);
    let mut series = Vec::new();
    for (name, kind) in axis.series.iter().zip([Kind::Ours, Kind::Ours2, Kind::Ours3]) {
        let cases = axis.numbers.iter().map(|number| (*number as f64, axis.case(*number, name)));
        let points = query.points(cases);
        if let Some(first) = points.first().copied() {
            let ideal = points.iter().map(|point| (point.0, axis.ideal(first, point.0))).collect();
            if kind == Kind::Ours {
                series.push(Series::new(Kind::Ideal, "as if nothing were lost", ideal));
            }
            series.push(Series::new(kind, name, points));
        }
    }
    let nothing = series.is_empty();
    Figure {
        id: format!("scaling-{}", axis.name.replace(' ', "-")),
        title: axis.title.into(),
        caption: axis.caption.into(),
        units: format!("{} over {}", axis.unit, axis.name),
        source: "this run; no paper".into(),
        command: command(document, BENCH),
        body: if nothing {
            Body::Nothing
        } else {
            Body::Lines(Lines {
                x: axis.name.into(),
                y: axis.unit.into(),
                x_axis: match axis.numbers.last() {
                    Some(most) if *most > 8 => Across::Logarithmic,
                    _ => Across::Linear,
                },
                logarithmic: false,
                series,
            })
        },
        gaps: query.gaps(),
    }
}
