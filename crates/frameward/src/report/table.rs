//! The one table of all counters: their names, their names in metrics, what they mean, and which of them count discards.
//!
//! The rows stand where the counters are declared ([`wire::counters!`]). Text, JSON, metrics, the status page and
//! `status --watch` look them up here by name.

use engine::divide::DividerCounters;
use engine::path::PathCounters;
use engine::port::PortCounters;
use secy::{ReceiveSaCounters, SecYCounters, TransmitSaCounters};
use wire::Counter;

/// The one counter that nobody counts: it is a sum of others, so it is no discard of its own.
pub(crate) const OVERRUN: Counter = Counter {
    name: "InPktsOverrun",
    metric: "in_pkts_overrun",
    meaning: "Lost because the gateway was too slow: the sum of `RxKernelDropped`, `RxRingFull` and `RxNoChunk` of the protected port.",
    discard: false,
};

/// All rows, in the order of a report: ports first.
pub fn counters() -> impl Iterator<Item = &'static Counter> {
    let tables = [
        PortCounters::TABLE,
        SecYCounters::TABLE,
        &[OVERRUN],
        PathCounters::TABLE,
        DividerCounters::TABLE,
        TransmitSaCounters::TABLE,
        ReceiveSaCounters::TABLE,
    ];
    tables.into_iter().flatten()
}

/// The row of a counter, by its name in a report. None for what only another release counts.
pub fn counter(name: &str) -> Option<&'static Counter> {
    counters().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_is_used_twice() {
        let (mut names, mut metrics) = (BTreeSet::new(), BTreeSet::new());
        for row in counters() {
            assert!(names.insert(row.name) && metrics.insert(row.metric), "{}", row.name);
            assert_eq!(counter(row.name), Some(row));
        }
    }

    /// `InPktsNoSAError` is `in_pkts_no_sa_error`: letters and digits are the same, and nothing else is there.
    #[test]
    fn metrics_are_the_names_in_snake_case() {
        for row in counters() {
            let letters: String = row.metric.chars().filter(|c| *c != '_').collect();
            assert_eq!(letters, row.name.to_ascii_lowercase());
            assert!(row.metric.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", row.metric);
            assert!(row.meaning.ends_with('.') && !row.meaning.contains('\n'), "{}", row.meaning);
        }
    }
}
