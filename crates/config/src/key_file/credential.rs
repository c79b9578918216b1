//! Credentials of systemd: files that it decrypts for a unit (`LoadCredentialEncrypted=`), in memory, in a directory that the environment names.
//!
//! ```text
//!  cak_file = "credential:press.cak"      the file press.cak in $CREDENTIALS_DIRECTORY
//! ```
//!
//! systemd leaves them to root, of mode 0400, and gives the unit's user the right to read them: by an access control list, which shows as mode
//! 0440, or where the file system has none by making them that user's.

use std::env;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::error::Reason;

const PREFIX: &str = "credential:";
/// Variable with their directory.
const DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// The file that a configuration in `directory` names: a path, or `credential:NAME`. What is no credential here stays as it is named, and reading
/// it tells why.
pub fn named_file(directory: &Path, named: &str) -> PathBuf {
    file_of(directory, named, credentials().as_deref())
}

fn file_of(directory: &Path, named: &str, credentials: Option<&Path>) -> PathBuf {
    let Some(name) = named.strip_prefix(PREFIX) else { return directory.join(named) };
    match credentials {
        Some(credentials) if is_name(name) => credentials.join(name),
        _ => PathBuf::from(named),
    }
}

/// Directory of this process's credentials, if it has any.
pub(super) fn credentials() -> Option<PathBuf> {
    env::var_os(DIRECTORY).map(PathBuf::from).filter(|directory| directory.is_absolute())
}

/// Error of a credential that cannot be one here.
pub(super) fn refusal(path: &Path) -> Option<Reason> {
    let name = path.to_str()?.strip_prefix(PREFIX)?;
    Some(if is_name(name) { Reason::NoCredentials } else { Reason::CredentialName })
}

/// True if the path leads to where a credential would be.
pub(super) fn is_credential(path: &Path, credentials: Option<&Path>) -> bool {
    credentials.is_some() && path.parent() == credentials
}

/// True if systemd left the opened file of this metadata in the directory of this process's credentials. No symbolic link leads there.
/// `root`: user and group of what is root's.
pub(super) fn is_of_systemd(
    opened: &Metadata,
    path: &Path,
    credentials: Option<&Path>,
    root: (u32, u32),
) -> bool {
    if !is_credential(path, credentials) {
        return false;
    }
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    let is_there = |there: &Metadata| there.is_file() && identity(there) == identity(opened);
    let is_closed = |directory: &Metadata| directory.is_dir() && directory.mode() & 0o022 == 0;
    (opened.uid(), opened.gid()) == root
        && matches!(opened.permissions().mode() & 0o7777, 0o400 | 0o440)
        && fs::symlink_metadata(path).is_ok_and(|there| is_there(&there))
        && path.parent().is_some_and(|parent| fs::symlink_metadata(parent).is_ok_and(|it| is_closed(&it)))
}

/// Names that systemd takes.
fn is_name(name: &str) -> bool {
    let is_fine = |octet: u8| octet.is_ascii_graphic() && !matches!(octet, b'/' | b':');
    (1..=255).contains(&name.len()) && name.bytes().all(is_fine) && !matches!(name, "." | "..")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::unistd::{getegid, geteuid};
    use testkit::TestDirectory;

    use super::super::secrecy::check_secrecy_of;
    use super::*;

    #[test]
    fn a_credential_is_named_and_never_leads_out_of_its_directory() {
        let (here, there) = (Path::new("/etc/frameward"), Path::new("/run/credentials/u"));
        let file = |named: &str, credentials| file_of(here, named, credentials).display().to_string();
        assert_eq!(file("credential:press.cak", Some(there)), "/run/credentials/u/press.cak");
        assert_eq!(file("press.cak", Some(there)), "/etc/frameward/press.cak");
        assert_eq!(file("/press.cak", Some(there)), "/press.cak");
        assert_eq!(file("credential:press.cak", None), "credential:press.cak");
        assert!(matches!(refusal(Path::new("credential:press.cak")), Some(Reason::NoCredentials)));
        for bad in ["", ".", "..", "/etc/shadow", "../shadow", "a/b", "a:b", "a b", "a\nb"] {
            let named = format!("credential:{bad}");
            assert_eq!(file(&named, Some(there)), named);
            assert!(matches!(refusal(Path::new(&named)), Some(Reason::CredentialName)), "{bad:?}");
        }
        assert!(refusal(Path::new("/etc/frameward/press.cak")).is_none());
    }

    /// The file of another user, as a credential is for the unit's.
    fn refused(path: &Path, credentials: Option<&Path>) -> Option<Reason> {
        let root = (geteuid().as_raw(), getegid().as_raw());
        let metadata = fs::metadata(path).unwrap();
        check_secrecy_of(&metadata, path, root.0 + 1, credentials, root).err()
    }

    #[test]
    fn what_systemd_leaves_in_the_directory_of_credentials_is_read_and_nothing_beside_it() {
        let place = TestDirectory::new("credentials");
        let (credentials, beside) = (place.path().join("unit"), place.path().join("beside"));
        fs::create_dir_all(&credentials).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&credentials, 0o700);
        for file in [credentials.join("press.cak"), beside.clone()] {
            fs::write(&file, "cak").unwrap();
            mode(&file, 0o440);
        }
        let (file, there) = (credentials.join("press.cak"), Some(credentials.as_path()));
        assert!(refused(&file, there).is_none());
        mode(&file, 0o400);
        assert!(refused(&file, there).is_none());
        for open in [0o444, 0o460, 0o640, 0o441, 0o2440] {
            mode(&file, open);
            assert!(matches!(refused(&file, there), Some(Reason::Open { .. })), "{open:o}");
        }
        mode(&file, 0o440);
        // Another unit's, no unit's, and a file beside them.
        let other = place.path().join("other");
        for none in [None, Some(other.as_path()), Some(place.path())] {
            assert!(matches!(refused(&file, none), Some(Reason::Open { .. })), "{none:?}");
        }
        assert!(matches!(refused(&beside, there), Some(Reason::Open { .. })));
        let out = credentials.join("out");
        symlink(&beside, &out).unwrap();
        assert!(matches!(refused(&out, there), Some(Reason::Open { .. })));
        symlink(&credentials, &other).unwrap();
        let by_link = refused(&other.join("press.cak"), Some(&other));
        assert!(matches!(by_link, Some(Reason::Open { .. })), "a directory that is a link");
        // Others could put a file of root's there, of which they know more than we do.
        mode(&credentials, 0o777);
        assert!(matches!(refused(&file, there), Some(Reason::Open { .. })));
    }
}
