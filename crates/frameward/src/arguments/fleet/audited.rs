//! Commands that change something in a fleet write that down in the audit log of their machine: when it begins, and how it ended.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fleet::audit::{self, Line, Outcome};
use fleet::directory::Directory;
use fleet::{GatewayName, Operator};
use nix::unistd::{Uid, User};
use suite::identity::PublicKey;
use time::OffsetDateTime;

use super::signing_key;
use super::standing::locked;
use crate::{Failure, tell, told, why};

/// The command that waits for no log: without a line of it a gateway is revoked all the same.
pub(super) const REVOKE: &str = "revoke";

/// A command, and what it has written down. Until it is told where, that is nothing.
#[derive(Default)]
pub(super) struct Audit {
    command: OnceCell<Command>,
    operator: OnceCell<Operator>,
    /// Person who asked for it, if that is not the login.
    by: OnceCell<String>,
    /// The fleet, where the command has no signing key.
    fleet: Cell<Option<PublicKey>>,
    /// Whether it changes something by now.
    has_begun: Cell<bool>,
    /// The line that says so, if the log took it.
    begun: Cell<Option<u64>>,
    versions: RefCell<BTreeMap<String, u64>>,
    /// Whether the log did not take the last line.
    is_broken: Cell<bool>,
}

/// Part of a command that is written down in any case.
struct Command {
    identities: PathBuf,
    action: &'static str,
    objects: Vec<String>,
}

impl Audit {
    pub(super) fn of(identities: &Path, action: &'static str, objects: Vec<String>) -> Self {
        let audit = Self::default();
        audit.is(identities, action, objects);
        audit
    }

    pub(super) fn is(&self, identities: &Path, action: &'static str, objects: Vec<String>) {
        let _ = self.command.set(Command { identities: identities.to_owned(), action, objects });
    }

    /// Somebody else than the login asked for it.
    pub(super) fn is_for(&self, by: Option<&str>) {
        by.into_iter().for_each(|by| drop(self.by.set(by.to_owned())));
    }

    /// Signer of records and of lines. A token is opened once, and its PIN asked for once.
    pub(super) fn operator(&self, signing_key: &Path) -> Result<&Operator, Failure> {
        if let Some(operator) = self.operator.get() {
            return Ok(operator);
        }
        let operator = signing_key::operator(signing_key)?;
        Ok(self.operator.get_or_init(|| operator))
    }

    pub(super) fn is_of(&self, fleet: PublicKey) {
        self.fleet.set(Some(fleet));
    }

    /// Writes down that the command changes something from here on. Fails if that cannot be, unless it is [`REVOKE`]: then it has to change
    /// nothing.
    pub(super) fn begins(&self, about: &[String]) -> Result<(), Failure> {
        if self.has_begun.get() {
            return Ok(());
        }
        let waits = self.command.get().is_none_or(|command| command.action != REVOKE);
        let otherwise = if waits { "nothing is changed" } else { "the revocation does not wait for that" };
        match self.write(Outcome::Begun, about, String::new(), otherwise) {
            Err(failure) if waits => return Err(failure),
            begun => self.begun.set(begun.ok().flatten()),
        }
        self.has_begun.set(true);
        Ok(())
    }

    pub(super) fn published(&self, gateway: &GatewayName, version: u64) {
        self.versions.borrow_mut().insert(gateway.to_string(), version);
    }

    /// Writes down how the command ended. One that had nothing to change leaves no line.
    pub(super) fn ends(&self, done: Result<(), Failure>) -> Result<(), Failure> {
        let is_there = self.command.get().is_some_and(|command| command.identities.is_dir());
        let outcome = match (done.is_ok(), self.has_begun.get()) {
            (true, true) => Outcome::Done,
            (false, true) => Outcome::Failed,
            (false, false) if is_there && !self.is_broken.get() => Outcome::Refused,
            _ => return done,
        };
        let reason = if done.is_ok() { String::new() } else { why() };
        let otherwise = "the log does not say how this ended; what was done stays";
        let written = self.write(outcome, &[], reason, otherwise);
        done.and(written.map(drop))
    }

    /// Whether the directory has to learn how long the log is.
    pub(super) fn has_news(&self, is_done: bool) -> bool {
        let has_line = self.begun.get().is_some() || !self.is_broken.get();
        self.has_begun.get() && has_line && (is_done || !self.versions.borrow().is_empty())
    }

    pub(super) fn put_head(&self, directory: &mut dyn Directory, operator: &Operator) -> Result<(), Failure> {
        let Some(Command { identities, .. }) = self.command.get() else { return Ok(()) };
        let (_lock, host) = (locked(identities)?, host());
        let put = audit::put_head(directory, operator, &file(identities, &host), &host, &utc());
        put.map_err(|error| {
            let line =
                format_args!("{error}; the directory has no newer head of the log; what was published stays");
            told(&line, Failure::Failed)
        })
    }

    /// Appends a line, on disk. Its number, or `None` without a log.
    fn write(
        &self,
        outcome: Outcome,
        about: &[String],
        reason: String,
        otherwise: &str,
    ) -> Result<Option<u64>, Failure> {
        let Some(Command { identities, action, objects }) = self.command.get() else { return Ok(None) };
        self.is_broken.set(true);
        let (_lock, host) = (locked(identities)?, host());
        let path = file(identities, &host);
        let record = Line {
            time: utc(),
            operator: self.fleet.get().map(|fleet| fleet.to_string()),
            login: login(),
            by: self.by.get().cloned(),
            host,
            action: (*action).to_owned(),
            objects: [objects.as_slice(), about].concat(),
            outcome,
            begun: self.begun.get(),
            versions: self.versions.borrow().clone(),
            reason,
            ..Line::default()
        };
        let appended = audit::append(&path, record, self.operator.get())
            .map_err(|error| told(&format_args!("{error}; {otherwise}"), Failure::Failed))?;
        self.is_broken.set(false);
        if let Some(line) = appended.cut_off {
            tell(&format_args!(
                "{}:{line}: was cut off while it was written: the machine stopped, or its disk was full; the log goes on behind it",
                path.display()
            ));
        }
        Ok(Some(appended.line))
    }
}

/// Switches of a command that were given.
pub(super) fn given(switches: &[(&str, bool)]) -> impl Iterator<Item = String> {
    switches.iter().filter(|(_, is_given)| *is_given).map(|(switch, _)| (*switch).to_owned())
}

/// Each user of a machine has a log of its own: folders can be copied from one to the other, and nobody needs to write what is another's.
fn file(identities: &Path, host: &str) -> PathBuf {
    let user = name_of(Uid::effective()).replace('/', "-");
    identities.join(format!("{host}-{user}.{}", audit::ENDING))
}

/// This machine, as a file can be called.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().trim_start_matches('.').replace('/', "-");
    if name.is_empty() { "operator".to_owned() } else { name }
}

/// Person who gave the command: the login, which `sudo` does not change; for a service its user.
fn login() -> String {
    let of_login: Option<u32> =
        fs::read_to_string("/proc/self/loginuid").ok().and_then(|text| text.trim().parse().ok());
    name_of(of_login.filter(|uid| *uid != u32::MAX).map_or_else(Uid::current, Uid::from_raw))
}

fn name_of(uid: Uid) -> String {
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Now.
fn utc() -> String {
    let now = OffsetDateTime::from(SystemTime::now());
    let (year, month, day) = (now.year(), u8::from(now.month()), now.day());
    let (hour, minute, second) = now.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
