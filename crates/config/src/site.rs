//! `[[site]]`: a tunnel gateway, and `[[site.peer]]`, the sites that it speaks with.
//!
//! The peer's mode decides whether an identity, a key or an endpoint is needed:
//!
//! | | `identifier` | `header-encryption` | `plain` |
//! |---|---|---|---|
//! | `identity` of the site, `public_key` | needed | needed | refused (`public_key`) |
//! | `endpoint` | may be absent: the peer connects | needed | needed |
//! | `vni` | refused | refused | needed |
//!
//! Not here: whether a name can be looked up, and what the LAN interface is.

mod endpoint;
mod limits;
mod misfit;
mod path;
mod peer;
mod ports;
mod protect;
mod relay;
mod sending;
pub mod settings;
mod standby;
pub(super) mod uplink;
mod validate;
mod vlans;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use dataplane::site::{Copies, Dscp, UNTAGGED, VlanList};
use secy::ExpressClasses;
use suite::identity::{Identity, PublicKey};
use tunnel::{Limits, Mode};
use wire::EtherType;

pub use endpoint::{BadEndpoint, Endpoint, Host};
pub use misfit::unfit_for_header_encryption;
pub(super) use misfit::warn_of_misfits;
pub use ports::{Socket, sockets};
pub use standby::Standby;
pub(super) use validate::validate_all;

use super::words::Named as _;
use super::{Io, Mtu, Origin};

/// `[[site]]`: a gateway that carries a LAN's MACsec frames to other sites, over UDP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// See [`super::is_name`]; no link and no other site has it.
    pub name: String,
    /// The line of the configuration on which the site begins, from 1.
    pub line: Origin<usize>,
    /// The interface towards the LAN.
    pub lan: String,
    /// Whether that interface may carry addresses or default routes of this box, which are cut off.
    pub allow_addresses: bool,
    /// The MTU of the LAN.
    pub mtu: Mtu,
    /// Whether a link of its name ([`super::Link::in_site`]) protects the LAN's frames.
    pub protect: bool,
    /// The data port, which is the management channel's, too. Neither the port nor the next one is 0.
    pub bind: SocketAddr,
    /// Identity of the site; none if all of its peers are plain.
    pub identity: Option<Identity>,
    /// The differentiated services code point (RFC 2474) of packets with frames.
    pub dscp: Dscp,
    /// Rate of its uplink in bits a second, if packets are to wait for it here.
    pub rate: Option<u64>,
    /// Classes of frames that go first there, and over all paths with [`Copies::Express`].
    pub express: ExpressClasses,
    /// VLANs that cross; none: all.
    pub vlans: Option<VlanList>,
    /// EtherType of cells' protected frames, if they cross.
    pub cells: Option<EtherType>,
    /// The other box of its LAN, if there is one.
    pub standby: Option<Standby>,
    /// Whether it relays between its peers.
    pub relay: bool,
    /// Workers that send its frames: 1 or [`dataplane::site::SENDING_WORKERS`].
    pub workers: u8,
    /// Seqs of a lane's window: see [`tunnel::Settings::window`].
    pub window: u64,
    /// Bounds of memory and work.
    pub limits: Limits,
    /// The other sites: 1 to [`MOST_PEERS`].
    pub peers: Vec<SitePeer>,
}

/// `[[site.peer]]`: another site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SitePeer {
    /// See [`super::is_name`]; no other peer of the site has it.
    pub name: String,
    /// The line of the configuration on which the peer begins, from 1.
    pub line: Origin<usize>,
    /// Its host and port; none: it connects from wherever it is.
    pub endpoint: Option<Endpoint>,
    /// The peer that relays to this one, which then has no endpoint.
    pub via: Option<Hub>,
    /// The peer that is on the same LAN, and named first.
    pub standby_of: Option<String>,
    /// Public key of the peer; none if it is plain.
    pub public_key: Option<PublicKey>,
    /// Mode in which headers are protected.
    pub mode: Mode,
    /// The largest IP packet that the path may carry, in octets. Up to there it is probed; of a plain peer, believed.
    pub path_mtu: u16,
    /// Whether keys may be agreed on with it by X25519 alone: `classical = "allow"`.
    pub classical: bool,
    /// Paths to it, in place of an endpoint: at most [`dataplane::site::PATHS`].
    pub paths: Vec<SitePath>,
    /// Frames that go over all of them.
    pub copies: Copies,
}

/// One of a peer's `paths`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SitePath {
    /// Host and port of the peer on it; none: the peer is heard there.
    pub endpoint: Option<Endpoint>,
    /// Address of this box from which packets leave. An unspecified one says the IP version alone.
    pub local: Option<IpAddr>,
    /// Interface by which they leave.
    pub interface: Option<String>,
    /// Rate of its uplink in bits a second, if that has one of its own.
    pub rate: Option<u64>,
}

/// An uplink of paths that has a rate of its own: that of an interface, or of an address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PathUplink {
    key: UplinkKey,
    /// Its rate in bits a second.
    pub rate: u64,
}

