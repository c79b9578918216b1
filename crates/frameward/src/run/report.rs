//! From a link's snapshot to its report: names put to figures.

mod cell;
mod mka;
mod site;

use std::collections::BTreeMap;
use std::time::Instant;

use control::{CellStatus, Gateway as Control, KeyAgreementStatus};
use dataplane::fragmenter::FragmenterCounters;
use dataplane::pipeline::PipelineCounters;
use dataplane::snapshot::{LinkSnapshot, ReceiveScSnapshot, TransmitScSnapshot};
use netdev::port::PortCounters;
use secy::{ReceiveSaCounters, SecYCounters, TransmitSaCounters, UnmatchedFrame};
use suite::CipherSuite;
use wire::{An, Pn};

pub(super) use cell::cell_report;

use super::Running;

use super::link::{About, RunningLink, place_words};
use config::key_file::fingerprint;
use config::{Link, Named as _, StaticSas};
use report::mka::Requested;
use report::site::SiteReport;
use report::table::OVERRUN;
use report::{
    CountedReport, Counters, GatewayReport, LinkReport, PortReport, ReceiveScReport, SaReport, SecYReport,
    StrangerReport, TransmitScReport, Verdict, WaitingReport,
};

/// The report of a gateway that has no figures yet, or no more.
pub(super) fn without_links(name: &str) -> GatewayReport {
    GatewayReport {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").into(),
        configuration: None,
        uptime_seconds: 0,
        privileges: None,
        suite_speeds: None,
        antedating: None,
        uptime_ms: 0,
        cleared_seconds: None,
        reload: None,
        reload_waits: None,
        upgrade: None,
        fleet: None,
        links: Vec::new(),
        sites: Vec::new(),
    }
}

impl Running {
    /// The gateway at this moment.
    pub(super) fn report(&mut self) -> CountedReport {
        let any_cell = self.links.iter().any(|link| link.config.cell.is_some());
        let cells = if any_cell { self.control.cell_statuses() } else { Vec::new() };
        let now = self.started.elapsed();
        let (mut links, mut sites) = (self.link_reports(&cells), self.site_reports());
        for link in &mut links {
            self.verdicts.of_link(now, link, &self.links, &self.control);
        }
        for (site, _) in &mut sites {
            self.verdicts.of_site(now, site);
        }
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        let report = GatewayReport {
            configuration: Some(file.display().to_string()),
            privileges: Some(self.privileges.clone()),
            suite_speeds: Some(self.measured.speeds.clone()),
            antedating: Some(self.measured.antedating.clone()),
            uptime_seconds: now.as_secs(),
            uptime_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            reload: self.reloaded.clone(),
            reload_waits: self.reload_waits(),
            upgrade: self.upgraded.clone(),
            fleet: self.fleet.as_ref().map(|fleet| fleet.seen.report()),
            links,
            sites: sites.into_iter().map(|(site, _)| site).collect(),
            ..without_links(&self.gateway.name)
        };
        CountedReport { report, baseline: self.baseline.clone() }
    }

    /// The links at this moment, without verdicts.
    pub(super) fn link_reports(&mut self, cells: &[(String, CellStatus)]) -> Vec<LinkReport> {
        let snapshots = self.control.snapshots();
        let control = &self.control;
        let mut snapshots: BTreeMap<String, LinkSnapshot> = snapshots.into_iter().collect();
        let reports = self.links.iter_mut().map(|running| {
            let of_link = snapshots.remove(&running.config.name);
            let unread = of_link.is_none() && running.is_seated;
            if let Some(of_link) = of_link {
                running.snapshot = of_link;
            }
            let RunningLink { config, about, snapshot, .. } = &*running;
            let agreement = control.key_agreement_status(&config.name);
            let secy = secy_report(config, about, snapshot, agreement.as_ref());
            let agreed = config.mka().zip(agreement.as_ref());
            let status = cells.iter().find(|(link, _)| *link == config.name).map(|(_, status)| status);
            let mut report = link_report(config, about, snapshot, secy);
            let [plain, protected] = running.guards().map(str::to_owned);
            (report.plain.guard, report.protected.guard) = (plain, protected);
            let place = control.link_place(&config.name).filter(|_| config.has_secy() && running.is_seated);
            report.secy.path = place.as_ref().map(place_words);
            LinkReport {
                waiting: waiting(running),
                unread,
                mka: agreed.map(|(how, now)| mka::report(config, how, now)),
                fieldbus: config.cell.as_ref().map(|cell| cell_report(cell, status)),
                ..report
            }
        });
        reports.collect()
    }

