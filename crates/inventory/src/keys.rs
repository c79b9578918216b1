//! The folder of keys, which is not in git: CAKs and master keys that several gateways have, and key files of one gateway in a folder of its
//! name.
//!
//! ```text
//! keys/press.cak           the CAK of link, group or tunnel "press", and when it was made (module schedule); made if it is missing
//! keys/press.cak.before    the one before, while it is renewed (module renewal)
//! keys/cell-4.key          the master key of cell "cell-4", likewise
//! keys/cell-4.key.before   the one before, likewise
//! keys/press-1/from-a.key  a key file of gateway press-1 alone, which its configuration names
//! ```
//!
//! A key that is made stays in memory until the whole inventory is known to be right.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use config::key_file::{self, CellKey, KeyFileError, NamedCak};
use config::keygen::{self, KeyLength, KeygenError};
use suite::identity::Identity;
use suite::{CipherSuite, Sak};
use wire::Ckn;
use zeroize::Zeroizing;

use crate::schedule::MADE;

/// The largest key file that is copied, in octets.
const LARGEST: u64 = 1 << 16;

/// The folder of keys, with those that are to be made.
#[derive(Debug)]
pub struct KeyFolder {
    folder: PathBuf,
    drawn: BTreeMap<String, Drawn>,
    /// Time at which missing keys are made, in seconds since 1970.
    now: u64,
}

/// A key that is in memory alone.
#[derive(Debug)]
pub(crate) enum Drawn {
    /// With the second since 1970 in which it was made.
    Cak(NamedCak, u64),
    /// Likewise.
    Master(CellKey, u64),
}

/// Kind of a key that several gateways have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyKind {
    Cak,
    Master,
}

