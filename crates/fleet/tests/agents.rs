//! A fleet from a seed, under virtual time: an operator, a directory that is away, forgets, replays, mixes up and damages what it tells, and
//! gateways whose agents are killed between seconds, or between accepting and installing, and lose their memory. What publishes, accepts, installs and takes back is the crate's own
//! code, on files; what an agent does between is a model by hand, since the agent is a process with a clock and sockets of its own.
//! Seeds: [`testkit::seeds`].
//!
//! | judged | when |
//! |---|---|
//! | a gateway applies what its operator published for it, whole, and nothing older than before | at each installation |
//! | what was taken back is not installed again; taking back leads to what stood before | at each of them |
//! | links that stood stand | at both ends of the run |
//! | each acknowledged change arrives, if nobody has changed the directory since; if somebody has, the next one arrives | 120 s after the last fault |

mod agents {
    pub(crate) mod directory;
    pub(crate) mod gateway;
}

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet::directory::configuration_key;
use fleet::publish::{self, Difference, compare};
use fleet::{Draft, FileName, Files, Kind, Operator, PublicIdentity};
use suite::identity::Identity;
use testkit::{Chance, Speed};
use zeroize::Zeroizing;

use agents::directory::Simulated;
use agents::gateway::Gateway;

/// Beginning of a world, in seconds since 1970, and the time of its faults.
const BEGIN: u64 = 1_800_000_000;
const FAULTS: u64 = 1_000;
/// Time in which all arrives after the last fault: the model's agents list every 40 s, the program's every ten minutes.
const ARRIVES: u64 = 120;
const VALID: Duration = Duration::from_secs(90_000);

/// A folder of a world, in memory where there is one. It goes with the world.
struct Place(PathBuf);

impl Place {
    fn new(seed: u64) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = folder.join(format!("frameward-agents-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A change that the operator wants for a gateway: its number, from 1.
pub(crate) type Change = u64;

/// The files of a change. Links fall with those that say so.
pub(crate) fn files(gateway: &str, change: Change, breaks: bool) -> Files {
    let configuration = format!(
        "# {change} {breaks}\n[gateway]\nname = \"{gateway}\"\n[[link]]\nname = \"press\"\nplain = \"a\"\nprotected = \"b\"\n[link.mka]\ncak_file = \"press.cak\"\n"
    );
    let key = format!("ckn = 01\ncak = {:032x}\n", change + 1);
    let mut files = Files::default();
    for (name, content) in [(FileName::CONFIGURATION, configuration), ("press.cak", key)] {
        let name = FileName::new(name).expect("a name");
        files.insert(name, Zeroizing::new(content.into_bytes())).expect("room");
    }
    files
}

struct World {
    seed: u64,
    now: u64,
    chance: Chance,
    operator: Operator,
    directory: Simulated,
    gateways: Vec<Gateway>,
    /// By gateway: how many changes the operator has made, and the newest one that the directory acknowledged.
    changes: Vec<Change>,
    acknowledged: Vec<Change>,
    /// Somebody changes what the directory stores.
    is_hostile: bool,
    installed: u64,
    place: Place,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let place = Place::new(seed);
        let operator = Operator::new(Identity::new(&[1; 32]));
        let count = 1 + chance.below(3) as usize;
        let gateways: Vec<_> =
            (0..count).map(|number| Gateway::new(number, operator.fleet(), &place.0)).collect();
        Self {
            seed,
            now: BEGIN,
            directory: Simulated::new(Chance::new(chance.draw())),
            is_hostile: chance.below(2) == 0,
            changes: vec![0; count],
            acknowledged: vec![0; count],
            installed: 0,
            chance,
            operator,
            gateways,
            place,
        }
    }

    /// The operator makes a change for a gateway and publishes it.
    fn change(&mut self, at: usize, breaks: bool) {
        self.changes[at] += 1;
        let change = self.changes[at];
        let gateway = &self.gateways[at];
        let (name, member) = (gateway.name(), PublicIdentity::of(&gateway.identity()));
        let files = files(name.as_str(), change, breaks);
        let keeps = !breaks && self.chance.below(6) == 0;
        let kind = if keeps { Kind::ConfigurationToKeep } else { Kind::Configuration };
        let draft = Draft { gateway: &name, member: &member, kind, files: &files };
        let Ok(place) = compare(&mut self.directory, &self.operator, draft, VALID, self.now) else { return };
        assert!(!matches!(place.difference, Difference::Same { .. }), "seed {}: a change is none", self.seed);
        if publish::publish(&mut self.directory, &self.operator, draft, &place, VALID, self.now).is_ok() {
            self.acknowledged[at] = change;
        }
    }

    /// Somebody puts something else in the place of a gateway's record.
    fn attack(&mut self, at: usize) {
        let name = self.gateways[at].name();
        let stranger = Operator::new(Identity::new(&[9; 32]));
        let member = PublicIdentity::of(&self.gateways[at].identity());
        let files = files(name.as_str(), 1_000_000, false);
        let draft = Draft { gateway: &name, member: &member, kind: Kind::Configuration, files: &files };
        let validity = fleet::Validity { from: 0, until: u64::MAX };
        let foreign = stranger.publish(draft, u64::MAX - 1, validity).expect("a key in memory signs");
        self.directory.attack(&configuration_key(self.operator.fleet(), &name), foreign);
    }

    fn second(&mut self) {
        self.now += 1;
        let is_calm = self.directory.is_fair;
        for at in 0..self.gateways.len() {
            if !is_calm {
                match self.chance.below(400) {
                    0..12 => {
                        let breaks = self.chance.below(3) == 0;
                        self.change(at, breaks);
                    }
                    12..16 if self.is_hostile => self.attack(at),
                    16..22 => self.gateways[at].kill(),
                    22 => self.gateways[at].lose_memory(),
                    _ => {}
                }
            }
            let die = if is_calm { 0 } else { self.chance.below(8) };
            let done = self.gateways[at].step(self.now, &mut self.directory, die == 7);
            self.installed += done.unwrap_or_else(|wrong| panic!("NOT SO: seed {}, {wrong}", self.seed));
        }
    }

    fn run(mut self) -> [u64; 2] {
        while self.now < BEGIN + FAULTS {
            self.second();
        }
        self.directory.is_fair = true;
        for _ in 0..ARRIVES {
            self.second();
        }
        for (at, gateway) in self.gateways.iter().enumerate() {
            let (seed, there) = (self.seed, gateway.change());
            assert!(
                gateway.stands_if_it_stood(),
                "NOT SO: seed {seed}, links that stood stand: gateway {at}"
            );
            // Nobody heard of a later one, which may be in its place all the same.
            let acknowledged = self.acknowledged[at];
            let has_arrived = there >= acknowledged || gateway.has_taken_back(acknowledged..);
            assert!(
                self.is_hostile || has_arrived,
                "NOT SO: seed {seed}, changes arrive: gateway {at} has {there}, and {acknowledged} was acknowledged"
            );
        }
        for at in 0..self.gateways.len() {
            self.change(at, false);
            assert_eq!(self.acknowledged[at], self.changes[at], "a fair directory");
        }
        for _ in 0..ARRIVES {
            self.second();
        }
        for (at, gateway) in self.gateways.iter().enumerate() {
            let (seed, there, wanted) = (self.seed, gateway.change(), self.changes[at]);
            assert_eq!(there, wanted, "NOT SO: seed {seed}, changes arrive: the last one of gateway {at}");
            assert!(gateway.stands(), "NOT SO: seed {seed}, links stand: gateway {at}");
        }
        let taken_back = self.gateways.iter().map(Gateway::taken_back).sum();
        [self.installed, taken_back]
    }
}

/// All files below a folder, with their octets.
fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() && !path.is_symlink() {
                true => folders.push(path),
                false => drop(files.insert(path.clone(), std::fs::read(&path).unwrap_or_default())),
            }
        }
    }
    files
}

