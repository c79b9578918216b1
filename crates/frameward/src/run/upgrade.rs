//! Another program for a running gateway, without losing a frame.
//!
//! ```text
//!  asked ──▶ roles that can go on?  ──▶ new program, as a child: judges configuration and format ──▶ answer
//!        ──▶ floors and leases to disk ──▶ links leave their workers ──▶ descriptors stay open ──▶ execve
//!        ──▶ the new program in this process: sockets, locks and guards as they were, keys from their files ──▶ links
//! ```
//!
//! One process goes on, so there are never two that have a key. execve(2) ends all other threads before the new program begins,
//! and a link that is passed on has left its worker before that: no PN is taken behind the one that is passed on. Whatever ends
//! the process meanwhile leaves leases and floors on disk as any crash does. Until execve has succeeded, everything can go back.
//!
//! Sockets are the kernel's: what arrives meanwhile waits in their rings, and nothing arrives twice. The time is that
//! of a start without measurements, some hundredths of a second.
//!
//! Left out on purpose: roles other than links with static keys. They are refused before anything is touched.

mod passed;

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime};

use control::HaltedLink;
use tracing::{error, info};

use super::interface_watch::seen;
use super::{Asks, Running};
use crate::privilege;
use config::Finding;
use netdev::passed_on::pass_on;
pub(super) use passed::PassedLink;
pub use passed::{Passed, take_passed};
use passed::{PassedGateway, VARIABLE, in_memory, number, why_not};
use report::control_socket::Reply;
use report::{GatewayReport, UpgradeReport};

/// The time that a new program may take to judge.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time in which the answer and the lines of the log leave before the program does.
const ANSWER: Duration = Duration::from_millis(50);

/// An upgrade that was asked for.
pub(super) enum Asked {
    /// The new program judges.
    Judged { child: Child, until: Instant, reply: Sender<Reply<GatewayReport>> },
    /// It has judged; whoever asked hears of it.
    Due(Instant),
}

/// Judges what a running gateway passes on, out of `state`, by this program and the configuration.
///
/// # Errors
/// Why this program cannot go on with it.
pub fn judge(file: &Path, mut state: impl io::Read) -> Result<(), String> {
    let mut document = Vec::new();
    state.read_to_end(&mut document).map_err(|error| format!("cannot read standard input: {error}"))?;
    let passed = Passed::parse(&document)?;
    let (config, _) = config::load(file).map_err(first)?;
    passed.judge(&config)
}

/// The first of what is wrong with a configuration.
fn first(findings: Vec<Finding>) -> String {
    findings.first().map_or_else(|| "the configuration is refused".to_owned(), ToString::to_string)
}

/// Ends a program that judges.
fn end(child: &mut Child) {
    // A service may send no signal: then it ends by itself, and is waited for by nobody.
    if child.kill().is_ok() {
        let _ = child.wait();
    }
}

