//! Whether the gateway's user can read the configuration and its key files. Root, who types `check` and `doctor`, can read them all, and
//! that says nothing: `run` becomes that user before it reads them.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;

use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist, getgroups, setfsgid, setfsuid, setgroups};

use crate::key_file::{GATEWAY_USER, read_as};
use crate::{Config, Finding};

/// What the gateway's user was refused.
#[derive(Debug)]
pub struct Access {
    /// Its name, or its number if it has none.
    pub user: String,
    /// What it cannot read, as `run` would say it; empty if it can read everything.
    pub refused: Vec<Finding>,
}

/// The user that a gateway is run as, as far as it shows.
struct Account {
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

/// Reads configuration and keys as the gateway's user does. That is the owner of the state directory, or user `frameward` if that is root's
/// or missing. None if this is not root, if there is no such user, or if root itself has run the gateway.
pub fn of_gateway_user(config: &Config) -> Option<Access> {
    let account = geteuid().is_root().then(|| Account::of(&config.gateway.state))??;
    let refused = account.read(&config.file)?;
    Some(Access { user: account.name, refused })
}

impl Account {
    fn of(state: &Path) -> Option<Self> {
        let owner =
            fs::metadata(state).ok().map(|found| (Uid::from_raw(found.uid()), Gid::from_raw(found.gid())));
        match owner {
            Some((uid, gid)) if !uid.is_root() => {
                let unknown = || Self { name: uid.to_string(), uid, gid, groups: vec![gid] };
                Some(User::from_uid(uid).ok().flatten().map_or_else(unknown, Self::known))
            }
            _ if roots_files(state) => None,
            _ => User::from_name(GATEWAY_USER).ok().flatten().map(Self::known),
        }
    }

    fn known(user: User) -> Self {
        let User { name, uid, gid, .. } = user;
        let groups = CString::new(name.as_str()).ok().and_then(|name| getgrouplist(&name, gid).ok());
        Self { groups: groups.unwrap_or_else(|| vec![gid]), name, uid, gid }
    }

    /// What is wrong with the configuration for this user; none if this process may not act for it.
    fn read(&self, file: &Path) -> Option<Vec<Finding>> {
        let own = getgroups().ok()?;
        // Groups are the process's. User and group for files are those of a thread, which ends with them.
        setgroups(&self.groups).ok()?;
        let read = thread::scope(|scope| scope.spawn(|| self.read_in_this_thread(file)).join());
        // A process that could change them can change them back.
        let _ = setgroups(&own);
        read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn read_in_this_thread(&self, file: &Path) -> Option<Vec<Finding>> {
        setfsgid(self.gid);
        setfsuid(self.uid);
        // The kernel says nothing when it refuses; a number that is none asks for the present one.
        let is_changed = setfsuid(Uid::from_raw(u32::MAX)) == self.uid;
        read_as(self.uid.as_raw());
        is_changed.then(|| crate::load(file).err().unwrap_or_default())
    }
}

/// Whether files of root's are in a state directory: a gateway that stayed root has run there.
fn roots_files(state: &Path) -> bool {
    let files = fs::read_dir(state).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok());
    files.into_iter().any(|found| found.is_file() && found.uid() == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use testkit::TestDirectory;

    use super::*;

    const USER: u32 = 64_917;
    const KEYS: &str = "ckn = 00\ncak = 000102030405060708090a0b0c0d0e0f\n";

    /// Root, so that files can be another user's. Others have nobody to ask for.
    #[test]
    fn what_the_gateways_user_cannot_read_is_found_though_root_can() {
        let directory = TestDirectory::new("check-access");
        let [file, key, state, keys] =
            ["gw.toml", "keys/line.cak", "state", "keys"].map(|name| directory.path().join(name));
        for made in [&state, &keys] {
            fs::create_dir(made).unwrap();
        }
        fs::write(&key, KEYS).unwrap();
        let text = format!(
            "[gateway]\nname = \"gw\"\nstate = {state:?}\n[[link]]\nname = \"press\"\nplain = \"eth0\"\nprotected = \"eth1\"\n[link.mka]\ncak_file = \"keys/line.cak\"\n"
        );
        fs::write(&file, text).unwrap();
        let set = |path: &Path, owner, mode| {
            if geteuid().is_root() {
                chown(path, Some(owner), Some(owner)).unwrap();
            }
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(directory.path(), 0, 0o755);
        set(&key, 0, 0o600);
        // As root sees it, which reads no files of a user with such a number.
        let (config, _) = crate::load(&file).unwrap();
        if !geteuid().is_root() {
            assert!(of_gateway_user(&config).is_none(), "only root can act for others");
            return;
        }
        set(&state, 0, 0o700);
        fs::write(state.join("leases"), "").unwrap();
        assert!(of_gateway_user(&config).is_none(), "the state is root's, and so is the gateway");
        fs::remove_file(state.join("leases")).unwrap();
        let usual = of_gateway_user(&config).map(|access| access.user);
        let is_there = User::from_name(GATEWAY_USER).unwrap().is_some();
        assert_eq!(usual, is_there.then(|| GATEWAY_USER.to_owned()), "it has not run yet");
        set(&state, USER, 0o700);
        // The configuration, its key, the key's directory: whose they are, and what is refused.
        let chowns = |path: &Path| format!("chown frameward: {}", path.display());
        for (of_file, of_key, of_keys, expected) in [
            (0, USER, 0o755, Some(chowns(&file))),
            (USER, 0, 0o755, Some(chowns(&key))),
            (USER, USER, 0o700, Some(format!("chgrp frameward {}", keys.display()))),
            (USER, USER, 0o755, None),
        ] {
            set(&file, of_file, 0o600);
            set(&key, of_key, 0o600);
            set(&keys, 0, of_keys);
            let access = of_gateway_user(&config).unwrap();
            assert_eq!(access.user, USER.to_string());
            let told: Vec<_> = access.refused.iter().map(|finding| finding.text.as_str()).collect();
            assert_eq!(told.len(), usize::from(expected.is_some()), "{told:?}");
            assert!(expected.is_none_or(|expected| told[0].contains(&expected)), "{told:?}");
        }
        assert!(
            getgroups().unwrap().iter().all(|group| group.as_raw() != USER),
            "the groups are root's again"
        );
    }
}
