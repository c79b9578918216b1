//! The peers, as all tasks of the manager's thread know them and others change them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use suite::identity::PublicKey;
use tunnel::{Generation, PeerId};

use super::settings::ManagerPeer;
use super::status::PeerStatus;
use dataplane::site::{relay_address, relayed_peer};

/// The peers by number. A number is never another peer's.
pub(super) struct Roster {
    peers: BTreeMap<PeerId, Known>,
    most_payload: u16,
    /// Number of changes.
    changes: u64,
    /// Addresses have changed since they were told.
    addresses_changed: bool,
}

struct Known {
    settings: ManagerPeer,
    /// Addresses at which it may be: those of its endpoint, and that of its connection.
    endpoint: Vec<IpAddr>,
    connection: Option<IpAddr>,
    /// The generation that the worker heard of last.
    begun: Generation,
}

impl Known {
    fn new(settings: ManagerPeer) -> Self {
        Self { settings, endpoint: Vec::new(), connection: None, begun: Generation::default() }
    }
}

impl Roster {
    pub(super) fn new(peers: &[ManagerPeer], most_payload: u16) -> Self {
        let known = |(number, peer): (u16, &ManagerPeer)| (PeerId(number), Known::new(peer.clone()));
        let peers = (0..).zip(peers).map(known).collect();
        Self { peers, most_payload, changes: 0, addresses_changed: false }
    }

    pub(super) fn change(&mut self, leave: &[PeerId], come: Vec<(PeerId, ManagerPeer)>, most_payload: u16) {
        self.peers.retain(|number, _| !leave.contains(number));
        self.peers.extend(come.into_iter().map(|(number, peer)| (number, Known::new(peer))));
        self.most_payload = most_payload;
        self.changes += 1;
        self.addresses_changed = true;
    }

    pub(super) fn change_paths(&mut self, changes: Vec<(PeerId, ManagerPeer)>) {
        for (number, settings) in changes {
            if let Some(known) = self.peers.get_mut(&number)
                && !known.settings.paths.is_empty()
                && !settings.paths.is_empty()
            {
                known.settings = settings;
                self.changes += 1;
            }
        }
    }

    /// Number of changes.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Octets of the largest UDP payload that is worth looking for.
    pub(super) const fn most_payload(&self) -> u16 {
        self.most_payload
    }

    /// Settings of the peers, in the order of their numbers.
    pub(super) fn settings(&self) -> BTreeMap<PeerId, ManagerPeer> {
        self.peers.iter().map(|(number, known)| (*number, known.settings.clone())).collect()
    }

    /// Peers with a management channel by public key, each with whether keys may be agreed on with it by X25519 alone.
    pub(super) fn by_key(&self) -> BTreeMap<PublicKey, (PeerId, bool)> {
        let of = |(number, known): (&PeerId, &Known)| {
            Some((known.settings.public_key?, (*number, known.settings.classical)))
        };
        self.peers.iter().filter_map(of).collect()
    }

    /// Statuses of peers that no task has taken over yet.
    pub(super) fn statuses(&self) -> Vec<PeerStatus> {
        self.peers.iter().map(|(number, known)| PeerStatus::at_first(*number, &known.settings)).collect()
    }

    /// The worker is told to begin this generation.
    pub(super) fn begin(&mut self, peer: PeerId, generation: Generation) {
        if let Some(known) = self.peers.get_mut(&peer) {
            known.begun = generation;
        }
    }

    /// The last generation of a peer.
    pub(super) fn begun(&self, peer: PeerId) -> Generation {
        self.peers.get(&peer).map_or_else(Generation::default, |known| known.begun)
    }

    pub(super) fn expect_from(&mut self, peer: PeerId, endpoint: Vec<IpAddr>) {
        if let Some(known) = self.peers.get_mut(&peer) {
            known.endpoint = endpoint;
            self.addresses_changed = true;
        }
    }

    pub(super) fn expect_connection(&mut self, peer: PeerId, address: IpAddr) {
        if let Some(known) = self.peers.get_mut(&peer) {
            known.connection = Some(address);
            self.addresses_changed = true;
        }
    }

    /// Addresses of the peers, each with the one whose share it has, if they have changed since the last call.
    pub(super) fn expected_anew(&mut self) -> Option<BTreeMap<IpAddr, IpAddr>> {
        if !std::mem::take(&mut self.addresses_changed) {
            return None;
        }
        let by_key = self.by_key();
        let mut shares = BTreeMap::new();
        for known in self.peers.values() {
            for ip in known.endpoint.iter().copied().chain(known.connection) {
                let hub =
                    known.settings.via.filter(|_| peer_behind(ip).is_some()).and_then(|via| by_key.get(&via));
                shares.insert(ip, hub.map_or(ip, |(hub, _)| relay_address(*hub).ip()));
            }
        }
        Some(shares)
    }

    /// The peer that relays what comes from this address, if it stands for a relay.
    pub(super) fn hub_at(&self, address: IpAddr) -> Option<PeerId> {
        let peer = peer_behind(address)?;
        let via = self.peers.get(&peer)?.settings.via?;
        self.by_key().get(&via).map(|(hub, _)| *hub)
    }

    pub(super) fn is_expected(&self, address: IpAddr) -> bool {
        self.peers_at(address).next().is_some()
    }

    /// Peers that are called or connected there.
    pub(super) fn peers_at(&self, address: IpAddr) -> impl Iterator<Item = PeerId> + '_ {
        let is_there =
            move |known: &Known| known.connection == Some(address) || known.endpoint.contains(&address);
        self.peers.iter().filter(move |(_, known)| is_there(known)).map(|(peer, _)| *peer)
    }
}

/// The peer for which such an address stands, at whatever port.
fn peer_behind(ip: IpAddr) -> Option<PeerId> {
    relayed_peer(SocketAddr::new(ip, relay_address(PeerId(0)).port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunnel::Mode;

    #[test]
    fn all_that_a_hub_relays_has_one_share() {
        let [hub, one, other] = [1, 2, 3].map(|octet| PublicKey([octet; 32]));
        let peer = |key, via| ManagerPeer {
            endpoint: None,
            public_key: Some(key),
            via,
            mode: Mode::Identifier,
            classical: false,
            copies: dataplane::site::Copies::None,
            paths: Vec::new(),
        };
        let peers = [peer(hub, None), peer(one, Some(hub)), peer(other, Some(hub))];
        let mut roster = Roster::new(&peers, 1472);
        let direct = IpAddr::from([192, 0, 2, 1]);
        let of = |peer| relay_address(PeerId(peer)).ip();
        roster.expect_connection(PeerId(0), direct);
        roster.expect_from(PeerId(1), vec![of(1), direct]);
        roster.expect_from(PeerId(2), vec![of(2)]);
        let shares = roster.expected_anew().expect("changed");
        assert_eq!(shares, BTreeMap::from([(direct, direct), (of(1), of(0)), (of(2), of(0))]));
        assert_eq!(roster.expected_anew(), None);
        assert_eq!(
            [direct, of(0), of(1), of(2), of(9)].map(|ip| roster.hub_at(ip)),
            [None, None, Some(PeerId(0)), Some(PeerId(0)), None]
        );
    }
}
