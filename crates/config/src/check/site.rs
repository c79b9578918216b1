//! Plan of a site on this machine: interfaces, ports, and how much of a LAN frame a path carries.
//!
//! ```text
//! LAN frame:        DA 6 | SA 6 | SecTAG 16 | rest            LAN MTU: what is behind the SecTAG's EtherType
//! identifier:       IP 20/40 | UDP 8 | RID 6, check 2 | header 8 | rest                       (wire formats, section 3.1)
//! header-encryption: IP 20/40 | UDP 8 | the frame, its first 32 octets encrypted      (section 3.2)
//! plain:            IP 20/40 | UDP 8 | VXLAN 8 | the frame                            (section 3.3)
//! ```
//!
//! Until a peer knows a flow, packets of identifier mode are 32 octets longer. What does not fit one packet goes in
//! two; plain peers know no such thing. The sums are tested against the forwarding half itself.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use dataplane::site::{Copies, Dscp, PACKET_OCTETS};
use netdev::interface::InterfaceError;
use tunnel::Mode;
use wire::ethernet::HEADER_OCTETS;
use wire::tunnel::{LONG_FORM_OCTETS, SHORT_HEADER_OCTETS};

use super::engine::engines;
use super::mtus::{IN_SITE_OCTETS, ReadMtu};
use crate::site::settings::manager_path;
use crate::site::uplink::{rate_text, reveals};
use crate::site::{Endpoint, Host, sockets, unfit_for_header_encryption};
use crate::words::Named as _;
use crate::{Config, Finding, Mtu, Site, SitePeer, express_classes};

const UDP_OCTETS: usize = 8;
const VXLAN_OCTETS: usize = 8;
/// Addresses and SecTAG with SCI.
const PREFIX_OCTETS: usize = 28;
/// Octets that MACsec with an SCI adds to a machine's frame.
const MACSEC_OCTETS: usize = 32;

/// An IP version, and what it takes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpVersion {
    /// IPv4 without options.
    V4,
    /// IPv6 without extension headers.
    V6,
}

impl IpVersion {
    /// Octets of its header.
    pub const fn octets(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Those in which a peer can be reached.
    pub fn towards(peer: &SitePeer, bind: SocketAddr) -> Vec<Self> {
        let both = bind.is_ipv6() && bind.ip().is_unspecified();
        let is_four = |endpoint: &Endpoint| match endpoint.host {
            Host::Address(address) => Some(address.is_ipv4()),
            Host::Name(_) => None,
        };
        if let Some(versions) = peer.endpoints().map(is_four).collect::<Option<Vec<_>>>()
            && !versions.is_empty()
        {
            let mut versions = versions;
            versions.sort_unstable_by(|a, b| b.cmp(a));
            versions.dedup();
            return versions.into_iter().map(|four| if four { Self::V4 } else { Self::V6 }).collect();
        }
        match peer.endpoint.as_ref().map(|Endpoint { host, .. }| host) {
            Some(Host::Address(IpAddr::V4(_))) => vec![Self::V4],
            Some(Host::Address(IpAddr::V6(_))) => vec![Self::V6],
            _ if both => vec![Self::V4, Self::V6],
            _ if bind.is_ipv4() => vec![Self::V4],
            _ => vec![Self::V6],
        }
    }
}

/// Capacity of a path in one mode: MTUs of the LAN, in octets behind the SecTAG's EtherType. For frames with an SCI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sums {
    /// Up to here a frame is one packet.
    pub unsplit: usize,
    /// Up to here it is two at the most, also before the peer knows its flow; more is dropped.
    pub in_two: usize,
}

impl Sums {
    /// Capacity of UDP payloads of so many octets.
    pub const fn of(mode: Mode, payload: usize) -> Self {
        let (unsplit, in_two) = match mode {
            Mode::Identifier => {
                let room = payload.saturating_sub(SHORT_HEADER_OCTETS);
                (room + PREFIX_OCTETS, room + room.saturating_sub(LONG_FORM_OCTETS) + PREFIX_OCTETS)
            }
            // Both packets have addresses and SecTAG.
            Mode::HeaderEncryption => (payload, (2 * payload).saturating_sub(PREFIX_OCTETS)),
            Mode::Plain { .. } => {
                (payload.saturating_sub(VXLAN_OCTETS), payload.saturating_sub(VXLAN_OCTETS))
            }
        };
        Self { unsplit: unsplit.saturating_sub(HEADER_OCTETS), in_two: in_two.saturating_sub(HEADER_OCTETS) }
    }

