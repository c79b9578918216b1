//! State of static keys on disk: packet-number leases, so that no nonce is used twice, and replay floors, so that
//! what was received before a crash is not accepted after it. Wire formats section 7.
//!
//! **Leases.** Before a transmit SA sends a frame with a static key, the block of PNs from which it takes its numbers
//! is written to the state directory and synced. A start begins above all that is reserved, so a crash costs
//! what is left of one block and never repeats a number.
//!
//! **Floors.** What a receive SA has accepted is written down while it runs (see [`control`] for when), and a
//! start accepts nothing below. A floor of 1 is written when the SA is installed: a name that was sent under is never
//! received under, nor the other way round (`roles.rs`).
//!
//! An SA that ends in order gives back what it has not used of its block, so that starts and stops, however many, use up
//! no more PNs than frames.
//!
//! ```text
//! STATE/leases          the highest PNs reserved (`record.rs` has the octets), replaced as a whole
//! STATE/floors          the lowest PNs to be accepted, and the heartbeat, replaced as a whole
//! STATE/*.new           the next of either while it is being written; means nothing by itself
//! STATE/leases.created  says that both have existed: if one is gone, the numbers are lost
//! STATE/leases.restored says that the machine went back to a snapshot while it ran: nothing here can be trusted
//! STATE/leases.lock     empty; locked while a gateway runs
//! KEYS/used/FILE        marks a key that was used for sending: if no lease knows it, the state is lost (`used.rs`);
//!                       and by whom it was used for receiving
//!
//! replace:  write FILE.new, sync it, rename it to FILE, sync the directory
//! ```
//!
//! A crash at any point leaves the old records or the new ones, whole; a block is handed out only after the last
//! step. `leases.created` comes after both files are durable. They are two files because leases are written seldom and
//! must never be lost, and floors are written every second.
//!
//! *Departure.* Section 7 names a record by key, SCI and AN. The AN is in no nonce, so a changed `an` under the
//! same key would have begun again at PN 1 and repeated nonces: a record is named by what the nonce is made of,
//! key and SCI, or key and SSCI with XPN (see [`LeaseName`]). Floors have the same names, since the peer goes on
//! counting when its AN changes.
//!
//! *Departure.* Section 7 keeps `lowest_pn`. With a replay window of W that is W - 1 below the highest PN received,
//! and the window's memory of what came in between is gone after a crash: up to W recorded frames could be sent
//! again, however old. So a floor is the PN above the highest one received, whatever the window. It costs the frames
//! that were overtaken and are still under way while a gateway restarts.
//!
//! **What cannot be told.** A disk image that was restored whole is like the disk it was made of. The heartbeat in
//! `floors` says when the state was last alive, and `state_max_age` refuses what is older; an image from an hour ago
//! passes. So does one that brings the box's clock back with it. Of a virtual machine that was brought back while it ran,
//! memory and all, the hypervisor may tell ([`netdev::vm_generation`]): then the state is condemned.

mod disk;
pub mod own_lock;
mod record;
mod roles;
mod store;
mod use_marks;

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use wire::{Pn, Sci, Ssci};

use disk::{Directory, Disk as _};
use record::MAX_RECORDS;
pub use record::RecordError;
use roles::KnownName;
pub use roles::{Role, StateView};
use store::{Opening, Store};
use use_marks::{UseMark, UseMarks};

/// PNs reserved at a time: 2^20.
///
/// At 1.5 million frames a second a block lasts 0.7 s, and the next is asked for at its half, so a disk has
/// 350 ms to sync. A crash burns at most one block: 4,096 of them fit into the 32 bits of a PN.
pub const BLOCK_PNS: NonZeroU64 = match NonZeroU64::new(1 << 20) {
    Some(pns) => pns,
    None => NonZeroU64::MIN,
};

/// Locked while a gateway has the state directory.
const LOCK: &str = "leases.lock";

/// Names the PNs of one SC under one key by what its nonces are made of besides the PN: SHA-256 over key and SCI,
/// or over key and SSCI with an XPN suite. The salt of an XPN suite is left out, so that a changed salt goes on
/// counting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
        let hash = || Sha256::new().chain_update(label).chain_update(channel).chain_update(key).finalize();
        Self(suite::scrubbed(hash).into())
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

