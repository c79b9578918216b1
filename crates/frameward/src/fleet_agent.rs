//! Agent of a gateway in a fleet: follows the directory, and changes the running gateway over by `reload`, on trial.
//!
//! ```text
//!  directory ──watch──▶ verify, remember ──▶ install on trial ──▶ reload ──▶ 30 s ──▶ what stood before stands: confirmed
//!                                                                              └────▶ something fell: back, reload again
//! ```
//!
//! A process of its own, beside the gateway: what a directory answers is read where neither frames nor capabilities are. It may
//! end at any time. The gateway runs on, and a trial that was under way is judged by the next agent.
//!
//! While the directory is away it is tried again, ever more seldom, up to [`LONGEST_PAUSE`]. Nothing is kept for it meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use fleet::directory::{Directory, DirectoryError, Watched};
use fleet::install::{ConfigurationFolder, InstallError, Trial};
use fleet::{AcceptError, Accepted, Acceptor};
use report::control_socket::client;
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

impl Agent {
    /// Follows the directory until `stop` is set.
    pub fn run(&mut self, directory: &mut dyn Directory, stop: &AtomicBool) {
        if let Some(trial) = self.folder.trial() {
            self.judge(&trial, stop);
        }
        let mut pause = SHORTEST_PAUSE;
        let mut is_away = false;
        let mut last = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            match self.follow(directory, &mut last, &mut is_away, stop) {
                Ok(()) => pause = SHORTEST_PAUSE,
                Err(away) => {
                    if !is_away {
                        warn!(event = "fleet-directory-away", "{away}; the gateway runs on with what it has");
                    }
                    is_away = true;
                    wait(pause, stop);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Takes what is there, then what changes, until it is time to list anew.
    fn follow(
        &mut self,
        directory: &mut dyn Directory,
        last: &mut Vec<u8>,
        is_away: &mut bool,
        stop: &AtomicBool,
    ) -> Result<(), DirectoryError> {
        let listing = directory.list(&self.key)?;
        if std::mem::take(is_away) {
            info!(event = "fleet-directory-back", "the directory answers again");
        }
        let since = Instant::now();
        let (mut revision, mut entries) = (listing.revision, listing.entries);
        loop {
            // Another gateway's name may begin with this one's. Of several changes the last one counts.
            if let Some(entry) = entries.into_iter().rfind(|entry| entry.key == self.key)
                && *last != entry.value
            {
                *last = entry.value;
                self.consider(last, stop);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if since.elapsed() > RELIST {
                // What was refused then may be valid now.
                last.clear();
                return Ok(());
            }
            match directory.watch(&self.key, revision, LOOK)? {
                Watched::Changes(changes) => (revision, entries) = (changes.revision, changes.entries),
                Watched::Lost => return Ok(()),
            }
        }
    }

    /// Accepts a record, if it is one to accept, and changes over.
    fn consider(&mut self, record: &[u8], stop: &AtomicBool) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        match self.acceptor.accept(record, now) {
            Ok(accepted) => self.change_over(&accepted, stop),
            Err(AcceptError::Refused(refusal)) => warn!(event = "fleet-record-refused", "{refusal}"),
            Err(error) => error!(event = "fleet-record-refused", "{error}"),
        }
    }

    fn change_over(&self, accepted: &Accepted, stop: &AtomicBool) {
        let version = accepted.version;
        let stood = self.standing().unwrap_or_default();
        match self.folder.install_on_trial(accepted, stood) {
            Ok(false) => {}
            Ok(true) => {
                info!(event = "fleet-version-installed", version, "version {version} is installed");
                match self.folder.trial() {
                    Some(trial) => self.try_out(&trial, stop),
                    None => _ = self.reload(),
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

    fn try_out(&self, trial: &Trial, stop: &AtomicBool) {
        match self.reload() {
            Some(true) => self.judge(trial, stop),
            // It has the configuration before, and goes on with it.
            Some(false) => self.take_back(trial, "the gateway refuses it"),
            // It reads this version when it starts.
            None => self.confirm(trial),
        }
    }

    /// Waits until what stood before has had its time to stand again. A trial that is not judged stays one.
    fn judge(&self, trial: &Trial, stop: &AtomicBool) {
        wait(PROOF, stop);
        let mut fallen = self.expected(trial);
        for _ in 0..LAST_LOOKS {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let standing = self.standing().unwrap_or_default();
            fallen.retain(|name| !standing.contains(name));
            if fallen.is_empty() {
                return self.confirm(trial);
            }
            wait(LOOK, stop);
        }
        self.take_back(trial, &format!("{} does not stand any more", fallen.join(", ")));
        let _ = self.reload();
    }

    /// What stood before and is in the configuration still.
    fn expected(&self, trial: &Trial) -> Vec<String> {
        let Ok((config, _)) = config::load(&self.folder.configuration()) else { return trial.stood.clone() };
        let links = config.links.iter().map(|link| link.name.as_str());
        let names: Vec<_> = links.chain(config.sites.iter().map(|site| site.name.as_str())).collect();
        trial.stood.iter().filter(|name| names.contains(&name.as_str())).cloned().collect()
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

    /// Names of links and sites that protect; none if the gateway does not answer.
    fn standing(&self) -> Option<Vec<String>> {
        let document = report::ask(&self.runtime, &self.gateway).ok()?;
        let report = report::parse(&self.gateway, &document).ok()?;
        let links = report.links.iter().map(|link| (&link.name, &link.verdict));
        let all = links.chain(report.sites.iter().map(|site| (&site.name, &site.verdict)));
        Some(all.filter(|(_, verdict)| verdict.protecting).map(|(name, _)| name.clone()).collect())
    }

    /// Has the gateway read its configuration again. Whether it took it; none if no gateway runs.
    fn reload(&self) -> Option<bool> {
        match client::reload(&self.runtime, &self.gateway, false) {
            Ok(outcome) => {
                if !outcome.done {
                    outcome.lines.iter().for_each(|line| error!(event = "fleet-version-refused", "{line}"));
                }
                Some(outcome.done)
            }
            Err(error) => {
                warn!(event = "fleet-gateway-away", "{error}");
                None
            }
        }
    }
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
