//! Network namespaces that clean up after themselves.
//!
//! A name is `fw-<pid of the owner>-<counter>-<label>`, so that two laboratories never collide, and so that what a
//! killed owner left can be told from what is in use ([`Namespace::sweep`]). A laboratory in another process-id
//! namespace that shares `/run/netns` is not foreseen: its owners would look dead.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::panic;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, require_root};
use crate::program::{self, Output, Program};

const PREFIX: &str = "fw-";
const DIRECTORY: &str = "/run/netns";
/// Limit on the time of a configuration command, also on a busy machine.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// Limit on the time that the processes inside take to die.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// A network namespace of our own, with `lo` up and IPv6 off. Dropping it kills the processes inside and removes it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace; `label` (letters, digits, `-`) ends its name. Needs root.
    pub fn new(label: &str) -> Result<Namespace, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        require_root()?;
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{n}-{label}", std::process::id());
        program::run(&["ip", "netns", "add", &name], COMMAND_LIMIT)?;
        let namespace = Namespace { name };
        for scope in ["all", "default"] {
            namespace.sysctl(&format!("net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
        }
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// The name, as `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a program inside to its end, at most 10 s; a failure of the program is an error.
    pub fn run(&self, args: &[&str]) -> Result<Output, Error> {
        self.run_within(args, COMMAND_LIMIT)
    }

    /// Runs a program inside to its end, at most `limit`; a failure of the program is an error.
    pub fn run_within(&self, args: &[&str], limit: Duration) -> Result<Output, Error> {
        program::run(&self.prefixed(args), limit)
    }

    /// Starts a program inside. `ip netns exec` replaces itself by the program, so [`Program::id`] is the program's.
    pub fn spawn(&self, args: &[&str]) -> Result<Program, Error> {
        Program::spawn(&self.prefixed(args))
    }

    /// As [`Self::spawn`], held as by [`Program::spawn_held`].
    pub fn spawn_held(&self, args: &[&str]) -> Result<Program, Error> {
        Program::spawn_held(&self.prefixed(args))
    }

    /// Whether this process is inside a namespace that its parent made: a program that must run nowhere else asks so.
    pub fn parent_made_this() -> bool {
        let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let Some(own) = identity(Path::new("/proc/self/ns/net")) else { return false };
        let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
        let mut names = entries.filter(|entry| identity(&entry.path()) == Some(own));
        names.any(|entry| {
            owner(&entry.file_name().to_string_lossy()) == Some(std::os::unix::process::parent_id())
        })
    }

    /// Runs `ip ARGS` on the namespace.
    pub fn ip(&self, args: &[&str]) -> Result<Output, Error> {
        let mut all = vec!["ip", "-n", &self.name];
        all.extend_from_slice(args);
        program::run(&all, COMMAND_LIMIT)
    }

    /// Writes `value` to `/proc/sys/KEY` as seen inside; `key` has slashes: `net/ipv4/ip_forward`.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), Error> {
        let path = Path::new("/proc/sys").join(key);
        self.enter(|| fs::write(&path, value))?
            .map_err(Error::system(format!("write {value} to {key} in {}", self.name)))
    }

    /// Runs `work` on a thread inside and waits for it. A panic of `work` goes on in the caller.
    ///
    /// `/proc/thread-self/net` shows the namespace; `/sys/class/net` and `/proc/net` do not, since the mounts and
    /// the main thread stay outside.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let handle = self.open()?;
        let what = self.setns_failure();
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                setns(handle, CloneFlags::CLONE_NEWNET).map_err(Error::system(what))?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    }

    /// Starts a thread inside; returns once it is inside, or with the reason why it could not get there.
    pub fn spawn_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Task<T>, Error> {
        let handle = self.open()?;
        let (entered, arrival) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(self.name.clone())
            .spawn(move || {
                let outcome = setns(handle, CloneFlags::CLONE_NEWNET);
                let inside = outcome.is_ok();
                // The starter waits below, so the channel is open.
                let _ = entered.send(outcome);
                inside.then(work)
            })
            .map_err(Error::system("start a thread"))?;
        let outcome = arrival.recv().map_err(|_| Error::Unexpected("a thread ended at its start".into()))?;
        outcome.map_err(Error::system(self.setns_failure()))?;
        Ok(Task(thread))
    }

    /// Kills what runs inside and removes the namespace; like dropping, but with the reason if it fails.
    pub fn remove(mut self) -> Result<(), Error> {
        let name = std::mem::take(&mut self.name);
        remove(&name)
    }

    /// Removes the namespaces of owners that no longer live, with the processes inside; returns their names.
    pub fn sweep() -> Result<Vec<String>, Error> {
        require_root()?;
        let Ok(entries) = fs::read_dir(DIRECTORY) else { return Ok(Vec::new()) };
        let mut swept = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if owner(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                match remove(&name) {
                    Ok(()) => swept.push(name),
                    // Another sweep may have been quicker.
                    Err(_) if !entry.path().exists() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(swept)
    }

    /// Removes all namespaces of this process, with the processes inside: for a process that is about to exit without
    /// dropping them, because it was interrupted.
    pub fn remove_own() {
        let Ok(entries) = fs::read_dir(DIRECTORY) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if owner(&name) == Some(std::process::id()) {
                // The next laboratory removes the rest.
                let _ = remove(&name);
            }
        }
    }

    fn prefixed<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let mut all = vec!["ip", "netns", "exec", &self.name];
        all.extend_from_slice(args);
        all
    }

    fn open(&self) -> Result<File, Error> {
        let path = Path::new(DIRECTORY).join(&self.name);
        File::open(path).map_err(Error::system(format!("open namespace {}", self.name)))
    }

    fn setns_failure(&self) -> String {
        format!("enter namespace {}", self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        if let Err(error) = remove(&self.name) {
            eprintln!("cannot remove namespace {}: {error}", self.name);
        }
    }
}

