//! The system calls of an AF_XDP socket: one receive queue of an interface, its rings mapped.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;

use super::ring::{Consumer, Descriptor, Entry, Layout, Producer};
use crate::mapping::Mapping;
use crate::packet_socket as packet;
use crate::pool::Pool;

/// Frames of one transmit wake-up where the kernel lets it be chosen (Linux 6.17; before, always 32).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
const TRANSMIT_BUDGET: u32 = 256;
/// Octets of frames that the kernel holds for us between a wake-up and the driver's having sent them.
const SEND_BUFFER: libc::c_int = 4 << 20;

/// A socket without rings of ours yet.
#[derive(Debug)]
pub(super) struct Socket {
    descriptor: OwnedFd,
}

/// The ends of the rings that are ours.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) fill: Producer<u64>,
    pub(super) received: Consumer<Descriptor>,
    /// Only of a socket that sends, as the next.
    pub(super) transmit: Option<Producer<Descriptor>>,
    pub(super) completion: Consumer<u64>,
}

/// Places of a socket's rings, powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingSizes {
    /// Fill and receive ring.
    pub(super) receive: u32,
    /// Transmit and completion ring; None for a socket that does not send.
    pub(super) transmit: Option<u32>,
}

/// Where the frames of a socket live.
#[derive(Clone, Copy, Debug)]
pub(super) enum Umem<'a> {
    /// The first socket on a pool registers its region.
    Register(&'a Pool),
    /// The others share what the first has registered.
    Share(&'a Socket),
}

/// What a wake-up of the transmit side came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// All that was in the ring has been taken.
    Done,
    /// There may be more; call again.
    Again,
    /// The driver refused a frame, which the kernel dropped; call again for the others.
    Dropped,
    /// The interface is down or gone.
    Refused,
}

impl Socket {
    /// A socket with its rings, not yet bound.
    pub(super) fn open(umem: Umem<'_>, sizes: RingSizes) -> io::Result<(Self, Rings)> {
        /// A completion ring is wanted even where nothing is sent.
        const LEAST: u32 = 2;
        let socket = Self { descriptor: packet::socket(libc::AF_XDP)? };
        if let Umem::Register(pool) = umem {
            // The first fields of struct xdp_umem_reg, known to every kernel. No headroom of ours: the kernel leaves
            // XDP_PACKET_HEADROOM, 256 octets, in front of each frame, native and generic alike.
            let region = libc::xdp_umem_reg_v1 {
                addr: pool.region().base() as u64,
                len: pool.region().octets() as u64,
                chunk_size: pool.chunk_octets().kernel_chunk_octets() as u32,
                headroom: 0,
            };
            socket.set(libc::XDP_UMEM_REG, &region)?;
        }
        socket.set(libc::XDP_UMEM_FILL_RING, &sizes.receive)?;
        socket.set(libc::XDP_UMEM_COMPLETION_RING, &sizes.transmit.unwrap_or(LEAST))?;
        socket.set(libc::XDP_RX_RING, &sizes.receive)?;
        if let Some(size) = sizes.transmit {
            socket.set(libc::XDP_TX_RING, &size)?;
            // Both are improvements; without them it works as well, with more wake-ups and drops.
            let _ = socket.set(XDP_MAX_TX_SKB_BUDGET, &TRANSMIT_BUDGET.min(size));
            let _ =
                packet::set_option(&socket.descriptor, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
        }
        // SAFETY: sixteen integers.
        let at: libc::xdp_mmap_offsets =
            unsafe { packet::option(&socket.descriptor, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS) }?;
        let fill = socket.map::<u64>(libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, at.fr, sizes.receive)?;
        let completed = sizes.transmit.unwrap_or(LEAST);
        let completion =
            socket.map::<u64>(libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, at.cr, completed)?;
        let received = socket.map::<Descriptor>(libc::XDP_PGOFF_RX_RING, at.rx, sizes.receive)?;
        let transmit = match sizes.transmit {
            None => None,
            Some(size) => {
                let (mapping, layout) = socket.map::<Descriptor>(libc::XDP_PGOFF_TX_RING, at.tx, size)?;
                Some(Producer::new(mapping, layout, size))
            }
        };
        let rings = Rings {
            fill: Producer::new(fill.0, fill.1, sizes.receive),
            received: Consumer::new(received.0, received.1, sizes.receive),
            transmit,
            completion: Consumer::new(completion.0, completion.1, completed),
        };
        Ok((socket, rings))
    }

    /// Binds to a receive queue of an interface. `copy` keeps a driver from receiving straight into the chunks.
    pub(super) fn bind(
        &self,
        umem: Umem<'_>,
        interface_index: u32,
        queue: u32,
        copy: bool,
    ) -> io::Result<()> {
        let (flags, shared) = match umem {
            // Shared sockets inherit the flags of the first.
            Umem::Share(first) => (libc::XDP_SHARED_UMEM, first.descriptor.as_raw_fd() as u32),
            Umem::Register(pool) => {
                let copy = if copy { libc::XDP_COPY } else { 0 };
                // Linux 6.6; the bind fails where the kernel does not know it.
                let several = if pool.chunk_octets().parts() > 1 { libc::XDP_USE_SG } else { 0 };
                (libc::XDP_USE_NEED_WAKEUP | copy | several, 0)
            }
        };
        packet::bind_to(
            &self.descriptor,
            &libc::sockaddr_xdp {
                sxdp_family: libc::AF_XDP as u16,
                sxdp_flags: flags,
                sxdp_ifindex: interface_index,
                sxdp_queue_id: queue,
                sxdp_shared_umem_fd: shared,
            },
        )
    }

    /// Whether the driver receives straight into the chunks.
    pub(super) fn is_zero_copy(&self) -> bool {
        // SAFETY: one integer.
        let options: io::Result<libc::xdp_options> =
            unsafe { packet::option(&self.descriptor, libc::SOL_XDP, libc::XDP_OPTIONS) };
        options.is_ok_and(|options| options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// The kernel's counters.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: integers only.
        unsafe { packet::option(&self.descriptor, libc::SOL_XDP, libc::XDP_STATISTICS) }
    }

    /// Has the kernel send what is in the transmit ring.
    pub(super) fn wake_transmit(&self) -> Woken {
        // SAFETY: no data, no address.
        let result = unsafe {
            libc::sendto(self.descriptor.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0)
        };
        if result >= 0 {
            return Woken::Done;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => Woken::Again,
            Some(libc::EBUSY) => Woken::Dropped,
            _ => Woken::Refused,
        }
    }

    /// Has the kernel look at the fill ring.
    pub(super) fn wake_receive(&self) {
        // SAFETY: no data, no address. The kernel's answer says nothing that the rings do not.
        unsafe {
            libc::recvfrom(
                self.descriptor.as_raw_fd(),
                ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
    }

    pub(super) fn owned(&self) -> &OwnedFd {
        &self.descriptor
    }

    pub(super) fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    fn set<T: Copy>(&self, name: libc::c_int, value: &T) -> io::Result<()> {
        packet::set_option(&self.descriptor, libc::SOL_XDP, name, value)
    }

    fn map<T: Entry>(
        &self,
        offset: libc::off_t,
        at: libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<(Arc<Mapping>, Layout)> {
        let layout = Layout {
            producer: at.producer as usize,
            consumer: at.consumer as usize,
            flags: at.flags as usize,
            entries: at.desc as usize,
        };
        let octets = layout.entries + size as usize * mem::size_of::<T>();
        Ok((Arc::new(Mapping::shared(self.descriptor.as_raw_fd(), offset, octets)?), layout))
    }
}
