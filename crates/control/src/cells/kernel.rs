//! A cell whose frames are protected and verified in the kernel ([`xdp::Cell`]): control holds it, changes its keys and asks it for
//! news. The worker has the cell all the same, without these keys: HELLOs come to it, and what the programs leave to user space, such
//! as relations in shadow mode.
//!
//! ```text
//!  start, the only one with CAP_PERFMON ─▶ KernelPrograms ─▶ a cell has one of them, and gives it back
//!  ports are open ─▶ their interfaces and sockets to the maps ─▶ the programs into the ports' links
//!  KeyChange ─▶ xdp::Cell::change        worker: the names of the handshake alone
//!  look, every 10 ms ─▶ Event
//!  a thread of xdp::Cell ─▶ keystream ahead
//! ```
//!
//! The programs go with the ports' links, the maps with control: with the process, however it ends.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use fieldbus::{Event, KeyChange, Mode, RelationSettings, RelationStatus};
use netdev::port::KernelSide;
use netdev::scheduling;
use serde::{Deserialize, Serialize};
use xdp::{Unclaimed, XdpError};

use super::{CellControl, CellSettings};
use crate::kernel_ports::{Interfaces, NO_PORTS, PlaceWanted, PortPrograms};
use crate::kernel_programs::KernelPrograms;

/// Interval at which the kernel is asked for news, and whether frames have stopped.
const LOOK_PERIOD: Duration = Duration::from_millis(10);
/// Relations that are looked at in one turn, at the most.
const LOOKS: usize = 128;

/// Place of protection and verification of a cell's frames, both ways.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CellPlace {
    /// In the kernel, but for so many relations: those in shadow mode, and those that have left it while the gateway ran.
    Kernel(usize),
    /// In user space, for this reason.
    UserSpace(String),
    /// Nowhere: the kernel is wanted, and does not take them for this reason.
    Nowhere(String),
}

/// The kernel's part of a cell.
pub(crate) struct KernelCell {
    cell: xdp::Cell,
    /// The relations that it has are the kernel's; else all are user space's, for the ports do not take the programs.
    takes: bool,
    /// Its programs are at work on the ports that there are.
    attached: bool,
    /// The interfaces of those ports, plain and protected, and whether programs run in their drivers.
    interfaces: Option<Interfaces>,
    look_due: Instant,
    look_at: usize,
}

impl KernelCell {
    /// The programs, for another cell.
    pub(crate) fn into_programs(self) -> xdp::Cell {
        self.cell
    }

    fn new(cell: xdp::Cell) -> Self {
        Self { cell, takes: true, attached: false, interfaces: None, look_due: Instant::now(), look_at: 0 }
    }

    /// One whose relations are user space's so far.
    pub(super) fn that_waits(cell: xdp::Cell) -> Self {
        Self { takes: false, ..Self::new(cell) }
    }

    /// Its programs.
    #[cfg(test)]
    pub(super) const fn programs(&self) -> &xdp::Cell {
        &self.cell
    }

    /// Programs of a cell whose relations are user space's from here on. They stay the cell's, which may want them again: they stand aside
    /// in front of its ports.
    fn that_rests(mut self) -> Self {
        if self.takes {
            // All relations have left already.
            let _ = self.cell.clear();
        }
        (self.takes, self.attached) = (false, false);
        self
    }

    /// Carries a change out; the worker has what is left of it to do.
    pub(super) fn change(&mut self, relation: usize, change: &KeyChange) -> Result<(), XdpError> {
        self.cell.change(relation, change).map(drop)
    }

    /// Whether frames of a relation are the kernel's.
    pub(super) fn has(&self, relation: usize) -> bool {
        self.takes && self.cell.has(relation)
    }

    /// The place of a cell whose programs are at work.
    fn place(&self) -> CellPlace {
        CellPlace::Kernel((0..self.cell.count()).filter(|number| !self.cell.has(*number)).count())
    }

    /// Events of some relations, as the kernel reports them.
    pub(super) fn poll_events(&mut self, now: Instant) -> Vec<(usize, Event)> {
        if !self.takes || now < self.look_due {
            return Vec::new();
        }
        let end = self.cell.count().min(self.look_at + LOOKS);
        let looked: Vec<_> = (self.look_at..end).filter(|number| self.cell.has(*number)).collect();
        self.look_at = if end == self.cell.count() { 0 } else { end };
        if self.look_at == 0 {
            self.look_due = now + LOOK_PERIOD;
        }
        let events = |number| {
            let report = self.cell.look(number).ok();
            report.into_iter().flat_map(move |report| report.events).map(move |event| (number, event))
        };
        looked.into_iter().flat_map(events).collect()
    }

