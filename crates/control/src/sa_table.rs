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
//! The table is that after all changes that were made, also those still under way: the worker carries them out in order.

use std::mem;
use std::time::Duration;

use mka::{Admission, Association, Event, Reason, Report};
use secy::{
    ConfidentialityOffset, InstallError, Protection, ReceiveSa, ReceiveSc, SecY, Settings, TransmitSa,
    XpnBinding,
};
use suite::Key;
use wire::ethernet::ADDRESSES_OCTETS;
use wire::mkpdu::Confidentiality;
use wire::{An, Ki, Pn, Sci};

use crate::sa_changes::{SaChange, SaChanges};
use dataplane::fragmenter::{FragmentConfig, Fragmenter};
use dataplane::path::Path;

/// Something that a person has to know.
#[derive(Debug)]
pub(super) enum SaNotice {
    Reason(Reason),
    TooManyPeers(Sci),
    SakRefused(Ki, &'static str),
}

pub(super) struct SaTable {
    sci: Sci,
    settings: Settings,
    /// Of receive SAs to come.
    replay_window: u32,
    hold: Duration,
    /// Whether the keys to come antedate.
    antedate: bool,
    /// SAKs that are installed. Kept with their keys, since a peer may be admitted later.
    saks: Vec<Association>,
    scs: Vec<Sci>,
    /// The SAK that protects.
    enabled: Option<Ki>,
    /// Not yet given to the worker.
    changes: SaChanges,
}

impl SaTable {
    /// The table of a SecY without SCs and SAs.
    pub(super) fn new(secy: &SecY, replay_window: u32, hold: Duration, antedate: bool) -> Self {
        Self {
            sci: secy.sci(),
            settings: *secy.settings(),
            replay_window,
            hold,
            antedate,
            saks: Vec::new(),
            scs: Vec::new(),
            enabled: None,
            changes: SaChanges::default(),
        }
    }

    /// For SAs and fragmenters to come.
    pub(super) const fn set(&mut self, replay_window: u32, hold: Duration, antedate: bool) {
        (self.replay_window, self.hold, self.antedate) = (replay_window, hold, antedate);
    }

