//! A UDP socket with the options that a port needs (udp(7), ip(7), ipv6(7), socket(7)).

#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::address::Name;
use super::ancillary::UDP_GRO;
use crate::packet_socket::{option, set_option};

// asm-generic/socket.h; the crate libc has them for other systems.
const SO_SNDBUFFORCE: libc::c_int = 32;
const SO_RCVBUFFORCE: libc::c_int = 33;
const SO_MEMINFO: libc::c_int = 55;
/// Numbers that SO_MEMINFO gives.
const MEMINFO_NUMBERS: usize = 9;

type Step = (&'static str, io::Error);

/// Opens and binds a socket. If it fails, it says what was tried.
pub(super) fn open(bind: SocketAddr) -> Result<UdpSocket, Step> {
    let six = bind.is_ipv6();
    let family = if six { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: no pointers.
    let descriptor =
        unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if descriptor < 0 {
        return Err(("open a socket", io::Error::last_os_error()));
    }
    // SAFETY: a new descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let set = |level, name, value: libc::c_int, action| {
        set_option(&socket, level, name, &value).map_err(|error| (action, error))
    };
    // Each packet has DF, whatever a router said about the path: the management channel's probes alone are believed.
    let never_fragment = "forbid fragmentation";
    if six {
        let only_six = !bind.ip().is_unspecified();
        set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only_six.into(), "choose IPv4 beside IPv6")?;
        set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE, never_fragment)?;
    }
    // On a socket of IPv6 this is for its mapped addresses.
    set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE, never_fragment)?;
    let (name, octets) = Name::new(bind, six);
    // SAFETY: the name is as long as said.
    if unsafe { libc::bind(socket.as_raw_fd(), name.as_ptr().cast(), octets as libc::socklen_t) } < 0 {
        return Err(("bind", io::Error::last_os_error()));
    }
    Ok(socket.into())
}

/// Asks for buffers of so many octets, above the limits of ordinary programs if that is allowed, and says how many octets
/// there are now for receiving and sending.
pub(super) fn enlarge_buffers(socket: &OwnedFd, octets: libc::c_int) -> [usize; 2] {
    [(SO_RCVBUFFORCE, libc::SO_RCVBUF), (SO_SNDBUFFORCE, libc::SO_SNDBUF)].map(|(force, ask)| {
        for name in [force, ask] {
            if set_option(socket, libc::SOL_SOCKET, name, &octets).is_ok() {
                break;
            }
        }
        // SAFETY: any number is valid.
        let doubled = unsafe { option::<libc::c_int>(socket, libc::SOL_SOCKET, ask) };
        // The kernel doubles what it grants, for its own books.
        usize::try_from(doubled.unwrap_or(0)).unwrap_or(0) / 2
    })
}

/// Has the kernel merge received packets of one sender, if it can.
pub(super) fn merge_received(socket: &OwnedFd) -> bool {
    set_option(socket, libc::SOL_UDP, UDP_GRO, &1 as &libc::c_int).is_ok()
}

/// Packets that the kernel has dropped at this socket since it was opened, modulo 2^32.
pub(super) fn dropped(socket: &OwnedFd) -> io::Result<u32> {
    // SAFETY: any numbers are valid.
    let numbers = unsafe { option::<[u32; MEMINFO_NUMBERS]>(socket, libc::SOL_SOCKET, SO_MEMINFO) }?;
    Ok(numbers[libc::SK_MEMINFO_DROPS as usize])
}
