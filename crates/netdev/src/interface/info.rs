//! Facts about an interface, good or bad, without touching it: for a diagnosis, where [`Interface::open`] would refuse.
//!
//! [`Interface::open`]: super::Interface::open

use super::control::{self, Control};
use super::offload::{features, harmful};
use super::{InterfaceError, MacAddress, default_routes, facts, link, system};

/// The other end of a veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VethPeer {
    /// Its name.
    pub name: String,
    /// It leaves checksums to hardware that is not there (`tx-checksumming`).
    pub leaves_checksums: bool,
}

impl VethPeer {
    /// That of the interface with this name.
    pub fn of(name: &str) -> Option<Self> {
        of_facts(&facts(name).ok()?)
    }
}

fn of_facts(link: &link::LinkFacts) -> Option<VethPeer> {
    let index = link.link.filter(|_| link.kind == "veth" && !link.link_is_elsewhere)?;
    let name = link::query(link::LinkId::Index(index)).ok()?.name;
    let features = features(&Control::open(&name).ok()?).ok()?;
    let leaves_checksums =
        features.iter().any(|feature| feature.active && feature.name.starts_with("tx-checksum-ip"));
    Some(VethPeer { name, leaves_checksums })
}

/// An interface as it stands. Nothing was changed to find out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// The kernel's name for it.
    pub name: String,
    /// Its own address.
    pub mac: MacAddress,
    /// Octets behind an untagged Ethernet header.
    pub mtu: u32,
    /// Whether it is Ethernet at all.
    pub is_ethernet: bool,
    /// Whether it is switched on.
    pub is_up: bool,
    /// Whether there is a cable with somebody at its other end.
    pub has_carrier: bool,
    /// The kind of virtual interface; empty for hardware.
    pub kind: String,
    /// Of a `veth` whose other end is in the same network namespace: that one.
    pub veth_peer: Option<VethPeer>,
    /// The bridge, bond or team that it belongs to.
    pub master: Option<String>,
    /// The kernel's number of the XDP program on it.
    pub xdp_program: Option<u32>,
    /// Receive queues in use, if the driver tells.
    pub receive_queues: Option<u32>,
    /// IP addresses of the host on it, without link-local ones.
    pub addresses: Vec<String>,
    /// The kinds of IP that the host sends through it by default: `IPv4`, `IPv6`.
    pub default_routes: Vec<&'static str>,
    /// Whether the host speaks IPv6 on it.
    pub speaks_ipv6: bool,
    /// Whether the host speaks ARP on it.
    pub speaks_arp: bool,
    /// Offloads that are on and change frames on their way to a gateway; those that cannot be switched off are `true`.
    pub harmful_offloads: Vec<(String, bool)>,
    /// Megabits a second, if the driver tells.
    pub megabits: Option<u32>,
    /// Whether it sends and receives at once, if the driver tells.
    pub full_duplex: Option<bool>,
}

impl InterfaceInfo {
    /// Looks at the interface of that name.
    ///
    /// # Errors
    /// If it does not exist, or the kernel does not answer.
    pub fn of(name: &str) -> Result<Self, InterfaceError> {
        let link = facts(name)?;
        let control = Control::open(&link.name)?;
        let failed = |action| {
            let name = link.name.clone();
            move |source| system(&name, action, source)
        };
        let master = link.master.map(|master| match link::query(link::LinkId::Index(master)) {
            Ok(master) => format!("{} {}", master.kind, master.name).trim_start().to_owned(),
            Err(_) => format!("interface {master}"),
        });
        let offloads = harmful(&control).map_err(failed("read its offloads"))?;
        let (megabits, full_duplex) = control.speed();
        let flag = |flag: i32| link.flags & flag as u32 != 0;
        Ok(Self {
            mac: link.mac,
            mtu: link.mtu,
            is_ethernet: link.hardware_type == libc::ARPHRD_ETHER,
            is_up: flag(libc::IFF_UP),
            has_carrier: flag(libc::IFF_RUNNING),
            master,
            xdp_program: link.xdp_program,
            receive_queues: control.receive_queues(),
            addresses: control::addresses(&link.name).map_err(failed("list its IP addresses"))?,
            default_routes: default_routes(&link.name),
            speaks_ipv6: control::ipv6_enabled(&link.name)
                .map_err(failed("read whether IPv6 is on"))?
                .unwrap_or(false),
            speaks_arp: !flag(libc::IFF_NOARP),
            harmful_offloads: offloads
                .into_iter()
                .map(|offload| (offload.name, !offload.available))
                .collect(),
            megabits,
            full_duplex,
            veth_peer: of_facts(&link),
            kind: link.kind,
            name: link.name,
        })
    }

    /// The host's own use of the interface, in words: addresses and default routes. A link-local IPv6
    /// address, which every interface gets of itself, is no use.
    pub fn host_use(&self) -> Option<String> {
        host_use(&self.addresses, &self.default_routes)
    }
}

/// See [`InterfaceInfo::host_use`].
pub(super) fn host_use(addresses: &[String], routes: &[&str]) -> Option<String> {
    let words = match addresses {
        [] => None,
        [only] => Some(format!("the address {only}")),
        several => Some(format!("the addresses {}", several.join(", "))),
    };
    let routes = (!routes.is_empty()).then(|| format!("the default route for {}", routes.join(" and ")));
    match (words, routes) {
        (Some(words), Some(routes)) => Some(format!("{words} and {routes}")),
        (one, other) => one.or(other),
    }
}
