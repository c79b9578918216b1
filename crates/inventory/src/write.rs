//! A rendering on disk: all of it at once, or nothing.
//!
//! The new folder is written beside the one that is there, and takes its place by one exchange of names. So whoever reads the folder finds
//! one rendering or the other, whole.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use config::keygen;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::rendered_text::HEAD;
use crate::{CONFIGURATION, Rendered, Rendering};

/// Why there is no new rendering.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The folder has something else in it.
    #[error("{} is no rendering: {what}; name a new folder", folder.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// Description of what is in it.
        what: String,
    },
    /// The system refuses.
    #[error("cannot write {}: {source}; name a folder on a disk with room that this user can write", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Keygen(#[from] keygen::KeygenError),
}

/// Outcome of writing a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// It has other octets now.
    Changed,
    /// It had the same octets and is untouched.
    Unchanged,
}

/// Writes a rendering to `folder`, which is absent, empty or the rendering before.
///
/// # Errors
///
/// [`WriteError`]; then the folder is as it was.
pub fn write(rendering: &Rendering, folder: &Path) -> Result<Written, WriteError> {
    refuse_foreign(folder)?;
    if is_there(rendering, folder) {
        return Ok(Written::Unchanged);
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let fresh = folder.with_file_name(format!(".{name}.{}", std::process::id()));
    let done = fill(rendering, folder, &fresh).and_then(|()| exchange(&fresh, folder));
    // Leftovers are the rendering before, or a part of one that was not finished.
    if let (Err(error), true) = (fs::remove_dir_all(&fresh), done.is_ok() && fresh.exists()) {
        return Err(WriteError::Write { path: fresh, source: error });
    }
    done.map(|()| Written::Changed)
}

/// Names of the gateways whose folders are in a rendering; none if it is not there.
///
/// # Errors
///
/// If it cannot be read, or something else is in it.
pub fn rendered_gateways(folder: &Path) -> Result<Vec<String>, WriteError> {
    let names = gateway_folders(folder)?;
    names.iter().try_for_each(|name| refuse_foreign_gateway(folder, name))?;
    Ok(names)
}

/// The same, whatever is in their folders.
pub(crate) fn gateway_folders(folder: &Path) -> Result<Vec<String>, WriteError> {
    let read = |source| WriteError::Write { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(read(error)),
    };
    let foreign = |what: String| WriteError::Foreign { folder: folder.to_owned(), what };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(read)?.file_name();
        let name = name.to_str().filter(|name| config::is_name(name)).map(str::to_owned);
        names.push(name.ok_or_else(|| foreign("it has files of other names".into()))?);
    }
    names.sort();
    Ok(names)
}

/// Fails if no rendering made what is in a gateway's folder.
pub(crate) fn refuse_foreign_gateway(folder: &Path, name: &str) -> Result<(), WriteError> {
    let foreign = |what: String| Err(WriteError::Foreign { folder: folder.to_owned(), what });
    match fs::read_to_string(folder.join(name).join(CONFIGURATION)) {
        Ok(text) if text.starts_with(HEAD) => Ok(()),
        Ok(_) => foreign(format!("{name}/{CONFIGURATION} was not made by frameward fleet render")),
        Err(_) => foreign(format!("{name} has no {CONFIGURATION}")),
    }
}

/// Nothing is replaced that no rendering made.
fn refuse_foreign(folder: &Path) -> Result<(), WriteError> {
    rendered_gateways(folder).map(drop)
}

/// Whether the folder has these octets already, and nothing else.
fn is_there(rendering: &Rendering, folder: &Path) -> bool {
    let of_gateway = |(name, rendered): (&String, &Rendered)| {
        let own = folder.join(name);
        files(rendered).all(|(file, octets)| is_same(&own.join(file), octets))
            && count(&own) == Some(1 + rendered.key_files.len())
    };
    folder.is_dir()
        && rendered_gateways(folder).is_ok_and(|names| names.iter().eq(rendering.gateways.keys()))
        && rendering.gateways.iter().all(of_gateway)
}

/// Whether a gateway's folder has the octets of its configuration and of the keys that this names.
pub(crate) fn has_octets(own: &Path, rendered: &Rendered) -> bool {
    files(rendered).all(|(file, octets)| is_same(&own.join(file), octets))
}

/// Files of a gateway with their octets.
fn files(rendered: &Rendered) -> impl Iterator<Item = (&str, &[u8])> {
    let keys = rendered.key_files.iter().map(|(file, octets)| (file.as_str(), octets.as_slice()));
    keys.chain([(CONFIGURATION, rendered.text.as_bytes())])
}

/// Whether a file has these octets, and is for its owner alone.
fn is_same(path: &Path, octets: &[u8]) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| {
        about.is_file()
            && about.permissions().mode() & 0o7777 == 0o600
            && about.len() == octets.len() as u64
            && fs::read(path).map(zeroize::Zeroizing::new).is_ok_and(|there| **there == *octets)
    })
}

/// Files in a folder and in those within.
fn count(folder: &Path) -> Option<usize> {
    let mut files = 0;
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        files += if entry.file_type().ok()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Some(files)
}

/// Files that the folder has already get a second name in the new one: they are on disk, and a fleet has thousands.
fn fill(rendering: &Rendering, folder: &Path, fresh: &Path) -> Result<(), WriteError> {
    create(fresh)?;
    for (name, rendered) in &rendering.gateways {
        let (own, before) = (fresh.join(name), folder.join(name));
        create(&own)?;
        for (file, octets) in files(rendered) {
            let (path, before) = (own.join(file), before.join(file));
            path.parent().filter(|parent| *parent != own).map_or(Ok(()), create)?;
            if is_same(&before, octets) && fs::hard_link(&before, &path).is_ok() {
                continue;
            }
            keygen::write_new_text(&path, octets)?;
        }
    }
    Ok(())
}

fn create(folder: &Path) -> Result<(), WriteError> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|source| WriteError::Write { path: folder.to_owned(), source })
}

/// Puts the new folder in the place of the other one, which is then under the new one's name.
fn exchange(fresh: &Path, folder: &Path) -> Result<(), WriteError> {
    let failed = |source| WriteError::Write { path: folder.to_owned(), source };
    if !folder.exists() {
        return fs::rename(fresh, folder).map_err(failed);
    }
    match renameat2(AT_FDCWD, fresh, AT_FDCWD, folder, RenameFlags::RENAME_EXCHANGE) {
        Ok(()) => Ok(()),
        // A file system that cannot exchange: for a moment there is none.
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
            let before = fresh.with_extension("before");
            fs::rename(folder, &before).map_err(failed)?;
            if let Err(error) = fs::rename(fresh, folder) {
                fs::rename(&before, folder).map_err(failed)?;
                return Err(failed(error));
            }
            fs::rename(&before, fresh).map_err(failed)
        }
        Err(error) => Err(failed(error.into())),
    }
}
