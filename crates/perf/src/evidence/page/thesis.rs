//! Section: Huster, *Enhancements for MACsec providing transparent Layer-2 encryption*, bachelor's thesis, TU Dresden, 2018.

use super::bars::{Bar, Bars, Group, Scale};
use super::figure::{Body, Figure, Kind, Table, number};
use super::query::{Query, command, group};
use super::tii::trip;
use crate::evidence::document::Document;

const THESIS: &str =
    "Huster, Enhancements for MACsec providing transparent Layer-2 encryption, thesis, TU Dresden, 2018";
const BENCH: &str = "fragment";

/// A test case of tables 7.1 to 7.3: what, payload, and its three quartiles.
type Quartiles = (&'static str, u32, [f64; 3]);

/// Table 7.1, in ms.
const ROUND_TRIPS: [Quartiles; 9] = [
    ("Ethernet", 1468, [0.137, 0.139, 0.140]),
    ("Ethernet", 1500, [0.138, 0.140, 0.146]),
    ("Ethernet", 2936, [0.440, 0.520, 0.579]),
    ("MACsec, jumbo frames", 1468, [0.146, 0.154, 0.159]),
    ("MACsec, jumbo frames", 1500, [0.146, 0.155, 0.160]),
    ("MACsec, jumbo frames", 2936, [0.279, 0.444, 0.470]),
    ("MACsec, fragments", 1468, [0.146, 0.155, 0.160]),
    ("MACsec, fragments", 1500, [0.161, 0.166, 0.169]),
    ("MACsec, fragments", 2936, [0.161, 0.174, 0.178]),
];
/// Table 7.2, in Mbit/s over Gigabit Ethernet.
const BANDWIDTH: [Quartiles; 9] = [
    ("Ethernet", 1468, [929.23, 929.30, 929.40]),
    ("Ethernet", 1500, [930.60, 930.69, 930.75]),
    ("Ethernet", 2936, [962.46, 962.48, 962.49]),
    ("MACsec, jumbo frames", 1468, [907.40, 907.51, 907.64]),
    ("MACsec, jumbo frames", 1500, [908.94, 909.03, 909.15]),
    ("MACsec, jumbo frames", 2936, [950.01, 950.05, 950.26]),
    ("MACsec, fragments", 1468, [907.38, 907.51, 907.64]),
    ("MACsec, fragments", 1500, [863.95, 864.19, 864.41]),
    ("MACsec, fragments", 2936, [924.75, 924.90, 925.06]),
];
/// Table 7.3, in per cent of the sender's CPU.
const CPU: [Quartiles; 9] = [
    ("Ethernet", 1468, [4.55, 4.70, 4.81]),
    ("Ethernet", 1500, [4.59, 4.74, 4.84]),
    ("Ethernet", 2936, [4.80, 5.02, 5.16]),
    ("MACsec, jumbo frames", 1468, [0.97, 1.04, 1.11]),
    ("MACsec, jumbo frames", 1500, [1.87, 1.93, 2.00]),
    ("MACsec, jumbo frames", 2936, [2.07, 2.24, 2.29]),
    ("MACsec, fragments", 1468, [0.96, 1.03, 1.10]),
    ("MACsec, fragments", 1500, [1.64, 1.70, 1.77]),
    ("MACsec, fragments", 2936, [1.04, 1.06, 1.08]),
];

fn source(what: &str) -> String {
    format!("{THESIS}: {what}")
}

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    vec![
        headers(document),
        comparison(document),
        machines(document),
        round_trips(document),
        bandwidth(document),
        cpu(document),
        megabytes(document),
    ]
}

/// Our case of a test case, if there is one.
fn ways(what: &str) -> &'static [(Kind, &'static str)] {
    match what {
        "Ethernet" => &[(Kind::Limit, "unprotected, bridges")],
        "MACsec, jumbo frames" => &[(Kind::Ours, "jumbo")],
        "MACsec, fragments" => &[(Kind::Ours, "fragment"), (Kind::Ours2, "concatenate")],
        _ => &[],
    }
}

fn paper_bar([low, middle, high]: [f64; 3], factor: f64) -> Option<Bar> {
    Some(Bar { kind: Kind::Paper, value: middle * factor, spread: Some((low * factor, high * factor)) })
}

fn legend() -> Vec<(Kind, String)> {
    [
        (Kind::Paper, "the thesis; whiskers: quartiles"),
        (Kind::Ours, "this run"),
        (Kind::Ours2, "this run, sharing frames"),
        (Kind::Limit, "this run, Linux bridges, no MACsec"),
    ]
    .map(|(kind, name)| (kind, name.to_owned()))
    .into()
}

