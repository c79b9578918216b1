//! State that a gateway passes on to the next program of its process: one JSON document, in memory alone.
//!
//! There is no key in it: the next program reads those of its configuration, and names of leases show that they are the same.
//! Descriptors are numbers here; [`netdev::passed_on`] has what they are.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;

use config::suite_speed::{Antedating, SuiteSpeeds};
use config::{Config, Link, StaticSas};
use control::{HaltedLink, TransmitLease};
use dataplane::fragmenter::FragmenterCounters;
use dataplane::pipeline::PipelineCounters;
use netdev::interface::InterfaceError;
use netdev::passed_on::{self, PassedInterface, PassedPort, PassedPorts};
use netdev::port::PortCounters;
use pnstore::{FIRST_BLOCK_PNS, PnBlock, Reservation, UnmarkedKey};
use report::{Baseline, ReloadReport, UpgradeReport};
use secy::{ReceiveSaCounters, SecYCounters, TransmitSaCounters};
use serde::{Deserialize, Serialize};
use wire::Pn;

use super::super::static_keys::Granted;

/// Format of this document. Another one is refused, whatever is different.
const FORMAT: u32 = 2;
/// Variable with the descriptor of the document, in the environment of the next program.
pub(super) const VARIABLE: &str = "FRAMEWARD_PASSED_ON";
/// The longest document that is read.
const LONGEST: u64 = 64 << 20;

/// What the words of a link and its memory are, as far as no document says it: names of counters in their order, sizes of shared memory. A
/// program for which it is another one refuses before anything is touched.
fn layout() -> Vec<String> {
    let counters = [
        PortCounters::NAMES,
        PipelineCounters::NAMES,
        FragmenterCounters::NAMES,
        SecYCounters::NAMES,
        TransmitSaCounters::NAMES,
        ReceiveSaCounters::NAMES,
    ];
    let sizes = passed_on::LAYOUT.iter().map(ToString::to_string);
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
    /// This upgrade, as it looks if it succeeds.
    pub(in crate::run) upgrade: UpgradeReport,
    pub(in crate::run) reload: Option<ReloadReport>,
    pub(in crate::run) baseline: Option<Baseline>,
    pub(in crate::run) speeds: SuiteSpeeds,
    pub(in crate::run) antedating: Antedating,
}

/// A link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::run) struct PassedLink {
    name: String,
    /// Plain and protected.
    pub(in crate::run) interfaces: [PassedInterface; 2],
    /// Nothing where it is only judged.
    ports: Option<PassedPorts>,
    transmit: Transmit,
    /// Names of the receive SAs' leases, in hexadecimal digits, in the order of the configuration: of other keys a replay window says nothing.
    receive: Vec<String>,
    /// A key that could not be marked as used, and why.
    unmarked: Option<(PathBuf, String)>,
    /// What it has counted and received ([`dataplane::link::Link::pass_on`]); nothing where it is only judged.
    pub(in crate::run) words: Vec<u64>,
    pub(in crate::run) fallback: Option<String>,
}

/// The transmit SA of static keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Transmit {
    /// Name of its lease, in hexadecimal digits.
    lease: String,
    an: u8,
    /// Its next PN, and the last one that is reserved.
    next: u64,
    through: u64,
    /// PNs of its latest block: the next one is as large as the program before would have had it.
    block: NonZeroU64,
}

impl Passed {
    pub(super) fn new(gateway: PassedGateway, links: Vec<PassedLink>) -> Self {
        Self { format: FORMAT, layout: layout(), version: env!("CARGO_PKG_VERSION").into(), gateway, links }
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
            let of_interface =
                |of: &PassedInterface| of.descriptors.into_iter().chain(of.guards.into_iter().flatten());
            let of_ports = |of: &PassedPorts| {
                let ports = of.ports.iter().flat_map(PassedPort::descriptors);
                ports.chain([of.pool.file]).collect::<Vec<_>>()
            };
            link.interfaces.iter().flat_map(of_interface).chain(link.ports.iter().flat_map(of_ports))
        });
        self.gateway.locks.into_iter().chain(self.gateway.machine).chain(of_links).collect()
    }

    /// Whether a program with this configuration can go on with all of it: each link has its names and keys.
    pub(super) fn judge(&self, config: &Config) -> Result<(), String> {
        if !config.sites.is_empty() || config.links.len() != self.links.len() {
            return Err("the configuration has other links or sites than the running gateway".into());
        }
        config.links.iter().try_for_each(|link| self.link(link).map(drop))
    }

    /// What there is for a link.
    pub(in crate::run) fn link(&self, link: &Link) -> Result<&PassedLink, String> {
        let differs = |what: &str| format!("link {:?}: the running gateway has {what}", link.name);
        let passed = self.links.iter().find(|passed| passed.name == link.name);
        let passed = passed.ok_or_else(|| differs("no such link"))?;
        if !link.interfaces().eq(passed.interfaces.iter().map(|interface| &interface.name)) {
            return Err(differs("other interfaces"));
        }
        let sas = link.static_sas().filter(|_| why_not(link).is_none());
        let sas = sas.ok_or_else(|| differs("static keys, and nothing beside"))?;
        if receive_leases(sas) != passed.receive {
            return Err(differs("another key to receive with"));
        }
        let transmit = &sas.transmit;
        let same_lease = hex::encode(transmit.lease_name().octets()) == passed.transmit.lease;
        if !same_lease || usize::from(passed.transmit.an) != transmit.an.index() {
            return Err(differs("another key"));
        }
        passed.block().map(|_| passed).ok_or_else(|| differs("no packet numbers"))
    }
}

