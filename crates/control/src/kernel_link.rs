//! A link's SAs in the kernel ([`xdp::Link`]): control installs them, asks for their PNs and windows, and adds their counters up.
//!
//! ```text
//!  start, the only one with CAP_PERFMON ─▶ KernelPrograms ─▶ a link has one of them, and gives it back
//!  ports are open ─▶ the programs stand in front of them
//!  a SAK that suits them ─▶ its SAs are in the kernel from its first frame to its last; all others are in the worker
//!  static keys            ─▶ their SAs come from the worker when the programs stand, and go back when they must not
//! ```
//!
//! A PN of an SA is one place's. A SAK's SAs leave one place, and their PNs are read there, before they enter the other. Static keys are in
//! both for a while, each with PNs of its own. So no PN is taken twice, and no frame is accepted twice. What has no SA in the kernel goes to the worker while that has SAs. Receive SCs are in both places, and
//! counters are the sum.
//!
//! Of a link that splits frames the programs are the express SCs, with SAs of their own; the worker has all other SCs.

mod figures;
mod moves;
mod passed_on;
#[cfg(test)]
mod tests;

use netdev::port::KernelSide;
use secy::{ExpressClasses, InstallError, NextAction, Settings, TransmitPns};
use suite::CipherSuite;
use wire::{An, EtherType, Pn, Sci};
use xdp::link::{SaKey, Switch, Window};
use xdp::{Unclaimed, XdpError};

use crate::kernel_ports::{Interfaces, PlaceWanted, PortPrograms};
use crate::static_keys::StaticSaks;
use figures::Before;
pub(crate) use moves::Standing;
pub use passed_on::PassedKernelLink;

/// Why the SAs of a link with a cell stay in the worker.
pub(crate) const CELL_HAS_PROGRAMS: &str = "its ports are for the programs of its cell";

/// Why a SAK stays in the worker under which members may send fragments.
const NEEDS_FRAGMENTS: &str = "a member needs fragments, or has no programs; set the MTU of its protected side to its machine's plus 36, then frameward rekey";

/// Setting that leaves a station without an express SC.
const NO_EXPRESS_SCI: &str = "a port number of the SCI above 32767";

/// Settings of a link for programs in the kernel.
pub struct LinkPlaceSettings {
    /// Place of protection and verification that is wanted.
    pub wanted: PlaceWanted,
    /// A suite that its keys may have; of several one that the programs have.
    pub suite: CipherSuite,
    /// SCI of the transmit SC.
    pub sci: Sci,
    /// Why frames are not for programs, whatever those have.
    pub refused: Option<String>,
    /// Settings of the SecY, as the programs are to have them.
    pub secy: Settings,
    /// The programs are to be the express SCs alone, for SDUs of these classes.
    pub express: Option<ExpressClasses>,
    /// EtherTypes that go around the SecY.
    pub bypass: Vec<EtherType>,
    /// Of receive SAs, in PNs.
    pub replay_window: u32,
    /// The keys, where they are static.
    pub saks: Option<StaticSaks>,
}

/// Place of protection and verification of a link's frames, both ways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkPlace {
    /// In the kernel.
    Kernel,
    /// Express frames in the kernel, all others in user space.
    Express,
    /// In user space, for this reason.
    UserSpace(String),
    /// Nowhere: the kernel is wanted, and does not take them for this reason; or there are no ports.
    Nowhere(String),
}

/// The kernel's part of a link.
pub(crate) struct KernelLink {
    programs: xdp::Link,
    wanted: PlaceWanted,
    replay_window: u32,
    /// The programs are the express SCs.
    express: bool,
    state: State,
    /// Of the ports that there are.
    interfaces: Option<Interfaces>,
    /// The programs have marked all PNs that their SAs have delivered, but for those below their windows.
    marks_pns: bool,
    /// The need of the transmit SA with a static key that was told last.
    notified: NextAction,
    /// Counters of what the programs were before.
    before: Before,
}

