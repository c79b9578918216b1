//! Connections that come in: from peers, and from anybody who can send a packet.
//!
//! A caller that has not shown that it knows this site's public key ([`suite::knock`]) is not answered at all. The socket also
//! lets packets with a connection ID of this site through. Anybody on the way can read that, so the knock is checked here again.
//!
//! A handshake costs a few hundred microseconds and some kilobytes before anybody has proved anything. Its limits:
//! - Few at a time.
//! - As soon as there are several, or many in a second, and where answers leave by several ways ([`super::routes`]): only callers that have proved their address (Retry, RFC 9000, 8.1), and
//!   of those a bounded number a second.
//! - When there are too many: the oldest that does not come from a peer's address gives way.
//! - Through one relay a few: of more, the oldest of these gives way.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::{ConnectionError, Endpoint, Incoming, ServerConfig, TransportErrorCode};
use suite::knock::KnockKey;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tunnel::PeerId;
use wire::time::TokenBucket;

use super::counters::ChannelCounters;
use super::error::DisconnectReason;
use super::shared::{Arrival, DriverEvent, Shared};
use super::tls::{KeyExchange, Tls, key_exchange_of, key_of};
use super::transport::{self, code};

/// Limit on the time of a handshake.
const PATIENCE: Duration = Duration::from_secs(3);
/// Handshakes under way from which on an address has to be proved.
const SEVERAL: usize = 8;
/// Handshakes under way at most.
const MOST: usize = 32;
/// Handshakes under way through one relay at most.
const RELAYED: usize = 8;
/// Proofs of the address in a row that were asked of one address, and none has come: it does not hear this site.
const UNHEARD: u32 = 4;
/// Handshakes a second without a proof of the address.
const UNPROVED: u32 = 50;
/// Handshakes a second with one, from where no peer is known to be.
const STRANGERS: u32 = 200;

/// Everything that a handshake needs.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) tls: Tls,
    /// Of this site.
    pub(super) knock: KnockKey,
    /// Configuration that all connections have in common.
    pub(super) config: ServerConfig,
    pub(super) shared: Arc<Shared>,
    pub(super) news: mpsc::Sender<DriverEvent>,
}

struct UnderWay {
    task: AbortHandle,
    peers_address: bool,
    /// The relay through which it comes.
    hub: Option<PeerId>,
}

impl Answer {
    /// Takes connections until the endpoint is closed.
    pub(super) async fn answer(self: Arc<Self>, endpoint: Endpoint) {
        let mut under_way = VecDeque::with_capacity(MOST);
        let (mut unproved, mut strangers) =
            (TokenBucket::per_second(UNPROVED), TokenBucket::per_second(STRANGERS));
        let mut asked: Option<(IpAddr, u32)> = None;
        while let Some(incoming) = endpoint.accept().await {
            let now = self.shared.now();
            under_way.retain(|one: &UnderWay| !one.task.is_finished());
            let count = |change: fn(&mut ChannelCounters)| self.shared.shared_counters.count(change);
            if !self.knock.recognises(&incoming.orig_dst_cid()) {
                count(|counters| counters.in_without_proof += 1);
                incoming.ignore();
                continue;
            }
            let proved = incoming.remote_address_validated();
            let multiplied = self.shared.socket.routes().answers_by_several_ways();
            let from = incoming.remote_address().ip();
            let before = asked.filter(|(address, _)| *address == from).map_or(0, |(_, times)| times);
            match (proved, multiplied) {
                (true, _) if before > 0 => asked = None,
                // No handshake begins that could end before the caller has heard something.
                (false, true) => asked = Some((from, before.saturating_add(1))),
                _ => {}
            }
            if !proved && multiplied && before >= UNHEARD {
                self.tell_unheard(from);
            }
            if !proved && (multiplied || under_way.len() >= SEVERAL || !unproved.take(now)) {
                count(|counters| counters.in_handshakes_retried += 1);
                let _ = incoming.retry();
                continue;
            }
            let (peers_address, hub) =
                self.shared.with_roster(|roster| (roster.is_expected(from), roster.hub_at(from)));
            if proved && !peers_address && !strangers.take(now) {
                count(|counters| counters.in_handshakes_crowded += 1);
                incoming.ignore();
                continue;
            }
            if let Some(oldest) = gives_way(&under_way, hub) {
                count(|counters| counters.in_handshakes_crowded += 1);
                if let Some(one) = under_way.remove(oldest) {
                    one.task.abort();
                }
            }
            let task = tokio::spawn(Arc::clone(&self).handshake(incoming)).abort_handle();
            under_way.push_back(UnderWay { task, peers_address, hub });
        }
    }

