//! `check`: what a configuration means on this machine.
//!
//! The modules judge, for `run` and `reload` too. [`Plan`] tells all of it.

pub mod access;
pub mod cell;
mod engine;
pub mod keys;
mod mtus;
pub mod own;
mod padding;
pub mod site;

use std::fmt;

use dataplane::fragmenter::FragmentConfig;
use netdev::interface::Guard;
use pnstore::StateView;
use secy::{ConfidentialityOffset, ExpressClasses, Protection};
use suite::ICV_OCTETS;
use wire::ethernet::VLAN_TAG_OCTETS;

use crate::suite_speed::{Advice, Antedating, SuiteSpeeds};
use crate::worker_scheduling::{Machine, WorkerScheduling};
use crate::{Config, Finding, Link, LinkLoss, Named as _, WholeSdus};
use crate::{bypass, datapaths, express_classes, fieldbus, interfaces};
pub use engine::engines;
use mtus::sectag_octets;
pub use mtus::{
    ETHERNET_MTU, IN_SITE_OCTETS, Mtus, ReadMtu, interface_mtu, link_mtus, overhead_octets, usual_mtus,
};

/// Effect of the loss of a carrier, in words.
fn link_loss(Link { link_loss, plain, protected, .. }: &Link) -> String {
    let means = match link_loss {
        LinkLoss::Off => "a side without carrier does not take the other one down".into(),
        LinkLoss::Forward => format!("{plain} is down while {protected} has no carrier"),
        LinkLoss::Both => {
            format!("each of {plain} and {protected} is down while the other one has no carrier")
        }
    };
    format!("{}: {means}", link_loss.name())
}

/// Planned place of a link's protection and verification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkPath {
    /// In the kernel, as far as can be told.
    pub kernel: bool,
    /// The same for people, with the reason.
    pub words: String,
}

/// The plan of a gateway: prints as text for people.
#[derive(Debug)]
pub struct Plan<'c> {
    config: &'c Config,
    /// For each link, if the interfaces were looked at.
    mtus: Option<Vec<Mtus>>,
    /// For each site, the MTU of its LAN, if the interfaces were looked at.
    lans: Option<Vec<usize>>,
    /// If they were measured.
    speeds: Option<SuiteSpeeds>,
    antedating: Option<Antedating>,
    /// Scheduling of the workers here, with its reason, if that was asked for.
    workers: Option<String>,
    /// Guard that keeps the host's own stack off the ports, if that was asked for.
    guard: Option<String>,
    /// For each link, where its cell's frames go, if that was looked at.
    cell_places: Vec<Option<String>>,
    /// For each link, where its frames go, if that was looked at.
    link_places: Vec<LinkPath>,
    /// For each link, what the protected side's interface says of its line rate, in Mbit/s.
    mbits: Vec<Option<u32>>,
}

impl<'c> Plan<'c> {
    /// The plan on this machine, or, without `read_mtu`, on any.
    ///
    /// # Errors
    ///
    /// As [`link_mtus`], for all links.
    pub fn new(config: &'c Config, read_mtu: Option<ReadMtu>) -> Result<Self, Vec<Finding>> {
        let unmeasured = |mtus, lans| Self {
            config,
            mtus,
            lans,
            speeds: None,
            antedating: None,
            cell_places: Vec::new(),
            link_places: Vec::new(),
            mbits: Vec::new(),
            workers: None,
            guard: None,
        };
        let Some(read_mtu) = read_mtu else { return Ok(unmeasured(None, None)) };
        let mut mtus = Vec::new();
        let mut lans = Vec::new();
        let mut errors = Vec::new();
        for link in &config.links {
            match link_mtus(&config.file, link, read_mtu) {
                Ok(judged) => mtus.push(judged),
                Err(found) => errors.extend(found),
            }
        }
        for site in &config.sites {
            match site::lan_mtu(&config.file, site, read_mtu) {
                Ok(mtu) => lans.push(mtu),
                Err(found) => errors.push(found),
            }
        }
        if errors.is_empty() { Ok(unmeasured(Some(mtus), Some(lans))) } else { Err(errors) }
    }

    /// Warnings about frames of the sites' LANs and of cells that cannot travel.
    pub fn not_carried(&self) -> Vec<Finding> {
        let lans = self.lans.as_deref().unwrap_or_default();
        let of = |(site, mtu): (_, &usize)| site::not_carried(&self.config.file, site, *mtu);
        let mtus = self.mtus.as_deref().unwrap_or_default();
        let of_cell = |(link, mtus)| cell::not_carried(&self.config.file, link, mtus);
        let of_cells = self.config.links.iter().zip(mtus).flat_map(of_cell);
        self.config.sites.iter().zip(lans).flat_map(of).chain(of_cells).collect()
    }

    /// Static keys that this box has used for something else before, as far as its state directory can be read.
    pub fn misused_keys(&self) -> Vec<Finding> {
        let state = StateView::read(&self.config.gateway.state);
        let found = |state: StateView| {
            keys::misused(&self.config.file, &self.config.links, &|role, name, key| {
                state.check_role(role, name, key)
            })
        };
        state.map(found).unwrap_or_default()
    }