/// A trial that has begun is judged; nothing else changes, and nothing grows; and what is published on the day after arrives.
#[test]
fn a_day_without_a_directory_changes_nothing_and_fills_no_disk() {
    const DAY: u64 = 86_400;
    // A seed of no other world of this process, since a world's folder is named by it.
    let mut world = World::new(1 << 40);
    world.directory.is_fair = true;
    let pass = |world: &mut World, seconds: u64| (0..seconds).for_each(|_| world.second());
    for at in 0..world.gateways.len() {
        world.change(at, false);
    }
    pass(&mut world, ARRIVES);
    // One that has links fall is fetched, and the directory goes before it is judged.
    world.change(0, true);
    pass(&mut world, 10);
    assert!(!world.gateways[0].stands(), "it is on trial");
    world.directory.is_away = true;
    pass(&mut world, ARRIVES);
    assert!(world.gateways[0].stands() && world.gateways[0].has_taken_back(2..), "its trial is judged");
    let before = files_below(&world.place.0);
    let versions: Vec<_> = world.gateways.iter().map(Gateway::change).collect();
    for hour in 0..24 {
        pass(&mut world, DAY / 24);
        // Agents restart, as with a box.
        let at = hour % world.gateways.len();
        world.gateways[at].kill();
    }
    pass(&mut world, 10);
    assert_eq!(files_below(&world.place.0), before);
    assert_eq!(world.gateways.iter().map(Gateway::change).collect::<Vec<_>>(), versions);
    assert!(world.gateways.iter().all(Gateway::stands));
    world.directory.is_away = false;
    for at in 0..world.gateways.len() {
        world.change(at, false);
        assert_eq!(world.acknowledged[at], world.changes[at], "a fair directory");
    }
    pass(&mut world, ARRIVES);
    for (at, gateway) in world.gateways.iter().enumerate() {
        assert_eq!((gateway.change(), gateway.stands()), (world.changes[at], true), "gateway {at}");
    }
}

#[test]
fn whatever_a_directory_tells_gateways_apply_what_was_published_and_links_stand() {
    let speed = Speed::begin();
    let seeds = testkit::seeds(40);
    let (mut sums, count) = ([0; 2], seeds.end - seeds.start);
    for seed in seeds {
        let told = World::new(seed).run();
        sums.iter_mut().zip(told).for_each(|(sum, told)| *sum += told);
    }
    println!(
        "fleets, {count} seeds: {} versions installed, {} taken back; {}",
        sums[0],
        sums[1],
        speed.of(Duration::from_secs(count * (FAULTS + 2 * ARRIVES)))
    );
    assert!(sums[0] > 0 && (count < 20 || sums[1] > 0), "nothing happened");
}
