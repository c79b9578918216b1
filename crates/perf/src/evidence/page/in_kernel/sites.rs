//! Sites in the kernel, over a cable: beside what XDP can do over the same hops, bridges, VXLAN, and user space.

use crate::bench::cable::{BRIDGE, CABLE, REDIRECT, figure};
use crate::bench::rivals::Rival;
use crate::bench::tunnel::cable::{KERNEL, RATES, ROUND_TRIPS, USER_SPACE};
use crate::evidence::document::Document;
use crate::evidence::page::bars::{Bars, Group, Scale};
use crate::evidence::page::figure::{Body, Figure, Kind};
use crate::evidence::page::query::{Query, command, group};

pub(super) const BENCH: &str = "tunnel";
const SOURCE: &str =
    "this run; no paper: the paper's tunnel runs in user space, and names the kernel as future work";
/// Places over a cable, and what stands there.
const PLACES: [(&str, Kind, &str); 5] = [
    (REDIRECT, Kind::LimitToo, "XDP redirect, unprotected"),
    (BRIDGE, Kind::Limit, "Linux bridges, unprotected"),
    (Rival::Vxlan.name(), Kind::Rival, "kernel VXLAN, unprotected"),
    (KERNEL, Kind::Ours, "Frameward in the kernel, identifiers"),
    (USER_SPACE, Kind::Ours2, "Frameward in user space, identifiers"),
];

/// Frames that arrive each second.
pub(super) fn rates(document: &Document) -> Figure {
    drawn(
        document,
        ["kernel-site-rates", "Frames between two sites", "frames/s"],
        "Frames that arrive each second of as many as one CPU makes, carries and counts, in XDP programs at both ends, with the WANs of both sites wired to each other; more is better. Only user space has another CPU for itself, and is offered more than it takes.",
        RATES.map(|(_, what)| (what.to_owned(), what.to_owned())).into(),
    )
}

/// One frame at a time.
pub(super) fn round_trips(document: &Document) -> Figure {
    let whats = ROUND_TRIPS.into_iter().flat_map(|octets| {
        ["p50", "p99"]
            .map(|p| (format!("{octets} octets, {p}"), format!("round trip of {octets} octets {p}")))
    });
    drawn(
        document,
        ["kernel-site-trips", "A round trip between two sites", "us"],
        "Echoes of single frames over the same cable, with a pause before each; less is better. Both ends are programs that have to be woken.",
        whats.collect(),
    )
}

fn drawn(
    document: &Document,
    [id, title, axis]: [&str; 3],
    caption: &str,
    whats: Vec<(String, String)>,
) -> Figure {
    let mut query = Query::new(document, BENCH);
    let groups: Vec<Group> = whats
        .into_iter()
        .filter_map(|(name, what)| {
            group(&name, PLACES.map(|(place, kind, _)| query.bar(kind, &figure(&what, place))))
        })
        .collect();
    let legend = PLACES.map(|(_, kind, name)| (kind, name.to_owned())).into();
    finished(document, [id, title, axis, caption], legend, Scale::Logarithmic, groups, query.gaps())
}

/// Time of a known flow's frame in the programs alone.
pub(super) fn programs(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let mut groups = Vec::new();
    for octets in [60, 1484] {
        for ip in ["IPv4", "IPv6"] {
            let bars = [("send", Kind::Ours), ("receive", Kind::Ours2)].map(|(verb, kind)| {
                query.bar(kind, &format!("{verb} {octets} octets over {ip}, a program in the kernel, p50"))
            });
            groups.extend(group(&format!("{octets} octets over {ip}"), bars));
        }
    }
    let nothing = query.bar(Kind::Limit, "a frame of no flow, a program in the kernel, p50");
    groups.extend(group("a frame of no flow", [nothing]));
    let legend = vec![
        (Kind::Ours, "send".to_owned()),
        (Kind::Ours2, "receive".to_owned()),
        (Kind::Limit, "a program that ends at once".to_owned()),
    ];
    let caption = "What the kernel says of single runs, with two readings of its clock, which the frame of no flow has too; less is better. Each way has a SipHash of twelve rounds, for which the machine of BPF has no rotation; the receiver also moves a window under a lock, and takes from a table and puts into it. That bounds the rate above.";
    finished(
        document,
        ["kernel-site-programs", "A frame of a known flow in the programs", "ns", caption],
        legend,
        Scale::Linear,
        groups,
        query.gaps(),
    )
}

fn finished(
    document: &Document,
    [id, title, axis, caption]: [&str; 4],
    legend: Vec<(Kind, String)>,
    scale: Scale,
    groups: Vec<Group>,
    gaps: Vec<String>,
) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        units: axis.into(),
        source: SOURCE.into(),
        command: command(document, BENCH),
        body: if groups.is_empty() {
            Body::Nothing
        } else {
            Body::Bars(Bars { legend, axis: axis.into(), scale, groups, mark: None })
        },
        gaps,
    }
}

/// Figures over a cable with a target, and what stands beside them.
pub(super) fn judged() -> Vec<(String, String)> {
    let mut judged = Vec::new();
    for (_, what) in RATES {
        judged.push((format!("sites, {what}, beside XDP redirect"), figure(what, KERNEL)));
    }
    let small = figure(RATES[0].1, KERNEL);
    for rival in Rival::ALL {
        let beside = figure(RATES[0].1, rival.name());
        judged.push((
            format!("sites, {}, beside {}", RATES[0].1, rival.name()),
            format!("{small}, beside {beside}"),
        ));
    }
    for octets in ROUND_TRIPS {
        let what = format!("round trip of {octets} octets p50");
        judged.push((format!("sites, {what} {CABLE}, beside bridges"), figure(&what, KERNEL)));
    }
    judged
}
