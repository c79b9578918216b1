//! Packet-number leases: static keys survive a restart or a crash without a nonce used twice.
//!
//! Wire formats section 7. Before a transmit SA sends a frame with a static key, the block of PNs from which it
//! takes its numbers is written to the state directory and synced. A start begins above all that was ever
//! reserved, so a crash costs what is left of one block and never repeats a number.
//!
//! ```text
//! STATE/leases          the records (`record.rs` has the octets), replaced as a whole
//! STATE/leases.new      the next `leases` while it is being written; means nothing by itself
//! STATE/leases.created  says that `leases` has existed: if it is gone, the numbers are lost
//!
//! replace:  write leases.new, sync it, rename it to leases, sync the directory
//! ```
//!
//! A crash at any point leaves the old records or the new ones, whole; a block is handed out only after the last
//! step. `leases.created` comes after the first `leases` is durable.
//!
//! *Departure.* Section 7 names a record by key, SCI and AN. The AN is in no nonce, so a changed `an` under the
//! same key would have begun again at PN 1 and repeated nonces: a record is named by what the nonce is made of,
//! key and SCI, or key and SSCI with XPN (see [`LeaseName`]).
//!
//! Left out on purpose: a disk image that was restored whole (it cannot be told from the disk alone), a state
//! directory that is gone or changed as a whole, and the receive side's floor.

mod disk;
mod record;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wire::{Pn, Sci, Ssci};

use disk::{Directory, Disk};
pub use record::RecordError;
use record::{MAX_RECORDS, Records};

/// PNs reserved at a time: 2^20.
///
/// At 1.5 million frames a second a block lasts 0.7 s, and the next is asked for at its half, so a disk has
/// 350 ms to sync. A start burns at most one block: 4,096 starts fit into the 32 bits of a PN.
pub const BLOCK_PNS: NonZeroU64 = match NonZeroU64::new(1 << 20) {
    Some(pns) => pns,
    None => NonZeroU64::MIN,
};

const RECORDS: &str = "leases";
const NEXT_RECORDS: &str = "leases.new";
const CREATED: &str = "leases.created";
const CREATED_TEXT: &[u8] =
    b"The file leases beside this one says which packet numbers the static keys have used.\n\
    If it is lost, change all static keys; then, and only then, remove this file.\n";

/// Names the numbers of one transmit SA by what its nonces are made of besides the PN: SHA-256 over key and SCI,
/// or over key and SSCI with an XPN suite. The salt of an XPN suite is left out, so that a changed salt goes on
/// counting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseName([u8; 32]);

impl LeaseName {
    /// The name for a suite whose nonce is SCI and PN.
    pub fn new(key: &[u8], sci: Sci) -> Self {
        Self::digest(b"frameward lease sci\0", key, &sci.octets())
    }

    /// The name for an XPN suite, whose nonce is SSCI and PN under the salt.
    pub fn xpn(key: &[u8], ssci: Ssci) -> Self {
        Self::digest(b"frameward lease ssci\0", key, &ssci.0.to_be_bytes())
    }

    fn digest(label: &[u8], key: &[u8], channel: &[u8]) -> Self {
        // Only the key's length varies and it stands last, so no two inputs hash the same octets.
        Self(Sha256::new().chain_update(label).chain_update(channel).chain_update(key).finalize().into())
    }
}

/// PNs that are reserved on disk and were never reserved before; both ends belong to the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PnBlock {
    /// The lowest PN of the block.
    pub first: Pn,
    /// The highest PN of the block.
    pub last: Pn,
}

/// What became of a wish for PNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reservation {
    /// These PNs may be used.
    Block(PnBlock),
    /// The key has no PNs left: it must be changed.
    Exhausted,
}

/// Why there is no lease. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The state directory cannot be made or opened.
    #[error("cannot open the state directory {}: {source}; create it and let the gateway write to it", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process holds the state directory.
    #[error("the state directory {} is in use by another gateway; stop that one, or give each its own `state`", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The records cannot be read.
    #[error("cannot read {}: {source}; let the gateway read it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The records cannot be written; no PN was handed out.
    #[error("cannot write packet-number leases to {}: {source}; make room and let the gateway write there", path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The records are damaged, so nobody knows which PNs are used.
    #[error("{} is damaged ({reason}); change all static keys, then remove {0}*", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: RecordError,
    },
    /// The records existed and are gone, so nobody knows which PNs are used.
    #[error("{} is lost, and with it the packet numbers already used; change all static keys, then remove {0}*", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// The records were written on another machine: a copied disk, whose origin may be counting on.
    #[error("{} was written on another machine (its machine-id differs); change all static keys, then remove {0}*", path.display())]
    OtherMachine {
        /// The file.
        path: PathBuf,
    },
    /// More keys than the file holds.
    #[error("{} is full ({MAX_RECORDS} keys); change all static keys, then remove {0}*", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
}

