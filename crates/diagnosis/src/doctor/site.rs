//! A site: its LAN's interface, its sockets, and whether its peers answer.
//!
//! If no gateway runs, doctor takes the site's place on the UDP side for a few seconds, with its identity and without
//! its LAN: a handshake with each peer, and what the path carries. The peers meet an instance of the site that they did
//! not know, as after any start; what they send to it meanwhile is dropped. A gateway that runs is asked instead.

mod ask;
mod silence;
mod way;

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use netdev::interface::InterfaceInfo;
use serde::Serialize;
use tunnel::Mode;

use self::ask::{PATIENCE, ask};
use super::running::Running;
use super::{Finding, Level, Options, local};
use config::check::site::{IpVersion, Sums, lan_mtu, not_carried, path_payload};
use config::site::Endpoint;
use config::{Config, Site, SitePeer};
use report::site::{RoundTripsReport, SitePathReport, SitePeerReport, SiteReport as Report};

/// Silent peers whose ways are probed at most: each costs some seconds.
const PROBED: usize = 4;

/// Findings about a site.
#[derive(Debug, Serialize)]
pub struct SiteReport {
    /// Its name.
    pub name: String,
    /// The interface towards the LAN.
    pub lan: String,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The peers' figures, if they were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<SitePeerReport>,
}

pub(super) fn of_site(
    config: &Config,
    site: &Site,
    options: &Options,
    running: &Running,
    tell: &(dyn Fn(&dyn fmt::Display) + Sync),
) -> SiteReport {
    let mut findings = Vec::new();
    let mtu = lan(config, site, running, &mut findings);
    let peers = match (running, options.patience) {
        (_, None) => Vec::new(),
        (Running::Yes(report), _) => match report.sites.iter().find(|report| report.name == site.name) {
            Some(report) => {
                findings.extend(super::running::of_verdict(&report.verdict));
                findings.extend(counters(report));
                report.peers.clone()
            }
            None => {
                findings.push(Finding::note(
                    "peers",
                    "the running gateway has no site of this name; reload it to load the configuration",
                ));
                Vec::new()
            }
        },
        (Running::Silent, _) => Vec::new(),
        (Running::No, Some(patience)) => {
            let patience = patience.min(PATIENCE);
            tell(&format_args!("site {}: calling its peers, for up to {} s", site.name, patience.as_secs()));
            let (peers, notices) = ask(site, mtu.unwrap_or(1500), patience).unwrap_or_else(|finding| {
                findings.push(finding);
                (Vec::new(), Vec::new())
            });
            // Callers that are not let in matter where a peer is missing.
            let level = if peers.iter().all(is_there) { Level::Note } else { Level::Problem };
            findings.extend(notices.into_iter().map(|text| Finding { level, about: "channel", text }));
            peers
        }
    };
    let mut probed = 0;
    for (peer, report) in site.peers.iter().zip(&peers) {
        if silence::is_silent(report) {
            let to = if probed < PROBED { silence::probed(site, peer, report) } else { None };
            probed += usize::from(to.is_some());
            let way = to.and_then(|to| Some((to, way::Way::find(site.bind, to).ok()?)));
            findings.push(silence::finding(site, peer, report, &peers, way));
        } else {
            findings.extend(of_peer(site, peer, report, &peers, mtu));
        }
    }
    SiteReport { name: site.name.clone(), lan: site.lan.clone(), findings, peers }
}

/// The LAN's interface, and what of its frames the paths may carry.
fn lan(config: &Config, site: &Site, running: &Running, findings: &mut Vec<Finding>) -> Option<usize> {
    match InterfaceInfo::of(&site.lan) {
        Ok(survey) => {
            local::port("LAN", &survey, matches!(running, Running::No), findings);
            if matches!(running, Running::No) {
                local::own("LAN", &survey, site.allow_addresses, findings);
            }
            match lan_mtu(&config.file, site, &|_| Ok(survey.mtu as usize)) {
                Err(found) => findings.push(Finding::problem("MTU", found.text)),
                Ok(mtu) => {
                    let lost = not_carried(&config.file, site, mtu);
                    findings.extend(lost.into_iter().map(|found| Finding::problem("MTU", found.text)));
                    return Some(mtu);
                }
            }
        }
        Err(error) => findings.push(Finding::problem("LAN", error.to_string())),
    }
    None
}

