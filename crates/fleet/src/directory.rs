//! The directory: octets under keys, with a revision that rises with each change. Nobody has to trust it.
//!
//! | | redb | etcd |
//! |---|---|---|
//! | for | one controller on one machine | several machines |
//! | address | a file | `etcd://HOST:PORT,...`, `etcds://HOST:PORT,...?ca=FILE` |
//! | [`Directory::put`], [`Directory::put_all`] | a transaction | a transaction of a comparison for each entry |
//! | [`Directory::watch`] of one key, [`Directory::watch_all`] of many | looks a few times a second | etcd's own watch, over one connection |
//!
//! The same tests run against both. A watch goes on where it was: the caller says which revision it has seen, so a connection
//! or a process that ends in between costs nothing. A revision that the directory has not kept, or not reached yet (it was restored
//! from a copy), is told as [`Watched::Lost`]: the caller lists anew.

mod address;
mod etcd;
mod redb;

use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use address::{Address, BadAddress};
pub use etcd::{Etcd, EtcdAddress};
pub use redb::Redb;
use suite::identity::PublicKey;

use crate::name::GatewayName;

/// Octets of a key, at most.
pub const KEY_OCTETS: usize = 256;
/// Octets of a value, at most: more than of the longest record.
pub const VALUE_OCTETS: usize = 512 << 10;
/// The most octets of a list: 5,000 gateways with 50 kB each.
const LIST_OCTETS: usize = 256 << 20;
/// The most entries that are written at once: half of what etcd allows in a transaction.
pub const MOST_WRITES: usize = 64;
/// Octets of values that are written at once, but for a single one: half of what etcd takes in a request.
pub const WRITES_OCTETS: usize = 768 << 10;
/// Octets that an entry of a list counts beside those of its key and value.
const ENTRY_OCTETS: usize = 64;

/// A value with its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// Revision of the directory in which it was written.
    pub revision: u64,
}

/// Entries at one revision: one, or all whose keys begin alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The revision.
    pub revision: u64,
    /// The entries, by key.
    pub entries: Vec<Entry>,
}

/// A value that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct Write<'w> {
    /// Its key.
    pub key: &'w str,
    /// The value.
    pub value: &'w [u8],
    /// Revision of the entry that it takes the place of; 0 for none.
    pub seen: u64,
}

/// Outcome of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Put {
    /// It is written, durably. With the revision of the entry.
    Done(u64),
    /// Nothing is written: somebody else wrote since. With the entry that is there, if there is one.
    Changed(Option<Entry>),
}

/// What a watch saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watched {
    /// What changed, and up to which revision. Nothing, if the time was over. Of several changes the last one is surely among them,
    /// in the order of revisions.
    Changes(Listing),
    /// The directory does not know what changed since: list anew.
    Lost,
}

/// Why the directory did not answer.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be reached, or broke off.
    #[error("directory {address}: {why}")]
    Unreachable {
        /// Its address.
        address: String,
        /// The obstacle, and what to do.
        why: String,
    },
    /// It answered something that makes no sense.
    #[error("directory {address}: its answer makes no sense ({what}); is it a directory of this release?")]
    Nonsense {
        /// Its address.
        address: String,
        /// What was expected.
        what: &'static str,
    },
}

/// A directory.
pub trait Directory: fmt::Debug {
    /// The entry at `key`, if there is one, and the directory's revision.
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn look(&mut self, key: &str) -> Result<Listing, DirectoryError>;

    /// The entry at `key`.
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn get(&mut self, key: &str) -> Result<Option<Entry>, DirectoryError> {
        Ok(self.look(key)?.entries.pop())
    }

    /// All entries whose keys begin with `prefix`.
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn list(&mut self, prefix: &str) -> Result<Listing, DirectoryError>;

    /// Writes an entry if the one that is there has the revision `seen`; 0 for none.
    ///
    /// # Errors
    /// [`DirectoryError`]. The entry may be written nevertheless: reading it again tells.
    fn put(&mut self, key: &str, value: &[u8], seen: u64) -> Result<Put, DirectoryError>;

