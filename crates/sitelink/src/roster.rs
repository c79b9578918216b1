//! The peers, as all tasks of the manager's thread know them and others change them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use suite::identity::PublicKey;
use tunnel::{Generation, PeerId};

use super::settings::ManagerPeer;
use super::status::PeerStatus;

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

    /// Addresses of the peers, if they have changed since the last call.
    pub(super) fn expected_anew(&mut self) -> Option<BTreeSet<IpAddr>> {
        let of = |known: &Known| known.endpoint.iter().copied().chain(known.connection).collect::<Vec<_>>();
        std::mem::take(&mut self.addresses_changed).then(|| self.peers.values().flat_map(of).collect())
    }

    pub(super) fn is_expected(&self, address: IpAddr) -> bool {
        self.peers
            .values()
            .any(|known| known.connection == Some(address) || known.endpoint.contains(&address))
    }
}
