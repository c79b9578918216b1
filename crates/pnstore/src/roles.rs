//! Roles of names: a box either sends or receives under a name, and never does both.
//!
//! A link's two boxes have the same two keys. If their configurations are exchanged, or `sci` and `key_file` alone, each
//! would send under a name that the other has used, from PN 1 on: every nonce comes twice. And each would take its own
//! old frames for the other's. So a name has one role on one box for ever. That of the receiver begins with the SA's
//! installation, before the first frame could come: its floor is written, if only of 1, also for peers whose floor is not
//! kept. Nothing of it depends on which end was started first, or whether a frame was ever sent.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::LeaseError;
use super::lease::LeaseName;
use super::record::{Floors, Leases};
use super::store::{FLOORS, LEASES};
use super::use_marks::{UseMark, UseMarks};

/// Role of an SA under its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A transmit SA's.
    Send,
    /// A receive SA's.
    Receive,
}

/// Knowledge of a state directory about one name.
#[derive(Clone, Copy)]
pub(super) struct KnownName {
    pub(super) sent: bool,
    pub(super) received: bool,
}

/// Whether an SA may be installed, as far as the state in `state` and the marks beside its key tell.
pub(super) fn check_role(
    state: &Path,
    role: Role,
    name: LeaseName,
    known: KnownName,
    key_file: &Path,
) -> Result<(), LeaseError> {
    let read_error = |path: PathBuf| move |source| LeaseError::Read { path, source };
    let marks = UseMarks::of(key_file).map_err(read_error(key_file.to_owned()))?;
    let have = |mark| marks.have(&mark).map_err(read_error(marks.path()));
    match role {
        Role::Receive if known.sent => Err(LeaseError::Sent { record: state.join(LEASES) }),
        Role::Receive => Ok(()),
        Role::Send if known.received => Err(LeaseError::Received { record: state.join(FLOORS) }),
        Role::Send if have(UseMark::received(name, state))? => {
            Err(LeaseError::Received { record: marks.path() })
        }
        Role::Send if !known.sent && have(UseMark::sent(name))? => Err(LeaseError::KeyUsed {
            key_file: key_file.to_owned(),
            mark: marks.path(),
            path: state.to_owned(),
        }),
        Role::Send => Ok(()),
    }
}

/// Contents of a state directory, read without its lock: its gateway may run meanwhile.
pub struct StateView {
    path: PathBuf,
    leases: Leases,
    floors: Floors,
}

impl StateView {
    /// Reads the state directory `path`; one that is not there, or not yet used, holds nothing. `None`: this user may not
    /// read it, or it is damaged, which a start says.
    pub fn read(path: &Path) -> Option<Self> {
        let read = |name| match fs::read(path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        };
        let leases = match read(LEASES).ok()? {
            Some(octets) => Leases::parse(&octets).ok()?,
            None => Leases::default(),
        };
        let floors = match read(FLOORS).ok()? {
            Some(octets) => Floors::parse(&octets).ok()?,
            None => Floors::default(),
        };
        Some(Self { path: path.to_owned(), leases, floors })
    }

    /// As [`LeaseStore::check_role`](super::LeaseStore::check_role).
    ///
    /// # Errors
    /// As there.
    pub fn check_role(&self, role: Role, name: LeaseName, key_file: &Path) -> Result<(), LeaseError> {
        let known = KnownName {
            sent: self.leases.ends.contains_key(&name.0),
            received: self.floors.lowest.contains_key(&name.0),
        };
        check_role(&self.path, role, name, known, key_file)
    }
}
