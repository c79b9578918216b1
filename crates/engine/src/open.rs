//! From two prepared interfaces to two open ports: chooses the engine.
//!
//! | `io` | what is opened |
//! |---|---|
//! | af_xdp | AF_XDP, native or else generic, or an error |
//! | af_packet | AF_PACKET |
//! | auto | AF_XDP; where it cannot be had or would lose VLAN tags, AF_PACKET, and the reason is told |

use crate::af_packet::AfPacket;
use crate::af_xdp::{AfXdp, Attach};
use crate::burst::BURST_FRAMES;
use crate::interface::{Interface, InterfaceError, Prepared};
use crate::link::Ports;
use crate::pool::{ChunkOctets, Pool, PoolError};
use crate::port::{self, PortError};

/// The offload that takes VLAN tags out of received frames: AF_PACKET gets them beside the frame, AF_XDP never.
const VLAN_STRIPPING: &str = "rx-vlan-hw-parse";

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

/// Opens a port on each of two interfaces, plain and protected.
///
/// # Errors
/// [`OpenError`].
pub fn open_ports(prepared: [&Prepared; 2], io: Io) -> Result<OpenPorts, OpenError> {
    let [plain, protected] = prepared.map(Prepared::interface);
    let stripping =
        prepared.iter().find(|one| one.still_on().iter().any(|feature| feature == VLAN_STRIPPING));
    let fallback = match (io, stripping) {
        (Io::Auto, Some(one)) => {
            Some(format!("{} cannot switch {VLAN_STRIPPING} off", one.interface().name()))
        }
        (Io::AfPacket, _) => None,
        (Io::Auto | Io::AfXdp, _) => match open_af_xdp(plain, protected) {
            Ok((pool, plain, protected)) => {
                let ports = Ports { pool, plain: Box::new(plain), protected: Box::new(protected) };
                return Ok(OpenPorts { ports, fallback: None });
            }
            Err(error) if io == Io::AfXdp => return Err(error),
            Err(error) => Some(error.to_string()),
        },
    };
    let pool = Pool::new(chunk_octets([plain, protected])?, 4 * BURST_FRAMES)?;
    let (plain, protected) = (AfPacket::open(plain, &pool)?, AfPacket::open(protected, &pool)?);
    let ports = Ports { pool, plain: Box::new(plain), protected: Box::new(protected) };
    Ok(OpenPorts { ports, fallback })
}

/// Opens a port on one interface that is up and nobody's, and changes nothing about it: it is promiscuous as long as
/// the port is open, and its other settings stay. For looking at a path; a link needs [`open_ports`].
///
/// # Errors
/// [`OpenError`].
pub fn open_observer(interface: &str) -> Result<(Pool, AfPacket), OpenError> {
    let interface = Interface::open(interface)?;
    let pool = Pool::new(chunk_octets([&interface, &interface])?, 4 * BURST_FRAMES)?;
    let port = AfPacket::open(&interface, &pool)?;
    Ok((pool, port))
}

fn open_af_xdp(plain: &Interface, protected: &Interface) -> Result<(Pool, AfXdp, AfXdp), OpenError> {
    let chunk = chunk_octets([plain, protected])?;
    let mut pool = Pool::new(chunk, AfXdp::chunks(plain, protected, chunk))?;
    let (plain, protected) = AfXdp::open_pair(plain, protected, &mut pool, Attach::NativeElseGeneric)?;
    Ok((pool, plain, protected))
}

/// The smallest chunk that holds what either interface can receive.
fn chunk_octets(interfaces: [&Interface; 2]) -> Result<ChunkOctets, OpenError> {
    let mut chunk = ChunkOctets::Octets2048;
    for interface in interfaces {
        let mtu = interface.mtu();
        let fits = ChunkOctets::for_frame(port::longest_received(mtu));
        let fits = fits.ok_or_else(|| OpenError::Mtu { interface: interface.name().into(), mtu })?;
        chunk = chunk.max(fits);
    }
    Ok(chunk)
}
