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
mod error;
mod lease;
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
use wire::Pn;

pub use disk::{Directory, Disk, replace};
pub use error::LeaseError;
pub use lease::{
    BLOCK_PNS, FIRST_BLOCK_PNS, LeaseName, MOST_UNUSED_PNS, PnBlock, Reservation, UnusedPns, next_block,
};
pub use record::RecordError;
use roles::KnownName;
pub use roles::{Role, StateView};
pub use store::{Opening, Store};
pub use use_marks::UnmarkedKey;
use use_marks::{LockedMarks, UseMark};

/// Locked while a gateway has the state directory.
const LOCK: &str = "leases.lock";

/// First lease of a transmit SA.
#[derive(Debug)]
pub struct InitialLease {
    /// Its first block.
    pub reservation: Reservation,
    /// If the key has no mark beside it.
    pub unmarked: Option<UnmarkedKey>,
}

/// The leases and floors of one gateway. Holds the state directory for itself alone as long as it lives.
pub struct LeaseStore {
    store: Store<Directory>,
    path: PathBuf,
    /// Locked; the lock goes when the file is closed, also by `kill -9`.
    lock: File,
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
        // It is made if it is missing.
        Directory::open(path).map_err(directory_error)?;
        // Not on the directory: whoever may list it could hold that.
        let lock = own_lock::take(&path.join(LOCK)).map_err(directory_error)?;
        let lock = lock.ok_or_else(|| LeaseError::InUse { path: path.to_owned() })?;
        Self::open_locked(path, max_age, lock, false)
    }

    /// The same with the lock of the program before, which this process has had all the while ([`LeaseStore::lock`]). Nothing is
    /// written if the heartbeat is young: frames wait.
    ///
    /// # Errors
    ///
    /// As [`LeaseStore::open`].
    pub fn go_on(path: &Path, max_age: Option<Duration>, lock: File) -> Result<Self, LeaseError> {
        Self::open_locked(path, max_age, lock, true)
    }

    fn open_locked(
        path: &Path,
        max_age: Option<Duration>,
        lock: File,
        goes_on: bool,
    ) -> Result<Self, LeaseError> {
        let directory_error = |source| LeaseError::Directory { path: path.to_owned(), source };
        let directory = Directory::open(path).map_err(directory_error)?;
        let machine = machine_digest(std::fs::read("/etc/machine-id").ok().as_deref());
        let opening = Opening { machine, now: unix_seconds(), max_age, goes_on };
        Ok(Self { store: Store::open(directory, path, opening)?, path: path.to_owned(), lock })
    }

    /// The lock that makes the state directory this process's. It goes when its last descriptor is closed.
    pub const fn lock(&self) -> &File {
        &self.lock
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
    /// Those of [`LeaseStore::check_role`], `MarksHeld`, `Write` and `Full`.
    pub fn begin(&mut self, name: LeaseName, last: Pn, key_file: &Path) -> Result<InitialLease, LeaseError> {
        self.begin_with(name, last, key_file, FIRST_BLOCK_PNS)
    }

    /// The same for a transmit SA that replaces one under load: its first block is as large as the latest one of that.
    ///
    /// # Errors
    ///
    /// As [`LeaseStore::begin`].
    pub fn begin_with(
        &mut self,
        name: LeaseName,
        last: Pn,
        key_file: &Path,
        pns: NonZeroU64,
    ) -> Result<InitialLease, LeaseError> {
        let locked = LockedMarks::lock(key_file)?;
        self.check_role(Role::Send, name, key_file)?;
        let reservation = self.reserve(name, last, pns)?;
        let unmarked = locked.set(&UseMark::new(Role::Send, name, &self.path), key_file);
        Ok(InitialLease { reservation, unmarked })
    }

    /// Writes down that receive SAs with these names may receive from now on, and marks their keys, which stand in these
    /// files. What is written is on disk when this returns; it is little but the first time. The first key without a
    /// mark, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`LeaseStore::check_role`], `MarksHeld`, `Write` and `Full`.
    pub fn receive(&mut self, sas: &[(LeaseName, &Path)]) -> Result<Option<UnmarkedKey>, LeaseError> {
        sas.iter().try_for_each(|(name, key_file)| self.check_role(Role::Receive, *name, key_file))?;
        let names: Vec<_> = sas.iter().map(|(name, _)| *name).collect();
        self.store.receive(&names, unix_seconds())?;
        let mut first = None;
        for (name, key_file) in sas {
            let unmarked =
                LockedMarks::lock(key_file)?.set(&UseMark::new(Role::Receive, *name, &self.path), key_file);
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