    /// The MTU at machines behind link gateways whose frames go unsplit.
    pub const fn machines(self) -> usize {
        self.unsplit.saturating_sub(MACSEC_OCTETS)
    }
}

/// Octets of the largest UDP payload that a path may carry.
pub fn path_payload(peer: &SitePeer, version: IpVersion) -> usize {
    // A relayed packet is the body of another one. The channel's own packets are no longer than a mailbox takes.
    let relayed = |payload: usize| (payload - SHORT_HEADER_OCTETS).min(PACKET_OCTETS);
    let payload = usize::from(peer.path_mtu) - version.octets() - UDP_OCTETS;
    if peer.via.is_some() { relayed(payload) } else { payload }
}

/// The MTU of a site's LAN, in octets: of the frames that the tunnel carries, so with what the SecY of a site that protects its LAN adds.
///
/// # Errors
///
/// An interface that is missing, or that has a smaller MTU than is configured.
pub fn lan_mtu(file: &Path, site: &Site, read_mtu: ReadMtu) -> Result<usize, Finding> {
    let finding = |text: String| Finding {
        file: file.to_owned(),
        line: Some(site.line.0),
        text: format!("site {:?}: {text}", site.name),
    };
    let interface = read_mtu(&site.lan).map_err(|error: InterfaceError| finding(error.to_string()))?;
    let added = if site.protect { IN_SITE_OCTETS } else { 0 };
    match site.mtu {
        Mtu::Octets(octets) if usize::from(octets) > interface => Err(finding(format!(
            "mtu = {octets} is more than the {interface} of {}; set mtu to {interface} or less, or ip link set {} mtu {octets}",
            site.lan, site.lan
        ))),
        Mtu::Octets(octets) => Ok(usize::from(octets) + added),
        Mtu::Interface => Ok(interface + added),
    }
}

/// Peers to whom frames of a LAN with an MTU of `lan_mtu` octets cannot all travel, each with its cure.
pub fn not_carried(file: &Path, site: &Site, lan_mtu: usize) -> Vec<Finding> {
    let dropped = |peer: &SitePeer| {
        let sums = |version| Sums::of(peer.mode, path_payload(peer, version));
        let most =
            IpVersion::towards(peer, site.bind).into_iter().map(|version| sums(version).in_two).min()?;
        (lan_mtu > most).then(|| Finding {
            file: file.to_owned(),
            line: Some(peer.line.0),
            text: format!(
                "site {:?}: peer {:?}: frames with more than {most} octets behind the SecTAG's EtherType are dropped, and {} takes {lan_mtu}; set the machines' MTU to {}",
                site.name,
                peer.name,
                site.lan,
                most.saturating_sub(MACSEC_OCTETS)
            ),
        })
    };
    site.peers.iter().filter_map(dropped).collect()
}

