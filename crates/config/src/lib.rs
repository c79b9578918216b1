//! The configuration: from TOML text to values that only mean something, and what they mean on this machine ([`check`]).
//!
//! ```text
//! text ── toml, serde ──▶ raw (every key, unjudged) ── gateway, link, static_keys, mka, site, fieldbus ──▶ Config, warnings
//!                                                              └──▶ errors, each `file:line: what; what to do`
//! ```
//!
//! All errors are reported at once. Sections of later releases are refused by name: nothing is ignored. What depends on
//! this machine's interfaces is not judged here but in [`crate::check`].

pub mod bypass;
pub mod check;
pub mod cpus;
pub mod fieldbus;
mod findings;
mod fragment;
mod gateway;
pub mod key_file;
mod keys;
pub mod lifetime;
mod link;
mod mistakes;
pub mod mka;
mod outline;
pub mod placement;
mod raw;
pub mod reference;
pub mod sa_file;
pub mod site;
mod static_keys;
pub mod suite_speed;

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dataplane::fragmenter::FragmentConfig;
use secy::{ClearVlan, Protection, SciInclusion, ValidateFrames};
use serde::{Deserialize, Serialize};
use suite::identity::Identity;
use suite::{CipherSuite, Sak, scrubbed};
use wire::ethernet::EtherType;
use zeroize::Zeroizing;

pub use self::fieldbus::{Cell, CellRelation};
use crate::cpus::Cpus;
use crate::key_file::{CellKey, KeyFileError, NamedCak};
pub use findings::Finding;
use findings::Findings;
pub use gateway::DEFAULT_STATE;
pub use keys::{Expected, Keys, Mka, StaticSa, StaticSas};
pub use outline::Outline;
pub use site::{Site, SitePeer};

/// The largest configuration file that is read, in octets.
const LARGEST_FILE: u64 = 1 << 20;
/// Room behind a file's end, where a reader finds it without growing.
const READ_AHEAD: u64 = 64;

/// A valid configuration.
#[derive(Debug)]
pub struct Config {
    /// The file it came from, as the user named it.
    pub file: PathBuf,
    /// What concerns the gateway as a whole.
    pub gateway: Gateway,
    /// The links, and behind them those of cells that drop the rest; no two share a name or an interface, and no two SAs a
    /// nonce.
    pub links: Vec<Link>,
    /// The sites; if there is no link, at least one. None has a name or an interface of another, or of a link.
    pub sites: Vec<Site>,
    /// Each key with its value.
    pub outline: Outline,
}

/// All interfaces of links and sites.
pub fn interfaces<'c>(links: &'c [Link], sites: &'c [Site]) -> impl Iterator<Item = &'c str> {
    let of_links = links.iter().flat_map(|link| [link.plain.as_str(), link.protected.as_str()]);
    of_links.chain(sites.iter().map(|site| site.lan.as_str()))
}

/// `[gateway]`
#[derive(Debug)]
pub struct Gateway {
    /// Names the control socket: see [`is_name`].
    pub name: String,
    /// The directory of packet-number leases and replay floors.
    pub state: PathBuf,
    /// The oldest heartbeat with which state is accepted; none: any.
    pub state_max_age: Option<Duration>,
    /// Which engine moves the frames.
    pub io: Io,
    /// How a worker waits.
    pub polling: Polling,
    /// Whether workers go before all ordinary threads.
    pub realtime: Realtime,
    /// CPUs that are kept for workers, one for each; none: they run anywhere.
    pub cpus: Option<Cpus>,
    /// Whether it runs where nothing keeps the host's own stack off its ports.
    pub unguarded: bool,
    /// Whether keystreams are made ahead.
    pub antedate: Antedate,
    /// Where metrics and status are served over HTTP; `None`: nowhere.
    pub http: Option<Http>,
    /// Form of the log's lines.
    pub log: LogFormat,
}

/// `log`: what a line of the log looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Words for people.
    Text,
    /// A JSON object.
    Json,
}

