//! The report as metrics: OpenMetrics text, which Prometheus and its kin scrape.
//!
//! ```text
//! frameward_<object>_<counter>_total{link="press",sc="02:00:00:00:00:01/1",sa="0"}
//!            port: link, side, interface      receive_sc, transmit_sc: link, sc
//!            secy, mka: link                  receive_sa, transmit_sa: link, sc, sa
//!            site, site_path, site_uplink, site_channel: site (of _packets_waiting also: class; of a path's uplink also: uplink)
//!                site_lan: site, interface      site_udp: site, what, address
//!            site_peer, site_session: site, peer      (of site_peer_in_kernel also: way)
//!            fieldbus: fieldbus      fieldbus_relation, _transmit, _receive: fieldbus, own, peer, sends, receives
//!                                    (of residence also: way)
//! ```
//!
//! Counters come from the report alone, and their names and meanings from [`table`]: what is in the JSON is here, under
//! the same value. Labels are what the configuration names, so the number of series is bounded by it: no address and
//! no text of a frame becomes one.

mod cell;
mod mka;
mod site;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use report::{CountedReport, Counters, GatewayReport, LinkReport, PortReport, SaReport, Verdict, table};

/// The media type of [`metrics`].
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

/// Counters in the OpenMetrics text format, since each part began: clearing does not affect them.
pub(super) fn metrics(counted: Arc<CountedReport>) -> String {
    let mut registry = Registry::with_prefix("frameward");
    registry.register_collector(Box::new(Metrics(counted)));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("invariant: a string takes all that is written to it");
    out
}

#[derive(Debug)]
struct Metrics(Arc<CountedReport>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut families = Families::default();
        let report = &self.0.report;
        families.gateway(report);
        report.links.iter().for_each(|link| families.link(link));
        report.sites.iter().for_each(|site| families.site(site));
        families.0.iter().try_for_each(|(name, family)| family.encode(name, &mut encoder))
    }
}

/// All families by their names: the samples of one stand together, whatever links they are of.
#[derive(Default)]
struct Families(BTreeMap<String, Family>);

struct Family {
    kind: MetricType,
    help: &'static str,
    samples: Vec<(Labels, Value)>,
}

/// Value of a sample.
enum Value {
    Number(u64),
    /// Each bucket with its upper bound; how many lie in it alone.
    Histogram {
        sum: f64,
        count: u64,
        buckets: Vec<(f64, u64)>,
    },
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl Family {
    fn encode(&self, name: &str, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, self.help, None, self.kind)?;
        for (labels, value) in &self.samples {
            let value = match value {
                Value::Number(value) => value,
                Value::Histogram { sum, count, buckets } => {
                    metric.encode_family(labels)?.encode_histogram::<Labels>(*sum, *count, buckets, None)?;
                    continue;
                }
            };
            match self.kind {
                MetricType::Info => metric.encode_info(labels)?,
                MetricType::Counter => {
                    metric.encode_family(labels)?.encode_counter::<Labels, _, f64>(value, None)?
                }
                // Without labels there are no braces.
                _ if labels.is_empty() => metric.encode_gauge(value)?,
                _ => metric.encode_family(labels)?.encode_gauge(value)?,
            }
        }
        Ok(())
    }
}

impl Families {
    fn add(
        &mut self,
        name: String,
        kind: MetricType,
        help: &'static str,
        labels: &Labels,
        value: impl Into<Value>,
    ) {
        let family = self.0.entry(name).or_insert_with(|| Family { kind, help, samples: Vec::new() });
        family.samples.push((labels.clone(), value.into()));
    }

    fn gauge(&mut self, name: impl Into<String>, help: &'static str, labels: &Labels, value: u64) {
        self.add(name.into(), MetricType::Gauge, help, labels, value);
    }

    fn info(&mut self, name: &str, help: &'static str, labels: Labels) {
        self.add(name.into(), MetricType::Info, help, &labels, 1_u64);
    }

    fn counters(&mut self, object: &str, labels: &Labels, counters: &Counters) {
        for (name, value) in counters.iter() {
            let row = table::counter(name).expect("invariant: a report's counters stand in the table");
            self.add(format!("{object}_{}", row.metric), MetricType::Counter, row.meaning, labels, value);
        }
    }

    fn gateway(&mut self, report: &GatewayReport) {
        let GatewayReport { name, version, uptime_seconds, .. } = report;
        let labels = vec![("gateway", name.clone()), ("version", version.clone())];
        self.info("build", "The gateway and the release that it runs.", labels);
        self.gauge("uptime_seconds", "Seconds since the start.", &Labels::new(), *uptime_seconds);
    }

