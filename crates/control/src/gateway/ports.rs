//! Programs in front of a link's ports.

use std::io;
use std::os::fd::AsFd;

use dataplane::job::Progress;
use dataplane::link::Link;
use netdev::port::KernelSide;

use super::Gateway;
use crate::WorkerUnresponsive;
use crate::kernel_ports::{ProgramsOf, connect};

impl Gateway {
    /// The sides of a link's ports as programs need them; `None` as long as there are no ports.
    pub(super) fn kernel_sides(&mut self, number: usize) -> Result<Option<[KernelSide; 2]>, String> {
        let sides = self.run_on_link(number, None, |link, sides| {
            *sides = Some(link.kernel_sides());
            Progress::Done
        });
        let sides = sides.map_err(|error: WorkerUnresponsive| error.to_string())?;
        match sides.ok_or("the worker does not answer")? {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
            other => other.map(Some).map_err(|_| "its link's ports are not on AF_XDP".into()),
        }
    }

    /// Puts programs of a link to work on its ports, which are fit for them.
    pub(super) fn put_programs(
        &mut self,
        number: usize,
        sides: &[KernelSide; 2],
        of: ProgramsOf,
    ) -> Result<(), String> {
        self.put_in_front(number, sides, of)?;
        self.stand_aside(number, of, false)
    }

    /// Puts programs in front of a link's ports, unless they are there. They stand aside, so no frame depends on it: it waits for the
    /// kernel's lock of all interfaces.
    pub(super) fn put_in_front(
        &mut self,
        number: usize,
        sides: &[KernelSide; 2],
        of: ProgramsOf,
    ) -> Result<(), String> {
        let link = &mut self.links[number];
        if link.in_front() == Some(of) {
            return Ok(());
        }
        let programs = link.programs(of).ok_or("there are no programs")?;
        let connected = programs.stand_aside(true).and_then(|()| connect(programs, sides));
        let programs = connected.map_err(|error| error.to_string())?;
        // Here, not by the worker: who waits for that lock forwards nothing.
        let set = sides.iter().zip(&programs).try_for_each(|(side, of)| side.set_program(Some(of.as_fd())));
        if set.is_err() {
            take_off(sides);
        }
        link.set_in_front(set.is_ok().then_some(of));
        set.map_err(|error| format!("an interface refuses the programs: {error}"))
    }

    /// Has a link's programs leave every frame to its ports' sockets, or not. Waits for nobody.
    pub(super) fn stand_aside(&mut self, number: usize, of: ProgramsOf, aside: bool) -> Result<(), String> {
        let programs = self.links[number].programs(of).ok_or("there are no programs")?;
        programs.stand_aside(aside).map_err(|error| error.to_string())
    }

    /// Has every frame of a link come to its worker. The programs stay in front of its ports.
    pub(super) fn step_aside(&mut self, number: usize, of: ProgramsOf) {
        if self.stand_aside(number, of, true).is_err() {
            self.take_programs_off(number);
        }
    }

    /// Has frames wait in a link's ports while its SAs come to its worker, or its programs go: none meets a place without SAs.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`], and nothing was done: SAs that leave for a worker which does not answer are lost.
    pub(super) fn while_held<T>(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, WorkerUnresponsive> {
        let hold = |link: &mut Link, held: &mut bool| {
            link.hold(*held);
            Progress::Done
        };
        let is_held = self.run_on_link_in_time(number, true, hold)?.is_some();
        let done = if is_held { Ok(work(self)) } else { Err(WorkerUnresponsive) };
        // A worker that does not answer any more does it when it comes back.
        let _ = self.run_on_link(number, false, hold);
        done
    }

    /// Takes programs off a link's ports, which then go on with their own. Waits for the kernel's lock of all interfaces; they stand aside
    /// before. Returns whether they may be for another link from here on.
    pub(super) fn take_programs_off(&mut self, number: usize) -> bool {
        self.links[number].set_in_front(None);
        match self.kernel_sides(number) {
            Ok(sides) => {
                sides.iter().for_each(take_off);
                true
            }
            // A worker that does not answer does it when it comes back: nobody else may be given the programs' maps meanwhile.
            Err(_) => self
                .run_on_link(number, (), |link, ()| {
                    link.kernel_sides().iter().for_each(take_off);
                    Progress::Done
                })
                .is_ok(),
        }
    }
}

fn take_off(sides: &[KernelSide; 2]) {
    // An interface that refuses that is gone.
    sides.iter().for_each(|side| drop(side.set_program(None)));
}
