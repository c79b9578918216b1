//! From prepared interfaces to open ports: chooses the engine.
//!
//! | `io` | what is opened |
//! |---|---|
//! | af_xdp | AF_XDP, native or else generic, or an error; also where it would lose VLAN tags |
//! | af_packet | AF_PACKET |
//! | auto | AF_XDP; where it cannot be had or would lose VLAN tags, AF_PACKET, and the reason is told |

use std::io;

use crate::link::Ports;
use crate::site::Lan;
use netdev::af_packet::AfPacket;
use netdev::af_xdp::{AfXdp, Attach};
use netdev::burst::BURST_FRAMES;
use netdev::interface::{Interface, InterfaceError, Prepared};
use netdev::passed_on::{PassedPort, PassedPorts};
use netdev::pool::{ChunkOctets, Pool, PoolError};
pub use netdev::port::{self, Port, PortError, all};
use netdev::queue_port::QueuePort;

/// The offloads that take customer and service tags out of received frames: AF_PACKET gets them beside the frame, AF_XDP never.
const VLAN_STRIPPING: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// Which engine is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Io {
    /// The faster one that can be had.
    #[default]
    Auto,
    /// AF_XDP.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// Why a link's ports cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An interface cannot be used.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// There is no memory for frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// AF_XDP would lose VLAN tags.
    #[error(
        "{interface} cannot switch {feature} off, and AF_XDP would lose VLAN tags; set io = \"af_packet\" or \"auto\", or use another card"
    )]
    VlanStripping {
        /// The interface.
        interface: String,
        /// The offload.
        feature: &'static str,
    },
    /// No chunk holds a frame of this MTU.
    #[error("{interface} has an MTU of {mtu}, more than any frame pool holds; set it to 9216 or less")]
    Mtu {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u32,
    },
}

/// The two ports of a link, open.
pub struct OpenPorts {
    /// The ports and the memory of their frames.
    pub ports: Ports,
    /// Why AF_XDP could not be had, if `io` is auto and AF_PACKET was chosen.
    pub fallback: Option<String>,
}

/// The LAN port of a site, open.
pub struct OpenLan {
    /// The port and the memory of its frames.
    pub lan: Lan,
    /// Why AF_XDP could not be had, if `io` is auto and AF_PACKET was chosen.
    pub fallback: Option<String>,
}

/// Opens a port on each of two interfaces, plain and protected.
///
/// # Errors
/// [`OpenError`].
pub fn open_ports(prepared: [&Prepared; 2], io: Io) -> Result<OpenPorts, OpenError> {
    let (pool, [plain, protected], fallback) = open(prepared, io, 0)?;
    Ok(OpenPorts { ports: Ports { pool, plain, protected }, fallback })
}

/// Goes on with the ports of a link of the program before this one, plain and protected.
///
/// # Errors
/// [`OpenError`].
pub fn go_on_with_ports(
    prepared: [&Prepared; 2],
    passed: &PassedPorts,
    fallback: Option<String>,
) -> Result<OpenPorts, OpenError> {
    let [plain, protected] = prepared.map(Prepared::interface);
    let failed = |interface: &Interface| {
        let interface = interface.name().to_owned();
        move |source| PortError::System { interface, action: "take its port over".into(), source }
    };
    let pool = Pool::go_on(&passed.pool).map_err(failed(plain))?;
    let go_on = |passed: &PassedPort, interface| -> io::Result<Box<dyn Port>> {
        Ok(match passed {
            PassedPort::AfPacket(passed) => Box::new(AfPacket::go_on(passed, interface, &pool)?),
            PassedPort::AfXdp(passed) => Box::new(AfXdp::go_on(passed, interface, &pool)?),
        })
    };
    let [of_plain, of_protected] = &passed.ports;
    let plain = go_on(of_plain, plain).map_err(failed(plain))?;
    let protected = go_on(of_protected, protected).map_err(failed(protected))?;
    Ok(OpenPorts { ports: Ports { pool, plain, protected }, fallback })
}

/// Opens a port on the interface of a site's LAN.
///
/// # Errors
/// [`OpenError`].
pub fn open_lan(prepared: &Prepared, io: Io) -> Result<OpenLan, OpenError> {
    let (pool, [port], fallback) = open([prepared], io, 0)?;
    Ok(OpenLan { lan: Lan { pool, port, turns: None }, fallback })
}

