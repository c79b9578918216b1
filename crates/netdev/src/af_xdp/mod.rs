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
//! The kernel's chunks must not exceed a page. What is longer is several of them, and a pool of larger chunks says
//! that such frames are wanted:
//!
//! | chunks of the pool | received | sent |
//! |---|---|---|
//! | 2,048 or 4,096: the kernel's own | in place | in place |
//! | 16,384: four of the kernel's | gathered: copied out of up to five | in place, in up to four descriptors |
//!
//! The latter needs Linux 6.6 (XDP_USE_SG). Both ports of a link do the same.
//!
//! Left out on purpose: sending on several queues; busy polling by socket option.

mod bind;
mod depth;
mod gather;
mod mode;
mod queue;
mod ring;
mod scatter;
mod socket;

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use crate::bpf::{Link, Program, SocketMap};
use crate::burst::{BURST_FRAMES, Burst};
use crate::interface::Interface;
use crate::packet_socket;
use crate::passed_on::{PassedAfXdp, PassedPort, take};
use crate::pool::{ChunkOctets, Pool};
use crate::port::{self, KernelSide, Port, PortCounters, PortError, all};
pub use bind::Attach;
use bind::{BoundSockets, UnboundPort, bind_all, failed};
use mode::{ReceiveMode, TransmitMode};
use socket::{RingSizes, Socket, WakeOutcome};

/// The most wake-ups of one call while the kernel says "again"; each sends 32 frames or more.
const MOST_WAKEUPS: usize = 8;
/// Turns without a frame between two looks at the sockets' errors.
const IDLE_TURNS: u32 = 64;

/// A port on AF_XDP sockets.
#[derive(Debug)]
pub struct AfXdp {
    // In the order of being dropped: first no more frames, then the sockets.
    link: Link,
    program: Program,
    map: SocketMap,
    promiscuous: OwnedFd,
    sockets: Vec<Socket>,
    receive: Vec<ReceiveMode>,
    /// Of the first socket.
    transmit: TransmitMode,
    descriptors: Vec<RawFd>,
    pool: u32,
    /// Places of the rings, and the most chunks of a direction of a socket.
    places: u32,
    depth: usize,
    interface: u32,
    native: bool,
    mtu: u32,
    /// The queue that the next burst begins with, for fairness.
    first_queue: usize,
    idle: u32,
    counters: PortCounters,
    description: String,
}

impl AfXdp {
    /// Recommended number of chunks of that size in a pool for these ports.
    pub fn chunks(interfaces: &[&Interface], chunk_octets: ChunkOctets) -> usize {
        depth::recommended(interfaces, chunk_octets)
    }

