//! `frameward run`: what is done before a gateway's configuration is looked at, the start with it, and what follows if it does not start.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use config::{Config, Finding};
use fleet::install::{ConfigurationFolder, Trial};
use frameward::fleet_agent::Seen;
use frameward::log::Log;
use frameward::membership::{self, Membership};
use frameward::privilege::{self, Became, Place, RunAs};
use frameward::run;
use pnstore::LeaseError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tracing::{error, info, warn};

use crate::{Failure, tell_all, told};

/// Starts of a version on trial before it is taken back: what ends the process otherwise, such as a crash, is never judged.
const STARTS: u32 = 5;
/// Time in which a fleet may send something better, if the gateway does not start and that may pass: then it is started again.
const AGAIN: Duration = Duration::from_secs(10);

pub(crate) fn run_gateway(file: &Path, run_as: &RunAs) -> Result<(), Failure> {
    run::block_signals();
    // Before the configuration is read: a reload must be able to read whatever a start can.
    let (runtime, state) = (report::runtime_dir(), Path::new(config::DEFAULT_STATE));
    let places = [Place { path: &runtime, mode: 0o755 }, Place { path: state, mode: 0o700 }];
    let become_user =
        privilege::become_user(run_as, &places).map_err(|error| told(&error, Failure::Failed))?;
    privilege::give_up_others().map_err(|error| told(&error, Failure::Failed))?;
    let passed = run::take_passed().map_err(|error| told(&error, Failure::Failed))?;
    // An upgrade alone needs it.
    let program = std::env::current_exe().map(run::installed);
    let program = program.map_err(|error| format!("cannot find this program: {error}"));
    let asks = run::Asks::default();
    for (signal, asked) in [(SIGTERM, &asks.stop), (SIGINT, &asks.stop), (SIGHUP, &asks.reload)] {
        // First which one it is: whoever finds that it is asked knows by whom.
        let number = usize::try_from(signal).unwrap_or_default();
        let by = Arc::clone(&asks.signal);
        let registered = if signal == SIGHUP {
            Ok(())
        } else {
            signal_hook::flag::register_usize(signal, by, number).map(drop)
        };
        registered
            .and_then(|()| signal_hook::flag::register(signal, Arc::clone(asked)))
            .map_err(|error| told(&format_args!("cannot wait for signals: {error}"), Failure::Failed))?;
    }
    if let Some(passed) = &passed {
        privilege::set_inherited(passed.inherited()).map_err(|error| told(&error, Failure::Failed))?;
    }
    // Before a key is read: none of it may ever be in a dump or in the swap.
    privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
    let locked = privilege::lock_memory();
    let on_box = config::load(file);
    let before = passed.as_ref().map(run::Passed::take_fleet).transpose();
    let before = before.map_err(|error| told(&error, Failure::Failed))?.flatten();
    let membership = on_box.as_ref().map_or(Ok(None), |(config, _)| match before {
        Some((before, lock)) => membership::going_on(config, before, lock),
        None => membership::of(config),
    });
    let membership = membership.map_err(|errors| {
        tell_all("", &errors);
        Failure::Usage
    })?;
    let start = Start { become_user, locked, runtime, program, asks };
    match (membership, on_box) {
        (Some(membership), Ok((on_box, _))) => start.in_fleet(&on_box, membership, passed),
        (_, on_box) => start.gateway(on_box, None, passed, None).map_err(|ended| ended.failure),
    }
}

/// Results of the steps before a gateway's configuration is looked at.
struct Start {
    become_user: Option<Became>,
    locked: Result<(), String>,
    runtime: PathBuf,
    /// The file of this program, or why it is unknown.
    program: Result<PathBuf, String>,
    asks: run::Asks,
}

/// Why a gateway does not run any more, or never did. The error has been logged.
struct Ended {
    failure: Failure,
    /// Why another configuration may help, if one may.
    cause: Option<(Cause, String)>,
}

/// Cause for which a gateway does not start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// In the configuration: it never starts with it.
    Configuration,
    /// In what the box has at the moment, such as its addresses: that may pass.
    Circumstances,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self { failure, cause: None }
    }
}

