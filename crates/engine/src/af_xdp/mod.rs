//! AF_XDP: frames go from the driver's receive path into the pool's chunks, and from there to the other port's
//! driver, past the host's stack. The fast port.
//!
//! - The pool's region is one UMEM for both ports of a link: a forwarded frame is not copied by us. Each socket has
//!   a fill and a completion ring of its own (XDP_SHARED_UMEM across interfaces: Linux 5.10).
//! - Every receive queue is bound: a frame on a queue without a socket is dropped (in the driver's own counters), as
//!   one added later with `ethtool -L` would be. All sending goes through queue 0's socket, for order: the far end's
//!   replay window may be 0.
//! - The program is attached first, with an empty map, which drops; the sockets are bound next, put into the map
//!   last. Native, else generic (a driver without XDP, an MTU above what its native mode takes).
//! - EBUSY right after a previous owner's exit is the kernel still cleaning up: tried again for a bounded time.
//! - Programs, maps, links, sockets and the promiscuous mode belong to file descriptors: nothing stays behind,
//!   however the process ends.
//!
//! A chunk that is in a ring when a port is dropped does not come back to the pool: the ports of a link and their
//! pool are made and dropped together.
//!
//! Left out on purpose: frames of several chunks (XDP_USE_SG), so the MTU is bounded by a chunk of 4,096; sending
//! on several queues; busy polling by socket option.

mod queue;
mod ring;
mod socket;

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use crate::bpf::{Hook, Link, Program, SocketMap, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
use crate::burst::{BURST_FRAMES, Burst};
use crate::interface::{Interface, while_busy};
use crate::packet_socket;
use crate::pool::{ChunkOctets, Pool};
use crate::port::{self, Port, PortCounters, PortError};
use queue::{ReceiveSide, TransmitSide};
use socket::{RingSizes, Rings, Socket, Umem, Woken};

/// The most chunks of one direction of one socket.
const MOST_DEPTH: usize = 2048;
/// The least: one burst.
const LEAST_DEPTH: usize = BURST_FRAMES;
/// Chunks that are in no ring, for bursts under work.
const IN_HAND: usize = 4 * BURST_FRAMES;
/// Chunks that a pool of the recommended size has for all rings together, unless the queues are very many.
const RING_CHUNKS: usize = 16 * 1024;
/// Queues that are looked for where the driver does not say how many it has.
const MOST_UNKNOWN_QUEUES: u32 = 64;
/// The kernel's limit: a chunk must not exceed a page.
const LARGEST_CHUNK: ChunkOctets = ChunkOctets::Octets4096;
/// The most wake-ups of one call while the kernel says "again"; each sends 32 frames or more.
const MOST_WAKEUPS: usize = 8;
/// Turns without a frame between two looks at the sockets' errors.
const IDLE_TURNS: u32 = 64;

/// Where in the kernel frames are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// Native if the driver can, else generic.
    #[default]
    NativeElseGeneric,
    /// In the driver, or not at all.
    Native,
    /// After the driver.
    Generic,
}

/// A port on AF_XDP sockets.
#[derive(Debug)]
pub struct AfXdp {
    // In the order of being dropped: first no more frames, then the sockets.
    _link: Link,
    _map: SocketMap,
    _promiscuous: OwnedFd,
    sockets: Vec<Socket>,
    receive: Vec<ReceiveSide>,
    /// Of the first socket.
    transmit: TransmitSide,
    descriptors: Vec<RawFd>,
    pool: u32,
    mtu: u32,
    /// The queue that the next burst begins with, for fairness.
    first_queue: usize,
    idle: u32,
    counters: PortCounters,
    description: String,
}

impl AfXdp {
    /// How many chunks a pool for these two ports should have.
    pub fn chunks(plain: &Interface, protected: &Interface) -> usize {
        let queues = |interface: &Interface| interface.receive_queues().unwrap_or(1) as usize;
        let sides = queues(plain) + queues(protected) + 2;
        sides * (RING_CHUNKS / sides).clamp(4 * LEAST_DEPTH, MOST_DEPTH) + IN_HAND
    }

