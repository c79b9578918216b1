//! A configuration text is accepted or refused with lines that exist, and never more than that.

use std::path::Path;

use config::KeyFiles;
use config::key_file::{CellKey, KeyFileError, NamedCak};
use suite::Sak;
use suite::identity::Identity;
use wire::Ckn;

/// Parses `octets` as a configuration. Key files are not read: each holds its name, over and over.
///
/// # Panics
/// If the parser does, or reports nonsense.
pub fn run(octets: &[u8]) {
    let Ok(text) = str::from_utf8(octets) else { return };
    let read_key = |path: &Path, suite: suite::CipherSuite| {
        let name = path.as_os_str().as_encoded_bytes().iter().copied().chain([0]);
        let key: Vec<u8> = name.cycle().take(suite.key_octets()).collect();
        Ok(Sak::new(suite, &key).expect("invariant: a key of the suite's length"))
    };
    let files = KeyFiles { key: &read_key, cak: &cak, identity: &identity, master_key: &master_key };
    let lines = text.split('\n').count();
    let findings = match config::parse(Path::new("gw.toml"), text, files) {
        Ok((config, warnings)) => {
            assert!(!config.links.is_empty() || !config.sites.is_empty());
            for site in &config.sites {
                assert!(config::is_name(&site.name));
                assert!((1..=255).contains(&site.peers.len()));
                assert!((1..=lines).contains(&site.line.0));
            }
            for link in &config.links {
                assert!(config::is_name(&link.name));
                assert_ne!(link.plain, link.protected);
                assert!((1..=lines).contains(&link.line.0));
                assert!(link.has_secy() || link.cell.is_some());
                if let Some(cell) = &link.cell {
                    assert!(config::is_name(&cell.name));
                    assert!((1..=config::fieldbus::MOST_RELATIONS).contains(&cell.relations.len()));
                    for relation in &cell.relations {
                        assert!((1..=lines).contains(&relation.line.0));
                        assert!(cell.alarm_time(relation) > relation.relation.cycle);
                        assert!(cell.alarm_time(relation) <= cell.watchdog_time(relation));
                    }
                }
            }
            warnings
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a word");
            errors
        }
    };
    for finding in findings {
        assert!(finding.line.is_none_or(|line| (1..=lines).contains(&line)), "{finding}");
        assert!(!finding.to_string().contains('\n'), "{finding:?} is one line");
    }
}

/// The CAK whose name and key are the file's name, over and over: no file is read.
pub(crate) fn cak(path: &Path) -> Result<NamedCak, KeyFileError> {
    let name = path.as_os_str().as_encoded_bytes().iter().copied().chain([0]);
    let octets: Vec<u8> = name.cycle().take(16).collect();
    let ckn = Ckn::new(&octets).expect("invariant: 1 to 32 octets");
    Ok(NamedCak::new(ckn, &octets).expect("invariant: 16 octets are a CAK"))
}

/// The master key that is the file's name, over and over: no file is read.
pub(crate) fn master_key(path: &Path) -> Result<CellKey, KeyFileError> {
    let name = path.as_os_str().as_encoded_bytes().iter().copied().chain([0]);
    let octets: Vec<u8> = name.cycle().take(32).collect();
    Ok(CellKey::new(octets.first_chunk().expect("invariant: 32 octets")))
}

/// The identity whose private key is the file's name, over and over: no file is read.
pub(crate) fn identity(path: &Path) -> Result<Identity, KeyFileError> {
    let name = path.as_os_str().as_encoded_bytes().iter().copied().chain([0]);
    let octets: Vec<u8> = name.cycle().take(32).collect();
    Ok(Identity::new(octets.first_chunk().expect("invariant: 32 octets")))
}
