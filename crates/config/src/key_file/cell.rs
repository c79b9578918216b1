//! Files with the master key of a fieldbus: 64 hexadecimal digits, as a static key of 256 bits.

use std::fmt;
use std::path::Path;

use suite::fieldbus::{MASTER_KEY_OCTETS, MasterKey};
use suite::{SecretArray, scrubbed};
use wire::Ckn;

use super::cak::{self, NamedCak};
use super::error::{KeyFileError, Reason};
use super::octets::{fingerprint, is_zeros};
use super::text::{parse, read_text};

/// Key that the keys of a cell's relations are derived from. Wiped when dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct CellKey(SecretArray<MASTER_KEY_OCTETS>);

impl CellKey {
    /// The key. The caller wipes what `octets` was borrowed from.
    pub fn new(octets: &[u8; MASTER_KEY_OCTETS]) -> Self {
        Self(SecretArray::new(octets))
    }

    /// To derive from.
    pub fn master_key(&self) -> MasterKey {
        MasterKey::new(self.0.octets())
    }

    /// The key as that of a group: two doctors know each other by it, as by a CAK.
    pub fn as_cak(&self) -> NamedCak {
        let name = Ckn::new(b"fieldbus").expect("invariant: 8 octets are a name");
        NamedCak::new(name, self.0.octets()).expect("invariant: 32 octets are a CAK")
    }

    /// Whether it is nothing but zeros.
    pub fn is_zeros(&self) -> bool {
        is_zeros(self.0.octets())
    }

    /// Fingerprint that tells the key from others, and nothing about it.
    pub fn fingerprint(&self) -> String {
        fingerprint(self.0.octets())
    }
}

impl fmt::Debug for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CellKey")
    }
}

/// Reads the master key in the file `path`.
///
/// # Errors
///
/// [`KeyFileError`] if the file cannot be read, is not kept secret, or holds something else.
pub fn read_master_key(path: &Path) -> Result<CellKey, KeyFileError> {
    let key = scrubbed(|| {
        let text = read_text(path)?;
        match parse(&text) {
            Some(secret) => secret.octets().try_into().map(CellKey::new).map_err(|_| Reason::NotMasterKey),
            None if cak::is_like_one(&text) => Err(Reason::IsCakNotMasterKey),
            None => Err(Reason::NotMasterKey),
        }
    });
    key.map_err(|reason| {
        let reason = match reason {
            Reason::Missing(error) => Reason::NoMasterKey(error),
            other => other,
        };
        KeyFileError { path: path.to_owned(), reason }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use testkit::TestDirectory;

    const KEY: &str = "000102030405060708090A0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn a_master_key_is_read_or_refused() {
        let directory = TestDirectory::new("master-key");
        let path = directory.path().join("cell-4.key");
        let no = "cell-4.key is not a master key file; a master key file holds 64 hexadecimal digits and # comments; make one with: frameward keygen fieldbus --out FILE";
        let cak = "cell-4.key holds a CAK, for cak_file in [link.mka]; make a master key with: frameward keygen fieldbus --out FILE";
        let own = CellKey::new(&std::array::from_fn(|at| at as u8)).fingerprint();
        for (mode, text, expected) in [
            (0o600, format!("# cell 4\n{} {}\n", &KEY[..20], &KEY[20..]), own.as_str()),
            (0o600, KEY[..32].to_owned(), no),
            (0o600, KEY.repeat(2), no),
            (0o600, KEY.replace('0', "g"), no),
            (0o600, String::new(), no),
            (0o600, format!("ckn = 00\ncak = {}", &KEY[..32]), cak),
            (0o640, KEY.to_owned(), "cell-4.key can be read by others (mode 0640); chmod 600 cell-4.key"),
        ] {
            fs::write(&path, &text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = match read_master_key(&path) {
                Ok(key) => key.fingerprint(),
                Err(error) => error.to_string().replace(&format!("{}/", directory.path().display()), ""),
            };
            assert_eq!(read, expected, "{text}");
        }
        let missing = read_master_key(&directory.path().join("none")).unwrap_err();
        assert!(missing.to_string().ends_with("make one with: frameward keygen fieldbus --out FILE"));
    }

    #[test]
    fn keys_are_compared_and_not_shown() {
        let key = |octet| CellKey::new(&[octet; 32]);
        assert_eq!(key(1), key(1));
        assert_ne!(key(1), key(2));
        assert_eq!(format!("{:?}", key(1)), "CellKey");
        assert_ne!(key(1).fingerprint(), key(2).fingerprint());
        // HELLOs name keys as `keygen` does.
        assert_eq!(key(1).fingerprint(), key(1).master_key().id().to_string());
    }
}
