//! A site's uplink whose rate is known: packets wait in a shaper ([`tunnel::shaper`]) in front of the UDP ports.
//!
//! Every packet of the worker goes through it: frames of the LAN, copies for further paths, packets that are relayed. Those of the
//! management channel leave by its thread at once, and are charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use netdev::udp::{Outgoing, SEND_PACKETS};
use tunnel::PeerId;
use tunnel::shaper::{Backlog, Class, PacketOf, Shaper, ShaperSettings, UplinkCounters, line_overhead};
use wire::Instant;
use wire::tunnel::Flow;

use super::endpoints::{Place, WanPort};
use super::uplinks::UPLINKS;

/// Octets that the management channel has sent, on the line, by the number of the uplink: it adds, the worker charges.
#[derive(Clone, Default, Debug)]
pub struct ChannelOctets(Arc<[AtomicU64; UPLINKS + 1]>);

impl ChannelOctets {
    /// A UDP payload of so many octets was sent by this uplink.
    pub fn add(&self, uplink: u8, payload: usize, ipv6: bool) {
        if let Some(sum) = self.0.get(usize::from(uplink)) {
            sum.fetch_add((payload + line_overhead(ipv6)) as u64, Ordering::Relaxed);
        }
    }

    fn sum(&self, uplink: u8) -> u64 {
        self.0.get(usize::from(uplink)).map_or(0, |sum| sum.load(Ordering::Relaxed))
    }
}

/// Where a packet that waits is sent.
#[derive(Clone, Copy, Debug)]
struct Way {
    wan_port: WanPort,
    place: Place,
    dscp: u8,
}

/// Flows of bulk that take turns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum BulkFlow<'f> {
    /// Frames of a flow, to a peer.
    Frames(PeerId, &'f Flow),
    /// Frames that have waited for their flow to be announced.
    Released(PeerId),
    /// MKPDUs to plain peers.
    Mka,
    /// Packets of the management channel with a peer behind a relay.
    Channel(PeerId),
    /// Packets of one peer for another one: of their management channel, or with frames.
    Relayed(PeerId, PeerId, bool),
}

/// The figures of a shaped uplink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UplinkSnapshot {
    /// Its counters.
    pub counters: UplinkCounters,
    /// What waits.
    pub backlog: Backlog,
}

/// The shaper, and what it has to know of others.
#[derive(Debug)]
pub(super) struct Uplink {
    shaper: Shaper<Way>,
    channel: ChannelOctets,
    number: u8,
    charged: u64,
}

impl Uplink {
    pub(super) fn new(settings: ShaperSettings, window: u64, channel: ChannelOctets, number: u8) -> Self {
        let charged = channel.sum(number);
        Self { shaper: Shaper::new(settings, window), channel, number, charged }
    }

    /// Sets the seqs, or PNs, by which a packet may be late at all peers.
    pub(super) const fn set_window(&mut self, window: u64) {
        self.shaper.set_window(window);
    }

    /// The first of the numbers of so many frames: [`Shaper::take_numbers`].
    pub(super) const fn take_numbers(&mut self, frames: u64) -> u64 {
        self.shaper.take_numbers(frames)
    }

    /// Takes a packet.
    pub(super) fn push(
        &mut self,
        now: Instant,
        of: PacketOf,
        class: Class,
        wan_port: WanPort,
        packet: &Outgoing<'_>,
    ) {
        let way = Way { wan_port, place: Place { to: packet.to, source: packet.source }, dscp: packet.dscp };
        let overhead = line_overhead(packet.to.is_ipv6());
        self.shaper.push(now, of, class, way, overhead, [&packet.head, packet.body]);
    }

    /// Sends what is due by `send`, in bursts for one port each. Work: at most what the line carries in the time that it may be ahead.
    pub(super) fn depart(&mut self, now: Instant, mut send: impl FnMut(WanPort, &[Outgoing<'_>])) {
        let sum = self.channel.sum(self.number);
        if sum != self.charged {
            self.shaper.charge(now, sum.wrapping_sub(self.charged));
            self.charged = sum;
        }
        while self.shaper.depart(now) {
            let mut packets = ArrayVec::<_, SEND_PACKETS>::new();
            let mut port = WanPort::Data;
            for (Way { wan_port, place, dscp }, body) in self.shaper.leaving() {
                if *wan_port != port || packets.is_full() {
                    send(port, &packets);
                    packets.clear();
                    port = *wan_port;
                }
                let Place { to, source } = *place;
                packets.push(Outgoing { to, source, dscp: *dscp, head: ArrayVec::new(), body });
            }
            send(port, &packets);
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.shaper.due()
    }

    pub(super) fn snapshot(&self) -> UplinkSnapshot {
        UplinkSnapshot { counters: *self.shaper.counters(), backlog: self.shaper.backlog() }
    }
}