fn is_there(report: &SitePeerReport) -> bool {
    matches!(report.state.as_str(), "plain" | "connected" | "greeting")
}

/// Findings from the figures of a peer that is not silent.
fn of_peer(
    site: &Site,
    peer: &SitePeer,
    report: &SitePeerReport,
    reports: &[SitePeerReport],
    lan_mtu: Option<usize>,
) -> Vec<Finding> {
    let name = &peer.name;
    let because = if report.reason.is_empty() { String::new() } else { format!(" ({})", report.reason) };
    let at = report.address.as_ref().map_or_else(String::new, |address| format!(" at {address}"));
    let mut findings = Vec::new();
    match report.state.as_str() {
        "plain" => {
            return vec![Finding::note(
                "peer",
                format!(
                    "{name} is plain: not protected, and it does not answer; check its counters when frames flow"
                ),
            )];
        }
        "refused" if !report.cure.is_empty() => {
            let text = format!("{name} does not fit this site{because}: {}", report.cure);
            return vec![Finding::problem("peer", text)];
        }
        "refused" => {
            return vec![Finding::problem(
                "peer",
                format!(
                    "{name} does not fit this site{because}: set public_key here to the identity that 'frameward check' prints there, and the other way round; set the same mode and window"
                ),
            )];
        }
        "waiting" => {
            return vec![Finding::note(
                "peer",
                format!(
                    "{name} may connect from anywhere, and has not{because}: start its gateway or doctor there; if neither end can be reached from outside, name a site that both reach in via"
                ),
            )];
        }
        _ => {
            let hub = peer.via.as_ref().filter(|_| report.relayed);
            let at = hub.map_or(at, |hub| format!(" through {}", hub.name));
            let trip = report.round_trip_us.map_or_else(String::new, |us| format!(", round trip {us} us"));
            let for_plan = report.round_trips.map_or_else(String::new, for_plan);
            findings.push(Finding::ok("peer", format!("{name} answers{at}{trip}{for_plan}")));
            findings.extend(of_paths(site, name, &report.paths));
            findings.extend(not_measured(site, peer, report));
        }
    }
    findings.extend(of_relay(site, peer, report, reports));
    findings.extend(of_nat(site, peer, report));
    findings.extend(of_path(site, peer, report, lan_mtu));
    if let (Mode::HeaderEncryption, Some(Endpoint { port, .. })) = (peer.mode, &peer.endpoint) {
        findings.push(Finding::note(
            "data",
            format!(
                "{name} gets frames at UDP {}, and this site at {}; only frames can test these ports: let both pass",
                port.saturating_add(1),
                site.bind.port().saturating_add(1)
            ),
        ));
    }
    findings
}

/// Findings of the paths of a peer with several.
fn of_paths(site: &Site, name: &str, paths: &[SitePathReport]) -> Vec<Finding> {
    let of = |(path, number): (&SitePathReport, usize)| {
        let SitePathReport { settings, reason, .. } = path;
        if path.up {
            let trip = path.round_trip_us.map_or_else(String::new, |us| format!(", round trip {us} us"));
            let for_plan = path.round_trips.map_or_else(String::new, for_plan);
            return Finding::ok(
                "path",
                format!("path {number} to {name} ({settings}) is up{trip}{for_plan}"),
            );
        }
        Finding::problem(
            "path",
            format!(
                "path {number} to {name} ({settings}) is down: {reason}; list the paths in the same order at both ends, give its interface a route there, and let UDP {} pass at the firewalls",
                site.bind.port()
            ),
        )
    };
    paths.iter().zip(1..).map(of).collect()
}

/// Probes of a path or a peer, and the options of `plan` that they stand for. The jitter is between the shortest and the longest round trip, which is that
/// of both ways: a frame goes one of them.
fn for_plan(RoundTripsReport { probes, least_us, most_us }: RoundTripsReport) -> String {
    let (delay, jitter) = (least_us.div_ceil(2), most_us.saturating_sub(least_us));
    format!(
        "; {probes} probes took {least_us} to {most_us} us, for frameward plan: --path-delay {delay}us --path-jitter {jitter}us"
    )
}

