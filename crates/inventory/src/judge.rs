//! Each rendered configuration, judged by the code of `frameward check`: what that says of a line is told of the inventory's line that made
//! it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use config::key_file::{KeyFileError, NamedCak};
use config::{Config, Finding, KeyFiles};
use zeroize::Zeroizing;

use crate::keys::{KeyFolder, stand_in};
use crate::mistakes::{Mistakes, at};
use crate::rendered_text::RenderedText;
use crate::revoked;
use crate::tree::Place;
use crate::{CONFIGURATION, Inventory, Rendered, Rendering};

/// Gateways that are named in one line, before the others are counted.
const NAMED: usize = 3;

/// A mistake or warning, and the gateways that have it.
type Told<'i> = BTreeMap<(Place, String), BTreeSet<&'i str>>;

impl Inventory {
    /// Renders what each gateway gets, in memory. Keys that are missing are drawn, in memory too.
    ///
    /// # Errors
    ///
    /// All that is wrong, line by line.
    pub fn render(&self, keys: &mut KeyFolder) -> Result<Rendering, Vec<Finding>> {
        self.render_if(keys, &|_| true)
    }

    /// Renders what these gateways get, as [`Self::render`] does: of a large fleet in a fraction of its time.
    ///
    /// # Errors
    ///
    /// All that is wrong with them, line by line.
    pub fn render_some(
        &self,
        keys: &mut KeyFolder,
        gateways: &BTreeSet<String>,
    ) -> Result<Rendering, Vec<Finding>> {
        self.render_if(keys, &|name| gateways.contains(name))
    }

    fn render_if(
        &self,
        keys: &mut KeyFolder,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Rendering, Vec<Finding>> {
        let mut mistakes = Mistakes::new(&self.files);
        let tables = self.tables(keys, is_wanted, &mut mistakes).map_err(|error| {
            vec![Finding {
                file: self.files.first().cloned().unwrap_or_default(),
                line: None,
                text: error.to_string(),
            }]
        })?;
        self.refuse_common_identities(&mut mistakes);
        let mut texts = Vec::new();
        for (name, table) in tables {
            if let Some(gateway) = self.gateways.get(name) {
                let text = RenderedText::of(&table, gateway.place, &mut mistakes);
                revoked::refuse_keys(&self.revoked, &text.text, &text.places, &mut mistakes);
                texts.push((name, text));
            }
        }
        mistakes.done()?;
        let (mut errors, mut warnings) = (Told::new(), Told::new());
        let keys = &KeysOnce::new(keys);
        let mut gateways = BTreeMap::new();
        for (name, RenderedText { text, places }) in &texts {
            let Some(gateway) = self.gateways.get(*name) else { continue };
            let lines = Lines { places, files: &self.files, gateway: name, first: gateway.place };
            match judge(name, text, keys) {
                (Err(findings), _) => lines.tell(&mut errors, &findings),
                (Ok((config, warned)), files) => {
                    lines.tell(&mut warnings, &warned);
                    match copies(name, &files, keys) {
                        Ok(key_files) => {
                            let (site, text) = (gateway.site.clone(), text.clone());
                            gateways.insert((*name).to_owned(), Rendered { site, text, key_files, config });
                        }
                        Err(error) => drop(errors.entry((gateway.place, error)).or_default().insert(name)),
                    }
                }
            }
        }
        if errors.is_empty() {
            Ok(Rendering { gateways, warnings: self.findings(warnings) })
        } else {
            Err(self.findings(errors))
        }
    }

    /// Two gateways with one public key would be one site for all others.
    fn refuse_common_identities(&self, mistakes: &mut Mistakes<'_>) {
        let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
        for gateway in self.gateways.values() {
            let Some(node) = &gateway.public_key else { continue };
            let Some(first) = node.as_text().and_then(|key| seen.insert(key, node.place)) else { continue };
            let there = at(&self.files, first);
            mistakes.add(
                node.place,
                format!(
                    "this public_key is already at {there}; each gateway makes its own: frameward keygen site"
                ),
            );
        }
    }

    fn findings(&self, told: Told<'_>) -> Vec<Finding> {
        let mut mistakes = Mistakes::new(&self.files);
        for ((place, text), gateways) in told {
            let all: Vec<_> = gateways.iter().take(NAMED).map(|name| format!("{name:?}")).collect();
            let more = match gateways.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let word = if gateways.len() > 1 { "gateways" } else { "gateway" };
            mistakes.add(place, format!("{word} {}{more}: {text}", all.join(", ")));
        }
        mistakes.into_findings()
    }
}

/// Origins of the lines of a rendered configuration.
struct Lines<'i> {
    places: &'i [Place],
    files: &'i [PathBuf],
    gateway: &'i str,
    /// Place of findings without a line: they concern the gateway as a whole.
    first: Place,
}

impl<'i> Lines<'i> {
    fn place(&self, line: usize) -> Option<Place> {
        self.places.get(line.checked_sub(1)?).copied()
    }

    fn tell(&self, told: &mut Told<'i>, findings: &[Finding]) {
        for finding in findings {
            let place = finding.line.and_then(|line| self.place(line)).unwrap_or(self.first);
            told.entry((place, self.with_places(&finding.text))).or_default().insert(self.gateway);
        }
    }

