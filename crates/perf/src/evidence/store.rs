//! Finished steps on disk: a run that was interrupted goes on where it stopped.
//!
//! A step is a file below `steps/`, written beside its place and renamed, so it is whole or not there. It counts for the
//! run that it was made in: the same machine, the same commit, the same program, the same effort.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::evidence::outcome::Outcome;
use crate::evidence::quietness::Quietness;

/// Conditions that have to be the same for a step to be taken over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// Architecture and CPUs.
    pub machine: String,
    /// The commit, with `+` if the tree had changes.
    pub commit: String,
    /// Length and time of the program's file, since trees with changes share a name.
    pub program: String,
    /// `full` or `quick`.
    pub effort: String,
}

/// A finished step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// Its origin.
    pub origin: Origin,
    /// Its duration.
    pub seconds: f64,
    /// Share of the machine that others took meanwhile.
    pub quietness: Quietness,
    /// Its measurements.
    pub outcome: Outcome,
}

/// The directory of a run.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    /// Opens or makes the directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory.join("steps"))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// The step of that name, if it was finished under the same circumstances. A file that cannot be read is none.
    pub fn finished(&self, step: &str, origin: &Origin) -> Option<Finished> {
        let text = fs::read(self.file(step)).ok()?;
        serde_json::from_slice(&text).ok().filter(|finished: &Finished| finished.origin == *origin)
    }

    /// Keeps a step.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, step: &str, finished: &Finished) -> io::Result<()> {
        self.write(&self.file(step), &serde_json::to_string(finished)?)
    }

    /// Forgets a step, if it is there.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(&self, step: &str) -> io::Result<()> {
        match fs::remove_file(self.file(step)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes a file of the run, whole or not at all; returns where it stands.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn publish(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.directory.join(name);
        self.write(&path, text)?;
        Ok(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let beside = path.with_extension("new");
        fs::write(&beside, text)?;
        fs::rename(&beside, path)
    }

    fn file(&self, step: &str) -> PathBuf {
        let name: String = step.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.directory.join("steps").join(format!("{name}.json"))
    }
}

#[cfg(test)]
mod tests {
    use bench::Row;

    use super::*;

    #[test]
    fn a_step_counts_for_its_own_run_alone() {
        let directory = crate::demo::pair::Scratch::new().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let origin =
            Origin { machine: "m".into(), commit: "c".into(), program: "p".into(), effort: "quick".into() };
        let outcome = Outcome { rows: vec![Row::new("b", "case", 1.5, "us", 1)], ..Outcome::default() };
        let quietness = Quietness { stolen: 0.5, empty_loop: 1.25, tries: 2 };
        let finished = Finished { origin: origin.clone(), seconds: 2.0, quietness, outcome };
        store.keep("rivals: round 1, fastd", &finished).unwrap();
        assert_eq!(store.finished("rivals: round 1, fastd", &origin), Some(finished.clone()));
        for other in [
            Origin { machine: "x".into(), ..origin.clone() },
            Origin { commit: "x".into(), ..origin.clone() },
            Origin { program: "x".into(), ..origin.clone() },
            Origin { effort: "full".into(), ..origin.clone() },
        ] {
            assert_eq!(store.finished("rivals: round 1, fastd", &other), None, "{other:?}");
        }
        assert_eq!(store.finished("another", &origin), None);
        fs::write(directory.path().join("steps/rivals--round-1--fastd.json"), "{\"origin\":").unwrap();
        assert_eq!(store.finished("rivals: round 1, fastd", &origin), None, "cut off");
        store.keep("rivals: round 1, fastd", &finished).unwrap();
        store.forget("rivals: round 1, fastd").unwrap();
        store.forget("rivals: round 1, fastd").unwrap();
        assert_eq!(store.finished("rivals: round 1, fastd", &origin), None);
    }
}
