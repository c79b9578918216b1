//! Cleared counters: a report shows what was counted since somebody cleared it.
//!
//! Nothing is cleared where it is counted. A worker's counters decide verdicts, and metrics must only rise; so a gateway
//! keeps what a report said at that moment, and takes it off those that it shows afterwards. What began anew since (an
//! interface that was opened again, an SA with another key) counts from 0, and nothing is taken off.
//!
//! Counters and histograms are cleared. Longest times, packet numbers and verdicts are not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cell::{HistogramReport, RelationReport};
use super::site::SiteReport;
use super::{Counters, GatewayReport, LinkReport, SaReport};

/// A place in a report where something is counted.
enum Figures<'r> {
    Counters(&'r mut Counters),
    Histogram(&'r mut HistogramReport),
}

/// Counters of a gateway, and since when they are shown.
#[derive(Clone, Debug)]
pub struct CountedReport {
    /// Since each part began.
    pub report: GatewayReport,
    /// Counters at the moment when somebody cleared them.
    pub baseline: Option<Arc<Baseline>>,
}

impl From<GatewayReport> for CountedReport {
    fn from(report: GatewayReport) -> Self {
        Self { report, baseline: None }
    }
}

impl CountedReport {
    /// As `status` shows it.
    pub fn shown(&self) -> Cow<'_, GatewayReport> {
        let Some(baseline) = &self.baseline else { return Cow::Borrowed(&self.report) };
        let mut report = self.report.clone();
        baseline.take_off(&mut report);
        Cow::Owned(report)
    }
}

/// Counters of one moment, by their place.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Baseline {
    uptime_ms: u64,
    counters: BTreeMap<String, Counters>,
    histograms: BTreeMap<String, HistogramReport>,
}

impl Baseline {
    /// All that this report says.
    pub fn of(mut report: GatewayReport) -> Self {
        let mut baseline = Self { uptime_ms: report.uptime_ms, ..Self::default() };
        each(&mut report, &mut |place, figures| match figures {
            Figures::Counters(counters) => {
                baseline.counters.insert(place, std::mem::take(counters));
            }
            Figures::Histogram(histogram) => {
                baseline.histograms.insert(place, std::mem::take(histogram));
            }
        });
        baseline
    }

    /// Forgets what is less by now, and so began anew. Returns whether there was something.
    pub fn forget_renewed(&mut self, links: &mut [LinkReport], sites: &mut [SiteReport]) -> bool {
        let before = self.counters.len() + self.histograms.len();
        each_of(links, sites, &mut |place, figures| match figures {
            Figures::Counters(now) => {
                if self.counters.get(&place).is_some_and(|then| now.since(then).is_none()) {
                    self.counters.remove(&place);
                }
            }
            Figures::Histogram(now) => {
                if self.histograms.get(&place).is_some_and(|then| now.count < then.count) {
                    self.histograms.remove(&place);
                }
            }
        });
        before != self.counters.len() + self.histograms.len()
    }

    fn take_off(&self, report: &mut GatewayReport) {
        report.cleared_seconds = Some(report.uptime_ms.saturating_sub(self.uptime_ms) / 1000);
        each(report, &mut |place, figures| match figures {
            Figures::Counters(now) => {
                if let Some(since) = self.counters.get(&place).and_then(|then| now.since(then)) {
                    *now = since;
                }
            }
            Figures::Histogram(now) => {
                if let Some(then) = self.histograms.get(&place)
                    && now.count >= then.count
                {
                    now.take_off(then);
                }
            }
        });
    }
}

type Visit<'v> = &'v mut dyn FnMut(String, Figures<'_>);

fn each(report: &mut GatewayReport, visit: Visit<'_>) {
    each_of(&mut report.links, &mut report.sites, visit);
}

fn each_of(links: &mut [LinkReport], sites: &mut [SiteReport], visit: Visit<'_>) {
    links.iter_mut().for_each(|link| of_link(link, visit));
    sites.iter_mut().for_each(|site| of_site(site, visit));
}

fn of_link(link: &mut LinkReport, visit: Visit<'_>) {
    let name = format!("link {}", link.name);
    let secy = &mut link.secy;
    let mut counters = vec![
        (format!("plain {}", link.plain.interface), &mut link.plain.counters),
        (format!("protected {}", link.protected.interface), &mut link.protected.counters),
        ("SecY".to_owned(), &mut secy.counters),
    ];
    let of_sa = |sc: &str, sa: &SaReport| format!("{sc} SA {} {}", sa.an, sa.key);
    for sc in std::iter::once(&mut secy.transmit).chain(&mut secy.express) {
        let place = format!("transmit {}", sc.sci);
        counters.extend(sc.sas.iter_mut().map(|sa| (of_sa(&place, sa), &mut sa.counters)));
        counters.push((place, &mut sc.counters));
    }
    for sc in &mut secy.receive {
        let place = format!("receive {}", sc.sci);
        counters.extend(sc.sas.iter_mut().map(|sa| (of_sa(&place, sa), &mut sa.counters)));
        counters.push((place, &mut sc.counters));
    }
    counters.extend(link.mka.iter_mut().map(|mka| ("MKA".to_owned(), &mut mka.counters)));
    for (place, counters) in counters {
        visit(format!("{name} {place}"), Figures::Counters(counters));
    }
    // Without relations nobody asked for its figures.
    let Some(cell) = link.fieldbus.as_mut().filter(|cell| !cell.relations.is_empty()) else { return };
    visit(format!("{name} cell"), Figures::Counters(&mut cell.counters));
    visit(format!("{name} handshakes"), Figures::Counters(&mut cell.hello));
    for relation in &mut cell.relations {
        let RelationReport { own, peer, transmit, receive, .. } = relation;
        let place = format!("{name} relation {own} {} {peer} {}", relation.sends, relation.receives);
        visit(format!("{place} transmit"), Figures::Counters(transmit));
        visit(format!("{place} receive"), Figures::Counters(receive));
        visit(format!("{place} outward"), Figures::Histogram(&mut relation.residence_outward));
        visit(format!("{place} inward"), Figures::Histogram(&mut relation.residence_inward));
        visit(format!("{place} jitter"), Figures::Histogram(&mut relation.jitter));
    }
}

fn of_site(site: &mut SiteReport, visit: Visit<'_>) {
    let mut counters = vec![
        ("LAN".to_owned(), &mut site.lan.counters),
        ("path".to_owned(), &mut site.path),
        ("tunnel".to_owned(), &mut site.tunnel),
    ];
    let udp = |what: &str, address: &str| format!("UDP {what} {address}");
    counters.extend(site.udp.iter_mut().map(|port| (udp(&port.what, &port.address), &mut port.counters)));
    counters.extend(site.uplink.iter_mut().map(|uplink| ("uplink".to_owned(), &mut uplink.counters)));
    for uplink in &mut site.path_uplinks {
        counters.push((format!("uplink {}", uplink.name), &mut uplink.figures.counters));
    }
    counters.extend(site.channel.iter_mut().map(|channel| ("channel".to_owned(), channel)));
    for peer in &mut site.peers {
        let name = &peer.name;
        counters.push((format!("peer {name}"), &mut peer.counters));
        counters.extend(peer.session.iter_mut().map(|session| (format!("session {name}"), session)));
    }
    for (place, counters) in counters {
        visit(format!("site {} {place}", site.name), Figures::Counters(counters));
    }
}

#[cfg(test)]
mod tests;
