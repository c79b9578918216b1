//! Programs in front of a link's ports.

use std::io;
use std::os::fd::AsFd;

use dataplane::job::Progress;
use netdev::port::KernelSide;

use super::Gateway;
use crate::WorkerUnresponsive;
use crate::kernel_ports::{PlaceWanted, PortPrograms, connect, unfit};
use crate::link::LinkControl;

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

    /// Puts programs of a link to work on its ports.
    pub(super) fn put_programs(
        &mut self,
        number: usize,
        sides: &[KernelSide; 2],
        wanted: PlaceWanted,
        find: fn(&mut LinkControl) -> Option<&mut dyn PortPrograms>,
    ) -> Result<(), String> {
        let [plain, protected] = sides;
        unfit(plain, "plain", wanted)?;
        unfit(protected, "protected", wanted)?;
        let programs = find(&mut self.links[number]).ok_or("there are no programs")?;
        let programs = connect(programs, sides).map_err(|error| error.to_string())?;
        // Here, not by the worker: who waits for the kernel's lock of all interfaces forwards nothing.
        let set = plain.set_program(Some(programs[0].as_fd())).and_then(|()| {
            let set = protected.set_program(Some(programs[1].as_fd()));
            if set.is_err() {
                plain.set_program(None)?;
            }
            set
        });
        set.map_err(|error| format!("an interface refuses the programs: {error}"))
    }

    /// Has frames wait in a link's ports while its SAs come to its worker, or its programs go: none meets a place without SAs.
    pub(super) fn while_held(&mut self, number: usize, work: impl FnOnce(&mut Self)) {
        let hold = |gateway: &mut Self, held: bool| {
            // A worker that does not answer forwards nothing.
            let _ = gateway.run_on_link(number, held, |link, held| {
                link.hold(*held);
                Progress::Done
            });
        };
        hold(self, true);
        work(self);
        hold(self, false);
    }

    /// Takes programs off a link's ports, which then go on with their own.
    pub(super) fn take_programs_off(&mut self, number: usize) {
        match self.kernel_sides(number) {
            Ok(sides) => sides.iter().for_each(take_off),
            // A worker that does not answer does it when it comes back: nobody else may be given the programs' maps meanwhile.
            Err(_) => drop(self.run_on_link(number, (), |link, ()| {
                link.kernel_sides().iter().for_each(take_off);
                Progress::Done
            })),
        }
    }
}

fn take_off(sides: &[KernelSide; 2]) {
    // An interface that refuses that is gone.
    sides.iter().for_each(|side| drop(side.set_program(None)));
}
