//! The system calls of an AF_XDP socket: one receive queue of an interface, its rings mapped.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt, sockopt};

use super::ring::{Consumer, Descriptor, Entry, Layout, Producer};
use crate::mapping::Mapping;
use crate::packet_socket as packet;
use crate::pool::Pool;

mod option {
    //! Options that nix has no name for; its macro makes them.
    #![allow(unreachable_pub)]
    use libc::SOL_XDP;
    use nix::{setsockopt_impl, sockopt_impl};

    const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

    // The kernel keeps the region's pages for as long as the socket lives, and writes into chunks that the rings give it.
    sockopt_impl!(UmemRegion, SetOnly, SOL_XDP, libc::XDP_UMEM_REG, libc::xdp_umem_reg_v1);
    sockopt_impl!(FillRing, SetOnly, SOL_XDP, libc::XDP_UMEM_FILL_RING, u32);
    sockopt_impl!(CompletionRing, SetOnly, SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, u32);
    sockopt_impl!(ReceiveRing, SetOnly, SOL_XDP, libc::XDP_RX_RING, u32);
    sockopt_impl!(TransmitRing, SetOnly, SOL_XDP, libc::XDP_TX_RING, u32);
    sockopt_impl!(TransmitBudget, SetOnly, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, u32);
}

/// Frames of one transmit wake-up where the kernel lets it be chosen (Linux 6.17; before, always 32).
const TRANSMIT_BUDGET: u32 = 256;
/// Octets of frames that the kernel holds for us between a wake-up and the driver's having sent them.
const SEND_BUFFER: usize = 4 << 20;

/// Places of the completion ring, which is wanted even where nothing is sent.
const LEAST_COMPLETED: u32 = 2;

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

/// Memory of a socket's frames.
#[derive(Clone, Copy, Debug)]
pub(super) enum Umem<'a> {
    /// The first socket on a pool registers its region.
    Register(&'a Pool),
    /// The others share what the first has registered.
    Share(&'a Socket),
}

/// Outcome of a wake-up of the transmit side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeOutcome {
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
        let socket = Self { descriptor: open()? };
        if let Umem::Register(pool) = umem {
            // The first fields of struct xdp_umem_reg, known to every kernel. No headroom of ours: the kernel leaves
            // XDP_PACKET_HEADROOM, 256 octets, in front of each frame, native and generic alike.
            let region = libc::xdp_umem_reg_v1 {
                addr: pool.region().base() as u64,
                len: pool.region().octets() as u64,
                chunk_size: pool.chunk_octets().kernel_chunk_octets() as u32,
                headroom: 0,
            };
            setsockopt(&socket.descriptor, option::UmemRegion, &region)?;
        }
        let descriptor = &socket.descriptor;
        setsockopt(descriptor, option::FillRing, &sizes.receive)?;
        setsockopt(descriptor, option::CompletionRing, &sizes.transmit.unwrap_or(LEAST_COMPLETED))?;
        setsockopt(descriptor, option::ReceiveRing, &sizes.receive)?;
        if let Some(size) = sizes.transmit {
            setsockopt(descriptor, option::TransmitRing, &size)?;
            // Both are improvements; without them it works as well, with more wake-ups and drops.
            let _ = setsockopt(descriptor, option::TransmitBudget, &TRANSMIT_BUDGET.min(size));
            let _ = setsockopt(descriptor, sockopt::SndBufForce, &SEND_BUFFER);
        }
        let rings = socket.rings(sizes)?;
        Ok((socket, rings))
    }

    /// Goes on with a socket of the program before this one, bound and with rings of these sizes.
    pub(super) fn go_on(descriptor: OwnedFd, sizes: RingSizes) -> io::Result<(Self, Rings)> {
        let socket = Self { descriptor };
        let rings = socket.rings(sizes)?;
        Ok((socket, rings))
    }

    /// Maps its rings. They go on at the indexes that the kernel knows.
    fn rings(&self, sizes: RingSizes) -> io::Result<Rings> {
        // SAFETY: sixteen integers.
        let at: libc::xdp_mmap_offsets = unsafe { self.option(libc::XDP_MMAP_OFFSETS) }?;
        let fill = self.map::<u64>(libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, at.fr, sizes.receive)?;
        let completed = sizes.transmit.unwrap_or(LEAST_COMPLETED);
        let completion =
            self.map::<u64>(libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, at.cr, completed)?;
        let received = self.map::<Descriptor>(libc::XDP_PGOFF_RX_RING, at.rx, sizes.receive)?;
        let transmit = match sizes.transmit {
            None => None,
            Some(size) => {
                let (mapping, layout) = self.map::<Descriptor>(libc::XDP_PGOFF_TX_RING, at.tx, size)?;
                Some(Producer::new(mapping, layout, size))
            }
        };
        Ok(Rings {
            fill: Producer::new(fill.0, fill.1, sizes.receive),
            received: Consumer::new(received.0, received.1, sizes.receive),
            transmit,
            completion: Consumer::new(completion.0, completion.1, completed),
        })
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
        let options: io::Result<libc::xdp_options> = unsafe { self.option(libc::XDP_OPTIONS) };
        options.is_ok_and(|options| options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// The kernel's counters.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: integers only.
        unsafe { self.option(libc::XDP_STATISTICS) }
    }

    /// Has the kernel send what is in the transmit ring.
    pub(super) fn wake_transmit(&self) -> WakeOutcome {
        match send(self.descriptor.as_raw_fd(), &[], MsgFlags::MSG_DONTWAIT) {
            Ok(_) => WakeOutcome::Done,
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => WakeOutcome::Again,
            Err(Errno::EBUSY) => WakeOutcome::Dropped,
            Err(_) => WakeOutcome::Refused,
        }
    }

    /// Has the kernel look at the fill ring.
    pub(super) fn wake_receive(&self) {
        // The kernel's answer says nothing that the rings do not.
        let _ = recv(self.descriptor.as_raw_fd(), &mut [], MsgFlags::MSG_DONTWAIT);
    }

    pub(super) fn owned(&self) -> &OwnedFd {
        &self.descriptor
    }

    pub(super) fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Reads an option. Old kernels write less of some structures than later ones: the rest is zero.
    ///
    /// # Safety
    /// Any octets, and all zero, are a valid `T`.
    unsafe fn option<T: Copy>(&self, name: libc::c_int) -> io::Result<T> {
        // SAFETY: the caller says that zero is valid.
        let mut value: T = unsafe { mem::zeroed() };
        let mut octets = mem::size_of::<T>() as libc::socklen_t;
        let place = std::ptr::from_mut(&mut value).cast();
        // SAFETY: the kernel writes no further than said.
        let result = unsafe {
            libc::getsockopt(self.descriptor.as_raw_fd(), libc::SOL_XDP, name, place, &raw mut octets)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
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

/// An AF_XDP socket, a family that nix has no name for.
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let descriptor = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
