//! Two ports of any engine, with a loop that forwards between them as a worker does.

#![allow(unsafe_code, dead_code, unreachable_pub, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use netdev::af_packet::AfPacket;
use netdev::af_xdp::{AfXdp, Attach};
use netdev::burst::Burst;
use netdev::interface::Interface;
use netdev::passed_on::{PassedPort, pass_on};
use netdev::pool::{ChunkOctets, Pool};
use netdev::port::{Port, PortError};

use crate::netns::{Machine, PATIENCE};

/// Engine under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    AfPacket,
    Native,
    Generic,
}

pub const ENGINES: [Engine; 3] = [Engine::AfPacket, Engine::Native, Engine::Generic];

/// The ports on interfaces `plain` and `protected`, and their pool.
pub struct Forwarder {
    pub ports: [Box<dyn Port>; 2],
    pub pool: Pool,
    burst: Burst,
}

impl Forwarder {
    pub fn open(engine: Engine) -> Self {
        Self::try_open(engine, ChunkOctets::Octets2048).unwrap()
    }

    pub fn try_open(engine: Engine, chunk_octets: ChunkOctets) -> Result<Self, PortError> {
        let interfaces = ["plain", "protected"].map(|name| Interface::open(name).unwrap());
        let [plain, protected] = &interfaces;
        let mut pool = Pool::new(chunk_octets, AfXdp::chunks(&[plain, protected], chunk_octets)).unwrap();
        let mut xdp = |attach| {
            let (first, second) = AfXdp::open_pair(plain, protected, &mut pool, attach)?;
            Ok::<[Box<dyn Port>; 2], PortError>([Box::new(first), Box::new(second)])
        };
        let ports: [Box<dyn Port>; 2] = match engine {
            Engine::Native => xdp(Attach::Native)?,
            Engine::Generic => xdp(Attach::Generic)?,
            Engine::AfPacket => {
                [Box::new(AfPacket::open(plain, &pool)?), Box::new(AfPacket::open(protected, &pool)?)]
            }
        };
        Ok(Self { ports, pool, burst: Burst::new() })
    }

    /// The same in the next program: execve leaves descriptors open and takes all memory.
    pub fn go_on(mut self, interfaces: &[Interface; 2]) -> Self {
        let pool = self.pool.pass_on().unwrap();
        let passed = self.ports.each_mut().map(|port| port.pass_on().unwrap());
        std::mem::forget(self);
        let descriptors = passed.iter().flat_map(PassedPort::descriptors).chain([pool.file]);
        pass_on(&descriptors.collect::<Vec<_>>(), true).unwrap();
        let pool = Pool::go_on(&pool).unwrap();
        let port = |passed: &PassedPort, interface: &Interface| -> Box<dyn Port> {
            match passed {
                PassedPort::AfPacket(passed) => Box::new(AfPacket::go_on(passed, interface, &pool).unwrap()),
                PassedPort::AfXdp(passed) => Box::new(AfXdp::go_on(passed, interface, &pool).unwrap()),
            }
        };
        let ports = [port(&passed[0], &interfaces[0]), port(&passed[1], &interfaces[1])];
        Self { ports, pool, burst: Burst::new() }
    }

    /// One turn of a worker; how many frames it forwarded. `look` sees each frame.
    pub fn turn(&mut self, mut look: impl FnMut(&[u8], usize)) -> usize {
        let mut forwarded = 0;
        for direction in 0..2 {
            self.ports[direction].receive(&mut self.pool, &mut self.burst);
            forwarded += self.burst.len();
            for slot in self.burst.slots() {
                look(self.pool.frame(slot), slot.start());
            }
            if !self.burst.is_empty() {
                self.ports[1 - direction].transmit(&mut self.pool, &mut self.burst);
            }
            assert!(self.burst.is_empty());
        }
        for port in &mut self.ports {
            port.housekeep(&mut self.pool);
        }
        forwarded
    }

    /// Forwards one frame from `plain`, changed: `change` writes another into its chunk and says where it stands.
    pub fn forward_changed(&mut self, mut change: impl FnMut(&mut [u8]) -> (usize, usize)) {
        let deadline = Instant::now() + PATIENCE;
        while self.burst.is_empty() && Instant::now() < deadline {
            self.wait(Duration::from_millis(20));
            self.ports[0].receive(&mut self.pool, &mut self.burst);
        }
        assert_eq!(self.burst.len(), 1);
        for view in self.pool.views(self.burst.slots_mut()) {
            (*view.start, *view.len) = change(view.chunk);
        }
        self.ports[1].transmit(&mut self.pool, &mut self.burst);
        self.ports.iter_mut().for_each(|port| port.housekeep(&mut self.pool));
    }

    /// Waits until a port has something, at most so long.
    pub fn wait(&self, patience: Duration) {
        let mut descriptors: Vec<libc::pollfd> = self
            .ports
            .iter()
            .flat_map(|port| port.poll_descriptors())
            .map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        // SAFETY: as many entries as said.
        unsafe {
            libc::poll(
                descriptors.as_mut_ptr(),
                descriptors.len() as libc::nfds_t,
                patience.as_millis() as i32,
            )
        };
    }

    /// Forwards until so many frames have gone over, or patience ends; how many did.
    pub fn forward(&mut self, frames: usize, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        let mut forwarded = 0;
        while forwarded < frames && Instant::now() < deadline {
            let now = self.turn(|_, start| assert!(start >= 64, "a headroom of {start}"));
            if now == 0 {
                self.wait(Duration::from_millis(20));
            }
            forwarded += now;
        }
        forwarded
    }

    /// Forwards until nothing has come for a while.
    pub fn drain(&mut self) {
        while self.forward(1, Duration::from_millis(100)) > 0 {}
    }

    /// Every chunk is free or in a ring.
    pub fn assert_no_chunk_lost(&self) {
        assert_eq!(self.pool.free() + self.pool.in_flight(), self.pool.total());
    }
}

/// Sends frames both ways through the ports and checks each octet and the counters.
pub fn exchange(forwarder: &mut Forwarder, frames: &[Vec<u8>]) {
    let machines = [Machine::on("a0"), Machine::on("b0")];
    for batch in frames.chunks(200) {
        for direction in 0..2 {
            batch.iter().for_each(|frame| machines[direction].send(frame));
            assert_eq!(forwarder.forward(batch.len(), PATIENCE), batch.len(), "to {direction}");
            for frame in batch {
                let seen = machines[1 - direction].receive(PATIENCE).expect("a frame that was forwarded");
                assert!(
                    seen == *frame,
                    "{} octets: {:x?}... is not {:x?}...",
                    frame.len(),
                    &seen[..seen.len().min(64)],
                    &frame[..frame.len().min(64)]
                );
            }
        }
    }
    let octets: usize = frames.iter().map(Vec::len).sum();
    for port in &mut forwarder.ports {
        let counters = port.counters();
        let expected = netdev::port::PortCounters {
            rx_frames: frames.len() as u64,
            rx_octets: octets as u64,
            tx_frames: frames.len() as u64,
            tx_octets: octets as u64,
            ..Default::default()
        };
        assert_eq!(counters, expected, "{}", port.description());
    }
    forwarder.assert_no_chunk_lost();
}
