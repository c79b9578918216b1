//! From the peers to the LAN.
//!
//! ```text
//!  data port ───┬─ bit 0x40 of the first octet ─▶ manager's ring (QUIC)
//!               └─▶ by identifier ───┐
//!  header port ─▶ by peer's address ─┼─▶ inward ──▶ prefix and body ──▶ chunk ──▶ LAN
//!  plain port ──▶ by peer's address ─┘
//! ```
//!
//! A packet stays where it was received until it is known to be a frame: what is dropped costs neither a copy nor a
//! chunk. Nothing is answered, whatever comes.

use tunnel::{Delivery, PacketSource};
use wire::Instant;

use super::Site;
use super::endpoints::WanPort;
use netdev::burst::BURST_FRAMES;

/// QUIC's fixed bit (RFC 9000, section 17), which no identifier has.
const QUIC: u8 = 0x40;

impl Site {
    /// Takes packets of one port to the LAN, at most as many as a burst has. Returns the number that came.
    pub(super) fn inward(&mut self, now: Instant, wan_port: WanPort) -> usize {
        let Self { forwarding, datagrams, wan, lan, endpoints, counters, wake, .. } = self;
        let Some(port) = wan.port(wan_port) else { return 0 };
        let mut more = true;
        for received in 0..BURST_FRAMES {
            if more && port.is_empty() {
                more = port.receive();
            }
            let Some(packet) = port.next_packet() else { return received };
            let octets = packet.octets;
            let arrival = if wan_port == WanPort::Data {
                if octets.first().is_some_and(|first| first & QUIC != 0) {
                    match datagrams.push(packet.from, octets) {
                        Ok(()) => (counters.in_datagrams, *wake) = (counters.in_datagrams + 1, true),
                        Err(_) => counters.in_datagrams_dropped += 1,
                    }
                    continue;
                }
                PacketSource::Identifier
            } else {
                let Some(peer) = endpoints.peer_at(wan_port, packet.from) else {
                    counters.in_pkts_unknown_address += 1;
                    continue;
                };
                PacketSource::From(peer)
            };
            match forwarding.handle_packet(now, arrival, octets) {
                Ok(Delivery::Frame { prefix, body, .. }) => lan.put(now, &[&prefix, &octets[body]], counters),
                Ok(Delivery::Joined { prefix, first, second, .. }) => {
                    lan.put(now, &[&prefix, first, second], counters)
                }
                // Waits for its other part, or was counted.
                Ok(Delivery::Pending) | Err(_) => {}
            }
        }
        BURST_FRAMES
    }

    /// Takes EAPOL frames of the management channel to the LAN. Returns the number that came.
    pub(super) fn eapol_inward(&mut self, now: Instant) -> usize {
        let Self { mailbox, lan, counters, .. } = self;
        for received in 0..BURST_FRAMES {
            let Some(frame) = mailbox.eapol.receive() else { return received };
            counters.in_eapol += 1;
            lan.put(now, &[&frame], counters);
        }
        BURST_FRAMES
    }
}
