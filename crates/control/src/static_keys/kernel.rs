//! SAs with static keys in the kernel: they come from the worker's SecY when the programs stand, and go back. Of a link that splits
//! frames they are those of the express SCs; the transmit SA of those is never the worker's.

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use pnstore::{LeaseName, UnusedPns};
use secy::{NextAction, Protection, ReceiveSa, SecY, TransmitSa, XpnBinding};
use suite::{CipherSuite, Key, Sak};
use wire::{An, Pn, Sci};
use xdp::XdpError;
use xdp::link::{SaKey, Switch};

use super::{Express, Limited, StaticControl, Tail};
use crate::floors::Floor;
use crate::kernel_link::{KernelLink, Standing};

/// Interval at which the kernel is asked for PNs.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// A static key of an SA.
#[derive(Clone, PartialEq, Eq)]
pub struct StaticSak {
    /// The SC that it is of.
    pub sci: Sci,
    /// Its AN.
    pub an: An,
    /// The key.
    pub sak: Sak,
    /// With an XPN suite.
    pub xpn: Option<XpnBinding>,
}

/// The static keys of a link whose SAs may be in the kernel.
#[derive(Clone, PartialEq, Eq)]
pub struct StaticSaks {
    /// Of the transmit SA's lease: the PNs of no other key go with this one.
    pub name: LeaseName,
    /// Their suite.
    pub suite: CipherSuite,
    /// Protection of frames.
    pub protection: Protection,
    /// Of the transmit SA.
    pub transmit: StaticSak,
    /// Of the receive SAs.
    pub receive: Vec<StaticSak>,
}

impl StaticSaks {
    pub(super) fn key<'k>(&self, of: &'k StaticSak) -> SaKey<'k> {
        SaKey { suite: self.suite, sak: &of.sak, xpn: of.xpn, protection: self.protection }
    }
}

impl StaticControl {
    /// Takes the keys that SAs in the kernel are made of; none: they must not be there.
    pub(crate) fn set_saks(&mut self, saks: Option<StaticSaks>) {
        self.saks = saks;
    }

    /// Whether its SAs are in the kernel.
    pub(crate) const fn is_in_kernel(&self) -> bool {
        self.in_kernel
    }

    /// Why its SAs are nowhere, if a move has failed.
    pub(crate) fn nowhere(&self) -> Option<&str> {
        self.nowhere.as_deref()
    }

    /// Whether its SAs go to programs that stand, which they are not in.
    pub(crate) fn may_enter_kernel(&self) -> bool {
        let name = self.express.as_ref().map_or(self.lease.of.name, |express| express.lease.of.name);
        let is_theirs = |saks: &StaticSaks| saks.name == name;
        !self.in_kernel && self.nowhere.is_none() && self.saks.as_ref().is_some_and(is_theirs)
    }

    /// Puts the SAs into the programs that the worker was limited under. Returns what has frames protected there, if that is left to the
    /// worker.
    pub(crate) fn enter_kernel(
        &mut self,
        limited: &Limited,
        kernel: &mut KernelLink,
        now: Instant,
    ) -> Result<Option<(An, Switch)>, XdpError> {
        let Some(saks) = &self.saks else { return Ok(None) };
        self.in_kernel = true;
        // An SA that has no PN left stays in the worker, which says so. That of the express SC is never there.
        self.worker_transmits = limited.transmit.is_none();
        self.tail = Tail::of(limited, now);
        let switch = limited.install(saks, kernel)?;
        // Without PNs express frames are the worker's, as all others. While it is in the kernel, nothing here says where it stands.
        if let Some(Express { lease, next, .. }) = &mut self.express
            && let Some(next) = next.take()
        {
            let an = saks.transmit.an;
            kernel.install_transmit(an, &saks.key(&saks.transmit), next, lease.of.through)?;
            kernel.enable_transmit(an)?;
        }
        kernel.share(self.is_shared()).map(|()| switch)
    }

