//! A link's cell as metrics. Relations are what the configuration names: so are their labels.
//!
//! A histogram is 22 series, and a relation has three. Of a thousand relations they would be most of a scrape of 17 MB, for
//! figures that nobody looks at one by one. So a cell has histograms of all its relations together, each relation has its
//! p99.9 and its worst, and histograms of its own where there are at most [`HISTOGRAMS`].

use prometheus_client::metrics::MetricType;

use super::{Families, Labels};
use report::cell::{CellReport, HistogramReport, RelationReport};
use report::table::Group;

/// Relations of a cell, of which each has histograms of its own.
const HISTOGRAMS: usize = 64;

/// Help of the histograms.
const RESIDENCE: &str = "How long frames were inside the gateway";
const JITTER: &str = "How far the time between two verified frames was from the cycle";

impl Families {
    pub(super) fn cell(&mut self, of_link: &Labels, cell: &CellReport) {
        let mut of_cell: Labels = vec![("fieldbus", cell.name.clone())];
        // Without relations nobody has looked.
        if !cell.relations.is_empty() {
            self.verdict("fieldbus_verdict", &of_cell, &cell.verdict);
        }
        self.group(Group::Cell, &of_cell, &cell.counters);
        self.group(Group::Hello, &of_cell, &cell.hello);
        let count = |of: fn(&RelationReport) -> bool| {
            cell.relations.iter().filter(|relation| of(relation)).count() as u64
        };
        let help = "Whether frames are protected and verified in the kernel: /status says why not.";
        if let Some(in_kernel) = cell.in_kernel() {
            self.gauge("fieldbus_in_kernel", help, &of_cell, in_kernel.into());
        }
        self.gauge("fieldbus_relations", "Relations.", &of_cell, cell.relations.len() as u64);
        let help = "Relations in shadow mode, whose frames pass in clear.";
        self.gauge("fieldbus_relations_in_shadow", help, &of_cell, count(RelationReport::is_shadowed));
        let help = "Relations without a session with the other gateway.";
        self.gauge(
            "fieldbus_relations_without_session",
            help,
            &of_cell,
            count(|relation| !relation.has_session()),
        );
        let help = "Relations without a verified frame for longer than their watchdog.";
        self.gauge("fieldbus_relations_silent", help, &of_cell, count(RelationReport::is_silent));
        self.all_relations(&of_cell, cell);
        let own_histograms = cell.relations.len() <= HISTOGRAMS;
        for relation in &cell.relations {
            let RelationReport { own, sends, peer, receives, .. } = relation;
            let mut labels = of_cell.clone();
            let names = [("own", own), ("peer", peer), ("sends", sends), ("receives", receives)];
            labels.extend(names.map(|(name, value)| (name, value.clone())));
            self.relation(&labels, relation, &cell.bounds_ns);
            if own_histograms {
                self.histograms("fieldbus_relation", &labels, &Times::of(relation), &cell.bounds_ns);
            }
        }
        of_cell.extend(of_link.iter().cloned());
        let about = [("protect", &cell.protect), ("suite", &cell.suite), ("rest", &cell.rest)];
        of_cell.extend(about.map(|(name, value)| (name, value.clone())));
        self.info(
            "fieldbus",
            "The cell's link, how it protects frames, and how it treats other frames.",
            of_cell,
        );
    }

    fn relation(&mut self, labels: &Labels, relation: &RelationReport, bounds_ns: &[u64]) {
        let help = "Whether there is a session with the other gateway.";
        self.gauge("fieldbus_relation_session", help, labels, relation.has_session().into());
        let help = "Whether frames pass in clear: shadow mode.";
        self.gauge("fieldbus_relation_shadow", help, labels, relation.is_shadowed().into());
        let help = "The longest time between two verified frames, in nanoseconds.";
        self.gauge("fieldbus_relation_longest_gap_nanoseconds", help, labels, relation.worst_gap_ns);
        let help = "The configured time without a frame after which a station gives up, in nanoseconds.";
        self.gauge("fieldbus_relation_watchdog_nanoseconds", help, labels, relation.watchdog_ns);
        let Times { residence, jitter } = Times::of(relation);
        let mut tell = |of: &str, help: [&'static str; 2], labels: &Labels, times: &HistogramReport| {
            let [p99_9, worst] = help;
            let name = format!("fieldbus_relation_{of}_p99_9_nanoseconds");
            self.gauge(name, p99_9, labels, times.at_permille(999, bounds_ns));
            self.gauge(format!("fieldbus_relation_{of}_worst_nanoseconds"), worst, labels, times.worst_ns);
        };
        for (way, times) in residence {
            let mut labels = labels.clone();
            labels.push(("way", way.into()));
            let help = [
                "Longest time inside the gateway of 999 of 1000 frames since the start: the bound of a bucket.",
                "Longest time inside the gateway of a frame since the start.",
            ];
            tell("residence", help, &labels, &times);
        }
        let help = [
            "Largest deviation from the cycle of 999 of 1000 frames since the start: the bound of a bucket.",
            "Largest deviation from the cycle of a frame since the start.",
        ];
        tell("jitter", help, labels, &jitter);
        self.group(Group::RelationTransmit, labels, &relation.transmit);
        self.group(Group::RelationReceive, labels, &relation.receive);
    }

    /// The times of all relations together.
    fn all_relations(&mut self, of_cell: &Labels, cell: &CellReport) {
        let mut all = Times::default();
        cell.relations.iter().for_each(|relation| all.add(&Times::of(relation)));
        self.histograms("fieldbus", of_cell, &all, &cell.bounds_ns);
    }

    fn histograms(&mut self, object: &str, labels: &Labels, times: &Times, bounds_ns: &[u64]) {
        for (way, times) in &times.residence {
            let mut labels = labels.clone();
            labels.push(("way", (*way).into()));
            self.histogram(&format!("{object}_residence_seconds"), RESIDENCE, &labels, times, bounds_ns);
        }
        self.histogram(&format!("{object}_jitter_seconds"), JITTER, labels, &times.jitter, bounds_ns);
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &'static str,
        labels: &Labels,
        times: &HistogramReport,
        bounds_ns: &[u64],
    ) {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let bounds = bounds_ns.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        let value = super::Value::Histogram {
            sum: seconds(times.sum_ns),
            count: times.count,
            buckets: bounds.zip(times.buckets.iter().copied()).collect(),
        };
        self.add(name.into(), MetricType::Histogram, help, labels, value);
    }
}

/// Input of the histograms.
struct Times {
    residence: [(&'static str, HistogramReport); 2],
    jitter: HistogramReport,
}

impl Default for Times {
    fn default() -> Self {
        let nothing = HistogramReport::default;
        Self { residence: [("outward", nothing()), ("inward", nothing())], jitter: nothing() }
    }
}

impl Times {
    fn of(relation: &RelationReport) -> Self {
        let RelationReport { residence_outward, residence_inward, jitter, .. } = relation;
        let residence = [("outward", residence_outward.clone()), ("inward", residence_inward.clone())];
        Self { residence, jitter: jitter.clone() }
    }

    fn add(&mut self, other: &Self) {
        for ((_, own), (_, other)) in self.residence.iter_mut().zip(&other.residence) {
            own.add(other);
        }
        self.jitter.add(&other.jitter);
    }
}
