//! Publishing: what changed, and nothing else; and never over what somebody else published meanwhile.

use std::time::Duration;

use crate::directory::{
    Directory, DirectoryError, Entry, MOST_WRITES, Put, WRITES_OCTETS, Write, configuration_key,
};
use crate::files::Files;
use crate::member::PublicIdentity;
use crate::name::GatewayName;
use crate::operator::{Draft, Operator};
use crate::record::{Kind, Record, Validity};
use crate::token::TokenError;

/// More octets than a record has beside its files and their names.
const RECORD_HEAD: usize = 4096;

/// Time by which the clocks of gateways may be behind the operator's.
const CLOCKS_APART: u64 = 600;

/// What is in the directory for a gateway, beside what should be there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// Nothing is there.
    New,
    /// Other files.
    Changed {
        /// Their version.
        version: u64,
    },
    /// The gateway has another identity: its box was replaced, or made a new one.
    OtherIdentity {
        /// The version for the identity before.
        version: u64,
        /// Whether the files are the same.
        same_files: bool,
    },
    /// The same files, in a record that is not valid yet by this clock, ends soon or has ended.
    Ending {
        /// Its version.
        version: u64,
    },
    /// Nobody speaks with this very box any more: somebody revoked it. Nothing takes the place of that.
    Revoked {
        /// The version that says so.
        version: u64,
    },
    /// Something that this operator did not sign, or not for this gateway.
    Foreign,
    /// The same files.
    Same {
        /// Their version.
        version: u64,
    },
}

impl Difference {
    /// Version of what is there, if the operator signed it for the gateway.
    pub const fn version(&self) -> Option<u64> {
        match self {
            Self::New | Self::Foreign => None,
            Self::Changed { version }
            | Self::OtherIdentity { version, .. }
            | Self::Ending { version }
            | Self::Revoked { version }
            | Self::Same { version } => Some(*version),
        }
    }

    /// True if this very box has the same files there, however long they are valid.
    pub const fn has_files(&self) -> bool {
        matches!(self, Self::Same { .. } | Self::Ending { .. })
    }
}

/// A gateway's place in the directory, as it was looked at.
#[derive(Clone, Debug)]
pub struct Place {
    /// What is to be done.
    pub difference: Difference,
    /// Whether a record without a trial is there: boxes may not have fetched it yet, so what takes its place is on none either.
    pub is_without_trial: bool,
    key: String,
    /// Revision of what was there; 0 if there was nothing.
    seen: u64,
}

/// Why a record is not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The directory did not take it.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The signing key's token did not sign it.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Somebody revoked it.
    #[error("was revoked in version {version}, which stays")]
    Revoked {
        /// The version that says so.
        version: u64,
    },
    /// Somebody else was first.
    #[error("somebody else published {} meanwhile; look at it, and apply again", match version {
        Some(version) => format!("version {version}"),
        None => "something".to_owned(),
    })]
    Overtaken {
        /// The version of that, if the operator signed it.
        version: Option<u64>,
    },
}

/// Looks at what is in the directory. A record is to be made anew when a third of its time is left.
///
/// # Errors
/// [`DirectoryError`].
pub fn compare(
    directory: &mut dyn Directory,
    operator: &Operator,
    draft: Draft<'_>,
    valid: Duration,
    now: u64,
) -> Result<Place, DirectoryError> {
    let there = directory.get(&configuration_key(operator.fleet(), draft.gateway))?;
    Ok(compare_with(there.as_ref(), operator, draft, valid, now))
}

/// The same with what is there: of a list of all.
pub fn compare_with(
    there: Option<&Entry>,
    operator: &Operator,
    draft: Draft<'_>,
    valid: Duration,
    now: u64,
) -> Place {
    let key = configuration_key(operator.fleet(), draft.gateway);
    let seen = there.map_or(0, |entry| entry.revision);
    let mut is_without_trial = false;
    let difference = match there {
        None => Difference::New,
        Some(entry) => match own_record(operator, draft, entry) {
            None => Difference::Foreign,
            Some(record) => {
                is_without_trial = record.header().kind == Kind::ConfigurationToKeep;
                difference(operator, draft, &record, valid, now)
            }
        },
    };
    Place { difference, is_without_trial, key, seen }
}

