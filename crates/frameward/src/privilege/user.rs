//! As whom a gateway runs that root starts.
//!
//! ```text
//!  root ── looks the user up, makes the two directories ──▶ groups, gid, uid; capabilities stay permitted
//!       ── privilege::give_up_others ──▶ those that are needed ──▶ configuration, keys, state: as that user
//! ```
//!
//! Without capabilities root still owns what is root's: it could write any program and any configuration of the box.
//! The change comes before anything is read that somebody else may have written.

use std::ffi::CString;
use std::fs::{DirBuilder, OpenOptions, Permissions, symlink_metadata};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown, lchown,
};
use std::path::{Path, PathBuf};

use caps::CapSet;
use nix::fcntl::OFlag;
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, User, geteuid, getuid, initgroups, setgroups, setresgid, setresuid};

/// As whom a gateway runs that root starts, unless it is told otherwise; the packages and the unit have this one.
pub const GATEWAY_USER: &str = "frameward";

/// As whom to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunAs {
    /// [`GATEWAY_USER`] if root starts it, else whoever does.
    Default,
    /// This user, by name or number.
    User(String),
    /// The user who starts it, even root.
    Starter,
}

/// As whom a process runs that root has started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Became {
    /// As root, as it was told to.
    Root,
    /// As this user.
    User(String),
}

/// A directory that the gateway needs, and only root may make where it belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// The directory.
    pub path: &'p Path,
    /// Its mode, if it is made here.
    pub mode: u32,
}

/// A user's numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Account {
    name: String,
    uid: Uid,
    gid: Gid,
    /// A number without a name has no groups.
    is_known: bool,
}

/// Whom files of a gateway are to belong to that this process writes, as user and group: the user `name`, without one
/// [`GATEWAY_USER`] if there is one. None: whoever writes them.
///
/// # Errors
/// In one line with its cure: there is no such user, or only root can give files away.
pub fn files_owner(name: Option<&str>) -> Result<Option<(u32, u32)>, String> {
    let numbers = |account: Account| Some((account.uid.as_raw(), account.gid.as_raw()));
    match name {
        None if !geteuid().is_root() => Ok(None),
        None => Ok(account(GATEWAY_USER).ok().and_then(numbers)),
        Some(name) => {
            let account = account(name)?;
            if account.uid != geteuid() && !geteuid().is_root() {
                return Err(format!("only root can write files of user {name:?}; leave --user out"));
            }
            Ok(numbers(account))
        }
    }
}

/// A file cannot be given to the gateway's user.
#[derive(Debug, thiserror::Error)]
#[error("cannot give {} to the gateway's user: {source}; run it as root", path.display())]
pub struct GiveError {
    path: PathBuf,
    source: io::Error,
}

/// Gives the new file `path` to the user that [`files_owner`] has named; without one it stays whoever's wrote it.
///
/// # Errors
/// [`GiveError`].
pub fn give(path: &Path, owner: Option<(u32, u32)>) -> Result<(), GiveError> {
    let Some((user, group)) = owner else { return Ok(()) };
    lchown(path, Some(user), Some(group)).map_err(|source| GiveError { path: path.to_owned(), source })
}

