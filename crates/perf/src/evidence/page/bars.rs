//! Horizontal bars in groups, with whiskers from the lowest to the highest sample.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::figure::{Kind, Legend, Table, unit};
use super::style::{self, AXIS, FAINT, MESH, PlotResult, TEXT, letters, rgb};

/// Bars.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bars {
    pub(crate) legend: Legend,
    /// Title of the axis.
    pub(crate) axis: String,
    pub(crate) scale: Scale,
    pub(crate) groups: Vec<Group>,
    /// The target, as a dashed line across.
    pub(crate) mark: Option<f64>,
}

/// Scale of the axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// From zero.
    Linear,
    /// Each step ten times the one before.
    Logarithmic,
}

/// Bars under one name.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
}

impl Group {
    /// Whether it is ours among others, to be found at a glance.
    fn is_ours(&self) -> bool {
        self.name.starts_with("Frameward") && self.bars.iter().all(|bar| bar.kind.is_ours())
    }
}

/// A bar.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bar {
    pub(crate) kind: Kind,
    pub(crate) value: f64,
    /// The lowest and the highest sample.
    pub(crate) spread: Option<(f64, f64)>,
}

impl Bar {
    pub(crate) fn new(kind: Kind, value: f64) -> Self {
        Self { kind, value, spread: None }
    }
}

const IDEAL: (u8, u8, u8) = Kind::Ideal.colour().1;
const BAR: f64 = 14.0;
const BETWEEN_BARS: f64 = 3.0;
const BETWEEN_GROUPS: f64 = 11.0;
/// A line of text above bars, where there is no room beside them.
const NAME_LINE: f64 = 20.0;
const AXIS_ROOM: u32 = 44;
/// Pixels that are left for the numbers behind the bars.
const NUMBERS: f64 = 66.0;
/// From this width on names stand beside the bars.
const ROOMY: u32 = 600;
const NAMES_BESIDE: u32 = 270;
/// Else they stand above; half of the axis' first number needs that.
const NAMES_ABOVE: u32 = 14;

/// Positions from the top on, in pixels.
struct Layout {
    beside: bool,
    height: f64,
    /// For each group its top, and the middle of the line where its name stands.
    groups: Vec<(f64, f64)>,
}

impl Layout {
    fn new(bars: &Bars, width: u32) -> Self {
        let beside = width >= ROOMY;
        let (mut top, mut groups) = (BETWEEN_GROUPS / 2.0, Vec::new());
        for group in &bars.groups {
            let bars = height(group);
            if beside {
                groups.push((top, top + bars / 2.0));
            } else {
                groups.push((top + NAME_LINE, top + NAME_LINE / 2.0));
                top += NAME_LINE;
            }
            top += bars + BETWEEN_GROUPS;
        }
        Self { beside, height: top, groups }
    }
}

fn height(group: &Group) -> f64 {
    group.bars.len() as f64 * (BAR + BETWEEN_BARS) - BETWEEN_BARS
}

/// The bars as SVG of so many pixels across.
pub(super) fn draw(bars: &Bars, width: u32) -> String {
    let layout = Layout::new(bars, width);
    let all = bars.groups.iter().flat_map(|group| &group.bars);
    let values = all.flat_map(|bar| [Some(bar.value), bar.spread.map(|spread| spread.1)]).flatten();
    let values = values.chain(bars.mark);
    let (low, high) =
        values.filter(|value| value.is_finite()).fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (if value > 0.0 { low.min(value) } else { low }, high.max(value))
        });
    let lowest =
        bars.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(0.0_f64, f64::min);
    let high = if high > 0.0 { high } else { 1.0 };
    let size = (width, layout.height as u32 + AXIS_ROOM);
    // Their share of the axis.
    let numbers = NUMBERS / f64::from(width - if layout.beside { NAMES_BESIDE } else { NAMES_ABOVE });
    style::svg(size, |root| match bars.scale {
        Scale::Linear => {
            let span = high - lowest;
            let room = span * numbers / (1.0 - numbers);
            let below = if lowest < 0.0 { room } else { 0.0 };
            on_axis(bars, &layout, root, lowest - below..high + room, lowest.min(0.0) - below)
        }
        Scale::Logarithmic => {
            // The shortest bar is long enough to be seen.
            let first = 10.0_f64.powf((low.min(high) * 0.6).log10().floor());
            let last = high * (high / first).powf(numbers / (1.0 - numbers)).max(1.5);
            on_axis(bars, &layout, root, style::logarithmic(first..last), first)
        }
    })
}

