//! Section: Skuballa et al., *Cryptographic Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses*.

use super::bars::{Bar, Bars, Scale};
use super::figure::{Body, Figure, Kind, Table};
use super::lines::{Lines, Series};
use super::pick::{Pick, command, group};
use crate::document::Document;
use crate::plan::FIELDBUS;

const PAPER: &str = "Skuballa et al., Cryptographic Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses";
/// Mode, octets of PT and AAD, then microseconds: t_total and t_bare of the hardware, t_bare of the software, t_max
/// (tables I and II); and the frame as our bench calls it.
const ROWS: [(&str, [u32; 2], [f64; 4], &str); 4] = [
    ("encryption, 1444 octets", [1444, 7], [13.0, 5.23, 243.5, 125.0], "1444 octets, encrypt"),
    ("encryption, 44 octets", [44, 7], [2.7, 0.39, 12.6, 8.77], "44 octets, encrypt"),
    ("authentication, 1444 octets", [0, 1451], [9.3, 4.27, 165.3, 125.0], "1444 octets, authenticate"),
    ("authentication, 44 octets", [0, 51], [2.6, 0.36, 10.0, 8.77], "44 octets, authenticate"),
];

/// As many relations as the paper's equation 2 allows for the shortest frames, and all numbers that are measured.
const PAPER_RELATIONS: u32 = 57;
const RELATIONS: [u32; 5] = [1, 16, 57, 256, 1024];

fn cipher(verb: &str, frame: &str, relations: u32) -> String {
    format!("{verb} {frame}, cipher, the paper's lengths, {relations} relations p50")
}

fn cell(verb: &str, frame: &str, relations: u32) -> String {
    format!("{verb} {frame}, a cell, {relations} relations p50")
}

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    vec![table_1(), table_2(document), relations(document)]
}

/// The paper says that the number of relations makes no difference to a frame; it draws nothing of it.
fn relations(document: &Document) -> Figure {
    let mut pick = Pick::new(document, FIELDBUS);
    type Name = fn(&str, &str, u32) -> String;
    let shown: [(&str, Kind, Name, &str); 3] = [
        ("protect", Kind::Ours, cell, "protect"),
        ("verify", Kind::OursToo, cell, "verify"),
        ("AES-GCM alone", Kind::OursThree, cipher, "seal"),
    ];
    let series: Vec<Series> = shown
        .into_iter()
        .map(|(name, kind, case, verb)| {
            let cases = RELATIONS.map(|number| (f64::from(number), case(verb, "44 octets, encrypt", number)));
            Series::new(kind, name, pick.points(cases))
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let lines = Lines { x: "relations".into(), y: "ns".into(), logarithmic: (true, false), series };
    Figure {
        id: "fieldbus-relations".into(),
        title: "Section IV: more relations".into(),
        caption: "What a frame of 44 octets of payload costs when the frames of so many relations come in turn, each under a key of its own; less is better, and a level line is what the paper's budget takes for granted. The paper names the frequent change of keys as the hard part, and draws nothing of it.".into(),
        units: "nanoseconds a frame over relations".into(),
        source: format!("{PAPER}: section IV; no figure"),
        command: command(document, FIELDBUS),
        body: if lines.series.is_empty() { Body::Nothing } else { Body::Lines(lines) },
        gaps: pick.gaps(),
    }
}

fn table_1() -> Figure {
    let rows = ROWS.map(|(name, [text, aad], ..)| [name.to_owned(), text.to_string(), aad.to_string()]);
    Figure {
        id: "fieldbus-table-1".into(),
        title: "Table I: what goes into AES-GCM".into(),
        caption: "Octets of plaintext and of additional authenticated data of the shortest and the longest frame, in both modes.".into(),
        units: "octets".into(),
        source: format!("{PAPER}: table I"),
        command: "target/release/evidence run --only fieldbus".into(),
        body: Body::Table(Table::new(["frame", "plaintext", "AAD"], rows.into())),
        gaps: Vec::new(),
    }
}

fn table_2(document: &Document) -> Figure {
    let mut pick = Pick::new(document, FIELDBUS);
    let groups = ROWS
        .into_iter()
        .filter_map(|(name, _, [total, bare, software, most], case)| {
            let ours = [
                pick.scaled_bar(Kind::Ours, &cipher("seal", case, PAPER_RELATIONS), 1e-3),
                pick.scaled_bar(Kind::OursToo, &cell("protect", case, PAPER_RELATIONS), 1e-3),
            ];
            let theirs =
                [(Kind::Rival, total), (Kind::RivalToo, bare), (Kind::Paper, software), (Kind::Limit, most)];
            group(name, ours.into_iter().chain(theirs.map(|(kind, value)| Some(Bar::new(kind, value)))))
        })
        .collect();
    Figure {
        id: "fieldbus-table-2".into(),
        title: "Table II: time for a frame, beside what there is".into(),
        caption: "How long protecting one frame takes, and how long it may take if 100 Mbit/s are to be half full of such frames (t_max); less is better, and all that is shorter than t_max is fast enough. The paper's hardware is an FPGA at 200 MHz, with (t_total) and without (t_bare) moving the data there; its software runs on a Cortex-A9 at 667 MHz. Ours are medians with 57 relations in turn, each under a key of its own, as many as the paper allows for the shortest frames; this bench also has p99.9 and the worst of all (below, every figure).".into(),
        units: "microseconds a frame".into(),
        source: format!("{PAPER}: table II"),
        command: command(document, FIELDBUS),
        body: Body::Bars(Bars {
            legend: [
                (Kind::Ours, "this run, AES-GCM alone"),
                (Kind::OursToo, "this run, all that a cell does to protect"),
                (Kind::Rival, "the paper, hardware, t_total"),
                (Kind::RivalToo, "the paper, hardware, t_bare"),
                (Kind::Paper, "the paper, software"),
                (Kind::Limit, "allowed: t_max"),
            ]
            .map(|(kind, name)| (kind, name.to_owned()))
            .into(),
            axis: "us".into(),
            scale: Scale::Logarithmic,
            groups,
        }),
        gaps: pick.gaps(),
    }
}
