//! Links whose frames may be protected and verified in the kernel: which have programs, and what a person hears of it.

use std::fmt;

use control::{Gateway, KernelPrograms, LinkPlace, LinkPlaceSettings, PlaceWanted, StaticSak, StaticSaks};
use mka::SuiteRule;
use secy::Settings;
use suite::CipherSuite;
use tracing::{info, warn};
use wire::Sci;

use super::super::kernel_programs::place_wanted;
use config::check::{LinkPath, Mtus, engines, usual_mtus};
use config::{Io, Keys, Link, StaticSa, StaticSas, WholeSdus};

/// A suite that the link's keys may have: of several that which has programs.
fn suite(link: &Link) -> Option<CipherSuite> {
    match &link.keys {
        Keys::Static(sas) => Some(sas.suite),
        Keys::Agreed(mka) => Some(match mka.suite {
            SuiteRule::Standard(suite) | SuiteRule::Only(suite) => suite,
            SuiteRule::Any => CipherSuite::ChaCha20Poly1305,
        }),
        Keys::None => None,
    }
}

/// Replay windows of the links that may have programs, as far as their configuration says.
pub(in crate::run) fn replay_windows(links: &[Link]) -> impl Iterator<Item = u32> {
    let may = |link: &&Link| {
        let suits = |suite| {
            KernelPrograms::suit_link(&place_secy(link, usual_mtus(link)), suite, link.express).is_ok()
        };
        link.cell.is_none() && !link.in_site && suite(link).is_some_and(suits)
    };
    links.iter().filter(may).map(|link| link.replay_window)
}

/// Settings of a link's SecY where programs have its SAs: nothing is fragmented there, unless the configuration insists.
fn place_secy(link: &Link, mtus: Mtus) -> Settings {
    let settings = link.secy_settings(mtus.protected);
    Settings { reassemble: settings.reassemble && link.whole_sdus == WholeSdus::AsConfigured, ..settings }
}

/// Whether a link's KaY may say that programs take its SAs, as far as configuration, MTUs and loaded programs tell.
pub(in crate::run) fn is_for_kernel(link: &Link, mtus: Mtus, io: Io, control: &Gateway) -> bool {
    // The SCI does not matter for that.
    let settings = settings(link, Sci::from_octets([0; 8]), mtus, io);
    settings.is_some_and(|settings| {
        settings.wanted != PlaceWanted::UserSpace
            && link.cell.is_none()
            && settings.refused.is_none()
            && settings.express.is_none()
            && control.may_set_link_place(&link.name, &settings).is_ok()
    })
}

/// Returns the settings for a link's frames in the kernel; none without a SecY.
pub(in crate::run) fn settings(link: &Link, sci: Sci, mtus: Mtus, io: Io) -> Option<LinkPlaceSettings> {
    // A link inside of a site stays there.
    if link.in_site {
        return None;
    }
    // A demand for the kernel concerns all frames: express SCs alone are not enough.
    let (suite, secy, express) = (suite(link)?, place_secy(link, mtus), link.express && io != Io::Kernel);
    // A suite without programs needs no other MTU.
    let suits = KernelPrograms::suit_link(&secy, suite, express).is_ok();
    Some(LinkPlaceSettings {
        wanted: place_wanted(io),
        suite,
        sci,
        refused: match link.padding().is_none() {
            true => mtus.keep_whole(link).err().filter(|_| suits),
            false => Some(padded(link).to_owned()),
        },
        secy,
        express: express.then(|| link.fragmentation.map(|how| how.express).unwrap_or_default()),
        bypass: link.bypass.clone(),
        replay_window: link.replay_window,
        saks: if express { link.express_sas() } else { link.static_sas().cloned() }
            .map(|sas| saks(link, &sas)),
    })
}

/// Why a link whose frames are demanded to go through the kernel cannot be.
pub(super) fn refusal(link: &str, why: &dyn fmt::Display) -> String {
    format!("link {link:?}: {why}; io = \"auto\" takes user space instead")
}

/// Judges whether a link can be as `io` demands, before anything is changed.
///
/// # Errors
/// Why not.
pub(in crate::run) fn judge(link: &Link, mtus: Mtus, io: Io, control: &Gateway) -> Result<(), String> {
    let (Io::Kernel, None) = (io, &link.cell) else { return Ok(()) };
    // The SCI does not matter for that.
    let Some(settings) = settings(link, Sci::from_octets([0; 8]), mtus, io) else { return Ok(()) };
    control.may_set_link_place(&link.name, &settings).map_err(|why| refusal(&link.name, &why))
}

