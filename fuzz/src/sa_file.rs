//! A file of SAs is accepted or refused with lines that exist, and never more than that.

use std::path::Path;

use config::KeyFiles;
use config::sa_file::{self, Keys};
use diagnosis::inspect::keys::{self, Overrides};
use suite::Sak;

use crate::config::identity;

/// Parses `octets` as a file with keys. Key files are not read.
///
/// # Panics
/// If the parser does, or reports nonsense.
pub fn run(octets: &[u8]) {
    let Ok(text) = str::from_utf8(octets) else { return };
    let read_key = |_: &Path, suite: suite::CipherSuite| {
        Ok(Sak::new(suite, &vec![7; suite.key_octets()]).expect("invariant: a key of the suite's length"))
    };
    let lines = text.split('\n').count();
    match sa_file::parse(
        Path::new("keys.toml"),
        text,
        KeyFiles {
            key: &read_key,
            cak: &crate::config::cak,
            identity: &identity,
            master_key: &crate::config::master_key,
        },
    ) {
        Ok(parsed) => {
            if let Keys::Sas(sas) = &parsed {
                assert!(sas.iter().all(|sa| (1..=lines).contains(&sa.line)));
            }
            for keyed in keys::keyed(parsed, Overrides::default()).sas {
                assert_eq!(keyed.sa.xpn.is_some(), keyed.suite.is_xpn());
                assert_eq!(keyed.sa.key.octets().len(), keyed.suite.key_octets());
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a word");
            for error in errors {
                assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
                assert!(!error.to_string().contains('\n'), "{error:?} is one line");
            }
        }
    }
}
