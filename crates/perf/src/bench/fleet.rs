//! A fleet on one etcd: what more gateways cost, and how soon a revocation is enforced.
//!
//! ```text
//!  frameward fleet apply, revoke ──TLS──▶ etcd ◀──TLS── agents, a thread and connections of its own each
//!                                           ▲              └── a gateway that takes what comes
//!   this bench, which looks for heartbeats ─┘
//! ```
//!
//! Agents are the gateway's own code, each with its identity, state and folder. No gateway runs: it would say yes to a reload after
//! having installed new keys, which the other benches measure. Agents, etcd and the operator share this machine's CPUs; in the field each
//! box has its own. The folders of agents stand in memory if the machine has such a file system: 5,000 boxes have as many disks.
//!
//! | figure | how |
//! |---|---|
//! | first versions published | `frameward fleet apply` of the whole inventory |
//! | cold start | all agents begin at once with nothing; until the directory shows the heartbeat of each, which confirms its version |
//! | a record's way | from the line of `frameward fleet revoke` that says that a gateway's record is in the directory, until the directory shows that gateway's heartbeat about it |
//! | revoked everywhere | from the start of that command until the last of these heartbeats |
//! | events of a change | changes that etcd told watches during the command, by its own count; wanted: as many as records |
//! | memory of the controller | the most that a command of the operator had resident |
//! | at rest | requests, heartbeats and CPU time of etcd while nothing changes |

pub mod agents;
mod plant;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use ::bench::{Row, Target};
use fleet::directory::{Address, Directory, DirectoryError, Watched, heartbeat_key, heartbeat_prefix};
use fleet::{GatewayName, Heartbeat, Known, Outcome};

use self::agents::Processes;
use self::plant::{Plant, Published, Ran, identity, name};
use self::server::Server;
use super::samples::Samples;
use crate::demo::pair::{PairError, Scratch};
use crate::programs::Programs;

/// The name of this bench in rows.
pub const BENCH: &str = "fleet";
/// Sizes of the fleets that are measured.
pub const AGENTS: [u32; 5] = [100, 500, 1000, 2500, 5000];
/// The smallest fleet: two groups.
pub const FEWEST: u32 = 20;
/// The largest fleet: etcd takes one connection of each agent, and a second one now and then.
pub const MOST: u32 = 9000;

/// Figure of the time until all first versions are published.
pub const PUBLISHED: &str = "first versions published";
/// Figure of a cold start.
pub const COLD_START: &str = "cold start";
/// Figures of a record's way.
pub const WAYS: [&str; 3] = ["a record's way, p50", "a record's way, p99", "a record's way, longest"];
/// Figure of a whole revocation.
pub const REVOKED: &str = "revoked everywhere";
/// Figure of the events of one change.
pub const EVENTS: &str = "events of a change";
/// Figure of the operator's memory.
pub const CONTROLLER: &str = "memory of the controller";
/// Figure of etcd's memory.
pub const ETCD: &str = "memory of etcd";
/// Figure of an agent's memory.
pub const AGENT: &str = "memory of an agent";
/// Figure of requests without a change.
pub const REQUESTS: &str = "requests at rest";
/// Figure of heartbeats without a change.
pub const HEARTBEATS: &str = "heartbeats at rest";
/// Figure of etcd's CPU time without a change.
pub const CPU: &str = "CPU of etcd at rest";

/// Limit on the time of a cold start, in seconds.
const COLD_START_LIMIT: f64 = 60.0;
/// Limit on the time until a revocation is enforced, in seconds.
const REVOKED_LIMIT: f64 = 1.0;
/// Limit on the memory of the controller, in MiB.
const CONTROLLER_LIMIT: f64 = 300.0;
/// Time after a cold start in which what it has left behind ends.
const SETTLE: Duration = Duration::from_secs(3);
/// Pause between two looks at whether all have confirmed.
const LOOK: Duration = Duration::from_millis(100);
const MIB: f64 = 1_048_576.0;

/// Name of a figure of so many agents.
pub fn case(figure: &str, agents: u32) -> String {
    format!("{figure}, {agents} agents")
}

/// Extent of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Sizes of the fleets.
    pub agents: Vec<u32>,
    /// Gateways that are revoked, each of another group.
    pub rounds: u32,
    /// Time at rest. etcd notifies each watch every ten seconds.
    pub rest: Duration,
}

impl Effort {
    /// Curves; about seven minutes.
    pub fn full() -> Self {
        Self { agents: AGENTS.into(), rounds: 5, rest: Duration::from_secs(20) }
    }

    /// A short run through everything: about a quarter of a minute.
    pub fn quick() -> Self {
        Self { agents: vec![50], rounds: 3, rest: Duration::from_secs(4) }
    }
}

/// Failure of a bench of fleets.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// There is no place for its files.
    #[error(transparent)]
    Place(#[from] PairError),
    /// The directory did not answer.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// The step that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// Something took too long.
    #[error("{0} takes too long; measure fewer agents")]
    Late(String),
    /// Something did not do as it should.
    #[error("{0}")]
    Unexpected(String),
}

