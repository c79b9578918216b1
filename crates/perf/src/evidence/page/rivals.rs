//! Section: beside everybody else.

use crate::bench::rivals::Rival;

use super::bars::{Bars, Group, Scale};
use super::figure::{Body, Figure, Kind, Table};
use super::kernel;
use super::lines::{Across, Lines, Series};
use super::query::{Query, command, group};
use crate::evidence::contest::{BENCH, Contestant};
use crate::evidence::document::Document;

const SOURCE: &str = "this run; no paper: the comparison is ours";

fn kind(contestant: Contestant) -> Kind {
    match contestant {
        Contestant::Frameward => Kind::Ours,
        Contestant::InKernel => Kind::Ours2,
        Contestant::Concatenating => Kind::Ours3,
        Contestant::OneBox => Kind::OursFour,
        _ if contestant.protects() => Kind::Rival,
        _ => Kind::Limit,
    }
}

fn legend() -> Vec<(Kind, String)> {
    [
        (Kind::Ours, "Frameward, GCM-AES-128, in user space"),
        (Kind::Ours2, "Frameward, ChaCha20-Poly1305, in the kernel"),
        (Kind::Ours3, "GCM-AES-128, small frames sharing frames"),
        (Kind::OursFour, "one box for a LAN, over UDP"),
        (Kind::Rival, "others that encrypt"),
        (Kind::Limit, "nothing encrypted: limits"),
    ]
    .map(|(kind, name)| (kind, name.to_owned()))
    .into()
}

/// Figures of the bench: name in rows, title, unit, good direction, and scale.
struct Shown {
    figure: &'static str,
    title: &'static str,
    unit: &'static str,
    caption: &'static str,
    scale: Scale,
}

const SHOWN: [Shown; 8] = [
    Shown {
        figure: "TCP, one stream",
        title: "TCP, one stream",
        unit: "Mbit/s",
        caption: "Goodput of one iperf3 stream with CUBIC; more is better. Sender, both boxes and receiver share this machine's CPUs, so ratios count, not absolutes.",
        scale: Scale::Linear,
    },
    Shown {
        figure: "TCP, four streams",
        title: "TCP, four streams",
        unit: "Mbit/s",
        caption: "The same with four streams at once; more is better.",
        scale: Scale::Linear,
    },
    Shown {
        figure: "64-octet frames",
        title: "Small frames without loss",
        unit: "frames/s",
        caption: "The highest rate of 64-octet UDP frames at which at most 0.01 % is lost, found by bisection after RFC 2544; more is better. A rate fails only if it fails twice.",
        scale: Scale::Linear,
    },
    Shown {
        figure: "IMIX",
        title: "Internet mix without loss",
        unit: "Mbit/s",
        caption: "The same with seven frames of 64, four of 594 and one of 1518 octets in turn; more is better.",
        scale: Scale::Linear,
    },
    Shown {
        figure: "round trip p50",
        title: "Round trip, idle",
        unit: "us",
        caption: "UDP echo of a 64-octet frame, one at a time with a pause before each: the median round trip; less is better. The percentiles above it are in the curves below.",
        scale: Scale::Logarithmic,
    },
    Shown {
        figure: "round trip at half load p50",
        title: "Round trip at half load",
        unit: "us",
        caption: "The same beside half of each one's own rate of small frames; less is better.",
        scale: Scale::Logarithmic,
    },
    Shown {
        figure: "CPU of TCP, one stream",
        title: "CPU for a gigabit",
        unit: "s/Gbit",
        caption: "CPU seconds of both boxes' processes and of softirqs for each gigabit of the single stream, each counted once; less is better. Softirqs are those of the whole machine, so each bar holds the same share of sender and receiver.",
        scale: Scale::Linear,
    },
    Shown {
        figure: "memory",
        title: "Memory",
        unit: "MiB",
        caption: "What the processes of both boxes have in RAM behind the transfers; less is better. What the kernel does alone has no process. Ours is allocated and locked at the start and does not grow.",
        scale: Scale::Linear,
    },
];

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    let mut figures = vec![super::summary::table(document)];
    figures.extend(SHOWN.iter().map(|shown| bars(document, shown)));
    figures.extend(
        [
            ("round trip", "Round trips, idle, by percentile"),
            ("round trip at half load", "Round trips at half load, by percentile"),
        ]
        .map(|(what, title)| percentiles(document, what, title)),
    );
    figures.push(kernel::figure(document));
    figures.push(settings(document));
    figures
}

