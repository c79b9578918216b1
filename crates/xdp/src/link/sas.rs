//! SCs and SAs of a link: installed, enabled and retired by a program, as frames use them.

use std::sync::Arc;

use aya::maps::Array;
use secy::{InstallError, ReplayWindow};
use wire::{An, Pn, Sci};

use super::ahead::{Ahead, Owner};
use super::layout::What;
use super::{Link, RECEIVED, SaKey, accept_unknown, layout};
use crate::error::XdpError;
use crate::programs::Loaded;
use crate::run::{self, Changed};

/// Makes an SA the one that protects frames.
pub struct Switch {
    loaded: Arc<Loaded>,
    command: [u8; layout::COMMAND],
}

impl Switch {
    /// Does so. Takes some microseconds.
    ///
    /// # Errors
    /// If there is no such SA any more.
    pub fn turn(&self) -> Result<(), XdpError> {
        match run::change(&self.loaded, &self.command)? {
            Changed::Done => Ok(()),
            Changed::Refused => Err(InstallError::UnknownAn.into()),
        }
    }
}

impl Link {
    /// Installs a transmit SA whose first frame gets `next_pn`. It may use the PNs up to `reserved`. It protects nothing before it is
    /// enabled.
    ///
    /// # Errors
    /// If there is an SA under this AN, or the key is none for the kernel.
    pub fn install_transmit(
        &mut self,
        an: An,
        key: &SaKey<'_>,
        next_pn: Pn,
        reserved: Pn,
    ) -> Result<(), XdpError> {
        key.check()?;
        let place = an.index() as u32;
        let before = self.programs.sum("sent", place)?;
        let mut sa = self.new_sa(next_pn);
        sa.reserved = reserved.number();
        let command = layout::install(What::InstallTransmit, place, self.sci, key, &sa);
        self.change(command.octets(), InstallError::AnInUse)?;
        self.make_ahead(Owner::Transmit(place), self.sci, key, &sa);
        self.sent_before[an.index()] = before;
        Ok(())
    }

    /// Makes the SA under `an` the one that protects frames.
    ///
    /// # Errors
    /// If there is none.
    pub fn enable_transmit(&self, an: An) -> Result<(), XdpError> {
        self.change_transmit(What::EnableTransmit, an, 0)
    }

    /// The same for another thread, at the moment that it chooses. It may be gone by then.
    pub fn transmit_switch(&self, an: An) -> Switch {
        let command = layout::command(What::EnableTransmit, an.index() as u32, 0);
        Switch { loaded: self.programs.shared(), command }
    }

    /// Lets the SA under `an` protect no frame from now on, if it is the one that does. A frame that is taking a PN at that moment may
    /// still spend PNs, and is not sent with them: none is sent with a PN that [`Self::transmit_pns`] calls the next one, or above it.
    ///
    /// # Errors
    /// If there is none.
    pub fn disable_transmit(&self, an: An) -> Result<(), XdpError> {
        self.change_transmit(What::DisableTransmit, an, 0)
    }

    /// Permits the transmit SA under `an` the PNs up to and including `reserved`.
    ///
    /// # Errors
    /// If there is none.
    pub fn reserve_through(&mut self, an: An, reserved: Pn) -> Result<(), XdpError> {
        self.change_transmit(What::ReserveThrough, an, reserved.number())
    }

    /// Removes the transmit SA under `an`, if there is one, and wipes its key. If it was the enabled one, frames are discarded from now
    /// on.
    ///
    /// # Errors
    /// If the kernel does not run the program.
    pub fn retire_transmit(&mut self, an: An) -> Result<(), XdpError> {
        let retired = accept_unknown(self.change_transmit(What::RetireTransmit, an, 0));
        self.make_no_more(Owner::Transmit(an.index() as u32));
        retired
    }

    fn change_transmit(&self, what: What, an: An, pn: u64) -> Result<(), XdpError> {
        self.change(&layout::command(what, an.index() as u32, pn), InstallError::UnknownAn)
    }

    /// Creates a receive SC.
    ///
    /// # Errors
    /// If there is one already, or as many as a SecY has.
    pub fn install_receive_sc(&mut self, sci: Sci) -> Result<(), XdpError> {
        if sci == self.sci || self.scis.contains(&Some(sci)) {
            return Err(InstallError::SciInUse.into());
        }
        let place = self.scis.iter().position(Option::is_none).ok_or(InstallError::TooManyScs)?;
        for an in An::ALL {
            let sa = place * An::COUNT + an.index();
            self.programs.set_all("received", sa as u32, [0; RECEIVED])?;
            self.received_before[sa] = [0; RECEIVED];
        }
        self.scis[place] = Some(sci);
        self.write_channels()
    }

    /// The transmit SC.
    pub const fn sci(&self) -> Sci {
        self.sci
    }

    /// The receive SCs.
    pub fn receive_scs(&self) -> impl Iterator<Item = Sci> {
        self.scis.iter().copied().flatten()
    }

    /// Removes a receive SC, if there is one, with its SAs, whose keys are wiped.
    ///
    /// # Errors
    /// If a map cannot be written.
    pub fn retire_receive_sc(&mut self, sci: Sci) -> Result<(), XdpError> {
        let Some(place) = self.scis.iter().position(|sc| *sc == Some(sci)) else { return Ok(()) };
        An::ALL.into_iter().try_for_each(|an| self.retire_receive(sci, an))?;
        self.scis[place] = None;
        self.write_channels()
    }

