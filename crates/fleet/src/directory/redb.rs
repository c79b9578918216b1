//! A directory in one file, by redb.
//!
//! | table | key | value |
//! |---|---|---|
//! | `entries` | the entry's key | its revision and value |
//! | `numbers` | `revision` | the newest revision |
//!
//! The file is open only during an operation, so several programs of one machine share it: operators and gateways. One that finds it
//! in use by another tries again for a while.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::{
    Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    TableDefinition, TableError,
};

use super::{Directory, DirectoryError, Entry, KEY_OCTETS, Listing, Put, VALUE_OCTETS, Watched, Write};

const ENTRIES: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("entries");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const REVISION: &str = "revision";

/// Time for which an operation waits while others have the file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two attempts to open a file that others have.
const RETRY: Duration = Duration::from_millis(5);
/// Cause and cure where the kernel denies the file, or a folder above it.
pub(super) const DENIED: &str = "; the file or its folder belongs to another user: run the command as that one, or give both to the user who runs it (gateways: chown frameward: FILE)";
/// Interval between two looks of a watch.
const LOOK: Duration = Duration::from_millis(250);

/// A directory in a file. The first write makes it.
#[derive(Debug)]
pub struct Redb(PathBuf);

/// What can go wrong in an operation.
type Failed = Box<redb::Error>;

/// Tables of a directory at one moment.
struct View(ReadTransaction);

