//! From a peer's configuration, the site's snapshot and the status of its channel to its report.

use std::time::Duration;

use dataplane::site::SitePeerSnapshot;
use sitelink::{ConnState, ManagerStatus, PathStatus, PeerStatus, RoundTrips};
use tunnel::{ChannelState, EpochAge, HeardOctets, PeerCounters, PeerId, SessionCounters, SessionState};
use wire::Instant;

use super::{CountedThereReport, EpochReport, RoundTripsReport, SitePathReport, SitePeerReport};
use crate::Counters;
use config::{Named as _, SitePeer};

/// A peer: what the site's snapshot says of it, and its channel's status.
pub fn peer_report(
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
        mode: peer.mode.name().into(),
        endpoint: peer.endpoint.as_ref().map(ToString::to_string),
        via: peer.via.as_ref().map(|hub| hub.name.clone()),
        relayed: channel.is_some_and(|(_, peer)| peer.relayed),
        not_direct: channel.map(|(_, peer)| peer.not_direct.clone()).unwrap_or_default(),
        state: channel.map_or(if plain { "plain" } else { "down" }, |(_, peer)| state(peer)).into(),
        seconds: channel.map_or(0, |(_, peer)| seconds(peer.since)),
        reason: channel.map(|(_, peer)| peer.reason.clone()).unwrap_or_default(),
        cure: channel.map(|(_, peer)| peer.cure.to_owned()).unwrap_or_default(),
        address: address.map(|address| address.to_string()),
        round_trip_us: channel.and_then(|(_, peer)| peer.round_trip).map(microseconds),
        round_trips: channel.and_then(|(_, peer)| peer.round_trips).map(round_trips),
        path: None,
        path_payload: channel.and_then(|(_, peer)| peer.path_payload),
        paths: channel.map(|(_, peer)| peer.paths.iter().map(path_report).collect()).unwrap_or_default(),
        seen_at: channel.and_then(|(_, peer)| peer.seen_at).map(|address| address.to_string()),
        key_exchange: channel.and_then(|(_, peer)| peer.key_exchange).map(|by| by.name().into()),
        instance_seconds: session.and_then(|session| session.instance).map(|(_, since)| seconds(since)),
        transmit_epoch: epoch(session.and_then(|session| session.transmit)),
        receive_epoch: epoch(session.and_then(|session| session.receive)),
        counted_there: session.and_then(|session| session.octets).map(counted_there),
        flows_acknowledged: acknowledged,
        flows_announced: session.map_or(0, |session| session.flows_announced),
        peer_flows: snapshot.map_or(0, |snapshot| snapshot.announced_flows),
        counters: Counters::new(PeerCounters::NAMES, counters.values()),
        session: session
            .map(|SessionState { counters, .. }| Counters::new(SessionCounters::NAMES, counters.values())),
    }
}

const fn counted_there(heard: HeardOctets) -> CountedThereReport {
    let HeardOctets { octets, messages } = heard;
    CountedThereReport { sent_octets: octets.sent, accepted_octets: octets.accepted, messages }
}

fn path_report(path: &PathStatus) -> SitePathReport {
    SitePathReport {
        settings: path.settings.clone(),
        up: path.round_trip.is_some(),
        preferred: path.preferred,
        reason: path.reason.clone(),
        address: path.address.map(|address| address.to_string()),
        round_trip_us: path.round_trip.map(microseconds),
        round_trips: path.round_trips.map(round_trips),
        loss_per_mille: path.loss_per_mille,
        payload: path.payload,
    }
}

fn round_trips(RoundTrips { count, least, most }: RoundTrips) -> RoundTripsReport {
    RoundTripsReport { probes: count, least_us: microseconds(least), most_us: microseconds(most) }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
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
