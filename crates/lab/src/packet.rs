//! A raw packet socket on one interface (packet(7)): whole frames in and out, exact octets.
//!
//! The kernel takes the outer VLAN tag out of a received frame and tells it beside the frame (PACKET_AUXDATA);
//! it is put back here, with its TPID. What the kernel dropped because nobody read in time is counted
//! (PACKET_STATISTICS). A frame to be sent has at least 14 octets, and at most the interface's MTU + 14 (+ 4 behind
//! 0x8100, not behind 0x88A8). Left out on purpose: memory-mapped rings, which need `unsafe`; about 300,000 frames a second do
//! here.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol, SockType,
    SockaddrLike, bind, getsockopt, recvmsg, send, sendmmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use crate::{Error, Namespace};

/// The longest frame taken: a merged one of 64 KiB and its header.
pub(crate) const LONGEST: usize = 66_000;
/// Asked of the kernel for frames not yet read, in octets (each frame costs about 1 KiB more than its length).
pub(crate) const RECEIVE_BUFFER: usize = 64 << 20;
/// Time that a read waits before it looks whether it shall stop.
const READ_WAIT: i64 = 10_000;
/// `struct tpacket_auxdata`: status at 0, VLAN TCI at 16, TPID at 18, host order.
pub(crate) const AUXDATA_LENGTH: usize = 20;

pub(crate) mod option {
    //! Options of packet(7) that nix has no name for; its macro makes them.
    #![allow(missing_docs, unreachable_pub)]
    use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

    sockopt_impl!(Auxdata, SetOnly, libc::SOL_PACKET, libc::PACKET_AUXDATA, bool);
    sockopt_impl!(IgnoreOutgoing, SetOnly, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, bool);
    sockopt_impl!(Statistics, GetOnly, libc::SOL_PACKET, libc::PACKET_STATISTICS, libc::tpacket_stats);
}

/// Direction of a frame through the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came from the wire.
    In,
    /// It was sent to the wire, by this namespace.
    Out,
}

/// A frame as it was on the wire, without its frame check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Moment at which it was read; later than its arrival if the reader was behind.
    pub at: Instant,
    /// Its direction.
    pub direction: Direction,
    /// All octets from the destination address on.
    pub octets: Vec<u8>,
}

impl Frame {
    /// The EtherType after any VLAN tags (0x8100, 0x88A8), or `None` if the frame is too short for one.
    pub fn ethertype(&self) -> Option<u16> {
        let mut at = 12;
        loop {
            let field = self.octets.get(at..at + 2)?;
            match u16::from_be_bytes([field[0], field[1]]) {
                0x8100 | 0x88A8 => at += 4,
                ethertype => return Some(ethertype),
            }
        }
    }

    /// Whether `needle` stands anywhere in it. An empty needle is found nowhere.
    pub fn contains(&self, needle: &[u8]) -> bool {
        !needle.is_empty() && self.octets.windows(needle.len()).any(|window| window == needle)
    }
}

/// A raw socket bound to one interface; it belongs to the namespace in which it was opened, on whatever thread.
#[derive(Debug)]
pub struct PacketSocket {
    descriptor: OwnedFd,
    ifname: String,
    index: usize,
    buffer: Vec<u8>,
}

impl PacketSocket {
    /// The most frames of one [`PacketSocket::send_repeatedly`] or [`PacketSocket::send_all`].
    pub(crate) const BATCH: usize = 32;

    /// Opens a socket that takes and sends every EtherType on `ifname`, which must be up.
    pub fn open(namespace: &Namespace, ifname: &str) -> Result<PacketSocket, Error> {
        namespace
            .enter(|| PacketSocket::open_here(ifname))?
            .map_err(Error::system(format!("open a packet socket on {ifname} in {}", namespace.name())))
    }

