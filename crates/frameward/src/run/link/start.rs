//! From a configuration to open ports ([`ReadyLink`]), with keys ([`StartedLink`]), to a worker.

use std::fmt;
use std::time::Instant;

use control::{
    KeyAgreement, NotGoneOn, PassedAgreement, PassedCell, PassedKernelLink, Recorder, StaticKeys,
    TransmitLease,
};
use dataplane::link::{Link as Forwarding, Ports};
use dataplane::open::{self, OpenError, OpenPorts, open_ports, open_secured_lan};
use dataplane::pipeline::Pipeline;
use netdev::interface::{Prepared, Tolerated};
use netdev::passed_on::PassedInterface;
use pnstore::{LeaseError, UnmarkedKey, UnusedPns};
use secy::SecY;
use wire::{MacAddr, Pn, Sci};

use super::super::agreement::{key_agreement, recorder};
use super::super::cell::settings;
use super::super::interface_settings::{InterfaceSettings, OwnInterface};
use super::super::static_keys::{Begun, Granted, floors, secy};
use super::super::upgrade::PassedLink;
use super::super::{Measured, RunError};
use super::{About, RunningLink, is_for_kernel};
use config::check::{IN_SITE_OCTETS, Mtus};
use config::{Gateway, Io, Keys, Link, StaticSas};

/// A link whose interfaces are prepared and whose ports are open: all that can fail but its keys.
pub(in crate::run) struct ReadyLink {
    ports: Box<Ports>,
    /// Behind the ports: they are closed before their interfaces are put back.
    prepared: [Option<OwnInterface>; 2],
    mtus: Mtus,
    /// The address of the protected interface.
    source: MacAddr,
    fallback: Option<String>,
    record: Option<Recorder>,
    /// Programs are expected to take its SAs.
    in_kernel: bool,
    going_on: Option<GoingOn>,
}

/// State of a link in the program before this one, with which it goes on.
struct GoingOn {
    /// Counters and receive state.
    words: Vec<u64>,
    programs: Option<PassedKernelLink>,
    cell: Option<Box<PassedCell>>,
}

/// A link that is ready to be given to a worker.
pub(in crate::run) struct StartedLink {
    pipeline: Pipeline,
    ports: Box<Ports>,
    keys: StartedKeys,
    about: About,
    in_kernel: bool,
    going_on: Option<GoingOn>,
    /// Behind the ports: they are closed before their interfaces are put back.
    prepared: [Option<OwnInterface>; 2],
    fallback: Option<String>,
    unmarked: Option<UnmarkedKey>,
}

/// Why a link inside of a site waits that could be started otherwise.
pub(in crate::run) const NO_SITE: &str = "its site is not started yet";

/// Why a link cannot go on whose relations would go another way.
pub(in crate::run) const OTHER_CELL: &str = "the running gateway has it with a [[fieldbus]], or without one";

/// Source of its keys.
enum StartedKeys {
    Static(StaticKeys),
    Agreed(Box<KeyAgreement>),
    /// The same, of a member that goes on.
    GoingOn(Box<KeyAgreement>, Box<PassedAgreement>),
    None,
}

/// Opens the ports of a link. Without a protected interface it is inside of a site.
pub(super) fn open_sides(
    plain: &Prepared,
    protected: Option<&Prepared>,
    gateway: &Gateway,
) -> Result<OpenPorts, OpenError> {
    match protected {
        Some(protected) => open_ports([plain, protected], io(gateway.io)),
        None => open_secured_lan(plain, io(gateway.io), IN_SITE_OCTETS),
    }
}

