//! Follows a fleet: its directory by one watch, and its inventory and the public identities by their times of change.
//!
//! ```text
//!  thread cockpit-directory:  list heartbeats and records ──▶ watch from that revision ──▶ what changed ──▶ Standing of that gateway
//!  thread cockpit:            each second: inventory, identities, standings ──▶ Overview ──▶ Board
//! ```
//!
//! Nothing is written. The newest heartbeats and versions are in memory, so what is put back into the directory meanwhile is noticed. What
//! `fleet status` has kept beside the identities is taken as seen, too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fleet::directory::{
    Address, Directory, DirectoryError, Entry, FLEETS, Watched, configuration_prefix, fleet_prefix,
    heartbeat_prefix,
};
use fleet::{
    GatewayName, HEARTBEAT_OCTETS, Heartbeat, HeartbeatRefusal, Known, PublicIdentity, Standing, published,
};
use suite::identity::PublicKey;

use super::board::DirectoryView;
use super::files::Files;
use super::overview::Overview;
use super::surface::Surface;

/// Time that a watch takes at most: how soon a stop is noticed.
const LOOK: Duration = Duration::from_millis(500);
/// Interval between two lists: whoever removes entries has this process read no more often.
const RELIST: Duration = Duration::from_secs(5);
/// The longest pause before a directory that is away is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Interval between two overviews.
const TICK: Duration = Duration::from_secs(1);

/// The places of a fleet.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The operator's public key.
    pub fleet: PublicKey,
    /// Place of the fleet's records.
    pub directory: Address,
    /// The folder of public identities.
    pub identities: PathBuf,
    /// The inventory.
    pub inventory: PathBuf,
}

/// The fleet as far as it is known. Locked for moments alone.
#[derive(Debug, Default)]
struct Fleet {
    /// Gateways whose identities are here. What the directory has of others takes no memory.
    members: BTreeMap<GatewayName, Member>,
    standings: BTreeMap<String, Standing>,
    directory: DirectoryView,
    /// The directory was read once.
    is_read: bool,
    /// There is a gateway of which it was not read.
    is_behind: bool,
    /// Cause and cure, if the directory has nothing of this operator, but something of others.
    of_others: Option<String>,
}

/// A gateway as far as it is known.
#[derive(Debug)]
struct Member {
    /// Its public key.
    key: PublicKey,
    /// Whom the record is for, and its version.
    record: Option<(PublicKey, u64)>,
    /// Octets in the place of its heartbeat.
    heartbeat: Option<Vec<u8>>,
    /// The newest heartbeat that was verified.
    seen: Option<Vec<u8>>,
    /// The newest version that was published or seen.
    newest: Option<u64>,
}

/// A fleet that is followed.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) sources: Sources,
    fleet: Mutex<Fleet>,
    pub(super) surface: Arc<Surface>,
    stop: AtomicBool,
}

/// Threads that follow a fleet and show it. They are told to end when this is dropped, and not waited for: a directory may be silent.
#[derive(Debug)]
pub struct Following(Arc<Follower>);