/// A configuration with its warnings, or what is wrong with it.
type Loaded = Result<(Config, Vec<Finding>), Vec<Finding>>;

fn no_thread(error: &dyn Display) -> Failure {
    told(&format_args!("cannot start a thread: {error}; raise the limit of tasks"), Failure::Failed)
}

/// Counts a start with a version on trial. One that was begun too often, and never judged, is taken back.
fn count_start(folder: &ConfigurationFolder, trial: &Trial, seen: &Seen) {
    let version = trial.version;
    match folder.count_start(trial) {
        Ok(starts) if starts > STARTS => {
            let why = format!("the gateway began to start with it {STARTS} times, and ended each time");
            if take_back(folder, trial, &why) {
                seen.taken_back(Some(trial.before), version, why);
            }
        }
        Ok(_) => {}
        Err(error) => error!(event = "fleet-version-refused", version, "{error}"),
    }
}

/// Takes a version back, and says so. Whether it is.
fn take_back(folder: &ConfigurationFolder, trial: &Trial, why: &str) -> bool {
    let Trial { version, before, .. } = *trial;
    match folder.take_back(trial) {
        Ok(()) => {
            error!(
                event = "fleet-version-taken-back",
                version, "version {version} is taken back, and version {before} is in use again: {why}"
            );
            true
        }
        Err(error) => {
            error!(event = "fleet-version-refused", version, "{error}");
            false
        }
    }
}

impl Start {
    /// Runs a gateway with what its fleet sends.
    fn in_fleet(
        &self,
        on_box: &Config,
        mut membership: Membership,
        passed: Option<run::Passed>,
    ) -> Result<(), Failure> {
        // Its thread has no right that is given up later.
        let log = run::spawn_with_less(Log::start).map_err(|error| told(&error, Failure::Failed))?;
        let log = log.join().unwrap_or_else(|_| Err(io::Error::other("it failed")));
        let log = log.map_err(|error| no_thread(&error))?;
        log.install();
        log.set_format(on_box.gateway.log);
        let (name, folder) = (membership.name.clone(), membership.folder.clone());
        if folder.version().is_none() {
            let waited = self.wait(membership, &log, None)?;
            let Some(waited) = waited else { return Ok(()) };
            membership = waited;
        }
        let seen = membership.seen.clone();
        // A gateway that goes on has started with it before.
        if let Some(trial) = folder.trial().filter(|_| passed.is_none()) {
            count_start(&folder, &trial, &seen);
        }
        let ran = self.gateway(folder.load(&name), Some(membership), passed, Some(&log));
        let Err(Ended { failure, cause }) = ran else { return Ok(()) };
        // Nobody waits for a better version of what is asked to stop.
        if self.asks.to_stop() {
            return Err(failure);
        }
        let (Some((cause, why)), Some(version)) = (cause, folder.version()) else { return Err(failure) };
        // Nobody comes to a box that does not start: the fleet sends it something better.
        if let Some(trial) = folder.trial() {
            // A cause that may pass counts as one start, and the next one follows.
            if cause == Cause::Configuration {
                take_back(&folder, &trial, &format!("the gateway does not start with it: {why}"));
                log.flush();
            }
            return Err(Failure::Failed);
        }
        error!(
            event = "fleet-version-refused",
            version, "the gateway does not start with version {version}: {why}"
        );
        seen.does_not_start(version, why);
        let again = membership::of(on_box).map_err(|errors| {
            errors.iter().for_each(|finding| log.last_words("", finding));
            Failure::Usage
        })?;
        let Some(again) = again.map(|again| again.with(seen)) else { return Err(failure) };
        let patience = (cause == Cause::Circumstances).then_some(AGAIN);
        let ends = match self.wait(again, &log, patience)? {
            Some(_) => "another version is there; the gateway ends, to be started with it",
            None if self.asks.stop.load(Ordering::Relaxed) => return Ok(()),
            None => "the fleet has no other version; the gateway ends, to be started with this one again",
        };
        log.last_words("frameward: ", &ends);
        Err(Failure::Failed)
    }

