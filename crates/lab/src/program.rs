//! Programs of the system, run with a deadline and never left behind.
//!
//! Both output streams are read by a thread each, so a program cannot block on a full pipe, and what it has
//! written so far can be searched while it runs ([`Program::wait_for_line`]).

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Error;

/// Interval at which a running program is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// Time that an ended program's pipes may stay open: a grandchild may hold them, and on a busy machine their readers wait for a CPU.
const PIPE_GRACE: Duration = Duration::from_secs(5);

/// Output and exit of an ended program.
#[derive(Debug)]
pub struct Output {
    /// Its exit.
    pub status: ExitStatus,
    /// All it wrote to standard output; invalid UTF-8 is replaced.
    pub stdout: String,
    /// All it wrote to standard error; invalid UTF-8 is replaced.
    pub stderr: String,
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    command: String,
    child: Child,
    stdout: Stream,
    stderr: Stream,
}

#[derive(Debug)]
struct Stream {
    octets: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Stream {
    fn read(mut pipe: impl Read + Send + 'static) -> Stream {
        let octets = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&octets);
        let reader = thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut piece) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..n]);
            }
        });
        Stream { octets, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.octets.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Program {
    /// Starts `args[0]` with the rest as arguments and no standard input.
    pub fn spawn(args: &[&str]) -> Result<Program, Error> {
        Program::spawn_with(args, Stdio::null())
    }

    /// As [`Program::spawn`], with a standard input that has nothing in it and stays open until
    /// [`Program::release`], or until this process ends, however it ends.
    pub fn spawn_held(args: &[&str]) -> Result<Program, Error> {
        Program::spawn_with(args, Stdio::piped())
    }

    fn spawn_with(args: &[&str], stdin: Stdio) -> Result<Program, Error> {
        let command = args.join(" ");
        let (name, rest) = args.split_first().ok_or_else(|| Error::Unexpected("no program named".into()))?;
        let mut child = Command::new(name)
            .args(rest)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| Error::Start { command: command.clone(), source })?;
        let stdout = Stream::read(child.stdout.take().expect("invariant: stdout was asked to be piped"));
        let stderr = Stream::read(child.stderr.take().expect("invariant: stderr was asked to be piped"));
        Ok(Program { command, child, stdout, stderr })
    }

    /// The process identifier.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// All it has written to standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// All it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until it has written a line that contains `needle` to either stream, and returns that line.
    /// Fails at once if the program ends before that.
    pub fn wait_for_line(&mut self, needle: &str, limit: Duration) -> Result<String, Error> {
        let end = Instant::now() + limit;
        loop {
            let ended = self.child.try_wait().map_err(Error::system(self.command.as_str()))?;
            if ended.is_some() {
                self.settle_pipes();
            }
            for text in [self.stdout(), self.stderr()] {
                if let Some(line) = text.lines().find(|line| line.contains(needle)) {
                    return Ok(line.to_owned());
                }
            }
            if let Some(status) = ended {
                return Err(self.failure(status));
            }
            if Instant::now() >= end {
                return Err(Error::Deadline { what: format!("`{}` to say `{needle}`", self.command), limit });
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits for its end. After `limit` it is killed and [`Error::Deadline`] returned.
    /// The exit status is not judged: see [`run`].
    pub fn wait(mut self, limit: Duration) -> Result<Output, Error> {
        match self.await_end(limit)? {
            Some(status) => Ok(self.output(status)),
            None => Err(Error::Deadline { what: format!("`{}`", self.command), limit }),
        }
    }

    /// Closes its standard input ([`Program::spawn_held`]) and waits as [`Program::wait`] does.
    pub fn release(mut self, limit: Duration) -> Result<Output, Error> {
        drop(self.child.stdin.take());
        self.wait(limit)
    }

    /// Asks it to end with SIGTERM and waits for it; after `limit` it is killed and [`Error::Deadline`] returned.
    pub fn terminate(self, limit: Duration) -> Result<Output, Error> {
        self.signal(Signal::SIGTERM)?;
        self.wait(limit)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = i32::try_from(self.child.id()).expect("invariant: Linux process identifiers fit in i32");
        kill(Pid::from_raw(pid), signal).map_err(Error::system(format!("{signal} to `{}`", self.command)))
    }

    fn await_end(&mut self, limit: Duration) -> Result<Option<ExitStatus>, Error> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().map_err(Error::system(self.command.as_str()))? {
                return Ok(Some(status));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
    }

    fn settle_pipes(&self) {
        let end = Instant::now() + PIPE_GRACE;
        while Instant::now() < end && !(self.stdout.reader.is_finished() && self.stderr.reader.is_finished())
        {
            thread::sleep(LOOK);
        }
    }

    fn output(&self, status: ExitStatus) -> Output {
        self.settle_pipes();
        Output { status, stdout: self.stdout(), stderr: self.stderr() }
    }

    fn failure(&self, status: ExitStatus) -> Error {
        Error::Failed { command: self.command.clone(), status, message: last_line(&self.stderr()) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.is_running() {
            // It may have ended in between; then there is nothing left to do.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn last_line(text: &str) -> String {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(it said nothing)").trim().to_owned()
}

/// Runs a program to its end; an exit status other than 0 is [`Error::Failed`].
pub fn run(args: &[&str], limit: Duration) -> Result<Output, Error> {
    let mut program = Program::spawn(args)?;
    match program.await_end(limit)? {
        Some(status) if status.success() => Ok(program.output(status)),
        Some(status) => {
            program.settle_pipes();
            Err(program.failure(status))
        }
        None => Err(Error::Deadline { what: format!("`{}`", program.command), limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limit on the time of a shell on a busy machine.
    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn output_and_failures_are_told() {
        let ok = run(&["sh", "-c", "echo out; echo err >&2"], LIMIT).unwrap();
        assert_eq!((ok.stdout.as_str(), ok.stderr.as_str()), ("out\n", "err\n"));
        let failed = run(&["sh", "-c", "echo first; echo why >&2; exit 3"], LIMIT).unwrap_err();
        assert!(matches!(&failed, Error::Failed { message, .. } if message == "why"), "{failed}");
        assert!(matches!(run(&["no-such-program-here"], LIMIT), Err(Error::Start { .. })));
        assert!(matches!(run(&[], LIMIT), Err(Error::Unexpected(_))));
    }

    #[test]
    fn nothing_hangs_and_nothing_stays() {
        let limit = Duration::from_millis(50);
        let program = Program::spawn(&["sleep", "30"]).unwrap();
        let pid = program.id();
        assert!(matches!(program.wait(limit), Err(Error::Deadline { .. })));
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        // A grandchild that keeps the pipe open does not hold us up either.
        let grandchild = run(&["sh", "-c", "sleep 60 & echo $!"], LIMIT).unwrap().stdout;
        let pid = Pid::from_raw(grandchild.trim().parse().unwrap());
        kill(pid, Signal::SIGTERM).expect("it goes on");
    }

    #[test]
    fn a_held_program_ends_when_it_is_released() {
        let mut program = Program::spawn_held(&["sh", "-c", "cat; echo released"]).unwrap();
        assert!(program.wait_for_line("released", Duration::from_millis(50)).is_err());
        assert!(program.is_running());
        assert_eq!(program.release(LIMIT).unwrap().stdout, "released\n");
    }

    #[test]
    fn a_line_can_be_awaited() {
        let mut program = Program::spawn(&["sh", "-c", "echo ready at 7 >&2; sleep 30"]).unwrap();
        assert_eq!(program.wait_for_line("ready", LIMIT).unwrap(), "ready at 7");
        assert!(matches!(
            program.wait_for_line("never", Duration::from_millis(20)),
            Err(Error::Deadline { .. })
        ));
        let output = program.terminate(LIMIT).unwrap();
        assert!(!output.status.success());
        let mut brief = Program::spawn(&["sh", "-c", "echo gone >&2; exit 1"]).unwrap();
        assert!(matches!(brief.wait_for_line("never", LIMIT), Err(Error::Failed { .. })));
    }
}
