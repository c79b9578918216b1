//! A bare forwarder: the engine's ports with nothing between them, as the limit of what a gateway can reach with them.
//!
//! It takes a burst from one port and gives it to the other, and sleeps like a worker does. No classification, no
//! SecY, no control: whatever a gateway that protects nothing does more slowly is the cost of its path.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engine::burst::Burst;
use engine::interface::Prepared;
use engine::link::Ports;
use engine::open::{Io, OpenPorts, open_ports};
use engine::pool::Pool;
use engine::port::Port;
use engine::wake;
use engine::worker::SPIN;
use lab::cpu::{self, Runner};
use lab::topology::{Gateway, PLAIN, PROTECTED};
use lab::{Error, Task};

/// How long it may take to open its ports, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest sleep, after which it looks whether it is to stop.
const SLEEP: Duration = Duration::from_millis(100);

/// A running forwarder: a thread of this process in a gateway's namespace.
#[derive(Debug)]
pub(crate) struct Forwarder {
    task: Task<Result<(), Error>>,
    stop: Arc<AtomicBool>,
    runner: Runner,
}

impl Forwarder {
    /// Starts one between a gateway's ports; `records` is where the interfaces' state is kept meanwhile.
    pub(crate) fn start(gateway: &Gateway, io: Io, records: PathBuf) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, opened) = mpsc::channel();
        let task = gateway.namespace.spawn_thread({
            let stop = Arc::clone(&stop);
            move || {
                let failed =
                    |error: &dyn std::fmt::Display| Error::Unexpected(format!("bare forwarder: {error}"));
                let prepare = |name| Prepared::named(name, &records).map_err(|error| failed(&error));
                let (plain, protected) = (prepare(PLAIN)?, prepare(PROTECTED)?);
                let ports = open_ports([&plain, &protected], io).map_err(|error| failed(&error))?;
                // The starter waits for it below.
                let _ = ready.send(cpu::own_thread());
                forward(ports, &stop).map_err(|error| failed(&error))?;
                plain.restore().and(protected.restore()).map_err(|error| failed(&error))
            }
        })?;
        match opened.recv_timeout(PATIENCE) {
            Ok(runner) => Ok(Self { task, stop, runner }),
            Err(_) => Err(task
                .join(PATIENCE)?
                .err()
                .unwrap_or_else(|| Error::Unexpected("bare forwarder: it ended before it began".into()))),
        }
    }

    /// Whose CPU time is its own.
    pub(crate) const fn runner(&self) -> Runner {
        self.runner
    }

    /// Ends it; its interfaces are then as they were.
    pub(crate) fn stop(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.join(PATIENCE)?
    }
}

fn forward(opened: OpenPorts, stop: &AtomicBool) -> io::Result<()> {
    let Ports { mut pool, mut plain, mut protected } = opened.ports;
    let (_waker, mut waiter) = wake::pair()?;
    waiter.watch([&plain, &protected].into_iter().flat_map(|port| port.poll_descriptors().iter().copied()));
    let mut burst = Burst::new();
    let mut last_frame = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let outward = pass(&mut *plain, &mut *protected, &mut pool, &mut burst);
        let inward = pass(&mut *protected, &mut *plain, &mut pool, &mut burst);
        plain.housekeep(&mut pool);
        protected.housekeep(&mut pool);
        if outward + inward > 0 {
            last_frame = Instant::now();
        } else if last_frame.elapsed() < SPIN {
            std::thread::yield_now();
        } else {
            waiter.wait(SLEEP);
            last_frame = Instant::now();
        }
    }
    Ok(())
}

/// Moves a burst, and returns how many frames it had.
fn pass(from: &mut dyn Port, to: &mut dyn Port, pool: &mut Pool, burst: &mut Burst) -> usize {
    from.receive(pool, burst);
    let received = burst.len();
    if received > 0 {
        to.transmit(pool, burst);
    }
    received
}