/// What the draft says, beside a record of this operator for the gateway.
fn difference(
    operator: &Operator,
    draft: Draft<'_>,
    record: &Record<'_>,
    valid: Duration,
    now: u64,
) -> Difference {
    let header = record.header();
    let (version, Validity { from, until }) = (header.version, header.validity);
    let same_files = operator.has_files(record, draft.files);
    let is_lasting = from <= now && until.saturating_sub(now) > valid.as_secs() / 3;
    // Gateways may take back what is on trial, whatever is in it.
    let has_kind = match draft.kind {
        Kind::Configuration => header.kind != Kind::Revocation,
        kind => header.kind == kind,
    };
    if header.member != draft.member.key() {
        return Difference::OtherIdentity { version, same_files };
    }
    match (header.kind, draft.kind) {
        (Kind::Revocation, Kind::Configuration | Kind::ConfigurationToKeep) => {
            Difference::Revoked { version }
        }
        _ if !same_files || !has_kind => Difference::Changed { version },
        _ if is_lasting => Difference::Same { version },
        _ => Difference::Ending { version },
    }
}

/// Publishes that nobody speaks with a gateway any more, in the place of its configuration. The version, or `None` if that is there.
///
/// # Errors
/// [`PublishError`].
pub fn revoke(
    directory: &mut dyn Directory,
    operator: &Operator,
    gateway: &GatewayName,
    member: &PublicIdentity,
    valid: Duration,
    now: u64,
) -> Result<Option<u64>, PublishError> {
    let files = Files::default();
    let draft = Draft { gateway, member, kind: Kind::Revocation, files: &files };
    let place = compare(directory, operator, draft, valid, now)?;
    if matches!(place.difference, Difference::Same { .. } | Difference::Ending { .. }) {
        return Ok(None);
    }
    publish(directory, operator, draft, &place, valid, now).map(Some)
}

/// The record, if the operator signed it for this gateway.
fn own_record<'e>(operator: &Operator, draft: Draft<'_>, entry: &'e Entry) -> Option<Record<'e>> {
    let record = Record::parse(&entry.value).ok()?;
    let header = record.header();
    let is_own = record.is_signed_by(operator.fleet())
        && header.fleet == operator.fleet()
        && header.gateway == *draft.gateway;
    is_own.then_some(record)
}

/// Publishes the draft in the place of what was there. Returns the new version: one more than that, or the time if this is
/// more. So it is newer than all before, even if the directory was lost or shows an old record.
///
/// # Errors
/// [`PublishError`].
pub fn publish(
    directory: &mut dyn Directory,
    operator: &Operator,
    draft: Draft<'_>,
    place: &Place,
    valid: Duration,
    now: u64,
) -> Result<u64, PublishError> {
    let (version, record) = record(operator, draft, place, valid, now)?;
    match directory.put(&place.key, &record, place.seen)? {
        Put::Done(_) => Ok(version),
        Put::Changed(entry) => {
            let own = entry.as_ref().and_then(|entry| own_record(operator, draft, entry));
            Err(PublishError::Overtaken { version: own.map(|record| record.header().version) })
        }
    }
}

/// Number of drafts, from the first one on, that [`publish_all`] takes at once.
pub fn at_once(drafts: &[(Draft<'_>, &Place)]) -> usize {
    let mut octets = 0;
    let fits = drafts.iter().take(MOST_WRITES).take_while(|(draft, _)| {
        octets += RECORD_HEAD
            + draft.files.iter().map(|(name, content)| name.as_str().len() + content.len()).sum::<usize>();
        octets <= WRITES_OCTETS
    });
    fits.count().max(1).min(drafts.len())
}

/// Publishes several drafts in one write: all of them, or none, and then `None`, if somebody wrote in the place of one. The new versions, as
/// of [`publish`].
///
/// # Errors
/// [`PublishError`]: none is published, or the directory does not tell.
pub fn publish_all(
    directory: &mut dyn Directory,
    operator: &Operator,
    drafts: &[(Draft<'_>, &Place)],
    valid: Duration,
    now: u64,
) -> Result<Option<Vec<u64>>, PublishError> {
    let records = drafts.iter().map(|(draft, place)| record(operator, *draft, place, valid, now));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    let writes = drafts.iter().zip(&records);
    let writes: Vec<_> = writes
        .map(|((_, place), (_, record))| Write { key: &place.key, value: record, seen: place.seen })
        .collect();
    let is_written = directory.put_all(&writes)?;
    Ok(is_written.then(|| records.iter().map(|(version, _)| *version).collect()))
}

/// The record that takes a place, with its version.
fn record(
    operator: &Operator,
    draft: Draft<'_>,
    place: &Place,
    valid: Duration,
    now: u64,
) -> Result<(u64, Vec<u8>), PublishError> {
    if let Difference::Revoked { version } = place.difference {
        return Err(PublishError::Revoked { version });
    }
    let before = place.difference.version().unwrap_or(0);
    let version = before.saturating_add(1).max(now);
    let validity =
        Validity { from: now.saturating_sub(CLOCKS_APART), until: now.saturating_add(valid.as_secs()) };
    Ok((version, operator.publish(draft, version, validity)?))
}
