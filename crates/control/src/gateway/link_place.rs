//! Place of a link's SAs: its programs in the kernel, or its worker.

use std::time::Instant;

use netdev::port::KernelSide;
use xdp::XdpError;

use super::Gateway;
use crate::WorkerUnresponsive;
use crate::kernel_link::{CELL_HAS_PROGRAMS, KernelLink, LinkPlace, LinkPlaceSettings, State};
use crate::kernel_ports::{PlaceWanted, ProgramsOf, fit};
use crate::kernel_programs::KernelPrograms;
use crate::link::Keys;
use crate::sa_table::BEGAN_THERE;

impl Gateway {
    /// Has a link's frames protected and verified in the kernel, as far as that is wanted and can be, or as these settings have changed.
    /// A link that is to begin in the kernel is added without ports, gets these settings, and then its ports.
    ///
    /// # Errors
    /// If the kernel is demanded and cannot be had: frames go through user space then; or if there is no such link.
    pub fn set_link_place(&mut self, name: &str, settings: &LinkPlaceSettings) -> Result<(), String> {
        let number = self.number(name).ok_or("there is no such link")?;
        let (wanted, has_cell) = (settings.wanted, self.links[number].cell().is_some());
        if let Some(kernel) = self.links[number].kernel_mut() {
            kernel.want(wanted);
        }
        let set = match wanted {
            PlaceWanted::UserSpace => Err("io says so".to_owned()),
            // The programs of its cell stand in front of its ports.
            _ if has_cell => Err(CELL_HAS_PROGRAMS.to_owned()),
            _ if let Some(why) = &settings.refused => Err(why.clone()),
            _ => self.configure_link(number, settings),
        };
        match set {
            Ok(()) => self.attach_link(number),
            Err(why) => {
                self.leave_kernel(number, why.clone());
                if wanted == PlaceWanted::Kernel && !has_cell {
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// Whether programs take a link's SAs if they suit them: they are in front of its ports, or will be when there are some.
    pub fn takes_in_kernel(&self, name: &str) -> bool {
        let kernel = self.number(name).and_then(|number| self.links[number].kernel());
        kernel.is_some_and(KernelLink::is_ready)
    }

    /// Whether programs wait for a link's next SAK: they take SAs, and the SAK in use is in user space since it began there.
    pub fn awaits_next_sak(&self, name: &str) -> bool {
        let is_there = |place| matches!(place, LinkPlace::UserSpace(why) if why == BEGAN_THERE);
        self.takes_in_kernel(name) && self.link_place(name).is_some_and(is_there)
    }

    /// Whether a link of this name may have programs that do what is wanted, as far as programs and kernel are concerned.
    ///
    /// # Errors
    /// Why not.
    pub fn may_set_link_place(&self, name: &str, settings: &LinkPlaceSettings) -> Result<(), XdpError> {
        let LinkPlaceSettings { secy, suite, express, replay_window, .. } = settings;
        KernelPrograms::suit_link(secy, *suite, express.is_some())?;
        match self.number(name).and_then(|number| self.links[number].kernel()) {
            Some(kernel) => kernel.has_room(*replay_window),
            None => self.kernel_programs.serve_link(secy, *suite, express.is_some(), *replay_window),
        }
    }

    /// Gives a link programs, unless it has some, and them its settings.
    fn configure_link(&mut self, number: usize, settings: &LinkPlaceSettings) -> Result<(), String> {
        let name = self.links[number].name().to_owned();
        let words = |error: XdpError| error.to_string();
        self.may_set_link_place(&name, settings).map_err(words)?;
        if self.links[number].kernel().is_some_and(|kernel| kernel.is_express() != settings.express.is_some())
        {
            // The SAs that the programs have are none of those that they are for from here on.
            self.move_to_worker(number).map_err(|error| error.to_string())?;
        }
        let link = &mut self.links[number];
        if link.kernel().is_none() {
            let programs = self.kernel_programs.take_for_link(settings.replay_window).map_err(words)?;
            link.replace_kernel(Some(Box::new(KernelLink::new(programs))));
        }
        if let Some(keys) = link.static_keys_mut() {
            keys.set_saks(settings.saks.clone());
        }
        let (scs, shared) = match link.keys() {
            Keys::Agreed(agreement) => {
                (agreement.kernel_scs(settings.express.is_some()), agreement.is_shared())
            }
            Keys::Static(keys) => (keys.scs(), keys.is_shared()),
            Keys::None => (Vec::new(), false),
        };
        let kernel = link.kernel_mut().ok_or("there are no programs")?;
        kernel.configure(settings, &scs, shared).map_err(words)
    }

    /// Puts a link's programs to work on its ports, if it has programs and ports, and its SAs where they belong then.
    pub(super) fn attach_link(&mut self, number: usize) {
        if self.links[number].kernel().is_none_or(KernelLink::is_idle) {
            return;
        }
        let state = match self.kernel_sides(number) {
            Ok(None) => State::NoPorts,
            Ok(Some(sides)) => match self.put_link_programs(number, &sides) {
                Ok(()) => State::Attached,
                Err(why) => State::Unfit(why),
            },
            Err(why) => State::Unfit(why),
        };
        let unfit = matches!(state, State::Unfit(_));
        let Some(kernel) = self.links[number].kernel_mut() else { return };
        let before = kernel.enter(state);
        if unfit && matches!(before, State::Attached) {
            // Frames of the programs would be lost behind them, and counted as sent.
            let done = self.while_held(number, |gateway| {
                gateway.step_aside(number, ProgramsOf::Link);
                gateway.put_sas(number);
            });
            if done.is_err() {
                self.step_aside(number, ProgramsOf::Link);
            }
            return;
        }
        self.put_sas(number);
    }

    /// Whether a link's SAs are not where they belong: its worker did not answer.
    fn has_misplaced_sas(&self, number: usize) -> bool {
        let link = &self.links[number];
        let is_place_of_sas = link.kernel().is_some_and(KernelLink::is_place_of_sas);
        match link.keys() {
            Keys::Static(keys) if is_place_of_sas => keys.may_enter_kernel(),
            Keys::Static(keys) => keys.is_in_kernel(),
            Keys::Agreed(agreement) => !is_place_of_sas && agreement.is_in_kernel(),
            Keys::None => false,
        }
    }

    /// Puts a link's SAs where they belong. Those whose worker does not answer stay.
    fn put_sas(&mut self, number: usize) {
        let is_place_of_sas = self.links[number].kernel().is_some_and(KernelLink::is_place_of_sas);
        let is_static = matches!(self.links[number].keys(), Keys::Static(_));
        match (is_place_of_sas, is_static) {
            (true, true) => {
                self.enter_static(number);
                self.end_tail_without_programs(number);
            }
            (true, false) => {}
            // Later, if its worker does not answer.
            (false, _) => {
                let _ = self.move_to_worker(number);
            }
        }
    }

    /// Programs no longer stand in front of the ports, and the SAs stay in the kernel, as `io = "kernel"` asks: no frame passes, those
    /// of the worker neither.
    fn end_tail_without_programs(&mut self, number: usize) {
        let is_attached = self.links[number].kernel().is_some_and(KernelLink::is_attached);
        if !is_attached && self.links[number].static_keys_mut().is_some_and(|keys| keys.has_tail()) {
            self.end_tail(number, Instant::now());
        }
    }

    fn put_link_programs(&mut self, number: usize, sides: &[KernelSide; 2]) -> Result<(), String> {
        let kernel = self.links[number].kernel_mut().ok_or("there are no programs")?;
        kernel.ports_opened(sides);
        let wanted = kernel.wanted();
        fit(sides, wanted)?;
        self.put_programs(number, sides, ProgramsOf::Link)
    }

    /// A link's ports are closed, and the programs went with them. Its SAs stay where they are.
    pub(super) fn link_ports_closed(&mut self, number: usize) {
        if let Some(kernel) = self.links[number].kernel_mut() {
            kernel.ports_closed();
        }
    }

    /// Looks whether a link's ports take redirected frames still, or do so now.
    pub(super) fn check_link_ports(&mut self, number: usize, takes: &impl Fn(u32) -> Option<bool>) {
        if self.links[number].kernel().is_some_and(|kernel| kernel.has_other_ports(takes)) {
            self.attach_link(number);
        } else if self.has_misplaced_sas(number) && self.workers.has_answered(self.links[number].at().worker)
        {
            if self.links[number].kernel().is_some_and(KernelLink::is_idle) {
                self.leave_programs(number);
            } else {
                self.put_sas(number);
            }
        }
    }

    /// A link's SAs are the worker's from here on, for this reason, and its programs stand aside; if the worker does not answer, as soon
    /// as it does.
    pub(super) fn leave_kernel(&mut self, number: usize, why: String) {
        let link = &mut self.links[number];
        let Some(kernel) = link.kernel_mut() else { return link.stay_in_user_space(why) };
        kernel.enter(State::Idle(why));
        self.leave_programs(number);
    }

    fn leave_programs(&mut self, number: usize) {
        let left = match self.links[number].in_front() {
            Some(ProgramsOf::Link) => self.while_held(number, |gateway| {
                gateway.step_aside(number, ProgramsOf::Link);
                gateway.move_to_worker(number)
            }),
            _ => Ok(self.move_to_worker(number)),
        };
        if let (Ok(Ok(())), Some(keys)) = (left, self.links[number].static_keys_mut()) {
            keys.set_saks(None);
        }
    }

    /// Has a link's SAs go to its worker.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`]: they are where they were.
    pub(super) fn move_to_worker(&mut self, number: usize) -> Result<(), WorkerUnresponsive> {
        match self.links[number].keys() {
            Keys::Static(_) => self.leave_static(number),
            Keys::Agreed(_) => self.leave_agreed(number),
            Keys::None => Ok(()),
        }
    }

    /// Returns the place where the frames of a link are protected and verified; none without such a link.
    pub fn link_place(&self, name: &str) -> Option<LinkPlace> {
        Some(self.links[self.number(name)?].place())
    }
}
