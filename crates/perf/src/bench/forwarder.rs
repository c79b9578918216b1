//! A bare forwarder: the engine's ports with nothing between them, as the limit of what a gateway can reach with them.
//!
//! It takes a burst from one port and gives it to the other, and sleeps like a worker does. No classification, no
//! SecY, no control: whatever a gateway that protects nothing does more slowly is the cost of its path. It is a process
//! of its own, as a gateway is: a thread of the bench would share memory with the traffic generator's threads.
//!
//! Frames leave in clear. So it takes no interface names, but has those of the laboratory, and runs only in a
//! namespace that the process which started it has made.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dataplane::link::Ports;
use dataplane::open::{Io, OpenError, OpenPorts, open_ports};
use dataplane::worker::{IdleAction, IdlePolicy, Polling};
use lab::topology::{PLAIN, PROTECTED};
use lab::{Error, Namespace, Program};
use netdev::burst::Burst;
use netdev::interface::{InterfaceError, Prepared, Tolerated};
use netdev::pool::Pool;
use netdev::port::Port;
use netdev::scheduling::Scheduling;
use netdev::wake::{self, Waiter};
use xdp::XdpError;
use xdp::redirect::Redirect;

use super::link::in_kernel;

/// Limit on the time that it takes to open its ports, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest sleep. Nothing depends on it: frames and the end of standard input wake it.
const SLEEP: Duration = Duration::from_millis(100);
/// The command that runs one.
pub const COMMAND: &str = "bare-forwarder";
/// Line that it prints when it forwards.
const READY: &str = "forwards in clear";

/// A running forwarder in a gateway's namespace.
#[derive(Debug)]
pub(crate) struct Forwarder(Program);

impl Forwarder {
    /// Starts one between a gateway's ports; `records` is where the interfaces' state is kept meanwhile.
    pub(crate) fn start(lab: &Path, namespace: &Namespace, io: Io, records: &Path) -> Result<Self, Error> {
        Self::start_as(lab, namespace, if io == Io::AfPacket { "af_packet" } else { "af_xdp" }, records)
    }

    /// Starts one that is a program in the drivers. The other ends of both wires have to take redirected frames.
    pub(crate) fn start_in_kernel(lab: &Path, namespace: &Namespace, records: &Path) -> Result<Self, Error> {
        Self::start_as(lab, namespace, "xdp", records)
    }

    /// Starts one that is a link in the kernel, in the first box or the second, with or without keystream made ahead.
    pub(crate) fn start_link(
        lab: &Path,
        namespace: &Namespace,
        end: usize,
        ahead: bool,
        records: &Path,
    ) -> Result<Self, Error> {
        let ends = if ahead { ["link-ahead-a", "link-ahead-b"] } else { ["link-a", "link-b"] };
        Self::start_as(lab, namespace, ends[end], records)
    }

    fn start_as(lab: &Path, namespace: &Namespace, io: &str, records: &Path) -> Result<Self, Error> {
        let (lab, records) = (lab.display().to_string(), records.display().to_string());
        let mut program = namespace.spawn_held(&[&lab, COMMAND, io, &records])?;
        program.wait_for_line(READY, PATIENCE)?;
        Ok(Self(program))
    }

    /// Its process identifier.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends it; its interfaces are then as they were.
    pub(crate) fn stop(self) -> Result<(), Error> {
        let output = self.0.release(PATIENCE)?;
        if output.status.success() {
            return Ok(());
        }
        let last = output.stderr.lines().last().unwrap_or_default();
        Err(Error::Unexpected(format!("a bare forwarder ended with {}: {last}", output.status)))
    }
}