/// `http`: where metrics and status are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http {
    /// The address to listen on; its port is not 0.
    pub address: SocketAddr,
    /// The line of the configuration that says so, from 1.
    pub line: usize,
}

/// Which engine moves the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Io {
    /// AF_XDP where it works, else AF_PACKET.
    Auto,
    /// AF_XDP, and cells in the kernel, or nothing.
    Kernel,
    /// AF_XDP or nothing.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// How a worker waits for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polling {
    /// Spins for a short time after traffic, then sleeps.
    Adaptive,
    /// Spins.
    Busy,
    /// Sleeps.
    Interrupt,
}

/// Whether workers go before all ordinary threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Realtime {
    /// Where it is allowed and the rest of the box keeps a CPU.
    Auto,
    /// Yes, and memory locked; else there is no start.
    On,
    /// No.
    Off,
}

/// Whether keystreams are made before their frames are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Antedate {
    /// Where it pays on this CPU, as measured at the start.
    Auto,
    /// Yes.
    On,
    /// No.
    Off,
}

/// The MTU of a link's protected side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mtu {
    /// The interface's own.
    Interface,
    /// So many octets behind DA, SA and EtherType.
    Octets(u16),
}

/// What the loss of one side's carrier does to the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLoss {
    /// Nothing.
    Off,
    /// A protected side without carrier takes the plain side down: the machine sees at once that its cable is cut.
    Forward,
    /// That, and a plain side without carrier takes the protected side down.
    Both,
}

impl LinkLoss {
    /// As the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Forward => "forward",
            Self::Both => "both",
        }
    }
}

/// `[[link]]`: a transparent bump in the wire.
#[derive(Debug)]
pub struct Link {
    /// See [`is_name`].
    pub name: String,
    /// The line of the configuration on which the link begins, from 1.
    pub line: usize,
    /// The interface towards the machine.
    pub plain: String,
    /// The interface towards the insecure network.
    pub protected: String,
    /// False: SDUs leave in clear.
    pub protect_frames: bool,
    /// Encryption with its offset, or integrity alone.
    pub protection: Protection,
    /// Whether frames carry the SCI.
    pub sci_inclusion: SciInclusion,
    /// What becomes of received frames that cannot be verified.
    pub validate_frames: ValidateFrames,
    /// Whether late and duplicate frames are discarded.
    pub replay_protect: bool,
    /// PNs that a frame may be late, at most [`secy::pn::ReplayWindow::WIDEST`].
    pub replay_window: u32,
    /// The MTU of the protected side.
    pub mtu: Mtu,
    /// The rule for VLAN tags in front of a SecTAG.
    pub clear_vlan: ClearVlan,
    /// EtherTypes that pass in clear both ways. Never MACsec, EAPOL, MAC control or a VLAN tag.
    pub bypass: Vec<EtherType>,
    /// Whether SDUs may span frames and share them; `None` if frames stay as the standard has them. With [`Keys::Agreed`]
    /// they do so as long as not all peers have announced that they understand it.
    pub fragmentation: Option<FragmentConfig>,
    /// What the loss of one side's carrier does to the other side.
    pub link_loss: LinkLoss,
    /// Whether its interfaces may carry addresses or default routes of this box, which are cut off.
    pub allow_addresses: bool,
    /// Where its keys come from.
    pub keys: Keys,
    /// Whose cyclic frames go around the SecY; always there without keys.
    pub cell: Option<Box<Cell>>,
}

impl Link {
    /// Whether one of its sides is this interface.
    pub fn has_interface(&self, interface: &str) -> bool {
        [&self.plain, &self.protected].into_iter().any(|own| own == interface)
    }

    /// Whether anything reaches its SecY: not where a cell drops the rest.
    pub const fn has_secy(&self) -> bool {
        !matches!(self.keys, Keys::None)
    }

    /// Its SAs, if its keys are static.
    pub const fn static_sas(&self) -> Option<&StaticSas> {
        match &self.keys {
            Keys::Static(sas) => Some(sas),
            Keys::Agreed(_) | Keys::None => None,
        }
    }

