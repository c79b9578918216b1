//! Changes that people order in the browser: each one is a command of this program, as it is given on the operator's machine. So it is checked, takes
//! the same locks, and is written down in the audit log in the same way, with the name of who ordered it.
//!
//! ```text
//!  POST ── role, body ──▶ frameward fleet approve | rotate | revoke | note ... --by NAME ──▶ its lines, and how it ended: GET /api/actions
//! ```
//!
//! One runs at a time. A command is a process of its own: the server never reads the signing key. A command that is under way does not need the
//! server; but it stands in the server's process group, so Ctrl-C ends both.

mod change;
mod output;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use self::change::Change;
pub(super) use self::change::change;
use self::output::{Lines, Output};
use super::follow::{Sources, locked, unix_seconds};
use super::tokens::{Role, Who};

/// Actions that are remembered, and notes among them. Who writes notes pushes out nothing else.
const REMEMBERED: usize = 64;
const NOTES_REMEMBERED: usize = 16;
const NOTE: &str = "note";
/// Time after which it is seen that a command has ended, in milliseconds.
const PAUSE: u16 = 100;
/// Time in which the output of a command that has ended is read. What it wrote is there already, but others may go on writing.
const REST: Duration = Duration::from_secs(1);
/// This program, also if another one was installed in its place.
const THIS: &str = "/proc/self/exe";

/// Files that the signing commands need.
#[derive(Clone, Debug)]
pub struct SigningFiles {
    /// The operator's signing key: its file, or the PKCS#11 URI of one in a token.
    pub key: PathBuf,
    /// The rendering that was applied.
    pub rendering: PathBuf,
    /// The inventory's folder of keys, if it is not in its place.
    pub keys: Option<PathBuf>,
}

/// Changes that can be ordered.
#[derive(Debug)]
pub struct Actions {
    sources: Sources,
    signing: Option<SigningFiles>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The running command, and its number. Without a process it has ended, and what is told about it is not complete.
    running: Option<(u64, Option<Child>)>,
    /// The newest last.
    actions: VecDeque<ActionView>,
}

/// A change that was ordered.
#[derive(Clone, Debug, Serialize)]
struct ActionView {
    number: u64,
    /// Time at which it was ordered, in seconds since 1970.
    time: u64,
    /// Time at which it ended; none while it runs.
    ended: Option<u64>,
    by: Option<String>,
    action: &'static str,
    object: String,
    state: ActionState,
    /// Name of the person that stopped it.
    stopped_by: Option<String>,
    /// Lines of the command.
    lines: Lines,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum ActionState {
    Running,
    Done,
    Failed,
    Stopped,
}

/// The answer of `/api/actions`.
#[derive(Serialize)]
pub(super) struct ActionsView {
    /// The person that asks.
    you: Who,
    /// Changes that he may order here.
    may: Vec<&'static str>,
    /// The newest last.
    actions: Vec<ActionView>,
}

/// Refusal of a change: status, cause and cure.
pub(super) type Refused = (StatusCode, String, String);

impl Actions {
    /// Changes in this fleet; without signing files none that publishes anything.
    pub fn new(sources: Sources, signing: Option<SigningFiles>) -> Self {
        Self { sources, signing, state: Arc::default() }
    }

    /// The view where nothing can be ordered.
    pub(super) const fn nothing(you: Who) -> ActionsView {
        ActionsView { you, may: Vec::new(), actions: Vec::new() }
    }

    /// Orders until now, for this person.
    pub(super) fn view(&self, you: Who) -> ActionsView {
        let all = [
            (NOTE, Role::Operator, true),
            ("stop", Role::Operator, true),
            ("approve", Role::Signer, true),
            ("rotate", Role::Signer, self.signing.is_some()),
            ("revoke", Role::Signer, self.signing.is_some()),
        ];
        let may = all.into_iter().filter(|(_, role, can)| you.role >= *role && *can);
        let may = may.map(|(word, ..)| word).collect();
        ActionsView { you, may, actions: locked(&self.state).actions.iter().cloned().collect() }
    }