/// The interface of an uplink, or its address if no interface is said. Uplinks are numbered in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum UplinkKey {
    Address(IpAddr),
    Interface(String),
}

impl SitePath {
    /// The interface or the address that says which uplink it has. `None`: neither is said.
    pub(crate) fn uplink_key(&self) -> Option<UplinkKey> {
        if let Some(interface) = &self.interface {
            return Some(UplinkKey::Interface(interface.clone()));
        }
        self.local.filter(|local| !local.is_unspecified()).map(UplinkKey::Address)
    }

    /// The uplink of its own that it has, if it has one.
    pub fn uplink(&self) -> Option<PathUplink> {
        let (key, rate) = self.uplink_key().zip(self.rate)?;
        Some(PathUplink { key, rate })
    }
}

impl PathUplink {
    /// Its interface, or its address.
    pub fn name(&self) -> String {
        match &self.key {
            UplinkKey::Address(address) => address.to_string(),
            UplinkKey::Interface(name) => name.clone(),
        }
    }
}

impl SitePeer {
    /// Whether both say the same but for paths, of which both have some.
    pub fn is_like_but_for_paths(&self, other: &Self) -> bool {
        let others = |peer: &Self| Self { paths: Vec::new(), copies: Copies::None, ..peer.clone() };
        !self.paths.is_empty() && !other.paths.is_empty() && others(self) == others(other)
    }

    /// Its endpoints, on all paths.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoint.iter().chain(self.paths.iter().filter_map(|path| path.endpoint.as_ref()))
    }
}

/// A peer that relays to others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hub {
    /// Its name.
    pub name: String,
    /// Its public key.
    pub public_key: PublicKey,
}

/// Peers of a site.
pub const MOST_PEERS: usize = 255;

impl Site {
    /// Whether both say the same of the site itself, but for what changes while it runs: its peers, unless uplinks of theirs come or go or have
    /// another rate, or several workers send to them; and the VLANs that cross, as long as none of its flows has to leave the kernel.
    pub fn goes_on_as(&self, other: &Self) -> bool {
        let others = |site: &Self| Self { peers: Vec::new(), vlans: None, ..site.clone() };
        self.admits_untagged() == other.admits_untagged()
            // Each worker has memory of its own for each peer.
            && (self.workers == 1 || self.peers == other.peers)
            && self.path_uplinks() == other.path_uplinks()
            && others(self) == others(other)
    }

    /// The uplinks of paths with a rate of their own; their numbers are from 1 on.
    pub fn path_uplinks(&self) -> Vec<PathUplink> {
        let paths = self.peers.iter().flat_map(|peer| &peer.paths);
        let uplinks: BTreeSet<_> = paths.filter_map(SitePath::uplink).collect();
        uplinks.into_iter().collect()
    }

    /// Whether packets wait here for some uplink.
    pub fn is_shaped(&self) -> bool {
        self.rate.is_some() || !self.path_uplinks().is_empty()
    }

    /// Whether frames of no VLAN cross. Programs in the kernel carry no others.
    pub fn admits_untagged(&self) -> bool {
        self.vlans.as_ref().is_none_or(|vlans| vlans.has(UNTAGGED))
    }

    /// Peers in identifier mode, and in plain mode: their known flows may go through the kernel.
    ///
    /// # Errors
    /// Why no flow of the site may.
    pub fn peers_in_kernel(&self, io: Io) -> Result<[usize; 2], &'static str> {
        if !matches!(io, Io::Auto | Io::Kernel) {
            return Err("io says so");
        }
        if self.protect {
            return Err("its SecY is in user space");
        }
        if self.workers > 1 {
            return Err("several workers send its frames");
        }
        if self.rate.is_some() {
            return Err("packets wait for the rate of its uplink");
        }
        if !self.admits_untagged() {
            return Err("its vlans have no \"untagged\", and flows in the kernel have no tag");
        }
        let count = |is_it: fn(Mode) -> bool| self.peers.iter().filter(|peer| is_it(peer.mode)).count();
        match [count(|mode| mode == Mode::Identifier), count(|mode| matches!(mode, Mode::Plain { .. }))] {
            [0, 0] => Err("header encryption does not go through the kernel"),
            peers => Ok(peers),
        }
    }

    /// Peers that are boxes of one LAN, the one that is named first first.
    pub fn twins(&self) -> impl Iterator<Item = (&str, &str)> {
        self.peers.iter().filter_map(|peer| Some((peer.standby_of.as_deref()?, peer.name.as_str())))
    }

    /// Whether it or one of its peers shares a LAN with another.
    pub fn has_twins(&self) -> bool {
        self.standby.is_some() || self.peers.iter().any(|peer| peer.standby_of.is_some())
    }

    /// Whether one of its peers has this mode, whichever VNI.
    pub fn has(&self, mode: Mode) -> bool {
        self.peers.iter().any(|peer| peer.mode.name() == mode.name())
    }
}

#[cfg(test)]
mod tests;
