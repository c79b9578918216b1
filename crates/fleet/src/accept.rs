//! What a gateway accepts: signed by its fleet's operator, for itself, valid now, and newer than all before.

use std::fmt;

use sha2::{Digest as _, Sha256};
use suite::identity::{Identity, PublicKey};

use crate::files::Files;
use crate::name::GatewayName;
use crate::reached::Reached;
use crate::record::{Kind, MalformedRecord, Record, SEALED};

/// A gateway of a fleet, as it knows itself.
#[derive(Debug)]
pub struct Member {
    /// The fleet: its operator's public key.
    pub fleet: PublicKey,
    /// Its name.
    pub name: GatewayName,
    /// Its identity, whose private part never leaves it.
    pub identity: Identity,
}

/// An accepted record.
#[derive(Debug)]
pub struct Accepted {
    /// Its version.
    pub version: u64,
    /// Its files.
    pub files: Files,
    /// True if it is newer than what was reached; false for that very record once more.
    pub is_new: bool,
    /// True if it may be taken back when links fall with it.
    pub on_trial: bool,
    /// How far the gateway is with it.
    pub(crate) reached: Reached,
}

/// Why a record is not accepted. Each is about what is in the directory: nothing changes on the gateway.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No record.
    #[error("the record {0}")]
    Malformed(#[from] MalformedRecord),
    /// The record of another operator.
    #[error(
        "the record belongs to the fleet of operator {fleet}; the operator's public key here is another one"
    )]
    OtherFleet {
        /// That operator's public key, as the record says.
        fleet: PublicKey,
    },
    /// Not signed by the operator, or changed afterwards.
    #[error("the record is not signed by the operator: somebody wrote or changed it in the directory")]
    NotSigned,
    /// A true record, put in the place of this gateway's.
    #[error("the record is for gateway {gateway}: somebody put it in this gateway's place in the directory")]
    OtherGateway {
        /// The gateway that it is for.
        gateway: GatewayName,
    },
    /// For another identity of this gateway.
    #[error(
        "the record is for the identity {member} of this gateway; give the operator its present one: frameward fleet identity FILE"
    )]
    OtherIdentity {
        /// The identity's public key.
        member: PublicKey,
    },
    /// Valid later, by this machine's clock.
    #[error("the record is valid in {0} by this box's clock; is the clock right?")]
    NotYetValid(Span),
    /// Not valid any more, by this machine's clock.
    #[error(
        "the record ended {0} ago by this box's clock; is the clock right? If it is, have the operator apply again"
    )]
    Expired(Span),
    /// An older one was played back.
    #[error(
        "the record has version {version}, and version {reached} was accepted before: somebody put an old one back into the directory, or the operator has to apply again: frameward fleet apply --anew"
    )]
    Older {
        /// Its version.
        version: u64,
        /// The newest version that was accepted.
        reached: u64,
    },
    /// The operator signed two records with one version.
    #[error(
        "the record is another one than that of the same version {version}, which was accepted before; have the operator publish it again: frameward fleet apply --anew"
    )]
    SameVersion {
        /// The version of both.
        version: u64,
    },
    /// Nobody of the fleet speaks with this gateway any more.
    #[error(
        "the operator revoked this gateway: no other one speaks with it any more; if that is a mistake, let the operator enrol it with a new identity"
    )]
    Revoked,
    /// The sealed part cannot be opened, or holds no files.
    #[error(
        "the record's files cannot be opened with this gateway's identity; have the operator publish it again: frameward fleet apply --anew"
    )]
    NotSealed,
}

/// A time in seconds, to be read by people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span(pub u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = match self.0 {
            seconds @ 0..120 => (seconds, "second"),
            seconds @ 120..7200 => (seconds / 60, "minute"),
            seconds @ 7200..172_800 => (seconds / 3600, "hour"),
            seconds => (seconds / 86_400, "day"),
        };
        write!(f, "{count} {unit}{}", if count == 1 { "" } else { "s" })
    }
}

impl Member {
    /// Verifies a record and opens its files. `now` is the time in seconds since 1970, `reached` how far this gateway is.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn accept(
        &self,
        octets: &[u8],
        now: u64,
        reached: Option<&Reached>,
    ) -> Result<Accepted, Refusal> {
        let record = Record::parse(octets)?;
        let header = record.header();
        if header.fleet != self.fleet {
            return Err(Refusal::OtherFleet { fleet: header.fleet });
        }
        if !record.is_signed_by(self.fleet) {
            return Err(Refusal::NotSigned);
        }
        if header.gateway != self.name {
            return Err(Refusal::OtherGateway { gateway: header.gateway.clone() });
        }
        if header.member != self.identity.public() {
            return Err(Refusal::OtherIdentity { member: header.member });
        }
        if now < header.validity.from {
            return Err(Refusal::NotYetValid(Span(header.validity.from - now)));
        }
        if !header.validity.contains(now) {
            return Err(Refusal::Expired(Span(now - header.validity.until)));
        }
        let (version, digest) = (header.version, Sha256::digest(octets).into());
        let is_new = match reached {
            Some(reached) if version < reached.version => {
                return Err(Refusal::Older { version, reached: reached.version });
            }
            Some(reached) if version == reached.version && digest != reached.digest => {
                return Err(Refusal::SameVersion { version });
            }
            Some(reached) => version > reached.version,
            None => true,
        };
        if header.kind == Kind::Revocation {
            return Err(Refusal::Revoked);
        }
        let key = self.identity.sealing_key();
        let files = key.open(SEALED, &header.encode(), record.sealed()).map_err(|_| Refusal::NotSealed)?;
        let files = Files::parse(&files).ok_or(Refusal::NotSealed)?;
        let on_trial = header.kind == Kind::Configuration;
        Ok(Accepted { version, files, is_new, on_trial, reached: Reached { version, digest } })
    }
}
