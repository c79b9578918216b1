//! `check`: what a configuration means on this machine.
//!
//! ```text
//! plain side:      DA 6 | SA 6 |              EtherType 2 | payload, at most the plain MTU
//! protected side:  DA 6 | SA 6 | SecTAG 8/16 | EtherType 2 | payload | ICV 16
//!                                 the protected MTU counts from behind the SecTAG's EtherType on
//! ```
//!
//! So a frame needs `overhead` = SecTAG + ICV octets more MTU on the protected side. Where that is not there, frames
//! have to be split (`fragment = "on"`); without it, a protected side that is too small for the plain side is an error,
//! here and in `run`.

pub mod cell;
pub mod keys;
pub mod own;
pub mod site;

use std::fmt;
use std::io;
use std::path::Path;

use dataplane::fragmenter::FragmentConfig;
use netdev::interface::{Guard, Interface, InterfaceError};
use pnstore::StateView;
use secy::{ConfidentialityOffset, Protection, SciInclusion, ValidateFrames};
use suite::ICV_OCTETS;
use wire::ethernet::VLAN_TAG_OCTETS;

use crate::placement::{Machine, Placement};
use crate::suite_speed::{Advice, Antedating, SuiteSpeeds};
use crate::{Config, Finding, Io, Keys, Link, LinkLoss, Mtu, Polling, Realtime};
use crate::{bypass, fieldbus, interfaces};

/// Why frames of links and sites are protected and verified in user space.
pub const NOT_IN_KERNEL: &str = "only cells have programs in the kernel";

/// What moves frames between interfaces and user space, as `io` has it.
pub const fn engines(io: Io) -> &'static str {
    match io {
        Io::Auto => "AF_XDP, or else AF_PACKET",
        Io::Kernel | Io::AfXdp => "AF_XDP",
        Io::AfPacket => "AF_PACKET",
    }
}

/// Reads the MTU of an interface, in octets.
pub type ReadMtu<'m> = &'m dyn Fn(&str) -> Result<usize, InterfaceError>;

/// The MTU of an interface that a gateway could use, in octets.
///
/// # Errors
///
/// [`InterfaceError`], but an XDP program is none: it may be that of the running gateway, whose next configuration
/// is being checked.
pub fn interface_mtu(interface: &str) -> Result<usize, InterfaceError> {
    match Interface::open(interface) {
        Ok(opened) => Ok(opened.mtu() as usize),
        Err(InterfaceError::XdpBusy { name, .. }) => sysfs_mtu(&name).map_err(|source| {
            InterfaceError::System { name, action: "read its MTU from /sys/class/net".to_owned(), source }
        }),
        Err(error) => Err(error),
    }
}

fn sysfs_mtu(interface: &str) -> io::Result<usize> {
    let text = std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("mtu"))?;
    text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no number"))
}

/// What the loss of a carrier does, in words.
fn link_loss(Link { link_loss, plain, protected, .. }: &Link) -> String {
    match link_loss {
        LinkLoss::Off => "off: nobody is told when a side loses its carrier".into(),
        LinkLoss::Forward => format!("forward: {plain} is down while {protected} has no carrier"),
        LinkLoss::Both => format!("both: {plain} or {protected} is down while the other one has no carrier"),
    }
}

/// Octets that a link's SecY adds to a frame: SecTAG and ICV; none if it does not protect, or is never reached.
pub fn overhead_octets(link: &Link) -> usize {
    if link.protect_frames && link.has_secy() { sectag_octets(link) + ICV_OCTETS } else { 0 }
}

fn sectag_octets(link: &Link) -> usize {
    match link.sci_inclusion {
        SciInclusion::Always => 16,
        SciInclusion::Never | SciInclusion::EndStation => 8,
    }
}

/// The MTUs of a link's two sides, in octets behind DA, SA and EtherType. All SDUs of the plain side fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mtus {
    /// Of the plain interface.
    pub plain: usize,
    /// Of the protected side: the interface's, or what is configured.
    pub protected: usize,
}

/// What an interface has, unless somebody changes it.
pub const ETHERNET_MTU: usize = 1500;

