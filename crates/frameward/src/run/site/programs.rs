//! Programs for the sites whose flows may go through the kernel: loaded at the start alone, and kept while their site is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use sitelink::KernelSite;

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

impl SitePrograms {
    /// Loads programs for the sites whose flows may go through the kernel.
    pub fn load(config: &Config) -> Self {
        let io = config.gateway.io;
        let sites = config.sites.iter().filter_map(|site| Some((site, site.peers_in_kernel(io).ok()?)));
        let load = |(number, (site, peers)): (usize, (&Site, [usize; 2]))| {
            let kernel = match number {
                MOST_SITES.. => Err(format!("programs are loaded for the first {MOST_SITES} sites")),
                _ => KernelSite::load(peers, site.window, site.bind, &site.limits),
            };
            (site.name.clone(), kernel.map(Arc::new))
        };
        Self { loaded: sites.enumerate().map(load).collect() }
    }

    /// None, for these reasons by the site's name: the program before this one in its process had none either, and only a start may load some.
    pub fn none(reasons: impl Iterator<Item = (String, String)>) -> Self {
        Self { loaded: reasons.map(|(site, why)| (site, Err(why))).collect() }
    }

    /// The programs of a site.
    pub(in crate::run) fn of(&self, site: &Site, io: Io) -> Kernel {
        site.peers_in_kernel(io)?;
        match self.loaded.get(&site.name) {
            Some(Ok(kernel)) if kernel.suits(site.window, site.bind, &site.limits) => Ok(Arc::clone(kernel)),
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(_)) => Err("programs are loaded at the start alone, and this site had another window, bind or limits then; restart the gateway".into()),
            None => Err("programs are loaded at the start alone, and this site was not there then; restart the gateway".into()),
        }
    }
}
