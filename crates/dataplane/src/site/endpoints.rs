//! Endpoints of the peers, by number and by address.
//!
//! | mode | port | a packet is the peer's |
//! |---|---|---|
//! | identifier | data | by its identifier, wherever it comes from |
//! | header encryption | header | if it comes from the peer's very address and port |
//! | plain | plain | if it comes from the peer's address; VXLAN sends from any port |
//!
//! A peer in identifier mode may have several paths, of which one is preferred. Some frames go over all of them ([`Copies`]).

use std::net::{IpAddr, SocketAddr};

use arrayvec::ArrayVec;
use netdev::udp::Source;
use tunnel::{Mode, PeerId};

use super::copies::Copies;

/// Paths to a peer at most.
pub const PATHS: usize = 4;

/// One end of a path: where packets go, and where they leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The peer's address.
    pub to: SocketAddr,
    /// The way out of this box.
    pub source: Source,
}

/// A peer's places, and what goes to which.
#[derive(Debug)]
struct Known {
    wan_port: WanPort,
    /// By the number of the path.
    places: [Option<Place>; PATHS],
    preferred: usize,
    copies: Copies,
}

impl Known {
    const fn new(mode: Mode) -> Self {
        let wan_port = WanPort::of(mode);
        Self { wan_port, places: [None; PATHS], preferred: 0, copies: Copies::None }
    }
}

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
    peers: Vec<Known>,
    /// Sorted. Peers that are found by identifier are not among them.
    by_address: Vec<(Key, PeerId)>,
    /// Whether express frames of any peer go over all of its paths.
    express_copies: bool,
}

impl Endpoints {
    /// Peers of these modes, none with an address.
    pub(super) fn new(modes: impl Iterator<Item = Mode>) -> Self {
        let peers: Vec<_> = modes.map(Known::new).collect();
        Self { by_address: Vec::with_capacity(peers.len()), peers, express_copies: false }
    }

    /// A peer comes, with the next number and without an address.
    pub(super) fn add(&mut self, mode: Mode) {
        self.peers.push(Known::new(mode));
        self.by_address.reserve(self.peers.len() - self.by_address.len());
    }

    /// Sets the address of a peer with a single path. `None`: it is unknown.
    pub(super) fn set(&mut self, peer: PeerId, address: Option<SocketAddr>) {
        let Some(known) = self.peers.get_mut(peer.index()) else { return };
        let address = address.map(unmapped);
        known.places = [address.map(|to| Place { to, source: Source::default() }), None, None, None];
        let wan_port = known.wan_port;
        self.by_address.retain(|&(_, known)| known != peer);
        let Some(key) = address.and_then(|address| key(wan_port, address)) else { return };
        let at = self.by_address.partition_point(|&entry| entry < (key, peer));
        self.by_address.insert(at, (key, peer));
    }

    /// Sets one path of a peer in identifier mode. `None`: it is not to be used.
    pub(super) fn set_path(&mut self, peer: PeerId, number: u8, place: Option<Place>) {
        let known = self.peers.get_mut(peer.index());
        if let Some(path) = known.and_then(|known| known.places.get_mut(usize::from(number))) {
            *path = place.map(|Place { to, source }| Place { to: unmapped(to), source });
        }
    }

    /// Sets the path over which a peer's frames go if they go over one.
    pub(super) fn prefer(&mut self, peer: PeerId, number: u8) {
        if let Some(known) = self.peers.get_mut(peer.index()) {
            known.preferred = usize::from(number).min(PATHS - 1);
        }
    }

    /// Sets which frames go over all paths of a peer.
    pub(super) fn set_copies(&mut self, peer: PeerId, copies: Copies) {
        if let Some(known) = self.peers.get_mut(peer.index()) {
            known.copies = copies;
        }
        self.express_copies = self.peers.iter().any(|known| known.copies == Copies::Express);
    }

    /// Whether express frames of any peer go over all of its paths.
    pub(super) const fn has_express_copies(&self) -> bool {
        self.express_copies
    }

    /// A peer's UDP port here, and its place.
    pub(super) fn of(&self, peer: PeerId) -> Option<(WanPort, Place)> {
        let known = self.peers.get(peer.index())?;
        let place =
            known.places[known.preferred].or_else(|| known.places.iter().flatten().next().copied())?;
        Some((known.wan_port, place))
    }

    /// Which frames go over all paths of a peer, and its places besides the one of [`Self::of`].
    pub(super) fn others(&self, peer: PeerId) -> (Copies, ArrayVec<Place, { PATHS - 1 }>) {
        let mut others = ArrayVec::new();
        let Some(known) = self.peers.get(peer.index()).filter(|known| known.copies != Copies::None) else {
            return (Copies::None, others);
        };
        let first = known.places[known.preferred].map(|_| known.preferred);
        let first = first.or_else(|| known.places.iter().position(Option::is_some));
        let of = |(number, place): (usize, &Option<Place>)| place.filter(|_| Some(number) != first);
        others.extend(known.places.iter().enumerate().filter_map(of).take(PATHS - 1));
        (known.copies, others)
    }

    /// The peer whose packet came from an address to a port.
    pub(super) fn peer_at(&self, wan_port: WanPort, from: SocketAddr) -> Option<PeerId> {
        let wanted = key(wan_port, from)?;
        let at = self.by_address.partition_point(|(key, _)| *key < wanted);
        self.by_address.get(at).filter(|(key, _)| *key == wanted).map(|(_, peer)| *peer)
    }
}

/// An address without flow information, and not mapped, as those of received packets are.
fn unmapped(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V6(six) if six.ip().to_ipv4_mapped().is_none() => to,
        _ => SocketAddr::new(to.ip().to_canonical(), to.port()),
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
        let place = |to| Place { to: address(to), source: Source::default() };
        assert_eq!(endpoints.of(PeerId(0)), Some((WanPort::Data, place("192.0.2.1:7787"))));
        assert_eq!(endpoints.of(PeerId(2)), Some((WanPort::Header, place("192.0.2.2:7788"))));
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

    #[test]
    fn one_path_is_preferred_and_the_others_get_copies() {
        let (mut endpoints, peer) = (Endpoints::new([Mode::Identifier].into_iter()), PeerId(0));
        let place = |last: u8| {
            let to = SocketAddr::from(([192, 0, 2, last], 7787));
            Place { to, source: Source { address: None, interface: last.into() } }
        };
        let to = |endpoints: &Endpoints| endpoints.of(peer).map(|(_, place)| place);
        let others = |endpoints: &Endpoints| endpoints.others(peer).1.to_vec();
        for number in 0..4 {
            endpoints.set_path(peer, number, Some(place(number)));
        }
        endpoints.set_path(peer, 4, Some(place(4)));
        endpoints.prefer(peer, 2);
        assert_eq!((to(&endpoints), others(&endpoints)), (Some(place(2)), vec![]), "no copies are wanted");
        endpoints.set_copies(peer, Copies::Express);
        assert!(endpoints.has_express_copies());
        endpoints.set_copies(peer, Copies::All);
        assert!(!endpoints.has_express_copies());
        assert_eq!(others(&endpoints), [place(0), place(1), place(3)]);
        // Until another path is preferred, the first one stands in.
        endpoints.set_path(peer, 2, None);
        assert_eq!((to(&endpoints), others(&endpoints)), (Some(place(0)), vec![place(1), place(3)]));
        for number in 0..4 {
            endpoints.set_path(peer, number, None);
        }
        assert_eq!((to(&endpoints), others(&endpoints)), (None, vec![]));
    }
}
