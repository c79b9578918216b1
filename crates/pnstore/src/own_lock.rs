//! A lock that no other account can hold: on a file of its own, which nobody else may open.
//!
//! `flock` asks for no right but to have opened the file, so whoever may read a directory may lock it, for ever. A lock
//! on a directory that others can read is theirs, too.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Whoever only looks whether somebody has it has it for a moment.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(10);

/// Takes the lock `path`, a file which is made if it is missing and stays. None: a living process has it. It goes when
/// the file is closed, also by `kill -9`. Waits for half a second at most.
///
/// # Errors
/// If the file cannot be made or opened; above all, if it is another user's.
pub fn take(path: &Path) -> io::Result<Option<File>> {
    take_within(path, PATIENCE)
}

/// The same, for a lock that living processes have for a moment each: waits so long at most.
///
/// # Errors
/// As [`take`].
pub fn take_within(path: &Path, patience: Duration) -> io::Result<Option<File>> {
    let open = |options: &mut OpenOptions| options.custom_flags(libc::O_NOFOLLOW).mode(0o600).open(path);
    let file = open(OpenOptions::new().write(true).create(true).truncate(false))?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    let give_up = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => thread::sleep(LOOK),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Whether a living process has the lock `path`. Makes no file.
///
/// # Errors
/// If it exists and cannot be opened.
pub fn is_taken(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_one_processs_and_closed_to_others() {
        let path = std::env::temp_dir().join(format!("frameward-own-lock-{}", std::process::id()));
        assert!(!is_taken(&path).unwrap());
        // As an earlier release, or an administrator, may have left it.
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let held = take(&path).unwrap();
        assert!(held.is_some() && is_taken(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(take(&path).unwrap().is_none());
        drop(held);
        assert!(!is_taken(&path).unwrap());
        assert!(take(&path).unwrap().is_some());
        std::fs::remove_file(&path).unwrap();
        // Not through a link, to a file that somebody else has chosen.
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(take(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
