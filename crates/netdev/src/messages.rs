//! Many messages with one system call, whatever C library there is.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;

/// Sends messages in order without blocking; how many were taken, which is one at least.
///
/// musl's own sendmmsg sends one by one, a system call each. Its structures are the kernel's while their padding is zero.
///
/// # Safety
/// Each message, zero where it is not filled in, leads to a name, vectors, octets and ancillary data of the lengths given
/// with them, and these live through the call.
///
/// # Errors
/// The kernel's, for the first of the messages.
pub(crate) unsafe fn send(socket: RawFd, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    // SAFETY: the slice's own length is given; the rest is the caller's promise.
    let taken = unsafe {
        libc::syscall(
            libc::SYS_sendmmsg,
            socket,
            messages.as_mut_ptr(),
            messages.len() as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(taken).ok().filter(|taken| *taken > 0).ok_or_else(io::Error::last_os_error)
}
