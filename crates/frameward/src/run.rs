//! `run`: from a configuration to forwarding links, and back to a machine as it was.
//!
//! ```text
//!  main thread     starts everything, then: leases, notices, reports, interfaces, until it is told to stop
//!  fw-worker-N     move frames (dataplane::worker)
//!  fw-disk         leases and replay floors (control): the main thread waits for no disk
//!  fw-interfaces   looks at interfaces (interface_looks.rs)
//!  fw-settings     changes their settings, and records them (interface_settings.rs)
//!  fw-records      opens records of KaYs (interface_settings.rs)
//!  fw-config       reads configuration and keys for a reload (reload/request.rs)
//!  fw-log          writes the log (crate::log): nor for whoever reads it
//!  fw-site-NAME    a site's management channel (sitelink); fw-watch-NAME starts it anew if it fails
//!  fw-record       writes what a KaY was told, if configured (diagnosis::kay_log)
//!  fw-fleet        follows the fleet's directory (crate::fleet_agent), if configured; asks the main thread
//!  control         answers on the control socket (report::control_socket); asks the main thread
//!  http            the same over HTTP, if configured (crate::http)
//! ```
//!
//! `start.rs` has the order of a start.

mod agreement;
mod asked_thread;
mod carrier_loss;
mod cell;
mod control_handle;
mod fleet;
mod interface_looks;
mod interface_settings;
mod interface_watch;
mod kernel_programs;
mod link;
mod reload;
mod report;
mod restored;
mod signals;
pub(crate) mod site;
mod start;
mod static_keys;
mod supervisor;
mod surface;
mod upgrade;
mod verdicts;

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use control::{Gateway, KernelPrograms, LinkPlace, Notice};
use dataplane::open::OpenError;
use dataplane::worker;
use netdev::interface::InterfaceError;
use pnstore::LeaseError;
use tracing::{error, info, warn};

use crate::http::Listening;
use crate::log::Log;
use crate::membership::Membership;
use ::report::control_socket::{Reply, Request, ServeError};
use ::report::{Baseline, GatewayReport, PrivilegeReport, ReloadReport, UpgradeReport};
use cell::CellNews;
pub use cell::planned_cell_place;
use config::suite_speed::{Advice, Antedating, SuiteSpeeds};
use config::{Config, Finding, Keys, Outline, Polling};
use control_handle::{ControlRequest, RequestQueue};
use fleet::InFleet;
pub use fleet::{spawn_with_less, wait_for_version};
use interface_settings::{InterfaceSettings, OwnInterface};
use interface_watch::InterfaceMonitor;
pub use kernel_programs::load_programs;
use link::RunningLink;
pub use link::planned_link_place;
use reload::ReloadRequests;
use restored::Machine;
pub use signals::{Asks, block_signals, unblock_signals};
use site::RunningSite;
pub use site::programs::SitePrograms;
use supervisor::Supervisor;
use surface::Surface;
use tunnel::standby::DRAIN;
pub use upgrade::{JUDGING, Passed, installed, judge, take_passed};
use verdicts::Verdicts;

/// Interval between the main thread's looks at workers' requests. At 1.5 million frames a second half a block of PNs
/// lasts 350 ms, and half of the first one 22 ms.
const TICK: Duration = Duration::from_millis(20);
/// Limit on a stop's wait for interfaces, all together.
const LONGEST_STOP: Duration = Duration::from_secs(60);
/// The same if the disk has not answered.
const SILENT_STOP: Duration = Duration::from_secs(2);

