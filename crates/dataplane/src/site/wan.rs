//! A site's UDP ports: those that the modes of its peers need.
//!
//! | port | on | for |
//! |---|---|---|
//! | data | `bind` | identifier mode, and the management channel of all protected modes |
//! | header | `bind`, the next port | header encryption |
//! | plain | `bind`'s address, 4789 or as configured | VXLAN |

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::RawFd;

use tunnel::Mode;
use wire::Instant;

use super::endpoints::WanPort;
use super::uplinks::Uplinks;
use netdev::udp::{Offloads, Outgoing, UdpError, UdpPort, UdpSender};

/// The port of VXLAN (RFC 7348).
pub const VXLAN_PORT: u16 = 4789;

/// A site's UDP ports.
#[derive(Debug)]
pub struct Wan {
    /// In the order of [`WanPort::ALL`].
    ports: [Option<UdpPort>; 3],
    /// Where packets wait, if rates of uplinks are known.
    pub(super) uplinks: Uplinks,
}

impl Wan {
    /// Opens the ports that peers of these modes need.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn open(
        bind: SocketAddr,
        plain_port: u16,
        modes: &[Mode],
        offloads: Offloads,
    ) -> Result<Self, UdpError> {
        Self::open_further(bind, plain_port, modes, offloads, [false; 3])
    }

    /// The same, but for the ports that are there: data, header and plain.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn open_further(
        bind: SocketAddr,
        plain_port: u16,
        modes: &[Mode],
        offloads: Offloads,
        there: [bool; 3],
    ) -> Result<Self, UdpError> {
        let wants = |wan_port| modes.iter().any(|mode| WanPort::of(*mode) == wan_port);
        let open = |wan_port: WanPort, wanted: bool, port| {
            let missing = wanted && !there[wan_port as usize];
            missing.then(|| UdpPort::open(SocketAddr::new(bind.ip(), port), offloads)).transpose()
        };
        // For tests port 0 is any, and then the other is any other.
        let next = if bind.port() == 0 { 0 } else { bind.port().wrapping_add(1) };
        Ok(Self {
            ports: [
                open(WanPort::Data, wants(WanPort::Data) || wants(WanPort::Header), bind.port())?,
                open(WanPort::Header, wants(WanPort::Header), next)?,
                open(WanPort::Plain, wants(WanPort::Plain), plain_port)?,
            ],
            uplinks: Uplinks::default(),
        })
    }

    /// Takes those ports of another one that are missing here.
    pub(super) fn take(&mut self, mut other: Self) {
        for (port, more) in self.ports.iter_mut().zip(&mut other.ports) {
            if port.is_none() {
                *port = more.take();
            }
        }
    }

    /// Another hold on the data port's socket, for the management channel to send on; `None` if no peer has one. See
    /// [`UdpPort::socket`].
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn socket(&self) -> io::Result<Option<UdpSocket>> {
        self.data().map(UdpPort::socket).transpose()
    }

    /// A hold on the data port for another worker, which only sends; `None` if no peer has one.
    pub(super) fn sender(&self) -> io::Result<Option<UdpSender>> {
        self.data().map(UdpPort::sender).transpose()
    }

    /// The port of identifier mode and the management channel.
    pub const fn data(&self) -> Option<&UdpPort> {
        self.ports[0].as_ref()
    }

    /// The port of header encryption.
    pub const fn header(&self) -> Option<&UdpPort> {
        self.ports[1].as_ref()
    }

    /// The port of plain mode.
    pub const fn plain(&self) -> Option<&UdpPort> {
        self.ports[2].as_ref()
    }

    pub(super) const fn port(&mut self, wan_port: WanPort) -> Option<&mut UdpPort> {
        self.ports[wan_port as usize].as_mut()
    }

    /// Sends packets through a port, which is there if a peer's mode asked for it.
    pub(super) fn send(&mut self, wan_port: WanPort, packets: &[Outgoing<'_>]) {
        send(&mut self.ports, wan_port, packets);
    }

    /// Sends what waits and is due.
    pub(super) fn depart(&mut self, now: Instant) {
        let Self { ports, uplinks } = self;
        uplinks.depart(now, |wan_port, packets| send(ports, wan_port, packets));
    }

    /// Moment at which [`Wan::depart`] is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.uplinks.due()
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.ports.iter().flatten().map(UdpPort::descriptor)
    }
}

fn send(ports: &mut [Option<UdpPort>; 3], wan_port: WanPort, packets: &[Outgoing<'_>]) {
    if let Some(port) = ports[wan_port as usize].as_mut()
        && !packets.is_empty()
    {
        port.send(packets);
    }
}
