//! The text of a key file: read as a secret, and its digits parsed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use suite::Secret;
use suite::identity::IDENTITY_KEY_OCTETS;
use zeroize::Zeroizing;

use super::credential::{credentials, is_credential, refusal};
use super::error::{LARGEST_FILE, Reason};
use super::secrecy::{check_secrecy, cure_of_denied};

/// The most octets that digits of a key file mean: those of an identity.
pub(super) const MOST_OCTETS: usize = 2 * IDENTITY_KEY_OCTETS;

/// Content of a file that is kept secret. Wiped when dropped.
pub(super) fn read_text(path: &Path) -> Result<Zeroizing<Vec<u8>>, Reason> {
    if let Some(refusal) = refusal(path) {
        return Err(refusal);
    }
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound if is_credential(path, credentials().as_deref()) => Reason::NotLoaded,
        io::ErrorKind::NotFound => Reason::Missing(error),
        io::ErrorKind::PermissionDenied => Reason::Denied(error, cure_of_denied(path)),
        _ => Reason::Unreadable(error),
    };
    // Opening a named pipe would wait for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(Reason::Irregular);
    }
    let file = File::open(path).map_err(unreadable)?;
    check_secrecy(&file.metadata().map_err(unreadable)?, path)?;
    // Allocated whole at first, so that growing leaves no copy behind.
    let mut text = Zeroizing::new(Vec::with_capacity(LARGEST_FILE + 1));
    file.take(LARGEST_FILE as u64 + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() > LARGEST_FILE {
        return Err(Reason::Large);
    }
    Ok(text)
}

/// The lines, without their comments.
pub(super) fn contents(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&c| c == b'\n').map(|line| line.split(|&c| c == b'#').next().unwrap_or_default())
}

/// The octets: 16, 32 or 64 of them, each put where it stays.
pub(super) fn parse(text: &[u8]) -> Option<Secret> {
    let digits = || contents(text).flatten().filter(|c| !c.is_ascii_whitespace());
    let count = digits().count();
    if !matches!(count, 32 | 64 | 128) {
        return None;
    }
    let mut secret = Secret::zeros(count / 2);
    for (at, digit) in digits().enumerate() {
        let value = char::from(*digit).to_digit(16)? as u8;
        // The first of two is the higher one.
        *secret.octets_mut().get_mut(at / 2)? |= value << (4 * (1 - at % 2));
    }
    Some(secret)
}
