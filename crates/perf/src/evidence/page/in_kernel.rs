//! Section: the frame path in the kernel, beside the same in user space, a bridge, and a program that only forwards.

mod links;
mod sites;
mod targets;

use super::bars::{Bars, Group, Scale};
use super::fieldbus::beside_t_max;
use super::figure::{Body, Figure, Kind, Table, number};
use super::query::{Query, command, group};
use crate::evidence::document::Document;
use crate::evidence::plan::FIELDBUS;

/// Places that cyclic frames go through, and what stands there.
const PLACES: [(&str, Kind, &str); 4] = [
    ("XDP redirect", Kind::LimitToo, "XDP redirect, unprotected"),
    ("Linux bridge", Kind::Limit, "Linux bridges, unprotected"),
    ("gateways, in the kernel", Kind::Ours, "Frameward in the kernel, ChaCha20-Poly1305"),
    ("gateways", Kind::Ours2, "Frameward in user space, GCM-AES-128"),
];
/// Behind the name of a place.
const AT: &str = ", 50 relations at 1 ms";

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    vec![
        targets::figure(document),
        delay(document),
        frames(document),
        many(document),
        programs(document),
        links::cabled(document),
        links::rates(document),
        links::round_trips(document),
        sites::rates(document),
        sites::round_trips(document),
        sites::programs(document),
    ]
}

/// One-way delay through two gateways, beside what protects nothing in their place.
fn delay(document: &Document) -> Figure {
    let mut query = Query::new(document, FIELDBUS);
    let whats = ["p50", "p99", "p99.9", "worst"].map(|what| (what.to_owned(), "one-way delay"));
    let jitters = ["p50", "p99.9"].map(|what| (format!("jitter {what}"), "jitter at the machines"));
    let groups: Vec<Group> = whats
        .into_iter()
        .chain(jitters)
        .filter_map(|(name, of)| {
            let what = name.trim_start_matches("jitter ");
            let bar = |(place, kind, _)| query.bar(kind, &format!("{of} {what}, {place}"));
            group(&name, PLACES.map(bar))
        })
        .collect();
    let nothing = groups.is_empty();
    let sentences = of_each_place(document, " Frames that never came: ", "frames lost, ", AT)
        + &of_each_place(
            document,
            " Percent of all CPU time that the hypervisor gave to others meanwhile: ",
            "CPU time stolen from this machine, ",
            "",
        );
    Figure {
        id: "kernel-delay".into(),
        title: "A cyclic frame's way from machine to machine".into(),
        caption: format!(
            "One-way delay with 50 relations at 1 ms, through two gateways and through what protects nothing in their place, and how far the time between two arrivals strays from the cycle; less is better. All stand side by side, and each round measures all. Machines, gateways and the clock share this machine's CPUs.{sentences}"
        ),
        units: "microseconds".into(),
        source: "this run; no paper: the paper measures no network".into(),
        command: command(document, FIELDBUS),
        body: if nothing {
            Body::Nothing
        } else {
            Body::Bars(Bars {
                legend: PLACES.map(|(_, kind, name)| (kind, name.to_owned())).into(),
                axis: "us".into(),
                scale: Scale::Logarithmic,
                groups,
                mark: None,
            })
        },
        gaps: query.gaps(),
    }
}

/// A sentence with a figure of each place, if the run has it.
fn of_each_place(document: &Document, begin: &str, case: &str, end: &str) -> String {
    let sentences = PLACES.into_iter().filter_map(|(place, ..)| {
        let figure = document.figure(FIELDBUS, &format!("{case}{place}{end}"))?;
        Some(format!("{place}: {}", number(figure.value)))
    });
    let sentences: Vec<_> = sentences.collect();
    if sentences.is_empty() { String::new() } else { format!("{begin}{}.", sentences.join("; ")) }
}

/// Fates of frames.
const FATES: [&str; 7] = [
    "sent",
    "received",
    "lost",
    "lost that no counter names",
    "later than a cycle",
    "out of order or twice",
    "changed",
];

/// As many relations as a cell takes.
fn many(document: &Document) -> Figure {
    const MANY: &str = "1024 relations at 32 ms";
    const PLACES: [&str; 2] = ["Linux bridge", "gateways, in the kernel"];
    let mut query = Query::new(document, FIELDBUS);
    let cases = ["p50", "p99", "p99.9", "worst"].map(|what| (format!("one-way delay {what}"), "us"));
    let fates = FATES.map(|fate| (format!("frames {fate}"), "frames"));
    let row = |(what, unit): (String, &str)| {
        let mut of = |place: &str| Some(number(query.value(&format!("{what}, {place}, {MANY}"))?));
        let [bridge, kernel] = PLACES.map(&mut of);
        Some([format!("{what}, {unit}"), bridge?, kernel?])
    };
    let rows: Vec<_> = cases.into_iter().chain(fates).filter_map(row).collect();
    Figure {
        id: "kernel-many".into(),
        title: "As many relations as a cell takes".into(),
        caption: "A PLC and 1024 devices, each sending a frame every 32 ms, all of a cycle at once: so most of a delay is the time in which the machine itself sends and reads the others. Through Linux bridges, and through two gateways in the kernel.".into(),
        units: "as the first column says; frames of all rounds together".into(),
        source: "this run; no paper: the paper measures no network".into(),
        command: command(document, FIELDBUS),
        body: if rows.is_empty() {
            Body::Nothing
        } else {
            let [bridge, kernel] = PLACES;
            Body::Table(Table::new(["", bridge, kernel], rows))
        },
        gaps: query.gaps(),
    }
}

/// Every frame of the time, accounted for.
fn frames(document: &Document) -> Figure {
    let mut query = Query::new(document, FIELDBUS);
    let row = |what: &str| {
        let mut of = |place: &str| Some(number(query.value(&format!("frames {what}, {place}{AT}"))?));
        let [redirect, bridge, kernel, user_space] = PLACES.map(|(place, ..)| of(place));
        Some([format!("frames {what}"), redirect?, bridge?, kernel?, user_space?])
    };
    let rows: Vec<_> = FATES.into_iter().filter_map(row).collect();
    Figure {
        id: "kernel-frames".into(),
        title: "Every cyclic frame accounted for".into(),
        caption:
            "The frames of the delays above: a PLC and 50 devices, each sending a frame every millisecond."
                .into(),
        units: "frames of all rounds together".into(),
        source: "this run; no paper: the paper measures no network".into(),
        command: command(document, FIELDBUS),
        body: if rows.is_empty() {
            Body::Nothing
        } else {
            let [redirect, bridge, kernel, user_space] = PLACES.map(|(place, ..)| place);
            Body::Table(Table::new(["", redirect, bridge, kernel, user_space], rows))
        },
        gaps: query.gaps(),
    }
}

/// Time of a frame in the programs alone.
fn programs(document: &Document) -> Figure {
    beside_t_max(
        document,
        "a program in the kernel, keystream ahead",
        [
            "kernel-programs",
            "A cyclic frame in the program",
            "What the kernel says of single runs of a cell's programs, whose keystream is ready, with 57 relations in turn, beside what the paper allows; less is better.",
        ],
    )
}
