//! Changes that another rendering would make, gateway by gateway, and what they interrupt.
//!
//! Both come from `config`: the keys that differ are those that `reload` logs, and what becomes of links, cells and sites is judged by the
//! code that a reload has ([`config::change`]). A plan knows no machine, so it takes interfaces and their MTUs for unchanged.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use config::change::{
    Around, KeysChange, LinkChange, SiteChange, cell_difference, fixed, has_common_master_key, is_understood,
    keeps_sessions, needs_other_ports,
};
use config::check::ETHERNET_MTU;
use config::{Config, Finding, Io, Link, Site};

use crate::write::{WriteError, gateway_folders, has_octets, refuse_foreign_gateway};
use crate::{CONFIGURATION, Rendered, Rendering, read_rendered};

/// Changes that another rendering would make.
#[derive(Debug)]
pub struct FleetPlan {
    /// Those gateways for which something is different, in the order of their names.
    pub changes: Vec<GatewayChange>,
    /// Gateways for which nothing is.
    pub unchanged: usize,
}

/// Changes of one gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayChange {
    /// Its name, and the plant that it stands in.
    pub gateway: String,
    /// The plant, if it is known.
    pub site: Option<String>,
    /// Change of the gateway as a whole.
    pub what: What,
    /// Keys of its configuration, with what they were and are.
    pub keys: Vec<String>,
    /// Effects on its parts.
    pub effects: Vec<Effect>,
}

/// Kind of a gateway's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It is new.
    Add,
    /// It is there, and changes.
    Change,
    /// It is in the inventory no more.
    Remove,
}

/// Effect of a change on a link, cell or site, or on the gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effect {
    /// Its name, with its kind.
    pub of: String,
    /// In words.
    pub words: String,
    /// Whether frames are lost that would have passed.
    pub interrupts: bool,
}

impl FleetPlan {
    /// The plan from the rendering in `folder`, which need not be there, to a new one. `drawn` has fingerprints of keys that the next
    /// rendering draws anew.
    ///
    /// # Errors
    ///
    /// If the folder is no rendering.
    pub fn new(new: &Rendering, folder: &Path, drawn: &BTreeSet<String>) -> Result<Self, WriteError> {
        let before = gateway_folders(folder)?;
        let mut plan = Self { changes: Vec::new(), unchanged: 0 };
        let all: BTreeSet<&String> = before.iter().chain(new.gateways.keys()).collect();
        for name in all {
            // Most gateways are as they were: nobody has to understand them for that.
            if new.gateways.get(name).is_some_and(|one| has_octets(&folder.join(name), one)) {
                plan.unchanged += 1;
                continue;
            }
            // A file with the octets of a rendering was made by one.
            if before.binary_search(name).is_ok() {
                refuse_foreign_gateway(folder, name)?;
            }
            let old = before.binary_search(name).is_ok().then(|| read_rendered(folder, name, CONFIGURATION));
            match GatewayChange::of(name, old, new.gateways.get(name), drawn) {
                Some(change) => plan.changes.push(change),
                None => plan.unchanged += 1,
            }
        }
        Ok(plan)
    }

    /// Whether CAKs and master keys alone would be different: what a renewal changes.
    pub fn is_of_keys(&self) -> bool {
        const KEYS: [&str; 7] = [
            "mka cak, its key's",
            "mka fallback cak, its key's",
            "mka fallback_cak_file:",
            "master key, its key's",
            "fallback master key, its key's",
            "fallback_master_key_file:",
            "in form only",
        ];
        let is_key = |line: &String| KEYS.iter().any(|of| line.contains(of));
        self.changes.iter().all(|change| change.what == What::Change && change.keys.iter().all(is_key))
    }