    /// Begins a change of `object`. Its number.
    ///
    /// # Errors
    /// [`Refused`]: another one runs, or it cannot be made here.
    pub(super) fn begin(&self, change: &Change, object: &str, who: &Who) -> Result<u64, Refused> {
        let by = who.name.as_deref().unwrap_or_default();
        let command = self.command(change, object, by)?;
        self.start(command, change.word(), object, who)
    }

    fn start(
        &self,
        mut command: Command,
        action: &'static str,
        object: &str,
        who: &Who,
    ) -> Result<u64, Refused> {
        let mut state = locked(&self.state);
        if let Some(running) = state.running.as_ref().and(state.actions.back()) {
            return Err((
                StatusCode::CONFLICT,
                format!("{} {} is under way", running.action, running.object),
                "wait until it has ended, or stop it".to_owned(),
            ));
        }
        let number = state.actions.back().map_or(0, |last| last.number) + 1;
        let (output, child) = started(&mut command).map_err(|error| cannot_start(&error))?;
        state.running = Some((number, Some(child)));
        state.remember(ActionView {
            number,
            time: unix_seconds(),
            ended: None,
            by: who.name.clone(),
            action,
            object: object.to_owned(),
            state: ActionState::Running,
            stopped_by: None,
            lines: Lines::default(),
        });
        drop(state);
        self.follow(output).map_err(|error| {
            // Nobody would learn how it ends.
            let mut state = locked(&self.state);
            if let Some((_, Some(mut child))) = state.running.take() {
                let _ = child.kill().and_then(|()| child.wait());
            }
            state.actions.pop_back();
            cannot_start(&error)
        })?;
        Ok(number)
    }

    /// Stops a change that runs: the command ends where it is, and the same command goes on from there.
    ///
    /// # Errors
    /// [`Refused`]: it does not run.
    pub(super) fn stop(&self, number: &str, who: &Who) -> Result<u64, Refused> {
        let mut state = locked(&self.state);
        let State { running, actions } = &mut *state;
        let is_it = |(running, _): &&mut (u64, Option<Child>)| running.to_string() == number;
        let (Some((number, child)), Some(view)) = (running.as_mut().filter(is_it), actions.back_mut()) else {
            let cause = format!("no action {number} runs");
            return Err((StatusCode::NOT_FOUND, cause, "see /api/actions".to_owned()));
        };
        // One that has ended by itself was stopped by nobody, and its process number may be another one's.
        let runs = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        let id = child.as_mut().and_then(|child| runs(child).then(|| child.id()));
        let Some(id) = id else {
            let cause = format!("action {number} has ended");
            return Err((StatusCode::NOT_FOUND, cause, "see /api/actions".to_owned()));
        };
        if view.stopped_by.is_none() {
            view.stopped_by.clone_from(&who.name);
        }
        // Nobody waits for the child but under this lock, so the number is still its own.
        let id = i32::try_from(id).map(Pid::from_raw);
        let _ = id.map(|id| kill(id, Signal::SIGTERM));
        Ok(*number)
    }

    /// Takes the lines of the running command until it ends, and writes down who stopped it.
    fn follow(&self, mut output: Output) -> io::Result<()> {
        let (state, note) = (Arc::clone(&self.state), (self.sources.clone(), self.signing.clone()));
        let follow = move || {
            let take = |line: &[u8]| locked(&state).takes(line);
            let end = loop {
                output.read(PAUSE, take);
                let end = locked(&state).ended();
                if let Some(end) = end {
                    break end;
                }
            };
            let until = Instant::now() + REST;
            while output.read(0, take) && Instant::now() < until {}
            output.end(take);
            let stopped = locked(&state).actions.back().and_then(|view| {
                Some((view.stopped_by.clone()?, format!("stops {} {}", view.action, view.object)))
            });
            if let Some((by, text)) = stopped {
                let (sources, signing) = note;
                let actions = Self { sources, signing, state: Arc::clone(&state) };
                actions.write_down(&by, &text);
            }
            locked(&state).close(end);
        };
        thread::Builder::new().name("cockpit-action".to_owned()).spawn(follow).map(drop)
    }

    /// Has the audit log take a line about an action.
    fn write_down(&self, by: &str, text: &str) {
        let written = self.command(&Change::Note(text.to_owned()), "", by);
        let written = written.map_err(|(_, cause, _)| cause).and_then(|mut command| {
            let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(told) }
        });
        if let Err(why) = written {
            let line = format!("the audit log has no line about who stopped this: {why}");
            locked(&self.state).takes(line.as_bytes());
        }
    }

