//! Gateway that a name means. Unit, configuration file, gateway, link, site and cell of a box may all have one name.
//!
//! | `press` may be | then this is shown |
//! |---|---|
//! | a gateway, also as its unit `frameward@press` | that gateway |
//! | the configuration file `press.toml`, with or without its directory | the gateway that reads it |
//! | a link, a site or a cell | that one alone, of its gateway |
//!
//! The first row that fits counts, so a name that fits everywhere shows most. What fits two gateways is asked back.

use std::fs;
use std::path::Path;

use super::StatusError;
use config::is_name;
use report::{GatewayReport, SOCKET_SUFFIX, ask, is_running, parse, socket_path};

/// Meaning of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The gateway's name.
    pub gateway: String,
    /// The link, site or cell of it that was named; none: all of it.
    pub part: Option<String>,
}

impl Found {
    fn whole(gateway: &str) -> Self {
        Self { gateway: gateway.to_owned(), part: None }
    }

    /// Leaves of a report what was named.
    pub fn narrow(&self, report: &mut GatewayReport) {
        if let Some(part) = &self.part {
            report.links.retain(|link| link.name == *part || cell(link) == Some(part));
            report.sites.retain(|site| site.name == *part);
        }
    }
}

fn cell(link: &report::LinkReport) -> Option<&String> {
    link.fieldbus.as_ref().map(|cell| &cell.name)
}

/// Meaning of `name`; without one, the only gateway that has a socket.
///
/// # Errors
/// `BadName`, `None`, `Ended`, `Several`, `Ambiguous` and `Unknown`.
pub fn find(directory: &Path, name: Option<&str>) -> Result<Found, StatusError> {
    let gateways = gateways(directory);
    let Some(name) = name else {
        return match gateways.as_slice() {
            [] => Err(StatusError::None(directory.to_owned())),
            [only] => Ok(Found::whole(only)),
            _ => only_one_that_runs(directory, gateways),
        };
    };
    let meant = Meant::of(name)?;
    if let Some(gateway) = gateways.iter().find(|gateway| meant.is_gateway(gateway)) {
        // Also one that has died and left its socket: who asks for it hears so.
        return Ok(Found::whole(gateway));
    }
    let reports: Vec<_> = gateways.iter().filter_map(|gateway| report(directory, gateway)).collect();
    let of_file =
        reports.iter().filter(|report| meant.is_file(report)).map(|report| Found::whole(&report.name));
    let parts = reports.iter().filter(|report| meant.is_part(report));
    let parts = parts.map(|report| Found { part: Some(meant.name.to_owned()), ..Found::whole(&report.name) });
    for found in [of_file.collect::<Vec<_>>(), parts.collect()] {
        match found.as_slice() {
            [] => {}
            [one] => return Ok(one.clone()),
            several => {
                let gateways = several.iter().map(|found| found.gateway.clone()).collect();
                return Err(StatusError::Ambiguous(name.to_owned(), gateways));
            }
        }
    }
    match gateways.is_empty() {
        true => Err(StatusError::None(directory.to_owned())),
        false => Err(StatusError::Unknown(name.to_owned(), running(directory, &gateways))),
    }
}

/// The gateway among several sockets whose process lives.
fn only_one_that_runs(directory: &Path, gateways: Vec<String>) -> Result<Found, StatusError> {
    let (running, ended): (Vec<_>, Vec<_>) =
        gateways.into_iter().partition(|gateway| is_running(directory, gateway));
    match running.as_slice() {
        [] => Err(StatusError::Ended(ended)),
        [only] => Ok(Found::whole(only)),
        _ => Err(StatusError::Several(running)),
    }
}

/// A name as it was typed.
struct Meant<'n> {
    /// Without what a unit or a file has around it.
    name: &'n str,
    /// A file with its directory.
    path: Option<&'n Path>,
    /// The name of a file, which no link has.
    file: bool,
}

impl<'n> Meant<'n> {
    fn of(typed: &'n str) -> Result<Self, StatusError> {
        let path = typed.contains('/').then(|| Path::new(typed));
        let last = typed.rsplit('/').next().unwrap_or(typed);
        let file = last.strip_suffix(".toml");
        let unit = last.strip_prefix("frameward@").map(|unit| unit.strip_suffix(".service").unwrap_or(unit));
        let name = file.or(unit.filter(|_| path.is_none())).unwrap_or(last);
        match is_name(name) && (path.is_none() || file.is_some()) {
            true => Ok(Self { name, path, file: file.is_some() }),
            false => Err(StatusError::BadName(typed.to_owned())),
        }
    }

    fn is_gateway(&self, gateway: &str) -> bool {
        !self.file && self.name == gateway
    }

    fn is_file(&self, report: &GatewayReport) -> bool {
        // That of its box leads to that of its fleet.
        let of_box = report.fleet.as_ref().and_then(|fleet| fleet.file.as_deref());
        let mut files = of_box.into_iter().chain(report.configuration.as_deref()).map(Path::new);
        files.any(|file| match self.path {
            Some(path) => fs::canonicalize(path)
                .is_ok_and(|path| path == file || fs::canonicalize(file).is_ok_and(|file| path == file)),
            None => file.file_stem().is_some_and(|stem| stem == self.name),
        })
    }

    fn is_part(&self, report: &GatewayReport) -> bool {
        let of_link = |link: &report::LinkReport| {
            link.name == self.name || cell(link).is_some_and(|cell| cell == self.name)
        };
        !self.file
            && (report.links.iter().any(of_link) || report.sites.iter().any(|site| site.name == self.name))
    }
}

/// The gateways that have a socket, in the order of their names.
fn gateways(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(SOCKET_SUFFIX).map(str::to_owned))
        .filter(|name| is_name(name))
        .collect();
    names.sort();
    names
}

fn report(directory: &Path, gateway: &str) -> Option<GatewayReport> {
    parse(gateway, &ask(directory, gateway).ok()?).ok()
}

/// Everything that runs, for a user who asked for something else: each gateway with its parts.
fn running(directory: &Path, gateways: &[String]) -> String {
    let words = gateways.iter().map(|gateway| match report(directory, gateway) {
        None => {
            format!("gateway {gateway} (does not answer on {})", socket_path(directory, gateway).display())
        }
        Some(report) => {
            let links = report.links.iter().map(|link| match cell(link) {
                Some(name) if *name != link.name => format!("link {}, fieldbus {name}", link.name),
                Some(name) => format!("fieldbus {name}"),
                None => format!("link {}", link.name),
            });
            let sites = report.sites.iter().map(|site| format!("site {}", site.name));
            let file = report.configuration.iter().map(|file| format!("file {file}"));
            let has: Vec<String> = links.chain(sites).chain(file).collect();
            format!("gateway {gateway} ({})", has.join(", "))
        }
    });
    words.collect::<Vec<_>>().join("; ")
}
