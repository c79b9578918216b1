//! Programs of cells in front of their links' ports.

use super::Gateway;
use crate::cells::CellControl;
use crate::kernel_ports::{self, PlaceWanted, ProgramsOf};

/// Whether ports are fit for programs, or why not.
type Fit = Result<(), String>;

impl Gateway {
    /// Puts a cell's programs to work on its link's ports, if it has programs and the link has ports. If they cannot be, they stand
    /// aside.
    pub(super) fn attach_kernel(&mut self, number: usize) {
        self.attach_kernel_as(number, None);
    }

    /// The same, where it is known whether the ports are fit for it.
    pub(super) fn attach_kernel_as(&mut self, number: usize, fit: Option<Fit>) {
        if self.links[number].cell().is_some_and(CellControl::has_programs) {
            let attached = self.try_attach(number, fit);
            if attached.is_err() && self.links[number].in_front() == Some(ProgramsOf::Cell) {
                // They may be at work, and have no keys from here on, or lose what they send.
                self.step_aside(number, ProgramsOf::Cell);
            }
            if let Some(cell) = self.links[number].cell_mut() {
                cell.programs_attached(attached);
            }
        }
    }

    /// Whether they are at work; not as long as there are no ports.
    fn try_attach(&mut self, number: usize, fit: Option<Fit>) -> Result<bool, String> {
        let Some(sides) = self.kernel_sides(number)? else { return Ok(false) };
        let cell = self.links[number].cell_mut().ok_or("there is no cell")?;
        cell.ports_opened(&sides);
        let wanted = cell.place_wanted();
        fit.unwrap_or_else(|| kernel_ports::fit(&sides, wanted))?;
        self.put_programs(number, &sides, ProgramsOf::Cell)?;
        Ok(true)
    }

    /// Looks whether the ports of a link's cell take redirected frames still, or do so now.
    pub(super) fn check_cell_ports(&mut self, number: usize, takes: &impl Fn(u32) -> Option<bool>) {
        if self.links[number].cell().is_some_and(|cell| cell.has_other_ports(takes)) {
            self.detach_kernel(number);
            self.attach_kernel(number);
        }
    }

    /// A link's ports are closed, and the programs went with them.
    pub(super) fn kernel_closed(&mut self, number: usize) {
        if let Some(cell) = self.links[number].cell_mut() {
            cell.ports_closed();
        }
    }

    /// Has the frames of a cell's link come to its worker.
    pub(super) fn detach_kernel(&mut self, number: usize) {
        if self.links[number].cell().is_some_and(CellControl::has_attached_programs) {
            self.step_aside(number, ProgramsOf::Cell);
        }
    }

    /// Puts programs for so many relations in front of the ports of a cell's link, before anything is the kernel's. Returns whether the
    /// ports are fit for them, if there are some: that is asked here, while no frame waits for the answer.
    pub(super) fn bring_programs(
        &mut self,
        number: usize,
        relations: usize,
        wanted: PlaceWanted,
    ) -> Option<Fit> {
        let sides = self.kernel_sides(number).ok()??;
        let cell = self.links[number].cell_mut()?;
        cell.receive_programs(relations, &mut self.kernel_programs);
        if cell.has_room(relations) && self.links[number].in_front() != Some(ProgramsOf::Cell) {
            // Errors are told when the programs are to be at work.
            let _ = self.put_in_front(number, &sides, ProgramsOf::Cell);
        }
        Some(kernel_ports::fit(&sides, wanted))
    }

    /// Takes a cell's programs off its link's ports, before they are given to another one, if they may be. They stand aside, or serve
    /// nothing.
    pub(super) fn free_programs(&mut self, number: usize) -> bool {
        self.links[number].in_front() != Some(ProgramsOf::Cell) || self.take_programs_off(number)
    }
}
