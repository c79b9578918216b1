//! State of interfaces (there, up, connected), and the kernel's notices that it may have changed.
//!
//! The kernel says on a netlink socket (RTMGRP_LINK, rtnetlink(7)) that something about some interface has changed.
//! The notices are not read: each is only a reason to look. A message that was lost, because the socket was full,
//! costs nothing as long as somebody looks once a second anyway.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockFlag, SockProtocol, recv};

use super::error::{InterfaceError, system};
use super::link::{self, LinkId};
use crate::netlink;

/// An interface at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkState {
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
pub fn link_state(name: &str) -> Result<Option<LinkState>, InterfaceError> {
    match link::query(LinkId::Name(name)) {
        Ok(facts) => Ok(Some(LinkState {
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

/// Receives notices of changes of any interface, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct LinkEvents(OwnedFd);

impl LinkEvents {
    /// Begins to listen.
    ///
    /// # Errors
    /// If there is no such socket to be had.
    pub fn open() -> io::Result<Self> {
        let socket = netlink::socket(SockProtocol::NetlinkRoute, SockFlag::SOCK_NONBLOCK)?;
        netlink::join(&socket, libc::RTMGRP_LINK as u32)?;
        Ok(Self(socket))
    }

    /// Whether anything has changed since the last call. Does not wait; at most [`MOST_MESSAGES`] messages are
    /// taken, and if there are more it is true again the next time.
    pub fn has_changed(&self) -> bool {
        let mut changed = false;
        for _ in 0..MOST_MESSAGES {
            // A longer message is cut to the octet.
            match recv(self.0.as_raw_fd(), &mut [0; 1], MsgFlags::empty()) {
                Ok(_) => changed = true,
                // Messages were lost, which is a change too; the next question finds it out.
                Err(Errno::ENOBUFS) => return true,
                Err(_) => return changed,
            }
        }
        changed
    }
}

/// The most messages taken at one question.
const MOST_MESSAGES: usize = 1024;
