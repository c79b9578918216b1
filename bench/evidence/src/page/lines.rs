//! Lines through points: what depends on a size, a number or a percentile.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::figure::{Kind, Legend, Table, number};
use super::ink::{self, AXIS, Drawn, FAINT, MESH, letters, rgb};

/// Lines over a common axis.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Lines {
    pub(crate) x: String,
    pub(crate) y: String,
    /// Whether each step of an axis is ten times the one before.
    pub(crate) logarithmic: (bool, bool),
    pub(crate) series: Vec<Series>,
}

/// A line.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// In ascending order of x.
    pub(crate) points: Vec<(f64, f64)>,
    /// Points alone, where what lies between them is not known.
    pub(crate) scattered: bool,
}

impl Series {
    pub(crate) fn new(kind: Kind, name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { kind, name: name.into(), points, scattered: false }
    }
}

const HEIGHT: [u32; 2] = [280, 340];

/// The lines as SVG of so many pixels across.
pub(super) fn draw(lines: &Lines, width: u32) -> String {
    let size = (width, if width < 600 { HEIGHT[0] } else { HEIGHT[1] });
    let ends = |of: fn(&(f64, f64)) -> f64, logarithmic: bool| {
        let all = lines.series.iter().flat_map(|series| &series.points).map(of);
        let (low, high) = all
            .filter(|value| value.is_finite() && (!logarithmic || *value > 0.0))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low.is_finite() { (low, high) } else { (1.0, 10.0) }
    };
    let (x, y) = (ends(|point| point.0, lines.logarithmic.0), ends(|point| point.1, lines.logarithmic.1));
    let below = |(low, high): (f64, f64)| if low < 0.0 { low - 0.05 * (high - low) } else { 0.0 };
    let linear =
        |(low, high): (f64, f64)| below((low, high))..(high + 0.06 * (high - below((low, high))).max(1e-9));
    let logarithmic = |(low, high): (f64, f64)| (low * 0.8..high * 1.4).log_scale();
    ink::svg(size, |root| match lines.logarithmic {
        (false, false) => on_axes(lines, root, linear(x), linear(y), width),
        (true, false) => on_axes(lines, root, logarithmic(x), linear(y), width),
        (false, true) => on_axes(lines, root, linear(x), logarithmic(y), width),
        (true, true) => on_axes(lines, root, logarithmic(x), logarithmic(y), width),
    })
}

fn on_axes<X, Y>(
    lines: &Lines,
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    x: X,
    y: Y,
    width: u32,
) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let mut chart = ChartBuilder::on(root)
        .margin(8)
        .margin_right(16)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_labels(if width < 600 { 5 } else { 9 })
        .y_labels(7)
        .x_label_formatter(&|value| ink::tick(*value))
        .y_label_formatter(&|value| ink::tick(*value))
        .bold_line_style(MESH)
        .light_line_style(TRANSPARENT)
        .axis_style(AXIS)
        .x_desc(lines.x.as_str())
        .y_desc(lines.y.as_str())
        .axis_desc_style(letters(&FAINT, HPos::Center, VPos::Top))
        .x_label_style(letters(&FAINT, HPos::Center, VPos::Top))
        .y_label_style(letters(&FAINT, HPos::Right, VPos::Center))
        .draw()?;
    for series in &lines.series {
        let colour = rgb(series.kind.colour().1);
        let points =
            || series.points.iter().copied().filter(|point| point.0.is_finite() && point.1.is_finite());
        if series.kind == Kind::Ideal {
            chart.draw_series(DashedLineSeries::new(points(), 5, 4, colour.stroke_width(2)))?;
            continue;
        }
        if !series.scattered {
            chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
        }
        chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    Ok(())
}

impl Lines {
    pub(super) fn legend(&self) -> Legend {
        self.series.iter().map(|series| (series.kind, series.name.clone())).collect()
    }

    /// The same as numbers: a row for each x.
    pub(super) fn table(&self) -> Table {
        let mut all: Vec<f64> =
            self.series.iter().flat_map(|series| &series.points).map(|point| point.0).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let columns =
            std::iter::once(self.x.clone()).chain(self.series.iter().map(|series| series.name.clone()));
        let cell = |series: &Series, x: f64| {
            let point = series.points.iter().find(|point| point.0.total_cmp(&x).is_eq());
            point.map_or(String::new(), |point| number(point.1))
        };
        let row = |x: &f64| {
            std::iter::once(number(*x)).chain(self.series.iter().map(|series| cell(series, *x))).collect()
        };
        Table { columns: columns.collect(), rows: all.iter().map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_on_all_axes_and_told_as_numbers() {
        for logarithmic in [(false, false), (true, false), (false, true), (true, true)] {
            let lines = Lines {
                x: "peers".into(),
                y: "frames/s".into(),
                logarithmic,
                series: vec![
                    Series::new(Kind::Ours, "this run", vec![(1.0, 10.0), (64.0, 400.0)]),
                    Series::new(Kind::Ideal, "ideal", vec![(1.0, 10.0), (64.0, 640.0)]),
                    Series { scattered: true, ..Series::new(Kind::Paper, "the paper", vec![(8.0, 0.0)]) },
                ],
            };
            for width in [340, 760] {
                let text = draw(&lines, width);
                assert!(text.matches("#0B6E69").count() >= 3, "a line and two points: {text}");
            }
            let table = lines.table();
            assert_eq!(table.columns, ["peers", "this run", "ideal", "the paper"]);
            assert_eq!(table.rows[0], ["1", "10", "10", ""]);
            assert_eq!(table.rows[1], ["8", "", "", "0"]);
        }
        let nothing = Lines { x: "x".into(), y: "y".into(), logarithmic: (true, true), series: Vec::new() };
        assert!(draw(&nothing, 340).ends_with("</svg>\n"));
    }
}
