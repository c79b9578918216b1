//! State that a gateway passes on to the next program of its process: one JSON document, in memory alone.
//!
//! There is no key in it that anybody could use: the next program reads those of its configuration. Names of leases, and ICVs of CAKs, show that
//! they are the same. SAKs that were agreed on are wrapped under the KEKs of their CAKs, as MKPDUs have them. Sites agree on new keys.
//! Descriptors are numbers here; [`netdev::passed_on`] has what they are.

mod link;
mod site;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use config::suite_speed::{Antedating, SuiteSpeeds};
use config::{Config, Link, Site};
use control::{KernelPrograms, PassedAgreement, PassedCell, PassedKernelLink, PassedKernelPrograms};
use dataplane::cell::CellCounters;
use dataplane::fragmenter::FragmenterCounters;
use dataplane::pipeline::PipelineCounters;
use fieldbus::handshake::HelloCounters;
use mka::KayCounters;
use netdev::passed_on::{self, PassedInterface, PassedPort, PassedPorts};
use netdev::port::PortCounters;
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};
use report::recent::LastValid;
use report::{Baseline, FleetReport, ReloadReport, UpgradeReport};
use secy::{ReceiveSaCounters, SecYCounters, TransmitSaCounters};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::link::PassedKeys;
use crate::membership::OnBox;
pub(super) use link::why_not;
pub(in crate::run) use link::{AboutLink, PassedLink};
pub(in crate::run) use site::PassedSite;

/// Format of this document. Another one is refused, whatever is different.
const FORMAT: u32 = 6;
/// Variable with the descriptor of the document, in the environment of the next program.
pub(super) const VARIABLE: &str = "FRAMEWARD_PASSED_ON";
/// The longest document that is read.
const LONGEST: u64 = 64 << 20;

/// Form of a link's words and of its memory, as far as no document says it: names of counters in their order, sizes of shared memory, forms of key agreement. A
/// program for which it is another one refuses before anything is touched.
fn layout() -> Vec<String> {
    let counters = [
        PortCounters::NAMES,
        PipelineCounters::NAMES,
        FragmenterCounters::NAMES,
        SecYCounters::NAMES,
        TransmitSaCounters::NAMES,
        ReceiveSaCounters::NAMES,
        KayCounters::NAMES,
        CellCounters::NAMES,
        HelloCounters::NAMES,
        fieldbus::TransmitCounters::NAMES,
        fieldbus::ReceiveCounters::NAMES,
    ];
    let forms = [PassedAgreement::FORM, mka::PASSED_KAY_FORM].into_iter().chain(PassedCell::FORM);
    let sizes = passed_on::LAYOUT.iter().map(ToString::to_string).chain(forms.map(|form| form.to_string()));
    counters.concat().into_iter().map(str::to_owned).chain(sizes).collect()
}

/// The document.
#[derive(Debug, Serialize, Deserialize)]
pub struct Passed {
    format: u32,
    /// What [`layout`] says in the program before.
    layout: Vec<String>,
    /// The version of the program before.
    pub(in crate::run) version: String,
    /// What the whole gateway has.
    pub(in crate::run) gateway: PassedGateway,
    /// The links, in the order of the configuration.
    pub(super) links: Vec<PassedLink>,
    /// The sites, in the order of the configuration.
    pub(super) sites: Vec<PassedSite>,
}

/// What the whole gateway has.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::run) struct PassedGateway {
    /// Locks of the state directory and of the control socket.
    pub(in crate::run) locks: [RawFd; 2],
    /// The socket that hears whether the machine returned to a snapshot, if there is one: what it has heard is not lost.
    pub(in crate::run) machine: Option<RawFd>,
    /// Capabilities that programs inherit which are started: see [`crate::privilege::inherited`].
    pub(in crate::run) inherited: [u64; 2],
    /// Milliseconds since the gateway's start.
    pub(in crate::run) uptime_ms: u64,
    /// The time at which its links left their workers: microseconds since 1970.
    pub(in crate::run) halted_us: u64,
    /// Zero of the protocols' clock on the machine's monotonic clock, in microseconds: negative if that is older than the machine's start.
    pub(in crate::run) clock_us: i64,
    /// This upgrade, as it looks if it succeeds.
    pub(in crate::run) upgrade: UpgradeReport,
    /// Its fleet, if its configuration comes from one.
    pub(in crate::run) fleet: Option<PassedFleet>,
    pub(in crate::run) reload: Option<ReloadReport>,
    pub(in crate::run) baseline: Option<Baseline>,
    pub(in crate::run) speeds: SuiteSpeeds,
    pub(in crate::run) antedating: Antedating,
    /// SHA-256 of the object file of the kernel's programs for links, in hexadecimal digits, if some are loaded.
    pub(in crate::run) kernel_object: Option<String>,
    /// The same of those for cells.
    pub(in crate::run) cell_object: Option<String>,
    /// Those that no link has; nothing where they are only judged.
    pub(in crate::run) programs: Option<PassedKernelPrograms>,
}