    /// Takes its SAs out of the programs, for the worker, where `of_tail` came from. Nothing if they are not there.
    pub(crate) fn leave_kernel(
        &mut self,
        of_tail: &TakenOut,
        kernel: &mut KernelLink,
    ) -> Option<Result<WorkerSas, String>> {
        let (scs, window) = (self.scs(), kernel.replay_window());
        let saks = self.saks.as_ref().filter(|_| self.in_kernel)?;
        let mut standing = kernel.take_out(&scs);
        let through = match &mut self.express {
            Some(express) => {
                express.stands(standing.as_ref().ok());
                None
            }
            None => Some(self.lease.of.through),
        };
        if let (Some(tail), Ok(standing)) = (&self.tail, &mut standing) {
            tail.lower(&mut standing.receive, of_tail);
        }
        (self.in_kernel, self.tail) = (false, None);
        let standing = standing.map_err(|error| error.to_string());
        Some(standing.and_then(|standing| WorkerSas::of(saks, &standing, window, through)))
    }

    /// Its SAs are nowhere. Returns why, with the cure.
    pub(crate) fn lose_sas(&mut self, kernel: Option<&mut KernelLink>, why: &str) -> String {
        (self.in_kernel, self.tail) = (false, None);
        if let Some(express) = &mut self.express {
            express.next = None;
        }
        let which = if self.has_express() { "express SAs" } else { "SAs" };
        let why = format!("its {which} could not be moved ({why}); restart the gateway");
        if let Some(kernel) = kernel {
            let _ = kernel.retire_all(&self.scs());
        }
        self.nowhere = Some(why.clone());
        why
    }

    /// Returns the need of its transmit SA in the kernel that was not told yet. None if it is not time to look.
    pub(crate) fn look_in_kernel(&mut self, kernel: &mut KernelLink, now: Instant) -> Option<NextAction> {
        if !self.in_kernel || now < self.look_due {
            return None;
        }
        self.look_due = now + LOOK_PERIOD;
        Some(kernel.new_need(self.lease.of.an).unwrap_or(NextAction::Continue))
    }

    /// Takes its SAs out of the kernel, and says what they leave: the floors of those whose floors are kept, and the PNs that were not
    /// used; those of the express SC wherever its SA is. Nothing else if they are not there.
    pub(crate) fn end_in_kernel(
        &mut self,
        kernel: Option<&mut KernelLink>,
    ) -> Result<(Vec<Floor>, Option<UnusedPns>), XdpError> {
        let Some(kernel) = kernel.filter(|_| std::mem::take(&mut self.in_kernel)) else {
            return Ok((Vec::new(), self.express.as_mut().and_then(Express::unused)));
        };
        let standing = kernel.take_out(&self.scs());
        if let Some(express) = &mut self.express {
            express.stands(standing.as_ref().ok());
        }
        let standing = standing?;
        let name = |sci, an| self.floors.iter().find(|of| (of.sci, of.an) == (sci, an)).map(|of| of.name);
        let own = standing.receive.iter().filter(|(sci, an, lowest)| !self.is_workers(*sci, *an, *lowest));
        let floors = own.filter_map(|(sci, an, lowest)| Some((name(*sci, *an)?, *lowest))).collect();
        if let Some(express) = &mut self.express {
            return Ok((floors, express.unused()));
        }
        let lease = &self.lease.of;
        let of_lease = standing.transmit.iter().find(|(an, ..)| *an == lease.an);
        let unused = of_lease.and_then(|(_, next, reserved, _)| lease.unused_of(*next, *reserved));
        Ok((floors, unused))
    }

    /// The floors of its SAs in the kernel, as they stand.
    pub(crate) fn floors_in_kernel(&self, kernel: &KernelLink) -> Result<Vec<Floor>, XdpError> {
        let mut floors = Vec::new();
        for of in &*self.floors {
            if let Some(highest) = kernel.highest(of.sci, of.an)? {
                let lowest = Pn::new(highest.saturating_add(1)).unwrap_or(Pn::LAST_64);
                if !self.is_workers(of.sci, of.an, lowest) {
                    floors.push((of.name, lowest));
                }
            }
        }
        Ok(floors)
    }

    /// The floors of SAs that are lost: those of the kernel that can be read, and those that a worker had.
    pub(crate) fn last_floors(&self, kernel: Option<&KernelLink>, of_worker: &TakenOut) -> Vec<Floor> {
        let in_kernel = kernel.filter(|_| self.in_kernel);
        let mut floors = in_kernel.and_then(|kernel| self.floors_in_kernel(kernel).ok()).unwrap_or_default();
        for (sci, sa) in &of_worker.receive {
            let of = self.floors.iter().find(|of| (of.sci, of.an) == (*sci, sa.an()));
            let above = Pn::new(sa.window().highest().saturating_add(1)).unwrap_or(Pn::LAST_64);
            floors.extend(of.map(|of| (of.name, above)));
        }
        floors
    }

