//! The state directory: how leases and floors are read, judged and replaced, on a disk that may fail at any step.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wire::Pn;

use super::disk::{Disk, replace};
use super::error::LeaseError;
use super::lease::{LeaseName, PnBlock, Reservation, UnusedPns};
use super::record::{Floors, Leases, MAX_RECORDS, Pns};

/// The oldest that the heartbeat gets while a gateway runs.
const HEARTBEAT: Duration = Duration::from_secs(60);

pub(super) const LEASES: &str = "leases";
pub(super) const FLOORS: &str = "floors";
pub(super) const CREATED: &str = "leases.created";
const CREATED_TEXT: &[u8] =
    b"The files leases and floors beside this one say which packet numbers the static keys have used and received.\n\
    If one of them is lost, change all static keys; then, and only then, remove all three.\n";

pub(super) const RESTORED: &str = "leases.restored";
pub(super) const RESTORED_TEXT: &[u8] =
    b"This virtual machine was brought back to an earlier state while a gateway with static keys ran, so packet numbers\n\
    were used that the files leases and floors may not know. Change all static keys; then, and only then, remove all four.\n";

/// Time of opening a state directory, and the age that it may have.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The machine, as its hash.
    pub machine: [u8; 32],
    /// Seconds since 1970.
    pub now: u64,
    /// The oldest heartbeat that is accepted.
    pub max_age: Option<Duration>,
    /// This process has had the directory all the while, in the program before: a young heartbeat need not be written.
    pub goes_on: bool,
}

/// Leases and floors on a disk, without the marks of keys. [`LeaseStore`](crate::LeaseStore) has one in a directory.
pub struct Store<D> {
    disk: D,
    path: PathBuf,
    leases: Leases,
    floors: Floors,
    /// There are floors, or a heartbeat, that are not on disk.
    unwritten: bool,
    clock_behind: Option<Duration>,
}

impl<D: Disk> Store<D> {
    /// Reads what the directory knows, makes its files if there are none, and writes the heartbeat.
    ///
    /// # Errors
    /// As [`LeaseStore::open`](crate::LeaseStore::open) says.
    pub fn open(mut disk: D, path: &Path, opening: Opening) -> Result<Self, LeaseError> {
        let Opening { machine, now, max_age, goes_on } = opening;
        let write_error = |source| LeaseError::Write { path: path.to_owned(), source };
        let mut read = |name| {
            let read = disk.read(name);
            read.map_err(|source| LeaseError::Read { path: path.join(name), source })
        };
        if read(RESTORED)?.is_some() {
            return Err(LeaseError::Restored { path: path.join(RESTORED) });
        }
        let (created, leases, floors) = (read(CREATED)?.is_some(), read(LEASES)?, read(FLOORS)?);
        let damaged = |name| move |reason| LeaseError::Damaged { path: path.join(name), reason };
        let lost = |name| LeaseError::Lost { path: path.join(name) };
        let found = floors.is_some();
        let leases = match leases {
            Some(octets) => Leases::parse(&octets).map_err(damaged(LEASES))?,
            None if created || found => return Err(lost(LEASES)),
            None => {
                let leases = Leases { machine, ends: Pns::new() };
                replace(&mut disk, LEASES, &leases.encode()).map_err(write_error)?;
                leases
            }
        };
        let floors = match floors {
            Some(octets) => Floors::parse(&octets).map_err(damaged(FLOORS))?,
            None if created || !leases.ends.is_empty() => return Err(lost(FLOORS)),
            None => Floors { machine, written: now, lowest: Pns::new() },
        };
        for (name, writer) in [(LEASES, &leases.machine), (FLOORS, &floors.machine)] {
            if *writer != machine {
                return Err(LeaseError::OtherMachine { path: path.join(name) });
            }
        }
        let age = Duration::from_secs(now.saturating_sub(floors.written));
        if let Some(max_age) = max_age.filter(|max_age| age > *max_age) {
            return Err(LeaseError::Old { path: path.to_owned(), age, max_age });
        }
        let behind = Duration::from_secs(floors.written.saturating_sub(now));
        let clock_behind = Some(behind).filter(|behind| !behind.is_zero());
        if !created {
            // Files just read may be in the page cache only, if the last process died before its final sync: floors
            // must not outlive the leases.
            disk.sync_directory().map_err(write_error)?;
        }
        let mut store =
            Self { disk, path: path.to_owned(), leases, floors, unwritten: !goes_on, clock_behind };
        // The heartbeat; and where nothing can be written, nothing is started.
        store.keep_floors(&[], now)?;
        if !created {
            store.disk.write_synced(CREATED, CREATED_TEXT).map_err(write_error)?;
            store.disk.sync_directory().map_err(write_error)?;
        }
        Ok(store)
    }

    /// Time by which the clock was behind the heartbeat when the directory was opened.
    pub(super) const fn clock_behind(&self) -> Option<Duration> {
        self.clock_behind
    }

    /// Whether PNs were ever reserved for `name`.
    pub(super) fn knows(&self, name: LeaseName) -> bool {
        self.leases.ends.contains_key(&name.0)
    }

