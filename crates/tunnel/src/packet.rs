//! Frames and packets on their way between the engine and the forwarding half: where they go, and what stands in front
//! of the octets that are carried as they are.

use core::ops::Range;

use arrayvec::ArrayVec;
use wire::tunnel::{LONG_HEADER_OCTETS, ParsedFrame};

use crate::settings::PeerId;

/// Octets of the longest header in front of a body.
pub const PACKET_HEADER_OCTETS: usize = LONG_HEADER_OCTETS;
/// Octets of the longest prefix of a frame that is rebuilt: addresses and SecTAG, and in header encryption four more.
pub const PREFIX_OCTETS: usize = 32;

/// Where a frame of the LAN goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To the peer that its destination is behind.
    Peer(PeerId),
    /// To all peers.
    All,
}

/// A frame of the LAN that goes somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The frame, taken apart.
    pub taken: ParsedFrame,
    /// Where it goes.
    pub destination: Destination,
}

/// A UDP payload: the header, then these octets of the frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// What stands in front.
    pub header: ArrayVec<u8, PACKET_HEADER_OCTETS>,
    /// Which octets of the frame follow.
    pub body: Range<usize>,
}

impl Packet {
    /// Octets of the UDP payload.
    pub fn octets(&self) -> usize {
        self.header.len() + self.body.len()
    }
}

/// Who a packet came from, as far as the engine can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketSource {
    /// It came to the data port: its identifier tells who sent it.
    Identifier,
    /// Header encryption or plain: from this peer's UDP address.
    From(PeerId),
}

/// What came of a packet.
#[derive(Debug)]
pub enum Delivery<'a> {
    /// A frame for the LAN: the prefix, then `packet[body]`. There are `body.start` octets of room in front of the body.
    Frame {
        /// Who sent it.
        from: PeerId,
        /// The beginning of the frame, [`PREFIX_OCTETS`] at most; empty if it is in the packet.
        prefix: ArrayVec<u8, PREFIX_OCTETS>,
        /// Octets of the packet.
        body: Range<usize>,
    },
    /// A frame for the LAN that came in two parts: the prefix, then the first part, then the second.
    Joined {
        /// Who sent it.
        from: PeerId,
        /// The beginning of the frame.
        prefix: ArrayVec<u8, PREFIX_OCTETS>,
        /// What follows.
        first: &'a [u8],
        /// The rest.
        second: &'a [u8],
    },
    /// A part whose other one has not come yet.
    Pending,
}

/// A frame that waited for its flow to be acknowledged, and goes now.
#[derive(Debug)]
pub struct Released<'a> {
    /// Where it goes.
    pub peer: PeerId,
    /// Its packets; their bodies are octets of `frame`.
    pub packets: ArrayVec<Packet, 2>,
    /// The frame.
    pub frame: &'a [u8],
}
