//! Next hop towards an address, as the kernel would choose it (RTM_GETROUTE, RTM_GETNEIGH, rtnetlink(7)).
//!
//! ```text
//! nlmsghdr 16 | rtmsg 12: family 1, octets of destination and source in bits 1, 1, - 5, flags 4 | attributes
//! nlmsghdr 16 | ndmsg 12: family 1, - 3, interface 4, state 2, flags 1, type 1 | attributes
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::SockaddrStorage;
use wire::MacAddr;

use crate::interface::link::{LinkId, attributes, query};
use crate::netlink::{self, Message};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Octets of rtmsg and of ndmsg.
const FIXED: usize = 12;
/// Offset of the route's type in rtmsg; the type of a route to another machine.
const ROUTE_TYPE: usize = 7;
const RTN_UNICAST: u8 = 1;
/// NUD_PERMANENT, NUD_NOARP, NUD_REACHABLE, NUD_PROBE, NUD_STALE, NUD_DELAY: the address is known.
const NUD_VALID: u16 = 0xde;

/// Next hop of packets: the interface that they leave by, and their addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHop {
    /// The interface, by its index.
    pub interface: u32,
    /// Its MAC address.
    pub from: MacAddr,
    /// MAC address of the next hop.
    pub to: MacAddr,
    /// Source address of the packets.
    pub source: IpAddr,
}

/// The next hop towards an address, for packets with this source address if there is one.
///
/// # Errors
/// If there is no route to another machine, or its MAC address is not known (yet).
pub fn next_hop(source: Option<IpAddr>, destination: IpAddr) -> io::Result<NextHop> {
    let (family, octets) = octets_of(destination);
    let mut fixed = [0; FIXED];
    (fixed[0], fixed[1]) = (family, 8 * octets.len() as u8);
    let source = source.filter(|source| !source.is_unspecified());
    let mut message = Message::new(RTM_GETROUTE, 0, &{
        fixed[2] = source.map_or(0, |source| 8 * octets_of(source).1.len() as u8);
        fixed
    });
    message = message.attribute(RTA_DST, &octets);
    if let Some(source) = source {
        message = message.attribute(RTA_SRC, &octets_of(source).1);
    }
    let answer = message.query()?;
    let (fixed, found) = answered(&answer, RTM_NEWROUTE)?;
    if fixed[ROUTE_TYPE] != RTN_UNICAST {
        return Err(io::Error::other("no route to another machine"));
    }
    let of = |wanted| found.iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| *value);
    let interface = of(RTA_OIF).and_then(|value| value.try_into().ok()).map(u32::from_ne_bytes);
    let interface = interface.ok_or_else(|| io::Error::other("a route without an interface"))?;
    let gateway = of(RTA_GATEWAY).and_then(parse_address).unwrap_or(destination);
    let source = source.or_else(|| of(RTA_PREFSRC).and_then(parse_address));
    let source = source.ok_or_else(|| io::Error::other("a route without a source address"))?;
    let from = MacAddr(query(LinkId::Index(interface))?.mac);
    Ok(NextHop { interface, from, to: neighbour(interface, gateway)?, source })
}

/// Interfaces on which packets for this box arrive: those with an address beyond loopback and link-local. Names by index.
///
/// # Errors
/// If the kernel refuses the query.
pub fn addressed() -> io::Result<BTreeMap<u32, String>> {
    let far = |entry: &InterfaceAddress| {
        let address = ip(entry.address?)?;
        let near = match address {
            IpAddr::V4(four) => four.is_loopback(),
            IpAddr::V6(six) => six.is_loopback() || six.is_unicast_link_local(),
        };
        (!near).then(|| entry.interface_name.clone())
    };
    let names: BTreeSet<String> = getifaddrs()?.filter_map(|entry| far(&entry)).collect();
    names.into_iter().map(|name| Ok((query(LinkId::Name(&name))?.index, name))).collect()
}

/// Addresses of this box, and those to which its links broadcast.
///
/// # Errors
/// If the kernel refuses the query.
pub fn addresses() -> io::Result<BTreeSet<IpAddr>> {
    let of = |entry: InterfaceAddress| [entry.address, entry.broadcast].into_iter().flatten().filter_map(ip);
    Ok(getifaddrs()?.flat_map(of).collect())
}

fn ip(address: SockaddrStorage) -> Option<IpAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(four), _) => Some(IpAddr::V4(four.ip())),
        (None, Some(six)) => Some(IpAddr::V6(six.ip())),
        (None, None) => None,
    }
}

/// MAC address of a machine on the interface's link, as the kernel's neighbour table has it.
fn neighbour(interface: u32, address: IpAddr) -> io::Result<MacAddr> {
    let (family, octets) = octets_of(address);
    let mut fixed = [0; FIXED];
    fixed[0] = family;
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    let answer = Message::new(RTM_GETNEIGH, 0, &fixed).attribute(NDA_DST, &octets).query()?;
    let (fixed, found) = answered(&answer, RTM_NEWNEIGH)?;
    let unknown = || io::Error::other("the next hop's MAC address is not known yet");
    if u16::from_ne_bytes([fixed[8], fixed[9]]) & NUD_VALID == 0 {
        return Err(unknown());
    }
    let address = found.iter().find(|(kind, _)| *kind == NDA_LLADDR).map(|(_, value)| *value);
    Ok(MacAddr(address.and_then(|address| address.try_into().ok()).ok_or_else(unknown)?))
}

type Attributes<'a> = Vec<(u16, &'a [u8])>;

fn answered(answer: &[u8], wanted: u16) -> io::Result<(&[u8; FIXED], Attributes<'_>)> {
    let (kind, body) = netlink::parse(answer)?;
    match body.split_first_chunk() {
        Some((fixed, rest)) if kind == wanted => Ok((fixed, attributes(rest).collect())),
        _ => Err(io::Error::other("a netlink answer to another question")),
    }
}

fn octets_of(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(four) => (libc::AF_INET as u8, four.octets().to_vec()),
        IpAddr::V6(six) => (libc::AF_INET6 as u8, six.octets().to_vec()),
    }
}

fn parse_address(octets: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}