/// PNs of a transmit SA that is gone: reserved, and never used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnusedPns {
    /// The record on disk.
    pub name: LeaseName,
    /// The PN that the next frame would have had.
    pub next: Pn,
    /// The last PN that was reserved.
    pub through: Pn,
}

/// Outcome of a request for PNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reservation {
    /// These PNs may be used.
    Block(PnBlock),
    /// The key has no PNs left: it must be changed.
    Exhausted,
}

/// Error of leases and floors. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The state directory cannot be made or opened.
    #[error("cannot open the state directory {}: {source}; create it and let the gateway write to it", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
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
        /// The system's error.
        source: io::Error,
    },
    /// The records cannot be written; no PN was handed out.
    #[error("cannot write packet numbers to {}: {source}; make room and let the gateway write there", path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Records are damaged, so nobody knows which PNs are used.
    #[error("{} is damaged ({reason}); {ANEW}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its fault.
        reason: RecordError,
    },
    /// The records existed and are gone, so nobody knows which PNs are used.
    #[error("{} is lost, and with it the packet numbers already used; {ANEW}", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// The records were written on another machine: a copied disk, whose origin may be counting on.
    #[error("{} was written on another machine (its machine-id differs); {ANEW}", path.display())]
    OtherMachine {
        /// The file.
        path: PathBuf,
    },
    /// Nobody can tell where this state has been meanwhile: perhaps it is a restored image.
    #[error(
        "the state in {} is {} hours old by this clock, and state_max_age allows {}; is the clock right? If it is, \
         the disk may have been restored: {ANEW}", path.display(), age.as_secs() / 3600, max_age.as_secs() / 3600
    )]
    Old {
        /// The directory.
        path: PathBuf,
        /// Since the last heartbeat.
        age: Duration,
        /// The age that is accepted.
        max_age: Duration,
    },
    /// The key was used before, and the state does not know it: the state is lost as a whole, or the key came from
    /// another box.
    #[error(
        "the key in {} has been used for sending, {} says, but {} does not know up to which packet number; \
         change the key: make a new one, under a new name", key_file.display(), mark.display(), path.display()
    )]
    KeyUsed {
        /// The key's file.
        key_file: PathBuf,
        /// The file that says so.
        mark: PathBuf,
        /// The state directory.
        path: PathBuf,
    },
    /// The machine went back to a snapshot while a gateway with static keys ran.
    #[error("{} shows that this machine returned to an earlier state, so packet numbers may have been used since; {ANEW}", path.display())]
    Restored {
        /// The file that says so.
        path: PathBuf,
    },
    /// This box has received under the name that it is to send under.
    #[error(
        "this box has received under this key and SCI before, {} says: the two boxes' configurations were exchanged; \
         {EXCHANGED}", record.display()
    )]
    Received {
        /// The file that says so.
        record: PathBuf,
    },
    /// This box has sent under the name that it is to receive under.
    #[error(
        "this box has sent under this key and SCI before, {} says: the two boxes' configurations were exchanged; \
         {EXCHANGED}", record.display()
    )]
    Sent {
        /// The file that says so.
        record: PathBuf,
    },
    /// Another gateway reads or writes the marks beside the keys, and does not end.
    #[error(
        "another gateway has locked {} for seconds, as a starting gateway does; stop it, or start this one again",
        marks.display()
    )]
    MarksHeld {
        /// The marks of the key.
        marks: PathBuf,
    },
    /// The disk does not answer; nothing is known to have been written.
    #[error(
        "the disk under {} has not answered for {} s; the kernel's log (dmesg) may show why", path.display(), silent.as_secs()
    )]
    Silent {
        /// The state directory.
        path: PathBuf,
        /// Duration of the silence.
        silent: Duration,
    },
    /// More keys than the file holds.
    #[error("{} is full ({MAX_RECORDS} keys); {ANEW}", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
}

/// Cure when nobody knows which PNs are used.
const ANEW: &str = "change all static keys, then remove leases* and floors* from the state directory";