/// Why a gateway does not run, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration does not fit this machine.
    #[error("{}", Lines(.0))]
    Configuration(Vec<Finding>),
    /// The state directory cannot be used.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Static keys were used for something else before.
    #[error("{}", Lines(.0))]
    Misused(Vec<Finding>),
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
    /// The inputs of a KaY cannot be recorded.
    #[error("{0}")]
    Record(String),
    /// A site cannot be started.
    #[error("{0}")]
    Site(String),
    /// An interface cannot be put back.
    #[error(transparent)]
    Restore(#[from] InterfaceError),
    /// The control socket cannot be made.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// `realtime = "on"`, and something is not granted.
    #[error("{0}")]
    NotGranted(String),
    /// A link's cell cannot be.
    #[error("link {link:?}: its fieldbus: {why}")]
    Cell {
        /// The link.
        link: String,
        /// Why.
        why: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}; raise the limit of tasks")]
    Thread(io::Error),
    /// Keys in memory were used since.
    #[error(
        "this virtual machine returned to an earlier state, so the gateway ends: its keys and packet numbers may have been used since. Start it again: it agrees on new keys"
    )]
    Restored,
    /// Keys in memory, and static keys, were used since; and the error, if that could not be noted.
    #[error(
        "this virtual machine returned to an earlier state, so the gateway ends: its keys and packet numbers may have been used since. Change all static keys at both ends before you start it again{}",
        .0.as_ref().map(|error| format!(" ({error}, so a start will not refuse the old ones)")).unwrap_or_default()
    )]
    RestoredStatic(Option<LeaseError>),
    /// State that the program before has passed on cannot be used.
    #[error("cannot go on with the running gateway: {0}; start it again")]
    PassedOn(String),
    /// The agent of its fleet does not run, or has the gateway end.
    #[error("{0}")]
    Fleet(String),
    /// The kernel is demanded for a link's frames, and cannot be had.
    #[error("{0}")]
    LinkPlace(String),
    /// Workers have ended: their links forward nothing.
    #[error("a worker has ended, so {} forwards nothing; this is a defect of Frameward: please report it", .0.join(", "))]
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

impl RunError {
    /// True if this configuration never starts on this box: it has to be another one.
    pub const fn is_of_configuration(&self) -> bool {
        matches!(
            self,
            Self::Misused(_)
                | Self::PnExhausted { .. }
                | Self::Lease(
                    LeaseError::KeyUsed { .. } | LeaseError::Received { .. } | LeaseError::Sent { .. }
                )
        )
    }

    /// True if another configuration may start, and this one, too, when the box has other addresses, interfaces or memory, or another
    /// program has left its state directory.
    pub const fn is_of_circumstances(&self) -> bool {
        matches!(
            self,
            Self::Configuration(_)
                | Self::Open { .. }
                | Self::Site(_)
                | Self::NotGranted(_)
                | Self::Cell { .. }
                | Self::LinkPlace(_)
                | Self::Lease(_)
                | Self::Serve(_)
                | Self::Record(_)
                | Self::Restore(_)
        )
    }
}

/// Means of a gateway beside its configuration.
pub struct Means<'m> {
    /// Programs of links and cells in the kernel.
    pub programs: KernelPrograms,
    /// Those of sites.
    pub site_programs: SitePrograms,
    /// Result of [`crate::privilege::lock_memory`].
    pub locked: Result<(), String>,
    /// Directory of the control socket.
    pub runtime_dir: &'m Path,
    /// Its membership in a fleet, if it has one.
    pub membership: Option<Membership>,
    /// The file of this program, which an upgrade has replaced by another one when it is asked for, or why it is unknown.
    pub program: Result<PathBuf, String>,
    /// State that the program before this one has passed on, if there was one.
    pub passed: Option<Passed>,
}

/// Runs the gateway until it is asked to stop. `log` takes what happens, and gets another format by a reload.
///
/// # Errors
/// [`RunError`]; interfaces are put back as they were in any case.
pub fn run(config: Config, means: Means<'_>, asks: &Asks, log: &Log) -> Result<(), RunError> {
    let Means { programs, site_programs, locked, runtime_dir, membership, program, passed } = means;
    let locks = passed.as_ref().map(Passed::take_locks).transpose();
    let locks = locks.map_err(|error| RunError::PassedOn(error.to_string()))?;
    let [state_lock, socket_lock] = locks.map_or([None, None], |locks| locks.map(Some));
    let (name, http) = (config.gateway.name.clone(), config.gateway.http);
    let listening = http.map(|http| Listening::start(&config.file, http)).transpose();
    let listening = listening.map_err(|finding| RunError::Configuration(vec![finding]))?;
    let leases = start::open_state(&config, state_lock)?;
    let (control_handle, asked) = control_handle::open();
    let server = control_handle::serve(&name, runtime_dir, &control_handle, socket_lock)?;
    let surface = Surface::start(&control_handle, listening)?;
    let socket_lock = server.lock().as_raw_fd();
    let around =
        start::Around { programs, site_programs, locked, http: surface, socket_lock, program, passed };
    let (running, outcome) = match Running::start(config, leases, around, log) {
        Err(error) => (None, Err(error)),
        Ok(mut running) => {
            running.fleet = membership.as_ref().map(InFleet::of);
            running.advise();
            if let Some(http) = http {
                info!(event = "http", "status and metrics: http://{}/", http.address);
            }
            if let Some(why) = server.closed_to_group() {
                warn!(event = "status-group", "{why}");
            }
            info!(event = "gateway-running", "gateway {name} is running: frameward status {name}");
            let agent = membership.and_then(fleet::agent);
            let agent = agent.map(|agent| fleet::start(agent, control_handle.clone())).transpose();
            let outcome = agent.and_then(|agent| {
                let outcome = running.forward(&asked, asks);
                // Before requests fail that it waits for.
                drop(agent);
                outcome
            });
            (Some(running), outcome)
        }
    };
    // No request may wait for the main thread any more.
    drop(asked);
    drop(server);
    let stopped = running.map_or(Ok(()), Running::stop);
    outcome.and(stopped)
}