impl Redb {
    /// Directory in this file.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    fn error(&self, why: &redb::Error) -> DirectoryError {
        const NO_DIRECTORY: &str = "; name the file that frameward fleet apply has written";
        let cure = match why {
            redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => NO_DIRECTORY,
            redb::Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => DENIED,
            redb::Error::Corrupted(_) => NO_DIRECTORY,
            _ => "",
        };
        DirectoryError::Unreachable { address: self.0.display().to_string(), why: format!("{why}{cure}") }
    }

    fn opened<T>(open: impl Fn() -> Result<T, DatabaseError>) -> Result<T, Failed> {
        let since = Instant::now();
        loop {
            match open() {
                Err(DatabaseError::DatabaseAlreadyOpen) if since.elapsed() < PATIENCE => sleep(RETRY),
                opened => return opened.map_err(failed),
            }
        }
    }

    /// `None` if there is no file yet.
    fn read<T>(&self, read: impl FnOnce(&View) -> Result<T, Failed>) -> Result<Option<T>, DirectoryError> {
        match self.read_file(read) {
            Ok(read) => Ok(Some(read)),
            Err(error) => match *error {
                redb::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                error => Err(self.error(&error)),
            },
        }
    }

    fn read_file<T>(&self, read: impl FnOnce(&View) -> Result<T, Failed>) -> Result<T, Failed> {
        match Self::opened(|| ReadOnlyDatabase::open(&self.0)) {
            Ok(database) => read(&View(database.begin_read().map_err(failed)?)),
            // Whoever had it was killed: a writer puts it in order.
            Err(error) if matches!(*error, redb::Error::RepairAborted) => {
                let database = Self::opened(|| Database::open(&self.0))?;
                read(&View(database.begin_read().map_err(failed)?))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes all entries, each with a revision of its own, or tells what is in the place of the first one that has changed.
    fn write(&self, writes: &[Write<'_>]) -> Result<Put, Failed> {
        // Who has seen an entry has seen a file: an empty one in its place would hide that it is gone.
        let database = match writes.iter().all(|write| write.seen == 0) {
            true => Self::opened(|| Database::create(&self.0))?,
            false => Self::opened(|| Database::open(&self.0))?,
        };
        let transaction = database.begin_write().map_err(failed)?;
        let mut revision = 0;
        {
            let mut entries = transaction.open_table(ENTRIES).map_err(failed)?;
            let mut numbers = transaction.open_table(NUMBERS).map_err(failed)?;
            for Write { key, value, seen } in writes {
                let there = entries.get(*key).map_err(failed)?;
                let there = there.map(|value| entry(key, value.value())).transpose()?;
                if there.as_ref().map_or(0, |entry| entry.revision) != *seen {
                    return Ok(Put::Changed(there));
                }
                let newest = numbers.get(REVISION).map_err(failed)?.map_or(0, |number| number.value());
                revision = newest.checked_add(1).ok_or_else(|| nonsense("the last revision there can be"))?;
                numbers.insert(REVISION, revision).map_err(failed)?;
                entries.insert(*key, (revision, *value)).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(Put::Done(revision))
    }
}

impl View {
    fn number(&self, name: &str) -> Result<u64, Failed> {
        match self.0.open_table(NUMBERS) {
            Ok(numbers) => Ok(numbers.get(name).map_err(failed)?.map_or(0, |number| number.value())),
            Err(TableError::TableDoesNotExist(_)) => Ok(0),
            Err(error) => Err(failed(error)),
        }
    }

    fn get(&self, key: &str) -> Result<Option<Entry>, Failed> {
        match self.0.open_table(ENTRIES) {
            Ok(entries) => {
                entries.get(key).map_err(failed)?.map(|value| entry(key, value.value())).transpose()
            }
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn look(&self, key: &str) -> Result<Listing, Failed> {
        Ok(Listing { revision: self.number(REVISION)?, entries: self.get(key)?.into_iter().collect() })
    }

    /// Entries whose keys begin so, and that were written behind a revision.
    fn list(&self, prefix: &str, after: u64) -> Result<Listing, Failed> {
        let mut listing = Listing { revision: self.number(REVISION)?, entries: Vec::new() };
        let entries = match self.0.open_table(ENTRIES) {
            Ok(entries) => entries,
            Err(TableError::TableDoesNotExist(_)) => return Ok(listing),
            Err(error) => return Err(failed(error)),
        };
        let mut octets = 0;
        for row in entries.range(prefix..).map_err(failed)? {
            let (key, value) = row.map_err(failed)?;
            if !key.value().starts_with(prefix) {
                break;
            }
            // Nobody copies a whole fleet for each heartbeat.
            if value.value().0 <= after {
                continue;
            }
            let entry = entry(key.value(), value.value())?;
            if Listing::is_too_long(&mut octets, &entry) {
                return Err(nonsense("a list without an end"));
            }
            listing.entries.push(entry);
        }
        Ok(listing)
    }

    /// Changes behind a revision, among all that `look` finds.
    fn changes(
        &self,
        look: impl FnOnce(&Self) -> Result<Listing, Failed>,
        after: u64,
    ) -> Result<Watched, Failed> {
        let revision = self.number(REVISION)?;
        if after > revision {
            return Ok(Watched::Lost);
        }
        // Nobody wrote: most looks are such, and read one number.
        if after == revision {
            return Ok(Watched::Changes(Listing { revision, entries: Vec::new() }));
        }
        let mut listing = look(self)?;
        listing.entries.retain(|entry| entry.revision > after);
        listing.entries.sort_by_key(|entry| entry.revision);
        Ok(Watched::Changes(listing))
    }
}

impl Directory for Redb {
    fn look(&mut self, key: &str) -> Result<Listing, DirectoryError> {
        let empty = Listing { revision: 0, entries: Vec::new() };
        Ok(self.read(|view| view.look(key))?.unwrap_or(empty))
    }

    fn list(&mut self, prefix: &str) -> Result<Listing, DirectoryError> {
        let empty = Listing { revision: 0, entries: Vec::new() };
        Ok(self.read(|view| view.list(prefix, 0))?.unwrap_or(empty))
    }

    fn put(&mut self, key: &str, value: &[u8], seen: u64) -> Result<Put, DirectoryError> {
        self.write(&[Write { key, value, seen }]).map_err(|error| self.error(&error))
    }

    fn put_all(&mut self, writes: &[Write<'_>]) -> Result<bool, DirectoryError> {
        let put = self.write(writes).map_err(|error| self.error(&error))?;
        Ok(matches!(put, Put::Done(_)))
    }

    fn watch(&mut self, key: &str, after: u64, patience: Duration) -> Result<Watched, DirectoryError> {
        self.watched(|view| view.look(key), after, patience)
    }

    fn watch_all(&mut self, prefix: &str, after: u64, patience: Duration) -> Result<Watched, DirectoryError> {
        self.watched(|view| view.list(prefix, after), after, patience)
    }
}

impl Redb {
    /// Waits until what `look` finds has changed behind a revision, no longer than `patience`.
    fn watched(
        &self,
        look: impl Fn(&View) -> Result<Listing, Failed>,
        after: u64,
        patience: Duration,
    ) -> Result<Watched, DirectoryError> {
        let since = Instant::now();
        loop {
            let nothing = Watched::Changes(Listing { revision: 0, entries: Vec::new() });
            let watched = self.read(|view| view.changes(&look, after))?;
            let watched = watched.unwrap_or(if after == 0 { nothing } else { Watched::Lost });
            let left = patience.saturating_sub(since.elapsed());
            match watched {
                Watched::Changes(listing) if listing.entries.is_empty() && !left.is_zero() => {
                    sleep(LOOK.min(left))
                }
                watched => return Ok(watched),
            }
        }
    }
}

fn entry(key: &str, (revision, value): (u64, &[u8])) -> Result<Entry, Failed> {
    if key.len() > KEY_OCTETS || value.len() > VALUE_OCTETS {
        return Err(nonsense("an entry that is longer than any can be"));
    }
    Ok(Entry { key: key.to_owned(), value: value.to_vec(), revision })
}

fn nonsense(what: &str) -> Failed {
    Box::new(redb::Error::Corrupted(format!("it has {what}")))
}

fn failed(error: impl Into<redb::Error>) -> Failed {
    Box::new(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of one command names cause and cure. No permission stops root, who runs the tests.
    #[test]
    fn a_file_of_somebody_else_is_told_with_its_cure() {
        let directory = Redb::new(Path::new("/var/lib/frameward/fleet.redb"));
        let of = |kind: io::ErrorKind| directory.error(&redb::Error::Io(kind.into())).to_string();
        let denied = of(io::ErrorKind::PermissionDenied);
        assert!(denied.contains("belongs to another user: run the command as that one"), "{denied}");
        assert!(of(io::ErrorKind::InvalidData).ends_with("that frameward fleet apply has written"));
        assert!(!of(io::ErrorKind::StorageFull).contains("frameward fleet apply"));
    }
}
