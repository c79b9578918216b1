//! A peer: its session, its connection if there is one, and where its data goes.

mod connecting;
mod round_trips;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use suite::identity::PublicKey;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tunnel::{ChannelState, Command, Message, Mode, PeerId, Session, SiteName, Stream};

use super::connection::{Incoming, PeerConnection};
use super::dial::Dial;
use super::direct::Direct;
use super::error::DisconnectReason;
use super::paths::PeerPaths;
use super::settings::{ManagerPath, ManagerPeer};
use super::shared::Shared;
use super::status::{ConnState, PeerStatus, canonical};
use super::tls::key_exchange_of;
use super::unproved_move::UnprovedMove;
use dataplane::site::{LanFrame, ToWorker, relayed_peer};
use round_trips::RoundTripProbes;

/// Time for which the site with the higher key waits for the other one's connection, before it connects itself.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// Time for which a smaller path MTU of a new connection is not believed: the search for it still runs.
const SEARCHING: Duration = Duration::from_secs(5);
/// An address that moves to and fro is a notice at most so often.
const MOVES: Duration = Duration::from_secs(5);
/// Messages that are handled in one turn.
const MESSAGES: usize = 64;

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    id: PeerId,
    /// Whether this site's key is the lower one.
    caller: bool,
    mode: Mode,
    session: Option<Session>,
    channel: Option<PeerConnection>,
    dial: Option<Arc<Dial>>,
    dialling: Option<AbortHandle>,
    following: Option<Following>,
    reached: Reached,
    address: LastSent<Option<SocketAddr>>,
    payload: LastSent<Option<u16>>,
    /// How relayed packets name it, and which peer relays to it.
    relay: LastSent<Option<(SiteName, Option<PeerId>)>>,
    public_key: Option<PublicKey>,
    via: Option<PublicKey>,
    direct: Direct,
    /// Address to which its last connection was made without a relay.
    connected_at: Option<SocketAddr>,
    /// QUIC has seen it at another address, which is not proved yet.
    claimed: Option<UnprovedMove>,
    /// This site's address as the peer sees it; and the address of the peer that it was told on this connection.
    seen_at: Option<SocketAddr>,
    told_seen: Option<SocketAddr>,
    /// Moment of the last notice of a move.
    move_told: Option<wire::Instant>,
    /// Several paths to it, if it is configured so.
    paths: Option<PeerPaths>,
    /// Probes of the one way to it otherwise, while it is connected without a relay.
    round_trips: Option<RoundTripProbes>,
    shared: Arc<Shared>,
}

/// Looks the endpoint of a peer up whose data goes there: now, after a while, and when the peer is elsewhere.
#[derive(Debug)]
pub(super) struct Following {
    task: AbortHandle,
    /// Has it looked up at once.
    at_once: Arc<Notify>,
    /// Address of the channel at the last look-up.
    channel_at: Option<SocketAddr>,
}

impl Following {
    pub(super) const fn new(task: AbortHandle, at_once: Arc<Notify>) -> Self {
        Self { task, at_once, channel_at: None }
    }

