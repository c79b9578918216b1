//! Links in the kernel: gateways as they are shipped, beside bridges and the same in user space.

use crate::bench::link::{FRAMES, TRIPS, figure as ours, gateways_in_the_kernel};
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

/// Frames that arrive each second.
pub(super) fn rates(document: &Document) -> Figure {
    drawn(
        document,
        ["kernel-link-rates", "Frames through a link in the kernel", "frames/s"],
        "Frames that arrive each second through two gateways, the best of several offers; more is better. Sender, both gateways and receiver share this machine's CPUs, and in the kernel a frame goes all its way on the CPU that sent it.",
        &FRAMES.map(|(_, what)| what),
    )
}

/// One frame at a time.
pub(super) fn round_trips(document: &Document) -> Figure {
    drawn(
        document,
        ["kernel-link-trips", "A round trip through a link in the kernel", "us"],
        "Echoes of single frames of 64 octets through two gateways, with a pause before each; less is better.",
        &[TRIPS, "round trip p99"],
    )
}

fn drawn(document: &Document, [id, title, axis]: [&str; 3], caption: &str, whats: &[&str]) -> Figure {
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
            let legend = PLACES.map(|(_, kind, name)| (kind, name.to_owned())).into();
            Body::Bars(Bars { legend, axis: axis.into(), scale: Scale::Logarithmic, groups, mark: None })
        },
        gaps: query.gaps(),
    }
}

/// Figures with a target, and what stands beside them.
pub(super) fn judged() -> Vec<(String, String)> {
    let [small, full] = FRAMES.map(|(_, what)| what);
    [small, full, TRIPS].map(|what| (format!("link, {what}, beside bridges"), ours(what))).into()
}
