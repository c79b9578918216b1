//! Where a link's SAs are: in its programs, or in its worker.

use netdev::port::KernelSide;
use xdp::XdpError;

use super::{CELL_HAS_PROGRAMS, KernelLink, LinkPath, LinkPathSettings, State};
use crate::kernel_ports::{Interfaces, NO_PORTS, PathWanted};
use crate::{Gateway, Keys, LinkControl};

impl Gateway {
    /// Has a link's frames protected and verified in the kernel, as far as that is wanted and can be, or as these settings have changed.
    /// A link that is to begin in the kernel is added without ports, gets these settings, and then its ports.
    ///
    /// # Errors
    /// If the kernel is demanded and cannot be had: frames go through user space then; or if there is no such link.
    pub fn set_link_path(&mut self, name: &str, settings: &LinkPathSettings) -> Result<(), String> {
        let number = self.number(name).ok_or("there is no such link")?;
        let (wanted, has_cell) = (settings.wanted, self.links[number].cell.is_some());
        if let Some(kernel) = &mut self.links[number].kernel {
            kernel.wanted = wanted;
        }
        let set = match wanted {
            PathWanted::UserSpace => Err("io says so".to_owned()),
            // The programs of its cell stand in front of its ports.
            _ if has_cell => Err(CELL_HAS_PROGRAMS.to_owned()),
            _ => self.configure_link(number, settings).map_err(|error| error.to_string()),
        };
        match set {
            Ok(()) => self.attach_link(number),
            Err(why) => {
                self.leave_kernel(number, why.clone());
                if wanted == PathWanted::Kernel && !has_cell {
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// Whether a link of this name may have programs that do what is wanted, as far as programs and kernel are concerned.
    ///
    /// # Errors
    /// Why not.
    pub fn may_set_link_path(&self, name: &str, settings: &LinkPathSettings) -> Result<(), XdpError> {
        xdp::Link::suits(&settings.secy, settings.suite)?;
        match self.number(name).and_then(|number| self.links[number].kernel.as_ref()) {
            Some(kernel) => kernel.programs.has_room(settings.replay_window),
            None => self.kernel_programs.serve_link(&settings.secy, settings.suite, settings.replay_window),
        }
    }

    /// Gives a link programs, unless it has some, and them its settings.
    fn configure_link(&mut self, number: usize, settings: &LinkPathSettings) -> Result<(), XdpError> {
        let name = self.links[number].name.clone();
        self.may_set_link_path(&name, settings)?;
        if self.links[number].kernel.is_none() {
            let programs = self.kernel_programs.take_for_link(settings.replay_window)?;
            self.links[number].kernel = Some(Box::new(KernelLink::new(programs)));
        }
        let LinkControl { kernel: Some(kernel), keys, .. } = &mut self.links[number] else {
            return Err(XdpError::Malformed);
        };
        let (scs, shared) = match keys {
            Keys::Agreed(agreement) => (agreement.scs().to_vec(), agreement.is_shared()),
            Keys::Static(keys) => {
                keys.saks.clone_from(&settings.saks);
                (keys.scs(), !keys.in_kernel)
            }
            Keys::None => (Vec::new(), false),
        };
        kernel.wanted = settings.wanted;
        if matches!(kernel.state, State::Idle(_)) {
            kernel.state = State::NoPorts;
        }
        kernel.configure(settings, &scs, shared)
    }

    /// Puts a link's programs to work on its ports, if it has programs and ports, and its SAs where they belong then.
    pub(crate) fn attach_link(&mut self, number: usize) {
        let idle = |kernel: &KernelLink| matches!(kernel.state, State::Idle(_));
        if self.links[number].kernel.as_deref().is_none_or(idle) {
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
        let LinkControl { kernel: Some(kernel), keys, .. } = &mut self.links[number] else { return };
        let before = std::mem::replace(&mut kernel.state, state);
        let (unfit, has_sas) = (matches!(kernel.state, State::Unfit(_)), kernel.has_sas());
        let is_static = matches!(keys, Keys::Static(_));
        if unfit && matches!(before, State::Attached) {
            // Frames of the programs would be lost behind them, and counted as sent.
            self.take_programs_off(number);
        }
        match (has_sas, is_static) {
            (true, true) => self.enter_static(number),
            (true, false) => {}
            (false, _) => self.move_to_worker(number),
        }
    }

    fn put_link_programs(&mut self, number: usize, sides: &[KernelSide; 2]) -> Result<(), String> {
        let Some(kernel) = &mut self.links[number].kernel else { return Err("there are no programs".into()) };
        kernel.interfaces = Some(Interfaces::of(sides));
        let wanted = kernel.wanted;
        self.put_programs(number, sides, wanted, |link| Some(&mut link.kernel.as_mut()?.programs))
    }

    /// A link's ports are closed, and the programs went with them. Its SAs stay where they are.
    pub(crate) fn link_ports_closed(&mut self, number: usize) {
        if let Some(kernel) = &mut self.links[number].kernel {
            kernel.interfaces = None;
            if !matches!(kernel.state, State::Idle(_)) {
                kernel.state = State::NoPorts;
            }
        }
    }

    /// Looks whether a link's ports take redirected frames still, or do so now.
    pub(crate) fn check_link_ports(&mut self, number: usize) {
        let Some(kernel) = &self.links[number].kernel else { return };
        let attached = match kernel.state {
            State::Attached => true,
            State::Unfit(_) => false,
            State::Idle(_) | State::NoPorts => return,
        };
        let fit = kernel.interfaces.and_then(|interfaces| interfaces.take_redirected());
        if fit.is_some_and(|fit| fit != attached) {
            self.attach_link(number);
        }
    }

    /// A link's SAs are the worker's from here on, for this reason, and its programs leave its ports.
    pub(crate) fn leave_kernel(&mut self, number: usize, why: String) {
        let Some(kernel) = &mut self.links[number].kernel else {
            self.links[number].why_user_space = why;
            return;
        };
        let before = std::mem::replace(&mut kernel.state, State::Idle(why));
        if matches!(before, State::Attached) {
            self.take_programs_off(number);
        }
        self.move_to_worker(number);
        if let Keys::Static(keys) = &mut self.links[number].keys {
            keys.saks = None;
        }
    }

    fn move_to_worker(&mut self, number: usize) {
        match &self.links[number].keys {
            Keys::Static(_) => self.leave_static(number),
            Keys::Agreed(_) => self.leave_agreed(number),
            Keys::None => {}
        }
    }

    /// Where the frames of a link are protected and verified; none without such a link.
    pub fn link_path(&self, name: &str) -> Option<LinkPath> {
        let LinkControl { kernel, keys, why_user_space, .. } = &self.links[self.number(name)?];
        let Some(kernel) = kernel else { return Some(LinkPath::UserSpace(why_user_space.clone())) };
        let nowhere = match keys {
            Keys::Static(keys) => keys.nowhere.as_ref(),
            Keys::Agreed(_) | Keys::None => None,
        };
        Some(match (&kernel.state, nowhere) {
            (_, Some(why)) => LinkPath::Nowhere(why.clone()),
            (State::Idle(why), _) => LinkPath::UserSpace(why.clone()),
            (State::Unfit(why), _) if kernel.has_sas() => LinkPath::Nowhere(why.clone()),
            (State::Unfit(why), _) => LinkPath::UserSpace(why.clone()),
            (State::NoPorts, _) => LinkPath::Nowhere(NO_PORTS.into()),
            (State::Attached, _) => match keys {
                Keys::Agreed(agreement) => agreement.link_path(),
                Keys::Static(keys) if !keys.in_kernel => LinkPath::UserSpace("its keys are changed".into()),
                Keys::Static(_) | Keys::None => LinkPath::Kernel,
            },
        })
    }
}
