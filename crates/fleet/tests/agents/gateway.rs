//! A gateway with its agent.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeFrom;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet::directory::{Directory as _, Watched, configuration_key};
use fleet::install::{ConfigurationFolder, InstallError, Trial};
use fleet::{AcceptError, Acceptor, FileName, GatewayName, Member};
use suite::identity::{Identity, PublicKey};

use super::directory::Simulated;
use crate::{Change, files};

/// Time that links have to stand again, in seconds, as the agent's.
const PROOF: u64 = 30;
/// Time after which an agent asks anew, in seconds. Shorter than that of the agent, which is 600 s: a world is shorter, too.
const RELIST: u64 = 40;
/// The name of the link.
const LINK: &str = "press";

pub(crate) struct Gateway {
    number: usize,
    fleet: PublicKey,
    state: PathBuf,
    folder: ConfigurationFolder,
    /// The agent, while it runs.
    agent: Option<Agent>,
    /// The change that the gateway runs with, and whether links fall with it.
    running: Option<(Change, bool)>,
    has_stood: bool,
    /// The newest change that was installed.
    newest: Change,
    taken_back: BTreeSet<Change>,
}

struct Agent {
    acceptor: Acceptor,
    /// The newest version that was accepted.
    version: u64,
    /// Behind this revision it watches; without one it looks.
    after: Option<u64>,
    last: Vec<u8>,
    listed: u64,
    trial: Option<(Trial, u64)>,
}

impl Gateway {
    pub(crate) fn new(number: usize, fleet: PublicKey, place: &Path) -> Self {
        Self {
            number,
            fleet,
            state: place.join(format!("state-{number}")),
            folder: ConfigurationFolder::new(&place.join(format!("box-{number}"))),
            agent: None,
            running: None,
            has_stood: false,
            newest: 0,
            taken_back: BTreeSet::new(),
        }
    }

    pub(crate) fn name(&self) -> GatewayName {
        GatewayName::new(&format!("gateway-{}", self.number)).expect("a name")
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::new(&[20 + self.number as u8; 32])
    }

    /// The change that stands in the folder; 0 for none.
    pub(crate) fn change(&self) -> Change {
        self.installed().map_or(0, |(change, _)| change)
    }

    pub(crate) fn stands(&self) -> bool {
        self.running.is_some_and(|(_, breaks)| !breaks)
    }

    pub(crate) fn stands_if_it_stood(&self) -> bool {
        self.stands() || !self.has_stood
    }

    /// Whether it has taken back one of these.
    pub(crate) fn has_taken_back(&self, changes: RangeFrom<Change>) -> bool {
        self.taken_back.range(changes).next().is_some()
    }

    pub(crate) fn taken_back(&self) -> u64 {
        self.taken_back.len() as u64
    }

    /// Its agent ends, wherever it is. The gateway runs on.
    pub(crate) fn kill(&mut self) {
        self.agent = None;
    }

    /// It forgets what it accepted, and not what is in its folder.
    pub(crate) fn lose_memory(&mut self) {
        self.agent = None;
        let _ = fs::remove_dir_all(&self.state);
    }

    /// The change in the folder, and whether links fall with it. `None` without one.
    fn installed(&self) -> Option<(Change, bool)> {
        let text = fs::read_to_string(self.folder.configuration()).ok()?;
        let (change, breaks) = text.lines().next()?.strip_prefix("# ")?.split_once(' ')?;
        Some((change.parse().ok()?, breaks == "true"))
    }

    /// The gateway reads its configuration.
    fn reload(&mut self) {
        self.running = self.installed();
        self.has_stood |= self.stands();
    }

    /// A second of its agent. `dies`: it is killed if it accepts something, before that is installed. How many versions were installed.
    pub(crate) fn step(&mut self, now: u64, directory: &mut Simulated, dies: bool) -> Result<u64, String> {
        if self.agent.is_none() {
            self.start(now)?;
            return Ok(0);
        }
        if let Some(agent) = &mut self.agent
            && let Some((trial, due)) = agent.trial.clone()
        {
            if due <= now {
                agent.trial = None;
                self.judge(&trial)?;
            }
            return Ok(0);
        }
        let Some(record) = self.follow(now, directory) else { return Ok(0) };
        self.consider(&record, now, dies)
    }

