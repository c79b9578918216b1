//! An interface made fit for raw forwarding, and put back as it was.
//!
//! | changed | because otherwise | put back |
//! |---|---|---|
//! | IPv6 off | the host sends router solicitations and MLD in clear to the protected side | recorded |
//! | ARP off | the host answers for its addresses on every interface | recorded |
//! | harmful offloads off | merged frames, lost VLAN tags (see `offload`) | recorded |
//! | interface up | nothing is received | recorded |
//! | interface down, while it is held down | the other end is to see that the link is lost | recorded |
//! | tc hooks drop, both ways | whatever else of the host hears or speaks here | tcx: by the kernel, with the process; clsact: recorded |
//! | a marker (see `owner`) | another gateway would take it as well | by the kernel, with the process |
//!
//! The hooks (tcx, Linux 6.6 and later, else [`clsact`]) stop everything that goes through the host's stack; AF_XDP and a
//! packet socket that bypasses the queueing disciplines do not. A kernel with neither is for those who allow it
//! ([`Tolerated`]): there the first two rows must do.
//!
//! All that is recorded is on disk before it is changed. A killed process leaves the record behind, unlocked; the
//! next start puts right what it says.

use std::io;
use std::path::Path;

use super::control::{self, Control};
use super::info::host_use;
use super::link::{self, LinkId};
use super::owner::Owner;
use super::record::{self, Filters, HeldDownNote, Record, RecordFile};
use super::{Interface, InterfaceError, clsact, default_routes, offload, system};
use crate::bpf::{Hook, Link, Program};
use crate::passed_on::{self, PassedInterface};

/// Guard that keeps the host's own stack off an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Programs at the tcx hooks; they end with the process.
    Tcx,
    /// Filters in a `clsact`; they stay until they are put back, also behind a killed process.
    Clsact,
    /// Nothing but that ARP and IPv6 are off.
    None,
}

impl Guard {
    /// For people and scripts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcx => "tcx",
            Self::Clsact => "clsact",
            Self::None => "none",
        }
    }
}

/// Faults of an interface that its owner tolerates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerated {
    /// The box has addresses or default routes on it, which are cut off.
    pub addresses: bool,
    /// Nothing keeps the host's stack off it.
    pub unguarded: bool,
}

/// The guard and what it lives by.
#[derive(Debug)]
enum Guarding {
    Tcx { links: [Link; 2] },
    Clsact,
    None { why: String },
}

/// An interface with its settings changed. Drop or [`Prepared::restore`] puts them back; ports on it are to be
/// closed before.
#[derive(Debug)]
pub struct Prepared {
    interface: Interface,
    record: Record,
    file: RecordFile,
    /// Dropped last: until then nothing of the host gets out.
    guard: Guarding,
    remaining_offloads: Vec<String>,
    held_down: bool,
    restored: bool,
    /// Let go of when everything is put back.
    owner: Owner,
}

impl Prepared {
    /// Makes an interface fit for raw forwarding. What a killed process left of it is put right first, so what is
    /// recorded is what was before that one.
    ///
    /// # Errors
    /// If another running process has prepared it, whatever its state directory, if the record cannot be written (then nothing
    /// is changed), or if a setting cannot be changed (then what was changed is put back).
    pub fn apply(interface: Interface, state_dir: &Path) -> Result<Self, InterfaceError> {
        // First of all: nothing is changed, nor put right, on an interface that is somebody else's.
        let owner = Owner::claim(interface.name(), interface.index())?;
        let mut file = RecordFile::lock(state_dir, interface.name())?;
        let interface = match file.read()? {
            None => interface,
            Some(stale) => {
                put_back(&stale)?;
                Interface::open(interface.name())?
            }
        };
        let (record, guard) = match look(&interface) {
            Ok(looked) => looked,
            Err(error) => {
                file.remove()?;
                return Err(error);
            }
        };
        file.write(&record)?;
        let mut prepared = Self {
            interface,
            record,
            file,
            guard,
            remaining_offloads: Vec::new(),
            held_down: false,
            restored: false,
            owner,
        };
        prepared.change()?;
        Ok(prepared)
    }

