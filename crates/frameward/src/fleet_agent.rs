//! Agent of a gateway in a fleet: follows the directory, and changes the running gateway over by `reload`, on trial.
//!
//! ```text
//!  directory ──watch──▶ verify, remember ──▶ install on trial ──▶ reload ──▶ 30 s ──▶ what stood before stands: confirmed
//!                                                                              └────▶ something fell: back, reload again
//! ```
//!
//! A process of its own, beside the gateway: what a directory answers is read where neither frames nor capabilities are. It may
//! end at any time. The gateway runs on, and a trial that was under way is judged by the next agent. That one has the gateway reload
//! first: whether the gateway has the version that stands in the folder is not known.
//!
//! | the gateway | is told by | the trial |
//! |---|---|---|
//! | has the version | the answer to `reload` | is judged |
//! | refuses it | the answer to `reload` | is taken back |
//! | does not run | no socket, or one that nobody listens on | is confirmed: it reads the version when it starts |
//! | does not tell | anything else | is taken back |
//!
//! While the directory is away it is tried again, ever more seldom, up to [`LONGEST_PAUSE`]. Nothing is kept for it meanwhile.

use std::io;
use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use config::Config;
use fleet::directory::{Directory, DirectoryError, Watched};
use fleet::install::{ConfigurationFolder, InstallError, Trial};
use fleet::{AcceptError, Accepted, Acceptor, Refusal};
use report::AskError;
use report::control_socket::client::{self, RequestError};
use tracing::{error, info, warn};

/// Time that links have to stand again.
const PROOF: Duration = Duration::from_secs(30);
/// Time between two looks at links at the end of that, and at whether the agent shall stop.
const LOOK: Duration = Duration::from_millis(500);
/// How many looks at the end find a link standing at least once.
const LAST_LOOKS: u32 = 6;
/// First pause before a directory that is away is tried again.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Interval between two looks without a change: a record may have become valid.
const RELIST: Duration = Duration::from_secs(600);

/// An agent of one gateway.
#[derive(Debug)]
pub struct Agent {
    /// Key of the gateway's record in the directory.
    pub key: String,
    /// What the gateway accepts.
    pub acceptor: Acceptor,
    /// Where its configuration is.
    pub folder: ConfigurationFolder,
    /// Name by which the running gateway is asked.
    pub gateway: String,
    /// Where its socket is.
    pub runtime: PathBuf,
}

/// What was seen and told so far.
#[derive(Default)]
struct Told {
    /// The record that was considered last.
    last: Vec<u8>,
    is_away: bool,
    pause: Duration,
    refusals: Vec<Discriminant<Refusal>>,
    /// The version that was tried last: it is in use, or was refused.
    unusable: Option<u64>,
    /// The gateway may run with another version than the one in its folder: when it is asked again, and the pause behind that.
    reload: Option<(Instant, Duration)>,
}

impl Told {
    /// What became of a reload. One that failed is asked for again, until the gateway has it or none runs.
    fn reloaded(&mut self, outcome: &Result<bool, Option<String>>) {
        self.reload = match outcome {
            Ok(true) | Err(None) => None,
            Ok(false) | Err(Some(_)) => {
                let pause = self.reload.map_or(SHORTEST_PAUSE, |(_, pause)| (2 * pause).min(LONGEST_PAUSE));
                Some((Instant::now() + pause, pause))
            }
        };
    }
}

/// No gateway runs.
struct NoGateway;

impl Agent {
    /// Follows the directory until `stop` is set.
    pub fn run(&mut self, directory: &mut dyn Directory, stop: &AtomicBool) {
        let mut told = Told { pause: SHORTEST_PAUSE, ..Told::default() };
        match self.folder.trial() {
            Some(trial) => self.try_out(&trial, &mut told, stop),
            None if self.folder.version().is_some() => told.reloaded(&self.reload()),
            None => {}
        }
        while !stop.load(Ordering::Relaxed) {
            self.reload_again(&mut told);
            let followed = self.follow(directory, &mut told, stop);
            // Also where nothing is wrong: a directory that forgets each watch at once is not asked without end.
            wait(told.pause, stop);
            if let Err(away) = followed {
                if !told.is_away {
                    warn!(event = "fleet-directory-away", "{away}; the gateway runs on with what it has");
                }
                told.is_away = true;
                told.pause = (2 * told.pause).min(LONGEST_PAUSE);
            }
        }
    }

