//! A packet socket that reads and sends many frames a call (recvmmsg, sendmmsg), with VLAN tags put back.
//!
//! The kernel takes the outermost tag out and tells it beside the frame. A frame is therefore read behind four free
//! octets, and its addresses are moved to the front when there is a tag to go between:
//! ```text
//!  0    4                16
//!  |free| addresses 12   | EtherType ...        as read
//!  | addresses 12   | tag| EtherType ...        as it was on the wire
//! ```

use std::borrow::Cow;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol, SockType, bind, getsockopt,
    recvmmsg, sendmmsg, setsockopt, socket, sockopt,
};

use crate::packet::{AUXDATA_LENGTH, LONGEST, RECEIVE_BUFFER, link_address, option, vlan_tag};
use crate::{Error, Namespace};

/// Frames read or sent with one system call.
const BATCH: usize = 64;
/// Time that a read waits, in milliseconds: without traffic a frame can be held back for as long. By poll(),
/// since a receive time-out of the socket would count in ticks of the kernel, up to 10 ms each.
const READ_WAIT: u8 = 2;
/// Asked of the kernel for frames not yet sent, in octets: a rate limit shall drop what it cannot queue, not stop us.
const SEND_BUFFER: usize = 16 << 20;
/// Retries at a full interface for one frame.
const RETRIES: u32 = 16;
/// Octets of a VLAN tag.
const TAG: usize = 4;
/// Octets of both addresses.
const ADDRESSES: usize = 12;

/// A raw socket on one interface that does not see what its own namespace sends.
#[derive(Debug)]
pub(super) struct Socket {
    descriptor: OwnedFd,
    ifname: String,
    index: usize,
}

impl Socket {
    pub(super) fn open(namespace: &Namespace, ifname: &str) -> Result<Socket, Error> {
        namespace
            .enter(|| Socket::open_here(ifname))?
            .map_err(Error::system(format!("open a packet socket on {ifname} in {}", namespace.name())))
    }

    fn open_here(ifname: &str) -> Result<Socket, io::Error> {
        let address = link_address(ifname)?;
        let descriptor =
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, Some(SockProtocol::EthAll))?;
        setsockopt(&descriptor, option::IgnoreOutgoing, &true)?;
        setsockopt(&descriptor, sockopt::RcvBufForce, &RECEIVE_BUFFER)?;
        setsockopt(&descriptor, sockopt::SndBufForce, &SEND_BUFFER)?;
        setsockopt(&descriptor, option::Auxdata, &true)?;
        bind(descriptor.as_raw_fd(), &address)?;
        Ok(Socket { descriptor, ifname: ifname.to_owned(), index: address.ifindex() })
    }

    /// Frames the kernel dropped since the last call because they were not read in time.
    pub(super) fn dropped(&self) -> Result<u64, Error> {
        let statistics = getsockopt(&self.descriptor, option::Statistics)
            .map_err(Error::system(format!("read the statistics of {}", self.ifname)))?;
        Ok(u64::from(statistics.tp_drops))
    }
}

/// Reads from a socket; stays on its thread.
pub(super) struct Receiver<'s> {
    socket: &'s Socket,
    headers: MultiHeaders<LinkAddr>,
    buffers: Vec<Vec<u8>>,
}

impl<'s> Receiver<'s> {
    pub(super) fn new(socket: &'s Socket) -> Receiver<'s> {
        let control = nix::cmsg_space!([u8; AUXDATA_LENGTH]);
        // Zeroed memory is not touched before a frame that long arrives.
        let buffers = (0..BATCH).map(|_| vec![0; TAG + LONGEST]).collect();
        Receiver { socket, headers: MultiHeaders::preallocate(BATCH, Some(control)), buffers }
    }

    /// Waits until there is something to read, or for [`READ_WAIT`].
    pub(super) fn wait(&self) -> Result<(), Error> {
        let mut readable = [PollFd::new(self.socket.descriptor.as_fd(), PollFlags::POLLIN)];
        match poll(&mut readable, READ_WAIT) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(Error::system(format!("wait for frames on {}", self.socket.ifname))(errno)),
        }
    }

    /// Frames that have arrived, as they were on the wire, at most [`BATCH`].
    pub(super) fn receive(&mut self) -> Result<Vec<&mut [u8]>, Error> {
        let Receiver { socket, headers, buffers } = self;
        let failed = || format!("receive on {}", socket.ifname);
        let mut parts: Vec<_> =
            buffers.iter_mut().map(|buffer| [IoSliceMut::new(&mut buffer[TAG..])]).collect();
        let messages =
            recvmmsg(socket.descriptor.as_raw_fd(), headers, parts.iter_mut(), MsgFlags::MSG_DONTWAIT, None);
        let messages = match messages {
            // An interface that is down may come up again.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => return Ok(Vec::new()),
            other => other.map_err(Error::system(failed()))?,
        };
        let mut read = Vec::with_capacity(BATCH);
        for message in messages {
            let tag = message.cmsgs().map_err(Error::system(failed()))?.find_map(vlan_tag);
            // Between its making and its binding the socket hears every interface.
            let ours = message.address.is_some_and(|address| address.ifindex() == socket.index);
            read.push((ours, message.bytes, tag));
        }
        let frames = buffers.iter_mut().zip(read).filter(|(_, (ours, ..))| *ours);
        Ok(frames.map(|(buffer, (_, octets, tag))| whole(&mut buffer[..TAG + octets], tag)).collect())
    }
}

/// The frame that was read behind [`TAG`] free octets, with its tag.
fn whole(buffer: &mut [u8], tag: Option<[u8; TAG]>) -> &mut [u8] {
    let Some(tag) = tag.filter(|_| buffer.len() >= TAG + ADDRESSES) else { return &mut buffer[TAG..] };
    buffer.copy_within(TAG..TAG + ADDRESSES, 0);
    buffer[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag);
    buffer
}

/// Sends on a socket; stays on its thread.
pub(super) struct Sender<'s> {
    socket: &'s Socket,
    headers: MultiHeaders<LinkAddr>,
}

impl<'s> Sender<'s> {
    pub(super) fn new(socket: &'s Socket) -> Sender<'s> {
        Sender { socket, headers: MultiHeaders::preallocate(BATCH, None) }
    }

    /// Sends the frames in their order; says how many the interface did not take. Bound: [`RETRIES`] + 1 system calls
    /// a frame.
    pub(super) fn send(&mut self, frames: &[Cow<'_, [u8]>]) -> Result<u64, Error> {
        let parts: Vec<_> = frames.iter().map(|frame| [IoSlice::new(frame)]).collect();
        let (mut rest, mut failed, mut retries) = (&parts[..], 0, 0);
        while !rest.is_empty() {
            let descriptor = self.socket.descriptor.as_raw_fd();
            let sent =
                sendmmsg(descriptor, &mut self.headers, rest, [None; BATCH], [], MsgFlags::MSG_DONTWAIT)
                    .map(Iterator::count);
            rest = match sent {
                Ok(sent) => {
                    retries = 0;
                    &rest[sent..]
                }
                // A full queue empties itself, unless it is a rate limit's.
                Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) if retries < RETRIES => {
                    retries += 1;
                    std::thread::yield_now();
                    rest
                }
                // Too long for the interface, or no room in spite of all, or down.
                Err(Errno::EMSGSIZE | Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => {
                    (retries, failed) = (0, failed + 1);
                    &rest[1..]
                }
                Err(errno) => return Err(Error::system(format!("send on {}", self.socket.ifname))(errno)),
            };
        }
        Ok(failed)
    }
}
