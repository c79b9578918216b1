//! Lines through points: what depends on a size, a number or a percentile.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::figure::{Kind, Legend, Table, number, unit};
use super::style::{self, AXIS, FAINT, MESH, PlotResult, letters, rgb};

/// Lines over a common axis.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Lines {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) x_axis: Across,
    /// Whether each step of the other axis is ten times the one before.
    pub(crate) logarithmic: bool,
    pub(crate) series: Vec<Series>,
}

/// Scale of the horizontal axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Across {
    /// From zero.
    Linear,
    /// From the least value: what differs is far from zero.
    Part,
    /// Each step ten times the one before.
    Logarithmic,
    /// Per cent, each step ten times nearer to all of them.
    Percentiles,
}

impl Across {
    /// Position of a value, if the axis itself is linear or logarithmic.
    fn place(self, value: f64) -> f64 {
        if self == Self::Percentiles { 100.0 / (100.0 - value) } else { value }
    }

    fn label(self, place: f64) -> String {
        if self == Self::Percentiles { style::tick(100.0 - 100.0 / place) } else { style::tick(place) }
    }
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
    let (x, y) = (
        ends(|point| point.0, lines.x_axis == Across::Logarithmic),
        ends(|point| point.1, lines.logarithmic),
    );
    let below = |(low, high): (f64, f64)| if low < 0.0 { low - 0.05 * (high - low) } else { 0.0 };
    let linear =
        |(low, high): (f64, f64)| below((low, high))..(high + 0.06 * (high - below((low, high))).max(1e-9));
    let part = |(low, high): (f64, f64)| {
        let margin = (0.05 * (high - low)).max(1e-9);
        low - margin..high + margin
    };
    let logarithmic = |(low, high): (f64, f64)| style::logarithmic(low * 0.8..high * 1.4);
    let percentiles = |(_, high): (f64, f64)| {
        let numbers = [0.0, 50.0, 90.0, 99.0, 99.9].map(|value| lines.x_axis.place(value));
        (1.0..lines.x_axis.place(high.min(99.99)) * 1.3).log_scale().with_key_points(numbers.into())
    };
    style::svg(size, |root| match (lines.x_axis, lines.logarithmic) {
        (Across::Linear, false) => on_axes(lines, root, linear(x), linear(y), width),
        (Across::Linear, true) => on_axes(lines, root, linear(x), logarithmic(y), width),
        (Across::Part, false) => on_axes(lines, root, part(x), linear(y), width),
        (Across::Part, true) => on_axes(lines, root, part(x), logarithmic(y), width),
        (Across::Logarithmic, false) => on_axes(lines, root, logarithmic(x), linear(y), width),
        (Across::Logarithmic, true) => on_axes(lines, root, logarithmic(x), logarithmic(y), width),
        (Across::Percentiles, false) => on_axes(lines, root, percentiles(x), linear(y), width),
        (Across::Percentiles, true) => on_axes(lines, root, percentiles(x), logarithmic(y), width),
    })
}

fn on_axes<X, Y>(
    lines: &Lines,
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    x: X,
    y: Y,
    width: u32,
) -> PlotResult
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
        .x_label_formatter(&|value| lines.x_axis.label(*value))
        .y_label_formatter(&|value| style::tick(*value))
        .x_max_light_lines(if lines.x_axis == Across::Logarithmic { 9 } else { 0 })
        .y_max_light_lines(if lines.logarithmic { 9 } else { 0 })
        .bold_line_style(MESH)
        .light_line_style(style::light_mesh(lines.x_axis == Across::Logarithmic || lines.logarithmic))
        .axis_style(AXIS)
        .x_desc(unit(&lines.x))
        .y_desc(unit(&lines.y))
        .axis_desc_style(letters(&FAINT, HPos::Center, VPos::Top))
        .x_label_style(letters(&FAINT, HPos::Center, VPos::Top))
        .y_label_style(letters(&FAINT, HPos::Right, VPos::Center))
        .draw()?;
    for series in &lines.series {
        let colour = rgb(series.kind.colour().1);
        let points = || {
            let all = series.points.iter().map(|(x, y)| (lines.x_axis.place(*x), *y));
            all.filter(|point| point.0.is_finite() && point.1.is_finite())
        };
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
            point.map_or(String::new(), |point| series.kind.number(point.1))
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
        let axes = [Across::Linear, Across::Part, Across::Logarithmic, Across::Percentiles];
        for (x_axis, logarithmic) in axes.into_iter().flat_map(|axis| [(axis, false), (axis, true)]) {
            let lines = Lines {
                x: "peers".into(),
                y: "frames/s".into(),
                x_axis,
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
        let nothing = Lines {
            x: "x".into(),
            y: "y".into(),
            x_axis: Across::Logarithmic,
            logarithmic: true,
            series: Vec::new(),
        };
        assert!(draw(&nothing, 340).ends_with("</svg>\n"));
    }
}
