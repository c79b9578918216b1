//! `run`: from a configuration to forwarding links, and back to a machine as it was.
//!
//! ```text
//!  main thread     starts everything, then: leases, notices, reports, until it is told to stop
//!  fw-worker-N     move frames (engine::worker)
//!  status          answers on the status socket; asks the main thread for figures
//! ```
//!
//! Order of a start: state directory, how fast the cipher suites are here, MTUs, leases, interfaces, ports, workers,
//! status socket. Frames flow only when all of it stands; whatever fails before leaves nothing behind.

mod link;
mod report;
mod supervisor;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use engine::control::{Gateway, Notice};
use engine::interface::{InterfaceError, Prepared};
use engine::lease::{LeaseError, LeaseStore};
use engine::open::OpenError;
use engine::worker;

use crate::check::{interface_mtu, link_mtus};
use crate::config::{Config, Finding, Polling};
use crate::privilege;
use crate::report::{GatewayReport, ReportServer, ServeError};
use crate::suite_speed::{self, Advice, SuiteSpeeds};
use link::StartedLink;
use supervisor::Supervisor;

/// How often the main thread looks at what workers ask for. At 1.5 million frames a second half a block of PNs
/// lasts 350 ms.
const TICK: Duration = Duration::from_millis(20);

/// How long the status thread waits for figures before it answers without links.
const REPORT_WAIT: Duration = Duration::from_secs(3);

/// Why a gateway does not run, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration does not fit this machine.
    #[error("{}", Lines(.0))]
    Configuration(Vec<Finding>),
    /// The state directory cannot be used.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A static key has no PNs left.
    #[error("link {link:?}: the static key has no packet numbers left; change the key at both ends")]
    PnExhausted {
        /// The link.
        link: String,
    },
    /// An interface or a port cannot be used.
    #[error("link {link:?}: {source}")]
    Open {
        /// The link.
        link: String,
        /// Why.
        source: OpenError,
    },
    /// An interface cannot be put back.
    #[error(transparent)]
    Restore(#[from] InterfaceError),
    /// The status socket cannot be made.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// `realtime = "on"`, and something is not granted.
    #[error("{0}")]
    NotGranted(String),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}; raise the limit of tasks")]
    Thread(io::Error),
    /// Workers have ended: their links forward nothing.
    #[error("a worker has ended, so nothing is forwarded on {}; this is a defect of frameward: please report it", .0.join(", "))]
    WorkerEnded(Vec<String>),
}

struct Lines<'f>(&'f [Finding]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

/// What the status thread asks the main thread: a report, to be sent back.
type ReportRequest = Sender<GatewayReport>;

/// Runs the gateway until `stop` is set. `tell` gets each line that a person should read.
///
/// # Errors
/// [`RunError`]; interfaces are put back as they were in any case.
pub fn run(
    config: &Config,
    runtime_dir: &Path,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(&dyn fmt::Display),
) -> Result<(), RunError> {
    let started = Instant::now();
    let wished = &config.gateway;
    let (scheduling, privileges) =
        privilege::ask(wished.realtime, wished.polling, config.links.len()).map_err(RunError::NotGranted)?;
    for (what, grant) in privileges.named() {
        tell(&format_args!("{what}: {grant}"));
    }
    let mut leases = LeaseStore::open(&config.gateway.state)?;
    Prepared::restore_stale(&config.gateway.state)?;
    // Before any interface is touched: frames would wait for it.
    let suite_speeds = suite_speed::measure();
    let mut links = Vec::new();
    for link in &config.links {
        let mtus = link_mtus(config, link, &interface_mtu).map_err(RunError::Configuration)?;
        let started = StartedLink::start(&config.gateway, link, mtus, &mut leases)?;
        started.announce(link, tell);
        links.push(started);
    }
    let mut told = Vec::new();
    let mut running = Vec::new();
    let mut prepared = Vec::new();
    for (link, StartedLink { link: forwarding, lease, about, prepared: interfaces, .. }) in
        config.links.iter().zip(links)
    {
        running.push((link.name.clone(), forwarding, lease));
        told.push(about);
        prepared.extend(interfaces);
    }
    let gateway =
        Gateway::start(running, leases, polling(config.gateway.polling)).map_err(RunError::Thread)?;
    if let Err(error) = gateway.schedule(scheduling) {
        gateway.stop();
        return Err(RunError::NotGranted(format!("workers cannot be scheduled in real time: {error}")));
    }
    let (requests, asked) = mpsc::channel();
    let server = serve(config, runtime_dir, requests);
    let outcome = match server {
        Err(error) => {
            gateway.stop();
            Err(error.into())
        }
        Ok(server) => {
            advise(config, &suite_speeds, tell);
            tell(&format_args!("gateway {} is running: frameward status {0}", config.gateway.name));
            let reporter = report::Reporter { config, started, about: told, privileges, suite_speeds };
            let outcome = forward(gateway, &reporter, &asked, stop, tell);
            // No request may wait for the main thread any more.
            drop(asked);
            drop(server);
            outcome
        }
    };
    let restored = prepared.into_iter().map(Prepared::restore).fold(Ok(()), Result::and);
    outcome.and(restored.map_err(RunError::from))
}

