//! A comparison: a figure of ours beside the best of the others, and its target.
//!
//! "The others" are those that encrypt, on the same kernel, in the same boxes: not limits, which protect nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::evidence::contest::{BENCH, COST, Contestant, MIX, ROUND_TRIP, SIDE_BY_SIDE, SMALL, TCP};
use crate::evidence::document::Figure;

/// A comparison and its verdict.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The figure's name in front of a contestant's, within `rivals`.
    pub figure: String,
    /// Contestant of ours, by its name.
    pub who: String,
    /// The contestant that ours is compared with.
    pub beside: String,
    /// Ours.
    pub ours: f64,
    /// Theirs.
    pub theirs: f64,
    /// Whether less is better.
    pub less: bool,
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

/// Target for ours.
#[derive(Clone, Copy)]
enum Limit {
    /// So many times the best of the others.
    AtLeast(f64),
    /// More than the best of the others.
    More,
    /// A part of the best of the others, and its name.
    AtMost(f64, &'static str),
    /// Less than the best of the others.
    Less,
    /// Less than the bridge.
    LessThanBridge,
    /// At most so many microseconds more than the bare forwarder.
    NearForwarder(f64),
}

impl Limit {
    fn value(self, theirs: f64) -> f64 {
        match self {
            Self::AtLeast(factor) | Self::AtMost(factor, _) => factor * theirs,
            Self::More | Self::Less | Self::LessThanBridge => theirs,
            Self::NearForwarder(more) => theirs + more,
        }
    }

    /// Whether more is better.
    const fn is_more(self) -> bool {
        matches!(self, Self::AtLeast(_) | Self::More)
    }

    /// The one that ours is compared with; none is the best of the others.
    const fn beside(self) -> Option<Contestant> {
        match self {
            Self::LessThanBridge => Some(Contestant::Bridge),
            Self::NearForwarder(_) => Some(Contestant::BareForwarder),
            _ => None,
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtLeast(factor) => format!("at least {factor} times the best of the others"),
            Self::More => "more than the best of the others".into(),
            Self::AtMost(_, part) => format!("at most {part} of the best of the others"),
            Self::Less => "less than the best of the others".into(),
            Self::LessThanBridge => "less than the bridge's".into(),
            Self::NearForwarder(more) => {
                format!("within {more} \u{b5}s of the bare forwarder, which polls as ours does")
            }
        }
    }
}

/// A target: its name (a part of an address, so without a slash), whose of ours, the figure, and what is wanted.
type Wanted = (&'static str, Contestant, &'static str, Limit);

/// All targets, in the order in which they are shown.
const WANTED: [Wanted; 14] = [
    ("TCP throughput", Contestant::Frameward, TCP, Limit::AtLeast(3.0)),
    ("64-octet frames", Contestant::Frameward, SMALL, Limit::AtLeast(2.2)),
    ("Internet mix", Contestant::Frameward, MIX, Limit::More),
    ("CPU for a gigabit", Contestant::Frameward, COST, Limit::AtMost(1.0 / 3.0, "a third")),
    ("Round trip", Contestant::Frameward, SIDE_BY_SIDE, Limit::NearForwarder(10.0)),
    ("In the kernel, TCP throughput", Contestant::InKernel, TCP, Limit::AtLeast(3.0)),
    ("In the kernel, 64-octet frames", Contestant::InKernel, SMALL, Limit::AtLeast(2.2)),
    ("In the kernel, Internet mix", Contestant::InKernel, MIX, Limit::More),
    ("In the kernel, CPU for a gigabit", Contestant::InKernel, COST, Limit::AtMost(1.0 / 3.0, "a third")),
    ("In the kernel, round trip", Contestant::InKernel, ROUND_TRIP, Limit::LessThanBridge),
    ("One box, TCP throughput", Contestant::OneBox, TCP, Limit::AtLeast(4.0)),
    ("One box, 64-octet frames", Contestant::OneBox, SMALL, Limit::AtLeast(4.0)),
    ("One box, CPU for a gigabit", Contestant::OneBox, COST, Limit::AtMost(0.5, "half")),
    ("One box, round trip", Contestant::OneBox, ROUND_TRIP, Limit::Less),
];

/// Names of the targets, in the order in which they are shown.
pub fn names() -> impl Iterator<Item = &'static str> {
    WANTED.iter().map(|(name, ..)| *name)
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
    let best = |figure: &str, limit: Limit| {
        let all = Contestant::ALL.into_iter().filter(|one| counts(*one));
        let all = all.filter_map(|one| value(figure, one));
        let better = |a: &(f64, _), b: &(f64, _)| a.0.total_cmp(&b.0);
        if limit.is_more() { all.max_by(better) } else { all.min_by(better) }
    };
    let verdict = |&(name, ours, figure, wanted): &Wanted| {
        let (ours, who) = value(figure, ours)?;
        let (theirs, beside) = match wanted.beside() {
            Some(one) => value(figure, one)?,
            None => best(figure, wanted)?,
        };
        let limit = wanted.value(theirs);
        let verdict = Comparison {
            figure: figure.into(),
            who: who.into(),
            beside: beside.into(),
            ours,
            theirs,
            less: !wanted.is_more(),
            ratio: ours / theirs,
            inverse: theirs / ours,
            limit,
            wanted: wanted.words(),
            met: if wanted.is_more() { ours >= limit } else { ours <= limit },
        };
        Some((name.into(), verdict))
    };
    WANTED.iter().filter_map(verdict).collect()
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
            ("round trip p50, Frameward, in the kernel", 30.0),
            ("round trip p50, Linux bridge, unprotected", 29.0),
            ("round trip p50, Frameward, one box over UDP", 80.0),
            ("round trip p50, fastd", 90.0),
        ];
        let figures =
            rows.map(|(case, value)| (case.to_owned(), Row::new(BENCH, case, value, "u", 1).into()));
        let verdicts = compare(&[(BENCH.to_owned(), figures.into())].into());
        let tcp = &verdicts["TCP throughput"];
        assert_eq!((tcp.beside.as_str(), tcp.ratio, tcp.limit, tcp.met), ("fastd", 3.3, 3000.0, true));
        let cpu = &verdicts["CPU for a gigabit"];
        assert_eq!((cpu.beside.as_str(), cpu.inverse, cpu.met), ("fastd", 2.5, false));
        assert_eq!((verdicts["Round trip"].limit, verdicts["Round trip"].met), (110.0, false));
        // In the kernel beside bridges, one box beside the best of the others.
        let trips = ["In the kernel, round trip", "One box, round trip"].map(|name| &verdicts[name]);
        assert_eq!(trips.map(|trip| (trip.limit, trip.met)), [(29.0, false), (90.0, true)]);
        // Of whom nothing passed, nothing can be said; nor without rivals.
        assert_eq!(verdicts.len(), 5, "{verdicts:?}");
        assert!(names().all(|name| !name.contains('/')));
        assert!(compare(&BTreeMap::new()).is_empty());
    }
}