    /// Makes changes of an event.
    pub(super) fn apply_event(&mut self, event: Event, tell: &mut impl FnMut(SaNotice)) {
        match event {
            Event::Notice(reason) => tell(SaNotice::Reason(reason)),
            Event::Install(association) => self.install(association, tell),
            Event::Admit { ki, admission } => {
                let Some(index) = self.saks.iter().position(|sak| sak.ki == ki) else { return };
                let sak = self.saks.swap_remove(index);
                self.admit(&sak, &admission, tell);
                self.saks.push(sak);
            }
            Event::EnableTransmit(ki) => self.enable(ki),
            Event::Retire(ki) => {
                let Some(index) = self.saks.iter().position(|sak| sak.ki == ki) else { return };
                let an = self.saks.swap_remove(index).an;
                self.enabled = self.enabled.filter(|enabled| *enabled != ki);
                self.changes.list.push(SaChange::Retire { an, out: Box::default() });
            }
            Event::Expel(sci) => {
                let Some(index) = self.scs.iter().position(|sc| *sc == sci) else { return };
                self.scs.swap_remove(index);
                self.changes.list.push(SaChange::RetireReceiveSc { sci, out: Box::new(None) });
            }
            Event::RaiseLowest { ki, sci, lowest_pn } => {
                let sak = self.saks.iter().find(|sak| sak.ki == ki);
                if let (Some(sak), Some(lowest_pn)) = (sak, Pn::new(lowest_pn)) {
                    self.changes.list.push(SaChange::RaiseLowest { sci, an: sak.an, lowest_pn });
                }
            }
        }
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

    /// The SAK of each AN.
    pub(super) fn by_an(&self) -> [Option<Ki>; An::COUNT] {
        let mut by_an = [None; An::COUNT];
        for sak in &self.saks {
            by_an[sak.an.index()] = Some(sak.ki);
        }
        by_an
    }

    /// Makes `path`, whose SecY has no SC and SA, one that can take over from the path before.
    ///
    /// # Errors
    /// If it has another SCI, or SCs of its own.
    pub(super) fn prepare(&mut self, path: &mut Path) -> Result<(), InstallError> {
        if path.secy.sci() != self.sci {
            return Err(InstallError::UnknownSc);
        }
        for sci in &self.scs {
            path.secy.install_receive_sc(*sci)?;
        }
        self.settings = *path.secy.settings();
        path.replace_fragmenter(
            self.saks.iter().find(|sak| Some(sak.ki) == self.enabled).and_then(|sak| self.fragmenter(sak)),
        );
        Ok(())
    }

    fn install(&mut self, sak: Box<Association>, tell: &mut impl FnMut(SaNotice)) {
        let ki = sak.ki;
        match self.transmit_sa(&sak) {
            Ok(sa) => {
                sak.receive.iter().for_each(|admission| self.admit(&sak, admission, tell));
                self.changes.list.push(SaChange::InstallTransmit { sa: Some(sa) });
                self.changes.reports.push(Report::Installed(ki));
                self.saks.push(*sak);
            }
            Err(why) => tell(SaNotice::SakRefused(ki, why)),
        }
    }

    fn admit(&mut self, sak: &Association, admission: &Admission, tell: &mut impl FnMut(SaNotice)) {
        let &Admission { sci, .. } = admission;
        if !self.scs.contains(&sci) {
            if self.scs.len() == SecY::RECEIVE_SCS || sci == self.sci {
                tell(SaNotice::TooManyPeers(sci));
                return;
            }
            self.scs.push(sci);
            let sc = ReceiveSc::new(sci, self.settings.reassemble);
            self.changes.list.push(SaChange::InstallReceiveSc(Box::new(Some(sc))));
        }
        match self.receive_sa(sak, admission) {
            Ok(sa) => self.changes.list.push(SaChange::InstallReceive { sci, sa: Some(sa) }),
            Err(why) => tell(SaNotice::SakRefused(sak.ki, why)),
        }
    }

    fn enable(&mut self, ki: Ki) {
        let Some(sak) = self.saks.iter().find(|sak| sak.ki == ki) else { return };
        let (an, fragmenter) = (sak.an, self.fragmenter(sak));
        self.enabled = Some(ki);
        self.changes.list.push(SaChange::EnableTransmit { an, fragmenter });
        self.changes.reports.push(Report::Transmitting(ki));
    }

    /// Fragmenter of SDUs under a SAK; none under one with an offset, whose frames hold one whole SDU each.
    fn fragmenter(&self, sak: &Association) -> Option<Box<Fragmenter>> {
        let mka::FragmentAgreement { fragment, concatenate, largest_sdu } = sak.fragmentation;
        let fragments = (fragment || concatenate) && !protection(sak.confidentiality).has_offset();
        let fragmentation = FragmentConfig { fragment, concatenate, hold: self.hold };
        let longest = ADDRESSES_OCTETS + usize::from(largest_sdu);
        fragments.then(|| Box::new(Fragmenter::new(&self.settings, fragmentation, longest)))
    }

    fn transmit_sa(&self, sak: &Association) -> Result<Box<TransmitSa>, &'static str> {
        let xpn = sak.xpn.map(|(salt, ssci)| XpnBinding { ssci, salt });
        let (key, protection) = (key(sak, self.antedate)?, protection(sak.confidentiality));
        // A SAK is never on disk, so its PNs need no lease.
        let sa = TransmitSa::new(sak.an, key, xpn, protection, Pn::FIRST, Pn::LAST_64);
        sa.map(Box::new).map_err(describe)
    }

    fn receive_sa(&self, sak: &Association, of: &Admission) -> Result<Box<ReceiveSa>, &'static str> {
        let xpn = of.ssci.zip(sak.xpn).map(|(ssci, (salt, _))| XpnBinding { ssci, salt });
        // With more peers, those beyond go the ordinary way: there are never more such SCs than that at once.
        let antedate = self.antedate
            && self.scs.iter().position(|sci| *sci == of.sci).is_some_and(|at| at < SecY::ANTEDATED_SCS);
        let (key, protection) = (key(sak, antedate)?, protection(sak.confidentiality));
        let sa = ReceiveSa::new(sak.an, key, xpn, protection, Pn::FIRST, self.replay_window);
        sa.map(Box::new).map_err(describe)
    }
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