fn failed(what: &str, source: &io::Error) -> FleetError {
    FleetError::System { what: what.to_owned(), source: io::Error::new(source.kind(), source.to_string()) }
}

/// A program that may have as many files open as the system allows.
fn unlimited(program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n \"$(ulimit -Hn)\" && exec \"$0\" \"$@\"", program]);
    command
}

/// Octets of a process's memory, by the name that the kernel gives them; none if it has ended.
fn memory(process: u32, name: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// Limit on the time that anything takes.
fn patience(agents: u32) -> Duration {
    Duration::from_secs(60) + Duration::from_millis(100) * agents
}

/// Measures fleets of each size.
///
/// # Errors
/// The first thing that fails. Nothing is left behind.
pub fn measure(
    programs: &Programs,
    effort: &Effort,
    say: &mut dyn FnMut(&dyn Display),
    figure: &mut dyn FnMut(Row),
) -> Result<(), FleetError> {
    effort.agents.iter().try_for_each(|agents| measure_one(programs, effort, *agents, say, figure))
}

fn measure_one(
    programs: &Programs,
    effort: &Effort,
    agents: u32,
    say: &mut dyn FnMut(&dyn Display),
    figure: &mut dyn FnMut(Row),
) -> Result<(), FleetError> {
    let scratch = Scratch::new()?;
    let boxes = Scratch::in_memory()?;
    let server = Server::start(&scratch.path().join("etcd"))?;
    let plant = Plant::new(&scratch.path().join("plant"), &programs.frameward, &server.address(), agents)?;
    let rows = Rows { agents, figure };
    let mut fleet = Fleet { plant, server, rows };
    say(&format_args!("{agents} agents: renders and publishes"));
    let applied = fleet.publish()?;
    say(&format_args!("{agents} agents: all begin at once"));
    let mut processes = fleet.start(&programs.lab, boxes.path())?;
    fleet.cold_start(&mut processes)?;
    say(&format_args!("{agents} agents: nothing changes"));
    sleep(SETTLE);
    fleet.rest(&processes, effort.rest)?;
    let rounds = effort.rounds.min(agents / plant::OF_A_GROUP);
    say(&format_args!("{agents} agents: {rounds} are revoked, one after the other"));
    fleet.revoke(rounds, applied)
}

/// Figures of one size.
struct Rows<'f> {
    agents: u32,
    figure: &'f mut dyn FnMut(Row),
}

impl Rows<'_> {
    fn samples(&self, figure: &str, values: &[f64]) -> Samples {
        Samples { case: case(figure, self.agents), values: values.to_vec() }
    }

    /// One figure; `most` is its limit.
    fn tell(&mut self, figure: &str, unit: &str, values: &[f64], most: Option<f64>) {
        let mut row = self.samples(figure, values).row(BENCH, unit, None);
        let worst = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.target = most.map(|most| Target { wanted: format!("at most {most}"), met: worst <= most });
        (self.figure)(row);
    }
}

/// A fleet that is measured.
struct Fleet<'f> {
    plant: Plant,
    server: Server,
    rows: Rows<'f>,
}

