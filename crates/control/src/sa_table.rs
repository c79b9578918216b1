//! Control's copy of the SAs in a worker's SecY: the KaY's events become changes of them.
//!
//! | the KaY's event | changes |
//! |---|---|
//! | install | receive SCs that are missing, receive SAs, the transmit SA |
//! | admit | a receive SC if it is missing, a receive SA |
//! | enable transmit | the transmit SA, and with it how SDUs are fragmented |
//! | retire | all SAs of the SAK |
//! | expel | the receive SC |
//! | raise the lowest PN | the same |
//!
//! SAs of a SAK that the programs in the kernel take are there from its first frame to its last (kernel_link.rs). The worker hears of its receive SCs
//! alone. A station that announces express SCs has a second set of SAs under each SAK (express.rs).
//!
//! The table is that after all changes that were made, also those still under way: the worker carries them out in order.

mod express;
mod kernel;
mod passed_on;

use std::mem;
use std::time::Duration;

use mka::{Admission, Association, Event, Reason, Report};
use secy::{
    ConfidentialityOffset, ExpressClasses, FrameSizes, InstallError, Protection, ReceiveSa, ReceiveSc, SecY,
    Settings, TransmitSa, XpnBinding,
};
use suite::Key;
use wire::ethernet::ADDRESSES_OCTETS;
use wire::mkpdu::Confidentiality;
use wire::{An, Ki, Pn, Sci};

use crate::kernel_link::KernelLink;
use crate::sa_changes::{SaChange, SaChanges};
use dataplane::fragmenter::{FragmentConfig, Fragmenter};
use dataplane::pipeline::Pipeline;
use xdp::XdpError;
use xdp::link::SaKey;

use express::express_or_not;
pub(super) use passed_on::PassedSas;

/// Why a SAK that the programs would take is in user space: it stays where its first frame was. The next one comes to the kernel.
pub(crate) const BEGAN_THERE: &str = "its SAK began there";

/// Something that a person has to know.
#[derive(Debug)]
pub(super) enum SaNotice {
    Reason(Reason),
    TooManyPeers(Sci),
    SakRefused(Ki, String),
    Kernel(XdpError),
}

/// A SAK that is installed. Kept with its key, since a peer may be admitted later.
struct Installed {
    sak: Association,
    /// These are the SAs of the express SCs.
    express: bool,
    in_kernel: bool,
}

pub(super) struct SaTable {
    sci: Sci,
    settings: Settings,
    /// Of receive SAs to come.
    replay_window: u32,
    fragmenters: FragmenterSettings,
    /// Whether the keys to come antedate.
    antedate: bool,
    /// Whether the SAKs to come are used on express SCs too.
    express: bool,
    saks: Vec<Installed>,
    scs: Vec<Sci>,
    /// The SAK that protects.
    enabled: Option<Ki>,
    /// The SAK that was installed last, if it is still there, or else the one that protects.
    newest: Option<Ki>,
    /// Why the newest SAK that is not in the kernel is not.
    why_user_space: Option<String>,
    /// Not yet given to the worker.
    changes: SaChanges,
}

/// Settings of fragmenters to come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FragmenterSettings {
    /// Longest wait of an SDU for others to share its frame.
    pub(super) hold: Duration,
    /// SDUs that precede all others.
    pub(super) express_classes: ExpressClasses,
    /// Sizes to which frames are padded, where their SAK allows it.
    pub(super) padding: FrameSizes,
}

impl SaTable {
    /// The table of a SecY without SCs and SAs.
    pub(super) fn new(
        secy: &SecY,
        replay_window: u32,
        fragmenters: FragmenterSettings,
        antedate: bool,
        express: bool,
    ) -> Self {
        Self {
            sci: secy.sci(),
            settings: *secy.settings(),
            replay_window,
            fragmenters,
            antedate,
            express,
            saks: Vec::new(),
            scs: Vec::new(),
            enabled: None,
            newest: None,
            why_user_space: None,
            changes: SaChanges::default(),
        }
    }