/// Cure when two boxes have each other's names.
const EXCHANGED: &str = "put them back, or make new keys on both";

/// First lease of a transmit SA.
#[derive(Debug)]
pub struct InitialLease {
    /// Its first block.
    pub reservation: Reservation,
    /// If the key has no mark beside it.
    pub unmarked: Option<UnmarkedKey>,
}

/// A key that has no mark beside it: a loss of the state directory as a whole would go unnoticed.
#[derive(Debug)]
pub struct UnmarkedKey {
    /// The key's file.
    pub key_file: PathBuf,
    /// The error of writing it.
    pub error: io::Error,
}

/// The leases and floors of one gateway. Holds the state directory for itself alone as long as it lives.
pub struct LeaseStore {
    store: Store<Directory>,
    path: PathBuf,
    /// Locked; the lock goes when the file is closed, also by `kill -9`.
    _lock: File,
}

impl LeaseStore {
    /// Opens the state directory `path`, makes it if it is missing, reads what it knows and writes the heartbeat.
    /// State whose heartbeat is older than `max_age` is refused.
    ///
    /// # Errors
    ///
    /// All of [`LeaseError`] but `KeyUsed`; above all, state that is damaged, lost or another machine's is never
    /// taken for empty.
    pub fn open(path: &Path, max_age: Option<Duration>) -> Result<Self, LeaseError> {
        let directory_error = |source| LeaseError::Directory { path: path.to_owned(), source };
        let directory = Directory::open(path).map_err(directory_error)?;
        // Not on the directory: whoever may list it could hold that.
        let lock = own_lock::take(&path.join(LOCK)).map_err(directory_error)?;
        let lock = lock.ok_or_else(|| LeaseError::InUse { path: path.to_owned() })?;
        let machine = machine_digest(std::fs::read("/etc/machine-id").ok().as_deref());
        let opening = Opening { machine, now: unix_seconds(), max_age };
        Ok(Self { store: Store::open(directory, path, opening)?, path: path.to_owned(), _lock: lock })
    }

    /// The state directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Time by which this box's clock was behind the state's heartbeat when it was opened: it is wrong now, or was then.
    pub const fn clock_behind(&self) -> Option<Duration> {
        self.store.clock_behind()
    }

    /// Whether an SA may be installed whose key stands in `key_file`. Changes nothing: to be asked of all SAs before the
    /// first of them begins.
    ///
    /// # Errors
    ///
    /// `KeyUsed`: the key has a mark and no lease. `Received`: this box has received under the name, and is to send;
    /// `Sent`: the other way round. `Read`.
    pub fn check_role(&self, role: Role, name: LeaseName, key_file: &Path) -> Result<(), LeaseError> {
        let known = KnownName { sent: self.store.knows(name), received: self.store.received(name) };
        roles::check_role(&self.path, role, name, known, key_file)
    }

    /// Reserves the first block of a transmit SA whose key stands in `key_file`, as [`LeaseStore::reserve`] does, and
    /// marks the key as used for sending.
    ///
    /// # Errors
    ///
    /// Those of [`LeaseStore::judge`], `MarksHeld`, `Write` and `Full`.
    pub fn begin(&mut self, name: LeaseName, last: Pn, key_file: &Path) -> Result<InitialLease, LeaseError> {
        let locked = lock_marks(key_file)?;
        self.check_role(Role::Send, name, key_file)?;
        let reservation = self.reserve(name, last, BLOCK_PNS)?;
        let unmarked = locked.set(&UseMark::sent(name), key_file);
        Ok(InitialLease { reservation, unmarked })
    }

    /// Writes down that receive SAs with these names may receive from now on, and marks their keys, which stand in these
    /// files. What is written is on disk when this returns; it is little but the first time. The first key without a
    /// mark, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`LeaseStore::judge`], `MarksHeld`, `Write` and `Full`.
    pub fn receive(&mut self, sas: &[(LeaseName, &Path)]) -> Result<Option<UnmarkedKey>, LeaseError> {
        sas.iter().try_for_each(|(name, key_file)| self.check_role(Role::Receive, *name, key_file))?;
        let names: Vec<_> = sas.iter().map(|(name, _)| *name).collect();
        self.store.receive(&names, unix_seconds())?;
        let mut first = None;
        for (name, key_file) in sas {
            let unmarked = lock_marks(key_file)?.set(&UseMark::received(*name, &self.path), key_file);
            first = first.or(unmarked);
        }
        Ok(first)
    }

