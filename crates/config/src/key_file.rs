//! Files with one static key, 32 or 64 hexadecimal digits, or with a site's identity, 128: the private key and behind it
//! the public one; files with a fieldbus' master key, 64 (`cell.rs`); and files with a CAK and its name (`cak.rs`). Mode 0600.
//!
//! ```text
//! # comments run from the number sign to the end of the line
//! 000102030405060708090a0b0c0d0e0f
//! ```
//!
//! The digits may be split by white space. An identity has both keys, since any 32 octets would do for a private one: a
//! public key that is taken for it, or a static key, is refused instead of becoming an identity that others have, too.
//! Others must not be able to read or write the file (`secrecy.rs`). It may be a credential of systemd (`credential.rs`).
//! The memory of the key is allocated once, whole, and wiped, and so is the stack ([`suite::scrubbed`]). The key is never
//! printed.

mod cak;
mod cell;
mod credential;
mod error;
mod octets;
mod secrecy;
mod text;

use std::path::Path;

use suite::identity::{Identity, PublicKey};
use suite::{CipherSuite, Sak, scrubbed};

pub use cak::{NamedCak, read_cak};
pub use cell::{CellKey, read_master_key};
pub use credential::named_file;
pub use error::KeyFileError;
use error::Reason;
pub use octets::{fingerprint, is_zeros, zeros};
pub use secrecy::check_file;
pub(crate) use secrecy::{GATEWAY_USER, cure_of_denied, read_as};
use text::{MOST_OCTETS, parse, read_text};

/// Reads the key in the file `path` for `suite`.
///
/// # Errors
///
/// [`KeyFileError`] if the file cannot be read, is not kept secret, or holds no key of the suite's length.
pub fn read(path: &Path, suite: CipherSuite) -> Result<Sak, KeyFileError> {
    scrubbed(|| read_checked(path, suite)).map_err(|reason| KeyFileError { path: path.to_owned(), reason })
}

/// Reads the identity of a site in the file `path`.
///
/// # Errors
///
/// [`KeyFileError`] if the file cannot be read, is not kept secret, or holds no pair of keys.
pub fn read_identity(path: &Path) -> Result<Identity, KeyFileError> {
    scrubbed(|| read_checked_identity(path)).map_err(|reason| {
        let reason = match reason {
            Reason::Missing(error) => Reason::NoIdentity(error),
            other => other,
        };
        KeyFileError { path: path.to_owned(), reason }
    })
}

fn read_checked_identity(path: &Path) -> Result<Identity, Reason> {
    let octets = parse(&read_text(path)?).ok_or(Reason::NotIdentity)?;
    let pair = octets.octets().split_first_chunk();
    let (private, public) = pair.ok_or(Reason::NotIdentity)?;
    let public = PublicKey(public.try_into().map_err(|_| Reason::NotIdentity)?);
    Identity::from_pair(private, public).map_err(|_| Reason::KeyPairMismatch)
}

