//! A SecY in the eyes of a KaY: it does what the KaY requests, and says what it could not do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mka::{Admission, Association, Event, Report};
use wire::{An, Instant, Ki, Mi, Sci, Ssci};

use super::print;

/// A SAK in a SecY.
#[derive(Clone, Debug)]
pub(super) struct Sas {
    pub(super) ki: Ki,
    an: An,
    pub(super) since: Instant,
    pub(super) installed: bool,
    /// Members that were live when it was installed.
    pub(super) live_then: Vec<(Sci, Mi)>,
    pub(super) receive: BTreeSet<Sci>,
    pub(super) expelled: BTreeSet<Sci>,
}

/// A SAK as a station began with it: what must never come again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Begun {
    /// Transmitting SCI.
    pub(super) sci: Sci,
    /// Name of the SAK.
    pub(super) ki: Ki,
    /// Digest of the key.
    pub(super) key: u64,
    /// SSCIs of all members, with an XPN suite.
    pub(super) sscis: BTreeMap<Sci, Ssci>,
}

/// The model of a SecY.
#[derive(Clone, Debug, Default)]
pub(super) struct SecY {
    pub(super) saks: Vec<Sas>,
    pub(super) transmits: Option<Ki>,
    pub(super) reports: VecDeque<Report>,
    scs: BTreeSet<Sci>,
}

/// Consequences of events that others have to judge.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    pub(super) begun: Vec<Begun>,
    pub(super) enabled: Vec<Ki>,
    /// SAKs that went while the SecY protected with them, and members were live.
    pub(super) dropped: Vec<Ki>,
}

impl SecY {
    pub(super) fn find(&self, ki: Ki) -> Option<&Sas> {
        self.saks.iter().find(|sas| sas.ki == ki)
    }

    fn find_mut(&mut self, ki: Ki) -> Result<&mut Sas, String> {
        self.saks.iter_mut().find(|sas| sas.ki == ki).ok_or_else(|| "a SAK that is not installed".to_owned())
    }

    /// Does what the KaY of station `sci` says. `live`: its live members.
    pub(super) fn apply(
        &mut self,
        now: Instant,
        sci: Sci,
        live: &[(Sci, Mi)],
        event: Event,
        done: &mut Done,
    ) -> Result<(), String> {
        match event {
            Event::Install(association) => self.install(now, sci, live, *association, done)?,
            Event::Admit { ki, admission: Admission { sci, .. } } => {
                self.scs.insert(sci);
                if !self.find_mut(ki)?.receive.insert(sci) {
                    return Err(format!("{sci} is admitted twice"));
                }
            }
            Event::EnableTransmit(ki) => {
                if !self.find_mut(ki)?.installed {
                    return Err("transmission before installation".to_owned());
                }
                self.reports.push_back(Report::Transmitting(ki));
                done.enabled.push(ki);
            }
            Event::Retire(ki) => {
                self.find_mut(ki)?;
                if self.transmits == Some(ki) && !live.is_empty() {
                    done.dropped.push(ki);
                }
                self.saks.retain(|sas| sas.ki != ki);
                self.reports.retain(
                    |report| !matches!(report, Report::Installed(of) | Report::Transmitting(of) if *of == ki),
                );
                self.transmits = self.transmits.filter(|transmits| *transmits != ki);
            }
            Event::Expel(sci) => {
                if !self.scs.remove(&sci) {
                    return Err(format!("{sci} has no SC"));
                }
                for sas in &mut self.saks {
                    if sas.receive.remove(&sci) {
                        sas.expelled.insert(sci);
                    }
                }
            }
            Event::RaiseLowest { ki, .. } => drop(self.find_mut(ki)?),
            Event::Notice(_) => {}
        }
        Ok(())
    }

    fn install(
        &mut self,
        now: Instant,
        own: Sci,
        live: &[(Sci, Mi)],
        association: Association,
        done: &mut Done,
    ) -> Result<(), String> {
        let Association { ki, an, sak, xpn, receive, .. } = association;
        if self.saks.iter().any(|sas| sas.an == an) {
            return Err(format!("AN {an} is in use"));
        }
        let sscis = receive.iter().filter_map(|to| Some((to.sci, to.ssci?)));
        let sscis = sscis.chain(xpn.map(|(_, ssci)| (own, ssci))).collect();
        done.begun.push(Begun { sci: own, ki, key: print::key(&sak), sscis });
        let receive: BTreeSet<Sci> = receive.iter().map(|admission| admission.sci).collect();
        self.scs.extend(&receive);
        self.saks.push(Sas {
            ki,
            an,
            since: now,
            installed: false,
            live_then: live.to_vec(),
            receive,
            expelled: BTreeSet::new(),
        });
        self.reports.push_back(Report::Installed(ki));
        Ok(())
    }

    /// Carries a report out: from then on it is so.
    pub(super) fn report(&mut self) -> Option<Report> {
        let report = self.reports.pop_front()?;
        match report {
            Report::Installed(ki) => {
                self.saks.iter_mut().filter(|sas| sas.ki == ki).for_each(|sas| sas.installed = true);
            }
            Report::Transmitting(ki) => self.transmits = Some(ki),
            Report::NextPn { .. } => {}
        }
        Some(report)
    }
}