fn saks(link: &Link, sas: &StaticSas) -> StaticSaks {
    let sak = |of: &StaticSa| StaticSak { sci: of.sci, an: of.an, sak: of.key.clone(), xpn: of.xpn };
    StaticSaks {
        name: sas.transmit.lease_name(),
        suite: sas.suite,
        protection: link.protection,
        transmit: sak(&sas.transmit),
        receive: sas.receive.iter().map(sak).collect(),
    }
}

/// Why programs do not take a link whose frames are padded, or leave at a constant rate.
fn padded(link: &Link) -> &'static str {
    match link.padding().cover_rate() {
        None => "programs pad no frames; remove padding",
        Some(_) => "programs send no cover; remove [link.cover]",
    }
}

/// Returns the place where a link's frames will be protected and verified, for `check`.
pub fn planned_link_place(io: Io, programs: &KernelPrograms, link: &Link, mtus: Mtus) -> LinkPath {
    let engines = engines(io);
    let elsewhere = |words: String| LinkPath { kernel: false, words };
    let user_space = |why: &str| elsewhere(format!("user space ({engines}), both ways: {why}"));
    let Some(suite) = suite(link) else { return user_space("it has no keys") };
    if link.in_site {
        return user_space("it is inside of a site");
    }
    match place_wanted(io) {
        PlaceWanted::UserSpace => return user_space("io says so"),
        _ if link.cell.is_some() => return user_space("its ports are for the programs of its cell"),
        _ if !link.padding().is_none() => return user_space(padded(link)),
        PlaceWanted::Auto | PlaceWanted::Kernel => {}
    }
    // A demand for the kernel concerns all frames: express SCs alone are not enough.
    let (secy, express) = (place_secy(link, mtus), link.express && io != Io::Kernel);
    let served = programs.serve_link(&secy, suite, express, link.replay_window);
    // A suite without programs needs no other MTU.
    let suits = KernelPrograms::suit_link(&secy, suite, express).is_ok();
    if let (Err(why), true) = (mtus.keep_whole(link), suits) {
        return user_space(&why);
    }
    let agreed = link.mka().is_some_and(|mka| mka.suite == SuiteRule::Any);
    let agreed = if agreed { ", under each SAK of chacha20-poly1305" } else { "" };
    match (served, io) {
        (Ok(()), _) if express => {
            let if_all = if link.mka().is_some() {
                "if all members announce it"
            } else {
                "if the other end has express = true"
            };
            elsewhere(format!(
                "express frames: kernel, both ways{agreed}, {if_all}; all others user space ({engines})"
            ))
        }
        (Ok(()), _) => {
            let otherwise =
                if io == Io::Kernel { "no frame passes".into() } else { format!("user space ({engines})") };
            let words =
                format!("kernel, both ways{agreed}; if the drivers do not take its programs, {otherwise}");
            LinkPath { kernel: true, words }
        }
        (Err(why), _) if why.is_of_rights() => elsewhere(format!("not looked at: {why}; run as root")),
        (Err(why), Io::Kernel) => elsewhere(format!("NONE, and run does not start: {why}")),
        (Err(why), _) => user_space(&why.to_string()),
    }
}

/// Logs where a link's frames are protected and verified.
pub(in crate::run) fn log_place(link: &str, place: &LinkPlace) {
    match place {
        LinkPlace::Kernel => info!(event = "link-path", link, "frames go through the kernel, both ways"),
        LinkPlace::Express => {
            info!(
                event = "link-path",
                link, "express frames go through the kernel, both ways; all others through user space"
            );
        }
        LinkPlace::UserSpace(why) => {
            info!(event = "link-path", link, "frames go through user space, both ways: {why}");
        }
        LinkPlace::Nowhere(why) => warn!(event = "link-path", link, "no frame passes: {why}"),
    }
}

/// The same in words, for the report.
pub(in crate::run) fn words(place: &LinkPlace) -> String {
    match place {
        LinkPlace::Kernel => "kernel".into(),
        LinkPlace::Express => "kernel for express frames, user space for all others".into(),
        LinkPlace::UserSpace(why) => format!("user space: {why}"),
        LinkPlace::Nowhere(why) => format!("nowhere: {why}"),
    }
}