fn on_axis<X>(
    bars: &Bars,
    layout: &Layout,
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    axis: X,
    first: f64,
) -> PlotResult
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let names = if layout.beside { NAMES_BESIDE } else { NAMES_ABOVE };
    let mut chart = ChartBuilder::on(root)
        .margin_right(8)
        .x_label_area_size(AXIS_ROOM)
        .y_label_area_size(names)
        .build_cartesian_2d(axis, 0.0..layout.height)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(if layout.beside { 8 } else { 5 })
        .x_label_formatter(&|value| style::tick(*value))
        .bold_line_style(MESH)
        .light_line_style(style::light_mesh(bars.scale == Scale::Logarithmic))
        .axis_style(AXIS)
        .x_desc(unit(&bars.axis))
        .axis_desc_style(letters(&FAINT, HPos::Center, VPos::Top))
        .label_style(letters(&FAINT, HPos::Center, VPos::Top))
        .draw()?;
    // From the bottom up, as the axis counts.
    let up = |y: f64| layout.height - y;
    let area = chart.plotting_area();
    // Of a linear axis with negative values bars begin at zero.
    let begin = if bars.scale == Scale::Linear { 0.0 } else { first };
    for (group, (top, middle)) in bars.groups.iter().zip(&layout.groups) {
        let (_, y) = area.map_coordinate(&(begin, up(*middle)));
        let (x, side) =
            if layout.beside { (names as i32 - 10, HPos::Right) } else { (names as i32, HPos::Left) };
        let name = letters(&TEXT, side, VPos::Center);
        root.draw(&Text::new(
            group.name.clone(),
            (x, y),
            if group.is_ours() { style::bold(name) } else { name },
        ))?;
        for (number_, bar) in group.bars.iter().enumerate() {
            let top = top + number_ as f64 * (BAR + BETWEEN_BARS);
            let colour = rgb(bar.kind.colour().1);
            let value = if bar.value.is_finite() { bar.value } else { begin };
            let value = if bars.scale == Scale::Logarithmic { value.max(first) } else { value };
            let corners = [(begin.min(value), up(top + BAR)), (begin.max(value), up(top))];
            area.draw(&Rectangle::new(corners, colour.filled()))?;
            let middle = up(top + BAR / 2.0);
            let mut end = value;
            if let Some((low, high)) = bar.spread {
                let (low, high) = (low.max(first), high.max(first));
                area.draw(&PathElement::new([(low, middle), (high, middle)], AXIS))?;
                for at in [low, high] {
                    let whisker = [(at, up(top + 3.0)), (at, up(top + BAR - 3.0))];
                    area.draw(&PathElement::new(whisker, AXIS))?;
                }
                end = end.max(high);
            }
            let (x, y) = area.map_coordinate(&(end, middle));
            let (x, side) = if value < 0.0 {
                (area.map_coordinate(&(value, middle)).0 - 5, HPos::Right)
            } else {
                (x + 5, HPos::Left)
            };
            let text = bar.kind.number(bar.value);
            // The mark would go through the number.
            let x = match bars.mark.map(|mark| area.map_coordinate(&(mark, middle)).0) {
                Some(mark) if (x - 5..x + 9 * text.chars().count() as i32).contains(&mark) => mark + 6,
                _ => x,
            };
            root.draw(&Text::new(text, (x, y), letters(&TEXT, side, VPos::Center)))?;
        }
    }
    if let Some(mark) = bars.mark {
        for (group, (top, _)) in bars.groups.iter().zip(&layout.groups) {
            // Across the bars alone: names stand between them.
            let (from, to) = (up(top - 3.0), up(top + height(group) + 3.0));
            let colour = rgb(IDEAL).stroke_width(2);
            chart.draw_series(DashedLineSeries::new([(mark, from), (mark, to)], 4, 3, colour))?;
        }
    }
    Ok(())
}

impl Bars {
    /// The same as numbers.
    pub(super) fn table(&self) -> Table {
        let name = |kind: Kind| {
            let found = self.legend.iter().find(|(other, _)| *other == kind);
            found.map_or(String::new(), |(_, name)| name.clone())
        };
        let mut rows = Vec::new();
        for group in &self.groups {
            for bar in &group.bars {
                let spread = bar.spread.map_or(String::new(), |(low, high)| {
                    format!("{} to {}", bar.kind.number(low), bar.kind.number(high))
                });
                rows.push([group.name.clone(), name(bar.kind), bar.kind.number(bar.value), spread]);
            }
        }
        Table::new(["", "whose", &unit(&self.axis), "lowest to highest"], rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(scale: Scale, values: &[f64]) -> Bars {
        let group = |(number, value): (usize, &f64)| Group {
            name: format!("case <{number}>"),
            bars: vec![
                Bar { kind: Kind::Ours, value: *value, spread: Some((value * 0.9, value * 1.1)) },
                Bar::new(Kind::Paper, value * 2.0),
            ],
        };
        Bars {
            legend: vec![(Kind::Ours, "this run".into()), (Kind::Paper, "the paper".into())],
            axis: "Mbit/s".into(),
            scale,
            groups: values.iter().enumerate().map(group).collect(),
            mark: values.first().copied().filter(|mark| *mark > 0.0),
        }
    }

    #[test]
    fn every_bar_has_its_rectangle_and_its_number_on_both_scales_and_widths() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            for width in [340, 760] {
                let text = draw(&bars(scale, &[0.05, 7.0, 1234.0]), width);
                assert_eq!(text.matches("fill=\"#0B6E69\"").count(), 3, "{text}");
                assert_eq!(text.matches("fill=\"#C26A12\"").count(), 3);
                for number in ["0.050", ">\n7\n<", "1\u{202f}234", "2\u{202f}468"] {
                    assert!(text.contains(number), "{number}: {text}");
                }
                assert!(text.contains("case &lt;1&gt;"), "names are text, not markup");
            }
        }
    }

    #[test]
    fn what_is_nothing_or_below_nothing_is_drawn_too() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            for values in [&[0.0][..], &[-3.0, 5.0], &[f64::NAN], &[]] {
                assert!(draw(&bars(scale, values), 340).ends_with("</svg>\n"), "{values:?}");
            }
        }
    }
}
