//! From the peers to the LAN.
//!
//! ```text
//!  data port ───┬─ bit 0x40 of the first octet ─▶ manager's ring (QUIC)
//!               └─▶ by identifier ───┐
//!  header port ─▶ by peer's address ─┼─▶ inward ──▶ prefix and body ──▶ chunk ──▶ LAN
//!  plain port ──▶ by peer's address ─┘
//! ```
//!
//! A packet in a relayed one is handled like one that came to the data port. One that is to be relayed goes out again at the end of the burst
//! ([`relay`](super::relay)).
//!
//! A packet stays where it was received until it is known to be a frame: what is dropped costs neither a copy nor a
//! chunk. Nothing is answered, whatever comes.

use std::net::SocketAddr;
use std::ops::Range;

use tunnel::standby::Gate;
use tunnel::{Delivery, Forwarding, Location, PacketSource, PeerId, RelayLeg, SiteName};
use wire::Instant;

use super::Site;
use super::counters::SitePathCounters;
use super::datagrams::DatagramProducer;
use super::endpoints::WanPort;
use super::entry::source;
use super::lan::LanPort;
use super::relay::{relay_address, relayed_peer};
use netdev::burst::BURST_FRAMES;

/// QUIC's fixed bit (RFC 9000, section 17), which no identifier has.
pub(super) const QUIC: u8 = 0x40;

impl Site {
    /// Takes packets of one port to the LAN, at most as many as a burst has. Returns the number that came.
    pub(super) fn inward(&mut self, now: Instant, wan_port: WanPort) -> usize {
        let Self { forwarding, datagrams, wan, lan, endpoints, relays, outward, counters, wake, .. } = self;
        let mut ways = Ways { now, datagrams, lan, counters, wake };
        let Some(port) = wan.port(wan_port) else { return 0 };
        let (mut more, mut received) = (true, BURST_FRAMES);
        for number in 0..BURST_FRAMES {
            if more && port.is_empty() {
                more = port.receive();
            }
            let Some(packet) = port.next_packet() else {
                received = number;
                break;
            };
            let octets = packet.octets;
            let relayed = if relayed_peer(packet.from).is_some() {
                // No network has such a source. It would be taken for a relay's.
                ways.counters.in_pkts_unknown_address += 1;
                None
            } else if wan_port == WanPort::Data {
                match ways.lan.turns().and_then(|turns| turns.opened(octets)) {
                    Some(peer) => ways.take_frame(forwarding, PacketSource::Opened(peer), octets),
                    None => ways.take(forwarding, packet.from, octets),
                }
            } else if let Some(peer) = endpoints.peer_at(wan_port, packet.from) {
                ways.take_frame(forwarding, PacketSource::From(peer), octets)
            } else {
                ways.counters.in_pkts_unknown_address += 1;
                None
            };
            match relayed {
                None => {}
                Some(Relayed { from, leg: RelayLeg::To, site, body }) => {
                    let way = (&mut *forwarding, &*endpoints);
                    relays.put_on(now, (from, site), &octets[body], way, ways.counters);
                }
                Some(Relayed { from, leg: RelayLeg::From, site, body }) => {
                    let Some(origin) = relays.origin(from, site, ways.counters) else { continue };
                    let nested = ways.take(forwarding, relay_address(origin), &octets[body]);
                    ways.counters.in_relayed_unknown += u64::from(nested.is_some());
                }
            }
        }
        outward.send_relayed(now, relays, wan);
        received
    }

    /// Takes EAPOL frames of the management channel to the LAN. Returns the number that came.
    pub(super) fn eapol_inward(&mut self, now: Instant) -> usize {
        let Self { forwarding, mailbox, lan, standby, counters, .. } = self;
        // The sites send those of stations to both boxes, and the one that drains leaves them to the other.
        let is_draining = standby.as_ref().is_some_and(|standby| standby.gate() == Gate::Draining);
        if is_draining {
            lan.flush(now, forwarding, counters);
            lan.close_gate(true);
        }
        let mut received = 0;
        while received < BURST_FRAMES
            && let Some(frame) = mailbox.eapol.receive()
        {
            received += 1;
            counters.in_eapol += 1;
            // The LAN's switches would look for that station behind the gateway.
            if source(&frame).and_then(|source| forwarding.held_at(now, source)) == Some(Location::Here) {
                counters.in_mkpdus_source_here += 1;
                continue;
            }
            lan.make_room(now, forwarding, counters);
            lan.put(&[&frame], None, counters);
        }
        if is_draining {
            lan.flush(now, forwarding, counters);
            lan.close_gate(false);
        }
        received
    }
}

/// A packet for another site, or of one.
struct Relayed {
    from: PeerId,
    leg: RelayLeg,
    site: SiteName,
    body: Range<usize>,
}

/// Ways of what a packet is found to be.
struct Ways<'s> {
    now: Instant,
    datagrams: &'s mut DatagramProducer,
    lan: &'s mut LanPort,
    counters: &'s mut SitePathCounters,
    wake: &'s mut bool,
}

impl Ways<'_> {
    /// Takes a packet to the data port, or one in a relayed packet.
    fn take(&mut self, forwarding: &mut Forwarding, from: SocketAddr, octets: &[u8]) -> Option<Relayed> {
        if octets.first().is_none_or(|first| first & QUIC == 0) {
            return self.take_frame(forwarding, PacketSource::Identifier, octets);
        }
        match self.datagrams.push(from, octets) {
            Ok(()) => (self.counters.in_datagrams, *self.wake) = (self.counters.in_datagrams + 1, true),
            Err(_) => self.counters.in_datagrams_dropped += 1,
        }
        None
    }

    /// Takes a packet's frame to the LAN. `Some` if there is no frame in it, but a packet of others.
    fn take_frame(
        &mut self,
        forwarding: &mut Forwarding,
        from: PacketSource,
        octets: &[u8],
    ) -> Option<Relayed> {
        let Self { now, lan, counters, .. } = self;
        lan.make_room(*now, forwarding, counters);
        match forwarding.handle_packet(*now, from, octets) {
            Ok(Delivery::Frame { from, prefix, body }) => {
                lan.put(&[&prefix, &octets[body]], Some(from), counters);
            }
            Ok(Delivery::Joined { from, prefix, first, second }) => {
                lan.put(&[&prefix, first, second], Some(from), counters);
            }
            Ok(Delivery::Relayed { from, leg, site, body }) => {
                return Some(Relayed { from, leg, site, body });
            }
            // Waits for its other part, or was counted.
            Ok(Delivery::Pending) | Err(_) => {}
        }
        None
    }
}