impl KeyFolder {
    /// A folder, which need not be there yet. Keys are made now, by this machine's clock.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
        Self::at(folder, now.map_or(0, |since| since.as_secs()))
    }

    /// A folder whose keys are made in the second `now` since 1970.
    pub fn at(folder: impl Into<PathBuf>, now: u64) -> Self {
        Self { folder: folder.into(), drawn: BTreeMap::new(), now }
    }

    /// Sees that a key is there: in the folder, or drawn.
    pub(crate) fn want(&mut self, file: &str, kind: KeyKind) -> Result<(), KeygenError> {
        if self.drawn.contains_key(file) || self.folder.join(file).exists() {
            return Ok(());
        }
        let drawn = match kind {
            KeyKind::Cak => Drawn::cak(KeyLength::Bits256, self.now)?,
            KeyKind::Master => Drawn::master(self.now)?,
        };
        self.drawn.insert(file.to_owned(), drawn);
        Ok(())
    }

    /// Files of keys that are to be made.
    pub fn missing(&self) -> impl Iterator<Item = PathBuf> {
        self.drawn.keys().map(|file| self.folder.join(file))
    }

    /// Fingerprints of keys that are to be made: they are others the next time.
    pub fn drawn_fingerprints(&self) -> BTreeSet<String> {
        self.drawn.values().map(Drawn::fingerprint).collect()
    }

    pub(crate) fn drawn_fingerprint(&self, file: &str) -> Option<String> {
        self.drawn.get(file).map(Drawn::fingerprint)
    }

    /// Writes the keys that are to be made, each to a new file of mode 0600. Returns the files.
    ///
    /// # Errors
    ///
    /// [`KeygenError`]. Those that were written stay.
    pub fn make(&mut self) -> Result<Vec<PathBuf>, KeygenError> {
        if self.drawn.is_empty() {
            return Ok(Vec::new());
        }
        create_private(&self.folder)?;
        let mut made = Vec::new();
        while let Some((file, drawn)) = self.drawn.pop_first() {
            let path = self.folder.join(file);
            keygen::write_new_text(&path, &drawn.text())?;
            made.push(path);
        }
        Ok(made)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the time at which keys are made, in seconds since 1970.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// Returns the path of a file that several gateways have.
    pub fn path_of(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Whether the gateway has a file of this name to itself.
    pub(crate) fn is_own(&self, gateway: &str, file: &str) -> bool {
        self.folder.join(gateway).join(file).exists()
    }

    /// The path of a gateway's file in this folder.
    pub(crate) fn stored(&self, gateway: &str, file: &str) -> String {
        if self.is_own(gateway, file) { format!("{gateway}/{file}") } else { file.to_owned() }
    }

    /// Returns the path of a gateway's file: in the gateway's own folder, or among those that several have.
    fn path(&self, gateway: &str, file: &Path) -> PathBuf {
        let own = self.folder.join(gateway).join(file);
        if own.exists() { own } else { self.folder.join(file) }
    }

    pub(crate) fn drawn(&self, file: &Path) -> Option<&Drawn> {
        self.drawn.get(file.to_str()?)
    }

    /// The octets of a gateway's key file.
    ///
    /// # Errors
    ///
    /// In words, with the file.
    pub(crate) fn octets(&self, gateway: &str, file: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        let path = self.path(gateway, file);
        if let Some(drawn) = self.drawn(file).filter(|_| !path.exists()) {
            return Ok(drawn.text());
        }
        key_file::check_file(&path).map_err(|error| error.to_string())?;
        let unreadable = |error| format!("{} cannot be read: {error}", path.display());
        if fs::metadata(&path).map_err(unreadable)?.len() > LARGEST {
            return Err(format!("{} is too large to be a key file", path.display()));
        }
        fs::read(&path).map(Zeroizing::new).map_err(unreadable)
    }

    pub(crate) fn static_key(
        &self,
        gateway: &str,
        file: &Path,
        suite: CipherSuite,
    ) -> Result<Sak, KeyFileError> {
        key_file::read(&self.path(gateway, file), suite)
    }

    pub(crate) fn cak(&self, gateway: &str, file: &Path) -> Result<NamedCak, KeyFileError> {
        let path = self.path(gateway, file);
        match self.drawn(file) {
            Some(Drawn::Cak(cak, _)) if !path.exists() => Ok(cak.clone()),
            _ => key_file::read_cak(&path),
        }
    }

    pub(crate) fn master_key(&self, gateway: &str, file: &Path) -> Result<CellKey, KeyFileError> {
        let path = self.path(gateway, file);
        match self.drawn(file) {
            Some(Drawn::Master(key, _)) if !path.exists() => Ok(CellKey::new(
                key.as_cak().octets().first_chunk().expect("invariant: a master key has 32 octets"),
            )),
            _ => key_file::read_master_key(&path),
        }
    }

    pub(crate) fn identity(&self, gateway: &str, file: &Path) -> Result<Identity, KeyFileError> {
        key_file::read_identity(&self.path(gateway, file))
    }
}

impl Drawn {
    pub(crate) fn cak(length: KeyLength, made: u64) -> Result<Self, KeygenError> {
        let (buffer, octets) = keygen::draw(length)?;
        let cak = NamedCak::new(keygen::draw_ckn()?, &buffer[..octets]);
        Ok(Self::Cak(cak.expect("invariant: 16 or 32 octets are a CAK"), made))
    }

    pub(crate) fn master(made: u64) -> Result<Self, KeygenError> {
        let (buffer, _) = keygen::draw(KeyLength::Bits256)?;
        Ok(Self::Master(CellKey::new(&buffer), made))
    }

    fn fingerprint(&self) -> String {
        match self {
            Self::Cak(cak, _) => cak.fingerprint(),
            Self::Master(key, _) => key.fingerprint(),
        }
    }

    /// As a key file has it.
    pub(crate) fn text(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Cak(cak, made) => {
                let first = format!("{MADE}{made}\nckn = ");
                keygen::text(&[(&first, cak.ckn().octets()), ("cak = ", cak.octets())])
            }
            Self::Master(key, made) => keygen::text(&[(&format!("{MADE}{made}\n"), key.as_cak().octets())]),
        }
    }
}

/// Makes a folder that nobody else reads, unless it is there; git never takes what is in it.
pub(crate) fn create_private(folder: &Path) -> Result<(), KeygenError> {
    let failed = |source| KeygenError::Write { path: folder.to_owned(), source };
    if !folder.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        fs::write(folder.join(".gitignore"), "*\n").map_err(failed)?;
    }
    Ok(())
}

/// Whether a key file can go along with a configuration: a relative path that does not leave its folder.
pub(crate) fn can_go_along(file: &Path) -> bool {
    file.components().next().is_some() && file.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Keys that stand in for those that only a box has, by an absolute path: the rest of its configuration can be judged with them. Two paths
/// have two keys.
pub(crate) mod stand_in {
    use sha2::{Digest as _, Sha256};

    use super::{CellKey, CipherSuite, Ckn, Identity, NamedCak, Path, Sak};

    fn octets(path: &Path) -> [u8; 32] {
        Sha256::digest(path.as_os_str().as_encoded_bytes()).into()
    }

    pub(crate) fn static_key(path: &Path, suite: CipherSuite) -> Option<Sak> {
        Sak::new(suite, octets(path).get(..suite.key_octets())?).ok()
    }

    pub(crate) fn cak(path: &Path) -> Option<NamedCak> {
        NamedCak::new(Ckn::new(&octets(path)[..16])?, &octets(path))
    }

    pub(crate) fn master_key(path: &Path) -> CellKey {
        CellKey::new(&octets(path))
    }

    pub(crate) fn identity(path: &Path) -> Identity {
        Identity::new(&octets(path))
    }
}