/// The contestants and their settings.
fn settings(document: &Document) -> Figure {
    let rows = Contestant::ALL.map(|contestant| [contestant.name().into(), contestant.setting().into()]);
    Figure {
        id: "rivals-settings".into(),
        title: "Who takes part, and set to what".into(),
        caption: "Each with its fastest cipher that authenticates, and such an MTU that nothing is fragmented. Versions stand with the machine, at the top of the page.".into(),
        units: "none".into(),
        source: SOURCE.into(),
        command: command(document, BENCH),
        body: Body::Table(Table::new(["", "set to"], rows.into())),
        gaps: Vec::new(),
    }
}

fn bars(document: &Document, shown: &Shown) -> Figure {
    let mut query = Query::new(document, BENCH);
    let groups: Vec<Group> = Contestant::ALL
        .into_iter()
        .filter(|one| !one.in_a_guest())
        .filter_map(|one| {
            let bar = query.bar(kind(one), &format!("{}, {}", shown.figure, one.name()));
            // A contestant that is all in the kernel has no memory of its own to show.
            group(one.name(), [bar.filter(|bar| bar.value > 0.0 || shown.figure != "memory")])
        })
        .collect();
    let nothing = groups.is_empty();
    let bars = Bars { legend: legend(), axis: shown.unit.into(), scale: shown.scale, groups, mark: None };
    Figure {
        id: format!(
            "rivals-{}",
            shown.figure.replace(|c: char| !c.is_ascii_alphanumeric(), "-").to_lowercase()
        ),
        title: shown.title.into(),
        caption: format!(
            "{} Bars are medians of rounds, whiskers lead from the lowest to the highest.",
            shown.caption
        ),
        units: shown.unit.into(),
        source: SOURCE.into(),
        command: command(document, BENCH),
        body: if nothing { Body::Nothing } else { Body::Bars(bars) },
        gaps: query.gaps(),
    }
}

fn percentiles(document: &Document, what: &str, title: &str) -> Figure {
    let mut series = Vec::new();
    let mut missing = Vec::new();
    let shown = [
        (Contestant::Frameward, Kind::Ours),
        (Contestant::InKernel, Kind::Ours2),
        (Contestant::BareForwarder, Kind::Limit),
        (Contestant::Bridge, Kind::LimitToo),
        (Contestant::Tunnel(Rival::WireguardGo), Kind::Rival),
        (Contestant::Daemon(crate::evidence::contest::Daemon::OpenVpn), Kind::RivalToo),
    ];
    for (contestant, kind) in shown {
        match document.curve(BENCH, &format!("{what}, {}", contestant.name())) {
            Some(points) => {
                let points = points.iter().filter(|point| point.0 < 100.0).copied().collect();
                series.push(Series::new(kind, contestant.name(), points));
            }
            None => missing.push(contestant.name()),
        }
    }
    let reasons = document.gaps(BENCH);
    let reason = if reasons.is_empty() { "not part of this run".to_owned() } else { reasons.join("; ") };
    let nothing = series.is_empty();
    let lines = Lines {
        x: "per cent of round trips".into(),
        y: "us".into(),
        x_axis: Across::Percentiles,
        logarithmic: true,
        series,
    };
    Figure {
        id: format!("rivals-{}-curve", what.replace(' ', "-")),
        title: title.into(),
        caption: "How many per cent of the round trips took at most so long; less is better. The axis stretches what is rare: each step is ten times nearer to all of them. Six of the field, so that lines can be told apart; at each percentile the median of the rounds.".into(),
        units: "microseconds over per cent of all round trips".into(),
        source: SOURCE.into(),
        command: command(document, BENCH),
        body: if nothing { Body::Nothing } else { Body::Lines(lines) },
        gaps: if missing.is_empty() { Vec::new() } else { vec![format!("{}: {reason}.", missing.join("; "))] },
    }
}
