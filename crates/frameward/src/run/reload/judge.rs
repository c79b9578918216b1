//! The judgement of a new configuration: everything that can be wrong, before anything is changed.

use netdev::interface::{InterfaceError, link_state};
use tracing::warn;

use super::super::Running;
use super::super::link::{RunningLink, judge_place};
use super::request::{Loaded, ReadConfig};
use super::step::Step;
use config::change::fixed;
use config::check::site::{lan_mtu, not_carried};
use config::check::{ETHERNET_MTU, Mtus, interface_mtu, link_mtus, usual_mtus};
use config::{self, Config, Link, Outline, Site};

/// A configuration that was judged.
pub(super) struct New {
    pub(super) gateway: config::Gateway,
    pub(super) outline: Outline,
    pub(super) steps: Vec<Step>,
    /// With the MTU of each one's LAN.
    pub(super) sites: Vec<(Site, usize)>,
    pub(super) io_changes: bool,
}

impl Running {
    /// Judges the new configuration. Changes nothing.
    pub(super) fn prepare(&self, loaded: Loaded) -> Result<New, Vec<String>> {
        let as_lines = |findings: Vec<config::Finding>| -> Vec<String> {
            findings.iter().map(ToString::to_string).collect()
        };
        let ReadConfig { config, warnings, misused } = loaded.map_err(as_lines)?;
        let Config { file, gateway, fleet, links, sites, outline } = config;
        for warning in warnings {
            warn!(event = "configuration", "{warning}");
        }
        // Without links of its own this file would stop all of them.
        if let Some(fleet) = fleet {
            return Err(vec![format!(
                "{}:{}: [fleet] is read at the start alone; restart the gateway, which then gets its links from there",
                file.display(),
                fleet.line.0
            )]);
        }
        let fixed = fixed(&self.gateway, &gateway);
        if !fixed.is_empty() {
            return Err(vec![format!(
                "{}: {} in [gateway] cannot change while it runs; restart the gateway",
                file.display(),
                fixed.join(", ")
            )]);
        }
        let mut errors = as_lines(misused);
        let mut judged = Vec::new();
        for link in links {
            let mtus = match self.waits_from_the_start(&link) {
                true => Ok(usual_mtus(&link)),
                false => link_mtus(&file, &link, &|interface| self.mtu(interface)),
            };
            match mtus {
                Ok(mtus) => judged.push((link, mtus)),
                Err(found) => errors.extend(as_lines(found)),
            }
        }
        let mut lans = Vec::new();
        for site in sites {
            match lan_mtu(&file, &site, &|interface| self.mtu(interface)) {
                Ok(mtu) => {
                    for warning in not_carried(&file, &site, mtu) {
                        warn!(event = "configuration", "{warning}");
                    }
                    lans.push((site, mtu));
                }
                Err(found) => errors.push(found.to_string()),
            }
        }
        let of_places = judged
            .iter()
            .filter_map(|(link, mtus)| judge_place(link, *mtus, gateway.io, &self.control).err());
        errors.extend(of_places);
        if !errors.is_empty() {
            return Err(errors);
        }
        let io = [self.gateway.io, gateway.io];
        let io_changes = io[0] != io[1];
        let moved: Vec<_> = judged.iter().filter_map(|(link, _)| self.moved_key(link, &judged)).collect();
        if !moved.is_empty() {
            return Err(moved);
        }
        let running = |name: &str| self.links.iter().find(|running| running.config.name == name);
        let steps = judged.into_iter().map(|(link, mtus)| Step::of(running(&link.name), link, mtus, io));
        let steps = steps.collect();
        Ok(New { gateway, outline, steps, sites: lans, io_changes })
    }

    /// Whether it has an interface that was missing at the start, and still is. What its MTUs are is judged later.
    fn waits_from_the_start(&self, link: &Link) -> bool {
        let is_missing = |name: &String| !link_state(name).is_ok_and(|seen| seen.is_some());
        let absent = |running: &RunningLink| running.config.name == link.name && !running.is_seated;
        self.links.iter().any(absent) && link.interfaces().any(is_missing)
    }

    /// A key that goes from one link to another would for a moment be used by both.
    fn moved_key(&self, link: &Link, all: &[(Link, Mtus)]) -> Option<String> {
        let own = link.static_sas()?.transmit.lease_name();
        let from = self.links.iter().map(|running| &running.config).find(|old| {
            old.name != link.name
                && old.static_sas().is_some_and(|sas| sas.transmit.lease_name() == own)
                && all.iter().any(|(other, _)| other.name == old.name)
        })?;
        Some(format!(
            "{}:{}: link {:?}: its own key and SCI are still those of link {:?}; reload without them first",
            self.file.display(),
            link.line.0,
            link.name,
            from.name
        ))
    }

    /// The MTU of an interface: our own ones have our ports on them, and those that a link waits for had one.
    fn mtu(&self, interface: &str) -> Result<usize, InterfaceError> {
        if let Some(site) = self.sites.iter().find(|site| site.config.lan == interface) {
            return match (link_state(interface)?, site.lan_mtu()) {
                (Some(seen), _) => Ok(seen.mtu as usize),
                (None, Some(before)) => Ok(before - site.added_octets()),
                // It waits, and its MTU is judged when it is there.
                (None, None) => Ok(ETHERNET_MTU),
            };
        }
        let Some(ours) = self.links.iter().find(|link| link.config.has_interface(interface)) else {
            return interface_mtu(interface);
        };
        match link_state(interface)? {
            Some(seen) => Ok(seen.mtu as usize),
            None if ours.config.plain == interface => Ok(ours.about.mtus.plain),
            None => Ok(ours.about.mtus.protected),
        }
    }
}