    /// The channel is there. The peer's name may have another address, too.
    fn look_at(&mut self, channel: SocketAddr) {
        if self.channel_at.replace(channel) != Some(channel) {
            self.at_once.notify_one();
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// State of its channel, since when, and why: a reason goes with the state that it explains.
#[derive(Debug)]
struct Reached {
    reach: ConnState,
    since: wire::Instant,
    /// Why the channel was lost, or could not be had; empty if nothing went wrong since it was there.
    why: String,
    /// Cure; empty if it is not known.
    cure: &'static str,
}

/// Something that the worker has to know: what it is, and what it was told last.
#[derive(Debug, Default)]
struct LastSent<T> {
    is: T,
    told: T,
}

impl Peer {
    /// A peer without a connection, which is dialled at once if `dial` is there.
    pub(super) fn new(
        id: PeerId,
        settings: &ManagerPeer,
        caller: bool,
        session: Option<Session>,
        dial: Option<Arc<Dial>>,
        following: Option<Following>,
        shared: &Arc<Shared>,
    ) -> Self {
        let mut peer = Self {
            id,
            caller,
            mode: settings.mode,
            session,
            channel: None,
            dial,
            dialling: None,
            following,
            reached: Reached {
                reach: ConnState::at_first(settings),
                since: shared.now(),
                why: String::new(),
                cure: "",
            },
            address: LastSent::default(),
            payload: LastSent::default(),
            relay: LastSent::default(),
            public_key: settings.public_key,
            via: settings.via,
            direct: Direct::default(),
            connected_at: None,
            claimed: None,
            seen_at: None,
            told_seen: None,
            move_told: None,
            paths: None,
            round_trips: None,
            shared: Arc::clone(shared),
        };
        peer.call(if caller { Duration::ZERO } else { GRACE });
        peer
    }

    /// The same with several paths, if there are some.
    pub(super) fn with_paths(self, paths: Option<PeerPaths>) -> Self {
        Self { paths, ..self }
    }

    /// The same, called at once if it has an endpoint.
    pub(super) fn at_once(mut self) -> Self {
        self.call(Duration::ZERO);
        self
    }

    /// This site's address as the peer sees it.
    pub(super) fn seen_at(&self) -> Option<SocketAddr> {
        self.channel.as_ref().and(self.seen_at)
    }

    /// Whether programs in the kernel may forward its frames: not if it has several paths, or encrypts headers.
    pub(super) const fn may_have_programs(&self) -> bool {
        self.paths.is_none() && !matches!(self.mode, Mode::HeaderEncryption)
    }

    /// Whether it has paths, and the settings say other ones.
    pub(super) fn has_other_paths(&self, settings: &ManagerPeer) -> bool {
        self.paths.as_ref().is_some_and(|paths| !paths.are_as(settings))
    }

    /// Takes other paths; one that is as before goes on.
    pub(super) fn change_paths(
        &mut self,
        settings: &ManagerPeer,
        dial: Option<Arc<Dial>>,
        follow: impl Fn(u8, &ManagerPath) -> Option<AbortHandle>,
    ) {
        if let Some(paths) = &mut self.paths {
            paths.change(settings, follow);
        }
        self.dial = dial;
        if self.channel.is_none() {
            self.call(Duration::ZERO);
        }
    }

    /// The endpoint of a path was looked up.
    pub(super) fn path_resolved(&mut self, number: u8, found: Result<Vec<SocketAddr>, DisconnectReason>) {
        if let Some(paths) = &mut self.paths {
            paths.resolved(number, found);
        }
    }

    /// Addresses that its packets to this site's data port come from, each proved by a handshake, a Ping or a probe. They stay when the
    /// connection is gone: it is made anew from there.
    pub(super) fn sends_from(&self) -> Vec<SocketAddr> {
        let of_paths = self.paths.as_ref().map(PeerPaths::addresses).unwrap_or_default();
        let here = match (&self.paths, self.mode) {
            // It moves by Pings.
            (None, Mode::Identifier) => self.address.is,
            _ => self.connected_at,
        };
        here.into_iter().chain(of_paths).filter(|address| relayed_peer(*address).is_none()).collect()
    }

    pub(super) const fn id(&self) -> PeerId {
        self.id
    }

    /// Whether it has a channel, is not connected, and may be who calls from an address, which is its own or not.
    pub(super) const fn is_waited_for(&self, is_its_address: bool) -> bool {
        self.session.is_some() && self.channel.is_none() && (is_its_address || self.dial.is_none())
    }

    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    fn enter(&mut self, reach: ConnState, why: &DisconnectReason) {
        let same = self.reached.reach == reach;
        let since = if same { self.reached.since } else { self.shared.now() };
        self.reached = Reached { reach, since, why: why.text.clone(), cure: why.certain_cure() };
    }

    fn notice(&self, text: String) {
        self.shared.board.notice(&self.shared.shared_counters, Some(self.id), text);
    }

    /// Somebody is elsewhere than before.
    fn notice_move(&mut self, now: wire::Instant, whose: &str, before: SocketAddr, is: SocketAddr) {
        if before != is && self.move_told.is_none_or(|told| now.since(told) >= MOVES) {
            self.move_told = Some(now);
            let (before, is) = (canonical(before), canonical(is));
            self.notice(format!("{whose} {is}, {before} before: a NAT on the way or an address has changed"));
        }
    }

    /// Takes the addresses of a peer with a fixed endpoint: it keeps its address for as long as its name has it.
    pub(super) fn addresses_resolved(&mut self, addresses: &[SocketAddr]) {
        if self.address.is.is_none_or(|address| !addresses.contains(&address)) {
            self.address.is = addresses.first().copied();
        }
    }

    /// An event of the worker about this peer.
    pub(super) fn handle_event(&mut self, now: wire::Instant, event: tunnel::Event) {
        if let Some(session) = &mut self.session {
            session.handle_event(now, event);
        }
    }

    /// What this site has counted of packets of this peer.
    pub(super) fn handle_octets(&mut self, octets: tunnel::PacketOctets) {
        if let Some(session) = &mut self.session {
            session.handle_octets(octets);
        }
    }

    /// An EAPOL frame of the LAN.
    pub(super) fn send_mkpdu(&self, frame: &LanFrame) {
        if let Some(channel) = &self.channel {
            channel.send_mkpdu(frame.clone());
        }
    }

    /// Turns connection and session, and checks the path if it is time to; MKPDUs go to `lan`. Whether there is
    /// more to do at once.
    pub(super) fn turn(&mut self, now: wire::Instant, path: bool, mut lan: impl FnMut(LanFrame)) -> bool {
        if path && let Some(paths) = &mut self.paths {
            paths.look_for_interfaces(now, &self.shared);
        }
        let Some(mut channel) = self.channel.take() else { return false };
        if let Some(error) = channel.ended() {
            self.lose(channel, DisconnectReason::of(&error, None));
            return false;
        }
        let Some(session) = &mut self.session else { return false };
        let (mut left, mut moves) = (MESSAGES, Vec::new());
        let fault = loop {
            if left == 0 {
                break None;
            }
            left -= 1;
            let handled = match channel.incoming.try_recv() {
                Ok(Incoming::Message(message)) => {
                    self.shared.shared_counters.count(|counters| counters.in_messages += 1);
                    if let Message::SeenAt { address } = message
                        && let Some(before) = self.seen_at.replace(address)
                    {
                        moves.push(("it sees this site at", before, address));
                    }
                    if let Message::Pong { token } = message
                        && let Some(claimed) = self.claimed.take()
                        && claimed.is_proved_by(token, channel.connection.remote_address())
                    {
                        let before =
                            take_on_moved_peer(self.id, claimed.address, &mut self.address, &self.shared);
                        moves.extend(before.map(|before| ("it is now at", before, claimed.address)));
                    }
                    if let Message::ReachableAt { address } = message {
                        self.direct.peer_says(address);
                    }
                    session.handle_message(now, message)
                }
                Ok(Incoming::Malformed(error)) => Err(session.handle_malformed(now, error)),
                Ok(Incoming::Skipped) => {
                    session.handle_skipped();
                    Ok(())
                }
                Ok(Incoming::Mkpdu(frame)) => {
                    lan(*frame);
                    Ok(())
                }
                Err(_) => break None,
            };
            if let Err(fault) = handled {
                break Some(fault);
            }
        };
        for (whose, before, is) in moves {
            self.notice_move(now, whose, before, is);
        }
        if let Some(fault) = fault {
            self.shared.shared_counters.count(|counters| counters.in_faults += 1);
            self.lose(channel, DisconnectReason::fault(&fault));
            return false;
        }
        if path {
            match &mut self.paths {
                Some(paths) => {
                    let seen = channel.connection.remote_address();
                    let notices = paths.look(now, seen, &self.shared);
                    notices.into_iter().for_each(|text| self.notice(text));
                }
                None => self.note_new_address(&channel),
            }
            if let Some(round_trips) = &mut self.round_trips {
                round_trips.turn(now, channel.connection.remote_address(), &self.shared);
            }
        }
        self.channel = Some(channel);
        left == 0
    }

    /// Notes a new address of the peer, or at the old one the MTU of its path.
    fn note_new_address(&mut self, channel: &PeerConnection) {
        let address = channel.connection.remote_address();
        // A relay that sends the peer's packets from an address of its own is no direct way: only a call is.
        if self.is_relayed() && relayed_peer(address).is_none() {
            self.claimed = None;
            return;
        }
        if self.mode == Mode::Identifier && self.address.is != Some(address) {
            // Not believed before it is proved; nor is the path.
            if self.claimed.as_ref().is_none_or(|claimed| claimed.address != address) {
                self.claimed = Some(UnprovedMove::new(address));
            }
            return;
        }
        if let Some(following) = &mut self.following {
            following.look_at(address);
        }
        self.claimed = None;
        let payload = channel.connection.stats().path.current_mtu;
        let believed =
            channel.since.elapsed() > SEARCHING || self.payload.is.is_none_or(|before| payload > before);
        if believed {
            self.payload.is = Some(payload);
        }
    }

    /// Sends the session's messages, as far as there is room.
    pub(super) fn send_messages(&mut self, now: wire::Instant) {
        let (Some(session), Some(channel)) = (&mut self.session, &mut self.channel) else { return };
        if session.poll_timeout().is_some_and(|due| due <= now) {
            session.handle_timeout(now);
        }
        while channel.has_room() {
            let Some((stream, message)) = session.poll_message() else { break };
            channel.send(stream, &message);
        }
        if session.state().channel != ChannelState::Up {
            return;
        }
        if let Some(claimed) = &mut self.claimed
            && claimed.elsewhere.is_none()
            && let Some(before) = self.address.is
        {
            let sent = self.shared.socket.watch(before);
            if channel.send(Stream::Control, &Message::Ping { token: claimed.token }) {
                claimed.elsewhere = Some(sent);
            }
        }
        let at = canonical(channel.connection.remote_address());
        let relayed = relayed_peer(at).is_some();
        if !relayed
            && self.told_seen != Some(at)
            && channel.send(Stream::Control, &Message::SeenAt { address: at })
        {
            self.told_seen = Some(at);
        }
        if !channel.greeted {
            channel.greeted = true;
            self.reached = Reached { reach: ConnState::Connected, since: now, why: String::new(), cure: "" };
            self.notice(if relayed {
                "connected through the relay".to_owned()
            } else {
                format!("connected at {at}")
            });
        }
    }

    /// The next command for the worker.
    pub(super) fn next_command(&mut self) -> Option<ToWorker> {
        if let Some(command) = self.paths.as_mut().and_then(PeerPaths::next_command) {
            return Some(command);
        }
        if self.address.is != self.address.told {
            self.address.told = self.address.is;
            // The worker knows the way to a relay.
            let address = self.address.is.filter(|address| relayed_peer(*address).is_none());
            return Some(ToWorker::Endpoint { peer: self.id, address });
        }
        if self.relay.is != self.relay.told {
            self.relay.told = self.relay.is;
            let (name, hub) = self.relay.is?;
            return Some(ToWorker::Relay { peer: self.id, name, hub });
        }
        if self.payload.is != self.payload.told {
            self.payload.told = self.payload.is;
            let octets = usize::from(self.payload.is?);
            return Some(ToWorker::Tunnel(Command::PathPayload { peer: self.id, octets }));
        }
        let command = self.session.as_mut()?.poll_command()?;
        if let Command::Begin { peer, generation } = command {
            self.shared.with_roster(|roster| roster.begin(peer, generation));
        }
        Some(ToWorker::Tunnel(command))
    }

    /// Moment at which the session wants to be called.
    pub(super) fn poll_timeout(&self) -> Option<wire::Instant> {
        self.session.as_ref()?.poll_timeout()
    }

    pub(super) fn status(&self) -> PeerStatus {
        let connected = self.channel.as_ref();
        let (paths, now) = (self.paths.as_ref(), self.shared.now());
        let quic = connected.map(|channel| channel.connection.rtt());
        PeerStatus {
            peer: self.id,
            reach: self.reached.reach,
            since: self.reached.since,
            reason: self.reached.why.clone(),
            cure: self.reached.cure,
            relayed: self.is_relayed(),
            not_direct: if self.is_relayed() { self.direct.why.clone() } else { String::new() },
            address: paths
                .map_or(self.address.is, PeerPaths::address)
                .filter(|_| !self.is_relayed())
                .map(canonical),
            round_trip: paths.and(connected).and_then(|_| paths?.round_trip(now)).or(quic),
            round_trips: self.round_trips.as_ref().and_then(|probes| probes.round_trips(now)),
            path_payload: paths.map_or(self.payload.is, PeerPaths::payload),
            seen_at: connected.and(self.seen_at),
            key_exchange: connected.map(|channel| key_exchange_of(&channel.connection)),
            session: self.session.as_ref().map(Session::state),
            paths: paths.map(|paths| paths.statuses(now)).unwrap_or_default(),
        }
    }
}

/// Takes a moved peer on at its new address, which it has proved: from here on its data goes there, and its connections are
/// expected from there. Returns the address of before.
fn take_on_moved_peer(
    id: PeerId,
    proved: SocketAddr,
    address: &mut LastSent<Option<SocketAddr>>,
    shared: &Shared,
) -> Option<SocketAddr> {
    shared.with_roster(|roster| roster.expect_connection(id, proved.ip()));
    address.is.replace(proved)
}
