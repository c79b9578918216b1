//! Summary of a run: each target with its result, drawn beside the rivals.

use maud::{Markup, PreEscaped, html};

use super::bars::{self, Bars, Scale};
use super::figure::{Body, Figure, Kind, Table, number, unit};
use super::query::{Query, command, group};
use crate::evidence::comparison::{self, Comparison};
use crate::evidence::contest::{BENCH, Contestant};
use crate::evidence::document::Document;

/// Pixels across a tile.
const NARROW_TILE: u32 = 250;

/// Verdicts with their names, in the order in which they are shown.
fn verdicts(document: &Document) -> Vec<(&'static str, Comparison)> {
    let mut judged = comparison::compare(&document.figures);
    comparison::names().filter_map(|name| Some((name, judged.remove(name)?))).collect()
}

/// Address of a contestant's figure.
fn case(figure: &str, contestant: &str) -> String {
    format!("{figure}, {contestant}")
}

fn unit_of(document: &Document, verdict: &Comparison) -> String {
    let figure = document.figure(BENCH, &case(&verdict.figure, &verdict.beside));
    figure.map_or(String::new(), |figure| unit(&figure.unit))
}

/// The result, in the words of the target.
fn reached(verdict: &Comparison) -> (String, &'static str) {
    if verdict.beside == Contestant::BareForwarder.name() {
        let more = verdict.ours - verdict.theirs;
        let sign = if more >= 0.0 { "+" } else { "" };
        (format!("{sign}{}", number(more)), "\u{b5}s")
    } else if verdict.limit < verdict.theirs {
        (times(verdict.inverse), "times less")
    } else {
        (times(verdict.ratio), "times")
    }
}

/// Rounded down: what is not quite three times is not called three times.
fn times(ratio: f64) -> String {
    format!("{:.2}", (ratio * 100.0).floor() / 100.0)
}

/// A tile for each target.
pub(super) fn markup(document: &Document) -> Markup {
    let verdicts = verdicts(document);
    let machine = &document.machine;
    html! {
        @if !verdicts.is_empty() {
            div.tiles {
                @for (name, verdict) in &verdicts { (tile(document, name, verdict)) }
            }
            p.measured {
                "Bars are medians, whiskers lead from the lowest to the highest round, and the dashed line is what is wanted. All on one "
                "machine, whose " (machine.cpus) " CPUs (" (machine.cpu) ") carry sender, both boxes and receiver."
            }
        }
    }
}

fn tile(document: &Document, name: &str, verdict: &Comparison) -> Markup {
    let mut query = Query::new(document, BENCH);
    let theirs = if verdict.beside == Contestant::BareForwarder.name() { Kind::Limit } else { Kind::Rival };
    let beside = if theirs == Kind::Limit {
        verdict.beside.clone()
    } else {
        format!("best other: {}", verdict.beside)
    };
    let groups = [
        group("Frameward", [query.bar(Kind::Ours, &case(&verdict.figure, Contestant::Frameward.name()))]),
        group(&beside, [query.bar(theirs, &case(&verdict.figure, &verdict.beside))]),
    ];
    let bars = Bars {
        legend: Vec::new(),
        axis: unit_of(document, verdict),
        scale: Scale::Linear,
        groups: groups.into_iter().flatten().collect(),
        mark: Some(verdict.limit),
    };
    let (figure, word) = reached(verdict);
    html! {
        div.tile {
            p.what { (name) }
            p.figure { (figure) " " span { (word) } }
            p class=(if verdict.met { "met" } else { "open" }) {
                (if verdict.met { "\u{2713} met: " } else { "\u{25cb} not met: " }) (verdict.wanted)
            }
            div.drawing role="img" aria-label=(name) { (PreEscaped(bars::draw(&bars, NARROW_TILE))) }
        }
    }
}

/// The same as a table.
pub(super) fn table(document: &Document) -> Figure {
    let interval = |figure: &str, contestant: &str| {
        let figure = document.figure(BENCH, &case(figure, contestant));
        figure.map_or(String::new(), |figure| match figure.spread.filter(|_| figure.values.len() > 1) {
            Some(spread) => {
                format!("{} ({} to {})", number(figure.value), number(spread.lowest), number(spread.highest))
            }
            None => number(figure.value),
        })
    };
    let rows: Vec<[String; 7]> = verdicts(document)
        .iter()
        .map(|(name, verdict)| {
            let (figure, word) = reached(verdict);
            [
                format!("{name}, {}", unit_of(document, verdict)),
                interval(&verdict.figure, Contestant::Frameward.name()),
                interval(&verdict.figure, &verdict.beside),
                verdict.beside.clone(),
                format!("{figure} {word}"),
                verdict.wanted.clone(),
                if verdict.met { "met" } else { "not met" }.into(),
            ]
        })
        .collect();
    let reasons = document.gaps(BENCH);
    let gap =
        if reasons.is_empty() { "the bench is not part of this run.".to_owned() } else { reasons.join("; ") };
    let missing = rows.len() < comparison::names().count();
    let columns = ["", "Frameward", "beside", "whose", "reached", "wanted", ""];
    Figure {
        id: "rivals-targets".into(),
        title: "What was to be reached".into(),
        caption: "Frameward with GCM-AES-128 beside the best of fastd, tinc, OpenVPN, vpncloud and kernel VXLAN over WireGuard in user space, as far as they took part. Medians, and the lowest and the highest round. For the round trip our gateways and the bare forwarder stand at the same time and take turns of 25 trips; that of their own rounds is below.".into(),
        units: "as the first column says; ratios of medians".into(),
        source: "this run; the targets are the project's own".into(),
        command: command(document, BENCH),
        body: if rows.is_empty() { Body::Nothing } else { Body::Table(Table::new(columns, rows)) },
        gaps: if missing { vec![gap] } else { Vec::new() },
    }
}
