//! How plots are drawn: the same colours and letters everywhere, as SVG that the page's style sheet can recolour.
//!
//! Plotters writes colours into each element. The style sheet finds elements by these very colours and gives them those
//! of the reader's scheme: what is `#1F2933` here is the colour of text there.

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

/// What went wrong in a plot: nothing that a reader of the page could do anything about.
pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;

pub(super) fn rgb((red, green, blue): (u8, u8, u8)) -> RGBColor {
    RGBColor(red, green, blue)
}

pub(super) fn letters(colour: &'static RGBColor, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", LETTERS)).color(colour).pos(Pos::new(horizontal, vertical))
}

/// Draws, and takes off what a page decides: size and background.
pub(super) fn svg(
    (width, height): (u32, u32),
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Drawn,
) -> String {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        let drawn = draw(&root).and_then(|()| Ok(root.present()?));
        drawn.expect("invariant: an SVG in memory takes whatever is drawn");
    }
    text.replacen(&format!("width=\"{width}\" height=\"{height}\" "), "", 1)
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
