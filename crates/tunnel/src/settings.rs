//! What a site is told before it starts.

use alloc::vec::Vec;
use core::time::Duration;

/// The most peers that a site has had since its start.
pub const PEERS: usize = 1 << 14;

/// A peer of a site: its number in the order in which they came. That of one that has left is not used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u16);

impl PeerId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How headers are protected on the way to a peer and back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Rotating identifiers (section 3.1).
    Identifier,
    /// Header encryption (section 3.2).
    HeaderEncryption,
    /// VXLAN as in RFC 7348, unprotected, for comparison and for plain peers (section 3.3).
    Plain {
        /// The VXLAN network identifier, 24 bits.
        vni: u32,
    },
}

/// A peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerSettings {
    /// How headers are protected.
    pub mode: Mode,
    /// Octets of the largest UDP payload towards it, until the management channel knows better.
    pub path_payload: usize,
}

/// What bounds memory and work, whatever comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Flows towards one peer.
    pub flows: usize,
    /// Flows towards one peer with one SCI.
    pub flows_per_sci: usize,
    /// Flows towards one peer with one source address.
    pub flows_per_source: usize,
    /// New flows of the site in a second.
    pub new_flows_per_second: u32,
    /// A flow without frames for so long is withdrawn.
    pub flow_age: Duration,
    /// Stations whose place is known: here, and behind all peers.
    pub stations: usize,
    /// A station that was not heard for so long is forgotten.
    pub station_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 4096,
            flows_per_sci: 256,
            flows_per_source: 256,
            new_flows_per_second: 1000,
            flow_age: Duration::from_secs(300),
            stations: 8192,
            station_age: Duration::from_secs(300),
        }
    }
}

/// A site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its first peers, in the order of their numbers.
    pub peers: Vec<PeerSettings>,
    /// Octets of the longest frame that the LAN takes, header included.
    pub lan_frame: usize,
    /// Its bounds.
    pub limits: Limits,
    /// W: seqs of a lane's window above the newest; half as many below it. A power of two, at least 64.
    pub window: u64,
    /// Random octets that no machine knows: whoever chose addresses could else make tables slow.
    pub table_seed: [u8; 16],
}

impl Settings {
    /// W where nothing else is configured.
    pub const WINDOW: u64 = 4096;

    /// Lanes that a peer may send on: bounds the windows that are kept for it.
    pub const LANES: u8 = 16;
}
