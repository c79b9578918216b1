//! What a site's sockets, its manager and its forwarding half are told, from the configuration.

use engine::channel::{ManagerPeer, ManagerSettings};
use engine::site::{VXLAN_PORT, Wan};
use engine::udp::{Offloads, UdpError};
use tunnel::{EPOCH_LIFE, Mode, PeerSettings, Settings};
use wire::ethernet::HEADER_OCTETS;

use crate::check::site::{IpVersion, path_payload};
use crate::config::site::sockets;
use crate::config::{Site, SitePeer};

/// Octets of UDP payload that every path carries (RFC 9000, 14): what QUIC begins with.
const LEAST_PAYLOAD: usize = 1200;
/// What a frame becomes longer by at the most, on its way into one packet: the long form of identifier mode.
const LONGEST_HEADER: usize = 40;
/// One worker has a site, so it sends on one lane.
const LANES: u8 = 1;

/// Binds the UDP ports that a site's peers need.
pub(crate) fn open_wan(config: &Site) -> Result<Wan, UdpError> {
    let modes: Vec<Mode> = config.peers.iter().map(|peer| peer.mode).collect();
    let plain = sockets(config).into_iter().find(|socket| socket.what == "plain");
    let plain_port = plain.map_or(VXLAN_PORT, |socket| socket.address.port());
    Wan::open(config.bind, plain_port, &modes, Offloads::default())
}

/// What the manager is told; none if all peers are plain.
pub(crate) fn manager_settings(config: &Site, lan_mtu: usize) -> Option<ManagerSettings> {
    let peer = |peer: &SitePeer| ManagerPeer {
        endpoint: peer.endpoint.as_ref().map(ToString::to_string),
        public_key: peer.public_key,
        mode: peer.mode,
        classical: peer.classical,
    };
    let probed = config.peers.iter().filter(|peer| !matches!(peer.mode, Mode::Plain { .. }));
    let path = probed.map(|peer| most_payload(config, peer)).max()?;
    let most = path.min(HEADER_OCTETS + lan_mtu + LONGEST_HEADER).max(LEAST_PAYLOAD);
    Some(ManagerSettings {
        name: config.name.clone(),
        identity: config.identity.clone()?,
        peers: config.peers.iter().map(peer).collect(),
        lanes: LANES,
        window: config.window,
        epoch_life: EPOCH_LIFE,
        most_payload: u16::try_from(most).unwrap_or(u16::MAX),
    })
}

/// What the forwarding half is told.
pub(crate) fn settings(config: &Site, lan_mtu: usize) -> Result<Settings, getrandom::Error> {
    let mut table_seed = [0; 16];
    getrandom::fill(&mut table_seed)?;
    let peer = |peer: &SitePeer| PeerSettings {
        mode: peer.mode,
        path_payload: match peer.mode {
            Mode::Plain { .. } => most_payload(config, peer),
            Mode::Identifier | Mode::HeaderEncryption => LEAST_PAYLOAD,
        },
    };
    Ok(Settings {
        peers: config.peers.iter().map(peer).collect(),
        lan_frame: HEADER_OCTETS + lan_mtu,
        limits: config.limits,
        window: config.window,
        table_seed,
    })
}

/// Octets of UDP payload that the path to a peer may carry, whichever IP version is used.
fn most_payload(config: &Site, peer: &SitePeer) -> usize {
    let versions = IpVersion::towards(peer, config.bind).into_iter();
    versions.map(|version| path_payload(peer, version)).min().unwrap_or(LEAST_PAYLOAD)
}