    /// The command that makes a change. What comes from outside stands behind `--`, or is the value of a switch.
    fn command(&self, change: &Change, object: &str, by: &str) -> Result<Command, Refused> {
        let Sources { fleet, directory, identities, inventory } = &self.sources;
        let mut switches = vec![switch("--identities", identities)];
        let mut operands: Vec<OsString> = vec![object.into()];
        if !by.is_empty() {
            switches.push(switch("--by", by));
        }
        match change {
            Change::Approve(code) => {
                switches.push(switch("--operator", fleet.to_string()));
                switches.push(switch("--directory", directory.argument()));
                operands.push(code.to_string().into());
            }
            Change::Note(text) => {
                switches.push(switch("--operator", fleet.to_string()));
                if !object.is_empty() {
                    switches.push(switch("--gateway", object));
                }
                operands = vec![text.into()];
            }
            Change::Rotate | Change::Revoke => {
                let Some(SigningFiles { key, rendering, keys }) = &self.signing else {
                    return Err((
                        StatusCode::FORBIDDEN,
                        "the controller has no signing key".to_owned(),
                        format!(
                            "give the command on the operator's machine: frameward fleet {} {object}; or start the controller with --signing-key and --to",
                            change.word()
                        ),
                    ));
                };
                switches.push(switch("--directory", directory.argument()));
                switches.extend([switch("--signing-key", key), switch("--to", rendering)]);
                switches.extend(keys.iter().map(|keys| switch("--keys", keys)));
                operands.push(inventory.into());
            }
        }
        let mut command = Command::new(THIS);
        command.arg0("frameward").args(["fleet", change.word()]).args(switches).arg("--").args(operands);
        Ok(command)
    }
}

impl State {
    /// Notes push out notes, and other actions those.
    fn remember(&mut self, view: ActionView) {
        let is_note = view.action == NOTE;
        let is_alike = |one: &ActionView| (one.action == NOTE) == is_note;
        let most = if is_note { NOTES_REMEMBERED } else { REMEMBERED };
        while self.actions.iter().filter(|one| is_alike(one)).count() >= most {
            let Some(oldest) = self.actions.iter().position(is_alike) else { break };
            self.actions.remove(oldest);
        }
        self.actions.push_back(view);
    }

    fn takes(&mut self, line: &[u8]) {
        if let Some(view) = self.actions.back_mut() {
            view.lines.takes(line);
        }
    }

    /// End of the running command, if it has ended. From here on its process number can be another one's.
    fn ended(&mut self) -> Option<ActionState> {
        let (_, child) = self.running.as_mut()?;
        let status = match child.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => return None,
            Some(Ok(status)) => status,
            Some(Err(_)) | None => None,
        };
        *child = None;
        let is_stopped = self.actions.back().is_some_and(|view| view.stopped_by.is_some());
        Some(match status {
            Some(status) if status.success() => ActionState::Done,
            // One that fails by itself in the same moment has failed.
            Some(status) if is_stopped && status.signal() == Some(Signal::SIGTERM as i32) => {
                ActionState::Stopped
            }
            _ => ActionState::Failed,
        })
    }

    fn close(&mut self, end: ActionState) {
        self.running = None;
        if let Some(view) = self.actions.back_mut() {
            (view.ended, view.state) = (Some(unix_seconds()), end);
        }
    }
}

/// A switch with its value in one argument: a value may begin as a switch does.
fn switch(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut argument = OsString::from(name);
    argument.push("=");
    argument.push(value);
    argument
}

/// Starts a command, and has its output and errors in one.
fn started(command: &mut Command) -> io::Result<(Output, Child)> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn()?;
    // The command would hold the pipe open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok((Output::new(reader), child))
}

fn cannot_start(error: &io::Error) -> Refused {
    (
        StatusCode::INTERNAL_SERVER_ERROR,
        format!("the command cannot be started: {error}"),
        "see that this machine has processes and memory left".to_owned(),
    )
}

#[cfg(test)]
mod tests;
