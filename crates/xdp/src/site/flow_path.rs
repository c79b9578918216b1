//! The way of a flow: its peer, and its stations.

use wire::tunnel::FlowIndex;

/// Path of a flow's frames: to this peer under this number, as long as its stations are where they must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowPath {
    /// The peer.
    pub peer: u32,
    /// This site's number of the flow, which the peer knows.
    pub index: FlowIndex,
    /// Station of the source address: on this LAN.
    pub source: u32,
    /// Station of the destination address: behind the peer.
    pub destination: u32,
}