    /// Opens the interface of that name and makes it fit for raw forwarding, if it is for that.
    ///
    /// # Errors
    /// As [`Interface::open`] and [`Prepared::apply`], and for what is not `allowed`.
    pub fn named(name: &str, state_dir: &Path, allowed: Tolerated) -> Result<Self, InterfaceError> {
        let interface = Interface::open(name)?;
        let routes = default_routes(interface.name());
        if !allowed.addresses
            && let Some(what) = host_use(interface.addresses(), &routes)
        {
            return Err(InterfaceError::Lived { name: interface.name, what });
        }
        let prepared = Self::apply(interface, state_dir)?;
        match &prepared.guard {
            Guarding::None { why } if !allowed.unguarded => {
                Err(InterfaceError::Unguarded { name: prepared.interface.name().into(), why: why.clone() })
            }
            _ => Ok(prepared),
        }
    }

    /// Returns names and descriptors for the next program of this process.
    pub fn pass_on(&self) -> PassedInterface {
        PassedInterface {
            name: self.interface.name().into(),
            index: self.interface.index(),
            descriptors: [self.owner.raw(), self.file.raw()],
            guards: match &self.guard {
                Guarding::Tcx { links } => Some(links.each_ref().map(Link::raw)),
                Guarding::Clsact | Guarding::None { .. } => None,
            },
            remaining_offloads: self.remaining_offloads.clone(),
        }
    }

    /// Goes on with an interface that the program before this one has prepared. Nothing of it is changed.
    ///
    /// # Errors
    /// If it is not that interface any more, or was not passed on.
    pub fn go_on(passed: &PassedInterface, state_dir: &Path) -> Result<Self, InterfaceError> {
        let interface = Interface::as_it_is(&passed.name)?;
        if interface.index() != passed.index {
            return Err(InterfaceError::Missing { name: passed.name.clone() });
        }
        let taken =
            |number| passed_on::take(number).map_err(|source| system(&passed.name, "take it over", source));
        let [marker, file] = passed.descriptors;
        let owner = Owner::go_on(taken(marker)?);
        let mut file = RecordFile::go_on(taken(file)?, state_dir, interface.name());
        let lost =
            || system(interface.name(), "take it over: it has no record", io::ErrorKind::NotFound.into());
        let record = file.read()?.ok_or_else(lost)?;
        let guard = match passed.guards {
            Some([egress, ingress]) => {
                Guarding::Tcx { links: [Link::go_on(taken(egress)?), Link::go_on(taken(ingress)?)] }
            }
            None if record.filters.is_some() => Guarding::Clsact,
            None => Guarding::None { why: "it had no guard before".into() },
        };
        let remaining_offloads = passed.remaining_offloads.clone();
        Ok(Self {
            interface,
            record,
            file,
            guard,
            remaining_offloads,
            held_down: false,
            restored: false,
            owner,
        })
    }

    /// Puts right what killed processes left of any interface that has a record here; interfaces of running ones
    /// are left alone, also those with other state directories, and their records stay. To be called at start, for those that
    /// are no longer configured.
    ///
    /// # Errors
    /// The first failure; the other records have been seen to nevertheless.
    pub fn restore_stale(state_dir: &Path) -> Result<(), InterfaceError> {
        let mut result = Ok(());
        for name in record::recorded(state_dir) {
            match restore_stale_one(state_dir, &name) {
                Err(InterfaceError::InUse { .. } | InterfaceError::Taken { .. }) => {}
                other => result = result.and(other),
            }
        }
        result
    }

    /// The interface, as it was before it was changed.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Harmful offloads that this interface cannot switch off. With `rx-vlan-hw-parse` or `rx-vlan-stag-hw-parse` among them AF_XDP
    /// loses VLAN tags; AF_PACKET does not.
    pub fn remaining_offloads(&self) -> &[String] {
        &self.remaining_offloads
    }

    /// The guard that keeps the host's stack off the interface.
    pub const fn guard(&self) -> Guard {
        match self.guard {
            Guarding::Tcx { .. } => Guard::Tcx,
            Guarding::Clsact => Guard::Clsact,
            Guarding::None { .. } => Guard::None,
        }
    }

    /// Looks at the interface again: its MTU, its queues, its addresses. No port may be open on it.
    ///
    /// # Errors
    /// If it is not there any more, or cannot be used.
    pub fn renew(&mut self) -> Result<(), InterfaceError> {
        let now = Interface::open(self.interface.name())?;
        if now.index() != self.interface.index() {
            return Err(InterfaceError::Missing { name: self.interface.name().into() });
        }
        self.interface = now;
        Ok(())
    }

