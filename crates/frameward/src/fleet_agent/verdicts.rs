//! Words of a gateway's heartbeat about its links, sites and cells: for each its name, and its verdict's level and word. The sentences of
//! verdicts name stations and addresses, and stay in the report.

use fleet::{Part, PartKind, PartLevel, Parts};
use report::{GatewayReport, Level, Verdict};

/// The verdicts of a report, in the order of its parts.
pub(super) fn parts(report: &GatewayReport) -> Parts {
    let mut parts = Vec::new();
    for link in &report.links {
        // A cell that drops the rest has no link beside it.
        if link.has_secy() {
            parts.push(part(PartKind::Link, &link.name, &link.verdict));
        }
        let cell = link.fieldbus.as_ref();
        parts.extend(cell.map(|cell| part(PartKind::Cell, &cell.name, &cell.verdict)));
    }
    parts.extend(report.sites.iter().map(|site| part(PartKind::Site, &site.name, &site.verdict)));
    Parts::new(parts)
}

fn part(kind: PartKind, name: &str, verdict: &Verdict) -> Part {
    let level = match verdict.level {
        Level::Good => PartLevel::Good,
        Level::Idle => PartLevel::Idle,
        Level::Attention => PartLevel::Attention,
        Level::Alarm => PartLevel::Alarm,
    };
    Part { kind, name: name.to_owned(), level, state: verdict.state.clone() }
}