impl ReadyLink {
    /// Prepares a link's interfaces and opens its ports.
    pub(in crate::run) fn open(
        gateway: &Gateway,
        link: &Link,
        mtus: Mtus,
        control: &control::Gateway,
        settings: &InterfaceSettings,
    ) -> Result<Self, RunError> {
        let failed = |source| RunError::Open { link: link.name.clone(), source };
        let allowed = allowed(gateway, link.allow_addresses);
        let prepare = |name| settings.prepare(name, allowed).map_err(|error| failed(error.into()));
        let plain = prepare(&link.plain)?;
        let protected = if link.in_site { None } else { Some(prepare(&link.protected)?) };
        let source = MacAddr(protected.as_ref().unwrap_or(&plain).interface().mac());
        let OpenPorts { ports, fallback } =
            open_sides(&plain, protected.as_deref(), gateway).map_err(failed)?;
        let record = match &link.keys {
            Keys::Agreed(mka) => {
                let (name, path) = (link.name.clone(), mka.record.clone());
                let recorder = move || path.map(|path| recorder(&name, &path)).transpose();
                let opened =
                    settings.open_record(&link.protected, recorder).map_err(|error| failed(error.into()))?;
                opened.map_err(RunError::Record)?
            }
            Keys::Static(_) | Keys::None => None,
        };
        Ok(Self {
            ports: Box::new(ports),
            prepared: [Some(plain), protected],
            mtus,
            source,
            fallback,
            record,
            in_kernel: is_for_kernel(link, mtus, gateway.io, control),
            going_on: None,
        })
    }

    /// Goes on with a link of the program before this one. Nothing of its interfaces is changed.
    pub(in crate::run) fn go_on(
        gateway: &Gateway,
        link: &Link,
        mtus: Mtus,
        (passed, cell): (&PassedLink, Option<Box<PassedCell>>),
        settings: &InterfaceSettings,
    ) -> Result<Self, RunError> {
        let failed = |source| RunError::Open { link: link.name.clone(), source };
        let go_on = |passed: &PassedInterface| settings.go_on(passed).map_err(|error| failed(error.into()));
        let prepared = passed.interfaces.iter().map(go_on).collect::<Result<Vec<_>, _>>()?;
        let opened = match prepared.as_slice() {
            [plain, protected] => {
                let ports = passed.ports().map_err(RunError::PassedOn)?;
                open::go_on_with_ports([plain, protected], ports, passed.fallback.clone())
            }
            [plain] => open_sides(plain, None, gateway),
            _ => return Err(RunError::PassedOn(format!("link {:?} has other interfaces", link.name))),
        };
        let OpenPorts { ports, fallback } = opened.map_err(failed)?;
        let source = prepared.last().map_or([0; 6], |outermost| outermost.interface().mac());
        let mut prepared = prepared.into_iter().map(Some);
        Ok(Self {
            ports: Box::new(ports),
            source: MacAddr(source),
            prepared: [prepared.next().flatten(), prepared.next().flatten()],
            mtus,
            fallback,
            record: None,
            in_kernel: passed.kay_in_kernel,
            going_on: Some(GoingOn { words: passed.words.clone(), programs: passed.programs.clone(), cell }),
        })
    }

    /// Gives it keys: static ones begin with what is granted them on disk, and key agreement with what was passed on, if that was.
    pub(in crate::run) fn begin(
        self,
        link: &Link,
        grant: impl FnOnce(&StaticSas) -> Result<Granted, LeaseError>,
        passed: Option<Box<PassedAgreement>>,
        measured: &Measured,
    ) -> Result<StartedLink, RunError> {
        let Self { ports, prepared, mtus, source, fallback, record, in_kernel, going_on } = self;
        let place = Place { mtus, source, in_kernel };
        let Keyed { secy, keys, began, unmarked } = Keyed::new(link, place, grant, passed, record, measured)?;
        let about = About::new(mtus, &ports, secy.sci(), source, (Instant::now(), began));
        let pipeline = pipeline(link, secy);
        Ok(StartedLink { pipeline, ports, keys, about, in_kernel, going_on, prepared, fallback, unmarked })
    }
}

/// Interfaces of a link, as far as its keys depend on them.
struct Place {
    mtus: Mtus,
    /// The address of the protected interface.
    source: MacAddr,
    /// Programs are expected to take its SAs.
    in_kernel: bool,
}

/// The SecY of a link with its keys.
struct Keyed {
    secy: SecY,
    keys: StartedKeys,
    /// The first PN that it sends with.
    began: Pn,
    unmarked: Option<UnmarkedKey>,
}

