//! How a peer is connected to: calls, connections that come, meet and end, the relay, and the direct way beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dataplane::site::relayed_peer;
use quinn::Connection;
use suite::identity::PublicKey;
use tunnel::{ChannelState, Message, Mode, PeerId, Stream};
use wire::tunnel::SITE_NAME_OCTETS;

use super::round_trips::RoundTripProbes;
use super::{GRACE, Peer};
use crate::connection::PeerConnection;
use crate::error::DisconnectReason;
use crate::random;
use crate::shared::Arrival;
use crate::status::ConnState;
use crate::tls::{KeyExchange, key_exchange_of};
use crate::transport::code;

/// Of two connections that come within this, the caller's stays. Shorter than [`GRACE`]: who has restarted and then
/// connects is never turned away.
pub(crate) const MEETING: Duration = Duration::from_millis(400);
/// Pause after a peer was refused.
const LEFT_ALONE: Duration = Duration::from_secs(2);

impl Peer {
    /// Sets the number of the peer that relays to this one.
    pub(crate) fn set_hub(&mut self, number: impl FnOnce(PublicKey) -> Option<PeerId>) {
        let Some(PublicKey(key)) = self.public_key else { return };
        let mut name = [0; SITE_NAME_OCTETS];
        name.copy_from_slice(&key[..SITE_NAME_OCTETS]);
        self.relay.is = Some((name, self.via.and_then(number)));
    }

    /// Whether its packets go through a relay.
    pub(super) fn is_relayed(&self) -> bool {
        self.address.is.is_some_and(|address| relayed_peer(address).is_some())
    }

    /// The peer through which this one is connected.
    pub(crate) fn relayed_by(&self) -> Option<PeerId> {
        let (_, hub) = self.relay.is?;
        hub.filter(|_| self.is_relayed() && self.channel.is_some())
    }

    /// Tells the peer where its relay sees this site, and tries what the peer says of itself.
    pub(crate) fn look_for_direct_way(&mut self, now: wire::Instant, own: Option<SocketAddr>) {
        let (Some(channel), Some(dial), Some(session)) = (&mut self.channel, &self.dial, &self.session)
        else {
            return;
        };
        let Some(own) = own.filter(|_| session.state().channel == ChannelState::Up) else { return };
        if self.direct.due(now, own) && channel.send(Stream::Control, &Message::ReachableAt { address: own })
        {
            self.direct.told(now, own);
        }
        self.direct.try_it(now, own, dial);
    }

    /// The direct way was tried in vain.
    pub(crate) fn not_direct(&mut self, why: String) {
        if self.is_relayed() {
            self.direct.failed(why);
        }
    }

    /// A connection has ended that was there for so long. A direct one between others through the relay may be none to rely on.
    fn note_end_of_direct_way(&mut self, now: wire::Instant, lasted: Duration) {
        if self.via.is_some() && !self.is_relayed() {
            self.direct.ended(now, lasted);
        }
    }

    /// Begins to connect, if the peer has an endpoint.
    pub(super) fn call(&mut self, delay: Duration) {
        self.hang_up();
        if let Some(dial) = &self.dial {
            let delay = random::between(delay, delay + Duration::from_millis(50));
            self.dialling = Some(tokio::spawn(Arc::clone(dial).dial(delay)).abort_handle());
        }
    }

    fn hang_up(&mut self) {
        if let Some(dialling) = self.dialling.take() {
            dialling.abort();
        }
    }

    /// It is a peer no more, and is told.
    pub(crate) fn leave(mut self) {
        self.hang_up();
        self.direct.stop();
        self.following = None;
        if let Some(channel) = self.channel.take() {
            channel.close(code::REMOVED, "configured otherwise");
        }
        if let Some(paths) = &self.paths {
            paths.leave(&self.shared);
        }
        self.forget_round_trips();
    }

    /// Begins with probes of another connection, which is with this address.
    fn probe_round_trips(&mut self, connection: &Connection, ours: bool, address: SocketAddr) {
        self.forget_round_trips();
        if relayed_peer(address).is_none() {
            self.round_trips = RoundTripProbes::begin(self.id, connection, ours, &self.shared);
        }
    }

    fn forget_round_trips(&mut self) {
        if self.round_trips.take().is_some() {
            RoundTripProbes::end(self.id, &self.shared);
        }
    }