/// Becomes the user that is to run the gateway, and keeps the capabilities, which stay permitted. `places` are made for
/// that user where they are missing; a root that stays root shares those of another user. To be called while the process has one thread, before anything is read. Returns
/// as whom it runs, if root started it.
///
/// # Errors
/// In one line with its cure: there is no such user, or the kernel refuses.
pub fn become_user(run_as: &RunAs, places: &[Place<'_>]) -> Result<Option<Became>, String> {
    let is_root = geteuid().is_root();
    let name = match run_as {
        RunAs::Starter if is_root => {
            // If one cannot be shared, whoever has to write there says so.
            places.iter().for_each(|place| drop(share_with_root(place.path)));
            return Ok(Some(Became::Root));
        }
        RunAs::Starter => return Ok(None),
        RunAs::Default if is_root => GATEWAY_USER,
        RunAs::Default => return Ok(None),
        RunAs::User(name) => name.as_str(),
    };
    let account = account(name)?;
    if !is_root {
        let is_own = account.uid == getuid();
        return if is_own {
            Ok(None)
        } else {
            Err(format!("only root can become user {name:?}; leave --user out"))
        };
    }
    for place in places {
        make(place, &account).map_err(|error| {
            format!("cannot make {} for user {name:?}: {error}; make it by hand", place.path.display())
        })?;
    }
    change(&account).map_err(|error| {
        format!("cannot become user {name:?}: {error}; give CAP_SETUID and CAP_SETGID, or use --keep-user")
    })?;
    Ok((!account.uid.is_root()).then(|| Became::User(name.to_owned())))
}

fn account(name: &str) -> Result<Account, String> {
    let known = |user: User| Account { name: user.name, uid: user.uid, gid: user.gid, is_known: true };
    let failed = |error: nix::Error| format!("cannot look user {name:?} up: {error}; name one with --user");
    if let Some(user) = User::from_name(name).map_err(failed)? {
        return Ok(known(user));
    }
    let Ok(number) = name.parse::<u32>() else {
        return Err(format!(
            "there is no user {name:?} to run as; make it: useradd --system --user-group --no-create-home \
             --shell /usr/sbin/nologin {name}; or name another one with --user; --keep-user stays root"
        ));
    };
    let (uid, gid) = (Uid::from_raw(number), Gid::from_raw(number));
    let user = User::from_uid(uid).map_err(failed)?;
    Ok(user.map_or(Account { name: name.to_owned(), uid, gid, is_known: false }, known))
}

/// Makes a directory for the user; one that is there stays as it is, whosever it is.
fn make(place: &Place<'_>, account: &Account) -> io::Result<()> {
    if symlink_metadata(place.path).is_ok() {
        return Ok(());
    }
    // Whatever is above it stays root's.
    DirBuilder::new().recursive(true).mode(place.mode).create(place.path)?;
    if symlink_metadata(place.path)?.uid() == account.uid.as_raw() {
        return Ok(());
    }
    lchown(place.path, Some(account.uid.as_raw()), Some(account.gid.as_raw()))
}

/// A directory that an earlier start has made for another user stays that user's, and root's group may write there too: file permissions
/// stop root without its capabilities.
fn share_with_root(directory: &Path) -> io::Result<()> {
    // Its owner may have put something else in its place.
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(directory)?;
    let found = opened.metadata()?;
    if found.uid() == 0 {
        return Ok(());
    }
    fchown(&opened, None, Some(0))?;
    opened.set_permissions(Permissions::from_mode(found.mode() & 0o7777 | 0o070))
}

fn change(account: &Account) -> Result<(), Box<dyn std::error::Error>> {
    prctl::set_keepcaps(true)?;
    if account.is_known {
        initgroups(&CString::new(account.name.as_str())?, account.gid)?;
    } else {
        setgroups(&[])?;
    }
    setresgid(account.gid, account.gid, account.gid)?;
    setresuid(account.uid, account.uid, account.uid)?;
    prctl::set_keepcaps(false)?;
    // The kernel takes the effective ones away; which of them go for good is decided by who gives up the others.
    let permitted = caps::read(None, CapSet::Permitted)?;
    caps::set(None, CapSet::Effective, &permitted)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = account("root").unwrap();
        assert_eq!((root.uid, root.is_known), (Uid::from_raw(0), true));
        assert_eq!(account("0").unwrap(), root);
        let nobody = account("64917").unwrap();
        assert_eq!((nobody.uid.as_raw(), nobody.gid.as_raw(), nobody.is_known), (64917, 64917, false));
        let error = account("no-such-user").unwrap_err();
        assert!(error.contains("useradd") && error.contains("no-such-user"), "{error}");
    }
}
