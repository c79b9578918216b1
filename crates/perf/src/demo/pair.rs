//! Two gateways, run as what they are: the real program, twice, in the two gateway namespaces of a topology.
//!
//! ```text
//!  machine A ── [frameward run a.toml] ~~ middle ~~ [frameward run b.toml] ── machine B
//! ```
//!
//! Keys, configurations, state and status sockets stand in a directory of their own that goes with the pair.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lab::topology::{Gateway, PLAIN, PROTECTED};
use lab::{Namespace, Program, Topology};
use suite::CipherSuite;

use frameward::keygen::{self, KeyLength, KeygenError};
use report::{AskError, GatewayReport, RUNTIME_DIR_VARIABLE};

/// Limit on the time that a gateway takes to run, and to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// Error of a pair.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The laboratory failed.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// A key could not be made.
    #[error(transparent)]
    Keygen(#[from] KeygenError),
    /// A gateway does not answer.
    #[error(transparent)]
    Report(#[from] AskError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// A file system in memory, on most machines.
const IN_MEMORY: &str = "/dev/shm";

/// A directory below the system's temporary one; it goes when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new empty directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new() -> Result<Self, PairError> {
        Self::below(&std::env::temp_dir())
    }

    /// The same in a file system in memory, if there is one.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn in_memory() -> Result<Self, PairError> {
        let memory = Path::new(IN_MEMORY);
        if memory.is_dir() { Self::below(memory) } else { Self::new() }
    }

    fn below(place: &Path) -> Result<Self, PairError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("{}{number}", own_prefix()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|source| PairError::Write { path: path.clone(), source })?;
        Ok(Self(path))
    }

    /// Removes all directories of this process: for one that is about to exit without dropping them, because it was
    /// interrupted.
    pub fn remove_own() {
        let places = [std::env::temp_dir(), IN_MEMORY.into()];
        let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own_prefix())) {
            // Nobody is left to hear that it stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, PairError> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|source| PairError::Write { path: path.clone(), source })?;
        Ok(path)
    }
}

fn own_prefix() -> String {
    format!("frameward-{}-", std::process::id())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The rest stays in the system's temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Origin of a link's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkKeys {
    /// From files, one for each direction.
    #[default]
    Static,
    /// Agreed on, under a CAK from a file.
    Agreed,
}

/// Settings of the two configurations, besides interfaces, names and keys.
#[derive(Clone, Debug)]
pub struct Choice {
    /// `io` of the gateways.
    pub io: &'static str,
    /// The suite of the link.
    pub suite: CipherSuite,
    /// Further lines of `[gateway]`.
    pub gateway: &'static str,
    /// Further lines of `[[link]]`.
    pub link: &'static str,
    /// Origin of the link's keys.
    pub keys: LinkKeys,
    /// Environment of the gateways, `NAME=value` each.
    pub environment: &'static [&'static str],
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            io: "auto",
            suite: CipherSuite::GcmAes128,
            gateway: "",
            link: "",
            keys: LinkKeys::Static,
            environment: &[],
        }
    }
}

/// A running gateway.
#[derive(Debug)]
pub struct Station {
    name: String,
    program: Program,
    runtime: PathBuf,
}

impl Station {
    /// Starts the program `frameward` with a configuration, in a gateway's namespace, and waits until it runs.
    ///
    /// # Errors
    /// If it does not run; with its last words.
    pub fn start(
        frameward: &Path,
        namespace: &Namespace,
        scratch: &Scratch,
        name: &str,
    ) -> Result<Self, PairError> {
        Self::start_by(&[], frameward, namespace, scratch, name)
    }

    /// As [`Self::start`], by a program that takes privileges away, say: `by` is its command, to which the gateway's is
    /// appended.
    ///
    /// # Errors
    /// If it does not run; with its last words.
    pub fn start_by(
        by: &[&str],
        frameward: &Path,
        namespace: &Namespace,
        scratch: &Scratch,
        name: &str,
    ) -> Result<Self, PairError> {
        // The laboratory's files are root's, and it runs where there is no user for gateways.
        Self::start_with(&["--keep-user"], by, frameward, namespace, scratch, name)
    }