    /// Takes what is there, then what changes, until it is time to list anew.
    fn follow(
        &mut self,
        directory: &mut dyn Directory,
        told: &mut Told,
        stop: &AtomicBool,
    ) -> Result<(), DirectoryError> {
        let listing = directory.look(&self.key)?;
        let since = Instant::now();
        let (mut revision, mut entries) = (listing.revision, listing.entries);
        loop {
            // Of several changes the last one counts.
            if let Some(entry) = entries.pop()
                && told.last != entry.value
            {
                self.consider(&entry.value, told, stop);
                told.last = entry.value;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if since.elapsed() > RELIST {
                // What was refused then may be valid now.
                told.last.clear();
                told.unusable = None;
                return Ok(());
            }
            self.reload_again(told);
            match directory.watch(&self.key, revision, LOOK)? {
                Watched::Changes(changes) => (revision, entries) = (changes.revision, changes.entries),
                Watched::Lost => return Ok(()),
            }
            told.pause = SHORTEST_PAUSE;
            if std::mem::take(&mut told.is_away) {
                info!(event = "fleet-directory-back", "the directory answers again");
            }
        }
    }

    /// Accepts a record, if it is one to accept, and changes over.
    fn consider(&mut self, record: &[u8], told: &mut Told, stop: &AtomicBool) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        match self.acceptor.accept(record, now) {
            Ok(accepted) => {
                if accepted.is_new {
                    told.refusals.clear();
                }
                self.change_over(&accepted, told, stop);
            }
            Err(AcceptError::Refused(refusal)) => {
                // Whoever writes the directory writes no log: each reason is told once, until a record is accepted.
                let kind = discriminant(&refusal);
                if !told.refusals.contains(&kind) {
                    told.refusals.push(kind);
                    warn!(event = "fleet-record-refused", "{refusal}");
                }
            }
            Err(error) => error!(event = "fleet-record-refused", "{error}"),
        }
    }

    fn change_over(&self, accepted: &Accepted, told: &mut Told, stop: &AtomicBool) {
        let version = accepted.version;
        if self.folder.version() == Some(version) || told.unusable.replace(version) == Some(version) {
            return;
        }
        let stood = if accepted.on_trial { self.stood(stop) } else { Vec::new() };
        if stop.load(Ordering::Relaxed) {
            return;
        }
        match self.folder.install_on_trial(accepted, stood) {
            Ok(false) => {}
            Ok(true) => {
                info!(event = "fleet-version-installed", version, "version {version} is installed");
                match self.folder.trial() {
                    Some(trial) => self.try_out(&trial, told, stop),
                    None => told.reloaded(&self.reload()),
                }
            }
            Err(InstallError::Refused { findings, .. }) => {
                for finding in findings {
                    error!(event = "fleet-version-refused", version, "{finding}");
                }
            }
            Err(error) => error!(event = "fleet-version-refused", version, "{error}"),
        }
    }

    /// Asks the gateway again, if it is time to.
    fn reload_again(&self, told: &mut Told) {
        if told.reload.is_some_and(|(at, _)| at <= Instant::now()) {
            told.reloaded(&self.reload());
        }
    }

    fn try_out(&self, trial: &Trial, told: &mut Told, stop: &AtomicBool) {
        told.reload = None;
        match self.reload() {
            Ok(true) => self.judge(trial, told, stop),
            // It has the configuration before, and goes on with it.
            Ok(false) => self.take_back(trial, "the gateway refuses it"),
            // It reads this version when it starts.
            Err(None) => self.confirm(trial),
            Err(Some(why)) => {
                self.take_back(trial, &why);
                told.reloaded(&self.reload());
            }
        }
    }

    /// Waits until what stood before has had its time to stand again. A trial that is not judged stays one.
    fn judge(&self, trial: &Trial, told: &mut Told, stop: &AtomicBool) {
        wait(PROOF, stop);
        let mut fallen = self.expected(trial);
        for _ in 0..LAST_LOOKS {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let standing = self.standing().ok().flatten().unwrap_or_default();
            fallen.retain(|name| !standing.contains(name));
            if fallen.is_empty() {
                return self.confirm(trial);
            }
            wait(LOOK, stop);
        }
        self.take_back(trial, &format!("{} does not stand any more", fallen.join(", ")));
        told.reloaded(&self.reload());
    }