    /// The same plan, that also tells how fast the suites are on this CPU.
    pub fn with_speeds(self, speeds: SuiteSpeeds) -> Self {
        Self { speeds: Some(speeds), ..self }
    }

    /// The same plan, that also tells whether keystreams will be made ahead on this CPU.
    #[must_use]
    pub fn with_antedating(self) -> Self {
        let antedating = Antedating::decide(self.config.gateway.antedate);
        Self { antedating: Some(antedating), ..self }
    }

    /// The same plan, that also tells how workers run on this machine, if the kernel grants it.
    #[must_use]
    pub fn with_workers(self) -> Self {
        let Config { gateway, links, sites, .. } = self.config;
        let machine = Machine::this(interfaces(links, sites));
        let (_, judged) = WorkerScheduling::evaluate(gateway, datapaths(links, sites), &machine);
        let words = judged.unwrap_or_else(|reason| format!("ordinary threads: {reason}"));
        Self { workers: Some(words), ..self }
    }

    /// The same plan, that also tells what will keep this machine's own stack off the ports.
    #[must_use]
    pub fn with_guard(self) -> Self {
        let told = match netdev::interface::guard_here() {
            Ok(Guard::Tcx) => "tcx keeps this box's own stack off the ports".into(),
            Ok(Guard::Clsact) => {
                "clsact filters keep this box's own stack off the ports (no tcx before Linux 6.6)".into()
            }
            Ok(Guard::None) if self.config.gateway.unguarded => {
                "NONE: this box's own stack can receive and send on the ports (unguarded = true)".into()
            }
            Ok(Guard::None) => {
                "NONE: run will refuse to start; update the kernel, or set unguarded = true".into()
            }
            Err(error) => format!("not looked at: {error}; run as root"),
        };
        Self { guard: Some(told), ..self }
    }

    /// The same plan, that also tells where cells' frames are protected and verified; `path` says it of a protected side's MTU, if the
    /// kernel can be asked.
    #[must_use]
    pub fn with_cell_places(self, path: &dyn Fn(&fieldbus::Cell, usize) -> String) -> Self {
        let mtus = self.mtus.as_deref().unwrap_or_default();
        let of = |(link, mtus): (&Link, &Mtus)| Some(path(link.cell.as_ref()?, mtus.protected));
        let cell_places = self.config.links.iter().zip(mtus).map(of).collect();
        Self { cell_places, ..self }
    }

    /// The same of links' frames.
    #[must_use]
    pub fn with_link_places(self, path: &dyn Fn(&Link, Mtus) -> LinkPath) -> Self {
        let mtus = self.mtus.as_deref().unwrap_or_default();
        let link_places = self.config.links.iter().zip(mtus).map(|(link, mtus)| path(link, *mtus)).collect();
        Self { link_places, ..self }
    }

    /// The same plan, that knows the line rates of the protected sides, in Mbit/s, where the interfaces tell them.
    #[must_use]
    pub fn with_line_rates(self, mbits: &dyn Fn(&str) -> Option<u32>) -> Self {
        let mbits = self
            .config
            .links
            .iter()
            .map(|link| mbits(if link.in_site { &link.plain } else { &link.protected }));
        let mbits = mbits.collect();
        Self { mbits, ..self }
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gateway = &self.config.gateway;
        writeln!(f, "gateway {}", gateway.name)?;
        writeln!(f, "  state      {}", gateway.state.display())?;
        let (io, polling) = (gateway.io.name(), gateway.polling.name());
        writeln!(f, "  io         {io}, polling {polling}, realtime {}", gateway.realtime.name())?;
        if let Some(workers) = &self.workers {
            writeln!(f, "  workers    {workers}")?;
        }
        if let Some(guard) = &self.guard {
            writeln!(f, "  guard      {guard}")?;
        }
        if let Some(speeds) = &self.speeds {
            writeln!(f, "  suites     {speeds}")?;
        }
        if let Some(antedating) = &self.antedating {
            writeln!(f, "  antedate   {antedating}")?;
        }
        if let Some(http) = gateway.http {
            writeln!(f, "  http       http://{}/", http.address)?;
        }
        for (at, link) in self.config.links.iter().enumerate() {
            let mtus = self.mtus.as_ref().and_then(|mtus| mtus.get(at));
            if link.has_secy() {
                let path = self.link_places.get(at);
                write_link(f, link, mtus, path)?;
            }
            if let Some(cell) = &link.cell {
                let path = self.cell_places.get(at).and_then(Option::as_deref);
                cell::write(f, link, cell, mtus, path)?;
            }
            if let (Some(speeds), Some(suite)) = (&self.speeds, link.suite()) {
                writeln!(f, "  speed      {}", Advice::new(speeds, suite))?;
            }
            if let Some(sas) = link.static_sas() {
                keys::write_lifetime(f, link, sas.suite, self.mbits.get(at).copied().flatten())?;
            }
        }
        for (at, site) in self.config.sites.iter().enumerate() {
            let lan = self.lans.as_ref().and_then(|lans| lans.get(at));
            site::write_site(f, self.config, site, lan.copied())?;
        }
        Ok(())
    }
}

