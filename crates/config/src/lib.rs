//! The configuration: from TOML text to values that only mean something, and what they mean on this machine ([`check`]).
//!
//! ```text
//! text ── toml, serde ──▶ Raw… (every key, unjudged) ── gateway, fleet, link, static_keys, mka, site, fieldbus ──▶ Config, warnings
//!                                                              └──▶ errors, each `file:line: what; what to do`
//! ```
//!
//! All errors are reported at once. Sections of later releases are refused by name: nothing is ignored. What depends on
//! this machine's interfaces is not judged here but in [`crate::check`].

pub mod bypass;
pub mod change;
pub mod check;
pub mod cpus;
mod express;
pub mod express_classes;
pub mod fieldbus;
mod findings;
mod fleet;
mod fragment;
mod gateway;
pub mod key_file;
mod key_source;
pub mod keygen;
mod keys;
pub mod lifetime;
mod link;
mod mistakes;
pub mod mka;
mod name;
mod origin;
mod outline;
mod padding;
pub mod reference;
pub mod sa_file;
pub mod site;
mod static_keys;
pub mod suite_speed;
mod unique_names;
mod words;
pub mod worker_scheduling;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use suite::scrubbed;
use zeroize::Zeroizing;

pub use self::fieldbus::{Cell, CellRelation};
pub use findings::Finding;
use findings::Findings;
pub use fleet::Fleet;
pub use fragment::WholeSdus;
pub use gateway::{Antedate, DEFAULT_STATE, Gateway, Http, Io, LogFormat, Polling, Realtime};
pub use key_source::{KeyFiles, ReadFile, ReadKey};
pub use keys::{Expected, Keys, Mka, StaticSa, StaticSas};
pub use link::{Link, LinkLoss, Mtu};
pub use mistakes::suggest_key;
pub use name::is_name;
pub use origin::Origin;
pub use outline::Outline;
pub use site::{Site, SitePeer};
pub use words::Named;

/// The largest configuration file that is read, in octets.
const LARGEST_FILE: u64 = 1 << 20;
/// Room behind a file's end, where a reader finds it without growing.
const READ_AHEAD: u64 = 64;

/// A valid configuration.
#[derive(Debug)]
pub struct Config {
    /// The file it came from, as the user named it.
    pub file: PathBuf,
    /// Settings of the gateway as a whole.
    pub gateway: Gateway,
    /// The fleet that the gateway gets its links and sites from, if it belongs to one.
    pub fleet: Option<Fleet>,
    /// The links, behind them those of cells that drop the rest, and then those inside of sites; no two share a name or an
    /// interface, and no two SAs a nonce.
    pub links: Vec<Link>,
    /// The sites; if there is neither a link nor a fleet, at least one. None has a name or an interface of another, or of a link but that inside of
    /// it.
    pub sites: Vec<Site>,
    /// Each key with its value.
    pub outline: Outline,
}

impl Config {
    /// Whether both say the same, wherever it stands and in whatever order. Key files count by their keys, and what a gateway calls itself
    /// does not count: a fleet has names of its own.
    pub fn says_the_same(&self, other: &Self) -> bool {
        fn ordered<T>(all: &[T], name: impl Fn(&T) -> (&str, bool)) -> Vec<&T> {
            let mut all: Vec<&T> = all.iter().collect();
            all.sort_by(|one, other| name(one).cmp(&name(other)));
            all
        }
        let links = |config: &Self| -> Vec<Link> {
            let mut links: Vec<Link> =
                ordered(&config.links, |link| (&link.name, link.in_site)).into_iter().cloned().collect();
            for link in &mut links {
                if let Keys::Agreed(mka) = &mut link.keys {
                    mka.peers.sort_unstable();
                    mka.announced_name = None;
                }
                if let Some(cell) = &mut link.cell {
                    cell.relations.sort_by_key(|one| one.relation.identity());
                }
            }
            links
        };
        let sites = |config: &Self| -> Vec<Site> {
            let mut sites: Vec<Site> =
                ordered(&config.sites, |site| (&site.name, false)).into_iter().cloned().collect();
            for site in &mut sites {
                site.peers.sort_by(|one, other| one.name.cmp(&other.name));
            }
            sites
        };
        let gateway = Gateway { announced_name: self.gateway.announced_name, ..other.gateway.clone() };
        self.gateway == gateway && links(self) == links(other) && sites(self) == sites(other)
    }
}

