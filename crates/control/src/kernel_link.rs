//! A link's SAs in the kernel ([`xdp::Link`]): control installs them, asks for their PNs and windows, and adds their counters up.
//!
//! ```text
//!  start, the only one with CAP_PERFMON ─▶ KernelPrograms ─▶ a link has one of them, and gives it back
//!  ports are open ─▶ the programs stand in front of them
//!  a SAK that suits them ─▶ its SAs are in the kernel from its first frame to its last; all others are in the worker
//!  static keys            ─▶ their SAs come from the worker when the programs stand, and go back when they must not
//! ```
//!
//! An SA is in one place at a time. It leaves one place, and its PNs are read there, before it enters the other: so no PN is taken twice,
//! and no frame is accepted twice. What has no SA in the kernel goes to the worker while that has SAs. Receive SCs are in both places, and
//! counters are the sum.

use dataplane::snapshot::{LinkSnapshot, ReceiveSaSnapshot, TransmitSaSnapshot};
use netdev::port::KernelSide;
use secy::{NextAction, Settings, TransmitPns};
use suite::CipherSuite;
use wire::{An, EtherType, Pn, Sci};
use xdp::link::SaKey;
use xdp::{Unclaimed, XdpError};

use crate::kernel_ports::{Interfaces, NO_PORTS, PathWanted};
use crate::static_keys::StaticSaks;
use crate::{Gateway, Keys, LinkControl};

/// Why the SAs of a link with a cell stay in the worker.
pub(crate) const CELL_HAS_PROGRAMS: &str = "its cell has the programs in front of its ports";

/// How a link may use programs in the kernel.
pub struct LinkPathSettings {
    /// Where its frames are to be protected and verified.
    pub wanted: PathWanted,
    /// A suite that its keys may have; of several one that the programs have.
    pub suite: CipherSuite,
    /// SCI of the transmit SC.
    pub sci: Sci,
    /// Settings of the SecY.
    pub secy: Settings,
    /// EtherTypes that go around the SecY.
    pub bypass: Vec<EtherType>,
    /// Of receive SAs, in PNs.
    pub replay_window: u32,
    /// The keys, where they are static.
    pub saks: Option<StaticSaks>,
}

/// Where a link's frames are protected and verified, both ways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkPath {
    /// In the kernel.
    Kernel,
    /// In user space, for this reason.
    UserSpace(String),
    /// Nowhere: the kernel is wanted, and does not take them for this reason; or there are no ports.
    Nowhere(String),
}

/// The kernel's part of a link.
pub(crate) struct KernelLink {
    programs: xdp::Link,
    wanted: PathWanted,
    replay_window: u32,
    /// Why the link's settings, or a cell, leave the programs nothing, if they do so. They stay the link's: it counts with them.
    idle: Option<String>,
    /// Why the ports do not take the programs, if they do not.
    unfit: Option<String>,
    /// Of the ports that there are.
    interfaces: Option<Interfaces>,
    /// The programs stand in front of these ports.
    attached: bool,
    /// The need of the transmit SA with a static key that was told last.
    notified: NextAction,
}

/// SAs that have left the kernel, as they stood there.
#[derive(Default)]
pub(crate) struct Standing {
    /// AN, the next PN if one is left, the last reserved one, and whether it was the one that protected.
    pub(crate) transmit: Vec<(An, Option<Pn>, Pn, bool)>,
    /// The lowest PN that was not accepted yet, whatever came before it.
    pub(crate) receive: Vec<(Sci, An, Pn)>,
}

impl KernelLink {
    fn new(programs: xdp::Link) -> Self {
        Self {
            programs,
            wanted: PathWanted::Auto,
            replay_window: 0,
            idle: None,
            unfit: None,
            interfaces: None,
            attached: false,
            notified: NextAction::Continue,
        }
    }

    /// The programs, for another link.
    pub(crate) fn into_programs(self) -> xdp::Link {
        self.programs
    }

    pub(crate) const fn replay_window(&self) -> u32 {
        self.replay_window
    }

    pub(crate) const fn wanted(&self) -> PathWanted {
        self.wanted
    }