    /// Writes several entries in one transaction: all of them, or none if one has another revision by now than was seen. Then false. No more than
    /// [`MOST_WRITES`] and [`WRITES_OCTETS`].
    ///
    /// # Errors
    /// [`DirectoryError`]. All may be written nevertheless, and not some of them.
    fn put_all(&mut self, writes: &[Write<'_>]) -> Result<bool, DirectoryError>;

    /// Waits for changes of the entry at `key` behind the revision `after`, no longer than `patience`.
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn watch(&mut self, key: &str, after: u64, patience: Duration) -> Result<Watched, DirectoryError>;

    /// The same of all entries whose keys begin with `prefix`. If one of them is removed, that is [`Watched::Lost`].
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn watch_all(&mut self, prefix: &str, after: u64, patience: Duration) -> Result<Watched, DirectoryError>;
}

impl Listing {
    /// True if it is longer than any list of a fleet.
    fn is_too_long(octets: &mut usize, entry: &Entry) -> bool {
        *octets += ENTRY_OCTETS + entry.key.len() + entry.value.len();
        *octets > LIST_OCTETS
    }
}

/// Prefix of all fleets' keys.
pub const FLEETS: &str = "/frameward/";

/// Prefix of all keys of a fleet.
pub fn fleet_prefix(fleet: PublicKey) -> String {
    format!("{FLEETS}{fleet}/")
}

/// Key of a gateway's configuration in a fleet.
pub fn configuration_key(fleet: PublicKey, gateway: &GatewayName) -> String {
    format!("{}{gateway}", configuration_prefix(fleet))
}

/// Prefix of the keys of all configurations of a fleet.
pub fn configuration_prefix(fleet: PublicKey) -> String {
    format!("/frameward/{fleet}/configuration/")
}

/// Key of a gateway's heartbeat in a fleet.
pub fn heartbeat_key(fleet: PublicKey, gateway: &GatewayName) -> String {
    format!("{}{gateway}", heartbeat_prefix(fleet))
}

/// Prefix of the keys of all heartbeats of a fleet.
pub fn heartbeat_prefix(fleet: PublicKey) -> String {
    format!("/frameward/{fleet}/heartbeat/")
}

/// Key of a box's request to be taken into a fleet.
pub fn enrolment_key(fleet: PublicKey, gateway: &GatewayName) -> String {
    format!("{}{gateway}", enrolment_prefix(fleet))
}

/// Prefix of the keys of all requests of a fleet.
pub fn enrolment_prefix(fleet: PublicKey) -> String {
    format!("/frameward/{fleet}/enrolment/")
}

/// Key of the head of an audit log of a fleet.
pub fn audit_key(fleet: PublicKey, log: &str) -> String {
    format!("{}{log}", audit_prefix(fleet))
}

/// Prefix of the keys of all heads of a fleet's audit logs.
pub fn audit_prefix(fleet: PublicKey) -> String {
    format!("/frameward/{fleet}/audit/")
}

impl Address {
    /// Opens the directory. It need not be there yet: the first operation tells.
    ///
    /// # Errors
    /// If a file of its settings cannot be used.
    pub fn open(&self) -> Result<Box<dyn Directory + Send>, DirectoryError> {
        Ok(match self {
            Self::File(path) => Box::new(Redb::new(path)),
            Self::Etcd(address) => Box::new(Etcd::new(address)?),
        })
    }

    /// Looks for the directory. Read, a file that is missing is as one without entries; for who follows it or asks about gateways, that
    /// would hide a file system that is not mounted.
    ///
    /// # Errors
    /// If it is a file, and that is not there. Servers tell with the first operation.
    pub fn is_there(&self) -> Result<(), DirectoryError> {
        let missing = |why: std::io::Error| {
            DirectoryError::Unreachable {
            address: self.to_string(),
            why: match why.kind() {
                std::io::ErrorKind::NotFound => {
                    "there is no such file; mount its file system, or name the file that frameward fleet apply has written"
                        .into()
                }
                std::io::ErrorKind::PermissionDenied => format!("{why}{}", redb::DENIED),
                _ => why.to_string(),
            },
        }
        };
        self.file().map_or(Ok(()), |path| path.metadata().map(|_| ()).map_err(missing))
    }

    /// The file of this machine that the directory is, if it is one.
    pub fn file(&self) -> Option<&Path> {
        if let Self::File(path) = self { Some(path) } else { None }
    }
}
