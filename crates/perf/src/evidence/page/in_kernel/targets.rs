//! Targets of the kernel path: each met or missed.

use super::{links, sites};
use crate::evidence::document::{Document, Figure as Measured};
use crate::evidence::page::figure::{Body, Figure, Table, number, unit};
use crate::evidence::page::query::{Query, command};
use crate::evidence::plan::FIELDBUS;

/// Programs whose keystream is ready.
const PROGRAM: &str = "a program in the kernel, keystream ahead";

/// Figures of cells with a target.
fn of_cells() -> Vec<(String, String)> {
    let mut judged = Vec::new();
    for (name, place) in [
        ("50 relations at 1 ms", "gateways, in the kernel"),
        ("1024 relations at 32 ms", "gateways, in the kernel, 1024 relations at 32 ms"),
    ] {
        for what in ["one-way delay p50", "one-way delay p99", "one-way delay p99.9"] {
            judged.push((format!("cell, {name}, {what}, beside bridges"), format!("{what}, {place}")));
        }
        for what in ["jitter at the machines p50", "jitter at the machines p99.9"] {
            judged.push((format!("cell, {name}, {what}, beside bridges"), format!("{what}, {place}")));
        }
        for what in ["frames lost", "frames later than a cycle"] {
            judged
                .push((format!("cell, {name}, {what}"), format!("{what}, gateways, in the kernel, {name}")));
        }
    }
    judged
}

/// Targets of many figures of one kind: all that have these words in their names.
const KINDS: [(&str, [&str; 2]); 3] = [
    ("cell, a frame of 44 octets in the program, p99.9", [" 44 octets, ", " p99.9"]),
    ("cell, a frame of 1444 octets in the program, p99.9", [" 1444 octets, ", " p99.9"]),
    ("cell, a frame in the program with 16 to 1024 relations instead of one, p50", [" octets, ", " p50"]),
];

pub(super) fn figure(document: &Document) -> Figure {
    let (mut rows, mut missed) = (Vec::new(), Vec::new());
    let mut gaps = Vec::new();
    let judged = [(FIELDBUS, of_cells()), (links::BENCH, links::judged()), (sites::BENCH, sites::judged())];
    for (bench, cases) in judged {
        let mut query = Query::new(document, bench);
        for (name, case) in cases {
            let Some(measured) = query.measured(&case) else { continue };
            rows.extend(row(&name, measured, &mut missed));
        }
        gaps.extend(query.gaps());
    }
    for (name, words) in KINDS {
        rows.extend(of_kind(document, name, words, &mut missed));
    }
    let reached = rows.len() - missed.len();
    let verdict = match &missed[..] {
        _ if rows.is_empty() => String::new(),
        [] => format!("All {reached} are met."),
        missed => format!("{reached} of {} are met. Missed: {}.", rows.len(), missed.join("; ")),
    };
    Figure {
        id: "kernel-targets".into(),
        title: "What was to be reached in the kernel".into(),
        caption: format!("{verdict} Ratios are medians of the rounds' ratios.").trim_start().into(),
        units: "as the second column says".into(),
        source: "this run; the targets are the project's own".into(),
        command: format!("{} --only {} --only {}", command(document, FIELDBUS), links::BENCH, sites::BENCH),
        body: if rows.is_empty() {
            Body::Nothing
        } else {
            Body::Table(Table::new(["", "measured", "ratio", "wanted", ""], rows))
        },
        gaps,
    }
}

/// A figure with its target.
fn row(name: &str, measured: &Measured, missed: &mut Vec<String>) -> Option<[String; 5]> {
    let target = measured.target.as_ref()?;
    if !target.met {
        missed.push(name.to_owned());
    }
    Some([
        name.to_owned(),
        format!("{} {}", number(measured.value), unit(&measured.unit)),
        measured.ratio.as_ref().map_or(String::new(), |ratio| number(ratio.value)),
        target.wanted.clone(),
        verdict(target.met).to_owned(),
    ])
}

/// All figures of a kind in one row.
fn of_kind(
    document: &Document,
    name: &str,
    [one, other]: [&str; 2],
    missed: &mut Vec<String>,
) -> Option<[String; 5]> {
    let figures = document.figures.get(FIELDBUS)?;
    let of_kind: Vec<_> = figures
        .iter()
        .filter(|(case, _)| case.contains(PROGRAM) && case.contains(one) && case.ends_with(other))
        .filter_map(|(_, figure)| Some((figure, figure.target.as_ref()?)))
        .collect();
    let worst = of_kind.iter().map(|(figure, _)| figure.value).reduce(f64::max)?;
    let met = of_kind.iter().filter(|(_, target)| target.met).count();
    if met < of_kind.len() {
        missed.push(name.to_owned());
    }
    Some([
        name.to_owned(),
        format!("at most {} ns", number(worst)),
        String::new(),
        of_kind.first().map_or(String::new(), |(_, target)| target.wanted.clone()),
        format!("{}: {met} of {}", verdict(met == of_kind.len()), of_kind.len()),
    ])
}

const fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "not met" }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bench::{Ratio, Row, Target};

    use super::*;
    use crate::evidence::machine;
    use crate::evidence::outcome::Outcome;

    fn target(met: bool) -> Option<Target> {
        Some(Target { wanted: "much".into(), met })
    }

    #[test]
    fn a_missed_target_is_said_first_and_one_that_was_not_measured_is_a_gap() {
        let redirect = sites::judged()[0].1.clone();
        let program = |relations: u32, met| Row {
            target: target(met),
            ..Row::new(
                FIELDBUS,
                &format!("verify 44 octets, encrypt, {PROGRAM}, {relations} relations p99.9"),
                f64::from(relations),
                "ns/frame",
                1,
            )
        };
        let rows = vec![
            Row {
                target: target(false),
                ratio: Some(Ratio { to: "x".into(), value: 0.5 }),
                ..Row::new(sites::BENCH, &redirect, 9.0, "frames/s", 1)
            },
            Row {
                target: target(true),
                ..Row::new(FIELDBUS, "one-way delay p50, gateways, in the kernel", 3.0, "us", 1)
            },
            program(57, true),
            program(1024, false),
        ];
        let outcome = Outcome { rows, ..Outcome::default() };
        let document =
            Document::new(("full", "c", "t"), machine::here(), BTreeMap::new(), Vec::new(), outcome);
        let figure = figure(&document);
        assert!(
            figure.caption.starts_with("1 of 3 are met. Missed: sites, 64-octet frames"),
            "{}",
            figure.caption
        );
        assert!(figure.caption.contains("a frame of 44 octets"), "{}", figure.caption);
        let Body::Table(table) = &figure.body else { panic!("{figure:?}") };
        let last: Vec<_> = table.rows.iter().map(|row| row[4].as_str()).collect();
        assert_eq!(last, ["met", "not met", "not met: 1 of 2"]);
        assert_eq!(
            figure.gaps.len(),
            3,
            "of cells, links and sites others were not measured: {:?}",
            figure.gaps
        );
        let empty = Document::new(
            ("full", "c", "t"),
            machine::here(),
            BTreeMap::new(),
            Vec::new(),
            Outcome::default(),
        );
        let figure = super::figure(&empty);
        assert_eq!((figure.body, figure.gaps.len()), (Body::Nothing, 3));
    }
}
