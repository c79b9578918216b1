//! Sites of another configuration: those that are as they were go on, peers come and go, the others are stopped and
//! started.

use tracing::{error, info};

use super::super::Running;
use super::super::site::RunningSite;
use config::Site;
use config::change::SiteChange;

/// Change of one site by the new configuration.
pub(super) enum NewSite {
    CarryOver(Box<RunningSite>),
    /// Its peers or its VLANs.
    Change {
        running: Box<RunningSite>,
        config: Box<Site>,
        lan_mtu: usize,
    },
    Start {
        config: Box<Site>,
        lan_mtu: usize,
        what: &'static str,
    },
}

/// Change of a site that is to be as `config` says.
pub(super) fn fate(
    running: Option<&RunningSite>,
    config: &Site,
    lan_mtu: usize,
    io_changes: bool,
) -> SiteChange {
    let Some(running) = running else { return SiteChange::Start };
    // One that could not be started yet is tried each second.
    let restarted = io_changes || running.lan_mtu().is_some_and(|before| before != lan_mtu);
    SiteChange::judge(running.config == *config, running.may_go_on_as(config), restarted)
        .of_peers(running.config.peers != config.peers)
}

impl Running {
    /// Stops the sites that are gone or changed; returns those that are to run, with the ones that go on.
    pub(super) fn stop_changed_sites(&mut self, new: Vec<(Site, usize)>, io_changes: bool) -> Vec<NewSite> {
        let mut before = std::mem::take(&mut self.sites);
        let mut sites: Vec<NewSite> = Vec::new();
        for (config, lan_mtu) in new {
            let found = before.iter().position(|running| running.config.name == config.name);
            let running = found.map(|found| before.remove(found));
            let fate = fate(running.as_ref(), &config, lan_mtu, io_changes);
            let what = fate.words().unwrap_or_default();
            let site = match (fate, running) {
                (SiteChange::Keep, Some(mut running)) => {
                    running.config = config;
                    NewSite::CarryOver(Box::new(running))
                }
                (SiteChange::Peers | SiteChange::Vlans, Some(running)) => {
                    NewSite::Change { running: Box::new(running), config: Box::new(config), lan_mtu }
                }
                (_, running) => {
                    if let Some(running) = running {
                        self.stop_site(running);
                    }
                    NewSite::Start { config: Box::new(config), lan_mtu, what }
                }
            };
            sites.push(site);
        }
        for gone in before {
            let name = gone.config.name.clone();
            self.stop_site(gone);
            info!(event = "site-stopped", site = name, "stopped");
        }
        sites
    }

    fn stop_site(&mut self, site: RunningSite) {
        let name = site.config.name.clone();
        self.unseat_from_site(&name);
        if let Err(error) = site.stop(&mut self.control) {
            error!(event = "reload-failed", site = name, "{error}");
        }
    }

    /// Starts the sites that are to be started. False if the system refused one, which is then tried each second.
    pub(super) fn start_sites(&mut self, sites: Vec<NewSite>) -> bool {
        let mut done = true;
        for site in sites {
            match site {
                NewSite::CarryOver(running) => self.sites.push(*running),
                NewSite::Change { running, config, lan_mtu } => {
                    done &= self.change_site(*running, *config, lan_mtu);
                }
                NewSite::Start { config, lan_mtu, what } => done &= self.start_site(*config, lan_mtu, what),
            }
        }
        done
    }

    /// A site that cannot be changed is started anew: what its worker knows is uncertain then.
    fn change_site(&mut self, mut running: RunningSite, config: Site, lan_mtu: usize) -> bool {
        match running.change(&config, &mut self.control) {
            Ok(()) => {
                running.config = config;
                self.sites.push(running);
                true
            }
            Err(why) => {
                error!(
                    event = "reload-failed",
                    site = config.name,
                    "it cannot be changed while it runs: {why}"
                );
                self.stop_site(running);
                self.start_site(config, lan_mtu, "restarted; its peers agree on keys anew")
            }
        }
    }

    fn start_site(&mut self, config: Site, lan_mtu: usize, what: &'static str) -> bool {
        let running = self.open_site(config, Some(lan_mtu), None);
        let name = &running.config.name;
        let fallen = running.fallen();
        if let Some(why) = fallen {
            error!(event = "reload-failed", site = name, "{why}; tried again every second");
        } else {
            running.announce();
            info!(event = "site-changed", site = name, "{what}");
        }
        let done = fallen.is_none();
        self.sites.push(running);
        done
    }
}