    /// As [`Self::start_by`], with these options of `run`.
    ///
    /// # Errors
    /// If it does not run; with its last words.
    pub fn start_with(
        options: &[&str],
        by: &[&str],
        frameward: &Path,
        namespace: &Namespace,
        scratch: &Scratch,
        name: &str,
    ) -> Result<Self, PairError> {
        let runtime = scratch.path().join("run");
        let variable = format!("{RUNTIME_DIR_VARIABLE}={}", runtime.display());
        let (frameward, config) = (
            frameward.display().to_string(),
            scratch.path().join(format!("{name}.toml")).display().to_string(),
        );
        let command = [&["env", &variable], by, &[&frameward, "run"], options, &[&config]].concat();
        let mut program = namespace.spawn(&command)?;
        program.wait_for_line("is running", PATIENCE)?;
        Ok(Self { name: name.to_owned(), program, runtime })
    }

    /// Its present report, over its status socket. A worker that gets no CPU for a second is left out of a report: on a busy
    /// machine it is asked again until one is in it.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn report(&self) -> Result<GatewayReport, PairError> {
        let (ask, end) = (self.asker(), Instant::now() + PATIENCE);
        loop {
            let report = ask()?;
            if !report.links.is_empty() || !report.sites.is_empty() || Instant::now() > end {
                return Ok(report);
            }
        }
    }

    /// Asks it what it reports, from any thread.
    pub(crate) fn asker(&self) -> impl Fn() -> Result<GatewayReport, PairError> + Send + use<> {
        let (runtime, name) = (self.runtime.clone(), self.name.clone());
        move || Ok(report::parse(&name, &report::ask(&runtime, &name)?)?)
    }

    /// Its process identifier.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// The running program.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Its standard error so far.
    pub fn log(&self) -> String {
        self.program.stderr()
    }

    /// Stops it with SIGTERM and returns what it wrote to standard error.
    ///
    /// # Errors
    /// If it does not end by itself, or ends with an exit status other than 0.
    pub fn stop(self) -> Result<String, PairError> {
        let output = self.program.terminate(PATIENCE)?;
        if output.status.success() {
            return Ok(output.stderr);
        }
        let last = output.stderr.lines().last().unwrap_or_default();
        Err(lab::Error::Unexpected(format!("gateway {} ended with {}: {last}", self.name, output.status))
            .into())
    }
}

/// Writes keys and configurations for two gateways, `a.toml` and `b.toml`, into `scratch`.
///
/// # Errors
/// If a file cannot be written.
pub fn configure(scratch: &Scratch, choice: &Choice) -> Result<(), PairError> {
    let length = if choice.suite.key_octets() == 16 { KeyLength::Bits128 } else { KeyLength::Bits256 };
    if choice.keys == LinkKeys::Agreed {
        return configure_agreed(scratch, choice, length);
    }
    for name in ["a", "b"] {
        keygen::static_key(length, &scratch.path().join(format!("{name}.key")))?;
    }
    // One salt for all keys of this pair: it is not secret, and each key has one SSCI at each end.
    let salt = if choice.suite.is_xpn() { Some(keygen::salt()?) } else { None };
    let xpn = |ssci: u32| match &salt {
        Some(salt) => format!("ssci = {ssci}\nsalt = \"{salt}\"\n"),
        None => String::new(),
    };
    for (name, own, peer, peer_name) in [("a", 1, 2, "b"), ("b", 2, 1, "a")] {
        let state = scratch.path().join(format!("state-{name}"));
        let text = format!(
            "[gateway]\n\
             name = \"{name}\"\n\
             state = \"{state}\"\n\
             io = \"{io}\"\n\
             {gateway}\n\
             [[link]]\n\
             name = \"press\"\n\
             plain = \"{PLAIN}\"\n\
             protected = \"{PROTECTED}\"\n\
             suite = \"{suite}\"\n\
             {link}\n\
             [link.static]\n\
             an = 0\n\
             sci = \"02:00:00:00:00:0{own}/1\"\n\
             key_file = \"{name}.key\"\n\
             {own_xpn}\
             [[link.static.peer]]\n\
             an = 0\n\
             sci = \"02:00:00:00:00:0{peer}/1\"\n\
             key_file = \"{peer_name}.key\"\n\
             {peer_xpn}",
            own_xpn = xpn(own),
            peer_xpn = xpn(peer),
            state = state.display(),
            io = choice.io,
            gateway = choice.gateway,
            suite = choice.suite,
            link = choice.link,
        );
        scratch.write(&format!("{name}.toml"), &text)?;
    }
    Ok(())
}

