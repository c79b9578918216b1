//! A gateway that runs is not disturbed: it is asked for its counters, and these are read.

use std::path::Path;

use pnstore::LeaseStore;

use super::Finding;
use config::{Config, Link};
use report::link_verdict::fill_checksums;
use report::verdict::{Level, State, Verdict};
use report::{Counters, GatewayReport, LinkReport};

/// Whether a gateway of this configuration runs.
#[derive(Debug)]
pub(super) enum Running {
    /// None does.
    No,
    /// One does, and answers.
    Yes(Box<GatewayReport>),
    /// One has the state directory, and does not answer.
    Silent,
}

/// By the control socket of its name, or else by the lock on its state directory.
pub(super) fn find(config: &Config, runtime_dir: &Path) -> Running {
    let name = &config.gateway.name;
    let report = report::ask(runtime_dir, name).and_then(|document| report::parse(name, &document));
    match report {
        Ok(report) => Running::Yes(Box::new(report)),
        // A lock that cannot be opened is reported with the state directory.
        Err(_) if LeaseStore::is_held(&config.gateway.state).unwrap_or(false) => Running::Silent,
        Err(_) => Running::No,
    }
}

const UNDISTURBED: &str = "not tested: the gateway runs, and doctor does not disturb it; to test the path, stop the gateways at both ends and run doctor there";

/// The frames that a receive SC's counters have: an SC begins anew when its peer comes back.
const PRESENT: &str = "of the peers that are there, since each came or counters were cleared";

/// Findings from the counters of a running link.
pub(super) fn of_link(link: &Link, running: &Running) -> Vec<Finding> {
    let mut findings = vec![Finding::note("path", UNDISTURBED)];
    let Running::Yes(report) = running else { return findings };
    let since = if report.cleared_seconds.is_some() { "since they were cleared" } else { "since the start" };
    let Some(report) = report.links.iter().find(|report| report.name == link.name) else {
        findings.push(Finding::note(
            "counters",
            "the running gateway has no link of this name; restart it to load the configuration",
        ));
        return findings;
    };
    findings.extend(of_counters(report, since));
    findings
}

fn of_counters(link: &LinkReport, since: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let unfilled = value(&link.plain.counters, "RxChecksumsUnfilled");
    if link.verdict.state == State::UnfilledChecksums.word() {
        findings.push(Finding::problem("checksums", link.verdict.text.as_str()));
    } else if unfilled > 0 {
        let cure = fill_checksums(&link.plain.interface, None);
        let text =
            format!("RxChecksumsUnfilled {unfilled} since the start: if ping works and TCP does not, {cure}");
        findings.push(Finding::note("checksums", text));
    }
    if link.verdict.state != State::UnfilledChecksums.word() {
        findings.extend(of_verdict(&link.verdict));
    }
    let secy = &link.secy;
    // Counters of a receive SC go with it, when its peer leaves.
    let of_peers = |name: &str| secy.receive.iter().map(|sc| value(&sc.counters, name)).sum::<u64>();
    let received = |name: &str| of_peers(name) + value(&secy.counters, name);
    let ok = received("InPktsOK");
    let sent = value(&secy.transmit.counters, "OutPktsEncrypted")
        + value(&secy.transmit.counters, "OutPktsProtected");
    let rows: [(&str, &str); 9] = [
        (
            "InPktsNotValid",
            "frames of a peer do not fit its key: compare the fingerprints of `own SA` there and `peer SA` here in check",
        ),
        (
            "InPktsNoSAError",
            "frames come with an SCI or AN that is not configured: compare sci and an at both ends",
        ),
        (
            "InPktsNoTag",
            "somebody on the network sends frames in clear to this port: find out who, and give the port a VLAN of its own",
        ),
        ("InPktsLate", "frames arrive behind later ones: set replay_window, or find what reorders them"),
        ("InPktsBadTag", "frames have a malformed SecTAG: set fragment and concatenate alike at both ends"),
        (
            "InPktsClearVlan",
            "the network adds a VLAN tag in front: make its port untagged, or set clear_vlan = \"strip\"",
        ),
        ("InPiecesLost", "fragments are lost on the path: stop the gateways, and test it with doctor"),
        (
            "OutPktsTooLong",
            "a machine sends payloads that are too long: raise the protected side's MTU, or set fragment = \"on\" at both ends",
        ),
        ("InPktsUnchecked", "frames could not be checked: set validate_frames = \"strict\""),
    ];
    for (name, meaning) in rows {
        let count =
            received(name) + if name.starts_with("Out") { value(&secy.transmit.counters, name) } else { 0 };
        if count > 0 {
            let since = if of_peers(name) > 0 { PRESENT } else { since };
            findings.push(Finding::note("counters", format!("{name} {count} {since}: {meaning}")));
        }
    }
    let summary = format!("{since}: {sent} frames sent protected; {PRESENT}: {ok} received and verified");
    findings.push(match (ok, received("InPktsNotValid") + received("InPktsNoSAError")) {
        (0, 1..) => Finding::problem("counters", format!("{summary}: every frame from a peer was discarded; see above")),
        (0, 0) if sent > 0 => Finding::note(
            "counters",
            format!("{summary}: nothing comes back; if the peer's machine should be sending, check the cable and the peer"),
        ),
        _ => Finding::ok("counters", summary),
    });
    findings
}

/// An alarm of a link or site that runs. Whatever its counters say, nothing is fine then.
pub(super) fn of_verdict(verdict: &Verdict) -> Option<Finding> {
    (verdict.level == Level::Alarm).then(|| Finding::problem("verdict", verdict.text.as_str()))
}

fn value(counters: &Counters, name: &str) -> u64 {
    counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
}

#[cfg(test)]
mod tests;