/// All interfaces of links and sites.
pub fn interfaces<'c>(links: &'c [Link], sites: &'c [Site]) -> impl Iterator<Item = &'c str> {
    let of_links = links.iter().filter(|link| !link.in_site);
    let of_links = of_links.flat_map(|link| link.interfaces().map(String::as_str));
    of_links.chain(sites.iter().map(|site| site.lan.as_str()))
}

/// Number of links and sites that workers have: a link inside of a site is a part of that.
pub fn datapaths(links: &[Link], sites: &[Site]) -> usize {
    links.iter().filter(|link| !link.in_site).count() + sites.len()
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
    let unreadable = |error: std::io::Error| {
        let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied;
        let cure = if is_denied {
            key_file::cure_of_denied(file)
        } else {
            "name a file that this user can read".into()
        };
        whole(format!("cannot be read: {error}; {cure}"))
    };
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

/// Judges the text of the configuration `file`. Key files are searched relative to it and read with `files`.
///
/// # Errors
///
/// All that is wrong, line by line.
pub fn parse(file: &Path, text: &str, files: KeyFiles) -> Result<(Config, Vec<Finding>), Vec<Finding>> {
    let raw: reference::RawConfig =
        toml::from_str(text).map_err(|error| mistakes::explain_refusal(file, text, &error))?;
    let mut findings = Findings::new(file, text);
    let judged = gateway::validate(raw.gateway.as_ref(), &mut findings);
    if raw.link.is_empty() && raw.site.is_empty() && raw.fieldbus.is_empty() && raw.fleet.is_none() {
        findings.error(0..0, "no [[link]], [[site]] or [[fieldbus]] is configured; add one");
    }
    let allow_experimental = judged.as_ref().is_some_and(|(_, allowed)| *allowed);
    let directory = file.parent().unwrap_or(Path::new(""));
    let fleet = raw.fleet.as_ref().and_then(|fleet| fleet::validate(fleet, directory, &mut findings));
    let mut names = unique_names::UniqueNames::default();
    let keys = key_source::KeySource { directory, files };
    let (mut links, mut in_sites) =
        link::validate_all(&raw.link, &raw.site, allow_experimental, &keys, &mut names, &mut findings);
    let io = judged.as_ref().map_or(Io::Auto, |(gateway, _)| gateway.io);
    let sites = site::validate_all(&raw.site, io, &keys, &mut names, &mut findings);
    site::warn_of_misfits(&links, &sites, &mut findings);
    fieldbus::validate_all(&raw.fieldbus, &raw.link, &mut links, &keys, &mut names, &mut findings);
    for site in &sites {
        in_sites.iter_mut().filter(|link| link.name == site.name).for_each(|link| link.take_from_site(site));
    }
    links.append(&mut in_sites);
    let announced_name = judged.as_ref().and_then(|(gateway, _)| gateway.announced_name);
    for link in &mut links {
        if let Keys::Agreed(mka) = &mut link.keys {
            mka.announced_name = announced_name;
        }
    }
    if io == Io::Kernel {
        links.iter_mut().for_each(Link::demand_kernel);
        for (at, link) in raw.link.iter().enumerate() {
            let reference::RawLink { name, padding, cover, .. } = link.get_ref();
            let label = unique_names::label("link", name, at);
            let padding = padding.as_ref().map(|key| (key.span(), "padding", "pad no frames"));
            let cover = cover.as_ref().map(|key| (key.span(), "cover", "send none"));
            for (span, key, why) in [padding, cover].into_iter().flatten() {
                let text = format!(
                    "{label}{key} does not go with io = \"kernel\", whose programs {why}; use io = \"auto\""
                );
                findings.error(span, text);
            }
        }
    }
    findings.errors.sort_by_key(|error| error.line);
    findings.warnings.sort_by_key(|warning| warning.line);
    match judged {
        Some((gateway, _)) if findings.errors.is_empty() => {
            let outline = Outline::of(text, &links, &sites);
            Ok((Config { file: file.to_owned(), gateway, fleet, links, sites, outline }, findings.warnings))
        }
        _ => Err(findings.errors),
    }
}

#[cfg(test)]
mod tests;
