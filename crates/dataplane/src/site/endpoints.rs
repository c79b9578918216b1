//! Endpoints of the peers, by number and by address.
//!
//! | mode | port | a packet is the peer's |
//! |---|---|---|
//! | identifier | data | by its identifier, wherever it comes from |
//! | header encryption | header | if it comes from the peer's very address and port |
//! | plain | plain | if it comes from the peer's address; VXLAN sends from any port |

use std::net::{IpAddr, SocketAddr};

use tunnel::{Mode, PeerId};

/// One of a site's UDP ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum WanPort {
    /// Identifier mode, and the management channel.
    Data,
    /// Header encryption.
    Header,
    /// Plain mode.
    Plain,
}

impl WanPort {
    pub(super) const ALL: [Self; 3] = [Self::Data, Self::Header, Self::Plain];

    pub(super) const fn of(mode: Mode) -> Self {
        match mode {
            Mode::Identifier => Self::Data,
            Mode::HeaderEncryption => Self::Header,
            Mode::Plain { .. } => Self::Plain,
        }
    }
}

/// Key by which a peer is found: address, and port where it counts.
type Key = (WanPort, IpAddr, u16);

/// Endpoints of the peers. Allocates when a peer comes, and not else.
#[derive(Debug)]
pub(super) struct Endpoints {
    /// By number.
    peers: Vec<(WanPort, Option<SocketAddr>)>,
    /// Sorted. Peers that are found by identifier are not among them.
    by_address: Vec<(Key, PeerId)>,
}

impl Endpoints {
    /// Peers of these modes, none with an address.
    pub(super) fn new(modes: impl Iterator<Item = Mode>) -> Self {
        let peers: Vec<_> = modes.map(|mode| (WanPort::of(mode), None)).collect();
        Self { by_address: Vec::with_capacity(peers.len()), peers }
    }

    /// A peer comes, with the next number and without an address.
    pub(super) fn add(&mut self, mode: Mode) {
        self.peers.push((WanPort::of(mode), None));
        self.by_address.reserve(self.peers.len() - self.by_address.len());
    }

    /// Sets a peer's address. `None`: it is unknown.
    pub(super) fn set(&mut self, peer: PeerId, address: Option<SocketAddr>) {
        let Some((wan_port, place)) = self.peers.get_mut(peer.index()) else { return };
        let address = address.map(|to| match to {
            // Without flow information and mapped addresses, as received packets are.
            SocketAddr::V6(six) if six.ip().to_ipv4_mapped().is_none() => to,
            _ => SocketAddr::new(to.ip().to_canonical(), to.port()),
        });
        *place = address;
        let wan_port = *wan_port;
        self.by_address.retain(|&(_, known)| known != peer);
        let Some(key) = address.and_then(|address| key(wan_port, address)) else { return };
        let at = self.by_address.partition_point(|&entry| entry < (key, peer));
        self.by_address.insert(at, (key, peer));
    }

    /// A peer's UDP port here, and its address.
    pub(super) fn of(&self, peer: PeerId) -> Option<(WanPort, SocketAddr)> {
        let (wan_port, address) = *self.peers.get(peer.index())?;
        Some((wan_port, address?))
    }

    /// The peer whose packet came from an address to a port.
    pub(super) fn peer_at(&self, wan_port: WanPort, from: SocketAddr) -> Option<PeerId> {
        let wanted = key(wan_port, from)?;
        let at = self.by_address.partition_point(|(key, _)| *key < wanted);
        self.by_address.get(at).filter(|(key, _)| *key == wanted).map(|(_, peer)| *peer)
    }
}

fn key(wan_port: WanPort, address: SocketAddr) -> Option<Key> {
    match wan_port {
        WanPort::Data => None,
        WanPort::Header => Some((wan_port, address.ip(), address.port())),
        WanPort::Plain => Some((wan_port, address.ip(), 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_found_as_their_mode_says() {
        let modes =
            [Mode::Identifier, Mode::HeaderEncryption, Mode::HeaderEncryption, Mode::Plain { vni: 7 }];
        let mut endpoints = Endpoints::new(modes.into_iter());
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let places = ["192.0.2.1:7787", "192.0.2.1:7788", "[::ffff:192.0.2.2]:7788", "192.0.2.3:4789"];
        for (number, place) in places.into_iter().enumerate() {
            assert_eq!(endpoints.of(PeerId(number as u16)), None);
            endpoints.set(PeerId(number as u16), Some(address(place)));
        }
        assert_eq!(endpoints.of(PeerId(0)), Some((WanPort::Data, address("192.0.2.1:7787"))));
        assert_eq!(endpoints.of(PeerId(2)), Some((WanPort::Header, address("192.0.2.2:7788"))));
        assert_eq!(endpoints.of(PeerId(4)), None);
        for (wan_port, from, peer) in [
            (WanPort::Data, "192.0.2.1:7787", None),
            (WanPort::Header, "192.0.2.1:7788", Some(1)),
            (WanPort::Header, "192.0.2.1:7787", None),
            (WanPort::Header, "192.0.2.2:7788", Some(2)),
            (WanPort::Header, "192.0.2.3:4789", None),
            (WanPort::Plain, "192.0.2.3:4789", Some(3)),
            (WanPort::Plain, "192.0.2.3:50000", Some(3)),
            (WanPort::Plain, "192.0.2.1:7788", None),
        ] {
            assert_eq!(endpoints.peer_at(wan_port, address(from)), peer.map(PeerId), "{wan_port:?} {from}");
        }
        endpoints.set(PeerId(1), Some(address("192.0.2.9:1")));
        endpoints.set(PeerId(9), Some(address("192.0.2.9:2")));
        assert_eq!(endpoints.peer_at(WanPort::Header, address("192.0.2.1:7788")), None);
        assert_eq!(endpoints.peer_at(WanPort::Header, address("192.0.2.9:1")), Some(PeerId(1)));
        endpoints.set(PeerId(1), None);
        assert_eq!(endpoints.peer_at(WanPort::Header, address("192.0.2.9:1")), None);
        assert_eq!(endpoints.peer_at(WanPort::Header, address("192.0.2.2:7788")), Some(PeerId(2)));
    }
}