    /// Whether nothing would be different.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// A gateway's configuration of the rendering before.
type Old = Result<(String, Config), Vec<Finding>>;

impl GatewayChange {
    fn of(name: &str, old: Option<Old>, new: Option<&Rendered>, drawn: &BTreeSet<String>) -> Option<Self> {
        let change = |what, keys, effects| {
            let site = new.and_then(|new| new.site.clone());
            Some(Self { gateway: name.to_owned(), site, what, keys, effects })
        };
        match (old, new) {
            (None, None) => None,
            (None, Some(new)) => change(What::Add, Vec::new(), started(&new.config)),
            (Some(Ok((_, old))), None) => change(What::Remove, Vec::new(), stopped(&old)),
            (Some(Err(_)), None) => change(What::Remove, Vec::new(), Vec::new()),
            (Some(Ok((text, old))), Some(new)) => {
                let keys = key_lines(&old, &new.config, drawn);
                let form = text != new.text && keys.is_empty();
                if form {
                    return change(What::Change, vec!["in form only".to_owned()], Vec::new());
                }
                if keys.is_empty() {
                    return None;
                }
                change(What::Change, keys, effects(&old, &new.config))
            }
            (Some(Err(findings)), Some(new)) => {
                let why = findings.first().map_or(String::new(), ToString::to_string);
                let keys =
                    vec![format!("the configuration before is refused here, so it is replaced whole: {why}")];
                change(What::Change, keys, started(&new.config))
            }
        }
    }
}

/// The keys that differ. A key that is drawn anew with each rendering has no fingerprint yet.
fn key_lines(old: &Config, new: &Config, drawn: &BTreeSet<String>) -> Vec<String> {
    let line = |change: String| {
        let mut line = change.strip_prefix("changed: ").unwrap_or(&change).to_owned();
        for fingerprint in drawn {
            line = line.replace(fingerprint, "a new key");
        }
        line
    };
    old.outline.changes(&new.outline).into_iter().map(line).collect()
}

fn effect(kind: &str, name: &str, words: impl Into<String>, interrupts: bool) -> Effect {
    Effect { of: format!("{kind} {name:?}"), words: words.into(), interrupts }
}

fn own_links(config: &Config) -> impl Iterator<Item = &Link> {
    config.links.iter().filter(|link| !link.in_site && link.has_secy())
}

fn started(config: &Config) -> Vec<Effect> {
    let links = own_links(config).map(|link| effect("link", &link.name, "started", false));
    let cells = config.links.iter().filter_map(|link| link.cell.as_ref());
    let cells = cells.map(|cell| effect("fieldbus", &cell.name, "started", false));
    let sites = config.sites.iter().map(|site| effect("site", &site.name, "started", false));
    links.chain(cells).chain(sites).collect()
}

fn stopped(config: &Config) -> Vec<Effect> {
    let stopped = |effect: Effect| Effect { words: "stopped".into(), interrupts: true, ..effect };
    started(config).into_iter().map(stopped).collect()
}

/// Judges the effects on the parts of a gateway that runs.
fn effects(old: &Config, new: &Config) -> Vec<Effect> {
    let mut effects = Vec::new();
    let restart = fixed(&old.gateway, &new.gateway);
    if !restart.is_empty() {
        effects.push(Effect {
            of: "gateway".into(),
            words: format!(
                "{} in [gateway] cannot change while it runs: restart it, which interrupts all of it",
                restart.join(", ")
            ),
            interrupts: true,
        });
    }
    let io = [old.gateway.io, new.gateway.io];
    let io_changes = io[0] != io[1];
    // A site that is stopped or started takes the link inside of it along.
    let goes_along = |link: &Link| {
        let change = site_of(new, &link.name)
            .map(|site| SiteChange::of(site_of(old, &link.name), site, ETHERNET_MTU, io_changes));
        link.in_site && !matches!(change, Some(SiteChange::Keep | SiteChange::Peers | SiteChange::Vlans))
    };
    for before in old.links.iter().filter(|link| !goes_along(link)) {
        match new.links.iter().find(|link| link.name == before.name) {
            Some(link) => of_link(before, link, io, &mut effects),
            None => {
                if own_links(old).any(|link| link.name == before.name) {
                    effects.push(effect("link", &before.name, "stopped", true));
                }
                of_cell(before, None, &mut effects);
            }
        }
    }
    for link in &new.links {
        if !old.links.iter().any(|before| before.name == link.name) {
            if own_links(new).any(|own| own.name == link.name) {
                effects.push(effect("link", &link.name, "started", false));
            }
            of_cell_started(link, &mut effects);
        }
    }
    for site in &old.sites {
        if !new.sites.iter().any(|other| other.name == site.name) {
            effects.push(effect("site", &site.name, "stopped", true));
        }
    }
    for site in &new.sites {
        let change = SiteChange::of(site_of(old, &site.name), site, ETHERNET_MTU, io_changes);
        let words = match change {
            SiteChange::Peers => "its peers change; frames to the others go on",
            SiteChange::Vlans => "other VLANs cross; frames of those that stay go on",
            _ => change.words().unwrap_or_default(),
        };
        if change != SiteChange::Keep {
            effects.push(effect("site", &site.name, words, change == SiteChange::Restart));
        }
    }
    effects
}

fn site_of<'c>(config: &'c Config, name: &str) -> Option<&'c Site> {
    config.sites.iter().find(|site| site.name == name)
}

