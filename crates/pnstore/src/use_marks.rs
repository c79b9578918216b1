//! Marks beside a key file: this key has been used for sending, or for receiving.
//!
//! A state directory that is gone as a whole takes all its own marks with it, and a box that was replaced starts with
//! the configuration and the keys of the old one, but without its state: both would begin again at PN 1. So the mark
//! stands where the key is, and goes where the key goes.
//!
//! ```text
//! KEYS/FILE         the key
//! KEYS/used/FILE    lines "sent NAME STATE", the lease's name in hexadecimal, once for each SCI the key was used with, and by
//!                   whom: the two ends of a link may have one directory of keys. Earlier releases left STATE out;
//!                   lines "received NAME STATE"
//! KEYS/used/.lock   held while marks are read and written
//! ```
//!
//! A directory of its own, so that the keys' can stay read-only for the gateway. The mark is made after the first block
//! is on disk: a crash between the two leaves a key without its mark, which the next start makes good, and never a mark
//! without its lease. Another key in the same file has another name and finds no mark; the same key in another file of the
//! directory finds it, since marks are looked for in all of its files. Where nothing can be written
//! there is no mark, and the start says so: then nothing but the state directory remembers.
//!
//! Of two gateways that start at once with one key file, the second reads the marks when the first has made its own: the
//! lock is held from before marks are read until they are written. No other account can have it ([`own_lock`]), and it is
//! waited for no longer than [`PATIENCE`].

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::{Directory, Disk};
use super::error::LeaseError;
use super::lease::LeaseName;
use super::own_lock;
use super::roles::Role;

const EXPLANATION: &str = "\
# The key in the file of this name, one directory up, has been used, for sending or for receiving. The gateway's state
# directory says up to which packet number. Where that is lost, a new key has to be made; a copy in another
# file is the same key.
";

const LOCK: &str = ".lock";

/// Limit on the time that others take for their marks.
const PATIENCE: Duration = Duration::from_secs(5);

/// The marks beside one key file.
pub(super) struct UseMarks {
    directory: PathBuf,
    file: String,
}

/// One line of them.
#[derive(PartialEq, Eq)]
pub(super) struct UseMark(String);

impl UseMark {
    /// The gateway with this state has sent, or may have received, under this name.
    pub(super) fn new(role: Role, name: LeaseName, state: &Path) -> Self {
        Self(format!("{} {} {}", word(role), hexadecimal(name), canonical(state).display()))
    }
}

/// A mark about a name, where it was found.
pub(super) struct FoundMark {
    pub(super) role: Role,
    /// State directory of the gateway that set it. None: an earlier release did.
    pub(super) state: Option<PathBuf>,
    /// The file that it is in.
    pub(super) path: PathBuf,
}

impl FoundMark {
    fn parse(line: &str, name: LeaseName, path: &Path) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let said = words.next()?;
        let role = [Role::Send, Role::Receive].into_iter().find(|role| word(*role) == said)?;
        let is_about = words.next()? == hexadecimal(name);
        is_about.then(|| Self { role, state: words.next().map(PathBuf::from), path: path.to_owned() })
    }
}

const fn word(role: Role) -> &'static str {
    match role {
        Role::Send => "sent",
        Role::Receive => "received",
    }
}

/// A state directory as marks name it.
pub(super) fn canonical(state: &Path) -> PathBuf {
    state.canonicalize().unwrap_or_else(|_| state.to_owned())
}

fn hexadecimal(name: LeaseName) -> String {
    let mut digits = String::new();
    for octet in name.0 {
        let _ = write!(digits, "{octet:02x}");
    }
    digits
}

impl UseMarks {
    pub(super) fn of(key_file: &Path) -> io::Result<Self> {
        let directory = key_file.parent().unwrap_or(Path::new("")).join("used");
        let file = key_file.file_name().and_then(|file| file.to_str());
        let file = file.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
        Ok(Self { directory, file: file.to_owned() })
    }

    /// The file that they are in.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(&self.file)
    }

    /// Keeps others from reading and writing marks of this directory until the file is closed. `WouldBlock`: somebody
    /// else does that to us.
    pub(super) fn lock(&self) -> io::Result<File> {
        Directory::open(&self.directory)?;
        let taken = own_lock::take_within(&self.directory.join(LOCK), PATIENCE)?;
        taken.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Marks about a name, beside any key of the directory.
    ///
    /// # Errors
    /// `Read`, with the file that cannot be read: also one of another key, for it may say something of this one.
    pub(super) fn about(&self, name: LeaseName) -> Result<Vec<FoundMark>, LeaseError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| LeaseError::Read { path, source }
        };
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed(&self.directory))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed(&self.directory))?;
            // A folder is nobody's marks, and a lock has none.
            if !entry.file_type().map_err(failed(&entry.path()))?.is_file() || entry.file_name() == LOCK {
                continue;
            }
            let path = entry.path();
            let text = text(&path).map_err(failed(&path))?;
            found.extend(text.lines().filter_map(|line| FoundMark::parse(line, name, &path)));
        }
        Ok(found)
    }

    /// Sets a mark; durable at return. To be called under the lock.
    pub(super) fn set(&self, mark: &UseMark) -> io::Result<()> {
        let text = text(&self.path())?;
        let text = if text.is_empty() { EXPLANATION } else { &text };
        let next = format!("{}.new", self.file);
        let mut directory = Directory::open(&self.directory)?;
        directory.write_synced(&next, format!("{text}{}\n", mark.0).as_bytes())?;
        directory.rename(&next, &self.file)?;
        directory.sync_directory()
    }
}

/// A file of marks; one that is not there, or no more, has none.
fn text(path: &Path) -> io::Result<String> {
    match std::fs::read(path) {
        Ok(octets) => Ok(String::from_utf8_lossy(&octets).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// A key that has no mark beside it: a loss of the state directory as a whole would go unnoticed.
#[derive(Debug)]
pub struct UnmarkedKey {
    /// The key's file.
    pub key_file: PathBuf,
    /// The error of writing it.
    pub error: io::Error,
}

/// Marks beside a key file, held for us alone as long as this lives, or why they cannot be written.
pub(super) struct LockedMarks {
    marks: UseMarks,
    lock: io::Result<File>,
}

impl LockedMarks {
    /// Locks the marks beside a key file.
    pub(super) fn lock(key_file: &Path) -> Result<Self, LeaseError> {
        let marks = UseMarks::of(key_file);
        let marks = marks.map_err(|source| LeaseError::Read { path: key_file.to_owned(), source })?;
        match marks.lock() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(LeaseError::MarksHeld { marks: marks.path() })
            }
            lock => Ok(Self { marks, lock }),
        }
    }

    /// Sets a mark unless it is there.
    pub(super) fn set(self, mark: &UseMark, key_file: &Path) -> Option<UnmarkedKey> {
        if text(&self.marks.path()).is_ok_and(|text| text.lines().any(|line| line == mark.0)) {
            return None;
        }
        // Without a lock, its error says why nothing can be written.
        let set = self.lock.and_then(|_held| self.marks.set(mark));
        set.err().map(|error| UnmarkedKey { key_file: key_file.to_owned(), error })
    }
}
