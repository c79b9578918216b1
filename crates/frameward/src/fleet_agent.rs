//! Agent of a gateway in a fleet: follows the directory, and changes the running gateway over by `reload`, on trial.
//!
//! ```text
//!  directory ──watch──▶ verify, remember ──▶ install on trial ──▶ reload ──▶ 30 s ──▶ what stood before stands: confirmed
//!                                                                              └────▶ something fell: back, reload again
//! ```
//!
//! A thread of the gateway ([`crate::run`]), or a process beside it (`fleet follow`). It may end at any time. The gateway runs on, and a
//! trial that was under way is judged by the next agent. That one has the gateway reload first: whether the gateway has the version that
//! stands in the folder is not known.
//!
//! | the gateway | is told by | the trial |
//! |---|---|---|
//! | has the version | the answer to `reload` | is judged |
//! | refuses it | the answer to `reload` | is taken back |
//! | does not run | no socket, one that nobody listens on, or it waits for a version | ends: it reads the version when it starts, and the operator hears of that when it has answered |
//! | does not tell | anything else | is taken back |
//!
//! Settings that a gateway takes over at a start alone wait for a restart, and are on trial then. If they are taken back, no reload leads to the
//! version before: the gateway ends, and the service manager starts it with that.
//!
//! While the directory is away it is tried again, ever more seldom, up to [`LONGEST_PAUSE`]. Nothing is kept for it meanwhile. Servers are tried
//! at another time by each agent: all of a fleet lose them at once, and come back with a TLS handshake each.

mod gateway;
mod reload;
mod seen;
mod spread;
mod standing;
mod trial;
mod turn;
mod verdicts;

use std::fs::File;
use std::mem::{Discriminant, discriminant};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use fleet::directory::{Address, Directory, DirectoryError, Watched, configuration_key};
use fleet::install::{ConfigurationFolder, InstallError};
use fleet::{AcceptError, Accepted, Acceptor, Heart, Member, Parts, Refusal, Said};
pub use gateway::{BesideGateway, GatewayToStart, NoGateway, NotReloaded, RunningGateway};
use reload::Reloaded;
pub use seen::{FleetState, Seen};
use standing::Part;
use tracing::{error, info, warn};
use turn::{AgentTurn, Work};
pub use turn::{Turns, UpgradeTurn};

use crate::membership::OnBox;

/// Time that all that stood has to stand again.
const PROOF: Duration = Duration::from_secs(30);
/// Time between two looks at links at the end of that, and at whether the agent shall stop.
const LOOK: Duration = Duration::from_millis(500);
/// Time in which the operator hears why a gateway ends. It ends all the same.
const FAREWELL: Duration = Duration::from_secs(5);
/// First pause before a file that is away is tried again, and a gateway that did not take a version.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The same of servers: 5,000 agents come back in so many seconds, and a handshake costs a server a millisecond or two.
const FIRST_PAUSE_OF_SERVERS: Duration = Duration::from_secs(8);
/// Longest pause. Each takes a random part of its time, so that agents do not come back at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Interval between two heartbeats without a change. The first one behind a change comes in its second half.
const BEAT: Duration = Duration::from_secs(fleet::BEAT);
/// Interval between two looks at verdicts, and so between two heartbeats that tell of them.
const VERDICTS: Duration = Duration::from_secs(5);
/// Most heartbeats with news within [`BEAT`] before a change of verdicts alone waits until the next one is due: what comes and goes fills no directory.
const NEWS: u32 = 12;
/// Longest interval between two looks without a change: a record may have become valid.
const RELIST: Duration = Duration::from_secs(600);

/// An agent of one gateway.
#[derive(Debug)]
pub struct Agent {
    /// Key of the gateway's record in the directory.
    key: String,
    /// Memory of the records that the gateway has accepted.
    acceptor: Acceptor,
    /// Its heartbeats.
    heart: Heart,
    /// Folder of its configuration.
    pub folder: ConfigurationFolder,
    /// Address of the directory.
    directory: Address,
    /// State of the directory and of the versions, as the agent sees it.
    pub seen: Seen,
    /// Its turns and those of upgrades of the gateway.
    pub turns: Turns,
}

