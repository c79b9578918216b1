//! A wire that can be bad: a relay in place of the middle's bridge, which loses, duplicates, corrupts and reorders.
//!
//! ```text
//!  gateway A            middle                      gateway B
//!  prot ---- left   ==== to right ====>   right ---- prot          bridge `wire`: down while the relay runs
//!                   <==== to left =====
//!
//!  one direction: receive up to 64 -> fate of each by its number -> hold back | corrupt | copy -> send in batches
//! ```
//!
//! A frame's fate follows from the seed, the direction and the frame's number in that direction alone
//! ([`Impairments`]), so the same traffic meets the same fate again. Time has one part in it only: frames held back
//! are let go when about 2 ms pass without traffic.
//!
//! Without impairments it is a wire, more so than the bridge: every frame passes unchanged and in order, MAC control
//! and frames to the middle's own addresses included, VLAN tags too. What it cannot pass is counted: frames longer
//! than the MTU + 14 (+ 4 behind 0x8100, not behind 0x88A8) are a `send_failed`. Only tagged frames that
//! end before the EtherType behind their tags never reach it: every kernel that receives one throws it away.
//!
//! Captures on [`LEFT`] and [`RIGHT`] see what comes in before the
//! relay and what goes out behind it; rate limits hold for what goes out. A refusal to send counts at the interface,
//! too, each attempt: leave `tx_dropped` of those two out of an account that has `send_failed` in it.
//!
//! Left out on purpose: delay and jitter beyond reordering, bursts of loss, changing impairments while it runs (stop
//! it and start another), memory-mapped rings (they need `unsafe`).

mod impairer;
mod socket;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::topology::{LEFT, RIGHT, WIRE};
use crate::{Error, Namespace, Task, Topology};
use impairer::Impairer;
pub use impairer::Impairments;
use socket::{Receiver, Sender, Socket};

/// Time for frames that arrived before a stop: longer than all that the kernel can hold takes.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Limit on the time of stopping.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Counters of one direction, since the start. Always `received + duplicated = forwarded + lost + send_failed` plus those
/// held back at this moment; behind a stop none are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    /// Frames read.
    pub received: u64,
    /// Frames sent, copies included.
    pub forwarded: u64,
    /// Frames lost on purpose.
    pub lost: u64,
    /// Frames sent twice. The copy is never corrupted nor held back, even if the frame itself is.
    pub duplicated: u64,
    /// Frames with one bit flipped.
    pub corrupted: u64,
    /// Frames held back behind later ones.
    pub reordered: u64,
    /// Frames, copies included, that the outgoing interface did not take: too long, down, or still full after 16
    /// attempts.
    pub send_failed: u64,
    /// Frames that arrived and were not read in time (PACKET_STATISTICS); not among `received`.
    pub kernel_dropped: u64,
}

/// Counters of the relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounters {
    /// From gateway A to gateway B.
    pub to_right: DirectionCounters,
    /// From gateway B to gateway A.
    pub to_left: DirectionCounters,
}

/// A running relay. Dropping it stops it and puts the bridge back.
#[derive(Debug)]
pub struct Relay<'t> {
    middle: &'t Namespace,
    stop: Arc<AtomicBool>,
    counters: [Arc<Shared>; 2],
    tasks: Vec<Task<Result<(), Error>>>,
    ended: bool,
}

