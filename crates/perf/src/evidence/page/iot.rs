//! Section: Hiller et al., *Secure Low Latency Communication for Constrained Industrial IoT Scenarios*, LCN 2018.

use super::bars::{Bar, Bars, Group, Scale};
use super::figure::{Body, Figure, Kind, Table};
use super::lines::{Across, Lines, Series};
use super::query::{Query, command, group};
use crate::evidence::document::Document;

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
/// Payload, and by how many ms antedated encryption is faster (section VI-A): with [`SAVED`] the figure's two lines.
const SAVED_MS: [f64; 3] = [0.21, 1.15, 14.74];
/// Payload, template, and what both together save at most, in per cent. The text says "small" and "larger"; the payloads are
/// our reading: the shortest message that a template of 48 octets fits, and the shortest of the scenarios with large ones.
const BOTH: [(usize, usize, f64); 2] = [(48, 48, 75.97), (200, 48, 56.55)];
/// A row of table I, and the largest payload that the paper protects in time, ordinarily and at best, where the text says so
/// (section VI-C).
struct Scenario {
    class: &'static str,
    name: &'static str,
    payload: &'static str,
    /// As the table has it, and the tightest in ms.
    bound: (&'static str, f64),
    ordinarily: &'static str,
    best: &'static str,
}

const fn scenario(
    class: &'static str,
    name: &'static str,
    payload: &'static str,
    bound: (&'static str, f64),
    [ordinarily, best]: [&'static str; 2],
) -> Scenario {
    Scenario { class, name, payload, bound, ordinarily, best }
}

/// Table I, class by class.
const SCENARIOS: [Scenario; 9] = [
    scenario("relaxed, small", "condition monitoring", "50", ("100", 100.0), ["all", "all"]),
    scenario("relaxed, small", "process automation", "80", ("50 to 3000", 50.0), ["all", "all"]),
    scenario("relaxed, large", "logistics automation", "300", ("15 to 20", 15.0), ["all", "all"]),
    scenario("relaxed, large", "factory maintenance", "> 200", ("20", 20.0), ["608", "all"]),
    scenario("low, small", "packaging", "15", ("5", 5.0), ["all", "all"]),
    scenario("low, small", "printing", "30", ("2", 2.0), ["all", "all"]),
    scenario("low, small", "production lines", "20 to 50", ("1 to 12", 1.0), ["not all", "all"]),
    scenario("low, large", "smart grid", "200 to 1521", ("8", 8.0), ["224", "496"]),
    scenario("low, large", "augmented reality", "> 200", ("10", 10.0), ["288", "608"]),
];

fn source(what: &str) -> String {
    format!("{PAPER}: {what}")
}

fn made_by(document: &Document) -> String {
    format!("scripts/precompute.sh mcu; scripts/precompute.sh soft; {}", command(document, BENCH))
}

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    let mut figures = vec![
        classes(document),
        times(document),
        saved(document),
        more(document),
        templates(document),
        both(document),
    ];
    figures.extend(super::antedate::figures(document));
    figures
}

fn case(device: &str, what: &str, payload: usize, template: usize, phase: &str) -> String {
    format!("{device}, {what}, {payload} octets, template {template}, {phase}")
}

/// Saving while the data is there, in per cent of the ordinary way.
fn saves(query: &mut Query<'_>, device: &str, what: &str, payload: usize, template: usize) -> Option<f64> {
    let online = query.value(&case(device, what, payload, template, "online"));
    let ordinary = query.value(&case(device, what, payload, template, "ordinary"));
    online.zip(ordinary).map(|(online, ordinary)| 100.0 * (1.0 - online / ordinary))
}

/// Payloads that a Cortex-M4 protects in time.
fn classes(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let milliseconds = |instructions: f64| instructions / (MHZ * 1000.0);
    let mut in_time = |bound: f64, template: usize, phase: &str| -> Option<String> {
        let mut most = None;
        for payload in PAYLOADS.into_iter().filter(|payload| *payload >= template) {
            let taken = milliseconds(query.value(&case(MCU, "both", payload, template, phase))?);
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
    for Scenario { class, name, payload, bound: (bound, tightest), ordinarily, best } in SCENARIOS {
        let ours = [(0, "ordinary"), (0, "online"), (48, "online")]
            .map(|(template, phase)| in_time(tightest, template, phase).unwrap_or_else(|| "\u{2013}".into()));
        let [a, b, c] = ours;
        let theirs = [name, class, payload, bound, ordinarily, best].map(String::from);
        rows.push([theirs.to_vec(), vec![a, b, c]].concat());
    }
    let mut gaps = query.gaps();
    gaps.truncate(1);
    // Dozens of rows of one file are missing at once, if they are: the file is named instead.
    for gap in &mut gaps {
        *gap = "this host's Cortex-M4: its rows are not there; scripts/precompute.sh mcu makes them.".into();
    }
    Figure {
        id: "iot-table-1".into(),
        title: "Table I and figure 7: scenarios, and what is protected in time".into(),
        caption: "The paper's classes (latency, payload) with their payloads and bounds; the largest payload that its device (an MSP430 at 16 MHz with AES in hardware) protects within the tightest bound, ordinarily and at best, as far as the text says; and the same for a Cortex-M4 with AES in software at the same clock, one instruction a cycle: ordinarily, antedated, and with a template of 48 octets besides. Figure 7 itself is a drawing.".into(),
        units: "octets of payload; milliseconds".into(),
        source: source("table I, figure 7, section VI-C"),
        command: made_by(document),
        body: Body::Table(Table {
            columns: [
                "scenario", "class", "payload", "bound, ms", "paper, ordinary", "paper, best",
                "ours, ordinary", "ours, antedated", "ours, template 48",
            ]
            .map(String::from)
            .into(),
            rows,
        }),
        gaps,
    }
}

fn devices() -> [(&'static str, Kind); 3] {
    [(MCU, Kind::Ours), (SOFTWARE, Kind::Ours2), ("this host", Kind::Ours3)]
}

/// One line instead of one for each of dozens of points.
fn device_gaps(missing: &[&str]) -> Vec<String> {
    let reason = |device: &str| match device {
        MCU => "scripts/precompute.sh mcu makes them",
        SOFTWARE => "scripts/precompute.sh soft makes them",
        _ => "not part of this run",
    };
    missing.iter().map(|device| format!("{device}: its rows are not there; {}.", reason(device))).collect()
}

fn over_payloads(
    document: &Document,
    of: impl Fn(&mut Query<'_>, &str, usize) -> Option<f64>,
) -> (Vec<Series>, Vec<String>) {
    let (mut series, mut missing) = (Vec::new(), Vec::new());
    for (device, kind) in devices() {
        let mut query = Query::new(document, BENCH);
        let points: Vec<_> = PAYLOADS
            .into_iter()
            .filter_map(|payload| Some((payload as f64, of(&mut query, device, payload)?)))
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
        over_payloads(document, |query, device, payload| saves(query, device, "encryption", payload, 0));
    series.push(Series { scattered: true, ..Series::new(Kind::Paper, "the paper", SAVED.into()) });
    Figure {
        id: "iot-figure-5-share".into(),
        title: "Figure 5: what antedated encryption saves, as a share".into(),
        caption: "Which share of encryption is done before the data is there; more is better. The text gives three numbers of the figure; they are drawn as points.".into(),
        units: "per cent saved over octets of payload".into(),
        source: source("figure 5, section VI-A"),
        command: made_by(document),
        body: Body::Lines(Lines {
            x: "octets of payload".into(),
            y: "per cent saved".into(),
            x_axis: Across::Logarithmic, logarithmic: false,
            series,
        }),
        gaps,
    }
}

fn more(document: &Document) -> Figure {
    let (mut series, gaps) = over_payloads(document, |query, device, payload| {
        let of = |query: &mut Query<'_>, phase| query.value(&case(device, "encryption", payload, 0, phase));
        let (prepare, online, ordinary) =
            (of(query, "prepare")?, of(query, "online")?, of(query, "ordinary")?);
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
            x_axis: Across::Logarithmic, logarithmic: false,
            series,
        }),
        gaps,
    }
}

/// Figure 5 with its own axes. The paper's lines follow from what it saves in ms and in per cent.
fn times(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let mut series = Vec::new();
    for (phase, name, kind) in
        [("ordinary", "Cortex-M4, ordinary", Kind::Ours2), ("online", "Cortex-M4, antedated", Kind::Ours)]
    {
        let cases = PAYLOADS.map(|payload| (payload as f64, case(MCU, "encryption", payload, 0, phase)));
        let points: Vec<_> = query.points(cases).into_iter().map(|(x, y)| (x, y / (MHZ * 1000.0))).collect();
        if !points.is_empty() {
            series.push(Series::new(kind, name, points));
        }
    }
    let gaps = if series.is_empty() { device_gaps(&[MCU]) } else { Vec::new() };
    let paper = |of: fn(f64, f64) -> f64| -> Vec<(f64, f64)> {
        let three = SAVED.into_iter().zip(SAVED_MS);
        three.map(|((payload, share), saved)| (payload, of(saved, share / 100.0))).collect()
    };
    let theirs = [
        (Kind::Paper, "the paper, ordinary", paper(|saved, share| saved / share)),
        (Kind::Paper2, "the paper, antedated", paper(|saved, share| saved / share - saved)),
    ];
    for (kind, name, points) in theirs {
        // To the hundredth, as the paper tells what is saved.
        let points = points.into_iter().map(|(x, y)| (x, (y * 100.0).round() / 100.0)).collect();
        series.push(Series { scattered: true, ..Series::new(kind, name, points) });
    }
    Figure {
        id: "iot-figure-5".into(),
        title: "Figure 5: time to encrypt when the data is there".into(),
        caption: "What encryption takes once the data is there; less is better. The text gives three points of the figure, by what is saved in milliseconds and in per cent: both lines follow from these. The paper's device has AES in hardware; the Cortex-M4 has it in software, at the same clock, one instruction a cycle.".into(),
        units: "milliseconds at 16 MHz over octets of payload".into(),
        source: source("figure 5, section VI-A"),
        command: made_by(document),
        body: Body::Lines(Lines {
            x: "octets of payload".into(),
            y: "ms".into(),
            x_axis: Across::Logarithmic, logarithmic: true,
            series,
        }),
        gaps,
    }
}

/// Bars of the paper's shares, and of every device's.
fn shares(document: &Document, what: &str, points: &[(usize, usize, f64)]) -> (Vec<Group>, Vec<String>) {
    let (mut groups, mut missing): (Vec<Group>, Vec<&str>) = (Vec::new(), Vec::new());
    for (payload, template, paper) in points {
        let mut bars = vec![Some(Bar::new(Kind::Paper, *paper))];
        for (device, kind) in devices() {
            let mut query = Query::new(document, BENCH);
            let share = saves(&mut query, device, what, *payload, *template);
            if share.is_none() && !missing.contains(&device) {
                missing.push(device);
            }
            bars.push(share.map(|value| Bar::new(kind, value)));
        }
        groups.extend(group(&format!("{payload} octets, template {template}"), bars));
    }
    (groups, device_gaps(&missing))
}

/// The paper, and the devices of which there are bars.
fn device_legend(groups: &[Group]) -> Vec<(Kind, String)> {
    let drawn = |kind: Kind| groups.iter().flat_map(|group| &group.bars).any(|bar| bar.kind == kind);
    let devices = devices().into_iter().filter(|(_, kind)| drawn(*kind));
    let devices = devices.map(|(device, kind)| (kind, device.to_owned()));
    std::iter::once((Kind::Paper, "the paper".to_owned())).chain(devices).collect()
}

/// Both ways together, of which the paper tells the best.
fn both(document: &Document) -> Figure {
    let (groups, gaps) = shares(document, "both", &BOTH);
    Figure {
        id: "iot-figure-7".into(),
        title: "Figure 7: what both save together".into(),
        caption: "Which share of CCM is done before the data is there; more is better. The text says up to 75.97 % for small messages and up to 56.55 % for larger ones, and not for which: drawn are 48 and 200 octets, where a template of 48 saves most. Which scenarios that enables is table I above.".into(),
        units: "per cent saved".into(),
        source: source("figure 7, sections VI-C and VII"),
        command: made_by(document),
        body: Body::Bars(Bars {
            legend: device_legend(&groups),
            axis: "per cent".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps,
    }
}

fn templates(document: &Document) -> Figure {
    let (groups, gaps) = shares(document, "mac", &TEMPLATES);
    Figure {
        id: "iot-figure-6".into(),
        title: "Figure 6: what templates save".into(),
        caption: "Which share of a CBC-MAC is done before the data is there, since the message begins with what is known; more is better. Drawn are the four points of the figure that the text gives.".into(),
        units: "per cent saved".into(),
        source: source("figure 6, section VI-B"),
        command: made_by(document),
        body: Body::Bars(Bars {
            legend: device_legend(&groups),
            axis: "per cent".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps,
    }
}
