//! Ways of QUIC's packets to peers with several paths.
//!
//! QUIC sees such a peer at one address. Its packets go over all paths that carry packets, and those that come over any of them
//! are shown as coming from that address. QUIC takes each packet once, so the channel lives as long as one path does, and knows
//! nothing of the others. Packets longer than every path carries, which search for a path's MTU, go over one.
//!
//! Who calls takes answers only from where he has called, and nobody knows by which path his call has come. So the handshake's
//! answers leave by each way out of this box that a path has, besides the one that the box's routes say. That multiplies what an
//! unproved caller is sent (RFC 9000, 8.1: three times what it has sent at most), so there a caller proves its address first ([`super::answer`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use dataplane::site::{PATHS, Place};
use netdev::udp::Source;
use tunnel::PeerId;

use super::paths::reaches;
use super::status::canonical;

/// Callers that are remembered: as many as handshakes are under way at most.
const CALLERS: usize = 32;

/// The way to one peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Route {
    /// Where QUIC sees the peer.
    pub(super) seen: SocketAddr,
    /// Where it is; the first one is preferred.
    pub(super) places: Vec<Place>,
}

/// The ways to all peers.
#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: BTreeMap<PeerId, Route>,
    /// Ways out of this box of the peers' paths.
    sources: BTreeMap<PeerId, Vec<Source>>,
    /// Addresses that have called lately.
    callers: VecDeque<SocketAddr>,
}

impl Routes {
    /// Sets a peer's way, or forgets it.
    pub(super) fn set(&mut self, peer: PeerId, route: Option<Route>) {
        match route {
            Some(route) => drop(self.routes.insert(peer, route)),
            None => drop(self.routes.remove(&peer)),
        }
    }

    /// Sets the ways out of this box of a peer's paths.
    pub(super) fn set_sources(&mut self, peer: PeerId, sources: Vec<Source>) {
        if sources.is_empty() {
            self.sources.remove(&peer);
        } else {
            self.sources.insert(peer, sources);
        }
    }

    /// Somebody who knows this site's public key has called from here.
    pub(super) fn note_caller(&mut self, from: SocketAddr) {
        if self.sources.is_empty() || self.callers.contains(&from) {
            return;
        }
        if self.callers.len() == CALLERS {
            self.callers.pop_front();
        }
        self.callers.push_back(from);
    }

    /// Whether a handshake's answers leave by several ways: so they are several times what QUIC means to send.
    pub(super) fn answers_by_several_ways(&self) -> bool {
        self.sources.values().flatten().any(|source| !source.is_any())
    }

    /// Where a packet of a handshake goes besides the way that the box's routes say.
    pub(super) fn answers(&self, to: SocketAddr, packet: &[u8]) -> Vec<Place> {
        const LONG: u8 = 0x80;
        if packet.first().is_none_or(|first| first & LONG == 0) || !self.callers.contains(&to) {
            return Vec::new();
        }
        let sources: BTreeSet<Source> = self.sources.values().flatten().copied().collect();
        let others = sources.into_iter().filter(|source| !source.is_any() && reaches(source, to));
        others.take(PATHS).map(|source| Place { to, source }).collect()
    }

    /// Places of a peer that QUIC sees at this address.
    pub(super) fn of(&self, seen: SocketAddr) -> Option<&[Place]> {
        self.routes.values().find(|route| route.seen == seen).map(|route| &route.places[..])
    }

    /// Address at which QUIC sees who has sent from here.
    pub(super) fn seen(&self, from: SocketAddr) -> SocketAddr {
        let plain = canonical(from);
        let comes_from = |route: &&Route| route.places.iter().any(|place| canonical(place.to) == plain);
        self.routes.values().find(comes_from).map_or(from, |route| route.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshakes_answers_to_a_caller_leave_by_each_way_out() {
        let way = |address: &str| Source { address: Some(address.parse().expect("one")), interface: 0 };
        let (one, two, six) = (way("198.51.100.1"), way("203.0.113.1"), way("2001:db8::1"));
        let caller: SocketAddr = "192.0.2.1:7".parse().expect("one");
        let (handshake, later) = ([0xc0; 1200], [0x40; 1200]);
        let mut routes = Routes::default();
        routes.note_caller(caller);
        routes.set_sources(PeerId(1), vec![one, two, six]);
        routes.set_sources(PeerId(2), vec![two, Source::default()]);
        assert_eq!(routes.answers(caller, &handshake), [], "nobody has called");
        routes.note_caller(caller);
        let places = [one, two].map(|source| Place { to: caller, source });
        assert_eq!(routes.answers(caller, &handshake), places);
        assert_eq!(routes.answers(caller, &later), [], "the connection stands");
        for port in 0..CALLERS as u16 {
            routes.note_caller(SocketAddr::from(([192, 0, 2, 2], port)));
        }
        assert_eq!((routes.callers.len(), routes.answers(caller, &handshake)), (CALLERS, Vec::new()));
    }
}
