//! Section: beside everybody else.

use frameward::bench::rivals::Rival;

use super::bars::{Bars, Group, Scale};
use super::figure::{Body, Figure, Kind, Table, number};
use super::lines::{Lines, Series};
use super::pick::{Pick, command, group};
use crate::contest::{BENCH, Contestant};
use crate::document::Document;

const SOURCE: &str = "this run; no paper: the comparison is ours";

fn kind(contestant: Contestant) -> Kind {
    match contestant {
        Contestant::Frameward => Kind::Ours,
        Contestant::Concatenating => Kind::OursToo,
        _ if contestant.protects() => Kind::Rival,
        _ => Kind::Limit,
    }
}

fn legend() -> Vec<(Kind, String)> {
    [
        (Kind::Ours, "Frameward, GCM-AES-128"),
        (Kind::OursToo, "the same, small frames sharing frames"),
        (Kind::Rival, "others that encrypt"),
        (Kind::Limit, "nothing encrypted: limits"),
    ]
    .map(|(kind, name)| (kind, name.to_owned()))
    .into()
}

/// What each figure of the bench shows: name in rows, title, unit, what is good, and the scale.
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
        caption: "CPU seconds of both boxes' processes and of all softirqs for each gigabit of the single stream; less is better. Softirqs are those of the whole machine, so each bar holds the same share of sender and receiver.",
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
    let mut figures = vec![targets(document)];
    figures.extend(SHOWN.iter().map(|shown| bars(document, shown)));
    figures.extend(
        [
            ("round trip", "Round trips, idle, by percentile"),
            ("round trip at half load", "Round trips at half load, by percentile"),
        ]
        .map(|(what, title)| percentiles(document, what, title)),
    );
    figures.push(kernel_macsec());
    figures
}

fn bars(document: &Document, shown: &Shown) -> Figure {
    let mut pick = Pick::new(document, BENCH);
    let groups: Vec<Group> = Contestant::ALL
        .into_iter()
        .filter_map(|one| {
            let bar = pick.bar(kind(one), &format!("{}, {}", shown.figure, one.name()));
            // What is all in the kernel has no memory of its own to show.
            group(one.name(), [bar.filter(|bar| bar.value > 0.0 || shown.figure != "memory")])
        })
        .collect();
    let nothing = groups.is_empty();
    let bars = Bars { legend: legend(), axis: shown.unit.into(), scale: shown.scale, groups };
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
        gaps: pick.gaps(),
    }
}