    /// A connection with the peer. It replaces the one that is there, or is turned away.
    pub(crate) fn adopt(&mut self, arrival: Arrival) {
        let Arrival { connection, address, first, ours, .. } = arrival;
        let now = self.shared.now();
        // A connection that the peer has given up meanwhile takes no other's place.
        if !ours && self.channel.is_some() && connection.close_reason().is_some() {
            return;
        }
        if let Some(channel) = self.channel.take() {
            let callers = ours == self.caller;
            let again = ours == channel.ours;
            // A call through the relay that was under way when the direct one came up.
            if ours && relayed_peer(address).is_some() && !self.is_relayed() && channel.ended().is_none() {
                connection.close(code::SUPERSEDED, b"there is a direct way");
                self.channel = Some(channel);
                return;
            }
            // A direct one beats one through the relay, whoever called.
            let alike = relayed_peer(address).is_some() == self.is_relayed();
            if alike && !callers && !again && channel.ended().is_none() && channel.since.elapsed() < MEETING {
                connection.close(code::SUPERSEDED, b"two connections met");
                self.channel = Some(channel);
                return;
            }
            if relayed_peer(address).is_some() {
                self.note_end_of_direct_way(now, channel.since.elapsed());
            }
            channel.close(code::SUPERSEDED, "another connection");
        }
        self.hang_up();
        if !ours && self.caller && relayed_peer(address).is_none() {
            self.direct.begin_anew_and_call_on();
        } else {
            self.direct.begin_anew();
        }
        if relayed_peer(address).is_some() && !self.is_relayed() {
            // What a direct way carries is more than fits the relay.
            self.payload.is = None;
        }
        if key_exchange_of(&connection) == KeyExchange::Classical {
            self.notice("keys are agreed on by X25519 alone, as classical = \"allow\" lets the peer: a quantum computer would open later what is recorded now".to_owned());
        }
        match &mut self.paths {
            Some(paths) => paths.connected(&connection, ours, address, &self.shared),
            None if self.mode == Mode::Identifier => self.address.is = Some(address),
            None => {}
        }
        self.connected_at = Some(address);
        if self.paths.is_none() {
            self.probe_round_trips(&connection, ours, address);
        }
        self.channel = Some(PeerConnection::start(connection, ours, first, &self.shared));
        (self.claimed, self.seen_at, self.told_seen) = (None, None, None);
        self.shared.with_roster(|roster| roster.expect_connection(self.id, address.ip()));
        self.shared.shared_counters.count(|counters| counters.connections += 1);
        if let Some(session) = &mut self.session {
            session.handle_connected(now);
        }
    }

    /// A try to connect has failed.
    pub(crate) fn failed(&mut self, why: &DisconnectReason) {
        if self.channel.is_some() {
            return;
        }
        let known = &self.reached.why;
        // A peer that was lost and does not answer is no news.
        if *known != why.text && (why.refused || known.is_empty()) {
            self.notice(format!("cannot connect: {}", why.advice()));
        }
        let reach = match (self.session.is_some(), why.refused) {
            (false, _) => self.reached.reach,
            (true, true) => ConnState::Refused,
            (true, false) => ConnState::Connecting,
        };
        self.enter(reach, why);
    }

    /// The connection is gone.
    pub(super) fn lose(&mut self, channel: PeerConnection, why: DisconnectReason) {
        let (ours, greeted) = (channel.ours, channel.greeted);
        if !why.superseded {
            self.note_end_of_direct_way(self.shared.now(), channel.since.elapsed());
        }
        channel.close(code::FAULT, &why.text);
        self.shared.shared_counters.count(|counters| counters.connections_lost += 1);
        if let Some(session) = &mut self.session {
            session.handle_disconnected(self.shared.now());
        }
        if let Some(paths) = &mut self.paths {
            paths.disconnected(&self.shared);
        }
        self.forget_round_trips();
        self.claimed = None;
        // A reason for which a peer is refused again and again is said once.
        if !why.superseded && (greeted || self.reached.why != why.text) {
            self.notice(format!("lost: {}", why.advice()));
        }
        let endpoint = self.dial.is_some();
        let reach = match (why.refused, endpoint) {
            (true, _) => ConnState::Refused,
            (false, true) => ConnState::Connecting,
            (false, false) => ConnState::Waiting,
        };
        let delay = match (why.refused, self.caller || ours) {
            (true, _) => LEFT_ALONE,
            (false, true) => Duration::ZERO,
            (false, false) => GRACE,
        };
        self.enter(reach, &why);
        self.call(delay);
    }
}
