//! Cells of a gateway's links: they come and go, and report.

use std::time::Instant;

use dataplane::cell::{Cell, CellSnapshot};
use dataplane::job::Progress;
use suite::fieldbus::MasterKeys;

use super::Gateway;
use super::static_sas::MOST_WAIT;
use crate::WorkerUnresponsive;
use crate::cells::{CellControl, CellError, CellPlace, CellSettings, CellStatus, Context, KernelCell};
use crate::jobs::LinkJob;
use crate::kernel_link::CELL_HAS_PROGRAMS;
use crate::kernel_ports::{PlaceWanted, ProgramsOf};
use crate::workers::WorkerSlot;

impl Gateway {
    /// Gives a link a cell. Frames of its relations go through it from here on, as soon as there are sessions with the
    /// other gateway, and never through the link's SecY. A link that is to have a cell from its beginning is added
    /// without ports, gets its cell, and then its ports.
    ///
    /// # Errors
    /// If there is no such link, or it has a cell; if the relations cannot be.
    pub fn add_cell(&mut self, link: &str, settings: CellSettings) -> Result<(), CellError> {
        let number = self.number(link).ok_or(CellError::NoLink)?;
        if self.links[number].cell().is_some() {
            return Err(CellError::NotSo);
        }
        let (cell, mut control) = CellControl::make(settings)?;
        control.plan_place(None, &self.kernel_programs)?;
        self.leave_kernel(number, CELL_HAS_PROGRAMS.into());
        self.exchange_cell(number, Some(cell), Vec::new(), false)?;
        control.enter_kernel(None, &[], &mut self.kernel_programs);
        self.links[number].replace_cell(Some(control));
        self.attach_kernel(number);
        // The first HELLOs go out at once, or with the first ports.
        self.speak(number, Instant::now());
        Ok(())
    }

    /// Gives a link's cell other settings between two turns. Relations whose stations, FrameIDs and protection stay the
    /// same keep their sessions and counters; no frame of theirs is lost. With other master keys their sessions go on until
    /// others are agreed on: see [`fieldbus::handshake::Handshake::change_keys`].
    ///
    /// # Errors
    /// As [`Gateway::add_cell`]; if the link has no cell.
    pub fn change_cell(&mut self, link: &str, settings: CellSettings) -> Result<(), CellError> {
        let number = self.number(link).ok_or(CellError::NoLink)?;
        let (cell, mut control) = CellControl::make(settings)?;
        control.plan_place(self.links[number].cell(), &self.kernel_programs)?;
        // The worker has got all changes so far: those to come are of the new cell's relations.
        self.turn_cell(number, Instant::now());
        let fit = match control.place() {
            CellPlace::UserSpace(_) => {
                self.detach_kernel(number);
                None
            }
            CellPlace::Kernel(_) | CellPlace::Nowhere(_) => {
                self.bring_programs(number, control.relations(), control.place_wanted())
            }
        };
        let mut before = self.links[number].replace_cell(None).ok_or(CellError::NotSo)?;
        let carry_over = control.carry_over(&before);
        let leaves_kernel = before.release(&carry_over);
        if let Err(unanswered) = self.exchange_cell(number, Some(cell), carry_over.clone(), leaves_kernel) {
            if leaves_kernel {
                before.request_sessions();
            }
            let is_at_work = before.has_attached_programs();
            self.links[number].replace_cell(Some(before));
            if is_at_work {
                // It has its keys from there on, or waits for them there.
                let _ = self.stand_aside(number, ProgramsOf::Cell, false);
            }
            return Err(unanswered.into());
        }
        let kernel = before.take_kernel();
        let are_to_go = kernel.as_ref().is_some_and(|kernel| !control.can_keep(kernel));
        // Programs that may be in front of ports still are for nobody else: they end here.
        let kernel = if are_to_go { kernel.filter(|_| self.free_programs(number)) } else { kernel };
        control.enter_kernel(kernel, &carry_over, &mut self.kernel_programs);
        control.take_over(self.moment(Instant::now()), *before, &carry_over, &mut self.notices);
        self.links[number].replace_cell(Some(control));
        self.attach_kernel_as(number, fit);
        self.turn_cell(number, Instant::now());
        Ok(())
    }