    /// Whether a running gateway holds the state directory `path`. Changes nothing, and makes no directory.
    ///
    /// # Errors
    /// If it exists and cannot be opened.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        own_lock::is_taken(&path.join(LOCK))
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

    /// Takes back PNs that were reserved and not used, unless others were reserved behind them. To be called only when
    /// the SA that they were reserved for is gone, and the thread that used it has ended or handed it over: the next
    /// block begins with them. On disk when this returns.
    ///
    /// # Errors
    ///
    /// `Write`; the PNs are then lost, as after a crash.
    pub fn give_back(&mut self, unused: &[UnusedPns]) -> Result<(), LeaseError> {
        self.store.give_back(unused)
    }

    /// Writes something without a meaning, and syncs it: whether the disk answers.
    ///
    /// # Errors
    ///
    /// `Write`.
    pub fn probe(&mut self) -> Result<(), LeaseError> {
        self.store.probe()
    }

    /// The lowest PN that a receive SA accepts when it is installed: 1 for a key that nothing was received under.
    pub fn floor(&self, name: LeaseName) -> Pn {
        self.store.floor(name)
    }

    /// Raises floors, never lowers one, and brings them to disk if one was raised, in a single write; also if the
    /// heartbeat is a minute old. What is written is on disk when this returns. True if something was written. Takes
    /// the time of two syncs.
    ///
    /// # Errors
    ///
    /// `Write` and `Full`. What could not be written is written by the next call that can.
    pub fn keep_floors(&mut self, floors: &[(LeaseName, Pn)]) -> Result<bool, LeaseError> {
        self.store.keep_floors(floors, unix_seconds())
    }
}

/// Has the state in `path` refused from now on, until all static keys were changed: which PNs were used is not known any
/// more. Durable at return.
///
/// # Errors
/// `Write`.
pub fn condemn(path: &Path) -> Result<(), LeaseError> {
    let condemned = Directory::open(path).and_then(|mut directory| {
        directory.write_synced(store::RESTORED, store::RESTORED_TEXT)?;
        directory.sync_directory()
    });
    condemned.map_err(|source| LeaseError::Write { path: path.to_owned(), source })
}

/// Marks beside a key file, held for us alone as long as this lives, or why they cannot be written.
struct LockedMarks {
    marks: UseMarks,
    lock: io::Result<File>,
}

fn lock_marks(key_file: &Path) -> Result<LockedMarks, LeaseError> {
    let marks = UseMarks::of(key_file);
    let marks = marks.map_err(|source| LeaseError::Read { path: key_file.to_owned(), source })?;
    match marks.lock() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(LeaseError::MarksHeld { marks: marks.path() })
        }
        lock => Ok(LockedMarks { marks, lock }),
    }
}

impl LockedMarks {
    /// Sets a mark unless it is there.
    fn set(self, mark: &UseMark, key_file: &Path) -> Option<UnmarkedKey> {
        if self.marks.have(mark).unwrap_or(false) {
            return None;
        }
        // Without a lock, its error says why nothing can be written.
        let set = self.lock.and_then(|_held| self.marks.set(mark));
        set.err().map(|error| UnmarkedKey { key_file: key_file.to_owned(), error })
    }
}

/// 0 for clocks that stand before 1970.
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The machine, as its hash: systemd asks that the machine-id itself is not shown. Zero if there is none.
fn machine_digest(machine_id: Option<&[u8]>) -> [u8; 32] {
    match machine_id.map(<[u8]>::trim_ascii) {
        None | Some(b"" | b"uninitialized") => [0; 32],
        Some(id) => Sha256::new().chain_update(b"frameward machine\0").chain_update(id).finalize().into(),
    }
}

#[cfg(test)]
mod fake_disk;
#[cfg(test)]
mod floor_tests;
#[cfg(test)]
mod tests;