impl Following {
    /// Follows a fleet, and shows it on `surface`, whose layout is that of the inventory as it was read.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(sources: Sources, surface: Arc<Surface>) -> io::Result<Self> {
        let (fleet, stop) = (Mutex::default(), AtomicBool::new(false));
        let follower = Arc::new(Follower { sources, fleet, surface, stop });
        let mut files = Files::default();
        // The directory is then read for all gateways at once.
        files.look(&follower);
        let following = Self(follower);
        following.spawn("cockpit-directory", Follower::watch_directory)?;
        following.spawn("cockpit", move |follower| follower.watch_files(files))?;
        Ok(following)
    }

    fn spawn(&self, name: &str, run: impl FnOnce(&Follower) + Send + 'static) -> io::Result<()> {
        let follower = Arc::clone(&self.0);
        thread::Builder::new().name(name.to_owned()).spawn(move || run(&follower)).map(drop)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Member {
    /// Standing by all that is known now.
    fn look(&mut self, fleet: PublicKey, gateway: &GatewayName, now: u64) -> Standing {
        let known = Known { fleet, gateway, member: self.key };
        let version = self.record.filter(|(of, _)| *of == self.key).map(|(_, version)| version);
        let there = self.heartbeat.clone();
        let mut standing = Standing::of(version, there, known, self.seen.as_deref(), self.newest, now);
        if let Some(newer) = standing.newer.take() {
            self.seen = Some(newer);
        }
        self.newest = self.newest.max(version);
        standing
    }
}

impl Fleet {
    /// Takes something new of a gateway, if it is one of the fleet.
    fn change(&mut self, of: PublicKey, name: &GatewayName, now: u64, change: impl FnOnce(&mut Member)) {
        let Some(member) = self.members.get_mut(name) else { return };
        change(member);
        self.standings.insert(name.to_string(), member.look(of, name, now));
    }
}

impl Follower {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        locked(&self.fleet)
    }

    /// Looks at the files each few seconds and makes an overview each second, until it is stopped.
    fn watch_files(&self, mut files: Files) {
        while !self.is_stopped() {
            files.look(self);
            self.show(files.problems());
            thread::sleep(TICK);
        }
    }

    fn show(&self, problems: Vec<String>) {
        let (layout, now) = (self.surface.layout(), unix_seconds());
        let of = self.sources.fleet;
        let (overview, directory) = {
            let mut fleet = self.fleet();
            if !fleet.is_read {
                if let Some(away) = &fleet.directory.away {
                    self.surface.wait(away.clone());
                }
                return;
            }
            // Nobody is accused before it is known that this is the fleet.
            if let Some(why) = &fleet.of_others {
                self.surface.wait(why.clone());
                return;
            }
            // Their clocks, or this one, are nearer to the other by now.
            let is_ahead = |standing: &Standing| matches!(standing.refusal, Some(HeartbeatRefusal::Ahead(_)));
            let ahead = fleet.standings.iter().filter(|(_, standing)| is_ahead(standing));
            let ahead: Vec<_> = ahead.filter_map(|(name, _)| GatewayName::new(name)).collect();
            ahead.iter().for_each(|name| fleet.change(of, name, now, |_| ()));
            (Overview::new(of, &layout, &fleet.standings, now), fleet.directory.clone())
        };
        self.surface.show(overview, directory, problems);
    }

    /// Follows the directory, until it is stopped.
    fn watch_directory(&self) {
        let (mut directory, mut pause) = (None, TICK);
        while !self.is_stopped() {
            let since = Instant::now();
            match self.follow(&mut directory) {
                Ok(()) => {
                    pause = TICK;
                    self.wait(RELIST.saturating_sub(since.elapsed()));
                }
                Err(away) => {
                    directory = None;
                    let mut fleet = self.fleet();
                    fleet.directory.away = Some(away.to_string());
                    drop(fleet);
                    self.wait(pause);
                    pause =
                        if since.elapsed() > LONGEST_PAUSE { TICK } else { (2 * pause).min(LONGEST_PAUSE) };
                }
            }
        }
    }

    fn wait(&self, time: Duration) {
        let since = Instant::now();
        while !self.is_stopped() && since.elapsed() < time {
            thread::sleep(LOOK.min(time));
        }
    }

    /// Takes what is there, then what changes, until the directory does not know what changed.
    fn follow(&self, directory: &mut Option<Box<dyn Directory + Send>>) -> Result<(), DirectoryError> {
        let Sources { fleet, directory: address, .. } = &self.sources;
        address.is_there()?;
        let directory = match directory {
            Some(directory) => directory,
            None => directory.insert(address.open()?),
        };
        self.fleet().is_behind = false;
        let heartbeats = directory.list(&heartbeat_prefix(*fleet))?;
        let mut revision = heartbeats.revision;
        let records = directory.list(&configuration_prefix(*fleet))?;
        if heartbeats.entries.is_empty() && records.entries.is_empty() && !self.fleet().is_read {
            let others = other_operators(&mut **directory, *fleet);
            self.fleet().of_others = others;
        }
        self.replace(heartbeats.entries, records.entries);
        let prefix = fleet_prefix(*fleet);
        while !self.is_stopped() {
            match directory.watch_all(&prefix, revision, LOOK)? {
                Watched::Changes(changes) => {
                    // A file that is not there yet has none.
                    revision = changes.revision.max(revision);
                    self.take(changes.entries);
                }
                Watched::Lost => return Ok(()),
            }
            address.is_there()?;
            let mut known = self.fleet();
            (known.directory.answered, known.directory.away) = (Some(unix_seconds()), None);
            if known.is_behind {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes all that the directory has.
    fn replace(&self, heartbeats: Vec<Entry>, records: Vec<Entry>) {
        let (of, now) = (self.sources.fleet, unix_seconds());
        let named = |entries: Vec<Entry>, prefix: String| -> BTreeMap<GatewayName, Vec<u8>> {
            let name = |key: &str| GatewayName::new(key.strip_prefix(&prefix)?);
            entries.into_iter().filter_map(|entry| Some((name(&entry.key)?, entry.value))).collect()
        };
        let mut heartbeats = named(heartbeats, heartbeat_prefix(of));
        let version = |(name, value): (GatewayName, Vec<u8>)| {
            let version = published(&value, of, &name)?;
            Some((name, version))
        };
        // Verified before anybody waits for the lock.
        let records = named(records, configuration_prefix(of)).into_iter();
        let records: BTreeMap<_, _> = records.filter_map(version).collect();
        let mut fleet = self.fleet();
        (fleet.directory.answered, fleet.directory.away, fleet.is_read) = (Some(now), None, true);
        let names: Vec<_> = fleet.members.keys().cloned().collect();
        for name in &names {
            let (record, heartbeat) = (records.get(name).copied(), heartbeats.remove(name).map(shortened));
            fleet.change(of, name, now, |member| (member.record, member.heartbeat) = (record, heartbeat));
        }
    }

    /// Takes what has changed.
    fn take(&self, entries: Vec<Entry>) {
        let (of, now) = (self.sources.fleet, unix_seconds());
        let (heartbeats, records) = (heartbeat_prefix(of), configuration_prefix(of));
        for Entry { key, value, .. } in entries {
            let is_heartbeat = key.starts_with(&heartbeats);
            let name = key.strip_prefix(&heartbeats).or_else(|| key.strip_prefix(&records));
            let Some(name) = name.and_then(GatewayName::new) else { continue };
            self.fleet().of_others = None;
            // Verified before anybody waits for the lock.
            let record = if is_heartbeat { None } else { published(&value, of, &name) };
            self.fleet().change(of, &name, now, |member| match is_heartbeat {
                true => member.heartbeat = Some(shortened(value)),
                false => member.record = record,
            });
        }
    }
}

impl Follower {
    /// Reads identities, and what was seen of their gateways before. What is wrong, a line each.
    pub(super) fn read_identities(&self, folder: &Path) -> Vec<String> {
        let mut problems = Vec::new();
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                return vec![format!("{}: cannot be read: {error}; let this user read it", folder.display())];
            }
        };
        let mut keys = BTreeMap::new();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(name) = file.strip_suffix(".identity").and_then(GatewayName::new) else { continue };
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
            let identity =
                text.and_then(|text| text.parse::<PublicIdentity>().map_err(|why| why.to_string()));
            match identity {
                Ok(identity) => drop(keys.insert(name, identity.key())),
                Err(why) => problems.push(format!("{}: {why}", path.display())),
            }
        }
        let mut fleet = self.fleet();
        fleet.members.retain(|name, _| keys.contains_key(name));
        fleet.standings.retain(|name, _| GatewayName::new(name).is_some_and(|name| keys.contains_key(&name)));
        for (name, key) in keys {
            if fleet.members.get(&name).is_some_and(|member| member.key == key) {
                continue;
            }
            let (seen, newest) = (kept_heartbeat(folder, &name), kept_version(folder, &name));
            let member = Member { key, record: None, heartbeat: None, seen, newest };
            // Nothing is said of it before the directory was read: neither of what an identity before this one signed.
            fleet.standings.remove(name.as_str());
            fleet.members.insert(name, member);
            fleet.is_behind = true;
        }
        problems
    }
}

