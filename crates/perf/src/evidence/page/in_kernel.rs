//! Section: the frame path in the kernel, beside the same in user space, a bridge, and a program that only forwards.

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
    vec![delay(document), frames(document), programs(document)]
}

/// One-way delay through two gateways, beside what protects nothing in their place.
fn delay(document: &Document) -> Figure {
    let mut query = Query::new(document, FIELDBUS);
    let groups: Vec<Group> = ["p50", "p99.9", "worst"]
        .into_iter()
        .filter_map(|what| {
            let bar = |(place, kind, _)| query.bar(kind, &format!("one-way delay {what}, {place}"));
            group(what, PLACES.map(bar))
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
            "One-way delay with 50 relations at 1 ms, through two gateways and through what protects nothing in their place; less is better. All stand side by side, and each round measures all. Machines, gateways and the clock share this machine's CPUs.{sentences}"
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

/// Every frame of the time, accounted for.
fn frames(document: &Document) -> Figure {
    let mut query = Query::new(document, FIELDBUS);
    let whats = [
        "sent",
        "received",
        "lost",
        "lost that no counter names",
        "later than a cycle",
        "out of order or twice",
        "changed",
    ];
    let row = |what: &str| {
        let mut of = |place: &str| Some(number(query.value(&format!("frames {what}, {place}{AT}"))?));
        let [redirect, bridge, kernel, user_space] = PLACES.map(|(place, ..)| of(place));
        Some([format!("frames {what}"), redirect?, bridge?, kernel?, user_space?])
    };
    let rows: Vec<_> = whats.into_iter().filter_map(row).collect();
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
