//! `[revoked.NAME]`: gateways with whom nobody speaks any more, by their public keys, and the keys that they knew.
//!
//! ```text
//! [revoked.press-1]
//! public_keys = ["5c07..."]               no gateway may have one of them
//! keys."press.cak" = "9be1d4430f6a2c75"   fingerprint: nobody else may go on with this one
//! ```
//!
//! Whatever else the inventory says of such a gateway does not count.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use config::Finding;

use crate::mistakes::{Mistakes, instead};
use crate::read::texts;
use crate::renewal::{before, is_before, without_before};
use crate::sections::{Kind, Shared};
use crate::tree::{Node, Place, Table, Value};
use crate::{Inventory, KeyFolder, Rendered, Rendering};

/// The file of an inventory's folder in which revocations stand.
const FILE: &str = "revoked.toml";

/// A gateway with whom nobody speaks any more.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Revocation {
    /// Public keys by which it was known, as hexadecimal digits.
    pub public_keys: Vec<String>,
    /// Keys that it knew: their files in the folder of keys, and their fingerprints.
    pub keys: BTreeMap<String, String>,
}

/// An inventory with one more revocation, which is not written yet.
#[derive(Debug)]
pub struct Revoking {
    /// The inventory as it will be.
    pub inventory: Inventory,
    file: PathBuf,
    text: String,
}

impl Revocation {
    pub(crate) fn new(name: &str, table: Table, mistakes: &mut Mistakes<'_>) -> Self {
        let mut revocation = Self::default();
        for (key, node) in table {
            match (key.as_str(), &node.value) {
                ("public_keys", Value::List(list)) if list.iter().all(|one| one.as_text().is_some()) => {
                    revocation.public_keys =
                        list.iter().filter_map(Node::as_text).map(str::to_owned).collect();
                }
                ("keys", Value::Table(table)) if table.values().all(|one| one.as_text().is_some()) => {
                    let file =
                        |(file, node): (&String, &Node)| Some((file.clone(), node.as_text()?.to_owned()));
                    revocation.keys = table.iter().filter_map(file).collect();
                }
                _ => mistakes.add(
                    node.place,
                    format!(
                        "revoked {name:?}: {key} is not what frameward fleet revoke writes; {}",
                        instead(&key, ["public_keys", "keys"].into_iter())
                    ),
                ),
            }
        }
        revocation
    }

    /// Its section.
    fn text(&self, name: &str) -> String {
        let mut text = format!("\n[revoked.{name}]\npublic_keys = {:?}\n", self.public_keys);
        for (file, fingerprint) in &self.keys {
            let _ = writeln!(text, "keys.{file:?} = {fingerprint:?}");
        }
        text
    }

    /// Those of its keys that other gateways still have. `rendering`: of the inventory in which it is revoked.
    pub fn keys_in_use(&self, rendering: &Rendering, keys: &KeyFolder) -> Vec<&str> {
        let is_used = |file: &str| {
            let has = |(name, one): (&String, &Rendered)| {
                one.key_files.contains_key(file) && !keys.is_own(name, file)
            };
            !is_before(file) && rendering.gateways.iter().any(has)
        };
        let known = self.keys.iter().filter(|(file, fingerprint)| {
            is_used(file) && keys.fingerprint(file).is_ok_and(|now| now == **fingerprint)
        });
        known.map(|(file, _)| file.as_str()).collect()
    }

    /// Files of others, in the folder of keys, that have a key which it knew under another name: only people can exchange them.
    pub fn copies(&self, rendering: &Rendering, keys: &KeyFolder) -> Vec<String> {
        let known = Fingerprints::new(keys);
        rendering.gateways.iter().flat_map(|(name, one)| self.copies_of(name, one, &known)).collect()
    }

    fn copies_of(&self, name: &str, one: &Rendered, fingerprints: &Fingerprints<'_>) -> Vec<String> {
        let stored = one.key_files.keys().map(|file| fingerprints.keys.stored(name, file));
        // These are exchanged, or the old ones beside new ones.
        let others = stored.filter(|file| !self.keys.contains_key(without_before(file)));
        let is_known = |file: &String| {
            fingerprints.of(file).is_some_and(|now| self.keys.values().any(|known| *known == now))
        };
        others.filter(is_known).collect()
    }

