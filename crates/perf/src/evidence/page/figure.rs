//! Figures of the page, each with all that a reader needs to believe it.

use maud::{Markup, PreEscaped, html};

use super::bars::{self, Bars};
use super::lines::{self, Lines};

/// A figure of the page.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Figure {
    /// Its name in links, and its place in the tests.
    pub(crate) id: String,
    pub(crate) title: String,
    /// The finding, in a sentence or two.
    pub(crate) caption: String,
    /// Units of all axes and columns.
    pub(crate) units: String,
    /// The paper and its table, or this run.
    pub(crate) source: String,
    /// The command that makes it again.
    pub(crate) command: String,
    pub(crate) body: Body,
    /// Gaps in it, and their reasons.
    pub(crate) gaps: Vec<String>,
}

/// The body: bars, lines or a table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Body {
    Bars(Bars),
    Lines(Lines),
    Table(Table),
    /// Nothing was measured: [`Figure::gaps`] says why.
    Nothing,
}

/// Columns, and rows of as many cells. The first cell of a row is its head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(columns: [&str; N], rows: Vec<[String; N]>) -> Self {
        Self { columns: columns.map(String::from).into(), rows: rows.into_iter().map(Vec::from).collect() }
    }

    fn markup(&self) -> Markup {
        html! {
            div.scroll {
                table class=[(self.columns.len() > 5).then_some("broad")] {
                    thead { tr { @for column in &self.columns { th scope="col" { (column) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (number, cell) in row.iter().enumerate() {
                                    @if number == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Meaning of a colour. Each has one colour everywhere on the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// Ours.
    Ours,
    /// Ours in another setting.
    Ours2,
    /// A third setting of ours.
    Ours3,
    /// A fourth one.
    OursFour,
    /// The paper's own figures.
    Paper,
    /// The paper's, of something else.
    Paper2,
    /// The paper's, of a third thing.
    PaperThree,
    /// Somebody else who protects.
    Rival,
    /// A second one of them, where two have to be told apart.
    RivalToo,
    /// A limit: it protects nothing.
    Limit,
    /// A second limit.
    LimitToo,
    /// As if nothing were lost.
    Ideal,
}

impl Kind {
    /// The name of its colour in the style sheet, and the colour in light surroundings.
    pub(crate) const fn colour(self) -> (&'static str, (u8, u8, u8)) {
        match self {
            Self::Ours => ("ours", (0x0B, 0x6E, 0x69)),
            Self::Ours2 => ("ours-too", (0x3F, 0xA3, 0x4D)),
            Self::Ours3 => ("ours-three", (0x2A, 0x5C, 0xAA)),
            Self::OursFour => ("ours-four", (0x7C, 0x7A, 0x10)),
            Self::Paper => ("paper", (0xC2, 0x6A, 0x12)),
            Self::Paper2 => ("paper-too", (0xE3, 0xA8, 0x57)),
            Self::PaperThree => ("paper-three", (0x8A, 0x4A, 0x0C)),
            Self::Rival => ("rival", (0x7A, 0x5C, 0x9E)),
            Self::RivalToo => ("rival-too", (0xC0, 0x48, 0x8A)),
            Self::Limit => ("limit", (0x8C, 0x95, 0x9F)),
            Self::LimitToo => ("limit-too", (0x55, 0x60, 0x6B)),
            Self::Ideal => ("ideal", (0xB0, 0x3A, 0x5B)),
        }
    }
}

impl Kind {
    /// Whether it is a paper's.
    pub(crate) const fn is_paper(self) -> bool {
        matches!(self, Self::Paper | Self::Paper2 | Self::PaperThree)
    }

    /// Whether it is ours.
    pub(crate) const fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::Ours2 | Self::Ours3 | Self::OursFour)
    }

    /// A number of this kind: those of a paper as it prints them, those that were measured as far as they mean something.
    pub(crate) fn number(self, value: f64) -> String {
        if self.is_paper() { exact(value) } else { number(value) }
    }
}

/// Meanings of the colours in one figure.
pub(crate) type Legend = Vec<(Kind, String)>;

fn legend(legend: &Legend) -> Markup {
    html! {
        ul.legend {
            @for (kind, name) in legend {
                li { span class={ "key " (kind.colour().0) } {} (name) }
            }
        }
    }
}

impl Figure {
    pub(crate) fn markup(&self) -> Markup {
        html! {
            figure id=(self.id) {
                h3 { a href={ "#" (self.id) } { (self.title) } }
                @match &self.body {
                    Body::Bars(bars) => {
                        (legend(&bars.legend))
                        (drawings(&self.title, bars::draw(bars, NARROW), bars::draw(bars, WIDE)))
                    }
                    Body::Lines(lines) => {
                        (legend(&lines.legend()))
                        (drawings(&self.title, lines::draw(lines, NARROW), lines::draw(lines, WIDE)))
                    }
                    Body::Table(table) => (table.markup()),
                    Body::Nothing => {}
                }
                @for gap in &self.gaps {
                    p.gap { strong { "Gap. " } (gap) }
                }
                figcaption {
                    p.caption { (self.caption) }
                    dl {
                        dt { "Units" } dd.units { (unit(&self.units)) }
                        dt { "Source" } dd.source { (self.source) }
                        dt { "Made by" } dd.command { code { (self.command) } }
                    }
                }
                @match &self.body {
                    Body::Bars(bars) => (figures(&bars.table())),
                    Body::Lines(lines) => (figures(&lines.table())),
                    Body::Table(_) | Body::Nothing => {}
                }
            }
        }
    }
}

/// A telephone's column, and a desk's.
const NARROW: u32 = 310;
const WIDE: u32 = 760;

fn drawings(title: &str, narrow: String, wide: String) -> Markup {
    html! {
        div.drawing.narrow role="img" aria-label=(title) { (PreEscaped(narrow)) }
        // The same once more: a reader needs it once.
        div.drawing.wide aria-hidden="true" { (PreEscaped(wide)) }
    }
}

fn figures(table: &Table) -> Markup {
    html! { details { summary { "The figures" } (table.markup()) } }
}

/// A number as a person reads it: three digits that count, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".into();
    }
    if magnitude < 0.01 {
        return format!("{value:.4}");
    }
    if magnitude >= 1000.0 {
        let whole = value.round() as i64;
        let digits = whole.unsigned_abs().to_string();
        let mut text = String::new();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                text.push('\u{202f}');
            }
            text.push(digit);
        }
        return if whole < 0 { format!("\u{2212}{text}") } else { text };
    }
    if value.fract() == 0.0 {
        return format!("{value:.0}").replace('-', "\u{2212}");
    }
    let digits = if magnitude < 1.0 {
        3
    } else if magnitude < 10.0 {
        2
    } else {
        usize::from(magnitude < 100.0)
    };
    format!("{value:.digits$}").replace('-', "\u{2212}")
}

/// A number as a paper prints it: nothing is rounded that five digits hold.
pub(crate) fn exact(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 || magnitude >= 1000.0 || !value.is_finite() {
        return number(value);
    }
    let decimals = (4.0 - magnitude.log10().floor()).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.replace('-', "\u{2212}")
}

/// A unit as it is written: rows spell it in ASCII.
pub(crate) fn unit(text: &str) -> String {
    match text {
        "us" => "\u{b5}s".into(),
        text => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paper_s_numbers_are_told_as_it_prints_them() {
        for (value, text) in [
            (243.5, "243.5"),
            (5.23, "5.23"),
            (907.51 * 0.1, "90.751"),
            (0.139, "0.139"),
            (13.0, "13"),
            (34.79, "34.79"),
            (-5.0, "\u{2212}5"),
            (1444.0, "1\u{202f}444"),
            (0.0, "0"),
        ] {
            assert_eq!(Kind::Paper2.number(value), text, "{value}");
        }
        assert_eq!(Kind::Ours.number(243.5), "244");
    }

    #[test]
    fn numbers_are_read_by_people() {
        for (value, text) in [
            (0.0, "0"),
            (0.00123, "0.0012"),
            (0.1234, "0.123"),
            (1.236, "1.24"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.5, "1\u{202f}235"),
            (1_234_567.0, "1\u{202f}234\u{202f}567"),
            (-5.0, "\u{2212}5"),
            (-5.25, "\u{2212}5.25"),
            (64.0, "64"),
            (-1500.0, "\u{2212}1\u{202f}500"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }
}