    /// Opens a port on each of the two interfaces of a link, which are up, over one pool. From now on both are
    /// promiscuous and what they receive waits in the rings.
    ///
    /// # Errors
    /// If frames of an MTU do not fit a chunk, if the pool is too small, or if the kernel refuses. The pool is then
    /// as before.
    pub fn open_pair(
        plain: &Interface,
        protected: &Interface,
        pool: &mut Pool,
        attach: Attach,
    ) -> Result<(Self, Self), PortError> {
        for interface in [plain, protected] {
            check_mtu(interface, pool)?;
        }
        let halves = [Half::attach(plain, attach)?, Half::attach(protected, attach)?];
        let generic = halves.iter().any(|half| half.mode == "generic");
        let ([first_bound, second_bound], depth) = match bind_all(&halves, pool, generic) {
            // Zero copy on one interface, and not on the other: both must do the same, as they share the region.
            Err(failed) if failed.zero_copy => {
                bind_all(&halves, pool, true).map_err(|failed| failed.error)?
            }
            other => other.map_err(|failed| failed.error)?,
        };
        let [first, second] = halves;
        let mut first = first.finish(first_bound, depth, pool)?;
        let mut second = second.finish(second_bound, depth, pool)?;
        first.housekeep(pool);
        second.housekeep(pool);
        Ok((first, second))
    }

    fn check_pool(&self, pool: &Pool) {
        assert_eq!(pool.id(), self.pool, "invariant: a port keeps to the pool it was opened with");
    }

    /// Has the kernel send what is in the transmit ring. At most [`BURST_FRAMES`] + [`MOST_WAKEUPS`] system calls.
    fn wake_transmit(&mut self) {
        let (mut again, mut dropped) = (0, 0);
        while again < MOST_WAKEUPS && dropped < BURST_FRAMES {
            if !self.transmit.frames.needs_wakeup() || self.transmit.frames.pending() == 0 {
                return;
            }
            match self.sockets[0].wake_transmit() {
                Woken::Done => return,
                Woken::Again => again += 1,
                Woken::Dropped => {
                    dropped += 1;
                    self.counters.tx_kernel_dropped += 1;
                }
                Woken::Refused => return,
            }
        }
    }
}

impl Port for AfXdp {
    fn receive(&mut self, pool: &mut Pool, burst: &mut Burst) {
        self.check_pool(pool);
        let before = burst.len();
        let queues = self.receive.len();
        for turn in 0..queues {
            if burst.is_full() {
                break;
            }
            let queue = (self.first_queue + turn) % queues;
            self.receive[queue].receive(pool, burst, &mut self.counters);
        }
        self.first_queue = (self.first_queue + 1) % queues;
        self.idle = if burst.len() == before { self.idle + 1 } else { 0 };
        if self.idle >= IDLE_TURNS {
            self.idle = 0;
            self.descriptors.iter().copied().for_each(packet_socket::clear_error);
        }
    }

    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst) {
        self.check_pool(pool);
        if !self.transmit.has_room(burst.len()) {
            self.transmit.take_back(pool, &mut self.counters);
        }
        self.transmit.transmit(pool, burst, self.mtu, &mut self.counters);
        self.wake_transmit();
    }

    fn housekeep(&mut self, pool: &mut Pool) {
        self.check_pool(pool);
        if !self.transmit.is_idle() {
            self.wake_transmit();
            self.transmit.take_back(pool, &mut self.counters);
        }
        for (side, socket) in self.receive.iter_mut().zip(&self.sockets) {
            if side.is_low() {
                side.put_up(pool);
                if side.fill.needs_wakeup() {
                    socket.wake_receive();
                }
            }
        }
    }

    fn poll_descriptors(&self) -> &[RawFd] {
        &self.descriptors
    }

    fn counters(&mut self) -> PortCounters {
        let mut sum = self.counters;
        for statistics in self.sockets.iter().filter_map(|socket| socket.statistics().ok()) {
            sum.rx_kernel_dropped += statistics.rx_dropped;
            sum.rx_ring_full += statistics.rx_ring_full;
            sum.rx_fill_ring_empty += statistics.rx_fill_ring_empty_descs;
            sum.rx_invalid_descriptors += statistics.rx_invalid_descs;
            sum.tx_invalid_descriptors += statistics.tx_invalid_descs;
        }
        sum
    }

    fn description(&self) -> &str {
        &self.description
    }
}

