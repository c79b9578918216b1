//! Links in the kernel: gateways as they are shipped, beside bridges and the same in user space, over a cable and between sockets.

use crate::bench::cable::{BRIDGE, REDIRECT, figure as over_a_cable};
use crate::bench::link::cable::{BOTH_WAYS_AT_FULL_SIZE, KERNEL, OF_BRIDGE, RATES, USER_SPACE};
use crate::bench::link::{COST, FRAMES, TRIPS, figure as ours, gateways_in_the_kernel};
use crate::evidence::document::Document;
use crate::evidence::page::bars::{Bars, Group, Scale};
use crate::evidence::page::figure::{Body, Figure, Kind};
use crate::evidence::page::query::{Query, command, group};

pub(super) const BENCH: &str = "link";
/// Places, and what stands there. Ours in the kernel is the second.
const PLACES: [(&str, Kind, &str); 3] = [
    ("Linux bridge", Kind::Limit, "Linux bridges, unprotected"),
    ("", Kind::Ours, "Frameward in the kernel, ChaCha20-Poly1305"),
    ("gcm-aes-128, af_xdp", Kind::Ours2, "Frameward in user space, GCM-AES-128"),
];

/// Places over a cable, and what stands there.
const CABLED: [(&str, Kind, &str); 4] = [
    (REDIRECT, Kind::LimitToo, "XDP redirect, unprotected"),
    (BRIDGE, Kind::Limit, "Linux bridges, unprotected"),
    (KERNEL, Kind::Ours, "Frameward in the kernel, ChaCha20-Poly1305"),
    (USER_SPACE, Kind::Ours2, "Frameward in user space, GCM-AES-128"),
];

/// Frames that arrive each second of as many as a program makes.
pub(super) fn cabled(document: &Document) -> Figure {
    let mut query = Query::new(document, BENCH);
    let groups = RATES.iter().filter_map(|what| {
        group(what, CABLED.map(|(place, kind, _)| query.bar(kind, &over_a_cable(what, place))))
    });
    let groups = groups.collect();
    drawn(
        document,
        ["kernel-link-cable", "Frames through a link in the kernel, over a cable", "frames/s"],
        "Frames that arrive each second of as many as one CPU makes, carries and counts, in XDP programs at both ends, with the gateways wired to each other; more is better. Lengths are without FCS; IMIX is seven frames of 60 octets, four of 576 and one of 1500; both ways, two CPUs send. Only user space, and the thread that makes keystream ahead, have another CPU.",
        &CABLED,
        groups,
        query.gaps(),
    )
}

/// Frames that arrive each second of what a socket sends.
pub(super) fn rates(document: &Document) -> Figure {
    between_sockets(
        document,
        ["kernel-link-rates", "Frames through a link in the kernel, between sockets", "frames/s"],
        "Frames that arrive each second through two gateways, the best of several offers; more is better. Packet sockets send and count them, which costs more than the way through the gateways. Sender, both gateways and receiver share this machine's CPUs, and in the kernel a frame goes all its way on the CPU that sent it.",
        &FRAMES.map(|(_, what)| what),
    )
}

/// One frame at a time.
pub(super) fn round_trips(document: &Document) -> Figure {
    between_sockets(
        document,
        ["kernel-link-trips", "A round trip through a link in the kernel", "us"],
        "Echoes of single frames of 64 octets through two gateways, with a pause before each; less is better.",
        &[TRIPS, "round trip p99"],
    )
}

fn between_sockets(document: &Document, names: [&str; 3], caption: &str, whats: &[&str]) -> Figure {
    let mut query = Query::new(document, BENCH);
    let kernel = gateways_in_the_kernel();
    let places =
        PLACES.map(|(place, kind, _)| (if place.is_empty() { kernel.as_str() } else { place }, kind));
    let groups: Vec<Group> = whats
        .iter()
        .filter_map(|what| {
            group(what, places.map(|(place, kind)| query.bar(kind, &format!("{what}, {place}"))))
        })
        .collect();
    drawn(document, names, caption, &PLACES, groups, query.gaps())
}

fn drawn(
    document: &Document,
    [id, title, axis]: [&str; 3],
    caption: &str,
    places: &[(&str, Kind, &str)],
    groups: Vec<Group>,
    gaps: Vec<String>,
) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        units: axis.into(),
        source: "this run; no paper: the papers' gateways run in user space".into(),
        command: command(document, BENCH),
        body: if groups.is_empty() {
            Body::Nothing
        } else {
            let legend = places.iter().map(|(_, kind, name)| (*kind, (*name).to_owned())).collect();
            Body::Bars(Bars { legend, axis: axis.into(), scale: Scale::Logarithmic, groups, mark: None })
        },
        gaps,
    }
}

/// Figures with a target, and what stands beside them.
pub(super) fn judged() -> Vec<(String, String)> {
    let mut judged: Vec<_> = RATES[..OF_BRIDGE.len()]
        .iter()
        .map(|what| (format!("link, {what} over a cable, beside bridges"), over_a_cable(what, KERNEL)))
        .collect();
    judged.push((format!("link, {TRIPS}, beside bridges"), ours(TRIPS)));
    let both_ways = over_a_cable(BOTH_WAYS_AT_FULL_SIZE, KERNEL);
    judged.push((format!("link, {BOTH_WAYS_AT_FULL_SIZE} over a cable, beside Gigabit Ethernet"), both_ways));
    let cost = format!("{}, beside {COST}, {USER_SPACE}", ours(COST));
    judged.push(("link, CPU for a gigabit, beside user space".to_owned(), cost));
    judged
}
