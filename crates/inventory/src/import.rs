//! From hand-written configurations, a folder for each gateway, to an inventory whose rendering says the same.
//!
//! ```text
//! links under one CAK               ──▶ [[link]] of two gateways, [[group]] of more
//! cells under one master key        ──▶ [[fieldbus]] of two gateways
//! sites that are each other's peers ──▶ [[tunnel]], each with each or with a hub
//! all else                          ──▶ sections of one gateway, as they are: [[gateway.NAME.box.link]]
//! ```
//!
//! The inventory is rendered before it is kept. A gateway whose configuration would then say something else keeps all of its sections as
//! they are.

mod draft;
mod links;
mod sites;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use config::keygen::{self, KeygenError};
use config::{Config, Finding};

use crate::gateway::OF_A_BOX;
use crate::judge::{KeysOnce, judge};
use crate::keys::{KeyFolder, can_go_along, create_private};
use crate::mistakes::Mistakes;
use crate::rendered_text::RenderedText;
use crate::tree::{self, Node, Place, Table, Value};
use crate::tunnel::FOLDER;
use crate::{CONFIGURATION, Inventory, KEYS};
use draft::Draft;

/// The file of an imported inventory.
const FILE: &str = "fleet.toml";

/// Result of an import.
#[derive(Debug)]
pub struct Imported {
    /// Gateways.
    pub gateways: usize,
    /// Sections that stay as they are, and why, a line each.
    pub as_they_are: Vec<String>,
}

/// Why there is no inventory.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The configurations have mistakes.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Refused(Vec<Finding>),
    /// There is something already.
    #[error("{} already exists; name a new folder", .0.display())]
    Exists(PathBuf),
    /// Files cannot be written.
    #[error(transparent)]
    Write(#[from] KeygenError),
}

/// A hand-written configuration.
struct Source {
    /// Its folder's name, where its key files are.
    folder: String,
    name: String,
    sections: Table,
    config: Config,
    /// Key files that it names, relative to its folder.
    files: BTreeSet<PathBuf>,
}

/// Makes an inventory in the new folder `to` of the configurations in `from`.
///
/// # Errors
///
/// [`ImportError`]; then there is no new folder.
pub fn import(from: &Path, to: &Path) -> Result<Imported, ImportError> {
    if to.exists() {
        return Err(ImportError::Exists(to.to_owned()));
    }
    let sources = read(from).map_err(ImportError::Refused)?;
    let keys = KeyFolder::new(from);
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let fresh = to.with_file_name(format!(".{name}.{}", std::process::id()));
    let made = attempts(&sources, &keys, &fresh).and_then(|imported| {
        fs::rename(&fresh, to).map_err(|source| KeygenError::Write { path: to.to_owned(), source })?;
        Ok(imported)
    });
    if fresh.exists() {
        // Remains are a part of an inventory that nobody knows of.
        let _ = fs::remove_dir_all(&fresh);
    }
    made
}

/// Tries to say as much as possible of what gateways share; what does not come out as it was stays as it is.
fn attempts(sources: &[Source], keys: &KeyFolder, fresh: &Path) -> Result<Imported, ImportError> {
    let mut as_it_is = BTreeSet::new();
    loop {
        let draft = Draft::of(sources, keys, &as_it_is).map_err(ImportError::Refused)?;
        write(&draft, fresh)?;
        let different = different(sources, fresh);
        match different {
            Ok(different) if different.is_empty() => {
                return Ok(Imported { gateways: sources.len(), as_they_are: draft.notes });
            }
            Ok(different) if different.is_subset(&as_it_is) => {
                let text = format!(
                    "the inventory of it says something else for {}",
                    Vec::from_iter(different).join(", ")
                );
                return Err(ImportError::Refused(vec![Finding { file: fresh.to_owned(), line: None, text }]));
            }
            Ok(different) => as_it_is.extend(different),
            Err(findings) if as_it_is.len() == sources.len() => return Err(ImportError::Refused(findings)),
            Err(_) => as_it_is.extend(sources.iter().map(|source| source.name.clone())),
        }
        fs::remove_dir_all(fresh).map_err(|source| KeygenError::Write { path: fresh.to_owned(), source })?;
    }
}

fn write(draft: &Draft, fresh: &Path) -> Result<(), KeygenError> {
    let failed = |path: &Path, source| KeygenError::Write { path: path.to_owned(), source };
    fs::create_dir_all(fresh).map_err(|source| failed(fresh, source))?;
    fs::write(fresh.join(FILE), text::of(draft)).map_err(|source| failed(&fresh.join(FILE), source))?;
    let keys = fresh.join(KEYS);
    create_private(&keys)?;
    for (file, octets) in &draft.keys {
        let path = keys.join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
        }
        keygen::write_new_text(&path, octets)?;
    }
    Ok(())
}

/// Gateways whose rendered configurations say something else than before.
fn different(sources: &[Source], inventory: &Path) -> Result<BTreeSet<String>, Vec<Finding>> {
    let rendering = Inventory::read(inventory)?.render(&mut KeyFolder::new(inventory.join(KEYS)))?;
    let differs = |source: &&Source| {
        !rendering
            .gateways
            .get(&source.name)
            .is_some_and(|rendered| rendered.config.says_the_same(&source.config))
    };
    Ok(sources.iter().filter(differs).map(|source| source.name.clone()).collect())
}

