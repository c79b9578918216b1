//! `doctor`: what stands between two boxes and a working link, found out before it hurts, with the cure.
//!
//! ```text
//!  local.rs   this box: interfaces, offloads, kernel, CPU, rights, clock, state     never sends
//!  site.rs    a site: its LAN, its sockets, and whether its peers answer          sends, if no gateway runs there
//!  path.rs    the path: the protected port, opened without changing it ──▶ exam.rs  sends, if no gateway runs there
//!  machine.rs the plain port, listened to meanwhile                                 never sends
//!  exam.rs    both doctors' conversation; frame.rs what they say; keys.rs how they know each other
//!  path_findings.rs   from figures to findings
//! ```
//!
//! The path needs a doctor at each end, at the same time. Frames go out of protected ports only, so no machine sees
//! one. A gateway that runs is left alone: then its counters speak.

pub mod exam;
mod finding;
pub mod frame;
pub mod keys;
mod local;
mod machine;
mod path;
mod path_findings;
mod running;
mod site;
pub mod targets;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use config::{Config, Link};
pub use finding::{Finding, Level};
pub use site::SiteReport;

/// Options of an examination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time the other box may take to answer; none: the path is not tested.
    pub patience: Option<Duration>,
    /// Frames that are sent to count what is lost.
    pub probes: u32,
    /// Limit on probes per second.
    pub rate: u32,
}

/// The findings.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The gateway's name.
    pub gateway: String,
    /// Findings about the box.
    pub findings: Vec<Finding>,
    /// Findings about each link, in the configuration's order.
    pub links: Vec<LinkReport>,
    /// Findings about each site, in the configuration's order.
    pub sites: Vec<SiteReport>,
    /// Findings that are problems.
    pub problems: usize,
}

/// Findings about a link.
#[derive(Debug, Serialize)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// The interface towards the machine.
    pub plain: String,
    /// The interface towards the insecure network.
    pub protected: String,
    /// Local findings, then those of the path.
    pub findings: Vec<Finding>,
    /// The path's figures, if the other box answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Figures>,
}

/// A path's two directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Figures {
    /// From this box to the other.
    pub there: Direction,
    /// From the other box to this one.
    pub back: Direction,
}

/// One direction of a path. Counts are of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Direction {
    /// The largest MTU that crosses, if it was found.
    pub mtu: Option<u16>,
    /// Sent to be counted.
    pub sent: u32,
    /// Of these, those that did not arrive, or not as they were.
    pub lost: u32,
    /// Further copies that arrived.
    pub duplicated: u32,
    /// Arrived behind a later one.
    pub reordered: u32,
    /// Largest displacement.
    pub displacement: u32,
    /// Arrived damaged, of any kind.
    #[serde(rename = "spoilt")]
    pub damaged: u32,
}

/// Examines this box, and the paths of all links at once. `tell` gets lines for people who wait.
pub fn examine(
    config: &Config,
    options: &Options,
    runtime_dir: &Path,
    tell: &(dyn Fn(&dyn fmt::Display) + Sync),
) -> Report {
    let running = running::find(config, runtime_dir);
    let findings = local::of_box(config, &running);
    let (links, sites) = std::thread::scope(|scope| {
        let running = &running;
        let links = config.links.iter();
        let links: Vec<_> =
            links.map(|link| scope.spawn(move || of_link(config, link, options, running, tell))).collect();
        let sites = config.sites.iter();
        let sites: Vec<_> = sites
            .map(|site| scope.spawn(move || site::of_site(config, site, options, running, tell)))
            .collect();
        let links: Vec<LinkReport> = links.into_iter().map(joined).collect();
        (links, sites.into_iter().map(joined).collect::<Vec<SiteReport>>())
    });
    let all = findings.iter().chain(links.iter().flat_map(|link| &link.findings));
    let problems = all.filter(|finding| finding.level == Level::Problem).count()
        + sites.iter().map(SiteReport::problems).sum::<usize>();
    Report { gateway: config.gateway.name.clone(), findings, links, sites, problems }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn of_link(
    config: &Config,
    link: &Link,
    options: &Options,
    running: &running::Running,
    tell: &(dyn Fn(&dyn fmt::Display) + Sync),
) -> LinkReport {
    let (mut findings, usable) = local::of_link(config, link, running);
    let mut figures = None;
    match (options.patience, running) {
        (None, _) => {}
        // Its LAN and its way are examined with the site.
        (_, running::Running::No) if link.in_site => {}
        (_, running::Running::No) => match usable {
            Some(mtus) => match path::examine(link, &config.sites, mtus, options, tell) {
                Ok(seen) => {
                    figures = path_findings::figures(&seen.outcome);
                    findings.extend(path_findings::findings(link, mtus, &seen));
                    findings.extend(local::unfilled(link, config.gateway.io, seen.unfilled));
                }
                Err(finding) => findings.push(finding),
            },
            None => findings.push(Finding::note(
                "path",
                "not tested: first remove the problems above, then start doctor at both ends again",
            )),
        },
        (_, running) => findings.extend(running::of_link(link, running)),
    }
    LinkReport {
        name: link.name.clone(),
        plain: link.plain.clone(),
        protected: link.protected.clone(),
        findings,
        path: figures,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "gateway {}", self.gateway)?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "  {finding}"))?;
        for link in &self.links {
            writeln!(f, "\nlink {}: {} (machine), {} (network)", link.name, link.plain, link.protected)?;
            link.findings.iter().try_for_each(|finding| writeln!(f, "  {finding}"))?;
        }
        self.sites.iter().try_for_each(|site| site.fmt(f))?;
        match self.problems {
            0 => writeln!(f, "\nno problem found"),
            1 => writeln!(f, "\n1 problem found"),
            problems => writeln!(f, "\n{problems} problems found"),
        }
    }
}