/// Why a link as it is configured cannot go on in the next program, if it cannot.
pub(super) fn why_not(link: &Link) -> Option<&'static str> {
    let reasons = [
        (link.in_site, "it is inside of a site"),
        (link.cell.is_some(), "it has a [[fieldbus]]"),
        (link.mka().is_some(), "its keys are agreed on ([link.mka])"),
        (link.express, "it has express SCs"),
        (link.fragmentation.is_some(), "it splits frames, or puts several into one"),
    ];
    reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
}

/// Names of the receive SAs' leases.
fn receive_leases(sas: &StaticSas) -> Vec<String> {
    sas.receive.iter().map(|sa| hex::encode(sa.lease_name().octets())).collect()
}

impl PassedLink {
    /// A link that has left its worker. `interfaces` are its prepared ones, plain and protected. None if it cannot go on.
    pub(super) fn new(
        halted: &mut HaltedLink,
        sas: &StaticSas,
        interfaces: [PassedInterface; 2],
        fallback: Option<String>,
        unmarked: Option<&UnmarkedKey>,
    ) -> Option<Self> {
        let (ports, words) = halted.link.pass_on()?;
        let TransmitLease { name, an, through, .. } = halted.lease;
        let secy = &halted.link.pipeline().secy;
        let pns = secy.transmit_sas().find(|sa| sa.an() == an)?.pns();
        // A block that never reached the SA is not its own.
        let next = pns.next().filter(|_| pns.reserved() <= through)?;
        Some(Self {
            name: halted.name.clone(),
            interfaces,
            ports: Some(ports),
            transmit: Transmit {
                lease: hex::encode(name.octets()),
                an: an.index() as u8,
                next: next.number(),
                through: through.number(),
                block: halted.block,
            },
            receive: receive_leases(sas),
            unmarked: unmarked.map(|UnmarkedKey { key_file, error }| (key_file.clone(), error.to_string())),
            words,
            fallback,
        })
    }

    /// The same without what only moves: to be judged.
    pub(super) fn judged(
        link: &Link,
        sas: &StaticSas,
        interfaces: [PassedInterface; 2],
        fallback: Option<String>,
    ) -> Self {
        Self {
            name: link.name.clone(),
            interfaces,
            ports: None,
            transmit: Transmit {
                lease: hex::encode(sas.transmit.lease_name().octets()),
                an: sas.transmit.an.index() as u8,
                next: 1,
                through: 1,
                block: FIRST_BLOCK_PNS,
            },
            receive: receive_leases(sas),
            unmarked: None,
            words: Vec::new(),
            fallback,
        }
    }

    fn block(&self) -> Option<PnBlock> {
        Some(PnBlock { first: Pn::new(self.transmit.next)?, last: Pn::new(self.transmit.through)? })
    }

    /// PNs of the latest block of its transmit SA.
    pub(in crate::run) const fn latest_block(&self) -> NonZeroU64 {
        self.transmit.block
    }

    /// What its static keys go on with.
    pub(in crate::run) fn granted(&self, sas: &StaticSas) -> Granted {
        let reservation = self.block().map_or(Reservation::Exhausted, Reservation::Block);
        let unmarked = self.unmarked.clone();
        let unmarked = unmarked.map(|(key_file, why)| UnmarkedKey { key_file, error: io::Error::other(why) });
        Granted::going_on(sas, reservation, unmarked)
    }

    /// The MTU of an interface of its ports. Those take it only if it is so still.
    pub(in crate::run) fn mtu(&self, interface: &str) -> Result<usize, InterfaceError> {
        let mut ports = self.ports.iter().flat_map(|of| self.interfaces.iter().zip(&of.ports));
        match ports.find(|(of, _)| of.name == interface) {
            Some((_, PassedPort::AfPacket(port))) => Ok(port.mtu as usize),
            Some((_, PassedPort::AfXdp(port))) => Ok(port.mtu as usize),
            None => Err(InterfaceError::Missing { name: interface.to_owned() }),
        }
    }

    /// Its ports.
    pub(in crate::run) fn ports(&self) -> Result<&PassedPorts, String> {
        self.ports.as_ref().ok_or_else(|| format!("link {:?} has no ports", self.name))
    }
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

    /// Capabilities that programs inherit which are started, as they were before.
    pub fn inherited(&self) -> [u64; 2] {
        self.gateway.inherited
    }
}

/// The number of a descriptor.
pub(super) fn number(descriptor: &OwnedFd) -> RawFd {
    descriptor.as_raw_fd()
}

#[cfg(test)]
mod tests;
