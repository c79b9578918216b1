//! Files with a CAK and its name:
//!
//! ```text
//! # comments run from the number sign to the end of the line
//! ckn = 5072657373206c696e65                    2 to 64 hexadecimal digits: the name, no secret
//! cak = 000102030405060708090a0b0c0d0e0f        32 or 64 hexadecimal digits
//! ```
//!
//! Name and key stand in one file, since a CAK under another name is another one: both ends need both.

use std::fmt;
use std::path::Path;

use suite::{Secret, scrubbed};
use wire::Ckn;

use super::error::{KeyFileError, Reason};
use super::octets::fingerprint;
use super::text::{MOST_OCTETS, contents, parse, read_text};

/// A CAK and its name. Wiped when dropped, and never shown.
#[derive(Clone)]
pub struct NamedCak {
    ckn: Ckn,
    key: Secret,
}

impl NamedCak {
    /// A CAK of 16 or 32 octets. The caller wipes what `octets` was borrowed from.
    pub fn new(ckn: Ckn, octets: &[u8]) -> Option<Self> {
        matches!(octets.len(), 16 | 32).then(|| Self { ckn, key: Secret::new(octets) })
    }

    /// Its name.
    pub const fn ckn(&self) -> Ckn {
        self.ckn
    }

    /// The secret octets: to derive from, never to print.
    pub fn octets(&self) -> &[u8] {
        self.key.octets()
    }

    /// Fingerprint that tells the key from others, and nothing about it.
    pub fn fingerprint(&self) -> String {
        fingerprint(self.octets())
    }

    /// Whether the keys are the same, whatever their names. How long it takes tells nothing.
    pub fn has_same_key(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl PartialEq for NamedCak {
    fn eq(&self, other: &Self) -> bool {
        self.ckn == other.ckn && self.has_same_key(other)
    }
}

impl Eq for NamedCak {}

impl fmt::Debug for NamedCak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedCak({}, {} octets)", self.ckn, self.key.length())
    }
}

/// Reads the CAK and its name in the file `path`.
///
/// # Errors
///
/// [`KeyFileError`] if the file cannot be read, is not kept secret, or holds something else.
pub fn read_cak(path: &Path) -> Result<NamedCak, KeyFileError> {
    let cak = scrubbed(|| parse_cak(&read_text(path)?));
    cak.map_err(|reason| {
        let reason = match reason {
            Reason::Missing(error) => Reason::NoCak(error),
            other => other,
        };
        KeyFileError { path: path.to_owned(), reason }
    })
}

/// Whether a text that is no key is a CAK's, at least by intent.
pub(super) fn is_like_one(text: &[u8]) -> bool {
    contents(text).any(|line| assigned(line).is_some_and(|(name, _)| matches!(name, b"ckn" | b"cak")))
}

fn parse_cak(text: &[u8]) -> Result<NamedCak, Reason> {
    let (mut ckn, mut cak) = (None, None);
    for line in contents(text).filter(|line| !line.trim_ascii().is_empty()) {
        let slot = match assigned(line) {
            Some((b"ckn", value)) => (&mut ckn, value),
            Some((b"cak", value)) => (&mut cak, value),
            _ => {
                return Err(match parse(text) {
                    Some(secret) if secret.length() == MOST_OCTETS => Reason::IsIdentity,
                    Some(_) => Reason::IsStaticKey,
                    None => Reason::NotCak,
                });
            }
        };
        let (slot, value) = slot;
        if slot.replace(value).is_some() {
            return Err(Reason::NotCak);
        }
    }
    let (Some(ckn), Some(cak)) = (ckn, cak) else { return Err(Reason::NotCak) };
    let name = decoded(ckn).and_then(|name| Ckn::new(name.octets())).ok_or(Reason::Ckn)?;
    let key = decoded(cak).filter(|key| matches!(key.length(), 16 | 32)).ok_or(Reason::Cak)?;
    Ok(NamedCak { ckn: name, key })
}

/// Name and value of `name = value`.
fn assigned(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|&c| c == b'=')?;
    let (name, value) = line.split_at(at);
    Some((name.trim_ascii(), value.get(1..)?.trim_ascii()))
}