/// Measurements of the start.
struct Measured {
    speeds: SuiteSpeeds,
    antedating: Antedating,
}

/// A gateway that runs.
struct Running {
    /// The configuration.
    file: PathBuf,
    started: Instant,
    gateway: config::Gateway,
    privileges: PrivilegeReport,
    measured: Measured,
    reloads: ReloadRequests,
    reloaded: Option<ReloadReport>,
    upgraded: Option<UpgradeReport>,
    /// An upgrade that was asked for.
    upgrade: Option<upgrade::Asked>,
    /// The file of this program, or why it is unknown.
    program: Result<PathBuf, String>,
    /// Hears whether the machine was brought back.
    machine: Machine,
    /// The lock of the control socket.
    socket_lock: RawFd,
    /// Its fleet, if its configuration comes from one.
    fleet: Option<InFleet>,
    /// Counters at the moment when somebody cleared them.
    baseline: Option<Arc<Baseline>>,
    control: Gateway,
    settings: InterfaceSettings,
    /// In the order of the configuration. Behind the workers: ports are closed before interfaces are put back.
    links: Vec<RunningLink>,
    /// In the order of the configuration.
    sites: Vec<RunningSite>,
    site_programs: SitePrograms,
    /// Verdicts on links and sites.
    verdicts: Verdicts,
    /// The configuration, for the next reload.
    outline: Outline,
    http: Surface,
    log: Log,
}

impl Running {
    /// Says how fast the cipher suites are here, whether it pays to make keystreams ahead, and for which links another one is worth a thought.
    fn advise(&self) {
        let Measured { speeds, antedating } = &self.measured;
        info!(event = "suite-speeds", "cipher suites, {speeds}");
        info!(event = "antedating", "antedate: {antedating}");
        for RunningLink { config, .. } in &self.links {
            // Programs in the kernel have this suite alone, and gain more than another cipher does.
            if matches!(self.control.link_place(&config.name), Some(LinkPlace::Kernel | LinkPlace::Express)) {
                continue;
            }
            let Some(suite) = config.suite() else { continue };
            let advice = Advice::new(speeds, suite);
            if advice.is_to_change() {
                info!(event = "suite-advice", link = config.name, "{advice}");
            }
        }
    }

