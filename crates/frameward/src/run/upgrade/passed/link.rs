//! A link of a gateway that is passed on: its interfaces, ports, keys and counters.

use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;

use config::{Keys, Link, StaticSas};
use control::{
    ExpressPns, HaltedKeys, HaltedLink, PassedAgreement, PassedCell, PassedKernelLink, TransmitLease,
};
use netdev::interface::InterfaceError;
use netdev::passed_on::{PassedInterface, PassedPort, PassedPorts};
use pnstore::{FIRST_BLOCK_PNS, PnBlock, Reservation, UnmarkedKey};
use report::recent::LastValid;
use serde::{Deserialize, Serialize};
use wire::Pn;

use crate::run::agreement::caks;
use crate::run::static_keys::Granted;

/// A link.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::run) struct PassedLink {
    pub(super) name: String,
    /// Plain and protected; of a link inside of a site the plain one alone.
    pub(in crate::run) interfaces: Vec<PassedInterface>,
    /// Nothing where it is only judged, and of a link inside of a site: others are opened for it.
    pub(super) ports: Option<PassedPorts>,
    pub(super) keys: PassedKeys,
    /// Counters and receive state ([`dataplane::link::Link::pass_on`]); nothing where it is only judged.
    pub(in crate::run) words: Vec<u64>,
    pub(in crate::run) fallback: Option<String>,
    /// Its programs in the kernel, if it has some. They stand aside.
    pub(in crate::run) programs: Option<PassedKernelLink>,
    /// Its cell, if it has one.
    pub(super) cell: Option<Box<PassedCell>>,
    /// Whether its KaY says that programs take its SAs.
    pub(in crate::run) kay_in_kernel: bool,
    /// Moments of the last valid frames, since the gateway's start.
    pub(in crate::run) last_valid: LastValid,
}

/// Facts of a link that only the main thread knows.
pub(in crate::run) struct AboutLink {
    /// Its prepared interfaces, as in [`PassedLink`].
    pub(in crate::run) interfaces: Vec<PassedInterface>,
    pub(in crate::run) fallback: Option<String>,
    pub(in crate::run) kay_in_kernel: bool,
    pub(in crate::run) last_valid: LastValid,
}

/// The keys of a link.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum PassedKeys {
    Static {
        transmit: Transmit,
        /// The transmit SA of its express SC, if it has one.
        express: Option<ExpressTransmit>,
        /// Names of the receive SAs' leases, in hexadecimal digits, in the order of the configuration: of other keys a replay window says
        /// nothing.
        receive: Vec<String>,
        /// A key that could not be marked as used, and why.
        unmarked: Option<(PathBuf, String)>,
    },
    /// None: its link has taken it.
    Agreed(Option<Box<PassedAgreement>>),
    /// There are none: nothing but the frames of its cell passes.
    None,
}

/// The transmit SA of static keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Transmit {
    /// Name of its lease, in hexadecimal digits.
    pub(super) lease: String,
    pub(super) an: u8,
    /// Its next PN, and the last one that is reserved.
    pub(super) next: u64,
    pub(super) through: u64,
    /// PNs of its latest block: the next one is as large as the program before would have had it.
    pub(super) block: NonZeroU64,
}

/// The transmit SA of an express SC.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ExpressTransmit {
    /// Name of its lease, in hexadecimal digits.
    lease: String,
    /// Its next PN, if one is left, and the last one that is reserved.
    next: Option<u64>,
    through: u64,
}

impl ExpressTransmit {
    fn of(ExpressPns { lease: TransmitLease { name, through, .. }, next }: &ExpressPns) -> Self {
        let lease = hex::encode(name.octets());
        Self { lease, next: next.map(Pn::number), through: through.number() }
    }

    fn reservation(&self) -> Reservation {
        let block = self.next.and_then(Pn::new).zip(Pn::new(self.through));
        block.map_or(Reservation::Exhausted, |(first, last)| Reservation::Block(PnBlock { first, last }))
    }
}

impl PassedKeys {
    /// Checks that a link has these keys; the error names those of the running gateway.
    pub(super) fn check(&self, link: &Link) -> Result<(), String> {
        match (self, &link.keys) {
            (Self::Static { transmit, express, receive, .. }, Keys::Static(sas)) => {
                let own = link.express_sas().map(|sas| hex::encode(sas.transmit.lease_name().octets()));
                if own.as_ref() != express.as_ref().map(|of| &of.lease) {
                    return Err("another key of express frames".into());
                }
                if receive_leases(sas) != *receive {
                    return Err("another key to receive with".into());
                }
                let same_lease = hex::encode(sas.transmit.lease_name().octets()) == transmit.lease;
                if !same_lease || usize::from(transmit.an) != sas.transmit.an.index() {
                    return Err("another key".into());
                }
                transmit.block().map(drop).ok_or_else(|| "no packet numbers".into())
            }
            (Self::Agreed(Some(agreement)), Keys::Agreed(mka)) => {
                agreement.check_caks(&caks(mka)).map_err(|_| "another CAK".into())
            }
            (Self::None, Keys::None) => Ok(()),
            _ => Err("keys of another kind".into()),
        }
    }
}

impl Transmit {
    fn block(&self) -> Option<PnBlock> {
        Some(PnBlock { first: Pn::new(self.next)?, last: Pn::new(self.through)? })
    }
}