/// The programs' place.
pub(crate) enum State {
    /// None, for the link's settings or its cell leave them nothing. They stay the link's, for it counts with them, and may stand aside in
    /// front of its ports.
    Idle(String),
    /// There are no ports.
    NoPorts,
    /// The ports do not take them, for this reason. They may stand aside.
    Unfit(String),
    /// At work in front of the ports.
    Attached,
}

impl KernelLink {
    pub(crate) fn new(programs: xdp::Link) -> Self {
        Self {
            programs,
            wanted: PlaceWanted::Auto,
            replay_window: 0,
            express: false,
            state: State::NoPorts,
            interfaces: None,
            marks_pns: true,
            notified: NextAction::Continue,
            before: Before::default(),
        }
    }

    /// The programs, for another link.
    pub(crate) fn into_programs(self) -> xdp::Link {
        self.programs
    }

    /// Has a frame of the machine go through the program.
    #[cfg(test)]
    pub(crate) fn run_outward(&self, frame: &[u8]) -> xdp::Ran {
        self.programs.run_outward(frame, 1).expect("root")
    }

    /// Whether the programs are the express SCs, and not all SCs of their link.
    pub(crate) const fn is_express(&self) -> bool {
        self.express
    }

    pub(crate) const fn replay_window(&self) -> u32 {
        self.replay_window
    }

    /// Sets the place that is wanted from here on.
    pub(crate) const fn want(&mut self, wanted: PlaceWanted) {
        self.wanted = wanted;
    }

    pub(crate) const fn wanted(&self) -> PlaceWanted {
        self.wanted
    }

