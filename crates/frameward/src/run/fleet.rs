//! The agent of a gateway in a fleet, as a thread of the gateway.
//!
//! ```text
//!  directory ◀──▶ fw-fleet ──reload, report──▶ main thread ──▶ workers, KaYs
//!                    └── CAP_IPC_LOCK alone; nobody waits for it
//! ```
//!
//! The thread asks as the control socket does, and the main thread never waits for it. So a directory that is silent, slow or
//! hostile costs the thread's time alone. If the thread fails it begins again after a minute. At the end of the gateway it is left where
//! it is: it may wait for an answer, and what it writes is whole at each moment.
//!
//! A gateway without a version waits for one ([`wait_for_version`]): it shows its status, and has no ports.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::control_handle::{self, ControlHandle, ControlRequest};
use super::report::without_links;
use super::supervisor::Supervisor;
use super::upgrade::{PassedFleet, Refused};
use super::{Asks, RunError, TICK};
use crate::fleet_agent::{
    Agent, GatewayToStart, NoGateway, NotReloaded, RunningGateway, Seen, Turns, UpgradeTurn,
};
use crate::membership::{Membership, OnBox};
use crate::privilege;
use report::control_socket::{Outcome, Reply, Request};
use report::{CountedReport, GatewayReport};

/// Pause before an agent that failed begins again.
const AGAIN: Duration = Duration::from_secs(60);
/// Stack of the thread. All memory is locked, so it is no larger than JSON and cryptography need.
const STACK: usize = 1 << 20;
const THREAD: &str = "fw-fleet";

impl RunningGateway for ControlHandle {
    fn report(&self) -> Result<Option<GatewayReport>, NoGateway> {
        Ok(ControlHandle::report(self).map(|counted| counted.report))
    }

    fn reload(&self) -> Result<Outcome, NotReloaded> {
        match self.request(Request::Reload { dry_run: false }) {
            Some(Reply::Done(lines)) => Ok(Outcome { done: true, lines }),
            Some(Reply::Refused(lines)) => Ok(Outcome { done: false, lines }),
            Some(Reply::Busy(why)) => Err(NotReloaded::Unknown(why)),
            _ => Err(NotReloaded::Unknown("the gateway did not reload in time; look at its log".to_owned())),
        }
    }

    fn begins_with_agent(&self) -> bool {
        true
    }

    fn end(&self, why: &str) {
        self.ask_to_end(why.to_owned());
    }
}

/// Fleet of a running gateway, as its main thread knows it.
pub(super) struct InFleet {
    /// The directory and the versions, as its agent has seen them.
    pub(super) seen: Seen,
    /// Turns of its agent; none without an agent.
    turns: Option<Turns>,
    /// Lock of its agent's state, open once more: its number stays, whatever becomes of the agent's thread.
    lock: Option<File>,
    /// The box's own configuration.
    pub(super) file: PathBuf,
    /// Words of that about its fleet at the start; none without an agent.
    on_box: Option<OnBox>,
}

impl InFleet {
    pub(super) fn of(membership: &Membership) -> Self {
        let Membership { seen, agent, file, .. } = membership;
        let agent = agent.as_ref().ok();
        let turns = agent.map(|agent| agent.turns.clone());
        // Without it the agent of the next program takes the lock anew.
        let lock = agent.and_then(|agent| agent.lock().try_clone().ok());
        let on_box = agent.map(Agent::on_box);
        Self { seen: seen.clone(), turns, lock, file: file.clone(), on_box }
    }

    /// Keeps the agent from changing anything while an upgrade is under way; none without an agent.
    pub(super) fn begin_upgrade(&self) -> Result<Option<UpgradeTurn>, Refused> {
        let Some(turns) = &self.turns else { return Ok(None) };
        match turns.upgrade() {
            None => {
                let why = "a version of its fleet is being taken over, or is on trial; ask again";
                Err(Refused::for_now(why))
            }
            turn => Ok(turn),
        }
    }

    /// State of it for the next program.
    pub(super) fn pass_on(&self) -> PassedFleet {
        let lock = self.lock.as_ref().map(File::as_raw_fd);
        PassedFleet { lock, seen: self.seen.report(), on_box: self.on_box.clone() }
    }
}

/// An agent that runs. It is told to end when this is dropped, and not waited for.
pub(super) struct RunningAgent(Arc<AtomicBool>);

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The agent of a membership. Without one the gateway runs on with what it has.
pub(super) fn agent(membership: Membership) -> Option<Agent> {
    let Membership { seen, agent, .. } = membership;
    agent
        .map_err(|why| {
            seen.ended(&why.to_string());
            error!(event = "fleet-agent-failed", "no agent follows the fleet: {why}");
        })
        .ok()
}