impl Keyed {
    fn new(
        link: &Link,
        Place { mtus, source, in_kernel }: Place,
        grant: impl FnOnce(&StaticSas) -> Result<Granted, LeaseError>,
        passed: Option<Box<PassedAgreement>>,
        record: Option<Recorder>,
        measured: &Measured,
    ) -> Result<Self, RunError> {
        let (secy, keys, began, unmarked) = match &link.keys {
            Keys::Static(sas) => {
                let mut granted = grant(sas)?;
                let Some(Begun { lease, block, unmarked }) = granted.begun(&link.name, sas)? else {
                    unreachable!("invariant: a block was asked for")
                };
                let secy = secy(link, sas, mtus, Some(block), &granted, measured.antedating.on);
                let express = granted.begun_express(link);
                let keys = StaticKeys { transmit: lease, express, receive: floors(link) };
                (secy, StartedKeys::Static(keys), block.first, unmarked)
            }
            Keys::Agreed(mka) => {
                let sci = mka.sci_on(source);
                let agreement = key_agreement(link, mka, (sci, source), mtus, measured, in_kernel);
                let agreement = KeyAgreement { record, ..agreement };
                let agreement = Box::new(agreement);
                let keys = match passed {
                    Some(passed) => StartedKeys::GoingOn(agreement, passed),
                    None => StartedKeys::Agreed(agreement),
                };
                (bare_secy(link, sci, mtus), keys, Pn::FIRST, None)
            }
            // Nothing reaches this SecY: any SCI does.
            Keys::None => {
                let sci = Sci::new(source, Sci::PORT_END_STATION);
                (bare_secy(link, sci, mtus), StartedKeys::None, Pn::FIRST, None)
            }
        };
        Ok(Self { secy, keys, began, unmarked })
    }
}

/// Takes what is passed on for a link as a start does, into a link without ports that nobody has: the keys and the state of key agreement.
///
/// # Errors
/// Why the link cannot go on with it.
pub(in crate::run) fn try_to_go_on(
    link: &Link,
    (mtus, source): (Mtus, MacAddr),
    passed: &PassedLink,
    agreement: Option<Box<PassedAgreement>>,
    measured: &Measured,
    clock_start: Instant,
) -> Result<(), String> {
    let place = Place { mtus, source, in_kernel: passed.kay_in_kernel };
    let grant = |sas: &StaticSas| Ok(passed.granted(link, sas));
    let keyed = Keyed::new(link, place, grant, agreement, None, measured);
    let Keyed { secy, keys, .. } = keyed.map_err(|error| error.to_string())?;
    let forwarding = Forwarding::closed(pipeline(link, secy));
    match keys {
        StartedKeys::GoingOn(agreement, passed) => passed.try_to_go_on(forwarding, *agreement, clock_start),
        StartedKeys::Static(_) | StartedKeys::Agreed(_) | StartedKeys::None => Ok(()),
    }
}

impl StartedLink {
    /// The PNs that it has begun with, for it is not to be.
    pub(in crate::run) fn unused(&self) -> impl Iterator<Item = UnusedPns> {
        let keys = if let StartedKeys::Static(keys) = &self.keys { Some(keys) } else { None };
        let main = keys.map(|keys| (keys.transmit, self.about.began.1));
        let express = keys.and_then(|keys| keys.express).and_then(|of| Some((of.lease, of.next?)));
        let unused =
            |(lease, next): (TransmitLease, Pn)| UnusedPns { name: lease.name, next, through: lease.through };
        main.into_iter().chain(express).map(unused)
    }