#[derive(Debug, Default)]
struct Shared(Mutex<DirectionCounters>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, DirectionCounters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'t> Relay<'t> {
    /// Replaces the middle's bridge, with the same impairments both ways (the fates of the two ways differ all the
    /// same). Frames on their way while it starts may be lost uncounted.
    ///
    /// # Errors
    /// If the impairments make no sense, if a relay already runs, or if the system refuses.
    pub fn start(topology: &'t Topology, both: Impairments) -> Result<Relay<'t>, Error> {
        Relay::start_each_way(topology, both, both)
    }

    /// The same in any namespace with the ports [`LEFT`] and [`RIGHT`] and the bridge of a wire between them.
    ///
    /// # Errors
    /// As [`Relay::start`].
    pub fn across(
        middle: &'t Namespace,
        to_right: Impairments,
        to_left: Impairments,
    ) -> Result<Relay<'t>, Error> {
        let impairers = [Impairer::new(to_right, 0)?, Impairer::new(to_left, 1)?];
        if !middle.ip(&["-o", "link", "show", WIRE])?.stdout.contains("state UP") {
            let why = format!("bridge {WIRE} in {} is down: does a relay run there already?", middle.name());
            return Err(Error::Unexpected(why));
        }
        // From here on its drop puts the bridge up again.
        let mut relay = Relay {
            middle,
            stop: Arc::default(),
            counters: [Arc::default(), Arc::default()],
            tasks: Vec::new(),
            ended: false,
        };
        // Down first: what both the bridge and the relay forward would arrive twice.
        middle.ip(&["link", "set", WIRE, "down"])?;
        let left = Arc::new(Socket::open(middle, LEFT)?);
        let right = Arc::new(Socket::open(middle, RIGHT)?);
        let ways = [(Arc::clone(&left), Arc::clone(&right)), (right, left)];
        for (((from, to), impairer), counters) in ways.into_iter().zip(impairers).zip(&relay.counters) {
            let (stop, counters) = (Arc::clone(&relay.stop), Arc::clone(counters));
            let way = Way { from, to, impairer, counters, stop };
            relay.tasks.push(middle.spawn_thread(move || way.run())?);
        }
        Ok(relay)
    }

    /// The same, with impairments for each way.
    ///
    /// # Errors
    /// As [`Relay::start`].
    pub fn start_each_way(
        topology: &'t Topology,
        to_right: Impairments,
        to_left: Impairments,
    ) -> Result<Relay<'t>, Error> {
        Relay::across(&topology.middle, to_right, to_left)
    }

    /// Counters so far; `kernel_dropped` as of the last pause in the traffic.
    pub fn counters(&self) -> RelayCounters {
        let [to_right, to_left] = &self.counters;
        RelayCounters { to_right: *to_right.lock(), to_left: *to_left.lock() }
    }

    /// Waits until the counters are as `wanted`: before a stop, say, until all that was sent has been received.
    ///
    /// # Errors
    /// If they are not within `limit`; the message says how they are.
    pub fn wait_until(&self, limit: Duration, wanted: impl Fn(&RelayCounters) -> bool) -> Result<(), Error> {
        let end = Instant::now() + limit;
        loop {
            let counters = self.counters();
            if wanted(&counters) {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(Error::Deadline { what: format!("the relay stands at {counters:?}"), limit });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Passes on what has arrived and what is held back, ends, and puts the bridge back. Frames on their way between
    /// the one and the other are lost uncounted.
    ///
    /// # Errors
    /// If a direction failed while it ran, or the bridge cannot be put back.
    pub fn stop(mut self) -> Result<RelayCounters, Error> {
        self.end()?;
        Ok(self.counters())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.ended = true;
        self.stop.store(true, Ordering::Release);
        let mut outcomes: Vec<_> = self.tasks.drain(..).map(|task| task.join(STOP_LIMIT).flatten()).collect();
        outcomes.push(self.middle.ip(&["link", "set", WIRE, "up"]).map(drop));
        outcomes.into_iter().collect()
    }
}

impl Drop for Relay<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if let Err(error) = self.end() {
            eprintln!("the relay in {}: {error}", self.middle.name());
        }
    }
}

/// One direction, on its thread.
struct Way {
    from: Arc<Socket>,
    to: Arc<Socket>,
    impairer: Impairer,
    counters: Arc<Shared>,
    stop: Arc<AtomicBool>,
}

impl Way {
    fn run(mut self) -> Result<(), Error> {
        let (mut receiver, mut sender) = (Receiver::new(&self.from), Sender::new(&self.to));
        let (mut stopped, mut was_empty) = (None, false);
        loop {
            // Looked at before reading, so that what had arrived before the stop is read after it.
            let stopping = self.stop.load(Ordering::Acquire);
            // Only a direction that found nothing waits, and only one that found nothing thereafter is idle.
            if was_empty && !stopping {
                receiver.wait()?;
            }
            let frames = receiver.receive()?;
            let idle = frames.is_empty() && (was_empty || stopping);
            was_empty = frames.is_empty();
            let mut counters = *self.counters.lock();
            let mut leaving: Vec<Cow<'_, [u8]>> = Vec::new();
            for frame in frames {
                self.impairer.pass(frame, &mut leaving, &mut counters);
            }
            let since = stopping.then(|| *stopped.get_or_insert_with(Instant::now));
            let end = since.is_some_and(|since| idle || since.elapsed() > DRAIN_LIMIT);
            if idle || end {
                self.impairer.release_due(&mut leaving);
                counters.kernel_dropped += self.from.dropped()?;
            }
            let failed = sender.send(&leaving)?;
            counters.send_failed += failed;
            counters.forwarded += leaving.len() as u64 - failed;
            *self.counters.lock() = counters;
            if end {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InterfaceCounters, Shape};

    /// Best of five, offered more than it can take; nobody but a counter at the far end.
    #[test]
    #[ignore = "a measurement: cargo test --release -p frameward-lab relay::tests -- --ignored --nocapture"]
    fn frames_per_second() {
        let topology = Topology::build(&Shape::default()).unwrap();
        let bad =
            Impairments { seed: 1, loss: 0.01, duplicate: 0.01, corrupt: 0.01, reorder: 0.01, reorder_by: 8 };
        for (octets, offered, least) in [(64, 400_000, 200_000.0), (1514, 200_000, 50_000.0)] {
            for impairments in [Impairments::default(), bad] {
                let best =
                    (0..5).map(|_| measure(&topology, octets, offered, impairments)).fold(0.0, f64::max);
                println!("{octets} octets, loss {}: {best:.0} frames/s", impairments.loss);
                assert!(cfg!(debug_assertions) || best > least);
            }
        }
    }

    fn measure(topology: &Topology, octets: usize, offered: u64, impairments: Impairments) -> f64 {
        let relay = Relay::start(topology, impairments).unwrap();
        let far = || InterfaceCounters::read(&topology.gateway_b.namespace, "prot").unwrap().rx_frames;
        let (before, start) = (far(), Instant::now());
        let socket = Socket::open(&topology.gateway_a.namespace, "prot").unwrap();
        let burst = vec![Cow::Owned([&[2; 12][..], &[0x88, 0xB5], &vec![0; octets - 14]].concat()); 64];
        let mut sender = Sender::new(&socket);
        for _ in 0..offered / 64 {
            assert_eq!(sender.send(&burst).unwrap(), 0);
        }
        let sent = offered / 64 * 64;
        let all = |c: &RelayCounters| c.to_right.received + c.to_right.kernel_dropped == sent;
        relay.wait_until(Duration::from_secs(10), all).unwrap();
        let elapsed = start.elapsed();
        let way = relay.stop().unwrap().to_right;
        assert_eq!(way.received + way.kernel_dropped, sent);
        assert_eq!(way.received + way.duplicated, way.forwarded + way.lost + way.send_failed);
        assert_eq!(far() - before, way.forwarded);
        way.received as f64 / elapsed.as_secs_f64()
    }
}
