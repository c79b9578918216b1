//! Opening: the program attached to an interface, and a socket bound to each of its receive queues.

use std::io;

use crate::bpf::{Hook, Link, Program, SocketMap, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
use crate::interface::{Interface, while_busy};
use crate::pool::Pool;
use crate::port::PortError;

use super::depth::depth;
use super::socket::{RingSizes, Rings, Socket, Umem};

/// Queues that are looked for where the driver does not say how many it has.
const MOST_UNKNOWN_QUEUES: u32 = 64;

/// Place in the kernel where frames are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// Native if the driver can, else generic.
    #[default]
    NativeElseGeneric,
    /// In the driver, or not at all.
    Native,
    /// After the driver.
    Generic,
}

/// A port without sockets.
#[derive(Debug)]
pub(super) struct UnboundPort<'i> {
    pub(super) interface: &'i Interface,
    pub(super) map: SocketMap,
    pub(super) program: Program,
    pub(super) link: Link,
    pub(super) mode: &'static str,
}

/// The sockets of one port, bound to queues 0, 1, ....
pub(super) type BoundSockets = Vec<(Socket, Rings)>;

/// Error of binding, and whether the kernel had chosen zero copy.
pub(super) struct BindFailed {
    pub(super) error: PortError,
    pub(super) zero_copy: bool,
}

impl From<PortError> for BindFailed {
    fn from(error: PortError) -> Self {
        Self { error, zero_copy: false }
    }
}

impl<'i> UnboundPort<'i> {
    /// Attaches a program that drops everything, for the map is empty yet. `fragments` as for
    /// [`Program::to_sockets`].
    pub(super) fn attach(
        interface: &'i Interface,
        attach: Attach,
        fragments: bool,
    ) -> Result<Self, PortError> {
        let queues = interface.receive_queues().unwrap_or(MOST_UNKNOWN_QUEUES);
        let map = SocketMap::new(queues).map_err(|source| failed(interface, "make an XSKMAP", source))?;
        let program = Program::to_sockets(&map, fragments)
            .map_err(|source| failed(interface, "load the XDP program", source))?;
        let native = (XDP_FLAGS_DRV_MODE, "native");
        let generic = (XDP_FLAGS_SKB_MODE, "generic");
        let modes = match attach {
            Attach::NativeElseGeneric => [native, generic],
            Attach::Native => [native; 2],
            Attach::Generic => [generic; 2],
        };
        let link = |flags| {
            while_busy(|| Link::create(&program, interface.index(), Hook::Xdp, flags))
                .map_err(|source| failed(interface, "attach the XDP program", source))
        };
        let (link, mode) = match link(modes[0].0) {
            Ok(made) => (made, modes[0].1),
            Err(_) if modes[0] != modes[1] => (link(modes[1].0)?, modes[1].1),
            Err(error) => return Err(error),
        };
        Ok(Self { interface, map, program, link, mode })
    }

    /// Binds a socket to each receive queue. `first` is the socket that has registered the region, if there is one.
    fn bind(
        &self,
        pool: &Pool,
        first: Option<&Socket>,
        depth: usize,
        copy: bool,
    ) -> Result<BoundSockets, BindFailed> {
        let size = (depth * pool.chunk_octets().parts()).next_power_of_two() as u32;
        let known = self.interface.receive_queues();
        let mut bound = BoundSockets::new();
        for queue in 0..known.unwrap_or(MOST_UNKNOWN_QUEUES) {
            let umem = match first.or_else(|| bound.first().map(|(socket, _)| socket)) {
                Some(first) => Umem::Share(first),
                None => Umem::Register(pool),
            };
            let sizes = RingSizes { receive: size, transmit: (queue == 0).then_some(size) };
            let opened = Socket::open(umem, sizes).and_then(|(socket, rings)| {
                while_busy(|| socket.bind(umem, self.interface.index(), queue, copy))?;
                Ok((socket, rings))
            });
            match opened {
                Ok(both) => bound.push(both),
                // No such queue: all have been found.
                Err(error) if known.is_none() && queue > 0 && error.raw_os_error() == Some(libc::EINVAL) => {
                    break;
                }
                Err(source) => {
                    let zero_copy = match umem {
                        Umem::Share(first) => first.is_zero_copy(),
                        Umem::Register(_) => false,
                    };
                    let error =
                        failed(self.interface, format!("bind an AF_XDP socket to queue {queue}"), source);
                    return Err(BindFailed { error, zero_copy });
                }
            }
        }
        Ok(bound)
    }
}

/// Binds the sockets of all ports over one region, and says how many chunks each direction of each may hold.
pub(super) fn bind_all<const N: usize>(
    unbound: &[UnboundPort<'_>; N],
    pool: &Pool,
    copy: bool,
) -> Result<([BoundSockets; N], usize), BindFailed> {
    // The rings of a driver that does not tell are made for one queue, and shared out anew below.
    let known = unbound
        .iter()
        .map(|unbound_port| unbound_port.interface.receive_queues().unwrap_or(1) as usize)
        .sum();
    let first_depth = depth(pool, known, N)?;
    let mut ports = [const { BoundSockets::new() }; N];
    for (number, unbound_port) in unbound.iter().enumerate() {
        let (before, port) = ports.split_at_mut(number);
        let first = before.iter().flatten().map(|(socket, _)| socket).next();
        port[0] = unbound_port.bind(pool, first, first_depth, copy)?;
    }
    let depth = depth(pool, ports.iter().map(Vec::len).sum(), N)?;
    Ok((ports, depth))
}

pub(super) fn failed(interface: &Interface, action: impl Into<String>, source: io::Error) -> PortError {
    PortError::System { interface: interface.name().into(), action: action.into(), source }
}
