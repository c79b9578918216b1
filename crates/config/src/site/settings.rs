//! Settings of a site's sockets, its manager and its forwarding half, from the configuration.

use dataplane::site::{PACKET_OCTETS, VXLAN_PORT, Wan};
use netdev::udp::{Offloads, UdpError};
use sitelink::{ManagerPath, ManagerPeer, ManagerSettings};
use tunnel::shaper::ShaperSettings;
use tunnel::{EPOCH_LIFE, FrameKinds, LaneShare, Mode, PeerSettings, Settings};
use wire::ethernet::HEADER_OCTETS;
use wire::tunnel::OuterTags;

use super::{Site, SitePath, SitePeer, sockets};
use crate::check::site::{IpVersion, path_payload};

/// Octets of UDP payload that every path carries (RFC 9000, 14): what QUIC begins with.
const LEAST_PAYLOAD: usize = 1200;
/// Octets in front of a relayed packet, at most.
const RELAY_HEADER: usize = 48;
/// Octets by which a frame grows at most on its way into one packet: the long form of identifier mode.
const LONGEST_HEADER: usize = 40;

/// Binds the UDP ports that a site's peers need.
///
/// # Errors
///
/// As [`Wan::open`].
pub fn open_wan(config: &Site) -> Result<Wan, UdpError> {
    let modes: Vec<Mode> = config.peers.iter().map(|peer| peer.mode).collect();
    Wan::open(config.bind, plain_port(config), &modes, Offloads::default())
}

/// Binds those that peers lack beside the ports that are there: data, header and plain.
///
/// # Errors
///
/// As [`Wan::open_further`].
pub fn open_further(config: &Site, there: [bool; 3]) -> Result<Wan, UdpError> {
    let modes: Vec<Mode> = config.peers.iter().map(|peer| peer.mode).collect();
    Wan::open_further(config.bind, plain_port(config), &modes, Offloads::default(), there)
}

/// The port of plain mode.
pub fn plain_port(config: &Site) -> u16 {
    let plain = sockets(config).into_iter().find(|socket| socket.what == "plain");
    plain.map_or(VXLAN_PORT, |socket| socket.address.port())
}

/// Settings of the manager; none if all peers are plain.
pub fn manager_settings(config: &Site, lan_mtu: usize) -> Option<ManagerSettings> {
    Some(ManagerSettings {
        most_payload: most_payload(config, lan_mtu)?,
        name: config.name.clone(),
        identity: config.identity.clone()?,
        peers: config.peers.iter().map(|peer| manager_peer(config, peer)).collect(),
        lanes: LaneShare::new(0, config.workers).unwrap_or(LaneShare::WHOLE).lanes(),
        frames: frame_kinds(config),
        window: config.window,
        epoch_life: EPOCH_LIFE,
        returns: false,
    })
}

/// Kinds of frames that a site takes.
fn frame_kinds(config: &Site) -> FrameKinds {
    let only_if = |condition, kinds| if condition { kinds } else { FrameKinds::default() };
    let cyclic = only_if(config.cells.is_some(), FrameKinds::CYCLIC);
    FrameKinds::ALWAYS.and(cyclic).and(only_if(config.relay, FrameKinds::TO_SITES))
}

/// Settings of the manager for a peer.
pub fn manager_peer(config: &Site, peer: &SitePeer) -> ManagerPeer {
    let uplinks = config.path_uplinks();
    let number = |path: &SitePath| {
        let own = path.uplink()?;
        uplinks.iter().position(|uplink| *uplink == own).map(|place| place as u8 + 1)
    };
    ManagerPeer {
        endpoint: peer.endpoint.as_ref().map(ToString::to_string),
        public_key: peer.public_key,
        via: peer.via.as_ref().map(|hub| hub.public_key),
        mode: peer.mode,
        classical: peer.classical,
        paths: peer.paths.iter().map(|path| manager_path(path, number(path))).collect(),
        copies: peer.copies,
    }
}

/// Settings of the manager for one path of a peer, with the number of its uplink, if that has a rate of its own.
pub fn manager_path(path: &SitePath, uplink: Option<u8>) -> ManagerPath {
    ManagerPath {
        endpoint: path.endpoint.as_ref().map(ToString::to_string),
        local: path.local,
        interface: path.interface.clone(),
        uplink,
    }
}

/// Octets of the largest UDP payload that is worth looking for; none if all peers are plain.
pub fn most_payload(config: &Site, lan_mtu: usize) -> Option<u16> {
    let probed = config.peers.iter().filter(|peer| !matches!(peer.mode, Mode::Plain { .. }));
    let path = probed.map(|peer| most_payload_to(config, peer)).max()?;
    let relays = config.relay || config.peers.iter().any(|peer| peer.via.is_some());
    // The channel's packets have to fit a relay's ways too, however short frames are.
    let least = if relays { LEAST_PAYLOAD + RELAY_HEADER } else { LEAST_PAYLOAD };
    let most = path.min((lan_frame(lan_mtu) + LONGEST_HEADER).max(least)).max(LEAST_PAYLOAD);
    Some(u16::try_from(most).unwrap_or(u16::MAX))
}

/// Settings of the forwarding half.
///
/// # Errors
///
/// The system has no randomness.
pub fn settings(config: &Site, lan_mtu: usize) -> Result<Settings, getrandom::Error> {
    let mut table_seed = [0; 16];
    getrandom::fill(&mut table_seed)?;
    Ok(Settings {
        peers: config.peers.iter().map(|peer| peer_settings(config, peer)).collect(),
        lan_frame: lan_frame(lan_mtu),
        limits: config.limits,
        window: config.window,
        table_seed,
    })
}

/// The shaper of a site whose uplink's rate is configured, and those of its paths' uplinks, by their numbers.
pub fn shapers(config: &Site, lan_mtu: usize) -> (Option<ShaperSettings>, Vec<ShaperSettings>) {
    let frame = lan_frame(lan_mtu) + OuterTags::OCTETS + LONGEST_HEADER;
    let relayed = PACKET_OCTETS + RELAY_HEADER;
    let shaper = |bits_per_second| ShaperSettings { bits_per_second, most_payload: frame.max(relayed) };
    let paths = config.path_uplinks();
    (config.rate.map(shaper), paths.into_iter().map(|uplink| shaper(uplink.rate)).collect())
}

/// Settings of the forwarding half for a peer.
pub fn peer_settings(config: &Site, peer: &SitePeer) -> PeerSettings {
    let path_payload = match peer.mode {
        Mode::Plain { .. } => most_payload_to(config, peer),
        Mode::Identifier | Mode::HeaderEncryption => LEAST_PAYLOAD,
    };
    PeerSettings { mode: peer.mode, path_payload }
}

/// Octets of the longest frame of the LAN without VLAN tags.
pub const fn lan_frame(lan_mtu: usize) -> usize {
    HEADER_OCTETS + lan_mtu
}

/// Octets of UDP payload that the path to a peer may carry, whichever IP version is used.
fn most_payload_to(config: &Site, peer: &SitePeer) -> usize {
    let versions = IpVersion::towards(peer, config.bind).into_iter();
    versions.map(|version| path_payload(peer, version)).min().unwrap_or(LEAST_PAYLOAD)
}
