//! A gateway's membership in a fleet, by `[fleet]` in the configuration of its box.
//!
//! ```text
//!  STATE/fleet/fleet-FLEET-NAME.reached         how far it is (crate fleet)
//!  STATE/fleet/NAME/current/frameward.toml      what it runs with
//! ```
//!
//! All of that stands below the state directory, which is the gateway's own to write under its unit. The box's file stays as the
//! operator of the box wrote it.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use config::{Config, Finding};
use fleet::directory::Address;
use fleet::install::ConfigurationFolder;
use fleet::{AcceptError, GatewayName, Member};
use nix::unistd::Uid;
use report::FleetReport;
use serde::{Deserialize, Serialize};

use crate::fleet_agent::{Agent, Seen};

/// Folder below the state directory.
const FOLDER: &str = "fleet";

/// A gateway's membership in a fleet.
#[derive(Debug)]
pub struct Membership {
    /// Its name.
    pub name: String,
    /// The box's own configuration.
    pub file: PathBuf,
    /// Folder of the fleet's configuration.
    pub folder: ConfigurationFolder,
    /// State of the fleet, as the agent sees it.
    pub seen: Seen,
    /// The agent, or why there is none: without it the gateway runs on with what it has.
    pub agent: Result<Agent, AcceptError>,
}

impl Membership {
    /// The same, whose agent goes on with what another one has seen.
    #[must_use]
    pub fn with(self, seen: Seen) -> Self {
        let agent = self.agent.map(|mut agent| {
            agent.seen = seen.clone();
            agent
        });
        Self { seen, agent, ..self }
    }
}

/// Words of a box about its fleet, for another program to compare. It is read at a start alone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OnBox {
    /// Public key of the operator, name and public key of the gateway.
    member: [String; 3],
    /// The directory.
    directory: String,
    /// The configuration that comes from there.
    configuration: String,
}

impl OnBox {
    pub(crate) fn new(member: &Member, directory: &Address, folder: &ConfigurationFolder) -> Self {
        let Member { fleet, name, identity } = member;
        let member = [fleet.to_string(), name.to_string(), identity.public().to_string()];
        let configuration = folder.configuration().display().to_string();
        Self { member, directory: directory.to_string(), configuration }
    }
}

/// Settings of a fleet in a box's configuration.
struct Judged {
    member: Member,
    directory: Address,
    /// Directory that keeps how far the gateway is.
    state: PathBuf,
    /// Folder of the fleet's configuration.
    folder: PathBuf,
    /// Line of `[fleet]`.
    line: usize,
}

/// The membership by a box's configuration; none if that has no `[fleet]`. To be called as the user that the gateway runs as.
///
/// # Errors
/// Findings in it, with line and cure.
pub fn of(config: &Config) -> Result<Option<Membership>, Vec<Finding>> {
    open(config, None)
}

/// The same in a program that goes on with a running gateway: with what its agent has seen, and with the lock of its agent's state, if there
/// was an agent.
///
/// # Errors
/// As [`of`].
pub fn going_on(
    config: &Config,
    before: FleetReport,
    lock: Option<File>,
) -> Result<Option<Membership>, Vec<Finding>> {
    let membership = open(config, lock)?;
    if let Some(membership) = &membership {
        membership.seen.go_on(before);
    }
    Ok(membership)
}

fn open(config: &Config, lock: Option<File>) -> Result<Option<Membership>, Vec<Finding>> {
    let Some(Judged { member, directory, state, folder, line }) = judged(config)? else { return Ok(None) };
    for path in [&state, &folder] {
        if let Some(owner) = other_owner(path) {
            let text = format!(
                "{} belongs to another user; give it to the one who runs the gateway, or run the gateway as its owner (user {owner})",
                path.display()
            );
            return Err(vec![Finding { file: config.file.clone(), line: Some(line), text }]);
        }
    }
    let folder = ConfigurationFolder::new(&folder);
    let agent = match lock {
        Some(lock) => Agent::go_on(member, directory, &state, folder.clone(), lock),
        None => Agent::open(member, directory, &state, folder.clone()),
    };
    let seen = agent.as_ref().map_or_else(|_| Seen::default(), |agent| agent.seen.clone());
    let file = std::path::absolute(&config.file).unwrap_or_else(|_| config.file.clone());
    seen.is_of(file.clone());
    Ok(Some(Membership { name: config.gateway.name.clone(), file, folder, seen, agent }))
}

/// Returns the path of the fleet's configuration that a box's configuration leads to; none if it has no `[fleet]`. Changes nothing; any user who can
/// read it may ask.
///
/// # Errors
/// As [`of`].
pub fn configuration(config: &Config) -> Result<Option<PathBuf>, Vec<Finding>> {
    Ok(folder(config)?.map(|folder| folder.configuration()))
}

/// Words of a box about its fleet; none if its configuration has no `[fleet]`.
///
/// # Errors
/// As [`of`].
pub fn on_box(config: &Config) -> Result<Option<OnBox>, Vec<Finding>> {
    let judged = judged(config)?;
    Ok(judged.map(|judged| {
        OnBox::new(&judged.member, &judged.directory, &ConfigurationFolder::new(&judged.folder))
    }))
}

/// The folder that has it.
///
/// # Errors
/// As [`of`].
pub fn folder(config: &Config) -> Result<Option<ConfigurationFolder>, Vec<Finding>> {
    Ok(judged(config)?.map(|judged| ConfigurationFolder::new(&judged.folder)))
}

fn judged(config: &Config) -> Result<Option<Judged>, Vec<Finding>> {
    let Some(fleet) = &config.fleet else { return Ok(None) };
    let found = |text: String| vec![Finding { file: config.file.clone(), line: Some(fleet.line.0), text }];
    if !config.links.is_empty() || !config.sites.is_empty() {
        return Err(found(
            "[fleet] stands beside links, sites or fieldbuses; take those into the fleet's inventory, and out of this file"
                .to_owned(),
        ));
    }
    let directory: Address =
        fleet.directory.parse().map_err(|error| found(format!("directory = {error}")))?;
    let path = fleet.identity.display();
    // One that cannot be reached is told with its reason below.
    if matches!(fleet.identity.try_exists(), Ok(false)) {
        return Err(found(format!(
            "identity {path} does not exist; have this box ask to be taken into the fleet, which makes it: frameward fleet enrol"
        )));
    }
    let identity = config::key_file::read_identity(&fleet.identity);
    let identity = identity.map_err(|error| found(format!("identity: {error}")))?;
    let name = GatewayName::new(&config.gateway.name);
    let name = name.ok_or_else(|| found("the gateway's name is none that a fleet can have".to_owned()))?;
    let state = config.gateway.state.join(FOLDER);
    let folder = state.join(name.as_str());
    let member = Member { fleet: fleet.operator, name, identity };
    Ok(Some(Judged { member, directory, state, folder, line: fleet.line.0 }))
}

/// The owner of a folder, if that is another user than this process runs as. Root would follow the links in it, and write what its owner
/// cannot read. One that is not there is made by this user.
pub fn other_owner(folder: &Path) -> Option<Uid> {
    let owner = std::fs::metadata(folder).map(|found| Uid::from_raw(found.uid())).ok()?;
    (owner != Uid::effective()).then_some(owner)
}
