//! Errors of key files.

use std::io;
use std::path::{Path, PathBuf};

use suite::CipherSuite;

use super::secrecy::GATEWAY_USER;

/// The most octets that a key file may have, comments included.
pub(super) const LARGEST_FILE: usize = 4096;

/// Why a key file is refused. Every text says what to do; none holds a digit of the key.
#[derive(Debug, thiserror::Error)]
#[error("{} {reason}", path.display())]
pub struct KeyFileError {
    /// The file.
    pub(super) path: PathBuf,
    pub(super) reason: Reason,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    #[error(
        "cannot be read: {0}; copy it from the other end, or make one with: frameward keygen static --out FILE"
    )]
    Missing(io::Error),
    #[error("cannot be read: {0}; let the gateway's user read it")]
    Unreadable(io::Error),
    #[error(
        "is a credential, and $CREDENTIALS_DIRECTORY is not set; systemd sets it for a unit with LoadCredentialEncrypted=. By hand, while that unit runs: CREDENTIALS_DIRECTORY=/run/credentials/UNIT.service"
    )]
    NoCredentials,
    #[error("is no name of a credential; write credential:NAME, without / and :")]
    CredentialName,
    #[error(
        "is no credential of this unit; add LoadCredentialEncrypted=NAME:FILE to it, and restart it: a reload loads none"
    )]
    NotLoaded,
    #[error("is no regular file; name one")]
    Irregular,
    #[error("cannot be read: {0}; {1}")]
    Denied(io::Error, String),
    #[error("can be read by others (mode {mode:04o}); {}chmod 600 {}", first(path, *is_readers), path.display())]
    Open { mode: u32, path: PathBuf, is_readers: bool },
    #[error("belongs to user {owner}; chown it to root or to the gateway's user")]
    Foreign { owner: u32 },
    #[error("is larger than {LARGEST_FILE} octets; name a key file")]
    Large,
    #[error(
        "is not a key file; a key file holds 32 or 64 hexadecimal digits and # comments, as keygen makes it"
    )]
    Malformed,
    #[error(
        "holds {given} bits where {suite} needs {needed}; make one with: frameward keygen static --bits {needed} --out FILE"
    )]
    Length { given: usize, suite: CipherSuite, needed: usize },
    #[error("cannot be read: {0}; make one with: frameward keygen site --out FILE")]
    NoIdentity(io::Error),
    #[error(
        "is not a site's identity; an identity holds 128 hexadecimal digits and # comments; make one with: frameward keygen site --out FILE"
    )]
    NotIdentity,
    #[error(
        "is damaged: its two keys are not a pair; make another identity with: frameward keygen site --out FILE"
    )]
    KeyPairMismatch,
    #[error(
        "holds a CAK, for cak_file in [link.mka]; make a static key with: frameward keygen static --out FILE"
    )]
    IsCak,
    #[error(
        "cannot be read: {0}; copy it from the other end, or make one with: frameward keygen cak --out FILE"
    )]
    NoCak(io::Error),
    #[error(
        "is not a CAK file; a CAK file holds a line ckn = HEX, a line cak = HEX and # comments; make one with: frameward keygen cak --out FILE"
    )]
    NotCak,
    #[error(
        "holds a static key, which has no name, for key_file in [link.static]; make a CAK with: frameward keygen cak --out FILE"
    )]
    IsStaticKey,
    #[error(
        "holds a site's identity, for identity in [[site]]; make a CAK with: frameward keygen cak --out FILE"
    )]
    IsIdentity,
    #[error("has a ckn that is not 2 to 64 hexadecimal digits, two for each octet; correct it")]
    Ckn,
    #[error("has a cak that is neither 32 nor 64 hexadecimal digits; correct it")]
    Cak,
    #[error(
        "cannot be read: {0}; copy it from the other gateway, or make one with: frameward keygen fieldbus --out FILE"
    )]
    NoMasterKey(io::Error),
    #[error(
        "is not a master key file; a master key file holds 64 hexadecimal digits and # comments; make one with: frameward keygen fieldbus --out FILE"
    )]
    NotMasterKey,
    #[error(
        "holds a CAK, for cak_file in [link.mka]; make a master key with: frameward keygen fieldbus --out FILE"
    )]
    IsCakNotMasterKey,
}

/// What comes before the change of the mode: without others' permissions a file of another user cannot be read any more.
fn first(path: &Path, is_readers: bool) -> String {
    if is_readers { String::new() } else { format!("chown {GATEWAY_USER}: {}; ", path.display()) }
}
