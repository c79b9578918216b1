//! A site: its LAN, its UDP ports, its peers, and what it knows of flows and stations.
//!
//! Counters stand in groups, since each part of a site counts for itself and some of them use one word: a
//! [`Group`](super::table::Group) says which.

pub mod delivery;
mod peer;
pub mod site_verdict;
mod standby;

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::port::{PortReport, WaitingReport};
use super::table::Group;
use super::verdict::{Concern, Verdict};
pub use peer::peer_report;
pub use standby::standby_report;

/// A site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SiteReport {
    /// The site's name.
    pub name: String,
    /// Its verdict, made of recently verified frames.
    #[serde(default)]
    pub verdict: Verdict,
    /// Its concerns, the worst first; empty if all is well.
    pub concerns: Vec<Concern>,
    /// The missing part, if nothing passes between its LAN and its peers.
    pub waiting: Option<WaitingReport>,
    /// Its worker has not answered: the counters are those of before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// Its public key; none if all peers are plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// The side of the LAN.
    pub lan: PortReport,
    /// The side of the other sites.
    pub udp: Vec<UdpReport>,
    /// Counters between the ports, by kind of frame or packet.
    pub path: Counters,
    /// The uplink, if it has a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<UplinkReport>,
    /// The uplinks of paths with a rate of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_uplinks: Vec<PathUplinkReport>,
    /// Counters of MACsec frames and of packets that are no peer's.
    pub tunnel: Counters,
    /// Counters of the management channel; none if all peers are plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Counters>,
    /// The other sites, in the order of the configuration.
    pub peers: Vec<SitePeerReport>,
    /// This box as one of two on its LAN, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyReport>,
    /// Stations whose place is known: a limited number of them.
    pub stations: Vec<StationReport>,
    /// Flows towards peers: a limited number of them.
    pub flows: Vec<FlowReport>,
}

/// A box that shares its LAN with another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StandbyReport {
    /// `listening`, `standby`, `active` or `leaving`.
    pub role: String,
    /// Why it has this role.
    pub cause: String,
    /// For so long, in milliseconds.
    pub since_ms: u64,
    /// Number of times that it began to forward.
    pub takeovers: u64,
    /// The peer that is the other box.
    pub partner: String,
    /// Role of that one in its last beat, if one was heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner_role: Option<String>,
    /// Milliseconds since that beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_ms_ago: Option<u64>,
    /// Its `takeover` in milliseconds, if that is not the one of this box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_takeover_ms: Option<u64>,
}

/// A UDP port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UdpReport {
    /// `data`, `header` or `plain`.
    pub what: String,
    /// The address it is bound to.
    pub address: String,
    /// Packets and octets, and what was lost.
    pub counters: Counters,
}

/// An uplink with a rate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UplinkReport {
    /// Its rate, in bits a second.
    pub bits_per_second: u64,
    /// Express packets that wait.
    pub express_waiting: u64,
    /// Other packets that wait.
    pub bulk_waiting: u64,
    /// Octets of both on the line.
    pub octets_waiting: u64,
    /// Packets that were sent, and those that found no room.
    pub counters: Counters,
}

/// An uplink of paths with a rate of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathUplinkReport {
    /// Its interface, or its address.
    pub name: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: UplinkReport,
}

/// Another site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SitePeerReport {
    /// Its name.
    pub name: String,
    /// `identifier`, `header-encryption` or `plain`.
    pub mode: String,
    /// Configured address; none: it connects from anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The peer that relays to it, if one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Whether that one relays to it now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relayed: bool,
    /// Why there is no direct way to it meanwhile; empty if that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub not_direct: String,
    /// `plain`, `waiting`, `connecting`, `refused`, `greeting` or `connected`.
    pub state: String,
    /// For so long, in seconds.
    pub seconds: u64,
    /// Why there is no connection, or why the last one ended; empty if there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Cure for that; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cure: String,
    /// Address to which its data goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Microseconds of a round trip over the management channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u64>,
    /// Round trips of the last probes, of a peer without paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<RoundTripsReport>,
    /// Place of known flows' frames: `kernel`, or `user space: ` and why; both ways apart if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Octets of the largest UDP payload towards it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_payload: Option<u16>,
    /// Its paths, if it is configured with several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<SitePathReport>,
    /// Address of this site, as the peer sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<String>,
    /// Key exchange of the connection: `X25519MLKEM768`, or `X25519` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_exchange: Option<String>,
    /// Seconds for which the peer has been running, as far as is known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_seconds: Option<u64>,
    /// The epoch that is sent under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_epoch: Option<EpochReport>,
    /// The newest epoch that is received under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_epoch: Option<EpochReport>,
    /// Octets that it has counted of its packets; none if its version does not say, or it has not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_there: Option<CountedThereReport>,
    /// Flows towards it that it knows.
    pub flows_acknowledged: usize,
    /// Flows towards it whose announcement it has not answered yet.
    pub flows_announced: usize,
    /// Flows of its own that are known here.
    pub peer_flows: usize,
    /// Counters of its frames and packets.
    pub counters: Counters,
    /// Counters of the session with it; none if it is plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Counters>,
}