    /// Takes the interface down, so that the other end of its cable sees it, or up again. Ports on it may stay open:
    /// what they are to send meanwhile is dropped and counted.
    ///
    /// `write` writes the record's note ([`HeldDownNote::write`]), where waiting for the disk harms nobody.
    ///
    /// # Errors
    /// If the record cannot be written (then nothing is changed), or the interface not be changed.
    pub fn hold_down(
        &mut self,
        down: bool,
        write: impl FnOnce(HeldDownNote) -> Result<(), InterfaceError>,
    ) -> Result<(), InterfaceError> {
        let name = self.interface.name();
        let control = Control::open(name)?;
        let change = |set, clear| {
            control.change_flags(set, clear).map_err(|source| system(name, "take it down or up", source))
        };
        if down {
            // One that was down before is put down at the end in any case.
            if !self.record.was_down && !self.record.was_up {
                write(self.file.note(&self.record, true)?)?;
                self.record.was_up = true;
            }
            change(0, libc::IFF_UP)?;
        } else {
            change(libc::IFF_UP, 0)?;
            if self.record.was_up {
                write(self.file.note(&self.record, false)?)?;
                self.record.was_up = false;
            }
        }
        self.held_down = down;
        Ok(())
    }

    /// Whether it is held down.
    pub fn is_held_down(&self) -> bool {
        self.held_down
    }

    /// Puts everything back as it was. An interface that has vanished needs nothing.
    ///
    /// # Errors
    /// The first setting that could not be put back; the others are, and the record stays for the next start.
    pub fn restore(mut self) -> Result<(), InterfaceError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), InterfaceError> {
        if std::mem::replace(&mut self.restored, true) {
            return Ok(());
        }
        put_back(&self.record)?;
        self.file.remove()
    }

    fn change(&mut self) -> Result<(), InterfaceError> {
        let name = self.interface.name();
        let failed = |action: &'static str| move |source| system(name, action, source);
        if let Some(filters) = self.record.filters {
            let index = self.interface.index();
            let shut = Program::drop_all()
                .and_then(|program| clsact::shut(index, &program, filters == Filters::Own));
            self.guard = match shut {
                Ok(()) => Guarding::Clsact,
                // The record says to take away what there is of it.
                Err(error) => Guarding::None { why: error.to_string() },
            };
        }
        if self.record.was_ipv6 {
            control::enable_ipv6(name, false).map_err(failed("switch IPv6 off"))?;
        }
        let control = Control::open(name)?;
        if self.record.was_arp {
            control.change_flags(libc::IFF_NOARP, 0).map_err(failed("switch ARP off"))?;
        }
        let features: Vec<&str> = self.record.features.iter().map(String::as_str).collect();
        offload::switch(&control, &features, false).map_err(failed("switch offloads off"))?;
        if self.record.was_down {
            control.change_flags(libc::IFF_UP, 0).map_err(failed("bring it up"))?;
        }
        self.remaining_offloads = offload::harmful(&control)
            .map_err(failed("read its offloads"))?
            .into_iter()
            .map(|feature| feature.name)
            .collect();
        Ok(())
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // Nobody is left to hear of an error; the record stays, and the next start tries again.
        let _ = self.put_back();
    }
}

fn restore_stale_one(state_dir: &Path, name: &str) -> Result<(), InterfaceError> {
    let mut file = RecordFile::lock(state_dir, name)?;
    if let Some(stale) = file.read()? {
        // Another gateway may have taken it since.
        let _owner = match link::query(LinkId::Index(stale.index)) {
            Ok(facts) if stale.boot == record::this_boot() => Some(Owner::claim(&facts.name, stale.index)?),
            // There is nothing to put right.
            _ => None,
        };
        put_back(&stale)?;
    }
    file.remove()
}