fn check_mtu(interface: &Interface, pool: &Pool) -> Result<(), PortError> {
    let room = if pool.chunk_octets() <= LARGEST_CHUNK { pool.room() } else { 0 };
    let overhead = port::longest_received(0);
    if interface.mtu() as usize + overhead <= room {
        return Ok(());
    }
    Err(PortError::MtuTooLarge {
        interface: interface.name().into(),
        engine: "AF_XDP",
        mtu: interface.mtu(),
        most: (LARGEST_CHUNK.room() - overhead) as u32,
        larger_by_af_packet: true,
    })
}

/// A port without sockets.
#[derive(Debug)]
struct Half<'i> {
    interface: &'i Interface,
    map: SocketMap,
    link: Link,
    mode: &'static str,
}

/// The sockets of one port, bound to queues 0, 1, ....
type Bound = Vec<(Socket, Rings)>;

/// Why binding failed, and whether the kernel had chosen zero copy.
struct BindFailed {
    error: PortError,
    zero_copy: bool,
}

impl<'i> Half<'i> {
    fn attach(interface: &'i Interface, attach: Attach) -> Result<Self, PortError> {
        let queues = interface.receive_queues().unwrap_or(MOST_UNKNOWN_QUEUES);
        let map = SocketMap::new(queues).map_err(|source| failed(interface, "make an XSKMAP", source))?;
        let program =
            Program::to_sockets(&map).map_err(|source| failed(interface, "load the XDP program", source))?;
        let native = (XDP_FLAGS_DRV_MODE, "native");
        let generic = (XDP_FLAGS_SKB_MODE, "generic");
        let modes = match attach {
            Attach::NativeElseGeneric => [native, generic],
            Attach::Native => [native; 2],
            Attach::Generic => [generic; 2],
        };
        let link = |flags| {
            while_busy(|| Link::create(&program, interface.index(), Hook::Xdp, flags))
                .map_err(|source| failed(interface, "attach the XDP program", source))
        };
        let (link, mode) = match link(modes[0].0) {
            Ok(made) => (made, modes[0].1),
            Err(_) if modes[0] != modes[1] => (link(modes[1].0)?, modes[1].1),
            Err(error) => return Err(error),
        };
        Ok(Self { interface, map, link, mode })
    }

    /// Binds a socket to each receive queue. `first` is the socket that has registered the region, if there is one.
    fn bind(
        &self,
        pool: &Pool,
        first: Option<&Socket>,
        depth: usize,
        copy: bool,
    ) -> Result<Bound, BindFailed> {
        let size = depth.next_power_of_two() as u32;
        let known = self.interface.receive_queues();
        let mut bound = Bound::new();
        for queue in 0..known.unwrap_or(MOST_UNKNOWN_QUEUES) {
            let umem = match first.or_else(|| bound.first().map(|(socket, _)| socket)) {
                Some(first) => Umem::Share(first),
                None => Umem::Register(pool),
            };
            let sizes = RingSizes { receive: size, transmit: (queue == 0).then_some(size) };
            let opened = Socket::open(umem, sizes).and_then(|(socket, rings)| {
                while_busy(|| socket.bind(umem, self.interface.index(), queue, copy))?;
                Ok((socket, rings))
            });
            match opened {
                Ok(both) => bound.push(both),
                // No such queue: all have been found.
                Err(error) if known.is_none() && queue > 0 && error.raw_os_error() == Some(libc::EINVAL) => {
                    break;
                }
                Err(source) => {
                    let zero_copy = match umem {
                        Umem::Share(first) => first.is_zero_copy(),
                        Umem::Register(_) => false,
                    };
                    let error =
                        failed(self.interface, format!("bind an AF_XDP socket to queue {queue}"), source);
                    return Err(BindFailed { error, zero_copy });
                }
            }
        }
        Ok(bound)
    }