    /// Puts what the kernel knows of a relation into what the worker knows of it.
    pub(super) fn complete(&self, number: usize, status: &mut RelationStatus) -> Result<(), XdpError> {
        let (sent, received) = self.cell.counters(number)?;
        status.transmit.add(&sent);
        status.receive.add(&received);
        status.jitter = self.cell.jitter(number)?;
        [status.residence_outward, status.residence_inward] = self.cell.residence(number)?;
        let report = self.cell.peek(number)?;
        (status.state, status.transmit_key, status.receive_key) =
            (report.state, report.transmit_key, report.receive_key);
        (status.silent, status.worst_gap) = (report.silent, report.worst_gap);
        Ok(())
    }
}

/// Programs of a cell for the next program of its process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct PassedKernelCell {
    programs: xdp::cell::PassedCell,
    takes: bool,
    /// They stand in front of the ports.
    pub(super) in_front: bool,
}

impl PassedKernelCell {
    /// The descriptors that it names.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.programs.descriptors()
    }
}

impl KernelCell {
    pub(super) fn pass_on(&self, in_front: bool) -> Result<PassedKernelCell, XdpError> {
        Ok(PassedKernelCell { programs: self.cell.pass_on()?, takes: self.takes, in_front })
    }

    /// Goes on with those of the program before this one, which have served these relations meanwhile.
    pub(super) fn go_on(passed: &PassedKernelCell, relations: &[RelationSettings]) -> Result<Self, XdpError> {
        let serves = if passed.programs.is_idle() { &[] } else { relations };
        let mut cell = xdp::Cell::go_on(&passed.programs, serves)?;
        keep_filling(&mut cell);
        Ok(Self { takes: passed.takes, ..Self::new(cell) })
    }
}

/// Without the thread the frames are computed whole. It takes no CPU that anybody else wants: then it would cost the frames more than it
/// saves them.
fn keep_filling(cell: &mut xdp::Cell) {
    let _ = cell.keep_filling(|| drop(scheduling::run_when_idle()));
}

/// Whether a cell of these settings can be the kernel's, where one of this room serves it already or else one is to be had.
///
/// # Errors
/// Why not.
fn possible(settings: &CellSettings, room: Option<usize>, programs: &KernelPrograms) -> Result<(), XdpError> {
    xdp::Cell::suits(settings.settings.protection, settings.settings.mtu)?;
    let wanted = settings.relations.len();
    match room {
        Some(room) if room >= wanted => Ok(()),
        _ => programs.have_room(wanted),
    }
}

impl CellControl {
    /// Decides whether the cell is to be the kernel's, before anything is changed. `before` is the cell in whose place it comes.
    ///
    /// # Errors
    /// If the kernel is demanded and cannot be had.
    pub(crate) fn plan_place(
        &mut self,
        before: Option<&Self>,
        programs: &KernelPrograms,
    ) -> Result<(), XdpError> {
        let kernel = before.and_then(|before| before.kernel.as_ref());
        let possible = possible(&self.settings, kernel.map(|kernel| kernel.cell.room()), programs);
        self.may_have_programs = self.settings.place != PlaceWanted::UserSpace && possible.is_ok();
        self.place = match (self.settings.place, possible, before) {
            (PlaceWanted::UserSpace, ..) => CellPlace::UserSpace("io says so".into()),
            (PlaceWanted::Kernel, Err(why), _) => return Err(why),
            (PlaceWanted::Auto, Err(why), _) => CellPlace::UserSpace(why.to_string()),
            // Keys stay where they are as long as they are the same: also where the ports do not take the programs. With another MTU
            // the ports are opened anew, and an MTU that was too large keeps nothing in user space any more.
            (PlaceWanted::Auto, Ok(()), Some(before))
                if before.settings.place == PlaceWanted::Auto
                    && self.keeps_sessions_of(before)
                    && (before.may_have_programs
                        || before.settings.settings.mtu == self.settings.settings.mtu) =>
            {
                match &before.place {
                    CellPlace::UserSpace(why) => CellPlace::UserSpace(why.clone()),
                    CellPlace::Kernel(_) | CellPlace::Nowhere(_) => CellPlace::Nowhere(NO_PORTS.into()),
                }
            }
            _ => CellPlace::Nowhere(NO_PORTS.into()),
        };
        Ok(())
    }