/// Reads the configurations: of each folder in `from` the only `*.toml`, or `frameward.toml`.
fn read(from: &Path) -> Result<Vec<Source>, Vec<Finding>> {
    let whole = |file: &Path, text: String| Finding { file: file.to_owned(), line: None, text };
    let entries = |folder: &Path| -> Result<Vec<PathBuf>, Vec<Finding>> {
        let entries =
            fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut entries: Vec<PathBuf> = entries.map_err(|error| {
            vec![whole(
                folder,
                format!("cannot be read: {error}; name a folder with one folder for each gateway"),
            )]
        })?;
        entries.sort();
        Ok(entries)
    };
    let mut errors = Vec::new();
    let mut sources: BTreeMap<String, (PathBuf, Source)> = BTreeMap::new();
    for folder in entries(from)?.into_iter().filter(|path| path.is_dir()) {
        let is_toml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
        let mut files: Vec<PathBuf> = entries(&folder)?.into_iter().filter(is_toml).collect();
        if let Some(usual) =
            files.iter().position(|file| file.file_name().is_some_and(|name| name == CONFIGURATION))
        {
            files = vec![files.swap_remove(usual)];
        }
        let [file] = files.as_slice() else {
            let text = format!(
                "has {} configurations; keep one *.toml in it, or call it {CONFIGURATION}",
                files.len()
            );
            errors.push(whole(&folder, text));
            continue;
        };
        match read_one(&folder, file) {
            Ok(source) => match sources.get(&source.name) {
                Some((first, _)) => errors.push(Finding {
                    file: file.clone(),
                    line: Some(line_of_name(&source.sections)),
                    text: format!(
                        "gateway {:?} is already in {}; give one of them another name",
                        source.name,
                        first.display()
                    ),
                }),
                None => drop(sources.insert(source.name.clone(), (file.clone(), source))),
            },
            Err(findings) => errors.extend(findings),
        }
    }
    if sources.is_empty() && errors.is_empty() {
        errors
            .push(whole(from, "has no configuration; name a folder with one folder for each gateway".into()));
    }
    if errors.is_empty() {
        Ok(sources.into_values().map(|(_, source)| source).collect())
    } else {
        Err(errors)
    }
}

fn line_of_name(sections: &Table) -> usize {
    let gateway = sections.get("gateway").and_then(Node::as_table);
    gateway.and_then(|gateway| gateway.get("name")).map_or(1, |name| name.place.line)
}

fn read_one(folder: &Path, file: &Path) -> Result<Source, Vec<Finding>> {
    let finding = |line, text: String| vec![Finding { file: file.to_owned(), line, text }];
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| finding(None, "is in a folder whose name is no text; rename it".into()))?;
    let text = fs::read_to_string(file).map_err(|error| {
        finding(None, format!("cannot be read: {error}; name a file that this user can read"))
    })?;
    let (mut sections, wrong) = tree::parse(&text, 0);
    if !wrong.is_empty() {
        return Err(wrong.into_iter().flat_map(|(line, text)| finding(Some(line), text)).collect());
    }
    leave_identities(folder, &mut sections);
    // As it is written, but for identities that stayed on the box.
    let files = [file.to_owned()];
    let mut mistakes = Mistakes::new(&files);
    let written = RenderedText::of(&sections, Place { file: 0, line: 1 }, &mut mistakes);
    refuse_unknown(&sections, &mut mistakes);
    mistakes.done()?;
    let keys = KeyFolder::new(folder.parent().unwrap_or(Path::new("")));
    let (judged, files) = judge(name, &written.text, &KeysOnce::new(&keys));
    let (config, _) = judged.map_err(|findings| {
        let at = |line: usize| written.places.get(line.checked_sub(1)?).map(|place| place.line);
        let moved =
            |finding: Finding| Finding { file: file.to_owned(), line: finding.line.and_then(at), ..finding };
        findings.into_iter().map(moved).collect::<Vec<_>>()
    })?;
    if let Some(outside) = files.iter().find(|file| !can_go_along(file)) {
        let text =
            format!("key file {} is outside of its folder; copy it there, and name it so", outside.display());
        return Err(finding(None, text));
    }
    Ok(Source { folder: name.to_owned(), name: config.gateway.name.clone(), sections, config, files })
}

/// Sections that no configuration has: the text that is judged is written without them.
fn refuse_unknown(sections: &Table, mistakes: &mut Mistakes<'_>) {
    for (name, node) in sections {
        if name != "gateway" && !OF_A_BOX.contains(&name.as_str()) {
            mistakes.add(node.place, format!("{name:?} is no section of a configuration; remove it"));
        }
    }
}

/// Names the usual place on the box in place of a site's identity that is not here: it never leaves its box.
fn leave_identities(folder: &Path, sections: &mut Table) {
    let Some(Value::List(sites)) = sections.get_mut("site").map(|node| &mut node.value) else { return };
    for site in sites {
        let Value::Table(site) = &mut site.value else { continue };
        let Some(Value::Text(identity)) = site.get_mut("identity").map(|node| &mut node.value) else {
            continue;
        };
        if !folder.join(&*identity).exists() {
            *identity = Path::new(FOLDER).join(&*identity).display().to_string();
        }
    }
}