    fn open_here(ifname: &str) -> Result<PacketSocket, io::Error> {
        let address = link_address(ifname)?;
        let descriptor =
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, Some(SockProtocol::EthAll))?;
        setsockopt(&descriptor, sockopt::RcvBufForce, &RECEIVE_BUFFER)?;
        setsockopt(&descriptor, option::Auxdata, &true)?;
        setsockopt(&descriptor, sockopt::ReceiveTimeout, &TimeVal::new(0, READ_WAIT))?;
        bind(descriptor.as_raw_fd(), &address)?;
        Ok(PacketSocket {
            descriptor,
            ifname: ifname.to_owned(),
            index: address.ifindex(),
            buffer: vec![0; LONGEST],
        })
    }

    /// Sends one frame; it begins with the destination address and has no frame check sequence.
    pub fn send(&self, octets: &[u8]) -> Result<(), Error> {
        let what = || format!("send {} octets on {}", octets.len(), self.ifname);
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            match send(self.descriptor.as_raw_fd(), octets, MsgFlags::empty()) {
                Ok(sent) if sent == octets.len() => return Ok(()),
                Ok(sent) => return Err(Error::Unexpected(format!("{}: only {sent} were taken", what()))),
                // A full transmit queue empties itself.
                Err(Errno::ENOBUFS | Errno::EINTR) if Instant::now() < end => std::thread::yield_now(),
                Err(errno) => return Err(Error::system(what())(errno)),
            }
        }
    }

    /// Makes so much room for frames not yet sent that a rate limit further on drops what it cannot queue, instead of
    /// holding us up.
    pub(crate) fn never_wait(&self) -> Result<(), Error> {
        setsockopt(&self.descriptor, sockopt::SndBufForce, &(16 << 20))
            .map_err(Error::system(format!("widen the send buffer on {}", self.ifname)))
    }

    /// Sends `frame` up to `count` times (at most [`PacketSocket::BATCH`]) with one system call; says how often
    /// the interface took it.
    pub(crate) fn send_repeatedly(&self, frame: &[u8], count: usize) -> Result<usize, Error> {
        self.send_slices(&[[IoSlice::new(frame)]; Self::BATCH][..count.min(Self::BATCH)])
    }

    /// Sends `frames` (at most [`PacketSocket::BATCH`]) in their order with one system call; says how many the
    /// interface took.
    pub(crate) fn send_all(&self, frames: &[Vec<u8>]) -> Result<usize, Error> {
        let mut parts = [[IoSlice::new(&[])]; Self::BATCH];
        let count = frames.len().min(Self::BATCH);
        for (part, frame) in parts.iter_mut().zip(frames) {
            *part = [IoSlice::new(frame)];
        }
        self.send_slices(&parts[..count])
    }

    fn send_slices(&self, parts: &[[IoSlice<'_>; 1]]) -> Result<usize, Error> {
        let mut headers: MultiHeaders<LinkAddr> = MultiHeaders::preallocate(Self::BATCH, None);
        let sent = sendmmsg(
            self.descriptor.as_raw_fd(),
            &mut headers,
            parts,
            [None; Self::BATCH],
            [],
            MsgFlags::empty(),
        );
        match sent.map(Iterator::count) {
            Ok(sent) => Ok(sent),
            // A full transmit queue empties itself.
            Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(errno) => {
                let octets = parts.first().map_or(0, |[frame]| frame.len());
                Err(Error::system(format!("send {octets} octets on {}", self.ifname))(errno))
            }
        }
    }

    /// The next frame in either direction, or `None` if there is none within about 10 ms.
    pub fn receive(&mut self) -> Result<Option<Frame>, Error> {
        self.receive_with(MsgFlags::empty())
    }

    /// The next frame that is already waiting, or `None`.
    pub fn receive_waiting(&mut self) -> Result<Option<Frame>, Error> {
        self.receive_with(MsgFlags::MSG_DONTWAIT)
    }

    fn receive_with(&mut self, flags: MsgFlags) -> Result<Option<Frame>, Error> {
        let what = format!("receive on {}", self.ifname);
        loop {
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            let mut control = nix::cmsg_space!([u8; AUXDATA_LENGTH]);
            let message =
                recvmsg::<LinkAddr>(self.descriptor.as_raw_fd(), &mut parts, Some(&mut control), flags);
            let message = match message {
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
                other => other.map_err(Error::system(what.as_str()))?,
            };
            let (length, address) = (message.bytes, message.address);
            let tag = message.cmsgs().map_err(Error::system(what.as_str()))?.find_map(vlan_tag);
            // Between its making and its binding the socket hears every interface.
            let Some(address) = address.filter(|address| address.ifindex() == self.index) else { continue };
            let direction =
                if address.pkttype() == libc::PACKET_OUTGOING { Direction::Out } else { Direction::In };
            let octets = with_tag(&self.buffer[..length], tag);
            return Ok(Some(Frame { at: Instant::now(), direction, octets }));
        }
    }

    /// Frames the kernel dropped since the last call because they were not read in time.
    pub fn dropped(&self) -> Result<u64, Error> {
        let statistics = getsockopt(&self.descriptor, option::Statistics)
            .map_err(Error::system(format!("read the statistics of {}", self.ifname)))?;
        Ok(u64::from(statistics.tp_drops))
    }
}

/// An address that names the interface by its index; the protocol stays the socket's.
pub(crate) fn link_address(ifname: &str) -> Result<LinkAddr, io::Error> {
    getifaddrs()?
        .filter(|interface| interface.interface_name == ifname)
        .find_map(|interface| interface.address?.as_link_addr().copied())
        .filter(|address| address.family() == Some(AddressFamily::Packet))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such interface"))
}

pub(crate) fn vlan_tag(message: ControlMessageOwned) -> Option<[u8; 4]> {
    let ControlMessageOwned::Unknown(message) = message else { return None };
    let header = message.cmsg_header;
    if (header.cmsg_level, header.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    let data: &[u8; AUXDATA_LENGTH] = message.data_bytes.first_chunk()?;
    let status = u32::from_ne_bytes([data[0], data[1], data[2], data[3]]);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tci = u16::from_ne_bytes([data[16], data[17]]).to_be_bytes();
    let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
        [0x81, 0x00]
    } else {
        u16::from_ne_bytes([data[18], data[19]]).to_be_bytes()
    };
    Some([tpid[0], tpid[1], tci[0], tci[1]])
}

fn with_tag(octets: &[u8], tag: Option<[u8; 4]>) -> Vec<u8> {
    match (tag, octets.split_at_checked(12)) {
        (Some(tag), Some((addresses, rest))) => [addresses, &tag, rest].concat(),
        _ => octets.to_vec(),
    }
}

/// One interface's counters since it was made (`/proc/net/dev`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Octets received.
    pub rx_octets: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// Frames received in error.
    pub rx_errors: u64,
    /// Frames received and dropped. Counts also what no protocol of the namespace wants, though a raw socket had it.
    pub rx_dropped: u64,
    /// Octets sent.
    pub tx_octets: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames dropped when sending. On veth: the other end is down or full, or has no room.
    pub tx_dropped: u64,
}

