//! Section: Skuballa et al., *Cryptographic Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses*.

use std::time::Duration;

use crate::bench::fieldbus::{LOOPS, RELATIONS};
use fieldbus::budget::{Budget, Cycle, LinkRate, Load, Payload};

use super::bars::{Bar, Bars, Group, Scale};
use super::figure::{Body, Figure, Kind, Table, number};
use super::lines::{Across, Lines, Series};
use super::query::{Query, command, group};
use crate::evidence::document::Document;
use crate::evidence::plan::FIELDBUS;

const PAPER: &str = "Skuballa et al., Cryptographic Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses";
/// Mode, octets of PT and AAD, then microseconds: t_total and t_bare of the hardware, t_bare of the software, t_max
/// (tables I and II); and the frame as our bench calls it.
const ROWS: [(&str, [u32; 2], [f64; 4], &str); 4] = [
    ("encryption, 1444 octets", [1444, 7], [13.0, 5.23, 243.5, 125.0], "1444 octets, encrypt"),
    ("encryption, 44 octets", [44, 7], [2.7, 0.39, 12.6, 8.77], "44 octets, encrypt"),
    ("authentication, 1444 octets", [0, 1451], [9.3, 4.27, 165.3, 125.0], "1444 octets, authenticate"),
    ("authentication, 44 octets", [0, 51], [2.6, 0.36, 10.0, 8.77], "44 octets, authenticate"),
];

/// As many relations as the paper's equation 2 allows for the shortest frames.
const PAPER_RELATIONS: usize = 57;

fn cipher(verb: &str, frame: &str, relations: usize) -> String {
    format!("{verb} {frame}, cipher, the paper's lengths, {relations} relations p50")
}

fn cell(verb: &str, frame: &str, relations: usize) -> String {
    format!("{verb} {frame}, a cell, {relations} relations p50")
}

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    vec![
        figure_3(),
        table_1(),
        equations(),
        table_2(document),
        relations(document),
        whole_path(document),
        tails(document),
    ]
}

/// Figure 3 and equation 1, in octets.
fn figure_3() -> Figure {
    let row = |texts: [&str; 4]| texts.map(String::from);
    let rows = vec![
        row(["Ethernet header: preamble, addresses, VLAN tag, EtherType", "26", "26", "22 without VLAN tag"]),
        row(["fieldbus header", "7", "7", "FrameID 2, KeyID 1, Seq 4"]),
        row(["payload, in clear or encrypted", "44 to 1444", "44 to 1444", ""]),
        row(["ICV", "16", "16", ""]),
        row(["FCS", "4", "4", ""]),
        row(["gap between frames", "12", "12", ""]),
        row(["together (equation 1)", "109 to 1509", "109 to 1509", ""]),
    ];
    Figure {
        id: "fieldbus-figure-3".into(),
        title: "Figure 3 and equation 1: a protected frame on the line".into(),
        caption: "What a cyclic frame takes of the line, part by part; both modes are equally long. Ours are as long as the paper's.".into(),
        units: "octets".into(),
        source: format!("{PAPER}: figure 3, equation 1"),
        command: "none: a layout; cargo test -p frameward-fieldbus computes with it".into(),
        body: Body::Table(Table::new(["part", "the paper", "Frameward", ""], rows)),
        gaps: Vec::new(),
    }
}

/// Payloads for which equation 3 is drawn.
const PAYLOADS: [u16; 15] = [44, 64, 96, 128, 192, 256, 384, 512, 640, 768, 896, 1024, 1152, 1300, 1444];

/// The paper's budget: half of 100 Mbit/s, a cycle of 1 ms.
fn budget() -> Budget {
    Budget {
        cycle: Cycle::new(Duration::from_millis(1)).expect("invariant: a cycle"),
        link: LinkRate::new(100_000_000).expect("invariant: a rate"),
        load: Load::from_millionths(500_000).expect("invariant: a half"),
    }
}

/// Equations 2 and 3: the two results that the text gives, on the line between them.
fn equations() -> Figure {
    let longest = |octets: &u16| {
        let time = budget().longest(Payload::new(*octets)?).ok()?;
        Some((f64::from(*octets), time.nanoseconds() / 1e3))
    };
    let series = vec![
        Series::new(
            Kind::Ours,
            "t_max, computed by Frameward",
            PAYLOADS.iter().filter_map(longest).collect(),
        ),
        Series {
            scattered: true,
            ..Series::new(Kind::Paper, "the paper's results", vec![(44.0, 8.77), (1444.0, 125.0)])
        },
    ];
    Figure {
        id: "fieldbus-equation-3".into(),
        title: "Equations 2 and 3: how long a frame may take".into(),
        caption: "If half of 100 Mbit/s carries frames of such a payload, as many relations fit into a cycle of 1 ms (57 of the shortest, 4 of the longest), and each frame may take so long: t_max. The text gives both ends. It grows in steps, since a relation fits or does not.".into(),
        units: "microseconds over octets of payload".into(),
        source: format!("{PAPER}: equations 2 and 3, section IV"),
        command: "target/release/frameward plan".into(),
        body: Body::Lines(Lines {
            x: "octets of payload".into(),
            y: "us".into(),
            x_axis: Across::Linear, logarithmic: true,
            series,
        }),
        gaps: Vec::new(),
    }
}

