//! Sites of another configuration: those that are as they were go on, the others are stopped and started.

use super::super::Running;
use super::super::site::RunningSite;
use crate::config::Site;

/// What becomes of one site of the new configuration.
pub(super) enum NewSite {
    GoesOn(Box<RunningSite>),
    Start { config: Box<Site>, lan_mtu: usize, what: &'static str },
}

impl Running {
    /// Stops the sites that are gone or changed; returns those that are to run, with the ones that go on.
    pub(super) fn stop_changed_sites(
        &mut self,
        new: Vec<(Site, usize)>,
        io_changes: bool,
        lines: &mut Vec<String>,
    ) -> Vec<NewSite> {
        let mut before = std::mem::take(&mut self.sites);
        let mut sites: Vec<NewSite> = Vec::new();
        for (config, lan_mtu) in new {
            let found = before.iter().position(|running| running.config.name == config.name);
            let running = found.map(|found| before.remove(found));
            let goes_on = |running: &RunningSite| {
                // One that could not be started yet is tried each second.
                let same_mtu = running.lan_mtu().is_none_or(|before| before == lan_mtu);
                !io_changes && running.config.is_like(&config) && same_mtu
            };
            match running {
                Some(mut running) if goes_on(&running) => {
                    running.config = config;
                    sites.push(NewSite::GoesOn(Box::new(running)));
                }
                Some(running) => {
                    lines
                        .extend(running.stop(&mut self.control).err().map(|error| format!("error: {error}")));
                    sites.push(NewSite::Start {
                        config: Box::new(config),
                        lan_mtu,
                        what: "restarted; its peers agree on keys anew",
                    });
                }
                None => sites.push(NewSite::Start { config: Box::new(config), lan_mtu, what: "started" }),
            }
        }
        for gone in before {
            let name = gone.config.name.clone();
            lines.extend(gone.stop(&mut self.control).err().map(|error| format!("error: {error}")));
            lines.push(format!("site {name:?}: stopped"));
        }
        sites
    }

    /// Starts the sites that are to be started. False if the system refused one, which is then tried each second.
    pub(super) fn start_sites(&mut self, sites: Vec<NewSite>, lines: &mut Vec<String>) -> bool {
        let mut done = true;
        for site in sites {
            match site {
                NewSite::GoesOn(running) => self.sites.push(*running),
                NewSite::Start { config, lan_mtu, what } => {
                    let running =
                        RunningSite::start(&self.gateway, *config, Some(lan_mtu), &mut self.control);
                    let name = &running.config.name;
                    if let Some(why) = running.fallen() {
                        lines.push(format!("error: site {name:?}: {why}; tried again every second"));
                        done = false;
                    } else {
                        running.announce(&mut |line| lines.push(line.to_string()));
                        lines.push(format!("site {name:?}: {what}"));
                    }
                    self.sites.push(running);
                }
            }
        }
        done
    }
}