/// Why a forwarder failed.
#[derive(Debug, thiserror::Error)]
pub enum ForwarderError {
    /// It was not started by a bench.
    #[error(
        "{COMMAND} sends everything in clear and is no gateway: it runs only in a network namespace of \
         `frameward-lab bench`, started by it; for a gateway see `frameward run --help`"
    )]
    NoBench,
    /// An interface cannot be used.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The ports cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel does not take a program.
    #[error(transparent)]
    Program(#[from] XdpError),
    /// The system refused something.
    #[error("{COMMAND}: {0}")]
    System(#[from] io::Error),
}

/// Forwards between the laboratory's [`PLAIN`] and [`PROTECTED`] in this namespace until standard input ends; says on
/// standard output when it begins. The interfaces are then as they were; `records` is where their state is kept.
///
/// # Errors
/// [`ForwarderError::NoBench`] anywhere but in a namespace that the parent process made for a laboratory; and the first
/// thing that fails.
pub fn run(io: Io, records: &Path) -> Result<(), ForwarderError> {
    if !Namespace::parent_made_this() {
        return Err(ForwarderError::NoBench);
    }
    let prepare = |name| Prepared::named(name, records, Tolerated::default());
    let (plain, protected) = (prepare(PLAIN)?, prepare(PROTECTED)?);
    let ports = open_ports([&plain, &protected], io)?;
    let (waker, waiter) = wake::pair()?;
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            // Whether it ends or fails, nobody holds it any more.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            stop.store(true, Ordering::Relaxed);
            waker.wake();
        }
    });
    writeln!(io::stdout(), "{READY}")?;
    forward(ports, waiter, &stop);
    plain.restore().and(protected.restore())?;
    Ok(())
}

/// The same by a program in both drivers that redirects every frame to the other one: no port, and nothing of the engine.
///
/// # Errors
/// As [`run`].
pub fn redirect(records: &Path) -> Result<(), ForwarderError> {
    if !Namespace::parent_made_this() {
        return Err(ForwarderError::NoBench);
    }
    let prepare = |name| Prepared::named(name, records, Tolerated::default());
    let (plain, protected) = (prepare(PLAIN)?, prepare(PROTECTED)?);
    let redirect = Redirect::attach(plain.interface().index(), protected.interface().index())?;
    hold(redirect)?;
    plain.restore().and(protected.restore())?;
    Ok(())
}

/// The same by the programs of a link, which protect and verify every frame under a key that everybody knows.
///
/// # Errors
/// As [`run`].
pub fn protect(end: usize, ahead: bool, records: &Path) -> Result<(), ForwarderError> {
    if !Namespace::parent_made_this() {
        return Err(ForwarderError::NoBench);
    }
    let prepare = |name| Prepared::named(name, records, Tolerated::default());
    let (plain, protected) = (prepare(PLAIN)?, prepare(PROTECTED)?);
    let mut link = in_kernel::end(end, |link| if ahead { link.keep_filling(|| ()) } else { Ok(()) })?;
    link.attach(plain.interface().index(), protected.interface().index())?;
    hold(link)?;
    plain.restore().and(protected.restore())?;
    Ok(())
}

/// Keeps programs at work until standard input ends.
fn hold<T>(programs: T) -> io::Result<()> {
    writeln!(io::stdout(), "{READY}")?;
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    drop(programs);
    Ok(())
}

fn forward(opened: OpenPorts, mut waiter: Waiter, stop: &AtomicBool) {
    let Ports { mut pool, mut plain, mut protected } = opened.ports;
    waiter.watch([&plain, &protected].into_iter().flat_map(|port| port.poll_descriptors().iter().copied()));
    let mut burst = Burst::new();
    let mut idle = IdlePolicy::new(Polling::default(), Scheduling::default());
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        idle.begin(now);
        let outward = pass(&mut *plain, &mut *protected, &mut pool, &mut burst);
        let inward = pass(&mut *protected, &mut *plain, &mut pool, &mut burst);
        plain.housekeep(&mut pool);
        protected.housekeep(&mut pool);
        if outward + inward > 0 {
            idle.busy(true);
            continue;
        }
        match idle.idle(now) {
            IdleAction::Look => std::hint::spin_loop(),
            IdleAction::Yield => {
                idle.yields(Instant::now());
                std::thread::yield_now();
            }
            IdleAction::Sleep => {
                waiter.wait(SLEEP);
                idle.slept();
            }
        }
    }
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
