//! A UDP port: one bound socket, many packets a system call.
//!
//! - Never fragmented: DF is set on every packet, and what routers say about the path is not believed (anybody could
//!   say it). What is longer than the interface's MTU is refused and counted.
//! - Packets of one length for one address leave as one message which the kernel, or the card, cuts (UDP_SEGMENT); what
//!   the kernel merges of one sender comes as one message, too (UDP_GRO). A kernel that refuses is asked no more.
//! - A socket that is bound to `[::]` speaks IPv4 as well; its IPv4 addresses are shown as such, never mapped. One bound
//!   to another address of IPv6 speaks that alone.
//! - Packets are looked at where they were received ([`Packet`]) and sent from where they lie ([`Outgoing`]): nothing is
//!   copied on this side of the kernel.
//!
//! Left out on purpose: blocking, ICMP errors, which of the machine's addresses a packet came to.

mod address;
mod ancillary;
mod counters;
mod receive;
mod send;
mod socket;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use arrayvec::ArrayVec;

pub use counters::UdpCounters;
pub use receive::Packet;
pub use send::{HEAD_OCTETS, Outgoing, SEND_PACKETS, Source};

use receive::Inbox;
use send::Sender;

/// Octets that a socket's buffers should have, each: some 5,000 packets.
const BUFFER_OCTETS: usize = 8 << 20;

/// Offloads that the kernel is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offloads {
    /// Packets are sent together and cut by the kernel or the card.
    pub segmentation: bool,
    /// Packets of one sender are merged before they are received.
    pub merging: bool,
}

impl Default for Offloads {
    fn default() -> Self {
        Self { segmentation: true, merging: true }
    }
}

/// Error of opening a UDP port.
#[derive(Debug, thiserror::Error)]
#[error("UDP {address}: cannot {action}: {source}{}", cure(source, address))]
pub struct UdpError {
    /// Address to be bound to.
    pub address: SocketAddr,
    /// The call that failed.
    pub action: &'static str,
    /// The system's error.
    pub source: io::Error,
}

fn cure(error: &io::Error, address: &SocketAddr) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("; another program uses it: 'ss -ulpn sport = {}' says which", address.port())
        }
        io::ErrorKind::AddrNotAvailable => "; no interface has this address: 'ip address' lists them".into(),
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE".into(),
        _ => String::new(),
    }
}

/// A bound socket.
#[derive(Debug)]
pub struct UdpPort {
    socket: OwnedFd,
    address: SocketAddr,
    inbox: Inbox,
    sender: Sender,
    counters: UdpCounters,
    /// The kernel's last count of packets that it dropped.
    dropped: u32,
    description: String,
}

impl UdpPort {
    /// Opens a socket and binds it; port 0 is one that the kernel chooses.
    ///
    /// # Errors
    /// If the kernel refuses; not for want of offloads or long buffers, which [`Self::description`] tells.
    pub fn open(bind: SocketAddr, offloads: Offloads) -> Result<Self, UdpError> {
        let failed = |action| move |source| UdpError { address: bind, action, source };
        let socket = socket::open(bind).map_err(|(action, source)| failed(action)(source))?;
        let address = socket.local_addr().map_err(failed("find out its address"))?;
        let inbox = Inbox::new().map_err(failed("find memory for it"))?;
        let socket = OwnedFd::from(socket);
        let merging = offloads.merging && socket::merge_received(&socket);
        let buffers = socket::enlarge_buffers(&socket, BUFFER_OCTETS);
        Ok(Self {
            socket,
            address,
            inbox,
            sender: Sender { six: bind.is_ipv6(), segmentation: offloads.segmentation },
            counters: UdpCounters::default(),
            dropped: 0,
            description: describe(merging, buffers),
        })
    }

    /// Address that it is bound to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Another hold on the same socket, for whoever sends on it beside this port (QUIC). It must not receive, nor change
    /// the socket's options.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn socket(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone().map(UdpSocket::from)
    }

    /// The same for another worker that sends as this port does.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn sender(&self) -> io::Result<UdpSender> {
        let sender = Sender { six: self.sender.six, segmentation: self.sender.segmentation };
        Ok(UdpSender { socket: self.socket.try_clone()?, sender, counters: UdpCounters::default() })
    }

    /// Asks the kernel for packets, if all that it gave before were taken: one system call or none. Says whether there may
    /// be more than it gave.
    pub fn receive(&mut self) -> bool {
        self.inbox.fill(self.socket.as_raw_fd())
    }

    /// The next packet that was received, if one is left.
    pub fn next_packet(&mut self) -> Option<Packet<'_>> {
        self.inbox.next(&mut self.counters)
    }

    /// Whether every packet that was received was taken.
    pub const fn is_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Sends packets, in order; what the kernel does not take is counted. Never blocks. One system call for up to
    /// [`SEND_PACKETS`] packets, unless some are refused; then at most two for each.
    pub fn send(&mut self, packets: &[Outgoing<'_>]) {
        self.sender.send(self.socket.as_raw_fd(), packets, &mut self.counters);
    }

    /// Whether packets are still sent together: not if it was not wanted, nor if the kernel has refused.
    pub const fn segments(&self) -> bool {
        self.sender.segmentation
    }

    /// All counters since the port was opened. One system call: not for the frame path.
    pub fn counters(&mut self) -> UdpCounters {
        if let Ok(dropped) = socket::dropped(&self.socket) {
            self.counters.rx_kernel_dropped += u64::from(dropped.wrapping_sub(self.dropped));
            self.dropped = dropped;
        }
        self.counters
    }

    /// Description for status and report: `udp, merged receive, buffers 8192 and 4096 KiB of 8192`.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Descriptor to poll for readability.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }
}

/// Another worker's hold on a port's socket, which only sends ([`UdpPort::sender`]).
#[derive(Debug)]
pub struct UdpSender {
    socket: OwnedFd,
    sender: Sender,
    counters: UdpCounters,
}

impl UdpSender {
    /// As [`UdpPort::send`].
    pub fn send(&mut self, packets: &[Outgoing<'_>]) {
        self.sender.send(self.socket.as_raw_fd(), packets, &mut self.counters);
    }

    /// Counters of what was sent here.
    pub const fn counters(&self) -> UdpCounters {
        self.counters
    }
}

/// Sends one packet on a hold on a port's socket ([`UdpPort::socket`]). Never blocks. False if the kernel did not take it.
pub fn send_one(socket: &UdpSocket, to: SocketAddr, source: Source, payload: &[u8]) -> bool {
    let six = socket.local_addr().is_ok_and(|local| local.is_ipv6());
    let mut counters = UdpCounters::default();
    let packet = Outgoing { to: unmapped(to), source, dscp: 0, head: ArrayVec::new(), body: payload };
    Sender { six, segmentation: false }.send(socket.as_raw_fd(), &[packet], &mut counters);
    counters.tx_packets == 1
}

/// An address as packets have it: an IPv4 address is never mapped.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(six) if six.ip().to_ipv4_mapped().is_none() => address,
        _ => SocketAddr::new(address.ip().to_canonical(), address.port()),
    }
}

fn describe(merging: bool, [receive, send]: [usize; 2]) -> String {
    let merging = if merging { ", merged receive" } else { "" };
    let (receive, send, wanted) = (receive >> 10, send >> 10, BUFFER_OCTETS >> 10);
    // The kernel grants no more than net.core.rmem_max and wmem_max without CAP_NET_ADMIN.
    let capped = if receive.min(send) < wanted { format!(" of {wanted}") } else { String::new() };
    format!("udp{merging}, buffers {receive} and {send} KiB{capped}")
}