    /// Whether the programs have room for windows of so many PNs.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn has_room(&self, replay_window: u32) -> Result<(), XdpError> {
        self.programs.has_room(replay_window)
    }

    /// The programs, for the ports of their link.
    pub(crate) const fn programs(&mut self) -> &mut dyn PortPrograms {
        &mut self.programs
    }

    /// The programs' place.
    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    /// Whether settings or cell leave the programs nothing.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle(_))
    }

    /// The programs have another place. Returns that of before.
    pub(crate) const fn enter(&mut self, state: State) -> State {
        std::mem::replace(&mut self.state, state)
    }

    /// There are ports, which programs are to stand in front of.
    pub(crate) fn ports_opened(&mut self, sides: &[KernelSide; 2]) {
        self.interfaces = Some(Interfaces::of(sides));
    }

    /// The ports are closed, and the programs went with them.
    pub(crate) fn ports_closed(&mut self) {
        self.interfaces = None;
        if !self.is_idle() {
            self.state = State::NoPorts;
        }
    }

    /// The interfaces to which its programs redirect frames.
    pub(crate) fn redirected_to(&self) -> Option<[u32; 2]> {
        self.interfaces?.redirected_to()
    }

    /// Whether the ports take redirected frames no more, or do so now, which `takes` knows.
    pub(crate) fn has_other_ports(&self, takes: impl Fn(u32) -> Option<bool>) -> bool {
        let attached = match self.state {
            State::Attached => true,
            State::Unfit(_) => false,
            State::Idle(_) | State::NoPorts => return false,
        };
        let fit = self.interfaces.and_then(|interfaces| interfaces.take_redirected(takes));
        fit.is_some_and(|fit| fit != attached)
    }

    /// Whether SAs that suit the programs belong here in this state; there may be none yet.
    pub(crate) fn is_place_of_sas(&self) -> bool {
        match self.state {
            State::Idle(_) => false,
            // SAs wait here if the kernel is demanded, and no frame passes.
            State::Unfit(_) => self.wanted == PlaceWanted::Kernel,
            State::NoPorts | State::Attached => true,
        }
    }

    /// Whether SAs belong here or nowhere.
    pub(crate) fn is_demanded(&self) -> bool {
        self.wanted == PlaceWanted::Kernel && self.is_place_of_sas()
    }

    /// Whether the programs are at work in front of the ports.
    pub(crate) const fn is_attached(&self) -> bool {
        matches!(self.state, State::Attached)
    }

    /// Whether the programs are at work, or will be as soon as there are ports.
    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self.state, State::Attached | State::NoPorts)
    }

    /// Whether a SAK of this suite belongs here. `whole`: each of its frames holds one whole SDU.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn accepts_sak(&self, suite: CipherSuite, whole: bool) -> Result<(), String> {
        if let (false, State::Idle(why) | State::Unfit(why)) = (self.is_place_of_sas(), &self.state) {
            return Err(why.clone());
        }
        match suite {
            CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn if whole => Ok(()),
            CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn => Err(NEEDS_FRAGMENTS.into()),
            other => Err(XdpError::LinkSuite(other.name()).to_string()),
        }
    }

    /// Takes the link's settings over. `scs`: its receive SCs; `shared`: whether the worker has SAs.
    pub(crate) fn configure(
        &mut self,
        settings: &LinkPlaceSettings,
        scs: &[Sci],
        shared: bool,
    ) -> Result<(), XdpError> {
        let LinkPlaceSettings { wanted, sci, secy, express, bypass, replay_window, .. } = settings;
        self.wanted = *wanted;
        if express.is_some() != self.express {
            self.keep_transmit_counters()?;
        }
        self.express = express.is_some();
        if self.is_idle() {
            self.state = State::NoPorts;
        }
        self.replay_window = *replay_window;
        let gone: Vec<_> = self.programs.receive_scs().filter(|sci| !scs.contains(sci)).collect();
        for sci in gone {
            self.keep_receive_counters(sci)?;
            self.programs.retire_receive_sc(sci)?;
        }
        // Without replay protection no PN is marked: what is behind the newest one would count as new.
        let begins = secy.replay_protect && !self.marks_pns;
        // An error below must not hide that the programs may have marked none.
        self.marks_pns &= secy.replay_protect;
        let raised = if begins { self.stand_still(scs)? } else { Vec::new() };
        if let Some(classes) = express {
            let own = sci.express().ok_or(XdpError::Setting(NO_EXPRESS_SCI))?;
            self.programs.configure_express(own, secy, (bypass, classes), Unclaimed::Drop)?;
        } else {
            self.programs.configure(*sci, secy, bypass, Unclaimed::Drop)?;
            self.programs.share(shared)?;
        }
        for (sci, an, lowest) in raised {
            self.programs.raise_lowest(sci, an, lowest)?;
            self.programs.enable_receive(sci, an)?;
        }
        self.marks_pns = secy.replay_protect;
        scs.iter().try_for_each(|sci| self.add_sc(*sci))
    }

    fn window(&self, sci: Sci, an: An) -> Result<Option<Window>, XdpError> {
        match self.programs.window(sci, an) {
            Err(XdpError::Install(InstallError::UnknownSc)) => Ok(None),
            other => other,
        }
    }

    /// Whether the worker has SAs too.
    pub(crate) fn share(&mut self, shared: bool) -> Result<(), XdpError> {
        // Frames of other than express SCs are the worker's at all times.
        self.programs.share(shared || self.express)
    }

    /// Makes a receive SC, unless it is there.
    pub(crate) fn add_sc(&mut self, sci: Sci) -> Result<(), XdpError> {
        match self.programs.install_receive_sc(sci) {
            Err(XdpError::Install(InstallError::SciInUse)) => Ok(()),
            other => other,
        }
    }

    /// Takes a receive SC out that the link has no more.
    pub(crate) fn retire_sc(&mut self, sci: Sci) -> Result<(), XdpError> {
        self.forget_receive_counters(sci);
        self.programs.retire_receive_sc(sci)
    }

    /// A receive SA in use that accepts no PN below `lowest`.
    pub(crate) fn install_receive(
        &mut self,
        sci: Sci,
        an: An,
        key: &SaKey<'_>,
        lowest: Pn,
    ) -> Result<(), XdpError> {
        self.install_receive_above(sci, an, key, lowest, false)
    }

    /// The same; `shared`: the PNs below are left to an SA of the worker's.
    pub(crate) fn install_receive_above(
        &mut self,
        sci: Sci,
        an: An,
        key: &SaKey<'_>,
        lowest: Pn,
        shared: bool,
    ) -> Result<(), XdpError> {
        self.add_sc(sci)?;
        self.programs.install_receive(sci, an, key, lowest, self.replay_window)?;
        if shared {
            self.programs.share_below(sci, an, true)?;
        }
        self.programs.enable_receive(sci, an)
    }

    /// The worker has no part of this receive SA any more.
    pub(crate) fn share_no_more(&mut self, sci: Sci, an: An) -> Result<(), XdpError> {
        self.programs.share_below(sci, an, false)
    }

    /// A transmit SA that protects nothing before it is enabled.
    pub(crate) fn install_transmit(
        &mut self,
        an: An,
        key: &SaKey<'_>,
        next: Pn,
        reserved: Pn,
    ) -> Result<(), XdpError> {
        self.programs.install_transmit(an, key, next, reserved)
    }

    pub(crate) fn enable_transmit(&mut self, an: An) -> Result<(), XdpError> {
        self.notified = NextAction::Continue;
        self.programs.enable_transmit(an)
    }

    /// The same for a worker, when it has sent what had come to it.
    pub(crate) fn transmit_switch(&mut self, an: An) -> Switch {
        self.notified = NextAction::Continue;
        self.programs.transmit_switch(an)
    }

    /// Lets no SA protect any more: frames without one are the worker's.
    pub(crate) fn disable_transmit(&mut self) -> Result<(), XdpError> {
        for an in An::ALL {
            if self.pns(an)?.is_some_and(|(_, used)| used) {
                self.programs.disable_transmit(an)?;
            }
        }
        Ok(())
    }

    /// Removes the SAs of an AN.
    pub(crate) fn retire(&mut self, an: An, scs: &[Sci]) -> Result<(), XdpError> {
        let transmit = self.programs.retire_transmit(an);
        let receive = scs.iter().map(|sci| match self.programs.retire_receive(*sci, an) {
            Err(XdpError::Install(InstallError::UnknownSc)) => Ok(()),
            other => other,
        });
        receive.fold(Ok(()), Result::and).and(transmit)
    }

    pub(crate) fn raise_lowest(&mut self, sci: Sci, an: An, lowest: Pn) -> Result<(), XdpError> {
        self.programs.raise_lowest(sci, an, lowest)
    }

    /// PNs of the transmit SA under `an`, and whether it protects.
    pub(crate) fn pns(&self, an: An) -> Result<Option<(TransmitPns, bool)>, XdpError> {
        self.programs.transmit_pns(an)
    }

    /// The highest PN that a receive SA has accepted; `None` if there is no such SA.
    pub(crate) fn highest(&self, sci: Sci, an: An) -> Result<Option<u64>, XdpError> {
        Ok(self.window(sci, an)?.map(|window| window.highest))
    }

    /// Permits a transmit SA the PNs up to and with `through`.
    pub(crate) fn reserve_through(&mut self, an: An, through: Pn) -> Result<(), XdpError> {
        self.notified = NextAction::Continue;
        self.programs.reserve_through(an, through)
    }

    /// A need of the transmit SA under `an` that was not told yet.
    pub(crate) fn new_need(&mut self, an: An) -> Option<NextAction> {
        let (pns, _) = self.pns(an).ok()??;
        let action = pns.next_action();
        let is_new = action != NextAction::Continue && action != self.notified;
        self.notified = action;
        is_new.then_some(action)
    }
}