/// Cells' frames cross to a peer that has answered no probe.
fn not_measured(site: &Site, peer: &SitePeer, report: &SitePeerReport) -> Option<Finding> {
    let is_meant = site.cells.is_some() && peer.mode == Mode::Identifier && !report.relayed;
    (is_meant && peer.paths.is_empty() && report.round_trips.is_none()).then(|| {
        Finding::note(
            "path",
            format!(
                "{} has answered no probe of round trips, so its jitter is not known: wait a few seconds and run doctor again, or bring it to this version",
                peer.name
            ),
        )
    })
}

/// The port that firewalls let out which let nothing else out.
const OFTEN_ALLOWED: u16 = 443;

/// Whether a relay is needed.
fn of_relay(
    site: &Site,
    peer: &SitePeer,
    report: &SitePeerReport,
    reports: &[SitePeerReport],
) -> Option<Finding> {
    let (name, hub) = (&peer.name, &peer.via.as_ref()?.name);
    if !report.relayed {
        return Some(Finding::ok("relay", format!("{name} is reached directly: {hub} does not relay")));
    }
    let because = match report.not_direct.as_str() {
        "" => String::new(),
        why => format!(" ({why})"),
    };
    let called = site.peers.iter().filter(|other| other.name == *hub).flat_map(SitePeer::endpoints);
    let own = site.bind.port();
    let seen = reports.iter().find(|other| other.name == *hub).and_then(|other| other.seen_at.as_ref());
    let seen = seen.and_then(|seen| seen.parse::<SocketAddr>().ok()).map_or(own, |seen| seen.port());
    let cure = if own != OFTEN_ALLOWED && called.into_iter().any(|to| to.port == OFTEN_ALLOWED) {
        // Port 443 is called for a firewall's sake. That firewall drops calls to this site's port.
        "where firewalls let UDP 443 out alone, set bind to port 443 at both sites, whose NATs have to keep it".to_owned()
    } else if seen != own {
        format!(
            "for a direct way let the NAT of this plant keep UDP {own} for all destinations: {hub} sees {seen} in its place"
        )
    } else {
        format!(
            "for a direct way let the NAT of {name} keep its port for all destinations, and its firewall answer: this plant's keeps {own}"
        )
    };
    Some(Finding::note(
        "relay",
        format!("{name} is relayed by {hub}{because}: that costs a round trip more; {cure}"),
    ))
}

/// Whether a NAT in front of this site changes its address, as a peer that answers sees it.
fn of_nat(site: &Site, peer: &SitePeer, report: &SitePeerReport) -> Option<Finding> {
    // Over several paths it is seen at several addresses, of which the report has one.
    if !peer.paths.is_empty() {
        return None;
    }
    let (seen, towards) = (report.seen_at.as_ref()?, report.address.as_ref()?);
    // Nothing is sent: the kernel says from where it would be.
    let own = UdpSocket::bind((site.bind.ip(), 0)).and_then(|socket| {
        socket.connect(towards.parse::<SocketAddr>().map_err(io::Error::other)?)?;
        socket.local_addr()
    });
    let own = SocketAddr::new(own.ok()?.ip().to_canonical(), site.bind.port()).to_string();
    let name = &peer.name;
    // Whether a NAT stands before the other site nobody sees from here. This one lets both ends speak already.
    Some(Finding::ok(
        "address",
        if own == *seen {
            format!("{name} sees this site at {seen}: no NAT in front of this site")
        } else {
            format!(
                "{name} sees this site at {seen}, which is {own}: a NAT is in front of this site, and lets both speak"
            )
        },
    ))
}