    /// How its keys are agreed on, if they are.
    pub fn mka(&self) -> Option<&Mka> {
        match &self.keys {
            Keys::Static(_) | Keys::None => None,
            Keys::Agreed(mka) => Some(mka),
        }
    }

    /// The cipher suite by name; none if the key server chooses it.
    pub fn suite(&self) -> Option<CipherSuite> {
        match &self.keys {
            Keys::Static(sas) => Some(sas.suite),
            Keys::Agreed(mka) => match mka.suite {
                ::mka::SuiteRule::Standard(_) | ::mka::SuiteRule::Any => None,
                ::mka::SuiteRule::Only(suite) => Some(suite),
            },
            Keys::None => None,
        }
    }

    /// Whether both say the same, wherever in the file.
    pub fn is_like(&self, other: &Self) -> bool {
        self.is_like_but_for_keys(other) && self.keys.are_like(&other.keys) && self.has_cell_like(other)
    }

    /// Whether both have the same keys.
    pub fn has_keys_like(&self, other: &Self) -> bool {
        self.keys.are_like(&other.keys)
    }

    /// Whether both have the same cell, or none.
    pub fn has_cell_like(&self, other: &Self) -> bool {
        match (&self.cell, &other.cell) {
            (Some(cell), Some(other)) => cell.is_like(other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Whether both say the same of all but the keys and the cell.
    pub fn is_like_but_for_keys(&self, other: &Self) -> bool {
        let Self {
            name,
            line: _,
            plain,
            protected,
            protect_frames,
            protection,
            sci_inclusion,
            validate_frames,
            replay_protect,
            replay_window,
            mtu,
            clear_vlan,
            bypass,
            fragmentation,
            link_loss,
            allow_addresses,
            keys: _,
            cell: _,
        } = self;
        (name, plain, protected) == (&other.name, &other.plain, &other.protected)
            && (protection, sci_inclusion) == (&other.protection, &other.sci_inclusion)
            && (protect_frames, validate_frames) == (&other.protect_frames, &other.validate_frames)
            && (replay_protect, replay_window) == (&other.replay_protect, &other.replay_window)
            && (mtu, clear_vlan) == (&other.mtu, &other.clear_vlan)
            && (bypass, fragmentation, link_loss) == (&other.bypass, &other.fragmentation, &other.link_loss)
            && *allow_addresses == other.allow_addresses
    }
}

/// True for names of gateways, links, sites, fieldbuses and peers: 1 to 32 of `a-z 0-9 _ -`, the first a letter or a digit. They stand in
/// file names and metrics.
pub fn is_name(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

/// Reads and judges a configuration file and the key files that it names.
///
/// # Errors
///
/// All that is wrong, line by line.
pub fn load(file: &Path) -> Result<(Config, Vec<Finding>), Vec<Finding>> {
    scrubbed(|| parse(file, &read(file)?, KeyFiles::ON_DISK))
}

/// The text of a configuration file, or of one with keys: it is in memory once, and wiped when it is dropped.
fn read(file: &Path) -> Result<Zeroizing<String>, Vec<Finding>> {
    let whole = |text: String| vec![Finding { file: file.to_owned(), line: None, text }];
    let unreadable = |error| whole(format!("cannot be read: {error}; name a file that this user can read"));
    let source = std::fs::File::open(file).map_err(unreadable)?;
    // Allocated whole at first, so that growing leaves no copy behind: a file of a size, or one that tells none.
    let size = source.metadata().map_err(unreadable)?.len();
    let room = if size == 0 { LARGEST_FILE } else { size.min(LARGEST_FILE) } + READ_AHEAD;
    let mut octets = Zeroizing::new(Vec::with_capacity(room as usize));
    source.take(room).read_to_end(&mut octets).map_err(unreadable)?;
    if octets.len() as u64 > LARGEST_FILE {
        return Err(whole(format!("is larger than {LARGEST_FILE} octets; name a configuration file")));
    }
    if octets.len() as u64 >= room {
        return Err(whole("is being written; try again when that is done".into()));
    }
    // The same memory from here on; what is no text is wiped with the error that has it.
    match String::from_utf8(std::mem::take(&mut *octets)) {
        Ok(text) => Ok(Zeroizing::new(text)),
        Err(error) => {
            let (error, octets) = (error.utf8_error(), Zeroizing::new(error.into_bytes()));
            let (before, from) = octets.split_at(error.valid_up_to());
            let line = before.iter().filter(|octet| **octet == b'\n').count() + 1;
            let octet = from.first().copied().unwrap_or_default();
            let text = format!("octet {octet:#04x} is not UTF-8; save the file as UTF-8");
            Err(vec![Finding { file: file.to_owned(), line: Some(line), text }])
        }
    }
}

/// Reads a key file for a suite; [`key_file::read`], or a test's.
pub type ReadKey<'k> = &'k dyn Fn(&Path, CipherSuite) -> Result<Sak, KeyFileError>;

/// Reads the file of a site's identity; [`key_file::read_identity`], or a test's.
pub type ReadIdentity<'k> = &'k dyn Fn(&Path) -> Result<Identity, KeyFileError>;

/// Reads the file of a CAK; [`key_file::read_cak`], or a test's.
pub type ReadCak<'k> = &'k dyn Fn(&Path) -> Result<NamedCak, KeyFileError>;

/// Reads the file of a cell's master key; [`key_file::read_master_key`], or a test's.
pub type ReadMasterKey<'k> = &'k dyn Fn(&Path) -> Result<CellKey, KeyFileError>;

/// How the files that a configuration names are read.
#[derive(Clone, Copy)]
pub struct KeyFiles<'k> {
    /// Static keys.
    pub key: ReadKey<'k>,
    /// CAKs.
    pub cak: ReadCak<'k>,
    /// Identities of sites.
    pub identity: ReadIdentity<'k>,
    /// Master keys of cells.
    pub master_key: ReadMasterKey<'k>,
}

impl KeyFiles<'static> {
    /// As they are on disk.
    pub const ON_DISK: Self = Self {
        key: &key_file::read,
        cak: &key_file::read_cak,
        identity: &key_file::read_identity,
        master_key: &key_file::read_master_key,
    };
}

/// Judges the text of the configuration `file`. Key files are searched relative to it and read with `files`.
///
/// # Errors
///
/// All that is wrong, line by line.
pub fn parse(file: &Path, text: &str, files: KeyFiles) -> Result<(Config, Vec<Finding>), Vec<Finding>> {
    let raw: raw::RawConfig = toml::from_str(text).map_err(|error| findings::meant(file, text, &error))?;
    let mut findings = Findings::new(file, text);
    let judged = gateway::validate(raw.gateway.as_ref(), &mut findings);
    if raw.link.is_empty() && raw.site.is_empty() && raw.fieldbus.is_empty() {
        findings.error(0..0, "no [[link]], [[site]] or [[fieldbus]] is configured; add one");
    }
    let allow_experimental = judged.as_ref().is_some_and(|(_, allowed)| *allowed);
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut seen = link::Seen::default();
    let keys = static_keys::KeySource { directory, read: files.key };
    let caks = mka::CakSource { directory, read: files.cak };
    let mut links =
        link::validate_all(&raw.link, allow_experimental, (&keys, &caks), &mut seen, &mut findings);
    let identities = site::IdentitySource { directory, read: files.identity };
    let sites = site::validate_all(&raw.site, &identities, &mut seen, &mut findings);
    site::warn_of_misfits(&links, &sites, &mut findings);
    let master_keys = fieldbus::MasterKeySource { directory, read: files.master_key };
    fieldbus::validate_all(&raw.fieldbus, &raw.link, &mut links, &master_keys, &mut seen, &mut findings);
    findings.errors.sort_by_key(|error| error.line);
    findings.warnings.sort_by_key(|warning| warning.line);
    match judged {
        Some((gateway, _)) if findings.errors.is_empty() => {
            let outline = Outline::of(text, &links, &sites);
            Ok((Config { file: file.to_owned(), gateway, links, sites, outline }, findings.warnings))
        }
        _ => Err(findings.errors),
    }
}

#[cfg(test)]
mod tests;