    /// The main thread's loop.
    fn forward(&mut self, asked: &RequestQueue, asks: &Asks) -> Result<(), RunError> {
        self.settings.has_frames();
        let mut supervisor = Supervisor::ready();
        let mut interface_monitor = InterfaceMonitor::start()?;
        let mut cells = CellNews::default();
        while !asks.to_stop() {
            match asked.wait(TICK) {
                // The client may have gone.
                Some(ControlRequest::Report(reply)) => drop(reply.send(self.report())),
                Some(ControlRequest::Request(request, asker)) => self.answer(&request, asker),
                Some(ControlRequest::End(why)) => return Err(RunError::Fleet(why)),
                None => {}
            }
            if self.machine.was_restored() {
                return Err(self.give_up());
            }
            // It would change what the next program has judged.
            if !self.is_upgrading() && asks.take_reload() {
                self.reloads.ask(false, None);
            }
            if self.poll_reload(Instant::now()) {
                interface_monitor.forget();
            }
            self.go_on_with_upgrade(asks);
            let now = Instant::now();
            supervisor.alive(now);
            self.poll_interfaces(&mut interface_monitor, now);
            self.end_fallbacks();
            self.attend_cells(&mut cells, now);
            let notices = self.control.turn(now);
            cell::log_sessions(&notices);
            cells.log_silences(&notices, now);
            notices.iter().for_each(|notice| self.verdicts.handle_notice(now, notice));
            self.poll_verdicts(now);
            for notice in notices {
                match notice {
                    Notice::CyclicSession { .. } | Notice::CyclicSilence { .. } => {}
                    Notice::WorkerEnded { links } => return Err(RunError::WorkerEnded(links)),
                    other => log_notice(&other),
                }
            }
        }
        let signal = i32::try_from(asks.signal.load(Ordering::Relaxed)).ok();
        let signal = signal.and_then(signal_hook::low_level::signal_name);
        let by = signal.unwrap_or("it was asked to");
        info!(event = "gateway-stops", signal, "gateway {} stops: {by}", self.gateway.name);
        Ok(())
    }

    fn is_upgrading(&self) -> bool {
        self.upgrade.as_ref().is_some_and(upgrade::Asked::is_going_on)
    }

    /// Does what somebody asks for, or says why not. A reload is answered when it is done.
    fn answer(&mut self, request: &Request, asker: Sender<Reply<GatewayReport>>) {
        let done = |done: Result<(), String>| match done {
            Ok(()) => Reply::Done(Vec::new()),
            Err(why) => Reply::Refused(vec![why]),
        };
        let reply = match request {
            Request::Status {} => Reply::Report(self.report().shown().into_owned()),
            Request::Reload { .. } if self.is_upgrading() => {
                Reply::Busy("an upgrade is under way; ask again".into())
            }
            Request::Reload { dry_run } => return self.reloads.ask(*dry_run, Some(asker)),
            Request::Clear {} => {
                self.baseline = Some(Arc::new(Baseline::of(self.report().report)));
                info!(
                    event = "counters-cleared",
                    "counters are cleared: status counts from 0, metrics go on"
                );
                Reply::Done(Vec::new())
            }
            // Answered when the new program has judged.
            Request::Upgrade {} => return self.ask_upgrade(asker),
            Request::HandOver { site } => done(self.hand_over(site)),
            Request::Rekey { link } => done(self.rekey(link)),
        };
        // The client may have gone.
        drop(asker.send(reply));
    }

    fn hand_over(&mut self, site: &str) -> Result<(), String> {
        let Some(running) = self.sites.iter().find(|running| running.config.name == *site) else {
            return Err(format!("there is no site {site:?}; frameward status names them"));
        };
        if running.config.standby.is_none() {
            return Err(format!("site {site:?} is alone on its LAN; it has no [site.standby]"));
        }
        match self.control.hand_over(site) {
            Ok(true) => {
                info!(event = "standby-hand-over", site, "hands over to the other box of its LAN");
                Ok(())
            }
            Ok(false) => Err(format!(
                "site {site:?} does not forward, or the other box is not ready to take over; frameward status shows both"
            )),
            Err(error) => Err(error.to_string()),
        }
    }

    fn rekey(&mut self, link: &str) -> Result<(), String> {
        let has_cell =
            |running: &&RunningLink| running.config.cell.as_ref().is_some_and(|cell| cell.name == *link);
        if let Some(running) = self.links.iter().find(has_cell) {
            let is_renewed = self.control.renew_cell_sessions(&running.config.name);
            return if is_renewed {
                info!(event = "cell-rekey", cell = link, "all relations agree on new sessions");
                Ok(())
            } else {
                Err(format!("fieldbus {link:?} has no interfaces; look at its log"))
            };
        }
        let Some(running) = self.links.iter().find(|running| running.config.name == *link) else {
            return Err(format!("there is no link or fieldbus {link:?}; frameward status names them"));
        };
        match running.config.keys {
            Keys::Static(_) => Err(format!(
                "link {link:?} has static keys, which rekey cannot change; make new ones with keygen static, and reload"
            )),
            Keys::None => Err(format!("link {link:?} has no keys; frameward status shows it")),
            Keys::Agreed(_) if self.control.rekey(link) => Ok(()),
            Keys::Agreed(_) => Err(format!("link {link:?} has no key agreement; look at its log")),
        }
    }