/// State that was seen and told so far.
#[derive(Default)]
struct Told {
    /// The record that was considered last.
    last: Vec<u8>,
    /// Time at which that was.
    considered: Option<Instant>,
    is_away: bool,
    pause: Duration,
    refusals: Vec<Discriminant<Refusal>>,
    /// The version that was tried last: it is in use, or was refused.
    unusable: Option<u64>,
    /// Words of the last heartbeat, and the time of the next one.
    said: Option<(Said, Instant)>,
    /// Heartbeats with news, and since when they are counted.
    news: Option<(Instant, u32)>,
    /// Verdicts on the gateway's parts, and when they were looked at.
    parts: Option<Parts>,
    looked: Option<Instant>,
    /// Time of the next try of a heartbeat that was not taken, and the pause before that.
    beat_again: Option<(Instant, Duration)>,
    /// The gateway has not taken a version that is on no trial.
    is_unloaded: bool,
    /// No gateway ran when one was asked last: told once.
    is_gateway_away: bool,
    /// The gateway may run with another version than the one in its folder: when it is asked again, and the pause behind that.
    reload: Option<(Instant, Duration)>,
    /// The gateway has to end, and why.
    ends: Option<String>,
}

impl Told {
    /// None if no heartbeat with these words goes now; otherwise true if they are news.
    fn goes_now(&self, said: &Said, now: Instant) -> Option<bool> {
        let Some((before, due)) = &self.said else { return Some(true) };
        let is_news = before != said;
        let is_of_verdicts = (before.in_use, &before.outcome, &before.why, before.unused)
            == (said.in_use, &said.outcome, &said.why, said.unused);
        let may_be_told = is_news && (!is_of_verdicts || self.news_at(now).1 < NEWS);
        (*due <= now || may_be_told).then_some(is_news)
    }

    /// Counts a heartbeat that said this.
    fn has_said(&mut self, said: Said, now: Instant, is_news: bool) {
        if is_news {
            let (since, count) = self.news_at(now);
            self.news = Some((since, count.saturating_add(1)));
        }
        self.said = Some((said, spread::next_beat(now, is_news)));
    }

    fn news_at(&self, now: Instant) -> (Instant, u32) {
        let news = self.news.filter(|(since, _)| now.saturating_duration_since(*since) < BEAT);
        news.unwrap_or((now, 0))
    }

    /// Notes the outcome of a reload. One that failed is asked for again, until the gateway has it.
    fn reloaded(&mut self, outcome: &Reloaded) {
        self.reload = match outcome {
            Reloaded::Taken => None,
            Reloaded::Refused(_) | Reloaded::NoGateway | Reloaded::Unknown(_) => {
                let pause = self.reload.map_or(SHORTEST_PAUSE, |(_, pause)| (2 * pause).min(LONGEST_PAUSE));
                Some((Instant::now() + pause, pause))
            }
        };
    }
}