    /// Whether frames were ever received under `name`, or could have been.
    pub(super) fn received(&self, name: LeaseName) -> bool {
        self.floors.lowest.contains_key(&name.0)
    }

    /// Writes down that frames may be received under these names from now on: a floor of 1 for those without one. If one
    /// of them was ever sent under, nothing is written. True if something was.
    ///
    /// # Errors
    /// `Sent`, `Full` and `Write`.
    pub fn receive(&mut self, names: &[LeaseName], now: u64) -> Result<bool, LeaseError> {
        if names.iter().any(|name| self.knows(*name)) {
            return Err(LeaseError::Sent { record: self.path.join(LEASES) });
        }
        let fresh: Vec<_> = names.iter().filter(|name| !self.received(**name)).collect();
        if self.floors.lowest.len() + fresh.len() > MAX_RECORDS {
            return Err(LeaseError::Full { path: self.path.join(FLOORS) });
        }
        for name in fresh {
            self.floors.lowest.insert(name.0, Pn::FIRST.number());
            self.unwritten = true;
        }
        self.keep_floors(&[], now)
    }

    /// Reserves PNs, as [`LeaseStore::reserve`](crate::LeaseStore::reserve) says.
    ///
    /// # Errors
    /// `Received`, `Full` and `Write`.
    pub fn reserve(&mut self, name: LeaseName, last: Pn, pns: NonZeroU64) -> Result<Reservation, LeaseError> {
        if self.received(name) {
            return Err(LeaseError::Received { record: self.path.join(FLOORS) });
        }
        let reserved = self.leases.ends.get(&name.0).copied();
        if reserved.is_none() && self.leases.ends.len() >= MAX_RECORDS {
            return Err(LeaseError::Full { path: self.path.join(LEASES) });
        }
        let Some(first) = reserved.map_or(Some(1), |end| end.checked_add(1)).and_then(Pn::new) else {
            return Ok(Reservation::Exhausted);
        };
        if first > last {
            return Ok(Reservation::Exhausted);
        }
        let end = first.number().saturating_add(pns.get() - 1).min(last.number());
        let end = Pn::new(end).expect("invariant: a block ends at or above its first PN");
        let mut next = self.leases.clone();
        next.ends.insert(name.0, end.number());
        replace(&mut self.disk, LEASES, &next.encode())
            .map_err(|source| LeaseError::Write { path: self.path.clone(), source })?;
        self.leases = next;
        Ok(Reservation::Block(PnBlock { first, last: end }))
    }

    /// Takes PNs back that nobody has used and nobody can use any more, unless others were reserved behind them. One
    /// write for all of them.
    ///
    /// # Errors
    /// `Write`.
    pub fn give_back(&mut self, unused: &[UnusedPns]) -> Result<(), LeaseError> {
        let mut leases = self.leases.clone();
        for UnusedPns { name, next, through } in unused {
            // A record is never 0, so a key whose SA has sent nothing loses its first PN.
            let used = (next.number() - 1).max(1);
            match leases.ends.get_mut(&name.0) {
                Some(end) if *end == through.number() && used < *end => *end = used,
                _ => {}
            }
        }
        if leases != self.leases {
            replace(&mut self.disk, LEASES, &leases.encode())
                .map_err(|source| LeaseError::Write { path: self.path.clone(), source })?;
            self.leases = leases;
        }
        Ok(())
    }

    /// Writes what means nothing by itself.
    pub(super) fn probe(&mut self) -> Result<(), LeaseError> {
        let written = self.disk.write_synced(&format!("{FLOORS}.new"), b"");
        written.map_err(|source| LeaseError::Write { path: self.path.clone(), source })
    }

    /// The lowest PN that is accepted after a start.
    pub fn floor(&self, name: LeaseName) -> Pn {
        self.floors.lowest.get(&name.0).and_then(|&lowest| Pn::new(lowest)).unwrap_or(Pn::FIRST)
    }

    /// Raises floors, and writes them if one was raised, or if the heartbeat is due. True if something was written.
    ///
    /// # Errors
    /// `Full` and `Write`.
    pub fn keep_floors(&mut self, floors: &[(LeaseName, Pn)], now: u64) -> Result<bool, LeaseError> {
        let mut full = false;
        for &(name, lowest) in floors {
            if lowest <= self.floor(name) {
                continue;
            }
            let known = &mut self.floors.lowest;
            if known.len() >= MAX_RECORDS && !known.contains_key(&name.0) {
                full = true;
                continue;
            }
            known.insert(name.0, lowest.number());
            self.unwritten = true;
        }
        // A clock that was set back must not make good state look old at the next start: the heartbeat never falls.
        if now.saturating_sub(self.floors.written) >= HEARTBEAT.as_secs() {
            self.unwritten = true;
        }
        let write = self.unwritten;
        if write {
            self.floors.written = self.floors.written.max(now);
            replace(&mut self.disk, FLOORS, &self.floors.encode())
                .map_err(|source| LeaseError::Write { path: self.path.clone(), source })?;
            self.unwritten = false;
        }
        if full { Err(LeaseError::Full { path: self.path.join(FLOORS) }) } else { Ok(write) }
    }
}