/// Writes a site's part of the plan.
pub(super) fn write_site(
    f: &mut fmt::Formatter<'_>,
    config: &Config,
    site: &Site,
    lan_mtu: Option<usize>,
) -> fmt::Result {
    writeln!(f, "\nsite {}", site.name)?;
    match lan_mtu {
        Some(mtu) if site.protect => writeln!(
            f,
            "  lan        {}, MTU {}; with SecTAG, ICV and VLAN tags {mtu}",
            site.lan,
            mtu - IN_SITE_OCTETS
        )?,
        Some(mtu) => writeln!(f, "  lan        {}, MTU {mtu}", site.lan)?,
        None => writeln!(f, "  lan        {}", site.lan)?,
    }
    if site.protect {
        writeln!(f, "  protects   all frames of the LAN, as link {} says", site.name)?;
    } else {
        let and = if site.cells.is_some() { " and cells" } else { "" };
        writeln!(
            f,
            "  carries    only MACsec frames of stations{and}; for ordinary machines: protect = true and [site.mka] at all sites"
        )?;
    }
    if let Some(standby) = &site.standby {
        let first = if standby.preferred { ", comes first" } else { "" };
        let (peer, silence) = (&standby.peer, standby.takeover.as_millis());
        writeln!(
            f,
            "  standby    one of two boxes on its LAN, with {peer}: takes over after {silence} ms{first}"
        )?;
    }
    for (first, second) in site.twins() {
        writeln!(f, "  twins      {first} and {second} are boxes of one LAN")?;
    }
    let engines = engines(config.gateway.io);
    write!(f, "  frames     ")?;
    if let Ok(peers) = site.peers_in_kernel(config.gateway.io) {
        let modes = match peers {
            [_, 0] => "identifier",
            [0, _] => "plain",
            _ => "identifier and plain",
        };
        writeln!(f, "known flows of {modes} mode: kernel, if the drivers of LAN and WAN take its programs")?;
        writeln!(f, "             all others: user space (LAN by {engines}; UDP sockets)")?;
    } else {
        writeln!(f, "user space (LAN by {engines}; UDP sockets), both ways")?;
    }
    if let Some(identity) = &site.identity {
        writeln!(f, "  identity   public key {}", identity.public())?;
    }
    for socket in sockets(site) {
        writeln!(f, "  binds      {socket}")?;
    }
    write_vlans(f, site)?;
    write_order(f, site)?;
    if let Some(ether_type) = site.cells {
        let others = site.peers.iter().any(|peer| peer.mode != Mode::Identifier);
        let but = if others { "; not to peers in other modes than identifier" } else { "" };
        writeln!(
            f,
            "  cells      protected frames of EtherType {ether_type} cross; of cells that only authenticate everybody on the way can read the data{but}"
        )?;
    }
    let limits = &site.limits;
    if site.relay {
        writeln!(
            f,
            "  relays     between its peers, in user space, packets that it cannot open: {} a second of each",
            limits.relayed_per_second
        )?;
    }
    writeln!(
        f,
        "  limits     {} flows to a peer, {} of an SCI, {} of a source; {} new ones a second; forgotten after {} s",
        limits.flows,
        limits.flows_per_sci,
        limits.flows_per_source,
        limits.new_flows_per_second,
        limits.flow_age.as_secs()
    )?;
    writeln!(
        f,
        "  stations   {}, forgotten after {} s; window of {} seqs",
        limits.stations,
        limits.station_age.as_secs(),
        site.window
    )?;
    site.peers.iter().try_for_each(|peer| write_peer(f, config, site, peer, lan_mtu))
}

/// Writes the VLANs that cross, and whether they keep frames in user space.
fn write_vlans(f: &mut fmt::Formatter<'_>, site: &Site) -> fmt::Result {
    let Some(vlans) = &site.vlans else { return Ok(()) };
    writeln!(f, "  vlans      {vlans}: frames of no other VLAN cross, in either direction")?;
    match (site.protect, site.admits_untagged()) {
        (true, _) | (false, true) => Ok(()),
        (false, false) => writeln!(
            f,
            "             without \"untagged\" all frames pass through user space, and stations agree on keys behind VLAN tags alone"
        ),
    }
}

/// Writes the DSCP of packets and what it reveals, the rates of uplinks, and which frames go first.
fn write_order(f: &mut fmt::Formatter<'_>, site: &Site) -> fmt::Result {
    match site.dscp {
        Dscp::All(0) => {}
        Dscp::All(dscp) => writeln!(f, "  DSCP       {dscp}, of all packets with frames")?,
        dscp @ (Dscp::Priority | Dscp::Copy) => {
            let from =
                if dscp == Dscp::Copy { "that of the frame's IP header" } else { "8 times the frame's PCP" };
            writeln!(f, "  DSCP       {from}: {}", reveals(dscp).unwrap_or_default())?;
        }
    }
    if !site.is_shaped() {
        return Ok(());
    }
    let uplinks: Vec<_> = (site.path_uplinks().iter())
        .map(|uplink| format!("{} bit/s at {}", rate_text(uplink.rate), uplink.name()))
        .collect();
    let counted = "counted with UDP, IP and Ethernet (38 octets)";
    if !uplinks.is_empty() {
        writeln!(f, "  rate       {}, of paths there to all peers, {counted}", uplinks.join(", "))?;
    }
    if let Some(rate) = site.rate {
        let all = if uplinks.is_empty() { "all peers and paths together" } else { "all others together" };
        writeln!(f, "  rate       {} bit/s, {all}, {counted}", rate_text(rate))?;
    }
    writeln!(
        f,
        "             express frames go first, up to three quarters of it: {}",
        express_frames(site)
    )?;
    let place = match site.rate {
        Some(_) => "the rate keeps all frames in user space",
        None => "frames over paths pass through user space",
    };
    writeln!(
        f,
        "             they overtake others: a station with a SecY of its own needs a replay window, and {place}"
    )
}

