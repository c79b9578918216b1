//! Settings of a site, and sizes of its maps.

use std::time::Duration;

use suite::tunnel::TokenKey;

/// Sizes of the maps, which stay as they are.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Peers.
    pub peers: u32,
    /// Lanes in each direction.
    pub lanes: u32,
    /// Lanes besides, whose packets are user space's ([`Site::watch_receive`](super::Site::watch_receive)): their numbers follow.
    pub watched: u32,
    /// Paths.
    pub paths: u32,
    /// Flows of all peers, in each direction.
    pub flows: u32,
    /// Stations.
    pub stations: u32,
}

/// Settings of a site.
#[derive(Clone, Debug)]
pub struct Settings {
    /// W of the windows, as in `tunnel::Settings`.
    pub window: u64,
    /// Octets of the longest frame that the LAN takes.
    pub lan_frame: usize,
    /// UDP port of identifier mode.
    pub port: u16,
    /// Age of an unheard station at which its place is not known any more.
    pub station_age: Duration,
    /// Pause of a flow after which no frame of it is in the peer's user space any more: only then does an added flow go through the kernel.
    pub quiet: Duration,
    /// Key of the tokens of packets that the program has opened for user space, since they must not overtake others there. Random, and nobody
    /// on the network knows it.
    pub token_key: TokenKey,
}
