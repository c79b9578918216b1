//! Programs for the sites whose flows may go through the kernel: loaded at the start alone, and kept while their site is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use sitelink::KernelSite;
use tunnel::Mode;

use config::{Config, Io, Site};

/// Sites that get programs: to load those of one takes a fifth of a second, and no frame passes meanwhile.
const MOST_SITES: usize = 16;

/// Programs by the site's name.
#[derive(Debug, Default)]
pub struct SitePrograms {
    loaded: BTreeMap<String, Result<Arc<KernelSite>, String>>,
}

/// A site's programs, or why it has none.
pub(in crate::run) type Kernel = Result<Arc<KernelSite>, String>;

/// Peers of the site in identifier mode, and in plain mode: their flows alone go through the kernel.
fn peers(site: &Site) -> [usize; 2] {
    let count = |is_it: fn(Mode) -> bool| site.peers.iter().filter(|peer| is_it(peer.mode)).count();
    [count(|mode| mode == Mode::Identifier), count(|mode| matches!(mode, Mode::Plain { .. }))]
}

/// Whether flows of some peer of the site may go through the kernel.
pub(super) fn may_have_programs(site: &Site) -> bool {
    peers(site) != [0; 2]
}

impl SitePrograms {
    /// Loads programs for the sites whose flows may go through the kernel.
    pub fn load(config: &Config) -> Self {
        let wanted = matches!(config.gateway.io, Io::Auto | Io::Kernel);
        let suits = |site: &&Site| {
            let is_for_programs = !site.protect && site.rate.is_none() && site.admits_untagged();
            wanted && may_have_programs(site) && is_for_programs
        };
        let sites = config.sites.iter().filter(suits);
        let load = |(number, site): (usize, &Site)| {
            let kernel = match number {
                MOST_SITES.. => Err(format!("programs are loaded for the first {MOST_SITES} sites")),
                _ => KernelSite::load(peers(site), site.window, site.bind, &site.limits),
            };
            (site.name.clone(), kernel.map(Arc::new))
        };
        Self { loaded: sites.enumerate().map(load).collect() }
    }

    /// The programs of a site.
    pub(in crate::run) fn of(&self, site: &Site, io: Io) -> Kernel {
        if !matches!(io, Io::Auto | Io::Kernel) {
            return Err("io says so".into());
        }
        if site.protect {
            return Err("its SecY is in user space".into());
        }
        if site.rate.is_some() {
            return Err("packets wait for the rate of its uplink".into());
        }
        if !site.admits_untagged() {
            return Err("its vlans have no \"untagged\", and flows in the kernel have no tag".into());
        }
        if !may_have_programs(site) {
            return Err("header encryption does not go through the kernel".into());
        }
        match self.loaded.get(&site.name) {
            Some(Ok(kernel)) if kernel.suits(site.window, site.bind) => Ok(Arc::clone(kernel)),
            Some(Err(why)) => Err(why.clone()),
            _ => Err("programs are loaded at the start alone, and this site was not there then; restart the gateway".into()),
        }
    }
}