impl InterfaceCounters {
    /// Reads the counters of `ifname` in `namespace`. Drops of a queueing discipline are not among them (`tc -s`).
    pub fn read(namespace: &Namespace, ifname: &str) -> Result<InterfaceCounters, Error> {
        let what = format!("read the counters of {ifname} in {}", namespace.name());
        let text = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let text = text.map_err(Error::system(what.as_str()))?;
        parse_counters(&text, ifname).ok_or_else(|| Error::Unexpected(format!("{what}: not there")))
    }
}

fn parse_counters(text: &str, ifname: &str) -> Option<InterfaceCounters> {
    let (_, counters) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, counters)| name.trim() == ifname && !counters.is_empty())?;
    let counters: Vec<u64> = counters
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()
        .filter(|c: &Vec<_>| c.len() >= 16)?;
    Some(InterfaceCounters {
        rx_octets: counters[0],
        rx_frames: counters[1],
        rx_errors: counters[2],
        rx_dropped: counters[3],
        tx_octets: counters[8],
        tx_frames: counters[9],
        tx_errors: counters[10],
        tx_dropped: counters[11],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(octets: &[u8]) -> Frame {
        Frame { at: Instant::now(), direction: Direction::In, octets: octets.to_vec() }
    }

    #[test]
    fn the_ethertype_is_found_behind_tags() {
        let head = [0; 12];
        for (tail, expected) in [
            (&[0x88, 0xE5][..], Some(0x88E5)),
            (&[0x81, 0, 0, 7, 0x08, 0], Some(0x0800)),
            (&[0x88, 0xA8, 0, 5, 0x81, 0, 0, 7, 0x88, 0x92, 1], Some(0x8892)),
            (&[0x81, 0, 0, 7, 0x08], None),
            (&[0x88], None),
            (&[], None),
        ] {
            assert_eq!(frame(&[&head, tail].concat()).ethertype(), expected, "{tail:x?}");
        }
    }

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let octets: Vec<u8> = (0..14).collect();
        let tagged = with_tag(&octets, Some([0x81, 0, 0xE0, 7]));
        assert_eq!(tagged, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x81, 0, 0xE0, 7, 12, 13]);
        assert_eq!(with_tag(&octets, None), octets);
    }

    #[test]
    fn counters_are_read_from_their_columns() {
        let text =
            "Inter-| Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  a0: 1 2\n";
        let lo = parse_counters(text, "lo").unwrap();
        assert_eq!((lo.rx_octets, lo.rx_frames, lo.rx_errors, lo.rx_dropped), (1, 2, 3, 4));
        assert_eq!((lo.tx_octets, lo.tx_frames, lo.tx_errors, lo.tx_dropped), (9, 10, 11, 12));
        assert_eq!(parse_counters(text, "a0"), None);
        assert_eq!(parse_counters(text, "b0"), None);
    }
}
