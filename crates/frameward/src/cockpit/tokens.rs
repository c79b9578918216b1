//! Tokens and certificates of those who may look, with their roles: a file with a line for each, which has no token but its SHA-256.
//!
//! ```text
//!  # name  role      SHA-256 of the token's 32 octets, or of a client certificate (DER)
//!  anna    viewer    9f86d081...
//!  bert    operator  60303ae2...
//! ```
//!
//! A token is 32 octets from the system's random numbers, in hexadecimal digits. So nobody chooses one that can be guessed, and its hash needs
//! neither salt nor work.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

const TOKEN_OCTETS: usize = 32;
/// SHA-256 of a token or certificate.
type Hash = [u8; 32];

/// Permission of somebody who looks. Each one may do what those before it may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads all that is shown.
    Viewer,
    /// Also writes notes into the audit log, and stops what runs.
    Operator,
    /// Also changes who is in the fleet, and keys.
    Signer,
}

/// Somebody who may look.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Who {
    /// Name in the file; none where nobody has to show who he is.
    pub name: Option<String>,
    /// Permission.
    pub role: Role,
}

/// Those who may look, by the hashes of what they show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tokens(Vec<(Hash, Who)>);

impl Role {
    /// All of them, the one that may least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Signer];

    /// Its word in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Signer => "signer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let role = Self::ALL.into_iter().find(|role| role.word() == text);
        role.ok_or_else(|| {
            format!("{text:?} is no role; write viewer (reads), operator (also notes and stops) or signer (also changes members and keys)")
        })
    }
}

impl Who {
    /// Anybody, where nobody has to show who he is.
    pub(super) const fn anybody() -> Self {
        Self { name: None, role: Role::Viewer }
    }
}

impl Tokens {
    /// Reads a file of tokens, which others must not be able to read.
    ///
    /// # Errors
    /// One line: file, line, cause and cure.
    pub fn read(path: &Path) -> Result<Self, String> {
        let place = path.display();
        if !path.exists() {
            return Err(format!(
                "{place}: there is no such file; make a token: frameward fleet token NAME --to {place}"
            ));
        }
        config::key_file::check_file(path).map_err(|error| error.to_string())?;
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!("{place}: cannot be read: {error}; name the file that frameward fleet token has made")
        })?;
        let known = Self::parsed(path, &text)?;
        match known.0.is_empty() {
            true => Err(format!(
                "{place}: has no token, so nobody could look; make one: frameward fleet token NAME --to {place}"
            )),
            false => Ok(known),
        }
    }

    /// The file's lines. Who has which role must not hang on their order.
    fn parsed(path: &Path, text: &str) -> Result<Self, String> {
        let mut known = Self(Vec::new());
        for (line, text) in (1..).zip(text.lines()) {
            let failed = |why: String| format!("{}:{line}: {why}", path.display());
            if let Some((hash, who)) = parse(text).map_err(failed)? {
                known.has_room_for(&hash, &who).map_err(failed)?;
                known.0.push((hash, who));
            }
        }
        Ok(known)
    }

    /// Fails if the token or certificate has a line, or the name another role.
    fn has_room_for(&self, hash: &Hash, who: &Who) -> Result<(), String> {
        let name = |who: &Who| who.name.clone().unwrap_or_default();
        if let Some(other) = self.of(hash) {
            return Err(format!(
                "this token or certificate has a line already, as {} {}; remove one of the two lines",
                name(other),
                other.role
            ));
        }
        let other = self.0.iter().map(|(_, other)| other).find(|other| other.name == who.name);
        match other {
            Some(other) if other.role != who.role => Err(format!(
                "{} is {} here, and {} in another line; remove the other line, or take another name",
                name(who),
                who.role,
                other.role
            )),
            _ => Ok(()),
        }
    }

    /// Owner of this token. Its hash tells nothing by the time that a comparison takes: nobody can choose it.
    pub(super) fn of_token(&self, token: &str) -> Option<&Who> {
        let octets = decoded(token).map(Zeroizing::new)?;
        self.of(&Sha256::digest(*octets).into())
    }

    /// Owner of the certificate with this hash.
    pub(super) fn of(&self, hash: &Hash) -> Option<&Who> {
        self.0.iter().find(|(known, _)| known == hash).map(|(_, who)| who)
    }
}

/// A line of the file; nothing if it is empty.
fn parse(line: &str) -> Result<Option<(Hash, Who)>, String> {
    let text = line.split('#').next().unwrap_or_default();
    let fields: Vec<_> = text.split_whitespace().collect();
    let [name, role, hash] = fields[..] else {
        let again = "a line is: NAME ROLE SHA-256; make it by: frameward fleet token NAME --to FILE";
        return if fields.is_empty() { Ok(None) } else { Err(again.to_owned()) };
    };
    if !config::is_name(name) {
        return Err(format!(
            "{name:?} is no name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first"
        ));
    }
    let role = role.parse()?;
    // As openssl x509 -fingerprint prints it, too.
    let hash = decoded(&hash.replace(':', ""))
        .ok_or("the third word is no SHA-256; make the line by: frameward fleet token NAME --to FILE")?;
    Ok(Some((hash, Who { name: Some(name.to_owned()), role })))
}

/// Makes a token, and adds its line to a file, which is made with mode 0600 if it is not there.
///
/// # Errors
/// One line: cause and cure.
pub fn add(path: &Path, name: &str, role: Role) -> Result<Zeroizing<String>, String> {
    let mut octets = Zeroizing::new([0; TOKEN_OCTETS]);
    getrandom::fill(&mut *octets).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    add_line(path, name, role, &Sha256::digest(*octets).into())?;
    Ok(Zeroizing::new(hex::encode(*octets)))
}

/// Adds a line for a client certificate (PEM) to a file, in the same way.
///
/// # Errors
/// One line: cause and cure.
pub fn add_certificate(path: &Path, name: &str, role: Role, certificate: &Path) -> Result<(), String> {
    let der = CertificateDer::from_pem_file(certificate);
    let der =
        der.map_err(|error| format!("{}: {error}; name a client certificate in PEM", certificate.display()))?;
    add_line(path, name, role, &Sha256::digest(&der).into())
}

fn add_line(path: &Path, name: &str, role: Role, hash: &Hash) -> Result<(), String> {
    let failed = |error: &dyn fmt::Display| {
        format!("{}: {error}; name a file that this user can write", path.display())
    };
    let opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
    let mut file = opened.map_err(|error| failed(&error))?;
    config::key_file::check_file(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| failed(&error))?;
    let who = Who { name: Some(name.to_owned()), role };
    let known = Tokens::parsed(path, &text)?;
    known.has_room_for(hash, &who).map_err(|why| format!("{}: {why}", path.display()))?;
    // An editor may have left the last line without its end.
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let line = format!("{end}{name} {role} {}\n", hex::encode(hash));
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| failed(&error))
}

fn decoded(digits: &str) -> Option<[u8; TOKEN_OCTETS]> {
    hex::decode(digits).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests;