    /// Gives the link to a worker: frames flow from here on, or as soon as there are keys. If that fails the ports are
    /// closed.
    pub(in crate::run) fn give_to(
        self,
        running: &mut RunningLink,
        control: &mut control::Gateway,
        io: Io,
    ) -> Result<(), RunError> {
        let Self { pipeline, ports, keys, about, in_kernel, going_on, prepared, fallback, unmarked } = self;
        let name = running.config.name.clone();
        (running.about, running.prepared) = (about, prepared);
        (running.fallback, running.unmarked, running.kay_in_kernel) = (fallback, unmarked, in_kernel);
        running.let_settle();
        if running.config.in_site && !control.has_site(&name) {
            // Its ports are closed before their interface is put back.
            drop(ports);
            let _ = running.put_back();
            return Err(RunError::Site(format!("link {name:?}: {NO_SITE}")));
        }
        // A cell is there before the first frame: none of its relations' goes another way.
        let forwarding = Forwarding::closed(pipeline);
        let words = going_on.as_ref().map(|going_on| &*going_on.words).unwrap_or_default();
        let added = keys.give_with(name.clone(), forwarding, words, control);
        let cell = settings(&running.config, running.about.mtus, io);
        let started = added.and_then(|()| {
            let failed =
                |error: &dyn fmt::Display| RunError::Cell { link: name.clone(), why: error.to_string() };
            let Some(GoingOn { programs, cell: passed_cell, .. }) = going_on else {
                cell.map_or(Ok(()), |cell| control.add_cell(&name, cell)).map_err(|error| failed(&error))?;
                running.set_place(control, io).map_err(RunError::LinkPlace)?;
                return control.open(&name, ports).map_err(|error| failed(&error));
            };
            match (cell, passed_cell) {
                (None, None) => {}
                (Some(settings), Some(passed)) => {
                    control.go_on_with_cell(&name, settings, *passed).map_err(|error| failed(&error))?;
                }
                _ => return Err(RunError::PassedOn(format!("link {name:?}: {OTHER_CELL}"))),
            }
            // Frames that wait in its ports are the worker's.
            control.open_going_on(&name, ports).map_err(|error| failed(&error))?;
            let passed = |error: &dyn fmt::Display| RunError::PassedOn(format!("link {name:?}: {error}"));
            let programs = programs.map(|programs| control.go_on_with_programs(&name, &programs));
            programs.transpose().map_err(|error| passed(&error))?;
            running.set_place(control, io).map_err(RunError::LinkPlace)
        });
        if started.is_err() {
            // If it does not answer either, there is nothing of it to take away.
            let _ = control.remove(&name);
            // It may be started again; what cannot be put back now is put back by the next start.
            let _ = running.put_back();
            return started;
        }
        (running.is_seated, running.waiting) = (true, None);
        Ok(())
    }
}

impl StartedKeys {
    /// Gives control a link with these keys. `words`: what the link has counted and received, if it goes on.
    fn give_with(
        self,
        name: String,
        mut link: Forwarding,
        words: &[u64],
        control: &mut control::Gateway,
    ) -> Result<(), RunError> {
        let failed = |error: &dyn fmt::Display| RunError::PassedOn(format!("link {name:?}: {error}"));
        // With key agreement they come behind the SAs.
        if !words.is_empty() && matches!(self, Self::Static(_) | Self::None) {
            link.go_on(words).map_err(|error| failed(&error))?;
        }
        let added = match self {
            Self::Static(keys) => control.add(name, link, keys),
            Self::Agreed(agreement) => control.add_agreed(name, link, *agreement),
            Self::GoingOn(agreement, passed) => {
                match control.go_on_agreed(name.clone(), link, *agreement, *passed, words) {
                    Err(NotGoneOn::State(why)) => return Err(failed(&why)),
                    Err(NotGoneOn::System(error)) => Err(error),
                    Ok(()) => Ok(()),
                }
            }
            Self::None => control.add_without_keys(name, link),
        };
        added.map_err(RunError::Thread)
    }
}

/// A link's pipeline around its SecY. What is agreed on says itself how SDUs are fragmented.
pub(in crate::run) fn pipeline(link: &Link, secy: SecY) -> Pipeline {
    Pipeline::new(secy, &link.bypass, link.static_sas().and(link.fragmentation))
}

/// Accepted faults of a port's interface.
pub(in crate::run) const fn allowed(gateway: &Gateway, addresses: bool) -> Tolerated {
    Tolerated { addresses, unguarded: gateway.unguarded }
}

pub(in crate::run) const fn io(io: Io) -> open::Io {
    match io {
        Io::Auto => open::Io::Auto,
        Io::Kernel | Io::AfXdp => open::Io::AfXdp,
        Io::AfPacket => open::Io::AfPacket,
    }
}

/// A SecY without SAs.
pub(in crate::run) fn bare_secy(link: &Link, sci: Sci, mtus: Mtus) -> SecY {
    SecY::new(sci, link.secy_settings(mtus.protected))
}