    fn write_channels(&mut self) -> Result<(), XdpError> {
        let octets = layout::channels(&self.scis);
        let map = self.programs.map("channels")?;
        Ok(Array::<_, [u8; layout::CHANNELS]>::try_from(map)?.set(0, octets, 0)?)
    }

    /// Installs a receive SA that accepts no PN below `lowest_pn`, with a replay window of so many PNs. It verifies nothing before it is
    /// enabled.
    ///
    /// # Errors
    /// If there is an SA under this AN, or no SC; if the key is none for the kernel, or the window wider than there is room.
    pub fn install_receive(
        &mut self,
        sci: Sci,
        an: An,
        key: &SaKey<'_>,
        lowest_pn: Pn,
        replay_window: u32,
    ) -> Result<(), XdpError> {
        key.check()?;
        self.has_room(replay_window)?;
        let window = replay_window.min(ReplayWindow::WIDEST);
        let place = self.place(sci, an)?;
        let before = self.programs.sum("received", place)?;
        let mut sa = self.new_sa(lowest_pn);
        sa.window = window.into();
        let command = layout::install(What::InstallReceive, place, sci, key, &sa);
        self.change(command.octets(), InstallError::AnInUse)?;
        self.make_ahead(Owner::Receive(place), sci, key, &sa);
        self.received_before[place as usize] = before;
        Ok(())
    }

    /// Lets the SA under `an` verify frames.
    ///
    /// # Errors
    /// If there is none.
    pub fn enable_receive(&mut self, sci: Sci, an: An) -> Result<(), XdpError> {
        self.change_receive(What::EnableReceive, sci, an, 0)
    }

    /// Lets the SA under `an` verify no frame from now on: its window stands still when this returns.
    ///
    /// # Errors
    /// If there is none.
    pub fn disable_receive(&mut self, sci: Sci, an: An) -> Result<(), XdpError> {
        self.change_receive(What::DisableReceive, sci, an, 0)
    }

    /// Lets the SA under `an` begin no frame from now on. Those that have begun are accepted until [`Link::disable_receive`]: some
    /// microseconds are enough for them.
    ///
    /// # Errors
    /// If there is none.
    pub fn end_receive(&mut self, sci: Sci, an: An) -> Result<(), XdpError> {
        self.change_receive(What::EndReceive, sci, an, 0)
    }

    /// Whether PNs below the lowest one of the SA under `an` are those of an SA in user space: such frames go to the sockets, as those
    /// without an SA ([`Link::share`]).
    ///
    /// # Errors
    /// If there is none.
    pub fn share_below(&mut self, sci: Sci, an: An, shared: bool) -> Result<(), XdpError> {
        self.change_receive(What::ShareBelow, sci, an, u64::from(shared))
    }

    /// Rejects PNs below `lowest_pn` under `an`. Never permits a rejected PN again.
    ///
    /// # Errors
    /// If there is no such SA.
    pub fn raise_lowest(&mut self, sci: Sci, an: An, lowest_pn: Pn) -> Result<(), XdpError> {
        self.change_receive(What::RaiseLowest, sci, an, lowest_pn.number())
    }

    /// Removes the receive SA under `an`, if there is one, and wipes its key.
    ///
    /// # Errors
    /// If there is no such SC.
    pub fn retire_receive(&mut self, sci: Sci, an: An) -> Result<(), XdpError> {
        let retired = accept_unknown(self.change_receive(What::RetireReceive, sci, an, 0));
        self.make_no_more(Owner::Receive(self.place(sci, an)?));
        retired
    }

    /// An SA under an instance of its own, with a ring if one is free. Slots know an SA by its instance: no slot of one before is used.
    fn new_sa(&mut self, first: Pn) -> layout::Install {
        self.instance += 1;
        let ring = self.ahead.as_ref().and_then(Ahead::free).unwrap_or(layout::RINGS);
        layout::Install { instance: self.instance, ring, first: first.number(), reserved: 0, window: 0 }
    }

    fn make_ahead(&self, owner: Owner, sci: Sci, key: &SaKey<'_>, sa: &layout::Install) {
        if let Some(ahead) = self.ahead.as_ref().filter(|_| sa.ring < layout::RINGS) {
            ahead.put(sa.ring, owner, sa.instance, sci, key, sa.first);
        }
    }

    /// Keystream goes with its SA.
    fn make_no_more(&self, owner: Owner) {
        if let Some(ahead) = &self.ahead {
            ahead.take_out(owner);
        }
    }

    fn change_receive(&self, what: What, sci: Sci, an: An, pn: u64) -> Result<(), XdpError> {
        self.change(&layout::command(what, self.place(sci, an)?, pn), InstallError::UnknownAn)
    }

    /// The place of a receive SA in the maps.
    pub(super) fn place(&self, sci: Sci, an: An) -> Result<u32, XdpError> {
        let sc = self.scis.iter().position(|sc| *sc == Some(sci)).ok_or(InstallError::UnknownSc)?;
        Ok((sc * An::COUNT + an.index()) as u32)
    }

    fn change(&self, command: &[u8], refused: InstallError) -> Result<(), XdpError> {
        match self.programs.change(command)? {
            Changed::Done => Ok(()),
            Changed::Refused => Err(refused.into()),
        }
    }
}