fn percentiles(document: &Document, what: &str, title: &str) -> Figure {
    let mut series = Vec::new();
    let mut missing = Vec::new();
    let shown = [
        (Contestant::Frameward, Kind::Ours),
        (Contestant::BareForwarder, Kind::Limit),
        (Contestant::Bridge, Kind::LimitToo),
        (Contestant::Tunnel(Rival::WireguardGo), Kind::Rival),
        (Contestant::Daemon(crate::contest::Daemon::OpenVpn), Kind::RivalToo),
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
    let lines = Lines { x: "percentile".into(), y: "us".into(), logarithmic: (false, true), series };
    Figure {
        id: format!("rivals-{}-curve", what.replace(' ', "-")),
        title: title.into(),
        caption: "How many per cent of the round trips took at most so long; five of the field, so that lines can be told apart. At each percentile the median of the rounds.".into(),
        units: "microseconds over per cent of all round trips".into(),
        source: SOURCE.into(),
        command: command(document, BENCH),
        body: if nothing { Body::Nothing } else { Body::Lines(lines) },
        gaps: if missing.is_empty() { Vec::new() } else { vec![format!("{}: {reason}.", missing.join("; "))] },
    }
}

/// Ours beside the best of those that encrypt, and what it ought to be.
pub(super) struct Claim {
    pub(super) what: &'static str,
    pub(super) ratio: f64,
    pub(super) wanted: &'static str,
    pub(super) met: bool,
    pub(super) best: &'static str,
}

/// What the whole comparison comes to.
pub(super) fn claims(document: &Document) -> Vec<Claim> {
    let value = |figure: &str, one: Contestant| {
        document.figure(BENCH, &format!("{figure}, {}", one.name())).map(|figure| figure.value)
    };
    let rivals = || Contestant::ALL.into_iter().filter(|one| one.protects() && !one.ours());
    // Whether more is better, how ours has to compare with the best rival, and in words.
    let wanted: [(&str, &str, bool, f64, &str); 4] = [
        ("TCP, one stream", "TCP throughput", true, 3.0, "at least 3 times the best of the others"),
        ("64-octet frames", "small frames", true, 2.2, "at least 2.2 times the best of the others"),
        ("IMIX", "Internet mix", true, 1.0, "more than the best of the others"),
        (
            "CPU of TCP, one stream",
            "CPU for a gigabit",
            false,
            1.0 / 3.0,
            "at most a third of the best of the others",
        ),
    ];
    let mut claims = Vec::new();
    for (figure, what, more, limit, words) in wanted {
        let measured = rivals().filter_map(|one| Some((value(figure, one)?, one.name())));
        let better =
            |a: &(f64, &str), b: &(f64, &str)| if more { a.0.total_cmp(&b.0) } else { b.0.total_cmp(&a.0) };
        let (Some(ours), Some((theirs, best))) =
            (value(figure, Contestant::Frameward), measured.max_by(better))
        else {
            continue;
        };
        if theirs > 0.0 {
            let ratio = ours / theirs;
            let met = if more { ratio >= limit } else { ratio <= limit };
            claims.push(Claim { what, ratio, wanted: words, met, best });
        }
    }
    claims
}

fn targets(document: &Document) -> Figure {
    let mut rows: Vec<[String; 5]> = claims(document)
        .into_iter()
        .map(|claim| {
            let met = if claim.met { "met" } else { "not met" };
            [
                claim.what.into(),
                format!("{} times", number(claim.ratio)),
                claim.best.into(),
                claim.wanted.into(),
                met.into(),
            ]
        })
        .collect();
    let trip = |one: Contestant| document.figure(BENCH, &format!("round trip p50, {}", one.name()));
    if let (Some(ours), Some(bare)) = (trip(Contestant::Frameward), trip(Contestant::BareForwarder)) {
        let more = ours.value - bare.value;
        rows.push([
            "round trip p50".into(),
            format!("{} us more", number(more)),
            Contestant::BareForwarder.name().into(),
            "within 10 us of the bare forwarder".into(),
            if more <= 10.0 { "met" } else { "not met" }.into(),
        ]);
    }
    let nothing = rows.is_empty();
    let reasons = document.gaps(BENCH);
    let gap =
        if reasons.is_empty() { "the bench is not part of this run.".to_owned() } else { reasons.join("; ") };
    Figure {
        id: "rivals-targets".into(),
        title: "What was to be reached".into(),
        caption: "Frameward with GCM-AES-128 beside the best of fastd, tinc, OpenVPN, vpncloud and kernel VXLAN over WireGuard in user space. Medians of one run.".into(),
        units: "ratios of medians; microseconds".into(),
        source: "this run; the targets are the project's own".into(),
        command: command(document, BENCH),
        body: if nothing { Body::Nothing } else { Body::Table(Table::new(["", "Frameward", "beside", "wanted", ""], rows)) },
        gaps: if nothing { vec![gap] } else { Vec::new() },
    }
}

fn kernel_macsec() -> Figure {
    Figure {
        id: "rivals-kernel-macsec".into(),
        title: "Kernel macsec".into(),
        caption: "The other implementation of MACsec for Linux. The kernels that these namespaces run on mostly have no such driver; a User-Mode Linux guest has, but is so slow that its figures would show nothing but the guest.".into(),
        units: "Mbit/s".into(),
        source: "interoperability, frame by frame: tests/interop".into(),
        command: "cargo test -p frameward --test interop".into(),
        body: Body::Nothing,
        gaps: vec!["not measured beside the others: that run boots a kernel for each round.".into()],
    }
}
