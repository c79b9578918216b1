//! Section: Lackorzynski et al., *Secure and Efficient Tunneling of MACsec for Modern Industrial Use Cases*, 2022.

use super::bars::{Bar, Bars, Group, Scale};
use super::figure::{Body, Figure, Kind, Table};
use super::lines::{Across, Lines, Series};
use super::query::{Query, command, group};
use crate::bench::tunnel::{AROUND_SPLIT, ROUND_TRIPS};
use crate::evidence::document::Document;

const PAPER: &str =
    "Lackorzynski et al., Secure and Efficient Tunneling of MACsec for Modern Industrial Use Cases, 2022";
const BENCH: &str = "tunnel";
/// Scenario, round trip and its deviation in ms, throughput and its deviation in Mbit/s (table 2), and our case.
const TABLE_2: [(&str, [f64; 2], [f64; 2], &str); 4] = [
    ("1: VXLAN", [3.0, 0.13], [837.0, 9.0], "kernel VXLAN, unprotected"),
    ("2: VXLAN + WireGuard", [4.85, 0.55], [245.0, 16.0], "kernel VXLAN over wireguard-go"),
    ("3: identifier-based", [1.3, 0.07], [842.0, 3.0], "our identifiers"),
    ("4: encryption-based", [1.3, 0.05], [837.0, 3.0], "our header encryption"),
];

fn source(what: &str) -> String {
    format!("{PAPER}: {what}")
}

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    vec![
        tables(),
        table_2(document, true),
        table_2(document, false),
        by_size(document),
        around_split(document),
        gains(document),
        in_memory(document),
    ]
}

fn tables() -> Figure {
    let row = |texts: [&str; 3]| texts.map(String::from);
    let rows = vec![
        row([
            "a flow",
            "SCI, SA, destination; PN follows from the identifier",
            "SCI, both addresses, VLAN tags; AN and PN travel masked in each packet",
        ]),
        row([
            "outgoing flows",
            "key: SCI, SA; unicast and broadcast base identifier, remote gateways, timeout",
            "a number for the peer, acknowledged or not; one base secret an epoch and lane; timeout",
        ]),
        row([
            "incoming flows",
            "key: base identifier; header data, window, next expected PN, bound",
            "header data under the peer's number; a window a lane, not a flow",
        ]),
        row([
            "identifiers",
            "key: rotating identifier; PN, seen or not, pointer to the flow",
            "seq, seen or not, lane; the flow's number travels masked in the packet",
        ]),
    ];
    Figure {
        id: "tunnel-table-1".into(),
        title: "Table 1: what a gateway remembers".into(),
        caption: "The table names fields and no numbers. Ours computes identifiers for a lane of a peer instead of for each flow, so what a window costs does not grow with flows, another SAK announces nothing, and frames to a group move no other flow's numbers. The book's chapter on how it works goes through all properties.".into(),
        units: "none".into(),
        source: source("table 1"),
        command: "cargo doc -p frameward-tunnel".into(),
        body: Body::Table(Table::new(["", "the paper", "Frameward"], rows)),
        gaps: Vec::new(),
    }
}

