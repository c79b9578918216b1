//! Files of an accepted record, on a gateway's disk.
//!
//! ```text
//!  FOLDER/current  ──▶ version-17/       frameward.toml and the key files, mode 0600
//!  FOLDER/version-16/                    the one before, to go back to
//!  FOLDER/used/                          marks beside key files (crate pnstore), for all versions
//!  FOLDER/trial                          while a version is on trial: it, the one before, and what stood before, a line each
//!  FOLDER/starts                         how often a gateway began to start with the version on trial, and that version
//!  FOLDER/taken-back                     the version that was taken back last: neither it nor an older one is installed again
//! ```
//!
//! A version is written whole and synced before `current` leads to it, by one rename. So whoever reads through `current` finds
//! one version or another, and no mixture, whenever the box is switched off.
//!
//! A version can be installed *on trial*: somebody confirms it, or takes it back. A trial survives a crash of whoever judges it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use config::{Config, Finding};
use pnstore::Directory;

use crate::accept::Accepted;
use crate::files::FileName;

/// Leads to the version in use.
const CURRENT: &str = "current";

/// What is on trial.
const TRIAL: &str = "trial";
/// How often a gateway began to start with what is on trial.
const STARTS: &str = "starts";
/// What is not installed again.
const TAKEN_BACK: &str = "taken-back";

