//! The SAs that frames are verified with, and how their receiver behaves.

use std::path::Path;

use secy::{ClearVlan, ConfidentialityOffset, Protection};
use suite::CipherSuite;
use wire::{MacAddr, Sci, SecTag};

use config::sa_file::{self, Begins, FileSa, Keys};
use config::{Finding, Link, StaticSa, StaticSas};

/// What the command line says about every receiver; `None` where the file with keys decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides {
    /// The replay window.
    pub replay: Option<Replay>,
    /// The rule for VLAN tags in front of a SecTAG.
    pub clear_vlan: Option<ClearVlan>,
}

/// Whether late and duplicate frames are bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replay {
    /// They are not.
    Off,
    /// Those that a receiver with a window of so many PNs discards.
    Window(u32),
}

/// An SA with its key, and its receiver's settings.
#[derive(Debug)]
pub struct KeyedSa {
    /// Where it stands: `link "press", own SA`, or `line 7`.
    pub from: String,
    /// Its cipher suite.
    pub suite: CipherSuite,
    /// AN, SCI, key, SSCI and salt.
    pub sa: StaticSa,
    /// The confidentiality offset.
    pub offset: ConfidentialityOffset,
    /// Replay protection.
    pub replay: Replay,
    /// The rule for VLAN tags in front of a SecTAG.
    pub clear_vlan: ClearVlan,
    /// Whether MF and EXT are understood.
    pub reassemble: bool,
    /// Where its packet numbers begin.
    pub begins: Begins,
}

impl KeyedSa {
    /// Whether a frame from `source` with this SecTAG can be of this SA, as far as the tag tells.
    pub fn fits(&self, tag: &SecTag, source: MacAddr) -> bool {
        self.sa.an == tag.an && tag.sc.sci(source).is_none_or(|sci: Sci| sci == self.sa.sci)
    }

    fn of_link(link: &Link, suite: CipherSuite, sa: StaticSa, which: &str) -> Self {
        let offset = match link.protection {
            Protection::Encrypt(offset) => offset,
            Protection::Integrity => ConfidentialityOffset::Zero,
        };
        Self {
            from: format!("link {:?}, {which}", link.name),
            suite,
            sa,
            offset,
            replay: if link.replay_protect { Replay::Window(link.replay_window) } else { Replay::Off },
            clear_vlan: link.clear_vlan,
            reassemble: link.dividing.is_some(),
            begins: Begins::Unknown,
        }
    }

    fn of_file(entry: FileSa) -> Self {
        let FileSa { line, suite, sa, offset, begins } = entry;
        Self {
            from: format!("line {line}"),
            suite,
            sa,
            offset,
            replay: Replay::Window(0),
            clear_vlan: ClearVlan::Strip,
            reassemble: true,
            begins,
        }
    }
}

/// Reads all SAs of a file with keys.
///
/// # Errors
/// All that is wrong, line by line.
pub fn load(file: &Path, overrides: Overrides) -> Result<Vec<KeyedSa>, Vec<Finding>> {
    let all = keyed(sa_file::load(file)?, overrides);
    if all.is_empty() {
        let text = "holds no key that frames could be verified with: what its links agree on by MKA stands in no file; leave --keys out, or name a file with [[sa]]";
        return Err(vec![Finding { file: file.to_owned(), line: None, text: text.to_owned() }]);
    }
    Ok(all)
}

/// All SAs of a file with keys.
pub fn keyed(keys: Keys, overrides: Overrides) -> Vec<KeyedSa> {
    let mut all = Vec::new();
    match keys {
        Keys::Sas(entries) => all.extend(entries.into_iter().map(KeyedSa::of_file)),
        Keys::Config(config) => {
            for link in &config.links {
                // What was agreed on stands in no file.
                let Some(StaticSas { suite, transmit, receive }) = link.static_sas() else { continue };
                let keyed = |sa: &StaticSa, which| KeyedSa::of_link(link, *suite, sa.clone(), which);
                all.push(keyed(transmit, "own SA"));
                all.extend(receive.iter().map(|sa| keyed(sa, "peer SA")));
            }
        }
    }
    for sa in &mut all {
        sa.replay = overrides.replay.unwrap_or(sa.replay);
        sa.clear_vlan = overrides.clear_vlan.unwrap_or(sa.clear_vlan);
    }
    all
}
