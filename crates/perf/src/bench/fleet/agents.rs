//! Agents of many gateways in one process: the agent's own code, a thread each, with gateways that take whatever comes.
//!
//! | from the bench | to the bench |
//! |---|---|
//! | | `opened`: each agent has its folder, state and lock |
//! | a line | `confirmed`: each agent has a version in use |
//! | the end of standard input | the process ends |

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fleet::Member;
use fleet::directory::Address;
use fleet::install::ConfigurationFolder;
use frameward::fleet_agent::{Agent, FleetState, NoGateway, NotReloaded, RunningGateway};
use report::GatewayReport;
use report::control_socket::Outcome;
use suite::identity::PublicKey;

use super::plant::{identity, key, name};
use super::{FleetError, failed, unlimited};

/// The command that runs some.
pub const COMMAND: &str = "fleet-agents";
/// Agents of one process: each has up to ten files open.
const OF_A_PROCESS: u32 = 1000;
/// Stack of a thread, as in the gateway.
const STACK: usize = 1 << 20;
/// Interval between two looks at whether all have confirmed.
const LOOK: Duration = Duration::from_millis(20);
const OPENED: &str = "opened";
const CONFIRMED: &str = "confirmed";

/// A gateway that takes what its agent installs. None runs here: what is measured ends where a gateway is told to reload. As of one that has
/// no version yet, there is no report of it, so heartbeats carry no verdicts here.
#[derive(Debug)]
struct Willing;

impl RunningGateway for Willing {
    fn report(&self) -> Result<Option<GatewayReport>, NoGateway> {
        Err(NoGateway)
    }

    fn reload(&self) -> Result<Outcome, NotReloaded> {
        Ok(Outcome { done: true, lines: Vec::new() })
    }
}

/// Agents that a process runs.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Address of the directory.
    pub directory: Address,
    /// The fleet: the operator's public key.
    pub fleet: PublicKey,
    /// Place of their folders.
    pub place: PathBuf,
    /// Number of the first one.
    pub first: u32,
    /// Their number.
    pub count: u32,
}

impl Choice {
    /// As the command line has it.
    ///
    /// # Errors
    /// The word that is no address or no key.
    pub fn new(
        directory: &str,
        operator: &str,
        place: &Path,
        numbers: (u32, u32),
    ) -> Result<Self, FleetError> {
        let directory: Address =
            directory.parse().map_err(|error| FleetError::Unexpected(format!("{error}")))?;
        Ok(Self {
            directory,
            fleet: key(operator)?,
            place: place.to_owned(),
            first: numbers.0,
            count: numbers.1,
        })
    }
}

/// Runs agents until standard input ends.
///
/// # Errors
/// Reason for which they cannot be started.
pub fn run(choice: &Choice) -> Result<(), FleetError> {
    let mut agents = Vec::new();
    for number in choice.first..choice.first + choice.count {
        agents.push(open(choice, number)?);
    }
    tell(OPENED)?;
    io::stdin().read_line(&mut String::new()).map_err(|error| failed("standard input", &error))?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut seen = Vec::new();
    for mut agent in agents {
        seen.push(agent.seen.clone());
        let stop = Arc::clone(&stop);
        let thread = thread::Builder::new().name("fw-fleet".to_owned()).stack_size(STACK);
        let spawned = thread.spawn(move || agent.run(&Willing, &stop));
        spawned.map_err(|error| failed("a thread for an agent", &error))?;
    }
    let (open, end) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        drop(open);
    });
    while !seen.iter().all(|seen| seen.report().state == FleetState::Confirmed) {
        // The bench was interrupted.
        if end.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
            return Ok(());
        }
    }
    tell(CONFIRMED)?;
    let _ = end.recv();
    // Their files are whole at each moment.
    Ok(())
}

fn open(choice: &Choice, number: u32) -> Result<Agent, FleetError> {
    let name = name(number);
    let place = choice.place.join(name.as_str());
    fs::create_dir_all(&place).map_err(|error| failed("an agent's folder", &error))?;
    let member = Member { fleet: choice.fleet, name, identity: identity(number) };
    let folder = ConfigurationFolder::new(&place.join("configuration"));
    let agent = Agent::open(member, choice.directory.clone(), &place.join("state"), folder);
    agent.map_err(|error| FleetError::Unexpected(error.to_string()))
}

fn tell(word: &str) -> Result<(), FleetError> {
    let mut output = io::stdout().lock();
    let told = writeln!(output, "{word}").and_then(|()| output.flush());
    told.map_err(|error| failed("standard output", &error))
}

/// Processes with agents. They end when dropped.
#[derive(Debug)]
pub(super) struct Processes(Vec<(Child, BufReader<ChildStdout>)>);

impl Processes {
    /// Starts processes that have opened so many agents.
    pub(super) fn start(
        lab: &Path,
        directory: &str,
        fleet: &str,
        place: &Path,
        count: u32,
    ) -> Result<Self, FleetError> {
        let mut processes = Self(Vec::new());
        for first in (0..count).step_by(OF_A_PROCESS as usize) {
            let of_this = OF_A_PROCESS.min(count - first);
            let mut command = unlimited(&lab.display().to_string());
            command.args([COMMAND, "--directory", directory, "--operator", fleet, "--place"]).arg(place);
            command.args(["--first", &first.to_string(), "--count", &of_this.to_string()]);
            let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = spawned.map_err(|error| failed("a process for agents", &error))?;
            let output = child.stdout.take().expect("invariant: it is piped");
            processes.0.push((child, BufReader::new(output)));
        }
        processes.wait_for(OPENED)?;
        Ok(processes)
    }

    /// Lets all agents begin, at once.
    pub(super) fn begin(&mut self) -> Result<(), FleetError> {
        for (child, _) in &mut self.0 {
            let input = child.stdin.as_mut().expect("invariant: it is piped");
            input.write_all(b"\n").map_err(|error| failed("a process with agents", &error))?;
        }
        Ok(())
    }

    /// Waits until each agent says of itself that it has a version in use.
    pub(super) fn confirmed(&mut self) -> Result<(), FleetError> {
        self.wait_for(CONFIRMED)
    }

    fn wait_for(&mut self, word: &str) -> Result<(), FleetError> {
        for (_, output) in &mut self.0 {
            let mut line = String::new();
            output.read_line(&mut line).map_err(|error| failed("a process with agents", &error))?;
            if line.trim_end() != word {
                return Err(FleetError::Unexpected(
                    "a process with agents ended; its reason stands above".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Process identifiers.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(child, _)| child.id())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
