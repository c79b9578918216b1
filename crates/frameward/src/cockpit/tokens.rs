//! Tokens of viewers: a file with a line for each, which has no token but its SHA-256.
//!
//! ```text
//!  # name  role    SHA-256 of the token's 32 octets
//!  anna    viewer  9f86d081...
//! ```
//!
//! A token is 32 octets from the system's random numbers, in hexadecimal digits. So nobody chooses one that can be guessed, and its hash needs
//! neither salt nor work.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

const ROLE: &str = "viewer";
const TOKEN_OCTETS: usize = 32;

/// Hashes of tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tokens(Vec<[u8; 32]>);

impl Tokens {
    /// Reads a file of tokens, which others must not be able to read.
    ///
    /// # Errors
    /// One line: file, line, cause and cure.
    pub fn read(path: &Path) -> Result<Self, String> {
        config::key_file::check_file(path).map_err(|error| error.to_string())?;
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
        let mut hashes = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default();
            let fields: Vec<_> = text.split_whitespace().collect();
            let wrong = |why: &str| Err(format!("{}:{line}: {why}", path.display()));
            match fields[..] {
                [] => {}
                [_, role, _] if role != ROLE => {
                    return wrong(&format!("{role:?} is no role; write {ROLE}, which reads"));
                }
                [_, _, hash] => match decoded(hash) {
                    Some(hash) => hashes.push(hash),
                    None => {
                        return wrong(
                            "the third word is no SHA-256; make the line by: frameward fleet token NAME --to FILE",
                        );
                    }
                },
                _ => {
                    return wrong(
                        "a line is: NAME viewer SHA-256; make it by: frameward fleet token NAME --to FILE",
                    );
                }
            }
        }
        match hashes.is_empty() {
            true => Err(format!(
                "{}: has no token, so nobody could look; make one: frameward fleet token NAME --to {}",
                path.display(),
                path.display()
            )),
            false => Ok(Self(hashes)),
        }
    }

    /// True if one of them is this token. Its hash tells nothing by the time that a comparison takes: nobody can choose it.
    pub(super) fn has(&self, token: &str) -> bool {
        let octets = decoded(token).map(Zeroizing::new);
        octets.is_some_and(|octets| self.0.contains(&Sha256::digest(*octets).into()))
    }
}

/// Makes a token, and adds its line to a file, which is made with mode 0600 if it is not there.
///
/// # Errors
/// One line: cause and cure.
pub fn add(path: &Path, name: &str) -> Result<Zeroizing<String>, String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("{}: {error}; name a file that this user can write", path.display())
    };
    let mut octets = Zeroizing::new([0; TOKEN_OCTETS]);
    getrandom::fill(&mut *octets).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    let line = format!("{name} {ROLE} {}\n", hex::encode(Sha256::digest(*octets)));
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let mut file = opened.map_err(|error| failed(&error))?;
    config::key_file::check_file(path).map_err(|error| error.to_string())?;
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| failed(&error))?;
    Ok(Zeroizing::new(hex::encode(*octets)))
}

fn decoded(digits: &str) -> Option<[u8; TOKEN_OCTETS]> {
    hex::decode(digits).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests;