/// Says how fast the cipher suites are here, and for which links another one is worth a thought.
fn advise(config: &Config, speeds: &SuiteSpeeds, tell: &mut dyn FnMut(&dyn fmt::Display)) {
    tell(&format_args!("cipher suites, {speeds}"));
    for link in &config.links {
        let advice = Advice::new(speeds, link.suite);
        if advice.is_to_change() {
            tell(&format_args!("link {:?}: {advice}", link.name));
        }
    }
}

/// The main thread's loop.
fn forward(
    mut gateway: Gateway,
    reporter: &report::Reporter<'_>,
    asked: &Receiver<ReportRequest>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&dyn fmt::Display),
) -> Result<(), RunError> {
    let mut outcome = Ok(());
    let mut supervisor = Supervisor::ready();
    while !stop.load(Ordering::Relaxed) && outcome.is_ok() {
        match asked.recv_timeout(TICK) {
            // Who asked may have gone.
            Ok(reply) => drop(reply.send(reporter.report(&mut gateway))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
        }
        let now = Instant::now();
        supervisor.alive(now);
        for notice in gateway.turn(now) {
            match notice {
                Notice::WorkerEnded { links } => outcome = Err(RunError::WorkerEnded(links)),
                other => tell(&Told(&other)),
            }
        }
    }
    drop(supervisor);
    gateway.stop();
    outcome
}

fn serve(
    config: &Config,
    runtime_dir: &Path,
    requests: Sender<ReportRequest>,
) -> Result<ReportServer, ServeError> {
    let nothing = report::without_links(config);
    ReportServer::start(runtime_dir, &config.gateway.name, move || {
        let (reply, answer) = mpsc::channel();
        // While it starts or stops there are no figures.
        let asked = requests.send(reply).ok();
        asked.and_then(|()| answer.recv_timeout(REPORT_WAIT).ok()).unwrap_or_else(|| nothing.clone())
    })
}

const fn polling(polling: Polling) -> worker::Polling {
    match polling {
        Polling::Adaptive => worker::Polling::Adaptive,
        Polling::Busy => worker::Polling::Busy,
        Polling::Interrupt => worker::Polling::Interrupt,
    }
}

/// A notice as a line for a person.
struct Told<'n>(&'n Notice);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Notice::ChangeKeySoon { link } => write!(
                f,
                "warning: link {link:?}: three quarters of the key's packet numbers are used; change the key at both ends"
            ),
            Notice::PnExhausted { link } => write!(
                f,
                "error: link {link:?}: all packet numbers of the key are used, so nothing is sent; change the key at both ends"
            ),
            Notice::LeaseFailed { link, error } => write!(f, "error: link {link:?}: {error}"),
            Notice::WorkerEnded { links } => write!(f, "error: a worker has ended: {}", links.join(", ")),
        }
    }
}
