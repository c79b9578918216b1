//! How far a gateway is: the newest record that it accepted, on disk, so that no older one is ever accepted again.
//!
//! ```text
//!  STATE/fleet-FLEET-NAME.lock      empty; locked while somebody accepts
//!  STATE/fleet-FLEET-NAME.reached   array of 3: version, SHA-256 of the record, SHA-256 of both (8 octets, 32 octets)
//! ```
//!
//! The file is replaced as a whole and synced before the record's files are handed out. So a crash in between makes the same
//! record accepted once more, and never an older one. A damaged file is an error: taken for empty it would let old records in.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ciborium_ll::Header as Head;
use pnstore::{Directory, Disk as _, own_lock};
use sha2::{Digest as _, Sha256};

use crate::accept::{Accepted, Member, Refusal};
use crate::cbor::{Malformed, Reader, push, push_octets};

/// The newest record that was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// Its version.
    pub version: u64,
    /// Its SHA-256.
    pub digest: [u8; 32],
}

/// A gateway that remembers on disk which records it has accepted.
#[derive(Debug)]
pub struct Acceptor {
    member: Member,
    disk: Directory,
    file: String,
    path: PathBuf,
    reached: Option<Reached>,
    /// Locked; the lock goes when the file is closed, also by `kill -9`.
    lock: File,
}

/// Why nothing was accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The record was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The memory of what was accepted cannot be read or written.
    #[error("cannot keep in {}, how far this gateway is: {source}; without that an old record could be played back", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process fetches for this gateway.
    #[error("{} is in use: another process fetches for this gateway; wait until it is done", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The memory of what was accepted is damaged.
    #[error("{} is damaged, so how far this gateway was is not known; restore it, or remove it and have the operator apply again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl Acceptor {
    /// Opens the memory of `member` in the state directory `path`, which is made if it is missing. It is this one's alone until it
    /// is dropped.
    ///
    /// # Errors
    /// `Disk`, `Damaged` and `InUse`.
    pub fn open(member: Member, path: &Path) -> Result<Self, AcceptError> {
        Self::with_lock(member, path, None)
    }

    /// The same with the lock ([`Self::lock`]) that the program before has passed on: nobody else had it meanwhile. That of another member or
    /// directory is none, and the own one is taken.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn go_on(member: Member, path: &Path, lock: File) -> Result<Self, AcceptError> {
        Self::with_lock(member, path, Some(lock))
    }

    fn with_lock(member: Member, path: &Path, lock: Option<File>) -> Result<Self, AcceptError> {
        let name = format!("fleet-{}-{}", member.fleet, member.name);
        let file = format!("{name}.reached");
        let kept = path.join(&file);
        let disk_error = |source| AcceptError::Disk { path: kept.clone(), source };
        let mut disk = Directory::open(path).map_err(disk_error)?;
        let place = path.join(format!("{name}.lock"));
        let lock = match lock.filter(|lock| is_at(lock, &place)) {
            Some(lock) => Some(lock),
            None => own_lock::take(&place).map_err(disk_error)?,
        };
        let lock = lock.ok_or_else(|| AcceptError::InUse { path: kept.clone() })?;
        let reached = match disk.read(&file).map_err(disk_error)?.as_deref().map(Reached::parse) {
            None => None,
            Some(Ok(reached)) => Some(reached),
            Some(Err(Malformed)) => return Err(AcceptError::Damaged { path: kept }),
        };
        Ok(Self { member, disk, file, path: kept, reached, lock })
    }

    /// The gateway.
    pub const fn member(&self) -> &Member {
        &self.member
    }

    /// Its lock, for the next program of this process.
    pub const fn lock(&self) -> &File {
        &self.lock
    }

    /// The newest version that was accepted.
    pub fn version(&self) -> Option<u64> {
        self.reached.as_ref().map(|reached| reached.version)
    }

    /// Verifies a record, remembers it and opens its files. `now` is the time in seconds since 1970.
    ///
    /// # Errors
    /// [`AcceptError`]; then nothing of the record is known.
    pub fn accept(&mut self, octets: &[u8], now: u64) -> Result<Accepted, AcceptError> {
        let accepted = self.member.accept(octets, now, self.reached.as_ref())?;
        if accepted.is_new {
            let kept = pnstore::replace(&mut self.disk, &self.file, &accepted.reached.encode());
            kept.map_err(|source| AcceptError::Disk { path: self.path.clone(), source })?;
            self.reached = Some(accepted.reached);
        }
        Ok(accepted)
    }
}

/// Whether an open file is the one that lies there.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

impl Reached {
    fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        push(&mut octets, Head::Array(Some(3)));
        push(&mut octets, Head::Positive(self.version));
        push_octets(&mut octets, &self.digest);
        let check = self.check();
        push_octets(&mut octets, &check);
        octets
    }

    fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let items = reader.array()?;
        let reached = Self { version: reader.number()?, digest: *reader.array_of()? };
        let check: &[u8; 32] = reader.array_of()?;
        reader.end()?;
        if items == 3 && *check == reached.check() { Ok(reached) } else { Err(Malformed) }
    }

    /// Tells damage, not malice: whoever can write the file can do as he likes.
    fn check(&self) -> [u8; 32] {
        Sha256::new().chain_update(self.version.to_be_bytes()).chain_update(self.digest).finalize().into()
    }
}

#[cfg(test)]
mod tests;