fn of_link(old: &Link, new: &Link, io: [Io; 2], effects: &mut Vec<Effect>) {
    // Without a name the SCI stays for the link's life.
    let keeps_sci = |new: &config::Mka, old: &config::Mka| new.sci == old.sci;
    let around = Around {
        same_mtus: true,
        io_changes: io[0] != io[1],
        // Whether a port fell back, nobody knows here.
        other_ports: needs_other_ports(io, false),
        keeps_sci: &keeps_sci,
    };
    let change = LinkChange::of(old, new, around);
    let understood = is_understood(&old.keys, &new.keys);
    let words = match change {
        LinkChange::Keep | LinkChange::Change { keys: KeysChange::Keep, reopen: false } => None,
        LinkChange::Restart => Some(
            "stopped, to start with keys of another origin; nothing passes until its peers have them, too",
        ),
        LinkChange::Change { .. } if !understood => {
            Some("gets another key; nothing passes until its peers have it, too")
        }
        LinkChange::Change { reopen: true, .. } => change.words(),
        LinkChange::Change { .. } => Some("changed between two frames"),
    };
    if let Some(words) = words {
        let interrupts =
            !understood || matches!(change, LinkChange::Restart | LinkChange::Change { reopen: true, .. });
        effects.push(effect("link", &new.name, words, interrupts));
    }
    of_cell(old, Some(new), effects);
}

fn of_cell(old: &Link, new: Option<&Link>, effects: &mut Vec<Effect>) {
    let now = new.and_then(|link| link.cell.as_deref());
    let before = old.cell.as_deref();
    if before == now {
        return;
    }
    if let Some((name, words)) = cell_difference(before, now) {
        let interrupts = match (before, now) {
            (Some(before), Some(now)) => !keeps_sessions(before, now) || !has_common_master_key(before, now),
            (Some(_), None) => true,
            _ => false,
        };
        effects.push(effect("fieldbus", &name, words, interrupts));
    }
}

fn of_cell_started(link: &Link, effects: &mut Vec<Effect>) {
    if let Some((name, words)) = cell_difference(None, link.cell.as_deref()) {
        effects.push(effect("fieldbus", &name, words, false));
    }
}

impl fmt::Display for FleetPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.iter().try_for_each(|change| write!(f, "{change}"))?;
        let count = |what| self.changes.iter().filter(|change| change.what == what).count();
        let interrupted =
            self.changes.iter().flat_map(|change| &change.effects).filter(|effect| effect.interrupts).count();
        writeln!(
            f,
            "plan: {} to add, {} to change, {} to remove, {} unchanged; {}",
            count(What::Add),
            count(What::Change),
            count(What::Remove),
            self.unchanged,
            match interrupted {
                0 => "nothing is interrupted".to_owned(),
                interrupted => format!("{interrupted} interrupted, marked with !"),
            }
        )
    }
}

impl fmt::Display for GatewayChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.what {
            What::Add => '+',
            What::Change => '~',
            What::Remove => '-',
        };
        let site = self.site.as_ref().map_or(String::new(), |site| format!(" ({site})"));
        writeln!(f, "{sign} {}{site}", self.gateway)?;
        for key in &self.keys {
            writeln!(f, "    {key}")?;
        }
        for Effect { of, words, interrupts } in &self.effects {
            writeln!(f, "  {} {of}: {words}", if *interrupts { '!' } else { ' ' })?;
        }
        Ok(())
    }
}
