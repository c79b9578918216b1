//! From a site's snapshot and its channel's status to its report.

use std::collections::BTreeMap;
use std::time::Duration;

use control::Gateway as Control;
use dataplane::site::{SitePathCounters, SitePeerSnapshot, SiteSnapshot};
use netdev::port::PortCounters;
use netdev::udp::UdpCounters;
use sitelink::{ChannelCounters, ConnState, ManagerStatus, PeerStatus};
use suite::identity::Identity;
use tunnel::{
    ChannelState, EpochAge, Location, NumberedFlow, PeerCounters, PeerId, SessionCounters, SessionState,
    SiteCounters, Station,
};
use wire::{Instant, MacAddr};

use super::super::site::RunningSite;
use crate::config::site::mode_name;
use crate::config::{Site, SitePeer};
use crate::report::site::{EpochReport, FlowReport, SitePeerReport, SiteReport, StationReport, UdpReport};
use crate::report::{Counters, PortReport, Verdict, WaitingReport};

/// The sites at this moment. A site that could not be started again has no figures.
pub(super) fn reports(control: &mut Control, sites: &[RunningSite]) -> Vec<SiteReport> {
    if sites.is_empty() {
        return Vec::new();
    }
    let mut snapshots: BTreeMap<String, SiteSnapshot> = control.site_snapshots().into_iter().collect();
    sites.iter().map(|site| report(site, &snapshots.remove(&site.config.name).unwrap_or_default())).collect()
}

fn report(running: &RunningSite, snapshot: &SiteSnapshot) -> SiteReport {
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
        peer_report(peer, figures, status.as_ref(), number)
    };
    let peers = running.numbered_peers().map(peer).collect();
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
        public_key: identity.as_ref().map(Identity::public).map(|key| key.to_string()),
        lan: PortReport {
            interface: lan.clone(),
            engine: about.map(|about| about.engine.clone()).unwrap_or_default(),
            mtu: about.map_or(0, |about| u32::try_from(about.lan_mtu).unwrap_or(u32::MAX)),
            guard: running.works.as_ref().map_or("", |works| works.guard()).into(),
            counters: Counters::new(PortCounters::NAMES, snapshot.lan.values()),
        },
        udp: udp.collect(),
        path: Counters::new(SitePathCounters::NAMES, snapshot.path.values()),
        tunnel: Counters::new(SiteCounters::NAMES, snapshot.tunnel.values()),
        channel: status
            .map(|ManagerStatus { counters, .. }| Counters::new(ChannelCounters::NAMES, counters.values())),
        peers,
        stations: stations(running, snapshot),
        flows: flows(running, snapshot),
    }
}

/// A peer: what the site's snapshot says of it, and its channel's status.
pub(crate) fn peer_report(
    peer: &SitePeer,
    snapshot: Option<&SitePeerSnapshot>,
    status: Option<&ManagerStatus>,
    number: Option<PeerId>,
) -> SitePeerReport {
    let of = |status: &'_ ManagerStatus| status.peers.iter().position(|peer| Some(peer.peer) == number);
    let channel = status.and_then(|status| Some((status.now, status.peers.get(of(status)?)?)));
    let session = channel.and_then(|(_, peer)| peer.session.as_ref());
    let seconds = |since: Instant| channel.map_or(0, |(now, _)| now.since(since).as_secs());
    let epoch = |epoch: Option<EpochAge>| {
        epoch.map(|EpochAge { epoch, since }| EpochReport { epoch, seconds: seconds(since) })
    };
    let address = match channel {
        Some((_, PeerStatus { address: Some(address), .. })) => Some(*address),
        _ => snapshot.and_then(|snapshot| snapshot.endpoint),
    };
    let acknowledged = session.map_or(0, |session| session.flows_acknowledged);
    let counters = snapshot.map(|snapshot| snapshot.counters).unwrap_or_default();
    let plain = peer.public_key.is_none();
    SitePeerReport {
        name: peer.name.clone(),
        mode: mode_name(peer.mode).into(),
        endpoint: peer.endpoint.as_ref().map(ToString::to_string),
        state: channel.map_or(if plain { "plain" } else { "down" }, |(_, peer)| state(peer)).into(),
        seconds: channel.map_or(0, |(_, peer)| seconds(peer.since)),
        reason: channel.map(|(_, peer)| peer.reason.clone()).unwrap_or_default(),
        address: address.map(|address| address.to_string()),
        round_trip_us: channel
            .and_then(|(_, peer)| peer.round_trip)
            .map(|round_trip: Duration| u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX)),
        path_payload: channel.and_then(|(_, peer)| peer.path_payload),
        seen_at: channel.and_then(|(_, peer)| peer.seen_at).map(|address| address.to_string()),
        key_exchange: channel.and_then(|(_, peer)| peer.key_exchange).map(|by| by.name().into()),
        instance_seconds: session.and_then(|session| session.instance).map(|(_, since)| seconds(since)),
        transmit_epoch: epoch(session.and_then(|session| session.transmit)),
        receive_epoch: epoch(session.and_then(|session| session.receive)),
        flows_acknowledged: acknowledged,
        flows_announced: session.map_or(0, |session| session.flows_announced),
        peer_flows: snapshot.map_or(0, |snapshot| snapshot.announced_flows),
        counters: Counters::new(PeerCounters::NAMES, counters.values()),
        session: session
            .map(|SessionState { counters, .. }| Counters::new(SessionCounters::NAMES, counters.values())),
    }
}

/// A word for how the channel to a peer is.
fn state(peer: &PeerStatus) -> &'static str {
    match peer.reach {
        ConnState::Without => "plain",
        ConnState::Waiting => "waiting",
        ConnState::Connecting => "connecting",
        ConnState::Refused => "refused",
        ConnState::Connected => match peer.session.as_ref().map(|session| session.channel) {
            Some(ChannelState::Up) => "connected",
            _ => "greeting",
        },
    }
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