/// Opens a port on the interface of a LAN that a site protects, and a way into the site's tunnel. A frame out of the tunnel is up to
/// `overhead` octets longer than one of the LAN.
///
/// # Errors
/// [`OpenError`].
pub fn open_secured_lan(prepared: &Prepared, io: Io, overhead: usize) -> Result<OpenPorts, OpenError> {
    let (pool, [plain], fallback) = open([prepared], io, overhead)?;
    let protected = Box::new(QueuePort::default());
    Ok(OpenPorts { ports: Ports { pool, plain, protected }, fallback })
}

/// Ports over one pool, and why AF_XDP could not be had, if that was tried.
type Opened<const N: usize> = (Pool, [Box<dyn Port>; N], Option<String>);

fn open<const N: usize>(prepared: [&Prepared; N], io: Io, overhead: usize) -> Result<Opened<N>, OpenError> {
    let interfaces = prepared.map(Prepared::interface);
    let fallback = if io == Io::AfPacket {
        None
    } else {
        let kept = keeps_tags(prepared.iter().map(|one| (one.interface().name(), one.remaining_offloads())));
        match kept.and_then(|()| open_af_xdp(interfaces, overhead)) {
            Ok((pool, ports)) => return Ok((pool, ports, None)),
            Err(error) if io == Io::AfXdp => return Err(error),
            Err(error) => Some(error.to_string()),
        }
    };
    let pool = Pool::new(chunk_octets(&interfaces, overhead)?, 4 * BURST_FRAMES)?;
    let ports = all(interfaces.map(|interface| AfPacket::open(interface, &pool)))?;
    Ok((pool, ports.map(|port| Box::new(port) as Box<dyn Port>), fallback))
}

/// Opens a port on one interface that is up and nobody's, and changes nothing about it: it is promiscuous as long as
/// the port is open, and its other settings stay. For looking at a path; a link needs [`open_ports`].
///
/// # Errors
/// [`OpenError`].
pub fn open_observer(interface: &str) -> Result<(Pool, AfPacket), OpenError> {
    let interface = Interface::open(interface)?;
    let pool = Pool::new(chunk_octets(&[&interface], 0)?, 4 * BURST_FRAMES)?;
    let port = AfPacket::open(&interface, &pool)?;
    Ok((pool, port))
}

/// Whether AF_XDP gets the VLAN tags of all these interfaces: their names, and the harmful offloads that are still on.
fn keeps_tags<'i>(mut interfaces: impl Iterator<Item = (&'i str, &'i [String])>) -> Result<(), OpenError> {
    let strips = |remaining_offloads: &[String]| {
        VLAN_STRIPPING.into_iter().find(|feature| remaining_offloads.iter().any(|one| one == feature))
    };
    match interfaces.find_map(|(name, remaining_offloads)| Some((name, strips(remaining_offloads)?))) {
        Some((name, feature)) => Err(OpenError::VlanStripping { interface: name.into(), feature }),
        None => Ok(()),
    }
}

fn open_af_xdp<const N: usize>(
    interfaces: [&Interface; N],
    overhead: usize,
) -> Result<(Pool, [Box<dyn Port>; N]), OpenError> {
    let chunk = chunk_octets(&interfaces, overhead)?;
    let mut pool = Pool::new(chunk, AfXdp::chunks(&interfaces, chunk))?;
    let ports = AfXdp::open(interfaces, &mut pool, Attach::NativeElseGeneric)?;
    Ok((pool, ports.map(|port| Box::new(port) as Box<dyn Port>)))
}

/// The smallest chunk that holds what any of the interfaces can receive, and `overhead` octets more.
fn chunk_octets(interfaces: &[&Interface], overhead: usize) -> Result<ChunkOctets, OpenError> {
    let mut chunk = ChunkOctets::Octets2048;
    for interface in interfaces {
        let mtu = interface.mtu();
        let fits = ChunkOctets::for_frame(port::longest_received(mtu) + overhead);
        let fits = fits.ok_or_else(|| OpenError::Mtu { interface: interface.name().into(), mtu })?;
        chunk = chunk.max(fits);
    }
    Ok(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn af_xdp_is_refused_where_it_would_lose_vlan_tags() {
        let merges = vec!["rx-gro".to_owned()];
        let judge = |remaining_offloads: [&[String]; 2]| {
            keeps_tags(["eth0", "eth1"].into_iter().zip(remaining_offloads))
        };
        judge([&[], &merges]).unwrap();
        for feature in ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"] {
            let strips = vec!["rx-gro".to_owned(), feature.to_owned()];
            let error = judge([&merges, &strips]).unwrap_err();
            assert!(
                matches!(&error, OpenError::VlanStripping { interface, .. } if interface == "eth1"),
                "{error}"
            );
            let text = error.to_string();
            assert!(
                text.contains(&format!("cannot switch {feature} off")) && text.contains("af_packet"),
                "{text}"
            );
        }
    }
}