    /// Whether SAs of this suite come here.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn takes(&self, suite: CipherSuite) -> Result<(), String> {
        if let Some(why) = self.idle.as_ref().or(self.unfit.as_ref()) {
            return Err(why.clone());
        }
        match suite {
            CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn => Ok(()),
            other => Err(XdpError::LinkSuite(other.name()).to_string()),
        }
    }

    /// Whether the worker has SAs too.
    pub(crate) fn share(&mut self, shared: bool) -> Result<(), XdpError> {
        self.programs.share(shared)
    }

    /// Makes a receive SC, unless it is there.
    pub(crate) fn add_sc(&mut self, sci: Sci) -> Result<(), XdpError> {
        match self.programs.install_receive_sc(sci) {
            Err(XdpError::Install(secy::InstallError::SciInUse)) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn retire_sc(&mut self, sci: Sci) -> Result<(), XdpError> {
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
        self.add_sc(sci)?;
        self.programs.install_receive(sci, an, key, lowest, self.replay_window)?;
        self.programs.enable_receive(sci, an)
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
            Err(XdpError::Install(secy::InstallError::UnknownSc)) => Ok(()),
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

    /// The highest PN that a receive SA has accepted.
    pub(crate) fn highest(&self, sci: Sci, an: An) -> Option<u64> {
        Some(self.programs.window(sci, an).ok()??.highest)
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

    /// Takes all SAs out. Each stands still before it is read.
    pub(crate) fn take_out(&mut self, scs: &[Sci]) -> Result<Standing, XdpError> {
        let mut standing = Standing::default();
        for an in An::ALL {
            if let Some((_, used)) = self.pns(an)? {
                self.programs.disable_transmit(an)?;
                let stood = self.pns(an)?.ok_or(XdpError::Malformed)?.0;
                standing.transmit.push((an, stood.next(), stood.reserved(), used));
            }
            for sci in scs {
                if !matches!(self.programs.window(*sci, an), Ok(Some(_))) {
                    continue;
                }
                self.programs.disable_receive(*sci, an)?;
                let window = self.programs.window(*sci, an)?.ok_or(XdpError::Malformed)?;
                let lowest = Pn::new(window.highest.saturating_add(1)).unwrap_or(Pn::LAST_64);
                standing.receive.push((*sci, an, lowest));
            }
            self.retire(an, scs)?;
        }
        Ok(standing)
    }

    /// Adds what the kernel counts, and its SAs, to what the worker knows.
    pub(crate) fn complete(&self, snapshot: &mut LinkSnapshot) -> Result<(), XdpError> {
        let (secy, around) = self.programs.counters()?;
        snapshot.secy.add(&secy);
        snapshot.path.out_pkts_bypass += around.out_bypass;
        snapshot.path.in_pkts_bypass += around.in_bypass;
        snapshot.path.out_pkts_mac_control += around.out_mac_control;
        snapshot.path.in_pkts_mac_control += around.in_mac_control;
        snapshot.stranger = self.programs.last_unmatched()?.or(snapshot.stranger);
        snapshot.transmit.add(&self.programs.transmit_counters()?);
        for an in An::ALL {
            let Some((pns, enabled)) = self.pns(an)? else { continue };
            if enabled {
                snapshot.transmit_sas.iter_mut().for_each(|sa| sa.enabled = false);
            }
            let counters = self.programs.transmit_sa_counters(an)?;
            let (next_pn, reserved) = (pns.next(), pns.reserved());
            // An AN is in one place, so there is room.
            let _ = snapshot.transmit_sas.try_push(TransmitSaSnapshot {
                an,
                enabled,
                next_pn,
                reserved,
                counters,
            });
        }
        snapshot.transmit_sas.sort_by_key(|sa| sa.an.index());
        for sc in &mut snapshot.receive_scs {
            sc.counters.add(&self.programs.receive_counters(sc.sci)?);
            for an in An::ALL {
                let Some(window) = self.programs.window(sc.sci, an)? else { continue };
                let counters = self.programs.receive_sa_counters(sc.sci, an)?;
                let (in_use, lowest_pn) = (window.in_use, window.lowest);
                let _ = sc.sas.try_push(ReceiveSaSnapshot { an, in_use, lowest_pn, counters });
            }
            sc.sas.sort_by_key(|sa| sa.an.index());
        }
        Ok(())
    }
}

impl Gateway {
    /// Has a link's frames protected and verified in the kernel, as far as that is wanted and can be, or as these settings have changed.
    /// A link that is to begin in the kernel is added without ports, gets these settings, and then its ports.
    ///
    /// # Errors
    /// If the kernel is demanded and cannot be had, or there is no such link.
    pub fn set_link_path(&mut self, name: &str, settings: LinkPathSettings) -> Result<(), String> {
        let number = self.number(name).ok_or("there is no such link")?;
        let refusal = match settings.wanted {
            PathWanted::UserSpace => Some("io says so".to_owned()),
            // The programs of its cell stand in front of its ports.
            _ if self.links[number].cell.is_some() => Some(CELL_HAS_PROGRAMS.to_owned()),
            wanted => match self.find_programs(number, &settings) {
                Ok(()) => None,
                Err(why) if wanted == PathWanted::Kernel => return Err(why.to_string()),
                Err(why) => Some(why.to_string()),
            },
        };
        if let Some(why) = refusal {
            self.leave_kernel(number, why);
            return Ok(());
        }
        let LinkPathSettings { wanted, sci, secy, bypass, replay_window, saks, .. } = settings;
        if let Keys::Static(keys) = &mut self.links[number].keys {
            keys.saks = saks;
        }
        let LinkControl { kernel, keys, .. } = &mut self.links[number];
        let Some(kernel) = kernel else { return Err("there are no programs".into()) };
        (kernel.wanted, kernel.replay_window, kernel.idle) = (wanted, replay_window, None);
        let (scs, shared) = match &*keys {
            Keys::Agreed(agreement) => (agreement.scs().to_vec(), agreement.is_shared()),
            Keys::Static(keys) => (keys.scs(), !keys.in_kernel),
            Keys::None => (Vec::new(), false),
        };
        let configured = kernel
            .programs
            .configure(sci, &secy, &bypass, Unclaimed::Drop)
            .and_then(|()| kernel.share(shared))
            .and_then(|()| scs.into_iter().try_for_each(|sci| kernel.add_sc(sci)));
        configured.map_err(|error| error.to_string())?;
        self.attach_link(number);
        Ok(())
    }

    /// Gives a link programs that suit it, unless it has some that do.
    fn find_programs(&mut self, number: usize, settings: &LinkPathSettings) -> Result<(), XdpError> {
        xdp::Link::suits(&settings.secy, settings.suite)?;
        let window = settings.replay_window;
        match &self.links[number].kernel {
            Some(kernel) => kernel.programs.has_room(window),
            None => {
                let programs = self.kernel_programs.take_for_link(window)?;
                self.links[number].kernel = Some(Box::new(KernelLink::new(programs)));
                Ok(())
            }
        }
    }

    /// Puts a link's programs to work on its ports, if it has programs and ports.
    pub(crate) fn attach_link(&mut self, number: usize) {
        if self.links[number].kernel.as_ref().is_none_or(|kernel| kernel.idle.is_some()) {
            return;
        }
        let attached = match self.kernel_sides(number) {
            Ok(None) => {
                self.link_ports_closed(number);
                return;
            }
            Ok(Some(sides)) => self.put_link_programs(number, &sides),
            Err(why) => Err(why),
        };
        let Some(kernel) = &mut self.links[number].kernel else { return };
        kernel.unfit = attached.err();
        match (&kernel.unfit, kernel.wanted) {
            (None, _) => {
                kernel.attached = true;
                if let Err(why) = self.enter_static(number) {
                    self.links[number].why_user_space = why;
                }
            }
            // What the programs send would be lost, and counted as sent.
            (Some(_), PathWanted::Kernel) => self.detach_link(number),
            (Some(_), _) => self.move_to_worker(number),
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
            (kernel.attached, kernel.interfaces, kernel.unfit) = (false, None, None);
        }
    }

    /// Looks whether a link's ports take redirected frames still, or do so now.
    pub(crate) fn check_link_ports(&mut self, number: usize) {
        let kernel = self.links[number].kernel.as_deref().filter(|kernel| kernel.idle.is_none());
        let Some(kernel) = kernel else { return };
        let fit = kernel.interfaces.and_then(|interfaces| interfaces.take_redirected());
        let attached = kernel.attached;
        if fit.is_some_and(|fit| fit != attached) {
            self.attach_link(number);
        }
    }

    /// A link's SAs are the worker's from here on, for this reason, and its programs leave its ports.
    pub(crate) fn leave_kernel(&mut self, number: usize, why: String) {
        if self.links[number].kernel.is_some() {
            self.move_to_worker(number);
        }
        match &mut self.links[number].kernel {
            Some(kernel) => kernel.idle = Some(why),
            None => self.links[number].why_user_space = why,
        }
    }

    /// The same, as long as the ports do not take the programs.
    fn move_to_worker(&mut self, number: usize) {
        self.detach_link(number);
        match &self.links[number].keys {
            Keys::Static(_) => self.leave_static(number),
            Keys::Agreed(_) => self.leave_agreed(number),
            Keys::None => {}
        }
    }

    /// Takes a link's programs off its ports, which then go on with their own.
    fn detach_link(&mut self, number: usize) {
        let attached =
            self.links[number].kernel.as_mut().is_some_and(|kernel| std::mem::take(&mut kernel.attached));
        if attached {
            self.take_programs_off(number);
        }
    }

    /// Where the frames of a link are protected and verified; none without such a link.
    pub fn link_path(&self, name: &str) -> Option<LinkPath> {
        let LinkControl { kernel, keys, why_user_space, .. } = &self.links[self.number(name)?];
        let Some(kernel) = kernel else { return Some(LinkPath::UserSpace(why_user_space.clone())) };
        if let Some(why) = &kernel.idle {
            return Some(LinkPath::UserSpace(why.clone()));
        }
        Some(match &kernel.unfit {
            Some(why) if kernel.wanted == PathWanted::Kernel => LinkPath::Nowhere(why.clone()),
            Some(why) => LinkPath::UserSpace(why.clone()),
            None if !kernel.attached => LinkPath::Nowhere(NO_PORTS.into()),
            None => match keys {
                Keys::Agreed(agreement) => agreement.link_path(),
                Keys::Static(keys) if !keys.in_kernel => LinkPath::UserSpace(why_user_space.clone()),
                Keys::Static(_) | Keys::None => LinkPath::Kernel,
            },
        })
    }
}