/// A version that is in use, and that can be taken back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trial {
    /// The version.
    pub version: u64,
    /// The one before.
    pub before: u64,
    /// Parts that stood before, and have to stand again: a line each.
    pub stood: Vec<String>,
}

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
    /// The version was on trial, and did not pass.
    #[error(
        "version {version} was taken back before: something fell with it; have the operator change it, or publish it again with: frameward fleet apply --anew"
    )]
    TakenBack {
        /// The version.
        version: u64,
    },
    /// A newer one is in use, or was taken back.
    #[error(
        "version {version} is older than version {in_use}, which is in use or was taken back, and the memory of that is lost: somebody put an old one back into the directory, or the operator has to apply again: frameward fleet apply --anew"
    )]
    Older {
        /// The version.
        version: u64,
        /// The newer one.
        in_use: u64,
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

    /// Reads the configuration in use, which has to be that of the gateway `name`.
    ///
    /// # Errors
    /// All that is wrong, line by line.
    pub fn load(&self, name: &str) -> Result<(Config, Vec<Finding>), Vec<Finding>> {
        let file = self.configuration();
        let (config, warnings) = load(&file)?;
        if config.gateway.name == name {
            return Ok((config, warnings));
        }
        let text = format!(
            "[gateway] has the name {:?}, and the box is {name:?} in its fleet; have the operator give both one name",
            config.gateway.name
        );
        Err(vec![Finding { file, line: None, text }])
    }

    /// The version in use.
    pub fn version(&self) -> Option<u64> {
        let target = fs::read_link(self.0.join(CURRENT)).ok()?;
        target.to_str()?.strip_prefix("version-")?.parse().ok()
    }

    /// Writes the files of a record and has `current` lead to them. False if it did so before. To be called as the folder's owner.
    ///
    /// # Errors
    /// [`InstallError`]; `current` is then as it was.
    pub fn install(&self, accepted: &Accepted) -> Result<bool, InstallError> {
        self.put_in_place(accepted, None)
    }

    /// The same on trial, if there is a version before, and the operator allows it: until [`Self::confirm`] or [`Self::take_back`]. `stood` is
    /// what stands now, a line each.
    ///
    /// # Errors
    /// As [`Self::install`].
    pub fn install_on_trial(&self, accepted: &Accepted, stood: Vec<String>) -> Result<bool, InstallError> {
        let version = accepted.version;
        // A version whose trial waits for a restart never ran: the one before it does.
        let running = self.trial().map(|trial| trial.before).or_else(|| self.version());
        let before = running.filter(|_| accepted.on_trial);
        let trial = before.map(|before| Trial { version, before, stood });
        self.put_in_place(accepted, trial.as_ref())
    }

    /// Keys of `[gateway]` by which the version on trial differs from the one before, and which no gateway changes while it runs. Empty if there
    /// are none, or one of the two cannot be read.
    pub fn wants_restart(&self, trial: &Trial) -> Vec<&'static str> {
        let file = |version| self.0.join(format!("version-{version}")).join(FileName::CONFIGURATION);
        match [trial.before, trial.version].map(|version| load(&file(version))) {
            [Ok((before, _)), Ok((after, _))] => config::change::fixed(&before.gateway, &after.gateway),
            _ => Vec::new(),
        }
    }

    /// The version that is on trial, if `current` leads to it.
    pub fn trial(&self) -> Option<Trial> {
        let text = fs::read_to_string(self.0.join(TRIAL)).ok()?;
        let mut lines = text.lines();
        let (version, before) = (lines.next()?.parse().ok()?, lines.next()?.parse().ok()?);
        let trial = Trial { version, before, stood: lines.map(str::to_owned).collect() };
        (self.version() == Some(version)).then_some(trial)
    }

    /// Counts that a gateway begins to start with the version on trial, and how often it has by now. Durable at return, so a start that never
    /// ends well counts.
    ///
    /// # Errors
    /// `Write`.
    pub fn count_start(&self, trial: &Trial) -> Result<u32, InstallError> {
        let path = self.0.join(STARTS);
        let counted = fs::read_to_string(&path).unwrap_or_default();
        let before = counted.trim().split_once(' ').and_then(|(count, version)| {
            let is_its = version.parse() == Ok(trial.version);
            count.parse::<u32>().ok().filter(|_| is_its)
        });
        let count = before.unwrap_or(0).saturating_add(1);
        self.write(STARTS, &format!("{count} {}\n", trial.version))
            .map_err(|source| InstallError::Write { path, source })?;
        Ok(count)
    }

    /// Ends a trial: the version stays.
    ///
    /// # Errors
    /// `Write`.
    pub fn confirm(&self) -> Result<(), InstallError> {
        let path = self.0.join(TRIAL);
        match fs::remove_file(&path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            // A trial that came back after a power cut would be judged again, perhaps while the peer is off.
            removed => removed
                .and_then(|()| File::open(&self.0)?.sync_all())
                .map_err(|source| InstallError::Write { path, source }),
        }
    }

    /// Ends a trial: `current` leads to the version before, and this one is not installed again.
    ///
    /// # Errors
    /// `Write`.
    pub fn take_back(&self, trial: &Trial) -> Result<(), InstallError> {
        let path = self.0.join(TAKEN_BACK);
        self.write(TAKEN_BACK, &format!("{}\n", trial.version))
            .and_then(|()| self.lead_to(trial.before))
            .map_err(|source| InstallError::Write { path, source })?;
        self.confirm()
    }

    /// The version that was taken back last. None that is older is installed: it may have been taken back, too.
    fn last_taken_back(&self) -> Result<Option<u64>, InstallError> {
        let path = self.0.join(TAKEN_BACK);
        match fs::read_to_string(&path) {
            Ok(text) => match text.trim().parse() {
                Ok(version) => Ok(Some(version)),
                Err(error) => Err(InstallError::Write {
                    path,
                    source: io::Error::new(io::ErrorKind::InvalidData, error),
                }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // Taken for empty, it would have the version tried again.
            Err(source) => Err(InstallError::Write { path, source }),
        }
    }

    fn put_in_place(&self, accepted: &Accepted, trial: Option<&Trial>) -> Result<bool, InstallError> {
        let version = accepted.version;
        let before = self.version();
        match before {
            Some(before) if before == version => return Ok(false),
            Some(in_use) if version < in_use => return Err(InstallError::Older { version, in_use }),
            _ => {}
        }
        match self.last_taken_back()? {
            Some(taken_back) if version == taken_back => return Err(InstallError::TakenBack { version }),
            Some(in_use) if version < in_use => return Err(InstallError::Older { version, in_use }),
            _ => {}
        }
        let error = |path: &Path| {
            let path = path.to_owned();
            move |source| InstallError::Write { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(error(&self.0))?;
        let used = self.0.join(FileName::USED);
        make(&used).map_err(error(&used))?;
        let (folder, staged) = (self.0.join(format!("version-{version}")), self.0.join(".staged"));
        Self::stage(accepted, &staged).map_err(error(&staged))?;
        if let Err(findings) = load(&staged.join(FileName::CONFIGURATION)) {
            let _ = fs::remove_dir_all(&staged);
            return Err(InstallError::Refused { version, findings });
        }
        // One of that version that no `current` leads to is of an installation that was cut off.
        remove(&folder).map_err(error(&folder))?;
        fs::rename(&staged, &folder).map_err(error(&folder))?;
        self.confirm()?;
        if let Some(Trial { version, before, stood }) = trial {
            let text = format!("{version}\n{before}\n{}\n", stood.join("\n"));
            self.write(TRIAL, &text).map_err(error(&self.0))?;
        }
        self.lead_to(version).map_err(error(&self.0))?;
        // What is left behind costs room alone.
        let _ = self.remove_others(&[Some(version), before, trial.map(|trial| trial.before)]);
        Ok(true)
    }

    /// Replaces a file of this folder's own. Durable at return.
    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let mut directory = Directory::open(&self.0)?;
        pnstore::replace(&mut directory, name, text.as_bytes())
    }

    /// Writes and syncs all files into a new folder.
    fn stage(accepted: &Accepted, staged: &Path) -> io::Result<()> {
        remove(staged)?;
        make(staged)?;
        for (name, content) in accepted.files.iter() {
            let path = staged.join(name.as_str());
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(content)?;
            file.sync_all()?;
        }
        symlink(Path::new("..").join(FileName::USED), staged.join(FileName::USED))?;
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
}

/// Reads a configuration that came from a fleet: which one that is, its box alone says.
pub(crate) fn load(file: &Path) -> Result<(Config, Vec<Finding>), Vec<Finding>> {
    let (config, warnings) = config::load(file)?;
    match &config.fleet {
        None => Ok((config, warnings)),
        Some(fleet) => Err(vec![Finding {
            file: file.to_owned(),
            line: Some(fleet.line.0),
            text: "[fleet] stands in the box's own file alone; take it out of what the fleet sends"
                .to_owned(),
        }]),
    }
}

/// Makes a folder, if it is not there.
fn make(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
