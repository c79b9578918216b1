//! Agents, and gateways that load what these install: each load is judged, and kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use fleet::Member;
use fleet::install::ConfigurationFolder;
use frameward::fleet_agent::{Agent, NoGateway, NotReloaded, RunningGateway};
use report::GatewayReport;
use report::control_socket::Outcome;

use super::GATEWAYS;
use super::operator::{FOREIGN, files, identity, name, operator};

/// Versions that a gateway was told to load.
#[derive(Debug, Default)]
struct Loads {
    /// Versions, with the change that each one was.
    versions: BTreeMap<u64, u64>,
    wrong: Option<String>,
}

/// A gateway that loads what is installed.
#[derive(Clone, Debug)]
struct Gateway {
    number: usize,
    folder: ConfigurationFolder,
    loads: Arc<Mutex<Loads>>,
}

impl RunningGateway for Gateway {
    fn report(&self) -> Result<Option<GatewayReport>, NoGateway> {
        Err(NoGateway)
    }

    fn reload(&self) -> Result<Outcome, NotReloaded> {
        let mut loads = self.loads.lock().unwrap();
        if let Err(wrong) = self.load(&mut loads) {
            loads.wrong.get_or_insert(format!("{}: {wrong}", name(self.number)));
        }
        Ok(Outcome { done: true, lines: Vec::new() })
    }
}

impl Gateway {
    /// Reads its configuration as it stands: whole, made for it, and not older than the one before.
    fn load(&self, loads: &mut Loads) -> Result<(), String> {
        let version = self.folder.version().ok_or("there is no version")?;
        let configuration = self.folder.configuration();
        let text = fs::read_to_string(&configuration).map_err(|error| error.to_string())?;
        let change = text.lines().next().and_then(|line| line.strip_prefix("# ")?.parse().ok());
        let change: u64 = change.ok_or("the configuration is not what the operator writes")?;
        if change >= FOREIGN {
            return Err(format!("version {version} was not signed by the operator"));
        }
        let made = files(self.number, change);
        for (file, content) in made.iter() {
            let there = fs::read(configuration.with_file_name(file.as_str()));
            if there.ok().as_deref() != Some(content) {
                return Err(format!("version {version} is not whole: {}", file.as_str()));
            }
        }
        let newest = loads.versions.last_key_value().map(|(version, change)| (*version, *change));
        if newest
            .is_some_and(|newest| (version, change) < newest || (version == newest.0) != (change == newest.1))
        {
            return Err(format!("version {version} with change {change} after {newest:?}"));
        }
        loads.versions.insert(version, change);
        Ok(())
    }
}

struct Running {
    gateway: Gateway,
    stop: Arc<AtomicBool>,
    agent: Option<JoinHandle<()>>,
}

/// All gateways, each with its agent.
pub(super) struct Gateways {
    address: String,
    place: PathBuf,
    all: Vec<Running>,
}

impl Gateways {
    /// Starts them. Their folders are in `place`.
    pub(super) fn start(address: &str, place: &Path) -> Self {
        let gateway = |number| Gateway {
            number,
            folder: ConfigurationFolder::new(&place.join(format!("box-{number}"))),
            loads: Arc::default(),
        };
        let running = |number| Running { gateway: gateway(number), stop: Arc::default(), agent: None };
        let all = (0..GATEWAYS).map(running).collect();
        let mut gateways = Self { address: address.to_owned(), place: place.to_owned(), all };
        (0..GATEWAYS).for_each(|at| gateways.run(at));
        gateways
    }

    fn run(&mut self, at: usize) {
        let state = self.place.join(format!("state-{at}"));
        fs::create_dir_all(&state).unwrap();
        let member = Member { fleet: operator().fleet(), name: name(at), identity: identity(at) };
        let (gateway, stop) = (self.all[at].gateway.clone(), Arc::new(AtomicBool::new(false)));
        let mut agent =
            Agent::open(member, self.address.parse().unwrap(), &state, gateway.folder.clone()).unwrap();
        self.all[at].stop = Arc::clone(&stop);
        self.all[at].agent = Some(thread::spawn(move || agent.run(&gateway, &stop)));
    }

    fn halt(&mut self, at: usize) {
        self.all[at].stop.store(true, Ordering::Relaxed);
        if let Some(agent) = self.all[at].agent.take() {
            agent.join().unwrap();
        }
    }

    /// An agent ends, and another one goes on.
    pub(super) fn restart(&mut self, at: usize) {
        self.halt(at);
        self.run(at);
    }

    /// The newest change that each one has loaded.
    pub(super) fn changes(&self) -> Vec<Option<u64>> {
        let newest = |one: &Running| one.gateway.loads.lock().unwrap().versions.values().last().copied();
        self.all.iter().map(newest).collect()
    }

    /// True if each one has loaded this change, or a newer one.
    pub(super) fn have_all(&self, wanted: &BTreeMap<usize, u64>) -> bool {
        let changes = self.changes();
        wanted.iter().all(|(at, change)| changes[*at] >= Some(*change))
    }

    /// A load that should not have been.
    pub(super) fn wrong(&self) -> Option<String> {
        self.all.iter().find_map(|one| one.gateway.loads.lock().unwrap().wrong.clone())
    }

    /// Ends them all. How many versions each one has loaded.
    pub(super) fn end(&mut self) -> Vec<usize> {
        (0..GATEWAYS).for_each(|at| self.halt(at));
        self.all.iter().map(|one| one.gateway.loads.lock().unwrap().versions.len()).collect()
    }
}

impl Drop for Gateways {
    fn drop(&mut self) {
        for one in &self.all {
            one.stop.store(true, Ordering::Relaxed);
        }
    }
}