/// One of several paths to a peer. A number is its place in the list, from 1.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SitePathReport {
    /// Interface, own address and endpoint, in words.
    pub settings: String,
    /// Whether it carries packets both ways.
    pub up: bool,
    /// Whether frames that go over one path go over this one.
    pub preferred: bool,
    /// Why it carries no packets; empty if it does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Address at which the peer is proved to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Microseconds of a round trip of probes, smoothed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u64>,
    /// Round trips of the last probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<RoundTripsReport>,
    /// Of a thousand probes, those that are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_per_mille: Option<u16>,
    /// Octets of the largest UDP payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<u16>,
}

/// Round trips of the last probes on a path, or to a peer with one way; at most 250.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoundTripsReport {
    /// Number of answered probes.
    pub probes: u16,
    /// Microseconds of the shortest.
    pub least_us: u64,
    /// Microseconds of the longest.
    pub most_us: u64,
}

impl SitePeerReport {
    /// Whether frames of known flows go through the kernel, outward and inward; none where none could.
    pub fn in_kernel(&self) -> Option<[bool; 2]> {
        let path = self.path.as_deref()?;
        let ways = path.strip_prefix("sent: ").and_then(|path| path.split_once("; received: "));
        let (outward, inward) = ways.unwrap_or((path, path));
        Some([outward, inward].map(|way| way == "kernel"))
    }
}

/// Octets of UDP payload of packets beside the management channel, as a peer has counted them since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CountedThereReport {
    /// Sent to this site.
    pub sent_octets: u64,
    /// Of this site, and valid.
    pub accepted_octets: u64,
    /// Number of messages that said so.
    pub messages: u64,
}

/// An epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EpochReport {
    /// Its number.
    pub epoch: u32,
    /// Its age in seconds.
    pub seconds: u64,
}

/// A station whose place is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StationReport {
    /// Its MAC address.
    pub address: String,
    /// The peer behind which it is; none: on this LAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Seconds since it was heard there last.
    pub seconds: u64,
}

/// A flow of frames towards a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowReport {
    /// The peer.
    pub peer: String,
    /// Its number towards that peer.
    pub index: u16,
    /// Its SCI, if its frames have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sci: Option<String>,
    /// Its source address.
    pub source: String,
    /// Its destination address.
    pub destination: String,
    /// Whether the peer knows it.
    pub acknowledged: bool,
    /// Seconds since a frame of it came last.
    pub seconds: u64,
}

impl SiteReport {
    /// All groups of counters, with the words for where each counts, in the order of a report.
    pub fn groups(&self) -> Vec<(Group, String, &Counters)> {
        let mut groups = vec![(Group::Lan, self.lan.interface.clone(), &self.lan.counters)];
        groups.extend(
            self.udp.iter().map(|port| (Group::Udp, format!("UDP {}", port.address), &port.counters)),
        );
        groups.push((Group::Path, "between the ports".to_owned(), &self.path));
        groups
            .extend(self.uplink.iter().map(|uplink| (Group::Uplink, "uplink".to_owned(), &uplink.counters)));
        let named = |uplink: &PathUplinkReport| format!("uplink {}", uplink.name);
        groups.extend(
            self.path_uplinks.iter().map(|uplink| (Group::Uplink, named(uplink), &uplink.figures.counters)),
        );
        groups.push((Group::Tunnel, "tunnel".to_owned(), &self.tunnel));
        groups.extend(
            self.channel.iter().map(|channel| (Group::Channel, "management channel".to_owned(), channel)),
        );
        for peer in &self.peers {
            groups.push((Group::Peer, format!("peer {}", peer.name), &peer.counters));
            groups.extend(
                peer.session
                    .iter()
                    .map(|session| (Group::Session, format!("session with {}", peer.name), session)),
            );
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample_site;

    #[test]
    fn a_report_comes_back_as_it_was() {
        let text = serde_json::to_string(&sample_site()).unwrap();
        assert_eq!(serde_json::from_str::<SiteReport>(&text).unwrap(), sample_site());
    }
}
