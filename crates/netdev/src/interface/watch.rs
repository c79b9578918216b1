//! Interfaces seen from outside: whether they are there, up and connected, and when to look again.
//!
//! The kernel says on a netlink socket (RTMGRP_LINK, rtnetlink(7)) that something about some interface has changed.
//! What it says is not read: it only is a reason to look. So a message that was lost, because the socket was full,
//! costs nothing as long as somebody looks once a second anyway.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::link::{self, Which};
use super::{InterfaceError, system};

/// An interface at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The kernel's number for it: another one means another interface, also under the same name.
    pub index: u32,
    /// Octets behind an untagged Ethernet header.
    pub mtu: u32,
    /// Whether it has a carrier. The kernel knows that only of interfaces that are up: false for others.
    pub carrier: bool,
}

/// Looks at the interface of that name; `None` if there is none.
///
/// # Errors
/// If the kernel does not tell.
pub fn look(name: &str) -> Result<Option<Seen>, InterfaceError> {
    match link::query(Which::Name(name)) {
        Ok(facts) => Ok(Some(Seen {
            index: facts.index,
            mtu: facts.mtu,
            carrier: facts.flags & libc::IFF_LOWER_UP as u32 != 0,
        })),
        // EINVAL and ERANGE: a name that no interface can have.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL | libc::ERANGE)) => {
            Ok(None)
        }
        Err(source) => Err(system(name, "ask what it is", source)),
    }
}

/// Hears of changes of any interface of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Begins to listen.
    ///
    /// # Errors
    /// If there is no such socket to be had.
    pub fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // SAFETY: all zero is a valid address.
        let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = libc::RTMGRP_LINK as u32;
        let octets = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is as long as said.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), octets) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(socket)) }
    }

    /// Whether anything has changed since the last question. Does not wait; at most [`MOST_MESSAGES`] messages are
    /// taken, and if there are more it is true again the next time.
    pub fn has_changed(&self) -> bool {
        let mut changed = false;
        for _ in 0..MOST_MESSAGES {
            let mut octet = [0u8; 1];
            // SAFETY: the buffer is as long as said; what is longer is cut.
            let received =
                unsafe { libc::recv(self.0.as_raw_fd(), octet.as_mut_ptr().cast(), octet.len(), 0) };
            if received < 0 {
                // ENOBUFS: messages were lost, which is a change too; the next question finds it out.
                let lost = io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
                return changed || lost;
            }
            changed = true;
        }
        changed
    }
}

/// The most messages taken at one question.
const MOST_MESSAGES: usize = 1024;
