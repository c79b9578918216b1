//! Counters, stations and flows of a site, copied out at one moment.

use std::net::SocketAddr;

use arrayvec::ArrayVec;
use tunnel::{NumberedFlow, PeerCounters, PeerId, SiteCounters, Station};
use wire::Instant;

use super::Site;
use super::counters::SitePathCounters;
use super::endpoints::WanPort;
use super::sending_worker::SendingWorker;
use super::standby::StandbySnapshot;
use super::uplink::UplinkSnapshot;
use super::uplinks::UPLINKS;
use netdev::port::PortCounters;
use netdev::udp::UdpCounters;

/// The most stations and the most flows that a snapshot shows.
pub const SHOWN: usize = 1024;

/// A peer of a site.
#[derive(Clone, Debug)]
pub struct SitePeerSnapshot {
    /// Destination of its data.
    pub endpoint: Option<SocketAddr>,
    /// The epoch that is sent with; 0: none.
    pub transmit_epoch: u32,
    /// The epochs that are received, the older one first.
    pub receive_epochs: ArrayVec<u32, 3>,
    /// Number of flows that it has announced.
    pub announced_flows: usize,
    /// Its counters.
    pub counters: PeerCounters,
}

/// A site at one moment.
#[derive(Clone, Debug, Default)]
pub struct SiteSnapshot {
    /// The moment, on the clock of stations and flows.
    pub at: Instant,
    /// The LAN port, and those that were closed before it.
    pub lan: PortCounters,
    /// Counters between the ports and the forwarding half.
    pub path: SitePathCounters,
    /// The UDP port of identifier mode and the management channel.
    pub data: Option<UdpCounters>,
    /// The UDP port of header encryption.
    pub header: Option<UdpCounters>,
    /// The UDP port of plain mode.
    pub plain: Option<UdpCounters>,
    /// The uplink, if its rate is known: of packets that are of none of the following.
    pub uplink: Option<UplinkSnapshot>,
    /// Uplinks of paths, by their numbers from 1 on.
    pub path_uplinks: ArrayVec<UplinkSnapshot, UPLINKS>,
    /// The forwarding half.
    pub tunnel: SiteCounters,
    /// Its peers; a [`PeerId`] is an index here.
    pub peers: Vec<SitePeerSnapshot>,
    /// Stations whose place is known, at most [`SHOWN`].
    pub stations: Vec<Station>,
    /// Flows towards peers, at most [`SHOWN`].
    pub flows: Vec<(PeerId, NumberedFlow)>,
    /// The box as one of two of its LAN.
    pub standby: Option<StandbySnapshot>,
    /// Chunks of the frame pool that are free; 0 of 0 while the LAN's interface is not there.
    pub chunks_free: usize,
    /// All chunks of the frame pool.
    pub chunks: usize,
}

impl SiteSnapshot {
    /// A snapshot with room for the figures of a site of so many peers.
    pub fn with_room(peers: usize) -> Self {
        Self {
            peers: Vec::with_capacity(peers),
            stations: Vec::with_capacity(SHOWN),
            flows: Vec::with_capacity(SHOWN),
            ..Self::default()
        }
    }

    /// Copies the site's figures. Does not allocate, if there is room; asks the kernel for the ports' statistics.
    pub fn fill(&mut self, site: &mut Site) {
        self.at = site.now;
        self.lan = site.lan.counters();
        (self.chunks_free, self.chunks) = site.lan.chunks();
        self.path = site.counters;
        let [data, header, plain] =
            WanPort::ALL.map(|wan_port| site.wan.port(wan_port).map(|port| port.counters()));
        (self.data, self.header, self.plain) = (data, header, plain);
        (self.uplink, self.path_uplinks) = site.wan.uplinks.snapshots();
        self.standby = site.standby.as_deref().map(|standby| standby.snapshot());
        let forwarding = &site.forwarding;
        self.tunnel = *forwarding.counters();
        let peers = || (0..site.peers()).map(|number| PeerId(number as u16));
        let peer = |peer| SitePeerSnapshot {
            endpoint: site.endpoints.of(peer).map(|(_, place)| place.to),
            transmit_epoch: forwarding.transmit_epoch(peer),
            receive_epochs: forwarding.receive_epochs(peer).take(3).collect(),
            announced_flows: forwarding.announced_flows(peer),
            counters: forwarding.peer_counters(peer),
        };
        refill(&mut self.peers, peers().map(peer));
        refill(&mut self.stations, forwarding.stations().copied());
        let flows = peers().flat_map(|peer| forwarding.flows(peer).map(move |flow| (peer, *flow)));
        let Some(sending) = site.sending.as_deref().map(SendingWorker::figures) else {
            return refill(&mut self.flows, flows);
        };
        refill(&mut self.flows, flows.chain(sending.flows.iter().copied()));
        self.path.out_pkts_no_endpoint += sending.no_endpoint;
        if let Some(data) = &mut self.data {
            data.add(&sending.udp);
        }
        for (peer, counters) in self.peers.iter_mut().zip(&sending.peers) {
            peer.counters.add(counters);
        }
    }
}

/// Puts as many items as there is room for in the place of those before.
fn refill<T>(into: &mut Vec<T>, items: impl Iterator<Item = T>) {
    into.clear();
    into.extend(items.take(into.capacity()));
}

impl Site {
    /// The figures at this moment. Allocates: not for a worker.
    pub fn snapshot(&mut self) -> SiteSnapshot {
        let mut snapshot = SiteSnapshot::with_room(self.peers());
        snapshot.fill(self);
        snapshot
    }
}