/// Plans the changes to an interface. The guard of tcx stands when this returns; it needs no record.
fn look(interface: &Interface) -> Result<(Record, Guarding), InterfaceError> {
    let name = interface.name();
    let control = Control::open(name)?;
    let flags = control.flags().map_err(|source| system(name, "read its flags", source))?;
    let features = offload::harmful(&control).map_err(|source| system(name, "read its offloads", source))?;
    let index = interface.index();
    let guard = guard(index).map_err(|source| system(name, "keep the host's stack off it", source))?;
    let filters = match &guard {
        Guarding::Clsact => Some(match clsact::exists(index) {
            Ok(true) => Filters::Among,
            Ok(false) | Err(_) => Filters::Own,
        }),
        Guarding::Tcx { .. } | Guarding::None { .. } => None,
    };
    let record = Record {
        boot: record::this_boot(),
        name: name.into(),
        index: interface.index(),
        mac: interface.mac(),
        was_down: flags & libc::IFF_UP as i16 == 0,
        was_arp: flags & libc::IFF_NOARP as i16 == 0,
        was_ipv6: control::ipv6_enabled(name)
            .map_err(|source| system(name, "read whether IPv6 is on", source))?
            .unwrap_or(false),
        was_up: false,
        filters,
        features: features
            .into_iter()
            .filter(|feature| feature.available)
            .map(|feature| feature.name)
            .collect(),
    };
    Ok((record, guard))
}

/// Drops at both tc hooks. On a kernel without tcx clsact is to be tried; on one without BPF there is nothing.
fn guard(interface_index: u32) -> io::Result<Guarding> {
    let lacks = |error: &io::Error| {
        matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS))
    };
    let program = match Program::drop_all() {
        Err(error) if lacks(&error) => return Ok(Guarding::None { why: format!("no BPF: {error}") }),
        other => other?,
    };
    let link = |hook| Link::create(&program, interface_index, hook, 0);
    match link(Hook::TcxEgress) {
        Ok(egress) => Ok(Guarding::Tcx { links: [egress, link(Hook::TcxIngress)?] }),
        Err(error) if lacks(&error) => Ok(Guarding::Clsact),
        Err(error) => Err(error),
    }
}

/// The guard that this kernel has for an interface. Nothing is changed to find out.
///
/// # Errors
/// If this process may not ask: it needs CAP_BPF and CAP_NET_ADMIN.
pub fn guard_here() -> io::Result<Guard> {
    // No interface has this number, so nothing is linked: a kernel with tcx looks for it, and one without refuses before.
    match guard(i32::MAX as u32) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(Guard::Tcx),
        Ok(Guarding::Tcx { .. }) => Ok(Guard::Tcx),
        Ok(Guarding::Clsact) => Ok(Guard::Clsact),
        Ok(Guarding::None { .. }) => Ok(Guard::None),
        Err(error) => Err(error),
    }
}

/// Puts back what a record says, if the interface it speaks of is still there. Goes through all of it; the error is
/// the first.
fn put_back(record: &Record) -> Result<(), InterfaceError> {
    if record.boot != record::this_boot() {
        return Ok(());
    }
    let facts = match link::query(LinkId::Index(record.index)) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
        other => other.map_err(|source| system(&record.name, "ask what it is", source))?,
    };
    // Renamed, or given another address: still the same. Both differ: another one with a used number.
    if facts.name != record.name && facts.mac != record.mac {
        return Ok(());
    }
    let name = facts.name.as_str();
    let control = Control::open(name)?;
    let features: Vec<&str> = record.features.iter().map(String::as_str).collect();
    let mut result = Ok(());
    let mut step = |due: bool, action: &str, act: &dyn Fn() -> io::Result<()>| {
        if !due {
            return;
        }
        let done = match act() {
            // It vanished between two steps.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT)) => Ok(()),
            other => other.map_err(|source| system(control.name(), action, source)),
        };
        if result.is_ok() {
            result = done;
        }
    };
    step(record.was_down, "put it down again", &|| control.change_flags(0, libc::IFF_UP));
    step(!features.is_empty(), "switch offloads on again", &|| offload::switch(&control, &features, true));
    step(record.was_arp, "switch ARP on again", &|| control.change_flags(0, libc::IFF_NOARP));
    step(record.was_ipv6, "switch IPv6 on again", &|| control::enable_ipv6(name, true));
    let made = record.filters == Some(Filters::Own);
    step(record.filters.is_some(), "take the guard away", &|| clsact::open(record.index, made));
    step(record.was_up, "bring it up again", &|| control.change_flags(libc::IFF_UP, 0));
    result
}