    /// Has other boxes of LANs forward.
    fn leave_shared_lans(&mut self) {
        if self.sites.iter().fold(false, |left, site| site.leave(&mut self.control) | left) {
            std::thread::sleep(DRAIN);
        }
    }

    /// Has other boxes of LANs forward, then stops the sites' managers, who tell the peers, then the workers, closes the ports, puts the interfaces back.
    fn stop(mut self) -> Result<(), RunError> {
        self.leave_shared_lans();
        self.sites.iter().for_each(RunningSite::begin_to_end);
        let lans: Vec<_> = self.sites.into_iter().filter_map(RunningSite::end).collect();
        let kept = self.control.stop();
        let silent = matches!(kept, Err(LeaseError::Silent { .. }));
        self.settings.end_by(Instant::now() + if silent { SILENT_STOP } else { LONGEST_STOP });
        self.links.into_iter().map(RunningLink::restore).fold(Ok(()), Result::and)?;
        lans.into_iter().map(OwnInterface::restore).fold(Ok(()), Result::and)?;
        Ok(kept?)
    }
}

const fn polling(polling: Polling) -> worker::Polling {
    match polling {
        Polling::Adaptive => worker::Polling::Adaptive,
        Polling::Busy => worker::Polling::Busy,
        Polling::Interrupt => worker::Polling::Interrupt,
    }
}

/// Logs what control has to say; what it says of cells' frames stands in cell.rs.
fn log_notice(notice: &Notice) {
    match notice {
        Notice::ChangeKeySoon { link } => warn!(
            event = "pns-run-out",
            link, "three quarters of the key's packet numbers are used; change the key at both ends"
        ),
        Notice::PnExhausted { link } => error!(
            event = "pns-used-up",
            link, "all packet numbers of the key are used, so nothing is sent; change the key at both ends"
        ),
        Notice::LeaseFailed { link, error } => error!(event = "lease-failed", link, "{error}"),
        Notice::FloorsFailed { error } => error!(
            event = "floors-failed",
            "{error}; after a crash, frames recorded before it could be replayed"
        ),
        Notice::FloorsLate { open } => warn!(
            event = "floors-late",
            milliseconds = milliseconds(*open),
            "replay floors reached the disk {} ms after the last ones: the disk or the CPU is too slow. After a crash, frames of that time could be replayed",
            open.as_millis()
        ),
        Notice::DiskSilent { path, silent } => error!(
            event = "disk-silent",
            seconds = silent.as_secs(),
            "the disk under {} has not answered for {} s: replay floors are not written, and static keys can use only the packet numbers already reserved; the kernel's log (dmesg) may show why",
            path.display(),
            silent.as_secs()
        ),
        Notice::DiskAnswers { path, silent } => info!(
            event = "disk-answers",
            seconds = silent.as_secs(),
            "the disk under {} answers again, after {} s",
            path.display(),
            silent.as_secs()
        ),
        Notice::KeyAgreement { link, reason, words } => match reason.event() {
            Some(event) => warn!(event, link, "{event}: {words}"),
            None => info!(event = "key-agreement", link, "{words}"),
        },
        Notice::TooManyPeers { link, sci, peer } => error!(
            event = "too-many-peers",
            link,
            sci = %sci,
            "no room for peer {peer}: a link has at most {} peers, so its frames are discarded",
            secy::SecY::RECEIVE_SCS
        ),
        Notice::SakRefused { link, ki, why } => {
            error!(event = "sak-refused", link, ki = %ki, "key {ki} is not used: {why}")
        }
        Notice::LinkKernelFault { link, why } => error!(
            event = "link-kernel",
            link,
            "the kernel does not do what it should for an SA ({why}); restart the gateway, or set io = \"af_xdp\""
        ),
        Notice::KernelFault { cell, relations, why } => cell::log_kernel_fault(cell, relations, why),
        Notice::WorkerEnded { links } => {
            error!(event = "worker-ended", "a worker has ended: {}", links.join(", "))
        }
        Notice::CyclicSession { .. } | Notice::CyclicSilence { .. } => {}
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
