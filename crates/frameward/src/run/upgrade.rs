//! Another program for a running gateway, without losing a frame.
//!
//! ```text
//!  asked ──▶ roles that can go on?  ──▶ new program, as a child: judges configuration and format ──▶ answer
//!        ──▶ SAs leave the kernel ──▶ floors and leases to disk ──▶ links leave their workers ──▶ descriptors stay open ──▶ execve
//!        ──▶ the new program in this process: sockets, locks and guards as they were, keys from their files ──▶ links ──▶ SAs to the kernel
//! ```
//!
//! One process goes on, so there are never two that have a key. execve(2) ends all other threads before the new program begins,
//! and a link that is passed on has left its worker before that: no PN is taken behind the one that is passed on. Whatever ends
//! the process meanwhile leaves leases and floors on disk as any crash does. Until execve has succeeded, everything can go back.
//!
//! Sockets are the kernel's: what arrives meanwhile waits in their rings, and nothing arrives twice. The time is that
//! of a start without measurements, some hundredths of a second.
//!
//! Programs in the kernel stay loaded. Those of links stand aside in front of the ports meanwhile, and those of cells go on: to load others needs a right that is given up at the
//! start. So the next program must have the same object file. SAs with static keys go back to them at once, agreed ones with the next SAK.
//!
//! A link whose keys are agreed on goes on as the same member of its group. No SAK is in the middle of its installation then: that is waited for.
//!
//! In a fleet the configuration is that of the version in use, and the box's own file leads to it. The agent begins anew in the new program: its
//! lock and what it has seen go on, all else it keeps on disk. While it takes a version over or judges one, an upgrade is refused.
//!
//! The new program judges by taking the state as a start does ([`judge`](self::judge)): but for ports, and for what moves with each frame.
//!
//! A site begins anew in the next program, as another instance for its peers, which need no change: no seq of before comes again, and nothing
//! that was recorded is taken. It goes on until execve, so an upgrade that fails costs it nothing. Its frames are lost until its peers are connected
//! again. The link that protects its LAN goes on with its SAs and its KaY, and so does its LAN's interface.
//!
//! Left out on purpose: sites with programs in the kernel, which a start alone may load, and links that hold frames back. They are refused before
//! anything is touched.

mod handover;
mod judge;
mod passed;

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::mem::discriminant;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tracing::info;

use super::fleet::InFleet;
use super::interface_watch::seen;
use super::link::RunningLink;
use super::reload::{Loaded, read};
use super::site::RunningSite;
use super::{Asks, Running};
use crate::fleet_agent::UpgradeTurn;
use crate::membership;
use config::change::fixed;
use config::{Finding, Keys, Link};
use netdev::interface::{InterfaceError, InterfaceInfo, link_state};
pub use passed::{Passed, take_passed};
pub(super) use passed::{PassedFleet, PassedLink, PassedSite};
use passed::{VARIABLE, in_memory, why_not};
use report::GatewayReport;
use report::control_socket::Reply;
use wire::MacAddr;

/// The time that it may take until the new program has judged.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time after which a program that judges ends by itself: nobody waits for it any more.
pub const JUDGING: Duration = Duration::from_secs(12);
/// Time in which the answer and the lines of the log leave before the program does.
const ANSWER: Duration = Duration::from_millis(50);

/// An upgrade that was asked for.
pub(super) struct Asked {
    stage: Stage,
    until: Instant,
    /// Where the answer goes; nowhere once it was given.
    reply: Option<Sender<Reply<GatewayReport>>>,
    /// The new program.
    program: PathBuf,
    /// The file that judges.
    file: FileIdentity,
    /// Keeps the agent of a fleet from changing anything meanwhile; none without an agent.
    turn: Option<UpgradeTurn>,
}

enum Stage {
    /// The configuration is read, by another thread: before the new program judges it, and once more when it has.
    Reads { answer: Receiver<Loaded>, judged: bool },
    /// The new program judges.
    Judges(Child),
    /// It has judged; whoever asked hears of it.
    Due(Instant),
}

impl Asked {
    /// Whether it may still be done. One that was given up is kept for as long as somebody is caught in it.
    pub(super) const fn is_going_on(&self) -> bool {
        self.reply.is_some() || matches!(self.stage, Stage::Due(_))
    }

    /// Whether nobody is caught in it any more.
    fn is_over(&mut self) -> bool {
        match &mut self.stage {
            Stage::Reads { answer, .. } => !matches!(answer.try_recv(), Err(TryRecvError::Empty)),
            Stage::Judges(child) => !matches!(child.try_wait(), Ok(None)),
            Stage::Due(_) => true,
        }
    }
}

/// Device, number and time of change of a program's file: another one is another program.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileIdentity([i64; 4]);

