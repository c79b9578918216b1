//! Section: Hiller et al., *Secure Low Latency Communication for Constrained Industrial IoT Scenarios*, LCN 2018.

use super::bars::{Bar, Bars, Group, Scale};
use super::figure::{Body, Figure, Kind, Table};
use super::lines::{Lines, Series};
use super::pick::{Pick, command, group};
use crate::document::Document;

const PAPER: &str =
    "Hiller et al., Secure Low Latency Communication for Constrained Industrial IoT Scenarios, LCN 2018";
const BENCH: &str = "precompute";
const MCU: &str = "Cortex-M4";
const SOFTWARE: &str = "this host, software AES";
/// Payloads that are measured.
const PAYLOADS: [usize; 14] = [16, 32, 48, 64, 80, 96, 112, 128, 200, 304, 464, 608, 800, 1000];
/// Payload and what antedated encryption saves, in per cent (section VI-A).
const SAVED: [(f64, f64); 3] = [(16.0, 78.93), (80.0, 88.13), (1000.0, 89.90)];
/// Payload and what both phases cost more, in per cent (section VI-A).
const MORE: [(f64, f64); 5] = [(16.0, 27.59), (48.0, 11.28), (80.0, 8.20), (200.0, 5.36), (1000.0, 4.14)];
/// Payload, template, and what is saved of a MAC, in per cent (section VI-B).
const TEMPLATES: [(usize, usize, f64); 4] =
    [(112, 16, 21.99), (112, 96, 75.85), (64, 48, 64.45), (1000, 48, 5.95)];
/// The clock of the paper's device.
const MHZ: f64 = 16.0;
/// Name, payloads, tightest bound in ms (table I); and the largest payload that the paper protects in time, ordinarily and
/// at best, where the text says so (section VI-C).
const SCENARIOS: [(&str, &str, f64, &str, &str); 9] = [
    ("condition monitoring", "50", 100.0, "all", "all"),
    ("process automation", "80", 50.0, "all", "all"),
    ("logistics automation", "300", 15.0, "all", "all"),
    ("factory maintenance", "> 200", 20.0, "608", "all"),
    ("packaging", "15", 5.0, "all", "all"),
    ("printing", "30", 2.0, "all", "all"),
    ("production lines", "20 to 50", 1.0, "not all", "all"),
    ("smart grid", "200 to 1521", 8.0, "224", "496"),
    ("augmented reality", "> 200", 10.0, "288", "608"),
];

fn source(what: &str) -> String {
    format!("{PAPER}: {what}")
}

fn made_by(document: &Document) -> String {
    format!("scripts/precompute.sh mcu; scripts/precompute.sh soft; {}", command(document, BENCH))
}

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    vec![classes(document), saved(document), more(document), templates(document)]
}

fn case(device: &str, what: &str, payload: usize, template: usize, phase: &str) -> String {
    format!("{device}, {what}, {payload} octets, template {template}, {phase}")
}

/// What is saved while the data is there, in per cent of the ordinary way.
fn saves(pick: &mut Pick<'_>, device: &str, what: &str, payload: usize, template: usize) -> Option<f64> {
    let online = pick.value(&case(device, what, payload, template, "online"));
    let ordinary = pick.value(&case(device, what, payload, template, "ordinary"));
    online.zip(ordinary).map(|(online, ordinary)| 100.0 * (1.0 - online / ordinary))
}

/// Which payloads a Cortex-M4 protects in time.
fn classes(document: &Document) -> Figure {
    let mut pick = Pick::new(document, BENCH);
    let milliseconds = |instructions: f64| instructions / (MHZ * 1000.0);
    let mut in_time = |bound: f64, template: usize, phase: &str| -> Option<String> {
        let mut most = None;
        for payload in PAYLOADS.into_iter().filter(|payload| *payload >= template) {
            let taken = milliseconds(pick.value(&case(MCU, "both", payload, template, phase))?);
            if taken <= bound {
                most = Some(payload);
            }
        }
        Some(match most {
            Some(1000) => "1000 and more".into(),
            Some(most) => most.to_string(),
            None => "none".into(),
        })
    };
    let mut rows = Vec::new();
    for (name, payload, bound, ordinarily, best) in SCENARIOS {
        let ours = [in_time(bound, 0, "ordinary"), in_time(bound, 0, "online"), in_time(bound, 48, "online")]
            .map(|text| text.unwrap_or_else(|| "\u{2013}".into()));
        let [a, b, c] = ours;
        rows.push([name.into(), payload.into(), format!("{bound}"), ordinarily.into(), best.into(), a, b, c]);
    }
    let mut gaps = pick.gaps();
    gaps.truncate(1);
    // Dozens of rows of one file are missing at once, if they are: the file is named instead.
    for gap in &mut gaps {
        *gap = "this host's Cortex-M4: its rows are not there; scripts/precompute.sh mcu makes them.".into();
    }
    Figure {
        id: "iot-table-1".into(),
        title: "Table I and figure 7: scenarios, and what is protected in time".into(),
        caption: "The paper's classes with their payloads and tightest bounds; the largest payload that its device (an MSP430 at 16 MHz with AES in hardware) protects within the bound, ordinarily and at best, as far as the text says; and the same for a Cortex-M4 with AES in software at the same clock, one instruction a cycle: ordinarily, antedated, and with a template of 48 octets besides. Figure 7 itself is a drawing.".into(),
        units: "octets of payload; milliseconds".into(),
        source: source("table I, figure 7, section VI-C"),
        command: made_by(document),
        body: Body::Table(Table::new(
            ["scenario", "payload", "bound, ms", "paper, ordinary", "paper, best", "ours, ordinary", "antedated", "template 48"],
            rows,
        )),
        gaps,
    }
}