/// A gateway's fleet.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::run) struct PassedFleet {
    /// Lock of its agent's state; none without an agent.
    pub(in crate::run) lock: Option<RawFd>,
    /// The directory and the versions, as its agent has seen them.
    pub(in crate::run) seen: FleetReport,
    /// Words of its box about it at the start; none without an agent, and from a release before this.
    #[serde(default)]
    pub(in crate::run) on_box: Option<OnBox>,
}

impl Passed {
    pub(super) fn new(gateway: PassedGateway, links: Vec<PassedLink>, sites: Vec<PassedSite>) -> Self {
        let version = env!("CARGO_PKG_VERSION").into();
        Self { format: FORMAT, layout: layout(), version, gateway, links, sites }
    }

    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
            layout: Vec<String>,
        }
        let garbled =
            |error: serde_json::Error| format!("the running gateway's state cannot be read: {error}");
        let Format { format, layout: theirs } = serde_json::from_slice(octets).map_err(garbled)?;
        if format != FORMAT {
            return Err(format!(
                "the running gateway's state is of format {format}, and this program knows {FORMAT}"
            ));
        }
        if theirs != layout() {
            return Err("the running gateway has other counters, or memory of another layout".into());
        }
        serde_json::from_slice(octets).map_err(garbled)
    }

    /// Every descriptor that it names.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let of_links = self.links.iter().flat_map(|link| {
            let of_ports = |of: &PassedPorts| {
                let ports = of.ports.iter().flat_map(PassedPort::descriptors);
                ports.chain([of.pool.file]).collect::<Vec<_>>()
            };
            let of_programs = link.programs.iter().flat_map(PassedKernelLink::descriptors);
            let of_sides = link.interfaces.iter().flat_map(PassedInterface::numbers);
            let of_cell = link.cell.iter().flat_map(|cell| cell.descriptors());
            of_sides.chain(link.ports.iter().flat_map(of_ports)).chain(of_programs).chain(of_cell)
        });
        let PassedGateway { locks, machine, programs, fleet, .. } = &self.gateway;
        let spare = programs.iter().flat_map(PassedKernelPrograms::descriptors);
        let of_fleet = fleet.iter().filter_map(|fleet| fleet.lock);
        let of_sites = self.sites.iter().flat_map(PassedSite::descriptors);
        let whole = locks.iter().copied().chain(*machine).chain(of_fleet).chain(spare);
        whole.chain(of_links).chain(of_sites).collect()
    }

    /// State passed on for a link's key agreement; given out once.
    pub(in crate::run) fn take_agreement(&mut self, name: &str) -> Option<Box<PassedAgreement>> {
        match &mut self.links.iter_mut().find(|passed| passed.name == name)?.keys {
            PassedKeys::Static { .. } | PassedKeys::None => None,
            PassedKeys::Agreed(agreement) => agreement.take(),
        }
    }

    /// State passed on for a link's cell; given out once.
    pub(in crate::run) fn take_cell(&mut self, name: &str) -> Option<Box<PassedCell>> {
        self.links.iter_mut().find(|passed| passed.name == name)?.cell.take()
    }

    /// Whether the box says the same of its fleet as at the start: the lock that is passed on is that of the state then.
    pub(super) fn judge_box(&self, file: &Path, now: Option<&OnBox>) -> Result<(), String> {
        let started = self.gateway.fleet.as_ref().and_then(|fleet| fleet.on_box.as_ref());
        match (started, now) {
            (Some(started), Some(now)) if started != now => Err(format!(
                "{}: [fleet], its identity, or the gateway's name or state directory has changed since the start: restart the gateway",
                file.display()
            )),
            _ => Ok(()),
        }
    }

    /// Whether a program with this configuration can go on with all of it: each link has its names and keys.
    pub(super) fn judge(&self, config: &Config, in_fleet: bool) -> Result<(), String> {
        match (self.gateway.fleet.is_some(), in_fleet) {
            (true, false) => {
                return Err(
                    "the running gateway's configuration comes from a fleet, and this one does not".into()
                );
            }
            (false, true) => {
                return Err("the configuration comes from a fleet, and the running gateway's does not".into());
            }
            _ => {}
        }
        let same_sites = config.sites.len() == self.sites.len()
            && self.sites.iter().zip(&config.sites).all(|(passed, site)| passed.is_of(site));
        if !same_sites || config.links.len() != self.links.len() {
            return Err("the configuration has other links or sites than the running gateway".into());
        }
        check_kernel_object(self.gateway.kernel_object.as_deref(), &kernel_object())?;
        check_kernel_object(self.gateway.cell_object.as_deref(), &cell_object())?;
        config.links.iter().try_for_each(|link| self.link(link).map(drop))
    }

    /// What there is for a site.
    pub(in crate::run) fn site(&self, site: &Site) -> Option<&PassedSite> {
        self.sites.iter().find(|passed| passed.is_of(site))
    }

    /// Reasons for which its sites have no programs in the kernel, by name.
    pub fn sites_in_user_space(&self) -> impl Iterator<Item = (String, String)> {
        self.sites.iter().map(|site| (site.name.clone(), site.why_user_space.clone()))
    }

    /// What there is for a link.
    pub(in crate::run) fn link(&self, link: &Link) -> Result<&PassedLink, String> {
        let differs = |what: &str| format!("link {:?}: the running gateway has {what}", link.name);
        let passed = self.links.iter().find(|passed| passed.name == link.name);
        let passed = passed.ok_or_else(|| differs("no such link"))?;
        if !link.interfaces().eq(passed.interfaces.iter().map(|interface| &interface.name)) {
            return Err(differs("other interfaces"));
        }
        if let Some(why) = why_not(link) {
            return Err(format!("link {:?}: {why}", link.name));
        }
        passed.keys.check(link).map(|()| passed).map_err(|what| differs(&what))
    }
}