    async fn handshake(self: Arc<Self>, incoming: Incoming) {
        let from = incoming.remote_address();
        // It has heard a Retry.
        let hears = !incoming.may_retry();
        // One verifier each, to know which key was shown by whom.
        let (peers, most_payload) =
            self.shared.with_roster(|roster| (roster.by_key(), roster.most_payload()));
        let classical = peers.values().any(|(_, classical)| *classical);
        let (crypto, verifier) = self.tls.server(peers.keys().copied().collect(), classical);
        let mut config = self.config.clone();
        config.crypto = crypto;
        config.transport_config(transport::transport(most_payload));
        let connection = async { incoming.accept_with(Arc::new(config))?.await };
        let connection = timeout(PATIENCE, connection).await;
        if let Ok(Err(error)) = &connection
            && verifier.shown().is_none()
            && is_ended_by_caller(error)
        {
            self.shared.shared_counters.count(|counters| counters.in_handshakes_ended += 1);
            if !hears {
                self.tell_unheard(from.ip());
            }
            return;
        }
        let fell_silent = matches!(&connection, Err(_) | Ok(Err(ConnectionError::TimedOut)));
        if let Ok(Ok(connection)) = connection {
            match key_of(&connection).and_then(|key| peers.get(&key)) {
                // Allowed for another peer.
                Some((peer, false)) if key_exchange_of(&connection) == KeyExchange::Classical => {
                    self.shared.shared_counters.count(|counters| counters.in_handshakes_failed += 1);
                    let why = DisconnectReason::no_group();
                    connection.close(code::FAULT, why.text.as_bytes());
                    let _ = self.news.send(DriverEvent::Failed { peer: *peer, why }).await;
                    self.shared.stir.notify_one();
                }
                Some((peer, _)) => {
                    let arrival =
                        Arrival { peer: *peer, connection, address: from, first: None, ours: false };
                    let _ = self.news.send(DriverEvent::Arrived(arrival)).await;
                    self.shared.stir.notify_one();
                }
                None => connection.close(code::FAULT, b"no peer"),
            }
            return;
        }
        self.shared.shared_counters.count(|counters| counters.in_handshakes_failed += 1);
        if fell_silent && !hears && verifier.shown().is_none() {
            self.tell_unheard(from.ip());
        }
        if let Some(key) = verifier.shown().filter(|key| !verifier.accepts(*key)) {
            self.shared.shared_counters.count(|counters| counters.in_strangers += 1);
            let address: IpAddr = from.ip().to_canonical();
            let _ = self.news.try_send(DriverEvent::Stranger { address, key });
            self.shared.stir.notify_one();
        }
    }
}

impl Answer {
    /// Tells of a caller that gave up or fell silent before it showed a key, and has heard nothing; not through a relay, whose address is none.
    fn tell_unheard(&self, from: IpAddr) {
        if self.shared.with_roster(|roster| roster.hub_at(from)).is_none() {
            let _ = self.news.try_send(DriverEvent::Unheard { address: from });
            self.shared.stir.notify_one();
        }
    }
}

/// The handshake that gives way to one more, which comes through `hub` or directly.
fn gives_way(under_way: &VecDeque<UnderWay>, hub: Option<PeerId>) -> Option<usize> {
    let of_hub = |one: &&UnderWay| hub.is_some() && one.hub == hub;
    if under_way.iter().filter(of_hub).count() >= RELAYED {
        return under_way.iter().position(|one| one.hub == hub);
    }
    let full = under_way.len() == MOST;
    full.then(|| under_way.iter().position(|one| !one.peers_address).unwrap_or(0))
}

/// Before a caller has keys, its close says no more than that an application asked for it (RFC 9000, 10.2.3).
fn is_ended_by_caller(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::ApplicationClosed(_) => true,
        ConnectionError::ConnectionClosed(close) => close.error_code == TransportErrorCode::APPLICATION_ERROR,
        _ => false,
    }
}
