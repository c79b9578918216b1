//! Section: many gateways and one etcd.

use crate::bench::fleet::{
    AGENT, AGENTS, BENCH, COLD_START, CONTROLLER, CPU, ETCD, EVENTS, HEARTBEATS, PUBLISHED, REQUESTS,
    REVOKED, WAYS, case,
};

use super::figure::{Body, Figure, Kind, Table, number, unit};
use super::lines::{Across, Lines, Series};
use super::query::{Query, command};
use crate::evidence::document::Document;

/// Agents of a fleet that nobody has measured.
const ON_PAPER: f64 = 100_000.0;
const SHARED: &str = "Agents, etcd and the operator share this machine's CPUs; each agent is the gateway's own code with connections of its own, and no gateway runs behind it";

/// Curves of a figure: its name in links, its title, unit and scale, what they are, and what a reader has to know.
struct Shown {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    curves: &'static [(&'static str, Kind)],
    caption: &'static str,
}

const SHOWN: [Shown; 4] = [
    Shown {
        id: "fleet-times",
        title: "A fleet begins and changes",
        unit: "s",
        curves: &[(COLD_START, Kind::Ours), (REVOKED, Kind::Ours2), (PUBLISHED, Kind::Ours3)],
        caption: "Time until all agents that begin at once have confirmed their first versions; from the start of frameward fleet revoke --now until all whom that concerns have said so in the directory; and of frameward fleet apply for the whole inventory.",
    },
    Shown {
        id: "fleet-way",
        title: "A record's way",
        unit: "ms",
        curves: &[(WAYS[0], Kind::Ours), (WAYS[1], Kind::Ours2), (WAYS[2], Kind::Ours3)],
        caption: "From a record in the directory until its gateway has verified, opened and installed it, and the directory shows its heartbeat about that. Nine members of a group get new keys, and a revoked one refuses.",
    },
    Shown {
        id: "fleet-memory",
        title: "Memory of the operator's commands and of etcd",
        unit: "MiB",
        curves: &[(CONTROLLER, Kind::Ours), (ETCD, Kind::Limit)],
        caption: "The most that render, apply or revoke had resident, and what etcd has at rest with a watch of each agent.",
    },
    Shown {
        id: "fleet-rest",
        title: "A fleet at rest",
        unit: "1/s",
        curves: &[(REQUESTS, Kind::Ours), (HEARTBEATS, Kind::Ours2)],
        caption: "Requests that etcd gets while nothing changes, and how many of them are heartbeats. Agents read nothing: etcd notifies their watches every ten seconds.",
    },
];

pub(super) fn figures(document: &Document) -> Vec<Figure> {
    SHOWN.iter().map(|shown| curves(document, shown)).chain([on_paper(document)]).collect()
}

fn curves(document: &Document, shown: &Shown) -> Figure {
    let mut query = Query::new(document, BENCH);
    let series: Vec<Series> = shown
        .curves
        .iter()
        .map(|(figure, kind)| Series::new(*kind, figure, points(&mut query, figure)))
        .filter(|series| !series.points.is_empty())
        .collect();
    let nothing = series.is_empty();
    Figure {
        id: shown.id.into(),
        title: shown.title.into(),
        caption: format!("{} {SHARED}.", shown.caption),
        units: format!("{} over agents", shown.unit),
        source: "this run; no paper".into(),
        command: command(document, BENCH),
        body: if nothing {
            Body::Nothing
        } else {
            Body::Lines(Lines {
                x: "agents".into(),
                y: shown.unit.into(),
                x_axis: Across::Logarithmic,
                logarithmic: false,
                series,
            })
        },
        gaps: query.gaps(),
    }
}

fn points(query: &mut Query<'_>, figure: &str) -> Vec<(f64, f64)> {
    query.points(AGENTS.map(|agents| (f64::from(agents), case(figure, agents))))
}

/// Figures of the largest fleet with their targets, and what they would be of a larger one if they grew on as they did.
fn on_paper(document: &Document) -> Figure {
    let most = AGENTS[AGENTS.len() - 1];
    let mut query = Query::new(document, BENCH);
    let mut rows = Vec::new();
    let judged = [COLD_START, WAYS[1], REVOKED, EVENTS, CONTROLLER, ETCD, AGENT, REQUESTS, HEARTBEATS, CPU];
    for figure in judged {
        let Some(measured) = query.measured(&case(figure, most)) else { continue };
        let grown = grown(&points(&mut query, figure), ON_PAPER);
        let target = measured.target.as_ref();
        rows.push([
            format!("{figure}, {}", unit(&measured.unit)),
            number(measured.value),
            measured.spread.map_or(String::new(), |spread| number(spread.highest)),
            target.map_or(String::new(), |target| target.wanted.clone()),
            target.map_or("", |target| if target.met { "met" } else { "not met" }).into(),
            grown.map_or(String::new(), number),
        ]);
    }
    Figure {
        id: "fleet-on-paper".into(),
        title: "5,000 agents, and 100,000 on paper".into(),
        caption: format!(
            "Medians and the highest round of the largest fleet, beside what was to be reached. The last column is no measurement: it lays a straight line through the two largest fleets. {SHARED}."
        ),
        units: "as the first column says".into(),
        source: "this run; the targets are the project's own".into(),
        command: command(document, BENCH),
        body: if rows.is_empty() {
            Body::Nothing
        } else {
            let columns = ["", "5,000 agents", "highest", "wanted", "", "100,000 on paper"];
            Body::Table(Table::new(columns, rows))
        },
        gaps: query.gaps(),
    }
}

/// Value there of the line through the last two points; at least that of the last one.
fn grown(points: &[(f64, f64)], at: f64) -> Option<f64> {
    let [.., one, other] = points else { return None };
    let slope = (other.1 - one.1) / (other.0 - one.0);
    Some(other.1 + slope.max(0.0) * (at - other.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_fleet_grows_on_as_the_last_two_did_and_never_shrinks() {
        let points = [(100.0, 9.0), (2500.0, 10.0), (5000.0, 20.0)];
        assert_eq!(grown(&points, 100_000.0), Some(20.0 + 95_000.0 * 10.0 / 2500.0));
        assert_eq!(grown(&[(1.0, 2.0), (2.0, 1.0)], 100_000.0), Some(1.0));
        assert_eq!(grown(&points[..1], 100_000.0), None);
    }
}