fn read_checked(path: &Path, suite: CipherSuite) -> Result<Sak, Reason> {
    let text = read_text(path)?;
    let Some(octets) = parse(&text) else {
        return Err(if cak::is_like_one(&text) { Reason::IsCak } else { Reason::Malformed });
    };
    // An identity is no key of a link, also where one is as long.
    if octets.length() == MOST_OCTETS {
        return Err(Reason::Malformed);
    }
    Sak::of(suite, octets).map_err(|wrong| Reason::Length {
        given: 8 * wrong.given,
        suite,
        needed: 8 * wrong.expected,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use testkit::TestDirectory;

    const KEY_128: &str = "000102030405060708090A0b0c0d0e0f";

    fn refusal(directory: &TestDirectory, mode: u32, text: &str, suite: CipherSuite) -> String {
        let path = directory.path().join("press.key");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        match read(&path, suite) {
            Ok(_) => "fine".into(),
            Err(error) => error.to_string().replace(&format!("{}/", directory.path().display()), ""),
        }
    }

    #[test]
    fn key_files_are_read_or_refused() {
        let directory = TestDirectory::new("key-file");
        let gcm_128 = CipherSuite::GcmAes128;
        let spread = format!("# press\n{}\n {} # half\n\n", &KEY_128[..16], &KEY_128[16..]);
        let malformed = "press.key is not a key file; a key file holds 32 or 64 hexadecimal digits and # comments, as keygen makes it";
        let open = |mode| format!("press.key can be read by others (mode {mode}); chmod 600 press.key");
        let short = "press.key holds 128 bits where gcm-aes-256 needs 256; make one with: frameward keygen static --bits 256 --out FILE";
        let long = "press.key holds 256 bits where gcm-aes-128 needs 128; make one with: frameward keygen static --bits 128 --out FILE";
        for (mode, text, suite, expected) in [
            (0o600, KEY_128, gcm_128, "fine".to_owned()),
            (0o400, KEY_128, gcm_128, "fine".to_owned()),
            (0o600, &spread, gcm_128, "fine".to_owned()),
            (0o600, &KEY_128.repeat(2), CipherSuite::ChaCha20Poly1305, "fine".to_owned()),
            (0o644, KEY_128, gcm_128, open("0644")),
            (0o640, KEY_128, gcm_128, open("0640")),
            (0o601, KEY_128, gcm_128, open("0601")),
            (0o600, KEY_128, CipherSuite::GcmAes256, short.to_owned()),
            (0o600, &KEY_128.repeat(2), gcm_128, long.to_owned()),
            (0o600, "", gcm_128, malformed.to_owned()),
            (0o600, &KEY_128[1..], gcm_128, malformed.to_owned()),
            (0o600, &KEY_128.replace('0', "g"), gcm_128, malformed.to_owned()),
            (0o600, &KEY_128.repeat(3), gcm_128, malformed.to_owned()),
            // As long as an identity.
            (0o600, &KEY_128.repeat(4), gcm_128, malformed.to_owned()),
            (
                0o600,
                &" ".repeat(5000),
                gcm_128,
                "press.key is larger than 4096 octets; name a key file".to_owned(),
            ),
        ] {
            assert_eq!(refusal(&directory, mode, text, suite), expected, "{mode:o} {text:?}");
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let directory = TestDirectory::new("key-octets");
        let path = directory.path().join("press.key");
        fs::write(&path, KEY_128).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let key = read(&path, CipherSuite::GcmAes128).unwrap();
        assert_eq!(key.octets(), core::array::from_fn::<u8, 16, _>(|i| i as u8));
        assert_eq!(fingerprint(key.octets()).len(), 16);
        assert_ne!(fingerprint(key.octets()), fingerprint(&[0; 16]));
    }

    #[test]
    fn an_identity_is_a_pair_and_nothing_else() {
        let directory = TestDirectory::new("key-identity");
        let path = directory.path().join("dresden.key");
        let read_as = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_identity(&path)
                .map(|identity| identity.public())
                .map_err(|error| error.to_string().replace(&format!("{}/", directory.path().display()), ""))
        };
        let identity = Identity::new(&[9; 32]);
        let (private, public) = (hex::encode(identity.private()), identity.public().to_string());
        let both = format!("# dresden\n{private} # keep it\n{public}\n");
        assert_eq!(read_as(&both, 0o600), Ok(identity.public()));
        let no = "dresden.key is not a site's identity; an identity holds 128 hexadecimal digits and # comments; make one with: frameward keygen site --out FILE";
        let torn = "dresden.key is damaged: its two keys are not a pair; make another identity with: frameward keygen site --out FILE";
        for (text, mode, expected) in [
            // A static key; a public key alone, which would make an identity that everybody has.
            (KEY_128.to_owned(), 0o600, no),
            (public.clone(), 0o600, no),
            (String::new(), 0o600, no),
            (format!("{public}{private}"), 0o600, torn),
            (both.replacen("09", "08", 1), 0o600, torn),
            (both.clone(), 0o640, "dresden.key can be read by others (mode 0640); chmod 600 dresden.key"),
        ] {
            assert_eq!(read_as(&text, mode), Err(expected.to_owned()), "{text}");
        }
        let missing = read_identity(&directory.path().join("none")).unwrap_err();
        assert!(missing.to_string().ends_with("make one with: frameward keygen site --out FILE"));
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let directory = TestDirectory::new("key-irregular");
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), directory.path()] {
            let error = read(path, CipherSuite::GcmAes128).unwrap_err();
            assert_eq!(error.to_string(), format!("{} is no regular file; name one", path.display()));
        }
        let missing = read(&directory.path().join("none"), CipherSuite::GcmAes128).unwrap_err();
        assert!(missing.to_string().ends_with("make one with: frameward keygen static --out FILE"));
    }
}