/// The same with keys that are agreed on.
fn configure_agreed(scratch: &Scratch, choice: &Choice, length: KeyLength) -> Result<(), PairError> {
    keygen::cak(length, None, &scratch.path().join("press.cak"))?;
    for name in ["a", "b"] {
        let text = format!(
            "[gateway]\nname = \"{name}\"\nstate = \"{}\"\nio = \"{}\"\n{}\n\
             [[link]]\nname = \"press\"\nplain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\nsuite = \"{}\"\n{}\n\
             [link.mka]\ncak_file = \"press.cak\"\n",
            scratch.path().join(format!("state-{name}")).display(),
            choice.io,
            choice.gateway,
            choice.suite,
            choice.link,
        );
        scratch.write(&format!("{name}.toml"), &text)?;
    }
    Ok(())
}

/// Two running gateways.
#[derive(Debug)]
pub struct Pair {
    /// Gateway A.
    pub a: Station,
    /// Gateway B.
    pub b: Station,
    /// Their files.
    pub scratch: Scratch,
}

impl Pair {
    /// Configures and starts both gateways of a topology.
    ///
    /// # Errors
    /// If one of them does not run.
    pub fn start(frameward: &Path, topology: &Topology, choice: &Choice) -> Result<Self, PairError> {
        let scratch = Scratch::new()?;
        configure(&scratch, choice)?;
        let by = [&["env"], choice.environment].concat();
        let start =
            |gateway: &Gateway, name| Station::start_by(&by, frameward, &gateway.namespace, &scratch, name);
        let (a, b) = (start(&topology.gateway_a, "a")?, start(&topology.gateway_b, "b")?);
        let pair = Self { a, b, scratch };
        if choice.keys == LinkKeys::Agreed {
            pair.wait_until_secured()?;
        }
        Ok(pair)
    }

    /// Waits until both have agreed on keys.
    ///
    /// # Errors
    /// If they do not.
    pub fn wait_until_secured(&self) -> Result<(), PairError> {
        let end = Instant::now() + PATIENCE;
        for station in [&self.a, &self.b] {
            while !station.report()?.links.iter().all(|link| link.mka.as_ref().is_some_and(|mka| mka.secured))
            {
                if Instant::now() > end {
                    let what = format!("gateway {} to agree on keys", station.name);
                    return Err(lab::Error::Deadline { what, limit: PATIENCE }.into());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Stops gateway A, in this namespace, and starts it again. It runs once this returns.
    ///
    /// # Errors
    /// If it does not end well, or does not run again.
    pub fn restart_a(self, frameward: &Path, namespace: &Namespace) -> Result<Self, PairError> {
        let Self { a, b, scratch } = self;
        a.stop()?;
        let a = Station::start(frameward, namespace, &scratch, "a")?;
        Ok(Self { a, b, scratch })
    }

    /// Stops both.
    ///
    /// # Errors
    /// If one does not end well.
    pub fn stop(self) -> Result<(), PairError> {
        let Self { a, b, scratch } = self;
        a.stop()?;
        b.stop()?;
        drop(scratch);
        Ok(())
    }
}
