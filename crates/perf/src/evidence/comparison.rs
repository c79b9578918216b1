//! A comparison: a figure of ours beside the best of the others, and its target.
//!
//! "The others" are those that encrypt, on the same kernel, in the same boxes: not limits, which protect nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::evidence::contest::{BENCH, Contestant, SIDE_BY_SIDE};
use crate::evidence::document::Figure;

/// A comparison and its verdict.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The figure's name in front of a contestant's, within `rivals`.
    pub figure: String,
    /// The contestant that ours is compared with.
    pub beside: String,
    /// Ours.
    pub ours: f64,
    /// Theirs.
    pub theirs: f64,
    /// Ours divided by theirs.
    pub ratio: f64,
    /// Theirs divided by ours: how many times less ours takes, where less is better.
    pub inverse: f64,
    /// The target of ours (to reach, or not to exceed), in the figure's unit.
    pub limit: f64,
    /// The same in words.
    pub wanted: String,
    /// Whether it does.
    pub met: bool,
}

/// The others that ours is compared with.
#[derive(Clone, Copy)]
enum Beside {
    BestRival,
    BareForwarder,
}

/// A target.
struct Wanted {
    /// Its name: a part of an address, so without a slash.
    name: &'static str,
    figure: &'static str,
    beside: Beside,
    /// Whether more is better.
    more: bool,
    /// The target of ours, from theirs.
    limit: fn(f64) -> f64,
    words: &'static str,
}

/// All targets, in the order in which they are shown.
const WANTED: [Wanted; 5] = [
    Wanted {
        name: "TCP throughput",
        figure: "TCP, one stream",
        beside: Beside::BestRival,
        more: true,
        limit: |theirs| 3.0 * theirs,
        words: "at least 3 times the best of the others",
    },
    Wanted {
        name: "64-octet frames",
        figure: "64-octet frames",
        beside: Beside::BestRival,
        more: true,
        limit: |theirs| 2.2 * theirs,
        words: "at least 2.2 times the best of the others",
    },
    Wanted {
        name: "Internet mix",
        figure: "IMIX",
        beside: Beside::BestRival,
        more: true,
        limit: |theirs| theirs,
        words: "more than the best of the others",
    },
    Wanted {
        name: "CPU for a gigabit",
        figure: "CPU of TCP, one stream",
        beside: Beside::BestRival,
        more: false,
        limit: |theirs| theirs / 3.0,
        words: "at most a third of the best of the others",
    },
    Wanted {
        name: "Round trip",
        figure: SIDE_BY_SIDE,
        beside: Beside::BareForwarder,
        more: false,
        limit: |theirs| theirs + 10.0,
        words: "within 10 \u{b5}s of the bare forwarder, which polls as ours does",
    },
];

/// Names of the targets, in the order in which they are shown.
pub fn names() -> impl Iterator<Item = &'static str> {
    WANTED.iter().map(|wanted| wanted.name)
}

/// Whether a contestant is one of those that ours has to beat. A kernel that runs as a process of another one is not: it
/// would be beaten whatever ours did.
pub fn counts(one: Contestant) -> bool {
    matches!(one, Contestant::Tunnel(_) | Contestant::Daemon(_)) && one.protects()
}

/// The verdicts of a run's figures, as far as these are there.
pub fn compare(figures: &BTreeMap<String, BTreeMap<String, Figure>>) -> BTreeMap<String, Comparison> {
    let value = |figure: &str, one: Contestant| {
        let found = figures.get(BENCH)?.get(&format!("{figure}, {}", one.name()))?;
        (found.value > 0.0).then_some((found.value, one.name()))
    };
    let verdict = |wanted: &Wanted| {
        let (ours, _) = value(wanted.figure, Contestant::Frameward)?;
        let (theirs, beside) = match wanted.beside {
            Beside::BareForwarder => value(wanted.figure, Contestant::BareForwarder)?,
            Beside::BestRival => {
                let all = Contestant::ALL.into_iter().filter(|one| counts(*one));
                let all = all.filter_map(|one| value(wanted.figure, one));
                let better = |a: &(f64, _), b: &(f64, _)| a.0.total_cmp(&b.0);
                if wanted.more { all.max_by(better) } else { all.min_by(better) }?
            }
        };
        let limit = (wanted.limit)(theirs);
        Some(Comparison {
            figure: wanted.figure.into(),
            beside: beside.into(),
            ours,
            theirs,
            ratio: ours / theirs,
            inverse: theirs / ours,
            limit,
            wanted: wanted.words.into(),
            met: if wanted.more { ours >= limit } else { ours <= limit },
        })
    };
    WANTED.iter().filter_map(|wanted| Some((wanted.name.into(), verdict(wanted)?))).collect()
}

#[cfg(test)]
mod tests {
    use bench::Row;

    use super::*;

    #[test]
    fn ours_is_judged_beside_the_best_of_those_that_encrypt() {
        let rows = [
            ("TCP, one stream, Frameward", 3300.0),
            ("TCP, one stream, fastd", 1000.0),
            ("TCP, one stream, tinc", 900.0),
            ("TCP, one stream, Linux bridge, unprotected", 9000.0),
            ("CPU of TCP, one stream, Frameward", 1.0),
            ("CPU of TCP, one stream, fastd", 2.5),
            ("CPU of TCP, one stream, tinc", 4.0),
            ("round trip p50, side by side, Frameward", 111.0),
            ("round trip p50, side by side, bare AF_XDP forwarder, unprotected", 100.0),
            ("64-octet frames, Frameward", 1.0),
            ("64-octet frames, fastd", 0.0),
        ];
        let figures =
            rows.map(|(case, value)| (case.to_owned(), Row::new(BENCH, case, value, "u", 1).into()));
        let verdicts = compare(&[(BENCH.to_owned(), figures.into())].into());
        let tcp = &verdicts["TCP throughput"];
        assert_eq!((tcp.beside.as_str(), tcp.ratio, tcp.limit, tcp.met), ("fastd", 3.3, 3000.0, true));
        let cpu = &verdicts["CPU for a gigabit"];
        assert_eq!((cpu.beside.as_str(), cpu.inverse, cpu.met), ("fastd", 2.5, false));
        assert_eq!((verdicts["Round trip"].limit, verdicts["Round trip"].met), (110.0, false));
        // Of whom nothing passed, nothing can be said; nor without rivals.
        assert_eq!(verdicts.len(), 3, "{verdicts:?}");
        assert!(names().all(|name| !name.contains('/')));
        assert!(compare(&BTreeMap::new()).is_empty());
    }
}
