//! Status of the channel.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tunnel::{Mode, PeerId, SessionState};

use super::counters::{ChannelCounters, SharedCounters};
use super::settings::ManagerPeer;
use super::tls::KeyExchange;

/// Notices that can wait to be read.
const NOTICES: usize = 64;

/// The whole channel.
#[derive(Clone, Debug)]
pub struct ManagerStatus {
    /// The moment of this status, on the clock of the sessions' times.
    pub now: wire::Instant,
    /// In the order of the settings.
    pub peers: Vec<PeerStatus>,
    /// Of the site.
    pub counters: ChannelCounters,
}

/// One peer.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Its number.
    pub peer: PeerId,
    /// State of its channel.
    pub reach: ConnState,
    /// Begin of that state, on the clock of [`ManagerStatus::now`].
    pub since: wire::Instant,
    /// Why the channel was lost, or could not be had, in words. Empty while it is there, and as long as nothing went wrong.
    pub reason: String,
    /// Cure for that; empty if it is not known.
    pub cure: &'static str,
    /// Whether the way to it goes through a relay.
    pub relayed: bool,
    /// Why a relayed peer is not reached directly, in words; empty if that is not known yet.
    pub not_direct: String,
    /// Destination of its data; none if that is a relay.
    pub address: Option<SocketAddr>,
    /// Round-trip time, smoothed, while connected.
    pub round_trip: Option<Duration>,
    /// Round trips of the last probes beside the channel, while connected without a relay; `None` of a peer with paths, which have their own.
    pub round_trips: Option<RoundTrips>,
    /// Octets of the largest UDP payload on the way to it, as far as that is known.
    pub path_payload: Option<u16>,
    /// This site's address as the peer sees it, while connected: another one than this site's own if a NAT is between
    /// them.
    pub seen_at: Option<SocketAddr>,
    /// Key exchange of the connection, while connected.
    pub key_exchange: Option<KeyExchange>,
    /// State of the session; `None` without a channel.
    pub session: Option<SessionState>,
    /// Its paths, in the order of their numbers; none of a peer with an endpoint.
    pub paths: Vec<PathStatus>,
}

/// One of several paths to a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathStatus {
    /// Interface, own address and endpoint, in words.
    pub settings: String,
    /// Why it carries no packets, in words; empty if it does.
    pub reason: String,
    /// Whether frames that go over one path go over this one.
    pub preferred: bool,
    /// Where the peer is proved to be.
    pub address: Option<SocketAddr>,
    /// Round-trip time of probes, smoothed, while it carries packets.
    pub round_trip: Option<Duration>,
    /// Round trips of the last probes, while it carries packets.
    pub round_trips: Option<RoundTrips>,
    /// Of a thousand probes, those that are lost, while it carries packets.
    pub loss_per_mille: Option<u16>,
    /// Octets of the largest UDP payload on it, while it carries packets.
    pub payload: Option<u16>,
}

/// Round trips of some probes: the shortest and the longest. What lies between them is the largest packet delay variation (PDV, RFC 5481, 4.2)
/// of both ways together. A frame goes one way, so it is late by no more, as far as these probes show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTrips {
    /// Number of answered probes.
    pub count: u16,
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

impl PeerStatus {
    /// Before its channel has begun.
    pub(super) fn at_first(peer: PeerId, settings: &ManagerPeer) -> Self {
        Self {
            peer,
            reach: ConnState::at_first(settings),
            since: wire::Instant::START,
            reason: String::new(),
            cure: "",
            relayed: false,
            not_direct: String::new(),
            address: None,
            round_trip: None,
            round_trips: None,
            path_payload: None,
            seen_at: None,
            key_exchange: None,
            session: None,
            paths: Vec::new(),
        }
    }
}

/// State of the channel to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnState {
    /// There is none: the peer is plain.
    Without,
    /// The peer has no endpoint: waited for.
    Waiting,
    /// Being tried.
    Connecting,
    /// Tried, and refused: one of the two does not know the other's key, or they do not speak the same.
    Refused,
    /// There: both sites have greeted each other.
    Connected,
}

impl ConnState {
    pub(super) fn at_first(peer: &ManagerPeer) -> Self {
        match peer {
            ManagerPeer { mode: Mode::Plain { .. }, .. } => Self::Without,
            ManagerPeer { endpoint: Some(_), .. } | ManagerPeer { via: Some(_), .. } => Self::Connecting,
            ManagerPeer { paths, .. } if paths.iter().any(|path| path.endpoint.is_some()) => Self::Connecting,
            ManagerPeer { endpoint: None, via: None, .. } => Self::Waiting,
        }
    }
}

/// An address as a person writes it.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Something that a person should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// About whom; nobody that is configured: `None`.
    pub peer: Option<PeerId>,
    /// In words.
    pub text: String,
}

/// Status that the manager's thread writes and others read.
#[derive(Debug)]
pub(super) struct SharedStatus {
    peers: Mutex<Vec<PeerStatus>>,
    notices: Mutex<VecDeque<Notice>>,
}

impl SharedStatus {
    pub(super) fn new(peers: Vec<PeerStatus>) -> Self {
        Self { peers: Mutex::new(peers), notices: Mutex::new(VecDeque::with_capacity(NOTICES)) }
    }

    pub(super) fn publish(&self, peers: impl Iterator<Item = PeerStatus>) {
        let mut board = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        board.clear();
        board.extend(peers);
    }

    pub(super) fn status(&self, now: wire::Instant, shared_counters: &SharedCounters) -> ManagerStatus {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ManagerStatus { now, peers, counters: shared_counters.read() }
    }

    /// The oldest gives way.
    pub(super) fn notice(&self, shared_counters: &SharedCounters, peer: Option<PeerId>, text: String) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() == NOTICES {
            notices.pop_front();
            shared_counters.count(|counters| counters.notices_lost += 1);
        }
        notices.push_back(Notice { peer, text });
    }

    pub(super) fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}