/// Hexadecimal digits as octets.
fn decoded(digits: &[u8]) -> Option<Secret> {
    let mut octets = Secret::zeros(digits.len() / 2);
    hex::decode_to_slice(digits, octets.octets_mut()).ok()?;
    Some(octets)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::key_file;
    use suite::CipherSuite;
    use testkit::TestDirectory;

    const CAK: &str = "000102030405060708090A0b0c0d0e0f";

    fn file(directory: &TestDirectory, mode: u32, text: &str) -> std::path::PathBuf {
        let path = directory.path().join("line.cak");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let directory = TestDirectory::new("cak-file");
        for text in [
            format!("ckn = 6c696e65\ncak = {CAK}\n"),
            format!("# line\n\ncak={CAK}# the key\n  ckn\t=\t6C696E65 \r\n"),
        ] {
            let cak = read_cak(&file(&directory, 0o600, &text)).unwrap();
            assert_eq!(cak.ckn().octets(), b"line");
            assert_eq!(cak.octets(), core::array::from_fn::<u8, 16, _>(|i| i as u8));
            assert_eq!(cak.fingerprint(), fingerprint(cak.octets()));
            assert_eq!(format!("{cak:?}"), "NamedCak(6c696e65, 16 octets)");
        }
        let longest = format!("ckn = {}\ncak = {}\n", "ab".repeat(32), CAK.repeat(2));
        let cak = read_cak(&file(&directory, 0o600, &longest)).unwrap();
        assert_eq!((cak.ckn().octets().len(), cak.octets().len()), (32, 32));
    }

    #[test]
    fn what_is_no_cak_is_said_by_name() {
        let directory = TestDirectory::new("cak-refused");
        let no = "is not a CAK file; a CAK file holds a line ckn = HEX, a line cak = HEX and # comments; make one with: frameward keygen cak --out FILE";
        let ckn = "has a ckn that is not 2 to 64 hexadecimal digits, two for each octet; correct it";
        let cak = "has a cak that is neither 32 nor 64 hexadecimal digits; correct it";
        let static_key = "holds a static key, which has no name, for key_file in [link.static]; make a CAK with: frameward keygen cak --out FILE";
        let identity = "holds a site's identity, for identity in [[site]]; make a CAK with: frameward keygen cak --out FILE";
        for (mode, text, expected) in [
            (0o600, String::new(), no),
            (0o600, "ckn = 00".into(), no),
            (0o600, format!("cak = {CAK}"), no),
            (0o600, format!("ckn = 00\nckn = 01\ncak = {CAK}"), no),
            (0o600, format!("ckn = 00\ncak = {CAK}\npriority = 1"), no),
            (0o600, format!("ckn = 0\ncak = {CAK}"), ckn),
            (0o600, format!("ckn =\ncak = {CAK}"), ckn),
            (0o600, format!("ckn = {}\ncak = {CAK}", "00".repeat(33)), ckn),
            (0o600, format!("ckn = line\ncak = {CAK}"), ckn),
            (0o600, format!("ckn = 00\ncak = {}", &CAK[2..]), cak),
            (0o600, format!("ckn = 00\ncak = {}", CAK.repeat(3)), cak),
            (0o600, format!("ckn = 00\ncak = {}", CAK.replace('0', "g")), cak),
            (0o600, CAK.into(), static_key),
            (0o600, format!("# static\n{}\n", CAK.repeat(2)), static_key),
            (0o600, CAK.repeat(4), identity),
            (
                0o640,
                format!("ckn = 00\ncak = {CAK}"),
                "can be read by others (mode 0640); chmod 600 line.cak",
            ),
        ] {
            let error = read_cak(&file(&directory, mode, &text)).unwrap_err().to_string();
            let error = error.replace(&format!("{}/", directory.path().display()), "");
            assert_eq!(error, format!("line.cak {expected}"), "{text}");
            assert!(!error.contains(&CAK[..8]));
        }
        let missing = read_cak(&directory.path().join("none")).unwrap_err();
        assert!(missing.to_string().ends_with("make one with: frameward keygen cak --out FILE"));
    }

    #[test]
    fn a_cak_is_no_static_key() {
        let directory = TestDirectory::new("cak-as-key");
        let path = file(&directory, 0o600, &format!("ckn = 6c696e65\ncak = {CAK}\n"));
        let error = key_file::read(&path, CipherSuite::GcmAes128).unwrap_err().to_string();
        assert!(error.contains("holds a CAK, for cak_file in [link.mka]"), "{error}");
    }

    #[test]
    fn a_cak_is_its_name_and_its_key() {
        let cak = |name: &[u8], octet| NamedCak::new(Ckn::new(name).unwrap(), &[octet; 16]).unwrap();
        assert_eq!(cak(b"line", 1), cak(b"line", 1));
        assert_ne!(cak(b"line", 1), cak(b"line", 2));
        assert_ne!(cak(b"line", 1), cak(b"lane", 1));
        assert!(cak(b"line", 1).has_same_key(&cak(b"lane", 1)));
        assert!(NamedCak::new(Ckn::new(b"line").unwrap(), &[1; 24]).is_none());
    }
}