    /// For SAs to come, and for fragmenters, that of the SAK that protects included.
    pub(super) fn set(
        &mut self,
        replay_window: u32,
        fragmenters: FragmenterSettings,
        antedate: bool,
        express: bool,
    ) {
        (self.replay_window, self.antedate, self.express) = (replay_window, antedate, express);
        if fragmenters == self.fragmenters {
            return;
        }
        self.fragmenters = fragmenters;
        if let Some(of) = self.enabled.and_then(|ki| self.find(ki)).filter(|of| !of.in_kernel) {
            let fragmenter = self.fragmenter(&of.sak, &self.settings);
            self.changes.list.push(SaChange::ReplaceFragmenter(fragmenter));
        }
    }

    /// Makes changes of an event. What the kernel takes is done at once.
    pub(super) fn apply_event(
        &mut self,
        event: Event,
        mut kernel: Option<&mut KernelLink>,
        tell: &mut impl FnMut(SaNotice),
    ) {
        let mut done = Ok(());
        match event {
            Event::Notice(reason) => tell(SaNotice::Reason(reason)),
            Event::Install(association) => self.install_all(*association, kernel, tell),
            Event::Admit { ki, admission } => {
                let mut saks = mem::take(&mut self.saks);
                // An SC is of one kind: who comes second with an SCI is left out.
                let is_taken = |express: bool, sci: Sci| {
                    let others = saks.iter().filter(|of| of.express != express);
                    others.flat_map(|of| &of.sak.receive).any(|admission| admission.sci == sci)
                };
                let taken = [false, true].map(|express| {
                    express_or_not(express, admission).is_some_and(|of| is_taken(express, of.sci))
                });
                for of in saks.iter_mut().filter(|of| of.sak.ki == ki) {
                    let Some(admission) = express_or_not(of.express, admission) else { continue };
                    if taken[usize::from(of.express)] {
                        tell(SaNotice::TooManyPeers(admission.sci));
                        continue;
                    }
                    let is_known = of.sak.receive.iter().any(|peer| peer.sci == admission.sci);
                    if is_known && self.scs.contains(&admission.sci) {
                        continue;
                    }
                    let kernel = kernel.as_deref_mut().filter(|_| of.in_kernel);
                    self.admit((&of.sak, of.express), &admission, kernel, tell);
                    if !is_known {
                        of.sak.receive.push(admission);
                    }
                }
                self.saks = saks;
            }
            Event::EnableTransmit(ki) => done = self.enable(ki, kernel),
            Event::Retire(ki) => {
                self.enabled = self.enabled.filter(|enabled| *enabled != ki);
                self.newest = self.newest.filter(|newest| *newest != ki).or(self.enabled);
                while let Some(index) = self.saks.iter().position(|of| of.sak.ki == ki) {
                    let of = self.saks.swap_remove(index);
                    done = done.and(self.retire(&of, kernel.as_deref_mut()));
                }
                for sci in self.unused_express_scs() {
                    done = done.and(self.expel(sci, kernel.as_deref_mut()));
                }
                self.admit_left_out(kernel, tell);
            }
            Event::Expel(sci) => {
                for sci in [Some(sci), sci.express()].into_iter().flatten() {
                    done = done.and(self.expel(sci, kernel.as_deref_mut()));
                }
                self.admit_left_out(kernel, tell);
            }
            Event::RaiseLowest { ki, sci, lowest_pn } => {
                // It is the PN of a frame on this SC: of the peer's express SC nothing is said.
                let found = self.saks.iter().find(|of| of.sak.ki == ki && !of.express);
                if let (Some(Installed { sak, in_kernel, .. }), Some(lowest_pn)) = (found, Pn::new(lowest_pn))
                {
                    match kernel {
                        // The SA may be gone by now.
                        Some(kernel) if *in_kernel => drop(kernel.raise_lowest(sci, sak.an, lowest_pn)),
                        _ => self.changes.list.push(SaChange::RaiseLowest { sci, an: sak.an, lowest_pn }),
                    }
                }
            }
        }
        if let Err(error) = done {
            tell(SaNotice::Kernel(error));
        }
    }

    /// Takes the SAs of a SAK out.
    fn retire(&mut self, of: &Installed, kernel: Option<&mut KernelLink>) -> Result<(), XdpError> {
        let an = of.sak.an;
        match kernel {
            Some(kernel) if of.in_kernel => kernel.retire(an, &self.scs),
            kernel => {
                self.changes.list.push(SaChange::Retire { an, out: Box::default() });
                kernel.map_or(Ok(()), |kernel| kernel.share(self.is_shared()))
            }
        }
    }