impl FileIdentity {
    fn of(file: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(file)?;
        Ok(Self([found.dev().cast_signed(), found.ino().cast_signed(), found.mtime(), found.mtime_nsec()]))
    }
}

/// Refusal of an upgrade.
pub(super) struct Refused {
    why: String,
    /// It is for something that ends by itself: who asks again may succeed.
    ends_by_itself: bool,
}

impl Refused {
    /// For something that ends by itself.
    pub(super) fn for_now(why: impl Into<String>) -> Self {
        Self { why: why.into(), ends_by_itself: true }
    }

    fn reply(self) -> Reply<GatewayReport> {
        if self.ends_by_itself { Reply::Busy(self.why) } else { Reply::Refused(vec![self.why]) }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self { why, ends_by_itself: false }
    }
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
    let on_box = membership::on_box(&config).map_err(first)?;
    passed.judge_box(file, on_box.as_ref())?;
    let folder = membership::folder(&config).map_err(first)?;
    let in_fleet = folder.is_some();
    let config = match folder {
        Some(folder) => folder.load(&config.gateway.name).map_err(first)?.0,
        None => config,
    };
    passed.judge(&config, in_fleet)?;
    judge::take(passed, &config)
}

/// The first of what is wrong with a configuration.
fn first(findings: Vec<Finding>) -> String {
    findings.first().map_or_else(|| "the configuration is refused".to_owned(), ToString::to_string)
}

/// Where a program lies, also if another one has just been put there: the kernel calls the file of the one that runs deleted then.
pub fn installed(program: PathBuf) -> PathBuf {
    match program.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(place) => PathBuf::from(OsStr::from_bytes(place)),
        None => program,
    }
}

fn cannot_start(program: &Path, error: &io::Error) -> String {
    with_cure(format!("cannot start {}", program.display()), error)
}

/// A failure with a program, the system's reason, and the cure.
fn with_cure(what: String, error: &io::Error) -> String {
    let cure = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => "it or what loads it is missing: install the package",
        Some(Errno::EACCES) => {
            "make it executable (chmod 755), also for the gateway's user, or install the package"
        }
        Some(Errno::ENOEXEC) => "it is no program for this CPU: install the package of this architecture",
        Some(Errno::ETXTBSY) => "it is being written: wait until that is done",
        _ => "install the package",
    };
    format!("{what}: {error}; {cure}")
}

/// The first line that a program which has ended has said.
fn first_words(stderr: Option<ChildStderr>) -> Option<String> {
    let mut said = [0; 4096];
    // It does not block: others may have it open still.
    let octets = stderr?.read(&mut said).ok()?;
    String::from_utf8_lossy(&said[..octets]).lines().next().map(str::to_owned)
}

impl Running {
    /// Has the new program judge, or says at once why not.
    pub(super) fn ask_upgrade(&mut self, reply: Sender<Reply<GatewayReport>>) {
        match self.begin_upgrade() {
            // The client may have gone.
            Err(refused) => drop(reply.send(refused.reply())),
            Ok((stage, program, file, turn)) => {
                let until = Instant::now() + PATIENCE;
                self.upgrade = Some(Asked { stage, until, reply: Some(reply), program, file, turn });
            }
        }
    }

    fn begin_upgrade(&self) -> Result<(Stage, PathBuf, FileIdentity, Option<UpgradeTurn>), Refused> {
        match &self.upgrade {
            None => {}
            Some(asked) if asked.is_going_on() => {
                return Err(Refused::for_now("an upgrade is under way; ask again"));
            }
            Some(_) => {
                let why = "the upgrade before waits for a file or a program still";
                return Err(format!("{why}; if that lasts, restart the gateway instead").into());
            }
        }
        self.can_go_on()?;
        let program = self.program.clone()?;
        let file = FileIdentity::of(&program).map_err(|error| cannot_start(&program, &error))?;
        let turn = self.fleet.as_ref().map_or(Ok(None), InFleet::begin_upgrade)?;
        Ok((self.read_again(false)?, program, file, turn))
    }

    fn read_again(&self, judged: bool) -> Result<Stage, String> {
        let answer = read(self.file.clone());
        let answer =
            answer.map_err(|error| format!("no thread can be started: {error}; raise the limit of tasks"))?;
        Ok(Stage::Reads { answer, judged })
    }

    /// Starts the new program, which judges. Nothing here waits for it: what it reads is a file, and its words are looked at when it has ended.
    fn have_judged(&self, program: &Path) -> Result<Child, Refused> {
        let judged =
            |running: &RunningLink| PassedLink::judged(&running.config, &self.control, self.about(running)?);
        let links = self.links.iter().map(judged).collect::<Option<Vec<_>>>();
        let links = links.ok_or_else(|| {
            Refused::for_now("a key is being installed, or an interface has gone; ask again")
        })?;
        self.start_judge(program, links).map_err(|error| cannot_start(program, &error).into())
    }