fn devices() -> [(&'static str, Kind); 3] {
    [(MCU, Kind::Ours), (SOFTWARE, Kind::OursToo), ("this host", Kind::OursThree)]
}

/// One line instead of one for each of dozens of points.
fn device_gaps(missing: &[&str]) -> Vec<String> {
    missing
        .iter()
        .map(|device| {
            let script = if *device == MCU { "mcu" } else { "soft" };
            format!("{device}: its rows are not there; scripts/precompute.sh {script} makes them.")
        })
        .collect()
}

fn over_payloads(
    document: &Document,
    of: impl Fn(&mut Pick<'_>, &str, usize) -> Option<f64>,
) -> (Vec<Series>, Vec<String>) {
    let (mut series, mut missing) = (Vec::new(), Vec::new());
    for (device, kind) in devices() {
        let mut pick = Pick::new(document, BENCH);
        let points: Vec<_> = PAYLOADS
            .into_iter()
            .filter_map(|payload| Some((payload as f64, of(&mut pick, device, payload)?)))
            .collect();
        if points.is_empty() {
            missing.push(device);
        } else {
            series.push(Series::new(kind, device, points));
        }
    }
    (series, device_gaps(&missing))
}

fn saved(document: &Document) -> Figure {
    let (mut series, gaps) =
        over_payloads(document, |pick, device, payload| saves(pick, device, "encryption", payload, 0));
    series.push(Series { scattered: true, ..Series::new(Kind::Paper, "the paper", SAVED.into()) });
    Figure {
        id: "iot-figure-5".into(),
        title: "Figure 5: what antedated encryption saves".into(),
        caption: "Which share of encryption is done before the data is there; more is better. The text gives three numbers of the figure (79, 88 and 90 %); they are drawn as points.".into(),
        units: "per cent saved over octets of payload".into(),
        source: source("figure 5, section VI-A"),
        command: made_by(document),
        body: Body::Lines(Lines {
            x: "octets of payload".into(),
            y: "per cent saved".into(),
            logarithmic: (true, false),
            series,
        }),
        gaps,
    }
}

fn more(document: &Document) -> Figure {
    let (mut series, gaps) = over_payloads(document, |pick, device, payload| {
        let of = |pick: &mut Pick<'_>, phase| pick.value(&case(device, "encryption", payload, 0, phase));
        let (prepare, online, ordinary) = (of(pick, "prepare")?, of(pick, "online")?, of(pick, "ordinary")?);
        Some(100.0 * ((prepare + online) / ordinary - 1.0))
    });
    series.push(Series { scattered: true, ..Series::new(Kind::Paper, "the paper", MORE.into()) });
    Figure {
        id: "iot-overhead".into(),
        title: "Section VI-A: what antedating costs in all".into(),
        caption: "By how much both phases together take longer than the ordinary way; less is better, and below zero antedating is cheaper altogether. The text gives five numbers and no figure.".into(),
        units: "per cent more over octets of payload".into(),
        source: source("section VI-A"),
        command: made_by(document),
        body: Body::Lines(Lines {
            x: "octets of payload".into(),
            y: "per cent more".into(),
            logarithmic: (true, false),
            series,
        }),
        gaps,
    }
}

fn templates(document: &Document) -> Figure {
    let mut missing = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for (payload, template, paper) in TEMPLATES {
        let mut bars = vec![Some(Bar::new(Kind::Paper, paper))];
        for (device, kind) in devices() {
            let mut pick = Pick::new(document, BENCH);
            let bar = saves(&mut pick, device, "mac", payload, template).map(|value| Bar::new(kind, value));
            if bar.is_none() && !missing.contains(&device) {
                missing.push(device);
            }
            bars.push(bar);
        }
        groups.extend(group(&format!("{payload} octets, template {template}"), bars));
    }
    Figure {
        id: "iot-figure-6".into(),
        title: "Figure 6: what templates save".into(),
        caption: "Which share of a CBC-MAC is done before the data is there, since the message begins with what is known; more is better. Drawn are the four points of the figure that the text gives.".into(),
        units: "per cent saved".into(),
        source: source("figure 6, section VI-B"),
        command: made_by(document),
        body: Body::Bars(Bars {
            legend: std::iter::once((Kind::Paper, "the paper".to_owned()))
                .chain(devices().map(|(device, kind)| (kind, device.to_owned())))
                .collect(),
            axis: "per cent".into(),
            scale: Scale::Linear,
            groups,
        }),
        gaps: device_gaps(&missing),
    }
}
