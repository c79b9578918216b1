//! `init`: the files of a first link, cell or site, so that they pass `check`.
//!
//! ```text
//!  box A: init link --plain IF --protected IF           ──▶ press.toml, press.cak, and press.bundle to carry
//!  box B: init link --join press.bundle --plain IF ...  ──▶ press.toml, press.cak
//!
//!  site D: init site --lan IF                           ──▶ dresden.key, and dresden.site to carry, which is no secret
//!  site B: init site --lan IF --peer dresden.site       ──▶ berlin.key, berlin.site, berlin.toml
//!  site D: init site --lan IF --peer berlin.site        ──▶ dresden.toml
//! ```
//!
//! All files are new, of mode 0600, and stay only if the configuration is valid: nothing is overwritten, and a failure
//! leaves nothing. A site's identity never leaves its box, so sites exchange public keys; two boxes of a link or a cell
//! share a secret, so their bundle is one.

mod bundle;
mod cell;
mod link;
mod relation;
mod site;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::keygen::{self, KeygenError};
use crate::privilege::{self, GiveError};
use config::check::{Plan, interface_mtu, own};
use config::{Finding, is_name};

pub use bundle::{Bundle, BundleError};
pub use cell::{CellAnswers, cell};
pub use link::{LinkAnswers, link};
pub use site::{SiteAnswers, site, unreached};

/// Directories and owner of the files.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The directory of the configuration and its keys; it exists.
    pub directory: PathBuf,
    /// `state` of the gateway; without it a directory of its own below the usual one.
    pub state: Option<PathBuf>,
    /// User and group of the files; none: whoever writes them.
    pub owner: Option<(u32, u32)>,
    /// Whether this is not the gateway's machine, so that its interfaces are not looked at.
    pub offline: bool,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Not every gateway, link and file can have this name.
    #[error("{0:?} is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first")]
    Name(String),
    /// A file is there already, or cannot be written.
    #[error(transparent)]
    Keygen(#[from] KeygenError),
    /// A key that is there already cannot be used.
    #[error(transparent)]
    Key(#[from] config::key_file::KeyFileError),
    /// The bundle is of no use.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// Relations that are none.
    #[error(
        "{text:?} is no relation: {why}; write [PROTOCOL,]MAC,MAC[,ID[,ID]],CYCLE, such as 02:00:00:00:01:01,02:00:00:00:02:01,0x8001,0x8002,1ms"
    )]
    Relation {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The files cannot be given to the gateway's user.
    #[error(transparent)]
    Owner(#[from] GiveError),
    /// The configuration would be refused.
    #[error("{}", Lines(.0))]
    Refused(Vec<Finding>),
}

/// Findings about a file that is not there any more.
struct Lines<'f>(&'f [Finding]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration would be refused, so no file was kept:")?;
        for finding in self.0 {
            write!(f, "\n  {}", finding.one_line())?;
        }
        Ok(())
    }
}

/// Files that are being made. They go again unless they are kept.
struct Files<'s> {
    setting: &'s Setting,
    name: &'s str,
    made: Vec<PathBuf>,
    said: Vec<String>,
}

impl<'s> Files<'s> {
    /// For the gateway `name`, of which none of the `endings` is there yet.
    fn new(setting: &'s Setting, name: &'s str, endings: &[&str]) -> Result<Self, InitError> {
        if !is_name(name) {
            return Err(InitError::Name(name.to_owned()));
        }
        let files = Self { setting, name, made: Vec::new(), said: Vec::new() };
        match endings.iter().map(|ending| files.path(ending)).find(|path| path.exists()) {
            Some(path) => Err(KeygenError::Exists(path).into()),
            None => Ok(files),
        }
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.setting.directory.join(format!("{}.{ending}", self.name))
    }

    /// Lines of hexadecimal digits, each behind its label.
    fn secret(&mut self, ending: &str, lines: &[(&str, &[u8])], what: &str) -> Result<(), InitError> {
        let path = self.path(ending);
        keygen::write_new(&path, lines)?;
        self.made(path, what);
        Ok(())
    }

    fn text(&mut self, ending: &str, text: &str, what: &str) -> Result<(), InitError> {
        let path = self.path(ending);
        keygen::write_new_text(&path, text.as_bytes())?;
        self.made(path, what);
        Ok(())
    }

    fn made(&mut self, path: PathBuf, what: &str) {
        self.said.push(format!("made {}: {what}", path.display()));
        self.made.push(path);
    }

    fn say(&mut self, line: String) {
        self.said.push(line);
    }

    /// The beginning of the configuration.
    fn gateway(&self) -> String {
        let state = match &self.setting.state {
            Some(state) => state.clone(),
            None => Path::new(config::DEFAULT_STATE).join(self.name),
        };
        let (name, state) = (quoted(self.name), quoted(&state.display().to_string()));
        format!("[gateway]\nname  = {name}\nstate = {state}\n")
    }

    /// Has the configuration judged as `check` does.
    fn check(&mut self) -> Result<(), InitError> {
        let (config, warnings) = config::load(&self.path("toml")).map_err(InitError::Refused)?;
        self.said.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
        let read_mtu: Option<config::check::ReadMtu<'_>> =
            if self.setting.offline { None } else { Some(&interface_mtu) };
        let plan = Plan::new(&config, read_mtu).map_err(InitError::Refused)?;
        self.said.extend(plan.not_carried().iter().map(|warning| format!("warning: {warning}")));
        if self.setting.offline {
            return Ok(());
        }
        let (refused, _) = own::lives(&config);
        if refused.is_empty() { Ok(()) } else { Err(InitError::Refused(refused)) }
    }

    /// The files stay. What there is to say, line by line.
    fn keep(mut self) -> Result<Vec<String>, InitError> {
        for path in &self.made {
            privilege::give(path, self.setting.owner)?;
        }
        self.made.clear();
        Ok(std::mem::take(&mut self.said))
    }

    /// The line that tells how to go on here.
    fn next_here(&self) -> String {
        let (file, name) = (self.path("toml").display().to_string(), self.name);
        let usual = Path::new("/etc/frameward") == self.setting.directory;
        let start = if usual {
            format!("systemctl enable --now frameward@{name}")
        } else {
            format!("frameward run {file}")
        };
        format!("next, on this box: frameward check {file}; then {start}; then frameward status {name}")
    }
}

impl Drop for Files<'_> {
    fn drop(&mut self) {
        for path in &self.made {
            // A file that is left is reported the next time, as one that exists.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests;
