//! A bundle, carried from one box to another: lines `key = value`, and comments behind a number sign.
//!
//! ```text
//! init = link                       what was set up: link, cell or site
//! name = press
//! ckn  = 4f1e5d0c27b96a83d4e2f0917b3c586a
//! cak  = (64 hexadecimal digits)    a secret: the file has mode 0600; a site's has none
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use suite::Secret;
use zeroize::Zeroizing;

use config::key_file;

/// The largest bundle that is read, in octets: that of a cell has a line for each of a thousand relations.
const LARGEST: u64 = 1 << 18;

/// Why a bundle is of no use.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BundleError(String);

/// A bundle that was carried here. Wiped when dropped.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    values: Vec<(String, Value)>,
}

/// Not shown: most of them are secrets.
struct Value(Zeroizing<String>);

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl Bundle {
    /// Reads the bundle `path` of `kind`: link, cell or site.
    ///
    /// # Errors
    /// If it cannot be read, is another kind's, or has a secret that others can read.
    pub fn read(path: &Path, kind: &str) -> Result<Self, BundleError> {
        let error = |what: String| BundleError(format!("{} {what}", path.display()));
        let size = fs::metadata(path)
            .map_err(|source| error(format!("cannot be read: {source}; bring it from the other box")))?
            .len();
        if size > LARGEST {
            return Err(error("is too large to be a bundle; use the one that init made".into()));
        }
        if kind != "site" {
            key_file::check_file(path).map_err(|refused| BundleError(refused.to_string()))?;
        }
        let text = fs::read_to_string(path).map(Zeroizing::new);
        let text = text.map_err(|source| error(format!("cannot be read: {source}")))?;
        let values: Vec<_> = text
            .lines()
            .filter_map(|line| line.split('#').next()?.split_once('='))
            .map(|(key, value)| (key.trim().to_owned(), Value(Zeroizing::new(value.trim().to_owned()))))
            .collect();
        let bundle = Self { path: path.to_owned(), values };
        let other = match bundle.values("init").next() {
            Some(found) if found == kind => None,
            Some(found) => Some(format!("is the bundle of a {found}; use: frameward init {found}")),
            None => Some(format!("is no bundle; make one with: frameward init {kind}")),
        };
        other.map_or(Ok(bundle), |what| Err(error(what)))
    }

    /// All values of a key, in order.
    pub(super) fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.values.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.0.as_str())
    }

    /// The value of a key.
    pub(super) fn value(&self, key: &str) -> Result<&str, BundleError> {
        self.values(key).next().ok_or_else(|| self.error(&format!("has no {key}; bring it again, whole")))
    }

    /// The name of what was set up on the other box.
    ///
    /// # Errors
    /// If it has none.
    pub fn name(&self) -> Result<&str, BundleError> {
        self.value("name")
    }

    /// Its file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Hexadecimal digits as octets.
    pub(super) fn octets(&self, key: &str) -> Result<Secret, BundleError> {
        let digits = self.value(key)?;
        let mut octets = Secret::zeros(digits.len() / 2);
        hex::decode_to_slice(digits, octets.octets_mut())
            .map_err(|_| self.error(&format!("has a {key} that is not a key; copy the bundle again")))?;
        Ok(octets)
    }

    fn error(&self, what: &str) -> BundleError {
        BundleError(format!("{} {what}", self.path.display()))
    }
}