/// The MTUs that a link is taken to have while its interfaces are missing: those of Ethernet, or as configured.
pub fn usual_mtus(link: &Link) -> Mtus {
    let protected = match link.mtu {
        Mtu::Interface => ETHERNET_MTU + overhead_octets(link),
        Mtu::Octets(octets) => usize::from(octets),
    };
    Mtus { plain: ETHERNET_MTU, protected }
}

/// The smallest MTU of a protected side that carries fragments.
const LEAST_PROTECTED_MTU: usize = 576;

/// Judges the interfaces of a link of the configuration `file`.
///
/// # Errors
///
/// Interfaces that are missing, or a protected side that is too small.
pub fn link_mtus(file: &Path, link: &Link, read_mtu: ReadMtu) -> Result<Mtus, Vec<Finding>> {
    let finding = |text: String| Finding {
        file: file.to_owned(),
        line: Some(link.line),
        text: format!("link {:?}: {text}", link.name),
    };
    let read = |interface: &str| read_mtu(interface).map_err(|error| finding(error.to_string()));
    let (plain, interface) = match (read(&link.plain), read(&link.protected)) {
        (Ok(plain), Ok(interface)) => (plain, interface),
        (plain, protected) => return Err([plain.err(), protected.err()].into_iter().flatten().collect()),
    };
    let protected = match link.mtu {
        Mtu::Interface => interface,
        Mtu::Octets(octets) => usize::from(octets),
    };
    if protected > interface {
        return Err(vec![finding(format!(
            "mtu = {protected} is more than the {interface} of {}; set mtu to {interface} or less, or ip link set {} mtu {protected}",
            link.protected, link.protected
        ))]);
    }
    let overhead = overhead_octets(link);
    let fragment = link.dividing.is_some_and(|dividing| dividing.fragment);
    if fragment && protected < LEAST_PROTECTED_MTU {
        return Err(vec![finding(format!(
            "MTU too small: fragments need {LEAST_PROTECTED_MTU}, and the protected side takes {protected}; set its MTU to {LEAST_PROTECTED_MTU} or more"
        ))]);
    }
    // What is too long for a cell is no reason to keep the others from starting: `Plan` says it.
    if link.has_secy() && !fragment && protected < plain + overhead {
        let divide = match link.keys {
            Keys::Static(_) => "fragment = \"on\" at both ends",
            _ => "fragment = \"auto\" if all peers are Frameward's",
        };
        return Err(vec![finding(format!(
            "MTU too small: frames of the machine's {plain} octets grow by {overhead}, and the protected side takes {protected}; set the protected side's MTU to {}, the machine's to {}, or {divide}",
            plain + overhead,
            protected.saturating_sub(overhead)
        ))]);
    }
    Ok(Mtus { plain, protected })
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
    /// How workers run here, and why, if that was asked for.
    workers: Option<String>,
    /// What keeps the host's own stack off the ports, if that was asked for.
    guard: Option<String>,
    /// For each link, where its cell's frames go, if that was looked at.
    cell_paths: Vec<Option<String>>,
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
            cell_paths: Vec::new(),
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

    /// What of the sites' LANs and of cells cannot travel: warnings.
    pub fn not_carried(&self) -> Vec<Finding> {
        let lans = self.lans.as_deref().unwrap_or_default();
        let of = |(site, mtu): (_, &usize)| site::not_carried(&self.config.file, site, *mtu);
        let mtus = self.mtus.as_deref().unwrap_or_default();
        let of_cell = |(link, mtus)| cell::not_carried(&self.config.file, link, mtus);
        let of_cells = self.config.links.iter().zip(mtus).filter_map(of_cell);
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
        let (_, judged) = Placement::evaluate(gateway, links.len() + sites.len(), &machine);
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
                "NONE: this box's own stack may hear and speak on the ports, as unguarded = true says".into()
            }
            Ok(Guard::None) => {
                "NONE: run refuses to start; update the kernel, or set unguarded = true".into()
            }
            Err(error) => format!("not looked at: {error}; run as root"),
        };
        Self { guard: Some(told), ..self }
    }

    /// The same plan, that also tells where cells' frames are protected and verified; `path` says it of a protected side's MTU, if the
    /// kernel can be asked.
    #[must_use]
    pub fn with_cell_paths(self, path: &dyn Fn(&fieldbus::Cell, usize) -> String) -> Self {
        let mtus = self.mtus.as_deref().unwrap_or_default();
        let of = |(link, mtus): (&Link, &Mtus)| Some(path(link.cell.as_ref()?, mtus.protected));
        let cell_paths = self.config.links.iter().zip(mtus).map(of).collect();
        Self { cell_paths, ..self }
    }

    /// The same plan, that knows the line rates of the protected sides, in Mbit/s, where the interfaces tell them.
    #[must_use]
    pub fn with_line_rates(self, mbits: &dyn Fn(&str) -> Option<u32>) -> Self {
        let mbits = self.config.links.iter().map(|link| mbits(&link.protected)).collect();
        Self { mbits, ..self }
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gateway = &self.config.gateway;
        let io = match gateway.io {
            Io::Auto => "auto",
            Io::Kernel => "kernel",
            Io::AfXdp => "af_xdp",
            Io::AfPacket => "af_packet",
        };
        let polling = match gateway.polling {
            Polling::Adaptive => "adaptive",
            Polling::Busy => "busy",
            Polling::Interrupt => "interrupt",
        };
        writeln!(f, "gateway {}", gateway.name)?;
        writeln!(f, "  state      {}", gateway.state.display())?;
        let realtime = match gateway.realtime {
            Realtime::Auto => "auto",
            Realtime::On => "on",
            Realtime::Off => "off",
        };
        writeln!(f, "  io         {io}, polling {polling}, realtime {realtime}")?;
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
                write_link(f, link, mtus, gateway.io)?;
            }
            if let Some(cell) = &link.cell {
                let path = self.cell_paths.get(at).and_then(Option::as_deref);
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

fn write_link(f: &mut fmt::Formatter<'_>, link: &Link, mtus: Option<&Mtus>, io: Io) -> fmt::Result {
    let overhead = overhead_octets(link);
    writeln!(f, "\nlink {}", link.name)?;
    match mtus {
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
    writeln!(f, "  frames     user space ({}), both ways: {NOT_IN_KERNEL}", engines(io))?;
    writeln!(f, "  suite      {}, {}", keys::suite(link), protection(link))?;
    let validate = match link.validate_frames {
        ValidateFrames::Strict => "strict",
        ValidateFrames::Check => "check",
        ValidateFrames::Disabled => "disabled",
    };
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
    if let Some(mtus) = mtus {
        let room = mtus.protected - overhead;
        let tagged = |tags: usize| mtus.plain.min(room.saturating_sub(tags * VLAN_TAG_OCTETS));
        writeln!(
            f,
            "  {}  payload {} octets; {} behind a VLAN tag, {} behind two",
            if link.dividing.is_some_and(|dividing| dividing.fragment) { "unsplit  " } else { "largest  " },
            tagged(0),
            tagged(1),
            tagged(2)
        )?;
    }
    write_dividing(f, link, mtus)?;
    writeln!(f, "  link loss  {}", link_loss(link))?;
    for ether_type in &link.bypass {
        writeln!(f, "  in clear   {}, both ways: {}", bypass::Named(*ether_type), bypass::risk(*ether_type))?;
    }
    keys::write(f, link)
}

fn write_dividing(f: &mut fmt::Formatter<'_>, link: &Link, mtus: Option<&Mtus>) -> fmt::Result {
    let Some(FragmentConfig { fragment, concatenate, hold }) = link.dividing else { return Ok(()) };
    let agreed = link.mka().is_some();
    let on = |on| match on {
        true if agreed => "if all peers announce it",
        true => "on",
        false => "off",
    };
    writeln!(
        f,
        "  dividing   fragment {}, concatenate {}, hold {} us; 2 octets more for each segment but one",
        on(fragment),
        on(concatenate),
        hold.as_micros()
    )?;
    if let (true, true, Some(mtus)) = (agreed, fragment, mtus)
        && mtus.protected < mtus.plain + overhead_octets(link)
    {
        let largest = mtus.protected - overhead_octets(link);
        writeln!(
            f,
            "             while a peer does not, payloads above {largest} octets are lost: set the machine's MTU to {largest}, or the protected side's to {}, where that may be",
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
