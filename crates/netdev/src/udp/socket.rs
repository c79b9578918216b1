//! A UDP socket with the options that a port needs (udp(7), ip(7), ipv6(7), socket(7)).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, GetSockOpt, SetSockOpt, SockFlag, SockType, SockaddrStorage, bind as bind_socket,
    getsockopt, setsockopt, socket, sockopt,
};

mod option {
    //! Options that nix has no name for; its macro makes them.
    #![allow(unreachable_pub)]
    use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

    /// Numbers that SO_MEMINFO gives.
    const MEMINFO_NUMBERS: usize = 9;

    sockopt_impl!(Ipv4MtuDiscover, SetOnly, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::c_int);
    sockopt_impl!(Ipv6MtuDiscover, SetOnly, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::c_int);
    sockopt_impl!(MemInfo, GetOnly, libc::SOL_SOCKET, libc::SO_MEMINFO, [u32; MEMINFO_NUMBERS]);
}

type Step = (&'static str, io::Error);

/// Opens and binds a socket. If it fails, it says what was tried.
pub(super) fn open(bind: SocketAddr) -> Result<UdpSocket, Step> {
    let six = bind.is_ipv6();
    let family = if six { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let failed = |action| move |errno: nix::Error| (action, errno.into());
    let socket = socket(family, SockType::Datagram, flags, None).map_err(failed("open a socket"))?;
    // Each packet has DF, whatever a router said about the path: the management channel's probes alone are believed.
    let never_fragment = "forbid fragmentation";
    if six {
        let only_six = !bind.ip().is_unspecified();
        setsockopt(&socket, sockopt::Ipv6V6Only, &only_six).map_err(failed("choose IPv4 beside IPv6"))?;
        setsockopt(&socket, option::Ipv6MtuDiscover, &libc::IPV6_PMTUDISC_PROBE)
            .map_err(failed(never_fragment))?;
    }
    // On a socket of IPv6 this is for its mapped addresses.
    setsockopt(&socket, option::Ipv4MtuDiscover, &libc::IP_PMTUDISC_PROBE).map_err(failed(never_fragment))?;
    bind_socket(socket.as_raw_fd(), &SockaddrStorage::from(bind)).map_err(failed("bind"))?;
    Ok(socket.into())
}

/// Asks for buffers of so many octets, above the limits of ordinary programs if that is allowed, and says how many octets
/// there are now for receiving and sending.
pub(super) fn enlarge_buffers(socket: &OwnedFd, octets: usize) -> [usize; 2] {
    [
        enlarge(socket, octets, sockopt::RcvBufForce, sockopt::RcvBuf),
        enlarge(socket, octets, sockopt::SndBufForce, sockopt::SndBuf),
    ]
}

fn enlarge<F, B>(socket: &OwnedFd, octets: usize, force: F, buffer: B) -> usize
where
    F: SetSockOpt<Val = usize>,
    B: SetSockOpt<Val = usize> + GetSockOpt<Val = usize>,
{
    let _ = setsockopt(socket, force, &octets).or_else(|_| setsockopt(socket, buffer, &octets));
    // The kernel doubles what it grants, for its own books.
    getsockopt(socket, buffer).unwrap_or(0) / 2
}

/// Has the kernel merge received packets of one sender, if it can.
pub(super) fn merge_received(socket: &OwnedFd) -> bool {
    setsockopt(socket, sockopt::UdpGroSegment, &true).is_ok()
}

/// Packets that the kernel has dropped at this socket since it was opened, modulo 2^32.
pub(super) fn dropped(socket: &OwnedFd) -> io::Result<u32> {
    Ok(getsockopt(socket, option::MemInfo)?[libc::SK_MEMINFO_DROPS as usize])
}