    /// Waits for a version; none if the gateway is to stop, or `patience` is over.
    fn wait(
        &self,
        membership: Membership,
        log: &Log,
        patience: Option<Duration>,
    ) -> Result<Option<Membership>, Failure> {
        let Membership { name, file, folder, seen, agent } = membership;
        let failed = |error: &dyn Display| {
            log.last_words("frameward: ", error);
            Failure::Failed
        };
        let agent = agent.map_err(|error| failed(&error))?;
        let waited = run::wait_for_version(&name, agent, &self.runtime, patience, &self.asks);
        let agent = waited.map_err(|error| failed(&error))?;
        if agent.is_none() {
            log.flush();
        }
        Ok(agent.map(|agent| Membership { name, file, folder, seen, agent: Ok(agent) }))
    }

    /// Runs a gateway with this configuration.
    fn gateway(
        &self,
        loaded: Loaded,
        membership: Option<Membership>,
        passed: Option<run::Passed>,
        log: Option<&Log>,
    ) -> Result<(), Ended> {
        // Before another thread begins that has it, since the kernel keeps capabilities by thread; and before anything is received. The
        // configuration is read with it, for it says how many programs are needed.
        let programs = match &passed {
            Some(passed) => passed.kernel_programs().map_err(|error| told(&error, Failure::Failed))?,
            None => loaded.as_ref().map(|(config, _)| run::load_programs(config)).unwrap_or_default(),
        };
        let site_programs = match &passed {
            Some(passed) => run::SitePrograms::none(passed.sites_in_user_space()),
            None => loaded.as_ref().map(|(config, _)| run::SitePrograms::load(config)).unwrap_or_default(),
        };
        privilege::give_up_kernel_path().map_err(|error| told(&error, Failure::Failed))?;
        let started;
        let log = match log {
            Some(log) => log,
            None => {
                started = Log::start().map_err(|error| no_thread(&error))?;
                started.install();
                &started
            }
        };
        if let Ok((config, _)) = &loaded {
            log.set_format(config.gateway.log);
        }
        match &self.become_user {
            Some(Became::Root) => warn!(
                event = "stays-root",
                "stays root (--keep-user): an attacker who takes over the process owns every file of this box"
            ),
            Some(Became::User(user)) => info!(event = "runs-as-user", "runs as user {user:?}"),
            None => {}
        }
        let (config, warnings) = loaded.map_err(|errors| {
            errors.iter().for_each(|finding| log.last_words("", finding));
            let why = errors.first().map(ToString::to_string);
            Ended { failure: Failure::Usage, cause: why.map(|why| (Cause::Configuration, why)) }
        })?;
        for warning in warnings {
            warn!(event = "configuration", "{warning}");
        }
        let means = run::Means {
            programs,
            site_programs,
            locked: self.locked.clone(),
            runtime_dir: &self.runtime,
            membership,
            program: self.program.clone(),
            passed,
        };
        let ran = run::run(config, means, &self.asks, log);
        log.flush();
        ran.map_err(|error| {
            let cause = match (error.is_of_configuration(), error.is_of_circumstances()) {
                (true, _) => Some(Cause::Configuration),
                (_, true) => Some(Cause::Circumstances),
                _ => None,
            };
            let cause = cause.map(|cause| (cause, error.to_string()));
            Ended { failure: last_words(log, error), cause }
        })
    }
}

/// Logs why a gateway has ended.
fn last_words(log: &Log, error: run::RunError) -> Failure {
    // Each of these lines names file and line itself.
    let (errors, failure) = match error {
        run::RunError::Configuration(errors) => (errors, Failure::Failed),
        // They stay so until somebody changes the configuration.
        run::RunError::Misused(errors) => (errors, Failure::Usage),
        run::RunError::Lease(
            error @ (LeaseError::Restored { .. }
            | LeaseError::KeyUsed { .. }
            | LeaseError::Received { .. }
            | LeaseError::Sent { .. }),
        ) => {
            log.last_words("frameward: ", &error);
            return Failure::Usage;
        }
        other => {
            log.last_words("frameward: ", &other);
            return Failure::Failed;
        }
    };
    errors.iter().for_each(|finding| log.last_words("", finding));
    failure
}
