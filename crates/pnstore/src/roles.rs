//! Roles of names: a box either sends or receives under a name, and never does both.
//!
//! A link's two boxes have the same two keys. If their configurations are exchanged, or `sci` and `key_file` alone, each
//! would send under a name that the other has used, from PN 1 on: every nonce comes twice. And each would take its own
//! old frames for the other's. So a name has one role on one box for ever. That of the receiver begins with the SA's
//! installation, before the first frame could come: its floor is written, if only of 1, also for peers whose floor is not
//! kept. Nothing of it depends on which end was started first, or whether a frame was ever sent. Marks beside the keys say it too, for
//! other state directories of the box.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::LeaseStore;
use super::error::LeaseError;
use super::lease::LeaseName;
use super::record::{Floors, Leases};
use super::store::{FLOORS, LEASES};
use super::use_marks::{FoundMark, UseMarks, canonical};

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
    match role {
        Role::Receive if known.sent => return Err(LeaseError::Sent { record: state.join(LEASES) }),
        Role::Send if known.received => return Err(LeaseError::Received { record: state.join(FLOORS) }),
        _ => {}
    }
    let read_error = |source| LeaseError::Read { path: key_file.to_owned(), source };
    let marks = UseMarks::of(key_file).map_err(read_error)?.about(name)?;
    // Marks of this state count always. Another state's speak for this box too: each end's configuration may name a state of its own, and
    // both may have been exchanged. Only where that end runs at this moment, beside this one, it is another gateway; so it was when this
    // state took the name.
    let is_knowing = known.sent || known.received;
    let is_ours = |mark: &FoundMark| match &mark.state {
        Some(of) if of == &canonical(state) => true,
        Some(other) => !is_knowing && !LeaseStore::is_held(other).unwrap_or(false),
        None => !is_knowing,
    };
    let found = |role| marks.iter().find(move |mark| mark.role == role && is_ours(mark));
    match role {
        Role::Receive => {
            found(Role::Send).map_or(Ok(()), |mark| Err(LeaseError::Sent { record: mark.path.clone() }))
        }
        Role::Send => match (found(Role::Receive), marks.iter().find(|mark| mark.role == Role::Send)) {
            (Some(mark), _) => Err(LeaseError::Received { record: mark.path.clone() }),
            (None, Some(mark)) if !known.sent => Err(LeaseError::KeyUsed {
                key_file: key_file.to_owned(),
                mark: mark.path.clone(),
                path: state.to_owned(),
            }),
            _ => Ok(()),
        },
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