    /// Whether nothing has come above the worker's PNs of a receive SA, whose lowest PN in the kernel is this one.
    fn is_workers(&self, sci: Sci, an: An, lowest: Pn) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.is_workers(sci, an, lowest))
    }
}

/// SAs of a worker that it has no more.
#[derive(Default)]
pub(crate) struct TakenOut {
    /// They are those of express SCs: the transmit SA stays.
    express: bool,
    transmit: Option<Box<TransmitSa>>,
    pub(super) receive: ArrayVec<(Sci, Box<ReceiveSa>), { SecY::RECEIVE_SCS * An::COUNT }>,
}

impl Express {
    /// Its SA has left the kernel, where it stood like this; nobody knows, if that is nothing.
    fn stands(&mut self, standing: Option<&Standing>) {
        let an = self.lease.of.an;
        let Some(standing) = standing else { return self.next = None };
        if let Some((_, next, ..)) = standing.transmit.iter().find(|(of, ..)| *of == an) {
            self.next = *next;
        }
    }
}

impl TakenOut {
    /// For the SAs of express SCs, or for all.
    pub(crate) fn new(express: bool) -> Self {
        Self { express, ..Self::default() }
    }

    pub(crate) fn take(&mut self, secy: &mut SecY, scs: &[Sci]) {
        let has_pns =
            |secy: &SecY, an| secy.transmit_sas().any(|sa| sa.an() == an && sa.pns().next().is_some());
        let transmit = secy.encoding_sa().filter(|an| !self.express && has_pns(secy, *an));
        self.transmit = transmit.and_then(|an| secy.retire_transmit(an));
        for sci in scs {
            for an in An::ALL {
                if let Some(sa) = secy.retire_receive(*sci, an) {
                    // There is room for all that there are.
                    let _ = self.receive.try_push((*sci, sa));
                }
            }
        }
    }
}

/// SAs on their way back to a worker.
pub(crate) struct WorkerSas {
    transmit: Option<Box<TransmitSa>>,
    receive: Vec<(Sci, Option<Box<ReceiveSa>>)>,
}

impl WorkerSas {
    /// `through`: the last PN of the transmit SA that goes back; none if that is the express SC's, which does not.
    fn of(saks: &StaticSaks, standing: &Standing, window: u32, through: Option<Pn>) -> Result<Self, String> {
        let prepare = |of: &StaticSak| Key::prepare(saks.suite, &of.sak).map_err(|error| error.to_string());
        let failed = |error| crate::sa_table::describe(error).to_owned();
        let mut sas = Self { transmit: None, receive: Vec::new() };
        for (sci, an, lowest) in &standing.receive {
            let Some(of) = saks.receive.iter().find(|of| (of.sci, of.an) == (*sci, *an)) else { continue };
            let sa = ReceiveSa::new(*an, prepare(of)?, of.xpn, saks.protection, *lowest, window)
                .map_err(failed)?;
            sas.receive.push((*sci, Some(Box::new(sa))));
        }
        let of = &saks.transmit;
        let standing = standing.transmit.iter().find(|(an, ..)| *an == of.an);
        if let (Some((an, Some(next), ..)), Some(through)) = (standing, through) {
            let sa = TransmitSa::new(*an, prepare(of)?, of.xpn, saks.protection, *next, through)
                .map_err(failed)?;
            sas.transmit = Some(Box::new(sa));
        }
        Ok(sas)
    }

    pub(crate) fn install(&mut self, secy: &mut SecY) {
        for (sci, place) in &mut self.receive {
            let Some(sa) = place.take() else { continue };
            let an = sa.an();
            match secy.install_receive(*sci, sa) {
                Ok(()) => drop(secy.enable_receive(*sci, an)),
                Err((_, sa)) => *place = Some(sa),
            }
        }
        if let Some(sa) = self.transmit.take() {
            let an = sa.an();
            match secy.install_transmit(sa) {
                Ok(()) => drop(secy.enable_transmit(an)),
                Err((_, sa)) => self.transmit = Some(sa),
            }
        }
    }
}