impl Fleet<'_> {
    fn directory(&self) -> Result<Box<dyn Directory + Send>, FleetError> {
        let address: Address =
            self.server.address().parse().map_err(|error| FleetError::Unexpected(format!("{error}")))?;
        Ok(address.open()?)
    }

    /// Renders and publishes all. The most memory that it took.
    fn publish(&mut self) -> Result<f64, FleetError> {
        let [rendered, applied] = self.plant.apply()?;
        let took = applied.ended - applied.began;
        self.rows.tell(PUBLISHED, "s", &[took.as_secs_f64()], None);
        Ok(rendered.memory.max(applied.memory))
    }

    fn start(&self, lab: &Path, boxes: &Path) -> Result<Processes, FleetError> {
        Processes::start(lab, &self.server.address(), &self.plant.operator, boxes, self.rows.agents)
    }

    fn cold_start(&mut self, processes: &mut Processes) -> Result<(), FleetError> {
        let mut directory = self.directory()?;
        let prefix = heartbeat_prefix(self.plant.fleet);
        let mut after = directory.list(&prefix)?.revision;
        let began = Instant::now();
        processes.begin()?;
        let mut confirmed = BTreeSet::new();
        while confirmed.len() < self.rows.agents as usize {
            if began.elapsed() > patience(self.rows.agents) {
                let there = confirmed.len();
                return Err(FleetError::Late(format!("a cold start, of which {there} have confirmed,")));
            }
            // An etcd that all ask at once may be silent for long. A watch goes on where it was.
            let seen = directory.watch_all(&prefix, after, LOOK).and_then(|watched| match watched {
                Watched::Changes(changes) => Ok(changes),
                Watched::Lost => directory.list(&prefix),
            });
            let Ok(seen) = seen else {
                sleep(LOOK);
                continue;
            };
            after = seen.revision;
            let said = seen.entries.iter().filter_map(|entry| Heartbeat::parse(&entry.value).ok());
            let said = said.filter(|heartbeat| heartbeat.outcome == Outcome::Confirmed);
            confirmed.extend(said.map(|heartbeat| heartbeat.gateway));
        }
        self.rows.tell(COLD_START, "s", &[began.elapsed().as_secs_f64()], Some(COLD_START_LIMIT));
        processes.confirmed()
    }

    /// Cost of the fleet while nothing changes.
    fn rest(&mut self, processes: &Processes, time: Duration) -> Result<(), FleetError> {
        let (before, began) = (self.server.counts()?, Instant::now());
        sleep(time);
        let (after, seconds) = (self.server.counts()?, began.elapsed().as_secs_f64());
        let writes = after.writes - before.writes;
        let requests = after.reads - before.reads + writes;
        self.rows.tell(REQUESTS, "1/s", &[requests / seconds], None);
        self.rows.tell(HEARTBEATS, "1/s", &[writes / seconds], None);
        self.rows.tell(CPU, "%", &[100.0 * (after.cpu - before.cpu) / seconds], None);
        self.rows.tell(ETCD, "MiB", &[after.memory / MIB], None);
        let resident: f64 = processes.ids().filter_map(|id| memory(id, "VmRSS")).sum();
        self.rows.tell(AGENT, "KiB", &[resident / 1024.0 / f64::from(self.rows.agents)], None);
        Ok(())
    }

    /// Revokes one gateway of each group in turn, and waits for all whom that concerns. `memory`: the most that commands had before.
    fn revoke(&mut self, rounds: u32, mut memory: f64) -> Result<(), FleetError> {
        let (mut ways, mut whole, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let before = self.server.counts()?.events;
            let revoked = name(round * plant::OF_A_GROUP);
            let (ran, enforced) = self.revoke_one(&revoked)?;
            memory = memory.max(ran.memory);
            let last = enforced.iter().map(|(_, at)| *at).max().unwrap_or(ran.ended);
            whole.push((last - ran.began).as_secs_f64());
            let told = self.server.counts()?.events - before;
            // Fewer are as wrong as more.
            more.push((told - enforced.len() as f64).abs());
            ways.extend(enforced.iter().map(|(record, at)| (*at - record.at).as_secs_f64() * 1e3));
        }
        ways.sort_by(f64::total_cmp);
        let part = |share: f64| ways[((ways.len() as f64 * share).ceil() as usize).clamp(1, ways.len()) - 1];
        let limit = REVOKED_LIMIT * 1e3;
        for (figure, share, most) in
            [(WAYS[0], 0.5, None), (WAYS[1], 0.99, Some(limit)), (WAYS[2], 1.0, None)]
        {
            self.rows.tell(figure, "ms", &[part(share)], most);
        }
        self.rows.tell(REVOKED, "s", &whole, Some(REVOKED_LIMIT));
        self.rows.tell(EVENTS, "apart from records", &more, Some(0.0));
        self.rows.tell(CONTROLLER, "MiB", &[memory / MIB], Some(CONTROLLER_LIMIT));
        Ok(())
    }

    /// Revokes a gateway. What was published for that, each record with the time when its gateway's heartbeat was there.
    fn revoke_one(&self, gateway: &GatewayName) -> Result<(Ran, Vec<(Published, Instant)>), FleetError> {
        let mut directory = self.directory()?;
        let open = std::cell::RefCell::new(BTreeMap::new());
        let mut enforced = Vec::new();
        let ran = self.plant.revoke(
            gateway,
            &mut |record| {
                open.borrow_mut().insert(record.name.clone(), record);
            },
            &mut || {
                let mut open = open.borrow_mut();
                let names: Vec<GatewayName> = open.keys().cloned().collect();
                for name in names {
                    if is_enforced(&mut *directory, self.plant.fleet, &open[&name])? {
                        enforced.extend(open.remove(&name).map(|record| (record, Instant::now())));
                    }
                }
                Ok(open.is_empty())
            },
        )?;
        let revocations = enforced.iter().filter(|(record, _)| record.is_revocation).count();
        if revocations != 1 || enforced.len() < plant::OF_A_GROUP as usize {
            let records = enforced.len();
            return Err(FleetError::Unexpected(format!(
                "revoking {gateway} has published {records} records"
            )));
        }
        Ok((ran, enforced))
    }
}

/// True if the directory shows that a gateway has a record in use, or, being revoked, refuses it.
fn is_enforced(
    directory: &mut dyn Directory,
    fleet: suite::identity::PublicKey,
    record: &Published,
) -> Result<bool, FleetError> {
    let Some(entry) = directory.get(&heartbeat_key(fleet, &record.name))? else { return Ok(false) };
    let number = record.name.as_str().trim_start_matches("box-").parse();
    let number = number.map_err(|_| FleetError::Unexpected(format!("{} is no gateway here", record.name)))?;
    let member = identity(number).public();
    let known = Known { fleet, gateway: &record.name, member };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let heartbeat = Heartbeat::verify(&entry.value, known, None, now);
    let heartbeat = heartbeat.map_err(|error| FleetError::Unexpected(format!("{}: {error}", record.name)))?;
    Ok(match record.is_revocation {
        true => heartbeat.outcome == Outcome::Refused,
        false => heartbeat.outcome == Outcome::Confirmed && heartbeat.in_use == Some(record.version),
    })
}