/// A thread inside a namespace. Dropping it lets the thread run on.
#[derive(Debug)]
pub struct Task<T>(JoinHandle<Option<T>>);

impl<T> Task<T> {
    /// Waits for its result, at most `limit`. A panic of the thread goes on in the caller.
    pub fn join(self, limit: Duration) -> Result<T, Error> {
        let end = Instant::now() + limit;
        while !self.0.is_finished() {
            if Instant::now() >= end {
                let what = format!("a thread in {}", self.0.thread().name().unwrap_or("a namespace"));
                return Err(Error::Deadline { what, limit });
            }
            thread::sleep(Duration::from_millis(1));
        }
        match self.0.join() {
            Ok(value) => Ok(value.expect("invariant: a task is made only of a thread that is inside")),
            Err(panic) => panic::resume_unwind(panic),
        }
    }
}

/// The owner's process identifier, if the name is one of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn remove(name: &str) -> Result<(), Error> {
    let end = Instant::now() + KILL_LIMIT;
    while Instant::now() < end && kill_inside(name)? {
        thread::sleep(Duration::from_millis(5));
    }
    program::run(&["ip", "netns", "del", name], COMMAND_LIMIT).map(drop)
}

/// Kills every process in the namespace; says whether there was one. A zombie is in no namespace and is not seen.
fn kill_inside(name: &str) -> Result<bool, Error> {
    let pids = program::run(&["ip", "netns", "pids", name], COMMAND_LIMIT)?.stdout;
    let own = std::process::id();
    let mut found = false;
    for pid in pids.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()) {
        if u32::try_from(pid) != Ok(own) {
            found = true;
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_have_an_owner() {
        for (name, expected) in [
            ("fw-17-0-a", Some(17)),
            ("fw-17-0-", Some(17)),
            ("fw-17", None),
            ("fw--1-a", None),
            ("fw-x-1-a", None),
            ("eth-17-0-a", None),
            ("", None),
        ] {
            assert_eq!(owner(name), expected, "{name}");
        }
    }
}