    /// Takes a receive SC out.
    fn expel(&mut self, sci: Sci, kernel: Option<&mut KernelLink>) -> Result<(), XdpError> {
        let Some(index) = self.scs.iter().position(|sc| *sc == sci) else { return Ok(()) };
        self.scs.swap_remove(index);
        self.saks.iter_mut().for_each(|of| of.sak.receive.retain(|admission| admission.sci != sci));
        self.changes.list.push(SaChange::RetireReceiveSc { sci, out: Box::new(None) });
        kernel.map_or(Ok(()), |kernel| kernel.retire_sc(sci))
    }

    /// Admits peers for which there was no SC, and is one now.
    fn admit_left_out(&mut self, mut kernel: Option<&mut KernelLink>, tell: &mut impl FnMut(SaNotice)) {
        let saks = mem::take(&mut self.saks);
        let before = self.scs.clone();
        for of in &saks {
            for admission in of.sak.receive.iter().filter(|admission| !before.contains(&admission.sci)) {
                if self.scs.len() == SecY::RECEIVE_SCS && !self.scs.contains(&admission.sci) {
                    break;
                }
                let kernel = kernel.as_deref_mut().filter(|_| of.in_kernel);
                self.admit((&of.sak, of.express), admission, kernel, tell);
            }
        }
        self.saks = saks;
    }

    /// Whether the worker has SAs.
    pub(super) fn is_shared(&self) -> bool {
        self.saks.iter().any(|of| !of.in_kernel)
    }

    /// Whether the kernel has SAs.
    pub(super) fn is_in_kernel(&self) -> bool {
        self.saks.iter().any(|of| of.in_kernel)
    }

    /// The receive SCs.
    pub(super) fn scs(&self) -> &[Sci] {
        &self.scs
    }

    /// Why the SAK that protects is in user space, if it is.
    pub(super) fn why_user_space(&self) -> Option<&str> {
        let enabled = self.find(self.enabled?)?;
        let why = self.why_user_space.as_deref().unwrap_or(BEGAN_THERE);
        (!enabled.in_kernel).then_some(why)
    }

    /// The changes that the worker has not got yet, if there are any.
    pub(super) fn take_changes(&mut self) -> Option<Box<SaChanges>> {
        let nothing = self.changes.list.is_empty() && self.changes.reports.is_empty();
        (!nothing).then(|| Box::new(mem::take(&mut self.changes)))
    }

    /// Queues changes again that the worker did not take, before all others.
    pub(super) fn requeue(&mut self, mut changes: SaChanges) {
        changes.list.append(&mut self.changes.list);
        changes.reports.append(&mut self.changes.reports);
        self.changes = changes;
    }

    /// The SAK of each AN, of those in the worker.
    pub(super) fn by_an(&self) -> [Option<Ki>; An::COUNT] {
        let mut by_an = [None; An::COUNT];
        for Installed { sak, .. } in self.saks.iter().filter(|of| !of.in_kernel && !of.express) {
            by_an[sak.an.index()] = Some(sak.ki);
        }
        by_an
    }

    /// Makes `pipeline`, whose SecY has no SC and SA, one that can take over from the pipeline before.
    ///
    /// # Errors
    /// If it has another SCI, or SCs of its own.
    pub(super) fn prepare(&self, pipeline: &mut Pipeline) -> Result<(), InstallError> {
        if pipeline.secy.sci() != self.sci {
            return Err(InstallError::UnknownSc);
        }
        for sci in &self.scs {
            pipeline.secy.install_receive_sc(*sci)?;
        }
        let enabled = self.enabled.and_then(|ki| self.find(ki));
        let fragmenter = enabled.and_then(|of| self.fragmenter(&of.sak, pipeline.secy.settings()));
        pipeline.replace_fragmenter(fragmenter);
        Ok(())
    }

