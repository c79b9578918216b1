//! The file of a log, and its head in the directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::{Fault, Head, Line, Log, name};
use crate::directory::{Directory, DirectoryError, Put, audit_key};
use crate::operator::Operator;
use crate::token::TokenError;

/// A line that was appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Its number.
    pub line: u64,
    /// The line before it, if that was cut off.
    pub cut_off: Option<u64>,
}

/// Why nothing is written down.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be read or written.
    #[error("{}: {source}; free its disk, or give the file to this user", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The log is not as it was written.
    #[error(
        "{}:{fault}; find out who did that, and put a copy of the log there that is whole, or take the file away: then a new log begins", path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: Fault,
    },
    /// The signing key's token did not sign.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The directory did not take the head.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Somebody else has put a head there.
    #[error("{}: somebody else goes on with a copy of this log; each user of a machine has a log of its own", path.display())]
    Overtaken {
        /// The file.
        path: PathBuf,
    },
}

/// Appends a record to a log, and makes the file if there is none. It is on disk at return. What was there stays, also if this fails. The
/// caller keeps others from the file meanwhile.
///
/// # Errors
/// [`AuditError`].
pub fn append(path: &Path, record: Line, signer: Option<&Operator>) -> Result<Appended, AuditError> {
    let failed = |source| AuditError::File { path: path.to_owned(), source };
    let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
    let mut file = opened.map_err(failed)?;
    let mut octets = Vec::new();
    file.read_to_end(&mut octets).map_err(failed)?;
    let log = Log::parse(&octets).map_err(|fault| AuditError::Broken { path: path.to_owned(), fault })?;
    let appended = log.appended(record, signer)?;
    if let Err(error) = file.write_all(&appended).and_then(|()| file.sync_all()) {
        // A part of it would be a line that was cut off.
        let _ = file.set_len(octets.len() as u64).and_then(|()| file.sync_all());
        return Err(failed(error));
    }
    if octets.is_empty() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new(".")));
        folder.and_then(|folder| folder.sync_all()).map_err(failed)?;
    }
    let before = log.count();
    Ok(Appended { line: before + 1, cut_off: log.is_cut_off.then_some(before) })
}

/// Puts the head of a log into the directory, in the place of its head before, which the log has to have. Otherwise that stays: it shows that
/// the log was longer, or another one. The caller keeps others from the file meanwhile.
///
/// # Errors
/// [`AuditError`].
pub fn put_head(
    directory: &mut dyn Directory,
    operator: &Operator,
    path: &Path,
    host: &str,
    time: &str,
) -> Result<(), AuditError> {
    let broken = |fault| AuditError::Broken { path: path.to_owned(), fault };
    let octets = fs::read(path).map_err(|source| AuditError::File { path: path.to_owned(), source })?;
    let log = Log::parse(&octets).map_err(broken)?;
    let (fleet, name) = (operator.fleet(), name(&octets));
    let key = audit_key(fleet, &name);
    let there = directory.get(&key)?;
    if let Some(head) = there.as_ref().and_then(|there| Head::parse(&there.value, fleet, &name)) {
        log.has(&head).map_err(broken)?;
    }
    let seen = there.map_or(0, |there| there.revision);
    match directory.put(&key, &log.head(operator, host, time)?, seen)? {
        Put::Done(_) => Ok(()),
        Put::Changed(_) => Err(AuditError::Overtaken { path: path.to_owned() }),
    }
}