    /// The sites at this moment, without verdicts, and whether their figures are known.
    pub(super) fn site_reports(&mut self) -> Vec<(SiteReport, bool)> {
        site::reports(&mut self.control, &mut self.sites)
    }
}

/// Requests of the configuration to a link's key agreement, and the state of its fault.
pub(super) fn requested(link: &RunningLink, control: &Control) -> Option<Requested> {
    let mka = link.config.mka()?;
    let agreement = control.key_agreement_status(&link.config.name)?;
    Some(mka::requested(&link.config, mka, &agreement))
}

/// The missing part of a link that waits: ports, or a carrier.
fn waiting(link: &RunningLink) -> Option<WaitingReport> {
    let cut = link.loss.held().is_some();
    let report = |since: Instant, why| Some(WaitingReport { seconds: since.elapsed().as_secs(), why, cut });
    match &link.waiting {
        Some(waiting) => report(waiting.since, waiting.why.clone()),
        None => report(link.loss.held_since(), link.why_held()?),
    }
}

fn link_report(link: &Link, about: &About, snapshot: &LinkSnapshot, secy: SecYReport) -> LinkReport {
    let port = |interface: &str, engine: &str, mtu: usize, counters: &PortCounters| PortReport {
        interface: interface.into(),
        engine: engine.into(),
        mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
        guard: String::new(),
        counters: Counters::new(PortCounters::NAMES, counters.values()),
    };
    LinkReport {
        name: link.name.clone(),
        verdict: Verdict::default(),
        last_valid_seconds: None,
        concerns: Vec::new(),
        waiting: None,
        unread: false,
        plain: port(&link.plain, &about.plain_engine, about.mtus.plain, &snapshot.plain),
        protected: port(&link.protected, &about.protected_engine, about.mtus.protected, &snapshot.protected),
        secy,
        mka: None,
        fieldbus: None,
    }
}

/// The agreed parts are not in the configuration: the suite, and the names of keys.
type Agreement<'a> = Option<&'a KeyAgreementStatus>;

fn secy_report(link: &Link, about: &About, snapshot: &LinkSnapshot, agreement: Agreement<'_>) -> SecYReport {
    let suite = agreement.and_then(mka::transmitting).map(|sak| sak.suite).or_else(|| link.suite());
    let unnamed = if link.has_secy() { "auto" } else { "none" };
    let secy = Counters::new(SecYCounters::NAMES, snapshot.secy.values());
    let pipeline = Counters::new(PipelineCounters::NAMES, snapshot.pipeline.values());
    let fragmenter = Counters::new(FragmenterCounters::NAMES, snapshot.fragmenter.values());
    // The standard counts here what a receiver that is too slow loses; our ports see it happen.
    let lost = &snapshot.protected;
    let overrun = (OVERRUN.name.into(), lost.rx_kernel_dropped + lost.rx_ring_full + lost.rx_no_chunk);
    let named = |(name, value): (&str, u64)| (name.to_owned().into(), value);
    SecYReport {
        suite: suite.map_or(unnamed, CipherSuite::name).into(),
        protect_frames: link.protect_frames,
        validate_frames: link.validate_frames.name().into(),
        replay_protect: link.replay_protect,
        replay_window: link.replay_window,
        path: None,
        counters: secy
            .iter()
            .map(named)
            .chain([overrun])
            .chain(pipeline.iter().chain(fragmenter.iter()).map(named))
            .collect(),
        stranger: snapshot.stranger.map(stranger_report),
        passed: snapshot.passed.map(stranger_report),
        transmit: transmit_report(link, about, snapshot, agreement),
        express: snapshot.express.as_ref().map(|sc| express_report(link, sc, agreement)),
        receive: snapshot.receive_scs.iter().map(|sc| receive_report(link, sc, agreement)).collect(),
    }
}

fn stranger_report(frame: UnmatchedFrame) -> StrangerReport {
    StrangerReport { sci: frame.sci.map(|sci| sci.to_string()), an: frame.an.number() }
}

/// The name of the SAK with this AN: its KI.
fn ki(agreement: Agreement<'_>, an: An) -> Option<String> {
    Some(agreement?.status.saks.iter().find(|sak| sak.an == an)?.ki.to_string())
}

