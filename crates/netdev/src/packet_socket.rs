//! A packet socket (packet(7)): the little that both engines need of it.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A raw packet socket that neither receives (its protocol is 0 until [`bind`]) nor is bound.
pub(crate) fn open() -> io::Result<OwnedFd> {
    socket(libc::AF_PACKET)
}

/// A raw socket of an address family.
pub(crate) fn socket(family: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let descriptor = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Binds to an interface; `protocol` ETH_P_ALL receives everything, 0 nothing.
pub(crate) fn bind(socket: &OwnedFd, interface_index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zero is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface_index as libc::c_int;
    bind_to(socket, &address)
}

/// Binds to any kind of address.
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
    // SAFETY: all zero is a valid request.
    let mut request: libc::packet_mreq = unsafe { mem::zeroed() };
    request.mr_ifindex = interface_index as libc::c_int;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Sets a socket option of any type without pointers in it.
pub(crate) fn set_option<T: Copy>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (pointer, octets) = (std::ptr::from_ref(value), mem::size_of::<T>() as libc::socklen_t);
    // SAFETY: the value is as long as said; the kernel only reads it.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer.cast(), octets) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads a socket option.
///
/// # Safety
/// Any octets, and all zero, are a valid `T`.
pub(crate) unsafe fn option<T: Copy>(socket: &OwnedFd, level: i32, name: i32) -> io::Result<T> {
    // SAFETY: the caller says that zero is valid.
    let mut value: T = unsafe { mem::zeroed() };
    let mut octets = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes no further than said.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, std::ptr::from_mut(&mut value).cast(), &mut octets)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Clears the error that a socket keeps (ENETDOWN, when its interface went down): until then poll() would return at
/// once, over and over.
pub(crate) fn clear_error(descriptor: RawFd) {
    let mut error: libc::c_int = 0;
    let mut octets = mem::size_of_val(&error) as libc::socklen_t;
    // SAFETY: a place of the size said; a descriptor that is not ours to use any more is merely an error.
    unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            std::ptr::from_mut(&mut error).cast(),
            &mut octets,
        )
    };
}