    /// Takes a link's cell away: all frames go through the link's SecY. With the link, its cell goes by itself.
    ///
    /// # Errors
    /// If the link has no cell, or its worker does not answer.
    pub fn remove_cell(&mut self, link: &str) -> Result<(), CellError> {
        let number = self.number(link).ok_or(CellError::NoLink)?;
        self.detach_kernel(number);
        let mut before = self.links[number].replace_cell(None).ok_or(CellError::NotSo)?;
        let exchanged = self.exchange_cell(number, None, Vec::new(), false);
        // Programs that may be in front of ports still are for nobody else: they end here.
        let are_free = self.free_programs(number) && exchanged.is_ok();
        let programs = before.take_kernel().filter(|_| are_free).map(KernelCell::into_programs);
        self.kernel_programs.give_back(programs);
        Ok(exchanged?)
    }

    /// Has all relations of a link's cell agree on new sessions, without a lost frame. False if there is no such cell.
    pub fn renew_cell_sessions(&mut self, link: &str) -> bool {
        let now = Instant::now();
        let moment = self.moment(now);
        let Some(number) = self.number(link) else { return false };
        let Some(cell) = self.links[number].cell_mut() else { return false };
        cell.renew_sessions(moment);
        self.turn_cell(number, now);
        true
    }

    /// Number of relations of a link's cell whose sessions rest on none of these master keys.
    pub fn sessions_under_other_keys(&self, link: &str, keys: &MasterKeys) -> usize {
        let cell = self.number(link).and_then(|number| self.links[number].cell());
        cell.map_or(0, |cell| cell.sessions_under_other_keys(keys))
    }

    /// The state of all cells, with their links' names; those of a worker that has ended are left out.
    pub fn cell_statuses(&mut self) -> Vec<(String, CellStatus)> {
        let with_cell = self.links.iter().filter_map(|link| Some((link.at(), link.cell()?)));
        let jobs = with_cell.map(|(WorkerSlot { worker, slot }, cell)| {
            let snapshot = CellSnapshot::with_room(cell.relations());
            let report = LinkJob::new(slot, snapshot, |link, snapshot| {
                let complete = link.pipeline_mut().cell_mut().is_none_or(|cell| cell.report(snapshot));
                if complete { Progress::Done } else { Progress::Unfinished }
            });
            (worker, report)
        });
        let done = self.workers.run_all(jobs);
        self.handle_held_events();
        let with_cell = self.links.iter_mut().filter(|link| link.cell().is_some());
        let statuses = with_cell.zip(done).filter_map(|(link, job)| {
            let name = link.name().to_owned();
            Some((name, link.cell_mut()?.status(job.filter(|job| job.found)?.data)))
        });
        statuses.collect()
    }

    /// Returns the place where the frames of a link's cell are protected and verified; none without a cell.
    pub fn cell_place(&self, link: &str) -> Option<&CellPlace> {
        Some(self.links[self.number(link)?].cell()?.place())
    }

    /// Returns the place that is wanted for them; none without a cell.
    pub fn cell_place_wanted(&self, link: &str) -> Option<PlaceWanted> {
        Some(self.links[self.number(link)?].cell()?.place_wanted())
    }

    /// Puts a cell in the place of a link's own, and frees that one here, where time does not matter. If relations have left the kernel
    /// the old one is first done with all that has come: a frame in clear whose twin the kernel has delivered is to be refused.
    pub(super) fn exchange_cell(
        &mut self,
        number: usize,
        cell: Option<Box<Cell>>,
        carry_over: Vec<(usize, usize)>,
        leaves_kernel: bool,
    ) -> Result<(), WorkerUnresponsive> {
        let job = (cell, carry_over, leaves_kernel, None);
        // Not later: control would have the other cell's state by then.
        let before = self.run_on_link_in_time(number, job, |link, (cell, carry_over, waits, began)| {
            let is_done = began.is_some() && link.has_emptied_protected_side();
            let waited = began.get_or_insert_with(Instant::now).elapsed();
            if *waits && !is_done && waited < MOST_WAIT {
                return Progress::Unfinished;
            }
            *cell = link.pipeline_mut().change_cell(cell.take(), carry_over);
            Progress::Done
        })?;
        drop(before);
        Ok(())
    }

    /// Gives a link's cell its turn.
    pub(super) fn turn_cell(&mut self, number: usize, now: Instant) {
        let moment = self.moment(now);
        let WorkerSlot { worker, slot } = self.links[number].at();
        let Some(cell) = self.links[number].cell_mut() else { return };
        let worker = self.workers.handle_mut(worker);
        cell.turn(&mut Context { now, moment, worker, slot, notices: &mut self.notices });
    }
}

#[cfg(test)]
impl Gateway {
    /// Control's part of a link's cell.
    pub(crate) fn cell_mut(&mut self, link: &str) -> Option<&mut CellControl> {
        let number = self.number(link)?;
        self.links[number].cell_mut()
    }
}