fn write_link(
    f: &mut fmt::Formatter<'_>,
    link: &Link,
    mtus: Option<&Mtus>,
    path: Option<&LinkPath>,
) -> fmt::Result {
    let overhead = overhead_octets(link);
    writeln!(f, "\nlink {}", link.name)?;
    match mtus {
        _ if link.in_site => {
            writeln!(f, "  plain      {}, the LAN of site {}", link.plain, link.name)?;
            writeln!(f, "  protected  the tunnel of site {}", link.name)?;
        }
        None => {
            writeln!(f, "  plain      {}", link.plain)?;
            writeln!(
                f,
                "  protected  {}, MTU at least that of {} plus {overhead}",
                link.protected, link.plain
            )?;
        }
        Some(mtus) => {
            writeln!(f, "  plain      {}, MTU {}", link.plain, mtus.plain)?;
            writeln!(f, "  protected  {}, MTU {}", link.protected, mtus.protected)?;
        }
    }
    if let Some(LinkPath { words, .. }) = path {
        writeln!(f, "  frames     {words}")?;
    }
    writeln!(f, "  suite      {}, {}", keys::suite(link), protection(link))?;
    let validate = link.validate_frames.name();
    let replay = match link.replay_protect {
        true => format!("window {}", link.replay_window),
        false => "off".to_owned(),
    };
    writeln!(f, "  receive    validate_frames {validate}, replay protection {replay}")?;
    if link.protect_frames {
        writeln!(
            f,
            "  overhead   {overhead} octets a frame: SecTAG {}, ICV {ICV_OCTETS}",
            sectag_octets(link)
        )?;
    }
    let whole = path.is_some_and(|path| path.kernel) && link.whole_sdus == WholeSdus::ForKernel;
    // Padding splits what fits no size, and tells its own sums.
    if let Some(mtus) = mtus.filter(|_| link.padding().is_none()) {
        let room = mtus.protected - overhead;
        let tagged = |tags: usize| mtus.plain.min(room.saturating_sub(tags * VLAN_TAG_OCTETS));
        writeln!(
            f,
            "  {}  payload {} octets; {} behind a VLAN tag, {} behind two",
            if link.fragmentation.is_some_and(|fragmentation| fragmentation.fragment) && !whole {
                "unsplit  "
            } else {
                "largest  "
            },
            tagged(0),
            tagged(1),
            tagged(2)
        )?;
    }
    write_fragmentation(f, link, mtus, path.is_some_and(|path| path.kernel))?;
    padding::write(f, link, mtus)?;
    if !link.in_site {
        writeln!(f, "  link loss  {}", link_loss(link))?;
    }
    for ether_type in &link.bypass {
        writeln!(f, "  in clear   {}, both ways: {}", bypass::Named(*ether_type), bypass::risk(*ether_type))?;
    }
    keys::write(f, link)
}

fn write_fragmentation(
    f: &mut fmt::Formatter<'_>,
    link: &Link,
    mtus: Option<&Mtus>,
    kernel: bool,
) -> fmt::Result {
    if link.whole_sdus == WholeSdus::Demanded {
        return writeln!(f, "  fragment   off, concatenate off: io = \"kernel\" takes whole frames alone");
    }
    let Some(FragmentConfig { fragment, concatenate, hold, express, padding: _ }) = link.fragmentation else {
        return Ok(());
    };
    if !fragment && !concatenate {
        return Ok(());
    }
    if kernel && link.whole_sdus == WholeSdus::ForKernel {
        return writeln!(
            f,
            "  fragment   off, concatenate off, for the kernel takes whole frames alone; on in user space while a peer needs fragments"
        );
    }
    let agreed = link.mka().is_some();
    let on = |on| match on {
        true if agreed => "if all peers announce it",
        true => "on",
        false => "off",
    };
    writeln!(
        f,
        "  fragment   {}, concatenate {}, hold {} us; each segment but one adds 2 octets",
        on(fragment),
        on(concatenate),
        hold.as_micros()
    )?;
    if express != ExpressClasses::DEFAULT {
        let classes = express_classes::listed(express.iter());
        writeln!(f, "             express frames, which precede all others: {classes}")?;
    }
    if let (true, true, Some(mtus)) = (agreed, fragment, mtus)
        && mtus.protected < mtus.plain + overhead_octets(link)
    {
        let largest = mtus.protected - overhead_octets(link);
        writeln!(
            f,
            "             while a peer does not, payloads above {largest} octets are lost: if that can happen, set the machine's MTU to {largest} or the protected side's to {}",
            mtus.plain + overhead_octets(link)
        )?;
    }
    Ok(())
}

fn protection(link: &Link) -> String {
    match link.protection {
        _ if !link.protect_frames => "NOT PROTECTED: frames leave in clear".to_owned(),
        Protection::Integrity => "integrity only".to_owned(),
        Protection::Encrypt(ConfidentialityOffset::Zero) => "encrypted".to_owned(),
        Protection::Encrypt(offset) => format!("encrypted behind the first {} octets", offset.octets()),
    }
}

#[cfg(test)]
mod tests;
