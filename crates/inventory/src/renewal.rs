//! A CAK, or the master key of a cell, is renewed in two steps, so that gateways which have one step and gateways which have the other have a key in common.
//!
//! ```text
//!                       press.cak   press.cak.before   a gateway gets
//!  before               old                            old
//!  begun                new         old                new, and old to fall back on
//!  finished             new                            new
//! ```
//!
//! Beginning is cut in three, so that a crash leaves one of these: the new CAK is written as `press.cak.next`, the old one gets its second
//! name, and the new one takes the place. As long as `press.cak.next` is there, nothing has begun.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use config::key_file::{KeyFileError, read_cak, read_master_key};
use config::keygen::{self, KeyLength, KeygenError};

use zeroize::Zeroizing;

use crate::keys::{Drawn, can_go_along};
use crate::member::{FALLBACK, FALLBACK_MASTER, Member};
use crate::mistakes::{Mistakes, instead};
use crate::revoked::Fingerprints;
use crate::sections::Kind;
use crate::tree::{Node, Value, is_word};
use crate::{Inventory, KeyFolder, Rendered, Rendering};

/// Ending of the name of an old CAK's file.
const BEFORE: &str = ".before";

/// Way in which a key is exchanged for a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewal {
    /// Gateways keep the old one to fall back on, until [`KeyFolder::finish`].
    Overlapping,
    /// The old one ends at once.
    AtOnce,
}

/// Why a key is not renewed.
#[derive(Debug, thiserror::Error)]
pub enum RenewalError {
    /// The old one is no key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// No new one can be made.
    #[error(transparent)]
    Keygen(#[from] KeygenError),
    /// A file cannot be given its name.
    #[error("cannot write {}: {source}; make room there, and run the same command again", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl KeyFolder {
    /// Whether the renewal of a CAK has begun and is not finished.
    pub fn is_under_way(&self, file: &str) -> bool {
        let [key, before, next] = [file, &before(file), &next(file)].map(|file| self.path_of(file));
        before.exists() && !next.exists() && !is_same(&key, &before)
    }

    /// The CAK that a gateway falls back on while this one is renewed.
    pub(crate) fn fallback(&self, gateway: &str, file: &str) -> Option<String> {
        (!self.is_own(gateway, file) && self.is_under_way(file)).then(|| before(file))
    }

    /// Word for a key of this file: `CAK` or `master key`.
    pub fn word(&self, file: &str) -> &'static str {
        let path = self.path_of(file);
        if read_cak(&path).is_err() && read_master_key(&path).is_ok() { "master key" } else { "CAK" }
    }

    /// Fingerprint of a CAK or a master key that several gateways have.
    ///
    /// # Errors
    ///
    /// If the file is neither.
    pub fn fingerprint(&self, file: &str) -> Result<String, KeyFileError> {
        let path = self.path_of(file);
        match read_cak(&path) {
            Ok(cak) => Ok(cak.fingerprint()),
            Err(error) => read_master_key(&path).map(|key| key.fingerprint()).map_err(|_| error),
        }
    }

    /// The same of one that may be drawn and not written yet.
    pub(crate) fn drawn_or_read_fingerprint(&self, file: &str) -> Result<String, KeyFileError> {
        self.drawn_fingerprint(file).map_or_else(|| self.fingerprint(file), Ok)
    }

    /// Exchanges a CAK or a master key for a new one. False if that was under way. Durable at return.
    ///
    /// # Errors
    ///
    /// [`RenewalError`]. To be called again: it goes on where it was.
    pub fn renew(&self, file: &str, renewal: Renewal) -> Result<bool, RenewalError> {
        let (path, next, before) =
            (self.path_of(file), self.path_of(&next(file)), self.path_of(&before(file)));
        if renewal == Renewal::Overlapping && self.is_under_way(file) {
            return Ok(false);
        }
        if renewal == Renewal::AtOnce || !before.exists() || is_same(&path, &before) && !next.exists() {
            // One that is there is of a renewal that was cut off, and no gateway has it. Until the old key's second name is gone the new
            // one says that nothing has begun.
            remove(&before)?;
            remove(&next)?;
            keygen::write_new_text(&next, &draw_like(&path, self.now())?.text())?;
        }
        if renewal == Renewal::Overlapping && !before.exists() {
            let write = |source| RenewalError::Write { path: before.clone(), source };
            fs::hard_link(&path, &before).and_then(|()| self.sync()).map_err(write)?;
        }
        let write = |source| RenewalError::Write { path: path.clone(), source };
        fs::rename(&next, &path).and_then(|()| self.sync()).map_err(write)?;
        Ok(true)
    }

    /// Ends the old CAK. False if none was renewed. Durable at return.
    ///
    /// # Errors
    ///
    /// `Write`.
    pub fn finish(&self, file: &str) -> Result<bool, RenewalError> {
        if !self.is_under_way(file) {
            return Ok(false);
        }
        let before = self.path_of(&before(file));
        remove(&before)?;
        self.sync().map_err(|source| RenewalError::Write { path: before, source })?;
        Ok(true)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(self.folder())?.sync_all()
    }
}

/// Whether two files hold one key: its renewal has not put another one in its place.
fn is_same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| fs::read(path).map(Zeroizing::new));
    one.is_ok_and(|one| other.is_ok_and(|other| one == other))
}