/// The leases of one gateway. Holds the state directory for itself alone as long as it lives.
pub struct LeaseStore {
    store: Store<Directory>,
    /// Locked; the lock goes when the file is closed, also by `kill -9`.
    _lock: File,
}

impl LeaseStore {
    /// Opens the state directory `path`, makes it if it is missing, and reads its leases.
    ///
    /// # Errors
    ///
    /// All of [`LeaseError`] but `Full`; above all, state that is damaged, lost or another machine's is never
    /// taken for empty.
    pub fn open(path: &Path) -> Result<Self, LeaseError> {
        let directory_error = |source| LeaseError::Directory { path: path.to_owned(), source };
        let directory = Directory::open(path).map_err(directory_error)?;
        let lock = File::open(path).map_err(directory_error)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(LeaseError::InUse { path: path.to_owned() });
            }
            Err(std::fs::TryLockError::Error(source)) => return Err(directory_error(source)),
        }
        let machine = machine_digest(std::fs::read("/etc/machine-id").ok().as_deref());
        Ok(Self { store: Store::open(directory, path, machine)?, _lock: lock })
    }

    /// Whether a running gateway holds the state directory `path`. Changes nothing, and makes no directory.
    ///
    /// # Errors
    /// If it exists and cannot be opened.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        let directory = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        match directory.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Reserves up to `pns` PNs for `name`, above all that was ever reserved for it and none above `last`
    /// ([`Pn::LAST_32`], or [`Pn::LAST_64`] with XPN). The block is on disk when this returns. Takes the time of
    /// two syncs, so never call it from the frame path.
    ///
    /// # Errors
    ///
    /// `Write` and `Full`; the PNs of a failed call are never handed out twice, and a later call may succeed.
    pub fn reserve(&mut self, name: LeaseName, last: Pn, pns: NonZeroU64) -> Result<Reservation, LeaseError> {
        self.store.reserve(name, last, pns)
    }
}

/// The machine, as its hash: systemd asks that the machine-id itself is not shown. Zero if there is none.
fn machine_digest(machine_id: Option<&[u8]>) -> [u8; 32] {
    match machine_id.map(<[u8]>::trim_ascii) {
        None | Some(b"" | b"uninitialized") => [0; 32],
        Some(id) => Sha256::new().chain_update(b"frameward machine\0").chain_update(id).finalize().into(),
    }
}

struct Store<D> {
    disk: D,
    path: PathBuf,
    records: Records,
}

impl<D: Disk> Store<D> {
    fn open(mut disk: D, path: &Path, machine: [u8; 32]) -> Result<Self, LeaseError> {
        let file = path.join(RECORDS);
        let read_error = |source| LeaseError::Read { path: file.clone(), source };
        let write_error = |source| LeaseError::Write { path: path.to_owned(), source };
        let created = disk.read(CREATED).map_err(read_error)?.is_some();
        let records = match disk.read(RECORDS).map_err(read_error)? {
            Some(octets) => Records::parse(&octets)
                .map_err(|reason| LeaseError::Damaged { path: file.clone(), reason })?,
            None if created => return Err(LeaseError::Lost { path: file }),
            None => {
                let records = Records { machine, ends: BTreeMap::new() };
                replace(&mut disk, &records).map_err(write_error)?;
                records
            }
        };
        if records.machine != machine {
            return Err(LeaseError::OtherMachine { path: file });
        }
        if !created {
            // What was read may be in the page cache only, if the last process died before its final sync.
            disk.sync_directory().map_err(write_error)?;
            disk.write_synced(CREATED, CREATED_TEXT).map_err(write_error)?;
            disk.sync_directory().map_err(write_error)?;
        }
        Ok(Self { disk, path: path.to_owned(), records })
    }

    fn reserve(&mut self, name: LeaseName, last: Pn, pns: NonZeroU64) -> Result<Reservation, LeaseError> {
        let reserved = self.records.ends.get(&name.0).copied();
        if reserved.is_none() && self.records.ends.len() >= MAX_RECORDS {
            return Err(LeaseError::Full { path: self.path.join(RECORDS) });
        }
        let Some(first) = reserved.map_or(Some(1), |end| end.checked_add(1)).and_then(Pn::new) else {
            return Ok(Reservation::Exhausted);
        };
        if first > last {
            return Ok(Reservation::Exhausted);
        }
        let end = first.number().saturating_add(pns.get() - 1).min(last.number());
        let end = Pn::new(end).expect("invariant: a block ends at or above its first PN");
        let mut next = self.records.clone();
        next.ends.insert(name.0, end.number());
        replace(&mut self.disk, &next)
            .map_err(|source| LeaseError::Write { path: self.path.clone(), source })?;
        self.records = next;
        Ok(Reservation::Block(PnBlock { first, last: end }))
    }
}

fn replace(disk: &mut impl Disk, records: &Records) -> io::Result<()> {
    disk.write_synced(NEXT_RECORDS, &records.encode())?;
    disk.rename(NEXT_RECORDS, RECORDS)?;
    disk.sync_directory()
}

#[cfg(test)]
mod tests;