    /// Opens a port on each of the two interfaces of a link, as [`Self::open`] does.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_pair(
        plain: &Interface,
        protected: &Interface,
        pool: &mut Pool,
        attach: Attach,
    ) -> Result<(Self, Self), PortError> {
        let [plain, protected] = Self::open([plain, protected], pool, attach)?;
        Ok((plain, protected))
    }

    /// Opens a port on each of the interfaces, which are up, over one pool. From now on they are promiscuous and what they
    /// receive waits in the rings.
    ///
    /// # Errors
    /// If frames of an MTU do not fit a chunk, if the pool is too small, or if the kernel refuses. The pool is then
    /// as before.
    pub fn open<const N: usize>(
        interfaces: [&Interface; N],
        pool: &mut Pool,
        attach: Attach,
    ) -> Result<[Self; N], PortError> {
        for interface in interfaces {
            check_mtu(interface, pool)?;
        }
        let several = pool.chunk_octets().parts() > 1;
        let unbound = all(interfaces.map(|interface| UnboundPort::attach(interface, attach, several)))?;
        let generic = unbound.iter().any(|port| port.mode == "generic");
        let (bound, depth) = match bind_all(&unbound, pool, generic) {
            // Zero copy on one interface, and not on the other: all must do the same, as they share the region.
            Err(failed) if failed.zero_copy => {
                bind_all(&unbound, pool, true).map_err(|failed| failed.error)?
            }
            other => other.map_err(|failed| failed.error)?,
        };
        let mut bound = bound.into_iter();
        let mut ports = all(unbound.map(|port| {
            let bound = bound.next().expect("invariant: as many as unbound");
            Self::finish(port, bound, depth, pool)
        }))?;
        for port in &mut ports {
            port.housekeep(pool);
        }
        Ok(ports)
    }

    /// Puts the sockets to work.
    fn finish(
        port: UnboundPort<'_>,
        bound: BoundSockets,
        depth: usize,
        pool: &Pool,
    ) -> Result<Self, PortError> {
        let interface = port.interface;
        let zero_copy = bound.iter().any(|(socket, _)| socket.is_zero_copy());
        let (mut sockets, mut receive, mut transmit) = (Vec::new(), Vec::new(), None);
        let places = bound.first().map_or(0, |(_, rings)| rings.received.places());
        for (queue, (socket, rings)) in bound.into_iter().enumerate() {
            receive.push(ReceiveMode::new(rings.fill, rings.received, depth, pool));
            if let Some(frames) = rings.transmit {
                transmit = Some(TransmitMode::new(frames, rings.completion, depth, pool));
            }
            port.map
                .set(queue as u32, socket.owned())
                .map_err(|source| failed(interface, "put a socket into the XSKMAP", source))?;
            sockets.push(socket);
        }
        let promiscuous = packet_socket::open()
            .and_then(|socket| packet_socket::promiscuous(&socket, interface.index()).map(|()| socket))
            .map_err(|source| failed(interface, "make it promiscuous", source))?;
        let queues = sockets.len();
        Ok(Self {
            link: port.link,
            program: port.program,
            interface: interface.index(),
            native: port.mode == "native",
            map: port.map,
            promiscuous,
            places,
            depth,
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
                "af_xdp {}{}{}, {queues} queue{}",
                port.mode,
                if zero_copy { " zero-copy" } else { "" },
                if pool.chunk_octets().parts() > 1 { " multi-buffer" } else { "" },
                if queues == 1 { "" } else { "s" },
            ),
        })
    }

    /// Goes on with a port of the program before this one, over its pool: what it has received since waits in the rings.
    ///
    /// # Errors
    /// If it is on another interface, or the kernel refuses.
    pub fn go_on(passed: &PassedAfXdp, interface: &Interface, pool: &Pool) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "its port is another one");
        let PassedAfXdp { sockets, places, depth, in_flight, native, mtu, description, counters, .. } =
            passed;
        let (places, depth) = (*places, *depth);
        let counters = counters.as_slice().try_into().map_err(|_| invalid())?;
        let [link, program, map, promiscuous] = passed.descriptors;
        let is_fit = *mtu == interface.mtu()
            && !sockets.is_empty()
            && in_flight.len() == sockets.len() + 1
            && pool.chunk_octets().parts() == 1
            && places.is_power_of_two();
        if !is_fit {
            return Err(invalid());
        }
        let (link, program) = (Link::go_on(take(link)?), Program::go_on(take(program)?));
        let (map, promiscuous) = (SocketMap::go_on(take(map)?), take(promiscuous)?);
        let (mut bound, mut receive, mut transmit) = (Vec::new(), Vec::new(), None);
        for (queue, &descriptor) in sockets.iter().enumerate() {
            let sizes = RingSizes { receive: places, transmit: (queue == 0).then_some(places) };
            let (socket, rings) = Socket::go_on(take(descriptor)?, sizes)?;
            receive.push(ReceiveMode::go_on(rings.fill, rings.received, depth, in_flight[queue]));
            if let Some(frames) = rings.transmit {
                transmit =
                    Some(TransmitMode::go_on(frames, rings.completion, depth, in_flight[sockets.len()]));
            }
            bound.push(socket);
        }
        Ok(Self {
            link,
            program,
            map,
            promiscuous,
            descriptors: bound.iter().map(Socket::raw).collect(),
            sockets: bound,
            receive,
            transmit: transmit.ok_or_else(invalid)?,
            pool: pool.id(),
            places,
            depth,
            interface: interface.index(),
            native: *native,
            mtu: *mtu,
            first_queue: 0,
            idle: 0,
            counters: PortCounters::from_values(counters),
            description: description.clone(),
        })
    }

    fn check_pool(&self, pool: &Pool) {
        assert_eq!(pool.id(), self.pool, "invariant: a port keeps to the pool it was opened with");
    }

    /// Has the kernel send what is in the transmit ring. At most [`BURST_FRAMES`] + [`MOST_WAKEUPS`] system calls. False if the interface
    /// is down or gone.
    fn wake_transmit(&mut self) -> bool {
        let (mut again, mut dropped) = (0, 0);
        while again < MOST_WAKEUPS && dropped < BURST_FRAMES {
            let ring = self.transmit.ring();
            if !ring.needs_wakeup() || ring.pending() == 0 {
                return true;
            }
            match self.sockets[0].wake_transmit() {
                WakeOutcome::Done => return true,
                WakeOutcome::Again => again += 1,
                WakeOutcome::Dropped => {
                    dropped += 1;
                    self.counters.tx_kernel_dropped += 1;
                }
                WakeOutcome::Refused => return false,
            }
        }
        true
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
            self.sockets.iter().map(Socket::owned).for_each(packet_socket::clear_error);
        }
    }

    fn transmit(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        self.check_pool(pool);
        let PortCounters { tx_frames, tx_kernel_dropped, .. } = self.counters;
        if !self.transmit.has_room(burst.len()) {
            self.transmit.reclaim(pool, &mut self.counters);
        }
        self.transmit.transmit(pool, burst, self.mtu, &mut self.counters);
        if !self.wake_transmit() {
            return 0;
        }
        let taken = self.counters.tx_frames - tx_frames;
        taken.saturating_sub(self.counters.tx_kernel_dropped - tx_kernel_dropped) as usize
    }

    fn housekeep(&mut self, pool: &mut Pool) {
        self.check_pool(pool);
        if !self.transmit.is_idle() {
            self.wake_transmit();
            self.transmit.reclaim(pool, &mut self.counters);
        }
        for (side, socket) in self.receive.iter_mut().zip(&self.sockets) {
            if side.is_low() {
                side.refill(pool);
                if side.fill_ring().needs_wakeup() {
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

    fn pass_on(&mut self) -> Option<PassedPort> {
        let receive = self.receive.iter().map(ReceiveMode::in_flight);
        let in_flight = receive.chain([self.transmit.in_flight()]).collect::<Option<_>>()?;
        let program = self.program.borrowed().as_raw_fd();
        Some(PassedPort::AfXdp(PassedAfXdp {
            descriptors: [self.link.raw(), program, self.map.raw(), self.promiscuous.as_raw_fd()],
            sockets: self.descriptors.clone(),
            places: self.places,
            depth: self.depth,
            in_flight,
            native: self.native,
            mtu: self.mtu,
            description: self.description.clone(),
            counters: self.counters.values().to_vec(),
        }))
    }

    fn kernel_side(&self) -> io::Result<KernelSide> {
        let sockets = self.sockets.iter().map(|socket| socket.owned().try_clone());
        let sockets = sockets.collect::<io::Result<_>>()?;
        let program = self.program.borrowed().try_clone_to_owned()?;
        Ok(KernelSide {
            interface: self.interface,
            native: self.native,
            sockets,
            link: self.link.try_clone()?,
            program,
        })
    }
}

/// Whether this kernel has AF_XDP, and lets this process use it.
///
/// # Errors
/// The kernel's error if not.
pub fn available() -> io::Result<()> {
    socket::open().map(drop)
}

fn check_mtu(interface: &Interface, pool: &Pool) -> Result<(), PortError> {
    let overhead = port::longest_received(0);
    if interface.mtu() as usize + overhead <= pool.room() {
        return Ok(());
    }
    Err(PortError::MtuTooLarge {
        interface: interface.name().into(),
        engine: "AF_XDP with this pool",
        mtu: interface.mtu(),
        most: (pool.room() - overhead) as u32,
    })
}
