//! Antedating in gateways: round trips through two that do, beside two that do not. No paper measures it there.

use suite::CipherSuite;

use super::bars::{Bars, Group, Scale};
use super::figure::{Body, Figure, Kind};
use super::lines::{Across, Lines, Series};
use super::query::{Query, command, group};
use crate::evidence::document::Document;

const BENCH: &str = "antedate";
const SOURCE: &str = "this run; no paper: Hiller et al. antedate on small devices, not in gateways";
const SUITES: [CipherSuite; 2] = [CipherSuite::GcmAes128, CipherSuite::GcmAes256];
/// Octets that the cipher encrypts.
const TEXTS: [u32; 6] = [64, 128, 256, 512, 1024, 1468];
/// The CPU as rows call it, and what its figure is called.
const CPUS: [(&str, &str, &str); 2] = [
    ("this CPU", "antedate-round-trips", "Gateways that antedate: round trips on this CPU"),
    (
        "without AES instructions",
        "antedate-round-trips-without-aes",
        "Gateways that antedate: round trips without AES instructions",
    ),
];

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    let trips = CPUS.map(|(cpu, id, title)| round_trips(document, cpu, id, title));
    trips.into_iter().chain([ready(document)]).collect()
}

fn round_trips(document: &Document, cpu: &str, id: &str, title: &str) -> Figure {
    let mut query = Query::new(document, BENCH);
    let shown = [
        (SUITES[0], "antedated", Kind::Ours),
        (SUITES[0], "ordinary", Kind::Ours2),
        (SUITES[1], "antedated", Kind::Ours3),
        (SUITES[1], "ordinary", Kind::OursFour),
    ];
    let series: Vec<Series> = shown
        .into_iter()
        .map(|(suite, way, kind)| {
            let cases = TEXTS.map(|octets| {
                (f64::from(octets), format!("round trip p50, {octets} octets, {suite}, {way}, {cpu}"))
            });
            Series::new(kind, &format!("{suite}, {way}"), query.points(cases))
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let lines =
        Lines { x: "octets".into(), y: "us".into(), x_axis: Across::Linear, logarithmic: false, series };
    Figure {
        id: id.into(),
        title: title.into(),
        caption: "Round trips of lone packets through two gateways, with a pause before each in which keystreams are made; less is better. Two gateways seal twice and open twice for each. A CPU without AES instructions is this one with them masked.".into(),
        units: "microseconds (p50) over octets that are encrypted".into(),
        source: SOURCE.into(),
        command: command(document, BENCH),
        body: if lines.series.is_empty() { Body::Nothing } else { Body::Lines(lines) },
        gaps: short(query.gaps(), document),
    }
}

/// Share of frames whose keystream was ready when they came.
fn ready(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let mut groups: Vec<Group> = Vec::new();
    for (cpu, ..) in CPUS {
        for suite in SUITES {
            let case = format!("frames whose keystream was ready, {suite}, antedated, {cpu}");
            groups.extend(group(&format!("{suite}, {cpu}"), [query.bar(Kind::Ours, &case)]));
        }
    }
    let nothing = groups.is_empty();
    Figure {
        id: "antedate-ready".into(),
        title: "Gateways that antedate: how often it was done in time".into(),
        caption: "Frames whose whole keystream was ready when they came; more is better. The others were computed as without antedating, bit by bit the same.".into(),
        units: "per cent of the frames that the first gateway protected".into(),
        source: SOURCE.into(),
        command: command(document, BENCH),
        body: if nothing {
            Body::Nothing
        } else {
            Body::Bars(Bars {
                legend: vec![(Kind::Ours, "this run".into())],
                axis: "per cent".into(),
                scale: Scale::Linear,
                groups,
                mark: None,
            })
        },
        gaps: short(query.gaps(), document),
    }
}

/// Two dozen rows of one step are missing at once, if they are: the step is named instead.
fn short(gaps: Vec<String>, document: &Document) -> Vec<String> {
    let reasons = document.gaps(BENCH);
    let reason = if reasons.is_empty() { "not part of this run".to_owned() } else { reasons.join("; ") };
    if gaps.is_empty() { gaps } else { vec![format!("gateways that antedate: {reason}.")] }
}