impl Inventory {
    /// The file of the CAK that a link, group or tunnel has, or of the master key that a cell has.
    ///
    /// # Errors
    ///
    /// In words, if it has none that can be renewed.
    pub fn cak_file(&self, name: &str, keys: &KeyFolder) -> Result<String, String> {
        let Some(shared) = self.shared.iter().find(|shared| shared.name == name) else {
            let known = self.shared.iter().map(|shared| shared.name.as_str());
            return Err(format!(
                "there is no link, group, cell or tunnel {name:?}; {}",
                instead(name, known)
            ));
        };
        let label = shared.label();
        let (key, fallback) = shared.key_names();
        let mut files = Vec::new();
        for name in shared.gateways.keys() {
            let Some(gateway) = self.gateways.get(name) else { continue };
            let member = Member { inventory: self, shared, name, gateway };
            let options = member.options(&mut Mistakes::new(&self.files));
            let is_bare = shared.kind == Kind::Tunnel && !is_word(options.get("protect"), "true");
            if is_bare || options.contains_key("static") {
                return Err(format!(
                    "{label}gateway {name:?} has no CAK there; only key agreement can be renewed"
                ));
            }
            let section = match shared.kind {
                Kind::Fieldbus => Some(&options),
                _ => options.get("mka").and_then(Node::as_table),
            };
            if section.is_some_and(|section| section.contains_key(fallback)) {
                return Err(format!(
                    "{label}gateway {name:?} names a {fallback}, and a renewal needs its place; remove that line first"
                ));
            }
            let named = section.and_then(|section| section.get(key)).and_then(Node::as_text);
            let file = named.map_or_else(|| shared.key_file(), str::to_owned);
            if keys.is_own(name, &file) || !can_go_along(Path::new(&file)) {
                return Err(format!(
                    "{label}gateway {name:?} has {file} to itself; exchange it there by hand"
                ));
            }
            files.push(file);
        }
        files.dedup();
        match <[String; 1]>::try_from(files) {
            Ok([file]) => Ok(file),
            Err(files) => {
                Err(format!("{label}its gateways name several keys: {}; name one", files.join(", ")))
            }
        }
    }
}

impl Inventory {
    /// Reason, in words, for which gateways cannot have a new key and the old one of this file for a time; `gone` is none of them any more.
    pub fn hindrance(
        &self,
        file: &str,
        rendering: &Rendering,
        keys: &KeyFolder,
        gone: Option<&str>,
    ) -> Option<String> {
        let known = keys.fingerprint(file).ok()?;
        let fingerprints = Fingerprints::new(keys);
        let is_there = |(name, _): &(&String, &Rendered)| Some(name.as_str()) != gone;
        for (name, one) in rendering.gateways.iter().filter(is_there) {
            let has_fallback = |link: &&config::Link| {
                link.mka().is_some_and(|mka| mka.cak.fingerprint() == known && mka.caks().count() > 1)
            };
            if let Some(link) = one.config.links.iter().find(has_fallback) {
                return Some(format!(
                    "gateway {name:?} names a {FALLBACK} for link {:?} beside {file}, and a renewal needs its place; remove that line first, render and apply",
                    link.name
                ));
            }
            let has_two = |link: &&config::Link| {
                link.cell.as_ref().is_some_and(|cell| {
                    cell.master_key.fingerprint() == known && cell.fallback_master_key.is_some()
                })
            };
            if let Some(cell) = one.config.links.iter().find(has_two).and_then(|link| link.cell.as_ref()) {
                return Some(format!(
                    "gateway {name:?} names a {FALLBACK_MASTER} for fieldbus {:?} beside {file}, and a renewal needs its place; remove that line first, render and apply",
                    cell.name
                ));
            }
            let stored = one.key_files.keys().map(|file| keys.stored(name, file));
            let mut copies = stored.filter(|one| without_before(one) != file);
            if let Some(copy) =
                copies.find(|copy| fingerprints.of(copy).is_some_and(|fingerprint| fingerprint == known))
            {
                return Some(format!(
                    "gateway {name:?} has the key of {file} as {}, too, which would stay as it is; have it name {file}, or put another key there, and render and apply first",
                    keys.path_of(&copy).display()
                ));
            }
            let sections = self.gateways.get(name).map(|gateway| &gateway.sections);
            if sections.is_some_and(|sections| sections.values().any(|node| has_text(node, file))) {
                return Some(format!(
                    "gateway {name:?} names {file} in a section of its own (box), which gets no second key; make it a [[link]], [[group]] or [[fieldbus]] first, render and apply"
                ));
            }
        }
        None
    }
}

/// Whether it is, or has within, this text.
fn has_text(node: &Node, text: &str) -> bool {
    match &node.value {
        Value::Text(one) => one == text,
        Value::Literal(_) => false,
        Value::List(list) => list.iter().any(|node| has_text(node, text)),
        Value::Table(table) => table.values().any(|node| has_text(node, text)),
    }
}

/// The file of the old CAK.
pub(crate) fn before(file: &str) -> String {
    format!("{file}{BEFORE}")
}

/// Whether it is the file of an old CAK.
pub(crate) fn is_before(file: &str) -> bool {
    file.ends_with(BEFORE)
}

/// The file of the new CAK beside this old one, or the file itself.
pub(crate) fn without_before(file: &str) -> &str {
    file.strip_suffix(BEFORE).unwrap_or(file)
}

/// The file of the new CAK until it takes the place.
fn next(file: &str) -> String {
    format!("{file}.next")
}

/// A new key of the same kind and length.
fn draw_like(path: &Path, now: u64) -> Result<Drawn, RenewalError> {
    match read_cak(path) {
        Ok(cak) if cak.octets().len() == 16 => Ok(Drawn::cak(KeyLength::Bits128, now)?),
        Ok(_) => Ok(Drawn::cak(KeyLength::Bits256, now)?),
        Err(error) if read_master_key(path).is_err() => Err(error.into()),
        Err(_) => Ok(Drawn::master(now)?),
    }
}

fn remove(path: &Path) -> Result<(), RenewalError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| RenewalError::Write { path: path.to_owned(), source }),
    }
}
