//! A model of a SecY: it does what a KaY says, answers after a while, and refuses what a SecY could not do.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use mka::{Association, Event, FragmentAgreement, Report};
use suite::{CipherSuite, Salt};
use wire::{An, Instant, Ki, Sci, Ssci};

/// A SAK in the model.
#[derive(Debug)]
pub(crate) struct Sas {
    pub(crate) ki: Ki,
    pub(crate) an: An,
    pub(crate) suite: CipherSuite,
    pub(crate) fragmentation: FragmentAgreement,
    pub(crate) whole: bool,
    pub(crate) key: Vec<u8>,
    pub(crate) xpn: Option<(Salt, Ssci)>,
    pub(crate) asked: Instant,
    /// The SAs are there.
    pub(crate) installed: bool,
    pub(crate) next_pn: u64,
    /// Lowest acceptable PNs.
    pub(crate) receive: BTreeMap<Sci, u64>,
    pub(crate) sscis: BTreeMap<Sci, Option<Ssci>>,
    /// Admitted and removed peers.
    pub(crate) expelled: HashSet<Sci>,
}

/// A protected frame, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Protected {
    pub(crate) ki: Ki,
    pub(crate) an: An,
    pub(crate) sci: Sci,
    pub(crate) pn: u64,
}

/// The model.
#[derive(Debug)]
pub(crate) struct SecY {
    sci: Sci,
    pub(crate) delay: Duration,
    pub(crate) saks: Vec<Sas>,
    pub(crate) transmits: Option<Ki>,
    /// It has protected since then, with whatever SAK.
    pub(crate) since: Instant,
    /// Pending reports with their times.
    pub(crate) reports: Vec<(Instant, Report)>,
    /// SCs that there are.
    scs: HashSet<Sci>,
    pub(crate) raised: u64,
}

impl SecY {
    pub(crate) fn new(sci: Sci, delay: Duration) -> Self {
        Self {
            sci,
            delay,
            saks: vec![],
            transmits: None,
            since: Instant::START,
            reports: vec![],
            scs: HashSet::new(),
            raised: 0,
        }
    }

    pub(crate) fn find(&self, ki: Ki) -> Option<&Sas> {
        self.saks.iter().find(|sas| sas.ki == ki)
    }

    fn find_mut(&mut self, ki: Ki) -> &mut Sas {
        self.saks.iter_mut().find(|sas| sas.ki == ki).expect("a SAK that was installed")
    }

    /// Does what the KaY says. Returns a SAK that came in.
    pub(crate) fn apply(&mut self, now: Instant, event: Event) {
        match event {
            Event::Install(association) => self.install(now, *association),
            Event::Admit { ki, admission } => {
                self.scs.insert(admission.sci);
                assert!(self.scs.len() <= 32, "a SecY receives from 32");
                let before = self.find_mut(ki).receive.insert(admission.sci, 1);
                assert_eq!(before, None, "{} was let in before", admission.sci);
            }
            Event::EnableTransmit(ki) => {
                assert!(self.find_mut(ki).installed, "transmits before it is installed");
                self.reports.push((now + self.delay, Report::Transmitting(ki)));
            }
            Event::Retire(ki) => {
                self.find_mut(ki);
                self.saks.retain(|sas| sas.ki != ki);
                self.reports.retain(|(_, report)| {
                    !matches!(report, Report::Installed(of) | Report::Transmitting(of) if *of == ki)
                });
                if self.transmits == Some(ki) {
                    self.transmits = None;
                }
            }
            Event::Expel(sci) => {
                assert!(self.scs.remove(&sci), "{sci} has no SC");
                for sas in &mut self.saks {
                    if sas.receive.remove(&sci).is_some() {
                        sas.expelled.insert(sci);
                    }
                }
            }
            Event::RaiseLowest { ki, sci, lowest_pn } => {
                let lowest = self.find_mut(ki).receive.get_mut(&sci).expect("an SC that is there");
                assert!(lowest_pn > *lowest, "raised to less");
                *lowest = lowest_pn;
                self.raised += 1;
            }
            Event::Notice(_) => {}
        }
    }

    fn install(&mut self, now: Instant, association: Association) {
        let Association { ki, an, suite, sak, xpn, receive, fragmentation, whole, .. } = association;
        assert!(self.saks.iter().all(|sas| sas.an != an), "AN {an} is in use");
        assert_eq!(suite.is_xpn(), xpn.is_some());
        self.scs.extend(receive.iter().map(|admission| admission.sci));
        assert!(self.scs.len() <= 32 && !self.scs.contains(&self.sci));
        self.saks.push(Sas {
            ki,
            an,
            suite,
            fragmentation,
            whole,
            key: sak.octets().to_vec(),
            xpn,
            asked: now,
            installed: false,
            next_pn: 1,
            receive: receive.iter().map(|admission| (admission.sci, 1)).collect(),
            expelled: HashSet::new(),
            sscis: receive.iter().map(|admission| (admission.sci, admission.ssci)).collect(),
        });
        self.reports.push((now + self.delay, Report::Installed(ki)));
    }

    /// The next report that is due.
    pub(crate) fn report(&mut self, now: Instant) -> Option<Report> {
        let i = self.reports.iter().position(|(at, _)| *at <= now)?;
        let (_, report) = self.reports.remove(i);
        match report {
            Report::Installed(ki) => self.find_mut(ki).installed = true,
            Report::Transmitting(ki) => {
                if self.transmits.replace(ki).is_none() {
                    self.since = now;
                }
            }
            Report::NextPn { .. } => {}
        }
        Some(report)
    }

    /// The next PNs.
    pub(crate) fn next_pns(&self) -> Vec<Report> {
        self.saks.iter().map(|sas| Report::NextPn { ki: sas.ki, next_pn: sas.next_pn }).collect()
    }

    pub(crate) fn protect(&mut self) -> Option<Protected> {
        let (ki, sci) = (self.transmits?, self.sci);
        let sas = self.find_mut(ki);
        let pn = sas.next_pn;
        sas.next_pn += 1;
        Some(Protected { ki, an: sas.an, sci, pn })
    }

    pub(crate) fn accepts(&self, frame: &Protected, key: &[u8]) -> bool {
        self.saks.iter().any(|sas| {
            sas.an == frame.an
                && sas.installed
                && sas.key == key
                && sas.receive.get(&frame.sci).is_some_and(|lowest| frame.pn >= *lowest)
        })
    }
}
