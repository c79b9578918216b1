//! Style of plots: the same colours and letters everywhere, as SVG that the page's style sheet can recolour.
//!
//! Plotters writes colours into each element. The style sheet finds elements by these very colours and gives them those
//! of the reader's scheme: what is `#1F2933` here is the colour of text there.

use std::ops::Range;

use plotters::coord::combinators::{LogCoord, WithKeyPoints};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Text.
pub(super) const TEXT: RGBColor = RGBColor(0x1F, 0x29, 0x33);
/// Labels of axes, and what is less than text.
pub(super) const FAINT: RGBColor = RGBColor(0x5B, 0x66, 0x70);
/// Lines of a mesh.
pub(super) const MESH: RGBColor = RGBColor(0xD9, 0xDE, 0xE3);
/// Axes, whiskers.
pub(super) const AXIS: RGBColor = RGBColor(0x8A, 0x94, 0x9E);
/// Size of letters.
pub(super) const LETTERS: f64 = 14.5;

/// Result of drawing: its error is nothing that a reader of the page could cure.
pub(super) type PlotResult = Result<(), Box<dyn std::error::Error>>;

pub(super) fn rgb((red, green, blue): (u8, u8, u8)) -> RGBColor {
    RGBColor(red, green, blue)
}

pub(super) fn letters(colour: &'static RGBColor, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", LETTERS)).color(colour).pos(Pos::new(horizontal, vertical))
}

pub(super) fn bold(style: TextStyle<'static>) -> TextStyle<'static> {
    TextStyle { font: style.font.clone().style(FontStyle::Bold), ..style }
}

/// Draws, and takes off what a page decides: size and background.
pub(super) fn svg(
    (width, height): (u32, u32),
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> PlotResult,
) -> String {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        let drawn = draw(&root).and_then(|()| Ok(root.present()?));
        drawn.expect("invariant: an SVG in memory takes whatever is drawn");
    }
    text.replacen(&format!("width=\"{width}\" height=\"{height}\" "), "", 1)
}

/// Lines between those that have numbers. Of a linear axis there are none.
pub(super) fn light_mesh(logarithmic: bool) -> ShapeStyle {
    if logarithmic { MESH.mix(0.55).into() } else { TRANSPARENT.into() }
}

/// A logarithmic axis: lines at 1 to 9 of each decade, numbers at decades, and at 2 and 5 too where there are few decades.
pub(super) fn logarithmic(range: Range<f64>) -> WithKeyPoints<LogCoord<f64>> {
    let (low, high) = (range.start, range.end);
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let steps = |of: &'static [f64]| {
        let all =
            decades.clone().flat_map(move |decade| of.iter().map(move |step| step * 10.0_f64.powi(decade)));
        all.filter(|value| (low..=high).contains(value)).collect::<Vec<_>>()
    };
    let few = (high / low).log10() < 2.3;
    let numbers = steps(if few { &[1.0, 2.0, 5.0] } else { &[1.0] });
    range.log_scale().with_key_points(numbers).with_light_points(steps(&[1., 2., 3., 4., 5., 6., 7., 8., 9.]))
}

/// A number at an axis: short.
pub(super) fn tick(value: f64) -> String {
    let magnitude = value.abs();
    let short = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match magnitude {
        m if m >= 1e6 => format!("{}M", short(value / 1e6)),
        m if m >= 1e4 => format!("{}k", short(value / 1e3)),
        m if m >= 0.01 || m == 0.0 => short(value),
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_always_has_numbers() {
        for (range, numbers) in [
            (1.0..6.0, vec![1.0, 2.0, 5.0]),
            (30.0..800.0, vec![50.0, 100.0, 200.0, 500.0]),
            (5.0..5000.0, vec![10.0, 100.0, 1000.0]),
        ] {
            let axis = logarithmic(range.clone());
            let near = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 1e-9;
            assert!(axis.bold_points().iter().zip(&numbers).all(near), "{range:?}: {:?}", axis.bold_points());
            assert_eq!(axis.bold_points().len(), numbers.len(), "{range:?}");
            assert!(axis.light_points().len() > numbers.len());
        }
    }

    #[test]
    fn ticks_are_short() {
        let texts = [0.0, 0.5, 250.0, 1500.0, 25_000.0, 2_500_000.0, 0.001].map(tick);
        assert_eq!(texts, ["0", "0.5", "250", "1500", "25k", "2.5M", "1e-3"]);
    }

    #[test]
    fn a_drawing_takes_the_size_that_the_page_gives_it() {
        let text = svg((300, 40), |root| {
            root.draw(&Text::new("a < b", (10, 10), letters(&TEXT, HPos::Left, VPos::Center)))?;
            Ok(())
        });
        assert!(text.starts_with("<svg viewBox=\"0 0 300 40\""), "{text}");
        assert!(text.contains("fill=\"#1F2933\"") && text.contains("a &lt; b"), "{text}");
    }
}