/// Express frames of a site.
fn express_frames(site: &Site) -> String {
    let mut classes = express_classes::in_sight(site).peekable();
    let of = match (classes.peek(), site.protect) {
        (None, _) => "",
        (Some(_), true) => ", of machines",
        (Some(_), false) => ", in front of the SecTAG",
    };
    format!("{}{of}", express_classes::listed(classes))
}

fn write_peer(
    f: &mut fmt::Formatter<'_>,
    config: &Config,
    site: &Site,
    peer: &SitePeer,
    lan_mtu: Option<usize>,
) -> fmt::Result {
    write!(f, "\n  peer {}: {}", peer.name, peer.mode.name())?;
    if let Mode::Plain { vni } = peer.mode {
        write!(f, ", VNI {vni}, NOT PROTECTED")?;
    }
    match (&peer.endpoint, &peer.via) {
        (Some(endpoint), _) => writeln!(f, ", at {endpoint}")?,
        (None, Some(hub)) => writeln!(f, ", relayed by {}, in user space", hub.name)?,
        (None, None) if peer.endpoints().next().is_some() => writeln!(f)?,
        (None, None) => writeln!(f, ", connects from anywhere")?,
    }
    write_paths(f, site, peer)?;
    if let Some(key) = peer.public_key {
        writeln!(f, "    public key {key}")?;
    }
    for version in IpVersion::towards(peer, site.bind) {
        write_sums(f, peer, version, lan_mtu)?;
    }
    if peer.mode == Mode::HeaderEncryption {
        writeln!(f, "    refuses    frames without encryption, with a confidentiality offset, without SCI")?;
        for link in &config.links {
            if let Some(why) = unfit_for_header_encryption(link) {
                writeln!(f, "               so none of link {}: {why}", link.name)?;
            }
        }
    }
    Ok(())
}

fn write_paths(f: &mut fmt::Formatter<'_>, site: &Site, peer: &SitePeer) -> fmt::Result {
    for (path, number) in peer.paths.iter().zip(1..) {
        let rate = path.rate.map_or_else(String::new, |rate| format!(", {} bit/s", rate_text(rate)));
        writeln!(f, "    path {number}     {}{rate}", manager_path(path, None))?;
    }
    if peer.paths.is_empty() {
        return Ok(());
    }
    let copies = match peer.copies {
        Copies::All => "all frames go over all paths".to_owned(),
        Copies::Express => {
            let express = express_frames(site);
            format!("express frames go over all paths, all others over the better one: {express}")
        }
        Copies::None => "frames go over the better path".to_owned(),
    };
    writeln!(f, "    so         {copies}; all of them pass through user space")
}

fn write_sums(
    f: &mut fmt::Formatter<'_>,
    peer: &SitePeer,
    version: IpVersion,
    lan_mtu: Option<usize>,
) -> fmt::Result {
    let payload = path_payload(peer, version);
    let known = if matches!(peer.mode, Mode::Plain { .. }) { "assumed" } else { "if probes find no less" };
    writeln!(
        f,
        "    path       {} octets ({known}) - {} {} - UDP {UDP_OCTETS}{} = payload {payload}",
        peer.path_mtu,
        version.name(),
        version.octets(),
        if peer.via.is_some() { format!(" - relay {SHORT_HEADER_OCTETS}") } else { String::new() }
    )?;
    writeln!(f, "                                  LAN MTU unsplit  machines' MTU  LAN MTU in two packets")?;
    for mode in [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 0 }] {
        let sums = Sums::of(mode, payload);
        let mark = if mode.name() == peer.mode.name() { '*' } else { ' ' };
        write!(f, "             {mark} {:<19}{:>15}{:>15}", mode.name(), sums.unsplit, sums.machines())?;
        match sums.in_two > sums.unsplit {
            true => writeln!(f, "{:>24}", sums.in_two)?,
            false => writeln!(f, "{:>24}", "never split")?,
        }
    }
    let sums = Sums::of(peer.mode, payload);
    match lan_mtu {
        Some(mtu) if mtu > sums.in_two => writeln!(
            f,
            "    so         full frames of this LAN are DROPPED; set the machines' MTU to {}",
            sums.in_two.saturating_sub(MACSEC_OCTETS)
        ),
        Some(mtu) if mtu > sums.unsplit => writeln!(
            f,
            "    so         frames above {} octets are split in two; the machines' MTU of {} avoids it",
            sums.unsplit,
            sums.machines()
        ),
        Some(_) => writeln!(f, "    so         every frame of this LAN goes unsplit"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