    /// Takes over the settings of a pipeline that has come in the place of the one before.
    pub(super) const fn follow(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// A SAK that is installed, with its SAs of other than express SCs.
    fn find(&self, ki: Ki) -> Option<&Installed> {
        self.saks.iter().find(|of| of.sak.ki == ki && !of.express)
    }

    /// Installs the SAs of one kind of SCs; false if the SAK cannot be used. `kernel`: programs for this kind.
    fn install(
        &mut self,
        sak: Association,
        express: bool,
        mut kernel: Option<&mut KernelLink>,
        tell: &mut impl FnMut(SaNotice),
    ) -> bool {
        let ki = sak.ki;
        if let Some(kernel) = kernel.as_deref_mut() {
            match kernel.accepts_sak(sak.suite, sak.whole) {
                Ok(()) => {
                    if let Err(error) = self.install_in_kernel((&sak, express), kernel, tell) {
                        // Its SAs may have had frames: they do not begin again elsewhere.
                        let retired = kernel.retire(sak.an, &self.scs).err();
                        tell(SaNotice::SakRefused(ki, retired.unwrap_or(error).to_string()));
                        return false;
                    }
                    self.saks.push(Installed { sak, express, in_kernel: true });
                    return true;
                }
                Err(why) if kernel.is_demanded() => {
                    tell(SaNotice::SakRefused(ki, why));
                    return false;
                }
                Err(why) => self.why_user_space = Some(why),
            }
        }
        // The worker sends express frames as all others.
        let transmit = if express { Ok(None) } else { self.transmit_sa(&sak, Pn::FIRST).map(Some) };
        let transmit = match transmit {
            Ok(transmit) => transmit,
            Err(why) => {
                tell(SaNotice::SakRefused(ki, why.into()));
                return false;
            }
        };
        sak.receive.iter().for_each(|admission| self.admit((&sak, express), admission, None, tell));
        self.changes.list.extend(transmit.map(|sa| SaChange::InstallTransmit { sa: Some(sa) }));
        self.saks.push(Installed { sak, express, in_kernel: false });
        if let Err(error) = kernel.map_or(Ok(()), |kernel| kernel.share(true)) {
            tell(SaNotice::Kernel(error));
        }
        true
    }

    /// Whether there is a receive SC for this peer, or is one now. `express`: for its express frames.
    fn has_sc(&mut self, sci: Sci, express: bool, tell: &mut impl FnMut(SaNotice)) -> bool {
        if self.scs.contains(&sci) {
            return true;
        }
        let is_own = sci == self.sci || (self.express && self.sci.express() == Some(sci));
        if self.scs.len() == SecY::RECEIVE_SCS || is_own {
            tell(SaNotice::TooManyPeers(sci));
            return false;
        }
        self.scs.push(sci);
        // Express frames are whole.
        let sc = ReceiveSc::new(sci, self.settings.reassemble && !express);
        self.changes.list.push(SaChange::InstallReceiveSc(Box::new(Some(sc))));
        true
    }

    /// Admits a peer under a SAK, in the kernel if it is there.
    fn admit(
        &mut self,
        (sak, express): (&Association, bool),
        admission: &Admission,
        kernel: Option<&mut KernelLink>,
        tell: &mut impl FnMut(SaNotice),
    ) {
        let &Admission { sci, .. } = admission;
        if !self.has_sc(sci, express, tell) {
            return;
        }
        if let Some(kernel) = kernel {
            if let Err(error) = kernel.install_receive(sci, sak.an, &receive_key(sak, admission), Pn::FIRST) {
                tell(SaNotice::Kernel(error));
            }
            return;
        }
        match self.receive_sa(sak, admission, Pn::FIRST, self.replay_window) {
            Ok(sa) => self.changes.list.push(SaChange::InstallReceive { sci, sa: Some(sa) }),
            Err(why) => tell(SaNotice::SakRefused(sak.ki, why.into())),
        }
    }

    fn enable(&mut self, ki: Ki, kernel: Option<&mut KernelLink>) -> Result<(), XdpError> {
        let Some(of) = self.find(ki) else { return Ok(()) };
        let (an, fragmenter) = (of.sak.an, self.fragmenter(&of.sak, &self.settings));
        let mut express = None;
        match kernel {
            // Frames that wait for the worker go out under the SAK before, which stays for seconds.
            Some(kernel) if of.in_kernel => kernel.enable_transmit(an)?,
            kernel => {
                // The kernel's SAK protects until the worker's does: see `worker_protects`.
                self.changes.list.push(SaChange::EnableTransmit { an, fragmenter });
                express = kernel.filter(|kernel| kernel.is_express());
            }
        }
        self.enabled = Some(ki);
        self.changes.reports.push(Report::Transmitting(ki));
        express.map_or(Ok(()), |kernel| self.enable_express(ki, kernel))
    }

    /// Fragmenter of SDUs under a SAK; none under one with an offset, whose frames hold one whole SDU each.
    fn fragmenter(&self, sak: &Association, settings: &Settings) -> Option<Box<Fragmenter>> {
        let mka::FragmentAgreement { fragment, concatenate, pad, largest_sdu, express: _ } =
            sak.fragmentation;
        let FragmenterSettings { hold, express_classes, padding } = self.fragmenters;
        // A frame that is not encrypted hides no length.
        let pad = pad && !padding.is_none() && sak.confidentiality == Confidentiality::Zero;
        let fragments = (fragment || concatenate || pad) && !protection(sak.confidentiality).has_offset();
        let fragmentation = FragmentConfig {
            fragment,
            concatenate,
            padding: if pad { padding } else { FrameSizes::NONE },
            hold,
            express: express_classes,
        };
        let longest = ADDRESSES_OCTETS + usize::from(largest_sdu);
        fragments.then(|| Box::new(Fragmenter::new(settings, fragmentation, longest)))
    }

    fn transmit_sa(&self, sak: &Association, first: Pn) -> Result<Box<TransmitSa>, &'static str> {
        let SaKey { xpn, protection, .. } = transmit_key(sak);
        let key = key(sak, self.antedate)?;
        // A SAK is never on disk, so its PNs need no lease.
        let sa = TransmitSa::new(sak.an, key, xpn, protection, first, Pn::LAST_64);
        sa.map(Box::new).map_err(describe)
    }

