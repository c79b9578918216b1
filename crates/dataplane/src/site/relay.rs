//! Packets of sites that do not reach each other, through a third one.
//!
//! ```text
//!  spoke A ── [A's packet for C] in a packet for the hub ──▶ hub ── the same in a packet for C ──▶ spoke C
//!               its flow: To, C                                     its flow: From, A
//! ```
//!
//! What is relayed are packets that A and C have made for each other, with keys that the hub does not have: those of frames, and those of
//! their management channel. The hub sees neither frames nor stations. To A and C the hub is a path like any other.
//!
//! **No loop.** A hub takes packets on the leg To alone, and sends them on the leg From alone; what comes on the leg From is opened here
//! and nowhere sent. So a packet is relayed once at most, whoever relays. A packet inside of a relayed one that is to be relayed, or was,
//! is discarded. **No copy.** A packet goes to one site, over one hub: the one that stands in the configuration. A and C take it once by
//! the windows that they have for each other.
//!
//! A packet goes to the peer whose public key begins as the flow says. A site that has no such peer, or does not reach it itself, discards it.
//!
//! **Nobody who does not want it.** A hub relays from A to C only while C sends to A through it, too: as long as both name the hub, one of
//! them dials or keeps its channel alive. So a site that does not name the other one gets nothing of it, whatever that sends.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use arrayvec::ArrayVec;
use netdev::udp::HEAD_OCTETS;
use tunnel::shaper::Class;
use tunnel::{Forwarding, PeerId, RelayLeg, SiteName};
use wire::Instant;
use wire::time::TokenBucket;

use super::counters::SitePathCounters;
use super::datagrams::DATAGRAM_OCTETS;
use super::endpoints::{Endpoints, Place, WanPort};
use super::inward::QUIC;
use super::marking::Mark;
use netdev::burst::BURST_FRAMES;

/// The port of addresses that stand for a relay.
const PORT: u16 = 1;

/// Time for which a peer that has sent to another one gets what that sends. A channel says something every second.
const WANTED: Duration = Duration::from_secs(10);
/// Packets of the management channel a second that no quota of data holds back: several each for as many peers as a site has.
const CHANNEL: u32 = 1000;
/// Peers of a site at most.
const PEERS: usize = 255;

/// The address that stands for a peer behind a relay in the management channel: of the network 0.0.0.0/8, from which no packet comes
/// (RFC 1122, 3.2.1.3).
pub const fn relay_address(peer: PeerId) -> SocketAddr {
    let [high, low] = peer.0.to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(0, 1, high, low)), PORT)
}

/// The peer for which such an address stands, also as a mapped one (RFC 4291, 2.5.5.2). `None` for any other address.
pub fn relayed_peer(address: SocketAddr) -> Option<PeerId> {
    match (address.ip().to_canonical(), address.port()) {
        (IpAddr::V4(ip), PORT) => match ip.octets() {
            [0, 1, high, low] => Some(PeerId(u16::from_be_bytes([high, low]))),
            _ => None,
        },
        _ => None,
    }
}

/// A packet of the management channel for a peer behind a relay.
#[derive(Clone, Debug)]
pub struct RelayedDatagram {
    /// The peer.
    pub peer: PeerId,
    /// The UDP payload.
    pub octets: ArrayVec<u8, { super::PACKET_OCTETS }>,
}

/// The peers to which a peer sends through this site, in the order of their numbers, each with the moment of its last packet.
#[derive(Debug)]
pub(super) struct SentTo(Vec<(PeerId, Instant)>);

impl SentTo {
    /// Memory for as many peers as a site can have.
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(PEERS))
    }

    fn note(&mut self, now: Instant, to: PeerId) {
        match self.0.binary_search_by_key(&to, |(peer, _)| *peer) {
            Ok(at) => self.0[at].1 = now,
            Err(at) if self.0.len() < PEERS => self.0.insert(at, (to, now)),
            Err(_) => {}
        }
    }

    fn has_lately(&self, now: Instant, to: PeerId) -> bool {
        let at = self.0.binary_search_by_key(&to, |(peer, _)| *peer);
        at.is_ok_and(|at| now.since(self.0[at].1) < WANTED)
    }

    fn forget(&mut self, peer: PeerId) {
        self.0.retain(|(known, _)| *known != peer);
    }
}