    fn start_judge(&self, program: &Path, links: Vec<PassedLink>) -> io::Result<Child> {
        let document = Passed::new(self.passed_gateway([0; 2]), links, self.passed_sites()).encode()?;
        let child = Command::new(program)
            .arg("go-on")
            .arg(self.fleet.as_ref().map_or(&self.file, |fleet| &fleet.file))
            .env_remove(VARIABLE)
            .stdin(in_memory(&document)?)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(stderr) = &child.stderr {
            fcntl(stderr, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(child)
    }

    /// Whether all that runs here can go on in the next program.
    fn can_go_on(&self) -> Result<(), Refused> {
        let cannot = |what: String, why: &str| {
            let why = format!("{what} cannot be handed over yet: {why}; restart the gateway instead");
            Err(Refused::from(why))
        };
        if !self.reloads.is_idle() {
            let waits = self.reload_waits().map(|why| format!(": {why}")).unwrap_or_default();
            return Err(Refused::for_now(format!("a reload is under way{waits}; ask again")));
        }
        // execve(2) waits for all threads, and this one may be in a sleep that nothing ends.
        if self.reloads.has_caught() {
            return cannot("this gateway".into(), "a thread waits for a file that a reload could not read");
        }
        for site in &self.sites {
            let seen = link_state(&site.config.lan).map_err(|error| error.to_string())?;
            if let Some(why) = site.why_not_anew(seen) {
                return cannot(format!("site {:?}", site.config.name), why);
            }
        }
        for running in &self.links {
            let link = format!("link {:?}", running.config.name);
            let waits = (!running.is_open() || !running.is_seated).then_some("it waits for its interfaces");
            let seen = seen(&running.config).map_err(|error| error.to_string())?;
            let others = (!running.is_on(seen)).then_some("its interfaces have changed");
            let held = running.loss.held().map(|_| "one of its sides has lost its carrier");
            let other_member = is_other_member(running).map_err(|error| error.to_string())?;
            let member = other_member
                .then_some("its protected port has another address, and so it would be another member");
            let halted = || self.control.why_not_halted(&running.config.name);
            let looked = why_not(&running.config).or(waits).or(others).or(member).or(held);
            if let Some(why) = looked.or_else(halted) {
                return cannot(link, why);
            }
        }
        Ok(())
    }

    /// Whether a configuration that was read is the one that runs: also of each link, for which a reload may have failed.
    fn is_what_runs(&self, loaded: Loaded) -> Result<(), String> {
        let read = loaded.map_err(first)?.config;
        // A reload would refuse them.
        let fixed = fixed(&self.gateway, &read.gateway);
        if read.fleet.is_some() || !fixed.is_empty() {
            let what = match fixed.is_empty() {
                true => "[fleet]".to_owned(),
                false => format!("{} in [gateway]", fixed.join(", ")),
            };
            return Err(format!(
                "the configuration has changed since the start ({what}), and no reload takes that over: restart the gateway"
            ));
        }
        if let Some(change) = self.outline.changes(&read.outline).first() {
            return Err(format!(
                "the configuration has changed since it was loaded ({change}): frameward reload first"
            ));
        }
        let same_sites = self.sites.iter().map(|running| &running.config).eq(&read.sites);
        if !same_sites || !self.links.iter().map(|running| &running.config).eq(&read.links) {
            return Err("the last reload has not changed all links and sites: frameward reload first".into());
        }
        Ok(())
    }

    /// Goes on with an upgrade that was asked for; does not return if that succeeds.
    pub(super) fn go_on_with_upgrade(&mut self, asks: &Asks) {
        let Some(mut asked) = self.upgrade.take() else { return };
        match asked.stage {
            // A SAK is installed within milliseconds.
            Stage::Due(_) if !self.is_settled(asked.turn.as_ref()) && Instant::now() < asked.until => {
                return self.upgrade = Some(asked);
            }
            Stage::Due(at) if Instant::now() >= at => {
                return self.upgrade_or_say_why(&asked.program, asked.file, asks);
            }
            Stage::Due(_) => return self.upgrade = Some(asked),
            _ => {}
        }
        let Some(reply) = asked.reply.take() else {
            self.upgrade = (!asked.is_over()).then_some(asked);
            return;
        };
        let stage_before = discriminant(&asked.stage);
        let refused = match self.next_stage(asked.stage, &asked.program, asked.turn.as_ref()) {
            Ok(stage @ Stage::Due(_)) => {
                info!(event = "upgrade", "becomes {}, which can go on", asked.program.display());
                drop(reply.send(Reply::Done(self.sites.iter().map(begins_anew).collect())));
                // A SAK may be on its way again: it has its own time.
                let until = Instant::now() + PATIENCE;
                self.upgrade = Some(Asked { stage, reply: None, until, ..asked });
                return;
            }
            // Each of them has its own time.
            Ok(stage) if discriminant(&stage) != stage_before => {
                let until = Instant::now() + PATIENCE;
                self.upgrade = Some(Asked { stage, reply: Some(reply), until, ..asked });
                return;
            }
            Ok(stage) if Instant::now() < asked.until => {
                self.upgrade = Some(Asked { stage, reply: Some(reply), ..asked });
                return;
            }
            Ok(stage) => Refused::from(self.give_up_upgrade(Asked { stage, ..asked })),
            Err(refused) => refused,
        };
        drop(reply.send(refused.reply()));
    }

    /// The next stage, or the same if somebody is not done yet.
    fn next_stage(&self, stage: Stage, program: &Path, turn: Option<&UpgradeTurn>) -> Result<Stage, Refused> {
        match stage {
            // The state judged is the state passed on: no SAK is being installed.
            Stage::Reads { judged: false, .. } if !self.is_settled(turn) => Ok(stage),
            Stage::Reads { answer, judged } => match answer.try_recv() {
                Ok(loaded) => {
                    self.is_what_runs(loaded)?;
                    if judged {
                        return Ok(Stage::Due(Instant::now() + ANSWER));
                    }
                    self.have_judged(program).map(Stage::Judges)
                }
                Err(TryRecvError::Empty) => Ok(Stage::Reads { answer, judged }),
                Err(TryRecvError::Disconnected) => {
                    Err("a thread has ended; please report it".to_owned().into())
                }
            },
            Stage::Judges(mut child) => match child.try_wait() {
                Ok(None) => Ok(Stage::Judges(child)),
                Ok(Some(status)) if status.success() => self.read_again(true).map_err(Refused::from),
                Ok(Some(status)) => {
                    let words = first_words(child.stderr.take()).unwrap_or_else(|| status.to_string());
                    let words = words.trim_start_matches("frameward: ");
                    Err(format!("{} refuses: {words}", program.display()).into())
                }
                Err(error) => Err(format!("cannot wait for {}: {error}", program.display()).into()),
            },
            due @ Stage::Due(_) => Ok(due),
        }
    }

    /// Whether nothing is under way between KaYs and SecYs, and the agent of a fleet is in no sleep that nothing ends.
    fn is_settled(&self, turn: Option<&UpgradeTurn>) -> bool {
        self.control.are_keys_settled() && turn.is_none_or(UpgradeTurn::is_undisturbed)
    }

    /// Gives an upgrade up in which somebody is caught, and says who.
    fn give_up_upgrade(&mut self, mut asked: Asked) -> String {
        let why = match &mut asked.stage {
            Stage::Judges(child) => {
                // A service may send no signal: then it ends by itself ([`JUDGING`]).
                let _ = child.kill();
                format!("{} does not answer", asked.program.display())
            }
            Stage::Reads { .. } if !self.control.are_keys_settled() => {
                "a key is being installed, or the disk has not answered yet with packet numbers, and that does not end: frameward rekey, see that the disk answers, then ask again".into()
            }
            Stage::Reads { judged: false, .. } if !self.is_settled(asked.turn.as_ref()) => {
                "the file that is the fleet's directory does not answer; see that its file system is there, then ask again".into()
            }
            Stage::Reads { .. } | Stage::Due(_) => {
                format!("{} or a key file that it names could not be read yet", self.file.display())
            }
        };
        // The agent goes on meanwhile.
        asked.turn = None;
        self.upgrade = Some(asked);
        why
    }
}

/// What whoever asks is told of a site before.
fn begins_anew(site: &RunningSite) -> String {
    format!(
        "site {:?} begins anew: none of its frames passes until its peers are connected again, mostly within a second",
        site.config.name
    )
}

/// The interface whose address a link's SCI has: inside of a site its only one.
fn outermost(link: &Link) -> &str {
    if link.in_site { &link.plain } else { &link.protected }
}

/// Whether the next program would give the link's KaY another SCI than it has: the port's address may have changed since it began.
fn is_other_member(running: &RunningLink) -> Result<bool, InterfaceError> {
    let Keys::Agreed(mka) = &running.config.keys else { return Ok(false) };
    if mka.sci.is_some() || !running.is_open() {
        return Ok(false);
    }
    let port = InterfaceInfo::of(outermost(&running.config))?;
    Ok(mka.sci_on(MacAddr(port.mac)) != running.about.sci)
}