fn transmit_report(
    link: &Link,
    about: &About,
    snapshot: &LinkSnapshot,
    agreement: Agreement<'_>,
) -> TransmitScReport {
    // An agreed SAK is replaced before its PNs are used up.
    let configured = link.static_sas();
    let sas = snapshot.transmit_sas.iter().map(|sa| {
        let pns_left = configured.and_then(|sas| pns_left(sas.suite, sa.next_pn));
        let key = configured.map(|sas| fingerprint(sas.transmit.key.octets()));
        SaReport {
            an: sa.an.number(),
            in_use: sa.enabled,
            key: key.or_else(|| ki(agreement, sa.an)).unwrap_or_default(),
            next_pn: sa.next_pn.map(Pn::number),
            pns_left,
            pns_last_seconds: pns_left.and_then(|left| seconds(about, sa.next_pn, left)),
            lowest_pn: None,
            counters: Counters::new(TransmitSaCounters::NAMES, sa.counters.values()),
        }
    });
    TransmitScReport {
        sci: about.sci.to_string(),
        counters: Counters::new(TransmitSaCounters::NAMES, snapshot.transmit.values()),
        sas: sas.collect(),
    }
}

/// The express SC, whose keys are derived from those of the other SCs.
fn express_report(link: &Link, sc: &TransmitScSnapshot, agreement: Agreement<'_>) -> TransmitScReport {
    let configured = link.express_sas();
    let fingerprint_of = |sas: &StaticSas| fingerprint(sas.transmit.key.octets());
    let sas = sc.sas.iter().map(|sa| SaReport {
        an: sa.an.number(),
        in_use: sa.enabled,
        key: configured.as_ref().map(fingerprint_of).or_else(|| ki(agreement, sa.an)).unwrap_or_default(),
        next_pn: sa.next_pn.map(Pn::number),
        pns_left: configured.as_ref().and_then(|sas| pns_left(sas.suite, sa.next_pn)),
        pns_last_seconds: None,
        lowest_pn: None,
        counters: Counters::new(TransmitSaCounters::NAMES, sa.counters.values()),
    });
    TransmitScReport {
        sci: sc.sci.to_string(),
        counters: Counters::new(TransmitSaCounters::NAMES, sc.counters.values()),
        sas: sas.collect(),
    }
}

/// PNs that are left under a key, if they are few enough to count.
fn pns_left(suite: CipherSuite, next: Option<Pn>) -> Option<u64> {
    let left = next.map_or(0, |next| suite.last_pn().number() - next.number() + 1);
    (!suite.is_xpn()).then_some(left)
}

/// Seconds that they last at the mean rate since the SA began.
fn seconds(about: &About, next: Option<Pn>, left: u64) -> Option<u64> {
    let (began, first) = about.began;
    let used = next.map_or(0, |next| next.number().saturating_sub(first.number()));
    let milliseconds = u64::try_from(began.elapsed().as_millis()).ok()?;
    // 2^32 PNs by so many milliseconds: 136 years before it overflows.
    left.checked_mul(milliseconds)?.checked_div(used).map(|milliseconds| milliseconds / 1000)
}

fn receive_report(link: &Link, sc: &ReceiveScSnapshot, agreement: Agreement<'_>) -> ReceiveScReport {
    let express = link.express_sas();
    let key = |an| {
        let Some(sas) = link.static_sas() else { return ki(agreement, an) };
        let mut all = sas.receive.iter().chain(express.iter().flat_map(|sas| &sas.receive));
        all.find(|sa| (sa.sci, sa.an) == (sc.sci, an)).map(|sa| fingerprint(sa.key.octets()))
    };
    let sas = sc.sas.iter().map(|sa| SaReport {
        an: sa.an.number(),
        in_use: sa.in_use,
        key: key(sa.an).unwrap_or_default(),
        next_pn: None,
        pns_left: None,
        pns_last_seconds: None,
        lowest_pn: Some(sa.lowest_pn),
        counters: Counters::new(ReceiveSaCounters::NAMES, sa.counters.values()),
    });
    ReceiveScReport {
        sci: sc.sci.to_string(),
        counters: Counters::new(ReceiveSaCounters::NAMES, sc.counters.values()),
        sas: sas.collect(),
    }
}
