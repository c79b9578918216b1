//! Ways of QUIC's packets to peers with several paths.
//!
//! QUIC sees such a peer at one address. Its packets go over all paths that carry packets, and those that come over any of them
//! are shown as coming from that address. QUIC takes each packet once, so the channel lives as long as one path does, and knows
//! nothing of the others. Packets longer than every path carries, which search for a path's MTU, go over one.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use dataplane::site::Place;
use tunnel::PeerId;

use super::status::canonical;

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
pub(super) struct Routes(BTreeMap<PeerId, Route>);

impl Routes {
    /// Sets a peer's way, or forgets it.
    pub(super) fn set(&mut self, peer: PeerId, route: Option<Route>) {
        match route {
            Some(route) => drop(self.0.insert(peer, route)),
            None => drop(self.0.remove(&peer)),
        }
    }

    /// Places of a peer that QUIC sees at this address.
    pub(super) fn of(&self, seen: SocketAddr) -> Option<&[Place]> {
        self.0.values().find(|route| route.seen == seen).map(|route| &route.places[..])
    }

    /// Address at which QUIC sees who has sent from here.
    pub(super) fn seen(&self, from: SocketAddr) -> SocketAddr {
        let plain = canonical(from);
        let comes_from = |route: &&Route| route.places.iter().any(|place| canonical(place.to) == plain);
        self.0.values().find(comes_from).map_or(from, |route| route.seen)
    }
}