/// The whole way through a gateway but for the kernel, beside what a frame may take.
fn whole_path(document: &Document) -> Figure {
    beside_t_max(
        document,
        "receive to transmit descriptor",
        [
            "fieldbus-whole-path",
            "From receive to transmit descriptor",
            "What a gateway takes for a frame from the port to the port, all but the kernel, with 57 relations in turn, beside what the paper allows; less is better.",
        ],
    )
}

/// Times of single frames over this extent, with the paper's number of relations, beside what a frame may take.
pub(super) fn beside_t_max(document: &Document, extent: &str, [id, title, caption]: [&str; 3]) -> Figure {
    let mut query = Query::new(document, FIELDBUS);
    let mut groups: Vec<Group> = Vec::new();
    for (name, _, [.., most], case) in ROWS {
        let mut bar = |kind, verb: &str, what: &str| {
            let case = format!("{verb} {case}, {extent}, {PAPER_RELATIONS} relations {what}");
            query.scaled_bar(kind, &case, 1e-3)
        };
        let bars = [
            bar(Kind::Ours, "protect", "p50"),
            bar(Kind::Ours2, "verify", "p50"),
            bar(Kind::Ours3, "protect", "p99.9"),
            bar(Kind::OursFour, "verify", "p99.9"),
        ];
        let measured = bars.iter().any(Option::is_some);
        let allowed = measured.then(|| Bar::new(Kind::Limit, most));
        groups.extend(group(name, bars.into_iter().chain([allowed])));
    }
    let nothing = groups.is_empty();
    Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        units: "microseconds a frame".into(),
        source: format!("{PAPER}: t_max of table II; the rest is this run"),
        command: command(document, FIELDBUS),
        body: if nothing {
            Body::Nothing
        } else {
            Body::Bars(Bars {
                legend: [
                    (Kind::Ours, "this run, protect, p50"),
                    (Kind::Ours2, "this run, verify, p50"),
                    (Kind::Ours3, "this run, protect, p99.9"),
                    (Kind::OursFour, "this run, verify, p99.9"),
                    (Kind::Limit, "allowed: t_max"),
                ]
                .map(|(kind, name)| (kind, name.to_owned()))
                .into(),
                axis: "us".into(),
                scale: Scale::Logarithmic,
                groups,
                mark: None,
            })
        },
        gaps: query.gaps(),
    }
}