    /// What stood before and is in the configuration still.
    fn expected(&self, trial: &Trial) -> Vec<String> {
        let Ok((config, _)) = config::load(&self.folder.configuration()) else { return trial.stood.clone() };
        let names = names(&config);
        trial.stood.iter().filter(|name| names.contains(name)).cloned().collect()
    }

    fn confirm(&self, trial: &Trial) {
        let version = trial.version;
        match self.folder.confirm() {
            Ok(()) => info!(event = "fleet-version-confirmed", version, "version {version} stays"),
            Err(error) => error!(event = "fleet-version-refused", version, "{error}"),
        }
    }

    fn take_back(&self, trial: &Trial, why: &str) {
        let Trial { version, before, .. } = *trial;
        match self.folder.take_back(trial) {
            Ok(()) => error!(
                event = "fleet-version-taken-back",
                version, "version {version} is taken back, and version {before} is in use again: {why}"
            ),
            Err(error) => error!(event = "fleet-version-refused", version, "{error}"),
        }
    }

    /// What stands before a change. What starts has its time, as it has afterwards; of a gateway that does not tell, all has to stand.
    fn stood(&self, stop: &AtomicBool) -> Vec<String> {
        let all = config::load(&self.folder.configuration())
            .map_or_else(|_| Vec::new(), |(config, _)| names(&config));
        let since = Instant::now();
        loop {
            let standing = match self.standing() {
                Err(NoGateway) => return Vec::new(),
                Ok(standing) => standing,
            };
            let is_whole =
                standing.as_ref().is_some_and(|standing| all.iter().all(|name| standing.contains(name)));
            if is_whole || since.elapsed() > PROOF || stop.load(Ordering::Relaxed) {
                return standing.unwrap_or(all);
            }
            wait(LOOK, stop);
        }
    }

    /// Names of links and sites that protect; none if the gateway does not tell, or starts.
    fn standing(&self) -> Result<Option<Vec<String>>, NoGateway> {
        let document = match report::ask(&self.runtime, &self.gateway) {
            Err(AskError::Silent { source, .. }) if is_no_gateway(&source) => return Err(NoGateway),
            asked => asked,
        };
        let report = document.and_then(|document| report::parse(&self.gateway, &document));
        let Some(report) = report.ok().filter(|report| report.configuration.is_some()) else {
            return Ok(None);
        };
        let links = report.links.iter().map(|link| (&link.name, &link.verdict));
        let all = links.chain(report.sites.iter().map(|site| (&site.name, &site.verdict)));
        Ok(Some(all.filter(|(_, verdict)| verdict.protecting).map(|(name, _)| name.clone()).collect()))
    }

    /// Has the gateway read its configuration again. Whether it took it; else no reason if no gateway runs, or why that is not known.
    fn reload(&self) -> Result<bool, Option<String>> {
        match client::reload(&self.runtime, &self.gateway, false) {
            Ok(outcome) => {
                if !outcome.done {
                    outcome.lines.iter().for_each(|line| error!(event = "fleet-version-refused", "{line}"));
                }
                Ok(outcome.done)
            }
            Err(error) => {
                warn!(event = "fleet-gateway-away", "{error}");
                let is_away = matches!(&error, RequestError::Silent { source, .. } if is_no_gateway(source));
                Err((!is_away).then(|| error.to_string()))
            }
        }
    }
}

/// Names of links and sites.
fn names(config: &Config) -> Vec<String> {
    let links = config.links.iter().map(|link| &link.name);
    links.chain(config.sites.iter().map(|site| &site.name)).cloned().collect()
}

/// True if nobody listens there; a gateway that is slow, or does not let this user ask, runs.
fn is_no_gateway(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Waits so long, or until `stop` is set.
fn wait(time: Duration, stop: &AtomicBool) {
    let since = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = time.saturating_sub(since.elapsed());
        if left.is_zero() {
            return;
        }
        sleep(left.min(LOOK));
    }
}