/// What is known of a peer.
#[derive(Debug)]
struct RelayPeer {
    name: Option<SiteName>,
    /// The peer that relays to it.
    hub: Option<PeerId>,
    /// Packets of it that are relayed, and packets that are relayed to it.
    quotas: [TokenBucket; 2],
    /// Packets of its management channels, which a flood of data does not hold back.
    channel: TokenBucket,
    sent_to: SentTo,
}

impl RelayPeer {
    const fn has_left(&self) -> bool {
        self.sent_to.0.capacity() == 0
    }
}

/// What is in a packet that is relayed, as far as is known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RelayedKind {
    /// A frame of this LAN; whether a packet of it has come before.
    Frame(Class, Mark, bool),
    /// The management channel of this site with a peer.
    Channel(PeerId),
    /// A packet of one peer for another one: of their management channel, or with a frame.
    OfOthers(PeerId, PeerId, bool),
}

/// A packet that waits for the end of the burst.
#[derive(Debug)]
struct Waiting {
    to: Place,
    kind: RelayedKind,
    head: ArrayVec<u8, HEAD_OCTETS>,
    end: usize,
}

/// Names and hubs of the peers, and packets on their way to or from a hub. Allocates when a peer comes, and not else.
#[derive(Debug)]
pub(super) struct Relays {
    per_second: u32,
    /// By number.
    peers: Vec<RelayPeer>,
    /// Sorted.
    by_name: Vec<(SiteName, PeerId)>,
    waiting: ArrayVec<Waiting, BURST_FRAMES>,
    /// Bodies of those that wait, one behind the other.
    octets: Box<[u8]>,
}

impl Relays {
    /// So many peers, none with a name. `per_second`: the packets of one peer that are relayed in a second, and those to one.
    pub(super) fn new(per_second: u32, peers: usize) -> Self {
        let mut relays = Self {
            per_second,
            peers: Vec::with_capacity(peers),
            by_name: Vec::new(),
            waiting: ArrayVec::new(),
            // Memory that nothing was written to is not there.
            octets: vec![0; BURST_FRAMES * DATAGRAM_OCTETS].into_boxed_slice(),
        };
        (0..peers).for_each(|_| relays.add(SentTo::new()));
        relays
    }

    /// A peer comes, with the next number and without a name.
    pub(super) fn add(&mut self, sent_to: SentTo) {
        let quotas = [TokenBucket::per_second(self.per_second); 2];
        let channel = TokenBucket::per_second(CHANNEL);
        self.peers.push(RelayPeer { name: None, hub: None, quotas, channel, sent_to });
        self.by_name.reserve(self.peers.len() - self.by_name.len());
    }

    /// Sets the name of a peer, and the peer that relays to it. A peer that is not there, or has left, gets none.
    pub(super) fn set(&mut self, peer: PeerId, name: SiteName, hub: Option<PeerId>) {
        let Some(known) = self.peers.get_mut(peer.index()).filter(|known| !known.has_left()) else { return };
        (known.name, known.hub) = (Some(name), hub);
        self.by_name.retain(|&(_, known)| known != peer);
        let at = self.by_name.partition_point(|&entry| entry < (name, peer));
        self.by_name.insert(at, (name, peer));
    }

    /// Forgets a peer that leaves. Its memory is to be dropped elsewhere.
    pub(super) fn remove(&mut self, peer: PeerId) -> Option<SentTo> {
        self.by_name.retain(|&(_, known)| known != peer);
        self.peers.iter_mut().for_each(|other| other.sent_to.forget(peer));
        let known = self.peers.get_mut(peer.index())?;
        (known.name, known.hub) = (None, None);
        // An empty vector has no memory.
        Some(std::mem::replace(&mut known.sent_to, SentTo(Vec::new())))
    }