/// Cause and cure, if a directory has something of other operators.
fn other_operators(directory: &mut (dyn Directory + Send), fleet: PublicKey) -> Option<String> {
    // A user who may read one fleet alone does not learn it.
    let listing = directory.list(FLEETS).ok()?;
    let others: BTreeSet<_> = listing.entries.into_iter().filter_map(operator_of).collect();
    let first = others.first()?;
    let more = if others.len() > 1 { format!(" and {} more", others.len() - 1) } else { String::new() };
    Some(format!(
        "the directory has nothing of operator {fleet}, but of {first}{more}; start with the --operator whose fleet this is, or apply"
    ))
}

/// Operator below whose key an entry stands.
fn operator_of(entry: Entry) -> Option<String> {
    let operator = entry.key.strip_prefix(FLEETS)?.split('/').next()?;
    Some(operator.to_owned()).filter(|operator| operator.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// No more octets of what stands in the place of a heartbeat than are needed to see that it is too long.
fn shortened(mut octets: Vec<u8>) -> Vec<u8> {
    octets.truncate(HEARTBEAT_OCTETS + 1);
    octets.shrink_to_fit();
    octets
}

/// The newest heartbeat that `fleet status` has kept.
fn kept_heartbeat(folder: &Path, gateway: &GatewayName) -> Option<Vec<u8>> {
    let octets = std::fs::read(folder.join(format!("{gateway}.heartbeat"))).ok()?;
    Heartbeat::parse(&octets).is_ok().then_some(octets)
}

/// The newest version that a command has kept.
fn kept_version(folder: &Path, gateway: &GatewayName) -> Option<u64> {
    std::fs::read_to_string(folder.join(format!("{gateway}.published"))).ok()?.trim().parse().ok()
}

/// Value behind a lock. Each state of it is whole: a thread that failed left the one before, or its own.
pub(super) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
