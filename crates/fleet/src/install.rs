//! Files of an accepted record, on a gateway's disk.
//!
//! ```text
//!  FOLDER/current  ──▶ version-17/       frameward.toml and the key files, mode 0600
//!  FOLDER/version-16/                    the one before, to go back to
//!  FOLDER/used/                          marks beside key files (crate pnstore), for all versions
//! ```
//!
//! A version is written whole and synced before `current` leads to it, by one rename. So whoever reads through `current` finds
//! one version or another, and no mixture, whenever the box is switched off.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use config::Finding;

use crate::accept::Accepted;
use crate::files::FileName;

/// Leads to the version in use.
const CURRENT: &str = "current";
/// Where marks of used keys stand.
const USED: &str = "used";

/// A folder with a gateway's configuration.
#[derive(Clone, Debug)]
pub struct ConfigurationFolder(PathBuf);

/// Why an accepted record is not in use.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The folder cannot be written.
    #[error("cannot write {}: {source}; the configuration before stays in use", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The configuration would be refused by `frameward run`.
    #[error("version {version} is not valid on this box; the configuration before stays in use")]
    Refused {
        /// The version.
        version: u64,
        /// What is wrong.
        findings: Vec<Finding>,
    },
}

impl ConfigurationFolder {
    /// This folder. The first installation makes it.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The configuration file in use, if there is one.
    pub fn configuration(&self) -> PathBuf {
        self.0.join(CURRENT).join(FileName::CONFIGURATION)
    }

    /// The version in use.
    pub fn version(&self) -> Option<u64> {
        let target = fs::read_link(self.0.join(CURRENT)).ok()?;
        target.to_str()?.strip_prefix("version-")?.parse().ok()
    }

    /// Writes the files of a record and has `current` lead to them. False if it did so before. Files belong to the owner
    /// of the folder.
    ///
    /// # Errors
    /// [`InstallError`]; `current` is then as it was.
    pub fn install(&self, accepted: &Accepted) -> Result<bool, InstallError> {
        let version = accepted.version;
        if self.version() == Some(version) {
            return Ok(false);
        }
        let before = self.version();
        let error = |path: &Path| {
            let path = path.to_owned();
            move |source| InstallError::Write { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(error(&self.0))?;
        let used = self.0.join(USED);
        self.make(&used).map_err(error(&used))?;
        let (folder, staged) = (self.0.join(format!("version-{version}")), self.0.join(".staged"));
        self.stage(accepted, &staged).map_err(error(&staged))?;
        if let Err(findings) = config::load(&staged.join(FileName::CONFIGURATION)) {
            let _ = fs::remove_dir_all(&staged);
            return Err(InstallError::Refused { version, findings });
        }
        // One of that version that no `current` leads to is of an installation that was cut off.
        remove(&folder).map_err(error(&folder))?;
        fs::rename(&staged, &folder).map_err(error(&folder))?;
        self.lead_to(version).map_err(error(&self.0))?;
        // What is left behind costs room alone.
        let _ = self.remove_others(&[Some(version), before]);
        Ok(true)
    }

    /// Writes and syncs all files into a new folder.
    fn stage(&self, accepted: &Accepted, staged: &Path) -> io::Result<()> {
        remove(staged)?;
        self.make(staged)?;
        for (name, content) in accepted.files.iter() {
            let path = staged.join(name.as_str());
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(content)?;
            self.give(&path)?;
            file.sync_all()?;
        }
        symlink(Path::new("..").join(USED), staged.join(USED))?;
        File::open(staged)?.sync_all()
    }

    /// Has `current` lead to a version. Durable at return.
    fn lead_to(&self, version: u64) -> io::Result<()> {
        let next = self.0.join(".current.new");
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(format!("version-{version}"), &next)?,
        }
        // The version's own name first.
        File::open(&self.0)?.sync_all()?;
        fs::rename(&next, self.0.join(CURRENT))?;
        File::open(&self.0)?.sync_all()
    }

    fn remove_others(&self, keep: &[Option<u64>]) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            let version = name.to_str().and_then(|name| name.strip_prefix("version-")?.parse().ok());
            if version.is_some_and(|version: u64| !keep.contains(&Some(version))) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Makes a folder of the owner's.
    fn make(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.give(path),
        }
    }

    /// Gives a file to the owner of this folder: root fetches for the gateway's user.
    fn give(&self, path: &Path) -> io::Result<()> {
        let (owner, own) = (fs::metadata(&self.0)?, fs::symlink_metadata(path)?);
        if (owner.uid(), owner.gid()) == (own.uid(), own.gid()) {
            return Ok(());
        }
        chown(path, Some(owner.uid()), Some(owner.gid()))
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