    fn receive_sa(
        &self,
        sak: &Association,
        of: &Admission,
        lowest: Pn,
        window: u32,
    ) -> Result<Box<ReceiveSa>, &'static str> {
        let SaKey { xpn, protection, .. } = receive_key(sak, of);
        // With more peers, those beyond go the ordinary way: there are never more such SCs than that at once.
        let antedate = self.antedate
            && self.scs.iter().position(|sci| *sci == of.sci).is_some_and(|at| at < SecY::ANTEDATED_SCS);
        let key = key(sak, antedate)?;
        let sa = ReceiveSa::new(sak.an, key, xpn, protection, lowest, window);
        sa.map(Box::new).map_err(describe)
    }
}

fn transmit_key(sak: &Association) -> SaKey<'_> {
    let xpn = sak.xpn.map(|(salt, ssci)| XpnBinding { ssci, salt });
    SaKey { suite: sak.suite, sak: &sak.sak, xpn, protection: protection(sak.confidentiality) }
}

fn receive_key<'k>(sak: &'k Association, of: &Admission) -> SaKey<'k> {
    let xpn = of.ssci.zip(sak.xpn).map(|(ssci, (salt, _))| XpnBinding { ssci, salt });
    SaKey { xpn, ..transmit_key(sak) }
}

fn key(sak: &Association, antedate: bool) -> Result<Key, &'static str> {
    let prepare = if antedate { Key::prepare_antedated } else { Key::prepare };
    prepare(sak.suite, &sak.sak).map_err(|_| "it is not as long as its cipher suite wants")
}

const fn protection(confidentiality: Confidentiality) -> Protection {
    match confidentiality {
        Confidentiality::Integrity => Protection::Integrity,
        Confidentiality::Zero => Protection::Encrypt(ConfidentialityOffset::Zero),
        Confidentiality::Thirty => Protection::Encrypt(ConfidentialityOffset::Thirty),
        Confidentiality::Fifty => Protection::Encrypt(ConfidentialityOffset::Fifty),
    }
}

/// Why an SA cannot be made.
pub(super) const fn describe(error: InstallError) -> &'static str {
    match error {
        InstallError::OffsetWithXpn => "XPN has no confidentiality offset",
        InstallError::XpnBinding => "SSCI and salt are missing, or too much",
        InstallError::AnInUse => "its AN is in use",
        InstallError::UnknownSc | InstallError::UnknownAn => "its SC or SA is not there",
        InstallError::SciInUse => "its SCI is in use",
        InstallError::TooManyScs => "there is no room for another receive SC",
    }
}

#[cfg(test)]
mod tests;
