//! Requests to rtnetlink that are answered by yes or no (rtnetlink(7)).

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;
const NLMSG_ERROR: u16 = 2;

/// A request, or the attributes of one.
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A request with its fixed part.
    pub(super) fn new(kind: u16, flags: libc::c_int, fixed: &[u8]) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let mut octets = vec![0; HEADER];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets[6..8].copy_from_slice(&flags.to_ne_bytes());
        octets.extend_from_slice(fixed);
        Self(octets)
    }

    /// Attributes, to be nested in one.
    pub(super) const fn attributes() -> Self {
        Self(Vec::new())
    }

    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    pub(super) fn nested(self, kind: u16, attributes: &Self) -> Self {
        self.attribute(kind, &attributes.0)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&((ATTRIBUTE_HEADER + value.len()) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// Sends a request and waits for the kernel's answer, which it has ready when the sending returns.
pub(super) fn ask(message: Message) -> io::Result<()> {
    let Message(mut request) = message;
    let length = request.len() as u32;
    request[..4].copy_from_slice(&length.to_ne_bytes());
    // SAFETY: no pointers.
    let descriptor =
        unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // SAFETY: the request is as long as said.
    if unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0u8; 4096];
    loop {
        // SAFETY: the buffer is as long as said.
        let received = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        let received = &answer[..received as usize];
        let (Some(kind), Some(code)) = (received.get(4..6), received.get(HEADER..HEADER + 4)) else {
            return Err(io::Error::other("a netlink answer that ends early"));
        };
        // An answer to a question may come before its acknowledgement.
        if kind == NLMSG_ERROR.to_ne_bytes() {
            let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
            return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
        }
    }
}
