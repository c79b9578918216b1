//! Section: every figure of the run, as numbers, so that nothing that was measured stays out of sight.

use maud::{Markup, html};

use super::figure::{number, unit};
use crate::evidence::document::{Document, Figure};

pub(super) fn markup(document: &Document) -> Markup {
    html! {
        section id="everything" {
            h2 { "Every figure" }
            p.about { "All that the run has measured, bench by bench, drawn above or not." }
            @for (bench, figures) in &document.figures {
                details {
                    summary { (bench) ": " (figures.len()) " figures" }
                    div.scroll {
                        table {
                            thead { tr {
                                th scope="col" { "case" } th scope="col" { "figure" } th scope="col" { "unit" }
                                th scope="col" { "lowest to highest" } th scope="col" { "ratio" } th scope="col" { "wanted" }
                            } }
                            tbody { @for (case, figure) in figures { (row(case, figure)) } }
                        }
                    }
                }
            }
        }
    }
}

fn row(case: &str, figure: &Figure) -> Markup {
    html! {
        tr {
            th scope="row" { (case) }
            td { (number(figure.value)) }
            td { (unit(&figure.unit)) }
            td { @if let Some(spread) = figure.spread { (number(spread.lowest)) " to " (number(spread.highest)) } }
            td { @if let Some(ratio) = &figure.ratio { (number(ratio.value)) " of " (ratio.to) } }
            td { @if let Some(target) = &figure.target { (target.wanted) (if target.met { ": met" } else { ": not met" }) } }
        }
    }
}
