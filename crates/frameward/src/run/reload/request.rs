//! Requests to reload, and what of a reload waits for a disk: a thread reads configuration and key files, and the disk's thread says
//! what keys were used for before. KaYs turn meanwhile.
//!
//! ```text
//!  asked ──▶ fw-config: config::load ──▶ fw-disk: roles of keys, a write ──▶ main: judge.rs, and all the rest
//! ```
//!
//! One reload at a time, in the order of requests. What main itself writes afterwards comes behind a disk that has just answered
//! (interface_settings.rs).

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use pnstore::LeaseStore;
use tracing::warn;

use super::super::Running;
use config::check::keys::misused;
use config::{Config, Finding};
use report::GatewayReport;
use report::control_socket::Reply;

/// Time after which it is told that a reload waits.
const SILENT: Duration = Duration::from_secs(5);
/// Time after which whoever asked gets an answer that it waits: sooner than he gives up (control_handle.rs).
const ANSWER_AFTER: Duration = Duration::from_secs(20);
/// The most requests that wait for the one that is under way.
const MOST_WAITING: usize = 8;

/// A configuration that was read, or why it was not.
pub(in super::super) type Loaded = Result<ReadConfig, Vec<Finding>>;

/// A configuration, and what other threads found of it.
pub(in super::super) struct ReadConfig {
    pub(in super::super) config: Config,
    pub(super) warnings: Vec<Finding>,
    /// Keys that were used for something else before.
    pub(super) misused: Vec<Finding>,
}

/// Where the answer goes; nowhere if a signal asked.
type Asker = Option<Sender<Reply<GatewayReport>>>;

/// A request to reload.
struct ReloadRequest {
    /// It is only tried.
    dry_run: bool,
    asker: Asker,
}

/// A reload that is under way.
struct UnderWay {
    request: ReloadRequest,
    since: Instant,
    told: bool,
    stage: Stage,
}

enum Stage {
    Reading(Receiver<Loaded>),
    Judging(Receiver<ReadConfig>),
}

impl Stage {
    /// What it waits for.
    fn words(&self, file: &Path, state: &Path) -> String {
        match self {
            Self::Reading(_) => {
                format!("{} or a key file that it names could not be read yet", file.display())
            }
            Self::Judging(_) => format!("the disk under {} does not answer", state.display()),
        }
    }
}

/// The reload that is under way, and requests behind it.
#[derive(Default)]
pub(in super::super) struct ReloadRequests {
    under_way: Option<UnderWay>,
    waiting: VecDeque<ReloadRequest>,
}

impl ReloadRequests {
    /// Whether none is under way or waits.
    pub(in super::super) fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.waiting.is_empty()
    }

    /// Adds a request. One by a signal says nothing that a second one would not say.
    pub(in super::super) fn ask(&mut self, dry_run: bool, asker: Asker) {
        let is_known = asker.is_none() && self.waiting.iter().any(|known| known.asker.is_none());
        if is_known {
            return;
        }
        if self.waiting.len() >= MOST_WAITING {
            let refusal = "other reloads wait already; look at the log".to_owned();
            if let Some(asker) = asker {
                drop(asker.send(Reply::Error(refusal)));
            }
            return;
        }
        self.waiting.push_back(ReloadRequest { dry_run, asker });
    }
}

impl Running {
    /// Begins the next reload, or does what of it can be done now. Whether one was finished that may have changed something.
    pub(in super::super) fn poll_reload(&mut self, now: Instant) -> bool {
        let Some(mut under_way) = self.reloads.under_way.take().or_else(|| self.begin_reload(now)) else {
            return false;
        };
        let loaded = match &under_way.stage {
            Stage::Reading(answer) => answer.try_recv(),
            Stage::Judging(answer) => answer.try_recv().map(Ok),
        };
        match (loaded, &under_way.stage) {
            (Ok(Ok(read)), Stage::Reading(_)) => {
                let judge = move |leases: &mut LeaseStore| read.judged_by(leases);
                under_way.stage = Stage::Judging(self.control.begin_on_disk(judge));
            }
            (Ok(loaded), _) => return self.finish_reload(under_way.request, loaded),
            (Err(TryRecvError::Empty), _) => self.tell_that_it_waits(&mut under_way, now),
            (Err(TryRecvError::Disconnected), _) => {
                let failed = self.unread("a thread has ended that reads it; please report it".to_owned());
                return self.finish_reload(under_way.request, Err(failed));
            }
        }
        self.reloads.under_way = Some(under_way);
        false
    }

    fn begin_reload(&mut self, now: Instant) -> Option<UnderWay> {
        let request = self.reloads.waiting.pop_front()?;
        match read(self.file.clone()) {
            Ok(answer) => Some(UnderWay { request, since: now, told: false, stage: Stage::Reading(answer) }),
            Err(error) => {
                let why =
                    format!("cannot be read: no thread can be started: {error}; raise the limit of tasks");
                let failed = self.unread(why);
                self.finish_reload(request, Err(failed));
                None
            }
        }
    }

    fn unread(&self, text: String) -> Vec<Finding> {
        vec![Finding { file: self.file.clone(), line: None, text }]
    }

    fn finish_reload(&mut self, request: ReloadRequest, loaded: Loaded) -> bool {
        let outcome = if request.dry_run { self.try_reload(loaded) } else { self.reload(loaded) };
        if let Some(asker) = request.asker {
            // The client may have gone.
            drop(asker.send(outcome.into()));
        }
        !request.dry_run
    }

    fn tell_that_it_waits(&self, under_way: &mut UnderWay, now: Instant) {
        let silent = now.saturating_duration_since(under_way.since);
        if silent < SILENT {
            return;
        }
        let words = under_way.stage.words(&self.file, &self.gateway.state);
        if !std::mem::replace(&mut under_way.told, true) {
            let seconds = silent.as_secs();
            warn!(event = "reload-waits", seconds, "the reload goes on when that is over: {words}");
        }
        if silent >= ANSWER_AFTER
            && let Some(asker) = under_way.request.asker.take()
        {
            let seconds = silent.as_secs();
            let text =
                format!("{words}, for {seconds} s; the reload goes on when that is over: look at the log");
            drop(asker.send(Reply::Error(text)));
        }
    }
}

impl ReadConfig {
    /// To be called by the disk's thread.
    fn judged_by(mut self, leases: &mut LeaseStore) -> Self {
        let check = |role, name, key: &Path| leases.check_role(role, name, key);
        self.misused = misused(&self.config.file, &self.config.links, &check);
        // Others will write behind this. Whether it can be written is told where it has to be.
        let _ = leases.probe();
        self
    }
}

/// Has a thread read the configuration. It wakes the one that calls this.
pub(in super::super) fn read(file: PathBuf) -> io::Result<Receiver<Loaded>> {
    let (answer, loaded) = mpsc::channel();
    let main = thread::current();
    let read = move || {
        let read = config::load(&file);
        let read = read.map(|(config, warnings)| ReadConfig { config, warnings, misused: Vec::new() });
        // Nobody waits for it if the gateway ends.
        let _ = answer.send(read);
        main.unpark();
    };
    thread::Builder::new().name("fw-config".into()).spawn(read)?;
    Ok(loaded)
}
