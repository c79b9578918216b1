//! Mistakes of an inventory: each a line with file, line and cure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::Finding;

use crate::tree::Place;

/// Collects mistakes while the inventory is judged.
pub(crate) struct Mistakes<'f> {
    files: &'f [PathBuf],
    found: BTreeMap<(Place, String), ()>,
}

impl<'f> Mistakes<'f> {
    pub(crate) const fn new(files: &'f [PathBuf]) -> Self {
        Self { files, found: BTreeMap::new() }
    }

    /// A mistake, once however often it is met.
    pub(crate) fn add(&mut self, place: Place, text: impl Into<String>) {
        self.found.insert((place, text.into()), ());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the order of files and lines.
    pub(crate) fn into_findings(self) -> Vec<Finding> {
        let finding = |((place, text), ()): ((Place, String), ())| Finding {
            file: file(self.files, place).to_owned(),
            line: Some(place.line),
            text,
        };
        self.found.into_iter().map(finding).collect()
    }

    /// Nothing, or all of them.
    pub(crate) fn done(self) -> Result<(), Vec<Finding>> {
        if self.is_empty() { Ok(()) } else { Err(self.into_findings()) }
    }
}

/// `FILE:LINE`
pub(crate) fn at(files: &[PathBuf], place: Place) -> String {
    format!("{}:{}", file(files, place).display(), place.line)
}

fn file(files: &[PathBuf], place: Place) -> &Path {
    files.get(place.file).map_or(Path::new(""), PathBuf::as_path)
}

/// Suggests names in place of one that nothing has: the one that is meant, or all that there are.
pub(crate) fn instead<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    if let Some(meant) = config::suggest_key(name, known.clone()) {
        return format!("did you mean {meant:?}?");
    }
    /// More names help nobody.
    const SHOWN: usize = 8;
    let all: Vec<_> = known.clone().take(SHOWN).collect();
    let more = known.count().saturating_sub(SHOWN);
    match (all.as_slice(), more) {
        ([], _) => "there is none yet; add it".to_owned(),
        (all, 0) => format!("use one of {}", all.join(", ")),
        (all, more) => format!("use one of {} and {more} more", all.join(", ")),
    }
}