/// Starts the agent of the gateway that `handle` leads to.
pub(super) fn start(mut agent: Agent, handle: ControlHandle) -> Result<RunningAgent, RunError> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    spawn_with_less(move || {
        loop {
            // Parsers of others read what a directory answers. What a failed turn left is read again from the disk.
            if catch_unwind(AssertUnwindSafe(|| agent.run(&handle, &stopped))).is_ok() {
                return;
            }
            agent.seen.ended("it failed, and begins again within a minute; please report it");
            error!(event = "fleet-agent-failed", "the fleet's agent failed; it begins again in a minute");
            let since = Instant::now();
            while since.elapsed() < AGAIN {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(TICK);
            }
        }
    })?;
    Ok(RunningAgent(stop))
}

/// Starts a thread that has no right of the gateway's. If it cannot give them up it ends at once, with a panic that whoever joins it is told of.
///
/// # Errors
/// [`RunError::Thread`].
pub fn spawn_with_less<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RunError> {
    let with_less = move || {
        if let Err(why) = privilege::give_up_in_thread() {
            error!(event = "fleet-agent-failed", "{why}");
            std::panic::resume_unwind(Box::new(why));
        }
        body()
    };
    thread::Builder::new()
        .name(THREAD.to_owned())
        .stack_size(STACK)
        .spawn(with_less)
        .map_err(RunError::Thread)
}

/// Waits until the fleet has another version than the one in the folder, which there may be none of; no longer than `patience`, if it is
/// given. Says how it is meanwhile, and why no frame passes. The agent; none if the gateway is asked to stop first, or that time is over.
/// No thread of it has a right that its caller gives up later.
///
/// # Errors
/// [`RunError`].
pub fn wait_for_version(
    name: &str,
    agent: Agent,
    runtime_dir: &Path,
    patience: Option<Duration>,
    asks: &Asks,
) -> Result<Option<Agent>, RunError> {
    let (name, runtime_dir, asks) = (name.to_owned(), runtime_dir.to_owned(), asks.clone());
    let waiting = spawn_with_less(move || wait(&name, agent, &runtime_dir, patience, &asks))?;
    waiting
        .join()
        .unwrap_or_else(|_| Err(RunError::Fleet("the fleet's agent failed; please report it".into())))
}

fn wait(
    name: &str,
    mut agent: Agent,
    runtime_dir: &Path,
    patience: Option<Duration>,
    asks: &Asks,
) -> Result<Option<Agent>, RunError> {
    let (handle, asked) = control_handle::open();
    // An error of its socket may be that of the start, too: another version may be the cure.
    let server = control_handle::serve(name, runtime_dir, &handle, None)
        .map_err(|error| warn!(event = "fleet-waits", "nobody can ask this gateway while it waits: {error}"));
    let (seen, stop) = (agent.seen.clone(), Arc::new(AtomicBool::new(false)));
    let folder = agent.folder.clone();
    let to_start = GatewayToStart { unusable: folder.version(), folder, stop: Arc::clone(&stop) };
    let working = spawn_with_less(move || {
        agent.run(&to_start, &to_start.stop);
        agent
    })?;
    info!(
        event = "fleet-waits",
        "gateway {name} waits for a version of its fleet, and no frame passes: frameward status {name}"
    );
    let mut supervisor = Supervisor::ready();
    let since = Instant::now();
    let is_over = || patience.is_some_and(|patience| since.elapsed() > patience);
    while !asks.to_stop() && !working.is_finished() && !is_over() {
        if asks.take_reload() {
            warn!(
                event = "reload-refused",
                "nothing to reload: the gateway waits for a version of its fleet"
            );
        }
        supervisor.alive(Instant::now());
        match asked.wait(TICK) {
            Some(ControlRequest::Report(reply)) => {
                let report = report(name, &seen, since.elapsed());
                drop(reply.send(CountedReport { report, baseline: None }));
            }
            Some(ControlRequest::Request(Request::Status {}, reply)) => {
                drop(reply.send(Reply::Report(report(name, &seen, since.elapsed()))));
            }
            Some(ControlRequest::Request(_, reply)) => {
                drop(reply.send(Reply::Error("it waits for a version of its fleet".into())));
            }
            // Nobody asks that of a gateway that does not run yet.
            Some(ControlRequest::End(_)) | None => {}
        }
    }
    drop(asked);
    drop(server);
    if !working.is_finished() {
        // It is left where it is: the process ends.
        stop.store(true, Ordering::Relaxed);
        return Ok(None);
    }
    supervisor.goes_on();
    let agent =
        working.join().map_err(|_| RunError::Fleet("the fleet's agent failed; please report it".into()))?;
    Ok(Some(agent))
}

fn report(name: &str, seen: &Seen, up: Duration) -> GatewayReport {
    GatewayReport {
        fleet: Some(seen.report()),
        uptime_seconds: up.as_secs(),
        uptime_ms: up.as_millis() as u64,
        ..without_links(name)
    }
}
