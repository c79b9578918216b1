//! From a site's snapshot and its channel's status to its report.

use std::collections::BTreeMap;

use control::Gateway as Control;
use dataplane::site::{SitePathCounters, SiteSnapshot, UplinkSnapshot};
use netdev::port::PortCounters;
use netdev::udp::UdpCounters;
use sitelink::{ChannelCounters, Floods, ManagerStatus};
use suite::identity::Identity;
use tunnel::shaper::UplinkCounters;
use tunnel::{Location, NumberedFlow, PeerId, SiteCounters, Station};
use wire::MacAddr;

use super::super::site::RunningSite;
use config::site::PathUplink;
use config::{Site, SitePeer};
use report::site::{
    FlowReport, PathUplinkReport, SitePeerReport, SiteReport, StandbyReport, StationReport, UdpReport,
    UplinkReport, peer_report, standby_report,
};
use report::{Counters, PortReport, Verdict, WaitingReport};

/// The sites at this moment, and whether their figures are known: a busy worker may not have answered in time. A site that could not be started
/// again has none, which is known.
pub(super) fn reports(control: &mut Control, sites: &mut [RunningSite]) -> Vec<(SiteReport, bool)> {
    if sites.is_empty() {
        return Vec::new();
    }
    let mut snapshots: BTreeMap<String, SiteSnapshot> = control.site_snapshots().into_iter().collect();
    let of = |site: &mut RunningSite| {
        let snapshot = snapshots.remove(&site.config.name);
        let is_known = snapshot.is_some() || site.works.is_none();
        if is_known {
            site.snapshot = snapshot.unwrap_or_default();
        }
        (SiteReport { unread: !is_known, ..report(site) }, is_known)
    };
    sites.iter_mut().map(of).collect()
}

fn report(running: &RunningSite) -> SiteReport {
    let snapshot = &running.snapshot;
    let Site { name, lan, identity, .. } = &running.config;
    let status = running.status();
    let waiting = running.waiting.as_ref();
    let waiting = waiting.map(|waiting| WaitingReport {
        seconds: waiting.since.elapsed().as_secs(),
        why: waiting.why.clone(),
        cut: false,
    });
    let about = running.works.as_ref().map(|works| &works.about);
    let peer = |(peer, number): (&SitePeer, Option<PeerId>)| {
        let figures = number.and_then(|number| snapshot.peers.get(number.index()));
        let mut figures = figures.cloned();
        if let Some(figures) = &mut figures {
            figures.counters.add(&running.kernel_counters(number));
        }
        let path = running.place_of(peer, number);
        SitePeerReport { path, ..peer_report(peer, figures.as_ref(), status.as_ref(), number) }
    };
    let peers = running.numbered_peers().map(peer).collect();
    let mut path = snapshot.path;
    let Floods { datagrams, packets, frames } = running.floods();
    (path.in_datagrams_flood, path.in_pkts_flood, path.out_pkts_flood) = (datagrams, packets, frames);
    let udp = about.into_iter().flat_map(|about| &about.udp).map(|port| {
        let counters = match port.what {
            "data" => snapshot.data,
            "plain" => snapshot.plain,
            _ => snapshot.header,
        };
        UdpReport {
            what: port.what.into(),
            address: port.address.clone(),
            counters: Counters::new(UdpCounters::NAMES, counters.unwrap_or_default().values()),
        }
    });
    SiteReport {
        name: name.clone(),
        verdict: Verdict::default(),
        concerns: Vec::new(),
        waiting,
        unread: false,
        public_key: identity.as_ref().map(Identity::public).map(|key| key.to_string()),
        lan: PortReport {
            interface: lan.clone(),
            engine: about.map(|about| about.engine.clone()).unwrap_or_default(),
            // The machines', without what the own SecY adds.
            mtu: about.map_or(0, |about| {
                u32::try_from(about.lan_mtu.saturating_sub(running.added_octets())).unwrap_or(u32::MAX)
            }),
            guard: running.works.as_ref().map_or("", |works| works.guard()).into(),
            counters: Counters::new(PortCounters::NAMES, snapshot.lan.values()),
        },
        udp: udp.collect(),
        path: Counters::new(SitePathCounters::NAMES, path.values()),
        uplink: running.config.rate.map(|rate| uplink(rate, snapshot.uplink)),
        path_uplinks: path_uplinks(running, snapshot),
        tunnel: Counters::new(SiteCounters::NAMES, snapshot.tunnel.values()),
        channel: status
            .map(|ManagerStatus { counters, .. }| Counters::new(ChannelCounters::NAMES, counters.values())),
        peers,
        standby: standby(running, snapshot),
        stations: stations(running, snapshot),
        flows: flows(running, snapshot),
    }
}

fn path_uplinks(site: &RunningSite, snapshot: &SiteSnapshot) -> Vec<PathUplinkReport> {
    let mut figures = snapshot.path_uplinks.iter().copied();
    let report =
        |of: PathUplink| PathUplinkReport { name: of.name(), figures: uplink(of.rate, figures.next()) };
    site.config.path_uplinks().into_iter().map(report).collect()
}

fn uplink(bits_per_second: u64, snapshot: Option<UplinkSnapshot>) -> UplinkReport {
    let (counters, backlog) = snapshot.map(|uplink| (uplink.counters, uplink.backlog)).unwrap_or_default();
    UplinkReport {
        bits_per_second,
        express_waiting: backlog.express as u64,
        bulk_waiting: backlog.bulk as u64,
        octets_waiting: backlog.octets as u64,
        counters: Counters::new(UplinkCounters::NAMES, counters.values()),
    }
}

fn standby(site: &RunningSite, snapshot: &SiteSnapshot) -> Option<StandbyReport> {
    let partner = &site.config.standby.as_ref()?.peer;
    Some(standby_report(snapshot.at, snapshot.standby.as_ref()?, partner))
}

fn name(site: &RunningSite, peer: PeerId) -> String {
    site.peer(peer).map(|peer| peer.name.clone()).unwrap_or_default()
}

/// Those here first, then peer by peer, by address.
fn stations(site: &RunningSite, snapshot: &SiteSnapshot) -> Vec<StationReport> {
    let place = |place| match place {
        Location::Here => None,
        Location::Behind(peer) => Some(peer),
    };
    let mut stations: Vec<&Station> = snapshot.stations.iter().collect();
    stations.sort_by_key(|station| (place(station.location), station.address));
    let report = |station: &Station| StationReport {
        address: station.address.to_string(),
        peer: place(station.location).map(|peer| name(site, peer)),
        seconds: snapshot.at.since(station.heard).as_secs(),
    };
    stations.into_iter().map(report).collect()
}

/// Peer by peer, by number.
fn flows(site: &RunningSite, snapshot: &SiteSnapshot) -> Vec<FlowReport> {
    let mut flows: Vec<&(PeerId, NumberedFlow)> = snapshot.flows.iter().collect();
    flows.sort_by_key(|(peer, given)| (*peer, given.index));
    let address = |address: MacAddr| address.to_string();
    let report = |(peer, given): &(PeerId, NumberedFlow)| FlowReport {
        peer: name(site, *peer),
        index: given.index.0,
        sci: given.flow.sci().map(|sci| sci.to_string()),
        source: address(given.flow.source),
        destination: address(given.flow.destination),
        acknowledged: given.acknowledged,
        seconds: snapshot.at.since(given.used).as_secs(),
    };
    flows.into_iter().map(report).collect()
}
