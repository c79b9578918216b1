//! Keys from the files that a configuration names.

use std::path::{Path, PathBuf};

use suite::identity::Identity;
use suite::{CipherSuite, Sak};
use toml::Spanned;

use super::findings::Findings;
use crate::key_file::{self, CellKey, KeyFileError, NamedCak, zeros};

/// Reads a key file for a suite; [`key_file::read`], or a test's.
pub type ReadKey<'k> = &'k dyn Fn(&Path, CipherSuite) -> Result<Sak, KeyFileError>;

/// Reads the file of another kind of key; [`key_file::read_cak`], or a test's.
pub type ReadFile<'k, T> = &'k dyn Fn(&Path) -> Result<T, KeyFileError>;

/// Readers of the files that a configuration names.
#[derive(Clone, Copy)]
pub struct KeyFiles<'k> {
    /// Static keys.
    pub key: ReadKey<'k>,
    /// CAKs.
    pub cak: ReadFile<'k, NamedCak>,
    /// Identities of sites.
    pub identity: ReadFile<'k, Identity>,
    /// Master keys of cells.
    pub master_key: ReadFile<'k, CellKey>,
}

impl KeyFiles<'static> {
    /// As they are on disk.
    pub const ON_DISK: Self = Self {
        key: &key_file::read,
        cak: &key_file::read_cak,
        identity: &key_file::read_identity,
        master_key: &key_file::read_master_key,
    };
}

/// Source of keys.
pub(super) struct KeySource<'k> {
    /// Relative paths start here.
    pub(super) directory: &'k Path,
    pub(super) files: KeyFiles<'k>,
}

impl KeySource<'_> {
    /// The file that a key names.
    pub(super) fn path(&self, named: &Spanned<String>) -> PathBuf {
        key_file::named_file(self.directory, named.get_ref())
    }

    /// Content of the file that a key names, as `read` finds it. None if it cannot be had, or is zeros; then `kind` is
    /// what `keygen` makes in its place.
    pub(super) fn read<T>(
        &self,
        label: &str,
        named: &Spanned<String>,
        kind: &str,
        read: ReadFile<T>,
        is_zeros: fn(&T) -> bool,
        findings: &mut Findings,
    ) -> Option<T> {
        let path = self.path(named);
        let why = match read(&path) {
            Ok(key) if is_zeros(&key) => zeros(&path, kind),
            Ok(key) => return Some(key),
            Err(error) => error.to_string(),
        };
        findings.error(named.span(), format!("{label}{why}"));
        None
    }
}