fn unix_microseconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl Running {
    /// Has the new program judge, or says at once why not.
    pub(super) fn ask_upgrade(&mut self, reply: Sender<Reply<GatewayReport>>) {
        match self.begin_upgrade() {
            // The client may have gone.
            Err(why) => drop(reply.send(Reply::Refused(vec![why]))),
            Ok(child) => {
                self.upgrade = Some(Asked::Judged { child, until: Instant::now() + PATIENCE, reply });
            }
        }
    }

    fn begin_upgrade(&self) -> Result<Child, String> {
        if self.upgrade.is_some() {
            return Err("an upgrade is under way".into());
        }
        self.can_go_on()?;
        let links = self.links.iter().filter_map(|running| {
            let sas = running.config.static_sas()?;
            Some(PassedLink::judged(&running.config, sas, running.pass_on()?, running.fallback().cloned()))
        });
        let document = Passed::new(self.passed_gateway([0; 2]), links.collect()).encode();
        let cannot = |error: io::Error| format!("cannot start {}: {error}", self.program.display());
        let document = document.map_err(cannot)?;
        let mut child = Command::new(&self.program)
            .arg("go-on")
            .arg(&self.file)
            .env_remove(VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        // Less than a pipe holds: a gateway has some dozens of links.
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(&document));
        match written {
            // Whoever does not read has something to say.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                end(&mut child);
                Err(cannot(error))
            }
            _ => Ok(child),
        }
    }

    /// Whether all that runs here can go on in the next program.
    fn can_go_on(&self) -> Result<(), String> {
        let cannot = |what: String, why: &str| {
            Err(format!("{what} cannot be handed over yet: {why}; restart the gateway instead"))
        };
        if !self.reloads.is_idle() {
            return Err("a reload is under way; ask again".into());
        }
        if let Some(site) = self.sites.first() {
            return cannot(format!("site {:?}", site.config.name), "it is a site");
        }
        if self.fleet.is_some() {
            return cannot("this gateway".into(), "its configuration comes from a fleet");
        }
        for running in &self.links {
            let link = format!("link {:?}", running.config.name);
            let waits = (!running.is_open() || !running.is_seated).then_some("it waits for its interfaces");
            let seen = seen(&running.config).map_err(|error| error.to_string())?;
            let others = (!running.is_on(seen)).then_some("its interfaces have changed");
            let held = running.loss.held().map(|_| "one of its sides has lost its carrier");
            let halted = || self.control.why_not_halted(&running.config.name);
            if let Some(why) = why_not(&running.config).or(waits).or(others).or(held).or_else(halted) {
                return cannot(link, why);
            }
        }
        let (config, _) = config::load(&self.file).map_err(first)?;
        match self.outline.changes(&config.outline).first() {
            Some(change) => Err(format!(
                "the configuration has changed since it was loaded ({change}): frameward reload first"
            )),
            None => Ok(()),
        }
    }

    /// Goes on with an upgrade that was asked for; does not return if that succeeds.
    pub(super) fn go_on_with_upgrade(&mut self, asks: &Asks) {
        match self.upgrade.take() {
            None => {}
            Some(Asked::Judged { mut child, until, reply }) => {
                let verdict = match child.try_wait() {
                    Ok(None) if Instant::now() < until => {
                        self.upgrade = Some(Asked::Judged { child, until, reply });
                        return;
                    }
                    Ok(None) => {
                        end(&mut child);
                        Err(format!("{} does not answer", self.program.display()))
                    }
                    Ok(Some(status)) if status.success() => Ok(()),
                    Ok(Some(status)) => {
                        let mut words = String::new();
                        // It has ended: what it said is all there.
                        let _ =
                            child.stderr.take().map(|stderr| stderr.take(4096).read_to_string(&mut words));
                        let words = words.lines().next().map_or_else(|| status.to_string(), str::to_owned);
                        Err(format!(
                            "{} refuses: {}",
                            self.program.display(),
                            words.trim_start_matches("frameward: ")
                        ))
                    }
                    Err(error) => Err(format!("cannot wait for {}: {error}", self.program.display())),
                };
                match verdict {
                    Ok(()) => {
                        self.upgrade = Some(Asked::Due(Instant::now() + ANSWER));
                        info!(event = "upgrade", "becomes {}, which can go on", self.program.display());
                        drop(reply.send(Reply::Done(Vec::new())));
                    }
                    Err(why) => drop(reply.send(Reply::Refused(vec![why]))),
                }
            }
            Some(Asked::Due(at)) if Instant::now() < at => self.upgrade = Some(Asked::Due(at)),
            Some(Asked::Due(_)) => {
                let Err(why) = self.upgrade(asks);
                error!(event = "upgrade-failed", "not upgraded, and everything goes on as before: {why}");
                let count = self.upgraded.as_ref().map_or(0, |before| before.count);
                self.upgraded =
                    Some(UpgradeReport { count: count + 1, done: false, waited_ms: None, why: Some(why) });
            }
        }
    }

    fn upgrade(&mut self, asks: &Asks) -> Result<std::convert::Infallible, String> {
        // Interfaces and carriers may have gone since.
        self.can_go_on()?;
        let state_lock = self.control.settle_disk().map_err(|error| error.to_string())?;
        let mut passed = Passed::new(self.passed_gateway([state_lock, self.socket_lock]), Vec::new());
        let mut halted = self.control.halt_links().map_err(|error| error.to_string())?;
        let why = self.become_next(&mut passed, &mut halted, asks);
        self.control.resume_links(halted);
        let Err(why) = why;
        Err(why)
    }

    fn become_next(
        &self,
        passed: &mut Passed,
        halted: &mut [HaltedLink],
        asks: &Asks,
    ) -> Result<std::convert::Infallible, String> {
        for running in &self.links {
            let name = &running.config.name;
            let link = halted
                .iter_mut()
                .find(|halted| halted.name == *name)
                .and_then(|halted| PassedLink::new(halted, running.pass_on()?, running.fallback().cloned()));
            passed
                .links
                .push(link.ok_or_else(|| format!("link {name:?} cannot be handed over at this moment"))?);
        }
        let failed = |error: io::Error| format!("cannot pass the state on: {error}");
        let document = passed.encode().and_then(|document| in_memory(&document)).map_err(failed)?;
        let mut descriptors = passed.descriptors();
        descriptors.push(number(&document));
        let before = privilege::inherited().map_err(|error| failed(io::Error::other(error)))?;
        // What comes later waits for the next program.
        if let Some(why) = asks.anything() {
            return Err(why.into());
        }
        let error = pass_on(&descriptors, true)
            .and_then(|()| privilege::let_inherit().map_err(io::Error::other))
            .map(|()| {
                let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
                Command::new(&self.program)
                    .args(arguments)
                    .env(VARIABLE, number(&document).to_string())
                    .exec()
            });
        // Back to where it was.
        let _ = privilege::set_inherited(before);
        let _ = pass_on(&descriptors, false);
        let error = error.unwrap_or_else(|error| error);
        Err(format!("cannot become {}: {error}", self.program.display()))
    }

    /// All links of the program before go on: says so, and since when frames waited.
    pub(super) fn has_become(&mut self, passed: Option<Passed>) {
        let Some(Passed { version, gateway, .. }) = passed else { return };
        let waited = unix_microseconds().saturating_sub(gateway.halted_us) / 1000;
        info!(
            event = "upgraded",
            milliseconds = waited,
            "version {} runs in the place of {version}; frames waited {waited} ms",
            env!("CARGO_PKG_VERSION")
        );
        self.upgraded = Some(UpgradeReport { waited_ms: Some(waited), ..gateway.upgrade });
    }

    /// What the whole gateway passes on.
    fn passed_gateway(&self, locks: [i32; 2]) -> PassedGateway {
        let count = self.upgraded.as_ref().map_or(0, |before| before.count) + 1;
        PassedGateway {
            locks,
            inherited: privilege::inherited().unwrap_or_default(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            halted_us: unix_microseconds(),
            upgrade: UpgradeReport { count, done: true, waited_ms: None, why: None },
            reload: self.reloaded.clone(),
            baseline: self.baseline.as_deref().cloned(),
            speeds: self.measured.speeds.clone(),
            antedating: self.measured.antedating.clone(),
        }
    }
}