    fn link(&mut self, link: &LinkReport) {
        let of_link = vec![("link", link.name.clone())];
        let help = "Whether frames pass and are protected, as verified lately: if 0, they leave in clear, or not at all, or no valid frame comes of a peer that sends or should answer.";
        self.gauge("link_protecting", help, &of_link, link.verdict.protecting.into());
        self.verdict("link_verdict", &of_link, &link.verdict);
        if let Some(seconds) = link.last_valid_seconds {
            self.gauge("link_last_valid_seconds", "Seconds since the last valid frame.", &of_link, seconds);
        }
        let help = "Number of concerns: /status has their texts.";
        self.gauge("link_concerns", help, &of_link, link.concerns.len() as u64);
        self.port(&of_link, "plain", &link.plain);
        self.port(&of_link, "protected", &link.protected);
        if let Some(cell) = &link.fieldbus {
            self.cell(&of_link, cell);
        }
        if !link.has_secy() {
            return;
        }
        let secy = &link.secy;
        let help = "Whether frames are protected and verified in the kernel: /status says why not.";
        if let Some(path) = &secy.path {
            self.gauge("link_in_kernel", help, &of_link, (path == "kernel").into());
        }
        let with = |labels: &Labels, more: &[(&'static str, &str)]| -> Labels {
            labels
                .iter()
                .cloned()
                .chain(more.iter().map(|(name, value)| (*name, (*value).to_owned())))
                .collect()
        };
        let about = [("suite", secy.suite.as_str()), ("validate_frames", &secy.validate_frames)];
        self.info(
            "secy",
            "The SecY: its suite, and how it treats frames that cannot be verified.",
            with(&of_link, &about),
        );
        let help = "Whether frames are protected: if 0, they leave in clear.";
        self.gauge("secy_protect_frames", help, &of_link, secy.protect_frames.into());
        let help = "Whether late and duplicate frames are discarded.";
        self.gauge("secy_replay_protect", help, &of_link, secy.replay_protect.into());
        self.gauge(
            "secy_replay_window",
            "PNs by which a frame may be late.",
            &of_link,
            secy.replay_window.into(),
        );
        self.counters("secy", &of_link, &secy.counters);
        if let Some(mka) = &link.mka {
            self.mka(&of_link, mka);
        }
        for sc in secy.transmit_scs() {
            let of_sc = with(&of_link, &[("sc", &sc.sci)]);
            self.counters("transmit_sc", &of_sc, &sc.counters);
            for sa in &sc.sas {
                self.sa("transmit_sa", &with(&of_sc, &[("sa", &sa.an.to_string())]), sa);
            }
        }
        for sc in &secy.receive {
            let of_sc = with(&of_link, &[("sc", &sc.sci)]);
            self.counters("receive_sc", &of_sc, &sc.counters);
            for sa in &sc.sas {
                self.sa("receive_sa", &with(&of_sc, &[("sa", &sa.an.to_string())]), sa);
            }
        }
    }

    /// One series: its state is a label, and how much to mind is the value.
    fn verdict(&mut self, name: &str, labels: &Labels, verdict: &Verdict) {
        let mut labels = labels.clone();
        labels.push(("state", verdict.state.clone()));
        let help = "The state and its level: 0 good, 1 idle, 2 attention, 3 not protecting.";
        self.gauge(name, help, &labels, verdict.level as u64);
    }

    fn port(&mut self, of_link: &Labels, side: &str, port: &PortReport) {
        let mut labels = of_link.clone();
        labels.extend([("side", side.to_owned()), ("interface", port.interface.clone())]);
        let help = "The MTU, in octets behind destination, source and EtherType.";
        self.gauge("port_mtu_octets", help, &labels, port.mtu.into());
        if !port.guard.is_empty() {
            let help = "Whether the box's own stack is kept off the interface.";
            self.gauge("port_guarded", help, &labels, (port.guard != "none").into());
        }
        self.counters("port", &labels, &port.counters);
        labels.push(("engine", port.engine.clone()));
        self.info("port", "What moves the port's frames", labels);
    }

    fn sa(&mut self, object: &str, labels: &Labels, sa: &SaReport) {
        self.gauge(format!("{object}_in_use"), "Whether the SA is used.", labels, sa.in_use.into());
        if let Some(pn) = sa.next_pn {
            self.gauge(format!("{object}_next_pn"), "The PN of the next frame.", labels, pn);
        }
        if let Some(left) = sa.pns_left {
            let help = "PNs left before the key has to be changed.";
            self.gauge(format!("{object}_pns_left"), help, labels, left);
        }
        if let Some(seconds) = sa.pns_last_seconds {
            let help = "Seconds until no PN is left, at the mean rate since the SA began.";
            self.gauge(format!("{object}_pns_last_seconds"), help, labels, seconds);
        }
        if let Some(pn) = sa.lowest_pn {
            self.gauge(format!("{object}_lowest_pn"), "The lowest PN that is not late.", labels, pn);
        }
        self.counters(object, labels, &sa.counters);
    }
}

#[cfg(test)]
mod tests;