    fn named(&self, name: SiteName) -> Option<PeerId> {
        let at = self.by_name.partition_point(|(known, _)| *known < name);
        self.by_name.get(at).filter(|(known, _)| *known == name).map(|(_, peer)| *peer)
    }

    fn name_of(&self, peer: PeerId) -> Option<SiteName> {
        self.peers.get(peer.index())?.name
    }

    /// The peer that relays to this one.
    pub(super) fn hub_of(&self, peer: PeerId) -> Option<PeerId> {
        self.peers.get(peer.index())?.hub
    }

    /// Packets that wait.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether [`Relays::drain`] is due before another packet is put.
    pub(super) const fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// Puts a packet for a peer behind a hub, in pieces. What cannot go is counted.
    pub(super) fn put_for(
        &mut self,
        now: Instant,
        (peer, hub): (PeerId, PeerId),
        kind: RelayedKind,
        pieces: [&[u8]; 2],
        (forwarding, endpoints): (&mut Forwarding, &Endpoints),
        counters: &mut SitePathCounters,
    ) {
        let Some(name) = self.name_of(peer) else { return counters.out_pkts_no_endpoint += 1 };
        self.put(now, (hub, kind), (RelayLeg::To, name), pieces, (forwarding, endpoints), counters);
    }

    /// Puts a packet of `from` for the site of this name: the hub's part.
    pub(super) fn put_on(
        &mut self,
        now: Instant,
        (from, site): (PeerId, SiteName),
        packet: &[u8],
        (forwarding, endpoints): (&mut Forwarding, &Endpoints),
        counters: &mut SitePathCounters,
    ) {
        let (Some(to), Some(name)) = (self.named(site), self.name_of(from)) else {
            return counters.in_relayed_unknown += 1;
        };
        // A peer behind a relay has no relay here: a packet is relayed once.
        if to == from || self.hub_of(to).is_some() || self.hub_of(from).is_some() {
            return counters.in_relayed_unknown += 1;
        }
        self.peers[from.index()].sent_to.note(now, to);
        if !self.peers[to.index()].sent_to.has_lately(now, from) {
            return counters.in_relayed_unknown += 1;
        }
        let is_channel = packet.first().is_some_and(|first| first & QUIC != 0);
        let admitted = is_channel && self.peers[from.index()].channel.take(now)
            || self.peers[from.index()].quotas[0].take(now) && self.peers[to.index()].quotas[1].take(now);
        if !admitted {
            return counters.in_relayed_quota += 1;
        }
        let kind = RelayedKind::OfOthers(from, to, is_channel);
        self.put(now, (to, kind), (RelayLeg::From, name), [packet, &[]], (forwarding, endpoints), counters);
    }

    /// The peer that a relayed packet is of. `None` if `hub` relays for no such peer, which is counted.
    pub(super) fn origin(
        &self,
        hub: PeerId,
        site: SiteName,
        counters: &mut SitePathCounters,
    ) -> Option<PeerId> {
        let origin = self.named(site).filter(|peer| self.hub_of(*peer) == Some(hub));
        counters.in_relayed_unknown += u64::from(origin.is_none());
        origin
    }

    fn put(
        &mut self,
        now: Instant,
        (to, kind): (PeerId, RelayedKind),
        leg: (RelayLeg, SiteName),
        pieces: [&[u8]; 2],
        (forwarding, endpoints): (&mut Forwarding, &Endpoints),
        counters: &mut SitePathCounters,
    ) {
        let Some((WanPort::Data, place)) = endpoints.of(to) else {
            return counters.out_pkts_no_endpoint += 1;
        };
        let octets = pieces.iter().map(|piece| piece.len()).sum();
        let begin = self.waiting.last().map_or(0, |last| last.end);
        let Some(room) = self.octets.get_mut(begin..begin + octets).filter(|_| !self.waiting.is_full())
        else {
            return counters.in_relayed_quota += 1;
        };
        let Some(head) = forwarding.relay(now, to, leg, octets) else { return };
        let (first, second) = room.split_at_mut(pieces[0].len());
        first.copy_from_slice(pieces[0]);
        second.copy_from_slice(pieces[1]);
        self.waiting.push(Waiting { to: place, kind, head, end: begin + octets });
    }

