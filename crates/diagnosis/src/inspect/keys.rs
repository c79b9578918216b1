//! The SAs that frames are verified with, the CAKs that more of them are agreed on under, and how their receiver behaves.

use std::path::Path;

use secy::{ClearVlan, ConfidentialityOffset, Protection};
use suite::CipherSuite;
use wire::{Ki, MacAddr, Sci, SecTag};

use config::key_file::{KeyFileError, NamedCak, read_cak};
use config::sa_file::{self, Begins, FileSa, Keys};
use config::{Finding, Keys as LinkKeys, Link, StaticSa, StaticSas};

/// Settings of every receiver from the command line; `None` where the file with keys decides.
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

/// Keys to verify frames with.
#[derive(Debug, Default)]
pub struct Keyring {
    /// SAs whose keys stand in files.
    pub sas: Vec<KeyedSa>,
    /// CAKs, under which a capture hands out SAKs.
    pub caks: Vec<KeyedCak>,
}

/// A CAK, and the settings of receivers of its SAKs.
#[derive(Debug)]
pub struct KeyedCak {
    /// Place of the CAK: `link "press"`, or a file's name.
    pub from: String,
    /// The CAK and its name.
    pub cak: NamedCak,
    /// Replay protection.
    pub replay: Replay,
    /// The rule for VLAN tags in front of a SecTAG.
    pub clear_vlan: ClearVlan,
    /// Whether MF and EXT are understood.
    pub reassemble: bool,
}

impl Replay {
    const fn of_link(link: &Link) -> Self {
        if link.replay_protect { Self::Window(link.replay_window) } else { Self::Off }
    }
}

/// An SA with its key, and its receiver's settings.
#[derive(Debug)]
pub struct KeyedSa {
    /// Place of the SA: `link "press", own SA`, or `line 7`, or `SAK` and its KI.
    pub from: String,
    /// The KI of a SAK that was handed out.
    pub ki: Option<Ki>,
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
    /// First PN in the capture.
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
            ki: None,
            suite,
            sa,
            offset,
            replay: Replay::of_link(link),
            clear_vlan: link.clear_vlan,
            reassemble: link.reassembles(),
            begins: Begins::Unknown,
        }
    }

    fn of_file(entry: FileSa) -> Self {
        let FileSa { line, suite, sa, offset, begins } = entry;
        Self {
            from: format!("line {line}"),
            ki: None,
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

impl KeyedCak {
    /// The CAK of a file of its own.
    ///
    /// # Errors
    /// Why the file is refused.
    pub fn of_file(file: &Path, overrides: Overrides) -> Result<Self, KeyFileError> {
        Ok(Self {
            from: file.display().to_string(),
            cak: read_cak(file)?,
            replay: overrides.replay.unwrap_or(Replay::Window(0)),
            clear_vlan: overrides.clear_vlan.unwrap_or(ClearVlan::Strip),
            reassemble: true,
        })
    }

    fn of_link(link: &Link, cak: &NamedCak) -> Self {
        Self {
            from: format!("link {:?}", link.name),
            cak: cak.clone(),
            replay: Replay::of_link(link),
            clear_vlan: link.clear_vlan,
            // With MKA the members agree on it.
            reassemble: true,
        }
    }
}

/// Reads all SAs and CAKs of a file with keys.
///
/// # Errors
/// All that is wrong, line by line.
pub fn load(file: &Path, overrides: Overrides) -> Result<Keyring, Vec<Finding>> {
    let all = keyed(sa_file::load(file)?, overrides);
    if all.sas.is_empty() && all.caks.is_empty() {
        let text = "holds no key to verify frames with: cells agree on keys by their own handshake; omit --keys, or name a file with [[sa]]";
        return Err(vec![Finding { file: file.to_owned(), line: None, text: text.to_owned() }]);
    }
    Ok(all)
}

/// All SAs and CAKs of a file with keys.
pub fn keyed(keys: Keys, overrides: Overrides) -> Keyring {
    let mut all = Keyring::default();
    match keys {
        Keys::Sas(entries) => all.sas.extend(entries.into_iter().map(KeyedSa::of_file)),
        Keys::Config(config) => {
            for link in &config.links {
                match &link.keys {
                    LinkKeys::Static(StaticSas { suite, transmit, receive }) => {
                        let keyed = |sa: &StaticSa, which| KeyedSa::of_link(link, *suite, sa.clone(), which);
                        all.sas.push(keyed(transmit, "own SA"));
                        all.sas.extend(receive.iter().map(|sa| keyed(sa, "peer SA")));
                        if let Some(StaticSas { transmit, receive, .. }) = link.express_sas() {
                            all.sas.push(keyed(&transmit, "own express SA"));
                            all.sas.extend(receive.iter().map(|sa| keyed(sa, "peer express SA")));
                        }
                    }
                    LinkKeys::Agreed(mka) => {
                        all.caks.extend(mka.caks().map(|cak| KeyedCak::of_link(link, cak)));
                    }
                    LinkKeys::None => {}
                }
            }
        }
    }
    let receivers = all.sas.iter_mut().map(|sa| (&mut sa.replay, &mut sa.clear_vlan));
    for (replay, clear_vlan) in
        receivers.chain(all.caks.iter_mut().map(|cak| (&mut cak.replay, &mut cak.clear_vlan)))
    {
        *replay = overrides.replay.unwrap_or(*replay);
        *clear_vlan = overrides.clear_vlan.unwrap_or(*clear_vlan);
    }
    all
}

#[cfg(test)]
mod tests {
    use suite::Sak;

    use super::*;

    fn keyring(lines: &str) -> Vec<KeyedSa> {
        let text = format!(
            "[gateway]\nname = \"g\"\n[[link]]\nname = \"press\"\nplain = \"eth0\"\nprotected = \"eth1\"\n\
             suite = \"chacha20-poly1305\"\n{lines}\n[link.static]\nan = 0\nsci = \"02:00:00:00:00:01/1\"\n\
             key_file = \"a.key\"\n[[link.static.peer]]\nan = 2\nsci = \"02:00:00:00:00:02/1\"\nkey_file = \"bb.key\"\n"
        );
        let key = |path: &Path, suite| Ok(Sak::new(suite, &[path.as_os_str().len() as u8; 32]).unwrap());
        let files = config::KeyFiles { key: &key, ..config::KeyFiles::ON_DISK };
        let config = config::parse(Path::new("gw.toml"), &text, files).unwrap().0;
        keyed(Keys::Config(Box::new(config)), Overrides::default()).sas
    }

    /// Frames of an express SC are under another SCI and another key.
    #[test]
    fn express_scs_with_static_keys_are_known() {
        let sas = keyring("fragment = \"on\"\nexpress = true");
        let [own, peer, express, of_peer] = &sas[..] else { panic!("{sas:?}") };
        for (keyed, of, from) in [
            (express, own, "link \"press\", own express SA"),
            (of_peer, peer, "link \"press\", peer express SA"),
        ] {
            assert_eq!((Some(keyed.sa.sci), keyed.sa.an), (of.sa.sci.express(), of.sa.an));
            assert_eq!(Some(&keyed.sa.key), of.sa.key.express(of.suite).as_ref());
            assert_eq!(keyed.from, from);
        }
        assert_eq!(keyring("fragment = \"on\"").len(), 2);
    }
}
