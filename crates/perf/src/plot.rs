//! An answer of `frameward plan` as a plot: what a frame may take and what it takes, over its payload; and how many relations
//! there can be, over the cycle.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use fieldbus::budget::{Budget, Cycle, LinkRate, Load, Payload};
use frameward::plan::{Answer, Cost, CycleAnswer, Microseconds, ModeAnswer, Rate};
use plotters::coord::Shift;
use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1000, 1100);
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];
const GREY: RGBColor = RGBColor(90, 90, 90);
/// Octets between two points of t_max, which has steps.
const STEP: usize = 2;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'c, 'a, X> = ChartContext<'c, SVGBackend<'a>, Cartesian2d<X, LogCoord<f64>>>;

/// Draws an answer into an SVG file.
///
/// # Errors
/// If the answer's cycle, link or load are none, or the file cannot be written.
pub fn draw(answer: &Answer, file: &Path) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (upper, lower) = root.split_vertically(SIZE.1 / 2);
    times(answer, &upper)?;
    relations(answer, &lower)?;
    root.present()?;
    Ok(())
}

/// The budget of a frame, and its cost.
fn times(answer: &Answer, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    let may: Vec<_> = may_take(&budget(answer)?);
    let takes = |of: fn(&Cost) -> f64| {
        move |mode: &ModeAnswer| (of(&mode.protect).max(of(&mode.verify)) + answer.port_time_us * 1e3) / 1e3
    };
    let (typical, tail) = (takes(|cost| cost.p50_ns), takes(|cost| cost.p99_9_ns));
    let all = answer.payloads.iter().flat_map(|payload| &payload.modes);
    let lowest = all.clone().map(&typical).fold(1.0, f64::min);
    let highest = may.iter().map(|(_, time)| *time).chain(all.map(&tail)).fold(1.0, f64::max);
    let title = format!(
        "time for a frame: cycle {}, {}, load {} %",
        Microseconds(answer.cycle_us),
        Rate(answer.link_bits_per_second),
        answer.load * 100.0
    );
    let ends = f64::from(Payload::MIN.octets())..f64::from(Payload::MAX.octets());
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(15)
        .x_label_area_size(45)
        .y_label_area_size(70)
        .build_cartesian_2d(ends, (lowest / 2.0..highest * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("payload, octets")
        .y_desc("microseconds")
        .y_label_formatter(&|time| short(*time))
        .draw()?;
    series(&mut chart, "t_max: what it may take (equation 3)", may, GREY, 3)?;
    let modes = answer.payloads.first().map_or(&[][..], |payload| &payload.modes);
    for (number, mode) in modes.iter().enumerate() {
        let of = |time: &dyn Fn(&ModeAnswer) -> f64| {
            let points = answer
                .payloads
                .iter()
                .map(|payload| (f64::from(payload.payload), time(&payload.modes[number])));
            points.collect::<Vec<_>>()
        };
        let colour = COLOURS[number % COLOURS.len()];
        for point in of(&tail) {
            chart.draw_series([Circle::new(point, 3, colour.filled())])?;
        }
        series(&mut chart, &format!("{}, p99.9", mode.mode), of(&tail), colour, 2)?;
        series(&mut chart, &format!("{}, p50", mode.mode), of(&typical), colour.mix(0.5), 1)?;
    }
    legend(&mut chart)
}

/// The budget that was asked about.
fn budget(answer: &Answer) -> Result<Budget, Box<dyn Error>> {
    let cycle = Cycle::new(Duration::from_nanos((answer.cycle_us * 1e3).round() as u64));
    let load = Load::from_millionths((answer.load * 1e6).round() as u32);
    match (cycle, LinkRate::new(answer.link_bits_per_second), load) {
        (Some(cycle), Some(link), Some(load)) => Ok(Budget { cycle, link, load }),
        _ => Err("its cycle, link or load are none".into()),
    }
}

fn may_take(budget: &Budget) -> Vec<(f64, f64)> {
    (Payload::MIN.octets()..=Payload::MAX.octets())
        .step_by(STEP)
        .filter_map(|octets| {
            let longest = budget.longest(Payload::new(octets)?).ok()?;
            Some((f64::from(octets), longest.nanoseconds() / 1e3))
        })
        .collect()
}

/// Number of relations that are possible.
fn relations(answer: &Answer, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    let cycle = |answer: &CycleAnswer| answer.cycle_us / 1e3;
    let (first, last) = match (answer.cycles.first(), answer.cycles.last()) {
        (Some(first), Some(last)) => (cycle(first), cycle(last)),
        _ => return Ok(()),
    };
    let most = answer.cycles.iter().map(|answer| answer.cpu_relations.max(answer.link_relations)).max();
    let mut chart = ChartBuilder::on(area)
        .caption("largest number of relations: the link's, and that of one core at p99.9", ("sans-serif", 20))
        .margin(15)
        .x_label_area_size(45)
        .y_label_area_size(70)
        .build_cartesian_2d((first..last).log_scale(), (1.0..most.unwrap_or(1) as f64 * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("cycle, milliseconds")
        .y_desc("relations")
        .x_label_formatter(&|time| short(*time))
        .y_label_formatter(&|number| short(*number))
        .draw()?;
    let mut payload = None;
    for (number, column) in answer.columns().iter().enumerate() {
        // A logarithmic axis has no 0.
        let line = |of: fn(&CycleAnswer) -> u64| {
            let points = column.iter().filter(|answer| of(answer) > 0);
            points.map(|answer| (cycle(answer), of(answer) as f64)).collect::<Vec<_>>()
        };
        let octets = column[0].payload;
        if payload != Some(octets) {
            let grey = GREY.mix(if payload.is_none() { 1.0 } else { 0.5 });
            payload = Some(octets);
            series(
                &mut chart,
                &format!("link, {octets} octets"),
                line(|answer| answer.link_relations),
                grey,
                3,
            )?;
        }
        let name = format!("CPU, {octets} octets, {}", column[0].mode);
        series(&mut chart, &name, line(|answer| answer.cpu_relations), COLOURS[number % COLOURS.len()], 2)?;
    }
    legend(&mut chart)
}

fn series<X: Ranged<ValueType = f64>>(
    chart: &mut Chart<'_, '_, X>,
    name: &str,
    points: Vec<(f64, f64)>,
    colour: impl Color + Copy + 'static,
    width: u32,
) -> Result<(), Box<dyn Error>> {
    let style = ShapeStyle::from(&colour).stroke_width(width);
    chart
        .draw_series(LineSeries::new(points, style))?
        .label(name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
    Ok(())
}

fn legend<'a: 'c, 'c, X: Ranged<ValueType = f64>>(
    chart: &mut Chart<'c, 'a, X>,
) -> Result<(), Box<dyn Error>> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .legend_area_size(28)
        .background_style(WHITE.mix(0.8))
        .border_style(GREY)
        .draw()?;
    Ok(())
}

/// A number on an axis: as many digits as it has.
fn short(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use frameward::plan::{self, Question};
    use wire::fieldbus::{CellSuite, Protect};

    use super::*;
    use crate::demo::pair::Scratch;

    #[test]
    fn an_answer_is_drawn() {
        let question = Question {
            budget: Budget {
                cycle: Cycle::new(Duration::from_millis(1)).unwrap(),
                link: LinkRate::new(100_000_000).unwrap(),
                load: Load::from_millionths(500_000).unwrap(),
            },
            payloads: [44, 1444].map(|octets| Payload::new(octets).unwrap()).to_vec(),
            modes: vec![Protect::Encrypt, Protect::Authenticate],
            suite: CellSuite::GcmAes128,
            relations: None,
            port_time: Duration::ZERO,
            path: None,
            time: Duration::from_millis(2),
        };
        let answer = plan::answer(&question, &mut |_| {});
        let scratch = Scratch::new().unwrap();
        let file = scratch.path().join("budget.svg");
        draw(&answer, &file).unwrap();
        let svg = fs::read_to_string(&file).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for words in
            ["t_max: what it may take", "encrypt, p99.9", "CPU, 1444 octets, authenticate", "link, 44 octets"]
        {
            assert!(svg.contains(words), "{words}");
        }
        assert!(draw(&answer, &scratch.path().join("none/budget.svg")).is_err());
        assert!(draw(&Answer { load: 0.0, ..answer }, &file).is_err());
    }
}
