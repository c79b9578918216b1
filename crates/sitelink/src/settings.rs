//! Settings of a manager and of its peers.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use dataplane::site::Copies;
use suite::identity::{Identity, PublicKey};
use tunnel::{FrameKinds, Mode};

/// Settings of a manager.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// The site's name, for the thread's.
    pub name: String,
    /// Identity of this site.
    pub identity: Identity,
    /// Its first peers, in the order of their numbers.
    pub peers: Vec<ManagerPeer>,
    /// Lanes that this site sends on.
    pub lanes: u8,
    /// W of the windows, as in [`tunnel::Settings`].
    pub window: u64,
    /// Kinds of frames that this site takes.
    pub frames: FrameKinds,
    /// Duration of an epoch of identifier mode.
    pub epoch_life: Duration,
    /// Octets of the largest UDP payload that is worth looking for: what the longest frame of the LAN needs.
    pub most_payload: u16,
    /// The site was there a moment ago, and begins anew: it connects at once to peers that would otherwise be waited for.
    pub returns: bool,
}

/// A peer.
#[derive(Clone, Debug)]
pub struct ManagerPeer {
    /// `host:port`, or nothing if the peer connects from anywhere. Header encryption and plain peers must have one.
    pub endpoint: Option<String>,
    /// Its public key; none for a plain peer, which has no management channel.
    pub public_key: Option<PublicKey>,
    /// Public key of the peer that relays to this one, which then has no endpoint.
    pub via: Option<PublicKey>,
    /// Protection of headers.
    pub mode: Mode,
    /// Whether keys may be agreed on with it by X25519 alone, if it does not know X25519MLKEM768.
    pub classical: bool,
    /// Paths to it, in identifier mode and in place of an endpoint; at most [`dataplane::site::PATHS`].
    pub paths: Vec<ManagerPath>,
    /// Which frames go over all of them.
    pub copies: Copies,
}

/// One of several paths to a peer. Its number, which is its place in the list, is the same at both ends.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ManagerPath {
    /// `host:port`, or nothing if the peer is heard on it.
    pub endpoint: Option<String>,
    /// Address of this box from which its packets leave. An unspecified one says the IP version alone.
    pub local: Option<IpAddr>,
    /// Interface by which they leave.
    pub interface: Option<String>,
    /// Number of its uplink, from 1 on, if that has a rate of its own.
    pub uplink: Option<u8>,
}

impl fmt::Display for ManagerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.local.map(|local| format!("from {local}"));
        let endpoint = self.endpoint.as_ref().map(|endpoint| format!("to {endpoint}"));
        let words: Vec<String> = [self.interface.clone(), local, endpoint].into_iter().flatten().collect();
        if words.is_empty() {
            f.write_str("by the routes of this box")
        } else {
            f.write_str(&words.join(" "))
        }
    }
}