/// Contributions to the p99.9 of single frames: that of idle loops of the same length.
fn tails(document: &Document) -> Figure {
    let mut query = Query::new(document, FIELDBUS);
    let empty =
        query.points(LOOPS.map(|length| (length as f64, format!("an empty loop of {length} ns p99.9"))));
    let mut frames = |extent: &str, verbs: [&str; 2]| {
        let cases =
            verbs.into_iter().flat_map(|verb| ROWS.map(|(.., case)| format!("{verb} {case}, {extent}")));
        let cases = cases.flat_map(|case| RELATIONS.map(|number| format!("{case}, {number} relations")));
        let point = |case: String| {
            let middle = query.value(&format!("{case} p50 of single frames"))?;
            Some((middle, query.value(&format!("{case} p99.9"))?))
        };
        let mut points: Vec<_> = cases.filter_map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    let cipher = frames("cipher, the paper's lengths", ["seal", "open"]);
    let cell = frames("a cell", ["protect", "verify"]);
    let whole = frames("receive to transmit descriptor", ["protect", "verify"]);
    let mut series = vec![Series::new(Kind::Limit, "an empty loop", empty)];
    for (kind, name, points) in [
        (Kind::Ours3, "AES-GCM alone", cipher),
        (Kind::Ours, "a cell", cell),
        (Kind::Ours2, "from receive to transmit descriptor", whole),
    ] {
        series.push(Series { scattered: true, ..Series::new(kind, name, points) });
    }
    series.retain(|series| !series.points.is_empty());
    Figure {
        id: "fieldbus-tails".into(),
        title: "What p99.9 is made of".into(),
        caption: format!(
            "Each point is a length of frame, a mode and a number of relations: how long a single frame usually takes, and how long one of a thousand takes or longer. The line is a loop that only reads the clock until so much time has passed: what it has at p99.9 are interruptions by timers, the hypervisor and others, and no work that takes as long can have less on this machine. What the loop does not feel, since it waits for the clock: at times the CPU itself is slower, for many frames on end, as it is when a core works for somebody else too. AES-GCM alone feels it as all work does; how far its points stand above the line is what this machine does to any work of that length. What a gateway's points stand above those is ours.{}",
            spells(document)
        ),
        units: "nanoseconds, p99.9 over p50".into(),
        source: format!(
            "this run, for the verdicts on t_max of {PAPER}: table II; the paper gives no percentiles"
        ),
        command: command(document, FIELDBUS),
        body: if series.is_empty() {
            Body::Nothing
        } else {
            Body::Lines(Lines {
                x: "ns, p50".into(),
                y: "ns, p99.9".into(),
                x_axis: Across::Logarithmic,
                logarithmic: true,
                series,
            })
        },
        gaps: query.gaps(),
    }
}

/// Number of slow frames, and of those that stood together, if the run has it.
fn spells(document: &Document) -> String {
    let sentences = ["cipher, the paper's lengths", "receive to transmit descriptor"].into_iter().filter_map(|extent| {
        let percent = |what: &str| {
            let figure = document.figure(FIELDBUS, &format!("slow single frames{what}, {extent}"))?;
            Some(number(figure.value))
        };
        Some(format!(
            " Of single frames ({extent}) {} % took a third longer than the median of their round; of these, {} % stood beside another such ({} % if by chance).",
            percent("")?,
            percent(" beside a slow one")?,
            percent(" beside a slow one by chance")?
        ))
    });
    sentences.collect()
}

/// The paper says that the number of relations makes no difference to a frame; it draws nothing of it.
fn relations(document: &Document) -> Figure {
    let mut query = Query::new(document, FIELDBUS);
    type Name = fn(&str, &str, usize) -> String;
    let shown: [(&str, Kind, Name, &str); 3] = [
        ("protect", Kind::Ours, cell, "protect"),
        ("verify", Kind::Ours2, cell, "verify"),
        ("AES-GCM alone", Kind::Ours3, cipher, "seal"),
    ];
    let series: Vec<Series> = shown
        .into_iter()
        .map(|(name, kind, case, verb)| {
            let cases = RELATIONS.map(|number| (number as f64, case(verb, "44 octets, encrypt", number)));
            Series::new(kind, name, query.points(cases))
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let lines = Lines {
        x: "relations".into(),
        y: "ns".into(),
        x_axis: Across::Logarithmic,
        logarithmic: false,
        series,
    };
    Figure {
        id: "fieldbus-relations".into(),
        title: "Section IV: more relations".into(),
        caption: "What a frame of 44 octets of payload costs when the frames of so many relations come in turn, each under a key of its own; less is better, and a level line is what the paper's budget takes for granted. The paper names the frequent change of keys as the hard part, and draws nothing of it.".into(),
        units: "nanoseconds a frame over relations".into(),
        source: format!("{PAPER}: section IV; no figure"),
        command: command(document, FIELDBUS),
        body: if lines.series.is_empty() { Body::Nothing } else { Body::Lines(lines) },
        gaps: query.gaps(),
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
        command: "target/release/frameward-lab evidence run --only fieldbus".into(),
        body: Body::Table(Table::new(["frame", "plaintext", "AAD"], rows.into())),
        gaps: Vec::new(),
    }
}

fn table_2(document: &Document) -> Figure {
    let mut query = Query::new(document, FIELDBUS);
    let groups = ROWS
        .into_iter()
        .filter_map(|(name, _, [total, bare, software, most], case)| {
            let ours = [
                query.scaled_bar(Kind::Ours, &cipher("seal", case, PAPER_RELATIONS), 1e-3),
                query.scaled_bar(Kind::Ours2, &cell("protect", case, PAPER_RELATIONS), 1e-3),
            ];
            let theirs = [
                (Kind::Paper, total),
                (Kind::Paper2, bare),
                (Kind::PaperThree, software),
                (Kind::Limit, most),
            ];
            group(name, ours.into_iter().chain(theirs.map(|(kind, value)| Some(Bar::new(kind, value)))))
        })
        .collect();
    Figure {
        id: "fieldbus-table-2".into(),
        title: "Table II: time for a frame, beside what there is".into(),
        caption: "How long protecting one frame takes, and how long it may take (t_max); less is better, and what is shorter than t_max is fast enough. The paper's hardware is an FPGA at 200 MHz, with (t_total) and without (t_bare, simulated) moving the data there; its software, not optimized, runs on a Cortex-A9 at 667 MHz. Ours are medians with 57 relations in turn, each under a key of its own; p99.9 and the worst are below, every figure.".into(),
        units: "microseconds a frame".into(),
        source: format!("{PAPER}: table II"),
        command: command(document, FIELDBUS),
        body: Body::Bars(Bars {
            legend: [
                (Kind::Ours, "this run, AES-GCM alone"),
                (Kind::Ours2, "this run, all that a cell does to protect"),
                (Kind::Paper, "the paper, hardware, t_total"),
                (Kind::Paper2, "the paper, hardware, t_bare"),
                (Kind::PaperThree, "the paper, software, t_bare"),
                (Kind::Limit, "allowed: t_max"),
            ]
            .map(|(kind, name)| (kind, name.to_owned()))
            .into(),
            axis: "us".into(),
            scale: Scale::Logarithmic,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}
