//! Frames and packets between the engine and the forwarding half: their destinations, and the headers in
//! front of the unchanged octets.

use core::ops::Range;

use arrayvec::ArrayVec;
use wire::tunnel::{LONGEST_HEADER_OCTETS, OuterTags, ParsedFrame, RelayLeg, SiteName};

use crate::settings::PeerId;

/// Octets of the longest header in front of a body.
pub const PACKET_HEADER_OCTETS: usize = LONGEST_HEADER_OCTETS;
/// Octets of the longest prefix of a rebuilt frame: addresses, VLAN tags and SecTAG, and in header encryption four more.
pub const PREFIX_OCTETS: usize = 32 + OuterTags::OCTETS;

/// Destination of a frame of the LAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The peer in front of its destination station.
    Peer(PeerId),
    /// To all peers.
    All,
}

/// Route of a frame of the LAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The parsed frame.
    pub taken: ParsedFrame,
    /// Its destination.
    pub destination: Destination,
}

/// A UDP payload: the header, then these octets of the frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Header of the payload.
    pub header: ArrayVec<u8, PACKET_HEADER_OCTETS>,
    /// Octets of the frame that follow.
    pub body: Range<usize>,
}

impl Packet {
    /// Octets of the UDP payload.
    pub fn octets(&self) -> usize {
        self.header.len() + self.body.len()
    }
}

/// Source of a packet, as far as the engine knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketSource {
    /// The data port: the identifier names the sender.
    Identifier,
    /// Header encryption or plain: this peer's UDP address.
    From(PeerId),
    /// Somebody else's lane, who has received and counted this peer's packet, and put its header in the clear.
    Opened(PeerId),
}

/// Result of a packet.
#[derive(Debug)]
pub enum Delivery<'a> {
    /// A frame for the LAN: the prefix, then `packet[body]`. `body.start` octets in front of the body are
    /// free.
    Frame {
        /// The sender.
        from: PeerId,
        /// Beginning of the frame, [`PREFIX_OCTETS`] at most; empty if it is in the packet.
        prefix: ArrayVec<u8, PREFIX_OCTETS>,
        /// Range of the packet's octets.
        body: Range<usize>,
    },
    /// A frame for the LAN from two fragments: the prefix, then the first fragment, then the second.
    Joined {
        /// The sender.
        from: PeerId,
        /// The beginning of the frame.
        prefix: ArrayVec<u8, PREFIX_OCTETS>,
        /// The first fragment.
        first: &'a [u8],
        /// The second fragment.
        second: &'a [u8],
    },
    /// A packet for another site, or of one: `packet[body]`.
    Relayed {
        /// The sender.
        from: PeerId,
        /// Whether the packet is to be relayed, or was.
        leg: RelayLeg,
        /// The other site.
        site: SiteName,
        /// Range of the packet's octets.
        body: Range<usize>,
    },
    /// A fragment whose other half has not arrived yet.
    Pending,
}

/// A frame that waited for its flow's acknowledgement and goes now.
#[derive(Debug)]
pub struct Released<'a> {
    /// Its destination.
    pub peer: PeerId,
    /// Its packets; their bodies are octets of `frame`.
    pub packets: ArrayVec<Packet, 2>,
    /// The frame.
    pub frame: &'a [u8],
}
