//! Summary of a run: each target with its result, drawn beside the rivals and the limit.

use maud::{Markup, PreEscaped, html};

use super::bars::{self, Bars, Scale};
use super::figure::{Body, Figure, Kind, Table, number, unit};
use super::query::{Query, command, group};
use crate::evidence::comparison::{self, Comparison};
use crate::evidence::contest::{BENCH, COST, Contestant, MIX, ROUND_TRIP, SMALL, TCP};
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
    } else if verdict.less {
        (times(verdict.inverse), "times less")
    } else {
        (times(verdict.ratio), "times")
    }
}

/// Rounded down: what is not quite three times is not called three times.
fn times(ratio: f64) -> String {
    format!("{:.2}", (ratio * 100.0).floor() / 100.0)
}

/// A tile: its title, the figure, and whose target the large number is. The others of ours have their numbers below it.
struct Tile {
    title: &'static str,
    figure: &'static str,
    scale: Scale,
    verdicts: [&'static str; 3],
}

const TILES: [Tile; 5] = [
    Tile {
        title: "TCP throughput",
        figure: TCP,
        scale: Scale::Linear,
        verdicts: ["In the kernel, TCP throughput", "TCP throughput", "One box, TCP throughput"],
    },
    Tile {
        title: "64-octet frames",
        figure: SMALL,
        scale: Scale::Linear,
        verdicts: ["In the kernel, 64-octet frames", "64-octet frames", "One box, 64-octet frames"],
    },
    Tile {
        title: "Internet mix",
        figure: MIX,
        scale: Scale::Linear,
        verdicts: ["In the kernel, Internet mix", "Internet mix", ""],
    },
    Tile {
        title: "CPU for a gigabit",
        figure: COST,
        scale: Scale::Linear,
        verdicts: ["In the kernel, CPU for a gigabit", "CPU for a gigabit", "One box, CPU for a gigabit"],
    },
    Tile {
        title: "Round trip",
        figure: ROUND_TRIP,
        scale: Scale::Linear,
        verdicts: ["In the kernel, round trip", "", "One box, round trip"],
    },
];

/// Ours, in the order of [`Tile::verdicts`].
const OURS: [(Contestant, Kind, &str); 3] = [
    (Contestant::InKernel, Kind::Ours2, "Frameward, in the kernel"),
    (Contestant::Frameward, Kind::Ours, "Frameward, in user space"),
    (Contestant::OneBox, Kind::OursFour, "Frameward, one box over UDP"),
];

/// The first screen: tiles with the limits in them, who the others are, and what was missed.
pub(super) fn markup(document: &Document) -> Markup {
    let verdicts = verdicts(document);
    let machine = &document.machine;
    let missed: Vec<_> = verdicts.iter().filter(|(_, verdict)| !verdict.met).collect();
    html! {
        @if !verdicts.is_empty() {
            div.tiles {
                @for one in &TILES { (tile(document, &verdicts, one)) }
            }
            p.measured {
                "Bars are medians, whiskers lead from the lowest to the highest round, and the dashed line is what is wanted of links in the "
                "kernel. All on one machine, whose " (machine.cpus) " CPUs (" (machine.cpu) ") carry sender, both boxes and receiver."
            }
            p.measured {
                "The others are tunnels that run in user space, between virtual Ethernet interfaces. WireGuard and macsec of a kernel cannot run "
                "in this one: these figures do not compare with them. A bridge protects nothing: it is what the same boxes carry without us."
            }
            p.measured {
                @if missed.is_empty() {
                    "None of the " (verdicts.len()) " targets beside the others is missed."
                } @else {
                    strong { "Missed: " (missed.len()) " of " (verdicts.len()) " targets beside the others. " }
                    @for (position, (name, verdict)) in missed.iter().enumerate() {
                        @let (figure, word) = reached(verdict);
                        @if position > 0 { "; " }
                        (name) ": " (figure) " " (word) ", wanted was " (verdict.wanted)
                    }
                    "."
                }
                " What was to be reached in the kernel stands " a href="#kernel-targets" { "there" } ", met or missed."
            }
        }
    }
}

/// A verdict of that name.
fn named<'v>(verdicts: &'v [(&'static str, Comparison)], name: &str) -> Option<&'v Comparison> {
    verdicts.iter().find(|(own, _)| *own == name).map(|(_, verdict)| verdict)
}

fn tile(document: &Document, verdicts: &[(&'static str, Comparison)], tile: &Tile) -> Markup {
    let mut query = Query::new(document, BENCH);
    let of_ours: Vec<_> = OURS
        .iter()
        .zip(tile.verdicts)
        .filter_map(|((_, _, name), verdict)| Some((*name, named(verdicts, verdict)?)))
        .collect();
    let Some((whose, first)) = of_ours.first() else { return html! {} };
    // Of the others the best, whomever the large number is compared with.
    let best = of_ours.iter().find(|(_, verdict)| verdict.beside != Contestant::Bridge.name());
    let mut groups: Vec<_> = OURS
        .iter()
        .filter_map(|(one, kind, name)| group(name, [query.bar(*kind, &case(tile.figure, one.name()))]))
        .collect();
    if let Some((_, verdict)) = best {
        let name = format!("best other: {}", verdict.beside);
        groups.extend(group(&name, [query.bar(Kind::Rival, &case(tile.figure, &verdict.beside))]));
    }
    let bridge = Contestant::Bridge.name();
    groups.extend(group(bridge, [query.bar(Kind::Limit, &case(tile.figure, bridge))]));
    let bars = Bars {
        legend: Vec::new(),
        axis: unit_of(document, first),
        scale: tile.scale,
        groups,
        mark: Some(first.limit),
    };
    let (figure, word) = reached(first);
    html! {
        div.tile {
            p.what { (tile.title) }
            p.figure { (figure) " " span { (word) } }
            p.beside { (whose) ", beside " (first.beside) }
            @for (whose, verdict) in &of_ours {
                p class=(if verdict.met { "met" } else { "open" }) {
                    @let (figure, word) = reached(verdict);
                    (if verdict.met { "\u{2713} met: " } else { "\u{25cb} not met: " })
                    (whose) ": " (figure) " " (word) "; wanted: " (verdict.wanted)
                }
            }
            div.drawing role="img" aria-label=(tile.title) { (PreEscaped(bars::draw(&bars, NARROW_TILE))) }
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
    let rows: Vec<[String; 8]> = verdicts(document)
        .iter()
        .map(|(name, verdict)| {
            let (figure, word) = reached(verdict);
            [
                format!("{name}, {}", unit_of(document, verdict)),
                verdict.who.clone(),
                interval(&verdict.figure, &verdict.who),
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
    let columns = ["", "whose of ours", "ours", "beside", "whose", "reached", "wanted", ""];
    Figure {
        id: "rivals-targets".into(),
        title: "What was to be reached".into(),
        caption: "Our links in user space and in the kernel, and one box for each LAN, beside the best of fastd, tinc, OpenVPN, vpncloud and kernel VXLAN over WireGuard in user space, as far as they took part. Medians, and the lowest and the highest round. For the round trip our gateways and the bare forwarder stand at the same time and take turns of 25 trips; that of their own rounds is below.".into(),
        units: "as the first column says; ratios of medians".into(),
        source: "this run; the targets are the project's own".into(),
        command: command(document, BENCH),
        body: if rows.is_empty() { Body::Nothing } else { Body::Table(Table::new(columns, rows)) },
        gaps: if missing { vec![gap] } else { Vec::new() },
    }
}