fn table_2(document: &Document, latency: bool) -> Figure {
    let mut query = Query::new(document, BENCH);
    let groups: Vec<Group> = TABLE_2
        .into_iter()
        .filter_map(|(name, trip, rate, case)| {
            let paper = if latency { trip } else { rate };
            let theirs = Bar {
                kind: Kind::Paper,
                value: paper[0],
                spread: Some((paper[0] - paper[1], paper[0] + paper[1])),
            };
            let ours = if latency {
                query.scaled_bar(Kind::Ours, &format!("round trip of 64 octets p50, {case}"), 1e-3)
            } else {
                query.bar(Kind::Ours, &format!("largest whole payload, {case}"))
            };
            group(name, [Some(theirs), ours])
        })
        .collect();
    let (id, title, axis, caption) = if latency {
        (
            "tunnel-table-2-latency",
            "Table 2: round trip of 64 octets",
            "ms",
            "Means of 65,535 pings through two gateways with Gigabit interfaces and their deviation, beside medians of echoes here; less is better. Theirs has two MACsec devices, DPDK that spins, and real interfaces in it; ours has namespaces of one machine, and CPUs that are woken.",
        )
    } else {
        (
            "tunnel-table-2-throughput",
            "Table 2: throughput",
            "Mbit/s",
            "iperf3 over Gigabit Ethernet, which was the limit for three of four, beside frames of the largest payload that goes whole, as fast as they are carried here; more is better.",
        )
    };
    Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        units: axis.into(),
        source: source("table 2"),
        command: command(document, BENCH),
        body: Body::Bars(Bars {
            legend: vec![
                (Kind::Paper, "the paper, whiskers: deviation".into()),
                (Kind::Ours, "this run".into()),
            ],
            axis: axis.into(),
            scale: if latency { Scale::Logarithmic } else { Scale::Linear },
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}

fn by_size(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let series = trips(&mut query, &ROUND_TRIPS);
    Figure {
        id: "tunnel-figure-5a".into(),
        title: "Figure 5(a): round trip by frame size".into(),
        caption: "The figure is a drawing, and the text gives no numbers of it: only that round trips jump where a frame has to be split, that those over WireGuard are erratic, and that both own approaches are alike. Drawn is this run, up to frames that still go whole; the next figure has the jump.".into(),
        units: "microseconds over octets of the frame".into(),
        source: source("figure 5(a)"),
        command: command(document, BENCH),
        body: Body::Lines(Lines { x: "octets".into(), y: "us".into(), x_axis: Across::Linear, logarithmic: true, series }),
        gaps: query.gaps(),
    }
}

/// Round trips of frames of these lengths, for each scenario that was measured.
fn trips(query: &mut Query<'_>, lengths: &[usize]) -> Vec<Series> {
    let kinds = [Kind::Limit, Kind::Rival, Kind::Ours, Kind::Ours2];
    let mut all = Vec::new();
    for ((.., case), kind) in TABLE_2.into_iter().zip(kinds) {
        let cases = lengths
            .iter()
            .map(|octets| (*octets as f64, format!("round trip of {octets} octets p50, {case}")));
        all.push(Series::new(kind, case, query.points(cases)));
    }
    all.retain(|series| !series.points.is_empty());
    all
}

fn around_split(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let series = trips(&mut query, &AROUND_SPLIT);
    Figure {
        id: "tunnel-figure-5a-split".into(),
        title: "Figure 5(a): round trip around the split".into(),
        caption: "A frame that no packet of the path holds goes in two: there the paper's round trips jump. Over a path of 1500 octets the longest frames that go in one have, with FCS, 1408 octets over WireGuard, 1468 with VXLAN, 1476 with header encryption and 1488 with identifiers.".into(),
        units: "microseconds over octets of the frame".into(),
        source: source("figure 5(a)"),
        command: command(document, BENCH),
        body: Body::Lines(Lines { x: "octets".into(), y: "us".into(), x_axis: Across::Part, logarithmic: true, series }),
        gaps: query.gaps(),
    }
}

fn gains(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let mut ratio = |payload: u32, one: &str, other: &str| {
        let [one, other] = [one, other].map(|case| query.value(&format!("LAN payload {payload}, {case}")));
        one.zip(other).map(|(one, other)| Bar::new(Kind::Ours, 100.0 * one / other))
    };
    let [vxlan, wireguard, identifiers, header_encryption] = TABLE_2.map(|(.., case)| case);
    let pairs = [
        ("WireGuard, of VXLAN alone, 1500", Some(50.0), 1500, wireguard, vxlan),
        ("identifiers, of header encryption, 1500", Some(110.0), 1500, identifiers, header_encryption),
        ("identifiers, of header encryption, 1470", None, 1470, identifiers, header_encryption),
    ];
    let groups: Vec<Group> = pairs
        .into_iter()
        .filter_map(|(name, paper, payload, one, other)| {
            group(name, [paper.map(|paper| Bar::new(Kind::Paper, paper)), ratio(payload, one, other)])
        })
        .collect();
    Figure {
        id: "tunnel-figure-5b".into(),
        title: "Figure 5(b): throughput over 10 Gigabit".into(),
        caption: "A drawing; the text gives two ratios of it, and these are drawn: encrypting all over again halves the throughput, and shorter headers gain a tenth. Ours are of LAN payloads of 1500 octets, which both modes send in two packets, and of 1470, which identifiers alone send in one: there the shorter header counts. No line is full here, so spared octets gain nothing by themselves; and for each packet a receiver takes an identifier out of a table and puts in another, which cost more where sender, router and sites share caches. The book's chapter on sites says what the figures tell and what they do not.".into(),
        units: "per cent of the other's throughput".into(),
        source: source("figure 5(b), section 6.2"),
        command: command(document, BENCH),
        body: Body::Bars(Bars {
            legend: vec![(Kind::Paper, "the paper".into()), (Kind::Ours, "this run".into())],
            axis: "per cent".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}

fn in_memory(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let ways = [
        ("re-encryption, gcm-aes-128", Kind::Rival),
        ("identifier", Kind::Ours),
        ("header encryption", Kind::Ours2),
        ("plain", Kind::Limit),
    ];
    let mut groups = Vec::new();
    for octets in [60, 1484] {
        for verb in ["send", "receive"] {
            let bars =
                ways.map(|(way, kind)| query.bar(kind, &format!("{verb} {octets} octets in memory, {way}")));
            groups.extend(group(&format!("{verb} {octets} octets"), bars));
        }
    }
    Figure {
        id: "tunnel-memory".into(),
        title: "What a header costs, without a network".into(),
        caption: "The paper argues by counting cryptographic operations, and leaves open by how much its approaches win, since interfaces were the limit. Without any interface: what sending and receiving a frame costs in the tunnel itself, beside encrypting all of it once more; less is better.".into(),
        units: "nanoseconds a frame".into(),
        source: source("section 6.1; no figure"),
        command: command(document, BENCH),
        body: Body::Bars(Bars {
            legend: ways.map(|(way, kind)| (kind, way.to_owned())).into(),
            axis: "ns".into(),
            scale: Scale::Linear,
            groups,
            mark: None,
        }),
        gaps: query.gaps(),
    }
}
