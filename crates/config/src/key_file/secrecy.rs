//! Whether a file is kept secret.
//!
//! It must be a regular one, of root or of the running user (root also reads the packaged gateway's), and without any
//! permission for others: whoever can read the key can forge frames, whoever can write it can put their own in its place. Credentials are as
//! systemd leaves them ([`super::credential`]).
//! The checks are made on the opened file, so that it cannot be exchanged in between.

use std::cell::Cell;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nix::unistd::{User, geteuid};

use super::credential::{credentials, is_of_systemd};
use super::error::{KeyFileError, Reason};

const ROOT: u32 = 0;
/// As whom the systemd unit runs a gateway.
pub(crate) const GATEWAY_USER: &str = "frameward";

thread_local! {
    /// The user for whom this thread reads; without one it is the process's.
    static READER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// From here on this thread, which has that user's rights to files, judges them as that user would.
pub(crate) fn read_as(user: u32) {
    READER.set(Some(user));
}

/// The cure where the kernel denies to read `path`: the file is somebody else's, or so is a directory above it.
pub(crate) fn cure_of_denied(path: &Path) -> String {
    let user = GATEWAY_USER;
    if fs::metadata(path).is_ok() {
        return format!(
            "read it as root, or give it to the gateway's user: chown {user}: {}",
            path.display()
        );
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let above = above.display();
    format!(
        "read it as root, or let the gateway's user into its directory: chgrp {user} {above}; chmod g+x {above}"
    )
}

/// Refuses a file that holds keys among other things and that others can read or write.
///
/// # Errors
///
/// [`KeyFileError`].
pub fn check_file(path: &Path) -> Result<(), KeyFileError> {
    let checked = fs::metadata(path).map_err(Reason::Unreadable);
    checked
        .and_then(|metadata| check_secrecy(&metadata, path))
        .map_err(|reason| KeyFileError { path: path.to_owned(), reason })
}

pub(super) fn check_secrecy(metadata: &Metadata, path: &Path) -> Result<(), Reason> {
    let reader = READER.get().unwrap_or_else(|| geteuid().as_raw());
    check_secrecy_of(metadata, path, reader, credentials().as_deref(), (ROOT, ROOT))
}

/// The same for a reader with these credentials. `root`: user and group of what systemd leaves as root's.
pub(super) fn check_secrecy_of(
    metadata: &Metadata,
    path: &Path,
    reader: u32,
    credentials: Option<&Path>,
    root: (u32, u32),
) -> Result<(), Reason> {
    if !metadata.is_file() {
        return Err(Reason::Irregular);
    }
    if is_of_systemd(metadata, path, credentials, root) {
        return Ok(());
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        let is_readers = metadata.uid() == reader;
        return Err(Reason::Open { mode, path: path.to_owned(), is_readers });
    }
    let owner = metadata.uid();
    let gateway = || User::from_name(GATEWAY_USER).ok().flatten().map(|user| user.uid.as_raw());
    if may_own(owner, reader, &gateway) { Ok(()) } else { Err(Reason::Foreign { owner }) }
}

/// Whether `owner` may own keys that `user` reads; `gateway` is asked for the packaged gateway's user. Its keys are
/// root's too, so that `doctor` and `inspect` can be run by `sudo` on a gateway's configuration.
fn may_own(owner: u32, user: u32, gateway: &dyn Fn() -> Option<u32>) -> bool {
    owner == ROOT || owner == user || (user == ROOT && gateway() == Some(owner))
}

#[cfg(test)]
mod tests {
    use suite::CipherSuite;
    use testkit::TestDirectory;

    use super::super::read;
    use super::*;

    const KEY_128: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn roots_and_ones_own_keys_are_read_and_by_root_the_gateways() {
        let (gateway, own, other) = (990, 1000, 1001);
        for (owner, user, expected) in [
            (ROOT, ROOT, true),
            (ROOT, own, true),
            (own, own, true),
            (other, own, false),
            (gateway, own, false),
            (other, ROOT, false),
            (gateway, ROOT, true),
        ] {
            assert_eq!(may_own(owner, user, &|| Some(gateway)), expected, "{owner}'s key, read by {user}");
        }
        assert!(!may_own(gateway, ROOT, &|| None), "without such a user its number is anybody's");
    }

    /// Root gives a file away. Anybody else is another user for a file of his own, if he says that he is not himself.
    #[test]
    fn a_file_of_another_user_is_refused() {
        let directory = TestDirectory::new("key-foreign");
        let path = directory.path().join("press.key");
        fs::write(&path, KEY_128).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let own = geteuid().as_raw();
        let refused = |owner: u32, reader: u32| {
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(metadata.uid(), owner);
            match check_secrecy_of(&metadata, &path, reader, None, (ROOT, ROOT)) {
                Err(Reason::Foreign { owner: named }) => assert_eq!(named, owner),
                other => panic!("{reader} reads a file of {owner}: {other:?}"),
            }
        };
        if own != ROOT {
            check_secrecy_of(&fs::metadata(&path).unwrap(), &path, own, None, (ROOT, ROOT)).unwrap();
            refused(own, own + 1);
            return;
        }
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        refused(12345, ROOT);
        refused(12345, 12346);
        let error = read(&path, CipherSuite::GcmAes128).unwrap_err();
        assert!(error.to_string().contains("belongs to user 12345"));
    }
}