    /// Whether its programs are those of the cell before.
    fn keeps_programs(&self, before: &KernelCell) -> bool {
        self.may_have_programs && self.can_keep(before)
    }

    /// Whether programs of the cell before are of use to it, now or later: the MTU of its ports may change.
    pub(crate) fn can_keep(&self, before: &KernelCell) -> bool {
        xdp::Cell::suits(self.settings.settings.protection, 0).is_ok()
            && before.cell.room() >= self.settings.relations.len()
    }

    /// Whether keys of a relation stay where they are: that of the cell before has the number `there`. A relation that leaves shadow mode
    /// goes on in user space, without a lost frame.
    pub(super) fn keys_stay(&self, relation: usize, before: &Self, there: usize) -> bool {
        let shadow = self.settings.relations[relation].mode == Mode::Shadow;
        let to_kernel = !matches!(self.place, CellPlace::UserSpace(_));
        let programs_stay =
            before.kernel.as_ref().is_some_and(|kernel| kernel.takes && self.keeps_programs(kernel));
        match (before.in_kernel(there), to_kernel) {
            (true, true) => !shadow && programs_stay,
            (true, false) => false,
            (false, true) => shadow || programs_stay,
            (false, false) => true,
        }
    }

    /// Takes the relations out of the kernel that do not stay there, before the worker has them: it would deliver in clear what
    /// the kernel has delivered verified. Whether there were some.
    pub(crate) fn release(&mut self, stays: &[(usize, usize)]) -> bool {
        let Some(kernel) = self.kernel.as_mut().filter(|kernel| kernel.takes) else { return false };
        let mut leaves: Vec<_> = (0..kernel.cell.count()).map(|number| kernel.cell.has(number)).collect();
        stays.iter().for_each(|&(_, there)| leaves[there] = false);
        for number in (0..leaves.len()).filter(|number| leaves[*number]) {
            // One that a map keeps goes when the next cell is put in, or with the programs.
            let _ = kernel.cell.release(number);
        }
        leaves.contains(&true)
    }

    /// It stays the link's cell after all: relations that have no keys any more get others.
    pub(crate) fn request_sessions(&mut self) {
        for number in (0..self.relations.len()).filter(|number| !self.in_kernel(*number)).collect::<Vec<_>>()
        {
            self.relations[number].handshake.request_session();
            self.follow(number);
        }
    }

    /// Its programs, for another one or for nobody.
    pub(crate) const fn take_kernel(&mut self) -> Option<KernelCell> {
        self.kernel.take()
    }

