//! A link's cell as metrics. Relations are what the configuration names: so are their labels.

use prometheus_client::metrics::MetricType;

use super::{Families, Labels};
use crate::report::cell::{CellReport, HistogramReport, RelationReport};
use crate::report::table::Group;

impl Families {
    pub(super) fn cell(&mut self, of_link: &Labels, cell: &CellReport) {
        let mut of_cell: Labels = vec![("fieldbus", cell.name.clone())];
        self.group(Group::Cell, &of_cell, &cell.counters);
        self.group(Group::Hello, &of_cell, &cell.hello);
        let count = |of: fn(&RelationReport) -> bool| {
            cell.relations.iter().filter(|relation| of(relation)).count() as u64
        };
        self.gauge("fieldbus_relations", "Relations.", &of_cell, cell.relations.len() as u64);
        let help = "Relations whose frames pass in clear, for they are in shadow mode.";
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
        for relation in &cell.relations {
            let RelationReport { own, sends, peer, receives, .. } = relation;
            let mut labels = of_cell.clone();
            let names = [("own", own), ("peer", peer), ("sends", sends), ("receives", receives)];
            labels.extend(names.map(|(name, value)| (name, value.clone())));
            self.relation(&labels, relation, &cell.bounds_ns);
        }
        of_cell.extend(of_link.iter().cloned());
        let about = [("protect", &cell.protect), ("suite", &cell.suite), ("rest", &cell.rest)];
        of_cell.extend(about.map(|(name, value)| (name, value.clone())));
        self.info(
            "fieldbus",
            "The link that the cell is a part of, how it protects, and what becomes of other frames.",
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
        let help =
            "The time without a frame after which a station gives up, as it is configured, in nanoseconds.";
        self.gauge("fieldbus_relation_watchdog_nanoseconds", help, labels, relation.watchdog_ns);
        for (way, times) in [("outward", &relation.residence_outward), ("inward", &relation.residence_inward)]
        {
            let mut labels = labels.clone();
            labels.push(("way", way.into()));
            let help = "How long frames were inside the gateway.";
            self.histogram("fieldbus_relation_residence_seconds", help, &labels, times, bounds_ns);
        }
        let help = "How far the time between two verified frames was from the cycle.";
        self.histogram("fieldbus_relation_jitter_seconds", help, labels, &relation.jitter, bounds_ns);
        self.group(Group::RelationTransmit, labels, &relation.transmit);
        self.group(Group::RelationReceive, labels, &relation.receive);
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