impl Agent {
    /// The agent of a member. `state` is where it is kept how far that is; it is this agent's alone.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub fn open(
        member: Member,
        directory: Address,
        state: &Path,
        folder: ConfigurationFolder,
    ) -> Result<Self, AcceptError> {
        Self::of(Acceptor::open(member, state)?, directory, state, folder)
    }

    /// The same with the lock ([`Self::lock`]) that the program before has passed on.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub fn go_on(
        member: Member,
        directory: Address,
        state: &Path,
        folder: ConfigurationFolder,
        lock: File,
    ) -> Result<Self, AcceptError> {
        Self::of(Acceptor::go_on(member, state, lock)?, directory, state, folder)
    }

    fn of(
        acceptor: Acceptor,
        directory: Address,
        state: &Path,
        folder: ConfigurationFolder,
    ) -> Result<Self, AcceptError> {
        let member = acceptor.member();
        let key = configuration_key(member.fleet, &member.name);
        let heart = Heart::open(member, state);
        let heart = heart.map_err(|source| AcceptError::Disk { path: state.to_owned(), source })?;
        let (seen, turns) = (Seen::default(), Turns::default());
        Ok(Self { key, acceptor, heart, folder, directory, seen, turns })
    }

    /// The lock of its state, which is this agent's alone.
    pub const fn lock(&self) -> &File {
        self.acceptor.lock()
    }

    /// Words of its box about its fleet.
    pub(crate) fn on_box(&self) -> OnBox {
        OnBox::new(self.acceptor.member(), &self.directory, &self.folder)
    }

    /// Turn for one look at a directory that is a file, or one write to it. No upgrade waits for the network.
    fn at_file(&self, stop: &AtomicBool) -> Option<AgentTurn> {
        match self.directory {
            Address::File(_) => self.turns.work(Work::File, stop),
            _ => None,
        }
    }

    /// First pause before the directory is asked again that did not answer.
    const fn first_pause(&self) -> Duration {
        match self.directory {
            Address::File(_) => SHORTEST_PAUSE,
            Address::Etcd(_) => FIRST_PAUSE_OF_SERVERS,
        }
    }

    /// Follows the directory until `stop` is set, and configures `gateway`.
    pub fn run(&mut self, gateway: &dyn RunningGateway, stop: &AtomicBool) {
        let mut told = Told { pause: self.first_pause(), ..Told::default() };
        let mut directory = None;
        let version = self.folder.version();
        self.seen.begin(version);
        if let Some(_turn) = self.turns.work(Work::Version, stop) {
            match self.folder.trial() {
                Some(trial) => self.try_out(&trial, gateway, &mut told, stop),
                // A gateway that does not start with it has not taken it.
                None if version.is_some_and(|version| !self.seen.is_unusable(version)) => {
                    self.reload_untried(gateway, &mut told);
                }
                None => {}
            }
        }
        self.end(gateway, &mut told, stop);
        while !stop.load(Ordering::Relaxed) {
            self.reload_again(gateway, &mut told, stop);
            let followed = self.follow(&mut directory, gateway, &mut told, stop);
            // Also where nothing is wrong: a directory that forgets each watch at once is not asked without end.
            let pause =
                if followed.is_ok() { spread::at_most(SHORTEST_PAUSE) } else { spread::wide(told.pause) };
            wait(pause, stop);
            if let Err(away) = followed {
                if !told.is_away {
                    warn!(event = "fleet-directory-away", "{away}; the gateway runs on with what it has");
                }
                self.seen.directory(Some(away.to_string()));
                told.is_away = true;
                told.pause = (2 * told.pause).min(LONGEST_PAUSE);
            }
        }
    }

    /// Takes what is there, then what changes, until it is time to list anew.
    fn follow(
        &mut self,
        directory: &mut Option<Box<dyn Directory + Send>>,
        gateway: &dyn RunningGateway,
        told: &mut Told,
        stop: &AtomicBool,
    ) -> Result<(), DirectoryError> {
        let directory = match directory {
            Some(directory) => directory,
            None => directory.insert(self.directory.open()?),
        };
        let listing = {
            let _turn = self.at_file(stop);
            self.directory.is_there()?;
            directory.look(&self.key)?
        };
        self.seen.directory(None);
        let relist = Instant::now() + spread::at_most(RELIST);
        let (mut revision, mut entries) = (listing.revision, listing.entries);
        loop {
            // Of several changes the last one counts.
            if let Some(entry) = entries.pop()
                && told.last != entry.value
            {
                // Whoever writes the directory has this thread verify and open records no more often.
                let since = told.considered.map_or(LOOK, |at| at.elapsed());
                wait(LOOK.saturating_sub(since), stop);
                told.considered = Some(Instant::now());
                self.consider(&entry.value, gateway, told, stop);
                told.last = entry.value;
                self.end(gateway, told, stop);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if Instant::now() > relist {
                // A record that was refused then may be valid now.
                told.last.clear();
                told.unusable = None;
                return Ok(());
            }
            self.reload_again(gateway, told, stop);
            look_at_verdicts(gateway, told);
            let turn = self.at_file(stop);
            self.beat(&mut **directory, told);
            let watched = directory.watch(&self.key, revision, LOOK)?;
            drop(turn);
            match watched {
                Watched::Changes(changes) => (revision, entries) = (changes.revision, changes.entries),
                Watched::Lost => return Ok(()),
            }
            self.seen.directory(None);
            told.pause = self.first_pause();
            if std::mem::take(&mut told.is_away) {
                info!(event = "fleet-directory-back", "the directory answers again");
            }
        }
    }

    /// Tells the operator how far this gateway is, if that is new or was not told for long. A directory that does not take it is read all the
    /// same.
    fn beat(&mut self, directory: &mut dyn Directory, told: &mut Told) {
        let Some(mut said) = self.seen.said() else { return };
        said.parts.clone_from(&told.parts);
        let now = Instant::now();
        let Some(is_news) = told.goes_now(&said, now) else { return };
        if told.beat_again.is_some_and(|(at, _)| now < at) {
            return;
        }
        match self.heart.beat(directory, self.acceptor.member(), &said, unix_seconds()) {
            Ok(()) => {
                told.beat_again = None;
                told.has_said(said, now, is_news);
            }
            Err(error) => {
                let pause = told.beat_again.map(|(_, pause)| (2 * pause).min(LONGEST_PAUSE));
                let again = pause.unwrap_or_else(|| self.first_pause());
                told.beat_again = Some((Instant::now() + spread::wide(again), again));
                if pause.is_none() {
                    warn!(
                        event = "fleet-heartbeat-lost",
                        "the operator does not hear how far this gateway is: {error}"
                    );
                }
            }
        }
    }

    /// Accepts a record, if it is one to accept, and changes over.
    fn consider(&mut self, record: &[u8], gateway: &dyn RunningGateway, told: &mut Told, stop: &AtomicBool) {
        match self.acceptor.accept(record, unix_seconds()) {
            Ok(accepted) => {
                if accepted.is_new {
                    told.refusals.clear();
                }
                self.change_over(&accepted, gateway, told, stop);
            }
            Err(AcceptError::Refused(refusal)) => {
                self.seen.refused(self.version_of(record), refusal.to_string());
                // Whoever writes the directory writes no log: each reason is told once, until a record is accepted.
                let kind = discriminant(&refusal);
                if !told.refusals.contains(&kind) {
                    told.refusals.push(kind);
                    warn!(event = "fleet-record-refused", "{refusal}");
                }
            }
            Err(error) => {
                self.seen.refused(self.version_of(record), error.to_string());
                error!(event = "fleet-record-refused", "{error}");
            }
        }
    }

    /// The version of a record, if the operator signed it for this gateway.
    fn version_of(&self, record: &[u8]) -> Option<u64> {
        let member = self.acceptor.member();
        fleet::published(record, member.fleet, &member.name).map(|(_, version)| version)
    }

    fn change_over(
        &self,
        accepted: &Accepted,
        gateway: &dyn RunningGateway,
        told: &mut Told,
        stop: &AtomicBool,
    ) {
        let version = accepted.version;
        if self.folder.version() == Some(version) {
            // A record that was in its place meanwhile, and was refused, is gone.
            if self.folder.trial().is_none() && !told.is_unloaded && !self.seen.is_unusable(version) {
                self.seen.confirmed(Some(version));
            }
            return;
        }
        if told.unusable.replace(version) == Some(version) {
            return;
        }
        let stood = if accepted.on_trial { self.stood(gateway, stop) } else { Vec::new() };
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // An upgrade that is asked for meanwhile waits until the version is judged.
        let Some(_turn) = self.turns.work(Work::Version, stop) else { return };
        let stood = stood.iter().map(Part::line).collect();
        match self.folder.install_on_trial(accepted, stood) {
            Ok(false) => {}
            Ok(true) => {
                info!(event = "fleet-version-installed", version, "version {version} is installed");
                match self.folder.trial() {
                    Some(trial) => self.try_out(&trial, gateway, told, stop),
                    None => self.reload_untried(gateway, told),
                }
            }
            Err(InstallError::Refused { findings, .. }) => {
                let first = findings.first().map_or_else(String::new, ToString::to_string);
                self.seen.refused(Some(version), first);
                for finding in findings {
                    error!(event = "fleet-version-refused", version, "{finding}");
                }
            }
            Err(error) => {
                let is_taken_back = matches!(error, InstallError::TakenBack { .. });
                let state = if is_taken_back { FleetState::TakenBack } else { FleetState::Refused };
                self.seen.not_used(state, Some(version), error.to_string());
                error!(event = "fleet-version-refused", version, "{error}");
            }
        }
    }

    /// Has the gateway end, if it has to. The operator hears why, if the directory takes that in time.
    fn end(&mut self, gateway: &dyn RunningGateway, told: &mut Told, stop: &AtomicBool) {
        let Some(why) = told.ends.take() else { return };
        std::thread::scope(|scope| {
            let tell = || {
                let _turn = self.at_file(stop);
                if let Ok(mut directory) = self.directory.open() {
                    self.beat(&mut *directory, told);
                }
            };
            // A directory may be silent for ever: this thread may wait for it, and the gateway may not.
            let telling = std::thread::Builder::new().name("fw-fleet".to_owned()).spawn_scoped(scope, tell);
            let since = Instant::now();
            while telling.as_ref().is_ok_and(|telling| !telling.is_finished()) && since.elapsed() < FAREWELL {
                sleep(LOOK / 10);
            }
            gateway.end(&why);
        });
        wait(PROOF, stop);
    }
}

/// Looks at the verdicts on the gateway's parts, if it is time to. None if no gateway runs, or it does not tell, or starts.
fn look_at_verdicts(gateway: &dyn RunningGateway, told: &mut Told) {
    if told.looked.is_some_and(|at| at.elapsed() < VERDICTS) {
        return;
    }
    let report = gateway.report().ok().flatten().filter(|report| report.configuration.is_some());
    told.parts = report.as_ref().map(verdicts::parts);
    told.looked = Some(Instant::now());
}

/// Seconds since 1970 by this machine's clock.
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
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

#[cfg(test)]
mod tests;