    /// Whether frames of this relation are the kernel's.
    pub(super) fn in_kernel(&self, relation: usize) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.has(relation))
    }

    /// Has the kernel serve this cell, if that is planned: by the programs of the cell before, on which relations that stay go on
    /// without a lost frame, or by others.
    pub(crate) fn enter_kernel(
        &mut self,
        before: Option<KernelCell>,
        stays: &[(usize, usize)],
        programs: &mut KernelPrograms,
    ) {
        let (before, others) = match before {
            Some(before) if self.can_keep(&before) => (Some(before), None),
            others => (None, others),
        };
        programs.give_back(others.map(KernelCell::into_programs));
        if matches!(self.place, CellPlace::UserSpace(_)) {
            self.kernel = before.map(KernelCell::that_rests);
            return;
        }
        let (mut kernel, stays) = match before {
            Some(before) => (before, stays),
            None => match programs.take_for(self.settings.relations.len()) {
                Some(cell) => (KernelCell::new(cell), &[][..]),
                None => return,
            },
        };
        let CellSettings { settings, relations, .. } = &self.settings;
        let configured = kernel.cell.configure(settings, relations, Unclaimed::Drop, stays);
        keep_filling(&mut kernel.cell);
        kernel.takes = true;
        if kernel.attached {
            self.place = kernel.place();
        }
        self.kernel = Some(kernel);
        if let Err(error) = configured {
            self.leave_kernel(error.to_string());
        }
    }

    /// Whether it has programs, at work or not.
    pub(crate) const fn has_loaded_programs(&self) -> bool {
        self.kernel.is_some()
    }

    /// Whether it has programs that are to be at work.
    pub(crate) const fn has_programs(&self) -> bool {
        self.may_have_programs && self.kernel.is_some()
    }

    /// Whether it has programs for so many relations.
    pub(crate) fn has_room(&self, relations: usize) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.cell.room() >= relations)
    }

    /// Gives it programs for so many relations, unless it has some. Its own relations stay in user space.
    pub(crate) fn receive_programs(&mut self, relations: usize, programs: &mut KernelPrograms) {
        if self.kernel.is_none() {
            self.kernel = programs.take_for(relations).map(KernelCell::that_waits);
        }
    }

    /// Whether its programs are at work.
    pub(crate) fn has_attached_programs(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.attached)
    }

    /// Its programs, for the ports of its link.
    pub(crate) fn programs(&mut self) -> Option<&mut dyn PortPrograms> {
        Some(&mut self.kernel.as_mut()?.cell)
    }

    /// Its link has ports, which programs are to stand in front of.
    pub(crate) fn ports_opened(&mut self, sides: &[KernelSide; 2]) {
        if let Some(kernel) = &mut self.kernel {
            kernel.interfaces = Some(Interfaces::of(sides));
        }
    }

    /// Whether its programs are at work now; not as long as there are no ports, or if the ports do not take them.
    pub(crate) fn programs_attached(&mut self, attached: Result<bool, String>) {
        let Some(kernel) = &mut self.kernel else { return };
        kernel.attached = attached == Ok(true);
        match attached {
            Ok(true) => {
                self.take_in_kernel(true);
                self.place = self
                    .kernel
                    .as_ref()
                    .map_or_else(|| CellPlace::Nowhere(NO_PORTS.into()), KernelCell::place);
            }
            Ok(false) if !kernel.takes => {}
            Ok(false) => self.place = CellPlace::Nowhere(NO_PORTS.into()),
            Err(why) => self.leave_kernel(why),
        }
    }

    /// The interfaces to which its programs redirect frames, or may do so.
    pub(crate) fn redirected_to(&self) -> Option<[u32; 2]> {
        self.kernel.as_ref().filter(|_| self.may_have_programs)?.interfaces?.redirected_to()
    }

    /// Whether the ports take redirected frames no more, or do so now, which `takes` knows.
    pub(crate) fn has_other_ports(&self, takes: impl Fn(u32) -> Option<bool>) -> bool {
        let Some(kernel) = self.kernel.as_ref().filter(|_| self.may_have_programs) else { return false };
        let fit = kernel.interfaces.and_then(|interfaces| interfaces.take_redirected(takes));
        fit.is_some_and(|fit| fit != kernel.attached)
    }

    /// Its link's ports are closed, and the programs went with them.
    pub(crate) fn ports_closed(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            (kernel.attached, kernel.interfaces) = (false, None);
            if kernel.takes {
                self.place = CellPlace::Nowhere(NO_PORTS.into());
            }
        }
    }

    /// The kernel does not take the cell's frames after all.
    fn leave_kernel(&mut self, why: String) {
        if self.settings.place == PlaceWanted::Kernel {
            self.place = CellPlace::Nowhere(why);
            return;
        }
        self.place = CellPlace::UserSpace(why);
        self.take_in_kernel(false);
    }

    /// Moves all relations that the kernel could have. Keys do not move: they are wiped, and there are new sessions.
    pub(super) fn take_in_kernel(&mut self, takes: bool) {
        let CellSettings { settings, relations, .. } = &self.settings;
        let Some(kernel) = self.kernel.as_mut().filter(|kernel| kernel.takes != takes) else { return };
        kernel.takes = takes;
        // If a map cannot be written there is no place, and no frame passes: the programs stand aside.
        let _ = kernel.cell.configure(settings, relations, Unclaimed::Drop, &[]);
        for number in 0..self.relations.len() {
            let of = &self.settings.relations[number];
            if of.mode == Mode::Protect && xdp::Cell::takes(&of.relation) {
                // The worker's keys go with the next change: a frame that was kept back would be accepted under them.
                self.changes.push((number, KeyChange::Collect));
                self.relations[number].handshake.request_session();
                self.follow(number);
            }
        }
    }
}
