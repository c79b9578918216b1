//! Keys from the files that a configuration names.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::findings::Findings;
use super::{KeyFiles, ReadFile};
use crate::key_file::zeros;

/// Where keys come from.
pub(super) struct KeySource<'k> {
    /// Relative paths start here.
    pub(super) directory: &'k Path,
    pub(super) files: KeyFiles<'k>,
}

impl KeySource<'_> {
    /// The file that a key names.
    pub(super) fn path(&self, named: &Spanned<String>) -> PathBuf {
        self.directory.join(named.get_ref())
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
