//! Current addresses of connected peers, which the programs know from strangers'.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tunnel::PeerId;
use xdp::site::{MOST_KNOWN, Site};

/// Addresses that the programs know, and whose they are.
#[derive(Debug)]
pub(super) struct KnownAddresses {
    /// As they were told last.
    peers: Vec<(PeerId, SocketAddr)>,
    told: BTreeMap<SocketAddr, Told>,
    free: Vec<u32>,
    /// Shares that the programs make of what is for all of them.
    shares: u32,
    /// Some address found no room whose peer sends on lanes that are not watched.
    lacks: bool,
}

/// An address as the programs have it.
#[derive(Clone, Copy, Debug)]
struct Told {
    number: u32,
    any_identifier: bool,
}

impl KnownAddresses {
    pub(super) fn new() -> Self {
        let free = (0..MOST_KNOWN).rev().collect();
        Self { peers: Vec::new(), told: BTreeMap::new(), free, shares: 0, lacks: false }
    }

    /// Peers are at these addresses, and at no others.
    pub(super) fn set(
        &mut self,
        site: &mut Site,
        peers: Vec<(PeerId, SocketAddr)>,
        is_watched: impl Fn(PeerId) -> bool,
    ) {
        self.peers = peers;
        self.tell(site, is_watched);
    }

    /// Tells the programs of these addresses, and from which of them any identifier may come: some lane of the peer is not watched.
    pub(super) fn tell(&mut self, site: &mut Site, is_watched: impl Fn(PeerId) -> bool) {
        let mut wanted = BTreeMap::new();
        for (peer, address) in &self.peers {
            let address = SocketAddr::new(address.ip().to_canonical(), address.port());
            *wanted.entry(address).or_insert(false) |= !is_watched(*peer);
        }
        let gone: Vec<_> = self.told.keys().filter(|told| !wanted.contains_key(*told)).copied().collect();
        for address in gone {
            let _ = site.forget_known(address);
            self.free.extend(self.told.remove(&address).map(|told| told.number));
        }
        // First: a share is never greater than what is left of all.
        if !self.share_among(site, MOST_KNOWN.min(wanted.len() as u32)) {
            return;
        }
        self.lacks = false;
        for (address, any_identifier) in wanted {
            self.lacks |= !self.put(site, address, any_identifier) && any_identifier;
        }
    }

    fn share_among(&mut self, site: &mut Site, shares: u32) -> bool {
        if self.shares != shares && site.share_among(shares).is_ok() {
            self.shares = shares;
        }
        self.shares == shares
    }

    /// False: there is no room.
    fn put(&mut self, site: &mut Site, address: SocketAddr, any_identifier: bool) -> bool {
        let known = self.told.get(&address).copied();
        if known.is_some_and(|known| known.any_identifier == any_identifier) {
            return true;
        }
        let Some(number) = known.map(|known| known.number).or_else(|| self.free.pop()) else { return false };
        let is_told = site.know(number, address, any_identifier).is_ok();
        if is_told {
            self.told.insert(address, Told { number, any_identifier });
        } else if known.is_none() {
            self.free.push(number);
        }
        is_told
    }

    /// Known ones, and those that there is room for.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.told.len(), self.free.len()]
    }

    /// True if each peer with lanes that are not watched is known by its addresses.
    pub(super) const fn are_complete(&self) -> bool {
        !self.lacks
    }
}