    /// Gives the packets that wait to `send`, in their order, and forgets them.
    pub(super) fn drain<'s>(
        &'s mut self,
        mut send: impl FnMut(RelayedKind, Place, ArrayVec<u8, HEAD_OCTETS>, &'s [u8]),
    ) {
        let mut begin = 0;
        let Self { waiting, octets, .. } = self;
        for Waiting { to, kind, head, end } in waiting.drain(..) {
            send(kind, to, head, &octets[begin..end]);
            begin = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_relay_is_no_other_address() {
        for number in [0, 1, 0x1234, 0xffff] {
            let address = relay_address(PeerId(number));
            assert_eq!(relayed_peer(address), Some(PeerId(number)));
            let IpAddr::V4(ip) = address.ip() else { panic!("IPv4") };
            let mapped = SocketAddr::new(ip.to_ipv6_mapped().into(), address.port());
            assert_eq!(relayed_peer(mapped), Some(PeerId(number)));
        }
        for other in ["0.0.0.1:1", "0.1.0.1:2", "10.1.0.1:1", "[::1:0:1]:1", "[2001:db8::1]:1"] {
            assert_eq!(relayed_peer(other.parse().expect("an address")), None, "{other}");
        }
    }

    #[test]
    fn peers_are_known_by_name_until_they_leave() {
        let mut relays = Relays::new(10, 4);
        let mut counters = SitePathCounters::default();
        relays.set(PeerId(3), [3; 20], Some(PeerId(1)));
        relays.set(PeerId(1), [1; 20], None);
        assert_eq!(relays.hub_of(PeerId(3)), Some(PeerId(1)));
        assert_eq!((relays.hub_of(PeerId(1)), relays.hub_of(PeerId(9))), (None, None));
        assert_eq!(relays.origin(PeerId(1), [3; 20], &mut counters), Some(PeerId(3)));
        assert_eq!(counters.in_relayed_unknown, 0);
        // Another hub than the configured one, and a peer that needs none.
        assert_eq!(relays.origin(PeerId(2), [3; 20], &mut counters), None);
        assert_eq!(relays.origin(PeerId(1), [1; 20], &mut counters), None);
        relays.remove(PeerId(3));
        // A word that was under way when it left, and one of a peer that is not there yet.
        relays.set(PeerId(3), [3; 20], Some(PeerId(1)));
        relays.set(PeerId(4), [4; 20], Some(PeerId(1)));
        assert_eq!(relays.origin(PeerId(1), [3; 20], &mut counters), None);
        assert_eq!(relays.origin(PeerId(1), [4; 20], &mut counters), None);
        assert_eq!(counters.in_relayed_unknown, 4);
    }

    #[test]
    fn a_peer_wants_packets_for_ten_seconds_after_its_own_until_the_other_one_leaves() {
        let at = |seconds| Instant::after_start(Duration::from_secs(seconds));
        let mut sent_to = SentTo::new();
        assert!(!sent_to.has_lately(at(0), PeerId(7)));
        sent_to.note(at(1), PeerId(7));
        sent_to.note(at(2), PeerId(3));
        assert!(sent_to.has_lately(at(10), PeerId(7)) && !sent_to.has_lately(at(11), PeerId(7)));
        sent_to.note(at(11), PeerId(7));
        assert!(sent_to.has_lately(at(12), PeerId(7)) && !sent_to.has_lately(at(12), PeerId(3)));
        sent_to.forget(PeerId(7));
        assert!(!sent_to.has_lately(at(12), PeerId(7)));
    }
}