    fn finish(self, bound: Bound, depth: usize, pool: &Pool) -> Result<AfXdp, PortError> {
        let interface = self.interface;
        let zero_copy = bound.iter().any(|(socket, _)| socket.is_zero_copy());
        let (mut sockets, mut receive, mut transmit) = (Vec::new(), Vec::new(), None);
        for (queue, (socket, rings)) in bound.into_iter().enumerate() {
            receive.push(ReceiveSide::new(rings.fill, rings.received, depth));
            if let Some(frames) = rings.transmit {
                transmit = Some(TransmitSide::new(frames, rings.completion, depth));
            }
            self.map
                .set(queue as u32, socket.owned())
                .map_err(|source| failed(interface, "put a socket into the XSKMAP", source))?;
            sockets.push(socket);
        }
        let promiscuous = packet_socket::open()
            .and_then(|socket| packet_socket::promiscuous(&socket, interface.index()).map(|()| socket))
            .map_err(|source| failed(interface, "make it promiscuous", source))?;
        let queues = sockets.len();
        Ok(AfXdp {
            _link: self.link,
            _map: self.map,
            _promiscuous: promiscuous,
            descriptors: sockets.iter().map(Socket::raw).collect(),
            sockets,
            receive,
            transmit: transmit.expect("invariant: queue 0's socket sends"),
            pool: pool.id(),
            mtu: interface.mtu(),
            first_queue: 0,
            idle: 0,
            counters: PortCounters::default(),
            description: format!(
                "af_xdp {}{}, {queues} queue{}",
                self.mode,
                if zero_copy { " zero-copy" } else { "" },
                if queues == 1 { "" } else { "s" },
            ),
        })
    }
}

/// Binds the sockets of both ports over one region, and says how many chunks each direction of each may hold.
fn bind_all(halves: &[Half<'_>; 2], pool: &Pool, copy: bool) -> Result<([Bound; 2], usize), BindFailed> {
    // Where a driver does not tell, the rings are made for one queue and shared out anew below.
    let known = halves.iter().map(|half| half.interface.receive_queues().unwrap_or(1) as usize).sum();
    let plain_depth = depth(pool, known)?;
    let plain = halves[0].bind(pool, None, plain_depth, copy)?;
    let protected = halves[1].bind(pool, plain.first().map(|(socket, _)| socket), plain_depth, copy)?;
    let depth = depth(pool, plain.len() + protected.len())?;
    Ok(([plain, protected], depth))
}

/// Chunks for each direction of each socket: a receiving one per queue, a sending one per port.
fn depth(pool: &Pool, queues: usize) -> Result<usize, BindFailed> {
    let sides = queues + 2;
    let depth = pool.free().saturating_sub(IN_HAND) / sides;
    if depth < LEAST_DEPTH {
        let wanted = sides * LEAST_DEPTH + IN_HAND;
        let error = PortError::PoolTooSmall { total: pool.free(), wanted };
        return Err(BindFailed { error, zero_copy: false });
    }
    Ok(depth.min(MOST_DEPTH))
}

fn failed(interface: &Interface, action: impl Into<String>, source: io::Error) -> PortError {
    PortError::System { interface: interface.name().into(), action: action.into(), source }
}