/// Findings about the path's size, beside its promise and the LAN's frames.
fn of_path(site: &Site, peer: &SitePeer, report: &SitePeerReport, lan_mtu: Option<usize>) -> Option<Finding> {
    let name = &peer.name;
    let payload = usize::from(report.path_payload?);
    let versions = IpVersion::towards(peer, site.bind).into_iter();
    let expected = versions.map(|version| path_payload(peer, version)).min()?;
    let sums = Sums::of(peer.mode, payload);
    let carried = format!(
        "the path to {name} carries {payload} octets of UDP payload: LAN frames up to {} go unsplit",
        sums.unsplit
    );
    Some(match lan_mtu {
        Some(mtu) if mtu > sums.in_two => Finding::problem(
            "path",
            format!(
                "{carried}, and above {} they are dropped: set the machines' MTU to {}",
                sums.in_two,
                sums.machines()
            ),
        ),
        Some(mtu) if mtu > sums.unsplit => {
            let short = if payload < expected { ", less than path_mtu promises" } else { "" };
            Finding::note(
                "path",
                format!(
                    "{carried}{short}: full frames of this LAN ({mtu}) need two packets; an MTU of {} on the machines avoids it",
                    sums.machines()
                ),
            )
        }
        _ => Finding::ok("path", carried),
    })
}

/// Findings from the counters of a running site.
fn counters(report: &Report) -> Vec<Finding> {
    let groups = report.groups();
    of_counters(|wanted| groups.iter().map(|(_, _, counters)| counters.value(wanted)).sum())
}

fn of_counters(sum: impl Fn(&str) -> u64) -> Vec<Finding> {
    let rows = [
        (
            "OutPktsNotMacsec",
            "machines of this LAN send without MACsec, and such frames stay here: set protect = true at all sites, with one CAK, or put a link gateway in front of these machines",
        ),
        (
            "OutPktsLoop",
            "frames of stations behind a peer come from this LAN: something carries frames beside the tunnel; find the second path",
        ),
        (
            "InPktsUnknownIdentifier",
            "packets came that no peer can have sent now: they are replayed or forged, or there was a long outage; check whether the counter grows",
        ),
        (
            "InPktsForgedLongForm",
            "packets of new flows were changed on the way, and discarded: somebody is between the sites",
        ),
        (
            "InPktsForgedHeader",
            "headers of packets were changed on the way, and discarded: somebody is between the sites",
        ),
        ("OutPktsTooLong", "machines send frames too long for two packets: lower their MTU"),
        (
            "OutPktsNoEpoch",
            "frames came before the peer was there: normal after a start; else check that peer",
        ),
        (
            "OutPktsNotEncrypted",
            "header encryption carries no unencrypted frames: set encrypt = true at the stations, or mode = \"identifier\"",
        ),
        (
            "OutPktsExtended",
            "a peer of an earlier version carries no extension headers with header encryption: upgrade it, or switch fragment and concatenate off at the stations",
        ),
        (
            "OutPktsTagged",
            "a peer of an earlier version carries no frames behind VLAN tags: upgrade it, or connect the LAN's port untagged",
        ),
        (
            "OutPktsOtherVlan",
            "vlans does not list the VLANs of some frames of this LAN, which stay here: list them at both ends if they are to cross",
        ),
        (
            "InPktsOtherVlan",
            "a peer sends frames of VLANs that vlans does not list here, and they were dropped: list them, or have the peer list fewer",
        ),
        (
            "OutPktsCyclic",
            "a peer carries no frames of cells: set cells there, too, and mode = \"identifier\" at both ends",
        ),
        (
            "OutPktsNoSci",
            "header encryption carries no frames without SCI: set sci = \"always\" at the stations, or mode = \"identifier\"",
        ),
        (
            "OutPktsFlowRate",
            "more new flows than the limits allow: there is a flood, or new_flows_per_second is too low",
        ),
        (
            "OutPktsFlowQuotaSource",
            "one machine has more flows than the limits allow: there is a flood, or flows_per_source is too low",
        ),
    ];
    rows.into_iter()
        .filter_map(|(name, meaning)| {
            let count = sum(name);
            let text = format!("{name} {count} since the start: {meaning}");
            (count > 0).then(|| Finding::note("counters", text))
        })
        .collect()
}

impl fmt::Display for SiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nsite {}: {} (LAN)", self.name, self.lan)?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "  {finding}"))
    }
}

impl SiteReport {
    /// Number of problems among its findings.
    pub(super) fn problems(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Problem).count()
    }
}

#[cfg(test)]
mod tests;
