//! Section: more frames than there is room for.

use frameward::bench::overload::{BENCH, TIMES, good, lossless, offered};

use super::figure::{Body, Figure, Kind};
use super::lines::{Across, Lines, Series};
use super::pick::{Pick, command};
use crate::contest::{Contestant, Daemon};
use crate::document::Document;

const CASES: [(&str, Kind); 6] = [
    ("static keys", Kind::Ours),
    ("key agreement", Kind::OursToo),
    ("bare forwarder", Kind::Limit),
    ("Linux bridge", Kind::LimitToo),
    (Contestant::Daemon(Daemon::OpenVpn).name(), Kind::Rival),
    (Contestant::Daemon(Daemon::Fastd).name(), Kind::RivalToo),
];

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    let mut pick = Pick::new(document, BENCH);
    let series: Vec<Series> = CASES
        .into_iter()
        .filter_map(|(case, kind)| {
            let most = pick.value(&lossless(case)).filter(|most| *most > 0.0)?;
            // Over what the sender reached, not over what it was asked for.
            let points = TIMES.map(|times| {
                Some((pick.value(&offered(times, case))? / most, pick.value(&good(times, case))? / most))
            });
            let mut points: Vec<(f64, f64)> = points.into_iter().flatten().collect();
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
    vec![Figure {
        id: "overload-good".into(),
        title: "Good frames under overload".into(),
        caption: "Small frames that arrive while more are sent than each carries without loss; level at 1 is best. Sender, both boxes and receiver share this machine's CPUs, so a sender that sends more leaves the boxes less: the bare forwarder and the bridge show how much of a fall is that. Lines end where the sender could send no more. Medians of rounds; OpenVPN and fastd over a cable, the others over a bridge. All gateways run with their defaults; how strangers' frames fare stands among all figures below.".into(),
        units: "frames each second, both of the rate that each carries without loss".into(),
        source: "this run; no paper".into(),
        command: command(document, BENCH),
        body: if nothing { Body::Nothing } else { Body::Lines(lines) },
        gaps: pick.gaps(),
    }]
}
