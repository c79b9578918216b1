//! Section: more frames than there is room for.

use crate::bench::overload::{
    BENCH, KERNEL_CELL, KERNEL_SITE, TIMES, TIMES_BOTH, UNPROTECTED_CELL, VXLAN, good, good_both, lossless,
    offered, offered_both,
};

use super::figure::{Body, Figure, Kind};
use super::lines::{Across, Lines, Series};
use super::query::{Query, command};
use crate::evidence::contest::{Contestant, Daemon};
use crate::evidence::document::Document;

const CASES: [(&str, Kind); 6] = [
    ("static keys", Kind::Ours),
    ("key agreement", Kind::Ours2),
    ("bare forwarder", Kind::Limit),
    ("Linux bridge", Kind::LimitToo),
    (Contestant::Daemon(Daemon::OpenVpn).name(), Kind::Rival),
    (Contestant::Daemon(Daemon::Fastd).name(), Kind::RivalToo),
];

const SITES: [(&str, Kind); 4] = [
    ("site, header encryption", Kind::Ours),
    ("site, identifiers", Kind::Ours2),
    (KERNEL_SITE, Kind::Ours3),
    (VXLAN, Kind::Limit),
];
const CELLS: [(&str, Kind); 3] =
    [("cell", Kind::Ours), (KERNEL_CELL, Kind::Ours2), (UNPROTECTED_CELL, Kind::Limit)];
const SHARED: &str = "Sender, both boxes and receiver share this machine's CPUs, so a sender that sends more leaves the boxes less";

/// Name of a figure of one multiple.
type Name = fn(f64, &str) -> String;

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    let one_way: (&[f64], [Name; 2]) = (&TIMES, [offered, good]);
    let both_ways: (&[f64], [Name; 2]) = (&TIMES_BOTH, [offered_both, good_both]);
    vec![
        curves(
            document,
            "overload-good",
            "Good frames under overload",
            &CASES,
            one_way,
            format!(
                "Small frames that arrive while more are sent than each carries without loss; level at 1 is best. {SHARED}: the bare forwarder and the bridge show how much of a fall is that. Lines end where the sender could send no more. Medians of rounds; OpenVPN and fastd over a cable, the others over a bridge. All gateways run with their defaults; how strangers' frames fare stands among all figures below."
            ),
        ),
        curves(
            document,
            "overload-both",
            "The same from both ends at once",
            &CASES,
            both_ways,
            format!(
                "Half of each multiple of the lossless rate (one way) is sent from each end at once; what arrives both ways together. {SHARED}, two of them more so. Medians of rounds."
            ),
        ),
        curves(
            document,
            "overload-sites",
            "Sites under overload",
            &SITES,
            one_way,
            format!(
                "Prepared MACsec frames of the shortest length from plant to plant, of the rate that each carries without loss. {SHARED}: kernel VXLAN, which protects nothing, stands in the same place and shows how much of a fall is that. Medians of rounds; sites run with their defaults."
            ),
        ),
        curves(
            document,
            "overload-sites-both",
            "Sites, from both ends at once",
            &SITES,
            both_ways,
            "As above, half of each multiple from each plant at once. Medians of rounds.".into(),
        ),
        curves(
            document,
            "overload-cells",
            "Cells under overload",
            &CELLS,
            one_way,
            format!(
                "Cyclic frames of 50 relations in turn, from the PLC to its devices. {SHARED}: the bare forwarder carries the same frames and protects none. Medians of rounds; cells run with their defaults."
            ),
        ),
        curves(
            document,
            "overload-cells-both",
            "Cells, from both ends at once",
            &CELLS,
            both_ways,
            "As above, half of each multiple from each side at once. Medians of rounds.".into(),
        ),
    ]
}

fn curves(
    document: &Document,
    id: &str,
    title: &str,
    cases: &[(&str, Kind)],
    (times, [sent, arrived]): (&[f64], [Name; 2]),
    caption: String,
) -> Figure {
    let mut query = Query::new(document, BENCH);
    let series: Vec<Series> = cases
        .iter()
        .filter_map(|&(case, kind)| {
            let most = query.value(&lossless(case)).filter(|most| *most > 0.0)?;
            // Over what the sender reached, not over what it was asked for.
            let points = times.iter().map(|&times| {
                Some((query.value(&sent(times, case))? / most, query.value(&arrived(times, case))? / most))
            });
            let mut points: Vec<(f64, f64)> = points.flatten().collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            (!points.is_empty()).then(|| Series::new(kind, case, points))
        })
        .collect();
    let nothing = series.is_empty();
    let lines = Lines {
        x: "offered, of the lossless rate".into(),
        y: "delivered, of the lossless rate".into(),
        x_axis: Across::Linear,
        logarithmic: false,
        series,
    };
    Figure {
        id: id.into(),
        title: title.into(),
        caption,
        units: "frames each second, both of the rate that each carries without loss".into(),
        source: "this run; no paper".into(),
        command: command(document, BENCH),
        body: if nothing { Body::Nothing } else { Body::Lines(lines) },
        gaps: query.gaps(),
    }
}
