//! Makes keys.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use suite::identity::{IDENTITY_KEY_OCTETS, Identity, PublicKey};
use wire::Ckn;
use zeroize::Zeroizing;

use crate::key_file::fingerprint;

/// Octets of a CKN that is drawn: too many for two to be drawn alike.
const CKN_OCTETS: usize = 16;

/// Length of a static key or a CAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyLength {
    /// 16 octets.
    Bits128,
    /// 32 octets.
    Bits256,
}

impl KeyLength {
    fn of(self, buffer: &mut [u8; 32]) -> &mut [u8] {
        match self {
            Self::Bits128 => &mut buffer[..16],
            Self::Bits256 => buffer,
        }
    }
}

/// Why no key was made.
#[derive(Debug, thiserror::Error)]
pub enum KeygenError {
    /// There is a file already; keys are never overwritten.
    #[error("{} already exists; name another file, or remove it if no gateway needs its key", .0.display())]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {}: {source}; name a file in a directory that exists", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The operating system gave no randomness.
    #[error("the operating system gives no random numbers: {0}; try again")]
    Random(getrandom::Error),
}

/// Draws a static key from the operating system, writes it to the new file `path` with mode 0600, synced, and
/// returns its fingerprint.
///
/// # Errors
///
/// [`KeygenError`]; then there is no new file, or one without a whole key that was removed again.
pub fn static_key(length: KeyLength, path: &Path) -> Result<String, KeygenError> {
    let mut buffer = Zeroizing::new([0_u8; 32]);
    let key = length.of(&mut buffer);
    getrandom::fill(key).map_err(KeygenError::Random)?;
    write_new(path, &[("", key)])?;
    Ok(fingerprint(key))
}

/// Draws a site's identity from the operating system, writes it to the new file `path` with mode 0600, synced, and
/// returns its public key, for its peers.
///
/// # Errors
///
/// As [`static_key`].
pub fn site(path: &Path) -> Result<PublicKey, KeygenError> {
    let mut private = Zeroizing::new([0_u8; IDENTITY_KEY_OCTETS]);
    getrandom::fill(&mut *private).map_err(KeygenError::Random)?;
    let identity = Identity::new(&private);
    write_new(path, &[("", identity.private()), ("", &identity.public().0)])?;
    Ok(identity.public())
}

/// Draws a fieldbus' master key from the operating system, writes it to the new file `path` with mode 0600, synced, and
/// returns its fingerprint.
///
/// # Errors
///
/// As [`static_key`].
pub fn fieldbus(path: &Path) -> Result<String, KeygenError> {
    static_key(KeyLength::Bits256, path)
}

/// The parts of a new CAK that are no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewCak {
    /// Its name.
    pub ckn: Ckn,
    /// Its fingerprint.
    pub fingerprint: String,
}

/// Draws a CAK from the operating system, and its name unless one is given; writes both to the new file `path` with mode
/// 0600, synced.
///
/// # Errors
///
/// As [`static_key`].
pub fn cak(length: KeyLength, ckn: Option<Ckn>, path: &Path) -> Result<NewCak, KeygenError> {
    let ckn = ckn.map_or_else(draw_ckn, Ok)?;
    let (buffer, octets) = draw(length)?;
    let key = &buffer[..octets];
    write_new(path, &[("ckn = ", ckn.octets()), ("cak = ", key)])?;
    Ok(NewCak { ckn, fingerprint: fingerprint(key) })
}

/// A name for a CAK, drawn from the operating system.
///
/// # Errors
///
/// [`KeygenError::Random`].
pub fn draw_ckn() -> Result<Ckn, KeygenError> {
    let mut name = [0; CKN_OCTETS];
    getrandom::fill(&mut name).map_err(KeygenError::Random)?;
    Ok(Ckn::new(&name).expect("invariant: 1 to 32 octets are a name"))
}

/// A key drawn from the operating system: the first octets of a buffer, and how many.
///
/// # Errors
///
/// [`KeygenError::Random`].
pub fn draw(length: KeyLength) -> Result<(Zeroizing<[u8; 32]>, usize), KeygenError> {
    let mut buffer = Zeroizing::new([0_u8; 32]);
    let key = length.of(&mut buffer);
    getrandom::fill(key).map_err(KeygenError::Random)?;
    let octets = key.len();
    Ok((buffer, octets))
}

/// Writes octets as lines of hexadecimal digits, each behind its label, into a file that was not there: mode 0600, synced.
///
/// # Errors
///
/// As [`static_key`].
pub fn write_new(path: &Path, lines: &[(&str, &[u8])]) -> Result<(), KeygenError> {
    write_new_text(path, &text(lines))
}

