//! Packet sockets (packet(7)): what both engines and the owner's marker need of them.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, setsockopt, socket, sockopt};

pub(crate) mod option {
    //! Options that nix has no name for; its macro makes them.
    #![allow(unreachable_pub)]
    use nix::{setsockopt_impl, sockopt_impl};

    sockopt_impl!(AddMembership, SetOnly, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, libc::packet_mreq);
}

/// A raw packet socket that neither receives (its protocol is 0 until [`bind`]) nor is bound.
pub(crate) fn open() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?)
}

/// Binds to an interface; `protocol` ETH_P_ALL receives everything, 0 nothing.
pub(crate) fn bind(socket: &OwnedFd, interface_index: u32, protocol: u16) -> io::Result<()> {
    bind_to(
        socket,
        &libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: interface_index as libc::c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        },
    )
}

/// Binds to an address of a kind that nix cannot make: `sockaddr_ll`, `sockaddr_xdp`.
pub(crate) fn bind_to<A>(socket: &OwnedFd, address: &A) -> io::Result<()> {
    let (pointer, octets) = (std::ptr::from_ref(address), mem::size_of::<A>() as libc::socklen_t);
    // SAFETY: the address is as long as said.
    let result = unsafe { libc::bind(socket.as_raw_fd(), pointer.cast(), octets) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel drop whatever the socket would receive, before it is queued.
pub(crate) fn drop_all(socket: &OwnedFd) -> io::Result<()> {
    let mut keep_nothing =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut keep_nothing };
    let octets = mem::size_of_val(&program) as libc::socklen_t;
    // SAFETY: the program is as long as said, and so is the filter that it points to; the kernel only reads both, and
    // keeps neither.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            octets,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the interface promiscuous for as long as the socket is open: the kernel ends it with the process.
pub(crate) fn promiscuous(socket: &OwnedFd, interface_index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: interface_index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    Ok(setsockopt(socket, option::AddMembership, &membership)?)
}

/// Clears the error that a socket keeps (ENETDOWN, when its interface went down): until then poll() would return at
/// once, over and over.
pub(crate) fn clear_error(socket: &OwnedFd) {
    // Reading the error clears it.
    let _ = getsockopt(socket, sockopt::SocketError);
}