    /// A text in which "on line 7" is a place of the inventory.
    fn with_places(&self, text: &str) -> String {
        const ON_LINE: &str = "on line ";
        let mut replaced = String::new();
        let mut rest = text;
        while let Some(found) = rest.find(ON_LINE) {
            let (before, behind) = (&rest[..found], &rest[found + ON_LINE.len()..]);
            let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
            let place = behind[..digits].parse().ok().and_then(|line| self.place(line));
            replaced.push_str(before);
            match place {
                Some(place) => replaced.push_str(&format!("at {}", at(self.files, place))),
                None => replaced.push_str(&rest[found..found + ON_LINE.len() + digits]),
            }
            rest = &behind[digits..];
        }
        replaced.push_str(rest);
        replaced
    }
}

/// Keys of a folder at one moment: those that several gateways have are read once.
pub(crate) struct KeysOnce<'k> {
    keys: &'k KeyFolder,
    /// By their paths in the folder.
    caks: RefCell<BTreeMap<String, NamedCak>>,
    octets: RefCell<BTreeMap<String, Zeroizing<Vec<u8>>>>,
}

impl<'k> KeysOnce<'k> {
    pub(crate) const fn new(keys: &'k KeyFolder) -> Self {
        Self { keys, caks: RefCell::new(BTreeMap::new()), octets: RefCell::new(BTreeMap::new()) }
    }

    fn cak(&self, gateway: &str, file: &Path) -> Result<NamedCak, KeyFileError> {
        let of = |name| self.keys.stored(gateway, name);
        once(&self.caks, file.to_str().map(of), || self.keys.cak(gateway, file))
    }

    fn octets(&self, gateway: &str, file: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let stored = Some(self.keys.stored(gateway, file));
        once(&self.octets, stored, || self.keys.octets(gateway, Path::new(file)))
    }
}

/// Knowledge under a name, kept or read now.
fn once<T: Clone, E>(
    known: &RefCell<BTreeMap<String, T>>,
    name: Option<String>,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let Some(name) = name else { return read() };
    if let Some(known) = known.borrow().get(&name) {
        return Ok(known.clone());
    }
    let read = read()?;
    known.borrow_mut().insert(name, read.clone());
    Ok(read)
}

/// The key files of a gateway that go along with its configuration.
fn copies(
    gateway: &str,
    files: &BTreeSet<PathBuf>,
    keys: &KeysOnce<'_>,
) -> Result<BTreeMap<String, Zeroizing<Vec<u8>>>, String> {
    let mut copies = BTreeMap::new();
    for file in files {
        let Some(name) = file.to_str() else { continue };
        copies.insert(name.to_owned(), keys.octets(gateway, name)?);
    }
    Ok(copies)
}

/// A configuration with its warnings, or its mistakes.
pub(crate) type Judged = Result<(Config, Vec<Finding>), Vec<Finding>>;

/// Judges a gateway's configuration with the keys of a folder, and tells which of those it names. For keys that only its box has there
/// are stand-ins.
pub(crate) fn judge(gateway: &str, text: &str, once: &KeysOnce<'_>) -> (Judged, BTreeSet<PathBuf>) {
    let keys = once.keys;
    let named = RefCell::new(BTreeSet::new());
    // None: the box alone has it.
    let along = |path: &Path| -> Option<PathBuf> {
        let file = path.strip_prefix(gateway).ok().filter(|_| !path.is_absolute())?.to_owned();
        named.borrow_mut().insert(file.clone());
        Some(file)
    };
    let key = |path: &Path, suite| match along(path) {
        Some(file) => keys.static_key(gateway, &file, suite),
        None => Ok(stand_in::static_key(path, suite).expect("invariant: no suite has a longer key")),
    };
    let cak = |path: &Path| match along(path) {
        Some(file) => once.cak(gateway, &file),
        None => Ok(stand_in::cak(path).expect("invariant: 32 octets are a CAK")),
    };
    let identity = |path: &Path| match along(path) {
        Some(file) => keys.identity(gateway, &file),
        None => Ok(stand_in::identity(path)),
    };
    let master_key = |path: &Path| -> Result<_, KeyFileError> {
        match along(path) {
            Some(file) => keys.master_key(gateway, &file),
            None => Ok(stand_in::master_key(path)),
        }
    };
    let files = KeyFiles { key: &key, cak: &cak, identity: &identity, master_key: &master_key };
    let judged = config::parse(&Path::new(gateway).join(CONFIGURATION), text, files);
    (judged, named.into_inner())
}

/// Reads the configuration of a gateway in a folder of a rendering, or of hand-written configurations: its text and what it says.
///
/// # Errors
///
/// All that is wrong, line by line, under the file's own name.
pub fn read_rendered(folder: &Path, gateway: &str, file: &str) -> Result<(String, Config), Vec<Finding>> {
    let path = folder.join(gateway).join(file);
    let whole = |text: String| vec![Finding { file: path.clone(), line: None, text }];
    let text = std::fs::read_to_string(&path).map_err(|error| {
        whole(format!("cannot be read: {error}; name a folder with one folder for each gateway"))
    })?;
    let (judged, _) = judge(gateway, &text, &KeysOnce::new(&KeyFolder::new(folder)));
    match judged {
        Ok((config, _)) => Ok((text, config)),
        Err(findings) => {
            Err(findings.into_iter().map(|finding| Finding { file: path.clone(), ..finding }).collect())
        }
    }
}