/// Octets as lines of hexadecimal digits, each behind its label: the text of a key file.
pub fn text(lines: &[(&str, &[u8])]) -> Zeroizing<Vec<u8>> {
    // Allocated whole at first, so that growing leaves no copy behind.
    let length = |(label, octets): &(&str, &[u8])| label.len() + 2 * octets.len() + 1;
    let mut text = Zeroizing::new(vec![0_u8; lines.iter().map(length).sum()]);
    let mut rest = text.as_mut_slice();
    for (label, octets) in lines {
        let (line, behind) = rest.split_at_mut(length(&(label, octets)));
        let (start, digits) = line.split_at_mut(label.len());
        let (end, digits) =
            digits.split_last_mut().expect("invariant: room for two digits an octet and a line's end");
        start.copy_from_slice(label.as_bytes());
        hex::encode_to_slice(octets, digits).expect("invariant: two digits an octet");
        *end = b'\n';
        rest = behind;
    }
    text
}

/// Writes a file that was not there: mode 0600, synced.
///
/// # Errors
///
/// As [`static_key`].
pub fn write_new_text(path: &Path, text: &[u8]) -> Result<(), KeygenError> {
    let write_error = |source| KeygenError::Write { path: path.to_owned(), source };
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(KeygenError::Exists(path.to_owned()));
        }
        Err(error) => return Err(write_error(error)),
    };
    file.write_all(text).and_then(|()| file.sync_all()).map_err(|error| {
        // A partial file would be refused as no key file; a failure to remove it changes nothing.
        let _ = std::fs::remove_file(path);
        write_error(error)
    })
}

/// Draws the salt of an XPN suite's key: 24 hexadecimal digits. It is no secret.
///
/// # Errors
///
/// [`KeygenError::Random`].
pub fn salt() -> Result<String, KeygenError> {
    let mut salt = [0; 12];
    getrandom::fill(&mut salt).map_err(KeygenError::Random)?;
    Ok(hex::encode(salt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_file;
    use suite::CipherSuite;
    use testkit::TestDirectory;

    #[test]
    fn new_keys_read_back_and_are_never_overwritten() {
        let directory = TestDirectory::new("keygen");
        for (length, suite) in
            [(KeyLength::Bits128, CipherSuite::GcmAes128), (KeyLength::Bits256, CipherSuite::GcmAes256)]
        {
            let path = directory.path().join(suite.name());
            let public = static_key(length, &path).unwrap();
            let key = key_file::read(&path, suite).unwrap();
            assert_eq!(fingerprint(key.octets()), public);
            assert!(matches!(static_key(length, &path), Err(KeygenError::Exists(_))));
            assert_eq!(key_file::read(&path, suite).unwrap(), key);
        }
        let path = directory.path().join("dresden.key");
        let public = site(&path).unwrap();
        assert_eq!(key_file::read_identity(&path).unwrap().public(), public);
        assert!(matches!(site(&path), Err(KeygenError::Exists(_))));
        assert_ne!(site(&directory.path().join("berlin.key")).unwrap(), public);
        for (length, octets) in [(KeyLength::Bits128, 16), (KeyLength::Bits256, 32)] {
            let path = directory.path().join(format!("{octets}.cak"));
            let made = cak(length, None, &path).unwrap();
            let read = key_file::read_cak(&path).unwrap();
            assert_eq!((made.ckn, made.fingerprint), (read.ckn(), read.fingerprint()));
            assert_eq!((read.octets().len(), read.ckn().octets().len()), (octets, CKN_OCTETS));
            assert!(matches!(cak(length, None, &path), Err(KeygenError::Exists(_))));
            let named = cak(length, Ckn::new(b"line"), &directory.path().join(format!("line-{octets}.cak")));
            assert_eq!(named.unwrap().ckn.octets(), b"line");
        }
        let path = directory.path().join("cell-4.key");
        let made = fieldbus(&path).unwrap();
        assert_eq!(key_file::read_master_key(&path).unwrap().fingerprint(), made);
        assert!(matches!(fieldbus(&path), Err(KeygenError::Exists(_))));
        let nowhere = directory.path().join("none/press.key");
        assert!(matches!(static_key(KeyLength::Bits128, &nowhere), Err(KeygenError::Write { .. })));
        assert_eq!(salt().unwrap().len(), 24);
        assert_ne!(salt().unwrap(), salt().unwrap());
    }
}