/// SHA-256 of the object file of the kernel's programs for links.
pub(super) fn kernel_object() -> String {
    hex::encode(Sha256::digest(KernelPrograms::link_object()))
}

/// The same of those for cells.
pub(super) fn cell_object() -> String {
    hex::encode(Sha256::digest(KernelPrograms::cell_object()))
}

/// Whether this program knows the programs that are loaded: its own are these. They stay: only a gateway that begins may load some.
fn check_kernel_object(loaded: Option<&str>, own: &str) -> Result<(), String> {
    if loaded.is_some_and(|object| object != own) {
        return Err("the running gateway has other programs in the kernel; restart it instead".into());
    }
    Ok(())
}

/// A file in memory with the document, which the next program finds open.
pub(super) fn in_memory(document: &[u8]) -> io::Result<OwnedFd> {
    let mut file = passed_on::unlinked_file()?;
    file.write_all(document)?;
    file.rewind()?;
    Ok(file.into())
}

/// What the program before this one has passed on, if there was one.
///
/// # Errors
/// Why it cannot be read.
pub fn take_passed() -> Result<Option<Passed>, String> {
    let Some(number) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let number = number.to_str().and_then(|number| number.parse().ok());
    let failed = |error: io::Error| format!("the running gateway's state cannot be read: {error}");
    let file = passed_on::take(number.unwrap_or(-1)).map_err(failed)?;
    let mut document = Vec::new();
    File::from(file).take(LONGEST).read_to_end(&mut document).map_err(failed)?;
    Passed::parse(&document).map(Some)
}

impl Passed {
    /// The locks of the state directory and of the control socket.
    pub(in crate::run) fn take_locks(&self) -> io::Result<[File; 2]> {
        let [state, socket] = self.gateway.locks;
        Ok([passed_on::take(state)?.into(), passed_on::take(socket)?.into()])
    }

    /// The directory and the versions, as the agent of its fleet has seen them, and the lock of the agent's state; none if it is in no fleet.
    ///
    /// # Errors
    /// If the lock was not passed on.
    pub fn take_fleet(&self) -> Result<Option<(FleetReport, Option<File>)>, String> {
        let Some(PassedFleet { lock, seen, on_box: _ }) = &self.gateway.fleet else { return Ok(None) };
        let lock = lock.map(passed_on::take).transpose();
        let lock =
            lock.map_err(|error| format!("the lock of the fleet's agent cannot be passed on: {error}"))?;
        Ok(Some((seen.clone(), lock.map(File::from))))
    }

    /// Zero of the protocols' clock.
    pub(in crate::run) fn clock_start(&self) -> Instant {
        let age = monotonic_microseconds().saturating_sub(self.gateway.clock_us);
        let now = Instant::now();
        now.checked_sub(Duration::from_micros(u64::try_from(age).unwrap_or(0))).unwrap_or(now)
    }

    /// Programs of the kernel that no link has.
    ///
    /// # Errors
    /// Why they cannot be taken over.
    pub fn kernel_programs(&self) -> Result<KernelPrograms, String> {
        let programs = self.gateway.programs.as_ref().map(KernelPrograms::go_on);
        programs.transpose().map(Option::unwrap_or_default).map_err(|error| error.to_string())
    }

    /// Moments of the last valid frames, by link.
    pub(in crate::run) fn last_valid(&self) -> impl Iterator<Item = (String, LastValid)> {
        self.links.iter().map(|link| (link.name.clone(), link.last_valid.clone()))
    }

    /// Capabilities that programs inherit which are started, as they were before.
    pub fn inherited(&self) -> [u64; 2] {
        self.gateway.inherited
    }
}

/// A moment on the machine's monotonic clock, in microseconds. That clock goes on, whatever program runs in this process.
pub(super) fn clock_since(moment: Instant) -> i64 {
    let age = i64::try_from(moment.elapsed().as_micros()).unwrap_or(i64::MAX);
    monotonic_microseconds().saturating_sub(age)
}

fn monotonic_microseconds() -> i64 {
    // Every Linux has it; without it timers would begin anew.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| now.num_microseconds())
}

/// The number of a descriptor.
pub(super) fn number(descriptor: &OwnedFd) -> RawFd {
    descriptor.as_raw_fd()
}

#[cfg(test)]
mod tests;