fn headers(document: &Document) -> Figure {
    let mut query = Query::new(document, "overhead");
    let rows = [
        ("jumbo frames", 32.0, "whole"),
        ("fragments of SDUs, sharing frames", 34.79, "divided, sharing frames"),
        ("fragments of SDUs, each its own frames", f64::NAN, "divided"),
        ("fragments of protected frames", 34.05, ""),
        ("mice, jumbo frames", 32.0, "whole, a short one alone"),
        ("mice, fragments of SDUs, sharing frames", 32.0, "divided, sharing frames, a short one alone"),
        ("mice, fragments of SDUs, each its own frames", f64::NAN, "divided, a short one alone"),
        ("mice, fragments of protected frames", 32.0, ""),
    ];
    let groups: Vec<Group> = rows
        .into_iter()
        .filter_map(|(name, paper, case)| {
            let ours = if case.is_empty() { None } else { query.bar(Kind::Ours, case) };
            group(name, [Some(Bar::new(Kind::Paper, paper)).filter(|bar| bar.value.is_finite()), ours])
        })
        .collect();
    Figure {
        id: "thesis-table-3-1".into(),
        title: "Table 3.1: octets of headers".into(),
        caption: "What MACsec adds over MTU 1500 to each SDU of a long transfer of payloads of 1500 (\"elephants\"), and to a short SDU that comes alone and fits (\"mice\"); less is better. The thesis computed it; here the octets of protected frames are counted. Fragments of protected frames are no way of ours: anybody could make receivers wait for the rest of a frame.".into(),
        units: "octets for each SDU".into(),
        source: source("table 3.1"),
        command: command(document, "overhead"),
        body: Body::Bars(Bars {
            legend: vec![(Kind::Paper, "the thesis, computed".into()), (Kind::Ours, "this run, counted".into())],
            axis: "octets".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}

fn comparison(document: &Document) -> Figure {
    let mut query = Query::new(document, "overhead");
    let share = |length: &str| {
        let [divided, whole] =
            ["divided, sharing frames", "whole"].map(|way| query.value(&format!("{way}{length}")));
        let share = divided.zip(whole).map(|(divided, whole)| 100.0 * divided / whole);
        share.map_or("\u{2013}".into(), |share| format!("{} %", number(share)))
    };
    let [long, short] = ["", ", a short one alone"].map(share);
    let row = |texts: [&str; 6]| texts.map(String::from);
    let rows = vec![
        row(["fragments of SDUs", "108.71 %", "100 %", "the same", "a little worse", "the same"]),
        row(["fragments of protected frames", "106.41 %", "100 %", "the same", "a little worse", "worse"]),
        row(["Frameward: fragments of SDUs", &long, &short, "the same", "table 7.1", "the same"]),
    ];
    Figure {
        id: "thesis-table-3-2".into(),
        title: "Table 3.2: both approaches".into(),
        caption: "Headers beside those of jumbo frames for long and for short transfers, and the thesis' judgement of cryptographic work, latency and security, which it draws as arrows. What dividing does to latency was measured: table 7.1.".into(),
        units: "per cent of the headers with jumbo frames".into(),
        source: source("table 3.2"),
        command: command(document, "overhead"),
        body: Body::Table(Table::new(["approach", "long transfers", "short ones", "cryptography", "latency", "security"], rows)),
        gaps: query.gaps(),
    }
}

fn machines(document: &Document) -> Figure {
    let machine = &document.machine;
    let rows = vec![
        [
            "processor".into(),
            "Intel i5-4590, 3.3 GHz".into(),
            format!("{}, {} CPUs", machine.cpu, machine.cpus),
        ],
        [
            "memory".into(),
            "16 GB".into(),
            format!("{} GB", number((machine.memory_mib as f64 / 1024.0).round())),
        ],
        [
            "network".into(),
            "Fast and Gigabit Ethernet".into(),
            "veth between namespaces, limited to 100 Mbit/s".into(),
        ],
        [
            "system".into(),
            "Arch Linux, Linux 4.15.7".into(),
            format!("{}, Linux {}", machine.system, machine.kernel),
        ],
    ];
    Figure {
        id: "thesis-table-5-1".into(),
        title: "Table 5.1: the machines".into(),
        caption: "Two machines with a cable between them there; two machines, two gateways and a wire in one machine here.".into(),
        units: "none".into(),
        source: source("table 5.1"),
        command: "target/release/frameward-lab evidence run".into(),
        body: Body::Table(Table::new(["", "the thesis", "this run"], rows)),
        gaps: Vec::new(),
    }
}

fn measured(
    document: &Document,
    of: &[Quartiles],
    paper: f64,
    ours: f64,
    case: impl Fn(u32, &str) -> String,
) -> (Vec<Group>, Vec<String>) {
    let mut query = Query::new(document, BENCH);
    let mut groups = Vec::new();
    for (what, payload, quartiles) in of {
        let own: Vec<_> = ways(what)
            .iter()
            .map(|(kind, way)| query.scaled_bar(*kind, &case(*payload, way), ours))
            .collect();
        let bars = std::iter::once(paper_bar(*quartiles, paper)).chain(own);
        groups.extend(group(&format!("{what}, {payload}"), bars));
    }
    (groups, query.gaps())
}

fn round_trips(document: &Document) -> Figure {
    let (groups, gaps) = measured(document, &ROUND_TRIPS, 1.0, 1e-3, trip);
    Figure {
        id: "thesis-table-7-1".into(),
        title: "Table 7.1, figures 5.1 and 5.2: round trips".into(),
        caption: "Round trips of packets as long as the payload; less is better. Theirs are pings through two kernels over Gigabit Ethernet. Ours are UDP echoes through two gateways, with the time added that a wire of 100 Mbit/s takes for the frames, so differences between ways count, not absolutes.".into(),
        units: "milliseconds".into(),
        source: source("table 7.1"),
        command: command(document, BENCH),
        body: Body::Bars(Bars { legend: legend(), axis: "ms".into(), scale: Scale::Linear, groups, mark: None }),
        gaps,
    }
}

fn bandwidth(document: &Document) -> Figure {
    let (groups, gaps) =
        measured(document, &BANDWIDTH, 0.1, 1.0, |payload, way| format!("TCP {payload} {way}"));
    Figure {
        id: "thesis-table-7-2".into(),
        title: "Table 7.2 and figure 5.3: bandwidth".into(),
        caption: "Goodput of TCP in per cent of the wire's rate; more is better. Theirs over Gigabit Ethernet, ours over a wire of 100 Mbit/s, which legacy machines have.".into(),
        units: "per cent of the wire's rate (the thesis: 1000 Mbit/s; this run: 100 Mbit/s)".into(),
        source: source("table 7.2"),
        command: command(document, BENCH),
        body: Body::Bars(Bars { legend: legend(), axis: "per cent of the wire".into(), scale: Scale::Linear, groups, mark: None }),
        gaps,
    }
}

fn cpu(document: &Document) -> Figure {
    let (groups, gaps) =
        measured(document, &CPU, 1.0, 1.0, |payload, way| format!("CPU of TCP {payload} {way}"));
    Figure {
        id: "thesis-table-7-3".into(),
        title: "Table 7.3 and figure 5.4: CPU".into(),
        caption: "CPU while TCP runs at the rates of table 7.2. Theirs is the sender's, whose kernel does MACsec too, at ten times the rate; the thesis itself could not explain why it fell with MACsec. Ours is what both gateways and all softirqs of the machine take. So ways compare within a colour alone.".into(),
        units: "per cent of the sender's CPU (the thesis); per cent of one CPU (this run)".into(),
        source: source("table 7.3, figure 5.4"),
        command: command(document, BENCH),
        body: Body::Bars(Bars {
            legend: legend(),
            axis: "per cent".into(),
            scale: Scale::Logarithmic,
            groups,
            mark: None,
        }),
        gaps,
    }
}

/// Megabytes that a transfer of ten seconds at so many Mbit/s sends.
fn megabytes_sent(rate: f64) -> f64 {
    rate * 10.0 / 8.0
}

/// Figure 5.5 has no table: it is table 7.2 divided by table 7.3, as far as medians can be divided.
fn megabytes(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let mut groups = Vec::new();
    for ((what, payload, rate), (.., cpu)) in BANDWIDTH.into_iter().zip(CPU) {
        let paper = Bar::new(Kind::Paper, (megabytes_sent(rate[1]) / cpu[1]).round());
        let own: Vec<_> = ways(what)
            .iter()
            .map(|(kind, way)| {
                let rate = query.value(&format!("TCP {payload} {way}"));
                let cpu = query.value(&format!("CPU of TCP {payload} {way}"));
                let (rate, cpu) = rate.zip(cpu).filter(|(_, cpu)| *cpu > 0.0)?;
                Some(Bar::new(*kind, megabytes_sent(rate) / cpu))
            })
            .collect();
        groups.extend(group(&format!("{what}, {payload}"), std::iter::once(Some(paper)).chain(own)));
    }
    Figure {
        id: "thesis-figure-5-5".into(),
        title: "Figure 5.5: what is sent for a per cent of CPU".into(),
        caption: "The bandwidth test again: megabytes that ten seconds carry, divided by the CPU of table 7.3; more is better. The figure is a drawing without numbers: drawn is the median of table 7.2 by that of table 7.3, so it may differ a little from the thesis' bars. Theirs is the sender's CPU, ours that of both gateways and all softirqs, so ways compare within a colour alone.".into(),
        units: "megabytes in ten seconds for each per cent of CPU".into(),
        source: source("figure 5.5, computed from tables 7.2 and 7.3"),
        command: command(document, BENCH),
        body: Body::Bars(Bars {
            legend: std::iter::once((Kind::Paper, "the thesis, computed".to_owned()))
                .chain(legend().into_iter().skip(1))
                .collect(),
            axis: "MB for each per cent".into(),
            scale: Scale::Logarithmic,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}