    /// Those of its keys that other gateways have beside new ones.
    pub fn under_way(&self, keys: &KeyFolder) -> Vec<&str> {
        let is_old = |file: &str, fingerprint: &String| {
            keys.is_under_way(file) && keys.fingerprint(&before(file)).is_ok_and(|old| old == *fingerprint)
        };
        let old = self.keys.iter().filter(|(file, fingerprint)| is_old(file, fingerprint));
        old.map(|(file, _)| file.as_str()).collect()
    }
}

impl Inventory {
    /// Gateways with whom nobody speaks any more, by their names.
    pub const fn revoked(&self) -> &BTreeMap<String, Revocation> {
        &self.revoked
    }

    /// Returns the revocation of a gateway: the keys of `rendering` that it has in common with others, and its public keys.
    ///
    /// # Errors
    ///
    /// In words, if people have to change something first.
    pub fn revocation(
        &self,
        name: &str,
        rendering: &Rendering,
        keys: &KeyFolder,
    ) -> Result<Revocation, String> {
        let Some(rendered) = rendering.gateways.get(name) else {
            return Err(format!(
                "there is no gateway {name:?}; {}",
                instead(name, self.gateways.keys().map(String::as_str))
            ));
        };
        let is_static = |link: &&config::Link| link.static_sas().is_some();
        if let Some(link) = rendered.config.links.iter().find(is_static) {
            return Err(format!(
                "gateway {name:?} has static keys on link {:?}, which people made for it and its peers; take the link out of the inventory first",
                link.name
            ));
        }
        let fingerprints = Fingerprints::new(keys);
        let mut revocation = Revocation::default();
        // Files without a CAK and without a master key are identities, which nobody has in common.
        for file in rendered.key_files.keys().map(|file| keys.stored(name, file)) {
            if let Some(fingerprint) = fingerprints.of(&file) {
                revocation.keys.insert(file, fingerprint);
            }
        }
        let known: BTreeSet<String> = revocation.keys.values().cloned().collect();
        if let Some(link) = rendered.config.links.iter().find(|link| !is_known(link, &known)) {
            return Err(format!(
                "gateway {name:?} has a key of link {:?} at an absolute path, so it is not known here who else has it; exchange it on the others by hand, and take the link out of the inventory first",
                link.name
            ));
        }
        let others = |(other, _): &(&String, &Rendered)| other.as_str() != name;
        let mut common: BTreeMap<String, &str> = BTreeMap::new();
        for (other, one) in rendering.gateways.iter().filter(others) {
            for file in one.key_files.keys().filter(|file| !keys.is_own(other, file) && !is_before(file)) {
                let fingerprint = fingerprints.of(file).unwrap_or_default();
                if !known.contains(&fingerprint) {
                    continue;
                }
                // Under another name, or as a copy of the revoked gateway's own: it can be exchanged as any other.
                revocation.keys.insert(file.clone(), fingerprint.clone());
                if let Some(first) = common.insert(fingerprint, file).filter(|first| first != file) {
                    return Err(format!(
                        "{first} and {file} are the same key, which gateway {name:?} knows, and would get two new ones; have all name one of them first"
                    ));
                }
            }
        }
        let left = rendering.gateways.iter().filter(others);
        if let Some(copy) =
            left.flat_map(|(other, one)| revocation.copies_of(other, one, &fingerprints)).next()
        {
            return Err(format!(
                "{} has a key that gateway {name:?} knows, for one gateway alone; put another key there, or remove it so that the common one counts, and render and apply that first",
                keys.path_of(&copy).display()
            ));
        }
        revocation.public_keys.extend(self.public_keys(name, keys));
        Ok(revocation)
    }

    /// Gateways to which the revocation of `name` means something else than before, in an inventory that has it: those that share a section with it,
    /// have one of its keys, or name a public key of it. `rendering`: of all, before or afterwards.
    pub fn concerned(
        &self,
        name: &str,
        revocation: &Revocation,
        rendering: &Rendering,
        keys: &KeyFolder,
    ) -> BTreeSet<String> {
        let has_key = |other: &str, one: &Rendered| {
            let files = one.key_files.keys().map(|file| without_before(file));
            files.into_iter().any(|file| revocation.keys.contains_key(file) && !keys.is_own(other, file))
        };
        let names_key = |one: &Rendered| {
            let text = one.text.to_ascii_lowercase();
            revocation.public_keys.iter().any(|key| text.contains(key.as_str()))
        };
        let concerned =
            rendering.gateways.iter().filter(|(other, one)| has_key(other, one) || names_key(one));
        let companions = self.companions.get(name).into_iter().flatten();
        let all = concerned.map(|(other, _)| other).chain(companions);
        all.filter(|other| self.gateways.contains_key(*other)).cloned().collect()
    }

