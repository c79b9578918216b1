//! The four things that leases ask of a disk. The other implementors are disks that forget what was not synced: in the tests, and in
//! the simulation of crate `models`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A directory of a disk.
pub trait Disk {
    /// The content of a file, or nothing if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Writes a file anew. Its content is durable at return; its name only after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// If it cannot be written or synced. Any part of it may be there.
    fn write_synced(&mut self, name: &str, content: &[u8]) -> io::Result<()>;
    /// Renames a file over another, at once or, at a crash, not at all.
    ///
    /// # Errors
    /// If it cannot be renamed.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Makes names durable.
    ///
    /// # Errors
    /// If it cannot be synced.
    fn sync_directory(&mut self) -> io::Result<()>;
}

/// A directory of the file system.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Opens a directory; makes it, for the running user only, if it is missing.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            File::open(parent)?.sync_all()?;
        }
        Ok(Self(path.to_owned()))
    }
}

impl Disk for Directory {
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.0.join(name)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_synced(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.0.join(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

/// Replaces a file: after a crash it has the content before or the new one, whole. Durable at return.
///
/// # Errors
/// If it cannot be written; the content before is then there, or the new one.
pub fn replace(disk: &mut impl Disk, name: &str, octets: &[u8]) -> io::Result<()> {
    let next = format!("{name}.new");
    disk.write_synced(&next, octets)?;
    disk.rename(&next, name)?;
    disk.sync_directory()
}