impl PassedLink {
    /// A link that has left its worker. None if it cannot go on.
    pub(in crate::run::upgrade) fn new(
        halted: &mut HaltedLink,
        config: &Link,
        about: AboutLink,
        unmarked: Option<&UnmarkedKey>,
        programs: Option<PassedKernelLink>,
    ) -> Option<Self> {
        let (ports, words) = match config.in_site {
            true => (None, halted.link.pass_on_without_ports()?),
            false => halted.link.pass_on().map(|(ports, words)| (Some(ports), words))?,
        };
        let keys = match &mut halted.keys {
            HaltedKeys::Static { lease: TransmitLease { name, an, through, .. }, block, express } => {
                let secy = &halted.link.pipeline().secy;
                let pns = secy.transmit_sas().find(|sa| sa.an() == *an)?.pns();
                // A block that never reached the SA is not its own.
                let next = pns.next().filter(|_| pns.reserved() <= *through)?;
                let transmit = Transmit {
                    lease: hex::encode(name.octets()),
                    an: an.index() as u8,
                    next: next.number(),
                    through: through.number(),
                    block: *block,
                };
                let unmarked =
                    unmarked.map(|UnmarkedKey { key_file, error }| (key_file.clone(), error.to_string()));
                let express = express.as_ref().map(ExpressTransmit::of);
                let receive = receive_leases(config.static_sas()?);
                PassedKeys::Static { transmit, express, receive, unmarked }
            }
            HaltedKeys::Agreed(agreement) => PassedKeys::Agreed(Some(agreement.take()?)),
            HaltedKeys::None => PassedKeys::None,
        };
        let cell = halted.cell.take();
        if cell.is_some() != config.cell.is_some() {
            return None;
        }
        let at_rest = Self::at_rest(halted.name.clone(), about, keys, cell);
        Some(Self { ports, words, programs, ..at_rest })
    }

    /// The same without what only moves: to be judged. None if it cannot go on, or something is under way.
    pub(in crate::run::upgrade) fn judged(
        link: &Link,
        control: &control::Gateway,
        about: AboutLink,
    ) -> Option<Self> {
        let keys = match &link.keys {
            Keys::Static(sas) => {
                let transmit = Transmit {
                    lease: hex::encode(sas.transmit.lease_name().octets()),
                    an: sas.transmit.an.index() as u8,
                    next: 1,
                    through: 1,
                    block: FIRST_BLOCK_PNS,
                };
                let express = link.express_sas().map(|sas| ExpressTransmit {
                    lease: hex::encode(sas.transmit.lease_name().octets()),
                    next: Some(1),
                    through: 1,
                });
                PassedKeys::Static { transmit, express, receive: receive_leases(sas), unmarked: None }
            }
            Keys::Agreed(_) => PassedKeys::Agreed(Some(control.agreement_to_be_judged(&link.name)?)),
            Keys::None => PassedKeys::None,
        };
        let cell = control.cell_to_be_judged(&link.name);
        if cell.is_some() != link.cell.is_some() {
            return None;
        }
        Some(Self::at_rest(link.name.clone(), about, keys, cell))
    }

    /// Without ports, counters and programs.
    fn at_rest(name: String, about: AboutLink, keys: PassedKeys, cell: Option<Box<PassedCell>>) -> Self {
        let AboutLink { interfaces, fallback, kay_in_kernel, last_valid } = about;
        let (ports, words, programs) = (None, Vec::new(), None);
        Self { name, interfaces, ports, keys, words, fallback, programs, cell, kay_in_kernel, last_valid }
    }

    /// Whether it is this link's.
    pub(in crate::run::upgrade) fn is_of(&self, link: &Link) -> bool {
        self.name == link.name
    }

    /// PNs of the latest block of its transmit SA, and those that the SA may still use, if its keys are static.
    pub(in crate::run) fn latest_block(&self) -> Option<(NonZeroU64, u64)> {
        let PassedKeys::Static { transmit, .. } = &self.keys else { return None };
        Some((transmit.block, transmit.through.saturating_sub(transmit.next).saturating_add(1)))
    }

    /// PNs and marks with which its static keys go on.
    pub(in crate::run) fn granted(&self, link: &Link, sas: &StaticSas) -> Granted {
        let PassedKeys::Static { transmit, express, unmarked, .. } = &self.keys else {
            unreachable!("invariant: its keys are those of its configuration")
        };
        let reservation = transmit.block().map_or(Reservation::Exhausted, Reservation::Block);
        let unmarked = unmarked.clone();
        let unmarked = unmarked.map(|(key_file, why)| UnmarkedKey { key_file, error: io::Error::other(why) });
        let express_sas = link.express_sas();
        let receive = sas.receive.len() + express_sas.map_or(0, |sas| sas.receive.len());
        let reservations = (reservation, express.as_ref().map(ExpressTransmit::reservation));
        Granted::going_on(receive, reservations, unmarked)
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

/// Reason for which a link as it is configured cannot go on in the next program, if there is one.
pub(in crate::run::upgrade) fn why_not(link: &Link) -> Option<&'static str> {
    let reasons = [
        (!link.has_secy() && link.cell.is_none(), "it has no keys"),
        (link.mka().is_some_and(|mka| mka.record.is_some()), "its key agreement is recorded (record)"),
        (link.fragmentation.is_some_and(|how| !how.hold.is_zero()), "it holds frames back (hold)"),
    ];
    reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
}

/// Names of the receive SAs' leases.
fn receive_leases(sas: &StaticSas) -> Vec<String> {
    sas.receive.iter().map(|sa| hex::encode(sa.lease_name().octets())).collect()
}
