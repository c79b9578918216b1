//! The new program takes the state of a running gateway before that stops: what is garbled inside of it shows here, and not behind execve.
//!
//! Keys, SAKs and the state of key agreement are taken by the code of a start. Left out is what that code alone has at hand then: ports,
//! PNs and replay windows, and counters, whose layout was compared.

use netdev::interface::{InterfaceInfo, link_state};
use wire::MacAddr;

use super::super::Measured;
use super::super::cell::settings;
use super::super::link::{OTHER_CELL, try_to_go_on};
use super::outermost;
use super::passed::Passed;
use config::Config;
use config::check::site::lan_mtu;
use config::check::{interface_mtu, link_mtus};

/// Takes the state of each link of `config`, and lets it go; looks at what its sites begin with.
///
/// # Errors
/// Why a link or site cannot go on with it.
pub(super) fn take(mut passed: Passed, config: &Config) -> Result<(), String> {
    let (speeds, antedating) = (passed.gateway.speeds.clone(), passed.gateway.antedating.clone());
    let (measured, clock_start) = (Measured { speeds, antedating }, passed.clock_start());
    for link in &config.links {
        let (agreement, cell) = (passed.take_agreement(&link.name), passed.take_cell(&link.name));
        let failed = |why: &dyn std::fmt::Display| format!("link {:?}: {why}", link.name);
        let mtus = link_mtus(&config.file, link, &interface_mtu);
        let mtus = mtus.map_err(super::first)?;
        let port = InterfaceInfo::of(outermost(link)).map_err(|error| failed(&error))?;
        let of_link = passed.links.iter().find(|of| of.is_of(link));
        let of_link = of_link.ok_or_else(|| failed(&"the running gateway has no such link"))?;
        let at = (mtus, MacAddr(port.mac));
        try_to_go_on(link, at, of_link, agreement, &measured, clock_start).map_err(|why| failed(&why))?;
        match (cell, settings(link, mtus, config.gateway.io)) {
            (None, None) => {}
            (Some(cell), Some(settings)) => {
                cell.try_to_go_on(settings, clock_start).map_err(|why| failed(&why))?;
            }
            _ => return Err(failed(&OTHER_CELL)),
        }
    }
    // Whatever else it needs a site waits for.
    for site in &config.sites {
        let failed = |why: &dyn std::fmt::Display| format!("site {:?}: {why}", site.name);
        if link_state(&site.lan).map_err(|error| failed(&error))?.is_some() {
            lan_mtu(&config.file, site, &interface_mtu).map_err(|finding| finding.to_string())?;
        }
    }
    Ok(())
}
