//! Netlink (netlink(7)): requests to rtnetlink, and sockets that receive the kernel's notices.
//!
//! ```text
//! nlmsghdr 16: length 4, type 2, flags 2, - 8 | fixed part | attributes: { length 2 | type 2 | value, padded to 4 } ...
//! ```

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
};

/// Octets of a message's header.
pub(crate) const HEADER: usize = 16;
/// Octets of an attribute's header.
pub(crate) const ATTRIBUTE_HEADER: usize = 4;
/// The type of an acknowledgement, with code 0, or of an error.
pub(crate) const NLMSG_ERROR: u16 = 2;

/// A request, or the attributes of one.
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// A request with its fixed part.
    pub(crate) fn new(kind: u16, flags: libc::c_int, fixed: &[u8]) -> Self {
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        let mut octets = vec![0; HEADER];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets[6..8].copy_from_slice(&flags.to_ne_bytes());
        octets.extend_from_slice(fixed);
        Self(octets)
    }

    /// Attributes, to be nested in one.
    pub(crate) const fn attributes() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(crate) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    pub(crate) fn nested(self, kind: u16, attributes: &Self) -> Self {
        self.attribute(kind, &attributes.0)
    }

    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&((ATTRIBUTE_HEADER + value.len()) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Sends the request on a new socket, which has the reply when this returns.
    fn send(self, protocol: SockProtocol) -> io::Result<OwnedFd> {
        let Self(mut request) = self;
        let length = request.len() as u32;
        request[..4].copy_from_slice(&length.to_ne_bytes());
        let socket = socket(protocol, SockFlag::empty())?;
        send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
        Ok(socket)
    }

    /// Sends a request that asks for facts, and returns the one message that is the reply.
    pub(crate) fn query(self) -> io::Result<Vec<u8>> {
        self.query_of(SockProtocol::NetlinkRoute)
    }

    /// The same to another family of netlink than rtnetlink.
    pub(crate) fn query_of(self, protocol: SockProtocol) -> io::Result<Vec<u8>> {
        let socket = self.send(protocol)?;
        // An interface with many virtual functions takes some kilobytes; the kernel sends one message.
        let mut answer = vec![0; 64 * 1024];
        let received = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        answer.truncate(received);
        Ok(answer)
    }

    /// Sends a request with NLM_F_ACK, and waits until the kernel has acknowledged or refused it.
    pub(crate) fn execute(self) -> io::Result<()> {
        let socket = self.send(SockProtocol::NetlinkRoute)?;
        let mut answer = [0; 4096];
        loop {
            let received = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            // The answer to a question may come before its acknowledgement.
            if parse(&answer[..received])?.0 == NLMSG_ERROR {
                return Ok(());
            }
        }
    }
}

/// Type and payload of a message from the kernel. An error that it reports is returned as one.
pub(crate) fn parse(message: &[u8]) -> io::Result<(u16, &[u8])> {
    let short = || io::Error::other("a netlink answer that ends early");
    let (header, payload) = message.split_at_checked(HEADER).ok_or_else(short)?;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    if kind == NLMSG_ERROR {
        match i32::from_ne_bytes(*payload.first_chunk().ok_or_else(short)?) {
            0 => {}
            code => return Err(io::Error::from_raw_os_error(-code)),
        }
    }
    Ok((kind, payload))
}

/// A netlink socket that is not bound, in the calling thread's network namespace.
pub(crate) fn socket(protocol: SockProtocol, flags: SockFlag) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | flags;
    Ok(nix::sys::socket::socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?)
}

/// Has the socket receive the notices of these groups.
pub(crate) fn join(socket: &OwnedFd, groups: u32) -> io::Result<()> {
    Ok(bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?)
}