    fn start(&mut self, now: u64) -> Result<(), String> {
        let member = Member { fleet: self.fleet, name: self.name(), identity: self.identity() };
        let acceptor = Acceptor::open(member, &self.state).map_err(|error| error.to_string())?;
        let version = acceptor.version().unwrap_or(0);
        self.reload();
        let trial = self.folder.trial().map(|trial| (trial, now + PROOF));
        self.agent = Some(Agent { acceptor, version, after: None, last: vec![], listed: now, trial });
        Ok(())
    }

    /// A record that the directory tells, and that was not the last one.
    fn follow(&mut self, now: u64, directory: &mut Simulated) -> Option<Vec<u8>> {
        let key = configuration_key(self.fleet, &self.name());
        let agent = self.agent.as_mut()?;
        if now - agent.listed > RELIST {
            (agent.after, agent.listed) = (None, now);
            agent.last.clear();
        }
        let told = match agent.after.take() {
            None => directory.look(&key).ok()?,
            Some(after) => match directory.watch(&key, after, Duration::ZERO).ok()? {
                Watched::Changes(changes) => changes,
                Watched::Lost => return None,
            },
        };
        agent.after = Some(told.revision);
        let record = told.entries.into_iter().next_back()?.value;
        (agent.last != record).then(|| agent.last.clone_from(&record))?;
        Some(record)
    }

    fn consider(&mut self, record: &[u8], now: u64, dies: bool) -> Result<u64, String> {
        let stood = if self.stands() { vec![LINK.to_owned()] } else { vec![] };
        let name = self.name();
        let Some(agent) = &mut self.agent else { return Ok(0) };
        let accepted = match agent.acceptor.accept(record, now) {
            Ok(accepted) => accepted,
            Err(AcceptError::Refused(_)) => return Ok(0),
            Err(error) => return Err(error.to_string()),
        };
        if accepted.version < agent.version {
            return Err(format!("nothing older: {name} accepts version {}", accepted.version));
        }
        agent.version = accepted.version;
        if dies {
            self.kill();
            return Ok(0);
        }
        match self.folder.install_on_trial(&accepted, stood) {
            Ok(true) => {}
            Ok(false) | Err(InstallError::TakenBack { .. } | InstallError::Older { .. }) => return Ok(0),
            Err(error) => return Err(error.to_string()),
        }
        self.judge_installed()?;
        self.reload();
        let trial = self.folder.trial().map(|trial| (trial, now + PROOF));
        if let Some(agent) = &mut self.agent {
            agent.trial = trial;
        }
        Ok(1)
    }

    /// What was installed is what the operator made for this gateway, whole, and newer than all before.
    fn judge_installed(&mut self) -> Result<(), String> {
        let name = self.name();
        let (change, breaks) = self.installed().ok_or_else(|| format!("all is whole: {name} has nothing"))?;
        for (file, content) in files(name.as_str(), change, breaks).iter() {
            let path = self.folder.configuration().with_file_name(file.as_str());
            if fs::read(path).ok().as_deref() != Some(content) {
                return Err(format!("all is whole: {} of {name}, change {change}", file.as_str()));
            }
        }
        let folder = self.folder.configuration();
        let count = folder.parent().and_then(|folder| fs::read_dir(folder).ok()).map_or(0, Iterator::count);
        // The configuration, its key, and the folder of marks.
        if count != 3 || FileName::new("press.cak").is_none() {
            return Err(format!("all is whole: {name} has {count} files"));
        }
        if self.taken_back.contains(&change) {
            return Err(format!("what was taken back stays away: change {change} of {name}"));
        }
        if change <= self.newest {
            return Err(format!("nothing older: {name} installs change {change} after {}", self.newest));
        }
        self.newest = change;
        Ok(())
    }

    /// Ends a trial, as the agent does.
    fn judge(&mut self, trial: &Trial) -> Result<(), String> {
        let name = self.name();
        let tried = self.change();
        let result = if self.stands() || trial.stood.iter().all(|name| name != LINK) {
            self.folder.confirm()
        } else {
            self.taken_back.insert(tried);
            self.folder.take_back(trial)
        };
        result.map_err(|error| error.to_string())?;
        self.reload();
        if self.taken_back.contains(&tried) && self.folder.version() != Some(trial.before) {
            return Err(format!("taking back leads to what was before: change {tried} of {name}"));
        }
        Ok(())
    }
}