    /// The inventory at `place` with this revocation. Nothing is written yet.
    ///
    /// # Errors
    ///
    /// All that is wrong with it, line by line.
    pub fn revoking(place: &Path, name: &str, revocation: &Revocation) -> Result<Revoking, Vec<Finding>> {
        let file = if place.is_dir() { place.join(FILE) } else { place.to_owned() };
        let mut texts = texts(place)?;
        let at = texts.iter().position(|(path, _)| *path == file);
        let at = at.unwrap_or_else(|| {
            texts.push((file.clone(), String::new()));
            texts.len() - 1
        });
        texts[at].1.push_str(&revocation.text(name));
        let text = texts[at].1.clone();
        Ok(Revoking { inventory: Self::parse(&texts)?, file, text })
    }
}

impl Revoking {
    /// Writes it down. Durable at return.
    ///
    /// # Errors
    ///
    /// The system's, with the file; then the file is as it was.
    pub fn write(&self) -> Result<(), (PathBuf, io::Error)> {
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let next = folder.join(format!(".{name}.new"));
        let write = || {
            let mut file = File::create(&next)?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&next, &self.file)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|error| (self.file.clone(), error))
    }
}

/// Fingerprints of keys in a folder at one moment: a fleet has each key in several places, and it is read once.
pub(crate) struct Fingerprints<'k> {
    keys: &'k KeyFolder,
    read: RefCell<BTreeMap<String, Option<String>>>,
}

impl<'k> Fingerprints<'k> {
    pub(crate) fn new(keys: &'k KeyFolder) -> Self {
        Self { keys, read: RefCell::default() }
    }

    /// Of a CAK or a master key, drawn or in the folder; none of anything else.
    pub(crate) fn of(&self, file: &str) -> Option<String> {
        if let Some(known) = self.read.borrow().get(file) {
            return known.clone();
        }
        let fingerprint = self.keys.drawn_or_read_fingerprint(file).ok();
        self.read.borrow_mut().insert(file.to_owned(), fingerprint.clone());
        fingerprint
    }
}

/// Whether the CAKs and the master key of a link are among these.
fn is_known(link: &config::Link, fingerprints: &BTreeSet<String>) -> bool {
    let caks = link.mka().into_iter().flat_map(|mka| mka.caks().map(|cak| cak.fingerprint()));
    let masters = link
        .cell
        .iter()
        .flat_map(|cell| [Some(&cell.master_key), cell.fallback_master_key.as_ref()].into_iter().flatten());
    caks.chain(masters.map(|key| key.fingerprint())).all(|fingerprint| fingerprints.contains(&fingerprint))
}

/// The sections of all files together.
pub(crate) fn judge(
    sections: BTreeMap<String, Node>,
    mistakes: &mut Mistakes<'_>,
) -> BTreeMap<String, Revocation> {
    let mut revoked = BTreeMap::new();
    for (name, node) in sections {
        match node.value {
            Value::Table(table) => {
                drop(revoked.insert(name.clone(), Revocation::new(&name, table, mistakes)))
            }
            _ => mistakes.add(node.place, format!("revoked {name:?} is no section; write [revoked.{name}]")),
        }
    }
    revoked
}

/// Whether anything is left of what gateways shared. A tunnel of one gateway has no peer; a link of one waits for others, and is closed.
pub(crate) fn is_left(shared: &Shared) -> bool {
    match shared.kind {
        Kind::Tunnel => shared.gateways.len() > 1,
        Kind::Link | Kind::Group | Kind::Fieldbus => !shared.gateways.is_empty(),
    }
}

/// Refuses lines of a configuration that name a public key of a revoked gateway.
pub(crate) fn refuse_keys(
    revoked: &BTreeMap<String, Revocation>,
    text: &str,
    places: &[Place],
    mistakes: &mut Mistakes<'_>,
) {
    if revoked.values().all(|revocation| revocation.public_keys.is_empty()) {
        return;
    }
    for (line, place) in text.lines().zip(places) {
        let line = line.to_ascii_lowercase();
        let is_named = |revocation: &Revocation| revocation.public_keys.iter().any(|key| line.contains(key));
        if let Some((name, _)) = revoked.iter().find(|(_, revocation)| is_named(revocation)) {
            mistakes.add(
                *place,
                format!("this is a public key of gateway {name:?}, which was revoked; remove this line"),
            );
        }
    }
}
