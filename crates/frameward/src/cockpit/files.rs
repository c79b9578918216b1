//! The files beside a fleet's directory: inventory and identities, read again when they change.
//!
//! Times of change are those of the files' inodes: who writes a file in its place changes it, who puts back an old one or lets this user read it
//! does, too.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use inventory::Inventory;

use super::follow::{Follower, Sources};

/// Interval between two looks.
const FILES: Duration = Duration::from_secs(5);

/// Files, each with the time of its last change, in seconds since 1970 and nanoseconds.
type Times = Vec<(PathBuf, i64, i64)>;

/// The files as they were seen last, and what is wrong with them.
#[derive(Default)]
pub(super) struct Files {
    looked: Option<Instant>,
    identities: Option<Times>,
    inventory: Option<Times>,
    of_identities: Vec<String>,
    of_inventory: Vec<String>,
}

impl Files {
    /// A line for each thing that is wrong.
    pub(super) fn problems(&self) -> Vec<String> {
        [self.of_inventory.as_slice(), self.of_identities.as_slice()].concat()
    }

    /// Reads what changed, if it is time to look.
    pub(super) fn look(&mut self, follower: &Follower) {
        if self.looked.is_some_and(|at| at.elapsed() < FILES) {
            return;
        }
        self.looked = Some(Instant::now());
        let Sources { identities, inventory, .. } = &follower.sources;
        let now = Some(times(identities, "identity"));
        // Files that could not be read are tried again.
        if now != self.identities || !self.of_identities.is_empty() {
            self.identities = now;
            self.of_identities = follower.read_identities(identities);
        }
        if self.has_other_inventory(times(inventory, "toml")) {
            self.read_inventory(follower);
        }
    }

    /// True if it is another one than the last look saw. The first one was read just now. None at all is another one, too.
    fn has_other_inventory(&mut self, now: Times) -> bool {
        self.inventory.as_ref() != Some(&now) && self.inventory.replace(now).is_some()
    }

    /// Takes the inventory as it is now. One with mistakes is none: the one before goes on.
    fn read_inventory(&mut self, follower: &Follower) {
        match Inventory::read(&follower.sources.inventory) {
            Ok(read) => {
                follower.surface.lay_out(read.layout());
                self.of_inventory = Vec::new();
            }
            Err(findings) => {
                let first = findings.first().map_or_else(String::new, ToString::to_string);
                self.of_inventory = vec![format!("{first}; the inventory before is shown")];
            }
        }
    }
}

/// Times of change of a folder's files that end so; or of that one file.
fn times(of: &Path, ending: &str) -> Times {
    let time = |path: PathBuf| {
        let metadata = path.metadata().ok()?;
        Some((path, metadata.ctime(), metadata.ctime_nsec()))
    };
    let Ok(entries) = std::fs::read_dir(of) else {
        return time(of.to_owned()).into_iter().collect();
    };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let files = files.filter(|path| path.extension().is_some_and(|of_file| of_file == ending));
    let mut times: Times = files.filter_map(time).collect();
    times.sort();
    times
}

#[cfg(test)]
mod tests;
