//! Peers in plain mode. They have no session: no keys, no lanes, no announcements. What the programs need to know of them is configured,
//! found by look-ups, or heard by the half.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::time::Duration;

use dataplane::site::{ManagerMailbox, ToWorker};
use tunnel::{Location, PeerId};
use wire::{Instant, MacAddr};
use xdp::site::Site;

use super::KernelSite;
use super::stations::Stations;

/// Stations of a peer that are looked at in one look.
const SWEPT: usize = 64;

/// A peer in plain mode, as it is configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainPeer {
    /// The VXLAN network identifier.
    pub vni: u32,
    /// Octets of the largest UDP payload towards it.
    pub path_payload: usize,
}

impl KernelSite {
    /// These of its peers are in plain mode, at this port. If there are none, the port may be that of other modes.
    pub fn expect_plain(&self, port: u16, peers: impl IntoIterator<Item = (PeerId, PlainPeer)>) {
        let mut peers = peers.into_iter().peekable();
        if peers.peek().is_none() {
            return;
        }
        let mut kernel = self.lock();
        kernel.paths.set_plain_port(port);
        let set = kernel.site.set_plain_port(port);
        // Without the port they are user space's.
        if set.is_ok() {
            kernel.plain.extend(peers);
        }
    }

    /// One turn of a site that has no manager, since all its peers are in plain mode: hears the half, and tells it what there is to tell.
    pub fn turn(&self, now: Instant, mailbox: &mut ManagerMailbox) {
        while let Some(event) = mailbox.messages.receive() {
            self.handle_event(now, event);
        }
        drop(self.handle_timeout(now));
        while mailbox.messages.has_room() {
            let Some(command) = self.poll_command() else { break };
            mailbox.messages.send(ToWorker::Tunnel(command));
        }
    }

    /// Where a peer of such a site is.
    pub fn set_endpoint(&self, now: Instant, peer: PeerId, address: SocketAddr) {
        let address = Some(address);
        self.handle_command(now, ToWorker::Endpoint { peer, address }, &mut Vec::new());
    }

    /// Peers that leave.
    pub fn leave(&self, peers: &[PeerId]) {
        self.retain(|peer| !peers.contains(&peer));
    }
}

/// The address that a peer's packets come from, as the programs know it.
#[derive(Debug, Default)]
pub(super) struct Sender(Option<IpAddr>);

impl Sender {
    /// Packets of the peer come from here; `None`: from nowhere.
    pub(super) fn set(&mut self, site: &mut Site, peer: PeerId, address: Option<SocketAddr>) {
        let address = address.map(|address| address.ip().to_canonical());
        // Another peer may have come to this one's address, or this one to another's.
        let is_own = |site: &Site, address| site.plain_peer(address) == Some(peer.0.into());
        if self.0 == address && address.is_none_or(|address| is_own(site, address)) {
            return;
        }
        if let Some(before) = self.0.take().filter(|before| is_own(site, *before)) {
            let _ = site.remove_plain_peer(before);
        }
        self.0 = address.filter(|address| site.set_plain_peer(*address, peer.0.into()).is_ok());
    }
}

/// Stations behind a peer that the half has heard: the programs take their frames to the LAN.
#[derive(Debug, Default)]
pub(super) struct HeardStations {
    known: BTreeSet<MacAddr>,
    /// Station that was looked at last.
    swept: MacAddr,
}

impl HeardStations {
    /// The half has heard a station behind the peer. A peer has no more of them than stay free, so that others find room, and this LAN
    /// (`a_plain_peer_that_invents_stations_leaves_room_for_others`).
    pub(super) fn hear(
        &mut self,
        site: &mut Site,
        stations: &mut Stations,
        address: MacAddr,
        behind: Location,
    ) {
        if !self.known.contains(&address) {
            if self.known.len() >= stations.free() || stations.take(site, address).is_none() {
                return;
            }
            self.known.insert(address);
        }
        stations.place(site, address, Some(behind));
    }

    /// Lets stations go that were not heard for this long, some of them at a time.
    pub(super) fn forget_silent(&mut self, site: &mut Site, stations: &mut Stations, age: Duration) {
        if self.known.is_empty() {
            return;
        }
        let Ok(clock) = site.now() else { return };
        let behind = (Bound::Excluded(self.swept), Bound::Unbounded);
        let looked: Vec<MacAddr> = self.known.range(behind).take(SWEPT).copied().collect();
        self.swept = looked.last().copied().filter(|_| looked.len() == SWEPT).unwrap_or_default();
        let silent = |address: &MacAddr| {
            let station = stations.number(*address).and_then(|number| site.station(number, clock).ok());
            station.is_some_and(|(_, since)| since >= age)
        };
        for address in looked.into_iter().filter(silent).collect::<Vec<_>>() {
            self.known.remove(&address);
            stations.let_go(site, address);
        }
    }

    /// Lets all go.
    pub(super) fn void(&mut self, site: &mut Site, stations: &mut Stations) {
        for address in std::mem::take(&mut self.known) {
            stations.let_go(site, address);
        }
    }
}
