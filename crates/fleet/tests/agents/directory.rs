//! A directory that nobody can trust.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet::directory::{Directory, DirectoryError, Entry, Listing, Put, Watched, Write};
use testkit::Chance;

/// What it stores, and all that it ever stored.
#[derive(Debug)]
pub(crate) struct Simulated {
    stored: BTreeMap<String, Entry>,
    past: Vec<Entry>,
    revision: u64,
    chance: Chance,
    /// It tells what it stores.
    pub(crate) is_fair: bool,
    /// Nobody reaches it.
    pub(crate) is_away: bool,
}

fn away() -> DirectoryError {
    DirectoryError::Unreachable { address: "simulated".to_owned(), why: "it is away".to_owned() }
}

impl Simulated {
    pub(crate) fn new(chance: Chance) -> Self {
        Self {
            stored: BTreeMap::new(),
            past: Vec::new(),
            revision: 0,
            chance,
            is_fair: false,
            is_away: false,
        }
    }

    fn store(&mut self, key: &str, value: Vec<u8>) -> u64 {
        self.revision += 1;
        let entry = Entry { key: key.to_owned(), value, revision: self.revision };
        self.past.push(entry.clone());
        self.stored.insert(key.to_owned(), entry);
        self.revision
    }

    /// Somebody writes what suits him: a record of his own, an old one, another gateway's, nonsense, or nothing.
    pub(crate) fn attack(&mut self, key: &str, foreign: Vec<u8>) {
        let old = self.any_past();
        match (self.chance.below(4), old) {
            (0, _) => drop(self.store(key, foreign)),
            (1, Some(old)) => drop(self.store(key, old.value)),
            (2, _) => drop(self.stored.remove(key)),
            _ => drop(self.store(key, b"nonsense".to_vec())),
        }
    }

    fn any_past(&mut self) -> Option<Entry> {
        let count = self.past.len() as u64;
        (count > 0).then(|| self.past[self.chance.below(count) as usize].clone())
    }

    /// What it tells of a key.
    fn tell(&mut self, key: &str) -> Result<Listing, DirectoryError> {
        if self.is_away {
            return Err(away());
        }
        let mut told = self.stored.get(key).cloned();
        let mut revision = self.revision;
        if !self.is_fair {
            let old = self.any_past();
            match self.chance.below(12) {
                0..3 => return Err(away()),
                3 => told = None,
                // An old one of this gateway, or one of another.
                4..6 => told = old.or(told),
                6 => {
                    if let Some(entry) = &mut told {
                        let octets = self.chance.below(entry.value.len() as u64) as usize;
                        entry.value.truncate(octets);
                    }
                }
                7 => {
                    if let Some(entry) = &mut told {
                        let bit = self.chance.below(entry.value.len() as u64 * 8) as usize;
                        entry.value[bit / 8] ^= 1 << (bit % 8);
                    }
                }
                8 => revision += self.chance.below(1_000),
                _ => {}
            }
        }
        Ok(Listing { revision, entries: told.into_iter().collect() })
    }
}

impl Directory for Simulated {
    fn look(&mut self, key: &str) -> Result<Listing, DirectoryError> {
        self.tell(key)
    }

    fn list(&mut self, prefix: &str) -> Result<Listing, DirectoryError> {
        if self.is_away || !self.is_fair && self.chance.below(4) == 0 {
            return Err(away());
        }
        let entries = self.stored.values().filter(|entry| entry.key.starts_with(prefix)).cloned().collect();
        Ok(Listing { revision: self.revision, entries })
    }

    fn put(&mut self, key: &str, value: &[u8], seen: u64) -> Result<Put, DirectoryError> {
        let fault = if self.is_fair { u64::MAX } else { self.chance.below(8) };
        if self.is_away || fault == 0 {
            return Err(away());
        }
        let there = self.stored.get(key);
        if there.map_or(0, |entry| entry.revision) != seen {
            return Ok(Put::Changed(there.cloned()));
        }
        let revision = self.store(key, value.to_vec());
        // It is written, and nobody hears of it.
        if fault == 1 { Err(away()) } else { Ok(Put::Done(revision)) }
    }

    fn put_all(&mut self, writes: &[Write<'_>]) -> Result<bool, DirectoryError> {
        assert!(writes.len() == 1, "this operator publishes one by one");
        let Write { key, value, seen } = writes[0];
        Ok(matches!(self.put(key, value, seen)?, Put::Done(_)))
    }

    fn watch_all(
        &mut self,
        prefix: &str,
        after: u64,
        _patience: Duration,
    ) -> Result<Watched, DirectoryError> {
        if after > self.revision {
            return Ok(Watched::Lost);
        }
        let mut told = self.list(prefix)?;
        told.entries.retain(|entry| entry.revision > after);
        Ok(Watched::Changes(told))
    }

    fn watch(&mut self, key: &str, after: u64, _patience: Duration) -> Result<Watched, DirectoryError> {
        if self.is_away {
            return Err(away());
        }
        if after > self.revision || !self.is_fair && self.chance.below(10) == 0 {
            return Ok(Watched::Lost);
        }
        let mut told = self.tell(key)?;
        if self.is_fair {
            told.entries.retain(|entry| entry.revision > after);
        }
        Ok(Watched::Changes(told))
    }
}
