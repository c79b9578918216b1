//! The files of an inventory: all `*.toml` of a folder, read together, or one file.

use std::fs;
use std::path::{Path, PathBuf};

use config::Finding;

use crate::Inventory;
use crate::mistakes::Mistakes;
use crate::tree::{self, Place};

/// The largest file that is read, in octets.
const LARGEST: u64 = 16 << 20;

impl Inventory {
    /// Reads the inventory of a folder, or of one file.
    ///
    /// # Errors
    ///
    /// All that is wrong, line by line.
    pub fn read(place: &Path) -> Result<Self, Vec<Finding>> {
        Self::parse(&texts(place)?)
    }

    /// Judges the texts of an inventory's files.
    ///
    /// # Errors
    ///
    /// All that is wrong, line by line. Mistakes in grammar come alone.
    pub fn parse(texts: &[(PathBuf, String)]) -> Result<Self, Vec<Finding>> {
        let files: Vec<PathBuf> = texts.iter().map(|(file, _)| file.clone()).collect();
        let mut mistakes = Mistakes::new(&files);
        let mut tables = Vec::new();
        for (file, (_, text)) in texts.iter().enumerate() {
            let (table, wrong) = tree::parse(text, file);
            wrong.into_iter().for_each(|(line, text)| mistakes.add(Place { file, line }, text));
            tables.push(table);
        }
        mistakes.done()?;
        let mut mistakes = Mistakes::new(&files);
        let inventory = crate::sections::judge(tables, &files, &mut mistakes);
        if inventory.gateways.is_empty() && mistakes.is_empty() {
            mistakes.add(Place { file: 0, line: 1 }, "there is no gateway; add [gateway.NAME]");
        }
        mistakes.done()?;
        Ok(inventory)
    }
}

/// The texts of all files, in the order of their names.
pub(crate) fn texts(place: &Path) -> Result<Vec<(PathBuf, String)>, Vec<Finding>> {
    let mut texts = Vec::new();
    let mut unreadable = Vec::new();
    for file in files(place).map_err(|finding| vec![finding])? {
        match text(&file) {
            Ok(text) => texts.push((file, text)),
            Err(finding) => unreadable.push(finding),
        }
    }
    if unreadable.is_empty() { Ok(texts) } else { Err(unreadable) }
}

/// The files in the order of their names.
fn files(place: &Path) -> Result<Vec<PathBuf>, Finding> {
    let whole = |text: String| Finding { file: place.to_owned(), line: None, text };
    if !place.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let entries = fs::read_dir(place).and_then(|entries| {
        entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()
    });
    let entries = entries
        .map_err(|error| whole(format!("cannot be read: {error}; name a folder that this user can read")))?;
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml") && !path.is_dir();
    let mut files: Vec<PathBuf> = entries.into_iter().filter(is_toml).collect();
    files.sort();
    if files.is_empty() {
        return Err(whole("has no *.toml; name the folder of an inventory".into()));
    }
    Ok(files)
}

fn text(file: &Path) -> Result<String, Finding> {
    let wrong = |line, text: String| Finding { file: file.to_owned(), line, text };
    let unreadable = |error| {
        wrong(None, format!("cannot be read: {error}; name the inventory's folder, or let this user read it"))
    };
    if fs::metadata(file).map_err(unreadable)?.len() > LARGEST {
        return Err(wrong(None, format!("is larger than {LARGEST} octets; divide it into several files")));
    }
    let octets = fs::read(file).map_err(unreadable)?;
    String::from_utf8(octets).map_err(|error| {
        let upto = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(upto).filter(|octet| **octet == b'\n').count() + 1;
        wrong(Some(line), "is not UTF-8 here; save the file as UTF-8".into())
    })
}
